"""Bodies of requests that nobody's recording shows, typed after the venues' documentation."""

from __future__ import annotations

import json
from typing import Any

import pandas as pd
import pytest

from derivdata.errors import SchemaError, VenueError
from derivdata.sources import venues
from derivdata.sources.venues.record_types import Records
from tests.venues.test_mutations import _damaged, _wrong_rows
from tests.venues.test_read import CASES as TYPED

MS = 1_789_000_000_123
AT = pd.Timestamp("2026-10-01T12:00:00Z")
LISTED = pd.DataFrame(
    {
        "exchange": "deribit",
        "instrument_name": ["BTC-PERPETUAL"],
        "symbol": ["BTC"],
        "quote": ["USD"],
        "contract_size": [10.0],  # the step of orders, which is no factor of amounts
        "is_inverse": [True],
        "is_perpetual": [True],
        "is_active": [True],
    }
)
GATE = {"channel": "futures.public_liquidates", "event": "update", "result": [
    {"contract": "BTC_USDT", "time_ms": MS, "size": "-25", "price": "50000"}
]}  # fmt: skip
DERIBIT = {"result": {"has_more": False, "trades": [
    {"trade_id": "7", "instrument_name": "BTC-PERPETUAL", "timestamp": MS, "direction": "sell",
     "price": 50000.0, "amount": 1000.0, "liquidation": "T"}
]}}  # fmt: skip
SUMMARY = {"result": [
    {"instrument_name": "BTC-PERPETUAL", "creation_timestamp": MS, "open_interest": 1e9,
     "mark_price": 50000.0, "funding_8h": 0.0001, "volume_usd": 5.0}
]}  # fmt: skip
OKX_QUOTES = {"code": "0", "data": [
    {"instId": "BTC-USD-270326-50000-C", "bidPx": "0.04", "askPx": "", "vol24h": "3", "ts": str(MS)}
]}  # fmt: skip
OKX_MARKS = {"code": "0", "data": [{"instId": "BTC-USD-270326-50000-C", "markPx": "0.05", "ts": str(MS)}]}
OPTION_OI = [{"symbol": "BTC-270326-50000-C", "sumOpenInterest": "12.5", "sumOpenInterestUsd": "625000",
              "timestamp": str(MS)}]  # fmt: skip
BITGET = {"code": "00000", "data": {"cursor": "9", "list": [
    {"symbol": "BTCUSDT", "side": "buy", "price": "50000", "amount": "0.5", "ts": str(MS)}
]}}  # fmt: skip
KRAKEN = {"result": "success", "history": [
    {"time": "2026-09-10T00:26:40.123Z", "trade_id": 3, "uid": "u", "price": 50000.0, "size": 0.5,
     "side": "buy", "type": "liquidation"}
]}  # fmt: skip
DEX = [{"universe": [{"name": "xyz:NVDA", "szDecimals": 3}]}, [
    {"funding": "0.0000125", "openInterest": "10", "markPx": "200", "oraclePx": "199", "prevDayPx": "160",
     "dayNtlVlm": "4000", "midPx": "200", "dayBaseVlm": "20"}
]]  # fmt: skip
LIGHTER = {"channel": "trade:1", "type": "update/trade", "trades": [], "liquidation_trades": [
    {"trade_id": 5, "type": "liquidation", "market_id": 1, "size": "0.5", "price": "50000",
     "usd_amount": "25000", "is_maker_ask": True, "timestamp": MS}
]}  # fmt: skip
MARKETS = LISTED.assign(exchange="lighter", instrument_name="1:BTC", contract_size=1.0, is_inverse=False)
MAY_BE_EITHER = {
    "gate's stream": ("number at ('result', 0, 'price')",),
    "phemex /contract-biz/public/real-funding-rates": ("number at ('data', 'rows', 0, 'fundingRate')",),
    "phemex /api-data/public/data/funding-rate-history": ("number at ('data', 'rows', 0, 'fundingRate')",),
}
"""Another number of another kind, where clients have seen both kinds: nothing else tells which is right."""
TRADES = "/public/get_last_trades_by_currency_and_time?currency=BTC"
SUMMARIES = "/public/get_book_summary_by_currency?kind=future"
CASES: dict[str, tuple[str, str, Any, dict[str, Any]]] = {
    "gate's stream": ("gateio", "futures.public_liquidates", GATE, {"contract_size": 0.0001}),
    "deribit's trades": ("deribit", TRADES, DERIBIT, {"instruments": LISTED}),
    "deribit's summary": ("deribit", SUMMARIES, SUMMARY, {"instruments": LISTED}),
    "okx' quotes": ("okx", "/api/v5/market/tickers?instType=OPTION&instFamily=BTC-USD", OKX_QUOTES, {}),
    "okx' marks": ("okx", "/api/v5/public/mark-price?instType=OPTION&instFamily=BTC-USD", OKX_MARKS, {}),
    "binance's options": ("binance", "/eapi/v1/openInterest?underlyingAsset=BTC", OPTION_OI, {}),
    "bitget's list": ("bitget", "/api/v3/market/liquidations?category=USDT-FUTURES", BITGET, {}),
    "kraken's trades": ("kraken", "/derivatives/api/v3/history?symbol=PF_XBTUSD", KRAKEN, {}),
    "a dex": ("tradexyz", "/info metaAndAssetCtxs?dex=xyz", DEX, {}),
    "lighter's stream": ("lighter", "trade/1", LIGHTER, {"instruments": MARKETS}),
}
UNRECORDED = ("bingx", "phemex", "bitmex", "cryptocom", "edgex", "backpack")
"""Venues none of whose bodies anybody recorded for these tests."""
CASES |= {
    f"{case['venue']} {case['request']}": (
        case["venue"], case["request"], case["body"], case.get("context", {})
    )
    for case in TYPED if case["venue"] in UNRECORDED
}  # fmt: skip


