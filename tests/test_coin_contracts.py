"""Histories of a coin: other contracts of it are named in a notice, and returned with ``by="coin"``."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import derivdata as dd
from derivdata.errors import DataNotice

HOURS = pd.date_range("2026-06-01", periods=3, freq="8h", tz="UTC")
PAID = {("PEPE", "okx"): 1.0, ("1000PEPE", "binance"): 2.0, ("kPEPE", "hyperliquid"): 3.0}
PAID |= {("MATIC", "okx"): 4.0, ("POL", "binance"): 5.0, ("BTC", "okx"): 6.0}


def _table(name: str, value: str, factor: float = 1.0, **constants: Any) -> pd.DataFrame:
    rows = [
        {"symbol": symbol, "exchange": venue, "time": time, value: factor * number, **constants}
        for (symbol, venue), number in PAID.items()
        for time in HOURS
    ]
    return dd.tables.TABLES[name].conform(pd.DataFrame(rows))


@pytest.fixture
def archive(tmp_path: Path) -> None:
    made = dd.open_archive(tmp_path / "archive")
    made.append(
        "funding_settlements",
        _table("funding_settlements", "rate_bps_8h", interval_hours=8.0, kind="settled"),
    )
    sampled = {"resolution": "8h"}
    made.append("funding_history", _table("funding_history", "rate_bps_8h", kind="sampled", **sampled))
    made.append("oi_history", _table("oi_history", "oi_usd", 1e6, **sampled))
    made.append("prices_history", _table("prices_history", "price_usd", 1e4, kind="mark", **sampled))
    dd.connect(str(tmp_path / "archive"))


WINDOW = ("2026-06-01", "2026-06-02")


@pytest.mark.parametrize(
    "fetch", [dd.funding.settlements, dd.funding.history, dd.oi.history, dd.prices.history]
)
def test_a_history_by_coin_has_all_contracts_of_the_coin(archive: None, fetch: Any) -> None:
    more = {} if fetch is dd.funding.settlements else {"resolution": "8h"}
    result = fetch("PEPE", *WINDOW, by="coin", **more)
    assert sorted(set(result["symbol"].astype(str))) == ["1000PEPE", "PEPE", "kPEPE"]
    assert sorted(set(fetch("kPEPE", *WINDOW, by="coin", **more)["symbol"].astype(str))) == [
        "1000PEPE",
        "PEPE",
        "kPEPE",
    ]
    assert sorted(set(fetch("MATIC", *WINDOW, by="coin", **more)["symbol"].astype(str))) == ["MATIC", "POL"]
    with pytest.warns(DataNotice, match="PEPE is also traded as 1000PEPE, kPEPE"):
        result = fetch("PEPE", *WINDOW, **more)
    assert set(result["symbol"].astype(str)) == {"PEPE"}
    with pytest.warns(DataNotice, match="POL is also traded as MATIC"):
        fetch("POL", *WINDOW, **more)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", ".* since 2021", DataNotice)  # open interest of 6 million USD
        assert set(fetch("BTC", *WINDOW, by="coin", **more)["symbol"].astype(str)) == {"BTC"}
        fetch("BTC", *WINDOW, **more)
        fetch(["PEPE", "kPEPE", "1000PEPE"], *WINDOW, **more)


def test_contracts_of_a_coin_are_joined_by_a_panel(archive: None) -> None:
    panel = dd.panel(dd.funding.settlements(["PEPE", "POL"], *WINDOW, by="coin"), by="coin")
    assert panel["symbol"].values.tolist() == ["PEPE", "POL"]
    assert panel.sel(symbol="PEPE").isel(time=0).values.tolist() == [2.0, 3.0, 1.0]


def test_open_interest_of_a_coin_is_the_sum_over_the_contracts_of_a_body() -> None:
    """Of 1.0 million USD in USDT, 0.5 in USDC and 2.0 of 1000PEPE: BTC has 1.5, PEPE 2.0 million."""

    def row(symbol: str, value: str) -> dict[str, str]:
        figures = {
            "openInterest": "200",
            "openInterestValue": str(2 * int(value)),
            "singleOpenInterestValue": value,
        }
        price = str(float(value) / 100)
        return {
            "symbol": symbol, "lastPrice": price, "indexPrice": price, "markPrice": price, "turnover24h": "1",
            "price24hPcnt": "0.1", "volume24h": "1", "fundingRate": "0.0001", "fundingIntervalHour": "8",
            "nextFundingTime": "1772467200000", "singleOpenInterest": "100", **figures,
        }  # fmt: skip

    rows = [row("BTCUSDT", "1000000"), row("BTCPERP", "500000"), row("1000PEPEUSDT", "2000000")]
    body = {"retCode": 0, "result": {"category": "linear", "list": rows}, "time": 1772438400000}
    request = "/v5/market/tickers?category=linear"
    result = dd.venues.read("bybit", request, json.dumps(body), by="coin")["oi_history"]
    assert dict(zip(result["symbol"].astype(str), result["oi_usd"], strict=True)) == {
        "BTC": 1.5e6,
        "PEPE": 2e6,
    }
    one = dd.venues.read("bybit", request, json.dumps(body))["oi_history"]
    assert dict(zip(one["symbol"].astype(str), one["oi_usd"], strict=True)) == {"BTC": 1e6, "1000PEPE": 2e6}
