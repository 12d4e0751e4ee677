"""Read an archive: its contents and logs, windows of rows, the newest rows, lazy frames and panels, SQL."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from html import escape
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pandas as pd
import pyarrow as pa

from derivdata.errors import ArchiveError
from derivdata.sources import Query
from derivdata.sources.archive import manifest as manifests
from derivdata.sources.archive import queries, schemas
from derivdata.sources.archive.ledger import LedgerFile, ledger_files, requests_frame, unanswered_windows
from derivdata.sources.archive.manifest import DataFile, Manifest, TableEntry, row_count
from derivdata.sources.archive.queries import (
    EVER_ALL,
    Engine,
    Selection,
    TimeRange,
    micros,
    read_filter,
    stamp,
    time_range,
)
from derivdata.sources.archive.schemas import archive_table, frame_of, sorting
from derivdata.sources.archive.storage import MANIFEST, Storage
from derivdata.sources.archive.writing import correction_notices, corrections_frame
from derivdata.support import calls, times
from derivdata.support.calls import ARCHIVE_READ
from derivdata.support.text import import_extra
from derivdata.tables.chains import HOLD, aligned
from derivdata.tables.panels import panel as tables_panel
from derivdata.tables.schema import Kind, Table

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
        """The archive's folder; raises ArchiveError for an archive on S3."""
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
        """First full minute after all rows: a window that ends there contains every row."""
        return stamp(max(file.last for file in self._files())).floor("min") + pd.Timedelta(1, "min")

    def tables(self) -> frozenset[str]:
        """Return the names of the archived tables."""
        return frozenset(self._manifest().tables)

    def symbols(self, table: str) -> tuple[str, ...]:
        """Return the symbols of a table, sorted; empty if the table has no rows."""
        return tuple(self._entry(archive_table(table)).values.get("symbol", ()))

    def exchanges(self, table: str) -> tuple[str, ...]:
        """Return the venues of a table, sorted; empty if the table has no rows."""
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
        start: times.TimeLike,
        end: times.TimeLike,
        *,
        now: times.TimeLike | None = None,
    ) -> list[times.Window]:
        """Return the parts of ``[start, end)`` without a successful request to a venue in the ledger.

        A request about all symbols counts for each of them; with `symbol` None only such requests count. A
        confirmed gap counts as successful; with `now`, only for 30 days after it was confirmed.
        """
        at = None
        if now is not None:
            at = times.timestamp(now, "now")
        window = times.Window(times.timestamp(start, "start"), times.timestamp(end, "end"))
        table = archive_table(table).name
        return self._with_manifest(
            lambda state: unanswered_windows(self._storage, state.ledger, table, venue, symbol, window, at)
        )

    def info(self) -> pd.DataFrame:
        """Summarise each table: rows, first and last timestamp, symbols, venues, files and size [MB]."""
        rows = {name: _summary(entry) for name, entry in sorted(self._manifest().tables.items())}
        return pd.DataFrame.from_dict(rows, orient="index", columns=list(_INFO)).rename_axis("table")

    def __repr__(self) -> str:
        return f"<derivdata archive {self._storage}{self._mark}>\n{self.info().to_string()}"

    def _repr_html_(self) -> str:
        name = escape(str(self._storage))
        return f"<p>derivdata archive <b>{name}</b>{self._mark}</p>{self.info().to_html()}"

    @property
    def _mark(self) -> str:
        return " (synthetic)" if self.synthetic else ""

    def _manifest(self, *, fresh: bool = False) -> Manifest:
        """Return the current manifest; an empty one if the archive does not exist yet."""
        mark = self._storage.manifest_mark(fresh=fresh)
        cached_mark, manifest = self._cached
        if mark is None or mark != cached_mark:
            manifest = manifests.load(self._storage) or Manifest()
            self._cached = (mark, manifest)
        return manifest

    def _entry(self, table: Table, *, fresh: bool = False) -> TableEntry:
        """Return the manifest's entry of a table; an empty one if the table has no rows."""
        return self._manifest(fresh=fresh).tables.get(table.name, TableEntry())

    def _files(self) -> list[DataFile]:
        """Return the files of all tables; raise `ArchiveError` for an empty archive."""
        files: list[DataFile] = []
        for entry in self._manifest().tables.values():
            files += entry.files
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
                    break  # no writer replaced the file, so it is missing or damaged
        else:
            raise ArchiveError(
                f"{self._storage}: a writer replaced files during each of {_TRIES} attempts to read: "
                "read again"
            )
        if isinstance(fault, ArchiveError):
            raise fault
        raise ArchiveError(
            f"{self._storage}: the file {fault.filename} of the archive is missing; restore it from a copy"
        )


