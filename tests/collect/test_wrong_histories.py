"""Well-formed but wrong venue histories: rejected, named, without effect or listed.

Every change of `CHANGES` is applied to the responses of each applicable history of `HISTORIES`. A backfill
reads them into an archive, and its rows are compared with the rows of the unchanged responses.
"""

from __future__ import annotations

import copy
import json
import re
import shutil
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
import pytest

from derivdata.errors import DataNotice, DerivdataError
from derivdata.sources.archive import open_archive
from derivdata.sources.collect.histories import backfill
from derivdata.sources.collect.history_rows import refilling
from derivdata.sources.venues.registry import VENUES
from tests.collect.clocks import SimulatedClock
from tests.collect.direct import connect_directly
from tests.collect.fakes import Fakes
from tests.collect.test_other_answers import rows_in

NOW = "2026-02-01T00:30:00"
END = "2026-02-01"
LAST = int(pd.Timestamp("2026-02-05", tz="UTC").timestamp())
MIDDLE = 0.5
_UNITS = (1, 1000, 1_000_000)  # of a second
_FIRST, _NEVER = 1.7e9, 1.8e9  # s: between them are the times of these histories

Row = Any
Change = Callable[[list[Row]], None]


class Unfit(Exception):
    """The change does not apply to a list of rows."""


class History(NamedTuple):
    """A table of a venue, and the start of the window that is read."""

    venue: str
    table: str
    start: str


HISTORIES = [
    History(name, "funding_settlements", "2026-01-12") for name in ("binance", "okx", "gateio", "kraken")
]


def need(condition: object) -> None:
    if not condition:
        raise Unfit


def items(row: Row) -> Iterator[tuple[Any, Any]]:
    yield from row.items() if isinstance(row, dict) else enumerate(row)


def number(value: Any) -> float | None:
    """Return the number that a value is or writes."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        return float(value)
    except ValueError:
        return None


def unit(value: Any) -> int | None:
    """Return the ticks per second of a time's unit, None if the value is not a time."""
    amount = number(value)
    result = [] if amount is None else [unit for unit in _UNITS if _FIRST * unit < amount < _NEVER * unit]
    return result[0] if result else None


def times_of(row: Row) -> list[Any]:
    return [key for key, value in items(row) if unit(value) or _is_iso(value)]


def _is_iso(value: Any) -> bool:
    return isinstance(value, str) and re.match(r"20\d\d-\d\d-\d\dT", value) is not None


def seconds(row: Row) -> float:
    """Return the first time of a row."""
    keys = times_of(row)
    need(keys)
    value = row[keys[0]]
    if _is_iso(value):
        return float(pd.Timestamp(value).timestamp())
    return float(value) / (unit(value) or 1)


_NO_AMOUNT = re.compile(r"interval|hour|id$|size|count|symbol|period", re.IGNORECASE)


def amounts_of(row: Row) -> list[Any]:
    """Return the places of a row's amounts: the numbers that are not times, intervals or ids."""
    return [
        key
        for key, value in items(row)
        if number(value)
        and value not in ("1", 1)
        and not unit(value)
        and not _is_iso(value)
        and not _NO_AMOUNT.search(str(key))
    ]


def put(row: Row, key: Any, value: float) -> None:
    """Write a number as the row has it: as text or not."""
    row[key] = repr(value) if isinstance(row[key], str) else value


def ordered(rows: list[Row]) -> list[Row]:
    need(len(rows) >= 6)
    return sorted(rows, key=seconds)


def scale(factor: float, first: float, last: float, rows: list[Row]) -> None:
    """Multiply all amounts of a part of the rows."""
    sorted_rows = ordered(rows)
    for row in sorted_rows[int(first * len(rows)) : int(last * len(rows))]:
        for key in amounts_of(row):
            put(row, key, float(row[key]) * factor)


def scale_one(factor: float, place: int, rows: list[Row]) -> None:
    """Multiply one of several amounts of all rows."""
    for row in ordered(rows):
        keys = amounts_of(row)
        need(len(keys) > 1)
        put(row, keys[place], float(row[keys[place]]) * factor)


