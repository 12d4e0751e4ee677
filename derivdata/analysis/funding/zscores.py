"""Z-scores of a rate against its own past."""

from __future__ import annotations

import itertools
from functools import partial

import numpy as np
import pandas as pd
import xarray as xr

from derivdata.analysis.funding.rolling import mean_and_deviation, median_and_deviation
from derivdata.analysis.panels import Panel, figures_of, require, window_rows
from derivdata.analysis.settlements import at_common_stamps
from derivdata.support.arguments import typed
from derivdata.support.arrays import Floats

_LEVEL = 1e-9  # a deviation below this is a constant
_BLOCK, _BLOCK_ROBUST = 131_072, 262_144  # elements of a window's rows that are worked on at once
_WIDE = 10_240
_WIDE_ROBUST = 4_096


@typed
def zscore(
    panel: Panel,
    window: str | pd.Timedelta | None = None,
    *,
    rows: int | None = None,
    lag_rows: int = 1,
    robust: bool = False,
    min_rows: int | None = None,
) -> xr.DataArray:
    """Measure each value from the mean of a window before it, in standard deviations.

    Parameters
    ----------
    panel
        Values with dim ``time`` at regular steps, in memory or lazy (time is put into one chunk). Settlements
        stamped up to a minute past a whole hour are at that hour.
    window, rows
        Length of the window, such as ``"7d"``, whole steps of the panel; or its rows, at least 2.
    lag_rows
        Rows between a value and the end of its window. 1 (default): the window ends on the row before, so
        that the value does not soften its own score. 0 includes the value.
    robust
        Median and 1.4826 × median absolute deviation in place of mean and standard deviation (n − 1).
    min_rows
        Values that a window needs, by default half of its rows, at least 2.

    Returns
    -------
    DataArray, the panel's dims
        NaN where the value is, where the window has too few values, and where these do not move
        (deviation < 1e-9).

    Raises
    ------
    TypeError, ValueError
        `panel` has no ``time``, or times that do not ascend without repeats; the window, `lag_rows` or
        `min_rows` make no sense.
    """
    panel = at_common_stamps(require(panel, "time"))
    rows, least = window_rows(panel, window, rows, min_rows)
    if lag_rows < 0:
        raise ValueError(f"{lag_rows=} would score a value against later ones: pass 0 or more")
    kernel = partial(_zscore, window=rows, lag=lag_rows, least=least, robust=robust)
    return figures_of(kernel, panel, units={"zscore": "1"}, into={"time": None})["zscore"]


def _zscore(values: Floats, *, window: int, lag: int, least: int, robust: bool) -> Floats:
    """Score block by block, so that what one takes stays in the processor's cache."""
    if not values.size:
        return np.empty(values.shape)
    rows = np.ascontiguousarray(values.reshape(-1, values.shape[-1]), dtype=np.float64)
    score = np.empty(rows.shape)
    length = rows.shape[-1]
    wide = max(1, min(length, max(4 * window, _WIDE_ROBUST) if robust else max(16 * window, _WIDE)))
    tall = max(1, (_BLOCK_ROBUST if robust else _BLOCK) // (wide + window))
    figures = median_and_deviation if robust else mean_and_deviation
    with np.errstate(invalid="ignore", divide="ignore"):
        for row, start in itertools.product(range(0, len(rows), tall), range(0, length, wide)):
            some = rows[row : row + tall]
            stop = min(start + wide, length)
            centre, spread = figures(_rows(some, start - lag - window + 1, stop - lag), window, least)
            away = some[:, start:stop] - centre
            score[row : row + tall, start:stop] = away / np.where(spread < _LEVEL, np.nan, spread)
    return score.reshape(values.shape)


def _rows(values: Floats, start: int, stop: int) -> Floats:
    before = min(max(0, -start), stop - start)
    inside = values[:, max(0, start) : max(0, stop)]
    return np.concatenate([np.full((len(values), before), np.nan), inside], axis=1) if before else inside
