"""Read JSON as columns: records in a list, one to a line, or inside the response of a service."""

from __future__ import annotations

import ast
import itertools
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import IO, Any

import msgspec
import pyarrow as pa

from derivdata.client.transport.body import NotJson, check_json
from derivdata.errors import ArchiveError
from derivdata.sources.archive.importing.market_names import market_of, meaning_of
from derivdata.sources.archive.importing.messages import CHANGES, book_rows, is_reply, unwrapped
from derivdata.tables.contracts import VENUES, venue_slug

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
    """Yield the records of a file some at a time."""
    first = _as_json(stream.readline().removeprefix(b"\xef\xbb\xbf"))
    while first and not first.strip():
        first = stream.readline()
    second = stream.readline()
    while second and not second.strip():
        second = stream.readline()
    if second and _is_whole(first):
        lines = itertools.chain([first, second], stream)
        yield from _lines(lines, rows)
        return
    text = _as_json(first + second + stream.read())
    check_json(text, {})
    records = records_of(msgspec.json.decode(text))
    numbers = range(1, len(records.rows) + 1)
    yield from _in_chunks(records, numbers, rows)


_PYTHON = re.compile(rb"\s*[\[({]*\s*\{\s*'")
"""Beginnings of dictionaries as Python prints them."""


def _as_json(text: bytes) -> bytes:
    """Return dictionaries and lists as Python prints them as JSON; other text unchanged."""
    if _PYTHON.match(text) is None:
        return text
    try:
        return json.dumps(ast.literal_eval(text.decode())).encode()
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return text


def _is_whole(line: bytes) -> bool:
    try:
        msgspec.json.decode(line)
    except msgspec.DecodeError:
        return False
    return True


def _lines(lines: Iterator[bytes], rows: int) -> Iterator[Records]:
    """Read one record per line, or one response with its rows per line."""
    waiting: list[Any] = []
    numbers: list[int] = []
    notices: tuple[str, ...] = ()
    has_rows = False
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            line = _as_json(line)
            check_json(line, {})
        except NotJson as problem:
            new: list[Any] = [f"no record: {problem}"]
        else:
            body = msgspec.json.decode(line)
            records = records_of(body, is_line=True)
            new = records.rows
            notices = tuple(dict.fromkeys([*notices, *records.notices]))
        waiting += new
        numbers += [number] * len(new)
        if len(waiting) >= rows:
            yield _columns(waiting, numbers, notices)
            has_rows = True
            waiting = []
            numbers = []
    if waiting:
        yield _columns(waiting, numbers, notices)
    elif not has_rows and CHANGES in notices:
        raise ArchiveError(
            "its messages are changes of a book, and not whole books: make snapshots of them first"
        )


class _Found:
    def __init__(self, rows: list[Any], notices: Sequence[str] = ()) -> None:
        self.rows = rows
        self.notices = tuple(notices)


def records_of(body: Any, *, is_line: bool = False) -> _Found:
    """Return the records in a body: fields next to their list become a column of each.

    Of several lists the longest list of records counts. An object without a list is one record.
    """
    if isinstance(body, list):
        if is_line and body and not any(isinstance(row, dict | list) for row in body):
            return _Found([body])  # one row of a list a line
        return _Found(_flat(body))
    if not isinstance(body, dict):
        return _Found([body])
    if is_line and is_reply(body):
        return _Found([])
    return _records_of_object(unwrapped(body))


def _records_of_object(body: dict[str, Any]) -> _Found:
    """Return the records in an object that is a response or a message."""
    levels = book_rows(body)
    if levels is not None:
        return _Found(levels, () if levels else (CHANGES,))
    book = _book(body)
    if book is not None:
        return _Found(book)
    refuse_error(body)
    place = _list_in(body, 0)
    if place is None:
        return _Found([_plain(body)])
    fields, rows = place
    if len(rows) > 1 or _have_times(rows):
        # The top-level values of a response, and its time if rows have their own, do not apply to its rows.
        shared = (*_OF_ALL_ROWS, "time") if _are_apart(rows) and not _have_times(rows) else _OF_ALL_ROWS
        fields = {name: value for name, value in fields.items() if meaning_of(name) in shared}
    notices = [f"the answer says that more pages follow ({name})" for name in _MORE if _says_more(body, name)]
    return _Found([{**fields, **row} if isinstance(row, dict) else row for row in rows], notices)


def _have_times(rows: list[Any]) -> bool:
    return bool(rows) and isinstance(rows[0], dict) and any(meaning_of(name) == "time" for name in rows[0])


