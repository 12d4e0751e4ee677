"""Symbols, venues and their pairs, with randomly drawn traits; prices; trading hours of real-world assets.

Prices of symbols are exponentials of slow Ornstein–Uhlenbeck paths about a centre.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from derivdata.sources.sample import noise
from derivdata.sources.sample.noise import START_DAY, STEPS, Keys, day, timestamps
from derivdata.support.arrays import Bools, Floats, Ints
from derivdata.tables import VENUES

MARKET: dict[str, Any] = tomllib.loads(
    resources.files("derivdata.sources.sample").joinpath("market.toml").read_text(encoding="utf-8")
)
"""Symbols, venues and calendars of the market, from ``market.toml``."""

FOREVER = 10**6  # day after all others
_TRAITS_STREAM = noise.key("traits")
# Venues that list stocks only, venues that list stocks and coins, and venues that change some intervals.
_STOCK_VENUES = frozenset("kinetiq paragon qfex tradexyz".split())
_MIXED_VENUES = frozenset(
    "aster binance bingx bitget bybit gateio hyena lighter mexc ondo vest variational".split()
)
_VENUES_WITH_CHANGES = frozenset("aster binance bingx bitget bybit gateio kucoin mexc okx phemex".split())

_CRYPTO = tuple(MARKET["crypto"].split())
_OTHER = tuple(MARKET["other"].split())


class Model(NamedTuple):
    """Synthetic traits of a venue."""

    # ``free``: the rate is the premium. ``clamp``: ``p + clamp(1 − p, ±band)``, exactly 1 bps/8h while the
    # premium p is within `band` of it. ``wild``: clamped, with additional spikes
    style: str
    # `offset`, `deviation`: mean and standard deviation of the spread over the symbol's base rate [bps/8h],
    # for BTC
    offset: float
    deviation: float
    half_life: float  # half-life of the spread [h]
    band: float  # band of the clamp [bps/8h]
    breadth: float  # approximate number of listed symbols
    weight: float  # share of a symbol's open interest at the start, relative to other venues
    growth: float  # growth of open interest, as a rate of the logarithm [1/year]
    turnover: float  # daily volume as a multiple of open interest
    gaps: float  # probability of a run of missing samples per pair and day
    since: str  # opening day; empty if open from the start


MODELS = {name: Model(*traits) for name, traits in MARKET["venues"].items()}


@dataclass(frozen=True)
class Symbols:
    """Every symbol, sorted by name, with its drawn traits."""

    name: tuple[str, ...]
    streams: Keys
    rank: Ints  # place in the list, 0 the largest; equities and commodities follow
    # `price`, `volatility`: centre of the price path [USD] and its volatility [1/√year]
    price: Floats
    volatility: Floats
    oi: Floats  # open interest over all venues at the start [USD]
    scale: Floats  # factor of the symbol's funding rates and spreads; 1 for BTC
    # `base`, `base_deviation`, `base_half_life`, `base_tail`: base rate ``base + base_deviation × (x +
    # base_tail × x³)`` [bps/8h] of a unit OU process x of that half-life [h]
    base: Floats
    base_deviation: Floats
    base_half_life: Floats
    base_tail: Floats
    trend: Floats  # growth of open interest, as a rate of the logarithm [1/year]
    squeezed: Bools  # whether the base rate has squeezes: jumps that fade within a day


@dataclass(frozen=True)
class Pairs:
    """Pairs of symbol and venue, sorted by both."""

    row: Ints  # position among all pairs
    # `symbol`, `exchange`: positions in `symbols` and in the sorted venues
    symbol: Ints
    exchange: Ints
    streams: Keys
    # `since`, `until`: first day, and the day after the last, since 1970
    since: Ints
    until: Ints
    # `interval`, `later_interval`, `change`: native interval [h] before and from day `change` on
    interval: Ints
    later_interval: Ints
    change: Ints
    share: Floats  # share of the symbol's open interest at the start, as if all venues were open

    def __len__(self) -> int:
        return len(self.symbol)

    def take(self, rows: Ints) -> Pairs:
        """Return the pairs at some positions."""
        return Pairs(**take_rows(vars(self), rows))

    def trading(self, first: int, stop: int) -> Pairs:
        """Return the pairs that trade on some day of ``[first, stop)``."""
        keep = np.flatnonzero((np.maximum(self.since, START_DAY) < stop) & (self.until > first))
        if len(keep) == len(self):
            return self
        return self.take(keep)

    def is_traded(self, days: Ints) -> Bools:
        """Return whether each pair trades on each day, shape ``(pairs, days)``."""
        since = np.maximum(self.since, START_DAY)[:, None]
        return np.asarray((days >= since) & (days < self.until[:, None]))

    def interval_on(self, days: Ints) -> Ints:
        """Return the interval [h] on each day, shape ``(pairs, days)``."""
        return np.where(days < self.change[:, None], self.interval[:, None], self.later_interval[:, None])


@lru_cache(maxsize=1)
def symbols() -> Symbols:
    """Return every symbol of the sample."""
    ranked = [*_CRYPTO, *_OTHER]
    rank = np.argsort(ranked)
    names = tuple(sorted(ranked))
    streams = noise.keys("symbol", names)
    u = noise.uniform((streams ^ _TRAITS_STREAM)[:, None], np.arange(12))
    stock = rank >= len(_CRYPTO)
    # Rank by open interest: the largest stock ranks with coin 40, and each further one 12 places lower.
    size_rank = np.where(stock, 40 + 12 * (rank - len(_CRYPTO)), rank)
    scale = np.where(stock, 1.5, 1.0 + 5.0 * np.minimum(size_rank / 60.0, 1.0) * (0.4 + u[:, 0]))
    price = np.where(stock, 50.0 + 400.0 * u[:, 1], 0.05 * 1000.0 ** u[:, 1])
    volatility = np.where(stock, 0.3 + 0.4 * u[:, 2], 0.8 + 0.7 * u[:, 2])
    return Symbols(
        name=names,
        streams=streams,
        rank=rank,
        price=_stated_or_drawn("prices", names, price),
        volatility=_stated_or_drawn("volatilities", names, volatility),
        oi=3.2e10 / (1.0 + size_rank) ** 1.15 * (0.7 + 0.6 * u[:, 3]),
        scale=scale,
        base=0.75 + scale * 0.25 * (u[:, 4] - 0.6),
        base_deviation=0.35 * scale,
        base_half_life=16.0 + 48.0 * u[:, 5],
        base_tail=0.04 + 0.04 * (scale - 1.0),
        trend=-0.4 + 1.0 * u[:, 6],
        squeezed=rank > 30,
    )


def _stated_or_drawn(kind: str, names: Sequence[str], drawn: Floats) -> Floats:
    """Return the values that ``market.toml`` states, and for other symbols the drawn ones."""
    values = [MARKET[kind].get(name, value) for name, value in zip(names, drawn, strict=True)]
    return np.array(values, dtype=np.float64)


@lru_cache(maxsize=1)
def pairs() -> Pairs:
    """Return every pair of the sample."""
    all_symbols = symbols()
    venues = exchange_names()
    chance = np.stack([_listing_probability(all_symbols.rank, venue) for venue in venues], axis=1)
    names = [f"{symbol}|{venue}" for symbol in all_symbols.name for venue in venues]
    streams = noise.keys("pair", names).reshape(chance.shape)
    listed = noise.uniform(streams ^ _TRAITS_STREAM, 0) < chance
    symbol, exchange = np.nonzero(listed)
    streams = streams[listed]
    u = noise.uniform((streams ^ _TRAITS_STREAM)[:, None], np.arange(1, 12))
    since, until = _lifetimes(all_symbols, symbol, exchange, u)
    interval, later, change = _intervals(all_symbols, symbol, exchange, u)
    weight = venue_values("weight")[exchange] * (0.4 + 1.2 * u[:, 7])
    share = weight / np.bincount(symbol, weight, minlength=len(all_symbols.name))[symbol]
    row = np.arange(len(symbol))
    return Pairs(row, symbol, exchange, streams, since, until, interval, later, change, share)


def classes() -> tuple[str, ...]:
    """Return the class of each symbol: ``crypto``, ``equity``, ``index`` or ``commodity``."""
    classes = dict.fromkeys(_CRYPTO, "crypto") | dict.fromkeys(_OTHER, "equity")
    for kind, names in MARKET["classes"].items():
        classes |= dict.fromkeys(names.split(), kind)
    return tuple(map(classes.__getitem__, symbols().name))


def exchange_names() -> tuple[str, ...]:
    """Return every venue, sorted."""
    return tuple(sorted(VENUES))


def select(names: Sequence[str] | None, venues: Sequence[str] | None) -> Pairs:
    """Return the pairs of some symbols on some venues; None is all of them."""
    all_pairs = pairs()
    keep = np.ones(len(all_pairs), dtype=bool)
    if names is not None:
        keep &= np.isin(symbols().name, list(names))[all_pairs.symbol]
    if venues is not None:
        keep &= np.isin(exchange_names(), list(venues))[all_pairs.exchange]
    if keep.all():
        return all_pairs
    return all_pairs.take(np.flatnonzero(keep))


def take_rows(columns: Mapping[str, Any], rows: Any) -> dict[str, Any]:
    """Return the columns at some rows, which are given by positions or by a mask."""
    return {name: values[rows] for name, values in columns.items()}


def joined(blocks: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return columns with the rows of all blocks; an empty dict without blocks."""
    if not blocks:
        return {}
    return {name: np.concatenate([block[name] for block in blocks]) for name in blocks[0]}


