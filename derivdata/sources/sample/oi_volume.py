"""Hourly open interest, volume, positioning and taker volume of the sample.

Open interest has trends, and venues gain and lose share. The logarithm of the long/short ratio is ``mean +
crowding × x + deviation × z``: x is the unit process behind the symbol's base funding rate, z is that of the
pair and kind. So accounts are long while longs pay, and large positions are on the other side. The imbalance
of takers, (bought - sold) / (bought + sold), is ``tanh(impact × r + deviation × z)``, with r the return of
the hour in standard deviations.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from derivdata.sources.sample import funding, noise, paths
from derivdata.sources.sample.noise import DAY_US, HOUR_US, START_DAY, STEPS, years
from derivdata.sources.sample.universe import Pairs, pairs, select, symbols, venue_values, with_words
from derivdata.support.arrays import Bools, Floats, Ints

OI_HALF_LIFE_HOURS = 72.0
OI_DEVIATION = 0.05
VOLUME_DEVIATION = 0.45

_OI = noise.key("open interest")
_VOLUME = noise.key("volume")


def hours(first: int, days: int) -> Ints:
    """Return the starts of the hours of whole days [µs]."""
    return np.asarray(first * DAY_US + np.arange(days * 24) * HOUR_US)


def oi(chosen: Pairs, first: int, days: int) -> Floats:
    """Return open interest [USD] at the hour, rounded; NaN unless the pair trades; ``(pairs, hours)``."""
    return _alive(np.round(_oi(chosen, first, days), 6), chosen, first, days)


def volume(chosen: Pairs, first: int, days: int) -> Floats:
    """Return the volume [USD] of each hour, rounded; NaN unless the pair trades; ``(pairs, hours)``."""
    time = hours(first, days)
    hour = (time // HOUR_US) % 24
    day = time // DAY_US
    busy = (
        1.0
        - 0.35 * ((hour - 15.0) / 12.0) ** 2 * (hour < 15)
        - 0.35 * ((hour - 15.0) / 9.0) ** 2 * (hour >= 15)
    )
    season = busy * np.where((day + 3) % 7 >= 5, 0.65, 1.1)
    turnover = venue_values("turnover")[chosen.exchange][:, None] / 24.0
    shock = noise.normal((chosen.streams ^ _VOLUME)[:, None], time // HOUR_US)
    traded = _oi(chosen, first, days) * turnover * season * np.exp(VOLUME_DEVIATION * shock)
    return _alive(np.round(traded, 6), chosen, first, days)


def _oi(chosen: Pairs, first: int, days: int) -> Floats:
    s = symbols()
    own, place = np.unique(chosen.symbol, return_inverse=True)
    price = paths.price(own, first, days)[:, :: STEPS // 24] / s.price[own, None]
    # Most pairs: the midnights of all are the same in the next days, while the pairs that trade change.
    ends = None
    if 4 * len(chosen) > len(pairs()):
        ends = paths.midnights(pairs().streams ^ _OI, OI_HALF_LIFE_HOURS, first, days + 1)[:, chosen.row]
    path = paths.ou(chosen.streams ^ _OI, OI_HALF_LIFE_HOURS, first, days, 24, ends).reshape(len(chosen), -1)
    slope = s.trend[chosen.symbol] + venue_values("growth")[chosen.exchange]
    level = s.oi[chosen.symbol] * chosen.share
    path *= OI_DEVIATION
    path += slope[:, None] * years(hours(first, days))
    return np.asarray(level[:, None] * np.exp(path) * price[place])


def trading(chosen: Pairs, first: int, days: int) -> Bools:
    """Return the hours in which each pair trades, ``(pairs, hours)``."""
    day = np.repeat(first + np.arange(days), 24)
    return np.asarray((day >= np.maximum(chosen.since, START_DAY)[:, None]) & (day < chosen.until[:, None]))


def _alive(values: Floats, chosen: Pairs, first: int, days: int) -> Floats:
    return np.where(trading(chosen, first, days), values, np.nan)


_Names = Sequence[str] | None
_HOUR = STEPS // 24
_TAKEN = noise.key("taker volume")


class Crowd(NamedTuple):
    """How the logarithm of long over short of one kind behaves."""

    mean: float
    crowding: float
    deviation: float
    half_life_hours: float


CROWDS = {
    "accounts": Crowd(0.4, 0.25, 0.20, 36.0),
    "top_accounts": Crowd(0.2, 0.10, 0.15, 36.0),
    "top_positions": Crowd(0.05, -0.15, 0.10, 72.0),
}
TAKER_IMPACT = 0.08
TAKER_DEVIATION = 0.06


def rows(first: int, last: int, names: _Names, venues: _Names) -> dict[str, Any]:
    """Return the columns of the positioning with ``first <= time < last`` [µs]."""
    begin = first // DAY_US
    stop = (last - 1) // DAY_US + 1
    chosen = select(names, venues).trading(begin, stop)
    if not len(chosen):
        return {}
    time = hours(begin, stop - begin)
    inside = (time >= first) & (time < last)
    row, hour = np.nonzero(trading(chosen, begin, stop - begin) & inside)
    own, symbol = np.unique(chosen.symbol, return_inverse=True)
    common = funding.crowding(own, begin, stop - begin)[..., ::_HOUR].reshape(len(own), -1)[symbol]
    parts = []
    for place, (kind, crowd) in enumerate(sorted(CROWDS.items())):
        streams = chosen.streams ^ noise.key("positioning", kind)
        alone = paths.ou(streams, crowd.half_life_hours, begin, stop - begin, 24).reshape(len(chosen), -1)
        log_ratio = crowd.mean + crowd.crowding * common + crowd.deviation * alone
        long = np.round(1.0 / (1.0 + np.exp(-log_ratio[row, hour])), 4)
        parts.append(
            {
                "symbol": chosen.symbol[row],
                "exchange": chosen.exchange[row],
                "time": time[hour],
                "kind": np.full(row.size, place),
                "long_share": long,
                "short_share": np.round(1.0 - long, 4),
                "long_short_ratio": np.round(long / (1.0 - long), 4),
            }
        )
    return with_words(parts, "kind", tuple(sorted(CROWDS)), "1h")


def taken(chosen: Pairs, first: int, days: int) -> dict[str, Floats]:
    """Return what takers bought and sold [USD] in each hour, rounded; NaN unless the pair trades."""
    s = symbols()
    own, place = np.unique(chosen.symbol, return_inverse=True)
    price = paths.price(own, first, days + 1)[:, : (days * STEPS + 1) : _HOUR]
    moved = np.diff(np.log(price), axis=1) / (s.volatility[own, None] / np.sqrt(8760.0))
    drawn = noise.normal((chosen.streams ^ _TAKEN)[:, None], first * 24 + np.arange(days * 24))
    imbalance = np.tanh(TAKER_IMPACT * moved[place] + TAKER_DEVIATION * drawn)
    total = volume(chosen, first, days)
    bought = np.round(total * (1.0 + imbalance) / 2.0, 6)
    return {"buy_usd": bought, "sell_usd": np.round(total - bought, 6)}
