"""History of funding, and of prices next to it, in the form that the forecasts of carry take."""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np
import pandas as pd
import xarray as xr

from derivdata.analysis.align import align
from derivdata.analysis.funding.accrual import prepare, sums_of
from derivdata.analysis.funding.pooled_regression import Plan
from derivdata.analysis.inputs import require_labels
from derivdata.analysis.panels import (
    Panel,
    beside,
    hours,
    hours_at,
    hours_of,
    labels_of,
    require,
    usual_step,
    whole,
)
from derivdata.analysis.price_agreement import Apart, of_one_coin
from derivdata.analysis.settlements import newest_due
from derivdata.units import BPS, USD_UNIT

_SPANS_HOURS = (24.0, 72.0, 168.0, 1440.0)
_MEMORY_HOURS = 365.0 * 24.0
OWN_HOURS = 14.0 * 24.0
"""Half-life of the weight of a pair's own errors in the size of its next one."""
_LEAST = 30  # periods of history


class History(NamedTuple):
    """A panel summed over periods, and how the regression divides them."""

    amounts: xr.DataArray
    """[bps] that a long pays over each period; ``time`` is the ends of periods."""
    first: int
    """Number of the first period's end, counted from 1970-01-01 00:00 UTC."""
    plan: Plan
    length: float
    """Hours of a period."""
    levels: xr.DataArray | None = None
    """Logarithms of marks at the ends of periods [−bps], where prices are known."""


def summed_history(
    panel: xr.DataArray,
    hold: str | pd.Timedelta,
    period: str | pd.Timedelta,
    *,
    overlap: Literal["raise", "nan"] = "raise",
    prices: Panel | None = None,
    apart: Apart = "raise",
) -> History:
    """Sum a panel over periods and lay out the regression; refuse what `forecast_carry` refuses."""
    names = labels_of(panel, "exchange")
    if names.size < 2:
        raise ValueError("panel needs two venues at least: a pair is long on one and short on another")
    if np.unique(names).size < names.size:
        raise ValueError("panel has a venue more than once")
    length = hours_of(period, "period")
    if length > 24.0:
        raise ValueError(f"{period=}: a day at most, since the forecast looks at the last day")
    count = whole_periods(hold, "hold", length)
    amounts = whole(sums_of(prepare(panel, overlap=overlap), length)["amount"], "exchange", "time")
    first = round(float(hours_at(amounts["time"].values[:1], np.datetime64(0, "us"))[0]) / length)
    spans = (1, *(max(round(span / length), 1) for span in _SPANS_HOURS))
    stride = max(1, count // 7)
    memory = _MEMORY_HOURS / length
    recent = OWN_HOURS / length
    plan = Plan(count, spans, stride, -first % stride, memory, _LEAST, recent)
    return History(amounts, first, plan, length, None if prices is None else _levels(prices, amounts, apart))


def whole_periods(value: str | pd.Timedelta, name: str, length: float) -> int:
    """Return how many periods of `length` hours a length of time has; refuse a broken number or none."""
    found = hours_of(value, name)
    count = round(found / length)
    if abs(count * length - found) > 1e-6 or not count:
        raise ValueError(f"{name}={value!r} is not a whole number of periods of {length:g} h")
    return count


def _levels(prices: Panel, amounts: xr.DataArray, apart: Apart) -> xr.DataArray:
    """Return the logarithms of marks [−bps: what a long pays when they rise] at the ends of periods.

    Of each series the newest mark that is no older than the usual step of the prices. A mark up to a minute
    past a whole hour represents that hour, as a settlement does.
    """
    marks = require(prices, "exchange", "time", units=USD_UNIT, name="prices")
    marks = of_one_coin(marks, "prices", apart)
    if "symbol" in marks.dims and "symbol" not in amounts.dims:
        if "symbol" not in amounts.coords and marks.sizes["symbol"] != 1:
            raise ValueError(
                "prices are of several symbols and panel does not name its symbol: pass those of its "
                "symbol, or panel.assign_coords(symbol='BTC')"
            )
        symbol = str((amounts if "symbol" in amounts.coords else marks)["symbol"].item())
        require_labels(marks, "prices", "symbol", [symbol])
        marks = marks.sel(symbol=symbol, drop=True)
    hours(marks, name="prices")
    marks = newest_due(marks.where(marks > 0.0))
    step = pd.Timedelta(usual_step(hours(marks, name="prices")), "h")
    marks = align(marks, amounts.indexes["time"], tolerance=step)["value"]
    labels = {dim: amounts[dim] for dim in amounts.dims if dim in marks.dims and dim != "time"}
    marks = beside(amounts, marks.reindex(labels), units=USD_UNIT, name="prices")
    levels: xr.DataArray = -BPS * xr.apply_ufunc(np.log, marks, dask="allowed")
    return whole(levels, "exchange", "time")
