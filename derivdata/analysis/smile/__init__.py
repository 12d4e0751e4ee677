"""One smile per expiry: fit, evaluation and butterfly check. `svi` has the parameters.

`evaluate` defines the format of a fit. Total variance is ``w = iv² T``, log-moneyness ``k = ln(K/F)``.

`fit` fits each slice separately, by the best model that its number of different strikes allows: SVI (5), SSVI
(3), a line between two quotes (2), or flat (1). The line is constant beyond its lower end, as the rules of
extrapolation require. It is a raw SVI slice: ``σ = 0``, ``|ρ| = 1``.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from derivdata.analysis.labelling import applied, named
from derivdata.analysis.panels import require_decimal_volatility, require_same
from derivdata.analysis.smile import svi
from derivdata.analysis.smile.essvi import fit_ssvi
from derivdata.analysis.smile.evaluate import (
    FACTS,
    RAW,
    Method,
    assemble,
    butterfly_check,
    certified,
    check_slices,
    from_raw,
    iv,
    total_variance,
)
from derivdata.analysis.smile.quotes import (
    SmileQuotes,
    in_rows,
    labelled,
    off_quotes,
    prepare,
    with_covariance,
)
from derivdata.analysis.smile.search import Minimum
from derivdata.analysis.smile.svi import Raw, at_index
from derivdata.analysis.smile.svi_search import fit_svi
from derivdata.analysis.status import Status
from derivdata.support.arguments import Numbers, typed
from derivdata.support.arrays import Floats, Indices

__all__ = ["butterfly_check", "fit", "from_raw", "iv", "svi", "total_variance"]
__dir__ = __all__.copy


_MIN_STRIKES = {Method.SVI: 5, Method.SSVI: 3, Method.LINE: 2, Method.FLAT: 1, Method.NONE: 0}
_METHODS = (Method.SVI, Method.SSVI, Method.LINE, Method.FLAT)  # the best first
_PARAMETERS = np.array([{**_MIN_STRIKES, Method.LINE: np.inf}[method] for method in Method])
_MAX_SLOPE = 1.0 - 1e-9
_ROUNDS = 20


class FittedSlices(NamedTuple):
    """Fitted slices; `notes` are the status bits of the fit."""

    raw: Raw
    method: NDArray[np.int8]
    notes: NDArray[np.int32]
    nfev: NDArray[np.int32]
    rmse_vol: Floats


def fit_slices(quotes: SmileQuotes, start: Raw | None = None) -> FittedSlices:
    """Fit every slice by the best model that its number of strikes allows, from `start` if given."""
    # 1. Choose and fit the best model that the strikes of each slice allow.
    count = len(quotes.k)
    methods = np.zeros(count, dtype=np.int8)
    for method in _METHODS:
        is_next = (methods == Method.NONE) & (quotes.distinct >= _MIN_STRIKES[method])
        methods[is_next & np.isfinite(quotes.k_min)] = method
    raw = Raw(*np.full((5, count), np.nan))
    fitted = FittedSlices(raw, methods, np.zeros(count, np.int32), np.zeros(count, np.int32), np.empty(count))
    for method in _METHODS:
        rows = np.flatnonzero(methods == method)
        if rows.size:
            _fit_method(fitted, quotes, start, rows, method)

    # 2. Flag simpler models, butterflies and failed fits. A failed fit has set its method to NONE.
    is_simpler = methods != Method.SVI
    fitted.notes[is_simpler] |= Status.TOO_FEW_STRIKES
    fitted.notes[is_simpler & (methods != Method.NONE)] |= Status.FALLBACK_USED
    unproved = np.flatnonzero((methods != Method.NONE) & ~certified(raw))
    checked = check_slices(at_index(raw, unproved), quotes.k_min[unproved], quotes.k_max[unproved])
    fitted.notes[unproved[~checked.ok]] |= Status.BUTTERFLY
    # Expired slices do not have quotes; their status states the expiry.
    fitted.notes[~np.isfinite(quotes.t)] = Status.BAD_INPUT
    fitted.notes[quotes.t <= 0.0] = Status.EXPIRED
    fitted.rmse_vol[:] = _rms_error(fitted, quotes)
    return fitted


def _fit_method(
    fitted: FittedSlices, quotes: SmileQuotes, start: Raw | None, rows: Indices, method: Method
) -> None:
    """Fit the slices `rows` by one model, and write the results into `fitted`."""
    selected = quotes.rows(rows)
    minimum = None
    if method == Method.SVI:
        raw, minimum = fit_svi(selected, None if start is None else at_index(start, rows))
    elif method == Method.SSVI:
        raw, minimum = fit_ssvi(selected)
    else:
        raw = _line(selected)
    # A fit must have a finite variance in the middle of its quotes.
    failed = ~np.isfinite(svi.total_variance((selected.k_min + selected.k_max) / 2.0, raw))
    fitted.method[rows[failed]] = Method.NONE
    for target, value in zip(fitted.raw, raw, strict=True):
        target[rows] = np.where(failed, np.nan, value)
    if isinstance(minimum, Minimum):
        fitted.nfev[rows] += minimum.nfev.astype(np.int32)
        fitted.notes[rows[~minimum.converged]] |= Status.NOT_CONVERGED


def _line(quotes: SmileQuotes) -> Raw:
    """Fit a line through the means at two strikes, constant beyond the lower one, or flat through one."""

    def mean_at(k: Floats) -> Floats:
        has_strike = quotes.used & (quotes.k == k[:, None])
        return np.asarray(np.where(has_strike, quotes.w, 0.0).sum(axis=1) / has_strike.sum(axis=1))

    k0 = quotes.k_min
    k1 = quotes.k_max
    w0 = mean_at(k0)
    w1 = mean_at(k1)
    slope = np.divide(w1 - w0, k1 - k0, out=np.zeros_like(w0), where=k1 > k0)
    falls = slope < 0.0
    b = np.minimum(np.abs(slope) / 2.0, _MAX_SLOPE)
    return Raw(np.where(falls, w1, w0), b, np.sign(slope), np.where(falls, k1, k0), np.zeros_like(b))


def _rms_error(fitted: FittedSlices, quotes: SmileQuotes) -> Floats:
    """Return the root mean square error in volatility; NaN unless there are more quotes than parameters."""
    with np.errstate(divide="ignore", invalid="ignore"):
        error = _volatility(fitted.raw, quotes) - quotes.iv
        square = np.where(quotes.used, np.square(error), 0.0).sum(axis=1) / quotes.used.sum(axis=1)
    has_enough = (quotes.distinct > _PARAMETERS[fitted.method]) & (fitted.method != Method.NONE)
    return np.where(has_enough, np.sqrt(square), np.nan)


def _volatility(raw: Raw, quotes: SmileQuotes) -> Floats:
    w = svi.total_variance(quotes.k, at_index(raw, np.s_[:, None]))
    return np.asarray(np.sqrt(w / quotes.t[:, None]))


def fit_between(
    fitted: FittedSlices, quotes: SmileQuotes, weight: Floats, bid: Floats, ask: Floats
) -> FittedSlices:
    """Refit in place to the points between bid and ask that are nearest to the previous fit.

    See `smile.fit`.
    """
    # 1. Find the range of each quote. With one side, the other end is open. Without both sides, and in a
    # crossed market, the range is the quote itself.
    crossed = bid > ask
    has_bid = np.isfinite(bid) & ~crossed
    has_ask = np.isfinite(ask) & ~crossed
    low = np.where(has_bid, bid, np.where(has_ask, 0.0, quotes.iv))
    high = np.where(has_ask, ask, np.where(has_bid, np.inf, quotes.iv))
    has_side = (quotes.used & ((low != quotes.iv) | (high != quotes.iv))).any(axis=1)

    # 2. Fit to the points of the ranges that are nearest to the last fit, until the fit is within all ranges.
    target, min_loss = _nearest(fitted.raw, quotes, weight, low, high)
    start = Raw(*(values.copy() for values in fitted.raw))
    rows = np.flatnonzero(has_side & (min_loss > 0.0))
    for _ in range(_ROUNDS):
        if not rows.size:
            break
        target_quotes = prepare(quotes.k[rows], target[rows], quotes.t[rows], weight[rows])
        refit = fit_slices(target_quotes, at_index(start, rows))
        fitted.nfev[rows] += refit.nfev
        # The next round starts from this fit, even if it is not the best one.
        for values, new in zip(start, refit.raw, strict=True):
            values[rows] = new
        target[rows], loss = _nearest(refit.raw, quotes.rows(rows), weight[rows], low[rows], high[rows])
        is_better = loss < min_loss[rows]
        min_loss[rows[is_better]] = loss[is_better]
        best = (*fitted.raw, fitted.method, fitted.notes)
        for values, new in zip(best, (*refit.raw, refit.method, refit.notes), strict=True):
            values[rows[is_better]] = new[is_better]
        rows = rows[loss > 0.0]
    fitted.rmse_vol[:] = _rms_error(fitted, quotes)
    return fitted


def _nearest(
    raw: Raw, quotes: SmileQuotes, weight: Floats, low: Floats, high: Floats
) -> tuple[Floats, Floats]:
    """Return the points from `low` to `high` nearest to the slices, NaN without a quote, and losses."""
    with np.errstate(invalid="ignore", divide="ignore"):
        model = _volatility(raw, quotes)
        has_model = np.isfinite(model)
        target = np.where(has_model, np.clip(model, low, high), quotes.iv)
        outside = np.where(has_model, model - target, np.inf)
        loss = np.where(quotes.used, weight * outside**2, 0.0).sum(axis=1)
    return np.where(quotes.used, target, np.nan), loss


_ROWS = 8192
_TYPES = dict.fromkeys(RAW, np.float64) | {"method": np.int8} | FACTS


@typed
def fit(
    log_moneyness: Numbers,
    iv: Numbers,
    year_fraction: Numbers,
    *,
    dim: str = "strike",
    weights: Any = None,
    iv_bid: Numbers | None = None,
    iv_ask: Numbers | None = None,
    forward: Numbers | None = None,
) -> xr.Dataset:
    """Fit raw SVI smiles to the quotes of all slices in one call, each slice separately.

    Slices may have butterfly arbitrage, which is flagged; `derivdata.analysis.surface.fit` excludes it, also
    for a single expiry. A slice with fewer than 5 different strikes uses a simpler model: SSVI (3), a line
    through two quotes, or flat. Its status flags this, and ``method`` names the model.

    Parameters
    ----------
    log_moneyness
        ``ln(K/F)`` of the quotes, over `dim` and any dims of the slices.
    iv
        Implied volatility [decimal, per √year]. NaN, infinite and non-positive values drop a quote.
    year_fraction
        Time to expiry [years], over the slices' dims.
    dim
        Dim of the quotes of one slice, which is the last dim of bare arrays. The other dims of bare arrays
        are named ``slice``, or ``slice_0``, ``slice_1``, … if there are several.
    weights
        Weights of the squared residuals of volatility, or an array such as ``1 / (ask_iv - bid_iv) ** 2``. A
        weight of 0 or NaN drops a quote. None is ``"vega"``; for slices with bid and ask it is one over the
        square of half the spread, so that residuals are measured in half spreads.

        - ``"vega"``: vega.
        - ``"price"``: vega squared, so that residuals are errors of price.
        - ``"equal"``: 1, so that each far strike counts as much as one at the money.
        - ``"variance"``: residuals are errors of total variance.
    iv_bid, iv_ask
        Volatilities of bid and ask, shaped like `iv`; NaN if missing. Only the distance outside bid and ask
        counts, so a fit between all bids and asks has no loss.
    forward
        Forward of each slice, returned as a coordinate.

    Returns
    -------
    Dataset over the slices' dims, as `derivdata.analysis.smile.evaluate` describes it
        NaN with a reason in ``status`` for a slice that cannot be fitted; ``OFF_QUOTES`` if the fit misses
        its quotes in one direction, as for a concave smile, which no slice can follow. Lazy if the input is;
        `dim` is then put into one chunk.

    Raises
    ------
    ValueError
        An unknown weighting; a missing dim; volatilities whose median is above 15, which must be in percent
        (lazy input is not checked).
    TypeError
        The dims of a bare array do not follow from those of the labelled ones.

    Notes
    -----
    Raw SVI minimises linearised volatility residuals ``(w − w_i) / (2 iv_i T)`` inside Lee's bound, all
    slices together by variable projection. ``rmse_vol`` is of the true volatility residuals.

    Slices with bid and ask are fitted to `iv` and then up to twenty times again, each time to the points
    between bid and ask nearest to the previous fit. The loop ends if the loss is zero. Of the fits of each
    slice, the one with the smallest squared distance outside is returned, so it is never worse than the fit
    to `iv`. This is a local search: it may end outside although some smile is between all bids and asks.
    """
    quotes = labelled(log_moneyness, iv, year_fraction, weights, iv_bid, iv_ask, core=(dim,), lead="slice")
    forwards = None
    if forward is not None:
        forwards = named(forward, [str(name) for name in quotes.iv.dims if name != dim], "forward")
        require_same({"forward": forwards}, quotes.iv, "iv")
    if quotes.iv.chunks is None:
        require_decimal_volatility(quotes.iv)
    # Stack all dims of the slices, and fit them in batches of limited memory.
    outputs = applied(
        lambda *blocks: in_rows(_fit_rows, blocks[:5], blocks[5:], core=1, most=_ROWS),
        *quotes,
        core=[[dim]] * 5 + [[]],
        out=[[]] * len(_TYPES),
        types=list(_TYPES.values()),
    )
    variables = dict(zip(_TYPES, outputs, strict=True))
    weighting = "default" if weights is None else "given"
    if isinstance(weights, str):
        weighting = weights
    fit = assemble(variables, quotes.t, forward=forwards, fit="svi", weights=weighting)
    return with_covariance(fit, quotes, dim, RAW)


def _fit_rows(k: Floats, iv: Floats, weight: Floats, bid: Floats, ask: Floats, t: Floats) -> tuple[Any, ...]:
    """Fit smiles (slice, strike), and return the variables of `_TYPES` in order."""
    quotes = prepare(k, iv, t, weight)
    fitted = fit_slices(quotes)
    if np.isfinite(bid).any() or np.isfinite(ask).any():
        fitted = fit_between(fitted, quotes, weight, bid, ask)
    w = svi.total_variance(k, at_index(fitted.raw, np.s_[:, None]))
    with np.errstate(invalid="ignore", divide="ignore"):
        model = np.sqrt(w / t[:, None])
    off = off_quotes(model, k, np.where(quotes.used, iv, np.nan), t, bid, ask)
    fitted.notes[off] |= Status.OFF_QUOTES
    n = quotes.used.sum(axis=1).astype(np.int32)
    facts = (fitted.method, fitted.rmse_vol, n, fitted.nfev, quotes.k_min, quotes.k_max, fitted.notes)
    return *fitted.raw, *facts
