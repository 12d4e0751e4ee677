"""SVI in variables that keep total variance positive, and its derivatives in them.

``w = f + p² P + q² Q − σ p q`` with ``P, Q = (√(x² + σ²) ± x)/2`` and ``x = k − m``: f is the least total
variance, p² and q² are the slopes of the right and left wing. Variables are ``(f, p, q, m, ln σ)``, on the
first axis. In terms of ``R = √(x² + σ²)`` this is raw SVI: ``w = f − σ p q + bend R + tilt x`` with
``bend = (p² + q²)/2`` and ``tilt = (p² − q²)/2``.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from derivdata.analysis.smile.svi import Raw
from derivdata.support.arrays import Floats

SIZE = 5
"""Number of variables of a slice."""


def floor_from_raw(raw: Raw) -> Floats:
    """Return the variables ``(5, N)`` of raw parameters."""
    right = np.sqrt(np.maximum(raw.b * (1.0 + raw.rho), 0.0))
    left = np.sqrt(np.maximum(raw.b * (1.0 - raw.rho), 0.0))
    return np.stack([raw.a + raw.sigma * right * left, right, left, raw.m, np.log(raw.sigma)])


def floor_to_raw(x: Floats) -> Raw:
    """Return the raw parameters of these variables."""
    floor, right, left, m, log_sigma = x
    total = right**2 + left**2
    rho = np.divide(right**2 - left**2, total, out=np.zeros_like(total), where=total > 0.0)
    sigma = np.exp(log_sigma)
    return Raw(floor - sigma * right * left, total / 2.0, rho, m, sigma)


class _Hyperbola(NamedTuple):
    """Parts of the formula: `distance` is x, `radius` is R, `level` is ``f − σ p q``."""

    sigma: Floats
    distance: Floats
    radius: Floats
    bend: Floats
    tilt: Floats
    level: Floats

    def variance(self) -> Floats:
        """Return w."""
        w = self.bend * self.radius
        w += self.tilt * self.distance
        w += self.level
        return w


def _hyperbola(x: Floats, k: Floats) -> _Hyperbola:
    floor, p, q, m, log_sigma = x
    sigma = np.exp(log_sigma)
    distance = k - m
    radius = distance * distance
    radius += sigma * sigma
    np.sqrt(radius, out=radius)
    right = p * p
    left = q * q
    return _Hyperbola(
        sigma, distance, radius, (right + left) / 2.0, (right - left) / 2.0, floor - sigma * p * q
    )


def variance(x: Floats, k: Floats) -> Floats:
    """Return total variance w at log-moneyness `k`."""
    return _hyperbola(x, k).variance()


def variance_jet(x: Floats, k: Floats) -> tuple[Floats, Floats]:
    """Return w and its derivatives in the variables, ``(5, …)``."""
    shape = _hyperbola(x, k)
    p = x[1]
    q = x[2]
    radius = shape.radius
    by_w = np.empty((SIZE, *shape.distance.shape))
    by_w[0] = 1.0
    # ∂w/∂p = 2 p P − σ q with 2 P = R + x, and alike for q.
    np.add(radius, shape.distance, out=by_w[1])
    by_w[1] *= p
    by_w[1] -= shape.sigma * q
    np.subtract(radius, shape.distance, out=by_w[2])
    by_w[2] *= q
    by_w[2] -= shape.sigma * p
    # ∂w/∂m = −∂w/∂k = −(bend x/R + tilt)
    np.divide(shape.distance, radius, out=by_w[3])
    by_w[3] *= -shape.bend
    by_w[3] -= shape.tilt
    # ∂w/∂ln σ = bend σ²/R − σ p q
    np.divide(shape.bend * shape.sigma * shape.sigma, radius, out=by_w[4])
    by_w[4] -= shape.sigma * p * q
    return shape.variance(), by_w


def jet(x: Floats, k: Floats) -> tuple[tuple[Floats, ...], tuple[Floats, ...]]:
    """Return w and its first two derivatives in k, and the derivatives of each of them in the variables."""
    w, by_w = variance_jet(x, k)
    shape = _hyperbola(x, k)
    p = x[1]
    q = x[2]
    inverse = 1.0 / shape.radius
    lean = shape.distance * inverse
    narrow = np.square(shape.sigma * inverse)
    curve = narrow * inverse
    zero = np.zeros_like(shape.distance)
    dw = shape.tilt + shape.bend * lean
    d2w = shape.bend * curve
    by_dw = (zero, p * (1.0 + lean), -q * (1.0 - lean), -d2w, -shape.bend * lean * narrow)
    by_d2w = (zero, p * curve, q * curve, 3.0 * d2w * lean * inverse, d2w * (2.0 - 3.0 * narrow))
    return (w, dw, d2w), (by_w, np.stack(by_dw), np.stack(by_d2w))


def density(x: Floats, k: Floats) -> Floats:
    """Return Durrleman's g, as `derivdata.analysis.smile.svi.density_factor` defines it."""
    shape = _hyperbola(x, k)
    inverse = 1.0 / shape.radius
    half_slope = (shape.tilt + shape.bend * (shape.distance * inverse)) / 2.0
    by_variance = 1.0 / shape.variance()
    g = k * half_slope
    g *= by_variance
    g -= 1.0
    np.square(g, out=g)
    np.square(half_slope, out=half_slope)
    by_variance += 0.25
    half_slope *= by_variance
    g -= half_slope
    inverse *= inverse * inverse
    inverse *= shape.bend * shape.sigma * shape.sigma / 2.0
    g += inverse
    return g


def density_jet(x: Floats, k: Floats) -> tuple[Floats, Floats]:
    """Return Durrleman's g and its derivatives in the variables."""
    (w, dw, d2w), (by_w, by_dw, by_d2w) = jet(x, k)
    tangent = 1.0 - k * dw / (2.0 * w)
    g = tangent**2 - dw**2 / 4.0 * (1.0 / w + 0.25) + d2w / 2.0
    g_w = tangent * k * dw / w**2 + (dw / (2.0 * w)) ** 2
    g_dw = -tangent * k / w - dw / 2.0 * (1.0 / w + 0.25)
    return g, g_w * by_w + g_dw * by_dw + 0.5 * by_d2w
