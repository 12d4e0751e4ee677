"""Standard points of a surface: at the money, at a delta, at a constant maturity."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

import numpy as np
import pandas as pd
import xarray as xr

from derivdata.analysis import black76
from derivdata.analysis.black76.kernels import DeltaKind
from derivdata.analysis.status import Status
from derivdata.analysis.surface.interpolation import variance_at, volatility
from derivdata.analysis.surface.labelling import bare, in_chunks, require_surface, where, with_units
from derivdata.analysis.surface.maturity import Extrapolation, Maturity, at_maturity, take
from derivdata.support.arguments import Numbers, typed
from derivdata.support.text import did_you_mean
from derivdata.support.times import length
from derivdata.units import HOURS_PER_YEAR

__all__ = ["AtTheMoney", "DeltaKind", "constant_maturity", "delta_moneyness", "points_of", "require_points"]

AtTheMoney = Literal["forward", "dns"]

_SLICES = 4096
_YEAR = HOURS_PER_YEAR / 24.0
_SCAN, _REACH = 401, 40.0
_STEPS = 7
_NAME = re.compile(r"(rr|bf|call|put)(\d{1,2})")
_POINTS = ("atm", *(f"{kind}{delta}" for kind in ("rr", "bf", "call", "put") for delta in range(1, 100)))


class _Convention(NamedTuple):
    delta: DeltaKind
    interest_rate: float


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
        ``"forward"``: ``±N(±d1)``, what Deribit shows; ``"pa"``: premium-adjusted, ``±(K/F) N(±d2)``, calls
        on the branch of high strikes; ``"spot"``: ``e^(−interest_rate·T)`` times the forward delta.
    atm
        ``"forward"``: strike at the forward; ``"dns"``: where the straddle has no delta, ``d1 = 0``, or
        ``d2 = 0`` with ``delta="pa"``.
    interest_rate
        Continuous discount rate of the spot delta [1/year].
    extrapolate
        As in `iv`.

    Returns
    -------
    Dataset over the surface's dims without ``expiry``, and ``tenor`` [days]
        One variable per point, under the name by which it was asked for [per √year]; the attributes ``delta``
        and ``atm`` hold the conventions. ``status`` holds what the slices around a tenor say, and
        ``SHORT_EXTRAPOLATION`` before the first expiry, ``EXTRAPOLATED`` after the last or where a strike
        lies outside the quotes, ``PRICES_MIXED`` as in `iv`, ``DELTA_UNREACHABLE`` where some
        point is NaN for that reason.

    Raises
    ------
    ValueError
        Unknown point, tenor, delta, atm or extrapolation.

    Examples
    --------
    >>> surface = dd.analysis.surface.from_chain(dd.options.snapshot("BTC", "deribit"))
    >>> fixed = dd.analysis.surface.constant_maturity(surface, tenors=("7d", "30d"), points=("atm", "rr25"))
    >>> fixed["atm"].round(3).values
    array([0.466, 0.467])
    """
    days = [length(each, "tenors") / pd.Timedelta(1, "D") for each in tenors]
    tenor = xr.DataArray(np.asarray(days, dtype=np.float64), dims="tenor")

    def at_tenors(part: xr.Dataset) -> xr.Dataset:
        cut = at_maturity(part, tenor / _YEAR, extrapolate=extrapolate)
        return points_of(cut, points, delta=delta, atm=atm, interest_rate=interest_rate)

    require_surface(surface)
    result = in_chunks(at_tenors, surface, most=_SLICES, whole=("expiry",))
    return result.assign_coords(tenor=("tenor", tenor.to_numpy(), {"units": "days"}))


@typed
def delta_moneyness(
    surface: xr.Dataset,
    target: Numbers,
    year_fraction: Numbers,
    *,
    delta: DeltaKind = "forward",
    interest_rate: float = 0.0,
    extrapolate: Extrapolation | None = None,
) -> xr.DataArray:
    """Find the log-moneyness at which an option has a delta.

    Parameters
    ----------
    surface, year_fraction, extrapolate
        As in `iv`.
    target
        Delta: positive of a call, negative of a put; a number, a 1-D array (dim ``target``) or a DataArray.
    delta, interest_rate
        Convention, as in `constant_maturity`.

    Returns
    -------
    DataArray over the surface's dims without ``expiry``, then those of T and of `target`
        Where several strikes have the delta, the one nearest the money, or of premium-adjusted calls the
        highest. NaN where none has it within 40 deviations.

    Raises
    ------
    ValueError
        Unknown convention; what `total_variance` raises.
    """
    cut = at_maturity(surface, year_fraction, extrapolate=extrapolate)
    k = _at_delta(cut, bare(target, "target"), _Convention(delta, interest_rate)).rename("log_moneyness")
    k.attrs = {"units": "log-moneyness"}
    return k


