"""Tables of the HIP-4 analytics."""

from __future__ import annotations

from derivdata.tables.definition import define
from derivdata.tables.schema import OpenTable

HIP4_DASHBOARD = OpenTable("hip4_dashboard", "HIP-4 at a glance: totals, one row per outcome, one per day.")
HIP4_LEADERBOARD = OpenTable("hip4_leaderboard", "Largest traders.")
HIP4_OI_EOD = OpenTable("hip4_oi_eod", "Open interest at the end of each day.")
HIP4_OUTCOME = OpenTable("hip4_outcome", "One outcome of HIP-4: totals, one row per day.")
HIP4_TRADERS = define(
    "hip4_traders",
    key="venue outcome_id address time",
    rest="volume_usd trade_count fill_count fees_usd",
    doc="Trading of one address on one HIP-4 outcome in the quarter of an hour that starts at `time`.",
)
HIP4_OI = define(
    "hip4_oi",
    key="venue outcome_id time",
    rest="open_interest oi_usd",
    doc="Open interest of one HIP-4 outcome at the end of the day before `time`.",
)
