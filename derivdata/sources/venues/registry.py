"""The venues, each from its own file, in the order of the specification; and their streams of states.

Streams begin with the whole state of each contract; frames of bybit, dydx and edgex then tell only what
changed. Addresses and messages are those of the venues' public pages; none was verified live.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import msgspec

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
from derivdata.sources.venues.endpoint import Socket, Stream, Venue
from derivdata.tables.venue_facts import fact_value

_MODULES = (
    binance, bybit, okx, hyperliquid, gateio, bitget, deribit, lighter, paradex, aster, kraken,
    dydx, kucoin, mexc, huobi, derive, bingx, phemex, bitmex, cryptocom, edgex, backpack,
    coinbase, variational, extended, grvt, nado, pacifica, woofipro, ethereal, apex,
)  # fmt: skip
VENUES: dict[str, Venue] = {
    venue.exchange: venue for venue in (*(module.VENUE for module in _MODULES), *hyperliquid.DEX_VENUES)
}
"""The venues by slug, and after them the dexes of Hyperliquid, each a venue of its own."""


_TOPICS = 100
"""Contracts that one message subscribes to, at most."""


def _message(**parts: object) -> str:
    return msgspec.json.encode(parts).decode()


def _of_contracts(
    address: str,
    message: Callable[[list[str]], str],
    *,
    topics: int = _TOPICS,
    largest: int = 0,
    of_connection: int = 0,
) -> Callable[[Sequence[str], int], list[Socket]]:
    """Return the connections to a channel that is subscribed to by contract.

    A message has `topics` contracts and `largest` bytes at most, a connection `of_connection` contracts;
    0 means unlimited.
    """

    def messages(names: Sequence[str]) -> list[str]:
        text = message(list(names))
        half = len(names) // 2
        if half and 0 < largest < len(text.encode()):
            return messages(names[:half]) + messages(names[half:])
        return [text]

    def connections(names: Sequence[str], _: int) -> list[Socket]:
        sockets = []
        for part in _parts(names, of_connection or max(len(names), 1)):
            texts = [text for some in _parts(part, topics) for text in messages(some)]
            sockets.append(Socket(address, texts))
        return sockets

    return connections


def _parts(names: Sequence[str], size: int) -> list[Sequence[str]]:
    return [names[i : i + size] for i in range(0, len(names), size)]


def _of_all(address: str, *messages: str) -> Callable[[Sequence[str], int], list[Socket]]:
    """Return the connection to a channel that tells of every contract."""
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
    """Return a limit of a venue's streams from its facts, 0 where none is known."""
    return int(fact_value(venue, fact) or 0)


def _bitget(names: list[str]) -> str:
    kinds = {"T": "USDT-FUTURES", "P": "USDC-FUTURES"}  # USDT, PERP
    args = [
        {"instType": kinds.get(name[-1], "COIN-FUTURES"), "channel": "ticker", "instId": name}
        for name in names
    ]
    return _message(op="subscribe", args=args)


def _gate(names: Sequence[str], now: int) -> list[Socket]:
    """Return a connection for each settle currency of the contracts."""

    def message(part: list[str]) -> str:
        return _message(time=now, channel="futures.tickers", event="subscribe", payload=part)

    ends = {"usdt": "_USDT", "btc": "_USD", "usd1": "_USD1"}
    of = {settle: [name for name in names if name.endswith(end)] for settle, end in ends.items()}
    address = "wss://fx-ws.gateio.ws/v4/ws"
    return [one for s, n in of.items() if n for one in _of_contracts(f"{address}/{s}", message)(n, now)]


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
# A frame every 13.6 s (capture of 2026-09); `activeAssetCtx` of a coin comes each second
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
                largest=_limit("bitget", "stream_message_bytes"),  # of v2; v3 has 20 topics a message
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
"""By venue."""