def points_of(
    cut: Maturity, points: Sequence[str], *, delta: DeltaKind, atm: AtTheMoney, interest_rate: float
) -> xr.Dataset:
    """Return the points of a cut; parameters and result as in `constant_maturity`."""
    parsed = {point: _parsed(point) for point in points}
    deltas = sorted({size for _, size in parsed.values()} - {0})
    target = xr.DataArray([sign * size / 100 for size in deltas for sign in (1, -1)], dims="target")
    places = {"atm": _centre(cut, atm, delta)}
    if deltas:
        strikes = _at_delta(cut, target, _Convention(delta, interest_rate))
        names = [f"{side}{size}" for size in deltas for side in ("call", "put")]
        places |= {name: strikes.isel(target=i) for i, name in enumerate(names)}
    vols = {name: volatility(variance_at(cut, k), cut.year_fraction) for name, k in places.items()}
    out = {point: _value(kind, size, vols) for point, (kind, size) in parsed.items()}
    out["status"] = _status(cut, places)
    result = xr.Dataset({name: part.reset_coords(drop=True) for name, part in out.items()})
    result = with_units(result, dict.fromkeys(set(out) - {"status"}, "1/sqrt(year)"))
    return result.assign_attrs(delta=delta, atm=atm)


def _value(kind: str, size: int, vols: dict[str, xr.DataArray]) -> xr.DataArray:
    if kind == "atm":
        return vols["atm"]
    call, put = vols[f"call{size}"], vols[f"put{size}"]
    forms = {"call": call, "put": put, "rr": call - put, "bf": (call + put) / 2.0 - vols["atm"]}
    return forms[kind]


def _centre(cut: Maturity, atm: str, delta: str) -> xr.DataArray:
    """Log-moneyness of the point at the money."""
    if atm == "forward":
        return xr.zeros_like(cut.share_before)
    side = -1.0 if delta == "pa" else 1.0
    return _falling_root(cut, lambda k, w: side * w / 2.0 - k)


def _at_delta(cut: Maturity, target: xr.DataArray, convention: _Convention) -> xr.DataArray:
    side = where(target > 0.0, "call", "put")

    def excess(k: xr.DataArray, w: xr.DataArray) -> xr.DataArray:
        vol = volatility(w, cut.year_fraction)
        greeks = black76.greeks(
            1.0, np.exp(k), cut.year_fraction, vol, side,
            which=("delta",), delta=convention.delta, interest_rate=convention.interest_rate,
        )  # fmt: skip
        over: xr.DataArray = greeks["delta"] - target
        return over

    return _falling_root(cut, excess)


def _falling_root(
    cut: Maturity, excess: Callable[[xr.DataArray, xr.DataArray], xr.DataArray]
) -> xr.DataArray:
    """Find where a function of (k, w(k)) falls through zero, nearest the money; NaN where it does not."""
    end = np.arcsinh(_REACH)
    grid = variance_at(cut, 0.0) ** 0.5 * xr.DataArray(np.sinh(np.linspace(-end, end, _SCAN)), dims="scan")

    def f(k: xr.DataArray) -> xr.DataArray:
        return excess(k, variance_at(cut, k))

    values = f(grid)
    falls = (values >= 0.0) & (values.shift(scan=-1) < 0.0)
    at = abs(grid).where(falls, np.inf).argmin("scan")
    low, high = (take(grid, at + i, dim="scan") for i in (0, 1))
    f_low, f_high = (take(values, at + i, dim="scan") for i in (0, 1))
    return _refined(f, low.where(falls.any("scan")), high, f_low, f_high)


def _refined(
    f: Callable[[xr.DataArray], xr.DataArray],
    low: xr.DataArray,
    high: xr.DataArray,
    f_low: xr.DataArray,
    f_high: xr.DataArray,
) -> xr.DataArray:
    """Find a root between `low` (positive) and `high` (negative) by the Illinois rule; NaN where `low` is."""
    side = xr.zeros_like(f_low)
    root = low
    for _ in range(_STEPS):
        gap = f_low - f_high
        root = where(gap > 0.0, low + (high - low) * f_low / gap, root)
        value = f(root)
        positive = value > 0.0
        f_high = where(positive, where(side > 0.0, f_high / 2.0, f_high), value)
        f_low = where(positive, value, where(side < 0.0, f_low / 2.0, f_low))
        low, high = where(positive, root, low), where(positive, high, root)
        side = where(positive, 1.0, -1.0)
    return root


def _status(cut: Maturity, places: dict[str, xr.DataArray]) -> xr.DataArray:
    status = cut.status | cut.before["status"] | cut.after["status"]
    has_cut = cut.share_before.notnull()
    for k in places.values():
        outside = ((k < cut.k_min) | (k > cut.k_max)) & has_cut
        status = status | where(outside, np.int32(Status.EXTRAPOLATED), np.int32(0))
        status = status | where(has_cut & k.isnull(), np.int32(Status.DELTA_UNREACHABLE), np.int32(0))
    return status.astype(np.int32)


def require_points(points: Sequence[str], argument: str) -> None:
    """Refuse names of points that do not exist."""
    for point in points:
        _parsed(point, argument)


def _parsed(point: str, argument: str = "points") -> tuple[str, int]:
    match = _NAME.fullmatch(point)
    if point != "atm" and (match is None or int(match[2]) == 0):
        raise ValueError(
            f"{argument} has {point!r}, which is not atm, "
            f"or rr, bf, call or put with a whole delta such as rr25{did_you_mean(point, _POINTS)}"
        )
    return ("atm", 0) if match is None else (match[1], int(match[2]))
