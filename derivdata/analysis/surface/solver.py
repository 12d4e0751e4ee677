"""Least squares over many surfaces at once: projected Levenberg-Marquardt in a box, plain numpy.

Every surface of a batch takes its own steps, has its own damping and leaves the batch when it is done, so
a result does not depend on what else was fitted in the same call.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Rows = NDArray[np.intp]

__all__ = ["Box", "Floats", "Model", "Rows", "Solution", "SurfaceQuotes", "minimise"]

Model = Callable[[Floats, Rows], tuple[Floats, Floats]]
"""From parameters ``(surfaces, parameters)`` of the rows named to slices ``(surfaces, expiries, 3)``, each
``(theta, right, left)``, and their Jacobian ``(surfaces, expiries, 3, parameters)``."""

_ITERATIONS = 200
_ENOUGH = 1e-10
_EXACT = 1e-28
_STUCK = 1e12
_PINNING = 4


class SurfaceQuotes(NamedTuple):
    """Log-moneyness, total variance and residual scale, each ``(surfaces, expiries, strikes)``.

    A place without a quote has scale 0 and harmless finite numbers.
    """

    k: Floats
    w: Floats
    scale: Floats

    def rows(self, rows: Rows | slice) -> SurfaceQuotes:
        """The quotes of some surfaces."""
        return SurfaceQuotes(self.k[rows], self.w[rows], self.scale[rows])


class Box(NamedTuple):
    """Bounds of the parameters, broadcast against ``(surfaces, parameters)``."""

    lower: Floats
    upper: Floats


class Solution(NamedTuple):
    """Parameters with what they cost: sum of squares, model evaluations, whether the search ended well."""

    x: Floats
    cost: Floats
    nfev: NDArray[np.int32]
    converged: NDArray[np.bool_]


class _Local(NamedTuple):
    """Sum of squares of each surface with its gradient and Gauss-Newton matrix in the parameters."""

    cost: Floats
    gradient: Floats
    matrix: Floats

    def updated(self, rows: NDArray[np.bool_], by: _Local) -> _Local:
        return _Local(*(_pick(rows, new, old) for old, new in zip(self, by, strict=True)))


def minimise(
    model: Model, start: Floats, box: Box, quotes: SurfaceQuotes, *, damping: float = 1e-3
) -> Solution:
    """Parameters in the box that bring the model's total variance closest to the quotes.

    Parameters
    ----------
    model
        Slices as a function of the parameters; see `Model`.
    start
        First guess inside the box, ``(surfaces, parameters)``.
    box
        Bounds.
    quotes
        What to meet: the residual is ``scale (w_model − w)``.
    damping
        Levenberg-Marquardt damping of the first step.
    """
    count = len(start)
    x, cost = start.copy(), np.empty(count)
    nfev, converged = np.ones(count, np.int32), np.zeros(count, bool)
    rows = np.arange(count)
    ridge, growth = np.full(count, damping), np.full(count, 2.0)
    here = _linearise(model, x, rows, quotes)
    cost[:] = here.cost
    for _ in range(_ITERATIONS):
        trial = _step(here, x[rows], ridge[rows], _of(box, rows, x.shape))
        there = _linearise(model, trial, rows, quotes.rows(rows))
        moved = trial - x[rows]
        better = there.cost < here.cost
        done = better & (here.cost - there.cost <= _ENOUGH * here.cost) | (there.cost < _EXACT)
        _damp(ridge, growth, rows, better, _gain(here, there, moved))
        nfev[rows] += 1
        x[rows] = _pick(better, trial, x[rows])
        here = here.updated(better, there)
        cost[rows] = here.cost
        done |= ridge[rows] > _STUCK
        converged[rows] = done
        rows, here = rows[~done], _Local(*(part[~done] for part in here))
        if not rows.size:
            break
    return Solution(x, cost, nfev, converged)


def _linearise(model: Model, x: Floats, rows: Rows, quotes: SurfaceQuotes) -> _Local:
    slices, jacobian = model(x, rows)
    residual = _residuals(slices, quotes)
    normal = residual @ residual.swapaxes(-1, -2)
    count, parameters = x.shape
    flat = jacobian.reshape(count, -1, parameters)
    curved = (normal[..., :3, :3] @ jacobian).reshape(flat.shape)
    pulls = normal[..., :3, 3].reshape(count, 1, -1)
    return _Local(normal[..., 3, 3].sum(axis=1), (pulls @ flat)[:, 0], flat.swapaxes(-1, -2) @ curved)


def _residuals(slices: Floats, quotes: SurfaceQuotes) -> Floats:
    """Derivatives in (theta, right, left) and, last, the residual: ``(surfaces, expiries, 4, strikes)``.

    ``w = (θ + (R − L) k + D)/2`` with ``D² = θ² + 2 (R − L) k θ + (R + L)² k²``.
    """
    theta, right, left = (slices[..., i, None] for i in range(3))
    tilt, width = (right - left) * quotes.k, (right + left) * quotes.k
    root = np.sqrt(width * width + theta * (2.0 * tilt + theta))
    half = np.divide(0.5, root, out=np.zeros_like(root), where=root > 0.0)
    out = np.empty((*root.shape[:2], 4, root.shape[2]))
    out[:, :, 0] = 0.5 + half * (theta + tilt)
    even, odd = half * width * quotes.k, half * theta * quotes.k + 0.5 * quotes.k
    out[:, :, 1], out[:, :, 2] = even + odd, even - odd
    out[:, :, 3] = 0.5 * (theta + tilt + root) - quotes.w
    out *= quotes.scale[:, :, None]
    return out


def _step(here: _Local, x: Floats, damping: Floats, box: Box) -> Floats:
    """Damped Gauss-Newton step; parameters that it would carry out of the box stop at the wall."""
    diagonal = np.einsum("spp->sp", here.matrix)
    ridge = damping[:, None] * np.maximum(diagonal, 1e-12 * diagonal.max(axis=1, keepdims=True) + 1e-300)
    matrix = here.matrix + ridge[:, :, None] * np.eye(x.shape[1])
    pinned = (x <= box.lower) & (here.gradient > 0.0) | (x >= box.upper) & (here.gradient < 0.0)
    held = np.zeros_like(x)
    for _ in range(_PINNING):
        move = _solve(matrix, here.gradient, pinned, held)
        outside = ~pinned & ((x + move < box.lower) | (x + move > box.upper))
        pinned |= outside
        held = np.where(pinned, np.clip(x + move, box.lower, box.upper) - x, 0.0)
        if not outside.any():
            break
    return np.clip(x + move, box.lower, box.upper)


def _solve(matrix: Floats, gradient: Floats, pinned: NDArray[np.bool_], held: Floats) -> Floats:
    free = ~pinned
    target = np.where(free, -gradient - (matrix @ held[..., None])[..., 0], held)
    reduced = np.where(free[:, :, None] & free[:, None, :], matrix, 0.0)
    reduced += np.where(pinned, 1.0, 0.0)[:, :, None] * np.eye(matrix.shape[-1])
    solved: Floats = np.linalg.solve(reduced, target[..., None])[..., 0]
    return solved


def _gain(here: _Local, there: _Local, moved: Floats) -> Floats:
    """Decrease achieved over the decrease that the quadratic model promised, within 0 and 2."""
    curvature = np.einsum("sp,spq,sq->s", moved, here.matrix, moved)
    promised = -2.0 * (here.gradient * moved).sum(axis=1) - curvature
    achieved = here.cost - there.cost
    return np.asarray(np.clip(achieved / np.where(promised > 0.0, promised, np.inf), 0.0, 2.0))


def _damp(damping: Floats, growth: Floats, rows: Rows, better: NDArray[np.bool_], gain: Floats) -> None:
    shrink = np.clip(1.0 - (2.0 * gain - 1.0) ** 3, 1.0 / 3.0, 2.0)
    factor = np.where(better, shrink, growth[rows])
    damping[rows] = np.maximum(damping[rows] * factor, 1e-12)
    growth[rows] = np.where(better, 2.0, 2.0 * growth[rows])


def _of(box: Box, rows: Rows, shape: tuple[int, ...]) -> Box:
    return Box(*(np.broadcast_to(bound, shape)[rows] for bound in box))


def _pick(rows: NDArray[np.bool_], new: Floats, old: Floats) -> Floats:
    return np.where(rows.reshape(-1, *[1] * (new.ndim - 1)), new, old)
