"""Surfaces made of known parameters, and the conditions that their slices keep."""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr

from derivdata.analysis.smile import Method, Raw
from derivdata.analysis.smile.contract import assemble
from derivdata.analysis.surface.inputs import labelled_expiry
from derivdata.analysis.surface.solver import Floats

__all__ = ["NATURAL", "butterfly_conditions", "from_essvi", "natural_parameters", "raw_parameters_of"]

NATURAL = ("theta", "rho", "psi")

_GIVEN = (*NATURAL, "year_fraction", "k_min", "k_max")


def from_essvi(
    theta: Any,
    rho: Any,
    psi: Any,
    year_fraction: Any,
    *,
    k_min: Any = -np.inf,
    k_max: Any = np.inf,
    forward: Any = None,
) -> xr.Dataset:
    """A surface of known eSSVI parameters: a published one, a true one.

    Parameters
    ----------
    theta, rho, psi
        Total variance at the money, correlation, and ``ψ = θφ`` of each expiry, with dim ``expiry``; bare
        1-D arrays get it. Nothing is checked: see `butterfly_conditions` and `calendar_check`.
    year_fraction
        Time to expiry [years].
    k_min, k_max
        Range of log-moneyness that counts as data; by default everything does.
    forward
        Forward of each expiry, kept as a coordinate.

    Returns
    -------
    Dataset, as `fit` gives it
    """
    given = zip((theta, rho, psi, year_fraction, k_min, k_max), _GIVEN, strict=True)
    parts = [labelled_expiry(x, name) for x, name in given]
    *natural, t, low, high = xr.broadcast(*parts)
    known = xr.zeros_like(t, dtype=np.int32)
    variables = dict(zip(NATURAL, natural, strict=True)) | {
        **raw_parameters_of(*natural)._asdict(),
        "method": (known + Method.SSVI).astype(np.int8),
        "repaired": known.astype(bool),
        "status": known,
        "rmse_vol": xr.full_like(t, np.nan, dtype=np.float64),
        "n": known,
        "nfev": known,
        "k_min": low,
        "k_max": high,
    }
    wrapped = None if forward is None else labelled_expiry(forward, "forward")
    return assemble(variables, parts[3], forward=wrapped, surface="essvi")


def raw_parameters_of(theta: xr.DataArray, rho: xr.DataArray, psi: xr.DataArray) -> Raw:
    """Raw SVI parameters of SSVI slices; a slice with ``ψ = 0`` is flat. Lazy if the arguments are."""
    found = xr.apply_ufunc(
        _raw, theta, rho, psi, output_core_dims=[[]] * 5, dask="parallelized", output_dtypes=[np.float64] * 5
    )
    return Raw(*found)


def _raw(theta: Floats, rho: Floats, psi: Floats) -> tuple[Floats, ...]:
    flat = psi == 0.0
    rest = 1.0 - np.square(rho)
    scale = theta / np.where(flat, np.inf, psi)
    return (
        np.where(flat, theta, theta * rest / 2.0),
        psi / 2.0,
        +rho,
        -rho * scale,
        np.where(flat, 1.0, np.sqrt(rest) * scale),
    )


def butterfly_conditions(surface: xr.Dataset) -> xr.Dataset:
    """The two closed conditions that are sufficient for no butterfly arbitrage in an SSVI slice.

    Parameters
    ----------
    surface
        Dataset with ``theta``, ``rho``, ``psi``.

    Returns
    -------
    Dataset over the slices' dims
        ``wing`` is ``ψ(1 + |ρ|)``, to be below 4; ``bend`` is ``ψφ(1 + |ρ|)``, to be at most 4; ``free``,
        whether both hold; False where the parameters are NaN.

    Raises
    ------
    ValueError
        The surface has no natural parameters: its slices were fitted one by one.

    Notes
    -----
    Gatheral and Jacquier (2014), theorem 4.2. `derivdata.analysis.smile.butterfly_check` looks at the
    density itself.
    """
    theta, rho, psi = natural_parameters(surface)
    wing = psi * (1.0 + np.abs(rho))
    bend = wing * psi / theta
    return xr.Dataset({"wing": wing, "bend": bend, "free": (wing < 4.0) & (bend <= 4.0)})


def natural_parameters(surface: xr.Dataset) -> tuple[xr.DataArray, xr.DataArray, xr.DataArray]:
    """θ, ρ and ψ of a surface.

    Raises
    ------
    ValueError
        It has none.
    """
    missing = [name for name in NATURAL if name not in surface]
    if missing:
        raise ValueError(
            f"the surface has no {', '.join(missing)}: its slices are not SSVI; "
            "fit it with method='essvi', or make it with from_essvi"
        )
    theta, rho, psi = (surface[name] for name in NATURAL)
    return theta, rho, psi
