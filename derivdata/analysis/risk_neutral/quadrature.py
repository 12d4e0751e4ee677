"""Integrals of the density over the whole line, with nodes where a smile has its features."""

from __future__ import annotations

import numpy as np
import xarray as xr

from derivdata.analysis.status import Status
from derivdata.analysis.surface.labelling import where
from derivdata.analysis.surface.mixture import Mixture
from derivdata.support.arrays import Floats

__all__ = ["NODE", "summary"]

NODE = "quadrature_node"
_EDGE = "quadrature_edge"
# Panels in z with k = √w(0) sinh z: even at the money, growing geometrically in the wings. A wing with a
# slope near Lee's bound of 2 dies out only beyond a million deviations.
_FAR, _PANELS = 16.0, 160
# More around the vertex, where raw SVI bends over a width that may be far below √w(0).
_BEND, _BEND_PANELS = 5.0, 32
_POINTS, _WEIGHTS = np.polynomial.legendre.leggauss(5)
_TOLERANCE = 1e-6
_NEGATIVE = -1e-10


def summary(mixture: Mixture) -> xr.Dataset:
    """Sum a density up: ``mass``, ``martingale``, means of ``k`` to ``k⁴`` about 0, and its ``status``."""
    k, weight = _nodes(mixture)
    density, weighted = mixture.density(k), mixture.density(k, weighted=True)
    sums = {"mass": density, "martingale": weighted} | {f"power_{n}": density * k**n for n in (1, 2, 3, 4)}
    there = mixture.parts[0].share.notnull()
    result = xr.Dataset(
        {name: (each * weight).sum(NODE, skipna=True).where(there) for name, each in sums.items()}
    )
    off = (abs(result["mass"] - 1.0) > _TOLERANCE) | (abs(result["martingale"] - 1.0) > _TOLERANCE)
    negative = (density * mixture.parts[0].total_variance(xr.zeros_like(k.isel({NODE: 0})), 0) ** 0.5).min(
        NODE
    ) < _NEGATIVE
    status = mixture.status | where(off & there, np.int32(Status.NOT_MARTINGALE), np.int32(0))
    status = status | where(negative, np.int32(Status.BUTTERFLY), np.int32(0))
    return result.assign(status=status.astype(np.int32))


def _nodes(mixture: Mixture) -> tuple[xr.DataArray, xr.DataArray]:
    zero = xr.zeros_like(mixture.k_min)
    scale = mixture.parts[-1].total_variance(zero, 0) ** 0.5
    scale = scale.fillna(mixture.parts[0].total_variance(zero, 0) ** 0.5)
    bends = [each for part in mixture.parts for each in (part.vertex, part.bend)]
    k, weight = xr.apply_ufunc(
        _panels,
        scale,
        *bends,
        output_core_dims=[[NODE]] * 2,
        dask="parallelized",
        output_dtypes=[np.float64] * 2,
        dask_gufunc_kwargs={
            "output_sizes": {NODE: _POINTS.size * (_PANELS + len(mixture.parts) * (_BEND_PANELS + 1))}
        },
    )
    return k, weight


def _panels(scale: Floats, *bends: Floats) -> tuple[Floats, Floats]:
    """Gauss-Legendre nodes and weights on panels between all edges, those of the bends included."""
    scale, *parts = (np.asarray(each)[..., None] for each in np.broadcast_arrays(scale, *bends))
    with np.errstate(over="ignore", invalid="ignore"):
        edges = [scale * np.sinh(np.linspace(-_FAR, _FAR, _PANELS + 1))]
        for vertex, bend in zip(parts[::2], parts[1::2], strict=True):
            usable = np.isfinite(vertex) & (bend > 0.0)
            unit = np.where(usable, np.minimum(bend, scale), scale)
            middle = np.where(usable, vertex, 0.0)
            edges.append(middle + unit * np.sinh(np.linspace(-_BEND, _BEND, _BEND_PANELS + 1)))
        every = np.sort(np.concatenate(edges, axis=-1), axis=-1)
    start, half = every[..., :-1, None], np.diff(every)[..., None] / 2.0
    k, weight = start + half * (1.0 + _POINTS), half * _WEIGHTS
    return k.reshape(*k.shape[:-2], -1), weight.reshape(*weight.shape[:-2], -1)
