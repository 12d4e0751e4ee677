"""Raw SVI in variables that keep total variance positive.

``w = f + p² P + q² Q − σ p q`` with ``P, Q = (√(x² + σ²) ± x)/2`` and ``x = k − m``: f is the least total
variance, p² and q² are the slopes of the right and left wing. Variables are ``(f, p, q, m, ln σ)``.
"""

from __future__ import annotations

import numpy as np

from derivdata.analysis.smile.parameters import Floats, Raw

__all__ = ["density_jet", "floor_curve", "floor_from_raw", "floor_to_raw", "jet"]


def floor_from_raw(raw: Raw) -> Floats:
    """Variables ``(5, N)`` of raw parameters."""
    right, left = (np.sqrt(np.maximum(raw.b * (1.0 + side * raw.rho), 0.0)) for side in (1.0, -1.0))
    return np.stack([raw.a + raw.sigma * right * left, right, left, raw.m, np.log(raw.sigma)])


def floor_to_raw(x: Floats) -> Raw:
    """Return the raw parameters of variables ``(5, N)``."""
    floor, right, left, m, log_sigma = x
    total = right**2 + left**2
    rho = np.divide(right**2 - left**2, total, out=np.zeros_like(total), where=total > 0.0)
    sigma = np.exp(log_sigma)
    return Raw(floor - sigma * right * left, total / 2.0, rho, m, sigma)


def floor_curve(x: Floats, _constants: Floats, k: Floats) -> tuple[Floats, Floats]:
    """Return the total variance and its derivatives in the variables."""
    (w, _, _), (by_w, _, _) = jet(x, k)
    return w, by_w


def jet(x: Floats, k: Floats) -> tuple[tuple[Floats, ...], tuple[Floats, ...]]:
    """``w`` and its first two derivatives in k, and the derivatives of each of them in the variables."""
    floor, p, q, m, log_sigma = x
    sigma = np.exp(log_sigma)
    distance = k - m
    inverse = 1.0 / np.sqrt(distance * distance + sigma * sigma)
    lean, bend = distance * inverse, (p * p + q * q) / 2.0
    up, down = (1.0 + lean) / 2.0, (1.0 - lean) / 2.0
    narrow, valley = np.square(sigma * inverse), sigma * p * q
    curve = narrow * inverse
    zero = np.zeros_like(distance)
    w = floor + (p * p * up + q * q * down) / inverse - valley
    rise = p * p * up - q * q * down
    by_w = (
        zero + 1.0,
        2.0 * p * up / inverse - sigma * q,
        2.0 * q * down / inverse - sigma * p,
        -rise,
        bend * narrow / inverse - valley,
    )
    by_dw = (zero, 2.0 * p * up, -2.0 * q * down, -bend * curve, -bend * lean * narrow)
    bent = (3.0 * bend * curve * lean * inverse, bend * curve * (2.0 - 3.0 * narrow))
    by_d2w = (zero, p * curve, q * curve, *bent)
    return (w, rise, bend * curve), (np.stack(by_w), np.stack(by_dw), np.stack(by_d2w))


def density_jet(x: Floats, k: Floats) -> tuple[Floats, Floats]:
    """Durrleman's g and its derivatives in the variables."""
    (w, dw, d2w), (by_w, by_dw, by_d2w) = jet(x, k)
    tangent = 1.0 - k * dw / (2.0 * w)
    g = tangent**2 - dw**2 / 4.0 * (1.0 / w + 0.25) + d2w / 2.0
    g_w = tangent * k * dw / w**2 + (dw / (2.0 * w)) ** 2
    g_dw = -tangent * k / w - dw / 2.0 * (1.0 / w + 0.25)
    return g, g_w * by_w + g_dw * by_dw + 0.5 * by_d2w
