"""Rate limits of each venue: the message names the limit and the remedy, and a ban is waited out."""

from __future__ import annotations

from typing import Any

import pytest

from derivdata.client.transport.adapter import KeylessReply
from derivdata.errors import DerivdataError, VenueError
from derivdata.sources.collect.session import VenueSession
from derivdata.sources.venues.registry import VENUES
from tests.collect.fakes import SimulatedClock
from tests.venues.test_read import ERRORS

_LIMIT_BODIES = {exchange: body for exchange, body, _, reason in ERRORS if reason == "limit"}
"""Body of each venue's rate-limit response; venues without one respond with HTTP 429 only."""
_NAMES = sorted({venue.exchange for venue in VENUES.values()})


class Replies:
    """A venue that gives some replies in turn, the last one again and again."""

    def __init__(self, *replies: KeylessReply) -> None:
        self._replies = list(replies)

    def send(self, *_: Any, **__: Any) -> KeylessReply:
        return self._replies.pop(0) if len(self._replies) > 1 else self._replies[0]

    def close(self) -> None:
        """Do nothing; requests needs the method."""


def _limit(exchange: str, seconds: int, *, of_status: bool) -> KeylessReply:
    """Return a response of a limit: HTTP 429, or the venue's own body with HTTP 200."""
    body = b"slow down" if of_status else _LIMIT_BODIES[exchange].encode()
    return KeylessReply(429 if of_status else 200, {"Retry-After": str(seconds)}, body)


def _session(exchange: str, clock: SimulatedClock, *replies: KeylessReply) -> tuple[VenueSession, Any]:
    session = VenueSession(VENUES[exchange], clock)
    session._http = Replies(*replies)  # type: ignore[assignment]
    requests = [e for e in VENUES[exchange].endpoints if e.method != "WS" and "{" not in e.path]
    return session, requests[0]


_CASES = [*((name, True) for name in _NAMES), *((name, False) for name in sorted(_LIMIT_BODIES))]


@pytest.mark.parametrize(("exchange", "of_status"), _CASES)
def test_rate_limit_error_names_venue_endpoint_limit_and_remedy(exchange: str, of_status: bool) -> None:
    reply = _limit(exchange, 86_400, of_status=of_status)
    session, endpoint = _session(exchange, SimulatedClock("2026-01-20T10:00"), reply)
    with pytest.raises(VenueError) as caught:
        session.request(endpoint)
    rate = 1 / VENUES[exchange].seconds(endpoint)
    text = str(caught.value)
    assert text.startswith(f"{exchange} {endpoint.place}: ")
    assert f"derivdata uses {rate:.3g} requests per second of its limit" in text
    assert f"now pauses for 86400 s; stop other programs that send requests to {exchange}" in text
    assert (caught.value.reason, caught.value.retryable) == ("limit", True)


@pytest.mark.parametrize(("exchange", "of_status"), _CASES)
def test_request_waits_for_the_end_of_a_ban(exchange: str, of_status: bool) -> None:
    clock = SimulatedClock("2026-01-20T10:00")
    since = clock.utc()
    session, endpoint = _session(
        exchange, clock, _limit(exchange, 1800, of_status=of_status), KeylessReply(200, {}, b"no JSON")
    )
    with pytest.raises(DerivdataError) as caught:
        session.request(endpoint)
    assert "JSON" in str(caught.value), "the second response was read"
    assert (clock.utc() - since).total_seconds() >= 1800
