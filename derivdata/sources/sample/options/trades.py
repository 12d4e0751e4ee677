"""Trades of options, delivery prices and published volatility indices, of the chains' own model.

An option is traded in the minute after a full hour with probability ``p = 1 − e^(−v/s)``, at that hour's
quotes: takers buy at the ask and sell at the bid, and blocks are made at the mark. ``v`` is the hour's
turnover of its open interest, ``s`` the size that is usual for the symbol on the venue; the size is
exponential with mean ``v/p``, six times as much of a block.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from derivdata.analysis.black76.kernels import implied_volatility
from derivdata.sources.sample import noise
from derivdata.sources.sample.noise import DAY_US, HOUR_US, STEP_US, instants
from derivdata.sources.sample.options import bates, chains
from derivdata.sources.sample.options.listings import EXPIRY_US, listing, session, spot
from derivdata.sources.sample.universe import text
from derivdata.support.arrays import Floats, Ints
from derivdata.support.times import SECONDS_PER_YEAR

BUY_PROBABILITY = {"call": 0.46, "put": 0.58}
BLOCK_PROBABILITY = 0.03
BLOCK_SIZE = 6.0
INDEX_DAYS = 30.0
INDICES = {"binance": ("BTC", "ETH"), "deribit": ("BTC", "ETH")}
"""Venues that publish an index, and of what."""

_MOST_VOLATILITY = 5.0  # what is worth more by the day's last quotes has none
_AVERAGED = np.arange(-6, 1) * STEP_US
_COLUMNS = ("open_interest", "bid_coin", "bid_usd", "instrument_name")
_DRAWS = {name: noise.key("option trades", name) for name in ("traded", "second", "size", "side", "block")}
_Names = Sequence[str] | None


def trades(first: int, last: int, names: _Names, venues: _Names) -> dict[str, Any]:
    """Return the columns of the trades with ``first <= time < last`` [µs]."""
    hours = np.arange(first // HOUR_US, -(-last // HOUR_US)) * HOUR_US
    days = session(hours)
    parts = [
        _traded(symbol, exchange, day, hours[days == day])
        for symbol, exchange in chains.markets(names, venues)
        for day in np.unique(days).tolist()
    ]
    if not parts:
        return {}
    values = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    inside = (values["time"] >= first) & (values["time"] < last)
    values = {name: column[inside] for name, column in values.items()}
    return values | {
        "symbol": text(values["symbol"], chains.SYMBOLS),
        "exchange": text(values["exchange"], chains.EXCHANGES),
        "side": text(values["side"], ("call", "put")),
        "taker_side": text(values["taker_side"], ("buy", "sell")),
        "execution": text(values["execution"], ("block", "book")),
        "time": instants(values["time"]),
        "expiry": instants(values["expiry"]),
    }


def _traded(symbol: str, exchange: str, day: int, hours: Ints) -> dict[str, Any]:
    """Return the trades of the hours of one trading day, of all options by hour."""
    rows = chains.chain(symbol, exchange, day, hours, _COLUMNS)
    listed = listing(symbol, exchange, day)
    count = len(hours)
    hour = np.repeat(hours // HOUR_US, len(listed.strike))
    drawn = {
        name: noise.uniform(np.tile(listed.streams, count) ^ stream, hour) for name, stream in _DRAWS.items()
    }
    turnover = chains.turnover(symbol, exchange, hours // HOUR_US)
    coins = rows["open_interest"] * chains.contract_coins(symbol, exchange)
    volume = coins * np.repeat(turnover, len(listed.strike))
    usual = chains.TURNOVER * chains.usual_size(symbol, exchange)
    chance = -np.expm1(-volume / usual)
    is_call = rows["side"] == 0
    is_block = drawn["block"] < BLOCK_PROBABILITY
    is_buy = drawn["side"] < np.where(is_call, *BUY_PROBABILITY.values())
    unit = "coin" if "mark_coin" in rows else "usd"
    quoted = np.where(is_buy, rows[f"ask_{unit}"], rows[f"bid_{unit}"])
    price = np.where(is_block, rows[f"mark_{unit}"], quoted)
    at = np.flatnonzero((drawn["traded"] < chance) & (price > 0.0))
    kept = {name: values[at] for name, values in rows.items()}
    size = -np.log1p(-drawn["size"][at]) * volume[at] / chance[at] * np.where(is_block[at], BLOCK_SIZE, 1.0)
    value = price[at] * (kept["underlying_price"] if unit == "coin" else 1.0)
    none = np.full(at.size, np.nan)
    return {
        "symbol": kept["symbol"],
        "exchange": kept["exchange"],
        "time": kept["time"] + (drawn["second"][at] * 60_000).astype(np.int64) * 1000,
        "instrument_name": kept["instrument_name"],
        "trade_id": hour[at].astype(str).astype(object),
        "expiry": kept["expiry"],
        "strike": kept["strike"],
        "side": kept["side"],
        "taker_side": (~is_buy[at]).astype(np.int8),
        "execution": (~is_block[at]).astype(np.int8),
        "size": np.maximum(np.round(size, 1), 0.1),
        "price_coin": price[at] if unit == "coin" else none,
        "price_usd": price[at] if unit == "usd" else none,
        "iv": _volatility(value, kept),
        "index_price_usd": kept["index_price_usd"],
        "underlying_price": kept["underlying_price"],
    }


def _volatility(value: Floats, rows: dict[str, Any]) -> Floats:
    """Return the volatility at which options are worth so many USD; NaN without time value or above 500 %."""
    years = (rows["expiry"] - rows["time"]) / (SECONDS_PER_YEAR * 1e6)
    sign = np.where(rows["side"] == 0, 1.0, -1.0)
    rate = np.zeros(value.size)
    found, _ = implied_volatility(
        value, rows["underlying_price"], rows["strike"], years, sign, rate, inverse=False
    )
    return np.where(found < _MOST_VOLATILITY, np.round(found, 4), np.nan)


def deliveries(first: int, last: int, names: _Names, venues: _Names) -> dict[str, Any]:
    """Return the prices at 08:00 of each day: the mean of the index over the half hour before."""
    days = np.arange(-(-(first - EXPIRY_US) // DAY_US), -(-(last - EXPIRY_US) // DAY_US))
    time = days * DAY_US + EXPIRY_US
    columns = _by_market(
        chains.markets(names, venues),
        time,
        lambda symbol, _: {
            "price_usd": np.round(
                spot(symbol, (time[:, None] + _AVERAGED).ravel()).reshape(-1, 7).mean(axis=1), 6
            )
        },
    )
    return columns and {**columns, "contract": _constant("index:USD", len(columns["time"]))}


def indices(first: int, last: int, names: _Names, venues: _Names) -> dict[str, Any]:
    """Return the volatility of 30 days of each hour: that of a contract on the logarithm of the price."""
    time = np.arange(-(-first // HOUR_US), -(-last // HOUR_US)) * HOUR_US
    chosen = [one for one in chains.markets(names, venues) if one[0] in INDICES.get(one[1], ())]
    columns = _by_market(chosen, time, lambda symbol, exchange: {"index_pct": index(symbol, exchange, time)})
    return columns and {**columns, "resolution": _constant("1h", len(columns["time"]))}


def _constant(word: str, size: int) -> Any:
    """Return a column with one word in each row."""
    return text(np.zeros(size, dtype=np.int8), (word,))


def index(symbol: str, exchange: str, time: Ints) -> Floats:
    """Return the index [%] at some instants [µs]."""
    years = np.full((1, len(time)), INDEX_DAYS / 365.0)
    variance = bates.log_contract_variance(symbol, exchange, years, time)[0]
    return np.asarray(np.round(100.0 * np.sqrt(variance / years[0]), 2))


def _by_market(markets: Sequence[tuple[str, str]], time: Ints, values: Any) -> dict[str, Any]:
    if not markets or not time.size:
        return {}
    parts = [values(symbol, exchange) for symbol, exchange in markets]
    count = np.full(len(markets), time.size)
    return {
        "symbol": text(np.repeat([chains.SYMBOLS.index(s) for s, _ in markets], count), chains.SYMBOLS),
        "exchange": text(np.repeat([chains.EXCHANGES.index(e) for _, e in markets], count), chains.EXCHANGES),
        "time": instants(np.tile(time, len(markets))),
        **{name: np.concatenate([part[name] for part in parts]) for name in parts[0]},
    }
