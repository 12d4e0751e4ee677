"""Facts of venues about funding, fees and contracts: each with the day it was true and where it can be read.

They are in ``venue_facts.json``. A value is there because a venue's own answer or documentation shows it;
what no one can read again is absent, also where everybody knows it. Fees are those of an account without
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
    """One fact, of those that `_UNITS` names."""

    exchange: str
    symbol: str  # empty: all of the venue's
    fact: str
    value: float
    unit: str
    as_of: str  # the day on which it was recorded or documented
    nature: str  # an answer "recorded" by somebody, a "sample" in a client's source, or "documentation"
    source: str  # request, and where the answer can be read
    confirmed: bool  # False where one source alone says so, or two contradict each other


class _Source(msgspec.Struct):
    """What one answer or page says: figures by symbol and fact."""

    exchange: str
    as_of: str
    nature: str
    source: str
    facts: dict[str, dict[str, float]]
    confirmed: bool = True


_UNITS = {
    "interval_hours": "h",
    "rate_period_hours": "h",  # what a stated rate is quoted for, where it is not the interval
    "rate_scale": "fraction",  # what one unit of a stated rate is: 0.01 of percentage points
    "open_interest_sides": "sides",  # that stated open interest counts
    "funding_cap_bps": "bps per interval",  # of one interval's rate
    "funding_floor_bps": "bps per interval",
    "maker_fee_bps": "bps",
    "taker_fee_bps": "bps",
    "option_taker_fee_bps": "bps of the underlying",
    "option_fee_cap": "fraction of the option's price",
    "option_delivery_fee_bps": "bps of the underlying",  # of options that are delivered in the money
    "daily_option_delivery_fee_bps": "bps of the underlying",  # of those that do not expire on a Friday
    "option_averaging_minutes": "min",  # before expiry, over which the settlement price is averaged
    "future_averaging_minutes": "min",  # the same of dated futures
    "contract_coin": "coin",  # what a linear contract is of
    "contract_usd": "USD",  # what an inverse one is of
    "multiplier": "coin",  # that one unit of the symbol represents
    "stream_connections": "connections",  # WebSockets of one address
    "stream_connections_per_second": "connections/s",  # of one address
    "stream_connections_per_5_minutes": "connections/5 min",
    "stream_channels": "channels",  # of one connection
    "stream_messages_per_second": "messages/s",  # that one connection may send, subscriptions among them
    "stream_messages_per_hour": "messages/h",
    "stream_message_bytes": "bytes",
}
_SOURCES = msgspec.json.decode(Path(__file__).with_suffix(".json").read_bytes(), type=list[_Source])

FACTS = tuple(
    VenueFact(
        one.exchange, symbol, fact, value, _UNITS[fact], one.as_of, one.nature, one.source, one.confirmed
    )
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
