"""All venues with their streams, and a summary of their data.

Streams begin with the complete state of each contract; frames of bybit, dydx and edgex then have changed
fields only. Addresses and messages come from the venues' public pages; none was verified live.

Cadence, history and limits follow from the endpoints. Units and completeness are not part of endpoints; they
are listed here from the venues' documentation. Bodies with sources and dates confirm the units of rates,
payments, liquidations, options and open interest, except the open interest of aster and phemex
(docs/development/evidence.md; a test checks this).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import chain

import msgspec
import pandas as pd

from derivdata.sources.venues import (
    apex,
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
from derivdata.sources.venues.endpoint import Socket, Stream, Venue, VenueEndpoint
from derivdata.sources.venues.hyperliquid import DEX_VENUES
from derivdata.tables.venue_facts import fact_value

_VENUES = (
    binance.VENUE, bybit.VENUE, okx.VENUE, hyperliquid.VENUE, gateio.VENUE, bitget.VENUE, deribit.VENUE,
    lighter.VENUE, paradex.VENUE, binance.ASTER, kraken.VENUE, dydx.VENUE, kucoin.VENUE, mexc.VENUE,
    huobi.VENUE, derive.VENUE, bingx.VENUE, phemex.VENUE, bitmex.VENUE, cryptocom.VENUE, edgex.VENUE,
    backpack.VENUE, coinbase.VENUE, variational.VENUE, extended.VENUE, grvt.VENUE, nado.VENUE,
    pacifica.VENUE, woofipro.VENUE, ethereal.VENUE, apex.VENUE,
    *hyperliquid.DEX_VENUES,
)  # fmt: skip
VENUES: dict[str, Venue] = {venue.exchange: venue for venue in _VENUES}
"""The venues by slug, followed by the dexes of Hyperliquid that are venues."""


_TOPICS = 100
"""Maximum number of contracts per subscription message."""


def _message(**fields: object) -> str:
    return msgspec.json.encode(fields).decode()


def _of_contracts(
    address: str,
    message: Callable[[list[str]], str],
    *,
    topics: int = _TOPICS,
    largest: int = 0,
    of_connection: int = 0,
) -> Callable[[Sequence[str], int], list[Socket]]:
    """Return a function for the connections to a channel that is subscribed to by contract.

    A message has at most `topics` contracts and `largest` bytes, a connection `of_connection` contracts; 0
    means unlimited.
    """

    def messages(names: Sequence[str]) -> list[str]:
        text = message(list(names))
        half = len(names) // 2
        if half and 0 < largest < len(text.encode()):
            return messages(names[:half]) + messages(names[half:])
        return [text]

    def connections(names: Sequence[str], _: int) -> list[Socket]:
        sockets = []
        for of_socket in _batches(names, of_connection or max(len(names), 1)):
            batches = _batches(of_socket, topics)
            sockets.append(Socket(address, list(chain.from_iterable(map(messages, batches)))))
        return sockets

    return connections


def _batches(names: Sequence[str], size: int) -> list[Sequence[str]]:
    return [names[start : start + size] for start in range(0, len(names), size)]


def _of_all(address: str, *messages: str) -> Callable[[Sequence[str], int], list[Socket]]:
    """Return a function for the connection to a channel with every contract."""
    return lambda *_: [Socket(address, [*messages])]


def _marks(address: str) -> Stream:
    channel = "!markPrice@arr@1s"
    return Stream(channel, _of_all(f"{address}/{channel}"), b"markPriceUpdate")


_OKX_CHANNELS = 480
"""Channels of a connection: it accepts 480 subscriptions an hour, and the venue does not say whether each
channel of a request counts. Each connection subscribes once; other contracts are a new connection."""


def _okx(channel: str) -> Stream:
    def message(names: list[str]) -> str:
        return _message(op="subscribe", args=[{"channel": channel, "instId": name} for name in names])

    connections = _of_contracts("wss://ws.okx.com:8443/ws/v5/public", message, of_connection=_OKX_CHANNELS)
    return Stream(channel, connections, b'"data"')


def _limit(venue: str, fact: str) -> int:
    """Return a limit of a venue's streams from its facts, 0 if unknown."""
    return int(fact_value(venue, fact) or 0)


def _bitget(names: list[str]) -> str:
    kinds = {"T": "USDT-FUTURES", "P": "USDC-FUTURES"}  # names end in USDT or PERP
    args = []
    for name in names:
        kind = kinds.get(name[-1], "COIN-FUTURES")
        args.append({"instType": kind, "channel": "ticker", "instId": name})
    return _message(op="subscribe", args=args)


