"""Histories are refilled in parallel with the minutes: a slow or dead venue delays neither a minute nor the
end.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import Any

import pandas as pd
import pytest

from derivdata.errors import ArchiveError, VenueError
from derivdata.sources.archive import Archive
from derivdata.sources.collect import collector as collecting
from derivdata.sources.collect.contracts import list_contracts
from derivdata.sources.collect.reporting import Minute
from derivdata.sources.collect.session import MachineClock, Shared, Stopped, VenueSession
from derivdata.sources.venues.registry import VENUES
from tests.collect.clocks import HANGS_SECONDS, EventClock, SimulatedClock
from tests.collect.direct import faked
from tests.collect.fakes import Fakes
from tests.support.threads import in_threads

NOW = "2026-01-20T11:02:00"
LAST = int(pd.Timestamp("2026-01-21", tz="UTC").timestamp())
TABLES = ["funding_history", "oi_history", "funding_settlements"]  # without sockets
BEFORE_THE_HOUR = pd.Timestamp("2026-01-20T10:58:30", tz="UTC")


@pytest.fixture
def refilling(make_collector: Any) -> Any:
    """Make a collector of some venues that refills BTC."""
    return partial(make_collector, names=TABLES, symbols=["BTC"])


@pytest.fixture
def threads(fakes: Fakes, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Venues that are requested by many threads, whose clock goes on when all wait."""
    clock = EventClock(BEFORE_THE_HOUR)
    asked: Any = faked(LAST, clock, monkeypatch)  # instead of those of a clock that stands
    asked.clock = clock
    return asked


@pytest.fixture
def collected(refilling: Any, threads: Any) -> Callable[..., list[Minute]]:
    """Return a function that collects for some minutes and returns the result of each."""

    def run(minutes: int, *venues: str, **options: Any) -> list[Minute]:
        results: list[Minute] = []

        def count(minute: Minute) -> None:
            results.append(minute)
            if len(results) == minutes:
                threads.clock.stop()

        refilling(*venues, clock=threads.clock, log=count, **options).run()
        return results

    return run


def test_slow_refill_does_not_delay_polls(collected: Any, threads: Fakes) -> None:
    threads.delays["bybit/v5/market/funding/history"] = 300.0
    result = collected(24, "bybit", "okx", symbols=["BTC", "ETH"])
    began = [minute.time.floor("min") for minute in result]
    assert [late - early for early, late in pairwise(began)] == [pd.Timedelta(60, "s")] * (len(result) - 1)
    assert all(minute.rows["funding_history"] == 4 for minute in result), "both venues, both contracts"
    requests = [at for exchange, place, _, at in threads.log if place.endswith("funding/history")]
    assert result[3].time < requests[0] < requests[1] < result[-1].time, "the refill was under way"
    counted = [minute.time for minute in result if minute.rows.get("funding_settlements")]
    assert counted[0] < requests[1] < counted[-1], "okx's is counted when it is done, and bybit's when it is"


def test_hanging_history_of_a_venue_does_not_delay_the_others(refilling, archive, fakes, clock) -> None:
    """Bybit blocks for an hour: okx is refilled, and with the next hour again, bybit not a second time."""
    held = fakes.held["bybit/v5/market/funding/history"] = threading.Event()
    collector = refilling("bybit", "okx")
    try:
        collector.refills.start_due(["bybit", "okx"])
        blocked, first = (collector.refills.workers[name] for name in ("bybit", "okx"))
        first.join(HANGS_SECONDS)
        assert _is_refilled(archive, "okx")
        assert blocked.is_alive()
        collector.refills.start_due(["bybit", "okx"])
        assert collector.refills.workers["okx"] is first, "once an hour"
        clock.wait(3600)
        collector.refills.start_due(["bybit", "okx"])
        assert collector.refills.workers["bybit"] is blocked
        slow = archive.requests().query("exchange == 'bybit' and not answered")
        assert set(slow["error"]) == {"the refill that started at 2026-01-20 11:00 is still running"}
        collector.refills.workers["okx"].join(HANGS_SECONDS)
        paid = archive.read("funding_settlements", BEFORE_THE_HOUR.floor("D"), BEFORE_THE_HOUR.ceil("D"))
        assert set(paid["exchange"]) == {"okx"}
        assert not _is_refilled(archive, "bybit")
    finally:
        held.set()
    blocked.join(HANGS_SECONDS)
    assert _is_refilled(archive, "bybit"), "it goes on where it was"


