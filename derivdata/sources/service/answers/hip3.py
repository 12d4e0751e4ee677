"""HIP-3 analytics: dexes that others deploy."""

from __future__ import annotations

from typing import Any

import pandas as pd

from derivdata.sources.service import json_rows
from derivdata.sources.service.answers import traders
from derivdata.sources.service.answers.context import Answers, RequestContext
from derivdata.sources.service.refusal import not_found
from derivdata.sources.service.view import View
from derivdata.sources.service.window import Window
from derivdata.support import times

__all__ = ["ANSWERS"]

_TRADERS, _CANDLES = "hip3_traders", "hip3_hourly_candles"
_LIQUIDATIONS = {"liquidation_value_usd": "liquidation_value_usd", "liquidation_count": "liquidation_count"}
_DEX = {"volume_usd": "volume", "fees_usd": "total_fees", "trade_count": "trade_count", **_LIQUIDATIONS}
_SYMBOL = {
    "volume_usd": "volume_usd",
    "trade_count": "trades",
    "deployer_fees_usd": "builder_fees_usd",
    **_LIQUIDATIONS,
}
_OVER_TIME = {"volume_usd": "volume_usd", "trade_count": "trades", "fees_usd": "fees_usd", **_LIQUIDATIONS}
_TRADER = {
    "volume_usd": "volume",
    "fees_usd": "fees_paid",
    "deployer_fees_usd": "deployer_fees_paid",
    "trade_count": "trade_count",
}
_OI = {"oi_usd": "oi_usd", "open_interest": "oi_contracts"}
_TRADERS_SHOWN = 100
_CANDLES_SHOWN = 500


def dashboard(context: RequestContext) -> dict[str, Any]:
    """``GET /hip3-analytics/dashboard``: totals, dexes, and the totals over time."""
    chosen, frame = _traded(context)
    body = {
        "summary": _summary(frame),
        "by_dex": json_rows.rows(_dexes(frame)),
        "timeseries": json_rows.rows(_series(context, frame, chosen)),
    }
    return traders.envelope(context, chosen, body)


def dex_detail(context: RequestContext) -> dict[str, Any]:
    """``GET /hip3-analytics/dex-detail``: totals, symbols and time of one dex."""
    chosen, frame = _traded(context)
    body = {
        "dex_name": context.params["dex"],
        "summary": _summary(frame),
        "by_symbol": json_rows.rows(traders.ranked(_symbols(frame), "volume_usd")),
        "timeseries": json_rows.rows(_series(context, frame, chosen)),
    }
    return traders.envelope(context, chosen, body)


def by_dex(context: RequestContext) -> dict[str, Any]:
    """``GET /hip3-analytics/by-dex``: the largest volume first."""
    chosen, frame = _traded(context)
    return traders.envelope(context, chosen, {"data": json_rows.rows(_dexes(frame))})


def by_symbol(context: RequestContext) -> dict[str, Any]:
    """``GET /hip3-analytics/by-symbol``: a row per dex and symbol, the largest volume first."""
    chosen, frame = _traded(context)
    rows = traders.ranked(_symbols(frame), "volume_usd", context.params["limit"])
    return traders.envelope(context, chosen, {"data": json_rows.rows(rows)})


def timeseries_symbol(context: RequestContext) -> dict[str, Any]:
    """``GET /hip3-analytics/timeseries/symbol``: by the hour up to a week, else by the day."""
    chosen, frame = _traded(context)
    symbol = context.params["symbol"]
    if symbol is not None:
        dex, _, name = symbol.rpartition(":")
        frame = frame[(frame["symbol"] == name) & ((frame["dex"] == dex) | (dex == ""))]
        _require(name in _names(context.view, "symbol"), f"unknown symbol {symbol!r}")
    return traders.envelope(
        context, chosen, {"symbol": symbol, "data": json_rows.rows(_series(context, frame, chosen))}
    )


