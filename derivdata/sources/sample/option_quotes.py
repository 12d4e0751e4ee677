"""Quotes, trades, delivery prices and volatility indices of the options that the sample lists.

Bids, asks and marks are on the venue's tick, and spreads are at most one tick wider than the market makers'
spread. Deribit's and OKX's options on BTC and ETH are paid in the coin, with a tick of 0.0001 coin below a
price of 0.005, else 0.0005. All others are paid in USD, with a tick of 1, 2, 2.5 or 5 times a power of ten:
the smallest one of at least 0.004 % of the coin's price, 5 USD for BTC. Marks have a hundredth of the
smallest tick.

An option is traded in the minute after a full hour with probability ``p = 1 − e^(−v/s)``, at that hour's
quotes: takers buy at the ask and sell at the bid, and blocks trade at the mark. ``v`` is the hour's turnover
of its open interest, ``s`` the usual size for the symbol on the venue. Sizes are exponential with mean
``v/p``, and six times as large for blocks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from scipy.special import ndtr

from derivdata.analysis.black76 import kernels as black
from derivdata.analysis.black76.kernels import implied_volatility
from derivdata.sources.sample import noise, option_model
from derivdata.sources.sample.noise import DAY_US, HOUR_US, STEP_US, timestamps
from derivdata.sources.sample.option_model import (
    EXPIRY_US,
    Forwards,
    Listing,
    forwards,
    instrument_names,
    listing,
    nice,
    session,
    spot,
)
from derivdata.sources.sample.universe import joined, symbols, take_rows, text
from derivdata.support.arrays import Floats, Ints
from derivdata.support.times import SECONDS_PER_YEAR
from derivdata.tables.contracts import option_coins
from derivdata.tables.endpoints import OPTIONS_MATRIX

SYMBOLS = tuple(sorted(OPTIONS_MATRIX))
EXCHANGES = tuple(sorted(set().union(*OPTIONS_MATRIX.values())))

GREEKS: dict[str, tuple[float, float] | None] = {
    "deribit": (0.01, 1.0 / 365.0),
    "bybit": (0.01, 1.0 / 365.0),
    "binance": (0.01, 1.0 / 365.0),
    "derive": (0.01, 1.0 / 365.0),
    "okx": None,
}
"""Units of vega [per 1.00 of volatility] and theta [per year] by venue; None for a venue without greeks."""

_QUOTES = "bid_coin ask_coin mark_coin bid_usd ask_usd mark_usd index_price_usd".split()
# Open interest of a venue as a multiple of Deribit's.
_OI_OF_DERIBIT = {"deribit": 1.0, "okx": 0.25, "binance": 0.3, "bybit": 0.3, "derive": 0.08}
_SPREADS_STREAM = noise.key("options spreads")
_COIN_VENUES = ("deribit", "okx")  # venues with options paid in the coin
_COIN_SYMBOLS = ("BTC", "ETH")
_COIN_TICKS = (0.0001, 0.0005)  # [coin], below and from `_COIN_STEP` on
_COIN_STEP = 0.005  # price of an option [coin]
_USD_TICK = 4e-5  # share of the coin's price, rounded to a usual tick
_HALF_SPREAD_VOL = {"deribit": 0.002, "okx": 0.004, "binance": 0.005, "bybit": 0.005, "derive": 0.006}
"""Half of a typical spread [1/√year], before rounding to ticks."""
_HALF_SPREAD_INTRINSIC = 0.01  # additional share of the intrinsic value, for hedging with the future
_Names = Sequence[str] | None
TURNOVER = 0.02
"""Volume of a typical hour as a share of open interest."""

_VOLUME_STREAM = noise.key("options volume")
_HOURS_PER_DAY = 24


def option_markets(names: _Names, venues: _Names) -> list[tuple[str, str]]:
    """Return symbol and venue of the requested chains, sorted; None is all."""
    return [
        (symbol, exchange)
        for symbol in SYMBOLS
        if names is None or symbol in names
        for exchange in sorted(OPTIONS_MATRIX[symbol])
        if venues is None or exchange in venues
    ]


def chains(
    first: int, last: int, names: _Names, venues: _Names, columns: _Names = None, *, near_money: bool = False
) -> dict[str, Any]:
    """Return the columns of the hourly chains with ``first <= time < last`` [µs], or some of them."""
    return _labelled_chains(noise.grid(first, last, HOUR_US), names, venues, columns, near_money)


def newest_chains(first: int, last: int, names: _Names, venues: _Names) -> dict[str, Any]:
    """Return the columns of the newest chain with ``first <= time <= last`` [µs] of each symbol and venue."""
    hour = last // HOUR_US * HOUR_US
    if hour < first:
        return {}
    return _labelled_chains(np.array([hour]), names, venues)


def usual_size(symbol: str, exchange: str) -> float:
    """Return the largest open interest of an option at the money [contracts]."""
    symbol_code = symbols().name.index(symbol)
    return float(0.004 * symbols().oi[symbol_code] / symbols().price[symbol_code] * _OI_OF_DERIBIT[exchange])


def option_turnover(symbol: str, exchange: str, hours: Ints) -> Floats:
    """Return the volume of each hour as a share of open interest."""
    shock = noise.normal(noise.key("options", symbol, exchange) ^ _VOLUME_STREAM, hours)
    return np.asarray(TURNOVER * np.exp(0.5 * shock))


def open_interest(symbol: str, exchange: str, trading_day: int, time: Ints) -> Floats:
    """Return open interest [contracts]: larger near the money at the day's opening, and growing with age."""
    listed = listing(symbol, exchange, trading_day)
    # 1. A normal shape over log-moneyness at the opening of the trading day.
    opening = np.array([trading_day * DAY_US + EXPIRY_US])
    curve = forwards(symbol, exchange, listed.expiry, opening)
    variance = option_model.typical_variance(symbol, exchange, curve.year_fraction, opening)
    width = 0.9 * np.sqrt(variance[listed.expiry_row]) + 0.08
    k = np.log(listed.strike[:, None] / curve.underlying_price[listed.expiry_row])
    # 2. The age in months, a constant size of each option, and a line between random numbers of each day.
    age = ((time - EXPIRY_US) / DAY_US - listed.listed[listed.expiry_row][:, None]) / 30.0
    day = time // DAY_US
    drawn = noise.uniform(listed.streams[:, None], np.arange(day[0], day[-1] + 2))
    today = drawn[:, day - day[0]]
    tomorrow = drawn[:, day - day[0] + 1]
    drift = today + (tomorrow - today) * (time / DAY_US - day)
    share = (0.1 + 0.9 * noise.uniform(listed.streams, 0)[:, None]) ** 3
    size = usual_size(symbol, exchange)
    coins = size * share * age / (1.0 + age) * (0.8 + 0.4 * drift) * np.exp(-0.5 * (k / width) ** 2)
    return np.asarray(np.round(coins / contract_coins(symbol, exchange), 1))


