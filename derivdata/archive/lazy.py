"""Tables larger than memory, as dask frames: one partition per few row groups of a file."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pandas as pd

from derivdata.archive import parts
from derivdata.archive.manifest import Holding
from derivdata.schema import Table

__all__ = ["lazy"]


def lazy(root: Path, table: Table, holding: Holding, span: parts.Span, where: parts.Where) -> Any:
    """Rows within a span as a dask frame; text columns have the categories of the whole archive.

    Raises
    ------
    ImportError
        dask is not installed.
    """
    try:
        frames: Any = importlib.import_module("dask.dataframe")
    except ImportError as problem:
        raise ImportError("lazy() needs dask: pip install 'derivdata[dask]'") from problem
    empty = _labelled(table.empty(), holding)
    found = list(parts.pieces(root, table, holding.parts, span, where))
    if not found:
        return frames.from_pandas(empty, npartitions=1)

    def load(piece: parts.Piece) -> pd.DataFrame:
        rows = parts.load(root, table, piece, span, where)
        return _labelled(parts.frame_of(table, [rows]), holding)

    return frames.from_map(load, found, meta=empty)


def _labelled(frame: pd.DataFrame, holding: Holding) -> pd.DataFrame:
    text = frame.select_dtypes("category").columns
    words = {name: pd.Index(holding.values.get(name, []), dtype="str") for name in text}
    return frame.assign(**{name: frame[name].cat.set_categories(words[name]) for name in text})
