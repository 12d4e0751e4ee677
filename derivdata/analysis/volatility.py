"""Realised volatility from prices: estimators, cones, and implied minus realised.

Volatilities are decimal per √year of 365 days, as implied ones are: 0.55 is 55 %. A window counts bars and
ends with the bar at its label; a bar stands at its start and is known when it has ended, one step later.
Markets that never close have no overnight gap; the estimators that allow for one then find it to be small.

References
----------
Parkinson (1980), J. Business 53; Garman and Klass (1980), J. Business 53; Rogers and Satchell (1991), Ann.
Appl. Probab. 1; Yang and Zhang (2000), J. Business 73; Barndorff-Nielsen and Shephard (2004), J. Fin.
Econometrics 2.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import xarray as xr

from derivdata._typing import Floats
from derivdata.analysis.inputs import require_times, require_variables
from derivdata.analysis.last_value import last_valid
from derivdata.analysis.panels import require
from derivdata.arguments import typed
from derivdata.units import HOURS_PER_YEAR

__all__ = ["bars", "bipower", "cone", "implied_minus_realised", "realised"]

_UNIT = "1/√year"
_BAR = ("open_usd", "high_usd", "low_usd", "close_usd")
_HOUR_US = 3_600_000_000
_LN2 = float(np.log(2.0))


def __dir__() -> list[str]:
    return __all__


@typed
def bars(price: xr.DataArray, *, step_hours: float = 24.0) -> xr.Dataset:
    """Make bars from prices that are sampled more finely.

    Parameters
    ----------
    price
        Prices [USD] with a dim ``time``, in memory: a panel of ``dd.prices.history``.
    step_hours
        Length of a bar [h]; bars begin at multiples of it since 1970-01-01 00:00 UTC.

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
    if not 0.0 < step_hours < np.inf:
        raise ValueError(f"{step_hours=} is not a length of time in hours")
    step = round(step_hours * _HOUR_US)
    stamps = price["time"].values.astype("datetime64[us]").astype(np.int64)
    number = stamps // step
    if (np.diff(stamps) <= 0).any():
        raise ValueError("price: times must ascend without repeats")
    first = np.arange(number[0], number[-1] + 1) if number.size else np.zeros(0, dtype=np.int64)
    values = np.moveaxis(np.asarray(price.values, dtype=np.float64), price.get_axis_num("time"), -1)
    values = np.where(values > 0.0, values, np.nan)
    columns = _bars(values, np.searchsorted(number, first), np.searchsorted(number, first, side="right"))
    begun, ended = _spanned(values, stamps)
    whole = (first * step >= begun[..., None]) & ((first + 1) * step <= ended[..., None])
    columns |= {name: np.where(whole, columns[name], np.nan) for name in _BAR}
    dims = (*(dim for dim in price.dims if dim != "time"), "time")
    coords = {name: c for name, c in price.coords.items() if "time" not in c.dims}
    coords |= {"time": (first * step).astype("datetime64[us]")}
    made = xr.Dataset({name: (dims, column) for name, column in columns.items()}, coords=coords)
    for name in _BAR:
        made[name].attrs["units"] = "USD"
    return made.transpose(*price.dims)


def _spanned(values: Floats, stamps: Any) -> tuple[Floats, Floats]:
    """Return what time the prices of each series span: a median step before the first and after the last.

    A single price has no step; it tells of no time but its own.
    """
    rows = values.reshape(-1, len(stamps)) if len(stamps) else np.zeros((0, 0))
    spans = np.full((2, int(np.prod(values.shape[:-1]))), np.nan)
    for place, row in enumerate(rows):
        known = stamps[~np.isnan(row)]
        if known.size:
            usual = np.median(np.diff(known)) if known.size > 1 else 0.0
            spans[:, place] = known[0] - usual, known[-1] + usual
    begun, ended = spans.reshape(2, *values.shape[:-1])
    return begun, ended


