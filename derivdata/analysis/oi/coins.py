"""Open interest in coins: what a holder of a constant position sees, whatever the price does."""

from __future__ import annotations

import xarray as xr

from derivdata.analysis.panels import require
from derivdata.support.arguments import typed


@typed
def in_coins(oi: xr.DataArray, price: xr.DataArray) -> xr.DataArray:
    """Convert open interest in USD to coins.

    Parameters
    ----------
    oi
        Open interest [USD] with dims ``symbol``, ``exchange`` and ``time``.
    price
        Mark prices [USD] with the same dims: a panel of ``dd.prices.history`` at the same resolution.

    Returns
    -------
    DataArray
        ``oi_coin`` [coin] in the dims and at the labels of `oi`. NaN where the venue has no price at the same
        instant: another venue's, or an older one, would look like a change of positions. A symbol that
        stands for 1000 coins, such as ``1000PEPE``, is priced per 1000 and counted in thousands.

    Raises
    ------
    ValueError, TypeError
        Dims are missing, or a unit is not USD.
    """
    require(oi, "symbol", "exchange", "time", units="USD", name="oi")
    require(price, "symbol", "exchange", "time", units="USD", name="price")
    oi, price = xr.align(oi, price, join="left")
    coins = oi / price.where(price > 0.0)
    return coins.transpose(*oi.dims).rename("oi_coin").assign_attrs(units="coin")
