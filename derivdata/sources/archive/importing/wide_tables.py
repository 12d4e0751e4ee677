"""Wide tables as rows: a column for each symbol or venue, headers of two lines, and a column for each level.

Only the names of the columns count, so every chunk of a file gets the same form.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from derivdata.errors import ArchiveError
from derivdata.sources.archive.importing.cells import first_cell
from derivdata.sources.archive.importing.market_names import (
    KNOWN_VENUES,
    market_of,
    meaning_of,
    plain_name,
    venue_of_word,
)
from derivdata.support.arrays import Array

VALUE = "value"
"""Name of the column of the cells of a wide table, whose header does not name them."""
LEVELS = "|"
"""Between the names of a header of two lines."""
_TUPLE = re.compile(r"\('?(.*?)'?, '?(.*?)'?\)")
"""Name that pandas gives a column of two levels in Parquet: ``('funding', 'BTC')``."""
_LEADERS = frozenset({"BTC", "ETH", "SOL", "XBT"})
"""Coins of which a wide table has one at least: names of other coins may be words."""
_SEPARATORS = re.compile(rf"[_\-./: {re.escape(LEVELS)}]")
_COIN = re.compile(r"[A-Z0-9]{2,10}")
_BOOK = re.compile(
    r"(?P<side>bid|ask)s?(?P<field>_?(?:price|px|amount|size|qty|quantity|volume|sz))?[_\[.]?(?P<level>\d+)\]?"
    r"(?:[._](?P<after>price|px|amount|size|qty|quantity|volume|sz|\d))?",
    re.IGNORECASE,
)
"""``asks[0].price``, ``bid_price_1``, ``bids[0].amount``, ``ask1_size``, ``bidPx_01``."""
_PRICE = ("price", "px", "0")


class Entity(NamedTuple):
    """The market that a column is of: its name and venue, either of which may be empty."""

    symbol: str
    venue: str


class WideColumn(NamedTuple):
    """A column of a wide table: the market, and the name of the quantity, which may be empty."""

    entity: Entity
    field: str


@lru_cache(maxsize=4096)
def wide_columns(names: tuple[str, ...]) -> Mapping[str, WideColumn] | None:
    """Return the meanings of the columns of a wide table; None for a table of another form.

    Two columns or more are of markets, and one of these of a leading coin, or all of venues.
    """
    columns: dict[str, WideColumn] = {}
    rest = []
    for name in names:
        column = _wide_column(name)
        if column is None:
            rest.append(name)
        else:
            columns[name] = column
    if len(columns) < 2:
        return None
    total = (
        Entity("", "all")
        if not any(column.entity.symbol for column in columns.values())
        else Entity("Total", "")
    )
    for name in [name for name in rest if plain_name(name) in _TOTALS]:
        columns[name] = WideColumn(total, "")
        rest.remove(name)
    if not _are_keys(rest, are_of_venues=total.venue != ""):
        return None
    entities = {column.entity for column in columns.values()}
    symbols = {market_of(entity.symbol).symbol for entity in entities if entity.symbol}
    if symbols and not symbols & _LEADERS:
        return None
    has_two_levels = all(LEVELS in name for name in columns)  # yfinance names the one market of a file
    if len({bool(entity.symbol) for entity in entities}) != 1 or (len(entities) < 2 and not has_two_levels):
        return None
    return columns


_TOTALS = frozenset("all total sum aggregate aggregated others other rest".split())
"""Names of columns with sums of several venues, whose rows are rejected as totals."""
PRICE_OF_COIN = "price next to venues"
"""Name of the column with the one price of a table with a column for each venue."""


def _is_price(name: str) -> bool:
    """Return whether a column next to those of venues is the price of the coin, as dashboards draw it."""
    return meaning_of(name) == "price_usd"


def _are_keys(names: Sequence[str], *, are_of_venues: bool) -> bool:
    """Return whether the other columns are a time, and at most a symbol or a venue, or a price."""
    meanings = [meaning_of(name) or "" for name in names if not (are_of_venues and _is_price(name))]
    return "time" in meanings and {*meanings} <= {"time", "symbol", "exchange"}


@lru_cache(maxsize=8192)
def _wide_column(name: str) -> WideColumn | None:
    match = _TUPLE.fullmatch(name)
    text = LEVELS.join(match.groups()) if match is not None else name
    if meaning_of(text) is not None:
        return None
    series = _SERIES.fullmatch(text)
    if series is not None:
        return _labelled(series["name"], dict(_LABEL.findall(series["labels"])))
    entity = _entity(text)
    return WideColumn(entity, "") if entity is not None else _with_field(text)


def _with_field(text: str) -> WideColumn | None:
    """Return the market and the quantity of a name such as ``BTC_funding_rate``; None for other names."""
    if text.startswith(_OF_OBJECTS) and is_venue(text.removeprefix(_OF_OBJECTS)):
        return WideColumn(Entity("", venue_of_word(text.removeprefix(_OF_OBJECTS))), "")
    for place in _SEPARATORS.finditer(text):
        left = text[: place.start()]
        right = text[place.end() :]
        for words, field in ((left, right), (right, left)):
            entity = _entity(words)
            if entity is None and words.upper() in _LEADERS:
                entity = Entity(words.upper(), "")
            if entity is not None and (meaning_of(field) is not None or plain_name(field) in _OF_CANDLES):
                return WideColumn(entity, field)
    return None


_SERIES = re.compile(r"(?P<name>\w*)\{(?P<labels>.+)\}")
_LABEL = re.compile(r"(\w+)=\"([^\"]*)\"")
"""``funding_rate{exchange="bybit", symbol="BTCUSDT"}``: how Grafana names the series of Prometheus."""


def _labelled(name: str, labels: Mapping[str, str]) -> WideColumn | None:
    """Return the market and the quantity of a series with labels; None for another one."""
    words = {meaning_of(label): word for label, word in labels.items()}
    if not name:
        name = labels.get("__name__", "")
    symbol = words.get("symbol") or ""
    venue = words.get("exchange") or ""
    if not (symbol or venue) or (symbol and not is_market(symbol)):
        return None
    return WideColumn(Entity(symbol, venue_of_word(venue) if venue else ""), name)


_OF_OBJECTS = "o."
"""Before the venues of Glassnode's objects of values, ``{"t": 1772323200, "o": {"binance": 0.0001}}``."""
_OF_CANDLES = frozenset({"high", "low", "adjclose"})
"""Names of prices that are not read, in wide tables of candles."""


