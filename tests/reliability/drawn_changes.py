"""Seeded draws of plausible but wrong bodies: a kind of fault, a column, and the rows that have it.

A body is read as columns of `Cell`s, whatever its shape: the same kinds apply to every response of the API.
"""

from __future__ import annotations

import copy
import math
import random
import re
from collections import defaultdict
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import pandas as pd

Body = Any
STAMPS = ("timestamp", "t", "date", "hour", "day")
_GROUPED = {
    "series", "data", "exchanges", "funding_rates", "funding_rates_raw", "funding_intervals", "by_dex",
    "by_symbol",
}  # fmt: skip
"""Fields whose keys are names of venues or symbols if they are maps."""
_NO_AMOUNTS = re.compile(r"rank|count|id$|^limit$|^total$|^days$|window_days|^min$|^max$|^t$|fill_count")


class Unfit(Exception):
    """The drawn kind does not apply to the body."""


class Cell(NamedTuple):
    """A number of a body: its holder and key, and the row's venue, symbol and time."""

    holder: Any
    key: Any
    venue: str
    symbol: str
    time: str

    @property
    def value(self) -> float:
        return float(self.holder[self.key])

    def put(self, value: float) -> None:
        old = self.holder[self.key]
        if isinstance(old, str):
            self.holder[self.key] = repr(value)
        else:
            self.holder[self.key] = round(value) if isinstance(old, int) else value


Columns = dict[str, list[Cell]]


def need(condition: object) -> None:
    if not condition:
        raise Unfit


class _Place(NamedTuple):
    """Where a value is: its column, and the venue, symbol and time of its row."""

    column: str
    venue: str
    symbol: str
    time: str

    def of_row(self, row: dict[str, Any]) -> _Place:
        """Return the place of a row's values, which may name their venue, symbol and time."""
        return self._replace(
            venue=str(row.get("exchange", row.get("dex_name", self.venue))),
            symbol=str(row.get("instrument_name", row.get("symbol", self.symbol))),
            time=next((row[name] for name in STAMPS if isinstance(row.get(name), str)), self.time),
        )

    def of_key(self, key: str, *, is_map: bool) -> _Place:
        """Return the place of a field; the keys of a map are venues, within a venue symbols."""
        if not is_map:
            return self._replace(column=key)
        return self._replace(symbol=key) if self.venue else self._replace(venue=key)


def columns_of(body: Body) -> Columns:
    """Return the numbers of a body by column, in the order of the body."""
    columns: Columns = defaultdict(list)
    _read(body, _Place("", "", str(body.get("symbol", "")), ""), columns, is_top=True)
    return dict(columns)


def _read(value: Any, place: _Place, columns: Columns, *, is_top: bool = False) -> None:
    if isinstance(value, dict):
        is_map = place.column in _GROUPED and not is_top
        place = place.of_row(value)
        for key, item in value.items():
            _add(value, key, item, place.of_key(key, is_map=is_map), columns)
        return
    for number, item in enumerate(value):
        if isinstance(item, list):  # a level of a book
            for field, _ in enumerate(item):
                _add(item, field, item[field], place._replace(column=f"{place.column}.{field}"), columns)
        else:
            inner = place._replace(column="") if isinstance(item, dict) else place
            _add(value, number, item, inner, columns)


def _add(holder: Any, key: Any, item: Any, place: _Place, columns: Columns) -> None:
    if isinstance(item, dict | list):
        _read(item, place, columns)
    elif is_number(item) and not _NO_AMOUNTS.search(place.column):
        columns[place.column].append(Cell(holder, key, place.venue, place.symbol, place.time))


def is_number(value: Any) -> bool:
    if isinstance(value, bool):
        return False
    if isinstance(value, str):
        return re.fullmatch(r"-?\d+(\.\d+)?(e-?\d+)?", value) is not None
    return isinstance(value, int | float)


