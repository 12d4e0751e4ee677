"""Simulations of the tests for blocks of pages that need a network: venues, and a bucket on S3."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from functools import partial
from typing import Any
from unittest import mock

import pandas as pd

from derivdata import collect
from derivdata.sources.collect import session
from derivdata.sources.collect import session as clocks
from derivdata.sources.venues.registry import VENUES

__all__ = ["bucket", "venues"]

_NOW, _LAST = "2026-01-20T10:30:30", "2026-01-21"


@contextlib.contextmanager
def venues() -> Iterator[None]:
    """Connect the commands to the venues of the tests, on a clock of 20 January 2026."""
    from tests.collect.fakes import Fakes, SimulatedClock

    class Clock(SimulatedClock):
        def stop_on(self, _: Any) -> None:
            """Do not change the signal handlers of the builder."""

    clock = Clock(_NOW)
    with Fakes(int(pd.Timestamp(_LAST, tz="UTC").timestamp()), clock.utc) as fakes:
        there: dict[str, Any] = {"addresses": fakes.addresses}
        real_session = session.VenueSession

        def asked(venue: Any, *rest: Any, **options: Any) -> Any:
            [name] = [name for name, known in VENUES.items() if known is venue]
            return real_session(venue, *rest, **{"address": fakes.addresses[name], **options})

        with (
            mock.patch.object(clocks, "MachineClock", return_value=clock),
            mock.patch.object(collect, "Collector", partial(collect.Collector, **there)),
            mock.patch.object(collect, "backfill", partial(collect.backfill, **there)),
            mock.patch.object(session, "VenueSession", asked),
            mock.patch.object(session, "keep_checks"),
        ):
            yield


@contextlib.contextmanager
def bucket() -> Iterator[None]:
    """Serve s3://bucket by moto on this machine."""
    import s3fs

    from tests.archive.stores import environment, s3_server

    with s3_server() as address, mock.patch.dict(os.environ, environment(address)):
        s3fs.S3FileSystem().mkdir("bucket")
        yield