def _entity(text: str) -> Entity | None:
    """Return the market that a text names; None for other words."""
    if is_venue(text):
        return Entity("", venue_of_word(text))
    if is_market(text):
        return Entity(text, market_of(text).venue)
    for place in _SEPARATORS.finditer(text):
        left = text[: place.start()]
        right = text[place.end() :]
        for venue, symbol in ((left, right), (right, left)):
            if is_venue(venue) and is_market(symbol):
                return Entity(symbol, venue_of_word(venue))
    return None


def is_venue(text: str) -> bool:
    """Return whether a text is the name of a venue; digits only are not."""
    return not text.isdigit() and (venue_of_word(text) in KNOWN_VENUES or text.lower() in _OTHER_VENUES)


_OTHER_VENUES = frozenset({"cme"})
"""Venues next to others in wide tables, whose names in capitals may be those of coins."""


def is_market(text: str) -> bool:
    """Return whether a text is the name of a perpetual contract, or of a coin in capitals."""
    market = market_of(text)
    if market.kind == "perpetual" or _NAMED_PERPETUAL.fullmatch(text) is not None:
        return True
    return market.kind == "symbol" and _COIN.fullmatch(text) is not None and not text.isdigit()


_NAMED_PERPETUAL = re.compile(r"[A-Z0-9]{2,10}[-_](PERP|PERPETUAL)")


class Reshaped(NamedTuple):
    """Columns of a reshaped chunk, and the original row of each row."""

    columns: dict[str, pa.ChunkedArray]
    rows: Array


def reshaped(columns: Mapping[str, pa.ChunkedArray]) -> Reshaped | None:
    """Return the rows of a wide table, one for each cell with a value; None for another table."""
    names = tuple(columns)
    sides = _option_columns(names)
    if sides is not None:
        return _option_rows(columns, sides)
    levels = _book_columns(names)
    if levels is not None:
        return _book_rows(columns, levels)
    lists = _lists_of_levels(columns)
    if lists is not None:
        return _listed_rows(columns, lists)
    bands = _band_columns(names)
    if bands is not None:
        return _band_rows(columns, bands)
    metrics = _metric_columns(columns)
    if metrics is not None:
        return _metric_rows(columns, *metrics)
    wide = wide_columns(names)
    return None if wide is None else _panel_rows(columns, wide)


