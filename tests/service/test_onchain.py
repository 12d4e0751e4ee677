"""HIP-3, HIP-4 and builders: sums over single traders, by hand."""

from __future__ import annotations

from typing import Any

import pytest

from tests.service.conftest import Caller

HIP3 = "/hip3-analytics"
HIP4 = "/hip4-analytics"


def hip3(ask: Caller, name: str, **params: Any) -> Any:
    body = ask.body(f"{HIP3}/{name}", **params)
    assert body["success"] is True
    assert body["notices"] == []
    return body


def test_dexes(ask: Caller) -> None:
    """xyz: 100 + 300 + 50; the 999 of the quarter that begins now is not known yet."""
    body = hip3(ask, "by-dex")
    assert (body["period"], body["range"]) == ("7d", "7d")
    assert body["data"] == [
        {
            "dex_name": "xyz",
            "volume": 450.0,
            "total_fees": 0.45,
            "trade_count": 4,
            "liquidation_value_usd": 50.0,
            "liquidation_count": 1,
            "unique_users": 2,
        },
        {
            "dex_name": "flx",
            "volume": 20.0,
            "total_fees": 0.02,
            "trade_count": 1,
            "liquidation_value_usd": 0.0,
            "liquidation_count": 0,
            "unique_users": 1,
        },
    ]
    assert hip3(ask, "by-dex", range="30d")["data"][1]["volume"] == 27.0


def test_symbols(ask: Caller) -> None:
    rows = hip3(ask, "by-symbol")["data"]
    assert [(r["dex"], r["symbol"], r["volume_usd"], r["trades"], r["unique_users"]) for r in rows] == [
        ("xyz", "TSLA", 400.0, 3, 2),
        ("xyz", "NVDA", 50.0, 1, 1),
        ("flx", "TSLA", 20.0, 1, 1),
    ]
    assert rows[0]["builder_fees_usd"] == 0.2
    assert len(hip3(ask, "by-symbol", limit=1)["data"]) == 1
    assert [r["dex"] for r in hip3(ask, "by-symbol", dex="flx")["data"]] == ["flx"]


def test_dashboard_and_detail_have_the_same_totals(ask: Caller) -> None:
    board = hip3(ask, "dashboard")
    assert (board["summary"]["volume"], board["summary"]["unique_users"]) == (470.0, 2)
    assert board["by_dex"] == hip3(ask, "by-dex")["data"]
    assert sum(row["volume_usd"] for row in board["timeseries"]) == 470.0
    detail = hip3(ask, "dex-detail", dex="xyz")
    assert (detail["dex_name"], detail["summary"]["volume"]) == ("xyz", 450.0)
    assert [row["symbol"] for row in detail["by_symbol"]] == ["TSLA", "NVDA"]


def test_volume_over_time(ask: Caller) -> None:
    rows = hip3(ask, "timeseries/symbol", symbol="TSLA")["data"]
    assert [(r["timestamp"], r["volume_usd"]) for r in rows] == [
        ("2026-06-29T13:00:00Z", 100.0),
        ("2026-06-30T11:00:00Z", 320.0),
    ]
    coin = hip3(ask, "timeseries/symbol", symbol="flx:TSLA")["data"]
    assert [r["volume_usd"] for r in coin] == [20.0]
    days = hip3(ask, "timeseries/symbol", range="all")
    assert [(r["timestamp"], r["volume_usd"]) for r in days["data"]] == [
        ("2026-06-20T00:00:00Z", 7.0),
        ("2026-06-29T00:00:00Z", 100.0),
        ("2026-06-30T00:00:00Z", 370.0),
    ]
    assert days["range"] == "all"


