"""Check a table for gaps, duplicates, frozen values, clamps, changes of scale and outliers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from derivdata.analysis.quality.peers import (
    compare,
    lag_to_twin,
    median_of_others,
    octaves_to_others,
    reset_unconfirmed,
    rows_of_other_symbols,
)
from derivdata.analysis.quality.points import (
    Batch,
    Block,
    Columns,
    Numbers,
    Points,
    answered_windows,
    blocks,
    collect_points,
    columns_of,
    completeness,
    count_not_requested,
    missing_in_gaps,
    numbered_series,
    row_quantile,
    steps_in_force,
    value_figures,
)
from derivdata.support import times
from derivdata.support.arguments import typed
from derivdata.support.arrays import Array, Floats, Indices
from derivdata.tables.frames import PRICES_AGREE, require_columns, require_zone
from derivdata.tables.panels import value_column

__all__ = ["gaps", "quality"]
__dir__ = __all__.copy

_NO_BUCKETS = ("raw", "unstated")
_MIN_VENUES = 3
_MIN_SHARED = 10  # minimum number of common steps to compare the prices of two venues
_NEVER = np.iinfo(np.int64).min  # NaT
_HOUR = 3_600e6  # µs
_LATE = 60_000_000  # maximum delay of a row's timestamp after its step [µs]
_COUNTS = (
    "expected present missing gaps duplicates conflicts repeated_pages frozen stale session_closed padded "
    "interval_changes "
    "off_schedule nulls outliers other_symbol"
).split()
_FLAGS = ("clamped", "clamped_end", "wrong_interval", "open_last_bucket", "sign_change")
_TIMES = ("start", "end", "scale_change_at")
_COLUMNS = (
    "start end step_hours expected present missing not_requested gaps longest_gap_hours duplicates conflicts "
    "repeated_pages frozen stale session_closed padded at_low_share at_high_share clamped clamped_end "
    "interval_changes "
    "stated_hours wrong_interval off_schedule open_last_bucket nulls outliers spikes scale_change "
    "scale_change_at sign_change peer_scale peer_sign peer_lag other_symbol"
).split()


@typed
def quality(
    table: pd.DataFrame,
    *,
    column: str | None = None,
    start: times.TimeLike | None = None,
    end: times.TimeLike | None = None,
    outlier: float = 12.0,
    requests: pd.DataFrame | None = None,
) -> pd.DataFrame:
    """Check each symbol and venue of a table for missing, duplicate and suspicious rows.

    Parameters
    ----------
    table
        A table with a column ``time``, or a raw frame in its original order, which may have duplicates. The
        columns ``symbol`` and ``exchange`` are used if present.
    column
        Column to check; by default the main column of the table, such as ``rate_bps_8h``.
    start, end
        The requested window; by default the one in the provenance, if any.
    outlier
        Distance from the median beyond which a value is an outlier [robust standard deviations]. Values at a
        level that a rate has most of the time, such as its floor, do not reduce the deviation.
    requests
        The ledger of the archive that the table is from: rows of `Archive.requests` about this table.

    Returns
    -------
    DataFrame
        One row per symbol and venue, and per contract and ``kind`` if the table has them. The columns are:

        - ``start``, ``end``: first and last time. ``step_hours``: usual step [h].
        - ``expected``: number of points between them at the steps that apply, or in the requested window if
          ``clamped``. ``present`` and ``missing``: the numbers of these points with and without a row.
        - ``not_requested``: missing points whose time was never requested, or whose request failed, according
          to `requests`; NaN without it. The source has no rows for the other missing points.
        - ``gaps``: number of gaps, which `gaps` lists. ``longest_gap_hours`` [h].
        - ``duplicates``: rows after the first one with the same time (for settlements, within a minute).
          ``conflicts``: those of them with another value.
        - ``repeated_pages``: runs of at least five rows that repeat earlier ones in the same order.
        - ``frozen``: length of the longest run of one value. ``stale``: rows in runs of at least twelve of a
          value that is otherwise rare in the series. ``session_closed``: rows of such runs between sessions
          of a stock exchange (a weekend, or at least two nights, from 20:00 to 15:00 UTC). ``padded``: rows
          of a run of at least 24 at the end of a series that moved, as after a delisting.
        - ``at_low_share``, ``at_high_share``: share of points at the minimum and at the maximum [1], high for
          a capped rate.
        - ``clamped``, ``clamped_end``: whether the received window begins later, or ends earlier, than the
          requested one by more than two steps.
        - ``interval_changes``: number of changes of the settlement interval. ``stated_hours``: step in the
          table itself [h], from ``interval_hours`` or ``resolution``; NaN if it has none. ``wrong_interval``:
          whether rows are more frequent than that.
        - ``off_schedule``: rows that are not on a multiple of the step from 00:00 UTC, for steps of two hours
          or more, as after a shift of time.
        - ``open_last_bucket``: whether the last bucket had not ended at the time of the response.
        - ``nulls``, ``outliers``: numbers of missing values and of outliers.

        These columns compare a series with the median of at least two other venues of the symbol over their
        common steps; NaN without them:

        - ``spikes``: single points far from both neighbours and peers.
        - ``scale_change``: factor by which the series changes relative to its peers at ``scale_change_at``,
          else 1. ``sign_change``: whether it has the opposite sign from some time on.
        - ``peer_scale``, for rates and prices: ratio of the size to that of the peers if it is at least 5 or
          at most 1/5, or 2 or 4 if venues are pinned to their interest rate, else 1. For prices a difference
          of 5 % suffices (another coin under the same ticker), and two venues are compared with each other.
        - ``peer_sign``, for rates: −1 if the sign is opposite to that of the peers throughout, else 1.
        - ``peer_lag``: number of steps by which the series follows the venue with the most similar moves, 0
          if none is detected. If two venues are similar, both have one.

        If a symbol has three venues, or only three have values at half of the times or more, a scale or a
        sign is flagged only for a venue that differs from both others by more than they differ from each
        other. If all three differ, it is possible that none is flagged. If a symbol has two venues, these
        columns are NaN (``sign_change`` False), except ``peer_scale`` of prices.

        ``other_symbol`` is the number of rows, in runs of at least six, that equal those of another symbol of
        the venue at the same times. Both symbols have it, and the comparison with peers may show which is
        wrong.

        ``attrs["summary"]`` is a one-line summary.

    Raises
    ------
    ValueError
        There is no ``time`` column, times have no zone, or the value column is ambiguous; `requests` has
        several tables.

    Examples
    --------
    >>> rates = dd.funding.history("BTC", "7d", venues=["bybit", "okx"])
    >>> report = dd.quality(rates)
    >>> report[["exchange", "expected", "present", "missing"]]
      exchange  expected  present  missing
    0    bybit       168      168        0
    1      okx       168      168        0
    """
    column = column or value_column(table)
    _check(table, column)
    window = _requested_window(table, start, end)

    # 1. Number the series; each becomes a row of the report.
    series, report = _series_of(table, column)
    figures: dict[str, Any] = {name: np.zeros(len(report)) for name in _COLUMNS}
    for name in _TIMES:
        figures[name] = np.full(len(report), _NEVER)
    answered = None if requests is None else answered_windows(requests, report)

    # 2. Process blocks of whole symbols, so that only some points of a large table are in memory.
    columns = columns_of(table, column, series)
    place = np.full(len(table), -1, dtype=np.int32)
    placed = 0
    for block in blocks(series, _numbered_symbols(report)):
        points, rows, counts = collect_points(columns, block)
        place[rows] = np.arange(placed, placed + rows.size)
        placed += rows.size
        chosen = slice(block.first, block.first + block.number)
        of_block = {name: figure[chosen] for name, figure in figures.items()}
        for name, count in counts.items():
            of_block[name][:] = count
        expiries = _last_expiries(columns, block)
        _examine(of_block, points, window, outlier, None if answered is None else answered[chosen], expiries)
        keys_of_block = report.iloc[chosen]
        _compare(of_block, points, keys_of_block, column)
        if column.startswith("price"):
            _compare_two_venues(of_block, points, keys_of_block)
    if not len(table) or "resolution" not in table or str(table["resolution"].iloc[-1]) in _NO_BUCKETS:
        figures["open_last_bucket"] = np.zeros(len(report))

    # 3. Compare the symbols of each venue with each other, over all blocks.
    figures["other_symbol"] = rows_of_other_symbols(columns, place, figures["present"], report)
    for name in _COLUMNS:
        report[name] = _as_column(name, figures[name])
    report.attrs["summary"] = _summary(report)
    return report


@typed
def gaps(
    table: pd.DataFrame,
    *,
    column: str | None = None,
    start: times.TimeLike | None = None,
    end: times.TimeLike | None = None,
) -> pd.DataFrame:
    """List the gaps that `quality` counts.

    Parameters
    ----------
    table, column, start, end
        As for `quality`.

    Returns
    -------
    DataFrame, one row per gap, in order of time within each symbol and venue
        ``symbol`` and ``exchange``, and the contract and ``kind`` if the table has them; ``start``, the time
        of the first missing row; ``end``, the time of the next row, or after the last row the end of the last
        missing step; ``missing``, the number of missing rows.

    Raises
    ------
    ValueError
        As for `quality`.

    Examples
    --------
    >>> rates = dd.funding.history("BTC", "7d", venues=["okx"])
    >>> dd.gaps(rates.drop(index=[24, 25, 26]))[["exchange", "start", "missing"]]
      exchange                     start  missing
    0      okx 2026-06-24 12:00:00+00:00        3
    """
    column = column or value_column(table)
    _check(table, column)
    window = _requested_window(table, start, end)
    series, labels = _series_of(table, column)
    columns = columns_of(table, column, series)
    batches = [np.empty((0, 4))]
    for block in blocks(series, _numbered_symbols(labels)):
        points, _, _ = collect_points(columns, block)
        expiries = _last_expiries(columns, block)
        for rows, batch, stated in points.batches():
            # The places before the first and after the last row are next to the gaps between rows.
            lengths, steps = steps_in_force(batch, stated)
            ends = _missing_at_ends(batch, steps, window, expiries[rows])
            first = batch.stamps[:, :1]
            due = batch.stamps[:, -1:] + ends.last_step
            before = first - ends.before * ends.first_step
            missing = np.hstack([ends.before, missing_in_gaps(lengths, steps), ends.after])
            starts = np.hstack([before, batch.stamps[:, :-1] + steps, due])
            stops = np.hstack([batch.stamps, due + ends.after * ends.last_step])
            row, place = np.nonzero(missing)
            at = row, place
            batches.append(np.stack([block.first + rows[row], starts[at], stops[at], missing[at]], axis=1))
    found = np.concatenate(batches)
    found = found[np.argsort(found[:, 0], kind="stable")].astype(np.int64)
    table_of_gaps = labels.iloc[found[:, 0]].reset_index(drop=True)
    table_of_gaps["start"] = _as_column("start", found[:, 1])
    table_of_gaps["end"] = _as_column("end", found[:, 2])
    return table_of_gaps.assign(missing=found[:, 3])


def _series_of(table: pd.DataFrame, column: str) -> tuple[Numbers, pd.DataFrame]:
    """Return the number of each row's series, and the symbol, venue, contract and kind of each series."""
    keys = [name for name in ("symbol", "exchange", "instrument_name") if name in table.columns]
    # Prices are mark or index, positioning is of accounts or positions.
    if "kind" in table and not column.startswith("rate"):
        keys.append("kind")
    series, first = numbered_series(table, keys)
    return series, table[keys].iloc[first].reset_index(drop=True)


