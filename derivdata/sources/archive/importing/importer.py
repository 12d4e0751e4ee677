"""Import of files: recognise them, convert their rows, show the reading, check the rows and store them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypeAlias

import numpy as np
import pandas as pd
from tqdm import tqdm

from derivdata.errors import ArchiveError
from derivdata.sources.archive.archive import Archive, open_archive
from derivdata.sources.archive.importing.conversion import ORIGIN, RANK, Rows, rows
from derivdata.sources.archive.importing.finishing import added_up, spaced
from derivdata.sources.archive.importing.opening import Source, find_sources
from derivdata.sources.archive.importing.outcome import Imported, summed
from derivdata.sources.archive.importing.plan import RATE_UNITS, Given, make_plan
from derivdata.sources.archive.importing.readers import Chunk, chunks
from derivdata.sources.archive.importing.recognition import Task, recognise
from derivdata.sources.archive.importing.run import ImportRun
from derivdata.sources.archive.importing.values import Rejections
from derivdata.sources.archive.importing.waiting import joined
from derivdata.sources.archive.schemas import archive_table


def converted_rows(task: Task) -> Iterator[tuple[Chunk, Rows]]:
    """Yield the chunks of a file with their rows as the table's."""
    if task.frame is not None:
        size = len(task.frame)
        chunk = Chunk({}, size, lines_of=_record_numbers, notices=task.notices)
        yield chunk, Rows(task.frame.assign(**{ORIGIN: np.arange(size)}), Rejections(size))
        return
    for chunk in chunks(task.source, task.plan.header):
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
                if task.plan.is_spaced and len(frame):
                    per_interval = RATE_UNITS[task.plan.unit or "bps_8h"][1] is None
                    frame = spaced(frame, per_interval=per_interval)
                elif table == "funding_settlements" and len(frame):
                    frame = added_up(frame)
                frames.append(frame)
                if rejections.bad.any():
                    reasons.append(_left_out(chunk, rejections))
    whole = joined([frame for frame in frames if len(frame)] or frames[:1])
    return whole.drop(columns=[ORIGIN, RANK], errors="ignore"), reasons[0] if reasons else ""


def _left_out(chunk: Chunk, rejections: Rejections) -> str:
    """Return the number of rejected rows of a chunk, with line and reason of the first."""
    first = int(np.argmax(rejections.bad))
    (line,), _ = chunk.lines_of([first], [])
    return f", {int(rejections.bad.sum())} left out: line {line}: {rejections.reasons[first]}"


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


_Path: TypeAlias = str | os.PathLike[str]


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
    dry_run: bool = False,
    show: Callable[[str], object] | None = None,
) -> Imported:
    """Bring recorded files into an archive.

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
        Column of the table to the file's column, ``{"time": "Date", "rate_bps_8h": "Funding Rate"}``. A
        column of the same name needs no entry.
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
        open interest the unit of ``oi_usd``: ``"usd"`` (the default), ``"coins"``, or ``"contracts"`` of
        `contract_size` coins (from `map` or `set`); the last two are converted to USD by ``price_usd`` (from
        the file, `map` or `set`), or by the newest price in the archive of the hour before each row.
    map_values
        House name to the file's words and the table's, ``{"side": {"sell": "long", "buy": "short"}}``.
    accept
        Questions to skip, which an import raises if values suggest a mistake: ``"unit"``, ``"interval"``,
        ``"schedule"``, ``"venues"``, ``"future"``; see `Archive.append`.
    source
        Program or venue that wrote the files, if their columns do not identify it: ``"binance"``, ``"ccxt"``,
        ``"tardis"`` ... (``derivdata import --list`` shows all). `map`, `set`, `tz`, `unit` and `map_values`
        add to or override the files.
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
    and time, so name all files of a venue in one call. Liquidations of all are used. Liquidations without an
    order id get one from a hash of the row; equal rows of one file stay separate. A row that would make a
    window unreadable, such as a second payment for one hour, is rejected. An ambiguous local hour is the
    first of the two, or the second if a row repeats it.
    """
    given = Given(map or {}, set or {}, tz, unit, map_values or {}, accept)
    listed = [files] if isinstance(files, str | os.PathLike) else files
    if not listed:
        raise ValueError("files: name at least one")
    tasks = _tasks(table, listed, source, given)
    archive = open_archive(to)
    by_table: dict[str, list[Task]] = {}
    for task in tasks:
        by_table.setdefault(task.plan.table.name, []).append(task)
    results = [_import_table(own, archive, dry_run=dry_run, show=show) for own in by_table.values()]
    whole = summed(results)
    if whole.read and whole.rejected == whole.read:
        raise ArchiveError(
            f"none of {whole.read:,} rows fits {whole.table}; the first: {whole.first_rejected}"
        )
    return whole


def _tasks(table: str | None, files: Sequence[_Path], source: str | None, given: Given) -> list[Task]:
    """Return each file with its tables; raise for invalid arguments before any file is opened."""
    if table is not None and source is None:
        make_plan(table, given)
    return [task for opened in find_sources(files) for task in recognise(opened, table, source, given)]


def _import_table(
    tasks: list[Task], archive: Archive, *, dry_run: bool, show: Callable[[str], object] | None
) -> Imported:
    """Import the rows of one table from some files."""
    run = ImportRun(tasks, archive, dry_run=dry_run, show=show)
    _take_rows(run, tasks)
    return run.finished()


def _take_rows(run: ImportRun, tasks: list[Task]) -> None:
    """Convert the rows of files; the last chunk of them is freed before rows are written."""
    progress = tqdm(tasks, desc=tasks[0].plan.table.name, unit="file", disable=None)
    for place, task in enumerate(progress):
        for chunk, converted in converted_rows(task):
            run.take(place, chunk, converted)
