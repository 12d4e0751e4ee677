"""Parse the parameters of a query or path to typed values, by the endpoint's list of parameters."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from email.utils import format_datetime
from typing import Any, NamedTuple

import pandas as pd

from derivdata.sources.service.refusal import bad_request
from derivdata.support import times
from derivdata.support.text import did_you_mean
from derivdata.tables import endpoints

_ISO = re.compile(
    r"\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d([.,]\d{1,9})?)?(Z|[+-]\d\d(:?\d\d)?)?)?", re.ASCII | re.IGNORECASE
)
_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d{1,3})?", re.ASCII)
LARGEST = 100_000
"""Maximum of every integer parameter."""

_EPOCH = pd.Timestamp(0, tz="UTC").as_unit("us")
_SLUGS = ("exchange", "exchanges")
_OTHER_NAMES = ("/rwa/market-hours",)
"""Paths whose exchanges are not the venues of the API."""

_LEGACY_NAMES = {
    "period": "range",
    "days": "range",
    "start_time": "start",
    "end_time": "end",
    "min_day": "start",
}
"""Legacy time parameter to its replacement."""

LEGACY_PATHS = {"/oi/coin": endpoints.OI_TIMESERIES, "/volume/coin": endpoints.VOLUME_TIMESERIES}
"""Legacy path, which takes the symbol as ``coin``, to the endpoint that replaces it."""

LEGACY_UNTIL = pd.Timestamp("2026-07-21", tz="UTC")
"""Legacy parameters and paths are accepted before this time (section 9 of the API document)."""


class Query(NamedTuple):
    """The parameters of a query by their current names, and the legacy names that it used."""

    texts: dict[str, str]
    legacy: list[str]


def given(endpoint: endpoints.Endpoint, pairs: Sequence[tuple[str, str]], now: pd.Timestamp) -> Query:
    """Return the parameters of `endpoint` in a query, legacy ones under their current names.

    Raises `Refusal`: a parameter is repeated or empty, or has a legacy name after `LEGACY_UNTIL`.
    """
    names = {p.name for p in endpoint.params if not p.in_path}
    current_pairs = [(name, value) for name, value in pairs if name in names]
    legacy: list[str] = []
    for name, value in pairs:
        current = _LEGACY_NAMES.get(name)
        if name in names or current not in names:
            continue
        if now >= LEGACY_UNTIL:
            raise bad_request(f"{name} was retired: use {current}")
        legacy.append(name)
        current_pairs.append((current, _as_range(value) if name == "days" else value))
    _require_single(current_pairs, legacy)
    return Query(dict(current_pairs), legacy)


def _as_range(days: str) -> str:
    """Return a legacy number of days as the text of `range`."""
    return f"{days}d" if days.isascii() and days.isdigit() else days


def _require_single(pairs: Sequence[tuple[str, str]], legacy: Sequence[str]) -> None:
    """Raise `Refusal` if a parameter is repeated or empty."""
    for name, count in Counter(name for name, _ in pairs).items():
        if count > 1:
            raise bad_request(f"{_as_sent(name, legacy)} is given {count} times: pass {name} once")
    for name, value in pairs:
        if not value.strip():
            raise bad_request(f"{name} is empty: omit it or set a value")


def _as_sent(name: str, legacy: Sequence[str]) -> str:
    """Return a parameter's name, with the legacy names in the query."""
    old = [alias for alias in dict.fromkeys(legacy) if _LEGACY_NAMES[alias] == name]
    return f"{name} (also as {', '.join(old)})" if old else name


def legacy_headers(names: Sequence[str]) -> dict[str, str]:
    """Return the headers of a response to a request that used legacy parameters."""
    if not names:
        return {}
    advice = "; ".join(f"use {_LEGACY_NAMES[name]} instead of {name}" for name in dict.fromkeys(names))
    return {**_sunset("/docs", "deprecation"), "Warning": f'299 - "{advice}"'}


def legacy_path_headers(successor: str) -> dict[str, str]:
    """Return the headers of a response under a legacy path."""
    return _sunset(successor, "successor-version")


