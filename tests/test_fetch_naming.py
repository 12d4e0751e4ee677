"""Symbols and venues are recognised by other names, or rejected before any request."""

from __future__ import annotations

import re
import warnings
from typing import Any

import pytest

import derivdata as dd
from derivdata.errors import DataNotice, NotFound
from derivdata.tables.endpoints import Request
from tests.support.rows import rows
from tests.test_fetch_validation import DAY, STAMP, always, answering, history

PLACE = {"symbol": "BTC", "exchange": ["binance", "okx"], "timestamp": STAMP}
RATES = rows("funding_snapshot", **PLACE, rate_bps_8h=1.0, kind="sampled")


def asked(call: Any, body: Any) -> dict[str, str]:
    """The query, and the path, of the one request that a call makes.

    For a coin with several contract symbols, their list is also requested.
    """
    with answering(always(body)) as requests, warnings.catch_warnings():
        warnings.simplefilter("ignore", DataNotice)
        call()
    (request,) = (request for request in requests if request.path != "/funding/metadata")
    return {"path": request.path, **dict(request.query)}


@pytest.mark.parametrize("name", ["btc", "BTC/USDT:USDT", "XBT"])
def test_contract_names_are_read_as_symbols(name: str) -> None:
    body = history({"timestamp": STAMP, "y": 1.0})
    assert asked(lambda: dd.funding.history(name, *DAY), body)["symbol"] == "BTC"
    held = {"symbol": "BTC", "unit": "usd", "resolution": "1h", "data": []}
    assert asked(lambda: dd.oi.history(name, *DAY), held)["path"] == "/oi/BTC/timeseries"
    chain = {"symbol": "BTC", "exchange": "deribit", "instruments": []}
    assert asked(lambda: dd.options.snapshot(name, "Deribit"), chain) == {
        "path": "/options/snapshot",
        "symbol": "BTC",
        "exchange": "deribit",
    }
    orders: dict[str, Any] = {"events": []}
    assert asked(lambda: dd.liquidations.events(symbols=[name, "eth"]), orders)["symbol"] == "BTC,ETH"


@pytest.mark.parametrize("name", ["kPEPE", "xyz:TSLA", "FDUSD"])
def test_symbols_that_look_like_contracts_are_unchanged(name: str) -> None:
    body = history({"timestamp": STAMP, "y": 1.0}, symbol=name)
    assert asked(lambda: dd.funding.history(name, *DAY), body)["symbol"] == name


def test_venue_aliases_are_accepted() -> None:
    body = history() | {"series": {"gateio": [{"timestamp": STAMP, "y": 1.0}]}}
    assert asked(lambda: dd.funding.history("BTC", *DAY, venues=["Gate.io"]), body)["exchanges"] == "gateio"
    board = {"timestamp": "2026-06-30 12:00:00", "exchange": "huobi", "symbols": []}
    path = asked(lambda: dd.markets.exchange_symbols("htx"), board)["path"]
    assert path == "/markets/exchanges/huobi/symbols"


def test_venue_unknown_to_the_library_is_requested() -> None:
    body = history() | {"series": {"okx2": [{"timestamp": STAMP, "y": 1.0}]}}
    assert asked(lambda: dd.funding.history("BTC", *DAY, venues=["okx2"]), body)["exchanges"] == "okx2"


def test_a_symbol_without_rows_that_no_list_has_is_an_error() -> None:
    def reply(request: Request) -> tuple[int, Any]:
        if request.path == "/funding/metadata":
            return 200, {"symbols": ["BTC", "BTCDOM", "ETH"], "timestamp": "", "exchanges": {}}
        symbol = dict(request.query)["symbol"]
        return 200, history(symbol=symbol) | {"notices": ["no data: history starts in January 2020"]}

    with answering(reply):
        with (
            pytest.warns(DataNotice, match="no data"),
            pytest.raises(NotFound, match=r"unknown symbol 'BTX'.* 3 symbols .*did you mean BTC"),
        ):
            dd.funding.history("BTX", *DAY)
        with pytest.warns(DataNotice, match="no data"):
            assert dd.funding.settlements("ETH", *DAY).empty, "the list has it"
    unlisted = answering(lambda r: (500, {}) if "metadata" in r.path else reply(r))
    with unlisted, pytest.warns(DataNotice, match="no data"):
        assert dd.funding.history("BTX", *DAY).empty, "no list could be read"


@pytest.mark.parametrize(
    ("call", "refusal"),
    [
        (lambda: dd.funding.history("BTC", "1d", exchange=1), "no argument 'exchange'; did you mean 'venues"),
        (lambda: dd.oi.top_symbols("okx", "1d", exchanges=1), "'exchanges'; did you mean 'venue'?"),
        (lambda: dd.prices.history("BTC", "1d", resoluton="1h"), "'resoluton'; did you mean 'resolution'?"),
        (
            lambda: dd.prices.history("BTC", "1d", colour=1),
            "'colour'; its arguments are symbols, start, end, v",
        ),
        (lambda: dd.oi.history("BTC", "1d", resolution="7h"), "must be one of None, raw, 1m, 3m"),
        (lambda: dd.oi.history("BTC", "1d", venues=["binanc"]), "did you mean 'binance'"),
        (lambda: dd.orderbook.book("BTC", "hyperliqid"), "did you mean 'hyperliquid'"),
        (
            lambda: dd.connect("Sample"),
            "of an archive, got 'Sample'; did you mean 'sample'?",
        ),
        (lambda: dd.analysis.fundings, "no attribute 'fundings'; did you mean 'funding'?"),
        (lambda: dd.venues.facts(["huoby"]), "venues='huoby' is not a venue; did you mean 'huobi'?"),
        (lambda: dd.venues.read("binnance", "any", "{}"), "did you mean 'binance'?"),
        (
            lambda: dd.panel(RATES, "rate_bps8h"),
            "must have the column 'rate_bps8h'; did you mean 'rate_bps_8h'?",
        ),
        (
            lambda: dd.analysis.funding.spread(RATES, "Binance", "okx"),
            "is not a venue of this panel; its dim exchange has binance, okx; did you mean 'binance'?",
        ),
        (lambda: dd.units.convert(1.0, "bps8h", "apr"), "; did you mean 'bps_8h'?"),
    ],
)
def test_misspelt_word_raises_before_a_request_and_suggests_the_right_one(call: Any, refusal: str) -> None:
    """Nothing is connected, so that any request would fail."""
    with pytest.raises((AttributeError, TypeError, ValueError), match=re.escape(refusal)):
        call()
