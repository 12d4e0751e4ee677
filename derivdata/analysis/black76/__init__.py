"""Black-76: price, greeks and implied volatility of European options on a forward.

All functions are elementwise and broadcast: floats, ndarrays and pandas columns give ndarrays, a DataArray
among the inputs gives DataArrays with its order of dims, and dask stays lazy. Conventions:

- `forward` and `strike` in one currency (USD); `year_fraction` in years (ACT/365); `iv` [1/√year], decimal.
- `side` is ``"call"`` or ``"put"``.
- `premium` is the unit of a price: ``"linear"`` in the currency of the strike, ``"inverse"`` in coin, the
  linear value over the forward (the payoff of coin-settled options, ``(S - K)⁺/S``).
- `interest_rate` is the continuous discount rate of the premium, 0 unless given: ``D = e^(-rate·T)``.

Results that cannot be computed are NaN, never 0; `implied_vol` returns the reason.

References
----------
Black (1976), The pricing of commodity contracts. The branches of the price follow Jäckel (2015), Let's be
rational, in the choice of regions; series, fits and the inversion are our own.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple, get_args

import numpy as np

from derivdata.analysis.black76 import formulas, kernels
from derivdata.analysis.black76.formulas import Premium, apply
from derivdata.analysis.black76.kernels import DeltaKind, Greek
from derivdata.analysis.panels import require_decimal_volatility
from derivdata.analysis.status import flag_attrs
from derivdata.support.arguments import Numbers, typed
from derivdata.support.arrays import epsilon_of

__all__ = ["greeks", "implied_vol", "price"]
__dir__ = __all__.copy


class ImpliedVol(NamedTuple):
    """Implied volatility and its status, as arrays of the input's type.

    ``iv`` [1/√year] is NaN wherever ``status`` (int32, sum of `derivdata.analysis.status.Status` bits) is
    not 0.
    """

    iv: Any
    status: Any


@typed
def price(
    forward: Numbers,
    strike: Numbers,
    year_fraction: Numbers,
    iv: Numbers,
    side: Any,
    *,
    interest_rate: Numbers = 0.0,
    premium: Premium = "linear",
) -> Any:
    """Return the value of each option, with a relative error below 1e-12.

    Parameters
    ----------
    forward, strike
        Forward and strike [USD].
    year_fraction
        Time to expiry [years]. At 0, as with `iv` 0, the value is intrinsic.
    iv
        Volatility [1/√year].
    side
        ``"call"`` or ``"put"``.
    interest_rate
        Continuous discount rate [1/year].
    premium
        ``"linear"`` (in the strike's currency) or ``"inverse"`` (in coin).

    Returns
    -------
    scalar, array or DataArray, as the inputs
        NaN where an input is missing, negative or not finite, or the forward is 0. Values below 1e-308
        are 0.

    Raises
    ------
    ValueError
        An unknown `premium` or side; labels that differ; volatilities that look like percent (their median is
        above 15; lazy input is not checked).

    Examples
    --------
    >>> round(dd.analysis.black76.price(100.0, 100.0, 1.0, 0.2, "call").item(), 4)
    7.9656
    """
    require_decimal_volatility(iv)
    return formulas.price(
        forward, strike, year_fraction, iv, side, interest_rate=interest_rate, premium=premium
    )


@typed
def greeks(
    forward: Numbers,
    strike: Numbers,
    year_fraction: Numbers,
    iv: Numbers,
    side: Any,
    *,
    which: Sequence[Greek] = ("delta", "gamma", "vega", "theta", "vanna", "volga"),
    delta: DeltaKind = "forward",
    interest_rate: Numbers = 0.0,
    premium: Premium = "linear",
) -> Any:
    """Compute the greeks of each option as plain derivatives: vega per 1.00 of volatility, theta per year.

    Parameters
    ----------
    forward, strike, year_fraction, iv, side, interest_rate, premium
        As in `price`.
    which
        Any of ``delta``; ``gamma`` (per squared unit of forward); ``vega`` (per 1.00 of volatility);
        ``theta`` (per year that passes, at a fixed forward); ``vanna`` (per unit of forward and 1.00 of
        volatility); ``volga`` (per squared volatility); ``rho`` (per 1.00 of the rate, at a fixed spot, so
        the forward moves with the rate); ``charm`` (per unit of forward and year that passes, at a fixed
        forward); ``speed`` (per cubed unit of forward); ``d1``, ``d2``. All but delta, d1 and d2 are
        derivatives of the discounted premium, in its currency.
    delta
        ``"forward"``: ``±N(±d1)``, in forwards, undiscounted. ``"pa"``: premium-adjusted,
        ``±(K/F) N(±d2)``, the forward delta less the premium in coin (Deribit's net transaction delta).
        ``"spot"``: the forward delta discounted, ``D·(±N(±d1))``; the same where `interest_rate` is 0.

    Returns
    -------
    Dataset, or dict of arrays
        One variable per greek; a dict if no input is a DataArray. NaN where the price is NaN. Without time
        value (`year_fraction` or `iv` 0) delta is the delta of the payoff, the others are those of the
        intrinsic value, and all are NaN at ``F = K``.

    Raises
    ------
    ValueError
        `which` is empty or has an unknown greek; an unknown delta convention, premium or side; labels that
        differ; volatilities that look like percent, as in `price`.
    """
    if len(which) == 0:
        raise ValueError(f"which must name at least one of {', '.join(get_args(Greek))}")
    require_decimal_volatility(iv)
    return formulas.greeks(
        forward, strike, year_fraction, iv, side,
        which=which, delta=delta, interest_rate=interest_rate, premium=premium,
    )  # fmt: skip


@typed
def implied_vol(
    price: Numbers,
    forward: Numbers,
    strike: Numbers,
    year_fraction: Numbers,
    side: Any,
    *,
    interest_rate: Numbers = 0.0,
    premium: Premium = "linear",
) -> ImpliedVol:
    """Compute the implied volatility of each option from its price.

    The relative error is at most ``64 ε (1 + κ)`` with ``κ = value / (iv · vega)`` of the time value, the
    limit that follows from the rounding of the price.

    Parameters
    ----------
    price
        Premium [USD or coin, by `premium`].
    forward, strike, year_fraction, side, interest_rate, premium
        As in the function `price`.

    Returns
    -------
    ImpliedVol
        ``iv`` and ``status``. Bits: ``EXPIRED`` (no time left), ``BAD_INPUT`` (missing or not positive),
        ``BELOW_INTRINSIC``, ``ZERO_TIME_VALUE`` (intrinsic up to the rounding of the inputs' types: 4 steps
        of float32 or float64), ``UPPER_BOUND`` (a call at its forward, a put at its strike, or above),
        ``NOT_CONVERGED`` (values below 1e-300 only).

    Raises
    ------
    ValueError
        An unknown `premium` or side; labels that differ.

    Examples
    --------
    >>> dd.analysis.black76.implied_vol(7.965567455405798, 100.0, 100.0, 1.0, "call").iv.round(12).item()
    0.2
    """
    # The rounding of forwards and strikes in float32 also applies to the intrinsic value.
    coarse = epsilon_of(forward, strike)
    if coarse <= np.finfo(np.float64).eps:
        coarse = 0.0
    precision = (epsilon_of(price), coarse)
    kernel = partial(kernels.implied_volatility, inverse=premium == "inverse", precision=precision)
    names = ("price", "forward", "strike", "year_fraction")
    arrays = formulas.fitting(price, forward, strike, year_fraction, side, interest_rate, names=names)
    iv, status = apply(kernel, arrays, [np.float64, np.int32])
    return ImpliedVol(
        formulas.named(iv, "iv", units="1/√year"), formulas.named(status, "status", **flag_attrs())
    )
