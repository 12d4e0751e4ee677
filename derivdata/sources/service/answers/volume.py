"""Volume: venues and symbols over time, and volume over open interest."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from derivdata.sources.service import json_rows
from derivdata.sources.service.answers import measures
from derivdata.sources.service.answers.context import Answers, RequestContext
from derivdata.sources.service.answers.measures import OI, VOLUME
from derivdata.sources.service.refusal import DOCS, Refusal, bad_request
from derivdata.sources.service.venue_totals import totals
from derivdata.support import times

__all__ = ["ANSWERS"]

_DEV_DAYS = 7
_MOST_DAYS = 365
_DAY = pd.Timedelta(1, "D")


def ratio(context: RequestContext) -> dict[str, Any]:
    """``GET /volume-oi-ratio``: volume of the `window_days` before each step over its open interest.

    A step whose window begins before the source's first instant is left out.
    """
    view, days = context.view, context.params["window_days"]
    view.need(OI.table)
    view.need(VOLUME.table)
    if days > _MOST_DAYS:
        raise bad_request(f"window_days={days} is not a number of days from 1 to {_MOST_DAYS}")
    if context.tier == "dev" and days > _DEV_DAYS:
        error = f"Dev covers windows of at most {_DEV_DAYS} days, not {days}"
        raise Refusal(403, error, required_tier="pro", docs=DOCS)
    window = context.window()
    oi, used, _ = measures.totals_of(
        context, OI, window, context.params["exchanges"], context.params.get("resolution")
    )
    longer = window._replace(start=window.start - (days + 1) * _DAY)
    volume, step, left_out = totals(
        view, VOLUME.table, VOLUME.column, longer, "1h", venues=context.params["exchanges"], added=True
    )
    volume["end"] = volume["time"] + (times.resolution(step) or pd.Timedelta(0))
    ratios = _ratios(oi[oi["time"] >= view.store.start + days * _DAY], volume, days * _DAY)
    return {
        "data": json_rows.split(json_rows.objects(ratios.drop(columns="exchange")), ratios["exchange"]),
        "window_days": days,
        "notices": measures.notices(window, ratios, left_out),
        "unit": "ratio",
        "resolution": used,
    }


def _ratios(oi: pd.DataFrame, volume: pd.DataFrame, length: pd.Timedelta) -> pd.DataFrame:
    """Columns of the answer, by venue and time."""
    ratios = oi.rename(columns={"time": "timestamp", "value": "open_interest"})
    ratios = ratios.sort_values(["exchange", "timestamp"], ignore_index=True)
    volumes = dict(iter(volume.groupby("exchange")))  # comparing names venue by venue takes the most time
    traded = [
        _trailing(rows["timestamp"], volumes.get(exchange, volume.iloc[:0]), length)
        for exchange, rows in ratios.groupby("exchange", sort=True)
    ]
    ratios["volume"] = np.concatenate([*traded, np.array([])])
    open_interest = ratios["open_interest"].astype("float64")
    ratios["ratio"] = (ratios["volume"] / open_interest.where(open_interest > 0)).round(6)
    ratios = ratios.round({"volume": 2, "open_interest": 2})
    return ratios[["exchange", "timestamp", "ratio", "volume", "open_interest"]]


def _trailing(at: pd.Series, volume: pd.DataFrame, length: pd.Timedelta) -> Any:
    """Volume of the steps that ended in ``(at − length, at]``, from the running sum."""
    running = np.concatenate([[0.0], volume["value"].astype("float64").cumsum()])
    late, early = (np.searchsorted(volume["end"], t, side="right") for t in (at, at - length))
    return running[late] - running[early]


ANSWERS: Answers = {
    "/volume/exchange-totals": partial(measures.exchange_totals, measure=VOLUME),
    "/volume/{symbol}/timeseries": partial(measures.timeseries, measure=VOLUME),
    "/volume/exchange-top-symbols-timeseries": partial(measures.top_symbols, measure=VOLUME),
    "/volume-oi-ratio": ratio,
}
