"""Summary of each venue's tables: units, cadence, history, limits and completeness.

Cadence, history and limits follow from the endpoints. The units and the completeness are facts of the venues
that no endpoint states: they are written here once, from the venues' documentation. Bodies with
sources and dates confirm the units of rates, payments, liquidations, options and open interest, except the
open interest of aster and phemex (docs/development/evidence.md; a test holds this).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pandas as pd

from derivdata.sources.venues.endpoint import Venue, VenueEndpoint
from derivdata.sources.venues.hyperliquid import DEX_VENUES
from derivdata.sources.venues.registry import VENUES

_OTHERS = ""
_HOURLY = "fraction of an hour"
_PAID = {
    **dict.fromkeys(("deribit", "hyperliquid", "derive", "dydx", "kraken", "cryptocom"), _HOURLY),
    **dict.fromkeys(("extended", "pacifica", "ethereal", "apex"), _HOURLY),
    "grvt": "percentage points of the interval",
    "nado": "fraction of an hour, times 1e18",
    "paradex": "fraction of the market's funding period",
    "lighter": "percent of an hour, the sign apart",
    _OTHERS: "fraction of the interval",
}
_UNITS: dict[str, Mapping[str, str]] = {
    "funding_history": {
        **_PAID,
        "deribit": "fraction of 8 hours, realised",
        "lighter": "fraction of 8 hours",
        "kraken": "USD of a contract and hour",
        "nado": "fraction of 24 hours",
        "variational": "fraction of a year",
    },
    "funding_settlements": _PAID,
    "oi_history": {
        "binance": "coins; inverse: contracts",
        "bybit": "USD and coins; of both sides before 2026-06",
        "okx": "USD",
        "deribit": "USD; linear: coins",
        "gateio": "contracts of one side; USD of both sides in its history",
        "lighter": "USD; by request: coins",
        "kraken": "coins; inverse: USD",
        "huobi": "USD of both sides; inverse: contracts of both sides",
        "kucoin": "contracts",
        "mexc": "contracts",
        "bingx": "USD",
        "bitmex": "contracts",
        "variational": "USD, of long and of short positions",
        "extended": "USD and coins",
        "nado": "USD and coins",
        "ethereal": "coins of both sides",
        _OTHERS: "coins",
    },
    "liquidations_fills": {
        "binance": "coins; inverse: contracts",
        "bybit": "coins; inverse: USD",
        "okx": "contracts",
        "deribit": "coins; inverse: USD",
        "gateio": "contracts",
        "huobi": "contracts and USD",
        "lighter": "coins and USD",
        "kraken": "coins; inverse: USD",
        _OTHERS: "coins",
    },
    "options_snapshot": {
        "deribit": "volatility in percent, prices in coins",
        "okx": "volatility as a fraction, prices in coins, contracts of 0.01 or 0.1 coins",
        _OTHERS: "volatility as a fraction, prices in USD",
    },
    "options_trades": {
        "deribit": "volatility in percent, prices in coins or USDC, sizes in coins",
        "okx": "volatility as a fraction, prices in coins, contracts of 0.01 or 0.1 coins",
        _OTHERS: "prices in USD, sizes in coins",
    },
    "delivery_prices": {_OTHERS: "USD"},
    "volatility_index_published": {_OTHERS: "percent"},
    "markets_symbol_exchanges": {_OTHERS: "USD, rolling 24 hours"},
    "prices_history": {_OTHERS: "USD"},
    "futures_history": {_OTHERS: "USD"},
    "positioning_history": {
        "okx": "ratio",
        "gateio": "ratios",
        "kraken": "numbers of accounts",
        _OTHERS: "shares",
    },
    "volume_taker": {
        "bitget": "coins",
        "gateio": "contracts",
        "kraken": "coins; inverse: USD",
        _OTHERS: "USD",
    },
    "orderbook_book": {_OTHERS: "USD, sizes in coins or contracts"},
    "orderbook_depth_history": {_OTHERS: "USD, sizes in coins or contracts"},
}
_COMPLETENESS = {
    "binance": "a sample: the newest of each symbol and second",
    "aster": "a sample: the newest of each symbol and second",
    "okx": "a sample: one of each contract and second at most",
    "bitget": "all of three days by request, late; the stream only the largest",
}


def coverage_of(venues: Sequence[str], verified: Mapping[str, str], *, unconfirmed: bool) -> pd.DataFrame:
    """Return one row per venue and table: what a collector gets of it.

    Parameters
    ----------
    venues
        Slugs.
    verified
        The day on which an endpoint was last compared with a live answer, by "exchange path".
    unconfirmed
        Whether endpoints count that the specification could not confirm and no check has.

    Returns
    -------
    DataFrame
        ``exchange``, ``table``, ``unit`` (as the venue states it; our tables have their own), ``cadence``,
        ``history`` (how far back the venue answers), ``limit`` (weight per second that is spent at most, a
        quarter of the published limit; that of requests for the past where it is another),
        ``completeness``, and ``verified_on`` (empty: never on this machine).
    """
    rows = []
    for slug in venues:
        venue = VENUES[slug]
        endpoints = [
            e for e in venue.endpoints if e.confirmed or unconfirmed or f"{slug} {e.path}" in verified
        ]
        endpoints = [e for e in endpoints if e.method != "WS" or _is_listened_to(venue, e)]
        by_table = {table: [e for e in endpoints if table in e.tables] for table in _UNITS}
        rows += [_row(venue, table, those, verified) for table, those in by_table.items() if those]
    return pd.DataFrame(rows)


def _row(
    venue: Venue, table: str, endpoints: Sequence[VenueEndpoint], verified: Mapping[str, str]
) -> dict[str, str]:
    days = sorted(verified.get(f"{e.exchange} {e.path}", "") for e in endpoints)
    documented = "hyperliquid" if venue in DEX_VENUES else venue.exchange
    units = _UNITS[table]
    sampled = "what was polled" if table != "funding_settlements" else "all payments"
    return {
        "exchange": venue.exchange,
        "table": table,
        "unit": units.get(documented, units[_OTHERS]),
        "cadence": _cadence(venue, endpoints),
        "history": _history(endpoints),
        "limit": _limit(venue, endpoints),
        "completeness": _COMPLETENESS.get(documented, "all")
        if table == "liquidations_fills"
        else _of_one(endpoints) or sampled,
        "verified_on": days[0],  # the oldest: "" as long as one endpoint was never checked
    }


def _is_listened_to(venue: Venue, endpoint: VenueEndpoint) -> bool:
    """Return whether a collector listens to a channel; others can only be read."""
    stream = venue.stream
    return stream is not None and stream.is_default and endpoint.path == stream.channel


def _limit(venue: Venue, endpoints: Sequence[VenueEndpoint]) -> str:
    polled = [e for e in endpoints if e.every is not None]
    pools = {e.pool for e in endpoints}
    limits = []
    for pool in sorted(pools):
        budget = venue.pools[pool] if pool else venue.budget
        limits.append(f"{'its history ' if polled and pool else ''}{budget:.2g} a second")
    return "; ".join(limits)


def _of_one(endpoints: Sequence[VenueEndpoint]) -> str:
    """Return how complete a state is that takes a request for each contract; "" of other states."""
    largest = [endpoint.largest for endpoint in endpoints if endpoint.is_of_one]
    if not largest:
        return ""
    which = f"of the {max(largest)} contracts with the most volume" if all(largest) else "of every symbol"
    return f"what was polled, {which}, one a request"


def _cadence(venue: Venue, endpoints: Sequence[VenueEndpoint]) -> str:
    if endpoints[0].what == "book":
        return "every 60 s, of chosen symbols"
    if any(_is_listened_to(venue, e) for e in endpoints):
        return "as they come"
    seconds = [e.every for e in endpoints if e.every is not None]
    return f"every {min(seconds):g} s" if seconds else "every hour"


def _history(endpoints: Sequence[VenueEndpoint]) -> str:
    reaches = [e.paging.reach_days for e in endpoints if e.paging is not None]
    if not reaches:
        return "none"
    days = [reach for reach in reaches if reach is not None]
    return "since the listing" if len(days) < len(reaches) else f"{max(days):g} days"
