"""Endpoints of open interest."""

from __future__ import annotations

from derivdata.api.model import Endpoint
from derivdata.api.params import (
    AGGREGATE_SECONDS,
    END,
    EXCHANGE,
    EXCHANGES,
    LIMIT,
    NOT_BOTH,
    PATH_SYMBOL,
    RESOLUTION,
    START,
    WEEK_TO_QUARTER,
    WINDOW,
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
    unit="usd",
    states_resolution=True,
)
OI_EXCHANGE_TOTALS = Endpoint(
    "/oi/exchange-totals",
    "dev",
    "oi_exchange_totals",
    "Open interest of every venue over all symbols, over time.",
    params=(*WINDOW, EXCHANGES, RESOLUTION),
    exclusive=NOT_BOTH,
    unit="usd",
    states_resolution=True,
)
OI_TOP_SYMBOLS = Endpoint(
    "/oi/exchange-top-symbols-timeseries",
    "dev",
    "oi_top_symbols",
    "Open interest of a venue's largest symbols over time.",
    params=(EXCHANGE, START, END, WEEK_TO_QUARTER, LIMIT),
    exclusive=NOT_BOTH,
    unit="usd",
)
