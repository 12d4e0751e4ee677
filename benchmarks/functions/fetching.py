"""Questions to what fetches: each response is in the cache already, so that only the client's work counts."""

from __future__ import annotations

from typing import Any

import derivdata as dd
from benchmarks.functions.inputs import table
from benchmarks.functions.question import Question

__all__ = ["QUESTIONS"]

_ASKED: dict[str, tuple[str, tuple[Any, ...], dict[str, Any]]] = {
    "funding.metadata": ("all venues and symbols", (), {}),
    "funding.settlements": ("payments of one symbol on all venues, 30 days", ("BTC", "30d"), {}),
    "markets.symbols": ("all symbols", (), {}),
    "markets.price_movers": ("all symbols", (), {}),
    "markets.funding_leaders": ("all venues", (), {}),
    "markets.price_buckets": ("all venues", (), {}),
    "markets.exchanges": ("all venues", (), {}),
    "markets.exchange_symbols": ("one venue", ("binance",), {}),
    "markets.exchange_history": ("one venue, 30 days", ("binance", "30d"), {}),
    "markets.symbol_exchanges": ("one symbol", ("BTC",), {}),
    "markets.symbol_stats": ("one symbol", ("BTC",), {}),
    "oi.exchanges": ("all venues", (), {}),
    "oi.sparklines": ("all symbols", (), {}),
    "oi.history": ("hours of one symbol on all venues, 30 days", ("BTC", "30d"), {}),
    "oi.exchange_totals": ("all venues, 30 days in steps of 4 h", ("30d",), {"resolution": "4h"}),
    "oi.top_symbols": ("one venue, 30 days", ("binance", "30d"), {}),
    "volume.history": ("hours of one symbol on all venues, 30 days", ("BTC", "30d"), {}),
    "volume.taker": ("hours of one symbol on all venues, 30 days", ("BTC", "30d"), {}),
    "volume.exchange_totals": ("all venues, 30 days in steps of 4 h", ("30d",), {"resolution": "4h"}),
    "volume.oi_ratio": ("all venues, 30 days", ("30d",), {"window_days": 1}),
    "volume.top_symbols": ("one venue, 30 days", ("binance", "30d"), {}),
    "liquidations.history": ("hours of one symbol on all venues, a day", ("BTC", "1d"), {}),
    "liquidations.aggregates": ("a day, by symbol", ("24h",), {}),
    "options.snapshot": ("the options of one asset on one venue", ("BTC", "deribit"), {}),
    "options.surface_history": (
        "hourly chains of one asset on one venue, a day",
        ("BTC", "deribit", "1d"),
        {},
    ),
    "options.atm_history": ("one asset on one venue, 30 days", ("BTC", "deribit", "30d"), {}),
    "options.metrics": ("one asset on one venue", ("BTC", "deribit"), {}),
    "options.overview_history": ("all assets and venues, 30 days", ("30d",), {}),
    "options.trades": ("a day of one asset on one venue", ("BTC", "1d"), {"venues": "deribit"}),
    "delivery.prices": ("days of one asset, 30 days", ("BTC", "30d"), {}),
    "volatility.index_published": ("hours of one asset, 30 days", ("BTC", "30d"), {}),
    "orderbook.book": ("one book", ("BTC", "binance"), {}),
    "orderbook.depth_history": ("one book by the hour, 30 days", ("BTC", "binance", "30d"), {}),
    "instruments": ("contracts of one symbol", ("BTC",), {}),
    "futures.history": ("hours of one symbol on one venue, 30 days", ("BTC", "30d"), {"venues": ["okx"]}),
    "positioning.history": ("hours of one symbol on all venues, 30 days", ("BTC", "30d"), {}),
    "prices.spot": ("hours of one symbol on all venues, 30 days", ("BTC", "30d"), {}),
    "prices.history": ("hours of one symbol on all venues, 30 days", ("BTC", "30d"), {}),
    "rwa.market_hours": ("one exchange", ("XNYS",), {}),
    "hip3.dashboard": ("a week", ("7d",), {}),
    "hip3.dex_detail": ("one dex, a week", ("xyz", "7d"), {}),
    "hip3.by_dex": ("a week", ("7d",), {}),
    "hip3.by_symbol": ("a week", ("7d",), {}),
    "hip3.timeseries_symbol": ("a week", ("7d",), {}),
    "hip3.timeseries_dex_breakdown": ("a week", ("7d",), {}),
    "hip3.leaderboard": ("a week", ("7d",), {}),
    "hip3.oi_trends_total": ("a week", ("7d",), {}),
    "hip3.oi_trends_dex": ("one dex, a week", ("xyz", "7d"), {}),
    "hip3.candles": ("one coin, 30 days", ("xyz:TSLA", "30d"), {}),
    "hip4.dashboard": ("a week", ("7d",), {}),
    "hip4.oi_eod": ("since a day", ("2026-06-01",), {}),
    "hip4.leaderboard": ("a week", ("7d",), {}),
    "builders.dashboard": ("a week", ("7d",), {}),
}


def _question(name: str) -> Question:
    words, given, options = _ASKED[name]
    return Question(f"{words}; in the cache", lambda: table.__wrapped__(name, *given, **options))


def _outcome() -> Any:
    """Return a market of outcomes that exists; their ids are not fixed."""
    board = table("hip4.dashboard", "7d")
    return dd.hip4.outcome(int(board["outcome_id"].dropna().iloc[0]), "7d")


QUESTIONS = {name: _question(name) for name in _ASKED} | {
    "hip4.outcome": Question("one outcome, a week; in the cache", _outcome),
    "raw": Question("one answer as it came; in the cache", lambda: dd.raw("/oi/exchanges-summary")),
}
