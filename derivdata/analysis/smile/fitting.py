"""The one call that fits smiles."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from derivdata.analysis.inputs import require_decimal_volatility, require_same
from derivdata.analysis.smile.curves import Curves, curve_values
from derivdata.analysis.smile.fallback import FittedSlices, Options, fit_slices, rms_error
from derivdata.analysis.smile.fit_dataset import NODES, RAW, SABR, Method, assemble
from derivdata.analysis.smile.parameters import Floats, Raw
from derivdata.analysis.smile.quotes import SmileQuotes, prepare
from derivdata.analysis.smile.weighting import quote_weights
from derivdata.support.arguments import Numbers, typed

__all__ = ["fit"]

METHODS = {each.name.lower(): each for each in (Method.SVI, Method.SSVI, Method.SABR, Method.PCHIP)}
_ROWS = 8192
_ROUNDS = 20
_FACTS = {
    "method": np.int8,
    "repaired": np.bool_,
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
    method: Literal["svi", "ssvi", "sabr", "pchip"] = "svi",
    weights: Any = "vega",
    iv_bid: Numbers | None = None,
    iv_ask: Numbers | None = None,
    arbitrage: Literal["flag", "penalty", "gj", "ssvi"] = "flag",
    beta: float = 1.0,
    axis: Literal["k", "delta"] = "k",
    start: xr.Dataset | None = None,
    forward: Numbers | None = None,
) -> xr.Dataset:
    """Fit smiles to the quotes of every slice at once.

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
    method
        ``svi`` (raw, 5 different strikes), ``ssvi`` (butterfly-free slice, 3), ``sabr`` (Hagan, fixed
        `beta`, 3) or ``pchip`` (interpolation, 2). A slice with too few strikes takes the next rung: svi,
        ssvi, a line through two quotes, flat; its status says so and ``method`` names the rung.
    weights
        What multiplies squared residuals of volatility. ``"vega"``; ``"price"``: vega squared, which makes
        them residuals of price; ``"equal"``: 1, so that the many far strikes of a chain count like those
        at the money; ``"variance"``: makes them residuals of total variance. Or
        an array, for instance ``1 / (ask_iv - bid_iv) ** 2``; 0 and NaN drop a quote.
    iv_bid, iv_ask
        Volatilities of bid and ask like `iv`, NaN where there is none. With them only what lies outside
        counts: a fit between all bids and asks has no loss. Not with ``pchip``, which goes through quotes.
    arbitrage
        What to do with a slice that has a butterfly. ``"flag"``: note it in the status. ``"penalty"``:
        refit with a penalty on negative density. ``"gj"``: Gatheral and Jacquier's closed form, where its
        conditions hold. ``"ssvi"``: take the best SSVI slice instead. What cannot be repaired stays as it
        was, and flagged.
    beta
        SABR's elasticity.
    axis
        What pchip interpolates on: total variance in ``k``, or volatility in call ``delta``.
    start
        An earlier svi fit of such slices, without their time dim or with it; its slices are where the
        search begins.
    forward
        Forward of each slice, kept as a coordinate; SABR's alpha is in its units (else forward = 1).

    Returns
    -------
    Dataset over the slices' dims, as `derivdata.analysis.smile.fit_dataset` has it
        NaN and a reason in ``status`` where a slice cannot be fitted. Lazy if the input is; `dim` is then
        made one chunk.

    Raises
    ------
    ValueError
        An unknown method, weighting, repair or axis; options that do not go together; a missing dim;
        volatilities whose median is above 5, which must be in percent (lazy input is not checked).
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
    options = _options(method, arbitrage, beta, axis, start)
    if method == "pchip" and (iv_bid is not None or iv_ask is not None):
        raise ValueError("iv_bid and iv_ask do not go with method='pchip', which goes through the quotes")
    quotes = _labelled(log_moneyness, iv, year_fraction, weights, forward, dim)
    k, volatility, weight, t, f = (_one_chunk(part, dim) for part in quotes)
    sides = [np.nan if side is None else side for side in (iv_bid, iv_ask)]
    dims = [str(name) for name in volatility.dims]
    bid, ask = (
        _one_chunk(_wrap(side, dims, name), dim)
        for side, name in zip(sides, ("iv_bid", "iv_ask"), strict=True)
    )
    named = {"log_moneyness": k, "weights": weight, "year_fraction": t, "forward": f}
    named |= {"iv_bid": bid, "iv_ask": ask}
    require_same(named, volatility, "iv")
    if volatility.chunks is None:
        require_decimal_volatility(volatility)
    warm = _warm(start, k, volatility)
    names = [*RAW, *(SABR if options.method == Method.SABR else ()), *_FACTS]
    nodes = NODES if options.method == Method.PCHIP else ()
    parts = xr.apply_ufunc(
        _kernel(options),
        *(k, volatility, weight, *(xr.broadcast(side, volatility)[0] for side in (bid, ask)), t, f, *warm),
        input_core_dims=[[dim]] * 5 + [[]] * 7,
        output_core_dims=[[]] * len(names) + [["node"]] * len(nodes),
        dask="parallelized",
        output_dtypes=[_FACTS.get(name, np.float64) for name in (*names, *nodes)],
        dask_gufunc_kwargs={"output_sizes": {"node": volatility.sizes[dim]}} if nodes else {},
    )
    variables = dict(zip((*names, *nodes), parts, strict=True))
    attrs = {
        "fit": method,
        "weights": weights if isinstance(weights, str) else "given",
        "arbitrage": arbitrage,
    }
    if nodes:
        attrs["axis"] = axis
    return assemble(variables, t, forward=None if forward is None else f, **attrs)


