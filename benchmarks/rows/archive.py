"""Four million rows of funding into an archive, and a month of one pair out of it."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pyarrow
from pyarrow import dataset, parquet
from pyarrow.feather import write_feather

import derivdata as dd
from benchmarks.memory import peak_bytes_of
from benchmarks.row import OURS, Check, Made, Row, faster, growth, stated, within
from derivdata.sources import Query
from derivdata.sources.archive import Archive

__all__ = ["ROWS", "funding_rows"]

_START = pd.Timestamp("2025-09-01", tz="UTC").as_unit("us")


def funding_rows(rows: int, *, venues: int = 20, symbols: int = 60) -> pd.DataFrame:
    """A conformed funding history: hours of all pairs."""
    hours = rows // (venues * symbols)
    stamps = pd.date_range(_START, periods=hours, freq="h").as_unit("us")
    rng = np.random.default_rng(8)
    names = [f"SYM{i:04d}" for i in range(symbols)], [f"venue{i:02d}" for i in range(venues)]
    pair = np.arange(symbols * venues).repeat(hours)
    frame = pd.DataFrame(
        {
            "symbol": pd.Categorical.from_codes(pair // venues, categories=names[0]),
            "exchange": pd.Categorical.from_codes(pair % venues, categories=names[1]),
            "time": np.tile(stamps.asi8, symbols * venues).view("M8[us]"),
            "rate_bps_8h": rng.normal(1, 2, pair.size).round(4),
            "resolution": pd.Categorical.from_codes(np.zeros(pair.size, np.int8), categories=["1h"]),
            "kind": pd.Categorical.from_codes(np.zeros(pair.size, np.int8), categories=["sampled"]),
        }
    )
    frame["time"] = frame["time"].dt.tz_localize("UTC")
    return dd.tables.TABLES["funding_history"].conform(frame)


_WRITE = "DataFrame.to_parquet (pyarrow, snappy), one file"
_BYTES = "limit: the bytes of the columns (Arrow) written to a file"
_ALONE = "limit: a file of these rows alone, read by pyarrow"
_READ = "pandas.read_parquet with filters, one file"


def _append(folder: Path) -> Made:
    frame = funding_rows(4_000_000)
    columns = pyarrow.Table.from_pandas(frame)

    def ours() -> None:
        shutil.rmtree(folder / "archive", ignore_errors=True)
        dd.open_archive(folder / "archive").append("funding_history", frame)

    def sizes() -> list[str]:
        files = [p.stat().st_size / 1e6 for p in (folder / "archive").rglob("*.parquet")]
        frame.to_parquet(folder / "whole.parquet")
        theirs = (folder / "whole.parquet").stat().st_size / 1e6
        return [f"on disk {sum(files):.0f} MB in {len(files)} files; to_parquet {theirs:.0f} MB in one"]

    return Made(
        {
            OURS: ours,
            _WRITE: lambda: frame.to_parquet(folder / "whole.parquet"),
            _BYTES: lambda: write_feather(columns, folder / "bytes", compression="uncompressed"),
        },
        checks=_peaks,
        facts=sizes,
    )


def _peaks() -> list[Check]:
    """Most memory next to the rows themselves, of ten million and of twice as many: both fill all writers."""
    these, four = (peak_bytes_of("append", str(rows)) / 1e6 for rows in (10_000_000, 20_000_000))
    value = f"{these:.0f} MB; {four:.0f} MB with twice the rows"
    return [Check("peak memory beside the rows", value, "twice ≤ 1.25 × these", four <= 1.25 * these)]


def _read(folder: Path) -> Made:
    frame = funding_rows(4_000_000)
    archive = dd.open_archive(folder / "archive")
    archive.append("funding_history", frame)
    frame.to_parquet(folder / "whole.parquet")
    del frame
    start, end = pd.Timestamp("2025-11-01", tz="UTC"), pd.Timestamp("2025-12-01", tz="UTC")
    wanted = [
        ("symbol", "==", "SYM0030"),
        ("exchange", "==", "venue07"),
        ("time", ">=", start),
        ("time", "<", end),
    ]

    def ours() -> pd.DataFrame:
        return archive.read("funding_history", start, end, symbols=["SYM0030"], venues=["venue07"])

    def theirs() -> Any:
        return pd.read_parquet(folder / "whole.parquet", filters=wanted)

    assert ours()["rate_bps_8h"].tolist() == theirs()["rate_bps_8h"].tolist()
    theirs().to_parquet(folder / "alone.parquet")
    sides = {OURS: ours, _READ: theirs, _ALONE: lambda: parquet.read_table(folder / "alone.parquet")}
    return Made(sides, facts=lambda: ["rows equal, one by one"])


_ENGINE = "DuckDB of the same files, which checks no byte"
_HIVE = "DuckDB of hive Parquet, one thread, a folder a month"
_DATASET = "pyarrow.dataset of the same files, filtered"
_DAY, _SUMS = "derivdata, one day of all", "derivdata, sums by venue and hour"


def _series(folder: Path) -> Made:
    """A quarter of a desk, whose months are over: three files, and an hour of the next month in a fourth."""
    archive = dd.open_archive(folder / "archive")
    rows = funding_rows(43 * 60 * 2160, venues=43, symbols=60)
    archive.merge("funding_history", rows)
    end = _START + pd.Timedelta(90, "D")
    archive.merge("funding_history", rows[rows["time"] == _START].assign(time=end + pd.Timedelta(2, "D")))
    _write_by_month(rows[rows["time"] < end], folder / "hive")
    del rows
    files = sorted(map(str, (folder / "archive" / "funding_history").glob("*/*.parquet")))
    wanted = (dataset.field("symbol") == "SYM0045") & (dataset.field("exchange") == "venue07")
    query = (
        f"SELECT * FROM read_parquet({files[:-1]}) WHERE symbol = 'SYM0045' AND exchange = 'venue07' "
        f"AND time >= '{_START}' AND time < '{end}'"
    )
    plain = duckdb.connect()
    plain.execute("SET TimeZone = 'UTC'; SET threads = 1; SET parquet_metadata_cache = true")

    def ours() -> pd.DataFrame:
        return archive.read("funding_history", _START, end, symbols=["SYM0045"], venues=["venue07"])

    def theirs() -> pd.DataFrame:
        return dataset.dataset(files[:-1]).to_table(filter=wanted, use_threads=False).to_pandas()

    def day() -> pd.DataFrame:
        return archive.read("funding_history", _START, _START + pd.Timedelta(1, "D"))

    def sums() -> pd.DataFrame:
        return archive.sums(Query("funding_history", _START, end), "rate_bps_8h")

    assert len(files) == 4
    assert ours()["rate_bps_8h"].tolist() == theirs().sort_values("time")["rate_bps_8h"].tolist()
    by_month = query.replace(str(files[:-1]), f"'{folder}/hive/*/*.parquet', hive_partitioning = true")
    as_it_comes = duckdb.connect()
    as_it_comes.execute("SET TimeZone = 'UTC'; SET threads = 1")
    assert len(as_it_comes.sql(by_month).to_arrow_table()) == len(ours())
    engine = {
        _ENGINE: lambda: plain.sql(query).to_arrow_table().to_pandas(),
        _HIVE: lambda: as_it_comes.sql(by_month).to_arrow_table().to_pandas(),
    }
    sides = {OURS: ours, **engine, _DATASET: theirs, _DAY: day, _SUMS: sums}
    return Made(sides, facts=lambda: ["rows equal, one by one"])


def _write_by_month(rows: pd.DataFrame, folder: Path) -> None:
    """Write rows as DuckDB's hive Parquet, a folder a month, sorted by series and time."""
    texts = {name: rows[name].astype(str) for name in ("symbol", "exchange")}
    source = rows.assign(**texts, month=rows["time"].dt.strftime("%Y-%m"))
    plain = duckdb.connect().register("source", source)
    plain.execute("SET threads = 1")
    plain.execute(
        f"COPY (SELECT * FROM source ORDER BY symbol, exchange, time) TO '{folder}' "
        "(FORMAT parquet, PARTITION_BY (month))"
    )


