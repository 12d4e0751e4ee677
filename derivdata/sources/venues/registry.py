"""The venues, each from its own file, in the order of the specification."""

from __future__ import annotations

from derivdata.sources.venues import (
    apex,
    aster,
    backpack,
    binance,
    bingx,
    bitget,
    bitmex,
    bybit,
    coinbase,
    cryptocom,
    deribit,
    derive,
    dydx,
    edgex,
    ethereal,
    extended,
    gateio,
    grvt,
    huobi,
    hyperliquid,
    kraken,
    kucoin,
    lighter,
    mexc,
    nado,
    okx,
    pacifica,
    paradex,
    phemex,
    variational,
    woofipro,
)
from derivdata.sources.venues.endpoint import Venue

_MODULES = (
    binance, bybit, okx, hyperliquid, gateio, bitget, deribit, lighter, paradex, aster, kraken,
    dydx, kucoin, mexc, huobi, derive, bingx, phemex, bitmex, cryptocom, edgex, backpack,
    coinbase, variational, extended, grvt, nado, pacifica, woofipro, ethereal, apex,
)  # fmt: skip
VENUES: dict[str, Venue] = {
    venue.exchange: venue for venue in (*(module.VENUE for module in _MODULES), *hyperliquid.DEX_VENUES)
}
"""The venues by slug, and after them the dexes of Hyperliquid, each a venue of its own."""
