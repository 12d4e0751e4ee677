"""A clock that a test moves, and connections with it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from derivdata.client.transport import Response
from derivdata.client.transport.connection import Connection
from derivdata.client.transport.response import error_of
from derivdata.client.transport.settings import ConnectionSettings, Limits, Secret, Timing, site

KEY = "k-5d0c5a2f-not-a-real-one"
HANGS_SECONDS = 300


@dataclass
class FakeTime:
    """Sleeping moves the clock; chance is always one half."""

    now: float = 1000.0
    slept: list[float] = field(default_factory=list)

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds

    @property
    def timing(self) -> Timing:
        return Timing(monotonic=lambda: self.now, sleep=self.sleep, chance=lambda: 0.5)


Open = Callable[..., Connection]


def checked(response: Response) -> Response:
    """Return a response of status 200, and raise the error of any other."""
    if response.status != 200:
        raise error_of(response)
    return response


@pytest.fixture
def fake() -> FakeTime:
    return FakeTime()


@pytest.fixture(autouse=True)
def _no_key_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))


class Joiners:
    """Counts the callers that wait for a request of another."""

    def __init__(self) -> None:
        self.change, self.number = threading.Condition(), 0

    def joined(self) -> None:
        with self.change:
            self.number += 1
            self.change.notify_all()

    def wait_for(self, number: int) -> None:
        """Return once so many in all have joined."""
        with self.change:
            assert self.change.wait_for(lambda: self.number >= number, HANGS_SECONDS)


@pytest.fixture
def joiners(monkeypatch: pytest.MonkeyPatch) -> Joiners:
    """Return the requests that join one in progress, from here on."""
    seen = Joiners()

    class Noted(Future):  # type: ignore[type-arg]
        def result(self, timeout: float | None = None) -> Any:
            seen.joined()
            return super().result(timeout)

    monkeypatch.setattr("derivdata.client.transport.network.Future", Noted)
    return seen


@pytest.fixture
def open_connection(tmp_path: Path, fake: FakeTime) -> Iterator[Open]:
    """Make a connection to a test's server, with the test's clock and limits."""
    made: list[Connection] = []

    def make(url: str, *, key: str | None = KEY, **rest: Any) -> Connection:
        rest.setdefault("timing", fake.timing)
        rest.setdefault("limits", Limits())
        settings = ConnectionSettings(scope=rest.pop("scope", url), folder=tmp_path / "cache", **rest)
        made.append(Connection(site(url), None if key is None else Secret(key), settings))
        return made[-1]

    yield make
    for connection in made:
        connection.close()
