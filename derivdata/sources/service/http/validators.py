"""Validators of responses: entity tags and times of change, and whether a client's copy is still current."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from email.utils import format_datetime
from typing import NamedTuple

import pandas as pd

from derivdata.sources.service.data.bounded_cache import BoundedCache

_ENTRY_BYTES = 512


class _Change(NamedTuple):
    tag: str
    at: pd.Timestamp  # the service's clock, in whole seconds
    is_dated: bool  # whether no other response of this resource has the same time


class Changes:
    """When the responses to each request changed last, by the service's clock; not locked.

    The times begin with the process. A time cannot tell two responses of one second apart: the second one is
    sent without it.
    """

    def __init__(self, limit: int = 16 << 20) -> None:
        self._changes: BoundedCache[_Change] = BoundedCache(
            limit, lambda key, _: _ENTRY_BYTES + len(str(key))
        )

    def headers(self, resource: Hashable, tag: str, now: pd.Timestamp) -> dict[str, str]:
        """Return ``ETag`` and ``Last-Modified`` of a response that has this tag now."""
        change = self._changes.get(resource)
        if change is None or change.tag != tag:
            second = now.floor("s")
            change = _Change(tag, second, is_dated=change is None or second > change.at)
            self._changes.put(resource, change)
        stated = {"ETag": tag}
        if change.is_dated:
            stated["Last-Modified"] = format_datetime(change.at.to_pydatetime(), usegmt=True)
        return stated


def is_current(asked: Mapping[str, str], stated: Mapping[str, str]) -> bool:
    """Return whether a request's conditions (RFC 9110, section 13) say that the client has this response.

    A time counts where it is the one that was sent, and only without tags.
    """
    tags = asked.get("If-None-Match")
    if tags is None:
        since = asked.get("If-Modified-Since")
        return since is not None and since == stated.get("Last-Modified")
    own = stated["ETag"].removeprefix("W/")
    return tags.strip() == "*" or own in (tag.strip().removeprefix("W/") for tag in tags.split(","))
