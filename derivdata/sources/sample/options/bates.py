"""Prices of the model of Bates (1996), Heston's stochastic variance with lognormal jumps by Fourier.

Under the forward measure ``x = ln(S_T/F)`` follows

- ``dx = −(v/2 + λ m) dt + √v dW + J dN``, ``J ~ N(μ, δ²)``, N Poisson of intensity λ,
  ``m = e^(μ + δ²/2) − 1``,
- ``dv = κ(θ − v) dt + σ √v dZ``, ``dW dZ = ρ dt``,

and ``M(z) = E[e^(zx)]`` is known in closed form: Heston's part in the form of Albrecher et al. (2007), which
does not jump between branches of the logarithm, times ``e^(λT(e^(μz + δ²z²/2) − 1 − mz))``.

Lewis (2001): with ``k = ln(K/F)`` a call is worth ``1 − e^(k/2)/π ∫₀^∞ Re[e^(−iuk) M(½ + iu)]/(u² + ¼) du``
in units of the forward. Two things make that integral short:

- *Two scales.* Shortly before expiry the paths without a jump spread over √(vT), a hundredth, and those with
  one over δ, a tenth. M is their sum, ``e^(−λT) M₀ + (M − e^(−λT) M₀)``; each has a grid of its own.
- *A lognormal as control variate.* From each part we take that of a lognormal of the same mass and mean,
  whose options Black's formula gives. What is left vanishes at ``u = ±i/2``, so that the poles of
  ``1/(u² + ¼)`` go, and the midpoint rule converges geometrically.

All strikes of an expiry share one characteristic function. The sum over equally spaced nodes is a polynomial
in ``e^(−ik du)``, by Horner's rule. Against adaptive quadrature the error is below 1e-11 of the forward
(``tests/sample/test_bates.py``, which also compares QuantLib's BatesEngine).

References
----------
Bates (1996), Review of Financial Studies 9(1), 69-107. Lewis (2001), "A simple option formula for general
jump-diffusion and other exponential Lévy processes". Albrecher, Mayer, Schoutens and Tistaert (2007), "The
little Heston trap", Wilmott Magazine.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from derivdata.analysis.black76.normalised import time_value
from derivdata.sources.sample.grid import Ints
from derivdata.sources.sample.noise import Floats

__all__ = ["Bates", "expected_variance", "log_mgf", "out_of_the_money"]

Complex = NDArray[np.complex128]

_NODES_WITHOUT_JUMP = 160
_NODES_WITH_JUMPS = 80
_NORMAL_TAIL = 8.2  # e^(−8.2²/2) = 2.5e-15
_EXPONENTIAL_TAIL = 34.0  # e^(−34) = 1.7e-15


class Bates(NamedTuple):
    """Parameters; numbers, or arrays that broadcast against the times to expiry.

    Attributes
    ----------
    variance, long_variance
        v now and θ [1/year].
    reversion
        κ [1/year].
    vol_of_variance, correlation
        σ [1/year] and ρ.
    jumps_per_year, jump_mean, jump_deviation
        λ, and mean μ and deviation δ of the log jump.
    """

    variance: Any
    long_variance: Any
    reversion: float
    vol_of_variance: float
    correlation: float
    jumps_per_year: Any
    jump_mean: float
    jump_deviation: float

    @property
    def compensator(self) -> float:
        """Return ``m = E[e^J] − 1``, which the drift takes back."""
        return float(np.expm1(self.jump_mean + 0.5 * self.jump_deviation**2))


def diffusive_variance(model: Bates, years: Floats) -> Floats:
    """Return the expectation of ``∫ v dt`` up to each expiry."""
    faded = -np.expm1(-model.reversion * years) / model.reversion
    return np.asarray(model.long_variance * years + (model.variance - model.long_variance) * faded)


def expected_variance(model: Bates, years: Floats) -> Floats:
    """Return the expected quadratic variation of the log price up to each expiry, jumps included."""
    jumps = model.jumps_per_year * years * (model.jump_mean**2 + model.jump_deviation**2)
    return np.asarray(diffusive_variance(model, years) + jumps)


def log_mgf(model: Bates, z: Any, years: Any) -> Any:
    """Return ``ln E[e^(zx)]`` at complex z; density, moments and prices of every kind follow from it."""
    jump = np.exp(model.jump_mean * z + 0.5 * model.jump_deviation**2 * z * z)
    jumps = model.jumps_per_year * years * (jump - 1.0 - model.compensator * z)
    return _log_mgf_heston(model, z, years) + jumps


def _log_mgf_heston(model: Bates, z: Any, years: Any) -> Any:
    """Return Heston's part, in terms of ``e^(−dT)``: the other root of d would wind around the logarithm."""
    squared = model.vol_of_variance**2
    drift = model.reversion - model.correlation * model.vol_of_variance * z
    d = np.sqrt(drift * drift + squared * (z - z * z))
    ratio = (drift - d) / (drift + d)
    fade = np.exp(-d * years)
    rest = 1.0 - ratio * fade
    level = (drift - d) * years - 2.0 * np.log(rest / (1.0 - ratio))
    slope = (drift - d) * (1.0 - fade) / rest
    return (model.reversion * model.long_variance * level + slope * model.variance) / squared


