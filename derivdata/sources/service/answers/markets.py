"""Markets: leaderboard, movers, funding leaders, one symbol, one venue, for the venues of the filter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from derivdata.sources.query import Query
from derivdata.sources.service.answers import encoding
from derivdata.sources.service.answers.encoding import FREE_SYMBOLS, Answers, RequestContext
from derivdata.sources.service.answers.oi_volume import OI, VOLUME, Measure, notices
from derivdata.sources.service.data import market, windows
from derivdata.sources.service.data.store import ClassifiedStore
from derivdata.sources.service.data.venue_totals import totals
from derivdata.sources.service.data.view import Series, View
from derivdata.sources.service.data.windows import AnswerWindow, length
from derivdata.sources.service.refusal import DOCS, Refusal, not_found, unknown_symbol

_DEV_SYMBOLS = 200
_LEADERS = 10
_MOVERS = 10
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


def symbols(context: RequestContext) -> dict[str, Any]:
    """``GET /markets/symbols``: ranked by open interest; Dev sees the first 200."""
    context.view.need("oi_history", "markets_symbol_exchanges")
    board = market.board(market.within(market.pairs(context.view), context.params["exchanges"]))
    if context.tier == "dev":
        board = board.head(_DEV_SYMBOLS)
    return {**_snapshot(context), "symbols": encoding.rows(_classified(context.view, board))}


def _classified(view: View, board: pd.DataFrame) -> pd.DataFrame:
    """Add the asset class of each symbol if the source has it."""
    if not isinstance(view.store, ClassifiedStore):
        return board
    return board.assign(asset_class=board["symbol"].astype("str").map(view.store.asset_classes()))


def price_movers(context: RequestContext) -> dict[str, Any]:
    """``GET /markets/price-movers``: largest changes in 24 hours with a volume of at least `min_value`."""
    context.view.need("markets_symbol_exchanges")
    board = market.board(market.within(market.pairs(context.view), context.params["exchanges"]))
    traded = board[board["volume_24h_usd"] >= context.params["min_value"]]
    change = traded["price_24h_change_pct"]
    limit = context.params["limit"] or _MOVERS
    return {
        **_snapshot(context),
        "gainers": _movers(traded[change > 0], limit, ascending=False),
        "losers": _movers(traded[change < 0], limit, ascending=True),
    }


def funding_leaders(context: RequestContext) -> dict[str, Any]:
    """``GET /markets/funding-leaders``: the ten pairs with the highest rate."""
    view = context.view
    venues = context.params["exchanges"]
    view.need("funding_history", "funding_settlements")
    rates = market.within(market.pairs(view), venues).dropna(subset="funding_bps_8h")
    ordered = rates.sort_values(["funding_bps_8h", "symbol", "exchange"], ascending=[False, True, True])
    top = ordered.head(_LEADERS)
    ranks = market.oi_ranks(view)
    columns = {
        "symbol": top["symbol"],
        "exchange": top["exchange"],
        "funding_current_bps": top["funding_bps_8h"],
        "oi_rank": [encoding.encode(ranks.get(symbol)) for symbol in top["symbol"]],
        "rank": pd.Series(np.arange(1, len(top) + 1)),
    }
    return {
        "timestamp": encoding.stamp(view.now),
        "exchanges_filter": None if venues is None else list(venues),
        "data": encoding.rows(columns),
    }


def price_buckets(context: RequestContext) -> dict[str, Any]:
    """``GET /markets/price-buckets``: nine buckets, highest first; an edge belongs to the bucket nearer 0."""
    context.view.need("markets_symbol_exchanges")
    board = market.board(market.within(market.pairs(context.view), context.params["exchanges"]))
    moved = board[board["price_24h_change_pct"].notna()].sort_values("symbol")
    place = _place(moved["price_24h_change_pct"].to_numpy())
    counts = []
    for number, (label, lower, upper) in reversed(list(enumerate(_BUCKETS))):
        names = moved["symbol"][place == number].tolist()
        counts.append({"label": label, "min": lower, "max": upper, "count": len(names), "symbols": names})
    return {**_snapshot(context), "buckets": counts}


def _snapshot(context: RequestContext) -> dict[str, Any]:
    """Return the time of a market snapshot and the venues of the filter, if any."""
    stamp = encoding.stamp(context.view.now)
    venues = context.params["exchanges"]
    return {"timestamp": stamp} if venues is None else {"timestamp": stamp, "exchanges_filter": list(venues)}


def exchanges(context: RequestContext) -> dict[str, Any]:
    """``GET /markets/exchanges/all``: one row per venue, largest open interest first."""
    venues = market.pairs(context.view).groupby("exchange")
    added = venues[["volume_24h_usd", "oi_usd", "liquidation_24h_usd"]].sum(min_count=1).round(2)
    rows = added.assign(symbol_count=venues.size()).reset_index()
    rows = rows.sort_values(["oi_usd", "exchange"], ascending=[False, True])
    return {"timestamp": encoding.stamp(context.view.now), "exchanges": encoding.rows(rows)}


def exchange_symbols(context: RequestContext) -> dict[str, Any]:
    """``GET /markets/exchanges/{exchange}/symbols``: one row per symbol, largest open interest first."""
    view = context.view
    exchange = context.params["exchange"]
    pairs = market.pairs(view)
    rows = pairs[pairs["exchange"] == exchange].sort_values(["oi_usd", "symbol"], ascending=[False, True])
    if rows.empty and exchange not in view.exchanges:
        raise not_found(f"unknown exchange {exchange!r}")
    columns = {"symbol": rows["symbol"], **_figures(rows)}
    return {"exchange": exchange, "timestamp": encoding.stamp(view.now), "symbols": encoding.rows(columns)}


def exchange_timeseries(context: RequestContext) -> dict[str, Any]:
    """``GET /markets/exchanges/{exchange}/timeseries``: volume and open interest of one venue."""
    view = context.view
    exchange = context.params["exchange"]
    view.need(OI.column.table, VOLUME.column.table)
    if exchange not in view.exchanges:
        raise not_found(f"unknown exchange {exchange!r}")
    window = context.window()
    measures = [measure for measure in (VOLUME, OI) if view.has(measure.column.table)]
    series, used = _at_same_resolution(context, measures, window)
    columns = {
        name: s.frame.set_index("time")["value"].astype("float64").round(2) for name, s in series.items()
    }
    joined = pd.concat(columns, axis=1, sort=True).reindex(columns=["volume_usd", "oi_usd"]).sort_index()
    joined = joined.rename_axis("timestamp").reset_index()
    return {
        "exchange": exchange,
        "range": context.params["range"],
        "data": encoding.rows(joined),
        "unit": "usd",
        "resolution": used,
        "notices": notices(window, joined, [text for s in series.values() for text in s.notices]),
    }


def symbol_exchanges(context: RequestContext) -> dict[str, Any]:
    """``GET /markets/{symbol}/exchanges``: one row per venue, largest open interest first."""
    view = context.view
    symbol = context.params["symbol"]
    pairs = market.pairs(view)
    rows = pairs[pairs["symbol"] == symbol].sort_values(["oi_usd", "exchange"], ascending=[False, True])
    if rows.empty:
        raise unknown_symbol(symbol, pairs["symbol"].unique())
    mean = rows["exchange"].map(_mean_rates(view, symbol)).astype("float64")
    columns = {"exchange": rows["exchange"], **_figures(rows), "funding_avg_7d_bps": mean.round(6)}
    return {"symbol": symbol, "timestamp": encoding.stamp(view.now), "exchanges": encoding.rows(columns)}


def symbol_stats(context: RequestContext) -> dict[str, Any]:
    """``GET /markets/{symbol}/stats``: the symbol's row of the leaderboard; Free sees BTC and ETH."""
    symbol = context.params["symbol"]
    if context.tier == "free" and symbol not in FREE_SYMBOLS:
        error = f"Free covers {' and '.join(FREE_SYMBOLS)}, not {symbol}"
        raise Refusal(403, error, required_tier="dev", docs=DOCS)
    context.view.need("oi_history", "markets_symbol_exchanges")
    board = market.board(market.pairs(context.view))
    row = _classified(context.view, board)[board["symbol"] == symbol]
    if row.empty:
        raise unknown_symbol(symbol, board["symbol"].unique())
    figures = {name: _bare(value) for name, value in row.iloc[0].items() if name != "symbol"}
    return {"symbol": symbol, "timestamp": encoding.stamp(context.view.now), **figures}


