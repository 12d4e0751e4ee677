"""State and prices of every pair, and order books, on every five-minute step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from derivdata.sources.sample import funding, liquidations, noise, oi_volume, paths
from derivdata.sources.sample.noise import DAY_US, START_DAY, STEP_US, STEPS
from derivdata.sources.sample.universe import (
    Pairs,
    exchange_names,
    joined,
    labelled,
    pairs,
    select,
    text,
    with_words,
)
from derivdata.support.arrays import Floats, Ints

DEPTHS = (10, 25, 50, 100)
"""Distances from the mid price over which depth is added up [bps]."""

LEVELS = 120
_BOOK = noise.key("order book")


def newest(
    first: int, last: int, names: Sequence[str] | None, venues: Sequence[str] | None
) -> dict[str, Any]:
    """Return the columns of every pair's newest book with ``first <= time <= last`` [µs]."""
    step = last // STEP_US
    chosen = _trading(select(names, venues), np.array([step])) if step * STEP_US >= first else None
    if chosen is None or not len(chosen):
        return {}
    price, size = _sides(chosen, np.array([step]))
    row, side, level = np.indices(price.shape[:1] + price.shape[2:]).reshape(3, -1)
    return labelled(
        {
            "symbol": chosen.symbol[row],
            "exchange": chosen.exchange[row],
            "time": np.full(row.size, step * STEP_US),
            "side": text(1 - side, ("ask", "bid")),
            "level": level + 1,
            "price_usd": price[:, 0].ravel(),
            "size": size[:, 0].ravel(),
        }
    )


