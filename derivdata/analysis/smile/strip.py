"""Kernels of the variance strip: which strikes, how wide each, and their sum. The last axis is the strike."""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray
from scipy import special

from derivdata.analysis.labelling import applied
from derivdata.analysis.status import Status
from derivdata.support.arrays import Bools, Floats

_LEAST_DELTA = 1e-3


def spacing(strike: Floats, used: Bools) -> Floats:
    """Half the distance between the used neighbours, at the ends all of that to the only one; 0 if unused."""
    strike = np.broadcast_to(strike, used.shape)
    below = _shifted(np.maximum.accumulate(np.where(used, strike, -np.inf), axis=-1), 1, -np.inf)
    from_above = np.where(used, strike, np.inf)[..., ::-1]
    above = _shifted(np.minimum.accumulate(from_above, axis=-1)[..., ::-1], -1, np.inf)
    lower, upper = np.isfinite(below), np.isfinite(above)
    wide = np.where(upper, above, strike) - np.where(lower, below, strike)
    return np.where(used, wide / np.where(lower & upper, 2.0, 1.0), 0.0)


def boundary(strike: Floats, listed: Bools, forward: Floats) -> Floats:
    """Return the largest listed strike that is not above the forward, NaN without one."""
    below = listed & (strike <= forward[..., None])
    largest = np.where(below, strike, -np.inf).max(axis=-1)
    return np.where(np.isfinite(largest), largest, np.nan)


def walk(listed: Bools, bid: Bools) -> Bools:
    """Options that a walk along the axis takes: those with a bid, until two listed in a row have none."""
    order = np.argsort(~listed, axis=-1, kind="stable")
    none = np.take_along_axis(listed & ~bid, order, -1)
    second = none & _shifted(none, 1, False)
    stopped = np.logical_or.accumulate(second, axis=-1)
    taken = np.empty_like(listed)
    np.put_along_axis(taken, order, ~stopped, -1)
    return taken & listed & bid


def contributions(strike: Floats, price: Floats, used: Bools) -> Floats:
    """``ΔK/K² Q`` of each used strike, in rising order, 0 elsewhere."""
    with np.errstate(invalid="ignore"):
        return np.where(used, spacing(strike, used) / np.square(strike) * price, 0.0)


def total(contribution: Floats, start: Floats, forward: Floats, growth: Floats | float = 1.0) -> Floats:
    """``2 e^(RT) Σ ΔK/K² Q − (F/K₀ − 1)²``, total variance."""
    return np.asarray(2.0 * growth * contribution.sum(axis=-1) - np.square(forward / start - 1.0))


def over_strike(k: Floats, s: Floats) -> Floats:
    """Return undiscounted out-of-the-money price over the strike, at deviation ``s = iv √T``; no overflow."""
    side = np.where(k > 0.0, 1.0, -1.0)
    d1, d2 = -k / s + s / 2.0, -k / s - s / 2.0
    return np.asarray(side * (np.exp(-k + special.log_ndtr(side * d1)) - special.ndtr(side * d2)))


def tails(k_low: Floats, k_high: Floats, s_low: Floats, s_high: Floats, floor: float) -> Floats:
    """Return the most total variance that options beyond the ends price, the underlying never below `floor`.

    Calls beyond the last strike cost no more than that one, and puts below the first no more in proportion
    to their strike: ``2 C/K`` and ``2 P/K ln(K/floor)``. An infinite end has nothing beyond. NaN where the
    forward does not lie between the ends.
    """
    with np.errstate(invalid="ignore"):
        call = np.where(np.isinf(k_high), 0.0, 2.0 * over_strike(k_high, s_high))
        room = np.maximum(k_low - np.log(floor), 0.0)
        put = np.where(np.isinf(k_low), 0.0, 2.0 * over_strike(k_low, s_low) * room)
        return np.where((k_low <= 0.0) & (k_high > 0.0), call + put, np.nan)


def strips(
    k: xr.DataArray, iv: xr.DataArray, t: xr.DataArray, dim: str, ends: tuple[Any, Any] = (-np.inf, np.inf)
) -> tuple[xr.DataArray, ...]:
    """Sum the strips of labelled quotes between two ends; see `strip` for the results."""
    parts: tuple[xr.DataArray, ...] = applied(
        strip,
        *(k, iv, t, *ends),
        core=[[dim], [dim], [], [], []],
        out=[[]] * 6,
        types=[np.float64] * 5 + [np.int32],
    )
    return parts


def strip(k: Floats, iv: Floats, t: Floats, low: Floats, high: Floats) -> tuple[Any, ...]:
    """Sum the strip of each slice of quoted volatilities: total variance, ends, deviations there, status."""
    t = np.asarray(t)[..., None]
    low, high = np.asarray(low)[..., None], np.asarray(high)[..., None]
    with np.errstate(invalid="ignore"):
        s = iv * np.sqrt(t)
        usable = np.isfinite(k) & (s > 0.0)
        x, s = np.broadcast_arrays(np.where(usable, k, np.inf), np.where(usable, s, 1.0))
    order = np.argsort(x, axis=-1)
    x, s = np.take_along_axis(x, order, -1), np.take_along_axis(s, order, -1)
    delta = special.ndtr(-np.abs(x) / s + np.sign(x) * s / 2.0)
    used = np.isfinite(x) & (delta >= _LEAST_DELTA) & (x >= low) & (x <= high)
    x = np.where(used, x, 0.0)
    strike, price = np.exp(x), over_strike(x, s) * np.exp(x)
    forward = np.ones(used.shape[:-1])
    start = boundary(strike, used, forward)
    at_start = used & (strike == start[..., None])
    price = price + np.where(at_start, (1.0 - strike) / 2.0, 0.0)
    w = total(contributions(strike, price, used), start, forward)
    few = (used.sum(axis=-1) < 3) | ~(used & (x > 0.0)).any(axis=-1) | np.isnan(start)
    status = np.where(few, np.int32(Status.TOO_FEW_STRIKES), np.int32(0))
    return np.where(few, np.nan, w), *_ends(x, s, used, few), status


def _ends(x: Floats, s: Floats, used: Bools, none: Bools) -> tuple[Floats, Floats, Floats, Floats]:
    """Return the log-moneyness of the first and last used strike, then their deviations."""
    first = np.argmax(used, axis=-1)[..., None]
    last = used.shape[-1] - 1 - np.argmax(used[..., ::-1], axis=-1)[..., None]
    k_low, k_high, s_low, s_high = (
        np.where(none, np.nan, np.take_along_axis(part, at, -1)[..., 0])
        for part in (x, s)
        for at in (first, last)
    )
    return k_low, k_high, s_low, s_high


def _shifted(values: NDArray[Any], by: int, fill: float | bool) -> NDArray[Any]:
    out = np.roll(values, by, axis=-1)
    out[..., 0 if by > 0 else -1] = fill
    return out
