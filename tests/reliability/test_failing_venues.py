"""How venues misbehave, each as the specification says, and what is collected all the same: row for row."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pandas as pd
import pytest

from derivdata.sources.archive import Archive
from derivdata.sources.venues.hyperliquid import DEXES
from tests.collect.clocks import EventClock
from tests.collect.conftest import archive, clock, fakes, fill
from tests.collect.days import collect_until, hold_minutes, hold_settlements
from tests.collect.direct import faked
from tests.collect.fakes import SYMBOLS, Fakes
from tests.reliability.promises import SOAK

__all__ = ["archive", "clock", "fakes", "fill"]

NOW = "2026-02-01T00:30:00"
LAST = int(pd.Timestamp(NOW, tz="UTC").timestamp())
DAY = pd.Timestamp("2026-01-20", tz="UTC")
MINUTE = pd.Timedelta(1, "min")
PAYING = ["binance", "bybit", "okx", "gateio", "bitget", "aster", "kucoin", "mexc", "huobi"]  # not each hour
HOURLY = ["deribit", "hyperliquid", "dydx", "lighter", "derive"]
START, END = ("2026-01-01" if SOAK else "2026-01-29"), "2026-02-01"


def test_dexes_of_hyperliquid_are_venues_whose_month_and_minute_are_the_truth(
    archive: Archive, fakes: Fakes, fill: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    start, end = (pd.Timestamp(at, tz="UTC") for at in (START, END))
    venues = ["hyperliquid", *DEXES]
    assert fill("funding_settlements", *venues, unconfirmed=True).failed == []
    hours = (end - start) // pd.Timedelta(1, "h")
    assert hold_settlements(archive, fakes, venues, start, end) == len(venues) * len(SYMBOLS) * hours
    asked = [params["coin"] for name, _, params, _ in fakes.log if "coin" in params and name == "tradexyz"]
    assert set(asked) == {"xyz:BTC", "xyz:ETH"}
    running = EventClock(DAY + pd.Timedelta("10:30:30"))
    told = faked(LAST, running, monkeypatch)
    minutes = collect_until(archive, told, running, running.utc() + 2 * MINUTE, venues, unconfirmed=True)
    assert [minute.failed for minute in minutes] == [{}] * len(minutes)
    polls = len(venues) * sum(bool(minute.rows) for minute in minutes)
    assert hold_minutes(archive, venues, DAY, DAY + pd.Timedelta(1, "D")) == polls > 0
    rows = archive.read("funding_history", DAY, DAY + pd.Timedelta(1, "D"))
    assert set(rows["symbol"]) == set(SYMBOLS)
    assert rows["rate_bps_8h"].unique().tolist() == [pytest.approx(1.0)]


def test_a_venue_whose_clock_is_20_s_ahead_keeps_its_stamps(
    archive: Archive, monkeypatch: pytest.MonkeyPatch
) -> None:
    running, ahead = EventClock(DAY + pd.Timedelta("10:30:30")), pd.Timedelta(20, "s")
    told = faked(LAST, running, monkeypatch)
    told.skews = {"okx": ahead}
    minutes = collect_until(archive, told, running, running.utc() + 4 * MINUTE, ["okx"])
    rows = archive.read("funding_history", DAY, DAY + pd.Timedelta(1, "D"))
    stamps = rows.loc[rows["symbol"] == "BTC", "time"] - ahead
    polled = [minute.time.floor("min") for minute in minutes if minute.rows]
    assert stamps.dt.floor("min").tolist() == polled


@pytest.mark.parametrize("exchange", [*PAYING, *HOURLY] if SOAK else ["bybit", "gateio", "huobi", "dydx"])
def test_payments_made_late_bear_the_hour_within_a_minute_and_their_own_stamp_after_it(
    exchange: str, archive: Archive, fakes: Fakes, fill: Any
) -> None:
    """At 08:00:40 and 16:05:00; the intervals of these and the next are those of the venue all the same."""
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
    wanted = [pd.Timestamp(second, unit="s", tz="UTC") for second, *_ in truth]
    assert rows["time"].dt.floor("min").tolist() == wanted
    assert rows["interval_hours"].tolist() == [hours for _, hours, _ in truth]
    assert rows["rate_bps_8h"].tolist() == pytest.approx([bps for *_, bps in truth], abs=1e-9)


@pytest.mark.parametrize("exchange", PAYING if SOAK else ["bybit", "gateio", "mexc"])
def test_windows_that_begin_in_the_middle_of_a_change_of_interval_are_the_truth(
    exchange: str, archive: Archive, fakes: Fakes, fill: Any
) -> None:
    """Eight hours until the 12th, four on it, one on the 13th, eight again: asked in five pieces."""
    edges = ["2026-01-11T20:00", "2026-01-12T06:00", "2026-01-12T21:00", "2026-01-13T02:30",
             "2026-01-13T03:30", "2026-01-15T00:00"]  # fmt: skip
    for start, end in pairwise(edges):
        assert fill("funding_settlements", exchange, start=start, end=end).failed == []
    first, last = (pd.Timestamp(at, tz="UTC") for at in (edges[0], edges[-1]))
    assert hold_settlements(archive, fakes, [exchange], first, last) > 60
    rows = archive.read("funding_settlements", first, last)
    truth = [
        hours
        for second, hours, _ in fakes.truth.payments(exchange, "BTC")
        if first.timestamp() <= second < last.timestamp()
    ]
    assert rows.loc[rows["symbol"] == "BTC", "interval_hours"].tolist() == truth
    assert set(truth) == {8, 4, 1}