METRIC_NAMES = frozenset(
    "metric metriccode metricid metricname metrictype field variable indicator measure measurement "
    "datatype".split()
)
"""Plain names of columns with the quantity of a row, whose value is in another column."""
_QUANTITIES = frozenset(
    "rate oi_usd oi_coins mark index last long_short_ratio long_usd short_usd index_pct".split()
)
"""Meanings of the words of such a column."""


_NAMES_OF_VALUES = frozenset({"value", "val", "v"})


def _metric_columns(columns: Mapping[str, pa.ChunkedArray]) -> tuple[str, str] | None:
    """Return the columns of quantities and of values of a table with a quantity in each row; None for others.

    One quantity is enough: those of later rows may be others.
    """
    metrics = [name for name in columns if plain_name(name) in METRIC_NAMES]
    values = [name for name in columns if plain_name(name) in _NAMES_OF_VALUES]
    if len(metrics) != 1 or len(values) != 1 or not _has_texts(columns[metrics[0]].type):
        return None
    words = [word for word in columns[metrics[0]].unique().to_pylist() if word]
    meanings = {meaning_of(word) for word in words}
    has_collision = bool({*words} & {*columns})
    if has_collision or not meanings & _QUANTITIES:
        return None
    return metrics[0], values[0]


def _has_texts(kind: pa.DataType) -> bool:
    """Return whether cells are texts, also those of pandas and of categories."""
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _metric_rows(columns: Mapping[str, pa.ChunkedArray], metric: str, value: str) -> Reshaped:
    """Return the same rows with a column for each quantity, which is missing in the rows of the others."""
    rest = {name: cells for name, cells in columns.items() if name not in (metric, value)}
    missing = pa.scalar(None, columns[value].type)
    texts = columns[metric].cast(pa.string())
    for word in texts.unique().to_pylist():
        if word:
            is_of_word = pc.equal(texts, word).fill_null(False)
            rest[word] = pc.if_else(is_of_word, columns[value], missing)
    return Reshaped(rest, np.arange(len(columns[metric])))


_CLOCK = re.compile(r"\d{1,2}:\d{2}(:\d{2}(\.\d+)?)?")
_CLOCK_NAMES = frozenset(
    "time hour tradetime timeofday hhmm uhrzeit zeit heure hora ora orario saat godzina czas 时间 時間 시간 "
    "время".split()
)
"""Names of columns that may have the time of day next to that of the date."""
_DATE_NAMES = frozenset({"tradedate", "day", "datum", "fecha"})
_CALENDAR = ("year", "month", "day")


def with_whole_times(columns: Mapping[str, pa.ChunkedArray]) -> Mapping[str, pa.ChunkedArray]:
    """Return columns with a date and the time of day next to it in one, ``time``."""
    plain = {plain_name(name): name for name in columns}
    if {*_CALENDAR} <= plain.keys():
        return _with_calendar(columns, plain)
    clocks = {name: _clock_of(values) for name, values in columns.items() if plain_name(name) in _CLOCK_NAMES}
    clocks = {name: clock for name, clock in clocks.items() if clock is not None}
    dates = [name for name in columns if name not in clocks and _has_days(name, columns[name])]
    if len(clocks) != 1 or len(dates) != 1:
        return columns
    [(name, clock)] = clocks.items()
    joined = pc.binary_join_element_wise(columns[dates[0]].cast(pa.string()), clock, " ")
    if plain_name(name) == "hour":
        return {**columns, "time": joined}  # both are of the file's own table
    return {
        "time": joined,
        **{other: cells for other, cells in columns.items() if other not in (name, *dates)},
    }


def _has_days(name: str, values: pa.ChunkedArray) -> bool:
    """Return whether a column has dates without a time of day, by its name and its first cell."""
    is_named = meaning_of(name) == "time" or plain_name(name) in _DATE_NAMES
    cell = first_cell(values.slice(0, 100).cast(pa.string())) if is_named else ""
    is_number = cell.isdigit() and len(cell) != _DIGITS_OF_DATE
    return bool(cell) and ":" not in cell and not is_number


