"""Results of `derivdata venues check`: which endpoints answered as expected on this machine, and when."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import msgspec
from platformdirs import user_data_path

from derivdata.venues.endpoint import Endpoint

__all__ = ["checked_on", "is_collected", "keep_checks"]

_NAME = "venues-checked.json"


def _file() -> Path:
    folder = os.environ.get("DERIVDATA_DATA_DIR")
    return (Path(folder) if folder else user_data_path("derivdata")) / _NAME


def checked_on() -> dict[str, str]:
    """Return the day on which each endpoint was last confirmed, by "exchange path"; none if never."""
    try:
        days: dict[str, str] = msgspec.json.decode(_file().read_bytes(), type=dict[str, str])
    except (OSError, RuntimeError, msgspec.DecodeError):
        return {}  # a damaged file confirms nothing, nor does a user without a home folder
    return days


def is_collected(endpoint: Endpoint, *, unconfirmed: bool) -> bool:
    """Whether an endpoint is asked: confirmed by the specification, on this machine, or wanted anyway."""
    return endpoint.confirmed or unconfirmed or f"{endpoint.exchange} {endpoint.path}" in checked_on()


def keep_checks(confirmed: Mapping[str, str], contradicted: list[str]) -> None:
    """Remember endpoints that were confirmed, and forget those that were contradicted."""
    days = {**checked_on(), **confirmed}
    for name in contradicted:
        days.pop(name, None)
    path = _file()
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_suffix(".new")
    draft.write_bytes(msgspec.json.encode(days, order="sorted"))
    draft.replace(path)
