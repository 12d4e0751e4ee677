"""Raw, natural and jump-wing SVI parameters of a smile, and the way from each to the others.

Gatheral and Jacquier, "Arbitrage-free SVI volatility surfaces", Quantitative Finance 14 (2014),
equations 3.1 to 3.5. Parameters are floats, numpy arrays or DataArrays (lazy ones stay lazy); NaN stays NaN.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

from derivdata.analysis.inputs import require_together
from derivdata.support.arguments import Numbers, typed

__all__ = [
    "JumpWings",
    "Natural",
    "Raw",
    "jump_wings_to_raw",
    "svi_natural_to_raw",
    "svi_raw_to_jump_wings",
    "svi_raw_to_natural",
]

Floats = NDArray[np.float64]


class Raw(NamedTuple):
    """``w(k) = a + b (ρ (k − m) + √((k − m)² + σ²))``, total variance at log-moneyness k."""

    a: Any
    b: Any
    rho: Any
    m: Any
    sigma: Any


class Natural(NamedTuple):
    """``w(k) = Δ + ω/2 (1 + ζ ρ (k − μ) + √((ζ (k − μ) + ρ)² + 1 − ρ²))``."""

    delta: Any
    mu: Any
    rho: Any
    omega: Any
    zeta: Any


class JumpWings(NamedTuple):
    """ATM variance `v`, ATM skew `psi`, put and call wing slopes `p` and `c`, least variance `v_min`.

    `v` and `v_min` are variances per year; `psi`, `p`, `c` are in units of ``1/√w(0)``.
    """

    v: Any
    psi: Any
    p: Any
    c: Any
    v_min: Any


@typed
def svi_raw_to_natural(raw: Raw) -> Natural:
    """Natural parameters of raw ones; NaN or infinite where ``|ρ| = 1`` or ``σ = 0``, which have none."""
    return Natural(*_convert(_natural, raw))


@typed
def svi_natural_to_raw(natural: Natural) -> Raw:
    """Return the raw parameters of natural ones."""
    return Raw(*_convert(_raw_from_natural, natural))


@typed
def svi_raw_to_jump_wings(raw: Raw, year_fraction: Numbers) -> JumpWings:
    """Return the jump wings of raw parameters.

    Parameters
    ----------
    raw
        Raw parameters.
    year_fraction
        Time to expiry [years].

    Examples
    --------
    The slice of Vogt that obeys every simple bound and is arbitrageable all the same:

    >>> vogt = dd.analysis.smile.Raw(a=-0.0410, b=0.1331, rho=0.3060, m=0.3586, sigma=0.4153)
    >>> wings = dd.analysis.smile.svi_raw_to_jump_wings(vogt, 1.0)
    >>> [round(float(part), 6) for part in wings]
    [0.017426, -0.175211, 0.699738, 1.316798, 0.011625]
    """
    return JumpWings(*_convert(_jump_wings, _fitting("raw", raw, year_fraction)))


@typed
def jump_wings_to_raw(wings: JumpWings, year_fraction: Numbers) -> Raw:
    """Return the raw parameters of jump wings.

    Parameters
    ----------
    wings
        Jump-wing parameters.
    year_fraction
        Time to expiry [years].

    Raises
    ------
    ValueError
        Somewhere ``-p <= 2 psi <= c`` does not hold: no smile has these parameters. On lazy input the
        error comes when the result is computed.
    """
    return Raw(*_convert(_raw_from_jump_wings, _fitting("wings", wings, year_fraction)))


def _fitting(of: str, fields: tuple[Any, ...], year_fraction: Any) -> tuple[Any, ...]:
    parts = {f"{of}[{place}]": part for place, part in enumerate(fields)}
    require_together(**parts, year_fraction=year_fraction)
    return (*fields, year_fraction)


def _convert(kernel: Callable[..., tuple[Floats, ...]], parameters: tuple[Any, ...]) -> Any:
    parameters = tuple(part.to_numpy() if isinstance(part, pd.Series) else part for part in parameters)
    labelled = any(isinstance(part, xr.DataArray) for part in parameters)

    def whole(*blocks: Floats) -> tuple[Floats, ...]:
        """Broadcast the results, so that one handed on as it came has the dims of all the others too."""
        return tuple(np.broadcast_arrays(*kernel(*blocks)))

    return xr.apply_ufunc(
        whole if labelled else kernel,
        *parameters,
        output_core_dims=[[]] * 5,
        dask="parallelized",
        output_dtypes=[np.float64] * 5,
    )


def _natural(a: Floats, b: Floats, rho: Floats, m: Floats, sigma: Floats) -> tuple[Floats, ...]:
    with np.errstate(divide="ignore", invalid="ignore"):
        root = np.sqrt(1.0 - np.square(rho))
        omega = 2.0 * b * sigma / root
        zeta = root / sigma
        return a - omega * (1.0 - np.square(rho)) / 2.0, m + rho * sigma / root, +rho, omega, zeta


def _raw_from_natural(
    delta: Floats, mu: Floats, rho: Floats, omega: Floats, zeta: Floats
) -> tuple[Floats, ...]:
    with np.errstate(divide="ignore", invalid="ignore"):
        rest = 1.0 - np.square(rho)
        return delta + omega * rest / 2.0, omega * zeta / 2.0, +rho, mu - rho / zeta, np.sqrt(rest) / zeta


def _jump_wings(a: Floats, b: Floats, rho: Floats, m: Floats, sigma: Floats, t: Floats) -> tuple[Floats, ...]:
    with np.errstate(divide="ignore", invalid="ignore"):
        radius = np.hypot(m, sigma)
        variance = a + b * (radius - rho * m)
        scale = np.sqrt(variance)
        psi = b / (2.0 * scale) * (rho - m / radius)
        least = a + b * sigma * np.sqrt(1.0 - np.square(rho))
        return variance / t, psi, b * (1.0 - rho) / scale, b * (1.0 + rho) / scale, least / t


def _raw_from_jump_wings(
    v: Floats, psi: Floats, p: Floats, c: Floats, v_min: Floats, t: Floats
) -> tuple[Floats, ...]:
    impossible = (2.0 * np.asarray(psi) < -np.asarray(p)) | (2.0 * np.asarray(psi) > c)
    if impossible.any():
        raise ValueError(
            f"{int(impossible.sum())} jump-wing set(s) break -p <= 2 psi <= c, so no smile has them; "
            "check the order (v, psi, p, c, v_min) and that psi is a skew in units of 1/sqrt(w)"
        )
    with np.errstate(divide="ignore", invalid="ignore"):
        scale = np.sqrt(np.multiply(v, t))
        b = scale * np.add(c, p) / 2.0
        rho = 1.0 - p * scale / b
        tilt = rho - 2.0 * psi * scale / b
        rise = np.subtract(v, v_min) * t / b
        m, sigma = _vertex(tilt, rho, rise)
        return v_min * t - b * sigma * np.sqrt(1.0 - rho**2), b, rho, m, sigma


def _vertex(tilt: Floats, rho: Floats, rise: Floats) -> tuple[Floats, Floats]:
    """`m` and `sigma` from ``tilt = m/√(m² + σ²)`` and ``rise = (w(0) − min w)/b``."""
    flat = np.sqrt(1.0 - rho**2)
    alpha = np.sign(tilt) * np.sqrt(1.0 / tilt**2 - 1.0)
    m = rise / (-rho + np.sign(tilt) * np.sqrt(1.0 + alpha**2) - alpha * flat)
    centred = tilt == 0.0
    return np.where(centred, 0.0, m), np.where(centred, rise / (1.0 - flat), alpha * m)
