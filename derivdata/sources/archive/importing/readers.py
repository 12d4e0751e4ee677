"""Read files in chunks that fit into memory: rows with their line numbers, values unchanged."""

from __future__ import annotations

import csv
import gzip
import zlib
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import IO, Any, NamedTuple

import msgspec
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from derivdata.errors import ArchiveError

CHUNK_ROWS = 250_000
_RAGGED = object()


class Chunk(NamedTuple):
    """Some rows of a file: their line or record numbers, and each column as the file has it.

    ``ragged`` says of each row, by position, what is wrong with its shape.
    """

    lines: Sequence[int]
    columns: Mapping[str, Any]
    ragged: Mapping[int, str]


def chunks(path: Path, columns: frozenset[str] | None = None) -> Iterator[Chunk]:
    """Rows of a CSV, JSON or Parquet file; `columns` may leave out the others.

    Raises
    ------
    ArchiveError
        The file is absent, empty, damaged, or of no kind that can be read.
    """
    kind = _kind(path)
    try:
        if kind == "parquet":
            yield from _parquet(path, columns)
        elif kind == "csv":
            with _open(path) as file:
                yield from _csv(path, file)
        else:
            with _open(path) as file:
                yield from _json(path, file)
    except (UnicodeDecodeError, EOFError, zlib.error, csv.Error, msgspec.DecodeError) as problem:
        raise ArchiveError(f"{path}: cannot be read as {kind}: {problem}") from None
    except (OSError, pa.ArrowException) as problem:
        why = getattr(problem, "strerror", None) or problem
        raise ArchiveError(f"{path}: cannot be read: {why}") from None


def _kind(path: Path) -> str:
    name = path.name.lower().removesuffix(".gz")
    for kind, endings in {
        "csv": (".csv", ".tsv", ".txt"),
        "json": (".json", ".jsonl", ".ndjson"),
        "parquet": (".parquet", ".pq"),
    }.items():
        if name.endswith(endings):
            return kind
    raise ArchiveError(
        f"{path}: what it holds cannot be told from its name: .csv, .json, .jsonl (also .gz) or .parquet"
    )


def _open(path: Path) -> IO[str]:
    if path.name.lower().endswith(".gz"):
        return gzip.open(path, "rt", encoding="utf-8-sig", newline="")
    return path.open(encoding="utf-8-sig", newline="")


def _csv(path: Path, file: IO[str]) -> Iterator[Chunk]:
    header = file.readline()
    if not header.strip():
        raise ArchiveError(f"{path}: the file is empty: its first line names the columns")
    delimiter = max(",;\t", key=header.count)
    names = [name.strip() for name in next(csv.reader([header], delimiter=delimiter))]
    doubled = sorted({name for name in names if names.count(name) > 1})
    if doubled:
        raise ArchiveError(f"{path}: two columns have the name {doubled[0]!r}")
    reader = csv.reader(file, delimiter=delimiter)
    numbered = ((reader.line_num + 1, row) for row in reader if row)
    while chunk_rows := list(islice(numbered, CHUNK_ROWS)):
        yield _table(names, chunk_rows)


def _table(names: list[str], chunk_rows: list[tuple[int, list[str]]]) -> Chunk:
    ragged = {
        i: f"{len(row)} fields, where the first line names {len(names)}"
        for i, (_, row) in enumerate(chunk_rows)
        if len(row) != len(names)
    }
    rows = [[*row[: len(names)], *[""] * (len(names) - len(row))] for _, row in chunk_rows]
    columns = dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))
    return Chunk([line for line, _ in chunk_rows], columns, ragged)


def _json(path: Path, file: IO[str]) -> Iterator[Chunk]:
    """Read records in one list, or one record per line."""
    first = file.read(1)
    while first.isspace():
        first = file.read(1)
    if not first:
        raise ArchiveError(f"{path}: the file is empty")
    if first == "[":
        records = msgspec.json.decode(first + file.read(), type=list[Any])
        numbered: Iterator[tuple[int, Any]] = iter(enumerate(records, start=1))
    else:
        lines = enumerate(chain([first + file.readline()], file), start=1)
        numbered = ((n, _record(line)) for n, line in lines if line.strip())
    while chunk_rows := list(islice(numbered, CHUNK_ROWS)):
        yield _records(chunk_rows)


def _record(line: str) -> Any:
    try:
        return msgspec.json.decode(line)
    except msgspec.DecodeError as problem:
        return f"not JSON: {problem}"


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


def _parquet(path: Path, columns: frozenset[str] | None) -> Iterator[Chunk]:
    with pq.ParquetFile(path) as file:
        wanted = [name for name in file.schema_arrow.names if columns is None or name in columns]
        done = 0
        for batch in file.iter_batches(CHUNK_ROWS, columns=wanted):
            frame = batch.to_pandas(types_mapper=_exact.get)
            lines = range(done + 1, done + len(frame) + 1)
            done += len(frame)
            yield Chunk(lines, dict(frame.items()), {})


_exact = {pa.int64(): pd.Int64Dtype(), pa.uint64(): pd.UInt64Dtype()}
