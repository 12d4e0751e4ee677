"""Records of options become tables: chains, trades, delivery prices, published volatility indices."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from derivdata.errors import SchemaError
from derivdata.sources.venues.record_types import Delivery, IndexPoint, Option, Traded
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
            raise SchemaError(
                f"the median of {len(volatilities)} volatilities is {middle:g}: in another unit"
            )


def options(rows: list[Option], at: int | None) -> dict[str, Any]:
    """Return the columns of ``options_snapshot``; `at` [µs] is the time of rows that have none."""
    _check_volatilities(row.iv for row in rows)
    quotes = [row.quotes for row in rows]
    return {
        "symbol": [row.symbol for row in rows],
        "time": stamps([row.time for row in rows], at),
        "instrument_name": [row.name for row in rows],
        "expiry": stamps([row.expiry for row in rows], None),
        "strike": [row.strike for row in rows],
        "side": [row.side for row in rows],
        "iv": [row.iv for row in rows],
        "delta": [row.delta for row in rows],
        "gamma": [row.gamma for row in rows],
        "vega": [row.vega for row in rows],
        "theta": [row.theta for row in rows],
        "rho": [row.rho for row in rows],
        "open_interest": [row.open_interest for row in rows],
        "underlying_price": [row.underlying for row in rows],
        "bid_coin": [q.bid if q and q.in_coin else None for q in quotes],
        "ask_coin": [q.ask if q and q.in_coin else None for q in quotes],
        "mark_coin": [q.mark if q and q.in_coin else None for q in quotes],
        "bid_usd": [q.bid if q and not q.in_coin else None for q in quotes],
        "ask_usd": [q.ask if q and not q.in_coin else None for q in quotes],
        "mark_usd": [q.mark if q and not q.in_coin else None for q in quotes],
        "index_price_usd": [q.index_price if q else None for q in quotes],
        "volume": [q.volume if q else None for q in quotes],
    }


def trades(rows: list[Traded]) -> dict[str, Any]:
    """Return the columns of ``options_trades``."""
    _check_volatilities([row.option.iv for row in rows])
    in_coin = [row.option.quotes is not None and row.option.quotes.in_coin for row in rows]
    return {
        "symbol": [row.option.symbol for row in rows],
        "time": stamps([row.option.time for row in rows], None),
        "instrument_name": [row.option.name for row in rows],
        "trade_id": [row.trade_id for row in rows],
        "expiry": stamps([row.option.expiry for row in rows], None),
        "strike": [row.option.strike for row in rows],
        "side": [row.option.side for row in rows],
        "taker_side": [row.taker_side for row in rows],
        "execution": [row.execution for row in rows],
        "size": [row.size for row in rows],
        "price_coin": [row.price if coin else None for row, coin in zip(rows, in_coin, strict=True)],
        "price_usd": [None if coin else row.price for row, coin in zip(rows, in_coin, strict=True)],
        "iv": [row.option.iv for row in rows],
        "index_price_usd": [row.option.quotes.index_price if row.option.quotes else None for row in rows],
        "underlying_price": [row.option.underlying for row in rows],
    }


def deliveries(rows: list[Delivery]) -> dict[str, Any]:
    """Return one price of each instant: futures and options of an expiry have the same."""
    prices: dict[tuple[str, int], float] = {}
    for row in rows:
        if prices.setdefault((row.symbol, row.time), row.price) != row.price:
            raise SchemaError(f"{row.symbol} is delivered at {row.price} and at another price at once")
    return {
        "symbol": [symbol for symbol, _ in prices],
        "time": stamps([time for _, time in prices], None),
        "price_usd": [*prices.values()],
    }


def indices(rows: list[IndexPoint]) -> dict[str, Any]:
    """Return the columns of ``volatility_index_published``."""
    _check_volatilities([row.index_pct / 100 for row in rows])
    return {
        "symbol": [row.symbol for row in rows],
        "time": stamps([row.time for row in rows], None),
        "index_pct": [row.index_pct for row in rows],
        "resolution": [row.resolution for row in rows],
    }
