"""Where each series lies in a file: an index before its footer, from which names and instants follow.

Rows are sorted by symbol, venue and time, and most series are sampled at one step. So a file is a list of
runs: rows of one symbol and venue whose instants follow each other in steps of the file. A read takes symbol,
venue and time from the runs, decodes the other columns alone, and only where chosen series lie. For columns
of plain numbers the index also says at which bytes the values of each row group are.

The index stands between the last row group and the footer, where Parquet allows indexes and other readers do
not look: its content, then its length, its checksum and eight letters. Files of irregular instants, of few
rows and of earlier versions have none, and are read without.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa

from derivdata.sources.archive.selections import TimeRange, Where

__all__ = [
    "END_BYTES",
    "INDEXED",
    "Ints",
    "Pieces",
    "PlainColumn",
    "Runs",
    "SeriesIndex",
    "packed",
    "size_of",
    "unpacked",
]

INDEXED = ("symbol", "exchange", "time")
"""Columns that follow from the index."""

_LETTERS = b"ddSERIES"
END_BYTES = 8 + len(_LETTERS)
"""What follows the content: its length, its checksum and the letters."""
_VERSION = 2
_CODEC = pa.Codec("zstd", compression_level=3)

Ints = np.ndarray[Any, Any]


class _Stamped(msgspec.Struct):
    """What every version of the index has."""

    version: int


class PackedRuns(msgspec.Struct):
    """What files of the same series and gaps share; `numbers` are the types and bytes of its arrays.

    Those are: numbers of symbols, and of how many runs each; of each run the number of its venue, its rows
    and its first instant; rows of each row group.
    """

    table: str
    names: list[str]
    step: int
    unit: int
    words: list[list[str]]
    constants: dict[str, str]
    numbers: list[tuple[str, memoryview]]


class PackedColumn(msgspec.Struct):
    """A column of plain numbers; the bytes of arrays with a number per row group."""

    kind: str
    optional: bool
    offsets: bytes
    sizes: bytes


class _Packed(_Stamped):
    """The index as it is stored; `runs` are `PackedRuns`, compressed, whose length is `runs_size`."""

    origin: int
    runs: bytes
    runs_size: int
    columns: dict[str, PackedColumn]


class Pieces(NamedTuple):
    """Rows of single runs within single row groups: their run, first row, group and number."""

    run: Ints
    row: Ints
    group: Ints
    length: Ints

    def within(self, groups: Sequence[int]) -> Pieces:
        """Return the pieces that lie in some row groups."""
        inside = np.isin(self.group, groups)
        return self if inside.all() else Pieces(*(part[inside] for part in self))

    @property
    def groups(self) -> list[int]:
        """The row groups that they lie in, in order."""
        if not self.group.size:
            return []
        one = self.group[0] == self.group[-1]  # they are in order
        groups: list[int] = self.group[:1].tolist() if one else np.unique(self.group).tolist()
        return groups


@dataclass(frozen=True, eq=False)
class Runs:
    """The runs of a file, in the order of its rows; files of the same series and gaps have the same.

    Attributes
    ----------
    table, names
        The table, and the columns that the file has.
    edges
        First row of each row group, and the number of rows.
    words
        Symbols and venues.
    codes
        Number of each run's symbol and venue among them.
    bounds
        First row of each run, and the number of rows.
    step
        Distance of the instants of a run [µs].
    unit, units
        First instant of each run: ``unit * units`` after the file's first [µs].
    constants
        The word of each other text column that has the same in every row.
    """

    table: str
    names: frozenset[str]
    edges: Ints
    words: list[list[str]]
    codes: list[Ints]
    bounds: Ints
    step: int
    unit: int
    units: Ints
    constants: Mapping[str, str]

    def chosen(self, where: Where) -> Ints:
        """Return the numbers of the runs whose symbol and venue are chosen."""
        run: Ints | None = None
        for name, words, codes in zip(INDEXED, self.words, self.codes, strict=False):
            if name in where:
                within = codes if run is None else codes[run]
                if len(where[name]) == 1:  # comparing with the only code is faster than looking each up
                    (only,) = where[name]
                    mask = within == (words.index(only) if only in words else len(words))
                else:
                    wanted = [code for code, word in enumerate(words) if word in where[name]]
                    mask = np.isin(within, wanted)
                run = np.flatnonzero(mask) if run is None else run[mask]
        return np.arange(self.units.size) if run is None else run


class PlainColumn(NamedTuple):
    """A column of plain numbers: its type, whether values may lack, and the bytes of each row group."""

    kind: str
    optional: bool
    offsets: Ints
    sizes: Ints


class SeriesIndex(NamedTuple):
    """The index of one file: its runs, its first instant [µs], and where columns of plain numbers are."""

    runs: Runs
    origin: int
    columns: Mapping[str, PlainColumn]

    def pieces(self, window: TimeRange, where: Where) -> Pieces:
        """Return the rows within a window whose symbol and venue are chosen, cut at the row groups' edges."""
        run, edges = self.runs.chosen(where), self.runs.edges
        begin, end = (self.runs.bounds[row].astype(np.int64) for row in (run, run + 1))
        low, high = self._inside(window, run, end - begin)
        some = high > low
        if not some.all():
            run, begin, low, high = (part[some] for part in (run, begin, low, high))
        start, stop = begin + low, begin + high
        group, last = (np.searchsorted(edges, row, side="right") - 1 for row in (start, stop - 1))
        if (group == last).all():
            return Pieces(run, start, group, stop - start)
        # A run over several row groups becomes a piece in each: piece j of run i is the j-th group from its
        # first on, and numbers of pieces before run i are subtracted from a plain count to get j.
        count = last - group + 1
        which = np.repeat(np.arange(run.size), count)
        group = group[which] + np.arange(which.size) - np.repeat(np.cumsum(count) - count, count)
        row = np.maximum(start[which], edges[group])
        return Pieces(run[which], row, group, np.minimum(stop[which], edges[group + 1]) - row)

    def first(self, pieces: Pieces) -> Ints:
        """Return the first instant of each piece [µs]."""
        first: Ints = self._first(pieces.run)
        first += self.runs.step * (pieces.row - self.runs.bounds[pieces.run])
        return first

    def _first(self, run: Ints) -> Ints:
        """Return the first instant of some runs [µs]."""
        first: Ints = self.origin + self.runs.unit * self.runs.units[run].astype(np.int64)
        return first

    def _inside(self, window: TimeRange, run: Ints, length: Ints) -> tuple[Ints, Ints]:
        """Return the numbers of the first row of each run within a window, and of the first after it."""
        first, step = self._first(run), self.runs.step
        if not first.size or not step:
            inside = (first >= window.start) & (first < window.end)
            return np.zeros_like(length), np.where(inside, length, 0)
        # The window may be ever: it is cut to the instants of the runs before they are subtracted.
        least, most = int(first.min()), int((first + step * length).max())
        if window.start <= least and window.end >= most:
            return np.zeros_like(length), length
        edges = (min(max(edge, least), most) for edge in window)
        low, high = (np.clip(-((first - edge) // step), 0, length) for edge in edges)
        return low, high


def packed(runs: PackedRuns, origin: int, columns: dict[str, PackedColumn]) -> bytes:
    """Return an index as it stands in a file."""
    plain = msgspec.msgpack.encode(runs)
    content = msgspec.msgpack.encode(
        _Packed(
            version=_VERSION,
            origin=origin,
            runs=_CODEC.compress(plain, asbytes=True),
            runs_size=len(plain),
            columns=columns,
        )
    )
    numbers = np.array([len(content), zlib.crc32(content)], "<u4")
    return content + numbers.tobytes() + _LETTERS


def size_of(data: bytes) -> int:
    """Return the size of the index at the end of some bytes of a file; 0 where there is none."""
    return int.from_bytes(data[-16:-12], "little") + END_BYTES if data.endswith(_LETTERS) else 0


def unpacked(data: bytes) -> SeriesIndex | None:
    """Return an index as `packed` made it; None where it is of a later version.

    Raises
    ------
    OSError
        It is damaged.
    """
    content = data[:-END_BYTES]
    if zlib.crc32(content) != int.from_bytes(data[-12:-8], "little"):
        raise OSError("the checksum of its index does not match")
    if msgspec.msgpack.decode(content, type=_Stamped).version != _VERSION:
        return None  # its other fields may be others
    stored = msgspec.msgpack.decode(content, type=_Packed)
    columns = {
        name: PlainColumn(
            column.kind,
            column.optional,
            np.frombuffer(column.offsets, "<u8"),
            np.frombuffer(column.sizes, "<u4"),
        )
        for name, column in stored.columns.items()
    }
    return SeriesIndex(_runs(stored.runs, stored.runs_size), stored.origin, columns)


@lru_cache(maxsize=1024)
def _runs(data: bytes, size: int) -> Runs:
    """Return runs; the same object for all files that have the same."""
    stored = msgspec.msgpack.decode(_CODEC.decompress(data, size), type=PackedRuns)
    symbols, counts, venues, lengths, units, groups = (
        np.frombuffer(part, dtype=kind) for kind, part in stored.numbers
    )
    bounds = np.zeros(lengths.size + 1, np.int32)  # a file of more rows than fit would be of many GB
    np.cumsum(lengths, out=bounds[1:])
    edges = np.zeros(groups.size + 1, np.int64)
    np.cumsum(groups, out=edges[1:])
    return Runs(
        stored.table,
        frozenset(stored.names),
        edges,
        stored.words,
        [np.repeat(symbols, counts), venues],
        bounds,
        stored.step,
        stored.unit,
        units,
        stored.constants,
    )
