"""Native contract names as base symbols, and which contract stands for a symbol."""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd
import pytest

from derivdata.sources import sample, service
from derivdata.sources.service.base_symbols import bases
from tests.service.conftest import KEYS, Caller
from tests.service.market import NOW, at, series
from tests.service.memory_store import MemoryStore


def test_only_contract_names_are_renamed() -> None:
    found = bases(["BTCUSDT", "BTC-PERP", "ETH_USDC", "ETH", "TRUST", "PYUSD", "xyz:TSLA"])
    assert found == {"BTCUSDT": ("BTC", 1), "BTC-PERP": ("BTC", 0), "ETH_USDC": ("ETH", 3)}


def test_the_samples_symbols_are_base_symbols() -> None:
    store = sample.open()
    assert {name for table in store.tables() for name in bases(store.symbols(table))} == set()


@pytest.fixture(scope="module")
def native() -> Iterator[Caller]:
    """binance: USDC for three hours and USDT for the last one of them; okx: USD only; bybit: a plain name."""
    hours = [at(f"2026-06-30 {h:02}:00") for h in (9, 10, 11)]
    parts = [
        series("BTCUSDC", "binance", hours, rate_bps_8h=[3.0, 3.1, 3.2]),
        series("BTCUSDT", "binance", hours[2:], rate_bps_8h=[1.0]),
        series("BTC-USD-SWAP", "okx", hours, rate_bps_8h=2.0),
        series("BTC", "bybit", hours[2:], rate_bps_8h=5.0),
        series("BTCUSDT", "bybit", hours[2:], rate_bps_8h=6.0),
        series("TRUST", "okx", hours[2:], rate_bps_8h=7.0),
    ]
    funding = pd.concat(parts, ignore_index=True).assign(resolution="raw", kind="sampled")
    fill = {"fill_id": "1", "side": "long", "status": "filled", "time": hours[0]}
    sizes = ["order_price_usd", "fill_price_usd", "quantity", "filled_quantity", "value_usd"]
    fills = pd.DataFrame(
        [
            {
                "symbol": "BTCUSDT",
                "exchange": "binance",
                "order_id": "t",
                **fill,
                **dict.fromkeys(sizes, 1.0),
            },
            {
                "symbol": "BTCUSDC",
                "exchange": "binance",
                "order_id": "c",
                **fill,
                **dict.fromkeys(sizes, 1.0),
            },
        ]
    )
    store = MemoryStore({"funding_history": funding, "liquidations_fills": fills}, now=NOW)
    local = service.start(store, keys=KEYS)
    caller = Caller(local)
    yield caller
    caller.session.close()
    local.close()


def test_a_symbol_is_one_contract_per_venue(native: Caller) -> None:
    """USDT stands for BTC on binance throughout, also where only USDC has rows."""
    body = native.body("/funding/historical", symbol="BTC", start="2026-06-30", resolution="raw")
    found = {venue: [p["y"] for p in points] for venue, points in body["series"].items()}
    assert found == {"binance": [1.0], "okx": [2.0, 2.0, 2.0], "bybit": [5.0]}
    early = native.body("/funding/historical", symbol="BTC", start="2026-06-30", end="2026-06-30T11:00Z")
    assert list(early["series"]) == ["okx"]


def test_snapshots_use_base_symbols(native: Caller) -> None:
    body = native.body("/funding")
    assert body["symbols"] == ["BTC", "TRUST"]
    assert body["funding_rates"] == {
        "binance": {"BTC": 1.0},
        "bybit": {"BTC": 5.0},
        "okx": {"BTC": 2.0, "TRUST": 7.0},
    }


def test_native_names_are_not_symbols(native: Caller) -> None:
    assert native.body("/funding/historical", symbol="BTCUSDT")["series"] == {}


def test_liquidations_of_all_contracts_are_shown(native: Caller) -> None:
    body = native.body("/liquidations/events", symbol="BTC")
    assert sorted((e["symbol"], e["oid"]) for e in body["events"]) == [("BTC", "c"), ("BTC", "t")]
    assert native.body("/liquidations/events", exclude_symbol="BTC")["count"] == 0
