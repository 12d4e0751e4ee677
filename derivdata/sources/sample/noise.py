"""Counter-based random numbers of the sample, its grid of times as integers, and random paths.

Random numbers are SplitMix64 (Steele, Lea, Flood, "Fast splittable pseudorandom number generators", OOPSLA
2014) used as a hash: number `index` of stream `key` is ``mix(key + (index + 1) × golden)`` modulo 2^64. They
are equal on every machine and in any order.

Ornstein–Uhlenbeck paths do not depend on the requested window. Values at midnight are an AR(1) from the
stationary law of the anchor day on. Within a day the path is a bridge between two midnights: the free path
from the first midnight, plus ``sinh(κ t) / sinh(κ T)`` times its distance from the second midnight. This is
the exact law of the process given both ends. So a day needs only its midnights and its own random numbers.
"""

from __future__ import annotations

import hashlib
from functools import lru_cache
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from derivdata.support import times
from derivdata.support.arrays import Floats, Ints

SEED = 20250901

Keys = NDArray[np.uint64]

# Constants of SplitMix64.
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MULTIPLIER_1 = np.uint64(0xBF58476D1CE4E5B9)
_MULTIPLIER_2 = np.uint64(0x94D049BB133111EB)
# Masks and moments of the sum of four 16-bit integers in `normal`.
_LANES = np.uint64(0x0000FFFF0000FFFF)
_LOW_32_BITS = np.uint64(0xFFFFFFFF)
_NORMAL_MEAN = 2.0 * 65535.0
_NORMAL_SCALE = 1.0 / float(np.sqrt((65536.0**2 - 1.0) / 3.0))


