"""Import files: recognise them, convert their rows, show the plan, check the rows and store them."""

from __future__ import annotations

import os
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
import pyarrow as pa
from tqdm import tqdm

from derivdata.errors import ArchiveError
from derivdata.sources.archive.archive import Archive, open_archive
from derivdata.sources.archive.importing.adjustments import added_up, spaced
from derivdata.sources.archive.importing.buffered_rows import (
    BestQuotes,
    MissingRows,
    RowBuffer,
    in_open_chains,
    joined,
)
from derivdata.sources.archive.importing.cells import Rejections
from derivdata.sources.archive.importing.conversion import CONTRACT, ORIGIN, RANK, Rows, rows, with_ids
from derivdata.sources.archive.importing.instruments import usd_from_coins
from derivdata.sources.archive.importing.market_names import KNOWN_VENUES, venue_of_word
from derivdata.sources.archive.importing.plan import (
    IN_COINS,
    RATE_UNITS,
    Given,
    ImportPlan,
    Unclear,
    in_order,
    is_of_contracts,
    make_plan,
)
from derivdata.sources.archive.importing.readers import Chunk, chunks, rows_of_table
from derivdata.sources.archive.importing.recognition import Task, recognise
from derivdata.sources.archive.importing.row_checks import (
    refuse_local_times,
    refuse_some_of_payments,
    unservable,
)
from derivdata.sources.archive.importing.source_files import Channels, Source, by_channel, find_sources
from derivdata.sources.archive.schemas import archive_table, archive_tables
from derivdata.support import times
from derivdata.support.text import escape_controls
from derivdata.tables.schema import Kind

_Path: TypeAlias = str | os.PathLike[str]


@dataclass(frozen=True)
class Imported:
    """Counts of the rows of an import, by outcome.

    Attributes
    ----------
    table
        Table of the rows; several are joined by commas.
    read, written
        Rows of all files, and those that are new in the archive.
    present, differing
        Rows whose key was stored already, with the same values or with others; the stored rows stay.
    other_quotes
        Rows of a contract whose symbol has one on the venue in a quote currency of higher priority.
    superseded
        Rows of options whose chain has a newer row of the same instrument.
    rejected
        Rows that do not fit the table, or that would make its stored rows unreadable.
    first_rejected
        File, line (or record, from 1) and reason of the first rejected row.
    rejections
        The same for the first twenty.
    notices
        Other facts about the files, such as further pages or missing rows.
    understood
        Table, columns, units, zone, symbols, venues and span of the files, as ``derivdata import`` prints
        them before it writes.
    """

    table: str
    read: int
    written: int
    present: int
    differing: int
    other_quotes: int
    superseded: int
    rejected: int
    first_rejected: str | None
    rejections: tuple[str, ...] = ()
    notices: tuple[str, ...] = ()
    understood: str = ""

    def __str__(self) -> str:
        counts = [
            f"{self.table}: {self.read:,} rows read",
            f"{self.written:,} written",
            f"{self.present:,} already there",
        ]
        if self.differing:
            counts.append(f"{self.differing:,} already stored with other values (the stored values are kept)")
        if self.other_quotes:
            counts.append(f"{self.other_quotes:,} of a quote currency of lower priority")
        if self.superseded:
            counts.append(f"{self.superseded:,} older than another row of the instrument in its chain")
        counts.append(f"{self.rejected:,} rejected")
        text = ", ".join(counts)
        if self.first_rejected:
            text += f"; the first: {self.first_rejected}"
        return text


_COUNTS = ("read", "written", "present", "differing", "other_quotes", "superseded", "rejected")


def summed(results: Sequence[Imported]) -> Imported:
    """Return the counts of several tables as one."""
    if len(results) == 1:
        return results[0]
    totals = dict.fromkeys(_COUNTS, 0)
    rejections: list[str] = []
    notices: dict[str, None] = {}  # without duplicates
    for result in results:
        for name in _COUNTS:
            totals[name] += getattr(result, name)
        rejections += result.rejections
        notices.update(dict.fromkeys(result.notices))
    return Imported(
        table=", ".join(result.table for result in results),
        **totals,
        first_rejected=next(iter(rejections), None),
        rejections=tuple(rejections),
        notices=tuple(notices),
        understood="\n\n".join(result.understood for result in results),
    )


