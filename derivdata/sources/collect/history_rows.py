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
_EXTRA_BEFORE = {
    "funding_settlements": pd.Timedelta(25, "h"),  # three payments of 8 h confirm the first row's interval
    "positioning_history": pd.Timedelta(2, "h"),  # a period that ends in the window; some omit the start
    "volume_taker": pd.Timedelta(1, "h"),
    "volatility_index_published": pd.Timedelta(2, "h"),
}
"""Time before a window that is also requested, because the first rows depend on it."""
_MAX_PAGES = 20_000
_PAGE_MARGIN = pd.Timedelta(1, "h")
_PROGRESS_EVERY = 5  # requests of a walk between progress lines
_WINDOW_MARGIN_US = times.us(pd.Timedelta(1, "D"))
"""Maximum distance of rows from their window: a bucket of a day may be stamped at either end."""
_ENDS_WITHIN = pd.Timedelta(1, "D")
"""Maximum time from the last row of a traded contract to the end of a window: three payments of 8 hours."""
_MAX_CLOCK_LEAD = pd.Timedelta(10, "min")
"""Maximum lead of a venue's clock before this machine's; later rows have another zone or unit."""
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
    """Yield every page of a window [µs]; `given` has the parameters that all its requests have.

    The first empty page of a walk is requested again, because one of the venue's servers may be behind.
    Raises the error of a failed request, and `SchemaError` for a page of another window.
    """
    steps = walk(endpoint.paging, first, last)
    params = next(steps)
    may_repeat = endpoint.paging is not None
    for number in range(1, _MAX_PAGES + 1):
        page, _, _ = session.request(endpoint, {**params, **given}, context=context)
        if not page.times and may_repeat:
            page, _, _ = session.request(endpoint, {**params, **given}, context=context)
            may_repeat = False
        _require_window(endpoint, page, first, last)
        if number % _PROGRESS_EVERY == 0 and session.progress is not None and page.times:
            covered = max(page.times) - first
            if endpoint.paging is not None and endpoint.paging.descending:
                covered = last - min(page.times)
            share = min(max(covered / max(last - first, 1), 0.001), 1.0)
            expected = max(number, round(number / share))
            label = " ".join([endpoint.exchange, endpoint.place, *given.values()])
            session.progress(f"{label}: {number} of about {expected} requests")
        yield page
        try:
            params = steps.send(page)
        except StopIteration:
            return
        except SchemaError as problem:
            raise SchemaError(f"{endpoint.where}: {problem}") from None
    raise SchemaError(f"{endpoint.where}: the end of the window was not reached after {_MAX_PAGES:,} pages")


def _require_window(endpoint: VenueEndpoint, page: Records, first: int, last: int) -> None:
    """Raise `SchemaError` if all rows of a page are outside of the requested window [µs]."""
    paging = endpoint.paging
    if paging is None or not (paging.start and paging.end and page.times):
        return
    oldest = min(page.times)
    newest = max(page.times)
    if newest < first - _WINDOW_MARGIN_US or oldest > last + _WINDOW_MARGIN_US:
        requested = f"{np.datetime64(first, 'us')} to {np.datetime64(last, 'us')}"
        got = f"{np.datetime64(oldest, 'us')} to {np.datetime64(newest, 'us')}"
        raise SchemaError(f"{endpoint.where}: expected rows from {requested}, got rows from {got}")