def _bars(values: Floats, begin: Any, end: Any) -> dict[str, Floats]:
    shape = (*values.shape[:-1], len(begin))
    found = {name: np.full(shape, np.nan) for name in _BAR}
    found["count"] = np.zeros(shape)
    before = np.full(shape[:-1], np.nan)
    for place, (a, b) in enumerate(zip(begin.tolist(), end.tolist(), strict=True)):
        inside = values[..., a:b]
        known = ~np.isnan(inside)
        count = known.sum(axis=-1)
        some = count > 0
        if inside.shape[-1]:
            ends = np.argmax(known, axis=-1), b - a - 1 - np.argmax(known[..., ::-1], axis=-1)
            opened, close = (np.take_along_axis(inside, e[..., None], axis=-1)[..., 0] for e in ends)
        else:
            opened = close = before * np.nan
        opened = np.where(np.isnan(before), opened, before)
        filled = np.concatenate([opened[..., None], inside], axis=-1)
        high = np.where(np.isnan(filled), -np.inf, filled).max(axis=-1)
        low = np.where(np.isnan(filled), np.inf, filled).min(axis=-1)
        for name, column in zip(_BAR, (opened, high, low, close), strict=True):
            found[name][..., place] = np.where(some, column, np.nan)
        found["count"][..., place] = count
        before = np.where(some, close, np.nan)
    return found


@typed
def realised(
    data: xr.Dataset,
    window: int,
    *,
    method: Literal[
        "close_to_close", "parkinson", "garman_klass", "rogers_satchell", "yang_zhang"
    ] = "yang_zhang",
) -> xr.DataArray:
    """Estimate volatility over a trailing window of bars.

    Parameters
    ----------
    data
        ``open_usd``, ``high_usd``, ``low_usd``, ``close_usd`` with a dim ``time`` in regular steps: what
        `bars` returns.
    window
        Number of bars, at least 2.
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
        ``volatility`` [1/√year] at the start of the last bar of each window, known when that bar has ended:
        shift it by a bar before anything is decided at its label. NaN until a window is full, and
        where a bar of it is missing. Methods that use the close before (close-to-close, Yang–Zhang) need one
        bar more.

    Raises
    ------
    ValueError, TypeError
        A variable is missing, times are not in regular steps, or the window is below 2.

    Examples
    --------
    >>> prices = dd.panel(dd.prices.history("BTC", "30d", exchanges=["okx"], kind="mark"), "price_usd")
    >>> days = dd.analysis.volatility.bars(prices)
    >>> monthly = dd.analysis.volatility.realised(days, window=20)
    >>> monthly.dropna("time", how="all").isel(time=-1).round(2).item()
    0.34
    """
    require_variables(data, "data", _BAR)
    per_year = HOURS_PER_YEAR / _step_hours(data)
    if window < 2:
        raise ValueError(f"{window=}: a variance needs two bars at least")
    found = xr.apply_ufunc(
        _realised,
        *(data[name] for name in _BAR),
        input_core_dims=[["time"]] * 4,
        output_core_dims=[["time"]],
        kwargs={"n": window, "method": method, "per_year": per_year},
        dask="parallelized",
        output_dtypes=[np.float64],
        dask_gufunc_kwargs={"allow_rechunk": True},
    )
    return _named(found.transpose(*data["close_usd"].dims), method, window)


def _realised(
    o: Floats, h: Floats, low: Floats, c: Floats, *, n: int, method: str, per_year: float
) -> Floats:
    o, h, low, c = (np.log(np.where(x > 0.0, x, np.nan)) for x in (o, h, low, c))
    before = np.concatenate([np.full_like(c[..., :1], np.nan), c[..., :-1]], axis=-1)
    # Garman and Klass drop the small cross term of their best estimator; so does everybody since.
    terms = {
        "parkinson": (h - low) ** 2 / (4.0 * _LN2),
        "garman_klass": 0.5 * (h - low) ** 2 - (2.0 * _LN2 - 1.0) * (c - o) ** 2,
        "rogers_satchell": (h - c) * (h - o) + (low - c) * (low - o),
    }
    if method == "close_to_close":
        variance = _variance(c - before, n)
    elif method == "yang_zhang":
        k = 0.34 / (1.34 + (n + 1) / (n - 1))
        inside = _mean(terms["rogers_satchell"], n)
        variance = _variance(o - before, n) + k * _variance(c - o, n) + (1.0 - k) * inside
    else:
        variance = _mean(terms[method], n)
    return np.sqrt(np.maximum(variance, 0.0) * per_year)


