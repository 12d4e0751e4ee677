"""Shared functions of option figures: fits of chains, selected expiries, and the axis of expiries."""

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
from derivdata.tables.contracts import nearest_listed

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_DAYS = 365.0
EXPIRY = "time to expiry (log scale), expiry [UTC]"
_LABEL = 33.0
"""Width that a label of an expiry takes [points]."""


def is_fit(data: Any) -> bool:
    """Return whether data is the result of a smile or surface fit."""
    return isinstance(data, xr.Dataset) and {"k_min", "k_max", "status"} <= set(data.data_vars)


def fit_of(data: Chain) -> xr.Dataset:
    """Return a fit unchanged, or fit a surface to a table ``options_snapshot`` or a surface of quotes."""
    if isinstance(data, xr.Dataset) and is_fit(data):
        return data
    return surface.from_chain(data)


def quotes_of(data: Chain) -> xr.Dataset:
    """Return quotes over log-moneyness unchanged, or the out-of-the-money quotes of a chain."""
    if isinstance(data, xr.Dataset) and "log_moneyness" in data:
        return data
    return chain.smiles(chain.clean(data))


def single(data: xr.Dataset, what: str) -> xr.Dataset:
    """Return the slices of one surface or smile, sorted by time to expiry; raise if there are several."""
    if "year_fraction" not in data.variables:
        raise ValueError(f"{what} needs a fit or a surface: the data has no 'year_fraction'")
    for dim in [str(d) for d in data["year_fraction"].dims if d != "expiry"]:
        if data.sizes[dim] != 1:
            raise ValueError(
                f"{what} needs one {dim}, got {data.sizes[dim]}: select one with .sel({dim}=...)"
            )
        data = data.isel({dim: 0})
    if "expiry" not in data.coords and data["year_fraction"].size != 1:
        raise ValueError(f"{what} needs the coordinate 'expiry' of several slices")
    if "expiry" not in data.coords:  # a bare slice: the label only has to be the same for quotes and fit
        span = pd.Timedelta(_DAYS * float(data["year_fraction"]), "D")
        data = data.assign_coords(expiry=(pd.Timestamp(0) + span).to_datetime64())
    if "expiry" not in data.dims:
        data = data.expand_dims("expiry")
        scalars = [name for name in ("year_fraction", "forward") if name in data.coords]
        data = data.assign_coords({n: ("expiry", np.atleast_1d(data[n].values)) for n in scalars})
    order = np.argsort(np.asarray(data["year_fraction"]))
    return data.isel(expiry=order).dropna("expiry", subset=["year_fraction"])


def fitted(fit: xr.Dataset) -> xr.Dataset:
    """Return the slices with a smile; raise if there are none."""
    has_smile = np.isfinite(smile.total_variance(fit, 0.0, extrapolate=True))
    usable = fit.isel(expiry=np.flatnonzero(has_smile))
    if not usable.sizes["expiry"]:
        raise ValueError("no expiry has a fit; the variable 'status' has the reason")
    return usable


def days(data: xr.Dataset) -> Array:
    """Return days to expiry."""
    return np.asarray(_DAYS * data["year_fraction"])


def timestamp_of(fit: xr.Dataset) -> pd.Timestamp:
    """Return the time of a fit: an expiry minus its time to expiry."""
    return (pd.Timestamp(fit["expiry"].to_numpy()[0]) - pd.Timedelta(float(days(fit)[0]), "D")).round("min")


def at_the_money(fit: xr.Dataset) -> xr.DataArray:
    """Return volatility at the forward of each slice [per √year], also beyond the quotes."""
    return smile.iv(fit, 0.0, extrapolate=True)


def listed_expiry(listed: Any, requested: Any, argument: str = "expiry") -> pd.Timestamp:
    """Return the listed expiry that matches a label; raise if no expiry matches."""
    expiry = nearest_listed(pd.DatetimeIndex(np.atleast_1d(listed)), requested, argument)
    stamp: pd.Timestamp = naive_utc(expiry)
    return stamp


