"""Well-formed answers of venues about something else: no window of them is entered as answered.

One backfill gets each false answer; then the venue is honest, and the next backfill fills what lacked.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest

from derivdata.errors import ArchiveError, SchemaError
from derivdata.sources.archive import Archive
from derivdata.sources.collect import Collector
from derivdata.sources.collect.questions import LastPolls, hold_list
from derivdata.sources.venues.endpoint import Paging
from derivdata.sources.venues.paging import walk
from derivdata.sources.venues.record_types import Instrument, Records, State
from tests.collect.fakes import SYMBOLS, Fakes, SimulatedClock

NOW = "2026-02-01T00:30:00"
START, END = "2026-01-03", "2026-02-01"
LAST = int(pd.Timestamp("2026-02-05", tz="UTC").timestamp())
FUNDING = "funding_settlements"

Body = Callable[[str, dict[str, Any]], tuple[int, Any]]
Lie = Callable[[Body, str, dict[str, Any], list[Any]], tuple[int, Any]]


def about_ether(body: Body, place: str, params: dict[str, Any], seen: list[Any]) -> tuple[int, Any]:
    """A cache that ignores which contract is asked for."""
    return body(place, {k: v.replace("BTC", "ETH") if isinstance(v, str) else v for k, v in params.items()})


def first_page(body: Body, place: str, params: dict[str, Any], seen: list[Any]) -> tuple[int, Any]:
    """The first page of a contract for each of its pages."""
    named = sorted((k, v) for k, v in params.items() if isinstance(v, str) and not v.isdecimal())
    for before, answer in seen:
        if before == (place, named):
            return copy.deepcopy(answer)  # type: ignore[no-any-return]
    seen.append(((place, named), body(place, params)))
    return copy.deepcopy(seen[-1][1])  # type: ignore[no-any-return]


def rows_in(value: Any) -> list[list[Any]]:
    """The lists of an answer that hold rows, at any depth."""
    if isinstance(value, list):
        return [value] if value and isinstance(value[0], dict | list) else []
    return [rows for item in value.values() for rows in rows_in(item)] if isinstance(value, dict) else []


def emptied(body: Body, place: str, params: dict[str, Any], seen: list[Any]) -> tuple[int, Any]:
    status, answer = body(place, params)
    for rows in rows_in(answer):
        rows.clear()
    return status, answer


def once_empty(body: Body, place: str, params: dict[str, Any], seen: list[Any]) -> tuple[int, Any]:
    """One page of nothing, the second."""
    seen.append(place)
    return emptied(body, place, params, seen) if len(seen) == 2 else body(place, params)


def every_second(body: Body, place: str, params: dict[str, Any], seen: list[Any]) -> tuple[int, Any]:
    status, answer = body(place, params)
    for rows in rows_in(answer):
        del rows[1::2]
    return status, answer


def stale(body: Body, place: str, params: dict[str, Any], seen: list[Any]) -> tuple[int, Any]:
    """A copy of what was asked for forty days ago."""
    status, answer = body(place, params)
    for rows in rows_in(answer):
        for row in rows:
            row["fundingTime"] = row["fundingTime"] - 40 * 86_400_000
    return status, answer


def later_again(body: Body, place: str, params: dict[str, Any], seen: list[Any]) -> tuple[int, Any]:
    """Each payment once more 61 seconds later."""
    status, answer = body(place, params)
    for rows in rows_in(answer):
        rows += [row | {"fundingTime": row["fundingTime"] + 61_000} for row in copy.deepcopy(rows)]
        rows.sort(key=lambda row: row["fundingTime"])
    return status, answer


def scaled(name: str, factor: float) -> Lie:
    """One figure of each row in another unit."""

    def lie(body: Body, place: str, params: dict[str, Any], seen: list[Any]) -> tuple[int, Any]:
        status, answer = body(place, params)
        for rows in rows_in(answer):
            for row in rows:
                row[name] = type(row[name])(float(row[name]) * factor)
        return status, answer

    return lie


def exchanged(body: Body, place: str, params: dict[str, Any], seen: list[Any]) -> tuple[int, Any]:
    """Coins for USD, and USD for coins."""
    names = ("sumOpenInterest", "sumOpenInterestValue")
    status, answer = body(place, params)
    for row in answer:
        row.update(zip(names, [row[name] for name in reversed(names)], strict=True))
    return status, answer


CASES: dict[str, tuple[str, str, str, Lie, str]] = {
    "binance of ETH": ("binance", FUNDING, "fundingRate", about_ether, "the answer is about ETH"),
    "bybit of ETH": ("bybit", FUNDING, "funding/history", about_ether, "the answer is about ETH"),
    "okx of ETH": ("okx", FUNDING, "funding-rate-history", about_ether, "the answer is about ETH"),
    "hyperliquid of ETH": ("hyperliquid", FUNDING, "info", about_ether, "the answer is about ETH"),
    "mexc of ETH": ("mexc", FUNDING, "funding_rate/history", about_ether, "the answer is about ETH"),
    "huobi of ETH": ("huobi", FUNDING, "historical_funding_rate", about_ether, "the answer is about ETH"),
    "bitget of ETH": ("bitget", FUNDING, "history-fund-rate", about_ether, "the answer is about ETH"),
    "first page of bitget": ("bitget", FUNDING, "history-fund-rate", first_page, "the one before once more"),
    "first page of kucoin": (
        "kucoin",
        FUNDING,
        "funding-rates",
        first_page,
        "no row|rows end at|rows are of",
    ),
    "nothing from bybit": ("bybit", FUNDING, "funding/history", emptied, "is traded, and its rows end"),
    "a copy of binance": ("binance", FUNDING, "fundingRate", stale, "rows are of 2025-1"),
    "percent from binance": (
        "binance", FUNDING, "fundingRate", scaled("fundingRate", 100.0), "half of the rates are over",
    ),
    "bps from okx": (
        "okx", FUNDING, "funding-rate-history", scaled("realizedRate", 1e4), "half of the rates are over 6",
    ),
    "a hundredth from bybit": (
        "bybit", FUNDING, "funding/history", scaled("fundingRate", 0.01), "looks like a fraction",
    ),
    "coins for USD": ("binance", "oi_history", "openInterestHist", exchanged, "1,256, which may be in coins"),
    "half of binance": (
        "binance",
        "oi_history",
        "openInterestHist",
        every_second,
        "10:00 apart, and not 0 days 00:05",
    ),
}  # fmt: skip


def _lying(fakes: Fakes, monkeypatch: pytest.MonkeyPatch, about: str, lie: Lie) -> Callable[[], None]:
    """Tell a lie at the places whose names end so; return what makes the venues honest."""
    honest, seen = fakes._body, list[Any]()

    def body(exchange: str, place: str, params: dict[str, Any]) -> tuple[int, Any]:
        def told(where: str, given: dict[str, Any]) -> tuple[int, Any]:
            return honest(exchange, where, given)

        return lie(told, place, params, seen) if place.endswith(about) else told(place, params)

    monkeypatch.setattr(fakes, "_body", body)
    return lambda: monkeypatch.setattr(fakes, "_body", honest)


def _rows(archive: Archive, table: str) -> int:
    return len(archive.read(table, pd.Timestamp(START, tz="UTC"), pd.Timestamp(END, tz="UTC")))


def _truth(fakes: Fakes, exchange: str, table: str) -> int:
    """Rows of both symbols in the window."""
    first, end = (pd.Timestamp(t, tz="UTC").timestamp() for t in (START, END))
    if table != FUNDING:
        return 2 * 2 * 288
    return sum(first <= row[0] < end for s in SYMBOLS for row in fakes.truth.payments(exchange, s))


@pytest.mark.parametrize("title", CASES)
def test_an_answer_about_something_else_is_filled_by_the_next_backfill(
    title: str,
    fill: Any,
    archive: Archive,
    fakes: Fakes,
    clock: SimulatedClock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    exchange, table, place, lie, message = CASES[title]
    be_honest = _lying(fakes, monkeypatch, place, lie)
    start = START if table == FUNDING else "2026-01-30"
    done = fill(table, exchange, start=start)
    assert done.failed, "the lie was believed"
    assert pd.Series(done.failed).str.contains(message).all(), done.failed
    assert _rows(archive, table) < _truth(fakes, exchange, table)
    be_honest()
    clock.wait(600)
    assert fill(table, exchange, start=start).failed == []
    assert _rows(archive, table) == _truth(fakes, exchange, table)


@pytest.mark.parametrize(
    ("paging", "times", "message"),
    [
        (Paging("page", limit=2), [90, 80], "a page is the one before once more"),
        (Paging(limit=2), [10, 10], "a full page brings no row after"),
        (Paging(limit=2, descending=True), [100, 100], "a full page brings no row before"),
    ],
)
def test_a_full_page_without_progress_ends_a_walk_with_an_error(
    paging: Paging, times: list[int], message: str
) -> None:
    steps = walk(paging, 10, 100)
    next(steps)
    page = Records(times=times, cursor="2")
    with pytest.raises(SchemaError, match=message):
        _ = [steps.send(page) for _ in range(2)]


@pytest.mark.parametrize(
    ("exchange", "place", "lie"),
    [("hyperliquid", "info", once_empty), ("binance", "fundingRate", later_again)],
)
def test_an_empty_page_is_asked_for_again_and_a_payment_that_stands_twice_is_one(
    exchange: str,
    place: str,
    lie: Lie,
    fill: Any,
    archive: Archive,
    fakes: Fakes,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _lying(fakes, monkeypatch, place, lie)
    assert fill(FUNDING, exchange).failed == []
    assert _rows(archive, FUNDING) == _truth(fakes, exchange, FUNDING)


def test_an_empty_list_of_contracts_is_a_failure_and_leaves_the_older_one(
    fill: Any, archive: Archive, fakes: Fakes, monkeypatch: pytest.MonkeyPatch
) -> None:
    be_honest = _lying(fakes, monkeypatch, "exchangeInfo", emptied)
    done = fill(FUNDING, "binance")
    assert any("the list of contracts is empty" in line for line in done.failed), done.failed
    be_honest()
    assert fill(FUNDING, "binance").failed == []
    assert _rows(archive, FUNDING) == _truth(fakes, "binance", FUNDING)


@pytest.mark.parametrize(("silent", "failed"), [({"ETH"}, 0), ({"BTC", "ETH"}, 2)])
def test_a_contract_without_payments_is_no_failure_where_another_one_has_some(
    silent: set[str], failed: int, fill: Any, archive: Archive, fakes: Fakes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is new, or pays nothing; a request that is empty about BTC too is broken."""
    honest = fakes.payments

    def payments(exchange: str, symbol: str) -> list[tuple[int, int, float]]:
        return [] if symbol in silent else honest(exchange, symbol)

    monkeypatch.setattr(fakes, "payments", payments)
    done = fill(FUNDING, "bybit")
    assert len(done.failed) == failed, done.failed
    asked = archive.requests().set_index("symbol")["answered"]
    assert asked.to_dict() == {"BTC": failed == 0, "ETH": failed == 0}
    assert _rows(archive, FUNDING) == (0 if failed else _truth(fakes, "bybit", FUNDING) // 2)


def test_a_window_in_the_life_of_a_contract_is_not_empty(
    fill: Any, archive: Archive, fakes: Fakes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ether was paid before and bitcoin is: a week without a payment is an answer about something else."""
    assert fill(FUNDING, "bybit", symbols=["ETH"], end="2026-01-10").failed == []
    honest = fakes.payments
    monkeypatch.setattr(fakes, "payments", lambda venue, s: [] if s == "ETH" else honest(venue, s))
    (why,) = fill(FUNDING, "bybit", symbols=["ETH"], start="2026-01-10", end="2026-01-17").failed
    assert "ETHUSDT is traded, and its rows end at 2026-01-10" in why
    monkeypatch.setattr(fakes, "payments", honest)
    assert fill(FUNDING, "bybit", symbols=["ETH"]).failed == []
    assert _rows(archive, FUNDING) == _truth(fakes, "bybit", FUNDING) // 2


@pytest.mark.parametrize(("factor", "is_believed"), [(30.0, False), (1 / 30, False), (8.0, True)])
def test_a_window_is_held_to_the_rows_that_the_series_had_last(
    factor: float,
    is_believed: bool,
    fill: Any,
    archive: Archive,
    fakes: Fakes,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Open interest of small coins may be of any size: nothing but the series itself tells the unit."""
    assert fill("oi_history", "binance", start="2026-01-30", end="2026-01-31").failed == []

    be_honest = _lying(fakes, monkeypatch, "openInterestHist", scaled("sumOpenInterestValue", factor))
    done = fill("oi_history", "binance", start="2026-01-31")
    assert (done.failed == []) is is_believed
    assert all("not the unit that the venue is known to use" in why for why in done.failed)
    be_honest()
    fill("oi_history", "binance", start="2026-01-31")
    assert _rows(archive, "oi_history") == _truth(fakes, "binance", "oi_history")


def test_a_series_may_rise_from_nothing(
    fill: Any, archive: Archive, fakes: Fakes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A contract that nobody held has no figure to which its next rows could be held."""
    be_honest = _lying(fakes, monkeypatch, "openInterestHist", scaled("sumOpenInterestValue", 0.0))
    assert fill("oi_history", "binance", symbols=["ETH"], start="2026-01-30", end="2026-01-31").failed == []
    be_honest()
    assert fill("oi_history", "binance", symbols=["ETH"], start="2026-01-31").failed == []
    assert _rows(archive, "oi_history") == _truth(fakes, "binance", "oi_history") // 2


def test_an_archive_that_cannot_be_read_is_no_fault_of_the_venue(fill: Any, archive: Archive) -> None:
    assert fill("oi_history", "binance", symbols=["ETH"], start="2026-01-30", end="2026-01-31").failed == []
    for path in archive.path.rglob("*.parquet"):
        path.write_bytes(b"damaged" + path.read_bytes()[7:])
    with pytest.raises(ArchiveError, match=r"damaged|changed"):
        fill("oi_history", "binance", symbols=["ETH"], start="2026-01-31")
    assert archive.requests()["answered"].all(), "nothing was entered as the venue's failure"


def _state(price: float = 100.0, **figures: Any) -> State:
    sound = {"rate": 1e-4, "period_h": 8.0, "oi_usd": 1e6, "oi_coins": 1e4, "mark": price}
    return State(Instrument("X", "X"), None, **(sound | figures))


@pytest.mark.parametrize(
    ("changed", "lost"),
    [
        ({"rate": 2.1e-3}, {"rate"}),  # 21 bps after 1
        ({"rate": 1.9e-3}, set()),
        ({"rate": -1e-6}, set()),  # rates pass through 0
        ({"oi_usd": 1.3e6}, {"oi_usd", "oi_coins"}),  # and coins at the mark are 1e6
        ({"oi_usd": 1.2e6}, set()),
        ({"mark": 4.9, "oi_coins": None, "oi_usd": None}, {"mark"}),
    ],
)
def test_a_poll_is_held_to_the_figures_beside_it_and_to_the_last_one(
    changed: dict[str, Any], lost: set[str]
) -> None:
    at = pd.Timestamp("2026-03-02", tz="UTC")
    polls = LastPolls("venue")
    assert polls.hold([_state()], at) == ([_state()], {}, [])
    (row,), failed, left_out = polls.hold([_state(**changed)], at + pd.Timedelta(1, "min"))
    given = _state(**changed)
    assert {name for name in row._fields if getattr(row, name) != getattr(given, name)} == lost
    assert (failed, bool(left_out)) == ({}, bool(lost))
    (row,), _, _ = polls.hold([_state(**changed)], at + pd.Timedelta(61, "min"))
    contradicts_itself = "oi_usd" in lost
    assert (row == given) is not contradicts_itself  # what a venue tells for an hour is the market
    (row,), _, _ = polls.hold([_state()], at + pd.Timedelta(62, "min"))
    assert row.rate == _state().rate, "a rate may fall at once"


def test_open_interest_that_is_asked_for_singly_is_held_to_the_last_one_too(
    archive: Archive, fakes: Fakes, clock: SimulatedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Binance tells it of one contract a request."""
    where: dict[str, Any] = {"clock": clock, "addresses": fakes.addresses, "symbols": ()}
    collector = Collector(archive, venues=["binance"], share_seconds=None, **where)
    collector.once()
    before = archive.read("oi_history")

    def lie(body: Body, place: str, params: dict[str, Any], seen: list[Any]) -> tuple[int, Any]:
        status, answer = body(place, params)
        return status, answer | {"openInterest": str(100 * float(answer["openInterest"]))}

    be_honest = _lying(fakes, monkeypatch, "/openInterest", lie)
    clock.wait(360)
    collector.once()
    assert len(before)
    pd.testing.assert_frame_equal(archive.read("oi_history"), before)
    assert "figures" in " ".join(collector.failed)
    asked = archive.requests()
    refused = asked.loc[(asked["table"] == "oi_history") & ~asked["answered"]]
    assert set(refused["symbol"]) == {"BTC", "ETH"}
    assert refused["error"].str.contains("left out").all()
    be_honest()
    clock.wait(360)
    collector.once()
    after = archive.read("oi_history")
    assert len(after) == 2 * len(before)
    assert after["oi_usd"].max() < 2 * before["oi_usd"].max()


@pytest.mark.parametrize("days", [-1, 2])
def test_an_answer_of_another_day_is_none_about_the_present(
    days: int, archive: Archive, fakes: Fakes, clock: SimulatedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lie(body: Body, place: str, params: dict[str, Any], seen: list[Any]) -> tuple[int, Any]:
        status, answer = body(place, params)
        for row in answer:
            row["time"] += days * 86_400_000
            row["nextFundingTime"] += days * 86_400_000
        return status, answer

    _lying(fakes, monkeypatch, "premiumIndex", lie)
    collector = Collector(archive, venues=["binance"], symbols=(), clock=clock, addresses=fakes.addresses)
    collector.once()
    assert "Z, not of now, 2026-02-01T00:30" in collector.failed["binance funding_history"]
    asked = archive.requests()
    assert not asked.loc[asked["table"] == "funding_history", "answered"].any()


def test_rows_that_cannot_be_lose_their_venue_and_no_row_of_another(
    archive: Archive, fakes: Fakes, clock: SimulatedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The archive refuses a name with a character that is not shown, and all that comes with it."""

    def lie(body: Body, place: str, params: dict[str, Any], seen: list[Any]) -> tuple[int, Any]:
        status, answer = body(place, params)
        answer[0]["symbol"] = "BTC\u200bUSDT"
        return status, answer

    _lying(fakes, monkeypatch, "fapi/v1/premiumIndex", lie)
    where: dict[str, Any] = {"clock": clock, "addresses": fakes.addresses, "symbols": ()}
    collector = Collector(archive, venues=["binance", "bybit"], **where)
    collector.once()
    assert "characters that are not shown" in collector.failed["binance funding_history"]
    assert archive.exchanges("funding_history") == ("bybit",)
    asked = archive.requests()
    answered = asked[asked["table"] == "funding_history"].groupby("exchange")["answered"].all()
    assert answered.to_dict() == {"binance": False, "bybit": True}


@pytest.mark.parametrize(
    ("changed", "held", "news"),
    [
        ({"size": 10.0}, ["X: size 10.0 after 1.0"], []),
        ({"tick": 0.1}, [], ["X: tick 0.1 after None"]),
        ({"active": False}, [], ["X: active False after True"]),
        ({"name": "Y"}, [], ["X is listed no more"]),
        ({}, [], []),
    ],
)
def test_a_list_is_held_to_the_one_before(changed: dict[str, Any], held: list[str], news: list[str]) -> None:
    """What makes a contract another one is believed when the next list tells it again."""
    before, doubted = Instrument("X", "X", "USDT", 1.0), dict[str, Instrument]()
    for again in (False, True):
        told = Records(instruments=[before._replace(**changed)])
        found = hold_list(Records(instruments=[before]), told, doubted)
        assert found == (([], held) if again and held else (held, news))
        assert (told.instruments == [before]) is (not changed or bool(held and not again))


def test_a_liquidation_far_from_the_last_price_or_of_no_contract_is_left_out() -> None:
    at = pd.Timestamp("2026-03-02", tz="UTC")
    polls = LastPolls("venue")
    polls.hold([_state()], at)
    prices = {"X": (190.0, 210.0, 40.0), "Z": (100.0,)}
    rows = pd.DataFrame(
        [(symbol, at, price, np.nan) for symbol, those in prices.items() for price in those],
        columns=["symbol", "time", "order_price_usd", "fill_price_usd"],
    )
    late = rows.head(1).assign(time=at + pd.Timedelta(11, "min"))
    sound, left_out = polls.sound_fills(pd.concat([rows, late]), at, {"X"})
    assert sound["order_price_usd"].tolist() == [190.0]
    assert len(left_out) == 4
    assert "no list of contracts names it" in left_out[2]
