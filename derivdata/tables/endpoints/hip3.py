"""Endpoints of the HIP-3 analytics."""

from __future__ import annotations

from dataclasses import replace

from derivdata.tables.endpoints.model import Endpoint, Param, ParamKind
from derivdata.tables.endpoints.params import AGGREGATE_SECONDS, END, LIMIT, RANGE, START

_RANGE_OR_ALL = Param(
    "range",
    ParamKind.TEXT,
    "Rolling window that ends now; all gives days.",
    choices=(*RANGE.choices, "all"),
    documented=False,
)
_DEX = Param("dex", ParamKind.TEXT, "Dex of HIP-3: xyz.")
_REQUIRED_DEX = replace(_DEX, required=True)
_SYMBOL = Param("symbol", ParamKind.TEXT, "Symbol, or dex:SYMBOL.")


def _hip3(
    name: str, table: str, doc: str, *params: Param, exclusive: tuple[tuple[str, str], ...] = ()
) -> Endpoint:
    return Endpoint(
        f"/hip3-analytics/{name}",
        "dev",
        table,
        doc,
        params=params,
        fresh_seconds=AGGREGATE_SECONDS,
        exclusive=exclusive,
    )


HIP3_DASHBOARD = _hip3("dashboard", "hip3_dashboard", "HIP-3 at a glance.", RANGE)
HIP3_DEX_DETAIL = _hip3(
    "dex-detail",
    "hip3_dex_detail",
    "One dex of HIP-3.",
    _REQUIRED_DEX,
    RANGE,
)
HIP3_BY_DEX = _hip3("by-dex", "hip3_by_dex", "Activity by dex.", RANGE)
HIP3_BY_SYMBOL = _hip3("by-symbol", "hip3_by_symbol", "Activity by symbol.", _DEX, LIMIT, RANGE)
HIP3_TIMESERIES_SYMBOL = _hip3(
    "timeseries/symbol",
    "hip3_timeseries_symbol",
    "Activity of a symbol over time.",
    _SYMBOL,
    _DEX,
    _RANGE_OR_ALL,
)
HIP3_TIMESERIES_DEX_BREAKDOWN = _hip3(
    "timeseries/dex-breakdown",
    "hip3_timeseries_dex_breakdown",
    "Volume over time, by symbol or dex.",
    _DEX,
    RANGE,
)
HIP3_LEADERBOARD = _hip3("leaderboard", "hip3_leaderboard", "Largest traders.", _DEX, LIMIT, RANGE)
HIP3_OI_TRENDS_TOTAL = _hip3("oi-trends/total", "hip3_oi_trends_total", "Open interest by day.", RANGE)
HIP3_OI_TRENDS_DEX = _hip3(
    "oi-trends/dex",
    "hip3_oi_trends_dex",
    "Open interest of one dex by day.",
    _REQUIRED_DEX,
    RANGE,
)
HIP3_CANDLES = _hip3(
    "candles",
    "hip3_candles",
    "Open, high, low, close and volume of one coin.",
    Param("coin", ParamKind.TEXT, "dex:SYMBOL.", required=True),
    Param(
        "interval",
        ParamKind.TEXT,
        "Length of a candle.",
        default="1h",
        choices=("15m", "1h", "4h", "1d"),
        documented=False,
    ),
    LIMIT,
    START,
    END,
    RANGE,
    exclusive=(("range", "start"), ("range", "end")),
)
