"""Histories are refilled beside the minutes: a slow or dead venue holds up neither a minute nor the end."""

from __future__ import annotations

import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from derivdata.errors import ArchiveError, VenueError
from derivdata.sources.archive import Archive, open_archive
from derivdata.sources.collect import refills
from derivdata.sources.collect.clock import Clock
from derivdata.sources.collect.collector import Collector
from derivdata.sources.collect.contracts import list_contracts
from derivdata.sources.collect.histories import backfill
from derivdata.sources.collect.reporting import Minute
from derivdata.sources.collect.session import Shared, Stopped, VenueSession
from derivdata.sources.venues.registry import VENUES
from tests.collect.clocks import HANGS_SECONDS, EventClock, SimulatedClock
from tests.collect.direct import faked
from tests.collect.fakes import Fakes
from tests.reliability.promises import SOAK
from tests.support.threads import in_threads

ROOT = Path(__file__).resolve().parents[2]
LAST = int(pd.Timestamp("2026-01-21", tz="UTC").timestamp())
TABLES = ["funding_history", "oi_history", "funding_settlements"]  # without sockets
BEFORE_THE_HOUR = pd.Timestamp("2026-01-20T10:58:30", tz="UTC")


@pytest.fixture
def clock() -> EventClock:
    return EventClock(BEFORE_THE_HOUR)


@pytest.fixture
def fakes(clock: EventClock, monkeypatch: pytest.MonkeyPatch) -> Fakes:
    return faked(LAST, clock, monkeypatch)


def _collector(
    folder: Path, fakes: Fakes, clock: Clock, *venues: str, symbols: Sequence[str] = ("BTC",), **more: Any
) -> Collector:
    where = {"clock": clock, "addresses": fakes.addresses, "names": TABLES, "symbols": symbols}
    return Collector(open_archive(folder), venues=venues, **(where | more))


def _collected(
    folder: Path,
    fakes: Fakes,
    clock: EventClock,
    minutes: int,
    *venues: str,
    symbols: Sequence[str] = ("BTC",),
) -> list[Minute]:
    """Collect for some minutes; return what each brought."""
    found: list[Minute] = []

    def count(minute: Minute) -> None:
        found.append(minute)
        if len(found) == minutes:
            clock.stop()

    _collector(folder, fakes, clock, *venues, symbols=symbols, log=count).run()
    return found


def test_a_slow_refill_holds_up_no_minute(fakes: Fakes, clock: EventClock, tmp_path: Path) -> None:
    fakes.delays["bybit/v5/market/funding/history"] = 300.0
    found = _collected(tmp_path / "market", fakes, clock, 13, "bybit", "okx", symbols=["BTC", "ETH"])
    began = [minute.time.floor("min") for minute in found]
    assert [late - early for early, late in pairwise(began)] == [pd.Timedelta(60, "s")] * (len(found) - 1)
    assert all(minute.rows["funding_history"] == 4 for minute in found), "both venues, both contracts"
    asked = [at for exchange, place, _, at in fakes.log if place.endswith("funding/history")]
    assert found[3].time < asked[0] < asked[1] < found[-1].time, "the refill was under way"
    counted = [minute.time for minute in found if minute.rows.get("funding_settlements")]
    assert counted[0] < asked[1] < counted[-1], "okx's is counted when it is done, and bybit's when it is"


