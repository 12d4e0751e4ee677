"""Endpoints of traded volume."""

from __future__ import annotations

from derivdata.api.model import Endpoint, Param, ParamKind
from derivdata.api.params import (
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

VOLUME_EXCHANGE_TOTALS = Endpoint(
    "/volume/exchange-totals",
    "dev",
    "volume_exchange_totals",
    "Volume of every venue over all symbols, over time.",
    params=(*WINDOW, EXCHANGES, RESOLUTION),
    exclusive=NOT_BOTH,
    unit="usd",
    states_resolution=True,
)
VOLUME_OI_RATIO = Endpoint(
    "/volume-oi-ratio",
    "dev",
    "volume_oi_ratio",
    "Volume over open interest of every venue, over time.",
    params=(
        *WINDOW,
        Param(
            "window_days", ParamKind.INTEGER, "Days that volume is added up over; Dev at most 7.", default=1
        ),
        EXCHANGES,
        RESOLUTION,
    ),
    exclusive=NOT_BOTH,
    unit="ratio",
    states_resolution=True,
)
VOLUME_TIMESERIES = Endpoint(
    "/volume/{symbol}/timeseries",
    "dev",
    "volume_history",
    "Volume of one symbol on every venue over time.",
    params=(PATH_SYMBOL, *WINDOW, EXCHANGES, RESOLUTION),
    exclusive=NOT_BOTH,
    unit="usd",
    states_resolution=True,
)
VOLUME_TOP_SYMBOLS = Endpoint(
    "/volume/exchange-top-symbols-timeseries",
    "dev",
    "volume_top_symbols",
    "Volume of a venue's largest symbols over time.",
    params=(EXCHANGE, START, END, WEEK_TO_QUARTER, LIMIT),
    exclusive=NOT_BOTH,
    unit="usd",
)
