"""Windows of responses, and means and sums of series in buckets.

Buckets are anchored at midnight UTC and labelled by their start. A sample is valid until the next sample of
its series, at most `HOLD`; a row that states a resolution is valid for that long. The mean of a bucket is
weighted by time. It uses all known values of the bucket up to the clock, even outside the requested window,
so joined windows equal one long window. A bucket without known values is omitted.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from derivdata.sources.service.data.store import DOCS, Refusal, bad_request
from derivdata.support import times
from derivdata.support.arrays import Ints

HOLD = pd.Timedelta(1, "h")


def holds(resolution: pd.Series) -> Ints:
    """Return the maximum validity of each row's value [µs], from the resolution that the row states."""
    names = pd.Categorical(resolution).remove_unused_categories()
    lengths = [times.us(times.resolution(str(name)) or HOLD) for name in names.categories]
    # A missing resolution has the code −1 and takes the last length.
    return np.asarray(np.array([*lengths, times.us(HOLD)], dtype=np.int64)[names.codes])


def ends(frame: pd.DataFrame) -> pd.DatetimeIndex:
    """Return the end of each row's step: its time plus its resolution, which is 0 for a raw row."""
    names = pd.Categorical(frame["resolution"]).remove_unused_categories()
    steps = [length(str(name)) for name in names.categories]
    # The last length is that of the code -1, for rows without a resolution.
    lengths = np.array([*map(times.us, steps), 0], dtype="timedelta64[us]")[names.codes]
    return pd.DatetimeIndex(frame["time"]) + pd.TimedeltaIndex(lengths)


def steps(frame: pd.DataFrame) -> list[str]:
    """List the distinct resolutions of rows; an empty text means rows without a resolution."""
    resolutions = pd.Categorical(frame["resolution"])
    names = [*map(str, resolutions.categories), ""]
    has_one_resolution = len(resolutions) > 0 and len(names) == 2 and int(np.min(resolutions.codes)) == 0
    if has_one_resolution:  # the usual case, without the sort of np.unique
        return names[:1]
    return [names[code] for code in np.unique(resolutions.codes).tolist()]


def length(resolution: str) -> pd.Timedelta:
    """Return the length of a step, 0 for raw rows."""
    return times.resolution(resolution) or pd.Timedelta(0)


def longer(frame: pd.DataFrame, resolution: str) -> list[str]:
    """List the resolutions in the rows that are longer than `resolution`, shortest first."""
    step = times.resolution(resolution)
    if step is None:
        return []
    return sorted((name for name in steps(frame) if length(name) > step), key=length)


def means(frame: pd.DataFrame, value: str, step: pd.Timedelta, horizon: pd.Timestamp) -> pd.DataFrame:
    """Average a column over time in every bucket in which a sample is valid.

    `frame` has symbol, exchange, time, resolution and `value`, sorted by the first three; samples are valid
    up to `horizon` at most. The result is sorted the same way; its times are the starts of the buckets.
    """
    frame = frame[frame[value].notna() & (frame["time"] < horizon)]
    if frame.empty:
        return frame[["symbol", "exchange", "time", value]]
    series, first = _series(frame)
    since, until = _validity(frame, series, horizon)
    row, bucket, weight = pieces(since, until, times.us(step))
    # Pieces are sorted by series and bucket, so each mean is over a run of rows that starts at `opens`.
    opens = np.flatnonzero(np.r_[True, (np.diff(bucket) != 0) | (np.diff(series[row]) != 0)])
    total = np.add.reduceat(frame[value].to_numpy()[row] * weight, opens)
    mean = total / np.add.reduceat(weight, opens)
    return _labelled(frame, first[series[row[opens]]], bucket[opens] * times.us(step), value, mean)


