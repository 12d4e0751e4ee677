"""Standard points of a surface, calendar arbitrage, forward variance and term structures."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np
import pandas as pd
import xarray as xr

from derivdata.analysis import smile
from derivdata.analysis.black76 import formulas
from derivdata.analysis.black76.kernels import DeltaKind
from derivdata.analysis.labelling import (
    applied,
    bare,
    elementwise,
    in_chunks,
    previous,
    where,
    whole_surface,
    with_units,
)
from derivdata.analysis.panels import require_variables
from derivdata.analysis.smile.svi import Raw, parameter_names, slice_of, total_variance
from derivdata.analysis.status import Status
from derivdata.analysis.surface.maturity import (
    Clock,
    Extrapolation,
    Maturity,
    at_expiries,
    at_maturity,
    cut_variance,
    volatility,
)
from derivdata.support.arguments import Numbers, typed
from derivdata.support.arrays import Bools, Floats
from derivdata.support.text import did_you_mean
from derivdata.support.times import length
from derivdata.units import HOURS_PER_YEAR

AtTheMoney = Literal["forward", "dns"]

_SLICES = 4096
_YEAR = HOURS_PER_YEAR / 24.0
SCANNED = np.sinh(np.linspace(-1.0, 1.0, 401) * np.arcsinh(40.0))  # log-moneyness in deviations
_NAME = re.compile(r"(rr|bf|call|put)(\d{1,2})")
_POINTS = ("atm", *(f"{kind}{delta}" for kind in ("rr", "bf", "call", "put") for delta in range(1, 100)))


@typed
def constant_maturity(
    surface: xr.Dataset,
    *,
    tenors: Sequence[str | pd.Timedelta] = ("7d", "14d", "30d", "60d", "90d", "180d"),
    points: Sequence[str] = ("atm", "rr25", "bf25", "rr10", "bf10"),
    delta: DeltaKind = "forward",
    atm: AtTheMoney = "forward",
    interest_rate: float = 0.0,
    extrapolate: Extrapolation | None = None,
    clock: Clock | None = None,
    errors: bool = False,
) -> xr.Dataset:
    """Compute volatility, skew and curvature at fixed times to expiry.

    Parameters
    ----------
    surface
        As in `iv`.
    tenors
        Times to expiry, ``"30d"`` or a Timedelta each; a year has 365 days.
    points
        ``"atm"``; ``"call25"``, ``"put25"``, the volatility at that delta; ``"rr25"``, call minus put;
        ``"bf25"``, their mean minus ``atm`` (of the smile, not the market's strangle); any whole delta
        from 1 to 99.
    delta
        ``"forward"``: ``±N(±d1)``, as on Deribit; ``"pa"``: premium-adjusted, ``±(K/F) N(±d2)``, calls on the
        branch of high strikes; ``"spot"``: ``e^(−interest_rate·T)`` times the forward delta.
    atm
        ``"forward"``: strike at the forward; ``"dns"``: where the straddle has no delta, ``d1 = 0``, or
        ``d2 = 0`` with ``delta="pa"``.
    interest_rate
        Continuous discount rate of the spot delta [1/year].
    extrapolate, clock
        As in `iv`.
    errors
        Whether to add the standard error of each point, for a surface fitted to quotes.

    Returns
    -------
    Dataset over the surface's dims without ``expiry``, and ``tenor`` [days]
        One variable per point, under its requested name [per √year]; the attributes ``delta`` and ``atm``
        have the conventions. ``status`` has the status of the slices around a tenor, and
        ``SHORT_EXTRAPOLATION`` before the first expiry, ``EXTRAPOLATED`` after the last or if a strike is
        outside the quotes, ``PRICES_MIXED`` as in `iv`, ``DELTA_UNREACHABLE`` if a point is NaN for that
        reason. With `errors` also ``atm_error`` and so on [per √year]: the standard errors from the
        covariance of the slices' parameters, with independent quotes.

    Raises
    ------
    ValueError
        An unknown point, tenor, `delta`, `atm` or `extrapolate`; an invalid clock, as in `iv`.

    Examples
    --------
    >>> surface = dd.analysis.surface.from_chain(dd.options.snapshot("BTC", "deribit"))
    >>> fixed = dd.analysis.surface.constant_maturity(surface, tenors=("7d", "30d"), points=("atm", "rr25"))
    >>> fixed["atm"].round(3).values
    array([0.468, 0.468])
    """
    conventions: Any = {"delta": delta, "atm": atm, "interest_rate": interest_rate}
    if errors:
        require_variables(surface, "surface", ("covariance",))
    return at_tenors(
        surface, tenors, points, conventions, extrapolate=extrapolate, clock=clock, errors=errors
    )


def at_tenors(
    surface: xr.Dataset,
    tenors: Sequence[str | pd.Timedelta],
    points: Sequence[str],
    conventions: dict[str, Any],
    *,
    extrapolate: Extrapolation | None = None,
    clock: Clock | None = None,
    more: bool = False,
    errors: bool = False,
) -> xr.Dataset:
    """Return the points with their errors; with `more` also ``forward``, ``skew`` and ``level``."""
    lengths = pd.to_timedelta([length(tenor, "tenors") for tenor in tenors])
    tenor = xr.DataArray(np.asarray(lengths / pd.Timedelta(1, "D"), dtype=np.float64), dims="tenor")

    def cut_at(block: xr.Dataset) -> xr.Dataset:
        cut = at_maturity(block, tenor / _YEAR, extrapolate=extrapolate, clock=clock)
        result = points_of(cut, points, **conventions)
        if errors:
            result = result.assign(_errors(cut, points, conventions))
        if not more:
            return result
        level = volatility(cut.total_variance(0.0), cut.year_fraction)
        return result.assign(forward=cut.forward, skew=cut.skew(), level=level).reset_coords(drop=True)

    surface = whole_surface(surface)
    result = in_chunks(cut_at, surface, most=_SLICES, whole=("expiry",))
    return result.assign_coords(tenor=("tenor", tenor.to_numpy(), {"units": "days"}))


def points_at_expiries(
    surface: xr.Dataset,
    points: Sequence[str],
    *,
    delta: DeltaKind = "forward",
    atm: AtTheMoney = "forward",
    interest_rate: float = 0.0,
) -> xr.Dataset:
    """Return points of the smile, as `constant_maturity` names them, at the surface's own expiries."""
    return points_of(at_expiries(surface), points, delta=delta, atm=atm, interest_rate=interest_rate)


def points_of(
    cut: Maturity, points: Sequence[str], *, delta: DeltaKind, atm: AtTheMoney, interest_rate: float
) -> xr.Dataset:
    """Return the points of a cut; parameters and result as in `constant_maturity`."""
    # 1. List the call and put deltas of the points; NaN means at the money.
    parsed = {point: _parsed(point) for point in points}
    names = ["atm"]
    targets = [np.nan]
    for size in sorted({size for _, size in parsed.values()} - {0}):
        names += [f"call{size}", f"put{size}"]
        targets += [size / 100, -size / 100]

    # 2. Find the log-moneyness with these deltas, and its volatility.
    places = at_delta(cut, xr.DataArray(targets, dims="target"), delta, interest_rate, centre=atm)
    by_target = volatility(cut.total_variance(places), cut.year_fraction).reset_coords(drop=True)
    vols = {name: by_target.isel(target=i) for i, name in enumerate(names)}

    # 3. Compute the points from these volatilities.
    result = xr.Dataset()
    for point, (kind, size) in parsed.items():
        result[point] = _value(kind, size, vols)
    units = dict.fromkeys(points, "1/√year")
    result["status"] = _status(cut, places).reset_coords(drop=True)
    result = with_units(result, units)
    return result.assign_attrs(delta=delta, atm=atm)


def _errors(cut: Maturity, points: Sequence[str], conventions: dict[str, Any]) -> dict[str, xr.DataArray]:
    """Return the standard error of each point, from its derivatives by the parameters of both slices."""
    squares = dict.fromkeys(points, xr.zeros_like(cut.share_before))
    for side in ("before", "after"):
        # 1. Compute derivatives of the points by differences of a thousandth of each parameter's error.
        fit = getattr(cut, side)
        covariance = fit["covariance"]
        slopes = []
        for place, name in enumerate(Raw._fields):
            step = 1e-3 * covariance.isel(parameter=place, other_parameter=place) ** 0.5 + 1e-9
            higher = cut._replace(**{side: fit.assign({name: fit[name] + step})})
            lower = cut._replace(**{side: fit.assign({name: fit[name] - step})})
            up = points_of(higher, points, **conventions)
            down = points_of(lower, points, **conventions)
            slopes.append((up - down) / (2.0 * step))
        slope = xr.concat(slopes, "parameter", coords="minimal", compat="override")
        other = slope.rename(parameter="other_parameter")

        # 2. Compute the variance of each point; beyond the first and last expiry the second slice has the
        # share 0.
        for point in points:
            product = slope[point] * covariance * other[point]
            square = product.sum(["parameter", "other_parameter"], skipna=False)
            if side == "after":
                square = square.where(cut.share_after > 0.0, 0.0)
            squares[point] = squares[point] + square
    errors = {}
    for point, square in squares.items():
        error = (square**0.5).reset_coords(drop=True)
        errors[f"{point}_error"] = error.assign_attrs(units="1/√year")
    return errors


def _value(kind: str, size: int, vols: dict[str, xr.DataArray]) -> xr.DataArray:
    """Return a point of a smile: volatility, risk reversal or butterfly, from its volatilities."""
    if kind == "atm":
        return vols["atm"]
    call = vols[f"call{size}"]
    put = vols[f"put{size}"]
    forms = {"call": call, "put": put, "rr": call - put, "bf": (call + put) / 2.0 - vols["atm"]}
    return forms[kind]


def at_delta(
    cut: Maturity,
    target: xr.DataArray,
    delta: DeltaKind,
    interest_rate: float,
    *,
    centre: AtTheMoney = "forward",
) -> xr.DataArray:
    """Return the log-moneyness at which options have a delta; for a NaN target, the at-the-money point."""
    conventions: Any = {"delta": delta, "interest_rate": interest_rate, "centre": centre}
    return elementwise(_places, cut.year_fraction, *cut.parameters, target, **conventions)


def _places(t: Floats, *parts: Floats, delta: DeltaKind, interest_rate: float, centre: AtTheMoney) -> Floats:
    """Return the log-moneyness nearest the money at which each target delta is reached; NaN if none."""
    t = np.asarray(t)[..., None]
    *slices, target = (np.asarray(values)[..., None] for values in parts)
    side = np.where(target > 0.0, "call", "put")
    is_centre = np.isnan(target)
    straddle = -1.0 if delta == "pa" else 1.0

    def excess(k: Floats) -> Floats:
        """Return delta minus its target; for the centre the remaining log-moneyness. Both fall with k."""
        w = cut_variance(*slices, k)
        iv = np.sqrt(np.where(w >= 0.0, w, np.nan) / t)
        conventions: Any = {"which": ("delta",), "delta": delta, "interest_rate": interest_rate}
        reached = formulas.greeks(1.0, np.exp(k), t, iv, side, **conventions)["delta"]
        return np.where(is_centre, straddle * w / 2.0 - k, reached - target)

    width = np.sqrt(cut_variance(*slices, np.zeros(1)))
    k = falling_root(excess, width * SCANNED)
    if centre == "forward":
        k = np.where(is_centre, np.where(np.isfinite(width), 0.0, np.nan), k)
    return k[..., 0]


def falling_root(excess: Callable[[Floats], Floats], grid: Floats, steps: int = 7) -> Floats:
    """Find the falling root nearest 0 of a function on the last axis of a grid; NaN without one.

    The root is refined between two points of the grid by the Illinois rule.
    """
    # 1. Find the sign change nearest 0, and the values on both sides.
    values = excess(grid)
    grid = np.broadcast_to(grid, values.shape)
    falls = (values[..., :-1] >= 0.0) & (values[..., 1:] < 0.0)
    at = np.where(falls, np.abs(grid[..., :-1]), np.inf).argmin(axis=-1)[..., None]
    low = np.take_along_axis(grid, at, -1)
    high = np.take_along_axis(grid, at + 1, -1)
    f_low = np.take_along_axis(values, at, -1)
    f_high = np.take_along_axis(values, at + 1, -1)

    # 2. Apply the secant rule. The value at an end that stays is halved (Illinois), so that the other end
    # also moves.
    root = low = np.where(falls.any(axis=-1, keepdims=True), low, np.nan)
    side = np.zeros_like(low)
    for _ in range(steps):
        gap = f_low - f_high
        root = np.where(gap > 0.0, low + (high - low) * f_low / gap, root)
        value = excess(root)
        positive = value > 0.0
        f_high = np.where(positive, np.where(side > 0.0, f_high / 2.0, f_high), value)
        f_low = np.where(positive, value, np.where(side < 0.0, f_low / 2.0, f_low))
        low = np.where(positive, root, low)
        high = np.where(positive, high, root)
        side = np.where(positive, 1.0, -1.0)
    return root


def _status(cut: Maturity, places: xr.DataArray) -> xr.DataArray:
    """Return the status bits of each maturity: `places` are the log-moneyness of its points (target)."""
    has_maturity = cut.share_before.notnull()
    is_outside = (places < cut.k_min) | (places > cut.k_max)
    is_extrapolated = (is_outside & has_maturity).any("target")
    is_unreachable = (places.isnull() & has_maturity).any("target")
    status = cut.flags | where(is_extrapolated, np.int32(Status.EXTRAPOLATED), np.int32(0))
    status = status | where(is_unreachable, np.int32(Status.DELTA_UNREACHABLE), np.int32(0))
    result: xr.DataArray = status.astype(np.int32)
    return result


def require_points(points: Sequence[str], argument: str) -> None:
    """Raise for unknown names of points."""
    for point in points:
        _parsed(point, argument)


def _parsed(point: str, argument: str = "points") -> tuple[str, int]:
    """Return kind and delta [percent] of a point: ``("rr", 25)`` of "rr25"."""
    match = _NAME.fullmatch(point)
    if point != "atm" and (match is None or int(match[2]) == 0):
        raise ValueError(
            f"{argument} must have atm, or rr, bf, call or put with a whole delta such as rr25, got "
            f"{point!r}{did_you_mean(point, _POINTS)}"
        )
    return ("atm", 0) if match is None else (match[1], int(match[2]))


TOLERANCE = 1e-10
"""Tolerance for a fall of total variance."""

_GRID_POINTS = 801
_ZOOMS = 4
_ZOOM_POINTS = 17
_FLOOR = 1e-3
_FARTHEST = 100.0  # log-moneyness


@typed
def calendar_check(surface: xr.Dataset) -> xr.Dataset:
    """Check each expiry for calendar arbitrage against the previous one.

    Parameters
    ----------
    surface
        Any surface or set of smiles with dim ``expiry``, in any order of time.

    Returns
    -------
    Dataset over the surface's dims
        ``min_gap``, the minimum ``w − w_before`` for ``|k| ≤ 100``, and ``argmin_k``; NaN for the first
        expiry. ``ok``: ``min_gap >= −1e-10``; True for the first expiry, False without a slice.
    """
    surface = whole_surface(surface)
    bare = surface.drop_vars([name for name in surface.coords if name != "year_fraction"])

    def check(block: xr.Dataset) -> xr.Dataset:
        names = parameter_names(block)
        gap, place, ok = applied(
            _min_gaps,
            *(block["year_fraction"].reset_coords(drop=True), block["method"] > 0),
            *(block[name] for name in names),
            core=[["expiry"]] * (2 + len(names)),
            out=[["expiry"]] * 3,
            types=[np.float64, np.float64, np.bool_],
        )
        checked = xr.Dataset({"min_gap": gap, "argmin_k": place, "ok": ok}).reset_coords(drop=True)
        return with_units(
            checked.transpose(*block["method"].dims), {"min_gap": "1", "argmin_k": "log-moneyness"}
        )

    checked = in_chunks(check, bare, most=_SLICES, whole=("expiry",))
    return checked.assign_coords({name: surface.coords[name] for name in surface.coords})


def _min_gaps(t: Floats, usable: Bools, *raw: Floats) -> tuple[Floats, Floats, Bools]:
    """Return the minimum rise of each slice over the previous expiry, its log-moneyness, and the check."""
    # 1. Pair each slice with the previous one.
    t, usable, *parameters = np.broadcast_arrays(t, usable, *raw)
    before = previous(t, usable)
    later = slice_of([values[..., None] for values in parameters])
    earlier = slice_of(
        [np.take_along_axis(values, np.maximum(before, 0), -1)[..., None] for values in parameters]
    )

    # 2. Find the minimum on a grid that is dense at the money, and refine it.
    width = np.sqrt(np.maximum(total_variance(0.0, earlier), _FLOOR**2))
    end = np.arcsinh(_FARTHEST / width)
    low = -end
    high = end
    for points in (_GRID_POINTS, *[_ZOOM_POINTS] * _ZOOMS):
        u = low + (high - low) * np.linspace(0.0, 1.0, points)
        k = width * np.sinh(u)
        rise = total_variance(k, later) - total_variance(k, earlier)
        at = np.where(np.isnan(rise), np.inf, rise).argmin(axis=-1)[..., None]
        place = np.take_along_axis(u, at, -1)
        step = (high - low) / (points - 1)
        low = np.maximum(place - step, -end)
        high = np.minimum(place + step, end)
    paired = usable & (before >= 0)
    gap = np.where(paired, np.take_along_axis(rise, at, -1)[..., 0], np.nan)
    k = np.where(paired, np.take_along_axis(k, at, -1)[..., 0], np.nan)
    return gap, k, usable & (~paired | (gap >= -TOLERANCE))


@typed
def forward_variance(
    surface: xr.Dataset,
    near: Numbers,
    far: Numbers,
    *,
    log_moneyness: Numbers = 0.0,
    extrapolate: Extrapolation | None = None,
    clock: Clock | None = None,
) -> xr.Dataset:
    """Compute the forward variance per year between two times to expiry.

    Parameters
    ----------
    surface, extrapolate, clock
        As in `iv`.
    near, far
        Times to expiry [years]: numbers, 1-D arrays of one length (dim ``maturity``) or DataArrays.
    log_moneyness
        Log-moneyness at which both variances are evaluated.

    Returns
    -------
    Dataset over the surface's dims without ``expiry``, then the dims of the times and of k
        ``variance`` [per year], ``(w(far) − w(near))/(far − near)``; ``vol``, its root [per √year];
        ``status``. Negative variance is NaN with ``CALENDAR``, never 0.

    Raises
    ------
    ValueError
        `near` is not before `far`; see also `total_variance`.
    """
    start = _plain(near, "near")
    end = _plain(far, "far")
    has_both = "maturity" in start.dims and "maturity" in end.dims
    if has_both and start.sizes["maturity"] != end.sizes["maturity"]:
        raise ValueError("near and far must have the same length")
    if not bool((start < end).all()):
        raise ValueError("near must be before far: both are times to expiry in years")
    before = at_maturity(surface, start, extrapolate=extrapolate, clock=clock)
    after = at_maturity(surface, end, extrapolate=extrapolate, clock=clock)
    k = bare(log_moneyness, "log_moneyness")
    result = _between(before.total_variance(k), after.total_variance(k), start, end)
    status = (before.status | after.status | result["status"]).astype(np.int32)
    return with_units(result.assign(status=status), {"variance": "1/year", "vol": "1/√year"})


@typed
def term_structure(
    surface: xr.Dataset,
    *,
    point: str = "atm",
    delta: DeltaKind = "forward",
    atm: AtTheMoney = "forward",
    interest_rate: float = 0.0,
    clock: Clock | None = None,
) -> xr.Dataset:
    """Compute one point of the smile at each expiry of a surface, with the slope of the term structure.

    Parameters
    ----------
    surface, clock
        As in `iv`; tenors between expiries depend on the clock.
    point, delta, atm, interest_rate
        A point of `constant_maturity` and its conventions.

    Returns
    -------
    Dataset over the surface's dims
        The point under its name in `constant_maturity` [per √year]; ``total_variance`` at the forward;
        ``forward_variance`` [per year] and ``forward_vol`` [per √year] at the forward since the previous
        expiry (the first: since now), NaN with ``CALENDAR`` if negative; ``status``. Without dim ``expiry``:
        ``slope_90d_30d``, the point at 90 minus 30 days, and ``ratio_7d_30d``, at 7 over 30 days, NaN if a
        tenor is beyond the last expiry.
    """
    surface = whole_surface(surface)
    require_points([point], "point")
    usable = surface["method"] > 0
    t = surface["year_fraction"].drop_vars("expiry", errors="ignore").reset_coords(drop=True)
    at_points = points_at_expiries(surface, [point], delta=delta, atm=atm, interest_rate=interest_rate)
    name = str(next(iter(at_points.data_vars)))
    w = smile.total_variance(surface, 0.0, extrapolate=True).reset_coords(drop=True)
    forward = _since(t, w.drop_vars("expiry", errors="ignore"))
    out = forward.assign({name: at_points[name], "total_variance": w}).where(usable)
    status = where(usable, at_points["status"], surface["status"]) | forward["status"]
    fixed = constant_maturity(
        surface, tenors=("7d", "30d", "90d"), points=[point], delta=delta, atm=atm,
        interest_rate=interest_rate, clock=clock,
    )[name]  # fmt: skip
    week, month, quarter = fixed.drop_vars("tenor").transpose("tenor", ...)
    out = out.assign(status=status.astype(np.int32), slope_90d_30d=quarter - month, ratio_7d_30d=week / month)
    per_root = dict.fromkeys((name, "forward_vol", "slope_90d_30d"), "1/√year")
    units = {"forward_variance": "1/year", "total_variance": "1", "ratio_7d_30d": "1"} | per_root
    return with_units(out, units).assign_coords({coord: surface.coords[coord] for coord in surface.coords})


def _between(near: xr.DataArray, far: xr.DataArray, start: Any, end: Any) -> xr.Dataset:
    variance = (far - near) / (end - start)
    falls = variance < 0.0
    variance = variance.where(~falls).rename(None)
    status = where(falls, np.int32(Status.CALENDAR), np.int32(0))
    return xr.Dataset({"variance": variance, "vol": np.sqrt(variance), "status": status})


def _since(t: xr.DataArray, w: xr.DataArray) -> xr.Dataset:
    """Return the forward variance at each expiry since the previous one that has a slice."""
    before = applied(_last, t, w, core=[["expiry"]] * 2, out=[["expiry"]] * 2, types=[np.float64] * 2)
    forward = _between(before[1], w, before[0], t)
    return forward.rename(variance="forward_variance", vol="forward_vol")


def _last(t: Floats, w: Floats) -> tuple[Floats, Floats]:
    """Return the time and total variance of the previous expiry; 0 and 0 before the first."""
    t, w = np.broadcast_arrays(t, w)
    at = previous(t, np.isfinite(w))
    place = np.maximum(at, 0)
    last_t = np.where(at < 0, 0.0, np.take_along_axis(t, place, -1))
    last_w = np.where(at < 0, 0.0, np.take_along_axis(w, place, -1))
    return last_t, last_w


def _plain(value: Any, argument: str) -> xr.DataArray:
    """Return a time without its own coordinate, so that two times align by position."""
    if isinstance(value, xr.DataArray):
        return value
    return bare(value, "maturity", argument).drop_vars("maturity", errors="ignore")
