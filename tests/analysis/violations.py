"""Arbitrage of fitted surfaces, counted on a grid of places by formulas apart from the package's."""

from typing import Any

import numpy as np
import xarray as xr

_RAW = ("a", "b", "rho", "m", "sigma")
_BUMPS = ("bump_unit", *(f"bump_{i}" for i in range(1, 8)))
_PLACES = np.linspace(-10.0, 10.0, 20_001)
_MIDDLES, _RADIUS = (-4.0, -2.25, -1.0, 0.0, 1.0, 2.25, 4.0), 0.8 * 12.0**0.5
_SHAPE = np.polynomial.Polynomial([1.0, 0.0, -1.0]) ** 6


def violations(fitted: xr.Dataset) -> tuple[int, int, int]:
    """Count slices with a butterfly, neighbours that cross, and cuts halfway between with a butterfly."""
    fitted = fitted.transpose(..., "expiry")
    shape, size = fitted["a"].shape, fitted.sizes["expiry"]
    names = _RAW + (_BUMPS if _BUMPS[0] in fitted else ())
    raw = np.stack([fitted[name].to_numpy().reshape(-1, size) for name in names], axis=-1)
    years = np.broadcast_to(fitted["year_fraction"].to_numpy(), shape).reshape(-1, size)
    butterflies = crossings = between = 0
    for slices, t in zip(raw, years, strict=True):
        ordered = slices[np.isfinite(slices[:, 0])][np.argsort(t[np.isfinite(slices[:, 0])])]
        for i, late in enumerate(ordered):
            k = _PLACES * np.sqrt(max(_jet(np.zeros(1), late)[0][0], 1e-12))
            now = _jet(k, late)
            butterflies += _min(k, now) < 0.0
            if i:
                before = _jet(k, ordered[i - 1])
                crossings += (now[0] - before[0]).min() < 0.0
                between += _min(k, [(a + b) / 2.0 for a, b in zip(before, now, strict=True)]) < 0.0
    return int(butterflies), int(crossings), int(between)


def _jet(k: Any, raw: Any) -> list[Any]:
    a, b, rho, m, sigma, *bumps = raw
    x = k - m
    root = np.sqrt(x * x + sigma * sigma)
    jet = [a + b * (rho * x + root), b * (rho + x / root), b * sigma**2 / root**3]
    unit, heights = (bumps[0], bumps[1:]) if bumps else (1.0, [])
    for middle, height in zip(_MIDDLES, heights, strict=bool(bumps)):
        x = (k / unit - middle) / _RADIUS
        for order in (0, 1, 2):
            part = _SHAPE.deriv(order)(x) if order else _SHAPE(x)
            jet[order] = jet[order] + np.where(abs(x) < 1.0, height * part / (unit * _RADIUS) ** order, 0.0)
    return jet


def _min(k: Any, jet: list[Any]) -> float:
    w, dw, d2w = jet
    g = (1.0 - k * dw / (2.0 * w)) ** 2 - dw**2 / 4.0 * (1.0 / w + 0.25) + d2w / 2.0
    return float(np.where(w > 0.0, g, -1.0).min())
