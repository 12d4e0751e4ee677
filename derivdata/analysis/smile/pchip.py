"""Shape-preserving interpolation through the quotes, in log-moneyness or in delta.

On the axis ``k`` total variance is interpolated, and goes on outside in straight lines whose slopes obey
Lee's bound. On the axis ``delta`` volatility is interpolated against the call's forward delta
``N(d1(k, iv(k)))``, an equation that is solved for each point, and is constant outside.

Slopes at the nodes are those of Fritsch and Butland (1984), with the usual three-point rule at the ends.
Nodes are on the last axis, in ascending order, padded with NaN.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from derivdata.analysis.smile.parameters import Floats
from derivdata.analysis.smile.quotes import SmileQuotes

__all__ = ["delta_jet", "nodes", "pchip_jet"]

_STEEPEST = 2.0 * (1.0 - 1e-9)
_STEPS = 60

Jet = tuple[Floats, Floats, Floats]


def nodes(quotes: SmileQuotes, *, by_delta: bool) -> tuple[Floats, Floats, NDArray[np.bool_]]:
    """Nodes k and w in ascending k, and whether a slice lost quotes for a delta that does not fall with k.

    SmileQuotes at one strike give one node, the mean of their total variances.
    """
    count = quotes.k.shape[1]
    if not count:
        return quotes.k, quotes.w, np.zeros(len(quotes.k), dtype=bool)
    order = np.argsort(np.where(quotes.used, quotes.k, np.inf), axis=1, kind="stable")
    k, w, used = (np.take_along_axis(part, order, 1) for part in (quotes.k, quotes.w, quotes.used))
    first = used & np.concatenate([np.ones_like(used[:, :1]), k[:, 1:] != k[:, :-1]], axis=1)
    place = np.where(used, np.cumsum(first, axis=1) - 1, count)
    rows = np.arange(len(k))[:, None]
    total, many = np.zeros((2, len(k), count + 1))
    np.add.at(total, (rows, place), w)
    np.add.at(many, (rows, place), 1.0)
    node_k = np.full((len(k), count + 1), np.nan)
    node_k[np.broadcast_to(rows, k.shape)[used], place[used]] = k[used]
    w = np.divide(total, many, out=np.full_like(total, np.nan), where=~np.isnan(node_k))
    node_k, w = node_k[:, :count], w[:, :count]
    return _falling(node_k, w) if by_delta else (node_k, w, np.zeros(len(k), dtype=bool))


def pchip_jet(node_k: Floats, node_w: Floats, k: Floats) -> Jet:
    """Return the total variance and its first two derivatives at `k`; nodes have one axis more, the last."""
    slopes, last = _slopes(node_k, node_w), _last(node_k)
    piece = _piece(node_k, node_w, slopes, _left(node_k, k))
    w, dw, d2w = (_cubic(piece, k, derivative) for derivative in (0, 1, 2))
    for side, bounds, end in ((-1.0, (-_STEEPEST, 0.0), 0 * last), (1.0, (0.0, _STEEPEST), last)):
        at, level, slope = (np.take_along_axis(part, end, -1)[..., 0] for part in (node_k, node_w, slopes))
        slope = np.clip(slope, *bounds)
        outside = side * (k - at) > 0.0
        w = np.where(outside, level + slope * (k - at), w)
        dw, d2w = np.where(outside, slope, dw), np.where(outside, 0.0, d2w)
    return w, dw, d2w


def delta_jet(node_k: Floats, node_w: Floats, k: Floats) -> Jet:
    """Interpolate ``√w`` against the call's delta, taken negative; otherwise as `pchip_jet`."""
    total, last = np.sqrt(node_w), _last(node_k)
    x = -_call_delta(node_k, total)
    ends = [np.take_along_axis(node_k, end, -1)[..., 0] for end in (0 * last, last)]
    inside = np.clip(k, *ends)
    left = _left(node_k, inside)
    piece = _piece(x, total, _slopes(x, total), left)
    at = _solve_delta(piece, _ends(node_k, left), inside)
    s, by_x, by_xx = (_cubic(piece, at, derivative) for derivative in (0, 1, 2))
    outside = (k < ends[0]) | (k > ends[1])
    first, second = (np.where(outside, 0.0, part) for part in _implicit(inside, s, -by_x, by_xx))
    return s * s, 2.0 * s * first, 2.0 * (first * first + s * second)


class _Piece(NamedTuple):
    """A cubic between two nodes."""

    x0: Floats
    x1: Floats
    y0: Floats
    y1: Floats
    d0: Floats
    c2: Floats
    c3: Floats


