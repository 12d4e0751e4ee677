"""Well-formed venue responses about something else: no window of them is recorded as covered.

One backfill gets each false response; then the venue is correct, and the next backfill fills the gap. Correct
but unusual markets pass, or are stored as rows that an import accepts.
"""

from __future__ import annotations

import copy
import itertools
import json
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import pytest

from derivdata.errors import ArchiveError, SchemaError
from derivdata.sources.archive import Archive
from derivdata.sources.archive.importing import import_files
from derivdata.sources.collect import Collector
from derivdata.sources.collect.plausibility import LastPolls, hold_list
from derivdata.sources.venues.endpoint import Paging, walk
from derivdata.sources.venues.record_types import Instrument, Records, State
from tests.collect.fakes import SYMBOLS, Fakes

NOW = "2026-02-01T00:30:00"
START, END = "2026-01-03", "2026-02-01"
LAST = int(pd.Timestamp("2026-02-05", tz="UTC").timestamp())
FUNDING, OI = "funding_settlements", ("oi_history", "openInterestHist")

Alteration = Callable[[dict[str, Any], Any], Any]
"""Creates a wrong body from the parameters and the correct body."""


def about_ether(params: dict[str, Any], body: Any) -> Any:
    """A cache that ignores which contract is requested."""
    return json.loads(json.dumps(body).replace("BTC", "ETH")) if "BTC" in str(params) else body


def first_pages() -> Alteration:
    """The first page of a contract for each of its pages."""
    seen: dict[str, str] = {}

    def altered(params: dict[str, Any], body: Any) -> Any:
        named = str(sorted((k, v) for k, v in params.items() if isinstance(v, str) and not v.isdecimal()))
        return json.loads(seen.setdefault(named, json.dumps(body)))

    return altered


def rows_in(value: Any) -> list[list[Any]]:
    """The lists of a response that hold rows, at any depth."""
    if isinstance(value, list):
        return [value] if value and isinstance(value[0], dict | list) else []
    return [rows for item in value.values() for rows in rows_in(item)] if isinstance(value, dict) else []


def changed(change: Callable[[list[Any]], Any]) -> Alteration:
    """A change of each list of rows."""

    def altered(params: dict[str, Any], body: Any) -> Any:
        for rows in rows_in(body):
            change(rows)
        return body

    return altered


EMPTIED = changed(list.clear)


def once_empty() -> Alteration:
    """One page of nothing, the second."""
    pages = itertools.count(1)
    return lambda params, body: EMPTIED(params, body) if next(pages) == 2 else body


def every_second(rows: list[Any]) -> None:
    del rows[1::2]


def stale(rows: list[Any]) -> None:
    """Return a copy of the requested rows, forty days old."""
    for row in rows:
        row["fundingTime"] = row["fundingTime"] - 40 * 86_400_000


def later_again(rows: list[Any]) -> None:
    """Each payment once more 61 seconds later."""
    rows += [row | {"fundingTime": row["fundingTime"] + 61_000} for row in copy.deepcopy(rows)]
    rows.sort(key=lambda row: row["fundingTime"])


def scaled(factor: float, *names: str) -> Alteration:
    """Some figures of each row, or of the only one, in another unit."""

    def altered(params: dict[str, Any], body: Any) -> Any:
        for row in (row for rows in rows_in(body) or [[body]] for row in rows):
            row |= {name: type(row[name])(float(row[name] or 0) * factor) for name in names if name in row}
        return body

    return altered


def exchanged(rows: list[Any]) -> None:
    """Coins for USD, and USD for coins."""
    names = ("sumOpenInterest", "sumOpenInterestValue")
    for row in rows:
        row.update(zip(names, [row[name] for name in reversed(names)], strict=True))


