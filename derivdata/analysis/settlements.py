"""Rules for series of settlements: late stamps, and payments that overlap.

A venue pays on the hour and stamps the payment a little later: binance by 1 to 12 ms, dydx by up to 550 ms.
A stamp at most `GRACE` past a whole hour stands for that hour in every function that takes settlements, so
that venues meet at common instants and no payment moves into the next span. Instants that a caller gives (an
entry, an exit, a grid) are taken as they are.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from derivdata.analysis.panels import hours, last_valid, whole
from derivdata.support.arrays import Floats

__all__ = ["GRACE", "at_common_stamps", "merge_late_stamps", "refuse_overlap", "scheduled"]


GRACE = np.timedelta64(60, "s")
"""How late a settlement may be stamped and still count as that of its hour."""
_ROUNDING = 1e-6  # hours


def scheduled(times: NDArray[Any]) -> NDArray[np.datetime64]:
    """Return the instants for which stamps stand: the whole hour where they are at most a minute past it."""
    stamps = times.astype("datetime64[us]")
    hour = stamps.astype("datetime64[h]").astype("datetime64[us]")
    return np.asarray(np.where(stamps - hour <= GRACE, hour, stamps))


def merge_late_stamps(panel: xr.DataArray, *companions: xr.DataArray) -> tuple[xr.DataArray, ...]:
    """Put settlements on the instants for which their stamps stand; unchanged where all are punctual.

    Parameters
    ----------
    panel
        Settled rates with ascending times.
    *companions
        Arrays over the panel's dims and labels, such as its intervals: of each, the value beside the rate is
        taken.

    Raises
    ------
    ValueError
        Times do not ascend. Where rates are read: a series has two settlements that stand for one instant.
    """
    if not panel.sizes["time"]:
        return panel, *companions
    hours(panel)
    stamps = panel["time"].to_numpy()
    due = scheduled(stamps)
    if (due == stamps).all():
        return panel, *companions
    labels, starts = np.unique(due, return_index=True)
    merged = xr.apply_ufunc(
        _merged,
        *(whole(part, "time") for part in (panel, *companions)),
        input_core_dims=[["time"]] * (1 + len(companions)),
        output_core_dims=[["due"]] * (1 + len(companions)),
        kwargs={"starts": starts, "due": labels},
        dask="parallelized",
        output_dtypes=[np.float64] * (1 + len(companions)),
        dask_gufunc_kwargs={"output_sizes": {"due": labels.size}},
        keep_attrs=False,
    )
    parts = merged if companions else (merged,)
    return tuple(
        part.rename(due="time")
        .assign_coords(time=labels)
        .transpose(*panel.dims)
        .rename(old.name)
        .assign_attrs(old.attrs)
        for part, old in zip(parts, (panel, *companions), strict=True)
    )


def at_common_stamps(panel: xr.DataArray) -> xr.DataArray:
    """Put a panel's settlements on the instants for which their stamps stand; other panels stay as they are.

    Their intervals are left behind: a result of several venues has no interval of its own.

    Raises
    ------
    ValueError
        As `merge_late_stamps`.
    """
    panel = panel.drop_vars("interval_hours", errors="ignore")
    if panel.attrs.get("kind") != "settled" or "time" not in panel.dims or "time" not in panel.coords:
        return panel
    return merge_late_stamps(panel)[0]


def refuse_overlap(interval: Floats, since: Floats, origin: np.datetime64) -> None:
    """Refuse series whose settlements pay for more hours than have passed.

    Parameters
    ----------
    interval
        Hours that each settlement pays for, 0 where there is none; time on the last axis.
    since, origin
        Hours of the rows since `origin`.

    Raises
    ------
    ValueError
        Payments overlap by half an interval or more: one is stored twice, or the intervals are too long.

    Notes
    -----
    The overlap at a settlement is the most by which the intervals of any run of settlements that ends there
    exceed the time that the run took. A settlement that comes late overlaps with the next one; an overlap
    below half an interval is taken for that.
    """
    paid = interval > 0.0
    before = last_valid(paid)
    before = np.concatenate([np.full((*before.shape[:-1], 1), -1), before[..., :-1]], axis=-1)
    gap = np.where(before >= 0, since - since[np.maximum(before, 0)], np.inf)
    # Running surplus of paid over passed hours; what came before a series' lowest point cannot matter to it.
    surplus = np.cumsum(np.where(paid & np.isfinite(gap), interval - gap, 0.0), axis=-1)
    overlap = surplus - np.minimum.accumulate(np.minimum(surplus, 0.0), axis=-1)
    wrong = paid & (overlap > 0.5 * interval - _ROUNDING)
    if not wrong.any():
        return
    place = np.unravel_index(int(np.argmax(wrong)), wrong.shape)
    row, hours_paid = place[-1], float(interval[place])
    when = origin + np.timedelta64(round(float(since[row]) * 3_600_000_000), "us")
    raise ValueError(
        "settlements pay for more hours than have passed: that of "
        f"{np.datetime_as_string(when, unit='s')} pays for {hours_paid:g} h and comes {gap[place]:g} h after "
        "the one before. A payment is there twice (see dd.quality), or interval_hours is too long (see "
        "infer_interval)"
    )


def _merged(rates: Floats, *companions: Floats, starts: NDArray[np.intp], due: NDArray[Any]) -> Any:
    """Return one column per instant: fmax over a group of stamps takes the only value that is not NaN."""
    there = ~np.isnan(rates)
    number = np.add.reduceat(there.astype(np.intp), starts, axis=-1)
    if (number > 1).any():
        when = due[np.unravel_index(int(np.argmax(number > 1)), number.shape)[-1]]
        raise ValueError(
            f"a series has two settlements within a minute of {np.datetime_as_string(when, unit='s')}: "
            "one payment is there twice, see dd.quality"
        )
    merged = [
        np.fmax.reduceat(np.where(there, part, np.nan), starts, axis=-1) for part in (rates, *companions)
    ]
    return tuple(merged) if companions else merged[0]
