"""Single pages of numbers of a Parquet file, decoded without a reader of whole files.

Opening a file with pyarrow costs more than decoding the page in which a series lies. Where an index says at
which bytes the page is, this decodes it: eight-byte numbers in plain encoding, compressed by zstd, with a
checksum, as the archive writes them. Whatever else a page is, is left to pyarrow.

References
----------
Apache Parquet, "File Format": parquet.thrift (PageHeader, DataPageHeader), Encodings (PLAIN, RLE).
"""

from __future__ import annotations

import zlib
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

__all__ = ["Numbers", "numbers_of_page"]

_HEADER_BYTES = 256
_DATA_PAGE, _PLAIN, _RLE = 0, 0, 3
_TYPE, _SIZE, _PACKED_SIZE, _CHECKSUM = range(1, 5)
"""Fields of a page's header."""
_VALUES, _ENCODING, _LEVELS = range(501, 504)
"""Fields within its field 5, which only pages of data have."""

# Types of the compact protocol of Thrift that a page's header has.
_STOP, _FLAGS, _INTEGERS, _BINARY, _STRUCT = 0, (1, 2), (4, 5, 6), 8, 12
_KINDS = (*_FLAGS, *_INTEGERS, _BINARY, _STRUCT)


class Numbers(NamedTuple):
    """Values of some rows, and which of them are there; None where all are."""

    values: np.ndarray[Any, Any]
    present: np.ndarray[Any, Any] | None

    def of_rows(self, rows: Any) -> Numbers:
        """Return some of the rows: those of a slice, or of an array of places.

        Few of many are copied: a page must not stay in memory for one series of hundreds.
        """
        values = self.values[rows]
        present = None if self.present is None else self.present[rows]
        if 2 * values.size < self.values.size:
            values = values.copy()
            present = None if present is None else present.copy()
        return Numbers(values, present)


def numbers_of_page(data: memoryview, rows: int, kind: str, *, optional: bool) -> Numbers | None:
    """Return the numbers of a column chunk of one page; None where it is stored in another way.

    `kind` is the numpy type of the values. An `optional` column may lack values: it stores before the values
    which of them are there.

    Raises
    ------
    OSError
        The page is damaged.
    """
    try:
        return _decoded(data, rows, kind, optional)
    except (IndexError, ValueError):  # it ends too early, or has too few values
        raise OSError("a page is cut off") from None


def _decoded(data: memoryview, rows: int, kind: str, optional: bool) -> Numbers | None:
    header: dict[int, int] = {}
    packed = data[_read_fields(data[:_HEADER_BYTES], 0, 0, header) :]
    layout = [header.get(field) for field in (_TYPE, _ENCODING, _LEVELS, _VALUES, _PACKED_SIZE)]
    if layout != [_DATA_PAGE, _PLAIN, _RLE, rows, len(packed)]:
        return None
    if zlib.crc32(packed) != header.get(_CHECKSUM, 0) & 0xFFFFFFFF:
        raise OSError("the checksum of a page does not match")
    size = header.get(_SIZE, 0)
    if not 0 < size <= 9 * rows + 64:  # a value and, for some bytes of all rows, which are there
        raise OSError("a page has the wrong size")
    content = memoryview(pa.Codec("zstd").decompress(packed, size)).cast("B")
    if not optional:
        return Numbers(np.frombuffer(content, kind, rows), None)
    length = 4 + int.from_bytes(content[:4], "little")
    present = _levels(content[4:length], rows)
    count = rows if present is None else int(np.count_nonzero(present))
    stored = np.frombuffer(content, kind, count, offset=length)
    if present is None:
        return Numbers(stored, None)
    values = np.zeros(rows, kind)
    values[present] = stored
    return Numbers(values, present)


def _levels(data: memoryview, rows: int) -> np.ndarray[Any, Any] | None:
    """Return which rows have a value; None where all have.

    Levels of one bit are runs: a header of an even number is twice the length of a run of the level in the
    next byte; of an odd number, twice the number of the bytes that follow, a bit for each row, and one.
    """
    present = np.zeros(rows, bool)
    at = row = 0
    while row < rows:
        header, at = _varint(data, at)
        count = header >> 1
        if header & 1:
            bits = np.unpackbits(np.frombuffer(data[at : at + count], np.uint8), bitorder="little")
            present[row : row + 8 * count] = bits[: rows - row]  # the last byte is filled up with zeros
            at, row = at + count, row + 8 * count
        elif count >= rows and data[at] == 1:
            return None
        else:
            present[row : row + count] = data[at] == 1
            at, row = at + 1, row + count
    return None if present.all() else present


def _read_fields(data: memoryview, at: int, within: int, fields: dict[int, int]) -> int:
    """Read the numbers of a struct of Thrift's compact protocol; return where it ends.

    Their keys in `fields` are those of the struct, and those of a struct in field 5 are 501, 502 and so on.
    """
    number = 0
    while data[at] != _STOP:
        step, kind = data[at] >> 4, data[at] & 15
        if not step or kind not in _KINDS:  # a field's number is its distance from the one before, below 16
            raise OSError(f"the header of a page has a field of type {data[at]}")
        at += 1
        number += step
        if kind in _INTEGERS:
            value, at = _varint(data, at)
            fields[100 * within + number] = _signed(value)
        elif kind == _STRUCT:
            at = _read_fields(data, at, 100 * within + number, fields)
        elif kind == _BINARY:
            length, at = _varint(data, at)
            at += length
    return at + 1


def _varint(data: memoryview, at: int) -> tuple[int, int]:
    """Return a number stored as seven bits a byte, lowest first, and where it ends."""
    value = shift = 0
    while data[at] > 127:
        value |= (data[at] & 127) << shift
        shift += 7
        at += 1
    return value | data[at] << shift, at + 1


def _signed(value: int) -> int:
    """Return a signed number from its zigzag form, in which 0, −1, 1, −2 are 0, 1, 2, 3."""
    return value >> 1 ^ -(value & 1)
