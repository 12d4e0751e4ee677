"""Facts about venues, dated, and one dictionary of their names. The API states no kind; this is ours."""

from __future__ import annotations

import re
from typing import NamedTuple

from derivdata.arguments import typed

__all__ = ["VENUES", "VENUES_AS_OF", "Venue", "venue_slug"]

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

_NOT_IN_NAMES = re.compile(r"[^a-z0-9]+")
_ALIASES = {
    "htx": "huobi",
    "huobiglobal": "huobi",
    "gate": "gateio",
    "okex": "okx",
    "binancefutures": "binance",
    "binanceusdm": "binance",
    "binancecoinm": "binance",
    "kucoinfutures": "kucoin",
    "krakenfutures": "kraken",
    "coinbaseinternational": "coinbase",
    "cryptocomexchange": "cryptocom",
    **{_NOT_IN_NAMES.sub("", venue.display_name.lower()): slug for slug, venue in VENUES.items()},
}


@typed
def venue_slug(name: str) -> str:
    """Return the API's name of a venue for one of its other names.

    ``Binance`` is ``binance``, ``htx`` is ``huobi``, ``gate`` and ``Gate.io`` are ``gateio``. A venue that
    is not known comes back in lower case, without blanks around.
    """
    lower = name.strip().lower()
    squeezed = _NOT_IN_NAMES.sub("", lower)
    if squeezed in VENUES:
        return squeezed
    return _ALIASES.get(squeezed, lower)
