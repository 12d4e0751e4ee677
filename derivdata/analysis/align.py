"""Align series in time without look-ahead, and rank a value among earlier ones.

An observation may be used at t only if it was available at t. A snapshot is available when it was taken, and
a settlement at the hour for which it was paid (a timestamp up to a minute later counts as that hour, see
`derivdata.analysis.settlements`). A bucket is labelled by its start and available when it ends, so its delay
is its length. Joins only look backward, and values older than the tolerance are NaN.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import xarray as xr
from pandas.api.types import is_numeric_dtype

from derivdata.analysis.labelling import applied
from derivdata.analysis.panels import (
    Panel,
    figures_of,
    hours,
    interval_of,
    last_valid,
    require,
    require_columns,
    require_names,
    require_times,
    whole,
    window_rows,
)
from derivdata.analysis.settlements import at_common_stamps, held_settlements
from derivdata.support.arguments import typed
from derivdata.support.arrays import Array, Floats
from derivdata.support.times import length, naive_utc
from derivdata.tables.frames import joined_provenance, require_zone

__all__ = ["align", "asof_join"]
__dir__ = __all__.copy

_HOUR_US = 3_600_000_000
_MAX_TIMESTAMPS = 10_000_000


@typed
def align(
    panel: Panel,
    grid: str | pd.DatetimeIndex,
    *,
    tolerance: str | pd.Timedelta | None = None,
    delay: str | pd.Timedelta = "0h",
) -> xr.Dataset:
    """Return the newest value that was available at each time of a grid.

    Parameters
    ----------
    panel
        Values with a sorted ``time`` dim of naive UTC times, in memory or dask-backed.
    grid
        Times (naive UTC), or a step such as ``"8h"``: times anchored at 00:00 UTC within the span.
    tolerance
        Maximum age of a value, inclusive. The default is the longest interval for settled rates, and twice
        the usual step for other panels.
    delay
        Time from the timestamp of a value until it is available: the bucket length for buckets that are
        labelled by their start.

    Returns
    -------
    Dataset
        ``value`` has the unit of `panel`, and ``staleness`` [h] is the time since the value was available.
        Both have the grid as ``time`` and are NaN without a value within `tolerance`. A NaN in `panel` is
        skipped.

    Raises
    ------
    ValueError
        The panel has no dim ``time``, its times do not ascend, or it has settled rates without an interval
        and `tolerance` is missing.

    Examples
    --------
    >>> stamps = pd.to_datetime(["2026-01-01T00:00", "2026-01-01T05:00"])
    >>> rates = xr.DataArray([1.0, 2.0], {"time": stamps}, "time")
    >>> aligned = dd.analysis.align.align(rates, "4h", tolerance="4h")
    >>> aligned["value"].values, aligned["staleness"].values
    (array([1., 1.]), array([0., 4.]))
    """
    panel = require(panel, "time")
    if panel.sizes["time"]:
        hours(panel)
    require_times(panel, "panel")
    # 1. Choose the maximum age [µs]: as given, else the longest interval, else twice the usual step.
    age = None
    if tolerance is not None:
        age = int(length(tolerance, "tolerance") // pd.Timedelta(1, "us"))
    elif panel.attrs.get("kind") == "settled":
        age = int(float(interval_of(panel).max()) * _HOUR_US)
    panel = at_common_stamps(panel)
    wait = length(delay, "delay")
    stamps = panel["time"].values.astype("datetime64[us]").astype(np.int64) + wait // pd.Timedelta(1, "us")
    timestamps = _grid(panel, grid, wait)
    if age is None and stamps.size > 1:
        age = int(2 * np.median(np.diff(stamps)))

    # 2. Find the newest value at each time of the grid.
    value, staleness = applied(
        _newest,
        whole(panel, "time"),
        core=[["time"]],
        out=[["grid"]] * 2,
        types=[np.float64] * 2,
        sizes={"grid": len(timestamps)},
        stamps=stamps,
        grid=timestamps.to_numpy().astype("datetime64[us]").astype(np.int64),
        oldest=age or 0,
    )
    value = value.assign_attrs(panel.attrs)
    staleness = staleness.assign_attrs(units="h")
    joined = xr.Dataset({"value": value, "staleness": staleness}).rename(grid="time")
    return joined.assign_coords(time=timestamps.as_unit("us")).transpose(*panel.dims)


@typed
def asof_join(
    left: pd.DataFrame,
    right: pd.DataFrame,
    *,
    tolerance: str | pd.Timedelta,
    by: tuple[str, ...] = ("symbol", "exchange"),
    delay: str | pd.Timedelta = "0h",
) -> pd.DataFrame:
    """Join each row of `left` with the newest row of `right` that was available at its ``time``.

    Parameters
    ----------
    left, right
        Frames with a UTC ``time`` column and the columns `by`.
    tolerance
        Maximum age of a row, inclusive.
    delay
        Time from the timestamp of a row of `right` until the row is available: the bucket length for buckets
        that are labelled by their start.

    Returns
    -------
    DataFrame
        `left` in its order with the other columns of `right` (suffixed ``_right`` for equal names) and
        ``available_at``, missing if no row is within `tolerance`. The provenance is joined from both.

    Raises
    ------
    ValueError
        A frame lacks ``time`` or a column of `by`, or has naive times.
    """
    if not len(by):
        raise ValueError("by must name at least one column that both tables have, got an empty list")
    for side, frame in (("left", left), ("right", right)):
        require_names(frame, by, "by", side)
        require_columns(frame, side, others=("time", *by))
        require_zone(frame, side)

    # 1. Find the position in `right` of the newest row for each row of `left`.
    rows = left.assign(time=left["time"].dt.as_unit("us")).reset_index(drop=True)
    two = right.assign(available_at=(right["time"] + length(delay, "delay")).dt.as_unit("us"))
    newest = _newest_rows(rows, two, by, length(tolerance, "tolerance"))

    # 2. Add its other columns, renamed where `left` has a column of the same name.
    others = two.drop(columns=["time", *by]).reset_index(drop=True)
    others = others.rename(columns={name: f"{name}_right" for name in others if name in rows})
    repeated = others.columns.intersection(rows.columns)
    if len(repeated):
        raise ValueError(f"column {repeated[0]!r} of right already exists in left: rename one of them")
    joined = pd.concat([rows, others.reindex(newest).reset_index(drop=True)], axis=1)
    origins = [frame.attrs.get("provenance") for frame in (left, right)]
    joined.attrs = {"provenance": joined_provenance(origins)} if any(origins) else {}
    return joined


def _newest_rows(left: pd.DataFrame, right: pd.DataFrame, by: tuple[str, ...], oldest: pd.Timedelta) -> Array:
    """Return the position in `right` of the newest row available to each row of `left`; -1 for none."""
    # merge_asof requires equal dtypes of the keys: numbers become floats, categories and objects become text.
    shared = {}
    for name in by:
        if left[name].dtype != right[name].dtype:
            both_numeric = is_numeric_dtype(left[name]) and is_numeric_dtype(right[name])
            shared[name] = "float64" if both_numeric else "str"
    requests = left[["time", *by]].astype(shared).assign(row=np.arange(len(left)))
    offers = right[["available_at", *by]].astype(shared).assign(place=np.arange(len(right)))
    joined = pd.merge_asof(
        requests.sort_values("time", kind="stable"),
        offers.sort_values("available_at", kind="stable"),
        left_on="time",
        right_on="available_at",
        by=list(by),
        tolerance=oldest,
    )
    newest = np.full(len(left), -1)
    newest[joined["row"]] = joined["place"].fillna(-1).to_numpy(np.int64)
    return newest


def _grid(panel: xr.DataArray, grid: str | pd.DatetimeIndex, wait: pd.Timedelta) -> pd.DatetimeIndex:
    """Return the given timestamps, or whole steps from the panel's start to its end plus `wait`."""
    if not isinstance(grid, str):
        timestamps = pd.DatetimeIndex(grid)
        return naive_utc(timestamps)
    stamps = pd.DatetimeIndex(panel["time"].values)
    step = length(grid, "grid")
    if not step:
        raise ValueError(f"grid must be a length of time above 0, got {grid!r}")
    if not len(stamps):
        return stamps
    first = stamps[0].ceil(step)
    last = (stamps[-1] + wait).floor(step)
    if not last - first < _MAX_TIMESTAMPS * step:
        raise ValueError(
            f"grid={grid!r} is too fine: it gives this panel more than {_MAX_TIMESTAMPS:,} timestamps; pass "
            "a longer grid"
        )
    return pd.date_range(first, last, freq=step)


