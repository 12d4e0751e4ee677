"""Recorded files into an archive: CSV, JSON and Parquet, with the rows that do not fit counted."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, TypeAlias

import pandas as pd
from tqdm import tqdm

from derivdata.errors import ArchiveError
from derivdata.sources.archive.archive import Archive, open_archive
from derivdata.sources.archive.audit import quoted_contracts
from derivdata.sources.archive.importing.conversion import (
    CONTRACT,
    RANK,
    Rows,
    quotes,
    rows,
    usd_from_coins,
    with_ids,
)
from derivdata.sources.archive.importing.formats import Format, Reads, format_of
from derivdata.sources.archive.importing.plan import Given, ImportPlan, is_of_contracts, make_plan
from derivdata.sources.archive.importing.readers import Chunk, chunks
from derivdata.sources.archive.schemas import archive_table
from derivdata.tables.contracts import contract, venue_slug

__all__ = ["Imported", "import_files"]
__dir__ = __all__.copy

FLUSH_ROWS = 500_000
_Path: TypeAlias = str | os.PathLike[str]


@dataclass(frozen=True)
class Imported:
    """Counts of the rows of an import, by outcome.

    Attributes
    ----------
    table
        Table that the rows went to.
    read, written
        Rows of all files, and those that are new in the archive.
    present, differing
        Rows whose key was there already, with the same values or with others; what was there stays.
    other_quotes
        Rows of a contract whose symbol has one on the venue in a quote currency of higher priority.
    superseded
        Rows of options whose chain has a newer row of the same instrument.
    rejected
        Rows that do not fit the table.
    first_rejected
        File, line (or record, from 1) and reason of the first of them.
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
    table: str,
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
) -> Imported:
    """Bring recorded files into an archive.

    Parameters
    ----------
    table
        Name of the table that the rows are, such as ``"funding_settlements"``.
    files
        CSV, JSON (one list of records, or one record per line), both also gzipped or the one file of a zip,
        or Parquet.
    to
        Folder of the archive; it is made where there is none.
    map
        Column of the table to the file's column, ``{"time": "Date", "rate_bps_8h": "Funding Rate"}``. A
        column of the same name needs no entry.
    set
        Column of the table to one value for every row, ``{"exchange": "binance", "interval_hours": "8"}``.
    tz
        Zone of instants that state none: ``"Europe/London"``, ``"UTC"``, ``"UTC+3"`` (three hours ahead).
        Without it such rows are rejected. Numbers are seconds, ms, µs or ns since 1970, by their size.
    unit
        What the file's funding rates are: ``"bps_8h"`` (the default), or per the venue's own
        `interval_hours`: ``"native"`` (a fraction), ``"percent"`` or ``"bps"``. For options what ``iv`` is:
        ``"decimal"`` (the default) or ``"percent"``. For open interest what ``oi_usd`` is: ``"usd"`` (the
        default) or ``"coins"``, which become USD by ``price_usd`` (of the file, `map` or `set`), or by the
        newest price of the hour before each row that the archive has.
    map_values
        House name to the file's words and the table's, ``{"side": {"sell": "long", "buy": "short"}}``.
    accept
        Questions that were answered, of those that an import asks where values give a mistake away:
        ``"unit"``, ``"interval"``, ``"schedule"``, ``"venues"``, ``"future"``; see `Archive.append`.
    source
        Who wrote the files, where their columns and units are known: ``"binance"``, ``"okx"``, ``"gate"``,
        ``"kucoin"``, ``"htx"``, ``"hyperliquid"``, ``"tardis"``, ``"cryptohftdata"``, ``"velo"`` or
        ``"coinglass"``. `map`, `set`, `tz`, `unit` and `map_values` say what the files do not, or otherwise.

    Returns
    -------
    Imported
        Counts that add up to the rows read; ``print`` it.

    Raises
    ------
    ValueError
        There is no such table, column, zone, unit or source.
    ArchiveError
        A file cannot be read, lacks a column, has values that cannot be in the unit that was meant, or has
        no row that fits; or the archive cannot be written. Rows of earlier files may be in the archive
        then: the same import again adds the rest.

    Notes
    -----
    Contract names become base symbols (``BTC-USDT`` is ``BTC``); of a symbol with several quote currencies
    on a venue only the first of USDT, USD, USDC, BUSD, UST is taken, where a table has one value per
    symbol, venue and instant: name all files of a venue in one call. Liquidations of all are taken.
    Liquidations without an order id get one from a hash of the row; equal rows of one file stay apart.
    A local hour that the clock shows twice is the first of the two, or the second where a row repeats it.
    """
    given = Given(map or {}, set or {}, tz, unit, map_values or {}, accept)
    listed = [files] if isinstance(files, str | os.PathLike) else files
    paths = [Path(file).expanduser() for file in listed]
    if not paths:
        raise ValueError("files: name at least one")
    parts = [(path, plan) for path in paths for plan in _plans(table, path, source, given)]
    report = ImportReport(parts[0][1], open_archive(to), _best_ranks(parts))
    for path, plan in tqdm(parts, desc=table, unit="file", disable=None):
        for converted in converted_rows(path, plan):
            report.take(path, converted)
    report.flush()
    if report.read and report.rejected == report.read:
        raise ArchiveError(f"none of {report.read:,} rows fits {table}; the first: {report.first_rejected}")
    return Imported(table, **{f.name: getattr(report, f.name) for f in fields(Imported)[1:]})


