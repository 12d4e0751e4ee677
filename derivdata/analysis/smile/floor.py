"""Raw SVI in variables that keep total variance positive.

``w = f + p² P + q² Q − σ p q`` with ``P, Q = (√(x² + σ²) ± x)/2`` and ``x = k − m``: f is the least total
variance, p² and q² are the slopes of the right and left wing. Variables are ``(f, p, q, m, ln σ)``.
"""

from __future__ import annotations

import numpy as np

from derivdata.analysis.smile.forms import Floats, Raw

__all__ = ["floor_curve", "floor_from_raw", "floor_to_raw", "jet"]


def floor_from_raw(raw: Raw) -> Floats:
    """Variables ``(5, N)`` of raw parameters."""
    right, left = (np.sqrt(np.maximum(raw.b * (1.0 + side * raw.rho), 0.0)) for side in (1.0, -1.0))
    return np.stack([raw.a + raw.sigma * right * left, right, left, raw.m, np.log(raw.sigma)])


def floor_to_raw(x: Floats) -> Raw:
    """Raw parameters of variables ``(5, N)``."""
    floor, right, left, m, log_sigma = x
    total = right**2 + left**2
    rho = np.divide(right**2 - left**2, total, out=np.zeros_like(total), where=total > 0.0)
    sigma = np.exp(log_sigma)
    return Raw(floor - sigma * right * left, total / 2.0, rho, m, sigma)


def floor_curve(x: Floats, _: Floats, k: Floats) -> tuple[Floats, Floats]:
    """Total variance and its derivatives in the variables."""
    values, slopes = jet(x, k, order=0)
    return values[0], slopes[0]


def jet(x: Floats, k: Floats, *, order: int = 2) -> tuple[list[Floats], list[Floats]]:
    """``w`` and its first `order` derivatives in k, and the derivatives of each in the variables."""
    floor, p, q, m, log_sigma = x
    sigma = np.exp(log_sigma)
    distance = k - m
    inverse = 1.0 / np.sqrt(distance * distance + sigma * sigma)
    lean, bend = distance * inverse, (p * p + q * q) / 2.0
    up, down = (1.0 + lean) / inverse / 2.0, (1.0 - lean) / inverse / 2.0
    curve = np.square(sigma * inverse) * inverse
    zero = np.zeros_like(distance)
    rise = p * p * (1.0 + lean) / 2.0 - q * q * (1.0 - lean) / 2.0
    values = [floor + p * p * up + q * q * down - sigma * p * q, rise, bend * curve]
    narrow = np.square(sigma * inverse)
    slopes = [
        (
            zero + 1.0,
            2.0 * p * up - sigma * q,
            2.0 * q * down - sigma * p,
            -rise,
            bend * narrow / inverse - sigma * p * q,
        ),
        (zero, p * (1.0 + lean), -q * (1.0 - lean), -bend * curve, -bend * lean * narrow),
        (
            zero,
            p * curve,
            q * curve,
            3.0 * bend * curve * lean * inverse,
            bend * curve * (2.0 - 3.0 * narrow),
        ),
    ]
    return values[: order + 1], [np.stack(np.broadcast_arrays(*part)) for part in slopes[: order + 1]]
