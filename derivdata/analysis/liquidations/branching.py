"""How much of a flow of events excites itself, and what else may look like that.

Counts vary more than those of independent events where events cause others, but also where their rate follows
the clock or drifts. And bursts that last longer than a bucket are cut into pieces, which hides part of what
they cause. Both are looked for, and said.
"""

from __future__ import annotations

from enum import IntFlag
from typing import Any, NamedTuple

import numpy as np
import xarray as xr
from scipy.special import fdtrc

from derivdata.analysis.inputs import require_numbers
from derivdata.analysis.panels import figures_of
from derivdata.support.arguments import typed
from derivdata.support.arrays import Array, Bools, Floats, Indices

_LEAST = 30  # buckets
_DAYS = 3
_BLOCKS = 6  # of a day, four hours each
_LAGS = 8
_CHANCE = 0.01
_MATTERS = 0.05  # of the branching ratio


class BranchingStatus(IntFlag):
    """Reasons; a status of 0 is a plain success."""

    TOO_FEW = 1 << 0
    """Fewer than 30 buckets are known."""
    NO_EXCESS = 1 << 1
    """The counts vary no more than those of independent events: there is no figure."""
    CYCLE = 1 << 2
    """Counts follow the time of day or the weekend; without that the figure would be lower by over 0.05."""
    CORRELATED = 1 << 3
    """Neighbouring buckets go together: bursts outlast a bucket, or the rate drifts; it may be any figure."""
    CANNOT_TELL = 1 << 4
    """Three days are not covered, or there are no times: a cycle of the day may be all of the figure."""


class _Clock(NamedTuple):
    """Where each bucket lies: its day, its block of four hours, and whether its day is of a weekend."""

    day: Indices
    block: Indices
    weekend: Bools


@typed
def branching_ratio(counts: xr.DataArray, *, dim: str = "time") -> xr.DataArray:
    """Estimate the branching ratio of a self-exciting flow: 1 − √(mean/variance) of counts per bucket.

    Parameters
    ----------
    counts
        Numbers of events per bucket, in memory or lazy. Missing buckets are left out.
    dim
        The buckets' dim; with times [UTC] as its coordinate, cycles of the day and the week are looked for.

    Returns
    -------
    DataArray, the dims of `counts` without `dim`
        The ratio, NaN where the variance does not exceed the mean, as for independent events. Its coordinate
        ``status`` (`BranchingStatus`) says what else may make the figure, or that the data cannot tell.

    Notes
    -----
    Hardiman and Bouchaud (2014), Physical Review E 90:062807. Whatever makes counts vary passes for
    excitation: independent events in 5-minute buckets give 0.38 with a cycle of the day of ±80 %, and 0.17
    with weekends at two fifths of weekdays; both have the status ``cycle``. Then take buckets of one time of
    day and of weekdays alone. ``correlated`` buckets are too short for the bursts: take longer ones. Where
    the status stays, the rate drifts or the flow is near critical: do not use the figure. Rates are compared
    over six blocks of a day and over weekends, at 1 % chance each; what moves the figure by up to 0.05 is
    passed over.
    """
    if dim not in counts.dims:
        raise ValueError(f"counts has no dim {dim!r}, but {', '.join(map(str, counts.dims))}")
    require_numbers(counts, "counts")
    if counts.attrs.get("units", "1") != "1":
        raise ValueError(f"counts is in {counts.attrs['units']!r}: this takes numbers of events")
    units = {"branching_ratio": "1", "status": BranchingStatus}
    result = figures_of(
        _branching, counts, units=units, over=[dim], vectorize=True, clock=_clock(counts, dim)
    )
    return result.set_coords("status")["branching_ratio"]


