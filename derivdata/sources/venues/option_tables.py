"""Records of options become tables: chains, trades, delivery prices, published volatility indices."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import attrgetter
from typing import Any

import numpy as np
import pandas as pd

from derivdata.errors import SchemaError
from derivdata.sources.venues.record_types import Delivery, IndexPoint, Option, Quotes, Traded
from derivdata.sources.venues.wire import stamps

_SEVERAL = 5
_VOLATILITIES = 0.03, 10.0
"""Between which the median of several lies."""


def _check_volatilities(values: Iterable[float | None]) -> None:
    """Refuse volatilities whose median is in another unit."""
    volatilities = [value for value in values if value is not None]
    if len(volatilities) >= _SEVERAL:
        middle = float(np.median(volatilities))
        if not _VOLATILITIES[0] <= middle <= _VOLATILITIES[1]:
            unit = "not the unit that the venue is known to use"
            raise SchemaError(f"the median of {len(volatilities)} volatilities is {middle:g}: {unit}")


def _told(rows: Sequence[Any], fields: str) -> dict[str, Any]:
    """Return some fields of rows as columns of their names."""
    return {name: [*map(attrgetter(name), rows)] for name in fields.split()}


def _stated(stamps_us: Sequence[int | None]) -> pd.DatetimeIndex:
    """Return timestamps [µs] as a column; a timestamp that is not stated is missing."""
    missing = np.iinfo(np.int64).min  # NaT
    filled = np.array([missing if stamp is None else stamp for stamp in stamps_us], dtype=np.int64)
    return pd.DatetimeIndex(filled.view("M8[us]"), tz="UTC")


def options(rows: list[Option], at: int | None) -> dict[str, Any]:
    """Return the columns of ``options_snapshot``; `at` [µs] is the time of rows that have none."""
    _check_volatilities(row.iv for row in rows)
    quotes = [row.quotes or Quotes(False) for row in rows]
    return {
        **_told(rows, "symbol strike side iv delta gamma vega theta rho open_interest interest_rate"),
        **_told(quotes, "volume"),
        **{
            f"{name}_{unit}": [getattr(q, name) if q.in_coin is (unit == "coin") else None for q in quotes]
            for unit in ("coin", "usd")
            for name in ("bid", "ask", "mark")
        },
        "time": stamps([row.time for row in rows], at),
        "quoted_at": _stated([row.quoted_at for row in rows]),
        "instrument_name": [row.name for row in rows],
        "expiry": stamps([row.expiry for row in rows], None),
        "underlying_price": [row.underlying for row in rows],
        "index_price_usd": [q.index_price for q in quotes],
    }


def trades(rows: list[Traded]) -> dict[str, Any]:
    """Return the columns of ``options_trades``."""
    chain = options([row.option for row in rows], None)
    names = "symbol time instrument_name expiry strike side iv index_price_usd underlying_price".split()
    in_coin = [row.option.quotes is not None and row.option.quotes.in_coin for row in rows]
    return {
        **{name: chain[name] for name in names},
        **_told(rows, "trade_id taker_side execution size"),
        "price_coin": [row.price if coin else None for row, coin in zip(rows, in_coin, strict=True)],
        "price_usd": [None if coin else row.price for row, coin in zip(rows, in_coin, strict=True)],
    }


def deliveries(rows: list[Delivery]) -> dict[str, Any]:
    """Return one price of each instant and contract: all options of an expiry have the same."""
    prices: dict[tuple[str, str, int], float] = {}
    for row in rows:
        earlier = prices.setdefault((row.symbol, row.contract, row.time), row.price)
        if earlier != row.price:
            what = f"{row.symbol} {row.contract}"
            raise SchemaError(f"{what} has two delivery prices at one time: {earlier} and {row.price}")
    return {
        "symbol": [symbol for symbol, _, _ in prices],
        "contract": [contract for _, contract, _ in prices],
        "time": stamps([time for _, _, time in prices], None),
        "price_usd": [*prices.values()],
    }


def indices(rows: list[IndexPoint]) -> dict[str, Any]:
    """Return the columns of ``volatility_index_published``."""
    _check_volatilities(row.index_pct / 100 for row in rows)
    return _told(rows, "symbol index_pct resolution") | {"time": stamps([row.time for row in rows], None)}
