"""Surfaces fitted to quotes, many at once."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple, get_args

import numpy as np
import xarray as xr

from derivdata.analysis import smile
from derivdata.analysis.least_squares import Minimum
from derivdata.analysis.smile import Method
from derivdata.analysis.smile.fit_dataset import assemble
from derivdata.analysis.status import Status, flag_attrs
from derivdata.analysis.surface import essvi
from derivdata.analysis.surface.calendar_arbitrage import calendar_check
from derivdata.analysis.surface.essvi_parameters import NATURAL, natural_parameters, raw_parameters_of
from derivdata.analysis.surface.labelling import labelled, where
from derivdata.analysis.surface.quote_grid import MINIMUM, QuoteGrid, arrange, batches
from derivdata.analysis.surface.ssvi_families import FAMILIES, at_the_money, fit_family, isotonic
from derivdata.analysis.surface.ssvi_problem import Floats, SurfaceQuotes
from derivdata.arguments import Numbers, typed

__all__ = ["SurfaceMethod", "fit"]

SurfaceMethod = Literal["essvi", "essvi_seq", "ssvi_power", "ssvi_heston", "slices"]

_OUT = (*NATURAL, "rmse_vol", "n", "nfev", "k_min", "k_max", "status")
_SURFACES = 512
_TYPES = (np.float64,) * 4 + (np.int32,) * 2 + (np.float64,) * 2 + (np.int32,)


class _Found(NamedTuple):
    """Slices ``(surfaces, expiries, 3)``, how the search ended, and the family's own parameters."""

    slices: Floats
    solution: Minimum
    shared: tuple[Floats, ...]


@typed
def fit(
    log_moneyness: Numbers,
    iv: Numbers,
    year_fraction: Numbers,
    *,
    method: SurfaceMethod = "essvi",
    weights: Any = "vega",
    start: xr.Dataset | None = None,
    forward: xr.DataArray | None = None,
    dim: str = "strike",
) -> xr.Dataset:
    """One volatility surface for every set of leading labels: venues, symbols, a history.

    Parameters
    ----------
    log_moneyness, iv
        ``ln(K/F)`` and implied volatility [decimal per √year], with dims ``expiry`` and `dim` and any
        others; bare arrays have these two last. NaN is no quote, so ragged chains are padded with it.
        One volatility per strike: see `derivdata.analysis.chain`.
    year_fraction
        Time to expiry [years], with dim ``expiry``, in any order.
    method
        ``"essvi"``: all expiries at once, no butterfly and no calendar arbitrage by construction;
        ``"essvi_seq"``: the same, expiry after expiry, each through its quote nearest the money;
        ``"ssvi_power"``, ``"ssvi_heston"``: one correlation and one φ(θ) for all expiries, also free of
        both; ``"slices"``: `derivdata.analysis.smile.fit` on each expiry alone, arbitrage only reported.
    weights
        ``"vega"``: residuals of volatility, which are price residuals over vega. ``"uniform"``: residuals
        of total variance. ``"price"``: residuals of price per forward and √T, which let the money decide
        and the wings follow. An array: multiplies squared residuals of volatility, for instance
        ``1/(ask_iv − bid_iv)²``; 0 and NaN drop a quote.
    start
        An earlier result to start from, matched by expiry; it saves a step or two, and the result does not
        depend on it beyond the search's tolerance. Unused by ``ssvi`` methods and ``slices``.
    forward
        Forward of each expiry, kept as a coordinate.
    dim
        Name of the strikes' dimension.

    Returns
    -------
    Dataset over the dims of `iv` without `dim`
        What `derivdata.analysis.smile.fit_dataset` says of a fit, and ``theta``, ``rho``, ``psi`` of each
        slice (not of ``"slices"``); ``eta`` and ``gamma``, or ``lam``, of an SSVI family. NaN with its
        reason in ``status`` for an expiry that is past, has fewer than 3 strikes, or is padding; the other
        expiries are fitted without it. ``nfev`` is the whole surface's. Lazy if the quotes are.

    Raises
    ------
    ValueError
        Unknown method or weighting; a dimension is missing; the volatilities look like percent (on lazy
        input when the result is computed).

    Notes
    -----
    The residual is ``(w_model − w)/(2 √(w T))``, an error in volatility. The search is a projected
    Levenberg-Marquardt over all surfaces of the call with the exact Jacobian; it starts from one linear
    least squares per slice. Expiries and strikes are put into one chunk.
    """
    if method not in get_args(SurfaceMethod):
        raise ValueError(f"method={method!r} is not one of {', '.join(get_args(SurfaceMethod))}")
    k, volatility, t, weight = labelled(log_moneyness, iv, year_fraction, weights, dim=dim)
    if method == "slices":
        return _alone(k, volatility, t, weight, forward, dim)
    found = xr.apply_ufunc(
        _fit,
        *(k, volatility, t, weight, *_guess(start, volatility)),
        kwargs={"method": method},
        input_core_dims=[["expiry", dim]] * 2 + [["expiry"]] + [["expiry", dim]] + [["expiry"]] * 3,
        output_core_dims=[["expiry"]] * len(_OUT) + [[]] * len(_shared_names(method)),
        dask="parallelized",
        output_dtypes=[*_TYPES, *[np.float64] * len(_shared_names(method))],
    )
    variables = dict(zip((*_OUT, *_shared_names(method)), found, strict=True))
    natural = [variables[name] for name in NATURAL]
    rung = where(np.isfinite(natural[0]), Method.SSVI, Method.NONE).astype(np.int8)
    variables |= raw_parameters_of(*natural)._asdict()
    variables |= {"method": rung, "repaired": xr.zeros_like(rung, dtype=bool)}
    return assemble(variables, t, forward=forward, surface=method)


