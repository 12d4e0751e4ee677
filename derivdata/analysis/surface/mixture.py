"""A surface cut at any time, as a mixture of smiles: what densities and local variance are made of.

A cut is one smile, whose total variance is linear in time, but where prices are mixed: mixed at equal
moneyness (lemma 5.1 of Gatheral and Jacquier 2014) they are those of a mixture of distributions. With
``c(x) = C/F`` at ``x = K/F`` the density of ``S/F`` is ``c''(x)``, which is linear in c. Such a cut has two
smiles with shares that sum to 1.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import xarray as xr
from scipy.special import ndtr

from derivdata.analysis import smile
from derivdata.analysis.labelling import require_surface
from derivdata.analysis.smile.svi import density_factor
from derivdata.analysis.surface.maturity import Maturity
from derivdata.support.arrays import Floats

_ROOT_TAU = np.sqrt(2.0 * np.pi)


class Part(NamedTuple):
    """One smile of a mixture: its share of probability, and total variance or a derivative of it at k."""

    share: xr.DataArray
    total_variance: Callable[[xr.DataArray, int], xr.DataArray]
    vertex: xr.DataArray
    bend: xr.DataArray
    """Place and width [log-moneyness] of the bend of raw SVI: `m` and `sigma`."""

    def jet(self, k: xr.DataArray) -> list[xr.DataArray]:
        """Return total variance and its first two derivatives."""
        return [self.total_variance(k, order) for order in (0, 1, 2)]


class Mixture(NamedTuple):
    """Smiles of one underlying at the same times, the range of their quotes, and their status."""

    parts: tuple[Part, ...]
    k_min: xr.DataArray
    k_max: xr.DataArray
    status: xr.DataArray
    year_fraction: xr.DataArray

    def density(self, k: xr.DataArray, *, weighted: bool = False) -> xr.DataArray:
        """Return the density of ``ln(S/F)`` at `k`; times ``e^k``, which cannot overflow, if `weighted`."""
        return self._sum(lambda k, *jet: _density(k, *jet, weighted=weighted), k)

    def distribution(self, k: xr.DataArray) -> xr.DataArray:
        """Return the probability that ``ln(S/F)`` is at most `k`."""
        return self._sum(_distribution, k)

    def _sum(self, kernel: Callable[..., Floats], k: xr.DataArray) -> xr.DataArray:
        total = sum(part.share * _elementwise(kernel, k, *part.jet(k)) for part in self.parts)
        assert isinstance(total, xr.DataArray)
        return total


def mixture_at_expiries(surface: xr.Dataset) -> Mixture:
    """Return the smiles of a surface at its own expiries."""
    require_surface(surface)
    bare = surface.reset_coords(drop=True)
    one = xr.ones_like(surface["a"].reset_coords(drop=True)).where(surface["method"] > 0)
    return Mixture(
        (_part(one, bare.assign_coords(year_fraction=surface["year_fraction"])),),
        bare["k_min"],
        bare["k_max"],
        bare["status"],
        surface["year_fraction"].reset_coords(drop=True),
    )


def mixture_of(cut: Maturity) -> Mixture:
    """Return the smiles of a cut."""
    status = (cut.status | cut.before["status"] | cut.after["status"]).astype(np.int32)
    one = xr.ones_like(cut.share_before).where(cut.share_before.notnull())
    mixed = cut.price_share.notnull()
    parts: tuple[Part, ...] = (_blended(cut.price_share.where(mixed, one), cut, mixed),)
    if cut.mixes:
        # Where nothing is mixed the first part is the blend of both, and the second has no share.
        parts = (*parts, _part((1.0 - cut.price_share).where(mixed, 0.0 * one), cut.after))
    return Mixture(parts, cut.k_min, cut.k_max, status, cut.year_fraction)


def _part(share: xr.DataArray, fit: xr.Dataset) -> Part:
    def total_variance(k: xr.DataArray, order: int) -> xr.DataArray:
        return smile.total_variance(fit, k, derivative=order, extrapolate=True).reset_coords(drop=True)

    return Part(share, total_variance, fit["m"], fit["sigma"])


def _blended(share: xr.DataArray, cut: Maturity, alone: xr.DataArray) -> Part:
    """Return the slice before where `alone`, elsewhere total variance linear in time."""

    def total_variance(k: xr.DataArray, order: int) -> xr.DataArray:
        first, second = (
            smile.total_variance(part, k, derivative=order, extrapolate=True)
            for part in (cut.before, cut.after)
        )
        linear = cut.share_before * first + (cut.share_after * second).where(cut.share_after > 0.0, 0.0)
        return first.where(alone, linear)

    return Part(share, total_variance, cut.before["m"], cut.before["sigma"])


def _density(k: Floats, w: Floats, dw: Floats, d2w: Floats, *, weighted: bool) -> Floats:
    """``p(k) = g(k) φ(d₂)/√w``; ``e^k φ(d₂) = φ(d₁)``."""
    root = np.sqrt(np.where(w > 0.0, w, np.nan))
    d = -k / root + (root / 2.0 if weighted else -root / 2.0)
    return np.asarray(density_factor(k, w, dw, d2w) * np.exp(-0.5 * d * d) / (_ROOT_TAU * root))


def _distribution(k: Floats, w: Floats, dw: Floats, d2w: Floats) -> Floats:
    """``∂P/∂K = N(−d₂) + φ(d₂) ∂√w/∂k``: the slope of the undiscounted put in its strike."""
    root = np.sqrt(np.where(w > 0.0, w, np.nan))
    d2 = -k / root - root / 2.0
    return np.asarray(ndtr(-d2) + np.exp(-0.5 * d2 * d2) / _ROOT_TAU * dw / (2.0 * root))


def _elementwise(kernel: Callable[..., Floats], *arrays: xr.DataArray) -> xr.DataArray:
    def quiet(*blocks: Floats) -> Floats:
        with np.errstate(all="ignore"):
            return kernel(*blocks)

    result: xr.DataArray = xr.apply_ufunc(quiet, *arrays, dask="parallelized", output_dtypes=[np.float64])
    return result