def out_of_the_money(model: Bates, years: Floats, k: Floats, place: Ints) -> Floats:
    """Return prices of options out of the money, in units of the forward: calls above it, puts below.

    Parameters
    ----------
    model
        Parameters of shape ``(expiries, instants)`` or that broadcast to it.
    years
        Times to expiry, ``(expiries, instants)``.
    k
        ``ln(K/F)`` of the options, ``(options, instants)``.
    place
        Row of `years` that each option belongs to.
    """
    model = model._replace(
        variance=np.broadcast_to(model.variance, years.shape),
        long_variance=np.broadcast_to(model.long_variance, years.shape),
        jumps_per_year=np.broadcast_to(model.jumps_per_year, years.shape),
    )
    expected = model.jumps_per_year * years
    w = diffusive_variance(model, years)
    drift = model.compensator * expected
    some = -np.expm1(-expected)
    lognormals = (
        (1.0 - some, -drift, w),
        (some, np.log(-np.expm1(-expected - drift) / some), w + model.jump_mean**2 + model.jump_deviation**2),
    )
    # |M₀(½ + iu)| falls like that of a normal, and from u ≈ 1/σT on like e^(−rate u).
    rate = (model.variance + model.reversion * model.long_variance * years) / model.vol_of_variance
    rate = rate * np.sqrt(1.0 - model.correlation**2)
    ends = (
        np.hypot(_NORMAL_TAIL / np.sqrt(w), _EXPONENTIAL_TAIL / rate),
        np.full(years.shape, _NORMAL_TAIL / model.jump_deviation),
    )
    price = np.zeros(k.shape)
    for part, (count, end, lognormal) in enumerate(
        zip((_NODES_WITHOUT_JUMP, _NODES_WITH_JUMPS), ends, lognormals, strict=True)
    ):
        step = end / count
        z = 0.5 + 1j * (np.arange(count)[:, None, None] + 0.5) * step
        mass, mean, variance = lognormal
        left = np.exp(_log_mgf_heston(model, z, years) - expected - drift * z)
        if part == 1:
            jump = np.exp(model.jump_mean * z + 0.5 * model.jump_deviation**2 * z * z)
            left *= np.expm1(expected * jump)
        left -= mass * np.exp(mean * z + 0.5 * variance * (z * z - z))
        left *= step / (np.pi * (0.25 + z.imag**2))
        price += mass[place] * _black(k, mean[place], variance[place])
        price -= np.exp(0.5 * k) * _sum(left, step, k, place)
    return price


def _black(k: Floats, mean: Floats, variance: Floats) -> Floats:
    """Return a call for k > 0, else a put, on a lognormal of that mean ``e^mean`` and total variance."""
    forward, strike = np.exp(mean), np.exp(k)
    intrinsic = np.maximum(np.where(k > 0.0, forward - strike, strike - forward), 0.0)
    shape = np.broadcast_shapes(k.shape, variance.shape)
    x = np.broadcast_to(np.abs(k - mean), shape).ravel()
    s = np.sqrt(np.broadcast_to(variance, shape)).ravel()
    return np.asarray(intrinsic + np.exp(0.5 * (k + mean)) * time_value(x, s).reshape(shape))


def _sum(terms: Complex, step: Floats, k: Floats, place: Ints) -> Floats:
    """Return ``Re Σ_j terms_j e^(−i (j + ½) step k)`` of every option, 0 beyond half a period.

    Beyond it the sum would repeat itself; what it stands for is nothing there: the period is many deviations.
    """
    angle = step[place] * k
    z = np.exp(-1j * angle)
    total = terms[-1][place]
    for each in terms[-2::-1]:
        total *= z
        total += each[place]
    return np.where(np.abs(angle) < np.pi, (total * np.exp(-0.5j * angle)).real, 0.0)