def _clock(counts: xr.DataArray, dim: str) -> _Clock | None:
    times = counts[dim].to_numpy() if dim in counts.coords else np.empty(0)
    if times.dtype.kind != "M":
        return None
    hours = times.astype("datetime64[h]").astype(np.int64)
    day = hours // 24
    # 1970-01-01 was a Thursday: days 2 and 3 of each week from then on are Saturdays and Sundays.
    return _Clock(day, hours % 24 * _BLOCKS // 24, np.isin(day % 7, (2, 3)))


def _branching(counts: Array, *, clock: _Clock | None) -> tuple[float, int]:
    known = np.isfinite(counts)
    n, level = int(known.sum()), np.asarray(counts, dtype=np.float64)
    status = BranchingStatus(0) if n >= _LEAST else BranchingStatus.TOO_FEW
    mean = float(level[known].mean()) if n else np.nan
    power = float(((level[known] - mean) ** 2).sum()) if n else np.nan
    if not power / max(n, 1) > mean:
        return np.nan, int(status | BranchingStatus.NO_EXCESS)
    ratio = _ratio(power / n, mean)
    if n < _LEAST:
        return ratio, int(status | BranchingStatus.CANNOT_TELL)
    residuals = level - mean
    if clock is None or np.unique(clock.day[known]).size < _DAYS:
        status |= BranchingStatus.CANNOT_TELL
    else:
        # Without the mean of each block of the day, of weekends and of weekdays apart.
        stratum = clock.block + _BLOCKS * clock.weekend
        count = np.bincount(stratum[known], minlength=2 * _BLOCKS)
        sums = np.bincount(stratum[known], weights=level[known], minlength=2 * _BLOCKS)
        residuals = level - (sums / np.maximum(count, 1))[stratum]
        within = _ratio(float((residuals[known] ** 2).sum()) / (n - int((count > 0).sum())), mean)
        if ratio - within > _MATTERS and _follows_clock(level, known, clock):
            status |= BranchingStatus.CYCLE
    return ratio, int(status | _correlated(residuals, known, mean))


def _ratio(variance: float, mean: float) -> float:
    """Return 1 − √(mean/variance): long buckets of a Hawkes process have variance/mean 1/(1 − n)²."""
    return 1.0 - float(np.sqrt(mean / variance)) if variance > mean else 0.0


def _follows_clock(level: Floats, known: Bools, clock: _Clock) -> bool:
    """Tell whether blocks of the day, or weekends, differ by more than chance, by analyses of variance.

    Their units are whole blocks and whole days, which bursts of minutes leave independent.
    """
    day = clock.day[known] - np.min(clock.day[known])
    days = int(np.max(day)) + 1
    place = day * _BLOCKS + clock.block[known]
    count = np.bincount(place, minlength=days * _BLOCKS)
    total = np.bincount(place, weights=level[known], minlength=days * _BLOCKS)
    cells = np.where(count > 0, total / np.maximum(count, 1), np.nan).reshape(days, _BLOCKS)
    whole = np.isfinite(cells).all(axis=1)
    daily = cells[whole].mean(axis=1)
    weekend = np.zeros(days, dtype=np.bool_)
    weekend[day] = clock.weekend[known]
    apart = cells[whole] - daily[:, None]
    return _differ(apart.T, lost=len(apart) - 1) or _differ([daily[weekend[whole]], daily[~weekend[whole]]])


def _differ(groups: Any, lost: int = 0) -> bool:
    """Tell whether groups have different means, by an F test; `lost` degrees went into other means."""
    groups = [group for group in groups if len(group)]
    size = sum(len(group) for group in groups)
    free = size - len(groups) - lost
    if len(groups) < 2 or free < 1:
        return False
    centre = sum(group.sum() for group in groups) / size
    between = sum(len(group) * (group.mean() - centre) ** 2 for group in groups)
    inside = sum(((group - group.mean()) ** 2).sum() for group in groups)
    statistic = (between / (len(groups) - 1)) / max(inside / free, 1e-300)
    return bool(fdtrc(len(groups) - 1, free, statistic) < _CHANCE)


def _correlated(residuals: Floats, known: Bools, mean: float) -> BranchingStatus:
    """Tell whether neighbouring buckets go together by so much that longer ones would give another figure."""
    level = np.where(known, residuals, 0.0)
    n, power = int(known.sum()), float(level @ level)
    rho = np.array([level[lag:] @ level[:-lag] for lag in range(1, _LAGS + 1)]) / max(power, 1e-300)
    inflation = 1.0 + 2.0 * float(rho.sum())
    by_chance = rho.sum() < 2.33 * np.sqrt(_LAGS / n)
    if by_chance or _ratio(power * inflation / n, mean) - _ratio(power / n, mean) <= _MATTERS:
        return BranchingStatus(0)
    return BranchingStatus.CORRELATED