def _options(method: str, arbitrage: str, beta: float, axis: str, start: Any) -> Options:
    if arbitrage in ("penalty", "gj") and method in ("sabr", "pchip"):
        raise ValueError(f"arbitrage={arbitrage!r} repairs raw SVI, not {method}; take 'flag' or 'ssvi'")
    if axis == "delta" and method != "pchip":
        raise ValueError(f"axis='delta' is for method='pchip', not {method!r}")
    if start is not None and method != "svi":
        raise ValueError(f"start is for method='svi', not {method!r}")
    return Options(METHODS[method], arbitrage, float(beta), axis == "delta")


def _labelled(k: Any, iv: Any, t: Any, weights: Any, forward: Any, dim: str) -> tuple[xr.DataArray, ...]:
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
    given = np.ones(iv.sizes[dim]) if isinstance(weights, str) else weights
    k, given = (_wrap(part, dims, name) for part, name in ((k, "log_moneyness"), (given, "weights")))
    for part, name in ((k, "log_moneyness"), (given, "weights")):
        if dim not in part.dims:
            raise ValueError(
                f"{name} has dims {part.dims} and no {dim!r}; name the dim of the quotes with dim="
            )
    one = 1.0 if forward is None else forward
    t = _wrap(t, slices, "year_fraction")
    if isinstance(weights, str):
        given = given * quote_weights(weights, k, iv, t)
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


def _warm(start: xr.Dataset | None, *quotes: xr.DataArray) -> list[xr.DataArray]:
    if start is None:
        return [xr.DataArray(np.nan)] * len(RAW)
    indexes = {name: index for part in quotes for name, index in part.indexes.items()}
    missing = [name for name in (*RAW, "method") if name not in start]
    if missing:
        raise ValueError(f"start has no {', '.join(missing)}: it is not an svi fit")
    raw = start[list(RAW)].reset_coords(drop=True)
    return list(
        raw.reindex({str(d): indexes[d] for d in raw.dims if d in indexes and d in raw.indexes}).values()
    )


def _kernel(options: Options) -> Callable[..., tuple[Any, ...]]:
    """Return the fit of arrays whose last axis, of the first five, are the quotes."""

    def kernel(
        k: Floats, iv: Floats, weight: Floats, bid: Floats, ask: Floats, *rest: Floats
    ) -> tuple[Any, ...]:
        table = (k, iv, weight, bid, ask)
        lead = np.broadcast_shapes(*(part.shape[:-1] for part in table), *(np.shape(p) for p in rest))
        count, strikes = int(np.prod(lead)), iv.shape[-1]
        quotes = [np.broadcast_to(part, (*lead, strikes)).reshape(count, strikes) for part in table]
        tall = [np.broadcast_to(part, lead).reshape(count) for part in rest]
        parts = [
            _fit_rows(*(part[at : at + _ROWS] for part in (*quotes, *tall)), options=options)
            for at in range(0, max(count, 1), _ROWS)
        ]
        joined = (np.concatenate(part) for part in zip(*parts, strict=True))
        return tuple(part.reshape(lead + part.shape[1:]) for part in joined)

    return kernel