def _numbered_symbols(report: pd.DataFrame) -> Indices:
    """Return the number of each series' symbol. Series without symbols have different numbers."""
    if "symbol" not in report.columns:
        return np.arange(len(report))
    symbols = report["symbol"]
    return np.cumsum((symbols != symbols.shift()).to_numpy(dtype=bool)) - 1


def _last_expiries(columns: Columns, block: Block) -> Floats:
    """Return the last expiry of each series [µs], infinite without one."""
    expiries = np.full(block.number, -np.inf)
    if columns.expiry is not None:
        ends = columns.expiry[block.rows]
        has_expiry = ends != _NEVER
        np.maximum.at(
            expiries,
            columns.series[block.rows][has_expiry] - block.first,
            ends[has_expiry].astype(np.float64),
        )
    return np.where(np.isfinite(expiries), expiries, np.inf)


def _check(table: pd.DataFrame, column: str) -> None:
    keys = [name for name in ("symbol", "exchange") if name in table.columns]
    require_columns(table, "table", [column], others=["time", *keys])
    require_zone(table, "table")


class _RequestedWindow(NamedTuple):
    """The requested window, the time of the response, the step in the table [µs]; None: unknown."""

    start: int | None
    end: int | None
    as_of: int | None
    step: int | None


def _requested_window(
    table: pd.DataFrame, start: times.TimeLike | None, end: times.TimeLike | None
) -> _RequestedWindow:
    """Return window, time of the response and step [µs], from arguments or provenance."""
    origin = table.attrs.get("provenance", {})
    queries = [request.get("query", {}) for request in origin.get("requests", [])]
    # 1. Use the arguments, otherwise the widest window of the table's requests.
    starts = [query["start"] for query in queries if "start" in query]
    ends = [query["end"] for query in queries if "end" in query]
    given_start = starts if start is None else [start]
    given_end = ends if end is None else [end]
    first = min((times.us(times.timestamp(stamp, "start")) for stamp in given_start), default=None)
    last = max((times.us(times.timestamp(stamp, "end")) for stamp in given_end), default=None)

    # 2. Use a given end, otherwise the time of the response.
    as_of = None
    if end is not None:
        as_of = last
    elif origin.get("as_of") is not None:
        as_of = times.us(times.timestamp(origin["as_of"], "as_of"))

    # 3. Read the step, if the table has only one.
    step = None
    if "resolution" in table and table["resolution"].nunique(dropna=False) == 1:
        resolution = times.RESOLUTIONS.get(str(table["resolution"].iloc[0]))
        step = None if resolution is None else times.us(resolution)
    return _RequestedWindow(first, last, as_of, step)


