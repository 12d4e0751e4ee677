"""Outcome markets: questions with a number each, traded on two venues."""

from __future__ import annotations

from typing import Any

import numpy as np

from derivdata.sources.sample import noise, paths
from derivdata.sources.sample.grid import DAY_US, START_DAY, instants
from derivdata.sources.sample.histories import text
from derivdata.sources.sample.onchain.activity import addresses, trades

__all__ = ["OUTCOMES", "hip4_oi", "hip4_traders"]

OUTCOMES = tuple(str(number) for number in range(101, 113))
"""Numbers of the outcomes."""

_VENUES = ("out", "skew")
_MARKETS = tuple((venue, outcome) for venue in _VENUES for outcome in OUTCOMES)
_NAMES = tuple(f"{venue}|{outcome}" for venue, outcome in _MARKETS)
_FEE = 0.0007
_SCALE = {"out": 900.0, "skew": 350.0}


def hip4_traders(first: int, last: int, *_: object) -> dict[str, Any]:
    """Return the columns of ``hip4_traders`` with ``first <= time < last`` [µs]."""
    scale = np.array(
        [_SCALE[v] * (0.2 + 2.0 * noise.uniform(noise.key("outcome", o), 0)[0]) for v, o in _MARKETS]
    )
    activity = trades(addresses(), _NAMES, scale, first, last)
    return _keys(activity.market) | {
        "address": text(activity.actor, addresses()),
        "time": instants(activity.time),
        "volume_usd": activity.volume,
        "trade_count": activity.number,
        "fill_count": activity.number + activity.number // 3,
        "fees_usd": np.round(activity.volume * _FEE, 4),
    }


def hip4_oi(first: int, last: int, *_: object) -> dict[str, Any]:
    """Return the columns of ``hip4_oi`` with ``first <= time < last`` [µs]: the end of every day."""
    days = np.arange(max(-(-first // DAY_US), START_DAY), -(-last // DAY_US))
    if not days.size:
        return {}
    level = paths.midnights(noise.keys("outcome held", _NAMES), 200.0, int(days[0]), days.size).T
    price = paths.midnights(noise.keys("outcome price", OUTCOMES), 300.0, int(days[0]), days.size).T
    contracts = np.round(np.array([60.0 * _SCALE[v] for v, _ in _MARKETS])[:, None] * np.exp(0.4 * level), 0)
    chance = np.tile(1.0 / (1.0 + np.exp(-price)), (len(_VENUES), 1))
    market, place = np.indices(contracts.shape).reshape(2, -1)
    return _keys(market) | {
        "time": instants(days[place] * DAY_US),
        "open_interest": contracts.ravel(),
        "oi_usd": np.round(contracts * chance, 2).ravel(),
    }


def _keys(market: Any) -> dict[str, Any]:
    venue = np.array([_VENUES.index(v) for v, _ in _MARKETS])
    outcome = np.array([OUTCOMES.index(o) for _, o in _MARKETS])
    return {"venue": text(venue[market], _VENUES), "outcome_id": text(outcome[market], OUTCOMES)}
