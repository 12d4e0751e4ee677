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

from derivdata.archive import series_index
from derivdata.archive.manifest import DataFile
from derivdata.archive.series_index import SeriesIndex
from derivdata.archive.storage import Storage
from derivdata.errors import ArchiveError

__all__ = ["PRUNED", "Footer", "digest", "footer", "open_parquet", "reading"]

PRUNED = ("symbol", "exchange", "order_id")
"""Text columns whose range in a row group may rule out a match."""


class Footer:
    """A file's metadata: its columns, and what may rule out its row groups.

    Attributes
    ----------
    metadata, names
        As pyarrow reads it, and the names of the columns.
    edges
        First row of each row group, and the number of rows.
    """

    def __init__(self, metadata: pq.FileMetaData) -> None:
        self.metadata = metadata
        self.names = frozenset(metadata.schema.names)
        rows = [metadata.row_group(group).num_rows for group in range(metadata.num_row_groups)]
        self.edges = np.cumsum([0, *rows])
        self._index = (metadata.metadata or {}).get(series_index.KEY)

    @property
    def index(self) -> SeriesIndex | None:
        """Where each series lies; None where the file does not say."""
        return None if self._index is None else series_index.unpacked(self._index)

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
        found = {}
        for name in names:
            words = self.words.get(name)
            if words is not None and groups:
                first = words[groups[0]]
                if first is not None and all(words[group] == first for group in groups):
                    found[name] = first
        return found

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
    end = storage.tail(file.path, file.size)
    if digest(end).hexdigest() != file.tail:
        raise OSError("its end is not the one that was written")
    return Footer(pq.read_metadata(pa.BufferReader(end)))


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
