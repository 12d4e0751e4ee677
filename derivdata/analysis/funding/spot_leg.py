"""Spot as a leg of a pair: no funding, and what it costs to borrow coins."""

from __future__ import annotations

import numpy as np
import xarray as xr

from derivdata.analysis.panels import Panel, require_rate
from derivdata.support.arguments import typed

OWNED, BORROWED = "spot", "borrowed"
"""Venues whose legs are coins: of the first they are bought, of the second they are borrowed and sold."""


@typed
def with_spot(panel: Panel, *, borrow_apr: float | None = None) -> xr.DataArray:
    """Add spot to a panel of funding rates, as venues whose legs are coins instead of contracts.

    Parameters
    ----------
    panel
        Funding rates [bps/8h], dims ``exchange`` and ``time``, others allowed.
    borrow_apr
        What borrowed coins cost [fraction per year].

    Returns
    -------
    DataArray, dims of the panel
        Its venues and ``"spot"``, at 0 where a symbol's venue with the most rates has one: to be long of.
        With `borrow_apr` also ``"borrowed"``, at minus its rate, which the short pays: to be short of. Pairs
        such as ``("spot", "binance")`` then go through ``forecast_carry`` and the other functions of pairs; a
        trade of spot has a fee of its own in ``fee_bps``, and its price is that of ``dd.prices.spot``.

    Raises
    ------
    ValueError, TypeError
        The panel is none of rates or has these venues already; `borrow_apr` is below 0 or not finite.
    """
    rates = require_rate(panel, "exchange", "time")
    if borrow_apr is not None and not 0.0 <= borrow_apr < np.inf:
        raise ValueError(f"{borrow_apr=} is no cost of a year: a fraction of 0 or more")
    legs = {OWNED: 0.0} | ({} if borrow_apr is None else {BORROWED: -1e4 * borrow_apr / (3 * 365)})
    if taken := [str(name) for name in rates["exchange"].values if name in legs]:
        raise ValueError(f"panel has the venue {taken[0]!r} already")
    model = free_leg(rates)
    added = [(model + rate).expand_dims(exchange=[name]) for name, rate in legs.items()]
    joined: xr.DataArray = xr.concat([rates, *added], "exchange", join="exact")
    return joined.rename(rates.name).assign_attrs(rates.attrs)


def free_leg(rates: xr.DataArray) -> xr.DataArray:
    """Return rates of 0 at the instants of the venue with the most rates of each symbol."""
    if not rates.sizes["exchange"]:
        raise ValueError("no venue of rates along exchange: a leg without funding takes the instants of one")
    most = rates.count("time").argmax("exchange").compute()
    return 0.0 * rates.isel(exchange=most).drop_vars("exchange")