def _summary(entry: TableEntry) -> list[Any]:
    """Return the row of a table in `ArchiveContents.info`, in the order of `_INFO`."""
    return [
        row_count(entry.files),
        stamp(min(file.first for file in entry.files)),
        stamp(max(file.last for file in entry.files)),
        len(entry.values.get("symbol", ())),
        len(entry.values.get("exchange", ())),
        len(entry.files),
        round(sum(file.size for file in entry.files) / 1e6, 3),
    ]


_CHUNK_CELLS = 4_000_000
_PART_ROWS = 1_000_000
_DIMS = ("symbol", "exchange", "time")


def lazy_frame(storage: Storage, table: Table, entry: TableEntry, chosen: Selection) -> Any:
    """Return a selection as a dask frame; text columns have the categories of the whole archive."""
    frames = import_extra("dask.dataframe", "dask", "lazy()")
    empty = _labelled(table, table.empty(), entry)
    partitions = list(_parts(table, entry, chosen))
    if not partitions:
        return frames.from_pandas(empty, npartitions=1)

    def load(partition: tuple[DataFile, Selection]) -> pd.DataFrame:
        file, rows = partition
        return _labelled(table, frame_of(table, _read(storage, table, [file], rows)), entry)

    return frames.from_map(load, partitions, meta=empty)


