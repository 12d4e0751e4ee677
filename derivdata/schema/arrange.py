"""The order of rows: found, checked, and which neighbours share their place in it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

Array = np.ndarray[Any, Any]


def arrangement(columns: Sequence[Any]) -> tuple[Array | None, Array]:
    """Return the order in which rows ascend by some columns, and which rows then equal the one before.

    None instead of places where they ascend already. A column counts only where all before it are equal, so
    it is not even ranked once no two neighbours are.
    """
    tied = np.ones(max(len(columns[0]) - 1, 0), dtype=bool)
    for column in columns:
        if not tied.any():
            return None, tied
        codes = _codes(column)
        if (tied & (codes[1:] < codes[:-1])).any():
            return _sorted(columns)
        tied &= codes[1:] == codes[:-1]
    return None, tied


def bare(column: Any) -> Any:
    """Return the array of a column."""
    return column.array if isinstance(column, pd.Series) else column


def _sorted(columns: Sequence[Any]) -> tuple[Array, Array]:
    """Sort rows that are out of order: each column sorts those that the ones before it left equal."""
    rank = np.arange(len(columns[0]))
    tied = np.ones(max(rank.size - 1, 0), dtype=bool)
    for column in columns:
        unsettled = np.flatnonzero(np.append(tied, False) | np.append(False, tied))
        codes = _codes(column.take(rank[unsettled]))
        group = _narrow(np.cumsum(np.append(True, ~tied))[unsettled])
        if ((group[1:] == group[:-1]) & ~(codes[1:] >= codes[:-1])).any():
            order = np.lexsort((codes, group))
            rank[unsettled] = rank[unsettled[order]]
            codes, group = codes[order], group[order]
        tied[unsettled[:-1]] &= (codes[1:] == codes[:-1]) & (group[1:] == group[:-1])
    return rank, tied


def _narrow(ascending: Array) -> Array:
    """Return few numbers as 16 bits, which sort in linear time."""
    few = ascending.size and ascending[-1] < 2**16
    return ascending.astype(np.uint16) if few else ascending


def _codes(column: Any) -> Array:
    """Return numbers that rank as the values do; categories are sorted."""
    values = bare(column)
    if isinstance(values, pd.Categorical):
        return np.asarray(values.codes)
    if isinstance(values.dtype, pd.DatetimeTZDtype):
        return np.asarray(values.asi8)
    if values.dtype == "float64":
        return np.asarray(values)
    return np.asarray(pd.factorize(values, sort=True)[0])
