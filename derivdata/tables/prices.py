"""Prices over time: a base table that the local service serves, and the hosted service does not."""

from __future__ import annotations

from dataclasses import replace

from derivdata.tables.definition import define

__all__ = ["PRICES_HISTORY"]

_TABLE = define(
    "prices_history",
    key="symbol exchange time kind",
    rest="price_usd resolution",
    wire={"time": "timestamp", "price_usd": "y"},
    doc="Mark, index and last price of every venue over time.",
)
_KIND = replace(_TABLE.columns["kind"], doc="'mark', 'index' or 'last'.", allowed=("mark", "index", "last"))
_TIME = replace(_TABLE.columns["time"], doc="Instant of the price; where there are buckets, a bucket's end.")
_PRICE = replace(_TABLE.columns["price_usd"], positive=True)

PRICES_HISTORY = replace(
    _TABLE, columns={**_TABLE.columns, "time": _TIME, "kind": _KIND, "price_usd": _PRICE}
)
