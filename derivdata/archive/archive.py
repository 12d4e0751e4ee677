"""An archive as a source of tables: what it holds, a window of it, its newest rows."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any, TypeVar

import pandas as pd

from derivdata import times
from derivdata.archive import data_files
from derivdata.archive import manifest as manifests
from derivdata.archive.append import Appended, add_rows
from derivdata.archive.audit import AUDITS, Held, audit, normalise
from derivdata.archive.corrections import (
    Corrected,
    Selection,
    correction_notices,
    corrections_frame,
    replace_rows,
    selection,
    undo,
)
from derivdata.archive.dask_reads import lazy, lazy_panel
from derivdata.archive.ledger import Request, requests_frame, unanswered_windows
from derivdata.archive.manifest import Manifest, TableEntry
from derivdata.archive.schemas import archive_table
from derivdata.arguments import typed
from derivdata.errors import ArchiveError, SchemaError
from derivdata.notices import warn_caller
from derivdata.schema import Kind, Table
from derivdata.tables import panel as tables_panel
from derivdata.tables import provenance

__all__ = ["Archive", "open_archive"]

_LOCK_SECONDS = 60.0
_TRIES = 5
_ADDRESS = re.compile(r"([a-z][a-z0-9+.-]+)://", re.IGNORECASE)
_INFO = ("rows", "first", "last", "symbols", "exchanges", "files", "megabytes")
T = TypeVar("T")


@typed
def open_archive(
    path: str | os.PathLike[str], *, create: bool = True, lock_timeout: float = _LOCK_SECONDS
) -> Archive:
    """Open the archive in a folder.

    Parameters
    ----------
    path
        Its folder. Nothing is written before the first `Archive.append`.
    create
        Whether a folder that is absent or empty is a new archive; otherwise it is an error.
    lock_timeout
        Seconds that an append waits for another writer.

    Returns
    -------
    Archive

    Raises
    ------
    ValueError
        `path` cannot be a path.
    ArchiveError
        No archive is there, the folder holds something else, the manifest is damaged, or the archive was
        written by a newer version.

    Examples
    --------
    >>> archive = dd.open_archive("my-archive")
    >>> archive.append("oi_history", dd.oi.history("BTC", "1d", exchanges=["binance"]))
    24
    >>> archive.append("oi_history", dd.oi.history("BTC", "1d", exchanges=["binance"]))
    0
    """
    address = _ADDRESS.match(os.fspath(path))
    if address is not None:
        raise ArchiveError(
            f"{os.fspath(path)}: archives on {address[1]} cannot be opened by this version, only folders: "
            "copy it to a folder first"
        )
    try:
        folder = Path(path).expanduser().resolve()
    except (ValueError, RuntimeError) as fault:
        raise ValueError(f"path={os.fspath(path)!r} cannot name a folder: {fault}") from None
    if manifests.load(folder) is None and not create:
        raise ArchiveError(
            f"{folder}: no archive is there: make one with derivdata import or dd.open_archive"
        )
    return Archive(folder, lock_timeout=lock_timeout)


class Archive:
    """A folder of tables as partitioned Parquet; see `open_archive`.

    Reading takes no lock and sees the state after the last finished append, also those of other processes.
    Each table has one row per key: rows whose key is stored already are skipped, with a `DataNotice` where
    their values differ from the stored ones, so that a backtest stays as it was.
    """

    def __init__(self, path: Path, *, lock_timeout: float = _LOCK_SECONDS) -> None:
        self._path = path
        self._lock_timeout = lock_timeout
        self._seen: tuple[Any, Manifest] = (None, Manifest())

    @property
    def path(self) -> Path:
        """Its folder."""
        return self._path

    @property
    def label(self) -> str:
        """The folder's name."""
        return self._path.name

    @property
    def id(self) -> str:
        """Name of the archive for good, made with its first append; a copy of the folder has the same."""
        return self._manifest().id

    @property
    def version(self) -> str:
        """Version of the data, ``epoch.commits``.

        `commits` rises with every change. `epoch` rises with those that change what was answered about the
        past: rows that were replaced or deleted, or that came for a time over an hour before the newest. An
        answer about a window that closed an hour before is right for as long as `id` and `epoch` are.
        """
        manifest = self._manifest()
        return f"{manifest.epoch}.{manifest.commits}"

    @property
    def identity(self) -> str:
        """Hash of all that was appended and corrected, in order: it changes with every change of a row."""
        return self._manifest().identity

    @property
    def synthetic(self) -> bool:
        """Whether any table that was appended said in its provenance that it was made up."""
        return self._manifest().synthetic

    @property
    def start(self) -> pd.Timestamp:
        """First instant of all tables."""
        return _stamp(min(file.first for file in self._all_files()))

    @property
    def now(self) -> pd.Timestamp:
        """First whole minute after the last instant of all tables: what ends there holds every row."""
        return _stamp(max(file.last for file in self._all_files())).floor("min") + pd.Timedelta(1, "min")

    def tables(self) -> frozenset[str]:
        """Names of the tables that it holds."""
        return frozenset(self._manifest().tables)

    def symbols(self, table: str) -> tuple[str, ...]:
        """Symbols of a table, sorted; none where it holds no such table."""
        return tuple(self._entry(archive_table(table)).values.get("symbol", ()))

    def exchanges(self, table: str) -> tuple[str, ...]:
        """Venues of a table, sorted; none where it holds no such table."""
        return tuple(self._entry(archive_table(table)).values.get("exchange", ()))

    def append(
        self,
        table: str,
        frame: pd.DataFrame,
        *,
        requests: Sequence[Request] = (),
        accept: Collection[str] = (),
    ) -> int:
        """Add the rows of a table that are not there yet.

        Names become the library's as in an import: ``BTC/USDT:USDT`` is ``BTC``, ``Binance`` ``binance``.
        Rows whose values give a mistake of unit, interval or time away are refused with the question to
        answer.

        Parameters
        ----------
        table
            Name of the table, such as ``"funding_history"``.
        frame
            Its rows, with the library's column names; see ``dd.tables.TABLES[table]``.
        requests
            What was asked to get them: entered into the ledger in the same step (see `requests`).
        accept
            Questions that were answered: ``"unit"`` (size of rates and open interest), ``"interval"`` (stated
            interval beside the spacing of rows), ``"venues"`` (rates beside those of other venues),
            ``"future"`` (stamps ahead of the machine's clock).

        Returns
        -------
        int
            Rows written. Appending the same rows again writes none.

        Raises
        ------
        ValueError
            There is no such table.
        SchemaError
            The frame is not that table.
        ArchiveError
            The rows cannot be what they say they are, another writer held the archive for too long, or the
            disk refused. Nothing is appended then.

        Warns
        -----
        DataNotice
            Some rows were there already with other values, and those first seen stay; or some are of a
            contract whose symbol has one of a quote currency of higher priority.
        """
        frame, other_quotes = normalise(archive_table(table), frame)
        counts = self.merge(table, frame, requests=requests, accept=accept)
        if other_quotes:
            warn_caller(f"{table}: {other_quotes} rows of a quote currency of lower priority were left out")
        if counts.differing:
            warn_caller(
                f"{table}: {counts.differing} rows were there already with other values; "
                "those first seen stay"
            )
        return counts.written

    def merge(
        self,
        table: str,
        frame: pd.DataFrame,
        *,
        requests: Sequence[Request] = (),
        unit: str | None = None,
        accept: Collection[str] = AUDITS,
    ) -> Appended:
        """Append rows that have the library's names; return counts of rows written, present and differing.

        For those who know what the rows are: no question is asked unless `accept` leaves it open. `unit`
        names the unit that the rates were converted from, where somebody said so.
        """
        keyed = archive_table(table)
        rows = self._conformed(keyed, frame)
        said = provenance(frame) if "provenance" in frame.attrs else {}
        synthetic = bool(said.get("synthetic", False))

        def read(symbols: Collection[str], start: pd.Timestamp, end: pd.Timestamp) -> pd.DataFrame:
            return self.read(table, start, end + pd.Timedelta(1, "us"), symbols=list(symbols))

        audit(keyed, rows, Held(self.exchanges(table), read), unit=unit, accept=accept, synthetic=synthetic)
        return add_rows(
            self._path,
            keyed,
            rows,
            synthetic=synthetic,
            timeout=self._lock_timeout,
            requests=requests,
        )

    def replace(
        self,
        table: str,
        frame: pd.DataFrame,
        where: Mapping[str, str | Sequence[str]] | None = None,
        *,
        start: times.Instant | None = None,
        end: times.Instant | None = None,
        reason: str = "",
    ) -> Corrected:
        """Replace some rows of a table by others: how data that was wrong is corrected.

        Parameters
        ----------
        table
            Name of the table.
        frame
            The right rows. Each must be one of those that are chosen by `where`, `start` and `end`.
        where
            Values by column of the key, ``{"exchange": "lighter", "symbol": ["BTC", "ETH"]}``: which rows go.
        start, end
            Half-open window of the rows that go; None leaves it open.
        reason
            Why, for the log (`corrections`).

        Returns
        -------
        Corrected
            The correction's number, for `undo`, and how many rows went and came.

        Raises
        ------
        ValueError
            No condition was given, or `frame` has rows outside it.
        SchemaError
            The frame is not that table.
        ArchiveError
            No such rows are there and none come, another writer held the archive for too long, or the
            disk refused.
        """
        return self._correct(table, frame, where, start, end, reason)

    def delete(
        self,
        table: str,
        where: Mapping[str, str | Sequence[str]] | None = None,
        *,
        start: times.Instant | None = None,
        end: times.Instant | None = None,
        reason: str = "",
    ) -> Corrected:
        """Delete some rows of a table; parameters, result and errors are those of `replace`."""
        return self._correct(table, None, where, start, end, reason)

    def undo(self, number: int) -> Corrected:
        """Take back a correction: what it put in goes, and what it took out returns.

        Rows that were appended since stay, also where they have the key of a row that would return. Undoing
        is a correction itself, and can be undone.

        Raises
        ------
        ValueError
            There is no such correction, it was undone already, or a later one touches the same rows.
        """
        return undo(self._path, archive_table, number, timeout=self._lock_timeout)

    def corrections(self) -> pd.DataFrame:
        """Return the log of corrections, by number: what was replaced or deleted, why, and whether undone."""
        return corrections_frame(self._manifest())

    def _conformed(self, table: Table, frame: pd.DataFrame) -> pd.DataFrame:
        """Conform a frame; refuse it in words that suit an archive, where there is no answer to look at."""
        try:
            return table.conform(frame)
        except SchemaError as problem:
            text = str(problem).replace("; see the answer with dd.raw(path, ...)", "")
            raise SchemaError(
                f"{text}; nothing was appended (dd.tables.TABLES[{table.name!r}] lists the columns)"
            ) from None

    def _correct(
        self,
        table: str,
        frame: pd.DataFrame | None,
        where: Mapping[str, str | Sequence[str]] | None,
        start: times.Instant | None,
        end: times.Instant | None,
        reason: str,
    ) -> Corrected:
        keyed = archive_table(table)
        chosen = selection(keyed, where, _window(start, end))
        rows = None
        if frame is not None:
            rows = self._conformed(keyed, normalise(keyed, frame).frame)
        return replace_rows(self._path, keyed, rows, chosen, reason=reason, timeout=self._lock_timeout)

    def requests(self) -> pd.DataFrame:
        """Return the ledger: which windows were asked of which venue, and whether they were answered.

        One row per table, exchange, symbol (missing: one request about all symbols) and window
        ``start``, ``end``; touching windows are one. ``error`` says why a window was not answered. A window
        that was answered and holds no rows has none; one that is not here was never asked for.
        """
        return self._with_ledger(lambda name: requests_frame(self._path, name))

    def unanswered(
        self, table: str, exchange: str, symbol: str | None, start: times.Instant, end: times.Instant
    ) -> list[times.Window]:
        """Return the parts of ``[start, end)`` for which the ledger has no answer of a venue.

        An answer about all symbols counts for each; `symbol` None asks for those only.
        """
        window = times.Window(times.instant(start, "start"), times.instant(end, "end"))
        kind = archive_table(table).name
        return self._with_ledger(
            lambda name: unanswered_windows(self._path, name, kind, exchange, symbol, window)
        )

    def read(
        self,
        table: str,
        start: pd.Timestamp,
        end: pd.Timestamp,
        *,
        symbols: Sequence[str] | None = None,
        exchanges: Sequence[str] | None = None,
    ) -> pd.DataFrame:
        """Rows of a table with ``start <= time < end``, as its table; empty where it has none.

        Parameters
        ----------
        table
            Name of the table.
        start, end
            Half-open window; an instant without a zone is UTC.
        symbols, exchanges
            Those wanted; None is all.

        Raises
        ------
        ValueError
            There is no such table, or it has no such column to choose by.
        ArchiveError
            A file is damaged, missing, or that of another table.
        """
        keyed = archive_table(table)
        where = data_files.wanted(keyed, symbols, exchanges)
        window = data_files.TimeRange(_micros(start), _micros(end))
        found = self._steady(lambda held: data_files.scan(self._path, keyed, held, window, where), keyed)
        frame = data_files.frame_of(keyed, found)
        frame.attrs["provenance"] = self._provenance(keyed, Selection(where, window))
        return frame

    def latest(
        self,
        table: str,
        at: pd.Timestamp,
        *,
        within: pd.Timedelta,
        symbols: Sequence[str] | None = None,
        exchanges: Sequence[str] | None = None,
    ) -> pd.DataFrame:
        """Newest row at or before `at`, no older than `within`, per key without its time.

        For ``options_snapshot`` it is the newest whole chain of each (symbol, exchange): the rows of its
        last instant.
        """
        keyed = archive_table(table)
        where = data_files.wanted(keyed, symbols, exchanges)
        last = times.instant(at, "at")
        window = data_files.TimeRange(_micros(last - within), _micros(last) + 1)
        found = self._steady(
            lambda held: data_files.scan_latest(self._path, keyed, held, window, where), keyed
        )
        frame = keyed.conform(found)
        frame.attrs["provenance"] = self._provenance(keyed, Selection(where, window))
        return frame

    def lazy(
        self,
        table: str,
        *,
        start: pd.Timestamp | None = None,
        end: pd.Timestamp | None = None,
        symbols: Sequence[str] | None = None,
        exchanges: Sequence[str] | None = None,
    ) -> Any:
        """As `read`, as a dask frame for what is larger than memory; None leaves the window open.

        Rows are in no order over the partitions. Needs the extra ``derivdata[dask]``.
        """
        keyed = archive_table(table)
        window = _window(start, end)
        return lazy(
            self._path, keyed, self._entry(keyed), window, data_files.wanted(keyed, symbols, exchanges)
        )

    def panel(
        self,
        table: str,
        column: str,
        *,
        start: times.Instant,
        end: times.Instant,
        step: str | pd.Timedelta,
        symbols: Sequence[str] | None = None,
        exchanges: Sequence[str] | None = None,
        chunks: int | None = None,
    ) -> Any:
        """Return one column of a table as a lazy panel, for what is larger than memory.

        Parameters
        ----------
        table, column
            A table keyed by symbol, venue and time, and one of its numeric columns.
        start, end
            Half-open window; its start is the grid's first instant.
        step
            Spacing of the grid, ``"1m"`` or ``"1h"``. Every row must lie on it: a row beside it is a
            ValueError when its chunk is computed.
        symbols, exchanges
            Those wanted; None is all.
        chunks
            Instants in a chunk; None makes chunks of some 32 MB.

        Returns
        -------
        DataArray, dims ``(symbol, exchange, time)``
            As `derivdata.panel` of the rows, reindexed to the grid: NaN where there is no row. Planned from
            the manifest; each chunk reads the four columns that it needs, and no frame is made in between.

        Raises
        ------
        ImportError
            dask is not installed (``derivdata[dask]``).
        ValueError
            There is no such table or column, the table has other keys, or the step is none.
        """
        keyed = archive_table(table)
        if column not in keyed.columns or keyed.columns[column].kind is not Kind.NUMBER:
            raise ValueError(f"column={column!r} is no column of numbers of {table}")
        micros = int(times.length(step, "step") / pd.Timedelta(1, "us"))
        if micros <= 0:
            raise ValueError(f"step={step!r} is no length of time")
        where = data_files.wanted(keyed, symbols, exchanges)
        window, entry = _window(start, end), self._entry(keyed)
        found = lazy_panel(self._path, keyed, column, entry, window, where, micros, chunks)
        head = next(data_files.row_group_batches(self._path, keyed, entry.files, window, where), None)
        if head is None:
            return found.assign_attrs(tables_panel(keyed.empty(), column).attrs)
        rows = data_files.load(self._path, keyed, head._replace(groups=head.groups[:1]), window, where)
        attrs = tables_panel(data_files.frame_of(keyed, [rows]).head(1), column).attrs
        return found.assign_attrs(attrs)

    def info(self) -> pd.DataFrame:
        """Summarise each table: rows, first and last instant, symbols, venues, files and size [MB]."""
        rows = {name: _summary(entry) for name, entry in sorted(self._manifest().tables.items())}
        return pd.DataFrame.from_dict(rows, orient="index", columns=list(_INFO)).rename_axis("table")

    def __repr__(self) -> str:
        return f"<derivdata archive {self._path}{self._mark()}>\n{self.info().to_string()}"

    def _repr_html_(self) -> str:
        return (
            f"<p>derivdata archive <b>{escape(str(self._path))}</b>{self._mark()}</p>{self.info().to_html()}"
        )

    def _mark(self) -> str:
        return " (synthetic)" if self.synthetic else ""

    def _manifest(self) -> Manifest:
        """Return the manifest now, read again only when it was replaced."""
        try:
            state = os.stat(self._path / manifests.NAME)
            mark = (state.st_ino, state.st_mtime_ns, state.st_size)
        except OSError:
            mark = None
        if mark is None or mark != self._seen[0]:
            self._seen = (mark, manifests.load(self._path) or Manifest())
        return self._seen[1]

    def _entry(self, table: Table) -> TableEntry:
        return self._manifest().tables.get(table.name, TableEntry())

    def _all_files(self) -> list[manifests.DataFile]:
        found = [file for entry in self._manifest().tables.values() for file in entry.files]
        if not found:
            raise ArchiveError(f"{self._path}: the archive is empty: append a table or import a file first")
        return found

    def _provenance(self, table: Table, read: Selection) -> dict[str, Any]:
        """Return what stands behind rows: the archive, its version, corrections of these rows."""
        return {
            "source": self.label,
            "synthetic": self.synthetic,
            "as_of": times.iso(self.now) if self.tables() else None,
            "requests": [],
            "notices": correction_notices(self._manifest(), table.name, read),
            "archive": {"id": self.id, "version": self.version},
        }

    def _with_ledger(self, work: Callable[[str], T]) -> T:
        """Do the work on the ledger's file; again if a writer replaced it meanwhile."""
        for _ in range(_TRIES):
            name = self._manifest().ledger
            try:
                return work(name)
            except ArchiveError:
                if self._manifest().ledger == name:
                    raise
        return work(self._manifest().ledger)

    def _steady(self, work: Callable[[list[manifests.DataFile]], T], table: Table) -> T:
        """Do the work on the files of one state; again if a writer merged them away meanwhile."""
        for _ in range(_TRIES):
            held = self._entry(table).files
            try:
                return work(held)
            except FileNotFoundError as problem:
                absent = problem.filename
                if self._entry(table).files == held:
                    break
        raise ArchiveError(
            f"{self._path}: a file of the archive is missing: {absent}: restore it from a copy"
        )


def _window(start: times.Instant | None, end: times.Instant | None) -> data_files.TimeRange:
    """Return the window in microseconds; None leaves an end open."""
    return data_files.TimeRange(
        data_files.EVER.start if start is None else _micros(start),
        data_files.EVER.end if end is None else _micros(end),
    )


def _micros(value: times.Instant) -> int:
    return int(times.instant(value).asm8.astype("int64"))


def _stamp(micros: int) -> pd.Timestamp:
    return pd.Timestamp(micros, unit="us", tz="UTC").as_unit("us")


def _summary(entry: TableEntry) -> list[Any]:
    return [
        sum(file.rows for file in entry.files),
        _stamp(min(file.first for file in entry.files)),
        _stamp(max(file.last for file in entry.files)),
        len(entry.values.get("symbol", ())),
        len(entry.values.get("exchange", ())),
        len(entry.files),
        round(sum(file.size for file in entry.files) / 1e6, 3),
    ]
