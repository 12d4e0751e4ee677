"""Convert wide tables to rows: one column per symbol or venue, two-line headers, one column per level.

Only the names of the columns count, so every chunk of a file gets the same form.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple, TypeAlias

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
"""Separator of the names of a two-line header."""
_TUPLE = re.compile(r"\('?(.*?)'?, '?(.*?)'?\)")
"""Name that pandas gives a column of two levels in Parquet: ``('funding', 'BTC')``."""
_LEADERS = frozenset({"BTC", "ETH", "SOL", "XBT"})
"""Coins, at least one of which a wide table has, because names of other coins may be words."""
_SEPARATORS = re.compile(rf"[_\-./: {re.escape(LEVELS)}]")
_COIN = re.compile(r"[A-Z0-9]{2,10}")
_BOOK = re.compile(
    r"(?P<side>bid|ask)s?(?P<field>_?(?:price|px|amount|size|qty|quantity|volume|sz))?[_\[.]?(?P<level>\d+)\]?"
    r"(?:[._](?P<after>price|px|amount|size|qty|quantity|volume|sz|\d))?",
    re.IGNORECASE,
)
"""``asks[0].price``, ``bid_price_1``, ``bids[0].amount``, ``ask1_size``, ``bidPx_01``."""
_PRICE = ("price", "px", "0")


class Market(NamedTuple):
    """Market of a column: name and venue, either of which may be empty."""

    symbol: str
    venue: str


class WideColumn(NamedTuple):
    """A column of a wide table: the market, and the name of the quantity, which may be empty."""

    market: Market
    field: str


@lru_cache(maxsize=4096)
def wide_columns(names: tuple[str, ...]) -> Mapping[str, WideColumn] | None:
    """Return the meanings of the columns of a wide table; None for a table of another form.

    At least two columns must be markets, and either one of them has a leading coin or all are venues.
    """
    columns: dict[str, WideColumn] = {}
    totals: list[str] = []
    keys: list[str] = []
    for name in names:
        column = _wide_column(name)
        if column is not None:
            columns[name] = column
        elif plain_name(name) in _TOTALS:
            totals.append(name)
        else:
            keys.append(name)
    if len(columns) < 2:
        return None
    are_of_venues = not any(column.market.symbol for column in columns.values())
    total = Market("", "all") if are_of_venues else Market("Total", "")
    for name in totals:
        columns[name] = WideColumn(total, "")
    markets = {column.market for column in columns.values()}
    if not _are_keys(keys, are_of_venues=are_of_venues) or not _have_one_kind(markets):
        return None
    # yfinance names the one market of a file in each of two levels.
    has_two_levels = all(LEVELS in name for name in columns)
    if len(markets) < 2 and not has_two_levels:
        return None
    return columns


def _have_one_kind(markets: Collection[Market]) -> bool:
    """Return whether all markets are venues, or all have symbols with at least one leading coin."""
    symbols: set[str] = set()
    for market in markets:
        if market.symbol:
            symbols.add(market_of(market.symbol).symbol)
    if not symbols:
        return True
    return all(market.symbol for market in markets) and not symbols.isdisjoint(_LEADERS)


_TOTALS = frozenset("all total sum aggregate aggregated others other rest".split())
"""Names of columns with sums of several venues, whose rows are rejected as totals."""
PRICE_OF_COIN = "price next to venues"
"""Name of the shared price column of a table with one column per venue."""


def _are_keys(names: Sequence[str], *, are_of_venues: bool) -> bool:
    """Return whether the other columns are a time, and at most a symbol or a venue, or a price."""
    meanings = {meaning_of(name) for name in names}
    if are_of_venues:
        meanings.discard("price_usd")  # dashboards draw the price of the coin next to the venues
    return "time" in meanings and meanings <= {"time", "symbol", "exchange"}


@lru_cache(maxsize=8192)
def _wide_column(name: str) -> WideColumn | None:
    two_levels = _TUPLE.fullmatch(name)
    if two_levels is not None:
        name = LEVELS.join(two_levels.groups())
    if meaning_of(name) is not None:
        return None
    series = _SERIES.fullmatch(name)
    if series is not None:
        return _labelled(series["name"], dict(_LABEL.findall(series["labels"])))
    market = _market(name)
    if market is None:
        return _with_field(name)
    return WideColumn(market, "")


def _with_field(text: str) -> WideColumn | None:
    """Return the market and the quantity of a name such as ``BTC_funding_rate``; None for other names."""
    inner = text.removeprefix(_OF_OBJECTS)
    if inner != text and _is_venue(inner):
        return WideColumn(Market("", venue_of_word(inner)), "")
    for words, field in _halves(text):
        market = _market(words)
        if market is None and words.upper() in _LEADERS:
            market = Market(words.upper(), "")
        is_quantity = meaning_of(field) is not None or plain_name(field) in _OF_CANDLES
        if market is not None and is_quantity:
            return WideColumn(market, field)
    return None


def _halves(text: str) -> Iterator[tuple[str, str]]:
    """Yield the texts before and after each separator of a name, in both orders."""
    for separator in _SEPARATORS.finditer(text):
        left = text[: separator.start()]
        right = text[separator.end() :]
        yield left, right
        yield right, left


_SERIES = re.compile(r"(?P<name>\w*)\{(?P<labels>.+)\}")
_LABEL = re.compile(r"(\w+)=\"([^\"]*)\"")
"""``funding_rate{exchange="bybit", symbol="BTCUSDT"}``: how Grafana names the series of Prometheus."""


def _labelled(name: str, labels: Mapping[str, str]) -> WideColumn | None:
    """Return the market and the quantity of a series with labels; None for another one."""
    words = {meaning_of(label): word for label, word in labels.items()}
    symbol = words.get("symbol", "")
    venue = words.get("exchange", "")
    if symbol and not _is_market(symbol):
        return None
    if venue:
        venue = venue_of_word(venue)
    elif not symbol:
        return None
    return WideColumn(Market(symbol, venue), name or labels.get("__name__", ""))


_OF_OBJECTS = "o."
"""Prefix of the venues in Glassnode's value objects, ``{"t": 1772323200, "o": {"binance": 0.0001}}``."""
_OF_CANDLES = frozenset({"high", "low", "adjclose"})
"""Price names that are not read in wide tables of candles."""


