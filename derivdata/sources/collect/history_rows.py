"""Rows of histories in a window: the requests that return them, their pages, and missing rows.

`history` returns the rows of one contract, `liquidations` those of lists of one or all contracts. A stream of
liquidations has another ID, price and clock for the same event. If a venue's path changes between stream and
requests, the same event has equal contract, side and coins in both, and times within a second.

`Surroundings` finds missing rows at the step of a series: the resolution of the rows, or the interval of each
payment. A window with missing rows is incomplete: it is requested again, until a second response lacks the
same rows (see the ledger).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from math import isclose
from operator import attrgetter
from typing import Any, NamedTuple, TypeVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from derivdata import tables
from derivdata.errors import SchemaError
from derivdata.sources import Query
from derivdata.sources.archive import Archive
from derivdata.sources.archive.ledger import LedgerEntry
from derivdata.sources.collect.contracts import contract_name, contract_params, endpoints_for
from derivdata.sources.collect.session import Contracts, VenueSession
from derivdata.sources.venues.endpoint import DATED, Venue, VenueEndpoint, walk
from derivdata.sources.venues.record_types import Instrument, Liquidation, Records, omitted
from derivdata.sources.venues.registry import VENUES
from derivdata.sources.venues.row_checks import implied_price_doubts
from derivdata.sources.venues.tabulation import frames
from derivdata.support import times
from derivdata.support.times import Window
from derivdata.tables.history_rows import is_off_grid, shown_time, step_text
from derivdata.tables.payments import confirmed_runs, is_valid

TABLES = {
    "funding_settlements": ("settlements",),
    "oi_history": ("oi_history",),
    "prices_history": ("prices", "oi_history", "settlements"),
    DATED: ("prices",),
    "funding_history": ("funding_series",),
    "positioning_history": ("positioning", "oi_history"),
    "prices_spot": ("spot",),
    "volume_taker": ("taker", "oi_history"),
    "liquidations_fills": ("liquidations",),
    "options_trades": ("option_trades",),
    "delivery_prices": ("deliveries",),
    "volatility_index_published": ("volatility_index",),
}
"""Tables that venues' histories can refill, and the kinds of request for each.

