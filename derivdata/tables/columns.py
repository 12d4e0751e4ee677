"""Every column of the library, once: kind, unit, meaning. A suffix in the name states the same unit."""

from __future__ import annotations

from derivdata.support.times import RESOLUTIONS
from derivdata.tables.schema import Column, Kind

__all__ = ["COLUMNS"]

_TEXT, _LABEL, _NUMBER, _COUNT = Kind.TEXT, Kind.LABEL, Kind.NUMBER, Kind.COUNT

COLUMNS: dict[str, Column] = {
    "symbol": Column(_TEXT, "", "Asset, as the API spells it, without quote: BTC."),
    "exchange": Column(_TEXT, "", "Venue's slug: binance."),
    "time": Column(Kind.TIME, "UTC", "Instant the row is about; a bucket's start where there are buckets."),
    "kind": Column(
        _TEXT, "", "'sampled' (integrate over time) or 'settled' (add up).", ("sampled", "settled")
    ),
    "resolution": Column(
        _TEXT,
        "",
        "Step that the server used: raw, 1h, 4h; unstated where it does not say.",
        ("raw", *RESOLUTIONS, "unstated"),
    ),
    "rate_bps_8h": Column(_NUMBER, "bps/8h", "Funding rate; longs pay shorts when positive."),
    "rate_native": Column(_NUMBER, "fraction per interval", "Funding rate per the venue's own interval."),
    "interval_hours": Column(_NUMBER, "h", "Venue's own settlement interval for the symbol at that time."),
    "oi_rank": Column(
        Kind.RANK, "", "Rank by open interest on one reference venue; missing beyond the list.", least=0.0
    ),
    "display_name": Column(_LABEL, "", "Venue's name as shown to people."),
    "rank": Column(_COUNT, "", "Position in the list, from 1.", least=0.0),
    "direction": Column(_TEXT, "", "'gainer' or 'loser'.", ("gainer", "loser")),
    "price_usd": Column(_NUMBER, "USD", "Price.", least=0.0),
    "quote": Column(_TEXT, "", "Currency in which the price is.", ("USD", "USDC", "USDT")),
    "price": Column(_NUMBER, "quote", "Price in the currency `quote`.", least=0.0, positive=True),
    "price_24h_change_pct": Column(_NUMBER, "%", "Price change over 24 hours.", least=-100.0),
    "volume_usd": Column(_NUMBER, "USD", "Volume traded in the bucket that starts at `time`.", least=0.0),
    "volume_24h_usd": Column(_NUMBER, "USD", "Volume of the last 24 hours.", least=0.0),
    "volume_24h_change_pct": Column(
        _NUMBER, "%", "Change of the 24-hour volume against the day before.", least=-100.0
    ),
    "oi_usd": Column(_NUMBER, "USD", "Open interest.", least=0.0),
    "oi_24h_change_pct": Column(_NUMBER, "%", "Open interest change over 24 hours.", least=-100.0),
    "top_funding_bps_8h": Column(_NUMBER, "bps/8h", "Highest funding rate among the venues."),
    "top_funding_exchange": Column(_TEXT, "", "Venue of that rate."),
    "liquidation_24h_usd": Column(_NUMBER, "USD", "Liquidations of the last 24 hours.", least=0.0),
    "asset_class": Column(_TEXT, "", "Class of the asset, where the API gives one."),
    "asset_group": Column(_TEXT, "", "Group of the asset, where the API gives one."),
    "asset_subgroup": Column(_TEXT, "", "Subgroup of the asset, where the API gives one."),
    "funding_current_bps_8h": Column(_NUMBER, "bps/8h", "Funding rate now."),
    "funding_avg_7d_bps_8h": Column(_NUMBER, "bps/8h", "Mean funding rate of the last 7 days."),
    "total_oi_usd": Column(_NUMBER, "USD", "Open interest of the venue over all symbols.", least=0.0),
    "symbol_count": Column(_COUNT, "", "Symbols with open interest on the venue.", least=0.0),
    "top_symbol": Column(_TEXT, "", "Symbol with the largest open interest on the venue."),
    "change_24h": Column(
        _NUMBER, "unstated", "Open interest change over 24 hours; unit unstated by the API."
    ),
    "change_7d": Column(_NUMBER, "unstated", "Open interest change over 7 days; unit unstated by the API."),
    "market_share": Column(_NUMBER, "fraction", "Venue's part of all open interest, 0 to 1.", least=0.0),
    "level": Column(_COUNT, "", "Place in the order book's side, from 1, the best price.", least=0.0),
    "size": Column(_NUMBER, "asset", "Size offered at the price.", least=0.0),
    "depth_bps": Column(_NUMBER, "bps", "Distance from the mid price.", least=0.0),
    "bid_depth_usd": Column(_NUMBER, "USD", "Value bid within that distance.", least=0.0),
    "ask_depth_usd": Column(_NUMBER, "USD", "Value offered within that distance.", least=0.0),
    "atm_strike": Column(_NUMBER, "USD", "Listed strike nearest the underlying.", least=0.0),
    "atm_iv": Column(_NUMBER, "1/√year", "Implied volatility at that strike.", least=0.0),
    "atm_iv_24h_ago": Column(_NUMBER, "1/√year", "The same a day before.", least=0.0),
    "atm_iv_change_24h": Column(_NUMBER, "1/√year", "Change over the day."),
    "notional_oi_usd": Column(_NUMBER, "USD", "Options open interest at its notional value.", least=0.0),
    "notional_volume_24h_usd": Column(
        _NUMBER, "USD", "Options volume of the 24 hours before each hour.", least=0.0
    ),
    "long_share": Column(_NUMBER, "fraction", "Part that is long, 0 to 1.", least=0.0),
    "short_share": Column(
        _NUMBER, "fraction", "Part that is short; the two add to 1 unless some hold both sides.", least=0.0
    ),
    "long_short_ratio": Column(_NUMBER, "1", "Long over short.", least=0.0),
    "buy_usd": Column(
        _NUMBER, "USD", "Value that takers bought in the bucket that starts at `time`.", least=0.0
    ),
    "sell_usd": Column(_NUMBER, "USD", "Value that takers sold in it.", least=0.0),
    "long_usd": Column(_NUMBER, "USD", "Long positions that were liquidated.", least=0.0),
    "short_usd": Column(_NUMBER, "USD", "Short positions that were liquidated.", least=0.0),
    "total_usd": Column(_NUMBER, "USD", "Positions that were liquidated.", least=0.0),
    "long_count": Column(_COUNT, "", "Orders that liquidated longs.", least=0.0),
    "short_count": Column(_COUNT, "", "Orders that liquidated shorts.", least=0.0),
    "total_count": Column(_COUNT, "", "Liquidation orders.", least=0.0),
    "group_by": Column(_TEXT, "", "What was added up: symbol, exchange or symbol_exchange."),
    "name": Column(_LABEL, "", "Name of the group or of the exchange."),
    "total_volume_usd": Column(
        _NUMBER, "USD", "Volume of the venue over all symbols in the bucket.", least=0.0
    ),
    "volume_oi_ratio": Column(_NUMBER, "1", "Volume over open interest.", least=0.0),
    "label": Column(_LABEL, "", "Name of the bucket."),
    "lower_pct": Column(_NUMBER, "%", "Lower edge of the bucket; missing where it is open."),
    "upper_pct": Column(_NUMBER, "%", "Upper edge of the bucket; missing where it is open."),
    "symbols": Column(_LABEL, "", "Symbols of the bucket, joined by commas."),
    "exchange_id": Column(_LABEL, "", "Exchange behind a real-world asset."),
    "short_name": Column(_LABEL, "", "Exchange's short name."),
    "mic": Column(_LABEL, "", "Market identifier code (ISO 10383)."),
    "timezone": Column(_LABEL, "", "Exchange's zone."),
    "session": Column(_TEXT, "", "'regular', 'pre', 'post' or 'holiday'."),
    "start": Column(Kind.TIME, "UTC", "Start of the interval."),
    "end": Column(Kind.TIME, "UTC", "End of the interval, not part of it."),
    "is_tradable": Column(Kind.FLAG, "", "Whether the asset trades in the interval."),
    "is_tradable_now": Column(Kind.FLAG, "", "Whether the exchange trades at `time`."),
    "next_session_start": Column(Kind.TIME, "UTC", "Start of the next interval in which it trades."),
    "days_ago": Column(_COUNT, "d", "Steps before the newest point of the week's line, 6 to 0."),
    "order_id": Column(_LABEL, "", "Order on the venue; one made from the row where the source has none."),
    "fill_id": Column(_LABEL, "", "Fill of the order."),
    "side": Column(
        _TEXT,
        "",
        "Liquidated side, 'long' or 'short'; of an option 'call' or 'put'; of a book 'bid' or 'ask'.",
        ("long", "short"),
    ),
    "order_price_usd": Column(_NUMBER, "USD", "Price of the liquidation order.", least=0.0),
    "fill_price_usd": Column(_NUMBER, "USD", "Mean price of its fills.", least=0.0),
    "quantity": Column(_NUMBER, "asset", "Size of the order.", least=0.0),
    "filled_quantity": Column(_NUMBER, "asset", "Size that was filled.", least=0.0),
    "value_usd": Column(_NUMBER, "USD", "Value that was liquidated.", least=0.0),
    "status": Column(_TEXT, "", "State of the order; 'filled' is the one documented."),
    "fill_count": Column(_COUNT, "", "Fills that make up the order.", least=0.0),
    "instrument_name": Column(_LABEL, "", "Venue's name of the contract."),
    "contract_size": Column(_NUMBER, "asset", "Coins of one contract; USD where it is inverse.", least=0.0),
    "multiplier": Column(
        _NUMBER, "1", "Coins that one unit of the symbol stands for: 1000 of 1000PEPE.", least=0.0
    ),
    "is_inverse": Column(Kind.FLAG, "", "Whether it is margined and settled in the coin."),
    "is_perpetual": Column(Kind.FLAG, "", "Whether it has no expiry."),
    "is_active": Column(Kind.FLAG, "", "Whether it trades."),
    "listed": Column(Kind.TIME, "UTC", "When it was listed; missing where the list does not tell it."),
    "delisted": Column(Kind.TIME, "UTC", "When a perpetual contract ends or ended; missing of others."),
    "tick": Column(_NUMBER, "USD", "Least step of its price; missing where the list does not tell it."),
    "step": Column(_NUMBER, "contracts", "Least step of a size; missing where the list does not tell it."),
    "expiry": Column(Kind.TIME, "UTC", "Instant of expiry."),
    "strike": Column(_NUMBER, "USD", "Strike price.", least=0.0),
    "iv": Column(_NUMBER, "1/√year", "Implied volatility, decimal.", least=0.0),
    "delta": Column(_NUMBER, "venue's", "Venue's delta; missing where the venue gives none."),
    "gamma": Column(_NUMBER, "venue's", "Venue's gamma; unit differs between venues."),
    "vega": Column(_NUMBER, "venue's", "Venue's vega; unit differs between venues."),
    "theta": Column(_NUMBER, "venue's", "Venue's theta; unit differs between venues."),
    "rho": Column(_NUMBER, "venue's", "Venue's rho; unit differs between venues."),
    "open_interest": Column(_NUMBER, "contracts", "Open interest in the venue's contracts.", least=0.0),
    "underlying_price": Column(
        _NUMBER, "USD", "Price of the underlying that the venue quotes the option on.", least=0.0
    ),
    "bid_coin": Column(_NUMBER, "coin", "Best bid of the option, in the coin itself.", least=0.0),
    "ask_coin": Column(_NUMBER, "coin", "Best ask of the option, in the coin itself.", least=0.0),
    "mark_coin": Column(_NUMBER, "coin", "Venue's mark price of the option, in the coin itself.", least=0.0),
    "bid_usd": Column(_NUMBER, "USD", "Best bid of the option, in USD.", least=0.0),
    "ask_usd": Column(_NUMBER, "USD", "Best ask of the option, in USD.", least=0.0),
    "mark_usd": Column(_NUMBER, "USD", "Venue's mark price of the option, in USD.", least=0.0),
    "index_price_usd": Column(_NUMBER, "USD", "Venue's index price of the underlying.", least=0.0),
    "volume": Column(
        _NUMBER, "contracts", "Volume of the last 24 hours in the venue's contracts.", least=0.0
    ),
    "trade_id": Column(_LABEL, "", "Trade on the venue; unique within an instrument."),
    "taker_side": Column(_TEXT, "", "What the taker did, 'buy' or 'sell'.", ("buy", "sell")),
    "execution": Column(
        _TEXT,
        "",
        "'book', 'block' (negotiated: the side is that of one party) or 'combo' (a leg of a package).",
        ("book", "block", "combo"),
    ),
    "price_coin": Column(_NUMBER, "coin", "Price of the option, in the coin itself.", least=0.0),
    "index_pct": Column(_NUMBER, "%", "Volatility index, 50 for 50 %.", least=0.0, positive=True),
    "table": Column(_TEXT, "", "Name of a table."),
    "first": Column(Kind.TIME, "UTC", "Instant of the first row."),
    "last": Column(Kind.TIME, "UTC", "Instant of the last row."),
    "step_hours": Column(
        _NUMBER,
        "h",
        "Usual time between rows of a series; missing for events, single instants and tables without venues.",
        least=0.0,
    ),
    "row_count": Column(_COUNT, "", "Rows; missing where they are made when they are asked for.", least=0.0),
    "dex": Column(_TEXT, "", "Dex of HIP-3: xyz."),
    "venue": Column(_TEXT, "", "Part of HIP-4: out or skew."),
    "outcome_id": Column(_TEXT, "", "Number of an outcome of HIP-4."),
    "address": Column(_TEXT, "", "Trader's address."),
    "builder": Column(_TEXT, "", "Builder's name."),
    "trade_count": Column(_COUNT, "", "Trades.", least=0.0),
    "fees_usd": Column(_NUMBER, "USD", "Fees that were paid."),
    "deployer_fees_usd": Column(_NUMBER, "USD", "The deployer's part of them."),
    "liquidation_value_usd": Column(
        _NUMBER, "USD", "Value liquidated, by the liquidated user's fill.", least=0.0
    ),
    "liquidation_count": Column(_COUNT, "", "Fills of liquidated users.", least=0.0),
    "open_usd": Column(_NUMBER, "USD", "First price.", least=0.0),
    "high_usd": Column(_NUMBER, "USD", "Highest price.", least=0.0),
    "low_usd": Column(_NUMBER, "USD", "Lowest price.", least=0.0),
    "close_usd": Column(_NUMBER, "USD", "Last price.", least=0.0),
}