def contract_coins(symbol: str, exchange: str) -> float:
    """Return the coins of one contract."""
    return option_coins(exchange, symbol) or 1.0


def _labelled_chains(
    hours: Ints, names: _Names, venues: _Names, columns: _Names = None, near_money: bool = False
) -> dict[str, Any]:
    """Return the chains of all markets at some hours, as labelled columns."""
    sessions = option_sessions(hours, names, venues)
    by_day = [chain(*session_hours, columns, near_money=near_money) for session_hours in sessions]
    if not by_day:
        return {}
    # Chains paid in the coin lack prices in USD, and chains paid in USD lack prices in coin.
    all_columns = set().union(*by_day)
    for rows in by_day:
        missing = np.full(len(rows["time"]), np.nan)
        rows |= dict.fromkeys(sorted(all_columns - rows.keys()), missing)
    return _labelled(joined(by_day))


def _labelled(columns: dict[str, Any]) -> dict[str, Any]:
    """Replace codes of symbols, venues and sides by text, and microseconds by times."""
    return columns | {
        "symbol": text(columns["symbol"], SYMBOLS),
        "exchange": text(columns["exchange"], EXCHANGES),
        "side": text(columns["side"], ("call", "put")),
        "time": timestamps(columns["time"]),
        "expiry": timestamps(columns["expiry"]),
    }


