"""Recorded bodies, with what each needs to be read: the request, the arrival, what other answers told."""

from __future__ import annotations

import csv
from functools import cache
from typing import Any

import pandas as pd
import pytest

from derivdata.sources import venues
from tests.support.shared import shared_path

AT = pd.Timestamp("2026-10-01T12:00:00Z")

REQUESTS = {
    "binance/um_depth_5.json": "?symbol=BTCUSDT",
    "binance/um_depth_sushi_1000.json": "?symbol=SUSHIUSDT",
    "bitget/order_book.json": "?symbol=BTCUSDT",
    "derive/funding_rate_history_v2.json": "?instrument_name=ETH-PERP",
    "derive/get_ticker_perp_v3.json": "?instrument_name=BTC-PERP",
    "dydx/historical_funding.json": "BTC-USD",
    "dydx/orderbook.json": "BTC-USD",
    "dydx/trades.json": "BTC-USD",
    "dydx/trades_liquidated.json": "LINK-USD",
    "derive/ws_ticker_slim_call_2026.json": "ETH-20260626-1500-C",
    "derive/ws_ticker_slim_perp_2026.json": "ETH-PERP",
    "gate/funding_rate.json": "?contract=BTC_USDT",
    "gate/order_book_rdnt.json": "?contract=RDNT_USDT",
    "gate/contract_btc_2026.json": "BTC_USDT",
    "deribit/funding_rate_history.json": "?instrument_name=BTC-PERPETUAL",
    "kraken/historical_funding_rates_inverse.json": "?symbol=PI_XBTUSD",
    "kraken/order_book.json": "?symbol=PF_XBTUSD",
    "lighter/fundings.json": "?market_id=0",
    "lighter/order_book_orders.json": "?market_id=0",
    "okx/order_book.json": "?instId=BTC-USDT-SWAP",
    "paradex/trades_2026.json": "?market=BTC-USD-PERP",
    "bitget/funding_history_v2.json": "?symbol=BTCUSDT&productType=USDT-FUTURES",
}
"""Parameters (from ?) or the filled-in part of the path, of bodies that do not name their contract."""

CONTEXTS: dict[str, tuple[str, ...]] = {
    "binance/um_premium_index_all.json": ("binance/um_funding_info.json",),
    "binance/um_premium_index_2026.json": ("binance/um_funding_info.json",),
    "bybit/linear_tickers_old.json": ("bybit/instruments_linear_2026.json",),
    "okx/ws_liquidation_btc_2026.json": ("okx/instruments_swap.json",),
    "okx/ws_liquidation_iost.json": ("okx/instruments_swap_2022.json",),
    "okx/order_book.json": ("okx/instruments_swap.json",),
    "gate/liq_orders_short.json": ("gate/contract_btc_2026.json",),
    "gate/liq_orders_2026.json": ("gate/contract_btc_2026.json",),
    "gate/order_book_rdnt.json": ("gate/contracts_2023.json",),
    "bitget/tickers_v3.json": ("bitget/current_fund_rate.json",),
    "lighter/fundings.json": ("lighter/order_book_details.json",),
    "lighter/order_book_orders.json": ("lighter/order_book_details.json",),
    "lighter/trade_liquidation.json": ("lighter/order_book_details.json",),
    "hyperliquid/ws_all_dexs_asset_ctxs.json": ("hyperliquid/meta.json",),
    "mexc/tickers.json": ("mexc/detail.json", "mexc/funding_rates.json"),
    "huobi/liquidation_orders_v5.json": ("huobi/linear_contract_info_2022.json",),
}
"""Bodies of the same venue that tell what a body refers to."""

EIGHT_HOURS = (
    "binance/cm_premium_index_all.json",
    "bitget/tickers_v2.json",
    "bitget/tickers_v3_2026.json",
    "aster/premium_index.json",
    "huobi/batch_funding_rate_2026.json",
    "huobi/batch_funding_rate.json",
    "paradex/markets_summary_perp.json",
    "paradex/markets_summary_2026.json",
    "paradex/markets_summary_option.json",
)
"""Bodies whose interval no stored answer names: 8 hours there."""


@cache
def listed() -> list[dict[str, str]]:
    """Rows of what.csv, none where the recordings are absent."""
    try:
        path = shared_path("data/venues/what.csv")
    except pytest.skip.Exception:
        return []
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


@cache
def expected() -> dict[str, list[dict[str, str]]]:
    """Rows of expected.csv by file."""
    found: dict[str, list[dict[str, str]]] = {}
    with shared_path("data/venues/expected.csv").open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            found.setdefault(row["file"], []).append(row)
    return found


def body_of(file: str) -> bytes:
    """The recorded bytes."""
    return shared_path(f"data/venues/{file}").read_bytes()


def shortened(body: Any) -> Any:
    """The same body with a few elements of each long list, which still has all its shapes."""
    if isinstance(body, dict):
        return {key: shortened(value) for key, value in body.items()}
    return [shortened(v) for v in body[:5]] if isinstance(body, list) else body


@cache
def _row(file: str) -> dict[str, str]:
    return next(row for row in listed() if row["file"] == file)


def request_of(file: str) -> str:
    """The request that a recorded body answers."""
    path, extra = _row(file)["path_or_channel"], REQUESTS.get(file, "")
    if extra[:1] == "?":
        return f"{path}{'&' if '?' in path else '?'}{extra[1:]}"
    if not extra:
        return path
    head, _, tail = path.partition("{")
    return f"{head}{extra}{tail.partition('}')[2]}"


@cache
def context_of(file: str) -> dict[str, Any]:
    """What other answers told."""
    context: dict[str, Any] = {}
    for other in CONTEXTS.get(file, ()):
        context |= read(other)
    if file in EIGHT_HOURS:
        context["interval_hours"] = 8
    return context


def read(file: str, reader: Any = venues.read) -> Any:
    """The tables of a recorded body, or its records where `venues.records` reads it."""
    exchange, context = _row(file)["exchange"], context_of(file)
    return reader(exchange, request_of(file), body_of(file), at=AT, context=context)
