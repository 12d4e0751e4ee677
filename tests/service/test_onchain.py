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


def test_dashboard_and_detail_have_the_same_totals(ask: Caller) -> None:
    board = hip3(ask, "dashboard")
    assert (board["summary"]["volume"], board["summary"]["unique_users"]) == (470.0, 2)
    assert board["by_dex"] == hip3(ask, "by-dex")["data"]
    assert sum(row["volume_usd"] for row in board["timeseries"]) == 470.0
    detail = hip3(ask, "dex-detail", dex="xyz")
    assert (detail["dex_name"], detail["summary"]["volume"]) == ("xyz", 450.0)
    assert [row["symbol"] for row in detail["by_symbol"]] == ["TSLA", "NVDA"]


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
def test_hip3_endpoints_reject_invalid_parameters(
    ask: Caller, path: str, params: dict[str, str], status: int
) -> None:
    assert "error" in ask.error(f"{HIP3}/{path}", status, **params)


def test_outcomes(ask: Caller) -> None:
    body = ask.body(f"{HIP4}/dashboard")
    assert [(r["date"][:10], r["volume"]) for r in body["timeseries"]] == [
        ("2026-06-29", 10.0),
        ("2026-06-30", 45.0),
    ]
    ask.error(f"{HIP4}/dashboard", 400, venue="other")
    body = ask.body(f"{HIP4}/outcome/101")
    assert (body["outcome_id"], body["summary"]["volume"]) == ("101", 15.0)
    assert [(r["venue"], r["volume"]) for r in body["by_venue"]] == [("out", 10.0), ("skew", 5.0)]
    assert ask.body(f"{HIP4}/outcome/103")["summary"]["volume"] == 0.0
    assert ask.error(f"{HIP4}/outcome/999", 404)["error"] == "unknown outcome '999'"
    body = ask.body(f"{HIP4}/oi-eod")
    assert [(r["day"][:10], r["oi_contracts"], r["oi_usd"]) for r in body["data"]] == [
        ("2026-06-28", 9.0, 5.0),
        ("2026-06-29", 14.0, 8.5),
    ]
    assert len(ask.body(f"{HIP4}/oi-eod", start="2026-05-29")["data"]) == 3
    assert [r["oi_usd"] for r in ask.body(f"{HIP4}/oi-eod", venue="skew")["data"]] == [2.5]
    body = ask.body(f"{HIP3}/by-dex", tier="dev", range="90d")
    assert "start was raised" in body["notices"][0]