def require_contract(endpoint: VenueEndpoint, page: Records, item: Instrument) -> None:
    """Raise `SchemaError` if a page lacks the requested contract, or has rows of another one.

    A page of all contracts, or of a currency, may have others too.
    """
    rows: Iterable[Any] = chain(
        page.payments, page.oi, page.prices, page.positioning, page.taker_volumes, page.books
    )
    contracts = {row.instrument.name: row.instrument.symbol for row in rows}
    others = set(contracts.values()) - {item.symbol}
    has_many_contracts = endpoint.symbol in ("", "currency")
    got = ""
    if has_many_contracts:
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
    """Return the rows of several frames of a table in one frame; the empty table if there are no rows."""
    nonempty = [frame for frame in frames if len(frame)]  # an empty column may have another type
    if not nonempty:
        return tables.TABLES[table].empty()
    return pd.concat(nonempty, ignore_index=True)


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
        """Return the part of a window in which a page has omitted rows; None if the page is complete."""
        if not page.omitted:
            return None
        start, end = window
        if page.times:
            stamps = pd.to_datetime([min(page.times), max(page.times)], unit="us", utc=True)
            # An omitted row may be at an edge of the page.
            start = max(start, stamps[0] - _PAGE_MARGIN)
            end = min(end, stamps[1] + _PAGE_MARGIN)
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
    """Return ledger entries that cover a window without overlaps.

    The window of each incomplete page has an entry with an error, the time between them entries without one.
    `at` is the time of the response.
    """
    result = list[LedgerEntry]()
    covered_until = window.start
    for page in sorted(partial, key=lambda page: page.window.start):
        start = max(page.window.start, covered_until)
        end = min(page.window.end, window.end)
        if start < end:
            if covered_until < start:
                result.append(LedgerEntry(exchange, symbol, covered_until, start))
            entry = LedgerEntry(exchange, symbol, start, end, page.error, is_open=page.is_open)
            if page.missing:
                entry = entry._replace(incomplete_at=at)
            result.append(entry)
            covered_until = end
    if covered_until < window.end:
        result.append(LedgerEntry(exchange, symbol, covered_until, window.end))
    return result


def history(
    session: VenueSession, endpoint: VenueEndpoint, item: Instrument, table: str, window: times.Window
) -> History:
    """Request all pages of one history of one contract and return the rows of the window.

    The error of a page is raised. Rows that cannot be read are omitted, and `History.partial` has their page.
    """
    first = times.us(window.start - _EXTRA_BEFORE.get(table, pd.Timedelta(0)))
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
        incomplete = PartialPage.of(page, window)
        if incomplete is not None:
            partial.append(incomplete)
    _require_past(endpoint, records, session.clock.utc())
    frame = _table_rows(endpoint, records, item, table, window)
    if table not in _EVENTS:
        _require_recent(session, endpoint, frame, item, table, window)
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
    """Return the marks of a contract in a window [µs], one per time, because pages overlap by a row."""
    records = Records()
    for page in pages(session, endpoint, first, last, contract_params(endpoint, item), context=context):
        require_contract(endpoint, page, item)
        records.add(page)
    records.prices = list({row.time: row for row in records.prices}.values())
    return records


def _require_recent(
    session: VenueSession,
    endpoint: VenueEndpoint,
    frame: pd.DataFrame,
    item: Instrument,
    table: str,
    window: times.Window,
) -> None:
    """Raise `SchemaError` if rows of a traded contract end a day before the window's end, or are too sparse.

    A response without rows may be right: a contract may be new, or have no open interest. It is an error if
    another contract has rows, and payments of this one are due, because it was listed a day before the end.
    If the other contract has no rows either, it is an error if the window ends within the last day.
    """
    where = f"{endpoint.where}: {item.name}"
    now = session.clock.utc()
    end = min(window.end, now)
    is_recent = end >= now - _ENDS_WITHIN
    listed = window.end
    if item.listed is not None:
        listed = pd.Timestamp(item.listed, unit="us", tz="UTC")
    is_payment_due = table == "funding_settlements" and max(listed, window.start) < end - _ENDS_WITHIN
    if len(frame):
        newest = frame["time"].max()
    elif is_recent or is_payment_due:
        newest = window.start
    else:
        newest = end  # an older window without rows may be before the listing
    if item.active and newest < end - _ENDS_WITHIN:
        if len(frame):
            is_cut = True
        elif _has_recent_rows_of_another(session, endpoint, item, table, end):
            is_cut = is_payment_due
        else:
            is_cut = is_recent
        if is_cut:
            raise SchemaError(
                f"{where} is still traded, but its rows end at {times.iso(newest)}, before the end of the "
                f"window at {times.iso(end)}"
            )
    _require_steps(endpoint, frame, where)


