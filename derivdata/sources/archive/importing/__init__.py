"""Recorded files into an archive: CSV, JSON and Parquet, with the rows that do not fit counted."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from tqdm import tqdm

from derivdata.errors import ArchiveError
from derivdata.sources.archive.archive import open_archive
from derivdata.sources.archive.importing.conversion import Rows, quotes, rows
from derivdata.sources.archive.importing.plan import ImportPlan, make_plan
from derivdata.sources.archive.importing.readers import chunks
from derivdata.sources.archive.importing.report import ImportReport, with_ids

__all__ = ["Imported", "import_files"]


def __dir__() -> list[str]:
    return __all__


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
    rejected: int
    first_rejected: str | None

    def __str__(self) -> str:
        counts = f"{self.table}: {self.read:,} rows read, {self.written:,} written"
        more = {
            "already there with other values (those first seen stay)": self.differing,
            "of a quote currency of lower priority": self.other_quotes,
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
) -> Imported:
    """Bring recorded files into an archive.

    Parameters
    ----------
    table
        Name of the table that the rows are, such as ``"funding_settlements"``.
    files
        CSV, JSON (one list of records, or one record per line), both also gzipped, or Parquet.
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

    Returns
    -------
    Imported
        Counts that add up to the rows read; ``print`` it.

    Raises
    ------
    ValueError
        There is no such table, column, zone or unit.
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
    plan = make_plan(table, map or {}, set or {}, tz, unit, values=map_values, accept=accept)
    listed = [files] if isinstance(files, str | os.PathLike) else files
    paths = [Path(file).expanduser() for file in listed]
    if not paths:
        raise ValueError("files: name at least one")
    report = ImportReport(plan, open_archive(to), _best_ranks(paths, plan))
    for path in tqdm(paths, desc=table, unit="file", disable=None):
        for converted in _converted(path, plan):
            report.take(path, converted)
    report.flush()
    if report.read and report.rejected == report.read:
        raise ArchiveError(f"none of {report.read:,} rows fits {table}; the first: {report.first_rejected}")
    counts = {name: getattr(report, name) for name in ("read", "written", "present", "differing")}
    return Imported(
        table=table,
        **counts,
        other_quotes=report.other_quotes,
        rejected=report.rejected,
        first_rejected=report.first_rejected,
    )


def _converted(path: Path, plan: ImportPlan) -> Iterator[Rows]:
    seen: Counter[str] = Counter()
    for chunk in chunks(path, plan.wanted):
        with _of(path):
            converted = rows(chunk, plan)
        yield converted._replace(frame=with_ids(converted.frame, plan.made, seen))


def _best_ranks(paths: list[Path], plan: ImportPlan) -> dict[tuple[str, str], int]:
    """Highest priority among the quotes of each symbol on each venue; empty where there is no choice."""
    best: dict[tuple[str, str], int] = {}
    if set(plan.table.key) != {"symbol", "exchange", "time"} or "symbol" in plan.constants:
        return best
    for path in paths:
        for chunk in chunks(path, plan.wanted):
            with _of(path):
                contracts = quotes(chunk, plan)
            for venue, symbol, rank in contracts:
                best[venue, symbol] = min(rank, best.get((venue, symbol), rank))
    return best


@contextmanager
def _of(path: Path) -> Iterator[None]:
    try:
        yield
    except ArchiveError as problem:
        raise ArchiveError(f"{path}: {problem}") from None
