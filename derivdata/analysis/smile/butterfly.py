"""Kernels that look for butterfly arbitrage in one slice per row."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from derivdata.analysis.smile.parameters import Floats, Raw
from derivdata.analysis.smile.svi_curve import density_factor, raw_total_variance

__all__ = ["TOLERANCE", "Butterfly", "check_raw", "lowest"]

TOLERANCE = 1e-10
POINTS = 801
_ROWS = 128
_FAR = 100.0
_ZOOMS, _ZOOM_POINTS = 7, 17


class Butterfly(NamedTuple):
    """Least ``g`` and where, ``g`` at both ends of the line, and the verdict."""

    min_g: Floats
    argmin_k: Floats
    g_left: Floats
    g_right: Floats
    ok: NDArray[np.bool_]


def check_raw(raw: Raw, reach: Floats) -> Butterfly:
    """Check raw SVI slices for butterfly arbitrage over the whole line.

    `g` is sampled at 801 points, dense about the vertex and out to 100 × `reach`, the lowest bracket is
    refined, and the two limits ``1/4 − (b(1 ± ρ))²/16`` are exact.

    Parameters
    ----------
    raw
        Parameters, each of shape ``(slices,)``.
    reach
        Log-moneyness that must be covered on both sides.
    """
    low, where = np.empty_like(reach), np.empty_like(reach)
    for start in range(0, reach.size, _ROWS):
        rows = slice(start, start + _ROWS)
        part = Raw(*(p[rows, None] for p in raw))
        low[rows], where[rows] = _lowest_raw(part, reach[rows, None])
    left, right = (0.25 - np.square(raw.b * (1.0 + side * raw.rho)) / 16.0 for side in (-1.0, 1.0))
    least = raw.a + raw.b * raw.sigma * np.sqrt(1.0 - np.square(raw.rho))
    steep = raw.b * (1.0 + np.abs(raw.rho)) >= 2.0
    ok = (low >= -TOLERANCE) & (left >= 0.0) & (right >= 0.0) & (least > 0.0) & ~steep
    return Butterfly(low, where, left, right, ok)


def lowest(
    g: Callable[[Floats], Floats], start: Floats, stop: Floats, points: int = POINTS
) -> tuple[Floats, Floats]:
    """Least value of `g` and its place, per row, between `start` and `stop` of shape ``(slices, 1)``."""
    share = np.linspace(0.0, 1.0, points)
    for _ in range(1 + _ZOOMS):
        x = start + (stop - start) * share
        values = g(x)
        at = np.argmin(np.where(np.isnan(values), np.inf, values), axis=-1)[:, None]
        step = (stop - start) * share[1]
        place = np.take_along_axis(x, at, -1)
        start, stop = np.maximum(place - step, start), np.minimum(place + step, stop)
        share = np.linspace(0.0, 1.0, _ZOOM_POINTS)
    return np.take_along_axis(values, at, -1)[:, 0], place[:, 0]


def _lowest_raw(raw: Raw, reach: Floats) -> tuple[Floats, Floats]:
    far = _FAR * reach
    unit = np.maximum(raw.sigma, 1e-9 * far)

    def g(x: Floats) -> Floats:
        k = raw.m + unit * np.sinh(x)
        return density_factor(k, *(raw_total_variance(k, raw, derivative=d) for d in (0, 1, 2)))

    low, x = lowest(g, np.arcsinh((-far - raw.m) / unit), np.arcsinh((far - raw.m) / unit))
    return low, (raw.m + unit * np.sinh(x[:, None]))[:, 0]