def _require_steps(endpoint: VenueEndpoint, frame: pd.DataFrame, where: str) -> None:
    """Raise `SchemaError` if rows of one resolution are off its grid, or 1.5 steps apart in the median."""
    if "resolution" not in frame:
        return
    resolutions = frame["resolution"].unique().tolist()
    if len(resolutions) != 1:
        return
    step = times.RESOLUTIONS.get(str(resolutions[0]))
    if step is None:
        return
    _require_grid(frame, times.us(step), where)
    median_gap = frame["time"].sort_values().diff().median()
    is_thinned = endpoint.paging is not None and endpoint.paging.thinned
    if len(frame) > 3 and not is_thinned and median_gap > 1.5 * step:
        raise SchemaError(f"{where}: expected rows {step} apart, got {median_gap}")


def _require_past(endpoint: VenueEndpoint, records: Records, now: pd.Timestamp) -> None:
    """Raise `SchemaError` for rows in the future, whose times have another zone or unit."""
    rows: Iterable[Any] = chain(
        records.payments, records.oi, records.prices, records.positioning, records.taker_volumes
    )
    newest = max((row.time for row in rows), default=0)
    if newest > times.us(now + _MAX_CLOCK_LEAD):
        stamp = times.iso(pd.Timestamp(newest, unit="us", tz="UTC"))
        raise SchemaError(
            f"{endpoint.where}: expected rows until the current time {times.iso(now)}, got a row at "
            f"{stamp}, which is in the future"
        )


def _require_grid(frame: pd.DataFrame, step: int, where: str) -> None:
    """Raise `SchemaError` for rows that are not on the grid of their step [µs]."""
    stamps = frame["time"].astype("datetime64[us, UTC]").astype("int64").to_numpy()
    is_off = is_off_grid(stamps, step)
    if is_off.any():
        first = shown_time(int(stamps[is_off].min()))
        count = f"{int(is_off.sum())} of {len(stamps)}"
        raise SchemaError(f"{where}: {count} rows are off the {step_text(step)} grid, first {first}")


def _has_recent_rows_of_another(
    session: VenueSession, endpoint: VenueEndpoint, item: Instrument, table: str, end: pd.Timestamp
) -> bool:
    """Return whether an endpoint has rows of the last day before `end` for BTC, or else its first contract.

    False if that is the contract itself.
    """
    listing = session.shared.listing
    if listing is None:
        return False
    covered = list(filter(endpoint.covers, listing.contracts.by_symbol.values()))
    bitcoin = [contract for contract in covered if contract.symbol == "BTC"]
    other = next(iter(bitcoin + covered), item)
    if other.symbol == item.symbol:
        return False
    last_day = times.Window(end - _ENDS_WITHIN, end)
    return len(history(session, endpoint, other, table, last_day).rows) > 0


def _table_rows(
    endpoint: VenueEndpoint, records: Records, item: Instrument, table: str, window: times.Window
) -> pd.DataFrame:
    """Return the rows of a contract in a window. Of rows with one key, from two pages, the last one stays."""
    records.oi = _last_rows(records.oi, "time")
    records.taker_volumes = _last_rows(records.taker_volumes, "time")
    records.positioning = _last_rows(records.positioning, "time", "kind")
    records.prices = _last_rows(records.prices, "time", "kind")
    records.trades = _last_rows(records.trades, "option.name", "trade_id")
    records.indices = _last_rows(records.indices, "time")
    usual_hours = VENUES[endpoint.exchange].usual_hours
    frame = frames(endpoint.exchange, records, [table], listed=usual_hours)[table]
    in_window = frame["time"].between(*window, inclusive="left")
    rows = frame[in_window & (frame["symbol"] == item.symbol)]
    lacks_usd = False
    if table == "oi_history":
        lacks_usd = any(row.oi_usd is None for row in records.oi)
    elif table == "volume_taker":
        lacks_usd = bool(rows["buy_usd"].isna().any())
    if lacks_usd:
        why = f"{table} of {item.name} is in coins, and prices of the same minutes are missing"
        raise SchemaError(f"{endpoint.where}: {why}")
    return tables.TABLES[table].conform(rows)


