"""Butterfly arbitrage of raw SVI slices: a search of the whole line, and a quick proof of absence.

The proof: with ``k = m + σ sinh ξ`` and ``t = e^ξ`` everything in Durrleman's condition is rational in t, and
``g(k) ≥ 0`` means that a polynomial of degree 10 is not negative for any t > 0. The line is cut at powers of
two, and on each piece the polynomial is written in Bernstein's basis: if no coefficient is negative, the
polynomial is not either. A slice without such a proof may still be free of butterflies; use `check_slices`.
"""

from __future__ import annotations

from math import comb
from typing import NamedTuple

import numpy as np

from derivdata.analysis.smile.svi import Bumped, Raw, density_factor, slice_of, total_variance
from derivdata.support.arrays import Bools, Floats

TOLERANCE = 1e-10
_POINTS = 801
_ROWS = 128
_FAR = 100.0
_ZOOMS = 7
_ZOOM_POINTS = 17

_DEGREE = 10
_CUTS = 2.0 ** np.arange(-12, 13)
_ROUNDING = 1e-9  # minimum over maximum coefficient; below it rounding may hide a negative one


class Butterfly(NamedTuple):
    """Minimum ``g`` and its location, ``g`` at both ends of the line, and the verdict."""

    min_g: Floats
    argmin_k: Floats
    g_left: Floats
    g_right: Floats
    ok: Bools


def check_slices(raw: Raw | Bumped, k_min: Floats, k_max: Floats) -> Butterfly:
    """Check slices, parameters ``(slices,)``, over the whole line; NaN and False without a fit.

    `g` is sampled at 801 points, dense about the vertex and out to at least 100 times the quoted range and
    five deviations, the lowest bracket is refined, and the limits ``1/4 − (b(1 ± ρ))²/16`` are exact.
    """
    centre = np.sqrt(np.maximum(total_variance(0.0, raw), 0.0))
    quoted = np.maximum(np.abs(k_min), np.abs(k_max)) + 1.0
    reach = np.maximum(5.0 * centre, np.where(np.isfinite(quoted), quoted, 1.0))
    low = np.empty_like(reach)
    where = np.empty_like(reach)
    for start in range(0, reach.size, _ROWS):
        rows = slice(start, start + _ROWS)
        block = slice_of([p[rows, None] for p in raw])
        low[rows], where[rows] = _lowest_raw(block, reach[rows, None])
    left, right = (0.25 - np.square(raw.b * (1.0 + side * raw.rho)) / 16.0 for side in (-1.0, 1.0))
    least = raw.a + raw.b * raw.sigma * np.sqrt(1.0 - np.square(raw.rho))
    steep = raw.b * (1.0 + np.abs(raw.rho)) >= 2.0
    ok = (low >= -TOLERANCE) & (left >= 0.0) & (right >= 0.0) & (least > 0.0) & ~steep
    return Butterfly(low, where, left, right, ok)


def _lowest_raw(raw: Raw | Bumped, reach: Floats) -> tuple[Floats, Floats]:
    """Return the minimum g of each row and its place, by zooming in on the lowest bracket."""
    far = _FAR * reach
    unit = np.maximum(raw.sigma, 1e-9 * far)
    start = np.arcsinh((-far - raw.m) / unit)
    stop = np.arcsinh((far - raw.m) / unit)
    share = np.linspace(0.0, 1.0, _POINTS)
    for _ in range(1 + _ZOOMS):
        x = start + (stop - start) * share
        k = raw.m + unit * np.sinh(x)
        values = density_factor(k, *(total_variance(k, raw, derivative=d) for d in (0, 1, 2)))
        # Where bumps take total variance below 0, which SVI is checked for apart, there is a butterfly.
        lost = -np.inf if isinstance(raw, Bumped) else np.inf
        at = np.argmin(np.where(np.isnan(values), lost, values), axis=-1)[:, None]
        step = (stop - start) * share[1]
        place = np.take_along_axis(x, at, -1)
        start = np.maximum(place - step, start)
        stop = np.minimum(place + step, stop)
        share = np.linspace(0.0, 1.0, _ZOOM_POINTS)
    return np.take_along_axis(values, at, -1)[:, 0], (raw.m + unit * np.sinh(place))[:, 0]


