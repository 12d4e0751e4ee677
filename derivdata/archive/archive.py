"""An archive as a source of tables: what it holds, a window of it, its newest rows."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from html import escape
from pathlib import Path
from typing import Any, TypeVar

import pandas as pd

from derivdata import times
from derivdata.archive import data_files
from derivdata.archive import manifest as manifests
from derivdata.archive.append import Appended, add_rows
from derivdata.archive.dask_reads import lazy
from derivdata.archive.manifest import Manifest, TableEntry
from derivdata.archive.schemas import archive_table
from derivdata.arguments import typed
from derivdata.errors import ArchiveError
from derivdata.notices import warn_caller
from derivdata.schema import Table
from derivdata.tables import provenance

__all__ = ["Archive", "open_archive"]

_LOCK_SECONDS = 60.0
_TRIES = 5
_INFO = ("rows", "first", "last", "symbols", "exchanges", "files", "megabytes")
T = TypeVar("T")


@typed
def open_archive(
    path: str | os.PathLike[str], *, create: bool = True, lock_timeout: float = _LOCK_SECONDS
) -> Archive:
    """The archive in a folder.

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
    Each table is held once per key: rows whose key is there already are let go, and values that differ
    from those first seen are let go with a `DataNotice`, so that a backtest stays as it was.
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
    def identity(self) -> str:
        """Hash of all that was appended, in order: it changes with every append that wrote a row."""
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

    def append(self, table: str, frame: pd.DataFrame) -> int:
        """Add the rows of a table that are not there yet.

        Parameters
        ----------
        table
            Name of the table, such as ``"funding_history"``.
        frame
            Its rows, with the library's column names; see ``dd.tables.TABLES[table]``.

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
            Another writer held the archive for too long, or the disk refused. Nothing is appended then.

        Warns
        -----
        DataNotice
            Some rows were there already with other values; those first seen stay.
        """
        counts = self.merge(table, frame)
        if counts.differing:
            warn_caller(
                f"{table}: {counts.differing} rows were there already with other values; "
                "those first seen stay"
            )
        return counts.written

    def merge(self, table: str, frame: pd.DataFrame) -> Appended:
        """As `append`, with the counts of rows written, already there, and there with other values."""
        keyed = archive_table(table)
        rows = keyed.conform(frame)
        said = provenance(frame) if "provenance" in frame.attrs else {}
        synthetic = bool(said.get("synthetic", False))
        return add_rows(self._path, keyed, rows, synthetic=synthetic, timeout=self._lock_timeout)

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
        return data_files.frame_of(keyed, found)

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
        last = times.instant(at, "at")
        start, end = last - within, last + pd.Timedelta(1, "us")
        rows = self.read(table, start, end, symbols=symbols, exchanges=exchanges)
        key = [name for name in archive_table(table).key if name not in ("time", "instrument_name")]
        newest = rows.groupby(key, observed=True)["time"].transform("max")
        return archive_table(table).conform(rows[rows["time"] == newest])

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
        window = data_files.TimeRange(
            data_files.EVER.start if start is None else _micros(start),
            data_files.EVER.end if end is None else _micros(end),
        )
        return lazy(
            self._path, keyed, self._entry(keyed), window, data_files.wanted(keyed, symbols, exchanges)
        )

    def info(self) -> pd.DataFrame:
        """What is there: per table its rows, first and last instant, symbols, venues, files and size [MB]."""
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
        """The manifest now, read again only when it was swung."""
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


def _micros(value: pd.Timestamp) -> int:
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
