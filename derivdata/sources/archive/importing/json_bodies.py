"""Read JSON as columns: records in a list, one per line, in a venue's response, or in stream messages."""

from __future__ import annotations

import ast
import itertools
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import IO, Any, NamedTuple

import msgspec
import pyarrow as pa

from derivdata.client.transport.body import NotJson, check_json
from derivdata.errors import ArchiveError
from derivdata.sources.archive.importing.market_names import (
    KNOWN_VENUES,
    market_of,
    meaning_of,
    venue_of_word,
)

_DEPTH = 6
"""Maximum depth of the rows of a response."""
_MORE = (
    "has_more",
    "hasMore",
    "nextPageCursor",
    "next_cursor",
    "nextCursor",
    "continuation",
    "cursor",
    "next",
)
"""Fields of a response that indicate further pages."""
_HEADERS = ("columns", "meta", "fields", "headers")
_ROWS = ("data", "values", "rows", "dataset")
"""Names under which databases write columns, and rows as lists: pandas, ClickHouse, InfluxDB, QuestDB."""
BY_KEY = "key"
"""Name of the column of keys of an object of records by symbol, venue or time, where they say neither."""
_KEY_OF_TIME = re.compile(r"\d{4}-\d{2}-\d{2}.*|\d{10}|\d{13}")


@dataclass
class Records:
    """Columns of records, their numbers, and non-records with the reason."""

    columns: dict[str, pa.ChunkedArray]
    numbers: Sequence[int]
    broken: list[tuple[int, str]]
    notices: tuple[str, ...] = ()


def json_records(stream: IO[bytes], rows: int) -> Iterator[Records]:
    """Yield the records of a file in batches."""
    begin = [*_up_to_text(stream), *_up_to_text(stream)]
    begin[0] = begin[0].removeprefix(b"\xef\xbb\xbf")
    texts = [line for line in begin if line.strip()]
    first = _as_json(texts[0]) if texts else b""
    second = texts[1] if len(texts) > 1 else b""
    if second and _is_whole(first):
        yield from _lines(itertools.chain(begin, stream), rows)
        return
    text = _as_json(first + second + stream.read())
    check_json(text, {})
    records = records_of(msgspec.json.decode(text))
    numbers = range(1, len(records.rows) + 1)
    for start in range(0, max(len(records.rows), 1), rows):  # a body without records is one empty chunk
        chunk = slice(start, start + rows)
        yield _columns(records.rows[chunk], numbers[chunk], records.notices)


def _up_to_text(stream: IO[bytes]) -> list[bytes]:
    """Return the next line that is not empty, after the empty ones before it, which have numbers too."""
    lines = [stream.readline()]
    while lines[-1] and not lines[-1].strip():
        lines.append(stream.readline())
    return lines


_PYTHON = re.compile(rb"\s*[\[({]*\s*\{\s*'")
"""Prefixes of printed Python dictionaries."""


def _as_json(text: bytes) -> bytes:
    """Convert printed Python dictionaries and lists to JSON; other text is unchanged."""
    if _PYTHON.match(text) is None:
        return text
    try:
        return json.dumps(ast.literal_eval(text.decode())).encode()
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return text


def _is_whole(line: bytes) -> bool:
    """Return whether a line is JSON by itself."""
    try:
        msgspec.json.decode(line)
    except msgspec.DecodeError:
        return False
    return True


def _lines(lines: Iterator[bytes], rows: int) -> Iterator[Records]:
    """Read one record per line, or one response with its rows per line."""
    buffered: list[Any] = []
    numbers: list[int] = []
    notices: dict[str, None] = {}  # without duplicates
    has_rows = False
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            line = _as_json(line)
            check_json(line, {})
        except NotJson as problem:
            records = RecordList([f"no record: {problem}"])
        else:
            records = records_of(msgspec.json.decode(line), is_line=True)
        notices.update(dict.fromkeys(records.notices))
        buffered += records.rows
        numbers += [number] * len(records.rows)
        if len(buffered) >= rows:
            yield _columns(buffered, numbers, tuple(notices))
            has_rows = True
            buffered = []
            numbers = []
    if buffered:
        yield _columns(buffered, numbers, tuple(notices))
    elif not has_rows and CHANGES in notices:
        raise ArchiveError("expected order book snapshots, got book updates: build snapshots from them first")