_DIGITS_OF_DATE = 8
_LAST_OF_DAY = {23: 2, 2359: 4, 235959: 6}
"""The last hour, minute and second of a day as one number, and its digits."""


def _clock_of(values: pa.ChunkedArray) -> pa.ChunkedArray | None:
    """Return times of day as ``08:00:00``, from those, 800, 80000 or hours; None for other values."""
    try:
        texts = values.cast(pa.string())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return None
    cells = {cell.strip() for cell in texts.unique().to_pylist() if cell}
    if not cells:
        return None
    if all(map(_CLOCK.fullmatch, cells)):
        return texts
    if not all(cell.isascii() and cell.isdigit() and len(cell) <= 6 for cell in cells):
        return None
    largest = max(map(int, cells))
    widths = [width for last, width in _LAST_OF_DAY.items() if largest <= last]
    if not widths:
        return None
    padded = pc.utf8_lpad(pc.utf8_trim_whitespace(texts), widths[0], "0")
    padded = pc.utf8_rpad(padded, 6, "0")
    clock = pc.replace_substring_regex(padded, r"^(\d\d)(\d\d)(\d\d)$", r"\1:\2:\3")
    is_clock = pc.match_substring_regex(clock, r"^([01]\d|2[0-3]):[0-5]\d:[0-5]\d$")
    return clock if pc.all(is_clock.fill_null(True)).as_py() else None


def _with_calendar(
    columns: Mapping[str, pa.ChunkedArray], plain: Mapping[str, str]
) -> Mapping[str, pa.ChunkedArray]:
    """Return columns with the year, month, day and time of day in one, ``time``."""
    clocks = [name for word, name in plain.items() if word in ("hour", "minute", "second", "time")]
    if any(word in plain for word in ("date", "datetime", "timestamp")) or len(clocks) > 1:
        return columns
    names = [plain[word] for word in _CALENDAR]
    digits = [pc.utf8_lpad(columns[name].cast(pa.string()), 2, "0") for name in names]
    time = pc.binary_join_element_wise(*digits, "-")
    if clocks:
        clock = _clock_of(columns[clocks[0]])
        if clock is None:
            return columns
        time = pc.binary_join_element_wise(time, clock, " ")
    rest = {name: values for name, values in columns.items() if name not in (*names, *clocks)}
    return {"time": time, **rest}


_OPTION_SIDE = re.compile(r"\W?(?P<side>c|p|ce|pe|call|put)s?[_ .](?P<field>\w+)\W?", re.IGNORECASE)
"""``[C_IV]``, ``put_iv``, ``call.bid``."""


@lru_cache(maxsize=256)
def _option_columns(names: tuple[str, ...]) -> Mapping[str, tuple[str, str]] | None:
    """Return side and field of the columns of a chain with calls and puts in one row; None for others."""
    columns: dict[str, tuple[str, str]] = {}
    for name in names:
        match = _OPTION_SIDE.fullmatch(name)
        if match is not None:
            side = "call" if match["side"].lower().startswith("c") else "put"
            columns[name] = (side, match["field"].lower())
    calls = {field for side, field in columns.values() if side == "call"}
    puts = {field for side, field in columns.values() if side == "put"}
    has_strike = any(meaning_of(name) == "strike" for name in names)
    return columns if calls and calls == puts and has_strike else None


def _option_rows(columns: Mapping[str, pa.ChunkedArray], sides: Mapping[str, tuple[str, str]]) -> Reshaped:
    """Return a row for the call and one for the put of each strike."""
    keys = {name: values for name, values in columns.items() if name not in sides}
    rows = np.arange(len(next(iter(columns.values()))))
    tables = []
    for wanted in ("call", "put"):
        fields = {field: columns[name] for name, (side, field) in sides.items() if side == wanted}
        tables.append(pa.table({**keys, "side": pa.chunked_array([pa.repeat(wanted, len(rows))]), **fields}))
    table = pa.concat_tables(tables, promote_options="permissive")
    return Reshaped(dict(zip(table.column_names, table.columns, strict=True)), np.concatenate([rows, rows]))


