"""Positioning and taker volume of every hour, tied to the funding rate and to the price.

The logarithm of long over short is ``mean + crowding × x + deviation × z``: x is the unit process of which
the symbol's base funding rate is made, z one of the pair and kind. So accounts are long while longs pay, and
large positions are on the other side. Takers' imbalance (bought less sold over both) is ``tanh(impact × r +
deviation × z)`` of the hour's return r in its standard deviations.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from derivdata.sources.sample import funding, noise, oi_volume, paths
from derivdata.sources.sample.grid import DAY_US, STEPS
from derivdata.sources.sample.universe import Pairs, select, symbols, with_words
from derivdata.support.arrays import Floats

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
TAKER_IMPACT, TAKER_DEVIATION = 0.08, 0.06


def rows(first: int, last: int, names: _Names, venues: _Names) -> dict[str, Any]:
    """Return the columns of the positioning with ``first <= time < last`` [µs]."""
    begin, stop = first // DAY_US, (last - 1) // DAY_US + 1
    chosen = select(names, venues).trading(begin, stop)
    if not len(chosen):
        return {}
    time = oi_volume.hours(begin, stop - begin)
    inside = (time >= first) & (time < last)
    row, hour = np.nonzero(oi_volume.trading(chosen, begin, stop - begin) & inside)
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
    volume = oi_volume.volume(chosen, first, days)
    bought = np.round(volume * (1.0 + imbalance) / 2.0, 6)
    return {"buy_usd": bought, "sell_usd": np.round(volume - bought, 6)}