class RecordList(NamedTuple):
    """Decoded records, and facts about the body that contains them."""

    rows: list[Any]
    notices: tuple[str, ...] = ()


def records_of(body: Any, *, is_line: bool = False) -> RecordList:
    """Return the records in a body: fields next to their list become a column of each.

    If there are several lists, the longest list of records is used. An object without a list is one record.
    """
    if isinstance(body, list):
        if is_line and body and not any(map(_is_nested, body)):
            return RecordList([body])  # one row of a list a line
        return RecordList(_flat(body))
    if not isinstance(body, dict):
        return RecordList([body])
    if is_line and is_reply(body):
        return RecordList([])
    return _records_of_object(unwrapped(body))


def _records_of_object(body: dict[str, Any]) -> RecordList:
    """Return the records in an object that is a response or a message."""
    levels = _rows_of_cryptofeed(body)
    if levels is None:
        levels = book_rows(body)
    if levels == []:
        return RecordList([], (CHANGES,))
    if levels is None:
        levels = _book(body)
    if levels is not None:
        return RecordList(levels)
    refuse_error(body)
    listed = _list_in(body, 0)
    if listed is None:
        return RecordList([_plain(body)])
    fields, rows = listed
    if len(rows) > 1 or _have_times(rows):
        fields = _fields_of_all(fields, rows)
    records = [{**fields, **row} if isinstance(row, dict) else row for row in _timed(rows, listed[0])]
    notices = [_OMITTED_COIN_MARGIN] if _has_both_margins(body) else []
    pages = [name for name in _MORE if _has_next_page(body, name)]
    notices += [f"the response states that more pages follow ({name})" for name in pages]
    return RecordList(records, tuple(notices))


def _timed(rows: list[Any], fields: dict[str, Any]) -> list[Any]:
    """Return the rows with the time stated next to their list, if their own ``timestamp`` is null.

    ccxt's ``fetch_funding_rates`` has no time of most venues (4.5, 2026).
    """
    times = [value for name, value in fields.items() if meaning_of(name) == "time" and value is not None]
    if len(times) != 1 or not _are_apart(rows):
        return rows
    if any(row.get("timestamp", "") is not None for row in rows):
        return rows
    return [{**row, "timestamp": times[0]} for row in rows]


def _is_nested(value: Any) -> bool:
    return isinstance(value, dict | list)


def _all_are(kind: type, values: Iterable[Any]) -> bool:
    return all(isinstance(value, kind) for value in values)


def _are_times(keys: Iterable[str]) -> bool:
    return all(map(_KEY_OF_TIME.fullmatch, keys))


def _scalars(body: dict[str, Any]) -> dict[str, Any]:
    """Return the fields whose values are neither lists nor objects."""
    return {name: value for name, value in body.items() if not _is_nested(value)}


def _fields_of_all(fields: dict[str, Any], rows: list[Any]) -> dict[str, Any]:
    """Return the fields next to a list that apply to each of its rows."""
    # Top-level figures of a response, such as its count, do not apply to its rows. Its time applies only to
    # rows of one time that do not have their own.
    meanings: tuple[str | None, ...] = _OF_ALL_ROWS
    if _are_apart(rows) and not _have_times(rows):
        meanings = (*_OF_ALL_ROWS, "time")
    return {name: value for name, value in fields.items() if meaning_of(name) in meanings}


def _have_times(rows: list[Any]) -> bool:
    """Return whether the first record has a time."""
    if not rows or not isinstance(rows[0], dict):
        return False
    return any(meaning_of(name) == "time" for name in rows[0])


def _are_apart(rows: list[Any]) -> bool:
    """Return whether rows may share one time, because each has a different market or venue."""
    if not _all_are(dict, rows):
        return False
    names = [name for name in rows[0] if meaning_of(name) in ("symbol", "instrument_name", "exchange")]
    if not names:
        return False
    markets = set()
    for row in rows:
        markets.add(tuple(str(row.get(name)) for name in names))
    return len(markets) == len(rows)


_OF_ALL_ROWS = (
    None, "symbol", "exchange", "interval_hours", "instrument_name", "expiry", "strike", "side",
    "underlying_price",
)  # fmt: skip
"""Meanings of fields next to a list that apply to each of its rows."""
_BOOK_SIDES = {"bids": "bid", "asks": "ask"}