def _panel_rows(columns: Mapping[str, pa.ChunkedArray], wide: Mapping[str, WideColumn]) -> Reshaped:
    """Return a row for each time and market with a value."""
    entities: dict[Entity, dict[str, pa.ChunkedArray]] = {}
    cells_of = _of_one_type({name: columns[name] for name in wide})
    kind = next(iter(cells_of.values())).type
    for name, column in wide.items():
        entities.setdefault(column.entity, {})[column.field or VALUE] = cells_of[name]
    fields = list(dict.fromkeys(column.field or VALUE for column in wide.values()))
    has_symbols = any(entity.symbol for entity in entities)
    keys = {
        PRICE_OF_COIN if _is_price(name) and not has_symbols else name: values
        for name, values in columns.items()
        if name not in wide
    }
    tables: list[pa.Table] = []
    places: list[Array] = []
    for entity, values in entities.items():
        has_value = np.zeros(len(next(iter(columns.values()))), dtype=bool)
        for cells in values.values():
            has_value |= np.asarray(_is_known(cells))
        rows = np.flatnonzero(has_value)
        columns_of_rows = {name: cells.take(pa.array(rows)) for name, cells in keys.items()}
        if entity.symbol:
            columns_of_rows["symbol"] = pa.chunked_array([pa.repeat(entity.symbol, len(rows))])
        if entity.venue:
            columns_of_rows["exchange"] = pa.chunked_array([pa.repeat(entity.venue, len(rows))])
        for field in fields:
            lacking = pa.chunked_array([pa.nulls(len(rows), kind)])
            columns_of_rows[field] = values[field].take(pa.array(rows)) if field in values else lacking
        tables.append(pa.table(columns_of_rows))
        places.append(rows)
    table = pa.concat_tables(tables, promote_options="permissive")
    return Reshaped(dict(zip(table.column_names, table.columns, strict=True)), np.concatenate(places))


def _of_one_type(columns: Mapping[str, pa.ChunkedArray]) -> dict[str, pa.ChunkedArray]:
    """Return columns as one type; JSON gives one without values, or with text, another type."""
    kinds = {values.type for values in columns.values() if values.null_count < len(values)}
    if len(kinds) == 1:
        kind = kinds.pop()
    elif kinds and all(pa.types.is_integer(kind) or pa.types.is_floating(kind) for kind in kinds):
        kind = pa.float64()
    else:
        kind = pa.string()
    return {name: values.cast(kind) for name, values in columns.items()}


def _is_known(cells: pa.ChunkedArray) -> pa.ChunkedArray:
    is_known = cells.is_valid()
    if pa.types.is_floating(cells.type):
        is_known = pc.and_(is_known, pc.invert(pc.is_nan(cells).fill_null(True)))
    return is_known


class _Level(NamedTuple):
    side: str
    number: int
    price: str
    size: str


@lru_cache(maxsize=256)
def _book_columns(names: tuple[str, ...]) -> tuple[_Level, ...] | None:
    """Return the columns of price and size of each level of a book; None for another table."""
    prices: dict[tuple[str, int], str] = {}
    sizes: dict[tuple[str, int], str] = {}
    for name in names:
        match = _BOOK.fullmatch(name)
        if match is None:
            continue
        field = (match["field"] or match["after"] or "").strip("_").lower()
        key = (match["side"].lower(), int(match["level"]))
        (prices if field in _PRICE else sizes)[key] = name
    if not prices and not sizes:
        prices, sizes = _best_quotes(names)
    if len(prices) < 2 or prices.keys() != sizes.keys() or len({side for side, _ in prices}) != 2:
        return None
    used = {*prices.values(), *sizes.values()}
    has_best_only = len(prices) == 2
    if has_best_only and _have_other_figures([name for name in names if name not in used]):
        return None  # a ticker, whose rows are not books
    first = min(number for _, number in prices)
    return tuple(
        _Level(side, number - first + 1, name, sizes[side, number]) for (side, number), name in prices.items()
    )


_BEST_PRICE = re.compile(r"(?:best)?(?P<side>bid|ask)(?:price|px)?")
_BEST_SIZE = re.compile(r"(?:best)?(?P<side>bid|ask)(?:size|sz|qty|quantity|amount|volume|vol)")


