"""FittedSlices fitted as arrays: the rung each one can carry, the fit, the check, the repair, the status.

The rungs are svi (5 different strikes) → ssvi (3) → a line between two quotes → flat (1), and sabr (3) or
pchip (2) → the same line → flat. The line, constant beyond its lower end as the rules of extrapolation want
it, is itself a raw SVI slice: ``σ = 0``, ``|ρ| = 1``.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from derivdata.analysis.least_squares import Minimum
from derivdata.analysis.smile.butterfly_certificate import certified
from derivdata.analysis.smile.curves import Curves, check_curves, curve_values
from derivdata.analysis.smile.fit_dataset import Method
from derivdata.analysis.smile.parameters import Floats, Raw
from derivdata.analysis.smile.pchip import nodes
from derivdata.analysis.smile.quotes import SmileQuotes
from derivdata.analysis.smile.repair import gj_repair, penalty_repair
from derivdata.analysis.smile.sabr import Sabr, fit_sabr
from derivdata.analysis.smile.ssvi_slice import fit_ssvi
from derivdata.analysis.smile.svi import fit_svi
from derivdata.analysis.status import Status

__all__ = ["FittedSlices", "Options", "fit_slices", "rms_error"]

NEEDED = {Method.SVI: 5, Method.SSVI: 3, Method.SABR: 3, Method.PCHIP: 2, Method.FLAT: 1, Method.NONE: 0}
_LADDERS = {
    Method.SVI: (Method.SVI, Method.SSVI, Method.PCHIP, Method.FLAT),
    Method.SSVI: (Method.SSVI, Method.PCHIP, Method.FLAT),
    Method.SABR: (Method.SABR, Method.PCHIP, Method.FLAT),
    Method.PCHIP: (Method.PCHIP, Method.FLAT),
}
_FREEDOM = {**NEEDED, Method.PCHIP: np.inf}
_STEEPEST = 1.0 - 1e-9


class Options(NamedTuple):
    """Options of a fit."""

    method: Method
    arbitrage: str
    beta: float
    by_delta: bool


class FittedSlices(NamedTuple):
    """Fitted slices; `notes` are status bits that the fit itself gave."""

    curves: Curves
    repaired: NDArray[np.bool_]
    notes: NDArray[np.int32]
    nfev: NDArray[np.int32]
    rmse_vol: Floats


def fit_slices(quotes: SmileQuotes, forward: Floats, start: Raw, options: Options) -> FittedSlices:
    """Fit every slice by the best rung of its ladder that its strikes can carry."""
    fitted = _empty(quotes, forward, options)
    rungs = fitted.curves.method
    for rung in _LADDERS[options.method]:
        free = (rungs == Method.NONE) & (quotes.distinct >= NEEDED[rung])
        rungs[free & np.isfinite(quotes.k_min)] = rung
    for rung in _LADDERS[options.method]:
        rows = np.flatnonzero(rungs == rung)
        if rows.size:
            _fit_rung(fitted, quotes, start, rows, rung, options)
    fitted.notes[:] |= np.where(rungs == options.method, 0, Status.TOO_FEW_STRIKES).astype(np.int32)
    fitted.notes[(rungs != options.method) & (rungs != Method.NONE)] |= Status.FALLBACK_USED
    _settle(fitted, quotes, options)
    _note_time(fitted, quotes)
    fitted.rmse_vol[:] = rms_error(fitted.curves, quotes)
    return fitted


def _empty(quotes: SmileQuotes, forward: Floats, options: Options) -> FittedSlices:
    count = len(quotes.k)

    def unknown() -> Floats:
        return np.full(count, np.nan)

    sabr, node_k, node_w = None, None, None
    if options.method == Method.SABR:
        sabr = Sabr(*(unknown() for _ in Sabr._fields))
    if options.method == Method.PCHIP:
        node_k, node_w = np.full((2, *quotes.k.shape), np.nan)
    curves = Curves(
        Raw(*(unknown() for _ in Raw._fields)),
        np.zeros(count, dtype=np.int8),
        quotes.k_min,
        quotes.k_max,
        quotes.t,
        forward,
        sabr,
        node_k,
        node_w,
        options.by_delta,
    )
    whole = np.zeros((2, count), dtype=np.int32)
    return FittedSlices(curves, np.zeros(count, dtype=bool), whole[0], whole[1], unknown())


def _fit_rung(
    fitted: FittedSlices,
    quotes: SmileQuotes,
    start: Raw,
    rows: NDArray[np.int64],
    rung: Method,
    options: Options,
) -> None:
    part, curves = quotes.rows(rows), fitted.curves
    if rung == Method.SVI:
        _put(fitted, rows, *fit_svi(part, Raw(*(each[rows] for each in start))))
    elif rung == Method.SSVI:
        _put(fitted, rows, *fit_ssvi(part))
    elif rung == Method.SABR and curves.sabr is not None:
        sabr, ended = fit_sabr(part, beta=options.beta, forward=curves.forward[rows])
        _store(curves.sabr, rows, sabr)
        _count(fitted, rows, ended)
    elif rung == Method.PCHIP and curves.node_k is not None and curves.node_w is not None:
        curves.node_k[rows], curves.node_w[rows], lost = nodes(part, by_delta=options.by_delta)
        fitted.notes[rows] |= np.where(lost, Status.OUTLIER, 0).astype(np.int32)
    else:
        _store(curves.raw, rows, _line(part))
    _drop_failures(curves, rows)


def _drop_failures(curves: Curves, rows: NDArray[np.int64]) -> None:
    """Let go of slices that came to nothing finite in the middle of their quotes."""
    part = curves.rows(rows).standing()
    failed = rows[~np.isfinite(curve_values(part, (part.k_min + part.k_max) / 2.0)[:, 0])]
    curves.method[failed] = Method.NONE
    for values in (*curves.raw, *(curves.sabr or ())):
        values[failed] = np.nan


def _line(quotes: SmileQuotes) -> Raw:
    """Through two quotes and constant beyond the lower one, or flat through one."""
    k, w, _ = nodes(quotes, by_delta=False)
    k0, w0 = k[:, 0], w[:, 0]
    k1, w1 = (k[:, 1], w[:, 1]) if k.shape[1] > 1 else (np.full_like(k0, np.nan), w0)
    single = np.isnan(k1)
    slope = np.where(single, 0.0, (w1 - w0) / np.where(single, 1.0, k1 - k0))
    vertex = np.where(slope < 0.0, k1, k0)
    b = np.minimum(np.abs(slope) / 2.0, _STEEPEST)
    return Raw(np.where(slope < 0.0, w1, w0), b, np.sign(slope), vertex, np.zeros_like(b))


def _put(fitted: FittedSlices, rows: NDArray[np.int64], raw: Raw, ended: Minimum) -> None:
    _store(fitted.curves.raw, rows, raw)
    _count(fitted, rows, ended)


def _store(target: Raw | Sabr, rows: NDArray[np.int64], values: Raw | Sabr) -> None:
    for part, value in zip(target, values, strict=True):
        part[rows] = value


def _count(fitted: FittedSlices, rows: NDArray[np.int64], ended: Minimum) -> None:
    fitted.nfev[rows] += ended.nfev.astype(np.int32)
    fitted.notes[rows[~ended.converged]] |= Status.NOT_CONVERGED


def _settle(fitted: FittedSlices, quotes: SmileQuotes, options: Options) -> None:
    """Check every slice, repair what was asked to be, and note what is left."""
    curves = fitted.curves
    suspect = np.flatnonzero((curves.method != Method.NONE) & ~certified(curves.raw))
    guilty = suspect[~check_curves(curves.rows(suspect)).ok]
    if guilty.size and options.arbitrage == "ssvi":
        _replace_by_ssvi(fitted, quotes, guilty[quotes.distinct[guilty] >= NEEDED[Method.SSVI]])
    elif guilty.size and options.arbitrage != "flag":
        _mend(fitted, quotes, guilty[curves.method[guilty] == Method.SVI], options.arbitrage)
    fitted.notes[guilty[~fitted.repaired[guilty]]] |= Status.BUTTERFLY


def _replace_by_ssvi(fitted: FittedSlices, quotes: SmileQuotes, rows: NDArray[np.int64]) -> None:
    if not rows.size:
        return
    fitted.notes[rows] &= ~np.int32(Status.NOT_CONVERGED)
    _put(fitted, rows, *fit_ssvi(quotes.rows(rows)))
    fitted.curves.method[rows] = Method.SSVI
    fitted.notes[rows] |= Status.FALLBACK_USED
    fitted.repaired[rows] = check_curves(fitted.curves.rows(rows)).ok


def _mend(fitted: FittedSlices, quotes: SmileQuotes, rows: NDArray[np.int64], arbitrage: str) -> None:
    if not rows.size:
        return
    part, old = quotes.rows(rows), fitted.curves.rows(rows)
    if arbitrage == "gj":
        raw, sure = gj_repair(old.raw, part.t)
        sure &= check_curves(old._replace(raw=raw)).ok
    else:
        raw, sure, nfev = penalty_repair(part, old)
        fitted.nfev[rows] += nfev.astype(np.int32)
    _store(fitted.curves.raw, rows[sure], Raw(*(each[sure] for each in raw)))
    fitted.repaired[rows] = sure


def _note_time(fitted: FittedSlices, quotes: SmileQuotes) -> None:
    """Note slices without time: they have no quotes either, and the reason is the time."""
    unknown, over = ~np.isfinite(quotes.t), quotes.t <= 0.0
    fitted.notes[unknown], fitted.notes[over] = Status.BAD_INPUT, Status.EXPIRED


def rms_error(curves: Curves, quotes: SmileQuotes) -> Floats:
    """Return the root mean square error in volatility; NaN where there are no more quotes than parameters."""
    freedom = np.array([_FREEDOM.get(each, np.inf) for each in Method])
    with np.errstate(divide="ignore", invalid="ignore"):
        error = np.sqrt(curve_values(curves.standing(), quotes.k) / quotes.t[:, None]) - quotes.iv
        square = np.where(quotes.used, np.square(error), 0.0).sum(axis=1) / quotes.used.sum(axis=1)
    enough = (quotes.distinct > freedom[curves.method]) & (curves.method != Method.NONE)
    return np.where(enough, np.sqrt(square), np.nan)
