"""Caps and floors of funding that venues publish: what no forecast of funding may exceed."""

from __future__ import annotations

import numpy as np
import xarray as xr

from derivdata.analysis.inputs import with_symbol
from derivdata.analysis.panels import labels_of
from derivdata.support.arrays import Floats, Indices
from derivdata.tables.venue_facts import FACTS, fact_value

_BOUNDS = {"funding_floor_bps": -np.inf, "funding_cap_bps": np.inf}
_VENUES = {row.exchange for row in FACTS if row.fact in _BOUNDS}
_DAYS = sorted({row.as_of for row in FACTS if row.fact in {*_BOUNDS, "interval_hours"}})


def published_bounds(panel: xr.DataArray, amounts: xr.DataArray, length: float) -> list[xr.DataArray]:
    """Return the least and the most [bps] that a long pays in each period of so many hours, by venues' facts.

    Of each period the newest facts that were true at its end; infinite where a venue publishes none, or its
    interval is not known.
    """
    times = amounts["time"].to_numpy()
    place = np.searchsorted(
        np.array(_DAYS, dtype="datetime64[D]"), times.astype("datetime64[D]"), side="right"
    )
    symbols = labels_of(with_symbol(amounts), "symbol")
    venues = labels_of(amounts, "exchange")
    stated = _shortest_intervals(panel)
    bounds = np.stack([np.full((len(symbols), venues.size, times.size), none) for none in _BOUNDS.values()])
    for column, venue in enumerate(venues.tolist()):
        for day in np.unique(place[place > 0]) if venue in _VENUES else ():
            for row, symbol in enumerate(symbols):
                hours = stated.get(venue) or fact_value(venue, "interval_hours", symbol, _DAYS[day - 1])
                found = [fact_value(venue, name, symbol, _DAYS[day - 1]) for name in _BOUNDS]
                for side, value in enumerate(found):
                    if hours and value is not None:
                        bounds[side, row, column, place == day] = value * length / hours
    dims = ("symbol", "exchange", "time")
    labels = {dim: amounts[dim].to_numpy() for dim in dims if dim in amounts.dims}
    return [
        xr.DataArray(part if "symbol" in labels else part[0], labels, [dim for dim in dims if dim in labels])
        for part in bounds
    ]


def _shortest_intervals(panel: xr.DataArray) -> dict[str, float]:
    """Return the shortest interval that settlements of each venue pay for: the widest bound of a period."""
    if panel.attrs.get("kind") != "settled" or "interval_hours" not in panel.coords:
        return {}
    stated = panel["interval_hours"]
    if stated.chunks is not None:
        return {}
    least = stated.min([dim for dim in stated.dims if dim != "exchange"])
    names = labels_of(panel, "exchange").tolist()
    return dict(zip(names, np.broadcast_to(least.to_numpy(), len(names)).tolist(), strict=True))


def widened(amounts: Floats, floor: Floats, cap: Floats) -> tuple[Floats, Floats]:
    """Return bounds (venue, period) that contain all that was paid so far: facts may be behind."""
    known = np.isfinite(amounts)
    least, most = (
        ends.accumulate(np.where(known, amounts, none), axis=-1)
        for ends, none in ((np.minimum, np.inf), (np.maximum, -np.inf))
    )
    return np.minimum(floor, least), np.maximum(cap, most)


def pair_bounds(
    floor: Floats, cap: Floats, at: int, hold: int, long: Indices, short: Indices
) -> tuple[Floats, Floats]:
    """Return the least and the most [bps] that pairs can earn by funding over the holding time."""
    return hold * (floor[short, at] - cap[long, at]), hold * (cap[short, at] - floor[long, at])
