"""Import of files: recognise them, convert their rows, show what was understood, check and store them."""

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
import numpy.typing as npt
import pandas as pd
from tqdm import tqdm

from derivdata.errors import ArchiveError
from derivdata.sources.archive.archive import Archive, open_archive
from derivdata.sources.archive.audit import quoted_contracts
from derivdata.sources.archive.importing.conversion import (
    CONTRACT,
    ORIGIN,
    RANK,
    Rows,
    rows,
    usd_from_coins,
    with_ids,
)
from derivdata.sources.archive.importing.finishing import paid_at, spaced
from derivdata.sources.archive.importing.opening import Source, find_sources
from derivdata.sources.archive.importing.plan import IN_COINS, RATE_UNITS, Given, is_of_contracts, make_plan
from derivdata.sources.archive.importing.readers import Chunk, chunks
from derivdata.sources.archive.importing.recognition import Task, recognise
from derivdata.sources.archive.importing.serving import unservable
from derivdata.sources.archive.importing.understanding import understood
from derivdata.sources.archive.importing.values import Rejections
from derivdata.sources.archive.schemas import archive_table
from derivdata.tables.chain_snapshots import aligned

HOLD_ROWS = 4_000_000
"""Rows that are held in memory before they are checked and written."""
_FILE = 1 << 40
_LEAST_REPEATED = 3
"""Distinct rows of a file of liquidations from which equal repeats of all rows are taken as copies."""
_SHOWN = 20
"""Rejected rows, and contradictory payments, that are shown with their reason."""
_Path: TypeAlias = str | os.PathLike[str]