INCOMPLETE = "incomplete"
"""First word of the text about a window with missing rows."""

_PAYMENTS = "funding_settlements"
_ARCHIVE_MARGIN = pd.Timedelta(2, "D")
"""Time around a window in which stored rows are read: two of the longest steps."""
_JOINED_WITHIN = pd.Timedelta(1, "D")
_PUBLISHED_WITHIN = pd.Timedelta(1, "D")
"""Maximum time until venues publish a row."""
_FIRST_STEPS = 2
"""Steps after the listing of a contract within which its first row is due."""
_MICROSECOND = pd.Timedelta(1, "us")
_HOUR_US = 3_600_000_000


def _last_rows(rows: list[_Row], *key: str) -> list[_Row]:
    """Return the last row of each key, which is a list of attributes. Pages overlap by a row."""
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
        start = window.start - _ARCHIVE_MARGIN
        end = window.end + _ARCHIVE_MARGIN
        self._rows = archive.rows(Query(table, start, end, [symbol], [exchange], self._columns))

    def with_next_row(self) -> times.Window:
        """Return the window extended to the next stored row, which a response must have too."""
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

        `rows` are those of the response, `now` is its time. After the last row, rows of an active contract
        are missing until the end of the window. Before the first row, they are missing since the contract was
        `listed` [µs].
        """
        present = pd.concat([self._rows, rows[self._columns]], ignore_index=True)
        if present.empty:  # a contract without rows may be without payments
            return []
        all_series = [present]
        if self._groups:
            all_series = [rows for _, rows in present.groupby(self._groups, observed=True)]
        sections: dict[times.Window, PartialPage] = {}  # one per window: series may lack the same rows
        for series in all_series:
            for section in self._sections_of_series(series, window, now, is_active=is_active, listed=listed):
                sections.setdefault(section.window, section)
        return list(sections.values())

    def late_start(self, rows: pd.DataFrame, window: times.Window) -> str:
        """Return a text if the first row is at least three steps after the window's start, else ""."""
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
        """Return ledger entries for rows that are missing before a window.

        Only windows that the ledger has as answered are entered. An interval that later payments confirm may
        show that earlier payments are missing.
        """
        before = times.Window(window.start - _ARCHIVE_MARGIN, window.start)
        sections = self.missing(rows, before, now, is_active=False)
        if not sections:
            return []
        ledger = self._archive.requests()
        of_series = (ledger["table"] == self.table) & (ledger["exchange"] == self._exchange)
        of_series &= ledger["symbol"].isna() | (ledger["symbol"] == self._symbol)
        answered = ledger[of_series & ledger["answered"] & (ledger["source"] == "request")]
        result = []
        for section in sections:
            start, end = section.window
            if ((answered["start"] <= start) & (answered["end"] >= end)).any():
                result.append(LedgerEntry(self._exchange, self._symbol, start, end, section.error, None, now))
        return result

    def _sections_of_series(
        self,
        series: pd.DataFrame,
        window: times.Window,
        now: pd.Timestamp,
        *,
        is_active: bool,
        listed: int | None,
    ) -> Iterable[PartialPage]:
        """Yield the sections of a window with missing rows of one series, as in `missing`."""
        series = series.drop_duplicates("time").sort_values("time")
        stamps = series["time"].astype("datetime64[us, UTC]").astype("int64").to_numpy()
        if self.table == _PAYMENTS:
            steps = _confirmed_hours(series, stamps) * _HOUR_US
        else:
            resolution = times.RESOLUTIONS.get(str(series["resolution"].iloc[0]))
            if resolution is None:  # rows of polls
                return
            steps = np.full(len(stamps), float(times.us(resolution)))
        window_start = times.us(window.start)
        window_end = times.us(window.end)
        first = int(stamps[0])
        last = int(stamps[-1])
        # 1. Find the gaps between rows, with the number of missing rows in each.
        gap_starts = stamps[:-1]
        gap_ends = stamps[1:]
        gap_steps = steps[1:]
        counts = np.rint((gap_ends - gap_starts) / gap_steps) - 1.0  # NaN where the step is unknown
        # 2. Add the gap after the last row. A payment is published by the end of the window, other rows up to
        # a step later.
        last_step = float(steps[-1])
        due_within = last_step if self.table == _PAYMENTS else 2.0 * last_step
        # The last interval of payments is uncertain unless the gap before the last one agrees with it.
        is_regular = self.table != _PAYMENTS or len(stamps) == 1 or last - stamps[-2] == last_step
        if is_active and is_regular and window_end > last + due_within:
            gap_starts = np.append(gap_starts, last)
            gap_ends = np.append(gap_ends, window_end)
            gap_steps = np.append(gap_steps, last_step)
            counts = np.append(counts, np.ceil((window_end - last) / last_step) - 1.0)
        # 3. Yield the gap before the first row.
        if listed is not None:
            yield from _gap_before(first, float(steps[0]), max(window_start, listed))
        # 4. Yield the other gaps, cut to the window.
        for number in np.flatnonzero(counts >= 1.0).tolist():
            before = int(gap_starts[number])
            start = max(before + int(gap_steps[number]), window_start)
            end = min(int(gap_ends[number]), window_end)
            if start < end:
                step = _step_in_words(float(gap_steps[number]))
                text = (
                    f"{int(counts[number])} rows missing after {times.iso(_timestamp(before))} (step {step})"
                )
                section = times.Window(_timestamp(start), _timestamp(end))
                is_open = number == len(stamps) - 1 and window.end > now - _PUBLISHED_WITHIN
                yield PartialPage(section, text, int(counts[number]), is_open)