def timeseries_dex_breakdown(context: RequestContext) -> dict[str, Any]:
    """``GET /hip3-analytics/timeseries/dex-breakdown``: volume of a dex's symbols, or of every dex."""
    chosen, frame = _traded(context)
    column = "dex" if context.params["dex"] is None else "symbol"
    added = traders.sums(
        traders.steps(context, frame, chosen), ["timestamp", column], {"volume_usd": "volume"}
    )
    wide = added.pivot(index="timestamp", columns=column, values="volume")
    wide = wide[sorted(wide.columns)]
    stamps = json_rows.iso_tokens(pd.DatetimeIndex(wide.index))
    body = {
        "symbols": [*map(str, wide.columns)],
        "data": json_rows.array(json_rows.sparse_objects(stamps, wide)),
    }
    return traders.envelope(context, chosen, body)


def leaderboard(context: RequestContext) -> dict[str, Any]:
    """``GET /hip3-analytics/leaderboard``: addresses by volume."""
    chosen, frame = _traded(context)
    rows = traders.sums(frame, ["address"], _TRADER)
    kinds = frame.drop_duplicates(["address", "dex", "symbol"]).groupby("address", observed=True).size()
    rows["symbols_traded"] = rows["address"].map(kinds).astype("int64")
    shown = traders.ranked(rows, "volume", context.params["limit"] or _TRADERS_SHOWN)
    return traders.envelope(context, chosen, {"data": json_rows.rows(shown), "total_traders": len(rows)})


def oi_trends_total(context: RequestContext) -> dict[str, Any]:
    """``GET /hip3-analytics/oi-trends/total``: the last of every day, in all and by dex."""
    chosen, last = _daily_oi(context)
    body = {
        "data": json_rows.rows(traders.sums(last, ["day"], _OI)),
        "by_dex": traders.by_key(traders.sums(last, ["dex", "day"], _OI), "dex"),
    }
    return traders.envelope(context, chosen, body)


def oi_trends_dex(context: RequestContext) -> dict[str, Any]:
    """``GET /hip3-analytics/oi-trends/dex``: the last of every day, of one dex and of its symbols."""
    chosen, last = _daily_oi(context)
    symbols = traders.by_key(traders.sums(last, ["symbol", "day"], _OI), "symbol")
    body = {
        "dex_name": context.params["dex"],
        "aggregate": json_rows.rows(traders.sums(last, ["day"], _OI)),
        "symbols": list(symbols),
        "by_symbol": symbols,
    }
    return traders.envelope(context, chosen, body)


def candles(context: RequestContext) -> dict[str, Any]:
    """``GET /hip3-analytics/candles``: the newest of the window, 500 unless `limit` says otherwise."""
    view, params = context.view, context.params
    dex, _, symbol = params["coin"].rpartition(":")
    _require(
        (dex, symbol) in _coins(view), f"unknown coin {params['coin']!r}; coins are written like xyz:TSLA"
    )
    step, limit = times.RESOLUTIONS[params["interval"]], params["limit"] or _CANDLES_SHOWN
    chosen = context.window()
    if params["range"] is None and params["start"] is None:
        first = (chosen.end - step * limit).floor(step)
        chosen = context.window({**params, "start": first})
    whole = chosen._replace(start=chosen.start.ceil(step), end=chosen.end.ceil(step))
    prices, volume = (
        frame[(frame["dex"] == dex) & (frame["symbol"] == symbol)]
        for frame in (traders.read_past(view, table, whole) for table in (_CANDLES, _TRADERS))
    )
    rows = _bars(prices, volume, step).tail(limit)
    body = {"coin": params["coin"], "interval": params["interval"], "data": json_rows.rows(rows)}
    return traders.envelope(context, chosen, body) | {"period": params["range"], "range": params["range"]}


