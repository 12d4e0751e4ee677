"""Time on a surface: clocks, and interpolation to any time to expiry.

A clock is the distribution of variance between a surface's time and an expiry. Without one every hour counts
equally. With one, an hour of a weekend has its weight, an event adds its variance at its time, and an hour in
which a settlement price is averaged counts as the square of the open share of the average: with L the length
of the average and T the time left that is ``T − 2L/3``, and ``T³/(3L²)`` once it has started. A clock
redistributes variance between listed expiries and along the life of an option; it does not change the
variance of the expiries.

A cut has the slices around a time, their shares, and whether prices are mixed. Total variance is linear in
time at equal log-moneyness between two listed expiries, if that is free of butterflies at every time between
them. Each pair is certified: Durrleman's g times w² is a polynomial of
degree 4 in the share of the later expiry. It is positive for every share if no coefficient in Bernstein's
basis is negative, at some 660 log-moneyness out to 100 deviations. For a pair that fails, prices are mixed
(Gatheral and Jacquier 2014, lemma 5.1), which is free if the two slices are, but not suitable for quoting:
the mixture of a narrow and a wide distribution has fatter tails than either.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

from derivdata.analysis.black76.kernels import deviation, time_value
from derivdata.analysis.labelling import applied, bare, elementwise, where, whole_surface
from derivdata.analysis.smile.svi import (
    BUMP_NAMES,
    REACH,
    Bumped,
    Raw,
    parameter_names,
    slice_of,
    total_variance,
)
from derivdata.analysis.status import Status
from derivdata.support import times
from derivdata.support.arrays import Bools, Floats, Indices
from derivdata.support.text import did_you_mean
from derivdata.units import HOURS_PER_YEAR

Clock: TypeAlias = float | Mapping[str, Any]
"""Type of the argument ``clock`` of `derivdata.analysis.surface.iv`."""

YEAR_US = HOURS_PER_YEAR * 3_600e6
_DAY_US = 86_400_000_000
_MONDAY_US = 4 * _DAY_US  # 5 January 1970
_KEYS = ("weekend_weight", "events", "averaging")


class Reading(NamedTuple):
    """Values of a clock: business time [years], variance of events until then, speed per year."""

    business: xr.DataArray
    events: xr.DataArray
    pace: xr.DataArray


class Rules(NamedTuple):
    """Settings of a clock: weight of weekends, times [µs] and variances of events, average [years]."""

    weekend_weight: xr.DataArray
    when: xr.DataArray
    variance: xr.DataArray
    averaging: float

    def pace(self, timestamp: xr.DataArray) -> xr.DataArray:
        """Return the speed of business time just after a time [µs], per calendar year."""
        weekend = weekend_us(timestamp + 1e6) - weekend_us(timestamp) > 5e5
        paced: xr.DataArray = (1.0 + (self.weekend_weight - 1.0) * weekend) * self._unit
        return paced

    def open_share(self, years: xr.DataArray) -> Any:
        """Return the open share of the settlement average some years before the expiry.

        1 before the average starts.
        """
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
        """Return business time with an average: full time before it, and squared open shares within it.

        With the time u left until the expiry and the length L of the average, the open share is u/L. The
        integral of its square from u = a to b is ``(b³ − a³)/(3 L²)``.
        """
        later = origin + years * YEAR_US
        length = self.averaging * YEAR_US
        window = (years * YEAR_US).clip(0.0, length)
        passed = weekend_us(later - window) - weekend_us(origin)
        before = later - origin - window + (self.weekend_weight - 1.0) * passed
        # An average reaches at most into the weekend of this week and the previous one.
        monday = later - (later - _MONDAY_US) % (7 * _DAY_US)
        weekend_cubes = 0.0 * later
        for weekend_end in (monday, monday + 7 * _DAY_US):
            from_start = np.minimum(later - weekend_end + 2 * _DAY_US, window)
            from_end = (later - weekend_end).clip(0.0)
            weekend_cubes = weekend_cubes + (from_start**3 - from_end**3).clip(0.0)
        open_time = (window**3 + (self.weekend_weight - 1.0) * weekend_cubes) / (3.0 * length**2)
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
        stamps = [times.us(times.timestamp(event, "events of clock")) for event in events]
        when = xr.DataArray(np.asarray(stamps, dtype=np.float64), dims="event")
        variance = xr.DataArray(np.asarray([*dict(events).values()], dtype=np.float64), dims="event")
    else:
        weight = xr.DataArray(clock)
        when = variance = xr.DataArray(np.zeros(0), dims="event")
    for name, value in (("a weekend weight", weight), ("an event's variance", variance)):
        missing = value.isnull() & (not isinstance(clock, xr.Dataset))
        if not value.chunks and bool(((value < 0.0) | missing).any()):
            raise ValueError(f"clock must have values of 0 or more, got {name} that is missing or negative")
    length = times.length(averaging, "averaging of clock")
    if length > pd.Timedelta(2, "D"):
        raise ValueError(f"averaging of clock must be at most 2 days, got {averaging!r}")
    return Rules(weight, when, variance, float(length / pd.Timedelta(365, "D")))


def _of_fit(clock: xr.Dataset) -> tuple[xr.DataArray, xr.DataArray, xr.DataArray]:
    """Return weekend weight, event times [µs] and event variances of a fitted clock."""
    for name in ("weekend_weight", "event_variance"):
        if name not in clock:
            raise ValueError(f"clock must have the variable {name!r}: pass the result of business_time.fit")
    variance = clock["event_variance"].reset_coords(drop=True)
    when = variance["event"].astype("datetime64[us]").astype(np.int64).astype(np.float64)
    plain = [variable.drop_vars("event") for variable in (when, variance)]
    return clock["weekend_weight"].reset_coords(drop=True), plain[0], plain[1]


def share_of(w: Floats, even: Floats, *, added: Floats, happened: Floats) -> tuple[Floats, Floats]:
    """Return the share of the variance `w` that has occurred, and the part of `w` that is events.

    `even` is the share of the time that has passed, `added` the variance of all events and `happened` the
    variance of past events. Events are limited to the available variance.
    """
    with np.errstate(invalid="ignore", divide="ignore"):
        event_share = np.where(added > 0.0, np.where(w > added, added / w, 1.0), 0.0)
        past_event_share = np.where(happened > 0.0, happened / np.maximum(w, added), 0.0)
    return (1.0 - event_share) * even + past_event_share, event_share


def origin_us(surface: xr.Dataset, argument: str = "surface") -> xr.DataArray:
    """Return the time of a surface [µs], over its leading dims, from its expiries and times to expiry."""
    if "expiry" not in surface.indexes or surface["expiry"].dtype.kind != "M":
        raise ValueError(f"{argument} must have times along expiry to place a date")
    expiry = surface["expiry"].astype("datetime64[us]").astype(np.int64).astype(np.float64)
    t = surface["year_fraction"].reset_coords(drop=True)
    # All expiries imply the same time, so the latest known one is used.
    origin: xr.DataArray = (expiry - t * YEAR_US).max("expiry")
    return origin.drop_vars("expiry", errors="ignore")


def weekend_us(at: Any) -> Any:
    """Return the weekend time since a reference Monday [µs], for times in µs."""
    since = at - _MONDAY_US
    weeks = np.floor(since / (7 * _DAY_US))
    return weeks * (2 * _DAY_US) + np.clip(since - weeks * (7 * _DAY_US) - 5 * _DAY_US, 0.0, 2 * _DAY_US)


Extrapolation = Literal["flat_vol"]

# Log-moneyness in deviations of the later slice.
_PLACES = np.sinh(np.linspace(-1.0, 1.0, 401) * np.arcsinh(100.0))
_BENDS = np.sinh(np.linspace(-5.0, 5.0, 129))  # points around each vertex, in units of its width
_IN_BUMPS = np.linspace(-REACH, REACH, 201)  # points within the bumps, in their units
_SHARES = np.linspace(0.0, 1.0, 5)  # shares of the later slice: as many as a quartic has coefficients
# From values at 0, ¼, ½, ¾, 1 of an interval to the coefficients of a quartic in Bernstein's basis.
_BERNSTEIN = (
    np.array([[3, 0, 0, 0, 0], [-13 / 4, 12, -9, 4, -3 / 4], [13 / 6, -32 / 3, 20, -32 / 3, 13 / 6],
              [-3 / 4, 4, -9, 12, -13 / 4], [0, 0, 0, 0, 3]]) / 3.0
)  # fmt: skip
_ROUNDING = 1e-12
_OF_A_SLICE = (*Raw._fields, *BUMP_NAMES, "status", "k_min", "k_max", "year_fraction")
_PAIRS = 64


class Maturity(NamedTuple):
    """A surface cut at given times to expiry: the slices before and after, and their shares.

    `price_share` is the share of the earlier slice in mixed prices, NaN if total variance is linear. `slope`
    [1/year] is the growth rate of the share of the later slice, or of a single slice. `forward` [USD] is the
    forward of the surface at these times, see `forward_curve`; NaN without one.
    """

    before: xr.Dataset
    after: xr.Dataset
    share_before: xr.DataArray
    share_after: xr.DataArray
    price_share: xr.DataArray
    slope: xr.DataArray
    year_fraction: xr.DataArray
    k_min: xr.DataArray
    k_max: xr.DataArray
    status: xr.DataArray
    forward: xr.DataArray

    @property
    def mixes(self) -> bool:
        """Return whether prices may be mixed somewhere; lazy cuts are not computed."""
        return self.price_share.chunks is not None or bool(self.price_share.notnull().any())

    @property
    def parameters(self) -> list[xr.DataArray]:
        """Return the shares and the parameters of both slices, the arguments of kernels before k."""
        both = [side[name] for side in (self.before, self.after) for name in parameter_names(side)]
        return [self.share_before, self.share_after, self.price_share, *both]

    @property
    def flags(self) -> xr.DataArray:
        """Return the status of the cut, combined with the status of its slices."""
        return (self.status | self.before["status"] | self.after["status"]).astype(np.int32)

    def flags_at(self, k: xr.DataArray) -> xr.DataArray:
        """Return the status at log-moneyness `k`, with ``EXTRAPOLATED`` outside the quotes."""
        outside = ((k < self.k_min) | (k > self.k_max)) & self.share_before.notnull()
        status: xr.DataArray = self.flags | where(outside, np.int32(Status.EXTRAPOLATED), np.int32(0))
        return status

    def skew(self) -> xr.DataArray:
        """Return the slope of the volatility in log-moneyness at the money [1/√year]."""
        step = 1e-3 * self.total_variance(0.0) ** 0.5
        up = volatility(self.total_variance(step), self.year_fraction)
        down = volatility(self.total_variance(-step), self.year_fraction)
        return (up - down) / (2.0 * step)

    def total_variance(self, k: Any) -> xr.DataArray:
        """Return total variance at any log-moneyness, including the wings."""
        return elementwise(cut_variance, *self.parameters, bare(k, "log_moneyness"))


def at_expiries(surface: xr.Dataset) -> Maturity:
    """Return a surface at its own expiries as a cut."""
    surface = whole_surface(surface)
    years = surface["year_fraction"].reset_coords(drop=True)
    fit = surface.reset_coords(drop=True).assign(year_fraction=years)
    ones = xr.ones_like(fit["a"]).where(fit["method"] > 0)
    nothing = xr.full_like(ones, np.nan)
    forward = fit.get("forward", nothing)
    return Maturity(
        before=fit, after=fit, share_before=ones, share_after=0.0 * ones.fillna(0.0), price_share=nothing,
        slope=nothing, year_fraction=years, k_min=fit["k_min"], k_max=fit["k_max"], status=fit["status"],
        forward=forward,
    )  # fmt: skip


def at_maturity(
    surface: xr.Dataset,
    year_fraction: Any,
    *,
    extrapolate: Extrapolation | None = None,
    clock: Clock | None = None,
) -> Maturity:
    """Cut a surface at given times; parameters as in `derivdata.analysis.surface.iv`."""
    surface = whole_surface(surface)
    t = bare(year_fraction, "maturity", "year_fraction")
    if "expiry" in t.dims:
        raise ValueError(
            "year_fraction must not have the dim expiry, which the surface has: rename it, or evaluate the "
            "surface at its expiries with derivdata.analysis.smile"
        )
    years = surface["year_fraction"].reset_coords(drop=True)
    at_expiries, at_times = read_times(surface, clock, years, t)
    names = parameter_names(surface)
    outputs = applied(
        _around,
        years,
        surface["method"] > 0,
        *(surface[name] for name in names),
        at_expiries.business,
        at_expiries.events,
        t,
        *at_times,
        flat_beyond=extrapolate is not None,
        core=[["expiry"]] * (4 + len(names)) + [[]] * 4,
        out=[[]] * 7,
        types=[np.int64, np.int64, *[np.float64] * 4, np.int32],
    )
    at_before, at_after, share_before, share_after, price_share, slope, status = (
        output.reset_coords(drop=True) for output in outputs
    )
    before = slices_at(surface, at_before)
    after = slices_at(surface, at_after)
    k_min = elementwise(_mix, before["k_min"], after["k_min"], share_before, share_after)
    k_max = elementwise(_mix, before["k_max"], after["k_max"], share_before, share_after)
    forward = _forward_at(surface, years, t, share_before)
    return Maturity(
        before=before, after=after, share_before=share_before, share_after=share_after,
        price_share=price_share, slope=slope, year_fraction=t, k_min=k_min, k_max=k_max, status=status,
        forward=forward,
    )  # fmt: skip


def _forward_at(
    surface: xr.Dataset, years: xr.DataArray, t: xr.DataArray, like: xr.DataArray
) -> xr.DataArray:
    """Return the forward of a surface at other times, over the dims of `like`; NaN without one."""
    if "forward" not in surface.variables:
        return xr.full_like(like, np.nan)
    forward = surface["forward"].reset_coords(drop=True)
    spot: Any = np.nan
    if "spot" in surface.variables:
        spot = surface["spot"].reset_coords(drop=True)
    curve = elementwise(forward_curve, years, forward, spot, t, core=[["expiry"], ["expiry"], [], []])
    aligned: xr.DataArray = (curve + xr.zeros_like(like)).transpose(*like.dims)
    return aligned


def forward_curve(years: Floats, forward: Floats, spot: Floats, t: Floats) -> Floats:
    """Return the forward at times `t` from those of the expiries, on the last axis of `years` and `forward`.

    The logarithm of the forward is linear in time between two expiries with a forward, whether they have a
    fit or not. Before the first and after the last of them the carry per year of that expiry,
    ``ln(F/S)/T``, stays; without a spot price the line through the two nearest forwards is extended, and a
    single forward stays as it is.
    """
    # 1. Sort the known forwards by time.
    t, spot = (np.asarray(array, dtype=np.float64)[..., None] for array in (t, spot))
    usable = (forward > 0.0) & np.isfinite(forward) & (years > 0.0)
    level = np.log(np.where(usable, forward, np.nan))
    full = np.broadcast_shapes(np.shape(years), np.shape(level), np.shape(t))
    years = np.broadcast_to(years, full)
    level = np.broadcast_to(level, full)
    order = np.argsort(np.where(np.isfinite(level), years, np.inf), axis=-1, kind="stable")
    years = np.take_along_axis(years, order, -1)
    level = np.take_along_axis(level, order, -1)
    count = np.isfinite(level).sum(axis=-1, keepdims=True)
    after = (np.isfinite(level) & (years < t)).sum(axis=-1, keepdims=True)

    def at(values: Floats, place: Indices) -> Floats:
        return np.take_along_axis(values, np.clip(place, 0, full[-1] - 1), -1)

    # 2. Use the line through the two neighbouring expiries; beyond the ends, the line through the nearest
    # two.
    first = np.clip(after - 1, 0, np.maximum(count - 2, 0))
    second = np.minimum(first + 1, np.maximum(count - 1, 0))
    t0 = at(years, first)
    y0 = at(level, first)
    t1 = at(years, second)
    y1 = at(level, second)
    apart = t1 > t0
    share = np.where(apart, (t - t0) / np.where(apart, t1 - t0, 1.0), 0.0)
    line = y0 + share * (y1 - y0)

    # 3. With a spot price, use the carry of the nearest expiry beyond the ends.
    beyond = (after == 0) | (after >= count)
    end = np.where(after == 0, 0, count - 1)
    start = np.log(np.where(spot > 0.0, spot, np.nan))
    carried = start + (at(level, end) - start) * t / at(years, end)
    curve = np.where(beyond & np.isfinite(carried), carried, line)
    return np.exp(np.where(np.isnan(t), np.nan, curve))[..., 0]


def _around(expiries: Floats, usable: Bools, *parts: Floats, flat_beyond: bool) -> tuple[NDArray[Any], ...]:
    """Return the expiries around each time, and the share of each in total variance or in prices."""
    *raw, tau, events, t, tau_t, events_t, pace = parts
    slices = slice_of(raw)
    w = total_variance(0.0, slices)
    cut = neighbours(expiries, usable, w, tau, events, t, tau_t, events_t, pace, flat_beyond=flat_beyond)
    before, after, share_before, share_after, slope, status = cut
    prices = _price_share(slices, before, after, share_before, share_after)
    status = status | _status_of((np.isfinite(prices), Status.PRICES_MIXED))
    return tuple(
        values[..., 0] for values in (before, after, share_before, share_after, prices, slope, status)
    )


def neighbours(
    expiries: Floats, usable: Bools, w: Floats, tau: Floats, events: Floats, *ahead: Floats, flat_beyond: bool
) -> tuple[NDArray[Any], ...]:
    """Return the expiries around a time, and the share of each in the variance at that time.

    `expiries` and `w` are times to expiry and total variances, `tau` and `events` the values of the clock at
    the expiries. `ahead` is the time, the values of the clock at this time, and its pace. The results are the
    positions of both expiries, their shares, the slope in time, and the status; their last axis has length 1.
    """
    # 1. Find the expiries before and after; beyond the ends one expiry is used twice.
    t, tau_t, events_t, pace = (np.asarray(array)[..., None] for array in ahead)
    earlier = np.where(usable & (expiries <= t), expiries, -np.inf)
    later = np.where(usable & (expiries >= t), expiries, np.inf)
    before = earlier.argmax(axis=-1)[..., None]
    after = later.argmin(axis=-1)[..., None]
    t0 = np.take_along_axis(earlier, before, -1)
    t1 = np.take_along_axis(later, after, -1)
    has_before = np.isfinite(t0)
    has_after = np.isfinite(t1)
    none = ~has_before & ~has_after
    early = has_after & ~has_before
    late = has_before & ~has_after
    before = np.where(early, after, before)
    after = np.where(late, before, after)

    def at(values: Floats, place: Indices) -> Floats:
        return np.take_along_axis(np.broadcast_to(values, earlier.shape), place, -1)

    # 2. Choose the variance to divide: all of it for a single expiry, otherwise the part between the two.
    single = early | late
    w0 = at(w, before)
    tau0 = at(tau, before)
    events0 = at(events, before)
    variance = np.where(single, w0, at(w, after) - w0)
    business = np.where(single, tau0, at(tau, after) - tau0)
    event_variance = np.where(single, events0, at(events, after) - events0)
    passed = np.where(single, tau_t, tau_t - tau0)
    past_event_variance = np.where(single, events_t, events_t - events0)

    # 3. Compute the share that has occurred by the given time.
    unread = np.isnan(passed + business + event_variance) & (single | (t1 > t0)) & ~np.isnan(t)
    with np.errstate(invalid="ignore", divide="ignore"):
        # Use calendar time if no business time passes between the two, as within a weekend of weight 0.
        calendar_share = np.where(t1 > t0, (t - t0) / (t1 - t0), 0.0)
        calendar_share = np.where(single, t / np.where(early, t1, t0), calendar_share)
        time_share = np.where(business > 0.0, passed / business, calendar_share)
        share, event_share = share_of(
            variance, time_share, added=event_variance, happened=past_event_variance
        )
        slope = (1.0 - event_share) * pace / business
    invalid = none | unread | (t <= 0.0) | np.isnan(t) | (late & (not flat_beyond))
    share_after = np.where(single | invalid, 0.0, share)
    share_before = np.where(invalid, np.nan, np.where(single, share, 1.0) - share_after)
    status = _status_of(
        (early, Status.SHORT_EXTRAPOLATION), (late, Status.EXTRAPOLATED), (t <= 0.0, Status.EXPIRED),
        (none | np.isnan(t), Status.BAD_INPUT), (unread, Status.UNDETERMINED),
        ((event_share == 1.0) & ~invalid, Status.CALENDAR),
    )  # fmt: skip
    cut = (before, after, share_before, share_after, slope, status)
    return tuple(np.broadcast_to(array, none.shape) for array in cut)


def _price_share(
    slices: Raw | Bumped, before: Indices, after: Indices, share_before: Floats, share_after: Floats
) -> Floats:
    """Return the earlier slice's share in prices at k = 0 if a pair is not certified, else NaN.

    Each pair of slices is checked once, for any number of times between them.
    """
    between = (share_after > 0.0) & (share_before > 0.0)
    price_share = np.full(between.shape, np.nan)
    if not between.any():
        return price_share
    full = [
        np.broadcast_to(parameter, (*between.shape[:-1], np.shape(parameter)[-1])) for parameter in slices
    ]
    earlier = slice_of([np.take_along_axis(parameter, before, -1)[between] for parameter in full])
    later = slice_of([np.take_along_axis(parameter, after, -1)[between] for parameter in full])
    pairs, place = np.unique(np.column_stack([*earlier, *later]), axis=0, return_inverse=True)
    linear = np.empty(len(pairs), dtype=bool)
    for start in range(0, len(pairs), _PAIRS):
        rows = slice(start, start + _PAIRS)
        is_free, has_free_ends = free_between(*slices_of_pair(pairs[rows].T))
        # Mixing prices does not remove a butterfly of one of the slices.
        linear[rows] = is_free | ~has_free_ends
    w0 = total_variance(0.0, earlier)
    w1 = total_variance(0.0, later)
    w = share_before[between] * w0 + share_after[between] * w1
    with np.errstate(invalid="ignore", divide="ignore"):
        share = (np.sqrt(w1) - np.sqrt(w)) / (np.sqrt(w1) - np.sqrt(w0))
    # If total variance at the money does not rise, there is no matching share.
    price_share[between] = np.where(linear[place.ravel()] | ~(w1 > w0), np.nan, share)
    return price_share


def slices_of_pair(parts: Any) -> tuple[Raw | Bumped, Raw | Bumped]:
    """Return two slices of one kind from the parameters of both."""
    half = len(parts) // 2
    return slice_of(parts[:half]), slice_of(parts[half:])


def free_between(earlier: Raw | Bumped, later: Raw | Bumped) -> tuple[Bools, Bools]:
    """Return masks of pairs of slices without a butterfly at any time in between, and at both ends.

    The first is sufficient but not necessary: where it is False, there may still be no butterfly.
    """
    width = np.sqrt(np.maximum(total_variance(0.0, later), 1e-8))[:, None]
    places = [width * _PLACES, *(end.m[:, None] + end.sigma[:, None] * _BENDS for end in (earlier, later))]
    places += [end.bump_unit[:, None] * _IN_BUMPS for end in (earlier, later) if isinstance(end, Bumped)]
    k = np.concatenate(places, axis=-1)

    def jet(end: Raw | Bumped) -> list[Floats]:
        """Return total variance of a slice at `k`, and its first two derivatives."""
        at_all_places = slice_of([parameter[:, None] for parameter in end])
        return [total_variance(k, at_all_places, derivative=order) for order in (0, 1, 2)]

    jets = [jet(earlier), jet(later)]
    (w_earlier, *_), (w_later, *_) = jets
    slack = -_ROUNDING * np.maximum(w_earlier, w_later) ** 2

    # 1. Compute w² g of the mixture at each share: (w − k w'/2)² − w'²/4 (w + w²/4) + w² w''/2.
    values = np.empty((len(_SHARES), *k.shape))
    for value, share in zip(values, _SHARES, strict=True):
        w, dw, d2w = ((1.0 - share) * first + share * second for first, second in zip(*jets, strict=True))
        value[:] = (w - k * dw / 2.0) ** 2 - dw**2 / 4.0 * (w + w**2 / 4.0) + w**2 * d2w / 2.0
    ends = ((values[0] >= slack) & (values[-1] >= slack)).all(axis=-1)

    # 2. Compute its coefficients. einsum avoids BLAS, which would start threads for such a thin matrix.
    coefficients = np.einsum("ij,j...->i...", _BERNSTEIN, values)
    return np.asarray((coefficients >= slack).all(axis=(0, -1))), np.asarray(ends)


def _status_of(*flags: tuple[Any, Status]) -> NDArray[np.int32]:
    """Return the status with the bit of each condition that holds."""
    first_condition, _ = flags[0]
    status = np.zeros(np.shape(first_condition), np.int32)
    for condition, bit in flags:
        status |= np.where(condition, np.int32(bit), np.int32(0))
    return status


def slices_at(surface: xr.Dataset, at: xr.DataArray) -> xr.Dataset:
    """Return the slice of each surface at an expiry's position, with its variables."""
    names = [name for name in _OF_A_SLICE if name in surface.variables]
    variables = [surface[name].reset_coords(drop=True) for name in names]
    selected = applied(
        lambda at, *arrays: tuple(take(values, at) for values in arrays),
        at,
        *variables,
        core=[[], *[["expiry"]] * len(variables)],
        out=[[]] * len(variables),
        types=[variable.dtype for variable in variables],
    )
    slices = xr.Dataset(dict(zip(names, selected, strict=True)), attrs=surface.attrs)
    if "covariance" in surface:
        spread = surface["covariance"].reset_coords(drop=True).drop_vars("expiry", errors="ignore")
        slices["covariance"] = applied(take, spread, at, core=[["expiry"], []])
    return slices


