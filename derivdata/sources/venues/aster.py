"""Aster: Binance's shapes; ``fundingInfo`` names all symbols, and open interest is undocumented."""

from __future__ import annotations

from functools import partial

from derivdata.sources.venues import binance
from derivdata.sources.venues.endpoint import BOOK_TABLES, Paging, Socket, Stream, Venue, VenueEndpoint

_endpoint = partial(VenueEndpoint, "aster")

ENDPOINTS = (
    _endpoint("instruments", "GET", "/fapi/v1/exchangeInfo", (), binance.exchange_info, lists=True),
    _endpoint("intervals", "GET", "/fapi/v1/fundingInfo", (), binance.funding_info),
    _endpoint(
        "funding", "GET", "/fapi/v1/premiumIndex",
        ("funding_history", "markets_symbol_exchanges", "prices_history"), binance.premium_index,
        every=60,
    ),
    _endpoint(
        "tickers", "GET", "/fapi/v1/ticker/24hr", ("markets_symbol_exchanges", "prices_history"),
        binance.tickers, weight=40, every=300,
    ),
    _endpoint(
        "oi", "GET", "/fapi/v1/openInterest", ("oi_history",), binance.open_interest, symbol="symbol",
        every=300, largest=50, confirmed=False,
        note="not in the documentation; the 50 largest symbols every 5 minutes",
    ),
    _endpoint(
        "settlements", "GET", "/fapi/v1/fundingRate", ("funding_settlements",), binance.funding_rates,
        symbol="symbol", paging=Paging(limit=1000),
    ),
    _endpoint(
        "book", "GET", "/fapi/v1/depth", BOOK_TABLES, binance.depth,
        params={"limit": "500"}, symbol="symbol", weight=10,
    ),
    _endpoint("liquidations", "WS", "!forceOrder@arr", ("liquidations_fills",), binance.force_orders),
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