def _gate(names: Sequence[str], now: int) -> list[Socket]:
    """Return a connection for each settle currency of the contracts."""

    def message(names: list[str]) -> str:
        return _message(time=now, channel="futures.tickers", event="subscribe", payload=names)

    sockets = []
    for settle, end in (("usdt", "_USDT"), ("btc", "_USD"), ("usd1", "_USD1")):
        settled = [name for name in names if name.endswith(end)]
        if settled:
            connections = _of_contracts(f"wss://fx-ws.gateio.ws/v4/ws/{settle}", message)
            sockets += connections(settled, now)
    return sockets


def _kraken(names: list[str]) -> str:
    return _message(event="subscribe", feed="ticker", product_ids=names)


def _deribit(names: list[str]) -> str:
    channels = [f"ticker.{name}.agg2" for name in names]
    return _message(jsonrpc="2.0", method="public/subscribe", params={"channels": channels}, id=1)


def _derive(names: list[str]) -> str:
    return _message(method="subscribe", params={"channels": [f"ticker_slim.{n}.1000" for n in names]}, id=1)


_DYDX = _message(type="subscribe", channel="v4_markets")
_EDGEX = _message(type="subscribe", channel="ticker.all.1s")
_EDGEX_SOCKET = "wss://edgex-quote-prod-v2.edgex.exchange/api/v1/public/ws"
# One frame every 13.6 s (capture of 2026-09); `activeAssetCtx` of a coin arrives every second.
_HYPERLIQUID = _message(method="subscribe", subscription={"type": "allDexsAssetCtxs"})
_LIGHTER = _message(type="subscribe", channel="market_stats/all")

STATE_STREAMS: dict[str, tuple[Stream, ...]] = {
    "binance": (_marks("wss://fstream.binance.com/market/ws"),),
    "aster": (_marks("wss://fstream.asterdex.com/ws"),),
    "gateio": (Stream("futures.tickers", _gate, b'"event":"update"'),),
    "bitget": (
        Stream(
            "ticker",
            _of_contracts(
                "wss://ws.bitget.com/v2/ws/public",
                _bitget,
                # Limit of v2; v3 allows 20 topics a message.
                largest=_limit("bitget", "stream_message_bytes"),
                of_connection=_limit("bitget", "stream_channels"),
            ),
            b'"data"',
        ),
    ),
    "okx": (_okx("funding-rate"), _okx("open-interest")),
    "hyperliquid": (
        Stream("allDexsAssetCtxs", _of_all("wss://api.hyperliquid.xyz/ws", _HYPERLIQUID), b'"ctxs"'),
    ),
    "bybit": (Stream("tickers.{symbol}", partial(bybit.connections, "tickers"), b'"topic"'),),
    "deribit": (
        Stream(
            "ticker.{instrument_name}.agg2",
            _of_contracts(
                "wss://www.deribit.com/ws/api/v2",
                _deribit,
                largest=_limit("deribit", "stream_message_bytes"),
            ),
            b'"subscription"',
        ),
    ),
    "derive": (
        Stream(
            "ticker_slim.{instrument_name}.{interval}",
            _of_contracts("wss://api.derive.xyz/v3/ws", _derive),
            b'"instrument_ticker"',
        ),
    ),
    "dydx": (Stream("v4_markets", _of_all("wss://indexer.dydx.trade/v4/ws", _DYDX), b'"contents"'),),
    "edgex": (Stream("ticker.all.1s", _of_all(_EDGEX_SOCKET, _EDGEX), b'"quote-event"', edgex.answer),),
    "lighter": (
        Stream("market_stats/all", _of_all(lighter.SOCKET, _LIGHTER), b'"market_stats"', lighter.answer),
    ),
    "kraken": (
        Stream("ticker", _of_contracts("wss://futures.kraken.com/ws/v1", _kraken), b'"funding_rate"'),
    ),
}
"""Streams of states by venue."""