CASES: dict[str, tuple[str, str, str, Alteration, str]] = {
    "bybit of ETH": ("bybit", FUNDING, "funding/history", about_ether, "got rows of ETH"),
    "hyperliquid of ETH": ("hyperliquid", FUNDING, "info", about_ether, "got rows of ETH"),
    "first page of bitget": ("bitget", FUNDING, "history-fund-rate", first_pages(), "repeats the rows"),
    "first page of kucoin": ("kucoin", FUNDING, "funding-rates", first_pages(), "no older|rows end|rows are"),
    "nothing from bybit": ("bybit", FUNDING, "funding/history", EMPTIED, "is still traded, but its rows end"),
    "a copy of binance": ("binance", FUNDING, "fundingRate", changed(stale), "got rows from 2025-1"),
    "percent from binance": (
        "binance", FUNDING, "fundingRate", scaled(100.0, "fundingRate"), "half of the rates are over",
    ),
    "bps from okx": (
        "okx", FUNDING, "funding-rate-history", scaled(1e4, "realizedRate"), "17 rows have impossible values",
    ),
    "a hundredth from bybit": (
        "bybit", FUNDING, "funding/history", scaled(0.01, "fundingRate"), "looks like a fraction",
    ),
    "coins for USD": ("binance", *OI, changed(exchanged), "1,256: possibly coins or contracts"),
    "half of binance": ("binance", *OI, changed(every_second), "expected rows 0 days 00:05:00 apart, got"),
}  # fmt: skip


def _rows(archive: Archive, table: str) -> int:
    return len(archive.read(table, pd.Timestamp(START, tz="UTC"), pd.Timestamp(END, tz="UTC")))


def _truth(fakes: Fakes, exchange: str, table: str) -> int:
    """Rows of both symbols in the window."""
    first, end = (pd.Timestamp(t, tz="UTC").timestamp() for t in (START, END))
    if table != FUNDING:
        return 2 * 2 * 288
    return sum(first <= row[0] < end for s in SYMBOLS for row in fakes.truth.payments(exchange, s))


@pytest.mark.parametrize("title", CASES)
def test_rejected_response_is_requested_again_by_the_next_backfill(
    title, fill, archive, fakes, clock
) -> None:
    exchange, table, place, alteration, message = CASES[title]
    fakes.altered[place] = alteration
    start = START if table == FUNDING else "2026-01-30"
    done = fill(table, exchange, start=start)
    assert done.failed, "the altered response was accepted"
    assert pd.Series(done.failed).str.contains(message).all(), done.failed
    assert _rows(archive, table) < _truth(fakes, exchange, table)
    fakes.altered.clear()
    clock.wait(600)
    assert fill(table, exchange, start=start).failed == []
    assert _rows(archive, table) == _truth(fakes, exchange, table)


@pytest.mark.parametrize(
    ("paging", "times", "message"),
    [
        (Paging("page", limit=2), [90, 80], "a page repeats the rows of the previous page"),
        (Paging(limit=2), [10, 10], "a full page has no newer row"),
        (Paging(limit=2, descending=True), [100, 100], "a full page has no older row"),
    ],
)
def test_page_without_progress_ends_the_walk_with_an_error(paging, times, message) -> None:
    steps = walk(paging, 10, 100)
    next(steps)
    page = Records(times=times, cursor="2")
    with pytest.raises(SchemaError, match=message):
        _ = [steps.send(page) for _ in range(2)]


@pytest.mark.parametrize(
    ("exchange", "place", "alteration"),
    [("hyperliquid", "info", once_empty()), ("binance", "fundingRate", changed(later_again))],
)
def test_empty_page_is_requested_again_and_repeated_payments_are_stored_once(
    exchange, place, alteration, fill, archive, fakes
) -> None:
    fakes.altered[place] = alteration
    assert fill(FUNDING, exchange).failed == []
    assert _rows(archive, FUNDING) == _truth(fakes, exchange, FUNDING)


def test_empty_contract_list_is_an_error_and_the_older_list_stays(fill, archive, fakes) -> None:
    fakes.altered["exchangeInfo"] = EMPTIED
    done = fill(FUNDING, "binance")
    assert any("the list of contracts is empty" in line for line in done.failed), done.failed
    fakes.altered.clear()
    assert fill(FUNDING, "binance").failed == []
    assert _rows(archive, FUNDING) == _truth(fakes, "binance", FUNDING)