def import_files(
    table: str | None,
    files: _Path | Sequence[_Path],
    to: _Path,
    *,
    map: Mapping[str, str] | None = None,  # noqa: A002
    set: Mapping[str, str] | None = None,  # noqa: A002
    tz: str | None = None,
    unit: str | None = None,
    map_values: Mapping[str, Mapping[str, str]] | None = None,
    accept: Sequence[str] = (),
    source: str | None = None,
    market: str | None = None,
    dry_run: bool = False,
    show: Callable[[str], object] | None = None,
) -> Imported:
    """Import recorded files into an archive.

    Parameters
    ----------
    table
        Name of the table of the rows, such as ``"funding_settlements"``; None: recognise it from the files.
    files
        CSV, JSON (records in a list, one per line, or inside the response of a service), Parquet or Feather,
        plain or compressed (zip, gzip, bzip2, zstd, lz4): files, folders, and patterns such as
        ``"data/*.csv"``.
    to
        Folder of the archive; it is created if it does not exist.
    map
        Column of the table to the column of the file, ``{"time": "Date", "rate_bps_8h": "Funding Rate"}``.
        Columns with equal names need no entry.
    set
        Column of the table to one value for every row, ``{"exchange": "binance", "interval_hours": "8"}``.
    tz
        Zone of times without one: ``"Europe/London"``, ``"UTC"``, ``"UTC+3"`` (three hours ahead). By default
        they are UTC, and `ArchiveError` requests the zone if rows show another clock. Numbers are seconds,
        ms, µs or ns since 1970, by their size.
    unit
        Unit of the file's funding rates: ``"bps_8h"`` (the default); per the venue's own `interval_hours`
        ``"native"`` (a fraction), ``"percent"`` or ``"bps"``; as a fraction ``"per_hour"``, ``"per_8h"``,
        ``"per_day"``, ``"per_year"``; in percent ``"percent_hour"``, ``"percent_8h"``, ``"percent_day"``,
        ``"percent_year"``. For options the unit of ``iv``: ``"decimal"`` (the default) or ``"percent"``. For
        open interest the unit of ``oi_usd``: ``"usd"`` (the default), ``"usd_millions"``, ``"coins"``, or
        ``"contracts"`` of `contract_size` coins (from `map` or `set`); the last two are converted to USD by
        ``price_usd`` (from the file, `map` or `set`), or by the newest price in the archive of the hour
        before each row.
    map_values
        Column of the table to a mapping from the file's values to those of the table, ``{"side": {"sell":
        "long", "buy": "short"}}``.
    accept
        Checks to skip, which raise an error if values suggest a mistake: ``"unit"``, ``"interval"``,
        ``"schedule"``, ``"venues"``, ``"future"``; see `Archive.append`.
    source
        Program or venue that wrote the files, if their columns do not identify it: ``"binance"``, ``"ccxt"``,
        ``"tardis"`` ... (``derivdata import --list`` shows all). `map`, `set`, `tz`, `unit` and `map_values`
        add to or override the files.
    market
        Venue and symbol of all rows, ``"binance:BTC"``, for files that state neither. It has the effect of
        both in `set`.
    dry_run
        Whether to stop before anything is written.
    show
        Called with the interpretation of the files before anything is written.

    Returns
    -------
    Imported
        Counts that add up to the rows read; ``print`` it.

    Raises
    ------
    ValueError
        The table, column, zone, unit or source does not exist.
    ArchiveError
        A file cannot be read, is not recognised or may be read in two ways, lacks a column, has values that
        cannot be in the unit that was meant, or has no row that fits; or the archive cannot be written. Rows
        of earlier files may be in the archive then: the same import again adds the rest.

    Notes
    -----
    Contract names become base symbols (``BTC-USDT`` is ``BTC``). If a symbol has several quote currencies on
    a venue, only the first of USDT, USD, USDC, BUSD, UST is used for tables with one value per symbol, venue
    and time. Name all files of a venue in one call. Liquidations of all are used. Liquidations without an
    order id get one from a hash of the row; equal rows of one file stay separate. A row that would make a
    window unreadable, such as a second payment for one hour, is rejected. An ambiguous local hour is the
    first of the two, or the second if a row repeats it.
    """
    constants = dict(set or {})
    if market is not None:
        constants |= _names_of_market(market, constants)
    given = Given(map or {}, constants, tz, unit, map_values or {}, accept)
    listed = [files] if isinstance(files, str | os.PathLike) else files
    if not listed:
        raise ValueError("files must name at least one file")
    tasks = _tasks(table, listed, source, given)
    archive = open_archive(to)
    by_table: dict[str, list[Task]] = {}
    for task in tasks:
        by_table.setdefault(task.plan.table.name, []).append(task)
    results: list[Imported] = []
    for tasks_of_table in by_table.values():
        run = ImportRun(tasks_of_table, archive, dry_run=dry_run, show=show)
        _take_rows(run, tasks_of_table)
        results.append(run.finished())
    whole = summed(results)
    if whole.read and whole.rejected == whole.read:
        raise ArchiveError(
            f"all {whole.read:,} rows were rejected for {whole.table}; the first: {whole.first_rejected}"
        )
    return whole


