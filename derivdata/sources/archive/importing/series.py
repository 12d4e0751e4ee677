"""Numbers of the series that rows belong to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from derivdata.support.arrays import Array

_MOST_CODES = 1 << 20


class Series(NamedTuple):
    """Number of each row's series, from 0 without gaps, and the words of each series."""

    numbers: Array
    words: list[tuple[Any, ...]]


def series_of(frame: pd.DataFrame, names: Sequence[str]) -> Series:
    """Return the series of rows, which are told apart by some columns of words."""
    codes = np.zeros(len(frame), dtype=np.int64)
    for name in names:
        values = frame[name]
        own = values.cat.codes if isinstance(values.dtype, pd.CategoricalDtype) else pd.factorize(values)[0]
        column = np.asarray(own, dtype=np.int64)
        codes = codes * (int(column.max(initial=0)) + 2) + column + 1
    numbers = _without_gaps(codes)
    firsts = np.zeros(int(numbers.max(initial=-1)) + 1, dtype=np.int64)
    firsts[numbers[::-1]] = np.arange(len(numbers))[::-1]
    rows = frame[[*names]].iloc[firsts]
    return Series(numbers, [*rows.astype(object).itertuples(index=False, name=None)])


def _without_gaps(codes: Array) -> Array:
    """Return numbers from 0 without gaps for codes; without a hash table where codes are small."""
    most = int(codes.max(initial=0))
    if most > _MOST_CODES:
        return np.asarray(pd.factorize(codes)[0])
    is_used = np.zeros(most + 1, dtype=bool)
    is_used[codes] = True
    return np.asarray((np.cumsum(is_used) - 1)[codes])
