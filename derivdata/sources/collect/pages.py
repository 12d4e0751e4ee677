"""The pages of one history, asked one after the other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from derivdata.errors import SchemaError
from derivdata.sources.collect.session import VenueSession
from derivdata.sources.venues.endpoint import VenueEndpoint
from derivdata.sources.venues.paging import walk
from derivdata.sources.venues.record_types import Records

__all__ = ["pages"]

_MOST_PAGES = 20_000


def pages(
    session: VenueSession,
    endpoint: VenueEndpoint,
    first: int,
    last: int,
    given: Mapping[str, str],
    *,
    context: Mapping[str, Any] | None = None,
) -> Iterator[Records]:
    """Yield every page of a window [µs]; `given` are the parameters that do not change.

    Raises
    ------
    VenueError, NetworkError, SchemaError
        A page did not come, or not as expected; or the walk does not end.
    """
    steps = walk(endpoint.paging, first, last)
    params = next(steps)
    for _ in range(_MOST_PAGES):
        page, _, _ = session.ask(endpoint, {**params, **given}, context=context)
        yield page
        try:
            params = steps.send(page)
        except StopIteration:
            return
    raise SchemaError(f"{endpoint.exchange} {endpoint.place}: the walk does not end")
