"""Funding, open interest, volume, positioning and liquidations of the sample.

A pair's premium p is its symbol's base rate plus the pair's spread, both Ornstein–Uhlenbeck (the base with
fat tails and, for smaller symbols, squeezes). The rate of a free venue is the premium; the rate of other
venues is ``p + clamp(1 − p, ±band)``. A payment is the mean rate over its interval.

Open interest has trends, and venues gain and lose share. The logarithm of the long/short ratio is ``mean +
crowding × x + deviation × z``: x is the unit process of the symbol's base funding rate, z the unit process of
the pair and kind. So accounts are long while longs pay, and large positions are on the other side. The
imbalance of takers, (bought - sold) / (bought + sold), is ``tanh(impact × r + deviation × z)``, with r the
return of the hour in standard deviations.

Clusters begin at random, and many begin at a few market-wide shocks. Every order has a Poisson number of
children, each after an exponential delay. A child's number is a hash of its parent's number and its place.

Days (`day`, `first_day`) are numbers of days since 1970, and `symbol_codes` are positions in `symbols()`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from derivdata.sources.sample import noise, universe
from derivdata.sources.sample.noise import DAY_US, HOUR_US, START_DAY, STEP_US, STEPS, Keys, years
from derivdata.sources.sample.universe import (
    MODELS,
    Pairs,
    exchange_names,
    joined,
    labelled,
    pairs,
    select,
    symbols,
    take_rows,
    text,
    venue_values,
    with_words,
)
from derivdata.support.arrays import Bools, Floats, Ints

_CACHED_PAIRS = 1000
"""Number of pairs above which the rates of all pairs on a day are computed and cached."""
_SPIKES_STREAM = noise.key("spikes")
_GAPS_STREAM = noise.key("holes")
_OUTAGE_CHANCE = 0.02
"""Probability of an outage of a venue on a day."""
_LONGEST_OUTAGE = 72
"""Maximum length of an outage [steps], 6 hours."""
_LONGEST_GAP = 24
"""Maximum length of a gap of a single pair [steps], 2 hours."""


def formed(selection: Pairs, first_day: int, days: int) -> Floats:
    """Return the rates [bps/8h], rounded, every five minutes, without gaps; ``(pairs, days × 288)``."""
    if len(selection) > _CACHED_PAIRS and days == 1:
        return _market_rates(first_day)[selection.row]
    return _compute_rates(selection, first_day, days)


def premium(selection: Pairs, first_day: int, days: int) -> Floats:
    """Return the premium of the rates [bps/8h], before clamp and rounding, shaped as `formed`."""
    scale = symbols().scale[selection.symbol]
    p = noise.ou(selection.streams, venue_values("half_life")[selection.exchange], first_day, days, STEPS)
    p *= (scale * venue_values("deviation")[selection.exchange])[:, None, None]
    p += (scale * venue_values("offset")[selection.exchange])[:, None, None]
    symbol_codes, row_of_pair = np.unique(selection.symbol, return_inverse=True)
    p += _base(symbol_codes, first_day, days)[row_of_pair]
    is_wild = np.array([MODELS[v].style == "wild" for v in exchange_names()])
    wild = np.flatnonzero(is_wild[selection.exchange])
    if wild.size:
        p[wild] += _spikes(selection.streams[wild], 0.05, 12.0 * scale[wild], first_day, days)
    return np.ascontiguousarray(p.reshape(len(selection), days * STEPS))


def recorded(selection: Pairs, first_day: int, days: int) -> Floats:
    """Return rates as recorded [bps/8h]; NaN where the pair did not trade or the sample is missing."""
    rate = formed(selection, first_day, days)
    streams = noise.keys("outage", exchange_names())[selection.exchange]
    # All pairs of a venue share its outages; gaps are of single pairs.
    outage_chance = np.full(len(selection), _OUTAGE_CHANCE)
    missing = _draw_gaps(streams, outage_chance, _LONGEST_OUTAGE, first_day, days)
    gap_chance = venue_values("gaps")[selection.exchange]
    missing |= _draw_gaps(selection.streams, gap_chance, _LONGEST_GAP, first_day, days)
    is_present = selection.is_traded(first_day + np.arange(days))[..., None] & ~missing
    return np.where(is_present.reshape(len(selection), days * STEPS), rate, np.nan)


def settled(selection: Pairs, first_day: int, days: int) -> tuple[Ints, Floats, Floats]:
    """Return the payments of days: ends of hours [µs], rates [bps/8h] and intervals [h].

    Rates and intervals have a column for each hour. A rate is NaN at hours without a payment.
    """
    all_days = first_day + np.arange(days)
    hourly = formed(selection, first_day, days).reshape(len(selection), days, 24, STEPS // 24).mean(axis=-1)
    interval = selection.interval_on(all_days)
    rate = np.full(hourly.shape, np.nan)
    for hours in np.unique(interval).tolist():
        mean = hourly.reshape(len(selection), days, 24 // hours, hours).mean(axis=-1)
        last_hours = rate[:, :, hours - 1 :: hours]  # a view of the last hour of each interval
        np.copyto(last_hours, mean, where=(interval == hours)[..., None])
    rate[~selection.is_traded(all_days)] = np.nan
    ends = np.asarray(first_day * DAY_US + np.arange(1, days * 24 + 1) * HOUR_US)
    rounded = np.round(rate.reshape(len(selection), -1), 6) + 0.0
    return ends, np.asarray(rounded), np.repeat(interval, 24, axis=1).astype(np.float64)


def totals(selection: Pairs, day: int) -> tuple[Floats, Ints]:
    """Return the sum and count of each pair's recorded rates on one day."""
    if len(selection) > _CACHED_PAIRS:
        total, count = _market_totals(day)
        return total[selection.row], count[selection.row]
    rate = recorded(selection, day, 1)
    return np.nansum(rate, axis=1), np.count_nonzero(~np.isnan(rate), axis=1)


