"""Tables larger than memory, as dask frames: one partition per few row groups of a file."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pandas as pd

from derivdata.archive import data_files
from derivdata.archive.manifest import TableEntry
from derivdata.schema import Table

__all__ = ["lazy"]


def lazy(
    root: Path, table: Table, entry: TableEntry, window: data_files.TimeRange, where: data_files.Where
) -> Any:
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
    empty = _labelled(table.empty(), entry)
    found = list(data_files.row_group_batches(root, table, entry.files, window, where))
    if not found:
        return frames.from_pandas(empty, npartitions=1)

    def load(batch: data_files.RowGroups) -> pd.DataFrame:
        rows = data_files.load(root, table, batch, window, where)
        return _labelled(data_files.frame_of(table, [rows]), entry)

    return frames.from_map(load, found, meta=empty)


def _labelled(frame: pd.DataFrame, entry: TableEntry) -> pd.DataFrame:
    text = frame.select_dtypes("category").columns
    words = {name: pd.Index(entry.values.get(name, []), dtype="str") for name in text}
    return frame.assign(**{name: frame[name].cat.set_categories(words[name]) for name in text})
