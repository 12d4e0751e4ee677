"""Tables with a quantity and its value in each row: each quantity is read, wherever it is in the file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from derivdata.sources.archive import import_files, open_archive
from derivdata.sources.archive.importing import readers
from tests.archive.rates import EVER

_START = 1_772_323_200  # 2026-03-01T00:00Z
_HEADER = "timestamp,exchange,symbol,metric,value\n"


def _lines(metric: str, values: list[str], seconds: int) -> str:
    lines = [
        f"{_START + seconds * number},binance,BTCUSDT,{metric},{value}" for number, value in enumerate(values)
    ]
    return "\n".join(lines) + "\n"


def _import(folder: Path, content: str, **said: Any) -> Any:
    path = folder / "long.csv"
    path.write_text(_HEADER + content, encoding="utf-8")
    return import_files(None, path, folder / "to", **said)


def _rows(folder: Path, table: str) -> pd.DataFrame:
    return open_archive(folder / "to").read(table, *EVER)


@pytest.mark.parametrize("rows", [readers.CHUNK_ROWS, 2_400])
def test_quantities_after_the_head_of_a_file_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows: int
) -> None:
    """2,500 rows of open interest come before three payments."""
    monkeypatch.setattr(readers, "CHUNK_ROWS", rows)
    interest = _lines("open_interest_usd", ["6000000000"] * 2_500, 300)
    rates = _lines("funding_rate", ["0.0001", "0.00005", "0.0002"], 28_800)
    result = _import(tmp_path, interest + rates)
    assert (result.written, result.rejected) == (2_503, 0)
    assert _rows(tmp_path, "funding_settlements")["rate_native"].tolist() == [0.0001, 0.00005, 0.0002]
    assert len(_rows(tmp_path, "oi_history")) == 2_500


def test_rows_of_unknown_quantities_and_without_values_are_not_rejected(tmp_path: Path) -> None:
    """The summary names the quantity that no table has; an empty value is not a row."""
    rates = _lines("funding_rate", ["0.0001", "", "0.0002", "0.0001"], 28_800)
    result = _import(tmp_path, rates + _lines("sentiment", ["5", "7"], 28_800))
    assert (result.read, result.written, result.rejected) == (3, 3, 0)
    assert "not read  sentiment" in result.understood
