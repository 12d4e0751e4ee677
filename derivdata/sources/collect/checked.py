"""Results of `derivdata venues check`: which endpoints answered as expected on this machine, and when."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec

from derivdata.errors import ArchiveError
from derivdata.sources.collect.folders import data_folder
from derivdata.sources.venues.endpoint import VenueEndpoint
from derivdata.support.files import replace_file

__all__ = ["checked_on", "is_collected", "keep_checks"]

_NAME = "venues-checked.json"


def _file() -> Path:
    return data_folder() / _NAME


def checked_on() -> dict[str, str]:
    """Return the day on which each endpoint was last confirmed, by "exchange path"; none if never."""
    try:
        days: dict[str, str] = msgspec.json.decode(_file().read_bytes(), type=dict[str, str])
    except (OSError, ArchiveError, msgspec.DecodeError):
        return {}  # a damaged file confirms nothing, nor does a user without a home folder
    return days


def is_collected(endpoint: VenueEndpoint, *, unconfirmed: bool) -> bool:
    """Return whether to ask an endpoint: one confirmed by the specification or here, or any if requested."""
    return endpoint.confirmed or unconfirmed or f"{endpoint.exchange} {endpoint.path}" in checked_on()


def keep_checks(confirmed: Mapping[str, str], contradicted: list[str]) -> None:
    """Remember endpoints that were confirmed, and forget those that were contradicted."""
    days = {**checked_on(), **confirmed}
    for name in contradicted:
        days.pop(name, None)
    path = _file()
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_file(path, msgspec.json.encode(days, order="sorted"))
