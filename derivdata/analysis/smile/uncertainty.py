"""How well a fit meets its quotes: one-sided misses of a slice, and the covariance of its parameters."""

from __future__ import annotations

import numpy as np
import xarray as xr

from derivdata.analysis.labelling import applied
from derivdata.analysis.smile.quotes import LabelledQuotes
from derivdata.analysis.smile.svi import Raw, total_variance
from derivdata.support.arrays import Bools, Floats

_DIMS = ("parameter", "other_parameter")
_DETERMINED = 1e-10  # eigenvalue of the scaled Gram matrix below which a direction is not determined


def with_covariance(fit: xr.Dataset, quotes: LabelledQuotes, dim: str, free: tuple[str, ...]) -> xr.Dataset:
    """Return a fit with the covariance of its raw parameters, of which `free` were fitted."""
    size = len(Raw._fields)
    parameters = [fit[name].reset_coords(drop=True) for name in dict.fromkeys((*Raw._fields, *free))]
    found = applied(
        _covariance,
        *(quotes.k, quotes.iv, quotes.weight, quotes.t),
        *parameters,
        core=[[dim]] * 3 + [[]] * (1 + len(parameters)),
        out=[_DIMS],
        sizes=dict.fromkeys(_DIMS, size),
    )
    return fit.assign(covariance=found.reset_coords(drop=True))


def _covariance(k: Floats, iv: Floats, weight: Floats, t: Floats, *parameters: Floats) -> Floats:
    """Return the sandwich of Huber and White, which allows for unequal errors, of arrays ``(…, strikes)``."""
    raw = Raw(*(np.asarray(part)[..., None] for part in parameters[:5]))
    used = np.isfinite(k) & (iv > 0.0) & (weight > 0.0) & np.isfinite(weight)
    with np.errstate(all="ignore"):
        w = total_variance(k, raw)
        x = k - raw.m
        radius = np.sqrt(x * x + raw.sigma**2)
        slopes = (1.0 + 0.0 * x, raw.rho * x + radius, raw.b * x, -raw.b * (raw.rho + x / radius),
                  raw.b * raw.sigma / radius)  # fmt: skip
        root = 2.0 * np.sqrt(w * np.asarray(t)[..., None])
        jacobian = np.stack([np.where(used, each / root, 0.0) for each in np.broadcast_arrays(*slopes)], -2)
        error = np.where(used, np.sqrt(w / np.asarray(t)[..., None]) - iv, 0.0)
    into = _from_natural(*parameters) if len(parameters) > 5 else np.eye(5)
    jacobian = np.swapaxes(into, -1, -2) @ jacobian
    count = used.sum(axis=-1)
    free = jacobian.shape[-2]
    weighted = jacobian * np.where(used, weight, 0.0)[..., None, :]
    gram = weighted @ jacobian.swapaxes(-1, -2)
    spread = (weighted * error[..., None, :] ** 2) @ weighted.swapaxes(-1, -2)
    good = (count > free) & np.isfinite(gram).all(axis=(-1, -2))
    gram = np.where(good[..., None, None], gram, np.eye(free))
    size = np.sqrt(np.maximum(np.einsum("...ii->...i", gram), 1e-300))
    scale = size[..., :, None] * size[..., None, :]
    inverse = np.linalg.pinv(gram / scale, rcond=_DETERMINED, hermitian=True) / scale
    factor = np.where(good, count / np.maximum(count - free, 1), np.nan)[..., None, None]
    return np.asarray(into @ (inverse @ spread @ inverse * factor) @ np.swapaxes(into, -1, -2))


def _from_natural(*parameters: Floats) -> Floats:
    """Return the derivatives of raw parameters by θ, ρ and ψ, after which θ and ψ come: ``(…, 5, 3)``."""
    a, _, rho, _, _, theta, psi = np.broadcast_arrays(*parameters)
    with np.errstate(all="ignore"):
        flat = np.sqrt(1.0 - rho**2)
        width = theta / psi
        zero = 0.0 * a
        one = 1.0 + 0.0 * a
        columns = [
            [(1.0 - rho**2) / 2.0, zero, zero, -rho / psi, flat / psi],
            [-theta * rho, zero, one, -width, -width * rho / flat],
            [zero, one / 2.0, zero, rho * width / psi, -flat * width / psi],
        ]
    return np.moveaxis(np.array(columns), (0, 1), (-1, -2))


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
