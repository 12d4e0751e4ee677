"""Seeded draws of plausible but wrong bodies of venues: one change of one field, or of some rows.

A body is read as lists of rows, whatever its shape, so the same kinds apply to every venue.
"""

from __future__ import annotations

import copy
import random
import re
from collections import defaultdict
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from tests.collect.test_wrong_histories import number, put, times_of, unit
from tests.reliability.drawn_changes import Unfit, is_number, need

Body = Any
Kind = Callable[[random.Random, Body], str]
"""Change a body in place and return what was drawn."""

_NO_FIGURE = re.compile(
    r"time|date|expir|deliver|settlement|(^|_)(id|ts)$|Id$|ID$|seq|nonce|version|index$|count$|code|status|"
    r"step|tick|precision|decimals|limit|leverage|margin|min|max|launch|onboard|percent|multiplier$|digits",
    re.IGNORECASE,
)
_SIZES = r"size|qty|amount|interest|vol|sz|^oi|quantity|contracts|^q$|left|value"
_RATES = r"rate|funding|^r$|fr$"
_SHARES = r"iv|vol$|volatility|delta|pcnt|percent|change"
_INTERVALS = r"interval|period|collectCycle"
_PRICES = r"price|px|mark|index|last|strike"
_WORDS = (
    ("buy", "sell"), ("Buy", "Sell"), ("BUY", "SELL"), ("long", "short"), ("LONG", "SHORT"),
    ("call", "put"), ("-C", "-P"), ("bids", "asks"),
)  # fmt: skip


class Field(NamedTuple):
    """A number of a body: its holder and key."""

    holder: Any
    key: Any

    @property
    def value(self) -> float:
        return float(self.holder[self.key])

    def put(self, value: float) -> None:
        old = self.holder[self.key]
        if isinstance(old, int) and not isinstance(old, bool):
            value = round(value)
        put(self.holder, self.key, value)


def columns_of(body: Body) -> dict[str, list[Field]]:
    """Return the figures of a body by the path of their fields, without times and names."""
    columns: dict[str, list[Field]] = defaultdict(list)

    def walk(value: Any, path: str) -> None:
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            is_row_of_list = isinstance(value, list) and isinstance(item, dict | list)
            inner = path if is_row_of_list else f"{path}.{key}".strip(".")
            if isinstance(item, dict | list):
                walk(item, inner)
            elif is_number(item) and not unit(item) and not _NO_FIGURE.search(str(key)):
                columns[inner].append(Field(value, key))

    walk(body, "")
    return {name: fields for name, fields in columns.items() if any(field.value for field in fields)}


def lists_of(body: Body) -> list[list[Any]]:
    """Return the lists of rows of a body, longest first."""
    lists: list[list[Any]] = []

    def walk(value: Any) -> None:
        if isinstance(value, list) and value and isinstance(value[0], dict | list):
            lists.append(value)
        if isinstance(value, dict | list):
            for item in value.values() if isinstance(value, dict) else value:
                walk(item)

    walk(body)
    return sorted(lists, key=len, reverse=True)


def draw(rng: random.Random, body: Body, pattern: str = "", least: int = 1) -> tuple[str, list[Field]]:
    """Return a drawn field, and its figures."""
    columns = columns_of(body)
    names = [
        name
        for name, fields in columns.items()
        if len(fields) >= least and re.search(pattern, name.rpartition(".")[2], re.IGNORECASE)
    ]
    need(names)
    name = rng.choice(sorted(names))
    return name, columns[name]


def rows_with_times(body: Body, least: int) -> list[Any]:
    for rows in lists_of(body):
        if len(rows) >= least and all(times_of(row) for row in rows):
            return rows
    raise Unfit


def scaled(rng: random.Random, body: Body, *, factors: tuple[float, ...], pattern: str = "") -> str:
    name, fields = draw(rng, body, pattern)
    by = rng.choice(factors)
    for field in fields:
        field.put(field.value * by)
    return f"{name} x{by:g}"


