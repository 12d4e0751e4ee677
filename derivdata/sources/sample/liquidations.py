"""Liquidations: a self-exciting (Hawkes) process, drawn as clusters, with several fills per order.

Clusters begin at random, and many begin at a few market-wide shocks. Every order has a Poisson number of
children, each after an exponential delay. A child's number is a hash of its parent's number and its place.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from derivdata.sources.sample import noise, paths
from derivdata.sources.sample.noise import DAY_US, START_DAY, STEP_US, STEPS, Keys
from derivdata.sources.sample.universe import joined, labelled, pairs, select, symbols, text
from derivdata.support.arrays import Bools, Floats, Ints

BRANCHING = 0.55
DELAY_SECONDS = 12.0
SHOCKS = (
    "2025-10-10T21:12", "2025-11-21T07:35", "2026-01-19T02:10", "2026-02-05T14:48", "2026-04-13T16:05",
    "2026-06-24T12:30",
)  # fmt: skip
"""Times of shocks; clusters of every symbol begin after them, spread exponentially over some minutes."""

SHOCK_SECONDS = 300.0
SHOCK_SIZE = 60.0
"""Clusters per shock for the largest symbol; for others in proportion to `starts_per_day`."""

TAIL = 4.0 / 3.0
LARGEST_USD = 2e7
"""Exponent and upper end of the Pareto law of an order's value."""

_GENERATIONS = 40
_NUMBERS = ("order_price_usd", "fill_price_usd", "quantity", "filled_quantity", "value_usd")
_Names = Sequence[str] | None
_LONG = 0.55
_AGAINST = 0.08
_POISSON = np.cumsum(
    [0.5769498104, 0.3173223957, 0.08726365882, 0.01599833745, 0.002199771399, 0.0002419748539,
     0.00002218102827]
)  # fmt: skip
_BEGUN, _SHOCKED, _CHILD, _FILL = (noise.key(n) for n in ("clusters", "shocks", "children", "fills"))


class Orders(NamedTuple):
    """Liquidation orders by time; `cluster` is the first order of a cluster, `pair` a position in `pairs`."""

    number: Keys
    cluster: Keys
    time: Ints
    pair: Ints
    long: Bools
    price: Floats
    quantity: Floats


class FillArrays(NamedTuple):
    """Fills as parallel arrays; `order` is the row of the order, `place` the number of the fill from 0."""

    order: Ints
    place: Ints
    time: Ints
    price: Floats
    quantity: Floats


class _Tree(NamedTuple):
    """Orders with symbol and time, before venue and size are drawn."""

    number: Keys
    cluster: Keys
    symbol: Ints
    time: Ints

    def take(self, rows: Ints) -> _Tree:
        return _Tree(self.number[rows], self.cluster[rows], self.symbol[rows], self.time[rows])


def starts_per_day() -> Floats:
    """Return the mean number of clusters that begin per day, by symbol, without shocks."""
    return np.asarray(100.0 * (symbols().oi / np.max(symbols().oi)) ** 0.6 + 0.2)


