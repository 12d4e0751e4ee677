"""Wrong payment intervals that earlier versions stored: `derivdata audit` lists and corrects them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import derivdata as dd
from derivdata.__main__ import main
from derivdata.sources.archive import Archive, open_archive
from derivdata.sources.archive.archive import add_rows, stored_faults
from derivdata.sources.archive.schemas import archive_table

TABLE = "funding_settlements"
START = pd.Timestamp("2025-10-01", tz="UTC")
NATIVE = 0.0001


def old_rows(exchange: str, gaps: list[int], *, per_hour: bool, **columns: object) -> pd.DataFrame:
    """Return payments as versions without `interval_source` stored them: the interval is the gap before."""
    hours = np.cumsum([0, *gaps])
    interval = np.array([gaps[0], *gaps], dtype=float)
    rate = np.full(len(hours), NATIVE * 8e4) if per_hour else NATIVE * 8e4 / interval
    frame = pd.DataFrame({
        "symbol": "BTC",
        "exchange": exchange,
        "time": START + pd.to_timedelta(hours, "h"),
        "rate_bps_8h": rate,
        "interval_hours": interval,
        "kind": "settled",
        **columns,
    })  # fmt: skip
    return dd.tables.TABLES[TABLE].conform(frame)


def store(archive: Archive, rows: pd.DataFrame) -> None:
    """Store rows as they are, without the intervals that an append assigns."""
    add_rows(archive._storage, archive_table(TABLE), rows, (), None, synthetic=False, timeout=9.0)


def audit(folder: Path, *options: str, capsys: pytest.CaptureFixture[str]) -> str:
    assert main(["audit", str(folder), *options]) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize(
    ("exchange", "gaps", "step", "per_hour", "wrong"),
    [
        ("dydx", [1] * 10 + [4] + [1] * 10, 1.0, True, 1),
        ("kraken", [1] * 10 + [8] + [1] * 5 + [2] + [1] * 10, 1.0, True, 2),
        ("hyperliquid", [1] * 10 + [8] + [1] * 10, 1.0, False, 1),
        ("binance", [4] * 10 + [8] + [4] * 3 + [8, 8] + [4] * 10, 4.0, False, 3),
        ("bybit", [8] * 10 + [24] + [8] * 10, 8.0, False, 1),
    ],
)
def test_intervals_that_bridge_missing_payments_are_corrected(
    exchange: str,
    gaps: list[int],
    step: float,
    per_hour: bool,
    wrong: int,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    archive = open_archive(tmp_path)
    rows = old_rows(exchange, gaps, per_hour=per_hour)
    store(archive, rows)
    text = f"{exchange} BTC"
    result = audit(tmp_path, capsys=capsys)
    assert f"{wrong:,} payments with a wrong interval; the first has" in result
    assert text in result
    pd.testing.assert_frame_equal(archive.read(TABLE)[[*rows.columns]], rows)
    audit(tmp_path, "--repair", capsys=capsys)
    stored = archive.read(TABLE)
    assert stored["interval_hours"].tolist() == [step] * len(rows)
    hourly = NATIVE if per_hour else NATIVE / step
    np.testing.assert_allclose(stored["rate_bps_8h"], hourly * 8e4)
    panel = dd.panel(stored)
    total = dd.analysis.funding.cumulative(panel, gaps="skip")
    paid = NATIVE * 1e4 * (step if per_hour else 1.0) * len(rows)
    np.testing.assert_allclose(total["funding_bps"].isel(time=-1).item(), paid)
    missing = sum(gap - step for gap in gaps)
    assert total["missing_hours"].isel(time=-1).item() == missing
    assert "no faults found" in audit(tmp_path, capsys=capsys)
    (number,) = archive.corrections().index
    archive.undo(int(number))
    assert archive.read(TABLE)["interval_hours"].tolist() == rows["interval_hours"].tolist()


def test_audit_repairs_single_daily_payments_and_accepts_interval_changes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A change 8 to 4 to 1 to 6 hours is right; of daily files every payment was read as 8 h."""
    archive = open_archive(tmp_path)
    store(archive, old_rows("binance", [8] * 6 + [4] * 6 + [1] * 6 + [6] * 6 + [8, 8], per_hour=False))
    assert "no faults found" in audit(tmp_path, capsys=capsys)
    rows = old_rows("kucoin", [4] * 12, per_hour=False).assign(interval_hours=8.0, rate_bps_8h=NATIVE * 1e4)
    store(archive, rows)
    assert "kucoin BTC" in audit(tmp_path, "--repair", capsys=capsys)
    stored = archive.read(TABLE, venues=["kucoin"])
    assert stored["interval_hours"].unique().tolist() == [4.0]
    np.testing.assert_allclose(stored["rate_bps_8h"], 2 * NATIVE * 1e4)


def test_stated_intervals_are_unchanged(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    archive = open_archive(tmp_path)
    rows = old_rows("okx", [4] * 8 + [8] + [4] * 8, per_hour=False, interval_source="row")
    store(archive, rows.assign(rate_native=NATIVE, payment_count=1))
    assert "no faults found" in audit(tmp_path, capsys=capsys)


def test_a_repair_keeps_payments_that_another_process_appends_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Hours 14 and 23 have wrong intervals. One of the hours 20 to 22 is appended after each read."""
    archive = open_archive(tmp_path)
    rows = old_rows("dydx", [1] * 10 + [4] + [1] * 5 + [4] + [1] * 5, per_hour=True)
    store(archive, rows)
    other = open_archive(tmp_path)
    missing = [20, 21, 22]
    read = Archive.read

    def read_before_an_append(self: Archive, *args: object, **options: object) -> pd.DataFrame:
        result = read(self, *args, **options)
        store(other, rows.iloc[[0]].assign(time=START + pd.Timedelta(missing.pop(0), "h")))
        return result

    monkeypatch.setattr(Archive, "read", read_before_an_append)
    faults = stored_faults(archive, repair=True)
    monkeypatch.undo()
    appended = {20, 21, 22} - {*missing}
    assert appended
    assert faults["repaired"].tolist() == [True]
    stored = archive.read(TABLE)
    hours = ((stored["time"] - START) / pd.Timedelta(1, "h")).tolist()
    assert hours == sorted({*range(11), *range(14, 20), *range(23, 29), *appended})
    assert stored["interval_hours"].tolist() == [1.0] * len(hours)
