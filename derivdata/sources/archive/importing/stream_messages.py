"""Messages of WebSockets, one per line of a file: their envelopes, replies to requests, and books."""

from __future__ import annotations

import re
from typing import Any

from derivdata.sources.archive.importing.market_names import meaning_of

CHANGES = "messages with changes of a book are omitted: the whole books in the file are read"
"""Notice of a file whose books have changes after them."""

_FIELDS_OF_REPLIES = ("event", "op", "method", "ret_msg", "type", "result", "id")
"""Fields of replies to subscriptions, which have no rows; at least one is in each."""
_SUBSCRIPTIONS = (
    "subscribe", "subscribed", "SUBSCRIBE", "subscriptionResponse", "ping", "pong", "login", "auth"
)  # fmt: skip
"""Words of replies to requests: Hyperliquid's (2026) is ``{"channel": "subscriptionResponse", ...}``."""
_MAX_OF_REPLIES = 6
"""Fields of the largest reply without rows."""
_OF_RPC = frozenset({"jsonrpc", "id", "result", "usIn", "usOut", "usDiff", "testnet"})
"""Fields of a reply by JSON-RPC (Deribit API v2, 2026), whose result is the list of channels."""


def is_reply(message: dict[str, Any]) -> bool:
    """Return whether a message is the reply to a request, such as a subscription."""
    word = message.get("op", message.get("event", message.get("method", message.get("channel"))))
    if word in _SUBSCRIPTIONS:
        return True
    if {"jsonrpc", "result"} <= message.keys() <= _OF_RPC:
        channels = message["result"]
        return channels == [] or (
            isinstance(channels, list) and all(isinstance(channel, str) for channel in channels)
        )
    has_rows = any(isinstance(value, list | dict) and value for value in message.values())
    has_field = any(field in message for field in _FIELDS_OF_REPLIES)
    others = message.keys() - {*_FIELDS_OF_REPLIES}
    # A record may have an id, a type or an event next to its figures.
    is_record = any(meaning_of(field) not in (None, "time") for field in others)
    return has_field and not has_rows and not is_record and len(message) <= _MAX_OF_REPLIES


def unwrapped(message: dict[str, Any]) -> dict[str, Any]:
    """Return the content of a notification by JSON-RPC with its channel; other messages unchanged.

    Deribit API v2, 2026: ``{"jsonrpc": "2.0", "method": "subscription", "params": {"channel": "ticker...",
    "data": {...}}}``.
    """
    params = message.get("params")
    if message.get("method") != "subscription" or not isinstance(params, dict):
        return message
    content = params.get("data")
    if not isinstance(content, dict) or "channel" not in params:
        return message
    return {"channel": params["channel"], **content}


_WHOLE = frozenset({"snapshot", "partial"})
_CHANGED = frozenset({"delta", "update", "change"})
_SIDES = (("bid", ("bids", "b")), ("ask", ("asks", "a")))
_NAME_OF_BOOK = re.compile(r"(orderbook|book|depth|l2)", re.IGNORECASE)
_PARTIAL_BOOK = re.compile(r"\w+@depth(5|10|20)(@\d+ms)?")
"""Binance's streams of the best levels, whose messages have the fields of those of changes (2026)."""
_SYMBOLS = ("s", "symbol", "instId", "instrument_name")
_TIMES = ("ts", "timestamp", "T", "E")


def book_rows(message: dict[str, Any]) -> list[dict[str, Any]] | None:
    """Return the levels of a message that is a book, none for changes of one; None for other messages.

    Bybit (v5, ``orderbook.50.BTCUSDT``), Binance (``btcusdt@depth20``) and Deribit (``book.BTC-PERPETUAL``)
    send whole books and changes with the same fields. A word, or the name of the stream, distinguishes them.
    """
    content = message.get("data", message)
    if isinstance(content, list) and len(content) == 1:
        content = content[0]
    if not isinstance(content, dict):
        return None
    sides = {side: _first(content, names) for side, names in _SIDES}
    if not all(isinstance(levels, list) for levels in sides.values()):
        return None
    kind = _kind_of_book(message, content)
    if kind == "changes":
        return []
    if kind != "whole":
        return None
    symbol = _first(content, _SYMBOLS) or _first(_argument(message), _SYMBOLS)
    time = _first(content, _TIMES) or _first(message, _TIMES)
    rows = []
    for side, levels in sides.items():
        for number, level in enumerate(levels, 1):
            price, size = _price_and_size(level)
            rows.append(
                {
                    "symbol": symbol,
                    "time": time,
                    "side": side,
                    "level": number,
                    "price": price,
                    "size": size,
                }
            )
    return rows


def _kind_of_book(message: dict[str, Any], content: dict[str, Any]) -> str:
    """Return ``whole`` or ``changes`` for the message of a stream of books; empty for another message."""
    stream = str(message.get("stream", ""))
    if content.get("e") == "depthUpdate":
        return "whole" if _PARTIAL_BOOK.fullmatch(stream) else "changes"
    words = {message.get("type"), message.get("action"), content.get("type"), content.get("action")}
    name = message.get("topic") or message.get("channel") or _argument(message).get("channel") or ""
    if not _NAME_OF_BOOK.search(str(name)):
        return ""
    if words & _WHOLE:
        return "whole"
    return "changes" if words & _CHANGED else ""


def _argument(message: dict[str, Any]) -> dict[str, Any]:
    """Return the argument of a subscription that OKX repeats in each message."""
    argument = message.get("arg")
    return argument if isinstance(argument, dict) else {}


def _first(fields: dict[str, Any], names: tuple[str, ...]) -> Any:
    """Return the value of the first of some names that an object has; None without one."""
    return next((fields[name] for name in names if name in fields), None)


def _price_and_size(level: Any) -> tuple[Any, Any]:
    """Return the price and the size of a level; Deribit's begin with ``new``."""
    if not isinstance(level, list) or len(level) < 2:
        return None, None
    is_of_deribit = level[0] == "new" and len(level) == 3
    price, size = level[1:3] if is_of_deribit else level[:2]
    return price, size
