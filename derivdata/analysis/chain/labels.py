"""From rows to arrays: a table's columns over its labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import xarray as xr

from derivdata.analysis.chain.normalise import keys_of
from derivdata.analysis.status import flag_attrs

__all__ = ["by_label"]

_ABSENT = {"f": np.nan, "i": 0, "U": ""}


def by_label(
    table: pd.DataFrame, place: Sequence[str], variables: Mapping[str, Sequence[str]], units: dict[str, str]
) -> xr.Dataset:
    """Lay columns of a table out over `place` and the keys that differ; the other keys are scalars.

    Parameters
    ----------
    table
        One row per label.
    place
        Columns that are dims in any case.
    variables
        Each column with the part of `place` that it depends on; an instant of several keys is ``time``, of
        one the scalar ``as_of``.
    units
        Their ``units`` attribute.

    Returns
    -------
    Dataset
        Where the table has no row numbers are NaN, flags 0 and texts empty. Instants are naive UTC.
    """
    keys = keys_of(table)
    table = table.dropna(subset=list(place))
    varying = [name for name in keys if table[name].nunique() > 1]
    codes, labels = {}, {}
    for name in (*varying, *place):
        codes[name], labels[name] = pd.factorize(_plain(table[name]), sort=True)
    data = {}
    for name, depends in variables.items():
        dims = [*varying, *depends]
        values = _scattered(table[name], [codes[dim] for dim in dims], [len(labels[dim]) for dim in dims])
        attrs: dict[str, Any] = {"units": units[name]} if name in units else {}
        data[name] = (dims, values, flag_attrs() if name.endswith("status") else attrs)
    constants = {
        "as_of" if name == "time" else name: _plain(table[name])[0]
        for name in keys
        if name not in varying and len(table)
    }
    return xr.Dataset(data, coords=labels | constants)


def _plain(column: Any) -> Any:
    if isinstance(column.dtype, pd.DatetimeTZDtype):
        return column.dt.tz_convert("UTC").dt.tz_localize(None).to_numpy()
    return column.to_numpy(dtype=str if column.dtype.kind == "O" else None)


def _scattered(column: Any, codes: list[npt.NDArray[np.intp]], shape: list[int]) -> npt.NDArray[Any]:
    values = _plain(column)
    grid = np.full(shape, _ABSENT[values.dtype.kind], dtype=values.dtype)
    if len(values):
        grid[tuple(codes)] = values if codes else values[0]
    return grid
