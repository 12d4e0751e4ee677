"""Liquidated value per bucket of time: sums, imbalance, coverage, and how far events excite each other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from derivdata.analysis.inputs import require_names, together
from derivdata.support import times
from derivdata.support.arguments import Numbers, typed
from derivdata.support.arrays import Array
from derivdata.tables.panels import provenance
from derivdata.tables.required import require_columns, require_zone

_MOST_BUCKETS = 10_000_000


@typed
def imbalance(long_usd: Numbers, short_usd: Numbers) -> Any:
    """Return ``(long − short) / (long + short)`` of liquidated value; NaN where nothing was liquidated.

    Examples
    --------
    >>> dd.analysis.liquidations.imbalance(3.0, 1.0)
    0.5
    """
    long, short = together(long_usd=long_usd, short_usd=short_usd)
    total = long + short
    with np.errstate(divide="ignore", invalid="ignore"):
        return (long - short) / total


@typed
def bucket(
    events: pd.DataFrame,
    freq: str = "5min",
    *,
    by: Sequence[str] = (),
    start: Any = None,
    end: Any = None,
    coverage: pd.DataFrame | None = None,
) -> xr.Dataset:
    """Sum liquidated value per bucket ``[t, t + freq)``, labelled by its start.

    Parameters
    ----------
    events
        Table ``liquidations_events``, or a frame with ``time``, ``side`` and ``value_usd``.
    freq
        Width of a bucket, anchored at 1970-01-01.
    by
        Further dims, such as ``("symbol", "exchange")``.
    start, end
        The window; by default that of the events. Give it where a quiet hour at an end counts.
    coverage
        Intervals that were observed, columns ``start`` and ``end`` (UTC). Without it every bucket counts
        as observed.

    Returns
    -------
    Dataset, dims `by` and ``time``
        ``long_usd``, ``short_usd`` [USD], ``count``, ``imbalance``, and ``coverage(time)``, the observed
        share of each bucket. A bucket that was observed without an order is 0 with NaN imbalance; one that
        was not observed at all is NaN throughout.

    Raises
    ------
    ValueError
        Columns are absent, an order occurs twice, a side is neither ``long`` nor ``short``, or times have no
        zone.
    """
    by = check_orders(events, by)
    width = times.length(freq, "freq")
    labels = _labels(events, width, start, end)
    # One number per cell (row-major over `by` and time), summed by bincount: no groupby of wide frames.
    inside = events[(events["time"] >= labels[0]) & (events["time"] < labels[-1] + width)]
    place = ((inside["time"] - labels[0]) // width).to_numpy(dtype=np.intp)
    keys = [pd.factorize(np.asarray(inside[name], dtype=object), sort=True) for name in by]
    shape = (*(len(names) for _, names in keys), len(labels))
    at = (*(codes for codes, _ in keys), place)
    value = inside["value_usd"].to_numpy(dtype=np.float64)
    added = {f"{side}_usd": np.where(inside["side"] == side, value, 0.0) for side in ("long", "short")}
    data = {
        name: ([*by, "time"], _summed(at, part, shape), {"units": "1" if name == "count" else "USD"})
        for name, part in (added | {"count": np.ones(len(inside))}).items()
    }
    coords = {name: names for name, (_, names) in zip(by, keys, strict=True)}
    result = xr.Dataset(data, coords=coords | {"time": times.naive_utc(labels).as_unit("us")})
    observed_share = xr.DataArray(
        _observed_shares(labels, width, coverage), dims="time", attrs={"units": "fraction"}
    )
    if coverage is not None:
        result = result.map(lambda values: values.where(observed_share > 0), keep_attrs=True)
    result["imbalance"] = imbalance(result["long_usd"], result["short_usd"]).assign_attrs(units="fraction")
    return result.assign(coverage=observed_share)


def _labels(events: pd.DataFrame, width: pd.Timedelta, start: Any, end: Any) -> pd.DatetimeIndex:
    if (start is None or end is None) and not len(events):
        raise ValueError("no events: give start and end of the window")
    first = events["time"].min() if start is None else times.instant(start, "start")
    last = events["time"].max() if end is None else times.instant(end, "end") - pd.Timedelta(1, "us")
    if not first <= last:
        raise ValueError(f"start {first} is not before end {last}: buckets are of [start, end)")
    if not (last - first) < _MOST_BUCKETS * width:
        raise ValueError(
            f"freq={width} from start {first} to end {last} is more than {_MOST_BUCKETS:,} buckets"
        )
    return pd.date_range(first.floor(width), last.floor(width), freq=width)


def _summed(at: tuple[Array, ...], values: Array, shape: tuple[int, ...]) -> Array:
    flat = np.ravel_multi_index(at, shape) if values.size else np.array([], dtype=np.intp)
    return np.bincount(flat, weights=values, minlength=int(np.prod(shape))).reshape(shape)


def _observed_shares(labels: pd.DatetimeIndex, width: pd.Timedelta, coverage: pd.DataFrame | None) -> Array:
    """Return the share of each bucket that lies in the union of the observed intervals."""
    if coverage is None:
        return np.ones(len(labels))
    require_columns(coverage, "coverage", others=("start", "end"))
    shares = np.zeros(len(labels))
    covered_to = labels[0]  # intervals may overlap: each counts only from the end of those before it
    for interval in coverage.sort_values("start").itertuples():
        start = max(interval.start, covered_to)
        overlap = np.minimum(labels + width, interval.end) - np.maximum(labels, start)
        shares += np.maximum(overlap / width, 0.0)
        covered_to = max(covered_to, interval.end)
    return shares


@typed
def observed(*frames: pd.DataFrame) -> pd.DataFrame:
    """Collect the intervals that a live feed covers, as `bucket` takes them.

    Parameters
    ----------
    *frames
        Frames that ``dd.liquidations.poll`` yielded.

    Returns
    -------
    DataFrame
        ``start`` and ``end`` (UTC) of each interval, in order; empty ones are left out.

    Raises
    ------
    ValueError
        A frame has no coverage in its provenance.
    """
    intervals: list[list[str]] = []
    for frame in frames:
        coverage = provenance(frame).get("coverage")
        if coverage is None:
            raise ValueError("a frame has no coverage: only those of dd.liquidations.poll have")
        intervals += coverage["observed"]
    table = pd.DataFrame(intervals, columns=["start", "end"]).apply(pd.to_datetime, utc=True)
    return table[table["end"] > table["start"]].sort_values("start").reset_index(drop=True)


def check_orders(events: pd.DataFrame, by: Sequence[str]) -> list[str]:
    """Check that orders can be grouped by columns, and return these."""
    numbers = [name for name in ("value_usd", "fill_price_usd") if name in ("value_usd", *events.columns)]
    require_columns(events, "events", numbers, others=("time", "side", "value_usd"))
    unknown = events["side"][~events["side"].isin(("long", "short"))]
    if len(unknown):
        raise ValueError(
            f"events has the side {unknown.iloc[0]!r}: it must be 'long' or 'short', the side that was "
            "liquidated. A forced sell order closes a long"
        )
    if events["time"].isna().any():
        raise ValueError("events lack the time in some rows")
    if len(events):
        require_zone(events, "events")
    if {"exchange", "order_id"} <= set(events.columns):
        duplicates = int(events.duplicated(["exchange", "order_id"]).sum())
        if duplicates:
            raise ValueError(
                f"{duplicates} events repeat an order of a venue: drop_duplicates(['exchange', 'order_id'])"
            )
    require_names(events, by, "by", "events")
    for name in by:
        if events[name].isna().any():
            raise ValueError(f"events lack {name!r} in some rows: by can not place them")
    return list(by)