def take(values: NDArray[Any], at: NDArray[Any]) -> NDArray[Any]:
    """Return `values` at a position of their last axis, which differs between labels."""
    shape = np.broadcast_shapes(values.shape[:-1], at.shape)
    full = np.broadcast_to(values, (*shape, values.shape[-1]))
    return np.take_along_axis(full, np.broadcast_to(at, shape)[..., None], -1)[..., 0]


def _mix(first: Floats, second: Floats, share_before: Floats, share_after: Floats) -> Floats:
    """Mix linearly in T between two expiries, use the nearest beyond them; NaN if the cut is."""
    with np.errstate(invalid="ignore"):  # values may be infinite
        between = (1.0 - share_after) * first + share_after * second
    mixed = np.where(share_after == 0.0, first, between)
    return np.where(np.isnan(share_before), np.nan, mixed)


def volatility(w: xr.DataArray, t: xr.DataArray) -> xr.DataArray:
    """Return ``√(w/T)``; NaN if w is negative or T is 0."""
    return (w / t).where((w >= 0.0) & (t > 0.0)) ** 0.5


def cut_variance(share_before: Floats, share_after: Floats, price_share: Floats, *parts: Floats) -> Floats:
    """Return total variance of slices around a time, from `Maturity.parameters` and k."""
    *raws, k = parts
    first, second = (total_variance(k, raw) for raw in slices_of_pair(raws))
    # Beyond the last expiry and before the first, the second slice has the share 0.
    linear: Floats = share_before * first + share_after * second
    if not np.isfinite(price_share).any():
        return linear
    mixed = _of_mixed_prices(k, first, second, price_share)
    return np.where(np.isnan(mixed), linear, mixed)


def _of_mixed_prices(k: Floats, first: Floats, second: Floats, share: Floats) -> Floats:
    """Return the total variance whose price is the mean of two prices, `share` of the first.

    `first` and `second` are the total variances of these prices at log-moneyness `k`. Time values over √(FK)
    are mixed, which at equal k are proportional to prices. NaN without two positive variances.
    """
    arrays = np.broadcast_arrays(np.abs(k), first, second, share)
    x, w1, w2, weight = (values.ravel() for values in arrays)
    valid = np.flatnonzero((w1 > 0.0) & (w2 > 0.0) & np.isfinite(x + weight))
    x = x[valid]
    weight = weight[valid]
    first_value = time_value(x, np.sqrt(w1[valid]))
    second_value = time_value(x, np.sqrt(w2[valid]))
    mixed = weight * first_value + (1.0 - weight) * second_value
    is_positive = mixed > 0.0
    result = np.full(arrays[0].size, np.nan)
    result[valid[is_positive]] = deviation(x[is_positive], mixed[is_positive]).s ** 2
    return result.reshape(arrays[0].shape)
