"""The API document as data: endpoints, parameters, tiers, limits.

They are in `definitions`, under the same names.
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
    """Return the endpoint of a concrete path, or None; an exact path is preferred to a template."""
    candidates = [endpoint for endpoint in ENDPOINTS if endpoint.matches(path)]
    return min(candidates, key=lambda endpoint: endpoint.path.count("{"), default=None)
