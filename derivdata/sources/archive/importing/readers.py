"""Read files in chunks that fit into memory: rows with their line numbers, values unchanged."""

from __future__ import annotations

import csv
import gzip
import io
import re
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import IO, Any, NamedTuple

import msgspec
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from derivdata.client.transport.body import NotJson, check_json
from derivdata.errors import ArchiveError

CHUNK_ROWS = 250_000
_UNREADABLE = (UnicodeDecodeError, EOFError, zlib.error, csv.Error, msgspec.DecodeError, NotJson)
_PACKED = {".gz": "gzip", ".lz4": "lz4", ".zst": "zstd"}
_ENDINGS = {"csv": "csv tsv txt", "json": "json jsonl ndjson", "parquet": "parquet pq"}
_KINDS = {f".{ending}": kind for kind, endings in _ENDINGS.items() for ending in endings.split()}
_VALUE = re.compile(r"[-+]?\d+(\.\d*)?(e[-+]?\d+)?|\d{4}-\d{2}-\d{2}.*", re.IGNORECASE)


class Chunk(NamedTuple):
    """Rows of a file: line or record numbers, columns as the file has them, and what is wrong by position."""

    lines: Sequence[int]
    columns: Mapping[str, Any]
    ragged: Mapping[int, str]


class Header(NamedTuple):
    """Names of a CSV file's columns, whose first line may be a row; used as they are where `by_position`."""

    names: tuple[str, ...]
    by_position: bool = False


def chunks(
    path: Path,
    columns: frozenset[str] | None = None,
    header: Header | None = None,
    *,
    rows: int = CHUNK_ROWS,
) -> Iterator[Chunk]:
    """Yield rows of a CSV, JSON or Parquet file, or of the one file of a zip; `columns` limits Parquet."""
    try:
        kind = _kind(path, _member(path))
        if kind == "parquet":
            yield from _parquet(path, columns, rows)
        elif kind == "csv":
            with _open(path) as file:
                yield from _csv(path, file, header, rows)
        else:
            with _open(path) as file:
                yield from _json(path, file, rows)
    except _UNREADABLE as problem:
        raise ArchiveError(f"{path}: cannot be read as {kind}: {problem}") from None
    except (zipfile.BadZipFile, NotImplementedError) as problem:
        raise ArchiveError(f"{path}: cannot be read as zip: {problem}") from None
    except (OSError, pa.ArrowException) as problem:
        why = getattr(problem, "strerror", None) or problem
        raise ArchiveError(f"{path}: cannot be read: {why}") from None


def column_names(path: Path, header: Header | None = None) -> list[str]:
    """Return the names of the columns of a file; see `chunks`."""
    first = next(chunks(path, None, header, rows=1), None)
    return [] if first is None else [*first.columns]


def _member(path: Path) -> str:
    """Return the name of the one file of a zip; empty text where the file is none."""
    if path.suffix.lower() != ".zip":
        return ""
    with zipfile.ZipFile(path) as archive:
        files = [item for item in archive.infolist() if not item.is_dir()]
    if len(files) != 1 or files[0].flag_bits & 1:
        what = f"{len(files)} files" if len(files) != 1 else "an encrypted file"
        raise ArchiveError(f"{path}: the zip holds {what}: one CSV or JSON file is read, unpack it")
    return files[0].filename


def _kind(path: Path, member: str) -> str:
    name = (member or path.name).lower()
    for ending in _PACKED:
        name = name.removesuffix(ending)
    if kind := _KINDS.get(Path(name).suffix):
        return kind
    raise ArchiveError(
        f"{path}: what it holds cannot be told from its name: .csv, .json, .jsonl (also .gz, "
        ".zip) or .parquet"
    )


def _open(path: Path) -> IO[str]:
    if member := _member(path):
        with zipfile.ZipFile(path) as archive:
            return io.TextIOWrapper(archive.open(member), encoding="utf-8-sig", newline="")
    if path.name.lower().endswith(".gz"):
        return gzip.open(path, "rt", encoding="utf-8-sig", newline="")
    if codec := _PACKED.get(path.suffix.lower()):
        packed = pa.CompressedInputStream(pa.OSFile(str(path)), codec)
        return io.TextIOWrapper(packed, encoding="utf-8-sig", newline="")
    return path.open(encoding="utf-8-sig", newline="")


