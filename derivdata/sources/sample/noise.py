"""Counter-based random numbers of the sample, and its grid of times as integers.

Random numbers are SplitMix64 (Steele, Lea, Flood, "Fast splittable pseudorandom number generators", OOPSLA
2014) used as a hash: number `index` of stream `key` is ``mix(key + (index + 1) × golden)`` modulo 2^64. They
are equal on every machine and in any order.
"""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from derivdata.support import times
from derivdata.support.arrays import Floats

SEED = 20250901

Keys = NDArray[np.uint64]

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)
_LANES = np.uint64(0x0000FFFF0000FFFF)
_LOW = np.uint64(0xFFFFFFFF)
_MEAN = 2.0 * 65535.0
_SCALE = 1.0 / float(np.sqrt((65536.0**2 - 1.0) / 3.0))


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
    z *= _FIRST
    np.right_shift(z, np.uint64(27), out=shifted)
    z ^= shifted
    z *= _SECOND
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
    z &= _LOW
    z += upper
    result = z.astype(np.float64)
    result -= _MEAN
    result *= _SCALE
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


def instants(microseconds: Any) -> pd.DatetimeIndex:
    """Return UTC times from microseconds since 1970."""
    values = np.ascontiguousarray(microseconds, dtype=np.int64).view("datetime64[us]")
    return pd.DatetimeIndex(values).tz_localize("UTC")


START_DAY = day(START)
ANCHOR_DAY = START_DAY - 32


def years(microseconds: Any) -> Any:
    """Return years of 365 days since the sample's start."""
    return (np.asarray(microseconds) - START_DAY * DAY_US) / (365.0 * DAY_US)
