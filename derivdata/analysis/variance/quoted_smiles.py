"""Kernel of the strip of quoted volatilities, one slice per row. The last axis is the strike."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import special

from derivdata.analysis.status import Status
from derivdata.analysis.variance.integrals import over_strike, tails
from derivdata.analysis.variance.strip import Bools, Floats, boundary, contributions, total

__all__ = ["strip"]

_LEAST_DELTA = 1e-3


def strip(k: Floats, iv: Floats, t: Floats, low: Floats, high: Floats, *, floor: float) -> tuple[Any, ...]:
    """Sum the strip of each slice of quoted volatilities, with bounds of what lies beyond it."""
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
    k_low, k_high, s_low, s_high = _ends(x, s, used, few)
    w = np.where(few, np.nan, w)
    status = np.where(few, np.int32(Status.TOO_FEW_STRIKES), np.int32(0))
    return w, w, w, w + tails(k_low, k_high, s_low, s_high, floor), k_low, k_high, status


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