def _left(x: Floats, at: Floats) -> NDArray[np.intp]:
    """Return the index of the node left of each point, short of the last node; with a last axis of 1."""
    shape = np.broadcast_shapes(x.shape[:-1], np.shape(at))
    with np.errstate(invalid="ignore"):
        left = (x <= np.broadcast_to(at, shape)[..., None]).sum(axis=-1, keepdims=True) - 1
    return np.asarray(np.clip(left, 0, np.maximum(_last(x) - 1, 0)))


def _ends(nodes: Floats, left: NDArray[np.intp]) -> tuple[Floats, Floats]:
    nodes = np.broadcast_to(nodes, (*left.shape[:-1], nodes.shape[-1]))
    right = np.minimum(left + 1, nodes.shape[-1] - 1)
    return np.take_along_axis(nodes, left, -1)[..., 0], np.take_along_axis(nodes, right, -1)[..., 0]


def _piece(x: Floats, y: Floats, slopes: Floats, left: NDArray[np.intp]) -> _Piece:
    (x0, x1), (y0, y1), (d0, d1) = (_ends(part, left) for part in (x, y, slopes))
    # Hermite's cubic d0 s + c2 s² + c3 s³ above y0, with slope d1 at s = h.
    h = x1 - x0
    chord = (y1 - y0) / h
    return _Piece(x0, x1, y0, y1, d0, (3.0 * chord - 2.0 * d0 - d1) / h, (d0 + d1 - 2.0 * chord) / (h * h))


def _cubic(piece: _Piece, at: Floats, derivative: int) -> Floats:
    s = at - piece.x0
    if derivative == 0:
        y = piece.y0 + s * (piece.d0 + s * (piece.c2 + s * piece.c3))
        return np.asarray(np.where(at == piece.x1, piece.y1, y))
    bend = 2.0 * piece.c2 + 6.0 * s * piece.c3
    return np.asarray(bend if derivative == 2 else piece.d0 + s * (2.0 * piece.c2 + 3.0 * s * piece.c3))


def _solve_delta(piece: _Piece, k_ends: tuple[Floats, Floats], k: Floats) -> Floats:
    """Solve ``s²/2 − s N⁻¹(−x) = k`` for the negative delta x on each piece.

    Where the call's delta is −x, ``d1 = −k/s + s/2 = N⁻¹(−x)``, so ``k = s (s/2 − N⁻¹(−x))``, s the cubic in
    x. The right side rises from end to end of a piece (`_falling` chose the nodes so), though not always in
    between: Newton's steps are kept inside a bracket that shrinks, and bisect otherwise. The derivative is
    ``s'(s − z) + s √(2π) e^(z²/2)`` with ``z = N⁻¹(−x)``, since ``dN⁻¹(u)/du = √(2π) e^(z²/2)``.
    """
    low = np.where(k == k_ends[1], piece.x1, piece.x0)
    high = np.where(k == k_ends[0], piece.x0, piece.x1)
    at = (low + high) / 2.0
    for _ in range(_STEPS):
        z, s = ndtri(-at), _cubic(piece, at, 0)
        excess = s * (s / 2.0 - z) - k
        low, high = np.where(excess < 0.0, at, low), np.where(excess < 0.0, high, at)
        rise = _cubic(piece, at, 1) * (s - z) + s * np.sqrt(2.0 * np.pi) * np.exp(0.5 * z * z)
        with np.errstate(divide="ignore", invalid="ignore"):
            new = at - excess / rise
        new = np.where((new > low) & (new < high), new, (low + high) / 2.0)
        moved, at = np.abs(new - at), new
        if not (moved > 1e-16).any():
            break
    return np.asarray(at)


class _Delta(NamedTuple):
    """Derivatives of ``N(d1)`` in k and s."""

    k: Floats
    s: Floats
    kk: Floats
    ks: Floats
    ss: Floats


def _call_delta(k: Floats, s: Floats) -> Floats:
    with np.errstate(invalid="ignore"):
        return np.asarray(ndtr(-k / s + s / 2.0))


def _delta_slopes(k: Floats, s: Floats) -> _Delta:
    d1, by_k, by_s = -k / s + s / 2.0, -1.0 / s, k / (s * s) + 0.5
    density = np.exp(-0.5 * d1 * d1) / np.sqrt(2.0 * np.pi)
    return _Delta(
        density * by_k,
        density * by_s,
        -density * d1 * by_k * by_k,
        density * (1.0 / (s * s) - d1 * by_k * by_s),
        density * (-2.0 * k / s**3 - d1 * by_s * by_s),
    )


