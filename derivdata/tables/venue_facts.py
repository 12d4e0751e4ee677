"""Facts of venues about funding, fees and contracts: each with the day it was true and where it can be read.

They stand in ``venue_facts.json``. A value is there because a venue's own answer or documentation shows it;
what nobody can read again is absent, also where everybody knows it. Fees are those of an account without
volume or discounts. Venues change all of these: the newest row that is not later than the day in question
counts.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import NamedTuple

import msgspec
import pandas as pd


class VenueFact(NamedTuple):
    """One fact.

    Attributes
    ----------
    exchange
        The venue's slug.
    symbol
        The symbol that it is about; empty: all of the venue's.
    fact
        ``interval_hours``, ``funding_cap_bps`` and ``funding_floor_bps`` (of one interval's rate),
        ``maker_fee_bps``, ``taker_fee_bps`` (of futures), ``option_taker_fee_bps``, ``option_fee_cap``,
        ``option_averaging_minutes`` (over how long before expiry the settlement price is averaged),
        ``contract_coin`` or ``contract_usd`` (what a linear or an inverse contract is of), ``multiplier``
        (coins that one unit of the symbol stands for).
    value, unit
        The figure.
    as_of
        The day on which it was recorded or documented.
    nature
        ``recorded``: an answer of the venue, kept by somebody. ``sample``: an answer that a client's source
        quotes. ``documentation``: a statement of the venue's documentation.
    source
        Request, and where the answer can be read.
    """

    exchange: str
    symbol: str
    fact: str
    value: float
    unit: str
    as_of: str
    nature: str
    source: str


class _Source(msgspec.Struct):
    """What one answer or page says: figures by symbol and fact."""

    exchange: str
    as_of: str
    nature: str
    source: str
    facts: dict[str, dict[str, float]]


_UNITS = {
    "interval_hours": "h",
    "funding_cap_bps": "bps per interval",
    "funding_floor_bps": "bps per interval",
    "maker_fee_bps": "bps",
    "taker_fee_bps": "bps",
    "option_taker_fee_bps": "bps of the underlying",
    "option_fee_cap": "fraction of the option's price",
    "option_averaging_minutes": "min",
    "contract_coin": "coin",
    "contract_usd": "USD",
    "multiplier": "coin",
}
_SOURCES = msgspec.json.decode(Path(__file__).with_suffix(".json").read_bytes(), type=list[_Source])

FACTS = tuple(
    VenueFact(one.exchange, symbol, fact, value, _UNITS[fact], one.as_of, one.nature, one.source)
    for one in _SOURCES
    for symbol, figures in one.facts.items()
    for fact, value in figures.items()
)
"""Every fact, in the order of venues."""


@cache
def fact_value(exchange: str, fact: str, symbol: str = "", day: str = "9999-12-31") -> float | None:
    """Return the newest value of a fact that was true on a day, of the symbol before that of the venue."""
    rows = [
        row
        for row in FACTS
        if row[0] == exchange and row.fact == fact and row.symbol in ("", symbol) and row.as_of <= day
    ]
    rows = [row for row in rows if row.symbol] or rows
    return max(rows, key=lambda row: row.as_of).value if rows else None


def frame() -> pd.DataFrame:
    """Return all facts as a table."""
    return pd.DataFrame(FACTS, columns=list(VenueFact._fields))
