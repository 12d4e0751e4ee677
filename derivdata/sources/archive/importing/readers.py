"""Read files as Arrow columns in chunks, with the rows that could not be split into columns.

Parquet files of NautilusTrader's catalogs: fixed-point numbers, and the instrument in the metadata.
"""

from __future__ import annotations

import csv
import io
import lzma
import re
import tarfile
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import IO, Any, NamedTuple, TypeAlias

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet as pq

from derivdata.client.transport.body import NotJson
from derivdata.errors import ArchiveError
from derivdata.sources.archive.importing.json_bodies import Records, json_records
from derivdata.sources.archive.importing.market_names import (
    KNOWN_VENUES,
    market_of,
    meaning_of,
    venue_of_word,
)
from derivdata.sources.archive.importing.source_files import Source, opened
from derivdata.sources.archive.importing.wide_tables import joined_header, reshaped, with_whole_times
from derivdata.support.arrays import Array
from derivdata.support.files import original_cell, original_cells

_SCALES = {8: 1e9, 16: 1e16}
"""Units of a number by its bytes (nautilus_trader 1.221.0: standard and high precision)."""
_SIZES = ("volume", "size")


def _of_catalog(table: pa.Table, metadata: Mapping[bytes, bytes]) -> pa.Table:
    """Return the rows of a catalog with numbers and the column ``instrument_id``; other tables unchanged."""
    instrument = metadata.get(b"instrument_id")
    if instrument is None or "ts_event" not in table.column_names:
        return table
    for place, column in enumerate(table.schema):
        if pa.types.is_fixed_size_binary(column.type) and column.type.byte_width in _SCALES:
            key = b"size_precision" if column.name in _SIZES else b"price_precision"
            decimals = int(metadata.get(key, b"9"))
            numbers = _numbers(table[place], column.type.byte_width, decimals)
            table = table.set_column(place, column.name, pa.array(numbers))
        elif pa.types.is_binary(column.type):  # a decimal as JSON: "0.0001" with its quotes
            texts = pc.utf8_trim(table[place].cast(pa.string()), '"')
            table = table.set_column(place, column.name, texts)
    if "instrument_id" in table.column_names:
        return table
    return table.append_column("instrument_id", pa.repeat(instrument.decode(), len(table)))


def _numbers(column: pa.ChunkedArray, width: int, decimals: int) -> Array:
    """Return signed little-endian fixed-point numbers, rounded to the decimals of the instrument."""
    raw = np.frombuffer(b"".join(column.to_pylist()), dtype="<u8")
    if width == 8:
        values = raw.view("<i8") / _SCALES[width]
    else:
        low = raw[0::2]
        high = raw[1::2].view("<i8")
        values = high * (2.0**64 / _SCALES[width]) + low / _SCALES[width]
    return np.asarray(np.round(values, decimals))


CHUNK_ROWS = 1_000_000
_BLOCK_BYTES = 1 << 23
_UNREADABLE = (
    EOFError,
    zlib.error,
    lzma.LZMAError,
    tarfile.TarError,
    csv.Error,
    msgspec.DecodeError,
    NotJson,
)
_VALUE = re.compile(
    r"[-+]?\d+(\.\d*)?(e[-+]?\d+)?|\d{4}-\d{2}-\d{2}.*|\d{4}\.\d{2}\.\d{2}( .*)?|\d{8} \d{2}:\d{2}.*",
    re.IGNORECASE,
)
_ADDRESS = re.compile(r"(https?://|#)", re.IGNORECASE)
_STATED_DELIMITER = re.compile(r"sep=(.)", re.IGNORECASE)
"""A first line for Excel with the delimiter."""
_DELIMITERS = ",;\t|"
UNNAMED = "index"
"""Name of a column without a name in the file, such as an index written by pandas."""

