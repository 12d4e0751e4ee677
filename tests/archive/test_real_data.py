"""Recorded data through an archive, against the files as they are read by eye (docs/real-data.md)."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from derivdata.sources.archive import Archive, import_files, open_archive
from tests.archive.rates import EVER
from tests.support.instants import at
from tests.support.real_archive import real_archive
from tests.support.shared import shared_path


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Archive:
    return open_archive(real_archive(tmp_path_factory), create=False)


def test_every_row_of_every_file_is_there(archive: Archive) -> None:
    """Lines of the files but their headings; 287 × 39 × 2 snapshots but 52 that are null."""
    assert archive.info()["rows"].to_dict() == {
        "funding_history": 22_334,
        "funding_settlements": 2 * (4383 + 3285 + 3284 + 3285 + 3285 + 4290 + 17520),
        "liquidations_events": 2_243,
        "oi_history": 43_590,
        "options_snapshot": 10_704,
    }


def test_every_venue_settles_on_its_own_grid(archive: Archive) -> None:
    """The zones are right: kucoin alone is four hours off; huobi paid late seven times, by its file."""
    rows = archive.read("funding_settlements", *EVER)
    first = rows["exchange"].map({"kucoin": 4}).astype(float).fillna(0.0)
    hours = rows["time"].dt.round("min").dt.hour
    late = rows[(hours - first) % rows["interval_hours"] != 0]
    assert late["exchange"].unique().tolist() == ["huobi"]
    assert late["symbol"].value_counts().to_dict() == {"BTC": 7, "ETH": 7}


def test_summer_time_of_a_real_file(tmp_path: Path) -> None:
    """Every settlement of 18 months in London's local time falls on 00, 08 or 16 UTC, none is lost."""
    path = shared_path("data/funding_basis_2023_2024/all_exchanges.csv")
    result = import_files(
        "funding_settlements",
        path,
        tmp_path / "basis",
        map={"symbol": "pair", "rate_bps_8h": "funding rate"},
        set={"interval_hours": "8"},
        tz="Europe/London",
        unit="native",
    )
    rows = open_archive(tmp_path / "basis").read("funding_settlements", *EVER)
    assert sorted(set(rows["time"].dt.hour)) == [0, 8, 16]
    spot = sum(",spot," in line for line in path.read_text().splitlines())
    assert result.rejected == spot
    assert result.written == result.other_quotes == (result.read - spot) // 2
    changed = rows[rows["time"] == at("2023-10-29")].set_index(["exchange", "symbol"])["rate_bps_8h"]
    assert changed["okx", "ETH"] == pytest.approx(0.401294508916, rel=1e-11)
    gaps = rows.groupby(["symbol", "exchange"], observed=True)["time"].diff().dropna()
    assert set(gaps) == {pd.Timedelta("8h")}