def _implicit(k: Floats, s: Floats, f1: Floats, f2: Floats) -> tuple[Floats, Floats]:
    """Return derivatives of s in k where ``s = f(Δ(k, s))``.

    Differentiated once, ``s' = f' (Δ_k + Δ_s s')``, so ``s' = f' Δ_k/(1 − f' Δ_s)``; twice, with
    ``along = dΔ/dk`` and ``bent = Δ_kk + 2 Δ_ks s' + Δ_ss s'²``, ``s'' (1 − f' Δ_s) = f'' along² + f' bent``.
    """
    by = _delta_slopes(k, s)
    share = 1.0 - f1 * by.s
    first = f1 * by.k / share
    along = by.k + by.s * first
    bent = by.kk + 2.0 * by.ks * first + by.ss * first * first
    return first, (f2 * along * along + f1 * bent) / share


def _falling(k: Floats, w: Floats) -> tuple[Floats, Floats, NDArray[np.bool_]]:
    """Return the nodes whose call delta falls with k, going up the strikes.

    A call's delta falls with the strike unless the smile rises too steeply. A node is kept if its delta is
    below all kept ones before it, so that volatility is a function of delta; the sort moves dropped nodes to
    the end.
    """
    delta = _call_delta(k, np.sqrt(w))
    keep = ~np.isnan(delta)
    lowest = np.full(len(k), np.inf)
    for j in range(k.shape[1]):
        keep[:, j] &= delta[:, j] < lowest
        lowest = np.where(keep[:, j], delta[:, j], lowest)
    lost = np.asarray((~keep & ~np.isnan(k)).any(axis=1))
    order = np.argsort(~keep, axis=1, kind="stable")
    k, w = np.where(keep, k, np.nan), np.where(keep, w, np.nan)
    return np.take_along_axis(k, order, 1), np.take_along_axis(w, order, 1), lost


def _last(x: Floats) -> NDArray[np.intp]:
    return np.asarray(np.maximum(np.isfinite(x).sum(axis=-1, keepdims=True) - 1, 0))


def _slopes(x: Floats, y: Floats) -> Floats:
    """Return slopes at the nodes that keep every piece monotone (Fritsch and Butland 1984).

    With steps ``h₀, h₁`` and chords ``δ₀, δ₁`` before and after a node it is their weighted harmonic mean
    ``(w₀ + w₁)/(w₀/δ₀ + w₁/δ₁)`` with ``w₀ = 2h₁ + h₀`` and ``w₁ = h₁ + 2h₀``, and 0 where the chords differ
    in sign. Each weight is over a third of the sum, so the slope is under three times either chord, which is
    what monotone pieces need.
    """
    h = np.diff(x, axis=-1)
    chord = np.diff(y, axis=-1) / h
    slopes = np.full_like(y, np.nan)
    if chord.shape[-1] == 0:
        return slopes
    before, after = chord[..., :-1], chord[..., 1:]
    # `far` weighs the chord before the node, `near` that after it: the longer step has the smaller weight.
    near, far = h[..., 1:] + 2.0 * h[..., :-1], 2.0 * h[..., 1:] + h[..., :-1]
    with np.errstate(divide="ignore", invalid="ignore"):
        harmonic = (near + far) / (far / before + near / after)
    slopes[..., 1:-1] = np.where(np.sign(before) * np.sign(after) > 0.0, harmonic, 0.0)
    last = _last(x)
    for end, inner, next_inner in ((0 * last, 0 * last, 0 * last + 1), (last, last - 1, last - 2)):
        first, second = (np.clip(i, 0, chord.shape[-1] - 1) for i in (inner, next_inner))
        parts = [np.take_along_axis(part, i, -1) for part in (h, chord) for i in (first, second)]
        np.put_along_axis(slopes, end, np.where(last > 1, _end_slope(*parts), parts[2]), -1)
    return slopes


def _end_slope(h0: Floats, h1: Floats, chord0: Floats, chord1: Floats) -> Floats:
    """Return the slope at an end by the parabola through three nodes, cut so that the piece stays monotone.

    Fritsch and Carlson's limits: no sign against the first chord, and at most three times it where the
    chords disagree; beyond that the cubic would overshoot its nodes.
    """
    slope = ((2.0 * h0 + h1) * chord0 - h0 * chord1) / (h0 + h1)
    slope = np.where(np.sign(slope) != np.sign(chord0), 0.0, slope)
    steep = (np.sign(chord0) != np.sign(chord1)) & (np.abs(slope) > 3.0 * np.abs(chord0))
    return np.asarray(np.where(steep, 3.0 * chord0, slope))
