"""Fake venues without sockets, their clock, and an archive; a module defines `NOW` and `LAST`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from derivdata.sources.archive import Archive, open_archive
from derivdata.sources.collect.collector import Collector
from derivdata.sources.collect.histories import Backfilled, backfill
from tests.collect.direct import faked
from tests.collect.fakes import Fakes, SimulatedClock


@pytest.fixture
def clock(request: pytest.FixtureRequest) -> SimulatedClock:
    """Return a clock that starts at the module's `NOW` and advances with waits."""
    return SimulatedClock(getattr(request.module, "NOW", "2026-01-20T10:30:30"))


@pytest.fixture
def fakes(request: pytest.FixtureRequest, clock: SimulatedClock, monkeypatch: pytest.MonkeyPatch) -> Fakes:
    """Venues whose history ends a day after the clock's, or at the module's `LAST`."""
    last = getattr(request.module, "LAST", int(pd.Timestamp("2026-01-21", tz="UTC").timestamp()))
    return faked(last, clock, monkeypatch)


@pytest.fixture
def make_collector(archive: Archive, fakes: Fakes, clock: SimulatedClock) -> Callable[..., Collector]:
    """Make a collector of some venues into the archive, without histories unless symbols are named."""

    def collector(*venues: str, **options: Any) -> Collector:
        where = {"clock": clock, "addresses": fakes.addresses, "symbols": ()}
        return Collector(archive, venues=venues, **(where | options))

    return collector


@pytest.fixture
def fill(
    archive: Archive, fakes: Fakes, clock: SimulatedClock, request: pytest.FixtureRequest
) -> Callable[..., Backfilled]:
    """Fetch a table of some venues into the archive, of the module's `SYMBOLS`, `START` and `END`."""
    usual = {"symbols": ["BTC"], **{name.lower(): value for name, value in vars(request.module).items()}}

    def filled(table: str, *venues: str, **options: Any) -> Backfilled:
        about = [options.pop(name, usual.get(name)) for name in ("symbols", "start", "end")]
        where = {"clock": clock, "addresses": fakes.addresses}
        return backfill(archive, *about, venues=venues, names=[table], **where, **options)

    return filled


@pytest.fixture
def archive(tmp_path: Path) -> Archive:
    """An archive without rows."""
    return open_archive(tmp_path / "market")
