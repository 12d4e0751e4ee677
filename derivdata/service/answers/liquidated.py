"""Liquidated value over time, and by group."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import pandas as pd

from derivdata import times
from derivdata.service import fills, span, wire
from derivdata.service.answers.asking import Ask
from derivdata.service.totals import days
from derivdata.service.view import View

__all__ = ["aggregates", "history"]

_DAY = pd.Timedelta(1, "D")
_FIGURES = ("long_count", "short_count", "long_usd", "short_usd", "total_count", "total_usd")


def history(ask: Ask) -> dict[str, Any]:
    """``GET /liquidations/history``: buckets of a day, of an hour for windows under a day."""
    view, asked = ask.view, ask.params
    view.need(*fills.TABLES)
    window = view.window(asked, ask.tier)
    used = asked["resolution"] or ("1h" if window.asked < _DAY else "1d")
    used = "1m" if used == "raw" else used
    found = _history(view, window, used, asked["symbol"])
    venues = wire.objects(found[["long_usd", "short_usd"]])
    named = list(map(b"%b:%b".__mod__, zip(wire.tokens(found["exchange"]), venues, strict=True)))
    stamps = pd.Series(wire.iso_tokens(pd.DatetimeIndex(found["time"])), dtype=object)
    dates = wire.split(named, stamps.str.decode("ascii"), b"{%b}")
    rows = [{"date": date.strip('"'), "exchanges": exchanges} for date, exchanges in dates.items()]
    notices = window.notices + ([] if rows else ["no liquidations in this range"])
    return {"data": rows, "unit": "usd", "resolution": used, "notices": notices}


def aggregates(ask: Ask) -> dict[str, Any]:
    """``GET /liquidations/aggregates``: orders of the last hours, the largest group first."""
    view, asked = ask.view, ask.params
    view.need(*fills.TABLES)
    length = times.lookback(asked["range"]) or _DAY
    orders = fills.events(view, view.now - length, view.horizon)
    by = asked["group_by"].split("_")
    names = orders[by].astype(object).agg(":".join, axis=1) if len(orders) else pd.Series(dtype=object)
    groups = _counted(orders, names).sort_values(["total_usd", "name"], ascending=[False, True])
    totals = _counted(orders, pd.Series("all", index=orders.index, dtype=object))
    none = dict.fromkeys(_FIGURES, 0)
    return {
        "period": asked["range"],
        "range": asked["range"],
        "group_by": asked["group_by"],
        "totals": totals[list(_FIGURES)].to_dict("records")[0] if len(totals) else none,
        "groups": wire.rows(groups),
        "largest": groups[["name", "total_usd"]].to_dict("records")[0] if len(groups) else None,
    }


def _history(view: View, window: span.Span, step: str, symbols: Sequence[str] | None) -> pd.DataFrame:
    """Value by bucket, venue and side, read a day at a time; buckets whose start lies in the window."""
    parts = [
        view.once(
            f"liquidated {day.start} {day.end} {step} {symbols}", partial(_day, view, day, step, symbols)
        )
        for day in days(window._replace(end=min(window.end, view.horizon)))
    ]
    found = [part for part in parts if len(part)]
    empty = pd.DataFrame(columns=["time", "exchange", "long_usd", "short_usd"])
    return pd.concat(found, ignore_index=True) if found else empty


def _day(view: View, window: span.Span, step: str, symbols: Sequence[str] | None) -> pd.DataFrame:
    length = times.RESOLUTIONS[step]
    start, end = (stamp.ceil(length) for stamp in (window.start, window.end))
    orders = fills.events(view, start, end, symbols=symbols)
    bucket = orders["time"].dt.floor(length)
    sums = orders.groupby([bucket, "exchange", "side"], observed=True)["value_usd"].sum().unstack("side")
    sums = sums.reindex(columns=["long", "short"]).fillna(0.0).round(2)
    return sums.add_suffix("_usd").reset_index().astype({"exchange": object})


def _counted(orders: pd.DataFrame, names: pd.Series) -> pd.DataFrame:
    """Number and value of orders by side and in total, a row per name."""
    is_long = (orders["side"] == "long").to_numpy()
    value = orders["value_usd"]
    columns = {
        "name": names,
        "long_count": is_long.astype("int64"),
        "short_count": 1 - is_long,
        "long_usd": value.where(is_long, 0.0),
        "short_usd": value.where(~is_long, 0.0),
        "total_count": 1,
        "total_usd": value,
    }
    return pd.DataFrame(columns).groupby("name").sum().round(2).reset_index()