def _is_refilled(archive: Archive, exchange: str) -> bool:
    ledger = archive.requests()
    mine = ledger[(ledger["exchange"] == exchange) & (ledger["symbol"] == "BTC") & ledger["answered"]]
    return set(mine["table"]) >= {"funding_settlements"}


def test_finished_refill_is_counted_and_the_next_starts_at_the_hour(collected, archive, threads) -> None:
    result = collected(6, "hyperliquid")
    written = [
        (f"{m.time:%H:%M}", m.rows["funding_settlements"]) for m in result if "funding_settlements" in m.rows
    ]
    assert written == [("11:00", 7 * 24 + 1), ("11:03", 1)], "a week with both its ends, then one hour"
    hour = pd.Timestamp("2026-01-20T11:00:00", tz="UTC")
    paid = archive.read("funding_settlements", hour, hour + pd.Timedelta(1, "h"))
    assert paid["time"].tolist() == [hour], "the payment of the hour itself, three minutes after it"
    sent = sorted(at for *_, at in threads.log)
    apart = min(late - early for early, late in pairwise(sent))
    assert apart > pd.Timedelta(3, "s"), "polls and refills take turns, of 4 s each"


def test_archive_error_in_a_refill_stops_collecting(collected, threads, monkeypatch) -> None:

    def refused(*_: object, **__: object) -> None:
        raise ArchiveError("market: nothing was appended: No space left on device")

    monkeypatch.setattr(collecting, "backfill", refused)
    with pytest.raises(ArchiveError, match="No space left on device"):
        collected(20, "bybit")
    assert threads.now() < BEFORE_THE_HOUR + pd.Timedelta(6, "min")


def test_unexpected_error_in_a_refill_is_reported_and_polls_continue(collected, monkeypatch) -> None:

    def broken(*_: object, **__: object) -> None:
        raise KeyError("fundingTime")

    monkeypatch.setattr(collecting, "backfill", broken)
    result = collected(8, "bybit")
    assert len(result) == 8
    assert "bybit: KeyError('fundingTime')" in [text for minute in result for text in minute.failed.values()]


def test_late_payment_is_requested_again(fill, archive, fakes, clock) -> None:
    """Of 11:00, and not yet in the list at 11:02."""
    fakes.listed_after["hyperliquid"] = pd.Timedelta(5, "min")
    for end in ("2026-01-20T11:01", "2026-01-20T12:01"):
        fill("funding_settlements", "hyperliquid", start="2026-01-20T08:00", end=end)
        clock.wait(3900)
    times = archive.read("funding_settlements", BEFORE_THE_HOUR.floor("D"), BEFORE_THE_HOUR.ceil("D"))["time"]
    assert [time.hour for time in times] == [8, 9, 10, 11, 12]


def test_rejected_history_is_reported_with_the_poll(collected: Any, threads: Fakes) -> None:
    truth = threads.truth.payments
    threads.truth.payments = lambda *a: [(s, h, float("nan")) for s, h, _ in truth(*a)]  # type: ignore[method-assign]
    result = collected(6, "bybit")
    told = [text for minute in result for part, text in minute.failed.items() if part.startswith("history")]
    assert any("bybit funding_settlements BTC: /v5/market/funding/history: 'nan'" in text for text in told)


class Shifted(MachineClock):
    """The machine's clock, at 11:02."""

    def __init__(self) -> None:
        super().__init__()
        self._apart = pd.Timestamp("2026-01-20T11:02:03Z") - super().utc()

    def utc(self) -> pd.Timestamp:
        return super().utc() + self._apart


