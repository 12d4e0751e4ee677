"""Windows of responses, and means and sums of series in buckets.

Buckets are anchored at midnight UTC and labelled by their start. A sample holds until the next one of its
series, at most `HOLD`; a row with a resolution of its own holds that long. The mean of a bucket is weighted
by time. It uses all known values of the bucket up to the clock, even outside the requested window, so joined
windows equal one long window. A bucket without known values is left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from derivdata.sources.service.refusal import DOCS, Refusal, bad_request
from derivdata.support import times
from derivdata.support.arrays import Ints

HOLD = pd.Timedelta(1, "h")


def holds(resolution: pd.Series) -> Ints:
    """Return how long each row's value holds at most [µs], from the resolution that the row states."""
    named = pd.Categorical(resolution).remove_unused_categories()
    lengths = [times.us(times.resolution(str(name)) or HOLD) for name in named.categories]
    return np.asarray(np.array([*lengths, times.us(HOLD)], dtype=np.int64)[named.codes])


def ends(frame: pd.DataFrame) -> pd.DatetimeIndex:
    """Return the end of each row's step: its time and the resolution it states; a raw row is an instant."""
    named = pd.Categorical(frame["resolution"]).remove_unused_categories()
    steps = [length(str(name)) for name in named.categories]
    lengths = np.array([*map(times.us, steps), 0], dtype="timedelta64[us]")[named.codes]
    return pd.DatetimeIndex(frame["time"]) + pd.TimedeltaIndex(lengths)


def steps(frame: pd.DataFrame) -> list[str]:
    """List the distinct resolutions of rows; an empty text means that a row states none."""
    named = pd.Categorical(frame["resolution"])
    names = [*map(str, named.categories), ""]
    if len(named) and len(names) == 2 and named.codes.min() == 0:
        return names[:1]
    return [names[code] for code in np.unique(named.codes).tolist()]


def length(resolution: str) -> pd.Timedelta:
    """Return the length of a step; a raw row is an instant."""
    return times.resolution(resolution) or pd.Timedelta(0)


def longer(frame: pd.DataFrame, resolution: str) -> list[str]:
    """List the resolutions that rows state and that are longer than one, the shortest first."""
    step = times.resolution(resolution)
    if step is None:
        return []
    return sorted((name for name in steps(frame) if length(name) > step), key=length)


def means(frame: pd.DataFrame, value: str, step: pd.Timedelta, horizon: pd.Timestamp) -> pd.DataFrame:
    """Average a column over time in every bucket that a sample reaches.

    `frame` has symbol, exchange, time, resolution and `value`, sorted by the first three; the samples are
    known to hold up to `horizon`. The result is sorted the same way, its times are the buckets' starts.
    """
    frame = frame[frame[value].notna() & (frame["time"] < horizon)]
    if frame.empty:
        return frame[["symbol", "exchange", "time", value]]
    series, first = _series(frame)
    since, until = _validity(frame, series, horizon)
    row, bucket, weight = pieces(since, until, times.us(step))
    opens = np.flatnonzero(np.r_[True, (np.diff(bucket) != 0) | (np.diff(series[row]) != 0)])
    total = np.add.reduceat(frame[value].to_numpy()[row] * weight, opens)
    mean = total / np.add.reduceat(weight, opens)
    return _labelled(frame, first[series[row[opens]]], bucket[opens] * times.us(step), value, mean)


def overall(frame: pd.DataFrame, value: str, start: pd.Timestamp, horizon: pd.Timestamp) -> dict[str, float]:
    """Average one symbol's column over a window, by venue, weighted by time; sorted input, as for `means`."""
    frame = frame[frame[value].notna() & (frame["time"] < horizon)]
    if frame.empty:
        return {}
    series, first = _series(frame)
    since, until = _validity(frame, series, horizon)
    weight = np.maximum(until - np.maximum(since, times.us(start)), 0)
    total_weight = np.add.reduceat(weight, first)
    total = np.add.reduceat(frame[value].to_numpy() * weight, first)
    venues = frame["exchange"].iloc[first].astype(str).tolist()
    return {v: t / k for v, t, k in zip(venues, total.tolist(), total_weight.tolist(), strict=True) if k}


def sums(frame: pd.DataFrame, value: str, step: pd.Timedelta, horizon: pd.Timestamp) -> pd.DataFrame:
    """Add a column up over the rows that begin in each bucket; sorted input, as for `means`."""
    frame = frame[frame[value].notna() & (frame["time"] < horizon)]
    if frame.empty:
        return frame[["symbol", "exchange", "time", value]]
    series, first = _series(frame)
    bucket = frame["time"].array.asi8 // times.us(step)
    opens = np.flatnonzero(np.r_[True, (np.diff(bucket) != 0) | (np.diff(series) != 0)])
    total = np.add.reduceat(frame[value].to_numpy(), opens)
    return _labelled(frame, first[series[opens]], bucket[opens] * times.us(step), value, total)


def samples(frame: pd.DataFrame, by: list[str], step: pd.Timedelta, horizon: pd.Timestamp) -> pd.DataFrame:
    """Take the newest row of each step and series at the step's end; input with instants in order.

    Changes of means over steps have two thirds of the variance of the changes between their ends, so prices
    are sampled. A value counts for its own step only: repeating it in later steps would add a
    return of zero that was not observed.
    """
    end = frame["time"].dt.ceil(step)  # a value at the end itself belongs to it
    newest = ~frame[by].assign(end=end).duplicated(keep="last")
    return frame.assign(time=end)[newest & (end < horizon)]


