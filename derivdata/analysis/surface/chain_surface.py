"""From a chain of options to its surface in one call."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from derivdata.analysis import chain as chains
from derivdata.analysis import smile
from derivdata.analysis.surface.fitting import SurfaceMethod, fit
from derivdata.arguments import Numbers, typed

__all__ = ["from_chain"]


@typed
def from_chain(
    chain: pd.DataFrame | xr.Dataset,
    *,
    method: SurfaceMethod = "essvi",
    weights: Any = "vega",
    as_of: Any = None,
    given: Any = None,
    spot: Numbers | None = None,
) -> xr.Dataset:
    """Surface of the options out of the money of one chain or of many.

    Parameters
    ----------
    chain
        The table ``options_snapshot``, a surface of `derivdata.options`, or what
        `derivdata.analysis.chain.clean` made of one; symbols, venues and instants that differ become dims.
    method
        As in `fit`.
    weights
        As in `fit`, or ``"spread"``: one over the squared bid-ask spread in volatility, which needs a chain
        with quotes.
    as_of, given, spot
        Instant of the quotes, forwards and spot, as in `derivdata.analysis.chain`.

    Returns
    -------
    Dataset
        What `fit` gives, with coordinate ``forward`` [USD]; ``status`` also holds what the forward's says.
        Where the chain has quotes, ``breach_vol`` [per √year]: how far at most the surface lies outside
        bid and ask, 0 if nowhere.

    Raises
    ------
    ValueError
        What `derivdata.analysis.chain` and `fit` raise; ``"spread"`` without quotes.

    Examples
    --------
    >>> surface = dd.analysis.surface.from_chain(dd.options.snapshot("BTC", "deribit"))
    >>> surface.sizes["expiry"], bool(dd.analysis.surface.calendar_check(surface)["ok"].all())
    (11, True)
    """
    quotes = chains.smiles(chains.clean(chain, as_of=as_of), given=given, spot=spot)
    k, iv, t = quotes["log_moneyness"], quotes["iv"], quotes["year_fraction"]
    quoted = "iv_bid" in quotes and bool((quotes["iv_ask"] - quotes["iv_bid"]).notnull().any())
    if isinstance(weights, str) and weights == "spread":
        if not quoted:
            raise ValueError("weights='spread' needs a chain with bid and ask prices")
        spread = quotes["iv_ask"] - quotes["iv_bid"]
        weights = 1.0 / spread.where(spread > 0.0) ** 2
    surface = fit(k, iv, t, method=method, weights=weights, forward=quotes["forward"])
    status = (surface["status"] | quotes["forward_status"]).astype(np.int32)
    surface["status"] = status.assign_attrs(surface["status"].attrs)
    if quoted:
        model = smile.iv(surface, k, extrapolate=True)
        outside = xr.concat([quotes["iv_bid"] - model, model - quotes["iv_ask"]], "edge")
        surface["breach_vol"] = outside.max(["edge", "strike"]).clip(0.0).assign_attrs(units="1/sqrt(year)")
    return surface.assign_attrs({name: said for name, said in quotes.attrs.items() if name == "provenance"})
