"""Price paths of the symbols: exponentials of slow Ornstein–Uhlenbeck paths about a centre."""

from __future__ import annotations

import numpy as np

from derivdata.sources.sample import noise, paths
from derivdata.sources.sample.grid import STEPS, Ints
from derivdata.sources.sample.noise import Floats
from derivdata.sources.sample.universe import Pairs, symbols

__all__ = ["HALF_LIFE_HOURS", "premium", "price"]

HALF_LIFE_HOURS = 24.0 * 120.0
_PRICE = noise.key("price")


def price(own: Ints, first: int, days: int, steps: int = STEPS) -> Floats:
    """Return the price of symbols [USD], unrounded, shape ``(symbols, days × steps)``.

    Paths on different numbers of steps a day agree at midnight only; everything that must agree within a day
    asks for the same `steps`.
    """
    s = symbols()
    path = paths.ou(s.streams[own] ^ _PRICE, HALF_LIFE_HOURS, first, days, steps).reshape(len(own), -1)
    return np.asarray(s.price[own, None] * np.exp(_deviation(own)[:, None] * path))


def premium(chosen: Pairs) -> Floats:
    """Return the constant factor between a venue's price and the symbol's, within ±3 bps."""
    return np.asarray(1.0 + 6e-4 * (noise.uniform(chosen.streams ^ _PRICE, 0) - 0.5))


def _deviation(own: Ints) -> Floats:
    """Return the stationary standard deviation of the log price that gives the symbol its volatility."""
    kappa = np.log(2.0) * 8760.0 / HALF_LIFE_HOURS
    return np.asarray(symbols().volatility[own] / np.sqrt(2.0 * kappa))
