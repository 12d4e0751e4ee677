"""Settlement intervals: read from the settlements themselves, and checked against the rates."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from derivdata.analysis.funding.ledger import LATE
from derivdata.analysis.panels import beside, hours, kind_of, like, require, require_rate, whole
from derivdata.support.arguments import Numbers, typed
from derivdata.support.arrays import Bools, Floats
from derivdata.units import BPS, HOUR_UNIT, NATIVE_UNIT, RATE_UNIT, REFERENCE_HOURS, bps_8h_from_native

__all__ = ["check_8h_normalisation", "infer_interval"]

_TOLERANCE = 0.05  # of an interval: stamps are late by milliseconds to minutes


@typed
def infer_interval(
    panel: xr.DataArray,
    *,
    candidates: Sequence[float] = (1, 2, 4, 8),
    confirm: int = 3,
    backdate: bool = True,
) -> xr.Dataset:
    """Infer each venue's settlement interval over time, with its changes, from the gaps between settlements.

    Parameters
    ----------
    panel
        Settled funding rates [bps/8h], dim ``time``, in memory or lazy (time is put into one chunk).
    candidates
        Intervals [h] that exist. A gap within 5 % of one is taken for it.
    confirm
        Equal gaps in a row that it takes to believe an interval; a single gap of twice the interval is a
        missing settlement, not a change, and one that is less than half an interval too long is a late one.
    backdate
        Date a confirmed interval back to the first of its gaps (and the first one to the start of the
        series). False dates it to the gap that confirmed it: all that was known at the time.

    Returns
    -------
    Dataset, the panel's dims
        ``interval_hours`` [h] at each settlement, NaN where there is none, where its gap is no multiple of
        the interval, and before one is known; ``changed``, true at the first settlement of another interval
        than before; ``missing``, settlements that are absent right before this one.

    Raises
    ------
    TypeError, ValueError
        The panel is no settled funding panel in bps/8h; `candidates` or `confirm` make no sense.

    Notes
    -----
    Where the service reports intervals, take those. Venues move symbols between intervals: today's is not
    that of history.
    """
    require_rate(panel, "time")
    if kind_of(panel) != "settled":
        raise ValueError("samples are taken at any time and say nothing of the interval: give settlements")
    ascending = np.sort(np.asarray(candidates, dtype=np.float64))
    if confirm < 1 or not ascending.size or not (ascending > 0).all():
        raise ValueError(f"{candidates=}, {confirm=}: need positive intervals and confirm >= 1")
    interval, changed, missing = xr.apply_ufunc(
        _infer,
        whole(panel, "time"),
        input_core_dims=[["time"]],
        output_core_dims=[["time"]] * 3,
        kwargs={"since": hours(panel), "candidates": ascending, "confirm": confirm, "backdate": backdate},
        dask="parallelized",
        keep_attrs=False,
        output_dtypes=[np.float64, np.bool_, np.int32],
    )
    result = xr.Dataset({"interval_hours": interval, "changed": changed, "missing": missing})
    result["interval_hours"].attrs = {"units": HOUR_UNIT}
    return xr.Dataset({name: like(figure, panel) for name, figure in result.items()})


@typed
def check_8h_normalisation(
    panel: xr.DataArray, raw: xr.DataArray, interval_hours: Numbers, *, tolerance_bps: float = 1e-6
) -> xr.Dataset:
    """Check that rates in bps per 8 hours are the venue's own rates times 10,000 × 8 / interval.

    Parameters
    ----------
    panel
        Funding rates [bps/8h].
    raw
        The same rates as the venue states them [fraction per interval], over the panel's labels.
    interval_hours
        A number [h], or a DataArray over dims of the panel.
    tolerance_bps
        Largest difference that rounding explains.

    Returns
    -------
    Dataset, the panel's dims without ``time``
        ``max_residual_bps_8h``; ``ok``, false also where nothing could be compared; ``compared``, how many
        values; ``implied_hours``, the median interval that would explain the rates (8 where the raw rate is
        itself per 8 hours). NaN in either rate or in the interval is left out.

    Raises
    ------
    TypeError, ValueError
        A unit is another one or not stated; labels differ; no times.
    """
    require_rate(panel)
    if not panel.sizes.get("time", 1):
        raise ValueError("panel has no times: nothing can be compared")
    require(raw, units=NATIVE_UNIT, name="raw")
    native = beside(panel, raw, units=NATIVE_UNIT, name="raw")
    interval = beside(panel, interval_hours, units=HOUR_UNIT, name="interval_hours")
    residual = abs(panel - bps_8h_from_native(native, interval))
    over = [dim for dim in ("time",) if dim in panel.dims]
    largest, compared = residual.max(over), residual.notnull().sum(over)
    implied = BPS * REFERENCE_HOURS * whole(native, *over) / whole(panel, *over).where(panel != 0.0)
    variables = {
        "max_residual_bps_8h": largest,
        "ok": (compared > 0) & (largest <= tolerance_bps),
        "compared": compared,
        "implied_hours": implied.median(over),
    }
    result = xr.Dataset(variables).drop_attrs()
    result["max_residual_bps_8h"].attrs = {"units": RATE_UNIT}
    result["implied_hours"].attrs = {"units": HOUR_UNIT}
    return result


def _infer(
    rates: Floats, *, since: Floats, candidates: Floats, confirm: int, backdate: bool
) -> tuple[Floats, Bools, NDArray[np.int32]]:
    interval = np.full(rates.shape, np.nan)
    changed, missing = np.zeros(rates.shape, dtype=np.bool_), np.zeros(rates.shape, dtype=np.int32)
    for series in np.ndindex(rates.shape[:-1]):
        rows = np.flatnonzero(np.isfinite(rates[series]))
        if rows.size > confirm:
            current, first = _believed(np.diff(since[rows]), candidates, confirm, backdate)
            multiples = _multiples(np.diff(since[rows]), current)
            interval[series][rows[1:]] = np.where(multiples > 0, current, np.nan)
            interval[series][rows[0]] = current[0]
            changed[series][rows[1:]] = first
            missing[series][rows[1:]] = np.maximum(multiples - 1, 0)
    return interval, changed, missing


def _believed(gaps: Floats, candidates: Floats, confirm: int, backdate: bool) -> tuple[Floats, Bools]:
    """Return the interval believed at each gap, and whether it is the first of another one than before."""
    nearest = candidates[np.argmin(np.abs(gaps[:, None] - candidates), axis=1)]
    snapped = np.where(np.abs(gaps - nearest) <= _TOLERANCE * nearest, nearest, 0.0)
    starts = np.flatnonzero(np.append(True, snapped[1:] != snapped[:-1]))
    lengths = np.diff(np.append(starts, gaps.size))
    taken = (lengths >= confirm) & (snapped[starts] > 0.0)
    at = starts[taken] + (0 if backdate else confirm - 1)
    value = snapped[starts[taken]]
    run = np.searchsorted(at, np.arange(gaps.size), side="right") - 1
    if not value.size:
        return np.full(gaps.size, np.nan), np.zeros(gaps.size, dtype=np.bool_)
    current = value[np.maximum(run, 0)]
    first = np.zeros(gaps.size, dtype=np.bool_)
    first[at[1:]] = value[1:] != value[:-1]
    return current if backdate else np.where(run >= 0, current, np.nan), first


def _multiples(gaps: Floats, interval: Floats) -> NDArray[np.int64]:
    """Count the intervals in each gap, 0 where it is no whole number of them.

    A settlement that is late by less than half an interval ends one interval, and so does the next if its
    gap is shorter by as much.
    """
    ratio = np.where(np.isfinite(interval), gaps / interval, 0.0)
    count = np.rint(ratio)
    whole = np.where(np.abs(ratio - count) <= _TOLERANCE, count, 0.0)
    late = (whole == 0.0) & (ratio > 1.0) & (ratio < LATE)
    catches_up = (whole == 0.0) & np.append(False, late[:-1])
    catches_up[1:] &= np.abs(ratio[1:] + ratio[:-1] - 2.0) <= _TOLERANCE
    return np.where(late | catches_up, 1.0, whole).astype(np.int64)
