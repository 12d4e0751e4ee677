"""Dexes that others deploy: stocks, metals and indices, priced as the rest of the sample prices them."""

from __future__ import annotations

from typing import Any

import numpy as np

from derivdata.sources.sample import noise, paths, prices
from derivdata.sources.sample.grid import DAY_US, START_DAY, STEPS, Ints, instants
from derivdata.sources.sample.histories import text
from derivdata.sources.sample.noise import Floats
from derivdata.sources.sample.onchain.activity import SLOT_US, SLOTS, addresses, trades
from derivdata.sources.sample.universe import symbols

__all__ = ["DEXES", "hip3_candles", "hip3_traders"]

DEXES = {
    "flx": tuple("COIN CRCL TSLA XAG XAU".split()),
    "vntl": tuple("NVDA SPX TSLA XAU".split()),
    "xyz": tuple("AAPL AMZN COIN GOOGL HOOD META MSFT MSTR NDX NVDA PLTR TSLA XAG XAU".split()),
}
"""Symbols of each dex."""

FEE = 0.00045
"""Fee of a trade as a part of its value, of which the deployer gets half."""

_SCALE = {"flx": 2_500.0, "vntl": 1_800.0, "xyz": 9_000.0}
_COINS = tuple((dex, symbol) for dex in DEXES for symbol in DEXES[dex])
_NAMES = tuple(f"{dex}:{symbol}" for dex, symbol in _COINS)
_LIQUIDATED = noise.key("onchain", "liquidated")
_OI = noise.key("onchain", "open interest")
_STEPS_PER_SLOT = STEPS // SLOTS


def hip3_traders(first: int, last: int, *_: object) -> dict[str, Any]:
    """Return the columns of ``hip3_traders`` with ``first <= time < last`` [µs]."""
    scale = np.array(
        [_SCALE[dex] * (0.4 + 1.2 * noise.uniform(noise.key("coin", dex, s), 0)[0]) for dex, s in _COINS]
    )
    activity = trades(addresses(), _NAMES, scale, first, last)
    fees = np.round(activity.volume * FEE, 4)
    drawn = noise.uniform(
        noise.keys("liquidated", _NAMES)[activity.market] ^ _LIQUIDATED, activity.actor + activity.time
    )
    liquidated = drawn < 0.02
    return _keys(activity.market) | {
        "address": text(activity.actor, addresses()),
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
    premium = 1.0 + 4e-4 * (noise.uniform(noise.keys("coin premium", _NAMES), 0) - 0.5)
    path = prices.price(own, int(days[0]), days.size + 1) * premium[:, None]
    time = days[0] * DAY_US + np.arange(days.size * SLOTS) * SLOT_US
    keep = np.flatnonzero((time >= first) & (time < last))
    candles = _candles(path, days.size)
    oi = _open_contracts(own, days)
    market, place = np.indices((len(_COINS), keep.size)).reshape(2, -1)
    values = {name: np.round(v[:, keep], 6).ravel() for name, v in candles.items()}
    contracts = np.round(oi[:, keep], 4).ravel()
    return _keys(market) | {
        "time": instants(time[keep][place]),
        **values,
        "open_interest": contracts,
        "oi_usd": np.round(contracts * values["close_usd"], 2),
    }


def _keys(market: Ints) -> dict[str, Any]:
    dexes, names = sorted(DEXES), sorted({symbol for _, symbol in _COINS})
    dex = np.array([dexes.index(d) for d, _ in _COINS])
    symbol = np.array([names.index(s) for _, s in _COINS])
    return {"dex": text(dex[market], tuple(dexes)), "symbol": text(symbol[market], tuple(names))}


def _candles(path: Floats, days: int) -> dict[str, Floats]:
    """Return open, high, low and close of every quarter of an hour: its steps and the next one's first."""
    open_ = path[:, : days * STEPS : _STEPS_PER_SLOT]
    close = path[:, _STEPS_PER_SLOT : days * STEPS + 1 : _STEPS_PER_SLOT]
    inner = path[:, : days * STEPS].reshape(len(path), -1, _STEPS_PER_SLOT)
    return {
        "open_usd": open_,
        "high_usd": np.maximum(inner.max(axis=2), close),
        "low_usd": np.minimum(inner.min(axis=2), close),
        "close_usd": close,
    }


def _open_contracts(own: Ints, days: Ints) -> Floats:
    """Return open interest of each quarter of an hour [contracts]."""
    streams = noise.keys("coin", _NAMES) ^ _OI
    path = paths.ou(streams, 120.0, int(days[0]), days.size, SLOTS).reshape(len(_COINS), -1)
    level = np.array([_SCALE[dex] for dex, _ in _COINS]) * 400.0 / symbols().price[own]
    return np.asarray(level[:, None] * np.exp(0.3 * path))
