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
from tests.reliability.test_lying_server import (
    NOON,
    STAMPS,
    Body,
    Change,
    Liar,
    need,
    rows_of,
    shift,
    stamp_of,
)
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
    results: list[list[Body]] = []
    for name in ("series", "data"):
        value = body.get(name)
        groups = list(value.values()) if isinstance(value, dict) else [value]
        results += [rows for rows in groups if isinstance(rows, list) and rows and isinstance(rows[0], dict)]
    need(results and any(isinstance(results[0][0].get(name), str) for name in STAMPS))
    return results


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
    for item, other in list(zip(first, second, strict=True))[len(first) // 2 :]:
        for field in query["fields"]:
            if field in item and field in other:
                item[field], other[field] = other[field], item[field]


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
        result = Liar(url)
        restore = SESSION.install(responder=result.respond, clock=lambda: NOON)
        yield result
        restore()


def outcome(call: Call, change: Change, liar: Liar, *, every: bool = False) -> str:
    """Return the result of a changed response: an error, a notice, silent, or unfit if it does not apply.

    The result has the first notice, or `every` one.
    """
    changed: list[bool] = []

    def made(body: Body, query: Body) -> None:
        before = copy.deepcopy(body)
        change(body, query | {"fields": call.fields, "is_rate": call.is_rate})
        need(body != before)
        changed.append(True)

    liar.change = made
    earlier.clear()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            call.fetch()
        except DerivdataError as error:
            return f"error: {error}"
        finally:
            liar.change = None
    if not changed:
        return "unfit"
    notices = [str(notice.message) for notice in caught if issubclass(notice.category, DataNotice)]
    shown = notices if every else notices[:1]
    return "\n".join(f"notice: {text}" for text in shown) if notices else "silent"


def test_altered_histories_are_detected_or_listed(liar: Liar) -> None:
    """At most one change in twenty is undetected, and each of these is listed with its reason."""
    results = {
        f"{name}: {title}": outcome(call, change, liar)
        for name, call in CALLS.items()
        for title, change in CHANGES.items()
    }
    made = {title: kind for title, kind in results.items() if kind != "unfit"}
    silent = [title for title, kind in made.items() if kind == "silent"]
    assert len(made) >= 200
    assert silent == list(SILENT)
    assert len(silent) <= 0.05 * len(made)


@pytest.mark.parametrize("name", CALLS)
def test_valid_histories_give_no_notice(name: str, liar: Liar) -> None:
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
        r"oi_usd of BTC binance 2026-06-\d\d \d\d:00 is .*, but was .* in an earlier response; \d+ of 1440",
    ),
    "one venue drifts": (
        "volume.history",
        partial(scale, 1.3, 0.2, 0.8, 1),
        "volume_usd of BTC bybit .* 12 of 60 past rows differ",
    ),
    "rows are gone": (
        "liquidations",
        lambda body, query: body["data"].pop(3),
        "16 past rows from an earlier response are missing, first BTC aster 2026-06-04 00:00",
    ),
    "one figure of a snapshot": (
        "markets",
        lambda body, query: body["exchanges"][5].update(volume_24h_usd=5e6),
        r"volume_24h_usd of okx is 5e\+06, but was .* 0 minutes before; 1 of 43 rows differ by as much",
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
    monkeypatch.setattr(earlier, "_MAX_STORED_ROWS", 1450)
    earlier.clear()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", DataNotice)
            dd.markets.exchanges()
            CALLS["oi.history"].fetch()
            liar.change = lambda body, _query: body["exchanges"][5].update(volume_24h_usd=5e6)
            dd.markets.exchanges()
        liar.change = None
        with pytest.warns(DataNotice, match="rows differ by as much"):
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
    assert len(responses._by_query) == earlier._MAX_QUERIES
    responses.add(sources[0], "last", row)
    assert responses.add(sources[0], "last", row) == (row,)
    assert responses.add(sources[1], "last", row) == ()
    del sources[1]
    gc.collect()
    assert responses._by_query == {}


def test_a_query_over_the_limit_of_rows_keeps_its_newest_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(earlier, "_MAX_STORED_ROWS", 25)
    responses = earlier._Responses()
    source = type("Source", (), {})()
    for day in range(5):
        responses.add(source, "other", earlier._Earlier({}, {}, (day, day + 1), 0, 10))
    for day in range(4):
        responses.add(source, "history", earlier._Earlier({}, {}, (day, day + 1), 0, 10))
    assert list(responses._by_query) == ["history"]
    assert [response.window_us for response in responses._by_query["history"]] == [(2, 3), (3, 4)]


def replaced(change: Callable[[list[float]], list[float]], field: str, place: int) -> Change:
    """Return a change of one venue's values in time order."""

    def made(body: Body, query: Body) -> None:
        rows = sorted(venue(place, body), key=stamp_of)
        values = change([row[field] for row in rows])
        for row, value in zip(rows, values, strict=True):
            row[field] = value

    return made


def page_again(rows: int, values: list[float]) -> list[float]:
    """Repeat the rows before the middle after it."""
    middle = len(values) // 2
    return [*values[:middle], *values[middle - rows : middle], *values[middle + rows :]]


def line(values: list[float]) -> list[float]:
    """Interpolate 100 rows."""
    steps = (values[200] - values[100]) / 100
    return [*values[:100], *(values[100] + steps * number for number in range(100)), *values[200:]]


def summed(values: list[float]) -> list[float]:
    return [sum(values[: number + 1]) for number in range(len(values))]


def each_sixth(values: list[float]) -> list[float]:
    return [values[number - number % 6] for number in range(len(values))]


def later(rows: int, values: list[float]) -> list[float]:
    return [*values[:rows], *values[:-rows]]


def of_day(values: list[float]) -> list[float]:
    return [sum(values[max(number - 5, 0) : number + 1]) for number in range(len(values))]


def buys_of_both(body: Body, query: Body) -> None:
    for rows in lists_of(body):
        for row in rows:
            row["buy_usd"] += row["sell_usd"]


def all_venues(change: Callable[[list[float]], list[float]], field: str) -> Change:
    """Return a change of each venue's values in time order."""

    def made(body: Body, query: Body) -> None:
        for place in range(3):
            replaced(change, field, place)(body, query)

    return made


VOLUMES = Call(lambda: dd.volume.history("BTC", *WINDOW, resolution="4h", **VENUES), ("volume_usd",))
LIQUIDATIONS = Call(lambda: dd.liquidations.history("BTC", *WINDOW, resolution="4h"), ())
DEPTHS = Call(lambda: dd.orderbook.depth_history("BTC", "okx", *WINDOW, resolution="4h"), ())
TOP = Call(lambda: dd.oi.top_symbols("okx", *WINDOW, limit=3), ())
CANDLES = Call(lambda: dd.hip3.candles("xyz:TSLA", *WINDOW), ())
SYMBOLS = Call(dd.markets.symbols, ())
SNAPSHOT = Call(dd.funding.snapshot, ())
OI_OF_VENUES = Call(dd.oi.exchanges, ())


def thousands(body: Body, query: Body) -> None:
    """Multiply liquidations of the second half of the window."""
    for row in body["data"][len(body["data"]) // 2 :]:
        for sides in row["exchanges"].values():
            sides |= {name: 1000.0 * value for name, value in sides.items()}


def coins_of_depth(body: Body, query: Body) -> None:
    for row in body["data"][len(body["data"]) // 2 :]:
        row |= {name: value / 1e5 for name, value in row.items() if "depth" in name}


def symbols_change_places(body: Body, query: Body) -> None:
    first, second = body["symbols"][:2]
    for row in body["timeseries"][len(body["timeseries"]) // 2 :]:
        row[first], row[second] = row[second], row[first]


def cents(body: Body, query: Body) -> None:
    for row in body["data"][len(body["data"]) // 2 :]:
        row |= {name: 100 * row[name] for name in ("open", "high", "low", "close")}


def of_venue(change: Callable[[str, float], float], slug: str, body: Body, query: Body) -> None:
    """Change the rates of a venue of a snapshot, with the raw ones."""
    hours = body["funding_intervals"][slug]
    for symbol, rate in body["funding_rates"][slug].items():
        changed = change(symbol, rate)
        body["funding_rates"][slug][symbol] = changed
        body["funding_rates_raw"][slug][symbol] = str(changed * hours.get(symbol, 8) / 8e4)


def next_symbols(body: Body, query: Body) -> None:
    """Shift the rates of a venue by one symbol."""
    listed = sorted(body["funding_rates"]["binance"])
    for name in ("funding_rates", "funding_rates_raw", "funding_intervals"):
        values = [body[name]["binance"][symbol] for symbol in listed]
        body[name]["binance"] = dict(zip(listed, [*values[1:], values[0]], strict=True))


def exchanged_venues(body: Body, query: Body) -> None:
    for name in ("funding_rates", "funding_rates_raw", "funding_intervals"):
        venues = body[name]
        venues["binance"], venues["hyperliquid"] = venues["hyperliquid"], venues["binance"]


def fractions_of_all(body: Body, query: Body) -> None:
    for slug in body["funding_rates"]:
        of_venue(lambda symbol, rate: rate / 1e4, slug, body, query)


def fractions_of_changes(body: Body, query: Body) -> None:
    for row in body["symbols"]:
        row["price_24h_change_pct"] /= 100


def larger_than_sparkline(body: Body, query: Body) -> None:
    for row in body["exchanges"]:
        if row["exchange"] == "okx":
            row["total_oi_usd"] *= 9.0


def opposite_changes(body: Body, query: Body) -> None:
    for row in body["exchanges"]:
        row["change_24h"] *= -1.0


def of_symbol(symbol: str, factor: float, body: Body, query: Body) -> None:
    """Multiply the rates of a symbol on all venues, with the raw ones."""
    for slug, rates in body["funding_rates"].items():
        if symbol in rates:
            rates[symbol] *= factor
            raw = body["funding_rates_raw"][slug]
            raw[symbol] = repr(float(raw[symbol]) * factor)


def changed_rows(change: Callable[[Body], Body], body: Body, query: Body, *, every: int = 1) -> None:
    """Change fields of rows at any depth."""
    for row in rows_of(body)[::every]:
        row |= change(row)


def only_of(field: str, change: Callable[[float], float], *, every: int = 1) -> Change:
    return partial(
        changed_rows, lambda row: {field: change(row[field])} if row.get(field) else {}, every=every
    )


def shifted_expiries(body: Body, query: Body) -> None:
    for row in body["data"]:
        later = pd.Timestamp(row["expiry"]) + pd.Timedelta(1, "D")
        row["expiry"] = f"{later:%Y-%m-%dT%H:%M:%SZ}"


def one_fill_price(body: Body, query: Body) -> None:
    for row in body["events"]:
        if (row["symbol"], row["exchange"]) == ("BTC", "binance"):
            row["avg_price"] = 109_000.0


def another_symbol(body: Body, query: Body) -> None:
    for row in body["timeseries"]:
        row["ETH"] = row["BTC"]


def of_summary(name: str, factor: float, body: Body, query: Body) -> None:
    body["summary"][name] *= factor


CHAIN = Call(lambda: dd.options.snapshot("ETH", venues="bybit"), ())
METRICS = Call(lambda: dd.options.metrics("BTC", "deribit"), ())
TRADES = Call(lambda: dd.options.trades("BTC", "1d", venues="okx"), ())
EVENTS = Call(lambda: dd.liquidations.events(since="3d", limit=4000, symbols=["BTC", "ETH"]), ())
DASHBOARD = Call(lambda: dd.hip3.dashboard(window="7d"), ())
INDEX = Call(
    lambda: dd.volatility.index_published("BTC", *WINDOW, resolution="1h", venues="deribit"), ("index_pct",)
)
FUTURES = Call(lambda: dd.futures.history("BTC", *WINDOW, resolution="4h", **VENUES), ())

PATTERNS: dict[str, tuple[Call, Change, str]] = {
    "rates of a symbol as fractions": (
        SNAPSHOT, partial(of_symbol, "BTC", 1e-4), r"rate_bps_8h of BTC is at most .* bps on all \d+ venues"
    ),
    "liquidations of no symbol": (
        SYMBOLS,
        partial(changed_rows, lambda row: {"liquidation_24h_usd": 0.0}),
        r"liquidation_24h_usd is 0 in all \d+ rows",
    ),
    "theta of a year": (
        CHAIN, only_of("theta", lambda value: 365 * value), "theta is 365 times the value from the volatility"
    ),
    "expiries on Saturdays": (METRICS, shifted_expiries, r"none of \d+ expiries beyond one week is on a"),
    "premiums of eight options": (
        TRADES, only_of("price_coin", lambda value: 8 * value, every=2), "trades near the money differs from"
    ),
    "one price of all fills": (
        EVENTS, one_fill_price, "fill_price_usd of BTC binance is 109000 in .* the value may be a placeholder"
    ),
    "totals of venues in coins": (
        CALLS["oi.exchange_totals"],
        only_of("total_open_interest_usd", lambda value: value / 1e5),
        "total_oi_usd of binance is .*: it has been above 2e.08 since 2021",
    ),
    "sells of another venue": (
        CALLS["volume.taker"],
        only_of("sell_usd", lambda value: value / 2),
        "buy_usd of BTC binance adds up to .* and sell_usd to",
    ),
    "a symbol under another name": (
        TOP, another_symbol, "oi_usd of .* is the same in all rows: one of them may be copied"
    ),
    "a page of volumes again": (
        CANDLES,
        lambda body, query: [
            row.update(volume=other["volume"])
            for row, other in zip(body["data"][100:130], body["data"][70:100], strict=True)
        ],
        "volume has the values of .* again on .*: a page may be repeated",
    ),
    "a summary of another window": (
        DASHBOARD,
        partial(of_summary, "volume", 7.0),
        "volume of the summary is .*, but volume_usd of timeseries adds up to",
    ),
    "fees as volume": (
        DASHBOARD,
        partial(
            changed_rows, lambda row: {"fees_usd": row["volume_usd"]} if "fees_usd" in row else {}, every=9
        ),
        "fees_usd is .* although volume_usd is .* in .* rows: no venue has fees of a tenth of the volume",
    ),
    "the first symbols are missing": (
        SYMBOLS,
        lambda body, query: body["symbols"].__delitem__(slice(40)),
        "expected the first rank to be 1, got 41",
    ),
    "volumes of some hours are missing": (
        VOLUMES, only_of("volume_usd", lambda value: 0.0, every=9), "volume_usd of BTC at binance is 0 in"
    ),
    "volume without trades": (
        DASHBOARD, only_of("trades", lambda value: 0), r"trades is 0 although volume_usd is .* in \d+ rows"
    ),
    "volumes of 24 hours that are missing": (
        FUTURES,
        only_of("volume_24h_usd", lambda value: 0.0, every=2),
        "volume_24h_usd of .* is 0 twice within a day but not in between",
    ),
    "prices of each fourth hour": (
        CALLS["prices.history"],
        all_venues(lambda values: [values[place - place % 4] for place in range(len(values))], "y"),
        "price_usd of BTC binance mark changes only every 4 rows",
    ),
    "every second rate in percent": (
        CALLS["funding.history"],
        lambda body, query: [
            row.update(y=100 * row["y"]) for rows in body["series"].values() for row in rows[::2]
        ],
        "rate_bps_8h of BTC .* is .* times as large in 2.. equally spaced rows",
    ),
    "an underlying of another coin": (
        METRICS,
        only_of("underlying_price", lambda value: 30 * value),
        "underlying_price of BTC is 3.29e.06: no market has ever had such a price",
    ),
    "opens and closes exchanged": (
        CANDLES,
        partial(changed_rows, lambda row: {"open": row["close"], "close": row["open"]}),
        "the median difference of open and previous close is .*: the two columns may be swapped",
    ),
    "a symbol in coins": (
        TOP,
        lambda body, query: [row.update(BTC=row["BTC"] / 1e5) for row in body["timeseries"]],
        "oi_usd of BTC is at most .*, but that of the next symbol in the ranked list is at least",
    ),
    "sells in another order": (
        CALLS["volume.taker"],
        all_venues(lambda values: values[::-1], "sell_usd"),
        "buy_usd and sell_usd of binance do not move together",
    ),
    "one side of the book in coins": (
        DEPTHS,
        lambda body, query: [
            row.update(ask_depth_10bps_usd=row["ask_depth_10bps_usd"] / 30) for row in body["data"][50:90]
        ],
        "bids at 10 bps are over 10 times as deep as the other side in 40 consecutive rows",
    ),
    "liquidations of a million times": (
        LIQUIDATIONS,
        lambda body, query: [
            next(iter(row["exchanges"].values())).update(long_usd=1e11) for row in body["data"][3:9]
        ],
        "long_usd is 1e.11: no venue has ever had as many liquidations",
    ),
    "volumes of futures in coins": (
        FUTURES, only_of("volume_24h_usd", lambda value: value / 1e5), "sum volume_24h_usd .*, sum oi_usd"
    ),
    "an index eight times as high": (
        INDEX, only_of("index_pct", lambda value: 8 * value, every=3), "far from the usual: index_pct"
    ),
    "a page of rows again": (
        CALLS["oi.history"],
        replaced(partial(page_again, 48), "open_interest_usd", 0),
        "oi_usd of BTC binance has the values of 2026-06-09 00:00 .* again on 2026-06-11 00:00: a page",
    ),
    "a straight line": (
        CALLS["oi.history"],
        replaced(line, "open_interest_usd", 1),
        r"oi_usd of BTC bybit is a straight line in 10\d rows from 2026-06-05 0\d:00 on",
    ),
    "a running sum": (
        VOLUMES,
        replaced(summed, "volume_usd", 2),
        "volume_usd of BTC okx never falls in 120 rows: it may be a running sum",
    ),
    "each row six times": (
        CALLS["oi.history"],
        replaced(each_sixth, "open_interest_usd", 2),
        "oi_usd of BTC okx changes only every 6 rows",
    ),
    "prices three hours late": (
        CALLS["prices.history"],
        replaced(partial(later, 3), "y", 0),
        "price_usd of BTC binance mark is 3 rows late compared with the other venues",
    ),
    "prices in reverse order": (
        CALLS["prices.history"],
        replaced(lambda values: values[::-1], "y", 1),
        "price_usd of BTC bybit mark does not move with the other venues",
    ),
    "prices in another currency": (
        CALLS["prices.history"],
        replaced(lambda values: [0.86 * value for value in values], "y", 2),
        "price_usd of BTC okx mark is 0.86 times that of the other venues",
    ),
    "rates in percent": (
        CALLS["funding.history"],
        all_venues(lambda values: [value / 100 for value in values], "y"),
        "rate_bps_8h is at most .* bps in 95 % of 1438 rows: the rates may be fractions or percent",
    ),
    "payments of hours for those of eight": (
        CALLS["funding.settlements"],
        replaced(lambda values: [value / 8 for value in values], "y", 0),
        "rate_bps_8h of BTC binance repeats 0.125 bps, but the interest in the venues' formula is 1 bps",
    ),
    "volumes of a day every four hours": (
        VOLUMES,
        all_venues(of_day, "volume_usd"),
        "volume_usd changes by .* % from row to row .*: the rows may be daily sums instead of sums over 4 h",
    ),
    "open interest in coins": (
        CALLS["oi.history"],
        all_venues(lambda values: [value / 1e5 for value in values], "open_interest_usd"),
        "oi_usd of BTC at binance is .*: it has been above 2e.07 since 2021",
    ),
    "prices of Ethereum": (
        CALLS["prices.history"],
        all_venues(lambda values: [value / 28 for value in values], "y"),
        "price_usd of BTC is .* in 1440 rows: expected at least 7500, as always since 2021",
    ),
    "buys with sells": (
        CALLS["volume.taker"], buys_of_both, "BTC binance adds up to .*: one of them may be the sum of both"
    ),
    "liquidations in thousandths": (
        LIQUIDATIONS, thousands, "liquidations of all venues are .* times as large from about 2026-06-11"
    ),
    "depth in coins": (
        DEPTHS, coins_of_depth, "_depth_usd of BTC okx is .*e-06 times as large from 2026-06-11 00:00 on"
    ),
    "symbols change places": (
        TOP, symbols_change_places, "oi_usd values of .* and .* are swapped from 2026-06-11 00:00"
    ),
    "candles in cents": (CANDLES, cents, "close is 101 times as large from 2026-06-1"),
    "one rate for all symbols": (
        SNAPSHOT,
        partial(of_venue, lambda symbol, rate: 1.0, "gateio"),
        r"rate_bps_8h of gateio is 1 bps for all \d+ symbols",
    ),
    "a venue with the other sign": (
        SNAPSHOT,
        partial(of_venue, lambda symbol, rate: -rate, "binance"),
        "rate_bps_8h of binance repeats -1 bps",
    ),
    "a venue in percent": (
        SNAPSHOT,
        partial(of_venue, lambda symbol, rate: rate / 100, "okx"),
        "rate_bps_8h of okx repeats 0.01 bps",
    ),
    "rates of the next symbols": (SNAPSHOT, next_symbols, "rate_bps_8h of binance has the rates of the next"),
    "two venues exchanged": (
        SNAPSHOT, exchanged_venues, "the median interval_hours of hyperliquid is 4 for"
    ),
    "all rates as fractions": (SNAPSHOT, fractions_of_all, "rate_bps_8h is at most .* bps in 95 % of"),
    "open interest of a venue in another unit than its sparkline": (
        OI_OF_VENUES,
        larger_than_sparkline,
        "total_oi_usd of okx is 9 times the newest point of its sparkline",
    ),
    "changes of open interest with the other sign": (
        OI_OF_VENUES,
        opposite_changes,
        r"change_24h has the opposite sign of the sparkline at (\d+) of \1 venues",
    ),
    "changes as fractions": (
        SYMBOLS, fractions_of_changes, r"price_24h_change_pct is at most 0\.\d+ in \d+ rows"
    ),
}  # fmt: skip
"""Patterns and sizes that no market has: call, change, and the notice."""


@pytest.mark.parametrize("title", PATTERNS)
def test_a_pattern_that_no_market_has_is_found(title: str, liar: Liar) -> None:
    call, change, words = PATTERNS[title]
    with warnings.catch_warnings():
        warnings.simplefilter("error", DataNotice)
        earlier.clear()
        call.fetch()
    assert re.search(words, outcome(call, change, liar, every=True))


def test_volumes_in_another_unit_from_some_row_on_have_one_notice(liar: Liar) -> None:
    """The rows from the 61st on are 60 times as large, and 0.92 times without that; each part is ten days."""

    def scaled(values: list[float]) -> list[float]:
        return [*values[:60], *(60.0 * value for value in values[60:])]

    result = outcome(VOLUMES, replaced(scaled, "volume_usd", 2), liar, every=True)
    assert re.findall(r"volume_usd of BTC okx [^;:]* times", result) == [
        "volume_usd of BTC okx is 55.4 times"
    ]


def turned_market(body: Body, query: Body) -> None:
    """Open interest rose by 5 % until the newest point, and has fallen by 15 % since."""
    for row in body["exchanges"]:
        newest = row["total_oi_usd"] / 0.85
        row["sparkline_7d"][-2:] = [newest / 1.05, newest]
        row["change_24h"] = -12.0


def launched_venue(body: Body, query: Body) -> None:
    """Open interest of a venue is 30 times that of a day ago, and 20 times that of the newest point."""
    row = body["exchanges"][0]
    row["sparkline_7d"][-2:] = [row["total_oi_usd"] / 40.0, row["total_oi_usd"] / 20.0]
    row["change_24h"] = 2900.0


def closed_venue(body: Body, query: Body) -> None:
    """Open interest of a venue is a 20th of that of a day ago and of the newest point."""
    row = body["exchanges"][0]
    row["sparkline_7d"][-2:] = [20.0 * row["total_oi_usd"]] * 2
    row["change_24h"] = -95.0


def new_venue(body: Body, query: Body) -> None:
    """A venue has its first point, a 20th of its open interest, and no change yet."""
    row = body["exchanges"][0]
    row["sparkline_7d"] = [None] * 6 + [row["total_oi_usd"] / 20.0]
    row["change_24h"] = None


@pytest.mark.parametrize("change", [turned_market, launched_venue, closed_venue, new_venue])
def test_real_moves_of_open_interest_are_not_other_than_the_sparkline(
    change: Callable[[Body, Body], None], liar: Liar
) -> None:
    assert "sparkline" not in outcome(OI_OF_VENUES, change, liar, every=True)