BLANK = ("", "nan", "NaN", "NAN", "null", "NULL", "none", "None", "NA", "N/A", "n/a", "<NA>", "NaT", "-")
"""Text that means a missing value."""


class Header(NamedTuple):
    """Names of a CSV file's columns, whose first line may be a row; used as they are where `by_position`."""

    names: tuple[str, ...]
    by_position: bool = False


LinesOf: TypeAlias = Callable[[Sequence[int], Sequence[int]], tuple[list[int], list[int]]]
"""Function that returns the line numbers of some rows, and of some rows that could not be split."""


@dataclass
class Chunk:
    """Some rows of a file: Arrow columns by name, and the rows that could not be split into columns."""

    columns: dict[str, pa.ChunkedArray]
    size: int
    broken: list[tuple[int, str]] = field(default_factory=list)  # number of the row among broken ones, reason
    lines_of: LinesOf = lambda rows, broken: ([*rows], [*broken])
    """Lines (or numbers of records, from 1) of rows of the chunk, and of broken rows."""
    notices: tuple[str, ...] = ()
    cut: str = ""
    """Reason to reject the last row, because the file ends inside it."""
    marks: Marks | None = None
    """Marks in numbers of the whole file, if it has further chunks."""
    quantities: frozenset[str] = frozenset()
    """Columns of a table with a quantity in each row, each of which has values in its own rows."""

    def __len__(self) -> int:
        return self.size


class Sparse(NamedTuple):
    """Columns with the figures of a table, and with those of the other tables of a file."""

    own: frozenset[str]
    others: frozenset[str]


def is_sparse(chunk: Chunk, sparse: Sparse) -> bool:
    """Return whether some rows have no value of a table, and each of them has a value of another table."""
    is_own = _has_value(chunk, sparse.own)
    is_of_others = _has_value(chunk, sparse.others)
    return bool(is_own.any() and not is_own.all() and (is_own | is_of_others).all())


def rows_with(chunk: Chunk, names: Collection[str]) -> Chunk:
    """Return the rows of a chunk with a value in one of some columns."""
    return _chosen(chunk, _has_value(chunk, names))


def rows_of_table(chunk: Chunk, sparse: Sparse) -> Chunk:
    """Return the rows of a chunk without those that have figures of other tables only."""
    return _chosen(chunk, _has_value(chunk, sparse.own) | ~_has_value(chunk, sparse.others))


def _chosen(chunk: Chunk, is_chosen: Array) -> Chunk:
    """Return some rows of a chunk with their line numbers in the file."""
    if is_chosen.all():
        return chunk
    places = np.flatnonzero(is_chosen)
    lines_of = chunk.lines_of

    def lines_of_chosen(rows: Sequence[int], broken: Sequence[int]) -> tuple[list[int], list[int]]:
        return lines_of([int(places[row]) for row in rows], broken)

    return replace(
        chunk,
        columns={name: values.take(pa.array(places)) for name, values in chunk.columns.items()},
        size=len(places),
        lines_of=lines_of_chosen,
        cut=chunk.cut if is_chosen[-1] else "",
    )


def _has_value(chunk: Chunk, names: Collection[str]) -> Array:
    """Return whether rows have a value in one of some columns."""
    has_value = np.zeros(len(chunk), dtype=bool)
    for name in names:
        if name in chunk.columns:
            has_value |= np.asarray(chunk.columns[name].is_valid())
    return has_value


def chunks(source: Source, header: Header | None = None, *, rows: int | None = None) -> Iterator[Chunk]:
    """Yield the rows of a CSV, JSON, Parquet or Feather file in chunks of `rows`; wide tables as rows."""
    if rows is None:
        rows = CHUNK_ROWS
    marks = Marks(source, header, rows)
    for number, stored in enumerate(_as_stored(source, header, rows)):
        has_others = number > 0 or len(stored) >= rows
        try:
            chunk = _long(_without_headers(stored))
        except ArchiveError as problem:
            raise ArchiveError(f"{source}: {problem}") from None
        if has_others:
            chunk.marks = marks
        yield chunk


