"""Every parameter, its default, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from tests.service.conftest import Caller

HISTORY = "/funding/historical"
EVENTS = "/liquidations/events"
OPTIONS = "/options/snapshot"
MOVERS = "/markets/price-movers"

REFUSED: list[tuple[str, str, str]] = [
    (HISTORY, "", "symbol is required"),
    ("/funding/settlement", "", "symbol is required"),
    (OPTIONS, "symbol=BTC", "exchange is required"),
    (HISTORY, "symbol=", "symbol is empty"),
    (HISTORY, "symbol=BTC&symbol=ETH", "symbol is given 2 times"),
    (HISTORY, "symbol=BTC&exchanges=", "exchanges is empty"),
    (HISTORY, "symbol=BTC&exchanges=binance,,okx", "empty item"),
    (HISTORY, "symbol=BTC&exchanges=nasdaq", "'nasdaq' is not an exchange"),
    (HISTORY, "symbol=BTC&exchanges=Binance", "'Binance' is not an exchange"),
    (HISTORY, "symbol=BTC&exchanges=all,binance", "'all' is not an exchange"),
    (HISTORY, "symbol=BTC&resolution=7m", "resolution='7m' is not one of raw, 1m"),
    (HISTORY, "symbol=BTC&resolution=1H", "resolution='1H' is not one of"),
    (HISTORY, "symbol=BTC&start=yesterday", "start='yesterday' is not an ISO 8601"),
    (HISTORY, "symbol=BTC&start=now", "start='now'"),
    (HISTORY, "symbol=BTC&end=1751000000", "end='1751000000'"),
    (HISTORY, "symbol=BTC&end=2026-13-01", "end='2026-13-01'"),
    (HISTORY, "symbol=BTC&end=2026-06-31T00:00:00Z", "end='2026-06-31T00:00:00Z'"),
    (HISTORY, "symbol=BTC&start=2026-06-20T00:00:00 02:00", "start="),
    (HISTORY, "symbol=BTC&start=2026-06-20&end=2026-06-19", "is not before end"),
    (HISTORY, "symbol=BTC&start=2026-06-20&end=2026-06-20", "is not before end"),
    (HISTORY, "symbol=BTC&start=2026-07-20", "is not before end"),
    ("/oi/BTC/timeseries", "range=5d", "range='5d' is not one of 1d, 7d, 30d, 90d"),
    ("/oi/BTC/timeseries", "range=7d&start=2026-06-20", "range and start exclude each other"),
    ("/oi/BTC/timeseries", "range=7d&end=2026-06-20", "range and end exclude each other"),
    (MOVERS, "min_value=lots", "min_value='lots' is not a number"),
    (MOVERS, "min_value=nan", "min_value='nan' is not a number"),
    (MOVERS, "min_value=1e999", "min_value='1e999' is not a number"),
    (MOVERS, "min_value=1_000", "min_value='1_000' is not a number"),
    (MOVERS, "limit=0", "limit='0' is not a whole number from 1"),
    (MOVERS, "limit=2.0", "limit='2.0' is not a whole number"),
    (MOVERS, "limit=-1", "limit='-1' is not a whole number"),
    (MOVERS, "limit=²", "limit='²' is not a whole number"),
    (MOVERS, "exchanges=nasdaq", "'nasdaq' is not an exchange"),
    ("/markets/symbols", "exchanges=nasdaq", "'nasdaq' is not an exchange"),
    ("/markets/funding-leaders", "exchanges=nasdaq", "'nasdaq' is not an exchange"),
    (EVENTS, "since=2026-06-30", "since='2026-06-30' is not a Unix time"),
    (EVENTS, "since=-1", "since='-1' is not a Unix time"),
    (EVENTS, "since=99999999999999", "is not a Unix time"),
    (EVENTS, "symbol=BTC&exclude_symbol=ETH", "symbol and exclude_symbol exclude each other"),
    (EVENTS, "exchange=nasdaq", "'nasdaq' is not an exchange"),
    (EVENTS, "limit=100001", "is not a whole number from 1 to 100000"),
    (EVENTS, "min_usd=x", "min_usd='x' is not a number"),
    (OPTIONS, "exchange=nasdaq", "'nasdaq' is not an exchange"),
    (OPTIONS, "exchange=okx&symbol=DOGE", "no options of DOGE on okx; there is no fallback"),
    (OPTIONS, "exchange=hyperliquid", "no options of BTC on hyperliquid"),
    (OPTIONS, "exchange=deribit&symbol=btc", "no options of btc on deribit"),
]


@pytest.mark.parametrize(("path", "query", "message"), REFUSED)
def test_what_cannot_be_read_is_refused(ask: Caller, path: str, query: str, message: str) -> None:
    body = ask.error(f"{path}?{query}", 400)
    assert set(body) == {"error"}
    assert message in body["error"]


def test_unknown_parameters_symbols_and_pairs(ask: Caller) -> None:
    assert ask.body("/funding", colour="red") == ask.body("/funding")
    assert ask.body(MOVERS, start="x", colour=["a", "b"]) == ask.body(MOVERS)
    body = ask.body(HISTORY, symbol="NOPE")
    assert body["series"] == {}
    assert "historical funding starts in September 2025" in body["notices"][0]
    assert "unknown symbol 'NOPE'" in ask.error("/oi/NOPE/timeseries", 404)["error"]
    assert "unknown symbol 'btc'" in ask.error("/oi/btc/timeseries", 404)["error"]
    # Pairs of the matrix are answered, empty where the store has none; so are others that it holds.
    assert options(ask, exchange="deribit")["symbol"] == "BTC"
    assert options(ask, exchange="derive", symbol="ZEC") == {
        "symbol": "ZEC",
        "exchange": "derive",
        "count": 0,
        "instruments": [],
    }
    assert options(ask, exchange="bybit", symbol="XAU", tier="free")["count"] == 1


@pytest.mark.parametrize(
    "start",
    ["2026-06-29T10:00:00Z", "2026-06-29T10:00", "2026-06-29 10:00:00.000", "2026-06-29T12:00:00+02:00"],
)
def test_instants_are_read_with_and_without_zone(ask: Caller, start: str) -> None:
    body = ask.body(HISTORY, symbol="BTC", start=start, end="2026-06-29T10:01Z", exchanges="hyperliquid")
    expected = {"t": "2026-06-29T10:00:00Z", "timestamp": "2026-06-29T10:00:00Z", "y": 2.0}
    assert body["series"] == {"hyperliquid": [expected]}


def options(ask: Caller, **params: Any) -> Any:
    return ask.body(OPTIONS, **params)