def test_a_venue_that_never_answers_a_history_delays_that_of_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bybit blocks for an hour: okx is refilled, and with the next hour again, bybit not a second time."""
    clock = SimulatedClock("2026-01-20T11:02:00")
    fakes = faked(LAST, clock, monkeypatch)
    held = fakes.held["bybit/v5/market/funding/history"] = threading.Event()
    collector = _collector(tmp_path / "market", fakes, clock, "bybit", "okx")
    archive = collector.archive
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
        assert set(slow["error"]) == {"the refill of 2026-01-20 11:00 is still under way"}
        collector.refills.workers["okx"].join(HANGS_SECONDS)
        paid = archive.read("funding_settlements", BEFORE_THE_HOUR.floor("D"), BEFORE_THE_HOUR.ceil("D"))
        assert set(paid["exchange"]) == {"okx"}
        assert not _is_refilled(archive, "bybit")
    finally:
        held.set()
    blocked.join(HANGS_SECONDS)
    assert _is_refilled(archive, "bybit"), "it goes on where it was"


def _is_refilled(archive: Archive, exchange: str) -> bool:
    asked = archive.requests()
    mine = asked[(asked["exchange"] == exchange) & (asked["symbol"] == "BTC") & asked["answered"]]
    return set(mine["table"]) >= {"funding_settlements"}


def test_a_refill_that_is_done_is_counted_and_the_next_begins_with_the_next_hour(
    fakes: Fakes, clock: EventClock, tmp_path: Path
) -> None:
    found = _collected(tmp_path / "market", fakes, clock, 6, "hyperliquid")
    written = [
        (f"{m.time:%H:%M}", m.rows["funding_settlements"]) for m in found if "funding_settlements" in m.rows
    ]
    assert written == [("11:00", 7 * 24 + 1), ("11:03", 1)], "a week with both its ends, then one hour"
    hour = pd.Timestamp("2026-01-20T11:00:00", tz="UTC")
    paid = open_archive(tmp_path / "market").read("funding_settlements", hour, hour + pd.Timedelta(1, "h"))
    assert paid["time"].tolist() == [hour], "the payment of the hour itself, three minutes after it"


def test_what_goes_wrong_in_a_refill_arrives(
    fakes: Fakes, clock: EventClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:

    def refused(*_: object, **__: object) -> None:
        raise ArchiveError("market: nothing was appended: No space left on device")

    monkeypatch.setattr(refills, "backfill", refused)
    with pytest.raises(ArchiveError, match="No space left on device"):
        _collected(tmp_path / "market", fakes, clock, 20, "bybit")
    assert clock.utc() < BEFORE_THE_HOUR + pd.Timedelta(6, "min")


def test_an_unexpected_error_of_a_refill_is_told_and_the_minutes_go_on(
    fakes: Fakes, clock: EventClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:

    def broken(*_: object, **__: object) -> None:
        raise KeyError("fundingTime")

    monkeypatch.setattr(refills, "backfill", broken)
    found = _collected(tmp_path / "market", fakes, clock, 8, "bybit")
    assert len(found) == 8
    assert "bybit: KeyError('fundingTime')" in [text for minute in found for text in minute.failed.values()]


def test_a_payment_that_is_listed_late_is_asked_for_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of 11:00, and not yet in the list at 11:02."""
    hour, clock = pd.Timestamp("2026-01-20T11:00:00", tz="UTC"), SimulatedClock("2026-01-20T11:02:00")
    archive = open_archive(tmp_path / "market")
    with Fakes(LAST, clock.utc) as fakes:
        listed = fakes.truth.payments
        options: dict[str, Any] = {
            "venues": ["hyperliquid"],
            "names": ["funding_settlements"],
            "clock": clock,
        }
        options |= {"addresses": fakes.addresses}
        with monkeypatch.context() as late:
            late.setattr(
                fakes.truth,
                "payments",
                lambda *pair: [row for row in listed(*pair) if row[0] < hour.timestamp()],
            )
            backfill(archive, ["BTC"], "2026-01-20T08:00", "2026-01-20T11:01", **options)
        clock.wait(3600)
        backfill(archive, ["BTC"], "2026-01-20T08:00", "2026-01-20T12:01", **options)
    times = archive.read("funding_settlements", hour - pd.Timedelta(3, "h"), hour + pd.Timedelta(2, "h"))[
        "time"
    ]
    assert [time.hour for time in times] == [8, 9, 10, 11, 12]