def _traded(context: RequestContext) -> tuple[Window, pd.DataFrame]:
    """Single traders in the window, of the dex that is asked for."""
    chosen = context.window()
    frame = traders.read_past(context.view, _TRADERS, chosen)
    return chosen, _of_dex(context, frame)


def _daily_oi(context: RequestContext) -> tuple[Window, pd.DataFrame]:
    """Open interest at the end of every day, and now for the day that has not ended."""
    chosen = context.window()
    frame = _of_dex(context, traders.read_past(context.view, _CANDLES, chosen))
    return chosen, traders.newest_per_day(frame, ["dex", "symbol"])


def _of_dex(context: RequestContext, frame: pd.DataFrame) -> pd.DataFrame:
    dex = context.params.get("dex")
    if dex is None:
        return frame
    _require(dex in _names(context.view, "dex"), f"unknown dex {dex!r}")
    return frame[frame["dex"] == dex]


def _summary(frame: pd.DataFrame) -> dict[str, Any]:
    return traders.summary(frame, _DEX) | {"unique_users": int(frame["address"].nunique())}


def _dexes(frame: pd.DataFrame) -> pd.DataFrame:
    rows = traders.sums(frame, ["dex"], _DEX).rename(columns={"dex": "dex_name"})
    users = frame.groupby("dex", observed=True)["address"].nunique()
    return traders.ranked(rows.assign(unique_users=users.to_numpy()), "volume")


def _symbols(frame: pd.DataFrame) -> pd.DataFrame:
    rows = traders.sums(frame, ["symbol", "dex"], _SYMBOL)
    users = frame.groupby(["symbol", "dex"], observed=True)["address"].nunique()
    return rows.assign(unique_users=users.to_numpy())


def _series(context: RequestContext, frame: pd.DataFrame, chosen: Window) -> pd.DataFrame:
    return traders.sums(traders.steps(context, frame, chosen), ["timestamp"], _OVER_TIME)


def _bars(prices: pd.DataFrame, volume: pd.DataFrame, step: pd.Timedelta) -> pd.DataFrame:
    bars = prices.groupby(prices["time"].dt.floor(step)).agg(
        open=("open_usd", "first"),
        high=("high_usd", "max"),
        low=("low_usd", "min"),
        close=("close_usd", "last"),
    )
    traded = volume.groupby(volume["time"].dt.floor(step))["volume_usd"].sum().round(2)
    bars["volume"] = traded.reindex(bars.index, fill_value=0.0)
    return bars.rename_axis("timestamp").reset_index()


def _coins(view: View) -> frozenset[tuple[str, str]]:
    """Return every dex and symbol in the store."""
    view.need(_CANDLES)

    def markets() -> frozenset[tuple[str, str]]:
        frame = view.read(_CANDLES, view.store.start, view.horizon)
        pairs = frame[["dex", "symbol"]].drop_duplicates()
        return frozenset(zip(pairs["dex"].astype(str), pairs["symbol"].astype(str), strict=True))

    return view.once("hip3 coins", markets)


def _names(view: View, column: str) -> frozenset[str]:
    place = ("dex", "symbol").index(column)
    return frozenset(coin[place] for coin in _coins(view))


def _require(exists: bool, otherwise: str) -> None:
    if not exists:
        raise not_found(otherwise)


ANSWERS: Answers = {
    "/hip3-analytics/dashboard": dashboard,
    "/hip3-analytics/dex-detail": dex_detail,
    "/hip3-analytics/by-dex": by_dex,
    "/hip3-analytics/by-symbol": by_symbol,
    "/hip3-analytics/timeseries/symbol": timeseries_symbol,
    "/hip3-analytics/timeseries/dex-breakdown": timeseries_dex_breakdown,
    "/hip3-analytics/leaderboard": leaderboard,
    "/hip3-analytics/oi-trends/total": oi_trends_total,
    "/hip3-analytics/oi-trends/dex": oi_trends_dex,
    "/hip3-analytics/candles": candles,
}
