"""The only outgoing HTTP: connection, key, cache, pace, retries, errors, answers.

Who answers is chosen once, by `connect`. Every answer then passes the same way: the cache, and below it the
key, the turn at the endpoint, the deadlines and the checks; above it the error map and the typed decode.
"""

from derivdata.client.transport.cache import cache_clear, cache_info
from derivdata.client.transport.connecting import connect, disconnect
from derivdata.client.transport.connection import Connection
from derivdata.client.transport.response import Response, notify, progress
from derivdata.client.transport.session import (
    SESSION,
    Answer,
    get,
    get_each,
    provenance,
    raw,
    unreadable,
)
from derivdata.support.times import asof

__all__ = [
    "SESSION",
    "Answer",
    "Connection",
    "Response",
    "asof",
    "cache_clear",
    "cache_info",
    "connect",
    "disconnect",
    "get",
    "get_each",
    "notify",
    "progress",
    "provenance",
    "raw",
    "unreadable",
]
