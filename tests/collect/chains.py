"""Option chains of the fake venues: one surface without arbitrage, in four shapes.

Total variance follows Gatheral and Jacquier's SSVI with power 0.5, with parameters free of butterflies and
calendars.
"""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from derivdata.analysis import black76
from derivdata.support.arrays import Floats
from tests.collect.state_bodies import filled

INDEX = 50_000.0
STRIKES = range(30_000, 82_500, 5_000)
WEEKS = (0, 3, 7, 14)
LEVEL, RHO, ETA, CARRY = 0.6, -0.3, 0.8, 0.03
HALF_SPREAD = 0.005  # of volatility
DAY = 86_400
YEAR = 365 * DAY

Row = dict[str, Any]

_SHAPES: dict[str, Row] = json.loads(Path(__file__).with_suffix(".json").read_text(encoding="utf-8"))
"""By venue, and path where it has several, the row of each option, as `filled` takes it."""


class Option(NamedTuple):
    """One option, with the venue's current figures."""

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
        """The time of the expiry."""
        return datetime.fromtimestamp(self.expiry, UTC)

    @property
    def open_interest(self) -> float:
        """Coins."""
        return 1.0 + self.strike // 1000 % 7


def options(second: int) -> list[Option]:
    """Return all options that have not expired: some Fridays, 08:00 UTC."""
    friday = (second // DAY - 1) // 7 * 7 + 1  # 1970-01-02 was one
    first = friday * DAY + 8 * 3600
    first += 7 * DAY if first <= second else 0
    chosen = [*itertools.product([first + weeks * 7 * DAY for weeks in WEEKS], STRIKES, "CP")]
    expiry, strike, side = (np.array(item) for item in zip(*chosen, strict=True))
    years, sides = (expiry - second) / YEAR, np.where(side == "C", "call", "put")
    forward = INDEX * np.exp(CARRY * years)
    iv = _iv(np.log(strike / forward), years)
    shifts = (0.0, -HALF_SPREAD, HALF_SPREAD)
    prices = [black76.price(forward, strike, years, iv + shift, sides) for shift in shifts]
    greeks = black76.greeks(forward, strike, years, iv, sides, which=("delta", "gamma", "vega", "theta"))
    scales = {"vega": 100, "theta": 365}  # per point and day
    scaled = [greeks[name] / scales.get(name, 1) for name in ("delta", "gamma", "vega", "theta")]
    figures = (figure.tolist() for figure in (iv, forward, *prices, *scaled))
    return [Option(*item, *row) for item, *row in zip(chosen, *figures, strict=True)]


def _iv(k: Floats, years: Floats) -> Floats:
    level = LEVEL**2 * years
    x = ETA / np.sqrt(level) * k
    variance = level / 2 * (1 + RHO * x + np.sqrt((x + RHO) ** 2 + 1 - RHO**2))
    return np.sqrt(variance / years)


def chain(exchange: str, place: str, params: Row, ms: int) -> Any:
    """Return the body of a venue's option chain; None for another place."""
    made = CHAINS.get((exchange, place))
    return None if made is None else made(params, ms)


def _ticks(price: float, tick: float, rounding: Callable[[float], int]) -> float | None:
    """Return a quote in whole ticks; None if it rounds to zero."""
    ticks = rounding(price / tick + (-1e-9 if rounding is math.ceil else 1e-9))
    return round(ticks * tick, 10) or None


def _filled_in(name: str, base: str, ms: int, chosen: list[Option]) -> list[Row]:
    """A row of each option, after the venue's template."""
    rows = []
    for o in chosen:
        date = f"{base}-{o.date:%-d%b%y}".upper()
        figures = o._asdict() | {
            "now": ms,
            "base": base,
            "date": date,
            "dated": f"{date}-{o.strike}-{o.side}",
            "numbered": f"{base}-{o.date:%y%m%d}-{o.strike}-{o.side}",
            "held": o.open_interest,
            "held_usd": o.open_interest * INDEX,
            "index": INDEX,
            "percent": 100 * o.iv,
            "iv_below": o.iv - HALF_SPREAD,
            "iv_above": o.iv + HALF_SPREAD,
            "mark_coin": o.price / o.forward,
            "bid_coin": _ticks(o.bid / o.forward, 0.0001, math.floor),
            "ask_coin": _ticks(o.ask / o.forward, 0.0001, math.ceil),
            "bid_usd": _ticks(o.bid, 5.0, math.floor) or 0,
            "ask_usd": _ticks(o.ask, 5.0, math.ceil),
        }
        rows.append(filled(_SHAPES[name], figures))
    return rows


def _listed(base: str, ms: int) -> list[Option]:
    return options(ms // 1000) if base in ("BTC", "ETH") else []


def _deribit(params: Row, ms: int) -> Any:
    if params.get("kind") != "option":
        return None
    rows = _filled_in("deribit", params["currency"], ms, _listed(params["currency"], ms))
    return {"jsonrpc": "2.0", "result": rows, "usIn": ms * 1000, "usOut": ms * 1000 + 9}


def _bybit(params: Row, ms: int) -> Any:
    if params.get("category") != "option":
        return None
    rows = _filled_in("bybit", params["baseCoin"], ms, _listed(params["baseCoin"], ms))
    return {"retCode": 0, "retMsg": "OK", "result": {"category": "option", "list": rows}, "time": ms}


def _binance(name: str) -> Callable[[Row, int], Any]:
    return lambda _, ms: [
        row for base in ("BTC", "ETH") for row in _filled_in(name, base, ms, options(ms // 1000))
    ]


def _binance_interest(params: Row, ms: int) -> Any:
    chosen = [o for o in options(ms // 1000) if f"{o.date:%y%m%d}" == params["expiration"]]
    return _filled_in("binance openInterest", params["underlyingAsset"], ms, chosen)


CHAINS: dict[tuple[str, str], Callable[[Row, int], Any]] = {
    ("deribit", "/public/get_book_summary_by_currency"): _deribit,
    ("bybit", "/v5/market/tickers"): _bybit,
    ("binance", "/eapi/v1/mark"): _binance("binance mark"),
    ("binance", "/eapi/v1/ticker"): _binance("binance ticker"),
    ("binance", "/eapi/v1/openInterest"): _binance_interest,
}
