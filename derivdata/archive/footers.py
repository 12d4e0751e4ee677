"""Footers of Parquet files: row groups and the ranges of their values, checked once."""

from __future__ import annotations

import errno
import hashlib
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from derivdata.errors import ArchiveError

__all__ = ["PRUNED", "Footer", "digest", "footer", "reading", "tail_of"]

PRUNED = ("symbol", "exchange", "order_id")
"""Text columns whose range in a row group may rule out a match."""


class Footer(NamedTuple):
    """A file's metadata, its columns, and per row group the least and greatest value of some of them."""

    metadata: pq.FileMetaData
    names: frozenset[str]
    bounds: Mapping[str, list[tuple[Any, Any]]]


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turn what a damaged file raises into one clear error; an absent file stays a FileNotFoundError."""
    try:
        yield
    except FileNotFoundError:
        raise FileNotFoundError(errno.ENOENT, "a file of the archive is missing", str(path)) from None
    except (OSError, pa.ArrowException) as problem:
        why = " ".join(str(problem).split())
        raise ArchiveError(f"{path}: the file is damaged ({why}): restore it from a copy") from None


def footer(path: Path, tail: str) -> Footer:
    """Read what a file's end says; once, and again if another file is there than before.

    Raises
    ------
    OSError
        The file cannot be read, or its end is not the one of which `tail` is the digest.
    """
    state = path.stat()
    return _footer(path, tail, (state.st_ino, state.st_mtime_ns, state.st_size))


@lru_cache(maxsize=1024)
def _footer(path: Path, tail: str, _state: tuple[int, int, int]) -> Footer:
    with path.open("rb") as file:
        if tail_of(file) != tail:
            raise OSError("its end is not the one that was written")
    metadata = pq.read_metadata(path)
    names = metadata.schema.names
    bounds: dict[str, list[tuple[Any, Any]]] = {}
    for column, name in enumerate(names):
        kinds = (metadata.row_group(g).column(column).statistics for g in range(metadata.num_row_groups))
        if name in (*PRUNED, "time"):
            bounds[name] = [_bounds(s, raw=name == "time") for s in kinds]
    return Footer(metadata, frozenset(names), bounds)


def digest() -> hashlib.blake2b:
    """Return a new hash of the kind that archives use."""
    return hashlib.blake2b(digest_size=16)


def tail_of(file: BinaryIO) -> str:
    """Digest of a file's footer: the last eight bytes say how long it is before them."""
    size = file.seek(-8, os.SEEK_END) + 8
    length = int.from_bytes(file.read(4), "little")
    file.seek(max(0, size - length - 8))
    seen = digest()
    seen.update(file.read())
    return seen.hexdigest()


def _bounds(statistics: pq.Statistics | None, *, raw: bool) -> tuple[Any, Any]:
    if statistics is None or not statistics.has_min_max:
        return None, None
    if raw:
        return statistics.min_raw, statistics.max_raw
    return statistics.min, statistics.max
