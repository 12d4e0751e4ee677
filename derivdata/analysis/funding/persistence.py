"""Persistence of a rate or a spread: half-life of its return to the mean."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import numpy as np
import xarray as xr

from derivdata.analysis.funding import ar1
from derivdata.analysis.funding.grid_bootstrap import phi_interval
from derivdata.analysis.funding.persistent_part import persistent_part
from derivdata.analysis.funding.status import FundingStatus
from derivdata.analysis.inputs import require_draws
from derivdata.analysis.last_value import last_valid
from derivdata.analysis.panels import (
    beside,
    hours,
    hours_at,
    kind_of,
    like,
    require_rate,
    usual_step,
    whole,
)
from derivdata.analysis.status import flag_attrs
from derivdata.support.arguments import Numbers, typed
from derivdata.support.arrays import Floats
from derivdata.units import HOUR_UNIT, RATE_UNIT

__all__ = ["half_life"]

_LEAST = 30
_USUAL_LEVEL = 0.9
_TOLERANCE = 0.05  # of a step
_MINUTE = 1 / 60
_MOST = 10_000_000  # steps of one series

_UNITS = {
    "half_life_hours": HOUR_UNIT,
    "half_life_low_hours": HOUR_UNIT,
    "half_life_high_hours": HOUR_UNIT,
    "half_life_corrected_hours": HOUR_UNIT,
    "phi": "1",
    "phi_corrected": "1",
    "persistent_share": "1",
    "mean_bps_8h": RATE_UNIT,
    "intercept_bps_8h": RATE_UNIT,
    "noise_variance": f"({RATE_UNIT})^2",
    "loglik": "1",
    "step_hours": HOUR_UNIT,
    "pairs": "1",
    "off_grid": "1",
}


class _Plan(NamedTuple):
    since: Floats
    origin: float
    """Hours of the first row since 1970-01-01 00:00 UTC."""
    settled: bool
    means: bool
    likelihood: bool
    components: bool
    level: float | None
    resamples: int
    seed: int


@typed
def half_life(
    panel: xr.DataArray,
    *,
    interval_hours: Numbers | None = None,
    sampling: Literal["point", "mean"] = "point",
    method: Literal["ols", "ml", "components"] = "ols",
    level: float | None = 0.9,
    resamples: int = 499,
    seed: int = 0,
) -> xr.Dataset:
    """Estimate the hours in which a deviation from the mean halves, by a first-order autoregression.

    Parameters
    ----------
    panel
        Funding rates or spreads [bps/8h] whose ``kind`` is stated, dim ``time``, in memory or lazy (time is
        put into one chunk).
    interval_hours
        The venue's settlement interval [h], a number or a DataArray over dims of the panel without ``time``.
        Needed for samples, which are taken once per interval: within one, a venue's running average is
        autocorrelated by construction. Of settlements it is the commonest gap by default.
    sampling
        What a value stands for: ``"point"``, its instant; ``"mean"``, the whole step up to or from it
        (bucket means, or settlements seen as means of a rate that moves within the interval). Means look
        more persistent than the process is, and are corrected for that.
    method
        ``"ols"``: least squares over neighbours; ``"ml"``: exact Gaussian likelihood, which also uses values
        across gaps. The interval is that of least squares in both. ``"components"``: the part that stays,
        beside noise that is gone after a step or two, a cycle of the day and a floor or cap; the two others
        take noise for a fast return to the mean. Its figures are the same for both kinds of `sampling`.
    level
        Nominal coverage of the interval; None computes none, which is a hundred times faster except for
        ``"components"``.
    resamples, seed
        Simulated series per grid point of the bootstrap, and where its random numbers start. Every series
        starts there, so that results depend neither on chunks nor on neighbours.

    Returns
    -------
    Dataset, the panel's dims without ``time``
        ``half_life_hours``: NaN with status ``anti_persistent`` where φ ≤ 0, inf with ``unit_root`` where
        φ ≥ 1. ``half_life_low_hours`` and ``half_life_high_hours``: the grid-bootstrap interval, 0 to inf.
        ``half_life_corrected_hours`` and ``phi_corrected``: with the small-sample correction
        (nφ + 1)/(n − 3); of components both are median-unbiased and the same. ``persistent_share``: the part
        of the variance that decays so; 1 but for components. ``phi`` per step, ``mean_bps_8h``,
        ``intercept_bps_8h``, ``noise_variance``, ``loglik`` (these two not of components), ``step_hours``,
        ``pairs``, ``off_grid`` (settlements left out because they lie between two steps), ``status``;
        ``cannot_tell`` where an interval of components (that of 0.9 where `level` is None) holds everything
        from a step to infinity. All figures are NaN below 30 pairs of neighbours; a pair across a gap is not
        one.

    Raises
    ------
    TypeError, ValueError
        The unit or the kind is not stated; `interval_hours` is missing for samples or varies in time;
        `sampling`, `method` or `level` are unknown.

    Notes
    -----
    Analysis step: ``x[t] = c + φ x[t−1] + e``, half-life ``−ln 2 / ln φ`` steps. The coverage of the interval
    is measured in docs/funding.md.
    """
    require_rate(panel, "time")
    if level is not None and not 0.0 < level < 1.0:
        raise ValueError(f"{level=} is a probability: 0.9")
    require_draws(resamples, seed, least=99)
    plan, step = _planned(panel, interval_hours)
    plan = plan._replace(
        means=sampling == "mean" and method != "components",
        likelihood=method == "ml",
        components=method == "components",
        level=level,
        resamples=resamples,
        seed=seed,
    )
    figures = xr.apply_ufunc(
        _half_lives,
        whole(panel, "time"),
        step,
        input_core_dims=[["time"], []],
        output_core_dims=[[]] * (len(_UNITS) + 1),
        kwargs={"plan": plan},
        dask="parallelized",
        keep_attrs=False,
        output_dtypes=[np.float64] * len(_UNITS) + [np.int32],
    )
    result = xr.Dataset()
    for (name, unit), figure in zip([*_UNITS.items(), ("status", "1")], figures, strict=True):
        result[name] = like(figure, panel)
        result[name].attrs = flag_attrs(FundingStatus) if name == "status" else {"units": unit}
    result.attrs = {"kind": panel.attrs["kind"], "sampling": sampling, "method": method}
    return result


def _planned(panel: xr.DataArray, interval_hours: Any) -> tuple[_Plan, xr.DataArray]:
    since, settled = hours(panel), kind_of(panel) == "settled"
    series = panel.isel(time=0, drop=True)
    if interval_hours is None and not settled:
        raise ValueError("a sampled rate says nothing below its settlement interval: give interval_hours")
    if interval_hours is None:
        step = xr.full_like(series, np.nan, dtype=np.float64)
    else:
        step = beside(series, interval_hours, units=HOUR_UNIT, name="interval_hours")
    origin = float(hours_at(panel["time"].to_numpy()[:1], np.datetime64(0, "us"))[0])
    if not settled:
        step = step.clip(min=usual_step(since))
    return _Plan(since, origin, settled, False, False, False, None, 0, 0), step


def _half_lives(rates: Floats, step: Floats, *, plan: _Plan) -> tuple[Any, ...]:
    step = np.broadcast_to(step, rates.shape[:-1])
    results = np.empty((len(_UNITS) + 1, *rates.shape[:-1]))
    for series in np.ndindex(rates.shape[:-1]):
        results[(slice(None), *series)] = _one(rates[series], float(step[series]), plan)
    return *results[:-1], results[-1].astype(np.int32)


def _one(rates: Floats, step: float, plan: _Plan) -> list[float]:
    regular, step, off_grid = (_settlements if plan.settled else _samples)(rates, step, plan)
    squares = ar1.fit_squares(regular)
    fit = ar1.fit_likelihood(regular) if plan.likelihood else squares
    few, level = fit.pairs < _LEAST, not np.isfinite(squares.phi)
    if few or level:
        status = FundingStatus.TOO_FEW if few else FundingStatus.CONSTANT
        return [np.nan] * (len(_UNITS) - 3) + [step, fit.pairs, off_grid, status]
    if plan.components:
        return _of_components(regular, step, fit.pairs, off_grid, plan)
    phi, better = fit.phi, ar1.corrected(fit.phi, fit.pairs)
    if plan.means:
        phi, better = (float(ar1.decay(slope)) for slope in (phi, better))
    low, high = _interval(regular, squares, plan)
    halves = ar1.half_life_steps([phi, low, high, better]) * step
    status = _status(phi, halves[0] / step, plan.means)
    halves[[0, 3]] = np.where(np.array([phi, better]) > 0.0, halves[[0, 3]], np.nan)
    mean = fit.intercept / (1.0 - fit.phi) if fit.phi < 1.0 else np.nan
    fitted = [mean, fit.intercept, fit.variance, fit.loglik]
    return [*halves, phi, better, 1.0, *fitted, step, fit.pairs, off_grid, status]


def _of_components(regular: Floats, step: float, pairs: int, off_grid: int, plan: _Plan) -> list[float]:
    """Return the figures of the persistent part; noise variance and likelihood are not of this model."""
    day = 24.0 / step
    slots = round(day) if abs(day - round(day)) < 1e-6 and regular.size >= 10 * day else 1
    level = _USUAL_LEVEL if plan.level is None else plan.level
    part = persistent_part(
        regular, slots=max(slots, 1), level=level, resamples=plan.resamples, seed=plan.seed
    )
    phi = float(0.5 ** (1.0 / part.half_life)) if part.half_life > 0.0 else 0.0
    status = _status(phi, part.half_life, False)
    if part.low <= 1.0 and part.high == np.inf:
        status |= FundingStatus.CANNOT_TELL
    life = part.half_life * step if part.half_life > 0.0 else np.nan
    mean = float(np.nanmean(regular))
    low, high = (part.low * step, part.high * step) if plan.level is not None else (np.nan, np.nan)
    halves = [life, low, high, life]
    return [
        *halves,
        phi,
        phi,
        part.share,
        mean,
        mean * (1.0 - phi),
        np.nan,
        np.nan,
        step,
        pairs,
        off_grid,
        status,
    ]


def _interval(regular: Floats, fit: ar1.Fit, plan: _Plan) -> tuple[float, float]:
    if plan.level is None or fit.stderr == 0.0:
        return np.nan, np.nan
    return phi_interval(
        regular, fit, level=plan.level, resamples=plan.resamples, seed=plan.seed, means=plan.means
    )


def _status(phi: float, steps: float, means: bool) -> FundingStatus:
    if phi <= 0.0:
        return FundingStatus.ANTI_PERSISTENT
    if phi >= 1.0:
        return FundingStatus.UNIT_ROOT
    return FundingStatus.COARSE if means and steps < 3.0 else FundingStatus(0)


def _settlements(rates: Floats, step: float, plan: _Plan) -> tuple[Floats, float, int]:
    """Return the settlements on their own grid, counted from the first; those off the grid are left out."""
    rows = np.flatnonzero(np.isfinite(rates))
    if rows.size < 2:
        return np.full(1, np.nan), step, 0
    since = plan.since[rows] - plan.since[rows[0]]
    if np.isnan(step):
        gaps, counts = np.unique(np.rint(np.diff(since) / _MINUTE), return_counts=True)
        step = float(gaps[np.argmax(counts)]) * _MINUTE
    if not since[-1] <= _MOST * step:
        raise ValueError(f"interval_hours={step:g} makes more than {_MOST:,} steps of the panel's times")
    place = np.rint(since / step).astype(np.intp)
    on_grid = np.abs(since - place * step) <= _TOLERANCE * step
    regular = np.full(place[-1] + 1, np.nan)
    regular[place[on_grid]] = rates[rows[on_grid]]
    return regular, step, int((~on_grid).sum())


def _samples(rates: Floats, step: float, plan: _Plan) -> tuple[Floats, float, int]:
    """Sample once per step, at multiples of the step from 00:00 UTC; as means, the whole steps between."""
    row_step = usual_step(plan.since)
    first, last = np.ceil(plan.origin / step), np.floor((plan.origin + plan.since[-1]) / step)
    if last < first or np.isnan(step):
        return np.full(1, np.nan), step, 0
    grid = np.arange(first, last + 1) * step - plan.origin
    if plan.means:
        return _bucket_means(rates, plan.since, grid, step, row_step), step, 0
    row = np.searchsorted(plan.since, grid + 1e-9, side="right") - 1
    at = last_valid(np.isfinite(rates))[row]
    fresh = (at >= 0) & (grid - plan.since[np.maximum(at, 0)] < min(2.0 * row_step, step))
    return np.where(fresh, rates[np.maximum(at, 0)], np.nan), step, 0


def _bucket_means(rates: Floats, since: Floats, grid: Floats, step: float, row_step: float) -> Floats:
    bucket = np.floor((since - grid[0]) / step + 1e-9).astype(np.intp)
    inside = (bucket >= 0) & (bucket < grid.size) & np.isfinite(rates)
    count = np.bincount(bucket[inside], minlength=grid.size)
    total = np.bincount(bucket[inside], weights=rates[inside], minlength=grid.size)
    full = count >= np.rint(step / row_step)
    return np.where(full, total / np.maximum(count, 1), np.nan)
