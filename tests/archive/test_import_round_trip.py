"""Rows that were exported come back equal through every format, and are not written again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

from derivdata import tables
from derivdata.sources.archive import import_files, open_archive
from derivdata.tables.schema import Kind
from tests.archive.rates import EVER

_CELLS: dict[Kind, list[object]] = {
    Kind.TEXT: ["b", "a", "c d"],
    Kind.LABEL: ["x", "007", "z,1"],
    Kind.NUMBER: [0.5, 0.1, None],
    Kind.COUNT: [3, 1, 2],
    Kind.RANK: [30, 10, None],
    Kind.FLAG: [True, False, True],
    Kind.TIME: [pd.Timestamp(f"2026-01-0{day}T08:00:00.123456Z") for day in (3, 1, 2)],
}
_OWN: dict[str, list[object]] = {
    "symbol": ["ETH", "BTC", "kPEPE"],
    "exchange": ["okx", "binance", "myvenue"],
    "interval_hours": [8.0, 4.0, 1.0],
    "long_short_ratio": [0.5, 0.1, 2.0],
    "rate_native": [0.05, 0.01, None],
    "start": [pd.Timestamp(f"2026-01-0{day}T08:00Z") for day in (3, 1, 2)],
    "end": [pd.Timestamp(f"2026-01-0{day}T10:00Z") for day in (3, 1, 2)],
}
_FORMATS: dict[str, Callable[[pd.DataFrame, Path], None]] = {
    "csv": lambda frame, path: frame.to_csv(path, index=False),
    "parquet": lambda frame, path: frame.to_parquet(path),
    "jsonl": lambda frame, path: path.write_text(
        frame.to_json(orient="records", lines=True, date_format="iso", date_unit="us", double_precision=15)
    ),
    "feather": lambda frame, path: frame.to_feather(path),
}


def _rows(name: str) -> pd.DataFrame:
    """Three rows of distinct values; optional columns are missing in one of them."""
    table = tables.TABLES[name]
    columns = {}
    for column, how in table.columns.items():
        cells = _OWN.get(column) or [*how.allowed * 3][:3] or _CELLS[how.kind]
        needed = column in table.key or (column not in table.optional and how.kind is not Kind.RANK)
        columns[column] = [0.25 if cell is None and needed else cell for cell in cells]
    frame = pd.DataFrame(columns)
    if name == "funding_settlements":  # payments are of whole hours
        frame["time"] = frame["time"].dt.floor("h")
    return frame


@pytest.mark.parametrize("form", _FORMATS)
@pytest.mark.parametrize("name", sorted(n for n, t in tables.TABLES.items() if "time" in t.columns))
def test_export_round_trips_and_is_not_stored_twice(tmp_path: Path, name: str, form: str) -> None:
    archive = open_archive(tmp_path / "first")
    archive.append(name, _rows(name), accept=["unit", "venues", "interval", "schedule"])
    rows = archive.read(name, *EVER)
    assert len(rows) == 3
    path = tmp_path / f"{name}.{form}"
    _FORMATS[form](rows, path)
    accept = ["unit", "venues", "interval", "schedule"]
    for table in (name, None):
        counts = import_files(table, path, tmp_path / "first", accept=accept)
        assert (counts.read, counts.written, counts.present, counts.differing) == (3, 0, 3, 0), counts
        import_files(table, path, tmp_path / f"again-{table}", accept=accept)
        pd.testing.assert_frame_equal(open_archive(tmp_path / f"again-{table}").read(name, *EVER), rows)
