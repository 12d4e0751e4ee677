"""Units, sides, errors and gaps of every venue, on bodies that were typed here from the specification."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pandas as pd
import pytest

import derivdata as dd
from derivdata.errors import SchemaError, VenueError
from derivdata.sources.venues.context import multiplier
from derivdata.sources.venues.tabulation import payment_hours

AT = "2026-03-02T08:00:00Z"
MS = 1_772_438_400_000  # the same instant
HOUR = 3_600_000

KRAKEN = {
    "symbol": "PI_XBTUSD",
    "markPrice": 50100.0,
    "indexPrice": 50000.0,
    "openInterest": 3e6,
    "fundingRate": 2e-9,
}
PREMIUM = {
    "symbol": "LPTUSDT", "markPrice": "5.0", "indexPrice": "5.1", "lastFundingRate": "0.0001",
    "nextFundingTime": MS + 8 * HOUR, "time": MS,
}  # fmt: skip
BYBIT = {
    "symbol": "BTCUSD", "fundingRate": "0.0002", "nextFundingTime": str(MS + HOUR), "markPrice": "50000",
    "indexPrice": "50000", "lastPrice": "50000", "openInterest": "2000000", "singleOpenInterest": "1000000",
    "turnover24h": "100", "volume24h": "7000000", "price24hPcnt": "0.01", "fundingIntervalHour": "4",
}  # fmt: skip
DETAIL = {"instId": "BTC-USD-SWAP", "details": [
    {"posSide": "net", "side": "buy", "bkPx": "50000", "sz": "30", "ts": str(MS)}
]}  # fmt: skip
SWAP = {
    "instId": "BTC-USD-SWAP", "instType": "SWAP", "ctVal": "100", "ctMult": "1", "ctValCcy": "USD",
    "ctType": "inverse", "settleCcy": "BTC", "uly": "BTC-USD", "state": "live",
}  # fmt: skip
TRADE = {
    "trade_id": "1",
    "instrument_name": "BTC-PERPETUAL",
    "timestamp": MS,
    "direction": "buy",
    "price": 50000.0,
    "amount": 1000.0,
}
CONTRACT = {
    "name": "BTC_USD", "type": "inverse", "in_delisting": False, "funding_rate": "0.0001",
    "funding_interval": 14400, "mark_price": "50000", "index_price": "50000", "last_price": "50000",
    "position_size": 1000000, "quanto_multiplier": "0", "status": "trading",
}  # fmt: skip


def _bybit(rows: list[dict[str, Any]]) -> dict[str, Any]:
    return {"retCode": 0, "result": {"category": "inverse", "list": rows}, "time": MS}


# venue, request, body, context, table, column, the values by hand
CASES: list[tuple[str, str, Any, dict[str, Any], str, str, list[float | str]]] = [
    # 0.01 % in 4 hours is 2 bps in 8
    (
        "binance",
        "/fapi/v1/premiumIndex",
        [{**PREMIUM, "nextFundingTime": MS + 4 * HOUR}],
        {"interval_hours": 4},
        "funding_history",
        "rate_bps_8h",
        [2.0],
    ),
    # of an inverse contract the open interest and the volume are USD; one side is half of both
    ("bybit", "/v5/market/tickers?category=inverse", _bybit([BYBIT]), {}, "oi_history", "oi_usd", [1e6]),
    (
        "bybit",
        "/v5/market/tickers?category=inverse",
        _bybit([BYBIT]),
        {},
        "markets_symbol_exchanges",
        "volume_24h_usd",
        [7e6],
    ),
    (
        "bybit",
        "/v5/market/tickers?category=inverse",
        _bybit([BYBIT]),
        {},
        "funding_history",
        "rate_bps_8h",
        [4.0],
    ),
    # Buy is a long that was liquidated
    (
        "bybit",
        "allLiquidation.BTCUSDT",
        {
            "topic": "allLiquidation.BTCUSDT",
            "data": [{"T": MS, "s": "BTCUSDT", "S": "Buy", "v": "2", "p": "50000"}],
        },
        {},
        "liquidations_fills",
        "side",
        ["long"],
    ),
    # 30 contracts of 100 USD; in net mode an order to buy closes a short
    (
        "okx",
        "liquidation-orders",
        {"data": [DETAIL]},
        {"contract_size": 100},
        "liquidations_fills",
        "value_usd",
        [3000.0],
    ),
    (
        "okx",
        "liquidation-orders",
        {"data": [DETAIL]},
        {"contract_size": 100},
        "liquidations_fills",
        "filled_quantity",
        [0.06],
    ),
    ("okx", "liquidation-orders", {"data": [DETAIL]}, {}, "liquidations_fills", "side", ["short"]),
    ("okx", "liquidation-orders", {"data": [DETAIL]}, {}, "liquidations_fills", "value_usd", [np.nan]),
    # taker and maker were both liquidated: a taker that bought was short, the maker long
    (
        "deribit",
        "/public/get_last_trades_by_currency_and_time",
        {"result": {"trades": [{**TRADE, "liquidation": "MT"}], "has_more": False}},
        {},
        "liquidations_fills",
        "side",
        ["long", "short"],
    ),
    (
        "deribit",
        "/public/get_last_trades_by_currency_and_time",
        {"result": {"trades": [{**TRADE, "liquidation": "M"}], "has_more": False}},
        {},
        "liquidations_fills",
        "filled_quantity",
        [0.02],
    ),
    (
        "deribit",
        "/public/get_book_summary_by_currency?currency=BTC&kind=option",
        {
            "result": [
                {
                    "instrument_name": "XRP_USDC-27SEP24-0d6-C",
                    "creation_timestamp": MS,
                    "open_interest": 5.0,
                    "underlying_price": 0.61,
                    "bid_price": None,
                    "ask_price": None,
                    "mark_price": 0.01,
                    "volume": 0.0,
                    "mark_iv": 80.0,
                }
            ]
        },
        {},
        "options_snapshot",
        "iv",
        [0.8],
    ),
    (
        "deribit",
        "/public/get_book_summary_by_currency?currency=BTC&kind=option",
        {
            "result": [
                {
                    "instrument_name": "XRP_USDC-27SEP24-0d6-C",
                    "creation_timestamp": MS,
                    "open_interest": 5.0,
                    "underlying_price": 0.61,
                    "bid_price": None,
                    "ask_price": None,
                    "mark_price": 0.01,
                    "volume": 0.0,
                    "mark_iv": 80.0,
                }
            ]
        },
        {},
        "options_snapshot",
        "strike",
        [0.6],
    ),
    # an hourly decimal of 0.0000125 is 1 bps in 8 hours
    (
        "hyperliquid",
        "/info fundingHistory",
        [{"coin": "BTC", "fundingRate": "0.0000125", "time": MS + i * HOUR + 31} for i in range(3)],
        {},
        "funding_settlements",
        "rate_bps_8h",
        [1.0, 1.0, 1.0],
    ),
    ("gateio", "/futures/btc/contracts", [CONTRACT], {}, "oi_history", "oi_usd", [1e6]),
    ("gateio", "/futures/btc/contracts", [CONTRACT], {}, "funding_history", "rate_bps_8h", [2.0]),
    (
        "gateio",
        "/futures/usdt/contract_stats?contract=BTC_USDT&interval=5m",
        [{"time": MS // 1000, "open_interest": 40, "open_interest_usd": 200.0, "mark_price": 50000.0}],
        {"contract_size": 0.0001},
        "oi_history",
        "oi_usd",
        [100.0],
    ),
    (
        "bitget",
        "/api/v3/market/liquidations?category=USDT-FUTURES",
        {
            "code": "00000",
            "data": {
                "list": [
                    {"symbol": "BTCUSDT", "side": "buy", "price": "50000", "amount": "0.5", "ts": str(MS)}
                ]
            },
        },
        {},
        "liquidations_fills",
        "value_usd",
        [25000.0],
    ),
    # the same base rate stands as a fraction in 8 hours and as percent in one
    (
        "lighter",
        "/funding-rates",
        {
            "code": 200,
            "funding_rates": [{"market_id": 1, "exchange": "lighter", "symbol": "BTC", "rate": 0.000096}],
        },
        {},
        "funding_history",
        "rate_bps_8h",
        [0.96],
    ),
    (
        "lighter",
        "/fundings?market_id=BTC",
        {
            "code": 200,
            "fundings": [{"timestamp": MS // 1000, "value": "0.6", "rate": "0.0012", "direction": "short"}],
        },
        {},
        "funding_settlements",
        "rate_bps_8h",
        [-0.96],
    ),
    # money per contract: an inverse one is a product
    (
        "kraken",
        "/derivatives/api/v3/tickers",
        {"result": "success", "tickers": [KRAKEN], "serverTime": AT},
        {},
        "funding_history",
        "rate_bps_8h",
        [8.0],
    ),
    (
        "kraken",
        "/derivatives/api/v3/tickers",
        {
            "result": "success",
            "tickers": [{**KRAKEN, "symbol": "PF_XBTUSD", "fundingRate": 0.5}],
            "serverTime": AT,
        },
        {},
        "funding_history",
        "rate_bps_8h",
        [0.8],
    ),
    (
        "paradex",
        "/funding/data?market=BTC-USD-PERP",
        {
            "results": [
                {
                    "market": "BTC-USD-PERP",
                    "funding_rate": "0.0003",
                    "funding_rate_8h": "0.0001",
                    "funding_period_hours": 24,
                    "created_at": MS,
                }
            ]
        },
        {},
        "funding_history",
        "rate_bps_8h",
        [1.0],
    ),
    (
        "dydx",
        "/historicalFunding/BTC-USD",
        {
            "historicalFunding": [
                {"ticker": "BTC-USD", "rate": "0.00001", "effectiveAt": "2026-03-02T08:00:00.586Z"}
            ]
        },
        {},
        "funding_settlements",
        "rate_bps_8h",
        [0.8],
    ),
    (
        "aster",
        "/fapi/v1/fundingRate",
        [{"symbol": "BTCUSDT", "fundingTime": MS + 13, "fundingRate": "0.0001"}],
        {},
        "funding_settlements",
        "rate_bps_8h",
        [1.0],
    ),
    (
        "kucoin",
        "/api/v1/contract/funding-rates?symbol=XBTUSDTM",
        {"code": "200000", "data": {"symbol": "XBTUSDTM", "list": [{"fundingRate": "0.0001", "ts": MS}]}},
        {},
        "funding_settlements",
        "symbol",
        ["BTC"],
    ),
    (
        "mexc",
        "/api/v1/contract/funding_rate",
        {
            "success": True,
            "code": 0,
            "data": [{"symbol": "BTC_USDT", "fundingRate": 6.3e-5, "collectCycle": 1, "timestamp": MS}],
        },
        {},
        "funding_history",
        "rate_bps_8h",
        [5.04],
    ),
    # HTX counts both sides; its inverse list names no business type: 2,000 contracts of 100 USD are 100,000
    (
        "huobi",
        "/swap-api/v1/swap_open_interest",
        {
            "status": "ok",
            "ts": MS,
            "data": [{"symbol": "BTC", "contract_code": "BTC-USD", "volume": 2000, "amount": 4}],
        },
        {},
        "oi_history",
        "oi_usd",
        [100_000.0],
    ),
    # v5 counts contracts in both fields; the stream's amount is coins
    (
        "huobi",
        "/v5/market/liquidation_orders",
        {
            "code": 200,
            "data": [
                {
                    "id": "1",
                    "contract_code": "BTC-USDT",
                    "liquidation_time": str(MS),
                    "side": "sell",
                    "position_side": "long",
                    "volume": "3",
                    "amount": "3",
                    "bankrupt_price": "50000",
                    "trade_turnover": "150",
                }
            ],
        },
        {"contract_size": 0.001},
        "liquidations_fills",
        "filled_quantity",
        [0.003],
    ),
    (
        "derive",
        "/v3/public/get_funding_rate_history",
        {
            "result": {
                "funding_rate_history": [{"timestamp": MS, "funding_rate": "0.00001", "currency": "BTC"}]
            }
        },
        {},
        "funding_settlements",
        "interval_hours",
        [1.0],
    ),
]


@pytest.mark.parametrize(("exchange", "request_", "body", "context", "table", "column", "values"), CASES)
def test_a_body_is_read_in_its_own_unit(
    exchange: str,
    request_: str,
    body: Any,
    context: dict[str, Any],
    table: str,
    column: str,
    values: list[Any],
) -> None:
    frame = dd.venues.read(exchange, request_, json.dumps(body), at=AT, context=context)[table]
    found = frame[column].tolist()
    if isinstance(values[0], str):
        assert sorted(found) == values
    else:
        np.testing.assert_allclose(found, values, rtol=1e-12)
    assert set(frame["exchange"]) == {exchange}


def test_prices_of_options_are_in_coin_where_they_are_settled_in_coin() -> None:
    row = {"creation_timestamp": MS, "open_interest": 5.0, "underlying_price": 50_500.0, "mark_iv": 60.0,
           "bid_price": 0.04, "ask_price": None, "mark_price": 0.041, "volume": 2.0,
           "estimated_delivery_price": 50_000.0}  # fmt: skip
    rows = [{**row, "instrument_name": f"{base}-27MAR26-50000-C"} for base in ("BTC", "BTC_USDC")]
    path = "/public/get_book_summary_by_currency?currency=BTC&kind=option"
    found = dd.venues.read("deribit", path, json.dumps({"result": rows}))["options_snapshot"]
    found = found.set_index("instrument_name")
    inverse, linear = found.loc["BTC-27MAR26-50000-C"], found.loc["BTC_USDC-27MAR26-50000-C"]
    assert (inverse["bid_coin"], inverse["mark_coin"], inverse["index_price_usd"]) == (0.04, 0.041, 50_000.0)
    assert np.isnan(inverse["ask_coin"])
    assert np.isnan(inverse["bid_usd"])
    assert (linear["bid_usd"], linear["volume"]) == (0.04, 2.0)
    assert np.isnan(linear["bid_coin"])


@pytest.mark.parametrize(
    ("stated", "minutes", "until", "wanted"),
    [  # at 08:00 and so many minutes; hours until the next payment from 08:00 on
        (8, 0, 8, [1.0]),  # 16:00 is a payment of 8 hours
        (8, 0, 4, [2.0]),  # 12:00 is none of 8 hours, and too far for 1 or 2: it is 4 by now
        (8, 90, 2, []),  # 10:00 in half an hour may be one of 1 or of 2 hours
        (8, 30, 2, [4.0]),  # in an hour and a half it is one of 2
        (4, 0, 8, [1.0]),  # 8 hours away is longer than 4
        (1, 0, 3, []),  # 11:00 is longer than an hour away, and no multiple of 2, 4 or 8
        (4, 200, 4, [2.0]),
    ],
)
@pytest.mark.parametrize("exchange", ["binance", "huobi"])
def test_an_older_interval_counts_as_far_as_the_next_payment_agrees(
    exchange: str, stated: int, minutes: int, until: int, wanted: list[float]
) -> None:
    now, due = MS + minutes * 60_000, MS + until * HOUR
    if exchange == "binance":
        path, body = "/fapi/v1/premiumIndex", json.dumps([{**PREMIUM, "time": now, "nextFundingTime": due}])
    else:
        path = "/linear-swap-api/v1/swap_batch_funding_rate"
        row = {"contract_code": "LPT-USDT", "funding_rate": "0.0001", "funding_time": str(due)}
        body = json.dumps({"status": "ok", "ts": now, "data": [row]})
    found = dd.venues.read(exchange, path, body, context={"interval_hours": stated})["funding_history"]
    assert found["rate_bps_8h"].tolist() == wanted


def test_a_rate_without_an_interval_is_left_out_until_one_is_named() -> None:
    body = json.dumps([PREMIUM])
    assert dd.venues.read("binance", "/fapi/v1/premiumIndex", body)["funding_history"].empty
    other = '[{"symbol": "BTCUSDT", "fundingIntervalHours": 4}]'
    told = dd.venues.read("binance", "/fapi/v1/fundingInfo", other)
    found = dd.venues.read("binance", "/fapi/v1/premiumIndex", body, context=told)["funding_history"]
    assert found["rate_bps_8h"].tolist() == [1.0]  # fundingInfo does not list it: 8 hours


def test_what_an_instrument_list_told_is_context_for_another_body() -> None:
    told = dd.venues.read(
        "okx", "/api/v5/public/instruments?instType=SWAP", json.dumps({"code": "0", "data": [SWAP]})
    )
    rows = dd.venues.read("okx", "liquidation-orders", json.dumps({"data": [DETAIL]}), context=told)
    assert rows["liquidations_fills"]["value_usd"].tolist() == [3000.0]


ERRORS = [
    ("binance", '{"code": -1003, "msg": "Too many requests"}', "-1003", "limit"),
    ("binance", '{"code": 0, "msg": "Service unavailable from a restricted location"}', "451", "region"),
    ("bybit", '{"retCode": 10016, "retMsg": "server", "result": {}, "time": 1}', "10016", "busy"),
    ("okx", '{"code": "50011", "msg": "Too Many Requests", "data": []}', "50011", "limit"),
    ("hyperliquid", "null", "null", "refused"),
    ("gateio", '{"label": "TOO_MANY_REQUESTS", "message": "slow"}', "TOO_MANY_REQUESTS", "limit"),
    (
        "bitget",
        '{"code": "40034", "msg": "no such symbol", "requestTime": 1, "data": null}',
        "40034",
        "refused",
    ),
    ("deribit", '{"error": {"code": 11051, "message": "maintenance"}}', "11051", "busy"),
    ("lighter", '{"code": 20001, "message": "invalid param"}', "20001", "refused"),
    ("paradex", '{"error": "NOT_FOUND", "message": "no market"}', "NOT_FOUND", "refused"),
    ("aster", '{"code": -1121, "msg": "Invalid symbol."}', "-1121", "refused"),
    ("kraken", '{"result": "error", "error": "apiLimitExceeded"}', "apiLimitExceeded", "limit"),
    ("dydx", '{"errors": [{"msg": "blocked", "code": "GEOBLOCKED"}]}', "GEOBLOCKED", "region"),
    ("kucoin", '{"code": "429000", "msg": "Too many requests"}', "429000", "limit"),
    ("mexc", '{"success": false, "code": 510, "message": "frequently"}', "510", "limit"),
    (
        "huobi",
        '{"status": "error", "err-code": "invalid-parameter", "err-msg": "bad", "ts": 1}',
        "invalid-parameter",
        "refused",
    ),
    ("huobi", '{"code": 1032, "message": "too often", "ts": 1}', "1032", "limit"),
    ("derive", '{"id": 1, "error": {"code": -32000, "message": "rate limit"}}', "-32000", "limit"),
]


@pytest.mark.parametrize(("exchange", "body", "code", "reason"), ERRORS)
def test_an_error_with_http_200_is_an_error_on_every_path(
    exchange: str, body: str, code: str, reason: str
) -> None:
    rows = dd.venues.endpoints()
    paths = rows.loc[(rows["exchange"] == exchange) & (rows["method"] != "WS"), "path_or_channel"]
    for path in ["any", *paths]:
        with pytest.raises(VenueError) as caught:
            dd.venues.read(exchange, path, body, at=AT)
        assert (caught.value.code, caught.value.reason) == (code, reason)
        assert caught.value.retryable == (reason in ("limit", "busy"))


def test_the_sixteen_venues_are_listed_and_none_is_said_to_be_verified() -> None:
    rows = dd.venues.endpoints()
    assert rows["exchange"].nunique() == 16 + 4  # with the dexes of Hyperliquid
    assert rows["verified_on"].isna().all()
    funding = rows[rows["what"].isin(["funding", "settlements"])]
    assert set(funding["exchange"]) == set(rows["exchange"])
    options = rows[rows["tables"].str.contains("options_snapshot")]["exchange"]
    assert set(options) == {"binance", "bybit", "okx", "deribit", "derive"}


@pytest.mark.parametrize(
    ("hours", "wanted"),
    [
        ([8, 8, 4, 4, 1, 1], [8, 8, 8, 4, 4, 1, 1]),  # a change within the window
        ([8, 16, 8], [8, 8, 8, 8]),  # a hole takes the last good one
        ([1, 2, 1, 1], [1, 1, 1, 1, 1]),  # a single 2 between 1s is a missing hour
        ([1, 2, 2, 1], [1, 1, 2, 2, 1]),  # two of them are a change
        ([3], [8, 8]),  # no good spacing: the default
        ([], [8]),
    ],
)
def test_intervals_come_from_the_spacing_of_payments(hours: list[int], wanted: list[int]) -> None:
    times = np.cumsum([0, *hours]).astype(np.int64) * HOUR * 1000
    assert payment_hours(times, 8.0).tolist() == wanted


@pytest.mark.parametrize(
    ("late_ms", "floored"), [(0, True), (13, True), (59_999, True), (60_000, False), (300_000, False)]
)
def test_a_late_stamp_is_floored_within_a_minute(late_ms: int, floored: bool) -> None:
    body = json.dumps([{"symbol": "BTCUSDT", "fundingTime": MS + late_ms, "fundingRate": "0.0001"}])
    time = dd.venues.read("binance", "/fapi/v1/fundingRate", body)["funding_settlements"]["time"][0]
    assert time == pd.Timestamp(AT) + pd.Timedelta(0 if floored else late_ms, "ms")


@pytest.mark.parametrize(
    ("symbol", "coins"),
    [
        ("1000PEPE", 1e3),
        ("SHIB1000", 1e3),
        ("1000000BABYDOGE", 1e6),
        ("1MBABYDOGE", 1e6),
        ("kPEPE", 1e3),
        ("1INCH", 1),
        ("1CAT", 1),
        ("1000CAT", 1e3),
        ("10000LADYS", 1e4),
        ("BTC", 1),
        ("KAVA", 1),
        ("1000MOG", 1e3),
    ],
)
def test_multipliers_are_read_from_the_base(symbol: str, coins: float) -> None:
    assert multiplier(symbol) == coins


def test_a_batch_in_the_wrong_unit_is_refused_by_its_median() -> None:
    rows = [
        {"market_id": i, "exchange": "lighter", "symbol": f"C{i}", "rate": 0.0096} for i in range(30)
    ]  # percent where a fraction should be: 96 bps in 8 hours for the median contract
    with pytest.raises(SchemaError, match="median funding rate of 30 contracts is 96 bps"):
        dd.venues.read("lighter", "/funding-rates", json.dumps({"code": 200, "funding_rates": rows}), at=AT)


def test_sides_of_open_interest_that_do_not_agree_are_refused() -> None:
    row = {**BYBIT, "singleOpenInterest": "2000000"}
    with pytest.raises(SchemaError, match="half of openInterest and singleOpenInterest"):
        dd.venues.read("bybit", "/v5/market/tickers?category=inverse", json.dumps(_bybit([row])))


def test_contracts_taken_for_coins_are_refused_where_the_turnover_tells() -> None:
    body = {"topic": "public.*.liquidation_orders", "data": [
        {"contract_code": "BTC-USDT", "direction": "sell", "created_at": MS, "price": 50000, "volume": 3,
         "amount": 3, "trade_turnover": 150}
    ]}  # fmt: skip
    with pytest.raises(SchemaError, match="amount × price and turnover"):
        dd.venues.read("huobi", "public.*.liquidation_orders", json.dumps(body))


def test_seconds_among_milliseconds_are_refused() -> None:
    body = json.dumps([{"symbol": "BTCUSDT", "fundingTime": MS // 1000, "fundingRate": "0.0001"}])
    with pytest.raises(SchemaError, match="no instant of 2014 to 2100"):
        dd.venues.read("binance", "/fapi/v1/fundingRate", body)


def test_equal_liquidations_of_one_message_are_rows_and_the_message_again_is_not() -> None:
    row = {"contract": "BTC_USDT", "time": MS // 1000, "size": "200", "left": "0", "order_size": "-200",
           "fill_price": "50000", "order_price": "49900"}  # fmt: skip
    first, again = (
        dd.venues.read("gateio", "/futures/usdt/liq_orders", json.dumps([row, row]))["liquidations_fills"]
        for _ in range(2)
    )
    assert first["order_id"].nunique() == 2
    assert set(first["order_id"]) == set(again["order_id"])


def test_usdt_comes_before_other_quotes_and_linear_before_inverse() -> None:
    rows = [
        {**PREMIUM, "symbol": s, "lastFundingRate": r}
        for s, r in (("BTCUSDC", "0.0003"), ("BTCUSDT", "0.0001"))
    ]
    found = dd.venues.read(
        "binance", "/fapi/v1/premiumIndex", json.dumps(rows), context={"interval_hours": 8}
    )
    assert found["funding_history"]["rate_bps_8h"].tolist() == [1.0]
    both = [{**KRAKEN}, {**KRAKEN, "symbol": "PF_XBTUSD", "fundingRate": 0.5}]
    body = {"result": "success", "tickers": both, "serverTime": AT}
    found = dd.venues.read("kraken", "/derivatives/api/v3/tickers", json.dumps(body))
    assert found["funding_history"]["rate_bps_8h"].tolist() == [pytest.approx(0.8)]


def test_a_body_that_names_no_contract_needs_the_request_to_name_it() -> None:
    body = json.dumps([{"t": MS // 1000, "r": "0.0001"}])
    with pytest.raises(SchemaError, match="does not name the contract: give it with the request"):
        dd.venues.read("gateio", "/futures/usdt/funding_rate", body)
    rows = dd.venues.read("gateio", "/futures/usdt/funding_rate?contract=ETH_USDT", body)
    assert rows["funding_settlements"]["symbol"].tolist() == ["ETH"]


def test_an_unknown_venue_or_path_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="venue='nope' is not one of binance, bybit"):
        dd.venues.read("nope", "/x", "[]")
    with pytest.raises(ValueError, match="binance has no endpoint '/x': it has"):
        dd.venues.read("binance", "/x", "[]")


def test_depth_is_the_value_near_the_mid_price_and_missing_where_the_book_ends_before() -> None:
    body = {
        "T": MS,
        "bids": [["99.95", "2"], ["99.6", "1"]],
        "asks": [["100.05", "3"], ["100.9", "1"], ["102", "1"]],
    }
    frame = dd.venues.read("binance", "/fapi/v1/depth?symbol=BTCUSDT", json.dumps(body))
    depth = frame["orderbook_depth_history"].set_index("depth_bps")
    assert depth.loc[10, "bid_depth_usd"] == pytest.approx(199.9)  # 5 bps away
    assert np.isnan(depth.loc[50, "bid_depth_usd"])  # the book ends at 40 bps
    assert depth.loc[100, "ask_depth_usd"] == pytest.approx(300.15 + 100.9)
