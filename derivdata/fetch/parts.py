"""Answers that no document describes, laid out as rows so that nothing in them is lost."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pandas as pd

from derivdata import tables, transport
from derivdata.api import Endpoint
from derivdata.errors import SchemaError


def opened(endpoint: Endpoint, params: Mapping[str, Any]) -> pd.DataFrame:
    """Every part of the answer as rows of its open table.

    A list of objects gives a row each, an object one row, an object of objects or lists a row each with
    its name in ``key``; what stands at the top of the answer is the row of part ``answer``.

    Raises
    ------
    SchemaError
        The answer is no object, or says of itself that it failed.
    """
    answer = transport.get(endpoint, params, into=dict[str, Any])
    if answer.body.get("success") is False:
        raise SchemaError(f"{endpoint.path}.success is false: {answer.body.get('error', 'no reason given')}")
    frame = tables.OPEN_TABLES[endpoint.table].build(list(_rows(answer.body)))
    frame.attrs["provenance"] = transport.provenance([answer])
    return frame


def _rows(body: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    top = {name: value for name, value in body.items() if not _has_rows(value)}
    if "range" not in top and "period" in top:
        top["range"] = top["period"]
    if top:
        yield {"part": "answer", **top}
    for name, value in body.items():
        if _has_rows(value):
            yield from _part(name, value)


def _has_rows(value: Any) -> bool:
    if isinstance(value, Mapping):
        return True
    return isinstance(value, list) and any(isinstance(item, Mapping) for item in value)


def _part(name: str, value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, list):
        for item in value:
            yield {"part": name, **_object(name, item)}
    elif value and all(_has_rows(item) for item in value.values()):
        for key, item in value.items():
            for row in item if isinstance(item, list) else [item]:
                yield {"part": name, "key": key, **_object(name, row)}
    else:
        yield {"part": name, **value}


def _object(name: str, item: Any) -> Mapping[str, Any]:
    if not isinstance(item, Mapping):
        raise SchemaError(f"{name} holds {item!r:.60} among objects; see the answer with dd.raw(path, ...)")
    return item
