"""Kernels of the variance strip: which strikes, how wide each, and their sum. The last axis is the strike."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from derivdata.support.arrays import Bools, Floats

__all__ = ["boundary", "contributions", "spacing", "total", "walk"]


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


def _shifted(values: NDArray[Any], by: int, fill: float | bool) -> NDArray[Any]:
    out = np.roll(values, by, axis=-1)
    out[..., 0 if by > 0 else -1] = fill
    return out