def _best_quotes(
    names: tuple[str, ...],
) -> tuple[dict[tuple[str, int], str], dict[tuple[str, int], str]]:
    """Return the columns of the best price and its size on each side; empty if some are not there once."""
    prices: dict[tuple[str, int], str] = {}
    sizes: dict[tuple[str, int], str] = {}
    for name in names:
        for pattern, columns in ((_BEST_PRICE, prices), (_BEST_SIZE, sizes)):
            match = pattern.fullmatch(plain_name(name))
            if match is None:
                continue
            key = (match["side"], 1)
            if key in columns:
                return {}, {}
            columns[key] = name
    return prices, sizes


_FIGURES = frozenset(
    "rate oi_usd oi_coins mark index last iv strike underlying_price long_short_ratio index_pct".split()
)
"""Meanings of columns of other tables than books."""


def _have_other_figures(names: Sequence[str]) -> bool:
    """Return whether columns next to those of a book are of other tables."""
    return any(meaning_of(name) in _FIGURES for name in names)


_LISTS = {"bids": "bid", "asks": "ask", "bidsjson": "bid", "asksjson": "ask"}
_IN_JSON = str.maketrans("()'", '[]"')
"""Python's text of tuples and words, which collectors write into CSV, as JSON."""


def _lists_of_levels(columns: Mapping[str, pa.ChunkedArray]) -> Mapping[str, str] | None:
    """Return the side of each of two columns with lists of levels; None for another table."""
    sides = {name: _LISTS[plain_name(name)] for name in columns if plain_name(name) in _LISTS}
    if (
        {*sides.values()} != {"bid", "ask"}
        or len(sides) != 2
        or _have_other_figures([name for name in columns if name not in sides])
    ):
        return None
    are_lists = [_is_of_lists(columns[name]) for name in sides]
    return sides if all(are_lists) else None


def _is_of_lists(values: pa.ChunkedArray) -> bool:
    if pa.types.is_list(values.type) or pa.types.is_large_list(values.type):
        return True
    return pa.types.is_string(values.type) and first_cell(values).startswith(("[", "("))


def _listed_rows(columns: Mapping[str, pa.ChunkedArray], sides: Mapping[str, str]) -> Reshaped:
    """Return a row for each level of the lists of books."""
    places: list[int] = []
    rows: dict[str, list[Any]] = {"side": [], "level": [], "price": [], "size": []}
    for name, side in sides.items():
        for place, cell in enumerate(columns[name].to_pylist()):
            for number, (price, size) in enumerate(_levels_in(name, cell), start=1):
                places.append(place)
                for field, value in zip(rows, (side, number, price, size), strict=True):
                    rows[field].append(value)
    origins = np.array(places, dtype=np.int64)
    keys = {name: values.take(pa.array(origins)) for name, values in columns.items() if name not in sides}
    levels = {name: pa.chunked_array([pa.array(values)]) for name, values in rows.items()}
    return Reshaped({**keys, **levels}, origins)


def _levels_in(name: str, cell: Any) -> list[tuple[float, float]]:
    """Return the prices and sizes of the levels in a cell."""
    try:
        levels = msgspec.json.decode(cell.translate(_IN_JSON)) if isinstance(cell, str) else cell or []
        return [_price_and_size(level) for level in levels]
    except (msgspec.DecodeError, LookupError, TypeError, ValueError, StopIteration):
        raise ArchiveError(
            f"its column {name} has {str(cell)[:40]!r}: expected a list of levels, [[price, size], ...]"
        ) from None


def _price_and_size(level: Any) -> tuple[float, float]:
    if not isinstance(level, dict):
        return float(level[0]), float(level[1])
    price = next(level[name] for name in _PRICE_NAMES if name in level)
    size = next(level[name] for name in _SIZE_NAMES if name in level)
    return float(price), float(size)


_PRICE_NAMES = ("price", "px", "p")
_SIZE_NAMES = ("size", "amount", "quantity", "qty", "sz", "q")


