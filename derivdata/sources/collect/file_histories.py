"""Years of history from the venues' bulk files: plan, fetch, read, and enter files in the ledger."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from derivdata import tables
from derivdata.errors import ArchiveError, DerivdataError
from derivdata.sources.archive import Archive
from derivdata.sources.archive.audit import OtherContract, quoted_contracts
from derivdata.sources.archive.importing.importer import rows_of_file
from derivdata.sources.archive.ledger import LedgerEntry, LedgerFile
from derivdata.sources.collect.histories import Backfilled, life, requested_window
from derivdata.sources.collect.session import Clock, MachineClock
from derivdata.sources.collect.venue_files import (
    FILES,
    NOT_IN_FILES,
    TERMS,
    FileHost,
    FileKind,
    ListedFile,
    Mismatch,
)
from derivdata.sources.venues.endpoint import DATED
from derivdata.sources.venues.record_types import Instrument
from derivdata.support import times

TABLES = tuple(dict.fromkeys(table for kind in FILES for table in kind.tables))
"""Tables that are in files of venues."""

_FLUSH_ROWS = 200_000
_FLUSH_FILES = 100
_ASIDE = pd.Timedelta(1, "D")
_SHOWN = 5
_PAYMENTS = 3
"""Rows per day of payments; their number depends on the interval, so fewer rows are not a fault."""
_PLAN = "exchange kind contract first last files missing to_fetch megabytes rows".split()


@dataclass
class FileBackfill(Backfilled):
    """Result of a backfill from files; `plan` has a row per kind and contract, `terms` is by venue."""

    plan: pd.DataFrame = field(default_factory=lambda: pd.DataFrame(columns=_PLAN))
    terms: dict[str, str] = field(default_factory=dict)


class _Series(NamedTuple):
    """The files of one kind and contract: listed files, files to fetch, and periods without a file."""

    kind: FileKind
    item: Instrument
    listed: list[ListedFile]
    due: list[ListedFile]
    missing: list[str]
    read: Mapping[str, Mapping[str, LedgerFile]]  # files in the ledger, by wanted table and path

    @property
    def label(self) -> str:
        """Name in messages."""
        return f"{self.kind.exchange} {self.kind.label} {self.item.name}"


class _Read(NamedTuple):
    """A file that was read: window, mark in the ledger, rows by table, and a text about missing rows."""

    window: times.Window
    mark: LedgerFile
    frames: dict[str, pd.DataFrame]
    incomplete: str


class _Unread(DerivdataError):
    """A file was fetched, but cannot be used."""


def backfill_files(
    archive: Archive,
    symbols: Iterable[str],
    start: times.Instant,
    end: times.Instant | None = None,
    *,
    venues: Sequence[str] | None = None,
    names: Sequence[str] = ("funding_settlements", "oi_history", "positioning_history"),
    dry_run: bool = False,
    folder: Path | None = None,
    clock: Clock | None = None,
    addresses: Mapping[str, str] | None = None,
    progress: Callable[[str], None] | None = None,
) -> FileBackfill:
    """Read the venues' bulk files of a window into an archive, with all rows of each file.

    Symbols are assets, including delisted ones, or the venue's names of contracts. Files in the ledger are
    fetched again only if the venue has rewritten them; then their rows are corrected in the archive
    (`Archive.corrections`). A `dry_run` fetches only the lists. Files are kept in `folder` if one is given.
    Unreadable and missing files are in `failed` and `notices`. Otherwise as `histories.backfill`.
    """
    clock = clock or MachineClock()
    with_files = list(dict.fromkeys(kind.exchange for kind in FILES))
    window = requested_window(names, TABLES, start, end, clock)
    done = FileBackfill()
    exchanges = list(dict.fromkeys(with_files if venues is None else venues))
    unknown = "files with these tables are not known"
    done.notices += [
        f"{name}: {NOT_IN_FILES.get(name, unknown)}" for name in exchanges if name not in with_files
    ]
    rows = []
    for exchange in exchanges:
        host = FileHost(clock, (addresses or {}).get(exchange))
        job = _Job(archive, exchange, host, done, progress or (lambda _: None), folder)
        try:
            for series in job.planned(list(dict.fromkeys(symbols)), names, window):
                rows.append(_plan_row(series))
                done.terms[exchange] = TERMS[exchange]
                if not dry_run:
                    job.fill(series)
        except ArchiveError:
            raise
        except DerivdataError as problem:
            done.failed.append(f"{exchange}: {str(problem).removeprefix(f'{exchange} ')}")
        finally:
            done.requests += host.requests
            host.close()
    done.plan = pd.DataFrame(rows, columns=_PLAN)
    return done


def _plan_row(series: _Series) -> list[object]:
    """Return the row of a series in the plan."""
    kind = series.kind
    due = series.due
    days = sum((w.end - w.start) / _ASIDE for w in (kind.of(f).window(f.start) for f in due))
    sizes = [file.size for file in due]
    megabytes = None if None in sizes else round(sum(size or 0 for size in sizes) / 1e6, 3)
    stems = [file.start.strftime(kind.of(file).period) for file in series.listed] or [""]
    rows = round(days * sum(kind.tables[table] for table in series.read))
    counts = [len(series.listed), len(series.missing), len(due), megabytes, rows]
    return [kind.exchange, kind.label, series.item.name, stems[0], stems[-1], *counts]


@dataclass
class _Batch:
    """Rows and ledger entries to be written together, by table."""

    frames: dict[str, list[pd.DataFrame]] = field(default_factory=dict)
    entries: dict[str, list[LedgerEntry]] = field(default_factory=dict)
    files: int = 0

    @property
    def is_full(self) -> bool:
        rows = sum(len(frame) for frames in self.frames.values() for frame in frames)
        return rows >= _FLUSH_ROWS or self.files >= _FLUSH_FILES


@dataclass
class _Job:
    """The files of one venue."""

    archive: Archive
    exchange: str
    host: FileHost
    done: FileBackfill
    progress: Callable[[str], None]
    folder: Path | None

    def planned(
        self, symbols: Sequence[str], names: Sequence[str], window: times.Window
    ) -> Iterator[_Series]:
        """Yield the series of every symbol, from the first market with the symbol's contract."""
        kinds = [kind for kind in FILES if kind.exchange == self.exchange and _wanted(kind, names)]
        if not kinds:
            self.done.notices.append(f"{self.exchange}: files with {', '.join(names)} are not known")
        for symbol in symbols:
            labels: set[str] = set()  # kinds with files of the symbol
            for kind in kinds:
                items = [] if kind.label in labels else self.host.contracts(kind, symbol)
                if items:
                    labels.add(kind.label)
                for item in items if kind.dated else items[:1]:
                    if reach := life(item, window):
                        yield self._series(kind, item, _wanted(kind, names), reach)
            absent = dict.fromkeys(kind.label for kind in kinds if kind.label not in labels)
            self.done.notices += [f"{self.exchange} {label}: no files of {symbol}" for label in absent]

    def _series(self, kind: FileKind, item: Instrument, wanted: list[str], window: times.Window) -> _Series:
        """Return the files of a contract in a window by month, or by day if a month's file is missing."""
        listed = self.host.files(kind, item.name, window)
        have = {file.start for file in listed}
        periods = [start for start in kind.periods(window) if start not in have]
        missing_kind = kind
        if kind.days and periods:  # months that are not over or missing: use their days
            missing_kind = kind.daily
            months = periods
            periods = []
            for start in months:
                month = kind.window(start)
                days = times.Window(max(month.start, window.start), min(month.end, window.end))
                daily = self.host.files(kind.daily, item.name, days)
                have = {file.start for file in daily}
                until_end = times.Window(month.start, days.end)
                periods += [day for day in kind.daily.periods(until_end) if day not in have]
                listed += daily
        listed.sort(key=lambda file: file.start)
        # The contract was not listed before the first file, and the newest files are not published yet.
        inside = [p for p in periods if listed and listed[0].start < p < listed[-1].start]
        missing = [p.strftime(missing_kind.period) for p in inside] if kind.listing else []
        read = {table: self.archive.files(table, self.exchange, item.symbol) for table in wanted}
        due = [file for file in listed if not all(map(file.is_read, read.values()))]
        return _Series(kind, item, listed, due, missing, read)

    def fill(self, series: _Series) -> None:
        """Fetch and read the due files of a series, and write their rows in batches.

        If the archive has another contract under the symbol, only this series fails.
        """
        if series.missing:
            self._note(series, f"no file of {_listed(series.missing)}")
        batch = _Batch()
        incomplete = list[str]()
        try:
            try:
                for read in self._reads(series):
                    if read.incomplete:
                        incomplete.append(read.incomplete)
                    self._enter(series, read, batch)
                    if batch.is_full:
                        self._flush(series, batch)
                        batch = _Batch()
            finally:  # also write the rows that were read before an error of the host
                self._flush(series, batch)
        except OtherContract as problem:
            self.done.failed.append(f"{series.label}: {problem}")
        if incomplete:
            self._note(series, f"{len(incomplete)} files lack rows: {_listed(incomplete)}")

    def _reads(self, series: _Series) -> Iterator[_Read]:
        """Yield each file that can be read, and report unreadable and missing files."""
        absent = []
        with nullcontext(self.folder) if self.folder else tempfile.TemporaryDirectory() as folder:
            for file in series.due:
                try:
                    read = self._read(series, file, Path(folder))
                except (Mismatch, _Unread) as problem:
                    self.done.failed.append(f"{series.label}: {problem}")
                    continue
                if read is None:
                    absent.append(file.start.strftime(series.kind.period))
                else:
                    yield read
        if absent:
            self._note(series, f"the venue does not have the files of {_listed(absent)}")

    def _note(self, series: _Series, text: str) -> None:
        self.done.notices.append(f"{series.label}: {text}")

    def _read(self, series: _Series, file: ListedFile, folder: Path) -> _Read | None:
        """Fetch and read a file; return None if the venue does not have it."""
        kind = series.kind.of(file)
        item = series.item
        path = self.host.fetch(kind, file, folder)
        if path is None:
            return None
        body = path.read_bytes()
        name = file.name
        mark = LedgerFile(name, hashlib.sha256(body).hexdigest(), len(body), file.modified)
        window = kind.window(file.start)
        frames = {}
        incomplete = []
        for table in series.read:
            try:
                frame, why = self._rows(kind, item, table, path)
            except ArchiveError as problem:
                raise _Unread(f"{name}: {problem}") from None
            outside = (frame["time"] < window.start - _ASIDE) | (frame["time"] > window.end + _ASIDE)
            if outside.any():
                first = times.iso(frame.loc[outside, "time"].iloc[0])
                raise _Unread(f"{name}: it has a row of {first}, outside its period")
            expected = round((window.end - window.start) / _ASIDE * kind.tables[table])
            if len(frame) < expected and kind.days:
                frame = self._with_days(series, table, frame, window, folder)
            frames[table] = frame
            is_short = len(frame) < expected and kind.tables[table] > _PAYMENTS and not kind.dated
            if why or is_short:
                period = file.start.strftime(kind.period)
                incomplete.append(f"{period} ({len(frame)} of {expected} rows of {table}{why})")
        if self.folder is None:
            path.unlink()
        return _Read(window, mark, frames, "; ".join(incomplete))

    def _with_days(
        self, series: _Series, table: str, frame: pd.DataFrame, month: times.Window, folder: Path
    ) -> pd.DataFrame:
        """Add the rows that are missing in a month's file from the files of its days."""
        daily = series.kind.daily
        counts = frame["time"].dt.floor("D").value_counts()
        frames = [frame]
        for start in daily.periods(month):
            if counts.get(start, 0) < daily.tables[table]:
                day = daily.window(start)
                for file in self.host.files(daily, series.item.name, day):
                    path = self.host.fetch(daily, file, folder)
                    if path is None:
                        continue
                    try:
                        rows, _ = self._rows(daily, series.item, table, path)
                    except ArchiveError as problem:
                        self._note(series, f"{file.name}: {problem}")
                    else:
                        frames.append(rows)
        rows = pd.concat(frames, ignore_index=True)
        return rows.drop_duplicates([*tables.TABLES[table].key], ignore_index=True)

    def _rows(self, kind: FileKind, item: Instrument, table: str, path: Path) -> tuple[pd.DataFrame, str]:
        """Return the rows of a file for a table, and a text about omitted rows.

        Raises `ArchiveError` for a file that cannot be read, has another form or another contract.
        """
        if not path.stat().st_size:  # a month without a payment
            return tables.TABLES[table].empty(), ""
        frame, reason = rows_of_file(path, table, kind.source, kind.fixed)
        others = sorted(set(frame["contract_name"]) - {item.name})
        if others:
            raise ArchiveError(f"it has rows of {others[0]}")
        return frame, reason

    def _enter(self, series: _Series, read: _Read, batch: _Batch) -> None:
        """Add a file to the batch; if an older version of it is stored, correct its rows."""
        batch.files += 1
        for table, frame in read.frames.items():
            symbol = series.item.symbol
            entry = LedgerEntry(self.exchange, symbol, read.window.start, read.window.end, file=read.mark)
            before = series.read[table].get(read.mark.name)
            if before is not None and before.sha256 != read.mark.sha256:
                frame = self._correct(series, table, frame, read)
            batch.frames.setdefault(table, []).append(frame)
            batch.entries.setdefault(table, []).append(entry)

    def _flush(self, series: _Series, batch: _Batch) -> None:
        """Write a batch."""
        for table, frames in batch.frames.items():
            keyed = tables.TABLES[table]
            filled = [frame for frame in frames if len(frame)]
            rows = pd.concat(filled, ignore_index=True) if filled else keyed.empty()
            if series.kind.dated and len(rows):
                rows = self._with_index(series, rows)
            rows = keyed.conform(rows.drop_duplicates([*keyed.key], keep="last"))
            contracts = quoted_contracts([self.exchange], [series.item.symbol], [series.item.name])
            counts = self.archive.merge(table, rows, requests=batch.entries[table], contracts=contracts)
            self.done.count(self.exchange, table, counts.written)
            if counts.differing:
                self._note(
                    series,
                    (
                        f"{counts.differing} rows of {table} already exist with other values, from requests; "
                        "the stored values are kept"
                    ),
                )
            self.progress(f"{series.label}: {table}: {batch.files} files, {counts.written} rows")

    def _with_index(self, series: _Series, rows: pd.DataFrame) -> pd.DataFrame:
        """Add the index price at each row's time, from the archive."""
        window = rows["time"].min(), rows["time"].max() + pd.Timedelta(1, "us")
        prices = self.archive.read(
            "prices_history", *window, symbols=[series.item.symbol], venues=[self.exchange]
        )
        index = prices[prices["kind"] == "index"].drop_duplicates("time").set_index("time")["price_usd"]
        rows = rows.assign(index_price_usd=rows["time"].map(index))
        if missing := int(rows["index_price_usd"].isna().sum()):
            self._note(series, f"{missing} rows lack an index price at their time")
        return rows

    def _correct(self, series: _Series, table: str, frame: pd.DataFrame, read: _Read) -> pd.DataFrame:
        """Replace the stored rows of a file, and return its rows outside its period.

        Stored rows with other steps are kept, and rows of windows that requests answered, unless the file has
        them too.
        """
        keyed = tables.TABLES[table]
        symbol = series.item.symbol
        is_inside = frame["time"].between(*read.window, inclusive="left")
        new = keyed.conform(frame[is_inside])
        fixed = {name: word for name, word in series.kind.fixed.items() if name in keyed.columns}
        fixed |= {"instrument_name": series.item.name} if series.kind.dated else {}
        stored = self.archive.read(table, *read.window, symbols=[symbol], venues=[self.exchange])
        for name, word in fixed.items():
            stored = stored[stored[name] == word]
        key = [*keyed.key]
        in_file = pd.MultiIndex.from_frame(stored[key]).isin(pd.MultiIndex.from_frame(new[key]))
        others = self._answered_by_request(table, symbol, stored["time"])
        if "resolution" in stored:
            others |= ~stored["resolution"].isin(new["resolution"])
        unchanged = stored[others & ~in_file]
        rows = keyed.conform(pd.concat([unchanged, new], ignore_index=True)) if len(unchanged) else new
        if len(rows) or len(stored):
            where = {"symbol": symbol, "exchange": self.exchange, **fixed}
            reason = f"{self.exchange} rewrote {read.mark.name}"
            start, end = read.window
            done = self.archive.replace(table, rows, where, start=start, end=end, reason=reason)
            self.done.count(self.exchange, table, len(new))
            self.done.notices.append(
                f"{reason}: {done.removed} rows of {table} became {done.added} (correction {done.number})"
            )
        return frame[~is_inside]

    def _answered_by_request(self, table: str, symbol: str, stamps: pd.Series) -> pd.Series:
        """Return a mask of times in windows that a request about the symbol answered."""
        ledger = self.archive.requests()
        is_own = (ledger["table"] == table) & (ledger["exchange"] == self.exchange) & ledger["answered"]
        windows = ledger[is_own & (ledger["symbol"] == symbol) & (ledger["source"] == "request")]
        is_answered = pd.Series(False, stamps.index)
        for window in windows[["start", "end"]].itertuples(index=False):
            is_answered |= stamps.between(*window, inclusive="left")
        return is_answered


def _wanted(kind: FileKind, names: Sequence[str]) -> list[str]:
    """Return the tables to read from files; dated futures also need the index."""
    more = ["prices_history"] if DATED in names and kind.fixed.get("kind") == "index" else []
    return [table for table in kind.tables if table in (*names, *more)]


def _listed(words: Sequence[str]) -> str:
    """Join the first words, with the number of the others."""
    more = f" and {len(words) - _SHOWN} more" if len(words) > _SHOWN else ""
    return ", ".join(words[:_SHOWN]) + more
