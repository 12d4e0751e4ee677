"""Raw SVI: parameters, jump wings, formula, a parametrisation with positive variance, and bumps.

Gatheral and Jacquier, "Arbitrage-free SVI volatility surfaces", Quantitative Finance 14 (2014),
equations 3.1 to 3.5. Parameters are floats, numpy arrays or DataArrays (lazy ones stay lazy); NaN stays NaN.

``w = f + p² P + q² Q − σ p q`` with ``P, Q = (√(x² + σ²) ± x)/2`` and ``x = k − m``: f is the minimum total
variance, p² and q² are the slopes of the right and left wing. Variables are ``(f, p, q, m, ln σ)``, on the
first axis. In terms of ``R = √(x² + σ²)`` this is raw SVI: ``w = f − σ p q + bend R + tilt x`` with ``bend =
(p² + q²)/2`` and ``tilt = (p² − q²)/2``.

A slice with bumps is ``w(k) = SVI(k) + Σ hᵢ φ(k/u − cᵢ)``. The unit u is the root of the SVI slice's total
variance at the money, and ``φ(z) = (1 − (z/R)²)⁶`` for ``|z| < R`` and 0 beyond: nearly a normal density of
deviation 0.8, with five continuous derivatives. Beyond 6.77 units the slice is exactly its SVI slice, so all
proofs about SVI wings apply.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, overload

import numpy as np
import pandas as pd
import xarray as xr

from derivdata.analysis.panels import require_together
from derivdata.support.arguments import Numbers, typed
from derivdata.support.arrays import Bools, Floats

__all__ = ["JumpWings", "Raw", "convert"]
__dir__ = __all__.copy


CENTRES = (-4.0, -2.25, -1.0, 0.0, 1.0, 2.25, 4.0)
"""Centres of the bumps, in units of the root of total variance at the money."""

_POWER = 6
_RADIUS = 0.8 * float(np.sqrt(2.0 * _POWER))
REACH = CENTRES[-1] + _RADIUS
"""Distance from the money beyond which there are no bumps, in the same unit."""


class Bumped(NamedTuple):
    """A slice of raw SVI with bumps: `bump_1` and so on are their heights in total variance."""

    a: Any
    b: Any
    rho: Any
    m: Any
    sigma: Any
    bump_unit: Any
    bump_1: Any
    bump_2: Any
    bump_3: Any
    bump_4: Any
    bump_5: Any
    bump_6: Any
    bump_7: Any


RAW_SIZE = 5
BUMP_NAMES = Bumped._fields[RAW_SIZE:]


def parameter_names(fit: xr.Dataset) -> tuple[str, ...]:
    """Return the variables of a fit that contain the parameters of its slices."""
    return Bumped._fields if BUMP_NAMES[0] in fit.variables else Bumped._fields[:RAW_SIZE]


def filled_bumps(fit: xr.Dataset) -> xr.Dataset:
    """Fill missing bump heights with 0, after labels were added to a fit."""
    if BUMP_NAMES[0] not in fit.variables:
        return fit
    for name in BUMP_NAMES:
        idle = 1.0 if name == BUMP_NAMES[0] else 0.0  # 1 for the unit, which is a divisor, and 0 for heights
        fit = fit.assign({name: fit[name].fillna(idle).assign_attrs(fit[name].attrs)})
    return fit


def bump_shape(z: Floats, *, derivative: int = 0) -> Floats:
    """Return the bump φ(z), or its first or second derivative."""
    x = np.clip(z / _RADIUS, -1.0, 1.0)
    inside = 1.0 - x * x
    if derivative == 0:
        return np.asarray(inside**_POWER)
    if derivative == 1:
        return np.asarray(-2.0 * _POWER / _RADIUS * x * inside ** (_POWER - 1))
    bend = (2.0 * _POWER - 1.0) * x * x - 1.0
    return np.asarray(2.0 * _POWER / _RADIUS**2 * bend * inside ** (_POWER - 2))


def bump_variance(k: Any, slices: Bumped, *, derivative: int = 0) -> Floats:
    """Return the total variance of the bumps only, or a derivative of it in k."""
    total = np.zeros(np.broadcast_shapes(np.shape(k), np.shape(slices.bump_unit)))
    z = k / slices.bump_unit
    for centre, height in zip(CENTRES, slices[RAW_SIZE + 1 :], strict=True):
        if np.any(height):
            total = total + height * bump_shape(z - centre, derivative=derivative)
    return np.asarray(total / slices.bump_unit**derivative)


# Minimum of v − v_min relative to v; below it, rounding leaves fewer than 6 digits of sigma.
_MIN_RISE = 2e-10

_MET = 1e-6  # maximum relative error of the variance at the money of converted jump wings


class Raw(NamedTuple):
    """Raw SVI parameters of the total variance ``w(k) = a + b (ρ (k − m) + √((k − m)² + σ²))``."""

    a: Any
    b: Any
    rho: Any
    m: Any
    sigma: Any


class JumpWings(NamedTuple):
    """SVI jump wings: at-the-money variance and skew, slopes of the wings, and minimum variance.

    `v` (at the money) and `v_min` are variances per year. The skew `psi` and the slopes `p` (puts) and `c`
    (calls) are in units of ``1/√w(0)``.
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
    """Convert raw parameters to jump wings, or jump wings to raw parameters.

    Parameters
    ----------
    parameters
        Raw parameters or jump wings.
    year_fraction
        Time to expiry [years].

    Returns
    -------
    JumpWings or Raw
        The other form, in the common shape of the parameters.

    Raises
    ------
    ValueError
        A set of jump wings violates ``-p <= 2 psi <= c`` or ``v_min <= v``, so no smile has it. Or the
        minimum variance is at the money, where ``psi`` is 0 and ``v`` equals ``v_min`` for every sigma, so
        that jump wings do not determine the slice; also if `v` exceeds `v_min` by less than rounding (2e-10
        of `v`). Lazy input raises when the result is computed.

    Examples
    --------
    The slice of Vogt, which satisfies every simple bound but has butterfly arbitrage:

    >>> vogt = dd.analysis.smile.svi.Raw(a=-0.0410, b=0.1331, rho=0.3060, m=0.3586, sigma=0.4153)
    >>> wings = dd.analysis.smile.svi.convert(vogt, 1.0)
    >>> [round(float(part), 6) for part in wings]
    [0.017426, -0.175211, 0.699738, 1.316798, 0.011625]
    """
    if isinstance(parameters, Raw):
        return JumpWings(*_converted(_jump_wings, parameters, year_fraction))
    return Raw(*_converted(_raw_of_jump_wings, parameters, year_fraction))


