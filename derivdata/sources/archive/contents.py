"""Contents of an archive: identity, tables, symbols, venues, and the logs of corrections and requests."""

from __future__ import annotations

from collections.abc import Callable
from html import escape
from pathlib import Path
from typing import Any, TypeVar

import pandas as pd

from derivdata.errors import ArchiveError
from derivdata.sources.archive import manifest as manifests
from derivdata.sources.archive.corrections import corrections_frame
from derivdata.sources.archive.ledger import LedgerFile, ledger_files, requests_frame, unanswered_windows
from derivdata.sources.archive.manifest import DataFile, Manifest, TableEntry
from derivdata.sources.archive.object_store import Storage
from derivdata.sources.archive.scanning import stamp
from derivdata.sources.archive.schemas import archive_table
from derivdata.support import times
from derivdata.tables.schema import Table

_TRIES = 20
_INFO = ("rows", "first", "last", "symbols", "exchanges", "files", "megabytes")
T = TypeVar("T")


class ArchiveContents:
    """The manifest of an archive, read again when a writer has replaced it."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._cached: tuple[Any, Manifest] = (None, Manifest())

    @property
    def path(self) -> Path:
        """The archive's folder; an ArchiveError where it is not in one."""
        return self._storage.folder

    @property
    def location(self) -> str:
        """The archive's folder or address, as text."""
        return str(self._storage)

    @property
    def label(self) -> str:
        """The name of the folder, or the last part of the address."""
        return self._storage.label

    @property
    def id(self) -> str:
        """Permanent random name, made with the first append; a copy of the folder has the same."""
        return self._manifest().id

    @property
    def version(self) -> str:
        """Version of the data, ``past.rows``, of 16 digits each.

        `rows` changes with every change of a row and of the ledger. `past` changes with past data: rows that
        are replaced, deleted or dropped, and rows appended or requests recorded for a time over an hour
        before the newest. Both are hashes of all changes so far, so two copies of an archive that were
        corrected differently differ. A cached response about a window that closed an hour ago stays valid
        while `id` and `past` are unchanged.
        """
        manifest = self._manifest()
        return f"{manifest.past[:16] or 0}.{manifest.identity[:16] or 0}"

    @property
    def identity(self) -> str:
        """Hash of everything appended, corrected and requested, in order: it changes with every change."""
        return self._manifest().identity

    @property
    def synthetic(self) -> bool:
        """True if the provenance of any appended table calls its rows synthetic."""
        return self._manifest().synthetic

    @property
    def start(self) -> pd.Timestamp:
        """First timestamp of all tables."""
        return stamp(min(file.first for file in self._files()))

    @property
    def now(self) -> pd.Timestamp:
        """Return the first whole minute after all rows: a window that ends there has every row."""
        return stamp(max(file.last for file in self._files())).floor("min") + pd.Timedelta(1, "min")

    def tables(self) -> frozenset[str]:
        """Return the names of the archived tables."""
        return frozenset(self._manifest().tables)

    def symbols(self, table: str) -> tuple[str, ...]:
        """Return the symbols of a table, sorted; none where the table has no rows."""
        return tuple(self._entry(archive_table(table)).values.get("symbol", ()))

    def exchanges(self, table: str) -> tuple[str, ...]:
        """Return the venues of a table, sorted; none where the table has no rows."""
        return tuple(self._entry(archive_table(table)).values.get("exchange", ()))

    def corrections(self) -> pd.DataFrame:
        """Return the log of corrections, by number: replaced or deleted rows, reason, and whether undone."""
        return corrections_frame(self._manifest())

    def requests(self) -> pd.DataFrame:
        """Return the ledger: requested windows by venue, and whether each request succeeded.

        One row per table, exchange, symbol (missing: one request about all symbols) and window ``start``,
        ``end``; adjacent windows are joined. ``error`` is the reason of a failed window, ``source`` the
        origin of the rows: ``"request"`` or ``"file"``, one of the venue's bulk files. A successful window
        without rows in the archive has no data; a window that is not in the ledger was never requested. A
        window with missing rows at the step of the series counts as failed, until a second response lacks the
        same rows. Then it counts as successful, with the source ``"confirmed_gap"`` and an ``error`` that
        counts the rows.
        """
        return self._with_manifest(lambda state: requests_frame(self._storage, state.ledger))

    def files(self, table: str, venue: str, symbol: str) -> dict[str, LedgerFile]:
        """Return the ledger's entries of the venue's files with rows of a symbol, by file name."""
        table = archive_table(table).name
        return self._with_manifest(
            lambda state: ledger_files(self._storage, state.ledger, table, venue, symbol)
        )

    def unanswered(
        self,
        table: str,
        venue: str,
        symbol: str | None,
        start: times.Instant,
        end: times.Instant,
        *,
        now: times.Instant | None = None,
    ) -> list[times.Window]:
        """Return the parts of ``[start, end)`` without a successful request to a venue in the ledger.

        A request about all symbols counts for each of them; with `symbol` None only such requests count. A
        confirmed gap counts as successful; with `now`, only for 30 days after it was confirmed.
        """
        at = None if now is None else times.instant(now, "now")
        window = times.Window(times.instant(start, "start"), times.instant(end, "end"))
        table = archive_table(table).name
        return self._with_manifest(
            lambda state: unanswered_windows(self._storage, state.ledger, table, venue, symbol, window, at)
        )

    def info(self) -> pd.DataFrame:
        """Summarise each table: rows, first and last timestamp, symbols, venues, files and size [MB]."""
        rows = {name: _summary(entry) for name, entry in sorted(self._manifest().tables.items())}
        return pd.DataFrame.from_dict(rows, orient="index", columns=list(_INFO)).rename_axis("table")

    def __repr__(self) -> str:
        mark = " (synthetic)" if self.synthetic else ""
        return f"<derivdata archive {self._storage}{mark}>\n{self.info().to_string()}"

    def _repr_html_(self) -> str:
        mark = " (synthetic)" if self.synthetic else ""
        return f"<p>derivdata archive <b>{escape(str(self._storage))}</b>{mark}</p>{self.info().to_html()}"

    def _manifest(self, *, fresh: bool = False) -> Manifest:
        """Return the current manifest, empty if there is none."""
        mark = self._storage.manifest_mark(fresh=fresh)
        if mark is None or mark != self._cached[0]:
            self._cached = (mark, manifests.load(self._storage) or Manifest())
        return self._cached[1]

    def _entry(self, table: Table, *, fresh: bool = False) -> TableEntry:
        """Return the entry of a table, empty if it has no rows."""
        return self._manifest(fresh=fresh).tables.get(table.name, TableEntry())

    def _files(self) -> list[DataFile]:
        files = [file for entry in self._manifest().tables.values() for file in entry.files]
        if not files:
            raise ArchiveError(
                f"{self._storage}: the archive is empty: append a table or import a file first"
            )
        return files

    def _with_manifest(self, read: Callable[[Manifest], T]) -> T:
        """Read files of one state of the archive, with a retry if a writer has replaced some of them."""
        state = self._manifest()
        for _ in range(_TRIES):
            try:
                return read(state)
            except (FileNotFoundError, ArchiveError) as problem:
                fault = problem
                before = state
                state = self._manifest(fresh=True)
                if (state.tables, state.ledger) == (before.tables, before.ledger):
                    break
        else:
            raise ArchiveError(
                f"{self._storage}: a writer replaced files during each of {_TRIES} attempts to read: read "
                "again"
            )
        if isinstance(fault, ArchiveError):
            raise fault
        raise ArchiveError(
            f"{self._storage}: a file of the archive is missing: {fault.filename}: restore it from a copy"
        )


def _summary(entry: TableEntry) -> list[Any]:
    return [
        sum(file.rows for file in entry.files),
        stamp(min(file.first for file in entry.files)),
        stamp(max(file.last for file in entry.files)),
        len(entry.values.get("symbol", ())),
        len(entry.values.get("exchange", ())),
        len(entry.files),
        round(sum(file.size for file in entry.files) / 1e6, 3),
    ]
