"""Endpoints of traded volume."""

from __future__ import annotations

from derivdata.tables.endpoints import quantities
from derivdata.tables.endpoints.model import Endpoint, Param, ParamKind
from derivdata.tables.endpoints.params import EXCHANGES, NOT_BOTH, RESOLUTION, WINDOW

VOLUME_EXCHANGE_TOTALS = quantities.exchange_totals("volume", "Volume")
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
VOLUME_TIMESERIES = quantities.timeseries("volume", "Volume")
VOLUME_TOP_SYMBOLS = quantities.top_symbols("volume", "Volume")
