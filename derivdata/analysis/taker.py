"""Taker volume: imbalance of buys and sells, and cumulative volume delta."""

from __future__ import annotations

import xarray as xr

from derivdata.analysis.panels import Panel, hours, require
from derivdata.support.arguments import typed

__all__ = ["cumulative_delta", "imbalance"]
__dir__ = __all__.copy


@typed
def imbalance(buy: Panel, sell: Panel) -> xr.DataArray:
    """Compute the imbalance of taker volume: buys minus sells over their sum.

    Parameters
    ----------
    buy, sell
        Taker buys and sells [USD] per step, any dims: ``dd.panel(taken, "buy_usd")`` and ``"sell_usd"`` of
        ``dd.volume.taker``. Pass sums over longer windows for the imbalance of those windows.

    Returns
    -------
    DataArray, dims of the panels
        ``(buy − sell) / (buy + sell)`` [1], from −1 (only sells) to 1 (only buys). NaN where a side is
        missing or nothing was traded.

    Raises
    ------
    ValueError, TypeError
        An argument is not a panel, or its unit is not USD.

    Examples
    --------
    >>> taken = dd.volume.taker("BTC", "7d", venues=["okx"])
    >>> share = dd.analysis.taker.imbalance(dd.panel(taken, "buy_usd"), dd.panel(taken, "sell_usd"))
    >>> bool((abs(share) < 1.0).all())
    True
    """
    buy, sell = _sides(buy, sell)
    traded = buy + sell
    return ((buy - sell) / traded.where(traded > 0.0)).rename("imbalance").assign_attrs(units="1")


@typed
def cumulative_delta(buy: Panel, sell: Panel) -> xr.DataArray:
    """Return the cumulative sum of taker buys minus sells: the cumulative volume delta.

    Parameters
    ----------
    buy, sell
        As in `imbalance`, with dim ``time``.

    Returns
    -------
    DataArray, dims of the panels
        ``delta_usd`` [USD] at the end of each step, from the first step on. NaN if a side is missing; the sum
        continues without that step, so levels of venues with gaps are not comparable.

    Raises
    ------
    ValueError, TypeError
        As in `imbalance`; there is no dim ``time``, or it does not ascend.
    """
    buy, sell = _sides(buy, sell, "time")
    delta = buy - sell
    hours(delta, name="buy and sell")
    return delta.cumsum("time").where(delta.notnull()).rename("delta_usd").assign_attrs(units="USD")


def _sides(buy: Panel, sell: Panel, *dims: str) -> tuple[xr.DataArray, xr.DataArray]:
    """Check both panels, and align them on the labels of either."""
    bought = require(buy, *dims, units="USD", name="buy")
    sold = require(sell, *dims, units="USD", name="sell")
    if set(bought.dims) != set(sold.dims):
        raise ValueError(f"buy and sell must have the same dims, got {bought.dims} and {sold.dims}")
    for name, side in (("buy", bought), ("sell", sold)):
        for dim, index in side.indexes.items():
            if not index.is_unique:
                twice = index[index.duplicated()][0]
                raise ValueError(f"{name} must have {twice} once along {dim!r}: keep one of its rows")
    return xr.align(bought, sold, join="outer")