_UNCLEAR = r"^\s*[-+]?([1-9]\d{0,2}[.,]\d{3}|\d{1,3})\s*$"
"""``500.000`` may be a fraction or thousands, and so may ``500,000``; numbers without a mark are either."""
_WITH_THOUSANDS = {".": r"\d\.\d{3}\.\d{3}|\d\.\d{3},\d", ",": r"\d,\d{3},\d{3}|\d,\d{3}\.\d"}
_WITH_DECIMALS = {
    ".": r"^\s*[-+]?(\d*\.(\d{1,2}|\d{4,})|0\.\d+)\s*%?\s*$",
    ",": r"^\s*[-+]?(\d*,(\d{1,2}|\d{4,})|0,\d+)\s*%?\s*$",
}


class Marks:
    """Meaning of dots and commas in the numbers of a file with several chunks.

    A chunk in which every number may be read in two ways is read as the whole file shows.
    """

    def __init__(self, source: Source, header: Header | None, rows: int) -> None:
        self._source = source
        self._header = header
        self._rows = rows
        self._meanings: dict[tuple[str, str], str] = {}

    def plain(self, name: str, column: pa.ChunkedArray) -> pa.ChunkedArray:
        """Return a column without marks of thousands, and with decimal points, if its chunk is unclear."""
        mark = _unclear_mark(column)
        if not mark:
            return column
        if (name, mark) not in self._meanings:
            self._meanings[name, mark] = self._meaning(name, mark)
        meaning = self._meanings[name, mark]
        if meaning == "thousands":
            return pc.replace_substring(column, mark, "")
        if meaning == "decimals":
            return pc.replace_substring(column, mark, ".")
        return column

    def _meaning(self, name: str, mark: str) -> str:
        """Return the meaning of a mark in a column, from the first unambiguous number of the file."""
        for chunk in chunks(self._source, self._header, rows=self._rows):
            cells = chunk.columns.get(name)
            if cells is None or not pa.types.is_string(cells.type):
                continue
            for meaning, patterns in (("thousands", _WITH_THOUSANDS), ("decimals", _WITH_DECIMALS)):
                if pc.any(pc.match_substring_regex(cells, patterns[mark])).as_py():
                    return meaning
        return ""


def _unclear_mark(column: pa.ChunkedArray) -> str:
    """Return the ambiguous mark (dot or comma) of a text column; empty if its numbers are unambiguous."""
    if not pa.types.is_string(column.type):
        return ""
    beginning = column.slice(0, _SOME_CELLS)
    marks = [mark for mark in ".," if pc.any(pc.match_substring(beginning, mark)).as_py()]
    if len(marks) != 1:
        return ""
    # A clear number among the first cells, which most files have, saves the search of the others.
    for cells in (beginning, column):
        if pc.all(pc.match_substring_regex(cells, _UNCLEAR)).as_py() is False:
            return ""
    return marks[0]


_SOME_CELLS = 100


def _without_headers(chunk: Chunk) -> Chunk:
    """Return a chunk without lines that repeat the header, as collectors write at each start."""
    is_header = np.full(len(chunk), len(chunk.columns) > 1)
    for name, cells in chunk.columns.items():
        if not is_header.any() or not pa.types.is_string(cells.type):
            return chunk
        is_header &= np.asarray(pc.equal(cells, name).fill_null(name == UNNAMED))
    return _chosen(chunk, ~is_header)


def _long(chunk: Chunk) -> Chunk:
    """Return a chunk of a wide table with a row for each cell; other chunks unchanged."""
    chunk.columns = dict(with_whole_times(chunk.columns))
    result = reshaped(chunk.columns)
    if result is None:
        return chunk
    origins = result.rows.tolist()

    def lines_of(rows: Sequence[int], broken: Sequence[int]) -> tuple[list[int], list[int]]:
        return chunk.lines_of([origins[row] for row in rows], broken)

    has_last_row = origins[-1:] == [len(chunk) - 1]
    return replace(
        chunk,
        columns=result.columns,
        size=len(origins),
        lines_of=lines_of,
        cut=chunk.cut if has_last_row else "",
        quantities=result.quantities,
    )


