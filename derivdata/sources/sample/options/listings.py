"""Listed options: expiries at 08:00 UTC, strikes around the prices since the listing of an expiry, forwards.

A trading day runs from 08:00 to 08:00. A listed strike remains listed until its expiry. A forward is
``F(T) = S e^(bT)``; slow paths move b and the parameters of every surface.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from derivdata.sources.sample import noise, paths
from derivdata.sources.sample.noise import ANCHOR_DAY, DAY_US, HOUR_US, STEP_US, STEPS, Keys, instants
from derivdata.sources.sample.universe import symbols
from derivdata.support.arrays import Bools, Floats, Ints
from derivdata.support.times import SECONDS_PER_YEAR

EXPIRY_US = 8 * HOUR_US
_ROUND = 64
_HALF_LIFE_HOURS = 24.0 * 12.0
_MONTH = 32


class Expiry(NamedTuple):
    """An expiry: day since 1970, ``daily``, ``weekly``, ``monthly`` or ``quarterly``, and first day."""

    day: int
    kind: str
    listed: int


class Listing(NamedTuple):
    """Options of one symbol on one venue during one trading day, by expiry, strike, call before put."""

    expiry: Ints  # days since 1970 of the expiries
    listed: Ints  # first days of the expiries
    place: Ints  # row of `expiry` that each option belongs to
    # `strike`, `call`: strike [USD] and whether it is a call
    strike: Floats
    call: Bools
    streams: Keys  # one stream of noise per option

    def take(self, options: Ints) -> Listing:
        """Return the options at some positions."""
        fields = {name: getattr(self, name)[options] for name in ("place", "strike", "call", "streams")}
        return self._replace(**fields)


_DAYS_LISTED = {"daily": 3, "weekly": 28, "monthly": 90, "quarterly": 330}
_REACH = {"daily": 0.14, "weekly": 0.32, "monthly": 0.55, "quarterly": 0.9}
_STEP = {"daily": 0.0085, "weekly": 0.018, "monthly": 0.035, "quarterly": 0.05}
_KINDS = {
    "deribit": ("daily", "weekly", "monthly", "quarterly"),
    "binance": ("daily", "weekly", "monthly", "quarterly"),
    "bybit": ("daily", "weekly", "monthly", "quarterly"),
    "okx": ("daily", "weekly", "monthly", "quarterly"),
    "derive": ("weekly", "monthly", "quarterly"),
}
_COARSE = {"deribit": 1.0, "okx": 1.5, "binance": 2.0, "bybit": 1.8, "derive": 2.5}
_NAMES = {
    "deribit": ("{symbol}-{day}{month}{year}-", ""),
    "bybit": ("{symbol}-{day}{month}{year}-", "-USDT"),
    "binance": ("{symbol}-{year}{number:02}{day:02}-", ""),
    "okx": ("{symbol}-USD-{year}{number:02}{day:02}-", ""),
    "derive": ("{symbol}-20{year}{number:02}{day:02}-", ""),
}
_MONTHS = "JAN FEB MAR APR MAY JUN JUL AUG SEP OCT NOV DEC".split()


def session(microseconds: Ints) -> Ints:
    """Return the trading day of times, as the day on which it begins."""
    return np.asarray((microseconds - EXPIRY_US) // DAY_US)


@lru_cache(maxsize=512)
def expiries(trading_day: int, kinds: tuple[str, ...]) -> tuple[Expiry, ...]:
    """Return the open expiries of a trading day; a date of several kinds has the longest-lived kind."""
    open_expiries: dict[int, Expiry] = {}
    for expiry in range(trading_day + 1, trading_day + _DAYS_LISTED["quarterly"] + 1):
        kind = _kind(expiry)
        listed = expiry - _DAYS_LISTED[kind]
        if kind in kinds and listed <= trading_day:
            open_expiries[expiry] = Expiry(expiry, kind, listed)
    return tuple(open_expiries.values())


@lru_cache(maxsize=64)
def listing(symbol: str, exchange: str, trading_day: int) -> Listing:
    """Return the options that a venue lists for a symbol during a trading day."""
    own = symbols().name.index(symbol)
    stream = noise.key("option", symbol, exchange)
    opened = expiries(trading_day, _KINDS[exchange])
    ladders = [_ladder(own, exchange, e, trading_day) for e in opened]
    place = np.repeat(np.arange(len(opened)), [2 * len(ladder) for ladder in ladders])
    strike = np.repeat(np.concatenate(ladders), 2)
    call = np.arange(len(strike)) % 2 == 0
    expiry = np.array([e.day for e in opened], dtype=np.int64)
    cents = np.round(strike * 1e4).astype(np.uint64)
    streams = noise.bits(stream ^ (expiry[place].astype(np.uint64) << np.uint64(32)), cents * 2 + call)
    listed = np.array([e.listed for e in opened], dtype=np.int64)
    return Listing(expiry, listed, place, strike, call, streams)


def instrument_names(symbol: str, exchange: str, listed: Listing) -> NDArray[np.object_]:
    """Return the venue's name of each option that it lists for a symbol."""
    ladders = np.split(listed.strike[::2], np.flatnonzero(np.diff(listed.place[::2])) + 1)
    days = listed.expiry.tolist()
    return np.concatenate(
        [_names(symbol, exchange, day, ladder.tobytes()) for day, ladder in zip(days, ladders, strict=True)]
    )