def _market(text: str) -> Market | None:
    """Return the market in a text; None for other words."""
    if _is_venue(text):
        return Market("", venue_of_word(text))
    if _is_market(text):
        return Market(text, market_of(text).venue)
    for venue, symbol in _halves(text):
        if _is_venue(venue) and _is_market(symbol):
            return Market(symbol, venue_of_word(venue))
    return None


def _is_venue(text: str) -> bool:
    """Return whether a text is the name of a venue; digits only are not."""
    return not text.isdigit() and (venue_of_word(text) in KNOWN_VENUES or text.lower() in _OTHER_VENUES)


_OTHER_VENUES = frozenset({"cme"})
"""Venues next to others in wide tables, whose names in capitals may be those of coins."""


def _is_market(text: str) -> bool:
    """Return whether a text is the name of a perpetual contract, or of a coin in capitals."""
    market = market_of(text)
    if market.kind == "perpetual" or _NAMED_PERPETUAL.fullmatch(text) is not None:
        return True
    return market.kind == "symbol" and _COIN.fullmatch(text) is not None and not text.isdigit()


_NAMED_PERPETUAL = re.compile(r"[A-Z0-9]{2,10}[-_](PERP|PERPETUAL)")


Columns: TypeAlias = Mapping[str, pa.ChunkedArray]
"""Columns of a table by name."""


class Reshaped(NamedTuple):
    """Columns of a reshaped chunk, and the original row of each row."""

    columns: dict[str, pa.ChunkedArray]
    rows: Array
    quantities: frozenset[str] = frozenset()  # columns of a table with a quantity in each row


def reshaped(columns: Columns) -> Reshaped | None:
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
    if wide is not None:
        return _panel_rows(columns, wide)
    return None


def _without(columns: Columns, names: Collection[str]) -> dict[str, pa.ChunkedArray]:
    """Return the columns except some."""
    return {name: cells for name, cells in columns.items() if name not in names}