@pytest.mark.skipif(sys.platform == "win32", reason="needs signals")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_in_a_refill_ends_it_cleanly(number, refilling, archive, fakes, monkeypatch) -> None:
    """The end does not wait for a request without a response: its thread is a daemon."""
    monkeypatch.setattr(collecting, "END_SECONDS", 0.05)
    never, clock = threading.Event(), Shifted()
    fakes.held["bybit/v5/market/funding"], fakes._clock = never, clock.utc

    def end_in_the_refill() -> None:
        deadline = time.monotonic() + HANGS_SECONDS
        while not any(place.endswith("funding/history") for _, place, *_ in list(fakes.log)):
            if time.monotonic() > deadline:
                break
            time.sleep(0.01)
        os.kill(os.getpid(), number)

    before = signal.getsignal(number)
    clock.stop_on([number])
    threading.Thread(target=end_in_the_refill, daemon=True).start()
    collector = refilling("bybit", "okx", clock=clock)
    try:
        collector.run()
        worker = collector.refills.workers["bybit"]
        assert (worker.is_alive(), worker.daemon) == (True, True)
    finally:
        signal.signal(number, before)
        never.set()
    assert set(archive.exchanges("funding_history")) == {"bybit", "okx"}
    archive.merge("funding_history", archive.read("funding_history").iloc[:0])  # the lock is free


def test_stop_is_noticed_without_a_wait_between_requests(fakes: Fakes, clock: SimulatedClock) -> None:
    """A venue that responds more slowly than its rate limit needs no wait between two requests."""
    fakes.delays["bybit"] = 30.0
    session = VenueSession(VENUES["bybit"], clock, address=fakes.addresses["bybit"])
    list_contracts(session)
    requests = len(fakes.log)
    clock.wait(3600)
    clock.stop()
    with pytest.raises(Stopped):
        list_contracts(session)
    assert len(fakes.log) == requests


def test_requests_of_many_threads_are_spaced_by_the_rate_limit() -> None:
    shared, now = Shared(), pd.Timestamp("2026-01-20", tz="UTC")
    waits: list[float] = []

    def take(_: int) -> None:
        waits.extend(shared.turn(now, 0.25) for _ in range(50))

    in_threads(8, take)
    assert sorted(waits) == pytest.approx([0.25 * turn for turn in range(400)])


def test_ban_of_one_session_pauses_all_sessions_of_the_venue(fakes: Fakes, clock: SimulatedClock) -> None:
    shared, address = Shared(), fakes.addresses["binance"]
    first, other = (VenueSession(VENUES["binance"], clock, address=address, shared=shared) for _ in range(2))
    endpoint = next(e for e in VENUES["binance"].endpoints if e.path == "/fapi/v1/premiumIndex")
    first.patience = other.patience = 20.0  # of polls
    fakes.faults["binance"] = [(418, {"Retry-After": "300"}, {"code": -1003, "msg": "banned"})]
    with pytest.raises(VenueError, match="HTTP 418"):
        first.request(endpoint)
    before = clock.utc()
    with pytest.raises(VenueError, match="allows the next request in 299 s"):
        other.request(endpoint)
    assert len(fakes.log) == 1
    clock.wait(300)
    assert other.request(endpoint)[0].states
    assert fakes.log[-1][-1] >= before + pd.Timedelta(300, "s")


