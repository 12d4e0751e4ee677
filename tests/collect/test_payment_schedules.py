"""Payments that venues skip, list late or pay at other intervals, in each venue's shape.

The right rows come from a schedule that the test writes down, payment by payment, and not from spacing.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pytest

import derivdata as dd
from derivdata.sources.archive import Archive
from tests.collect.clocks import SimulatedClock
from tests.collect.fakes import Fakes
from tests.collect.test_backfill import LAST as LAST
from tests.collect.test_backfill import NOW as NOW
from tests.collect.test_backfill import SETTLING, UNCONFIRMED
from tests.collect.truth import DEXES, HOURLY
from tests.support.examples import some

pytestmark = pytest.mark.drawn
START, END = "2026-01-01", "2026-02-01"
PAYING = [*SETTLING, *DEXES]
UNVERIFIED = (*UNCONFIRMED, *DEXES)
TABLE = "funding_settlements"
FIRST = int(pd.Timestamp("2025-12-29", tz="UTC").timestamp())
STOP = int(pd.Timestamp(END, tz="UTC").timestamp())
WINDOW = int(pd.Timestamp("2026-01-03", tz="UTC").timestamp())
HOUR = 3600

Schedule = list[tuple[int, int, float]]  # second, hours since the one before, fraction


def scheduled(phases: list[tuple[int, int]]) -> Schedule:
    """Pay so many times at each interval, at the last one until the end."""
    rows: Schedule = []
    second, number = FIRST, 0
    for hours, count in [*phases[:-1], (phases[-1][0], 10**6)]:
        for _ in range(count):
            if second >= STOP:
                return rows
            second += hours * HOUR
            number += 1
            rows.append((second, hours, (number * 37 % 101 + 1) * 1e-6))
    return rows


def skipping(rows: Schedule, first: int, count: int) -> Schedule:
    return rows[:first] + rows[first + count :]


ONE_AN_HOUR = ("grvt", "nado")
"""Venues whose bodies have no catch-up payments: rows between hours are estimates, or payments are hourly."""


class Halt(NamedTuple):
    """Payments that a venue lists after a halt, and the rows that are to be stored."""

    listed: Schedule
    rows: list[tuple[int, int, float, int]]
    """Second, hours that the row covers, fraction, and payments."""


def halted(paid: Schedule, first: int, count: int, after: int) -> Halt:
    """Pay the amounts of a halt some seconds after its last hour, one every 7 seconds.

    Within a minute of the hour it belongs to that hour, otherwise to the next one.
    """
    held = paid[first : first + count]
    hour = held[-1][0]
    late = [(hour + after + 7 * place, row[1], row[2]) for place, row in enumerate(held)]
    stored = hour if late[-1][0] - hour <= 60 else hour + HOUR
    together = [*held, *(row for row in paid[first + count :] if row[0] == stored)]
    one_row = (stored, sum(row[1] for row in together), sum(row[2] for row in together), len(together))
    others = [(*row, 1) for row in paid if row not in together]
    return Halt([*paid[:first], *late, *paid[first + count :]], sorted([*others, one_row]))


def halts(exchange: str) -> dict[str, Halt]:
    """Return halts of two, four and eight payments, made up for at the hour or twenty minutes later."""
    paid = scheduled([(1 if exchange in HOURLY else 8, 1)])
    return {
        f"{count} after {seconds} s": halted(paid, len(paid) // 2, count, seconds)
        for count in (2, 4, 8)
        for seconds in (5, 45, 1200)
    }


def with_gaps_in_phases(paid: Schedule) -> Schedule:
    """Leave out two payments of 8 h, three of 4 h, five of 1 h and two of 6 h, each within its phase."""
    listed = list(paid)
    for hours, count in ((8, 2), (4, 3), (1, 5), (6, 2)):
        phase = [row for row in listed if row[1] == hours]
        for row in phase[len(phase) // 2 : len(phase) // 2 + count]:
            listed.remove(row)
    return listed


def schedules(exchange: str) -> dict[str, tuple[Schedule, Schedule]]:
    """Return by name the payments and the venue's list of them."""
    hours = [1] if exchange in HOURLY else [4, 8]
    result = {}
    for step in hours:
        whole = scheduled([(step, 1)])
        for missing in range(1, 13):
            place = len(whole) // 2 + 3 * missing
            result[f"{missing} of {step} h"] = whole, skipping(whole, place, missing)
        twice = skipping(skipping(whole, len(whole) // 2, 2), len(whole) // 2 + 1, 3)
        result[f"two gaps of {step} h"] = whole, twice
    young = scheduled([(hours[0], 1)])
    result["listing"] = young[len(young) // 2 :], young[len(young) // 2 :]
    if exchange not in HOURLY:
        for step in (12, 24):
            result[f"{step} h"] = scheduled([(step, 1)]), scheduled([(step, 1)])
        phases = scheduled([(8, 30), (4, 12), (1, 24), (6, 4), (8, 1)])
        result["phases"] = phases, phases
        longer = scheduled([(8, 30), (4, 14), (1, 24), (6, 14), (8, 1)])
        result["phases with gaps"] = longer, with_gaps_in_phases(longer)
    return result


CASES = [(exchange, name) for exchange in PAYING for name in schedules(exchange)]
HALTS = [
    (exchange, name)
    for exchange in PAYING
    if exchange not in ONE_AN_HOUR
    for name in ("2 after 5 s", "4 after 45 s", "8 after 1200 s", "2 after 1200 s", "8 after 5 s")
]


# Every venue has some cases in the gate, and all with the long profile.
@pytest.mark.parametrize(("exchange", "name"), some(CASES, 5))
def test_payments_equal_their_schedule(
    exchange: str, name: str, fill: Any, archive: Archive, fakes: Fakes, monkeypatch: pytest.MonkeyPatch
) -> None:
    paid, listed = schedules(exchange)[name]
    monkeypatch.setattr(fakes.truth, "payments", lambda venue, symbol: listed)
    done = fill(TABLE, exchange, unconfirmed=exchange in UNVERIFIED)
    assert all("incomplete" in text for text in done.failed), done.failed
    first = hold(archive, paid, listed)
    assert (first <= WINDOW) == (name != "listing")
    if listed != paid:
        assert done.failed
        monkeypatch.setattr(fakes.truth, "payments", lambda venue, symbol: paid)
        again = fill(TABLE, exchange, unconfirmed=exchange in UNVERIFIED)
        assert again.failed == []
        assert again.written == {(exchange, TABLE): len(paid) - len(listed)}
        hold(archive, paid, paid)


@pytest.mark.parametrize(("exchange", "name"), some(HALTS, 3))
def test_payments_after_a_halt_are_stored_as_one_row(
    exchange: str, name: str, fill: Any, archive: Archive, fakes: Fakes, monkeypatch: pytest.MonkeyPatch
) -> None:
    halt = halts(exchange)[name]
    monkeypatch.setattr(fakes.truth, "payments", lambda venue, symbol: halt.listed)
    done = fill(TABLE, exchange, unconfirmed=exchange in UNVERIFIED)
    assert done.failed == []
    rows = archive.read(TABLE)
    first = int(rows["time"].min().timestamp())
    expected = [row for row in halt.rows if first <= row[0] < STOP]
    assert first <= WINDOW
    assert rows["time"].tolist() == [pd.Timestamp(row[0], unit="s", tz="UTC") for row in expected]
    assert rows["payment_count"].tolist() == [row[3] for row in expected]
    assert rows["interval_hours"].tolist() == [row[1] for row in expected]
    np.testing.assert_allclose(rows["rate_native"], [row[2] for row in expected], rtol=1e-4)
    np.testing.assert_allclose(rows["rate_bps_8h"], [row[2] * 8e4 / row[1] for row in expected], rtol=1e-4)
    last = dd.analysis.funding.cumulative(dd.panel(rows), gaps="skip").isel(time=-1)
    np.testing.assert_allclose(last["funding_bps"].item(), sum(row[2] for row in expected) * 1e4, rtol=1e-4)
    assert last["missing_hours"].item() == 0
    assert fill(TABLE, exchange, unconfirmed=exchange in UNVERIFIED).written == {}


@pytest.mark.parametrize(
    ("exchange", "name", "last"), some([(*case, last) for case in HALTS for last in (1, 3)], 11)
)
def test_backfill_ending_within_a_halt_is_completed_by_the_next_one(
    exchange: str,
    name: str,
    last: int,
    fill: Any,
    archive: Archive,
    fakes: Fakes,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The first one ends before the second or the last late payment."""
    halt = halts(exchange)[name]
    late = [row for row in halt.listed if row[0] % HOUR]
    end = late[min(last, len(late) - 1)][0] - 3
    listed = [row for row in halt.listed if row[0] < end]
    monkeypatch.setattr(fakes.truth, "payments", lambda venue, symbol: listed)
    options: dict[str, Any] = {"unconfirmed": exchange in UNVERIFIED}
    fill(TABLE, exchange, end=f"{pd.Timestamp(end, unit='s')}Z", **options)
    monkeypatch.setattr(fakes.truth, "payments", lambda venue, symbol: halt.listed)
    fill(TABLE, exchange, **options)
    rows = archive.read(TABLE)
    first = int(rows["time"].min().timestamp())
    expected = [row for row in halt.rows if first <= row[0] < STOP]
    assert rows["time"].tolist() == [pd.Timestamp(row[0], unit="s", tz="UTC") for row in expected]
    assert rows["payment_count"].tolist() == [row[3] for row in expected]
    np.testing.assert_allclose(rows["rate_native"], [row[2] for row in expected], rtol=1e-4)


@pytest.mark.parametrize("exchange", ["dydx", "okx"])
def test_a_backfill_names_a_payment_that_contradicts_a_stored_one(
    exchange: str, fill: Any, archive: Archive, fakes: Fakes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next backfill requests the hour again in which the first one ended."""
    paid = scheduled([(1 if exchange in HOURLY else 8, 1)])
    place = len(paid) // 2
    second, hours, rate = paid[place]
    monkeypatch.setattr(fakes.truth, "payments", lambda venue, symbol: paid)
    fill(TABLE, exchange, end=f"{pd.Timestamp(second + 600, unit='s')}Z")
    other = [*paid[:place], (second, hours, rate * 3), *paid[place + 1 :]]
    monkeypatch.setattr(fakes.truth, "payments", lambda venue, symbol: other)
    done = fill(TABLE, exchange)
    time = pd.Timestamp(second, unit="s", tz="UTC")
    stamp = f"{time:%Y-%m-%dT%H:%M:%S.000Z}"
    assert len(done.failed) == 1
    assert f"has two rates: {stamp} with rate {rate:.10g} and {stamp} with rate" in done.failed[0]
    stored = archive.read(TABLE).set_index("time")["rate_native"]
    np.testing.assert_allclose(stored[time], rate, rtol=1e-4)


@pytest.mark.parametrize("exchange", some(PAYING, 3))
def test_single_payment_on_the_listing_day_has_its_interval_or_none(
    exchange: str,
    fill: Any,
    archive: Archive,
    fakes: Fakes,
    clock: SimulatedClock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is counted in any case, and the payments of later days determine its interval."""
    hours = 1 if exchange in HOURLY else 8
    later = "2026-02-04"
    end = int(pd.Timestamp(later, tz="UTC").timestamp())
    seconds = range(STOP - hours * HOUR, end, hours * HOUR)
    paid = [(second, hours, (place % 7 + 1) * 1e-5) for place, second in enumerate(seconds)]
    listed = paid[:1]
    monkeypatch.setattr(fakes.truth, "payments", lambda venue, symbol: listed)
    options: dict[str, Any] = {"unconfirmed": exchange in UNVERIFIED}
    fill(TABLE, exchange, **options)
    lone = archive.read(TABLE)
    assert len(lone) == 1
    np.testing.assert_allclose(lone["rate_native"], paid[0][2], rtol=1e-4)
    assert lone["interval_hours"].isna().all() or lone["interval_hours"].tolist() == [hours]
    listed += paid[1:]
    clock.wait(3 * 86_400)
    fill(TABLE, exchange, end=later, **options)
    rows = archive.read(TABLE)
    assert rows["time"].tolist() == [pd.Timestamp(row[0], unit="s", tz="UTC") for row in paid]
    assert set(rows["interval_hours"]) == {hours}
    np.testing.assert_allclose(rows["rate_native"], [row[2] for row in paid], rtol=1e-4)


def hold(archive: Archive, paid: Schedule, listed: Schedule) -> int:
    """Hold the stored rows to the payments that the venue lists; return the first payment's second."""
    rows = archive.read(TABLE)
    first = int(rows["time"].min().timestamp())
    expected = [row for row in listed if first <= row[0] < STOP]
    assert rows["time"].tolist() == [pd.Timestamp(row[0], unit="s", tz="UTC") for row in expected]
    assert rows["interval_hours"].tolist() == [row[1] for row in expected]
    np.testing.assert_allclose(rows["rate_bps_8h"], [row[2] * 8e4 / row[1] for row in expected], rtol=1e-4)
    np.testing.assert_allclose(rows["rate_native"], [row[2] for row in expected], rtol=1e-4)
    last = dd.analysis.funding.cumulative(dd.panel(rows), gaps="skip").isel(time=-1)
    np.testing.assert_allclose(last["funding_bps"].item(), sum(row[2] for row in expected) * 1e4, rtol=1e-4)
    missing = [row[1] for row in paid if first <= row[0] < STOP and row not in listed]
    assert last["missing_hours"].item() == sum(missing)
    return first


def test_unconfirmed_times_of_payments_come_with_a_notice(fill: Any) -> None:
    notices = fill(TABLE, "kraken", unconfirmed=True).notices
    assert any("whether a stamp is the hour's start or end is unconfirmed" in text for text in notices)
    assert fill(TABLE, "binance").notices == []
