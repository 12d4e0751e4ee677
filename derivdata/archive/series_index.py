"""Where each series lies in a file: an index in its footer, from which names and instants follow.

Rows are sorted by symbol, venue and time, and most series are sampled at one step. So a file is a list of
runs: rows of one symbol and venue whose instants follow each other in steps of the file. A read takes symbol,
venue and time from the runs, decodes the other columns alone, and only where chosen series lie.

Files of irregular instants, of few rows and of earlier versions have none, and are read without.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa

from derivdata.archive.schemas import INSTANT, sorting
from derivdata.archive.selections import TimeRange, Where
from derivdata.schema import Table

__all__ = ["INDEXED", "KEY", "IndexBuilder", "Ints", "Pieces", "SeriesIndex", "unpacked"]

INDEXED = ("symbol", "exchange", "time")
"""Columns that follow from the index."""

KEY = b"derivdata.series"
"""Key of a file's metadata that holds the index."""

_VERSION = 1
_ROWS_PER_RUN = 4
_MOST_RUNS = 1 << 15
"""Such an index takes a quarter of a megabyte in memory, and those of a thousand files are kept."""
_CODEC = pa.Codec("zstd", compression_level=3)

Ints = np.ndarray[Any, Any]


class _Stamped(msgspec.Struct):
    """What every version of the index has."""

    version: int


class _Packed(_Stamped):
    """The index as it is stored; `numbers` are the least types and the bytes of the arrays of a run."""

    step: int
    unit: int
    origin: int
    words: list[list[str]]
    constants: dict[str, str]
    numbers: list[tuple[str, bytes]]


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


