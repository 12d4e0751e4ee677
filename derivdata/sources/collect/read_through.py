"""An archive that asks the venues for what it lacks: the source of ``dd.connect("venues")``."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product

import pandas as pd

from derivdata.errors import NetworkError
from derivdata.sources.archive import Archive, open_archive
from derivdata.sources.collect.bulk import CHAINS
from derivdata.sources.collect.collector import Collector
from derivdata.sources.collect.files import data_folder
from derivdata.sources.collect.histories import backfill
from derivdata.sources.collect.history_rows import TABLES as HISTORIES
from derivdata.sources.collect.liquidations import LIQUIDATIONS
from derivdata.sources.collect.missing_rows import INCOMPLETE
from derivdata.sources.collect.reporting import StatusLine
from derivdata.sources.collect.session import Clock, MachineClock
from derivdata.sources.collect.state import BOOKS, STATE
from derivdata.sources.query import Query
from derivdata.sources.venues.endpoint import DATED
from derivdata.support.forking import renew_in_child

_FRESH = pd.Timedelta(60, "s")
_SAMPLED = "funding_history"
_SOON = pd.Timedelta(2, "h")
_SETTLED_AFTER = pd.Timedelta(2, "min")  # venues list a payment a little after its hour
_SHARE_SECONDS = 10.0
"""How long a user waits for open interest that takes a request for each contract; the next state has more."""
_FIRST = pd.Timestamp("2019-01-01", tz="UTC")
_FILLED = (*(name for name in HISTORIES if name not in (_SAMPLED, DATED)), LIQUIDATIONS)


def open_venues(
    archive: str | os.PathLike[str] | None = None, venues: Sequence[str] | None = None
) -> ReadThrough:
    """Return a source over an archive, the one in the user's data folder unless another is named."""
    return ReadThrough(open_archive(data_folder() / "venues" if archive is None else archive), venues=venues)


