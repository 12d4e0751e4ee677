"""Order books as tables: their levels, and the value within some distances of the mid price."""

from __future__ import annotations

from typing import Any

from derivdata import units
from derivdata.sources.venues.record_types import Records
from derivdata.sources.venues.wire import stamps
from derivdata.tables.schema import repeated

__all__ = ["books", "depths"]


def __dir__() -> list[str]:
    return __all__


_DEPTHS = (10.0, 25.0, 50.0, 100.0)


def books(records: Records, at: int | None) -> dict[str, Any]:
    """Return the columns of ``orderbook_book``: the levels of each side, the best first."""
    rows = [
        (book, side, level, price, size)
        for book in records.books
        for side, levels in (("bid", book.bids), ("ask", book.asks))
        for level, (price, size) in enumerate(levels, 1)
    ]
    return {
        "symbol": [row[0].instrument.symbol for row in rows],
        "time": stamps([row[0].time for row in rows], at),
        "side": [row[1] for row in rows],
        "level": [row[2] for row in rows],
        "price_usd": [row[3] for row in rows],
        "size": [row[4] for row in rows],
    }


def depths(records: Records, at: int | None) -> dict[str, Any]:
    """Return the columns of ``orderbook_depth_history``; a side that ends before a distance is missing."""
    rows = []
    for book in records.books:
        if not book.bids or not book.asks:
            continue
        mid = (book.bids[0][0] + book.asks[0][0]) / 2
        for depth in _DEPTHS:
            bids, asks = (_within(levels, mid, depth) for levels in (book.bids, book.asks))
            rows.append((book, depth, bids, asks))
    return {
        "symbol": [row[0].instrument.symbol for row in rows],
        "time": stamps([row[0].time for row in rows], at),
        "depth_bps": [row[1] for row in rows],
        "bid_depth_usd": [row[2] for row in rows],
        "ask_depth_usd": [row[3] for row in rows],
        "resolution": repeated("raw", len(rows)),
    }


def _within(levels: list[tuple[float, float | None]], mid: float, depth_bps: float) -> float | None:
    if abs(levels[-1][0] / mid - 1) * units.BPS < depth_bps:
        return None
    near = [(price, size) for price, size in levels if abs(price / mid - 1) * units.BPS <= depth_bps]
    return None if any(size is None for _, size in near) else sum(p * s for p, s in near if s is not None)