def test_sessions_resume_one_after_another_when_a_ban_ends(threads: Any) -> None:
    """A poll and two histories get a 429 together: afterwards their requests are not simultaneous."""
    fakes, clock = threads, threads.clock
    shared, venue = Shared(), VENUES["okx"]
    endpoint = next(e for e in venue.endpoints if e.what == "oi")
    shared.close_for(clock.utc(), 30.0)

    def ask() -> None:
        VenueSession(venue, clock, address=fakes.addresses["okx"], shared=shared).request(endpoint)

    threads = [threading.Thread(target=ask, name=f"derivdata-refill-{i}") for i in range(3)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        clock.wait(60)
    sent = sorted(at for *_, at in fakes.log)
    assert len(sent) == 3
    assert sent[0] >= BEFORE_THE_HOUR + pd.Timedelta(30, "s")
    least = pd.Timedelta(0.999 * venue.seconds(endpoint), "s")
    assert all(late - early >= least for early, late in pairwise(sent))


CLOUDFLARE = """<!DOCTYPE html><html><head><title>Access denied | www.okx.com used Cloudflare to restrict
access</title><style>.region{color:red}</style></head><body><div role="region"><h1>Error 1020</h1>
<p>You have been blocked by this site's firewall.</p></div></body></html>"""


@pytest.mark.parametrize(
    ("venue", "status", "text", "reason"),
    [
        ("okx", 403, CLOUDFLARE, "limit"),
        ("okx", 403, CLOUDFLARE.replace("this site's firewall", "the country of your address"), "region"),
        ("okx", 451, "Unavailable", "region"),
        ("bybit", 403, "access too frequent, please try again in 10 minutes", "limit"),
        ("bybit", 403, "The distribution is configured to block access from your country.", "region"),
        ("binance", 403, "Service unavailable from a restricted location", "region"),
        ("bybit", 403, '{"message": "This service is not available in the United States."}', "region"),
        ("okx", 403, "OKX is unavailable in Canada", "region"),
        ("okx", 403, "This service is not available in a browser", "limit"),
    ],
)
def test_only_refusals_that_name_a_region_count_as_geoblock(
    venue, status, text, reason, fakes, clock
) -> None:
    session = VenueSession(VENUES[venue], clock, address=fakes.addresses[venue])
    session.patience = 20.0  # of a poll; a history waits for the end of a ban
    endpoint = next(e for e in VENUES[venue].endpoints if e.what == "funding" and e.confirmed)
    fakes.faults[venue] = [(status, {}, text)]
    with pytest.raises(
        VenueError, match=r"(?s)derivdata uses .* of its limit|blocks this address: .*; omit it"
    ) as refused:
        session.request(endpoint)
    assert (refused.value.reason, refused.value.status) == (reason, status)
    assert refused.value.retry_after == (600.0 if reason == "limit" else None)
    is_of_country = "access refused from the country of this machine's address: HTTP" in str(refused.value)
    assert is_of_country is (reason == "region")
    with pytest.raises(VenueError, match=r"not requested, because the rate limit|blocks this address"):
        session.request(endpoint)
    assert len(fakes.log) == 1, "not asked again"
    if reason == "limit":
        clock.wait(600)
        assert session.request(endpoint)[0].states


def test_worker_that_fails_to_start_is_not_listed_as_running(refilling, archive, clock, monkeypatch) -> None:
    collector = refilling("bybit")

    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as none_left:
        none_left.setattr(threading.Thread, "start", refuse)
        with pytest.raises(RuntimeError, match="start new thread"):
            collector.refills.start_due(["bybit"])
    assert not collector.refills._running
    collector.refills.start_due(["bybit"])  # of the same hour
    collector.refills.workers["bybit"].join(HANGS_SECONDS)
    assert not collector.refills._running
    assert not archive.read("funding_settlements", clock.utc() - pd.Timedelta(1, "D"), clock.utc()).empty


def test_ban_longer_than_the_patience_does_not_use_it_up(fakes: Fakes, clock: SimulatedClock) -> None:
    """Waiting for a turn is not a failure of the venue."""
    session = VenueSession(VENUES["mexc"], clock, address=fakes.addresses["mexc"])
    state = next(e for e in session.venue.endpoints if e.every is not None)
    session.request(state)
    session.patience = 20.0
    session.shared.close_for(clock.utc(), 30.0)
    with pytest.raises(VenueError, match="not requested"):
        session.request(state)
    assert session.patience == 20.0
