"""The deviation ``s = iv √T`` that a time value implies: a start within 1e-3, then steps of fifth order."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import special

from derivdata.analysis.black76.normalised import polynomial, shortfall_over_vega, value_over_vega, vega
from derivdata.support.arrays import Floats

_STEPS = 6
_HIGH = 0.7  # of the upper bound; above it the distance to the bound is inverted instead
_SETTLED = 2e-3  # a step this small, in units of 1/(1 + h² + t²), leaves a fifth-order error below 1 ulp

# Least-squares fits, only good enough to start from. Moneyness h of the normal (Bachelier) model from
# v = ln(1 + x/b), over v, for h to 38: 2e-5. The curvature factor 1 - h² + h³ M(h) for h to 40: 3e-4.
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
    bound = np.exp(-0.5 * x)
    high = value > _HIGH * bound
    s = _start(x, value)
    above = np.flatnonzero(high)
    if above.size:
        s[above] = _start_high(x[above], value[above], bound[above])
    converged = np.zeros(x.shape, dtype=bool)
    todo: slice | npt.NDArray[np.intp] = slice(None)
    for _ in range(_STEPS):
        step, settled = _step(x[todo], value[todo], bound[todo], s[todo], high[todo])
        s[todo] *= 1.0 + step
        converged[todo] = settled
        if settled.all():
            break
        todo = np.flatnonzero(~converged)
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
    """Return a start near the bound: exact at the money, and where b saturates; never below the inflection.

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
    """Relative step towards ``ln|b(s) - c| = ln|value - c|``, with c = 0, or the bound where `high`."""
    h, t = x / s, 0.5 * s
    distance = value_over_vega(h, t)
    target = value
    above = np.flatnonzero(high)
    if above.size:
        target = value.copy()
        target[above] = bound[above] - value[above]
        distance[above] = -shortfall_over_vega(h[above], t[above])
    slope = s / distance
    newton = np.log(target / (vega(h, t) * np.abs(distance))) / slope
    h2, t2 = h * h, t * t
    step = _fifth_order(newton, slope, h2, t2)
    return step, np.abs(step) * (1.0 + h2 + t2) < _SETTLED


def _fifth_order(newton: Floats, slope: Floats, h2: Floats, t2: Floats) -> Floats:
    """Householder's step from f''/f', f'''/f' and f''''/f' of ``f = ln|b(s) - c|``, all over s.

    ``b''/b' = (h² - t²)/s``, and ``f' = slope``; the rest follows by differentiation: `second` is
    ``s f''/f'`` and so on, each from the one before by ``d ln f'/ds``. With ``ν = -f/f'`` the step
    is ``ν (1 + ν (f₂ + ν f₃/6)) / (1 + ν (3/2 f₂ + ν (f₂²/4 + f₃/3 + ν f₄/24)))`` (Householder 1970). ln b is
    nearly linear in 1/s² for options far out of the money, which is why so high an order pays.
    """
    second = h2 - t2 - slope
    change = -3.0 * h2 - t2 - slope * second
    third = second * second + change
    fourth = second * (third + 2.0 * change) + 12.0 * h2 - slope * third
    upper = 1.0 + newton * (second + newton * third / 6.0)
    lower = 0.25 * second * second + third / 3.0 + newton * fourth / 24.0
    return newton * upper / (1.0 + newton * (1.5 * second + newton * lower))