def _names_of_market(market: str, stated: Mapping[str, str]) -> dict[str, str]:
    """Return the venue and the symbol of ``binance:BTC``."""
    venue, colon, symbol = market.partition(":")
    if not (venue.strip() and colon and symbol.strip()):
        raise ValueError(f"market={market!r} must be VENUE:SYMBOL, such as binance:BTC")
    twice = [name for name in ("exchange", "symbol") if name in stated]
    if twice:
        raise ValueError(f"{twice[0]} is in both set and market={market!r}: remove one")
    if venue_of_word(symbol) in KNOWN_VENUES and venue_of_word(venue) not in KNOWN_VENUES:
        raise ValueError(
            f"market={market!r}: {venue} is not the name of a known venue, and {symbol} is: write "
            f"{symbol}:{venue}, or pass exchange={venue} and symbol={symbol} with set"
        )
    return {"exchange": venue.strip(), "symbol": symbol.strip()}


def _tasks(table: str | None, files: Sequence[_Path], source: str | None, given: Given) -> list[Task]:
    """Return each file with its tables; raise for invalid arguments before any file is opened."""
    if table is not None and source is None:
        make_plan(table, given)
    tasks: list[Task] = []
    for opened in find_sources(files):
        channels = by_channel(opened)
        if len(channels.sources) == 1:
            tasks += recognise(opened, table, source, given)
        else:
            tasks += _tasks_of_channels(channels, table, source, given)
    return tasks


def _tasks_of_channels(channels: Channels, table: str | None, source: str | None, given: Given) -> list[Task]:
    """Return the tables of each channel of a file; channels that no table stores are named by a notice.

    A collector subscribes to channels of trades and changes of books next to those of a table.
    """
    tasks: list[Task] = []
    unread: list[str] = []
    for opened in channels.sources:
        try:
            own = recognise(opened, table, source, given)
            if table is not None:
                for task in own:
                    next(converted_rows(task), None)  # raises for a channel without the columns
            tasks += own
        except ArchiveError as problem:
            is_unknown = not isinstance(problem, Unclear) or {*problem.choices} == {*archive_tables()}
            # A table of the caller is that of some channels only.
            if table is None and not is_unknown:
                raise
            reason = str(problem).removeprefix(f"{opened}: ")
            unread.append(f"messages of the channel {opened.channel} are not stored: {reason}")
    if channels.notice:
        unread.append(channels.notice)
    if not tasks:
        raise ArchiveError(f"{channels.sources[0].path}: no message can be read: {'; '.join(unread)}")
    tasks[0] = tasks[0]._replace(notices=(*tasks[0].notices, *unread))
    return tasks