def test_breakdown_is_wide(ask: Caller) -> None:
    by_dex = hip3(ask, "timeseries/dex-breakdown")
    assert by_dex["symbols"] == ["flx", "xyz"]
    assert by_dex["data"][1] == {"timestamp": "2026-06-30T11:00:00Z", "flx": 20.0, "xyz": 350.0}
    assert by_dex["data"][0] == {"timestamp": "2026-06-29T13:00:00Z", "xyz": 100.0}
    assert hip3(ask, "timeseries/dex-breakdown", dex="xyz")["symbols"] == ["NVDA", "TSLA"]


def test_traders(ask: Caller) -> None:
    body = hip3(ask, "leaderboard")
    assert body["total_traders"] == 2
    assert body["data"] == [
        {
            "address": "0xb",
            "volume": 300.0,
            "fees_paid": 0.3,
            "deployer_fees_paid": 0.15,
            "trade_count": 1,
            "symbols_traded": 1,
        },
        {
            "address": "0xa",
            "volume": 170.0,
            "fees_paid": 0.17,
            "deployer_fees_paid": 0.085,
            "trade_count": 4,
            "symbols_traded": 3,
        },
    ]
    assert len(hip3(ask, "leaderboard", limit=1)["data"]) == 1


def test_open_interest_is_the_last_of_each_day(ask: Caller) -> None:
    """xyz at the end of 29 June: 40. Today's last: TSLA 80 and NVDA 5 on xyz, 18 on flx."""
    body = hip3(ask, "oi-trends/total")
    assert [(r["day"], r["oi_usd"], r["oi_contracts"]) for r in body["data"]] == [
        ("2026-06-29T00:00:00Z", 40.0, 4.0),
        ("2026-06-30T00:00:00Z", 103.0, 11.0),
    ]
    assert [r["oi_usd"] for r in body["by_dex"]["xyz"]] == [40.0, 85.0]
    one = hip3(ask, "oi-trends/dex", dex="xyz")
    assert (one["dex_name"], one["symbols"]) == ("xyz", ["NVDA", "TSLA"])
    assert [r["oi_usd"] for r in one["aggregate"]] == [40.0, 85.0]
    assert [r["oi_usd"] for r in one["by_symbol"]["TSLA"]] == [40.0, 80.0]


def test_candles(ask: Caller) -> None:
    """11:00 has three quarters: opens at 11, highest 13, lowest 8, closes at 10; 300 traded at 11:30."""
    body = hip3(ask, "candles", coin="xyz:TSLA")
    assert (body["coin"], body["interval"], body["range"]) == ("xyz:TSLA", "1h", None)
    assert body["data"][-2:] == [
        _candle("2026-06-30T10:00:00Z", 10.0, 12.0, 9.0, 11.0, 0.0),
        _candle("2026-06-30T11:00:00Z", 11.0, 13.0, 8.0, 10.0, 300.0),
    ]
    daily = hip3(ask, "candles", coin="xyz:TSLA", interval="1d", start="2026-06-30")
    assert daily["data"] == [_candle("2026-06-30T00:00:00Z", 10.0, 13.0, 8.0, 10.0, 300.0)]
    two = hip3(ask, "candles", coin="xyz:TSLA", interval="15m", limit=3)["data"]
    assert [c["timestamp"][11:16] for c in two] == ["11:15", "11:45"]
    ended = hip3(ask, "candles", coin="xyz:TSLA", start="2026-06-30T10:30Z", end="2026-06-30T11:30Z")
    assert [c["timestamp"][11:13] for c in ended["data"]] == ["11"]


def _candle(time: str, *values: float) -> dict[str, Any]:
    names = ("open", "high", "low", "close", "volume")
    return {"timestamp": time, **dict(zip(names, values, strict=True))}