def scale_every(factor: float, number: int, rows: list[Row]) -> None:
    """Multiply the amounts of every so many row: contracts of two sizes."""
    for row in ordered(rows)[1::number]:
        for key in amounts_of(row):
            put(row, key, float(row[key]) * factor)


def move(delta: float, first: float, rows: list[Row]) -> None:
    """Move the times of the last rows by seconds."""
    for row in ordered(rows)[int(first * len(rows)) :]:
        for key in times_of(row):
            value = row[key]
            if _is_iso(value):
                moved = pd.Timestamp(value) + pd.Timedelta(delta, "s")
                row[key] = moved.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
            else:
                later = int(float(value)) + int(delta * (unit(value) or 1))
                row[key] = str(later) if isinstance(value, str) else later


def write_times(power: int, rows: list[Row]) -> None:
    """Write times in another unit."""
    for row in ordered(rows):
        for key in times_of(row):
            value = row[key]
            need(not _is_iso(value))
            other = int(float(value)) * 1000**power if power > 0 else int(float(value)) // 1000
            row[key] = str(other) if isinstance(value, str) else other


def without(first: float, last: float, rows: list[Row]) -> None:
    """Remove a part of the rows."""
    sorted_rows = ordered(rows)
    gone = {id(row) for row in sorted_rows[int(first * len(rows)) : int(last * len(rows))]}
    need(gone)
    rows[:] = [row for row in rows if id(row) not in gone]


def thin(number: int, rows: list[Row]) -> None:
    need(len(rows) >= 6)
    del rows[1::number]


def repeat(factor: float, rows: list[Row]) -> None:
    """Repeat rows, with other amounts unless the factor is 1."""
    again = copy.deepcopy(ordered(rows)[2::3])
    for row in again:
        for key in amounts_of(row):
            put(row, key, float(row[key]) * factor)
    rows += again


def repeat_later(delta: float, rows: list[Row]) -> None:
    """Repeat rows at other times."""
    again = copy.deepcopy(ordered(rows))
    move(delta, 0.0, again)
    rows += again


def rename(old: str, new: str, rows: list[Row]) -> None:
    """Name another contract in every third row."""
    need(len(rows) >= 6 and old in json.dumps(rows))
    rows[1::3] = json.loads(json.dumps(rows[1::3]).replace(old, new))


def exchange_amounts(rows: list[Row]) -> None:
    """Exchange the first two amounts of all rows."""
    for row in ordered(rows):
        keys = amounts_of(row)
        need(len(keys) > 1)
        first, second = keys[:2]
        row[first], row[second] = row[second], row[first]


