"""Moments of quotes that the search for an SVI slice needs, for all slices at once.

At a given vertex m and width σ total variance is linear in the other parameters, ``w = a + r P + l Q`` with
``P, Q = (R ± x)/2``, ``x = k − m``, ``R = √(x² + σ²)`` and wing slopes r and l. The functions ``1, x, R,
x/R, 1/R`` span the model with its derivatives, and most of their products are again among them, so twelve
sums over the strikes are enough. Sums run over blocks of rows that stay in the processor's cache.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from derivdata.analysis.smile.search import Index, gain
from derivdata.support.arrays import Floats

_ROWS = 512


class Scaled(NamedTuple):
    """Quotes of many slices, scaled so that k fills [−1, 1] and w is about 1; weight 0 is no quote.

    `s0 s1 s2` are sums of the weights times powers of k; `cap` is Lee's bound of a slope in these units.
    """

    k: Floats
    w: Floats
    weight: Floats
    weighted_k: Floats
    s0: Floats
    s1: Floats
    s2: Floats
    cap: Floats

    def rows(self, index: Index | slice) -> Scaled:
        """Return these slices only."""
        return Scaled(*(part[index] for part in self))


class Moments(NamedTuple):
    """Weighted products of ``1, P, Q, x/R, 1/R`` with each other and with the residual, and its square."""

    gram: Floats
    residual: Floats
    loss: Floats


def moments(slices: Scaled, x: Floats) -> Moments:
    """Return the moments at ``x = (a, r, l, m, ln σ)``; the residual is that of these parameters.

    The twelve sums of `_sums` are, with weight v, error e, ``R = √(x² + σ²)`` and ``Q = 1/R``: v e e, v e,
    v e k, v e R, v e Q, v e Q k, v R, v k R, v Q, v k Q, v Q², v k Q². The rest follows, with ``x = k − m``
    and ``R² = x² + σ²``, for instance ``Σ v x²/R² = Σ v − σ² Σ v Q²`` and ``Σ v x² Q = Σ v R − σ² Σ v Q``.
    Such differences lose digits where σ is far larger than the range of k, which the bounds of ln σ exclude.
    """
    m, square = x[3], np.exp(2.0 * x[4])
    loss, e1, ek, er, eq, ekq, r1, rk, q1, qk, qq1, qqk = _sums(slices, x)
    s0, x1 = slices.s0, slices.s1 - m * slices.s0
    xx = slices.s2 - m * (slices.s1 + x1)
    p1, pq, xp = qk - m * q1, qqk - m * qq1, r1 - square * q1
    (one_p, one_q), (pp, pq_wings, qq) = _wing_sums(x1, r1, xx, rk - m * r1, xx + square * s0)
    gram = np.array(
        [
            [s0, one_p, one_q, p1, q1],
            [one_p, pp, pq_wings, (x1 + xp) / 2.0, (s0 + p1) / 2.0],
            [one_q, pq_wings, qq, (x1 - xp) / 2.0, (s0 - p1) / 2.0],
            [p1, (x1 + xp) / 2.0, (x1 - xp) / 2.0, s0 - square * qq1, pq],
            [q1, (s0 + p1) / 2.0, (s0 - p1) / 2.0, pq, qq1],
        ]
    )
    ex = ek - m * e1
    residual = np.array([e1, (er + ex) / 2.0, (er - ex) / 2.0, ekq - m * eq, eq])
    return Moments(gram, residual, loss)


def linear_loss(slices: Scaled, m: Floats, sigma: Floats) -> Floats:
    """Return the least loss of every slice at each of several vertices and widths, ``(places, slices)``."""
    losses = np.empty((len(m), len(slices.k)))
    for start in range(0, len(slices.k), _ROWS):
        rows = slice(start, start + _ROWS)
        losses[:, rows] = _block_loss(slices.rows(rows), m, sigma)
    return losses


def _block_loss(slices: Scaled, m: Floats, sigma: Floats) -> Floats:
    weighted = slices.weight * slices.w
    w1, wk, ww = weighted.sum(axis=1), np.vecdot(weighted, slices.k), np.vecdot(weighted, slices.w)
    r1, rk, wr = _radius_sums((slices.weight, slices.weighted_k, weighted), slices.k, m, sigma)
    m, square = m[:, None], np.square(sigma)[:, None]
    x1 = slices.s1 - m * slices.s0
    xx = slices.s2 - m * (slices.s1 + x1)
    s0, xr = np.broadcast_to(slices.s0, r1.shape), rk - m * r1
    (one_p, one_q), (pp, pq, qq) = _wing_sums(x1, r1, xx, xr, xx + square * s0)
    gram = np.array([[s0, one_p, one_q], [one_p, pp, pq], [one_q, pq, qq]]).reshape(3, 3, -1)
    wx = wk - m * w1
    residual = np.array([np.broadcast_to(w1, r1.shape), (wr + wx) / 2.0, (wr - wx) / 2.0]).reshape(3, -1)
    nowhere, cap = np.zeros_like(residual), np.broadcast_to(slices.cap, r1.shape).ravel()
    best = best_linear(gram, residual, nowhere, cap)
    return np.asarray(ww - gain(gram, residual, best).reshape(r1.shape))


def best_linear(gram: Floats, residual: Floats, at: Floats, cap: Floats) -> Floats:
    """Return the step from ``at = (a, r, l)`` to the best level and wing slopes, slopes between 0 and `cap`.

    Where the free optimum lies outside the box, the best of its four edges is taken: for two slopes that
    is exact.
    """
    mean = gram[0, 1:] / gram[0, 0]
    centred = gram[1:, 1:] - mean[:, None] * gram[0, 1:]
    slopes = _best_slopes(centred, residual[1:] - mean * residual[0], at[1:], cap)
    level: Floats = residual[0] / gram[0, 0] - (mean * slopes).sum(axis=0)
    return np.concatenate([level[None], slopes])


def _best_slopes(gram: Floats, residual: Floats, at: Floats, cap: Floats) -> Floats:
    """Return the step of the two slopes: Cramer's rule inside the box, else the best point on its edges."""
    # A determinant near 0 means that the quotes do not tell the two wings apart, as on one side of the
    # vertex.
    det = gram[0, 0] * gram[1, 1] - gram[0, 1] ** 2
    regular = det > 1e-15 * gram[0, 0] * gram[1, 1]
    flipped = np.stack([gram[1, 1], gram[0, 0]]) * residual - gram[0, 1] * residual[::-1]
    step: Floats = flipped / np.where(regular, det, np.inf)
    end = at + step
    outside = np.flatnonzero(((end < 0.0) | (end > cap)).any(axis=0) | ~regular)
    if outside.size:
        parts = (part[..., outside] for part in (gram, residual, at, cap))
        step[:, outside] = _best_edge(*parts)
    return step


