"""The least-squares problem of surfaces whose slices are SSVI, for `derivdata.analysis.least_squares`.

A model turns parameters of a surface into slices ``(θ, R, L)``: total variance at the money and the half
slopes of the wings. Quotes of one slice enter only through the products of four rows (the derivatives by
θ, R, L and the residual), so the Jacobian in the parameters is never formed quote by quote.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from derivdata.analysis.least_squares import Floats, Index, Linearised, Minimum, minimise

Rows = NDArray[np.intp]

__all__ = ["Floats", "Model", "Rows", "SsviProblem", "SurfaceQuotes", "fit_model"]

Model = Callable[[Floats, Floats], tuple[Floats, Floats]]
"""From parameters ``(surfaces, parameters)`` and constants ``(surfaces, …)`` to slices ``(surfaces,
expiries, 3)``, each ``(theta, right, left)``, and their Jacobian ``(surfaces, expiries, 3, parameters)``."""

_STEPS = 200
_TOLERANCE = 1e-10
_EXACT = 5e-9  # relative error of total variance that is none
_INSIDE = 0.1  # share of a residual between bid and ask that counts: a hundredth of the squared loss


class SurfaceQuotes(NamedTuple):
    """Log-moneyness, total variance and residual scale, each ``(surfaces, expiries, strikes)``.

    A place without a quote has scale 0 and harmless finite numbers. `low` and `high`, where they are given,
    are total variances of bid and ask: between them a residual counts for a tenth.
    """

    k: Floats
    w: Floats
    scale: Floats
    low: Floats | None = None
    high: Floats | None = None

    def rows(self, rows: Index | slice) -> SurfaceQuotes:
        """Return the quotes of some surfaces."""
        return self._cut(rows)

    def expiry(self, index: int) -> SurfaceQuotes:
        """Return the quotes of one expiry of every surface, which stays an axis."""
        return self._cut(np.s_[:, index : index + 1])

    def _cut(self, index: Any) -> SurfaceQuotes:
        low, high = (None if part is None else part[index] for part in (self.low, self.high))
        return SurfaceQuotes(self.k[index], self.w[index], self.scale[index], low, high)

    def errors(self, w: Floats) -> tuple[Floats, Floats | float]:
        """Scaled residuals of model variances `w`, and the factor of their derivative by `w`.

        Without bid and ask these are ``scale (w − quote)`` and `scale`. With them only what lies outside
        counts in full; the tenth that is left inside makes the minimum unique.
        """
        error = w - self.w
        if self.low is None or self.high is None:
            return error * self.scale, self.scale
        outside = np.where(w > self.high, w - self.high, np.where(w < self.low, w - self.low, 0.0))
        factor = _INSIDE + (1.0 - _INSIDE) * (outside != 0.0)
        return (_INSIDE * error + (1.0 - _INSIDE) * outside) * self.scale, factor * self.scale


class SsviProblem(NamedTuple):
    """Surfaces of a model; see `derivdata.analysis.least_squares.Problem`."""

    model: Model
    constants: Floats
    quotes: SurfaceQuotes
    low: Floats
    high: Floats

    @property
    def reach(self) -> Floats:
        """Return no limit of a step."""
        return np.full((len(self.low), 1), np.inf)

    def rows(self, index: Index) -> Self:
        """Return these surfaces only."""
        return self._replace(
            constants=self.constants[index],
            quotes=self.quotes.rows(index),
            low=self.low[:, index],
            high=self.high[:, index],
        )

    def evaluate(self, x: Floats) -> Linearised:
        """Evaluate at x, by the chain rule through the three numbers of each slice.

        With the rows ``A = (∂w/∂θ, ∂w/∂R, ∂w/∂L, residual)`` of a slice, ``A Aᵀ`` (4 × 4) holds all that its
        quotes have to say; ``Jᵀ (A Aᵀ)_33 J`` with the model's Jacobian J is the Gauss-Newton matrix.
        """
        slices, jacobian = self.model(x.T, self.constants)
        rows = _residual_rows(slices, self.quotes)
        normal = rows @ rows.swapaxes(-1, -2)
        parameters, count = x.shape
        flat = jacobian.reshape(count, -1, parameters)
        curved = (normal[..., :3, :3] @ jacobian).reshape(flat.shape)
        pulls = normal[..., :3, 3].reshape(count, 1, -1)
        gram = np.moveaxis(flat.swapaxes(-1, -2) @ curved, 0, -1)
        own = np.einsum("ppn->pn", gram)
        # A variable that moves nothing yet (a wing of slope 0) is damped by a trace of the strongest one.
        scale = np.maximum(own, 1e-12 * own.max(axis=0) + 1e-300)
        size = np.einsum("set,set->s", *[self.quotes.scale * self.quotes.w] * 2)
        nothing = _EXACT**2 * size
        return Linearised(x, normal[..., 3, 3].sum(axis=1), nothing, gram, -(pulls @ flat)[:, 0].T, scale)


def fit_model(
    model: Model,
    constants: Floats,
    start: Floats,
    bounds: tuple[Floats, Floats],
    quotes: SurfaceQuotes,
    *,
    damping: float = 1e-3,
) -> Minimum:
    """Fit surfaces of a model to their quotes.

    Parameters
    ----------
    model, constants
        See `Model`.
    start
        First guess, ``(surfaces, parameters)``.
    bounds
        Least and greatest parameters, broadcast against ``(surfaces, parameters)``.
    quotes
        What to meet.
    damping
        Damping of the first step.

    Returns
    -------
    Minimum
        With ``x`` of shape ``(parameters, surfaces)``.
    """
    low, high = (np.broadcast_to(bound, start.shape).T for bound in bounds)
    problem = SsviProblem(model, constants, quotes, low, high)
    return minimise(problem, start.T, steps=_STEPS, damping=damping, tolerance=_TOLERANCE)


def _residual_rows(slices: Floats, quotes: SurfaceQuotes) -> Floats:
    """Return derivatives by (θ, R, L) and, last, the residual: ``(surfaces, expiries, 4, strikes)``.

    ``w = (θ + (R − L) k + D)/2`` with ``D² = θ² + 2 (R − L) k θ + (R + L)² k²``.
    """
    theta, right, left = (slices[..., i, None] for i in range(3))
    tilt, width = (right - left) * quotes.k, (right + left) * quotes.k
    root = np.sqrt(width * width + theta * (2.0 * tilt + theta))
    half = np.divide(0.5, root, out=np.zeros_like(root), where=root > 0.0)
    even, odd = half * width * quotes.k, half * theta * quotes.k + 0.5 * quotes.k
    out = np.empty((*root.shape[:2], 4, root.shape[2]))
    out[:, :, 3], factor = quotes.errors(0.5 * (theta + tilt + root))
    out[:, :, 0] = factor * (0.5 + half * (theta + tilt))
    out[:, :, 1], out[:, :, 2] = factor * (even + odd), factor * (even - odd)
    return out
