"""The API document as data: endpoints, parameters, tiers, limits.

`definitions` has them all, by their names here.
"""

from __future__ import annotations

from functools import lru_cache

from derivdata.tables.endpoints.definitions import *
from derivdata.tables.endpoints.model import LOCAL, TIERS, Endpoint, Param, ParamKind, Request, allows

ENDPOINTS: tuple[Endpoint, ...] = tuple(value for value in globals().values() if isinstance(value, Endpoint))

__all__ = [
    "ENDPOINTS",
    "LOCAL",
    "TIERS",
    "Endpoint",
    "Param",
    "ParamKind",
    "Request",
    "allows",
    "endpoint_of",
]


@lru_cache(maxsize=1024)
def endpoint_of(path: str) -> Endpoint | None:
    """Return the endpoint that a concrete path belongs to, or None; an exact path wins over a template."""
    candidates = [endpoint for endpoint in ENDPOINTS if endpoint.matches(path)]
    return min(candidates, key=lambda endpoint: endpoint.path.count("{"), default=None)
