"""Comovement of funding between venues."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

from derivdata.analysis.funding.accrual import PreparedPanel, prepare, sums_of
from derivdata.analysis.funding.status import FundingStatus
from derivdata.analysis.panels import Panel, beside, hours_of, labels_of, require_rate, whole
from derivdata.analysis.status import flag_attrs
from derivdata.support.arguments import typed
from derivdata.support.arrays import Floats
from derivdata.units import HOUR_UNIT

_MOST_LAGS = 10_000
_ONE_THREAD = 200_000  # multiplications: OpenBLAS uses more than one thread above 262,144


@typed
def comovement(
    panel: Panel,
    *,
    period: str | pd.Timedelta = "8h",
    method: Literal["pearson", "spearman"] = "pearson",
    max_lag: int = 0,
    min_periods: int = 30,
    age_hours: xr.DataArray | None = None,
    max_filled: float = 0.2,
    overlap: Literal["raise", "nan"] = "raise",
) -> xr.Dataset:
    """Correlate the venues' funding, summed over periods that do not overlap.

    Parameters
    ----------
    panel
        Funding rates [bps/8h] whose ``kind`` is stated, dims ``exchange`` and ``time``, in memory or lazy
        (both are put into one chunk).
    period
        Length of the periods, counted from 00:00 UTC; at least every venue's interval.
    method
        ``"pearson"`` or ``"spearman"`` (ranks, ties averaged).
    max_lag
        Largest lead and lag, in whole periods.
    min_periods
        Periods that a pair must share.
    age_hours
        Samples only: age of each rate, as `derivdata.analysis.align` returns it. A rate older than a step
        is a filled one.
    max_filled
        Share of filled hours above which a venue is left out: carried rates correlate by construction.
    overlap
        As in `cumulative`.

    Returns
    -------
    Dataset, the panel's dims with ``(first, second)`` in place of ``exchange`` and ``time``
        ``correlation`` (first, second, lag): of `first` at a period with `second` `lag` periods later;
        ``periods``, how many; ``top_share``, share of the first eigenvalue of the matrix at lag 0, over the
        venues that correlate with all others; ``filled_share`` and ``status`` by ``exchange``. NaN where a
        pair shares too few periods, a venue is left out (status ``filled``) or does not move.

    Raises
    ------
    TypeError, ValueError
        As `cumulative`; an option makes no sense.
    """
    panel = require_rate(panel, "exchange", "time")
    if not 0 <= max_lag <= _MOST_LAGS or min_periods < 3 or not 0.0 <= max_filled <= 1.0:
        raise ValueError(
            f"{max_lag=}, {min_periods=}, {max_filled=}: need 0 to {_MOST_LAGS:,}, >= 3 and a share"
        )
    hours = hours_of(period, "period")
    sums = sums_of(_aged(panel, prepare(panel, overlap=overlap), age_hours), hours)
    filled = sums["filled"].where(sums["amount"].notnull()).mean("time") / hours
    amounts = sums["amount"].where(filled <= max_filled).transpose(..., "exchange", "time")
    names, lags = labels_of(panel, "exchange"), np.arange(-max_lag, max_lag + 1)
    figures = xr.apply_ufunc(
        _matrices,
        whole(amounts, "exchange", "time"),
        input_core_dims=[["exchange", "time"]],
        output_core_dims=[["first", "second", "lag"], ["first", "second", "lag"], []],
        kwargs={"lags": lags, "least": min_periods, "ranks": method == "spearman"},
        dask="parallelized",
        keep_attrs=False,
        output_dtypes=[np.float64, np.int32, np.float64],
        dask_gufunc_kwargs={"output_sizes": {"first": names.size, "second": names.size, "lag": lags.size}},
    )
    variables = dict(zip(("correlation", "periods", "top_share"), figures, strict=True))
    status = (filled > max_filled) * FundingStatus.FILLED.value
    status = (status + filled.isnull() * FundingStatus.TOO_FEW.value).astype(np.int32)
    result = xr.Dataset({**variables, "filled_share": filled, "status": status}).drop_attrs()
    result["status"].attrs = flag_attrs(FundingStatus)
    return result.assign_coords(first=names, second=names, lag=lags)


def _aged(panel: xr.DataArray, prepared: PreparedPanel, age_hours: xr.DataArray | None) -> PreparedPanel:
    if age_hours is None:
        return prepared
    if prepared.settled:
        raise ValueError("age_hours is for samples; settlements are not carried forward")
    age = whole(beside(panel, age_hours, units=HOUR_UNIT, name="age_hours"), "time")
    return prepared._replace(arrays=(prepared.arrays[0].where(age < prepared.step),))


def _matrices(sums: Floats, *, lags: Any, least: int, ranks: bool) -> tuple[Any, ...]:
    venues = sums.shape[-2]
    correlation = np.full((*sums.shape[:-2], venues, venues, lags.size), np.nan)
    periods = np.zeros(correlation.shape, dtype=np.int32)
    top = np.full(sums.shape[:-2], np.nan)
    for market in np.ndindex(sums.shape[:-2]):
        for place, lag in enumerate(lags):
            first, second = _shifted(sums[market], int(lag))
            coefficients = (_spearman if ranks else _pearson)(first, second, least)
            correlation[(*market, ..., place)], periods[(*market, ..., place)] = coefficients
        top[market] = _top_share(correlation[(*market, ..., int(np.flatnonzero(lags == 0)[0]))])
    return correlation, periods, top


def _shifted(sums: Floats, lag: int) -> tuple[Floats, Floats]:
    end = sums.shape[-1] - abs(lag)
    if end <= 0:
        return sums[:, :0], sums[:, :0]
    return (sums[:, :end], sums[:, lag:]) if lag >= 0 else (sums[:, -lag:], sums[:, :end])


def _pearson(first: Floats, second: Floats, least: int) -> tuple[Floats, Any]:
    """Correlation of every row of `first` with every row of `second` over the columns known in both."""
    (a, seen_a), (b, seen_b) = _centred(first), _centred(second)
    n = _products(seen_a, seen_b)
    with np.errstate(divide="ignore", invalid="ignore"):
        sum_a, sum_b = _products(a, seen_b), _products(seen_a, b)
        square_a, square_b = _products(a * a, seen_b), _products(seen_a, b * b)
        joint = _products(a, b) - sum_a * sum_b / n
        var_a = square_a - sum_a**2 / n
        var_b = square_b - sum_b**2 / n
        ratio = joint / np.sqrt(var_a * var_b)
    moves = (var_a > 1e-20 * square_a) & (var_b > 1e-20 * square_b)
    return np.where(moves & (n >= least), np.clip(ratio, -1.0, 1.0), np.nan), n.astype(np.int32)


def _products(a: Floats, b: Floats) -> Floats:
    """Return ``a @ b.T``, a few columns at a time, so that OpenBLAS makes each product in one thread.

    It gives larger products to all cores, whose threads wait for each other in busy loops: for matrices of
    this size that gains nothing on an idle machine and takes many times the processor's time on a busy one.
    """
    width = max(1, _ONE_THREAD // max(1, len(a) * len(b)))
    total = np.zeros((len(a), len(b)))
    for start in range(0, a.shape[1], width):
        total += a[:, start : start + width] @ b[:, start : start + width].T
    return total


def _spearman(first: Floats, second: Floats, least: int) -> tuple[Floats, Any]:
    """As `_pearson`, of the ranks among the columns known in both.

    Rows that lack the same columns are ranked together: one block where nothing is missing.
    """
    from scipy.stats import rankdata  # takes long to import, and ranks alone need it

    correlation = np.full((len(first), len(second)), np.nan)
    periods = np.zeros(correlation.shape, dtype=np.int32)
    for rows, known_first in _alike(first):
        for columns, known_second in _alike(second):
            both = known_first & known_second
            a, b = (rankdata(block[:, both], axis=1) for block in (first[rows], second[columns]))
            place = np.ix_(rows, columns)
            correlation[place], periods[place] = _pearson(a, b, least)
    return correlation, periods


def _alike(rows: Floats) -> list[tuple[NDArray[np.intp], NDArray[np.bool_]]]:
    """Return the rows that know the same columns, with these columns, group by group."""
    known, group = np.unique(np.isfinite(rows), axis=0, return_inverse=True)
    return [(np.flatnonzero(group == number), columns) for number, columns in enumerate(known)]


def _centred(rows: Floats) -> tuple[Floats, Floats]:
    seen = np.isfinite(rows)
    mean = np.sum(rows, axis=1, where=seen, keepdims=True) / np.maximum(seen.sum(axis=1, keepdims=True), 1)
    return np.where(seen, rows - mean, 0.0), seen.astype(np.float64)


def _top_share(matrix: Floats) -> float:
    finite = np.isfinite(matrix)
    keep = np.flatnonzero(np.diag(finite))
    while keep.size and not finite[np.ix_(keep, keep)].all():
        keep = np.delete(keep, np.argmin(finite[np.ix_(keep, keep)].sum(axis=1)))
    if keep.size < 2:
        return float("nan")
    return float(np.linalg.eigvalsh(matrix[np.ix_(keep, keep)])[-1] / keep.size)
