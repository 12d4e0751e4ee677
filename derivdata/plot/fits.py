"""Fits for the figures of options: as given, or made from a chain."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from derivdata.analysis import chain, smile, surface
from derivdata.analysis.status import Status
from derivdata.support import times

__all__ = [
    "at_the_money",
    "days",
    "fit_of",
    "fitted",
    "is_fit",
    "listed_expiry",
    "name_of",
    "quotes_of",
    "single",
    "verdicts",
]

Floats = np.ndarray[Any, Any]
_DAYS = 365.0


def is_fit(data: Any) -> bool:
    """Return whether this is the result of a smile or surface fit."""
    return isinstance(data, xr.Dataset) and {"k_min", "k_max", "status"} <= set(data.data_vars)


def fit_of(data: Any) -> xr.Dataset:
    """Return a fit unchanged, or fit a surface to a table ``options_snapshot`` or a surface of quotes.

    Raises
    ------
    TypeError
        It is neither.
    """
    if isinstance(data, pd.DataFrame | xr.Dataset):
        return data if isinstance(data, xr.Dataset) and is_fit(data) else surface.from_chain(data)
    raise TypeError(f"give a fit, a surface or the table options_snapshot, not {type(data).__name__}")


def quotes_of(data: Any) -> xr.Dataset:
    """Return quotes over log-moneyness unchanged, or the out-of-the-money quotes of a chain."""
    if not isinstance(data, pd.DataFrame | xr.Dataset):
        raise TypeError(
            f"quotes must be a fit, a surface or the table options_snapshot, not {type(data).__name__}"
        )
    if isinstance(data, xr.Dataset) and "log_moneyness" in data:
        return data
    return chain.smiles(chain.clean(data))


def single(data: xr.Dataset, what: str) -> xr.Dataset:
    """Return the slices of one surface or smile that have a time to expiry, in that order.

    Raises
    ------
    ValueError
        There are several symbols, venues, instants, or slices by something else than expiry.
    """
    if "year_fraction" not in data.variables:
        raise ValueError(f"{what} needs a fit or a surface: the data has no 'year_fraction'")
    for dim in [str(d) for d in data["year_fraction"].dims if d != "expiry"]:
        if data.sizes[dim] != 1:
            raise ValueError(
                f"{what} is of one {dim}; there are {data.sizes[dim]}: choose with .sel({dim}=...)"
            )
        data = data.isel({dim: 0})
    if "expiry" not in data.coords:  # a bare slice: the label only has to be the same for quotes and fit
        span = pd.Timedelta(_DAYS * float(data["year_fraction"]), "D")
        data = data.assign_coords(expiry=(pd.Timestamp(0) + span).to_datetime64())
    if "expiry" not in data.dims:
        data = data.expand_dims("expiry")
        bare = [n for n in ("year_fraction", "forward") if n in data.coords]
        data = data.assign_coords({n: ("expiry", np.atleast_1d(data[n].values)) for n in bare})
    order = np.argsort(np.asarray(data["year_fraction"]))
    return data.isel(expiry=order).dropna("expiry", subset=["year_fraction"])


def fitted(fit: xr.Dataset) -> xr.Dataset:
    """Return the slices that have a smile.

    Raises
    ------
    ValueError
        None has.
    """
    alive = np.isfinite(smile.total_variance(fit, 0.0, extrapolate=True))
    usable = fit.isel(expiry=np.flatnonzero(alive))
    if not usable.sizes["expiry"]:
        raise ValueError("no expiry has a fit: its status says why")
    return usable


def days(data: xr.Dataset) -> Floats:
    """Return days to expiry."""
    return np.asarray(_DAYS * data["year_fraction"])


def at_the_money(fit: xr.Dataset) -> xr.DataArray:
    """Return volatility at the forward of each slice [per √year], inside the quotes or not."""
    return smile.iv(fit, 0.0, extrapolate=True)


def listed_expiry(listed: Any, requested: Any, argument: str = "expiry") -> pd.Timestamp:
    """Find the listed expiry of an instant or a day.

    Raises
    ------
    ValueError
        It is not listed, or several expire on that day.
    """
    expiries = pd.DatetimeIndex(np.atleast_1d(listed))
    naive = times.instant(requested, argument).tz_convert("UTC").tz_localize(None)
    same = expiries[expiries == naive] if naive in expiries else expiries[expiries.normalize() == naive]
    if len(same) != 1:
        raise ValueError(f"no one expiry {naive}; there are {', '.join(map(str, expiries))}")
    return same[0]


def verdicts(fit: xr.Dataset) -> list[str]:
    """Describe each expiry: its status, the arbitrage found, or that it is free of arbitrage."""
    butterfly, calendar = smile.butterfly_check(fit)["ok"].values, surface.calendar_check(fit)["ok"].values
    return [
        _verdict(int(s), bool(b), bool(c))
        for s, b, c in zip(fit["status"].values, butterfly, calendar, strict=True)
    ]


def _verdict(status: int, butterfly: bool, calendar: bool) -> str:
    words = [str(bit.name).lower().replace("_", " ") for bit in Status if status & bit]
    if "too few strikes" not in words or Status.FALLBACK_USED & status:
        words += [
            w for w, free in (("butterfly", butterfly), ("calendar", calendar)) if not free and w not in words
        ]
    return ", ".join(words) or "free of arbitrage"


def name_of(data: xr.Dataset) -> str:
    """Return symbol and venue as a title, as far as the data states them."""
    symbol, venue = (str(data[c].item()) if c in data.coords else "" for c in ("symbol", "exchange"))
    return f"{symbol or 'options'} on {venue}" if venue else symbol or "options"
