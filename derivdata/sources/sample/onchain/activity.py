"""Trades of actors on markets: one draw per (actor, market, day), placed in one quarter of an hour."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from derivdata.sources.sample import noise
from derivdata.sources.sample.grid import DAY_US, START_DAY, Ints
from derivdata.sources.sample.noise import Floats

__all__ = ["SLOTS", "SLOT_US", "Trades", "addresses", "trades"]

SLOTS = 96
SLOT_US = DAY_US // SLOTS

_PEOPLE = 250
_ACTIVE, _WHEN, _SIZE, _COUNT = (noise.key("onchain", name) for name in ("active", "when", "size", "count"))


class Trades(NamedTuple):
    """Trading of one actor on one market within a quarter of an hour, sorted by its start.

    Attributes
    ----------
    actor, market
        Positions.
    time
        Start of the quarter [µs].
    volume
        Value traded [USD].
    number
        Trades.
    """

    actor: Ints
    market: Ints
    time: Ints
    volume: Floats
    number: Ints


@lru_cache(maxsize=1)
def addresses() -> tuple[str, ...]:
    """Return the addresses of the traders, sorted."""
    drawn = [[int(noise.key("address", n, part)) for part in range(3)] for n in range(_PEOPLE)]
    return tuple(sorted(f"0x{a:016x}{b:016x}{c >> 32:08x}" for a, b, c in drawn))


def trades(
    names: tuple[str, ...],
    markets: tuple[str, ...],
    scale: Floats,
    first: int,
    last: int,
    *,
    chance: tuple[float, float] = (0.01, 0.25),
) -> Trades:
    """Return trades whose quarter begins in ``[first, last)`` [µs].

    Parameters
    ----------
    names, markets
        Actors and markets; each pair is a stream of noise of its own.
    scale
        Typical value of a trade on each market [USD].
    chance
        Of trading on a day: for everyone, and on top for the busiest.
    """
    streams = _streams(names, markets)
    days = np.arange(max(first // DAY_US, START_DAY), -(-last // DAY_US))
    weight = noise.uniform(noise.keys("actor", names), 1)[:, None, None] ** 4
    active = noise.uniform((streams ^ _ACTIVE)[..., None], days) < chance[0] + chance[1] * weight
    actor, market, place = np.nonzero(active)
    own, day = streams[actor, market], days[place]
    slot = np.floor(noise.uniform(own ^ _WHEN, day) * SLOTS).astype(np.int64)
    time = day * DAY_US + slot * SLOT_US
    size = scale[market] * (1.0 + 20.0 * weight[actor, 0, 0]) * np.exp(1.1 * noise.normal(own ^ _SIZE, day))
    number = 1 + np.floor(9.0 * noise.uniform(own ^ _COUNT, day)).astype(np.int64)
    order = np.lexsort((actor, market, time))
    order = order[(time[order] >= first) & (time[order] < last)]
    return Trades(actor[order], market[order], time[order], np.round(size, 2)[order], number[order])


@lru_cache(maxsize=8)
def _streams(names: tuple[str, ...], markets: tuple[str, ...]) -> noise.Keys:
    own = noise.keys("onchain actor", names)[:, None]
    return np.asarray(noise.bits(own, np.arange(len(markets))) ^ noise.keys("onchain market", markets))