_BAND = re.compile(
    r"(?:(?P<side>bid|ask)s?_?(?:depth|liquidity|notional)|(?:depth|liquidity)_?(?P<after>bid|ask)s?)_?"
    r"(?P<width>\d+(?:[._]\d+)?)_?(?P<unit>bps?|pct|percent)_?(?:usd|notional)",
    re.IGNORECASE,
)
"""``bid_depth_10bps_usd``, ``depth_ask_1pct_usd``: USD of orders within a distance of the middle price."""


@lru_cache(maxsize=256)
def _band_columns(names: tuple[str, ...]) -> Mapping[float, Mapping[str, str]] | None:
    """Return the columns of each distance [bps] with both sides of a book; None for another table."""
    bands: dict[float, dict[str, str]] = {}
    for name in names:
        match = _BAND.fullmatch(name)
        if match is None:
            continue
        scale = 1.0 if match["unit"].lower().startswith("bp") else 100.0
        side = (match["side"] or match["after"]).lower()
        bands.setdefault(float(match["width"].replace("_", ".")) * scale, {})[side] = name
    used = {name for band in bands.values() for name in band.values()}
    is_whole = bool(bands) and all(len(band) == 2 for band in bands.values())
    return bands if is_whole and not _have_other_figures([n for n in names if n not in used]) else None


def _band_rows(columns: Mapping[str, pa.ChunkedArray], bands: Mapping[float, Mapping[str, str]]) -> Reshaped:
    """Return a row for each time and distance from the middle price."""
    used = {name for band in bands.values() for name in band.values()}
    keys = {name: values for name, values in columns.items() if name not in used}
    rows = np.arange(len(next(iter(columns.values()))))
    tables = []
    for width, band in bands.items():
        depths = {
            "depth_bps": pa.chunked_array([pa.repeat(width, len(rows))]),
            "bid_depth_usd": columns[band["bid"]],
            "ask_depth_usd": columns[band["ask"]],
        }
        tables.append(pa.table({**keys, **depths}))
    table = pa.concat_tables(tables, promote_options="permissive")
    return Reshaped(dict(zip(table.column_names, table.columns, strict=True)), np.tile(rows, len(bands)))


_ID_OF_QUOTES = "updateid"
"""Number of each best quote of Binance's ``bookTicker`` files, which is that of changes in deeper books."""


def _book_rows(columns: Mapping[str, pa.ChunkedArray], levels: Sequence[_Level]) -> Reshaped:
    """Return a row for each level of each book."""
    used = {name for level in levels for name in (level.price, level.size)}
    if max(level.number for level in levels) == 1:
        used |= {name for name in columns if plain_name(name) == _ID_OF_QUOTES}
    keys = {name: values for name, values in columns.items() if name not in used}
    tables: list[pa.Table] = []
    places: list[Array] = []
    for level in levels:
        rows = np.flatnonzero(np.asarray(_is_known(columns[level.price])))
        columns_of_rows = {name: cells.take(pa.array(rows)) for name, cells in keys.items()}
        columns_of_rows["side"] = pa.chunked_array([pa.repeat(level.side, len(rows))])
        columns_of_rows["level"] = pa.chunked_array([pa.repeat(level.number, len(rows))])
        columns_of_rows["price"] = columns[level.price].take(pa.array(rows))
        columns_of_rows["size"] = columns[level.size].take(pa.array(rows))
        tables.append(pa.table(columns_of_rows))
        places.append(rows)
    table = pa.concat_tables(tables, promote_options="permissive")
    return Reshaped(dict(zip(table.column_names, table.columns, strict=True)), np.concatenate(places))


def joined_header(first: Sequence[str], second: Sequence[str]) -> list[str] | None:
    """Return the names of a header of two lines, ``funding|BTC``; None where the lines are not of one."""
    if len(first) != len(second) or len(first) < 3 or not (_repeats(first) or _repeats(second)):
        return None
    pairs = [_two_levels(above, below) for above, below in zip(first, second, strict=True)]
    columns = [_wide_column(name) for name in pairs[1:]]
    return pairs if all(column is not None for column in columns) else None


def _two_levels(above: str, below: str) -> str:
    return LEVELS.join(word for word in (above, below) if word and not word.startswith("Unnamed:"))


def _repeats(cells: Sequence[str]) -> bool:
    words = [plain_name(cell) for cell in cells[1:]]
    return len({*words}) < len(words)