def _are_apart(rows: list[Any]) -> bool:
    """Return whether rows may be of one time, because each has another market or venue."""
    if not all(isinstance(row, dict) for row in rows):
        return False
    names = [name for name in rows[0] if meaning_of(name) in ("symbol", "instrument_name", "exchange")]
    return bool(names) and len({tuple(str(row.get(name)) for name in names) for row in rows}) == len(rows)


_OF_ALL_ROWS = (
    None, "symbol", "exchange", "interval_hours", "instrument_name", "expiry", "strike", "side",
    "underlying_price",
)  # fmt: skip
"""Meanings of fields next to a list that apply to each of its rows."""
_BOOK_SIDES = (("bids", "bid"), ("asks", "ask"))


def _book(body: dict[str, Any], fields: dict[str, Any] | None = None) -> list[Any] | None:
    """Return the levels of an order book, best first on each side; None for another body.

    A level is a list that begins with price and amount, or a record.
    """
    plain = {name: value for name, value in body.items() if not isinstance(value, dict | list)}
    fields = {**(fields or {}), **plain}
    levels = body.get("levels")
    if isinstance(levels, list) and len(levels) == len(_BOOK_SIDES):  # Hyperliquid's bids and asks
        body = {name: side for (name, _), side in zip(_BOOK_SIDES, levels, strict=True)}
    if not all(isinstance(body.get(name), list) for name, _ in _BOOK_SIDES):
        inner = [value for value in body.values() if isinstance(value, dict)]
        return _book(inner[0], fields) if len(inner) == 1 else None
    rows: list[Any] = []
    for name, side in _BOOK_SIDES:
        for number, level in enumerate(body[name], 1):
            if isinstance(level, list) and len(level) >= 2:
                level = {"price": level[0], "size": level[1]}
            if not isinstance(level, dict):
                return None
            renamed = {_OF_LEVELS.get(field, field): value for field, value in level.items()}
            rows.append({**fields, "side": side, "level": number, **renamed})
    return rows


_OF_LEVELS = {"px": "price", "sz": "size"}


_OF_OTHER_TABLES = frozenset({"iv", "strike", "rate", "oi_coins", "mark", "last"})
"""Meanings of fields next to the bids and asks of a ticker, whose rows are not books."""


def _book_in_list(row: dict[str, Any]) -> list[Any] | None:
    """Return the levels of a record that is an order book; None for another record."""
    names = {name for name, _ in _BOOK_SIDES}
    if not names <= row.keys() or any(meaning_of(name) in _OF_OTHER_TABLES for name in row):
        return None
    return _book(row)


def refuse_error(body: dict[str, Any]) -> None:
    """Raise for a response that is an error: it has a code and a message, and nothing else."""
    message = next(
        (body[name] for name in ("msg", "message", "error", "err", "ret_msg") if body.get(name)), None
    )
    is_plain = not any(
        isinstance(value, list) or (isinstance(value, dict) and len(value) > 3) for value in body.values()
    )
    if (
        message is not None
        and is_plain
        and {"code", "error", "retCode", "status", "success"} & body.keys()
        and len(body) <= 5
    ):
        data = body.get("data") or body.get("result")
        if not data and str(message).lower() not in ("success", "ok"):
            raise ArchiveError(f"it is an error response of a service: {str(message)[:120]}")


def _says_more(body: dict[str, Any], name: str) -> bool:
    value = body.get(name)
    if value is None and isinstance(body.get("result"), dict):
        value = body["result"].get(name)
    return bool(value) and value not in ("0", "LTE=")


def _list_in(body: dict[str, Any], depth: int) -> tuple[dict[str, Any], list[Any]] | None:
    """Return the records below an object with the plain fields next to them; None without records."""
    if depth > _DEPTH or not body:
        return None
    rows = _with_names(body)
    if rows is not None:
        return {}, rows
    fields = {name: value for name, value in body.items() if not isinstance(value, dict | list)}
    if not fields or _is_of_values_by_time(body):
        by_key = _by_key(body)
        if by_key is not None:
            return {}, by_key
    lists = [value for value in body.values() if _is_of_records(value)]
    if lists:
        return fields, _flat(max(lists, key=len))
    if any(value == [] for value in body.values()):
        return fields, []
    return _below(body, fields, depth)


