"""Attributes of many structs as columns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Any

import pyarrow as pa
from msgspec import UNSET, Struct
from msgspec.structs import astuple

from derivdata.tables.schema.column import Kind, packed

_ARROW = {
    Kind.TEXT: pa.string(),
    Kind.LABEL: pa.large_string(),
    Kind.TIME: pa.string(),
    Kind.NUMBER: pa.float64(),
    Kind.COUNT: pa.float64(),
}
_BATCH = 512


def in_batches(rows: Sequence[Struct]) -> Iterable[Sequence[Struct]]:
    """Yield rows in batches that stay in the processor's cache while all their fields are read."""
    return (rows[start : start + _BATCH] for start in range(0, len(rows), _BATCH))


def gather(batches: Iterable[Sequence[Struct]], kinds: Mapping[str, Kind]) -> dict[str, Any]:
    """Return columns by field, without those that the structs lack or that no row gives (`msgspec.UNSET`).

    A column is Arrow text or numbers where its kind is one of these and every value is, else a list.
    """
    arrays: dict[str, list[Any]] = {name: [] for name in kinds}
    for rows in batches:
        fields = rows[0].__struct_fields__
        # One list of all fields row after row: a column is a slice of it, which takes half of a zip's time.
        values = [*chain.from_iterable(map(astuple, rows))]
        for place, name in enumerate(fields):
            if name in arrays:
                arrays[name].append(_arrow(values[place :: len(fields)], kinds[name]))
    none_yet = not any(arrays.values())
    columns = {name: _column(parts) for name, parts in arrays.items() if parts or none_yet}
    return {name: values for name, values in columns.items() if values is not None}


def _arrow(values: list[Any], kind: Kind) -> Any:
    if values[0] is UNSET:  # Arrow has no such value: it would look at each before it says so
        return values
    numbers = packed(values) if kind in (Kind.NUMBER, Kind.COUNT) else None
    if numbers is not None:
        return pa.array(numbers)
    try:
        return pa.array(values, _ARROW[kind]) if kind in _ARROW else values
    except (pa.ArrowInvalid, TypeError):
        return values


def _column(parts: list[Any]) -> Any:
    """Join the parts; None where rows are there and all are unset."""
    if parts and not any(isinstance(part, list) for part in parts):
        return pa.chunked_array(parts)
    if parts and all(isinstance(part, list) and part.count(UNSET) == len(part) for part in parts):
        return None
    values = [value for part in parts for value in (part if isinstance(part, list) else part.to_pylist())]
    return [None if value is UNSET else value for value in values]