def _records(case: str, body: Any) -> Records:
    exchange, request, _, context = CASES[case]
    raw = body if isinstance(body, bytes) else json.dumps(body)
    return venues.records(exchange, request, raw, at=AT, context=context)


@pytest.mark.parametrize("case", CASES)
def test_a_damaged_body_gives_no_wrong_row(case: str) -> None:
    body = CASES[case][2]
    sound, wrong = _records(case, body), {}
    for name, changed in _damaged(body):
        try:
            found = _records(case, changed)
        except (SchemaError, VenueError):
            continue
        if name in MAY_BE_EITHER.get(case, ()):
            continue
        if rows := _wrong_rows(sound, found):
            wrong[name] = rows[:2]
    assert wrong == {}


@pytest.mark.parametrize(
    ("case", "side", "coins", "usd"),
    [
        ("gate's stream", "short", 0.0025, 125.0),  # 25 contracts of 0.0001 coins at 50,000
        ("deribit's trades", "long", 0.02, 1000.0),  # amounts are USD, whatever the step of orders is
        ("bitget's list", "long", 0.5, 25_000.0),
        ("kraken's trades", "short", 0.5, 25_000.0),
        ("lighter's stream", "short", 0.5, 25_000.0),
    ],
)
def test_a_liquidation_is_of_the_position_and_in_coins(
    case: str, side: str, coins: float, usd: float
) -> None:
    (row,) = _records(case, CASES[case][2]).liquidations
    assert (row.side, row.time // 1000) == (side, MS)
    assert [row.filled, row.value_usd] == pytest.approx([coins, usd])


def test_figures_of_options_take_their_units() -> None:
    exchange, request, body, context = CASES["deribit's summary"]
    rows = venues.read(exchange, request, json.dumps(body), context=context)["oi_history"]
    assert rows["oi_usd"].tolist() == [1e9]
    (quoted,), (marked,), (open_,) = (
        _records(case, CASES[case][2]).options for case in ("okx' quotes", "okx' marks", "binance's options")
    )
    assert quoted.quotes is not None
    assert marked.quotes is not None
    assert quoted.quotes[:3] == (True, 0.04, None)
    assert (marked.quotes.in_coin, marked.quotes.mark) == (True, 0.05)
    assert (open_.symbol, open_.open_interest, open_.strike) == ("BTC", 12.5, 50_000.0)


def _contexts(*marks_and_means: tuple[float, float]) -> str:
    """Return contexts of that many coins, which traded 10,000 coins each."""
    universe = [{"name": f"C{i}", "szDecimals": 3} for i in range(len(marks_and_means))]
    rows = [
        {"funding": "0.0000125", "openInterest": "10", "markPx": str(mark), "oraclePx": str(mark),
         "prevDayPx": str(mean), "dayNtlVlm": str(mean * 1e4), "midPx": str(mark), "dayBaseVlm": "10000"}
        for mark, mean in marks_and_means
    ]  # fmt: skip
    return json.dumps([{"universe": universe}, rows])


def test_one_crashing_coin_does_not_cost_the_others_their_rows() -> None:
    """The coin stands at less than a tenth of its mean of the day, BTC near its own."""
    request = "/info metaAndAssetCtxs"
    frames = venues.read("hyperliquid", request, _contexts((50_000.0, 50_100.0), (0.9, 10.0)), at=AT)
    assert frames["oi_history"]["oi_usd"].tolist() == [500_000.0, 9.0]
    with pytest.raises(SchemaError, match="median coin"):
        venues.read("hyperliquid", request, _contexts((50_000.0, 5e6), (2_000.0, 2e5), (0.9, 0.9)), at=AT)


def test_a_dex_of_hyperliquid_is_a_venue_whose_symbols_are_its_coins() -> None:
    exchange, request, body, _ = CASES["a dex"]
    frames = venues.read(exchange, request, json.dumps(body), at=AT)
    assert frames["oi_history"][["symbol", "exchange", "oi_usd"]].to_numpy().tolist() == [
        ["NVDA", "tradexyz", 2000.0]
    ]
    assert frames["funding_history"]["rate_bps_8h"].tolist() == pytest.approx([1.0])
    paid = '[{"coin": "xyz:NVDA", "fundingRate": "0.0000125", "time": 1789002000031}]'
    rows = venues.read(exchange, "/info fundingHistory?coin=xyz:NVDA", paid)["funding_settlements"]
    assert rows["interval_hours"].tolist() == [1]


@pytest.mark.parametrize(
    ("exchange", "frame"),
    [
        ("gateio", '{"event":"subscribe","error":{"code":2,"message":"unknown contract"},"result":null}'),
        ("huobi", '{"op":"sub","topic":"x","err-code":2011,"err-msg":"invalid topic"}'),
        ("lighter", '{"error":{"code":30005,"message":"invalid channel"}}'),
    ],
)
def test_a_refused_subscription_is_an_error(exchange: str, frame: str) -> None:
    with pytest.raises(VenueError, match=r"unknown contract|invalid"):
        venues.read(exchange, "any", frame)
