"""Kernels of the integrals over a smile, one slice per row; the last axis is the node."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from derivdata.analysis.smile.strip import over_strike
from derivdata.analysis.status import Status
from derivdata.support.arrays import Bools, Floats

_PANELS, _PER_PANEL = 4, 96
_FAR = 1e6

NODES = _PANELS * _PER_PANEL
"""Nodes of a slice."""


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
