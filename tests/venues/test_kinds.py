"""A body is read as its kind, and rejected or read without rows as each other kind of its venue."""

from __future__ import annotations

import json
import re
from dataclasses import fields
from typing import Any

import pytest

import derivdata as dd
from derivdata.errors import SchemaError, VenueError
from derivdata.sources import venues
from derivdata.sources.venues.record_types import Records
from derivdata.sources.venues.registry import VENUES
from tests.venues.test_read import AT, CORPUS, TYPED, context_of

ALIKE = [
    ("apex", "/v3/(ticker|data/all-ticker-info)"),
    ("binance", "/([fd]api/v1|api/v3)/(markPrice|indexPrice)?[kK]lines"),
    ("binance", "/[fd]api/v1/depth"),
    ("binance", "/[fd]api/v1/fundingInfo"),
    ("binance", r"/futures/data/\w*LongShort\w*(\?pair)?"),
    ("binance", "/eapi/v1/(blockTrades|trades)"),
    ("bitget", "/api/v[23]/(mix/)?market/tickers|ticker"),
    ("bybit", "/v5/market/.*kline"),
    ("cryptocom", "/public/get-valuations.*"),
    ("deribit", "/public/get_instruments?"),
    ("deribit", "/public/(get_order_book|ticker)"),
    ("deribit", r"ticker\..*"),
    ("deribit", r"trades\..*"),
    ("derive", "/(v3/)?public/get_(all_)?instruments"),
    ("derive", "/(v3/)?public/get_funding_rate_history"),
    *(("gateio", f"/futures/[a-z0-9]+/{place}") for place in ("order_book", "liq_orders", "funding_rate")),
    *(("gateio", f"/futures/[a-z0-9]+/{place}") for place in ("contracts.*", "contract_stats", "tickers")),
    ("huobi", "/.*swap_liquidation_orders|public.*"),
    ("huobi", "/.*swap_elite_.*"),
    ("huobi", "/.*(swap_batch_|v5/market/)funding_rate"),
    ("kraken", "/api/charts/v1/(mark|spot)/.*"),
    ("kucoin", "/api/v1/contracts/.*"),
    ("kucoin", "/api/v1/level2/.*"),
    ("kucoin", "/api/v1/contract/funding-rates|market/funding-rate-history"),
    ("kucoin", "/api/v1/funding-rate/.*|market/funding-rate"),
    ("lighter", "/recentTrades|trade/.*"),
    ("lighter", "market_stats/.*"),
    ("okx", "/api/v5/public/delivery-exercise-history.*"),
    ("okx", "(/api/v5/public/)?funding-rate"),
    ("okx", r"(/api/v5/public/)?open-interest(\?instType=SWAP)?"),
    ("okx", "/api/v5/market/books|books"),
    ("okx", "(/api/v5/public/)?liquidation-orders"),
    ("okx", "/api/v5/rubik/stat/contracts/long-short-.*"),
    ("okx", "/api/v5/market/history-.*candles"),
    ("paradex", "markets_summary.*"),
    ("paradex", "funding_data.*"),
]
"""Paths of a venue whose bodies have the same fields, so that only the path identifies them."""

PARAMETERS = {
    "okx": "instId=BTC-USDT-SWAP", "gateio": "contract=BTC_USDT", "huobi": "contract_code=BTC-USDT",
    "deribit": "instrument_name=BTC-PERPETUAL", "derive": "instrument_name=BTC-PERP",
    "cryptocom": "instrument_name=BTCUSD-PERP", "edgex": "contractId=10000001", "lighter": "market_id=1",
    "paradex": "market=BTC-USD-PERP", "ethereal": "productId=1", "kraken": "symbol=PF_XBTUSD",
}  # fmt: skip
"""What requests name a contract by, where that is not ``symbol=BTCUSDT``."""


def _path_of(case: dict[str, Any]) -> str:
    place, params = venues._parsed(case["request"])
    endpoint, _ = venues._endpoint_of(case["venue"], place, params)
    return place if endpoint is None else endpoint.path