def key(*names: object) -> np.uint64:
    """Return the stream of a name: BLAKE2b (8 bytes, big-endian) of seed and names, joined by ``|``."""
    text = "|".join(map(str, (SEED, *names)))
    return np.uint64(int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big"))


def keys(purpose: str, names: Any) -> Keys:
    """Return the streams of many names for one purpose."""
    return np.array([key(purpose, name) for name in names], dtype=np.uint64)


def bits(streams: Any, index: Any) -> Keys:
    """Return 64 random bits for every stream and index, broadcast against each other."""
    with np.errstate(over="ignore"):
        z = np.atleast_1d(np.asarray(index).astype(np.uint64)) + np.uint64(1)
        z = z * _GOLDEN + np.asarray(streams, dtype=np.uint64)
    shifted = z >> np.uint64(30)
    z ^= shifted
    z *= _MULTIPLIER_1
    np.right_shift(z, np.uint64(27), out=shifted)
    z ^= shifted
    z *= _MULTIPLIER_2
    np.right_shift(z, np.uint64(31), out=shifted)
    z ^= shifted
    return z


def uniform(streams: Any, index: Any) -> Floats:
    """Draw uniform numbers on [0, 1), of 53 bits."""
    return np.asarray((bits(streams, index) >> np.uint64(11)) * 2.0**-53)


def normal(streams: Any, index: Any) -> Floats:
    """Draw nearly normal numbers within ±3.47: the scaled sum of four 16-bit integers."""
    z = bits(streams, index)
    upper = z >> np.uint64(16)
    upper &= _LANES
    z &= _LANES
    z += upper
    np.right_shift(z, np.uint64(32), out=upper)
    z &= _LOW_32_BITS
    z += upper
    result = z.astype(np.float64)
    result -= _NORMAL_MEAN
    result *= _NORMAL_SCALE
    return np.asarray(result)


START = pd.Timestamp("2025-09-01", tz="UTC").as_unit("us")
NOW = pd.Timestamp("2026-06-30 12:00", tz="UTC").as_unit("us")
STEP_US = 300_000_000
HOUR_US = 3_600_000_000
DAY_US = 86_400_000_000
STEPS = DAY_US // STEP_US


def day(stamp: pd.Timestamp | str) -> int:
    """Return days since 1970 of a date or of the day of a time."""
    if isinstance(stamp, str):
        stamp = pd.Timestamp(stamp, tz="UTC")
    return times.us(stamp) // DAY_US


def timestamps(microseconds: Any) -> pd.DatetimeIndex:
    """Return UTC times from microseconds since 1970."""
    values = np.ascontiguousarray(microseconds, dtype=np.int64).view("datetime64[us]")
    return pd.DatetimeIndex(values).tz_localize("UTC")


def grid(first: int, last: int, step: int) -> Ints:
    """Return the multiples of `step` in ``[first, last)``, all in µs."""
    return np.arange(-(-first // step), -(-last // step)) * step  # −(−a // b) is a / b rounded up


START_DAY = day(START)
ANCHOR_DAY = START_DAY - 32
"""Day on which all random paths begin."""


def years(microseconds: Any) -> Any:
    """Return years of 365 days since the sample's start."""
    return (np.asarray(microseconds) - START_DAY * DAY_US) / (365.0 * DAY_US)


_WITHIN_DAY = key("within a day")
_WALK_DAYS = 64
_LN2 = 0.6931471805599453


def midnights(streams: Keys, half_life_hours: Any, first_day: int, days: int) -> Floats:
    """Return unit-variance OU values at `days` midnights from day `first_day`, shape ``(days, streams)``."""
    decay = np.exp(-_LN2 * 24.0 / np.broadcast_to(half_life_hours, streams.shape))
    stop = first_day - ANCHOR_DAY + days
    count = -(-stop // _WALK_DAYS) * _WALK_DAYS  # rounded up, so that later days use the cached paths
    paths = _midnight_paths(streams.tobytes(), decay.tobytes(), count)
    return paths[stop - days : stop]


@lru_cache(maxsize=4)
def _midnight_paths(streams: bytes, decay: bytes, count: int) -> Floats:
    """Return unit-variance AR(1) paths from the anchor day on, shape ``(count, streams)``."""
    decays = np.frombuffer(decay)
    spread = np.sqrt(1.0 - decays * decays)
    path = normal(np.frombuffer(streams, dtype=np.uint64), np.arange(count)[:, None])
    for day_number in range(1, count):
        path[day_number] = decays * path[day_number - 1] + spread * path[day_number]
    path.flags.writeable = False
    return path


def ou(
    streams: Keys, half_life_hours: Any, first_day: int, days: int, steps: int, ends: Floats | None = None
) -> Floats:
    """Return unit-variance OU paths on `steps` equal steps a day from midnight, ``(streams, days, steps)``.

    `ends` are the values at the midnights of the days and of the day after, by default from `midnights`.
    """
    if ends is None:
        ends = midnights(streams, half_life_hours, first_day, days + 1)
    kappa = _LN2 * 24.0 / np.broadcast_to(half_life_hours, streams.shape)
    decay = np.exp(-kappa / steps)
    spread = np.sqrt(1.0 - decay * decay)
    pull = np.sinh(kappa * (np.arange(steps + 1) / steps)[:, None]) / np.sinh(kappa)
    # 1. The free path from each first midnight; path[k] is the value after k + 1 steps.
    index = (first_day + np.arange(days)) * steps + np.arange(steps)[:, None]
    path = normal(streams ^ _WITHIN_DAY, index[..., None])
    path *= spread
    state = ends[:-1]
    decayed = np.empty_like(state)
    for k in range(steps):
        np.multiply(state, decay, out=decayed)
        path[k] += decayed
        state = path[k]
    # 2. The bridge: add the distance from the second midnight, and move each value to its own step.
    distance = ends[1:] - path[-1]
    path[1:] = path[:-1] + pull[1:-1, None] * distance
    path[0] = ends[:-1]
    return np.ascontiguousarray(path.transpose(2, 1, 0))


def smooth(streams: Keys, half_life_hours: Any, day_fraction: Floats) -> Floats:
    """Return OU values at midnights joined by cubic smoothsteps, shape ``(streams, times)``.

    `day_fraction` has the times in days since 1970.
    """
    whole = np.floor(day_fraction).astype(np.int64)
    first = int(np.min(whole))
    ends = midnights(streams, half_life_hours, first, int(np.max(whole)) - first + 2).T
    u = day_fraction - whole
    left = ends[:, whole - first]
    right = ends[:, whole - first + 1]
    return np.asarray(left + (right - left) * (u * u * (3.0 - 2.0 * u)))
