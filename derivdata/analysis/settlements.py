"""Rules for series of settlements, and a check that the prices of venues are of one coin.

A venue pays on the hour, and the timestamp of the payment is a little earlier or later: 1 to 12 ms at
binance, up to 550 ms at dydx. A timestamp at most a minute from a whole hour counts as that hour in every
function that takes settlements (`derivdata.tables.payments.payment_time`), so venues have common times and no
payment moves into another span. Times passed by the caller (an entry, an exit, a grid) are used unchanged.

Prices of one coin are almost always within 5 % of each other. They are further apart in a squeeze, around a
listing and before one, and between a perpetual and a dated future. Another coin under the same ticker differs
by a factor throughout. A series is therefore of another coin if it differs from the others by more than a
factor of `OTHER_COIN` in the median of its timestamps, or by more than a factor of `FAR` at over a tenth of
them.
"""

from __future__ import annotations

import itertools
import math
from typing import Any, Literal, TypeAlias

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from derivdata.analysis.panels import figures_of, hours, hours_at, interval_of, labels_of, last_valid, whole
from derivdata.support.arrays import Bools, Floats, Indices
from derivdata.support.text import warn_caller
from derivdata.tables.frames import OTHER_COIN, PRICES_AGREE
from derivdata.tables.payments import LATEST_SUM_HOURS, VALID_HOURS, payment_time
from derivdata.units import RATE_UNIT

_ROUNDING = 1e-6  # hours


def scheduled(times: NDArray[Any]) -> NDArray[np.datetime64]:
    """Return the times of settlements, rounded to a whole hour that is at most a minute away."""
    return payment_time(times.astype("datetime64[us]").view(np.int64)).view("datetime64[us]")


def merge_late_stamps(
    panel: xr.DataArray, *companions: xr.DataArray, overlap: Literal["raise", "nan"] = "raise"
) -> tuple[xr.DataArray, ...]:
    """Move settlements to their due times; unchanged if all are on time.

    `companions` are over the panel's dims and labels, like its intervals; each is returned with the values at
    the rates. If a series has two settlements of one due time, ``"raise"`` raises once rates are read, and
    ``"nan"`` omits the second.
    """
    if not panel.sizes["time"]:
        return panel, *companions
    hours(panel)
    stamps = panel["time"].to_numpy()
    due = scheduled(stamps)
    if (due == stamps).all():
        return panel, *companions
    labels, starts = np.unique(due, return_index=True)
    arrays = (panel, *companions)
    merged = figures_of(
        _merged,
        panel,
        _numbers(panel),
        *companions,
        units={str(place): "" for place in range(len(arrays))},
        into={"due": labels.size},
        starts=starts,
        due=labels,
        names=_names(panel),
        strict=overlap == "raise",
    )
    merged = merged.rename(due="time").assign_coords(time=labels).transpose(*panel.dims)
    return tuple(
        new.rename(old.name).drop_attrs().assign_attrs(old.attrs)
        for new, old in zip(merged.values(), arrays, strict=True)
    )


def due_settlements(
    panel: xr.DataArray, *, overlap: Literal["raise", "nan"] = "raise"
) -> tuple[xr.DataArray, xr.DataArray]:
    """Return the settlements of a panel at their due times, and the hours that each pays for.

    Payments without an interval are included (`with_unknown_intervals`). Payments for more hours than have
    passed raise or are omitted (`without_overlap`).
    """
    interval = interval_of(panel)
    rates, interval = with_unknown_intervals(panel.drop_vars("interval_hours"), interval)
    rates, interval = merge_late_stamps(rates, interval, overlap=overlap)
    return without_overlap(rates, interval, overlap=overlap), interval


