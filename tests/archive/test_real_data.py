"""Recorded data through an archive, against values read by eye in the files (docs/real-data.md)."""

from __future__ import annotations

import pytest

from derivdata.sources.archive import Archive, open_archive
from tests.archive.rates import EVER
from tests.support.real_archive import real_archive


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Archive:
    return open_archive(real_archive(tmp_path_factory), create=False)


def test_every_row_of_every_file_is_stored(archive: Archive) -> None:
    """Lines of the files but their headings; 287 × 39 × 2 snapshots but 52 that are null."""
    assert archive.info()["rows"].to_dict() == {
        "funding_history": 22_334,
        "funding_settlements": 2 * (4383 + 3285 + 3284 + 3285 + 3285 + 4290 + 17520),
        "liquidations_events": 2_243,
        "oi_history": 43_590,
        "options_snapshot": 10_704,
    }


def test_every_venue_settles_on_its_own_grid(archive: Archive) -> None:
    """Time zones are right: only kucoin is four hours off; huobi paid late seven times, according to its
    file.
    """
    rows = archive.read("funding_settlements", *EVER)
    first = rows["exchange"].map({"kucoin": 4}).astype(float).fillna(0.0)
    hours = rows["time"].dt.round("min").dt.hour
    late = rows[(hours - first) % rows["interval_hours"] != 0]
    assert late["exchange"].unique().tolist() == ["huobi"]
    assert late["symbol"].value_counts().to_dict() == {"BTC": 7, "ETH": 7}