def labelled(columns: Mapping[str, Any]) -> dict[str, Any]:
    """Replace positions of symbols and venues by text, and microseconds by times."""
    if not columns:
        return {}
    return dict(columns) | {
        "symbol": text(columns["symbol"], symbols().name),
        "exchange": text(columns["exchange"], exchange_names()),
        "time": timestamps(columns["time"]),
    }


def text(codes: Any, names: tuple[str, ...]) -> pd.Categorical:
    """Return a text column from positions in sorted names."""
    return pd.Categorical.from_codes(codes, categories=pd.Index(names, dtype="str"))


def with_words(
    blocks: Sequence[Mapping[str, Any]], name: str, words: tuple[str, ...], step: str
) -> dict[str, Any]:
    """Return the labelled columns of all blocks, with the constant column ``resolution`` of `step`.

    The blocks have positions in `words` in the column `name`, which become text.
    """
    columns = labelled(joined(blocks))
    if not columns:
        return {}
    resolution = text(np.zeros(len(columns[name]), dtype=np.int8), (step,))
    return columns | {name: text(columns[name].astype(np.int8), words), "resolution": resolution}


@lru_cache(maxsize=16)
def venue_values(trait: str) -> Floats:
    """Return a trait of every venue's model, in the order of the sorted venues."""
    return np.array([getattr(MODELS[v], trait) for v in exchange_names()], dtype=np.float64)


