"""Checks of well-formed rows of venues that may be wrong: too old, in another unit, of another size.

`require_current`, `require_plausible` and `LastPolls` reject rows. `doubts` reports rows that do not change,
are 0, or differ from other venues: they are stored, with a notice.

An import prompts the user (`derivdata.sources.archive.audit`). The collector cannot prompt, so doubtful
values are omitted or raise an error, and are requested again.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import chain
from operator import attrgetter
from statistics import median
from typing import Any

import numpy as np
import pandas as pd

from derivdata import tables, units
from derivdata.errors import SchemaError
from derivdata.sources.archive import Archive
from derivdata.sources.archive.audit import Question, audit
from derivdata.sources.collect.session import VenueSession
from derivdata.sources.venues.endpoint import VenueEndpoint
from derivdata.sources.venues.record_types import Instrument, Option, OrderBook, Records, State, omitted
from derivdata.sources.venues.row_checks import (
    FACTOR,
    LEVELS,
    PAYMENTS,
    STEADY,
    row_faults,
    series_doubts,
    stated_cap,
)
from derivdata.support import times

_MAX_AGE = pd.Timedelta(10, "min")
_MAX_AGE_US = times.us(_MAX_AGE)
_MIN_CONTRACTS = 5
"""Minimum number of contracts for a median."""
_JUMP_FACTOR = 3.0
"""Factor of median open interest between two polls that markets do not reach."""
_FIGURE_FACTORS = {**dict.fromkeys(("mark", "index_price", "last", "underlying"), 5.0), "change_pct": 1.05}
"""Factors for prices, and for a change, which is compared by the price 24 hours ago that it implies."""
_COMPARED_FIGURES = ("mark", "index_price", "last", "oi_usd", "oi_coins", "volume_usd")
_COMPARED_FIELDS = ("symbol", "quote", "size", "inverse", "perpetual", "strike", "expiry")
_FILL_FACTOR = 2.0
"""Maximum ratio of a liquidation's price to the last mark, or the inverse."""
_ACCEPTED_AFTER = pd.Timedelta(1, "h")
_USUAL_BPS = 1.0
"""Smaller rates count as this rate, because rates cross 0."""
_USD_TOLERANCE = 1.25
"""Tolerance of coins × price relative to USD, since the price may be of another second."""
_MAX_USD = 1e11
_UNLISTED = "the venue does not list the contract"
OF_SERIES = {"funding_settlements": "rate_bps_8h", "oi_history": "oi_usd", "prices_history": "price_usd"}
_COMPARED_SPAN = pd.Timedelta(7, "D")
_MICROSECOND = pd.Timedelta(1, "us")
_SERIES_ROWS = 50


def require_current(endpoint: VenueEndpoint, records: Records, at: pd.Timestamp) -> None:
    """Raise `SchemaError` if the newest time in a response about the present is 10 minutes off the clock."""
    if endpoint.every is None and endpoint.what != "book":
        return
    present: Iterable[State | Option | OrderBook] = chain(records.states, records.options, records.books)
    stamps = [row.time for row in present if row.time is not None]
    apart = max(stamps, default=times.us(at)) - times.us(at)
    if abs(apart) > _MAX_AGE_US:
        stamp = times.iso(pd.Timestamp(max(stamps), unit="us", tz="UTC"))
        raise SchemaError(
            f"{endpoint.where}: expected a current row at {times.iso(at)}, but the newest row is at {stamp}"
        )