def exchange_later(rows: list[Row]) -> None:
    """Exchange the first two amounts after the middle."""
    exchange_amounts_of = ordered(rows)[len(rows) // 2 :]
    for row in exchange_amounts_of:
        keys = amounts_of(row)
        need(len(keys) > 1)
        row[keys[0]], row[keys[1]] = row[keys[1]], row[keys[0]]


def freeze(rows: list[Row]) -> None:
    """Repeat the amounts of the middle row until the end."""
    sorted_rows = ordered(rows)[len(rows) // 2 :]
    for row in sorted_rows[1:]:
        for key in amounts_of(row):
            row[key] = sorted_rows[0][key]


def rewrite(text: Callable[[float], str], part: int, rows: list[Row]) -> None:
    """Write amounts as another text."""
    for row in ordered(rows)[::part]:
        for key in amounts_of(row):
            row[key] = text(float(row[key]))


def add_newer(rows: list[Row]) -> None:
    """Add a row after the window, with another amount."""
    newest = copy.deepcopy(ordered(rows)[-1])
    for key in times_of(newest):
        value = newest[key]
        need(not _is_iso(value))
        later = int(float(value)) + 6 * 86400 * (unit(value) or 1)
        newest[key] = str(later) if isinstance(value, str) else later
    rows.append(newest)


def state_interval(factor: float, rows: list[Row]) -> None:
    """Multiply the interval that rows from the middle on state."""
    sorted_rows = ordered(rows)
    changed = False
    for row in sorted_rows[len(rows) // 2 :]:
        need(isinstance(row, dict))
        for key in row:
            if re.search("interval|period", key, re.IGNORECASE) and number(row[key]):
                put(row, key, float(row[key]) * factor)
                changed = True
    need(changed)


CHANGES: dict[str, Change] = {
    "100 times from the middle on": partial(scale, 100.0, MIDDLE, 1.0),
    "8 times in the first third": partial(scale, 8.0, 0.0, 0.34),
    "10,000 times in the last third": partial(scale, 1e4, 0.66, 1.0),
    "a thousandth in the middle": partial(scale, 1e-3, 0.3, 0.7),
    "all amounts 100 times": partial(scale, 100.0, 0.0, 1.0),
    "the first amount 1,000 times": partial(scale_one, 1000.0, 0),
    "the last amount a hundredth": partial(scale_one, 0.01, -1),
    "every second row 10 times": partial(scale_every, 10.0, 2),
    "every fifth row 100 times": partial(scale_every, 100.0, 5),
    "amounts below zero": partial(scale, -1.0, 0.2, 0.8),
    "zeros in the middle": partial(scale, 0.0, 0.4, 0.6),
    "times of another zone": partial(move, 8 * 3600.0 + 1800.0, 0.0),
    "times 7 minutes late from the middle on": partial(move, 420.0, MIDDLE),
    "times a month early": partial(move, -30 * 86400.0, 0.0),
    "times a thousandth": partial(write_times, -1),
    "times a thousandfold": partial(write_times, 1),
    "a run is missing in the middle": partial(without, 0.4, 0.6),
    "the last third is missing": partial(without, 0.67, 1.0),
    "the first third is missing": partial(without, 0.0, 0.33),
    "every second row is missing": partial(thin, 2),
    "every fourth row is missing": partial(thin, 4),
    "rows come twice": partial(repeat, 1.0),
    "rows come twice with other amounts": partial(repeat, 1.5),
    "rows come again 61 seconds later": partial(repeat_later, 61.0),
    "rows come again 2 hours later": partial(repeat_later, 7200.0),
    "rows of another coin": partial(rename, "BTC", "ETH"),
    "rows of another quote currency": partial(rename, "USDT", "USDC"),
    "two amounts exchanged": exchange_amounts,
    "two amounts exchanged from the middle on": exchange_later,
    "the last half stands still": freeze,
    "separators of thousands": partial(rewrite, lambda value: f"{value * 1e6:,.6f}", 1),
    "a comma for the point": partial(rewrite, lambda value: str(value).replace(".", ","), 1),
    "a percent sign in every fourth row": partial(rewrite, lambda value: f"{value * 100}%", 4),
    "empty text in every fourth row": partial(rewrite, lambda value: "", 4),
    "reversed order": list.reverse,
    "a row newer than the window": add_newer,
    "another interval from the middle on": partial(state_interval, 0.5),
}


def apply(change: Change, paths: list[str], changed: list[bool], params: dict[str, Any], body: Any) -> Any:
    """Apply a change to each list of rows that it fits."""
    for rows in rows_in(body):
        try:
            if not all(times_of(row) for row in rows):
                continue
            before = copy.deepcopy(rows)
            change(rows)
            changed.append(rows != before)
        except Unfit:
            continue
    return body


class Alter(dict[str, Any]):
    """The changes of `Fakes.altered`: one for the paths of a history."""

    def __init__(self, history: History, change: Change) -> None:
        endpoints = refilling(VENUES[history.venue], history.table, unconfirmed=True)
        self._ends = [endpoint.path.partition("?")[0].split("/")[-1].split()[0] for endpoint in endpoints]
        self.changed: list[bool] = []
        alter = partial(apply, change, self._ends, self.changed)
        super().__init__(dict.fromkeys(self._ends, alter))


PEERS = {"funding_settlements": ("binance", "bybit", "hyperliquid", "kraken")}
"""Venues whose rows the archive has; of other tables it has earlier rows of the venue itself."""


def fill(
    history: History, start: str, end: str, folder: Path, fakes: Fakes, clock: SimulatedClock
) -> list[str]:
    """Read a history into an archive; return the failures and notices."""
    with warnings.catch_warnings(record=True) as notices:
        warnings.simplefilter("always", DataNotice)
        done = backfill(
            open_archive(folder),
            ["BTC"],
            start,
            end,
            venues=[history.venue],
            clock=clock,
            addresses=fakes.addresses,
            names=[history.table],
            unconfirmed=True,
        )
    messages = done.notices + [str(notice.message) for notice in notices]
    return done.failed + [
        text for text in messages if "not confirmed: " not in text and "no confirmed" not in text
    ]


def prepare(history: History, folder: Path, fakes: Fakes, clock: SimulatedClock) -> None:
    """Store the archive's earlier data: two days of the venue, and rows of other venues."""
    folder.mkdir()
    before = f"{pd.Timestamp(history.start) - pd.Timedelta(2, 'D'):%Y-%m-%d}"
    fill(history, before, history.start, folder, fakes, clock)
    for venue in PEERS.get(history.table, ()):
        if venue != history.venue:
            fill(History(venue, history.table, history.start), history.start, END, folder, fakes, clock)


def read(
    history: History, folder: Path, fakes: Fakes, clock: SimulatedClock
) -> tuple[pd.DataFrame, list[str]]:
    """Return the rows of a backfill, and the failures and notices."""
    said = fill(history, history.start, END, folder, fakes, clock)
    rows = open_archive(folder).read(history.table, history.start, END, venues=[history.venue])
    return rows, said


def outcome(
    history: History, change: Change, folder: Path, fakes: Fakes, clock: SimulatedClock, true: pd.DataFrame
) -> str:
    """Return "unfit", "said: ...", "held" (the rows of the unchanged responses), or "silent"."""
    fakes.altered = altered = Alter(history, change)
    try:
        rows, said = read(history, folder, fakes, clock)
    except DerivdataError as problem:
        rows, said = true, [str(problem)]
    finally:
        fakes.altered = {}
    if not any(altered.changed):
        return "unfit"
    if said:
        return f"said: {said[0]}"
    return "held" if rows.equals(true) else "silent"


_FLOOR = "a rate of few digits repeats where it is the interest of the venue's formula"
SILENT: dict[str, str] = {
    "okx funding_settlements: 8 times in the first third": "one payment of the window changes",
    "okx funding_settlements: a run is missing in the middle": "all others are 8 h apart",
    "gateio funding_settlements: the last half stands still": _FLOOR,
}
"""Changes that nothing contradicts, with the reason."""


def new_fakes(patch: pytest.MonkeyPatch) -> tuple[Fakes, SimulatedClock]:
    clock = SimulatedClock(NOW)
    fakes = Fakes(LAST, clock.utc)
    connect_directly(fakes, clock, patch)
    return fakes, clock


def test_altered_histories_are_detected_or_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At most one change in twenty is undetected, and each of these is listed with its reason."""
    results: dict[str, str] = {}
    for history in HISTORIES:
        folder = tmp_path / history.venue
        folder.mkdir()
        prepare(history, folder / "stored", *new_fakes(monkeypatch))
        shutil.copytree(folder / "stored", folder / "unchanged")
        true, said = read(history, folder / "unchanged", *new_fakes(monkeypatch))
        assert said == []
        assert len(true)
        for number, (title, change) in enumerate(CHANGES.items()):
            copied = folder / str(number)
            shutil.copytree(folder / "stored", copied)
            name = f"{history.venue} {history.table}: {title}"
            results[name] = outcome(history, change, copied, *new_fakes(monkeypatch), true)
    made = {title: kind for title, kind in results.items() if kind != "unfit"}
    silent = [title for title, kind in made.items() if kind == "silent"]
    assert len(made) >= 100
    assert silent == list(SILENT)
    assert len(silent) <= 0.05 * len(made)