_OTHERS = ""
_HOURLY = "fraction of an hour"
_PAID = {
    **dict.fromkeys(("deribit", "hyperliquid", "derive", "dydx", "kraken", "cryptocom"), _HOURLY),
    **dict.fromkeys(("extended", "pacifica", "ethereal", "apex"), _HOURLY),
    "grvt": "percentage points of the interval",
    "nado": "fraction of an hour, times 1e18",
    "paradex": "fraction of the market's funding period",
    "lighter": "percent of an hour, with the sign in another field",
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
    """Return one row per venue and table with a collector's coverage.

    Parameters
    ----------
    venues
        Slugs.
    verified
        Date of the last comparison of an endpoint with a live response, by "exchange path".
    unconfirmed
        Whether to include endpoints that neither the specification nor a live response confirms.

    Returns
    -------
    DataFrame
        ``exchange``, ``table``, ``unit`` (of the venue; the library's tables have their own), ``cadence``,
        ``history`` (how far back the venue responds), ``limit`` (maximum weight per second, a quarter of the
        published limit; with that of past requests if it differs), ``completeness``, and ``verified_on``
        (empty: never on this machine).
    """
    rows = []
    for slug in venues:
        venue = VENUES[slug]
        endpoints = []
        for endpoint in venue.endpoints:
            is_usable = endpoint.confirmed or unconfirmed or f"{slug} {endpoint.path}" in verified
            if is_usable and (endpoint.method != "WS" or _is_listened_to(venue, endpoint)):
                endpoints.append(endpoint)
        for table in _UNITS:
            filling = [endpoint for endpoint in endpoints if table in endpoint.tables]
            if filling:
                rows.append(_row(venue, table, filling, verified))
    return pd.DataFrame(rows)


def _row(
    venue: Venue, table: str, endpoints: Sequence[VenueEndpoint], verified: Mapping[str, str]
) -> dict[str, str]:
    """Return the row of a venue and table; `verified` has the day of the last check of each endpoint."""
    days = sorted(verified.get(f"{e.exchange} {e.path}", "") for e in endpoints)
    documented = "hyperliquid" if venue in DEX_VENUES else venue.exchange
    units = _UNITS[table]
    if table == "liquidations_fills":
        completeness = _COMPLETENESS.get(documented, "all")
    elif table == "funding_settlements":
        completeness = _of_one(endpoints) or "all payments"
    else:
        completeness = _of_one(endpoints) or "the polled states"
    return {
        "exchange": venue.exchange,
        "table": table,
        "unit": units.get(documented, units[_OTHERS]),
        "cadence": _cadence(venue, endpoints),
        "history": _history(endpoints),
        "limit": _history_limit(venue, endpoints),
        "completeness": completeness,
        "verified_on": days[0],  # the oldest date, which is "" until every endpoint was checked
    }


def _is_listened_to(venue: Venue, endpoint: VenueEndpoint) -> bool:
    """Return whether a collector subscribes to a channel; others can only be read."""
    stream = venue.stream
    return stream is not None and stream.is_default and endpoint.path == stream.channel


def _history_limit(venue: Venue, endpoints: Sequence[VenueEndpoint]) -> str:
    """Describe the weight per second of each limit; a separate one next to polls is that of the history."""
    is_polled = any(e.every is not None for e in endpoints)
    limits = []
    for pool in sorted({e.pool for e in endpoints}):
        budget = venue.pools[pool] if pool else venue.budget
        text = f"{budget:.2g} a second"
        if is_polled and pool:
            text = f"its history {text}"
        limits.append(text)
    return "; ".join(limits)


def _of_one(endpoints: Sequence[VenueEndpoint]) -> str:
    """Describe the completeness of a state with one request per contract; "" for other states."""
    largest = [endpoint.largest for endpoint in endpoints if endpoint.is_of_one]
    if not largest:
        return ""
    which = f"of the {max(largest)} contracts with the most volume" if all(largest) else "of every symbol"
    return f"the polled states, {which}, one per request"


def _cadence(venue: Venue, endpoints: Sequence[VenueEndpoint]) -> str:
    """Describe how often a collector requests a table; without polls, histories are refilled every hour."""
    if endpoints[0].what == "book":
        return "every 60 s, of chosen symbols"
    if any(_is_listened_to(venue, e) for e in endpoints):
        return "as they come"
    seconds = [e.every for e in endpoints if e.every is not None]
    return f"every {min(seconds):g} s" if seconds else "every hour"


def _history(endpoints: Sequence[VenueEndpoint]) -> str:
    """Describe how far back the requests of a table reach."""
    reaches = [e.paging.reach_days for e in endpoints if e.paging is not None]
    if not reaches:
        return "none"
    days = [reach for reach in reaches if reach is not None]
    return "since the listing" if len(days) < len(reaches) else f"{max(days):g} days"
