"""Perpetuals: funding now, over time and as settled; open interest and volume of venues and symbols."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from derivdata import tables, units
from derivdata.sources import Query
from derivdata.sources.service.answers import encoding
from derivdata.sources.service.answers.encoding import FREE_SYMBOLS, Answers, RequestContext
from derivdata.sources.service.data import market
from derivdata.sources.service.data.market import totals
from derivdata.sources.service.data.store import DOCS, Refusal, bad_request, unknown_symbol
from derivdata.sources.service.data.view import StoredColumn, View
from derivdata.sources.service.data.windows import AnswerWindow
from derivdata.support import times

_UNRANKED = "500+"
_RANKED = 500
_TABLES = ("funding_history", "funding_settlements")
_MINUTES = 60


def snapshot(context: RequestContext) -> dict[str, Any]:
    """``GET /funding``: every pair with a current rate; Free sees BTC and ETH."""
    view = context.view
    view.need(*_TABLES)
    symbols = FREE_SYMBOLS if context.tier == "free" else None
    rates = market.funding_now(view, symbols)
    merged = rates.merge(
        market.intervals(view, symbols)[["symbol", "exchange", "interval_hours"]],
        on=["symbol", "exchange"],
        how="left",
        suffixes=("_settled", ""),
    ).sort_values(["exchange", "symbol"])
    stated = merged[merged["interval_hours"].notna()]
    shown = sorted(merged["symbol"].astype(str).unique())
    native = units.convert(stated["rate_bps_8h"], "bps_8h", "native", hours=stated["interval_hours"])
    raw = [encoding.encode(_decimal(rate)) for rate in native.tolist()]
    return {
        "symbols": shown,
        "exchanges": _venues(sorted(merged["exchange"].astype(str).unique())),
        "funding_rates": _by_venue(merged, encoding.tokens(merged["rate_bps_8h"])),
        "funding_rates_raw": _by_venue(stated, raw),
        "funding_intervals": _by_venue(stated, _whole(stated["interval_hours"])),
        "oi_rankings": {s: r for s, r in market.oi_ranks(view).items() if r <= _RANKED and s in shown},
        "default_oi_rank": _UNRANKED,
        "timestamp": encoding.stamp(view.now),
    }


def metadata(context: RequestContext) -> dict[str, Any]:
    """``GET /funding/metadata``: symbols and venues, each with its most common interval."""
    view = context.view
    view.need(*_TABLES)
    rates = market.funding_now(view)
    hours = market.intervals(view).groupby("exchange", observed=True)["interval_hours"]
    usual = hours.agg(lambda values: float(values.mode().iloc[0]))  # of equal counts the smallest
    venues = _venues(sorted(rates["exchange"].astype(str).unique()))
    for venue in venues["exchange_names"]:
        if venue["name"] in usual.index:
            venue["interval"] = _number(float(usual[venue["name"]]))
    return {
        "symbols": sorted(rates["symbol"].astype(str).unique()),
        "exchanges": venues,
        "timestamp": encoding.stamp(view.now),
    }


def historical(context: RequestContext) -> dict[str, Any]:
    """``GET /funding/historical``: the sampled rate of one symbol; empty for an unknown symbol."""
    view = context.view
    params = context.params
    view.need("funding_history")
    window = context.window()
    column = StoredColumn("funding_history", "rate_bps_8h")
    filters = ([params["symbol"]], params["exchanges"])
    frame, used, _ = view.series(column, window, params["resolution"], *filters)
    stamps = encoding.iso_tokens(pd.DatetimeIndex(frame["time"]))
    points = encoding.objects({"t": stamps, "timestamp": stamps, "y": frame["rate_bps_8h"]})
    return {
        "symbol": params["symbol"],
        "unit": "bps_8h",
        "resolution": used,
        "series": encoding.split(points, frame["exchange"]),
        "notices": window.notices + _no_data(context, window, "funding_history", frame),
    }


def settlement(context: RequestContext) -> dict[str, Any]:
    """``GET /funding/settlement``: the payments of one symbol."""
    view = context.view
    params = context.params
    view.need("funding_settlements")
    window = context.window()
    filters = [params["symbol"]], params["exchanges"]
    frame = view.rows(Query("funding_settlements", window.start, window.end, *filters))
    has_interval = frame["rate_bps_8h"].notna() & frame["interval_hours"].notna()
    frame = frame[has_interval | frame["rate_native"].notna()]
    stamps = encoding.iso_tokens(pd.DatetimeIndex(frame["time"]))
    fields: dict[str, Any] = {
        "t": stamps,
        "timestamp": stamps,
        "y": frame["rate_bps_8h"],
        "intervalMinutes": _whole(frame["interval_hours"] * _MINUTES),
    }
    # Fields beyond the API document, only in responses with payments that need them.
    if frame["interval_hours"].isna().any():
        fields["rateNative"] = frame["rate_native"]
    if (frame["payment_count"].fillna(1) > 1).any():
        fields["paymentCount"] = frame["payment_count"].astype("float64")
    points = encoding.objects(fields)
    return {
        "symbol": params["symbol"],
        "series": encoding.split(points, frame["exchange"]),
        "notices": window.notices + _no_data(context, window, "funding_settlements", frame),
    }


def _no_data(context: RequestContext, window: AnswerWindow, table: str, frame: pd.DataFrame) -> list[str]:
    """Return notices with the reason for an empty response."""
    if len(frame):
        return []
    view = context.view
    first = context.view.store.start
    symbol = context.params["symbol"]
    venues = context.params["exchanges"]
    since = f"historical funding starts in {first.month_name()} {first.year} ({encoding.stamp(first)} UTC)"
    if window.start > view.now:
        why = f"the window begins after the time of {view.store.label}, {encoding.stamp(view.now)} UTC"
    elif window.end <= first:
        why = since
    elif venues is None:
        why = f"{view.store.label} has no rows of {symbol} in this window; {since}"
    else:
        why = f"{view.store.label} has no rows of {symbol} on {', '.join(venues)} in this window; {since}"
    return [f"no data for this request: {why}", *context.missing(frame, window, table)]


def _decimal(rate: float) -> str:
    """Format a rate with up to 15 decimals and at least 1, as the API does."""
    text = f"{rate:.15f}".rstrip("0")
    return f"{text}0" if text.endswith(".") else text


def _venues(slugs: list[str]) -> dict[str, Any]:
    """Return the venues' slugs, and their names for display."""
    names = {s: tables.VENUES[s].display_name if s in tables.VENUES else s.upper() for s in slugs}
    return {"exchange_names": [{"name": s, "display": names[s]} for s in slugs], "exchanges": slugs}


