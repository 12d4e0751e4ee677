"""Basis of perpetuals: the difference from the index, and the difference between venues.

A basis is in basis points of its reference: ``10,000 (price / reference − 1)``. Prices are compared at equal
times only. If the two sides were a minute apart, the basis would include the market's move.
"""

from __future__ import annotations

import numpy as np
import xarray as xr

from derivdata.analysis.panels import Panel, require, require_venues, unit_of
from derivdata.analysis.settlements import Apart, apart_by_5_percent, of_one_coin
from derivdata.support.arguments import typed
from derivdata.tables.frames import PRICES_AGREE
from derivdata.units import BPS

__all__ = ["against"]
__dir__ = __all__.copy


@typed
def against(price: Panel, reference: Panel | str, *, apart: Apart = "raise") -> xr.DataArray:
    """Compute the basis of perpetuals against their venues' indices, or against one of the venues.

    Parameters
    ----------
    price
        Mark or last prices [USD] of one kind, dims ``exchange`` and ``time``, others allowed: the result of
        ``dd.prices.history``, or its panel.
    reference
        Index prices [USD], or spot prices in the currency of the contracts (``dd.prices.spot``); then both
        panels need the dims ``symbol``, ``exchange`` and ``time``. Or the name of a venue in `price`, with
        which the other venues are compared.
    apart
        How to handle a series that appears to be another coin with the same ticker, because it differs from
        the other side by a factor above 1.25 in the median, or above 2 at a tenth of the timestamps.
        ``"raise"`` raises if every symbol has such a series, and otherwise omits these series with a notice.
        ``"keep"`` uses them. Other prices more than 5 % apart, as in a squeeze or before a listing, are used
        with a `DataNotice`.

    Returns
    -------
    DataArray
        ``basis_bps`` [bps] over the dims of `price`, positive if a perpetual is above its reference. With
        index or spot prices the result has the symbols, venues and times that both panels have. With a venue
        as reference, that venue has 0. NaN if either price is missing. With ``apart="keep"`` the coordinate
        ``apart`` is True for prices more than 5 % apart.

    Raises
    ------
    ValueError, TypeError
        A dim is missing, the unit is different, the venue is not in `price`, or prices are of another coin
        (not checked for lazy panels).

    Examples
    --------
    >>> mark = dd.prices.history("BTC", "1d", venues=["okx"])
    >>> index = dd.prices.history("BTC", "1d", venues=["okx"], kind="index")
    >>> dd.analysis.basis.against(mark, index).sizes["time"]
    24
    """
    if isinstance(reference, str):
        price = require(price, "exchange", "time", units="USD", name="price")
        require_venues(price, reference=reference)
        price = of_one_coin(price, "prices", apart)
        other = price.sel(exchange=reference).drop_vars("exchange")
        result = _basis(price, other).transpose(*price.dims).assign_attrs(reference=reference)
        if apart == "keep":
            return result.assign_coords(apart=apart_by_5_percent(price).transpose(*price.dims))
        return result
    price = require(price, "symbol", "exchange", "time", units="USD", name="price")
    index = require(reference, "symbol", "exchange", "time", name="reference")
    if unit_of(index, "reference") != "quote":
        index = require(index, units="USD", name="reference")
    price, index = xr.align(price, index, join="inner")
    result = _basis(_of_one_coin(price, index, apart), index).transpose(*price.dims)
    if apart == "keep":
        logs = xr.apply_ufunc(np.log1p, result / BPS, dask="allowed")
        return result.assign_coords(apart=abs(logs) > PRICES_AGREE)
    return result


def _basis(price: xr.DataArray, reference: xr.DataArray) -> xr.DataArray:
    # Venues send 0 for a missing price, which would give an infinite ratio.
    price = price.where(price > 0.0)
    reference = reference.where(reference > 0.0)
    return (BPS * (price / reference - 1.0)).rename("basis_bps").assign_attrs(units="bps")


def _of_one_coin(price: xr.DataArray, index: xr.DataArray, apart: Apart) -> xr.DataArray:
    """Return the prices, without those of venues whose index belongs to another coin."""
    if price.chunks is not None or index.chunks is not None:
        return price
    # Price and index are checked like the prices of two venues, which must belong to one coin.
    checked = []
    for venue in price["exchange"].values:
        sides = {"price": price.sel(exchange=venue, drop=True), "index": index.sel(exchange=venue, drop=True)}
        both = xr.concat(list(sides.values()), xr.DataArray(list(sides), dims="exchange", name="exchange"))
        checked.append(of_one_coin(both, f"price and index of {venue}", apart).sel(exchange="price"))
    if not checked:
        return price
    return xr.concat(checked, price["exchange"]).transpose(*price.dims)
