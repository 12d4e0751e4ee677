"""Price, implied volatility and greeks of one block of options, on ndarrays of one shape.

The side is a sign, +1 for a call and -1 for a put. A rate discounts the result of `price` and the argument of
`implied_volatility`; ``inverse`` premiums are in coin, ``B/F``. Greeks are closed forms of the linear value
B, with coin and discount on top.

The formula is evaluated and inverted in normalised units, in which an out-of-the-money option is worth
``√(FK) · b(x, s)`` undiscounted, for calls and puts, with ``x = |ln(F/K)|`` and the deviation ``s = iv √T``.
With ``h = x/s``, ``t = s/2`` and Mills' ratio ``M(z) = N(-z)/φ(z)``

    b = φ(h) e^(-t²/2) · [M(h - t) - M(h + t)]        b'(s) = φ(h) e^(-t²/2)

so the bracket is ``b/b'``, and two large probabilities are never subtracted. Arguments are finite, ``x ≥ 0``,
``s > 0``; the relative error of `time_value` against 60 digits is under 2e-13 (h ≤ 35). The inversion starts
within 1e-3 and takes steps of fifth order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import special

from derivdata.analysis.status import Status
from derivdata.support.arrays import Floats

_SQRT_TAU = np.sqrt(2.0 * np.pi)
_SERIES_BELOW = 0.21  # t
_MILLS_BELOW = 10.0  # h + t
_COMPLEMENT_ABOVE = 0.7  # t - h: above it, the bound minus the shortfall is more accurate than b
_UNDERFLOW_H, _SATURATED_S = 40.0, 60.0  # beyond these b is 0, or equal to its limit e^(-x/2)

# Rational least-squares fit of Mills' ratio on [0, 10], computed with 60 digits: relative error 2.6e-17. All
# coefficients are positive, so Horner's rule does not cancel digits.
_MILLS = (
    (1.253314137315500282, 1.678924594026427093, 1.119750527810669147, 0.4689877276094443008,
     0.1331746554838814148, 0.02611183103219684187, 0.003451243209755607056, 0.0002822913923507909628,
     0.00001104613022852752529),
    (1.0, 2.137472573128775206, 2.098888023329849558, 1.246093649439903233, 0.4945383291036151304,
     0.1366035816615909272, 0.02639413387349398779, 0.003462288924224349211, 0.0002822914019174340959,
     0.00001104613012398077765),
)  # fmt: skip


def polynomial(coefficients: Sequence[float], x: Floats) -> Floats:
    """Evaluate a polynomial with coefficients in ascending order by Horner's rule."""
    value: Floats = coefficients[-1] * x
    for coefficient in coefficients[-2:0:-1]:
        value += coefficient
        value *= x
    value += coefficients[0]
    return value


def mills(z: Floats) -> Floats:
    """Return Mills' ratio ``N(-z)/φ(z)``; it overflows for z below -37."""
    ratio: Floats = np.sqrt(np.pi / 2) * special.erfcx(z / np.sqrt(2.0))
    return ratio


def vega(h: Floats, t: Floats) -> Floats:
    """Return ``b'(s)``, the derivative of the time value by s."""
    slope: Floats = np.exp(-0.5 * (h * h + t * t)) / _SQRT_TAU
    return slope


def time_value(x: Floats, s: Floats) -> Floats:
    """Return ``b(x, s)``, the value of an out-of-the-money option over √(FK)."""
    s = np.minimum(s, _SATURATED_S)
    h = np.minimum(x / s, _UNDERFLOW_H)
    t = 0.5 * s
    slope = vega(h, t)
    value = slope * value_over_vega(h, t)
    high = np.flatnonzero(t - h > _COMPLEMENT_ABOVE)
    if high.size:
        value[high] = np.exp(-0.5 * x[high]) - slope[high] * shortfall_over_vega(h[high], t[high])
    return value


def shortfall_over_vega(h: Floats, t: Floats) -> Floats:
    """Return ``(e^(-x/2) - b)/b' = M(t - h) + M(t + h)``, the distance to the upper bound over vega."""
    return mills(t - h) + mills(t + h)