def chosen_expiries(listed: pd.DatetimeIndex, requested: Expiries | None, limit: int) -> Indices:
    """Return the positions of the requested expiries; for None up to `limit` of them, evenly spread."""
    if limit < 1:
        raise ValueError(f"limit must be a positive number of expiries, got {limit}")
    if requested is None:
        return np.unique(np.linspace(0, len(listed) - 1, min(limit, len(listed))).round().astype(np.intp))
    labels: Any = requested
    is_single = isinstance(labels, str) or np.ndim(labels) == 0
    labels = [labels] if is_single else list(labels)
    if not labels:
        raise ValueError("expiries must be at least one expiry or None, got an empty list")
    places = [listed.get_loc(listed_expiry(listed, label, "expiries")) for label in labels]
    return np.array(places, dtype=np.intp)


def expiry_axis(ax: Axes, days: Any, expiries: Any) -> None:
    """Make x a logarithmic axis of time to expiry, labelled at listed expiries by days and date.

    Expiries that are too close together for a label get a tick only.
    """
    days = np.asarray(days, dtype=np.float64)
    limits, ticks = expiry_ticks(days, expiries, style.cell_width(ax))
    ax.set_xscale("log")
    ax.set_xlim(*limits)
    ax.set_xticks(list(ticks), list(ticks.values()))
    ax.set_xticks(days, minor=True, labels=[])
    ax.set_xlabel(EXPIRY)


def expiry_ticks(days: Any, expiries: Any, width: float) -> tuple[tuple[float, float], dict[float, str]]:
    """Return the limits of a logarithmic axis [days], and the labels that fit into a figure's width [points].

    The axes are about three quarters of the figure wide. The year is in the first label and in those of
    another year than the label before.
    """
    days = np.asarray(days, dtype=np.float64)
    dates = pd.DatetimeIndex(np.asarray(expiries))
    low = float(days.min() / 1.15)
    high = float(days.max() * 1.15)
    labelled = apart(np.log(days), np.log(high / low) * _LABEL / (0.72 * width))
    ticks: dict[float, str] = {}
    year = 0
    for place in sorted(labelled):
        date = dates[place]
        label = f"{remaining(float(days[place]))}\n{date.day} {date:%b}"
        if date.year != year:
            label += f"\n{date:%Y}"
        year = date.year
        ticks[float(days[place])] = label
    return (low, high), ticks


def apart(positions: Any, min_distance: float) -> list[int]:
    """Return the indices of ascending positions that are at least `min_distance` apart.

    The selection starts at the last, because short expiries are close together.
    """
    selected: list[int] = []
    for index in range(len(positions) - 1, -1, -1):
        if not selected or positions[selected[-1]] - positions[index] >= min_distance:
            selected.append(index)
    return selected


def expiry_label(date: pd.Timestamp, days: float) -> str:
    """Format the remaining time and a date in three lines: ``14 d, 26 Jun, 2026``."""
    return f"{remaining(days)}\n{date.day} {date:%b}\n{date:%Y}"


def remaining(days: float) -> str:
    """Format a time to expiry: ``20 h``, ``2.8 d``, ``31 d``."""
    if days < 1.0:
        return f"{24.0 * days:.0f} h"
    if days < 10.0:
        return f"{days:.1f} d"
    return f"{days:.0f} d"


def verdicts(fit: xr.Dataset) -> list[str]:
    """Describe each expiry in words: its status and its arbitrage."""
    butterfly = smile.butterfly_check(fit)["ok"].values
    calendar = surface.calendar_check(fit)["ok"].values
    status = fit["status"].values.astype(int)
    return list(map(_verdict, status.tolist(), butterfly.tolist(), calendar.tolist()))


_WORDS = {
    Status.ONE_SIDED: "quotes without a bid",
    Status.FALLBACK_USED: "simpler method used",
    Status.FLAT: "flat within the noise",
}
"""Descriptions of bits whose names are not clear enough."""


def _verdict(status: int, is_free_of_butterfly: bool, is_free_of_calendar: bool) -> str:
    """Return a description of one expiry."""
    words = [_WORDS.get(bit, str(bit.name).lower().replace("_", " ")) for bit in Status if status & bit]
    if "too few strikes" not in words or Status.FALLBACK_USED & status:
        for kind, is_free in (("butterfly", is_free_of_butterfly), ("calendar", is_free_of_calendar)):
            if not is_free and kind not in words:
                words.append(kind)
    return ", ".join(words) or "free of arbitrage"


def name_of(data: xr.Dataset) -> str:
    """Return symbol and venue for a title, if the data has them."""
    name = "options"
    if "symbol" in data.coords:
        name = str(data["symbol"].item()) or name
    if "exchange" in data.coords and str(data["exchange"].item()):
        name += f" on {data['exchange'].item()}"
    return name
