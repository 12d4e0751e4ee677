"""A venue that changes between its stream and its list stores each liquidation once."""

from __future__ import annotations

import json
from typing import Any

import pandas as pd

from derivdata import tables
from derivdata.sources import venues
from derivdata.sources.archive import Archive
from derivdata.sources.archive.ledger import LedgerEntry
from derivdata.sources.collect.liquidations import has_two_paths
from derivdata.sources.collect.reporting import Minute
from derivdata.sources.venues.registry import VENUES
from derivdata.support.times import Window
from tests.collect import lists

NOW, TABLE = "2026-01-20T06:10:00", "liquidations_fills"
START, END = pd.Timestamp("2026-01-20T04:00", tz="UTC"), pd.Timestamp("2026-01-20T06:00", tz="UTC")
LAST = int(pd.Timestamp("2026-01-21", tz="UTC").timestamp())
_NAMES = [f"{symbol}_USDT" for symbol in lists.SYMBOLS]
_LISTED = {"quote": "USDT", "is_inverse": False, "is_perpetual": True, "is_active": True}
SIZES = pd.DataFrame(
    {"exchange": "gateio", "instrument_name": _NAMES, "symbol": lists.SYMBOLS, "contract_size": 1e-4}
    | _LISTED
)


def _events(start: pd.Timestamp, end: pd.Timestamp) -> list[tuple[str, lists.Event]]:
    found = [(s, e) for s in lists.SYMBOLS for e in lists.liquidated(s, start.timestamp(), end.timestamp())]
    return sorted(found, key=lambda pair: pair[1].ms)


def _pushed(events: list[tuple[str, lists.Event]], late_ms: int = 0) -> pd.DataFrame:
    """The rows of Gate's stream about some events: milliseconds, the order's price, and no fill."""
    rows = [
        {
            "contract": f"{symbol}_USDT",
            "time_ms": event.ms + late_ms,
            "size": str((1 if event.is_long else -1) * event.coins * 10000),
            "price": str(event.price - 1),
        }
        for symbol, event in events
    ]
    frame = {"channel": "futures.public_liquidates", "event": "update", "result": rows}
    context = {"instruments": SIZES}
    return venues.read("gateio", "futures.public_liquidates", json.dumps(frame), context=context)[TABLE]


def _hold(archive: Archive, start: pd.Timestamp, end: pd.Timestamp) -> None:
    """Hold what is stored to the truth: each event once, by whichever path."""
    rows = archive.read(TABLE, start, end)
    found = sorted(zip(rows["symbol"], rows["side"], rows["quantity"].round(6), strict=True))
    truth = sorted((s, "long" if e.is_long else "short", float(e.coins)) for s, e in _events(start, end))
    assert found == truth


def test_a_gap_between_two_spans_of_the_stream_is_filled_without_doubles(fill: Any, archive: Archive) -> None:
    """The stream's clock is 400 ms ahead of the window's: rows of both its edges lie in the gap."""
    before = _events(START, START + pd.Timedelta(40, "min"))
    after = _events(START + pd.Timedelta(80, "min"), END)
    gap = Window(
        pd.Timestamp(before[-1][1].ms - 300, unit="ms", tz="UTC"),
        pd.Timestamp(after[0][1].ms + 300, unit="ms", tz="UTC"),
    )
    asked = [LedgerEntry("gateio", None, START, gap.start), LedgerEntry("gateio", None, gap.end, END)]
    archive.merge(TABLE, _pushed(before + after), requests=asked)
    fill(TABLE, "gateio")
    assert len(before) > 3
    assert len(after) > 3
    _hold(archive, START, END)
    assert archive.unanswered(TABLE, "gateio", None, START, END) == []


def test_an_event_within_the_second_in_which_the_stream_ended_is_not_lost(fill, archive) -> None:
    """The list cuts its instant to the second, which lies before the gap."""
    events = _events(START, END)
    single = next(one[1] for one in events if one[1].ms % 1000 > 200 and events.count(one) == 1)
    gap = pd.Timestamp(single.ms - 100, unit="ms", tz="UTC")
    before = [pair for pair in events if pair[1].ms < single.ms - 100]
    archive.merge(TABLE, _pushed(before), requests=[LedgerEntry("gateio", None, START, gap)])
    fill(TABLE, "gateio")
    _hold(archive, START, END)


def test_polls_after_a_run_with_the_stream_store_nothing_again(made, archive, clock) -> None:
    events = _events(START, END)
    last = events[len(events) // 2][1]
    stopped = pd.Timestamp(last.ms + 500, unit="ms", tz="UTC")
    archive.merge(
        TABLE,
        _pushed([pair for pair in events if pair[1].ms <= last.ms]),
        requests=[LedgerEntry("gateio", None, START, stopped)],
    )
    clock._now = stopped + pd.Timedelta(20, "s")
    collector = made("gateio", names=[TABLE])
    for _ in range(6):
        collector.once()
        clock.wait(60)
    _hold(archive, START, (clock.utc() - pd.Timedelta(2, "min")).floor("s"))


class Stub:
    """A stream that has these rows for the next minutes."""

    def __init__(self, *drains: pd.DataFrame) -> None:
        self.drains = list(drains)

    def drain(self) -> tuple[dict[str, pd.DataFrame], list[Window], str]:
        return {TABLE: self.drains.pop(0)}, [], ""


def test_a_stream_after_a_run_with_polls_stores_nothing_again(made: Any, fill: Any, archive: Archive) -> None:
    fill(TABLE, "gateio", end=START + pd.Timedelta(1, "h"))
    stored = len(archive.read(TABLE, START, END))
    listened = START + pd.Timedelta(50, "min")  # what is pushed again when a connection begins
    collector = made("gateio", names=[TABLE], streams=["gateio"])
    again = _events(listened, START + pd.Timedelta(1, "h"))
    new = _events(START + pd.Timedelta(61, "min"), END)
    place = next(i for i in range(3, len(new)) if new[i] != new[i - 1])  # equal ones come in one frame
    drains = _pushed(again + new[:place]), _pushed(new[place:])
    collector._streams["gateio"] = Stub(*drains)  # type: ignore[assignment]
    for _ in range(2):
        collector._write_liquidations(Minute(END))
    assert len(again) > 1
    assert len(archive.read(TABLE, START, END)) == stored + len(new)


def test_equal_events_of_one_second_that_came_by_one_path_all_stay(made: Any, archive: Archive) -> None:
    """One in the last frame of a minute, another half a second later in the first of the next."""
    collector = made("gateio", names=[TABLE], streams=["gateio"])
    one = _events(START, END)[0]
    pushes = [_pushed([one]), _pushed([one], late_ms=500)]
    collector._streams["gateio"] = Stub(*pushes)  # type: ignore[assignment]
    for _ in pushes:
        collector._write_liquidations(Minute(END))
    rows = archive.read(TABLE, START, END)
    assert len(rows) == 2
    assert rows["order_id"].nunique() == 2


def test_venues_with_two_paths() -> None:
    assert {name for name, venue in VENUES.items() if has_two_paths(venue)} == {
        "okx", "gateio", "huobi", "lighter"
    }  # fmt: skip
    assert tables.TABLES[TABLE].key == ("exchange", "order_id", "fill_id")
