"""Histories of the API that are well formed and wrong: each is an error, a notice or listed with a reason.

Every change of `CHANGES` is applied to the responses of each applicable call of `CALLS`.
"""

from __future__ import annotations

import copy
import gc
import re
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

import pandas as pd
import pytest

import derivdata as dd
from derivdata.client import earlier
from derivdata.client.transport import SESSION
from derivdata.errors import DataNotice, DerivdataError
from tests.reliability.test_lying_server import NOON, STAMPS, Body, Change, Liar, need, shift, stamp_of
from tests.support import faults
from tests.transport.conftest import KEY

WINDOW = ("2026-06-01", "2026-06-21")
VENUES = {"venues": ["binance", "bybit", "okx"]}


class Call(NamedTuple):
    """A fetch, and the fields of its amounts."""

    fetch: Callable[[], Any]
    fields: tuple[str, ...]
    is_rate: bool = False


CALLS: dict[str, Call] = {
    "funding.history": Call(
        lambda: dd.funding.history("BTC", *WINDOW, resolution="1h", **VENUES), ("y",), is_rate=True
    ),
    "funding.settlements": Call(
        lambda: dd.funding.settlements("BTC", *WINDOW, **VENUES), ("y",), is_rate=True
    ),
    "oi.history": Call(
        lambda: dd.oi.history("BTC", *WINDOW, resolution="1h", **VENUES), ("open_interest_usd",)
    ),
    "oi.exchange_totals": Call(
        lambda: dd.oi.exchange_totals(*WINDOW, resolution="1d", **VENUES), ("total_open_interest_usd",)
    ),
    "volume.history": Call(
        lambda: dd.volume.history("BTC", *WINDOW, resolution="1d", **VENUES), ("volume_usd",)
    ),
    "prices.history": Call(lambda: dd.prices.history("BTC", *WINDOW, resolution="1h", **VENUES), ("y",)),
    "prices.spot": Call(lambda: dd.prices.spot("BTC", *WINDOW, resolution="1h", **VENUES), ("y",)),
    "positioning.history": Call(
        lambda: dd.positioning.history("BTC", *WINDOW, resolution="1h", **VENUES), ("long_short_ratio",)
    ),
    "volume.taker": Call(
        lambda: dd.volume.taker("BTC", *WINDOW, resolution="1h", **VENUES), ("buy_usd", "sell_usd")
    ),
    "futures.history": Call(
        lambda: dd.futures.history("BTC", *WINDOW, resolution="1d", **VENUES),
        ("price_usd", "oi_usd"),
    ),
}


def lists_of(body: Body) -> list[list[Body]]:
    """Return the lists of rows with times, one list per venue if the body has them."""
    found: list[list[Body]] = []
    for name in ("series", "data"):
        value = body.get(name)
        groups = list(value.values()) if isinstance(value, dict) else [value]
        found += [rows for rows in groups if isinstance(rows, list) and rows and isinstance(rows[0], dict)]
    need(found and any(isinstance(found[0][0].get(name), str) for name in STAMPS))
    return found


def by_venue(body: Body) -> dict[str, list[Body]]:
    """Return the rows of each venue; of one list these are copies."""
    for name in ("series", "data"):
        if isinstance(body.get(name), dict):
            return dict(body[name])
    venues: dict[str, list[Body]] = {}
    for row in lists_of(body)[0]:
        need("exchange" in row)
        venues.setdefault(row["exchange"], []).append(row)
    return venues


def keep(rows: list[Body], body: Body, kept: Callable[[Body], bool]) -> None:
    """Remove the rows of a venue that are not kept."""
    gone = [row for row in rows if not kept(row)]
    need(gone)
    for listed in lists_of(body):
        listed[:] = [row for row in listed if not any(row is other for other in gone)]
    count(body)


def count(body: Body) -> None:
    """State the number of rows that there are: nothing in the body contradicts itself."""
    total = sum(len(rows) for rows in lists_of(body))
    body |= {name: total for name in ("count", "total") if name in body}


def venue(place: int, body: Body) -> list[Body]:
    groups = sorted(by_venue(body).items())
    need(len(groups) > place)
    return groups[place][1]


def is_outside(first: float, last: float, begin: pd.Timestamp, span: pd.Timedelta, row: Body) -> bool:
    """Return whether a row is not in a part of the window."""
    return not first <= (stamp_of(row) - begin) / span <= last


