"""Market snapshots: leaderboard, movers, leaders. Every figure is made over the venues of the filter."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from derivdata.service import market, wire
from derivdata.service.answers.asking import Ask

__all__ = ["funding_leaders", "price_movers", "symbols"]

_DEV_SYMBOLS = 200
_LEADERS = 10
_MOVERS = 10


def symbols(ask: Ask) -> dict[str, Any]:
    """``GET /markets/symbols``: ranked by open interest; Dev sees the first 200."""
    ask.view.need("oi_history", "markets_symbol_exchanges")
    board = market.board(market.within(market.pairs(ask.view), ask.params["exchanges"]))
    if ask.tier == "dev":
        board = board.head(_DEV_SYMBOLS)
    return {"timestamp": wire.stamp(ask.view.now), "symbols": wire.rows(board)}


def price_movers(ask: Ask) -> dict[str, Any]:
    """``GET /markets/price-movers``: largest changes of 24 hours among what is traded enough."""
    ask.view.need("markets_symbol_exchanges")
    board = market.board(market.within(market.pairs(ask.view), ask.params["exchanges"]))
    traded = board[board["volume_24h_usd"] >= ask.params["min_value"]]
    change = traded["price_24h_change_pct"]
    limit = ask.params["limit"] or _MOVERS
    return {
        "timestamp": wire.stamp(ask.view.now),
        "gainers": _movers(traded[change > 0], limit, ascending=False),
        "losers": _movers(traded[change < 0], limit, ascending=True),
    }


def funding_leaders(ask: Ask) -> dict[str, Any]:
    """``GET /markets/funding-leaders``: the ten pairs with the highest rate."""
    view, chosen = ask.view, ask.params["exchanges"]
    view.need("funding_history", "funding_settlements")
    rates = market.within(market.pairs(view), chosen).dropna(subset="funding_bps_8h")
    top = rates.sort_values(["funding_bps_8h", "symbol", "exchange"], ascending=[False, True, True]).head(
        _LEADERS
    )
    ranks = market.oi_ranks(view)
    columns = {
        "symbol": top["symbol"],
        "exchange": top["exchange"],
        "funding_current_bps": top["funding_bps_8h"],
        "oi_rank": [wire.encode(ranks.get(symbol)) for symbol in top["symbol"]],
        "rank": pd.Series(np.arange(1, len(top) + 1)),
    }
    return {
        "timestamp": wire.stamp(view.now),
        "exchanges_filter": None if chosen is None else list(chosen),
        "data": wire.rows(columns),
    }


def _movers(board: pd.DataFrame, limit: int, *, ascending: bool) -> Any:
    by = ["price_24h_change_pct", "symbol"]
    top = board.sort_values(by, ascending=[ascending, True]).head(limit)
    top = top[["symbol", "price_usd", "price_24h_change_pct"]].assign(rank=np.arange(1, len(top) + 1))
    return wire.rows(top)