def _movers(board: pd.DataFrame, limit: int, *, ascending: bool) -> Any:
    by = ["price_24h_change_pct", "symbol"]
    top = board.sort_values(by, ascending=[ascending, True]).head(limit)
    top = top[["symbol", "price_usd", "price_24h_change_pct"]].assign(rank=np.arange(1, len(top) + 1))
    return encoding.rows(top)


def _place(change: Any) -> Any:
    """Return the number of each change's bucket in `_BUCKETS`; edges belong to the bucket nearer 0."""
    falling = np.searchsorted(_EDGES, change, side="right")
    rising = np.searchsorted(_EDGES, change, side="left") + 1
    return np.select([change < 0, change > 0], [falling, rising], _UNCHANGED)


def _figures(rows: pd.DataFrame) -> Mapping[str, Any]:
    return {name: rows[column] for name, column in _FIGURES.items()}


def _mean_rates(view: View, symbol: str) -> dict[str, float]:
    """Return the mean rate of every venue over the last 7 days [bps/8h], weighted by time."""
    if not view.has("funding_history"):
        frame = view.current("markets_symbol_exchanges", symbols=[symbol])
        return dict(zip(frame["exchange"].astype(str), frame["funding_avg_7d_bps_8h"], strict=True))
    start = view.now - _WEEK
    frame = view.rows(Query("funding_history", start - windows.HOLD, view.horizon, [symbol]))
    return windows.overall(frame, "rate_bps_8h", start, view.horizon)


def _bare(value: Any) -> Any:
    """Convert a value for msgspec, missing values to None."""
    if isinstance(value, np.generic):
        return value.item()
    return None if value is pd.NA or value != value else value


def _at_same_resolution(
    context: RequestContext, measures: Sequence[Measure], window: AnswerWindow
) -> tuple[dict[str, Series], str]:
    """Return a venue's totals at the coarsest resolution that a measure needs, and this resolution."""
    venue = [context.params["exchange"]]

    def of(measure: Measure, resolution: str | None) -> Series:
        return totals(context.view, measure.column, window, resolution, venues=venue)

    series = {m.column.value: of(m, context.params.get("resolution")) for m in measures}
    used = max((s.used for s in series.values()), key=length)
    for measure in measures:
        if series[measure.column.value].used != used:
            series[measure.column.value] = of(measure, used)
    return series, used


ANSWERS: Answers = {
    "/markets/symbols": symbols,
    "/markets/price-movers": price_movers,
    "/markets/funding-leaders": funding_leaders,
    "/markets/price-buckets": price_buckets,
    "/markets/exchanges/all": exchanges,
    "/markets/exchanges/{exchange}/symbols": exchange_symbols,
    "/markets/exchanges/{exchange}/timeseries": exchange_timeseries,
    "/markets/{symbol}/exchanges": symbol_exchanges,
    "/markets/{symbol}/stats": symbol_stats,
}