def value_over_vega(h: Floats, t: Floats) -> Floats:
    """Return ``b/b' = M(h - t) - M(h + t)``, computed in each region by an accurate form.

    For small t the two Mills' ratios are nearly equal, and a subtraction would lose all digits. Their
    difference is therefore a series in t, with powers of h up to h = 10 and of 1/h beyond. For t ≥ 0.21 the
    difference is accurate, by the rational fit up to a sum of 10, by erfcx beyond. The region is ``2 · (t
    wide) + (h deep)``, the index into the four forms; after moving a limit, check both neighbours against 60
    digits (``tests/data``, black76_reference_mp60).
    """
    wide = t >= _SERIES_BELOW
    deep = h + np.where(wide, t, 0.0) > _MILLS_BELOW
    forms = (_series, _asymptotic, _near, lambda h, t: mills(h - t) - mills(h + t))
    return _by_region(2 * wide.astype(np.int8) + deep, forms, h, t)


def _by_region(
    region: npt.NDArray[np.int8], forms: Sequence[Callable[[Floats, Floats], Floats]], h: Floats, t: Floats
) -> Floats:
    """Evaluate ``forms[region](h, t)`` for each element; a single region needs no selection."""
    if region.size == 0:
        return np.empty_like(h)
    first = int(np.min(region))
    last = int(np.max(region))
    if first == last:
        return forms[first](h, t)
    value = np.empty_like(h)
    for number in range(first, last + 1):
        rows = np.flatnonzero(region == number)
        if rows.size:
            value[rows] = forms[number](h[rows], t[rows])
    return value


def _series(h: Floats, t: Floats) -> Floats:
    """Return the Taylor series in t to t¹³, by ``M⁽ⁿ⁺²⁾ = (h² + 2n + 1) M⁽ⁿ⁾ - n(n-1) M⁽ⁿ⁻²⁾``."""
    h2 = h * h
    t2 = t * t
    terms = [1.0 - h * _mills_fit(h)]
    before: Floats | float = 1.0
    for n in range(1, 12, 2):
        term = h2 + (2 * n + 1)
        term *= terms[-1]
        term -= before
        term /= (n + 1) * (n + 2)
        before = terms[-1]
        terms.append(term)
    value = terms.pop() * t2
    for term in reversed(terms[1:]):
        value += term
        value *= t2
    value += terms[0]
    value *= t
    value *= 2.0
    return value


def _asymptotic(h: Floats, t: Floats) -> Floats:
    """Return ``Σ (-1)ⁿ (2n-1)!! [(h-t)⁻²ⁿ⁻¹ - (h+t)⁻²ⁿ⁻¹]``, by a recurrence of positive terms."""
    p = 1.0 / (h - t)
    q = 1.0 / (h + t)
    p2 = p * p
    q2 = q * q
    difference = 2.0 * t * p * q
    odd = difference * (p + q) * q
    value = difference.copy()
    factor = 1.0
    for n in range(1, 19):
        difference = p2 * difference + odd
        odd *= q2
        factor *= 1 - 2 * n
        value += factor * difference
    return value


def _near(h: Floats, t: Floats) -> Floats:
    z = h - t
    lower = _mills_fit(np.abs(z))
    inside = np.flatnonzero(z < 0)
    lower[inside] = _SQRT_TAU * np.exp(0.5 * z[inside] ** 2) - lower[inside]
    return lower - _mills_fit(h + t)


def _mills_fit(z: Floats) -> Floats:
    numerator, denominator = _MILLS
    value = polynomial(numerator, z)
    value /= polynomial(denominator, z)
    return value


_STEPS = 6
# Fraction of the upper bound above which the distance to the bound is inverted instead of the price.
_HIGH = 0.7
_SETTLED = 2e-3  # a step this small, in units of 1/(1 + h² + t²), leaves a fifth-order error below 1 ulp

# Least-squares fits for starting values. Moneyness h of the normal (Bachelier) model from v = ln(1 + x/b),
# over v, for h to 38: 2e-5. The curvature factor 1 - h² + h³ M(h) for h to 40: 3e-4.
_NORMAL = (
    (3.98950522e-01, 5.21155098e-02, 7.99864175e-03, 1.36918907e-04, 3.15779931e-07, 5.27788050e-11),
    (1.0, 1.30828669e-01, 2.35208958e-02, 9.83976564e-04, 6.06682757e-06, 4.47937712e-09),
)
_CURVATURE = ((1.0, 1.38806855, 0.58589658), (1.0, 1.39731092, 1.49573871, 0.44826146, 0.19561335))


class Deviation(NamedTuple):
    """``s``, and whether the last step was small enough."""

    s: Floats
    converged: npt.NDArray[np.bool_]


