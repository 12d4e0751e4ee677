"""Kernels of variance from prices: integrals between quotes, and what may lie beyond them."""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr
from scipy import special

from derivdata.analysis.labelling import applied
from derivdata.analysis.status import Status
from derivdata.support.arrays import Floats

_LEAST_DELTA = 1e-3
_NODES, _WEIGHTS = (part / 2.0 for part in np.polynomial.legendre.leggauss(6))
_NODES = _NODES + 0.5  # of an interval between two strikes


def over_strike(k: Floats, s: Floats) -> Floats:
    """Return undiscounted out-of-the-money price over the strike, at deviation ``s = iv √T``; no overflow."""
    side = np.where(k > 0.0, 1.0, -1.0)
    d1 = -k / s + s / 2.0
    d2 = -k / s - s / 2.0
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
    """Integrate the prices between the quotes of each slice: total variance, ends, deviations there, status.

    Between two strikes the volatility is linear in log-moneyness. A sum over strikes would be too high where
    they are far apart, since prices fall faster than in a line.
    """
    t, low, high = (np.asarray(part)[..., None] for part in (t, low, high))
    with np.errstate(invalid="ignore", divide="ignore"):
        s = iv * np.sqrt(t)
        x, s = np.broadcast_arrays(k, np.where(s > 0.0, s, np.nan))
        delta = special.ndtr(-np.abs(x) / s + np.sign(x) * s / 2.0)
    used = np.isfinite(x) & (delta >= _LEAST_DELTA) & (x >= low) & (x <= high)
    x = np.where(used, x, np.nan)
    s = np.where(used, s, np.nan)
    middle = at_the_money_of(x, s)  # where puts and calls meet, and prices have a kink
    few = (used.sum(axis=-1) < 3) | np.isnan(middle)
    x = np.concatenate([x, np.where(np.isnan(middle), np.nan, 0.0)[..., None]], axis=-1)
    s = np.concatenate([s, middle[..., None]], axis=-1)
    order = np.argsort(x, axis=-1)  # NaN last
    x = np.take_along_axis(x, order, -1)
    s = np.take_along_axis(s, order, -1)
    step = np.diff(x)
    there = np.isfinite(step)  # most places of a history have no quote
    width = step[there][:, None]
    nodes = x[..., :-1][there][:, None] + width * _NODES
    deviations = s[..., :-1][there][:, None] + np.diff(s)[there][:, None] * _NODES
    priced = np.zeros((*step.shape, _NODES.size))
    priced[there] = 2.0 * over_strike(nodes, deviations) * width * _WEIGHTS
    w = np.where(few, np.nan, priced.sum(axis=(-1, -2)))
    status = np.where(few, np.int32(Status.TOO_FEW_STRIKES), np.int32(0))
    last = np.maximum(np.isfinite(x).sum(axis=-1) - 1, 0)[..., None]
    ends = [
        np.where(few, np.nan, np.take_along_axis(part, at, -1)[..., 0])
        for part in (x, s)
        for at in (0 * last, last)
    ]
    return w, *ends, status


def at_the_money_of(k: Floats, values: Floats) -> Floats:
    """Values of the quotes at k = 0, linear between the two around it; NaN without one on either side."""
    k, values = np.broadcast_arrays(k, values)
    if not values.shape[-1]:
        return np.full(values.shape[:-1], np.nan)
    here = np.isfinite(k) & np.isfinite(values)
    below = np.where(here & (k <= 0.0), k, -np.inf)
    above = np.where(here & (k > 0.0), k, np.inf)
    left = below.argmax(axis=-1)[..., None]
    right = above.argmin(axis=-1)[..., None]
    k0, k1, v0, v1 = (
        np.take_along_axis(part, at, -1)[..., 0]
        for part, at in ((below, left), (above, right), (values, left), (values, right))
    )
    both = np.isfinite(k0) & np.isfinite(k1)
    share = np.divide(-k0, k1 - k0, out=np.zeros_like(v0), where=both)
    return np.where(both, v0 + share * (v1 - v0), np.nan)
