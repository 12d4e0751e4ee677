"""Every column of the library: kind, unit, meaning. A suffix in the name repeats the unit."""

from __future__ import annotations

from functools import partial

from derivdata.support.times import RESOLUTIONS
from derivdata.tables.payments import SOURCES
from derivdata.tables.schema import Column, Kind

__all__ = ["COLUMNS", "MOST_PAID"]

_NUMBER = Kind.NUMBER
_text = partial(Column, Kind.TEXT, "")
_label = partial(Column, Kind.LABEL, "")
_amount = partial(Column, Kind.NUMBER, least=0.0)
_count = partial(Column, Kind.COUNT, "", least=0.0)
_MOST_PRICE_USD = 1e8
_MOST_USD = 1e13
_MOST_COINS = 1e17
_price = partial(Column, Kind.NUMBER, "USD", least=0.0, most=_MOST_PRICE_USD)
_usd = partial(Column, Kind.NUMBER, "USD", least=0.0, most=_MOST_USD)
_coins = partial(Column, Kind.NUMBER, least=0.0, most=_MOST_COINS)
_share = partial(Column, Kind.NUMBER, least=0.0, most=1.02)  # shares are rounded, each a little up
_iv = partial(Column, Kind.NUMBER, "1/√year", least=0.0, most=30.0)
MOST_PAID = 0.3
"""The largest payment, as a fraction of notional."""
# As that payment in an hour, the shortest interval.
_MOST_RATE_BPS = MOST_PAID * 8 * 1e4
_rate = partial(Column, Kind.NUMBER, "bps/8h", least=-_MOST_RATE_BPS, most=_MOST_RATE_BPS)

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
        least=-MOST_PAID,
        most=MOST_PAID,
    ),
    "payment_count": _count("Number of payments in the row: 1, or more if the venue caught up after a halt."),
    "interval_source": _text(
        "Source of the interval: the payment's row, the venue's instrument list, or the spacing of payments.",
        SOURCES,
    ),
    "interval_hours": Column(
        _NUMBER,
        "h",
        "Funding interval of the symbol on the venue at that time.",
        least=0.0,
        positive=True,
        most=168.0,
    ),
    "oi_rank": Column(
        Kind.RANK,
        "",
        "Rank by open interest on one reference venue; missing for unlisted symbols.",
        least=0.0,
    ),
    "display_name": _label("Display name of the venue."),
    "rank": _count("Rank in the list, from 1."),
    "direction": _text("'gainer' or 'loser'.", ("gainer", "loser")),
    "price_usd": _price("Price."),
    "quote": _text("Quote currency of the price.", ("USD", "USDC", "USDT")),
    "price": Column(
        _NUMBER, "quote", "Price in the currency `quote`.", least=0.0, positive=True, most=_MOST_PRICE_USD
    ),
    "price_24h_change_pct": Column(_NUMBER, "%", "Price change over 24 hours.", least=-100.0),
    "volume_usd": _usd("Volume traded in the bucket that starts at `time`."),
    "volume_24h_usd": _usd("Volume of the last 24 hours."),
    "volume_24h_change_pct": Column(
        _NUMBER, "%", "Change of the 24-hour volume against the day before.", least=-100.0
    ),
    "oi_usd": _usd("Open interest."),
    "oi_all_contracts_usd": _usd(
        "Open interest of all perpetuals of the symbol on the venue, in any quote currency; missing where "
        "one of them is not known."
    ),
    "oi_24h_change_pct": Column(_NUMBER, "%", "Open interest change over 24 hours.", least=-100.0),
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
        _NUMBER, "%", "Volatility index in percent (50 means 50 %).", least=0.0, positive=True, most=400.0
    ),
    "table": _text("Name of a table."),
    "first": Column(Kind.TIME, "UTC", "Time of the first row."),
    "last": Column(Kind.TIME, "UTC", "Time of the last row."),
    "step_hours": Column(
        _NUMBER,
        "h",
        "Usual time between rows of a series; missing for events, snapshots and tables without venues.",
        least=0.0,
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
        least=0.0,
    ),
    "max_borrow": _coins("asset", "Most that an account without a tier may borrow."),
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
