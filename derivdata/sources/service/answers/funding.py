"""Funding: snapshot, metadata, history, settlements."""

from __future__ import annotations

from typing import Any

import pandas as pd

from derivdata import tables, units
from derivdata.sources.query import Query
from derivdata.sources.service.answers import encoding
from derivdata.sources.service.answers.encoding import FREE_SYMBOLS, Answers, RequestContext
from derivdata.sources.service.data import market
from derivdata.sources.service.data.view import StoredColumn
from derivdata.sources.service.data.windows import AnswerWindow

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


ANSWERS: Answers = {
    "/funding": snapshot,
    "/funding/metadata": metadata,
    "/funding/historical": historical,
    "/funding/settlement": settlement,
}
