"""Liquidations and books by request, held to what the fake venues know to have happened."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pandas as pd
import pytest

from derivdata.sources.archive import Archive
from tests.collect import lists

NOW = "2026-01-20T10:30:30"
LAST = int(pd.Timestamp("2026-01-21", tz="UTC").timestamp())
TABLE = "liquidations_fills"
OF_ALL = ("gateio", "deribit", "bitget")
WITH_INVERSE = ("kraken", "okx")  # whose lists are of one contract, and a symbol has two


def _truth(symbol: str, start: pd.Timestamp, end: pd.Timestamp, *, of_seconds: bool) -> Counter[Any]:
    """(second or millisecond, symbol, side, USD) of what happened in a half-open window."""
    unit = 1000 if of_seconds else 1
    found = (
        (event.ms // unit * unit, symbol[:3], "long" if event.is_long else "short", round(event.value))
        for event in lists.liquidated(symbol, start.timestamp(), end.timestamp())
    )
    return Counter(row for row in found if start.timestamp() <= row[0] / 1000 < end.timestamp())


def _rows(archive: Archive, exchange: str, start: pd.Timestamp, end: pd.Timestamp) -> Counter[Any]:
    rows = archive.read(TABLE, start, end, venues=[exchange])
    return Counter(
        (round(time.timestamp() * 1000), str(symbol), str(side), round(value))
        for time, symbol, side, value in zip(
            rows["time"], rows["symbol"], rows["side"], rows["value_usd"], strict=True
        )
    )


@pytest.mark.parametrize("exchange", [*OF_ALL, "dydx", "kraken", "paradex", "okx"])
def test_a_backfill_is_the_truth_row_for_row(exchange, fill, archive, fakes) -> None:
    start, end = pd.Timestamp("2026-01-20T04:10:07", tz="UTC"), pd.Timestamp("2026-01-20T10:00", tz="UTC")
    done = fill(TABLE, exchange, start=start, end=end, unconfirmed=True)
    assert done.failed == []
    symbols: tuple[str, ...] = lists.SYMBOLS if exchange in OF_ALL else ("BTC",)
    symbols += (lists.inverse("BTC"),) if exchange in WITH_INVERSE else ()
    wanted = sum(
        (_truth(symbol, start, end, of_seconds=exchange == "gateio") for symbol in symbols), Counter()
    )
    assert _rows(archive, exchange, start, end) == wanted
    assert max(wanted.values()) == 3, "equal fills of one instant are rows of their own"
    asked = len(fakes.log)
    fill(TABLE, exchange, start=start, end=end, unconfirmed=True)
    listing = {"/perpetualMarkets", "/markets", "instruments", "/contracts"}
    again = [place for _, place, _, _ in fakes.log[asked:] if not any(word in place for word in listing)]
    assert again == [], "what was answered is not asked again"


def test_a_list_without_a_window_answers_from_its_oldest_row_on(fill: Any, archive: Archive) -> None:
    start, end = pd.Timestamp("2026-01-19T10:30", tz="UTC"), pd.Timestamp("2026-01-20T10:30", tz="UTC")
    done = fill(TABLE, "huobi", start=start, end=end)
    asked = archive.requests().set_index("answered")
    whole_from = asked.loc[True, "start"]
    assert asked.loc[False, "end"] == whole_from
    assert "the venue's list begins at" in asked.loc[False, "error"]
    assert len(done.failed) == 1
    rows = archive.read(TABLE, start, end)
    assert rows["time"].min() == whole_from - pd.Timedelta(1, "us"), "the oldest instant may be cut"
    assert _rows(archive, "huobi", whole_from, end) == _truth("BTC", whole_from, end, of_seconds=False)


@pytest.mark.parametrize("exchange", ["gateio", "deribit", "dydx"])
def test_polls_lose_and_double_none_though_some_fail(exchange, made, archive, fakes, clock) -> None:
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

    made(exchange, symbols=["BTC", "ETH"], names=[TABLE], log=log).run()
    assert any(minute.failed for minute in minutes)
    # The refill of the day before is entered, too, and ends at the hour before the first poll.
    answered = archive.requests().query("answered and table == @TABLE and end > @start")
    end = answered["end"].min()
    assert end > start + pd.Timedelta("15min")
    wanted: Counter[Any] = Counter()
    for symbol in lists.SYMBOLS:
        wanted += _truth(symbol, start, end, of_seconds=exchange == "gateio")
    assert len(wanted) > 3
    assert _rows(archive, exchange, start, end) == wanted


def test_books_of_chosen_symbols_are_kept_in_coins_with_their_depth(made: Any, archive: Archive) -> None:
    names = ("binance", "okx", "gateio")
    made(*names, depth=["BTC"]).once()
    day = pd.Timestamp("2026-01-20", tz="UTC"), pd.Timestamp("2026-01-21", tz="UTC")
    book = archive.read("orderbook_book", *day).groupby(["exchange", "side"], observed=True)["size"].sum()
    assert book.unstack()[["bid", "ask"]].loc[[*names]].to_numpy().tolist() == [[3.0, 7.0]] * 3
    depth = archive.read("orderbook_depth_history", *day).set_index(["exchange", "depth_bps"])
    # The middle is 100.5: 50 bps reach from 99.9975 to 101.0025, and 100 bps no further level.
    assert depth.loc[("binance", 50), ["bid_depth_usd", "ask_depth_usd"]].tolist() == [100.0, 303.0]
    asked = archive.requests().query("table == 'orderbook_book'")
    assert asked["answered"].all()
    assert asked["symbol"].tolist() == ["BTC"] * 3


def test_a_body_that_is_not_as_expected_is_kept_and_stops_its_table_only(made, archive, fakes, clock) -> None:
    collector = made("okx")
    broken = {"code": "0", "msg": "", "data": [{"instId": 3}]}
    fakes.faults["okx"] = [None, None, broken]
    collector.once()
    assert list(collector.failed) == ["okx funding_history"]
    wrong = "Expected `str`, got `int` - at `$.data[0].instId`"
    assert f"{wrong} (kept as okx-" in collector.failed["okx funding_history"]
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