def _as_stored(source: Source, header: Header | None, rows: int) -> Iterator[Chunk]:
    """Yield the rows of a file with its own columns."""
    with explained(source), opened(source) as (kind, stream):
        if kind == "csv":
            yield from _csv(source, stream, header, rows)
        elif kind == "json":
            for records in json_records(stream, rows):
                yield _named(_of_records(records), header)
        elif kind == "parquet":
            yield from _parquet(stream, rows)
        else:
            yield from _arrow(stream, rows)


def _named(chunk: Chunk, header: Header | None) -> Chunk:
    """Return a chunk of unnamed lists with the field names of a known form."""
    places = [str(place) for place in range(len(chunk.columns))]
    if header is not None and [*chunk.columns] == places and len(header.names) == len(places):
        chunk.columns = dict(zip(header.names, chunk.columns.values(), strict=True))
    return chunk


@contextmanager
def explained(source: Source) -> Iterator[None]:
    """Raise an `ArchiveError` with the file's name in place of a reader's error."""
    try:
        yield
    except UnicodeDecodeError as problem:
        raise ArchiveError(
            f"{source}: the text is not UTF-8 ({problem.reason}): save the file as UTF-8 first"
        ) from None
    except _UNREADABLE as problem:
        raise ArchiveError(f"{source}: cannot be read: {problem}") from None
    except (zipfile.BadZipFile, NotImplementedError) as problem:
        raise ArchiveError(f"{source}: cannot be read as zip: {problem}") from None
    except (OSError, pa.ArrowException) as problem:
        why = getattr(problem, "strerror", None) or problem
        raise ArchiveError(f"{source}: cannot be read: {why}") from None


def head_of(source: Source, header: Header | None = None) -> Chunk:
    """Return the first rows of a file, enough to recognise it; an empty file has no columns."""
    head = next(chunks(source, header, rows=HEAD_ROWS), Chunk({}, 0))
    if not head.quantities or len(head) < HEAD_ROWS:
        return head
    return _with_later_quantities(source, header, head)


HEAD_ROWS = 2_000


def _with_later_quantities(source: Source, header: Header | None, head: Chunk) -> Chunk:
    """Add the first rows of each quantity that a table with a quantity in each row has after its head."""
    tables = [pa.table(head.columns)]
    quantities = head.quantities
    for chunk in chunks(source, header):
        for name in sorted(chunk.quantities - quantities):
            rows = rows_with(chunk, [name]).columns
            tables.append(pa.table(rows).slice(0, HEAD_ROWS))
        quantities |= chunk.quantities
    whole = pa.concat_tables(tables, promote_options="permissive")
    columns = dict(zip(whole.column_names, whole.columns, strict=True))
    return replace(head, columns=columns, size=len(whole), quantities=quantities)


class _Form(NamedTuple):
    """Format of a CSV file: lines before the rows, column names, delimiter."""

    skipped: int
    names: list[str]
    delimiter: str
    first_row: bytes  # the first line where it is a row and not a header
    stated: Mapping[str, str] = {}  # names of the market and the zone of all rows, in lines above the names


