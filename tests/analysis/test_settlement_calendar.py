import pandas as pd
import pytest

import derivdata as dd
from derivdata.analysis.funding import next_settlements


def paid(*rows: tuple[str, str, str, float]) -> pd.DataFrame:
    """Payments of (symbol, venue, stamp, interval)."""
    return dd.tables.TABLES["funding_settlements"].build(
        {
            "symbol": [row[0] for row in rows],
            "exchange": [row[1] for row in rows],
            "timestamp": pd.DatetimeIndex([row[2] for row in rows], tz="UTC"),
            "y": [1.0] * len(rows),
            "interval_hours": [row[3] for row in rows],
            "kind": ["settled"] * len(rows),
        }
    )


TABLE = paid(
    ("BTC", "binance", "2026-11-01 00:00:00.004", 8.0),
    ("BTC", "binance", "2026-11-01 08:00:00.011", 4.0),  # it pays every four hours since
    ("BTC", "hyperliquid", "2026-11-01 09:00:00", 1.0),
    ("ETH", "okx", "2026-10-30 16:00:00", 8.0),
    ("BTC", "hyperliquid", "2026-11-02 09:00:00", 1.0),  # of the future: not looked at
)


def test_next_payment_is_one_interval_after_the_last_one() -> None:
    due = next_settlements(TABLE, "2026-11-01 09:30").set_index(["symbol", "exchange"])
    assert due["time"].is_monotonic_increasing
    binance = due.loc[("BTC", "binance")]
    assert binance["time"] == pd.Timestamp("2026-11-01 12:00", tz="UTC"), "the last one was 11 ms late"
    columns = ["hours_until", "interval_hours", "missed", "basis"]
    assert binance[columns].tolist() == [2.5, 4.0, 0, "payments"]
    assert due.loc[("BTC", "hyperliquid"), "time"] == pd.Timestamp("2026-11-01 10:00", tz="UTC")


def test_next_payment_after_missed_ones_is_overdue() -> None:
    """okx last paid ETH on 30 October at 16:00. Five payments were due until 1 November at 08:00."""
    due = next_settlements(TABLE, "2026-11-01 09:30").set_index(["symbol", "exchange"])
    okx = due.loc[("ETH", "okx")]
    assert okx["time"] == pd.Timestamp("2026-11-01 16:00", tz="UTC")
    assert (okx["basis"], okx["missed"]) == ("overdue", 5)


def test_payment_at_the_time_itself_is_not_the_next_one() -> None:
    due = next_settlements(TABLE, "2026-11-01 09:00").set_index(["symbol", "exchange"])
    assert due.loc[("BTC", "hyperliquid"), "time"] == pd.Timestamp("2026-11-01 10:00", tz="UTC")


@pytest.mark.parametrize(
    ("at", "basis", "missed"),
    [
        ("2026-10-31 00:00:00", "payments", 0),
        ("2026-10-31 00:00:30", "payments", 0),
        ("2026-10-31 00:02", "overdue", 1),
        ("2026-10-31 05:00", "overdue", 1),
        ("2026-10-31 09:00", "overdue", 2),
    ],
)
def test_a_payment_is_missed_a_minute_after_it_was_due(at: str, basis: str, missed: int) -> None:
    """okx last paid on 30 October at 16:00, of eight hours: the next is due at midnight."""
    row = next_settlements(TABLE, at).set_index(["symbol", "exchange"]).loc[("ETH", "okx")]
    assert (row["basis"], row["missed"]) == (basis, missed)
    due = "2026-10-31 16:00" if missed == 2 else "2026-10-31 08:00"
    assert row["time"] == pd.Timestamp(due, tz="UTC")


def test_venues_without_payments_take_the_interval_of_the_facts_or_are_unknown() -> None:
    due = next_settlements(
        TABLE, "2026-11-01 09:30", symbols=["BTC", "LPT"], venues=["binance", "dydx", "risex"]
    )
    due = due.set_index(["symbol", "exchange"])
    assert due.loc[("LPT", "binance"), ["interval_hours", "basis"]].tolist() == [4.0, "facts"]
    assert due.loc[("LPT", "binance"), "time"] == pd.Timestamp("2026-11-01 12:00", tz="UTC")
    assert due.loc[("BTC", "dydx"), "hours_until"] == 0.5
    assert due.loc[("BTC", "risex"), "basis"] == "unknown"
    assert pd.isna(due.loc[("BTC", "risex"), "time"])
    assert due.loc[("BTC", "binance"), "basis"] == "payments"


def test_empty_payments_give_an_empty_calendar() -> None:
    assert next_settlements(TABLE, "2026-01-01").empty
    with pytest.raises(ValueError, match="interval_hours"):
        next_settlements(TABLE.drop(columns="interval_hours"), "2026-11-01")
