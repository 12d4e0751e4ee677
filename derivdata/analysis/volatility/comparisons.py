"""Realised volatility beside its own past, and beside what options implied."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
import pandas as pd
import xarray as xr

from derivdata.analysis.inputs import require_times
from derivdata.analysis.labelling import applied, elementwise
from derivdata.analysis.panels import last_valid, require, row_quantiles, whole
from derivdata.analysis.volatility.estimators import BAR, UNIT, mean_of_windows, realised, step_hours
from derivdata.support.arguments import typed
from derivdata.support.arrays import Floats
from derivdata.support.times import length
from derivdata.units import HOURS_PER_YEAR

_LAGS = (1, 7, 30)  # days
_LEARNT = 100


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
    """Compute the volatility cone: how volatility over each length of window was distributed, is and will be.

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
        ``forecast`` [1/√year] of the window that begins when the last bar ends, by Corsi's heterogeneous
        autoregression, and ``forecast_error``, the root mean square of what it would have missed before,
        each time learnt from what was over by then; NaN with fewer than 100 days to learn from, for windows
        that are no whole days, and for bars that do not divide a day.

    Raises
    ------
    ValueError, TypeError
        As in `realised`; no window or a quantile outside 0 to 1.

    Notes
    -----
    Corsi (2009), J. Fin. Econometrics 7: the volatility of the window ahead is linear in those of the last
    day, 7 days and 30 days, by least squares over the past; a forecast stays within what was seen before. The
    variance of a day is the sum over its bars of the squared gap from the close before and of Garman and
    Klass's estimate.
    """
    if not len(windows) or len(set(windows)) < len(windows):
        raise ValueError(f"windows={list(windows)} must name at least one, and each once")
    if not len(quantiles) or not all(0.0 <= q <= 1.0 for q in quantiles):
        raise ValueError(f"quantiles={list(quantiles)} are not parts from 0 to 1")
    days = [length(window, "windows") / pd.Timedelta(1, "D") for window in windows]
    parts = [whole(realised(data, window, method=method), "time") for window in windows]
    every = xr.concat(
        parts, xr.Variable("window", days, {"units": "days"}), coords="minimal", compat="override"
    )
    measured = every.notnull()
    latest, count = elementwise(_newest, every, core=[["time"]]), measured.sum("time").drop_attrs()
    cone = xr.Dataset({"volatility": _quantiles(every, quantiles), "latest": latest, "count": count})
    for name in ("volatility", "latest"):
        cone[name].attrs = {"units": UNIT, "method": method}
    ahead = applied(
        _forecasts,
        *(whole(data[name], "time") for name in BAR),
        step_hours=step_hours(data),
        windows=tuple(days),
        core=[["time"]] * 4,
        out=[["window"]] * 2,
        types=[np.float64] * 2,
        sizes={"window": len(days)},
    )
    for name, part in zip(("forecast", "forecast_error"), ahead, strict=True):
        cone[name] = part.transpose(*cone["latest"].dims).assign_attrs(units=UNIT, method="har")
    return cone


def _quantiles(every: xr.DataArray, shares: Sequence[float]) -> xr.DataArray:
    """Return quantiles over time, NaN of a window that history is too short for."""

    def kernel(values: Floats) -> Floats:
        return np.stack(row_quantiles(values, *shares), axis=-1)

    sizes = {"quantile": len(shares)}
    found = applied(kernel, every, core=[["time"]], out=[["quantile"]], sizes=sizes)
    return found.assign_coords(quantile=list(shares)).transpose("quantile", ...)  # type: ignore[no-any-return]


def _forecasts(
    o: Floats, h: Floats, low: Floats, c: Floats, *, step_hours: float, windows: tuple[float, ...]
) -> tuple[Floats, Floats]:
    """Return the forecast of each window and its error, of bars along the last axis."""
    shape = (*c.shape[:-1], len(windows))
    found, error = np.full(shape, np.nan), np.full(shape, np.nan)
    per_day = 24.0 / step_hours
    if per_day < 1.0 or per_day != round(per_day):
        return found, error
    o, h, low, c = (np.log(np.where(part > 0.0, part, np.nan)) for part in (o, h, low, c))
    gap = np.concatenate([np.full_like(c[..., :1], np.nan), o[..., 1:] - c[..., :-1]], axis=-1)
    each = gap**2 + 0.5 * (h - low) ** 2 - (2.0 * np.log(2.0) - 1.0) * (c - o) ** 2
    size = round(per_day)
    each = each[..., each.shape[-1] % size :]  # whole days that end with the last bar
    each = each.reshape(*each.shape[:-1], each.shape[-1] // size, size).sum(axis=-1)
    days = np.maximum(each, 0.0) * HOURS_PER_YEAR / 24.0
    for place in np.ndindex(days.shape[:-1]):
        for i, window in enumerate(windows):
            if window >= 1.0 and window == round(window):
                found[place][i], error[place][i] = _har(days[place], round(window))
    return found, error


def _har(variance: Floats, ahead: int) -> tuple[float, float]:
    """Forecast the volatility of the days `ahead` from daily variances, and its error in the past."""
    past = [np.sqrt(mean_of_windows(variance, n)) for n in _LAGS]
    columns = np.stack([np.ones_like(variance), *past], axis=-1)
    target = np.full_like(variance, np.nan)
    if variance.size > ahead:
        target[:-ahead] = np.sqrt(mean_of_windows(variance, ahead)[ahead:])
    known = np.isfinite(target) & np.isfinite(columns).all(axis=-1)
    x, y = np.where(known[:, None], columns, 0.0), np.where(known, target, 0.0)
    gram = np.cumsum(x[:, :, None] * x[:, None, :], axis=0)
    moment, count = np.cumsum(x * y[:, None], axis=0), np.cumsum(known)
    low = np.minimum.accumulate(np.where(known, target, np.inf))
    high = np.maximum.accumulate(np.where(known, target, -np.inf))
    forecast = np.full_like(variance, np.nan)
    # What began `ahead` days ago is the last that is over.
    days = np.flatnonzero(np.isfinite(columns[ahead:]).all(axis=-1) & (count[:-ahead] >= _LEARNT))
    weights = np.linalg.pinv(gram[days], rcond=1e-12, hermitian=True) @ moment[days, :, None]
    fitted = (columns[days + ahead] * weights[..., 0]).sum(axis=-1)
    forecast[days + ahead] = np.clip(fitted, low[days], high[days])
    miss = (forecast - target)[np.isfinite(forecast) & known]
    error = float(np.sqrt(np.mean(miss**2))) if miss.size else np.nan
    return float(forecast[-1]) if forecast.size else np.nan, error


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
    others = ({*implied.dims} | {*realised.dims}) - {"time"}
    implied, realised = xr.align(implied, realised, join="left", exclude=others)
    difference = xr.Dataset({"volatility": implied - realised, "variance": implied**2 - realised**2})
    difference["volatility"].attrs, difference["variance"].attrs = {"units": UNIT}, {"units": "1/year"}
    return difference


def _newest(values: Floats) -> Floats:
    """Return the last value along the last axis that is there, NaN where none is."""
    if not values.shape[-1]:
        return np.full(values.shape[:-1], np.nan)
    place = np.maximum(last_valid(~np.isnan(values))[..., -1:], 0)
    return np.asarray(np.take_along_axis(values, place, axis=-1)[..., 0])
