"""The tables of a bundle, for readers without the library."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from derivdata import tables
from derivdata.client.bundle.layout import request_of
from derivdata.client.bundle.reading import Bundle
from derivdata.client.bundle.refetch import table_of
from derivdata.support.arguments import typed
from derivdata.tables.endpoints import endpoint_of
from derivdata.tables.joining import joined_provenance

__all__ = ["BundleTables", "tables_of"]


@dataclass(frozen=True)
class BundleTables:
    """Tables of a recording.

    Attributes
    ----------
    tables
        Table name to its rows; of rows with the same key, that of the latest answer.
    answers
        One row per answer: ``path``, ``query``, ``status``, ``date``, ``sha256``, the ``table`` that it is
        part of (missing where it is an error, or no fetcher makes a table of it) and its ``rows``.
    synthetic
        Whether the recording is of synthetic data.
    """

    tables: Mapping[str, pd.DataFrame]
    answers: pd.DataFrame
    synthetic: bool


@typed
def tables_of(path: str | Path) -> BundleTables:
    """Return every table that the answers of a bundle make.

    Parameters
    ----------
    path
        The bundle.

    Raises
    ------
    BundleError
        It is not a bundle, damaged, or built to do harm.
    """
    bundle = Bundle(path)
    frames: dict[str, list[pd.DataFrame]] = {}
    lines: list[dict[str, Any]] = []
    try:
        for entry in bundle.entries:
            endpoint = endpoint_of(entry.path)
            frame = table_of(entry, bundle.body(entry), bundle.manifest.asof)
            name = rows = None
            if endpoint is not None and isinstance(frame, pd.DataFrame):
                name, rows = endpoint.table, len(frame)
                frames.setdefault(name, []).append(frame)
            query = str(request_of(entry)).partition("?")[2]
            facts = {"path": entry.path, "query": query, "status": entry.status, "date": entry.date}
            lines.append({**facts, "sha256": entry.sha256, "table": name, "rows": rows})
        joined = {name: _joined(name, parts) for name, parts in sorted(frames.items())}
        columns = ["path", "query", "status", "date", "sha256", "table", "rows"]
        answers = pd.DataFrame(lines, columns=columns).astype({"rows": "Int64"})
        return BundleTables(joined, answers, bool(bundle.manifest.synthetic))
    finally:
        bundle.close()


def _joined(name: str, parts: list[pd.DataFrame]) -> pd.DataFrame:
    """Return one table of several answers; repeated and overlapping requests give rows twice."""
    table = tables.TABLES.get(name)
    plain = [part.set_axis(part.columns, axis=1) for part in parts]
    for part in plain:
        part.attrs = {}
    joined = pd.concat(plain, ignore_index=True)
    if table is not None:
        joined = table.conform(joined.drop_duplicates(list(table.key), keep="last"))
    joined.attrs["provenance"] = joined_provenance([part.attrs.get("provenance") for part in parts])
    return joined
