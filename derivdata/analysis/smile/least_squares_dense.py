"""Least-squares problems given by a model curve and its derivatives, one slice per column."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Self

import numpy as np

from derivdata.analysis.least_squares import Index, Linearised, diagonal
from derivdata.analysis.smile.parameters import Floats

__all__ = ["Curve", "DenseProblem"]

Curve = Callable[[Floats, Floats, Floats], tuple[Floats, Floats]]
"""From variables ``(P, N, 1)``, constants ``(C, N, 1)`` and k ``(N, K)``: values ``(N, K)`` and their
derivatives ``(P, N, K)``."""


class DenseProblem(NamedTuple):
    """Fit `curve` to `target` at `k` with weights on the squared residuals, all ``(N, K)``."""

    curve: Curve
    k: Floats
    target: Floats
    weight: Floats
    constants: Floats
    low: Floats
    high: Floats
    reach: Floats

    def rows(self, index: Index) -> Self:
        """Return these slices only."""
        wide = {name: getattr(self, name)[index] for name in ("k", "target", "weight")}
        tall = {name: getattr(self, name)[:, index] for name in ("constants", "low", "high")}
        return self._replace(**wide, **tall)

    def evaluate(self, x: Floats) -> Linearised:
        """Residual and Jacobian products at `x`."""
        value, slope = self.curve(x[..., None], self.constants[..., None], self.k)
        error = self.target - value
        weighted = self.weight * slope
        gram = np.vecdot(weighted[:, None], slope)
        size = np.vecdot(self.weight, np.square(self.target))
        loss = np.vecdot(self.weight * error, error)
        grad = np.vecdot(weighted, error)
        return Linearised(x, loss, 1e-28 * size, gram, grad, diagonal(gram) + 1e-300)