class ImportReport:
    """Counts of one import."""

    def __init__(self, plan: ImportPlan, archive: Archive, best: Mapping[tuple[str, str], int]) -> None:
        self.read = self.written = self.present = self.differing = self.other_quotes = self.rejected = 0
        self.superseded = 0
        self.first_rejected: str | None = None
        self._plan = plan
        self._archive = archive
        self._best = best
        self._waiting: list[pd.DataFrame] = []
        self._contracts: dict[str, str] = {}

    def take(self, path: Path, chunk: Rows) -> None:
        """Count the rows of a chunk, and keep those to write."""
        self.read += len(chunk.frame) + chunk.rejected
        self.rejected += chunk.rejected
        if chunk.first is not None and self.first_rejected is None:
            self.first_rejected = f"{path.name}, {chunk.first}"
        self._waiting.append(self._of_best_quote(chunk.frame))
        if sum(map(len, self._waiting)) >= FLUSH_ROWS:
            self.flush()

    def flush(self) -> None:
        """Append what waits."""
        if not any(map(len, self._waiting)):
            return
        rows = pd.concat([frame for frame in self._waiting if len(frame)], ignore_index=True)
        self._waiting = []
        again = rows.duplicated(list(self._plan.table.key))
        equal = rows.duplicated()
        rows = rows[~again]
        if self._plan.unit == "coins":
            rows = usd_from_coins(rows, self._archive)
        absent: dict[str, Any] = dict.fromkeys({*self._plan.table.columns} - {*rows.columns})
        counts = self._archive.merge(
            self._plan.table.name,
            rows.assign(**absent),
            unit=self._plan.unit,
            accept=self._plan.accept,
            contracts=self._contracts,
        )
        self.superseded += len(rows) - sum(counts)
        self.written += counts.written
        self.present += counts.present + int((again & equal).sum())
        self.differing += counts.differing + int((again & ~equal).sum())

    def _of_best_quote(self, frame: pd.DataFrame) -> pd.DataFrame:
        if RANK not in frame.columns:
            return frame
        if self._best:
            pairs = zip(frame["exchange"], frame["symbol"], strict=True)
            best = frame[RANK].to_numpy() == [self._best[pair] for pair in pairs]
            self.other_quotes += int((~best).sum())
            frame = frame[best]
        if is_of_contracts(self._plan.table):
            self._contracts |= quoted_contracts(frame["exchange"], frame["symbol"], frame[CONTRACT])
        return frame.drop(columns=[RANK, CONTRACT])


def _plans(table: str, path: Path, source: str | None, given: Given) -> list[ImportPlan]:
    """Return how a file is read: as the caller says, or as the source's form of it says where he does not."""
    if source is None:
        return [make_plan(table, given)]
    form, said = format_of(source, table, path)
    return [plan_of(form, reads, said, given) for reads in form.reads if reads.table == table]


def plan_of(form: Format, reads: Reads, said: Mapping[str, str], given: Given) -> ImportPlan:
    """Return how a file of a known form is read; what is `given` comes before the form and the path."""
    constants = {**form.set, **reads.set, **said, **given.set}
    constants = {name: form.values.get(name, {}).get(word, word) for name, word in constants.items()}
    known = {*archive_table(reads.table).columns, "interval_hours"}
    whole = given._replace(
        map={n: c for n, c in {**reads.map, **given.map}.items() if n not in given.set},
        set={n: w for n, w in constants.items() if n not in given.map and n in known},
        tz=given.tz or "UTC",
        unit=given.unit or reads.unit,
        values={**form.values, **given.values},
    )
    return make_plan(reads.table, whole, form.header, reads.adjusted_by(given))


def converted_rows(path: Path, plan: ImportPlan, read: Iterable[Chunk] | None = None) -> Iterator[Rows]:
    """Yield the rows of a file as the table's, some at a time; what is `read` of it is not read again."""
    seen: Counter[str] = Counter()
    for chunk in chunks(path, plan.wanted, plan.header) if read is None else read:
        with _of(path):
            converted = rows(chunk, plan)
        yield converted._replace(frame=with_ids(converted.frame, plan.made, seen))


def _best_ranks(parts: list[tuple[Path, ImportPlan]]) -> dict[tuple[str, str], int]:
    """Highest priority among the quotes of each symbol on each venue; empty where there is no choice."""
    best: dict[tuple[str, str], int] = {}
    if is_of_contracts(parts[0][1].table):
        for path, plan in parts:
            for venue, symbol, rank in _quotes(path, plan):
                best[venue, symbol] = min(rank, best.get((venue, symbol), rank))
    return best


def _quotes(path: Path, plan: ImportPlan) -> Iterator[tuple[str, str, int]]:
    """Yield venue, symbol and the quote's rank of the contracts of a file."""
    if {"symbol", "exchange"} <= plan.constants.keys():
        named = contract(plan.constants["symbol"])
        yield venue_slug(plan.constants["exchange"]), named.symbol, named.rank
        return
    for chunk in chunks(path, plan.wanted, plan.header):
        with _of(path):
            contracts = quotes(chunk, plan)
        yield from contracts


@contextmanager
def _of(path: Path) -> Iterator[None]:
    try:
        yield
    except ArchiveError as problem:
        raise ArchiveError(f"{path}: {problem}") from None
