"""Collect the index of a file while it is written: see `derivdata.sources.archive.series_index`."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from derivdata.sources.archive import series_index
from derivdata.sources.archive.schemas import sorting
from derivdata.sources.archive.series_index import INDEXED, Ints, PackedColumn, PackedRuns
from derivdata.tables.schema import Table

__all__ = ["IndexBuilder"]

_ROWS_PER_RUN = 4
_MOST_RUNS = 1 << 15
"""Such an index takes a quarter of a megabyte in memory, and those of a thousand files are kept."""
_KINDS = {"DOUBLE": "<f8", "INT64": "<i8"}


class IndexBuilder:
    """Collector of the runs of a file, fed with its rows in order."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self._following = sorting(table)[:3] == list(INDEXED) and set(INDEXED) <= set(table.key)
        self._words: list[dict[str, int]] = [{}, {}]
        self._runs: list[tuple[Ints, Ints, Ints, Ints]] = []
        self._step: int | None = None
        self._constants: dict[str, str] | None = None
        self._count = self._rows = 0

    def take(self, rows: pa.Table) -> None:
        """Add rows that follow those before; each column is in one piece."""
        self._rows += len(rows)
        if not self._following or not len(rows):
            return
        texts = [rows[name].chunk(0) for name in INDEXED[:2]]
        codes = [np.asarray(text.indices) for text in texts]
        stamps = np.asarray(rows["time"].cast(pa.int64()))
        opens = np.ones(len(rows), dtype=bool)
        opens[1:] = (codes[0][1:] != codes[0][:-1]) | (codes[1][1:] != codes[1][:-1])
        distance = np.diff(stamps)
        if self._step is None and not opens.all():
            steps, counts = np.unique(distance[~opens[1:]], return_counts=True)
            self._step = int(steps[np.argmax(counts)])
        opens[1:] |= distance != self._step
        first = np.flatnonzero(opens)
        self._count += first.size
        if self._count > _MOST_RUNS or self._count * _ROWS_PER_RUN > self._rows:
            self._following = False  # an index would be as large as the columns that it stands for
            return
        numbers = [
            np.array([known.setdefault(word, len(known)) for word in text.dictionary.to_pylist()])[
                code[first]
            ]
            for known, text, code in zip(self._words, texts, codes, strict=True)
        ]
        lengths = np.diff(first, append=len(rows))
        self._runs.append((numbers[0], numbers[1], lengths, stamps[first]))
        self._constants = _common(self._constants, _constants(rows))

    def packed(self, metadata: pq.FileMetaData) -> bytes:
        """Return the index of the file whose footer this is; nothing where it would not pay."""
        if not self._following or not self._runs:
            return b""
        symbol, exchange, length, first = (np.concatenate(part) for part in zip(*self._runs, strict=True))
        origin = int(np.min(first))
        unit = math.gcd(*(first - origin).tolist()) or 1
        groups = np.array([metadata.row_group(group).num_rows for group in range(metadata.num_row_groups)])
        changes = np.flatnonzero(np.diff(symbol, prepend=-1))
        counts = np.diff(changes, append=symbol.size)
        numbers = (symbol[changes], counts, exchange, length, (first - origin) // unit, groups)
        runs = PackedRuns(
            table=self._table.name,
            names=list(metadata.schema.names),
            step=self._step or 0,
            unit=unit,
            words=[list(known) for known in self._words],
            constants=self._constants or {},
            numbers=[_least(each) for each in numbers],
        )
        return series_index.packed(runs, origin, _plain_columns(metadata))


def _plain_columns(metadata: pq.FileMetaData) -> dict[str, PackedColumn]:
    """Return where the columns are that `numbers_of_page` decodes."""
    columns = {}
    every = range(metadata.num_row_groups)
    for number, name in enumerate(metadata.schema.names):
        first = metadata.row_group(0).column(number)
        plain = set(first.encodings) <= {"PLAIN", "RLE"} and not first.has_dictionary_page
        if plain and first.compression == "ZSTD" and first.physical_type in _KINDS:
            chunks = [metadata.row_group(group).column(number) for group in every]
            columns[name] = PackedColumn(
                kind=_KINDS[first.physical_type],
                optional=metadata.schema.column(number).max_definition_level > 0,
                offsets=np.array([chunk.data_page_offset for chunk in chunks], "<u8").tobytes(),
                sizes=np.array([chunk.total_compressed_size for chunk in chunks], "<u4").tobytes(),
            )
    return columns


def _least(numbers: Ints) -> tuple[str, memoryview]:
    """Return the bytes of numbers from 0 on in the smallest type that holds them, and its name."""
    kind = np.min_scalar_type(int(numbers.max())).newbyteorder("<")
    return kind.str, memoryview(numbers.astype(kind).tobytes())


def _constants(rows: pa.Table) -> dict[str, str]:
    """Return the word of each text column besides symbol and venue that has one and no gap."""
    constants = {}
    for field in rows.schema:
        if pa.types.is_dictionary(field.type) and field.name not in INDEXED:
            text = rows[field.name].chunk(0)
            codes = np.asarray(text.indices) if not text.null_count else np.array([0, 1])
            if codes.min() == codes.max():
                constants[field.name] = text.dictionary[int(codes[0])].as_py()
    return constants


def _common(before: Mapping[str, str] | None, found: dict[str, str]) -> dict[str, str]:
    return found if before is None else {n: word for n, word in found.items() if before.get(n) == word}
