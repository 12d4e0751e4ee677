"""Risk-neutral density, distribution, quantiles and moments of ``ln(S/F)`` from a surface.

The distribution is risk-neutral, not a forecast. It follows from the fitted curve by derivatives in closed
form (Breeden and Litzenberger 1978), wings included, at any time to expiry. Two results test whether it is a
distribution: ``mass`` is the integral of the density, ``martingale`` its mean of ``S/F``. Both are 1 for a
surface without arbitrage.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr
from scipy.special import ndtri

from derivdata.analysis.labelling import (
    applied,
    bare,
    elementwise,
    in_chunks,
    origin_attrs,
    where,
    whole_surface,
    with_units,
)
from derivdata.analysis.status import Status
from derivdata.analysis.surface import evaluate
from derivdata.analysis.surface.maturity import (
    Clock,
    Extrapolation,
    Maturity,
    at_expiries,
    at_maturity,
    cut_variance,
)
from derivdata.analysis.surface.points import SCANNED, falling_root
from derivdata.support.arguments import Numbers, typed
from derivdata.support.arrays import Floats

__all__ = ["density", "moments", "quantile"]
__dir__ = __all__.copy

_SLICES = 1024
NODE = "quadrature_node"
# Integration panels in z with k = √w(0) sinh z: evenly spaced at the money, geometrically in the wings. A
# wing with a slope near Lee's bound of 2 becomes negligible only beyond a million deviations.
_FAR = 16.0
_PANELS = 160
# Additional panels around the vertex, where raw SVI may bend over a width far below √w(0).
_BEND = 5.0
_BEND_PANELS = 32
_POINTS, _WEIGHTS = np.polynomial.legendre.leggauss(5)
_TOLERANCE = 1e-6
_NEGATIVE = -1e-10
_STEPS = 12
_USELESS = 1e-3
# Smallest positive float, and a normal quantile above that of the largest float below 1.
_TINIEST, _CERTAIN = 5e-324, 9.0


@typed
def density(
    surface: xr.Dataset,
    log_moneyness: Numbers,
    year_fraction: Numbers | None = None,
    *,
    extrapolate: Extrapolation | None = None,
    clock: Clock | None = None,
) -> xr.Dataset:
    """Compute the risk-neutral density and distribution of ``ln(S/F)`` at expiry.

    Parameters
    ----------
    surface
        Result of `derivdata.analysis.surface.fit`, ``from_chain`` or ``from_essvi``, or of
        `derivdata.analysis.smile.fit` with dim ``expiry``.
    log_moneyness
        ``k = ln(K/F)``: a number, a 1-D array (dim ``log_moneyness``) or a DataArray.
    year_fraction
        Times to expiry [years] as in `derivdata.analysis.surface.iv`; None uses the expiries of the surface.
    extrapolate, clock
        As in `derivdata.analysis.surface.iv`; only with explicit times.

    Returns
    -------
    Dataset over the surface's dims (without ``expiry`` if times are given), those of the times and of k
        ``density`` [per unit of log-moneyness; divide it by K for a density per USD], and ``distribution``,
        the probability [1] that ``ln(S/F)`` ends at or below k. Without the dims of k: ``mass`` [1], the
        integral of the density over all k, and ``martingale`` [1], the mean of ``S/F``. Both are 1 for a
        valid density. ``status``: ``NOT_MARTINGALE`` if one of the two differs from 1 by more than 1e-6,
        ``BUTTERFLY`` if the density is negative somewhere, and the status of the slices. The fitted wings are
        used for k outside the quotes. NaN without a fit.

    Raises
    ------
    ValueError
        `surface` is not a fit; see also `derivdata.analysis.surface.iv`.

    Examples
    --------
    >>> surface = dd.analysis.surface.from_chain(dd.options.snapshot("BTC", "deribit"))
    >>> density = dd.analysis.risk_neutral.density(surface, 0.0, 30 / 365)
    >>> round(density["distribution"].item(), 3), round(density["mass"].item(), 6)
    (0.495, 1.0)
    """
    surface = whole_surface(surface)
    k = bare(log_moneyness, "log_moneyness")
    cut = _cut(surface, year_fraction, extrapolate, clock)
    sums = _summary(surface, year_fraction, extrapolate, clock)
    result = sums[["mass", "martingale", "status"]].assign(
        density=evaluate.density(cut, k), distribution=evaluate.distribution(cut, k)
    )
    return _labelled(result, surface, year_fraction)


@typed
def quantile(
    surface: xr.Dataset,
    probability: Numbers,
    year_fraction: Numbers | None = None,
    *,
    extrapolate: Extrapolation | None = None,
    clock: Clock | None = None,
) -> xr.Dataset:
    """Return quantiles of the log-moneyness at expiry.

    Parameters
    ----------
    surface, year_fraction, extrapolate, clock
        As in `density`.
    probability
        Probability of a lower price, between 0 and 1: a number, a 1-D array (dim ``probability``) or a
        DataArray.

    Returns
    -------
    Dataset with the dims of `density`, and those of `probability` in place of those of k
        ``log_moneyness``; ``price_usd``, the same in USD, at the expiries of a surface with ``forward``;
        ``mass``, ``martingale`` and ``status`` as in `density`. NaN where no k within 40 deviations has
        that probability.

    Raises
    ------
    ValueError
        A probability outside 0 to 1; as in `density`.
    """
    wanted = bare(probability, "probability")
    if not wanted.chunks and not bool(((wanted > 0.0) & (wanted < 1.0)).all()):
        raise ValueError("probability must be above 0 and below 1")
    surface = whole_surface(surface)
    k = elementwise(_places, *_cut(surface, year_fraction, extrapolate, clock).parameters, wanted)
    sums = _summary(surface, year_fraction, extrapolate, clock)
    result = sums[["mass", "martingale", "status"]].assign(log_moneyness=k)
    if year_fraction is None and "forward" in surface.coords:
        result["price_usd"] = surface["forward"].reset_coords(drop=True) * np.exp(k)
    return _labelled(result, surface, year_fraction)


@typed
def moments(
    surface: xr.Dataset,
    year_fraction: Numbers | None = None,
    *,
    extrapolate: Extrapolation | None = None,
    clock: Clock | None = None,
) -> xr.Dataset:
    """Compute mean, deviation, skewness and excess kurtosis of ``ln(S/F)`` at expiry.

    Parameters
    ----------
    surface, year_fraction, extrapolate, clock
        As in `density`.

    Returns
    -------
    Dataset over the dims of `density` without those of k
        ``mean``, ``standard_deviation`` (of the return to expiry, not per √year), ``skewness`` and
        ``excess_kurtosis`` [1]; ``quoted_share``, the part of the mean of ``ln(S/F)⁴`` between the lowest and
        the highest quote [1], which is small if most of the kurtosis comes from fitted wings; ``mass``,
        ``martingale`` and ``status`` as in `density`. Moments are NaN if ``mass`` or ``martingale`` differs
        from 1 by more than 1e-3, because then a part of the distribution is missing.

    Raises
    ------
    ValueError
        As in `density`.

    Notes
    -----
    ``−2 mean`` is the variance of `derivdata.analysis.variance.model_free`. Moments of short expiries depend
    on extrapolated wings: if a smile is quoted over two deviations only, its skewness is determined by the
    model.
    """
    surface = whole_surface(surface)
    sums = _summary(surface, year_fraction, extrapolate, clock)
    usable = (abs(sums["mass"] - 1.0) <= _USELESS) & (abs(sums["martingale"] - 1.0) <= _USELESS)
    m1, m2, m3, m4 = (sums[f"power_{n}"].where(usable) for n in (1, 2, 3, 4))
    # Compute central moments from moments about 0.
    variance = m2 - m1**2
    third = m3 - 3.0 * m1 * m2 + 2.0 * m1**3
    fourth = m4 - 4.0 * m1 * m3 + 6.0 * m1**2 * m2 - 3.0 * m1**4
    result = sums[["mass", "martingale", "status"]].assign(
        mean=m1,
        standard_deviation=variance**0.5,
        skewness=third / variance**1.5,
        excess_kurtosis=fourth / variance**2 - 3.0,
        quoted_share=sums["quoted"] / m4,
    )
    return _labelled(result, surface, year_fraction)


def _cut(surface: xr.Dataset, t: Any, extrapolate: Any, clock: Clock | None) -> Maturity:
    """Return the slices at times to expiry `t` [years], or at the expiries of the surface."""
    if t is not None:
        return at_maturity(surface, t, extrapolate=extrapolate, clock=clock)
    if extrapolate is not None:
        raise ValueError(
            "extrapolate= applies only to year_fraction=, which may be beyond the last expiry: pass both"
        )
    return at_expiries(surface)


def _summary(surface: xr.Dataset, t: Any, extrapolate: Any, clock: Clock | None) -> xr.Dataset:
    """Summarise every density, in chunks of a bounded number of slices."""

    def sums(block: xr.Dataset) -> xr.Dataset:
        return _summed(_cut(block, t, extrapolate, clock))

    # Chunks of the surface would not match times with its own labels.
    if isinstance(t, xr.DataArray) and set(t.dims) & set(surface.dims):
        return sums(surface)
    return in_chunks(sums, surface, most=_SLICES, whole=() if t is None else ("expiry",))


def _places(*parts: Floats) -> Floats:
    """Find the quantiles of the last dim of probabilities on a cut."""
    *cut, wanted = (np.asarray(values)[..., None] for values in parts)
    grid = np.sqrt(cut_variance(*cut, np.zeros(1))) * SCANNED
    target = ndtri(wanted)

    def excess(k: Floats) -> Floats:
        """Compare normal quantiles, which are nearly linear in k however small the probability."""
        reached = np.clip(evaluate.distribution_of(*cut, k), _TINIEST, 1.0)
        return np.asarray(target - np.minimum(ndtri(reached), _CERTAIN))

    return np.asarray(falling_root(excess, grid, _STEPS)[..., 0])


def _labelled(result: xr.Dataset, surface: xr.Dataset, t: Any) -> xr.Dataset:
    named = {"density": "1/log-moneyness", "price_usd": "USD", "log_moneyness": "log-moneyness"}
    units = dict.fromkeys(set(map(str, result.data_vars)) - {"status"}, "1") | named
    result = with_units(result.assign_attrs(origin_attrs(surface)), units)
    if t is not None:
        return result
    return result.assign_coords({name: surface.coords[name] for name in surface.coords})


def _summed(cut: Maturity) -> xr.Dataset:
    """Return ``mass``, ``martingale``, means of ``k`` to ``k⁴`` about 0, and ``status`` of a density.

    ``quoted`` is the part of the mean of ``k⁴`` within the quotes.
    """
    # 1. Place nodes on panels that are dense at the money, at the ends of the quotes and around each vertex.
    scale = cut.total_variance(xr.zeros_like(cut.k_min)) ** 0.5
    slices = (cut.before,) if cut.before is cut.after else (cut.before, cut.after)
    size = _POINTS.size * (_PANELS + 2 + len(slices) * (_BEND_PANELS + 1))
    k, weight = applied(
        _panels,
        scale,
        cut.k_min,
        cut.k_max,
        *(raw[name] for raw in slices for name in ("m", "sigma")),
        out=[[NODE]] * 2,
        types=[np.float64] * 2,
        sizes={NODE: size},
    )

    # 2. Integrate over the nodes.
    density = evaluate.density(cut, k)
    sums = {"mass": density, "martingale": evaluate.density(cut, k, weighted=True)}
    for power in (1, 2, 3, 4):
        sums[f"power_{power}"] = density * k**power
    sums["quoted"] = where((cut.k_min <= k) & (k <= cut.k_max), sums["power_4"], 0.0)
    has_fit = cut.share_before.notnull()
    result = xr.Dataset()
    for name, values in sums.items():
        result[name] = (values * weight).sum(NODE, skipna=True).where(has_fit)

    # 3. Flag results that are not distributions.
    is_off = (abs(result["mass"] - 1.0) > _TOLERANCE) | (abs(result["martingale"] - 1.0) > _TOLERANCE)
    negative = (density * scale).min(NODE) < _NEGATIVE
    status = cut.flags | where(is_off & has_fit, np.int32(Status.NOT_MARTINGALE), np.int32(0))
    status = status | where(negative, np.int32(Status.BUTTERFLY), np.int32(0))
    return result.assign(status=status.astype(np.int32))


def _panels(*places: Floats) -> tuple[Floats, Floats]:
    """Return Gauss-Legendre nodes and weights on panels between the edges of scale, quotes and vertices."""
    scale, low, high, *parameters = (np.asarray(values)[..., None] for values in np.broadcast_arrays(*places))
    with np.errstate(over="ignore", invalid="ignore"):
        edges = [scale * np.sinh(np.linspace(-_FAR, _FAR, _PANELS + 1))]
        edges += [np.clip(end, edges[0][..., :1], edges[0][..., -1:]) for end in (low, high)]
        for vertex, bend in zip(parameters[::2], parameters[1::2], strict=True):
            usable = np.isfinite(vertex) & (bend > 0.0)
            unit = np.where(usable, np.minimum(bend, scale), scale)
            middle = np.where(usable, vertex, 0.0)
            edges.append(middle + unit * np.sinh(np.linspace(-_BEND, _BEND, _BEND_PANELS + 1)))
        every = np.sort(np.concatenate(edges, axis=-1), axis=-1)
    start = every[..., :-1, None]
    half = np.diff(every)[..., None] / 2.0
    shape = (*half.shape[:-2], half.shape[-2] * _POINTS.size)
    return (start + half * (1.0 + _POINTS)).reshape(shape), (half * _WEIGHTS).reshape(shape)
