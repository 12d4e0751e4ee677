"""The table that an answer of a bundle makes, by the fetcher of its endpoint, and rows that differ."""

from __future__ import annotations

import importlib.util
import inspect
import warnings
from collections.abc import Callable
from typing import Any

import pandas as pd

from derivdata import times, transport
from derivdata.api import Endpoint, ParamKind, Request, endpoint_of
from derivdata.bundle.layout import Entry, request_of, served_of
from derivdata.errors import DataNotice, DerivdataError, NotRecorded
from derivdata.schema import Table

__all__ = ["changed_rows", "table_of"]

_ARGUMENTS = {"min_value": "min_volume_usd"}
"""Wire names that no rule turns into the fetcher's argument."""


def table_of(entry: Entry, body: bytes) -> tuple[str, pd.DataFrame] | None:
    """Name and rows of an answer's table; None where no fetcher asks for just that, or it is an error.

    The fetcher itself is called, with the request's parameters, and given this answer and no other.
    """
    request = request_of(entry)
    endpoint = endpoint_of(entry.path)
    if endpoint is None or entry.status != 200:
        return None
    family, _, name = endpoint.table.partition("_")
    if importlib.util.find_spec(f"derivdata.fetch.{family}") is None:
        return None
    fetcher = getattr(importlib.import_module(f"derivdata.fetch.{family}"), name, None)
    if fetcher is None:
        return None
    given = _given(endpoint, request, inspect.signature(fetcher))
    if given is None:
        return None
    frame = _called(fetcher, given[0] | given[1], entry, body)
    if frame is None:
        frame = _called(fetcher, given[1], entry, body)
    return None if frame is None else (endpoint.table, frame)


def _called(
    fetcher: Callable[..., pd.DataFrame], arguments: dict[str, Any], entry: Entry, body: bytes
) -> pd.DataFrame | None:
    request = request_of(entry)

    def respond(asked: Request) -> transport.Served:
        if asked != request:
            raise NotRecorded(str(asked), "a fetcher asks for more than this answer")
        return served_of(entry, body)

    before = transport.set_responder(respond)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DataNotice)
            return fetcher(**arguments)
    except (DerivdataError, ValueError, TypeError):
        return None
    finally:
        transport.set_responder(before)


def _given(
    endpoint: Endpoint, request: Request, signature: inspect.Signature
) -> tuple[dict[str, Any], dict[str, Any]] | None:
    """What was not sent, said to be None, and the arguments that were; None where a parameter has none."""
    optional = [n for n, p in signature.parameters.items() if p.default is not inspect.Parameter.empty]
    kinds = {p.name: p.kind for p in endpoint.params}
    sent: dict[str, Any] = {}
    for wire, value in (*endpoint.values(request.path).items(), *request.query):
        known = (wire, f"{wire}s", _ARGUMENTS.get(wire))
        name = next((n for n in known if n in signature.parameters), None)
        if name is None or wire not in kinds:
            return None
        sent[name] = _value(kinds[wire], value)
    return dict.fromkeys(optional), sent


def _value(kind: ParamKind, text: str) -> Any:
    if kind is ParamKind.INTEGER:
        return int(text)
    if kind is ParamKind.NUMBER:
        return float(text)
    if kind is ParamKind.MILLIS:
        return pd.Timestamp(int(text), unit="ms", tz="UTC")
    if kind is ParamKind.LIST:
        return text.split(",")
    return times.instant(text) if kind is ParamKind.INSTANT else text


def changed_rows(table: Table, a: pd.DataFrame, b: pd.DataFrame) -> pd.DataFrame:
    """Rows of two frames of a table that differ, side by side.

    The one instant of a snapshot is not compared: the next snapshot has another in every row.
    """
    snapshot = _is_snapshot(a) and _is_snapshot(b)
    key = [name for name in table.key if not (snapshot and name == "time")]
    values = [n for n in table.columns if n not in table.key and not (snapshot and n == "time")]
    names = [*key, *values]
    both = _plain(a[names]).merge(
        _plain(b[names]), on=key, how="outer", suffixes=("_a", "_b"), indicator="change"
    )
    shared = both["change"] == "both"
    differs = ~shared
    for name in values:
        x, y = both[f"{name}_a"], both[f"{name}_b"]
        differs |= ~((x == y) | (x.isna() & y.isna())).fillna(False).astype(bool)
    labels = {"left_only": "only in a", "right_only": "only in b", "both": "changed"}
    both["change"] = both["change"].astype("str").map(labels)
    sides = [f"{name}_{side}" for name in values for side in "ab"]
    return both.loc[differs, [*key, "change", *sides]].reset_index(drop=True)


def _is_snapshot(frame: pd.DataFrame) -> bool:
    return "time" in frame.columns and frame["time"].nunique() <= 1


def _plain(frame: pd.DataFrame) -> pd.DataFrame:
    """The frame with categories as text: two answers rarely have the same ones."""
    texts = [n for n, dtype in frame.dtypes.items() if isinstance(dtype, pd.CategoricalDtype)]
    return frame.astype(dict.fromkeys(texts, "str"))