def _listing_probability(rank: Ints, venue: str) -> Floats:
    """Return the probability that a venue lists each symbol; 1 for BTC and ETH on venues of crypto.

    For other coins it falls linearly with their rank, to 0 at twice the venue's breadth.
    """
    breadth = MODELS[venue].breadth
    crypto = np.clip(1.25 * (1.0 - rank / (2.0 * breadth)), 0.0, 0.98)
    crypto = np.where(rank < 2, 1.0, crypto)
    stock = 0.0
    if venue in _STOCK_VENUES:
        stock = 0.75
        crypto = np.zeros_like(crypto)
    elif venue in _MIXED_VENUES:
        stock = 0.5
    return np.where(rank < len(_CRYPTO), crypto, stock)


def _lifetimes(all_symbols: Symbols, symbol: Ints, exchange: Ints, u: Floats) -> tuple[Ints, Ints]:
    """Return the first day, and the day after the last, of each pair.

    A pair begins after its symbol and its venue: 10 % of small symbols begin up to 240 days late, and 12 % of
    the pairs of small symbols up to 90 days later. 4 % of the smallest symbols end. `u` are uniform numbers
    of the pairs.
    """
    rank = all_symbols.rank[symbol]
    u_symbol = noise.uniform((all_symbols.streams ^ _TRAITS_STREAM)[:, None], np.arange(12, 16))[symbol]
    symbol_delay = np.where((rank > 60) & (u_symbol[:, 0] < 0.1), np.floor(240.0 * u_symbol[:, 1]), 0.0)
    opening_days = [day(MODELS[venue].since or "2025-01-01") for venue in exchange_names()]
    venue_delay = np.maximum(np.array(opening_days) - START_DAY, 0)[exchange]
    pair_delay = np.where((rank > 12) & (u[:, 0] < 0.12), np.floor(90.0 * u[:, 1]), 0.0)
    since = START_DAY + (np.maximum(symbol_delay, venue_delay) + pair_delay).astype(np.int64)
    ends = (rank > 100) & (u_symbol[:, 2] < 0.04) & (symbol_delay == 0.0)
    until = np.where(ends, START_DAY + 60 + np.floor(220.0 * u_symbol[:, 3]), FOREVER).astype(np.int64)
    return since, np.maximum(until, since)


