"""Endpoints and parameters as data, and a request in canonical form."""

from __future__ import annotations

import string
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import Literal, NamedTuple
from urllib.parse import unquote

TIERS = ("free", "dev", "pro", "team")

LOCAL = "/local/"
"""Prefix of the library's own paths, which the API document does not have."""


def allows(tier: str, needed: str) -> bool:
    """Return whether a key of `tier` may use an endpoint that needs the tier `needed`."""
    return TIERS.index(tier) >= TIERS.index(needed)


class ParamKind(StrEnum):
    """Spelling of a parameter on the wire."""

    TEXT = "text"
    LIST = "comma-separated text"
    INTEGER = "integer"
    NUMBER = "number"
    INSTANT = "ISO 8601 time"
    MILLIS = "Unix milliseconds"
    DAYS = "whole days, such as 30d"


@dataclass(frozen=True)
class Param:
    """One parameter of an endpoint."""

    name: str
    kind: ParamKind
    doc: str
    required: bool = False
    default: str | float | None = None  # the service's default, by the document
    choices: tuple[str, ...] = ()  # known values
    documented: bool = True  # whether the document lists the choices; else a service may accept others
    in_path: bool = False  # a segment of the path instead of a part of the query


class Request(NamedTuple):
    """One request in canonical form: path, and query pairs sorted by name."""

    path: str
    query: tuple[tuple[str, str], ...]

    def __str__(self) -> str:
        pairs = "&".join(f"{name}={value}" for name, value in self.query)
        return f"{self.path}?{pairs}" if pairs else self.path


@dataclass(frozen=True)
class Endpoint:
    """One endpoint of the API document."""

    path: str  # ``{symbol}`` represents a parameter in the path
    tier: str  # the lowest tier that may use it
    table: str  # table that its fetcher returns
    doc: str
    params: tuple[Param, ...] = ()
    fresh_seconds: float = 60.0  # how long a cached response is used while the window is not closed
    per_second: float | None = None  # request rate that the service allows
    exclusive: tuple[tuple[str, str], ...] = ()  # pairs of parameters that exclude each other
    unit: str = ""  # unit of the figures, as in the response
    states_resolution: bool = False  # whether responses state the used resolution, by the document
    # For a local endpoint with the rows of a table by venue, how rows are brought to a resolution: "sampled"
    # is the newest row of each step at its end, "added" the sum; "single" rows are without a resolution
    rows: Literal["", "sampled", "added", "single"] = ""

    @cached_property
    def local(self) -> bool:
        """Whether only the local service has the endpoint, and the API document does not."""
        return self.path.startswith(LOCAL)

    def matches(self, path: str) -> bool:
        """Return whether a concrete path belongs to this endpoint."""
        names = [field for _, field, _, _ in string.Formatter().parse(self.path) if field]
        if not names:
            return path == self.path
        head, _, tail = self.path.partition("{" + names[0] + "}")
        middle = path[len(head) : len(path) - len(tail)]
        return path.startswith(head) and path.endswith(tail) and bool(middle) and "/" not in middle

    def values(self, path: str) -> dict[str, str]:
        """Return the parameters in a concrete path of this endpoint, by name."""
        pairs = zip(self.path.split("/"), path.split("/"), strict=True)
        return {field[1:-1]: unquote(value) for field, value in pairs if field.startswith("{")}
