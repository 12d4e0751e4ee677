"""Tables of the HIP-3, HIP-4 and builder analytics, whose fields no document fixes."""

from __future__ import annotations

from derivdata.schema import OpenTable

OPEN_TABLES: dict[str, OpenTable] = {
    name: OpenTable(name, doc)
    for name, doc in {
        "builders_dashboard": "Builders at a glance: totals, one row per builder, one per day.",
        "hip3_by_dex": "Activity by dex.",
        "hip3_by_symbol": "Activity by symbol.",
        "hip3_candles": "Open, high, low, close and volume of one coin.",
        "hip3_dashboard": "HIP-3 at a glance.",
        "hip3_dex_detail": "One dex of HIP-3: totals, one row per symbol, one per day.",
        "hip3_leaderboard": "Largest traders.",
        "hip3_oi_trends_dex": "Open interest of one dex by day, in total and by symbol.",
        "hip3_oi_trends_total": "Open interest by day, in total and by dex.",
        "hip3_timeseries_dex_breakdown": "Volume over time, one column per symbol or dex.",
        "hip3_timeseries_symbol": "Activity of a symbol over time.",
        "hip4_dashboard": "HIP-4 at a glance: totals, one row per outcome, one per day.",
        "hip4_leaderboard": "Largest traders.",
        "hip4_oi_eod": "Open interest at the end of each day.",
        "hip4_outcome": "One outcome of HIP-4: totals, one row per day.",
    }.items()
}