def _intervals(all_symbols: Symbols, symbol: Ints, exchange: Ints, u: Floats) -> tuple[Ints, Ints, Ints]:
    """Return each pair's interval [h], its later interval [h], and the day of the change.

    Intervals are those of the venue. On venues with 8 h, 55 % of the small symbols have 4 h, or 1 h (12 % of
    these). On some venues 12 % of the pairs, without those of BTC and ETH, change: from 4 to 1 h, others to
    4 h. `u` are uniform numbers of the pairs.
    """
    venues = exchange_names()
    usual = np.array([VENUES[v].interval_hours or 1.0 for v in venues])[exchange].astype(np.int64)
    rank = all_symbols.rank[symbol]
    is_short = (usual == 8) & (rank > 8) & (u[:, 3] < 0.55)
    interval = np.where(is_short, np.where(u[:, 2] < 0.12, 1, 4), usual)
    may_change = np.isin(venues, list(_VENUES_WITH_CHANGES))[exchange] & (rank >= 2)
    changes = may_change & (u[:, 4] < 0.12)
    changed = np.where(interval == 4, 1, 4)
    later = np.where(changes, changed, interval)
    change = np.where(changes, START_DAY + 20 + np.floor(260.0 * u[:, 5]), FOREVER).astype(np.int64)
    return interval, later, change


_PRICE = noise.key("price")
PRICE_HALF_LIFE_HOURS = 24.0 * 120.0
"""Half-life of the path of log prices about their centre."""


def price(symbol_codes: Ints, first_day: int, days: int, steps: int = STEPS) -> Floats:
    """Return the prices [USD] of symbols, unrounded, shape ``(symbols, days × steps)``.

    `symbol_codes` are positions in `symbols`, and `first_day` is a number of days since 1970.

    Paths with different numbers of steps a day are equal at midnight.
    """
    all_symbols = symbols()
    # The stationary deviation of an OU process with volatility σ and reversion κ = ln 2 / half-life is
    # σ / √(2 κ).
    deviation = all_symbols.volatility[symbol_codes] / np.sqrt(
        2.0 * np.log(2.0) * 8760.0 / PRICE_HALF_LIFE_HOURS
    )
    path = noise.ou(all_symbols.streams[symbol_codes] ^ _PRICE, PRICE_HALF_LIFE_HOURS, first_day, days, steps)
    return np.asarray(
        all_symbols.price[symbol_codes, None]
        * np.exp(deviation[:, None] * path.reshape(len(symbol_codes), -1))
    )


def premium(selection: Pairs) -> Floats:
    """Return the constant factor between a venue's price and the symbol's, within ±3 bps."""
    return np.asarray(1.0 + 6e-4 * (noise.uniform(selection.streams ^ _PRICE, 0) - 0.5))


