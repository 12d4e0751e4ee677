"""SVI fitted slowly and readably, one slice at a time: the reference of the batched fit.

`best_of_starts` is scipy's bounded trust region from many starts, with Lee's bounds and non-negative
variance.
"""

import itertools

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import least_squares

Floats = NDArray[np.float64]


def raw_svi(k: Floats, a: float, b: float, rho: float, m: float, sigma: float) -> Floats:
    return a + b * (rho * (k - m) + np.sqrt((k - m) ** 2 + sigma**2))


def vol_residuals(k: Floats, iv: Floats, t: float, parameters: Floats) -> Floats:
    return (raw_svi(k, *parameters) - iv**2 * t) / (2.0 * iv * t)


def rms(k: Floats, iv: Floats, t: float, parameters: Floats) -> float:
    return float(np.sqrt(np.mean(vol_residuals(k, iv, t, parameters) ** 2)))


def best_of_starts(k: Floats, iv: Floats, t: float) -> Floats:
    """Parameters ``(a, b, rho, m, sigma)`` of the best of twelve bounded searches."""
    centre, half = (k.max() + k.min()) / 2, (k.max() - k.min()) / 2
    w = iv**2 * t

    def unpack(p: Floats) -> Floats:
        floor, right, left, m, log_sigma = p
        sigma = np.exp(log_sigma)
        return np.array(
            [
                floor - sigma * np.sqrt(right * left),
                (right + left) / 2,
                (right - left) / (right + left),
                m,
                sigma,
            ]
        )

    low = np.array([0, 0, 0, centre - 5 * half, np.log(2e-3 * half)])
    high = np.array([np.inf, 2, 2, centre + 5 * half, np.log(10 * half)])
    best = np.full(5, np.nan), np.inf
    for m, sigma in itertools.product((-0.7, -0.2, 0.2, 0.7), (0.05, 0.3, 1.0)):
        x, radius = k - centre - half * m, np.hypot(k - centre - half * m, half * sigma)
        basis = (
            np.stack([np.ones_like(k), (radius + x) / 2, (radius - x) / 2], axis=1) / (2 * iv * t)[:, None]
        )
        a, right, left = np.linalg.lstsq(basis, w / (2 * iv * t), rcond=None)[0]
        right, left = np.clip([right, left], 0.01 * w.mean() / half, 1.98)
        floor = max(a + half * sigma * np.sqrt(right * left), 0.01 * w.mean())
        start = np.clip(
            [floor, right, left, centre + half * m, np.log(half * sigma)], low + 1e-6, high - 1e-6
        )
        result = least_squares(
            lambda p: vol_residuals(k, iv, t, unpack(p)),
            start,
            bounds=(low, high),
            x_scale=np.array([w.mean(), w.mean() / half, w.mean() / half, half, 1.0]),
            max_nfev=400,
        )
        if result.cost < best[1]:
            best = unpack(result.x), result.cost
    return best[0]
