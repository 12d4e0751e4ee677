"""Business time: the distribution of variance between a surface's time and an expiry.

Without a clock every hour counts equally. With one, an hour of a weekend has its weight, an event adds its
variance at its time, and an hour in which a settlement price is averaged counts as the square of the open
share of the average: with L the length of the average and T the time left that is ``T − 2L/3``, and
``T³/(3L²)`` once it has started. A clock redistributes variance between listed expiries and along the life of
an option; it does not change the variance of the expiries.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pandas as pd
import xarray as xr

from derivdata.support import times
from derivdata.support.arrays import Floats
from derivdata.support.text import did_you_mean
from derivdata.units import HOURS_PER_YEAR

Clock: TypeAlias = float | Mapping[str, Any]
"""Type of the argument ``clock`` of `derivdata.analysis.surface.iv`."""

YEAR_US = HOURS_PER_YEAR * 3_600e6
_DAY_US = 86_400_000_000
_MONDAY_US = 4 * _DAY_US  # 5 January 1970
_KEYS = ("weekend_weight", "events", "averaging")


class Reading(NamedTuple):
    """Values of a clock: business time [years], variance of events until then, pace per year."""

    business: xr.DataArray
    events: xr.DataArray
    pace: xr.DataArray


class Rules(NamedTuple):
    """Settings of a clock: weight of weekends, times [µs] and variances of events, average [years]."""

    weekend_weight: xr.DataArray
    when: xr.DataArray
    variance: xr.DataArray
    averaging: float

    def pace(self, instant: xr.DataArray) -> xr.DataArray:
        """Return the pace of business time just after a time [µs], per calendar year."""
        weekend = weekend_us(instant + 1e6) - weekend_us(instant) > 5e5
        paced: xr.DataArray = (1.0 + (self.weekend_weight - 1.0) * weekend) * self._unit
        return paced

    def open_share(self, years: xr.DataArray) -> Any:
        """Return the share of variance that counts some years before the expiry, 1 before the average."""
        return (years / self.averaging).clip(0.0, 1.0) ** 2 if self.averaging > 0.0 else 1.0

    @property
    def _unit(self) -> xr.DataArray:
        return 7.0 / (5.0 + 2.0 * self.weekend_weight)

    def read(self, origin: xr.DataArray, years: xr.DataArray) -> Reading:
        """Read the clock from `origin` [µs] until `years` later."""
        later = origin + years * YEAR_US
        weekend = (weekend_us(later) - weekend_us(origin)) / YEAR_US
        business = (years + (self.weekend_weight - 1.0) * weekend) * self._unit
        inside = (self.when > origin) & (self.when <= later + 0.5)
        events = (self.variance * inside).sum("event")
        if self.averaging > 0.0:
            business = self._averaged(origin, years)
        return Reading(business, events, self.pace(later) * self.open_share(years))

    def _averaged(self, origin: xr.DataArray, years: xr.DataArray) -> xr.DataArray:
        """Return the business time of an average: all of it before, and the squared open shares within."""
        later = origin + years * YEAR_US
        length = self.averaging * YEAR_US
        window = (years * YEAR_US).clip(0.0, length)
        passed = weekend_us(later - window) - weekend_us(origin)
        before = later - origin - window + (self.weekend_weight - 1.0) * passed
        # The average reaches at most into the weekend of this week, and the one before it.
        monday = later - (later - _MONDAY_US) % (7 * _DAY_US)
        weekend = 0.0 * later
        for end in (monday, monday + 7 * _DAY_US):
            first = np.minimum(later - end + 2 * _DAY_US, window)
            last = (later - end).clip(0.0)
            weekend = weekend + (first**3 - last**3).clip(0.0)
        open_time = (window**3 + (self.weekend_weight - 1.0) * weekend) / (3.0 * length**2)
        counted: xr.DataArray = (before + open_time) / YEAR_US * self._unit
        return counted


def read_times(
    surface: xr.Dataset, clock: Clock | xr.Dataset | None, *years: xr.DataArray, argument: str = "surface"
) -> list[Reading]:
    """Return the values of a clock at times from a surface's time; without one every hour counts equally."""
    if clock is None:
        return [
            Reading(year_fraction, xr.zeros_like(year_fraction), xr.ones_like(year_fraction))
            for year_fraction in years
        ]
    rules = clock_of(clock)
    origin = origin_us(surface, argument)
    return [rules.read(origin, year_fraction) for year_fraction in years]