def _form(source: Source, stream: _Ahead, header: Header | None) -> _Form:
    """Return the format of a file from the lines up to its first row."""
    remarks: list[str] = []
    raw = stream.readline()
    while raw and (not raw.strip() or _ADDRESS.match(raw.decode("utf-8-sig"))):
        remarks.append(raw.decode("utf-8-sig").strip())
        raw = stream.readline()
    raw, title_count = _after_titles(raw, stream)
    skipped = len(remarks) + title_count
    line = raw.decode("utf-8-sig")
    if not line.strip():
        raise ArchiveError(f"{source}: the file is empty: expected column names in the first line")
    delimiter = max(_DELIMITERS, key=line.count)
    if delimiter not in line and " " in line.strip():
        delimiter = " "  # as numpy.savetxt writes
    separator_line = _STATED_DELIMITER.fullmatch(line.strip())
    if separator_line is not None:
        skipped += 1
        delimiter = separator_line[1]
        raw = stream.readline()
        line = raw.decode()
    cells = [original_cell(cell.strip()) for cell in next(csv.reader([line], delimiter=delimiter))]
    is_row = _VALUE.fullmatch(cells[0]) is not None
    if header is not None and (is_row or header.by_position):
        _check_width(source, cells, header)
        names = [*header.names]
    elif is_row and all(_VALUE.fullmatch(cell) or not cell for cell in cells):
        names = _names_above(remarks, len(cells), delimiter)
    else:
        form = _named_form(stream, cells, skipped + 1, delimiter)
        return form._replace(stated=_stated_in(remarks, form.names))
    if is_row:
        form = _Form(skipped, _unique(names), delimiter, raw)
    else:
        form = _Form(skipped + 1, _unique(names), delimiter, b"")
    return form._replace(stated=_stated_in(remarks, form.names))


def _check_width(source: Source, cells: Sequence[str], header: Header) -> None:
    """Raise for a file whose number of columns differs from the number of names."""
    if len(cells) != len(header.names):
        raise ArchiveError(
            f"{source}: expected {len(header.names)} columns ({', '.join(header.names)}), got {len(cells)}"
        )


def _names_above(remarks: Sequence[str], width: int, delimiter: str) -> list[str]:
    """Return the column names in the remark above the rows (numpy.savetxt), otherwise numbers."""
    if remarks and remarks[-1].startswith("#"):
        names = _cells(remarks[-1].removeprefix("#").strip().encode(), delimiter)
        if len(names) == width:
            return names
    return [str(place) for place in range(width)]


_REMARK = re.compile(r"#+\s*(?P<name>[\w ]{1,30}?)\s*[:=]\s*(?P<value>[^\s,;].{0,38}?)\s*", re.IGNORECASE)
"""``# instrument: BTC-USDT-SWAP``."""
_ZONES = ("tz", "timezone", "time zone")


def _stated_in(remarks: Sequence[str], names: Sequence[str]) -> dict[str, str]:
    """Return the venue, symbol and zone that lines above the columns state, and that no column has."""
    stated: dict[str, str] = {}
    own = {meaning_of(name) for name in names}
    for remark in remarks:
        match = _REMARK.fullmatch(remark)
        if match is None:
            continue
        word = match["value"].strip("'\"")
        meaning = meaning_of(match["name"])
        if match["name"].lower() in _ZONES:
            stated["timezone"] = word
        elif meaning == "exchange":
            texts = [word, *re.split(r"[^\w.]+", word)]
            venues = KNOWN_VENUES.intersection(map(venue_of_word, texts))
            if len(venues) == 1:
                stated["exchange"] = next(iter(venues))
        elif meaning == "symbol" and market_of(word).kind not in ("unknown", "cross"):
            stated["symbol"] = word
    return {name: word for name, word in stated.items() if name not in own}


_MAX_TITLES = 8


def _after_titles(raw: bytes, stream: _Ahead) -> tuple[bytes, int]:
    """Return the first line of a table below lines of words, ``Funding rates of BTC``, and their number."""
    lines = [raw]
    while _is_title(lines[-1]) and len(lines) <= _MAX_TITLES:
        lines.append(stream.readline())
        if not lines[-1]:
            break
    if _has_delimiter(lines[-1]):
        return lines[-1], len(lines) - 1
    stream.push(b"".join(lines[1:]))
    return raw, 0