def deviation(x: Floats, value: Floats) -> Deviation:
    """Return the s with ``b(x, s) = value``, where ``x ≥ 0`` and ``0 < value < e^(-x/2)``."""
    # 1. Compute starting values; those near the upper bound of b have their own.
    bound = np.exp(-0.5 * x)
    is_high = value > _HIGH * bound
    s = _start(x, value)
    high = np.flatnonzero(is_high)
    if high.size:
        s[high] = _start_high(x[high], value[high], bound[high])

    # 2. Repeat Householder's step for the elements that have not converged.
    converged = np.zeros(x.shape, dtype=bool)
    rest: slice | npt.NDArray[np.intp] = slice(None)
    for _ in range(_STEPS):
        step, is_small = _step(x[rest], value[rest], bound[rest], s[rest], is_high[rest])
        s[rest] *= 1.0 + step
        converged[rest] = is_small
        if is_small.all():
            break
        rest = np.flatnonzero(~converged)
    return Deviation(s, converged)


def _start(x: Floats, value: Floats) -> Floats:
    """Return the normal model's deviation n, corrected for the factor ``e^(-s²/8)`` of vega.

    ``b = ∫ φ(x/u) e^(-u²/8) du`` from 0 to s; without the exponential it is the normal model. To first order
    in s² ``s/n = 1 + a`` with ``a = (n²/24)(1 - h² + h³ M(h))`` (the second factor by its fit `_CURVATURE`);
    at the money ``s/n = 1 + a + 2.1 a² + 5.443 a³``, the inverse of erf, of which the last line is the Padé
    form.
    """
    x = np.maximum(x, 1e-9 * value)
    v = np.log1p(np.minimum(x / value, 1e300))
    h = v * polynomial(_NORMAL[0], v)
    h /= polynomial(_NORMAL[1], v)
    normal = x / h
    a = normal * normal / 24.0 * polynomial(_CURVATURE[0], h)
    a /= polynomial(_CURVATURE[1], h)
    np.minimum(a, 0.3, out=a)
    return normal * (1.0 - a * (1.592 + 0.492 * a)) / (1.0 - 2.592 * a)


def _start_high(x: Floats, value: Floats, bound: Floats) -> Floats:
    """Return a start near the bound: exact at the money, and for saturated b; never below the inflection.

    The inflection of b is at ``s = √(2x)``, where ``b = bound (1 - erfcx(√x))/2``; beyond it the distance to
    the bound falls about as ``e^(-s²/8)``, so ``s² = 2x + 8 ln(distance there / distance)``.
    """
    inflection = 0.5 * bound * (1.0 - special.erfcx(np.sqrt(x)))
    rise = np.log((bound - inflection) / (bound - value))
    s = np.sqrt(2.0 * x + 8.0 * np.maximum(rise, 0.0))
    return np.maximum(s, -2.0 * special.ndtri(0.5 * (1.0 - value / bound)))


def _step(
    x: Floats, value: Floats, bound: Floats, s: Floats, high: npt.NDArray[np.bool_]
) -> tuple[Floats, npt.NDArray[np.bool_]]:
    """Return the relative step to ``ln|b(s) - c| = ln|value - c|``, with c = 0, or the bound if `high`."""
    h = x / s
    t = 0.5 * s
    distance = value_over_vega(h, t)
    target = value
    above = np.flatnonzero(high)
    if above.size:
        target = value.copy()
        target[above] = bound[above] - value[above]
        distance[above] = -shortfall_over_vega(h[above], t[above])
    slope = s / distance
    newton = np.log(target / (vega(h, t) * np.abs(distance))) / slope
    h2 = h * h
    t2 = t * t
    step = _fifth_order(newton, slope, h2, t2)
    return step, np.abs(step) * (1.0 + h2 + t2) < _SETTLED


def _fifth_order(newton: Floats, slope: Floats, h2: Floats, t2: Floats) -> Floats:
    """Return Householder's step from f''/f', f'''/f' and f''''/f' of ``f = ln|b(s) - c|``, all over s.

    ``b''/b' = (h² - t²)/s``, and ``f' = slope``; the rest follows by differentiation: `second` is ``s
    f''/f'`` and so on, each from the previous one by ``d ln f'/ds``. With ``ν = -f/f'`` the step is ``ν (1 +
    ν (f₂ + ν f₃/6)) / (1 + ν (3/2 f₂ + ν (f₂²/4 + f₃/3 + ν f₄/24)))`` (Householder 1970). The high order is
    worthwhile because ln b is nearly linear in 1/s² for options far out of the money.
    """
    second = h2 - t2 - slope
    change = -3.0 * h2 - t2 - slope * second
    third = second * second + change
    fourth = second * (third + 2.0 * change) + 12.0 * h2 - slope * third
    upper = 1.0 + newton * (second + newton * third / 6.0)
    lower = 0.25 * second * second + third / 3.0 + newton * fourth / 24.0
    return newton * upper / (1.0 + newton * (1.5 * second + newton * lower))