def _taken(columns: Columns, rows: Array) -> dict[str, pa.ChunkedArray]:
    """Return selected rows of columns."""
    places = pa.array(rows)
    return {name: cells.take(places) for name, cells in columns.items()}


def _repeated(value: Any, size: int) -> pa.ChunkedArray:
    """Return a column of one value."""
    return pa.chunked_array([pa.repeat(value, size)])


def _row_count(columns: Columns) -> int:
    return len(next(iter(columns.values())))


def _stacked(tables: Sequence[Columns], rows: Sequence[Array]) -> Reshaped:
    """Concatenate tables, with the original rows of each."""
    table = pa.concat_tables(map(pa.table, tables), promote_options="permissive")
    return Reshaped(dict(zip(table.column_names, table.columns, strict=True)), np.concatenate(rows))


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


def _metric_columns(columns: Columns) -> tuple[str, str] | None:
    """Return the quantity and value columns of a table with one quantity per row; None for others.

    One quantity is enough: those of later rows may be others.
    """
    metrics = [name for name in columns if plain_name(name) in METRIC_NAMES]
    values = [name for name in columns if plain_name(name) in _NAMES_OF_VALUES]
    if len(metrics) != 1 or len(values) != 1 or not _has_texts(columns[metrics[0]].type):
        return None
    words = _distinct_texts(columns[metrics[0]])
    has_collision = not columns.keys().isdisjoint(words)
    if has_collision or _QUANTITIES.isdisjoint(map(meaning_of, words)):
        return None
    return metrics[0], values[0]


def _has_texts(kind: pa.DataType) -> bool:
    """Return whether cells are texts, also those of pandas and of categories."""
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _distinct_texts(cells: pa.ChunkedArray) -> list[str]:
    """Return the distinct texts of a column that are not empty."""
    return list(filter(None, cells.unique().to_pylist()))


def _metric_rows(columns: Columns, metric: str, value: str) -> Reshaped:
    """Return the rows with a value, and a column for each quantity, missing in the rows of the others."""
    rows = np.flatnonzero(np.asarray(_has_number(columns[value])))
    columns = _taken(columns, rows)
    result = _without(columns, (metric, value))
    missing = pa.scalar(None, columns[value].type)
    texts = columns[metric].cast(pa.string())
    words = _distinct_texts(texts)
    for word in words:
        is_of_word = pc.equal(texts, word).fill_null(False)
        result[word] = pc.if_else(is_of_word, columns[value], missing)
    return Reshaped(result, rows, frozenset(words))


_CLOCK = re.compile(r"\d{1,2}:\d{2}(:\d{2}(\.\d+)?)?")
_CLOCK_NAMES = frozenset(
    "time hour tradetime timeofday hhmm uhrzeit zeit heure hora ora orario saat godzina czas 时间 時間 시간 "
    "время".split()
)
"""Names of columns that may have the time of day next to that of the date."""
_DATE_NAMES = frozenset({"tradedate", "day", "datum", "fecha"})
_CALENDAR = ("year", "month", "day")


def with_whole_times(columns: Columns) -> Columns:
    """Return columns with a date and the time of day next to it in one, ``time``."""
    plain = {plain_name(name): name for name in columns}
    if {*_CALENDAR} <= plain.keys():
        return _with_calendar(columns, plain)
    clocks: dict[str, pa.ChunkedArray] = {}
    other_clocks: dict[str, pa.ChunkedArray] = {}
    dates: list[str] = []
    other_dates: list[str] = []
    for name, cells in columns.items():
        is_named = plain_name(name) in _CLOCK_NAMES
        clock = _clock_of(cells) if is_named or _has_clocks(name, cells) else None
        if clock is not None and is_named:
            clocks[name] = clock
        elif clock is not None:
            other_clocks[name] = clock
        elif _has_days(name, cells):
            is_of_time = meaning_of(name) == "time" or plain_name(name) in _DATE_NAMES
            (dates if is_of_time else other_dates).append(name)
    # ``funding_time`` counts only without ``time``, next to which ``next_funding_time`` is another time.
    clocks = clocks or other_clocks
    dates = dates or other_dates
    if len(clocks) != 1 or len(dates) != 1:
        return columns
    [(name, clock)] = clocks.items()
    whole = pc.binary_join_element_wise(columns[dates[0]].cast(pa.string()), clock, " ")
    if plain_name(name) == "hour":
        return {**columns, "time": whole}  # both are of the file's own table
    return {"time": whole, **_without(columns, (name, dates[0]))}