Some venues have reliable prices only in responses about open interest or payments; Gate has all of its
statistics in one response.
"""
OF_KINDS = ("prices_history", "positioning_history", "delivery_prices")
"""Tables for which each request returns another kind of rows."""

NAMED_ONLY = (
    "positioning_history",
    "prices_spot",
    "volume_taker",
    "options_trades",
    "delivery_prices",
    "volatility_index_published",
)
"""Tables collected only if named, since each takes several requests per contract and hour."""

_Row = TypeVar("_Row")
_BEFORE = {
    "funding_settlements": pd.Timedelta(25, "h"),  # three payments of 8 h confirm the first row's interval
    "positioning_history": pd.Timedelta(2, "h"),  # a period that ends in the window; some omit the start
    "volume_taker": pd.Timedelta(1, "h"),
    "volatility_index_published": pd.Timedelta(2, "h"),
}
_MAX_PAGES = 20_000
_BESIDE = pd.Timedelta(1, "h")
_PROGRESS_EVERY = 5  # requests of a walk between progress lines
_ASIDE_US = times.us(pd.Timedelta(1, "D"))
"""Distance of rows from their window: a bucket of a day may be stamped at either end."""
_ENDS_WITHIN = pd.Timedelta(1, "D")
"""Maximum time from the last row of a traded contract to the end of a window; it pays every 8 hours."""
_AHEAD = pd.Timedelta(10, "min")
_EVENTS = ("options_trades", "delivery_prices")
"""Tables with a row per event; a symbol may be without events for days."""


def pages(
    session: VenueSession,
    endpoint: VenueEndpoint,
    first: int,
    last: int,
    given: Mapping[str, str],
    *,
    context: Mapping[str, Any] | None = None,
) -> Iterator[Records]:
    """Yield every page of a window [µs], or raise; `given` has the parameters that do not change.

    The first empty page of a walk is requested again, because one of the venue's servers may be behind.
    """
    steps = walk(endpoint.paging, first, last)
    params = next(steps)
    is_sure = endpoint.paging is None
    for number in range(1, _MAX_PAGES + 1):
        page, _, _ = session.request(endpoint, {**params, **given}, context=context)
        if not page.times and not is_sure:
            page, _, _ = session.request(endpoint, {**params, **given}, context=context)
            is_sure = True
        _require_window(endpoint, page, first, last)
        if number % _PROGRESS_EVERY == 0 and session.progress is not None and page.times:
            walked = max(page.times) - first
            if endpoint.paging is not None and endpoint.paging.descending:
                walked = last - min(page.times)
            share = min(max(walked / max(last - first, 1), 0.001), 1.0)
            named = " ".join([endpoint.exchange, endpoint.place, *given.values()])
            session.progress(f"{named}: {number} of about {max(number, round(number / share))} requests")
        yield page
        try:
            params = steps.send(page)
        except StopIteration:
            return
        except SchemaError as problem:
            raise SchemaError(f"{endpoint.where}: {problem}") from None
    raise SchemaError(f"{endpoint.where}: {_MAX_PAGES:,} pages do not reach the end of the window")


def _require_window(endpoint: VenueEndpoint, page: Records, first: int, last: int) -> None:
    """Raise `SchemaError` if all rows of a page are outside of the requested window [µs]."""
    paging = endpoint.paging
    if paging is None or not (paging.start and paging.end and page.times):
        return
    oldest = min(page.times)
    newest = max(page.times)
    if newest < first - _ASIDE_US or oldest > last + _ASIDE_US:
        requested = f"{np.datetime64(first, 'us')} to {np.datetime64(last, 'us')}"
        got = f"{np.datetime64(oldest, 'us')} to {np.datetime64(newest, 'us')}"
        raise SchemaError(f"{endpoint.where}: expected rows from {requested}, got rows from {got}")


def require_contract(endpoint: VenueEndpoint, page: Records, item: Instrument) -> None:
    """Raise `SchemaError` if a page is about another contract than requested."""
    pasts: Iterable[Any] = chain(
        page.payments, page.oi, page.prices, page.positioning, page.taker_volumes, page.books
    )
    contracts = {row.instrument.name: row.instrument.symbol for row in pasts}
    others = set(contracts.values()) - {item.symbol}
    is_about_many = endpoint.symbol in ("", "currency")
    got = ""
    if is_about_many:
        if contracts and item.symbol not in contracts.values():
            got = ", ".join(sorted(others)[:3])
    elif len(contracts) > 1:
        got = " and ".join(sorted(contracts)[:2])
    elif others:
        got = ", ".join(others)
    if got:
        raise SchemaError(f"{endpoint.where}: expected rows of {item.name}, got rows of {got}")


def refilling(venue: Venue, table: str, *, unconfirmed: bool) -> list[VenueEndpoint]:
    """Return the requests that refill a table, in order of preference."""
    endpoints: list[VenueEndpoint] = []
    for what in TABLES[table]:
        endpoints += endpoints_for(venue, what, unconfirmed=unconfirmed)
    filling = [endpoint for endpoint in endpoints if table in endpoint.tables]
    if table in _EVENTS:  # without paging only the newest events
        return [endpoint for endpoint in filling if endpoint.paging is not None]
    return filling


def join_frames(table: str, frames: Iterable[pd.DataFrame]) -> pd.DataFrame:
    """Return the rows of some frames of a table in one frame; an empty table without rows."""
    filled = [frame for frame in frames if len(frame)]  # an empty column may have another type
    if not filled:
        return tables.TABLES[table].empty()
    return pd.concat(filled, ignore_index=True)


class PartialPage(NamedTuple):
    """An incomplete page: the affected window, and the reason.

    `missing` is the number of rows that are missing at the step of the series. With `is_open` the last rows
    are missing.
    """

    window: times.Window
    error: str
    missing: int = 0
    is_open: bool = False

    @classmethod
    def of(cls, page: Records, window: times.Window) -> PartialPage | None:
        """Return a page with omitted rows, cut to a window; None if it is complete."""
        if not page.omitted:
            return None
        start, end = window
        if page.times:
            stamps = pd.to_datetime([min(page.times), max(page.times)], unit="us", utc=True)
            # An omitted row may be at an edge of the page.
            start = max(start, stamps[0] - _BESIDE)
            end = min(end, stamps[1] + _BESIDE)
        if start >= end:
            return None
        return cls(times.Window(start, end), omitted(page.omitted)[:500])


class History(NamedTuple):
    """The rows of a window, and its incomplete pages."""

    rows: pd.DataFrame
    partial: list[PartialPage]
    doubts: Sequence[str] = ()


def entries(
    exchange: str,
    symbol: str | None,
    window: times.Window,
    partial: Iterable[PartialPage],
    at: pd.Timestamp | None = None,
) -> list[LedgerEntry]:
    """Return the ledger entries of a window: successful, except where rows were omitted or are missing.

    `at` is the time of the response.
    """
    result = list[LedgerEntry]()
    start = window.start
    for page in sorted(partial, key=lambda page: page.window.start):
        first = max(page.window.start, start)
        last = min(page.window.end, window.end)
        if first < last:
            if start < first:
                result.append(LedgerEntry(exchange, symbol, start, first))
            entry = LedgerEntry(exchange, symbol, first, last, page.error, is_open=page.is_open)
            if page.missing:
                entry = entry._replace(incomplete_at=at)
            result.append(entry)
            start = last
    if start < window.end:
        result.append(LedgerEntry(exchange, symbol, start, window.end))
    return result


def history(
    session: VenueSession, endpoint: VenueEndpoint, item: Instrument, table: str, window: times.Window
) -> History:
    """Walk one history of one contract and return the rows of the window.

    A page that fails raises. Single rows that fail are omitted, and their page is in `History.partial`.
    """
    first = times.us(window.start - _BEFORE.get(table, pd.Timedelta(0)))
    last = times.us(window.end)
    records = Records()
    context: dict[str, Any] = {"instrument": item.name}
    needs_marks = not item.inverse  # to convert coins to USD
    if DATED in endpoint.tables:
        needs_marks = table == DATED
    if endpoint.marks is not None and needs_marks:
        prices = _marks(session, endpoint.marks, item, first, last, context)
        if table == DATED:
            records.prices = prices.prices
        else:
            context |= frames(endpoint.exchange, prices, ["prices_history"])
    partial: list[PartialPage] = []
    for page in pages(session, endpoint, first, last, contract_params(endpoint, item), context=context):
        require_contract(endpoint, page, item)
        records.add(page)
        if (incomplete := PartialPage.of(page, window)) is not None:
            partial.append(incomplete)
    _require_past(endpoint, records, session.clock.utc())
    frame = _of_window(endpoint, records, item, table, window)
    if table not in _EVENTS:
        _require_whole(session, endpoint, frame, item, table, window)
    doubts: list[str] = []
    if table == "oi_history":
        doubts += implied_price_doubts(records.oi)
    return History(frame, partial, doubts)


def _marks(
    session: VenueSession,
    endpoint: VenueEndpoint,
    item: Instrument,
    first: int,
    last: int,
    context: Mapping[str, Any],
) -> Records:
    """Return the marks of a contract in a window [µs], one of each time: pages overlap by a row."""
    records = Records()
    for page in pages(session, endpoint, first, last, contract_params(endpoint, item), context=context):
        require_contract(endpoint, page, item)
        records.add(page)
    records.prices = list({row.time: row for row in records.prices}.values())
    return records


def _require_whole(
    session: VenueSession,
    endpoint: VenueEndpoint,
    frame: pd.DataFrame,
    item: Instrument,
    table: str,
    window: times.Window,
) -> None:
    """Raise `SchemaError` if rows of a traded contract end long before the window, or are too sparse.

    An empty history may be before the listing, or of a new contract, if other contracts have rows until now.
    Payments of a listed contract may not be empty while others are paid.
    """
    where = f"{endpoint.where}: {item.name}"
    now = session.clock.utc()
    end = min(window.end, now)
    is_recent = end >= now - _ENDS_WITHIN
    first = window.end
    if item.listed is not None:
        first = pd.Timestamp(item.listed, unit="us", tz="UTC")
    is_due = table == "funding_settlements" and max(first, window.start) < end - _ENDS_WITHIN
    if len(frame):
        newest = frame["time"].max()
    elif is_recent or is_due:
        newest = window.start
    else:
        newest = end  # nothing is known of an older window without rows
    if item.active and newest < end - _ENDS_WITHIN:
        is_cut = is_recent
        if len(frame):
            is_cut = True
        elif _has_rows_of_another(session, endpoint, item, table, end):
            is_cut = is_due
        if is_cut:
            raise SchemaError(
                f"{where} is still traded, but its rows end at {times.iso(newest)} in a window until "
                f"{times.iso(end)}"
            )
    _require_steps(endpoint, frame, where)


def _require_steps(endpoint: VenueEndpoint, frame: pd.DataFrame, where: str) -> None:
    """Raise `SchemaError` if rows of one resolution are off its grid, or too sparse."""
    if "resolution" not in frame:
        return
    resolutions = frame["resolution"].unique().tolist()
    if len(resolutions) != 1:
        return
    step = times.RESOLUTIONS.get(str(resolutions[0]))
    if step is None:
        return
    _require_grid(frame, times.us(step), where)
    apart = frame["time"].sort_values().diff().median()
    is_thinned = endpoint.paging is not None and endpoint.paging.thinned
    if len(frame) > 3 and not is_thinned and apart > 1.5 * step:
        raise SchemaError(f"{where}: expected rows {step} apart, got {apart}")


def _require_past(endpoint: VenueEndpoint, records: Records, now: pd.Timestamp) -> None:
    """Raise `SchemaError` for rows in the future, whose times have another zone or unit."""
    pasts: Iterable[Any] = chain(
        records.payments, records.oi, records.prices, records.positioning, records.taker_volumes
    )
    newest = max((row.time for row in pasts), default=0)
    if newest > times.us(now + _AHEAD):
        stamp = times.iso(pd.Timestamp(newest, unit="us", tz="UTC"))
        raise SchemaError(
            f"{endpoint.where}: expected rows until now, {times.iso(now)}, got a row of {stamp} in the future"
        )


def _require_grid(frame: pd.DataFrame, step: int, where: str) -> None:
    """Raise `SchemaError` for rows that are not on the grid of their step [µs]."""
    stamps = frame["time"].astype("datetime64[us, UTC]").astype("int64").to_numpy()
    is_off = is_off_grid(stamps, step)
    if is_off.any():
        first = shown_time(int(stamps[is_off].min()))
        count = f"{int(is_off.sum())} of {len(stamps)}"
        raise SchemaError(f"{where}: {count} rows are off the {step_text(step)} grid, first {first}")


def _has_rows_of_another(
    session: VenueSession, endpoint: VenueEndpoint, item: Instrument, table: str, end: pd.Timestamp
) -> bool:
    """Return whether an endpoint has rows of the last day for BTC, or for its first contract."""
    listing = session.shared.listing
    if listing is None:
        return False
    covered = filter(endpoint.covers, listing.contracts.by_symbol.values())
    other = min(covered, key=lambda contract: contract.symbol != "BTC", default=item)
    if other.symbol == item.symbol:
        return False
    last_day = times.Window(end - _ENDS_WITHIN, end)
    return len(history(session, endpoint, other, table, last_day).rows) > 0


def _of_window(
    endpoint: VenueEndpoint, records: Records, item: Instrument, table: str, window: times.Window
) -> pd.DataFrame:
    """Return the rows of a table in a window; of rows in two pages the last one."""
    records.oi = _last_rows(records.oi, "time")
    records.taker_volumes = _last_rows(records.taker_volumes, "time")
    records.positioning = _last_rows(records.positioning, "time", "kind")
    records.prices = _last_rows(records.prices, "time", "kind")
    records.trades = _last_rows(records.trades, "option.name", "trade_id")
    records.indices = _last_rows(records.indices, "time")
    usual = VENUES[endpoint.exchange].usual_hours
    frame = frames(endpoint.exchange, records, [table], listed=usual)[table]
    inside = (frame["time"] >= window.start) & (frame["time"] < window.end) & (frame["symbol"] == item.symbol)
    is_unvalued = False
    if table == "oi_history":
        is_unvalued = any(row.oi_usd is None for row in records.oi)
    elif table == "volume_taker":
        is_unvalued = bool(frame.loc[inside, "buy_usd"].isna().any())
    if is_unvalued:
        why = f"{table} of {item.name} is in coins, without prices of the same minutes"
        raise SchemaError(f"{endpoint.where}: {why}")
    return tables.TABLES[table].conform(frame[inside])


INCOMPLETE = "incomplete"
"""First word of the text about a window with missing rows."""

_PAYMENTS = "funding_settlements"
_REACH = pd.Timedelta(2, "D")
"""Time around a window in which stored rows are read: two of the longest steps."""
_JOINED_WITHIN = pd.Timedelta(1, "D")
_LISTED_WITHIN = pd.Timedelta(1, "D")
"""Maximum time until venues list a row."""
_FIRST_STEPS = 2
"""Steps after the listing of a contract within which its first row is due."""
_MICROSECOND = pd.Timedelta(1, "us")
_HOUR_US = 3_600_000_000


def _last_rows(rows: list[_Row], *key: str) -> list[_Row]:
    """Return the last row of each key: pages overlap by a row."""
    return list(dict(zip(map(attrgetter(*key), rows), rows, strict=True)).values())


def has_step(table: str) -> bool:
    """Return whether rows of a table have a step."""
    return table == _PAYMENTS or "resolution" in tables.TABLES[table].columns


def joined(windows: Sequence[times.Window]) -> list[times.Window]:
    """Join windows that are less than a day apart, so that one request covers them."""
    result: list[times.Window] = []
    for window in windows:
        if result and window.start - result[-1].end < _JOINED_WITHIN:
            result[-1] = times.Window(result[-1].start, window.end)
        else:
            result.append(window)
    return result


class Surroundings:
    """The stored rows in and around a window of one series."""

    def __init__(
        self, archive: Archive, exchange: str, table: str, symbol: str, window: times.Window
    ) -> None:
        keyed = tables.TABLES[table]
        self.table = table
        self.window = window
        self._archive = archive
        self._exchange = exchange
        self._symbol = symbol
        self._groups = [name for name in keyed.key if name not in ("symbol", "exchange", "time")]
        if table == _PAYMENTS:
            self._columns = ["time", "interval_hours", "interval_source", *self._groups]
        else:
            if "resolution" not in self._groups:
                self._groups.append("resolution")
            self._columns = ["time", *self._groups]
        start = window.start - _REACH
        end = window.end + _REACH
        self._rows = archive.rows(Query(table, start, end, [symbol], [exchange], self._columns))

    def with_next_row(self) -> times.Window:
        """Return the window extended to the next stored row, which a response must have, too."""
        following = self._rows.loc[self._rows["time"] >= self.window.end, "time"]
        if following.empty:
            return self.window
        return times.Window(self.window.start, following.min() + _MICROSECOND)

    def missing(
        self,
        rows: pd.DataFrame,
        window: times.Window,
        now: pd.Timestamp,
        *,
        is_active: bool,
        listed: int | None = None,
    ) -> list[PartialPage]:
        """Return the sections of a window in which neither a response nor the archive has rows.

        After the last row, rows of a traded contract are missing until the end of the window; before the
        first row, they are missing since the contract was `listed` [µs].
        """
        present = pd.concat([self._rows, rows[self._columns]], ignore_index=True)
        sections: dict[times.Window, PartialPage] = {}
        if present.empty:  # a contract without rows may be without payments
            return []
        series = [present]
        if self._groups:
            series = [rows for _, rows in present.groupby(self._groups, observed=True)]
        for group in series:
            for section in self._of_series(group, window, now, is_active=is_active, listed=listed):
                sections.setdefault(section.window, section)
        return list(sections.values())

    def late_start(self, rows: pd.DataFrame, window: times.Window) -> str:
        """Return a text with the first row of a series that begins late in a window, else an empty text."""
        present = pd.concat([self._rows, rows[self._columns]], ignore_index=True)
        if present.empty:
            return ""
        first = present.loc[present["time"].idxmin()]
        if self.table == _PAYMENTS:
            step = pd.Timedelta(first["interval_hours"], "h")  # NaT if the interval is unknown
        else:
            step = times.RESOLUTIONS.get(str(first["resolution"]), pd.NaT)
        if step is pd.NaT:
            return ""
        absent = int((first["time"] - window.start) // step)
        if absent < 1 + _FIRST_STEPS:
            return ""
        return f"{self._symbol} from {times.iso(first['time'])} ({absent} rows)"

    def missing_before(
        self, rows: pd.DataFrame, window: times.Window, now: pd.Timestamp
    ) -> list[LedgerEntry]:
        """Return ledger entries for rows that are missing before a window in windows marked as answered.

        An interval that later payments confirm may show that earlier payments are missing.
        """
        before = times.Window(window.start - _REACH, window.start)
        sections = self.missing(rows, before, now, is_active=False)
        if not sections:
            return []
        ledger = self._archive.requests()
        is_own = (ledger["table"] == self.table) & (ledger["exchange"] == self._exchange)
        is_own &= ledger["answered"] & (ledger["source"] == "request")
        is_own &= ledger["symbol"].isna() | (ledger["symbol"] == self._symbol)
        answered = ledger[is_own]
        result = []
        for section in sections:
            start, end = section.window
            if ((answered["start"] <= start) & (answered["end"] >= end)).any():
                result.append(LedgerEntry(self._exchange, self._symbol, start, end, section.error, None, now))
        return result

    def _of_series(
        self,
        series: pd.DataFrame,
        window: times.Window,
        now: pd.Timestamp,
        *,
        is_active: bool,
        listed: int | None,
    ) -> Iterable[PartialPage]:
        """Yield the sections of a window with missing rows of one series."""
        series = series.drop_duplicates("time").sort_values("time")
        stamps = series["time"].astype("datetime64[us, UTC]").astype("int64").to_numpy()
        if self.table == _PAYMENTS:
            steps = _known_hours(series, stamps) * _HOUR_US
        else:
            length = times.RESOLUTIONS.get(str(series["resolution"].iloc[0]))
            if length is None:  # rows of polls
                return
            steps = np.full(len(stamps), float(times.us(length)))
        first = times.us(window.start)
        end = times.us(window.end)
        last = int(stamps[-1])
        step = float(steps[-1])
        # 1. Gaps between rows, with the number of missing rows in each.
        befores = stamps[:-1]
        afters = stamps[1:]
        of_gaps = steps[1:]
        counts = np.rint((afters - befores) / of_gaps) - 1.0  # NaN where the step is unknown
        # 2. The gap after the last row. A payment is listed by the end of the window, other rows up to a step
        # later.
        within = step if self.table == _PAYMENTS else 2.0 * step
        is_sure = self.table != _PAYMENTS or len(stamps) == 1 or stamps[-1] - stamps[-2] == step
        if is_active and is_sure and end > last + within:
            befores = np.append(befores, last)
            afters = np.append(afters, end)
            of_gaps = np.append(of_gaps, step)
            counts = np.append(counts, np.ceil((end - last) / step) - 1.0)
        # 3. The gap before the first row.
        due = first
        lead = float(steps[0])
        absent = 0.0
        if listed is not None and not np.isnan(lead):
            due = max(first, listed)
            absent = np.floor((int(stamps[0]) - due) / lead)
        if absent >= 1.0 + _FIRST_STEPS:  # the first step may be partial
            text = (
                f"{int(absent)} rows missing before {times.iso(_time(int(stamps[0])))} "
                f"at a step of {_length(lead)}"
            )
            yield PartialPage(times.Window(_time(due), _time(int(stamps[0]))), text, int(absent))
        for place in np.flatnonzero(counts >= 1.0).tolist():
            before = int(befores[place])
            count = int(counts[place])
            start = max(before + int(of_gaps[place]), first)
            stop = min(int(afters[place]), end)
            if start < stop:
                text = (
                    f"{count} rows missing after {times.iso(_time(before))} "
                    f"at a step of {_length(float(of_gaps[place]))}"
                )
                is_open = place == len(stamps) - 1 and window.end > now - _LISTED_WITHIN
                yield PartialPage(times.Window(_time(start), _time(stop)), text, count, is_open)


def _known_hours(series: pd.DataFrame, stamps: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the interval of each payment; NaN where the gap before it may be a new interval.

    The interval is known if it is stated, if later payments confirm it, or if the gap is not an interval that
    venues use.
    """
    hours = series["interval_hours"].to_numpy(dtype=np.float64, na_value=np.nan)
    gaps = np.append(np.nan, np.rint(np.diff(stamps) / _HOUR_US))
    is_confirmed = confirmed_runs(np.append(False, gaps[1:] == gaps[:-1])) & (gaps == hours)
    is_followed = np.logical_or.accumulate(is_confirmed[::-1])[::-1]
    is_stated = series["interval_source"].isin(["row", "list"]).to_numpy()
    is_known = is_stated | is_followed | ~is_valid(gaps)
    return np.where(is_known, hours, np.nan)


