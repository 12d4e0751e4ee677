"""Whether a fit follows the quotes of its own slice, apart from their noise."""

from __future__ import annotations

import numpy as np

from derivdata.support.arrays import Bools, Floats

_POINT = 0.01  # of volatility
_RELATIVE = 0.02
_SYSTEMATIC = 0.4  # share of the mean squared error


def off_quotes(model: Floats, k: Floats, iv: Floats, t: Floats, bid: Floats, ask: Floats) -> Bools:
    """Tell which slices miss their quotes by more than a volatility point, and 2 %, in one direction.

    The error of each quote is its distance to the model, or that outside bid and ask, weighted by vega.
    Noise changes its sign from strike to strike, so that products of the errors of neighbouring strikes have
    a mean near 0. A slice that other expiries hold away from its quotes, or whose form cannot follow them,
    has errors of one sign over many strikes: the mean of the products is most of the mean square, and its
    root the size of the error.
    """
    order = np.argsort(np.where(np.isfinite(iv), k, np.inf), axis=-1, kind="stable")
    model, k, iv, bid, ask = (np.take_along_axis(part, order, -1) for part in (model, k, iv, bid, ask))
    with np.errstate(invalid="ignore", divide="ignore"):
        sided = (np.isfinite(bid) | np.isfinite(ask)) & ~(bid > ask)
        low = np.where(sided, np.where(np.isfinite(bid), bid, 0.0), iv)
        high = np.where(sided, np.where(np.isfinite(ask), ask, np.inf), iv)
        error = model - np.clip(model, low, high)
        deviation = iv * np.sqrt(t)[..., None]
        d1 = deviation / 2.0 - k / deviation
        vega = np.exp(-d1 * d1 / 2.0)
        used = np.isfinite(error) & np.isfinite(vega)
        error = np.where(used, error, 0.0)
        vega = np.where(used, vega, 0.0)
        pair = np.minimum(vega[..., 1:], vega[..., :-1])
        together = (pair * error[..., 1:] * error[..., :-1]).sum(axis=-1) / pair.sum(axis=-1)
        square = (vega * error * error).sum(axis=-1) / vega.sum(axis=-1)
        level = (vega * np.where(used, iv, 0.0)).sum(axis=-1) / vega.sum(axis=-1)
        limit = np.maximum(_POINT, _RELATIVE * level)
        return np.asarray((together > limit * limit) & (together > _SYSTEMATIC * square))