def clock_of(clock: Clock | xr.Dataset) -> Rules:
    """Return the settings of a clock; undetermined values of a fit remain NaN."""
    averaging: Any = "0h"
    if isinstance(clock, xr.Dataset):
        weight, when, variance = _of_fit(clock)
    elif isinstance(clock, Mapping):
        for name in map(str, clock):
            if name not in _KEYS:
                near = did_you_mean(name, _KEYS, f"; its keys are {', '.join(_KEYS)}")
                raise ValueError(f"clock must not have {name!r}{near}")
        events: Any = clock.get("events", {})
        weight = xr.DataArray(clock.get("weekend_weight", 1.0))
        averaging = clock.get("averaging", "0h")
        stamps = [times.us(times.instant(event, "events of clock")) for event in events]
        when, variance = (
            xr.DataArray(np.asarray(value, dtype=np.float64), dims="event")
            for value in (stamps, [*dict(events).values()])
        )
    else:
        weight, when, variance = xr.DataArray(clock), *[xr.DataArray(np.zeros(0), dims="event")] * 2
    for name, value in (("a weekend weight", weight), ("an event's variance", variance)):
        missing = value.isnull() & (not isinstance(clock, xr.Dataset))
        if not value.chunks and bool(((value < 0.0) | missing).any()):
            raise ValueError(f"clock must have values of 0 or more, got {name} that is missing or negative")
    length = times.length(averaging, "averaging of clock")
    if length > pd.Timedelta(2, "D"):
        raise ValueError(f"averaging of clock must be at most 2 days, got {averaging!r}")
    return Rules(weight, when, variance, float(length / pd.Timedelta(365, "D")))


def _of_fit(clock: xr.Dataset) -> tuple[xr.DataArray, xr.DataArray, xr.DataArray]:
    for name in ("weekend_weight", "event_variance"):
        if name not in clock:
            raise ValueError(f"clock must have the variable {name!r}: pass the result of business_time.fit")
    variance = clock["event_variance"].reset_coords(drop=True)
    when = variance["event"].astype("datetime64[us]").astype(np.int64).astype(np.float64)
    plain = [variable.drop_vars("event") for variable in (when, variance)]
    return clock["weekend_weight"].reset_coords(drop=True), plain[0], plain[1]


def share_of(w: Floats, even: Floats, *, added: Floats, happened: Floats) -> tuple[Floats, Floats]:
    """Return the share of the variance `w` that has come about, and the part of `w` that is events.

    `even` is the share of the time that has passed, `added` the variance of all events and `happened` the
    variance of past events. Events are limited to the available variance.
    """
    with np.errstate(invalid="ignore", divide="ignore"):
        eventful = np.where(added > 0.0, np.where(w > added, added / w, 1.0), 0.0)
        jumped = np.where(happened > 0.0, happened / np.maximum(w, added), 0.0)
    return (1.0 - eventful) * even + jumped, eventful


def origin_us(surface: xr.Dataset, argument: str = "surface") -> xr.DataArray:
    """Return the time of a surface [µs], over its leading dims, from its expiries and times to expiry."""
    if "expiry" not in surface.indexes or surface["expiry"].dtype.kind != "M":
        raise ValueError(f"{argument} must have times along expiry to place a date")
    expiry = surface["expiry"].astype("datetime64[us]").astype(np.int64).astype(np.float64)
    t = surface["year_fraction"].reset_coords(drop=True)
    # All expiries imply the same time; the latest known one is used.
    origin: xr.DataArray = (expiry - t * YEAR_US).max("expiry")
    return origin.drop_vars("expiry", errors="ignore")


def weekend_us(at: Any) -> Any:
    """Return the weekend time since a reference Monday [µs], for times in µs."""
    since = at - _MONDAY_US
    weeks = np.floor(since / (7 * _DAY_US))
    return weeks * (2 * _DAY_US) + np.clip(since - weeks * (7 * _DAY_US) - 5 * _DAY_US, 0.0, 2 * _DAY_US)
