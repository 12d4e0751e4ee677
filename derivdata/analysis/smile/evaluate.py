"""The Dataset of a fit, and fits evaluated: total variance, volatility, density factor, butterfly check.

A fit, over the slices' dims:

==============================  =================================================================
variable                        meaning
==============================  =================================================================
``a b rho m sigma``             raw SVI parameters; also of an SSVI slice, of a flat slice (``b = 0``) and of
                                two quotes (a hinge: ``σ = 0``, ``|ρ| = 1``)
``bump_unit``, ``bump_1`` …     only of surfaces that were moved between bid and ask: bumps on the SVI
                                slices, see `derivdata.analysis.smile.svi`
``method``                      int8, a `Method`: which rung of the ladder gave this slice
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
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any

import numpy as np
import xarray as xr

from derivdata.analysis.labelling import applied, bare, elementwise
from derivdata.analysis.panels import require_variables
from derivdata.analysis.smile import svi
from derivdata.analysis.smile.butterfly import Butterfly, check_slices
from derivdata.analysis.smile.svi import Raw, parameter_names, slice_of
from derivdata.analysis.status import flag_attrs
from derivdata.support.arguments import Numbers, typed
from derivdata.support.arrays import Floats

RAW = Raw._fields
FACTS = {
    "rmse_vol": np.float64,
    "n": np.int32,
    "nfev": np.int32,
    "k_min": np.float64,
    "k_max": np.float64,
    "status": np.int32,
}
"""Figures of every fit of a slice other than its parameters, by type."""
_UNITS = {"rmse_vol": "1/√year", "k_min": "log-moneyness", "k_max": "log-moneyness"}


class Method(IntEnum):
    """Method that gave a slice, in ascending order of quality; 0 is none."""

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
    """Return a fit from its variables, with coordinates, flags and units; counts that are not given are 0."""
    like = variables["k_min"]
    nothing = dict.fromkeys(("status", "n", "nfev"), xr.zeros_like(like, dtype=np.int32))
    filled = nothing | {"rmse_vol": xr.full_like(like, np.nan)} | variables
    fit = xr.Dataset(filled, attrs=attrs).assign_coords(year_fraction=year_fraction)
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
    """Return a fit made of known raw SVI parameters: a published slice, a true surface.

    Parameters
    ----------
    raw
        Parameters, floats or DataArrays.
    year_fraction
        Time to expiry [years].
    k_min, k_max
        Range that counts as data; by default everything does, so nothing is extrapolation.
    forward
        Forward per slice, returned as a coordinate.
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
    """Evaluate the total variance ``w(k) = iv² T`` of every slice of a fit, or a derivative in k.

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
        Whether to go on outside ``[k_min, k_max]`` of the data. If not, those points are NaN.

    Returns
    -------
    DataArray over the slices' dims, then those of `log_moneyness`
        NaN for slices that have no fit. Lazy if the fit or `log_moneyness` is.

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
    parameters = (fit[name] for name in parameter_names(fit))  # with coordinates, such as the time to expiry
    w = elementwise(
        lambda k, *own: svi.total_variance(k, slice_of(own), derivative=derivative), k, *parameters
    )
    w = w.transpose(*fit["a"].dims, ...)
    inside: xr.DataArray = w if extrapolate else w.where((fit["k_min"] <= k) & (k <= fit["k_max"]))
    return inside.rename("total_variance").assign_attrs(units="1", derivative=derivative)


@typed
def iv(fit: xr.Dataset, log_moneyness: Numbers, *, extrapolate: bool = False) -> xr.DataArray:
    """Evaluate the implied volatility [per √year] of every slice of a fit at `log_moneyness`.

    Parameters, shapes and NaN as in `total_variance`; NaN also if total variance is negative.
    """
    require_variables(fit, "fit", ("year_fraction",))
    w = total_variance(fit, log_moneyness, extrapolate=extrapolate)
    volatility = elementwise(lambda t, w: np.sqrt(w / t), fit["year_fraction"], w)
    return volatility.rename("iv").assign_attrs(units="1/√year")


@typed
def durrleman(fit: xr.Dataset, log_moneyness: Numbers, *, extrapolate: bool = False) -> xr.DataArray:
    """Evaluate Durrleman's ``g(k)`` of every slice: butterfly arbitrage is where it is negative.

    Parameters, shapes and NaN as in `total_variance`.
    """
    k = bare(log_moneyness, "log_moneyness")
    jet = [total_variance(fit, k, derivative=d, extrapolate=extrapolate) for d in (0, 1, 2)]
    return elementwise(svi.density_factor, k, *jet).transpose(*jet[0].dims).rename("durrleman_g")


@typed
def butterfly_check(fit: xr.Dataset) -> xr.Dataset:
    """Search every slice for butterfly arbitrage, on the whole line.

    Returns
    -------
    Dataset over the slices' dims
        ``min_g`` and ``argmin_k``, the minimum of Durrleman's g and its k; ``g_left`` and ``g_right``, its
        limits for ``k → ∓∞``; ``ok``, True where ``min_g ≥ −1e-10``, both limits are at least 0, least
        total variance is positive and no wing is as steep as Lee's bound of 2. Without a fit: NaN and
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
