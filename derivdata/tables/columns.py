"""Every column of the library, once: kind, unit, meaning. A suffix in the name states the same unit."""

from __future__ import annotations

from functools import partial

from derivdata.support.times import RESOLUTIONS
from derivdata.tables.payments import SOURCES
from derivdata.tables.schema import Column, Kind

__all__ = ["COLUMNS"]

_NUMBER = Kind.NUMBER
_text, _label = partial(Column, Kind.TEXT, ""), partial(Column, Kind.LABEL, "")
_amount, _count = partial(Column, Kind.NUMBER, least=0.0), partial(Column, Kind.COUNT, "", least=0.0)
_MOST_PRICE_USD, _MOST_USD, _MOST_COINS = 1e8, 1e13, 1e17
_price = partial(Column, Kind.NUMBER, "USD", least=0.0, most=_MOST_PRICE_USD)
_usd = partial(Column, Kind.NUMBER, "USD", least=0.0, most=_MOST_USD)
_coins = partial(Column, Kind.NUMBER, least=0.0, most=_MOST_COINS)
_share = partial(Column, Kind.NUMBER, least=0.0, most=1.02)  # shares are rounded, each a little up
_iv = partial(Column, Kind.NUMBER, "1/√year", least=0.0, most=30.0)
# 30 % of the position in a payment of an hour, the shortest usual interval.
_rate = partial(Column, Kind.NUMBER, "bps/8h", least=-24_000.0, most=24_000.0)