def _book(body: dict[str, Any], fields: dict[str, Any] | None = None) -> list[Any] | None:
    """Return the levels of an order book, best first on each side; None for another body.

    A level is a list that begins with price and amount, or a record.
    """
    fields = {**(fields or {}), **_scalars(body)}
    levels = body.get("levels")
    if isinstance(levels, list) and len(levels) == len(_BOOK_SIDES):  # Hyperliquid's bids and asks
        body = dict(zip(_BOOK_SIDES, levels, strict=True))
    if not _all_are(list, map(body.get, _BOOK_SIDES)):
        objects = [value for value in body.values() if isinstance(value, dict)]
        if len(objects) != 1:
            return None
        return _book(objects[0], fields)
    rows: list[Any] = []
    for name, side in _BOOK_SIDES.items():
        for number, level in enumerate(body[name], 1):
            figures = _figures_of_level(level)
            if figures is None:
                return None
            rows.append({**fields, "side": side, "level": number, **figures})
    return rows


_OF_LEVELS = {"px": "price", "sz": "size", "p": "price", "s": "size"}
"""Fields of levels: Hyperliquid's, and Gate's (2026)."""


def _figures_of_level(level: Any) -> dict[Any, Any] | None:
    """Return the price, size and other fields of a level of a book; None for another value."""
    if isinstance(level, list) and len(level) >= 2:
        return {"price": level[0], "size": level[1]}
    if not isinstance(level, dict):
        return None
    return {_OF_LEVELS.get(name, name): value for name, value in level.items()}


_OF_OTHER_TABLES = frozenset({"iv", "strike", "rate", "oi_coins", "mark", "last"})
"""Meanings of fields next to the bids and asks of a ticker, whose rows are not books."""


def _book_in_list(row: dict[str, Any]) -> list[Any] | None:
    """Return the levels of a record that is an order book; None for another record."""
    if not _BOOK_SIDES.keys() <= row.keys():
        return None
    if any(meaning_of(name) in _OF_OTHER_TABLES for name in row):
        return None
    return _book(row)


_MESSAGES_OF_ERRORS = ("msg", "message", "error", "err", "ret_msg")
_CODES_OF_ERRORS = frozenset({"code", "error", "retCode", "status", "success"})


def refuse_error(body: dict[str, Any]) -> None:
    """Raise for an error response, which has only a code and a message."""
    messages = [str(body[name]) for name in _MESSAGES_OF_ERRORS if body.get(name)]
    if not messages or len(body) > 5 or not _CODES_OF_ERRORS & body.keys():
        return
    for value in body.values():
        has_data = isinstance(value, list) or (isinstance(value, dict) and len(value) > 3)
        if has_data:
            return
    if body.get("data") or body.get("result") or messages[0].lower() in ("success", "ok"):
        return
    raise ArchiveError(
        f"expected data, got an error response of a service ({messages[0][:120]!r}); request the data again"
    )


def _has_next_page(body: dict[str, Any], name: str) -> bool:
    """Return whether a field of a response, or of its result, points to a further page."""
    value = body.get(name)
    if value is None and isinstance(body.get("result"), dict):
        value = body["result"].get(name)
    # The last page has an empty cursor, "0" or "LTE=", which is "-1" in base64.
    return bool(value) and value not in ("0", "LTE=")


def _list_in(body: dict[str, Any], depth: int) -> tuple[dict[str, Any], list[Any]] | None:
    """Return the records below an object with the plain fields next to them; None without records."""
    if depth > _DEPTH or not body:
        return None
    rows = _with_names(body)
    if rows is None:
        rows = _of_lists(body)
    if rows is not None:
        return {}, rows
    fields = _scalars(body)
    if not fields or _is_of_values_by_time(body):
        rows = _by_key(body)
        if rows is not None:
            return {}, rows
    lists = [value for value in body.values() if _is_of_records(value)]
    if lists:
        return fields, _flat(max(lists, key=len))
    if [] in body.values():
        return fields, []
    return _below(body, fields, depth)


def _with_names(body: dict[str, Any]) -> list[Any] | None:
    """Return the rows of an object with the names of columns, and rows as lists; None for another object."""
    rows = next((body[name] for name in _ROWS if isinstance(body.get(name), list)), None)
    if rows is None:
        return None
    for header in _HEADERS:
        names = _names_in(body.get(header))
        if names is None:
            continue
        if all(isinstance(row, list) and len(row) == len(names) for row in rows):
            index = _index_of(body, len(rows))
            if index is not None and "index" not in names:
                names = ["index", *names]
                rows = [[key, *row] for key, row in zip(index, rows, strict=True)]
            return [dict(zip(names, row, strict=True)) for row in rows]
    return None


