"""Fake venues without sockets: requests of a session are served in this process."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from derivdata.client.transport.adapter import KeylessReply, Unreachable
from derivdata.errors import NetworkError
from derivdata.sources.collect.session import Clock
from tests.collect.fakes import Dropped, Fakes


class DirectSession:
    """Stands for `KeylessSession`."""

    fakes: Fakes
    wait: Callable[[float], bool]

    def __init__(self, headers: Mapping[str, str] | None = None) -> None:
        self.headers = dict(headers or {})

    def send(
        self,
        method: str,
        url: str,
        params: Mapping[str, str | list[str]],
        *,
        post: Mapping[str, Any] | None = None,
    ) -> KeylessReply:
        exchange, _, place = url.partition("://")[2].partition("/")[2].partition("/")
        for start, seconds in self.fakes.delays.items():
            if f"{exchange}/{place}".startswith(start):
                type(self).wait(seconds)
        try:
            answer = self.fakes.answer(exchange, f"/{place}", {**params, **(post or {})})
        except Dropped as dropped:
            if dropped.args == ("silence",):
                type(self).wait(10.0)
                raise Unreachable(f"/{exchange}/{place}", "it sent nothing for 10 s") from None
            raise NetworkError(f"/{exchange}/{place}", "no complete response: ConnectionError") from None
        return KeylessReply(answer.status, answer.headers, answer.body)

    def close(self) -> None:
        """Do nothing; requests needs the method."""


def connect_directly(fakes: Fakes, clock: Clock, patch: pytest.MonkeyPatch) -> None:
    """Connect every venue session to these fakes without sockets; disable fsync.

    An archive waits for it so that a power cut loses nothing, which no test of collecting makes.
    """
    patch.setattr("os.fsync", lambda handle: None)
    DirectSession.fakes, DirectSession.wait = fakes, clock.wait
    patch.setattr("derivdata.sources.collect.session.KeylessSession", DirectSession)


def faked(last: int, clock: Clock, patch: pytest.MonkeyPatch) -> Fakes:
    """Fake venues without sockets, whose history ends at a second."""
    fakes = Fakes(last, clock.utc)
    connect_directly(fakes, clock, patch)
    return fakes