def _sunset(target: str, relation: str) -> dict[str, str]:
    sunset = format_datetime(LEGACY_UNTIL.to_pydatetime(), usegmt=True)
    return {"Deprecation": "true", "Sunset": sunset, "Link": f'<{target}>; rel="{relation}"'}


def parse(
    endpoint: endpoints.Endpoint, texts: Mapping[str, str], exchanges: frozenset[str]
) -> dict[str, Any]:
    """Return the values of all parameters, with defaults; raise `Refusal` for invalid or missing ones."""
    for name, other in endpoint.exclusive:
        if name in texts and other in texts:
            raise bad_request(f"{name} and {other} exclude each other: pass one of them")
    values: dict[str, Any] = {}
    for p in endpoint.params:
        if p.name in texts:
            values[p.name] = value = _READERS[p.kind](p.name, texts[p.name])
            if p.choices and value not in p.choices:
                raise bad_request(f"{p.name}={texts[p.name]!r} is not one of {', '.join(p.choices)}")
            if p.name in _SLUGS and not p.in_path and endpoint.path not in _OTHER_NAMES:
                values[p.name] = _slugs(p.name, value, exchanges)
        elif p.required:
            raise bad_request(f"{p.name} is required")
        else:
            values[p.name] = p.default
    return values


def _slugs(name: str, value: str | tuple[str, ...], exchanges: frozenset[str]) -> Any:
    """Return the venue or venues; ``all`` is None. Raise `Refusal` for an unknown venue."""
    if value == ("all",):
        return None
    slugs = [value] if isinstance(value, str) else value
    unknown = [slug for slug in slugs if slug not in exchanges]
    if unknown:
        if unknown[0] == unknown[0].lower():
            others = "dd.markets.exchanges() lists them"
        else:
            others = "slugs are lower case, like 'binance'"
        near = did_you_mean(unknown[0], exchanges, f"; {others}")
        raise bad_request(f"{name}: {unknown[0]!r} is not an exchange of this source{near}")
    return value


def _list(name: str, text: str) -> tuple[str, ...]:
    items = text.split(",")
    if not all(item.strip() for item in items):
        raise bad_request(f"{name}={text!r} has an empty item: join values by single commas")
    return tuple(dict.fromkeys(items))


def _integer(name: str, text: str) -> int:
    if not re.fullmatch(r"\d{1,9}", text, re.ASCII) or not 1 <= int(text) <= LARGEST:
        raise bad_request(f"{name}={text!r} is not a whole number from 1 to {LARGEST}")
    return int(text)


def _number(name: str, text: str) -> float:
    value = float(text) if _NUMBER.fullmatch(text) else math.nan
    if not math.isfinite(value):
        raise bad_request(f"{name}={text!r} is not a number")
    return value


def _instant(name: str, text: str) -> pd.Timestamp:
    if not _ISO.fullmatch(text):
        raise bad_request(f"{name}={text!r} is not an ISO 8601 time such as 2026-01-31T08:00:00Z")
    try:
        return times.instant(text.replace(",", "."), name)
    except ValueError as problem:
        raise bad_request(str(problem)) from None


def _millis(name: str, text: str) -> pd.Timestamp:
    if not re.fullmatch(r"\d{1,13}", text, re.ASCII):
        raise bad_request(f"{name}={text!r} is not a Unix time in milliseconds")
    return _EPOCH + pd.Timedelta(int(text), "ms")


def _days(name: str, text: str) -> str:
    if not re.fullmatch(r"[1-9]\d{0,3}d", text, re.ASCII):
        raise bad_request(f"{name}={text!r} is not a number of days such as 30d")
    return text


_READERS: dict[endpoints.ParamKind, Callable[[str, str], Any]] = {
    endpoints.ParamKind.TEXT: lambda _, text: text,
    endpoints.ParamKind.LIST: _list,
    endpoints.ParamKind.INTEGER: _integer,
    endpoints.ParamKind.NUMBER: _number,
    endpoints.ParamKind.INSTANT: _instant,
    endpoints.ParamKind.MILLIS: _millis,
    endpoints.ParamKind.DAYS: _days,
}
