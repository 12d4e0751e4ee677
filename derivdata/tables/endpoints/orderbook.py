"""Endpoints of order books."""

from __future__ import annotations

from derivdata.tables.endpoints.model import Endpoint
from derivdata.tables.endpoints.params import EXCHANGE, LIMIT, NOT_BOTH, RESOLUTION, SYMBOL, WINDOW

ORDERBOOK_BOOK = Endpoint(
    "/orderbook/book",
    "dev",
    "orderbook_book",
    "Order book of one symbol on one venue.",
    params=(SYMBOL, EXCHANGE, LIMIT),
    fresh_seconds=5.0,
)
ORDERBOOK_DEPTH_HISTORY = Endpoint(
    "/orderbook/depth-history",
    "dev",
    "orderbook_depth_history",
    "Depth within 10, 25, 50 and 100 bps of the mid price over time.",
    params=(SYMBOL, EXCHANGE, *WINDOW, RESOLUTION),
    exclusive=NOT_BOTH,
    unit="usd",
)
