"""Raw SVI: its parameters, its jump wings, and its formula.

Gatheral and Jacquier, "Arbitrage-free SVI volatility surfaces", Quantitative Finance 14 (2014),
equations 3.1 to 3.5. Parameters are floats, numpy arrays or DataArrays (lazy ones stay lazy); NaN stays NaN.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, overload

import numpy as np
import pandas as pd
import xarray as xr

from derivdata.analysis.inputs import require_together
from derivdata.analysis.smile.bumps import RAW_SIZE, Bumped, bump_variance
from derivdata.support.arguments import Numbers, typed
from derivdata.support.arrays import Bools, Floats

__all__ = ["JumpWings", "Raw", "convert"]
__dir__ = __all__.copy


_LEAST_RISE = 2e-10  # of v: at less, rounding of v and v_min leaves sigma fewer than 6 digits

_MET = 1e-6


class Raw(NamedTuple):
    """``w(k) = a + b (ρ (k − m) + √((k − m)² + σ²))``, total variance at log-moneyness k."""

    a: Any
    b: Any
    rho: Any
    m: Any
    sigma: Any


class JumpWings(NamedTuple):
    """ATM variance `v`, ATM skew `psi`, put and call wing slopes `p` and `c`, least variance `v_min`.

    `v` and `v_min` are variances per year; `psi`, `p`, `c` are in units of ``1/√w(0)``.
    """

    v: Any
    psi: Any
    p: Any
    c: Any
    v_min: Any


@overload
def convert(parameters: Raw, year_fraction: Numbers) -> JumpWings: ...


@overload
def convert(parameters: JumpWings, year_fraction: Numbers) -> Raw: ...


@typed
def convert(parameters: Raw | JumpWings, year_fraction: Numbers) -> JumpWings | Raw:
    """Return the jump wings of raw parameters, or the raw parameters of jump wings.

    Parameters
    ----------
    parameters
        Either form.
    year_fraction
        Time to expiry [years].

    Returns
    -------
    JumpWings or Raw
        The other form, over the shapes that the parts have together.

    Raises
    ------
    ValueError
        Somewhere ``-p <= 2 psi <= c`` or ``v_min <= v`` does not hold: no smile has these jump wings.
        Or the least variance is at the money: there ``psi`` is 0 and ``v`` is ``v_min`` for every sigma, so
        that five jump wings do not determine the slice; the same where `v` exceeds `v_min` by so little that
        rounding decides (2e-10 of `v`). On lazy input the error comes when the result is computed.

    Examples
    --------
    The slice of Vogt that obeys every simple bound and is arbitrageable all the same:

    >>> vogt = dd.analysis.smile.svi.Raw(a=-0.0410, b=0.1331, rho=0.3060, m=0.3586, sigma=0.4153)
    >>> wings = dd.analysis.smile.svi.convert(vogt, 1.0)
    >>> [round(float(part), 6) for part in wings]
    [0.017426, -0.175211, 0.699738, 1.316798, 0.011625]
    """
    if isinstance(parameters, Raw):
        return JumpWings(*_converted(_jump_wings, parameters, year_fraction))
    return Raw(*_converted(_raw_of_jump_wings, parameters, year_fraction))


def slice_of(parameters: Sequence[Any]) -> Raw | Bumped:
    """Return a slice from its parameters in the order of their names, with bumps or without."""
    return Raw(*parameters) if len(parameters) == RAW_SIZE else Bumped(*parameters)


def total_variance(k: Any, raw: Raw | Bumped, *, derivative: int = 0) -> Floats:
    """Return ``w(k)`` or a derivative of it; where ``sigma = 0`` bends it that of the middle, and 0."""
    if isinstance(raw, Bumped):
        smooth = total_variance(k, Raw(*raw[:RAW_SIZE]), derivative=derivative)
        return smooth + bump_variance(k, raw, derivative=derivative)
    x = np.subtract(k, raw.m)
    radius = np.sqrt(x * x + np.square(raw.sigma))
    if derivative == 0:
        return np.asarray(raw.a + raw.b * (raw.rho * x + radius))
    inverse = np.divide(1.0, radius, out=np.zeros_like(radius), where=radius != 0.0)
    if derivative == 1:
        return np.asarray(raw.b * (raw.rho + x * inverse))
    return np.asarray(raw.b * np.square(raw.sigma * inverse) * inverse)


def density_factor(k: Floats, w: Floats, dw: Floats, d2w: Floats) -> Floats:
    """Durrleman's ``g``: the risk-neutral density over that of a lognormal with the same local variance.

    ``g = (1 − k w'/(2w))² − (w'²/4)(1/w + 1/4) + w''/2``. A butterfly has negative value where ``g < 0``.
    NaN where ``w <= 0``, which is no variance.
    """
    w = np.where(w > 0.0, w, np.nan)
    half = 0.5 * dw
    return np.asarray(np.square(1.0 - k * half / w) - half * half * (1.0 / w + 0.25) + 0.5 * d2w)


def _converted(kernel: Callable[..., tuple[Floats, ...]], fields: Any, year_fraction: Any) -> Any:
    parts = {f"parameters[{place}]": part for place, part in enumerate(fields)}
    require_together(**parts, year_fraction=year_fraction)
    given = [part.to_numpy() if isinstance(part, pd.Series) else part for part in (*fields, year_fraction)]
    labelled = any(isinstance(part, xr.DataArray) for part in given)

    def whole(*blocks: Floats) -> tuple[Floats, ...]:
        """Broadcast the results, so that one handed on as it came has the dims of all the others too."""
        return tuple(np.broadcast_arrays(*kernel(*blocks)))

    return xr.apply_ufunc(
        whole if labelled else kernel,
        *given,
        output_core_dims=[[]] * 5,
        dask="parallelized",
        output_dtypes=[np.float64] * 5,
    )


def _jump_wings(a: Floats, b: Floats, rho: Floats, m: Floats, sigma: Floats, t: Floats) -> tuple[Floats, ...]:
    with np.errstate(divide="ignore", invalid="ignore"):
        radius = np.hypot(m, sigma)
        variance = a + b * (radius - rho * m)
        scale = np.sqrt(variance)
        psi = b / (2.0 * scale) * (rho - m / radius)
        least = a + b * sigma * np.sqrt(1.0 - np.square(rho))
        return variance / t, psi, b * (1.0 - rho) / scale, b * (1.0 + rho) / scale, least / t


def _raw_of_jump_wings(
    v: Floats, psi: Floats, p: Floats, c: Floats, v_min: Floats, t: Floats
) -> tuple[Floats, ...]:
    impossible = (2.0 * np.asarray(psi) < -np.asarray(p)) | (2.0 * np.asarray(psi) > c)
    if impossible.any():
        raise ValueError(
            f"{int(impossible.sum())} jump-wing set(s) break -p <= 2 psi <= c, so no smile has them; "
            "check the order (v, psi, p, c, v_min) and that psi is a skew in units of 1/sqrt(w)"
        )
    v, psi, p, c, v_min, t = np.broadcast_arrays(v, psi, p, c, v_min, t)
    with np.errstate(divide="ignore", invalid="ignore"):
        level = np.abs(v - v_min) <= _LEAST_RISE * np.abs(v)
        straight = (p == 0.0) & (c == 0.0) & level  # a flat slice is what it is, whatever its vertex
        scale = np.sqrt(np.multiply(v, t))
        b = scale * np.add(c, p) / 2.0
        rho = 1.0 - p * scale / b
        # tilt = m/√(m² + σ²) and rise = (w(0) − min w)/b determine the vertex.
        tilt = rho - 2.0 * psi * scale / b
        rise = np.subtract(v, v_min) * t / b
        flat = np.sqrt(1.0 - rho**2)
        alpha = np.sign(tilt) * np.sqrt(1.0 / tilt**2 - 1.0)
        m = rise / (-rho + np.sign(tilt) * np.sqrt(1.0 + alpha**2) - alpha * flat)
        centred = tilt == 0.0
        m, sigma = np.where(centred, 0.0, m), np.where(centred, rise / (1.0 - flat), alpha * m)
        rho, m, sigma = (np.where(straight, 0.0, part) for part in (rho, m, sigma))
        complete = np.isfinite(v + psi + p + c + v_min + t)
        a = v_min * t - np.where(straight, 0.0, b * sigma * flat)
        # Rounding hides a contradiction behind a vertex far away: the variance at the money shows it.
        back = a + b * (np.hypot(m, sigma) - rho * m)
        met = (sigma >= 0.0) & (np.abs(back - v * t) <= _MET * v * t)
        _require_determined(complete & ~straight, v, v_min, level, met)
        return a, b, rho, m, sigma


def _require_determined(given: Bools, v: Floats, v_min: Floats, level: Bools, met: Bools) -> None:
    """Refuse jump wings that belong to no smile, or to many."""
    if (below := given & (v < v_min) & ~level).any():
        raise ValueError(f"{int(below.sum())} jump-wing set(s) have v below v_min, so no smile has them")
    if (open_width := given & level).any():
        raise ValueError(
            f"{int(open_width.sum())} jump-wing set(s) have v = v_min: the least variance is at the money, "
            "and jump wings do not determine the slice there; use its raw parameters"
        )
    if (impossible := given & ~met).any():
        raise ValueError(
            f"{int(impossible.sum())} jump-wing set(s) have psi = 0 and v above v_min, or wings without a "
            "vertex, so no smile has them at their year_fraction"
        )
