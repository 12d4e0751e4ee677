"""Realised volatility from prices: estimators, cones, and implied minus realised.

Volatilities are decimal per √year of 365 days, like implied ones: 0.55 is 55 %. A window is a whole number of
bars and ends with the bar at its label. A bar is labelled by its start and is known when it has ended, one
step later. Crypto markets do not have overnight gaps, so estimators that allow for a gap estimate a small
one.

References
----------
Parkinson (1980), J. Business 53; Garman and Klass (1980), J. Business 53; Rogers and Satchell (1991), Ann.
Appl. Probab. 1; Yang and Zhang (2000), J. Business 73; Barndorff-Nielsen and Shephard (2004), J. Fin.
Econometrics 2.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Literal

import numpy as np
import pandas as pd
import xarray as xr

from derivdata.analysis.labelling import applied, elementwise
from derivdata.analysis.panels import (
    decimal_volatility,
    last_valid,
    require,
    require_times,
    require_variables,
    row_quantiles,
    whole,
)
from derivdata.support.arguments import typed
from derivdata.support.arrays import Floats
from derivdata.support.times import length
from derivdata.units import HOURS_PER_YEAR

__all__ = ["bars", "bipower", "cone", "implied_minus_realised", "realised"]
__dir__ = __all__.copy


BAR = ("open_usd", "high_usd", "low_usd", "close_usd")
HOUR_US = 3_600_000_000


@typed
def bars(price: xr.DataArray, *, step: str | pd.Timedelta = "1d") -> xr.Dataset:
    """Aggregate prices into bars of a longer step.

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
        ``count`` (prices) with ``time`` at the start of each bar, without gaps; NaN for a bar without a
        price, and for the first and the last bar if prices begin later than its start, or end earlier than
        its end, by more than the median step between prices: an incomplete bar would look calm. A price at a
        bar's start belongs to that bar. The open is the last price before the start if the previous bar has
        one, so that no move between two bars is lost: daily bars of hourly prices run from 23:00 to 23:00.
        Highs and lows between samples are not observed: on a random walk that is sampled m times a bar,
        either end of the range is too small by 0.58 √(1/m) of a bar's standard deviation (Broadie, Glasserman
        and Kou, 1997).

    Raises
    ------
    ValueError, TypeError
        No dim ``time``, another unit, or a step that is not above 0.
    """
    require(price, "time", units="USD", name="price")
    require_times(price, "price")
    size = length(step, "step") // pd.Timedelta(1, "us")
    if not size:
        raise ValueError(f"step must be a length of time above 0, got {step!r}")

    # 1. Assign each price to a bar, and number all bars without gaps.
    stamps = price["time"].values.astype("datetime64[us]").astype(np.int64)
    number = stamps // size
    if (np.diff(stamps) <= 0).any():
        raise ValueError("the times of price must ascend without duplicates: sort them and drop duplicates")
    first = np.arange(number[0], number[-1] + 1) if number.size else np.zeros(0, dtype=np.int64)
    values = np.moveaxis(np.asarray(price.values, dtype=np.float64), price.get_axis_num("time"), -1)
    values = np.where(values > 0.0, values, np.nan)

    # 2. Compute the bars. The first and last bar are kept only if prices cover them.
    columns = _bars(values, np.searchsorted(number, first), np.searchsorted(number, first, side="right"))
    start, end = _spanned(values, stamps)
    is_spanned = (first * size >= start[..., None]) & ((first + 1) * size <= end[..., None])
    columns |= {name: np.where(is_spanned, columns[name], np.nan) for name in BAR}

    # 3. Label the result like the panel, with the starts of bars as times.
    dims = (*(dim for dim in price.dims if dim != "time"), "time")
    coords = price.coords.to_dataset().drop_dims("time").coords
    result = xr.Dataset({name: (dims, column) for name, column in columns.items()}, coords=coords)
    result = result.assign_coords(time=(first * size).astype("datetime64[us]"))
    for name in BAR:
        result[name].attrs["units"] = "USD"
    return result.transpose(*price.dims)


def _spanned(values: Floats, stamps: Any) -> tuple[Floats, Floats]:
    """Return the time spanned by the prices of each series, with a median step at both ends."""
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
    """Return open, high, low, close and count of bars, whose rows are from `begin` to before `end`."""
    shape = (*values.shape[:-1], len(begin))
    bars = {name: np.full(shape, np.nan) for name in BAR}
    bars["count"] = np.zeros(shape)
    before = np.full(shape[:-1], np.nan)
    for place, (a, b) in enumerate(zip(begin.tolist(), end.tolist(), strict=True)):
        # 1. Find the first and the last price inside the bar.
        inside = values[..., a:b]
        priced = ~np.isnan(inside)
        count = priced.sum(axis=-1)
        has_price = count > 0
        if inside.shape[-1]:
            begins = np.argmax(priced, axis=-1)[..., None]
            ends = b - a - 1 - np.argmax(priced[..., ::-1], axis=-1)[..., None]
            opened = np.take_along_axis(inside, begins, axis=-1)[..., 0]
            close = np.take_along_axis(inside, ends, axis=-1)[..., 0]
        else:
            opened = close = before * np.nan

        # 2. Open at the last price of the previous bar, so that the move between the two bars is included.
        opened = np.where(np.isnan(before), opened, before)
        filled = np.concatenate([opened[..., None], inside], axis=-1)
        high = np.where(np.isnan(filled), -np.inf, filled).max(axis=-1)
        low = np.where(np.isnan(filled), np.inf, filled).min(axis=-1)
        for name, column in zip(BAR, (opened, high, low, close), strict=True):
            bars[name][..., place] = np.where(has_price, column, np.nan)
        bars["count"][..., place] = count
        before = np.where(has_price, close, np.nan)
    return bars


UNIT = "1/√year"
_LN2 = float(np.log(2.0))


@typed
def realised(
    data: xr.Dataset,
    window: str | pd.Timedelta,
    *,
    method: Literal[
        "close_to_close", "parkinson", "garman_klass", "rogers_satchell", "yang_zhang"
    ] = "yang_zhang",
) -> xr.DataArray:
    """Estimate volatility over a trailing window of bars.

    Parameters
    ----------
    data
        ``open_usd``, ``high_usd``, ``low_usd``, ``close_usd`` with a dim ``time`` in regular steps: a result
        of `bars`.
    window
        Length of a window, ``"30d"`` or a Timedelta: a whole number of bars, at least 2.
    method
        ``"close_to_close"``: standard deviation of the returns between closes, mean removed, over n − 1.
        ``"parkinson"``: Σ ln²(H/L) / (4 n ln 2). ``"garman_klass"``:
        Σ (½ ln²(H/L) − (2 ln 2 − 1) ln²(C/O)) / n. ``"rogers_satchell"``:
        Σ (ln(H/C) ln(H/O) + ln(L/C) ln(L/O)) / n, which allows for a drift. ``"yang_zhang"``: the variance
        between bars, plus k times that from open to close, plus 1 − k times Rogers–Satchell,
        k = 0.34 / (1.34 + (n + 1) / (n − 1)).

    Returns
    -------
    DataArray
        ``volatility`` [1/√year] at the start of the last bar of each window, known when that bar has ended,
        at the coordinate ``window_end``. Do not use it for earlier decisions. NaN until a window is full, and
        where a bar of it is missing. Methods that use the previous close (close-to-close, Yang–Zhang) need
        one more bar.

    Raises
    ------
    ValueError, TypeError
        A variable is missing, times are not in regular steps, or the window is not a whole number of them, at
        least two.

    Examples
    --------
    >>> prices = dd.panel(dd.prices.history("BTC", "30d", venues=["okx"], kind="mark"), "price_usd")
    >>> days = dd.analysis.volatility.bars(prices)
    >>> monthly = dd.analysis.volatility.realised(days, window="20d")
    >>> monthly.dropna("time", how="all").isel(time=-1).round(2).item()
    0.34
    """
    require_variables(data, "data", BAR)
    step = step_hours(data)
    n = _steps_of(window, step)
    per_year = HOURS_PER_YEAR / step
    bars = [whole(data[name], "time") for name in BAR]
    kernel = partial(_realised, n=n, method=method, per_year=per_year)
    volatility = applied(kernel, *bars, core=[["time"]] * 4, out=[["time"]])
    named = _named(volatility.transpose(*data["close_usd"].dims), method, n)
    ends = data["time"].to_numpy() + np.timedelta64(round(step * 3_600e6), "us")
    return named.assign_coords(window_end=("time", ends))


def _realised(
    o: Floats, h: Floats, low: Floats, c: Floats, *, n: int, method: str, per_year: float
) -> Floats:
    """Return the volatility of windows of n bars by one of the range estimators."""
    o, h, low, c = (np.log(np.where(x > 0.0, x, np.nan)) for x in (o, h, low, c))
    before = np.concatenate([np.full_like(c[..., :1], np.nan), c[..., :-1]], axis=-1)
    # Garman and Klass drop the small cross term of their best estimator, and later authors follow them.
    terms = {
        "parkinson": (h - low) ** 2 / (4.0 * _LN2),
        "garman_klass": 0.5 * (h - low) ** 2 - (2.0 * _LN2 - 1.0) * (c - o) ** 2,
        "rogers_satchell": (h - c) * (h - o) + (low - c) * (low - o),
    }
    if method == "close_to_close":
        variance = _variance(c - before, n)
    elif method == "yang_zhang":
        k = 0.34 / (1.34 + (n + 1) / (n - 1))
        inside = mean_of_windows(terms["rogers_satchell"], n)
        variance = _variance(o - before, n) + k * _variance(c - o, n) + (1.0 - k) * inside
    else:
        variance = mean_of_windows(terms[method], n)
    return np.sqrt(np.maximum(variance, 0.0) * per_year)


@typed
def bipower(price: xr.DataArray, window: str | pd.Timedelta) -> xr.Dataset:
    """Split realised volatility into a continuous part and jumps.

    Parameters
    ----------
    price
        Prices [USD] with a dim ``time`` in regular steps.
    window
        Length of a window, ``"1d"`` or a Timedelta: a whole number n of steps of `price`, at least 2.

    Returns
    -------
    Dataset
        ``volatility`` [1/√year], from the sum of squared log returns r²; ``continuous`` [1/√year], from the
        bipower variation (π/2) n/(n − 1) Σ|rᵢ||rᵢ₋₁|, which a single jump does not affect; ``jump_share``,
        the fraction of the variance that is not continuous, at least 0. Windows end at ``time``. NaN until a
        window is full, and where a price in it is missing.

    Raises
    ------
    ValueError, TypeError
        No dim ``time``, another unit, times not in regular steps, or a window that is not a whole number of
        at least two steps.
    """
    require(price, "time", units="USD", name="price")
    step = step_hours(price)
    n = _steps_of(window, step)
    per_year = HOURS_PER_YEAR / step
    kernel = partial(_bipower, n=n, per_year=per_year)
    types = [np.float64] * 2
    total, smooth = applied(kernel, whole(price, "time"), core=[["time"]], out=[["time"]] * 2, types=types)
    total = total.transpose(*price.dims)
    smooth = smooth.transpose(*price.dims)
    share = (1.0 - smooth / total.where(total > 0.0)).clip(min=0.0)
    return xr.Dataset(
        {
            "volatility": _named(np.sqrt(total), "squared returns", n),
            "continuous": _named(np.sqrt(smooth), "bipower", n),
            "jump_share": share.assign_attrs(units="fraction"),
        }
    )


def _bipower(price: Floats, *, n: int, per_year: float) -> tuple[Floats, Floats]:
    """Return realised and bipower variance of windows of n returns (Barndorff-Nielsen and Shephard 2004)."""
    logs = np.log(np.where(price > 0.0, price, np.nan))
    returns = np.full_like(logs, np.nan)
    returns[..., 1:] = np.diff(logs, axis=-1)
    size = np.abs(returns)
    product = np.full_like(size, np.nan)
    product[..., 1:] = size[..., 1:] * size[..., :-1]
    # n returns have n − 1 products of neighbours, whose mean times π/2 estimates the variance of one return.
    smooth = np.full_like(size, np.nan)
    smooth[..., 1:] = 0.5 * np.pi * mean_of_windows(product[..., 1:], n - 1)
    return mean_of_windows(returns**2, n) * per_year, smooth * per_year


def step_hours(data: xr.DataArray | xr.Dataset) -> float:
    """Return the regular step of a ``time`` [hours]."""
    require_times(data, "data")
    stamps = data["time"].values.astype("datetime64[us]").astype(np.int64)
    steps = np.unique(np.diff(stamps))
    if len(steps) != 1 or steps[0] <= 0:
        raise ValueError(
            "price must have at least two timestamps in regular steps: fill gaps with NaN, by "
            ".reindex(time=...) or `bars`"
        )
    return float(steps[0]) / HOUR_US


def _steps_of(window: str | pd.Timedelta, step_hours: float) -> int:
    """Return the number of steps in a window, at least two and a whole number."""
    steps: float = length(window, "window") / pd.Timedelta(1, "h") / step_hours
    if steps < 2.0 or abs(steps - round(steps)) > 1e-9 * steps:
        raise ValueError(
            f"window must be a whole number of at least two steps of {step_hours:g} h, got {window!r} "
            f"({steps:g} steps)"
        )
    return round(steps)


def _named(volatility: xr.DataArray, method: str, steps: int) -> xr.DataArray:
    return volatility.rename("volatility").assign_attrs(units=UNIT, method=method, steps=steps)


def mean_of_windows(values: Floats, n: int) -> Floats:
    """Return the mean of each trailing window of n values; NaN until it is full and where one is NaN."""
    return _over_windows(values, n, lambda windows: windows.mean(axis=-1))


def _variance(values: Floats, n: int) -> Floats:
    """Return the sample variance of each trailing window, over n − 1, with NaN as in `mean_of_windows`."""
    return _over_windows(values, n, lambda windows: windows.var(axis=-1, ddof=1))


def _over_windows(values: Floats, n: int, statistic: Callable[[Floats], Floats]) -> Floats:
    result = np.full(values.shape, np.nan)
    if values.shape[-1] >= n:
        result[..., n - 1 :] = statistic(np.lib.stride_tricks.sliding_window_view(values, n, axis=-1))
    return result


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
    """Compute the volatility cone: quantiles, latest value and forecast of volatility by length of window.

    Parameters
    ----------
    data, method
        As in `realised`.
    windows
        Lengths of windows, as in `realised`.
    quantiles
        Quantiles to compute, from 0 to 1.

    Returns
    -------
    Dataset
        ``volatility`` over ``window`` [days] and ``quantile``, ``latest`` and ``count`` (windows) over
        ``window``, in addition to the dims of `data` except ``time``. Windows overlap, so they have far less
        information than ``count`` independent ones, and the cone is too narrow at long windows of a short
        history. ``forecast`` [1/√year] of the window that begins when the last bar ends, by Corsi's
        heterogeneous autoregression, and ``forecast_error``, the root mean square of its past errors, each
        fitted on past data; NaN with fewer than 100 days of data, for windows that are not whole days, and
        for bars that do not divide a day.

    Raises
    ------
    ValueError, TypeError
        As in `realised`; no window or a quantile outside 0 to 1.

    Notes
    -----
    Corsi (2009), J. Fin. Econometrics 7: the volatility of the window ahead is linear in those of the last
    day, 7 days and 30 days, by least squares over the past; a forecast is clipped to the past range. The
    variance of a day is the sum over its bars of the squared gap from the previous close and of Garman and
    Klass's estimate.
    """
    # 1. Compute the quantiles and the latest value.
    if not len(windows) or len(set(windows)) < len(windows):
        raise ValueError(f"windows must have at least one window without duplicates, got {list(windows)}")
    if not len(quantiles) or not all(0.0 <= q <= 1.0 for q in quantiles):
        raise ValueError(f"quantiles must be fractions from 0 to 1, got {list(quantiles)}")
    days = [length(window, "windows") / pd.Timedelta(1, "D") for window in windows]
    volatilities = [whole(realised(data, window, method=method), "time") for window in windows]
    every = xr.concat(
        volatilities, xr.Variable("window", days, {"units": "days"}), coords="minimal", compat="override"
    )
    measured = every.notnull()
    latest = elementwise(_newest, every, core=[["time"]])
    count = measured.sum("time").drop_attrs()
    cone = xr.Dataset({"volatility": _quantiles(every, quantiles), "latest": latest, "count": count})
    for name in ("volatility", "latest"):
        cone[name].attrs = {"units": UNIT, "method": method}

    # 2. Add the forecast.
    ahead = applied(
        _forecasts, *(whole(data[name], "time") for name in BAR), step_hours=step_hours(data),
        windows=tuple(days), core=[["time"]] * 4, out=[["window"]] * 2, types=[np.float64] * 2,
        sizes={"window": len(days)},
    )  # fmt: skip
    for name, values in zip(("forecast", "forecast_error"), ahead, strict=True):
        cone[name] = values.transpose(*cone["latest"].dims).assign_attrs(units=UNIT, method="har")
    return cone


def _quantiles(every: xr.DataArray, shares: Sequence[float]) -> xr.DataArray:
    """Return quantiles over time, NaN for a window longer than the history."""

    def kernel(values: Floats) -> Floats:
        return np.stack(row_quantiles(values, *shares), axis=-1)

    sizes = {"quantile": len(shares)}
    quantiles = applied(kernel, every, core=[["time"]], out=[["quantile"]], sizes=sizes)
    return quantiles.assign_coords(quantile=list(shares)).transpose("quantile", ...)  # type: ignore[no-any-return]


def _forecasts(
    o: Floats, h: Floats, low: Floats, c: Floats, *, step_hours: float, windows: tuple[float, ...]
) -> tuple[Floats, Floats]:
    """Return the forecast of each window and its error, from bars along the last axis."""
    shape = (*c.shape[:-1], len(windows))
    forecast = np.full(shape, np.nan)
    error = np.full(shape, np.nan)
    per_day = 24.0 / step_hours
    if per_day < 1.0 or per_day != round(per_day):
        return forecast, error
    # 1. Compute the variance of each day: the gap before each of its bars plus the Garman-Klass estimate.
    o, h, low, c = (np.log(np.where(price > 0.0, price, np.nan)) for price in (o, h, low, c))
    gap = np.concatenate([np.full_like(c[..., :1], np.nan), o[..., 1:] - c[..., :-1]], axis=-1)
    by_bar = gap**2 + 0.5 * (h - low) ** 2 - (2.0 * np.log(2.0) - 1.0) * (c - o) ** 2
    size = round(per_day)
    by_bar = by_bar[..., by_bar.shape[-1] % size :]  # whole days that end with the last bar
    by_day = by_bar.reshape(*by_bar.shape[:-1], by_bar.shape[-1] // size, size).sum(axis=-1)

    # 2. Forecast each series and each window of whole days.
    days = np.maximum(by_day, 0.0) * HOURS_PER_YEAR / 24.0
    for place in np.ndindex(days.shape[:-1]):
        for i, window in enumerate(windows):
            if window >= 1.0 and window == round(window):
                forecast[place][i], error[place][i] = _har(days[place], round(window))
    return forecast, error


def _har(variance: Floats, ahead: int) -> tuple[float, float]:
    """Return the forecast volatility of the days `ahead` from daily variances, and its past error."""
    # 1. Compute the volatilities of the past day, week and month, and of the window ahead.
    past = [np.sqrt(mean_of_windows(variance, n)) for n in _LAGS]
    columns = np.stack([np.ones_like(variance), *past], axis=-1)
    target = np.full_like(variance, np.nan)
    if variance.size > ahead:
        target[:-ahead] = np.sqrt(mean_of_windows(variance, ahead)[ahead:])
    observed = np.isfinite(target) & np.isfinite(columns).all(axis=-1)
    x = np.where(observed[:, None], columns, 0.0)
    y = np.where(observed, target, 0.0)

    # 2. Fit least squares at each day over all windows that had ended, with running sums.
    gram = np.cumsum(x[:, :, None] * x[:, None, :], axis=0)
    moment = np.cumsum(x * y[:, None], axis=0)
    count = np.cumsum(observed)
    low = np.minimum.accumulate(np.where(observed, target, np.inf))
    high = np.maximum.accumulate(np.where(observed, target, -np.inf))
    forecast = np.full_like(variance, np.nan)
    # The last completed window began `ahead` days ago.
    days = np.flatnonzero(np.isfinite(columns[ahead:]).all(axis=-1) & (count[:-ahead] >= _LEARNT))
    weights = np.linalg.pinv(gram[days], rcond=1e-12, hermitian=True) @ moment[days, :, None]
    fitted = (columns[days + ahead] * weights[..., 0]).sum(axis=-1)
    forecast[days + ahead] = np.clip(fitted, low[days], high[days])

    # 3. Compute the errors of these forecasts.
    miss = (forecast - target)[np.isfinite(forecast) & observed]
    error = float(np.sqrt(np.mean(miss**2))) if miss.size else np.nan
    return float(forecast[-1]) if forecast.size else np.nan, error


@typed
def implied_minus_realised(
    implied: xr.DataArray, realised: xr.DataArray, *, window: str | pd.Timedelta, ahead: bool = True
) -> xr.Dataset:
    """Compare implied with realised volatility.

    Parameters
    ----------
    implied
        Implied volatility of options that expire in about `window` [1/√year, or % as in published indices],
        with a dim ``time``.
    realised
        Volatility over windows of that length [1/√year or %], with a dim ``time``: the result of `realised`,
        whose ``window_end`` is the end of each window. Without that coordinate ``time`` must be the end of
        the window.
    window
        Length of those windows, ``"30d"`` or a Timedelta.
    ahead
        If True, implied volatility is compared with the following window, which gives the seller's earnings
        and is known only at its end. If False, it is compared with the preceding window, which is known
        immediately.

    Returns
    -------
    Dataset
        ``volatility`` and ``variance``: implied minus realised [1/√year, 1/year] at the times of `implied`;
        NaN if `realised` has no counterpart.

    Raises
    ------
    ValueError, TypeError
        No dim ``time``, a volatility in another unit, a window that is not a positive length of time, or
        another dim whose labels differ in both.
    """
    implied = _decimal(implied, "implied")
    realised = by_window_end(_decimal(realised, "realised"))
    shift = length(window, "window").to_timedelta64().astype("timedelta64[us]")
    if not shift.astype(np.int64):
        raise ValueError(f"window must be a length of time above 0, got {window!r}")
    if ahead:
        realised = realised.assign_coords(time=realised["time"] - shift)
    other_dims = {*implied.dims, *realised.dims} - {"time"}
    for dim in sorted(map(str, other_dims)):
        if dim in implied.dims and dim in realised.dims:
            _require_common(implied, realised, dim)
    implied, realised = xr.align(implied, realised, join="left", exclude=other_dims)
    difference = xr.Dataset({"volatility": implied - realised, "variance": implied**2 - realised**2})
    difference["volatility"].attrs = {"units": UNIT}
    difference["variance"].attrs = {"units": "1/year"}
    return difference


def _decimal(data: xr.DataArray, name: str) -> xr.DataArray:
    """Return a volatility over time in decimal per √year, converted from percent if necessary."""
    panel = require(data, "time", name=name)
    require_times(panel, name)
    return decimal_volatility(panel, name)


def _require_common(implied: xr.DataArray, realised: xr.DataArray, dim: str) -> None:
    """Raise if two volatilities share no label of a dim: xarray would return an empty difference."""
    labels = [[str(label) for label in data[dim].values.tolist()] for data in (implied, realised)]
    if all(labels) and {*labels[0]}.isdisjoint(labels[1]):
        raise ValueError(
            f"implied and realised must have a common {dim}, got {', '.join(labels[0])} and "
            f"{', '.join(labels[1])}: select one of each, such as realised.sel({dim}={labels[1][0]!r})"
        )


def by_window_end(realised: xr.DataArray) -> xr.DataArray:
    """Return volatilities by the end of each window."""
    if "window_end" not in realised.coords:
        return realised
    ends = realised["window_end"]
    if ends.dims != ("time",):
        raise ValueError(f"window_end of realised must have the single dim 'time', got dims {ends.dims}")
    return realised.drop_vars("window_end").assign_coords(time=ends.to_numpy())


def _newest(values: Floats) -> Floats:
    """Return the last non-NaN value along the last axis, NaN without one."""
    if not values.shape[-1]:
        return np.full(values.shape[:-1], np.nan)
    place = np.maximum(last_valid(~np.isnan(values))[..., -1:], 0)
    return np.asarray(np.take_along_axis(values, place, axis=-1)[..., 0])
