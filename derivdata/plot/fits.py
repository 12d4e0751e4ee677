"""What the figures of options share: fits as given or made from a chain, expiries chosen, and their axis."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import xarray as xr

from derivdata.analysis import chain, smile, surface
from derivdata.analysis.status import Status
from derivdata.plot import style
from derivdata.plot.frames import Chain, Expiries
from derivdata.support.arrays import Array, Indices
from derivdata.support.times import naive_utc
from derivdata.tables.expiries import nearest_listed

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_DAYS = 365.0
EXPIRY = "expiry [UTC], time to expiry [days]"


def is_fit(data: Any) -> bool:
    """Return whether this is the result of a smile or surface fit."""
    return isinstance(data, xr.Dataset) and {"k_min", "k_max", "status"} <= set(data.data_vars)


def fit_of(data: Chain) -> xr.Dataset:
    """Return a fit unchanged, or fit a surface to a table ``options_snapshot`` or a surface of quotes."""
    return data if isinstance(data, xr.Dataset) and is_fit(data) else surface.from_chain(data)


def quotes_of(data: Chain) -> xr.Dataset:
    """Return quotes over log-moneyness unchanged, or the out-of-the-money quotes of a chain."""
    if isinstance(data, xr.Dataset) and "log_moneyness" in data:
        return data
    return chain.smiles(chain.clean(data))


def single(data: xr.Dataset, what: str) -> xr.Dataset:
    """Return the slices of one surface or smile that have a time to expiry, in that order; refuse several."""
    if "year_fraction" not in data.variables:
        raise ValueError(f"{what} needs a fit or a surface: the data has no 'year_fraction'")
    for dim in [str(d) for d in data["year_fraction"].dims if d != "expiry"]:
        if data.sizes[dim] != 1:
            raise ValueError(
                f"{what} is of one {dim}; there are {data.sizes[dim]}: choose with .sel({dim}=...)"
            )
        data = data.isel({dim: 0})
    if "expiry" not in data.coords and data["year_fraction"].size != 1:
        raise ValueError(f"{what} needs the coordinate 'expiry' of several slices")
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
    """Return the slices that have a smile; refuse a fit without any."""
    alive = np.isfinite(smile.total_variance(fit, 0.0, extrapolate=True))
    usable = fit.isel(expiry=np.flatnonzero(alive))
    if not usable.sizes["expiry"]:
        raise ValueError("no expiry has a fit: its status has the reason")
    return usable


def days(data: xr.Dataset) -> Array:
    """Return days to expiry."""
    return np.asarray(_DAYS * data["year_fraction"])


def instant_of(fit: xr.Dataset) -> pd.Timestamp:
    """Return the instant that a fit is of: an expiry less the time to it."""
    return (pd.Timestamp(fit["expiry"].to_numpy()[0]) - pd.Timedelta(float(days(fit)[0]), "D")).round("min")


def at_the_money(fit: xr.Dataset) -> xr.DataArray:
    """Return volatility at the forward of each slice [per √year], inside the quotes or not."""
    return smile.iv(fit, 0.0, extrapolate=True)


def listed_expiry(listed: Any, requested: Any, argument: str = "expiry") -> pd.Timestamp:
    """Find the one listed expiry of a label, or refuse."""
    found = nearest_listed(pd.DatetimeIndex(np.atleast_1d(listed)), requested, argument)
    stamp: pd.Timestamp = naive_utc(found)
    return stamp


def chosen_expiries(listed: pd.DatetimeIndex, requested: Expiries | None, limit: int) -> Indices:
    """Return the places of the expiries requested; of None up to `limit`, spread over those listed."""
    if limit < 1:
        raise ValueError(f"{limit=} must be a positive number of expiries")
    if requested is None:
        return np.unique(np.linspace(0, len(listed) - 1, min(limit, len(listed))).round().astype(np.intp))
    given: Any = requested
    many = [given] if isinstance(given, str) or np.ndim(given) == 0 else list(given)
    if not many:
        raise ValueError("expiries must name at least one, or be None")
    return np.array([listed.get_loc(listed_expiry(listed, one, "expiries")) for one in many], dtype=np.intp)


def expiry_axis(ax: Axes, days: Any, expiries: Any) -> None:
    """Make x a logarithmic axis of time to expiry, labelled at listed expiries by date and days.

    Expiries too close to one another for their labels have a tick without one.
    """
    limits, ticks = expiry_ticks(days, expiries, style.cell_width(ax))
    ax.set_xscale("log")
    ax.set_xlim(*limits)
    ax.set_xticks(list(ticks), list(ticks.values()))
    ax.set_xticks(np.asarray(days, dtype=np.float64), minor=True, labels=[])
    ax.set_xlabel(EXPIRY)


def expiry_ticks(days: Any, expiries: Any, width: float) -> tuple[tuple[float, float], dict[float, str]]:
    """Return the limits of a logarithmic axis [days], and the labels that fit into a figure's width [points].

    A label takes about 36 points of the axes, which are some three quarters of the figure wide.
    """
    days = np.asarray(days, dtype=np.float64)
    dates = pd.DatetimeIndex(np.asarray(expiries))
    low = float(days.min() / 1.15)
    high = float(days.max() * 1.15)
    chosen = apart(np.log(days), np.log(high / low) * 36.0 / (0.72 * width))
    return (low, high), {
        float(days[place]): expiry_label(dates[place], float(days[place])) for place in chosen
    }


def apart(places: Any, least: float) -> list[int]:
    """Return which of ascending places lie `least` apart or more, from the last: short expiries crowd."""
    chosen: list[int] = []
    for place in range(len(places) - 1, -1, -1):
        if not chosen or places[chosen[-1]] - places[place] >= least:
            chosen.append(place)
    return chosen


def expiry_label(date: pd.Timestamp, days: float) -> str:
    """Write a date and the time that is left: ``26 Jun, 2026, 14 d`` in three lines."""
    length = f"{24.0 * days:.0f} h" if days < 1.0 else f"{days:.1f} d" if days < 10.0 else f"{days:.0f} d"
    return f"{date.day} {date:%b}\n{date:%Y}\n{length}"


def verdicts(fit: xr.Dataset) -> list[str]:
    """Describe each expiry: its status, the arbitrage found, or that it is free of arbitrage."""
    butterfly = smile.butterfly_check(fit)["ok"].values
    calendar = surface.calendar_check(fit)["ok"].values
    return [
        _verdict(int(s), bool(b), bool(c))
        for s, b, c in zip(fit["status"].values, butterfly, calendar, strict=True)
    ]


_WORDS = {
    Status.ONE_SIDED: "quotes without a bid",
    Status.FALLBACK_USED: "simpler method used",
    Status.FLAT: "flat within the noise",
}
"""What names of bits alone do not say."""


def _verdict(status: int, butterfly: bool, calendar: bool) -> str:
    words = [_WORDS.get(bit, str(bit.name).lower().replace("_", " ")) for bit in Status if status & bit]
    if "too few strikes" not in words or Status.FALLBACK_USED & status:
        words += [
            w for w, free in (("butterfly", butterfly), ("calendar", calendar)) if not free and w not in words
        ]
    return ", ".join(words) or "free of arbitrage"


def name_of(data: xr.Dataset) -> str:
    """Return symbol and venue as a title, as far as the data states them."""
    symbol, venue = (str(data[c].item()) if c in data.coords else "" for c in ("symbol", "exchange"))
    return f"{symbol or 'options'} on {venue}" if venue else symbol or "options"