def overall(frame: pd.DataFrame, value: str, start: pd.Timestamp, horizon: pd.Timestamp) -> dict[str, float]:
    """Return the mean of one symbol's column from `start` to `horizon` by venue, weighted by time.

    The rows are sorted as for `means`.
    """
    frame = frame[frame[value].notna() & (frame["time"] < horizon)]
    if frame.empty:
        return {}
    series, first = _series(frame)
    since, until = _validity(frame, series, horizon)
    weight = np.maximum(until - np.maximum(since, times.us(start)), 0)
    total_weight = np.add.reduceat(weight, first)
    total = np.add.reduceat(frame[value].to_numpy() * weight, first)
    venues = frame["exchange"].iloc[first].astype(str).tolist()
    has_weight = total_weight > 0
    means = total[has_weight] / total_weight[has_weight]
    return dict(zip(np.array(venues)[has_weight].tolist(), means.tolist(), strict=True))


def sums(frame: pd.DataFrame, value: str, step: pd.Timedelta, horizon: pd.Timestamp) -> pd.DataFrame:
    """Add up a column over the rows that begin in each bucket. The rows are sorted as for `means`."""
    frame = frame[frame[value].notna() & (frame["time"] < horizon)]
    if frame.empty:
        return frame[["symbol", "exchange", "time", value]]
    series, first = _series(frame)
    bucket = frame["time"].array.asi8 // times.us(step)
    opens = np.flatnonzero(np.r_[True, (np.diff(bucket) != 0) | (np.diff(series) != 0)])
    total = np.add.reduceat(frame[value].to_numpy(), opens)
    return _labelled(frame, first[series[opens]], bucket[opens] * times.us(step), value, total)


def samples(frame: pd.DataFrame, by: list[str], step: pd.Timedelta, horizon: pd.Timestamp) -> pd.DataFrame:
    """Return the newest row of each step and series, stamped at the step's end; `frame` is sorted by time.

    Changes of means over steps have two thirds of the variance of changes between the ends of steps, so
    prices are sampled. A value counts for its own step only: repeating it in later steps would add a return
    of zero that was not observed.
    """
    end = frame["time"].dt.ceil(step)  # a value exactly at the end belongs to the step
    newest = ~frame[by].assign(end=end).duplicated(keep="last")
    return frame.assign(time=end)[newest & (end < horizon)]


def added(frame: pd.DataFrame, by: list[str], step: pd.Timedelta, horizon: pd.Timestamp) -> pd.DataFrame:
    """Add up every number over the rows of a series that begin in each bucket."""
    frame = frame[frame["time"] < horizon]
    grouped = frame.assign(time=frame["time"].dt.floor(step)).groupby([*by, "time"], observed=True)
    return grouped.sum(numeric_only=True, min_count=1).round(2).reset_index()


def _series(frame: pd.DataFrame) -> tuple[Ints, Ints]:
    """Return the number of each row's (symbol, exchange) series, and the first row of each series."""
    symbol, exchange = (pd.factorize(frame[name])[0] for name in ("symbol", "exchange"))
    is_first = np.r_[True, (np.diff(symbol) != 0) | (np.diff(exchange) != 0)]
    return np.cumsum(is_first) - 1, np.flatnonzero(is_first)


def _validity(frame: pd.DataFrame, series: Ints, horizon: pd.Timestamp) -> tuple[Ints, Ints]:
    """Return start and end [µs] of the validity of each row's value.

    It ends at the next row of the series, after the step of the row, or at the horizon.
    """
    since = frame["time"].array.asi8
    next_row = np.full(since.size, np.iinfo(np.int64).max)
    has_next = series[1:] == series[:-1]
    next_row[:-1][has_next] = since[1:][has_next]
    until = np.minimum(next_row, since + holds(frame["resolution"]))
    return since, np.minimum(until, times.us(horizon))