class ReadThrough:
    """A store for the service: reads are answered from the archive, after what it lacks was fetched.

    A forked child asks nothing and writes nothing. The fork lock is held while notices change, and in forks.
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
        self._told: set[str] = set()
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
        """Return the hash of all that was collected."""
        return self.archive.identity

    @property
    def start(self) -> pd.Timestamp:
        """Return the first instant that histories may reach."""
        return _FIRST

    @property
    def now(self) -> pd.Timestamp:
        """Return the first whole second after the newest state, before it the clock's: all rows are past."""
        polled = self._polled
        return self.clock.utc().floor("s") if polled is None else polled.ceil("s")

    def is_stale(self) -> bool:
        """Return whether the newest state is older than a minute, or there is none."""
        polled = self._polled
        return not self._inherited and (polled is None or self.clock.utc() - polled >= _FRESH)

    def refresh(self) -> None:
        """Ask all venues for their state if the newest is older than a minute; one must have been reached."""
        if not self.is_stale():
            return
        with self._poll_lock:
            if self.is_stale():  # no other thread has asked in between
                self._collector.once()
                self._status.end()
                self._require_some_venue()
                self._polled = self.clock.utc()
                self._tell_failures()

    def _require_some_venue(self) -> None:
        shared = self._collector.shared
        if any(one.answered for one in shared.values()):
            return
        reasons = [f"{name} {next(iter(one.list_errors.values()), '')}" for name, one in shared.items()]
        more = f"; and {len(reasons) - 2} more" if len(reasons) > 2 else ""
        raise NetworkError(
            "venues",
            f"none of {len(shared)} could be reached: {'; '.join(reasons[:2])}{more}. Check the network and "
            "the proxy (HTTPS_PROXY); what was collected before is read with "
            f"dd.connect({str(self.archive.path)!r})",
        )

    def take_notices(self) -> list[str]:
        """Return what the user must know, once: venues that could not be reached, and why."""
        with self._fork_lock:
            notices = self._notices
            self._notices = []
        return notices

    def _after_fork(self) -> None:
        """Stop asking in a forked child: its parent continues with the same sockets and archive."""
        self._poll_lock = threading.Lock()
        self._fork_lock = threading.Lock()
        self._notices = []  # the parent reports them
        self._inherited = True

    def tables(self) -> frozenset[str]:
        """Return the tables that venues fill, if any of them answers, and what else the archive holds."""
        answers = self._polled is None or any(each.listing for each in self._collector.shared.values())
        return self.archive.tables() | ({*STATE, *CHAINS, *BOOKS, *_FILLED} if answers else set())

    def requests(self) -> pd.DataFrame:
        """Return the archive's ledger."""
        return self.archive.requests()

    def symbols(self, table: str) -> tuple[str, ...]:
        """Return the symbols of a table: all that the venues list."""
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
        """Return the rows of a query, after what the ledger lacks of it was asked.

        Open interest of all symbols is that of polls alone, which cover a venue whole: of the past only the
        symbols that somebody asked for were fetched, and a total of these would not be the venue's.
        Liquidations of the past are asked of venues that are named: some stand among all trades.
        """
        table = query.table
        failed = list[str]()
        self._tell_of_lacking(table)
        named = query.venues is not None if table == LIQUIDATIONS else query.symbols is not None
        if table in _FILLED and named and not self._inherited:
            failed = self._fill(query)
        if table != "oi_history" or query.symbols is not None:
            rows = self.archive.rows(query)
            if table == _SAMPLED:
                self._tell_of_beginning(query, rows)
            return self._noted(rows, query, failed)
        columns = query.columns and tuple(dict.fromkeys((*query.columns, "resolution")))
        rows = self.archive.rows(replace(query, columns=columns))
        polled = rows[rows["resolution"] == "raw"].reset_index(drop=True)
        return self._noted(polled if query.columns is None else polled[list(query.columns)], query)

    def sums(self, query: Query, value: str) -> pd.DataFrame:
        """Add up what `rows` returns of all symbols: of open interest what was polled."""
        self._tell_of_lacking(query.table)
        sums = self.archive.sums(query, value)
        return self._noted(sums[sums["resolution"] == "raw"] if query.table == "oi_history" else sums, query)

    def extents(self, table: str, until: pd.Timestamp) -> pd.DataFrame:
        """Return what the archive has of each venue: nothing is fetched for it."""
        return self.archive.extents(table, until)

    def newest(self, query: Query) -> pd.DataFrame:
        """Return the newest rows, of the state that `refresh` asked for last; a book is asked for first."""
        table = query.table
        symbols = query.symbols
        venues = query.venues
        self._tell_of_lacking(table)
        if table == BOOKS[0] and symbols and venues and not self._inherited:
            self._ask_books(symbols, venues)
            query = replace(query, end=max(query.end, self.clock.utc().ceil("s") + pd.Timedelta(1, "us")))
        return self._noted(self.archive.newest(query), query)

    def _noted(self, rows: pd.DataFrame, query: Query, failed: Sequence[str] = ()) -> pd.DataFrame:
        """Add to the provenance of rows which venues they lack, and why, however often it was told."""
        gone = self._collector.gone
        lost = self._collector.failed
        asked = self._collector.venues if query.venues is None else query.venues
        texts = [f"{name} is left out: {gone[name]}" for name in asked if name in gone]
        lacking = {name: lost.get(f"{name} {query.table}") for name in asked if name not in gone}
        texts += [f"{name}: no {query.table}: {why}" for name, why in lacking.items() if why]
        origin = rows.attrs.get("provenance", {})
        notices = dict.fromkeys([*origin.get("notices", []), *texts, *failed])
        rows.attrs["provenance"] = {**origin, "notices": list(notices)}
        return rows

    def close(self) -> None:
        """Close every connection."""
        self._collector.close()

    def _ask_books(self, symbols: Sequence[str], venues: Sequence[str]) -> None:
        """Ask for the order books that are older than a minute."""
        with self._poll_lock:
            for symbol, exchange in product(symbols, venues):
                now = self.clock.utc()
                last_request = self._books.get((symbol, exchange))
                if exchange not in self._collector.venues or exchange in self._collector.gone:
                    continue
                if last_request is None or now - last_request >= _FRESH:
                    self._collector.ask_book(exchange, symbol)
                    self._books[symbol, exchange] = now
                    self._tell_failures()

    def _fill(self, query: Query) -> list[str]:
        """Ask for what the ledger lacks of a query, and return what did not come and why."""
        asked = [
            name
            for name in self._collector.venues
            if name not in self._collector.gone and (query.venues is None or name in query.venues)
        ]
        last = min(query.end, (self.clock.utc() - _SETTLED_AFTER).floor("5min"))
        first = max(query.start, _FIRST)
        if query.table not in HISTORIES or not asked or first >= last:
            return []
        done = backfill(
            self.archive,
            query.symbols or (),
            first,
            last,
            venues=asked,
            names=[query.table],
            clock=self.clock,
            addresses=self._addresses,
            shared=self._collector.shared,
            progress=self._status.show,
        )
        self._status.end()
        texts = [text if INCOMPLETE in text else f"{text}: left out" for text in done.failed]
        texts += done.notices
        self._tell(texts)
        return texts

    def _tell_failures(self) -> None:
        """Add a notice, once, for each table that a venue does not give, and why."""
        gone = self._collector.gone
        parts: dict[tuple[str, str], list[str]] = {}
        for part, why in self._collector.failed.items():
            exchange, _, what = part.partition(" ")
            if exchange not in gone:
                words = f"no answer to {what}" if what.startswith("/") else f"no {what}"
                parts.setdefault((exchange, why), []).append(words)
        self._tell([f"{name} is left out: {why}" for name, why in gone.items()])
        self._tell([f"{name}: {', '.join(words)}: {why}" for (name, why), words in parts.items()])

    def _tell_of_lacking(self, table: str) -> None:
        """Add a notice, once, for each venue whose open interest is not polled, or not yet of all."""
        if table != "oi_history" or self._inherited:
            return
        texts = [
            f"{name}: funding is polled, open interest is not: its totals and shares lack this venue"
            for name in self._collector.venues_without("oi_history")
        ]
        for name, (collected, wanted) in self._collector.shares_of_open_interest().items():
            if collected < wanted and name not in self._partial:
                self._partial.add(name)
                texts.append(
                    f"{name}: open interest of {collected} of {wanted} contracts yet, the largest first: it "
                    "takes a request for each, and totals and shares lack the others until later polls"
                )
        self._tell(texts)

    def _tell_of_beginning(self, query: Query, rows: pd.DataFrame) -> None:
        """Say where polls begin, of a window that begins before them."""
        if "time" not in rows or rows.empty or self._inherited:
            return
        first = rows["time"].min()
        if first - query.start > _SOON:
            said = f"sampled rates begin with the first poll, {first:%Y-%m-%d %H:%M}, after the window asked"
            self._tell([f"{said}: before it nothing is there; dd.funding.settlements has what was paid"])

    def _tell(self, texts: Sequence[str]) -> None:
        """Keep each notice once."""
        with self._fork_lock:
            self._notices += [text for text in texts if text not in self._told]
            self._told.update(texts)