@lru_cache(maxsize=64)
def _market_totals(day: int) -> tuple[Floats, Ints]:
    """Return the totals of all pairs on a day, cached."""
    rate = recorded(pairs(), day, 1)
    return np.nansum(rate, axis=1), np.count_nonzero(~np.isnan(rate), axis=1)


@lru_cache(maxsize=3)
def _market_rates(day: int) -> Floats:
    """Return the rates of all pairs on a day, cached."""
    rate = _compute_rates(pairs(), day, 1)
    rate.flags.writeable = False
    return rate


def _compute_rates(selection: Pairs, first_day: int, days: int) -> Floats:
    """Return ``p + clamp(1 − p, ±band)`` of the premium p, rounded; the band of free venues is 0."""
    rate = premium(selection, first_day, days)
    band = venue_values("band")[selection.exchange][:, None]
    rate += np.clip(1.0 - rate, -band, band)
    np.round(rate, 6, out=rate)
    rate += 0.0
    return rate


def crowding(symbol_codes: Ints, first_day: int, days: int) -> Floats:
    """Return the unit process of symbols' base rates every five minutes, ``(symbols, days, 288)``."""
    s = symbols()
    return noise.ou(s.streams[symbol_codes], s.base_half_life[symbol_codes], first_day, days, STEPS)


def _base(symbol_codes: Ints, first_day: int, days: int) -> Floats:
    """Return the base rates [bps/8h] of the symbols at positions `symbol_codes`, shaped as `crowding`."""
    s = symbols()
    x = crowding(symbol_codes, first_day, days)
    x += s.base_tail[symbol_codes, None, None] * (x * x * x)
    x *= s.base_deviation[symbol_codes, None, None]
    x += s.base[symbol_codes, None, None]
    squeezed = np.flatnonzero(s.squeezed[symbol_codes])
    if squeezed.size:
        scale = 6.0 * s.scale[symbol_codes[squeezed]]
        x[squeezed] += _spikes(s.streams[symbol_codes[squeezed]], 0.012, scale, first_day, days)
    return x


def _spikes(streams: noise.Keys, chance: float, scale: Floats, first_day: int, days: int) -> Floats:
    """Draw jumps of rates [bps/8h], shape ``(streams, days, 288)``.

    A stream has at most one jump per day, 80 % downward, of a Pareto-distributed size. It fades within
    24 hours as ``(1 − age / 24 h)³``, so each day also has the end of the previous day's jump.
    """
    # 1. Draw whether, how far, when and in which direction, from 8 numbers reserved for each day.
    day = first_day - 1 + np.arange(days + 1)
    u = noise.uniform((streams ^ _SPIKES_STREAM)[:, None, None], day[:, None] * 8 + np.arange(4))
    size = np.minimum(scale[:, None] * (1.0 - u[..., 2]) ** -0.6, 2000.0)
    jump = np.where(u[..., 0] < chance, np.where(u[..., 3] < 0.8, -size, size), 0.0)
    start = np.floor(u[..., 1] * STEPS)
    # 2. Add the rest of yesterday's jump to today's.
    age = np.arange(STEPS) - start[..., None]  # [steps]
    today = np.clip(1.0 - age / STEPS, 0.0, 1.0) ** 3 * (age >= 0)
    next_day = np.clip(1.0 - (age + STEPS) / STEPS, 0.0, 1.0) ** 3
    return np.asarray((jump[..., None] * today)[:, 1:] + (jump[..., None] * next_day)[:, :-1])


