"""Kernels of the integrals over a smile and of the strip of quoted volatilities, one slice per row.

The last axis is the node, or the strike.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special

from derivdata.analysis.status import Status
from derivdata.analysis.variance.strip import boundary, contributions, total
from derivdata.support.arrays import Bools, Floats

__all__ = ["NODES", "integrals", "nodes", "over_strike", "strip", "tails"]


_PANELS, _PER_PANEL = 4, 96
_FAR = 1e6

NODES = _PANELS * _PER_PANEL
"""Nodes of a slice."""


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


def nodes(width: Floats, low: Floats, high: Floats) -> tuple[Floats, Floats, Bools]:
    """Return the log-moneyness of the nodes, their weights, and whether they lie within the quotes.

    Gauss-Legendre in ``asinh(k/width)`` on the panels that the ends of the quotes and the forward make of
    the whole line.
    """
    width, low, high = np.broadcast_arrays(width, low, high)
    end = np.arcsinh(_FAR / width)
    cuts = [np.clip(np.arcsinh(each / width), -end, end) for each in (low, high)]
    edges = np.sort(np.stack([-end, *cuts, np.zeros_like(end), end], axis=-1), axis=-1)
    middle, half = (edges[..., 1:] + edges[..., :-1]) / 2.0, np.diff(edges, axis=-1) / 2.0
    x, weight = np.polynomial.legendre.leggauss(_PER_PANEL)
    u = middle[..., None] + half[..., None] * x
    scale = width[..., None, None]
    within = (middle > cuts[0][..., None]) & (middle < cuts[1][..., None])
    shape = (*width.shape, NODES)
    inside = np.broadcast_to(within[..., None], u.shape)
    step = scale * np.cosh(u) * half[..., None] * weight
    return (scale * np.sinh(u)).reshape(shape), step.reshape(shape), inside.reshape(shape)


def integrals(
    k: Floats, step: Floats, inside: Bools, w: Floats, slope: Floats, *, fukasawa: bool
) -> tuple[Floats, Floats, NDArray[np.int32]]:
    """Total variance on the whole line, what options inside price of it, ``BUTTERFLY`` where d2 rises."""
    s = np.sqrt(np.where(w > 0.0, w, np.nan))
    priced = 2.0 * over_strike(k, s) * step
    within = np.where(inside, priced, 0.0).sum(axis=-1)
    if not fukasawa:
        return priced.sum(axis=-1), within, np.zeros(within.shape, np.int32)
    d2 = -k / s - s / 2.0
    fall = 1.0 / s - k * slope / (2.0 * s * w) + slope / (4.0 * s)
    density = np.exp(-0.5 * d2 * d2) / np.sqrt(2.0 * np.pi)
    whole = (w * density * fall * step).sum(axis=-1)
    rises = (fall < 0.0).any(axis=-1)
    return np.where(rises, np.nan, whole), within, np.where(rises, np.int32(Status.BUTTERFLY), np.int32(0))


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
