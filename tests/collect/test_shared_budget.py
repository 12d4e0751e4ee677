"""Two sessions with one venue at once, a poll and a history: together within a quarter of its limit."""

from __future__ import annotations

import threading

import pandas as pd
import pytest

from derivdata.errors import VenueError
from derivdata.sources.collect.contracts import endpoints_for
from derivdata.sources.collect.session import Shared, VenueSession
from derivdata.sources.venues.endpoint import VenueEndpoint
from derivdata.sources.venues.registry import VENUES
from tests.collect.clocks import HANGS_SECONDS, EventClock
from tests.collect.direct import faked
from tests.collect.limits import used

AT = pd.Timestamp("2026-01-20T10:30:30", tz="UTC")
ASKED = {"mexc": {"symbol": "BTC_USDT"}, "dydx": {"ticker": "BTC-USD"}}
"""Venues whose budget is a quarter of a limit of requests, and what a page of payments is asked with."""
EACH = 30


def _ask(session: VenueSession, endpoint: VenueEndpoint, params: dict[str, str]) -> None:
    for _ in range(EACH):
        session.ask(endpoint, params)


@pytest.mark.parametrize("exchange", ASKED)
@pytest.mark.parametrize("is_shared", [True, False])
def test_a_poll_and_a_history_at_once_stay_within_a_quarter_of_the_limit(
    exchange: str, is_shared: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sessions that share nothing would together spend up to twice as much: the count can tell."""
    clock = EventClock(AT)
    fakes = faked(int(AT.timestamp()) + 3600, clock, monkeypatch)
    venue, shared = VENUES[exchange], Shared()
    polls, fills = (
        VenueSession(
            venue, clock, address=fakes.addresses[exchange], shared=shared if is_shared else Shared()
        )
        for _ in range(2)
    )
    state = next(e for e in venue.endpoints if e.every is not None)
    history = endpoints_for(venue, "settlements", unconfirmed=True)[0]
    other = threading.Thread(
        target=_ask, args=(fills, history, ASKED[exchange]), name="derivdata-history-test", daemon=True
    )
    other.start()
    _ask(polls, state, {})
    while other.is_alive():
        clock.wait(1.0)
    other.join(HANGS_SECONDS)
    first = [place for _, place, _, _ in fakes.log[:EACH]]
    assert len(fakes.log) == 2 * EACH
    assert len(set(first)) == 2, "both ask at once"
    assert (used(fakes.log)[exchange] <= 0.25) == is_shared


def test_a_venue_that_is_closed_for_longer_costs_no_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """The turn that was waited for is no trouble of the venue."""
    clock = EventClock(AT)
    fakes = faked(int(AT.timestamp()) + 3600, clock, monkeypatch)
    session = VenueSession(VENUES["mexc"], clock, address=fakes.addresses["mexc"])
    state = next(e for e in session.venue.endpoints if e.every is not None)
    session.ask(state)
    session.patience = 20.0
    session.shared.close_for(clock.utc(), 30.0)
    with pytest.raises(VenueError, match="not asked"):
        session.ask(state)
    assert session.patience == 20.0
