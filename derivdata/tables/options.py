"""Tables of options."""

from __future__ import annotations

from derivdata.tables.definition import define

OPTIONS_SNAPSHOT = define(
    "options_snapshot",
    key="symbol exchange time instrument_name",
    rest="expiry strike side iv delta gamma vega theta rho open_interest underlying_price "
    "bid_coin ask_coin mark_coin bid_usd ask_usd mark_usd index_price_usd volume",
    optional="delta gamma vega theta rho "
    "bid_coin ask_coin mark_coin bid_usd ask_usd mark_usd index_price_usd volume",
    side="call put",
    order="symbol exchange time expiry strike side",
    doc="Every active option of one symbol on one venue at an instant.",
)
OPTIONS_SURFACE_HISTORY = define(
    "options_surface_history",
    key="symbol exchange time expiry strike side",
    rest="iv open_interest underlying_price",
    side="call put",
    doc="Options surface of every hour.",
)
OPTIONS_ATM_HISTORY = define(
    "options_atm_history",
    key="symbol exchange time expiry",
    rest="strike iv underlying_price",
    wire={"time": "hour"},
    doc="At-the-money volatility of every hour and expiry.",
)
OPTIONS_METRICS = define(
    "options_metrics",
    key="symbol exchange expiry",
    rest="time underlying_price atm_strike atm_iv atm_iv_24h_ago atm_iv_change_24h",
    doc="At-the-money volatility per expiry, now and a day ago.",
)
OPTIONS_OVERVIEW_HISTORY = define(
    "options_overview_history",
    key="symbol exchange time",
    rest="notional_oi_usd notional_volume_24h_usd",
    wire={"time": "timestamp"},
    doc="Options open interest and volume by venue and symbol, every hour.",
)
