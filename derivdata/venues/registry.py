"""The venues, each from its own file, in the order of the specification."""

from __future__ import annotations

from derivdata.venues import (
    aster,
    binance,
    bitget,
    bybit,
    deribit,
    derive,
    dydx,
    gateio,
    huobi,
    hyperliquid,
    kraken,
    kucoin,
    lighter,
    mexc,
    okx,
    paradex,
)
from derivdata.venues.endpoint import Venue

__all__ = ["DEXES", "VENUES", "slug_of"]

VENUES: dict[str, Venue] = {
    module.VENUE.exchange: module.VENUE
    for module in (
        binance,
        bybit,
        okx,
        hyperliquid,
        gateio,
        bitget,
        deribit,
        lighter,
        paradex,
        aster,
        kraken,
        dydx,
        kucoin,
        mexc,
        huobi,
        derive,
    )
}

DEXES = {"tradexyz": "xyz", "hyena": "hyna", "kinetiq": "km", "paragon": "para"}
"""Dexes of Hyperliquid that are venues of their own: slug to the dex's name, inferred from names."""


def slug_of(exchange: str) -> str:
    """Return the venue that answers for a slug: Hyperliquid for its dexes.

    Raises
    ------
    ValueError
        There is no such venue.
    """
    slug = "hyperliquid" if exchange in DEXES else exchange
    if slug not in VENUES:
        raise ValueError(f"exchange={exchange!r} is not one of {', '.join([*VENUES, *DEXES])}")
    return slug
