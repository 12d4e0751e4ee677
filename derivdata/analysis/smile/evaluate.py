"""The Dataset of a fit, and its evaluation: total variance, volatility, density factor, butterfly check.

A fit, over the slices' dims:

==============================  =================================================================
variable                        meaning
==============================  =================================================================
``a b rho m sigma``             raw SVI parameters; also of an SSVI slice, of a flat slice (``b = 0``) and of
                                two quotes (a hinge: ``σ = 0``, ``|ρ| = 1``)
``bump_unit``, ``bump_1`` …     only of surfaces that were moved between bid and ask: bumps on the SVI
                                slices, see `derivdata.analysis.smile.svi`
``method``                      int8, a `Method`: the model that was fitted to this slice
``status``                      int32 sum of `derivdata.analysis.status.Status` bits
``rmse_vol``                    root mean square of fitted minus quoted volatility [per √year]; NaN where
                                there are no more strikes than parameters
``n``, ``nfev``                 quotes used; model evaluations spent
``k_min``, ``k_max``            log-moneyness range of the quotes used
``covariance``                  of a, b, ρ, m, σ as if each slice was fitted alone, over ``parameter`` and
                                ``other_parameter``, for quotes of unequal errors; NaN where there are no
                                more of them than parameters; not of known parameters
``year_fraction``, ``forward``  coordinates: time to expiry [years]; forward, if it was given
==============================  =================================================================

A slice that could not be fitted has NaN parameters, ``method`` 0 and its reason in ``status``.

Butterfly arbitrage is found by a search of the whole line (`check_slices`), and excluded by a quick proof
(`certified`): with ``k = m + σ sinh ξ`` and ``t = e^ξ`` everything in Durrleman's condition is rational in t,
and ``g(k) ≥ 0`` means that a polynomial of degree 10 is not negative for any t > 0. The line is cut at powers
of two, and on each piece the polynomial is written in Bernstein's basis: if no coefficient is negative, the
polynomial is not either. A slice without such a proof may still be free of butterflies.
"""

from __future__ import annotations

from enum import IntEnum
from math import comb
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from derivdata.analysis.labelling import applied, bare, elementwise
from derivdata.analysis.panels import require_variables
from derivdata.analysis.smile import svi
from derivdata.analysis.smile.svi import Bumped, Raw, density_factor, parameter_names, slice_of
from derivdata.analysis.status import flag_attrs
from derivdata.support.arguments import Numbers, typed
from derivdata.support.arrays import Bools, Floats

RAW = Raw._fields
FACTS = {
    "rmse_vol": np.float64,
    "n": np.int32,
    "nfev": np.int32,
    "k_min": np.float64,
    "k_max": np.float64,
    "status": np.int32,
}
"""Variables of every fit except its parameters, with dtypes."""
_UNITS = {"rmse_vol": "1/√year", "k_min": "log-moneyness", "k_max": "log-moneyness"}


class Method(IntEnum):
    """Model of a slice, in ascending order of quality; 0 without a fit."""

    NONE = 0
    FLAT = 1
    LINE = 2
    SSVI = 3
    SVI = 4


def assemble(
    variables: dict[str, xr.DataArray],
    year_fraction: xr.DataArray,
    *,
    forward: xr.DataArray | None = None,
    **attrs: str,
) -> xr.Dataset:
    """Return a fit from its variables, with coordinates, flags and units. Missing counts are 0."""
    like = variables["k_min"]
    defaults = dict.fromkeys(("status", "n", "nfev"), xr.zeros_like(like, dtype=np.int32))
    defaults["rmse_vol"] = xr.full_like(like, np.nan)
    fit = xr.Dataset(defaults | variables, attrs=attrs).assign_coords(year_fraction=year_fraction)
    if forward is not None:
        fit = fit.assign_coords(forward=forward)
    fit["method"] = fit["method"].astype(np.int8)
    fit["status"].attrs = flag_attrs()
    fit["method"].attrs = {
        "flag_values": np.array([method.value for method in Method], dtype=np.int8),
        "flag_meanings": " ".join(method.name.lower() for method in Method),
    }
    fit["year_fraction"].attrs = {"units": "years"}
    for name, units in _UNITS.items():
        fit[name].attrs = {"units": units}
    return fit


