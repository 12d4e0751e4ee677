"""JSON schemas of the pieces that payloads are made of; rows come from the library's tables."""

from __future__ import annotations

from typing import Any, TypeAlias

from derivdata import tables
from derivdata.tables.schema import Column, Kind

Schema: TypeAlias = dict[str, Any]

TEXT: Schema = {"type": "string"}
NUMBER: Schema = {"type": "number"}
COUNT: Schema = {"type": "integer"}
FLAG: Schema = {"type": "boolean"}
ISO: Schema = {"type": "string", "pattern": r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,6})?Z$"}
STAMP: Schema = {"type": "string", "pattern": r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d$"}
NOTICES: Schema = {"type": "array", "items": {"type": "string"}}
RESOLUTION: Schema = {"type": "string", "description": "Resolution that was used."}

_ENVELOPE = ("time", "kind", "resolution")
_KINDS = {
    Kind.TEXT: TEXT,
    Kind.LABEL: TEXT,
    Kind.NUMBER: NUMBER,
    Kind.COUNT: COUNT,
    Kind.RANK: {"type": ["integer", "string"]},
    Kind.FLAG: FLAG,
    Kind.TIME: ISO,
}


def array(items: Schema) -> Schema:
    """Describe a list of one kind of item."""
    return {"type": "array", "items": items}


def mapping(values: Schema) -> Schema:
    """Describe an object whose names are data."""
    return {"type": "object", "additionalProperties": values}


def maybe(schema: Schema) -> Schema:
    """Describe the same, or null."""
    return either(schema, {"type": "null"})


def either(*schemas: Schema) -> Schema:
    """Describe one of several."""
    return {"anyOf": list(schemas)}


def record(**fields: Schema) -> Schema:
    """Describe an object that has all of these fields."""
    return {"type": "object", "properties": fields, "required": list(fields)}


def open_object(**fields: Schema) -> Schema:
    """Describe an object that has these fields and any others: its payload is documented nowhere."""
    return record(**fields) | {"additionalProperties": True}


def row(table: str, *, drop: str = "", time: bool = False, **more: Schema) -> Schema:
    """Describe a row of a table under its names on the wire.

    `drop` are columns that stand elsewhere in the payload, besides time, kind and resolution; `time` says
    whether the row has its own, and `more` are further fields.
    """
    definition = tables.TABLES[table]
    away = {*drop.split(), *_ENVELOPE} - ({"time"} if time else set())
    columns = {name: c for name, c in definition.columns.items() if name not in away}
    fields = {
        definition.wire.get(name, name): _field(name, c, definition.key) for name, c in columns.items()
    } | more
    required = [definition.wire.get(name, name) for name in columns if name not in definition.optional]
    return {"type": "object", "properties": fields, "required": [*required, *more]}


def _field(name: str, column: Column, key: tuple[str, ...]) -> Schema:
    schema = _KINDS[column.kind]
    unit = f" [{column.unit}]" if column.unit else ""
    described = {"description": column.doc + unit}
    return {**schema, **described} if name in key else {**maybe(schema), **described}
