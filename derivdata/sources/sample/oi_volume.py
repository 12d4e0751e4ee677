"""Open interest and volume of every hour, with trends and venues that gain and lose."""

from __future__ import annotations

import numpy as np

from derivdata.sources.sample import noise, paths
from derivdata.sources.sample.grid import DAY_US, HOUR_US, START_DAY, STEPS, years
from derivdata.sources.sample.universe import Pairs, pairs, symbols, venue_values
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
    hour, day = (time // HOUR_US) % 24, time // DAY_US
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
