"""Base symbols of contract names, as venues spell them."""

from __future__ import annotations

import pytest

from derivdata.tables.contracts import QUOTES, VENUES, contract, venue_slug


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
        ("kpepe", "kPEPE", ""),
        ("kpepe-usd", "kPEPE", "USD"),
        ("kshibperp", "kSHIB", ""),
        ("kava", "KAVA", ""),
        ("kpepecoin", "KPEPECOIN", ""),
        ("AAPL", "AAPL", ""),
        ("XAU-USD", "XAU", "USD"),
        ("测试USDT", "测试", "USDT"),
        ("btc", "BTC", ""),
        ("XDG", "DOGE", ""),
        ("PF_XDGUSD", "DOGE", "USD"),
        ("BTCUSDT Perpetual", "BTC", "USDT"),
        ("BTC_USDT_Perp", "BTC", "USDT"),
        ("PERP_BTC_USDC", "BTC", "USDC"),
        ("BTC-PERP-INTX", "BTC", ""),
        ("BTCUSDT_UMCBL", "BTC", "USDT"),
        ("BTCUSDT.P", "BTC", "USDT"),
        ("PI-USDT", "PI", "USDT"),
        ("OPPERP", "OP", ""),
        ("SUPERPERP", "SUPER", ""),
        ("BNBUSD", "BNB", "USD"),
        ("BNBUSD_PERP", "BNB", "USD"),
        ("ARBUSD", "ARB", "USD"),
        ("CKBUSD", "CKB", "USD"),
        ("CKB-USD", "CKB", "USD"),
        ("BNBBUSD", "BNB", "BUSD"),
        ("1000SHIBBUSD", "1000SHIB", "BUSD"),
        ("CK-BUSD", "CK", "BUSD"),
        ("DOTUSD", "DOT", "USD"),
        ("SPYUSD", "SPY", "USD"),
        ("STARDUSTUSDT", "STARDUST", "USDT"),
    ],
)
def test_quotes_and_separators_are_removed(name: str, symbol: str, quote: str) -> None:
    assert contract(name) == (symbol, quote)


@pytest.mark.parametrize(
    "name",
    [
        "FDUSD",
        "DEUSD",
        "TUSD",
        "USDT",
        "USDC",
        "DUST",
        "TRUST",
        "RUST",
        "PERP",
        "SUPER",
        "SUPERP",
        "ROBUST",
        "STARDUST",
    ],
)
def test_assets_whose_name_ends_like_a_quote_stay_whole(name: str) -> None:
    assert contract(name) == (name, "")
    assert contract(f"{name}USDT") == (name, "USDT")
    assert contract(f"{name}-USD") == (name, "USD")


@pytest.mark.parametrize(
    "name", ["BTC-27JUN25", "BTCUSDT_250627", "xyz:TSLA", "BTC-EUR", "BTCFDUSD", "BTC-FDUSD", ""]
)
def test_what_is_no_perpetual_against_a_known_quote_stays_whole(name: str) -> None:
    assert contract(name) == (name, "")


@pytest.mark.parametrize("name", ["BOBUSD", "ORBUSD", "BOBUSDPERP"])
def test_what_could_be_usd_or_busd_stays_whole(name: str) -> None:
    assert contract(name) == (name, "")


@pytest.mark.parametrize("name", ["xyz:tsla", "xyz:TSLA", "xyz:usd", "flx:BTCUSD"])
def test_names_of_a_dex_stay_as_they_are(name: str) -> None:
    assert contract(name) == (name, "")


def test_priority_is_that_of_the_api() -> None:
    assert QUOTES == ("USDT", "USD", "USDC", "BUSD", "UST")
    names = ["BTC-UST", "BTC-BUSD", "BTC-USDC", "BTC-USD", "BTC-USDT", "BTC"]
    assert sorted(names, key=lambda name: contract(name).rank) == names[::-1]


@pytest.mark.parametrize(
    ("name", "slug"),
    [
        ("binance", "binance"),
        (" Binance ", "binance"),
        ("htx", "huobi"),
        ("HTX", "huobi"),
        ("gate", "gateio"),
        ("Gate.io", "gateio"),
        ("Crypto.com", "cryptocom"),
        ("okex", "okx"),
        ("COINBASE US", "coinbaseus"),
        ("01", "zo"),
        ("WOOFI", "woofipro"),
        ("My-Venue", "my-venue"),
    ],
)
def test_other_names_of_venues(name: str, slug: str) -> None:
    assert venue_slug(name) == slug


def test_a_slug_is_its_own() -> None:
    assert [venue_slug(slug) for slug in VENUES] == list(VENUES)
