"""All outgoing HTTP: connection, API key, cache, rate limits, retries, errors and decoding.

`connect` selects the source. A request first looks in the cache. Below the cache, the adapter adds the key,
waits for the rate limit, applies the deadlines and checks the body. Above it, the status is mapped to an
exception and the body is decoded into a typed struct.
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