class LastPolls:
    """The last figures of a venue, for comparison with each poll; `open_interest` is by symbol in USD."""

    def __init__(self, exchange: str, open_interest: Mapping[str, float] | None = None) -> None:
        self._exchange = exchange
        self._open = dict(open_interest or {})
        self._stored = dict(open_interest or {})
        # Time of the first poll whose median is far off, and its ratio to the open interest before.
        self._jumped: tuple[pd.Timestamp, float] | None = None
        self._last: dict[tuple[str, str], float] = {}  # by contract and figure
        self._since: dict[tuple[str, str], pd.Timestamp] = {}  # when a figure was first doubtful
        self._named: set[str] = set()  # contracts that were in a poll
        self.withheld: Records | None = None  # original states of the last poll that lost a figure
        self.prices: dict[str, float] = {}  # the last price of each symbol

    def hold(
        self, states: list[State], now: pd.Timestamp, listed: Collection[str] = ()
    ) -> tuple[list[State], dict[str, str], list[str]]:
        """Return states without doubtful figures, errors by table, and notes.

        A jump of the median contract is an error of the table. A jump of a single contract removes its
        figure, until the venue has sent it for an hour. A contract that is in neither a list nor an earlier
        poll is removed for an hour, too.
        """
        omissions = list[str]()
        failed = {}
        notes = list[str]()
        rows = states
        # 1. Omit the open interest of all contracts if its median jumps.
        why = self._jump_text(rows, now)
        if why:
            if self._jumped is None:
                notes.append(f"{why}; the values are accepted, because the venue has sent them for an hour")
            else:
                failed["oi_history"] = why
                rows = [row._replace(oi_usd=None, oi_coins=None) for row in rows]
        # 2. Omit unknown contracts, and figures of single contracts that jump.
        rows = [
            row for row in rows if self._is_accepted_contract(row.instrument.name, listed, omissions, now)
        ]
        self._named.update(row.instrument.name for row in rows)
        rows = [self._without_doubtful(row, omissions, now) for row in rows]
        notes += self._above_caps(rows, now)
        # 3. Keep the original rows of all changes, for the quarantine.
        accepted = {(row.instrument.name, row.time): row for row in rows}
        changed = [row for row in states if accepted.get((row.instrument.name, row.time)) != row]
        self.withheld = None
        if changed:
            self.withheld = Records(states=changed)
        # 4. Store the last prices in a copy, because another thread reads the old ones.
        prices = dict(self.prices)
        for row in rows:
            price = row.mark or row.price or row.last
            if price:
                prices[row.instrument.symbol] = price
        self.prices = prices
        if omissions:
            notes.append(omitted(omissions, "value"))
        return rows, failed, notes

    def _above_caps(self, states: list[State], now: pd.Timestamp) -> list[str]:
        """Return a note about rates above the venue's stated cap, which may have changed since."""
        above = list[str]()
        for row in states:
            cap = stated_cap(self._exchange, row.instrument.symbol)
            is_of_interval = row.period_h == row.settle_h
            if cap is not None and is_of_interval and cap.is_broken_by(row.rate, row.period_h, now):
                bps = (row.rate or 0.0) * units.BPS
                above.append(
                    f"{row.instrument.name}: rate {bps:g} bps, but the cap was {cap.bps:g} bps on {cap.day}"
                )
        if not above:
            return []
        return [f"{len(above)} rates are above the cap, first {above[0]}"]

    def hold_chain(self, options: list[Option], now: pd.Timestamp) -> tuple[list[Option], list[str]]:
        """Return options without figures that jump, and texts about these figures.

        As in `hold`, a figure is removed until the venue has sent its new level for an hour.
        """
        omissions: list[str] = []
        sound = []
        self.withheld = Records()
        for row in options:
            figures = {"iv": row.iv, "underlying": row.underlying}
            doubtful = self._doubtful(row.name, figures, omissions, now)
            if doubtful:
                self.withheld.options.append(row)
            sound.append(row._replace(**doubtful))
        return sound, omissions

    def sound_fills(
        self, rows: pd.DataFrame, now: pd.Timestamp, listed: Iterable[str]
    ) -> tuple[pd.DataFrame, list[str]]:
        """Return liquidations of `listed` symbols near their last prices, and texts about the others.

        A liquidation of a symbol without a last price counts as near: its mark is NaN.
        """
        listed = set(listed)
        marks = rows["symbol"].astype(object).map(self.prices).to_numpy(dtype="float64")
        prices = rows["fill_price_usd"].fillna(rows["order_price_usd"]).to_numpy(dtype="float64")
        is_far = (prices > _FILL_FACTOR * marks) | (prices * _FILL_FACTOR < marks)
        is_far |= (rows["time"] > now + _MAX_AGE).to_numpy() | ~rows["symbol"].isin(listed).to_numpy()
        omissions = []
        for row, price, mark in zip(rows[is_far].itertuples(), prices[is_far], marks[is_far], strict=True):
            reason = _UNLISTED
            if row.symbol in listed:
                reason = f"the last price is {mark:g}"
            omissions.append(f"a liquidation of {row.symbol} at {price:g} on {times.iso(row.time)}: {reason}")
        return rows[~is_far], omissions

    def _is_accepted_contract(
        self, name: str, listed: Collection[str], omissions: list[str], now: pd.Timestamp
    ) -> bool:
        """Return whether a contract is listed, was in an earlier poll, or has been sent for an hour.

        All contracts of the first poll are accepted.
        """
        if not self._named or name in self._named or name in listed:
            return True
        if now - self._since.setdefault((name, ""), now) >= _ACCEPTED_AFTER:
            return True
        omissions.append(f"{name}: {_UNLISTED}")
        return False

    def _without_doubtful(self, row: State, omissions: list[str], now: pd.Timestamp) -> State:
        """Return the state of a contract without figures that contradict others or are far from the last."""
        name = row.instrument.name
        price = row.mark or row.price or row.last
        doubtful: dict[str, Any] = {}
        if row.oi_usd and row.oi_coins and price:
            ratio = row.oi_coins * price / row.oi_usd
            if not 1 / _USD_TOLERANCE < ratio < _USD_TOLERANCE or row.oi_usd > _MAX_USD:
                omissions.append(
                    f"{name}: open interest is {row.oi_usd:g} USD, but {row.oi_coins:g} coins at a price of "
                    f"{price:g} USD"
                )
                doubtful |= {"oi_usd": None, "oi_coins": None}
        figures = {figure: getattr(row, figure) for figure in _COMPARED_FIGURES if figure not in doubtful}
        if row.rate is not None and row.period_h:
            figures["rate"] = max(abs(row.rate) * units.BPS * 8 / row.period_h, _USUAL_BPS)
        if price and row.change_pct is not None and row.change_pct > -100:
            figures["change_pct"] = price / (1 + row.change_pct / 100)
        if row.instrument.perpetual:
            stored = self._stored.pop(row.instrument.symbol, None)
            if stored and row.oi_usd:
                self._last.setdefault((name, "oi_usd"), stored)
        return row._replace(**doubtful, **self._doubtful(name, figures, omissions, now))

    def _doubtful(
        self, name: str, figures: dict[str, float | None], omissions: list[str], now: pd.Timestamp
    ) -> dict[str, Any]:
        """Return a dict with None for each figure of a contract that is far from its last value.

        A value that the venue has sent for an hour is accepted.
        """
        doubtful: dict[str, Any] = {}
        for figure, value in figures.items():
            if not value:
                continue
            key = name, figure
            last = self._last.get(key, value)
            # A rate may fall in one step: with a payment, or with its interval.
            factor = _FIGURE_FACTORS.get(figure, FACTOR)
            is_near = (figure == "rate" or value >= last / factor) and value <= last * factor
            if not is_near and now - self._since.setdefault(key, now) < _ACCEPTED_AFTER:
                omissions.append(f"{name}: {figure} is {value:g}, but was {last:g} in the last poll")
                doubtful[figure] = None
            else:
                self._last[key] = value
                self._since.pop(key, None)
        return doubtful

    def _jump_text(self, rows: list[State], now: pd.Timestamp) -> str:
        """Return an error text if the median open interest has another unit or counts other sides, else "".

        Once polls have agreed for an hour, the new values are accepted and `_jumped` is None.
        """
        current = {}
        for row in rows:
            if row.oi_usd and row.instrument.perpetual:
                current[row.instrument.symbol] = row.oi_usd
        ratios = [usd / self._open[symbol] for symbol, usd in current.items() if symbol in self._open]
        jump = 1.0
        if len(ratios) >= _MIN_CONTRACTS:
            jump = median(ratios)
        if 1 / _JUMP_FACTOR < jump < _JUMP_FACTOR:
            self._open |= current
            self._jumped = None
            return ""
        since, first_jump = self._jumped or (now, jump)
        if not 1 / _JUMP_FACTOR < jump / first_jump < _JUMP_FACTOR:  # another jump than before
            since = now
            first_jump = jump
        self._jumped = (since, first_jump)
        if now - since >= _ACCEPTED_AFTER:
            self._open = current
            self._jumped = None
        return (
            f"{self._exchange}: open interest is {jump:.3g} times that of the last poll (median of "
            f"{len(ratios)} contracts): the venue may use another unit"
        )


