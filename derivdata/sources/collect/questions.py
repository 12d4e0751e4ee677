"""Questions to rows of venues that are well-formed and may be wrong: too old, in another unit, of other size.

An import asks the person who imports (`derivdata.sources.archive.audit`); here no one is there to answer, so
that what is doubtful is left out or fails, named, and is asked for again.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from statistics import median
from typing import Any

import pandas as pd

from derivdata import tables, units
from derivdata.errors import SchemaError
from derivdata.sources.archive import Archive
from derivdata.sources.archive.audit import Question, audit
from derivdata.sources.collect.session import VenueSession
from derivdata.sources.venues.endpoint import VenueEndpoint
from derivdata.sources.venues.record_types import Instrument, Option, OrderBook, Records, State
from derivdata.sources.venues.series_checks import FACTOR, row_faults, stated_cap
from derivdata.support import times

_AGE = pd.Timedelta(10, "min")
_AGE_US = times.us(_AGE)
_SEVERAL = 5
_JUMP = 3.0
"""Contracts from which the median counts, and the factor between two polls that no market makes."""
_FACTORS = {**dict.fromkeys(("mark", "index_price", "last", "underlying"), 5.0), "change_pct": 1.05}
"""The same of prices, and of a change, which is compared by the price of 24 hours ago that it tells."""
_HELD = ("mark", "index_price", "last", "oi_usd", "oi_coins", "volume_usd")
_HELD_OF_OPTIONS = ("iv", "underlying")
_HELD_IN_LISTS = ("symbol", "quote", "size", "inverse", "perpetual", "strike", "expiry")
_FILL_FACTOR = 2.0
"""How many times the last mark the price of a liquidation may be."""
_BELIEVED_AFTER = pd.Timedelta(1, "h")
_USUAL_BPS = 1.0
"""Rates below it count as it: they pass through 0."""
_NEAR_USD = 1.25
"""Factor within which coins × price are the USD next to them: the price may be of another second."""
_MOST_USD = 1e11
OF_SERIES = {"funding_settlements": "rate_bps_8h", "oi_history": "oi_usd", "prices_history": "price_usd"}
_SERIES = pd.Timedelta(7, "D")
_MICROSECOND = pd.Timedelta(1, "us")
_SERIES_ROWS = 50


def require_current(endpoint: VenueEndpoint, records: Records, at: pd.Timestamp) -> None:
    """Refuse an answer about the present whose newest own instant is 10 minutes from the clock."""
    parts: tuple[Sequence[State | Option | OrderBook], ...] = (records.states, records.options, records.books)
    stamps = [row.time for rows in parts for row in rows if row.time is not None]
    if endpoint.every is None and endpoint.what != "book":
        return
    apart = max(stamps, default=times.us(at)) - times.us(at)
    if abs(apart) > _AGE_US:
        stamp = times.iso(pd.Timestamp(max(stamps), unit="us", tz="UTC"))
        raise SchemaError(f"{endpoint.where}: the newest row is of {stamp}, not of now, {times.iso(at)}")


class LastPolls:
    """The last figures of a venue, with which each poll is compared; `open_interest` is by symbol, in USD."""

    def __init__(self, exchange: str, open_interest: Mapping[str, float] | None = None) -> None:
        self._exchange = exchange
        self._open = dict(open_interest or {})
        self._stored = dict(open_interest or {})
        # Since when the median is far off, and how far
        self._jumped: tuple[pd.Timestamp, float] | None = None
        self._last: dict[tuple[str, str], float] = {}  # by contract and figure
        self._since: dict[tuple[str, str], pd.Timestamp] = {}  # when a figure was first doubtful
        self._named: set[str] = set()  # contracts that a poll told of
        self.withheld: Records | None = None  # of the last poll, as they were told, that lost a figure
        self.prices: dict[str, float] = {}  # the last price of each symbol

    def hold(
        self, states: list[State], now: pd.Timestamp, listed: Collection[str] = ()
    ) -> tuple[list[State], dict[str, str], list[str]]:
        """Return states without the doubtful figures, why tables fail, and what else is to be known.

        A jump of the median contract fails the table, one of a single contract leaves its figure out, until
        the venue has told it for an hour; so long a contract is left out that no list and no poll named.
        """
        left_out = list[str]()
        told = states
        failed = {}
        notes = list[str]()
        if why := self._jump(states, now):
            if self._jumped is None:
                notes.append(f"{why}; it is believed, since the venue has told it for an hour")
            else:
                failed["oi_history"] = why
                states = [row._replace(oi_usd=None, oi_coins=None) for row in states]
        states = [row for row in states if self._is_named(row.instrument.name, listed, left_out, now)]
        self._named.update(row.instrument.name for row in states)
        states = [self._sound(row, left_out, now) for row in states]
        notes += self._above_caps(states, now)
        kept = {(row.instrument.name, row.time): row for row in states}
        lost = [row for row in told if kept.get((row.instrument.name, row.time)) != row]
        self.withheld = Records(states=lost) if lost else None
        # Replaced whole: another thread reads it.
        prices = ((row.instrument.symbol, row.mark or row.price or row.last) for row in states)
        self.prices = self.prices | {symbol: price for symbol, price in prices if price}
        notes += [f"{len(left_out)} left out: {left_out[0]}"] if left_out else []
        return states, failed, notes

    def _above_caps(self, states: list[State], now: pd.Timestamp) -> list[str]:
        """Return which rates are above the cap that the venue stated: it may have changed since."""
        found = list[str]()
        for row in states:
            cap = stated_cap(self._exchange, row.instrument.symbol)
            is_of_interval = row.period_h == row.settle_h
            if cap is not None and is_of_interval and cap.is_broken_by(row.rate, row.period_h, now):
                bps = (row.rate or 0.0) * units.BPS
                found.append(f"{row.instrument.name}: rate {bps:g} bps, the cap was {cap.bps:g} on {cap.day}")
        return [f"{len(found)} rates above the cap: {found[0]}"] if found else []

    def hold_chain(self, options: list[Option], now: pd.Timestamp) -> tuple[list[Option], list[str]]:
        """Return options without the figures that jump, and what is left out; as `hold`."""
        left_out: list[str] = []
        sound = []
        for row in options:
            figures = {figure: getattr(row, figure) for figure in _HELD_OF_OPTIONS}
            sound.append(row._replace(**self._doubtful(row.name, figures, left_out, now)))
        self.withheld = Records(options=[a for a, b in zip(options, sound, strict=True) if a != b])
        return sound, left_out

    def sound_fills(
        self, rows: pd.DataFrame, now: pd.Timestamp, listed: Iterable[str]
    ) -> tuple[pd.DataFrame, list[str]]:
        """Return liquidations of `listed` symbols near their last prices, and what is left out."""
        listed = set(listed)
        known = rows["symbol"].astype(object).map(self.prices).to_numpy(dtype="float64")
        told = rows["fill_price_usd"].fillna(rows["order_price_usd"]).to_numpy(dtype="float64")
        is_far = (told > _FILL_FACTOR * known) | (told * _FILL_FACTOR < known)
        is_far |= (rows["time"] > now + _AGE).to_numpy() | ~rows["symbol"].isin(listed).to_numpy()
        left_out = [
            f"a liquidation of {row.symbol} at {price:g} on {times.iso(row.time)}: "
            + (f"the last price is {last:g}" if row.symbol in listed else "no list of contracts names it")
            for row, price, last in zip(rows[is_far].itertuples(), told[is_far], known[is_far], strict=True)
        ]
        return rows[~is_far], left_out

    def _is_named(self, name: str, listed: Collection[str], left_out: list[str], now: pd.Timestamp) -> bool:
        if not self._named or name in self._named or name in listed:
            return True
        if now - self._since.setdefault((name, ""), now) >= _BELIEVED_AFTER:
            return True
        left_out.append(f"{name}: no list of contracts names it")
        return False

    def _sound(self, row: State, left_out: list[str], now: pd.Timestamp) -> State:
        """Return the state of a contract without the figures that others contradict."""
        name = row.instrument.name
        price = row.mark or row.price or row.last
        doubtful: dict[str, Any] = {}
        if row.oi_usd and row.oi_coins and price:
            ratio = row.oi_coins * price / row.oi_usd
            if not 1 / _NEAR_USD < ratio < _NEAR_USD or row.oi_usd > _MOST_USD:
                left_out.append(f"{name}: {row.oi_coins:g} coins at {price:g} are not {row.oi_usd:g} USD")
                doubtful |= {"oi_usd": None, "oi_coins": None}
        figures = {figure: getattr(row, figure) for figure in _HELD if figure not in doubtful}
        if row.rate is not None and row.period_h:
            figures["rate"] = max(abs(row.rate) * units.BPS * 8 / row.period_h, _USUAL_BPS)
        if price and row.change_pct is not None and row.change_pct > -100:
            figures["change_pct"] = price / (1 + row.change_pct / 100)
        stored = self._stored.pop(row.instrument.symbol, None) if row.instrument.perpetual else None
        if stored and row.oi_usd:
            self._last.setdefault((name, "oi_usd"), stored)
        return row._replace(**doubtful, **self._doubtful(name, figures, left_out, now))

    def _doubtful(
        self, name: str, figures: dict[str, float | None], left_out: list[str], now: pd.Timestamp
    ) -> dict[str, Any]:
        """Return the figures of a contract, as None, that are not like those that it told last."""
        doubtful: dict[str, Any] = {}
        for figure, value in figures.items():
            if not value:
                continue
            key = name, figure
            last = self._last.get(key, value)
            # A rate may fall at once: with a payment, or with its interval
            factor = _FACTORS.get(figure, FACTOR)
            is_like = (figure == "rate" or value >= last / factor) and value <= last * factor
            if not is_like and now - self._since.setdefault(key, now) < _BELIEVED_AFTER:
                left_out.append(f"{name}: {figure} {value:g} after {last:g}")
                doubtful[figure] = None
            else:
                self._last[key] = value
                self._since.pop(key, None)
        return doubtful

    def _jump(self, rows: list[State], now: pd.Timestamp) -> str:
        """Return why open interest is in another unit or of other sides, by the median; "" if not.

        It is no longer `_jumped`, and what later polls are compared with, once polls agreed for an hour.
        """
        told = {r.instrument.symbol: r.oi_usd for r in rows if r.oi_usd and r.instrument.perpetual}
        ratios = [usd / self._open[symbol] for symbol, usd in told.items() if symbol in self._open]
        jump = median(ratios) if len(ratios) >= _SEVERAL else 1.0
        if 1 / _JUMP < jump < _JUMP:
            self._open |= told
            self._jumped = None
            return ""
        since, first = self._jumped or (now, jump)
        agrees = 1 / _JUMP < jump / first < _JUMP
        self._jumped = (since, first) if agrees else (now, jump)
        if now - self._jumped[0] >= _BELIEVED_AFTER:
            self._open = told
            self._jumped = None
        return (
            f"{self._exchange}: open interest is {jump:.3g} times that of the last poll, of the median of "
            f"{len(ratios)} contracts: not the unit that the venue is known to use"
        )


def hold_list(before: Records, told: Records, doubted: dict[str, Instrument]) -> tuple[list[str], list[str]]:
    """Leave contracts as a venue listed them before where the list now says that they are others.

    Returns those changes, and the ones that are accepted: what was `doubted` in the list before, and
    contracts that ended or whose steps changed.
    """
    earlier = {item.name: item for item in before.instruments}
    gone = earlier.keys() - {item.name for item in told.instruments}
    held = list[str]()
    news = [f"{name} is listed no more" for name in sorted(gone)]
    then, now = ({row.instrument.name: row.hours for row in one.intervals} for one in (before, told))
    news += [
        f"{name}: interval {now.get(name)} after {then.get(name)}"
        for name in sorted(then.keys() | now.keys() if then else ())
        if now.get(name) != then.get(name)
    ]
    for place, item in enumerate(told.instruments):
        last = earlier.get(item.name, item)
        changes = [
            f"{item.name}: {name} {now} after {then}"
            for name, now, then in zip(item._fields, item, last, strict=True)
            if now != then
        ]
        is_other = any(getattr(item, name) != getattr(last, name) for name in _HELD_IN_LISTS)
        if is_other and doubted.get(item.name) != item:
            doubted[item.name] = item
            told.instruments[place] = last
            held += changes
        else:
            doubted.pop(item.name, None)
            news += changes
    return held, news


def require_plausible(session: VenueSession, archive: Archive, table: str, rows: pd.DataFrame) -> None:
    """Refuse rows of a history that an import would ask about, or 20 times the series' own last rows.

    What is refused goes to the quarantine. Raises `ArchiveError` where the archive itself cannot be read.
    """
    exchange = session.venue.exchange
    held = archive.exchanges(table)

    def read(
        symbols: Collection[str], start: pd.Timestamp, end: pd.Timestamp, venues: Sequence[str] | None = None
    ) -> pd.DataFrame:
        return archive.read(table, start, end + _MICROSECOND, symbols=[*symbols], venues=venues)

    try:
        audit(tables.TABLES[table], rows, held, read, accept=("future", "schedule"))
        if table in OF_SERIES and len(rows) and held:
            first = rows["time"].min()
            for symbol, part in rows.groupby("symbol", observed=True):
                last = read([str(symbol)], first - _SERIES, first - _MICROSECOND, [exchange])
                require_like(table, last.tail(_SERIES_ROWS), part.head(_SERIES_ROWS))
        for text in row_faults(table, rows):
            raise SchemaError(text)
    except (Question, SchemaError) as problem:
        why = f"{exchange} {table}: {problem.finding if isinstance(problem, Question) else problem}"
        part = re.sub(r"\W", "_", str(rows["symbol"].iloc[0]))
        kept = session.shared.quarantine.keep_rows(exchange, table, rows, part)
        raise SchemaError(f"{why} ({kept})") from None


def require_like(table: str, last: pd.DataFrame, rows: pd.DataFrame) -> None:
    """Refuse rows whose median figure is 20 times that of the last rows before them, or the largest rate."""
    name = OF_SERIES[table]
    if last.empty or rows.empty:
        return
    before, now = (float(frame[name].abs().median()) for frame in (last, rows))
    if name == "rate_bps_8h":  # rates may fall, and rise to where they were
        before = max(float(last[name].abs().max()), _USUAL_BPS)
        now = max(now, before)
    if not (before > 0 and now >= 0):  # no figure to hold to: a contract that no one held, or no rate
        return
    if not before / FACTOR <= now <= before * FACTOR:
        raise SchemaError(
            f"{name} of {rows['symbol'].iloc[0]} is {now:g}, by the median row, and was {before:g} before: "
            "not the unit that the venue is known to use"
        )