@typed
def from_raw(
    raw: Raw,
    year_fraction: Numbers,
    *,
    k_min: Numbers = -np.inf,
    k_max: Numbers = np.inf,
    forward: Numbers | None = None,
) -> xr.Dataset:
    """Return a fit with known raw SVI parameters, such as a published slice.

    Parameters
    ----------
    raw
        Parameters, floats or DataArrays.
    year_fraction
        Time to expiry [years].
    k_min, k_max
        Log-moneyness range of the quotes, beyond which values are extrapolated; unlimited by default.
    forward
        Forward of each slice, returned as a coordinate.
    """
    arrays = [xr.DataArray(x) for x in (*raw, year_fraction, k_min, k_max)]
    try:
        *parameters, t, low, high = xr.broadcast(*arrays)
        if forward is not None:
            xr.broadcast(xr.DataArray(forward), t)
    except ValueError:
        raise ValueError("raw, year_fraction, k_min, k_max and forward must broadcast to one shape") from None
    variables = dict(zip(RAW, parameters, strict=True)) | {"k_min": low, "k_max": high}
    variables["method"] = xr.full_like(t, Method.SVI)
    wrapped = None if forward is None else xr.DataArray(forward)
    return assemble(variables, xr.DataArray(year_fraction), forward=wrapped)


@typed
def total_variance(
    fit: xr.Dataset, log_moneyness: Numbers, *, derivative: int = 0, extrapolate: bool = False
) -> xr.DataArray:
    """Evaluate the total variance ``w(k) = iv² T`` of every slice of a fit, or a derivative by k.

    Parameters
    ----------
    fit
        Result of `fit` or `from_raw`.
    log_moneyness
        ``ln(K/F)``: a float, a 1-D array (it becomes dim ``log_moneyness``), or a DataArray, whose dims
        are broadcast against the slices'.
    derivative
        0, 1 or 2.
    extrapolate
        Whether to evaluate outside the quotes, ``[k_min, k_max]``. If False, those points are NaN.

    Returns
    -------
    DataArray over the slices' dims, then those of `log_moneyness`
        NaN for slices without a fit. Lazy if the fit or `log_moneyness` is.

    Raises
    ------
    ValueError
        `derivative` is not 0, 1 or 2.
    TypeError
        A bare array has more than one dimension.
    """
    if derivative not in (0, 1, 2):
        raise ValueError(f"derivative must be 0, 1 or 2, got {derivative!r}")
    k = bare(log_moneyness, "log_moneyness")
    require_variables(fit, "fit", (*RAW, "k_min", "k_max"))
    # Parameters have coordinates, such as the time to expiry.
    parameters = (fit[name] for name in parameter_names(fit))
    w = elementwise(
        lambda k, *own: svi.total_variance(k, slice_of(own), derivative=derivative), k, *parameters
    )
    w = w.transpose(*fit["a"].dims, ...)
    inside: xr.DataArray = w if extrapolate else w.where((fit["k_min"] <= k) & (k <= fit["k_max"]))
    return inside.rename("total_variance").assign_attrs(units="1", derivative=derivative)


@typed
def iv(fit: xr.Dataset, log_moneyness: Numbers, *, extrapolate: bool = False) -> xr.DataArray:
    """Evaluate the implied volatility [per √year] of every slice of a fit at `log_moneyness`.

    Parameters, shapes and NaN are as in `total_variance`. The result is also NaN if the total variance is
    negative.
    """
    require_variables(fit, "fit", ("year_fraction",))
    w = total_variance(fit, log_moneyness, extrapolate=extrapolate)
    volatility = elementwise(lambda t, w: np.sqrt(w / t), fit["year_fraction"], w)
    return volatility.rename("iv").assign_attrs(units="1/√year")


