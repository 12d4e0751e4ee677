"""Options over time: chains at 11:58 of 29 June and 11:55 of 30 June, an underlying of 59,100 and 60,100."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

import derivdata as dd
from tests.service.conftest import Caller

PAIR = {"symbol": "BTC", "exchange": "deribit"}


@pytest.mark.parametrize("days", [2, 7, 90])
def test_surface_history_at_hourly_steps(ask: Caller, days: int) -> None:
    """Two chains, of 11:58 and 11:55: each is at its own time on any grid, and once."""
    body = ask.body("/options/surface-history", range=f"{days}d", **PAIR)
    own = ["2026-06-29T11:58:00Z", "2026-06-30T11:55:00Z"]
    assert body["hours"] == own == list(body["snapshots"])
    step = {2: "1h", 7: "4h", 90: "1d"}[days]
    assert body["resolution"] == step
    thinned = f"for a range of {days}d the step of the surface is {step} instead of 1h"
    assert (thinned in body["notices"]) == (days != 2)
    assert [len(rows) for rows in body["snapshots"].values()] == [3, 2]
    assert body["snapshots"][own[1]][0] == {
        "expiry": "2026-07-31T08:00:00Z",
        "strike": 60000.0,
        "side": "call",
        "iv": 0.55,
        "underlying_price": 60100.0,
        "open_interest": 12.5,
    }


@pytest.mark.parametrize("path", ["atm-history", "surface-history", "overview-history"])
def test_ranges_by_tier(ask: Caller, path: str) -> None:
    """1d to 90d; longer for Pro; thirty days for Dev."""
    dev = ask.body(f"/options/{path}", tier="dev", range="90d", **PAIR)
    assert "start was raised from 2026-04-01T12:00:00Z to 2026-05-31T12:00:00Z" in dev["notices"][0]
    assert dev["days"] == 90
    refused = ask.error(f"/options/{path}", 403, tier="dev", range="91d", **PAIR)
    assert refused["error"] == "a range over 90d requires Pro or higher, got 91d"
    assert refused["required_tier"] == "pro"
    assert ask.body(f"/options/{path}", range="120d", **PAIR)["days"] == 120


@pytest.mark.parametrize("text", ["0d", "30", "12h", "d", "1.5d", "-1d", "99999d"])
def test_ranges_are_whole_days(ask: Caller, text: str) -> None:
    assert "must be a number of days" in ask.error("/options/atm-history", 400, range=text, **PAIR)["error"]


@pytest.mark.parametrize("path", ["metrics", "atm-history", "surface-history"])
def test_pairs_equal_those_of_the_snapshot(ask: Caller, path: str) -> None:
    ask.error(f"/options/{path}", 400, symbol="DOGE", exchange="okx")
    ask.error(f"/options/{path}", 400, symbol="BTC")
    empty = ask.body(f"/options/{path}", symbol="ZEC", exchange="derive")
    assert len(empty["hours" if path == "surface-history" else "data"]) == 0


def test_chain_stored_in_several_appends_has_atm_volatility_of_all_expiries(tmp_path: Path) -> None:
    """Two expiries of each hour, appended five seconds apart."""
    archive = dd.open_archive(tmp_path)
    hours = pd.date_range("2026-01-01T01:00", periods=3, freq="h", tz="UTC")
    for hour in hours:
        for second, (expiry, iv) in enumerate((("27MAR26", 0.5), ("26JUN26", 0.6))):
            row = {
                "symbol": "BTC", "exchange": "deribit", "time": hour - pd.Timedelta(10 - 5 * second, "s"),
                "instrument_name": f"BTC-{expiry}-100-C", "expiry": pd.Timestamp(expiry, tz="UTC"),
                "strike": 100.0, "side": "call", "iv": iv, "underlying_price": 100.0, "open_interest": 1.0,
            }  # fmt: skip
            assert archive.append("options_snapshot", pd.DataFrame([row])) == 1
    dd.connect(str(tmp_path))
    rows = dd.options.atm_history("BTC", "deribit", hours[0], hours[-1] + pd.Timedelta("1min"))
    assert rows["time"].tolist() == [hour for hour in hours for _ in range(2)]
    assert rows["iv"].tolist() == [0.5, 0.6] * 3
