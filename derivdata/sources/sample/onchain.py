"""Synthetic HIP-3 dexes, HIP-4 outcome markets and builders: single traders, prices, open interest.

Trading is one draw per (actor, market, day), within one quarter of an hour. Dexes list stocks, metals and
indices; outcomes are questions, traded on two venues; builders route orders and charge their own fee.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from derivdata.sources.sample import noise, paths
from derivdata.sources.sample.noise import DAY_US, START_DAY, STEPS, instants
from derivdata.sources.sample.universe import symbols, text
from derivdata.support.arrays import Floats, Ints

DEXES = {
    "flx": tuple("COIN CRCL TSLA XAG XAU".split()),
    "vntl": tuple("NVDA SPX TSLA XAU".split()),
    "xyz": tuple("AAPL AMZN COIN GOOGL HOOD META MSFT MSTR NDX NVDA PLTR TSLA XAG XAU".split()),
}
"""Symbols of each dex."""

OUTCOMES = tuple(str(number) for number in range(101, 113))
"""Numbers of the outcomes."""

BUILDERS = tuple(sorted("axiom basedapp dexari hyperdash insilico okto phantom pvp rabby supurr".split()))
"""Names of the builders."""

_SLOTS = 96
_SLOT_US = DAY_US // _SLOTS
_STEPS_PER_SLOT = STEPS // _SLOTS
_PEOPLE = 250
_HIP3_FEE = 0.00045  # share of a trade's value; the deployer gets half of the fee
_HIP4_FEE = 0.0007
_ACTIVE, _WHEN, _SIZE, _COUNT = (noise.key("onchain", name) for name in ("active", "when", "size", "count"))
_LIQUIDATED = noise.key("onchain", "liquidated")
_OI = noise.key("onchain", "open interest")


class _Markets(NamedTuple):
    """Markets of a family: key columns with one value per market, and names for their random streams."""

    columns: Mapping[str, Sequence[str]]
    names: tuple[str, ...]

    def labels(self, place: Ints) -> dict[str, Any]:
        """Return the key columns of rows, from the positions of their markets."""
        result = {}
        for column, values in self.columns.items():
            distinct = tuple(sorted(set(values)))
            result[column] = text(np.array([distinct.index(value) for value in values])[place], distinct)
        return result


_COINS = [(dex, symbol) for dex in DEXES for symbol in DEXES[dex]]
_HIP3 = _Markets(
    {"dex": [dex for dex, _ in _COINS], "symbol": [symbol for _, symbol in _COINS]},
    tuple(f"{dex}:{symbol}" for dex, symbol in _COINS),
)
_DEX_SCALE = np.array([{"flx": 2_500.0, "vntl": 1_800.0, "xyz": 9_000.0}[dex] for dex, _ in _COINS])
_QUESTIONS = [(venue, outcome) for venue in ("out", "skew") for outcome in OUTCOMES]
_HIP4 = _Markets(
    {"venue": [venue for venue, _ in _QUESTIONS], "outcome_id": [outcome for _, outcome in _QUESTIONS]},
    tuple(f"{venue}|{outcome}" for venue, outcome in _QUESTIONS),
)
_VENUE_SCALE = np.array([{"out": 900.0, "skew": 350.0}[venue] for venue, _ in _QUESTIONS])
_ROUTED = _Markets({"symbol": "BTC ETH HYPE SOL XRP".split()}, tuple("BTC ETH HYPE SOL XRP".split()))


def hip3_traders(first: int, last: int, *_: object) -> dict[str, Any]:
    """Return the columns of ``hip3_traders`` with ``first <= time < last`` [µs]."""
    drawn = [noise.uniform(noise.key("coin", dex, symbol), 0)[0] for dex, symbol in _COINS]
    people = _addresses()
    activity = _trades(people, _HIP3.names, _DEX_SCALE * (0.4 + 1.2 * np.array(drawn)), first, last)
    fees = np.round(activity.volume * _HIP3_FEE, 4)
    streams = noise.keys("liquidated", _HIP3.names)[activity.market] ^ _LIQUIDATED
    liquidated = noise.uniform(streams, activity.actor + activity.time) < 0.02
    return _HIP3.labels(activity.market) | {
        "address": text(activity.actor, people),
        "time": instants(activity.time),
        "volume_usd": activity.volume,
        "trade_count": activity.number,
        "fees_usd": fees,
        "deployer_fees_usd": np.round(fees / 2.0, 4),
        "liquidation_value_usd": np.where(liquidated, np.round(activity.volume * 0.6, 2), 0.0),
        "liquidation_count": liquidated.astype(np.int64),
    }


def hip3_candles(first: int, last: int, *_: object) -> dict[str, Any]:
    """Return the columns of ``hip3_candles`` with ``first <= time < last`` [µs]."""
    days = np.arange(max(first // DAY_US, START_DAY), -(-last // DAY_US))
    if not days.size:
        return {}
    own = np.array([symbols().name.index(symbol) for _, symbol in _COINS])
    premium = 1.0 + 4e-4 * (noise.uniform(noise.keys("coin premium", _HIP3.names), 0) - 0.5)
    path = paths.price(own, int(days[0]), days.size + 1) * premium[:, None]
    time = days[0] * DAY_US + np.arange(days.size * _SLOTS) * _SLOT_US
    keep = np.flatnonzero((time >= first) & (time < last))
    # Open, high, low and close of every quarter of an hour: its steps and the next one's first.
    close = path[:, _STEPS_PER_SLOT : days.size * STEPS + 1 : _STEPS_PER_SLOT]
    inner = path[:, : days.size * STEPS].reshape(len(path), -1, _STEPS_PER_SLOT)
    high = np.maximum(inner.max(axis=2), close)
    low = np.minimum(inner.min(axis=2), close)
    candles = {"open_usd": inner[..., 0], "high_usd": high, "low_usd": low, "close_usd": close}
    noisy = paths.ou(noise.keys("coin", _HIP3.names) ^ _OI, 120.0, int(days[0]), days.size, _SLOTS)
    level = _DEX_SCALE * 400.0 / symbols().price[own]
    oi = level[:, None] * np.exp(0.3 * noisy.reshape(len(_COINS), -1))
    market, place = np.indices((len(_COINS), keep.size)).reshape(2, -1)
    values = {name: np.round(v[:, keep], 6).ravel() for name, v in candles.items()}
    contracts = np.round(oi[:, keep], 4).ravel()
    return _HIP3.labels(market) | {
        "time": instants(time[keep][place]),
        **values,
        "open_interest": contracts,
        "oi_usd": np.round(contracts * values["close_usd"], 2),
    }


def hip4_traders(first: int, last: int, *_: object) -> dict[str, Any]:
    """Return the columns of ``hip4_traders`` with ``first <= time < last`` [µs]."""
    drawn = [noise.uniform(noise.key("outcome", outcome), 0)[0] for _, outcome in _QUESTIONS]
    people = _addresses()
    activity = _trades(people, _HIP4.names, _VENUE_SCALE * (0.2 + 2.0 * np.array(drawn)), first, last)
    return _HIP4.labels(activity.market) | {
        "address": text(activity.actor, people),
        "time": instants(activity.time),
        "volume_usd": activity.volume,
        "trade_count": activity.number,
        "fill_count": activity.number + activity.number // 3,
        "fees_usd": np.round(activity.volume * _HIP4_FEE, 4),
    }


def hip4_oi(first: int, last: int, *_: object) -> dict[str, Any]:
    """Return the columns of ``hip4_oi`` with ``first <= time < last`` [µs]: the end of every day."""
    days = np.arange(max(-(-first // DAY_US), START_DAY), -(-last // DAY_US))
    if not days.size:
        return {}
    level = paths.midnights(noise.keys("outcome held", _HIP4.names), 200.0, int(days[0]), days.size).T
    price = paths.midnights(noise.keys("outcome price", OUTCOMES), 300.0, int(days[0]), days.size).T
    contracts = np.round((60.0 * _VENUE_SCALE)[:, None] * np.exp(0.4 * level), 0)
    chance = np.tile(1.0 / (1.0 + np.exp(-price)), (len(_QUESTIONS) // len(OUTCOMES), 1))
    market, place = np.indices(contracts.shape).reshape(2, -1)
    return _HIP4.labels(market) | {
        "time": instants(days[place] * DAY_US),
        "open_interest": contracts.ravel(),
        "oi_usd": np.round(contracts * chance, 2).ravel(),
    }


def builders_history(first: int, last: int, *_: object) -> dict[str, Any]:
    """Return the columns of ``builders_history`` with ``first <= time < last`` [µs]."""
    scale = 400_000.0 * (0.3 + noise.uniform(noise.keys("builder coin", _ROUTED.names), 0))
    activity = _trades(BUILDERS, _ROUTED.names, scale, first, last, chance=(0.6, 0.4))
    fee = 2e-4 + 5e-4 * noise.uniform(noise.keys("builder fee", BUILDERS), 0)
    return _ROUTED.labels(activity.market) | {
        "builder": text(activity.actor, BUILDERS),
        "time": instants(activity.time),
        "volume_usd": activity.volume,
        "trade_count": activity.number * 40,
        "fees_usd": np.round(activity.volume * fee[activity.actor], 2),
    }


class _Trades(NamedTuple):
    """Trading of an actor on a market (both positions) in the quarter of an hour from `time` [µs] on."""

    actor: Ints
    market: Ints
    time: Ints
    volume: Floats
    number: Ints


@lru_cache(maxsize=1)
def _addresses() -> tuple[str, ...]:
    drawn = [[int(noise.key("address", n, word)) for word in range(3)] for n in range(_PEOPLE)]
    return tuple(sorted(f"0x{a:016x}{b:016x}{c >> 32:08x}" for a, b, c in drawn))


def _trades(
    names: tuple[str, ...],
    markets: tuple[str, ...],
    scale: Floats,
    first: int,
    last: int,
    *,
    chance: tuple[float, float] = (0.01, 0.25),
) -> _Trades:
    """Return trades whose quarter begins in ``[first, last)`` [µs].

    `scale` is the typical value of a trade on each market [USD]. `chance` is the probability of trading on a
    day: a base for every actor, and an addition for the busiest.
    """
    streams = _streams(names, markets)
    days = np.arange(max(first // DAY_US, START_DAY), -(-last // DAY_US))
    # By the fourth power a few actors trade on most days and large sizes, and most actors rarely.
    weight = noise.uniform(noise.keys("actor", names), 1)[:, None, None] ** 4
    active = noise.uniform((streams ^ _ACTIVE)[..., None], days) < chance[0] + chance[1] * weight
    actor, market, place = np.nonzero(active)
    own = streams[actor, market]
    day = days[place]
    slot = np.floor(noise.uniform(own ^ _WHEN, day) * _SLOTS).astype(np.int64)
    time = day * DAY_US + slot * _SLOT_US
    size = scale[market] * (1.0 + 20.0 * weight[actor, 0, 0]) * np.exp(1.1 * noise.normal(own ^ _SIZE, day))
    number = 1 + np.floor(9.0 * noise.uniform(own ^ _COUNT, day)).astype(np.int64)
    order = np.lexsort((actor, market, time))
    order = order[(time[order] >= first) & (time[order] < last)]
    return _Trades(actor[order], market[order], time[order], np.round(size, 2)[order], number[order])


@lru_cache(maxsize=8)
def _streams(names: tuple[str, ...], markets: tuple[str, ...]) -> noise.Keys:
    own = noise.keys("onchain actor", names)[:, None]
    return np.asarray(noise.bits(own, np.arange(len(markets))) ^ noise.keys("onchain market", markets))
