"""Rules about impossible figures: what no market has, whatever was requested."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from derivdata.client.reading import Evidence
from derivdata.client.rules.definition import rule
from derivdata.support.arrays import Array
from derivdata.tables import COLUMNS

__all__ = ["SHARES_TOLERANCE", "book_prices"]

_LONGEST_INTERVAL_HOURS = 168.0
SHARES_TOLERANCE = 0.02
"""How far rounded market shares may be beyond 1, alone or added up."""

_COUNTED = re.compile(r"(.*_)?(volume|oi|contracts|count|trades|open|high|low|close|users|traders)(_usd)?")
"""Names of fields that count something, in payloads that no document describes."""


@rule(
    "impossible figure",
    "open interest, volume, size, price, strike, volatility or count below zero; a price over time of 0",
    "error",
    columns=" ".join(name for name, column in COLUMNS.items() if column.least is not None),
)
def below_least(e: Evidence) -> Iterator[str]:
    """Compare each figure with the smallest that is possible."""
    for name in e.columns:
        column = None if e.table is None else e.table.columns.get(name, COLUMNS.get(name))
        least = _open_least(name, e.columns) if column is None else column.least
        numbers = None if least is None else e.numbers(name)
        if numbers is None:
            continue
        if (numbers < least).any():
            yield f"{name} is {np.nanmin(numbers):g}; it cannot be below {least:g}"
        elif column is not None and column.positive and (numbers == 0.0).any():
            yield f"{name} is 0; it must be above 0"


def _open_least(name: str, columns: Mapping[str, Any]) -> float | None:
    """Return the smallest number of a field that no document fixes, by its name."""
    numeric = getattr(columns[name], "dtype", None) == np.float64
    return 0.0 if numeric and _COUNTED.fullmatch(name) else None


@rule(
    "impossible interval",
    "an interval that is not above 0 or is above a week",
    "error",
    columns="interval_hours",
)
def intervals(e: Evidence) -> Iterator[str]:
    """Refuse an interval between payments that no venue has."""
    hours = e.numbers("interval_hours")
    if hours is None or not hours.size:
        return
    wrong = hours[(hours <= 0) | (hours > _LONGEST_INTERVAL_HOURS)]
    if wrong.size:
        yield f"an interval is {wrong[0]:g} hours; it must be above 0 and at most {_LONGEST_INTERVAL_HOURS:g}"


@rule("shares in percent", "market shares above 1", "error", columns="market_share")
def percent_shares(e: Evidence) -> Iterator[str]:
    """Refuse market shares in percent."""
    shares = e.numbers("market_share")
    if shares is not None and (shares > 1 + SHARES_TOLERANCE).any():
        yield f"a market share is {np.nanmax(shares):g}; the document's are fractions from 0 to 1"


@rule("unsorted book", "prices of a side, from the best", "error", columns="level")
def book_order(e: Evidence) -> Iterator[str]:
    """Refuse a side of a book whose levels are not in the order of their prices."""
    for side, sign in (("bid", -1.0), ("ask", 1.0)):
        prices = book_prices(e, side)
        if prices is not None and (np.diff(sign * prices) < 0).any():
            yield f"the {side}s are not sorted from the best price"


def book_prices(e: Evidence, side: str) -> Array | None:
    """Return the prices of a book's side as the answer lists them; None where it is no book."""
    if "level" not in e.columns:
        return None
    prices = np.asarray(e.columns["price_usd"], dtype=np.float64)
    return np.asarray(prices[np.asarray(e.columns["side"] == side)])
