"""The newest rows of each series and the newest chains, against reading everything."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from derivdata.sources.archive import Archive, open_archive, schemas
from derivdata.sources.archive.schemas import archive_table
from tests.archive.rates import START, rates

FUNDING = "funding_history"
CHAIN = "options_snapshot"


@pytest.fixture
def small_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schemas, "GROUP_ROWS", 8)
    monkeypatch.setattr("derivdata.sources.archive.writing.SMALL_ROWS", 8)


def chains(days: int) -> pd.DataFrame:
    """Chains of two venues, at irregular times, of two to four options each."""
    draw = np.random.default_rng(5)
    stamps = START + pd.to_timedelta(np.sort(draw.integers(0, days * 86_400, 30 * days)), "s")
    rows = [
        {
            "symbol": "BTC",
            "exchange": ("okx", "deribit")[i % 2],
            "time": stamp,
            "instrument_name": f"BTC-{strike}",
            "expiry": START + pd.Timedelta(90, "D"),
            "strike": float(strike),
            "side": "call",
            "iv": 0.5,
            "open_interest": float(i),
            "underlying_price": 1e5,
        }
        for i, stamp in enumerate(stamps.unique())
        for strike in range(100, 102 + i % 3)
    ]
    return pd.DataFrame(rows).astype({"time": "datetime64[us, UTC]"})


def oracle(
    archive: Archive, table: str, at: pd.Timestamp, within: pd.Timedelta, **chosen: Any
) -> pd.DataFrame:
    """By reading all that could be among them."""
    rows = archive.read(table, at - within, at + pd.Timedelta(1, "us"), **chosen)
    by = [name for name in archive_table(table).key if name not in ("time", "instrument_name")]
    newest = rows.groupby(by, observed=True)["time"].transform("max")
    return archive_table(table).conform(rows[rows["time"] == newest])


@pytest.mark.parametrize("table", [FUNDING, CHAIN])
@pytest.mark.usefixtures("small_files")
def test_newest_rows_equal_a_plain_search_at_any_time(tmp_path: Path, table: str) -> None:
    archive = open_archive(tmp_path)
    frame = rates(["BTC", "ETH", "SOL"], hours=100) if table == FUNDING else chains(5)
    order = np.random.default_rng(3).permutation(frame["time"].unique())
    for start in range(0, len(order), 60):
        archive.append(table, frame[frame["time"].isin(order[start : start + 60])], accept=["unit"])
    for hours in (-1.0, 0.0, 0.5, 26.0, 48.0, 47.9, 95.3, 99.0, 130.0, 400.0):
        for within in (pd.Timedelta(1, "h"), pd.Timedelta(3, "D")):
            for chosen in ({}, {"symbols": ["BTC"]}, {"venues": ["okx"]}):
                at = START + pd.Timedelta(hours, "h")
                expected = oracle(archive, table, at, within, **chosen)
                pd.testing.assert_frame_equal(archive.latest(table, at, within=within, **chosen), expected)


@pytest.mark.usefixtures("small_files")
def test_a_correction_is_seen_in_the_newest_rows(tmp_path: Path) -> None:
    archive = open_archive(tmp_path)
    archive.append(FUNDING, rates())
    archive.delete(FUNDING, {"exchange": "okx"}, start=START + pd.Timedelta(90, "h"))
    newest = archive.latest(FUNDING, archive.now, within=pd.Timedelta(9, "D")).groupby(
        "exchange", observed=True
    )
    assert newest["rate_bps_8h"].max().to_dict() == {"binance": 95.0, "okx": 89.0}
    names = {file.path for file in archive._manifest().files()}
    assert {str(p.relative_to(tmp_path)) for p in tmp_path.glob("*/*/*")} == names