def _has_delimiter(raw: bytes) -> bool:
    return any(mark.encode() in raw for mark in _DELIMITERS)


def _is_title(raw: bytes) -> bool:
    """Return whether a line is empty, or has words but no delimiter."""
    words = raw.decode("utf-8-sig", errors="replace").split()
    if not words:
        return True
    return len(words) > 1 and any(map(str.isalpha, words)) and not _has_delimiter(raw.strip())


def _named_form(stream: _Ahead, first: list[str], skipped: int, delimiter: str) -> _Form:
    """Return the form of a file with a header of one line, or of two for pandas' columns of two levels.

    pandas adds a line with the name of the index only.
    """
    raw = stream.readline()
    names = joined_header(first, _cells(raw, delimiter))
    if names is None:
        return _Form(skipped, _unique(first), delimiter, raw)
    raw = stream.readline()
    below = _cells(raw, delimiter)
    if below and below[0] and not any(below[1:]):
        names[0] = below[0]
        return _Form(skipped + 2, _unique(names), delimiter, b"")
    names[0] = UNNAMED
    return _Form(skipped + 1, _unique(names), delimiter, raw)


def _cells(raw: bytes, delimiter: str) -> list[str]:
    """Return the cells of a line; empty for a line that cannot be split."""
    try:
        return [cell.strip() for cell in next(csv.reader([raw.decode("utf-8-sig")], delimiter=delimiter), [])]
    except (UnicodeDecodeError, csv.Error):
        return []


def _unique(names: Sequence[str]) -> list[str]:
    """Return the names with a number after duplicates."""
    counts: Counter[str] = Counter()
    result: list[str] = []
    for name in names:
        name = name or UNNAMED
        counts[name] += 1
        if counts[name] > 1:
            result.append(f"{name} ({counts[name]})")
        else:
            result.append(name)
    return result


def _csv(source: Source, stream: IO[bytes], header: Header | None, rows: int) -> Iterator[Chunk]:
    ahead = _Ahead(stream)
    form = _form(source, ahead, header)
    text = _Joined(form.first_row, ahead)
    reasons: list[str] = []
    done = 0
    reported = 0
    for table, is_last in _tables_of(_batches(form, text, reasons), rows):
        broken = [*enumerate(reasons[reported:], reported)]
        reported = len(reasons)
        chunk = _csv_chunk(source, form, table, done, broken)
        if is_last and text.is_cut:
            chunk.notices = ("the last line has no line break and may be truncated",)
            if _ends_in_a_number(table):
                chunk.cut = _CUT
        yield chunk
        done += len(table)
    if not done or reported < len(reasons):
        broken = [*enumerate(reasons[reported:], reported)]
        yield _csv_chunk(source, form, None, done, broken)


def _tables_of(batches: Iterator[pa.RecordBatch], rows: int) -> Iterator[tuple[pa.Table, bool]]:
    """Yield rows in tables of a size, and whether all batches were read before."""
    buffered: list[pa.RecordBatch] = []
    for batch in batches:
        buffered.append(batch)
        while sum(map(len, buffered)) >= rows:
            table = pa.Table.from_batches(buffered)
            buffered = table.slice(rows).to_batches()
            yield table.slice(0, rows), False
    if any(map(len, buffered)):
        yield pa.Table.from_batches(buffered), True


_CUT = "the last number has fewer digits than the others, so the file may be truncated: download it again"
_MIN_ROWS = 10
_DIGITS = re.compile(r"-?(?P<whole>\d+)(?:\.(?P<decimals>\d*))?")
_MIN_DIGITS = 10
"""Minimum digits of whole numbers with the same length in all rows, such as times."""


