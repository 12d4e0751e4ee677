"""Answers that no document describes, laid out as rows so that nothing in them is lost."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pandas as pd

from derivdata import tables, times, transport
from derivdata.api import Endpoint
from derivdata.errors import SchemaError
from derivdata.fetch.rolling import rolling
from derivdata.fetch.windows import get_windows, inside
from derivdata.transport import Answer


def fetch_rows(endpoint: Endpoint, params: Mapping[str, Any]) -> pd.DataFrame:
    """Every part of the answer as rows of its open table.

    A list of objects gives a row each, an object one row, an object of objects or lists a row each with
    its name in ``key``, an empty list or object none; what stands at the top of the answer is the row of
    part ``answer``. A ``range`` is given the endpoint's own name for it.

    Raises
    ------
    SchemaError
        The answer is no object, or says of itself that it failed.
    """
    if "range" in params:
        params = {**params, "range": rolling(endpoint, params["range"])}
    return _table(endpoint, [transport.get(endpoint, params, into=dict[str, Any])])


def fetch_windows(
    endpoint: Endpoint, params: Mapping[str, Any], spans: Sequence[times.Window]
) -> pd.DataFrame:
    """The answers over spans as one open table, rows whose time lies outside of their span left out.

    Raises
    ------
    SchemaError
        As `fetch_rows`.
    """
    answers = list(get_windows(endpoint, [params], spans, dict[str, Any]))
    for answer in answers:
        rows = answer.body.get("data")
        if isinstance(rows, list):
            answer.body["data"] = _inside(answer, rows)
    return _table(endpoint, answers[::-1])


def _inside(answer: Answer[Any], rows: list[Any]) -> list[Any]:
    """Rows of the span that was asked for; all of them where one states no time that can be read."""
    try:
        stamps = times.parse([row.get("timestamp") or row["t"] for row in rows])
    except (AttributeError, KeyError, TypeError, ValueError):
        return rows
    return [row for row, there in zip(rows, inside(answer, stamps.asi8), strict=True) if there]


def _table(endpoint: Endpoint, answers: Sequence[Answer[dict[str, Any]]]) -> pd.DataFrame:
    """The rows of all answers; what stands at the top of several alike is one row."""
    tops: list[dict[str, Any]] = []
    rows: list[dict[str, Any]] = []
    for answer in answers:
        if answer.body.get("success") is False:
            reason = answer.body.get("error", "no reason given")
            raise SchemaError(f"{endpoint.path}.success is false: {reason}")
        top = _top(answer.body)
        tops += [top] if top and top not in tops else []
        rows += [row for name, value in answer.body.items() if _has_rows(value) for row in _part(name, value)]
    frame = tables.OPEN_TABLES[endpoint.table].build([*({"part": "answer", **top} for top in tops), *rows])
    frame.attrs["provenance"] = transport.provenance(answers)
    return frame


def _top(body: Mapping[str, Any]) -> dict[str, Any]:
    """What an answer says of itself; an empty list is no rows."""
    top = {name: value for name, value in body.items() if not _has_rows(value) and value != []}
    return top if "range" in top or "period" not in top else {**top, "range": top["period"]}


def _has_rows(value: Any) -> bool:
    if isinstance(value, Mapping):
        return True
    return isinstance(value, list) and any(isinstance(item, Mapping) for item in value)


def _part(name: str, value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, list):
        for item in value:
            yield {"part": name, **_object(name, item)}
    elif all(_has_rows(item) or item == [] for item in value.values()):
        for key, item in value.items():
            for row in item if isinstance(item, list) else [item]:
                yield {"part": name, "key": key, **_object(name, row)}
    else:
        yield {"part": name, **value}


def _object(name: str, item: Any) -> Mapping[str, Any]:
    if not isinstance(item, Mapping):
        raise SchemaError(f"{name} holds {item!r:.60} among objects; see the answer with dd.raw(path, ...)")
    return item