def with_unknown_intervals(panel: xr.DataArray, interval: xr.DataArray) -> tuple[xr.DataArray, xr.DataArray]:
    """Return rates and intervals in which payments without an interval pay for the hours since the last one.

    The interval is at most a day, and an hour for the first payment of a series. Without such payments, rates
    and intervals are unchanged.
    """
    if "payment_bps" not in panel.coords:
        return panel, interval
    paid = panel["payment_bps"].reset_coords(drop=True).transpose(*panel.dims)
    panel = panel.drop_vars("payment_bps")
    due = scheduled(panel["time"].to_numpy())  # timestamps are late by fractions of a second
    result = figures_of(
        _with_unknown_intervals, panel, interval, paid, units={"rates": RATE_UNIT, "interval": "h"},
        into={"time": None}, since=hours_at(due, np.datetime64(0, "us")),
    )  # fmt: skip
    rates, filled = (result[name].transpose(*panel.dims) for name in ("rates", "interval"))
    return rates.rename(panel.name).assign_attrs(panel.attrs), filled.assign_attrs(interval.attrs)


def _with_unknown_intervals(
    rates: Floats, interval: Floats, paid: Floats, *, since: Floats
) -> tuple[Floats, Floats]:
    """Return rates and intervals, in which a payment without an interval covers the hours before it."""
    # 1. Compute the hours since the previous payment.
    unknown = np.isfinite(paid) & ~np.isfinite(rates)
    last = last_valid(np.isfinite(rates) | unknown)
    before = np.concatenate([np.full((*last.shape[:-1], 1), -1), last[..., :-1]], axis=-1)
    gap = np.where(before >= 0, since - since[np.maximum(before, 0)], VALID_HOURS[0])

    # 2. Compute the rate that pays the stated amount over these hours.
    covered = np.clip(gap, _ROUNDING, VALID_HOURS[-1])
    hours_paid = np.where(unknown, covered, interval)
    return np.where(unknown, paid * 8.0 / covered, rates), hours_paid


def at_common_stamps(panel: xr.DataArray) -> xr.DataArray:
    """Move a panel's settlements to their due times; other panels are unchanged.

    Intervals are dropped, because a result over several venues does not have one interval.
    """
    panel = panel.drop_vars(["interval_hours", "payment_bps"], errors="ignore")
    if panel.attrs.get("kind") != "settled" or "time" not in panel.dims or "time" not in panel.coords:
        return panel
    return merge_late_stamps(panel)[0]


def held_settlements(panel: xr.DataArray) -> xr.DataArray:
    """Return settlements as `at_common_stamps` does, with each rate carried forward for one interval.

    A panel without intervals is not carried forward, because the hours that a payment covers are unknown.
    """
    settled = panel.attrs.get("kind") == "settled" and "time" in panel.dims and "time" in panel.coords
    if "interval_hours" not in panel.coords or not settled:
        return at_common_stamps(panel)
    interval = interval_of(panel)
    bare = panel.drop_vars(["interval_hours", "payment_bps"], errors="ignore")
    rates, interval = merge_late_stamps(bare, interval)
    if not rates.sizes["time"]:
        return rates
    units = {"carried": str(rates.attrs.get("units", ""))}
    carried = figures_of(_carried, rates, interval, units=units, into={"time": None}, since=hours(rates))
    return carried["carried"].transpose(*rates.dims).rename(rates.name).assign_attrs(rates.attrs)


def newest_at(companion: xr.DataArray, rates: xr.DataArray) -> xr.DataArray:
    """Return the newest value of a panel's companion at each time of its `held_settlements`."""
    if "time" not in rates.dims or companion.sizes["time"] == rates.sizes["time"]:
        return companion.assign_coords(time=rates["time"]) if "time" in rates.coords else companion
    return newest_due(companion)


def newest_due(panel: xr.DataArray) -> xr.DataArray:
    """Move values to the due times of their timestamps, using the newest value of each series."""
    due = scheduled(panel["time"].to_numpy())
    labels, starts = np.unique(due, return_index=True)
    units = {"newest": str(panel.attrs.get("units", ""))}
    newest = figures_of(_newest, panel, units=units, into={"due": labels.size}, starts=starts)["newest"]
    newest = newest.rename(due="time").assign_coords(time=labels).transpose(*panel.dims)
    return newest.rename(panel.name).assign_attrs(panel.attrs)


