"""Tables larger than memory: dask frames, a partition per few row groups, and panels, a chunk per span."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from derivdata.archive import data_files
from derivdata.archive.manifest import DataFile, TableEntry
from derivdata.schema import Table

__all__ = ["lazy", "lazy_panel"]

_CHUNK_CELLS = 4_000_000
_DIMS = ("symbol", "exchange", "time")


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


def lazy_panel(
    root: Path,
    table: Table,
    column: str,
    entry: TableEntry,
    window: data_files.TimeRange,
    where: data_files.Where,
    step: int,
    chunk: int | None,
) -> Any:
    """Return one column as a lazy panel on a grid of `step` microseconds, `chunk` instants at a time.

    Every chunk knows the files that touch its span, from the manifest, and reads four columns of them.

    Raises
    ------
    ImportError
        dask is not installed.
    ValueError
        The table has other keys; on computing, a row lies beside the grid.
    """
    try:
        arrays: Any = importlib.import_module("dask.array")
        delayed: Any = importlib.import_module("dask").delayed
    except ImportError as problem:
        raise ImportError("panel() needs dask: pip install 'derivdata[dask]'") from problem
    import xarray as xr

    if set(table.key) != set(_DIMS):
        raise ValueError(f"table={table.name!r} is not keyed by symbol, exchange and time: no panel")
    labels = [sorted(where.get(name) or entry.values.get(name, [])) for name in _DIMS[:2]]
    stamps = np.arange(window.start, window.end, step)
    size = chunk or max(1, _CHUNK_CELLS // max(1, len(labels[0]) * len(labels[1])))
    blocks = []
    for at in range(0, stamps.size, size):
        some = stamps[at : at + size]
        span = data_files.TimeRange(int(some[0]), int(some[-1]) + step)
        files = [file for file in entry.files if span.touches(file.first, file.last)]
        shape = (len(labels[0]), len(labels[1]), some.size)
        values = delayed(_panel_block, pure=True)(root, table, column, files, span, where, labels, step)
        blocks.append(arrays.from_delayed(values, shape, dtype=np.float64))
    empty = np.full((len(labels[0]), len(labels[1]), 0), np.nan)
    values = arrays.concatenate(blocks, axis=2) if blocks else arrays.from_array(empty)
    coords = {**dict(zip(_DIMS, labels, strict=False)), "time": stamps.view("datetime64[us]")}
    return xr.DataArray(values, dims=_DIMS, coords=coords, name=column)


def _panel_block(
    root: Path,
    table: Table,
    column: str,
    files: list[DataFile],
    window: data_files.TimeRange,
    where: data_files.Where,
    labels: list[list[str]],
    step: int,
) -> np.ndarray[Any, Any]:
    result = np.full((len(labels[0]), len(labels[1]), -(-(window.end - window.start) // step)), np.nan)
    indexes = [pd.Index(words) for words in labels]
    for batch in data_files.row_group_batches(root, table, files, window, where):
        rows = data_files.load(root, table, batch, window, where, [*_DIMS, column]).unify_dictionaries()
        rows = rows.combine_chunks()
        if not len(rows):
            continue
        place, beside = np.divmod(np.asarray(rows["time"].cast("int64")) - window.start, step)
        if beside.any():
            first = pd.Timestamp(
                int(window.start + place[beside > 0][0] * step + beside[beside > 0][0]), unit="us"
            )
            raise ValueError(
                f"a row of {table.name} at {first} lies beside the grid: align it, or another step"
            )
        codes = []
        for index, name in zip(indexes, _DIMS[:2], strict=True):
            words = rows[name].chunk(0)
            codes.append(index.get_indexer(words.dictionary.to_pylist())[np.asarray(words.indices)])
        result[codes[0], codes[1], place] = rows[column].to_numpy(zero_copy_only=False)
    return result


def _labelled(frame: pd.DataFrame, entry: TableEntry) -> pd.DataFrame:
    text = frame.select_dtypes("category").columns
    words = {name: pd.Index(entry.values.get(name, []), dtype="str") for name in text}
    return frame.assign(**{name: frame[name].cat.set_categories(words[name]) for name in text})
