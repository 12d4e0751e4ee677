"""Absolute values of several series, sorted once: they show medians, quantiles and repeated values."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["SeriesSizes", "series_sizes"]

_Array = NDArray[Any]


class SeriesSizes(NamedTuple):
    """Absolute values of each series in ascending order; missing values are last."""

    ordered: NDArray[np.float64]
    starts: NDArray[np.int64]
    """Place of the first value of each series."""
    rows: NDArray[np.int64]
    """Number of values of each series, including missing ones."""
    finite: NDArray[np.int64]
    zeros: NDArray[np.int64]

    def medians(self) -> NDArray[np.float64]:
        """Return the median size of each series; NaN for a series without finite values."""
        upper = self.starts + self.finite // 2
        lower = self.starts + np.maximum(self.finite - 1, 0) // 2
        medians = 0.5 * (self.ordered[lower] + self.ordered[upper])
        return np.where(self.finite > 0, medians, np.nan)


def series_sizes(series: _Array, values: _Array) -> SeriesSizes:
    """Sort the absolute values of each series.

    Parameters
    ----------
    series
        Number of each row's series; rows of a series are next to each other.
    values
        Value of each row; infinite ones count as missing.
    """
    starts = np.flatnonzero(np.append(True, series[1:] != series[:-1])[: values.size])
    rows = np.diff(np.append(starts, values.size))
    sizes = np.abs(values, dtype=np.float64)
    sizes[~np.isfinite(sizes)] = np.inf
    if not values.size:
        return SeriesSizes(sizes, starts, rows, rows, rows)
    # In place, series by series: new arrays of this size take as long as the sort.
    for first, end in zip(starts.tolist(), (starts + rows).tolist(), strict=True):
        sizes[first:end].sort()
    finite = np.add.reduceat(np.isfinite(sizes), starts, dtype=np.int64)
    zeros = np.add.reduceat(sizes == 0.0, starts, dtype=np.int64)
    return SeriesSizes(sizes, starts, rows, finite, zeros)
