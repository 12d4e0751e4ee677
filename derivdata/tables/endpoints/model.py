"""Endpoints and parameters as data, and the canonical request that arguments become."""

from __future__ import annotations

import math
import re
import string
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from numbers import Integral, Real
from typing import Any, Literal, NamedTuple
from urllib.parse import quote, unquote

import pandas as pd

from derivdata.support import times
from derivdata.support.text import did_you_mean

TIERS = ("free", "dev", "pro", "team")

LOCAL = "/local/"
"""Paths under it are the library's own, beside those of the API document."""


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

    path: str  # ``{symbol}`` stands for a parameter in the path
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

    def request(self, params: Mapping[str, Any], *, strict: bool = True) -> Request:
        """Build the canonical request for `params`; None means not given.

        Unless `strict`, a value need not be among those that the document lists: the service judges it.
        """
        by_name = {p.name: p for p in self.params}
        unknown = sorted(set(params) - set(by_name))
        if unknown:
            raise ValueError(
                f"{self.path} has no parameter {unknown[0]!r}; it has {', '.join(by_name) or 'none'}"
                f"{did_you_mean(unknown[0], by_name)}"
            )
        texts: dict[str, str] = {}
        for name, value in ((n, v) for n, v in params.items() if v is not None):
            p = by_name[name]
            texts[name] = _WRITERS[p.kind](name, value)
            if strict and p.documented and p.choices and texts[name] not in p.choices:
                near = did_you_mean(texts[name], p.choices)
                raise ValueError(f"{name}={texts[name]!r} is not one of {', '.join(p.choices)}{near}")
        for p in self.params:
            if p.required and p.name not in texts:
                raise ValueError(f"{self.path} needs {p.name}")
        for one, other in self.exclusive:
            if one in texts and other in texts:
                raise ValueError(f"{self.path}: {one} and {other} exclude each other; give one of them")
        segments = {p.name: quote(texts.pop(p.name), safe="") for p in self.params if p.in_path}
        return Request(self.path.format(**segments), tuple(sorted(texts.items())))

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


_UNSENDABLE = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff]")
"""Control characters, and halves of surrogate pairs, which no encoding takes."""


def _text(name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{name} must be text, not {value!r}")
    if not value or value != value.strip() or _UNSENDABLE.search(value):
        raise ValueError(f"{name}={value!r} is empty or has spaces or control characters at its ends")
    return value


def _list(name: str, value: Any) -> str:
    if isinstance(value, str):
        value = value.split(",")
    elif not isinstance(value, Iterable):
        raise TypeError(f"{name} must be text or a list of texts, not {value!r}")
    items = [_text(name, item) for item in value]
    if not items:
        raise ValueError(f"{name} is an empty list; leave it out to ask for all")
    if any("," in item for item in items):
        raise ValueError(f"{name}: an item holds a comma: {items!r}")
    return ",".join(sorted(set(items)))


def _number(name: str, value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(f"{name} must be a number, not {value!r}")
    if not math.isfinite(value):
        raise ValueError(f"{name} must be finite, not {value!r}")
    return str(int(value)) if isinstance(value, Integral) else format(float(value), ".15g")


def _integer(name: str, value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise TypeError(f"{name} must be a whole number, not {value!r}")
    if value < 1:
        raise ValueError(f"{name} must be at least 1, not {value}")
    return str(int(value))


def _instant(name: str, value: Any) -> str:
    ready = isinstance(value, pd.Timestamp) and value.tz is not None and value.unit == "us"
    return times.iso(value if ready else times.instant(value, name))


def _millis(name: str, value: Any) -> str:
    return str((times.instant(value, name) - pd.Timestamp(0, tz="UTC")) // pd.Timedelta(1, "ms"))


def _days(name: str, value: Any) -> str:
    text = _text(name, value)
    if not (text.endswith("d") and text[:-1].isdecimal() and text[0] != "0"):
        raise ValueError(f"{name}={value!r} is not a number of days such as '30d'")
    return text


_WRITERS = {
    ParamKind.TEXT: _text,
    ParamKind.LIST: _list,
    ParamKind.INTEGER: _integer,
    ParamKind.NUMBER: _number,
    ParamKind.INSTANT: _instant,
    ParamKind.MILLIS: _millis,
    ParamKind.DAYS: _days,
}
