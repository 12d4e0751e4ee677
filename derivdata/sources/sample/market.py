"""State of every pair at an instant, taken from the histories: the last point of each, or its rolling sum."""

from __future__ import annotations

import numpy as np

from derivdata.sources.sample import funding, liquidations, oi_volume, prices
from derivdata.sources.sample.grid import START_DAY, STEP_US, STEPS, Ints
from derivdata.sources.sample.noise import Floats
from derivdata.sources.sample.universe import Pairs, pairs

__all__ = ["price", "state"]

_HOUR = STEPS // 24


def state(chosen: Pairs, day: int, steps: Ints) -> dict[str, Floats]:
    """Return columns of ``markets_symbol_exchanges`` at five-minute steps of a day, ``(pairs, steps)``.

    ``price_usd`` is NaN while the pair does not trade. Funding is the newest recorded rate of the last day;
    its mean is over the recorded rates of the seven days that end with this step. Open interest is that of
    the hour that holds the step, volume the sum of the 24 hours before that hour, liquidations the sum of the
    fills in the 24 hours before the step.
    """
    trading = (day >= np.maximum(chosen.since, START_DAY)) & (day < chosen.until)
    now = price(chosen, day, steps)
    before = price(chosen, day - 1, steps)
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


def price(chosen: Pairs, day: int, steps: Ints) -> Floats:
    """Return the mark price [USD] at five-minute steps of a day, rounded, ``(pairs, steps)``."""
    own, place = np.unique(chosen.symbol, return_inverse=True)
    path = prices.price(own, day, 1)[:, steps]
    return np.round(path[place] * prices.premium(chosen)[:, None], 6)


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
