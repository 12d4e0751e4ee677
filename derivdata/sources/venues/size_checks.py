"""Sizes that no market has, in the rows of one response of a venue: options and liquidations."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

__all__ = ["size_doubts"]

_SUPPLY = {"BTC": 21e6, "ETH": 2.5e8}
"""Coins that exist at most, twice as many as in 2026 for ETH."""
_LARGEST_LIQUIDATION_USD = 1e9
"""The largest published liquidations were of 0.2 to 0.4 billion USD."""
_INDEX_APART = 1.5


def size_doubts(rows: pd.DataFrame) -> Iterator[str]:
    """Yield sentences about sizes that no market has, each with the first such row."""
    if not len(rows) or "symbol" not in rows:
        return
    symbols = np.asarray(rows["symbol"], dtype=object)
    if "strike" in rows and "side" in rows:
        yield from _options(rows, symbols)
    value = _numbers(rows, "value_usd")
    if (value > _LARGEST_LIQUIDATION_USD).any():
        row = int(np.argmax(value > _LARGEST_LIQUIDATION_USD))
        yield f"value_usd of {symbols[row]} is {value[row]:.4g}: no liquidation was as large"


def _numbers(rows: pd.DataFrame, name: str) -> NDArray[np.float64]:
    """Return a column as floats; NaN if the rows do not have it."""
    if name not in rows:
        return np.full(len(rows), np.nan)
    return np.asarray(rows[name].to_numpy(dtype=np.float64, na_value=np.nan))


def _options(rows: pd.DataFrame, symbols: NDArray[Any]) -> Iterator[str]:
    """Compare open interest with the coins that exist, prices with strikes, and forwards with the index."""
    interest = _numbers(rows, "open_interest")
    for symbol, supply in _SUPPLY.items():
        is_beyond = (symbols == symbol) & (interest > supply)
        if is_beyond.any():
            row = int(np.argmax(is_beyond))
            yield f"open_interest of {symbol} is {interest[row]:g}: more coins than exist"
    strikes = _numbers(rows, "strike")
    is_put = np.asarray(rows["side"] == "put")
    for name in ("mark_usd", "bid_usd"):
        prices = _numbers(rows, name)
        if (is_put & (prices > strikes)).any():
            row = int(np.argmax(is_put & (prices > strikes)))
            yield f"{name} of a put of {symbols[row]} is {prices[row]:g}, above its strike {strikes[row]:g}"
    forwards, index = _numbers(rows, "underlying_price"), _numbers(rows, "index_price_usd")
    is_apart = (forwards > _INDEX_APART * index) | (index > _INDEX_APART * forwards)
    is_apart &= (forwards > 0.0) & (index > 0.0)
    if is_apart.any():
        row = int(np.argmax(is_apart))
        yield (
            f"underlying_price of {symbols[row]} is {forwards[row]:g} and index_price_usd {index[row]:g}: "
            "one of them is of another coin or unit"
        )
