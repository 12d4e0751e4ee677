"""Polars reads the files of an archive, and finds the rows that the library finds."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from derivdata.sources.archive import open_archive
from tests.archive.rates import EVER, START, rates
from tests.archive.test_writers import named_files


def test_polars_reads_the_same_rows(tmp_path: Path) -> None:
    """Two months, with a correction whose old rows are in a separate file, and merged files.

    The valid files are listed for the table in archive.json, as the page on large archives describes.
    """
    polars = pytest.importorskip("polars")
    archive = open_archive(tmp_path)
    archive.append("funding_history", rates(hours=72))
    archive.append("funding_history", rates(hours=96))
    archive.append("funding_history", rates(["SOL"], start=START + pd.Timedelta("40D")))
    archive.replace("funding_history", rates(["ETH"], plus=0.5), {"symbol": "ETH"}, reason="units")
    columns = ["symbol", "exchange", "time", "rate_bps_8h"]
    files = [tmp_path / name for name in named_files(tmp_path)]
    frame = polars.scan_parquet(files).select(columns).collect()
    assert frame.schema["time"] == polars.Datetime("us", "UTC")
    names = polars.col("symbol", "exchange").cast(polars.String)
    result = frame.with_columns(names, polars.col("time").cast(polars.Int64)).sort(columns[:3])
    rows = archive.read("funding_history", *EVER)[columns]
    plain = rows.astype({"symbol": str, "exchange": str, "time": "int64"})
    assert result.rows() == list(plain.itertuples(index=False, name=None))
