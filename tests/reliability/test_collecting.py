"""Killed collectors and faulty venues: no row is lost or duplicated."""

from __future__ import annotations

import gzip
import json
import os
import threading
from contextlib import nullcontext
from itertools import pairwise
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from derivdata.sources.archive import Archive, open_archive
from derivdata.tables.contracts import HIP3_DEXES as DEXES
from tests.collect.clocks import EventClock
from tests.collect.conftest import archive, clock, fakes, fill
from tests.collect.days import (
    TROUBLES,
    WHOLE,
    Hostile,
    answered_minutes,
    assert_minutes_equal_ledger,
    assert_open_interest_equals_truth,
    assert_settlements_equal_truth,
    collect_until,
)
from tests.collect.direct import connect_directly, faked
from tests.collect.fakes import SYMBOLS, Fakes
from tests.collect.state_bodies import RUNNING_BPS
from tests.collect.truth import HOURLY
from tests.reliability.conftest import Measured
from tests.reliability.processes import finished
from tests.reliability.promises import SOAK, count
from tests.venues.test_budgets import used

FIRST = pd.Timestamp("2026-01-20T09:30:30", tz="UTC")
HOUR, MINUTE = pd.Timedelta(1, "h"), pd.Timedelta(1, "min")


KILLED = """
    import itertools, json, mmap, os, random, signal, struct, sys
    import pandas as pd
    from derivdata.sources.archive import open_archive
    from derivdata.sources.archive.archive import Archive
    from tests.collect.clocks import EventClock
    from tests.collect.days import Hostile, collect_until
    from tests.collect.direct import DirectSession
    from tests.collect.fakes import Fakes
    import derivdata.sources.collect.session as sessions

    folder, kills, venues = sys.argv[1], int(sys.argv[2]), sys.argv[3].split()
    first, end, most = pd.Timestamp(sys.argv[4]), pd.Timestamp(sys.argv[5]), int(sys.argv[6])
    troubled = json.loads(sys.argv[7])
    chance, told = random.Random(7), []
    instant = mmap.mmap(-1, 8)  # shared with every child: what time it is outlives the process that is killed

    class LastingClock(EventClock):
        def _go_on(self):
            went = super()._go_on()
            struct.pack_into("q", instant, 0, self._now.as_unit("us").value // 1000)
            return went

    os.fsync = lambda handle: None  # a killed process loses nothing that it wrote; a power cut is not tested

    def collect(start, write, silent):
        clock = LastingClock(start)
        fakes = (Hostile if troubled else Fakes)(int(end.timestamp()) + 86_400, clock.utc)
        fakes.random_faults = 0.1
        if troubled:
            fakes.trouble(*map(pd.Timestamp, troubled["window"]), troubled["symbols"])
        DirectSession.fakes, DirectSession.wait = fakes, clock.wait
        sessions.KeylessSession = DirectSession
        merge, merges = Archive.merge, itertools.count(1)

        def acknowledged(self, table, frame, **options):
            os.write(write, b"b")  # it begins
            done = merge(self, table, frame, **options)
            if next(merges) == silent:
                os.kill(os.getpid(), signal.SIGKILL)  # it is on disk, and nobody was told
            keys = [(row.exchange, row.symbol, str(row.time)) for row in frame.itertuples()]
            answered = [request for request in options["requests"] if not request.error]
            asked = [(r.exchange, r.symbol, str(r.start), str(r.end)) for r in answered]
            line = json.dumps({"table": table, "keys": keys, "asked": asked})
            os.write(write, b"\\n" + line.encode() + b"\\n")
            return done

        Archive.merge = acknowledged
        collect_until(open_archive(folder), fakes, clock, end, venues)
        os._exit(0)

    start = first
    for kill in range(kills):
        silent = chance.randint(1, most // 2) if kill % 2 else None
        struct.pack_into("q", instant, 0, start.as_unit("us").value // 1000)
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(read)
            collect(start, write, silent)
        os.close(write)
        # After so many signs of life, and then in the middle of what follows: a merge takes some 20 ms.
        text, signs = b"", chance.randint(1, most)
        while text.count(b"b\\n") + text.endswith(b"b") < signs and (part := os.read(read, 65_536)):
            text += part
        spin = chance.randint(0, 400_000)
        while spin:
            spin -= 1
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        while part := os.read(read, 65_536):
            text += part
        os.close(read)
        told += [json.loads(line) for line in text.split(b"\\n") if line.endswith(b"}")]
        # Time does not go back: the machine's clock goes on where a process ends.
        now = pd.Timestamp(struct.unpack_from("q", instant)[0], unit="us", tz="UTC")
        assert now >= start
        start = now + pd.Timedelta(chance.randint(1, 90), "s")
    print(json.dumps({"told": told, "start": str(start)}))
"""


