"""DuckDB and polars read the files of an archive, and find the rows that the library finds."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest

from derivdata.sources.archive import Archive, open_archive
from tests.archive.rates import EVER, START, rates

_KEY = ["symbol", "exchange", "time"]


@pytest.fixture
def archive(tmp_path: Path) -> Archive:
    """Two months, a correction whose old rows are kept in a file of their own, and files that were merged."""
    archive = open_archive(tmp_path / "derivs")
    archive.append("funding_history", rates(hours=72))
    archive.append("funding_history", rates(hours=96))
    archive.append("funding_history", rates(["SOL"], start=START + pd.Timedelta("40D")))
    archive.replace("funding_history", rates(["ETH"], plus=0.5), {"symbol": "ETH"}, reason="units")
    return archive


def live_files(archive: Archive) -> list[str]:
    """Return the files that count, as the page on large archives says: those of the table in archive.json."""
    manifest = json.loads((archive.path / "archive.json").read_bytes())
    return [str(archive.path / part["file"]) for part in manifest["tables"]["funding_history"]["parts"]]


def expected(archive: Archive) -> pd.DataFrame:
    rows = archive.read("funding_history", *EVER)[[*_KEY, "rate_bps_8h"]]
    return pd.DataFrame(rows.astype({"symbol": str, "exchange": str}))


def test_duckdb_reads_the_same_rows(archive: Archive) -> None:
    duckdb = pytest.importorskip("duckdb")
    with duckdb.connect() as engine:
        engine.execute("SET TimeZone = 'UTC'")
        found = engine.execute(
            "SELECT symbol, exchange, epoch_us(time) AS time, rate_bps_8h FROM read_parquet($1) ORDER BY ALL",
            [live_files(archive)],
        ).fetchall()
    rows = expected(archive).assign(time=lambda x: x["time"].astype("int64"))
    assert found == list(rows.itertuples(index=False, name=None))


def test_polars_reads_the_same_rows(archive: Archive) -> None:
    polars = pytest.importorskip("polars")
    frame = polars.scan_parquet(live_files(archive)).select([*_KEY, "rate_bps_8h"]).collect()
    frame = frame.with_columns(polars.col("symbol", "exchange").cast(polars.String)).sort(_KEY)
    assert frame.schema["time"] == polars.Datetime("us", "UTC")
    micros = frame.with_columns(polars.col("time").cast(polars.Int64))
    rows = expected(archive).assign(time=lambda x: x["time"].astype("int64"))
    assert micros.rows() == list(rows.itertuples(index=False, name=None))