def pieces(since: Ints, until: Ints, step: int) -> tuple[Ints, Ints, Ints]:
    """Cut spans at the edges of buckets: return row, bucket number and length [µs] of every piece."""
    first = since // step
    count = (until - 1) // step - first + 1
    row = np.repeat(np.arange(since.size), count)
    # The k-th piece of a span is in bucket first + k; the last term is the number of pieces of earlier spans.
    bucket = first[row] + np.arange(row.size) - np.repeat(np.cumsum(count) - count, count)
    weight = np.minimum(until[row], (bucket + 1) * step) - np.maximum(since[row], bucket * step)
    return row, bucket, weight


def _labelled(frame: pd.DataFrame, rows: Ints, starts: Ints, value: str, values: Any) -> pd.DataFrame:
    """Return values with the keys of some rows and the starts of their buckets."""
    time = pd.DatetimeIndex(starts.view("M8[us]")).tz_localize("UTC")
    keys = {name: frame[name].array.take(rows) for name in ("symbol", "exchange")}
    return pd.DataFrame({**keys, "time": time, value: values}, copy=False)


DEV_DAYS = 30
TICK = pd.Timedelta(1, "us")
"""Smallest difference of times: added to the clock so that a row exactly at the clock counts as past."""

_WEEK = pd.Timedelta(7, "D")
_DAY = pd.Timedelta(1, "D")
_DEV = pd.Timedelta(DEV_DAYS, "D")


class ResponseWindow(NamedTuple):
    """A half-open window, the length of the requested window, and notices about changes to it."""

    start: pd.Timestamp
    end: pd.Timestamp
    requested: pd.Timedelta
    notices: list[str]


def resolve(params: Mapping[str, Any], *, now: pd.Timestamp, tier: str) -> ResponseWindow:
    """Return the window of `range`, or of `start` and `end` (default 7 days); check it against the tier."""
    length = _WEEK
    if params.get("range"):
        length = times.lookback(params["range"])
    horizon = now + TICK  # a row exactly at the clock is visible
    last = now
    end = horizon
    if params.get("end") is not None:
        last = end = params["end"]
    first = params.get("start")
    if first is None:
        first = min(last, now) - length
    if tier == "dev":
        require_dev_range(last, now)
        begins_in_future = first >= now
        is_empty = params.get("end") is not None and first >= end
        if begins_in_future and not is_empty:
            raise _outside(now)
    if first >= end:
        raise bad_request(f"start {times.iso(first)} is not before end {times.iso(last)}")
    requested = last - first
    notices: list[str] = []
    if tier == "dev":
        first, notices = _clamp_to_dev_days(first, last, now)
    return ResponseWindow(first, min(end, horizon), requested, notices)


def adaptive(length: pd.Timedelta) -> str:
    """Return the resolution for a window of a length: raw under a day, 1h under a week, else 4h."""
    if length < _DAY:
        return "raw"
    if length < _WEEK:
        return "1h"
    return "4h"


def _clamp_to_dev_days(
    first: pd.Timestamp, last: pd.Timestamp, now: pd.Timestamp
) -> tuple[pd.Timestamp, list[str]]:
    """Return the start within the days that Dev covers, and notices about a changed start or end."""
    floor = now - _DEV
    notices = []
    if first < floor:
        notices.append(
            f"start was raised from {times.iso(first)} to {times.iso(floor)}: "
            f"Dev covers the rolling {DEV_DAYS} days that end now"
        )
    if last > now:
        notices.append(f"end was set from {times.iso(last)} to now, {times.iso(now)}")
    return max(first, floor), notices


def require_dev_range(end: pd.Timestamp, now: pd.Timestamp) -> None:
    """Raise `Refusal` (403) if a window ends before the rolling days that Dev covers."""
    if end <= now - _DEV:
        raise _outside(now)


def _outside(now: pd.Timestamp) -> Refusal:
    """Return the error for a window outside the days that Dev covers (403)."""
    return Refusal(
        403,
        f"the range is outside the rolling {DEV_DAYS} days that Dev covers, "
        f"{times.iso(now - _DEV)} to {times.iso(now)}",
        required_tier="pro",
        docs=DOCS,
    )