def _of_lists(body: dict[str, Any]) -> list[Any] | None:
    """Return the rows of an object with a list of times and number lists of the same length; None for others.

    Deribit's get_tradingview_chart_data has ``ticks``, ``open``, ``high`` and others next to a status.
    CoinGlass's charts have ``time_list``, ``price_list``, and ``data_map`` with a list for each venue (2026).
    """
    name = next((name for name in _NAMES_OF_TIMES if isinstance(body.get(name), list)), None)
    if name is None or not body[name] or not _are_times(map(str, body[name])):
        return None
    size = len(body[name])
    others = {key: value for key, value in body.items() if key != name}
    lists = {key: cells for key, cells in others.items() if _is_of_cells(cells, size)}
    maps = [value for value in others.values() if isinstance(value, dict)]
    if len(maps) == 1 and _is_of_lists(maps[0], size):
        key = _name_of_keys(maps[0])
        rows: list[Any] = []
        for word, cells in maps[0].items():
            rows += [
                {key: word, "time": time, "value": cell} for time, cell in zip(body[name], cells, strict=True)
            ]
        return rows
    if not lists or len(lists) + len(_scalars(others)) != len(others):
        return None
    names = ["time", *lists]
    return [dict(zip(names, row, strict=True)) for row in zip(body[name], *lists.values(), strict=True)]


_NAMES_OF_TIMES = ("ticks", "time_list")


def _is_of_cells(value: Any, size: int) -> bool:
    return isinstance(value, list) and len(value) == size and not any(map(_is_nested, value))


def _is_of_lists(body: dict[str, Any], size: int) -> bool:
    """Return whether an object has lists of a size by venue or symbol."""
    if not body or _name_of_keys(body) not in ("exchange", "symbol"):
        return False
    return all(_is_of_cells(cells, size) for cells in body.values())


def _names_in(header: Any) -> list[str] | None:
    """Return the names of columns that are listed as texts or as objects with a name; None for others."""
    if not isinstance(header, list) or not header:
        return None
    names: list[str] = []
    for column in header:
        name = column.get("name") if isinstance(column, dict) else column
        if not isinstance(name, str):
            return None
        names.append(name)
    return names


def _index_of(body: dict[str, Any], size: int) -> list[Any] | None:
    """Return the index in pandas' orientation "split"; None if missing, or if it only numbers rows."""
    index = body.get("index")
    if not isinstance(index, list) or len(index) != size:
        return None
    if index in ([*range(size)], [None] * size):
        return None
    return index


def _by_key(body: dict[str, Any]) -> list[Any] | None:
    """Return the rows of an object of records or record lists by symbol, or of one list per column."""
    if len(body) > 1 and _is_of_columns(body):
        return _transposed(body)
    if _is_of_values_by_time(body):
        return [{"time": key, "value": value} for key, value in body.items()]
    nested = _nested_series(body)
    if nested is not None or len(body) < 2:
        return nested
    values = [*body.values()]
    if _all_are(dict, values) and _have_common_fields(values):
        name = _name_of_keys(body)
        return [{name: key, **_plain(value)} for key, value in body.items()]
    if not _all_are(list, values):
        return None
    if all(not items or _is_of_records(items) for items in values):
        return _with_keys(body)
    lengths = set(map(len, values))
    if len(lengths) == 1:
        return [dict(zip(body, row, strict=True)) for row in zip(*values, strict=True)]
    return None


def _with_keys(body: dict[str, Any]) -> list[Any]:
    """Return the rows of an object of lists, each with the key of its list."""
    name = _name_of_keys(body)
    rows: list[Any] = []
    for key, items in body.items():
        rows += [_with_key(name, key, item) for item in _flat(items)]
    return rows


def _with_key(name: str, key: str, row: Any) -> Any:
    """Return a row of the list below a key, with the key; a time and a value have these names."""
    if isinstance(row, dict):
        return {name: key, **row}
    if len(row) == _TIME_AND_VALUE and _KEY_OF_TIME.fullmatch(str(row[0])):
        return {name: key, "time": row[0], "value": row[1]}
    return [key, *row]


_TIME_AND_VALUE = 2


