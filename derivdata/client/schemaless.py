"""Answers that no document describes, laid out as rows so that nothing in them is lost."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from derivdata.client import transport
from derivdata.client.reading import CheckedAnswer
from derivdata.client.retrieval import get_windows, rolling
from derivdata.client.rules import check
from derivdata.client.transport import Answer
from derivdata.errors import SchemaError
from derivdata.support import times
from derivdata.tables.definitions import OPEN_TABLES
from derivdata.tables.endpoints import Endpoint
from derivdata.tables.schema import OpenTable


def fetch_rows(endpoint: Endpoint, params: Mapping[str, Any]) -> pd.DataFrame:
    """Return every part of the answer as rows of its open table.

    A list of objects gives a row each, an object one row, an object of objects or lists a row each with
    its name in ``key``, an empty list or object none; what is at the top of the answer is the row of
    part ``answer``. A ``range`` is given the endpoint's own name for it.
    """
    if "range" in params:
        params = {**params, "range": rolling(endpoint, params["range"])}
    return _table(endpoint, [transport.get(endpoint, params, into=dict[str, Any])])


def fetch_windows(
    endpoint: Endpoint, params: Mapping[str, Any], spans: Sequence[times.Window]
) -> pd.DataFrame:
    """Return the answers over spans as one open table."""
    return _table(endpoint, list(get_windows(endpoint, [params], spans, dict[str, Any]))[::-1])


def _table(endpoint: Endpoint, answers: Sequence[Answer[dict[str, Any]]]) -> pd.DataFrame:
    """Return the rows of all answers; what is at the top of several alike is one row."""
    table = OPEN_TABLES[endpoint.table]
    tops: list[dict[str, Any]] = []
    rows: list[dict[str, Any]] = []
    seen: list[Answer[Any]] = []
    for answer in answers:
        try:
            if answer.body.get("success") is False:
                reason = answer.body.get("error", "no reason given")
                raise SchemaError(f"{endpoint.path}.success is false: {reason}")
            parts = answer.body.items()
            answer_rows = [row for name, value in parts if _has_rows(value) for row in _part(name, value)]
            checked_rows, notices = _checked(answer, table, answer_rows)
        except SchemaError:
            transport.SESSION.forget(answer.request)
            raise
        for notice in notices:
            transport.notify(answer.request, notice)
        # The fields next to the rows; an empty list is no rows.
        top = {name: value for name, value in answer.body.items() if not _has_rows(value) and value != []}
        if "range" not in top and "period" in top:
            top["range"] = top["period"]
        tops += [top] if top and top not in tops else []
        rows += checked_rows
        seen.append(replace(answer, notices=(*answer.notices, *notices)))
    frame = table.build([*({"part": "answer", **top} for top in tops), *rows])
    frame.attrs["provenance"] = transport.provenance(seen)
    return frame


def _checked(
    answer: Answer[Any], table: OpenTable, rows: list[dict[str, Any]]
) -> tuple[list[dict[str, Any]], list[str]]:
    """Return the rows that the rules keep, and the notices about the answer."""
    built = table.build(rows)
    columns = {
        name: values.to_numpy() if values.dtype == "float64" else values.array
        for name, values in built.items()
    }
    for name in ("timestamp", "t"):
        if name in built and built[name].dtype.kind == "M" and built[name].notna().all():
            columns["time"] = columns[name]
    evidence = CheckedAnswer(answer, None, {"place": np.arange(len(rows)), **columns}, {})
    notices = check(evidence)
    return [rows[place] for place in evidence.columns["place"]], notices


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
        raise SchemaError(f"{name} holds {item!r:.60} among objects; see the response with dd.raw(path, ...)")
    return item
