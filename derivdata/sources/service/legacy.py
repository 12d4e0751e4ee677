"""Names that the API retires on 21 July 2026: taken with a warning before, refused from then on."""

from __future__ import annotations

from collections.abc import Iterable
from email.utils import format_datetime

import pandas as pd

from derivdata.sources.service.refusal import DOCS, Refusal, bad_request
from derivdata.tables import endpoints

__all__ = ["PARAMETERS", "PATHS", "SUNSET", "modern", "moved"]

SUNSET = pd.Timestamp("2026-07-21", tz="UTC")
PARAMETERS = {
    "period": "range",
    "days": "range",
    "start_time": "start",
    "end_time": "end",
    "min_day": "start",
}
"""Old name of a parameter to the one of today."""

PATHS = {"/oi/coin": endpoints.OI_TIMESERIES, "/volume/coin": endpoints.VOLUME_TIMESERIES}
"""Old path to the endpoint that took its place; its symbol was the parameter ``coin``."""


def modern(
    endpoint: endpoints.Endpoint, pairs: Iterable[tuple[str, str]], now: pd.Timestamp
) -> tuple[list[tuple[str, str]], dict[str, str]]:
    """Put the pairs of a query under today's names, and warn in headers of those that were renamed.

    Raises
    ------
    Refusal
        Old names are no longer taken, or one is given together with its new name (400).
    """
    present = {p.name for p in endpoint.params}
    given = list(pairs)
    old = [name for name, _ in given if PARAMETERS.get(name) in present and name not in present]
    for name in old:
        if now >= SUNSET:
            raise bad_request(f"{name} was retired on {SUNSET:%Y-%m-%d}: use {PARAMETERS[name]}")
        if any(other == PARAMETERS[name] for other, _ in given):
            raise bad_request(f"{name} is the old name of {PARAMETERS[name]}: give that one alone")
    if not old:
        return given, {}
    renamed = []
    for name, value in given:
        is_number = name == "days" and value.isascii() and value.isdecimal()
        new = f"{value}d" if is_number else value  # days=7 has become range=7d
        renamed.append((PARAMETERS[name], new) if name in old else (name, value))
    text = ", ".join(f"{name} is deprecated: use {PARAMETERS[name]}" for name in old)
    return renamed, _headers(f'<{DOCS}>; rel="deprecation"') | {"Warning": f'299 - "{text}"'}


def moved(path: str, pairs: Iterable[tuple[str, str]], now: pd.Timestamp) -> tuple[str, dict[str, str]]:
    """Return the symbol that is requested under an old path, and headers that point to the new one.

    Raises
    ------
    Refusal
        The path is gone (410); there is no one symbol that can be read (400).
    """
    coins = [value for name, value in pairs if name == "coin"]
    canonical = _canonical(path, coins[0]) if len(coins) == 1 else None
    if now >= SUNSET:
        raise Refusal(410, f"{path} was retired on {SUNSET:%Y-%m-%d}: use {canonical or PATHS[path].path}")
    if len(coins) != 1:
        raise bad_request("coin is required, once")
    if canonical is None:
        raise bad_request(f"coin={coins[0]!r} is not a symbol")
    return coins[0], _headers(f'<{canonical}>; rel="successor-version"')


def _canonical(path: str, coin: str) -> str | None:
    """Return the path of today of a symbol, or None where it cannot be one."""
    try:
        return PATHS[path].request({"symbol": coin}).path
    except ValueError:
        return None


def _headers(link: str) -> dict[str, str]:
    sunset = format_datetime(SUNSET.to_pydatetime(), usegmt=True)
    return {"Deprecation": "true", "Sunset": sunset, "Link": link}