def summary(incomplete: Iterable[LedgerEntry]) -> list[str]:
    """Return one text for all incomplete windows of a response."""
    texts = [entry.error for entry in incomplete]
    if not texts:
        return []
    if len(texts) == 1:
        return [f"{INCOMPLETE}: {texts[0]}"]
    return [f"{INCOMPLETE}: {texts[0]}, and more in {len(texts) - 1} other windows"]


def _time(micros: int) -> pd.Timestamp:
    return pd.Timestamp(micros, unit="us", tz="UTC").as_unit("us")


def _length(micros: float) -> str:
    hours = micros / _HOUR_US
    if hours < 1:
        return f"{hours * 60:g} min"
    return f"{hours:g} h"


LIQUIDATIONS = "liquidations_fills"
_OVERLAP = pd.Timedelta(2, "min")  # a venue may list a liquidation some seconds later
_APART = pd.Timedelta(1, "s")
_SAME_COINS = 1e-6


class ListWalk(NamedTuple):
    """A list to walk: request, value of its parameter `symbol`, and the contract if it is about one."""

    endpoint: VenueEndpoint
    name: str
    item: Instrument | None

    @property
    def params(self) -> dict[str, str]:
        """The parameter with the contract or currency, if the list is not of all contracts."""
        if not self.name:
            return {}
        return {self.endpoint.symbol: self.name}

    @property
    def context(self) -> dict[str, str]:
        """The context for reading a list of one contract."""
        if self.item is None:
            return {}
        return {"instrument": self.item.name}


