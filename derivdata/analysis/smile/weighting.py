"""Weights of quotes in a fit."""

from __future__ import annotations

from typing import Any, Literal, get_args

import numpy as np
import xarray as xr

__all__ = ["Weights", "quote_weights"]

Weights = Literal["equal", "vega", "price", "variance"]


def quote_weights(
    weights: str, log_moneyness: xr.DataArray, iv: xr.DataArray, year_fraction: xr.DataArray
) -> Any:
    """Return the weight of squared residuals of volatility under a named weighting.

    Vega over the forward and √T is ``φ(d1) = e^(−d1²/2)/√(2π)``; only ratios of weights count, so the
    constant goes. A residual of price is one of volatility times vega, a residual of total variance
    one of volatility times ``2 iv T``.

    Raises
    ------
    ValueError
        The weighting is not known.
    """
    if weights == "equal":
        return 1.0
    if weights == "variance":
        return 4.0 * (iv * year_fraction) ** 2
    if weights not in get_args(Weights):
        raise ValueError(
            f"weights={weights!r} is not one of {', '.join(get_args(Weights))}, or an array over the quotes"
        )
    deviation = (iv * year_fraction**0.5).where((iv > 0.0) & (year_fraction > 0.0))
    d1 = deviation / 2.0 - log_moneyness / deviation
    vega: Any = np.exp(-(d1**2) / 2.0)
    return vega if weights == "vega" else vega**2