def at_index(slices: Raw, index: Any) -> Raw:
    """Return the parameters of slices at an index of their arrays."""
    return Raw(*(values[index] for values in slices))


def slice_of(parameters: Sequence[Any]) -> Raw | Bumped:
    """Return a slice from its parameters in the order of their names, with or without bumps."""
    return Raw(*parameters) if len(parameters) == RAW_SIZE else Bumped(*parameters)


def total_variance(k: Any, raw: Raw | Bumped, *, derivative: int = 0) -> Floats:
    """Return ``w(k)`` or a derivative of it.

    At the kink of ``sigma = 0`` the slope is the mean, and the second derivative 0.
    """
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
    """Return Durrleman's ``g``, the ratio of the density to a lognormal one with the same local variance.

    ``g = (1 − k w'/(2w))² − (w'²/4)(1/w + 1/4) + w''/2``. A butterfly has negative value if ``g < 0``. NaN if
    ``w <= 0``, which is not a variance.
    """
    w = np.where(w > 0.0, w, np.nan)
    half = 0.5 * dw
    return np.asarray(np.square(1.0 - k * half / w) - half * half * (1.0 / w + 0.25) + 0.5 * d2w)


def _converted(kernel: Callable[..., tuple[Floats, ...]], fields: Any, year_fraction: Any) -> Any:
    """Apply a conversion to parameters and time, of numbers, arrays or DataArrays; see `convert`."""
    named_fields = {f"parameters[{place}]": values for place, values in enumerate(fields)}
    require_together(**named_fields, year_fraction=year_fraction)
    given = [
        values.to_numpy() if isinstance(values, pd.Series) else values for values in (*fields, year_fraction)
    ]
    labelled = any(isinstance(values, xr.DataArray) for values in given)

    def whole(*blocks: Floats) -> tuple[Floats, ...]:
        """Broadcast the results, since an argument that the kernel returns may lack dims of the others."""
        return tuple(np.broadcast_arrays(*kernel(*blocks)))

    return xr.apply_ufunc(
        whole if labelled else kernel,
        *given,
        output_core_dims=[[]] * 5,
        dask="parallelized",
        output_dtypes=[np.float64] * 5,
    )


def _jump_wings(a: Floats, b: Floats, rho: Floats, m: Floats, sigma: Floats, t: Floats) -> tuple[Floats, ...]:
    """Return the jump wings of raw parameters at time t (Gatheral and Jacquier 2014)."""
    with np.errstate(divide="ignore", invalid="ignore"):
        radius = np.hypot(m, sigma)
        w_at_money = a + b * (radius - rho * m)
        deviation = np.sqrt(w_at_money)
        w_min = a + b * sigma * np.sqrt(1.0 - np.square(rho))
        psi = b / (2.0 * deviation) * (rho - m / radius)
        p = b * (1.0 - rho) / deviation
        c = b * (1.0 + rho) / deviation
        return w_at_money / t, psi, p, c, w_min / t