def test_a_history_that_is_refused_is_told_with_the_minute(
    fakes: Fakes, clock: EventClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    truth = fakes.truth.payments
    monkeypatch.setattr(fakes.truth, "payments", lambda *a: [(s, h, float("nan")) for s, h, _ in truth(*a)])
    found = _collected(tmp_path / "market", fakes, clock, 6, "bybit")
    told = [text for minute in found for part, text in minute.failed.items() if part.startswith("history")]
    assert any("bybit funding_settlements BTC: /v5/market/funding/history: 'nan'" in text for text in told)


def test_the_end_does_not_wait_for_a_dead_venue(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The refill's thread hangs in a request that is never answered: it is a daemon and is left."""
    clock = SimulatedClock("2026-01-20T11:01:30")
    fakes = faked(LAST, clock, monkeypatch)
    monkeypatch.setattr(refills, "END_SECONDS", 0.05)
    never = fakes.held["bybit/v5/market/funding"] = threading.Event()
    asked = threading.Event()
    answer = fakes.answer

    def told(exchange: str, place: str, *rest: object, **options: object) -> object:
        if place.endswith("funding/history"):
            asked.set()
        return answer(exchange, place, *rest, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(fakes, "answer", told)
    found: list[Minute] = []

    def stop_in_the_refill(minute: Minute) -> None:
        found.append(minute)
        if minute.time.minute >= 2:
            assert asked.wait(HANGS_SECONDS)
            clock.stop()

    collector = _collector(tmp_path / "market", fakes, clock, "bybit", log=stop_in_the_refill)
    try:
        collector.run()
        worker = collector.refills.workers["bybit"]
        assert worker.is_alive()
        assert worker.daemon
    finally:
        never.set()
    assert found[-1].rows["funding_history"] == 2


COLLECTS = """
    import signal, sys
    import pandas as pd
    from derivdata.sources.archive import Archive, open_archive
    from derivdata.sources.collect.clock import MachineClock
    from derivdata.sources.collect.collector import Collector
    from derivdata.client.transport import keyless

    keyless._SECONDS = 2.0  # a request is given up sooner

    class Shifted(MachineClock):
        def __init__(self, start):
            super().__init__()
            self.apart = pd.Timestamp(start) - super().utc()
        def utc(self):
            return super().utc() + self.apart

    clock = Shifted("2026-01-20T11:02:03Z")
    clock.stop_on([signal.SIGINT, signal.SIGTERM])
    collector = Collector(
        open_archive(sys.argv[1]), venues=["bybit", "okx"], symbols=["BTC"], names=["funding_history",
        "funding_settlements"], clock=clock,
        addresses={name: f"{sys.argv[2]}/{name}" for name in ("bybit", "okx")},
        log=lambda minute: print(minute.json(), flush=True),
    )
    print("ready", flush=True)
    collector.run()
    print("ended", flush=True)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="needs signals")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT] if SOAK else [signal.SIGTERM])
def test_a_signal_in_a_refill_ends_it_cleanly(number: signal.Signals, tmp_path: Path) -> None:
    """With a real clock and sockets, while a venue's history is not answered."""
    started = pd.Timestamp.now("UTC")
    apart = pd.Timestamp("2026-01-20T11:02:00Z") - started
    with Fakes(LAST, lambda: pd.Timestamp.now("UTC") + apart) as fakes:
        fakes.skew = pd.Timedelta(0)
        hung = fakes.held["bybit/v5/market/funding"] = threading.Event()
        url = fakes.addresses["bybit"].rpartition("/")[0]
        command = [sys.executable, "-c", textwrap.dedent(COLLECTS), str(tmp_path / "market"), url]
        with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as child:
            assert child.stdout is not None
            assert child.stdout.readline() == "ready\n"
            assert '"funding_history": 4' in child.stdout.readline()
            while not any(place.endswith("funding/history") for _, place, *_ in list(fakes.log)):
                assert pd.Timestamp.now("UTC") - started < pd.Timedelta(HANGS_SECONDS, "s")
                time.sleep(0.05)
            child.send_signal(number)
            said, _ = child.communicate(timeout=2 * HANGS_SECONDS)
        hung.set()
    assert said.splitlines()[-1] == "ended"
    assert child.returncode == 0
    archive = open_archive(tmp_path / "market")
    assert set(archive.exchanges("funding_history")) == {"bybit", "okx"}
    archive.merge("funding_history", archive.read("funding_history", started, started))  # the lock is free


def test_a_stop_is_noticed_where_there_is_nothing_to_wait_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A venue that answers more slowly than it may be asked is never waited for between two requests."""
    clock = SimulatedClock("2026-01-20T11:00:00")
    fakes = faked(LAST, clock, monkeypatch)
    fakes.delays["bybit"] = 30.0
    session = VenueSession(VENUES["bybit"], clock, address=fakes.addresses["bybit"])
    list_contracts(session)
    asked = len(fakes.log)
    clock.wait(3600)
    clock.stop()
    with pytest.raises(Stopped):
        list_contracts(session)
    assert len(fakes.log) == asked


def test_turns_of_many_threads_are_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    shared, now = Shared(), pd.Timestamp("2026-01-20", tz="UTC")
    waits: list[float] = []

    def take(_: int) -> None:
        waits.extend(shared.turn(now, 0.25) for _ in range(50))

    in_threads(8, take)
    assert sorted(waits) == pytest.approx([0.25 * turn for turn in range(400)])


def test_a_venue_that_closes_to_one_session_is_left_alone_by_all(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = SimulatedClock("2026-01-20T11:00:00")
    fakes = faked(LAST, clock, monkeypatch)
    shared, address = Shared(), fakes.addresses["binance"]
    first, other = (VenueSession(VENUES["binance"], clock, address=address, shared=shared) for _ in range(2))
    endpoint = next(e for e in VENUES["binance"].endpoints if e.path == "/fapi/v1/premiumIndex")
    fakes.faults["binance"] = [(418, {"Retry-After": "300"}, {"code": -1003, "msg": "banned"})]
    with pytest.raises(VenueError, match="HTTP 418"):
        first.ask(endpoint)
    before = clock.utc()
    with pytest.raises(VenueError, match="allows the next request in 299 s"):
        other.ask(endpoint)
    assert len(fakes.log) == 1
    clock.wait(300)
    assert other.ask(endpoint)[0].states
    assert fakes.log[-1][-1] >= before + pd.Timedelta(300, "s")


def test_those_who_waited_for_a_closed_venue_go_on_one_after_the_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A poll and two histories meet a 429 together: afterwards they do not ask together."""
    clock = EventClock(pd.Timestamp("2026-01-20T11:00:00", tz="UTC"))
    fakes = faked(LAST, clock, monkeypatch)
    shared, venue = Shared(), VENUES["okx"]
    endpoint = next(e for e in venue.endpoints if e.what == "oi")
    shared.close_for(clock.utc(), 30.0)

    def ask() -> None:
        VenueSession(venue, clock, address=fakes.addresses["okx"], shared=shared).ask(endpoint)

    threads = [threading.Thread(target=ask, name=f"derivdata-refill-{i}") for i in range(3)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        clock.wait(60)
    sent = sorted(at for *_, at in fakes.log)
    assert len(sent) == 3
    assert sent[0] >= pd.Timestamp("2026-01-20T11:00:30", tz="UTC")
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
    ],
)
def test_only_a_refusal_that_names_a_region_is_one_of_the_address(
    venue: str, status: int, text: str, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = SimulatedClock("2026-01-20T11:00:00")
    fakes = faked(LAST, clock, monkeypatch)
    session = VenueSession(VENUES[venue], clock, address=fakes.addresses[venue])
    endpoint = next(e for e in VENUES[venue].endpoints if e.what == "funding" and e.confirmed)
    fakes.faults[venue] = [(status, {}, text)]
    with pytest.raises(VenueError) as refused:
        session.ask(endpoint)
    assert (refused.value.reason, refused.value.status) == (reason, status)
    assert refused.value.retry_after == (600.0 if reason == "limit" else None)
    if reason == "limit":
        with pytest.raises(VenueError, match="not asked: its rate limit"):
            session.ask(endpoint)
        clock.wait(600)
    if reason == "region":
        with pytest.raises(VenueError, match="refuses this address"):
            session.ask(endpoint)
        assert len(fakes.log) == 1, "not asked again"
        return
    assert session.ask(endpoint)[0].states
    assert len(fakes.log) == 2, "in ten minutes nothing was asked"


def test_a_worker_that_cannot_start_is_not_taken_for_running(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = SimulatedClock("2026-01-20T11:02:30")
    fakes = faked(LAST, clock, monkeypatch)
    collector = _collector(tmp_path / "market", fakes, clock, "bybit")
    archive = collector.archive

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