def _month(folder: Path) -> Made:
    """The append of an hour that closes a month of files by day, next to the same rows rewritten."""
    archive = _filled(folder, 720)
    frame = _hour(archive)
    frame["time"] += pd.Timedelta(31, "D")
    shutil.copytree(folder / "archive-720", folder / "open")

    def close() -> None:
        shutil.rmtree(folder / "closed", ignore_errors=True)
        shutil.copytree(folder / "open", folder / "closed")
        dd.open_archive(folder / "closed").merge("funding_history", frame)

    return Made({OURS: close, _REWRITE: _rewritten(archive, folder)})


_REWRITE = "pandas: read_parquet of the same rows in one file, and to_parquet"


def _sql(folder: Path) -> Made:
    """Make a statement that opens a separate database, next to one with an open database."""
    archive = _filled(folder, 720)
    files = sorted(map(str, (folder / "archive-720" / "funding_history").rglob("*.parquet")))
    asked = (
        "SELECT exchange, avg(rate_bps_8h) AS mean FROM {} WHERE symbol = 'SYM0001' GROUP BY ALL ORDER BY ALL"
    )
    plain = duckdb.connect()
    plain.execute("SET threads = 1")

    def ours() -> pd.DataFrame:
        return archive.sql(asked.format("funding_history"))

    def theirs() -> pd.DataFrame:
        return plain.sql(asked.format(f"read_parquet({files})")).to_arrow_table().to_pandas()

    assert ours()["mean"].tolist() == theirs()["mean"].tolist()
    return Made({OURS: ours, _ENGINE: theirs}, facts=lambda: ["means equal, one by one"])