def _newest(values: Array, *, stamps: Array, grid: Array, oldest: int) -> tuple[Array, Array]:
    """Return the newest value at each time of the grid, and its age [h]."""
    if not stamps.size:
        nothing = np.full((*values.shape[:-1], grid.size), np.nan)
        return nothing, nothing.copy()
    # 1. Find the last row with a value at or before each time; −1 means that there is none.
    place = last_valid(~np.isnan(values))
    before = np.searchsorted(stamps, grid, side="right") - 1
    padded = np.concatenate([np.full((*place.shape[:-1], 1), -1), place], axis=-1)
    newest = padded[..., before + 1]

    # 2. Return its value and age; a value that is too old becomes NaN.
    age = grid - stamps[np.maximum(newest, 0)]
    fresh = (newest >= 0) & (age <= oldest)
    taken = np.take_along_axis(values, np.maximum(newest, 0), axis=-1)
    return np.where(fresh, taken, np.nan), np.where(fresh, age / _HOUR_US, np.nan)


@typed
def percentile(
    panel: Panel,
    window: str | pd.Timedelta | None = None,
    *,
    rows: int | None = None,
    min_rows: int | None = None,
) -> xr.DataArray:
    """Return the share of the values in the preceding window that are below each value.

    Parameters
    ----------
    panel
        Values with dim ``time`` at regular steps, in memory or lazy (time is put into one chunk). A
        settlement whose ``interval_hours`` the panel has is carried until the next one of its series is due,
        as in `derivdata.analysis.funding.best_pair`.
    window, rows
        Length of the window: a time such as ``"30d"``, a whole number of the panel's steps, or a number of
        rows of at least 2. It ends on the row before the value and includes neither the value nor later ones.
    min_rows
        Minimum number of values in a window; by default half of its rows, but at least 2.

    Returns
    -------
    DataArray, the panel's dims
        From 0 (below all) to 1 (above all); an equal value counts half. NaN where the value is NaN or the
        window has too few values.

    Raises
    ------
    TypeError, ValueError
        As `derivdata.analysis.funding.zscore`.

    Examples
    --------
    >>> rates = dd.funding.history("BTC", "30d", venues=["binance"])
    >>> share = dd.analysis.percentile(rates, "7d")
    >>> bool(((share.dropna("time") >= 0.0) & (share.dropna("time") <= 1.0)).all())
    True
    """
    panel = held_settlements(require(panel, "time"))
    rows, minimum = window_rows(panel, window, rows, min_rows)
    units = {"percentile": "1"}
    share = figures_of(_percentile, panel, units=units, into={"time": None}, rows=rows, minimum=minimum)
    return share["percentile"]