def _raw_of_jump_wings(
    v: Floats, psi: Floats, p: Floats, c: Floats, v_min: Floats, t: Floats
) -> tuple[Floats, ...]:
    """Return the raw parameters of jump wings at time t; the inverse of `_jump_wings`."""
    # 1. Check the skew.
    impossible = (2.0 * np.asarray(psi) < -np.asarray(p)) | (2.0 * np.asarray(psi) > c)
    if impossible.any():
        raise ValueError(
            f"{int(impossible.sum())} jump-wing set(s) must satisfy -p <= 2 psi <= c: check the order (v, "
            "psi, p, c, v_min), and that psi is a skew in units of 1/sqrt(w)"
        )

    # 2. Compute b and ρ from the wings, and the vertex (m, σ) from skew and minimum.
    v, psi, p, c, v_min, t = np.broadcast_arrays(v, psi, p, c, v_min, t)
    with np.errstate(divide="ignore", invalid="ignore"):
        level = np.abs(v - v_min) <= _MIN_RISE * np.abs(v)
        straight = (p == 0.0) & (c == 0.0) & level  # a flat slice does not depend on its vertex
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
        sigma = np.where(centred, rise / (1.0 - flat), alpha * m)
        m = np.where(centred, 0.0, m)
        rho, m, sigma = (np.where(straight, 0.0, parameter) for parameter in (rho, m, sigma))

        # 3. Compute a, and check that these parameters have the given variance at the money.
        complete = np.isfinite(v + psi + p + c + v_min + t)
        a = v_min * t - np.where(straight, 0.0, b * sigma * flat)
        # With a distant vertex, rounding may hide a contradiction, which the variance at the money reveals.
        back = a + b * (np.hypot(m, sigma) - rho * m)
        met = (sigma >= 0.0) & (np.abs(back - v * t) <= _MET * v * t)
        _require_determined(complete & ~straight, v, v_min, level, met)
        return a, b, rho, m, sigma


def _require_determined(given: Bools, v: Floats, v_min: Floats, level: Bools, met: Bools) -> None:
    """Raise for jump wings that do not determine exactly one smile."""
    if (below := given & (v < v_min) & ~level).any():
        raise ValueError(f"{int(below.sum())} jump-wing set(s) must have v of at least v_min")
    if (open_width := given & level).any():
        raise ValueError(
            f"{int(open_width.sum())} jump-wing set(s) have v = v_min: the minimum variance is at the money, "
            "where jump wings do not determine the slice; use its raw parameters"
        )
    if (impossible := given & ~met).any():
        raise ValueError(
            f"{int(impossible.sum())} jump-wing set(s) have psi = 0 and v above v_min, or wings without a "
            "vertex, which is impossible for a smile at their year_fraction"
        )


SIZE = 5
"""Number of variables of a slice."""


def floor_from_raw(raw: Raw) -> Floats:
    """Return the variables ``(5, N)`` of raw parameters."""
    right = np.sqrt(np.maximum(raw.b * (1.0 + raw.rho), 0.0))
    left = np.sqrt(np.maximum(raw.b * (1.0 - raw.rho), 0.0))
    return np.stack([raw.a + raw.sigma * right * left, right, left, raw.m, np.log(raw.sigma)])


def floor_to_raw(x: Floats) -> Raw:
    """Return the raw parameters of these variables."""
    floor, right, left, m, log_sigma = x
    total = right**2 + left**2
    rho = np.divide(right**2 - left**2, total, out=np.zeros_like(total), where=total > 0.0)
    sigma = np.exp(log_sigma)
    return Raw(floor - sigma * right * left, total / 2.0, rho, m, sigma)


class _Hyperbola(NamedTuple):
    """Parts of the total variance ``w = bend R + tilt x + level`` with ``R = √(x² + σ²)``."""

    sigma: Floats
    distance: Floats
    """``x = k − m``."""
    radius: Floats
    """R."""
    bend: Floats
    """``(p² + q²)/2``, the parameter b."""
    tilt: Floats
    """``(p² − q²)/2``, the product b ρ."""
    level: Floats
    """``f − σ p q``, the parameter a."""

    def variance(self) -> Floats:
        """Return the total variance w."""
        w = self.bend * self.radius
        w += self.tilt * self.distance
        w += self.level
        return w


def _hyperbola(x: Floats, k: Floats) -> _Hyperbola:
    """Evaluate the parts of w at k from the variables ``(f, p, q, m, ln σ)``."""
    floor, p, q, m, log_sigma = x
    sigma = np.exp(log_sigma)
    distance = k - m
    radius = distance * distance
    radius += sigma * sigma
    np.sqrt(radius, out=radius)
    right = p * p
    left = q * q
    return _Hyperbola(
        sigma, distance, radius, (right + left) / 2.0, (right - left) / 2.0, floor - sigma * p * q
    )