def _by_venue(frame: pd.DataFrame, values: list[bytes]) -> dict[str, Any]:
    """Map venues to objects of symbol and token, from rows sorted by venue."""
    pairs = list(map(b"%b:%b".__mod__, zip(encoding.tokens(frame["symbol"]), values, strict=True)))
    return encoding.split(pairs, frame["exchange"], b"{%b}")


def _whole(values: pd.Series) -> list[bytes]:
    """Write numbers as tokens, integers without a fraction."""
    return [encoding.encode(_number(value)) for value in values.tolist()]


def _number(value: float) -> float | int | None:
    if value != value:
        return None
    return int(value) if value.is_integer() else value


_TOP = 50
_DAY = pd.Timedelta(1, "D")
_WEEK_DAYS = 7
_DEV_DAYS = 7
_MOST_DAYS = 365


class Measure(NamedTuple):
    """A figure: its stored column, and its wire names for a symbol (`single`) and for a venue (`total`).

    `all_contracts` is the wire name of its sum over all contracts of the symbol, which is sent if known.
    """

    column: StoredColumn
    single: str
    total: str
    all_contracts: str = ""


OI = Measure(
    StoredColumn("oi_history", "oi_usd", second="oi_all_contracts_usd"),
    "open_interest_usd",
    "total_open_interest_usd",
    "open_interest_all_contracts_usd",
)
VOLUME = Measure(StoredColumn("volume_history", "volume_usd", added=True), "volume_usd", "total_volume_usd")


def exchange_totals(context: RequestContext, measure: Measure) -> dict[str, Any]:
    """``GET /oi/exchange-totals`` and ``GET /volume/exchange-totals``."""
    context.view.need(measure.column.table)
    window = context.window()
    venues = context.params["exchanges"]
    resolution = context.params.get("resolution")
    frame, used, left_out = totals(context.view, measure.column, window, resolution, venues=venues)
    columns = {
        "timestamp": frame["time"],
        "exchange": frame["exchange"],
        measure.total: frame["value"].round(2),
        "symbol_count": frame["symbol_count"],
    }
    return {
        "data": encoding.rows(columns),
        "unit": "usd",
        "resolution": used,
        "notices": notices(window, frame, left_out),
    }