def scaled_rows(rng: random.Random, body: Body, *, factors: tuple[float, ...]) -> str:
    """Multiply one field of the rows from the middle on, of every second row, or of one."""
    name, fields = draw(rng, body, least=4)
    by = rng.choice(factors)
    where = rng.choice(("last half", "every second", "one"))
    chosen = {
        "last half": fields[len(fields) // 2 :],
        "every second": fields[::2],
        "one": [rng.choice(fields)],
    }[where]
    for field in chosen:
        field.put(field.value * by)
    return f"{name} x{by:g} in the {where}"


def moved(rng: random.Random, body: Body, *, seconds: tuple[float, ...]) -> str:
    """Move all times of all rows."""
    by = rng.choice(seconds)
    count = 0

    def walk(value: Any) -> None:
        nonlocal count
        for key in times_of(value) if isinstance(value, dict | list) else ():
            ticks = unit(value[key])
            if ticks and not re.search("expir|deliver|launch|onboard|list", str(key), re.IGNORECASE):
                later = int(float(value[key])) + int(by * ticks)
                value[key] = str(later) if isinstance(value[key], str) else later
                count += 1
        for item in value.values() if isinstance(value, dict) else value:
            if isinstance(item, dict | list):
                walk(item)

    walk(body)
    need(count)
    return f"{count} times by {by / 3600:g} h"


def other_unit_of_times(rng: random.Random, body: Body) -> str:
    rows = rows_with_times(body, 1)
    is_finer = rng.random() < 0.5
    for row in rows:
        for key in times_of(row):
            need(unit(row[key]))
            value = int(float(row[key]))
            value = value * 1000 if is_finer else value // 1000
            row[key] = str(value) if isinstance(row[key], str) else value
    return "times in a finer unit" if is_finer else "times in a coarser unit"


def sides(rng: random.Random, body: Body) -> str:
    """Exchange bids and asks."""
    columns = columns_of(body)
    pairs = []
    for name in columns:
        other = re.sub("bid", "ask", re.sub("Bid", "Ask", name))
        if other != name and other in columns:
            pairs.append((name, other))
    need(pairs)
    first, second = rng.choice(pairs)
    exchange(columns[first], columns[second])
    return f"{first} with {second}"


def exchange(first: list[Field], second: list[Field]) -> None:
    for a, b in zip(first, second, strict=False):
        x, y = a.value, b.value
        a.put(y)
        b.put(x)


def two_columns(rng: random.Random, body: Body) -> str:
    columns = columns_of(body)
    names = sorted(columns)
    need(len(names) > 1)
    first, second = rng.sample(names, 2)
    exchange(columns[first], columns[second])
    return f"{first} with {second}"


def copied(rng: random.Random, body: Body) -> str:
    columns = columns_of(body)
    names = sorted(columns)
    need(len(names) > 1)
    first, second = rng.sample(names, 2)
    for a, b in zip(columns[first], columns[second], strict=False):
        b.put(a.value)
    return f"{first} in {second}"


def words(rng: random.Random, body: Body) -> str:
    """Exchange the words of the two sides."""
    pairs = [*_WORDS]
    rng.shuffle(pairs)
    for first, second in pairs:
        changed = _exchanged_words(body, first, second)
        if changed:
            return f"{first} with {second} in {changed} fields"
    raise Unfit


def _exchanged_words(value: Any, first: str, second: str) -> int:
    count = 0
    if isinstance(value, dict) and first in value and second in value:
        value[first], value[second] = value[second], value[first]
        return 1
    for key, item in list(value.items() if isinstance(value, dict) else enumerate(value)):
        if isinstance(item, dict | list):
            count += _exchanged_words(item, first, second)
        elif isinstance(item, str) and first[0] == "-" and item.endswith((first, second)):
            value[key] = item[:-2] + (second if item.endswith(first) else first)
            count += 1
        elif item in (first, second):
            value[key] = second if item == first else first
            count += 1
    return count


def missing(rng: random.Random, body: Body) -> str:
    """Remove the rows of one name, or one row."""
    lists = [rows for rows in lists_of(body) if len(rows) > 2]
    need(lists)
    rows = lists[0]
    del rows[rng.randrange(len(rows))]
    return "one row"


def truncated(rng: random.Random, body: Body) -> str:
    lists = [rows for rows in lists_of(body) if len(rows) >= 6]
    need(lists)
    rows = lists[0]
    size = max(len(rows) // 3, 1)
    if rng.random() < 0.5:
        del rows[:size]
        return f"{size} rows at the start"
    del rows[-size:]
    return f"{size} rows at the end"


def page_again(rng: random.Random, body: Body) -> str:
    """Repeat the figures of the rows before, at the times of the rows."""
    rows = rows_with_times(body, 12)
    size = rng.choice((6, 8)) if len(rows) >= 16 else len(rows) // 2
    start = rng.randrange(size, len(rows) - size + 1)
    for place in range(start, start + size):
        _copy_figures(rows[place - size], rows[place])
    return f"{size} rows again"


def _copy_figures(source: Any, target: Any) -> None:
    for key in source if isinstance(source, dict) else range(len(source)):
        if key not in times_of(source) and number(source[key]) is not None:
            target[key] = source[key]


def rows_again(rng: random.Random, body: Body, *, factor: float) -> str:
    """Repeat rows, with other figures unless the factor is 1."""
    lists = [rows for rows in lists_of(body) if len(rows) >= 3]
    need(lists)
    again = copy.deepcopy(lists[0][::3])
    for fields in columns_of(again).values():
        for field in fields:
            field.put(field.value * factor)
    lists[0] += again
    return f"{len(again)} rows again x{factor:g}"


def stale(rng: random.Random, body: Body) -> str:
    """Give the rows from the middle on the figures of the middle row."""
    rows = rows_with_times(body, 12)
    for row in rows[len(rows) // 2 + 1 :]:
        _copy_figures(rows[len(rows) // 2], row)
    return f"{len(rows) // 2} rows"


def late_figures(rng: random.Random, body: Body) -> str:
    """Give each row the figures of a row before."""
    rows = rows_with_times(body, 12)
    by = rng.choice((1, 3))
    before = copy.deepcopy(rows)
    for place in range(by, len(rows)):
        _copy_figures(before[place - by], rows[place])
    return f"{by} rows"


def other_symbol(rng: random.Random, body: Body) -> str:
    """Give two rows of a list the figures of each other."""
    lists = [rows for rows in lists_of(body) if len(rows) >= 2 and isinstance(rows[0], dict)]
    lists = [rows for rows in lists if not all(times_of(row) for row in rows) or len(rows) < 12]
    need(lists)
    first, second = rng.sample(lists[0], 2)
    before = copy.deepcopy(first)
    _copy_figures(second, first)
    _copy_figures(before, second)
    return "two rows"


def renamed(rng: random.Random, body: Body) -> str:
    """Name another coin or currency in all or in some rows."""
    pairs = [("BTC", "ETH"), ("USDT", "USDC"), ("ETH", "SOL")]
    first, second = rng.choice(pairs)
    step = rng.choice((1, 3))
    places: list[Field] = []

    def walk(value: Any) -> None:
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            if isinstance(item, dict | list):
                walk(item)
            elif isinstance(item, str) and first in item:
                places.append(Field(value, key))

    walk(body)
    need(places)
    for place in places[::step]:
        place.holder[place.key] = place.holder[place.key].replace(first, second)
    return f"{first} as {second} in {len(places[::step])} fields"


def zeros(rng: random.Random, body: Body, *, step: int) -> str:
    name, fields = draw(rng, body, least=step)
    for field in fields[::step]:
        field.put(0.0)
    return f"{name} is 0{' in each third row' if step > 1 else ''}"


def sentinels(rng: random.Random, body: Body) -> str:
    name, fields = draw(rng, body)
    value = rng.choice((-1.0, 999_999.0, 1e-8))
    for field in fields[::2]:
        field.put(value)
    return f"{name} is {value:g}"


def sign(rng: random.Random, body: Body, *, pattern: str = "") -> str:
    name, fields = draw(rng, body, pattern)
    for field in fields:
        field.put(-field.value)
    return name


def reordered(rng: random.Random, body: Body) -> str:
    """Shuffle or sort one field."""
    name, fields = draw(rng, body, least=4)
    values = [field.value for field in fields]
    is_sorted = rng.random() < 0.5
    if is_sorted:
        values.sort()
    else:
        rng.shuffle(values)
    for field, value in zip(fields, values, strict=True):
        field.put(value)
    return f"{name} {'sorted' if is_sorted else 'shuffled'}"


def limited(rng: random.Random, body: Body) -> str:
    name, fields = draw(rng, body, least=8)
    middle = sorted(field.value for field in fields)[len(fields) // 2]
    for field in fields:
        field.put(min(field.value, middle))
    return name


def summed(rng: random.Random, body: Body) -> str:
    name, fields = draw(rng, body, least=8)
    total = 0.0
    for field in fields:
        total += field.value
        field.put(total)
    return name


def inverse(rng: random.Random, body: Body) -> str:
    name, fields = draw(rng, body)
    need(all(field.value for field in fields))
    for field in fields:
        field.put(1.0 / field.value)
    return name


_UNITS = (100.0, 0.01, 1e3, 1e-3, 1e4, 1e-4)
KINDS: dict[str, Kind] = {
    "a field in another unit": partial(scaled, factors=_UNITS),
    "prices in another unit": partial(scaled, factors=(100.0, 0.01, 1e3, 1e-3), pattern=_PRICES),
    "some rows in another unit": partial(scaled_rows, factors=_UNITS),
    "contracts for coins": partial(scaled, factors=(0.001, 0.01, 100.0, 1e3), pattern=_SIZES),
    "USD for coins": partial(scaled, factors=(6e4, 1 / 6e4), pattern=_SIZES),
    "rates in percent": partial(scaled, factors=(100.0,), pattern=_RATES),
    "rates in basis points": partial(scaled, factors=(1e4,), pattern=_RATES),
    "rates of 8 hours for 1": partial(scaled, factors=(8.0, 0.125), pattern=_RATES),
    "rates of a year": partial(scaled, factors=(1095.0, 1 / 1095.0), pattern=_RATES),
    "percent for fraction": partial(scaled, factors=(100.0, 0.01), pattern=_SHARES),
    "another interval": partial(scaled, factors=(0.5, 2.0), pattern=_INTERVALS),
    "intervals in another unit": partial(scaled, factors=(60.0, 1 / 60.0), pattern=_INTERVALS),
    "times by an hour": partial(moved, seconds=(3600.0, -3600.0)),
    "times of another zone": partial(moved, seconds=(8 * 3600.0, -5 * 3600.0, 19_800.0)),
    "times of another day": partial(moved, seconds=(86_400.0, -86_400.0, -7 * 86_400.0)),
    "times in another unit": other_unit_of_times,
    "bids for asks": sides,
    "two fields exchanged": two_columns,
    "one field in another": copied,
    "sides exchanged": words,
    "a row is missing": missing,
    "a third of the rows is missing": truncated,
    "a page again": page_again,
    "rows again": partial(rows_again, factor=1.0),
    "rows again with other figures": partial(rows_again, factor=1.5),
    "stale rows": stale,
    "figures of earlier rows": late_figures,
    "figures of another symbol": other_symbol,
    "another name": renamed,
    "zeros": partial(zeros, step=1),
    "zeros in some rows": partial(zeros, step=3),
    "placeholders": sentinels,
    "another sign": sign,
    "rates of another sign": partial(sign, pattern=_RATES),
    "another order": reordered,
    "limited figures": limited,
    "sums": summed,
    "inverse figures": inverse,
}