def _with_names(body: dict[str, Any]) -> list[Any] | None:
    """Return the rows of an object with the names of columns, and rows as lists; None for another object."""
    for header in _HEADERS:
        listed = body.get(header)
        if not isinstance(listed, list) or not listed:
            continue
        names = [column.get("name") if isinstance(column, dict) else column for column in listed]
        rows = next((body[name] for name in _ROWS if isinstance(body.get(name), list)), None)
        if rows is None or not all(isinstance(name, str) for name in names):
            continue
        if all(isinstance(row, list) and len(row) == len(names) for row in rows):
            index = body.get("index")  # of pandas' orientation "split"
            keys = index if isinstance(index, list) and len(index) == len(rows) else [None] * len(rows)
            has_keys = keys != [*range(len(rows))] and keys != [None] * len(rows)
            records = [dict(zip(names, row, strict=True)) for row in rows]
            if has_keys and "index" not in names:
                return [{"index": key, **record} for key, record in zip(keys, records, strict=True)]
            return records
    return None


def _by_key(body: dict[str, Any]) -> list[Any] | None:
    """Return the rows of an object of records, or lists of records, by symbol, or of one list a column."""
    values = [*body.values()]
    if len(body) > 1 and _is_of_columns(body):
        return _transposed(body)
    if _is_of_values_by_time(body):
        return [{"time": key, "value": value} for key, value in body.items()]
    nested = _nested_series(body)
    if nested is not None:
        return nested
    if len(body) > 1 and all(isinstance(v, dict) for v in values) and _alike(values):
        name = _name_of_keys(body)
        return [{name: key, **_plain(value)} for key, value in body.items()]
    if not all(isinstance(v, list) for v in values):
        return None
    if len(body) > 1 and all(_is_of_records(v) or not v for v in values):
        name = _name_of_keys(body)
        return [
            {name: key, **row} if isinstance(row, dict) else _of_key(name, key, row)
            for key, rows in body.items()
            for row in _flat(rows)
        ]
    if len({len(v) for v in values}) == 1 and len(values) > 1:
        return [dict(zip(body, row, strict=True)) for row in zip(*values, strict=True)]
    return None


def _of_key(name: str, key: str, row: list[Any]) -> Any:
    """Return a row of the list below a key: a time and a value have these names."""
    if len(row) == _TIME_AND_VALUE and _KEY_OF_TIME.fullmatch(str(row[0])):
        return {name: key, "time": row[0], "value": row[1]}
    return [key, *row]


_TIME_AND_VALUE = 2


def _nested_series(body: dict[str, Any]) -> list[Any] | None:
    """Return the rows of ``{"BTC": {"binance": [[time, value], ...]}}`` or its converse; None for others."""
    names = {_name_of_keys(body)}
    inner = [*body.values()]
    if not names <= {"symbol", "exchange"} or not all(isinstance(value, dict) and value for value in inner):
        return None
    names_below = {_name_of_keys(value) for value in inner}
    if {*names, *names_below} != {"symbol", "exchange"} or len(names_below) != 1:
        return None
    [name] = names
    [name_below] = names_below
    rows = []
    for key, by_key in body.items():
        for key_below, series in by_key.items():
            if not _is_of_records(series) and series != []:
                return None
            for row in _flat(series):
                record = row if isinstance(row, dict) else _of_key(name_below, key_below, row)
                if not isinstance(record, dict):
                    return None
                rows.append({name: key, name_below: key_below, **record})
    return rows


def _is_of_values_by_time(body: dict[str, Any]) -> bool:
    """Return whether an object has a value for each time, ``{"1772323200000": 0.0001, ...}``."""
    are_plain = not any(isinstance(value, list | dict) for value in body.values())
    return len(body) > 1 and are_plain and all(_KEY_OF_TIME.fullmatch(key) for key in body)


def _is_of_columns(body: dict[str, Any]) -> bool:
    """Return whether an object has columns by name, each with its cells by index, as pandas writes frames."""
    if not all(isinstance(value, dict) and value for value in body.values()):
        return False
    keys = [{*value} for value in body.values()]
    are_indices = all(key.isdigit() or _KEY_OF_TIME.fullmatch(key) for key in keys[0])
    return (
        are_indices and all(other == keys[0] for other in keys) and not all(map(_KEY_OF_TIME.fullmatch, body))
    )


def _transposed(body: dict[str, Any]) -> list[Any]:
    """Return the rows of columns by name; an index of times is a column."""
    first = next(iter(body.values()))
    has_times = all(_KEY_OF_TIME.fullmatch(key) for key in first)
    rows = []
    for key in first:
        row = {name: cells[key] for name, cells in body.items()}
        rows.append({"index": key, **row} if has_times else row)
    return rows


def _name_of_keys(body: dict[str, Any]) -> str:
    """Return a name for the column of an object's keys, by their common kind."""
    if all(_KEY_OF_TIME.fullmatch(key) for key in body):
        return "time"
    if all(venue_slug(key) in VENUES for key in body):
        return "exchange"
    kinds = {market_of(key).kind for key in body}
    return "symbol" if kinds <= {"perpetual", "symbol", "option", "future"} else BY_KEY


