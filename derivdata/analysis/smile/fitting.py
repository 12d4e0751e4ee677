"""The one call that fits smiles."""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr

from derivdata.analysis.inputs import require_decimal_volatility, require_same
from derivdata.analysis.labelling import applied, named
from derivdata.analysis.smile.evaluate import FACTS, RAW, assemble
from derivdata.analysis.smile.quotes import in_rows, labelled, prepare
from derivdata.analysis.smile.slices import fit_between, fit_slices
from derivdata.analysis.smile.svi import Raw, total_variance
from derivdata.analysis.smile.uncertainty import off_quotes, with_covariance
from derivdata.analysis.status import Status
from derivdata.support.arguments import Numbers, typed
from derivdata.support.arrays import Floats

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
    """Fit raw SVI smiles to the quotes of every slice at once, each slice alone.

    Slices may have butterflies, which are flagged: `derivdata.analysis.surface.fit` is free of them, also of
    a single expiry. A slice needs 5 different strikes. With fewer it takes the next rung: an SSVI slice (3),
    a line through two quotes, flat; its status says so and ``method`` names the rung.

    Parameters
    ----------
    log_moneyness
        ``ln(K/F)`` of the quotes, over `dim` and any dims of the slices.
    iv
        Implied volatility [decimal, per √year]. NaN, infinity and what is not positive drop a quote.
    year_fraction
        Time to expiry [years], over the slices' dims.
    dim
        The dim of the quotes of one slice, the last one of bare arrays. Bare arrays of two dims get the
        dim ``slice``, of more ``slice_0``, ``slice_1``, ….
    weights
        What multiplies squared residuals of volatility. None: ``"vega"``, and with bid and ask one over half
        the squared spread, which makes residuals half spreads (slices with neither have vega). ``"vega"``;
        ``"price"``: vega squared, which makes them residuals of price; ``"equal"``: 1, so that the many far
        strikes of a chain count like those at the money; ``"variance"``: makes them residuals of total
        variance. Or an array, for instance ``1 / (ask_iv - bid_iv) ** 2``; 0 and NaN drop a quote.
    iv_bid, iv_ask
        Volatilities of bid and ask like `iv`, NaN where there is none. With them only what lies outside
        counts: a fit between all bids and asks has no loss.
    forward
        Forward of each slice, kept as a coordinate.

    Returns
    -------
    Dataset over the slices' dims, as `derivdata.analysis.smile.evaluate` describes it
        NaN and a reason in ``status`` where a slice cannot be fitted; ``OFF_QUOTES`` where it misses its
        quotes in one direction, as a concave smile's, whose shape no slice has. Lazy if the input is; `dim`
        is then made one chunk.

    Raises
    ------
    ValueError
        An unknown weighting; a missing dim; volatilities whose median is above 15, which must be in percent
        (lazy input is not checked).
    TypeError
        A bare array next to labelled ones whose dims are not plain from theirs.

    Notes
    -----
    Raw SVI minimises linearised volatility residuals ``(w − w_i) / (2 iv_i T)`` inside Lee's bound, all
    slices together by variable projection. ``rmse_vol`` is of the true volatility residuals.

    Slices with bid and ask are fitted to `iv` and then up to twenty times again, each time to the places
    between bid and ask that are nearest to the fit before; a fit without loss is the last. Each slice keeps
    the one of its fits with the least squared distance outside, so it is never worse than the fit to `iv`.
    This is a local search: it may end outside although some smile lies between all bids and asks.
    """
    quotes = labelled(log_moneyness, iv, year_fraction, weights, iv_bid, iv_ask, core=(dim,), lead="slice")
    forwards = None
    if forward is not None:
        forwards = named(forward, [str(name) for name in quotes.iv.dims if name != dim], "forward")
        require_same({"forward": forwards}, quotes.iv, "iv")
    if quotes.iv.chunks is None:
        require_decimal_volatility(quotes.iv)
    parts = applied(
        lambda *blocks: in_rows(_fit_rows, blocks[:5], blocks[5:], core=1, most=_ROWS),
        *quotes,
        core=[[dim]] * 5 + [[]],
        out=[[]] * len(_TYPES),
        types=list(_TYPES.values()),
    )
    variables = dict(zip(_TYPES, parts, strict=True))
    weighting = weights if isinstance(weights, str) else "given" if weights is not None else "default"
    fit = assemble(variables, quotes.t, forward=forwards, fit="svi", weights=weighting)
    return with_covariance(fit, quotes, dim, RAW)


def _fit_rows(k: Floats, iv: Floats, weight: Floats, bid: Floats, ask: Floats, t: Floats) -> tuple[Any, ...]:
    quotes = prepare(k, iv, t, weight)
    fitted = fit_slices(quotes)
    if np.isfinite(bid).any() or np.isfinite(ask).any():
        fitted = fit_between(fitted, quotes, weight, bid, ask)
    w = total_variance(k, Raw(*(part[:, None] for part in fitted.raw)))
    with np.errstate(invalid="ignore", divide="ignore"):
        model = np.sqrt(w / t[:, None])
    off = off_quotes(model, k, np.where(quotes.used, iv, np.nan), t, bid, ask)
    fitted.notes[off] |= Status.OFF_QUOTES
    n = quotes.used.sum(axis=1).astype(np.int32)
    facts = (fitted.method, fitted.rmse_vol, n, fitted.nfev, quotes.k_min, quotes.k_max, fitted.notes)
    return *fitted.raw, *facts