@dataclass(frozen=True)
class Imported:
    """Counts of the rows of an import, by outcome.

    Attributes
    ----------
    table
        Table that the rows went to; several are joined by commas.
    read, written
        Rows of all files, and those that are new in the archive.
    present, differing
        Rows whose key was there already, with the same values or with others; what was there stays.
    other_quotes
        Rows of a contract whose symbol has one on the venue in a quote currency of higher priority.
    superseded
        Rows of options whose chain has a newer row of the same instrument.
    rejected
        Rows that do not fit the table, or that would make its stored rows unreadable.
    first_rejected
        File, line (or record, from 1) and reason of the first of them.
    rejections
        The same of the first twenty.
    notices
        What else the files say, such as that more pages follow.
    understood
        What was understood of the files, as ``derivdata import`` prints it before it writes.
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
        counts = f"{self.table}: {self.read:,} rows read, {self.written:,} written"
        more = {
            "already there with other values (those first seen stay)": self.differing,
            "of a quote currency of lower priority": self.other_quotes,
            "older than another row of the instrument in its chain": self.superseded,
        }
        extra = [f"{count:,} {what}" for what, count in more.items() if count]
        parts = [counts, f"{self.present:,} already there", *extra, f"{self.rejected:,} rejected"]
        first = f"; the first: {self.first_rejected}" if self.first_rejected else ""
        return ", ".join(parts) + first


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
        Name of the table that the rows are, such as ``"funding_settlements"``; None: the files say it.
    files
        CSV, JSON (records in a list, one per line, or inside the answer of a service), Parquet or Feather,
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
        Zone of instants that state none: ``"Europe/London"``, ``"UTC"``, ``"UTC+3"`` (three hours ahead).
        Without it such rows are rejected. Numbers are seconds, ms, µs or ns since 1970, by their size.
    unit
        What the file's funding rates are: ``"bps_8h"`` (the default); per the venue's own `interval_hours`
        ``"native"`` (a fraction), ``"percent"`` or ``"bps"``; as a fraction ``"per_hour"``, ``"per_8h"``,
        ``"per_day"``, ``"per_year"``; in percent ``"percent_hour"``, ``"percent_8h"``, ``"percent_day"``,
        ``"percent_year"``. For options what ``iv`` is: ``"decimal"`` (the default) or ``"percent"``. For open
        interest what ``oi_usd`` is: ``"usd"`` (the default), ``"coins"``, or ``"contracts"`` of
        `contract_size` coins (of `map` or `set`); the last two become USD by ``price_usd`` (of the file,
        `map` or `set`), or by the newest price of the hour before each row that the archive has.
    map_values
        House name to the file's words and the table's, ``{"side": {"sell": "long", "buy": "short"}}``.
    accept
        Questions that were answered, of those that an import asks where values give a mistake away:
        ``"unit"``, ``"interval"``, ``"schedule"``, ``"venues"``, ``"future"``; see `Archive.append`.
    source
        Who wrote the files, where their columns alone do not say it: ``"binance"``, ``"ccxt"``,
        ``"tardis"`` ... (``derivdata import --list`` shows all). `map`, `set`, `tz`, `unit` and `map_values`
        say what the files do not, or otherwise.
    dry_run
        Whether to stop before anything is written.
    show
        Called with what was understood before anything is written.

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
    Contract names become base symbols (``BTC-USDT`` is ``BTC``); of a symbol with several quote currencies
    on a venue only the first of USDT, USD, USDC, BUSD, UST is taken, where a table has one value per
    symbol, venue and instant: name all files of a venue in one call. Liquidations of all are taken.
    Liquidations without an order id get one from a hash of the row; equal rows of one file stay apart.
    A row that would make a window unreadable, such as a second payment for one hour, is rejected.
    A local hour that the clock shows twice is the first of the two, or the second where a row repeats it.
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
    whole = results[0] if len(results) == 1 else _summed(results)
    if whole.read and whole.rejected == whole.read:
        raise ArchiveError(
            f"none of {whole.read:,} rows fits {whole.table}; the first: {whole.first_rejected}"
        )
    return whole


def _tasks(table: str | None, files: Sequence[_Path], source: str | None, given: Given) -> list[Task]:
    """Return each file with the tables that it fills; what makes no sense is refused before one is opened."""
    if table is not None and source is None:
        make_plan(table, given)
    return [task for found in find_sources(files) for task in recognise(found, table, source, given)]


def _summed(results: Sequence[Imported]) -> Imported:
    """Return the counts of several tables as one."""
    counts = {
        name: sum(getattr(result, name) for result in results)
        for name in ("read", "written", "present", "differing", "other_quotes", "superseded", "rejected")
    }
    rejections = tuple(line for result in results for line in result.rejections)
    return Imported(
        table=", ".join(result.table for result in results),
        **counts,
        first_rejected=next(iter(rejections), None),
        rejections=rejections,
        notices=tuple(dict.fromkeys(notice for result in results for notice in result.notices)),
        understood="\n\n".join(result.understood for result in results),
    )


def _import_table(
    tasks: list[Task], archive: Archive, *, dry_run: bool, show: Callable[[str], object] | None
) -> Imported:
    """Import the rows of one table from some files."""
    report = ImportReport(tasks, archive, dry_run=dry_run, show=show)
    progress = tqdm(tasks, desc=tasks[0].plan.table.name, unit="file", disable=None)
    for place, task in enumerate(progress):
        for chunk, converted in converted_rows(task):
            report.take(place, chunk, converted)
    return report.finished()


def converted_rows(task: Task) -> Iterator[tuple[Chunk, Rows]]:
    """Yield the chunks of a file with their rows as the table's."""
    if task.frame is not None:
        size = len(task.frame)
        chunk = Chunk({}, size, lines_of=_records, notices=task.notices)
        yield chunk, Rows(task.frame.assign(**{ORIGIN: np.arange(size)}), Rejections(size))
        return
    for chunk in chunks(task.source, task.plan.header):
        with _of(task.source):
            converted = rows(chunk, task.plan)
        yield chunk, converted


