"""The only outgoing HTTP: connection, key, cache, pace, retries, errors, answers.

Who answers is chosen once, by `connect`. Every answer then passes the same way: the cache, and below it the
key, the turn at the endpoint, the deadlines and the checks; above it the error map and the typed decode.
"""

from __future__ import annotations

from derivdata.times import asof
from derivdata.transport.answers import Answer, get, get_each, part, parts, raw
from derivdata.transport.connecting import (
    Starter,
    at_disconnect,
    connect,
    current,
    disconnect,
    holds_key,
    set_starter,
)
from derivdata.transport.connection import Connection, Local
from derivdata.transport.notices import notify
from derivdata.transport.served import Observer, Responder, Served, replaying, set_observer, set_responder
from derivdata.transport.tabulating import provenance, tabulate
from derivdata.transport.upkeep import CacheInfo, cache_clear, cache_info

__all__ = [
    "Answer",
    "CacheInfo",
    "Connection",
    "Local",
    "Observer",
    "Responder",
    "Served",
    "Starter",
    "asof",
    "at_disconnect",
    "cache_clear",
    "cache_info",
    "connect",
    "current",
    "disconnect",
    "get",
    "get_each",
    "holds_key",
    "notify",
    "part",
    "parts",
    "provenance",
    "raw",
    "replaying",
    "set_observer",
    "set_responder",
    "set_starter",
    "tabulate",
]
