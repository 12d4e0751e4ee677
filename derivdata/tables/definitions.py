"""Every column and every table as data.

A column has a kind, a unit and a meaning; a suffix in its name repeats the unit. A table has a key, columns,
wire names that differ, and one line that defines a row.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

from derivdata.support.times import RESOLUTIONS
from derivdata.tables.payments import SOURCES
from derivdata.tables.schema import Column, Kind, OpenTable, Table

_NUMBER = Kind.NUMBER
_text = partial(Column, Kind.TEXT, "")
_label = partial(Column, Kind.LABEL, "")
_amount = partial(Column, Kind.NUMBER, minimum=0.0)
_count = partial(Column, Kind.COUNT, "", minimum=0.0)
_MAX_PRICE_USD = 1e8
_MAX_USD = 1e13
_MAX_COINS = 1e17
_price = partial(Column, Kind.NUMBER, "USD", minimum=0.0, maximum=_MAX_PRICE_USD)
_usd = partial(Column, Kind.NUMBER, "USD", minimum=0.0, maximum=_MAX_USD)
_coins = partial(Column, Kind.NUMBER, minimum=0.0, maximum=_MAX_COINS)
_share = partial(Column, Kind.NUMBER, minimum=0.0, maximum=1.02)  # shares may be rounded up
_iv = partial(Column, Kind.NUMBER, "1/√year", minimum=0.0, maximum=30.0)
MAX_PAID = 0.3
"""The largest payment, as a fraction of notional."""
# The same payment at the shortest interval, one hour.
_MAX_RATE_BPS = MAX_PAID * 8 * 1e4
_rate = partial(Column, Kind.NUMBER, "bps/8h", minimum=-_MAX_RATE_BPS, maximum=_MAX_RATE_BPS)

COLUMNS: dict[str, Column] = {
    "symbol": _text("Asset in the API's spelling, without the quote currency, e.g. BTC."),
    "exchange": _text("Venue's slug, e.g. binance."),
    "time": Column(Kind.TIME, "UTC", "Time of the row; the start of the bucket where rows are buckets."),
    "kind": _text("'sampled' (integrate over time) or 'settled' (add up).", ("sampled", "settled")),
    "resolution": _text(
        "Step that the server used (raw, 1h, 4h); 'unstated' if the response has none.",
        ("raw", *RESOLUTIONS, "unstated"),
    ),
    "rate_bps_8h": _rate("Funding rate; longs pay shorts when positive."),
    "rate_native": Column(
        _NUMBER,
        "fraction per interval",
        "Funding rate per funding interval of the venue.",
        minimum=-MAX_PAID,
        maximum=MAX_PAID,
    ),
    "payment_count": _count("Number of payments in the row: 1, or more if the venue caught up after a halt."),
    "interval_source": _text(
        "Source of the interval, in archives: the payment's row, the venue's list, or the payments' spacing.",
        SOURCES,
    ),
    "interval_hours": Column(
        _NUMBER,
        "h",
        "Funding interval of the symbol on the venue at that time.",
        minimum=0.0,
        positive=True,
        maximum=168.0,
    ),
    "oi_rank": Column(
        Kind.RANK,
        "",
        "Rank by open interest on one reference venue; missing for unlisted symbols.",
        minimum=0.0,
    ),
    "display_name": _label("Display name of the venue."),
    "rank": _count("Rank in the list, from 1."),
    "direction": _text("'gainer' or 'loser'.", ("gainer", "loser")),
    "price_usd": _price("Price."),
    "quote": _text("Quote currency of the price.", ("USD", "USDC", "USDT")),
    "price": Column(
        _NUMBER,
        "quote",
        "Price in the currency `quote`.",
        minimum=0.0,
        positive=True,
        maximum=_MAX_PRICE_USD,
    ),
    "price_24h_change_pct": Column(_NUMBER, "%", "Price change over 24 hours.", minimum=-100.0),
    "volume_usd": _usd("Volume traded in the bucket that starts at `time`."),
    "volume_24h_usd": _usd("Volume of the last 24 hours."),
    "volume_24h_change_pct": Column(
        _NUMBER, "%", "Change of the 24-hour volume against the day before.", minimum=-100.0
    ),
    "oi_usd": _usd("Open interest."),
    "oi_all_contracts_usd": _usd(
        "Open interest of all perpetuals of the symbol on the venue, in any quote currency; missing where "
        "one of them is not known."
    ),
    "oi_24h_change_pct": Column(_NUMBER, "%", "Open interest change over 24 hours.", minimum=-100.0),
    "top_funding_bps_8h": _rate("Highest funding rate among the venues."),
    "top_funding_exchange": _text("Venue with that rate."),
    "liquidation_24h_usd": _usd("Liquidations of the last 24 hours."),
    "asset_class": _text("Class of the asset."),
    "asset_group": _text("Group of the asset."),
    "asset_subgroup": _text("Subgroup of the asset."),
    "funding_current_bps_8h": _rate("Current funding rate."),
    "funding_avg_7d_bps_8h": _rate("Mean funding rate over the last 7 days."),
    "total_oi_usd": _usd("Open interest of the venue over all symbols."),
    "symbol_count": _count("Symbols with open interest on the venue."),
    "top_symbol": _text("Symbol with the largest open interest on the venue."),
    "change_24h": Column(
        _NUMBER, "unstated", "Open interest change over 24 hours; the API does not state the unit."
    ),
    "change_7d": Column(
        _NUMBER, "unstated", "Open interest change over 7 days; the API does not state the unit."
    ),
    "market_share": _share("fraction", "Venue's share of total open interest, 0 to 1."),
    "level": _count("Level of the book side; 1 is the best price."),
    "size": _coins("asset", "Size quoted at the price."),
    "depth_bps": _amount("bps", "Distance from the mid price."),
    "bid_depth_usd": _usd("Bid value within that distance."),
    "ask_depth_usd": _usd("Ask value within that distance."),
    "atm_strike": _price("Listed strike closest to the underlying price."),
    "atm_iv": _iv("Implied volatility at that strike."),
    "atm_iv_24h_ago": _iv("Value one day earlier."),
    "atm_iv_change_24h": Column(_NUMBER, "1/√year", "Change over the day."),
    "notional_oi_usd": _usd("Notional open interest of options."),
    "notional_volume_24h_usd": _usd("Options volume over the 24 hours before each hour."),
    "long_share": _share("fraction", "Share that is long, 0 to 1."),
    "short_share": _share(
        "fraction",
        "Share that is short, 0 to 1; adds to 1 with the long share unless accounts hold both sides.",
    ),
    "long_short_ratio": _amount("1", "Ratio of long to short."),
    "buy_usd": _usd("Taker buy value in the bucket that starts at `time`."),
    "sell_usd": _usd("Taker sell value in the bucket that starts at `time`."),
    "long_usd": _usd("Value of liquidated long positions."),
    "short_usd": _usd("Value of liquidated short positions."),
    "total_usd": _usd("Value of liquidated positions."),
    "long_count": _count("Orders that liquidated longs."),
    "short_count": _count("Orders that liquidated shorts."),
    "total_count": _count("Liquidation orders."),
    "group_by": _text("Grouping of the sum: symbol, exchange or symbol_exchange."),
    "name": _label("Name of the group or of the exchange."),
    "total_volume_usd": _usd("Volume of the venue over all symbols in the bucket."),
    "volume_oi_ratio": _amount("1", "Volume over open interest."),
    "label": _label("Name of the bucket."),
    "lower_pct": Column(_NUMBER, "%", "Lower edge of the bucket; missing if unbounded."),
    "upper_pct": Column(_NUMBER, "%", "Upper edge of the bucket; missing if unbounded."),
    "symbols": _label("Symbols of the bucket, joined by commas; empty if it has none.", default=""),
    "exchange_id": _label("Exchange that lists the underlying real-world asset."),
    "short_name": _label("Exchange's short name."),
    "mic": _label("Market identifier code (ISO 10383)."),
    "timezone": _label("Exchange's time zone."),
    "session": _text("'regular', 'pre', 'post' or 'holiday'."),
    "start": Column(Kind.TIME, "UTC", "Start of the interval."),
    "end": Column(Kind.TIME, "UTC", "End of the interval (exclusive)."),
    "is_tradable": Column(Kind.FLAG, "", "True if the asset trades in the interval."),
    "is_tradable_now": Column(Kind.FLAG, "", "True if the exchange trades at `time`."),
    "next_session_start": Column(Kind.TIME, "UTC", "Start of the next interval with trading."),
    "days_ago": Column(Kind.COUNT, "d", "Steps before the newest point of the weekly line, 6 to 0."),
    "order_id": _label("Order ID on the venue; derived from the row if the source has none."),
    "fill_id": _label("Fill of the order."),
    "side": _text(
        "Liquidated side 'long' or 'short'; option side 'call' or 'put'; book side 'bid' or 'ask'.",
        ("long", "short"),
    ),
    "order_price_usd": _price("Price of the liquidation order."),
    "fill_price_usd": _price("Mean price of its fills."),
    "quantity": _coins("asset", "Size of the order."),
    "filled_quantity": _coins("asset", "Filled size."),
    "value_usd": _usd("Liquidated value."),
    "status": _text("Order state; 'filled' is the only documented value."),
    "fill_count": _count("Fills that make up the order."),
    "contract": _text(
        "Settled contract: 'option', 'future' or 'index' (all contracts on an index) with the quote currency "
        "of the index, e.g. 'option:USD'; 'unstated' if unknown.",
        default="unstated",
    ),
    "instrument_name": _label("Name of the contract on the venue."),
    "contract_size": _coins("asset", "Contract size in coins; in USD for an inverse contract."),
    "multiplier": _amount("1", "Coins per unit of the symbol, e.g. 1000 for 1000PEPE."),
    "is_inverse": Column(Kind.FLAG, "", "True if the contract is margined and settled in the coin."),
    "is_perpetual": Column(Kind.FLAG, "", "True for a perpetual contract."),
    "is_active": Column(Kind.FLAG, "", "True if the contract can be traded."),
    "listed": Column(Kind.TIME, "UTC", "Listing time; missing if the venue's list does not state it."),
    "delisted": Column(
        Kind.TIME, "UTC", "Delisting time of a perpetual contract; missing for other contracts."
    ),
    "tick": Column(_NUMBER, "USD", "Price increment; missing if the venue's list does not state it."),
    "step": Column(_NUMBER, "contracts", "Size increment; missing if the venue's list does not state it."),
    "expiry": Column(Kind.TIME, "UTC", "Time of expiry."),
    "quoted_at": Column(
        Kind.TIME, "UTC", "Timestamp of the row on the venue; missing if the venue states none."
    ),
    "strike": _price("Strike price."),
    "iv": _iv("Implied volatility, decimal."),
    "delta": Column(_NUMBER, "venue's", "Delta reported by the venue."),
    "gamma": Column(_NUMBER, "venue's", "Gamma reported by the venue; the unit differs between venues."),
    "vega": Column(_NUMBER, "venue's", "Vega reported by the venue; the unit differs between venues."),
    "theta": Column(_NUMBER, "venue's", "Theta reported by the venue; the unit differs between venues."),
    "rho": Column(_NUMBER, "venue's", "Rho reported by the venue; the unit differs between venues."),
    "open_interest": _coins("contracts", "Open interest in contracts of the venue."),
    "underlying_price": _price("Price of the underlying used by the venue for the option."),
    "bid_coin": _coins("coin", "Best bid of the option, in the coin."),
    "ask_coin": _coins("coin", "Best ask of the option, in the coin."),
    "mark_coin": _coins("coin", "Venue's mark price of the option, in the coin."),
    "bid_usd": _price("Best bid of the option, in USD."),
    "ask_usd": _price("Best ask of the option, in USD."),
    "mark_usd": _price("Venue's mark price of the option, in USD."),
    "interest_rate": Column(
        _NUMBER, "1/year", "Continuously compounded rate at which the venue discounts premiums."
    ),
    "index_price_usd": _price("Venue's index price of the underlying."),
    "volume": _coins("contracts", "Volume of the last 24 hours in contracts of the venue."),
    "trade_id": _label("Trade ID; unique within an instrument."),
    "taker_side": _text("Taker side, 'buy' or 'sell'.", ("buy", "sell")),
    "execution": _text(
        "'book', 'block' (negotiated; the side is that of one party) or 'combo' (a leg of a package).",
        ("book", "block", "combo"),
    ),
    "price_coin": _coins("coin", "Price of the option, in the coin."),
    "index_pct": Column(
        _NUMBER,
        "%",
        "Volatility index in percent (50 means 50 %).",
        minimum=0.0,
        positive=True,
        maximum=400.0,
    ),
    "table": _text("Name of a table."),
    "first": Column(Kind.TIME, "UTC", "Time of the first row."),
    "last": Column(Kind.TIME, "UTC", "Time of the last row."),
    "step_hours": Column(
        _NUMBER,
        "h",
        "Usual time between rows of a series; missing for events, snapshots and tables without venues.",
        minimum=0.0,
    ),
    "row_count": _count("Number of rows; missing if rows are generated on request."),
    "dex": _text("HIP-3 dex, e.g. xyz."),
    "venue": _text("HIP-4 part: out or skew."),
    "outcome_id": _text("HIP-4 outcome number."),
    "address": _text("Trader's address."),
    "builder": _text("Builder's name."),
    "trade_count": _count("Trades."),
    "fees_usd": Column(_NUMBER, "USD", "Fees paid."),
    "deployer_fees_usd": Column(_NUMBER, "USD", "Deployer's share of the fees."),
    "liquidation_value_usd": _usd("Liquidated value, from the fill of the liquidated user."),
    "liquidation_count": _count("Fills of liquidated users."),
    "open_usd": _price("First price."),
    "rate_kind": _text(
        "'settled' (paid at the last settlement), 'next' (running rate of the coming settlement) or "
        "'predicted' (the venue's forecast).",
        ("settled", "next", "predicted"),
    ),
    "settlement_time": Column(Kind.TIME, "UTC", "Settlement that the rate is for; missing if not stated."),
    "oi_open_coins": _coins(
        "asset", "Open interest at the start of the step; missing for inverse contracts."
    ),
    "oi_high_coins": _coins("asset", "Highest open interest of the step."),
    "oi_low_coins": _coins("asset", "Lowest open interest of the step."),
    "oi_close_coins": _coins("asset", "Open interest at the end of the step."),
    "oi_open_usd": _usd("Open interest of an inverse contract at the start of the step."),
    "oi_high_usd": _usd("Highest open interest of the step."),
    "oi_low_usd": _usd("Lowest open interest of the step."),
    "oi_close_usd": _usd("Open interest at the end of the step."),
    "borrow_apr": Column(
        _NUMBER,
        "fraction per year",
        "Rate at which the venue lends the coin, without compounding.",
        minimum=0.0,
    ),
    "max_borrow": _coins("asset", "Largest amount that an account without a tier may borrow."),
    "tier": _count("Number of the tier, from 1."),
    "max_notional_usd": _usd("Largest position of the tier; missing if the venue states it in coins."),
    "max_size_coins": _coins("asset", "Largest position of the tier; missing if the venue states it in USD."),
    "initial_margin": _share("fraction of notional", "Initial margin of a position of the tier."),
    "maintenance_margin": _share("fraction of notional", "Maintenance margin of a position of the tier."),
    "max_leverage": _amount("1", "Highest leverage of a position of the tier."),
    "high_usd": _price("Highest price."),
    "low_usd": _price("Lowest price."),
    "close_usd": _price("Last price."),
}

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
define(  # only in the local service
    "catalog",
    key="table exchange",
    rest="first last step_hours row_count",
    optional="last step_hours row_count",
    changed={"exchange": {"doc": "Venue's slug; 'unstated' if the table has no venues."}},
    doc="Contents of the connected source, one row per table and venue.",
)
define(  # only in the local service
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
define(  # only in the local service
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
define(  # only in the local service
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
define(  # only in the local service
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
define(  # only in the local service
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
define(  # only in the local service
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
define(  # only in the local service
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
define(  # only in the local service
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
define(  # only in the local service
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
