"""Venues over time: totals over their symbols, their largest symbols, volume over open interest."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from derivdata import times
from derivdata.service import span, wire
from derivdata.service.answers.asking import Ask
from derivdata.service.answers.quantity import OI, VOLUME, Quantity
from derivdata.service.buckets import length
from derivdata.service.refusal import DOCS, Refusal, bad_request, not_found
from derivdata.service.totals import totals
from derivdata.service.view import Series

__all__ = ["exchange_timeseries", "exchange_totals", "ratio", "top_symbols"]

_DEV_DAYS = 7
_MOST_DAYS = 365
_TOP = 50
_DAY = pd.Timedelta(1, "D")


def exchange_totals(ask: Ask, quantity: Quantity) -> dict[str, Any]:
    """``GET /oi/exchange-totals`` and ``GET /volume/exchange-totals``."""
    ask.view.need(quantity.table)
    window = ask.view.window(ask.params, ask.tier)
    found, used, left_out = _totals(
        ask, quantity, window, ask.params["exchanges"], ask.params.get("resolution")
    )
    columns = {
        "timestamp": found["time"],
        "exchange": found["exchange"],
        quantity.total: found["value"].round(2),
        "symbol_count": found["symbol_count"],
    }
    notices = _notices(window, found, left_out)
    return {"data": wire.rows(columns), "unit": "usd", "resolution": used, "notices": notices}


def exchange_timeseries(ask: Ask) -> dict[str, Any]:
    """``GET /markets/exchanges/{exchange}/timeseries``: volume and open interest of one venue."""
    view, exchange = ask.view, ask.params["exchange"]
    view.need(OI.table, VOLUME.table)
    if exchange not in view.exchanges:
        raise not_found(f"unknown exchange {exchange!r}")
    window = view.window(ask.params, ask.tier)
    found, used = _at_one(ask, [q for q in (VOLUME, OI) if view.has(q.table)], window)
    parts = {name: s.frame.set_index("time")["value"].astype("float64").round(2) for name, s in found.items()}
    joined = pd.concat(parts, axis=1, sort=True).reindex(columns=["volume_usd", "oi_usd"]).sort_index()
    joined = joined.rename_axis("timestamp").reset_index()
    return {
        "exchange": exchange,
        "range": ask.params["range"],
        "data": wire.rows(joined),
        "unit": "usd",
        "resolution": used,
        "notices": _notices(window, joined, [notice for s in found.values() for notice in s.notices]),
    }


def top_symbols(ask: Ask, quantity: Quantity) -> dict[str, Any]:
    """``GET /oi|volume/exchange-top-symbols-timeseries``: wide rows, the largest over the window first."""
    view, exchange = ask.view, ask.params["exchange"]
    if exchange not in view.exchanges:
        raise bad_request(f"exchange={exchange!r} is not an exchange; slugs are lower case, like 'binance'")
    view.need(quantity.table)
    window = view.window(ask.params, ask.tier)
    frame, used, left_out = view.series(
        quantity.table, quantity.column, window, None, exchanges=[exchange], added=quantity.added
    )
    size = frame.groupby("symbol", observed=True)[quantity.column].sum().reset_index()
    size = size.astype({"symbol": object}).sort_values([quantity.column, "symbol"], ascending=[False, True])
    chosen = size["symbol"].head(ask.params["limit"] or _TOP).tolist()
    wide = frame[frame["symbol"].isin(chosen)].pivot(index="time", columns="symbol", values=quantity.column)
    stamps = wire.iso_tokens(pd.DatetimeIndex(wide.index))
    return {
        "exchange": exchange,
        "symbols": chosen,
        "timeseries": wire.array(wire.sparse_objects(stamps, wide[chosen])),
        "unit": "usd",
        "resolution": used,
        "notices": _notices(window, wide, left_out),
    }


def ratio(ask: Ask) -> dict[str, Any]:
    """``GET /volume-oi-ratio``: volume of the `window_days` before each step over its open interest.

    A step whose window begins before the source's first instant is left out.
    """
    view, days = ask.view, ask.params["window_days"]
    view.need(OI.table)
    view.need(VOLUME.table)
    if days > _MOST_DAYS:
        raise bad_request(f"window_days={days} is not a number of days from 1 to {_MOST_DAYS}")
    if ask.tier == "dev" and days > _DEV_DAYS:
        error = f"Dev covers windows of at most {_DEV_DAYS} days, not {days}"
        raise Refusal(403, error, required_tier="pro", docs=DOCS)
    window = view.window(ask.params, ask.tier)
    oi, used, _ = _totals(ask, OI, window, ask.params["exchanges"], ask.params.get("resolution"))
    longer = window._replace(start=window.start - (days + 1) * _DAY)
    volume, step, left_out = totals(
        view, VOLUME.table, VOLUME.column, longer, "1h", exchanges=ask.params["exchanges"], added=True
    )
    volume["end"] = volume["time"] + (times.resolution(step) or pd.Timedelta(0))
    found = _ratios(oi[oi["time"] >= view.store.start + days * _DAY], volume, days * _DAY)
    return {
        "data": wire.split(wire.objects(found.drop(columns="exchange")), found["exchange"]),
        "window_days": days,
        "notices": _notices(window, found, left_out),
        "unit": "ratio",
        "resolution": used,
    }


def _at_one(ask: Ask, quantities: Sequence[Quantity], window: span.Span) -> tuple[dict[str, Series], str]:
    """Totals of a venue at one resolution, the coarsest that any of them needs; and that one."""
    asked, venue = ask.params.get("resolution"), [ask.params["exchange"]]
    found = {q.column: _totals(ask, q, window, venue, asked) for q in quantities}
    used = max((series.used for series in found.values()), key=length)
    again = {
        q.column: _totals(ask, q, window, venue, used) for q in quantities if found[q.column].used != used
    }
    return found | again, used


def _totals(
    ask: Ask, quantity: Quantity, window: span.Span, exchanges: Any, resolution: str | None
) -> Series:
    return totals(
        ask.view,
        quantity.table,
        quantity.column,
        window,
        resolution,
        exchanges=exchanges,
        added=quantity.added,
    )


def _ratios(oi: pd.DataFrame, volume: pd.DataFrame, length: pd.Timedelta) -> pd.DataFrame:
    """Columns of the answer, by venue and time."""
    found = oi.rename(columns={"time": "timestamp", "value": "open_interest"})
    found = found.sort_values(["exchange", "timestamp"], ignore_index=True)
    traded = [
        _trailing(rows["timestamp"], volume[volume["exchange"] == exchange], length)
        for exchange, rows in found.groupby("exchange", sort=True)
    ]
    found["volume"] = np.concatenate([*traded, np.array([])])
    held = found["open_interest"].astype("float64")
    found["ratio"] = (found["volume"] / held.where(held > 0)).round(6)
    found = found.round({"volume": 2, "open_interest": 2})
    return found[["exchange", "timestamp", "ratio", "volume", "open_interest"]]


def _trailing(at: pd.Series, volume: pd.DataFrame, length: pd.Timedelta) -> Any:
    """Volume of the steps that ended in ``(at − length, at]``, from the running sum."""
    running = np.concatenate([[0.0], volume["value"].astype("float64").cumsum()])
    late, early = (np.searchsorted(volume["end"], t, side="right") for t in (at, at - length))
    return running[late] - running[early]


def _notices(window: span.Span, found: Any, left_out: list[str]) -> list[str]:
    return window.notices + left_out + ([] if len(found) else ["no data in this range"])
