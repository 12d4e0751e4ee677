"""From the text of a query to typed values, by the endpoint's own list of parameters."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any

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
"""Most that any whole number may ask for."""

_EPOCH = pd.Timestamp(0, tz="UTC").as_unit("us")
_SLUGS = ("exchange", "exchanges")
_OTHER_NAMES = ("/rwa/market-hours",)
"""Paths whose exchanges are not the venues of the API."""

_RETIRED = {"period": "range", "days": "range", "start_time": "start", "end_time": "end", "min_day": "start"}
"""Name of a parameter that the API retired on 21 July 2026, and the one that took its place."""

RETIRED_PATHS = {"/oi/coin": endpoints.OI_TIMESERIES.path, "/volume/coin": endpoints.VOLUME_TIMESERIES.path}


def given(endpoint: endpoints.Endpoint, pairs: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Pick the parameters of `endpoint` among those of a query; refuse doubled, empty and retired ones."""
    pairs = list(pairs)
    names = {p.name for p in endpoint.params if not p.in_path}
    for old, _ in pairs:
        if old not in names and _RETIRED.get(old) in names:
            raise bad_request(f"{old} was retired: use {_RETIRED[old]}")
    chosen = [(name, value) for name, value in pairs if name in names]
    for name, count in Counter(name for name, _ in chosen).items():
        if count > 1:
            raise bad_request(f"{name} is given {count} times: give it once")
    for name, value in chosen:
        if not value.strip():
            raise bad_request(f"{name} is empty: leave it out or give it a value")
    return dict(chosen)


def parse(
    endpoint: endpoints.Endpoint, texts: Mapping[str, str], exchanges: frozenset[str]
) -> dict[str, Any]:
    """Read every parameter of a query or path, or its default; refuse what cannot be read or is missing."""
    for one, other in endpoint.exclusive:
        if one in texts and other in texts:
            raise bad_request(f"{one} and {other} exclude each other: give one of them")
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
    """Return the venue or venues as given, all of which are known; ``all`` is None."""
    if value == ("all",):
        return None
    unknown = [slug for slug in ([value] if isinstance(value, str) else value) if slug not in exchanges]
    if unknown:
        is_slug = unknown[0] == unknown[0].lower()
        others = "dd.markets.exchanges() lists them" if is_slug else "slugs are lower case, like 'binance'"
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
        raise bad_request(f"{name}={text!r} is not an ISO 8601 instant such as 2026-01-31T08:00:00Z")
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
