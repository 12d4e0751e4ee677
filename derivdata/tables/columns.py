"""Every column of the library, once: kind, unit, meaning. A suffix in the name states the same unit."""

from __future__ import annotations

from derivdata.schema import Column, Kind

__all__ = ["COLUMNS"]

_TEXT, _LABEL, _NUMBER, _COUNT = Kind.TEXT, Kind.LABEL, Kind.NUMBER, Kind.COUNT

COLUMNS: dict[str, Column] = {
    "symbol": Column(_TEXT, "", "Asset, as the API spells it, without quote: BTC."),
    "exchange": Column(_TEXT, "", "Venue's slug: binance."),
    "time": Column(Kind.TIME, "UTC", "Instant the row is about; a bucket's start where there are buckets."),
    "kind": Column(_TEXT, "", "'sampled' (integrate over time) or 'settled' (add up)."),
    "resolution": Column(_TEXT, "", "Sampling step that the server used: raw, 1h, 4h."),
    "rate_bps_8h": Column(_NUMBER, "bps/8h", "Funding rate; longs pay shorts when positive."),
    "rate_native": Column(_NUMBER, "fraction per interval", "Funding rate per the venue's own interval."),
    "interval_hours": Column(_NUMBER, "h", "Venue's own settlement interval for the symbol at that time."),
    "oi_rank": Column(
        Kind.RANK, "", "Rank by open interest on one reference venue; missing beyond the list."
    ),
    "display_name": Column(_LABEL, "", "Venue's name as shown to people."),
    "rank": Column(_COUNT, "", "Position in the list, from 1."),
    "direction": Column(_TEXT, "", "'gainer' or 'loser'."),
    "price_usd": Column(_NUMBER, "USD", "Price."),
    "price_24h_change_pct": Column(_NUMBER, "%", "Price change over 24 hours."),
    "volume_usd": Column(_NUMBER, "USD", "Volume traded in the bucket that starts at `time`."),
    "volume_24h_usd": Column(_NUMBER, "USD", "Volume of the last 24 hours."),
    "volume_24h_change_pct": Column(_NUMBER, "%", "Change of the 24-hour volume against the day before."),
    "oi_usd": Column(_NUMBER, "USD", "Open interest."),
    "oi_24h_change_pct": Column(_NUMBER, "%", "Open interest change over 24 hours."),
    "top_funding_bps_8h": Column(_NUMBER, "bps/8h", "Highest funding rate among the venues."),
    "top_funding_exchange": Column(_TEXT, "", "Venue of that rate."),
    "liquidation_24h_usd": Column(_NUMBER, "USD", "Liquidations of the last 24 hours."),
    "asset_class": Column(_TEXT, "", "Class of the asset, where the API gives one."),
    "asset_group": Column(_TEXT, "", "Group of the asset, where the API gives one."),
    "asset_subgroup": Column(_TEXT, "", "Subgroup of the asset, where the API gives one."),
    "funding_current_bps_8h": Column(_NUMBER, "bps/8h", "Funding rate now."),
    "funding_avg_7d_bps_8h": Column(_NUMBER, "bps/8h", "Mean funding rate of the last 7 days."),
    "total_oi_usd": Column(_NUMBER, "USD", "Open interest of the venue over all symbols."),
    "symbol_count": Column(_COUNT, "", "Symbols with open interest on the venue."),
    "top_symbol": Column(_TEXT, "", "Symbol with the largest open interest on the venue."),
    "change_24h": Column(
        _NUMBER, "unstated", "Open interest change over 24 hours; unit unstated by the API."
    ),
    "change_7d": Column(_NUMBER, "unstated", "Open interest change over 7 days; unit unstated by the API."),
    "market_share": Column(_NUMBER, "fraction", "Venue's part of all open interest, 0 to 1."),
    "days_ago": Column(_COUNT, "d", "Steps before the newest point of the week's line, 6 to 0."),
    "order_id": Column(_LABEL, "", "Order on the venue; one made from the row where the source has none."),
    "fill_id": Column(_LABEL, "", "Fill of the order."),
    "side": Column(_TEXT, "", "Liquidated side, 'long' or 'short'; of an option 'call' or 'put'."),
    "order_price_usd": Column(_NUMBER, "USD", "Price of the liquidation order."),
    "fill_price_usd": Column(_NUMBER, "USD", "Mean price of its fills."),
    "quantity": Column(_NUMBER, "asset", "Size of the order."),
    "filled_quantity": Column(_NUMBER, "asset", "Size that was filled."),
    "value_usd": Column(_NUMBER, "USD", "Value that was liquidated."),
    "status": Column(_TEXT, "", "State of the order; 'filled' is the one documented."),
    "fill_count": Column(_COUNT, "", "Fills that make up the order."),
    "instrument_name": Column(_LABEL, "", "Venue's name of the option."),
    "expiry": Column(Kind.TIME, "UTC", "Instant of expiry."),
    "strike": Column(_NUMBER, "USD", "Strike price."),
    "iv": Column(_NUMBER, "1/√year", "Implied volatility, decimal."),
    "delta": Column(_NUMBER, "venue's", "Venue's delta; missing where the venue gives none."),
    "gamma": Column(_NUMBER, "venue's", "Venue's gamma; unit differs between venues."),
    "vega": Column(_NUMBER, "venue's", "Venue's vega; unit differs between venues."),
    "theta": Column(_NUMBER, "venue's", "Venue's theta; unit differs between venues."),
    "open_interest": Column(_NUMBER, "contracts", "Open interest in the venue's contracts."),
    "underlying_price": Column(
        _NUMBER, "USD", "Price of the underlying that the venue quotes the option on."
    ),
}