def timeseries(context: RequestContext, measure: Measure) -> dict[str, Any]:
    """``GET /oi/{symbol}/timeseries`` and ``GET /volume/{symbol}/timeseries``, by time and venue."""
    view = context.view
    params = context.params
    view.need(measure.column.table)
    symbols = view.store.symbols(measure.column.table)
    if params["symbol"] not in symbols:
        raise unknown_symbol(params["symbol"], symbols)
    window = context.window()
    filters = [params["symbol"]], params["exchanges"]
    frame, used, left_out = view.series(measure.column, window, params["resolution"], *filters)
    names = {"time": "timestamp", "exchange": "exchange", measure.column.value: measure.single}
    if measure.all_contracts and frame[measure.column.second].notna().any():
        names[measure.column.second] = measure.all_contracts
    frame = frame.sort_values(["time", "exchange"])[list(names)].rename(columns=names)
    missing = context.missing(frame, window, measure.column.table)
    return {
        "symbol": params["symbol"],
        "unit": "usd",
        "resolution": used,
        "data": encoding.rows(frame),
        "notices": notices(window, frame, left_out) + missing,
    }


def top_symbols(context: RequestContext, measure: Measure) -> dict[str, Any]:
    """``GET /oi|volume/exchange-top-symbols-timeseries``: wide rows, the largest over the window first."""
    view = context.view
    exchange = context.params["exchange"]
    view.need(measure.column.table)
    window = context.window()
    frame, used, left_out = view.series(measure.column, window, None, None, [exchange])
    values = frame[measure.column.value].to_numpy()
    # 1. Rank symbols by their sum; equal sums stay in alphabetical order.
    symbol, names = pd.factorize(frame["symbol"].astype(object), sort=True)
    largest = np.argsort(-np.bincount(symbol, values, minlength=len(names)), kind="stable")
    top = largest[: context.params["limit"] or _TOP]
    # 2. Pivot the rows of the top symbols; pd.pivot of all symbols would need far more memory.
    column = np.full(len(names), -1)
    column[top] = np.arange(len(top))
    shown = np.flatnonzero(column[symbol] >= 0)
    row, stamps = pd.factorize(frame["time"].array.asi8[shown], sort=True)
    wide = np.full((len(stamps), len(top)), np.nan)
    wide[row, column[symbol[shown]]] = values[shown]
    tokens = encoding.iso_tokens(pd.DatetimeIndex(np.asarray(stamps).view("M8[us]"), tz="UTC"))
    return {
        "exchange": exchange,
        "symbols": names[top].tolist(),
        "timeseries": encoding.array(encoding.sparse_objects(tokens, pd.DataFrame(wide, columns=names[top]))),
        "unit": "usd",
        "resolution": used,
        "notices": notices(window, wide, left_out),
    }


def notices(window: AnswerWindow, rows: Any, left_out: list[str]) -> list[str]:
    """Return notices about the window, about omitted rows, and about an empty response."""
    return window.notices + left_out + ([] if len(rows) else ["no data in this range"])


def exchanges_summary(context: RequestContext) -> dict[str, Any]:
    """``GET /oi/exchanges-summary``: changes in percent; the sparkline has one point per day and ends now."""
    view = context.view
    view.need("oi_history", "markets_symbol_exchanges")
    summary = view.once("oi_summary", lambda: _summary(view))
    total = float(summary["total_oi_usd"].sum())
    rows = dict(summary.items()) | {"sparkline_7d": summary["sparkline_7d"].tolist()}
    return {"exchanges": encoding.rows(rows), "total": len(summary), "total_market_oi": round(total, 2)}


def _summary(view: View) -> pd.DataFrame:
    """Return one row per venue, largest first, with the columns of the response."""
    past = [market.oi_at(view, view.now - back * _DAY) for back in range(_WEEK_DAYS, -1, -1)]
    days = [oi.groupby(level="exchange").sum(min_count=1) for oi in past]
    now = market.oi_at(view, view.now).rename("oi_usd").reset_index()
    now = now[now["oi_usd"] > 0].sort_values(["exchange", "oi_usd", "symbol"], ascending=[True, False, True])
    venues = now.groupby("exchange", sort=True)
    total = venues["oi_usd"].sum()
    line = pd.concat(days[1:], axis=1, sort=True).reindex(total.index).round(2)
    summary = pd.DataFrame(
        {
            "total_oi_usd": total.round(2),
            "symbol_count": venues.size(),
            "top_symbol": venues["symbol"].first(),
            "change_24h": _change(total, days[-2]),
            "change_7d": _change(total, days[0]),
            "sparkline_7d": [encoding.encode(row) for row in line.to_numpy().tolist()],
            "market_share": total / total.sum(),
        }
    ).reset_index()
    return summary.sort_values(["total_oi_usd", "exchange"], ascending=[False, True])


