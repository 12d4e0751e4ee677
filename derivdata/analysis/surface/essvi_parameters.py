"""Surfaces made of known parameters, and the parameters that a surface has."""

from __future__ import annotations

import numpy as np
import xarray as xr

from derivdata.analysis.smile import Method, Raw, ssvi_to_raw
from derivdata.analysis.smile.fit_dataset import assemble
from derivdata.analysis.surface.labelling import labelled_expiry, require_lengths
from derivdata.support.arguments import Numbers, typed

__all__ = ["NATURAL", "from_essvi", "natural_parameters", "raw_parameters_of"]

NATURAL = ("theta", "rho", "psi")

_GIVEN = (*NATURAL, "year_fraction", "k_min", "k_max")


@typed
def from_essvi(
    theta: Numbers,
    rho: Numbers,
    psi: Numbers,
    year_fraction: Numbers,
    *,
    k_min: Numbers = -np.inf,
    k_max: Numbers = np.inf,
    forward: Numbers | None = None,
) -> xr.Dataset:
    """Return a surface of known eSSVI parameters: a published one, a true one.

    Parameters
    ----------
    theta, rho, psi
        Total variance at the money, correlation, and ``ψ = θφ`` of each expiry, with dim ``expiry``; bare
        1-D arrays get it. Nothing is checked: see `calendar_check` and
        `derivdata.analysis.smile.ssvi_conditions`.
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
    named = {name: labelled_expiry(x, name) for x, name in given}
    wrapped = None if forward is None else labelled_expiry(forward, "forward")
    require_lengths(named if wrapped is None else named | {"forward": wrapped})
    parts = list(named.values())
    *natural, t, low, high = xr.broadcast(*parts)
    zero = xr.zeros_like(t, dtype=np.int32)
    variables = dict(zip(NATURAL, natural, strict=True)) | {
        **raw_parameters_of(*natural)._asdict(),
        "method": (zero + Method.SSVI).astype(np.int8),
        "repaired": zero.astype(bool),
        "status": zero,
        "rmse_vol": xr.full_like(t, np.nan, dtype=np.float64),
        "n": zero,
        "nfev": zero,
        "k_min": low,
        "k_max": high,
    }
    return assemble(variables, parts[3], forward=wrapped, surface="essvi")


def raw_parameters_of(theta: xr.DataArray, rho: xr.DataArray, psi: xr.DataArray) -> Raw:
    """Return raw SVI parameters of SSVI slices; a slice with ``ψ = 0`` is flat. Lazy if the arguments are."""
    bent = psi != 0.0
    raw = ssvi_to_raw(theta, rho, (psi / theta).where(bent, 1.0))
    return Raw(raw.a.where(bent, theta), psi / 2.0, rho, raw.m.where(bent, 0.0), raw.sigma.where(bent, 1.0))


def natural_parameters(
    surface: xr.Dataset, argument: str = "surface"
) -> tuple[xr.DataArray, xr.DataArray, xr.DataArray]:
    """θ, ρ and ψ of a surface.

    Raises
    ------
    ValueError
        It has none.
    """
    missing = [name for name in NATURAL if name not in surface]
    if missing:
        raise ValueError(
            f"{argument} has no {', '.join(missing)}: its slices are not SSVI; "
            "fit it with method='essvi', or make it with from_essvi"
        )
    theta, rho, psi = (surface[name] for name in NATURAL)
    return theta, rho, psi