def depths(
    first: int, last: int, names: Sequence[str] | None, venues: Sequence[str] | None
) -> dict[str, Any]:
    """Return the depth of every book with ``first <= time < last`` [µs], summed from its levels."""
    steps = np.arange(-(-first // STEP_US), -(-last // STEP_US))
    chosen = select(names, venues)
    if not steps.size or not len(chosen):
        return {}
    days = np.unique(steps // STEPS).tolist()
    return labelled(joined([_depths(chosen, steps[steps // STEPS == day]) for day in days]))


def half_spread(chosen: Pairs) -> Floats:
    """Return how far the best levels are from the mid price [bps]."""
    return np.asarray(0.3 + 4.0 * noise.uniform(chosen.streams ^ _BOOK, 0))


def _trading(chosen: Pairs, steps: Ints) -> Pairs:
    day = int(steps[0] * STEP_US // DAY_US)
    return chosen.trading(day, day + 1)


def _sides(chosen: Pairs, steps: Ints) -> tuple[Floats, Floats]:
    """Return price and size of every level, ``(pairs, steps of one day, side, level)``, rounded."""
    day = int(steps[0] // STEPS)
    own, place = np.unique(chosen.symbol, return_inverse=True)
    path = paths.price(own, day, 1)[:, steps - day * STEPS][place]
    middle = path * paths.premium(chosen)[:, None]
    distance = half_spread(chosen)[:, None] + np.arange(LEVELS)
    sign = np.array([-1.0, 1.0])[:, None]
    price = middle[..., None, None] * (1.0 + sign * distance[:, None, None, :] / 1e4)
    oi = np.nan_to_num(oi_volume.oi(chosen, day, 1)[:, (steps - day * STEPS) * 24 // STEPS])
    index = (steps[:, None, None] * 2 + np.arange(2)[:, None]) * LEVELS + np.arange(LEVELS)
    shock = noise.normal((chosen.streams ^ _BOOK)[:, None, None, None], index)
    shape = (1.0 + np.arange(LEVELS) / 12.0) * np.exp(0.5 * shock)
    size = 2e-5 * oi[..., None, None] * shape / price
    return np.round(price, 8), np.round(size, 8)


def _depths(every: Pairs, steps: Ints) -> dict[str, Any]:
    """Return the columns of the depths of one day."""
    chosen = _trading(every, steps)
    price, size = _sides(chosen, steps)
    value = np.cumsum(price * size, axis=-1)
    middle = 0.5 * (price[:, :, 0, 0] + price[:, :, 1, 0])
    away = np.abs(price / middle[..., None, None] - 1.0) * 1e4
    within = np.stack([(away <= depth).sum(axis=-1) for depth in DEPTHS], axis=-1)
    padded = np.concatenate([np.zeros((*value.shape[:-1], 1)), value], axis=-1)
    depths = np.round(np.take_along_axis(padded, within, axis=-1), 2)
    row, step, depth = np.indices((len(chosen), steps.size, len(DEPTHS))).reshape(3, -1)
    return {
        "symbol": chosen.symbol[row],
        "exchange": chosen.exchange[row],
        "time": steps[step] * STEP_US,
        "depth_bps": np.array(DEPTHS, dtype=np.float64)[depth],
        "bid_depth_usd": depths[:, :, 0].ravel(),
        "ask_depth_usd": depths[:, :, 1].ravel(),
    }


_HOUR = STEPS // 24
_KINDS = ("index", "last", "mark")
_TAKER = noise.key("side of the last trade")
_SPOT = noise.key("spot")
_TETHER = noise.key("price of USDT")
SPOT_QUOTES = {"binance": "USDT", "bybit": "USDT", "coinbase": "USD", "okx": "USDT"}
"""The venues with spot prices, and their currency."""
SPOT_DEVIATION_BPS = 1.0
USDT_DEVIATION_BPS = 5.0
USDT_HALF_LIFE_HOURS = 48.0
_Names = Sequence[str] | None


def state(chosen: Pairs, day: int, steps: Ints) -> dict[str, Floats]:
    """Return columns of ``markets_symbol_exchanges`` at five-minute steps of a day, ``(pairs, steps)``."""
    trading = (day >= np.maximum(chosen.since, START_DAY)) & (day < chosen.until)
    now = _price(chosen, day, steps)
    before = _price(chosen, day - 1, steps)
    older = trading & (day > np.maximum(chosen.since, START_DAY))
    change = np.where(older[:, None], np.round(100.0 * (now / before - 1.0), 6), np.nan)
    return {
        "price_usd": np.where(trading[:, None], now, np.nan),
        "price_24h_change_pct": change + 0.0,
        "volume_24h_usd": _volume(chosen, day, steps),
        "oi_usd": oi_volume.oi(chosen, day, 1)[:, steps // _HOUR],
        "funding_current_bps_8h": _current(chosen, day, steps),
        "funding_avg_7d_bps_8h": _mean(chosen, day, steps),
        "liquidation_24h_usd": _liquidated(chosen, day, steps),
    }


def quotes(first: int, last: int, names: _Names, venues: _Names) -> dict[str, Any]:
    """Return the columns of the prices with ``first <= time < last`` [µs]."""
    every = select(names, venues)
    parts = []
    for day in range(first // DAY_US, (last - 1) // DAY_US + 1):
        chosen = every.trading(day, day + 1)
        step = np.arange(-(-max(first - day * DAY_US, 0) // STEP_US), STEPS)
        step = step[step * STEP_US + day * DAY_US < last]
        if not len(chosen) or not step.size:
            continue
        mark = _price(chosen, day, step)
        premium = funding.premium(chosen, day, 1)[:, step]
        buys = noise.uniform((chosen.streams ^ _TAKER)[:, None], day * STEPS + step) >= 0.5
        traded = mark * (1.0 + np.where(buys, 1e-4, -1e-4) * half_spread(chosen)[:, None])
        kinds = np.stack([mark / (1.0 + premium / 1e4), traded, mark], axis=-1)
        row, place, kind = np.indices(kinds.shape).reshape(3, -1)
        parts.append(
            {
                "symbol": chosen.symbol[row],
                "exchange": chosen.exchange[row],
                "time": day * DAY_US + step[place] * STEP_US,
                "kind": kind,
                "price_usd": np.round(kinds, 8).ravel(),
            }
        )
    return with_words(parts, "kind", _KINDS, "raw")


def spot(first: int, last: int, names: _Names, venues: _Names) -> dict[str, Any]:
    """Return the columns of the hourly spot prices with ``first <= time < last`` [µs].

    A spot price is the venue's index plus a distance of its own. A price in USD is of the same coins by the
    price of USDT, an Ornstein–Uhlenbeck path about 1.
    """
    every = select(names, venues)
    parts = []
    every = every.take(np.flatnonzero(np.isin(every.exchange, [*map(exchange_names().index, SPOT_QUOTES)])))
    step = np.arange(0, STEPS, _HOUR)
    for day in range(first // DAY_US, (last - 1) // DAY_US + 1):
        chosen = every.trading(day, day + 1)
        if not len(chosen):
            continue
        index = _price(chosen, day, step) / (1.0 + funding.premium(chosen, day, 1)[:, step] / 1e4)
        drawn = noise.normal((chosen.streams ^ _SPOT)[:, None], day * 24 + np.arange(24))
        price = index * (1.0 + SPOT_DEVIATION_BPS / 1e4 * drawn)
        is_usd = np.array([SPOT_QUOTES.get(name) == "USD" for name in exchange_names()])[chosen.exchange]
        path = paths.ou(np.array([_TETHER]), USDT_HALF_LIFE_HOURS, day, 1, 24)[0, 0]
        price *= np.where(is_usd[:, None], 1.0 + USDT_DEVIATION_BPS / 1e4 * path, 1.0)
        row, hour = np.indices(price.shape).reshape(2, -1)
        time = day * DAY_US + step[hour] * STEP_US
        kept = (time >= first) & (time < last)
        keys = {"symbol": chosen.symbol[row], "exchange": chosen.exchange[row], "time": time}
        table = {**keys, "quote": is_usd[row] == 0, "price": np.round(price, 8).ravel()}
        parts.append({name: values[kept] for name, values in table.items()})
    return with_words(parts, "quote", ("USD", "USDT"), "1h")


def newest_quotes(first: int, last: int, names: _Names, venues: _Names) -> dict[str, Any]:
    """Return the columns of the newest prices of each pair with ``first <= time <= last`` [µs]."""
    step = last // STEP_US * STEP_US
    return quotes(step, step + 1, names, venues) if step >= first else {}


def _price(chosen: Pairs, day: int, steps: Ints) -> Floats:
    """Return the mark price [USD] at five-minute steps of a day, rounded, ``(pairs, steps)``."""
    own, place = np.unique(chosen.symbol, return_inverse=True)
    path = paths.price(own, day, 1)[:, steps]
    return np.round(path[place] * paths.premium(chosen)[:, None], 6)


def _volume(chosen: Pairs, day: int, steps: Ints) -> Floats:
    hourly = oi_volume.volume(chosen, day - 1, 2)
    sums = np.concatenate([np.zeros((len(chosen), 1)), np.nancumsum(hourly, axis=1)], axis=1)
    hour = 24 + steps // _HOUR
    some = np.cumsum(np.concatenate([np.zeros((len(chosen), 1)), ~np.isnan(hourly)], axis=1), axis=1)
    total = np.round(sums[:, hour] - sums[:, hour - 24], 6)
    return np.where(some[:, hour] > some[:, hour - 24], total, np.nan)


def _current(chosen: Pairs, day: int, steps: Ints) -> Floats:
    rate = np.concatenate([funding.recorded(chosen, day - 1, 1), funding.recorded(chosen, day, 1)], axis=1)
    place = np.where(np.isnan(rate), -1, np.arange(2 * STEPS))
    newest = np.maximum.accumulate(place, axis=1)[:, STEPS + steps]
    rates = np.take_along_axis(rate, np.maximum(newest, 0), axis=1)
    return np.where(newest >= steps, rates, np.nan)


def _mean(chosen: Pairs, day: int, steps: Ints) -> Floats:
    today, week_ago = (funding.recorded(chosen, d, 1) for d in (day, day - 7))
    whole = [funding.totals(chosen, d) for d in range(day - 7, day)]
    total = np.nancumsum(today, axis=1)[:, steps] - np.nancumsum(week_ago, axis=1)[:, steps]
    total += np.sum([t for t, _ in whole], axis=0)[:, None]
    count = (np.cumsum(~np.isnan(today), axis=1) - np.cumsum(~np.isnan(week_ago), axis=1))[:, steps]
    count += np.sum([c for _, c in whole], axis=0)[:, None]
    return np.where(count > 0, np.round(total / np.maximum(count, 1), 6) + 0.0, np.nan)


def _liquidated(chosen: Pairs, day: int, steps: Ints) -> Floats:
    local = np.full(len(pairs()), -1)
    local[chosen.row] = np.arange(len(chosen))
    sums = np.zeros((len(chosen), 2 * STEPS + 1))
    for start in (day - 2, day - 1, day):
        orders = liquidations.orders(start)
        fills = liquidations.fills(orders)
        step = fills.time // STEP_US - (day - 1) * STEPS
        row = local[orders.pair[fills.order]]
        keep = (step >= 0) & (step < 2 * STEPS) & (row >= 0)
        value = np.round(fills.price * fills.quantity, 6)
        np.add.at(sums, (row[keep], step[keep] + 1), value[keep])
    sums = np.cumsum(sums, axis=1)
    return np.round(sums[:, STEPS + steps] - sums[:, steps], 6)