def _are_alike(venue: str, path: str, other: str) -> bool:
    patterns = [re.compile(pattern) for name, pattern in ALIKE if name == venue]
    return any(pattern.fullmatch(path) and pattern.fullmatch(other) for pattern in patterns)


def _request(venue: str, path: str) -> str:
    """Return a request of an endpoint that names a contract in its path and its parameters."""
    filled = re.sub(r"\{\w+\}", "BTCUSDT", path)
    named = PARAMETERS.get(venue, "symbol=BTCUSDT")
    pair = "=BTCUSD" if path.endswith("?pair") else ""
    joint = "&" if "?" in filled else "?"
    category = "" if "category=" in filled else "&category=linear"
    return f"{filled}{pair}{joint}{named}&period=1h&interval=1h&resolution=3600{category}"


def _read_as(case: dict[str, Any], path: str) -> list[str]:
    """Return the tables that a body fills when it is read as the response of another endpoint."""
    told = {"at": case.get("at", AT), "context": context_of(case)}
    try:
        endpoint, reading = venues._opened(
            case["venue"], _request(case["venue"], path), json.dumps(case["body"]), **told
        )
        if endpoint is None:
            return []
        rows = venues._rows(endpoint, reading)
        if not any(getattr(rows, kind) for kind in _KINDS):
            return []
        result = venues._tabulate(endpoint, reading, rows)
    except (SchemaError, VenueError):
        return []
    return [name for name, frame in result.items() if len(frame)]


_KINDS = [
    kind.name
    for kind in fields(Records)
    if isinstance(getattr(Records(), kind.name), list) and kind.name not in ("times", "omitted")
]
"""Names of the lists of rows that a body may give."""


@pytest.mark.parametrize("venue", sorted({case["venue"] for case in [*CORPUS, *TYPED]}))
def test_body_of_one_kind_is_not_read_as_another(venue: str) -> None:
    paths = dict.fromkeys(endpoint.path for endpoint in VENUES[venue].endpoints)
    wrong = []
    for case in (case for case in [*CORPUS, *TYPED] if case["venue"] == venue):
        own = _path_of(case)
        for other in paths:
            if other != own and not _are_alike(venue, own, other):
                filled = _read_as(case, other)
                if filled:
                    wrong.append(f"{own} as {other}: {', '.join(filled)}: {case['body']}")
    assert wrong == []


def test_indistinguishable_bodies_name_existing_endpoints() -> None:
    for venue, pattern in ALIKE:
        matching = {e.path for e in VENUES[venue].endpoints if re.fullmatch(pattern, e.path)}
        assert len(matching) > 1, pattern