def cut(first: float, last: float, places: tuple[int, ...], body: Body, query: Body) -> None:
    """Remove a part of the window of some venues."""
    chosen = [venue(place, body) for place in places]
    need(all(len(rows) >= 12 for rows in chosen))
    for rows in chosen:
        stamps = [stamp_of(row) for row in rows]
        keep(list(rows), body, partial(is_outside, first, last, min(stamps), max(stamps) - min(stamps)))


def every(number: int, place: int, body: Body, query: Body) -> None:
    """Remove every so many row of a venue."""
    rows = venue(place, body)
    need(len(rows) >= 12)
    gone = [id(row) for row in rows[number // 2 :: number]]
    keep(list(rows), body, lambda row: id(row) not in gone)


def move(hours: float, part: float, place: int, body: Body, query: Body) -> None:
    """Shift the stamps of the last part of a venue's rows."""
    rows = sorted(venue(place, body), key=stamp_of)
    for row in rows[int((1 - part) * len(rows)) :]:
        shift(row, hours / 24)


def scale(factor: float, first: float, last: float, place: int, body: Body, query: Body) -> None:
    """Multiply the amounts of a part of a venue's rows."""
    rows = sorted(venue(place, body), key=stamp_of)
    need(len(rows) >= 12)
    changed = False
    for row in rows[int(first * len(rows)) : int(last * len(rows))]:
        for field in query["fields"]:
            if isinstance(row.get(field), int | float) and row[field]:
                row[field] *= factor
                changed = True
    need(changed)


def freeze(part: float, place: int, body: Body, query: Body) -> None:
    """Repeat the amounts of one row in the last part of a venue's rows."""
    rows = sorted(venue(place, body), key=stamp_of)
    need(len(rows) >= 12)
    last = rows[int((1 - part) * len(rows)) :]
    while last and round(last[0].get("y", 0.5001), 2) == last[0].get("y"):  # a floor is no fault
        del last[0]
    for row in last[1:]:
        row |= {field: last[0][field] for field in query["fields"] if field in last[0]}


def zero(first: float, last: float, place: int, body: Body, query: Body) -> None:
    need(not query["is_rate"])
    scale(0.0, first, last, place, body, query)


def repeat(part: float, shifted_hours: float, body: Body, query: Body) -> None:
    """Add rows of a venue again, with other stamps."""
    rows = sorted(venue(0, body), key=stamp_of)
    home = next(listed for listed in lists_of(body) if any(row is rows[0] for row in listed))
    for row in rows[int((1 - part) * len(rows)) :]:
        home.append(copy.deepcopy(row))
        shift(home[-1], shifted_hours / 24)
    count(body)


def contradict(factor: float, body: Body, query: Body) -> None:
    """Add rows of a venue again, with other amounts."""
    rows = venue(0, body)
    home = next(listed for listed in lists_of(body) if any(row is rows[0] for row in listed))
    for row in list(rows)[::3]:
        home.append(copy.deepcopy(row))
        for field in query["fields"]:
            if isinstance(row.get(field), int | float):
                home[-1][field] *= factor
    count(body)


def exchange_venues(body: Body, query: Body) -> None:
    """Exchange the rows of two venues after the middle."""
    first, second = sorted(venue(0, body), key=stamp_of), sorted(venue(1, body), key=stamp_of)
    need(len(first) == len(second) >= 12)
    for one, other in list(zip(first, second, strict=True))[len(first) // 2 :]:
        for field in query["fields"]:
            if field in one and field in other:
                one[field], other[field] = other[field], one[field]


def lose(place: int, body: Body, query: Body) -> None:
    """Remove a venue that was requested."""
    rows = list(venue(place, body))
    keep(rows, body, lambda row: False)
    for name in ("series", "data"):
        if isinstance(body.get(name), dict):
            body[name] = {key: value for key, value in body[name].items() if value}


def rename(body: Body, query: Body) -> None:
    """Rename a venue's rows to a venue that was not requested."""
    groups = by_venue(body)
    for name in ("series", "data"):
        if isinstance(body.get(name), dict):
            body[name]["kraken"] = body[name].pop(sorted(groups)[0])
            return
    for row in sorted(groups.items())[0][1]:
        row["exchange"] = "kraken"


CHANGES: dict[str, Change] = {
    "the last tenth of one venue is missing": partial(cut, 0.9, 1.0, (0,)),
    "the first tenth of one venue is missing": partial(cut, 0.0, 0.1, (1,)),
    "two days of one venue are missing": partial(cut, 0.45, 0.55, (2,)),
    "half of two venues is missing": partial(cut, 0.5, 1.0, (0, 1)),
    "the same day of all venues is missing": partial(cut, 0.6, 0.68, (0, 1, 2)),
    "every fourth row of one venue is missing": partial(every, 4, 0),
    "every second row of one venue is missing": partial(every, 2, 1),
    "stamps of one venue are half a step late": partial(move, 0.5, 1.0, 0),
    "stamps of one venue are 7 minutes late from the middle on": partial(move, 7 / 60, 0.5, 2),
    "stamps of one venue are a month early": partial(move, -24 * 30, 1.0, 0),
    "amounts of one venue are times 100 from the middle on": partial(scale, 100.0, 0.5, 1.0, 0),
    "amounts of one venue are times 8 in the first third": partial(scale, 8.0, 0.0, 0.34, 1),
    "amounts of one venue are times 10,000 in the last third": partial(scale, 1e4, 0.66, 1.0, 2),
    "amounts of one venue are a thousandth in the middle": partial(scale, 1e-3, 0.3, 0.7, 0),
    "amounts of one venue are times 10,000": partial(scale, 1e4, 0.0, 1.0, 1),
    "amounts of one venue are below zero": partial(scale, -1.0, 0.2, 0.8, 0),
    "amounts of one venue are zero for days": partial(zero, 0.3, 0.6, 1),
    "one venue stands still in the last half": partial(freeze, 0.5, 0),
    "rows of one venue come twice, half a step apart": partial(repeat, 1.0, 0.5),
    "rows of the last quarter come again with other amounts": partial(contradict, 1.5),
    "two venues change places from the middle on": exchange_venues,
    "a requested venue is absent": partial(lose, 1),
    "a venue has the name of another one": rename,
}

_ALIKE = "the venues are alike: neither series is contradicted"
SILENT: dict[str, str] = {
    "funding.settlements: two venues change places from the middle on": _ALIKE,
    "oi.history: two venues change places from the middle on": "hours of the sample move by as much",
    "volume.history: two venues change places from the middle on": "days of volume move by as much",
    "prices.history: two venues change places from the middle on": _ALIKE,
    "prices.spot: two venues change places from the middle on": _ALIKE,
    "volume.taker: amounts of one venue are times 10,000": "nothing states how large a venue is",
    "volume.taker: two venues change places from the middle on": "hours of volume move by as much",
    "futures.history: every fourth row of one venue is missing": "a local archive may have sparser rows",
    "futures.history: every second row of one venue is missing": "a local archive may have sparser rows",
}
"""Changes by call and title that nothing in a response contradicts, with the reason."""


@pytest.fixture(scope="module")
def liar() -> Iterator[Liar]:
    """Respond to every request of this process from the sample, with a fixed clock."""
    with faults.serve({KEY: "team"}) as url:
        found = Liar(url)
        restore = SESSION.install(responder=found.respond, clock=lambda: NOON)
        yield found
        restore()


def outcome(call: Call, change: Change, liar: Liar) -> str:
    """Return the result of a changed response: an error, a notice, silent, or unfit if it does not apply."""
    changed: list[bool] = []

    def made(body: Body, query: Body) -> None:
        before = copy.deepcopy(body)
        change(body, query | {"fields": call.fields, "is_rate": call.is_rate})
        need(body != before)
        changed.append(True)

    liar.change = made
    earlier.clear()
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            call.fetch()
        except DerivdataError as error:
            return f"error: {error}"
        finally:
            liar.change = None
    if not changed:
        return "unfit"
    notices = [str(each.message) for each in said if issubclass(each.category, DataNotice)]
    return f"notice: {notices[0]}" if notices else "silent"


def test_wrong_histories_are_seen_or_listed(liar: Liar) -> None:
    """At most one change in twenty is undetected, and each of these is listed with its reason."""
    found = {
        f"{name}: {title}": outcome(call, change, liar)
        for name, call in CALLS.items()
        for title, change in CHANGES.items()
    }
    made = {title: kind for title, kind in found.items() if kind != "unfit"}
    silent = [title for title, kind in made.items() if kind == "silent"]
    assert len(made) >= 200
    assert silent == list(SILENT)
    assert len(silent) <= 0.05 * len(made)


@pytest.mark.parametrize("name", CALLS)
def test_right_histories_say_nothing(name: str, liar: Liar) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", DataNotice)
        assert CALLS[name].fetch() is not None


LATER_CHANGES: dict[str, tuple[str, Change, str]] = {
    "one venue is a row late": (
        "oi.history",
        lambda body, query: [
            row.update(open_interest_usd=before["open_interest_usd"])
            for before, row in reversed([*pairwise(sorted(venue(0, body), key=stamp_of))])
        ],
        r"oi_usd of BTC binance 2026-06-\d\d \d\d:00 is .* and was .* in an earlier response; \d+ of 1440",
    ),
    "one venue drifts": (
        "volume.history",
        partial(scale, 1.3, 0.2, 0.8, 1),
        "volume_usd of BTC bybit .* 12 of 60 past rows differ",
    ),
    "rows are gone": (
        "liquidations",
        lambda body, query: body["data"].pop(3),
        "16 past rows of an earlier response are missing, first BTC aster 2026-06-04 00:00",
    ),
    "one figure of a snapshot": (
        "markets",
        lambda body, query: body["exchanges"][5].update(volume_24h_usd=1.0),
        "volume_24h_usd of okx is 1 and was .* 0 minutes before; 1 of 43 rows differ as much",
    ),
}
"""Changes of a second response that only the first one contradicts: call, change and notice."""
OTHER_CALLS = {
    "liquidations": Call(lambda: dd.liquidations.history("BTC", *WINDOW, resolution="1d"), ()),
    "markets": Call(dd.markets.exchanges, ()),
}


@pytest.mark.parametrize("title", LATER_CHANGES)
def test_a_response_that_contradicts_an_earlier_one_has_a_notice(title: str, liar: Liar) -> None:
    name, change, words = LATER_CHANGES[title]
    call = {**CALLS, **OTHER_CALLS}[name]
    earlier.clear()
    with warnings.catch_warnings():
        warnings.simplefilter("error", DataNotice)
        call.fetch()
        call.fetch()
    liar.change = lambda body, query: change(body, {"fields": call.fields})
    try:
        with pytest.warns(DataNotice, match=words):
            table = call.fetch()
    finally:
        liar.change = None
        earlier.clear()
    assert any(re.search(words, notice) for notice in dd.provenance(table)["notices"])


def test_liquidations_that_fall_within_a_minute_have_no_notice(liar: Liar) -> None:
    """A cascade of the day before leaves the window of 24 hours."""

    def shrink(body: Body, _query: Body) -> None:
        for row in body["exchanges"]:
            row["liquidation_24h_usd"] *= 0.4

    earlier.clear()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", DataNotice)
            dd.markets.exchanges()
            liar.change = shrink
            dd.markets.exchanges()
    finally:
        liar.change = None
        earlier.clear()


def test_earlier_responses_are_limited_in_rows(liar: Liar, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond the limit the oldest query is no longer compared, the newest still is."""
    monkeypatch.setattr(earlier, "_MOST_STORED_ROWS", 1450)
    earlier.clear()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", DataNotice)
            dd.markets.exchanges()
            CALLS["oi.history"].fetch()
            liar.change = lambda body, _query: body["exchanges"][5].update(volume_24h_usd=1.0)
            dd.markets.exchanges()
        liar.change = None
        with pytest.warns(DataNotice, match="rows differ as much"):
            dd.markets.exchanges()
    finally:
        liar.change = None
        earlier.clear()


def test_a_changed_table_is_not_an_earlier_response(liar: Liar) -> None:
    earlier.clear()
    with warnings.catch_warnings():
        warnings.simplefilter("error", DataNotice)
        table = CALLS["oi.history"].fetch()
        table.loc[table.index < 50, "oi_usd"] = 0.0
        CALLS["oi.history"].fetch()


def test_earlier_responses_are_stored_by_many_threads_and_for_one_source() -> None:
    responses = earlier._Responses()
    sources = [object.__new__(type("Source", (), {})) for _ in range(2)]
    row = earlier._Earlier({}, {}, None, 0, 1)

    def store(number: int) -> None:
        for step in range(300):
            responses.add(sources[0], (number, step % 40), row)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(store, range(8)))
    assert len(responses._by_query) == earlier._MOST_QUERIES
    responses.add(sources[0], "last", row)
    assert responses.add(sources[0], "last", row) == (row,)
    assert responses.add(sources[1], "last", row) == ()
    del sources[1]
    gc.collect()
    assert responses._by_query == {}


def test_a_query_over_the_limit_of_rows_keeps_its_newest_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(earlier, "_MOST_STORED_ROWS", 25)
    responses = earlier._Responses()
    source = type("Source", (), {})()
    for day in range(5):
        responses.add(source, "other", earlier._Earlier({}, {}, (day, day + 1), 0, 10))
    for day in range(4):
        responses.add(source, "history", earlier._Earlier({}, {}, (day, day + 1), 0, 10))
    assert list(responses._by_query) == ["history"]
    assert [response.window_us for response in responses._by_query["history"]] == [(2, 3), (3, 4)]
