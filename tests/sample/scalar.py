"""The sample's arithmetic once more, one number at a time in plain Python, as an independent reference."""

from __future__ import annotations

import hashlib
import math

MASK = (1 << 64) - 1
ANCHOR = 20_332 - 32  # days from 1970-01-01 to 2025-09-01, less 32


def key(*names: str) -> int:
    text = "|".join(("20250901", *names)).encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "big")


def splitmix(stream: int, index: int) -> int:
    z = (stream + (index + 1) * 0x9E3779B97F4A7C15) & MASK
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
    return z ^ (z >> 31)


def uniform(stream: int, index: int) -> float:
    return (splitmix(stream, index) >> 11) / 2**53


def normal(stream: int, index: int) -> float:
    z = splitmix(stream, index)
    total = sum((z >> shift) & 0xFFFF for shift in (0, 16, 32, 48))
    return (total - 2 * 65535) / math.sqrt((65536**2 - 1) / 3)


def midnight(stream: int, half_life: float, day: int) -> float:
    decay = 2.0 ** (-24.0 / half_life)
    x = normal(stream, 0)
    for k in range(1, day - ANCHOR + 1):
        x = decay * x + math.sqrt(1 - decay**2) * normal(stream, k)
    return x


def ou(stream: int, half_life: float, day: int, step: int, steps: int) -> float:
    """The bridge from one midnight to the next, at one step of the day."""
    kappa = math.log(2) * 24.0 / half_life
    decay = math.exp(-kappa / steps)
    start, end = midnight(stream, half_life, day), midnight(stream, half_life, day + 1)
    inner, free = stream ^ key("within a day"), [start]
    for k in range(steps):
        free.append(decay * free[-1] + math.sqrt(1 - decay**2) * normal(inner, day * steps + k))
    return free[step] + math.sinh(kappa * step / steps) / math.sinh(kappa) * (end - free[-1])