class WalkedRows(NamedTuple):
    """The liquidations of a window, and the time from which they are complete."""

    rows: pd.DataFrame
    complete_from: pd.Timestamp
    partial: list[PartialPage]  # pages with omitted rows


def covers_all(endpoint: VenueEndpoint) -> bool:
    """Return whether a request is about all contracts, or those of a currency, and not about one."""
    return not endpoint.symbol or bool(endpoint.symbol_values)


def walks_of(endpoints: Sequence[VenueEndpoint], contracts: Contracts, symbol: str | None) -> list[ListWalk]:
    """Return the lists with the liquidations of all contracts of a symbol, or of all symbols (None)."""
    walks = []
    if symbol is None:
        for endpoint in filter(covers_all, endpoints):
            walks += [ListWalk(endpoint, value, None) for value in endpoint.symbol_values or ("",)]
        return walks
    of_one = [endpoint for endpoint in endpoints if not covers_all(endpoint)]
    for item in contracts.items:
        if item.symbol == symbol and item.perpetual and item.active:
            covering = next((endpoint for endpoint in of_one if endpoint.covers(item)), None)
            if covering is not None:
                walks.append(ListWalk(covering, contract_name(covering, item), item))
    return walks


def liquidations(session: VenueSession, walks: Sequence[ListWalk], window: Window) -> WalkedRows:
    """Walk lists over a window.

    Rows shortly before the window are included. An ID counts equal rows of one time, so without them it would
    depend on where the window begins.
    """
    first = times.us(window.start - _OVERLAP)
    last = times.us(window.end)
    rows: list[Liquidation] = []
    complete_from = first
    partial = list[PartialPage]()
    for list_walk in walks:
        listed, reached, incomplete = _walked(session, list_walk, first, last)
        partial += incomplete
        rows += [row for row in listed if first <= row.time < last]
        complete_from = max(complete_from, reached)
    name = session.venue.exchange
    frame = frames(name, Records(liquidations=rows), [LIQUIDATIONS])[LIQUIDATIONS]
    since = pd.Timestamp(complete_from, unit="us", tz="UTC").as_unit("us")
    return WalkedRows(frame, max(window.start, since), partial)