def rows_of(body: Body) -> list[list[dict[str, Any]]]:
    """Return the lists of rows of a body, at any depth."""
    results: list[list[dict[str, Any]]] = []

    def walk(value: Any) -> None:
        if isinstance(value, list) and value and isinstance(value[0], dict):
            results.append(value)
        if isinstance(value, dict | list):
            for item in value.values() if isinstance(value, dict) else value:
                walk(item)

    walk(body)
    return results


# Scopes: which cells of a column change.


def of_all(rng: random.Random, cells: list[Cell]) -> list[Cell]:
    return cells


def of_venue(rng: random.Random, cells: list[Cell]) -> list[Cell]:
    venues = sorted({cell.venue for cell in cells})
    need(len(venues) > 1)
    large = [
        name for name in ("binance", "bybit", "okx", "gateio", "bitget", "hyperliquid") if name in venues
    ]
    chosen = rng.choice(large or venues)
    return [cell for cell in cells if cell.venue == chosen]


def of_run(rng: random.Random, cells: list[Cell]) -> list[Cell]:
    """The rows of a part of the window, of all venues."""
    times = sorted({cell.time for cell in cells})
    need(len(times) >= 12)
    first = rng.choice((0.0, 0.3, 0.5))
    last = first + rng.choice((0.3, 0.5))
    chosen = {*times[int(first * len(times)) : int(last * len(times))]}
    return [cell for cell in cells if cell.time in chosen]


def of_venue_run(rng: random.Random, cells: list[Cell]) -> list[Cell]:
    return of_run(rng, of_venue(rng, cells))


def of_symbol(rng: random.Random, cells: list[Cell]) -> list[Cell]:
    symbols = sorted({cell.symbol for cell in cells})
    need(len(symbols) > 4)
    known = [name for name in ("BTC", "ETH", "SOL", "XRP", "DOGE") if name in symbols]
    chosen = rng.choice(known or symbols)
    return [cell for cell in cells if cell.symbol == chosen]


def of_some(rng: random.Random, cells: list[Cell]) -> list[Cell]:
    """Every second or third row."""
    need(len(cells) >= 12)
    return cells[:: rng.choice((2, 3))]


SCOPES = (of_all, of_venue, of_run, of_venue_run, of_symbol, of_some)


def draw_column(rng: random.Random, body: Body, pattern: str = "", least: int = 1) -> tuple[str, list[Cell]]:
    columns = columns_of(body)
    names = [
        name
        for name, cells in columns.items()
        if re.search(pattern, name) and len(cells) >= least and any(cell.value for cell in cells)
    ]
    need(names)
    name = rng.choice(sorted(names))
    return name, columns[name]


def draw_scope(rng: random.Random, cells: list[Cell]) -> tuple[str, list[Cell]]:
    scopes = [*SCOPES]
    rng.shuffle(scopes)
    for scope in scopes:
        try:
            chosen = scope(rng, cells)
        except Unfit:
            continue
        if any(cell.value for cell in chosen):
            return scope.__name__.removeprefix("of_"), chosen
    raise Unfit


def by_series(cells: list[Cell]) -> list[list[Cell]]:
    """Return the cells of each venue and symbol in time order."""
    series: dict[tuple[str, str], list[Cell]] = defaultdict(list)
    for cell in cells:
        series[cell.venue, cell.symbol].append(cell)
    long = [sorted(own, key=lambda cell: cell.time) for own in series.values() if own[0].time]
    long = [own for own in long if len(own) >= 12 and len({cell.time for cell in own}) == len(own)]
    need(long)
    return long


# Kinds.

Kind = Callable[[random.Random, Body], str]
"""Change a body in place and return what was drawn."""


_UNITS = (8.0, 0.125, 100.0, 0.01, 1e4, 1e-4, 1e3, 1e-3)


def factor(rng: random.Random, body: Body, factors: tuple[float, ...] = _UNITS) -> str:
    name, cells = draw_column(rng, body)
    scope, chosen = draw_scope(rng, cells)
    by = rng.choice(factors)
    for cell in chosen:
        cell.put(cell.value * by)
    return f"{name} x{by:g} {scope}"


