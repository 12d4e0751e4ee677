"""Every table as data: key, columns, wire names that differ, and one line that defines a row."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from derivdata.tables.columns import COLUMNS
from derivdata.tables.schema import Kind, OpenTable, Table

TABLES: dict[str, Table] = {}
"""Every table with fixed columns, of fetchers and archives, by name."""

OPEN_TABLES: dict[str, OpenTable] = {}
"""Every table whose fields are not documented, by name."""


def define(
    name: str,
    *,
    key: str,
    rest: str,
    doc: str,
    wire: dict[str, str] | None = None,
    optional: str = "",
    order: str = "",
    changed: dict[str, dict[str, Any]] | None = None,
) -> None:
    """Add a table; `key`, `rest`, `optional` and `order` are names of columns, separated by spaces.

    `changed` has, by column, attributes that differ from `COLUMNS`.
    """
    columns = {n: COLUMNS[n] for n in [*key.split(), *rest.split()]}
    TABLES[name] = Table(
        name=name,
        key=tuple(key.split()),
        columns=columns | {n: replace(columns[n], **how) for n, how in (changed or {}).items()},
        doc=doc,
        wire=wire or {},
        optional=frozenset(optional.split()),
        order=tuple(order.split()),
    )


def define_open(name: str, doc: str) -> None:
    """Add a table whose fields are not documented."""
    OPEN_TABLES[name] = OpenTable(name, doc)


define_open("builders_dashboard", "Builders at a glance: totals, one row per builder, one per day.")
define(
    "builders_history",
    key="builder symbol time",
    rest="volume_usd trade_count fees_usd",
    doc="Orders that one builder routed in the 15 minutes that start at `time`.",
)
define(  # only the local service has it
    "catalog",
    key="table exchange",
    rest="first last step_hours row_count",
    optional="last step_hours row_count",
    changed={"exchange": {"doc": "Venue's slug; 'unstated' if the table has no venues."}},
    doc="Contents of the connected source, one row per table and venue.",
)
define(  # only the local service has it
    "delivery_prices",
    key="symbol exchange contract time",
    rest="price_usd",
    wire={"time": "timestamp"},
    optional="contract",  # which archives of earlier versions do not have
    order="symbol exchange time contract",
    changed={
        "time": {"doc": "Time of the delivery; the end of the averaging period."},
        "price_usd": {"positive": True},
    },
    doc="Delivery prices of options and futures, one row per expiry and contract.",
)
define(
    "funding_snapshot",
    key="symbol exchange",
    rest="time rate_bps_8h rate_native interval_hours oi_rank kind",
    wire={"time": "timestamp"},
    optional="rate_native interval_hours oi_rank",
    doc="Current funding rates, one row per symbol and venue.",
)
define(
    "funding_metadata",
    key="exchange",
    rest="time display_name interval_hours",
    wire={"time": "timestamp", "exchange": "name", "display_name": "display", "interval_hours": "interval"},
    optional="interval_hours",
    doc="Venues of the funding snapshot with their usual interval.",
)
define(
    "funding_history",
    key="symbol exchange time",
    rest="rate_bps_8h resolution kind",
    changed={"time": {"doc": "Start of the step over which the rate applies."}},
    wire={"time": "timestamp", "rate_bps_8h": "y"},
    doc="Sampled funding rates over time, one row per venue and step.",
)
define(
    "funding_rates",
    key="symbol exchange rate_kind time",
    rest="settlement_time rate_bps_8h rate_native interval_hours",
    doc="Funding rates by kind (settled, of the next settlement, predicted), as stated at a time.",
)
define(
    "funding_settlements",
    key="symbol exchange time",
    rest="rate_bps_8h interval_hours kind rate_native payment_count interval_source",
    changed={
        "time": {"doc": "Time of the payment; the end of the interval that it covers."},
        "rate_bps_8h": {"doc": "Funding rate; longs pay shorts when positive. NaN without an interval."},
        "interval_hours": {
            "doc": "Hours that the payment covers (interval × payment_count); NaN if unknown."
        },
        "rate_native": {
            "unit": "fraction of notional",
            "doc": "Rate of the payment; known even if the interval is not.",
        },
    },
    wire={"time": "timestamp", "rate_bps_8h": "y"},
    optional="rate_native payment_count interval_source",
    doc="Funding payments, one row per settlement; it pays rate_native × 10,000 bps of notional.",
)
define(  # only the local service has it
    "futures_history",
    key="symbol exchange time instrument_name",
    rest="expiry price_usd index_price_usd oi_usd volume_24h_usd resolution",
    optional="index_price_usd oi_usd volume_24h_usd",
    wire={"time": "timestamp"},
    changed={
        "time": {"doc": "Time of the price; the end of the bucket where rows are buckets."},
        "price_usd": {"doc": "Mark price; the last price where the venue has no mark.", "positive": True},
    },
    doc="Prices of dated futures over time.",
)
define_open("hip3_by_dex", "Activity by dex.")
define_open("hip3_by_symbol", "Activity by symbol.")
define_open("hip3_candles", "Open, high, low, close and volume of one coin.")
define_open("hip3_dashboard", "HIP-3 at a glance.")
define_open("hip3_dex_detail", "One dex of HIP-3: totals, one row per symbol, one per day.")
define_open("hip3_leaderboard", "Largest traders.")
define_open("hip3_oi_trends_dex", "Open interest of one dex by day, in total and by symbol.")
define_open("hip3_oi_trends_total", "Open interest by day, in total and by dex.")
define_open("hip3_timeseries_dex_breakdown", "Volume over time, one column per symbol or dex.")
define_open("hip3_timeseries_symbol", "Activity of a symbol over time.")
define(
    "hip3_traders",
    key="dex symbol address time",
    rest="volume_usd trade_count fees_usd deployer_fees_usd liquidation_value_usd liquidation_count",
    doc="Trading of one address on one HIP-3 market in the 15 minutes that start at `time`.",
)
define(
    "hip3_hourly_candles",
    key="dex symbol time",
    rest="open_usd high_usd low_usd close_usd open_interest oi_usd",
    doc="Prices of one HIP-3 market over 15 minutes, with open interest at the end.",
)
define_open("hip4_dashboard", "HIP-4 at a glance: totals, one row per outcome, one per day.")
define_open("hip4_leaderboard", "Largest traders.")
define_open("hip4_oi_eod", "Open interest at the end of each day.")
define_open("hip4_outcome", "One outcome of HIP-4: totals, one row per day.")
define(
    "hip4_traders",
    key="venue outcome_id address time",
    rest="volume_usd trade_count fill_count fees_usd",
    doc="Trading of one address on one HIP-4 outcome in the 15 minutes that start at `time`.",
)
define(
    "hip4_oi",
    key="venue outcome_id time",
    rest="open_interest oi_usd",
    doc="Open interest of one HIP-4 outcome at the end of the day before `time`.",
)
define(  # only the local service has it
    "instruments",
    key="exchange instrument_name time",
    rest="symbol quote contract_size multiplier is_inverse is_perpetual is_active strike expiry listed "
    "delisted tick step",
    optional="quote contract_size strike expiry listed delisted tick step",
    changed={
        "time": {"doc": "Start of the state; the time when the venue's list first showed it."},
        "quote": {"kind": Kind.LABEL, "doc": "Quote currency; missing if not stated.", "allowed": ()},
        "strike": {"doc": "Strike of an option; missing for other contracts."},
        "expiry": {"doc": "Expiry of an option or dated future; missing for other contracts."},
    },
    doc="Listed and delisted contracts, one row per state of a contract.",
)
define(
    "liquidations_events",
    key="exchange order_id",
    rest="time symbol side order_price_usd fill_price_usd quantity filled_quantity value_usd status "
    "fill_count",
    wire={
        "time": "timestamp",
        "order_id": "oid",
        "order_price_usd": "price",
        "fill_price_usd": "avg_price",
        "value_usd": "usd_value",
    },
    order="time exchange order_id",
    doc="Liquidation orders, one row per order with its fills consolidated.",
)
define(
    "liquidations_fills",
    key="exchange order_id fill_id",
    rest="time symbol side order_price_usd fill_price_usd quantity filled_quantity value_usd status",
    order="time exchange order_id fill_id",
    doc="Fills of liquidation orders as the venue reports them; the service consolidates them into orders.",
)
define(
    "liquidations_history",
    key="symbol exchange time",
    rest="long_usd short_usd resolution",
    wire={"time": "date"},
    optional="resolution",
    doc="Liquidated value by symbol, venue and side over time.",
)
define(
    "liquidations_aggregates",
    key="group_by name",
    rest="time long_count short_count total_count long_usd short_usd total_usd",
    doc="Liquidations of the last hours by symbol, venue or both.",
)
define(
    "margin_tiers",
    key="symbol exchange tier time",
    rest="max_notional_usd max_size_coins initial_margin maintenance_margin max_leverage",
    doc="Margin that a venue requires of a position by its size, as stated at a time.",
)
define(
    "borrow_rates",
    key="symbol exchange time",
    rest="borrow_apr max_borrow",
    doc="Rates at which venues lend coins for spot margin trading, as stated at a time.",
)
define(
    "markets_symbols",
    key="symbol",
    rest="time rank price_usd price_24h_change_pct volume_24h_usd volume_24h_change_pct oi_usd "
    "oi_24h_change_pct top_funding_bps_8h top_funding_exchange liquidation_24h_usd "
    "asset_class asset_group asset_subgroup",
    wire={"time": "timestamp", "top_funding_bps_8h": "top_funding_bps"},
    optional="asset_class asset_group asset_subgroup",
    order="rank",
    doc="Leaderboard of symbols by open interest.",
)
define(
    "markets_price_movers",
    key="direction symbol",
    rest="time rank price_usd price_24h_change_pct",
    wire={"time": "timestamp"},
    order="direction rank",
    doc="Largest gainers and losers of the last 24 hours, each list ranked from 1.",
)
define(
    "markets_funding_leaders",
    key="symbol exchange",
    rest="time rank funding_current_bps_8h oi_rank",
    wire={"time": "timestamp", "funding_current_bps_8h": "funding_current_bps"},
    order="rank",
    doc="Up to ten highest funding rates over all symbols and venues.",
)
define(
    "markets_symbol_exchanges",
    key="symbol exchange time",
    rest="price_usd price_24h_change_pct volume_24h_usd oi_usd funding_current_bps_8h "
    "funding_avg_7d_bps_8h liquidation_24h_usd",
    wire={
        "time": "timestamp",
        "funding_current_bps_8h": "funding_current_bps",
        "funding_avg_7d_bps_8h": "funding_avg_7d_bps",
    },
    optional="price_24h_change_pct volume_24h_usd oi_usd funding_current_bps_8h funding_avg_7d_bps_8h "
    "liquidation_24h_usd",
    doc="State of one symbol on each venue at one time.",
)
define(
    "markets_exchange_history",
    key="exchange time",
    rest="volume_usd oi_usd resolution",
    wire={"time": "timestamp"},
    optional="resolution",
    doc="Volume and open interest of one venue over time.",
)
define(
    "markets_price_buckets",
    key="rank",
    rest="time label lower_pct upper_pct symbol_count symbols",
    wire={"time": "timestamp", "lower_pct": "min", "upper_pct": "max", "symbol_count": "count"},
    doc="Distribution of 24-hour price changes over symbols, one row per bucket, largest rise first.",
)
define(
    "markets_exchanges",
    key="exchange",
    rest="time volume_24h_usd oi_usd symbol_count liquidation_24h_usd",
    wire={"time": "timestamp"},
    optional="volume_24h_usd oi_usd symbol_count liquidation_24h_usd",
    doc="Current state of every venue.",
)
TABLES["markets_exchange_symbols"] = replace(
    TABLES["markets_symbol_exchanges"],
    name="markets_exchange_symbols",
    doc="State of every symbol on one venue at one time.",
)
TABLES["markets_symbol_stats"] = replace(
    TABLES["markets_symbols"],
    name="markets_symbol_stats",
    doc="Row of one symbol in the leaderboard.",
)
define(
    "oi_exchanges",
    key="exchange",
    rest="time total_oi_usd symbol_count top_symbol change_24h change_7d market_share",
    doc="Current open interest of every venue.",
)
define(
    "oi_sparklines",
    key="exchange days_ago",
    rest="time oi_usd",
    doc="Open interest of every venue over the last week in seven points.",
)
define(
    "oi_history",
    key="symbol exchange time",
    rest="oi_usd oi_all_contracts_usd resolution",
    wire={
        "time": "timestamp",
        "oi_usd": "open_interest_usd",
        "oi_all_contracts_usd": "open_interest_all_contracts_usd",
    },
    optional="oi_all_contracts_usd",
    doc="Open interest of every venue over time; a row is of one contract.",
)
define(
    "oi_bars",
    key="symbol exchange time resolution",
    rest="oi_open_coins oi_high_coins oi_low_coins oi_close_coins "
    "oi_open_usd oi_high_usd oi_low_usd oi_close_usd",
    doc="Open interest of one contract in each step: first, highest, lowest and last.",
)
define(
    "oi_exchange_totals",
    key="exchange time",
    rest="total_oi_usd symbol_count resolution",
    wire={"time": "timestamp", "total_oi_usd": "total_open_interest_usd"},
    optional="symbol_count",
    doc="Open interest of every venue over all symbols, over time.",
)
define(
    "oi_top_symbols",
    key="symbol exchange time",
    rest="oi_usd resolution",
    wire={"time": "timestamp"},
    optional="resolution",
    doc="Open interest of a venue's largest symbols over time.",
)
define(
    "options_snapshot",
    key="symbol exchange time instrument_name",
    rest="expiry strike side iv delta gamma vega theta rho open_interest underlying_price "
    "bid_coin ask_coin mark_coin bid_usd ask_usd mark_usd index_price_usd volume interest_rate quoted_at",
    optional="delta gamma vega theta rho "
    "bid_coin ask_coin mark_coin bid_usd ask_usd mark_usd index_price_usd volume interest_rate quoted_at",
    changed={"side": {"allowed": ("call", "put")}},
    order="symbol exchange time expiry strike side",
    doc="Every active option of one symbol on one venue at one time.",
)
define(
    "options_surface_history",
    key="symbol exchange time expiry strike side",
    rest="iv open_interest underlying_price",
    changed={"side": {"allowed": ("call", "put")}},
    doc="Hourly options surfaces.",
)
define(
    "options_atm_history",
    key="symbol exchange time expiry",
    rest="strike iv underlying_price",
    wire={"time": "hour"},
    doc="Hourly at-the-money volatility per expiry.",
)
define(
    "options_metrics",
    key="symbol exchange expiry",
    rest="time underlying_price atm_strike atm_iv atm_iv_24h_ago atm_iv_change_24h",
    doc="At-the-money volatility per expiry, now and one day earlier.",
)
define(
    "options_overview_history",
    key="symbol exchange time",
    rest="notional_oi_usd notional_volume_24h_usd",
    wire={"time": "timestamp"},
    doc="Hourly options open interest and volume by venue and symbol.",
)
define(  # only the local service has it
    "options_trades",
    key="symbol exchange time instrument_name trade_id",
    rest="expiry strike side taker_side execution size price_coin price_usd iv index_price_usd "
    "underlying_price",
    wire={"time": "timestamp"},
    optional="price_coin price_usd iv index_price_usd underlying_price",
    changed={
        "time": {"doc": "Time of the trade."},
        "side": {"allowed": ("call", "put")},
        "size": {"unit": "coin", "doc": "Traded amount in coins."},
        "price_usd": {"doc": "Price of the option, in USD."},
        "iv": {"doc": "Implied volatility of the price, decimal."},
    },
    doc="Option trades; prices are in the coin for coin-settled options, otherwise in USD.",
)
define(
    "orderbook_book",
    key="symbol exchange time side level",
    rest="price_usd size",
    changed={"side": {"allowed": ("bid", "ask")}},
    wire={"time": "timestamp"},
    doc="Order book of one symbol on one venue; side is 'bid' or 'ask'.",
)
define(
    "orderbook_depth_history",
    key="symbol exchange time depth_bps",
    rest="bid_depth_usd ask_depth_usd resolution",
    wire={"time": "timestamp"},
    optional="resolution",
    doc="Bid and ask value near the mid price over time, one row per distance.",
)
define(  # only the local service has it
    "positioning_history",
    key="symbol exchange time kind",
    rest="long_share short_share long_short_ratio resolution",
    wire={"time": "timestamp"},
    optional="long_share short_share",
    changed={
        "time": {"doc": "Time of the state; the end of the period where the venue reports a period."},
        "kind": {
            "doc": "Counted quantity: 'accounts' or 'positions' of active traders, or 'top_accounts' or "
            "'top_positions' of the largest traders.",
            "allowed": ("accounts", "positions", "top_accounts", "top_positions"),
        },
    },
    doc="Long and short accounts and positions of every venue over time; definitions differ between venues.",
)
define(  # only the local service has it
    "prices_history",
    key="symbol exchange time kind",
    rest="price_usd resolution",
    wire={"time": "timestamp", "price_usd": "y"},
    changed={
        "time": {"doc": "Time of the price; the end of the bucket where rows are buckets."},
        "kind": {"doc": "'mark', 'index' or 'last'.", "allowed": ("mark", "index", "last")},
        "price_usd": {"positive": True},
    },
    doc="Mark, index and last price of every venue over time.",
)
define(  # only the local service has it
    "prices_spot",
    key="symbol exchange time quote",
    rest="price resolution",
    wire={"time": "timestamp", "price": "y"},
    changed={"time": {"doc": "Time of the price; the end of the bucket where rows are buckets."}},
    doc="Spot prices by currency, for as many coins as one unit of the symbol has.",
)
define(
    "rwa_market_hours",
    key="exchange_id start session",
    rest="time end is_tradable name short_name mic timezone is_tradable_now next_session_start",
    optional="name short_name mic timezone is_tradable_now next_session_start",
    doc="Sessions and holidays of the exchanges of real-world assets, one row per interval.",
)
define(  # only the local service has it
    "volatility_index_published",
    key="symbol exchange time",
    rest="index_pct resolution",
    wire={"time": "timestamp"},
    changed={"time": {"doc": "Time of the index value; the end of its step."}},
    doc="Volatility indices published by venues, e.g. DVOL.",
)
define(
    "volume_history",
    key="symbol exchange time",
    rest="volume_usd resolution",
    wire={"time": "timestamp"},
    doc="Volume of every venue over time, per step.",
)
define(
    "volume_exchange_totals",
    key="exchange time",
    rest="total_volume_usd symbol_count resolution",
    wire={"time": "timestamp"},
    optional="symbol_count",
    doc="Volume of every venue over all symbols, over time.",
)
define(
    "volume_oi_ratio",
    key="exchange time",
    rest="volume_oi_ratio volume_usd oi_usd resolution",
    wire={"time": "timestamp", "volume_oi_ratio": "ratio", "volume_usd": "volume", "oi_usd": "open_interest"},
    doc="Volume over open interest of every venue, over time.",
)
define(  # only the local service has it
    "volume_taker",
    key="symbol exchange time",
    rest="buy_usd sell_usd resolution",
    wire={"time": "timestamp"},
    doc="Taker buy and sell value on every venue, per step.",
)
define(
    "volume_top_symbols",
    key="symbol exchange time",
    rest="volume_usd resolution",
    wire={"time": "timestamp"},
    optional="resolution",
    doc="Volume of a venue's largest symbols over time.",
)