def _alone(
    k: xr.DataArray, iv: xr.DataArray, t: xr.DataArray, weight: xr.DataArray, forward: Any, dim: str
) -> xr.Dataset:
    """Every expiry fitted by itself; those that cross the one before are flagged."""
    found = smile.fit(k, iv, t, weights=weight, forward=forward, dim=dim).assign_attrs(surface="slices")
    crossed = (found["method"] > 0) & ~calendar_check(found)["ok"]
    status = found["status"] | crossed * np.int32(Status.CALENDAR)
    return found.assign(status=status.astype(np.int32).assign_attrs(flag_attrs()))


def _guess(start: xr.Dataset | None, iv: xr.DataArray) -> list[xr.DataArray]:
    """Natural parameters to start from, NaN where there are none."""
    if start is None:
        empty = xr.DataArray(np.full(iv.sizes["expiry"], np.nan), dims="expiry")
        return [empty] * len(NATURAL)
    if "expiry" in iv.coords and "expiry" in start.coords:
        start = start.reindex(expiry=iv.coords["expiry"].to_numpy())
    return [part.reset_coords(drop=True) for part in natural_parameters(start, "start")]


def _shared_names(method: str) -> tuple[str, ...]:
    return FAMILIES[method].names if method in FAMILIES else ()


def _fit(
    k: Floats, iv: Floats, t: Floats, weight: Floats, theta: Floats, rho: Floats, psi: Floats, *, method: str
) -> tuple[Any, ...]:
    """Kernel on ``(..., expiries, strikes)`` and ``(..., expiries)``: `_OUT`, then what is shared."""
    shape = np.broadcast_shapes(k.shape, iv.shape, weight.shape, (*t.shape, 1), (*theta.shape, 1))
    lead = shape[:-2] or (1,)
    chains = [np.broadcast_to(part, (*lead, *shape[-2:])) for part in (k, iv, weight)]
    expiries = [np.broadcast_to(part, (*lead, shape[-2])) for part in (t, theta, rho, psi)]
    count = int(np.prod(lead))
    blocks = []
    for first in range(0, max(count, 1), _SURFACES):
        at = np.unravel_index(np.arange(first, min(first + _SURFACES, count)), lead)
        blocks.append(_block(*(part[at] for part in (*chains, *expiries)), method=method))
    joined = (np.concatenate(part) for part in zip(*blocks, strict=True))
    return tuple(part.reshape(shape[:-2] + part.shape[1:]) for part in joined)