def _nested_series(body: dict[str, Any]) -> list[Any] | None:
    """Return the rows of ``{"BTC": {"binance": [[time, value], ...]}}`` or its converse; None for others."""
    objects = [*body.values()]
    if not _all_are(dict, objects) or not all(objects):
        return None
    name = _name_of_keys(body)
    names_below = set(map(_name_of_keys, objects))
    if len(names_below) != 1 or {name, *names_below} != {"symbol", "exchange"}:
        return None
    rows = []
    for key, lists_by_key in body.items():
        for items in lists_by_key.values():
            if not _is_of_records(items) and items != []:
                return None
        for row in _with_keys(lists_by_key):
            if not isinstance(row, dict):
                return None
            rows.append({name: key, **row})
    return rows


def _is_of_values_by_time(body: dict[str, Any]) -> bool:
    """Return whether an object has a value for each time, ``{"1772323200000": 0.0001, ...}``."""
    return len(body) > 1 and not any(map(_is_nested, body.values())) and _are_times(body)


def _is_of_columns(body: dict[str, Any]) -> bool:
    """Return whether an object has columns by name, each with its cells by index, as pandas writes frames."""
    columns = [*body.values()]
    if not _all_are(dict, columns) or not all(columns):
        return False
    index = columns[0].keys()
    for column in columns:
        if column.keys() != index:
            return False
    for key in index:
        if not (key.isdigit() or _KEY_OF_TIME.fullmatch(key)):
            return False
    return not _are_times(body)


def _transposed(body: dict[str, Any]) -> list[Any]:
    """Return the rows of columns by name; an index of times is a column."""
    index = next(iter(body.values()))
    has_times = _are_times(index)
    rows: list[Any] = []
    for key in index:
        row = {name: cells[key] for name, cells in body.items()}
        if has_times:
            row = {"index": key, **row}
        rows.append(row)
    return rows


def _name_of_keys(body: dict[str, Any]) -> str:
    """Return the column name for an object's keys, by their common kind."""
    if _are_times(body):
        return "time"
    # CoinGlass lists CME among the venues of perpetuals.
    if all(venue_of_word(key) in KNOWN_VENUES or key.upper() == "CME" for key in body):
        return "exchange"
    if all(market_of(key).kind in _KINDS_OF_MARKETS for key in body):
        return "symbol"
    return BY_KEY


_KINDS_OF_MARKETS = ("perpetual", "symbol", "option", "future")


def _below(
    body: dict[str, Any], fields: dict[str, Any], depth: int
) -> tuple[dict[str, Any], list[Any]] | None:
    """Return the records of a nested object; at the top level, an object next to a status is one record."""
    objects = [value for value in body.values() if isinstance(value, dict) and value]
    for inner in objects:
        listed = _list_in(inner, depth + 1)
        if listed is not None:
            inner_fields, rows = listed
            return {**fields, **inner_fields}, rows
    if objects and depth == 0 and len(body) <= 4 and fields.keys() <= _STATUS:
        return {}, [_plain(objects[0])]
    return None


_STATUS = frozenset(
    "code msg message retCode retMsg success status jsonrpc id usIn usOut usDiff testnet time".split()
)
"""Fields of a response about its status, not its rows."""


def _have_common_fields(records: Sequence[dict[str, Any]]) -> bool:
    """Return whether objects are records of one kind, that is, all have half of the first one's fields."""
    first = records[0].keys()
    shared = {*first}.intersection(*records)
    return len(first) > 1 and 2 * len(shared) >= len(first)


def _is_of_records(value: Any) -> bool:
    """Return whether a value is a list of objects or lists, by its first items."""
    return isinstance(value, list) and bool(value) and all(map(_is_nested, value[:10]))


def _flat(rows: Sequence[Any]) -> list[Any]:
    """Return rows with nested fields next to their own, ``greeks.delta``.

    A record with one list of records, such as a symbol with its history, becomes one row per list item.
    """
    result: list[Any] = []
    for row in rows:
        if isinstance(row, dict):
            result += _rows_of(row)
        elif isinstance(row, list) and len(row) == 1 and isinstance(row[0], list):
            result.append(row[0])  # Bitfinex has a list around each of its liquidations
        else:
            result.append(row)
    return result