COLUMNS: dict[str, Column] = {
    "symbol": _text("Asset, as the API spells it, without quote: BTC."),
    "exchange": _text("Venue's slug: binance."),
    "time": Column(Kind.TIME, "UTC", "Instant the row is about; a bucket's start where there are buckets."),
    "kind": _text("'sampled' (integrate over time) or 'settled' (add up).", ("sampled", "settled")),
    "resolution": _text(
        "Step that the server used: raw, 1h, 4h; unstated where it does not say.",
        ("raw", *RESOLUTIONS, "unstated"),
    ),
    "rate_bps_8h": _rate("Funding rate; longs pay shorts when positive."),
    "rate_native": Column(_NUMBER, "fraction per interval", "Funding rate per the venue's own interval."),
    "payment_count": _count("Payments that the row adds up: several after a halt of the venue, else 1."),
    "interval_source": _text(
        "Statement that the interval rests on: the payment's own row, the venue's list, or the spacing.",
        SOURCES,
    ),
    "interval_hours": Column(
        _NUMBER,
        "h",
        "Venue's own settlement interval for the symbol at that time.",
        least=0.0,
        positive=True,
        most=168.0,
    ),
    "oi_rank": Column(
        Kind.RANK, "", "Rank by open interest on one reference venue; missing beyond the list.", least=0.0
    ),
    "display_name": _label("Venue's name as shown to people."),
    "rank": _count("Position in the list, from 1."),
    "direction": _text("'gainer' or 'loser'.", ("gainer", "loser")),
    "price_usd": _price("Price."),
    "quote": _text("Currency in which the price is.", ("USD", "USDC", "USDT")),
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
    "oi_24h_change_pct": Column(_NUMBER, "%", "Open interest change over 24 hours.", least=-100.0),
    "top_funding_bps_8h": _rate("Highest funding rate among the venues."),
    "top_funding_exchange": _text("Venue of that rate."),
    "liquidation_24h_usd": _usd("Liquidations of the last 24 hours."),
    "asset_class": _text("Class of the asset, where the API gives one."),
    "asset_group": _text("Group of the asset, where the API gives one."),
    "asset_subgroup": _text("Subgroup of the asset, where the API gives one."),
    "funding_current_bps_8h": _rate("Funding rate now."),
    "funding_avg_7d_bps_8h": _rate("Mean funding rate of the last 7 days."),
    "total_oi_usd": _usd("Open interest of the venue over all symbols."),
    "symbol_count": _count("Symbols with open interest on the venue."),
    "top_symbol": _text("Symbol with the largest open interest on the venue."),
    "change_24h": Column(
        _NUMBER, "unstated", "Open interest change over 24 hours; unit unstated by the API."
    ),
    "change_7d": Column(_NUMBER, "unstated", "Open interest change over 7 days; unit unstated by the API."),
    "market_share": _share("fraction", "Venue's part of all open interest, 0 to 1."),
    "level": _count("Place in the order book's side, from 1, the best price."),
    "size": _coins("asset", "Size offered at the price."),
    "depth_bps": _amount("bps", "Distance from the mid price."),
    "bid_depth_usd": _usd("Value bid within that distance."),
    "ask_depth_usd": _usd("Value offered within that distance."),
    "atm_strike": _price("Listed strike nearest the underlying."),
    "atm_iv": _iv("Implied volatility at that strike."),
    "atm_iv_24h_ago": _iv("The same a day before."),
    "atm_iv_change_24h": Column(_NUMBER, "1/√year", "Change over the day."),
    "notional_oi_usd": _usd("Options open interest at its notional value."),
    "notional_volume_24h_usd": _usd("Options volume of the 24 hours before each hour."),
    "long_share": _share("fraction", "Part that is long, 0 to 1."),
    "short_share": _share("fraction", "Part that is short; the two add to 1 unless some hold both sides."),
    "long_short_ratio": _amount("1", "Long over short."),
    "buy_usd": _usd("Value that takers bought in the bucket that starts at `time`."),
    "sell_usd": _usd("Value that takers sold in it."),
    "long_usd": _usd("Long positions that were liquidated."),
    "short_usd": _usd("Short positions that were liquidated."),
    "total_usd": _usd("Positions that were liquidated."),
    "long_count": _count("Orders that liquidated longs."),
    "short_count": _count("Orders that liquidated shorts."),
    "total_count": _count("Liquidation orders."),
    "group_by": _text("What was added up: symbol, exchange or symbol_exchange."),
    "name": _label("Name of the group or of the exchange."),
    "total_volume_usd": _usd("Volume of the venue over all symbols in the bucket."),
    "volume_oi_ratio": _amount("1", "Volume over open interest."),
    "label": _label("Name of the bucket."),
    "lower_pct": Column(_NUMBER, "%", "Lower edge of the bucket; missing where it is open."),
    "upper_pct": Column(_NUMBER, "%", "Upper edge of the bucket; missing where it is open."),
    "symbols": _label("Symbols of the bucket, joined by commas."),
    "exchange_id": _label("Exchange behind a real-world asset."),
    "short_name": _label("Exchange's short name."),
    "mic": _label("Market identifier code (ISO 10383)."),
    "timezone": _label("Exchange's zone."),
    "session": _text("'regular', 'pre', 'post' or 'holiday'."),
    "start": Column(Kind.TIME, "UTC", "Start of the interval."),
    "end": Column(Kind.TIME, "UTC", "End of the interval, not part of it."),
    "is_tradable": Column(Kind.FLAG, "", "Whether the asset trades in the interval."),
    "is_tradable_now": Column(Kind.FLAG, "", "Whether the exchange trades at `time`."),
    "next_session_start": Column(Kind.TIME, "UTC", "Start of the next interval in which it trades."),
    "days_ago": Column(Kind.COUNT, "d", "Steps before the newest point of the week's line, 6 to 0."),
    "order_id": _label("Order on the venue; one made from the row where the source has none."),
    "fill_id": _label("Fill of the order."),
    "side": _text(
        "Liquidated side, 'long' or 'short'; of an option 'call' or 'put'; of a book 'bid' or 'ask'.",
        ("long", "short"),
    ),
    "order_price_usd": _price("Price of the liquidation order."),
    "fill_price_usd": _price("Mean price of its fills."),
    "quantity": _coins("asset", "Size of the order."),
    "filled_quantity": _coins("asset", "Size that was filled."),
    "value_usd": _usd("Value that was liquidated."),
    "status": _text("State of the order; 'filled' is the one documented."),
    "fill_count": _count("Fills that make up the order."),
    "contract": _text(
        "What was settled: 'option', 'future', or 'index' (all that expire on an index), and the quote "
        "currency of its index, as in 'option:USD'; unstated where it is not known.",
        default="unstated",
    ),
    "instrument_name": _label("Venue's name of the contract."),
    "contract_size": _coins("asset", "Coins of one contract; USD where it is inverse."),
    "multiplier": _amount("1", "Coins that one unit of the symbol stands for: 1000 of 1000PEPE."),
    "is_inverse": Column(Kind.FLAG, "", "Whether it is margined and settled in the coin."),
    "is_perpetual": Column(Kind.FLAG, "", "Whether it has no expiry."),
    "is_active": Column(Kind.FLAG, "", "Whether it trades."),
    "listed": Column(Kind.TIME, "UTC", "When it was listed; missing where the list does not tell it."),
    "delisted": Column(Kind.TIME, "UTC", "When a perpetual contract ends or ended; missing of others."),
    "tick": Column(_NUMBER, "USD", "Least step of its price; missing where the list does not tell it."),
    "step": Column(_NUMBER, "contracts", "Least step of a size; missing where the list does not tell it."),
    "expiry": Column(Kind.TIME, "UTC", "Instant of expiry."),
    "quoted_at": Column(Kind.TIME, "UTC", "Venue's own timestamp of the row, where it states one."),
    "strike": _price("Strike price."),
    "iv": _iv("Implied volatility, decimal."),
    "delta": Column(_NUMBER, "venue's", "Venue's delta; missing where the venue gives none."),
    "gamma": Column(_NUMBER, "venue's", "Venue's gamma; unit differs between venues."),
    "vega": Column(_NUMBER, "venue's", "Venue's vega; unit differs between venues."),
    "theta": Column(_NUMBER, "venue's", "Venue's theta; unit differs between venues."),
    "rho": Column(_NUMBER, "venue's", "Venue's rho; unit differs between venues."),
    "open_interest": _coins("contracts", "Open interest in the venue's contracts."),
    "underlying_price": _price("Price of the underlying that the venue quotes the option on."),
    "bid_coin": _coins("coin", "Best bid of the option, in the coin itself."),
    "ask_coin": _coins("coin", "Best ask of the option, in the coin itself."),
    "mark_coin": _coins("coin", "Venue's mark price of the option, in the coin itself."),
    "bid_usd": _price("Best bid of the option, in USD."),
    "ask_usd": _price("Best ask of the option, in USD."),
    "mark_usd": _price("Venue's mark price of the option, in USD."),
    "interest_rate": Column(
        _NUMBER, "1/year", "Continuous rate at which the venue discounts premiums, where it states one."
    ),
    "index_price_usd": _price("Venue's index price of the underlying."),
    "volume": _coins("contracts", "Volume of the last 24 hours in the venue's contracts."),
    "trade_id": _label("Trade on the venue; unique within an instrument."),
    "taker_side": _text("What the taker did, 'buy' or 'sell'.", ("buy", "sell")),
    "execution": _text(
        "'book', 'block' (negotiated: the side is that of one party) or 'combo' (a leg of a package).",
        ("book", "block", "combo"),
    ),
    "price_coin": _coins("coin", "Price of the option, in the coin itself."),
    "index_pct": Column(_NUMBER, "%", "Volatility index, 50 for 50 %.", least=0.0, positive=True, most=400.0),
    "table": _text("Name of a table."),
    "first": Column(Kind.TIME, "UTC", "Instant of the first row."),
    "last": Column(Kind.TIME, "UTC", "Instant of the last row."),
    "step_hours": Column(
        _NUMBER,
        "h",
        "Usual time between rows of a series; missing for events, single instants and tables without venues.",
        least=0.0,
    ),
    "row_count": _count("Rows; missing where they are made when they are asked for."),
    "dex": _text("Dex of HIP-3: xyz."),
    "venue": _text("Part of HIP-4: out or skew."),
    "outcome_id": _text("Number of an outcome of HIP-4."),
    "address": _text("Trader's address."),
    "builder": _text("Builder's name."),
    "trade_count": _count("Trades."),
    "fees_usd": Column(_NUMBER, "USD", "Fees that were paid."),
    "deployer_fees_usd": Column(_NUMBER, "USD", "The deployer's part of them."),
    "liquidation_value_usd": _usd("Value liquidated, by the liquidated user's fill."),
    "liquidation_count": _count("Fills of liquidated users."),
    "open_usd": _price("First price."),
    "high_usd": _price("Highest price."),
    "low_usd": _price("Lowest price."),
    "close_usd": _price("Last price."),
}