def option_sessions(hours: Ints, names: _Names, venues: _Names) -> Iterator[tuple[str, str, int, Ints]]:
    """Yield symbol, venue, trading day and times [µs] of each market and trading day of some hours."""
    days = session(hours)
    for symbol, exchange in option_markets(names, venues):
        for day in np.unique(days).tolist():
            yield symbol, exchange, day, hours[days == day]


def chain(
    symbol: str, exchange: str, trading_day: int, time: Ints, names: _Names, *, near_money: bool = False
) -> dict[str, Any]:
    """Return the columns of the options snapshot at times [µs] of one trading day, rounded.

    `names` are the columns to return besides key, volatility and forward; None is all. With `near_money`
    only the strikes nearest to the forward are included.
    """

    def wanted(*columns: str) -> bool:
        return names is None or not set(columns).isdisjoint(names)

    # 1. The listed options, with their forwards and volatilities.
    listed = listing(symbol, exchange, trading_day)
    curve = forwards(symbol, exchange, listed.expiry, time)
    if near_money:
        # Take the strikes that are nearest to the forward at any time; strikes are sorted by expiry.
        distance = np.abs(listed.strike[:, None] - curve.underlying_price[listed.expiry_row])
        opens = np.flatnonzero(np.diff(listed.expiry_row, prepend=-1))
        smallest = np.minimum.reduceat(distance, opens, axis=0)[listed.expiry_row]
        listed = listed.take(np.flatnonzero((distance <= smallest + 1e-5).any(axis=1)))
    forward = curve.underlying_price[listed.expiry_row]
    k = np.log(listed.strike[:, None] / forward)  # log-moneyness
    w = option_model.total_variance(symbol, exchange, curve.year_fraction, time, k, listed.expiry_row)
    iv = np.sqrt(w / curve.year_fraction[listed.expiry_row])
    # 2. The requested columns by option and time.
    columns: dict[str, Floats] = {
        "iv": np.asarray(np.round(iv, 4)),
        "underlying_price": np.round(forward, 6),
    }
    if wanted("open_interest"):
        columns["open_interest"] = open_interest(symbol, exchange, trading_day, time)
    if wanted("delta", "gamma", "vega", "theta"):
        columns |= _greeks(exchange, listed, curve, k, w)
    if wanted(*_QUOTES):
        columns |= _quote_columns(symbol, exchange, listed, curve, time, k, w)
    # 3. One row for each time and option; + 0.0 removes −0.0.
    rows = {name: np.ascontiguousarray(values.T).ravel() + 0.0 for name, values in columns.items()}
    count = len(time)
    keys = {
        "symbol": np.full(count * len(listed.strike), SYMBOLS.index(symbol), dtype=np.int8),
        "exchange": np.full(count * len(listed.strike), EXCHANGES.index(exchange), dtype=np.int8),
        "time": np.repeat(time, len(listed.strike)),
        "expiry": np.tile(listed.expiry[listed.expiry_row] * DAY_US + EXPIRY_US, count),
        "strike": np.tile(listed.strike, count),
        "side": np.tile((~listed.call).astype(np.int8), count),
    }
    if wanted("instrument_name"):
        keys["instrument_name"] = np.tile(instrument_names(symbol, exchange, listed), count)
    return keys | rows


def _quote_columns(
    symbol: str, exchange: str, listed: Listing, curve: Forwards, time: Ints, k: Floats, w: Floats
) -> dict[str, Floats]:
    """Return bid, ask and mark in the venue's currency, and the index price."""
    # Prices in units of the forward are prices in the coin.
    unit = curve.underlying_price[listed.expiry_row]
    if _is_inverse(symbol, exchange):
        unit = np.ones_like(unit)
    # In units of the forward the strike is exp(k), so a put is worth exp(k) − 1 at expiry, a call 1 − exp(k).
    sign = np.where(listed.call, -1.0, 1.0)[:, None]
    intrinsic = np.maximum(sign * np.expm1(k), 0.0)
    root = np.sqrt(w)
    # `black.time_value` is in units of the geometric mean of forward and strike, exp(k / 2).
    time_value = black.time_value(np.abs(k).ravel(), root.ravel()).reshape(k.shape) * np.exp(0.5 * k)
    d1 = -k / root + 0.5 * root
    vega = np.exp(-0.5 * d1 * d1) * np.sqrt(curve.year_fraction[listed.expiry_row] / (2.0 * np.pi))
    hours = time // HOUR_US
    width = 0.7 + 0.6 * noise.uniform((listed.streams ^ _SPREADS_STREAM)[:, None], hours)
    prices = _quotes(symbol, exchange, unit * (intrinsic + time_value), unit * vega, unit * intrinsic, width)
    return prices | {"index_price_usd": np.broadcast_to(np.round(curve.spot, 6), k.shape)}