def _rows_of(record: dict[str, Any]) -> list[Any]:
    """Return the rows of a record: levels of a book, items of its history, or itself."""
    levels = _book_in_list(record)
    if levels is not None:
        return levels
    by_market = _by_market(record)
    if by_market is not None:
        return by_market
    history = _history(record)
    if history is None:
        return _of_series(record)
    fields = _plain({name: value for name, value in record.items() if value is not history})
    rows: list[Any] = []
    for item in history:
        rows += [{**fields, **row} for row in _of_series(item)]
    return rows


def _of_series(record: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the rows of a series of InfluxDB or Prometheus, whose words are tags; else one row."""
    if record.keys() == {"metric", "values"}:  # of query_range, Prometheus 3
        labels = dict(record["metric"])
        name = labels.pop("__name__", "value")
        return [{**labels, "time": time, name: value} for time, value in record["values"]]
    series = _with_names(record)
    if series is None:
        return [_plain(record)]
    tags = record.get("tags")
    if not isinstance(tags, dict):
        return series
    return [{**tags, **row} for row in series]


def _by_market(record: dict[str, Any]) -> list[Any] | None:
    """Return a row for each market of a poll whose figures are objects by market; None for another record.

    ``{"timestamp": "...", "rates": {"BTCUSDT": "0.0001", ...}, "next_funding": {"BTCUSDT": 1776067200000}}``
    """
    maps = {_SINGULAR.get(name, name): value for name, value in record.items() if isinstance(value, dict)}
    if not maps or len(maps) + len(_scalars(record)) != len(record) or not _have_times([record]):
        return None
    markets: dict[str, None] = {}
    for cells in maps.values():
        if any(map(_is_nested, cells.values())):
            return None
        markets.update(dict.fromkeys(cells))
    for market in markets:
        # ``volume_usd`` would be a market by its pattern.
        if market != market.upper() or market_of(market).kind != "perpetual":
            return None
    fields = _scalars(record)
    if not markets or any(meaning_of(name) == "symbol" for name in fields):
        return None
    return [
        {**fields, "symbol": market, **{name: cells.get(market) for name, cells in maps.items()}}
        for market in markets
    ]


_SINGULAR = {"rates": "rate", "funding_rates": "funding_rate", "prices": "price"}
"""Names of the figures of one market, by those of objects with a figure for each market."""


_OF_STABLECOINS = "stablecoin_margin_list"
"""Rates of contracts in USDT of CoinGlass's funding-rate/exchange-list (API v4, 2026).

They come before those of coin-margined contracts (``token_margin_list``), as elsewhere.
"""
_OF_COIN_MARGIN = "token_margin_list"
_OMITTED_COIN_MARGIN = (
    f"rates of coin-margined contracts ({_OF_COIN_MARGIN}) are omitted, as a table has one rate for a symbol "
    f"and a venue: those of {_OF_STABLECOINS} are read"
)


def _has_both_margins(body: dict[str, Any]) -> bool:
    """Return whether a record in a body has rates of contracts in USDT and of coin-margined ones."""
    for value in body.values():
        if isinstance(value, dict) and _has_both_margins(value):
            return True
        if not isinstance(value, list):
            continue
        for record in value:
            if isinstance(record, dict) and record.get(_OF_STABLECOINS) and record.get(_OF_COIN_MARGIN):
                return True
    return False


def _history(record: dict[str, Any]) -> list[dict[str, Any]] | None:
    """Return the only list of records in a record; None without one or with several."""
    if _OF_STABLECOINS in record:
        return record[_OF_STABLECOINS] or None
    lists = [value for value in record.values() if isinstance(value, list) and value]
    if len(lists) != 1 or not _all_are(dict, lists[0]):
        return None
    return lists[0]


def _plain(record: dict[str, Any], depth: int = 0) -> dict[str, Any]:
    """Return a record with the fields of nested objects, ``data.ctx.funding``; lists are missing."""
    if not any(map(_is_nested, record.values())):
        return record
    plain: dict[str, Any] = {}
    for name, value in record.items():
        if not _is_nested(value):
            plain[name] = value
        elif isinstance(value, list) or name == "info" or depth == _DEPTH:
            # ccxt repeats the venue's record in "info".
            plain.setdefault(name, None)
        elif len(value) == 1 and next(iter(value)).startswith("$"):
            plain[name] = _of_mongo(value)
        else:
            without_lists = {key: cell for key, cell in value.items() if not isinstance(cell, list)}
            for key, cell in _plain(without_lists, depth + 1).items():
                plain[f"{name}.{key}"] = cell
    return plain


def _of_mongo(value: Any) -> Any:
    """Return the value of an object such as ``{"$date": "2026-03-01T00:00:00Z"}``, in MongoDB's format."""
    while isinstance(value, dict) and len(value) == 1:
        value = next(iter(value.values()))
    return None if _is_nested(value) else value


def _columns(rows: Sequence[Any], numbers: Sequence[int], notices: tuple[str, ...]) -> Records:
    """Return records as Arrow columns; a list is a record whose fields are named by position."""
    records: list[dict[str, Any]] = []
    numbered: list[int] = []
    broken: list[tuple[int, str]] = []
    for number, row in zip(numbers, rows, strict=True):
        if isinstance(row, list):
            row = {str(place): value for place, value in enumerate(row)}
        if isinstance(row, dict):
            records.append(row)
            numbered.append(number)
        elif isinstance(row, str):
            broken.append((number, row))  # the reason why a line is not a record
        else:
            broken.append((number, f"expected a record, got {type(row).__name__}"))
    names = dict.fromkeys(itertools.chain.from_iterable(records))
    columns = {name: _column([record.get(name) for record in records]) for name in names}
    return Records(columns, numbered, broken, notices)


def _column(values: list[Any]) -> pa.ChunkedArray:
    """Return values as Arrow; values of several kinds as their JSON text."""
    try:
        array = pa.array(values)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
        array = pa.array(list(map(_as_text, values)))
    if pa.types.is_null(array.type):
        array = array.cast(pa.string())
    return pa.chunked_array([array])


def _as_text(value: Any) -> str | None:
    """Return a value as JSON; texts and missing values unchanged."""
    if value is None or isinstance(value, str):
        return value
    return json.dumps(value)


CHANGES = "book updates are omitted: only the snapshots in the file are read"
"""Notice for a file with order book snapshots and updates."""

_FIELDS_OF_REPLIES = ("event", "op", "method", "ret_msg", "type", "result", "id")
"""Fields of replies to subscriptions, which have no rows; at least one is in each."""
_SUBSCRIPTIONS = (
    "subscribe", "subscribed", "SUBSCRIBE", "subscriptionResponse", "ping", "pong", "login", "auth"
)  # fmt: skip
"""Words of replies to requests: Hyperliquid's (2026) is ``{"channel": "subscriptionResponse", ...}``."""
_MAX_OF_REPLIES = 6
"""Number of fields of the largest reply without rows."""
_OF_RPC = frozenset({"jsonrpc", "id", "result", "usIn", "usOut", "usDiff", "testnet"})
"""Fields of a reply by JSON-RPC (Deribit API v2, 2026), whose result is the list of channels."""


def is_reply(message: dict[str, Any]) -> bool:
    """Return whether a message is the reply to a request, such as a subscription."""
    word = message.get("op", message.get("event", message.get("method", message.get("channel"))))
    if word in _SUBSCRIPTIONS:
        return True
    if {"jsonrpc", "result"} <= message.keys() <= _OF_RPC:
        channels = message["result"]
        return channels == [] or (
            isinstance(channels, list) and all(isinstance(channel, str) for channel in channels)
        )
    has_rows = any(isinstance(value, list | dict) and value for value in message.values())
    has_field = any(field in message for field in _FIELDS_OF_REPLIES)
    others = message.keys() - {*_FIELDS_OF_REPLIES}
    # A record may have an id, a type or an event next to its figures.
    is_record = any(meaning_of(field) not in (None, "time") for field in others)
    return has_field and not has_rows and not is_record and len(message) <= _MAX_OF_REPLIES


def unwrapped(message: dict[str, Any]) -> dict[str, Any]:
    """Return the content of a notification with its channel; other messages unchanged.

    Deribit API v2, 2026: ``{"jsonrpc": "2.0", "method": "subscription", "params": {"channel": "ticker...",
    "data": {...}}}``. Gate API v4, 2026: ``{"time": ..., "channel": "futures.contract_stats", "result":
    {"time": ...}}``, where the outer time is that of the message, and not of the row.
    """
    result = message.get("result")
    if isinstance(result, dict) and "channel" in message and _have_times([result]):
        return {"channel": message["channel"], **result}
    params = message.get("params")
    if message.get("method") != "subscription" or not isinstance(params, dict):
        return message
    content = params.get("data")
    if not isinstance(content, dict) or "channel" not in params:
        return message
    return {"channel": params["channel"], **content}


_WHOLE = frozenset({"snapshot", "partial"})
_CHANGED = frozenset({"delta", "update", "change"})
_SIDES = (("bid", ("bids", "b")), ("ask", ("asks", "a")))
_NAME_OF_BOOK = re.compile(r"(orderbook|book|depth|l2)", re.IGNORECASE)
_PARTIAL_BOOK = re.compile(r"\w+@depth(5|10|20)(@\d+ms)?")
"""Binance's streams of the best levels, whose messages have the fields of those of changes (2026)."""
_SYMBOLS = ("s", "symbol", "instId", "instrument_name")
_TIMES = ("ts", "timestamp", "T", "E")


def book_rows(message: dict[str, Any]) -> list[dict[str, Any]] | None:
    """Return the levels of an order book snapshot, empty for a book update; None for other messages.

    Bybit (v5, ``orderbook.50.BTCUSDT``), Binance (``btcusdt@depth20``) and Deribit (``book.BTC-PERPETUAL``)
    send whole books and changes with the same fields. A word, or the name of the stream, distinguishes them.
    """
    content = message.get("data", message)
    if isinstance(content, list) and len(content) == 1:
        content = content[0]
    if not isinstance(content, dict):
        return None
    sides = {side: _first(content, names) for side, names in _SIDES}
    if not all(isinstance(levels, list) for levels in sides.values()):
        return None
    kind = _kind_of_book(message, content)
    if kind == "changes":
        return []
    if kind != "whole":
        return None
    symbol = _first(content, _SYMBOLS) or _first(_argument(message), _SYMBOLS)
    time = _first(content, _TIMES) or _first(message, _TIMES)
    rows = []
    for side, levels in sides.items():
        for number, level in enumerate(levels, 1):
            price, size = _price_and_size(level)
            rows.append(
                {
                    "symbol": symbol,
                    "time": time,
                    "side": side,
                    "level": number,
                    "price": price,
                    "size": size,
                }
            )
    return rows


def _rows_of_cryptofeed(message: dict[str, Any]) -> list[dict[str, Any]] | None:
    """Return the levels of a book of cryptofeed, none for changes; None for another message.

    `OrderBook.to_dict` has sizes by price in ``book``, or changes in ``delta`` (cryptofeed at ce58c2a0).
    """
    if not {"exchange", "symbol", "timestamp"} <= message.keys():
        return None
    book = message.get("book")
    if not isinstance(book, dict):
        return [] if isinstance(message.get("delta"), dict) else None
    if book.keys() != {"bid", "ask"} or not _all_are(dict, book.values()):
        return None
    fields = _scalars(message)
    rows: list[dict[str, Any]] = []
    for side, sizes in book.items():
        prices = sorted(sizes, key=float, reverse=side == "bid")
        for number, price in enumerate(prices, 1):
            rows.append({**fields, "side": side, "level": number, "price": price, "size": sizes[price]})
    return rows


def _kind_of_book(message: dict[str, Any], content: dict[str, Any]) -> str:
    """Return ``whole`` or ``changes`` for an order book message; empty for another message."""
    stream = str(message.get("stream", ""))
    if content.get("e") == "depthUpdate":
        return "whole" if _PARTIAL_BOOK.fullmatch(stream) else "changes"
    words = {message.get("type"), message.get("action"), content.get("type"), content.get("action")}
    name = message.get("topic") or message.get("channel") or _argument(message).get("channel") or ""
    if not _NAME_OF_BOOK.search(str(name)):
        return ""
    if words & _WHOLE:
        return "whole"
    return "changes" if words & _CHANGED else ""


def _argument(message: dict[str, Any]) -> dict[str, Any]:
    """Return the argument of a subscription that OKX repeats in each message."""
    argument = message.get("arg")
    return argument if isinstance(argument, dict) else {}


def _first(fields: dict[str, Any], names: tuple[str, ...]) -> Any:
    """Return the value of the first of some names that an object has; None without one."""
    return next((fields[name] for name in names if name in fields), None)


def _price_and_size(level: Any) -> tuple[Any, Any]:
    """Return the price and the size of a level; Deribit's begin with ``new``."""
    if not isinstance(level, list) or len(level) < 2:
        return None, None
    is_of_deribit = level[0] == "new" and len(level) == 3
    price, size = level[1:3] if is_of_deribit else level[:2]
    return price, size