def _examine(
    figures: dict[str, Any],
    points: Points,
    window: _RequestedWindow,
    outlier: float,
    answered: Sequence[Array] | None,
    expiries: Floats,
) -> None:
    """Write the statistics of each series, except comparisons with peers."""
    for rows, batch, stated in points.batches():
        # 1. Count missing rows, between rows and at both ends of the requested window.
        unknown = np.full(len(rows), np.nan)
        count = batch.there.sum(axis=1)
        begin = batch.stamps[:, 0]
        end = batch.stamps[:, -1]
        lengths, steps = steps_in_force(batch, stated)
        ends = _missing_at_ends(batch, steps, window, expiries[rows])
        before = ends.before[:, 0]
        after = ends.after[:, 0]
        clamped = before > 0
        clamped_end = after > 0
        whole = completeness(lengths, steps, count)
        whole["expected"] = whole["expected"] + before + after
        whole["missing"] = whole["missing"] + before + after
        whole["gaps"] = whole["gaps"] + clamped + clamped_end
        for at_end, length in ((clamped, ends.early), (clamped_end, ends.late)):
            longest = np.where(at_end, length / _HOUR, 0.0)
            whole["longest_gap_hours"] = np.maximum(whole["longest_gap_hours"], longest)
        not_requested = unknown
        if answered is not None:
            windows = [answered[row] for row in rows]
            not_requested = count_not_requested(batch.stamps, lengths, steps, windows)

        # 2. Add the stated steps, and statistics of the values.
        hours = unknown if stated is None else row_quantile(stated, 0.5)
        is_open: Array = np.zeros(len(rows))
        if window.as_of is not None:
            is_open = end + ends.last_step[:, 0] > window.as_of
        batch_figures = {
            "start": begin,
            "end": end,
            "present": count,
            "nulls": (batch.there & np.isnan(batch.value)).sum(axis=1),
            **whole,
            "not_requested": not_requested,
            **value_figures(batch.value, batch.stamps, outlier),
            "clamped": clamped,
            "clamped_end": clamped_end,
            "stated_hours": hours,
            "wrong_interval": row_quantile(steps, 0.5) < 0.55 * hours * _HOUR,  # about half or less
            "off_schedule": _off_schedule(batch, steps),
            "open_last_bucket": is_open,
        }
        for name, figure in batch_figures.items():
            figures[name][rows] = figure


