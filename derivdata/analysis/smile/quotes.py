"""The quotes of many slices as arrays: which count, how much, and between which strikes."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from derivdata.analysis.smile.parameters import Floats

__all__ = ["Scaling", "SmileQuotes", "prepare", "scaled_quotes"]


class SmileQuotes(NamedTuple):
    """Quotes of shape ``(slices, strikes)``; those that do not count have weight 0 and harmless values.

    `weight` multiplies squared residuals of total variance. `distinct` counts different strikes.
    """

    k: Floats
    iv: Floats
    w: Floats
    weight: Floats
    used: NDArray[np.bool_]
    t: Floats
    distinct: NDArray[np.int64]
    k_min: Floats
    k_max: Floats

    def rows(self, index: NDArray[np.int64] | NDArray[np.bool_]) -> SmileQuotes:
        """Return these slices only."""
        parts: list[Any] = [part[index] for part in self]
        return SmileQuotes(*parts)


class Scaling(NamedTuple):
    """``k = centre + half × scaled k`` and ``w = height × scaled w``."""

    centre: Floats
    half: Floats
    height: Floats


def prepare(k: Floats, iv: Floats, t: Floats, weight: Floats) -> SmileQuotes:
    """Return the quotes from bare arrays; NaN, non-positive volatility, weight or time drop a quote.

    Parameters
    ----------
    k, iv, weight
        ``(slices, strikes)``; the weight multiplies squared residuals of volatility.
    t
        ``(slices,)`` [years].
    """
    live = np.isfinite(t) & (t > 0.0)
    with np.errstate(invalid="ignore"):
        used = np.isfinite(k) & np.isfinite(iv) & (iv > 0.0) & (weight > 0.0) & np.isfinite(weight)
    used &= live[:, None]
    k, iv = np.where(used, k, 0.0), np.where(used, iv, 1.0)
    w = iv * iv * np.where(live, t, 1.0)[:, None]
    weight = np.where(used, weight / w, 0.0)
    low = np.where(used, k, np.inf).min(axis=1, initial=np.inf)
    high = np.where(used, k, -np.inf).max(axis=1, initial=-np.inf)
    empty = ~used.any(axis=1)
    low[empty], high[empty] = np.nan, np.nan
    return SmileQuotes(k, iv, w, weight, used, t, _distinct(k, used), low, high)


def scaled_quotes(quotes: SmileQuotes) -> tuple[SmileQuotes, Scaling]:
    """Return the quotes with k in [−1, 1], w and the weights of mean 1, and the way back."""
    half = (quotes.k_max - quotes.k_min) / 2.0
    centre = (quotes.k_max + quotes.k_min) / 2.0
    count = quotes.used.sum(axis=1)
    height = np.where(quotes.used, quotes.w, 0.0).sum(axis=1) / count
    k = np.where(quotes.used, (quotes.k - centre[:, None]) / half[:, None], 0.0)
    w = quotes.w / height[:, None]
    weight = quotes.weight * (count / quotes.weight.sum(axis=1))[:, None]
    return quotes._replace(k=k, w=w, weight=weight), Scaling(centre, half, height)


def _distinct(k: Floats, used: NDArray[np.bool_]) -> NDArray[np.int64]:
    ordered = np.sort(np.where(used, k, np.inf), axis=1)
    with np.errstate(invalid="ignore"):
        steps = (np.diff(ordered, axis=1) > 0.0).sum(axis=1)
    full = used.all(axis=1) & used.any(axis=1)
    return np.asarray(steps + full, dtype=np.int64)
