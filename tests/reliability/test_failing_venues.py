"""How venues misbehave, each as the specification says, and what is collected all the same: row for row."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from derivdata.sources.archive import Archive, open_archive
from derivdata.sources.collect import backfill
from derivdata.sources.collect.collector import Collector
from derivdata.sources.collect.reporting import Minute
from derivdata.sources.venues.hyperliquid import DEXES
from tests.collect.clocks import EventClock
from tests.collect.days import hold_minutes, hold_settlements
from tests.collect.direct import connect_directly, faked
from tests.collect.fakes import SYMBOLS, Fakes, SimulatedClock
from tests.reliability.promises import SOAK

LAST = int(pd.Timestamp("2026-02-01T00:30", tz="UTC").timestamp())
DAY = pd.Timestamp("2026-01-20", tz="UTC")
MINUTE = pd.Timedelta(1, "min")
PAYING = ["binance", "bybit", "okx", "gateio", "bitget", "aster", "kucoin", "mexc", "huobi"]  # not each hour
HOURLY = ["deribit", "hyperliquid", "dydx", "lighter", "derive"]
FIRST = "2026-01-01" if SOAK else "2026-01-29"


@pytest.fixture
def archive(tmp_path: Path) -> Archive:
    return open_archive(tmp_path / "market")


@pytest.fixture
def fakes(monkeypatch: pytest.MonkeyPatch) -> tuple[Fakes, SimulatedClock]:
    """Venues at the end of January, asked without sockets."""
    clock = SimulatedClock("2026-02-01T00:30:00")
    made = faked(LAST, clock, monkeypatch)
    return made, clock


def _fill(
    archive: Archive, fakes: tuple[Fakes, SimulatedClock], start: str, end: str, *venues: str, **options: Any
) -> Any:
    told, clock = fakes
    names = options.pop("names", ["funding_settlements"])
    where = {"clock": clock, "addresses": told.addresses, **options}
    return backfill(archive, SYMBOLS, start, end, venues=venues, names=names, **where)


def _collected(
    archive: Archive,
    patch: pytest.MonkeyPatch,
    start: pd.Timestamp,
    end: pd.Timestamp,
    venues: list[str],
    *,
    symbols: tuple[str, ...] = (),
    **behaviours: Any,
) -> tuple[Fakes, list[Minute]]:
    """Collect from one instant to another; return the venues and what each minute brought."""
    clock, minutes = EventClock(start), []
    told = Fakes(LAST, clock.utc)
    for name, value in behaviours.items():
        setattr(told, name, value)
    connect_directly(told, clock, patch)

    def count(minute: Minute) -> None:
        minutes.append(minute)
        if minute.time >= end:
            clock.stop()

    tables = ["funding_history", "oi_history", "funding_settlements"]
    collector = Collector(
        archive, venues=venues, symbols=symbols, names=tables, clock=clock, addresses=told.addresses,
        unconfirmed=True, since=pd.Timedelta(1, "D"), log=count,
    )  # fmt: skip
    collector.run()
    collector.close()
    return told, minutes


def _times(archive: Archive, exchange: str, symbol: str, table: str = "funding_history") -> pd.Series:
    rows = archive.read(table, DAY - pd.Timedelta(30, "D"), DAY + pd.Timedelta(30, "D"))
    return rows.loc[(rows["exchange"] == exchange) & (rows["symbol"] == symbol), "time"]


def test_dexes_of_hyperliquid_are_venues_whose_month_and_minute_are_the_truth(
    archive: Archive, fakes: tuple[Fakes, SimulatedClock], monkeypatch: pytest.MonkeyPatch
) -> None:
    start, end = (pd.Timestamp(at, tz="UTC") for at in (FIRST, "2026-02-01"))
    venues = ["hyperliquid", *DEXES]
    done = _fill(archive, fakes, FIRST, "2026-02-01", *venues, unconfirmed=True)
    assert done.failed == []
    hours = (end - start) // pd.Timedelta(1, "h")
    assert hold_settlements(archive, fakes[0], venues, start, end) == len(venues) * len(SYMBOLS) * hours
    asked = [params["coin"] for name, _, params, _ in fakes[0].log if "coin" in params and name == "tradexyz"]
    assert set(asked) == {"xyz:BTC", "xyz:ETH"}
    at = DAY + pd.Timedelta("10:30:30")
    _, minutes = _collected(archive, monkeypatch, at, at + 2 * MINUTE, venues)
    assert [minute.failed for minute in minutes] == [{}] * len(minutes)
    assert hold_minutes(archive, venues, DAY, DAY + pd.Timedelta(1, "D")) == len(venues) * len(minutes)
    rows = archive.read("funding_history", DAY, DAY + pd.Timedelta(1, "D"))
    assert set(rows["symbol"]) == set(SYMBOLS)
    assert rows["rate_bps_8h"].unique().tolist() == [pytest.approx(1.0)]


def test_a_venue_whose_clock_is_20_s_ahead_keeps_its_stamps(
    archive: Archive, monkeypatch: pytest.MonkeyPatch
) -> None:
    at, ahead = DAY + pd.Timedelta("10:30:30"), pd.Timedelta(20, "s")
    _, minutes = _collected(archive, monkeypatch, at, at + 4 * MINUTE, ["okx"], skews={"okx": ahead})
    polled = [minute.time.floor("min") for minute in minutes]
    assert (_times(archive, "okx", "BTC") - ahead).dt.floor("min").tolist() == polled


@pytest.mark.parametrize("exchange", [*PAYING, *HOURLY] if SOAK else ["bybit", "gateio", "huobi", "dydx"])
def test_payments_made_late_bear_the_hour_within_a_minute_and_their_own_stamp_after_it(
    exchange: str, archive: Archive, fakes: tuple[Fakes, SimulatedClock]
) -> None:
    """At 08:00:40 and 16:05:00; the intervals of these and the next are those of the venue all the same."""
    told, _ = fakes
    eight, sixteen = (int((DAY + pd.Timedelta(hours, "h")).timestamp()) for hours in (8, 16))
    told.truth.late = {eight: 40, sixteen: 300}
    done = _fill(archive, fakes, "2026-01-19", "2026-01-22", exchange)
    assert done.failed == []
    rows = archive.read("funding_settlements", DAY - pd.Timedelta(1, "D"), DAY + pd.Timedelta(2, "D"))
    rows = rows[rows["symbol"] == "BTC"]
    truth = [
        (second - 40 if second == eight + 40 else second, hours, rate * 1e4 * 8 / hours)
        for second, hours, rate in told.truth.payments(exchange, "BTC")
        if DAY.timestamp() - 86_400 <= second < DAY.timestamp() + 2 * 86_400
    ]
    wanted = [pd.Timestamp(second, unit="s", tz="UTC") for second, *_ in truth]
    assert rows["time"].dt.floor("min").tolist() == wanted
    assert rows["interval_hours"].tolist() == [hours for _, hours, _ in truth]
    assert rows["rate_bps_8h"].tolist() == pytest.approx([bps for *_, bps in truth], abs=1e-9)


@pytest.mark.parametrize("exchange", PAYING if SOAK else ["bybit", "gateio", "mexc"])
def test_windows_that_begin_in_the_middle_of_a_change_of_interval_are_the_truth(
    exchange: str, archive: Archive, fakes: tuple[Fakes, SimulatedClock]
) -> None:
    """Eight hours until the 12th, four on it, one on the 13th, eight again: asked in five pieces."""
    edges = ["2026-01-11T20:00", "2026-01-12T06:00", "2026-01-12T21:00", "2026-01-13T02:30",
             "2026-01-13T03:30", "2026-01-15T00:00"]  # fmt: skip
    for start, end in pairwise(edges):
        assert _fill(archive, fakes, start, end, exchange).failed == []
    first, last = (pd.Timestamp(at, tz="UTC") for at in (edges[0], edges[-1]))
    assert hold_settlements(archive, fakes[0], [exchange], first, last) > 60
    rows = archive.read("funding_settlements", first, last)
    truth = [
        hours
        for second, hours, _ in fakes[0].truth.payments(exchange, "BTC")
        if first.timestamp() <= second < last.timestamp()
    ]
    assert rows.loc[rows["symbol"] == "BTC", "interval_hours"].tolist() == truth
    assert set(truth) == {8, 4, 1}
