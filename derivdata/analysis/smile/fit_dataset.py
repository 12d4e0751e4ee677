"""The Dataset of a fit, over the slices' dims, the same for every method.

==============================  =================================================================
variable                        meaning
==============================  =================================================================
``a b rho m sigma``             raw SVI parameters; also of an SSVI slice (natural ``Δ = μ = 0``), of a
                                flat slice (``b = 0``) and of two quotes (a hinge: ``σ = 0``, ``|ρ| = 1``)
``sabr_alpha sabr_beta          Hagan parameters, only with ``method="sabr"``; in units where the forward
sabr_rho sabr_nu``              is the coordinate ``forward``, or 1 without one
``node_k node_w``               log-moneyness and total variance over dim ``node``, only with
                                ``method="pchip"``; the attribute ``axis`` is ``k`` or ``delta``
``method``                      int8, a `Method`: which rung of the ladder gave this slice
``repaired``                    True where an arbitrage repair moved the slice
``status``                      int32 sum of `derivdata.analysis.status.Status` bits
``rmse_vol``                    root mean square of fitted minus quoted volatility [per √year]; NaN where
                                there are no more strikes than parameters
``n``, ``nfev``                 quotes used; model evaluations spent
``k_min``, ``k_max``            log-moneyness range of the quotes used
``year_fraction``, ``forward``  coordinates: time to expiry [years]; forward, if it was given
==============================  =================================================================

A slice that could not be fitted has NaN parameters, ``method`` 0 and its reason in ``status``.
"""

from __future__ import annotations

from enum import IntEnum

import numpy as np
import xarray as xr

from derivdata.analysis.inputs import require_variables
from derivdata.analysis.smile.parameters import Raw
from derivdata.analysis.status import flag_attrs
from derivdata.support.arguments import Numbers, typed

__all__ = ["NODES", "RAW", "SABR", "Method", "assemble", "from_raw", "raw_parameters"]

RAW = Raw._fields
SABR = ("sabr_alpha", "sabr_beta", "sabr_rho", "sabr_nu")
NODES = ("node_k", "node_w")

_UNITS = {"rmse_vol": "1/sqrt(year)", "k_min": "log-moneyness", "k_max": "log-moneyness"}


class Method(IntEnum):
    """The rung of the ladder that gave a slice; more is better, 0 is none."""

    NONE = 0
    FLAT = 1
    PCHIP = 2
    SSVI = 3
    SABR = 4
    SVI = 5


def assemble(
    variables: dict[str, xr.DataArray],
    year_fraction: xr.DataArray,
    *,
    forward: xr.DataArray | None = None,
    **attrs: str,
) -> xr.Dataset:
    """Return a fit from its variables, with coordinates, CF flags and units set."""
    fit = xr.Dataset(variables, attrs=attrs).assign_coords(year_fraction=year_fraction)
    if forward is not None:
        fit = fit.assign_coords(forward=forward)
    fit["status"].attrs = flag_attrs()
    fit["method"].attrs = {
        "flag_values": np.array([each.value for each in Method], dtype=np.int8),
        "flag_meanings": " ".join(each.name.lower() for each in Method),
    }
    fit["year_fraction"].attrs = {"units": "years"}
    for name, units in _UNITS.items():
        fit[name].attrs = {"units": units}
    return fit


@typed
def raw_parameters(fit: xr.Dataset) -> Raw:
    """Return the raw SVI parameters of a fit, for the conversions; NaN where a slice has none."""
    require_variables(fit, "fit", RAW)
    return Raw(*(fit[name] for name in RAW))


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
        Forward per slice, kept as a coordinate.
    """
    parts = [xr.DataArray(x) for x in (*raw, year_fraction, k_min, k_max)]
    try:
        *parameters, t, low, high = xr.broadcast(*parts)
        if forward is not None:
            xr.broadcast(xr.DataArray(forward), t)
    except ValueError:
        raise ValueError("raw, year_fraction, k_min, k_max and forward do not fit each other") from None
    zero = xr.zeros_like(t, dtype=np.int8)
    variables = dict(zip(RAW, parameters, strict=True)) | {
        "method": zero + np.int8(Method.SVI),
        "repaired": zero.astype(bool),
        "status": zero.astype(np.int32),
        "rmse_vol": xr.full_like(t, np.nan, dtype=np.float64),
        "n": zero.astype(np.int32),
        "nfev": zero.astype(np.int32),
        "k_min": low,
        "k_max": high,
    }
    wrapped = None if forward is None else xr.DataArray(forward)
    return assemble(variables, xr.DataArray(year_fraction), forward=wrapped)
