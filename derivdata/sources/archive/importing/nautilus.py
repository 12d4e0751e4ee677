"""Parquet files of NautilusTrader's catalogs: fixed-point numbers, and the instrument in the metadata."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from derivdata.support.arrays import Array

_SCALES = {8: 1e9, 16: 1e16}
"""Units of a number by its bytes (nautilus_trader 1.221.0: standard and high precision)."""
_SIZES = ("volume", "size")


def readable(table: pa.Table, metadata: Mapping[bytes, bytes] | None) -> pa.Table:
    """Return the rows of a catalog with numbers and the column ``instrument_id``; other tables unchanged."""
    instrument = (metadata or {}).get(b"instrument_id")
    if metadata is None or instrument is None or "ts_event" not in table.column_names:
        return table
    for place, field in enumerate(table.schema):
        if pa.types.is_fixed_size_binary(field.type) and field.type.byte_width in _SCALES:
            key = b"size_precision" if field.name in _SIZES else b"price_precision"
            decimals = int(metadata.get(key, b"9"))
            numbers = _numbers(table[place], field.type.byte_width, decimals)
            table = table.set_column(place, field.name, pa.array(numbers))
        elif pa.types.is_binary(field.type):  # a decimal as JSON: "0.0001" with its quotes
            words = [
                None if value is None else value.decode().strip('"') for value in table[place].to_pylist()
            ]
            table = table.set_column(place, field.name, pa.array(words, pa.string()))
    if "instrument_id" in table.column_names:
        return table
    return table.append_column("instrument_id", pa.repeat(instrument.decode(), len(table)))


def _numbers(column: pa.ChunkedArray, width: int, decimals: int) -> Array:
    """Return signed little-endian fixed-point numbers, rounded to the decimals of the instrument."""
    raw = np.frombuffer(b"".join(column.to_pylist()), dtype="<u8")
    if width == 8:
        values = raw.view("<i8") / _SCALES[width]
    else:
        low = raw[0::2]
        high = raw[1::2].view("<i8")
        values = high * (2.0**64 / _SCALES[width]) + low / _SCALES[width]
    return np.asarray(np.round(values, decimals))
