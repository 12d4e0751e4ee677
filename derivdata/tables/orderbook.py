"""Tables of order books."""

from __future__ import annotations

from derivdata.tables.definition import define

ORDERBOOK_BOOK = define(
    "orderbook_book",
    key="symbol exchange time side level",
    rest="price_usd size",
    side="bid ask",
    wire={"time": "timestamp"},
    doc="Order book of one symbol on one venue; side is 'bid' or 'ask'.",
)
ORDERBOOK_DEPTH_HISTORY = define(
    "orderbook_depth_history",
    key="symbol exchange time depth_bps",
    rest="bid_depth_usd ask_depth_usd resolution",
    wire={"time": "timestamp"},
    optional="resolution",
    doc="Value bid and offered near the mid price over time, one row per distance.",
)
