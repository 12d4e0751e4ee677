"""Densities and local volatility of a surface cut at any time, in closed form.

A cut is one smile, whose total variance is linear in time, but where prices are mixed: mixed at equal
moneyness (lemma 5.1 of Gatheral and Jacquier 2014) they are those of a mixture of two distributions. With
``c(x) = C/F`` at ``x = K/F`` the density of ``S/F`` is ``c''(x)``, which is linear in c.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import xarray as xr
from scipy.special import ndtr

from derivdata.analysis.black76 import formulas
from derivdata.analysis.labelling import bare, elementwise, origin_attrs, where, with_units
from derivdata.analysis.smile.svi import density_factor, total_variance
from derivdata.analysis.status import Status
from derivdata.analysis.surface.clock import Clock
from derivdata.analysis.surface.maturity import Extrapolation, Maturity, at_maturity, slices_of_pair
from derivdata.support.arguments import Numbers, typed
from derivdata.support.arrays import Floats

_JUST_BEFORE = 1.0 - 1e-9
"""An expiry itself has two slopes in time: that of the interval which ends there counts."""
_ROOT_TAU = np.sqrt(2.0 * np.pi)


def density(cut: Maturity, k: xr.DataArray, *, weighted: bool = False) -> xr.DataArray:
    """Return the density of ``ln(S/F)`` at `k`; times ``e^k``, which cannot overflow, if `weighted`."""

    def kernel(k: Floats, w: Floats, dw: Floats, d2w: Floats) -> Floats:
        """``p(k) = g(k) φ(d₂)/√w``, and ``e^k φ(d₂) = φ(d₁)``."""
        return np.asarray(density_factor(k, w, dw, d2w) * _vega(k, w, 1.0 if weighted else -1.0))

    return elementwise(lambda *parts: _mixed(kernel, *parts), *cut.parameters, k)


def distribution(cut: Maturity, k: xr.DataArray) -> xr.DataArray:
    """Return the probability that ``ln(S/F)`` is at most `k`."""
    return elementwise(distribution_of, *cut.parameters, k)


def distribution_of(*parts: Floats) -> Floats:
    """Return the distribution from `Maturity.parameters` and k."""
    return _mixed(_distribution, *parts)


def _mixed(
    kernel: Callable[..., Floats],
    share_before: Floats,
    share_after: Floats,
    price_share: Floats,
    *parts: Floats,
) -> Floats:
    """Return the kernel of the smile at a time, or the mean of those of two smiles where prices are mixed."""
    *raws, k = parts
    first, second = (
        [total_variance(k, own, derivative=order) for order in (0, 1, 2)] for own in slices_of_pair(raws)
    )
    alone = kernel(
        k, *(share_before * one + share_after * two for one, two in zip(first, second, strict=True))
    )
    if not np.isfinite(price_share).any():
        return alone
    mean = price_share * kernel(k, *first) + (1.0 - price_share) * kernel(k, *second)
    return np.where(np.isfinite(price_share), mean, alone)


def _distribution(k: Floats, w: Floats, dw: Floats, d2w: Floats) -> Floats:
    """``∂P/∂K = N(−d₂) + φ(d₂) ∂√w/∂k``: the slope of the undiscounted put in its strike."""
    root = np.sqrt(np.where(w > 0.0, w, np.nan))
    d2 = -k / root - root / 2.0
    return np.asarray(ndtr(-d2) + np.exp(-0.5 * d2 * d2) / _ROOT_TAU * dw / (2.0 * root))


def _vega(k: Floats, w: Floats, side: float = 1.0) -> Floats:
    """``φ(d₁)/√w``, twice the derivative of the call over the forward in total variance; of d₂ with −1."""
    root = np.sqrt(np.where(w > 0.0, w, np.nan))
    return np.asarray(np.exp(-0.5 * (-k / root + side * root / 2.0) ** 2) / (_ROOT_TAU * root))


@typed
def local_volatility(
    surface: xr.Dataset,
    log_moneyness: Numbers,
    year_fraction: Numbers,
    *,
    extrapolate: Extrapolation | None = None,
    clock: Clock | None = None,
) -> xr.Dataset:
    """Compute the local volatility at which a diffusion has the prices of a surface.

    Parameters
    ----------
    surface, log_moneyness, year_fraction, extrapolate, clock
        As in `iv`; k outside the quotes counts on the fitted wings. Events of a clock are jumps, which have
        no local variance.

    Returns
    -------
    Dataset over the surface's dims without ``expiry``, then those of T and of k
        ``local_variance`` [1/year] and ``local_vol``, its root [1/√year], NaN where it is not positive;
        ``status`` says why: ``CALENDAR`` where prices fall with time, ``BUTTERFLY`` where the density is
        not positive, ``EXTRAPOLATED`` outside the quotes, and where price and density are both below
        1e-290 (NaN), ``SHORT_EXTRAPOLATION`` and the rest as in `iv`.

    Raises
    ------
    ValueError
        What `total_variance` raises.

    Notes
    -----
    ``σ² = 2 ∂c/∂T / (x² ∂²c/∂x²)`` with the undiscounted call ``c`` over the forward at ``x = K/F(T)``
    (Dupire 1994); for one smile that is ``∂w/∂T / g(k)`` (Gatheral 2006, equation 1.10). At an expiry the
    slope in time is that of the interval before it: piecewise interpolation makes local variance jump there.

    Examples
    --------
    A term structure without smiles has the forward volatility as its local one:

    >>> flat = dd.analysis.surface.from_essvi([0.02, 0.05], [0.0, 0.0], [0.0, 0.0], [0.1, 0.2])
    >>> round(dd.analysis.surface.local_volatility(flat, 0.3, 0.15)["local_vol"].item(), 6)
    0.547723
    """
    t = bare(year_fraction, "maturity", "year_fraction")
    cut = at_maturity(surface, t * _JUST_BEFORE, extrapolate=extrapolate, clock=clock)
    k = bare(log_moneyness, "log_moneyness")
    weighted = density(cut, k, weighted=True)
    twice_slope = elementwise(_slope_in_time, cut.slope, *cut.parameters, k)
    variance = twice_slope / weighted
    positive = (twice_slope > 0.0) & (weighted > 0.0)
    vanished = (abs(twice_slope) < 1e-290) | (abs(weighted) < 1e-290)
    local = variance.where(positive & ~vanished)
    bits = [
        ((twice_slope <= 0.0) & ~vanished, Status.CALENDAR),
        ((weighted <= 0.0) & ~vanished, Status.BUTTERFLY),
        (vanished | (k < cut.k_min) | (k > cut.k_max), Status.EXTRAPOLATED),
    ]
    status = cut.flags
    for here, bit in bits:
        status = status | where(here & cut.share_before.notnull(), np.int32(bit), np.int32(0))
    result = xr.Dataset(
        {"local_variance": local, "local_vol": local**0.5, "status": status.astype(np.int32)}
    ).reset_coords(drop=True)
    if "maturity" in t.coords:
        result = result.assign_coords(maturity=t["maturity"])
    result = result.transpose(*weighted.dims)
    result = result.assign_attrs(origin_attrs(surface))
    return with_units(result, {"local_variance": "1/year", "local_vol": "1/√year"})


def _slope_in_time(
    slope: Floats, share_before: Floats, share_after: Floats, price_share: Floats, *parts: Floats
) -> Floats:
    """Return ``2 ∂c/∂T`` at fixed k.

    Of one smile ``∂c/∂w = φ(d₁)/(2√w)``; of mixed prices ``c = α c₁ + (1 − α) c₂`` it is ``α' (c₁ − c₂)``.
    """
    *raws, k = parts
    first, second = slices_of_pair(raws)
    w1 = total_variance(k, first)
    w2 = total_variance(k, second)
    both = share_after > 0.0
    change = np.where(both, slope * (w2 - w1), slope * w1)
    alone = np.asarray(_vega(k, share_before * w1 + share_after * w2) * change)
    if not np.isfinite(price_share).any():
        return alone
    level1 = total_variance(0.0, first)
    level2 = total_variance(0.0, second)
    middle = share_before * level1 + share_after * level2
    rate = -slope * (level2 - level1) / (2.0 * np.sqrt(middle)) / (np.sqrt(level2) - np.sqrt(level1))
    side = np.where(k > 0.0, "call", "put")
    prices = [formulas.price(1.0, np.exp(k), 1.0, np.sqrt(w), side) for w in (w1, w2)]
    return np.where(np.isfinite(price_share), 2.0 * rate * (prices[0] - prices[1]), alone)
