"""Tables of the HIP-3 analytics."""

from __future__ import annotations

from derivdata.tables.definition import define
from derivdata.tables.schema import OpenTable

HIP3_BY_DEX = OpenTable("hip3_by_dex", "Activity by dex.")
HIP3_BY_SYMBOL = OpenTable("hip3_by_symbol", "Activity by symbol.")
HIP3_CANDLES = OpenTable("hip3_candles", "Open, high, low, close and volume of one coin.")
HIP3_DASHBOARD = OpenTable("hip3_dashboard", "HIP-3 at a glance.")
HIP3_DEX_DETAIL = OpenTable("hip3_dex_detail", "One dex of HIP-3: totals, one row per symbol, one per day.")
HIP3_LEADERBOARD = OpenTable("hip3_leaderboard", "Largest traders.")
HIP3_OI_TRENDS_DEX = OpenTable(
    "hip3_oi_trends_dex", "Open interest of one dex by day, in total and by symbol."
)
HIP3_OI_TRENDS_TOTAL = OpenTable("hip3_oi_trends_total", "Open interest by day, in total and by dex.")
HIP3_TIMESERIES_DEX_BREAKDOWN = OpenTable(
    "hip3_timeseries_dex_breakdown", "Volume over time, one column per symbol or dex."
)
HIP3_TIMESERIES_SYMBOL = OpenTable("hip3_timeseries_symbol", "Activity of a symbol over time.")
HIP3_TRADERS = define(
    "hip3_traders",
    key="dex symbol address time",
    rest="volume_usd trade_count fees_usd deployer_fees_usd liquidation_value_usd liquidation_count",
    doc="Trading of one address on one HIP-3 market in the quarter of an hour that starts at `time`.",
)
HIP3_HOURLY_CANDLES = define(
    "hip3_hourly_candles",
    key="dex symbol time",
    rest="open_usd high_usd low_usd close_usd open_interest oi_usd",
    doc="Price of one HIP-3 market over a quarter of an hour, and open interest at its end.",
)
