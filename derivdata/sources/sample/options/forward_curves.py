"""Forwards ``F(T) = S e^(bT)``, and the slow paths that move the parameters of every surface model."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from derivdata.sources.sample import noise, paths
from derivdata.sources.sample.grid import ANCHOR_DAY, DAY_US, STEP_US, STEPS
from derivdata.sources.sample.noise import Keys
from derivdata.sources.sample.options.listings import EXPIRY_US
from derivdata.sources.sample.universe import symbols
from derivdata.support.arrays import Floats, Ints
from derivdata.support.times import SECONDS_PER_YEAR

_HALF_LIFE_HOURS = 24.0 * 12.0
_MONTH = 32


class Forwards(NamedTuple):
    """Times and forwards of expiries; arrays of shape ``(expiries, instants)``, `spot` ``(instants,)``."""

    year_fraction: Floats
    underlying_price: Floats
    spot: Floats


def forwards(symbol: str, exchange: str, expiry: Ints, time: Ints) -> Forwards:
    """Return the forwards of some expiries (days since 1970) at some instants [µs]."""
    basis = 0.06 + 0.03 * bounded_paths(symbol, time)[5] + 0.004 * venue_offsets(symbol, exchange)[2]
    years = (expiry[:, None] * DAY_US + EXPIRY_US - time) / (SECONDS_PER_YEAR * 1e6)
    spot = _spot(symbol, time)
    return Forwards(years, spot * np.exp(basis * years), spot)


def bounded_paths(symbol: str, time: Ints) -> Floats:
    """Return six slow paths of a symbol, of unit scale and within ±√10, shape ``(6, instants)``."""
    x = paths.smooth(_streams(symbol), _HALF_LIFE_HOURS, time / DAY_US)
    return np.asarray(x / np.sqrt(1.0 + 0.1 * x * x))


def venue_offsets(symbol: str, exchange: str) -> Floats:
    """Return three numbers within ±½ in which venues differ for good."""
    return noise.uniform(noise.key("surface", symbol, exchange), np.arange(3)) - 0.5


@lru_cache(maxsize=64)
def _streams(symbol: str) -> Keys:
    return np.array([noise.key("surface", symbol, n) for n in range(6)], dtype=np.uint64)


def _spot(symbol: str, time: Ints) -> Floats:
    since = time - ANCHOR_DAY * DAY_US
    months, place = np.unique(since // (_MONTH * DAY_US), return_inverse=True)
    path = np.stack([_month(symbol, month) for month in months.tolist()])
    return np.asarray(path[place, since // STEP_US % (_MONTH * STEPS)])


@lru_cache(maxsize=128)
def _month(symbol: str, number: int) -> Floats:
    """Return prices at the steps of `_MONTH` days; the next request is of the same days as a rule."""
    own = np.array([symbols().name.index(symbol)])
    return np.asarray(paths.price(own, ANCHOR_DAY + number * _MONTH, _MONTH)[0])
