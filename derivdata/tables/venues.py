"""Facts about venues, dated: display name, kind, usual interval. The API states no kind; this is ours."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["VENUES", "VENUES_AS_OF", "Venue"]

VENUES_AS_OF = "2026-08-15"


class Venue(NamedTuple):
    """One venue: name shown to people, 'cex', 'dex' or 'other', and interval of BTC in hours.

    The interval is that of BTC on the table's date, None where it was not seen; it differs between
    symbols and over time, so it is a label for people and never an input to a computation.
    """

    display_name: str
    kind: str
    interval_hours: float | None


_CEX = "binance bybit okx bitget bingx gateio kucoin mexc huobi cryptocom phemex".split()
_OTHER = "coinbase coinbaseus kalshi qfex".split()
_DISPLAY = {
    "coinbase": "COINBASE INTL",
    "coinbaseus": "COINBASE US",
    "huobi": "HTX",
    "woofipro": "WOOFI",
    "zo": "01",
}
_INTERVALS: dict[float | None, list[str]] = {
    8.0: "aster binance bingx bitget bybit gateio grvt hibachi huobi kalshi kucoin mexc okx paradex phemex "
    "variational woofipro".split(),
    4.0: ["edgex"],
    1.0: "bluefin bullet coinbase coinbaseus cryptocom decibel ethereal extended hotstuff hyena hyperliquid "
    "lighter nado ondo pacifica phoenix reya risex txflow vest zo".split(),
    None: "kinetiq paragon qfex tradexyz".split(),
}


def _kind(slug: str) -> str:
    if slug in _CEX:
        return "cex"
    return "other" if slug in _OTHER else "dex"


VENUES: dict[str, Venue] = {
    slug: Venue(_DISPLAY.get(slug, slug.upper()), _kind(slug), hours)
    for slug, hours in sorted((s, h) for h, slugs in _INTERVALS.items() for s in slugs)
}
