"""The one call that fits smiles."""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr

from derivdata.analysis.inputs import require_decimal_volatility, require_same
from derivdata.analysis.smile.evaluate import RAW, assemble
from derivdata.analysis.smile.quotes import prepare, quote_weights
from derivdata.analysis.smile.slices import fit_between, fit_slices
from derivdata.analysis.smile.svi import Raw
from derivdata.support.arguments import Numbers, typed
from derivdata.support.arrays import Floats

_ROWS = 8192
_SIDES = ("iv_bid", "iv_ask")
_FACTS = {
    "method": np.int8,
    "status": np.int32,
    "rmse_vol": np.float64,
    "n": np.int32,
    "nfev": np.int32,
    "k_min": np.float64,
    "k_max": np.float64,
}


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
    initial: xr.Dataset | None = None,
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
    initial
        An earlier fit of such slices, without their time dim or with it; its slices are where the search
        begins.
    forward
        Forward of each slice, kept as a coordinate.

    Returns
    -------
    Dataset over the slices' dims, as `derivdata.analysis.smile.evaluate` describes it
        NaN and a reason in ``status`` where a slice cannot be fitted. Lazy if the input is; `dim` is then
        made one chunk.

    Raises
    ------
    ValueError
        An unknown weighting; a missing dim; volatilities whose median is above 5, which must be in percent
        (lazy input is not checked).
    TypeError
        A bare array beside labelled ones whose dims are not plain from theirs.

    Notes
    -----
    Raw SVI minimises linearised volatility residuals ``(w − w_i) / (2 iv_i T)`` inside Lee's bound, all
    slices together by variable projection. ``rmse_vol`` is of the true volatility residuals.

    Slices with bid and ask are fitted to `iv` and then up to twenty times again, each time to the places
    between bid and ask that are nearest to the fit before; a fit without loss is the last. Each slice keeps
    the one of its fits with the least squared distance outside, so it is never worse than the fit to `iv`.
    This is a local search: it may end outside although some smile lies between all bids and asks.
    """
    quotes = _labelled(log_moneyness, iv, year_fraction, weights, forward, dim, (iv_bid, iv_ask))
    k, volatility, weight, t, f = (_one_chunk(part, dim) for part in quotes)
    dims = [str(name) for name in volatility.dims]
    bid, ask = (
        _one_chunk(_wrap(np.nan if side is None else side, dims, name), dim)
        for side, name in zip((iv_bid, iv_ask), _SIDES, strict=True)
    )
    named = {"log_moneyness": k, "weights": weight, "year_fraction": t, "forward": f}
    require_same(named | {"iv_bid": bid, "iv_ask": ask}, volatility, "iv")
    if volatility.chunks is None:
        require_decimal_volatility(volatility)
    names = (*RAW, *_FACTS)
    parts = xr.apply_ufunc(
        _kernel,
        *(k, volatility, weight, *(xr.broadcast(side, volatility)[0] for side in (bid, ask))),
        *(t, *_warm(initial, k, volatility)),
        input_core_dims=[[dim]] * 5 + [[]] * 6,
        output_core_dims=[[]] * len(names),
        dask="parallelized",
        output_dtypes=[_FACTS.get(name, np.float64) for name in names],
    )
    variables = dict(zip(names, parts, strict=True))
    weighting = weights if isinstance(weights, str) else "given" if weights is not None else "default"
    return assemble(variables, t, forward=None if forward is None else f, fit="svi", weights=weighting)


def _labelled(
    k: Any, iv: Any, t: Any, weights: Any, forward: Any, dim: str, sides: tuple[Any, Any]
) -> tuple[xr.DataArray, ...]:
    if not isinstance(iv, xr.DataArray):
        iv = np.asarray(iv, dtype=np.float64)
        names = ["slice"] if iv.ndim == 2 else [f"slice_{i}" for i in range(iv.ndim - 1)]
        dims = [*names, dim][len(names) + 1 - iv.ndim :]
        iv = xr.DataArray(iv, dims=dims)
        slices = [name for name in dims if name != dim]
    else:
        others = [str(name) for name in iv.dims if name != dim]
        dims, slices = [dim], others if len(others) == 1 else []
    if dim not in iv.dims:
        raise ValueError(f"iv has dims {iv.dims} and no {dim!r}; name the dim of the quotes with dim=")
    named = weights is None or isinstance(weights, str)
    given = np.ones(iv.sizes[dim]) if named else weights
    k, given = (_wrap(part, dims, name) for part, name in ((k, "log_moneyness"), (given, "weights")))
    for part, name in ((k, "log_moneyness"), (given, "weights")):
        if dim not in part.dims:
            raise ValueError(
                f"{name} has dims {part.dims} and no {dim!r}; name the dim of the quotes with dim="
            )
    one = 1.0 if forward is None else forward
    t = _wrap(t, slices, "year_fraction")
    if named:
        pair: list[Any] = [None, None]
        if any(side is not None for side in sides):
            both = zip(sides, _SIDES, strict=True)
            pair = [_wrap(np.nan if side is None else side, dims, name) for side, name in both]
        given = given * quote_weights(weights, k, iv, t, (pair[0], pair[1]), (dim,))
    return k, iv, given, t, _wrap(one, slices, "forward")


def _wrap(value: Any, dims: list[str], name: str) -> xr.DataArray:
    if isinstance(value, xr.DataArray):
        return value
    try:
        array = np.asarray(value, dtype=np.float64)
    except (ValueError, TypeError):
        raise TypeError(f"{name} must be numbers, not {type(value).__name__}") from None
    if array.ndim > len(dims):
        raise TypeError(
            f"{name} is a bare array of {array.ndim} dims; wrap it in a DataArray that names them"
        )
    return xr.DataArray(array, dims=dims[len(dims) - array.ndim :])


def _one_chunk(part: xr.DataArray, dim: str) -> xr.DataArray:
    return part.chunk({dim: -1}) if part.chunks is not None and dim in part.dims else part


def _warm(initial: xr.Dataset | None, *quotes: xr.DataArray) -> list[xr.DataArray]:
    if initial is None:
        return [xr.DataArray(np.nan)] * len(RAW)
    indexes = {name: index for part in quotes for name, index in part.indexes.items()}
    missing = [name for name in (*RAW, "method") if name not in initial]
    if missing:
        raise ValueError(f"initial has no {', '.join(missing)}: it is not an svi fit")
    raw = initial[list(RAW)].reset_coords(drop=True)
    return list(
        raw.reindex({str(d): indexes[d] for d in raw.dims if d in indexes and d in raw.indexes}).values()
    )


def _kernel(
    k: Floats, iv: Floats, weight: Floats, bid: Floats, ask: Floats, *rest: Floats
) -> tuple[Any, ...]:
    """Fit arrays whose last axis, of the first five, are the quotes, some rows at a time."""
    table = (k, iv, weight, bid, ask)
    lead = np.broadcast_shapes(*(part.shape[:-1] for part in table), *(np.shape(p) for p in rest))
    count, strikes = int(np.prod(lead)), iv.shape[-1]
    quotes = [np.broadcast_to(part, (*lead, strikes)).reshape(count, strikes) for part in table]
    tall = [np.broadcast_to(part, lead).reshape(count) for part in rest]
    parts = [
        _fit_rows(*(part[at : at + _ROWS] for part in (*quotes, *tall)))
        for at in range(0, max(count, 1), _ROWS)
    ]
    return tuple(np.concatenate(part).reshape(lead) for part in zip(*parts, strict=True))


def _fit_rows(
    k: Floats, iv: Floats, weight: Floats, bid: Floats, ask: Floats, t: Floats, *initial: Floats
) -> tuple[Any, ...]:
    quotes = prepare(k, iv, t, weight)
    fitted = fit_slices(quotes, Raw(*initial))
    if np.isfinite(bid).any() or np.isfinite(ask).any():
        fitted = fit_between(fitted, quotes, weight, bid, ask)
    n = quotes.used.sum(axis=1).astype(np.int32)
    facts = (fitted.method, fitted.notes, fitted.rmse_vol, n, fitted.nfev, quotes.k_min, quotes.k_max)
    return *fitted.raw, *facts