def _newest(values: Floats, *, starts: Indices) -> Floats:
    """Return the last value of each group of rows that begins at `starts`; NaN for a group without one."""
    ends = np.append(starts[1:], values.shape[-1]) - 1
    last = last_valid(~np.isnan(values))[..., ends]
    newest = np.take_along_axis(values, np.maximum(last, 0), axis=-1)
    return np.where(last >= starts, newest, np.nan)


def _carried(rates: Floats, interval: Floats, *, since: Floats) -> Floats:
    """Return the newest rate at each time until its interval ends; NaN later."""
    newest = last_valid(np.isfinite(rates))
    has_rate = newest >= 0
    row = np.maximum(newest, 0)
    age = since - since[row]
    is_valid = age < np.take_along_axis(interval, row, axis=-1) - _ROUNDING
    is_own_row = newest == np.arange(since.size)  # also a rate without an interval is there at its time
    return np.where(has_rate & (is_valid | is_own_row), np.take_along_axis(rates, row, axis=-1), np.nan)


def without_overlap(
    rates: xr.DataArray, interval: xr.DataArray, *, overlap: Literal["raise", "nan"] = "raise"
) -> xr.DataArray:
    """Raise for series whose settlements cover more hours than have passed, or omit those payments.

    Rates are at the due times of their timestamps, with the hours that each covers. The overlap at a
    settlement is the maximum excess of intervals over elapsed time for any run of settlements that ends
    there. A late settlement overlaps with the next one; an overlap below half an interval is treated as late.
    A larger overlap means that a payment is stored twice, or the intervals are too long: ``"raise"`` names
    it, and ``"nan"`` omits it. Earlier settlements are unchanged, because they were known when they came, and
    data known at some time must not depend on later data.
    """
    checked = figures_of(
        _without_overlap, rates, interval, _numbers(rates), units={"checked": ""}, into={"time": None},
        since=hours(rates), origin=rates["time"].to_numpy()[0], names=_names(rates),
        strict=overlap == "raise",
    )  # fmt: skip
    return checked["checked"].transpose(*rates.dims).rename(rates.name).assign_attrs(rates.attrs)


def _numbers(panel: xr.DataArray) -> xr.DataArray:
    """Return the number of each series of a panel, so that a kernel can identify it."""
    dims = [dim for dim in panel.dims if dim != "time"]
    shape = tuple(panel.sizes[dim] for dim in dims)
    numbers = xr.DataArray(np.arange(math.prod(shape)).reshape(shape), dims=dims)
    return numbers.chunk({dim: panel.chunksizes[dim] for dim in dims}) if panel.chunks else numbers


def _names(panel: xr.DataArray) -> list[str]:
    """Return the name of each series in the order of `_numbers`, such as ``BTC on binance``."""
    labels: list[Any] = []
    for dim in map(str, panel.dims):
        if dim == "time":
            continue
        if dim in panel.coords:
            labels.append(labels_of(panel, dim))
        else:
            labels.append([f"{dim} {place}" for place in range(panel.sizes[dim])])
    return [" on ".join(filter(None, words)) or "a series" for words in itertools.product(*labels)]


def _without_overlap(
    rates: Floats,
    interval: Floats,
    number: NDArray[Any],
    *,
    since: Floats,
    origin: np.datetime64,
    names: list[str],
    strict: bool,
) -> Floats:
    """Return rates without overlapping payments, or raise if `strict`; see `without_overlap`."""
    paid = np.where(np.isfinite(rates) & (interval > 0.0), interval, 0.0)
    wrong, before = _overlapping(paid, since)
    if wrong.any() and strict:
        place = np.unravel_index(int(np.argmax(wrong)), wrong.shape)
        row = place[-1]
        name = names[int(number[place[:-1]])]
        paid_at = origin + np.timedelta64(round(since[row] * 3_600_000_000), "us")
        raise ValueError(
            f"settlements of {name} overlap: the one at {np.datetime_as_string(paid_at, unit='s')} pays for "
            f"{interval[place]:g} h and comes {since[row] - since[before[place]]:g} h after the previous "
            "one. A payment is duplicated (see dd.quality), or interval_hours is too long (see "
            "infer_interval); functions with overlap= omit it with overlap='nan'"
        )
    for series in np.ndindex(wrong.shape[:-1]):
        if wrong[series].any():
            _leave_out(paid[series], since)
    return np.where(np.isfinite(rates) & (interval > 0.0) & (paid == 0.0), np.nan, rates)