@lru_cache(maxsize=4096)
def _kind(day: int) -> str:
    date = instants([day * DAY_US])[0]
    if date.weekday() != 4:
        return "daily"
    if (date + pd.Timedelta(7, "D")).month == date.month:
        return "weekly"
    return "quarterly" if date.month % 3 == 0 else "monthly"


def _ladder(own: int, exchange: str, expiry: Expiry, trading_day: int) -> Floats:
    """Return the strikes: multiples of a step around every midnight price since the listing."""
    first = max(expiry.listed, ANCHOR_DAY)
    last = trading_day - ANCHOR_DAY + 1
    seen = _midnight_prices(own, -(-last // _ROUND) * _ROUND)[first - ANCHOR_DAY : last]
    wider = max(symbols().volatility[own] / symbols().volatility[symbols().name.index("BTC")], 1.0)
    step = nice(symbols().price[own] * _STEP[expiry.kind] * _COARSE[exchange] * wider)
    reach = np.exp(_REACH[expiry.kind] * np.sqrt(wider))
    low = max(float(np.floor(np.min(seen) / reach / step)), 1.0)
    return np.asarray(np.round(np.arange(low, float(np.ceil(np.max(seen) * reach / step)) + 1.0) * step, 4))


@lru_cache(maxsize=64)
def _midnight_prices(own: int, days: int) -> Floats:
    """Return prices at midnights from the anchor day on; rounded up, so that later days use the cache."""
    return np.asarray(paths.price(np.array([own]), ANCHOR_DAY, days, 1)[0])


def nice(value: float) -> float:
    """Return the smallest number of at least `value` among 1, 2, 2.5 and 5 times a power of ten."""
    power = 10.0 ** np.floor(np.log10(value))
    return float(next(m * power for m in (1.0, 2.0, 2.5, 5.0, 10.0) if m * power >= value * (1.0 - 1e-9)))


@lru_cache(maxsize=512)
def _names(symbol: str, exchange: str, expiry: int, ladder: bytes) -> NDArray[np.object_]:
    """Return the venue's names of the options of one expiry: call and put of every strike."""
    head, tail = _NAMES[exchange]
    head = dated_name(head, symbol, expiry)
    strikes = [f"{strike:.4f}".rstrip("0").rstrip(".") for strike in np.frombuffer(ladder).tolist()]
    names = [f"{head}{strike}-{side}{tail}" for strike in strikes for side in "CP"]
    return np.array(names, dtype=object)


def dated_name(template: str, symbol: str, expiry: int) -> str:
    """Return a venue's name of a contract on a symbol that expires on a day since 1970."""
    date = instants([expiry * DAY_US])[0]
    month = _MONTHS[date.month - 1]
    return template.format(symbol=symbol, day=date.day, month=month, number=date.month, year=date.year % 100)


class Forwards(NamedTuple):
    """Times to expiry and forwards, shape ``(expiries, times)``, and `spot`, shape ``(times,)``."""

    year_fraction: Floats
    underlying_price: Floats
    spot: Floats


def forwards(symbol: str, exchange: str, expiry: Ints, time: Ints) -> Forwards:
    """Return the forwards of expiries (days since 1970) at times [µs]."""
    basis = 0.06 + 0.03 * bounded_paths(symbol, time)[5] + 0.004 * venue_offsets(symbol, exchange)[2]
    years = (expiry[:, None] * DAY_US + EXPIRY_US - time) / (SECONDS_PER_YEAR * 1e6)
    now = spot(symbol, time)
    return Forwards(years, now * np.exp(basis * years), now)


def bounded_paths(symbol: str, time: Ints) -> Floats:
    """Return six slow paths of a symbol, of unit scale and within ±√10, shape ``(6, times)``."""
    x = paths.smooth(_streams(symbol), _HALF_LIFE_HOURS, time / DAY_US)
    return np.asarray(x / np.sqrt(1.0 + 0.1 * x * x))


def venue_offsets(symbol: str, exchange: str) -> Floats:
    """Return three constant numbers of a venue within ±½, by which venues differ."""
    return noise.uniform(noise.key("surface", symbol, exchange), np.arange(3)) - 0.5


@lru_cache(maxsize=64)
def _streams(symbol: str) -> Keys:
    return np.array([noise.key("surface", symbol, n) for n in range(6)], dtype=np.uint64)


def spot(symbol: str, time: Ints) -> Floats:
    """Return the spot price at some times [µs], which is constant over five minutes."""
    since = time - ANCHOR_DAY * DAY_US
    months, place = np.unique(since // (_MONTH * DAY_US), return_inverse=True)
    path = np.stack([_month(symbol, month) for month in months.tolist()])
    return np.asarray(path[place, since // STEP_US % (_MONTH * STEPS)])


@lru_cache(maxsize=128)
def _month(symbol: str, number: int) -> Floats:
    """Return prices at the steps of `_MONTH` days; consecutive requests are mostly for the same days."""
    own = np.array([symbols().name.index(symbol)])
    return np.asarray(paths.price(own, ANCHOR_DAY + number * _MONTH, _MONTH)[0])