def hold_list(
    before: Records, listed: Records, doubted: dict[str, Instrument]
) -> tuple[list[str], list[str]]:
    """Restore the earlier state of contracts that a venue's new list describes as other contracts.

    Returns texts about these changes, and about accepted ones: changes that the list before had too
    (`doubted`), contracts that ended, and changed steps or intervals.
    """
    earlier = {item.name: item for item in before.instruments}
    ended = earlier.keys() - set(map(attrgetter("name"), listed.instruments))
    held = list[str]()
    accepted = [f"{name} is no longer listed" for name in sorted(ended)]
    accepted += _interval_changes(before, listed)
    for place, item in enumerate(listed.instruments):
        last = earlier.get(item.name, item)
        changed = [name for name in item._fields if getattr(item, name) != getattr(last, name)]
        changes = [
            f"{item.name}: {name} changed from {getattr(last, name)} to {getattr(item, name)}"
            for name in changed
        ]
        is_other = not set(changed).isdisjoint(_COMPARED_FIELDS)
        if is_other and doubted.get(item.name) != item:
            doubted[item.name] = item
            listed.instruments[place] = last
            held += changes
        else:
            doubted.pop(item.name, None)
            accepted += changes
    return held, accepted


def _interval_changes(before: Records, listed: Records) -> list[str]:
    """Return a text for each changed interval of a list; none if the list before had no intervals."""
    if not before.intervals:
        return []
    old = {row.instrument.name: row.hours for row in before.intervals}
    new = {row.instrument.name: row.hours for row in listed.intervals}
    changed = [name for name in sorted(old.keys() | new.keys()) if new.get(name) != old.get(name)]
    return [f"{name}: interval changed from {old.get(name)} to {new.get(name)} hours" for name in changed]