def _percentile(values: Floats, *, rows: int, minimum: int) -> Floats:
    # The window includes the value itself, so its rank is one higher than among the other values.
    table = values.reshape(int(np.prod(values.shape[:-1])), values.shape[-1]).T
    series = pd.DataFrame(table).rolling(rows + 1, minimum + 1)
    share = (series.rank(method="average") - 1.0) / (series.count() - 1.0)
    return np.asarray(share.to_numpy().T.reshape(values.shape))


@typed
def rank(panel: Panel, *, dim: str = "exchange") -> xr.DataArray:
    """Return the rank of each value along a dim: 1 for the highest; ties share the mean rank.

    Parameters
    ----------
    panel
        Values with `dim`, in memory or lazy (`dim` is put into one chunk). Settlements are carried as in
        `percentile`, so that series that pay at different hours are ranked together.
    dim
        ``"exchange"`` ranks the venues of a symbol, ``"symbol"`` the symbols of a venue.

    Returns
    -------
    DataArray, the panel's dims
        Ranks [1], from 1 for the highest value. NaN for missing values, which are not ranked.

    Raises
    ------
    TypeError, ValueError
        `panel` does not have `dim`, or `dim` is ``time``, which would rank a value among later ones.
    """
    if dim == "time":
        raise ValueError(
            "dim must not be 'time', which would rank a value among later ones: use dd.analysis.percentile"
        )
    panel = held_settlements(require(panel, dim))
    return figures_of(_rank, panel, units={"rank": "1"}, over=[dim], into={dim: None})["rank"]


def _rank(values: Floats) -> Floats:
    from scipy.stats import rankdata  # imported here because it is slow and only ranks need it

    return np.asarray(rankdata(-values, axis=-1, nan_policy="omit"))
