"""Sections 4.1 to 4.9 of the API document, settlements, and open interest of one symbol."""

from __future__ import annotations

from derivdata.api.model import Endpoint, Param, ParamKind
from derivdata.api.params import (
    AGGREGATE_SECONDS,
    END,
    EXCHANGES,
    NOT_BOTH,
    PATH_SYMBOL,
    RESOLUTION,
    START,
    SYMBOL,
    WINDOW,
)

_OPTIONS_EXCHANGES = ("deribit", "binance", "bybit", "okx", "derive")

FUNDING = Endpoint("/funding", "free", "funding_snapshot", "Funding rate of every venue and symbol now.")
FUNDING_METADATA = Endpoint(
    "/funding/metadata", "dev", "funding_metadata", "Symbols and venues.", fresh_seconds=AGGREGATE_SECONDS
)
FUNDING_HISTORICAL = Endpoint(
    "/funding/historical",
    "dev",
    "funding_history",
    "Funding rate of one symbol over time; not for P&L or backtesting.",
    params=(SYMBOL, START, END, EXCHANGES, RESOLUTION),
    per_second=2.0,
)
FUNDING_SETTLEMENT = Endpoint(
    "/funding/settlement",
    "dev",
    "funding_settlements",
    "Funding payments of one symbol over time.",
    params=(SYMBOL, START, END, EXCHANGES),
)
MARKETS_SYMBOLS = Endpoint(
    "/markets/symbols",
    "dev",
    "markets_symbols",
    "Leaderboard of symbols by open interest.",
    params=(EXCHANGES,),
)
MARKETS_PRICE_MOVERS = Endpoint(
    "/markets/price-movers",
    "dev",
    "markets_price_movers",
    "Largest gainers and losers of 24 hours.",
    params=(
        Param("min_value", ParamKind.NUMBER, "Smallest 24-hour volume in USD.", default=10_000_000.0),
        Param("limit", ParamKind.INTEGER, "Entries per list."),
        EXCHANGES,
    ),
)
MARKETS_FUNDING_LEADERS = Endpoint(
    "/markets/funding-leaders",
    "dev",
    "markets_funding_leaders",
    "The ten highest funding rates.",
    params=(EXCHANGES,),
)
OI_EXCHANGES_SUMMARY = Endpoint(
    "/oi/exchanges-summary",
    "dev",
    "oi_exchanges",
    "Open interest of every venue.",
    fresh_seconds=AGGREGATE_SECONDS,
)
OI_TIMESERIES = Endpoint(
    "/oi/{symbol}/timeseries",
    "dev",
    "oi_history",
    "Open interest of one symbol on every venue over time.",
    params=(PATH_SYMBOL, *WINDOW, EXCHANGES, RESOLUTION),
    exclusive=NOT_BOTH,
)
LIQUIDATIONS_EVENTS = Endpoint(
    "/liquidations/events",
    "dev",
    "liquidations_events",
    "Recent liquidation orders, or those since an instant.",
    params=(
        Param("since", ParamKind.MILLIS, "Only events after this instant, from the event store."),
        Param("limit", ParamKind.INTEGER, "Most events in one answer."),
        Param("min_usd", ParamKind.NUMBER, "Smallest value in USD; without effect beside since."),
        Param("exchange", ParamKind.LIST, "Venues' slugs."),
        Param("symbol", ParamKind.LIST, "Base symbols."),
        Param("exclude_symbol", ParamKind.LIST, "Base symbols to leave out."),
    ),
    fresh_seconds=5.0,
    exclusive=(("symbol", "exclude_symbol"),),
)
OPTIONS_SNAPSHOT = Endpoint(
    "/options/snapshot",
    "free",
    "options_snapshot",
    "Every active option of one symbol on one venue.",
    params=(
        Param("symbol", ParamKind.TEXT, "Base symbol.", default="BTC"),
        Param("exchange", ParamKind.TEXT, "Venue; venues are added over time.", required=True),
    ),
)

OPTIONS_MATRIX: dict[str, tuple[str, ...]] = {
    "BTC": _OPTIONS_EXCHANGES,
    "ETH": _OPTIONS_EXCHANGES,
    "HYPE": ("deribit", "derive"),
    "SOL": ("deribit", "binance", "bybit", "derive"),
    "XRP": ("deribit", "binance", "bybit", "derive"),
    "DOGE": ("binance", "bybit"),
    "BNB": ("binance",),
    "ZEC": ("derive",),
}
"""Venues with options by symbol, as the document lists them: data that warns and never blocks."""
