"""Bring series onto one clock without looking ahead.

An observation may be used at t only when it was available at t. A snapshot is available when it was
taken, a settlement at the hour for which it was paid (a stamp up to a minute past it stands for that hour,
see `derivdata.analysis.settlements`), a bucket when it ends: its stamp is its start, so its delay is its
length. Joins go backward only, and what is too old is NaN with its age beside it.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import xarray as xr

from derivdata.analysis.inputs import along, require_columns, require_names, require_numbers, require_times
from derivdata.analysis.last_value import last_valid
from derivdata.analysis.panels import hours as elapsed_hours
from derivdata.analysis.panels import hours_at
from derivdata.analysis.settlements import at_common_stamps, merge_late_stamps, refuse_overlap
from derivdata.support.arguments import Numbers, typed
from derivdata.support.arrays import Array
from derivdata.support.times import length
from derivdata.tables.joining import joined_provenance
from derivdata.units import BPS_UNIT, HOUR_UNIT, bps_from_bps_8h

__all__ = ["align", "asof_join", "settlement_sums"]


def __dir__() -> list[str]:
    return __all__


_HOUR_US = 3_600_000_000
_MOST = 10_000_000


@typed
def align(
    panel: xr.DataArray,
    grid: str | pd.DatetimeIndex,
    *,
    tolerance: str | pd.Timedelta | None = None,
    delay: str | pd.Timedelta = "0h",
    interval_hours: float | None = None,
) -> xr.Dataset:
    """Take the newest value that was available at each instant of a grid.

    Parameters
    ----------
    panel
        Values with a sorted ``time`` dim of naive UTC instants, in memory or dask-backed.
    grid
        Instants (naive UTC), or a step such as ``"8h"``: instants anchored at 00:00 UTC within the span.
    tolerance
        Oldest age that still counts, inclusive. Without it: the native interval for settled rates, twice
        the usual step for all else.
    delay
        How long after its stamp a value becomes available: the bucket's length for buckets.
    interval_hours
        Native interval [h] of settled rates, for their default tolerance.

    Returns
    -------
    Dataset
        ``value`` as `panel` with the grid as ``time``, and its ``staleness`` [h] since it was available;
        both NaN where nothing is recent enough. A NaN observation is no observation.

    Raises
    ------
    ValueError
        No ``time`` dim, times that do not ascend, or settled rates without a tolerance or an interval.

    Examples
    --------
    >>> stamps = pd.to_datetime(["2026-01-01T00:00", "2026-01-01T05:00"])
    >>> rates = xr.DataArray([1.0, 2.0], {"time": stamps}, "time")
    >>> aligned = dd.analysis.align.align(rates, "4h", tolerance="4h")
    >>> aligned["value"].values, aligned["staleness"].values
    (array([1., 1.]), array([0., 4.]))
    """
    _require_series(panel)
    panel = at_common_stamps(panel)
    wait = length(delay, "delay")
    stamps = panel["time"].values.astype("datetime64[us]").astype(np.int64) + wait // pd.Timedelta(1, "us")
    instants = _grid(panel, grid, wait)
    oldest = _tolerance(panel, tolerance, interval_hours, stamps)
    value, staleness = xr.apply_ufunc(
        _newest,
        panel,
        input_core_dims=[["time"]],
        output_core_dims=[["grid"], ["grid"]],
        kwargs={
            "stamps": stamps,
            "grid": instants.to_numpy().astype("datetime64[us]").astype(np.int64),
            "oldest": oldest,
        },
        dask="parallelized",
        output_dtypes=[np.float64, np.float64],
        dask_gufunc_kwargs={"allow_rechunk": True, "output_sizes": {"grid": len(instants)}},
        keep_attrs=True,
    )
    staleness.attrs = {"units": "h"}
    joined = xr.Dataset({"value": value, "staleness": staleness}).rename(grid="time")
    return joined.assign_coords(time=instants.as_unit("us")).transpose(*panel.dims)


@typed
def asof_join(
    left: pd.DataFrame,
    right: pd.DataFrame,
    *,
    tolerance: str | pd.Timedelta,
    by: tuple[str, ...] = ("symbol", "exchange"),
    delay: str | pd.Timedelta = "0h",
) -> pd.DataFrame:
    """Join to each row of `left` the newest row of `right` that was available at its ``time``.

    Parameters
    ----------
    left, right
        Frames with a UTC ``time`` column and the columns `by`.
    tolerance
        Oldest age that still counts, inclusive.
    delay
        How long after its stamp a row of `right` becomes available.

    Returns
    -------
    DataFrame
        `left` in its own order with the other columns of `right` (suffixed ``_right`` where names meet)
        and ``available_at``; missing where nothing is recent enough. The provenance is that of both.

    Raises
    ------
    ValueError
        A frame lacks ``time`` or a column of `by`, or has naive times.
    """
    if not len(by):
        raise ValueError("by is empty: name the columns in which the rows of both must be the same")
    for side, frame in (("left", left), ("right", right)):
        require_names(frame, by, "by", side)
        require_columns(frame, side, others=("time", *by))
        if getattr(frame["time"].dtype, "tz", None) is None:
            raise ValueError(f"the {side} frame's times have no zone: .dt.tz_localize('UTC') says which")
    one = left.assign(time=left["time"].dt.as_unit("us")).reset_index(drop=True)
    two = right.assign(available_at=(right["time"] + length(delay, "delay")).dt.as_unit("us"))
    newest = _newest_rows(one, two, by, length(tolerance, "tolerance"))
    others = two.drop(columns=["time", *by]).reset_index(drop=True)
    others = others.rename(columns={name: f"{name}_right" for name in others if name in one})
    repeated = others.columns.intersection(one.columns)
    if len(repeated):
        raise ValueError(f"left has a column {repeated[0]!r} already, the name of one of right's")
    joined = pd.concat([one, others.reindex(newest).reset_index(drop=True)], axis=1)
    origins = [frame.attrs.get("provenance") for frame in (left, right)]
    joined.attrs = {} if not any(origins) else {"provenance": joined_provenance(origins)}
    return joined


@typed
def settlement_sums(
    panel: xr.DataArray, interval_hours: Numbers, *, hours: int = 8, min_cover: float = 1.0
) -> xr.DataArray:
    """Add up payments over ``(t − hours, t]``, on a grid anchored at 00:00 UTC.

    Parameters
    ----------
    panel
        Settled rates [bps/8h] with a ``time`` dim. A settlement stamped up to a minute past a whole hour
        stands at that hour.
    interval_hours
        Hours that each payment covers: a number, or an array that broadcasts against `panel`.
    hours
        Length of a span; 24 must be a multiple of it.
    min_cover
        Least part of a span that its payments must cover, above 0 and up to 1.

    Returns
    -------
    DataArray
        Basis points of notional paid in the span, labelled by its end, and the coordinate
        ``covered_hours`` over the same dims. NaN where the payments cover less than `min_cover` of the span
        (a hole is not a payment of zero), or more than all of it.

    Raises
    ------
    ValueError
        Rates that are not settled, no ``time`` dim, times that do not ascend, or payments for more hours than
        have passed.
    """
    if not 0.0 < min_cover <= 1.0:
        raise ValueError(f"{min_cover=} is a share of a span: above 0 and up to 1")
    if panel.attrs.get("kind") != "settled" or panel.attrs.get("units") != "bps/8h":
        raise ValueError(
            f"payments are added up from settled rates in bps/8h; this panel says kind="
            f"{panel.attrs.get('kind')!r}, units={panel.attrs.get('units')!r}"
        )
    _require_series(panel)
    (interval_hours,) = along(panel, interval_hours=interval_hours)
    interval = (xr.zeros_like(panel) + interval_hours).transpose(*panel.dims)
    panel, interval = merge_late_stamps(panel, interval)
    times = panel["time"].to_numpy()
    labels, codes = np.unique(pd.DatetimeIndex(times).ceil(f"{hours}h").to_numpy(), return_inverse=True)
    sums, covered = xr.apply_ufunc(
        _span_sums,
        panel,
        interval,
        input_core_dims=[["time"], ["time"]],
        output_core_dims=[["span"], ["span"]],
        kwargs={"times": times, "codes": codes, "hours": hours, "least": min_cover},
        dask="parallelized",
        output_dtypes=[np.float64] * 2,
        dask_gufunc_kwargs={"allow_rechunk": True, "output_sizes": {"span": len(labels)}},
        keep_attrs=False,
    )
    sums, covered = (
        part.rename(span="time").assign_coords(time=labels).transpose(*panel.dims) for part in (sums, covered)
    )
    result: xr.DataArray = sums.assign_coords(covered_hours=covered.variable).rename("payment_bps")
    result["covered_hours"].attrs = {"units": HOUR_UNIT}
    return result.assign_attrs(units=BPS_UNIT, kind="settled", span_hours=hours)


def _newest_rows(left: pd.DataFrame, right: pd.DataFrame, by: tuple[str, ...], oldest: pd.Timedelta) -> Array:
    """Return the place in `right` of the newest row that each row of `left` may see; -1 for none."""
    # pandas compares numbers much faster than text, and moves only two columns instead of all.
    keys = [_shared_codes(left[name], right[name]) for name in by]
    shape = [int(max(one.max(initial=0), two.max(initial=0))) + 1 for one, two in keys]
    one, two = (np.ravel_multi_index(codes, shape) for codes in zip(*keys, strict=True))
    requests = pd.DataFrame({"at": left["time"].array, "key": one, "row": np.arange(len(left))})
    offers = pd.DataFrame({"at": right["available_at"].array, "key": two, "place": np.arange(len(right))})
    found = pd.merge_asof(
        requests.sort_values("at", kind="stable"),
        offers.sort_values("at", kind="stable"),
        on="at",
        by="key",
        tolerance=oldest,
    )
    newest = np.full(len(left), -1)
    newest[found["row"]] = found["place"].fillna(-1).to_numpy(np.int64)
    return newest


def _shared_codes(left: pd.Series, right: pd.Series) -> tuple[Array, Array]:
    """Return a number for each value of both columns, the same for the same text or none."""
    sides = [pd.Categorical(column) for column in (left, right)]
    words = [side.categories.astype("str") for side in sides]
    shared = words[0].append(words[1]).unique()
    # The last number, for what is missing, is also that of the code -1.
    numbers = [np.append(shared.get_indexer(each), len(shared)) for each in words]
    return numbers[0][sides[0].codes], numbers[1][sides[1].codes]


def _require_series(panel: xr.DataArray) -> None:
    if "time" not in panel.dims:
        raise ValueError(f"the panel has no time dim; it has {', '.join(map(str, panel.dims))}")
    require_numbers(panel, "panel")
    require_times(panel, "panel")
    if panel.sizes["time"]:
        elapsed_hours(panel)


def _grid(panel: xr.DataArray, grid: str | pd.DatetimeIndex, wait: pd.Timedelta) -> pd.DatetimeIndex:
    if not isinstance(grid, str):
        instants = pd.DatetimeIndex(grid)
        return instants if instants.tz is None else instants.tz_convert("UTC").tz_localize(None)
    stamps, step = pd.DatetimeIndex(panel["time"].values), length(grid, "grid")
    if not step:
        raise ValueError(f"{grid=} is no step")
    if not len(stamps):
        return stamps
    first, last = stamps[0].ceil(step), (stamps[-1] + wait).floor(step)
    if not last - first < _MOST * step:
        raise ValueError(f"{grid=} makes more than {_MOST:,} instants of this panel")
    return pd.date_range(first, last, freq=step)


def _tolerance(
    panel: xr.DataArray, tolerance: str | pd.Timedelta | None, interval_hours: float | None, stamps: Array
) -> int:
    if tolerance is not None:
        return int(length(tolerance, "tolerance") // pd.Timedelta(1, "us"))
    if panel.attrs.get("kind") == "settled":
        if interval_hours is None:
            raise ValueError("settled rates are good for their interval: give interval_hours or tolerance")
        return int(interval_hours * _HOUR_US)
    return int(2 * np.median(np.diff(stamps))) if stamps.size > 1 else 0


def _newest(values: Array, *, stamps: Array, grid: Array, oldest: int) -> tuple[Array, Array]:
    place = last_valid(~np.isnan(values))
    before = np.searchsorted(stamps, grid, side="right") - 1
    padded = np.concatenate([np.full((*place.shape[:-1], 1), -1), place], axis=-1)
    newest = padded[..., before + 1]
    age = grid - stamps[np.maximum(newest, 0)] if stamps.size else np.zeros(newest.shape)
    fresh = (newest >= 0) & (age <= oldest)
    if not stamps.size:
        return np.full(newest.shape, np.nan), np.full(newest.shape, np.nan)
    taken = np.take_along_axis(values, np.maximum(newest, 0), axis=-1)
    return np.where(fresh, taken, np.nan), np.where(fresh, age / _HOUR_US, np.nan)


def _span_sums(
    rates: Array, interval: Array, *, times: Array, codes: Array, hours: int, least: float
) -> tuple[Array, Array]:
    there = ~np.isnan(rates) & (interval > 0.0)
    paid = bps_from_bps_8h(np.where(there, rates, 0.0), np.where(there, interval, 0.0))
    covered = np.where(there, interval, 0.0)
    if not codes.size:
        return np.full(rates.shape, np.nan), np.zeros(rates.shape)
    refuse_overlap(covered, hours_at(times, times[0]), times[0])
    starts = np.flatnonzero(np.append(True, np.diff(codes) > 0))
    total, span = (np.add.reduceat(x, starts, axis=-1) for x in (paid, covered))
    enough = (span >= least * hours - 1e-9) & (span <= hours + 1e-9)
    return np.where(enough, total, np.nan), span