class _Ends(NamedTuple):
    """Missing rows at both ends of the requested window, by series."""

    early: Array
    """Length of the window before the first row [µs]."""
    late: Array
    """Length of the window after the last row [µs]."""
    before: Floats
    """Number of missing rows before the first row, 0 up to two steps; a column, like the other fields."""
    after: Floats
    first_step: Floats
    """Step at the first row [µs], NaN if unknown."""
    last_step: Floats


def _missing_at_ends(batch: Batch, steps: Floats, window: _RequestedWindow, expiries: Floats) -> _Ends:
    """Return the missing rows of each series at both ends of the window; 0 at an end that is unknown."""
    # 1. Find the steps at both ends. For a single row, only the step of the table is known.
    count = batch.there.sum(axis=1)
    first = last = np.full(len(count), np.nan if window.step is None else float(window.step))
    if steps.shape[1]:
        first = steps[:, 0]
        last = np.take_along_axis(steps, np.maximum(count - 2, 0)[:, None], axis=1)[:, 0]

    # 2. Measure the missing parts of the window. Data cannot be later than the response or the expiry.
    early = np.zeros(len(count))
    late = np.zeros(len(count))
    if window.start is not None:
        early = batch.stamps[:, 0] - window.start
    if window.end is not None:
        until = window.end if window.as_of is None else min(window.end, window.as_of)
        late = np.minimum(until, expiries) - batch.stamps[:, -1]

    # 3. Count their rows. Up to two rows are not missing: the window may begin and end between rows. At its
    # end they need a part of three steps, because the window contains its start but not its end.
    before = np.where(early > 2 * first, np.floor(early / first), 0.0)
    after = np.where(late > 3 * last, np.ceil(late / last) - 1.0, 0.0)
    return _Ends(early, late, before[:, None], after[:, None], first[:, None], last[:, None])


