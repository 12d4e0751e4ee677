"""Evaluate slices of any method as arrays, and check them for butterfly arbitrage."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from derivdata.analysis.smile.butterfly import Butterfly, check_raw, lowest
from derivdata.analysis.smile.fit_dataset import Method
from derivdata.analysis.smile.parameters import Floats, Raw
from derivdata.analysis.smile.pchip import delta_jet, pchip_jet
from derivdata.analysis.smile.sabr import Sabr, sabr_jet
from derivdata.analysis.smile.svi_curve import density_factor, raw_total_variance

__all__ = ["Curves", "check_curves", "curve_values"]

_PRICE_POINTS = 400
_SABR_POINTS = 201
_PRICE_TOLERANCE = 1e-12


class Curves(NamedTuple):
    """Slices on the leading axes; nodes, for pchip only as `sabr` for SABR, have one axis more."""

    raw: Raw
    method: NDArray[np.int8]
    k_min: Floats
    k_max: Floats
    t: Floats
    forward: Floats
    sabr: Sabr | None = None
    node_k: Floats | None = None
    node_w: Floats | None = None
    by_delta: bool = False

    def rows(self, index: NDArray[np.int64]) -> Curves:
        """Return these slices only, of slices on one axis."""
        return self._changed(lambda part: part[index], lambda part: part[index])

    def standing(self) -> Curves:
        """With an axis for points behind the slices'."""
        return self._changed(lambda part: part[..., None], lambda part: part[..., None, :])

    def flat(self) -> Curves:
        """All slices on one axis, in the order of their broadcast shape."""
        parts = (*self.raw, self.method, self.k_min, self.k_max, self.t, self.forward)
        lead = np.broadcast_shapes(*(np.shape(part) for part in parts))
        return self._changed(
            lambda part: np.broadcast_to(part, lead).reshape(-1),
            lambda part: np.broadcast_to(part, (*lead, part.shape[-1])).reshape(-1, part.shape[-1]),
        )

    def _changed(self, change: Callable[[Any], Any], change_nodes: Callable[[Any], Any]) -> Curves:
        return self._replace(
            raw=Raw(*map(change, self.raw)),
            sabr=None if self.sabr is None else Sabr(*map(change, self.sabr)),
            node_k=None if self.node_k is None else change_nodes(self.node_k),
            node_w=None if self.node_w is None else change_nodes(self.node_w),
            **{name: change(getattr(self, name)) for name in ("method", "k_min", "k_max", "t", "forward")},
        )


def curve_values(curves: Curves, k: Floats, *, derivative: int = 0) -> Floats:
    """Return total variance, or a derivative in k, of each slice at `k`, which broadcasts against the slices.

    SABR is NaN beyond its quotes by more than one ``√w(0)``.
    """
    w = raw_total_variance(k, curves.raw, derivative=derivative)
    for method, jet in _other_jets(curves, k):
        w = np.where(curves.method == method, jet[derivative], w)
    return w


def _other_jets(curves: Curves, k: Floats) -> Iterator[tuple[Method, list[Floats]]]:
    """Return the total variance and its derivatives by the methods that are not raw SVI."""
    if curves.sabr is not None:
        low, high = _sabr_range(curves)
        near = (k >= low) & (k <= high)
        jet = sabr_jet(k, curves.sabr, curves.t, curves.forward)
        yield Method.SABR, [np.where(near, part, np.nan) for part in jet]
    if curves.node_k is not None and curves.node_w is not None:
        kernel = delta_jet if curves.by_delta else pchip_jet
        yield Method.PCHIP, list(kernel(curves.node_k, curves.node_w, k))


def check_curves(curves: Curves) -> Butterfly:
    """Check slices on one axis for butterfly arbitrage; NaN and False for those without a fit."""
    kind = curves.method.astype(np.int64)
    if curves.sabr is None:
        kind = np.where(kind == Method.SABR, Method.NONE, kind)
    if curves.node_k is None:
        kind = np.where(kind == Method.PCHIP, Method.SVI, kind)
    kind = np.where((kind == Method.FLAT) | (kind == Method.SSVI), Method.SVI, kind)
    empty = np.full(kind.shape, np.nan)
    numbers = [empty.copy() for _ in range(4)]
    checks = Butterfly(numbers[0], numbers[1], numbers[2], numbers[3], np.zeros(kind.shape, dtype=bool))
    for each, check in ((Method.SVI, _check_raw), (Method.SABR, _check_sabr), (Method.PCHIP, _check_pchip)):
        rows = np.flatnonzero(kind == each)
        if rows.size:
            for part, value in zip(checks, check(curves.rows(rows)), strict=True):
                part[rows] = value
    return checks


def _check_raw(curves: Curves) -> Butterfly:
    centre = np.sqrt(np.maximum(raw_total_variance(0.0, curves.raw), 0.0))
    quoted = np.maximum(np.abs(curves.k_min), np.abs(curves.k_max)) + 1.0
    return check_raw(curves.raw, np.maximum(5.0 * centre, np.where(np.isfinite(quoted), quoted, 1.0)))


def _check_sabr(curves: Curves) -> Butterfly:
    """On the quotes' range and one ``√w(0)`` beyond; what the wings would do is not asked."""
    standing = curves.standing()
    low, where = lowest(lambda k: _g(standing, k), *_sabr_range(standing), points=_SABR_POINTS)
    beyond = np.full_like(low, np.nan)
    return Butterfly(low, where, beyond, beyond, low >= 0.0)


def _check_pchip(curves: Curves) -> Butterfly:
    """By call prices on 400 strikes between the quotes: falling by less than the strike rises, and convex."""
    standing = curves.standing()
    low, high = np.exp(standing.k_min), np.exp(standing.k_max)
    strike = low + (high - low) * np.linspace(0.0, 1.0, _PRICE_POINTS)
    k = np.clip(np.log(strike), standing.k_min, standing.k_max)
    ((_, jet),) = _other_jets(standing, k)
    s = np.sqrt(jet[0])
    price = ndtr(-k / s + s / 2.0) - strike * ndtr(-k / s - s / 2.0)
    slope = np.diff(price, axis=1) / np.diff(strike, axis=1)
    falling = ((slope <= _PRICE_TOLERANCE) & (slope >= -1.0 - _PRICE_TOLERANCE)).all(axis=1)
    convex = (np.diff(price, 2, axis=1) >= -_PRICE_TOLERANCE).all(axis=1)
    g = density_factor(k, *jet)
    at = np.argmin(g, axis=1)[:, None]
    least, where = (np.take_along_axis(part, at, 1)[:, 0] for part in (g, k))
    beyond = np.full_like(least, np.nan)
    return Butterfly(least, where, beyond, beyond, np.asarray(falling & convex))


def _g(curves: Curves, k: Floats) -> Floats:
    ((_, jet),) = _other_jets(curves, k)
    return density_factor(k, *jet)


def _sabr_range(curves: Curves) -> tuple[Floats, Floats]:
    assert curves.sabr is not None
    beyond = np.sqrt(sabr_jet(np.zeros_like(curves.t), curves.sabr, curves.t, curves.forward)[0])
    return curves.k_min - beyond, curves.k_max + beyond