_EPSILON = float(np.finfo(np.float64).eps)
# A price closer than this to intrinsic or to its upper bound, in units of its rounding, does not determine a
# volatility.
_ROUNDING = 4.0


def priceable(forward: Floats, strike: Floats, years: Floats, iv: Floats) -> npt.NDArray[np.bool_]:
    """Return a mask of inputs in the formula's domain, with its limits at zero strike, time or volatility."""
    top = forward + strike + years + iv
    return (forward > 0) & (strike >= 0) & (years >= 0) & (iv >= 0) & (top < np.inf)


def log_distance(forward: Floats, strike: Floats) -> Floats:
    """Return ``|ln(F/K)|`` to full relative precision, also where F and K nearly agree."""
    low = np.minimum(forward, strike)
    return np.log1p((np.maximum(forward, strike) - low) / low)


def price(
    forward: Floats, strike: Floats, years: Floats, iv: Floats, sign: Floats, rate: Floats, *, inverse: bool
) -> Floats:
    """Return the value of each option; NaN outside the domain of `priceable` or without a sign."""
    x = log_distance(forward, strike)
    s = iv * np.sqrt(years)
    value = np.maximum(sign * (forward - strike), 0.0)
    has_time_value = (s > 0) & (x < np.inf)
    if has_time_value.all():
        value += np.sqrt(forward) * np.sqrt(strike) * time_value(x, s)
    else:
        rows = np.flatnonzero(has_time_value)
        value[rows] += np.sqrt(forward[rows]) * np.sqrt(strike[rows]) * time_value(x[rows], s[rows])
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
    # 1. Compute the undiscounted excess over intrinsic and its rounding error.
    if rate.any():
        value = value * np.exp(rate * years)
    unit = forward if inverse else 1.0
    intrinsic = np.maximum(sign * (forward - strike), 0.0) / unit
    excess = value - intrinsic
    bound = np.minimum(forward, strike) / unit
    price_rounding, input_rounding = precision
    noise = _ROUNDING * price_rounding * intrinsic
    if input_rounding:
        # For in-the-money options, rounding of the forward and the strike also changes the excess.
        noise = np.where(intrinsic > 0.0, noise + input_rounding * (forward + strike) / unit, noise)
    top = (1.0 - _ROUNDING * price_rounding) * bound

    # 2. Invert it if a volatility is implied.
    status = _status(excess, noise, top, forward, strike, years)
    iv = np.full(value.shape, np.nan)
    rows: Any = slice(None)
    if status.any():
        rows = np.flatnonzero(status == 0)
    f = forward[rows]
    k = strike[rows]
    scale = 1.0 / (np.sqrt(f) * np.sqrt(k))
    if inverse:
        scale = np.sqrt(f) / np.sqrt(k)
    root = deviation(log_distance(f, k), excess[rows] * scale)
    iv[rows] = np.where(root.converged, root.s, np.nan) / np.sqrt(years[rows])
    status[rows] = np.where(root.converged, 0, np.int32(Status.NOT_CONVERGED))
    return iv, status


def _status(
    excess: Floats, noise: Floats, top: Floats, forward: Floats, strike: Floats, years: Floats
) -> npt.NDArray[np.int32]:
    """Return 0 if a volatility is implied, otherwise the first applicable reason."""
    is_implied = (excess > noise) & (excess < top) & (years > 0) & (top > 0) & (forward + strike < np.inf)
    if is_implied.all():
        return np.zeros(excess.shape, dtype=np.int32)
    is_valid = (forward > 0) & (strike > 0) & (forward + strike < np.inf) & np.isfinite(excess + years)
    # np.select returns the first condition that applies.
    conditions = [~is_valid, years <= 0, excess < -noise, excess <= noise, excess >= top]
    reasons = [
        Status.BAD_INPUT,
        Status.EXPIRED,
        Status.BELOW_INTRINSIC,
        Status.ZERO_TIME_VALUE,
        Status.UPPER_BOUND,
    ]
    return np.select(conditions, list(np.array(reasons, dtype=np.int32)), np.int32(0))


DeltaKind = Literal["forward", "pa", "spot"]
Greek = Literal["delta", "gamma", "vega", "theta", "vanna", "volga", "rho", "charm", "speed", "d1", "d2"]


class Terms(NamedTuple):
    """Inputs of one block, and terms that several greeks share."""

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


