"""Venue formulas for checking one venue's rate by hand.

The premium is how far the perpetual trades above its index, as a fraction. All rates here are decimal
fractions per 8 hours; `derivdata.units` converts.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from derivdata.analysis.inputs import together
from derivdata.support.arguments import Numbers, typed
from derivdata.units import REFERENCE_HOURS

__all__ = ["deribit_rate", "hyperliquid_rate", "payment"]


@typed
def hyperliquid_rate(premium: Numbers, *, interest: float = 0.0001, clamp: float = 0.0005) -> Any:
    """Return Hyperliquid's rate per 8 hours [fraction]: ``P + clamp(interest − P, ±clamp)``.

    One eighth of it is paid every hour on the notional at the oracle price. NaN stays NaN.

    Notes
    -----
    Hyperliquid documentation, "Funding".
    """
    return premium + np.clip(interest - premium, -clamp, clamp)


@typed
def deribit_rate(premium: Numbers, *, damper: float = 0.00025) -> Any:
    """Deribit's rate per 8 hours [fraction]: ``max(d, P) + min(−d, P)``, 0 while the premium is within d.

    It accrues continuously. The damper was 0.0005 in older documents. NaN stays NaN.

    Notes
    -----
    Deribit support, "Funding specifications".
    """
    return np.maximum(damper, premium) + np.minimum(-damper, premium)


@typed
def payment(rate_per_8h: Numbers, notional: Numbers, hours: Numbers) -> Any:
    """Return what a long pays over `hours` at a rate per 8 hours [fraction], in the unit of `notional`.

    A short receives it. NaN stays NaN.

    Examples
    --------
    >>> dd.analysis.funding.payment(0.0001, 10_000.0, 8.0)
    1.0
    """
    rate, notional, hours = together(rate_per_8h=rate_per_8h, notional=notional, hours=hours)
    return rate * notional * (hours / REFERENCE_HOURS)