def _fit_rows(
    k: Floats,
    iv: Floats,
    weight: Floats,
    bid: Floats,
    ask: Floats,
    t: Floats,
    forward: Floats,
    *start: Floats,
    options: Options,
) -> tuple[Any, ...]:
    quotes = prepare(k, iv, t, weight)
    fitted = fit_slices(quotes, forward, Raw(*start), options)
    if np.isfinite(bid).any() or np.isfinite(ask).any():
        _between(fitted, quotes, weight, bid, ask, forward, options)
    curves = fitted.curves
    n = quotes.used.sum(axis=1).astype(np.int32)
    facts = (fitted.repaired, fitted.notes, fitted.rmse_vol, n, fitted.nfev, quotes.k_min, quotes.k_max)
    nodes = () if curves.node_k is None else (curves.node_k, curves.node_w)
    return *curves.raw, *(curves.sabr or ()), curves.method, *facts, *nodes


def _between(
    fitted: FittedSlices,
    quotes: SmileQuotes,
    weight: Floats,
    bid: Floats,
    ask: Floats,
    forward: Floats,
    options: Options,
) -> None:
    """Fit again, to the places between bid and ask that are nearest to the fit before; see `fit`.

    Of one side only, the other is open; of neither, the quote stays.
    """
    # A crossed market has no place between its sides: the quote itself stays there.
    crossed = bid > ask
    low = np.where(np.isfinite(bid) & ~crossed, bid, np.where(np.isfinite(ask) & ~crossed, 0.0, quotes.iv))
    high = np.where(
        np.isfinite(ask) & ~crossed, ask, np.where(np.isfinite(bid) & ~crossed, np.inf, quotes.iv)
    )
    sided = (quotes.used & ((low != quotes.iv) | (high != quotes.iv))).any(axis=1)
    target, least = _nearest(fitted.curves, quotes, weight, low, high)
    begin = Raw(*(part.copy() for part in fitted.curves.raw))
    rows = np.flatnonzero(sided & (least > 0.0))
    for _ in range(_ROUNDS):
        if not rows.size:
            break
        places = prepare(quotes.k[rows], target[rows], quotes.t[rows], weight[rows])
        again = fit_slices(places, forward[rows], Raw(*(part[rows] for part in begin)), options)
        fitted.nfev[rows] += again.nfev
        # The next round starts from this fit, also where it is not the best one.
        for part, value in zip(begin, again.curves.raw, strict=True):
            part[rows] = value
        target[rows], loss = _nearest(again.curves, quotes.rows(rows), weight[rows], low[rows], high[rows])
        better = loss < least[rows]
        least[rows[better]] = loss[better]
        for part, value in zip(_results(fitted), _results(again), strict=True):
            part[rows[better]] = value[better]
        rows = rows[loss > 0.0]
    fitted.rmse_vol[:] = rms_error(fitted.curves, quotes)


def _nearest(
    curves: Curves, quotes: SmileQuotes, weight: Floats, low: Floats, high: Floats
) -> tuple[Floats, Floats]:
    """Return the places from `low` to `high` nearest to the slices, NaN without a quote, and each one's loss.

    Where a slice has no value the place is the quote, and the loss is infinite.
    """
    with np.errstate(invalid="ignore", divide="ignore"):
        model = np.sqrt(curve_values(curves.standing(), quotes.k) / quotes.t[:, None])
        valued = np.isfinite(model)
        target = np.where(valued, np.clip(model, low, high), quotes.iv)
        outside = np.where(valued, model - target, np.inf)
        loss = np.where(quotes.used, weight * outside**2, 0.0).sum(axis=1)
    return np.where(quotes.used, target, np.nan), loss


def _results(fitted: FittedSlices) -> tuple[NDArray[Any], ...]:
    """Return the arrays that one fit of a slice differs in from another, but for its ``nfev``."""
    curves = fitted.curves
    return *curves.raw, *(curves.sabr or ()), curves.method, fitted.repaired, fitted.notes
