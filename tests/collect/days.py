"""Hours of collecting on a simulated clock, held to what the fake venues know to have happened."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

import numpy as np
import pandas as pd

from derivdata.sources.archive import Archive
from derivdata.sources.collect.collector import Collector
from derivdata.sources.collect.reporting import Minute
from tests.collect.clocks import EventClock
from tests.collect.fakes import SYMBOLS, Fakes

TABLES = ("funding_history", "oi_history", "funding_settlements")
OI_HISTORIES = {"binance": 420, "okx": 60, "gateio": 60}
"""Seconds after which open interest is there at the latest, of venues that tell it of the past, too."""


def collect_until(
    archive: Archive,
    fakes: Fakes,
    clock: EventClock,
    end: pd.Timestamp,
    venues: Sequence[str],
    *,
    unconfirmed: bool = False,
) -> list[Minute]:
    """Collect until an instant, as a process does from its start to its end."""
    minutes: list[Minute] = []

    def count(minute: Minute) -> None:
        minutes.append(minute)
        if minute.time >= end:
            clock.stop()

    collector = Collector(
        archive,
        venues=venues,
        symbols=SYMBOLS,
        names=TABLES,
        since=pd.Timedelta(1, "D"),
        clock=clock,
        addresses=fakes.addresses,
        unconfirmed=unconfirmed,
        log=count,
    )
    collector.run()
    collector.close()
    return minutes


def hold_settlements(
    archive: Archive, fakes: Fakes, venues: Sequence[str], first: pd.Timestamp, end: pd.Timestamp
) -> int:
    """Hold the payments of a window to the truth, row for row; return how many there are."""
    rows = archive.read("funding_settlements", first, end)
    count = 0
    for exchange in venues:
        for symbol in SYMBOLS:
            payments = fakes.truth.payments(exchange, symbol)
            truth = [p for p in payments if first.timestamp() <= p[0] < end.timestamp()]
            found = rows[(rows["exchange"] == exchange) & (rows["symbol"] == symbol)]
            stamps = [pd.Timestamp(second, unit="s", tz="UTC") for second, _, _ in truth]
            assert found["time"].tolist() == stamps, (exchange, symbol)
            bps = [rate * 1e4 * 8 / hours for _, hours, rate in truth]
            assert found["interval_hours"].tolist() == [hours for _, hours, _ in truth]
            np.testing.assert_allclose(found["rate_bps_8h"], bps, rtol=1e-9, atol=1e-12)
            count += len(found)
    return count


def hold_open_interest(
    archive: Archive, fakes: Fakes, venues: Sequence[str], first: pd.Timestamp, end: pd.Timestamp
) -> int:
    """Hold open interest to the truth, and each five minutes to a poll or a row of the history."""
    rows = archive.read("oi_history", first, end)
    seconds = rows["time"].astype("int64").to_numpy() // 1_000_000
    truth = [fakes.truth.oi_at(s, int(at)) for s, at in zip(rows["symbol"], seconds, strict=True)]
    np.testing.assert_allclose(rows["oi_usd"], [c * m for _, c, m in truth], rtol=1e-9)
    assert not rows.duplicated(["symbol", "exchange", "time"]).any()
    for exchange in set(venues) & OI_HISTORIES.keys():
        for symbol in SYMBOLS:
            mine = (rows["exchange"] == exchange) & (rows["symbol"] == symbol)
            held = sorted(seconds[mine.to_numpy()].tolist())
            for second in range(int(first.timestamp()), int(end.timestamp()), 300):
                place = bisect_left(held, second)
                assert place < len(held), (exchange, symbol, second)
                assert held[place] < second + OI_HISTORIES[exchange], (exchange, symbol, second)
    return len(rows)


def hold_minutes(archive: Archive, venues: Sequence[str], first: pd.Timestamp, end: pd.Timestamp) -> int:
    """Hold sampled rates to the ledger: a row of each contract in each answered minute, and no other."""
    rows = archive.read("funding_history", first, end)
    ledger = archive.requests()
    asked = ledger[(ledger["table"] == "funding_history") & ledger["answered"]]
    count = 0
    for exchange in venues:
        windows = asked.loc[asked["exchange"] == exchange, ["start", "end"]].itertuples(index=False)
        minutes = {
            at
            for window in windows
            for at in pd.date_range(window.start, window.end, freq="min", inclusive="left")
            if first <= at < end
        }
        for symbol in SYMBOLS:
            mine = rows[(rows["exchange"] == exchange) & (rows["symbol"] == symbol)]
            assert not mine["time"].duplicated().any(), (exchange, symbol)
            assert len(mine) == len(minutes), (exchange, symbol)
        count += len(minutes)
    return count
