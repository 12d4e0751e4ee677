"""Fits evaluated: total variance, volatility, density factor, butterfly check."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import xarray as xr

from derivdata.analysis.inputs import require_variables
from derivdata.analysis.smile.butterfly import Butterfly
from derivdata.analysis.smile.curves import Curves, check_curves, curve_values
from derivdata.analysis.smile.fit_dataset import NODES, RAW, SABR
from derivdata.analysis.smile.parameters import Floats, Raw
from derivdata.analysis.smile.sabr import Sabr
from derivdata.analysis.smile.svi_curve import density_factor
from derivdata.support.arguments import Numbers, typed

__all__ = ["butterfly_check", "durrleman", "extrapolated", "iv", "total_variance"]


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
        raise ValueError(f"derivative is {derivative!r}; a smile has derivatives 0, 1 and 2")
    k = _labelled(log_moneyness)
    w = _apply(fit, lambda curves, k: curve_values(curves, k, derivative=derivative), k, outputs=[np.float64])
    inside: xr.DataArray = w if extrapolate else w.where(~extrapolated(fit, k))
    return inside.rename("total_variance").assign_attrs(units="1", derivative=derivative)


@typed
def iv(fit: xr.Dataset, log_moneyness: Numbers, *, extrapolate: bool = False) -> xr.DataArray:
    """Evaluate the implied volatility [per √year] of every slice of a fit at `log_moneyness`.

    Parameters, shapes and NaN are those of `total_variance`; NaN also where total variance is negative.
    """
    w = total_variance(fit, log_moneyness, extrapolate=extrapolate)
    return _elementwise(_volatility, fit["year_fraction"], w).rename("iv").assign_attrs(units="1/sqrt(year)")


@typed
def extrapolated(fit: xr.Dataset, log_moneyness: Numbers) -> xr.DataArray:
    """Tell whether `log_moneyness` lies outside the quotes of each slice, as booleans; True without a fit."""
    k = _labelled(log_moneyness)
    require_variables(fit, "fit", ("k_min", "k_max"))
    inside = (fit["k_min"] <= k) & (k <= fit["k_max"])
    return (~inside).rename("extrapolated")


@typed
def durrleman(fit: xr.Dataset, log_moneyness: Numbers, *, extrapolate: bool = False) -> xr.DataArray:
    """Evaluate Durrleman's ``g(k)`` of every slice: butterfly arbitrage is where it is negative.

    Parameters, shapes and NaN are those of `total_variance`.
    """
    k = _labelled(log_moneyness)
    parts = [total_variance(fit, k, derivative=d, extrapolate=extrapolate) for d in (0, 1, 2)]
    return _elementwise(lambda w, dw, d2w, k: density_factor(k, w, dw, d2w), *parts, k).rename("durrleman_g")


@typed
def butterfly_check(fit: xr.Dataset) -> xr.Dataset:
    """Search every slice for butterfly arbitrage, on the whole line.

    Returns
    -------
    Dataset over the slices' dims
        ``min_g`` and ``argmin_k``, the least of Durrleman's g and where; ``g_left`` and ``g_right``, its
        limits for ``k → ∓∞``; ``ok``, True where ``min_g ≥ −1e-10``, both limits are at least 0, least
        total variance is positive and no wing is as steep as Lee's bound of 2. Without a fit: NaN and
        False. Lazy if the fit is.

    Notes
    -----
    Lee's bound on the slopes alone is not enough: Vogt's slice (Gatheral and Jacquier 2014, example 3.1)
    keeps it with room to spare, is convex, and has ``g = −0.033``.
    """
    parts = _apply(fit, _check, outputs=[np.float64] * 4 + [np.bool_])
    return xr.Dataset(dict(zip(Butterfly._fields, parts, strict=True)))


def _names(fit: xr.Dataset) -> list[str]:
    """Return the variables that curves are made of, those with a dim of nodes last."""
    names = [*RAW, "method", "k_min", "k_max", "year_fraction"]
    return [*names, *(name for name in ("forward", *SABR, *NODES) if name in fit)]


def _curves(names: list[str], arrays: tuple[Any, ...], *, by_delta: bool) -> Curves:
    variables = dict(zip(names, arrays, strict=True))
    sabr = Sabr(*(variables[name] for name in SABR)) if SABR[0] in variables else None
    t = np.asarray(variables["year_fraction"])
    raw, forward = Raw(*(variables[name] for name in RAW)), variables.get("forward", np.ones_like(t))
    return Curves(
        raw,
        variables["method"],
        variables["k_min"],
        variables["k_max"],
        t,
        forward,
        sabr,
        variables.get("node_k"),
        variables.get("node_w"),
        by_delta,
    )


def _apply(fit: xr.Dataset, kernel: Callable[..., Any], *more: Any, outputs: list[Any]) -> Any:
    """`kernel` of the curves of a fit and `more`, with as many results as there are dtypes in `outputs`."""
    names, by_delta = _names(fit), fit.attrs.get("axis") == "delta"
    require_variables(fit, "fit", names)
    return xr.apply_ufunc(
        lambda *arrays: kernel(
            _curves(names, arrays[: len(names)], by_delta=by_delta), *arrays[len(names) :]
        ),
        *(fit[name] for name in names),
        *more,
        input_core_dims=[["node"] if name in NODES else [] for name in names] + [[]] * len(more),
        output_core_dims=[[]] * len(outputs),
        dask="parallelized",
        output_dtypes=outputs,
    )


def _check(curves: Curves) -> tuple[Any, ...]:
    shape = np.broadcast_shapes(*(np.shape(part) for part in (*curves.raw, curves.method, curves.t)))
    return tuple(part.reshape(shape) for part in check_curves(curves.flat()))


def _volatility(t: Floats, w: Floats) -> Floats:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.sqrt(w / t))


def _elementwise(kernel: Callable[..., Floats], *arrays: Any) -> xr.DataArray:
    result: xr.DataArray = xr.apply_ufunc(kernel, *arrays, dask="parallelized", output_dtypes=[np.float64])
    return result


def _labelled(log_moneyness: Any) -> xr.DataArray:
    if isinstance(log_moneyness, xr.DataArray):
        return log_moneyness
    k = np.asarray(log_moneyness, dtype=np.float64)
    if k.ndim > 1:
        raise TypeError(
            f"log_moneyness is a bare array of {k.ndim} dimensions; wrap it in a DataArray that names them"
        )
    return xr.DataArray(k, {"log_moneyness": k} if k.ndim else {}, ["log_moneyness"][: k.ndim])
