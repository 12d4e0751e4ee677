"""Status of an archive: holes are what lies between polls beyond the usual."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from derivdata import tables
from derivdata.archive import Request, open_archive
from derivdata.collect.status import status

FIRST = pd.Timestamp("2026-03-02T08:00:00", tz="UTC").as_unit("us")


@pytest.mark.parametrize(("table", "minutes", "holes"), [
    ("options_snapshot", range(0, 60, 5), 0),
    ("options_snapshot", [0, 5, 15, 20], 1),
    ("funding_history", range(60), 0),
    ("funding_history", [0, 1, 3, 4, 9], 2),
])  # fmt: skip
def test_a_hole_is_longer_than_from_one_poll_to_the_next(
    tmp_path: Path, table: str, minutes: list[int], holes: int
) -> None:
    """Deribit's chain comes every five minutes, its rates every minute; a poll's window is of one minute."""
    archive = open_archive(tmp_path / "market")
    starts = [FIRST + pd.Timedelta(minute, "min") for minute in minutes]
    asked = [Request("deribit", None, at, at + pd.Timedelta(1, "min")) for at in starts]
    archive.append(table, tables.TABLES[table].empty(), requests=asked)
    found = status(archive, FIRST + pd.Timedelta(1, "h"))
    assert found[["exchange", "table", "holes"]].to_numpy().tolist() == [["deribit", table, holes]]