def _walked(
    session: VenueSession, walk: ListWalk, first: int, last: int
) -> tuple[list[Liquidation], int, list[PartialPage]]:
    """Return the rows of all pages, the time [µs] from which they are complete, and incomplete pages.

    Equal rows with one time are different fills. Pages by time overlap, so the maximum count of a row in one
    page is used: a page whose edge does not cut the rows has all of them. Pages by cursor do not overlap.
    """
    endpoint = walk.endpoint
    paging = endpoint.paging
    rows = Counter[Liquidation]()
    limit = 0 if paging is None else paging.limit
    by_cursor = paging is not None and paging.by == "cursor"
    page = Records()
    partial = list[PartialPage]()
    window = Window(*pd.to_datetime([first, last], unit="us", utc=True).as_unit("us"))
    for page in pages(session, endpoint, first, last, walk.params, context=walk.context):
        if limit and len(page.times) >= limit and min(page.times) == max(page.times):
            why = f"all {limit} rows of a page have the same time, so other rows may be missing"
            raise SchemaError(f"{endpoint.where}: {why}")
        if (incomplete := PartialPage.of(page, window)) is not None:
            partial.append(incomplete)
        counts = Counter(page.liquidations)
        if by_cursor:
            rows += counts
        else:
            rows |= counts  # the maximum of counts
    for row in rows:
        if row.order_id:  # equal rows with an ID are one event
            rows[row] = 1
    complete_from = first
    descending = paging is not None and paging.descending
    if descending and limit and len(page.times) >= limit and min(page.times) > first:
        # The end of a list may cut equal rows with its oldest time, so rows begin after it.
        complete_from = min(page.times) + 1
    return [*rows.elements()], complete_from, partial