@typed
def bipower(price: xr.DataArray, window: int) -> xr.Dataset:
    """Split realised volatility into what moves continuously and what jumps.

    Parameters
    ----------
    price
        Prices [USD] with a dim ``time`` in regular steps.
    window
        Number of returns n, at least 2.

    Returns
    -------
    Dataset
        ``volatility``, from the sum of squared returns r²; ``continuous``, from bipower variation
        (π/2) n/(n − 1) Σ|rᵢ||rᵢ₋₁|, which single jumps leave as it is; both [1/√year]. ``jump_share``, the
        part of the variance that is not continuous [fraction], 0 where that would be negative.

    Raises
    ------
    ValueError, TypeError
        No dim ``time``, another unit, times not in regular steps, or a window below 2.
    """
    require(price, "time", units="USD", name="price")
    per_year = HOURS_PER_YEAR / _step_hours(price)
    if window < 2:
        raise ValueError(f"{window=}: bipower variation needs two returns at least")
    total, smooth = xr.apply_ufunc(
        _bipower,
        price,
        input_core_dims=[["time"]],
        output_core_dims=[["time"], ["time"]],
        kwargs={"n": window, "per_year": per_year},
        dask="parallelized",
        output_dtypes=[np.float64, np.float64],
        dask_gufunc_kwargs={"allow_rechunk": True},
    )
    total, smooth = total.transpose(*price.dims), smooth.transpose(*price.dims)
    share = (1.0 - smooth / total.where(total > 0.0)).clip(min=0.0)
    return xr.Dataset(
        {
            "volatility": _named(np.sqrt(total), "squared returns", window),
            "continuous": _named(np.sqrt(smooth), "bipower", window),
            "jump_share": share.assign_attrs(units="fraction"),
        }
    )


def _bipower(price: Floats, *, n: int, per_year: float) -> tuple[Floats, Floats]:
    logs = np.log(np.where(price > 0.0, price, np.nan))
    returns = np.full_like(logs, np.nan)
    returns[..., 1:] = np.diff(logs, axis=-1)
    size = np.abs(returns)
    product = np.full_like(size, np.nan)
    product[..., 1:] = size[..., 1:] * size[..., :-1]
    # n returns have n − 1 neighbouring products; their mean times π/2 is the variance of one return.
    smooth = np.full_like(size, np.nan)
    smooth[..., 1:] = 0.5 * np.pi * _mean(product[..., 1:], n - 1)
    return _mean(returns**2, n) * per_year, smooth * per_year


