"""Open, high, low and close of prices that are sampled more finely."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from derivdata.analysis.inputs import require_times
from derivdata.analysis.panels import require
from derivdata.support.arguments import typed
from derivdata.support.arrays import Floats
from derivdata.support.times import length

BAR = ("open_usd", "high_usd", "low_usd", "close_usd")
HOUR_US = 3_600_000_000


@typed
def bars(price: xr.DataArray, *, step: str | pd.Timedelta = "1d") -> xr.Dataset:
    """Make bars from prices that are sampled more finely.

    Parameters
    ----------
    price
        Prices [USD] with a dim ``time``, in memory: a panel of ``dd.prices.history``.
    step
        Length of a bar, ``"1d"`` or a Timedelta; bars begin at multiples of it since 1970-01-01 00:00 UTC.

    Returns
    -------
    Dataset
        ``open_usd``, ``high_usd``, ``low_usd``, ``close_usd`` (first, highest, lowest, last price) and
        ``count`` (prices) with ``time`` at the start of each bar, without gaps; NaN where a bar has no price,
        and in the first and the last bar where prices begin later than its start, or end earlier than its
        end, by more than the median step between prices: a part of a bar would pass for a calm whole one.
        The open is the last price up to the bar's start where there is one of the bar before, so that nothing
        between two bars is lost. Highs and lows between samples are not seen: on a random walk that is
        sampled m times a bar, either end of the range is too small by 0.58 √(1/m) of a bar's standard
        deviation (Broadie, Glasserman and Kou, 1997).

    Raises
    ------
    ValueError, TypeError
        No dim ``time``, another unit, or a step that is not above 0.
    """
    require(price, "time", units="USD", name="price")
    require_times(price, "price")
    size = length(step, "step") // pd.Timedelta(1, "us")
    if not size:
        raise ValueError(f"{step=} is not a length of time above 0")
    stamps = price["time"].values.astype("datetime64[us]").astype(np.int64)
    number = stamps // size
    if (np.diff(stamps) <= 0).any():
        raise ValueError("price: times must ascend without repeats")
    first = np.arange(number[0], number[-1] + 1) if number.size else np.zeros(0, dtype=np.int64)
    values = np.moveaxis(np.asarray(price.values, dtype=np.float64), price.get_axis_num("time"), -1)
    values = np.where(values > 0.0, values, np.nan)
    columns = _bars(values, np.searchsorted(number, first), np.searchsorted(number, first, side="right"))
    start, end = _spanned(values, stamps)
    whole = (first * size >= start[..., None]) & ((first + 1) * size <= end[..., None])
    columns |= {name: np.where(whole, columns[name], np.nan) for name in BAR}
    dims = (*(dim for dim in price.dims if dim != "time"), "time")
    coords = {name: c for name, c in price.coords.items() if "time" not in c.dims}
    coords |= {"time": (first * size).astype("datetime64[us]")}
    result = xr.Dataset({name: (dims, column) for name, column in columns.items()}, coords=coords)
    for name in BAR:
        result[name].attrs["units"] = "USD"
    return result.transpose(*price.dims)


def _spanned(values: Floats, stamps: Any) -> tuple[Floats, Floats]:
    """Return what time the prices of each series span: a median step before the first and after the last.

    A single price has no step; it tells of no time but its own.
    """
    rows = values.reshape(-1, len(stamps)) if len(stamps) else np.zeros((0, 0))
    spans = np.full((2, int(np.prod(values.shape[:-1]))), np.nan)
    for place, row in enumerate(rows):
        priced = stamps[~np.isnan(row)]
        if priced.size:
            usual = np.median(np.diff(priced)) if priced.size > 1 else 0.0
            spans[:, place] = priced[0] - usual, priced[-1] + usual
    start, end = spans.reshape(2, *values.shape[:-1])
    return start, end


def _bars(values: Floats, begin: Any, end: Any) -> dict[str, Floats]:
    shape = (*values.shape[:-1], len(begin))
    bars = {name: np.full(shape, np.nan) for name in BAR}
    bars["count"] = np.zeros(shape)
    before = np.full(shape[:-1], np.nan)
    for place, (a, b) in enumerate(zip(begin.tolist(), end.tolist(), strict=True)):
        inside = values[..., a:b]
        priced = ~np.isnan(inside)
        count = priced.sum(axis=-1)
        some = count > 0
        if inside.shape[-1]:
            ends = np.argmax(priced, axis=-1), b - a - 1 - np.argmax(priced[..., ::-1], axis=-1)
            opened, close = (np.take_along_axis(inside, e[..., None], axis=-1)[..., 0] for e in ends)
        else:
            opened = close = before * np.nan
        opened = np.where(np.isnan(before), opened, before)
        filled = np.concatenate([opened[..., None], inside], axis=-1)
        high = np.where(np.isnan(filled), -np.inf, filled).max(axis=-1)
        low = np.where(np.isnan(filled), np.inf, filled).min(axis=-1)
        for name, column in zip(BAR, (opened, high, low, close), strict=True):
            bars[name][..., place] = np.where(some, column, np.nan)
        bars["count"][..., place] = count
        before = np.where(some, close, np.nan)
    return bars
