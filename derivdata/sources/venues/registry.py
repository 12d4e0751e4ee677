"""The venues, each from its own file, in the order of the specification."""

from __future__ import annotations

from derivdata.sources.venues import (
    aster,
    backpack,
    binance,
    bingx,
    bitget,
    bitmex,
    bybit,
    cryptocom,
    deribit,
    derive,
    dydx,
    edgex,
    gateio,
    huobi,
    hyperliquid,
    kraken,
    kucoin,
    lighter,
    mexc,
    okx,
    paradex,
    phemex,
)
from derivdata.sources.venues.endpoint import Venue

VENUES: dict[str, Venue] = {
    venue.exchange: venue
    for venue in (
        binance.VENUE,
        bybit.VENUE,
        okx.VENUE,
        hyperliquid.VENUE,
        gateio.VENUE,
        bitget.VENUE,
        deribit.VENUE,
        lighter.VENUE,
        paradex.VENUE,
        aster.VENUE,
        kraken.VENUE,
        dydx.VENUE,
        kucoin.VENUE,
        mexc.VENUE,
        huobi.VENUE,
        derive.VENUE,
        bingx.VENUE,
        phemex.VENUE,
        bitmex.VENUE,
        cryptocom.VENUE,
        edgex.VENUE,
        backpack.VENUE,
        *hyperliquid.DEX_VENUES,
    )
}
"""The venues by slug, and after them the dexes of Hyperliquid, each a venue of its own."""