def floor_variance(x: Floats, k: Floats) -> Floats:
    """Return total variance w at log-moneyness `k`."""
    return _hyperbola(x, k).variance()


def floor_variance_jet(x: Floats, k: Floats) -> tuple[Floats, Floats]:
    """Return w and its derivatives in the variables, ``(5, …)``."""
    return _variance_jet(x, _hyperbola(x, k))


def _variance_jet(x: Floats, hyperbola: _Hyperbola) -> tuple[Floats, Floats]:
    """Compute `floor_variance_jet` from the hyperbola of these variables."""
    p = x[1]
    q = x[2]
    radius = hyperbola.radius
    by_w = np.empty((SIZE, *hyperbola.distance.shape))
    by_w[0] = 1.0
    # ∂w/∂p = 2 p P − σ q with 2 P = R + x, and similarly for q.
    np.add(radius, hyperbola.distance, out=by_w[1])
    by_w[1] *= p
    by_w[1] -= hyperbola.sigma * q
    np.subtract(radius, hyperbola.distance, out=by_w[2])
    by_w[2] *= q
    by_w[2] -= hyperbola.sigma * p
    # ∂w/∂m = −∂w/∂k = −(bend x/R + tilt)
    np.divide(hyperbola.distance, radius, out=by_w[3])
    by_w[3] *= -hyperbola.bend
    by_w[3] -= hyperbola.tilt
    # ∂w/∂ln σ = bend σ²/R − σ p q
    np.divide(hyperbola.bend * hyperbola.sigma * hyperbola.sigma, radius, out=by_w[4])
    by_w[4] -= hyperbola.sigma * p * q
    return hyperbola.variance(), by_w


def floor_jet(x: Floats, k: Floats) -> tuple[tuple[Floats, ...], tuple[Floats, ...]]:
    """Return w and its first two derivatives in k, and the derivatives of each of them in the variables."""
    hyperbola = _hyperbola(x, k)
    w, by_w = _variance_jet(x, hyperbola)
    p = x[1]
    q = x[2]
    inverse = 1.0 / hyperbola.radius
    lean = hyperbola.distance * inverse  # x/R
    narrow = np.square(hyperbola.sigma * inverse)  # σ²/R²
    curve = narrow * inverse  # σ²/R³
    zero = np.zeros_like(hyperbola.distance)
    dw = hyperbola.tilt + hyperbola.bend * lean
    d2w = hyperbola.bend * curve
    by_dw = (zero, p * (1.0 + lean), -q * (1.0 - lean), -d2w, -hyperbola.bend * lean * narrow)
    by_d2w = (zero, p * curve, q * curve, 3.0 * d2w * lean * inverse, d2w * (2.0 - 3.0 * narrow))
    return (w, dw, d2w), (by_w, np.stack(by_dw), np.stack(by_d2w))


def floor_density(x: Floats, k: Floats) -> Floats:
    """Return Durrleman's g, as `derivdata.analysis.smile.svi.density_factor` defines it.

    Computed in place as ``(k (w'/2)/w − 1)² − (w'/2)² (1/w + 1/4) + w''/2`` with ``w'' = bend σ²/R³``,
    because searches spend much of their time here.
    """
    hyperbola = _hyperbola(x, k)
    inverse = 1.0 / hyperbola.radius
    half_slope = (hyperbola.tilt + hyperbola.bend * (hyperbola.distance * inverse)) / 2.0
    by_variance = 1.0 / hyperbola.variance()
    g = k * half_slope
    g *= by_variance
    g -= 1.0
    np.square(g, out=g)
    np.square(half_slope, out=half_slope)
    by_variance += 0.25
    half_slope *= by_variance
    g -= half_slope
    inverse *= inverse * inverse
    inverse *= hyperbola.bend * hyperbola.sigma * hyperbola.sigma / 2.0
    g += inverse
    return g


def floor_density_jet(x: Floats, k: Floats) -> tuple[Floats, Floats]:
    """Return Durrleman's g and its derivatives in the variables."""
    (w, dw, d2w), (by_w, by_dw, by_d2w) = floor_jet(x, k)
    tangent = 1.0 - k * dw / (2.0 * w)
    g = tangent**2 - dw**2 / 4.0 * (1.0 / w + 0.25) + d2w / 2.0
    g_w = tangent * k * dw / w**2 + (dw / (2.0 * w)) ** 2
    g_dw = -tangent * k / w - dw / 2.0 * (1.0 / w + 0.25)
    return g, g_w * by_w + g_dw * by_dw + 0.5 * by_d2w
