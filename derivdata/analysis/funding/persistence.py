"""Persistence of a rate or a spread: half-life of mean reversion, and break-even time of a pair.

A component model separates noise from the persistent part. Noise lowers the autocorrelation from lag 0 to
lag 1 and not from one later lag to the next, so the lags from 1 on identify φ. The interval is simulated: a φ
of a grid is in it if the data's autocovariances are not extreme among those of series with that φ, and with
the data's first autocorrelation, gaps and floor. A floor or a pinned level also lowers autocorrelations.

The break-even of a pair follows from the expected path of a spread that returns to its mean.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd
import xarray as xr
from numpy.polynomial import hermite_e, polynomial
from scipy.special import factorial, ndtri

from derivdata.analysis.funding.accrual import period_sums
from derivdata.analysis.funding.pairs import pair_costs, slippage_bps
from derivdata.analysis.labelling import elementwise
from derivdata.analysis.panels import (
    Panel,
    figures_of,
    hours,
    hours_at,
    hours_of,
    kind_of,
    last_valid,
    positive,
    require,
    require_draws,
    require_labels,
    require_level,
    require_rate,
    require_venues,
    seed_of,
    usual_step,
)
from derivdata.analysis.status import FundingStatus, flag_attrs
from derivdata.support.arguments import typed
from derivdata.support.arrays import Bools, Floats
from derivdata.units import BPS_UNIT, HOUR_UNIT, RATE_UNIT, REFERENCE_HOURS, convert

_LAGS = 8  # lags in the statistic
_GRID_SIZE = 24  # half-lives that are tested
_MIN_HALF_LIFE = 0.3  # steps
_MIN_EXTREME_SHARE = 0.03  # share of values at an extreme from which it counts as a floor or cap
_MIN_PINNED_SHARE = 0.1  # share of values at a level in between from which it counts as pinned
_TAIL_FRACTION = 0.5
"""Fraction of the nominal tails that is used. The noise is fitted to the data's first autocorrelation, so
simulations are too similar to the data if that is high by chance. With full tails a nominal 90 % covers 77 to
85 % at a half-life of a thirtieth of the data; see the table in docs/methods/carry.md.
"""
_NEGATIVE_ERRORS = 3.0  # standard errors below zero from which a first autocorrelation counts as negative
_MAX_THETA = 0.999
_TINY = 1e-300  # in place of a variance of 0 in a divisor
_NORMAL_NODES = 4000  # quantiles that approximate the normal distribution
_HERMITE_DEGREES = 30
_BATCH_VALUES = 4_000_000  # simulated values per batch


class PersistentPart(NamedTuple):
    """Half-life [steps] of the slowest component, and its share of the variance."""

    half_life: float
    """Median-unbiased; 0 if everything decays within a third of a step, inf if nothing decays; 0 with NaN
    ends if adjacent values are negatively correlated, so that nothing persists.
    """
    low: float
    high: float
    share: float
    """First autocorrelation over φ, from 0 to 1: the rest of the variance is gone after a step."""


def persistent_part(series: Floats, *, slots: int, level: float, resamples: int, seed: int) -> PersistentPart:
    """Estimate the half-life of the persistent part by test inversion.

    The values are on a regular grid and must vary, NaN if missing; the means of the `slots` of a cycle are
    removed from data and simulations. The statistic at φ is ``Σ_k φ^k (γ[k + 2] − φ γ[k + 1]) / γ[0]`` over
    eight lags: 0 except for bias at the true φ. Weak identification (little persistence, much noise) gives
    wide intervals rather than wrong ones, because the moments themselves are tested instead of an estimate
    (Anderson and Rubin 1949, Annals of Mathematical Statistics 20).
    """
    # 1. Compute the statistic of the data at each half-life of a grid.
    finite = np.isfinite(series)
    max_half_life = max(int(finite.sum()), 2)
    half_lives = np.exp(np.linspace(np.log(_MIN_HALF_LIFE), np.log(max_half_life), _GRID_SIZE))
    phis = 0.5 ** (1.0 / half_lives)
    autocovariances = _autocovariances(np.where(finite, series, 0.0)[:, None, None], finite, slots)
    observed = _statistics(autocovariances, phis[:, None])[:, 0]
    first = float(autocovariances[1, 0, 0] / max(autocovariances[0, 0, 0], _TINY))
    # A persistent part of any share cannot make the first autocorrelation negative.
    if first < -_NEGATIVE_ERRORS / np.sqrt(finite.sum()):
        return PersistentPart(0.0, np.nan, np.nan, 0.0)

    # 2. Compute quantiles of the statistic for simulated series with this half-life.
    tail = 0.5 * _TAIL_FRACTION * (1.0 - level)
    shares = _level_shares(series[finite])
    gaussian_first = _gaussian_autocorrelation(first, shares)
    quantiles = np.empty((3, _GRID_SIZE))
    batch_size = max(1, _BATCH_VALUES // (series.size * resamples))
    for begin in range(0, _GRID_SIZE, batch_size):
        batch = slice(begin, begin + batch_size)
        gaussian = _simulated(phis[batch], gaussian_first, series.size, resamples, seed)
        simulated = _clipped(gaussian, shares)
        simulated[~finite] = 0.0
        statistics = _statistics(_autocovariances(simulated, finite, slots), phis[batch, None])
        quantiles[:, batch] = np.quantile(statistics, [tail, 0.5, 1.0 - tail], axis=1)

    # 3. Find the half-lives at which the data's statistic equals the median and the interval ends.
    # The statistic falls with the half-life, so its lower quantile gives the upper end.
    high = _crossing(half_lives, observed - quantiles[0])
    half_life = _crossing(half_lives, observed - quantiles[1])
    low = _crossing(half_lives, observed - quantiles[2])
    share = 0.0
    if half_life > 0.0:
        share = float(np.clip(first * 2.0 ** (1.0 / half_life), 0.0, 1.0))
    return PersistentPart(half_life, low, high, share)


def _autocovariances(values: Floats, finite: Bools, slots: int) -> Floats:
    """Return autocovariances (lag, φ, sample) of values (step, φ, sample); missing values are 0.

    The mean of each of the `slots` of a cycle (rows ``slot, slot + slots, …``) is subtracted first.
    """
    centred = np.empty_like(values)
    for slot in range(slots):
        rows = finite[slot::slots]
        mean = values[slot::slots].sum(axis=0) / max(int(rows.sum()), 1)
        centred[slot::slots] = np.where(rows[:, None, None], values[slot::slots] - mean, 0.0)
    result = np.empty((_LAGS + 2, *values.shape[1:]))
    for lag in range(_LAGS + 2):
        pairs = int((finite[lag:] & finite[: finite.size - lag]).sum())
        products = np.einsum("tgr,tgr->gr", centred[lag:], centred[: finite.size - lag])
        result[lag] = products / max(pairs, 1)
    return result


def _statistics(autocovariances: Floats, phi: Floats) -> Floats:
    """Return the statistic (φ, sample) of autocovariances (lag, φ, sample)."""
    total = np.zeros(np.broadcast_shapes(autocovariances.shape[1:], phi.shape))
    for lag in range(_LAGS):
        total = total + phi**lag * (autocovariances[lag + 2] - phi * autocovariances[lag + 1])
    return np.asarray(total / np.maximum(autocovariances[0], _TINY))


def _moving_average(phi: Floats, first: float) -> Floats:
    """Return θ of the ARMA(1, 1) with φ and the closest possible first autocorrelation.

    From ``ρ₁ = (1 + φθ)(φ + θ) / (1 + 2φθ + θ²)``: a quadratic in θ whose roots are inverse to each other;
    the one inside the unit circle is used. Without a real root, the nearest end is used.
    """
    # a θ² + b θ + a = 0
    a = phi - first
    b = 1.0 + phi**2 - 2.0 * phi * first
    discriminant = b**2 - 4.0 * a**2
    with np.errstate(divide="ignore", invalid="ignore"):
        theta = (np.sqrt(np.maximum(discriminant, 0.0)) - b) / (2.0 * a)
    theta = np.where(discriminant < 0.0, -np.sign(a), theta)
    theta = np.where(np.abs(a) < 1e-9, 0.0, theta)
    return np.clip(theta, -_MAX_THETA, _MAX_THETA)


def _simulated(phi: Floats, first: float, size: int, samples: int, seed: int) -> Floats:
    """Return Gaussian ARMA(1, 1) series (step, φ, sample) that start in their stationary distribution."""
    rng = np.random.default_rng(seed)
    theta = _moving_average(phi, first)[:, None]
    phi = phi[:, None]
    shocks = rng.standard_normal((size + 1, samples))
    # The first value is a new shock plus older shocks, which have the remaining stationary variance.
    variance_of_older = (1.0 + 2.0 * phi * theta + theta**2) / (1.0 - phi**2) - 1.0
    value = shocks[0] + np.sqrt(np.maximum(variance_of_older, 0.0)) * rng.standard_normal(samples)
    result = np.empty((size, phi.size, samples))
    for step in range(size):
        value = phi * value + shocks[step + 1] + theta * shocks[step]
        result[step] = value
    return result


class _LevelShares(NamedTuple):
    """Shares of values at a floor, at a cap, at a level between them (each 0 without one), and below that."""

    floor: float
    cap: float
    pinned: float
    below_pinned: float


def _level_shares(values: Floats) -> _LevelShares:
    """Measure the shares of equal values; shares that may be chance are 0."""
    rounding = 1e-9 * max(float(np.abs(values).max()), _TINY)
    floor = float((values <= np.min(values) + rounding).mean())
    cap = float((values >= np.max(values) - rounding).mean())

    # The pinned level is the longest run of equal values, unless that is at the floor or the cap.
    ordered = np.sort(values)
    run_starts = np.flatnonzero(np.diff(ordered, prepend=-np.inf) > rounding)
    run_sizes = np.diff(np.append(run_starts, ordered.size))
    longest = int(np.argmax(run_sizes))
    pinned = run_sizes[longest] / ordered.size
    below_pinned = run_starts[longest] / ordered.size

    if floor <= _MIN_EXTREME_SHARE:
        floor = 0.0
    if cap <= _MIN_EXTREME_SHARE:
        cap = 0.0
    if pinned <= _MIN_PINNED_SHARE or longest in (0, run_sizes.size - 1):
        pinned = 0.0
    return _LevelShares(floor, cap, pinned, below_pinned)


def _clipped(simulated: Floats, shares: _LevelShares) -> Floats:
    """Return values (step, ...) with the given shares at a floor, a cap and a pinned level, which is 0."""
    if shares.pinned:
        # Venues pay the interest rate while the premium is within a range, and the excess beyond it.
        levels = [shares.below_pinned, shares.below_pinned + shares.pinned]
        bottom, top = np.quantile(simulated, levels, axis=0)
        simulated = simulated - np.clip(simulated, bottom, top)
    if not 0.0 < shares.floor + shares.cap < 1.0:
        return simulated
    floor, cap = np.quantile(simulated, [shares.floor, 1.0 - shares.cap], axis=0)
    if shares.floor:
        simulated = np.maximum(simulated, floor)
    if shares.cap:
        simulated = np.minimum(simulated, cap)
    return np.asarray(simulated)


def _gaussian_autocorrelation(first: float, shares: _LevelShares) -> float:
    """Return the first autocorrelation of Gaussian values that have `first` after clipping and pinning.

    Between adjacent values with correlation r, Hermite polynomials of degree n have correlation rⁿ (Mehler).
    Clipped values are a sum of these, so their correlation is the mean of rⁿ weighted by the variance share
    of each degree.
    """
    if first <= 0.0 or not any([shares.floor, shares.cap, shares.pinned]):
        return first

    # 1. Expand the clipped value of a normal variable in normalised Hermite polynomials.
    normal = np.asarray(ndtri((np.arange(_NORMAL_NODES) + 0.5) / _NORMAL_NODES))
    clipped = _clipped(normal[:, None, None], shares)[:, 0, 0]
    norms = np.sqrt(factorial(np.arange(_HERMITE_DEGREES + 1)))
    polynomials = hermite_e.hermevander(normal, _HERMITE_DEGREES) / norms
    variances = np.square((clipped - clipped.mean()) @ polynomials)

    # 2. Invert the correlation after clipping, which is a polynomial in r.
    r = np.linspace(0.0, 1.0, 501)
    return float(np.interp(first, polynomial.polyval(r, variances / variances.sum()), r))


def _crossing(half_lives: Floats, difference: Floats) -> float:
    """Return the half-life at which a falling difference last crosses zero; 0 or inf beyond the grid."""
    above = np.flatnonzero(difference >= 0.0)
    if not above.size:
        return 0.0
    last = int(above[-1])
    if last == half_lives.size - 1:
        return float("inf")
    # Interpolate linearly in the logarithm of the half-life.
    fraction = difference[last] / (difference[last] - difference[last + 1])
    return float(half_lives[last] * (half_lives[last + 1] / half_lives[last]) ** fraction)


_MIN_PAIRS = 30
_USUAL_LEVEL = 0.9
_TOLERANCE = 0.05  # fraction of a step
_MINUTE = 1 / 60  # hours
_MAX_STEPS = 10_000_000  # maximum number of steps of one series

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
    "step_hours": HOUR_UNIT,
    "pairs": "1",
    "off_grid": "1",
}


class _Plan(NamedTuple):
    since: Floats
    """Hours of each row since the first."""
    origin: float
    """Hours of the first row since 1970-01-01 00:00 UTC."""
    settled: bool
    step: float
    """Hours; NaN takes the commonest gap of each series."""
    components: bool
    level: float | None
    resamples: int
    seed: int


@typed
def half_life(
    panel: Panel,
    *,
    period: str | pd.Timedelta | None = None,
    method: Literal["components", "ols"] = "components",
    level: float | None = 0.9,
    resamples: int = 499,
    rng: int | np.random.Generator | None = 0,
) -> xr.Dataset:
    """Estimate the hours in which a deviation from the mean halves.

    Parameters
    ----------
    panel
        Funding rates or spreads [bps/8h] with a ``kind``, dim ``time``, in memory or lazy (time is put into
        one chunk).
    period
        Step of the estimate. Samples are taken once per step, by default every 8 hours: use at least the
        venue's settlement interval, within which a running average is autocorrelated by construction.
        Settlements have their own step, by default the most common gap.
    method
        ``"components"``: the persistent part, separate from noise that vanishes after a step or two, a weekly
        cycle (daily below ten weeks), a floor or cap, and a level to which venues pin the rate. ``"ols"``: a
        first-order autoregression by least squares over adjacent values, which treats noise as fast mean
        reversion; without an interval.
    level
        Nominal coverage of the interval of components; None omits the interval.
    resamples, rng
        Number of simulated series per grid point of the bootstrap, and its random seed (SPEC 7: a seed, a
        Generator, or None for a different seed each time). Every series uses the same seed, so results depend
        neither on chunks nor on other series.

    Returns
    -------
    Dataset, the panel's dims without ``time``
        - ``half_life_hours`` [h]: NaN with status ``anti_persistent`` if φ ≤ 0 (for components also its
          interval, if adjacent values are negatively correlated), inf with ``unit_root`` if φ ≥ 1.
        - ``half_life_low_hours`` and ``half_life_high_hours`` [h]: the interval of components, from 0 to inf.
        - ``half_life_corrected_hours`` [h] and ``phi_corrected``: with the small-sample correction (nφ +
          1)/(n − 3). Components are median-unbiased already, so both are unchanged.
        - ``persistent_share`` [1]: the fraction of the variance in the part that decays with this half-life;
          1 for ``"ols"``.
        - ``phi`` per step, ``mean_bps_8h``, ``intercept_bps_8h``, ``noise_variance`` (not for components) and
          ``step_hours`` [h].
        - ``pairs``, the number of pairs of adjacent values, and ``off_grid``, the number of settlements
          omitted because they are between two steps.
        - ``status``: also ``cannot_tell`` if the interval of components (at 0.9 if `level` is None) contains
          everything from a step to infinity.

        All values are NaN below 30 pairs; a pair across a gap does not count.

    Raises
    ------
    TypeError, ValueError
        The unit or the kind is missing; `method` is unknown or `level` is out of range.

    Notes
    -----
    Per step ``x[t] = c + φ x[t−1] + e``, half-life ``−ln 2 / ln φ`` steps. The coverage of the interval
    is measured in docs/methods/carry.md.
    """
    panel = require_rate(panel, "time").drop_vars("interval_hours", errors="ignore")
    if level is not None:
        require_level(level)
    require_draws(resamples, minimum=99)
    since = hours(panel)
    settled = kind_of(panel) == "settled"
    step = np.nan if settled else 8.0  # settlements use the most frequent gap of each series
    if period is not None:
        step = hours_of(period, "period")
    if not settled:
        step = max(step, usual_step(since))
    origin = float(hours_at(panel["time"].to_numpy()[:1], np.datetime64(0, "us"))[0])
    plan = _Plan(since, origin, settled, step, method == "components", level, resamples, seed_of(rng))
    units = {**_UNITS, "status": FundingStatus}
    result = figures_of(_half_life, panel, units=units, vectorize=True, plan=plan)
    return result.assign_attrs(kind=panel.attrs["kind"], method=method)


def _half_life(rates: Floats, *, plan: _Plan) -> tuple[float, ...]:
    """Return the figures of `_UNITS` and the status of one series ``(time,)``."""
    # 1. Put the rates on a regular grid. The least-squares fit shows whether they suffice and vary.
    if plan.settled:
        regular, step, off_grid = _settlements(rates, plan)
    else:
        regular, step, off_grid = _samples(rates, plan)
    fit = _fit_squares(regular)
    if fit.pairs < _MIN_PAIRS or not np.isfinite(fit.phi):
        status = FundingStatus.TOO_FEW if fit.pairs < _MIN_PAIRS else FundingStatus.CONSTANT
        return *[np.nan] * (len(_UNITS) - 3), step, fit.pairs, off_grid, status
    if plan.components:
        return _of_components(regular, step, fit.pairs, off_grid, plan)

    # 2. Correct the slope's small-sample bias (Marriott and Pope 1954).
    phi = fit.phi
    corrected = (fit.pairs * phi + 1.0) / (fit.pairs - 3.0)

    # 3. Convert both slopes to half-lives: inf for a slope of 1 or more, NaN for one of 0 or less.
    slopes = np.array([phi, corrected])
    with np.errstate(divide="ignore"):
        steps = np.log(2.0) / np.abs(np.log(np.clip(slopes, 0.0, 1.0)))
    life, corrected_life = np.where(slopes > 0.0, steps * step, np.nan)
    mean = fit.intercept / (1.0 - fit.phi) if fit.phi < 1.0 else np.nan
    half_lives = [life, np.nan, np.nan, corrected_life]
    fitted = [mean, fit.intercept, fit.variance]
    return *half_lives, phi, corrected, 1.0, *fitted, step, fit.pairs, off_grid, _status(phi)


def _of_components(regular: Floats, step: float, pairs: int, off_grid: int, plan: _Plan) -> tuple[float, ...]:
    """Return the figures and status as `_half_life`, from `persistent_part`; the noise variance is NaN."""
    # Remove the weekly cycle with ten weeks of data or more, otherwise the daily cycle with ten days or more.
    slots = 1
    for length in (24.0, 168.0):
        steps = round(length / step)
        if abs(length / step - steps) < 1e-6 and regular.size * step >= 10.0 * length:
            slots = max(steps, 1)
    level = _USUAL_LEVEL if plan.level is None else plan.level
    persistent = persistent_part(regular, slots=slots, level=level, resamples=plan.resamples, seed=plan.seed)
    phi = 0.0
    life = np.nan
    if persistent.half_life > 0.0:
        phi = float(0.5 ** (1.0 / persistent.half_life))
        life = persistent.half_life * step
    status = _status(phi)
    if persistent.low <= 1.0 and persistent.high == np.inf:
        status |= FundingStatus.CANNOT_TELL
    mean = float(np.nanmean(regular))
    low = high = np.nan
    if plan.level is not None:
        low = persistent.low * step
        high = persistent.high * step
    half_lives = [life, low, high, life]
    fitted = [persistent.share, mean, mean * (1.0 - phi), np.nan]
    return *half_lives, phi, phi, *fitted, step, pairs, off_grid, status


class _Fit(NamedTuple):
    """``x[t] = intercept + phi x[t − 1] + noise``."""

    pairs: int
    phi: float
    intercept: float
    variance: float
    """Noise variance: residual sum of squares over the number of residuals."""


def _fit_squares(series: Floats) -> _Fit:
    """Fit least squares over the pairs of adjacent values; NaN below three pairs or without variation."""
    is_pair = np.isfinite(series[:-1]) & np.isfinite(series[1:])
    x = series[:-1][is_pair]
    y = series[1:][is_pair]
    n = int(is_pair.sum())
    if n < 3:
        return _Fit(n, np.nan, np.nan, np.nan)
    # Subtract the means of both sides first. If the level is large relative to its moves (a rate at its
    # floor), products with the level would lose the slope to rounding.
    dx = x - x.mean()
    dy = y - y.mean()
    sum_dx_dx = float(dx @ dx)
    if sum_dx_dx <= 1e-24 * float(x @ x):
        return _Fit(n, np.nan, np.nan, np.nan)
    phi = float(dx @ dy) / sum_dx_dx
    intercept = float(y.mean() - phi * x.mean())
    residuals = dy - phi * dx
    return _Fit(n, phi, intercept, float(np.square(residuals).sum()) / n)


def _status(phi: float) -> FundingStatus:
    """Return the status of a slope per step that has no half-life, 0 for others."""
    if phi <= 0.0:
        return FundingStatus.ANTI_PERSISTENT
    return FundingStatus.UNIT_ROOT if phi >= 1.0 else FundingStatus(0)


def _settlements(rates: Floats, plan: _Plan) -> tuple[Floats, float, int]:
    """Return the settlements on their grid, counted from the first; settlements off the grid are omitted."""
    rows = np.flatnonzero(np.isfinite(rates))
    step = plan.step
    if rows.size < 2:
        return np.full(1, np.nan), step, 0
    since = plan.since[rows] - plan.since[rows[0]]
    if np.isnan(step):
        gaps, counts = np.unique(np.rint(np.diff(since) / _MINUTE), return_counts=True)
        step = float(gaps[np.argmax(counts)]) * _MINUTE
    if not since[-1] <= _MAX_STEPS * step:
        raise ValueError(
            f"step={step:g} h is too short: it splits the panel into more than {_MAX_STEPS:,} steps"
        )
    place = np.rint(since / step).astype(np.intp)
    on_grid = np.abs(since - place * step) <= _TOLERANCE * step
    regular = np.full(place[-1] + 1, np.nan)
    regular[place[on_grid]] = rates[rows[on_grid]]
    return regular, step, int((~on_grid).sum())


def _samples(rates: Floats, plan: _Plan) -> tuple[Floats, float, int]:
    """Return samples at multiples of the step from 00:00 UTC, the step, and 0 rates off the grid.

    A sample is the newest rate, NaN if that is older than a step or two rows.
    """
    step = plan.step
    first = np.ceil(plan.origin / step)
    last = np.floor((plan.origin + plan.since[-1]) / step)
    if last < first:
        return np.full(1, np.nan), step, 0
    grid = np.arange(first, last + 1) * step - plan.origin
    row = np.searchsorted(plan.since, grid + 1e-9, side="right") - 1
    newest = last_valid(np.isfinite(rates))[row]
    has_rate = newest >= 0
    newest = np.maximum(newest, 0)
    age = grid - plan.since[newest]
    is_fresh = has_rate & (age < min(2.0 * usual_step(plan.since), step))
    return np.where(is_fresh, rates[newest], np.nan), step, 0


_BISECTIONS = 200
_TRADES = (("long", "ask"), ("long", "bid"), ("short", "bid"), ("short", "ask"))  # bought, sold, sold, bought


@typed
def breakeven(
    panel: Panel,
    long: str,
    short: str,
    *,
    fee_bps: float | Mapping[str, float],
    period: str | pd.Timedelta = "8h",
    depth_usd: xr.DataArray | None = None,
    size_usd: float | None = None,
    overlap: Literal["raise", "nan"] = "raise",
) -> xr.Dataset:
    """Compute the holding time after which the carry of a pair has paid its cost, from the end of the panel.

    Parameters
    ----------
    panel
        History of funding rates [bps/8h] with a ``kind``, dims ``exchange`` and ``time``, in memory or lazy.
    long, short
        Venues of the two legs, of equal notional.
    fee_bps
        Fee of one trade [bps of the notional traded], one number or a mapping by venue. A pair makes four
        trades.
    period
        Length of the periods over which history is summed; at least every venue's interval.
    depth_usd, size_usd
        Order-book depth [USD] with dims ``exchange``, ``side`` (bid, ask) and ``depth_bps`` (see
        `slippage_bps`), and notional of one leg [USD]. Together they add the slippage of the four trades;
        pass both or neither.
    overlap
        As in `cumulative`.

    Returns
    -------
    Dataset, the panel's dims without ``exchange`` and ``time``
        ``breakeven_hours``: inf with status ``unreachable`` if the carry never reaches the cost; its inputs:
        ``cost_bps`` (fees and slippage of the four trades), ``slippage_bps``, ``spread_bps_8h`` (of the last
        period), ``start_bps_8h`` (its persistent part), ``mean_bps_8h``, ``half_life_hours`` with
        ``half_life_low_hours`` and ``half_life_high_hours`` (90 %), ``status``; coordinates ``long`` and
        ``short``. NaN below 30 pairs of adjacent periods (``too_few``), if the last period is unknown
        (``gap``), nothing in the spread persists (``anti_persistent``) or the book is too thin
        (``too_thin``). ``cannot_tell``: the data do not determine the half-life, and therefore the
        break-even.

    Raises
    ------
    TypeError, ValueError
        As `cumulative`; a venue is not in the panel or has no fee; only one of `depth_usd` and `size_usd` is
        given.

    Notes
    -----
    The half-life comes from `half_life` by components: of the present distance from the mean, the persistent
    share starts there and decays, the rest vanishes immediately. This is the expectation; the distribution of
    single outcomes is in `forecast_carry`.
    """
    panel = require_rate(panel, "exchange", "time")
    require_venues(panel, long=long, short=short)

    # 1. Compute the cost, and the spread of each period.
    fees = pair_costs(fee_bps, [long, short])[0, 1]
    slippage = _slippage_of_pair(depth_usd, size_usd, long, short)
    sums = period_sums(panel.sel(exchange=[long, short]), period, overlap=overlap)["funding_bps"]
    earned = sums.isel(exchange=1, drop=True) - sums.isel(exchange=0, drop=True)
    hours = hours_of(period, "period")
    spread = convert(earned, "bps", "bps_8h", hours=hours).assign_attrs(units=RATE_UNIT, kind="settled")

    # 2. Estimate the persistent part of the last spread, and the time in which it pays the cost.
    life = half_life(spread, period=period, resamples=199)
    last = spread.isel(time=-1, drop=True)
    # The half-life of a constant spread is NaN: use its level, indefinitely.
    is_constant = (life["status"].astype(np.int32) & np.int32(FundingStatus.CONSTANT)) > 0
    mean = life["mean_bps_8h"].where(~is_constant, last)
    half_life_hours = life["half_life_hours"].where(~is_constant, np.inf)
    persistent_share = life["persistent_share"].where(~is_constant, 1.0)
    start = mean + persistent_share * (last - mean)
    cost = fees + slippage
    breakeven_hours = elementwise(hours_to_earn, start, cost, mean, half_life_hours)
    figures = {
        "breakeven_hours": (breakeven_hours, HOUR_UNIT),
        "cost_bps": (xr.DataArray(cost), BPS_UNIT),
        "slippage_bps": (slippage, BPS_UNIT),
        "spread_bps_8h": (last, RATE_UNIT),
        "start_bps_8h": (start, RATE_UNIT),
        "mean_bps_8h": (mean, RATE_UNIT),
        "half_life_hours": (life["half_life_hours"], HOUR_UNIT),
        "half_life_low_hours": (life["half_life_low_hours"], HOUR_UNIT),
        "half_life_high_hours": (life["half_life_high_hours"], HOUR_UNIT),
    }
    result = xr.Dataset()
    for name, (values, unit) in figures.items():
        result[name] = values.drop_attrs(deep=False).assign_attrs(units=unit)

    # 3. Add the reasons for NaN and infinity.
    status = life["status"].astype(np.int32) | last.isnull() * np.int32(FundingStatus.GAP)
    status = status | np.isinf(breakeven_hours) * np.int32(FundingStatus.UNREACHABLE)
    status = status | slippage.isnull() * np.int32(FundingStatus.TOO_THIN)
    result["status"] = status.drop_attrs().assign_attrs(flag_attrs(FundingStatus))
    return result.assign_coords(long=long, short=short)


def _slippage_of_pair(depth: xr.DataArray | None, size: float | None, long: str, short: str) -> xr.DataArray:
    """Return the slippage [bps] of the four trades of a pair; 0 without a depth and a size."""
    if (depth is None) != (size is None):
        raise ValueError("depth_usd and size_usd must be passed together: pass both or neither")
    if depth is None or size is None:
        return xr.DataArray(0.0)
    require(depth, "exchange", "side", "depth_bps", name="depth_usd")
    for dim, labels in (("exchange", (long, short)), ("side", ("bid", "ask"))):
        require_labels(depth, "depth_usd", dim, labels)
    slippage = slippage_bps(depth, positive(size, "size_usd"))
    venue = {"long": long, "short": short}
    total = xr.DataArray(0.0)
    for leg, side in _TRADES:
        total = total + slippage.sel(exchange=venue[leg], side=side, drop=True)
    return total


def reverting_carry(spread: Any, mean: Any, half_life: Any, hold: Any) -> Floats:
    """Return the carry [bps] expected over `hold` hours from a spread [bps/8h] that decays to its mean.

    With a half-life of 0 the spread starts at the mean; with inf it stays constant.
    """
    spread, mean, half_life, hold = np.broadcast_arrays(spread, mean, half_life, hold)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        kappa = np.log(2.0) / half_life
        weight = np.where(kappa > 0.0, -np.expm1(-kappa * hold) / kappa, hold)
    weight = np.where(np.isinf(kappa), 0.0, weight)
    return np.asarray((mean * hold + (spread - mean) * weight) / REFERENCE_HOURS, dtype=np.float64)


def hours_to_earn(spread: Any, cost: Any, mean: Any, half_life: Any) -> Floats:
    """Return the hours until a spread [bps/8h] that decays to its mean has paid a cost [bps].

    The first H with ``μH/8 + (s − μ)(1 − e^{−κH})/(8κ) = cost``, κ = ln 2 / half-life: s decays to μ like the
    expectation of an Ornstein–Uhlenbeck process. 0 without a cost, inf if the carry never reaches it, NaN if
    an argument is NaN.
    """
    arrays = np.broadcast_arrays(spread, cost, mean, half_life)
    spread, cost, mean, half_life = (np.asarray(values, dtype=np.float64) for values in arrays)
    low, high, reachable = _bracket(spread, cost, mean, half_life)
    for _ in range(_BISECTIONS):
        middle = 0.5 * (low + high)
        is_before = reverting_carry(spread, mean, half_life, middle) < cost
        low = np.where(is_before, middle, low)
        high = np.where(is_before, high, middle)
    hours = np.where(reachable, 0.5 * (low + high), np.inf)
    hours = np.where(cost <= 0.0, 0.0, hours)
    return np.where(np.isnan(spread + cost + mean + half_life), np.nan, hours)


def _bracket(spread: Floats, cost: Floats, mean: Floats, half_life: Floats) -> tuple[Floats, Floats, Any]:
    """Return two times [h] with the first time the carry pays the cost between them, and whether it does."""
    # 1. Compute candidates for the upper end. τ is the time constant of the decay.
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        tau = half_life / np.log(2.0)
        away = spread - mean
        # The carry has its extreme when the spread crosses 0, if spread and mean have opposite signs.
        has_turn = np.sign(spread) * np.sign(mean) < 0.0
        turn = np.where(has_turn, tau * np.log(-away / mean), 0.0)
        # The mean alone has then paid the cost, and the most that the deviation can take away.
        by_mean = (REFERENCE_HOURS * cost + np.abs(away) * tau) / mean
        # A spread that decays to 0 has then paid the cost; a mean at or above 0 only adds to it.
        by_spread = -tau * np.log1p(-REFERENCE_HOURS * cost / (spread * tau))
        by_constant = REFERENCE_HOURS * cost / spread

    # 2. Select the ends.
    is_constant = np.isinf(half_life) | (away == 0.0)
    starts_negative = (mean > 0.0) & (spread < 0.0)
    low = np.where(starts_negative & ~is_constant, turn, 0.0)
    by_mean = np.where(mean > 0.0, by_mean, np.inf)
    by_spread = np.where(spread > 0.0, by_spread, np.inf)
    ends_negative = (mean < 0.0) & np.isfinite(turn)  # the carry is largest at the turn
    high = np.where(ends_negative, turn, np.fmin(by_mean, by_spread))
    high = np.where(is_constant, by_constant, high)
    high = np.where(np.isfinite(high) & (high > 0.0), high * (1.0 + 1e-12), 0.0)
    return low, high, reverting_carry(spread, mean, half_life, high) >= cost