def require_plausible(session: VenueSession, archive: Archive, table: str, rows: pd.DataFrame) -> None:
    """Raise `SchemaError` for rows that fail the checks of an import, or are 20 times the last rows.

    Rejected rows go to the quarantine. Raises `ArchiveError` if the archive cannot be read.
    """
    exchange = session.venue.exchange
    stored = archive.exchanges(table)

    def read(
        symbols: Collection[str], start: pd.Timestamp, end: pd.Timestamp, venues: Sequence[str] | None = None
    ) -> pd.DataFrame:
        return archive.read(table, start, end + _MICROSECOND, symbols=[*symbols], venues=venues)

    try:
        audit(tables.TABLES[table], rows, stored, read, accept=("future", "schedule"))
        if table in OF_SERIES and len(rows) and stored:
            first = rows["time"].min()
            for symbol, of_symbol in rows.groupby("symbol", observed=True):
                last = read([str(symbol)], first - _COMPARED_SPAN, first - _MICROSECOND, [exchange])
                require_like(table, last.tail(_SERIES_ROWS), of_symbol.head(_SERIES_ROWS))
        for text in row_faults(table, rows):
            raise SchemaError(text)
    except (Question, SchemaError) as problem:
        why = str(problem)
        if isinstance(problem, Question):
            why = problem.finding
        symbol = re.sub(r"\W", "_", str(rows["symbol"].iloc[0]))
        file = session.shared.quarantine.keep_rows(exchange, table, rows, symbol)
        raise SchemaError(f"{exchange} {table}: {why} ({file})") from None


def require_like(table: str, last: pd.DataFrame, rows: pd.DataFrame) -> None:
    """Raise `SchemaError` if the median differs from the median of the last rows by a factor of 20.

    Rates are compared with the largest of the last rates, and may be smaller.
    """
    name = OF_SERIES[table]
    if last.empty or rows.empty:
        return
    before = float(last[name].abs().median())
    now = float(rows[name].abs().median())
    if name == "rate_bps_8h":  # rates may fall, and rise to earlier values
        before = max(float(last[name].abs().max()), _USUAL_BPS)
        now = max(now, before)
    if not (before > 0 and now >= 0):  # nothing to compare with: open interest or rates are 0 or NaN
        return
    if not before / FACTOR <= now <= before * FACTOR:
        raise SchemaError(
            f"the median {name} of {rows['symbol'].iloc[0]} is {now:g}, but earlier rows have {before:g}: "
            "the venue may use another unit"
        )


_RATE = "rate_bps_8h"
_COMPARED_ROWS = 12
_MEDIAN_FACTOR = 6.0
_ROW_FACTOR = 5.0
_MIN_BPS = 0.3
_LARGE_BPS = 2.0
_MIN_ROWS = 6
_MIN_SHARE = 0.1
_OPPOSITE_SHARE = 0.6


def doubts(
    archive: Archive, exchange: str, table: str, rows: pd.DataFrame, usual_hours: float | None
) -> list[str]:
    """Return a sentence, with the first doubtful row, for each doubt about the rows of one contract."""
    if rows.empty:
        return []
    texts = list(series_doubts(exchange, table, rows, usual_hours))
    if table == PAYMENTS:
        ordered = rows.sort_values("time")
        texts += _unlike_peers(archive, exchange, ordered)
    elif table in STEADY:
        texts += _unlike_stored(archive, exchange, table, rows.sort_values("time"))
    return [f"{exchange} {table} {rows['symbol'].iloc[0]}: {text}" for text in texts]


_STORED_SPAN = pd.Timedelta(1, "D")
_STORED_ROWS = 12
_STORED_FACTOR = {"oi_history": 3.0, "prices_history": 1.3}
"""Factor by which a day's last and first rows of one series may differ."""


