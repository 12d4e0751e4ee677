"""Liquidations: sums per bucket, imbalance, clusters and cascades.

``side`` is the side that was liquidated. Feeds are throttled or sampled on some venues, so levels are not
comparable across venues: use a venue's own shares. An order counts once, by venue and order id.
"""

from __future__ import annotations

import bisect
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from derivdata import times
from derivdata.analysis._typing import Array, Indices
from derivdata.analysis.inputs import require_columns, require_names, require_numbers, together
from derivdata.arguments import Numbers, typed
from derivdata.tables import provenance

__all__ = ["branching_ratio", "bucket", "cascades", "clusters", "imbalance", "observed"]


def __dir__() -> list[str]:
    return __all__


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
        The span; the events' own without them. Give it where a quiet hour at an end counts.
    coverage
        Spans that were observed, columns ``start`` and ``end`` (UTC). Without it every bucket counts as
        observed.

    Returns
    -------
    Dataset, dims `by` and ``time``
        ``long_usd``, ``short_usd`` [USD], ``count``, ``imbalance``, and ``coverage(time)``, the observed
        part of each bucket. A bucket that was watched and stayed empty is 0 with NaN imbalance; one that
        was not watched at all is NaN throughout.

    Raises
    ------
    ValueError
        Columns are absent, an order stands twice, a side is neither ``long`` nor ``short``, or times have no
        zone.
    """
    by = _by(events, by)
    width = times.length(freq, "freq")
    labels = _labels(events, width, start, end)
    inside = events[(events["time"] >= labels[0]) & (events["time"] < labels[-1] + width)]
    place = ((inside["time"] - labels[0]) // width).to_numpy(dtype=np.intp)
    keys = [pd.factorize(np.asarray(inside[name], dtype=object), sort=True) for name in by]
    shape = (*(len(names) for _, names in keys), len(labels))
    at = (*(codes for codes, _ in keys), place)
    value = inside["value_usd"].to_numpy(dtype=np.float64)
    dims = [*by, "time"]
    data = {
        f"{side}_usd": (
            dims,
            _summed(at, np.where(inside["side"] == side, value, 0.0), shape),
            {"units": "USD"},
        )
        for side in ("long", "short")
    }
    data["count"] = (dims, _summed(at, np.ones(len(inside)), shape), {"units": "1"})
    coords = {name: names for name, (_, names) in zip(by, keys, strict=True)}
    result = xr.Dataset(data, coords=coords | {"time": labels.tz_localize(None).as_unit("us")})
    seen = xr.DataArray(_observed(labels, width, coverage), dims="time", attrs={"units": "fraction"})
    if coverage is not None:
        result = result.map(lambda values: values.where(seen > 0), keep_attrs=True)
    result["imbalance"] = imbalance(result["long_usd"], result["short_usd"])
    return result.assign(coverage=seen)


@typed
def clusters(events: pd.DataFrame, gap: str = "60s", *, by: Sequence[str] = ()) -> pd.DataFrame:
    """Find runs of liquidations that follow one another within a gap.

    Parameters
    ----------
    events
        Table ``liquidations_events``, or a frame with ``time``, ``side`` and ``value_usd``.
    gap
        Longest wait [time] inside a cluster, inclusive: one that is longer starts a new cluster.
    by
        Columns within which clusters are sought, such as ``("symbol",)``.

    Returns
    -------
    DataFrame
        One row per cluster in order of ``start``: `by`, ``start``, ``end``, ``count``, ``value_usd``,
        ``imbalance``, ``venues`` (how many; NaN without a column ``exchange``), ``peak_10s_usd``, the most in
        any 10 seconds, and ``price_move``, last fill price over first minus 1 (NaN without prices, or where
        symbols are mixed).

    Raises
    ------
    ValueError
        Columns are absent, an order stands twice, a side is neither ``long`` nor ``short``, or times have no
        zone.

    Examples
    --------
    >>> orders = dd.liquidations.events(since="1h")
    >>> runs = dd.analysis.liquidations.clusters(orders, gap="30s")
    >>> int(runs["count"].sum()) == len(orders)
    True
    """
    by = _by(events, by)
    columns = [*by, "start", "end", "count", "value_usd", "imbalance", "venues", "peak_10s_usd", "price_move"]
    if not len(events):
        return pd.DataFrame(columns=columns)
    keys = {name: pd.factorize(np.asarray(events[name], dtype=object), sort=True) for name in by}
    stamps = np.asarray(events["time"].dt.as_unit("us").array.asi8)
    order = np.lexsort([stamps, *(codes for codes, _ in reversed(keys.values()))])
    events, stamps = events.iloc[order], stamps[order]
    fresh = np.append(True, np.diff(stamps) > times.length(gap, "gap") // pd.Timedelta(1, "us"))
    for codes, _ in keys.values():
        fresh[1:] |= np.diff(codes[order]) != 0
    first = np.flatnonzero(fresh)
    last, cluster = np.append(first[1:], stamps.size) - 1, np.cumsum(fresh) - 1
    value, sides = events["value_usd"].to_numpy(dtype=np.float64), np.asarray(events["side"], dtype=object)
    long, short = (np.add.reduceat(np.where(sides == side, value, 0.0), first) for side in ("long", "short"))
    table = pd.DataFrame({name: names[codes[order[first]]].tolist() for name, (codes, names) in keys.items()})
    for name, rows in (("start", first), ("end", last)):
        table[name] = events["time"].array[rows]
    table["count"] = last - first + 1
    table["value_usd"] = np.add.reduceat(value, first)
    table["imbalance"] = imbalance(long, short)
    table["venues"] = _distinct(events, "exchange", cluster)
    table["peak_10s_usd"] = np.maximum.reduceat(_next_10s(stamps, value, first, cluster), first)
    table["price_move"] = np.nan
    if "fill_price_usd" in events:
        price = events["fill_price_usd"].to_numpy(dtype=np.float64)
        one_asset = "symbol" not in events or _distinct(events, "symbol", cluster) == 1
        table["price_move"] = np.where(one_asset, price[last] / price[first] - 1.0, np.nan)
    return table[columns].sort_values("start", kind="stable").reset_index(drop=True)


@typed
def cascades(
    found: pd.DataFrame,
    *,
    min_count: int = 5,
    min_usd: float = 1e6,
    quantile: float = 0.99,
    history: int = 20,
) -> pd.DataFrame:
    """Choose the clusters that are large on their own and large against what came before.

    Parameters
    ----------
    found
        What `clusters` returned; columns ``start``, ``end``, ``count``, ``value_usd``.
    min_count, min_usd
        Fewest orders, and least value [USD].
    quantile, history
        The value must also reach this quantile of all clusters that had ended before this one started, once
        there are `history` of them.

    Returns
    -------
    DataFrame
        The rows that qualify, in order of ``start``. A cluster that started earlier and still ran is not
        looked at: what it would come to was not known.
    """
    require_columns(found, "found", ("value_usd", "count"), others=("start", "end"))
    if not 0.0 <= quantile <= 1.0:
        raise ValueError(f"{quantile=} is a share of the clusters: from 0 to 1")
    if history < 0:
        raise ValueError(f"{history=} is a number of earlier clusters: 0 or more")
    ordered = found.sort_values("start", kind="stable")
    bar = np.maximum(_past_quantiles(ordered, quantile, history), min_usd)
    large = (ordered["count"] >= min_count) & (ordered["value_usd"].to_numpy() >= bar)
    return ordered[large].reset_index(drop=True)


def _past_quantiles(ordered: pd.DataFrame, quantile: float, history: int) -> Array:
    """Quantile (linear) of the values that were final before each start; −inf below `history` of them."""
    by_end = ordered.sort_values("end", kind="stable")
    ends, starts = (
        np.asarray(column.dt.as_unit("us").array.asi8) for column in (by_end["end"], ordered["start"])
    )
    ended = np.searchsorted(ends, starts, side="left")
    values, bars = by_end["value_usd"].to_numpy(dtype=np.float64), np.full(len(ordered), -np.inf)
    past: list[float] = []
    for row, number in enumerate(ended):
        for value in values[len(past) : number]:
            bisect.insort(past, float(value))
        if number and number >= history:
            place = quantile * (number - 1)
            below, share = int(place), place % 1.0
            above = past[min(below + 1, number - 1)]
            bars[row] = past[below] + share * (above - past[below])
    return bars


@typed
def observed(*frames: pd.DataFrame) -> pd.DataFrame:
    """Collect the spans that a live feed covers, as `bucket` takes them.

    Parameters
    ----------
    *frames
        What ``dd.liquidations.poll`` yielded.

    Returns
    -------
    DataFrame
        ``start`` and ``end`` (UTC) of each span, in order; empty spans are left out.

    Raises
    ------
    ValueError
        A frame says nothing of its coverage.
    """
    spans: list[list[str]] = []
    for frame in frames:
        coverage = provenance(frame).get("coverage")
        if coverage is None:
            raise ValueError("a frame says nothing of its coverage: only those of dd.liquidations.poll do")
        spans += coverage["observed"]
    table = pd.DataFrame(spans, columns=["start", "end"]).apply(pd.to_datetime, utc=True)
    return table[table["end"] > table["start"]].sort_values("start").reset_index(drop=True)


@typed
def branching_ratio(counts: xr.DataArray, *, dim: str = "time") -> xr.DataArray:
    """Estimate how much of the flow excites itself: 1 − √(mean/variance) of counts per bucket.

    NaN where the variance does not exceed the mean, as of independent events. Missing buckets are left out.

    Notes
    -----
    Hardiman and Bouchaud (2014), Physical Review E 90:062807.
    """
    if dim not in counts.dims:
        raise ValueError(f"counts has no dim {dim!r}, but {', '.join(map(str, counts.dims))}")
    require_numbers(counts, "counts")
    if counts.attrs.get("units", "1") != "1":
        raise ValueError(f"counts is in {counts.attrs['units']!r}: this takes numbers of events")
    mean, variance = counts.mean(dim), counts.var(dim, ddof=0)
    return (1.0 - (mean / variance.where(variance > mean)) ** 0.5).rename("branching_ratio")


def _by(events: pd.DataFrame, by: Sequence[str]) -> list[str]:
    _check(events, ("side", "value_usd"))
    require_names(events, by, "by", "events")
    for name in by:
        if events[name].isna().any():
            raise ValueError(f"events lack {name!r} in some rows: by can not place them")
    return list(by)


def _check(events: pd.DataFrame, columns: Sequence[str]) -> None:
    numbers = [name for name in ("value_usd", "fill_price_usd") if name in ("value_usd", *events.columns)]
    require_columns(events, "events", numbers, others=("time", *columns))
    strange = events["side"][~events["side"].isin(("long", "short"))]
    if len(strange):
        raise ValueError(
            f"events has the side {strange.iloc[0]!r}: it must be 'long' or 'short', the side that was "
            "liquidated. A forced sell order closes a long"
        )
    if events["time"].isna().any():
        raise ValueError("events lack the time in some rows")
    if len(events) and getattr(events["time"].dtype, "tz", None) is None:
        raise ValueError("times of events have no zone: .dt.tz_localize('UTC') says which")
    if {"exchange", "order_id"} <= set(events.columns):
        doubled = int(events.duplicated(["exchange", "order_id"]).sum())
        if doubled:
            raise ValueError(
                f"{doubled} events repeat an order of a venue: drop_duplicates(['exchange', 'order_id'])"
            )


def _labels(events: pd.DataFrame, width: pd.Timedelta, start: Any, end: Any) -> pd.DatetimeIndex:
    if (start is None or end is None) and not len(events):
        raise ValueError("no events: give start and end of the span")
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


def _observed(labels: pd.DatetimeIndex, width: pd.Timedelta, coverage: pd.DataFrame | None) -> Array:
    """Return the part of each bucket that lies in the union of the observed spans."""
    if coverage is None:
        return np.ones(len(labels))
    require_columns(coverage, "coverage", others=("start", "end"))
    seen = np.zeros(len(labels))
    reached = labels[0]
    for span in coverage.sort_values("start").itertuples():
        start = max(span.start, reached)
        overlap = np.minimum(labels + width, span.end) - np.maximum(labels, start)
        seen += np.maximum(overlap / width, 0.0)
        reached = max(reached, span.end)
    return seen


def _distinct(events: pd.DataFrame, column: str, cluster: Indices) -> Any:
    """Count the different values of a column in each cluster; NaN where there is no such column."""
    if column not in events:
        return np.nan
    codes, names = pd.factorize(np.asarray(events[column], dtype=object))
    named = codes >= 0  # −1 stands for a missing value
    pairs = np.unique(cluster[named] * len(names) + codes[named])
    return np.bincount(pairs // max(len(names), 1), minlength=cluster[-1] + 1)


def _next_10s(stamps: Array, value: Array, first: Indices, cluster: Indices) -> Array:
    """Sum the value of each event and those within 10 seconds after it in its cluster.

    Stamps ascend within a cluster only, and one search over all of them needs a single scale: every cluster
    is moved to where the one before it ends plus 20 seconds, so that no window reaches into the next. The
    sums are differences of one running total, right to about 1e-16 of all the value there is.
    """
    last = np.append(first[1:], stamps.size) - 1
    starts = np.append(0, np.cumsum(stamps[last] - stamps[first] + 20_000_000)[:-1])
    moved = stamps - stamps[first][cluster] + starts[cluster]
    total = np.append(0.0, np.cumsum(value))
    return np.asarray(total[np.searchsorted(moved, moved + 10_000_000, side="left")] - total[:-1])
