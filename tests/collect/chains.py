"""Option chains of the fake venues: one surface without arbitrage, in four shapes.

Written from the specification of the venues' APIs, as `tests.collect.fakes` is. The total variance is that of
Gatheral and Jacquier's SSVI with the power law 0.5, whose parameters allow neither butterflies nor calendars.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, NamedTuple

INDEX = 50_000.0
STRIKES = range(30_000, 82_500, 5_000)
WEEKS = (0, 3, 7, 14)
LEVEL, RHO, ETA, CARRY = 0.6, -0.3, 0.8, 0.03
HALF_SPREAD = 0.005  # of volatility
DAY = 86_400
YEAR = 365 * DAY

Row = dict[str, Any]


class Option(NamedTuple):
    """One option: what the venue thinks of it now."""

    expiry: int
    strike: int
    side: str
    iv: float
    forward: float
    price: float
    bid: float
    ask: float
    delta: float
    gamma: float
    vega: float
    theta: float

    @property
    def date(self) -> datetime:
        """The instant of the expiry."""
        return datetime.fromtimestamp(self.expiry, UTC)

    @property
    def open_interest(self) -> float:
        """Coins."""
        return 1.0 + self.strike // 1000 % 7


def options(second: int) -> list[Option]:
    """All options that have not expired: those of some Fridays, 08:00 UTC."""
    friday = (second // DAY - 1) // 7 * 7 + 1  # 1970-01-02 was one
    first = friday * DAY + 8 * 3600
    first += 7 * DAY if first <= second else 0
    return [
        _option(second, first + weeks * 7 * DAY, strike, side)
        for weeks in WEEKS
        for strike in STRIKES
        for side in "CP"
    ]


def _option(second: int, expiry: int, strike: int, side: str) -> Option:
    years = (expiry - second) / YEAR
    forward = INDEX * math.exp(CARRY * years)
    iv = _iv(math.log(strike / forward), years)
    price, delta, gamma, vega, theta = _black(forward, strike, iv, years, side)
    bid, ask = (_black(forward, strike, iv + shift, years, side)[0] for shift in (-HALF_SPREAD, HALF_SPREAD))
    return Option(expiry, strike, side, iv, forward, price, bid, ask, delta, gamma, vega, theta)


def _iv(k: float, years: float) -> float:
    level = LEVEL**2 * years
    x = ETA / math.sqrt(level) * k
    variance = level / 2 * (1 + RHO * x + math.sqrt((x + RHO) ** 2 + 1 - RHO**2))
    return math.sqrt(variance / years)


def _black(f: float, k: float, iv: float, years: float, side: str) -> tuple[float, ...]:
    """Price, delta, gamma, vega per point and theta per day of Black-76 without discount."""
    deviation = iv * math.sqrt(years)
    d1 = math.log(f / k) / deviation + deviation / 2
    call = f * _normal(d1) - k * _normal(d1 - deviation)
    density = math.exp(-d1 * d1 / 2) / math.sqrt(2 * math.pi)
    vega = f * density * math.sqrt(years)
    price, delta = (call, _normal(d1)) if side == "C" else (call - f + k, _normal(d1) - 1)
    return max(price, 0.0), delta, density / (f * deviation), vega / 100, -vega * iv / (2 * years) / 365


def _normal(x: float) -> float:
    return 0.5 * math.erfc(-x / math.sqrt(2))


def chain(exchange: str, place: str, params: Row, ms: int) -> Any:
    """Return the body of a venue's option chain; None for another place."""
    made = CHAINS.get((exchange, place))
    return None if made is None else made(params, ms)


def _ticks(price: float, tick: float, rounding: Callable[[float], int]) -> float | None:
    """A quote in whole ticks; None where that is nothing."""
    ticks = rounding(price / tick + (-1e-9 if rounding is math.ceil else 1e-9))
    return round(ticks * tick, 10) or None


