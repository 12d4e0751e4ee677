"""Aster: Binance's shapes; ``fundingInfo`` names all symbols, and open interest is undocumented."""

from __future__ import annotations

from functools import partial

from derivdata.sources.venues import binance
from derivdata.sources.venues.endpoint import (
    PRICE_TABLES,
    RATE_TABLES,
    Paging,
    Socket,
    Stream,
    Venue,
    VenueEndpoint,
)

_endpoint = partial(VenueEndpoint, "aster")

ENDPOINTS = (
    _endpoint("instruments", "/fapi/v1/exchangeInfo", binance.exchange_info, lists=True),
    _endpoint("intervals", "/fapi/v1/fundingInfo", binance.funding_info),
    _endpoint(
        "funding", "/fapi/v1/premiumIndex", binance.premium_index, tables=(*RATE_TABLES, *PRICE_TABLES),
        every=60,
    ),
    _endpoint("tickers", "/fapi/v1/ticker/24hr", binance.tickers, weight=40, every=300),
    _endpoint(
        "oi", "/fapi/v1/openInterest", binance.open_interest, symbol="symbol", every=300, largest=50,
        confirmed=False, note="not in the documentation; the 50 largest symbols every 5 minutes",
    ),
    _endpoint(
        "settlements", "/fapi/v1/fundingRate", binance.funding_rates, symbol="symbol",
        paging=Paging(limit=1000),
    ),
    _endpoint(
        "taker", "/fapi/v1/klines", binance.klines, params={"interval": "1h"}, symbol="symbol",
        paging=Paging(limit=1500), weight=10,
    ),
    _endpoint("book", "/fapi/v1/depth", binance.depth, params={"limit": "500"}, symbol="symbol", weight=10),
    _endpoint("funding", "!markPrice@arr@1s", binance.mark_frames, tables=binance.MARKED, method="WS"),
    _endpoint("liquidations", "!forceOrder@arr", binance.force_orders, method="WS"),
)  # fmt: skip

_SOCKET = "wss://fstream.asterdex.com/ws/!forceOrder@arr"

VENUE = Venue(
    "aster",
    "https://fapi.asterdex.com",
    ENDPOINTS,
    binance.refuse,
    budget=10.0,
    socket=_SOCKET,
    stream=Stream("!forceOrder@arr", lambda *_: [Socket(_SOCKET, [])], b"forceOrder"),
)
