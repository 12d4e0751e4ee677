"""Missing rows of times that were never requested, by an archive's ledger: nothing is known of these."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from derivdata.support.arrays import Array, Floats
from derivdata.tables.required import require_columns

__all__ = ["answered_windows", "count_not_requested"]


def answered_windows(requests: pd.DataFrame, series: pd.DataFrame) -> list[Array]:
    """Return for each series the answered windows [µs], one a row, in order, those that touch as one.

    Parameters
    ----------
    requests
        The ledger: ``exchange``, ``symbol`` (missing: all symbols), ``start``, ``end``, ``answered``.
    series
        ``symbol`` and ``exchange`` of each series, as far as the table has them.

    Raises
    ------
    ValueError
        The ledger has other columns, or is of several tables.
    """
    require_columns(requests, "requests", [], others=["exchange", "symbol", "start", "end", "answered"])
    if "table" in requests and requests["table"].nunique() > 1:
        names = ", ".join(sorted(requests["table"].unique()))
        raise ValueError(f"requests are of several tables ({names}): give the rows of this table")
    answered = requests[requests["answered"].astype(bool)]
    start, end = (answered[name].dt.as_unit("us").array.asi8 for name in ("start", "end"))
    result = []
    for row in range(len(series)):
        chosen = np.ones(len(answered), dtype=bool)
        if "exchange" in series:
            chosen &= (answered["exchange"] == series["exchange"].iloc[row]).to_numpy(dtype=bool)
        if "symbol" in series:
            about = answered["symbol"].isna() | (answered["symbol"] == series["symbol"].iloc[row])
            chosen &= about.to_numpy(dtype=bool)
        result.append(_union(start[chosen], end[chosen]))
    return result


def count_not_requested(stamps: Array, gaps: Floats, steps: Floats, windows: Sequence[Array]) -> Array:
    """Count the missing rows of each series whose instants lie in none of its windows."""
    counts = np.zeros(len(stamps))
    for row, answered in enumerate(windows):
        known = np.isfinite(gaps[row])
        lacking = np.zeros(gaps.shape[1], dtype=np.int64)
        lacking[known] = np.maximum(np.round(gaps[row][known] / steps[row][known]) - 1.0, 0.0)
        holes = np.flatnonzero(lacking)
        number = np.concatenate([np.arange(1, lacking[hole] + 1) for hole in holes] or [np.zeros(0)])
        hole = np.repeat(holes, lacking[holes])
        instants = stamps[row][hole] + steps[row][hole] * number
        before = np.searchsorted(answered[:, 0], instants, side="right") - 1
        inside = before >= 0
        inside[inside] = instants[inside] < answered[before[inside], 1]
        counts[row] = (~inside).sum()
    return counts


def _union(start: Array, end: Array) -> Array:
    """Return windows as rows in order, those that touch or overlap as one."""
    order = np.argsort(start, kind="stable")
    start, end = start[order], np.maximum.accumulate(end[order]) if end.size else end
    begins = np.append(True, start[1:] > end[:-1])[: start.size]
    last = np.append(begins[1:], True)[: start.size]
    return np.stack([start[begins], end[last]], axis=1)