def _greeks(exchange: str, listed: Listing, curve: Forwards, k: Floats, w: Floats) -> dict[str, Floats]:
    """Return the Black-76 greeks with r = 0 in the venue's units; NaN for a venue without greeks."""
    units = GREEKS[exchange]
    if units is None:
        return dict.fromkeys(("delta", "gamma", "vega", "theta"), np.full(k.shape, np.nan))
    vega_unit, theta_unit = units
    root = np.sqrt(w)
    years = curve.year_fraction[listed.expiry_row]
    forward = curve.underlying_price[listed.expiry_row]
    d1 = -k / root + 0.5 * root
    density = np.exp(-0.5 * d1 * d1) / np.sqrt(2.0 * np.pi)
    vega = forward * density * np.sqrt(years)
    return {
        "delta": np.round(np.where(listed.call[:, None], ndtr(d1), ndtr(d1) - 1.0), 6),
        "gamma": np.round(density / (forward * root), 10),
        "vega": np.round(vega_unit * vega, 6),
        "theta": np.round(-theta_unit * vega * root / (2.0 * years * np.sqrt(years)), 6),
    }


def _is_inverse(symbol: str, exchange: str) -> bool:
    return exchange in _COIN_VENUES and symbol in _COIN_SYMBOLS


def _ticks(symbol: str, exchange: str, price: Floats) -> Floats:
    """Return the tick of each price, in the venue's currency."""
    if _is_inverse(symbol, exchange):
        return np.where(price < _COIN_STEP, *_COIN_TICKS)
    return np.full(price.shape, nice(symbols().price[symbols().name.index(symbol)] * _USD_TICK))


def _quotes(
    symbol: str, exchange: str, mark: Floats, vega: Floats, intrinsic: Floats, width: Floats
) -> dict[str, Floats]:
    """Return bid, ask and mark in the venue's currency, coin or USD; a bid below a tick is NaN.

    `width` is the spread as a multiple of the typical one.
    """
    half_spread = width * (_HALF_SPREAD_VOL[exchange] * vega + _HALF_SPREAD_INTRINSIC * intrinsic)
    low = mark - half_spread
    high = mark + half_spread
    low_tick = _ticks(symbol, exchange, low)
    high_tick = _ticks(symbol, exchange, high)
    # The margin preserves prices that are on the tick except for rounding.
    bid = np.floor(low / low_tick + 1e-9) * low_tick
    ask = np.maximum(np.ceil(high / high_tick - 1e-9), 1.0) * high_tick
    unit = "coin" if _is_inverse(symbol, exchange) else "usd"
    smallest = float(_ticks(symbol, exchange, np.zeros(1))[0])
    digits = int(np.ceil(-np.log10(smallest))) + 2
    return {
        f"bid_{unit}": np.where(bid >= low_tick * 0.5, np.round(bid, digits), np.nan),
        f"ask_{unit}": np.round(ask, digits),
        f"mark_{unit}": np.round(mark, digits),
    }


