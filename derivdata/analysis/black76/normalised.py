"""Black's formula in its own units.

An option out of the money is worth ``√(FK) · b(x, s)`` undiscounted, call or put alike, with
``x = |ln(F/K)|`` and ``s = iv √T``. With ``h = x/s``, ``t = s/2`` and Mills' ratio ``M(z) = N(-z)/φ(z)``

    b = φ(h) e^(-t²/2) · [M(h - t) - M(h + t)]        b'(s) = φ(h) e^(-t²/2)

so the bracket is ``b/b'``, and no difference of two large probabilities is ever taken. Arguments are
finite, ``x ≥ 0``, ``s > 0``; relative error of `time_value` against 60 digits: under 2e-13 (h ≤ 35).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
from scipy import special

from derivdata.support.arrays import Floats

_SQRT_TAU = np.sqrt(2.0 * np.pi)
_SERIES_BELOW = 0.21  # t
_MILLS_BELOW = 10.0  # h + t
_COMPLEMENT_ABOVE = 0.7  # t - h: there the bound less the shortfall has more digits than b
_UNDERFLOW_H, _SATURATED_S = 40.0, 60.0  # beyond: b is 0; b is its limit e^(-x/2)

# Rational least-squares fit of Mills' ratio on [0, 10], made in 60 digits: relative error 2.6e-17.
# All coefficients are positive, so Horner's rule loses nothing.
_MILLS = (
    (1.253314137315500282, 1.678924594026427093, 1.119750527810669147, 0.4689877276094443008,
     0.1331746554838814148, 0.02611183103219684187, 0.003451243209755607056, 0.0002822913923507909628,
     0.00001104613022852752529),
    (1.0, 2.137472573128775206, 2.098888023329849558, 1.246093649439903233, 0.4945383291036151304,
     0.1366035816615909272, 0.02639413387349398779, 0.003462288924224349211, 0.0002822914019174340959,
     0.00001104613012398077765),
)  # fmt: skip


def polynomial(coefficients: Sequence[float], x: Floats) -> Floats:
    """Polynomial with coefficients in rising order, by Horner's rule."""
    value: Floats = coefficients[-1] * x
    for each in coefficients[-2:0:-1]:
        value += each
        value *= x
    value += coefficients[0]
    return value


def mills(z: Floats) -> Floats:
    """Mills' ratio ``N(-z)/φ(z)`` of any real z; overflows below -37."""
    ratio: Floats = np.sqrt(np.pi / 2) * special.erfcx(z / np.sqrt(2.0))
    return ratio


def vega(h: Floats, t: Floats) -> Floats:
    """``b'(s)``."""
    slope: Floats = np.exp(-0.5 * (h * h + t * t)) / _SQRT_TAU
    return slope


def time_value(x: Floats, s: Floats) -> Floats:
    """``b(x, s)``, the value of an out-of-the-money option over √(FK)."""
    s = np.minimum(s, _SATURATED_S)
    h, t = np.minimum(x / s, _UNDERFLOW_H), 0.5 * s
    slope = vega(h, t)
    value = slope * value_over_vega(h, t)
    high = np.flatnonzero(t - h > _COMPLEMENT_ABOVE)
    if high.size:
        value[high] = np.exp(-0.5 * x[high]) - slope[high] * shortfall_over_vega(h[high], t[high])
    return value


def shortfall_over_vega(h: Floats, t: Floats) -> Floats:
    """``(e^(-x/2) - b)/b' = M(t - h) + M(t + h)``: how far the value is below its upper bound."""
    return mills(t - h) + mills(t + h)


def value_over_vega(h: Floats, t: Floats) -> Floats:
    """``b/b' = M(h - t) - M(h + t)``, each region by the form that keeps its digits.

    For small t the two Mills' ratios are nearly equal, and their difference would lose all digits: there it
    is summed as a series in t, in powers of h up to h = 10, in 1/h beyond. For t ≥ 0.21 the difference is
    safe, by the rational fit up to a sum of 10, by erfcx beyond. The region is ``2 · (t wide) + (h deep)``,
    the index into the four forms; moving a limit means checking both neighbours against 60 digits
    (``tests/data``, black76_reference_mp60).
    """
    wide = t >= _SERIES_BELOW
    deep = h + np.where(wide, t, 0.0) > _MILLS_BELOW
    forms = (_series, _asymptotic, _near, lambda h, t: mills(h - t) - mills(h + t))
    return _by_region(2 * wide.astype(np.int8) + deep, forms, h, t)


def _by_region(
    region: npt.NDArray[np.int8], forms: Sequence[Callable[[Floats, Floats], Floats]], h: Floats, t: Floats
) -> Floats:
    if region.size == 0:
        return np.empty_like(h)
    first, last = int(np.min(region)), int(np.max(region))
    if first == last:
        return forms[first](h, t)
    value = np.empty_like(h)
    for each in range(first, last + 1):
        here = np.flatnonzero(region == each)
        if here.size:
            value[here] = forms[each](h[here], t[here])
    return value


def _series(h: Floats, t: Floats) -> Floats:
    """Taylor series in t to t¹³: ``M⁽ⁿ⁺²⁾ = (h² + 2n + 1) M⁽ⁿ⁾ - n(n-1) M⁽ⁿ⁻²⁾`` for its odd terms."""
    h2, t2 = h * h, t * t
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
    """``Σ (-1)ⁿ (2n-1)!! [(h-t)⁻²ⁿ⁻¹ - (h+t)⁻²ⁿ⁻¹]``, the differences by a recurrence of positive terms."""
    p, q = 1.0 / (h - t), 1.0 / (h + t)
    p2, q2 = p * p, q * q
    difference = 2.0 * t * p * q
    odd = difference * (p + q) * q
    value, factor = difference.copy(), 1.0
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
