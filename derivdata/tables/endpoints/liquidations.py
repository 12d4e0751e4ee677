"""Endpoints of liquidations."""

from __future__ import annotations

from derivdata.tables.endpoints.model import Endpoint, Param, ParamKind
from derivdata.tables.endpoints.params import NOT_BOTH, RESOLUTION, WINDOW

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
LIQUIDATIONS_HISTORY = Endpoint(
    "/liquidations/history",
    "dev",
    "liquidations_history",
    "Liquidated value by venue and side over time.",
    params=(*WINDOW, Param("symbol", ParamKind.LIST, "Base symbols."), RESOLUTION),
    exclusive=NOT_BOTH,
    unit="usd",
)
LIQUIDATIONS_AGGREGATES = Endpoint(
    "/liquidations/aggregates",
    "dev",
    "liquidations_aggregates",
    "Liquidations of the last hours by symbol, venue or both.",
    params=(
        Param(
            "range",
            ParamKind.TEXT,
            "Rolling window that ends now.",
            default="24h",
            choices=("1h", "4h", "12h", "24h"),
        ),
        Param(
            "group_by",
            ParamKind.TEXT,
            "What is added up.",
            default="symbol",
            choices=("symbol", "exchange", "symbol_exchange"),
            documented=False,
        ),
    ),
)