@pytest.mark.parametrize(
    ("venue", "request_", "body", "message"),
    [
        (
            "binance", "/fapi/v1/openInterest",
            {"symbol": "BTCUSD_PERP", "pair": "BTCUSD", "openInterest": "15004", "time": 1772438400000},
            "expected linear contracts, got BTCUSD_PERP, which is inverse",
        ),
        (
            "kraken", "/derivatives/api/v3/tickers",
            {"tickers": [{"symbol": "PF_XBTUSD", "limitPrice": 1.0}]},
            "expected rows with some of fundingRate, .* got none: the response belongs to another request",
        ),
        (
            "bybit", "/v5/market/tickers?category=linear",
            {"retCode": 0, "time": 1772438400000, "result": {"list": [
                {"symbol": "BTCUSDT", "fundingRate": "0.0001", "fundingRateTimestamp": "1772409600000"}]}},
            "Object missing required field `lastPrice`",
        ),
        (
            "okx", "/api/v5/public/instruments?instType=FUTURES",
            {"code": "0", "data": [{"instId": "BTC-USDT-SWAP", "instType": "SWAP", "ctVal": "0.01",
                "ctMult": "1", "ctValCcy": "BTC", "ctType": "linear", "uly": "BTC-USDT", "state": "live"}]},
            "expected an instrument of the type FUTURES, got SWAP",
        ),
        (
            "binance", "/fapi/v1/ticker/24hr",
            [{"symbol": "ETH-260327-2000-C", "lastPrice": "30.1", "priceChangePercent": "0", "volume": "1"}],
            "expected a future or a perpetual, got the option ETH-260327-2000-C",
        ),
        (
            "okx", "/api/v5/public/funding-rate?instId=BTC-USDT-SWAP",
            {"code": "0", "data": [{"instId": "BTC-USDT-SWAP", "instType": "SWAP", "fundingRate": "0.0001",
                "realizedRate": "0.0001", "fundingTime": "1772438400000",
                "nextFundingTime": "1772467200000"}]},
            "BTC-USDT-SWAP has a realizedRate: expected the running rate, got a payment",
        ),
        (
            "bybit", "allLiquidation.BTCUSDT",
            {"topic": "publicTrade.BTCUSDT", "data": [
                {"T": 1772438400000, "s": "BTCUSDT", "S": "Buy", "v": "2", "p": "50000"}]},
            "the frame is of the channel 'publicTrade.BTCUSDT': pass this as `request`",
        ),
        (
            "okx", "books",
            {"arg": {"channel": "bbo-tbt", "instId": "BTC-USDT-SWAP"}, "data": [
                {"asks": [["101", "3", "0", "1"]], "bids": [["100", "1", "0", "1"]], "ts": "1772438400000"}]},
            "the frame is of the channel 'bbo-tbt': pass this as `request`",
        ),
        (
            "huobi", "/index/market/history/linear_swap_mark_price_kline?contract_code=BTC-USDT",
            {"ch": "market.BTC-USDT.estimated_rate.60min", "data": [{"id": 1772438400, "open": "0.0001"}]},
            "expected bars of mark prices, got those of market.BTC-USDT.estimated_rate.60min",
        ),
        (
            "cryptocom", "/public/get-valuations?instrument_name=BTCUSD-PERP&valuation_type=funding_rate",
            {"id": 1, "method": "public/get-candlestick", "code": 0, "result": {
                "instrument_name": "BTCUSD-PERP", "data": [{"o": "5", "v": "0.0670", "t": 1772438400000}]}},
            "the response is of the method 'public/get-candlestick': pass this as `request`",
        ),
    ],
)  # fmt: skip
def test_mismatched_body_names_the_expected_kind(venue: str, request_: str, body: Any, message: str) -> None:
    with pytest.raises(SchemaError, match=message):
        dd.venues.read(venue, request_, json.dumps(body), at=AT)