def certified(raw: Raw) -> Bools:
    """Tell where slices, parameters of shape ``(slices,)``, are sure to have no butterfly."""
    a, b, rho, m, sigma = raw
    right = b * (1.0 + rho)
    left = b * (1.0 - rho)
    usual = (a + b * sigma * np.sqrt(np.maximum(1.0 - rho * rho, 0.0)) > 0.0) & (sigma > 0.0)
    usual &= (right < 2.0) & (left < 2.0)
    proved = np.zeros(usual.shape, dtype=bool)
    rows = np.flatnonzero(usual)
    if rows.size:
        polynomial = _polynomial(*(parameter[rows] for parameter in (a, right, left, m, sigma)))
        proved[rows] = _positive(polynomial)
    return proved


def _polynomial(a: Floats, right: Floats, left: Floats, m: Floats, sigma: Floats) -> Floats:
    """Return ``64 t² (t² + 1)³ w² g`` as coefficients ``(11, slices)`` of ascending powers of t.

    With ``k = m + σ (t − 1/t)/2`` the root is ``√((k−m)² + σ²) = σ (t + 1/t)/2``, and with the wing slopes
    ``r = b(1 + ρ)``, ``l = b(1 − ρ)``::

        w  = level/(2 t)          level  = lσ + 2a t + rσ t²
        w' = slope/(t² + 1)       slope  = −l + r t²
        k  = place/(2 t)          place  = −σ + 2m t + σ t²
        w'' = 4 (r + l)/σ · t³/(t² + 1)³

    so ``1 − k w'/(2w) = tangent/(2 level circle)`` with ``circle = t² + 1`` and ``tangent = 2 level circle −
    place slope``, and ``(w'²/4)(1/w + 1/4)`` has the numerator ``slope² (level² + 8 t level)``. Over one
    denominator, that of w² g times positive powers of t and circle, g becomes this polynomial.
    """
    zero = np.zeros_like(a)
    unit = np.ones_like(a)
    level = np.stack([left * sigma, 2.0 * a, right * sigma])
    slope = np.stack([-left, zero, right])
    circle = np.stack([unit, zero, unit])
    place = np.stack([-sigma, 2.0 * m, sigma])
    tangent = 2.0 * product(level, circle) - product(place, slope)
    square = product(level, level)
    wings = square + 8.0 * np.pad(level, ((1, 1), (0, 0)))
    first = product(circle, 4.0 * product(tangent, tangent) - product(product(slope, slope), wings))
    bend = 32.0 * (right + left) / sigma * square
    first[3:8] += bend  # w'' term: 64 t² (t² + 1)³ w² · w''/2 = 32 (r + l)/σ · t³ level²
    return first


def product(p: Floats, q: Floats) -> Floats:
    """Multiply polynomials with coefficients in ascending powers along the first axis."""
    out = np.zeros((len(p) + len(q) - 1, *p.shape[1:]))
    for i, factor in enumerate(p):
        out[i : i + len(q)] += factor * q
    return out


def _positive(polynomial: Floats) -> Bools:
    """Return whether no Bernstein coefficient is negative on any piece of the positive line.

    The pieces are [0, 2⁻¹²] (t = cut · s), [2ⁱ, 2ⁱ⁺¹] (t = cut · (1 + s)), and from 2¹² to infinity, where
    the reversed coefficients are those of the polynomial in 1/t.
    """
    powers = np.arange(_DEGREE + 1)
    to_unit = _basis(shifted=False)
    to_next = _basis(shifted=True)
    pieces = [
        to_unit @ (polynomial * _CUTS[0] ** powers[:, None]),
        to_unit @ (polynomial[::-1] * (1.0 / _CUTS[-1]) ** powers[:, None]),
        *(to_next @ (polynomial * cut ** powers[:, None]) for cut in _CUTS[:-1]),
    ]
    least = np.min(pieces, axis=1)
    greatest = np.max(pieces, axis=1)
    return np.asarray((least >= _ROUNDING * greatest).all(axis=0))


def _basis(*, shifted: bool) -> Floats:
    """Convert powers of s, or of 1 + s, to Bernstein's basis of degree 10 on 0 ≤ s ≤ 1."""
    n = _DEGREE
    from_powers = np.array([[comb(i, j) / comb(n, j) for j in range(n + 1)] for i in range(n + 1)])
    if not shifted:
        return from_powers
    return from_powers @ np.array(
        [[comb(j, i) for j in range(n + 1)] for i in range(n + 1)], dtype=np.float64
    )
