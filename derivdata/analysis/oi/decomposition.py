"""Open interest in coins, and a change of it taken apart: price, growth, and share of each venue."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import xarray as xr

from derivdata.analysis.panels import Panel, refuse_negative, require, require_quantity, unit_of
from derivdata.support import times
from derivdata.support.arguments import typed
from derivdata.units import USD_UNIT


@typed
def in_coins(oi: Panel, price: Panel) -> xr.DataArray:
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
    oi = require(oi, "symbol", "exchange", "time", units="USD", name="oi")
    price = require(price, "symbol", "exchange", "time", units="USD", name="price")
    oi, price = xr.align(oi, price, join="left")
    coins = oi / price.where(price > 0.0)
    return coins.transpose(*oi.dims).rename("oi_coin").assign_attrs(units="coin")


@typed
def migration(
    oi: Panel,
    start: Any,
    end: Any,
    *,
    method: Literal["base", "midpoint", "lmdi"] = "midpoint",
    price: xr.DataArray | None = None,
) -> xr.Dataset:
    """Split the change of each venue's open interest into the market's growth and its change of share.

    Parameters
    ----------
    oi
        Open interest with dims ``exchange`` and ``time``.
    start, end
        Two labels of ``time``.
    method
        ``"midpoint"`` (exact), ``"base"`` (with an interaction term), ``"lmdi"`` (log mean; the midpoint's
        where an end is 0).
    price
        Price of the asset over ``time`` [USD]. Given, the change in USD is first cut into a price part and
        a quantity part, and the quantity part is decomposed: without it a rally looks like growth.

    Returns
    -------
    Dataset
        ``growth``, ``share`` and, as the case may be, ``interaction`` and ``price`` per venue, in the unit
        of `oi`; they add to ``change``. A venue without a figure at either end is NaN and left out of the
        total.

    Raises
    ------
    ValueError
        Dims or labels are absent, the unit is unstated, or the method is unknown.

    Examples
    --------
    >>> held = xr.DataArray(
    ...     [[100.0, 180.0], [100.0, 120.0]],
    ...     {"exchange": ["a", "b"], "time": pd.to_datetime(["2026-06-01", "2026-06-02"])},
    ...     ("exchange", "time"),
    ...     attrs={"units": "USD"},
    ... )
    >>> dd.analysis.oi.migration(held, "2026-06-01", "2026-06-02")[["growth", "share"]].to_dataframe()
              growth  share
    exchange
    a           55.0   25.0
    b           45.0  -25.0
    """
    oi = require_quantity(oi, "exchange", "time")
    refuse_negative(oi)
    first, last = (_at(oi, when, name, "oi") for when, name in ((start, "start"), (end, "end")))
    there = first.notnull() & last.notnull()
    first, last = first.where(there), last.where(there)
    change = last - first
    parts: dict[str, xr.DataArray] = {}
    scale: Any = 1.0
    if price is not None:
        require(price, "time", units=USD_UNIT if unit_of(price, "price") else None, name="price")
        p0, p1 = (_at(price, when, name, "price") for when, name in ((start, "start"), (end, "end")))
        first, last, scale = first / p0, last / p1, (p0 + p1) / 2
        parts["price"] = (first + last) / 2 * (p1 - p0)
    t0, t1 = first.sum("exchange"), last.sum("exchange")
    parts |= {n: scale * v for n, v in _METHODS[method](first, last, t0, t1).items()}
    unit = unit_of(oi, "oi")
    every = (parts | {"change": change}).items()
    result = xr.Dataset({name: part.drop_attrs().assign_attrs(units=unit) for name, part in every})
    return result.assign_attrs(units=unit, method=method)


def _at(data: xr.DataArray, when: Any, name: str, of: str) -> xr.DataArray:
    instant = times.naive_utc(times.instant(when, name))
    if "time" not in data.indexes:
        raise ValueError(f"{of} has no labels along time")
    try:
        return data.sel(time=instant, drop=True)
    except (KeyError, TypeError):
        raise ValueError(f"{name}={when!r} is not an instant of the panel {of}") from None


def _base(x0: Any, x1: Any, t0: Any, t1: Any) -> dict[str, Any]:
    s0, s1 = x0 / t0, x1 / t1
    return {"growth": s0 * (t1 - t0), "share": t0 * (s1 - s0), "interaction": (s1 - s0) * (t1 - t0)}


def _midpoint(x0: Any, x1: Any, t0: Any, t1: Any) -> dict[str, Any]:
    s0, s1 = x0 / t0, x1 / t1
    return {"growth": (s0 + s1) / 2 * (t1 - t0), "share": (t0 + t1) / 2 * (s1 - s0)}


def _lmdi(x0: Any, x1: Any, t0: Any, t1: Any) -> dict[str, Any]:
    defined = (x0 > 0) & (x1 > 0)
    ratio = (x1 / x0).where(defined, 1.0)
    flat = np.abs(ratio - 1.0) < 1e-12
    mean = ((x0 + x1) / 2).where(flat, (x1 - x0) / np.log(ratio.where(~flat, 2.0)))
    other = _midpoint(x0, x1, t0, t1)
    growth = (mean * np.log(t1 / t0)).where(defined, other["growth"])
    return {"growth": growth, "share": x1 - x0 - growth}


_METHODS = {"base": _base, "midpoint": _midpoint, "lmdi": _lmdi}