def _draw_gaps(streams: noise.Keys, chance: Floats, longest: int, first_day: int, days: int) -> Bools:
    """Draw at most one run of up to `longest` missing steps per day; ``(streams, days, 288)``."""
    day = first_day + np.arange(days)
    u = noise.uniform((streams ^ _GAPS_STREAM)[:, None, None], day[:, None] * 8 + np.arange(3))
    has_gap = u[..., 0] < chance[:, None]
    start = np.where(has_gap, np.floor(u[..., 1] * STEPS), STEPS).astype(np.int16)
    stop = start + 1 + np.floor(u[..., 2] * longest).astype(np.int16)
    step = np.arange(STEPS, dtype=np.int16)
    return np.asarray((step >= start[..., None]) & (step < stop[..., None]))


OI_HALF_LIFE_HOURS = 72.0
OI_DEVIATION = 0.05
VOLUME_DEVIATION = 0.45

_OI_STREAM = noise.key("open interest")
_VOLUME_STREAM = noise.key("volume")


def hours(first_day: int, days: int) -> Ints:
    """Return the starts of the hours of whole days [µs]."""
    return np.asarray(first_day * DAY_US + np.arange(days * 24) * HOUR_US)


def oi(selection: Pairs, first_day: int, days: int) -> Floats:
    """Return open interest [USD] at the hour, rounded; NaN unless the pair trades; ``(pairs, hours)``."""
    return _nan_unless_traded(np.round(_oi(selection, first_day, days), 6), selection, first_day, days)


