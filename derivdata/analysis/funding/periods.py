"""Carry over spans of time: the common ground of venues that settle at different intervals."""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from derivdata.analysis.funding.accrual import PreparedPanel
from derivdata.analysis.funding.ledger import earned_between
from derivdata.analysis.panels import hours_at, like
from derivdata.support.arrays import Floats
from derivdata.units import BPS_UNIT, HOUR_UNIT

__all__ = ["earned", "period_ends", "period_sums"]

_MICROSECONDS = 3_600_000_000
_MOST = 10_000_000


def earned(prepared: PreparedPanel, starts: Floats, ends: Floats, *, min_cover: float = 1.0) -> xr.Dataset:
    """Return bps that each series earns over the spans ``(start, end]``, hours since the panel's `origin`.

    Returns
    -------
    Dataset, the panel's dims with ``span`` in place of ``time``
        ``amount`` [bps of notional, as a long pays it] of what is there, NaN where that covers less than
        `min_cover` of the span; ``filled``, the hours [h] in it whose rate was carried over missing samples;
        ``coverage``, the part of the hours paid for.
    """
    amount, filled, coverage = xr.apply_ufunc(
        _earned,
        *prepared.arrays,
        input_core_dims=[["time"]] * len(prepared.arrays),
        output_core_dims=[["span"]] * 3,
        kwargs={"prepared": prepared._replace(arrays=()), "starts": starts, "ends": ends},
        dask="parallelized",
        keep_attrs=False,
        output_dtypes=[np.float64] * 3,
        dask_gufunc_kwargs={"output_sizes": {"span": ends.size}},
    )
    variables = {"amount": amount.where(coverage >= min_cover), "filled": filled, "coverage": coverage}
    result = xr.Dataset(variables).drop_attrs()
    result["amount"].attrs, result["filled"].attrs = {"units": BPS_UNIT}, {"units": HOUR_UNIT}
    return result


def period_sums(prepared: PreparedPanel, period_hours: float) -> xr.Dataset:
    """`earned` over each whole period, counted from 00:00 UTC (1970-01-01).

    Returns
    -------
    Dataset, the panel's dims with ``time`` the ends of periods
        As `earned`; NaN also where a settlement pays for more than the period.
    """
    ends = period_ends(prepared, period_hours)
    closes = hours_at(ends, prepared.origin)
    if prepared.settled:
        rates, interval = prepared.arrays
        prepared = prepared._replace(arrays=(rates, interval.where(interval <= 1.05 * period_hours)))
    sums = earned(prepared, closes - period_hours, closes)
    sums = sums.rename(span="time").assign_coords(time=ends)
    return sums.map(lambda figure: like(figure, prepared.arrays[0]), keep_attrs=True)


def period_ends(prepared: PreparedPanel, period_hours: float) -> NDArray[np.datetime64]:
    """Return the ends of the whole periods that the panel's rows cover.

    Raises
    ------
    ValueError
        The panel is shorter than one period, or has more of them than can be told apart.
    """
    start = float(hours_at(prepared.origin, np.datetime64(0, "us")))
    stop = start + float(prepared.since[-1]) + (0.0 if prepared.settled else prepared.step)
    if prepared.settled:  # its first row pays for hours before it
        start -= period_hours
    lowest, highest = np.ceil(start / period_hours) + 1, np.floor(stop / period_hours)
    if highest < lowest:
        raise ValueError(f"the panel is shorter than one period of {period_hours=:g}")
    if not highest - lowest < _MOST:
        raise ValueError(f"{period_hours=:g} makes more than {_MOST:,} periods of this panel")
    ends: Any = np.rint(np.arange(lowest, highest + 1) * (period_hours * _MICROSECONDS))
    return np.asarray(ends.astype(np.int64).astype("datetime64[us]"))


def _earned(
    *arrays: Floats, prepared: PreparedPanel, starts: Floats, ends: Floats
) -> tuple[Floats, Floats, Floats]:
    return earned_between(prepared.ledger(*arrays), prepared.since, starts, ends, settled=prepared.settled)
