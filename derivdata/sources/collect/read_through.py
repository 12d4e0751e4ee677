"""An archive that requests missing rows from the venues: the source of ``dd.connect("venues")``."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product

import pandas as pd

from derivdata.errors import NetworkError
from derivdata.sources import Query
from derivdata.sources.archive import Archive, open_archive
from derivdata.sources.collect.collector import Collector
from derivdata.sources.collect.histories import backfill
from derivdata.sources.collect.history_rows import INCOMPLETE, LIQUIDATIONS
from derivdata.sources.collect.history_rows import TABLES as HISTORIES
from derivdata.sources.collect.reporting import StatusLine
from derivdata.sources.collect.session import Clock, MachineClock, data_folder
from derivdata.sources.collect.state import BOOKS, CHAINS, STATE
from derivdata.sources.venues.endpoint import DATED
from derivdata.support.forking import renew_in_child

_FRESH = pd.Timedelta(60, "s")
_SAMPLED = "funding_history"
_SOON = pd.Timedelta(2, "h")
_SETTLED_AFTER = pd.Timedelta(2, "min")  # venues list a payment a little after its hour
_SHARE_SECONDS = 10.0
"""Seconds for requests of open interest by contract while the user waits; later polls add more."""
_FIRST = pd.Timestamp("2019-01-01", tz="UTC")
_FILLED = (*(name for name in HISTORIES if name not in (_SAMPLED, DATED)), LIQUIDATIONS)


def open_venues(
    archive: str | os.PathLike[str] | None = None, venues: Sequence[str] | None = None
) -> ReadThrough:
    """Return a source over an archive, by default in the user's data folder."""
    if archive is None:
        archive = data_folder() / "venues"
    return ReadThrough(open_archive(archive), venues=venues)