def _ends_in_a_number(table: pa.Table) -> bool:
    """Return whether the last number of a file has fewer digits than all other rows."""
    if len(table) < _MIN_ROWS:
        return False
    decimals: list[int] = []
    digits: list[int] = []
    for cell in table[table.num_columns - 1].slice(max(0, len(table) - HEAD_ROWS)).to_pylist():
        match = _DIGITS.fullmatch(cell or "")
        if match is None:
            return False
        decimals.append(len(match["decimals"] or ""))
        digits.append(len(match["whole"]))
    if any(decimals):
        *others, last = decimals
    else:
        *others, last = digits
        if min(others) < _MIN_DIGITS:
            return False
    return len(set(others)) == 1 and last < others[0]


def _batches(form: _Form, rest: _Joined, reasons: list[str]) -> Iterator[pa.RecordBatch]:
    """Yield the rows as Arrow splits them; `reasons` gets one for each row of another width."""

    def skip(row: pa.csv.InvalidRow) -> str:
        if row.text.strip():
            reasons.append(
                f"got {row.actual_columns} fields, but the first line has {row.expected_columns} columns"
            )
        return "skip"

    try:
        yield from pa.csv.open_csv(
            pa.PythonFile(rest, mode="r"),
            pa.csv.ReadOptions(column_names=form.names, block_size=_BLOCK_BYTES, use_threads=False),
            pa.csv.ParseOptions(delimiter=form.delimiter, newlines_in_values=True, invalid_row_handler=skip),
            pa.csv.ConvertOptions(
                column_types=dict.fromkeys(form.names, pa.string()),
                null_values=[*BLANK],
                strings_can_be_null=True,
            ),
        )
    except pa.ArrowInvalid as problem:
        if "Empty CSV" not in str(problem):
            raise


def _csv_chunk(
    source: Source,
    form: _Form,
    table: pa.Table | None,
    done: int,
    broken: list[tuple[int, str]],
) -> Chunk:
    """Return some rows of a file after the first `done` rows; None for a file without rows."""

    def lines_of(rows: Sequence[int], bad: Sequence[int]) -> tuple[list[int], list[int]]:
        return _csv_lines(source, form, [done + row for row in rows], bad)

    if table is None:
        columns = {name: pa.chunked_array([], pa.string()) for name in form.names}
        return Chunk(columns, 0, broken, lines_of)
    columns = {name: original_cells(table[place]) for place, name in enumerate(form.names)}
    for name, word in form.stated.items():
        columns[name] = pa.chunked_array([pa.repeat(word, len(table))])
    return Chunk(columns, len(table), broken, lines_of)


def _csv_lines(
    source: Source, form: _Form, rows: Sequence[int], broken: Sequence[int]
) -> tuple[list[int], list[int]]:
    """Return the lines of the n-th rows that could be split, and of the n-th that could not.

    Arrow does not count lines, so the file is read again as far as necessary.
    """
    lines = dict.fromkeys(rows, 0)
    broken_lines = dict.fromkeys(broken, 0)
    last = max(rows, default=-1)
    last_broken = max(broken, default=-1)
    row = 0
    broken_row = 0
    with opened(source) as (_, stream):
        for line, width in _widths(stream, form):
            if width == len(form.names):
                if row in lines:
                    lines[row] = line
                row += 1
            else:
                if broken_row in broken_lines:
                    broken_lines[broken_row] = line
                broken_row += 1
            if row > last and broken_row > last_broken:
                break
    return [lines[row] for row in rows], [broken_lines[row] for row in broken]


def _widths(stream: IO[bytes], form: _Form) -> Iterator[tuple[int, int]]:
    """Yield the line of each row, and its number of cells; empty lines are skipped."""
    for _ in range(form.skipped):
        stream.readline()
    delimiter = form.delimiter.encode()
    line = form.skipped
    for raw in stream:
        if b'"' in raw:  # the csv module handles quoted delimiters and line breaks
            rest = io.TextIOWrapper(_Joined(raw, stream), "utf-8-sig", newline="")  # type: ignore[type-var]
            reader = csv.reader(rest, delimiter=form.delimiter)
            for cells in reader:
                if cells:
                    yield line + reader.line_num, len(cells)
            return
        line += 1
        if raw.strip():
            yield line, raw.count(delimiter) + 1