_SESSION_DAYS_BEFORE = 14
_SESSION_DAYS_AHEAD = 14
_HOLIDAY_DAYS_AHEAD = 60


class _Exchange(NamedTuple):
    """An exchange, as in ``market.toml``; a session whose end is before its start begins the day before."""

    id: str
    name: str
    short_name: str
    mic: str
    timezone: str
    weekdays: tuple[int, ...]
    hours: str
    holidays: str
    early: str = ""


_EXCHANGES = [_Exchange(name, **facts) for name, facts in MARKET["exchanges"].items()]


def newest(first: int, last: int, *_: object) -> dict[str, Any]:
    """Return the calendars at `last` [µs]: sessions within 14 days, and holidays up to 60 days later."""
    now = timestamps([last])[0]
    frame = pd.concat([_calendar(exchange, now) for exchange in _EXCHANGES], ignore_index=True)
    return {str(name): frame[name] for name in frame.columns}


def _calendar(exchange: _Exchange, now: pd.Timestamp) -> pd.DataFrame:
    """Return the sessions and holidays of an exchange, one row each."""
    today = now.tz_convert(exchange.timezone).tz_localize(None).normalize()
    closed = pd.DatetimeIndex(exchange.holidays.split())
    begin = today - pd.Timedelta(_SESSION_DAYS_BEFORE, "D")
    days = pd.date_range(begin, today + pd.Timedelta(_SESSION_DAYS_AHEAD, "D"))
    open_days = days[days.day_of_week.isin(exchange.weekdays) & ~days.isin(closed)]
    rows = []
    for date in open_days:
        for name, start, end in _sessions(exchange, date):
            rows.append((name, *_utc_span(exchange, date, start, end), True))
    for date in closed[(closed >= begin) & (closed <= today + pd.Timedelta(_HOLIDAY_DAYS_AHEAD, "D"))]:
        whole_day = _utc_span(exchange, date, pd.Timedelta(0), pd.Timedelta(1, "D"))
        rows.append(("holiday", *whole_day, False))
    frame = pd.DataFrame(rows, columns=["session", "start", "end", "is_tradable"])
    tradable = frame[frame["is_tradable"]]
    later = tradable[tradable["start"] > now]["start"]
    return frame.assign(
        exchange_id=exchange.id,
        name=exchange.name,
        short_name=exchange.short_name,
        mic=exchange.mic,
        timezone=exchange.timezone,
        time=now,
        is_tradable_now=bool(((tradable["start"] <= now) & (now < tradable["end"])).any()),
        next_session_start=later.min(),
    )


def _sessions(exchange: _Exchange, day: pd.Timestamp) -> list[tuple[str, pd.Timedelta, pd.Timedelta]]:
    """Return the sessions of a day in local time; an early close moves the later sessions forward."""
    sessions = []
    for text in exchange.hours.split(", "):
        name, opening, closing = text.split()
        start = pd.Timedelta(f"{opening}:00")
        end = pd.Timedelta(f"{closing}:00")
        if end <= start:  # it begins on the previous day
            start -= pd.Timedelta(1, "D")
        sessions.append((name, start, end))
    early_closes = dict(text.split() for text in exchange.early.split(",") if text.strip())
    early_close = early_closes.get(f"{day.date()}")
    if early_close is None:
        return sessions
    usual = max(end for name, _, end in sessions if name == "regular")
    close = pd.Timedelta(f"{early_close}:00")
    moved = []
    for name, start, end in sessions:
        if name == "regular":
            moved.append((name, start, min(end, close)))
        elif start >= usual:
            moved.append((name, start - usual + close, end - usual + close))
        else:
            moved.append((name, start, end))
    return moved


def _utc_span(
    exchange: _Exchange, day: pd.Timestamp, begin: pd.Timedelta, end: pd.Timedelta
) -> tuple[pd.Timestamp, pd.Timestamp]:
    """Return the start and end of a session of a local day, in UTC."""
    local = pd.DatetimeIndex([day + begin, day + end], tz=exchange.timezone)
    start, stop = local.tz_convert("UTC").as_unit("us")
    return start, stop