@typed
def durrleman(fit: xr.Dataset, log_moneyness: Numbers, *, extrapolate: bool = False) -> xr.DataArray:
    """Evaluate Durrleman's ``g(k)`` of every slice, which is negative where there is butterfly arbitrage.

    Parameters, shapes and NaN as in `total_variance`.
    """
    k = bare(log_moneyness, "log_moneyness")
    jet = [total_variance(fit, k, derivative=d, extrapolate=extrapolate) for d in (0, 1, 2)]
    return elementwise(svi.density_factor, k, *jet).transpose(*jet[0].dims).rename("durrleman_g")


@typed
def butterfly_check(fit: xr.Dataset) -> xr.Dataset:
    """Check every slice of a fit for butterfly arbitrage, at all values of log-moneyness.

    Returns
    -------
    Dataset over the slices' dims
        ``min_g`` and ``argmin_k``, the minimum of Durrleman's g and its k; ``g_left`` and ``g_right``, its
        limits for ``k → ∓∞``; ``ok``, True if ``min_g ≥ −1e-10``, both limits are at least 0, the minimum
        total variance is positive and both wing slopes are below Lee's bound of 2. Without a fit: NaN and
        False. Lazy if the fit is.

    Notes
    -----
    Lee's bound on the slopes is not sufficient: Vogt's slice (Gatheral and Jacquier 2014, example 3.1)
    satisfies it easily, is convex, and has ``g = −0.033``.

    Examples
    --------
    >>> vogt = dd.analysis.smile.svi.Raw(a=-0.0410, b=0.1331, rho=0.3060, m=0.3586, sigma=0.4153)
    >>> checked = dd.analysis.smile.butterfly_check(dd.analysis.smile.from_raw(vogt, 1.0))
    >>> round(float(checked["min_g"]), 3), bool(checked["ok"])
    (-0.033, False)
    """
    require_variables(fit, "fit", (*RAW, "k_min", "k_max"))

    def check(k_min: Floats, k_max: Floats, *raw: Floats) -> tuple[Any, ...]:
        k_min, k_max, *parameters = np.broadcast_arrays(k_min, k_max, *raw)
        flat = slice_of([values.ravel() for values in parameters])
        checked = check_slices(flat, k_min.ravel(), k_max.ravel())
        return tuple(values.reshape(k_min.shape) for values in checked)

    outputs = applied(
        check,
        *(fit[name] for name in ("k_min", "k_max", *parameter_names(fit))),
        out=[[]] * 5,
        types=[np.float64] * 4 + [np.bool_],
    )
    return xr.Dataset(dict(zip(Butterfly._fields, outputs, strict=True)))


TOLERANCE = 1e-10  # g from −1e-10 on counts as not negative
_POINTS = 801  # points of the first search
_ROWS = 128  # slices that are searched at a time
_FAR = 100.0  # ends of the search, in multiples of the range of a slice
_ZOOMS = 7  # times that the search is repeated around its minimum
_ZOOM_POINTS = 17

_DEGREE = 10
_CUTS = 2.0 ** np.arange(-12, 13)  # places at which the line of t is cut
_ROUNDING = 1e-9  # ratio of minimum to maximum coefficient below which rounding may hide a negative one


class Butterfly(NamedTuple):
    """Minimum ``g`` and its location, limits of ``g`` at both ends, and whether the slice passes."""

    min_g: Floats
    argmin_k: Floats
    g_left: Floats
    g_right: Floats
    ok: Bools