class _Ahead:
    """A stream to which lines that were read can be returned."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self._lines = b""

    def push(self, lines: bytes) -> None:
        """Return lines to the stream."""
        self._lines = lines + self._lines

    def readline(self) -> bytes:
        """Return the next line."""
        if not self._lines:
            return self._stream.readline()
        line, mark, self._lines = self._lines.partition(b"\n")
        return line + mark

    def read(self, size: int) -> bytes:
        """Return the next bytes; all of the returned lines at once."""
        lines = self._lines
        self._lines = b""
        return lines or self._stream.read(size)


class _Joined(io.RawIOBase):
    """A first line and the stream after it; `is_cut` says whether the final line break is missing."""

    def __init__(self, first: bytes, stream: IO[bytes] | _Ahead) -> None:
        self._first = first
        self._stream = stream
        self._last = b"\n"

    @property
    def is_cut(self) -> bool:
        return self._last != b"\n"

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        block = self.read(len(buffer))
        if len(block) > len(buffer):  # the first line may be longer
            self._first = block[len(buffer) :]
            block = block[: len(buffer)]
        buffer[: len(block)] = block
        return len(block)

    def read(self, size: int = -1) -> bytes:
        if self._first:
            block = self._first
            self._first = b""
        else:
            block = self._stream.read(size)
        if block:
            self._last = block[-1:]
        return block


def _of_records(records: Records) -> Chunk:
    # Lines are looked up later: `lines_of` must not hold the columns in memory until then.
    numbers = records.numbers
    unread = records.broken

    def lines_of(rows: Sequence[int], broken: Sequence[int]) -> tuple[list[int], list[int]]:
        return [numbers[row] for row in rows], [unread[row][0] for row in broken]

    broken = [(place, reason) for place, (_, reason) in enumerate(unread)]
    return Chunk(records.columns, len(numbers), broken, lines_of, records.notices)


def _parquet(stream: IO[bytes], rows: int) -> Iterator[Chunk]:
    with pq.ParquetFile(_seekable(stream)) as file:
        done = 0
        metadata = file.schema_arrow.metadata or {}
        for batch in file.iter_batches(rows):
            yield _typed(_of_catalog(pa.Table.from_batches([batch]), metadata), done)
            done += len(batch)
        if not done:
            yield _typed(file.schema_arrow.empty_table(), 0)


def _arrow(stream: IO[bytes], rows: int) -> Iterator[Chunk]:
    file = _seekable(stream)
    if stream.peek(4)[:4] == b"\xff\xff\xff\xff":  # type: ignore[attr-defined]
        table = pa.ipc.open_stream(file).read_all()
    else:
        table = pa.feather.read_table(file)
    for start in range(0, max(len(table), 1), rows):
        yield _typed(table.slice(start, rows), start)


def _seekable(stream: IO[bytes]) -> pa.NativeFile | IO[bytes]:
    """Return the input of formats with a footer: the file itself, or its decompressed bytes."""
    if isinstance(getattr(stream, "raw", None), io.FileIO):
        return stream
    return pa.BufferReader(stream.read())


def _typed(table: pa.Table, done: int) -> Chunk:
    while any(pa.types.is_struct(column.type) for column in table.columns):
        table = table.flatten()  # a field of a struct is a column, ``funding.rate``
    names = [name.replace("__index_level_0__", UNNAMED) for name in table.column_names]
    columns = dict(zip(_unique(names), table.columns, strict=True))

    def lines_of(rows: Sequence[int], broken: Sequence[int]) -> tuple[list[int], list[int]]:
        return [done + row + 1 for row in rows], [*broken]

    return Chunk(columns, len(table), [], lines_of)