def _leave_out(paid: Floats, since: Floats) -> None:
    """Set overlapping payments of one series to 0, in chronological order."""
    last = -np.inf  # time of the last remaining payment
    overlapped = 0.0  # overlap of the payments up to it [hours]
    for row in np.flatnonzero(paid).tolist():
        overlap = max(0.0, overlapped + paid[row] - (since[row] - last))
        if overlap > 0.5 * paid[row] - _ROUNDING:
            paid[row] = 0.0
        else:
            last = since[row]
            overlapped = overlap


def _overlapping(interval: Floats, since: Floats) -> tuple[Bools, Indices]:
    """Return a mask of overlapping settlements (hours covered, 0 for none), and the row before each."""
    paid = interval > 0.0
    before = last_valid(paid)
    before = np.concatenate([np.full((*before.shape[:-1], 1), -1), before[..., :-1]], axis=-1)
    gap = np.where(before >= 0, since - since[np.maximum(before, 0)], np.inf)
    # Running surplus of covered over elapsed hours. Rows before the lowest point of a series do not affect
    # it.
    surplus = np.cumsum(np.where(paid & np.isfinite(gap), interval - gap, 0.0), axis=-1)
    overlap = surplus - np.minimum.accumulate(np.minimum(surplus, 0.0), axis=-1)
    return paid & _is_excess(overlap, interval), before


def _is_excess(overlap: Any, interval: Any) -> Any:
    """Return a mask of payments that overlap earlier ones by at least half of their interval.

    Two-hourly payments must overlap by more than half: the payment after a halt may be an hour late, and the
    next one, on time, then overlaps it by an hour.
    """
    is_two_hourly = interval == 2.0 * LATEST_SUM_HOURS
    return overlap > 0.5 * interval + np.where(is_two_hourly, _ROUNDING, -_ROUNDING)


def _merged(
    rates: Floats,
    number: NDArray[Any],
    *companions: Floats,
    starts: NDArray[np.intp],
    due: NDArray[Any],
    names: list[str],
    strict: bool,
) -> Any:
    """Return one column per time: the first rate of its timestamps, with the companions' values."""
    # 1. Two rates at one due time are a payment that was stored twice.
    there = ~np.isnan(rates)
    counted = np.add.reduceat(there.astype(np.intp), starts, axis=-1)
    if strict and (counted > 1).any():
        place = np.unravel_index(int(np.argmax(counted > 1)), counted.shape)
        name = names[int(number[place[:-1]])]
        raise ValueError(
            f"{name} has two settlements within 1 min of {np.datetime_as_string(due[place[-1]], unit='s')}: "
            "one payment is duplicated, see dd.quality; functions with overlap= omit the second with "
            "overlap='nan'"
        )

    # 2. Use the first row with a rate at each due time, otherwise the column of NaN after the last row.
    rows = np.where(there, np.arange(rates.shape[-1]), rates.shape[-1])
    first = np.minimum.reduceat(rows, starts, axis=-1)
    none = np.full((*rates.shape[:-1], 1), np.nan)
    merged = []
    for values in (rates, *companions):
        padded = np.concatenate([values, none], axis=-1)
        merged.append(np.take_along_axis(padded, first, axis=-1))
    return tuple(merged) if companions else merged[0]


Apart: TypeAlias = Literal["raise", "keep"]
"""Whether prices of another coin raise an error, or are used with a notice."""
FAR = math.log(2.0)
_OFTEN = 0.1  # of the timestamps
_NAMED = 5


