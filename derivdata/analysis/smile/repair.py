"""Butterfly arbitrage taken out of raw SVI slices.

Two ways: Gatheral and Jacquier's closed form, which keeps the ATM variance, the skew and the put wing, and
a refit to the quotes with a penalty on negative density, which moves the smile far less.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Self

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

from derivdata.analysis.inputs import together
from derivdata.analysis.least_squares import Index, Linearised, diagonal, minimise
from derivdata.analysis.smile.curves import Curves, check_curves
from derivdata.analysis.smile.least_squares_dense import DenseProblem
from derivdata.analysis.smile.parameters import (
    Floats,
    JumpWings,
    Raw,
    jump_wings_to_raw,
    svi_raw_to_jump_wings,
)
from derivdata.analysis.smile.positive_svi import density_jet, floor_curve, floor_from_raw, floor_to_raw
from derivdata.analysis.smile.quotes import SmileQuotes
from derivdata.analysis.smile.ssvi_slice import fit_ssvi
from derivdata.support.arguments import Numbers, typed

__all__ = ["GjRepair", "gj_repair", "penalty_repair"]

_GRID, _FARTHEST = 401, 600.0
_MARGIN, _FIRST_WEIGHT, _ROUNDS = 1e-3, 1e-2, 9
_STEEPEST = 2.0 * (1.0 - 1e-9)


class GjRepair(NamedTuple):
    """The closed form's slice, and whether it is sure to be free of butterflies."""

    raw: Raw
    guaranteed: Any


@typed
def gj_repair(raw: Raw, year_fraction: Numbers) -> GjRepair:
    """Gatheral and Jacquier's closed-form repair, ``c' = p + 2ψ`` and ``ṽ' = 4 v p c'/(p + c')²``.

    Parameters
    ----------
    raw
        Raw SVI parameters: floats, arrays or DataArrays.
    year_fraction
        Time to expiry [years].

    Returns
    -------
    GjRepair
        Raw parameters, and whether ``c' > 0``, ``√(vt) max(p, c') < 2`` and ``(p + c') max(p, c') ≤ 2``
        (their remark 4.2). Where that is False the slice may have as much arbitrage as before: check it.
        NaN where ``c' <= 0``.

    Notes
    -----
    Gatheral and Jacquier (2014), section 5.1, call the result guaranteed without those conditions.
    """
    *_, year_fraction = together(**raw._asdict(), year_fraction=year_fraction)
    if isinstance(year_fraction, pd.Series):
        year_fraction = year_fraction.to_numpy()
    v, psi, p, _, _ = svi_raw_to_jump_wings(raw, year_fraction)
    c = p + 2.0 * psi
    c = _where(c > 0.0, c)
    wings = JumpWings(v, psi, p, c, v * 4.0 * p * c / (p + c) ** 2)
    steepest = _larger(p, c)
    guaranteed = ((v * year_fraction) ** 0.5 * steepest < 2.0) & ((p + c) * steepest <= 2.0)
    return GjRepair(jump_wings_to_raw(wings, year_fraction), guaranteed)


def penalty_repair(quotes: SmileQuotes, curves: Curves) -> tuple[Raw, NDArray[np.bool_], NDArray[np.int64]]:
    """Refit with a penalty on ``g < 0.001``, ten times heavier each round until no butterfly is left.

    The search begins at the slices themselves, and where that fails at the best SSVI slices, which are
    free. Returns the slices, whether they are free now, and the evaluations spent.
    """
    x, free, nfev = _rounds(quotes, curves)
    stuck = np.flatnonzero(~free)
    if stuck.size:
        part = quotes.rows(stuck)
        raw, ended = fit_ssvi(part)
        x[:, stuck], free[stuck], more = _rounds(part, curves.rows(stuck)._replace(raw=raw))
        nfev[stuck] += ended.nfev + more
    return floor_to_raw(x), free, nfev


def _rounds(quotes: SmileQuotes, curves: Curves) -> tuple[Floats, NDArray[np.bool_], NDArray[np.int64]]:
    x = floor_from_raw(curves.raw)
    free, nfev = np.zeros(x.shape[1], dtype=bool), np.zeros(x.shape[1], dtype=np.int64)
    problem = _problem(quotes, curves.raw)
    for turn in range(_ROUNDS):
        rows = np.flatnonzero(~free)
        if not rows.size:
            break
        part = problem.rows(rows)._replace(heaviness=_FIRST_WEIGHT * 10.0**turn)
        minimum = minimise(part, np.clip(x[:, rows], part.low, part.high))
        x[:, rows] = minimum.x
        nfev[rows] += minimum.nfev
        free[rows] = check_curves(curves.rows(rows)._replace(raw=floor_to_raw(minimum.x))).ok
    return x, free, nfev


class _Penalised(NamedTuple):
    quotes: DenseProblem
    grid: Floats
    heaviness: float

    @property
    def low(self) -> Floats:
        return self.quotes.low

    @property
    def high(self) -> Floats:
        return self.quotes.high

    @property
    def reach(self) -> Floats:
        return self.quotes.reach

    def rows(self, index: Index) -> Self:
        return self._replace(quotes=self.quotes.rows(index), grid=self.grid[index])

    def evaluate(self, x: Floats) -> Linearised:
        fit = self.quotes.evaluate(x)
        g, slope = density_jet(x[..., None], self.grid)
        lack = np.sqrt(self.heaviness) * np.maximum(_MARGIN - g, 0.0)
        slope = np.sqrt(self.heaviness) * np.where(lack > 0.0, slope, 0.0)
        gram = fit.gram + np.vecdot(slope[:, None], slope)
        grad = fit.grad + np.vecdot(slope, lack)
        scale = diagonal(gram) + 1e-300
        return Linearised(x, fit.loss + np.vecdot(lack, lack), fit.nothing, gram, grad, scale)


def _problem(quotes: SmileQuotes, raw: Raw) -> _Penalised:
    span = quotes.k_max - quotes.k_min
    one = np.ones_like(span)
    sigma = np.log(raw.sigma)
    least = 1e-6 * quotes.w.min(axis=1)
    low = np.stack(
        [least, 0.0 * one, 0.0 * one, quotes.k_min - 2.0 * span, np.minimum(np.log(1e-3 * span), sigma)]
    )
    steep = np.sqrt(_STEEPEST) * one
    high = np.stack(
        [np.inf * one, steep, steep, quotes.k_max + 2.0 * span, np.maximum(np.log(5.0 * span), sigma)]
    )
    reach = np.array([np.inf, np.inf, np.inf, 0.3, 0.5])[:, None]
    weight = quotes.weight / (4.0 * quotes.t[:, None])
    fit = DenseProblem(floor_curve, quotes.k, quotes.w, weight, np.empty((0, len(one))), low, high, reach)
    unit = np.maximum(raw.sigma, 1e-6)[:, None]
    ends = [np.arcsinh((side * _FARTHEST - raw.m[:, None]) / unit) for side in (-1.0, 1.0)]
    share = np.linspace(0.0, 1.0, _GRID)
    grid = raw.m[:, None] + unit * np.sinh(ends[0] + (ends[1] - ends[0]) * share)
    return _Penalised(fit, grid, _FIRST_WEIGHT)


def _larger(a: Any, b: Any) -> Any:
    return xr.apply_ufunc(np.maximum, a, b, dask="parallelized", output_dtypes=[np.float64])


def _where(condition: Any, value: Any) -> Any:
    return xr.apply_ufunc(
        lambda c, v: np.where(c, v, np.nan), condition, value, dask="parallelized", output_dtypes=[np.float64]
    )