def _has_clocks(name: str, cells: pa.ChunkedArray) -> bool:
    """Return whether a column has times of day, ``funding_time`` next to ``funding_date``."""
    return plain_name(name).endswith("time") and _CLOCK.fullmatch(first_cell(cells)) is not None


def _has_days(name: str, cells: pa.ChunkedArray) -> bool:
    """Return whether a column has dates without a time of day, by its name and its first cell."""
    plain = plain_name(name)
    is_of_rows = plain.endswith("date") and not _OF_OTHER_DATES.search(plain)
    if meaning_of(name) != "time" and plain not in _DATE_NAMES and not is_of_rows:
        return False
    cell = first_cell(cells.slice(0, 100).cast(pa.string()))
    is_number = cell.isdigit() and len(cell) != _DIGITS_OF_DATE
    return bool(cell) and ":" not in cell and not is_number


_OF_OTHER_DATES = re.compile(r"expir|matur|deliver|settle|next|list|launch|updat")
"""Words of dates other than the date of a row."""
_DIGITS_OF_DATE = 8
_LAST_OF_DAY = {23: 2, 2359: 4, 235959: 6}
"""The last hour, minute and second of a day as one number, and its digits."""


def _clock_of(cells: pa.ChunkedArray) -> pa.ChunkedArray | None:
    """Return times of day as ``08:00:00``, from those, 800, 80000 or hours; None for other values."""
    try:
        texts = cells.cast(pa.string())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return None
    words = [word.strip() for word in _distinct_texts(texts)]
    if not words:
        return None
    if all(map(_CLOCK.fullmatch, words)):
        return texts
    for word in words:
        if not (word.isascii() and word.isdigit() and len(word) <= 6):
            return None
    largest = max(map(int, words))
    width = next((digits for last, digits in _LAST_OF_DAY.items() if largest <= last), None)
    if width is None:
        return None
    padded = pc.utf8_lpad(pc.utf8_trim_whitespace(texts), width, "0")
    padded = pc.utf8_rpad(padded, 6, "0")
    clock = pc.replace_substring_regex(padded, r"^(\d\d)(\d\d)(\d\d)$", r"\1:\2:\3")
    is_clock = pc.match_substring_regex(clock, r"^([01]\d|2[0-3]):[0-5]\d:[0-5]\d$")
    if not pc.all(is_clock.fill_null(True)).as_py():
        return None
    return clock


def _with_calendar(columns: Columns, plain: Mapping[str, str]) -> Columns:
    """Return columns with the year, month, day and time of day in one, ``time``."""
    clocks = [name for word, name in plain.items() if word in ("hour", "minute", "second", "time")]
    if not plain.keys().isdisjoint(("date", "datetime", "timestamp")) or len(clocks) > 1:
        return columns
    names = [plain[word] for word in _CALENDAR]
    digits = [pc.utf8_lpad(columns[name].cast(pa.string()), 2, "0") for name in names]
    time = pc.binary_join_element_wise(*digits, "-")
    if clocks:
        clock = _clock_of(columns[clocks[0]])
        if clock is None:
            return columns
        time = pc.binary_join_element_wise(time, clock, " ")
    return {"time": time, **_without(columns, (*names, *clocks))}


_OPTION_SIDE = re.compile(r"\W?(?P<side>c|p|ce|pe|call|put)s?[_ .](?P<field>\w+)\W?", re.IGNORECASE)
"""``[C_IV]``, ``put_iv``, ``call.bid``."""