def rows_of_file(path: Path, table: str, writer: str, fixed: Mapping[str, str]) -> tuple[pd.DataFrame, str]:
    """Return the rows of a venue's file with their contracts' names, and why some are left out.

    Raises `ArchiveError`: it cannot be read, or is of no layout of the writer.
    """
    parts, reasons = [], []
    columns = archive_table(table).columns
    fixed = {name: word for name, word in fixed.items() if name in columns}
    for source in find_sources([path]):
        for task in recognise(source, table, writer, Given({}, fixed)):
            for chunk, converted in converted_rows(task):
                frame, rejections = converted
                bad = rejections.bad
                if task.plan.is_spaced and len(frame):
                    per_interval = RATE_UNITS[task.plan.unit or "bps_8h"][1] is None
                    frame = spaced(frame, per_interval=per_interval)
                parts.append(frame)
                if bad.any():
                    first = int(np.argmax(bad))
                    (line,), _ = chunk.lines_of([first], [])
                    reasons.append(f", {int(bad.sum())} left out: line {line}: {rejections.reasons[first]}")
    whole = joined([part for part in parts if len(part)] or parts[:1])
    return whole.drop(columns=[ORIGIN, RANK], errors="ignore"), reasons[0] if reasons else ""


def _records(rows: Sequence[int], broken: Sequence[int]) -> tuple[list[int], list[int]]:
    """Return the numbers of records, from 1."""
    return [row + 1 for row in rows], [*broken]