def volume(selection: Pairs, first_day: int, days: int) -> Floats:
    """Return the volume [USD] of each hour, rounded; NaN unless the pair trades; ``(pairs, hours)``.

    It is largest at 15:00 and smaller on weekends.
    """
    time = hours(first_day, days)
    hour = (time // HOUR_US) % 24
    day = time // DAY_US
    busy = (
        1.0
        - 0.35 * ((hour - 15.0) / 12.0) ** 2 * (hour < 15)
        - 0.35 * ((hour - 15.0) / 9.0) ** 2 * (hour >= 15)
    )
    is_weekend = (day + 3) % 7 >= 5  # 1 January 1970, day 0, is a Thursday
    season = busy * np.where(is_weekend, 0.65, 1.1)
    turnover = venue_values("turnover")[selection.exchange][:, None] / 24.0
    shock = noise.normal((selection.streams ^ _VOLUME_STREAM)[:, None], time // HOUR_US)
    traded = _oi(selection, first_day, days) * turnover * season * np.exp(VOLUME_DEVIATION * shock)
    return _nan_unless_traded(np.round(traded, 6), selection, first_day, days)


def _oi(selection: Pairs, first_day: int, days: int) -> Floats:
    """Return open interest [USD] at the hour, unrounded: level × growth × random path × price path."""
    s = symbols()
    symbol_codes, row_of_pair = np.unique(selection.symbol, return_inverse=True)
    price = universe.price(symbol_codes, first_day, days)[:, :: STEPS // 24] / s.price[symbol_codes, None]
    # For most pairs, use the cached midnights of all pairs, because the traded pairs change from day to day.
    ends = None
    if 4 * len(selection) > len(pairs()):
        ends = noise.midnights(pairs().streams ^ _OI_STREAM, OI_HALF_LIFE_HOURS, first_day, days + 1)
        ends = ends[:, selection.row]
    path = noise.ou(selection.streams ^ _OI_STREAM, OI_HALF_LIFE_HOURS, first_day, days, 24, ends)
    path = path.reshape(len(selection), -1)
    slope = s.trend[selection.symbol] + venue_values("growth")[selection.exchange]
    level = s.oi[selection.symbol] * selection.share
    path *= OI_DEVIATION
    path += slope[:, None] * years(hours(first_day, days))
    return np.asarray(level[:, None] * np.exp(path) * price[row_of_pair])


def trading(selection: Pairs, first_day: int, days: int) -> Bools:
    """Return whether each pair trades in each hour, ``(pairs, hours)``."""
    return selection.is_traded(np.repeat(first_day + np.arange(days), 24))


def _nan_unless_traded(values: Floats, selection: Pairs, first_day: int, days: int) -> Floats:
    return np.where(trading(selection, first_day, days), values, np.nan)


_Names = Sequence[str] | None
_STEPS_PER_HOUR = STEPS // 24
_TAKER_STREAM = noise.key("taker volume")


class Crowd(NamedTuple):
    """Parameters of the logarithm of long over short for one kind of accounts."""

    mean: float
    crowding: float  # factor of the unit process of the symbol's base rate
    deviation: float  # standard deviation of the pair's own process
    half_life_hours: float  # of the pair's own process


CROWDS = {
    "accounts": Crowd(0.4, 0.25, 0.20, 36.0),
    "top_accounts": Crowd(0.2, 0.10, 0.15, 36.0),
    "top_positions": Crowd(0.05, -0.15, 0.10, 72.0),
}
TAKER_IMPACT = 0.08
TAKER_DEVIATION = 0.06
"""Effect on the share of buys minus sells: of an hourly return of one standard deviation, and of noise."""


def rows(first: int, last: int, names: _Names, venues: _Names) -> dict[str, Any]:
    """Return the columns of ``positioning_history`` with ``first <= time < last`` [µs]."""
    first_day = first // DAY_US
    days = (last - 1) // DAY_US + 1 - first_day
    selection = select(names, venues).trading(first_day, first_day + days)
    if not len(selection):
        return {}
    time = hours(first_day, days)
    inside = (time >= first) & (time < last)
    row, hour = np.nonzero(trading(selection, first_day, days) & inside)
    symbol_codes, row_of_pair = np.unique(selection.symbol, return_inverse=True)
    hourly = crowding(symbol_codes, first_day, days)[..., ::_STEPS_PER_HOUR]
    of_symbol = hourly.reshape(len(symbol_codes), -1)[row_of_pair]
    by_kind = []
    for number, (kind, crowd) in enumerate(sorted(CROWDS.items())):
        streams = selection.streams ^ noise.key("positioning", kind)
        of_pair = noise.ou(streams, crowd.half_life_hours, first_day, days, 24).reshape(len(selection), -1)
        log_ratio = crowd.mean + crowd.crowding * of_symbol + crowd.deviation * of_pair
        long = np.round(1.0 / (1.0 + np.exp(-log_ratio[row, hour])), 4)
        by_kind.append(
            {
                "symbol": selection.symbol[row],
                "exchange": selection.exchange[row],
                "time": time[hour],
                "kind": np.full(row.size, number),
                "long_share": long,
                "short_share": np.round(1.0 - long, 4),
                "long_short_ratio": np.round(long / (1.0 - long), 4),
            }
        )
    return with_words(by_kind, "kind", tuple(sorted(CROWDS)), "1h")


def taken(selection: Pairs, first_day: int, days: int) -> dict[str, Floats]:
    """Return buys and sells of takers [USD] in each hour, rounded; NaN unless the pair trades."""
    s = symbols()
    symbol_codes, row_of_pair = np.unique(selection.symbol, return_inverse=True)
    price = universe.price(symbol_codes, first_day, days + 1)[:, : (days * STEPS + 1) : _STEPS_PER_HOUR]
    hourly_volatility = s.volatility[symbol_codes, None] / np.sqrt(8760.0)
    scaled_return = np.diff(np.log(price), axis=1) / hourly_volatility
    hour = first_day * 24 + np.arange(days * 24)
    shock = noise.normal((selection.streams ^ _TAKER_STREAM)[:, None], hour)
    imbalance = np.tanh(TAKER_IMPACT * scaled_return[row_of_pair] + TAKER_DEVIATION * shock)
    total = volume(selection, first_day, days)
    bought = np.round(total * (1.0 + imbalance) / 2.0, 6)
    return {"buy_usd": bought, "sell_usd": np.round(total - bought, 6)}


BRANCHING = 0.55
"""Mean number of children of an order."""
DELAY_SECONDS = 12.0
"""Mean time from an order to a child."""
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

_GENERATIONS = 40  # maximum
_NUMBERS = ("order_price_usd", "fill_price_usd", "quantity", "filled_quantity", "value_usd")
_LONG_PROBABILITY = 0.55  # that a cluster liquidates longs
_OPPOSITE_PROBABILITY = 0.08  # that an order is on the other side than its cluster
# Distribution of the number of children, a Poisson law with mean `BRANCHING`.
_POISSON_CDF = np.cumsum(
    [0.5769498104, 0.3173223957, 0.08726365882, 0.01599833745, 0.002199771399, 0.0002419748539,
     0.00002218102827]
)  # fmt: skip
_CLUSTERS_STREAM = noise.key("clusters")
_SHOCKS_STREAM = noise.key("shocks")
_CHILDREN_STREAM = noise.key("children")
_FILLS_STREAM = noise.key("fills")


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
    # 1. The orders of all clusters, with their pairs, by time.
    trees = [_first_orders(day)]
    for shock in SHOCKS:
        at = int(np.datetime64(shock, "us").astype(np.int64))
        if at // DAY_US == day:
            trees.append(_first_orders_of_shock(at))
    tree = _with_later_generations(_join_trees(trees))
    pair = _draw_pairs(tree)
    traded = np.flatnonzero(pair >= 0)
    by_time = traded[np.lexsort((tree.number[traded], tree.time[traded]))]
    tree = tree.take(by_time)
    pair = pair[by_time]
    number = tree.number
    # 2. The side.
    is_long_cluster = noise.uniform(tree.cluster, 1) < _LONG_PROBABILITY
    is_opposite = noise.uniform(number, 2) < _OPPOSITE_PROBABILITY
    long = is_long_cluster ^ is_opposite
    # 3. The price: the venue's price, within ±0.1 %. Orders after midnight use the last price of the day.
    step = np.minimum((tree.time - day * DAY_US) // STEP_US, STEPS - 1)
    path = universe.price(np.arange(len(symbols().name)), day, 1)
    price = path[tree.symbol, step] * universe.premium(pairs())[pair]
    price = np.round(price * (1.0 + 0.002 * (noise.uniform(number, 3) - 0.5)), 6)
    # 4. The value, by the Pareto law.
    multiple = (1.0 - noise.uniform(number, 7)) ** (-1.0 / TAIL)
    value = np.minimum(smallest_usd()[tree.symbol] * multiple, LARGEST_USD)
    return Orders(number, tree.cluster, tree.time, pair, long, price, np.round(value / price, 6))


def smallest_usd() -> Floats:
    """Return the lower end of the Pareto law of an order's value [USD], per symbol."""
    return np.asarray(600.0 * np.sqrt(starts_per_day()))


def fills(orders: Orders) -> FillArrays:
    """Return one to six fills per order, 40 ms apart, at prices with increasing slippage."""
    key = orders.number ^ _FILLS_STREAM
    # The number of fills is geometric: each of up to five further fills has a probability of 0.45.
    count = 1 + (noise.uniform(key, 0)[:, None] > 1.0 - 0.45 ** np.arange(1, 6)).sum(axis=1)
    order, place = _parents_and_places(count)
    weight = 0.2 + noise.uniform(key[order], 1 + place)
    share = weight / np.bincount(order, weight, minlength=len(count))[order]
    quantity = np.round(orders.quantity[order] * share, 6)
    # The last fill has the remaining quantity, so that the fills add up to the order in spite of rounding.
    is_last = place == count[order] - 1
    filled = np.bincount(order, np.where(is_last, 0.0, quantity), minlength=len(count))
    quantity = np.where(is_last, np.round(orders.quantity[order] - filled[order], 6), quantity)
    direction = np.where(orders.long[order], -1.0, 1.0)  # a liquidated long is sold, at falling prices
    price = np.round(orders.price[order] * (1.0 + direction * 2e-4 * (place + 0.5)), 6)
    return FillArrays(order, place, orders.time[order] + 40_000 * place, price, quantity)


def fill_rows(first: int, last: int, names: _Names, venues: _Names, columns: _Names = None) -> dict[str, Any]:
    """Return the columns of the liquidation fills with ``first <= time < last`` [µs].

    If `columns` are given, the rows are unsorted, and the ID of the fill may be omitted.
    """
    days = range(first // DAY_US - 1, (last - 1) // DAY_US + 1)  # a cluster may last beyond midnight
    rows = select(names, venues).row
    fills = joined([_fills_of_clusters(day, first, last, rows) for day in days])
    if columns is None:
        order = np.lexsort((fills["place"], fills["number"], fills["exchange"], fills["time"]))
        fills = take_rows(fills, order)
    digits = fills["number"].astype(">u8").tobytes().hex()
    order_id = [digits[start : start + 16] for start in range(0, len(digits), 16)]
    keys = {name: fills[name] for name in ("symbol", "exchange", "time", *_NUMBERS)}
    table = labelled(keys) | {
        "order_id": order_id,
        "side": text(np.where(fills["long"], 0, 1), ("long", "short")),
        "status": text(np.zeros(len(order_id), dtype=np.int8), ("filled",)),
    }
    if columns is None or "fill_id" in columns:  # as text it takes long to make
        places = fills["place"].tolist()
        table["fill_id"] = [f"{n}-{k}" for n, k in zip(order_id, places, strict=True)]
    return table


def _first_orders(day: int) -> _Tree:
    """Return the first orders of a day's clusters without shocks, at most one per symbol and five minutes."""
    step = day * STEPS + np.arange(STEPS)
    number = noise.bits((symbols().streams ^ _CLUSTERS_STREAM)[:, None], step)
    symbol, start = np.nonzero(noise.uniform(number, 0) < (starts_per_day() / STEPS)[:, None])
    number = number[symbol, start]
    time = step[start] * STEP_US + _milliseconds(noise.uniform(number, 4) * (STEP_US / 1e6))
    return _Tree(number, number, symbol, time)


def _first_orders_of_shock(shock: int) -> _Tree:
    """Return the first orders of the clusters that begin after a shock [µs]."""
    count = np.ceil(SHOCK_SIZE * starts_per_day() / np.max(starts_per_day())).astype(np.int64)
    symbol, place = _parents_and_places(count)
    number = noise.bits((symbols().streams ^ _SHOCKS_STREAM)[symbol], shock // 1_000_000 * 128 + place)
    delay_seconds = -SHOCK_SECONDS * np.log1p(-noise.uniform(number, 5))  # exponential
    return _Tree(number, number, symbol, shock + _milliseconds(delay_seconds))


def _with_later_generations(generation: _Tree) -> _Tree:
    """Return a first generation with all later generations."""
    generations = [generation]
    for _ in range(_GENERATIONS):
        count = (noise.uniform(generation.number ^ _CHILDREN_STREAM, 0)[:, None] > _POISSON_CDF).sum(axis=1)
        parent, place = _parents_and_places(count)
        if not parent.size:
            break
        generation = generation.take(parent)
        number = noise.bits(generation.number ^ _CHILDREN_STREAM, 1 + place)
        delay = _milliseconds(-DELAY_SECONDS * np.log1p(-noise.uniform(number, 5)))
        generation = generation._replace(number=number, time=generation.time + delay)
        generations.append(generation)
    return _join_trees(generations)


def _join_trees(trees: list[_Tree]) -> _Tree:
    return _Tree(*(np.concatenate(column) for column in zip(*trees, strict=True)))


def _parents_and_places(count: Ints) -> tuple[Ints, Ints]:
    """Return, for each of ``sum(count)`` children, its parent's row and its place among the siblings."""
    parent = np.repeat(np.arange(len(count)), count)
    return parent, np.arange(len(parent)) - np.repeat(np.cumsum(count) - count, count)


def _milliseconds(seconds: Floats) -> Ints:
    """Return seconds as µs, rounded down to a whole millisecond."""
    return np.asarray(np.floor(seconds * 1e3).astype(np.int64) * 1000)


@lru_cache(maxsize=1)
def _upper_ends() -> Floats:
    """Return the upper end of each pair's interval, on a line where symbol s covers [s, s + 1).

    The pairs of a symbol divide its interval by their shares of open interest.
    """
    p = pairs()
    sums = np.concatenate([[0.0], np.cumsum(p.share)])
    first_of_symbol = np.searchsorted(p.symbol, p.symbol)
    return np.asarray(p.symbol + np.minimum(sums[1:] - sums[first_of_symbol], 1.0))


def _draw_pairs(tree: _Tree) -> Ints:
    """Return the pair of each order, drawn by shares of open interest; -1 if the pair is not traded."""
    p = pairs()
    point = tree.symbol + noise.uniform(tree.number, 6)
    pair = np.minimum(np.searchsorted(_upper_ends(), point, side="right"), len(p) - 1)
    day = tree.time // DAY_US
    is_traded = (day >= np.maximum(p.since[pair], START_DAY)) & (day < p.until[pair])
    return np.where(is_traded & (p.symbol[pair] == tree.symbol), pair, -1)


def _fills_of_clusters(day: int, first: int, last: int, rows: Ints) -> dict[str, Any]:
    """Return the fills of some pairs (`rows`) within a window, of the clusters that began on a day."""
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
