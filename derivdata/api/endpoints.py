"""Every endpoint of the API document, as data."""

from __future__ import annotations

from derivdata.api.model import Endpoint, Param, ParamKind
from derivdata.times import RESOLUTIONS

_SYMBOL = Param("symbol", ParamKind.TEXT, "Base symbol.", required=True)
_PATH_SYMBOL = Param("symbol", ParamKind.TEXT, "Base symbol.", required=True, in_path=True)
_EXCHANGES = Param("exchanges", ParamKind.LIST, "Venues' slugs, or 'all'.")
_START = Param("start", ParamKind.INSTANT, "Start of the range; 7 days before its end unless given.")
_END = Param("end", ParamKind.INSTANT, "End of the range; now unless given.")
_RESOLUTION = Param(
    "resolution",
    ParamKind.TEXT,
    "Sampling step; left out, the service chooses by the length of the range.",
    choices=("raw", *RESOLUTIONS),
)
_RANGE = Param("range", ParamKind.TEXT, "Rolling window that ends now.", choices=("1d", "7d", "30d", "90d"))

_AGGREGATE_SECONDS = 600.0
_OPTIONS_EXCHANGES = ("deribit", "binance", "bybit", "okx", "derive")

FUNDING = Endpoint("/funding", "free", "funding_snapshot", "Funding rate of every venue and symbol now.")
FUNDING_METADATA = Endpoint(
    "/funding/metadata", "dev", "funding_metadata", "Symbols and venues.", fresh_seconds=_AGGREGATE_SECONDS
)
FUNDING_HISTORICAL = Endpoint(
    "/funding/historical",
    "dev",
    "funding_history",
    "Funding rate of one symbol over time; not for P&L or backtesting.",
    params=(_SYMBOL, _START, _END, _EXCHANGES, _RESOLUTION),
    per_second=2.0,
)
FUNDING_SETTLEMENT = Endpoint(
    "/funding/settlement",
    "dev",
    "funding_settlements",
    "Funding payments of one symbol over time.",
    params=(_SYMBOL, _START, _END, _EXCHANGES),
)
MARKETS_SYMBOLS = Endpoint(
    "/markets/symbols",
    "dev",
    "markets_symbols",
    "Leaderboard of symbols by open interest.",
    params=(_EXCHANGES,),
)
MARKETS_PRICE_MOVERS = Endpoint(
    "/markets/price-movers",
    "dev",
    "markets_price_movers",
    "Largest gainers and losers of 24 hours.",
    params=(
        Param("min_value", ParamKind.NUMBER, "Smallest 24-hour volume in USD.", default=10_000_000.0),
        Param("limit", ParamKind.INTEGER, "Entries per list."),
        _EXCHANGES,
    ),
)
MARKETS_FUNDING_LEADERS = Endpoint(
    "/markets/funding-leaders",
    "dev",
    "markets_funding_leaders",
    "The ten highest funding rates.",
    params=(_EXCHANGES,),
)
OI_EXCHANGES_SUMMARY = Endpoint(
    "/oi/exchanges-summary",
    "dev",
    "oi_exchanges",
    "Open interest of every venue.",
    fresh_seconds=_AGGREGATE_SECONDS,
)
OI_TIMESERIES = Endpoint(
    "/oi/{symbol}/timeseries",
    "dev",
    "oi_history",
    "Open interest of one symbol on every venue over time.",
    params=(_PATH_SYMBOL, _START, _END, _RANGE, _EXCHANGES, _RESOLUTION),
    exclusive=(("range", "start"), ("range", "end")),
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

ENDPOINTS: tuple[Endpoint, ...] = (
    FUNDING,
    FUNDING_METADATA,
    FUNDING_HISTORICAL,
    FUNDING_SETTLEMENT,
    MARKETS_SYMBOLS,
    MARKETS_PRICE_MOVERS,
    MARKETS_FUNDING_LEADERS,
    OI_EXCHANGES_SUMMARY,
    OI_TIMESERIES,
    LIQUIDATIONS_EVENTS,
    OPTIONS_SNAPSHOT,
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


def endpoint_of(path: str) -> Endpoint | None:
    """The endpoint that a concrete path belongs to, or None."""
    return next((e for e in ENDPOINTS if e.matches(path)), None)