@typed
def cone(
    data: xr.Dataset,
    windows: Sequence[int],
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
        Numbers of bars.
    quantiles
        Parts of the windows that lie below, 0 to 1.

    Returns
    -------
    Dataset
        ``volatility`` over ``window`` and ``quantile``, ``latest`` and ``count`` (windows) over ``window``,
        beside the dims of `data` but ``time``. Windows overlap, so `count` of them hold far less news than as
        many separate ones; long windows of a short history have a cone that is too narrow.

    Raises
    ------
    ValueError, TypeError
        As in `realised`; no window or a quantile outside 0 to 1.
    """
    if not len(windows) or len(set(windows)) < len(windows):
        raise ValueError(f"windows={list(windows)} must name at least one, and each once")
    if not len(quantiles) or not all(0.0 <= q <= 1.0 for q in quantiles):
        raise ValueError(f"quantiles={list(quantiles)} are not parts from 0 to 1")
    parts = [
        realised(data, window, method=method).chunk(time=-1)
        if data.chunks
        else realised(data, window, method=method)
        for window in windows
    ]
    every = xr.concat(parts, xr.Variable("window", list(windows)), coords="minimal", compat="override")
    known = every.notnull()
    last = xr.apply_ufunc(
        _newest, every, input_core_dims=[["time"]], dask="parallelized", output_dtypes=[np.float64]
    )
    found = xr.Dataset(
        {
            "volatility": every.quantile(list(quantiles), "time", skipna=True),
            "latest": last,
            "count": known.sum("time"),
        }
    )
    found["volatility"].attrs = {"units": _UNIT, "method": method}
    found["latest"].attrs = {"units": _UNIT, "method": method}
    return found


@typed
def implied_minus_realised(
    implied: xr.DataArray, realised: xr.DataArray, *, horizon_hours: float, ahead: bool = True
) -> xr.Dataset:
    """Compare implied volatility with what was realised.

    Parameters
    ----------
    implied
        Implied volatility of options that live about `horizon_hours` [1/√year], with a dim ``time``.
    realised
        Volatility over windows of that length, labelled by the instant at which each window ends [1/√year],
        with a dim ``time``. What the function `realised` returns is labelled by the start of its last bar:
        add a bar's length to its ``time`` first.
    horizon_hours
        Length of those windows [h].
    ahead
        Whether an implied volatility is compared with the window that begins with it, which is what its
        seller earned, and is known only at the end; else against the window that ends with it, which is known
        at once.

    Returns
    -------
    Dataset
        ``volatility`` and ``variance``: implied minus realised [1/√year, 1/year] at the instants of
        `implied`; NaN where `realised` has no counterpart.

    Raises
    ------
    ValueError, TypeError
        No dim ``time``, or a horizon that is not above 0.
    """
    for data, name in ((implied, "implied"), (realised, "realised")):
        require(data, "time", name=name)
        require_times(data, name)
    if not 0.0 < horizon_hours < np.inf:
        raise ValueError(f"{horizon_hours=} is not a length of time in hours")
    if ahead:
        shift = np.timedelta64(round(horizon_hours * _HOUR_US), "us")
        realised = realised.assign_coords(time=realised["time"] - shift)
    implied, realised = xr.align(implied, realised, join="left", exclude=_others(implied, realised))
    found = xr.Dataset({"volatility": implied - realised, "variance": implied**2 - realised**2})
    found["volatility"].attrs, found["variance"].attrs = {"units": _UNIT}, {"units": "1/year"}
    return found


def _others(one: xr.DataArray, other: xr.DataArray) -> set[Any]:
    return ({*one.dims} | {*other.dims}) - {"time"}


def _step_hours(data: xr.DataArray | xr.Dataset) -> float:
    require_times(data, "data")
    stamps = data["time"].values.astype("datetime64[us]").astype(np.int64)
    steps = np.unique(np.diff(stamps))
    if len(steps) != 1 or steps[0] <= 0:
        raise ValueError(
            "times must be in regular steps, two at least: leave gaps as NaN, by .reindex(time=...) or `bars`"
        )
    return float(steps[0]) / _HOUR_US


def _named(found: xr.DataArray, method: str, window: int) -> xr.DataArray:
    return found.rename("volatility").assign_attrs(units=_UNIT, method=method, window=window)


def _newest(values: Floats) -> Floats:
    """Return the last value along the last axis that is there, NaN where none is."""
    if not values.shape[-1]:
        return np.full(values.shape[:-1], np.nan)
    place = np.maximum(last_valid(~np.isnan(values))[..., -1:], 0)
    return np.asarray(np.take_along_axis(values, place, axis=-1)[..., 0])


def _mean(values: Floats, n: int) -> Floats:
    """Return the mean of each trailing window of n values; NaN until it is full and where one is NaN."""
    result = np.full(values.shape, np.nan)
    if values.shape[-1] >= n:
        result[..., n - 1 :] = np.lib.stride_tricks.sliding_window_view(values, n, axis=-1).mean(axis=-1)
    return result


def _variance(values: Floats, n: int) -> Floats:
    """Return the sample variance of each trailing window, over n − 1."""
    result = np.full(values.shape, np.nan)
    if values.shape[-1] >= n:
        result[..., n - 1 :] = np.lib.stride_tricks.sliding_window_view(values, n, axis=-1).var(
            axis=-1, ddof=1
        )
    return result