def answered_requests(
    exchange: str, symbol: str | None, window: Window, fills: WalkedRows
) -> list[LedgerEntry]:
    """Return the ledger entries of a window that is covered from some time on."""
    complete_from = fills.complete_from
    if complete_from >= window.end:
        return [LedgerEntry(exchange, symbol, *window, "the venue's list begins later")]
    answered = entries(exchange, symbol, Window(complete_from, window.end), fills.partial)
    if complete_from > window.start:
        error = f"the venue's list begins at {complete_from:%Y-%m-%d %H:%M:%S}"
        answered.append(LedgerEntry(exchange, symbol, window.start, complete_from, error))
    return answered


def has_two_paths(venue: Venue) -> bool:
    """Return whether a venue has liquidations both by a stream and by request."""
    if venue.stream is None:
        return False
    return any(e.what == "liquidations" and e.method != "WS" for e in venue.endpoints)


def without_other_path(
    archive: Archive, exchange: str, rows: pd.DataFrame, own: Collection[str] = ()
) -> pd.DataFrame:
    """Return the fills of one venue without those that the archive has by the venue's other path.

    `own` has the IDs of earlier fills by the same path, which are other events even if they look equal. Each
    stored row matches at most one of `rows`, since equal fills with one time are different events.
    """
    if rows.empty:
        return rows
    first = rows["time"].min() - _APART
    last = rows["time"].max() + _APART
    stored = archive.read(LIQUIDATIONS, first, last + pd.Timedelta(1, "us"), venues=[exchange])
    ids = stored["order_id"].astype(str)
    stored_ids = set(ids) & set(rows["order_id"].astype(str))
    others: dict[tuple[str, str], list[tuple[pd.Timestamp, float]]] = defaultdict(list)
    for row in stored[~ids.isin(stored_ids.union(own))].itertuples():
        others[str(row.symbol), str(row.side)].append((row.time, row.quantity))
    if not others:
        return rows
    is_new = []
    for row in rows.itertuples():
        candidates = others[str(row.symbol), str(row.side)]
        match = None
        if row.order_id not in stored_ids:
            match = next((candidate for candidate in candidates if _is_same(row, *candidate)), None)
        if match is not None:
            candidates.remove(match)
        is_new.append(match is None)
    return rows[is_new]


def _is_same(row: object, time: pd.Timestamp, quantity: float) -> bool:
    """Return whether a stored row may be the same event; its quantity is of the order or of the fill."""
    coins = (row.quantity, row.filled_quantity)  # type: ignore[attr-defined]
    near = abs(row.time - time) <= _APART  # type: ignore[attr-defined]
    return near and any(isclose(count, quantity, rel_tol=_SAME_COINS) for count in coins)
