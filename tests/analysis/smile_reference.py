"""SVI fitted slowly and readably, one slice at a time: what the batched fit is held to.

Two independent ways. `quasi_explicit` is Zeliade's (2009): Nelder-Mead over vertex and width, with the
linear rest solved inside, then a polish of all five parameters. `best_of_starts` is scipy's bounded trust
region from many starts, in variables whose bounds are Lee's and a variance that is nowhere negative.
"""

from __future__ import annotations

import itertools

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import least_squares, minimize

Floats = NDArray[np.float64]


def raw_svi(k: Floats, a: float, b: float, rho: float, m: float, sigma: float) -> Floats:
    return a + b * (rho * (k - m) + np.sqrt((k - m) ** 2 + sigma**2))


def vol_residuals(k: Floats, iv: Floats, t: float, parameters: Floats) -> Floats:
    """Residuals of volatility, linearised at the quotes."""
    return (raw_svi(k, *parameters) - iv**2 * t) / (2.0 * iv * t)


def rms(k: Floats, iv: Floats, t: float, parameters: Floats) -> float:
    return float(np.sqrt(np.mean(vol_residuals(k, iv, t, parameters) ** 2)))


def quasi_explicit(k: Floats, iv: Floats, t: float) -> Floats:
    """Parameters ``(a, b, rho, m, sigma)`` of the best slice from six starts."""
    spread, lowest = k.max() - k.min(), k[np.argmin(iv)]
    found = []
    for m, sigma in itertools.product((lowest, 0.0), (0.05, 0.2, 0.6)):
        end = minimize(
            lambda place: _linear_rest(k, iv, t, place)[0],
            [m, np.log(sigma * spread)],
            method="Nelder-Mead",
            options={"xatol": 1e-10, "fatol": 1e-18, "maxiter": 600},
        )
        found.append(_linear_rest(k, iv, t, end.x))
    return _polished(k, iv, t, min(found, key=lambda each: each[0])[1])


def _linear_rest(k: Floats, iv: Floats, t: float, place: Floats) -> tuple[float, Floats]:
    """Loss and parameters with the best level and wing slopes at ``(m, ln sigma)``, of nine active sets."""
    m, sigma, spread = place[0], np.exp(place[1]), k.max() - k.min()
    best = np.inf, np.full(5, np.nan)
    if not (k.min() - 2 * spread <= m <= k.max() + 2 * spread and 1e-3 <= sigma / spread <= 5):
        return best
    x, radius, scale = k - m, np.sqrt((k - m) ** 2 + sigma**2), 1.0 / (2.0 * iv * t)
    basis = np.stack([np.ones_like(k), (radius + x) / 2, (radius - x) / 2], axis=1) * scale[:, None]
    for bounds in itertools.product((np.nan, 0.0, 2.0), repeat=2):
        solved = np.array([np.nan, *bounds])
        free = np.isnan(solved)
        target = iv**2 * t * scale - basis[:, ~free] @ solved[~free]
        solved[free] = np.linalg.lstsq(basis[:, free], target, rcond=None)[0]
        a, right, left = solved
        loss = float(np.sum((basis @ solved - iv**2 * t * scale) ** 2))
        if loss < best[0] and _allowed(a, right, left, sigma):
            slope = right + left
            best = loss, np.array([a, slope / 2, (right - left) / slope if slope else 0.0, m, sigma])
    return best


def _allowed(a: float, right: float, left: float, sigma: float) -> bool:
    return min(right, left) >= 0 and max(right, left) <= 2 and a + sigma * np.sqrt(right * left) >= 0


def _polished(k: Floats, iv: Floats, t: float, start: Floats) -> Floats:
    def unpack(p: Floats) -> Floats:
        return np.array([p[0], p[1], np.tanh(p[2]), p[3], np.exp(p[4])])

    if abs(start[2]) >= 1.0:
        return start
    free = [start[0], start[1], np.arctanh(start[2]), start[3], np.log(start[4])]
    polished = least_squares(
        lambda p: vol_residuals(k, iv, t, unpack(p)), free, method="lm", xtol=1e-15, ftol=1e-15
    )
    end = unpack(polished.x)
    inside = _allowed(end[0], end[1] * (1 + end[2]), end[1] * (1 - end[2]), end[4])
    return end if inside and rms(k, iv, t, end) <= rms(k, iv, t, start) else start


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
        found = least_squares(
            lambda p: vol_residuals(k, iv, t, unpack(p)),
            start,
            bounds=(low, high),
            x_scale=np.array([w.mean(), w.mean() / half, w.mean() / half, half, 1.0]),
            max_nfev=400,
        )
        if found.cost < best[1]:
            best = unpack(found.x), found.cost
    return best[0]
