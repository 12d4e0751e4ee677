"""Liquidations: a self-exciting (Hawkes) process, drawn as clusters, with several fills per order.

Clusters begin at random, and in numbers at a few market-wide shocks. Every order of a cluster has a Poisson
number of children with mean `BRANCHING`, each after an exponential delay with mean `DELAY_SECONDS`. The tree
is drawn by hashing: a child's number is the hash of its parent's and of its place among the siblings.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from derivdata.sample import noise, prices
from derivdata.sample.grid import DAY_US, START_DAY, STEP_US, STEPS, Ints
from derivdata.sample.noise import Floats, Keys
from derivdata.sample.universe import Pairs, pairs, symbols

__all__ = [
    "BRANCHING",
    "DELAY_SECONDS",
    "SHOCKS",
    "Orders",
    "fills",
    "orders",
    "starts_per_day",
]

BRANCHING = 0.55
DELAY_SECONDS = 12.0
SHOCKS = (
    "2025-10-10T21:12", "2025-11-21T07:35", "2026-01-19T02:10", "2026-02-05T14:48", "2026-04-13T16:05",
    "2026-06-24T12:30",
)  # fmt: skip
"""Instants about which clusters of every symbol begin, exponentially spread over some minutes."""

_GENERATIONS = 40
_SHOCK_SECONDS = 300.0
_SHOCK_SIZE = 60.0
_POISSON = np.cumsum(
    [0.5769498104, 0.3173223957, 0.08726365882, 0.01599833745, 0.002199771399, 0.0002419748539,
     0.00002218102827]
)  # fmt: skip
_CHILD, _FILL, _SIZE = (np.uint64(n) for n in (0x165667B19E3779F9, 0x27D4EB2F165667C5, 0x85EBCA77C2B2AE63))


class Orders(NamedTuple):
    """Liquidation orders as parallel arrays, by time.

    `cluster` is the number of the order that began the cluster; `pair` the position among all pairs.
    """

    number: Keys
    cluster: Keys
    time: Ints
    pair: Ints
    long: np.ndarray
    price: Floats
    quantity: Floats


def starts_per_day() -> Floats:
    """Mean number of clusters that begin in a day, per symbol, shocks aside."""
    return np.asarray(100.0 * (symbols().oi / symbols().oi.max()) ** 0.6 + 0.2)


@lru_cache(maxsize=16)
def orders(day: int) -> Orders:
    """Every order whose cluster began on a day; a few of them are of the next."""
    number, symbol, time = _begun(day)
    number, cluster, symbol, time = _grown(number, symbol, time)
    pair = _pair(number, symbol, time)
    keep = np.flatnonzero(pair >= 0)
    keep = keep[np.lexsort((number[keep], time[keep]))]
    number, cluster, symbol, time, pair = (a[keep] for a in (number, cluster, symbol, time, pair))
    long = (noise.uniform(cluster, 1) < 0.55) ^ (noise.uniform(number, 2) < 0.08)
    quote = _price(day, symbol, time) * prices.premium(pairs())[pair]
    quote = np.round(quote * (1.0 + 0.002 * (noise.uniform(number, 3) - 0.5)), 6)
    size = 600.0 * np.sqrt(starts_per_day()[symbol]) * (1.0 - noise.uniform(number ^ _SIZE, 0)) ** -0.75
    quantity = np.round(np.minimum(size, 2e7) / quote, 6)
    return Orders(number, cluster, time, pair, long, quote, quantity)


class Fills(NamedTuple):
    """Fills as parallel arrays; `order` is the row of the order, `place` counts from 0 within it."""

    order: Ints
    place: Ints
    time: Ints
    price: Floats
    quantity: Floats


def fills(found: Orders) -> Fills:
    """The fills of some orders: one to six each, 40 ms apart, at prices that slip as they go."""
    key = found.number ^ _FILL
    count = 1 + (noise.uniform(key, 0)[:, None] > 1.0 - 0.45 ** np.arange(1, 6)).sum(axis=1)
    order = np.repeat(np.arange(len(count)), count)
    place = np.arange(len(order)) - np.repeat(np.cumsum(count) - count, count)
    weight = 0.2 + noise.uniform(key[order], 1 + place)
    part = weight / np.bincount(order, weight, minlength=len(count))[order]
    quantity = np.round(found.quantity[order] * part, 6)
    last = place == count[order] - 1
    filled = np.bincount(order, np.where(last, 0.0, quantity), minlength=len(count))
    quantity = np.where(last, np.round(found.quantity[order] - filled[order], 6), quantity)
    against = np.where(found.long[order], -1.0, 1.0)
    price = np.round(found.price[order] * (1.0 + against * 2e-4 * (place + 0.5)), 6)
    return Fills(order, place, found.time[order] + 40_000 * place, price, quantity)


def _begun(day: int) -> tuple[Keys, Ints, Ints]:
    """First orders of the clusters of a day: number, symbol, time."""
    streams = symbols().streams ^ _CHILD
    step = day * STEPS + np.arange(STEPS)
    number = noise.bits(streams[:, None], step)
    symbol, place = np.nonzero(noise.uniform(number, 0) < np.minimum(starts_per_day() / STEPS, 1.0)[:, None])
    number = number[symbol, place]
    time = step[place] * STEP_US + _milliseconds(noise.uniform(number, 4) * (STEP_US / 1e6))
    parts = [(number, symbol, time), *(_shocked(s) for s in _shocks_of(day))]
    return tuple(np.concatenate(column) for column in zip(*parts, strict=True))  # type: ignore[return-value]


def _shocks_of(day: int) -> list[int]:
    """Instants [µs] of a day's shocks."""
    found = [int(np.datetime64(s, "us").astype(np.int64)) for s in SHOCKS]
    return [s for s in found if s // DAY_US == day]


def _shocked(shock: int) -> tuple[Keys, Ints, Ints]:
    """First orders of the clusters that a shock begins."""
    many = np.ceil(_SHOCK_SIZE * starts_per_day() / starts_per_day().max()).astype(np.int64)
    symbol = np.repeat(np.arange(len(many)), many)
    place = np.arange(len(symbol)) - np.repeat(np.cumsum(many) - many, many)
    number = noise.bits(symbols().streams[symbol], (1 << 42) + shock // 1_000_000 * 128 + place)
    late = -_SHOCK_SECONDS * np.log1p(-noise.uniform(number, 5))
    return number, symbol, shock + _milliseconds(late)


def _grown(number: Keys, symbol: Ints, time: Ints) -> tuple[Keys, Keys, Ints, Ints]:
    """All generations: number, cluster, symbol, time."""
    generation = (number, number, symbol, time)
    found = [generation]
    for _ in range(_GENERATIONS):
        number, cluster, symbol, time = generation
        count = (noise.uniform(number ^ _CHILD, 0)[:, None] > _POISSON).sum(axis=1)
        parent = np.repeat(np.arange(len(count)), count)
        if not parent.size:
            break
        place = np.arange(len(parent)) - np.repeat(np.cumsum(count) - count, count)
        child = noise.bits(number[parent] ^ _CHILD, 1 + place)
        late = -DELAY_SECONDS * np.log1p(-noise.uniform(child, 5))
        generation = (child, cluster[parent], symbol[parent], time[parent] + _milliseconds(late))
        found.append(generation)
    return tuple(np.concatenate(column) for column in zip(*found, strict=True))  # type: ignore[return-value]


def _milliseconds(seconds: Floats) -> Ints:
    return np.asarray(np.floor(seconds * 1e3).astype(np.int64) * 1000)


@lru_cache(maxsize=1)
def _cumulated() -> tuple[Floats, Ints]:
    """Every pair's upper end on a line where symbol s covers [s, s + 1) by shares, and first pairs."""
    p = pairs()
    ends = np.cumsum(p.share)
    first = np.searchsorted(p.symbol, np.arange(len(symbols().name)))
    before = np.concatenate([[0.0], ends])[first]
    return p.symbol + np.minimum(ends - before[p.symbol], 1.0), first


def _pair(number: Keys, symbol: Ints, time: Ints) -> Ints:
    """Pair of each order, by the shares of open interest; -1 where that venue does not trade it then."""
    p: Pairs = pairs()
    ends, _ = _cumulated()
    pair = np.searchsorted(ends, symbol + noise.uniform(number, 6), side="right")
    pair = np.minimum(pair, len(p) - 1)
    day = time // DAY_US
    alive = (p.symbol[pair] == symbol) & (day >= np.maximum(p.since[pair], START_DAY)) & (day < p.until[pair])
    return np.where(alive, pair, -1)


def _price(day: int, symbol: Ints, time: Ints) -> Floats:
    """The symbol's price at the step that an order falls in."""
    path = prices.price(np.arange(len(symbols().name)), day, 2)
    step = np.minimum((time - day * DAY_US) // STEP_US, path.shape[1] - 1)
    return np.asarray(path[symbol, step])