def _filled(folder: Path, hours: int) -> Archive:
    archive = dd.open_archive(folder / f"archive-{hours}")
    archive.append("funding_history", funding_rows(43 * 30 * hours, venues=43, symbols=30))
    return archive


def _hour(archive: Archive) -> pd.DataFrame:
    return archive.read("funding_history", _START, _START + pd.Timedelta("1h"))


def _replaced(archive: Archive) -> Callable[[], Any]:
    """Replace an hour of one symbol and take it back, so that the next time finds the same."""
    part = _hour(archive).query("symbol == 'SYM0001'")
    window = {"start": _START, "end": _START + pd.Timedelta("1h")}

    def run() -> None:
        archive.replace("funding_history", part, {"symbol": "SYM0001"}, reason="unit", **window)
        archive.undo(int(archive.corrections().index.max()))

    return run


def _rewritten(archive: Archive, folder: Path) -> Callable[[], Any]:
    """The same rows in one file, read and written."""
    file = folder / "rows.parquet"
    archive.read("funding_history", _START, archive.now + pd.Timedelta("1h")).to_parquet(file)
    return lambda: pd.read_parquet(file).to_parquet(folder / "again.parquet")


def _replace(folder: Path) -> Made:
    archive = _filled(folder, 720)
    return Made({OURS: _replaced(archive), _REWRITE: _rewritten(archive, folder)})


def _merge(folder: Path) -> Made:
    archive = _filled(folder, 720)
    rows = _hour(archive)
    sides = {OURS: lambda: archive.merge("funding_history", rows), _REWRITE: _rewritten(archive, folder)}
    return Made(sides)


def _growing_replace(folder: Path, times: int) -> Callable[[], Any]:
    return _replaced(_filled(folder, 60 * times))


ROWS = [
    Row(
        "archive-append",
        what="archive: append",
        given="4,000,000 rows of funding history, 60 symbols × 20 venues",
        make=_append,
        # Rows are checked, divided by month and day, compressed and hashed; compression takes two thirds of
        # the time of to_parquet.
        goals={_WRITE: within(1.5), _BYTES: stated()},
        rounds=3,
    ),
    Row(
        "archive-read",
        what="archive: a month of one symbol on one venue",
        given="720 of 4,000,000 rows",
        make=_read,
        goals={_READ: faster(10), _ALONE: stated()},
        clock="wall",
    ),
    Row(
        "archive-series",
        what="archive: one series of 90 days, whose months are over",
        given="2,160 of 5,572,800 rows in 3 files",
        make=_series,
        goals={_ENGINE: within(2), _HIVE: within(2), _DATASET: faster(10), _DAY: stated(), _SUMS: stated()},
    ),
    Row(
        "archive-month",
        what="archive: a month of files by day becomes one file",
        given="hours of 43 venues × 30 symbols, 0.9 million rows in 30 files, and an hour of the next month",
        make=_month,
        goals={_REWRITE: stated()},
        rounds=3,
    ),
    Row(
        "archive-sql",
        what="archive: a statement, the mean of one symbol by venue",
        given="43 of the 1,290 series of a month, 0.9 million rows in 30 files by day",
        make=_sql,
        goals={_ENGINE: stated()},
    ),
    Row(
        "archive-replace",
        what="archive: an hour of one symbol replaced, and taken back",
        given="a month of hours of 43 venues × 30 symbols, 0.9 million rows",
        make=_replace,
        goals={_REWRITE: stated()},
        rounds=3,
    ),
    Row(
        "archive-merge",
        what="archive: an hour of all pairs that is there already",
        given="to a month of hours of 43 venues × 30 symbols, 0.9 million rows",
        make=_merge,
        goals={_REWRITE: stated()},
        rounds=3,
    ),
    growth(
        "replace",
        "archive: an hour of one symbol replaced, and taken back",
        "43 venues × 30 symbols × 60 hours and up",
        _growing_replace,
        rounds=3,
    ),
]
