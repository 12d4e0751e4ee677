"""Base symbols of contract names, as venues spell them."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from derivdata.tables.contracts import QUOTES, VENUES, base, contract, venue_slug

with Path(__file__).with_name("contracts.csv").open(encoding="utf-8", newline="") as file:
    CONTRACTS = [*csv.reader(file)][1:]


@pytest.mark.parametrize(("name", "symbol", "quote"), CONTRACTS)
def test_quotes_and_separators_are_removed(name: str, symbol: str, quote: str) -> None:
    assert contract(name) == (symbol, quote)


@pytest.mark.parametrize("name", "FDUSD TUSD USDT USDC DUST TRUST PERP SUPERP ROBUST".split())
def test_assets_whose_name_ends_like_a_quote_stay_whole(name: str) -> None:
    assert contract(name) == (name, "")
    assert contract(f"{name}USDT") == (name, "USDT")
    assert contract(f"{name}-USD") == (name, "USD")


NO_PERPETUALS = ["BTC-27JUN25", "BTCUSDT_250627", "BTC-EUR", "BTCFDUSD", "BTC-FDUSD", "BOBUSD", ""]
OF_A_DEX = ["xyz:tsla", "xyz:TSLA", "xyz:usd", "flx:BTCUSD"]


@pytest.mark.parametrize("name", NO_PERPETUALS + OF_A_DEX)
def test_unknown_contract_names_are_unchanged(name: str) -> None:
    assert contract(name) == (name, "")


def test_quote_priority_equals_the_api_document() -> None:
    assert QUOTES == ("USDT", "USD", "USDC", "BUSD", "UST")
    names = ["BTC-UST", "BTC-BUSD", "BTC-USDC", "BTC-USD", "BTC-USDT", "BTC"]
    assert sorted(names, key=lambda name: contract(name).rank) == names[::-1]


def test_other_names_of_venues() -> None:
    others = {
        " Binance ": "binance", "HTX": "huobi", "gate": "gateio", "Gate.io": "gateio", "okex": "okx",
        "Crypto.com": "cryptocom", "COINBASE US": "coinbaseus", "01": "zo", "My-Venue": "my-venue",
    }  # fmt: skip
    assert {name: venue_slug(name) for name in others} == others
    assert [venue_slug(slug) for slug in VENUES] == list(VENUES), "a slug is its own"


@pytest.mark.parametrize(
    ("name", "coin", "many"),
    [
        ("kPEPE", "PEPE", 1_000),
        ("1000PEPE", "PEPE", 1_000),
        ("1000PEPE-USDT", "PEPE", 1_000),
        ("1000 PEPE", "PEPE", 1_000),
        ("10000CATUSDTM", "CAT", 10_000),
        ("SHIB1000", "SHIB", 1_000),
        ("1000000BABYDOGE", "BABYDOGE", 1_000_000),
        ("1MBABYDOGE", "BABYDOGE", 1_000_000),
        ("1INCH", "1INCH", 1),
        ("xyz:TSLA", "xyz:TSLA", 1),
        ("BTC-27DEC24", "BTC-27DEC24", 1),
        ("XBTUSDTM", "BTC", 1),
    ],
)
def test_contract_name_gives_coin_and_multiplier(name: str, coin: str, many: int) -> None:
    assert base(name) == (coin, many)