@lru_cache(maxsize=256)
def _option_columns(names: tuple[str, ...]) -> Mapping[str, Mapping[str, str]] | None:
    """Return the columns of calls and puts by side and field, of a chain with both in one row.

    None for another table.
    """
    columns: dict[str, dict[str, str]] = {"call": {}, "put": {}}
    for name in names:
        match = _OPTION_SIDE.fullmatch(name)
        if match is not None:
            side = "call" if match["side"].lower().startswith("c") else "put"
            columns[side][match["field"].lower()] = name
    if not columns["call"] or columns["call"].keys() != columns["put"].keys():
        return None
    if "strike" not in map(meaning_of, names):
        return None
    return columns


def _option_rows(columns: Columns, sides: Mapping[str, Mapping[str, str]]) -> Reshaped:
    """Return a row for the call and one for the put of each strike."""
    of_sides = {*sides["call"].values(), *sides["put"].values()}
    rows = np.arange(_row_count(columns))
    tables = []
    for side, names in sides.items():
        table = _without(columns, of_sides)
        table["side"] = _repeated(side, len(rows))
        for field, name in names.items():
            table[field] = columns[name]
        tables.append(table)
    return _stacked(tables, [rows, rows])


def _panel_rows(columns: Columns, wide: Mapping[str, WideColumn]) -> Reshaped:
    """Return a row for each time and market with a value."""
    cells_of = _of_one_type({name: columns[name] for name in wide})
    kind = next(iter(cells_of.values())).type
    markets: dict[Market, dict[str, pa.ChunkedArray]] = {}
    fields: dict[str, None] = {}  # in the order of the file
    for name, column in wide.items():
        field = column.field or VALUE
        markets.setdefault(column.market, {})[field] = cells_of[name]
        fields[field] = None
    keys = _without(columns, wide)
    if not any(market.symbol for market in markets):
        keys = {_name_next_to_venues(name): cells for name, cells in keys.items()}
    tables: list[Columns] = []
    places: list[Array] = []
    for market, cells_by_field in markets.items():
        has_value = np.zeros(_row_count(columns), dtype=bool)
        for cells in cells_by_field.values():
            has_value |= np.asarray(_has_number(cells))
        rows = np.flatnonzero(has_value)
        table = _taken(keys, rows)
        if market.symbol:
            table["symbol"] = _repeated(market.symbol, len(rows))
        if market.venue:
            table["exchange"] = _repeated(market.venue, len(rows))
        values = _taken(cells_by_field, rows)
        missing = pa.chunked_array([pa.nulls(len(rows), kind)])
        for field in fields:
            table[field] = values.get(field, missing)
        tables.append(table)
        places.append(rows)
    return _stacked(tables, places)


def _name_next_to_venues(name: str) -> str:
    """Return the name of a column of a table with a column for each venue: its price is that of the coin."""
    if meaning_of(name) == "price_usd":
        return PRICE_OF_COIN
    return name


def _of_one_type(columns: Columns) -> dict[str, pa.ChunkedArray]:
    """Return columns as one type; JSON gives one without values, or with text, another type."""
    kinds = {cells.type for cells in columns.values() if cells.null_count < len(cells)}
    if len(kinds) == 1:
        kind = kinds.pop()
    elif kinds and all(pa.types.is_integer(kind) or pa.types.is_floating(kind) for kind in kinds):
        kind = pa.float64()
    else:
        kind = pa.string()
    return {name: cells.cast(kind) for name, cells in columns.items()}