def _block(
    k: Floats, iv: Floats, weight: Floats, t: Floats, theta: Floats, rho: Floats, psi: Floats, *, method: str
) -> list[Any]:
    """The kernel's results for surfaces on one axis."""
    ordered = arrange(k, iv, t, weight)
    guess = essvi.slopes(essvi.SsviSlices(theta, rho, psi))
    out, shared = _solved(ordered, np.take_along_axis(guess, ordered.order[..., None], 1), method)
    back = [np.empty_like(part) for part in out]
    for part, in_order in zip(back, out, strict=True):
        np.put_along_axis(part, ordered.order, in_order, 1)
    return [*back, *shared]


def _solved(ordered: QuoteGrid, guessed: Floats, method: str) -> tuple[list[Any], list[Floats]]:
    """The variables of `_OUT` in the grid's order, and the parameters that a whole surface shares."""
    slices = np.full((*ordered.t.shape, 3), np.nan)
    rmse = np.full(ordered.t.shape, np.nan)
    nfev, status = np.zeros(ordered.t.shape, np.int32), ordered.status.copy()
    shared = [np.full(len(slices), np.nan) for _ in _shared_names(method)]
    for rows, count, quotes in batches(ordered):
        linear = essvi.linear_start(quotes)
        known = guessed[rows, :count]
        found = _search(
            method, quotes, np.where(np.isfinite(known).all(axis=-1, keepdims=True), known, linear)
        )
        here = rows[:, None], np.arange(count)
        slices[here] = found.slices
        rmse[here] = _rmse(found.slices, quotes, ordered.t[here])
        nfev[here] = found.solution.nfev[:, None]
        status[here] |= np.where(found.solution.converged, 0, np.int32(Status.NOT_CONVERGED))[:, None]
        for part, values in zip(shared, found.shared, strict=True):
            part[rows] = values
    k_min, k_max = _range(ordered.k)
    return [*essvi.natural(slices), rmse, ordered.n, nfev, k_min, k_max, status], shared


def _search(method: str, quotes: SurfaceQuotes, guess: Floats) -> _Found:
    if method in FAMILIES:
        family = FAMILIES[method]
        theta = isotonic(at_the_money(quotes, guess[..., 0]))
        slices, solution = fit_family(family, quotes, guess, theta)
        return _Found(slices, solution, family.published(solution.x.T))
    search = essvi.fit_sequential if method == "essvi_seq" else essvi.fit_global
    return _Found(*search(quotes, guess), ())


def _rmse(slices: Floats, quotes: SurfaceQuotes, t: Floats) -> Floats:
    """Root mean square error in volatility; NaN where there are no more quotes than parameters."""
    theta, right, left = (slices[..., i, None] for i in range(3))
    tilt, width = (right - left) * quotes.k, (right + left) * quotes.k
    w = 0.5 * (theta + tilt + np.sqrt(width**2 + theta * (2.0 * tilt + theta)))
    here = quotes.scale > 0.0
    error = np.where(here, np.sqrt(w) - np.sqrt(quotes.w), 0.0)
    n = here.sum(axis=-1)
    return np.asarray(np.where(n > MINIMUM, np.sqrt((error**2).sum(axis=-1) / np.maximum(n, 1) / t), np.nan))


def _range(k: Floats) -> tuple[Floats, Floats]:
    """Least and greatest log-moneyness of every slice, NaN without quotes."""
    ends = []
    for outside, pick in ((np.inf, np.min), (-np.inf, np.max)):
        end = pick(np.where(np.isnan(k), outside, k), axis=-1, initial=outside)
        ends.append(np.where(np.isinf(end), np.nan, end))
    return ends[0], ends[1]