def check_slices(raw: Raw | Bumped, k_min: Floats, k_max: Floats) -> Butterfly:
    """Check slices, parameters ``(slices,)``, over the whole line; NaN and False without a fit.

    `g` is sampled at 801 points, dense about the vertex and out to at least 100 times the quoted range and
    five deviations, the lowest bracket is refined, and the limits ``1/4 − (b(1 ± ρ))²/16`` are exact.
    """
    # 1. Search the minimum of g.
    deviation = np.sqrt(np.maximum(svi.total_variance(0.0, raw), 0.0))
    quoted = np.maximum(np.abs(k_min), np.abs(k_max)) + 1.0
    reach = np.maximum(5.0 * deviation, np.where(np.isfinite(quoted), quoted, 1.0))
    min_g = np.empty_like(reach)
    argmin_k = np.empty_like(reach)
    for start in range(0, reach.size, _ROWS):
        rows = slice(start, start + _ROWS)
        block = slice_of([p[rows, None] for p in raw])
        min_g[rows], argmin_k[rows] = _min_g(block, reach[rows, None])

    # 2. Compute the limits at both ends, and the bounds on variance and slopes.
    g_left = 0.25 - np.square(raw.b * (1.0 - raw.rho)) / 16.0
    g_right = 0.25 - np.square(raw.b * (1.0 + raw.rho)) / 16.0
    min_variance = raw.a + raw.b * raw.sigma * np.sqrt(1.0 - np.square(raw.rho))
    max_slope = raw.b * (1.0 + np.abs(raw.rho))
    g_ok = (min_g >= -TOLERANCE) & (g_left >= 0.0) & (g_right >= 0.0)
    return Butterfly(min_g, argmin_k, g_left, g_right, g_ok & (min_variance > 0.0) & ~(max_slope >= 2.0))


def _min_g(raw: Raw | Bumped, reach: Floats) -> tuple[Floats, Floats]:
    """Return the minimum g of each row and its k, by refining the lowest bracket.

    Points are evenly spaced in ``x = arsinh((k − m)/σ)``, so they are dense about the vertex.
    """
    far = _FAR * reach
    unit = np.maximum(raw.sigma, 1e-9 * far)
    start = np.arcsinh((-far - raw.m) / unit)
    stop = np.arcsinh((far - raw.m) / unit)
    fractions = np.linspace(0.0, 1.0, _POINTS)
    # Bumps that make total variance negative count as a butterfly. For SVI alone this is checked separately.
    g_of_negative_variance = -np.inf if isinstance(raw, Bumped) else np.inf
    for _ in range(1 + _ZOOMS):
        x = start + (stop - start) * fractions
        k = raw.m + unit * np.sinh(x)
        g = density_factor(k, *(svi.total_variance(k, raw, derivative=d) for d in (0, 1, 2)))
        lowest = np.argmin(np.where(np.isnan(g), g_of_negative_variance, g), axis=-1)[:, None]
        spacing = (stop - start) * fractions[1]
        x_lowest = np.take_along_axis(x, lowest, -1)
        start = np.maximum(x_lowest - spacing, start)
        stop = np.minimum(x_lowest + spacing, stop)
        fractions = np.linspace(0.0, 1.0, _ZOOM_POINTS)
    return np.take_along_axis(g, lowest, -1)[:, 0], (raw.m + unit * np.sinh(x_lowest))[:, 0]


def certified(raw: Raw) -> Bools:
    """Return a mask of slices, given as parameters ``(slices,)``, that are proved free of butterflies."""
    a, b, rho, m, sigma = raw
    right = b * (1.0 + rho)
    left = b * (1.0 - rho)
    min_variance = a + b * sigma * np.sqrt(np.maximum(1.0 - rho * rho, 0.0))
    is_valid = (min_variance > 0.0) & (sigma > 0.0) & (right < 2.0) & (left < 2.0)
    proved = np.zeros(is_valid.shape, dtype=bool)
    rows = np.flatnonzero(is_valid)
    if rows.size:
        polynomial = _polynomial(*(parameter[rows] for parameter in (a, right, left, m, sigma)))
        proved[rows] = _positive(polynomial)
    return proved


