"""Realised volatility beside its own past, and beside what options implied."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import pandas as pd
import xarray as xr

from derivdata.analysis.inputs import require_times
from derivdata.analysis.panels import last_valid, require
from derivdata.analysis.volatility.estimators import UNIT, realised
from derivdata.support.arguments import typed
from derivdata.support.arrays import Floats
from derivdata.support.times import length


@typed
def cone(
    data: xr.Dataset,
    windows: Sequence[str | pd.Timedelta],
    *,
    method: Literal[
        "close_to_close", "parkinson", "garman_klass", "rogers_satchell", "yang_zhang"
    ] = "yang_zhang",
    quantiles: Sequence[float] = (0.05, 0.25, 0.5, 0.75, 0.95),
) -> xr.Dataset:
    """Compute the volatility cone: how volatility over each length of window was distributed, and is now.

    Parameters
    ----------
    data, method
        As in `realised`.
    windows
        Lengths of windows, as in `realised`.
    quantiles
        Parts of the windows that lie below, 0 to 1.

    Returns
    -------
    Dataset
        ``volatility`` over ``window`` [days] and ``quantile``, ``latest`` and ``count`` (windows) over
        ``window``, beside the dims of `data` but ``time``. Windows overlap, so `count` of them hold far less
        news than as many separate ones; long windows of a short history have a cone that is too narrow.

    Raises
    ------
    ValueError, TypeError
        As in `realised`; no window or a quantile outside 0 to 1.
    """
    if not len(windows) or len(set(windows)) < len(windows):
        raise ValueError(f"windows={list(windows)} must name at least one, and each once")
    if not len(quantiles) or not all(0.0 <= q <= 1.0 for q in quantiles):
        raise ValueError(f"quantiles={list(quantiles)} are not parts from 0 to 1")
    days = [length(window, "windows") / pd.Timedelta(1, "D") for window in windows]
    parts = [
        realised(data, window, method=method).chunk(time=-1)
        if data.chunks
        else realised(data, window, method=method)
        for window in windows
    ]
    every = xr.concat(
        parts, xr.Variable("window", days, {"units": "days"}), coords="minimal", compat="override"
    )
    measured = every.notnull()
    last = xr.apply_ufunc(
        _newest, every, input_core_dims=[["time"]], dask="parallelized", output_dtypes=[np.float64]
    )
    cone = xr.Dataset(
        {
            "volatility": every.quantile(list(quantiles), "time", skipna=True),
            "latest": last,
            "count": measured.sum("time"),
        }
    )
    cone["volatility"].attrs = {"units": UNIT, "method": method}
    cone["latest"].attrs = {"units": UNIT, "method": method}
    return cone


@typed
def implied_minus_realised(
    implied: xr.DataArray, realised: xr.DataArray, *, window: str | pd.Timedelta, ahead: bool = True
) -> xr.Dataset:
    """Compare implied volatility with what was realised.

    Parameters
    ----------
    implied
        Implied volatility of options that live about `window` [1/√year], with a dim ``time``.
    realised
        Volatility over windows of that length, labelled by the instant at which each window ends [1/√year],
        with a dim ``time``. What the function `realised` returns is labelled by the start of its last bar:
        add a bar's length to its ``time`` first.
    window
        Length of those windows, ``"30d"`` or a Timedelta.
    ahead
        Whether an implied volatility is compared with the window that begins with it, which is what its
        seller earned, and is known only at the end; else with the window that ends with it, which is known
        at once.

    Returns
    -------
    Dataset
        ``volatility`` and ``variance``: implied minus realised [1/√year, 1/year] at the instants of
        `implied`; NaN where `realised` has no counterpart.

    Raises
    ------
    ValueError, TypeError
        No dim ``time``, or a window that is no length of time above 0.
    """
    for data, name in ((implied, "implied"), (realised, "realised")):
        require(data, "time", name=name)
        require_times(data, name)
    shift = length(window, "window").to_timedelta64().astype("timedelta64[us]")
    if not shift.astype(np.int64):
        raise ValueError(f"{window=} is not a length of time above 0")
    if ahead:
        realised = realised.assign_coords(time=realised["time"] - shift)
    implied, realised = xr.align(implied, realised, join="left", exclude=_others(implied, realised))
    difference = xr.Dataset({"volatility": implied - realised, "variance": implied**2 - realised**2})
    difference["volatility"].attrs, difference["variance"].attrs = {"units": UNIT}, {"units": "1/year"}
    return difference


def _others(one: xr.DataArray, other: xr.DataArray) -> set[Any]:
    return ({*one.dims} | {*other.dims}) - {"time"}


def _newest(values: Floats) -> Floats:
    """Return the last value along the last axis that is there, NaN where none is."""
    if not values.shape[-1]:
        return np.full(values.shape[:-1], np.nan)
    place = np.maximum(last_valid(~np.isnan(values))[..., -1:], 0)
    return np.asarray(np.take_along_axis(values, place, axis=-1)[..., 0])