def _take_rows(run: ImportRun, tasks: list[Task]) -> None:
    """Convert the rows of files; the last chunk of them is freed before rows are written."""
    progress = tqdm(tasks, desc=tasks[0].plan.table.name, unit="file", disable=None)
    for place, task in enumerate(progress):
        for chunk, converted in converted_rows(task):
            run.take(place, chunk, converted)


def converted_rows(task: Task) -> Iterator[tuple[Chunk, Rows]]:
    """Yield the chunks of a file with their rows converted to the table."""
    if task.frame is not None:
        size = len(task.frame)
        chunk = Chunk({}, size, lines_of=_record_numbers, notices=task.notices)
        yield chunk, Rows(task.frame.assign(**{ORIGIN: np.arange(size)}), Rejections(size))
        return
    for chunk in chunks(task.source, task.plan.header):
        if task.plan.sparse is not None:
            chunk = rows_of_table(chunk, task.plan.sparse)
            if not len(chunk):
                continue  # it has rows of other quantities only, and no column of this one
        chunk.notices = (*chunk.notices, *task.notices)
        with _naming(task.source):
            converted = rows(chunk, task.plan)
        yield chunk, converted


def rows_of_file(path: Path, table: str, writer: str, fixed: Mapping[str, str]) -> tuple[pd.DataFrame, str]:
    """Return the rows of a venue's file with their contracts' names, and the reason for omitted ones.

    Raises `ArchiveError`: the file cannot be read, or has no layout of the writer.
    """
    columns = archive_table(table).columns
    constants = {name: word for name, word in fixed.items() if name in columns}
    frames: list[pd.DataFrame] = []
    reasons: list[str] = []
    for source in find_sources([path]):
        for task in recognise(source, table, writer, Given({}, constants)):
            for chunk, (frame, rejections) in converted_rows(task):
                if len(frame):
                    frame = _payments(frame, task.plan)
                frames.append(frame)
                if rejections.bad.any():
                    reasons.append(_omitted_rows(chunk, rejections))
    whole = joined([frame for frame in frames if len(frame)] or frames[:1])
    return whole.drop(columns=[ORIGIN, RANK], errors="ignore"), next(iter(reasons), "")


def _payments(frame: pd.DataFrame, plan: ImportPlan, conflicts: list[str] | None = None) -> pd.DataFrame:
    """Return one row for each payment, with its interval; rows of other tables unchanged.

    A text about each row that contradicts another one of its payment is added to `conflicts`.
    """
    if plan.is_spaced:
        _, hours = RATE_UNITS[plan.unit or "bps_8h"]
        return spaced(frame, per_interval=hours is None, conflicts=conflicts)
    if plan.table.name == "funding_settlements":
        return added_up(frame, conflicts=conflicts)
    return frame


def _omitted_rows(chunk: Chunk, rejections: Rejections) -> str:
    """Return the number of rejected rows of a chunk, with line and reason of the first."""
    first = int(np.argmax(rejections.bad))
    (line,), _ = chunk.lines_of([first], [])
    return f", {int(rejections.bad.sum())} omitted: line {line}: {rejections.reasons[first]}"


def _record_numbers(rows: Sequence[int], broken: Sequence[int]) -> tuple[list[int], list[int]]:
    """Return the numbers of records, from 1."""
    return [row + 1 for row in rows], [*broken]


@contextmanager
def _naming(source: Source) -> Iterator[None]:
    """Add the name of the file to errors."""
    try:
        yield
    except ArchiveError as problem:
        raise ArchiveError(f"{source}: {problem}") from None