def overview(
    first: int, last: int, names: Sequence[str] | None, venues: Sequence[str] | None
) -> dict[str, Any]:
    """Return the hourly overview with ``first <= time < last`` [µs]; volume is of the 24 hours before."""
    time = noise.grid(first, last, HOUR_US)

    def notional(symbol: str, exchange: str) -> dict[str, Floats]:
        hours = np.arange(time[0] // HOUR_US - _HOURS_PER_DAY, time[-1] // HOUR_US + 1)
        return _notional(symbol, exchange, hours)

    return _by_market(option_markets(names, venues), time, notional)


def _notional(symbol: str, exchange: str, hours: Ints) -> dict[str, Floats]:
    """Return the overview of a market in each hour after the first 24 [USD].

    It is the open interest, and the volume of the 24 hours before. `hours` are counted from 1970.
    """
    days = session(hours * HOUR_US)
    by_day = []
    for day in np.unique(days).tolist():
        listed = listing(symbol, exchange, day)
        time = hours[days == day] * HOUR_US
        forward = forwards(symbol, exchange, listed.expiry, time).underlying_price[listed.expiry_row]
        coins = open_interest(symbol, exchange, day, time) * contract_coins(symbol, exchange)
        by_day.append(np.round((coins * np.round(forward, 6)).sum(axis=0), 2))
    oi = np.concatenate(by_day)
    running = np.concatenate([[0.0], np.cumsum(option_turnover(symbol, exchange, hours) * oi)])
    volume = running[_HOURS_PER_DAY:-1] - running[: -_HOURS_PER_DAY - 1]
    return {"notional_oi_usd": oi[_HOURS_PER_DAY:], "notional_volume_24h_usd": np.round(volume, 2)}


BUY_PROBABILITY = {"call": 0.46, "put": 0.58}
BLOCK_PROBABILITY = 0.03
BLOCK_SIZE = 6.0
"""Probability that the taker buys, that a trade is a block, and mean size of blocks over other trades."""
INDEX_DAYS = 30.0
INDICES = {"binance": ("BTC", "ETH"), "deribit": ("BTC", "ETH")}
"""Venues that publish an index, and its symbols."""

_MAX_VOLATILITY = 5.0  # higher implied volatilities are missing
_DELIVERY_OFFSETS = np.arange(-6, 1) * STEP_US  # the half hour before a delivery
_TRADE_COLUMNS = ("open_interest", "bid_coin", "bid_usd", "instrument_name")
_TRADE_STREAMS = {
    name: noise.key("option trades", name) for name in ("traded", "second", "size", "side", "block")
}


def trades(first: int, last: int, names: _Names, venues: _Names) -> dict[str, Any]:
    """Return the columns of the trades with ``first <= time < last`` [µs]."""
    hours = np.arange(first // HOUR_US, -(-last // HOUR_US)) * HOUR_US
    values = joined([_trades_of_day(*hours_of_day) for hours_of_day in option_sessions(hours, names, venues)])
    if not values:
        return {}
    inside = (values["time"] >= first) & (values["time"] < last)
    values = take_rows(values, inside)
    return _labelled(values) | {
        "taker_side": text(values["taker_side"], ("buy", "sell")),
        "execution": text(values["execution"], ("block", "book")),
    }


def _trades_of_day(symbol: str, exchange: str, day: int, hours: Ints) -> dict[str, Any]:
    """Return the trades in some hours of one trading day, by hour and option."""
    # 1. The probability of a trade of each option in each hour.
    rows = chain(symbol, exchange, day, hours, _TRADE_COLUMNS)
    listed = listing(symbol, exchange, day)
    count = len(hours)
    hour = np.repeat(hours // HOUR_US, len(listed.strike))
    streams = np.tile(listed.streams, count)
    drawn = {name: noise.uniform(streams ^ stream, hour) for name, stream in _TRADE_STREAMS.items()}
    turnover = option_turnover(symbol, exchange, hours // HOUR_US)
    coins = rows["open_interest"] * contract_coins(symbol, exchange)
    volume = coins * np.repeat(turnover, len(listed.strike))
    usual = TURNOVER * usual_size(symbol, exchange)
    probability = -np.expm1(-volume / usual)
    # 2. Side and price of each trade.
    is_call = rows["side"] == 0
    is_block = drawn["block"] < BLOCK_PROBABILITY
    is_buy = drawn["side"] < np.where(is_call, *BUY_PROBABILITY.values())
    unit = "coin" if "mark_coin" in rows else "usd"
    quoted = np.where(is_buy, rows[f"ask_{unit}"], rows[f"bid_{unit}"])
    price = np.where(is_block, rows[f"mark_{unit}"], quoted)
    # 3. The rows with a trade.
    has_trade = np.flatnonzero((drawn["traded"] < probability) & (price > 0.0))
    traded = take_rows(rows, has_trade)
    # Exponential with mean volume / probability, so that the expected volume is that of the turnover.
    exponential = -np.log1p(-drawn["size"][has_trade])
    block_factor = np.where(is_block[has_trade], BLOCK_SIZE, 1.0)
    size = exponential * volume[has_trade] / probability[has_trade] * block_factor
    # The trade is in the minute after the hour, at a whole millisecond.
    offset_ms = (drawn["second"][has_trade] * 60_000).astype(np.int64)
    value = price[has_trade]  # [USD]
    if unit == "coin":
        value = value * traded["underlying_price"]
    prices = dict.fromkeys(("price_coin", "price_usd"), np.full(has_trade.size, np.nan))
    prices[f"price_{unit}"] = price[has_trade]
    return {
        "symbol": traded["symbol"],
        "exchange": traded["exchange"],
        "time": traded["time"] + offset_ms * 1000,
        "instrument_name": traded["instrument_name"],
        "trade_id": hour[has_trade].astype(str).astype(object),
        "expiry": traded["expiry"],
        "strike": traded["strike"],
        "side": traded["side"],
        "taker_side": (~is_buy[has_trade]).astype(np.int8),
        "execution": (~is_block[has_trade]).astype(np.int8),
        "size": np.maximum(np.round(size, 1), 0.1),
        **prices,
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
    return np.where(iv < _MAX_VOLATILITY, np.round(iv, 4), np.nan)


def deliveries(first: int, last: int, names: _Names, venues: _Names) -> dict[str, Any]:
    """Return the delivery prices at 08:00 of each day: the mean index of the half hour before."""
    time = noise.grid(first - EXPIRY_US, last - EXPIRY_US, DAY_US) + EXPIRY_US

    def prices(symbol: str, _: str) -> dict[str, Floats]:
        averaged_times = time[:, None] + _DELIVERY_OFFSETS
        index_prices = spot(symbol, averaged_times.ravel()).reshape(averaged_times.shape)
        return {"price_usd": np.round(index_prices.mean(axis=1), 6)}

    columns = _by_market(option_markets(names, venues), time, prices)
    return _with_constant(columns, "contract", "index:USD")


def indices(first: int, last: int, names: _Names, venues: _Names) -> dict[str, Any]:
    """Return the 30-day volatility index of each hour, by the value of a log contract."""
    time = noise.grid(first, last, HOUR_US)
    markets = [
        (symbol, exchange)
        for symbol, exchange in option_markets(names, venues)
        if symbol in INDICES.get(exchange, ())
    ]
    columns = _by_market(markets, time, lambda symbol, exchange: {"index_pct": index(symbol, exchange, time)})
    return _with_constant(columns, "resolution", "1h")


def _with_constant(columns: dict[str, Any], name: str, word: str) -> dict[str, Any]:
    """Return columns with another one that has the same word in each row; {} without columns."""
    if not columns:
        return {}
    return {**columns, name: text(np.zeros(len(columns["time"]), dtype=np.int8), (word,))}


def index(symbol: str, exchange: str, time: Ints) -> Floats:
    """Return the volatility index of a venue [%] at times [µs]."""
    years = np.full((1, len(time)), INDEX_DAYS / 365.0)
    variance = option_model.log_contract_variance(symbol, exchange, years, time)[0]
    return np.asarray(np.round(100.0 * np.sqrt(variance / years[0]), 2))


def _by_market(markets: Sequence[tuple[str, str]], time: Ints, values: Any) -> dict[str, Any]:
    """Return the columns of all markets at the same times; `values(symbol, exchange)` has those of one."""
    if not markets or not time.size:
        return {}
    columns = joined([values(symbol, exchange) for symbol, exchange in markets])
    return {
        "symbol": text(np.repeat([SYMBOLS.index(s) for s, _ in markets], time.size), SYMBOLS),
        "exchange": text(np.repeat([EXCHANGES.index(e) for _, e in markets], time.size), EXCHANGES),
        "time": timestamps(np.tile(time, len(markets))),
        **columns,
    }