def _gap_before(first: int, step: float, due: int) -> Iterator[PartialPage]:
    """Yield the gap from the time at which rows are due to the first row, if rows are missing in it.

    All times are in µs. `step` is NaN if it is unknown.
    """
    if np.isnan(step):
        return
    absent = int((first - due) // step)
    if absent >= 1 + _FIRST_STEPS:  # the first step may be partial
        text = f"{absent} rows missing before {times.iso(_timestamp(first))} (step {_step_in_words(step)})"
        yield PartialPage(times.Window(_timestamp(due), _timestamp(first)), text, absent)


def _confirmed_hours(series: pd.DataFrame, stamps: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the interval of each payment [h]; NaN where the gap before it may be a new interval.

    The interval is known if it is stated, if later payments confirm it, or if the gap is not an interval that
    venues use.
    """
    hours = series["interval_hours"].to_numpy(dtype=np.float64, na_value=np.nan)
    gap_hours = np.append(np.nan, np.rint(np.diff(stamps) / _HOUR_US))
    has_equal_gaps = np.append(False, gap_hours[1:] == gap_hours[:-1])
    is_confirmed = confirmed_runs(has_equal_gaps) & (gap_hours == hours)
    is_confirmed_later = np.logical_or.accumulate(is_confirmed[::-1])[::-1]
    is_stated = series["interval_source"].isin(["row", "list"]).to_numpy()
    return np.where(is_stated | is_confirmed_later | ~is_valid(gap_hours), hours, np.nan)


def summary(incomplete: Iterable[LedgerEntry]) -> list[str]:
    """Return one text for all incomplete windows of a response."""
    texts = [entry.error for entry in incomplete]
    if not texts:
        return []
    if len(texts) == 1:
        return [f"{INCOMPLETE}: {texts[0]}"]
    return [f"{INCOMPLETE}: {texts[0]}, and more in {len(texts) - 1} other windows"]


def _timestamp(micros: int) -> pd.Timestamp:
    return pd.Timestamp(micros, unit="us", tz="UTC").as_unit("us")


def _step_in_words(micros: float) -> str:
    hours = micros / _HOUR_US
    if hours < 1:
        return f"{hours * 60:g} min"
    return f"{hours:g} h"


LIQUIDATIONS = "liquidations_fills"
_OVERLAP = pd.Timedelta(2, "min")  # a venue may list a liquidation some seconds later
_MAX_TIME_DIFFERENCE = pd.Timedelta(1, "s")
_COINS_TOLERANCE = 1e-6


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
    """Return the lists to request for liquidations.

    For `symbol` None these are the lists of all contracts. Otherwise each active perpetual of the symbol has
    the first list of one contract that covers it.
    """
    walks = []
    if symbol is None:
        for endpoint in filter(covers_all, endpoints):
            walks += [ListWalk(endpoint, value, None) for value in endpoint.symbol_values or ("",)]
        return walks
    lists_of_one = [endpoint for endpoint in endpoints if not covers_all(endpoint)]
    for item in contracts.items:
        if item.symbol == symbol and item.perpetual and item.active:
            covering = next((endpoint for endpoint in lists_of_one if endpoint.covers(item)), None)
            if covering is not None:
                walks.append(ListWalk(covering, contract_name(covering, item), item))
    return walks


def liquidations(session: VenueSession, walks: Sequence[ListWalk], window: Window) -> WalkedRows:
    """Request all pages of several lists in a window, and join their rows.

    Rows of the two minutes before the window are included. An ID counts equal rows of one time, so without
    these rows it would depend on where the window begins.
    """
    first = times.us(window.start - _OVERLAP)
    last = times.us(window.end)
    rows: list[Liquidation] = []
    complete_from = first
    partial = list[PartialPage]()
    for list_walk in walks:
        listed, list_start, incomplete = _walk_list(session, list_walk, first, last)
        partial += incomplete
        rows += [row for row in listed if first <= row.time < last]
        complete_from = max(complete_from, list_start)
    name = session.venue.exchange
    frame = frames(name, Records(liquidations=rows), [LIQUIDATIONS])[LIQUIDATIONS]
    since = pd.Timestamp(complete_from, unit="us", tz="UTC").as_unit("us")
    return WalkedRows(frame, max(window.start, since), partial)


def _walk_list(
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
        incomplete = PartialPage.of(page, window)
        if incomplete is not None:
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
    """Return the ledger entries of a window: answered from `complete_from` on, not answered before it."""
    complete_from = fills.complete_from
    if complete_from >= window.end:
        return [LedgerEntry(exchange, symbol, *window, "the list of the venue begins after this window")]
    answered = entries(exchange, symbol, Window(complete_from, window.end), fills.partial)
    if complete_from > window.start:
        error = f"the list of the venue begins at {complete_from:%Y-%m-%d %H:%M:%S}"
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
    first = rows["time"].min() - _MAX_TIME_DIFFERENCE
    last = rows["time"].max() + _MAX_TIME_DIFFERENCE
    stored = archive.read(LIQUIDATIONS, first, last + pd.Timedelta(1, "us"), venues=[exchange])
    ids = stored["order_id"].astype(str)
    common_ids = set(ids) & set(rows["order_id"].astype(str))
    unmatched: dict[tuple[str, str], list[tuple[pd.Timestamp, float]]] = defaultdict(list)
    for row in stored[~ids.isin(common_ids.union(own))].itertuples():
        unmatched[str(row.symbol), str(row.side)].append((row.time, row.quantity))
    if not unmatched:
        return rows
    is_new = []
    for row in rows.itertuples():
        candidates = unmatched[str(row.symbol), str(row.side)]
        match = None
        if row.order_id not in common_ids:
            match = next((candidate for candidate in candidates if _is_same_event(row, *candidate)), None)
        if match is not None:
            candidates.remove(match)
        is_new.append(match is None)
    return rows[is_new]


def _is_same_event(row: object, time: pd.Timestamp, quantity: float) -> bool:
    """Return whether a stored event may be that of a row: near in time, with equal coins.

    The stored quantity may be that of the order or of the fill.
    """
    is_near = abs(row.time - time) <= _MAX_TIME_DIFFERENCE  # type: ignore[attr-defined]
    coins = (row.quantity, row.filled_quantity)  # type: ignore[attr-defined]
    return is_near and any(isclose(count, quantity, rel_tol=_COINS_TOLERANCE) for count in coins)
