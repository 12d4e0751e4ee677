"""Read rows of an archive: windows of its tables, the newest rows, lazy frames and panels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd

from derivdata.client.transport import SESSION
from derivdata.sources.archive import parquet_reader
from derivdata.sources.archive.contents import ArchiveContents
from derivdata.sources.archive.correction_log import correction_notices
from derivdata.sources.archive.dask_reads import lazy_frame, lazy_panel
from derivdata.sources.archive.schemas import archive_table, columns_of, frame_of
from derivdata.sources.archive.selections import Selection, TimeRange, micros, read_filter, time_range
from derivdata.sources.archive.step_sums import SUMMED, scan_sums
from derivdata.support import times
from derivdata.tables.schema import Table

__all__ = ["ArchiveReader"]


class ArchiveReader(ArchiveContents):
    """The reading half of an `Archive`: it takes no lock, and sees the state after the last append."""

    def read(
        self,
        table: str,
        start: pd.Timestamp,
        end: pd.Timestamp,
        *,
        symbols: Sequence[str] | None = None,
        venues: Sequence[str] | None = None,
        columns: Sequence[str] | None = None,
    ) -> pd.DataFrame:
        """Return the rows of a table with ``start <= time < end``; an empty table where there are none.

        Parameters
        ----------
        table
            Name of the table.
        start, end
            Half-open window; an instant without a zone is UTC.
        symbols, venues
            Values to keep; None keeps all.
        columns
            Columns to return, with the rows in any order: several times faster for sums over many series.
            None returns the whole table, sorted.

        Raises
        ------
        ValueError
            There is no such table, or it has no such column.
        ArchiveError
            A file is damaged, missing, or that of another table.
        """
        keyed = archive_table(table)
        where = read_filter(keyed, symbols, venues)
        if columns is not None and not set(columns) <= set(keyed.columns):
            raise ValueError(f"columns={list(columns)}: table {table} has {', '.join(keyed.columns)}")
        window = TimeRange(micros(start), micros(end))
        parts = self._with_files(
            keyed, lambda files: parquet_reader.scan(self._storage, keyed, files, window, where, columns)
        )
        frame = frame_of(keyed, parts) if columns is None else columns_of(keyed, parts, columns)
        frame.attrs["provenance"] = self._provenance(keyed, Selection(where, window))
        return frame

    def step_sums(
        self,
        table: str,
        start: pd.Timestamp,
        end: pd.Timestamp,
        *,
        venues: Sequence[str] | None = None,
    ) -> pd.DataFrame:
        """Return sums over the symbols of each venue, by resolution and instant with ``start <= time < end``.

        They are read from what lies beside large files; rows of small ones, and of those that earlier
        versions wrote, are added up.

        Parameters
        ----------
        table
            ``"oi_history"`` or ``"volume_history"``.
        start, end
            Half-open window; an instant without a zone is UTC.
        venues
            Venues to keep; None keeps all.

        Returns
        -------
        DataFrame
            Columns exchange, resolution, time; ``value`` [USD], the sum, NaN where a row has none;
            ``symbols``, how many rows; ``symbol_hash``, equal where the symbols are the same.

        Raises
        ------
        ValueError
            The table is another one.
        ArchiveError
            A file is damaged, missing, or that of another table.
        """
        keyed = archive_table(table)
        if table not in SUMMED:
            raise ValueError(f"table={table!r}: sums are kept of {' and '.join(SUMMED)}")
        where = read_filter(keyed, None, venues)
        window = TimeRange(micros(start), micros(end))
        sums = self._with_files(
            keyed, lambda files: scan_sums(self._storage, keyed, files, window, where.get("exchange"))
        )
        sums.attrs["provenance"] = self._provenance(keyed, Selection(where, window))
        return sums

    def latest(
        self,
        table: str,
        at: pd.Timestamp,
        *,
        within: pd.Timedelta,
        symbols: Sequence[str] | None = None,
        venues: Sequence[str] | None = None,
    ) -> pd.DataFrame:
        """Return the newest row at or before `at`, no older than `within`, of each series.

        For ``options_snapshot`` these are the newest whole chains of each symbol and venue: the rows of its
        last instant.
        """
        keyed = archive_table(table)
        where = read_filter(keyed, symbols, venues)
        last = times.instant(at, "at")
        window = TimeRange(micros(last - within), micros(last) + 1)
        newest = self._with_files(
            keyed, lambda files: parquet_reader.scan_latest(self._storage, keyed, files, window, where)
        )
        frame = keyed.conform(newest)
        frame.attrs["provenance"] = self._provenance(keyed, Selection(where, window))
        return frame

    def lazy(
        self,
        table: str,
        *,
        start: pd.Timestamp | None = None,
        end: pd.Timestamp | None = None,
        symbols: Sequence[str] | None = None,
        venues: Sequence[str] | None = None,
    ) -> Any:
        """Return the rows as a dask frame, for tables larger than memory; None leaves the window open.

        Rows are in no order over the partitions. Needs the extra ``derivdata[dask]``.
        """
        keyed = archive_table(table)
        where = read_filter(keyed, symbols, venues)
        return lazy_frame(self._storage, keyed, self._entry(keyed), time_range(start, end), where)

    def panel(
        self,
        table: str,
        column: str,
        *,
        start: times.Instant,
        end: times.Instant,
        step: str | pd.Timedelta,
        symbols: Sequence[str] | None = None,
        venues: Sequence[str] | None = None,
        kind: str | None = None,
        chunks: int | None = None,
    ) -> Any:
        """Return one column of a table as a lazy panel, for tables larger than memory.

        Parameters
        ----------
        table, column
            A table keyed by symbol, venue and time, and one of its numeric columns.
        start, end
            Half-open window; its start is the grid's first instant.
        step
            Spacing of the grid, ``"1m"`` or ``"1h"``. Every row must lie on it: one that does not is a
            ValueError when its chunk is computed.
        symbols, venues
            Values to keep; None keeps all.
        kind
            Of ``prices_history``, whose rows are keyed by it too: ``"mark"``, ``"index"`` or ``"last"``.
        chunks
            Instants per chunk; None makes chunks of about 32 MB.

        Returns
        -------
        DataArray, dims ``(symbol, exchange, time)``
            As `derivdata.panel` of the rows, reindexed to the grid: NaN where there is no row. Each chunk
            reads only the files of its window, and of these only the four columns that it needs.

        Raises
        ------
        ImportError
            dask is not installed (``derivdata[dask]``).
        ValueError
            There is no such table or column, the table has other keys, the step is none, or `kind` is missing
            for prices or given for another table.
        """
        keyed = archive_table(table)
        where = read_filter(keyed, symbols, venues)
        kinds = keyed.columns["kind"].allowed if "kind" in keyed.key else (None,)
        if kind not in kinds:
            raise ValueError(f"kind={kind!r}: a panel of {table} takes {' or '.join(map(repr, kinds))}")
        if kind is not None:
            where["kind"] = frozenset([kind])
        entry, window = self._entry(keyed), time_range(start, end)
        return lazy_panel(self._storage, keyed, column, entry, window, where, step=step, chunk=chunks)

    def _provenance(self, table: Table, read: Selection) -> dict[str, Any]:
        """Return the provenance of rows: the archive, its version, corrections of these rows."""
        SESSION.synthetic_read |= self.synthetic
        return {
            "source": self.label,
            "synthetic": self.synthetic,
            "as_of": times.iso(self.now) if self.tables() else None,
            "requests": [],
            "notices": correction_notices(self._manifest(), table.name, read),
            "archive": {"id": self.id, "version": self.version},
        }
