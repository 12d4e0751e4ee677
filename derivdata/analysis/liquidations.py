"""Liquidations: sums per bucket, imbalance, clusters and cascades.

``side`` is the side that was liquidated. Feeds are throttled or sampled on some venues, so levels are not
comparable across venues: use a venue's own shares. An order counts once, by venue and order id.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntFlag
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import xarray as xr
from scipy.special import fdtrc

from derivdata.analysis.panels import figures_of, require_names, require_numbers, together
from derivdata.support import times
from derivdata.support.arguments import Numbers, typed
from derivdata.support.arrays import Array, Bools, Floats, Indices
from derivdata.tables.frames import require_columns, require_zone
from derivdata.tables.panels import provenance

__all__ = ["branching_ratio", "bucket", "cascades", "clusters", "imbalance", "observed"]
__dir__ = __all__.copy


# Counts vary more than those of independent events if events trigger others, but also if the rate follows the
# time of day or drifts. Bursts longer than a bucket are split, which hides some excitation. The status
# reports both.
_MIN_BUCKETS = 30  # buckets
_DAYS = 3
_BLOCKS = 6  # of a day, four hours each
_LAGS = 8
_CHANCE = 0.01
_MATTERS = 0.05  # of the branching ratio


class BranchingStatus(IntFlag):
    """Status bits of `branching_ratio`; 0 means that none applies."""

    TOO_FEW = 1 << 0
    """Fewer than 30 buckets are known."""
    NO_EXCESS = 1 << 1
    """The counts do not vary more than those of independent events, so the ratio is undefined."""
    CYCLE = 1 << 2
    """Counts follow the time of day or the weekend. Without this cycle the ratio would be lower by more than
    0.05."""
    CORRELATED = 1 << 3
    """Adjacent buckets are correlated, so the ratio is unreliable: long bursts, or a drifting rate."""
    CANNOT_TELL = 1 << 4
    """Less than three days are covered, or times are missing: a daily cycle may explain the ratio."""


class _Clock(NamedTuple):
    """Day, block of four hours, and weekend flag of each bucket."""

    day: Indices
    block: Indices
    weekend: Bools


@typed
def branching_ratio(counts: xr.DataArray, *, dim: str = "time") -> xr.DataArray:
    """Estimate the branching ratio of a self-exciting flow: 1 − √(mean/variance) of counts per bucket.

    Parameters
    ----------
    counts
        Numbers of events per bucket, in memory or lazy. Missing buckets are ignored.
    dim
        The buckets' dim; with times [UTC] as its coordinate, daily and weekly cycles are detected.

    Returns
    -------
    DataArray, the dims of `counts` without `dim`
        The ratio; NaN if the variance does not exceed the mean, as for independent events. The coordinate
        ``status`` (`BranchingStatus`) flags other explanations, and data that do not determine the ratio.

    Notes
    -----
    Hardiman and Bouchaud (2014), Physical Review E 90:062807. Any excess variation counts as excitation:
    independent events in 5-minute buckets give 0.38 with a daily cycle of ±80 %, and 0.17 with weekends at
    two fifths of weekdays; both have the status ``cycle``. In that case use buckets of one time of day on
    weekdays only. Buckets with the status ``correlated`` are shorter than the bursts: use longer ones. If the
    status remains, the rate drifts or the flow is near critical, and the ratio is not usable. Rates are
    compared over six blocks of a day and over weekends, at 1 % significance each; effects up to 0.05 are
    ignored.
    """
    if dim not in counts.dims:
        raise ValueError(f"counts must have the dim {dim!r}, got dims {', '.join(map(str, counts.dims))}")
    require_numbers(counts, "counts")
    if bool((counts < 0.0).any()):
        raise ValueError("counts must be numbers of events, 0 or more: some are negative")
    if counts.attrs.get("units", "1") != "1":
        raise ValueError(f"counts must be numbers of events, got units {counts.attrs['units']!r}")
    units = {"branching_ratio": "1", "status": BranchingStatus}
    result = figures_of(
        _branching, counts, units=units, over=[dim], vectorize=True, clock=_clock(counts, dim)
    )
    return result.set_coords("status")["branching_ratio"]


def _clock(counts: xr.DataArray, dim: str) -> _Clock | None:
    """Return day, block and weekend flag of each bucket; None without times."""
    if dim not in counts.coords or counts[dim].dtype.kind != "M":
        return None
    times = counts[dim].to_numpy()
    hours = times.astype("datetime64[h]").astype(np.int64)
    day = hours // 24
    # 1970-01-01 was a Thursday, so days 2 and 3 of each week since then are Saturday and Sunday.
    return _Clock(day, hours % 24 * _BLOCKS // 24, np.isin(day % 7, (2, 3)))


def _branching(counts: Array, *, clock: _Clock | None) -> tuple[float, int]:
    """Return the branching ratio of counts per bucket, and its status; see `branching_ratio`."""
    # 1. Compute the ratio, if the counts vary more than those of independent events.
    finite = np.isfinite(counts)
    n = int(finite.sum())
    level = np.asarray(counts, dtype=np.float64)
    status = BranchingStatus(0)
    if n < _MIN_BUCKETS:
        status = BranchingStatus.TOO_FEW
    if not n:
        return np.nan, int(status | BranchingStatus.NO_EXCESS)
    mean = float(level[finite].mean())
    power = float(((level[finite] - mean) ** 2).sum())
    if not power / max(n, 1) > mean:
        return np.nan, int(status | BranchingStatus.NO_EXCESS)
    ratio = _ratio(power / n, mean)
    if n < _MIN_BUCKETS:
        return ratio, int(status | BranchingStatus.CANNOT_TELL)

    # 2. Test for a daily or weekly cycle, and for correlation that remains without it.
    residuals = level - mean
    if clock is None or np.unique(clock.day[finite]).size < _DAYS:
        status |= BranchingStatus.CANNOT_TELL
    else:
        # Remove the mean of each block of the day, separately for weekends and weekdays.
        stratum = clock.block + _BLOCKS * clock.weekend
        count = np.bincount(stratum[finite], minlength=2 * _BLOCKS)
        sums = np.bincount(stratum[finite], weights=level[finite], minlength=2 * _BLOCKS)
        residuals = level - (sums / np.maximum(count, 1))[stratum]
        within = _ratio(float((residuals[finite] ** 2).sum()) / (n - int((count > 0).sum())), mean)
        if ratio - within > _MATTERS and _follows_clock(level, finite, clock):
            status |= BranchingStatus.CYCLE
    return ratio, int(status | _correlated(residuals, finite, mean))


def _ratio(variance: float, mean: float) -> float:
    """Return 1 − √(mean/variance): long buckets of a Hawkes process have variance/mean 1/(1 − n)²."""
    if not variance > mean:
        return 0.0
    return 1.0 - float(np.sqrt(mean / variance))


def _follows_clock(level: Floats, finite: Bools, clock: _Clock) -> bool:
    """Return whether blocks of the day, or weekends, differ significantly, by analyses of variance.

    The observations are blocks and days, because bursts of minutes make shorter ones dependent.
    """
    # 1. Compute the mean of each block (day, block of the day), for days with all blocks.
    day = clock.day[finite] - np.min(clock.day[finite])
    days = int(np.max(day)) + 1
    place = day * _BLOCKS + clock.block[finite]
    count = np.bincount(place, minlength=days * _BLOCKS)
    total = np.bincount(place, weights=level[finite], minlength=days * _BLOCKS)
    means = np.where(count > 0, total / np.maximum(count, 1), np.nan).reshape(days, _BLOCKS)
    is_complete = np.isfinite(means).all(axis=1)
    is_weekend = np.zeros(days, dtype=np.bool_)
    is_weekend[day] = clock.weekend[finite]

    # 2. Compare blocks without the means of their days, each of which takes a degree of freedom, then days.
    daily = means[is_complete].mean(axis=1)
    within_day = means[is_complete] - daily[:, None]
    if _differ(within_day.T, lost=len(within_day) - 1):
        return True
    of_weekend = is_weekend[is_complete]
    return _differ([daily[of_weekend], daily[~of_weekend]])


def _differ(groups: Any, lost: int = 0) -> bool:
    """Return whether groups have different means, by an F test minus `lost` degrees of freedom."""
    groups = [group for group in groups if len(group)]
    size = sum(map(len, groups))
    free = size - len(groups) - lost
    if len(groups) < 2 or free < 1:
        return False
    centre = sum(group.sum() for group in groups) / size
    between = 0.0
    inside = 0.0
    for group in groups:
        between += len(group) * (group.mean() - centre) ** 2
        inside += ((group - group.mean()) ** 2).sum()
    statistic = (between / (len(groups) - 1)) / max(inside / free, 1e-300)
    return bool(fdtrc(len(groups) - 1, free, statistic) < _CHANCE)


def _correlated(residuals: Floats, finite: Bools, mean: float) -> BranchingStatus:
    """Return whether adjacent buckets are so correlated that longer ones would give another ratio."""
    level = np.where(finite, residuals, 0.0)
    n = int(finite.sum())
    power = float(level @ level)
    rho = np.array([level[lag:] @ level[:-lag] for lag in range(1, _LAGS + 1)]) / max(power, 1e-300)
    inflation = 1.0 + 2.0 * float(rho.sum())
    by_chance = rho.sum() < 2.33 * np.sqrt(_LAGS / n)  # the 99 % quantile for independent buckets
    if by_chance or _ratio(power * inflation / n, mean) - _ratio(power / n, mean) <= _MATTERS:
        return BranchingStatus(0)
    return BranchingStatus.CORRELATED


_MAX_BUCKETS = 10_000_000


@typed
def imbalance(long_usd: Numbers, short_usd: Numbers) -> Any:
    """Compute ``(long − short) / (long + short)`` of liquidated value; NaN where nothing was liquidated.

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
        The window ``[start, end)``; by default from the first to the last event. Pass it to include hours
        without events at either end.
    coverage
        Intervals that were observed, columns ``start`` and ``end`` (UTC). Without it every bucket counts
        as observed.

    Returns
    -------
    Dataset, dims `by` and ``time``
        ``long_usd``, ``short_usd`` [USD], ``count``, ``imbalance``, and ``coverage(time)``, the observed
        share of each bucket. An observed bucket without orders is 0 with NaN imbalance; a bucket that was not
        observed is NaN.

    Raises
    ------
    ValueError
        Columns are missing, an order is duplicated, a side is neither ``long`` nor ``short``, or times have
        no zone.
    """
    # 1. Find the bucket and the group of each order.
    by = check_orders(events, by)
    width = times.length(freq, "freq")
    labels = _labels(events, width, start, end)
    events = events[(events["time"] >= labels[0]) & (events["time"] < labels[-1] + width)]
    cell = []
    coords: dict[str, Any] = {}
    for name in by:
        code, coords[name] = pd.factorize(np.asarray(events[name], dtype=object), sort=True)
        cell.append(code)
    cell.append(((events["time"] - labels[0]) // width).to_numpy(dtype=np.intp))
    shape = (*map(len, coords.values()), len(labels))

    # 2. Sum by cell (row-major over `by` and time) with bincount, which is faster than groupby on wide
    # frames.
    value = events["value_usd"].to_numpy(dtype=np.float64)
    weights = {
        "long_usd": np.where(events["side"] == "long", value, 0.0),
        "short_usd": np.where(events["side"] == "short", value, 0.0),
        "count": np.ones(len(events)),
    }
    units = {"long_usd": "USD", "short_usd": "USD", "count": "1"}
    data = {}
    for name, unit in units.items():
        data[name] = ([*by, "time"], _summed(cell, weights[name], shape), {"units": unit})
    result = xr.Dataset(data, coords=coords | {"time": times.naive_utc(labels).as_unit("us")})

    # 3. Set buckets that were not observed to NaN, not 0.
    observed = _observed_shares(labels, width, coverage)
    observed_share = xr.DataArray(observed, dims="time", attrs={"units": "fraction"})
    if coverage is not None:
        result = result.map(lambda values: values.where(observed_share > 0), keep_attrs=True)
    result["imbalance"] = imbalance(result["long_usd"], result["short_usd"]).assign_attrs(units="fraction")
    return result.assign(coverage=observed_share)


def _labels(events: pd.DataFrame, width: pd.Timedelta, start: Any, end: Any) -> pd.DatetimeIndex:
    """Return the starts of the buckets of a window, by default from the first to the last event."""
    if (start is None or end is None) and not len(events):
        raise ValueError("events is empty: pass start and end of the window")
    first = events["time"].min() if start is None else times.timestamp(start, "start")
    last = events["time"].max() if end is None else times.timestamp(end, "end") - pd.Timedelta(1, "us")
    if not first <= last:
        raise ValueError(
            f"start must be before end, got start {first} and end {last}: buckets cover [start, end)"
        )
    if not (last - first) < _MAX_BUCKETS * width:
        raise ValueError(
            f"freq={width} is too fine: start {first} to end {last} has more than {_MAX_BUCKETS:,} buckets"
        )
    return pd.date_range(first.floor(width), last.floor(width), freq=width)


def _summed(cell: list[Array], values: Array, shape: tuple[int, ...]) -> Array:
    """Return the sum of the values in each cell of a grid; `cell` has the positions along each dim."""
    flat = np.ravel_multi_index(tuple(cell), shape) if values.size else np.array([], dtype=np.intp)
    return np.bincount(flat, weights=values, minlength=int(np.prod(shape))).reshape(shape)


def _observed_shares(labels: pd.DatetimeIndex, width: pd.Timedelta, coverage: pd.DataFrame | None) -> Array:
    """Return the share of each bucket that is in the union of the observed intervals."""
    if coverage is None:
        return np.ones(len(labels))
    require_columns(coverage, "coverage", others=("start", "end"))
    shares = np.zeros(len(labels))
    covered_to = labels[0]  # intervals may overlap, so each counts only from the end of the earlier ones
    for interval in coverage.sort_values("start").itertuples():
        start = max(interval.start, covered_to)
        overlap = np.minimum(labels + width, interval.end) - np.maximum(labels, start)
        shares += np.maximum(overlap / width, 0.0)
        covered_to = max(covered_to, interval.end)
    return shares


@typed
def observed(*frames: pd.DataFrame) -> pd.DataFrame:
    """Return the intervals covered by a live feed, for the argument ``coverage`` of `bucket`.

    Parameters
    ----------
    *frames
        Frames that ``dd.liquidations.poll`` yielded.

    Returns
    -------
    DataFrame
        ``start`` and ``end`` (UTC) of each interval, in order; empty ones are omitted.

    Raises
    ------
    ValueError
        A frame has no coverage in its provenance.
    """
    intervals: list[list[str]] = []
    for frame in frames:
        coverage = provenance(frame).get("coverage")
        if coverage is None:
            raise ValueError("frames must have coverage: pass frames of dd.liquidations.poll")
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
            "the side of events must be 'long' or 'short' (the liquidated side; a forced sell order closes a "
            f"long), got {unknown.iloc[0]!r}"
        )
    if events["time"].isna().any():
        raise ValueError("events must have a time in every row: remove rows without one")
    if len(events):
        require_zone(events, "events")
    if {"exchange", "order_id"} <= set(events.columns):
        duplicates = int(events.duplicated(["exchange", "order_id"]).sum())
        if duplicates:
            raise ValueError(
                f"events has {duplicates} duplicate orders: remove them with "
                "events.drop_duplicates(['exchange', 'order_id'])"
            )
    require_names(events, by, "by", "events")
    for name in by:
        if events[name].isna().any():
            raise ValueError(f"events must have {name!r} in every row for by=: remove rows without it")
    return list(by)


@typed
def clusters(events: pd.DataFrame, gap: str = "60s", *, by: Sequence[str] = ()) -> pd.DataFrame:
    """Find runs of liquidations that follow one another within a gap.

    Parameters
    ----------
    events
        Table ``liquidations_events``, or a frame with ``time``, ``side`` and ``value_usd``.
    gap
        Maximum time between two orders of a cluster, inclusive, such as ``"30s"``. After a longer pause a new
        cluster starts.
    by
        Columns within which clusters are formed, such as ``("symbol",)``.

    Returns
    -------
    DataFrame
        One row per cluster in order of ``start``: `by`, ``start``, ``end``, ``count``, ``value_usd``,
        ``imbalance``, ``venues`` (their number; NaN without a column ``exchange``), ``peak_10s_usd`` (maximum
        value in any 10 seconds), and ``price_move``, last fill price over first minus 1 (NaN without prices,
        or where symbols are mixed).

    Raises
    ------
    ValueError
        Columns are missing, an order is duplicated, a side is neither ``long`` nor ``short``, or times have
        no zone.

    Examples
    --------
    >>> orders = dd.liquidations.events(since="1h")
    >>> runs = dd.analysis.liquidations.clusters(orders, gap="30s")
    >>> int(runs["count"].sum()) == len(orders)
    True
    """
    # 1. Sort orders by group and time.
    by = check_orders(events, by)
    columns = [*by, "start", "end", "count", "value_usd", "imbalance", "venues", "peak_10s_usd", "price_move"]
    if not len(events):
        return pd.DataFrame(columns=columns)
    keys = {name: pd.factorize(np.asarray(events[name], dtype=object), sort=True) for name in by}
    stamps = np.asarray(events["time"].dt.as_unit("us").array.asi8)
    order = np.lexsort([stamps, *(codes for codes, _ in reversed(keys.values()))])
    events = events.iloc[order]
    stamps = stamps[order]

    # 2. Start a new cluster after a pause longer than the gap, and with each group.
    opens = np.append(True, np.diff(stamps) > times.length(gap, "gap") // pd.Timedelta(1, "us"))
    for codes, _ in keys.values():
        opens[1:] |= np.diff(codes[order]) != 0
    first = np.flatnonzero(opens)
    last = np.append(first[1:], stamps.size) - 1
    cluster = np.cumsum(opens) - 1

    # 3. Compute the statistics of each cluster, whose rows are adjacent.
    value = events["value_usd"].to_numpy(dtype=np.float64)
    sides = np.asarray(events["side"], dtype=object)
    long = np.add.reduceat(np.where(sides == "long", value, 0.0), first)
    short = np.add.reduceat(np.where(sides == "short", value, 0.0), first)
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


def _distinct(events: pd.DataFrame, column: str, cluster: Indices) -> Any:
    """Count the distinct values of a column in each cluster; NaN without such a column."""
    if column not in events:
        return np.nan
    codes, names = pd.factorize(np.asarray(events[column], dtype=object))
    named = codes >= 0  # −1 is a missing value
    # Sorted explicitly: the hash table of np.unique takes ten times as long.
    pairs = np.sort(cluster[named] * len(names) + codes[named])
    first = np.append(True, np.diff(pairs) != 0)[: pairs.size]
    return np.bincount(pairs[first] // max(len(names), 1), minlength=cluster[-1] + 1)


def _next_10s(stamps: Array, value: Array, first: Indices, cluster: Indices) -> Array:
    """Return the value of each event plus those within 10 seconds after it in its cluster.

    Times ascend within a cluster only, but one binary search over all of them needs a single ascending scale:
    every cluster is shifted to 20 seconds after the end of the previous one, so that no window of 10 seconds
    reaches into the next. The sums are differences of one running total, exact to about 1e-16 of the total.
    """
    last = np.append(first[1:], stamps.size) - 1
    starts = np.append(0, np.cumsum(stamps[last] - stamps[first] + 20_000_000)[:-1])
    moved = stamps - stamps[first][cluster] + starts[cluster]
    total = np.append(0.0, np.cumsum(value))
    return np.asarray(total[np.searchsorted(moved, moved + 10_000_000, side="left")] - total[:-1])


@typed
def cascades(
    runs: pd.DataFrame, *, min_count: int = 5, min_usd: float = 1e6, quantile: float = 0.99, history: int = 20
) -> pd.DataFrame:
    """Select clusters that are large in absolute terms and relative to earlier clusters.

    Parameters
    ----------
    runs
        Clusters as `clusters` returns them; columns ``start``, ``end``, ``count``, ``value_usd``.
    min_count, min_usd
        Minimum number of orders, and minimum value [USD].
    quantile, history
        If at least `history` clusters ended before a cluster started, its value must also reach this quantile
        of theirs.

    Returns
    -------
    DataFrame
        The selected rows, in order of ``start``. Clusters that had not ended are excluded from the quantile,
        because their final value was not known yet.
    """
    if "side" in runs and "start" not in runs:
        raise ValueError("runs must be the result of clusters, got orders; pass clusters(events, gap='10s')")
    require_columns(runs, "runs", ("value_usd", "count"), others=("start", "end"))
    if not 0.0 <= quantile <= 1.0:
        raise ValueError(f"quantile must be a share of the clusters from 0 to 1, got {quantile!r}")
    if history < 0:
        raise ValueError(f"history must be a number of earlier clusters, 0 or more, got {history!r}")
    ordered = runs.sort_values("start", kind="stable")
    bar = np.maximum(_past_quantiles(ordered, quantile, history), min_usd)
    large = (ordered["count"] >= min_count) & (ordered["value_usd"].to_numpy() >= bar)
    return ordered[large].reset_index(drop=True)


def _past_quantiles(ordered: pd.DataFrame, quantile: float, history: int) -> Array:
    """Return the quantile (linear) of the values that were final before each start; −inf below `history`."""
    by_end = ordered.sort_values("end", kind="stable")
    ends = np.asarray(by_end["end"].dt.as_unit("us").array.asi8)
    starts = np.asarray(ordered["start"].dt.as_unit("us").array.asi8)
    ended = np.searchsorted(ends, starts, side="left")
    final = by_end["value_usd"].expanding().quantile(quantile).to_numpy(dtype=np.float64)
    if not final.size:
        return np.empty(0)
    enough = ended >= max(history, 1)
    return np.where(enough, final[np.maximum(ended, 1) - 1], -np.inf)