def _polynomial(a: Floats, right: Floats, left: Floats, m: Floats, sigma: Floats) -> Floats:
    """Return ``64 t² (t² + 1)³ w² g`` as coefficients ``(11, slices)`` of ascending powers of t.

    With ``k = m + σ (t − 1/t)/2`` the root is ``√((k−m)² + σ²) = σ (t + 1/t)/2``, and with the wing slopes
    ``r = b(1 + ρ)``, ``l = b(1 − ρ)``::

        w  = level/(2 t)          level  = lσ + 2a t + rσ t²
        w' = slope/(t² + 1)       slope  = −l + r t²
        k  = place/(2 t)          place  = −σ + 2m t + σ t²
        w'' = 4 (r + l)/σ · t³/(t² + 1)³

    so ``1 − k w'/(2w) = tangent/(2 level circle)`` with ``circle = t² + 1`` and ``tangent = 2 level circle −
    place slope``, and ``(w'²/4)(1/w + 1/4)`` has the numerator ``slope² (level² + 8 t level)``. Over one
    denominator, that of w² g times positive powers of t and circle, g becomes this polynomial.
    """
    # 1. Set up the polynomials of the docstring.
    zero = np.zeros_like(a)
    unit = np.ones_like(a)
    level = np.stack([left * sigma, 2.0 * a, right * sigma])
    slope = np.stack([-left, zero, right])
    circle = np.stack([unit, zero, unit])
    place = np.stack([-sigma, 2.0 * m, sigma])
    tangent = 2.0 * product(level, circle) - product(place, slope)

    # 2. Add the terms of g, multiplied by 64 t² (t² + 1)³ w².
    level_squared = product(level, level)
    curvature = level_squared + 8.0 * np.pad(level, ((1, 1), (0, 0)))  # level² + 8 t level
    first_terms = 4.0 * product(tangent, tangent) - product(product(slope, slope), curvature)
    polynomial = product(circle, first_terms)
    # The term of w''/2 is 32 (r + l)/σ · t³ level².
    polynomial[3:8] += 32.0 * (right + left) / sigma * level_squared
    return polynomial


def product(p: Floats, q: Floats) -> Floats:
    """Multiply polynomials with coefficients in ascending powers along the first axis."""
    out = np.zeros((len(p) + len(q) - 1, *p.shape[1:]))
    for i, factor in enumerate(p):
        out[i : i + len(q)] += factor * q
    return out


def _positive(polynomial: Floats) -> Bools:
    """Return whether no Bernstein coefficient is negative on any piece of the positive line.

    The pieces are [0, 2⁻¹²] (t = cut · s), [2ⁱ, 2ⁱ⁺¹] (t = cut · (1 + s)), and from 2¹² to infinity, where
    the reversed coefficients are those of the polynomial in 1/t.
    """
    powers = np.arange(_DEGREE + 1)[:, None]
    to_bernstein = _basis(shifted=False)
    shifted_to_bernstein = _basis(shifted=True)
    first = to_bernstein @ (polynomial * _CUTS[0] ** powers)
    last = to_bernstein @ (polynomial[::-1] * (1.0 / _CUTS[-1]) ** powers)
    between = [shifted_to_bernstein @ (polynomial * cut**powers) for cut in _CUTS[:-1]]
    pieces = [first, last, *between]
    minimum = np.min(pieces, axis=1)
    maximum = np.max(pieces, axis=1)
    return np.asarray((minimum >= _ROUNDING * maximum).all(axis=0))


def _basis(*, shifted: bool) -> Floats:
    """Convert powers of s, or of 1 + s, to Bernstein's basis of degree 10 on 0 ≤ s ≤ 1."""
    n = _DEGREE
    from_powers = np.array([[comb(i, j) / comb(n, j) for j in range(n + 1)] for i in range(n + 1)])
    if not shifted:
        return from_powers
    return from_powers @ np.array(
        [[comb(j, i) for j in range(n + 1)] for i in range(n + 1)], dtype=np.float64
    )
