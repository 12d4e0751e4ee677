"""Base symbols of contract names, as venues spell them."""

from __future__ import annotations

import pytest

from derivdata.tables.contracts import QUOTES, contract


@pytest.mark.parametrize(
    ("name", "symbol", "quote"),
    [
        ("BTC", "BTC", ""),
        ("BTC-USDT", "BTC", "USDT"),
        ("BTCUSDT", "BTC", "USDT"),
        ("btcusdt", "BTC", "USDT"),
        ("BTC_USDT", "BTC", "USDT"),
        ("BTC/USDC", "BTC", "USDC"),
        ("BTC/USDT:USDT", "BTC", "USDT"),
        ("BTC/USD:BTC", "BTC", "USD"),
        ("BTC-USDT-SWAP", "BTC", "USDT"),
        ("BTC-PERP", "BTC", ""),
        ("BTC-PERPETUAL", "BTC", ""),
        ("BTC-USDC-PERPETUAL", "BTC", "USDC"),
        ("BTCUSD_PERP", "BTC", "USD"),
        ("BTCPERP", "BTC", ""),
        ("PF_XBTUSD", "BTC", "USD"),
        ("XBTUSDTM", "BTC", "USDT"),
        ("BTCBUSD", "BTC", "BUSD"),
        ("BTCUST", "BTC", "UST"),
        ("1000PEPEUSDT", "1000PEPE", "USDT"),
        ("kPEPE", "kPEPE", ""),
        ("AAPL", "AAPL", ""),
        ("XAU-USD", "XAU", "USD"),
        ("测试USDT", "测试", "USDT"),
    ],
)
def test_quotes_and_separators_are_removed(name: str, symbol: str, quote: str) -> None:
    assert contract(name) == (symbol, quote)


@pytest.mark.parametrize("name", ["FDUSD", "TUSD", "USDT", "USDC", "DUST", "TRUST", "RUST", "PERP", "SUPER"])
def test_assets_whose_name_ends_like_a_quote_stay_whole(name: str) -> None:
    assert contract(name) == (name, "")
    assert contract(f"{name}USDT") == (name, "USDT")
    assert contract(f"{name}-USD") == (name, "USD")


@pytest.mark.parametrize("name", ["BTC-27JUN25", "BTCUSDT_250627", "xyz:TSLA", "BTC-EUR", ""])
def test_what_is_no_perpetual_against_a_known_quote_stays_whole(name: str) -> None:
    assert contract(name) == (name, "")


def test_priority_is_that_of_the_api() -> None:
    assert QUOTES == ("USDT", "USD", "USDC", "BUSD", "UST")
    names = ["BTC-UST", "BTC-BUSD", "BTC-USDC", "BTC-USD", "BTC-USDT", "BTC"]
    assert sorted(names, key=lambda name: contract(name).rank) == names[::-1]
