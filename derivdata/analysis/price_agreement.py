"""Whether the prices of venues are those of one coin, decided by timestamp and by symbol.

Prices of one coin lie within 5 % of each other almost always. They lie further apart in a squeeze, around a
listing and before one, and between a perpetual and a dated future. Another coin under the same ticker lies
apart by a factor, throughout. So a series is of another coin if it lies further from the others than a factor
of `OTHER_COIN` in the median of its timestamps, or by more than a factor of `FAR` at over a tenth of them.
"""

from __future__ import annotations

import math
from typing import Literal, TypeAlias

import numpy as np
import xarray as xr

from derivdata.analysis.panels import whole
from derivdata.support.text import warn_caller
from derivdata.tables.frames import OTHER_COIN, PRICES_AGREE

Apart: TypeAlias = Literal["raise", "keep"]
"""Whether prices of another coin are refused, or used with a notice."""
FAR = math.log(2.0)
_OFTEN = 0.1  # of the timestamps
_NAMED = 5


def price_factors(price: xr.DataArray) -> xr.DataArray:
    """Return the logarithm of each price over the others of its symbol at that instant.

    Against the median of all, or of two venues against the other one. NaN where a venue is alone.
    """
    price = whole(price, "exchange").where(price > 0.0)
    count = price.notnull().sum("exchange")
    # The mean of two lies halfway to the wrong one: it would show the factor too small.
    others = (price.sum("exchange") - price).where(count == 2, price.median("exchange"))
    factors: xr.DataArray = (price / others).where(count > 1)
    logs: xr.DataArray = xr.apply_ufunc(np.log, factors, dask="allowed")
    return logs.transpose(*price.dims)


def other_coins(price: xr.DataArray, *, agree: float = PRICES_AGREE) -> xr.DataArray:
    """Return the factor of each price series to its symbol's other venues, NaN where they agree.

    Of two venues that differ, both have one: no price says which of them is the other coin. It is the median
    over the timestamps that at least two venues share. `agree` is the logarithm of the largest factor within
    which they agree.
    """
    ratio = price_factors(price)
    factor = ratio.median("time") if "time" in ratio.dims else ratio
    apart: xr.DataArray = xr.apply_ufunc(np.exp, factor.where(abs(factor) > agree), dask="allowed")
    return apart


def of_one_coin(price: xr.DataArray, name: str, apart: Apart = "raise") -> xr.DataArray:
    """Return prices without those of another coin; of a lazy panel nothing is read or left out.

    Prices that lie more than 5 % apart at some timestamps are used, with a `DataNotice`. Those of another
    coin are refused if every symbol has such a series. If other symbols have none, these series are left out
    with a notice. ``apart="keep"`` uses them as well, with a notice.
    """
    if price.chunks is not None or not price.size:
        return price
    logs = price_factors(price)
    if not bool((abs(logs) > PRICES_AGREE).any()):
        return price
    wrong = _is_other_coin(logs)
    if bool(wrong.any()) and apart == "raise":
        listed = _listed(logs.where(wrong), wrong, counted=False)
        told = f"{name} are not of one coin: {listed} against the other venues of the symbol"
        symbols = wrong.any([dim for dim in wrong.dims if dim != "symbol"])
        if bool(symbols.all()):
            raise ValueError(
                f"{told}. Another coin or contract bears the same ticker: omit it, pass its price in "
                "units of the others, or pass apart='keep' if it is the same coin"
            )
        warn_caller(f"{told}; these series are left out (apart='keep' uses them)")
        price = price.where(~wrong)
        logs = price_factors(price)
    flagged = abs(logs) > PRICES_AGREE
    if bool(flagged.any()):
        some = flagged.any("time") if "time" in flagged.dims else flagged
        warn_caller(
            f"{name} are more than 5 % apart and are used: {_listed(logs.where(flagged), some)}. Possible "
            "causes: a squeeze, the basis of a dated future, a coin before its listing, or another coin "
            "under the same ticker"
        )
    return price


def apart_by_5_percent(price: xr.DataArray) -> xr.DataArray:
    """Return whether each price lies more than 5 % from the others of its symbol at its timestamp."""
    flags: xr.DataArray = abs(price_factors(price)) > PRICES_AGREE
    return flags.rename("apart")


def _is_other_coin(logs: xr.DataArray) -> xr.DataArray:
    """Return whether each series is of another coin, without dim ``time``."""
    size = abs(logs)
    if "time" not in logs.dims:
        return size > OTHER_COIN
    shared = logs.notnull().sum("time")
    far = (size > FAR).sum("time")
    wrong: xr.DataArray = (abs(logs.median("time")) > OTHER_COIN) | (far > _OFTEN * shared)
    return wrong


def _listed(logs: xr.DataArray, series: xr.DataArray, *, counted: bool = True) -> str:
    """Name series with the median factor of their timestamps and how many these are."""
    count = logs.notnull().sum("time") if counted and "time" in logs.dims else None
    factor: xr.DataArray = xr.apply_ufunc(np.exp, logs.median("time") if "time" in logs.dims else logs)
    places = [*zip(*np.nonzero(series.to_numpy()), strict=True)]
    words = []
    for place in places[:_NAMED]:
        at = dict(zip(series.dims, place, strict=True))
        label = "/".join(str(series[dim].to_numpy()[i]) for dim, i in at.items() if dim in series.coords)
        times = "" if count is None else f", {int(count.isel(at))} of {logs.sizes['time']} timestamps"
        words.append(f"{label} (× {float(factor.isel(at)):.4g}{times})")
    more = f" and {len(places) - _NAMED} more" if len(places) > _NAMED else ""
    return ", ".join(words) + more
