"""Liquidations and books by request and by stream, compared with the truth of the fake venues."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pandas as pd
import pytest

from derivdata import tables
from derivdata.sources import venues
from derivdata.sources.archive import Archive
from derivdata.sources.archive.ledger import LedgerEntry
from derivdata.sources.collect.history_rows import has_two_paths
from derivdata.sources.collect.reporting import Minute
from derivdata.sources.venues.registry import VENUES
from derivdata.support.times import Window
from tests.collect import lists

START, END = pd.Timestamp("2026-01-20T04:00", tz="UTC"), pd.Timestamp("2026-01-20T06:00", tz="UTC")
TABLE = "liquidations_fills"
OF_ALL = ("gateio", "deribit", "bitget")
WITH_INVERSE = ("kraken", "okx")  # whose lists are of one contract, and a symbol has two


def _truth(symbol: str, start: pd.Timestamp, end: pd.Timestamp, *, of_seconds: bool) -> Counter[Any]:
    """(second or millisecond, symbol, side, USD) of what happened in a half-open window."""
    unit = 1000 if of_seconds else 1
    result = (
        (event.ms // unit * unit, symbol[:3], "long" if event.is_long else "short", round(event.value))
        for event in lists.liquidated(symbol, start.timestamp(), end.timestamp())
    )
    return Counter(row for row in result if start.timestamp() <= row[0] / 1000 < end.timestamp())


def _rows(archive: Archive, exchange: str, start: pd.Timestamp, end: pd.Timestamp) -> Counter[Any]:
    rows = archive.read(TABLE, start, end, venues=[exchange])
    return Counter(
        (round(time.timestamp() * 1000), str(symbol), str(side), round(value))
        for time, symbol, side, value in zip(
            rows["time"], rows["symbol"], rows["side"], rows["value_usd"], strict=True
        )
    )


@pytest.mark.parametrize("exchange", [*OF_ALL, "dydx", "kraken", "paradex", "okx"])
def test_backfilled_liquidations_equal_the_truth(exchange, fill, archive, fakes) -> None:
    start, end = pd.Timestamp("2026-01-20T04:10:07", tz="UTC"), pd.Timestamp("2026-01-20T10:00", tz="UTC")
    done = fill(TABLE, exchange, start=start, end=end, unconfirmed=True)
    assert done.failed == []
    symbols: tuple[str, ...] = lists.SYMBOLS if exchange in OF_ALL else ("BTC",)
    symbols += (lists.inverse("BTC"),) if exchange in WITH_INVERSE else ()
    expected = sum(
        (_truth(symbol, start, end, of_seconds=exchange == "gateio") for symbol in symbols), Counter()
    )
    assert _rows(archive, exchange, start, end) == expected
    assert max(expected.values()) == 3, "equal fills of one instant are rows of their own"
    requests = len(fakes.log)
    fill(TABLE, exchange, start=start, end=end, unconfirmed=True)
    listing = {"/perpetualMarkets", "/markets", "instruments", "/contracts"}
    again = [place for _, place, _, _ in fakes.log[requests:] if not any(word in place for word in listing)]
    assert again == [], "what was answered is not asked again"


def test_list_without_a_window_covers_time_from_its_oldest_row(fill: Any, archive: Archive) -> None:
    start, end = pd.Timestamp("2026-01-19T10:30", tz="UTC"), pd.Timestamp("2026-01-20T10:30", tz="UTC")
    done = fill(TABLE, "huobi", start=start, end=end)
    ledger = archive.requests().set_index("answered")
    whole_from = ledger.loc[True, "start"]
    assert ledger.loc[False, "end"] == whole_from
    assert "the list of the venue begins at" in ledger.loc[False, "error"]
    assert len(done.failed) == 1
    rows = archive.read(TABLE, start, end)
    assert rows["time"].min() == whole_from - pd.Timedelta(1, "us"), "the oldest instant may be cut"
    assert _rows(archive, "huobi", whole_from, end) == _truth("BTC", whole_from, end, of_seconds=False)


@pytest.mark.parametrize("exchange", ["gateio", "deribit", "dydx"])
def test_polls_store_each_liquidation_once_despite_failures(
    exchange, make_collector, archive, fakes, clock
) -> None:
    start = clock.utc()
    minutes: list[Any] = []

    def log(minute: Any) -> None:
        minutes.append(minute)
        if len(minutes) in (4, 9):
            fakes.faults[exchange] = [(400, {}, {"label": "X", "error": {"code": 1, "message": "x"}})] * 30
        if len(minutes) in (6, 10):
            fakes.faults[exchange] = []
        if len(minutes) == 20:
            clock.stop()

    make_collector(exchange, symbols=["BTC", "ETH"], names=[TABLE], log=log).run()
    assert any(minute.failed for minute in minutes)
    # The refill of the day before is entered, too, and ends at the hour before the first poll.
    answered = archive.requests().query("answered and table == @TABLE and end > @start")
    end = answered["end"].min()
    assert end > start + pd.Timedelta("15min")
    expected: Counter[Any] = Counter()
    for symbol in lists.SYMBOLS:
        expected += _truth(symbol, start, end, of_seconds=exchange == "gateio")
    assert len(expected) > 3
    assert _rows(archive, exchange, start, end) == expected


def test_books_of_chosen_symbols_are_kept_in_coins_with_their_depth(
    make_collector: Any, archive: Archive
) -> None:
    names = ("binance", "okx", "gateio")
    make_collector(*names, depth=["BTC"]).once()
    day = pd.Timestamp("2026-01-20", tz="UTC"), pd.Timestamp("2026-01-21", tz="UTC")
    book = archive.read("orderbook_book", *day).groupby(["exchange", "side"], observed=True)["size"].sum()
    assert book.unstack()[["bid", "ask"]].loc[[*names]].to_numpy().tolist() == [[3.0, 7.0]] * 3
    depth = archive.read("orderbook_depth_history", *day).set_index(["exchange", "depth_bps"])
    # The middle is 100.5: 50 bps reach from 99.9975 to 101.0025, and 100 bps no further level.
    assert depth.loc[("binance", 50), ["bid_depth_usd", "ask_depth_usd"]].tolist() == [100.0, 303.0]
    ledger = archive.requests().query("table == 'orderbook_book'")
    assert ledger["answered"].all()
    assert ledger["symbol"].tolist() == ["BTC"] * 3


def test_unexpected_body_is_stored_and_stops_only_its_table(make_collector, archive, fakes, clock) -> None:
    collector = make_collector("okx")
    broken = {"code": "0", "msg": "", "data": [{"instId": 3}]}
    fakes.faults["okx"] = [None, None, broken]
    collector.once()
    assert list(collector.failed) == ["okx funding_history"]
    wrong = "Expected `str`, got `int` - at `$.data[0].instId`"
    assert f"{wrong} (body stored as okx-" in collector.failed["okx funding_history"]
    assert wrong in archive.requests().set_index("table")["error"]["funding_history"]
    assert "funding_history" not in archive.tables()
    (path,) = (archive.path / "quarantine").iterdir()
    said = pd.read_json(path, typ="series")
    assert said["request"] == "/api/v5/public/funding-rate?instId=ANY"
    assert said["body"] == '{"code": "0", "msg": "", "data": [{"instId": 3}]}'
    assert {"oi_history", "markets_symbol_exchanges", "options_snapshot"} <= archive.tables()
    clock.wait(60)
    fakes.faults["okx"] = [broken]
    collector.once()
    assert len([*(archive.path / "quarantine").iterdir()]) == 1, "the same trouble is kept once"
    clock.wait(60)
    collector.once()
    assert collector.failed == {}
    assert "funding_history" in archive.tables()


_NAMES = [f"{symbol}_USDT" for symbol in lists.SYMBOLS]
_LISTED = {"quote": "USDT", "is_inverse": False, "is_perpetual": True, "is_active": True}
SIZES = pd.DataFrame(
    {"exchange": "gateio", "instrument_name": _NAMES, "symbol": lists.SYMBOLS, "contract_size": 1e-4}
    | _LISTED
)


def _events(start: pd.Timestamp, end: pd.Timestamp) -> list[tuple[str, lists.Event]]:
    results = [(s, e) for s in lists.SYMBOLS for e in lists.liquidated(s, start.timestamp(), end.timestamp())]
    return sorted(results, key=lambda pair: pair[1].ms)


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
    """Compare stored rows with the truth: each event once, from either path."""
    rows = archive.read(TABLE, start, end)
    result = sorted(zip(rows["symbol"], rows["side"], rows["quantity"].round(6), strict=True))
    truth = sorted((s, "long" if e.is_long else "short", float(e.coins)) for s, e in _events(start, end))
    assert result == truth


def test_gap_in_the_stream_is_filled_without_duplicates(fill: Any, archive: Archive) -> None:
    """The stream's clock is 400 ms ahead of the window's, so rows at both edges are in the gap."""
    before = _events(START, START + pd.Timedelta(40, "min"))
    after = _events(START + pd.Timedelta(80, "min"), END)
    gap = Window(
        pd.Timestamp(before[-1][1].ms - 300, unit="ms", tz="UTC"),
        pd.Timestamp(after[0][1].ms + 300, unit="ms", tz="UTC"),
    )
    entries = [LedgerEntry("gateio", None, START, gap.start), LedgerEntry("gateio", None, gap.end, END)]
    archive.merge(TABLE, _pushed(before + after), requests=entries)
    fill(TABLE, "gateio")
    assert len(before) > 3
    assert len(after) > 3
    _hold(archive, START, END)
    assert archive.unanswered(TABLE, "gateio", None, START, END) == []


def test_event_in_the_last_second_of_the_stream_is_stored(fill, archive) -> None:
    """The list truncates its time to the second, which is before the gap."""
    events = _events(START, END)
    single = next(item[1] for item in events if item[1].ms % 1000 > 200 and events.count(item) == 1)
    gap = pd.Timestamp(single.ms - 100, unit="ms", tz="UTC")
    before = [pair for pair in events if pair[1].ms < single.ms - 100]
    archive.merge(TABLE, _pushed(before), requests=[LedgerEntry("gateio", None, START, gap)])
    fill(TABLE, "gateio")
    _hold(archive, START, END)


def test_polls_do_not_repeat_events_of_an_earlier_stream(make_collector, archive, clock) -> None:
    events = _events(START, END)
    last = events[len(events) // 2][1]
    stopped = pd.Timestamp(last.ms + 500, unit="ms", tz="UTC")
    archive.merge(
        TABLE,
        _pushed([pair for pair in events if pair[1].ms <= last.ms]),
        requests=[LedgerEntry("gateio", None, START, stopped)],
    )
    clock._now = stopped + pd.Timedelta(20, "s")
    collector = make_collector("gateio", names=[TABLE])
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


def test_stream_does_not_repeat_events_of_earlier_polls(
    make_collector: Any, fill: Any, archive: Archive
) -> None:
    fill(TABLE, "gateio", end=START + pd.Timedelta(1, "h"))
    stored = len(archive.read(TABLE, START, END))
    listened = START + pd.Timedelta(50, "min")  # what is pushed again when a connection begins
    collector = make_collector("gateio", names=[TABLE], streams=["gateio"])
    again = _events(listened, START + pd.Timedelta(1, "h"))
    new = _events(START + pd.Timedelta(61, "min"), END)
    place = next(i for i in range(3, len(new)) if new[i] != new[i - 1])  # equal ones come in one frame
    drains = _pushed(again + new[:place]), _pushed(new[place:])
    collector._streams["gateio"] = Stub(*drains)  # type: ignore[assignment]
    for _ in range(2):
        collector._write_liquidations(Minute(END))
    assert len(again) > 1
    assert len(archive.read(TABLE, START, END)) == stored + len(new)


def test_equal_events_of_one_second_from_one_path_are_all_stored(
    make_collector: Any, archive: Archive
) -> None:
    """One in the last frame of a minute, another half a second later in the first of the next."""
    collector = make_collector("gateio", names=[TABLE], streams=["gateio"])
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
