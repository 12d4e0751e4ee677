"""Bids, asks and marks as a venue quotes them: on its tick, at most one tick wider than its market makers.

Deribit's and OKX's options on BTC and ETH are paid in the coin, on a tick of 0.0001 coin below a price of
0.005 and of 0.0005 from there on. All others are paid in USD, on a tick of 1, 2, 2.5 or 5 times a power of
ten, the least that is not below 0.004 % of the coin's price: 5 USD for BTC. Marks have a hundredth of the
smallest tick.
"""

from __future__ import annotations

import numpy as np

from derivdata.sources.sample.noise import Floats
from derivdata.sources.sample.options.listings import nice
from derivdata.sources.sample.universe import symbols

__all__ = ["is_inverse", "quotes", "ticks"]

_COIN = ("deribit", "okx")
_COIN_SYMBOLS = ("BTC", "ETH")
_COIN_TICKS = (0.0001, 0.0005)
_COIN_STEP = 0.005
_USD_TICK = 4e-5
_HALF_SPREAD_VOL = {"deribit": 0.002, "okx": 0.004, "binance": 0.005, "bybit": 0.005, "derive": 0.006}
"""Half a typical spread before it is rounded to ticks [1/√year], as market makers quote it."""
_HALF_SPREAD_INTRINSIC = 0.01
"""What is added of the intrinsic value: options in the money are hedged by the future."""


def is_inverse(symbol: str, exchange: str) -> bool:
    """Return whether a venue's options on a symbol are paid in the coin."""
    return exchange in _COIN and symbol in _COIN_SYMBOLS


def ticks(symbol: str, exchange: str, price: Floats) -> Floats:
    """Return the tick at each price."""
    if is_inverse(symbol, exchange):
        return np.where(price < _COIN_STEP, *_COIN_TICKS)
    return np.full(price.shape, nice(symbols().price[symbols().name.index(symbol)] * _USD_TICK))


def quotes(
    symbol: str, exchange: str, mark: Floats, vega: Floats, intrinsic: Floats, width: Floats
) -> dict[str, Floats]:
    """Return bid, ask and mark, by their columns; no bid where it would be less than a tick.

    Parameters
    ----------
    mark, vega, intrinsic
        Model price, its change with volatility, and intrinsic value [coin or USD, as the venue is paid].
    width
        Factor on the spread of each option, about 1.
    """
    half = width * (_HALF_SPREAD_VOL[exchange] * vega + _HALF_SPREAD_INTRINSIC * intrinsic)
    low, high = mark - half, mark + half
    low_tick, high_tick = ticks(symbol, exchange, low), ticks(symbol, exchange, high)
    # What lies on the tick but for rounding stays there.
    bid = np.floor(low / low_tick + 1e-9) * low_tick
    ask = np.maximum(np.ceil(high / high_tick - 1e-9), 1.0) * high_tick
    unit = "coin" if is_inverse(symbol, exchange) else "usd"
    smallest = float(ticks(symbol, exchange, np.zeros(1))[0])
    digits = int(np.ceil(-np.log10(smallest))) + 2
    return {
        f"bid_{unit}": np.where(bid >= low_tick * 0.5, np.round(bid, digits), np.nan),
        f"ask_{unit}": np.round(ask, digits),
        f"mark_{unit}": np.round(mark, digits),
    }