def sign(rng: random.Random, body: Body) -> str:
    name, cells = draw_column(rng, body)
    scope, chosen = draw_scope(rng, cells)
    for cell in chosen:
        cell.put(-cell.value)
    return f"{name} {scope}"


_PAIRS = (
    ("bid_coin", "ask_coin"), ("bid_usd", "ask_usd"), ("long_usd", "short_usd"), ("buy_usd", "sell_usd"),
    ("volume_usd", "oi_usd"), ("open", "close"), ("high", "low"), ("price_usd", "index_price_usd"),
    ("strike", "underlying_price"), ("bids.0", "asks.0"), ("bids.0", "bids.1"), ("volume_24h_usd", "oi_usd"),
    ("long_share", "short_share"), ("mark_coin", "bid_coin"), ("iv", "delta"), ("gamma", "vega"),
    ("vega", "theta"), ("price", "avg_price"), ("quantity", "usd_value"), ("volume", "open_interest"),
    ("bid_depth_10bps_usd", "ask_depth_10bps_usd"), ("bid_depth_10bps_usd", "bid_depth_100bps_usd"),
    ("volume_usd", "fees_usd"), ("oi_usd", "oi_contracts"), ("price_24h_change_pct", "oi_24h_change_pct"),
    ("price_24h_change_pct", "volume_24h_change_pct"), ("change_24h", "change_7d"),
    ("atm_iv", "atm_iv_24h_ago"), ("long_count", "short_count"),
    ("notional_oi_usd", "notional_volume_24h_usd"),
    ("funding_current_bps", "funding_avg_7d_bps"), ("iv", "price_coin"), ("liquidation_24h_usd", "oi_usd"),
    ("index_price_usd", "underlying_price"), ("open_interest", "mark_coin"), ("bids.1", "asks.1"),
    ("BTC", "ETH"), ("total_oi_usd", "symbol_count"), ("size", "price_coin"), ("low", "close"),
)  # fmt: skip