class SeriesIndex(NamedTuple):
    """The runs of a file, in the order of its rows.

    Attributes
    ----------
    words
        Symbols and venues.
    codes
        Number of each run's symbol and venue among them.
    bounds
        First row of each run, and the number of rows.
    step
        Distance of the instants of a run [µs].
    origin, unit, units
        First instant of each run: ``origin + unit * units`` [µs].
    constants
        The word of each other text column that has the same in every row.
    """

    words: list[list[str]]
    codes: list[Ints]
    bounds: Ints
    step: int
    origin: int
    unit: int
    units: Ints
    constants: Mapping[str, str]

    def pieces(self, window: TimeRange, where: Where, edges: Ints) -> Pieces:
        """Return the rows within a window whose symbol and venue are chosen, cut at the row groups' edges."""
        run = self._runs(where)
        begin, end = (self.bounds[row].astype(np.int64) for row in (run, run + 1))
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

    def columns(self, pieces: Pieces, names: Sequence[str]) -> dict[str, pa.Array]:
        """Return those of symbol, venue and time that are named, for the rows of some pieces."""
        columns: dict[str, pa.Array] = {}
        for name, words, codes in zip(INDEXED, self.words, self.codes, strict=False):
            if name in names:
                used, place = np.unique(codes[pieces.run], return_inverse=True)
                indices = pa.array(np.repeat(place.astype(np.int32), pieces.length))
                texts = pa.array([words[code] for code in used.tolist()], pa.string())
                columns[name] = pa.DictionaryArray.from_arrays(indices, texts)
        if "time" in names:
            # The k-th row of all is row k − (rows of the pieces before) of its piece.
            before = np.cumsum(pieces.length) - pieces.length
            origin = self._first(pieces.run) + self.step * (pieces.row - self.bounds[pieces.run] - before)
            stamps = np.repeat(origin, pieces.length)
            stamps += np.arange(0, self.step * stamps.size, self.step) if self.step else 0
            columns["time"] = pa.array(stamps).view(INSTANT)
        return columns

    def _runs(self, where: Where) -> Ints:
        """Return the numbers of the runs whose symbol and venue are chosen."""
        run: Ints | None = None
        for name, words, codes in zip(INDEXED, self.words, self.codes, strict=False):
            if name in where:
                wanted = np.array([word in where[name] for word in words])
                within = codes if run is None else codes[run]
                # Comparing with the only code is many times faster than looking each up.
                mask = within == np.argmax(wanted) if wanted.sum() == 1 else wanted[within]
                run = np.flatnonzero(mask) if run is None else run[mask]
        return np.arange(self.units.size) if run is None else run

    def _first(self, run: Ints) -> Ints:
        """Return the first instant of some runs [µs]."""
        first: Ints = self.origin + self.unit * self.units[run].astype(np.int64)
        return first

    def _inside(self, window: TimeRange, run: Ints, length: Ints) -> tuple[Ints, Ints]:
        """Return the numbers of the first row of each run within a window, and of the first after it."""
        first = self._first(run)
        if not first.size or not self.step:
            inside = (first >= window.start) & (first < window.end)
            return np.zeros_like(length), np.where(inside, length, 0)
        # The window may be ever: it is cut to the instants of the runs before they are subtracted.
        least, most = int(first.min()), int((first + self.step * length).max())
        if window.start <= least and window.end >= most:
            return np.zeros_like(length), length
        edges = (min(max(edge, least), most) for edge in window)
        low, high = (np.clip(-((first - edge) // self.step), 0, length) for edge in edges)
        return low, high


@lru_cache(maxsize=1024)
def unpacked(text: bytes) -> SeriesIndex | None:
    """Return the index from a file's metadata; None where it is of a later version."""
    data = base64.b64decode(text)
    size = int.from_bytes(data[:8], "little")
    plain = _CODEC.decompress(data[8:], size)
    if msgspec.msgpack.decode(plain, type=_Stamped).version != _VERSION:
        return None  # its other fields may be others
    packed = msgspec.msgpack.decode(plain, type=_Packed)
    symbol, exchange, length, units = (np.frombuffer(part, dtype=kind) for kind, part in packed.numbers)
    bounds = np.zeros(length.size + 1, np.int32)  # a file of more rows than fit would be of many GB
    np.cumsum(length, out=bounds[1:])
    codes = [symbol, exchange]
    return SeriesIndex(
        packed.words, codes, bounds, packed.step, packed.origin, packed.unit, units, packed.constants
    )


class IndexBuilder:
    """Collector of the runs of a file, fed with its rows in order."""

    def __init__(self, table: Table) -> None:
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

    def metadata(self) -> dict[bytes, bytes]:
        """Return the index as metadata of the file; none where it would not pay."""
        if not self._following or not self._runs:
            return {}
        symbol, exchange, length, first = (np.concatenate(part) for part in zip(*self._runs, strict=True))
        origin = int(np.min(first))
        unit = math.gcd(*(first - origin).tolist()) or 1
        packed = _Packed(
            version=_VERSION,
            step=self._step or 0,
            unit=unit,
            origin=origin,
            words=[list(known) for known in self._words],
            constants=self._constants or {},
            numbers=[_least(numbers) for numbers in (symbol, exchange, length, (first - origin) // unit)],
        )
        plain = msgspec.msgpack.encode(packed)
        data = len(plain).to_bytes(8, "little") + _CODEC.compress(plain, asbytes=True)
        return {KEY: base64.b64encode(data)}  # metadata of Parquet is text: other readers decode it


def _least(numbers: Ints) -> tuple[str, bytes]:
    """Return the bytes of numbers from 0 on in the smallest type that holds them, and its name."""
    kind = np.min_scalar_type(int(numbers.max())).newbyteorder("<")
    return kind.str, numbers.astype(kind).tobytes()


def _constants(rows: pa.Table) -> dict[str, str]:
    """Return the word of each text column besides symbol and venue that has one and no gap."""
    found = {}
    for field in rows.schema:
        if pa.types.is_dictionary(field.type) and field.name not in INDEXED:
            text = rows[field.name].chunk(0)
            codes = np.asarray(text.indices) if not text.null_count else np.array([0, 1])
            if codes.min() == codes.max():
                found[field.name] = text.dictionary[int(codes[0])].as_py()
    return found


def _common(before: Mapping[str, str] | None, found: dict[str, str]) -> dict[str, str]:
    return found if before is None else {n: word for n, word in found.items() if before.get(n) == word}