def _has_number(cells: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return a mask of cells with a value other than NaN."""
    return pc.invert(cells.is_null(nan_is_null=True))


class _Level(NamedTuple):
    """Columns of the price and the size of one level of a book."""

    side: str
    number: int
    price: str
    size: str


_LevelColumns: TypeAlias = dict[tuple[str, int], str]
"""Column of each side and level of a book."""


@lru_cache(maxsize=256)
def _book_columns(names: tuple[str, ...]) -> tuple[_Level, ...] | None:
    """Return the columns of price and size of each level of a book; None for another table."""
    prices, sizes = _columns_of_levels(names)
    if not prices and not sizes:
        prices, sizes = _best_quotes(names)
    sides = {side for side, _ in prices}
    if len(sides) != 2 or prices.keys() != sizes.keys():
        return None
    has_best_only = len(prices) == 2
    if has_best_only and _have_other_figures(names, {*prices.values(), *sizes.values()}):
        return None  # a ticker, whose rows are not books
    first = min(number for _, number in prices)  # levels are numbered from 0 or from 1
    levels: list[_Level] = []
    for (side, number), name in prices.items():
        levels.append(_Level(side, number - first + 1, name, sizes[side, number]))
    return tuple(levels)


def _columns_of_levels(names: Sequence[str]) -> tuple[_LevelColumns, _LevelColumns]:
    """Return the columns with a numbered level in their names: those of prices, and those of sizes."""
    prices: _LevelColumns = {}
    sizes: _LevelColumns = {}
    for name in names:
        match = _BOOK.fullmatch(name)
        if match is None:
            continue
        field = (match["field"] or match["after"] or "").strip("_").lower()
        level = (match["side"].lower(), int(match["level"]))
        if field in _PRICE:
            prices[level] = name
        else:
            sizes[level] = name
    return prices, sizes


_BEST_PRICE = re.compile(r"(?:best)?(?P<side>bid|ask)(?:price|px)?")
_BEST_SIZE = re.compile(r"(?:best)?(?P<side>bid|ask)(?:size|sz|qty|quantity|amount|volume|vol)")


def _best_quotes(names: Sequence[str]) -> tuple[_LevelColumns, _LevelColumns]:
    """Return the columns of the best price and size on each side; empty if a column is ambiguous."""
    prices: _LevelColumns = {}
    sizes: _LevelColumns = {}
    for name in names:
        for pattern, columns in ((_BEST_PRICE, prices), (_BEST_SIZE, sizes)):
            match = pattern.fullmatch(plain_name(name))
            if match is None:
                continue
            level = (match["side"], 1)
            if level in columns:
                return {}, {}
            columns[level] = name
    return prices, sizes


_FIGURES = frozenset(
    "rate oi_usd oi_coins mark index last iv strike expiry underlying_price long_short_ratio "
    "index_pct".split()
)
"""Meanings of columns of other tables than books."""
_GREEKS = frozenset("delta gamma vega theta".split())
"""Column names next to which ``bid_vol`` is a volatility, not a size."""


def _have_other_figures(names: Collection[str], of_book: Collection[str]) -> bool:
    """Return whether other columns of a book belong to other tables."""
    others = [name for name in names if name not in of_book]
    return any(meaning_of(name) in _FIGURES or plain_name(name) in _GREEKS for name in others)


_LISTS = {"bids": "bid", "asks": "ask", "bidsjson": "bid", "asksjson": "ask"}
_IN_JSON = str.maketrans("()'", '[]"')
"""Python's text of tuples and words, which collectors write into CSV, as JSON."""


def _lists_of_levels(columns: Columns) -> Mapping[str, str] | None:
    """Return the side of each of two columns with lists of levels; None for another table."""
    sides: dict[str, str] = {}
    for name in columns:
        side = _LISTS.get(plain_name(name))
        if side is not None:
            sides[name] = side
    if sorted(sides.values()) != ["ask", "bid"] or _have_other_figures(columns, sides):
        return None
    if not all(_has_lists(columns[name]) for name in sides):
        return None
    return sides


def _has_lists(cells: pa.ChunkedArray) -> bool:
    """Return whether the cells of a column are lists, or texts of lists."""
    if pa.types.is_list(cells.type) or pa.types.is_large_list(cells.type):
        return True
    return first_cell(cells).startswith(("[", "("))


def _listed_rows(columns: Columns, sides: Mapping[str, str]) -> Reshaped:
    """Return a row for each level of the lists of books."""
    places: list[int] = []
    levels: list[tuple[str, int, float, float]] = []
    for name, side in sides.items():
        for place, cell in enumerate(columns[name].to_pylist()):
            for number, (price, size) in enumerate(_levels_in(name, cell), start=1):
                places.append(place)
                levels.append((side, number, price, size))
    origins = np.array(places, dtype=np.int64)
    result = _taken(_without(columns, sides), origins)
    for index, field in enumerate(("side", "level", "price", "size")):
        result[field] = pa.chunked_array([pa.array([level[index] for level in levels])])
    return Reshaped(result, origins)


def _levels_in(name: str, cell: Any) -> list[tuple[float, float]]:
    """Return the prices and sizes of the levels in a cell."""
    if cell is None:
        return []
    try:
        levels = cell
        if isinstance(cell, str):
            levels = msgspec.json.decode(cell.translate(_IN_JSON))
        return [_price_and_size(level) for level in levels]
    except (msgspec.DecodeError, LookupError, TypeError, ValueError, StopIteration):
        raise ArchiveError(
            f"column {name}: expected a list of levels, [[price, size], ...], got {str(cell)[:40]!r}"
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
_BPS_OF_A_PERCENT = 100.0


@lru_cache(maxsize=256)
def _band_columns(names: tuple[str, ...]) -> Mapping[float, Mapping[str, str]] | None:
    """Return the columns of each distance [bps] with both sides of a book; None for another table."""
    bands: dict[float, dict[str, str]] = {}
    for name in names:
        match = _BAND.fullmatch(name)
        if match is None:
            continue
        width = float(match["width"].replace("_", "."))
        if not match["unit"].lower().startswith("bp"):
            width *= _BPS_OF_A_PERCENT
        side = (match["side"] or match["after"]).lower()
        bands.setdefault(width, {})[side] = name
    has_both_sides = all(len(band) == 2 for band in bands.values())
    if not bands or not has_both_sides or _have_other_figures(names, _columns_of_bands(bands)):
        return None
    return bands


def _columns_of_bands(bands: Mapping[float, Mapping[str, str]]) -> set[str]:
    """Return the columns of all distances."""
    names: set[str] = set()
    for band in bands.values():
        names.update(band.values())
    return names


def _band_rows(columns: Columns, bands: Mapping[float, Mapping[str, str]]) -> Reshaped:
    """Return a row for each time and distance from the middle price."""
    keys = _without(columns, _columns_of_bands(bands))
    rows = np.arange(_row_count(columns))
    tables = []
    for width, band in bands.items():
        table = {
            **keys,
            "depth_bps": _repeated(width, len(rows)),
            "bid_depth_usd": columns[band["bid"]],
            "ask_depth_usd": columns[band["ask"]],
        }
        tables.append(table)
    return _stacked(tables, [rows] * len(bands))


_IDS_OF_QUOTES = ("updateid", "lastupdateid")
"""Numbers of best quotes in Binance's ``bookTicker`` files and responses, also of changes in deeper books."""


def _book_rows(columns: Columns, levels: Sequence[_Level]) -> Reshaped:
    """Return a row for each level of each book."""
    of_levels: set[str] = set()
    for level in levels:
        of_levels |= {level.price, level.size}
    keys = _without(columns, of_levels)
    if max(level.number for level in levels) == 1:
        keys = _without(keys, [name for name in keys if plain_name(name) in _IDS_OF_QUOTES])
    tables: list[Columns] = []
    places: list[Array] = []
    for level in levels:
        rows = np.flatnonzero(np.asarray(_has_number(columns[level.price])))
        table = _taken(keys, rows)
        table["side"] = _repeated(level.side, len(rows))
        table["level"] = _repeated(level.number, len(rows))
        table["price"] = columns[level.price].take(pa.array(rows))
        table["size"] = columns[level.size].take(pa.array(rows))
        tables.append(table)
        places.append(rows)
    return _stacked(tables, places)


def joined_header(first: Sequence[str], second: Sequence[str]) -> list[str] | None:
    """Return the names of a two-line header, such as ``funding|BTC``; None if the lines are not a header."""
    if len(first) != len(second) or len(first) < 3:
        return None
    if not _has_duplicates(first[1:]) and not _has_duplicates(second[1:]):
        return None
    names: list[str] = []
    for pair in zip(first, second, strict=True):
        words = [word for word in pair if word and not word.startswith("Unnamed:")]
        names.append(LEVELS.join(words))
    if None in map(_wide_column, names[1:]):
        return None
    return names


def _has_duplicates(names: Sequence[str]) -> bool:
    """Return whether two names are the same word."""
    return len(set(map(plain_name, names))) < len(names)
