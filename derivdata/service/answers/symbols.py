"""One symbol, one venue, and how all of them moved: market snapshots of section 4.10."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from derivdata.service import buckets, market, wire
from derivdata.service.answers.asking import Ask
from derivdata.service.refusal import DOCS, Refusal, not_found
from derivdata.service.view import View

__all__ = ["bucket_of", "exchange_symbols", "exchanges", "price_buckets", "symbol_exchanges", "symbol_stats"]

_FREE_SYMBOLS = ("BTC", "ETH")
_EDGES = (-20.0, -10.0, -5.0, 0.0, 5.0, 10.0, 20.0)
_BUCKETS: tuple[tuple[str, float | None, float | None], ...] = (
    ("<-20%", None, -20.0),
    ("<-10%", -20.0, -10.0),
    ("-10..-5%", -10.0, -5.0),
    ("-5..0%", -5.0, 0.0),
    ("0%", 0.0, 0.0),
    ("0..5%", 0.0, 5.0),
    ("5..10%", 5.0, 10.0),
    (">10%", 10.0, 20.0),
    (">20%", 20.0, None),
)
_UNCHANGED = 4
_WEEK = pd.Timedelta(7, "D")
_FIGURES = {
    "price_usd": "price_usd",
    "price_24h_change_pct": "price_24h_change_pct",
    "volume_24h_usd": "volume_24h_usd",
    "oi_usd": "oi_usd",
    "funding_current_bps": "funding_bps_8h",
    "liquidation_24h_usd": "liquidation_24h_usd",
}


def price_buckets(ask: Ask) -> dict[str, Any]:
    """``GET /markets/price-buckets``: nine buckets from the top; an edge belongs to the one nearer to 0."""
    ask.view.need("markets_symbol_exchanges")
    board = market.board(market.within(market.pairs(ask.view), ask.params["exchanges"]))
    moved = board[board["price_24h_change_pct"].notna()].sort_values("symbol")
    place = _place(moved["price_24h_change_pct"].to_numpy())
    found = []
    for i, (label, lower, upper) in reversed(list(enumerate(_BUCKETS))):
        names = moved["symbol"][place == i].tolist()
        found.append({"label": label, "min": lower, "max": upper, "count": len(names), "symbols": names})
    return {"timestamp": wire.stamp(ask.view.now), "buckets": found}


def symbol_stats(ask: Ask) -> dict[str, Any]:
    """``GET /markets/{symbol}/stats``: the symbol's row of the leaderboard; Free sees BTC and ETH."""
    symbol = ask.params["symbol"]
    if ask.tier == "free" and symbol not in _FREE_SYMBOLS:
        error = f"Free covers {' and '.join(_FREE_SYMBOLS)}, not {symbol}"
        raise Refusal(403, error, required_tier="dev", docs=DOCS)
    ask.view.need("oi_history", "markets_symbol_exchanges")
    board = market.board(market.pairs(ask.view))
    row = board[board["symbol"] == symbol]
    if row.empty:
        raise not_found(f"unknown symbol {symbol!r}")
    figures = {name: _bare(value) for name, value in row.iloc[0].items() if name != "symbol"}
    return {"symbol": symbol, "timestamp": wire.stamp(ask.view.now), **figures}


def symbol_exchanges(ask: Ask) -> dict[str, Any]:
    """``GET /markets/{symbol}/exchanges``: one row per venue, the most open interest first."""
    view, symbol = ask.view, ask.params["symbol"]
    pairs = market.pairs(view)
    rows = pairs[pairs["symbol"] == symbol].sort_values(["oi_usd", "exchange"], ascending=[False, True])
    if rows.empty:
        raise not_found(f"unknown symbol {symbol!r}")
    mean = rows["exchange"].map(_mean_rates(view, symbol)).astype("float64")
    columns = {"exchange": rows["exchange"], **_figures(rows), "funding_avg_7d_bps": mean.round(6)}
    return {"symbol": symbol, "timestamp": wire.stamp(view.now), "exchanges": wire.rows(columns)}


def exchange_symbols(ask: Ask) -> dict[str, Any]:
    """``GET /markets/exchanges/{exchange}/symbols``: one row per symbol, the most open interest first."""
    view, exchange = ask.view, ask.params["exchange"]
    pairs = market.pairs(view)
    rows = pairs[pairs["exchange"] == exchange].sort_values(["oi_usd", "symbol"], ascending=[False, True])
    if rows.empty and exchange not in view.exchanges:
        raise not_found(f"unknown exchange {exchange!r}")
    columns = {"symbol": rows["symbol"], **_figures(rows)}
    return {"exchange": exchange, "timestamp": wire.stamp(view.now), "symbols": wire.rows(columns)}


def exchanges(ask: Ask) -> dict[str, Any]:
    """``GET /markets/exchanges/all``: one row per venue, the most open interest first."""
    venues = market.pairs(ask.view).groupby("exchange")
    added = venues[["volume_24h_usd", "oi_usd", "liquidation_24h_usd"]].sum(min_count=1).round(2)
    rows = added.assign(symbol_count=venues.size()).reset_index()
    rows = rows.sort_values(["oi_usd", "exchange"], ascending=[False, True])
    return {"timestamp": wire.stamp(ask.view.now), "exchanges": wire.rows(rows)}


def bucket_of(change: float) -> str:
    """Label of the bucket of a change [%]."""
    return _BUCKETS[int(_place(np.array([change]))[0])][0]


def _place(change: Any) -> Any:
    """Number of each change's bucket."""
    falling = np.searchsorted(_EDGES, change, side="right")
    rising = np.searchsorted(_EDGES, change, side="left") + 1
    return np.where(change < 0, falling, np.where(change > 0, rising, _UNCHANGED))


def _figures(rows: pd.DataFrame) -> Mapping[str, Any]:
    return {name: rows[column] for name, column in _FIGURES.items()}


def _mean_rates(view: View, symbol: str) -> dict[str, float]:
    """Rate of every venue over the last 7 days [bps/8h], weighted by time."""
    if not view.has("funding_history"):
        frame = view.current("markets_symbol_exchanges", symbols=[symbol])
        return dict(zip(frame["exchange"].astype(str), frame["funding_avg_7d_bps_8h"], strict=True))
    start = view.now - _WEEK
    frame = view.read("funding_history", start - buckets.HOLD, view.horizon, symbols=[symbol])
    return buckets.overall(frame, "rate_bps_8h", start, view.horizon)


def _bare(value: Any) -> Any:
    """A value that msgspec knows, missing text as null."""
    if isinstance(value, np.generic):
        return value.item()
    return None if value is pd.NA or value != value else value
