"""The reading that an import prints: missing rows, and one conversion of each row of large files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from derivdata.sources.archive import import_files, open_archive
from derivdata.sources.archive.importing import importer
from tests.archive.rates import EVER


def _csv(folder: Path, frame: pd.DataFrame) -> Path:
    path = folder / "in.csv"
    frame.to_csv(path, index=False)
    return path


def _hours(first: str, count: int, step: str) -> pd.DatetimeIndex:
    return pd.date_range(first, periods=count, freq=step, tz="UTC")


def _rows(stamps: Any, **columns: Any) -> pd.DataFrame:
    return pd.DataFrame({"symbol": "BTC", "exchange": "okx", "time": stamps, **columns})


def _reading(path: Path, table: str, folder: Path, **options: Any) -> list[str]:
    result = import_files(table, path, folder / "to", dry_run=True, **options)
    return [line for line in result.understood.splitlines() if line.startswith("missing")]


def test_missing_payments_are_counted_by_their_interval(tmp_path: Path) -> None:
    """Ten payments every 8 hours without the fourth, seventh and eighth: 3 rows in 2 runs."""
    stamps = _hours("2026-01-01", 10, "8h").delete([3, 6, 7])
    path = _csv(tmp_path, _rows(stamps, rate_bps_8h=1.0, interval_hours=8))
    assert _reading(path, "funding_settlements", tmp_path) == [
        "missing   3 rows in 2 runs: BTC okx 2026-01-03 00:00 to 2026-01-03 16:00 (2), "
        "BTC okx 2026-01-02 00:00 to 2026-01-02 08:00 (1)"
    ]


def test_missing_payments_without_an_interval_are_counted_by_spacing(tmp_path: Path) -> None:
    stamps = _hours("2026-01-01", 12, "4h").delete([5])
    path = _csv(tmp_path, _rows(stamps, rate=0.0001))
    options: dict[str, Any] = {"map": {"rate_bps_8h": "rate"}, "unit": "native"}
    [line] = _reading(path, "funding_settlements", tmp_path, **options)
    assert line.startswith("missing   1 row in 1 run: BTC okx 2026-01-01 20:00 to 2026-01-02 00:00")


def test_missing_rows_are_counted_by_the_stated_resolution(tmp_path: Path) -> None:
    """Of 48 hours the hours 10 to 14 are missing; ETH is listed for a day and lacks nothing."""
    btc = _rows(_hours("2026-01-01", 48, "1h").delete([10, 11, 12, 13, 14]), oi_usd=1e9, resolution="1h")
    eth = _rows(_hours("2026-01-01", 24, "1h"), oi_usd=1e8, resolution="1h").assign(symbol="ETH")
    path = _csv(tmp_path, pd.concat([btc, eth]))
    assert _reading(path, "oi_history", tmp_path) == [
        "missing   5 rows in 1 run (step 1 h): BTC okx 2026-01-01 10:00 to 2026-01-01 15:00 (5)"
    ]


def test_step_of_raw_rows_needs_nine_of_ten_equal_distances(tmp_path: Path) -> None:
    even = _hours("2026-01-01", 40, "5min").delete([20])
    path = _csv(tmp_path, _rows(even, oi_usd=1e9))
    [line] = _reading(path, "oi_history", tmp_path)
    assert "1 row in 1 run (step 5 min)" in line
    uneven = pd.DatetimeIndex([*even[:20], *(even[20:] + pd.Timedelta(1, "min"))[::3]])
    assert _reading(_csv(tmp_path, _rows(uneven, oi_usd=1e9)), "oi_history", tmp_path) == []


def test_complete_files_have_no_line_of_missing_rows(tmp_path: Path) -> None:
    path = _csv(tmp_path, _rows(_hours("2026-01-01", 40, "1h"), oi_usd=1e9, resolution="1h"))
    assert _reading(path, "oi_history", tmp_path) == []


def test_the_best_quote_of_large_files_is_found_with_one_conversion(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows of BTCUSDC come first and wait until the rows of BTCUSDT are read, which take precedence."""
    conversions = []
    convert = importer.rows

    def counted(chunk: Any, plan: Any) -> Any:
        conversions.append(len(chunk))
        return convert(chunk, plan)

    monkeypatch.setattr("derivdata.sources.archive.importing.readers.CHUNK_ROWS", 2)
    monkeypatch.setattr("derivdata.sources.archive.importing.buffered_rows.HOLD_ROWS", 3)
    monkeypatch.setattr(importer, "rows", counted)
    stamps = _hours("2026-01-01", 6, "1h")
    usdc = _rows(stamps, oi_usd=1e8).assign(symbol="BTCUSDC")
    usdt = _rows(stamps, oi_usd=2e9).assign(symbol="BTCUSDT")
    eth = _rows(stamps, oi_usd=3e7).assign(symbol="ETHUSDC")
    path = _csv(tmp_path, pd.concat([usdc, eth, usdt]))
    result = import_files("oi_history", path, tmp_path / "to")
    assert sum(conversions) == 18
    assert (result.read, result.written, result.other_quotes) == (18, 12, 6)
    rows = open_archive(tmp_path / "to").read("oi_history", *EVER)
    assert rows.groupby("symbol")["oi_usd"].unique().map(list).to_dict() == {"BTC": [2e9], "ETH": [3e7]}
