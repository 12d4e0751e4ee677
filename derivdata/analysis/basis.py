"""Basis: how far a perpetual trades from its index, and the same perpetual on one venue from another.

A basis is in basis points of what it is measured against: ``10,000 (price / reference − 1)``. Prices are
compared at equal instants only; two sides that are a minute apart would measure the market's move.
"""

from __future__ import annotations

import xarray as xr

from derivdata.analysis.panels import Panel, refuse_other_coins, require, require_venues, unit_of
from derivdata.support.arguments import typed
from derivdata.units import BPS

__all__ = ["against"]
__dir__ = __all__.copy


@typed
def against(price: Panel, reference: Panel | str) -> xr.DataArray:
    """Compute the basis of perpetuals against their venues' indices, or against one of the venues.

    Parameters
    ----------
    price
        Mark or last prices [USD] of one kind, dims ``exchange`` and ``time``, others allowed: what
        ``dd.prices.history`` returns, or its panel.
    reference
        Index prices [USD], or spot prices in the currency of the contracts (``dd.prices.spot``), dims
        ``symbol``, ``exchange`` and ``time`` as `price` then needs them; or the venue to measure against.

    Returns
    -------
    DataArray
        ``basis_bps`` [bps], positive where a perpetual is above its reference: dims of `price`; against
        indices, the symbols, venues and instants that both have. The venue measured against is at 0. NaN
        where either has no price.

    Raises
    ------
    ValueError, TypeError
        Dims are missing, the unit is another one, or the venue is not in the panel; two lie over 5 % apart
        throughout, as those of another coin under the same ticker do (of a lazy panel nothing is read).

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
        refuse_other_coins(price, "price")
        other = price.sel(exchange=reference).drop_vars("exchange")
        return _basis(price, other).transpose(*price.dims).assign_attrs(reference=reference)
    price = require(price, "symbol", "exchange", "time", units="USD", name="price")
    index = require(reference, "symbol", "exchange", "time", name="reference")
    if unit_of(index, "reference") != "quote":
        index = require(index, units="USD", name="reference")
    price, index = xr.align(price, index, join="inner")
    _refuse_apart(price, index)
    return _basis(price, index).transpose(*price.dims)


def _basis(price: xr.DataArray, reference: xr.DataArray) -> xr.DataArray:
    # No price is zero or below: such a value is a venue's "none", and its ratio would be infinite.
    price, reference = price.where(price > 0.0), reference.where(reference > 0.0)
    return (BPS * (price / reference - 1.0)).rename("basis_bps").assign_attrs(units="bps")


def _refuse_apart(price: xr.DataArray, index: xr.DataArray) -> None:
    """Refuse prices and indices of which a venue's are not those of one coin."""
    if price.chunks is not None or index.chunks is not None:
        return
    for venue in price["exchange"].values:
        sides = {"price": price.sel(exchange=venue, drop=True), "index": index.sel(exchange=venue, drop=True)}
        refuse_other_coins(
            xr.concat(list(sides.values()), xr.DataArray(list(sides), dims="exchange", name="exchange")),
            f"price and index of {venue}",
        )