def greek(name: Greek, delta: DeltaKind, option: Terms) -> Floats:
    """Compute one greek of a block; NaN outside the domain of the price and, without time value, at F = K."""
    value = _DELTAS[delta](option) if name == "delta" else _FORMS[name](option)
    valid = priceable(option.forward, option.strike, option.years, option.iv) & np.isfinite(option.sign)
    return np.where(valid, value, np.nan)


def _or_limit(option: Terms, value: Floats) -> Floats:
    """Return `value`, or its limit 0 without time value."""
    return np.where(np.isinf(option.d1), 0.0, value)


def _discount(option: Terms) -> Floats:
    return np.exp(-option.rate * option.years)


def _forward_delta(option: Terms) -> Floats:
    return option.sign * special.ndtr(option.sign * option.d1)


def _premium_adjusted_delta(option: Terms) -> Floats:
    return option.sign * option.strike / option.forward * special.ndtr(option.sign * option.d2)


def _gamma(option: Terms) -> Floats:
    linear = _or_limit(option, option.density / (option.forward * option.s))
    if option.inverse:
        linear = (linear - 2.0 * _premium_adjusted_delta(option) / option.forward) / option.forward
    return _discount(option) * linear


def _vega(option: Terms) -> Floats:
    return (
        _discount(option)
        * option.density
        * np.sqrt(option.years)
        * (1.0 if option.inverse else option.forward)
    )


def _theta(option: Terms) -> Floats:
    decay = _or_limit(option, -0.5 * _vega(option) * option.iv / option.years)
    if not option.rate.any():
        return decay
    value = price(
        option.forward, option.strike, option.years, option.iv, option.sign, option.rate,
        inverse=option.inverse,
    )  # fmt: skip
    return decay + option.rate * value


def _vanna(option: Terms) -> Floats:
    linear = _or_limit(option, -option.density * option.d2 / option.iv)
    if option.inverse:
        linear = (linear - option.density * np.sqrt(option.years)) / option.forward
    return _discount(option) * linear


def _rho(option: Terms) -> Floats:
    """Return the derivative by the rate with spot fixed, as the forward ``S e^(rT)`` moves with it.

    ``dV/dr = −T V + T F ∂V/∂F``, and ``F ∂V/∂F − V`` is ``D·(±K N(±d2))``; in coin ``∂(B/F)/∂F = δ_pa/F``.
    """
    exercised = option.sign * option.strike * special.ndtr(option.sign * option.d2)
    if option.inverse:
        exercised = exercised / option.forward - price(
            option.forward, option.strike, option.years, option.iv, option.sign, np.zeros_like(option.rate),
            inverse=True,
        )  # fmt: skip
    return _discount(option) * option.years * exercised


def _charm(option: Terms) -> Floats:
    """Return the derivative of ``∂V/∂F`` by time with the forward fixed; ``∂d1/∂T = −d2/(2T)``."""
    moved = option.d1 if option.inverse else option.d2
    decay = _or_limit(option, option.density * moved / (2.0 * option.years))
    delta = _premium_adjusted_delta(option) if option.inverse else _forward_delta(option)
    return _discount(option) * (decay + option.rate * delta) / (option.forward if option.inverse else 1.0)


def _speed(option: Terms) -> Floats:
    """Return ``∂Γ/∂F``: ``Γ' = −Γ/F (1 + d1/s)``; in coin ``Γ'/F − 3 Γ/F² + 6 δ_pa/F³``."""
    gamma = _or_limit(option, option.density / (option.forward * option.s))
    linear = _or_limit(option, -gamma / option.forward * (1.0 + option.d1 / option.s))
    if option.inverse:
        linear = (linear - 3.0 * gamma / option.forward) / option.forward
        linear = linear + 6.0 * _premium_adjusted_delta(option) / option.forward**3
    return _discount(option) * linear


_DELTAS: dict[DeltaKind, Callable[[Terms], Floats]] = {
    "forward": _forward_delta,
    "pa": _premium_adjusted_delta,
    "spot": lambda option: _discount(option) * _forward_delta(option),
}
_FORMS: dict[Greek, Callable[[Terms], Floats]] = {
    "gamma": _gamma,
    "vega": _vega,
    "theta": _theta,
    "vanna": _vanna,
    "volga": lambda option: _or_limit(option, _vega(option) * option.d1 * option.d2 / option.iv),
    "rho": _rho,
    "charm": _charm,
    "speed": _speed,
    "d1": lambda option: option.d1,
    "d2": lambda option: option.d2,
}
