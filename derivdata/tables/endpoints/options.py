"""Endpoints of options."""

from __future__ import annotations

from derivdata.tables.endpoints.model import Endpoint, Param, ParamKind
from derivdata.tables.endpoints.params import DAYS, EXCHANGE

_OPTIONS_EXCHANGES = ("deribit", "binance", "bybit", "okx", "derive")
_OPTIONS_SYMBOL = Param("symbol", ParamKind.TEXT, "Base symbol.", default="BTC")

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
OPTIONS_SURFACE_HISTORY = Endpoint(
    "/options/surface-history",
    "dev",
    "options_surface_history",
    "Options surface of every hour.",
    params=(_OPTIONS_SYMBOL, EXCHANGE, DAYS),
)
OPTIONS_ATM_HISTORY = Endpoint(
    "/options/atm-history",
    "dev",
    "options_atm_history",
    "At-the-money volatility of every hour and expiry.",
    params=(_OPTIONS_SYMBOL, EXCHANGE, DAYS),
)
OPTIONS_METRICS = Endpoint(
    "/options/metrics",
    "dev",
    "options_metrics",
    "At-the-money volatility per expiry, now and a day ago.",
    params=(_OPTIONS_SYMBOL, EXCHANGE),
)
OPTIONS_OVERVIEW_HISTORY = Endpoint(
    "/options/overview-history",
    "dev",
    "options_overview_history",
    "Hourly notional open interest and rolling 24-hour volume by venue and symbol.",
    params=(DAYS,),
    unit="usd",
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
