"""Payments that arrive in several files or refills: the order does not change the stored rows."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from derivdata.sources.archive import import_files, open_archive
from derivdata.sources.archive.importing.adjustments import spaced
from derivdata.sources.archive.payments import CompletedPayments, complete_payments
from derivdata.sources.archive.schemas import archive_table
from derivdata.tables.payments import VALID_HOURS
from tests.archive.rates import EVER
from tests.support.examples import examples

TABLE = archive_table("funding_settlements")
START = pd.Timestamp("2025-01-01", tz="UTC")
COLUMNS = ["time", "rate_bps_8h", "interval_hours", "rate_native", "payment_count"]

Schedule = list[tuple[int, float, float]]  # hours after the start, interval [h], fraction paid


class Store:
    """Stored rows in memory, which change as an archive's do."""

    def __init__(self) -> None:
        self.rows = file_rows([(1, 1.0, 0.0)], is_per_interval=True).iloc[:0]
        self.changes: list[CompletedPayments] = []

    def read(self, symbols: object, start: pd.Timestamp, end: pd.Timestamp) -> pd.DataFrame:
        return self.rows[(self.rows["time"] >= start) & (self.rows["time"] <= end)]

    def add(self, rows: pd.DataFrame) -> None:
        done = complete_payments(rows, self.read)
        assert done.conflicts == []
        self.changes.append(done)
        replaced = pd.concat([done.completed, done.changed, done.added])
        unchanged = self.rows[~self.rows["time"].isin(replaced["time"])]
        frames = [frame for frame in (unchanged, replaced, done.fresh) if len(frame)]
        if frames:
            self.rows = pd.concat(frames).sort_values("time").reset_index(drop=True)


def file_rows(payments: Schedule, *, is_per_interval: bool) -> pd.DataFrame:
    """Return the rows of one file without intervals: payments, or rates per 8 hours."""
    rates = [paid * 1e4 * (1.0 if is_per_interval else 8.0 / hours) for _, hours, paid in payments]
    frame = pd.DataFrame(
        {
            "symbol": "AAA",
            "exchange": "okx",
            "contract_name": "AAA-USDT-SWAP",
            "kind": "settled",
            "time": pd.DatetimeIndex([START + pd.Timedelta(at, "h") for at, _, _ in payments]).as_unit("us"),
            "rate_bps_8h": rates,
        }
    )
    rows = spaced(frame, per_interval=is_per_interval)
    absent = {name: None for name in TABLE.columns if name not in rows}
    return TABLE.conform(rows.assign(**absent)[[*TABLE.columns]])


@st.composite
def arrivals(draw: st.DrawFn) -> tuple[Schedule, list[Schedule]]:
    """Draw payments of one to four phases, some of them missing, and the files in which they arrive."""
    phases = draw(
        st.lists(st.tuples(st.sampled_from(VALID_HOURS), st.integers(1, 14)), min_size=1, max_size=4)
    )
    payments: Schedule = []
    at = 0.0
    for interval, count in phases:
        for _ in range(count):
            at += interval
            payments.append((int(at), interval, (len(payments) % 7 + 1) * 1e-5))
    size = len(payments)
    is_paid = np.array(draw(st.lists(st.integers(0, 5), min_size=size, max_size=size))) > 0
    if draw(st.booleans()):
        file_numbers = draw(st.lists(st.integers(0, 2), min_size=size, max_size=size))
    else:
        first = draw(st.integers(0, size))
        last = draw(st.integers(first, size))
        file_numbers = [0] * first + [1] * (last - first) + [2] * (size - last)
    order = draw(st.permutations(range(3)))
    files = []
    for number in order:
        rows = zip(payments, file_numbers, is_paid, strict=True)
        files.append([payment for payment, of_file, paid in rows if paid and of_file == number])
    paid_rows = [payment for payment, paid in zip(payments, is_paid, strict=True) if paid]
    return paid_rows, [payments_of_file for payments_of_file in files if payments_of_file]


@given(arrival=arrivals(), is_per_interval=st.booleans())
@examples(short=10, long=300)
def test_any_order_of_files_stores_the_rows_of_one_import(
    arrival: tuple[Schedule, list[Schedule]], is_per_interval: bool
) -> None:
    paid, files = arrival
    if not paid:
        return
    at_once = Store()
    at_once.add(file_rows(paid, is_per_interval=is_per_interval))
    in_turn = Store()
    for payments in files:
        before = in_turn.rows.set_index("time")["interval_hours"]
        in_turn.add(file_rows(payments, is_per_interval=is_per_interval))
        after = in_turn.rows.set_index("time")["interval_hours"].reindex(before.index)
        done = in_turn.changes[-1]
        listed = {*done.completed["time"], *done.changed["time"]}
        is_other = ~((before == after) | (before.isna() & after.isna()))
        assert listed == {*before.index[is_other]}
    pd.testing.assert_frame_equal(in_turn.rows[COLUMNS], at_once.rows[COLUMNS], rtol=1e-12)


def test_rate_per_8h_is_unchanged_when_later_rows_change_the_interval() -> None:
    """The first payments after a change from 4 to 8 hours look like every second one of 4 hours."""
    payments: Schedule = [(4 * n, 4.0, 4e-5) for n in range(1, 7)] + [
        (24 + 8 * n, 8.0, 8e-5) for n in range(1, 5)
    ]
    store = Store()
    store.add(file_rows(payments[:8], is_per_interval=False))
    assert store.rows["interval_hours"].tolist() == [4.0] * 8
    store.add(file_rows(payments[8:], is_per_interval=False))
    assert store.rows["interval_hours"].tolist() == [4.0] * 6 + [8.0] * 4
    np.testing.assert_allclose(store.rows["rate_bps_8h"], 0.8, rtol=1e-12)


def test_payments_of_many_symbols_are_completed_in_batches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stored and new rows, a change of the interval, and the log equal those of one pass."""
    hours = pd.date_range("2026-01-01", periods=40, freq="8h", tz="UTC")
    frames = [
        pd.DataFrame({"symbol": symbol, "exchange": "okx", "time": hours, "rate": 0.0001})
        for symbol in ("BTC", "ETH", "SOL", "XRP", "ADA")
    ]
    rows = pd.concat(frames).sort_values("time", kind="stable")
    results = []
    for most in (1_000_000, 30):
        monkeypatch.setattr("derivdata.sources.archive.payments._ROWS_AT_ONCE", most)
        folder = tmp_path / str(most)
        folder.mkdir()
        for name, part in (("second", rows[100:]), ("first", rows[:120])):
            part.to_csv(folder / f"{name}.csv", index=False)
            counts = import_files(
                "funding_settlements",
                folder / f"{name}.csv",
                folder / "archive",
                map={"rate_bps_8h": "rate"},
                unit="native",
            )
        assert (counts.written, counts.present) == (100, 20)
        stored = open_archive(folder / "archive").read("funding_settlements", *EVER)
        results.append(stored.sort_values(["symbol", "time"], ignore_index=True))
    assert results[0]["interval_hours"].tolist() == [8.0] * 200
    pd.testing.assert_frame_equal(results[0], results[1])
