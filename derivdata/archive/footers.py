"""Footers of Parquet files: row groups and the ranges of their values, checked once."""

from __future__ import annotations

import errno
import hashlib
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from derivdata.archive.manifest import DataFile
from derivdata.archive.storage import Storage
from derivdata.errors import ArchiveError

__all__ = ["PRUNED", "Footer", "digest", "footer", "open_parquet", "reading"]

PRUNED = ("symbol", "exchange", "order_id")
"""Text columns whose range in a row group may rule out a match."""


class Footer(NamedTuple):
    """A file's metadata, its columns, and per row group the least and greatest value of some of them.

    `words` are, per row group, the word that a text column has in every row; None where it has several.
    """

    metadata: pq.FileMetaData
    names: frozenset[str]
    bounds: Mapping[str, list[tuple[Any, Any]]]
    words: Mapping[str, list[str | None]]

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
    metadata = pq.read_metadata(pa.BufferReader(end))
    names = metadata.schema.names
    bounds: dict[str, list[tuple[Any, Any]]] = {}
    words: dict[str, list[str | None]] = {}
    groups = [metadata.row_group(g) for g in range(metadata.num_row_groups)]
    dictionaries = {f.name for f in metadata.schema.to_arrow_schema() if pa.types.is_dictionary(f.type)}
    for column, name in enumerate(names):
        if name in (*PRUNED, "time"):
            bounds[name] = [_bounds(g.column(column).statistics, raw=name == "time") for g in groups]
        elif name in dictionaries:
            words[name] = [_only_word(g.column(column).statistics) for g in groups]
    return Footer(metadata, frozenset(names), bounds, words)


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
