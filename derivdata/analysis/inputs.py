"""What a frame or a Dataset must hold before anything is taken from it; misuse is refused by name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

__all__ = ["require_beside", "require_columns", "require_variables"]


def require_columns(
    frame: pd.DataFrame, argument: str, numbers: Sequence[str] = (), *, others: Sequence[str] = ()
) -> None:
    """Refuse a frame that lacks a column, has one twice, or holds something else where numbers belong.

    Raises
    ------
    ValueError
        The message names the argument and the column.
    """
    for name in (*others, *numbers):
        if name not in frame.columns:
            raise ValueError(f"{argument} has no column {name!r}")
        if frame.columns.get_loc(name).__class__ is not int:
            raise ValueError(f"{argument} has the column {name!r} more than once")
    for name in numbers:
        if len(frame) and not pd.api.types.is_numeric_dtype(frame[name]):
            raise ValueError(f"{argument} has no numbers in the column {name!r} but {frame[name].dtype}")


def require_variables(
    data: xr.Dataset, argument: str, numbers: Sequence[str], *, dims: Sequence[str] = ()
) -> None:
    """Refuse a Dataset that lacks a variable or a dim, or holds something else where numbers belong.

    Raises
    ------
    ValueError
        The message names the argument and the variable or dim.
    """
    for name in dims:
        if name not in data.dims:
            raise ValueError(f"{argument} has no dim {name!r}; its dims are {tuple(map(str, data.dims))}")
    for name in numbers:
        if name not in data.variables:
            raise ValueError(f"{argument} has no variable {name!r}")
        if not np.issubdtype(data[name].dtype, np.number):
            raise ValueError(f"{argument} has no numbers in {name!r} but {data[name].dtype}")


def require_beside(value: Any, argument: str, data: xr.Dataset | xr.DataArray) -> None:
    """Refuse what is neither a number nor a DataArray over dims of `data`.

    Raises
    ------
    TypeError, ValueError
        The message names the argument.
    """
    if isinstance(value, xr.DataArray):
        strange = [str(dim) for dim in value.dims if dim not in data.dims]
        if strange:
            raise ValueError(f"{argument} has a dim {strange[0]!r} that the data has not")
    elif np.ndim(value) or isinstance(value, pd.DataFrame | xr.Dataset):
        raise TypeError(f"{argument} must be a number or a labelled DataArray, not {type(value).__name__}")
