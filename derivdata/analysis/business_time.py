"""Business time as implied by options: less variance at weekends, additional variance at events.

Model-free variance is additive over time. If a market expects less movement at weekends and more at events,
it is a smooth curve in business time plus a jump at each event::

    w(T) = θ τ + (v₀ − θ)(1 − e^(−κτ))/κ + Σ eⱼ 1[event j ≤ T]        τ(T) = 7 (D + ω W)/(5 + 2ω)

The curve is the expected variance of Heston's model, including jumps at a constant rate. W is the part of the
time to T that is weekend, Saturday 00:00 to Monday 00:00 UTC, and D the rest. A full week lasts a week for
every weight ω of the weekend, so that long expiries keep their variance.

References
----------
The two-expiry form of the event variance follows Dubinsky, Johannes, Kaeck and Seeger (2019), Option pricing
of earnings announcement risks, Review of Financial Studies 32.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Literal

import numpy as np
import xarray as xr
from scipy.special import fdtri

from derivdata.analysis import smile, variance
from derivdata.analysis.labelling import origin_attrs, whole_surface
from derivdata.analysis.status import Status, flag_attrs
from derivdata.analysis.surface.maturity import YEAR_US, origin_us, weekend_us
from derivdata.support import times
from derivdata.support.arguments import typed
from derivdata.support.arrays import Floats

__all__ = ["fit", "years"]
__dir__ = __all__.copy

_MAX_WEIGHT = 2.0
_WEIGHTS = np.linspace(0.0, _MAX_WEIGHT, 81)
_REVERSIONS = np.geomspace(0.5, 200.0, 40)
_ZOOMS = 4
_ZOOM = 9
_COVERAGE = 0.9


@typed
def years(start: Any, end: Any, *, weekend_weight: float) -> Any:
    """Return the business time between two times.

    Parameters
    ----------
    start, end
        Times in UTC, or arrays of ``datetime64``, labelled or not, that broadcast.
    weekend_weight
        Weight of a weekend hour relative to a weekday hour, 0 or more.

    Returns
    -------
    scalar, array or DataArray, as the inputs
        Business time [years of 365 days], scaled so that a full week counts as one week. NaN if a time is
        missing.

    Raises
    ------
    ValueError
        A weight below 0; a value that is not a time (TypeError for an array of another type).

    Examples
    --------
    Friday 08:00 to Saturday 08:00 has 16 weekday hours and 8 weekend hours of half the weight, scaled by
    168/144 hours a week:

    >>> day = dd.analysis.business_time.years("2026-01-02T08:00", "2026-01-03T08:00", weekend_weight=0.5)
    >>> round(float(day) * 365 * 24, 3)
    23.333
    """
    if not weekend_weight >= 0.0:
        raise ValueError(f"weekend_weight must be 0 or more, got {weekend_weight!r}")
    first = _microseconds(start, "start")
    last = _microseconds(end, "end")
    weekend = weekend_us(last) - weekend_us(first)
    return (last - first + (weekend_weight - 1.0) * weekend) * 7.0 / (5.0 + 2.0 * weekend_weight) / YEAR_US


@typed
def fit(
    surface: xr.Dataset,
    *,
    events: Sequence[Any] = (),
    weekend_weight: float | None = None,
    measure: Literal["model_free", "atm"] = "model_free",
) -> xr.Dataset:
    """Fit the weight of weekend hours and the variance of events to a term structure of variance.

    Parameters
    ----------
    surface
        A fit with timestamps along ``expiry``, from `derivdata.analysis.surface.from_chain`; leading dims are
        preserved.
    events
        Times of scheduled decisions, such as a central bank meeting, a vote or an upgrade.
    weekend_weight
        A fixed weight. None fits it between 0 and 2.
    measure
        ``"model_free"``: variance of `derivdata.analysis.variance.model_free`, which adds up over time;
        ``"atm"``: total variance at the money, which depends less on the wings. Because smiles flatten with
        time to expiry, it shows an effect of weekends even in a market without one.

    Returns
    -------
    Dataset over the surface's dims without ``expiry``
        - ``weekend_weight`` [1], with its 90 % profile interval ``weekend_weight_low`` and
          ``weekend_weight_high``.
        - ``event_variance`` [1] over ``event``: the total variance that each event adds, with its 90 %
          interval ``event_variance_low`` and ``event_variance_high``, from an approximation that is linear in
          all parameters. ``event_move`` [1] is its root, the move of one standard deviation.
        - ``start_variance``, ``long_variance`` and ``reversion`` [1/year] of the underlying curve.
        - Over ``expiry``: ``business_years`` [years], and ``error_vol`` [1/√year], surface minus fit.
        - ``rmse_vol`` [1/√year], and ``n``, the number of expiries.
        - ``status``: ``UNDETERMINED`` if there are not more expiries than parameters, if no expiry is between
          two events (NaN), or if every weight from 0 to 2 fits. ``CALENDAR`` if the variance of an event
          would be negative: it is set to 0, and the fit is repeated without the event.

    Raises
    ------
    ValueError
        The surface has no timestamps; an event is before the surface or after its last expiry; a weight is
        negative.

    Notes
    -----
    Least squares in volatility, linear for given ω and κ, which are searched on a grid that is refined. The
    weight of weekends is visible only in expiries that are days apart: three expiries of one week are more
    informative than ten monthly ones.
    """
    # 1. Compute the weekend time until each expiry, and read the events.
    surface = whole_surface(surface)
    origin = origin_us(surface)
    if weekend_weight is not None and not weekend_weight >= 0.0:
        raise ValueError(f"weekend_weight must be 0 or more, got {weekend_weight!r}")
    t = surface["year_fraction"].reset_coords(drop=True)
    expiry = surface["expiry"].astype("datetime64[us]").astype("int64").astype(np.float64)
    weekend = ((weekend_us(expiry) - weekend_us(origin)) / YEAR_US).where(t > 0.0)
    stamps = np.array([times.us(times.timestamp(event, "events")) for event in events], dtype=np.float64)
    when = xr.DataArray(stamps, dims="event")
    for event in stamps:
        if event <= float(origin.min()) or event > float(expiry.max()):
            at = np.datetime64(int(event), "us")
            raise ValueError(f"the event at {at} must be between the time of the surface and its last expiry")

    # 2. Compute the total variance of each expiry.
    if measure == "atm":
        w = smile.total_variance(surface, 0.0, extrapolate=True).reset_coords(drop=True)
    else:
        w = variance.model_free(surface, method="fukasawa")["total_variance"].reset_coords(drop=True)
    w = w.where((surface["method"] > 0) & (t > 0.0)).drop_vars("expiry")
    outputs = xr.apply_ufunc(
        _fitted,
        *(array.drop_vars("expiry", errors="ignore") for array in (t, w, weekend, expiry)),
        kwargs={"events": when.to_numpy(), "weight": weekend_weight},
        input_core_dims=[["expiry"]] * 4,
        output_core_dims=[[]] * 9 + [["event"]] * 3 + [["expiry"]] * 2,
        vectorize=True,
        dask="parallelized",
        output_dtypes=[np.float64] * 14,
        dask_gufunc_kwargs={"output_sizes": {"event": max(len(events), 1)}},
    )
    return _labelled(outputs, surface, when)


def _labelled(outputs: tuple[xr.DataArray, ...], surface: xr.Dataset, when: xr.DataArray) -> xr.Dataset:
    """Name the outputs of the fit, and add units, events and the labels of the surface."""
    per_year = "1/year"
    per_root = "1/√year"
    names = {
        "weekend_weight": "1", "weekend_weight_low": "1", "weekend_weight_high": "1",
        "start_variance": per_year, "long_variance": per_year, "reversion": per_year,
        "rmse_vol": per_root, "n": "1", "status": "",
        "event_variance": "1", "event_variance_low": "1", "event_variance_high": "1",
        "business_years": "years", "error_vol": per_root,
    }  # fmt: skip
    result = xr.Dataset(dict(zip(names, outputs, strict=True))).isel(event=slice(0, when.size))
    for name, unit in names.items():
        result[name].attrs = {"units": unit}
    for name in ("n", "status"):
        result[name] = result[name].astype(np.int32)
    result["status"].attrs = flag_attrs()
    result["event_move"] = (result["event_variance"] ** 0.5).assign_attrs(units="1")
    labels = {dim: surface[dim] for dim in surface.dims if dim in surface.coords and dim in result.dims}
    result = result.assign_coords(labels | {"event": when.to_numpy().astype("datetime64[us]")})
    return result.assign_attrs(origin_attrs(surface))


def _fitted(
    t: Floats, w: Floats, weekend: Floats, expiry: Floats, events: Floats, *, weight: float | None
) -> tuple[Any, ...]:
    """Fit one term structure; NaN with a status if there is too little data.

    The results are in the order of `_labelled`.
    """
    # 1. Require enough expiries, and an expiry on each side of every event.
    used = np.isfinite(w) & np.isfinite(weekend)
    jumps = (expiry[:, None] >= events).astype(np.float64)
    count = int(used.sum())
    parameter_count = 3 + len(events) + (weight is None)
    empty = np.full(t.shape, np.nan)
    # The term structure does not determine an event after the last usable expiry, or two events between the
    # same expiries.
    distinct = np.unique(np.column_stack([np.zeros(count), jumps[used]]), axis=1).shape[1] - 1
    if count <= parameter_count or distinct < len(events):
        unknown = [np.nan] * 7
        unknown_events = [np.full(max(len(events), 1), np.nan)] * 3
        status = float(Status.UNDETERMINED)
        return (*unknown, float(count), status, *unknown_events, empty, empty.copy())

    # 2. Find the best weight and reversion. An event with negative variance is removed, and the others are
    # fitted again.
    weights = _WEIGHTS if weight is None else np.array([weight])
    degrees = count - parameter_count
    ratio = float(fdtri(1, degrees, _COVERAGE)) / degrees
    is_used = np.ones(len(events), dtype=bool)
    event_variance = np.zeros((3, max(len(events), 1)))  # with its low and its high end
    while True:
        curve = _Curve(t[used], w[used], weekend[used], jumps[used][:, is_used])
        squares = curve.squares(weights[:, None], _REVERSIONS[None, :])
        nearest = np.unravel_index(np.argmin(squares), squares.shape)
        best = _refined(curve, weights, nearest, fixed=weight is not None)
        minimum, parameters = curve.solved(*best)
        relative = curve.uncertainty(*best, parameters, fixed=weight is not None)
        half_width = np.sqrt(ratio * minimum * relative)[2:]
        jump = parameters[2:]
        jump_and_ends = np.maximum([jump, jump - half_width, jump + half_width], 0.0)
        event_variance[:, np.flatnonzero(is_used)] = jump_and_ends
        if (jump >= 0.0).all():
            break
        is_used[is_used] = jump >= 0.0

    # 3. Compute the profile interval of the weight: all weights that an F test does not reject.
    best_weight, reversion = best
    bound = minimum * (1.0 + ratio)
    accepted = weights[squares.min(axis=1) <= max(bound, np.min(squares))]
    low = min(accepted[0], best_weight)
    high = max(accepted[-1], best_weight)
    is_undetermined = weight is None and low <= 0.0 and high >= _MAX_WEIGHT

    # 4. Return the curve and its errors.
    theta = parameters[0]
    start = parameters[0] + parameters[1]
    status = int(Status.UNDETERMINED) * is_undetermined | int(Status.CALENDAR) * (not is_used.all())
    tau = empty
    error = empty.copy()
    tau[used] = curve.business(best_weight)
    model = curve.columns(*best) @ parameters
    error[used] = np.sqrt(w[used] / t[used]) - np.sqrt(np.maximum(model, 0.0) / t[used])
    rmse = float(np.sqrt(np.mean(error[used] ** 2)))
    if not len(events):
        event_variance[:] = np.nan  # dask has no arrays of length 0
    curve_figures = (best_weight, low, high, start, theta, reversion, rmse)
    return (*curve_figures, float(count), float(status), *event_variance, tau, error)


class _Curve:
    """The term structure of one surface, which is fitted by linear least squares for given ω and κ."""

    def __init__(self, t: Floats, w: Floats, weekend: Floats, jumps: Floats) -> None:
        self.w = w
        self.weekend = weekend
        self.rest = t - weekend
        self.jumps = jumps
        self.scale = 1.0 / (2.0 * np.sqrt(w * t))  # converts errors of w to errors of volatility

    def business(self, weight: Any) -> Floats:
        """Return the business time τ to every expiry [years] for a weight of weekends."""
        return np.asarray((self.rest + weight * self.weekend) * 7.0 / (5.0 + 2.0 * weight))

    def columns(self, weight: Any, reversion: Any) -> Floats:
        """Return the coefficients of θ, v₀ − θ and the events in the total variance of every expiry."""
        tau = self.business(np.asarray(weight)[..., None])
        kappa = np.asarray(reversion)[..., None]
        tau, faded = np.broadcast_arrays(tau, -np.expm1(-kappa * tau) / kappa)
        jumps = np.broadcast_to(self.jumps, (*tau.shape, self.jumps.shape[-1]))
        return np.concatenate([tau[..., None], faded[..., None], jumps], axis=-1)

    def squares(self, weight: Floats, reversion: Floats) -> Floats:
        """Return the sums of squared errors; infinite if the variance of the curve is not positive."""
        matrix = self.columns(weight, reversion) * self.scale[:, None]
        q, r = np.linalg.qr(matrix)
        target = np.einsum("...ij,i->...j", q, self.w * self.scale)
        regular = r + 1e-14 * np.eye(r.shape[-1])  # can be solved even if r is singular
        coefficients = np.linalg.solve(regular, target[..., None])[..., 0]
        rest = self.w * self.scale - np.einsum("...ij,...j->...i", matrix, coefficients)
        positive = (coefficients[..., 0] > 0.0) & (coefficients[..., 0] + coefficients[..., 1] > 0.0)
        return np.where(positive, np.square(rest).sum(axis=-1), np.inf)

    def solved(self, weight: float, reversion: float) -> tuple[float, Floats]:
        """Return the sum of squares and the linear parameters."""
        matrix = self.columns(weight, reversion) * self.scale[:, None]
        coefficients = np.linalg.lstsq(matrix, self.w * self.scale, rcond=None)[0]
        rest = matrix @ coefficients - self.w * self.scale
        return float(rest @ rest), np.asarray(coefficients, dtype=np.float64)

    def uncertainty(self, weight: float, reversion: float, parameters: Floats, *, fixed: bool) -> Floats:
        """Return the variance of each linear parameter relative to that of a quote; ω and κ count as free."""
        # Add the derivatives of the curve to κ and, unless it is given, to ω.
        steps = [(0.0, reversion * 1e-4)]
        if not fixed:
            steps.append((1e-4, 0.0))
        columns = []
        for a, b in steps:
            up = self.columns(weight + a, reversion + b)
            down = self.columns(weight - a, reversion - b)
            columns.append((up - down) @ parameters)
        matrix = np.column_stack([self.columns(weight, reversion), *columns]) * self.scale[:, None]
        size = np.sqrt(np.square(matrix).sum(axis=0))
        size = np.where(size > 0.0, size, 1.0)
        spread = np.diag(np.linalg.pinv((matrix / size).T @ (matrix / size))) / size**2
        return np.asarray(spread[: len(parameters)], dtype=np.float64)


def _refined(curve: _Curve, weights: Floats, nearest: Any, *, fixed: bool) -> tuple[float, float]:
    """Return weight and reversion of the minimum near a point of the grid, by zooming in."""
    row, column = nearest
    weight = float(weights[row])
    reversion = float(_REVERSIONS[column])
    weight_step = float(_WEIGHTS[1])
    reversion_ratio = float(_REVERSIONS[1] / _REVERSIONS[0])
    candidates = np.array([weight])
    for _ in range(_ZOOMS):
        if not fixed:
            candidates = np.clip(weight + weight_step * np.linspace(-1.0, 1.0, _ZOOM), 0.0, _MAX_WEIGHT)
        reversions = reversion * reversion_ratio ** np.linspace(-1.0, 1.0, _ZOOM)
        squares = curve.squares(candidates[:, None], reversions[None, :])
        row, column = np.unravel_index(np.argmin(squares), squares.shape)
        weight = float(candidates[row])
        reversion = float(reversions[column])
        weight_step = weight_step * 0.3
        reversion_ratio = reversion_ratio**0.3
    return weight, reversion


def _microseconds(value: Any, name: str) -> Any:
    """Return times as µs since 1970; `value` is a time, or an array of datetime64 or ISO text."""
    if not isinstance(value, xr.DataArray | np.ndarray):
        value = np.datetime64(times.naive_utc(times.timestamp(value, name)), "us")
    if value.dtype.kind in "OU":
        with suppress(TypeError, ValueError):
            value = value.astype("M8[us]")
    if value.dtype.kind != "M":
        raise TypeError(f"{name} must have times as datetime64, got {value.dtype}")
    return (value - np.datetime64(0, "us")) / np.timedelta64(1, "us")
