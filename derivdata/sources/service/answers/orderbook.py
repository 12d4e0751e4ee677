"""Order books: the newest, and depth over time. The document describes neither; this shape is ours."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from derivdata.sources.service import buckets, json_rows
from derivdata.sources.service.answers.context import Answers, RequestContext
from derivdata.sources.service.refusal import not_found
from derivdata.sources.service.view import View

__all__ = ["ANSWERS"]

_DEPTHS = (10, 25, 50, 100)


def book(context: RequestContext) -> dict[str, Any]:
    """``GET /orderbook/book``: the newest book, at most an hour old, as pairs of price and size."""
    view, params = context.view, context.params
    _require(view, "orderbook_book", params["symbol"], params["exchange"])
    levels = view.latest(
        "orderbook_book",
        view.now,
        within=buckets.HOLD,
        symbols=[params["symbol"]],
        venues=[params["exchange"]],
    )
    if levels.empty:
        raise not_found(f"no book of {params['symbol']} on {params['exchange']} now")
    taken = levels["time"].max()
    levels = levels[levels["time"] == taken].sort_values("level")
    sides = {
        side: levels[levels["side"] == side].head(params["limit"] or len(levels)) for side in ("bid", "ask")
    }
    return {
        "symbol": params["symbol"],
        "exchange": params["exchange"],
        "timestamp": json_rows.stamp(taken),
        **{f"{s}s": np.column_stack([f["price_usd"], f["size"]]).tolist() for s, f in sides.items()},
    }


def depth_history(context: RequestContext) -> dict[str, Any]:
    """``GET /orderbook/depth-history``: value within 10, 25, 50 and 100 bps of the middle, by side."""
    view, params = context.view, context.params
    _require(view, "orderbook_depth_history", params["symbol"], params["exchange"])
    window = context.window()
    frame, used = view.around(
        "orderbook_depth_history",
        window,
        params["resolution"],
        symbols=[params["symbol"]],
        venues=[params["exchange"]],
    )
    parts = {}
    for depth in _DEPTHS:
        one = frame[frame["depth_bps"] == depth]
        for column in ("bid_depth_usd", "ask_depth_usd"):
            values = view.combined(one, column, window, used).set_index("time")[column]
            parts[column.replace("depth", f"depth_{depth}bps")] = values.round(2)
    joined = pd.concat(parts, axis=1, sort=True).sort_index().rename_axis("timestamp").reset_index()
    return {
        "symbol": params["symbol"],
        "exchange": params["exchange"],
        "data": json_rows.rows(joined),
        "unit": "usd",
        "resolution": used,
        "notices": window.notices + ([] if len(joined) else ["no data in this range"]),
    }


def _require(view: View, table: str, symbol: str, exchange: str) -> None:
    view.need(table)
    if symbol not in view.store.symbols(table):
        raise not_found(f"unknown symbol {symbol!r}")


ANSWERS: Answers = {
    "/orderbook/book": book,
    "/orderbook/depth-history": depth_history,
}