def _off_schedule(batch: Batch, steps: Floats) -> Array:
    """Count the rows that are off the grid from 00:00 UTC, for series with steps of two hours or more."""
    if not steps.shape[1]:
        return np.zeros(len(steps))
    step_before = np.concatenate([steps[:, :1], steps], axis=1)
    # Some venues pay at 04:00, 12:00 and 20:00, so the grid has a step of at most 4 hours.
    grid_step = np.where(step_before > 0.0, np.minimum(step_before, 4 * _HOUR), 1.0)
    after_grid = np.mod(batch.stamps, grid_step)
    return np.asarray((batch.there & (step_before >= 2 * _HOUR) & (after_grid > _LATE)).sum(axis=1))


def _compare(figures: dict[str, Any], points: Points, report: pd.DataFrame, column: str) -> None:
    """Compare the venues of each symbol on their most common step."""
    kind = column.partition("_")[0]
    faults = {"rate": ("peer_scale", "peer_sign"), "price": ("peer_scale",)}.get(kind, ())
    for name in ("spikes", "scale_change", "peer_scale", "peer_sign", "peer_lag"):
        figures[name][:] = np.nan
    figures["scale_change_at"][:] = _NEVER
    if not {"symbol", "exchange"} <= set(report.columns):
        return

    # 1. Put the venues of each symbol side by side; matrices of equal width are compared together.
    bucket = np.full(len(report), np.nan)
    waiting: dict[int, list[tuple[Indices, int, Floats]]] = {}
    for rows in _markets(report):
        if len(rows) < _MIN_VENUES:
            continue
        bucket[rows] = row_quantile(figures["step_hours"][rows][None], 0.5) * _HOUR
        if bucket[rows[0]] > 0.0:
            first, values = points.side_by_side(rows, int(bucket[rows[0]]))
            waiting.setdefault(values.shape[1], []).append((rows, first, values))

    # 2. Compare each series with the median of its peers.
    for markets in waiting.values():
        rows = np.concatenate([series[0] for series in markets])
        begin = np.repeat([series[1] for series in markets], [len(series[0]) for series in markets])
        values = np.concatenate([series[2] for series in markets])
        others, octaves = (
            np.concatenate([compared(series[2]) for series in markets])
            for compared in (median_of_others, octaves_to_others)
        )
        days = values.shape[1] * bucket[rows] / 86_400e6
        comparison = compare(values, others, octaves, kind=kind, days=days)
        reset_unconfirmed(comparison, [series[2] for series in markets])
        figures["spikes"][rows] = np.where(np.isnan(comparison.scale_change), np.nan, comparison.spikes)
        figures["scale_change"][rows] = comparison.scale_change
        figures["sign_change"][rows] = comparison.sign_change
        lags = np.concatenate([lag_to_twin(series[2]) for series in markets])
        figures["peer_lag"][rows] = np.where(np.isnan(comparison.scale_change), np.nan, lags)
        at = (begin + comparison.at) * np.nan_to_num(bucket[rows]).astype(np.int64)
        figures["scale_change_at"][rows] = np.where(comparison.at != -1, at, _NEVER)
        for name in faults:
            figures[name][rows] = getattr(comparison, name)


