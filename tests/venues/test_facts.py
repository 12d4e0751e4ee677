"""Facts of venues: dated, with a source each, and equal to the recorded answers where these are at hand."""

from __future__ import annotations

import json
from typing import Any

import pandas as pd
import pytest

import derivdata as dd
from derivdata.tables.venue_facts import FACTS, fact_value
from tests.support.shared import shared_path


def value(exchange: str, symbol: str, fact: str) -> float:
    found = fact_value(exchange, fact, symbol, "2026-11-01")
    assert found is not None
    return found


def body(name: str) -> Any:
    return json.loads(shared_path(f"data/venues/{name}").read_text(encoding="utf-8"))


def test_every_fact_has_a_source_a_day_and_a_unit() -> None:
    rows = dd.venues.facts()
    assert len(rows) == len(FACTS)
    assert (rows[["exchange", "fact", "unit", "nature", "source"]] != "").all().all()
    assert set(rows["nature"]) == {"recorded", "sample", "documentation"}
    assert (
        rows["as_of"]
        .between(pd.Timestamp("2022-01-01", tz="UTC"), pd.Timestamp("2026-11-22", tz="UTC"))
        .all()
    )
    assert not rows.duplicated(["exchange", "symbol", "fact", "as_of"]).any()
    assert set(rows["exchange"]) <= set(dd.venues.endpoints()["exchange"])


def test_the_newest_fact_of_the_day_counts_and_the_symbol_before_the_venue() -> None:
    assert fact_value("hyperliquid", "interval_hours", "BTC", "2024-01-01") == 8.0
    assert fact_value("hyperliquid", "interval_hours", "BTC") == 1.0
    assert fact_value("hyperliquid", "interval_hours", "BTC", "2023-01-01") is None
    assert fact_value("binance", "interval_hours", "LPT") == 4.0
    assert fact_value("binance", "interval_hours", "BTC") == 8.0
    assert fact_value("gateio", "maker_fee_bps", "BTC", "2024-01-01") == -1.52
    assert fact_value("gateio", "maker_fee_bps", "BTC") == -1.0
    then = dd.venues.facts(["gateio"], day="2024-01-01").set_index(["symbol", "fact"])["value"]
    assert then[("BTC", "maker_fee_bps")] == -1.52
    with pytest.raises(ValueError, match="no fact of 'ftx'"):
        dd.venues.facts(["ftx"])


def test_deribit_averages_half_an_hour_into_its_settlement_price() -> None:
    row = dd.venues.facts(["deribit"]).set_index("fact").loc["option_averaging_minutes"]
    assert (row["value"], row["unit"], row["symbol"]) == (30.0, "min", "")
    assert "support.deribit.com" in row["source"]


def test_bybit_and_okx_say_so_themselves() -> None:
    for row in body("bybit/instruments_linear_2026.json")["result"]["list"]:
        if row["symbol"] in ("BTCUSDT", "ETHUSDT", "SOLUSDT"):
            coin = row["baseCoin"]
            assert value("bybit", coin, "interval_hours") == row["fundingInterval"] / 60
            assert value("bybit", coin, "funding_cap_bps") == pytest.approx(
                1e4 * float(row["upperFundingRate"])
            )
            assert value("bybit", coin, "funding_floor_bps") == pytest.approx(
                1e4 * float(row["lowerFundingRate"])
            )
    for row in body("okx/funding_rate_any_2026_09.json")["data"]:
        if row["instId"].endswith("-USDT-SWAP"):
            coin = row["instId"].partition("-")[0]
            assert value("okx", coin, "funding_cap_bps") == pytest.approx(1e4 * float(row["maxFundingRate"]))
            hours = (int(row["nextFundingTime"]) - int(row["fundingTime"])) / 3_600_000
            assert value("okx", coin, "interval_hours") == hours


def test_binance_gate_deribit_lighter_and_kraken_say_so_themselves() -> None:
    for row in body("binance/um_funding_info.json"):
        coin = row["symbol"].removesuffix("USDT")
        assert value("binance", coin, "funding_cap_bps") == pytest.approx(
            1e4 * float(row["adjustedFundingRateCap"])
        )
        assert value("binance", coin, "funding_floor_bps") == pytest.approx(
            1e4 * float(row["adjustedFundingRateFloor"])
        )
        assert value("binance", coin, "interval_hours") == row["fundingIntervalHours"]
    gate = body("gate/contract_btc_2026.json")
    assert value("gateio", "BTC", "taker_fee_bps") == pytest.approx(1e4 * float(gate["taker_fee_rate"]))
    assert value("gateio", "BTC", "maker_fee_bps") == pytest.approx(1e4 * float(gate["maker_fee_rate"]))
    assert value("gateio", "BTC", "funding_cap_bps") == pytest.approx(1e4 * float(gate["funding_rate_limit"]))
    assert value("gateio", "BTC", "contract_coin") == float(gate["quanto_multiplier"])
    assert {row["taker_fee_rate"] for row in body("gate/contracts_2023.json")} == {"0.00075"}
    perpetual = next(
        row for row in body("deribit/instruments.json")["result"] if row["instrument_name"] == "BTC-PERPETUAL"
    )
    assert value("deribit", "BTC", "taker_fee_bps") == pytest.approx(1e4 * perpetual["taker_commission"])
    assert value("deribit", "BTC", "maker_fee_bps") == 1e4 * perpetual["maker_commission"]
    ether = body("lighter/order_book_details.json")["order_book_details"][0]
    assert (float(ether["taker_fee"]), float(ether["maker_fee"])) == (0.0, 0.0)
    caps = {
        row["base"]: row["maxRelativeFundingRate"]
        for row in body("kraken/instruments.json")["instruments"]
        if "maxRelativeFundingRate" in row
    }
    assert value("kraken", "BTC", "funding_cap_bps") == 1e4 * caps["BTC"]
    assert value("kraken", "ETH", "funding_cap_bps") == 1e4 * caps["ETH"]
