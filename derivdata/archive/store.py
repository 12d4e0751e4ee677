"""An archive as a source of tables: what it holds, a window of it, its newest rows."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from html import escape
from pathlib import Path
from typing import Any, TypeVar

import pandas as pd

from derivdata import times
from derivdata.archive import manifest as manifests
from derivdata.archive import parts
from derivdata.archive.append import Appended, add_rows
from derivdata.archive.lazy import lazy
from derivdata.archive.manifest import Holding, Manifest
from derivdata.archive.stored import stored
from derivdata.archive.summary import stamp, summary
from derivdata.arguments import typed
from derivdata.errors import ArchiveError
from derivdata.notices import warn_caller
from derivdata.schema import Table
from derivdata.tables import provenance

__all__ = ["Archive", "open_archive"]

_LOCK_SECONDS = 60.0
_TRIES = 5
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
        return stamp(min(part.first for part in self._all_parts()))

    @property
    def now(self) -> pd.Timestamp:
        """First whole minute after the last instant of all tables: what ends there holds every row."""
        return stamp(max(part.last for part in self._all_parts())).floor("min") + pd.Timedelta(1, "min")

    def tables(self) -> frozenset[str]:
        """Names of the tables that it holds."""
        return frozenset(self._manifest().tables)

    def symbols(self, table: str) -> tuple[str, ...]:
        """Symbols of a table, sorted; none where it holds no such table."""
        return tuple(self._holding(stored(table)).values.get("symbol", ()))

    def exchanges(self, table: str) -> tuple[str, ...]:
        """Venues of a table, sorted; none where it holds no such table."""
        return tuple(self._holding(stored(table)).values.get("exchange", ()))

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
        keyed = stored(table)
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
        keyed = stored(table)
        where = parts.wanted(keyed, symbols, exchanges)
        span = parts.Span(_micros(start), _micros(end))
        found = self._steady(lambda held: parts.scan(self._path, keyed, held, span, where), keyed)
        return parts.frame_of(keyed, found)

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
        key = [name for name in stored(table).key if name not in ("time", "instrument_name")]
        newest = rows.groupby(key, observed=True)["time"].transform("max")
        return stored(table).conform(rows[rows["time"] == newest])

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
        keyed = stored(table)
        span = parts.Span(
            parts.EVER.start if start is None else _micros(start),
            parts.EVER.end if end is None else _micros(end),
        )
        return lazy(self._path, keyed, self._holding(keyed), span, parts.wanted(keyed, symbols, exchanges))

    def info(self) -> pd.DataFrame:
        """What is there: per table its rows, first and last instant, symbols, venues, files and size [MB]."""
        return summary(self._manifest())

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

    def _holding(self, table: Table) -> Holding:
        return self._manifest().tables.get(table.name, Holding())

    def _all_parts(self) -> list[manifests.Part]:
        found = [part for holding in self._manifest().tables.values() for part in holding.parts]
        if not found:
            raise ArchiveError(f"{self._path}: the archive is empty: append a table or import a file first")
        return found

    def _steady(self, work: Callable[[list[manifests.Part]], T], table: Table) -> T:
        """Do the work on the files of one state; again if a writer merged them away meanwhile."""
        for _ in range(_TRIES):
            held = self._holding(table).parts
            try:
                return work(held)
            except FileNotFoundError as problem:
                absent = problem.filename
                if self._holding(table).parts == held:
                    break
        raise ArchiveError(
            f"{self._path}: a file of the archive is missing: {absent}: restore it from a copy"
        )


def _micros(value: pd.Timestamp) -> int:
    return int(times.instant(value).asm8.astype("int64"))
