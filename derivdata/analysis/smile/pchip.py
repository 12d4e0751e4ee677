"""Shape-preserving interpolation through the quotes, in log-moneyness or in delta.

On the axis ``k`` total variance is interpolated, and goes on outside in straight lines whose slopes obey
Lee's bound. On the axis ``delta`` volatility is interpolated against the call's forward delta
``N(d1(k, iv(k)))``, an equation that is solved for each point, and is constant outside.

Slopes at the nodes are those of Fritsch and Butland (1984), with the usual three-point rule at the ends.
Nodes are on the last axis, in ascending order, padded with NaN.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from derivdata.analysis.smile.forms import Floats
from derivdata.analysis.smile.quotes import Quotes

__all__ = ["delta_total_variance", "nodes", "pchip_total_variance"]

_STEEPEST = 2.0 * (1.0 - 1e-9)
_BISECTIONS = 60


def nodes(quotes: Quotes, *, by_delta: bool) -> tuple[Floats, Floats, NDArray[np.bool_]]:
    """Nodes k and w in ascending k, and whether a slice lost quotes for a delta that does not fall with k.

    Quotes at one strike give one node, the mean of their total variances.
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


def pchip_total_variance(node_k: Floats, node_w: Floats, k: Floats, *, derivative: int = 0) -> Floats:
    """Total variance or a derivative at `k`; `node_k`, `node_w` have one axis more, the last."""
    slopes, last = _slopes(node_k, node_w), _last(node_k)
    value = _interpolate(node_k, node_w, k, slopes, derivative)
    for side, bounds, end in ((-1.0, (-_STEEPEST, 0.0), 0 * last), (1.0, (0.0, _STEEPEST), last)):
        at, level, slope = (np.take_along_axis(part, end, -1)[..., 0] for part in (node_k, node_w, slopes))
        slope = np.clip(slope, *bounds)
        line = (level + slope * (k - at), slope + 0.0 * k, 0.0 * (slope + k))[derivative]
        value = np.where(side * (k - at) > 0.0, line, value)
    return value


def delta_total_variance(node_k: Floats, node_w: Floats, k: Floats, *, derivative: int = 0) -> Floats:
    """As `pchip_total_variance`, interpolating ``√w`` against the call's delta."""
    total = np.sqrt(node_w)
    delta = _call_delta(node_k, total)
    x, y = _reversed(delta), _reversed(total)
    slopes, last = _slopes(x, y), _last(node_k)
    k_ends = [np.take_along_axis(node_k, i, -1)[..., 0] for i in (0 * last, last)]
    outside = (k < k_ends[0]) | (k > k_ends[1])
    at = _delta_at(np.clip(k, *k_ends), node_k, delta, lambda at: _interpolate(x, y, at, slopes, 0))
    s, f1, f2 = (_interpolate(x, y, at, slopes, d) for d in (0, 1, 2))
    if derivative == 0:
        return np.asarray(s * s)
    first, second = (np.where(outside, 0.0, part) for part in _implicit(k, s, f1, f2))
    return 2.0 * s * first if derivative == 1 else 2.0 * (first * first + s * second)


def _delta_at(k: Floats, node_k: Floats, delta: Floats, total_vol: Callable[[Floats], Floats]) -> Floats:
    """The delta between its neighbours' at which ``k = s²/2 − s N⁻¹(Δ)`` with ``s = total_vol(Δ)``."""
    shape = np.broadcast_shapes(node_k.shape[:-1], np.shape(k))
    with np.errstate(invalid="ignore"):
        left = (node_k <= np.broadcast_to(k, shape)[..., None]).sum(axis=-1) - 1
    left = np.clip(left, 0, np.maximum(_last(node_k)[..., 0] - 1, 0))[..., None]
    right = np.minimum(left + 1, delta.shape[-1] - 1)
    node_k, delta = (np.broadcast_to(part, (*shape, part.shape[-1])) for part in (node_k, delta))
    (k_high, high), (k_low, low) = (
        [np.take_along_axis(part, i, -1)[..., 0] for part in (node_k, delta)] for i in (left, right)
    )
    low, high = np.where(k == k_high, high, low), np.where(k == k_low, low, high)
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2.0
        s = total_vol(middle)
        below = s * (s / 2.0 - ndtri(middle)) > k
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    return np.asarray((low + high) / 2.0)


def _reversed(nodes: Floats) -> Floats:
    """The other way round, the padding still at the end."""
    flipped = nodes[..., ::-1]
    return np.take_along_axis(flipped, np.argsort(np.isnan(flipped), axis=-1, kind="stable"), -1)


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
    """Derivatives of s in k where ``s = f(Δ(k, s))``."""
    by = _delta_slopes(k, s)
    share = 1.0 - f1 * by.s
    first = f1 * by.k / share
    along = by.k + by.s * first
    bent = by.kk + 2.0 * by.ks * first + by.ss * first * first
    return first, (f2 * along * along + f1 * bent) / share


def _falling(k: Floats, w: Floats) -> tuple[Floats, Floats, NDArray[np.bool_]]:
    """Nodes whose call delta falls with k, going up the strikes."""
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


def _interpolate(x: Floats, y: Floats, at: Floats, slopes: Floats, derivative: int) -> Floats:
    """Cubic Hermite interpolation between nodes; the nearest cubic goes on outside."""
    shape = np.broadcast_shapes(x.shape[:-1], np.shape(at))
    at = np.broadcast_to(at, shape)
    with np.errstate(invalid="ignore"):
        left = (x <= at[..., None]).sum(axis=-1) - 1
    left = np.clip(left, 0, np.maximum(_last(x)[..., 0] - 1, 0))[..., None]
    x, y, slopes = (np.broadcast_to(part, (*shape, part.shape[-1])) for part in (x, y, slopes))
    (x0, x1), (y0, y1), (d0, d1) = (
        [np.take_along_axis(part, np.minimum(left + i, part.shape[-1] - 1), -1)[..., 0] for i in (0, 1)]
        for part in (x, y, slopes)
    )
    h, s = x1 - x0, at - x0
    chord = (y1 - y0) / h
    c2, c3 = (3.0 * chord - 2.0 * d0 - d1) / h, (d0 + d1 - 2.0 * chord) / (h * h)
    if derivative == 0:
        return np.asarray(np.where(s == h, y1, y0 + s * (d0 + s * (c2 + s * c3))))
    return np.asarray(d0 + s * (2.0 * c2 + 3.0 * s * c3) if derivative == 1 else 2.0 * c2 + 6.0 * s * c3)


def _slopes(x: Floats, y: Floats) -> Floats:
    h = np.diff(x, axis=-1)
    chord = np.diff(y, axis=-1) / h
    slopes = np.full_like(y, np.nan)
    if chord.shape[-1] == 0:
        return slopes
    before, after = chord[..., :-1], chord[..., 1:]
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
    slope = ((2.0 * h0 + h1) * chord0 - h0 * chord1) / (h0 + h1)
    slope = np.where(np.sign(slope) != np.sign(chord0), 0.0, slope)
    steep = (np.sign(chord0) != np.sign(chord1)) & (np.abs(slope) > 3.0 * np.abs(chord0))
    return np.asarray(np.where(steep, 3.0 * chord0, slope))
