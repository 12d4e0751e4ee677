"""Facts of venues: dated, with a source each, and equal to the recorded responses if present."""

from __future__ import annotations

import json
from typing import Any

import pandas as pd
import pytest

import derivdata as dd
from derivdata.sources.venues.hyperliquid import DEX_VENUES
from derivdata.sources.venues.registry import STATE_STREAMS, VENUES
from derivdata.tables.venue_facts import FACTS, fact_value
from tests.support.shared import shared_path
from tests.venues.test_read import CORPUS, TYPED

_BODIES = [*TYPED, *CORPUS]
_CONFIRMED_TABLES = {
    "funding_history", "funding_settlements", "oi_history", "liquidations_fills", "options_snapshot",
    "options_trades", "delivery_prices",
}  # fmt: skip


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
    with pytest.raises(ValueError, match="got 'ftx'"):
        dd.venues.facts(["ftx"])


def test_recorded_bodies_confirm_units_of_main_tables() -> None:
    confirmed = {(case["venue"], place.partition(".")[0]) for case in _BODIES for place in case["expected"]}
    lacking = {
        (endpoint.exchange, table)
        for venue in VENUES.values()
        for endpoint in venue.endpoints
        for table in {*endpoint.tables} & _CONFIRMED_TABLES
        if venue not in DEX_VENUES and (endpoint.exchange, table) not in confirmed
    }
    assert lacking == {("aster", "oi_history")}


def hold(exchange: str, coin: str, **stated: float) -> None:
    """Compare facts of a coin with the venue's response."""
    results = {fact: fact_value(exchange, fact, coin, "2026-11-01") for fact in stated}
    assert results == pytest.approx(stated), (exchange, coin)


def test_facts_equal_the_venues_documentation() -> None:
    for row in body("bybit/instruments_linear_2026.json")["result"]["list"]:
        if row["symbol"] in ("BTCUSDT", "ETHUSDT", "SOLUSDT"):
            cap, floor = (1e4 * float(row[f"{end}FundingRate"]) for end in ("upper", "lower"))
            hours = row["fundingInterval"] / 60
            hold("bybit", row["baseCoin"], interval_hours=hours, funding_cap_bps=cap, funding_floor_bps=floor)
    for row in body("okx/funding_rate_any_2026_09.json")["data"]:
        if row["instId"].endswith("-USDT-SWAP"):
            hours = (int(row["nextFundingTime"]) - int(row["fundingTime"])) / 3_600_000
            cap = 1e4 * float(row["maxFundingRate"])
            hold("okx", row["instId"].partition("-")[0], interval_hours=hours, funding_cap_bps=cap)
    for row in body("binance/um_funding_info.json"):
        cap, floor = (1e4 * float(row[f"adjustedFundingRate{end}"]) for end in ("Cap", "Floor"))
        coin, hours = row["symbol"].removesuffix("USDT"), row["fundingIntervalHours"]
        hold("binance", coin, interval_hours=hours, funding_cap_bps=cap, funding_floor_bps=floor)
    gate = body("gate/contract_btc_2026.json")
    names = ("taker_fee_rate", "maker_fee_rate", "funding_rate_limit")
    taker, maker, cap = (1e4 * float(gate[name]) for name in names)
    hold("gateio", "BTC", taker_fee_bps=taker, maker_fee_bps=maker, funding_cap_bps=cap)
    hold("gateio", "BTC", contract_coin=float(gate["quanto_multiplier"]))
    assert {row["taker_fee_rate"] for row in body("gate/contracts_2023.json")} == {"0.00075"}
    listed = body("deribit/instruments.json")["result"]
    [row] = [row for row in listed if row["instrument_name"] == "BTC-PERPETUAL"]
    taker, maker = 1e4 * row["taker_commission"], 1e4 * row["maker_commission"]
    hold("deribit", "BTC", contract_usd=row["contract_size"])
    hold("deribit", "BTC", taker_fee_bps=taker, maker_fee_bps=maker, option_averaging_minutes=30.0)
    ether = body("lighter/order_book_details.json")["order_book_details"][0]
    assert (float(ether["taker_fee"]), float(ether["maker_fee"])) == (0.0, 0.0)
    for row in body("kraken/instruments.json")["instruments"]:
        if row.get("base") in ("BTC", "ETH") and "maxRelativeFundingRate" in row:
            hold("kraken", row["base"], funding_cap_bps=1e4 * row["maxRelativeFundingRate"])


def test_units_of_rates_are_confirmed_or_marked_unconfirmed() -> None:
    rows = dd.venues.facts().set_index(["exchange", "symbol", "fact"])
    stated = rows["value"].to_dict()
    assert stated["grvt", "", "rate_scale"] == 0.01
    assert stated["variational", "", "rate_period_hours"] == 8760
    assert stated["nado", "", "rate_period_hours"] == 24
    assert stated["ethereal", "", "open_interest_sides"] == 2
    assert rows.loc[("grvt", "", "rate_scale"), "confirmed"]
    assert not rows.loc[("ethereal", "", "open_interest_sides"), "confirmed"]
    others = {"coinbase", *(venue.exchange for venue in DEX_VENUES)}  # spot, and dexes of Hyperliquid
    derivatives = {*dd.venues.endpoints()["exchange"]} - others
    assert derivatives <= {*dd.venues.facts()["exchange"]}
    assert not rows.loc[("edgex", "", "interval_hours"), "confirmed"]
    assert rows.loc[("mexc", "BTC", "contract_coin"), "confirmed"]
    for venue in ("variational", "extended", "grvt", "nado", "pacifica", "woofipro", "ethereal", "apex"):
        assert (venue, "", "rate_scale") in stated
        assert (venue, "", "open_interest_sides") in stated


_NAMES = {
    "gateio": "C{}_USDT",
    "okx": "C{}-USDT-SWAP",
    "deribit": "C{}_USDC-PERPETUAL",
    "kraken": "PF_C{}USD",
}
_STREAMS = {
    name: [*STATE_STREAMS.get(name, ()), *([] if venue.stream is None else [venue.stream])]
    for name, venue in VENUES.items()
}


@pytest.mark.parametrize("venue", [name for name, streams in _STREAMS.items() if streams])
def test_subscriptions_to_all_contracts_keep_to_the_limits_of_the_venue(venue: str) -> None:
    names = [_NAMES.get(venue, "C{}USDT").format(i) for i in range(600)]
    sockets = [socket for stream in _STREAMS[venue] for socket in stream.connections(names, 1_790_000_000)]
    messages = [socket.messages for socket in sockets]
    sizes = [len(message.encode()) for sent in messages for message in sent]
    for fact, used in {
        "stream_connections": len(sockets),
        "stream_connections_per_5_minutes": len(sockets),
        "stream_messages_per_hour": max(map(len, messages)),
        "stream_message_bytes": max(sizes, default=0),
    }.items():
        limit = fact_value(venue, fact)
        assert limit is None or used <= limit, (fact, used, limit)
