"""Order books: the newest, and depth over time. The document describes neither; this shape is ours."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from derivdata.service import buckets, wire
from derivdata.service.answers.asking import Ask
from derivdata.service.refusal import bad_request, not_found
from derivdata.service.view import View

__all__ = ["book", "depth_history"]

_DEPTHS = (10, 25, 50, 100)


def book(ask: Ask) -> dict[str, Any]:
    """``GET /orderbook/book``: the newest book, at most an hour old, as pairs of price and size."""
    view, asked = ask.view, ask.params
    _require(view, "orderbook_book", asked["symbol"], asked["exchange"])
    levels = view.store.latest(
        "orderbook_book",
        view.now,
        within=buckets.HOLD,
        symbols=[asked["symbol"]],
        exchanges=[asked["exchange"]],
    )
    if levels.empty:
        raise not_found(f"no book of {asked['symbol']} on {asked['exchange']} now")
    taken = levels["time"].max()
    levels = levels[levels["time"] == taken].sort_values("level")
    sides = {
        side: levels[levels["side"] == side].head(asked["limit"] or len(levels)) for side in ("bid", "ask")
    }
    return {
        "symbol": asked["symbol"],
        "exchange": asked["exchange"],
        "timestamp": wire.stamp(taken),
        **{f"{s}s": np.column_stack([f["price_usd"], f["size"]]).tolist() for s, f in sides.items()},
    }


def depth_history(ask: Ask) -> dict[str, Any]:
    """``GET /orderbook/depth-history``: value within 10, 25, 50 and 100 bps of the middle, by side."""
    view, asked = ask.view, ask.params
    _require(view, "orderbook_depth_history", asked["symbol"], asked["exchange"])
    window = view.window(asked, ask.tier)
    frame, used = view.around(
        "orderbook_depth_history",
        window,
        asked["resolution"],
        symbols=[asked["symbol"]],
        exchanges=[asked["exchange"]],
    )
    parts = {}
    for depth in _DEPTHS:
        one = frame[frame["depth_bps"] == depth]
        for column in ("bid_depth_usd", "ask_depth_usd"):
            found = view.combined(one, column, window, used).set_index("time")[column]
            parts[column.replace("depth", f"depth_{depth}bps")] = found.round(2)
    joined = pd.concat(parts, axis=1, sort=True).sort_index().rename_axis("timestamp").reset_index()
    return {
        "symbol": asked["symbol"],
        "exchange": asked["exchange"],
        "data": wire.rows(joined),
        "unit": "usd",
        "resolution": used,
        "notices": window.notices + ([] if len(joined) else ["no data in this range"]),
    }


def _require(view: View, table: str, symbol: str, exchange: str) -> None:
    view.need(table)
    if exchange not in view.exchanges:
        raise bad_request(f"exchange={exchange!r} is not an exchange; slugs are lower case, like 'binance'")
    if symbol not in view.store.symbols(table):
        raise not_found(f"unknown symbol {symbol!r}")