def _markets(report: pd.DataFrame) -> list[Indices]:
    """Return the rows of each market, that is the series of one symbol, contract and kind on all venues."""
    same = [name for name in ("symbol", "instrument_name", "kind") if name in report.columns]
    return list(report.groupby(same, observed=True).indices.values())


def _compare_two_venues(figures: dict[str, Any], points: Points, report: pd.DataFrame) -> None:
    """Compare prices of symbols on two venues."""
    if not {"symbol", "exchange"} <= set(report.columns):
        return
    for rows in _markets(report):
        if len(rows) == 2:
            _compare_two_prices(figures, points, rows)


def _compare_two_prices(figures: dict[str, Any], points: Points, rows: Indices) -> None:
    """Report the ratio of two venues' prices for both, because prices do not show which one is wrong."""
    bucket = row_quantile(figures["step_hours"][rows][None], 0.5)[0] * _HOUR
    if not bucket > 0.0:
        return
    _, values = points.side_by_side(rows, int(bucket))
    positive = np.where(values > 0.0, values, np.nan)
    ratio = np.log(positive[0] / positive[1])
    if np.isfinite(ratio).sum() < _MIN_SHARED:
        return
    middle = float(row_quantile(ratio[None], 0.5)[0])
    apart = middle if abs(middle) > PRICES_AGREE else 0.0
    figures["peer_scale"][rows] = np.exp([apart, -apart])


def _as_column(name: str, figure: Array) -> Any:
    """Convert the values of a column of the report from µs, 0 and 1, or floats to its dtype."""
    if name in _TIMES:
        return pd.DatetimeIndex(np.asarray(figure, dtype=np.int64).view("datetime64[us]"), tz="UTC")
    if name in _FLAGS:
        return figure.astype(bool)
    return figure.astype(np.int64) if name in _COUNTS else figure


def _summary(report: pd.DataFrame) -> str:
    """Return one line of text with the counts of a report that are not 0."""
    if report.empty:
        return "no rows"
    lacking = int(report["missing"].sum())
    duplicates = int(report["duplicates"].sum())
    whole = report["present"].sum() / max(report["expected"].sum(), 1)
    words = [f"{len(report)} series, {report['present'].sum():,} points, {whole:.2%} of those expected"]
    for number, what in (
        (lacking, f"missing in {int(report['gaps'].sum()):,} gaps"),
        (int(report["not_requested"].sum()), "of these never requested"),
        (duplicates, "duplicates"),
        (int(report["repeated_pages"].sum()), "repeated pages"),
        (int(report["clamped"].sum()), "series clamped at their start"),
        (int(report["clamped_end"].sum()), "series clamped at their end"),
        (int(report["interval_changes"].sum()), "interval changes"),
        (int(report["wrong_interval"].sum()), "series of another interval than they state"),
        (int(report["off_schedule"].sum()), "points off their schedule"),
        (int(report["open_last_bucket"].sum()), "open last buckets"),
        (int(report["nulls"].sum()), "nulls"),
        (int(report["outliers"].sum()), "outliers"),
        (int(report["spikes"].sum()), "spikes"),
        (int(report["stale"].sum()), "stale points"),
        (int(report["session_closed"].sum()), "points in closed sessions"),
        (int(report["padded"].sum()), "padded points at the end of series"),
        (int(report["other_symbol"].sum()), "points that another symbol has too"),
        (int((report["peer_lag"].fillna(0.0) != 0.0).sum()), "series that lead or follow a similar venue"),
        (int(((report["scale_change"] != 1.0) & report["scale_change"].notna()).sum()), "changes of scale"),
        (int((report["sign_change"] | (report["peer_sign"] == -1.0)).sum()), "series of the other sign"),
        (int(((report["peer_scale"] != 1.0) & report["peer_scale"].notna()).sum()), "series out of scale"),
    ):
        if number:
            words.append(f"{number:,} {what}")
    return "; ".join(words)