def price_factors(price: xr.DataArray) -> xr.DataArray:
    """Return the log ratio of each price to the median price of its symbol at that time.

    The median is over all venues. With two venues the other venue's price is used instead, and with one the
    result is NaN.
    """
    price = whole(price, "exchange").where(price > 0.0)
    count = price.notnull().sum("exchange")
    # With two venues, the median would be the mean of both and give a factor that is too small.
    others = (price.sum("exchange") - price).where(count == 2, price.median("exchange"))
    factors: xr.DataArray = (price / others).where(count > 1)
    logs: xr.DataArray = xr.apply_ufunc(np.log, factors, dask="allowed")
    return logs.transpose(*price.dims)


def other_coins(price: xr.DataArray, *, agree: float = PRICES_AGREE) -> xr.DataArray:
    """Return the ratio of each price series to its symbol's other venues; NaN if they agree.

    If two venues differ, both get a ratio, because prices do not show which of them is another coin. The
    ratio is the median over timestamps with at least two venues. `agree` is the log of the largest ratio that
    counts as agreement.
    """
    ratio = price_factors(price)
    factor = ratio.median("time") if "time" in ratio.dims else ratio
    apart: xr.DataArray = xr.apply_ufunc(np.exp, factor.where(abs(factor) > agree), dask="allowed")
    return apart


def of_one_coin(price: xr.DataArray, name: str, apart: Apart = "raise") -> xr.DataArray:
    """Return prices without those of another coin; a lazy panel is returned unchanged.

    Prices that are more than 5 % apart at some timestamps are used, with a `DataNotice`. Series of another
    coin raise if every symbol has one. If other symbols have none, these series are omitted with a notice.
    ``apart="keep"`` uses them as well, with a notice.
    """
    if price.chunks is not None or not price.size:
        return price
    # 1. Omit series of another coin; raise if every symbol has one.
    logs = price_factors(price)
    if not bool((abs(logs) > PRICES_AGREE).any()):
        return price
    wrong = _is_other_coin(logs)
    if bool(wrong.any()) and apart == "raise":
        listed = _listed(logs.where(wrong), wrong, counted=False)
        message = f"{name} must belong to one coin, got {listed} relative to the other venues of the symbol"
        symbols = wrong.any([dim for dim in wrong.dims if dim != "symbol"])
        if bool(symbols.all()):
            raise ValueError(
                f"{message}. Another coin or contract has the same ticker: omit it, pass its price in units "
                "of the others, or pass apart='keep' if it is the same coin"
            )
        warn_caller(f"{message}; these series are omitted (apart='keep' uses them)")
        price = price.where(~wrong)
        logs = price_factors(price)

    # 2. Use other prices that differ, with a notice.
    flagged = abs(logs) > PRICES_AGREE
    if bool(flagged.any()):
        series = flagged.any("time") if "time" in flagged.dims else flagged
        warn_caller(
            f"{name} are more than 5 % apart and are used: {_listed(logs.where(flagged), series)}. Possible "
            "causes: a squeeze, the basis of a dated future, a coin before its listing, or another coin "
            "under the same ticker"
        )
    return price


def apart_by_5_percent(price: xr.DataArray) -> xr.DataArray:
    """Return whether each price differs by more than 5 % from the others of its symbol at its timestamp."""
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
    """Return names of series with the median factor of their timestamps and the number of timestamps."""
    count = None
    if counted and "time" in logs.dims:
        count = logs.notnull().sum("time")
    middle: Any = logs.median("time") if "time" in logs.dims else logs
    factor: xr.DataArray = xr.apply_ufunc(np.exp, middle)
    places = [*zip(*np.nonzero(series.to_numpy()), strict=True)]
    words = []
    for place in places[:_NAMED]:
        at = dict(zip(series.dims, place, strict=True))
        label = "/".join(str(series[dim].to_numpy()[i]) for dim, i in at.items() if dim in series.coords)
        times = "" if count is None else f", {int(count.isel(at))} of {logs.sizes['time']} timestamps"
        words.append(f"{label} (× {float(factor.isel(at)):.4g}{times})")
    more = f" and {len(places) - _NAMED} more" if len(places) > _NAMED else ""
    return ", ".join(words) + more
