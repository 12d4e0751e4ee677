"""Table of real-world assets' trading hours."""

from __future__ import annotations

from derivdata.tables.definition import define

RWA_MARKET_HOURS = define(
    "rwa_market_hours",
    key="exchange_id start session",
    rest="time end is_tradable name short_name mic timezone is_tradable_now next_session_start",
    optional="name short_name mic timezone is_tradable_now next_session_start",
    doc="Sessions and holidays of the exchanges behind real-world assets, one row per interval.",
)
