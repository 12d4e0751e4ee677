"""Ornstein–Uhlenbeck paths whose values do not depend on the requested window.

Values at midnight are an AR(1) from the stationary law of the anchor day on. Within a day the path is a
bridge between two midnights: the free path from the first midnight, plus ``sinh(κ t) / sinh(κ T)`` times its
distance from the second midnight. This is the exact law of the process given both ends. So a day needs only
its midnights and its own random numbers.

Prices of symbols are exponentials of slow paths about a centre.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from derivdata.sources.sample import noise
from derivdata.sources.sample.noise import ANCHOR_DAY, STEPS, Keys
from derivdata.sources.sample.universe import Pairs, symbols
from derivdata.support.arrays import Floats, Ints

PRICE_HALF_LIFE_HOURS = 24.0 * 120.0

_INNER = noise.key("within a day")
_PRICE = noise.key("price")
_ROUND = 64
_LN2 = 0.6931471805599453


def midnights(streams: Keys, half_life_hours: Any, first: int, days: int) -> Floats:
    """Return unit-variance OU values at `days` midnights from day `first`, shape ``(days, streams)``."""
    decay = np.exp(-_LN2 * 24.0 / np.broadcast_to(half_life_hours, streams.shape))
    stop = first - ANCHOR_DAY + days
    walk = _walk(streams.tobytes(), decay.tobytes(), -(-stop // _ROUND) * _ROUND)
    return walk[stop - days : stop]


@lru_cache(maxsize=4)
def _walk(streams: bytes, decay: bytes, count: int) -> Floats:
    """Return unit-variance AR(1) paths from the anchor day on, shape ``(count, streams)``."""
    keys = np.frombuffer(streams, dtype=np.uint64)
    fade = np.frombuffer(decay)
    spread = np.sqrt(1.0 - fade * fade)
    draws = noise.normal(keys, np.arange(count)[:, None])
    state = draws[0]
    for k in range(1, count):
        state = fade * state + spread * draws[k]
        draws[k] = state
    draws.flags.writeable = False
    return draws


def ou(
    streams: Keys, half_life_hours: Any, first: int, days: int, steps: int, ends: Floats | None = None
) -> Floats:
    """Return unit-variance OU paths on `steps` equal steps a day from midnight, ``(streams, days, steps)``.

    `ends` are the `midnights` of one more day.
    """
    if ends is None:
        ends = midnights(streams, half_life_hours, first, days + 1)
    kappa = _LN2 * 24.0 / np.broadcast_to(half_life_hours, streams.shape)
    decay = np.exp(-kappa / steps)
    spread = np.sqrt(1.0 - decay * decay)
    pull = np.sinh(kappa * (np.arange(steps + 1) / steps)[:, None]) / np.sinh(kappa)
    index = (first + np.arange(days)) * steps + np.arange(steps)[:, None]
    path = noise.normal(streams ^ _INNER, index[..., None])
    path *= spread
    state = ends[:-1]
    moved = np.empty_like(state)
    for k in range(steps):
        np.multiply(state, decay, out=moved)
        path[k] += moved
        state = path[k]
    missed = ends[1:] - path[-1]
    path[1:] = path[:-1] + pull[1:-1, None] * missed
    path[0] = ends[:-1]
    return np.ascontiguousarray(path.transpose(2, 1, 0))


def smooth(streams: Keys, half_life_hours: Any, day_fraction: Floats) -> Floats:
    """Return midnight values joined by cubic smoothsteps at times in days, shape ``(streams, times)``."""
    whole = np.floor(day_fraction).astype(np.int64)
    first = int(np.min(whole))
    ends = midnights(streams, half_life_hours, first, int(np.max(whole)) - first + 2).T
    u = day_fraction - whole
    left = ends[:, whole - first]
    right = ends[:, whole - first + 1]
    return np.asarray(left + (right - left) * (u * u * (3.0 - 2.0 * u)))


def price(own: Ints, first: int, days: int, steps: int = STEPS) -> Floats:
    """Return prices of symbols [USD], unrounded; paths on different numbers of steps agree at midnight."""
    s = symbols()
    # The stationary deviation of the log price that gives the symbol its volatility.
    deviation = s.volatility[own] / np.sqrt(2.0 * np.log(2.0) * 8760.0 / PRICE_HALF_LIFE_HOURS)
    path = ou(s.streams[own] ^ _PRICE, PRICE_HALF_LIFE_HOURS, first, days, steps).reshape(len(own), -1)
    return np.asarray(s.price[own, None] * np.exp(deviation[:, None] * path))


def premium(selection: Pairs) -> Floats:
    """Return the constant factor between a venue's price and the symbol's, within ±3 bps."""
    return np.asarray(1.0 + 6e-4 * (noise.uniform(selection.streams ^ _PRICE, 0) - 0.5))
