"""Price, implied volatility and greeks of one block of options, on ndarrays of one shape.

The side is a sign, +1 for a call and -1 for a put. A rate discounts what `price` gives and what
`implied_volatility` takes; ``inverse`` premiums are in coin, ``B/F``. Greeks are closed forms of the linear
value B, with coin and discount on top.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import special

from derivdata.analysis.black76.inversion import deviation, time_value
from derivdata.analysis.status import Status
from derivdata.support.arrays import Floats

_EPSILON = float(np.finfo(np.float64).eps)
# A price this close to intrinsic or to its upper bound, in units of its rounding, has no other information.
_ROUNDING = 4.0


def priceable(forward: Floats, strike: Floats, years: Floats, iv: Floats) -> npt.NDArray[np.bool_]:
    """Tell where the formula has a value: a strike, a time or a volatility of zero is a limit that it has."""
    top = forward + strike + years + iv
    return (forward > 0) & (strike >= 0) & (years >= 0) & (iv >= 0) & (top < np.inf)


def log_distance(forward: Floats, strike: Floats) -> Floats:
    """``|ln(F/K)|`` to full relative precision, also where F and K nearly agree."""
    low = np.minimum(forward, strike)
    return np.log1p((np.maximum(forward, strike) - low) / low)


def price(
    forward: Floats, strike: Floats, years: Floats, iv: Floats, sign: Floats, rate: Floats, *, inverse: bool
) -> Floats:
    """Return the value of each option; NaN outside the domain of `priceable` or without a sign."""
    x = log_distance(forward, strike)
    s = iv * np.sqrt(years)
    value = np.maximum(sign * (forward - strike), 0.0)
    live = (s > 0) & (x < np.inf)
    if live.all():
        value += np.sqrt(forward) * np.sqrt(strike) * time_value(x, s)
    else:
        at = np.flatnonzero(live)
        value[at] += np.sqrt(forward[at]) * np.sqrt(strike[at]) * time_value(x[at], s[at])
    if inverse:
        value /= forward
    if rate.any():
        value *= np.exp(-rate * years)
    value[~priceable(forward, strike, years, iv)] = np.nan
    return value


def implied_volatility(
    value: Floats,
    forward: Floats,
    strike: Floats,
    years: Floats,
    sign: Floats,
    rate: Floats,
    *,
    inverse: bool,
    precision: tuple[float, float] = (_EPSILON, 0.0),
) -> tuple[Floats, npt.NDArray[np.int32]]:
    """Return the volatility and status of each option; NaN wherever the status is not 0.

    `precision` is the relative rounding of the prices, and of forwards and strikes.
    """
    if rate.any():
        value = value * np.exp(rate * years)
    unit = forward if inverse else 1.0
    intrinsic = np.maximum(sign * (forward - strike), 0.0) / unit
    excess = value - intrinsic
    bound = np.minimum(forward, strike) / unit
    noise = _ROUNDING * precision[0] * intrinsic
    if precision[1]:
        # The excess of an in-the-money option over intrinsic moves with the forward and the strike.
        noise = np.where(intrinsic > 0.0, noise + precision[1] * (forward + strike) / unit, noise)
    top = (1.0 - _ROUNDING * precision[0]) * bound
    status = _status(excess, noise, top, forward, strike, years)
    iv = np.full(value.shape, np.nan)
    at = slice(None) if not status.any() else np.flatnonzero(status == 0)
    f = forward[at]
    k = strike[at]
    scale = np.sqrt(f) / np.sqrt(k) if inverse else 1.0 / (np.sqrt(f) * np.sqrt(k))
    root = deviation(log_distance(f, k), excess[at] * scale)
    iv[at] = np.where(root.converged, root.s, np.nan) / np.sqrt(years[at])
    status[at] = np.where(root.converged, 0, np.int32(Status.NOT_CONVERGED))
    return iv, status


def _status(
    excess: Floats, noise: Floats, top: Floats, forward: Floats, strike: Floats, years: Floats
) -> npt.NDArray[np.int32]:
    """Return 0 if a volatility is implied, else the first applicable reason."""
    good = (excess > noise) & (excess < top) & (years > 0) & (top > 0) & (forward + strike < np.inf)
    if good.all():
        return np.zeros(excess.shape, dtype=np.int32)
    readable = (forward > 0) & (strike > 0) & (forward + strike < np.inf) & np.isfinite(excess + years)
    reasons = [
        (~readable, Status.BAD_INPUT),
        (years <= 0, Status.EXPIRED),
        (excess < -noise, Status.BELOW_INTRINSIC),
        (excess <= noise, Status.ZERO_TIME_VALUE),
        (excess >= top, Status.UPPER_BOUND),
    ]
    conditions, bits = zip(*reasons, strict=True)
    return np.select(conditions, [np.int32(bit) for bit in bits], np.int32(0))


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
    """Return the shared terms; d1 and d2 are ±∞ without time or volatility, and NaN there at F = K."""
    s = iv * np.sqrt(years)
    x = np.copysign(log_distance(forward, strike), forward - strike)
    ratio = x / s
    d1 = ratio + 0.5 * s
    d2 = ratio - 0.5 * s
    density = np.exp(-0.5 * d1 * d1) / np.sqrt(2.0 * np.pi)
    return Terms(forward, strike, years, iv, sign, rate, s, d1, d2, density, inverse)


def greek(name: Greek, delta: DeltaKind, at: Terms) -> Floats:
    """Compute one greek of a block; NaN outside the domain of the price and, without time value, at F = K."""
    value = _DELTAS[delta](at) if name == "delta" else _FORMS[name](at)
    valid = priceable(at.forward, at.strike, at.years, at.iv) & np.isfinite(at.sign)
    return np.where(valid, value, np.nan)


def _or_limit(at: Terms, value: Floats) -> Floats:
    """Return `value`, or its limit 0 without time value."""
    return np.where(np.isinf(at.d1), 0.0, value)


def _discount(at: Terms) -> Floats:
    return np.exp(-at.rate * at.years)


def _forward_delta(at: Terms) -> Floats:
    return at.sign * special.ndtr(at.sign * at.d1)


def _premium_adjusted_delta(at: Terms) -> Floats:
    return at.sign * at.strike / at.forward * special.ndtr(at.sign * at.d2)


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


def _rho(at: Terms) -> Floats:
    """Return the derivative by the rate with spot fixed, as the forward ``S e^(rT)`` moves with it.

    ``dV/dr = −T V + T F ∂V/∂F``, and ``F ∂V/∂F − V`` is ``D·(±K N(±d2))``; in coin ``∂(B/F)/∂F = δ_pa/F``.
    """
    exercised = at.sign * at.strike * special.ndtr(at.sign * at.d2)
    if at.inverse:
        exercised = exercised / at.forward - price(*at[:5], np.zeros_like(at.rate), inverse=True)
    return _discount(at) * at.years * exercised


def _charm(at: Terms) -> Floats:
    """Return the derivative of ``∂V/∂F`` by time with the forward fixed; ``∂d1/∂T = −d2/(2T)``."""
    moved = at.d1 if at.inverse else at.d2
    decay = _or_limit(at, at.density * moved / (2.0 * at.years))
    delta = _premium_adjusted_delta(at) if at.inverse else _forward_delta(at)
    return _discount(at) * (decay + at.rate * delta) / (at.forward if at.inverse else 1.0)


def _speed(at: Terms) -> Floats:
    """Return ``∂Γ/∂F``: ``Γ' = −Γ/F (1 + d1/s)``; in coin ``Γ'/F − 3 Γ/F² + 6 δ_pa/F³``."""
    gamma = _or_limit(at, at.density / (at.forward * at.s))
    linear = _or_limit(at, -gamma / at.forward * (1.0 + at.d1 / at.s))
    if at.inverse:
        linear = (linear - 3.0 * gamma / at.forward) / at.forward
        linear = linear + 6.0 * _premium_adjusted_delta(at) / at.forward**3
    return _discount(at) * linear


_DELTAS: dict[DeltaKind, Callable[[Terms], Floats]] = {
    "forward": _forward_delta,
    "pa": _premium_adjusted_delta,
    "spot": lambda at: _discount(at) * _forward_delta(at),
}
_FORMS: dict[Greek, Callable[[Terms], Floats]] = {
    "gamma": _gamma,
    "vega": _vega,
    "theta": _theta,
    "vanna": _vanna,
    "volga": lambda at: _or_limit(at, _vega(at) * at.d1 * at.d2 / at.iv),
    "rho": _rho,
    "charm": _charm,
    "speed": _speed,
    "d1": lambda at: at.d1,
    "d2": lambda at: at.d2,
}
