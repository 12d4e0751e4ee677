"""Trades of options, delivery prices and published volatility indices, of the chains' own model.

An option is traded in the minute after a full hour with probability ``p = 1 − e^(−v/s)``, at that hour's
quotes: takers buy at the ask and sell at the bid, and blocks trade at the mark. ``v`` is the hour's turnover
of its open interest, ``s`` the usual size for the symbol on the venue. Sizes are exponential with mean
``v/p``, and six times as large for blocks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from derivdata.analysis.black76.kernels import implied_volatility
from derivdata.sources.sample import noise, option_model
from derivdata.sources.sample.noise import DAY_US, HOUR_US, STEP_US, instants
from derivdata.sources.sample.option_model import EXPIRY_US, listing, session, spot
from derivdata.sources.sample.options import chains
from derivdata.sources.sample.universe import joined, text
from derivdata.support.arrays import Floats, Ints
from derivdata.support.times import SECONDS_PER_YEAR

BUY_PROBABILITY = {"call": 0.46, "put": 0.58}
BLOCK_PROBABILITY = 0.03
BLOCK_SIZE = 6.0
INDEX_DAYS = 30.0
INDICES = {"binance": ("BTC", "ETH"), "deribit": ("BTC", "ETH")}
"""Venues that publish an index, and its symbols."""

_MOST_VOLATILITY = 5.0  # a higher implied volatility is missing
_AVERAGED = np.arange(-6, 1) * STEP_US
_COLUMNS = ("open_interest", "bid_coin", "bid_usd", "instrument_name")
_DRAWS = {name: noise.key("option trades", name) for name in ("traded", "second", "size", "side", "block")}
_Names = Sequence[str] | None


def trades(first: int, last: int, names: _Names, venues: _Names) -> dict[str, Any]:
    """Return the columns of the trades with ``first <= time < last`` [µs]."""
    hours = np.arange(first // HOUR_US, -(-last // HOUR_US)) * HOUR_US
    days = session(hours)
    by_day = [
        _traded(symbol, exchange, day, hours[days == day])
        for symbol, exchange in chains.markets(names, venues)
        for day in np.unique(days).tolist()
    ]
    values = joined(by_day)
    if not values:
        return {}
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
    """Return the trades in some hours of one trading day, by hour and option."""
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
    traded = {name: values[at] for name, values in rows.items()}
    size = -np.log1p(-drawn["size"][at]) * volume[at] / chance[at] * np.where(is_block[at], BLOCK_SIZE, 1.0)
    value = price[at] * (traded["underlying_price"] if unit == "coin" else 1.0)
    none = np.full(at.size, np.nan)
    return {
        "symbol": traded["symbol"],
        "exchange": traded["exchange"],
        "time": traded["time"] + (drawn["second"][at] * 60_000).astype(np.int64) * 1000,
        "instrument_name": traded["instrument_name"],
        "trade_id": hour[at].astype(str).astype(object),
        "expiry": traded["expiry"],
        "strike": traded["strike"],
        "side": traded["side"],
        "taker_side": (~is_buy[at]).astype(np.int8),
        "execution": (~is_block[at]).astype(np.int8),
        "size": np.maximum(np.round(size, 1), 0.1),
        "price_coin": price[at] if unit == "coin" else none,
        "price_usd": price[at] if unit == "usd" else none,
        "iv": _volatility(value, traded),
        "index_price_usd": traded["index_price_usd"],
        "underlying_price": traded["underlying_price"],
    }


def _volatility(value: Floats, rows: dict[str, Any]) -> Floats:
    """Return the implied volatility of option values [USD]; NaN without time value or above 500 %."""
    years = (rows["expiry"] - rows["time"]) / (SECONDS_PER_YEAR * 1e6)
    sign = np.where(rows["side"] == 0, 1.0, -1.0)
    rate = np.zeros(value.size)
    iv, _ = implied_volatility(
        value, rows["underlying_price"], rows["strike"], years, sign, rate, inverse=False
    )
    return np.where(iv < _MOST_VOLATILITY, np.round(iv, 4), np.nan)


def deliveries(first: int, last: int, names: _Names, venues: _Names) -> dict[str, Any]:
    """Return the delivery prices at 08:00 of each day: the mean index of the half hour before."""
    days = np.arange(-(-(first - EXPIRY_US) // DAY_US), -(-(last - EXPIRY_US) // DAY_US))
    time = days * DAY_US + EXPIRY_US

    def prices(symbol: str, _: str) -> dict[str, Floats]:
        averaged = spot(symbol, (time[:, None] + _AVERAGED).ravel()).reshape(-1, len(_AVERAGED))
        return {"price_usd": np.round(averaged.mean(axis=1), 6)}

    columns = _by_market(chains.markets(names, venues), time, prices)
    return columns and {**columns, "contract": _constant("index:USD", len(columns["time"]))}


def indices(first: int, last: int, names: _Names, venues: _Names) -> dict[str, Any]:
    """Return the 30-day volatility index of each hour, by the value of a log contract."""
    time = np.arange(-(-first // HOUR_US), -(-last // HOUR_US)) * HOUR_US
    markets = [
        (symbol, exchange)
        for symbol, exchange in chains.markets(names, venues)
        if symbol in INDICES.get(exchange, ())
    ]
    columns = _by_market(markets, time, lambda symbol, exchange: {"index_pct": index(symbol, exchange, time)})
    return columns and {**columns, "resolution": _constant("1h", len(columns["time"]))}


def _constant(word: str, size: int) -> Any:
    """Return a column with one word in each row."""
    return text(np.zeros(size, dtype=np.int8), (word,))


def index(symbol: str, exchange: str, time: Ints) -> Floats:
    """Return the index [%] at times [µs]."""
    years = np.full((1, len(time)), INDEX_DAYS / 365.0)
    variance = option_model.log_contract_variance(symbol, exchange, years, time)[0]
    return np.asarray(np.round(100.0 * np.sqrt(variance / years[0]), 2))


def _by_market(markets: Sequence[tuple[str, str]], time: Ints, values: Any) -> dict[str, Any]:
    """Return the columns of every market at the same times; `values` makes those of one market."""
    if not markets or not time.size:
        return {}
    columns = joined([values(symbol, exchange) for symbol, exchange in markets])
    count = np.full(len(markets), time.size)
    return {
        "symbol": text(np.repeat([chains.SYMBOLS.index(s) for s, _ in markets], count), chains.SYMBOLS),
        "exchange": text(np.repeat([chains.EXCHANGES.index(e) for _, e in markets], count), chains.EXCHANGES),
        "time": instants(np.tile(time, len(markets))),
        **columns,
    }