def _deribit(params: Row, ms: int) -> Any:
    base = params["currency"]
    if params.get("kind") != "option":
        return None
    rows = [
        {
            "instrument_name": f"{base}-{o.date:%-d%b%y}-{o.strike}-{o.side}".upper(),
            "base_currency": base,
            "quote_currency": base,
            "creation_timestamp": ms,
            "underlying_index": f"{base}-{o.date:%-d%b%y}".upper(),
            "underlying_price": o.forward,
            "estimated_delivery_price": INDEX,
            "interest_rate": 0.0,
            "open_interest": o.open_interest,
            "mark_price": o.price / o.forward,
            "mark_iv": 100 * o.iv,
            "bid_price": _ticks(o.bid / o.forward, 0.0001, math.floor),
            "ask_price": _ticks(o.ask / o.forward, 0.0001, math.ceil),
            "mid_price": None,
            "last": None,
            "low": None,
            "high": None,
            "price_change": None,
            "volume": 3.0,
            "volume_usd": 9.0,
        }
        for o in (options(ms // 1000) if base in ("BTC", "ETH") else [])
    ]
    return {"jsonrpc": "2.0", "result": rows, "usIn": ms * 1000, "usOut": ms * 1000 + 9}


def _bybit(params: Row, ms: int) -> Any:
    if params.get("category") != "option":
        return None
    base = params["baseCoin"]
    rows = [
        {
            "symbol": f"{base}-{o.date:%-d%b%y}-{o.strike}-{o.side}".upper(),
            "bid1Price": str(_ticks(o.bid, 5.0, math.floor) or 0),
            "bid1Size": "1",
            "bid1Iv": str(o.iv - HALF_SPREAD),
            "ask1Price": str(_ticks(o.ask, 5.0, math.ceil)),
            "ask1Size": "1",
            "ask1Iv": str(o.iv + HALF_SPREAD),
            "lastPrice": "0",
            "highPrice24h": "0",
            "lowPrice24h": "0",
            "markPrice": str(o.price),
            "indexPrice": str(INDEX),
            "markIv": str(o.iv),
            "underlyingPrice": str(o.forward),
            "openInterest": str(o.open_interest),
            "turnover24h": "9",
            "volume24h": "3",
            "totalVolume": "3",
            "totalTurnover": "9",
            "delta": str(o.delta),
            "gamma": str(o.gamma),
            "vega": str(o.vega),
            "theta": str(o.theta),
            "predictedDeliveryPrice": "0",
            "change24h": "0",
        }
        for o in (options(ms // 1000) if base in ("BTC", "ETH") else [])
    ]
    return {"retCode": 0, "retMsg": "OK", "result": {"category": "option", "list": rows}, "time": ms}


def _binance_marks(_: Row, ms: int) -> Any:
    return [
        {
            "symbol": f"{base}-{o.date:%y%m%d}-{o.strike}-{o.side}",
            "markPrice": str(o.price),
            "bidIV": str(o.iv - HALF_SPREAD),
            "askIV": "-1.0",  # no quote
            "markIV": str(o.iv),
            "delta": str(o.delta),
            "theta": str(o.theta),
            "gamma": str(o.gamma),
            "vega": str(o.vega),
            "highPriceLimit": "9",
            "lowPriceLimit": "1",
        }
        for base in ("BTC", "ETH")
        for o in options(ms // 1000)
    ]


def _binance_tickers(_: Row, ms: int) -> Any:
    return [
        {
            "symbol": f"{base}-{o.date:%y%m%d}-{o.strike}-{o.side}",
            "lastPrice": "0",
            "volume": "3",
            "amount": "9",
            "bidPrice": str(_ticks(o.bid, 5.0, math.floor) or 0),
            "askPrice": "0",
            "strikePrice": str(o.strike),
            "exercisePrice": str(INDEX),
        }
        for base in ("BTC", "ETH")
        for o in options(ms // 1000)
    ]


def _binance_interest(params: Row, ms: int) -> Any:
    base = params["underlyingAsset"]
    return [
        {
            "symbol": f"{base}-{o.date:%y%m%d}-{o.strike}-{o.side}",
            "sumOpenInterest": str(o.open_interest),
            "sumOpenInterestUsd": str(o.open_interest * INDEX),
            "timestamp": str(ms),
        }
        for o in options(ms // 1000)
        if f"{o.date:%y%m%d}" == params["expiration"]
    ]


CHAINS: dict[tuple[str, str], Callable[[Row, int], Any]] = {
    ("deribit", "/public/get_book_summary_by_currency"): _deribit,
    ("bybit", "/v5/market/tickers"): _bybit,
    ("binance", "/eapi/v1/mark"): _binance_marks,
    ("binance", "/eapi/v1/ticker"): _binance_tickers,
    ("binance", "/eapi/v1/openInterest"): _binance_interest,
}