def added(frame: pd.DataFrame, by: list[str], step: pd.Timedelta, horizon: pd.Timestamp) -> pd.DataFrame:
    """Add up every number over the rows of a series that begin in each bucket."""
    frame = frame[frame["time"] < horizon]
    grouped = frame.assign(time=frame["time"].dt.floor(step)).groupby([*by, "time"], observed=True)
    return grouped.sum(numeric_only=True, min_count=1).round(2).reset_index()


def _series(frame: pd.DataFrame) -> tuple[Ints, Ints]:
    """Return the number of each row's (symbol, exchange) series, and the first row of each."""
    codes = [pd.factorize(frame[name])[0] for name in ("symbol", "exchange")]
    fresh = np.r_[True, (np.diff(codes[0]) != 0) | (np.diff(codes[1]) != 0)]
    return np.cumsum(fresh) - 1, np.flatnonzero(fresh)


def _validity(frame: pd.DataFrame, series: Ints, horizon: pd.Timestamp) -> tuple[Ints, Ints]:
    """From when until when each row's value holds."""
    since = frame["time"].array.asi8
    until = np.full(since.size, np.iinfo(np.int64).max)
    same = series[1:] == series[:-1]
    until[:-1][same] = since[1:][same]
    until = np.minimum(until, since + holds(frame["resolution"]))
    return since, np.minimum(until, times.us(horizon))


def pieces(since: Ints, until: Ints, step: int) -> tuple[Ints, Ints, Ints]:
    """Cut spans at the buckets' edges: return row, bucket number and length [µs] of every piece."""
    first = since // step
    count = (until - 1) // step - first + 1
    row = np.repeat(np.arange(since.size), count)
    bucket = first[row] + np.arange(row.size) - np.repeat(np.cumsum(count) - count, count)
    weight = np.minimum(until[row], (bucket + 1) * step) - np.maximum(since[row], bucket * step)
    return row, bucket, weight


def _labelled(frame: pd.DataFrame, rows: Ints, starts: Ints, value: str, values: Any) -> pd.DataFrame:
    time = pd.DatetimeIndex(starts.view("M8[us]")).tz_localize("UTC")
    keys = {name: frame[name].array.take(rows) for name in ("symbol", "exchange")}
    return pd.DataFrame({**keys, "time": time, value: values}, copy=False)


DEV_DAYS = 30
INSTANT = pd.Timedelta(1, "us")
"""Length of an instant: a row with the clock's own time belongs to the past."""

_WEEK = pd.Timedelta(7, "D")
_DAY = pd.Timedelta(1, "D")
_DEV = pd.Timedelta(DEV_DAYS, "D")


class AnswerWindow(NamedTuple):
    """A half-open window, how long the asked one was, and what was changed about it."""

    start: pd.Timestamp
    end: pd.Timestamp
    requested: pd.Timedelta
    notices: list[str]


def resolve(params: Mapping[str, Any], *, now: pd.Timestamp, tier: str) -> AnswerWindow:
    """Return the window of `range`, or of `start` and `end` (default 7 days); refuse what a tier may not."""
    length = times.lookback(params["range"]) if params.get("range") else _WEEK
    end = params.get("end")
    start = params.get("start")
    last = now if end is None else end
    first = min(last, now) - length if start is None else start
    if tier == "dev":
        require_dev_range(last, now)
        if first >= now and (end is None or first < last):
            raise _outside(now)
    if first >= (now + INSTANT if end is None else last):
        raise bad_request(f"start {times.iso(first)} is not before end {times.iso(last)}")
    requested = last - first
    notices: list[str] = []
    if tier == "dev":
        first, last, notices = _clamped(first, last, now)
    reach = last if end is not None and end <= now else now + INSTANT
    return AnswerWindow(first, reach, requested, notices)


def adaptive(length: pd.Timedelta) -> str:
    """Choose the resolution for a window of that length: raw under a day, 1h under a week, else 4h."""
    if length < _DAY:
        return "raw"
    return "1h" if length < _WEEK else "4h"


def _clamped(
    first: pd.Timestamp, last: pd.Timestamp, now: pd.Timestamp
) -> tuple[pd.Timestamp, pd.Timestamp, list[str]]:
    floor = now - _DEV
    notices = []
    if first < floor:
        notices.append(
            f"start was raised from {times.iso(first)} to {times.iso(floor)}: "
            f"Dev covers the rolling {DEV_DAYS} days that end now"
        )
    if last > now:
        notices.append(f"end was set from {times.iso(last)} to now, {times.iso(now)}")
    return max(first, floor), min(last, now), notices


def require_dev_range(end: pd.Timestamp, now: pd.Timestamp) -> None:
    """Refuse a range of a Dev key that ends before the rolling days that it may read (403)."""
    if end <= now - _DEV:
        raise _outside(now)


def _outside(now: pd.Timestamp) -> Refusal:
    """Refuse a range that has no part in the days that Dev covers (403)."""
    return Refusal(
        403,
        f"the range lies outside the rolling {DEV_DAYS} days that Dev covers, "
        f"{times.iso(now - _DEV)} to {times.iso(now)}",
        required_tier="pro",
        docs=DOCS,
    )
