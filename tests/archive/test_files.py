"""Contents of single files: the rows of their month or day, in order, with the ranges that reads need."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq
import pytest

from derivdata.sources.archive import open_archive, schemas
from derivdata.sources.archive import writing as appending
from tests.archive.rates import EVER, START, conformed, rates

ROWS = 80


@pytest.mark.parametrize("step", ["10D", "11h", "1h", "1min"])
@pytest.mark.parametrize("month_rows", [4_000_000, 0])
@pytest.mark.parametrize("batch", [1, 7, ROWS, 2 * ROWS - 1, 2 * ROWS])
def test_files_hold_the_rows_of_a_plain_groupby(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str, month_rows: int, batch: int
) -> None:
    """Two pairs with sparse rows, from three per month to all in one month."""
    monkeypatch.setattr(appending, "MONTH_ROWS", month_rows)
    monkeypatch.setattr(appending, "BATCH_ROWS", batch)
    frame = rates(["BTC"], hours=ROWS)
    steps = (frame["time"] - START) // pd.Timedelta("1h")
    frame["time"] = (START + steps * pd.Timedelta(step)).dt.as_unit("us")
    assert open_archive(tmp_path).append("funding_history", frame, accept=["future"]) == 2 * ROWS
    files = {path.parent.name: path for path in tmp_path.rglob("*.parquet")}
    month, day = (frame["time"].dt.strftime(label) for label in ("%Y-%m", "%Y-%m-%d"))
    by_day = (month == month.max()) & (len(frame[month == month.max()]) > month_rows)
    groups = dict(iter(frame.groupby(day.where(by_day, month))))
    assert files.keys() == groups.keys()
    for name, group in groups.items():
        result = conformed(pq.ParquetFile(files[name]).read().to_pandas())
        pd.testing.assert_frame_equal(result, conformed(group))


@pytest.mark.parametrize("group_rows", [1, 7, 1_000_000])
def test_files_have_row_groups_of_the_configured_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, group_rows: int
) -> None:
    monkeypatch.setattr(schemas, "GROUP_ROWS", group_rows)
    frame = rates()
    archive = open_archive(tmp_path)
    archive.append("funding_history", frame)
    for path in tmp_path.rglob("*.parquet"):
        held = pq.read_metadata(path)
        sizes = [held.row_group(i).num_rows for i in range(held.num_row_groups)]
        assert all(size == group_rows for size in sizes[:-1])
        assert sizes[-1] <= group_rows
    pd.testing.assert_frame_equal(archive.read("funding_history", *EVER), conformed(frame))


def test_only_filter_columns_have_statistics(tmp_path: Path) -> None:
    open_archive(tmp_path).append("funding_history", rates())
    for path in tmp_path.rglob("*.parquet"):
        group = pq.read_metadata(path).row_group(0)
        ranged = {group.column(i).path_in_schema for i in range(6) if group.column(i).statistics is not None}
        assert ranged == {"symbol", "exchange", "time"}
        optional = {field.name for field in pq.read_schema(path) if field.nullable}
        assert optional == {"rate_bps_8h", "resolution", "kind"}