class ImportReport:
    """Rows of one import on their way: held, checked, written and counted."""

    def __init__(
        self,
        tasks: Sequence[Task],
        archive: Archive,
        *,
        dry_run: bool = False,
        show: Callable[[str], object] | None = None,
    ) -> None:
        self.read = self.written = self.present = self.differing = self.other_quotes = self.rejected = 0
        self.superseded = 0
        self._tasks, self._archive, self._dry_run, self._show = tasks, archive, dry_run, show
        self._plan = tasks[0].plan
        self._held: list[pd.DataFrame] = []
        self._held_rows = 0
        self._starts: list[tuple[int, Callable[..., Any]]] = []  # first origin of each chunk, and its lines
        self._rows_of_file: Counter[int] = Counter()
        self._seen: dict[int, Counter[str]] = {}
        self._best: dict[tuple[str, str], int] | None = None
        self._contracts: dict[str, str] = {}
        self._reasons: list[tuple[int, int, str]] = []  # place of the file, line, reason
        self._notices: dict[str, None] = {}
        self._understood = ""

    def take(self, place: int, chunk: Chunk, converted: Rows) -> None:
        """Count the rows of a chunk, and hold those that fit."""
        start = place * _FILE + self._rows_of_file[place]
        self._rows_of_file[place] += len(chunk)
        self._starts.append((start, chunk.lines_of))
        self.read += len(chunk) + len(chunk.broken)
        rejections = converted.rejections
        self.rejected += int(rejections.bad.sum()) + len(chunk.broken)
        self._explain(place, chunk, rejections.reasons)
        for notice in chunk.notices:
            self._notices[f"{self._tasks[place].source.name}: {notice}"] = None
        frame = converted.frame
        frame[ORIGIN] = frame[ORIGIN].to_numpy() + start
        self._held.append(frame)
        self._held_rows += len(frame)
        if self._held_rows >= HOLD_ROWS:
            if self._best is None and len(self._tasks) + len(self._starts) > 1:
                self._best = _best_ranks(self._tasks)
            self._flush(is_last=False)

    def finished(self) -> Imported:
        """Write what is held, and return the counts."""
        self._flush()
        lines = [
            f"{Path(self._tasks[p].source.name).name}, line {line}: {why}" for p, line, why in self._reasons
        ]
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
        """Keep the lines and reasons of the first rejected rows of a chunk."""
        left = _SHOWN - len(self._reasons)
        if left <= 0 or not (reasons or chunk.broken):
            return
        places = sorted(reasons)[:left]
        broken = chunk.broken[:left]
        lines, broken_lines = chunk.lines_of(places, [number for number, _ in broken])
        told = [(line, reasons[row]) for line, row in zip(lines, places, strict=True)]
        told += [(line, why) for line, (_, why) in zip(broken_lines, broken, strict=True)]
        self._reasons += [(place, line, why) for line, why in sorted(told)[:left]]

    def _reject(self, frame: pd.DataFrame, reasons: Mapping[int, str]) -> None:
        """Count rows that were rejected after they were converted; `reasons` are by place in the frame."""
        self.rejected += len(reasons)
        origins = frame[ORIGIN].to_numpy()
        for row in sorted(reasons, key=lambda row: origins[row])[: _SHOWN - len(self._reasons)]:
            origin = int(origins[row])
            index = bisect_right([start for start, _ in self._starts], origin) - 1
            start, lines_of = self._starts[index]
            (line,), _ = lines_of([origin - start], [])
            self._reasons.append((origin // _FILE, line, reasons[row]))

    def _flush(self, *, is_last: bool = True) -> None:
        """Check and append what is held; unless it is the last, chains that may have more rows stay held."""
        held = [frame for frame in self._held if len(frame)]
        self._held, self._held_rows = [], 0
        frame = joined(held) if held else None
        if frame is not None and not is_last and self._plan.table.name == "options_snapshot":
            is_open = _of_open_chains(frame)
            self._held = [frame[is_open]]
            if is_open.all():
                return
            frame = frame[~is_open].reset_index(drop=True)
        if frame is not None:
            frame = self._prepared(frame)
        if self._show is not None or self._dry_run or not self._understood:
            text = understood(self._tasks, frame, self._rows_of_file)
            if text and not self._understood:
                self._understood = text
                if self._show is not None:
                    self._show(text)
        if frame is not None and len(frame):
            self._store(frame)

    def _prepared(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Return rows with ids, intervals and USD, of one contract for each symbol and venue."""
        plan = self._plan
        if plan.is_spaced:
            before = len(frame)
            frame = spaced(frame, per_interval=RATE_UNITS[plan.unit or "bps_8h"][1] is None)
            self.present += before - len(frame)  # of payments that stand twice, or that one row adds up
        elif plan.table.name == "funding_settlements":
            frame = paid_at(frame)
        frame = self._of_best_quote(frame)
        if plan.made:
            frame = self._with_ids(frame)
        if plan.unit in IN_COINS:
            frame = usd_from_coins(frame, self._archive)
        return frame

    def _with_ids(self, frame: pd.DataFrame) -> pd.DataFrame:
        files = frame[ORIGIN].to_numpy() // _FILE
        parts = []
        for file, own in frame.groupby(files, sort=False):
            once = self._once(own, int(file))
            parts.append(with_ids(once, self._plan.made, self._seen.setdefault(int(file), Counter())))
        return pd.concat(parts) if len(parts) > 1 else parts[0]

    def _once(self, frame: pd.DataFrame, file: int) -> pd.DataFrame:
        """Return each row once if all rows of a file without ids stand equally often, twice or more."""
        if "order_id" not in self._plan.made or "order_id" in frame:
            return frame
        columns = [name for name in frame.columns if name != ORIGIN]
        sizes = frame.groupby(columns, sort=False, dropna=False, observed=True).size()
        times_each = int(sizes.iloc[0])
        if len(sizes) < _LEAST_REPEATED or times_each == 1 or (sizes != times_each).any():
            return frame
        again = frame.duplicated(columns).to_numpy()
        self.present += int(again.sum())
        name = self._tasks[file].source.name
        self._notices[f"{name}: every row stands {times_each} times, and is taken once"] = None
        return frame[~again]

    def _of_best_quote(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Keep the rows of one contract for each symbol on each venue, where a table has one value of it."""
        if RANK not in frame.columns:
            return frame
        if is_of_contracts(self._plan.table):
            group = _codes(frame, ["exchange", "symbol"])
            rank = frame[RANK].to_numpy()
            best = np.full(int(group.max(initial=-1)) + 1, np.iinfo(np.int64).max)
            np.minimum.at(best, group, rank)
            if self._best is not None:
                firsts = pd.Series(np.arange(len(group))).groupby(group).first().to_numpy()
                pairs = zip(frame["exchange"].iloc[firsts], frame["symbol"].iloc[firsts], strict=True)
                best = np.array([self._best.get(pair, low) for pair, low in zip(pairs, best, strict=True)])
            kept = rank == best[group]
            self.other_quotes += int((~kept).sum())
            frame = frame if kept.all() else frame[kept]
            distinct = frame[["exchange", "symbol", CONTRACT]].drop_duplicates()
            self._contracts |= quoted_contracts(*(distinct[name].astype(object) for name in distinct))
        return frame.drop(columns=[RANK, CONTRACT])

    def _store(self, frame: pd.DataFrame) -> None:
        table = self._plan.table
        columns = [name for name in table.columns if name in frame.columns]
        key = [name for name in table.key if name in frame.columns]
        again = frame.duplicated(key).to_numpy()
        if again.any():
            equal = frame.duplicated(columns).to_numpy()
            self.present += int((again & equal).sum())
            self.differing += int((again & ~equal).sum())
            frame = frame[~again]
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
            contracts=self._contracts,
        )
        self.superseded += len(frame) - sum(counts)
        self.written += counts.written
        self.present += counts.present
        self.differing += counts.differing
        for conflict in counts.conflicts[:_SHOWN]:  # each names the new row and the stored one
            self._notices[conflict] = None


def _of_open_chains(frame: pd.DataFrame) -> npt.NDArray[np.bool_]:
    """Return which rows are of the newest chain of their symbol and venue, which may have more rows."""
    try:
        chains, _ = aligned(frame)
    except ValueError as problem:
        raise ArchiveError(f"options_snapshot: {problem}") from None
    series = [name for name in ("symbol", "exchange") if name in frame]
    keys = [frame[name].astype(str) for name in series] or [pd.Series("", index=frame.index)]
    newest = chains["time"].groupby([key[chains.index] for key in keys]).transform("max")
    quoted_at = chains["quoted_at"].fillna(chains["time"]) if "quoted_at" in chains else chains["time"]
    begins = quoted_at.where(chains["time"] == newest).groupby([key[chains.index] for key in keys]).min()
    names = pd.MultiIndex.from_arrays(keys) if len(keys) > 1 else pd.Index(keys[0])
    return np.asarray(pd.DatetimeIndex(frame["time"]) >= pd.DatetimeIndex(begins.reindex(names)))


def _codes(frame: pd.DataFrame, names: Sequence[str]) -> np.ndarray[Any, Any]:
    """Return a number for the words of each row."""
    codes = np.zeros(len(frame), dtype=np.int64)
    for name in names:
        values = frame[name]
        own = values.cat.codes if isinstance(values.dtype, pd.CategoricalDtype) else pd.factorize(values)[0]
        numbers = np.asarray(own, dtype=np.int64)
        codes = codes * (int(numbers.max(initial=0)) + 1) + numbers
    return codes


def joined(frames: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Return frames below each other; text stays categories."""
    if len(frames) == 1:
        return frames[0].reset_index(drop=True)
    names = dict.fromkeys(name for frame in frames for name in frame.columns)
    columns: dict[str, Any] = {}
    for name in names:
        parts = [frame[name] if name in frame else pd.Series(np.nan, frame.index) for frame in frames]
        if all(isinstance(part.dtype, pd.CategoricalDtype) for part in parts):
            columns[name] = pd.api.types.union_categoricals(parts)
        else:
            plain = [part.astype(object) if part.dtype == "category" else part for part in parts]
            columns[name] = pd.concat(plain, ignore_index=True)
    return pd.DataFrame(columns, copy=False)


def _best_ranks(tasks: Sequence[Task]) -> dict[tuple[str, str], int]:
    """Return the highest priority among the quotes of each symbol on each venue, of all files."""
    best: dict[tuple[str, str], int] = {}
    for task in tasks:
        for _, converted in converted_rows(task):
            frame = converted.frame
            if {"exchange", "symbol", RANK} <= {*frame.columns}:
                distinct = frame[["exchange", "symbol", RANK]].drop_duplicates()
                for venue, symbol, rank in distinct.itertuples(index=False):
                    best[venue, symbol] = min(int(rank), best.get((venue, symbol), int(rank)))
    return best


@contextmanager
def _of(source: Source) -> Iterator[None]:
    try:
        yield
    except ArchiveError as problem:
        raise ArchiveError(f"{source}: {problem}") from None