def _parts(table: Table, entry: TableEntry, chosen: Selection) -> Iterator[tuple[DataFile, Selection]]:
    """Divide a selection by file, and large files by symbols, into parts of about a million rows."""
    lead = sorting(table)[0]
    words = sorted(chosen.where.get(lead) or entry.values.get(lead, []))
    for file in queries.plan(entry.files, chosen):
        count = min(-(-file.rows // _PART_ROWS), len(words))
        if count < 2:
            yield file, chosen
            continue
        for block in np.array_split(np.array(words, dtype=object), count):
            yield file, chosen.narrowed(lead, block.tolist())


def lazy_panel(
    storage: Storage,
    table: Table,
    column: str,
    entry: TableEntry,
    chosen: Selection,
    *,
    step: str | pd.Timedelta,
    chunk: int | None,
) -> Any:
    """Return one column as a lazy panel on a grid, `chunk` rows at a time; see `ArchiveReader.panel`."""
    arrays = import_extra("dask.array", "dask", "panel()")
    delayed = import_extra("dask", "dask", "panel()").delayed
    import xarray as xr

    if set(table.key) - {"kind"} != set(_DIMS):  # `where` chooses one kind
        raise ValueError(
            f"table={table.name!r} cannot be a panel, because its key is not symbol, exchange and time"
        )
    if column not in table.columns or table.columns[column].kind is not Kind.NUMBER:
        raise ValueError(f"column must be a numeric column of {table.name}, got {column!r}")
    micros = int(times.length(step, "step") / pd.Timedelta(1, "us"))
    if micros <= 0:
        raise ValueError(f"step must be a positive length of time, got {step!r}")
    # 1. Collect the attributes and the columns of the panel.
    attrs = _attributes(table, column, entry)
    columns = [column]
    if attrs.get("kind") == "settled" and "interval_hours" in table.columns:
        # The hours of each settlement are read with it, from the same rows, as in `derivdata.panel`.
        columns.append("interval_hours")
    # 2. Collect the labels of the dimensions.
    where, window = chosen
    labels = [sorted(where.get(name, entry.values.get(name, []))) for name in _DIMS[:2]]
    stamps = np.arange(window.start, window.end, micros)
    # 3. Make one block for each chunk of times; its first dimension is the columns.
    size = chunk or max(1, _CHUNK_CELLS // max(1, len(labels[0]) * len(labels[1])))
    blocks = []
    for at in range(0, stamps.size, size):
        block = stamps[at : at + size]
        time_range = TimeRange(int(block[0]), int(block[-1]) + micros)
        rows = Selection(where, time_range)
        files = queries.plan(entry.files, rows)
        shape = (len(columns), len(labels[0]), len(labels[1]), block.size)
        values = delayed(_panel_block, pure=True)(storage, table, columns, files, rows, labels, micros)
        blocks.append(arrays.from_delayed(values, shape, dtype=np.float64))
    if blocks:
        values = arrays.concatenate(blocks, axis=3)
    else:
        values = arrays.from_array(np.full((len(columns), len(labels[0]), len(labels[1]), 0), np.nan))
    # 4. Return the first column as the panel, with the other one as its coordinate.
    coords = {**dict(zip(_DIMS, labels, strict=False)), "time": stamps.view("datetime64[us]")}
    for place, name in enumerate(columns[1:], 1):
        coords[name] = (_DIMS, values[place], {"units": table.columns[name].unit})
    return xr.DataArray(values[0], dims=_DIMS, coords=coords, name=column, attrs=attrs)


def _attributes(table: Table, column: str, entry: TableEntry) -> dict[Any, Any]:
    """Return the attributes of a panel, with the resolution and kind if all rows of the table share it."""
    attrs = dict(tables_panel(table.empty(), column).attrs)
    shared_columns = ["resolution"]
    if column.startswith("rate_"):
        shared_columns.append("kind")
    for name in shared_columns:
        if len(entry.values.get(name, [])) == 1:
            attrs[name] = entry.values[name][0]
    return attrs


def _panel_block(
    storage: Storage,
    table: Table,
    columns: list[str],
    files: list[DataFile],
    chosen: Selection,
    labels: list[list[str]],
    step: int,
) -> np.ndarray[Any, Any]:
    """Return a block of a panel: values by column, symbol, venue and step; NaN without a row.

    `labels` are the symbols and venues of the panel, `step` [µs] is that of its grid.
    """
    window = chosen.window
    steps = -(-(window.end - window.start) // step)
    result = np.full((len(columns), *map(len, labels), steps), np.nan)
    indexes = [pd.Index(words) for words in labels]
    for frame in _read(storage, table, files, chosen, [*_DIMS, *columns]):
        rows = frame.combine_chunks()
        stamps = np.asarray(rows["time"].cast("int64"))
        time_index, remainder = np.divmod(stamps - window.start, step)
        if remainder.any():
            first = pd.Timestamp(int(stamps[remainder > 0][0]), unit="us")
            raise ValueError(
                f"a row of {table.name} at {first} is off the grid: align the rows, or pass another step"
            )
        codes = []
        for index, name in zip(indexes, _DIMS[:2], strict=True):
            words = rows[name].chunk(0)
            places = index.get_indexer(words.dictionary.to_pylist())
            _refuse_unlisted(table, name, words.dictionary.filter(pa.array(places < 0)))
            codes.append(places[np.asarray(words.indices)])
        for values, name in zip(result, columns, strict=True):
            values[(*codes, time_index)] = rows[name].to_numpy(zero_copy_only=False)
    return result


def _read(
    storage: Storage,
    table: Table,
    files: list[DataFile],
    chosen: Selection,
    columns: list[str] | None = None,
) -> list[pa.Table]:
    """Read planned files; the error for a missing file states whether it was merged."""
    try:
        return queries.read(storage, table, files, chosen, columns)
    except FileNotFoundError as problem:
        named = (manifests.load(storage) or manifests.empty_manifest()).files()
        if problem.filename in [storage.place(file.path) for file in named]:
            raise ArchiveError(
                f"the file {problem.filename} of the archive is missing; restore it from a copy"
            ) from None
        raise ArchiveError(
            f"{problem.filename}: a writer replaced this file after lazy() or panel() was called, and its "
            "rows are now in another file: call lazy() or panel() again"
        ) from None


def _labelled(table: Table, frame: pd.DataFrame, entry: TableEntry) -> pd.DataFrame:
    """Give text columns the categories of the whole archive, so that all partitions have the same ones."""
    labelled = {}
    for name in frame.select_dtypes("category").columns:
        listed = {*entry.values.get(name, []), table.columns[name].default or ""} - {""}
        words = pd.Index(sorted(listed), dtype="str")
        _refuse_unlisted(table, name, frame[name].cat.categories.difference(words))
        labelled[name] = frame[name].cat.set_categories(words)
    return frame.assign(**labelled)


def _refuse_unlisted(table: Table, name: str, words: Sequence[Any]) -> None:
    """Raise for rows with words that the manifest does not list: no category or label is theirs."""
    if len(words):
        why = f"a file contains {name} {str(words[0])!r}, which {MANIFEST} does not list"
        raise ArchiveError(f"{table.name}: {why}: restore the archive from a copy")


SQL_MEMORY = "2GB"


class ArchiveReader(ArchiveContents):
    """The methods of an `Archive` that read: without a lock, in the state after the last append."""

    def read(
        self,
        table: str,
        start: times.TimeLike | None = None,
        end: times.TimeLike | None = None,
        *,
        symbols: Sequence[str] | None = None,
        venues: Sequence[str] | None = None,
        columns: Sequence[str] | None = None,
    ) -> pd.DataFrame:
        """Return the rows of a table with ``start <= time < end``; an empty table if there are none.

        Parameters
        ----------
        table
            Name of the table.
        start, end
            Half-open window; a time without a zone is UTC. None leaves that side open.
        symbols, venues
            Values to keep; None keeps all.
        columns
            Columns to return, with the rows in any order: several times faster for sums over many series.
            None returns the whole table, sorted.

        Raises
        ------
        ValueError
            The table or the column does not exist.
        ArchiveError
            A file is damaged, missing, or belongs to another table.
        """
        arguments: dict[str, Any] = {"table": table, "start": None, "end": None}
        first = times.FIRST
        last = times.LAST
        if start is not None:
            first = times.timestamp(start, "start")
            arguments["start"] = times.iso(first)
        if end is not None:
            last = times.timestamp(end, "end")
            arguments["end"] = times.iso(last)
        query = Query(table, first, last, symbols, venues, columns)
        for name in ("symbols", "venues", "columns"):
            values = getattr(query, name)
            arguments[name] = None if values is None else list(values)
        frame = self.rows(query)
        frame.attrs[calls.ATTRIBUTE] = calls.record_text(ARCHIVE_READ, arguments)
        return frame

    def rows(self, query: Query) -> pd.DataFrame:
        """Return the rows of a query; see `read`."""
        table, chosen = self._chosen(query)
        if query.columns is not None and not set(query.columns) <= set(table.columns):
            listed = ", ".join(table.columns)
            raise ValueError(f"columns must be among {listed} for {table.name}, got {list(query.columns)}")
        names = query.columns
        frames = self._planned(queries.read, table, chosen, names)
        frame = schemas.frame_of(table, frames, names)
        frame.attrs["provenance"] = self._provenance(table, chosen)
        return frame

    def latest(
        self,
        table: str,
        at: times.TimeLike,
        *,
        within: pd.Timedelta,
        symbols: Sequence[str] | None = None,
        venues: Sequence[str] | None = None,
    ) -> pd.DataFrame:
        """Return the newest row at or before `at`, no older than `within`, of each series.

        For ``options_snapshot`` these are the newest chains of each symbol and venue, as
        `derivdata.tables.snapshots` makes them.
        """
        last = times.timestamp(at, "at")
        return self.newest(Query(table, last - within, last + pd.Timedelta(1, "us"), symbols, venues))

    def newest(self, query: Query) -> pd.DataFrame:
        """Return the newest row of each series among the rows of a query, or its newest chain of options."""
        table, chosen = self._chosen(query)
        is_chain = table.name == "options_snapshot"
        hold_us = 0
        if is_chain:
            hold_us = times.us(HOLD)
        frames = self._planned(queries.read, table, chosen, newest=True, hold_us=hold_us)
        rows = schemas.frame_of(table, frames)
        notice = ""
        if is_chain:
            rows, notice = aligned(rows)
        # Files of several versions of the table are queried separately, and each query has its newest rows.
        last = rows.groupby(schemas.latest_by(table), observed=True)["time"].transform("max")
        frame = rows[rows["time"] == last].reset_index(drop=True)
        provenance = self._provenance(table, chosen)
        if notice:
            provenance["notices"] = [*provenance["notices"], notice]
        frame.attrs["provenance"] = provenance
        return frame

    def sums(self, query: Query, value: str) -> pd.DataFrame:
        """Return the sums of a column over the symbols of each venue, by resolution and time.

        The sums are exact to 2⁻²⁰ of its unit: their bits are the same for any number of threads. Rows have
        ``value`` (NaN if no symbol has a value), ``symbols`` (number of symbols with a value) and
        ``symbol_hash``, which is equal for the same set of symbols.
        """
        table, chosen = self._chosen(query)
        if not {"symbol", "exchange", "resolution", "time", value} <= set(table.columns):
            raise ValueError(
                "value must be a column of a table with symbol, exchange, resolution and time, got "
                f"{value!r} of {table.name}"
            )
        frame = self._planned(queries.sums, table, chosen, value).to_pandas()
        frame.attrs["provenance"] = self._provenance(table, chosen)
        return frame

    def extents(self, table: str, until: times.TimeLike) -> pd.DataFrame:
        """Return first and last time, rows and the newest symbol of each venue before a time."""
        columns = schemas.archive_table(table).columns
        venue = '"exchange"' if "exchange" in columns else "NULL"
        symbol = '"symbol"' if "symbol" in columns else "NULL"
        return self.sql(
            f'SELECT {venue} AS exchange, min("time") AS first, max("time") AS last, count(*) AS row_count, '
            f'arg_max({symbol}, "time") AS symbol FROM {table} '
            f"WHERE \"time\" < TIMESTAMPTZ '{times.iso(times.timestamp(until, 'until'))}' "
            "GROUP BY ALL ORDER BY ALL"
        )

    def _chosen(self, query: Query) -> tuple[Table, Selection]:
        """Return the table of a query, and the selection of its rows."""
        table = schemas.archive_table(query.table)
        window = TimeRange(micros(query.start), micros(query.end))
        return table, Selection(read_filter(table, query.symbols, query.venues), window)

    def _planned(self, read: Callable[..., T], table: Table, chosen: Selection, *what: Any, **how: Any) -> T:
        """Read the files of one state of a table that may have selected rows."""

        def run(state: Manifest) -> T:
            files = queries.plan(state.tables.get(table.name, TableEntry()).files, chosen)
            return read(self._storage, table, files, chosen, *what, **how)

        return self._with_manifest(run)

    def sql(self, query: str) -> pd.DataFrame:
        """Run one SELECT of DuckDB over the tables of the archive.

        Each table is a view of exactly the rows of `read`, under its name and with its columns; times are
        UTC, and missing values are NULL. The statement can only read these views: no file, variable,
        extension or address. It runs in one thread, so that a sum of the same rows is bit-identical, with at
        most 2 GB of memory.

        Parameters
        ----------
        query
            One statement that begins with SELECT, FROM, WITH, VALUES, DESCRIBE, SUMMARIZE or SHOW.

        Returns
        -------
        DataFrame
            Columns as the statement names them: text is str, whole numbers are Int64, missing where NULL.
            Rows are in the order that ``ORDER BY`` gives them.

        Raises
        ------
        ValueError
            The statement is not a SELECT, or DuckDB rejects it, with DuckDB's message.
        ArchiveError
            A file is damaged or missing.

        Examples
        --------
        >>> archive.sql("SELECT exchange, avg(rate_bps_8h) FROM funding_history GROUP BY ALL ORDER BY ALL")

        References
        ----------
        DuckDB, "SQL Introduction", https://duckdb.org/docs/stable/sql/introduction.
        """
        available = sorted(self.tables() & set(schemas.archive_tables()))
        named = [name for name in available if name in query.lower()]

        def run(state: Manifest) -> pa.Table:
            views = {}
            for name in named or available:
                files = state.tables.get(name, TableEntry()).files
                if files:
                    views[name] = queries.view(self._storage, schemas.archive_table(name), files), files
            # A separate database for each query, so that queries share no state.
            with closing(Engine(threads=1, memory=SQL_MEMORY)) as engine:
                return engine.statement(query, views, self._storage)

        frame = schemas.plain_frame(self._with_manifest(run))
        notices: list[str] = []
        provenance: dict[str, Any] = {}
        for name in named:
            provenance = self._provenance(schemas.archive_table(name), EVER_ALL)
            notices += provenance["notices"]
        if named:
            provenance["notices"] = notices
        frame.attrs["provenance"] = provenance
        return frame

    def lazy(
        self,
        table: str,
        *,
        start: times.TimeLike | None = None,
        end: times.TimeLike | None = None,
        symbols: Sequence[str] | None = None,
        venues: Sequence[str] | None = None,
    ) -> Any:
        """Return the rows as a dask frame, for tables larger than memory; None leaves the window open.

        Rows are in no order over the partitions. Needs the extra ``derivdata[dask]``.
        """
        keyed = schemas.archive_table(table)
        chosen = Selection(read_filter(keyed, symbols, venues), time_range(start, end))
        return lazy_frame(self._storage, keyed, self._entry(keyed), chosen)

    def panel(
        self,
        table: str,
        column: str,
        *,
        start: times.TimeLike,
        end: times.TimeLike,
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
            Half-open window; its start is the grid's first time.
        step
            Spacing of the grid, ``"1m"`` or ``"1h"``. Every row must be on the grid; otherwise computing its
            chunk raises ValueError.
        symbols, venues
            Values to keep; None keeps all.
        kind
            For tables with this key: ``"mark"``, ``"index"`` or ``"last"`` of ``prices_history``,
            ``"accounts"`` and others of ``positioning_history``.
        chunks
            Instants per chunk; None makes chunks of about 32 MB.

        Returns
        -------
        DataArray, dims ``(symbol, exchange, time)``
            Like `derivdata.panel` of the rows, reindexed to the grid: NaN for missing rows. Rates of
            settlements have the lazy coordinate ``interval_hours`` [h]. Each chunk reads only the files of
            its window, and only the necessary columns.

        Raises
        ------
        ImportError
            dask is not installed (``derivdata[dask]``).
        ValueError
            The table or column does not exist, the table has other keys, the step is not a length of time, or
            `kind` is missing or not applicable.
        """
        keyed = schemas.archive_table(table)
        where = read_filter(keyed, symbols, venues)
        kinds: Sequence[str | None] = (None,)
        if "kind" in keyed.key:
            kinds = keyed.columns["kind"].allowed
        if kind not in kinds:
            listed = " or ".join(map(repr, kinds))
            raise ValueError(f"kind must be {listed} for a panel of {table}, got {kind!r}")
        if kind is not None:
            where["kind"] = frozenset([kind])
        chosen = Selection(where, time_range(start, end))
        return lazy_panel(self._storage, keyed, column, self._entry(keyed), chosen, step=step, chunk=chunks)

    def _provenance(self, table: Table, read: Selection) -> dict[str, Any]:
        """Return the provenance of rows: the archive, its version, and corrections of these rows."""
        as_of = None
        if self.tables():
            as_of = times.iso(self.now)
        return {
            "source": self.label,
            "synthetic": self.synthetic,
            "as_of": as_of,
            "requests": [],
            "notices": correction_notices(self._manifest(), table.name, read),
            "archive": {"id": self.id, "version": self.version},
        }