def _below(
    body: dict[str, Any], fields: dict[str, Any], depth: int
) -> tuple[dict[str, Any], list[Any]] | None:
    """Return the records of an object in an object; at the top an object next to a status is one record."""
    inner = [value for value in body.values() if isinstance(value, dict) and value]
    for value in inner:
        rows = _list_in(value, depth + 1)
        if rows is not None:
            return {**fields, **rows[0]}, rows[1]
    if inner and depth == 0 and len(body) <= 4 and not set(fields) - _STATUS:
        return {}, [_plain(inner[0])]
    return None


_STATUS = frozenset(
    "code msg message retCode retMsg success status jsonrpc id usIn usOut usDiff testnet time".split()
)
"""Fields of a response about its status, not its rows."""


def _alike(values: Sequence[dict[str, Any]]) -> bool:
    """Return whether objects are records of one kind, with mostly common fields."""
    first = {*values[0]}
    shared = first.intersection(*values)
    return len(first) > 1 and 2 * len(shared) >= len(first)


def _is_of_records(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(row, dict | list) for row in value[:10])


def _flat(rows: Sequence[Any]) -> list[Any]:
    """Return rows with nested fields next to their own, ``greeks.delta``.

    A record with one list of records, such as a symbol with its history, becomes one row per list item.
    """
    result: list[Any] = []
    for row in rows:
        if not isinstance(row, dict):
            # Bitfinex has a list around each of its liquidations.
            has_list = isinstance(row, list) and len(row) == 1 and isinstance(row[0], list)
            result.append(row[0] if has_list else row)
            continue
        levels = _book_in_list(row)
        if levels is not None:
            result += levels
            continue
        history = _history(row)
        if history is None:
            result += _of_series(row)
            continue
        fields = _plain({name: value for name, value in row.items() if value is not history})
        result += [{**fields, **inner} for record in history for inner in _of_series(record)]
    return result


def _of_series(row: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the rows of a series of InfluxDB, whose words are tags; another record is one row."""
    series = _with_names(row)
    if series is None:
        return [_plain(row)]
    tags = row.get("tags")
    return [{**(tags if isinstance(tags, dict) else {}), **inner} for inner in series]


def _history(row: dict[str, Any]) -> list[dict[str, Any]] | None:
    """Return the only list of records in a record; None without one or with several."""
    lists = [value for value in row.values() if isinstance(value, list) and value]
    if len(lists) != 1 or not all(isinstance(inner, dict) for inner in lists[0]):
        return None
    return lists[0]


def _plain(row: dict[str, Any], depth: int = 0) -> dict[str, Any]:
    """Return a record with the fields of nested objects, ``data.ctx.funding``; lists are missing."""
    if not any(isinstance(value, dict | list) for value in row.values()):
        return row
    plain: dict[str, Any] = {}
    for name, value in row.items():
        if not isinstance(value, dict | list):
            plain[name] = value
        elif isinstance(value, list) or name == "info" or depth == _DEPTH:
            plain.setdefault(name, None)
        elif len(value) == 1 and next(iter(value)).startswith("$"):
            plain[name] = _of_mongo(value)
        else:
            without_lists = {key: cell for key, cell in value.items() if not isinstance(cell, list)}
            plain |= {f"{name}.{key}": cell for key, cell in _plain(without_lists, depth + 1).items()}
    return plain


def _of_mongo(value: Any) -> Any:
    """Return the value of an object such as ``{"$date": "2026-03-01T00:00:00Z"}``, in MongoDB's format."""
    while isinstance(value, dict) and len(value) == 1:
        value = next(iter(value.values()))
    return None if isinstance(value, dict | list) else value


def _in_chunks(found: _Found, numbers: Sequence[int], rows: int) -> Iterator[Records]:
    for start in range(0, max(len(found.rows), 1), rows):
        some = found.rows[start : start + rows]
        yield _columns(some, numbers[start : start + rows], found.notices)


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
        else:
            broken.append((number, row if isinstance(row, str) else f"not a record but {type(row).__name__}"))
    names = dict.fromkeys(name for row in records for name in row)
    columns = {name: _column([row.get(name) for row in records]) for name in names}
    return Records(columns, numbered, broken, notices)


def _column(values: list[Any]) -> pa.ChunkedArray:
    """Return values as Arrow; values of several kinds as their JSON text."""
    try:
        array = pa.array(values)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
        array = pa.array([None if v is None else v if isinstance(v, str) else json.dumps(v) for v in values])
    if pa.types.is_null(array.type):
        array = array.cast(pa.string())
    return pa.chunked_array([array])