def _best_edge(gram: Floats, residual: Floats, at: Floats, cap: Floats) -> Floats:
    """Return the best step to an edge: one slope goes to 0 or `cap`, the other to its clipped 1-D optimum.

    A convex quadratic with its free minimum outside a box has its least value in the box on an edge.
    """
    best, most = np.zeros_like(at), np.full_like(cap, -np.inf)
    for fixed, other in ((0, 1), (1, 0)):
        for edge in (np.zeros_like(cap), cap):
            step = np.empty_like(at)
            step[fixed] = edge - at[fixed]
            slope = residual[other] - gram[0, 1] * step[fixed]
            end = np.clip(at[other] + slope / np.maximum(gram[other, other], 1e-300), 0.0, cap)
            step[other] = end - at[other]
            lowered = gain(gram, residual, step)
            best = np.where(lowered > most, step, best)
            most = np.maximum(most, lowered)
    return best


def _wing_sums(
    x1: Floats, r1: Floats, xx: Floats, xr: Floats, rr: Floats
) -> tuple[tuple[Floats, Floats], tuple[Floats, Floats, Floats]]:
    """Return the sums of P and Q and of their products from those of x and R.

    With ``P, Q = (R ± x)/2``: ``P², Q² = (R² + x²)/4 ± R x/2`` and ``P Q = (R² − x²)/4``.
    """
    even, odd = (rr + xx) / 4.0, xr / 2.0
    return ((r1 + x1) / 2.0, (r1 - x1) / 2.0), (even + odd, (rr - xx) / 4.0, even - odd)


def _sums(slices: Scaled, x: Floats) -> Floats:
    """Return the twelve sums over strikes that `moments` lists, ``(12, slices)``.

    The error is ``w − a − b̄ R − t x`` with ``b̄ = (r + l)/2`` and ``t = (r − l)/2``; here `bend` is ``−b̄``
    and `tilt` is t. Memory is reused in place, and the products with `vecdot` need no temporary of their own.
    """
    a, right, left, m, log_sigma = (part[:, None] for part in x)
    tilt, bend, square = (right - left) / 2.0, (right + left) / -2.0, np.exp(2.0 * log_sigma)
    out, one = np.empty((12, len(slices.k))), np.ones(slices.k.shape[1])
    for start in range(0, len(slices.k), _ROWS):
        rows = slice(start, start + _ROWS)
        k, w, weight, weighted_k = (part[rows] for part in slices[:4])
        shifted = k - m[rows]
        radius = np.square(shifted)
        radius += square[rows]
        np.sqrt(radius, out=radius)
        error = radius * bend[rows]
        shifted *= tilt[rows]
        error -= shifted
        error += w
        error -= a[rows]
        inverse = 1.0 / radius
        weighted = weight * error
        over = np.multiply(weighted, inverse, out=shifted)
        factors = (weighted, weighted, weighted, weighted, over, over) + 3 * (weight, weighted_k)
        others = (error, one, k, radius, one, k, radius, radius, inverse, inverse)
        for factor, other, total in zip(factors, (*others, *2 * (inverse * inverse,)), out, strict=True):
            np.vecdot(factor, other, out=total[rows])
    return out


def _radius_sums(factors: tuple[Floats, ...], k: Floats, m: Floats, sigma: Floats) -> Floats:
    out, radius = np.empty((len(factors), len(m), len(k))), np.empty_like(k)
    for place, (centre, width) in enumerate(zip(m, sigma, strict=True)):
        np.subtract(k, centre, out=radius)
        np.square(radius, out=radius)
        radius += width * width
        np.sqrt(radius, out=radius)
        for factor, total in zip(factors, out, strict=True):
            np.vecdot(factor, radius, out=total[place])
    return out
