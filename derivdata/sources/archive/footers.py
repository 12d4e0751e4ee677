"""Footers of Parquet files: row groups and the ranges of their values, checked once."""

from __future__ import annotations

import errno
import hashlib
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from derivdata.errors import ArchiveError
from derivdata.sources.archive import series_index
from derivdata.sources.archive.manifest import DataFile
from derivdata.sources.archive.schemas import LABEL, refuse_lacking
from derivdata.sources.archive.selections import Where
from derivdata.sources.archive.series_index import Ints, SeriesIndex
from derivdata.sources.archive.storage import Storage
from derivdata.tables.schema import Table

__all__ = [
    "PRUNED",
    "Footer",
    "digest",
    "footer",
    "footer_of",
    "footer_of_table",
    "open_parquet",
    "reading",
]

PRUNED = ("symbol", "exchange", "order_id")
"""Text columns whose range in a row group may rule out a match."""


class Footer:
    """What a file's end says: its columns, and what may rule out its row groups.

    Most reads need the index alone. What pyarrow makes of the footer takes many times as long to make and to
    keep, so it is read when it is needed.
    """

    def __init__(self, storage: Storage, file: DataFile) -> None:
        self._storage, self._file = storage, file
        end = storage.tail(file.path, file.size, series_index.END_BYTES)
        cut = len(_checked_footer(file, end))
        size = series_index.size_of(end[:-cut])
        if size + cut > len(end):
            end = storage.tail(file.path, file.size, size)
        self._index = series_index.unpacked(end[-size - cut : -cut]) if size else None

    @property
    def index(self) -> SeriesIndex | None:
        """Where each series lies; None where the file does not say."""
        return self._index

    def index_for(self, where: Where) -> SeriesIndex | None:
        """Return the index, if it can choose rows by these columns."""
        return self.index if set(where) <= set(series_index.INDEXED) else None

    @cached_property
    def metadata(self) -> pq.FileMetaData:
        """The footer as pyarrow reads it."""
        end = self._storage.tail(self._file.path, self._file.size)
        return pq.read_metadata(pa.BufferReader(_checked_footer(self._file, end)))

    @property
    def table(self) -> str | None:
        """Name of the table whose rows the file has; None where it does not say."""
        if self.index is not None:
            return self.index.runs.table
        label: bytes | None = (self.metadata.metadata or {}).get(LABEL)
        return None if label is None else label.decode()

    @property
    def names(self) -> frozenset[str]:
        """Names of the columns."""
        return self.index.runs.names if self.index is not None else frozenset(self.metadata.schema.names)

    @property
    def edges(self) -> Ints:
        """First row of each row group, and the number of rows."""
        return self.index.runs.edges if self.index is not None else self._edges

    @cached_property
    def _edges(self) -> Ints:
        groups = range(self.metadata.num_row_groups)
        return np.cumsum([0, *(self.metadata.row_group(group).num_rows for group in groups)])

    @cached_property
    def bounds(self) -> Mapping[str, list[tuple[Any, Any]]]:
        """Per row group the least and greatest value of the columns that reads choose by."""
        return {
            name: [_bounds(each, raw=name == "time") for each in self._statistics(name)]
            for name in (*PRUNED, "time")
            if name in self.names
        }

    @cached_property
    def words(self) -> dict[str, list[str | None]]:
        """Per row group the word that a text column has in every row; None where it has several."""
        schema = self.metadata.schema.to_arrow_schema()
        texts = [field.name for field in schema if pa.types.is_dictionary(field.type)]
        return {
            name: [_only_word(each) for each in self._statistics(name)]
            for name in texts
            if name not in (*PRUNED, "time")
        }

    def constants(self, groups: Sequence[int], names: Iterable[str]) -> dict[str, str]:
        """Return those of some columns that have one and the same word in all rows of some row groups."""
        constants = {}
        for name in names:
            words = self.words.get(name)
            if words is not None and groups:
                first = words[groups[0]]
                if first is not None and all(words[group] == first for group in groups):
                    constants[name] = first
        return constants

    def _statistics(self, name: str) -> list[pq.Statistics | None]:
        column = self.metadata.schema.names.index(name)
        groups = range(self.metadata.num_row_groups)
        return [self.metadata.row_group(group).column(column).statistics for group in groups]


@contextmanager
def reading(place: str) -> Iterator[None]:
    """Turn what a damaged file raises into one clear error; an absent file stays a FileNotFoundError."""
    try:
        yield
    except FileNotFoundError:
        raise FileNotFoundError(errno.ENOENT, "a file of the archive is missing", place) from None
    except (ConnectionError, PermissionError, TimeoutError) as problem:
        raise ArchiveError(f"{place}: cannot be read: {problem.strerror or problem}") from None
    except (OSError, pa.ArrowException) as problem:
        why = " ".join(str(problem).split())
        raise ArchiveError(f"{place}: the file is damaged ({why}): restore it from a copy") from None


def footer(storage: Storage, file: DataFile) -> Footer:
    """Read what a file's end says; once, and again if another file is there than before.

    Raises
    ------
    OSError
        The file cannot be read, or its end is not the one of which the manifest has the digest.
    """
    return _footer(storage, file, storage.state(file.path))


@lru_cache(maxsize=1024)
def _footer(storage: Storage, file: DataFile, _state: Hashable) -> Footer:
    return Footer(storage, file)


def footer_of_table(storage: Storage, file: DataFile, table: Table) -> Footer:
    """Read what a file's end says, and refuse the file of another table.

    Raises
    ------
    ArchiveError
        The file is damaged, or holds another table.
    """
    place = storage.place(file.path)
    with reading(place):
        read = footer(storage, file)
        stored = read.table or "no table of an archive"
    if stored != table.name:
        raise ArchiveError(f"{place}: the file holds {stored}, not {table.name}")
    refuse_lacking(place, table, read.names)
    return read


def footer_of(end: bytes) -> bytes:
    """Return the footer at the end of a file: what it says, how long that is, and four letters."""
    return end[-int.from_bytes(end[-8:-4], "little") - 8 :]


def _checked_footer(file: DataFile, end: bytes) -> bytes:
    text = footer_of(end)
    if digest(text).hexdigest() != file.tail:
        raise OSError("its end is not the one that was written")
    return text


def open_parquet(storage: Storage, file: DataFile, footer: Footer | None = None) -> pq.ParquetFile:
    """Open a file for reading; from a store of objects its columns come in few requests."""
    return pq.ParquetFile(
        storage.source(file.path, file.size),
        metadata=None if footer is None else footer.metadata,
        page_checksum_verification=True,
        pre_buffer=storage.remote,
    )


def digest(data: bytes = b"") -> hashlib.blake2b:
    """Return a new hash of the kind that archives use."""
    return hashlib.blake2b(data, digest_size=16)


def _bounds(statistics: pq.Statistics | None, *, raw: bool) -> tuple[Any, Any]:
    if statistics is None or not statistics.has_min_max:
        return None, None
    if raw:
        return statistics.min_raw, statistics.max_raw
    return statistics.min, statistics.max


def _only_word(statistics: pq.Statistics | None) -> str | None:
    """Return the word that every row of a row group has; None where they differ, or the file does not say."""
    if statistics is None or not statistics.has_min_max or statistics.null_count != 0:
        return None
    return str(statistics.min) if statistics.min == statistics.max else None
