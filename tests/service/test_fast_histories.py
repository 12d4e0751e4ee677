"""Histories summed without sorting or whole rows, against the simple implementation."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from derivdata import open_archive, tables
from derivdata.sources import Query, sample
from derivdata.sources.service.answers.options import at_hours, at_the_money
from tests.service import slow_answers

SAMPLE = sample.open()
DAYS = [pd.Timestamp(day, tz="UTC").as_unit("us") for day in ("2026-05-14", "2026-05-16")]


def chains() -> pd.DataFrame:
    """Two days of chains, some late, two missing, with rows that are not quoted and two equal distances."""
    frame = SAMPLE.read("options_snapshot", *DAYS, symbols=["BTC"], venues=["deribit"])
    late = frame["time"].dt.hour % 5 == 2
    frame["time"] = frame["time"].mask(late, frame["time"] + pd.Timedelta(10, "min"))
    gap = (frame["time"] - DAYS[0]) / pd.Timedelta(1, "h")
    frame = frame[(gap < 5.5) | (gap > 7.5)]
    rng = np.random.default_rng(3)
    frame.loc[rng.random(len(frame)) < 0.02, "iv"] = np.nan
    frame.loc[rng.random(len(frame)) < 0.01, "underlying_price"] = 0.0
    first = frame["time"] == frame["time"].min()
    strikes = np.sort(frame["strike"][first].unique())
    middle = strikes.searchsorted(frame["underlying_price"].median())
    frame.loc[first, "underlying_price"] = (strikes[middle] + strikes[middle - 1]) / 2
    return frame.sample(frac=1.0, random_state=5)


def test_atm_volatility_equals_the_slow_reference() -> None:
    frame = chains()
    hours = pd.date_range(DAYS[0], DAYS[1], freq="1h", inclusive="left", unit="us")
    expected = slow_answers.at_the_money(slow_answers.at_hours(frame, hours))
    result = at_hours(frame, hours)
    assert len(result) > 400
    assert result["time"].nunique() == 47  # at 7:00 the chain of 5:00 holds no longer
    pd.testing.assert_frame_equal(result, expected[result.columns], check_dtype=False, rtol=1e-14)
    nothing = tables.TABLES["options_snapshot"].empty()
    assert at_the_money(nothing).empty
    assert at_hours(nothing, pd.DatetimeIndex([DAYS[0]])).empty


READS = [
    ("liquidations_fills", ["exchange", "order_id", "time", "side", "value_usd"]),
    ("options_snapshot", ["time", "expiry", "strike", "iv", "underlying_price"]),
    ("options_snapshot", ["instrument_name", "open_interest", "gamma", "mark_coin"]),
    ("oi_history", ["symbol", "exchange", "time", "oi_usd", "resolution"]),
    ("markets_symbol_exchanges", ["symbol", "price_usd"]),
]


def in_order(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.sort_values(list(frame.columns), ignore_index=True)


@pytest.mark.parametrize("stored", [False, True], ids=["sample", "archive"])
@pytest.mark.parametrize(("table", "columns"), READS, ids=[t for t, _ in READS])
def test_selected_columns_equal_those_of_the_whole_table(
    table: str, columns: list[str], stored: bool, tmp_path: Path
) -> None:
    """Dtypes too, also without rows."""
    few = ["BTC"], ["deribit", "okx"]
    last = DAYS[0] + pd.Timedelta(3, "h")
    store = SAMPLE
    if stored:
        store = open_archive(tmp_path / "a")
        end, venues = last + pd.Timedelta(1, "h"), ["binance", "deribit", "okx"]
        store.merge(table, SAMPLE.read(table, DAYS[0], end, symbols=["BTC", "ETH"], venues=venues))
    complete = store.rows(Query(table, DAYS[0], last, *few))
    result = store.rows(Query(table, DAYS[0], last, *few, columns))
    assert len(result) >= 3
    pd.testing.assert_frame_equal(in_order(result), in_order(complete[columns]))
    empty = store.rows(Query(table, DAYS[0], DAYS[0], *few, columns))
    pd.testing.assert_frame_equal(empty, store.rows(Query(table, DAYS[0], DAYS[0], *few))[columns])


def test_archive_rejects_unknown_columns(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="rate_bps"):
        open_archive(tmp_path).read("oi_history", *DAYS, columns=["rate_bps_8h"])