@pytest.mark.parametrize(("silent", "failed"), [({"ETH"}, 0), ({"BTC", "ETH"}, 2)])
def test_contract_without_payments_is_accepted_if_another_has_payments(
    silent, failed, fill, archive, fakes, monkeypatch
) -> None:
    """It is new, or pays nothing; a request that is empty about BTC too is broken."""
    original = fakes.payments

    def payments(exchange: str, symbol: str) -> list[tuple[int, int, float]]:
        return [] if symbol in silent else original(exchange, symbol)

    monkeypatch.setattr(fakes, "payments", payments)
    done = fill(FUNDING, "bybit")
    assert len(done.failed) == failed, done.failed
    ledger = archive.requests().set_index("symbol")["answered"]
    assert ledger.to_dict() == {"BTC": failed == 0, "ETH": failed == 0}
    assert _rows(archive, FUNDING) == (0 if failed else _truth(fakes, "bybit", FUNDING) // 2)


def test_empty_response_within_the_life_of_a_contract_is_an_error(fill, archive, fakes, monkeypatch) -> None:
    """Ether was paid before and bitcoin is: a week without a payment is a response about something else."""
    assert fill(FUNDING, "bybit", symbols=["ETH"], end="2026-01-10").failed == []
    original = fakes.payments
    monkeypatch.setattr(fakes, "payments", lambda venue, s: [] if s == "ETH" else original(venue, s))
    (why,) = fill(FUNDING, "bybit", symbols=["ETH"], start="2026-01-10", end="2026-01-17").failed
    assert "ETHUSDT is still traded, but its rows end at 2026-01-10" in why
    monkeypatch.setattr(fakes, "payments", original)
    assert fill(FUNDING, "bybit", symbols=["ETH"]).failed == []
    assert _rows(archive, FUNDING) == _truth(fakes, "bybit", FUNDING) // 2


@pytest.mark.parametrize(("factor", "is_accepted"), [(30.0, False), (1 / 30, False), (8.0, True)])
def test_open_interest_is_compared_with_the_last_stored_rows(
    factor, is_accepted, fill, archive, fakes
) -> None:
    """Open interest of small coins may be of any size: only the series itself determines the unit."""
    assert fill("oi_history", "binance", start="2026-01-30", end="2026-01-31").failed == []

    fakes.altered["openInterestHist"] = scaled(factor, "sumOpenInterestValue", "sumOpenInterest")
    done = fill("oi_history", "binance", start="2026-01-31")
    assert (done.failed == []) is is_accepted
    assert all("the venue may use another unit" in why for why in done.failed)
    fakes.altered.clear()
    fill("oi_history", "binance", start="2026-01-31")
    assert _rows(archive, "oi_history") == _truth(fakes, "binance", "oi_history")


def test_open_interest_may_rise_from_zero(fill: Any, archive: Archive, fakes: Fakes) -> None:
    """A contract that no one held has no figure to which its next rows could be held."""
    fakes.altered["openInterestHist"] = scaled(0.0, "sumOpenInterestValue")
    assert fill("oi_history", "binance", symbols=["ETH"], start="2026-01-30", end="2026-01-31").failed == []
    fakes.altered.clear()
    assert fill("oi_history", "binance", symbols=["ETH"], start="2026-01-31").failed == []
    assert _rows(archive, "oi_history") == _truth(fakes, "binance", "oi_history") // 2


def test_unreadable_archive_is_not_reported_as_a_venue_error(fill: Any, archive: Archive) -> None:
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
def test_poll_is_compared_with_other_contracts_and_the_last_poll(changed, lost) -> None:
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


def test_open_interest_of_single_requests_is_compared_with_the_last_poll(archive, fakes, clock) -> None:
    """Binance returns it for one contract a request."""
    where: dict[str, Any] = {"clock": clock, "addresses": fakes.addresses, "symbols": ()}
    collector = Collector(archive, venues=["binance"], share_seconds=None, **where)
    collector.once()
    before = archive.read("oi_history")
    fakes.altered["/openInterest"] = scaled(100, "openInterest")
    clock.wait(360)
    collector.once()
    assert len(before)
    pd.testing.assert_frame_equal(archive.read("oi_history"), before)
    assert "figures" in " ".join(collector.failed)
    ledger = archive.requests()
    refused = ledger.loc[(ledger["table"] == "oi_history") & ~ledger["answered"]]
    assert set(refused["symbol"]) == {"BTC", "ETH"}
    assert refused["error"].str.contains("omitted").all()
    fakes.altered.clear()
    clock.wait(360)
    collector.once()
    after = archive.read("oi_history")
    assert len(after) == 2 * len(before)
    assert after["oi_usd"].max() < 2 * before["oi_usd"].max()


@pytest.mark.parametrize("days", [-1, 2])
def test_response_of_another_day_is_not_a_current_poll(days, archive, fakes, clock) -> None:
    def moved(rows: list[Any]) -> None:
        for row in rows:
            row |= {name: row[name] + days * 86_400_000 for name in ("time", "nextFundingTime")}

    fakes.altered["premiumIndex"] = changed(moved)
    collector = Collector(archive, venues=["binance"], symbols=(), clock=clock, addresses=fakes.addresses)
    collector.once()
    assert "expected a current row at 2026-02-01T00:30" in collector.failed["binance funding_history"]
    ledger = archive.requests()
    assert not ledger.loc[ledger["table"] == "funding_history", "answered"].any()


def test_impossible_rows_fail_their_venue_only(archive, fakes, clock) -> None:
    """The archive rejects a name with a non-printable character, and the rows that come with it."""
    fakes.altered["fapi/v1/premiumIndex"] = changed(lambda rows: rows[0].update(symbol="BTC\u200bUSDT"))
    where: dict[str, Any] = {"clock": clock, "addresses": fakes.addresses, "symbols": ()}
    collector = Collector(archive, venues=["binance", "bybit"], **where)
    collector.once()
    assert "control or invisible characters" in collector.failed["binance funding_history"]
    assert archive.exchanges("funding_history") == ("bybit",)
    ledger = archive.requests()
    answered = ledger[ledger["table"] == "funding_history"].groupby("exchange")["answered"].all()
    assert answered.to_dict() == {"binance": False, "bybit": True}


@pytest.mark.parametrize(
    ("changed", "held", "news"),
    [
        ({"size": 10.0}, ["X: size changed from 1.0 to 10.0"], []),
        ({"tick": 0.1}, [], ["X: tick changed from None to 0.1"]),
        ({"active": False}, [], ["X: active changed from True to False"]),
        ({"name": "Y"}, [], ["X is no longer listed"]),
        ({}, [], []),
    ],
)
def test_changed_contract_identity_needs_a_second_list(
    changed: dict[str, Any], held: list[str], news: list[str]
) -> None:
    """A change of a contract's identity is accepted when the next list repeats it."""
    before, doubted = Instrument("X", "X", "USDT", 1.0), dict[str, Instrument]()
    for again in (False, True):
        told = Records(instruments=[before._replace(**changed)])
        result = hold_list(Records(instruments=[before]), told, doubted)
        assert result == (([], held) if again and held else (held, news))
        assert (told.instruments == [before]) is (not changed or bool(held and not again))


def test_liquidation_far_from_the_price_or_of_an_unknown_contract_is_omitted() -> None:
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
    assert "the venue does not list the contract" in left_out[2]


def _path(first: float, last: float, minutes: int) -> list[float]:
    return [first * (last / first) ** (minute / minutes) for minute in range(minutes + 1)]


MOVES = {
    "bitcoin halves in a day, 2020-03-12, most of it in an hour": ("mark", _path(7900.0, 3800.0, 60)),
    "coins lose two thirds in ten minutes, 2025-10-10": ("mark", _path(100.0, 33.0, 10)),
    "luna loses 99.9 % in a day, 2022-05-12, and half of it in a minute": ("mark", _path(1.0, 1e-3, 10)),
    "a squeeze by the factor 20 in an hour": ("mark", _path(1.0, 20.0, 60)),
    "a wick to a third and back, 2021-05-19": ("last", [100.0, 33.0, 95.0]),
    "open interest times five in a day": ("oi_usd", _path(1e6, 5e6, 1440)),
    "half of the open interest closed in a minute, 2025-10-10": ("oi_usd", [1e6, 5e5, 4e5]),
    "a running rate to the clamp of 2 % in 4 hours within one of them": ("rate", _path(5e-5, 2e-2, 240)),
    "a rate at the clamp that falls to nothing with its payment": ("rate", [2e-2, 1e-5]),
}
"""Largest known changes of a contract's values between consecutive minutes."""


@pytest.mark.parametrize("title", MOVES)
def test_largest_recorded_moves_are_accepted(title: str) -> None:
    figure, path = MOVES[title]
    polls = LastPolls("venue")
    for minute, value in enumerate(path):
        usual = {"oi_coins": None, "index_price": value if figure == "mark" else 100.0, "last": 100.0}
        result = _state(**(usual | {figure: value}))
        assert polls.hold([result], pd.Timestamp("2022-05-12", tz="UTC") + pd.Timedelta(minute, "min")) == (
            [result],
            {},
            [],
        ), minute


@pytest.mark.parametrize(
    ("figures", "factor", "table"),
    [
        ({"markPrice", "indexPrice"}, 0.02, "prices_history"),  # after an outage in which a coin collapsed
        ({"lastFundingRate"}, 2e2, "funding_history"),  # a clamp of 2 %, from one minute to the next
        ({"openInterest"}, 30.0, "oi_history"),
    ],
)
def test_implausible_rows_are_quarantined_in_an_importable_file(
    figures, factor, table, make_collector, archive, fakes, clock
) -> None:
    collector = make_collector(
        "binance", names=["funding_history", "oi_history", "prices_history"], share_seconds=None
    )
    collector.once()
    start = clock.utc()
    fakes.altered = dict.fromkeys(("premiumIndex", "/openInterest"), scaled(factor, *figures))
    clock.wait(360)
    collector.once()
    assert "omitted" in " ".join(collector.failed.values())
    (path,) = (archive.path / "quarantine").glob(f"binance-{table}-*.csv")
    kept, before = pd.read_csv(path), archive.read(table)
    clock.wait(360)
    collector.once()
    assert len(pd.read_csv(path)) > len(kept), "rows of the next minute stand after them"
    import_files(table, path, archive.path, accept=["unit", "venues"])
    keys = ["symbol", "exchange", "time"]
    after = archive.read(table, start).merge(pd.read_csv(path, parse_dates=["time"])[keys], on=keys)
    assert len(after) >= len(kept) > 0
    assert len(archive.read(table)) > len(before)


def test_implausible_payments_are_quarantined_as_rows(fill, archive, fakes, clock) -> None:
    """A coin begins to pay the clamp; once that is imported, the next windows follow it."""
    fill = partial(fill, FUNDING, "binance", symbols=["BTC"])
    assert fill(start="2026-01-15", end="2026-01-18").failed == []
    fakes.altered["fundingRate"] = scaled(300.0, "fundingRate")
    (why,) = fill(start="2026-01-18", end="2026-01-19").failed
    assert "(rows stored as binance-funding_settlements-BTC.csv)" in why
    path = archive.path / "quarantine" / "binance-funding_settlements-BTC.csv"
    assert fill(start="2026-01-19", end="2026-01-20").failed != []
    assert len(pd.read_csv(path)) == 6, "of both windows"
    import_files(FUNDING, path, archive.path, accept=["unit", "interval", "venues"])
    assert fill(start="2026-01-19", end="2026-01-20").failed == []
    paid = archive.read(FUNDING)
    assert paid["rate_bps_8h"].abs().max() > 200
    assert (paid["time"].diff().dropna() == pd.Timedelta(8, "h")).all()