class ReadThrough:
    """A store for the service that fetches missing rows into an archive before it reads them.

    A forked child neither sends requests nor writes. Notices change under the fork lock.
    """

    synthetic = False
    label = "venues"

    def __init__(
        self,
        archive: Archive,
        *,
        venues: Sequence[str] | None = None,
        clock: Clock | None = None,
        addresses: Mapping[str, str] | None = None,
    ) -> None:
        self.archive = archive
        self.clock = clock or MachineClock()
        self._addresses = addresses
        self._status = StatusLine()
        self._collector = Collector(
            archive,
            venues=venues,
            symbols=(),
            share_seconds=_SHARE_SECONDS,
            clock=self.clock,
            addresses=addresses,
            progress=self._status.show,
        )
        self._polled: pd.Timestamp | None = None
        self._books: dict[tuple[str, str], pd.Timestamp] = {}
        self._given: set[str] = set()
        self._partial: set[str] = set()
        self._notices: list[str] = []
        self._poll_lock = threading.Lock()
        self._fork_lock = threading.Lock()
        self._inherited = False
        renew_in_child(self)

    @property
    def id(self) -> str:
        """Return the archive's permanent id."""
        return self.archive.id

    @property
    def version(self) -> str:
        """Return the version of the archive's data."""
        return self.archive.version

    @property
    def identity(self) -> str:
        """Return the hash of all collected rows."""
        return self.archive.identity

    @property
    def start(self) -> pd.Timestamp:
        """Return the earliest time of histories."""
        return _FIRST

    @property
    def now(self) -> pd.Timestamp:
        """Return the end of the second of the newest state, or the clock's second; all rows are before it."""
        polled = self._polled
        if polled is None:
            return self.clock.utc().floor("s")
        return polled.ceil("s")

    def is_stale(self) -> bool:
        """Return whether the newest state is older than a minute or missing."""
        polled = self._polled
        return not self._inherited and (polled is None or self.clock.utc() - polled >= _FRESH)

    def refresh(self) -> None:
        """Poll all venues if the newest state is older than a minute; raise if all are unreachable."""
        if not self.is_stale():
            return
        with self._poll_lock:
            if self.is_stale():  # another thread may have polled meanwhile
                self._collector.once()
                self._status.end()
                self._require_some_venue()
                self._polled = self.clock.utc()
                self._warn_of_failures()

    def _require_some_venue(self) -> None:
        """Raise `NetworkError` if all venues are unreachable."""
        shared = self._collector.shared
        if any(state.answered for state in shared.values()):
            return
        reasons = [f"{name} {next(iter(state.list_errors.values()), '')}" for name, state in shared.items()]
        shown = "; ".join(reasons[:2])
        if len(reasons) > 2:
            shown += f"; and {len(reasons) - 2} more"
        raise NetworkError(
            "venues",
            (
                f"none of {len(shared)} venues responded: {shown}. Check the network and the "
                "proxy (HTTPS_PROXY); read previously collected rows with "
                f"dd.connect({str(self.archive.path)!r})"
            ),
        )

    def take_notices(self) -> list[str]:
        """Return new notices about unreachable venues and missing tables."""
        with self._fork_lock:
            notices = self._notices
            self._notices = []
        return notices

    def _after_fork(self) -> None:
        """Stop requests in a forked child, because its parent uses the same sockets and archive."""
        self._poll_lock = threading.Lock()
        self._fork_lock = threading.Lock()
        self._notices = []  # the parent reports them
        self._inherited = True

    def tables(self) -> frozenset[str]:
        """Return the archive's tables, and the tables that venues fill if a venue can be reached."""
        shared = self._collector.shared.values()
        if self._polled is not None and not any(state.listing for state in shared):
            return self.archive.tables()
        return self.archive.tables() | {*STATE, *CHAINS, *BOOKS, *_FILLED}

    def requests(self) -> pd.DataFrame:
        """Return the archive's ledger of requests to venues."""
        return self.archive.requests()

    def symbols(self, table: str) -> tuple[str, ...]:
        """Return the symbols of a table, including all symbols that the venues list."""
        listed = set(self.archive.symbols(table))
        if table in (*_FILLED, *BOOKS):
            listed |= set(self.archive.symbols("markets_symbol_exchanges"))
        return tuple(sorted(listed))

    def exchanges(self, table: str) -> tuple[str, ...]:
        """Return the venues of a table."""
        listed = set(self.archive.exchanges(table))
        if table in (*_FILLED, *BOOKS):
            listed |= set(self._collector.venues)
        return tuple(sorted(listed))

    def rows(self, query: Query) -> pd.DataFrame:
        """Return the rows of a query, after its missing windows were requested.

        Open interest of all symbols comes from polls only, which cover all symbols of a venue. Backfilled
        histories have only the symbols of earlier queries, so their total would not be the venue's. Past
        liquidations are requested only from named venues, because some lists are of all trades.
        """
        table = query.table
        failed = list[str]()
        self._warn_of_missing_venues(table)
        named = query.symbols
        if table == LIQUIDATIONS:
            named = query.venues
        if table in _FILLED and named is not None and not self._inherited:
            failed = self._fill(query)
        if table != "oi_history" or query.symbols is not None:
            rows = self.archive.rows(query)
            if table == _SAMPLED:
                self._warn_of_late_start(query, rows)
            return self._noted(rows, query, failed)
        columns = None
        if query.columns is not None:
            columns = tuple(dict.fromkeys((*query.columns, "resolution")))
        rows = self.archive.rows(replace(query, columns=columns))
        polled = rows[rows["resolution"] == "raw"].reset_index(drop=True)
        if query.columns is not None:
            polled = polled[list(query.columns)]
        return self._noted(polled, query)

    def sums(self, query: Query, value: str) -> pd.DataFrame:
        """Add up the rows of all symbols; of open interest only polled rows, as `rows` does."""
        self._warn_of_missing_venues(query.table)
        sums = self.archive.sums(query, value)
        if query.table == "oi_history":
            sums = sums[sums["resolution"] == "raw"]
        return self._noted(sums, query)

    def extents(self, table: str, until: pd.Timestamp) -> pd.DataFrame:
        """Return the archive's extents of a table by venue, without requests."""
        return self.archive.extents(table, until)

    def newest(self, query: Query) -> pd.DataFrame:
        """Return the newest rows of the last `refresh`; an order book is requested first."""
        table = query.table
        symbols = query.symbols
        venues = query.venues
        self._warn_of_missing_venues(table)
        if table == BOOKS[0] and symbols and venues and not self._inherited:
            self._request_books(symbols, venues)
            query = replace(query, end=max(query.end, self.clock.utc().ceil("s") + pd.Timedelta(1, "us")))
        return self._noted(self.archive.newest(query), query)

    def _noted(self, rows: pd.DataFrame, query: Query, failed: Sequence[str] = ()) -> pd.DataFrame:
        """Add to the provenance of rows the missing venues with their errors, in each call."""
        gone = self._collector.gone
        requested: Sequence[str] = self._collector.venues
        if query.venues is not None:
            requested = query.venues
        omitted = []
        errors = []
        for name in requested:
            if name in gone:
                omitted.append(f"{name} is omitted: {gone[name]}")
            elif why := self._collector.failed.get(f"{name} {query.table}"):
                errors.append(f"{name}: {query.table} is missing: {why}")
        origin = rows.attrs.get("provenance", {})
        notices = dict.fromkeys([*origin.get("notices", []), *omitted, *errors, *failed])
        rows.attrs["provenance"] = {**origin, "notices": list(notices)}
        return rows

    def close(self) -> None:
        """Close every connection."""
        self._collector.close()

    def _request_books(self, symbols: Sequence[str], venues: Sequence[str]) -> None:
        """Request the order books that are older than a minute."""
        with self._poll_lock:
            for symbol, exchange in product(symbols, venues):
                now = self.clock.utc()
                last_request = self._books.get((symbol, exchange))
                if exchange not in self._collector.venues or exchange in self._collector.gone:
                    continue
                if last_request is None or now - last_request >= _FRESH:
                    self._collector.request_book(exchange, symbol)
                    self._books[symbol, exchange] = now
                    self._warn_of_failures()

    def _fill(self, query: Query) -> list[str]:
        """Request the missing windows of a query, and return texts about failed windows."""
        exchanges = [name for name in self._collector.venues if name not in self._collector.gone]
        if query.venues is not None:
            exchanges = [name for name in exchanges if name in query.venues]
        last = min(query.end, (self.clock.utc() - _SETTLED_AFTER).floor("5min"))
        first = max(query.start, _FIRST)
        if query.table not in HISTORIES or not exchanges or first >= last:
            return []
        done = backfill(
            self.archive,
            query.symbols or (),
            first,
            last,
            venues=exchanges,
            names=[query.table],
            clock=self.clock,
            addresses=self._addresses,
            shared=self._collector.shared,
            progress=self._status.show,
        )
        self._status.end()
        texts = []
        for text in done.failed:
            if INCOMPLETE not in text:
                text = f"{text}; these rows are missing"
            texts.append(text)
        texts += done.notices
        self._warn(texts)
        return texts

    def _warn_of_failures(self) -> None:
        """Add a notice, once, for each missing table of a venue, with its error."""
        gone = self._collector.gone
        by_error: dict[tuple[str, str], list[str]] = {}
        for label, why in self._collector.failed.items():
            exchange, _, subject = label.partition(" ")
            if subject.startswith("/"):  # a request, not a table
                subject = f"response to {subject}"
            if exchange not in gone:
                by_error.setdefault((exchange, why), []).append(subject)
        self._warn([f"{name} is omitted: {why}" for name, why in gone.items()])
        for (name, why), subjects in by_error.items():
            verb = "is" if len(subjects) == 1 else "are"
            self._warn([f"{name}: {', '.join(subjects)} {verb} missing: {why}"])

    def _warn_of_missing_venues(self, table: str) -> None:
        """Add a notice, once, for each venue whose open interest is not polled, or incomplete."""
        if table != "oi_history" or self._inherited:
            return
        unpolled = (
            "funding is polled but open interest is not: totals and shares of open interest lack this venue"
        )
        texts = [f"{name}: {unpolled}" for name in self._collector.venues_without("oi_history")]
        for name, (collected, wanted) in self._collector.shares_of_open_interest().items():
            if collected < wanted and name not in self._partial:
                self._partial.add(name)
                texts.append(
                    f"{name}: open interest of {collected} of {wanted} contracts so far, the largest "
                    "first. Each takes one request, and totals and shares lack the others until later "
                    "polls"
                )
        self._warn(texts)

    def _warn_of_late_start(self, query: Query, rows: pd.DataFrame) -> None:
        """Add a notice if a window begins before the first poll."""
        if "time" not in rows or rows.empty or self._inherited:
            return
        first = rows["time"].min()
        if first - query.start > _SOON:
            text = (
                f"sampled rates begin with the first poll at {first:%Y-%m-%d %H:%M}, after the start of "
                "the window; dd.funding.settlements returns earlier payments"
            )
            self._warn([text])

    def _warn(self, texts: Sequence[str]) -> None:
        """Add each notice once."""
        with self._fork_lock:
            self._notices += [text for text in texts if text not in self._given]
            self._given.update(texts)