def _change(now: pd.Series, before: pd.Series) -> Any:
    """Return the change in percent; NaN where the value before is 0 or unknown."""
    before = before.reindex(now.index)
    return ((now / before.where(before > 0, np.nan) - 1) * 100).round(6)


def ratio(context: RequestContext) -> dict[str, Any]:
    """``GET /volume-oi-ratio``: volume of the `window_days` before each step over its open interest."""
    view = context.view
    days = context.params["window_days"]
    view.need(OI.column.table)
    view.need(VOLUME.column.table)
    if days > _MOST_DAYS:
        raise bad_request(f"window_days must be from 1 to {_MOST_DAYS}, got {days}")
    if context.tier == "dev" and days > _DEV_DAYS:
        error = f"Dev covers windows of at most {_DEV_DAYS} days, not {days}"
        raise Refusal(403, error, required_tier="pro", docs=DOCS)
    window = context.window()
    venues = context.params["exchanges"]
    oi, used, _ = totals(view, OI.column, window, context.params.get("resolution"), venues=venues)
    longer = window._replace(start=window.start - (days + 1) * _DAY)
    volume, step, left_out = totals(view, VOLUME.column, longer, "1h", venues=venues)
    volume = volume.assign(end=volume["time"] + (times.resolution(step) or pd.Timedelta(0)))
    ratios = _ratios(oi[oi["time"] >= view.store.start + days * _DAY], volume, days * _DAY)
    return {
        "data": encoding.split(encoding.objects(ratios.drop(columns="exchange")), ratios["exchange"]),
        "window_days": days,
        "notices": notices(window, ratios, left_out),
        "unit": "ratio",
        "resolution": used,
    }


def _ratios(oi: pd.DataFrame, volume: pd.DataFrame, length: pd.Timedelta) -> pd.DataFrame:
    """Return the columns of the response, sorted by venue and time."""
    ratios = oi.rename(columns={"time": "timestamp", "value": "open_interest"})
    ratios = ratios.sort_values(["exchange", "timestamp"], ignore_index=True)
    volumes = dict(iter(volume.groupby("exchange")))  # once: a mask of names per venue is slow
    traded = []
    for exchange, rows in ratios.groupby("exchange", sort=True):
        own = volumes.get(exchange, volume.iloc[:0])
        at = rows["timestamp"]
        # Volume of the steps that ended in ``(at − length, at]``, as a difference of the running sum.
        running = np.concatenate([[0.0], own["value"].astype("float64").cumsum()])
        late, early = (np.searchsorted(own["end"], t, side="right") for t in (at, at - length))
        traded.append(running[late] - running[early])
    ratios["volume"] = np.concatenate([*traded, np.array([])])
    open_interest = ratios["open_interest"].astype("float64")
    ratios["ratio"] = (ratios["volume"] / open_interest.where(open_interest > 0)).round(6)
    ratios = ratios.round({"volume": 2, "open_interest": 2})
    return ratios[["exchange", "timestamp", "ratio", "volume", "open_interest"]]


ANSWERS: Answers = {
    "/funding": snapshot,
    "/funding/metadata": metadata,
    "/funding/historical": historical,
    "/funding/settlement": settlement,
    "/oi/exchanges-summary": exchanges_summary,
    "/oi/exchange-totals": partial(exchange_totals, measure=OI),
    "/oi/{symbol}/timeseries": partial(timeseries, measure=OI),
    "/oi/exchange-top-symbols-timeseries": partial(top_symbols, measure=OI),
    "/volume/exchange-totals": partial(exchange_totals, measure=VOLUME),
    "/volume/{symbol}/timeseries": partial(timeseries, measure=VOLUME),
    "/volume/exchange-top-symbols-timeseries": partial(top_symbols, measure=VOLUME),
    "/volume-oi-ratio": ratio,
}
