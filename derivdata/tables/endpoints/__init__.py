"""The API document as data: endpoints, parameters, tiers, limits.

Each family of endpoints has a module of its name, and every `Endpoint` that it defines is public here: a name
is written once, in the module of its family.
"""

from __future__ import annotations

from functools import lru_cache

from derivdata.tables.endpoints.builders import *
from derivdata.tables.endpoints.funding import *
from derivdata.tables.endpoints.hip3 import *
from derivdata.tables.endpoints.hip4 import *
from derivdata.tables.endpoints.liquidations import *
from derivdata.tables.endpoints.markets import *
from derivdata.tables.endpoints.model import LOCAL, TIERS, Endpoint, Param, ParamKind, Request, allows
from derivdata.tables.endpoints.oi import *
from derivdata.tables.endpoints.options import *
from derivdata.tables.endpoints.orderbook import *
from derivdata.tables.endpoints.prices import *
from derivdata.tables.endpoints.rwa import *
from derivdata.tables.endpoints.volume import *

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