def _unlike_stored(archive: Archive, exchange: str, table: str, rows: pd.DataFrame) -> list[str]:
    """Return a doubt about levels of another size than the rows that the archive has of the day before."""
    if exchange not in archive.exchanges(table):
        return []
    name = LEVELS[table]
    symbol = str(rows["symbol"].iloc[0])
    start = rows["time"].iloc[0]
    stored = archive.read(table, start - _STORED_SPAN, start, symbols=[symbol], venues=[exchange])
    for key in ("kind", "quote"):
        if key in rows:
            first = rows[key].iloc[0]
            stored = stored[(stored[key] == first).to_numpy(dtype=bool)]
            rows = rows[(rows[key] == first).to_numpy(dtype=bool)]
    before = float(stored.sort_values("time")[name].tail(_STORED_ROWS).median())
    now = float(rows[name].head(_STORED_ROWS).median())
    factor = _STORED_FACTOR[table]
    if len(stored) < _MIN_ROWS or not (before > 0 and now > 0) or before / factor <= now <= before * factor:
        return []
    return [
        f"{name} is {now:.4g} from {_shown(rows, 0)} on, but was {before:.4g} in the stored rows before: "
        "the unit may have changed, or the market moved this much in a day"
    ]


def _unlike_peers(archive: Archive, exchange: str, rows: pd.DataFrame) -> list[str]:
    """Return a doubt about rates that differ from other venues at the same times and intervals."""
    if not set(archive.exchanges(PAYMENTS)) - {exchange}:
        return []
    start = rows["time"].iloc[0]
    end = rows["time"].iloc[-1] + _MICROSECOND
    stored = archive.read(PAYMENTS, start, end, symbols=[str(rows["symbol"].iloc[0])])
    stored = stored[(stored["exchange"] != exchange).to_numpy()]
    keys: list[Any] = ["time", "interval_hours"]
    peers = stored.groupby(keys, observed=True)[_RATE].median().rename("peer").reset_index()
    both = rows.merge(peers, on=keys, how="inner").sort_values("time", ignore_index=True)
    if len(both) < _COMPARED_ROWS:
        return []
    rate = both[_RATE].to_numpy(dtype=np.float64)
    peer = both["peer"].to_numpy(dtype=np.float64)
    larger = np.fmax(np.abs(rate), np.abs(peer))
    has_both = (rate != 0) & (peer != 0)
    ratio = np.where(has_both, np.abs(rate) / np.where(peer == 0, 1.0, np.abs(peer)), 1.0)
    rolling = pd.DataFrame({"ratio": ratio, "larger": larger}).rolling(_COMPARED_ROWS).median()
    median_ratio = rolling["ratio"].to_numpy()
    median_size = rolling["larger"].to_numpy()
    # 1. Find a dozen rows of another size, as of another unit or interval.
    with np.errstate(invalid="ignore"):
        is_far = (median_ratio >= _MEDIAN_FACTOR) | (median_ratio <= 1 / _MEDIAN_FACTOR)
        is_far &= median_size >= _MIN_BPS
    if is_far.any():
        place = int(np.argmax(is_far))
        relation = f"{median_ratio[place]:.3g} times the median of other venues"
        return [_sentence(both, place - _COMPARED_ROWS + 1, relation)]
    # 2. Find another size in a tenth of the rows.
    is_other = ((ratio >= _ROW_FACTOR) | (ratio <= 1 / _ROW_FACTOR)) & (larger >= _LARGE_BPS)
    if is_other.sum() >= max(_MIN_ROWS, _MIN_SHARE * len(both)):
        place = int(np.argmax(is_other))
        relation = f"{ratio[place]:.3g} times the median of other venues in {int(is_other.sum())} rows"
        return [_sentence(both, place, relation)]
    # 3. Find the other sign in most of a dozen rows.
    is_opposite = pd.Series((np.sign(rate) == -np.sign(peer)) & (larger >= _MIN_BPS) & has_both)
    share = is_opposite.rolling(_COMPARED_ROWS).mean().to_numpy()[_COMPARED_ROWS - 1 :]
    if (share >= _OPPOSITE_SHARE).any() and is_opposite.sum() >= _COMPARED_ROWS:
        place = int(np.flatnonzero(is_opposite)[0])
        return [_sentence(both, place, "opposite in sign to the median of other venues")]
    return []


def _sentence(rows: pd.DataFrame, place: int, relation: str) -> str:
    """Return the text of a doubt; `place` is the first doubtful row, and `relation` compares with others."""
    rate = rows[_RATE].iloc[place]
    peer = rows["peer"].iloc[place]
    return f"{_RATE} is {relation}, first at {_shown(rows, place)} ({rate:g} bps against {peer:g} bps)"


def _shown(rows: pd.DataFrame, place: int) -> str:
    return times.iso(rows["time"].iloc[place])