def _csv(path: Path, file: IO[str], header: Header | None, rows: int) -> Iterator[Chunk]:
    first = file.readline()
    if not first.strip():
        raise ArchiveError(f"{path}: the file is empty: its first line names the columns")
    delimiter = max(",;\t", key=first.count)
    names = [name.strip() for name in next(csv.reader([first], delimiter=delimiter))]
    is_row = header is not None and _VALUE.fullmatch(names[0]) is not None
    if header is not None:
        names = _named(path, names, header, is_row=is_row)
    doubled = sorted({name for name in names if names.count(name) > 1})
    if doubled:
        raise ArchiveError(f"{path}: two columns have the name {doubled[0]!r}")
    reader = csv.reader(chain([first], file) if is_row else file, delimiter=delimiter)
    numbered = ((reader.line_num + (not is_row), row) for row in reader if row)
    while chunk_rows := list(islice(numbered, rows)):
        yield _table(names, chunk_rows)


def _named(path: Path, cells: list[str], header: Header, *, is_row: bool) -> list[str]:
    """Return the names of the columns of a file of a known form, by its first line or by position."""
    if not is_row and not header.by_position:
        spelt = {name.lower(): name for name in header.names}
        return [spelt.get(cell.lower(), cell) for cell in cells]
    if len(cells) != len(header.names):
        raise ArchiveError(
            f"{path}: {len(cells)} columns, where files of this kind have {len(header.names)}: "
            f"{', '.join(header.names)}"
        )
    return [*header.names]


def _table(names: list[str], chunk_rows: list[tuple[int, list[str]]]) -> Chunk:
    ragged = {
        i: f"{len(row)} fields, where the first line names {len(names)}"
        for i, (_, row) in enumerate(chunk_rows)
        if len(row) != len(names)
    }
    rows = [[*row[: len(names)], *[""] * (len(names) - len(row))] for _, row in chunk_rows]
    columns = dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))
    return Chunk([line for line, _ in chunk_rows], columns, ragged)


def _json(path: Path, file: IO[str], rows: int) -> Iterator[Chunk]:
    """Read records in one list, alone or as ``data`` of an answer, or one record per line."""
    first = file.read(1)
    while first.isspace():
        first = file.read(1)
    if not first:
        raise ArchiveError(f"{path}: the file is empty")
    if first == "[":
        text = (first + file.read()).encode()
        check_json(text, {})
        records = msgspec.json.decode(text, type=list[Any])
        numbered: Iterator[tuple[int, Any]] = iter(enumerate(records, start=1))
    else:
        line = first + file.readline()
        body = _record(line)
        if isinstance(body, dict) and isinstance(body.get("data"), list):
            numbered = iter(enumerate(body["data"], start=1))
        else:
            lines = enumerate(chain([line], file), start=1)
            numbered = ((n, _record(line)) for n, line in lines if line.strip())
    while chunk_rows := list(islice(numbered, rows)):
        yield _records(chunk_rows)


def _record(line: str) -> Any:
    text = line.encode()
    try:
        check_json(text, {})
    except NotJson as problem:
        return f"no record: {problem}"
    return msgspec.json.decode(text)


def _records(chunk_rows: list[tuple[int, Any]]) -> Chunk:
    ragged = {
        i: row if isinstance(row, str) else f"not a record but {type(row).__name__}"
        for i, (_, row) in enumerate(chunk_rows)
        if not isinstance(row, dict)
    }
    rows = [row if isinstance(row, dict) else {} for _, row in chunk_rows]
    names = dict.fromkeys(name for row in rows for name in row)
    return Chunk(
        [n for n, _ in chunk_rows], {name: [row.get(name) for row in rows] for name in names}, ragged
    )


def _parquet(path: Path, columns: frozenset[str] | None, rows: int) -> Iterator[Chunk]:
    with pq.ParquetFile(path) as file:
        wanted = [name for name in file.schema_arrow.names if columns is None or name in columns]
        done = 0
        for batch in file.iter_batches(rows, columns=wanted):
            frame = batch.to_pandas(types_mapper=_exact.get)
            lines = range(done + 1, done + len(frame) + 1)
            done += len(frame)
            yield Chunk(lines, dict(frame.items()), {})


_exact = {pa.int64(): pd.Int64Dtype(), pa.uint64(): pd.UInt64Dtype()}
