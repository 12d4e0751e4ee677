"""Section 4.10 of the API document, the HIP-3, HIP-4 and builder analytics."""

from __future__ import annotations

from derivdata.api.model import Endpoint, Param, ParamKind
from derivdata.api.params import AGGREGATE_SECONDS, END, LIMIT, START

_PRESETS = ("1d", "7d", "30d", "90d")
_RANGE = Param("range", ParamKind.TEXT, "Rolling window that ends now.", choices=_PRESETS, documented=False)
_RANGE_OR_ALL = Param(
    "range",
    ParamKind.TEXT,
    "Rolling window that ends now; all gives days.",
    choices=(*_PRESETS, "all"),
    documented=False,
)
_DEX = Param("dex", ParamKind.TEXT, "Dex of HIP-3: xyz.")
_SYMBOL = Param("symbol", ParamKind.TEXT, "Symbol, or dex:SYMBOL.")
_VENUE = Param("venue", ParamKind.TEXT, "Left out, both together.", choices=("out", "skew"))


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


HIP3_DASHBOARD = _hip3("dashboard", "hip3_dashboard", "HIP-3 at a glance.", _RANGE)
HIP3_DEX_DETAIL = _hip3(
    "dex-detail",
    "hip3_dex_detail",
    "One dex of HIP-3.",
    Param("dex", ParamKind.TEXT, "Dex of HIP-3: xyz.", required=True),
    _RANGE,
)
HIP3_BY_DEX = _hip3("by-dex", "hip3_by_dex", "Activity by dex.", _RANGE)
HIP3_BY_SYMBOL = _hip3("by-symbol", "hip3_by_symbol", "Activity by symbol.", _DEX, LIMIT, _RANGE)
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
    _RANGE,
)
HIP3_LEADERBOARD = _hip3("leaderboard", "hip3_leaderboard", "Largest traders.", _DEX, LIMIT, _RANGE)
HIP3_OI_TRENDS_TOTAL = _hip3("oi-trends/total", "hip3_oi_trends_total", "Open interest by day.", _RANGE)
HIP3_OI_TRENDS_DEX = _hip3(
    "oi-trends/dex",
    "hip3_oi_trends_dex",
    "Open interest of one dex by day.",
    Param("dex", ParamKind.TEXT, "Dex of HIP-3: xyz.", required=True),
    _RANGE,
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
    _RANGE,
    exclusive=(("range", "start"), ("range", "end")),
)
HIP4_DASHBOARD = Endpoint(
    "/hip4-analytics/dashboard",
    "dev",
    "hip4_dashboard",
    "HIP-4 at a glance.",
    params=(_RANGE, _VENUE),
    fresh_seconds=AGGREGATE_SECONDS,
)
HIP4_OUTCOME = Endpoint(
    "/hip4-analytics/outcome/{outcome_id}",
    "dev",
    "hip4_outcome",
    "One outcome of HIP-4.",
    params=(
        Param("outcome_id", ParamKind.TEXT, "Outcome's id.", required=True, in_path=True),
        _RANGE,
        _VENUE,
    ),
    fresh_seconds=AGGREGATE_SECONDS,
)
HIP4_OI_EOD = Endpoint(
    "/hip4-analytics/oi-eod",
    "dev",
    "hip4_oi_eod",
    "Open interest at the end of each day.",
    params=(START, _VENUE),
    fresh_seconds=AGGREGATE_SECONDS,
)
HIP4_LEADERBOARD = Endpoint(
    "/hip4-analytics/leaderboard",
    "dev",
    "hip4_leaderboard",
    "Largest traders.",
    params=(LIMIT, _RANGE, _VENUE),
    fresh_seconds=AGGREGATE_SECONDS,
)
BUILDERS_DASHBOARD = Endpoint(
    "/builder-analytics/dashboard",
    "dev",
    "builders_dashboard",
    "Builders at a glance.",
    params=(_RANGE,),
    fresh_seconds=AGGREGATE_SECONDS,
)
