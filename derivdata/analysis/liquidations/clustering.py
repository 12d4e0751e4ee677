"""Clusters of liquidations that follow one another, and the cascades among them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from derivdata.analysis.liquidations.buckets import check_orders, imbalance
from derivdata.support import times
from derivdata.support.arguments import typed
from derivdata.support.arrays import Array, Indices
from derivdata.tables.required import require_columns


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
        Columns within which clusters are formed, such as ``("symbol",)``.

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
        Columns are absent, an order occurs twice, a side is neither ``long`` nor ``short``, or times have no
        zone.

    Examples
    --------
    >>> orders = dd.liquidations.events(since="1h")
    >>> runs = dd.analysis.liquidations.clusters(orders, gap="30s")
    >>> int(runs["count"].sum()) == len(orders)
    True
    """
    by = check_orders(events, by)
    columns = [*by, "start", "end", "count", "value_usd", "imbalance", "venues", "peak_10s_usd", "price_move"]
    if not len(events):
        return pd.DataFrame(columns=columns)
    keys = {name: pd.factorize(np.asarray(events[name], dtype=object), sort=True) for name in by}
    stamps = np.asarray(events["time"].dt.as_unit("us").array.asi8)
    order = np.lexsort([stamps, *(codes for codes, _ in reversed(keys.values()))])
    events, stamps = events.iloc[order], stamps[order]
    # `opens`: whether an order opens a cluster, as it is later than the gap or of another group.
    opens = np.append(True, np.diff(stamps) > times.length(gap, "gap") // pd.Timedelta(1, "us"))
    for codes, _ in keys.values():
        opens[1:] |= np.diff(codes[order]) != 0
    first = np.flatnonzero(opens)
    last, cluster = np.append(first[1:], stamps.size) - 1, np.cumsum(opens) - 1
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


def _distinct(events: pd.DataFrame, column: str, cluster: Indices) -> Any:
    """Count the different values of a column in each cluster; NaN where there is no such column."""
    if column not in events:
        return np.nan
    codes, names = pd.factorize(np.asarray(events[column], dtype=object))
    named = codes >= 0  # −1 stands for a missing value
    # Sorted by hand: the hash table of np.unique takes ten times as long.
    pairs = np.sort(cluster[named] * len(names) + codes[named])
    first = np.append(True, np.diff(pairs) != 0)[: pairs.size]
    return np.bincount(pairs[first] // max(len(names), 1), minlength=cluster[-1] + 1)


def _next_10s(stamps: Array, value: Array, first: Indices, cluster: Indices) -> Array:
    """Sum the value of each event and those within 10 seconds after it in its cluster.

    Times ascend within a cluster only, and one binary search over all of them needs a single ascending scale:
    every cluster is shifted to 20 seconds after the end of the one before it, so that no window of 10 seconds
    reaches into the next. The sums are differences of one running total, exact to about 1e-16 of the total.
    """
    last = np.append(first[1:], stamps.size) - 1
    starts = np.append(0, np.cumsum(stamps[last] - stamps[first] + 20_000_000)[:-1])
    moved = stamps - stamps[first][cluster] + starts[cluster]
    total = np.append(0.0, np.cumsum(value))
    return np.asarray(total[np.searchsorted(moved, moved + 10_000_000, side="left")] - total[:-1])


@typed
def cascades(
    found: pd.DataFrame,
    *,
    min_count: int = 5,
    min_usd: float = 1e6,
    quantile: float = 0.99,
    history: int = 20,
) -> pd.DataFrame:
    """Choose the clusters that are large in absolute terms and against the clusters before them.

    Parameters
    ----------
    found
        Clusters as `clusters` returns them; columns ``start``, ``end``, ``count``, ``value_usd``.
    min_count, min_usd
        Fewest orders, and least value [USD].
    quantile, history
        The value must also reach this quantile of all clusters that had ended before this one started, once
        there are `history` of them.

    Returns
    -------
    DataFrame
        The rows that qualify, in order of ``start``. The quantile uses only clusters that had ended: the
        final value of one still running was not known.
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
    """Return the quantile (linear) of the values that were final before each start; −inf below `history`."""
    by_end = ordered.sort_values("end", kind="stable")
    ends, starts = (
        np.asarray(column.dt.as_unit("us").array.asi8) for column in (by_end["end"], ordered["start"])
    )
    ended = np.searchsorted(ends, starts, side="left")
    final = by_end["value_usd"].expanding().quantile(quantile).to_numpy(dtype=np.float64)
    enough = ended >= max(history, 1)
    return np.where(enough, final[np.maximum(ended, 1) - 1] if final.size else np.nan, -np.inf)
