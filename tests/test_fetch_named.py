"""Values that are on the wire of the endpoints that the document names without describing."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import numpy as np
import pandas as pd
import pytest

import derivdata as dd
from derivdata.errors import DataNotice, SchemaError
from derivdata.sources import service
from derivdata.tables.definitions import OPEN_TABLES
from tests.support.rows import few_rows
from tests.test_fetch import DAY, FIRST, NOON, fetched
from tests.test_fetch_validation import always, answering

WEEK = pd.Timedelta("7D")


def test_surface_history_is_by_time_expiry_strike_and_side() -> None:
    with few_rows():
        history = fetched("options", "surface_history", "BTC", "deribit", "6h")
    assert history.sizes == {"time": 2, "expiry": 1, "strike": 1, "side": 2}
    place = {"time": "2026-06-30T10:00", "side": "put"}
    assert history["iv"].sel(place).item() == 0.465
    assert np.isnan(history["iv"].sel(time="2026-06-30T11:00", side="put").item())
    assert history["underlying_price"].sel(time="2026-06-30T11:00").item() == 101275.25
    assert int(history["observed"].sum()) == 3
    assert history["year_fraction"].values[1, 0] == pytest.approx((2 + 21 / 24) / 365, rel=1e-14)
    assert dd.provenance(history)["source"] == "api.derivdata.example"


def test_open_tables_infer_column_types() -> None:
    traders = fetched("hip3", "leaderboard", "7d", limit=1).set_index("part")
    row = traders.loc["data"]
    assert row["volume"] == 500000.25, "a numeral in text is a number"
    assert row["address"] == "0x00000000000000000000000000000000000000aa"
    assert row["symbols_traded"] == '["xyz:TSLA", "xyz:NVDA"]', "a list stays as its text"
    assert traders.loc["answer", "total_traders"] == 310
    trends = fetched("hip3", "oi_trends_total", "7d")
    assert trends["day"].dropna().unique().tolist() == [pd.Timestamp("2026-06-29", tz="UTC")]
    assert trends.set_index("key").loc["flx", "oi_usd"] == 1e6
    dashboard = fetched("hip4", "dashboard", "7d", venue="out").set_index("part")
    assert dashboard.loc["answer", "range"] == "7d", "period stands in where range is absent"
    assert dashboard.loc["answer", "success"]
    assert dashboard.loc["by_outcome", "volume"] == 60000.0
    candle = fetched("hip3", "candles", "xyz:TSLA", *DAY).set_index("part").loc["data"]
    assert candle[["open", "high", "low", "close"]].tolist() == [250.5, 252.0, 250.25, 251.75]
    assert candle["timestamp"] == FIRST
    assert fetched("hip4", "dashboard", "7d", venue="out")["outcome_id"].dropna().tolist() == ["7"]
    assert len(fetched("hip4", "outcome", "7", "7d")) == 3


def test_open_table_rule() -> None:
    rows = [
        {"part": "a", "flag": True, "id": "12345678901234567890", "mixed": 1, "time": "soon", "n": None},
        {"part": "a", "flag": None, "id": "2", "mixed": "x", "time": None, "n": "1e3"},
    ]
    frame = OPEN_TABLES["hip3_by_dex"].build(rows)
    assert frame["flag"].tolist() == [True, pd.NA]
    assert frame["id"].tolist() == ["12345678901234567890", "2"], "an id that a float would change stays text"
    assert frame["mixed"].tolist() == ["1", "x"]
    assert frame["time"].iloc[0] == "soon"
    assert frame["n"].iloc[1] == 1000.0
    with pytest.raises(SchemaError, match="expected one object per row, got 3"):
        OPEN_TABLES["hip3_by_dex"].build([3])  # type: ignore[list-item]
    rows = [{"part": "a", "outcome_id": 7, "oid": "12"}, {"part": "a", "outcome_id": 108, "oid": None}]
    frame = OPEN_TABLES["hip4_dashboard"].build(rows)
    assert frame["outcome_id"].tolist() == ["7", "108"]
    assert frame["oid"].iloc[0] == "12"
    assert frame["oid"].isna().tolist() == [False, True]


@pytest.mark.parametrize(
    ("arrived", "kept"),
    [
        (["1234567890123456", "1"], ["1234567890123456", "1"]),
        (["123456789012345", "-7"], [123456789012345.0, -7.0]),
        ([12345678901234567, 1], ["12345678901234567", "1"]),
        ([2**53], [2.0**53]),
        (["007", "12"], ["007", "12"]),
        (["-01"], ["-01"]),
        (["0", "0.5", ".5", "-2.50"], [0.0, 0.5, 0.5, -2.5]),
        (["1e3", "2.5E-4"], [1000.0, 0.00025]),
        (["123e4567"], ["123e4567"]),
        (["1234567.123456789012345678"], [1234567.123456789]),
        (["٣"], ["٣"]),
    ],
)
def test_numerals_that_a_float_would_change_stay_text(arrived: list[Any], kept: list[Any]) -> None:
    rows = [{"part": "a", "number": value} for value in arrived]
    assert OPEN_TABLES["hip3_by_dex"].build(rows)["number"].tolist() == kept


@pytest.mark.parametrize(
    ("window", "sent"),
    [
        (None, None),
        ("24h", "1d"),
        ("180d", "180d"),
        ("ytd", "ytd"),
        (NOON - 30 * WEEK, "210d"),
    ],
)
def test_preset_and_too_long_windows_are_requested_unchanged(window: Any, sent: str | None) -> None:
    with answering(always({"success": True})) as asked:
        dd.hip3.by_dex(window)
    assert [dict(request.query) for request in asked] == [{} if sent is None else {"range": sent}]


@pytest.mark.parametrize(
    ("call", "sent"),
    [
        (lambda: dd.hip3.by_dex("8d"), "30d"),
        (lambda: dd.hip3.timeseries_symbol("100d"), "all"),
        (lambda: dd.hip4.dashboard("2026-06-24"), "7d"),
        (lambda: dd.hip4.outcome(7, pd.Timestamp("2026-06-23T11:59", tz="UTC")), "30d"),
        (lambda: dd.builders.dashboard("25h"), "7d"),
    ],
)
def test_other_windows_use_the_shortest_preset_that_contains_them(call: Any, sent: str) -> None:
    with (
        answering(always({"success": True})) as asked,
        pytest.warns(DataNotice, match=f"is not available, range={sent} is used") as caught,
    ):
        call()
    assert [dict(request.query) for request in asked] == [{"range": sent}]
    assert {w.filename for w in caught} == {__file__}


def test_two_hour_sums_use_the_four_hour_preset_with_a_notice() -> None:
    with pytest.warns(DataNotice, match="window=2h is not available, range=4h is used"):
        frame = fetched("liquidations", "aggregates", "2h", group_by="exchange")
    assert dd.provenance(frame)["requests"][0]["query"]["range"] == "4h"


@pytest.mark.parametrize(
    ("by_dex", "rows"),
    [
        ({"xyz": [{"oi_usd": 1}], "flx": []}, [("xyz", 1)]),
        ({"xyz": [], "flx": []}, []),
        ({}, []),
    ],
)
def test_an_empty_list_gives_no_rows(by_dex: dict[str, Any], rows: list[tuple[str, int]]) -> None:
    with answering(always({"success": True, "data": [], "by_dex": by_dex})):
        frame = dd.hip3.oi_trends_total()
    assert frame["part"].tolist() == ["answer", *["by_dex"] * len(rows)]
    assert "data" not in frame
    if rows:
        result = frame[frame["part"] == "by_dex"]
        assert list(zip(result["key"], result["oi_usd"], strict=True)) == rows


def test_notices_of_open_tables_are_given() -> None:
    with closing(service.start("sample", keys={"dev-key": "dev"})) as local:
        dd.connect(local.url, api_key="dev-key")
        with pytest.warns(DataNotice, match="Dev covers the rolling 30 days"):
            frame = dd.hip3.by_dex("90d")
    assert any("30 days" in notice for notice in dd.provenance(frame)["notices"])


def test_candles_of_a_long_window_are_complete() -> None:
    dd.connect("sample")
    frame = dd.hip3.candles("xyz:TSLA", "30d", interval="15m")
    candles = frame[frame["part"] == "data"]
    assert len(candles) == 30 * 24 * 4
    steps = candles["timestamp"].diff().dropna()
    assert set(steps) == {pd.Timedelta("15min")}, "each once, in order"
    assert (frame["part"] == "answer").sum() == 1
    few = dd.hip3.candles("xyz:TSLA", "2026-06-01", "2026-06-02", interval="1h", limit=10)
    assert (few["part"] == "data").sum() == 24


def test_candle_windows_are_half_open_and_invalid_ones_raise() -> None:
    frame = fetched("hip3", "candles", "xyz:TSLA", *DAY, cassette="hip3_candles_closed")
    assert frame.loc[frame["part"] == "data", "timestamp"].tolist() == [FIRST]
    with pytest.raises(ValueError, match="end= needs start=: pass both, or a lookback such as '7d' as start"):
        dd.hip3.candles("xyz:TSLA", end="2026-06-02")
    with pytest.raises(ValueError, match=r"limit=1 and interval='1m' split the window .* more than 10,000"):
        dd.hip3.candles("xyz:TSLA", "2026-01-01", "2026-02-01", interval="1m", limit=1)
    for window in ((), DAY):
        with pytest.raises(ValueError, match="limit must be at least 1, got 0"):
            dd.hip3.candles("xyz:TSLA", *window, limit=0)


def test_failed_or_undocumented_response_is_a_schema_error() -> None:
    with pytest.raises(SchemaError, match="success is false: no such dex"):
        fetched("hip3", "by_dex", "1d", cassette="failed_by_dex")
    with pytest.raises(SchemaError, match=r"/orderbook/book.*bids.*dd\.raw"):
        fetched("orderbook", "book", "BTC", "binance", cassette="broken_book")
