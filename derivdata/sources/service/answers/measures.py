"""Open interest and volume over time: the answers that both families give, each about its own measure."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from derivdata.sources.service import json_rows
from derivdata.sources.service.answers.context import RequestContext
from derivdata.sources.service.refusal import not_found
from derivdata.sources.service.request_coverage import never_requested
from derivdata.sources.service.symbol_series import symbols_of
from derivdata.sources.service.venue_totals import totals
from derivdata.sources.service.view import Series
from derivdata.sources.service.window import Window

__all__ = [
    "OI",
    "VOLUME",
    "Measure",
    "exchange_totals",
    "notices",
    "timeseries",
    "top_symbols",
    "totals_of",
]

_TOP = 50


class Measure(NamedTuple):
    """One figure.

    Attributes
    ----------
    table, column
        The table that has it.
    one, total
        Its name on the wire, of one symbol and of a venue.
    added
        Whether the steps of a bucket add up, as volume does; else they are averaged over time.
    """

    table: str
    column: str
    one: str
    total: str
    added: bool


OI = Measure("oi_history", "oi_usd", "open_interest_usd", "total_open_interest_usd", added=False)
VOLUME = Measure("volume_history", "volume_usd", "volume_usd", "total_volume_usd", added=True)


def exchange_totals(context: RequestContext, measure: Measure) -> dict[str, Any]:
    """``GET /oi/exchange-totals`` and ``GET /volume/exchange-totals``."""
    context.view.need(measure.table)
    window = context.window()
    frame, used, left_out = totals_of(
        context, measure, window, context.params["exchanges"], context.params.get("resolution")
    )
    columns = {
        "timestamp": frame["time"],
        "exchange": frame["exchange"],
        measure.total: frame["value"].round(2),
        "symbol_count": frame["symbol_count"],
    }
    remarks = notices(window, frame, left_out)
    return {"data": json_rows.rows(columns), "unit": "usd", "resolution": used, "notices": remarks}


def timeseries(context: RequestContext, measure: Measure) -> dict[str, Any]:
    """``GET /oi/{symbol}/timeseries`` and ``GET /volume/{symbol}/timeseries``, by time and venue."""
    view, params = context.view, context.params
    view.need(measure.table)
    if params["symbol"] not in view.store.symbols(measure.table):
        raise not_found(f"unknown symbol {params['symbol']!r}")
    window = context.window()
    frame, used, left_out = view.series(
        measure.table,
        measure.column,
        window,
        params["resolution"],
        symbols=[params["symbol"]],
        venues=params["exchanges"],
        added=measure.added,
    )
    names = {"time": "timestamp", "exchange": "exchange", measure.column: measure.one}
    frame = frame.sort_values(["time", "exchange"])[list(names)].rename(columns=names)
    remarks = notices(window, frame, left_out)
    if frame.empty:
        span = window.start, window.end
        remarks += never_requested(view, measure.table, params["symbol"], *span, venues=params["exchanges"])
    return {
        "symbol": params["symbol"],
        "unit": "usd",
        "resolution": used,
        "data": json_rows.rows(frame),
        "notices": remarks,
    }


def top_symbols(context: RequestContext, measure: Measure) -> dict[str, Any]:
    """``GET /oi|volume/exchange-top-symbols-timeseries``: wide rows, the largest over the window first."""
    view, exchange = context.view, context.params["exchange"]
    view.need(measure.table)
    window = context.window()
    points, used, left_out = symbols_of(
        view, measure.table, measure.column, window, exchange, added=measure.added
    )
    symbol, names = pd.factorize(points.symbol, sort=True)
    largest = np.argsort(-np.bincount(symbol, points.value, minlength=len(names)), kind="stable")
    chosen = largest[: context.params["limit"] or _TOP]
    column = np.full(len(names), -1)
    column[chosen] = np.arange(len(chosen))
    shown = np.flatnonzero(column[symbol] >= 0)
    row, stamps = pd.factorize(points.time[shown], sort=True)
    wide = np.full((len(stamps), len(chosen)), np.nan)
    wide[row, column[symbol[shown]]] = points.value[shown]
    tokens = json_rows.iso_tokens(pd.DatetimeIndex(np.asarray(stamps).view("M8[us]"), tz="UTC"))
    return {
        "exchange": exchange,
        "symbols": names[chosen].tolist(),
        "timeseries": json_rows.array(
            json_rows.sparse_objects(tokens, pd.DataFrame(wide, columns=names[chosen]))
        ),
        "unit": "usd",
        "resolution": used,
        "notices": notices(window, wide, left_out),
    }


def totals_of(
    context: RequestContext, measure: Measure, window: Window, venues: Any, resolution: str | None
) -> Series:
    """Return the totals of a measure by venue and step."""
    return totals(
        context.view,
        measure.table,
        measure.column,
        window,
        resolution,
        venues=venues,
        added=measure.added,
    )


def notices(window: Window, rows: Any, left_out: list[str]) -> list[str]:
    """Return what the window, the rows left out and an empty answer have to say."""
    return window.notices + left_out + ([] if len(rows) else ["no data in this range"])