OTHERS = [
    ("binance", "/fapi/v1/premiumIndex", "a position of an option",
     [{"symbol": "ETH-230426-1850-C", "side": "LONG", "quantity": "0.5", "markPrice": "20.5",
       "expiryDate": 1682496000000, "time": 1682492427106}]),
    ("binance", "/eapi/v1/mark", "an exercised option",
     [{"id": "1", "currency": "USDT", "symbol": "BTC-220721-25000-C", "exercisePrice": "25000",
       "markPrice": "25000", "quantity": "1", "createDate": 1658361600000}]),
    ("binance", "/eapi/v1/ticker", "an exercised option",
     [{"id": "1", "currency": "USDT", "symbol": "BTC-220721-25000-C", "exercisePrice": "25000",
       "quantity": "1", "createDate": 1658361600000}]),
    ("binance", "/fapi/v1/ticker/24hr", "an order",
     [{"orderId": 1, "symbol": "BTCUSDT", "status": "NEW", "price": "99995", "origQty": "1",
       "cumQuote": "0", "type": "LIMIT", "updateTime": 1571110484038}]),
    ("bybit", "/v5/market/tickers?category=linear", "a delivery price",
     {"retCode": 0, "time": 1672055336993, "result": {"category": "option", "list": [
         {"symbol": "ETH-26DEC22-1400-C", "deliveryPrice": "1220.7", "deliveryTime": "1672041600000"}]}}),
    ("bybit", "/v5/market/tickers?category=inverse", "a position",
     {"retCode": 0, "time": 1672280219169, "result": {"category": "inverse", "list": [
         {"symbol": "BTCUSD", "side": "Sell", "size": "300", "avgPrice": "27464.5", "markPrice": "28224.5",
          "positionValue": "0.0109", "updatedTime": "1684300800000"}]}}),
    ("bitget", "/api/v2/mix/market/tickers?productType=USDT-FUTURES", "a spot ticker",
     {"code": "00000", "requestTime": 1695808949356, "data": [
         {"symbol": "BTCUSDT", "open": "35134.2", "lastPr": "34413.1", "quoteVolume": "10",
          "baseVolume": "1", "change24h": "-0.02", "ts": "1625125755277"}]}),
    ("binance", "/fapi/v1/ticker/24hr", "a ticker of a spot pair",
     [{"symbol": "BTCUSDT", "priceChangePercent": "-0.159", "lastPrice": "118449.03", "volume": "14741.41",
       "bidPrice": "118449.02", "bidQty": "7.15931", "quoteVolume": "1744744445.81"}]),
    ("aster", "/fapi/v1/ticker/24hr", "a ticker of a spot pair",
     [{"symbol": "BTCUSDT", "priceChangePercent": "-0.159", "lastPrice": "118449.03", "volume": "14741.41",
       "bidPrice": "118449.02", "bidQty": "7.15931", "quoteVolume": "1744744445.81"}]),
    ("bybit", "/v5/market/tickers?category=linear", "a ticker of a spread",
     {"retCode": 0, "time": 1744168585009, "result": {"list": [
         {"symbol": "SOLUSDT_SOL/USDT", "bidPrice": "21.0", "lastPrice": "19.5", "volume24h": "7"}]}}),
    ("bybit", "/v5/market/tickers?category=linear", "a ticker of a spot pair",
     {"retCode": 0, "time": 1744168585009, "result": {"category": "spot", "list": [
         {"symbol": "BTCUSDT", "lastPrice": "20533.13", "volume24h": "11801.27"}]}}),
    ("bybit", "/v5/market/instruments-info?category=linear", "a spread",
     {"retCode": 0, "result": {"list": [
         {"symbol": "SOLUSDT_SOL/USDT", "contractType": "FundingRateArb", "status": "Trading",
          "baseCoin": "SOL", "quoteCoin": "USDT", "launchTime": "1743675300000", "deliveryTime": "0"}]}}),
    ("okx", "/api/v5/public/mark-price?instType=OPTION&instFamily=BTC-USD", "a block trade of an option",
     {"code": "0", "data": [{"instId": "BTC-USD-231013-22000-P", "fillVol": "5", "fwdPx": "26857.8",
         "groupId": "", "idxPx": "26889.7", "markPx": "0.0000069", "px": "0.0026", "side": "buy", "sz": "1",
         "tradeId": "1", "ts": "1697181568974"}]}),
    ("okx", "/api/v5/public/open-interest?instType=FUTURES", "the open interest of a swap",
     {"code": "0", "data": [{"instType": "SWAP", "instId": "BTC-USDT-SWAP", "oi": "5000", "oiCcy": "555.55",
         "oiUsd": "50000", "ts": "1597026383085"}]}),
    ("okx", "/api/v5/market/tickers?instType=SWAP", "a ticker of a spot pair",
     {"code": "0", "data": [{"instType": "SPOT", "instId": "BTC-USDT", "last": "77500", "open24h": "77000",
         "volCcy24h": "100", "ts": "1788086400000"}]}),
    ("hyperliquid", "/info perpDexs", "a list of spot coins",
     [{"name": "PURR", "szDecimals": 0, "weiDecimals": 5, "index": 1, "fullName": None}]),
    ("gateio", "/futures/usdt/tickers", "a liquidation of a position",
     [{"time": 1548654951, "contract": "BTC_USDT", "size": 600, "entry_price": "3536.1",
       "liq_price": "3421.5", "mark_price": "3420.2"}]),
    ("gateio", "/futures/usdt/tickers", "statistics",
     [{"time": 1603865400, "contract": "BTC_USDT", "lsr_taker": 100, "open_interest": 124724,
       "mark_price": "8865"}]),
    ("hyperliquid", "/info perpDexs", "a list of coins", [{"name": "BTC", "szDecimals": 5}]),
    ("kucoin", "/api/v1/funding-rate/XBTUSDTM/current", "trading fees",
     {"code": "200000", "data": [{"symbol": "XBTUSDTM", "takerFeeRate": "0.001", "makerFeeRate": "0.001"}]}),
    ("pacifica", "/info", "a position",
     {"success": True, "data": [{"symbol": "AAVE", "side": "ask", "amount": "1", "entry_price": "279.2",
                                 "created_at": 1754928414996}]}),
    ("woofipro", "/public/info", "an order",
     {"success": True, "data": {"rows": [{"order_id": "1", "symbol": "PERP_ETH_USDC", "side": "BUY",
                                          "price": "2128", "quantity": "1", "status": "FILLED"}]}}),
    ("bitmex", "/orderBook/L2?symbol=XBTUSD", "a trade",
     [{"timestamp": "2020-10-12T17:24:24.848Z", "symbol": "XBTUSD", "side": "Sell", "size": 8,
       "price": 11584}]),
    ("cryptocom", "/public/get-valuations?instrument_name=BTCUSD-PERP&valuation_type=funding_hist",
     "a bar that is pushed",
     {"id": -1, "method": "subscribe", "code": 0, "result": {"instrument_name": "BTCUSD-PERP", "data": [
         {"o": "51140.5", "h": "51699", "l": "49212", "c": "51313.5", "v": "0.5", "t": 1613547318000}]}}),
    ("kraken", "/derivatives/api/v3/tickers/PI_XBTUSD", "an order",
     {"order_id": "1", "symbol": "PI_XBTUSD", "side": "buy", "limitPrice": 1860.0, "unfilledSize": 10.0}),
    ("bingx", "/openApi/swap/v2/quote/premiumIndex", "a position",
     {"code": 0, "data": {"symbol": "BTC-USDT", "positionSide": "LONG", "entryPrice": "50000",
                          "markPrice": "51000"}}),
    ("okx", "/api/v5/market/history-mark-price-candles?instId=BTC-USDT-SWAP&bar=1H", "bars of last prices",
     {"arg": {"channel": "candle1H", "instId": "BTC-USDT-SWAP"}, "data": [
         ["1662716400000", "20702.4", "20710", "20702.3", "20703.8", "4070", "40.7"]]}),
    ("okx", "/api/v5/rubik/stat/taker-volume-contract?instId=BTC-USDT-SWAP&period=1D", "contracts, not USD",
     {"code": "0", "data": [["1777219200000", "4340981.26", "4091012.20"]], "msg": ""}),
    ("huobi", "/v5/market/funding_rate_history?contract_code=BTC-USDT", "the running rate",
     {"op": "notify", "topic": "public.BTC-USDT.funding_rate", "ts": 1617309787271, "data": [
         {"contract_code": "BTC-USDT", "funding_time": "1617309780000", "funding_rate": "0.0001"}]}),
]  # fmt: skip
"""Bodies of requests and channels that are not read here, in layouts that public clients record."""


@pytest.mark.parametrize(("venue", "request_", "kind", "body"), OTHERS)
def test_a_body_of_a_request_that_is_not_read_is_rejected(
    venue: str, request_: str, kind: str, body: Any
) -> None:
    with pytest.raises(SchemaError):
        dd.venues.read(venue, request_, json.dumps(body), at=AT, context={"interval_hours": 8})
