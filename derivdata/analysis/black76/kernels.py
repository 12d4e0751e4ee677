"""Price and implied volatility of one block of options, on ndarrays of one shape.

The side is a sign, +1 for a call and -1 for a put. A rate discounts what `price` gives and what
`implied_volatility` takes; ``inverse`` premiums are in coin, ``B/F``.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from derivdata.analysis.black76.inversion import deviation
from derivdata.analysis.black76.normalised import Floats, time_value
from derivdata.analysis.status import Status

__all__ = ["implied_volatility", "log_distance", "price", "priceable"]

# A price this close to intrinsic or to its upper bound, relative to it, holds nothing but rounding.
_ROUNDING = 4.0 * np.finfo(np.float64).eps


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
    x, s = log_distance(forward, strike), iv * np.sqrt(years)
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
) -> tuple[Floats, npt.NDArray[np.int32]]:
    """Return the volatility and status of each option; NaN wherever the status is not 0."""
    if rate.any():
        value = value * np.exp(rate * years)
    unit = forward if inverse else 1.0
    intrinsic = np.maximum(sign * (forward - strike), 0.0) / unit
    excess = value - intrinsic
    status = _status(excess, intrinsic, np.minimum(forward, strike) / unit, forward, strike, years)
    iv = np.full(value.shape, np.nan)
    at = slice(None) if not status.any() else np.flatnonzero(status == 0)
    f, k = forward[at], strike[at]
    scale = np.sqrt(f) / np.sqrt(k) if inverse else 1.0 / (np.sqrt(f) * np.sqrt(k))
    root = deviation(log_distance(f, k), excess[at] * scale)
    iv[at] = np.where(root.converged, root.s, np.nan) / np.sqrt(years[at])
    status[at] = np.where(root.converged, 0, np.int32(Status.NOT_CONVERGED))
    return iv, status


def _status(
    excess: Floats, intrinsic: Floats, bound: Floats, forward: Floats, strike: Floats, years: Floats
) -> npt.NDArray[np.int32]:
    """0 where a volatility is implied, else the first reason that holds."""
    noise, top = _ROUNDING * intrinsic, (1.0 - _ROUNDING) * bound
    good = (excess > noise) & (excess < top) & (years > 0) & (bound > 0) & (forward + strike < np.inf)
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
