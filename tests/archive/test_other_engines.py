"""Polars reads the files of an archive, and finds the rows that the library finds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

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


def of_polars(files: list[str]) -> list[tuple[Any, ...]]:
    polars = pytest.importorskip("polars")
    frame = polars.scan_parquet(files).select([*_KEY, "rate_bps_8h"]).collect()
    assert frame.schema["time"] == polars.Datetime("us", "UTC")
    names = polars.col("symbol", "exchange").cast(polars.String)
    return list(frame.with_columns(names, polars.col("time").cast(polars.Int64)).sort(_KEY).rows())


def test_another_engine_reads_the_same_rows(archive: Archive) -> None:
    rows = archive.read("funding_history", *EVER)[[*_KEY, "rate_bps_8h"]]
    plain = rows.astype({"symbol": str, "exchange": str, "time": "int64"})
    assert of_polars(live_files(archive)) == list(plain.itertuples(index=False, name=None))