@lru_cache(maxsize=64)
def orders(day: int) -> Orders:
    """Return every order whose cluster began on a day; a few orders are on the next day."""
    shocks = [int(np.datetime64(s, "us").astype(np.int64)) for s in SHOCKS]
    tree = _grown(_joined([_started(day), *(_shocked(s) for s in shocks if s // DAY_US == day)]))
    pair = _pair(tree)
    keep = np.flatnonzero(pair >= 0)
    keep = keep[np.lexsort((tree.number[keep], tree.time[keep]))]
    tree = tree.take(keep)
    pair = pair[keep]
    number = tree.number
    long = (noise.uniform(tree.cluster, 1) < _LONG) ^ (noise.uniform(number, 2) < _AGAINST)
    step = np.minimum(
        (tree.time - day * DAY_US) // STEP_US, STEPS - 1
    )  # after midnight use the day's last price
    path = paths.price(np.arange(len(symbols().name)), day, 1)
    quote = path[tree.symbol, step] * paths.premium(pairs())[pair]
    quote = np.round(quote * (1.0 + 0.002 * (noise.uniform(number, 3) - 0.5)), 6)
    tail = (1.0 - noise.uniform(number, 7)) ** (-1.0 / TAIL)
    value = np.minimum(smallest_usd()[tree.symbol] * tail, LARGEST_USD)
    return Orders(number, tree.cluster, tree.time, pair, long, quote, np.round(value / quote, 6))


def smallest_usd() -> Floats:
    """Return the lower end of the Pareto law of an order's value [USD], per symbol."""
    return np.asarray(600.0 * np.sqrt(starts_per_day()))


def fills(orders: Orders) -> FillArrays:
    """Return one to six fills per order, 40 ms apart, at prices with increasing slippage."""
    key = orders.number ^ _FILL
    count = 1 + (noise.uniform(key, 0)[:, None] > 1.0 - 0.45 ** np.arange(1, 6)).sum(axis=1)
    order, place = _places(count)
    weight = 0.2 + noise.uniform(key[order], 1 + place)
    share = weight / np.bincount(order, weight, minlength=len(count))[order]
    quantity = np.round(orders.quantity[order] * share, 6)
    last = place == count[order] - 1
    filled = np.bincount(order, np.where(last, 0.0, quantity), minlength=len(count))
    quantity = np.where(last, np.round(orders.quantity[order] - filled[order], 6), quantity)
    against = np.where(orders.long[order], -1.0, 1.0)
    price = np.round(orders.price[order] * (1.0 + against * 2e-4 * (place + 0.5)), 6)
    return FillArrays(order, place, orders.time[order] + 40_000 * place, price, quantity)


def fill_rows(first: int, last: int, names: _Names, venues: _Names, columns: _Names = None) -> dict[str, Any]:
    """Return the columns of the liquidation fills with ``first <= time < last`` [µs], or some of them."""
    days = range(first // DAY_US - 1, (last - 1) // DAY_US + 1)
    rows = select(names, venues).row
    columns_of = joined([_fills_started(day, first, last, rows) for day in days])
    if columns is None:
        order = np.lexsort(
            (columns_of["place"], columns_of["number"], columns_of["exchange"], columns_of["time"])
        )
        columns_of = {name: values[order] for name, values in columns_of.items()}
    digits = columns_of["number"].astype(">u8").tobytes().hex()
    number = [digits[start : start + 16] for start in range(0, len(digits), 16)]
    places = columns_of["place"].tolist() if columns is None or "fill_id" in columns else []
    keys = {name: columns_of[name] for name in ("symbol", "exchange", "time", *_NUMBERS)}
    return labelled(keys) | {
        "order_id": number,
        "fill_id": [f"{n}-{k}" for n, k in zip(number, places, strict=False)],
        "side": text(np.where(columns_of["long"], 0, 1), ("long", "short")),
        "status": text(np.zeros(len(number), dtype=np.int8), ("filled",)),
    }


def _started(day: int) -> _Tree:
    """Return the first orders of a day's clusters without shocks, at most one per symbol and five minutes."""
    step = day * STEPS + np.arange(STEPS)
    number = noise.bits((symbols().streams ^ _BEGUN)[:, None], step)
    symbol, place = np.nonzero(noise.uniform(number, 0) < (starts_per_day() / STEPS)[:, None])
    number = number[symbol, place]
    time = step[place] * STEP_US + _milliseconds(noise.uniform(number, 4) * (STEP_US / 1e6))
    return _Tree(number, number, symbol, time)


def _shocked(shock: int) -> _Tree:
    """Return the first orders of the clusters that a shock begins."""
    symbol, place = _places(
        np.ceil(SHOCK_SIZE * starts_per_day() / np.max(starts_per_day())).astype(np.int64)
    )
    number = noise.bits((symbols().streams ^ _SHOCKED)[symbol], shock // 1_000_000 * 128 + place)
    late = -SHOCK_SECONDS * np.log1p(-noise.uniform(number, 5))
    return _Tree(number, number, symbol, shock + _milliseconds(late))


def _grown(generation: _Tree) -> _Tree:
    """Return a first generation with all later generations."""
    generations = [generation]
    for _ in range(_GENERATIONS):
        count = (noise.uniform(generation.number ^ _CHILD, 0)[:, None] > _POISSON).sum(axis=1)
        parent, place = _places(count)
        if not parent.size:
            break
        generation = generation.take(parent)
        number = noise.bits(generation.number ^ _CHILD, 1 + place)
        late = _milliseconds(-DELAY_SECONDS * np.log1p(-noise.uniform(number, 5)))
        generation = generation._replace(number=number, time=generation.time + late)
        generations.append(generation)
    return _joined(generations)


def _joined(trees: list[_Tree]) -> _Tree:
    return _Tree(*(np.concatenate(column) for column in zip(*trees, strict=True)))


def _places(count: Ints) -> tuple[Ints, Ints]:
    """Return, for each of ``sum(count)`` children, its parent's row and its place among the siblings."""
    parent = np.repeat(np.arange(len(count)), count)
    return parent, np.arange(len(parent)) - np.repeat(np.cumsum(count) - count, count)


def _milliseconds(seconds: Floats) -> Ints:
    return np.asarray(np.floor(seconds * 1e3).astype(np.int64) * 1000)


@lru_cache(maxsize=1)
def _ends() -> Floats:
    """Return each pair's upper end on a line where symbol s covers [s, s + 1) by its pairs' shares."""
    p = pairs()
    sums = np.concatenate([[0.0], np.cumsum(p.share)])
    first = np.searchsorted(p.symbol, p.symbol)
    return np.asarray(p.symbol + np.minimum(sums[1:] - sums[first], 1.0))


def _pair(tree: _Tree) -> Ints:
    """Return the pair of each order, drawn by shares of open interest; -1 if the pair is not traded."""
    p = pairs()
    place = tree.symbol + noise.uniform(tree.number, 6)
    pair = np.minimum(np.searchsorted(_ends(), place, side="right"), len(p) - 1)
    day = tree.time // DAY_US
    alive = (day >= np.maximum(p.since[pair], START_DAY)) & (day < p.until[pair])
    return np.where(alive & (p.symbol[pair] == tree.symbol), pair, -1)


def _fills_started(day: int, first: int, last: int, rows: Ints) -> dict[str, Any]:
    """Return the fills within a window of the clusters that began on a day."""
    day_orders = orders(day)
    day_fills = fills(day_orders)
    pair = day_orders.pair[day_fills.order]
    inside = (day_fills.time >= first) & (day_fills.time < last) & np.isin(pair, rows)
    order = day_fills.order[inside]
    pair = pair[inside]
    price = day_fills.price[inside]
    quantity = day_fills.quantity[inside]
    return {
        "number": day_orders.number[order],
        "place": day_fills.place[inside],
        "time": day_fills.time[inside],
        "exchange": pairs().exchange[pair],
        "symbol": pairs().symbol[pair],
        "long": day_orders.long[order],
        "order_price_usd": day_orders.price[order],
        "fill_price_usd": price,
        "quantity": day_orders.quantity[order],
        "filled_quantity": quantity,
        "value_usd": np.round(price * quantity, 6),
    }