@pytest.mark.parametrize(
    ("path", "params", "status"),
    [
        ("dex-detail", {"dex": "nope"}, 404),
        ("by-symbol", {"dex": "nope"}, 404),
        ("oi-trends/dex", {"dex": "nope"}, 404),
        ("timeseries/symbol", {"symbol": "nope"}, 404),
        ("candles", {"coin": "TSLA"}, 404),
        ("candles", {"coin": "flx:NVDA"}, 404),
        ("dex-detail", {}, 400),
        ("candles", {"coin": "xyz:TSLA", "interval": "3m"}, 400),
        ("candles", {"coin": "xyz:TSLA", "range": "7d", "start": "2026-06-01"}, 400),
        ("by-dex", {"range": "2d"}, 400),
        ("by-dex", {"range": "all"}, 400),
    ],
)
def test_what_hip3_refuses(ask: Caller, path: str, params: dict[str, str], status: int) -> None:
    assert "error" in ask.error(f"{HIP3}/{path}", status, **params)


def test_dev_sees_thirty_days(ask: Caller) -> None:
    body = ask.body(f"{HIP3}/by-dex", tier="dev", range="90d")
    assert "start was raised" in body["notices"][0]


def test_outcomes(ask: Caller) -> None:
    body = ask.body(f"{HIP4}/dashboard")
    assert body["summary"] == {
        "volume": 55.0,
        "fill_count": 7,
        "trade_count": 5,
        "total_fees": 0.55,
        "unique_traders": 2,
    }
    assert [(r["outcome_id"], r["volume"], r["unique_traders"]) for r in body["by_outcome"]] == [
        ("102", 40.0, 1),
        ("101", 15.0, 1),
    ]
    assert [(r["date"][:10], r["volume"]) for r in body["timeseries"]] == [
        ("2026-06-29", 10.0),
        ("2026-06-30", 45.0),
    ]
    skew = ask.body(f"{HIP4}/dashboard", venue="skew")
    assert skew["summary"]["volume"] == 5.0
    ask.error(f"{HIP4}/dashboard", 400, venue="other")


def test_one_outcome(ask: Caller) -> None:
    body = ask.body(f"{HIP4}/outcome/101")
    assert (body["outcome_id"], body["summary"]["volume"]) == ("101", 15.0)
    assert [(r["venue"], r["volume"]) for r in body["by_venue"]] == [("out", 10.0), ("skew", 5.0)]
    assert ask.body(f"{HIP4}/outcome/103")["summary"]["volume"] == 0.0
    assert ask.error(f"{HIP4}/outcome/999", 404)["error"] == "unknown outcome '999'"


def test_open_interest_of_outcomes_at_the_end_of_the_day(ask: Caller) -> None:
    body = ask.body(f"{HIP4}/oi-eod")
    assert [(r["day"][:10], r["oi_contracts"], r["oi_usd"]) for r in body["data"]] == [
        ("2026-06-28", 9.0, 5.0),
        ("2026-06-29", 14.0, 8.5),
    ]
    assert len(ask.body(f"{HIP4}/oi-eod", start="2026-05-29")["data"]) == 3
    assert [r["oi_usd"] for r in ask.body(f"{HIP4}/oi-eod", venue="skew")["data"]] == [2.5]


def test_traders_of_outcomes(ask: Caller) -> None:
    body = ask.body(f"{HIP4}/leaderboard")
    assert body["total_traders"] == 2
    assert [(r["address"], r["volume"], r["outcomes_traded"]) for r in body["data"]] == [
        ("0xb", 40.0, 1),
        ("0xa", 15.0, 1),
    ]


def test_builders(ask: Caller) -> None:
    body = ask.body("/builder-analytics/dashboard")
    assert (body["total_volume_usd"], body["total_builder_fees_usd"], body["total_trades"]) == (
        550.0,
        3.5,
        14,
    )
    assert body["by_builder"] == [
        {"builder": "bow", "volume_usd": 400.0, "fees_usd": 2.0, "trades": 8, "rank": 1},
        {"builder": "axe", "volume_usd": 150.0, "fees_usd": 1.5, "trades": 6, "rank": 2},
    ]
    assert [r["volume_usd"] for r in body["timeseries"]] == [400.0, 150.0]
    assert (body["period"], body["range"]) == ("7d", "7d")
