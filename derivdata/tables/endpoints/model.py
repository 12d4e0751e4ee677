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
"""Paths under it are the library's own, in addition to those of the API document."""


def allows(tier: str, needed: str) -> bool:
    """Return whether a key of `tier` may ask for what needs `needed`."""
    return TIERS.index(tier) >= TIERS.index(needed)


class ParamKind(StrEnum):
    """Spelling of a parameter on the wire."""

    TEXT = "text"
    LIST = "comma-separated text"
    INTEGER = "integer"
    NUMBER = "number"
    INSTANT = "ISO 8601 instant"
    MILLIS = "Unix milliseconds"
    DAYS = "whole days, such as 30d"


@dataclass(frozen=True)
class Param:
    """One parameter of an endpoint."""

    name: str
    kind: ParamKind
    doc: str
    required: bool = False
    default: str | float | None = None  # what the service assumes, as the document states it
    choices: tuple[str, ...] = ()  # values that are known
    documented: bool = True  # the document lists the choices: elsewhere a service may take others
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
    tier: str  # the lowest that may ask
    table: str  # that its fetcher returns
    doc: str
    params: tuple[Param, ...] = ()
    fresh_seconds: float = 60.0  # how long the cache answers while the window is not closed
    per_second: float | None = None  # requests that the service allows
    exclusive: tuple[tuple[str, str], ...] = ()  # pairs of parameters that may not stand together
    unit: str = ""  # of the figures, as an answer names it
    states_resolution: bool = False  # the document promises that an answer names the one it used
    # Of a local endpoint that shows a table's rows by venue: how they come to a resolution. "sampled" is the
    # newest row of each step at its end, "added" their sum; "single" rows have no resolution
    rows: Literal["", "sampled", "added", "single"] = ""

    @cached_property
    def local(self) -> bool:
        """True if the local service alone answers it: the API document does not have it."""
        return self.path.startswith(LOCAL)

    def matches(self, path: str) -> bool:
        """Return whether a concrete path is one of this endpoint's."""
        names = [field for _, field, _, _ in string.Formatter().parse(self.path) if field]
        if not names:
            return path == self.path
        head, _, tail = self.path.partition("{" + names[0] + "}")
        middle = path[len(head) : len(path) - len(tail)]
        return path.startswith(head) and path.endswith(tail) and bool(middle) and "/" not in middle

    def values(self, path: str) -> dict[str, str]:
        """Return the parameters that a concrete path of this endpoint holds, by name."""
        pairs = zip(self.path.split("/"), path.split("/"), strict=True)
        return {field[1:-1]: unquote(value) for field, value in pairs if field.startswith("{")}
