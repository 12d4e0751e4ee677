"""Greeks of one block of options: closed forms of the linear value B, then coin and discount on top."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple

import numpy as np
from scipy import special

from derivdata.analysis.black76.kernels import log_distance, price, priceable
from derivdata.analysis.black76.normalised import Floats

__all__ = ["DeltaKind", "Greek", "greek", "terms"]

DeltaKind = Literal["forward", "pa", "spot"]
Greek = Literal["delta", "gamma", "vega", "theta", "vanna", "volga", "rho", "charm", "speed", "d1", "d2"]


class Terms(NamedTuple):
    """One block: the inputs, and the parts that several greeks share."""

    forward: Floats
    strike: Floats
    years: Floats
    iv: Floats
    sign: Floats
    rate: Floats
    s: Floats
    d1: Floats
    d2: Floats
    density: Floats
    inverse: bool


def terms(
    forward: Floats, strike: Floats, years: Floats, iv: Floats, sign: Floats, rate: Floats, *, inverse: bool
) -> Terms:
    """Return the shared parts; d1 and d2 are ±∞ where no time or volatility is left, NaN there at F = K."""
    s = iv * np.sqrt(years)
    x = np.copysign(log_distance(forward, strike), forward - strike)
    ratio = x / s
    d1, d2 = ratio + 0.5 * s, ratio - 0.5 * s
    density = np.exp(-0.5 * d1 * d1) / np.sqrt(2.0 * np.pi)
    return Terms(forward, strike, years, iv, sign, rate, s, d1, d2, density, inverse)


def greek(name: Greek, delta: DeltaKind, at: Terms) -> Floats:
    """Compute one greek of a block; NaN outside the domain of the price and, without time value, at F = K."""
    value = _DELTAS[delta](at) if name == "delta" else _FORMS[name](at)
    valid = priceable(at.forward, at.strike, at.years, at.iv) & np.isfinite(at.sign)
    return np.where(valid, value, np.nan)


def _or_limit(at: Terms, value: Floats) -> Floats:
    """`value`, or its limit 0 where no time value is left."""
    return np.where(np.isinf(at.d1), 0.0, value)


def _discount(at: Terms) -> Floats:
    return np.exp(-at.rate * at.years)


def _forward_delta(at: Terms) -> Floats:
    return at.sign * special.ndtr(at.sign * at.d1)


def _premium_adjusted_delta(at: Terms) -> Floats:
    return at.sign * at.strike / at.forward * special.ndtr(at.sign * at.d2)


def _spot_delta(at: Terms) -> Floats:
    return _discount(at) * _forward_delta(at)


def _gamma(at: Terms) -> Floats:
    linear = _or_limit(at, at.density / (at.forward * at.s))
    if at.inverse:
        linear = (linear - 2.0 * _premium_adjusted_delta(at) / at.forward) / at.forward
    return _discount(at) * linear


def _vega(at: Terms) -> Floats:
    return _discount(at) * at.density * np.sqrt(at.years) * (1.0 if at.inverse else at.forward)


def _theta(at: Terms) -> Floats:
    decay = _or_limit(at, -0.5 * _vega(at) * at.iv / at.years)
    if not at.rate.any():
        return decay
    return decay + at.rate * price(*at[:6], inverse=at.inverse)


def _vanna(at: Terms) -> Floats:
    linear = _or_limit(at, -at.density * at.d2 / at.iv)
    if at.inverse:
        linear = (linear - at.density * np.sqrt(at.years)) / at.forward
    return _discount(at) * linear


def _volga(at: Terms) -> Floats:
    return _or_limit(at, _vega(at) * at.d1 * at.d2 / at.iv)


def _rho(at: Terms) -> Floats:
    """To the rate, spot fixed: the forward ``S e^(rT)`` moves with it.

    ``dV/dr = −T V + T F ∂V/∂F``, and ``F ∂V/∂F − V`` is ``D·(±K N(±d2))``; in coin ``∂(B/F)/∂F = δ_pa/F``.
    """
    exercised = at.sign * at.strike * special.ndtr(at.sign * at.d2)
    if at.inverse:
        exercised = exercised / at.forward - price(*at[:5], np.zeros_like(at.rate), inverse=True)
    return _discount(at) * at.years * exercised


def _charm(at: Terms) -> Floats:
    """Of ``∂V/∂F`` as time passes, forward fixed: ``∂d1/∂T = −d2/(2T)``, and the discount grows."""
    moved = at.d1 if at.inverse else at.d2
    decay = _or_limit(at, at.density * moved / (2.0 * at.years))
    delta = _premium_adjusted_delta(at) if at.inverse else _forward_delta(at)
    return _discount(at) * (decay + at.rate * delta) / (at.forward if at.inverse else 1.0)


def _speed(at: Terms) -> Floats:
    """Of gamma to the forward: ``Γ' = −Γ/F (1 + d1/s)``; in coin ``Γ'/F − 3 Γ/F² + 6 δ_pa/F³``."""
    gamma = _or_limit(at, at.density / (at.forward * at.s))
    linear = _or_limit(at, -gamma / at.forward * (1.0 + at.d1 / at.s))
    if at.inverse:
        linear = (linear - 3.0 * gamma / at.forward) / at.forward
        linear = linear + 6.0 * _premium_adjusted_delta(at) / at.forward**3
    return _discount(at) * linear


_DELTAS: dict[DeltaKind, Callable[[Terms], Floats]] = {
    "forward": _forward_delta,
    "pa": _premium_adjusted_delta,
    "spot": _spot_delta,
}
_FORMS: dict[Greek, Callable[[Terms], Floats]] = {
    "gamma": _gamma,
    "vega": _vega,
    "theta": _theta,
    "vanna": _vanna,
    "volga": _volga,
    "rho": _rho,
    "charm": _charm,
    "speed": _speed,
    "d1": lambda at: at.d1,
    "d2": lambda at: at.d2,
}
