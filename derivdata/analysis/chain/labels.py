"""From rows to arrays: a table's columns over its labels."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import xarray as xr

from derivdata.analysis.chain.normalise import keys_of
from derivdata.analysis.status import flag_attrs
from derivdata.support.extras import import_extra
from derivdata.support.times import naive_utc

_ABSENT = {"f": np.nan, "i": 0, "U": ""}
MOST_CELLS = 4_000_000
CHUNK_CELLS = 1_000_000
_FEW_INSTANTS = 8


def by_label(
    table: pd.DataFrame, place: Sequence[str], variables: Mapping[str, Sequence[str]], units: dict[str, str]
) -> xr.Dataset:
    """Lay columns of a table out over `place` and the keys that differ; the other keys are scalars.

    `variables` names each column with the part of `place` that it depends on. Without a row numbers are NaN,
    flags 0 and texts empty; instants are naive UTC, one of several keys ``time``, a single one ``as_of``. A
    long history has few strikes in common from day to day, so that its grid grows with the square of its
    length and is almost empty: a variable of over 4 million cells is lazy, filled chunk by chunk.
    """
    keys = keys_of(table)
    table = table.dropna(subset=list(place))
    varying = [name for name in keys if table[name].nunique() > 1]
    codes, labels = {}, {}
    for name in (*varying, *place):
        codes[name], labels[name] = pd.factorize(plain(table[name]), sort=True)
    data = {}
    for name, depends in variables.items():
        dims = [*varying, *depends]
        shape = [len(labels[dim]) for dim in dims]
        long = "time" in varying and len(labels["time"]) > _FEW_INSTANTS and math.prod(shape) > MOST_CELLS
        scatter = functools.partial(_lazily, axis=varying.index("time")) if long else _scattered
        values = scatter(plain(table[name]), [codes[dim] for dim in dims], shape)
        attrs: dict[str, Any] = {"units": units[name]} if name in units else {}
        data[name] = (dims, values, flag_attrs() if name.endswith("status") else attrs)
    constants = {
        "as_of" if name == "time" else name: plain(table[name])[0]
        for name in keys
        if name not in varying and len(table)
    }
    return xr.Dataset(data, coords=labels | constants)


def plain(column: Any) -> Any:
    """Return a column as labels of an array: instants naive, in UTC, and texts as such."""
    if column.dtype.kind == "M":
        return naive_utc(column).to_numpy()
    return column.to_numpy(dtype=str if column.dtype.kind == "O" else None)


def _scattered(
    values: npt.NDArray[Any], codes: list[npt.NDArray[np.intp]], shape: list[int]
) -> npt.NDArray[Any]:
    grid = np.full(shape, _ABSENT[values.dtype.kind], dtype=values.dtype)
    if len(values):
        grid[tuple(codes)] = values if codes else values[0]
    return grid


def _lazily(
    values: npt.NDArray[Any], codes: list[npt.NDArray[np.intp]], shape: list[int], *, axis: int
) -> Any:
    """Return the grid of `_scattered` in chunks along an axis, each filled from its rows when computed."""
    use = (
        f"one grid of {shape[axis]} chains has {math.prod(shape):,} places, almost all of them empty: pass "
        "fewer instants, or take surface.from_chain, which fits a few at a time; to fill it chunk by chunk"
    )
    da = import_extra("dask.array", "dask", use)
    later = import_extra("dask", "dask", use).delayed
    step = max(CHUNK_CELLS * shape[axis] // math.prod(shape), 1)
    order = np.argsort(codes[axis], kind="stable")
    starts = range(0, shape[axis], step)
    ends = np.searchsorted(codes[axis][order], [*starts, shape[axis]])
    chunks = []
    for i, start in enumerate(starts):
        rows = order[ends[i] : ends[i + 1]]
        size = min(step, shape[axis] - start)
        own = [each[rows] - start if dim == axis else each[rows] for dim, each in enumerate(codes)]
        part = [*shape[:axis], size, *shape[axis + 1 :]]
        grid = later(_scattered, pure=False)(values[rows], own, part)
        chunks.append(da.from_delayed(grid, part, dtype=values.dtype))
    return da.concatenate(chunks, axis=axis)