def _hold_acknowledged(archive: Archive, appends: list[Any], end: pd.Timestamp) -> int:
    """Hold rows and requests that were acknowledged to the archive; return how many rows there were."""
    ledger = archive.requests()
    keys = 0
    held: dict[str, set[tuple[str, str, str]]] = {}
    for told in appends:
        table = told["table"]
        if table not in held:
            rows = archive.read(table, FIRST - pd.Timedelta(30, "D"), end + HOUR)
            held[table] = {(row.exchange, row.symbol, str(row.time)) for row in rows.itertuples()}
            assert len(held[table]) == len(rows), "none is double"
        assert {tuple(key) for key in told["keys"]} <= held[table]
        keys += len(told["keys"])
        for exchange, symbol, start, until in told["asked"]:
            mine = ledger[(ledger["table"] == table) & (ledger["exchange"] == exchange) & ledger["answered"]]
            mine = mine[mine["symbol"].isna() if symbol is None else mine["symbol"] == symbol]
            inside = (mine["start"] <= pd.Timestamp(start)) & (mine["end"] >= pd.Timestamp(until))
            assert inside.any(), (table, exchange, symbol, start)
    return keys


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_collector_that_is_killed_loses_nothing_acknowledged(
    tmp_path: Path, measured: Measured, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One archive whose writer is killed repeatedly: acknowledged rows are present once."""
    kills, venues = count(6, 100), ["okx", "hyperliquid"]
    folder, end = tmp_path / "market", FIRST.ceil("h") + pd.Timedelta(count(3, 12), "h")
    result = json.loads(finished(KILLED, folder, kills, " ".join(venues), FIRST, end, 12, "{}", seconds=3000))
    archive = open_archive(folder)
    keys = _hold_acknowledged(archive, result["told"], end)
    assert keys
    clock = EventClock(pd.Timestamp(result["start"]))
    fakes = faked(int(end.timestamp()) + 86_400, clock, monkeypatch)
    last = max(clock.utc().ceil("h"), FIRST.ceil("h")) + pd.Timedelta(70, "min")
    fakes.outages["okx"] = (last - pd.Timedelta(60, "min"), last - pd.Timedelta(20, "min"))
    collect_until(archive, fakes, clock, last, venues)
    whole = last.floor("h")
    spent = used(fakes.log)
    assert {*spent} == {*venues}
    assert max(spent.values()) <= 0.25
    assert archive.requests()["error"].notna().any(), "an outage was met"
    assert_settlements_equal_truth(archive, fakes, venues, FIRST.floor("h") - pd.Timedelta(1, "D"), whole)
    assert_open_interest_equals_truth(archive, fakes, venues, FIRST.floor("h") - HOUR, whole)
    assert_minutes_equal_ledger(archive, venues, FIRST, whole)
    named = {file.path for file in archive._manifest().files()}
    assert {str(path.relative_to(folder)) for path in folder.glob("*/*/*")} == named, "nothing is left over"
    measured(
        "killed: collector",
        f"{kills} kills, {len(result['told']):,} appends of {keys:,} rows acknowledged: 0 damaged, 0 lost, "
        "0 double, every gap that the histories give back was filled",
    )


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_hostile_venue_does_not_affect_the_others(
    tmp_path: Path, measured: Measured, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each venue has one kind of fault, while intervals change and the collector is killed."""
    kills, venues = count(1, 20), [*TROUBLES, "hyperliquid"]
    symbols = ("BTC", "ETH", "ODD", *(f"A{number:02}" for number in range(count(2, 37))))
    folder, change = tmp_path / "market", pd.Timestamp("2026-01-12", tz="UTC")
    start, first, over, end = (
        change + pd.Timedelta(minutes, "min")
        for minutes in ((-330, -328, 310, 330) if SOAK else (-6, -4, 3, 6))
    )
    troubled = json.dumps({"window": [str(first), str(over)], "symbols": symbols})
    arguments = " ".join(venues), start, end, count(9, 150), troubled
    result = json.loads(finished(KILLED, folder, kills, *arguments, seconds=3000))
    archive = open_archive(folder)
    _hold_acknowledged(archive, result["told"], end)
    again = pd.Timestamp(result["start"])
    assert again < over
    for until in (over, end):  # a restart requests refused payments again
        clock = EventClock(again)
        fakes = Hostile(int(end.timestamp()) + 86_400, clock.utc)
        fakes.trouble(first, over, symbols)
        connect_directly(fakes, clock, monkeypatch)
        collect_until(archive, fakes, clock, until, venues)
        again = clock.utc()
    told = {
        table: {name: answered_minutes(archive, table, name, start, end) for name in venues}
        for table in ("funding_history", "oi_history")
    }
    for table, by_venue in told.items():
        whole = by_venue.pop("hyperliquid")
        assert len(whole) >= (end - start) // MINUTE - 2 * kills - 3
        for name in WHOLE[table]:
            assert len(whole - by_venue[name]) <= kills, (table, name)
        for name in by_venue.keys() - {*WHOLE[table], "binance"}:
            well = fakes.unit_over if name == "okx" else over
            assert not any(first <= at < well for at in by_venue[name]), (table, name)
            assert len({at for at in whole if at >= well} - by_venue[name]) <= kills, (table, name)
    lost = archive.requests().query("not answered")
    named = dict(zip(lost["exchange"], lost["error"], strict=True))
    expected = {*TROUBLES} - {"mexc", "kucoin", "kraken", "dydx"}
    assert {*named} == expected, {name: named.get(name) for name in {*named} ^ expected}
    assert named["bybit"].startswith("1 row omitted: "), "the contract whose figures contradict each other"
    assert "90 s apart: set the clock" in named["deribit"]
    # Of some venues, only three equal gaps confirm that eight hours became four, so read payments until noon.
    noon = change + 12 * HOUR
    clock = EventClock(noon + MINUTE)
    fakes = Hostile(int(end.timestamp()) + 86_400, clock.utc)
    fakes.trouble(first, over, symbols)
    connect_directly(fakes, clock, monkeypatch)
    settling = [name for name in venues if name != "kraken"]
    collect_until(archive, fakes, clock, noon + 5 * MINUTE, settling, names=["funding_settlements"])
    since = start.floor("h") - 24 * HOUR
    payments = assert_settlements_equal_truth(archive, fakes, settling, since, noon + MINUTE)
    held = assert_open_interest_equals_truth(archive, fakes, [], start, end)
    assert_open_interest_equals_truth(archive, fakes, venues, start.floor("h"), end.floor("h"))
    polled = assert_minutes_equal_ledger(archive, venues, start, end)
    assert_minutes_equal_ledger(archive, [*WHOLE["funding_history"], "hyperliquid"], start, end, symbols[3:])
    rates = archive.read("funding_history", start, end)
    times = (rates["rate_bps_8h"] / rates["exchange"].astype(str).map(RUNNING_BPS)).round(6)
    assert set(times[rates["time"] < change]) == {1}
    steady = rates["exchange"].isin(["bybit", *HOURLY])
    assert set(times[steady]) == {1}
    assert set(times[(rates["time"] >= change) & ~steady]) == {2}, "eight hours became four at midnight"
    old = rates.loc[rates["symbol"] == "OLD", "time"]
    assert first < old.max() < fakes.delisted_at + HOUR
    measured(
        "hostile venues",
        f"{(end - start) / HOUR:.1f} h of {len(venues)} venues with {len(TROUBLES)} kinds of trouble, "
        f"{len(symbols)} contracts, {kills} kills: {polled:,} polls, {payments:,} payments, {held:,} rows of "
        "open interest: 0 lost but those of the broken parts, 0 double, 0 wrong",
    )


class Garbling:
    """A socket of binance: one liquidation per minute, unreadable in every third minute."""

    def __init__(self, clock: EventClock, price: float) -> None:
        self._clock, self._price = clock, price
        self.whole, self.unreadable = list[pd.Timestamp](), list[pd.Timestamp]()

    def recv(self, timeout: float) -> bytes:
        self._clock.wait(10.0)
        now = self._clock.utc()
        last = max([*self.whole, *self.unreadable], default=now - HOUR)
        if now - last < MINUTE:
            raise TimeoutError
        price, stamp = str(self._price), int(now.timestamp() * 1000)
        order = {"s": "BTCUSDT", "S": "BUY", "q": "3", "p": price, "ap": price, "z": "3", "T": stamp}
        body = json.dumps({"e": "forceOrder", "E": stamp, "o": order}).encode()
        number = len(self.whole) + len(self.unreadable)
        if number % 3 < 2:
            self.whole.append(now)
            return body
        self.unreadable.append(now)
        return (body[:-9], gzip.compress(body)[:-9], body.replace(b'"3"', b"[]"))[number // 3 % 3]

    def ping(self) -> threading.Event:
        pong = threading.Event()
        pong.set()
        return pong


def test_unreadable_frames_lose_only_their_own_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock, archive = EventClock(FIRST), open_archive(tmp_path / "market")
    end = FIRST + count(12, 660) * MINUTE
    fakes = faked(int(end.timestamp()) + 86_400, clock, monkeypatch)
    socket, opened = Garbling(clock, dict(fakes.states())["BTC"][2]), list[str]()

    def connect(address: str, **_: Any) -> Any:
        opened.append(address)
        return nullcontext(socket)

    monkeypatch.setattr("websockets.sync.client.connect", connect)
    collect_until(archive, fakes, clock, end, ["binance"], names=["liquidations_fills"])
    assert len(opened) == 1, "the socket stays"
    assert len(socket.unreadable) >= 3
    rows = archive.read("liquidations_fills", FIRST, end + HOUR)
    assert rows["time"].tolist() == [at.floor("ms") for at in socket.whole]
    kept = [json.loads(file.read_bytes()) for file in (archive.path / "quarantine").glob("*.json")]
    assert {item["request"] for item in kept} == {"!forceOrder@arr"}
    assert len(kept) == 3, "the newest of each kind"
    windows = archive.requests().query("table == 'liquidations_fills' and answered").sort_values("start")
    gaps = list(zip(windows["end"][:-1], windows["start"][1:], strict=True))
    assert [later for _, later in gaps] == socket.unreadable
    assert all(before < later <= before + MINUTE / 2 for before, later in gaps)


__all__ = ["archive", "clock", "fakes", "fill"]

NOW = "2026-02-01T00:30:00"
LAST = int(pd.Timestamp(NOW, tz="UTC").timestamp())
DAY = pd.Timestamp("2026-01-20", tz="UTC")
PAYING = ["binance", "bybit", "okx", "gateio", "bitget", "aster", "kucoin", "mexc", "huobi"]  # not each hour
EACH_HOUR = ["deribit", "hyperliquid", "dydx", "lighter", "derive"]
START, END = ("2026-01-01" if SOAK else "2026-01-29"), "2026-02-01"


def test_dexes_of_hyperliquid_are_venues_whose_month_and_minute_are_the_truth(
    archive: Archive, fakes: Fakes, fill: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    start, end = (pd.Timestamp(at, tz="UTC") for at in (START, END))
    venues = ["hyperliquid", *DEXES]
    assert fill("funding_settlements", *venues, unconfirmed=True).failed == []
    hours = (end - start) // pd.Timedelta(1, "h")
    assert (
        assert_settlements_equal_truth(archive, fakes, venues, start, end)
        == len(venues) * len(SYMBOLS) * hours
    )
    requests = [params["coin"] for name, _, params, _ in fakes.log if "coin" in params and name == "tradexyz"]
    assert set(requests) == {"xyz:BTC", "xyz:ETH"}
    running = EventClock(DAY + pd.Timedelta("10:30:30"))
    result = faked(LAST, running, monkeypatch)
    minutes = collect_until(archive, result, running, running.utc() + 8 * MINUTE, venues, unconfirmed=True)
    assert [minute.failed for minute in minutes] == [{}] * len(minutes)
    assert assert_minutes_equal_ledger(archive, venues, DAY, DAY + pd.Timedelta(1, "D")) > 0
    # Lists of contracts and dexes delay the first polls; then every venue is polled each minute.
    settled = DAY + pd.Timedelta("10:36:00")
    assert assert_minutes_equal_ledger(archive, venues, settled, settled + 3 * MINUTE) == 3 * len(venues)
    rows = archive.read("funding_history", DAY, DAY + pd.Timedelta(1, "D"))
    assert set(rows["symbol"]) == set(SYMBOLS)
    assert rows["rate_bps_8h"].unique().tolist() == [pytest.approx(1.0)]


def test_a_venue_whose_clock_is_20_s_ahead_keeps_its_stamps(
    archive: Archive, monkeypatch: pytest.MonkeyPatch
) -> None:
    running, ahead = EventClock(DAY + pd.Timedelta("10:30:30")), pd.Timedelta(20, "s")
    result = faked(LAST, running, monkeypatch)
    result.skews = {"okx": ahead}
    minutes = collect_until(archive, result, running, running.utc() + 4 * MINUTE, ["okx"])
    rows = archive.read("funding_history", DAY, DAY + pd.Timedelta(1, "D"))
    stamps = rows.loc[rows["symbol"] == "BTC", "time"] - ahead
    polled = [minute.time.floor("min") for minute in minutes if minute.rows]
    assert stamps.dt.floor("min").tolist() == polled


@pytest.mark.parametrize("exchange", [*PAYING, *EACH_HOUR] if SOAK else ["bybit", "gateio", "huobi", "dydx"])
def test_payments_made_late_bear_the_hour_within_a_minute_and_their_own_stamp_after_it(
    exchange: str, archive: Archive, fakes: Fakes, fill: Any
) -> None:
    """At 08:00:40 and 16:05:00; these and the next intervals equal the venue's."""
    eight, sixteen = (int((DAY + pd.Timedelta(hours, "h")).timestamp()) for hours in (8, 16))
    fakes.truth.late = {eight: 40, sixteen: 300}
    assert fill("funding_settlements", exchange, start="2026-01-19", end="2026-01-22").failed == []
    rows = archive.read("funding_settlements", DAY - pd.Timedelta(1, "D"), DAY + pd.Timedelta(2, "D"))
    rows = rows[rows["symbol"] == "BTC"]
    truth = [
        (second - 40 if second == eight + 40 else second, hours, rate * 1e4 * 8 / hours)
        for second, hours, rate in fakes.truth.payments(exchange, "BTC")
        if DAY.timestamp() - 86_400 <= second < DAY.timestamp() + 2 * 86_400
    ]
    expected = [pd.Timestamp(second, unit="s", tz="UTC") for second, *_ in truth]
    assert rows["time"].dt.floor("min").tolist() == expected
    assert rows["interval_hours"].tolist() == [hours for _, hours, _ in truth]
    assert rows["rate_bps_8h"].tolist() == pytest.approx([bps for *_, bps in truth], abs=1e-9)


@pytest.mark.parametrize("exchange", PAYING if SOAK else ["bybit", "gateio", "mexc"])
def test_windows_that_begin_in_the_middle_of_a_change_of_interval_are_the_truth(
    exchange: str, archive: Archive, fakes: Fakes, fill: Any
) -> None:
    """Eight hours until the 12th, four on it, one on the 13th, eight again, requested in five parts.

    The last part has three gaps of eight hours: two would not confirm that hourly payments ended.
    """
    edges = ["2026-01-11T20:00", "2026-01-12T06:00", "2026-01-12T21:00", "2026-01-13T02:30",
             "2026-01-13T03:30", "2026-01-15T04:00"]  # fmt: skip
    for start, end in pairwise(edges):
        assert fill("funding_settlements", exchange, start=start, end=end).failed == []
    first, last = (pd.Timestamp(at, tz="UTC") for at in (edges[0], edges[-1]))
    assert assert_settlements_equal_truth(archive, fakes, [exchange], first, last) > 60
    rows = archive.read("funding_settlements", first, last)
    truth = [
        hours
        for second, hours, _ in fakes.truth.payments(exchange, "BTC")
        if first.timestamp() <= second < last.timestamp()
    ]
    assert rows.loc[rows["symbol"] == "BTC", "interval_hours"].tolist() == truth
    assert set(truth) == {8, 4, 1}