_ADDED_UP = {
    "oi_exchange_totals": "oi_history",
    "oi_top_symbols": "oi_history",
    "volume_exchange_totals": "volume_history",
    "volume_top_symbols": "volume_history",
}
"""Tables that the local service computes from another table."""
_FILE = 1 << 40
"""Rows of each file are numbered from a multiple of this."""
_MIN_REPEATED = 3
"""Number of distinct rows of a liquidations file from which equal repetition of all rows counts as copies."""
_SHOWN = 20
"""Maximum number of rejected rows and contradictory payments in the output."""


class ImportRun:
    """Import of the rows of some files into one table."""

    def __init__(
        self,
        tasks: Sequence[Task],
        archive: Archive,
        *,
        dry_run: bool = False,
        show: Callable[[str], object] | None = None,
    ) -> None:
        self.read = 0
        self.written = 0
        self.present = 0
        self.differing = 0
        self.other_quotes = 0
        self.superseded = 0
        self.rejected = 0
        self._tasks = tasks
        self._archive = archive
        self._dry_run = dry_run
        self._show = show
        self._plan = tasks[0].plan
        self._buffer = RowBuffer()
        self._starts: list[tuple[int, Callable[..., Any]]] = []  # first origin of each chunk, and its lines
        self._rows_of_file: Counter[int] = Counter()
        self._seen: dict[int, Counter[str]] = {}
        self._quotes = BestQuotes()
        self._missing = MissingRows(self._plan.table)
        self._reasons: list[tuple[int, int, str]] = []  # place of the file, line, reason
        self._notices: dict[str, None] = {}
        self._understood = ""

    def take(self, place: int, chunk: Chunk, converted: Rows) -> None:
        """Count the rows of a chunk, and buffer valid ones."""
        start = place * _FILE + self._rows_of_file[place]
        self._rows_of_file[place] += len(chunk)
        self._starts.append((start, chunk.lines_of))
        self.read += len(chunk) + len(chunk.broken)
        rejections = converted.rejections
        self.rejected += int(rejections.bad.sum()) + len(chunk.broken)
        # Only the first rejected rows are explained: a file of a wrong unit rejects millions.
        self._explain(place, chunk, rejections.reasons)
        for notice in chunk.notices:
            self._notices[f"{self._tasks[place].source.name}: {notice}"] = None
        frame = converted.frame
        # From the number within the chunk to that within all files, by which later checks find the line.
        frame[ORIGIN] = frame[ORIGIN].to_numpy() + start
        self._missing.see(frame)
        self._buffer.add(frame)
        if self._buffer.is_full:
            self._empty_buffer()

    def finished(self) -> Imported:
        """Write the buffered rows, and return the counts."""
        # Arrow keeps the memory of the text of a file, which is more than that of its rows.
        pa.default_memory_pool().release_unused()
        frame = self._buffer.take()
        if frame is not None:
            if self._needs_all_rows(frame):
                self._quotes.see(frame)
            self._buffer.add(frame)
        for buffered in self._buffer.all():
            self._write(buffered)
        self._show_understanding(None)  # without rows it was not shown yet
        source = _ADDED_UP.get(self._plan.table.name)
        if source is not None and self.read > self.rejected:
            self._notices[
                f"rows of {self._plan.table.name} are stored and can be read with open_archive, but the "
                f"local service serves totals that it computes from {source}, not these rows"
            ] = None
        lines: list[str] = []
        for place, line, reason in self._reasons:
            file = Path(self._tasks[place].source.name).name
            lines.append(f"{file}, line {line}: {reason}")
        return Imported(
            table=self._plan.table.name,
            read=self.read,
            written=self.written,
            present=self.present,
            differing=self.differing,
            other_quotes=self.other_quotes,
            superseded=self.superseded,
            rejected=self.rejected,
            first_rejected=next(iter(lines), None),
            rejections=tuple(lines),
            notices=tuple(self._notices),
            understood=self._understood,
        )

    def _explain(self, place: int, chunk: Chunk, reasons: Mapping[int, str]) -> None:
        """Store the lines and reasons of the first rejected rows of a chunk."""
        left = _SHOWN - len(self._reasons)
        if left <= 0 or not (reasons or chunk.broken):
            return
        rows = sorted(reasons)[:left]
        broken = chunk.broken[:left]
        lines, broken_lines = chunk.lines_of(rows, [number for number, _ in broken])
        explained = [(line, reasons[row]) for line, row in zip(lines, rows, strict=True)]
        explained += [(line, reason) for line, (_, reason) in zip(broken_lines, broken, strict=True)]
        for line, reason in sorted(explained)[:left]:
            self._reasons.append((place, line, reason))

    def _reject(self, frame: pd.DataFrame, reasons: Mapping[int, str]) -> None:
        """Count rows rejected after conversion; `reasons` are by position in the frame."""
        self.rejected += len(reasons)
        origins = frame[ORIGIN].to_numpy()
        for row in sorted(reasons, key=lambda row: origins[row])[: _SHOWN - len(self._reasons)]:
            origin = int(origins[row])
            index = bisect_right([start for start, _ in self._starts], origin) - 1
            start, lines_of = self._starts[index]
            (line,), _ = lines_of([origin - start], [])
            self._reasons.append((origin // _FILE, line, reasons[row]))

    def _needs_all_rows(self, frame: pd.DataFrame) -> bool:
        """Return whether a row can be written only when the quote currencies of all rows are known."""
        return RANK in frame.columns and is_of_contracts(self._plan.table)

    def _empty_buffer(self) -> None:
        """Write the rows in memory, or move them to a temporary file until all are read."""
        frame = self._buffer.take()
        if frame is None:
            return
        if self._needs_all_rows(frame):
            self._quotes.see(frame)
            self._buffer.set_aside(frame)
            return
        if self._plan.table.name == "options_snapshot":
            # Later rows may belong to the newest chain, and a chain is written as a whole.
            is_open = in_open_chains(frame)
            self._buffer.add(frame[is_open])
            frame = frame[~is_open].reset_index(drop=True)
        if len(frame):
            self._write(frame)

    def _write(self, frame: pd.DataFrame) -> None:
        """Check rows and append them to the archive."""
        frame = self._prepared(frame)
        self._show_understanding(frame)
        if len(frame):
            self._store(frame)

    def _show_understanding(self, frame: pd.DataFrame | None) -> None:
        """Show the interpretation of the files once, before the first rows are written."""
        if self._understood:
            return
        self._understood = understood(self._tasks, frame, self._rows_of_file, self._missing.text())
        if self._show is not None:
            self._show(self._understood)

    def _prepared(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Return rows with ids, intervals and USD, of one contract for each symbol and venue."""
        plan = self._plan
        if any(task.plan.is_zone_assumed for task in self._tasks):
            files = frame[ORIGIN].to_numpy() // _FILE
            is_assumed = np.array([task.plan.is_zone_assumed for task in self._tasks])[files]
            refuse_local_times(frame[is_assumed])
        read = len(frame)
        conflicts: list[str] = []
        frame = _payments(frame, plan, conflicts)
        if plan.is_spaced:
            refuse_some_of_payments(frame)
        self._note_conflicts(conflicts)
        # The other rows are payments that the file has twice, or that are part of a sum.
        self.present += read - len(frame) - len(conflicts)
        if plan.is_spaced:
            self._note_unknown_intervals(frame)
        frame = self._of_best_quote(frame)
        if plan.made:
            frame = self._with_ids(frame)
        if plan.unit in IN_COINS:
            frame = usd_from_coins(frame, self._archive)
        return frame

    def _note_conflicts(self, conflicts: list[str]) -> None:
        """Count omitted rows that contradict another one of the same payment, and show some."""
        self.differing += len(conflicts)
        for conflict in conflicts[:_SHOWN]:
            self._notices[f"{conflict} (the first is used)"] = None

    def _note_unknown_intervals(self, frame: pd.DataFrame) -> None:
        """Add a notice with the number of payments without an interval, whose rate per 8 hours is missing."""
        is_unknown = frame["interval_hours"].isna()
        if not is_unknown.any():
            return
        first = frame[is_unknown].iloc[0]
        self._notices[
            f"the interval of {int(is_unknown.sum())} payments, first {first['symbol']} on "
            f"{first['exchange']} at {times.iso(first['time'])}, is unknown, because the time between "
            "rows does not confirm it: their rate_bps_8h is missing until you pass --set "
            "interval_hours=8 or import more payments"
        ] = None

    def _with_ids(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Return rows with ids; equal rows of one file are counted."""
        files = frame[ORIGIN].to_numpy() // _FILE
        frames = []
        for file, of_file in frame.groupby(files, sort=False):
            once = self._once(of_file, int(file))
            seen = self._seen.setdefault(int(file), Counter())
            frames.append(with_ids(once, self._plan.made, seen))
        return pd.concat(frames)

    def _once(self, frame: pd.DataFrame, file: int) -> pd.DataFrame:
        """Return each row once if all rows of a file without ids occur equally often, at least twice."""
        if "order_id" not in self._plan.made or "order_id" in frame:
            return frame
        columns = [name for name in frame.columns if name != ORIGIN]
        sizes = frame.groupby(columns, sort=False, dropna=False, observed=True).size()
        repeats = int(sizes.iloc[0])
        if len(sizes) < _MIN_REPEATED or repeats == 1 or (sizes != repeats).any():
            return frame
        is_again = frame.duplicated(columns).to_numpy()
        self.present += int(is_again.sum())
        name = self._tasks[file].source.name
        self._notices[f"{name}: every row occurs {repeats} times, and is counted once"] = None
        return frame[~is_again]

    def _of_best_quote(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Return the rows of one contract for each symbol and venue, for tables with one value."""
        if RANK not in frame.columns:
            return frame
        if is_of_contracts(self._plan.table):
            is_best = self._quotes.are_best(frame)
            self.other_quotes += int((~is_best).sum())
            if not is_best.all():
                frame = frame[is_best]
        return frame.drop(columns=[RANK, CONTRACT])

    def _store(self, frame: pd.DataFrame) -> None:
        """Reject rows that could not be served, merge the others into the archive, and count them."""
        table = self._plan.table
        columns = [name for name in table.columns if name in frame.columns]
        frame, is_again = in_order(table, frame)
        if is_again.any():
            is_equal = frame.duplicated(columns).to_numpy()
            self.present += int((is_again & is_equal).sum())
            self.differing += int((is_again & ~is_equal).sum())
            frame = frame[~is_again]
        reasons = unservable(table, frame, self._archive)
        if reasons:
            self._reject(frame, reasons)
            frame = frame.drop(index=frame.index[list(reasons)])
        if not len(frame) or self._dry_run:
            return
        absent: dict[str, Any] = dict.fromkeys({*table.columns} - {*frame.columns})
        counts = self._archive.merge(
            table.name,
            frame[columns].assign(**absent),
            unit=self._plan.unit,
            accept=self._plan.accept,
            contracts=self._quotes.contracts,
            keeps_intervals=not self._plan.is_spaced,
        )
        self.superseded += len(frame) - sum(counts)
        self.written += counts.written
        self.present += counts.present
        self.differing += counts.differing
        for conflict in (counts.conflicts + counts.notices)[:_SHOWN]:  # each names both rows
            self._notices[conflict] = None


_EXAMPLES = 5


def understood(
    tasks: Sequence[Task], rows: pd.DataFrame | None, counts: Mapping[int, int], missing: str
) -> str:
    """Return the table, where its columns come from, units, zone, symbols, venues, span and one row.

    `missing` lists missing rows of the series in the files.
    """
    plan = tasks[0].plan
    layouts = list(dict.fromkeys(task.layout for task in tasks))
    size = f"{sum(counts.values()):,} rows"
    if len(tasks) > 1:
        size = f"{len(tasks)} files, {size}"
    lines = [
        f"table     {plan.table.name}: {plan.table.doc}",
        f"files     {size}; layout: {', '.join(layouts[:_EXAMPLES])}",
        f"columns   {', '.join(_sources(tasks))}",
        *_unread(tasks),
        f"units     {_units(plan)}",
        f"zone      {_zone(tasks)}",
    ]
    if rows is None or not len(rows):
        return "\n".join([*lines, "rows      none that fits"])
    for label, name in (("symbols", "symbol"), ("venues", "exchange")):
        if name in rows:
            lines.append(f"{label:9} {_some(rows[name])}")
    if "interval_hours" in rows:
        lines.append(f"interval  {_intervals(plan, rows)}")
    if "time" in rows:
        first = rows["time"].min()
        last = rows["time"].max()
        lines.append(f"span      {times.iso(first)} to {times.iso(last)}")
    if missing:
        lines.append(f"missing   {missing}")
    lines.append(f"a row     {_row(plan, rows.iloc[0])}")
    return escape_controls("\n".join(lines), keep="\n")


def _intervals(plan: ImportPlan, rows: pd.DataFrame) -> str:
    """Return the intervals of rates, with a remark if they are derived from the time between rows."""
    hours = sorted(rows["interval_hours"].dropna().unique())
    if not hours:
        return "unknown: too few rows (pass --set interval_hours=8 if it is 8 hours)"
    shown = ", ".join(f"{h:g} h" for h in hours[:_EXAMPLES])
    if plan.is_spaced:
        return f"{shown} (from spacing)"
    return shown


def _zone(tasks: Sequence[Task]) -> str:
    """Return the zone of times without one."""
    if any(task.plan.is_zone_assumed for task in tasks):
        return "UTC, because the times have no zone (pass --tz ZONE if they are local times)"
    return str(tasks[0].plan.tz or "from the file")


def _sources(tasks: Sequence[Task]) -> list[str]:
    """Return each column's source: a column of the file, or a value."""
    plan = tasks[0].plan
    words = []
    for name, source in plan.sources.items():
        if name in plan.scales:
            source += f" × {plan.scales[name]:,.0f}"
        words.append(f"{name} = {source}")
    for name in plan.constants:
        if name == "interval_hours" and plan.is_spaced:
            continue
        values = list(dict.fromkeys(task.plan.constants.get(name, "") for task in tasks))
        if len(values) > _EXAMPLES:
            values = [*values[:_EXAMPLES], "…"]
        words.append(f"{name}: {', '.join(values)}")
    return words or ["of the same names"]


def _unread(tasks: Sequence[Task]) -> list[str]:
    """Return a line with the numeric columns that are not stored; an empty list without any."""
    names = list(dict.fromkeys(name for task in tasks for name in task.unread))
    return [f"not read  {', '.join(names)}"] if names else []


def _units(plan: ImportPlan) -> str:
    """Return the unit of the file, if it is converted, and those of the table."""
    units: list[str] = []
    for name, column in plan.table.columns.items():
        if column.kind is Kind.NUMBER and column.unit:
            units.append(f"{name} [{column.unit}]")
    stored = ", ".join(units[:8])
    if plan.unit is None:
        return f"as stored: {stored}"
    return f"{plan.unit}; stored as {stored}"


def _some(values: pd.Series) -> str:
    """Return a text with the first words of a column, and the number of the others."""
    words = sorted(map(str, values.dropna().unique()))
    shown = ", ".join(words[:_EXAMPLES])
    if len(words) > _EXAMPLES:
        shown += f" and {len(words) - _EXAMPLES} more"
    return shown


def _row(plan: ImportPlan, row: Any) -> str:
    """Return the values of a row by column."""
    cells: list[str] = []
    for name in plan.table.columns:
        value = row.get(name)
        if value is None or pd.isna(value):
            continue
        if isinstance(value, pd.Timestamp):
            value = times.iso(value)
        elif isinstance(value, float):
            value = f"{value:.10g}"
        cells.append(f"{name}={value}")
    return ", ".join(cells)