def exchange_columns(rng: random.Random, body: Body) -> str:
    columns = columns_of(body)
    pairs = [(a, b) for a, b in _PAIRS if a in columns and b in columns]
    need(pairs)
    first, second = rng.choice(pairs)
    is_late = rng.random() < 0.3
    rows = list(zip(columns[first], columns[second], strict=False))
    need(rows)
    for a, b in rows[len(rows) // 2 if is_late else 0 :]:
        if first[:4] not in ("bids", "asks"):
            need(a.holder is b.holder)
        x, y = a.value, b.value
        a.put(y)
        b.put(x)
    return f"{first} with {second}{' from the middle on' if is_late else ''}"


_WORDS = (("call", "put"), ("long", "short"), ("buy", "sell"), ("bids", "asks"), ("gainers", "losers"))


def exchange_words(rng: random.Random, body: Body) -> str:
    """Exchange calls with puts, longs with shorts, and other sides of rows."""
    first, second = rng.choice(_WORDS)
    if first in body:
        body[first], body[second] = body[second], body[first]
        return f"{first} with {second}"
    fields = [
        (row, key)
        for rows in rows_of(body)
        for row in rows
        for key, value in row.items()
        if value in (first, second)
    ]
    need(fields)
    is_all = rng.random() < 0.5
    for row, key in fields if is_all else fields[len(fields) // 2 :]:
        row[key] = second if row[key] == first else first
    return f"{first} with {second} in {'all' if is_all else 'half of the'} rows"


def again(rng: random.Random, body: Body) -> str:
    """Repeat the values of a page of each series after it."""
    name, cells = draw_column(rng, body, least=24)
    series = by_series(cells)
    if rng.random() < 0.5:
        series = [rng.choice(series)]
    rows = rng.choice((6, 12))
    need(all(len(own) >= 2 * rows for own in series))
    for own in series:
        start = rng.randrange(rows, len(own) - rows + 1)
        values = [cell.value for cell in own]
        for place in range(start, min(start + rows, len(own))):
            own[place].put(values[place - rows])
    return f"{name}, {rows} rows of {len(series)} series"


def stamps(rng: random.Random, body: Body) -> str:
    """Move times by an hour, a zone or a day."""
    hours = rng.choice((1, -1, 8, -8, 5.5, 24, -24, 1 / 60))
    rows = [row for listed in rows_of(body) for row in listed]
    rows = [row for row in rows if any(isinstance(row.get(name), str) for name in STAMPS)]
    if not rows:
        need(isinstance(body.get("timestamp"), str))
        body["timestamp"] = later(body["timestamp"], hours)
        return f"the response's time by {hours:g} h"
    venues = sorted({str(row["exchange"]) for row in rows if "exchange" in row})
    series = body.get("series")
    venue = ""
    if rng.random() < 0.5 and isinstance(series, dict) and len(series) > 1:
        venue = rng.choice(sorted(series))
        rows = series[venue]
    elif rng.random() < 0.5 and len(venues) > 1:
        venue = rng.choice(venues)
        rows = [row for row in rows if row["exchange"] == venue]
    for row in rows:
        row |= {name: later(row[name], hours) for name in STAMPS if isinstance(row.get(name), str)}
    return f"times of {venue or 'all rows'} by {hours:.2g} h"


def later(text: str, hours: float) -> str:
    moved = pd.Timestamp(text) + pd.Timedelta(hours, "h")
    if " " in text:
        return f"{moved:%Y-%m-%d %H:%M:%S}"
    return f"{moved:%Y-%m-%dT%H:%M:%S.%fZ}" if "." in text else f"{moved:%Y-%m-%dT%H:%M:%SZ}"


def earlier_values(rng: random.Random, body: Body) -> str:
    """Give rows the values of an hour or a day before."""
    name, cells = draw_column(rng, body, least=24)
    series = by_series(cells)
    if rng.random() < 0.5:
        series = [rng.choice(series)]
    shift = rng.choice((1, 6, 24))
    need(all(len(own) > shift + 6 for own in series))
    for own in series:
        values = [cell.value for cell in own]
        for cell, value in zip(own[shift:], values, strict=False):
            cell.put(value)
    return f"{name}, {shift} rows late, {len(series)} series"


def cumulated(rng: random.Random, body: Body) -> str:
    name, cells = draw_column(rng, body, least=12)
    series = by_series(cells)
    is_sum = rng.random() < 0.6
    for own in series:
        total = 0.0
        before = 0.0
        for cell in own:
            value = cell.value
            total += value
            cell.put(total if is_sum else value - before)
            before = value
    return f"{name} {'summed' if is_sum else 'as differences'}"


def truncated(rng: random.Random, body: Body) -> str:
    """Remove the end or the start of a list, and state the number of rows that remain."""
    lists = [rows for rows in rows_of(body) if len(rows) >= 6]
    need(lists)
    rows = max(lists, key=len) if rng.random() < 0.5 else rng.choice(lists)
    share = rng.choice((0.1, 0.3, 0.5))
    size = max(int(share * len(rows)), 1)
    if rng.random() < 0.6:
        del rows[-size:]
        where = "end"
    else:
        del rows[:size]
        where = "start"
    before = len(rows) + size
    for name in ("count", "total"):
        if body.get(name) == before:
            body[name] = len(rows)
    return f"{share:.0%} of {before} rows at the {where}"


def repeated_rows(rng: random.Random, body: Body) -> str:
    """Repeat rows with other values."""
    lists = [rows for rows in rows_of(body) if len(rows) >= 3]
    need(lists)
    rows = rng.choice(lists)
    copies = copy.deepcopy(rows[:: rng.choice((3, 7))])
    for row in copies:
        for key, value in row.items():
            if isinstance(value, float):
                row[key] = value * 1.01
    rows += copies
    for name in ("count", "total"):
        if isinstance(body.get(name), int):
            body[name] += len(copies)
    return f"{len(copies)} rows"


def zeros(rng: random.Random, body: Body) -> str:
    """Write missing values as 0, or zeros in runs."""
    name, cells = draw_column(rng, body, least=6)
    scope, chosen = draw_scope(rng, cells)
    for cell in chosen:
        cell.put(0.0)
    return f"{name} {scope}"


def absent(rng: random.Random, body: Body) -> str:
    """Remove the rows of a venue or a symbol that the body still lists, or that was requested."""
    for name in ("series", "data", "funding_rates"):
        if isinstance(body.get(name), dict) and len(body[name]) > 1:
            gone = rng.choice(sorted(body[name]))
            del body[name][gone]
            return f"{gone} of {name}"
    lists = [rows for rows in rows_of(body) if len(rows) > 3]
    need(lists)
    rows = max(lists, key=len)
    keys = [key for key in ("exchange", "expiry", "symbol", "dex_name") if key in rows[0]]
    need(keys)
    key = rng.choice(keys)
    names = sorted({str(row.get(key)) for row in rows})
    need(len(names) > 1)
    gone = rng.choice(names)
    rows[:] = [row for row in rows if str(row.get(key)) != gone]
    if isinstance(body.get("count"), int):
        body["count"] = len(rows)
    return f"{key} {gone}"


def other_coin(rng: random.Random, body: Body) -> str:
    """Give the prices of another coin, or name another one in some rows."""
    columns = columns_of(body)
    prices = [
        name for name in columns if re.search(r"price|^y$|strike|bids.0|asks.0|open|high|low|close", name)
    ]
    if prices and rng.random() < 0.6:
        by = rng.choice((1 / 28.0, 1 / 600.0, 30.0))
        for name in prices if rng.random() < 0.5 else [rng.choice(sorted(prices))]:
            for cell in columns[name]:
                cell.put(cell.value * by)
        return f"prices x{by:.3g}"
    fields = [
        (row, key)
        for rows in rows_of(body)
        for row in rows
        for key, value in row.items()
        if isinstance(value, str) and "BTC" in value
    ]
    need(fields)
    for row, key in fields[::3]:
        row[key] = row[key].replace("BTC", "ETH")
    return f"{len(fields[::3])} rows of ETH"


def sums(rng: random.Random, body: Body) -> str:
    """Change totals or shares, but not their parts."""
    name, cells = draw_column(rng, body, "total|summary|share|sum|volume$|total_fees|ratio|atm_iv_change")
    by = rng.choice((0.5, 0.9, 1.2, 2.0))
    for cell in cells:
        cell.put(cell.value * by)
    return f"{name} x{by:g}"


def intervals(rng: random.Random, body: Body) -> str:
    name, cells = draw_column(rng, body, "intervalMinutes|funding_intervals|^interval$")
    scope, chosen = draw_scope(rng, cells)
    by = rng.choice((0.5, 2.0, 60.0, 1 / 60, 8.0, 0.125))
    for cell in chosen:
        cell.put(max(cell.value * by, 1))
    return f"{name} x{by:.3g} {scope}"


def greeks(rng: random.Random, body: Body) -> str:
    name, cells = draw_column(rng, body, "^(delta|gamma|vega|theta)$")
    by = rng.choice((-1.0, 100.0, 0.01, 365.0, 1 / 365, 1e5, 1e-5))
    half = rng.random() < 0.3
    for cell in cells[:: 2 if half else 1]:
        cell.put(cell.value * by)
    return f"{name} x{by:.3g}{' in every second row' if half else ''}"


def in_coins(rng: random.Random, body: Body) -> str:
    """Give amounts in coins for USD, or in USD for coins."""
    name, cells = draw_column(rng, body, "usd$|interest|volume|oi|quantity|size|bids.1|asks.1|_coin$|BTC|ETH")
    scope, chosen = draw_scope(rng, cells)
    by = 109_000.0 if re.search("quantity|size|open_interest$|_coin$|bids|asks", name) else 1 / 109_000.0
    for cell in chosen:
        cell.put(cell.value * by)
    return f"{name} x{by:.3g} {scope}"


def in_place_of(rng: random.Random, body: Body) -> str:
    """Give one column the values of another."""
    columns = columns_of(body)
    pairs = [(a, b) for a, b in _PAIRS if a in columns and b in columns]
    need(pairs)
    source, target = rng.choice(pairs)
    if rng.random() < 0.5:
        source, target = target, source
    done = False
    for a, b in zip(columns[source], columns[target], strict=False):
        if a.holder is b.holder:
            b.put(a.value)
            done = True
    need(done)
    return f"{source} in {target}"


def expiries(rng: random.Random, body: Body) -> str:
    """Move expiries by hours, days or a week."""
    hours = rng.choice((-8, 24, -24, 24 * 7, 8, 24 * 30))
    rows = [row for listed in rows_of(body) for row in listed if isinstance(row.get("expiry"), str)]
    need(rows)
    if rng.random() < 0.4:
        chosen = rng.choice(sorted({row["expiry"] for row in rows}))
        rows = [row for row in rows if row["expiry"] == chosen]
    for row in rows:
        row["expiry"] = later(row["expiry"], hours)
    return f"by {hours} h in {len(rows)} rows"


def exchange_groups(rng: random.Random, body: Body) -> str:
    """Exchange two venues, symbols, expiries or sides in the values of a column."""
    name, cells = draw_column(rng, body, least=4)
    groups: dict[str, list[Cell]] = defaultdict(list)
    for cell in cells:
        groups[cell.venue or cell.symbol].append(cell)
    if len(groups) == 1:
        groups.clear()
        for cell in cells:
            groups[cell.symbol].append(cell)
    need(len(groups) > 1)
    first, second = rng.sample(sorted(groups), 2)
    pairs = list(zip(groups[first], groups[second], strict=False))
    for a, b in pairs[len(pairs) // 2 if rng.random() < 0.3 else 0 :]:
        x, y = a.value, b.value
        a.put(y)
        b.put(x)
    return f"{name} of {first} and {second}"


def frozen(rng: random.Random, body: Body) -> str:
    name, cells = draw_column(rng, body, least=6)
    scope, chosen = draw_scope(rng, cells)
    first: dict[tuple[str, str], float] = {}
    for cell in chosen:
        cell.put(first.setdefault((cell.venue, cell.symbol) if cell.time else ("", ""), cell.value))
    return f"{name} {scope}"


def means(rng: random.Random, body: Body) -> str:
    """Give all venues, or all symbols of a snapshot, the mean."""
    name, cells = draw_column(rng, body, least=6)
    groups: dict[str, list[Cell]] = defaultdict(list)
    for cell in cells:
        groups[cell.time].append(cell)
    done = False
    for own in groups.values():
        middle = math.fsum(cell.value for cell in own) / len(own)
        for cell in own:
            done |= len(own) > 1
            cell.put(middle)
    need(done)
    return name


def ranked(rng: random.Random, body: Body) -> str:
    """Sort a column of a snapshot on its own."""
    name, cells = draw_column(rng, body, least=10)
    need(len({cell.time for cell in cells}) == 1)
    values = sorted((cell.value for cell in cells), reverse=rng.random() < 0.5)
    for cell, value in zip(cells, values, strict=True):
        cell.put(value)
    return name


def off_by_one(rng: random.Random, body: Body) -> str:
    """Give the rows of a column the value of the row before."""
    name, cells = draw_column(rng, body, least=10)
    values = [cell.value for cell in cells]
    for cell, value in zip(cells, values[-1:] + values[:-1], strict=True):
        cell.put(value)
    return name


FIRST_KINDS: dict[str, Kind] = {
    "unit factor": factor,
    "unit factor of a column": factor,
    "unit factor of rows": factor,
    "sign": sign,
    "columns exchanged": exchange_columns,
    "sides exchanged": exchange_words,
    "a page again": again,
    "times moved": stamps,
    "values of earlier rows": earlier_values,
    "sums or differences": cumulated,
    "truncated": truncated,
    "rows again with other values": repeated_rows,
    "nulls as zeros": zeros,
    "a listed name without rows": absent,
    "another coin": other_coin,
    "totals": sums,
    "intervals": intervals,
    "greeks": greeks,
    "coins and USD": in_coins,
    "another column's values": in_place_of,
    "expiries moved": expiries,
    "venues or symbols exchanged": exchange_groups,
    "constant values": frozen,
    "means of all": means,
    "a sorted column": ranked,
    "a column off by one row": off_by_one,
}


def clipped(rng: random.Random, body: Body) -> str:
    """Limit a column to its median."""
    name, cells = draw_column(rng, body, least=6)
    middle = sorted(cell.value for cell in cells)[len(cells) // 2]
    for cell in cells:
        cell.put(min(cell.value, middle))
    return name


def rounded(rng: random.Random, body: Body) -> str:
    name, cells = draw_column(rng, body, least=6)
    for cell in cells:
        cell.put(float(f"{cell.value:.1g}"))
    return name


def reordered(rng: random.Random, body: Body) -> str:
    """Reverse or shuffle the values of a column."""
    name, cells = draw_column(rng, body, least=6)
    values = [cell.value for cell in cells][::-1]
    is_shuffled = rng.random() < 0.5
    if is_shuffled:
        rng.shuffle(values)
    for cell, value in zip(cells, values, strict=True):
        cell.put(value)
    return f"{name} {'shuffled' if is_shuffled else 'reversed'}"


def absolute(rng: random.Random, body: Body) -> str:
    name, cells = draw_column(rng, body)
    need(any(cell.value < 0.0 for cell in cells))
    for cell in cells:
        cell.put(abs(cell.value))
    return name


def sentinels(rng: random.Random, body: Body) -> str:
    """Write missing values as a number."""
    name, cells = draw_column(rng, body, least=6)
    scope, chosen = draw_scope(rng, cells)
    value = rng.choice((-1.0, 999999.0, 1e-8))
    for cell in chosen:
        cell.put(value)
    return f"{name} {value:g} {scope}"


def stepped(rng: random.Random, body: Body) -> str:
    """Repeat each fourth value of each series."""
    name, cells = draw_column(rng, body, least=24)
    for own in by_series(cells):
        values = [cell.value for cell in own]
        for place, cell in enumerate(own):
            cell.put(values[place - place % 4])
    return name


def spikes(rng: random.Random, body: Body) -> str:
    name, cells = draw_column(rng, body, least=12)
    by = rng.choice((5.0, 50.0, 0.02))
    for cell in cells[2::7]:
        cell.put(cell.value * by)
    return f"{name} x{by:g}"


def offset(rng: random.Random, body: Body) -> str:
    name, cells = draw_column(rng, body)
    largest = max(abs(cell.value) for cell in cells)
    for cell in cells:
        cell.put(cell.value + largest)
    return name


def inverse(rng: random.Random, body: Body) -> str:
    name, cells = draw_column(rng, body)
    need(all(cell.value for cell in cells))
    for cell in cells:
        cell.put(1.0 / cell.value)
    return name


def averaged(rng: random.Random, body: Body) -> str:
    """Replace the values of each series by means of the last six."""
    name, cells = draw_column(rng, body, least=24)
    for own in by_series(cells):
        values = [cell.value for cell in own]
        for place, cell in enumerate(own):
            recent = values[max(place - 5, 0) : place + 1]
            cell.put(math.fsum(recent) / len(recent))
    return name


SECOND_KINDS: dict[str, Kind] = {
    "limited": clipped,
    "rounded": rounded,
    "another order": reordered,
    "absolute": absolute,
    "another currency": partial(factor, factors=(0.86, 1380.0, 7.2)),
    "hours, days and years": partial(factor, factors=(24.0, 1 / 24, 365.0, 1 / 365, 60.0, 1 / 60)),
    "contract size": partial(factor, factors=(10.0, 0.1, 1e-6, 1e6)),
    "sentinels": sentinels,
    "each fourth value": stepped,
    "spikes": spikes,
    "an offset": offset,
    "inverse": inverse,
    "means of six": averaged,
    "a later day": earlier_values,
    "a shorter list": truncated,
    "moved times": stamps,
    "copied column": in_place_of,
    "exchanged columns": exchange_columns,
}
