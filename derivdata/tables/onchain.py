"""Base tables behind the HIP-3, HIP-4 and builder analytics; the API answers with sums over them."""

from __future__ import annotations

from derivdata.tables.define import define

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
BUILDERS_HISTORY = define(
    "builders_history",
    key="builder symbol time",
    rest="volume_usd trade_count fees_usd",
    doc="Orders that one builder routed in the quarter of an hour that starts at `time`.",
)
