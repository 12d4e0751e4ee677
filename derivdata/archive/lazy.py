"""Tables larger than memory, as dask frames: one partition per few row groups of a file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from derivdata.archive import parts
from derivdata.archive.manifest import Holding
from derivdata.schema import Table

if TYPE_CHECKING:
    import dask.dataframe

__all__ = ["lazy"]


def lazy(
    root: Path, table: Table, holding: Holding, span: parts.Span, where: parts.Where
) -> dask.dataframe.DataFrame:
    """Rows within a span as a dask frame; text columns have the categories of the whole archive.

    Raises
    ------
    ImportError
        dask is not installed.
    """
    try:
        import dask.dataframe
    except ImportError as problem:
        raise ImportError("lazy() needs dask: pip install 'derivdata[dask]'") from problem
    empty = _labelled(table.empty(), holding)
    found = list(parts.pieces(root, table, holding.parts, span, where))
    if not found:
        return dask.dataframe.from_pandas(empty, npartitions=1)

    def load(piece: parts.Piece) -> pd.DataFrame:
        rows = parts.load(root, table, piece, span, where)
        return _labelled(parts.frame_of(table, [rows]), holding)

    return dask.dataframe.from_map(load, found, meta=empty)


def _labelled(frame: pd.DataFrame, holding: Holding) -> pd.DataFrame:
    text = frame.select_dtypes("category").columns
    words = {name: pd.Index(holding.values.get(name, []), dtype="str") for name in text}
    return frame.assign(**{name: frame[name].cat.set_categories(words[name]) for name in text})
