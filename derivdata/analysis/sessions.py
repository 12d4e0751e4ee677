"""Perpetuals on stocks and commodities by session of the market of their underlying.

The perpetual trades at all hours, and its underlying does not. A calendar divides time into spans:
``regular`` and ``extended`` trading, the ``break`` between two halves of a day, and closures: ``overnight``
between two consecutive days of trading, ``weekend``, and ``holiday`` if a weekday without trading is in
between. A span is ``[start, end)``. Spans come from exchange_calendars, or from a table of trading hours.
"""

from __future__ import annotations

import itertools
import warnings
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import xarray as xr

from derivdata.analysis.panels import (
    Panel,
    broadcast_companion,
    figures_of,
    hours,
    hours_at,
    kind_of,
    last_valid,
    require,
    require_quantity,
    require_rate,
    unit_of,
    usual_step,
)
from derivdata.analysis.settlements import due_settlements
from derivdata.support.arguments import typed
from derivdata.support.arrays import Bools, Floats, Indices
from derivdata.support.text import did_you_mean, import_extra
from derivdata.support.times import TimeLike, length, naive_utc, timestamp, utc
from derivdata.tables.frames import require_columns

__all__ = ["by_session", "calendar", "closures"]
__dir__ = __all__.copy


_HOURS_PER_YEAR = 8760.0
_ROUNDING = 1e-6  # hours


@typed
def calendar(
    market: str,
    start: TimeLike,
    end: TimeLike,
    *,
    hours: pd.DataFrame | None = None,
    extended: tuple[str, str] | None = None,
) -> pd.DataFrame:
    """Return the trading sessions and closures of a market over a window, without gaps.

    Parameters
    ----------
    market
        A market identifier code or name of exchange_calendars (``"XNYS"``, ``"XLON"``, ``"CMES"``), or with
        `hours` an id, short name or code of that table.
    start, end
        The window ``[start, end)``, in the past or in the future.
    hours
        Table of ``dd.rwa.market_hours`` for markets that exchange_calendars lacks. Tables of several times
        may be joined with ``pd.concat``; the newest row of a session applies.
    extended
        Local start and end of extended trading, such as ``("04:00", "20:00")``, the default for markets of US
        stocks. After an early close, extended trading is as long as on other days. Do not pass it with
        `hours`, whose tradable sessions other than ``regular`` are extended.

    Returns
    -------
    DataFrame
        One row per span in order of time: ``session`` (``regular``, ``extended``, ``break``, ``overnight``,
        ``weekend``, ``holiday``), ``start`` and ``end`` in UTC. A closure with a weekend and a holiday is
        ``holiday``. Spans at the edges are cut at the window.

    Raises
    ------
    ValueError
        An unknown market; `end` is not after `start`; `hours` lacks a day of the window.
    ImportError
        Without `hours`, exchange_calendars is not installed: ``pip install 'derivdata[sessions]'``.

    Notes
    -----
    Sessions come from exchange_calendars (4.13): early closes, holidays and changes of daylight saving time.
    Its ``CMES`` has no break between 16:00 and 17:00 in Chicago.

    Examples
    --------
    The day after Thanksgiving, New York closes at 13:00, which is 18:00 UTC.

    >>> spans = dd.analysis.sessions.calendar("XNYS", "2025-11-28T12:00", "2025-11-29")
    >>> spans["session"].tolist(), spans["end"].dt.hour.tolist()
    (['extended', 'regular', 'extended', 'weekend'], [14, 18, 22, 0])
    """
    first = timestamp(start, "start")
    last = timestamp(end, "end")
    if not first < last:
        raise ValueError(f"end must be after start, got start {first} and end {last}")
    if hours is None:
        spans = exchange_spans(market, first, last, extended)
    elif extended is not None:
        raise ValueError("extended= does not apply to hours=, which already lists extended sessions: omit it")
    else:
        require_columns(hours, "hours", others=("exchange_id", "start", "end", "session", "is_tradable"))
        spans = table_spans(hours, market, first, last)
    spans = spans[(spans["end"] > first) & (spans["start"] < last)].reset_index(drop=True)
    return spans.assign(start=spans["start"].clip(lower=first), end=spans["end"].clip(upper=last))


@typed
def by_session(
    sessions: pd.DataFrame,
    *,
    mark: Panel | None = None,
    index: Panel | None = None,
    funding: Panel | None = None,
    oi: Panel | None = None,
) -> xr.Dataset:
    """Summarise funding, premium, volatility and open interest by session.

    Parameters
    ----------
    sessions
        A `calendar` that covers the panels.
    mark, index
        Prices of the perpetual and of its index [USD] at their timestamps: panels of ``dd.prices.history``
        with ``kind="mark"`` and ``kind="index"``.
    funding
        Funding rates [bps/8h], settled or sampled.
    oi
        Open interest [USD or coins].

    Returns
    -------
    Dataset over ``session`` and the other dims of the panels
        From `funding`: ``funding_bps`` [bps], the accrued payment of a long, and ``funding_bps_8h`` [bps/8h],
        its mean rate. From `mark` and `index`: ``premium_bps`` [bps], the mean of ``mark / index − 1``, and
        ``premium_size_bps`` [bps], the mean of its absolute value. From `mark`: ``volatility`` [1/√year], and
        ``crossing`` [1], the number of omitted returns that span two sessions. From `oi`: ``mean_oi`` in its
        unit. ``funding_hours``, ``premium_hours``, ``volatility_hours`` and ``oi_hours`` [h] are the hours
        with a value; ``hours`` [h] are those of the calendar. NaN for a session without a value.

    Raises
    ------
    ValueError, TypeError
        No panel is passed; the calendar has gaps or does not cover a panel; a panel is in another unit;
        settled rates have no interval.

    Notes
    -----
    Means are weighted by time. A sampled value is valid until the next one, at most for two usual steps. A
    settled rate accrues evenly over the interval that it covers, so funding of all sessions adds up to the
    payments. A payment without an interval covers the hours since the previous one, at most a day. Volatility
    is ``√(Σ r² / hours × 8760)`` over log returns r whose two prices are in one span;
    with steps of five minutes no return spans two sessions of US stocks.

    Examples
    --------
    >>> stamps = pd.date_range("2026-01-09", "2026-01-12", freq="1h", inclusive="left")
    >>> rates = xr.DataArray([1.0] * 24 + [4.0] * 48, {"time": stamps}, "time", "rate_bps_8h")
    >>> spans = dd.analysis.sessions.calendar("XNYS", stamps[0], stamps[-1])
    >>> averages = dd.analysis.sessions.by_session(spans, funding=rates.assign_attrs(kind="sampled"))
    >>> averages["funding_bps_8h"].sel(session=["regular", "weekend"]).round(2).values
    array([1., 4.])
    """
    bounds, kinds = _bounds(sessions)
    if (mark is None and funding is None and oi is None) or (index is not None and mark is None):
        raise ValueError("mark, funding or oi is missing: pass at least one; index needs mark")
    spans = {"bounds": bounds, "kinds": kinds}
    results = []
    if funding is not None:
        results.append(_funding(funding, spans))
    if mark is not None:
        results.extend(_prices(mark, index, spans))
    if oi is not None:
        amounts = require_quantity(oi, "time")
        units = {"mean_oi": str(unit_of(amounts, "oi")), "oi_hours": "h"}
        results.append(_over_sessions(_mean, amounts, units=units, spans=spans, name="oi"))
    result = _joined(results).assign_coords(session=list(SESSIONS))
    # Hours of each session in the calendar, including sessions without values.
    total = [float(np.diff(hours_at(bounds, bounds[0]))[kinds == at].sum()) for at in range(len(SESSIONS))]
    return result.assign(hours=("session", total, {"units": "h"}))


@typed
def closures(
    sessions: pd.DataFrame,
    *,
    mark: Panel | None = None,
    index: Panel | None = None,
    funding: Panel | None = None,
    oi: Panel | None = None,
    after: str | pd.Timedelta = "0h",
) -> xr.Dataset:
    """Measure each closure from a regular close to the next regular open: moves, gap, funding and carry.

    Parameters
    ----------
    sessions, mark, index, funding, oi
        As in `by_session`.
    after
        Time after the open at which the index is read, such as ``"5m"``.

    Returns
    -------
    Dataset over ``closure`` (the regular close) and the other dims of the panels
        With coordinates ``session`` (``overnight``, ``weekend`` or ``holiday``), ``end`` (the next regular
        open) and ``closed_hours`` [h]. From `mark`: ``move_bps`` [bps], the perpetual's return over the
        closure. From `index`: ``gap_bps`` [bps], the index after the open relative to the close, and with
        `mark` ``implied_gap_bps`` [bps], the mark at the open relative to the index at the close. From
        `funding`: ``funding_bps`` [bps] that a long pays after the close until the open, inclusive. From
        `mark` and `funding`: ``carry_bps`` [bps], ``move_bps − funding_bps``, the earnings of a long. From
        `oi`: ``oi_change`` [fraction].

    Raises
    ------
    ValueError, TypeError
        As in `by_session`.

    Notes
    -----
    A price at some time is the last one at or before it, and the index at the open the first one at or after
    it, each at most two usual steps away; else NaN. ``funding_bps`` is NaN if a payment or a sampled rate is
    missing.
    A payment without an interval covers the hours since the previous one, at most a day. A break between
    two halves of a day is not a closure.

    Examples
    --------
    >>> stamps = pd.date_range("2026-01-09", "2026-01-13", freq="30min", inclusive="left")
    >>> mark = xr.DataArray(100.0 + (stamps >= "2026-01-11"), {"time": stamps}, "time", "mark_usd")
    >>> spans = dd.analysis.sessions.calendar("XNYS", stamps[0], stamps[-1])
    >>> jumps = dd.analysis.sessions.closures(spans, mark=mark)
    >>> jumps["session"].values.tolist(), jumps["closed_hours"].values, jumps["move_bps"].round(6).values
    (['weekend'], array([65.5]), array([100.]))
    """
    bounds, kinds = _bounds(sessions)
    if mark is None and index is None and funding is None and oi is None:
        raise ValueError("mark, index, funding or oi is missing: pass at least one")

    # 1. Find the closes and the following opens.
    begins, ends, names = _closures(bounds, kinds)
    delay = length(after, "after") / pd.Timedelta(1, "us")
    opens = ends + np.timedelta64(round(delay), "us")
    spans = {"begins": begins, "ends": ends}

    # 2. Compute the price moves between them.
    results = []
    marks = None if mark is None else require(mark, "time", units="USD", name="mark")
    levels = None if index is None else require(index, "time", units="USD", name="index")
    if marks is not None:
        results.append(_change(marks, {"move_bps": "bps"}, begins=begins, ends=ends, factor=1e4))
    if levels is not None:
        results.append(
            _change(levels, {"gap_bps": "bps"}, begins=begins, ends=opens, factor=1e4, following=True)
        )
    if marks is not None and levels is not None:
        at_close = _change(levels, {"level": "USD"}, begins=begins, ends=None)["level"]
        at_open = _change(marks, {"level": "USD"}, begins=ends, ends=None)["level"]
        _require_labels([at_close, at_open])
        implied = 1e4 * (at_open / at_close - 1.0)
        results.append(implied.assign_attrs(units="bps").to_dataset(name="implied_gap_bps"))

    # 3. Add funding and open interest, and the earnings of a long position.
    if funding is not None:
        results.append(_paid(funding, spans))
    if oi is not None:
        amounts = require_quantity(oi, "time")
        results.append(_change(amounts, {"oi_change": "fraction"}, begins=begins, ends=ends, factor=1.0))
    result = _joined(results)
    if "move_bps" in result and "funding_bps" in result:
        carry = result["move_bps"] - result["funding_bps"]
        result = result.assign(carry_bps=carry.assign_attrs(units="bps"))
    closed = (ends - begins) / np.timedelta64(1, "h")
    return result.assign_coords(
        closure=begins,
        end=("closure", ends),
        session=("closure", np.array(names, dtype=object)),
        closed_hours=("closure", closed, {"units": "h"}),
    )


def _bounds(sessions: pd.DataFrame) -> tuple[Any, Any]:
    """Return the edges of the spans of a calendar [datetime64, µs], and the number of each span's session."""
    require_columns(sessions, "sessions", others=("session", "start", "end"))
    if not len(sessions):
        raise ValueError("sessions is empty: pass the result of dd.analysis.sessions.calendar")
    starts = naive_utc(pd.DatetimeIndex(sessions["start"])).as_unit("us").to_numpy()
    ends = naive_utc(pd.DatetimeIndex(sessions["end"])).as_unit("us").to_numpy()
    order = np.argsort(starts, kind="stable")
    starts = starts[order]
    ends = ends[order]
    if (starts[1:] != ends[:-1]).any() or (ends <= starts).any():
        raise ValueError("sessions must be contiguous: pass a whole calendar")
    unknown = set(sessions["session"]) - set(SESSIONS)
    if unknown:
        raise ValueError(
            f"sessions must be named {', '.join(SESSIONS)}, got {sorted(map(str, unknown))[0]!r}"
        )
    kinds = np.array([SESSIONS.index(name) for name in sessions["session"].to_numpy()[order]])
    return np.append(starts, ends[-1]), kinds


def _closures(bounds: Any, kinds: Any) -> tuple[Any, Any, list[str]]:
    """Return regular closes, the opens after them, and the session of each closure."""
    regular = np.flatnonzero(kinds == SESSIONS.index("regular"))
    begins = []
    ends = []
    names: list[str] = []
    for before, following in itertools.pairwise(regular):
        between = {SESSIONS[at] for at in kinds[before + 1 : following]}
        closed = [name for name in ("holiday", "weekend", "overnight") if name in between]
        if closed:
            begins.append(bounds[before + 1])
            ends.append(bounds[following])
            names.append(closed[0])
    return np.array(begins, dtype="M8[us]"), np.array(ends, dtype="M8[us]"), names


def _joined(results: list[xr.Dataset]) -> xr.Dataset:
    """Join results of several panels, which must have the same symbols and venues."""
    _require_labels(results)
    return xr.merge(results, join="exact", compat="no_conflicts")


def _require_labels(results: list[Any]) -> None:
    """Raise unless panels have the same labels along each dim."""
    try:
        xr.align(*results, join="exact", copy=False)
    except ValueError:
        raise ValueError("the panels must have the same symbols and venues: select them") from None


def _over_sessions(
    kernel: Any,
    *panels: xr.DataArray,
    units: dict[str, Any],
    spans: dict[str, Any],
    name: str,
    **options: Any,
) -> xr.Dataset:
    """Apply a kernel to panels by session; the other dims and the `units` of its results remain.

    The kernel gets the hours `since` of the rows, the `edges` of the spans in these hours, and `clocks`
    (session, edge), the hours of each session up to each edge. The hours of a session between two times are
    the difference of its clock, which is linear between edges.
    """
    since = hours(panels[0], name=name)
    stamps = panels[0]["time"].to_numpy()
    bounds = spans["bounds"]
    if stamps[0] < bounds[0] or stamps[-1] > bounds[-1]:
        raise ValueError(
            f"{name} covers {stamps[0]} to {stamps[-1]}, but sessions covers {bounds[0]} to {bounds[-1]}: "
            "pass a calendar that covers the panel"
        )
    edges = hours_at(bounds, stamps[0])
    clocks = np.zeros((len(SESSIONS), edges.size))
    for session in range(len(SESSIONS)):
        clocks[session, 1:] = np.cumsum(np.where(spans["kinds"] == session, np.diff(edges), 0.0))
    into = {"session": len(SESSIONS)}
    return figures_of(
        kernel, *panels, units=units, into=into, since=since, edges=edges, clocks=clocks, **options
    )


def _held(since: Floats) -> Floats:
    """Return the end of validity of each value of a sampled series [hours]."""
    step = usual_step(since)
    return np.append(np.minimum(since[1:], since[:-1] + 2.0 * step), since[-1] + step)


def _mean(values: Floats, *, since: Floats, edges: Floats, clocks: Floats) -> tuple[Floats, ...]:
    """Return the time-weighted mean of each series in each session, and the hours."""
    until = _held(since)
    finite = np.isfinite(values)
    spent = np.stack(
        [np.interp(until, edges, clock) - np.interp(since, edges, clock) for clock in clocks], -1
    )
    total = finite.astype(np.float64) @ spent
    return _ratio(np.where(finite, values, 0.0) @ spent, total), total


def _ratio(total: Floats, hours_known: Floats) -> Floats:
    """Return a total per hour with a value; NaN without such hours."""
    positive = hours_known > 0.0
    return np.where(positive, total / np.where(positive, hours_known, 1.0), np.nan)


def _premium(premium: Floats, *, since: Floats, edges: Floats, clocks: Floats) -> tuple[Floats, ...]:
    """Return mean premium, mean absolute premium and hours of each session."""
    mean, total = _mean(premium, since=since, edges=edges, clocks=clocks)
    size, _ = _mean(np.abs(premium), since=since, edges=edges, clocks=clocks)
    return mean, size, total


def _prices(mark: Panel, index: Panel | None, spans: dict[str, Any]) -> list[xr.Dataset]:
    """Return volatility, and with an index also the premium, by session."""
    marks = require(mark, "time", units="USD", name="mark")
    units = {"volatility": "1/√year", "crossing": "1", "volatility_hours": "h"}
    results = [_over_sessions(_volatility, marks, units=units, spans=spans, name="mark")]
    if index is not None:
        levels = broadcast_companion(marks, require(index, "time", name="index"), units="USD", name="index")
        premium = 1e4 * (marks / levels.where(levels > 0.0) - 1.0)
        units = {"premium_bps": "bps", "premium_size_bps": "bps", "premium_hours": "h"}
        results.append(_over_sessions(_premium, premium, units=units, spans=spans, name="mark"))
    return results


def _volatility(marks: Floats, *, since: Floats, edges: Floats, clocks: Floats) -> tuple[Floats, ...]:
    """Return the volatility by session, the number of returns that span two sessions, and the hours used."""
    # 1. Compute each return and its duration.
    is_quoted = np.isfinite(marks) & (marks > 0.0)
    before = np.concatenate(
        [np.full((*is_quoted.shape[:-1], 1), -1), last_valid(is_quoted)[..., :-1]], axis=-1
    )
    has_return = is_quoted & (before >= 0)
    earlier = np.maximum(before, 0)
    logs = np.log(np.where(is_quoted, marks, 1.0))
    squares = (logs - np.take_along_axis(logs, earlier, axis=-1)) ** 2
    lasted = since - since[earlier]

    # 2. Select returns within one span. A price at an edge ends one span and begins the next.
    begins = np.searchsorted(edges, since, side="right")[earlier]
    within = has_return & (begins == np.searchsorted(edges, since, side="left"))
    crossing = (has_return & ~within).sum(axis=-1).astype(np.float64)

    # 3. Sum their squares by session.
    span = np.maximum(np.searchsorted(edges, since, side="left") - 1, 0)
    is_in = (np.diff(clocks, axis=-1)[:, span] > 0.0).T.astype(np.float64)  # shape (row, session)
    total = np.where(within, lasted, 0.0) @ is_in
    variance = _ratio(np.where(within, squares, 0.0) @ is_in, total)
    count = np.repeat(crossing[..., None], len(clocks), axis=-1)
    return np.sqrt(variance * _HOURS_PER_YEAR), count, total


def _funding(funding: Panel, spans: dict[str, Any]) -> xr.Dataset:
    """Return the funding by session, of samples or settlements."""
    rates = require_rate(funding, "time", name="funding")
    units = {"funding_bps": "bps", "funding_bps_8h": "bps/8h", "funding_hours": "h"}
    if kind_of(rates) == "settled":
        rates, interval = due_settlements(rates)
        return _over_sessions(_accrued, rates, interval, units=units, spans=spans, name="funding")
    return _over_sessions(_sampled, rates, units=units, spans=spans, name="funding")


def _sampled(rates: Floats, *, since: Floats, edges: Floats, clocks: Floats) -> tuple[Floats, ...]:
    """Return accrual [bps], mean rate [bps/8h] and hours of sampled rates in each session."""
    mean, total = _mean(rates, since=since, edges=edges, clocks=clocks)
    return mean * total / 8.0, mean, total


def _accrued(
    rates: Floats, interval: Floats, *, since: Floats, edges: Floats, clocks: Floats
) -> tuple[Floats, ...]:
    """Return the accrual of payments in each session. A payment accrues evenly over its interval."""
    is_paid = np.isfinite(rates) & (interval > 0.0)
    begins = since - np.where(is_paid, interval, 0.0)
    sums = []
    totals = []
    for clock in clocks:
        spent = np.interp(since, edges, clock) - np.interp(begins, edges, clock)
        sums.append(np.where(is_paid, rates * spent / 8.0, 0.0).sum(axis=-1))
        totals.append(np.where(is_paid, spent, 0.0).sum(axis=-1))
    paid = np.stack(sums, axis=-1)
    total = np.stack(totals, axis=-1)
    mean = _ratio(8.0 * paid, total)
    return np.where(total > 0.0, paid, np.nan), mean, total


def _change(
    panel: xr.DataArray,
    units: dict[str, str],
    *,
    begins: Any,
    ends: Any,
    factor: float = 1.0,
    following: bool = False,
) -> xr.Dataset:
    """Return the change of a panel over each closure."""
    since = hours(panel)
    origin = panel["time"].to_numpy()[0]
    return figures_of(
        _changed,
        panel,
        units=units,
        into={"closure": begins.size},
        since=since,
        begins=hours_at(begins, origin),
        ends=None if ends is None else hours_at(ends, origin),
        factor=factor,
        following=following,
    )


def _changed(
    values: Floats, *, since: Floats, begins: Floats, ends: Floats | None, factor: float, following: bool
) -> Floats:
    """Return the change between two times of each closure, or the values at the first ones."""
    oldest = 2.0 * usual_step(since)
    first = _at(values, since, begins, oldest)
    if ends is None:
        return first
    if following:  # reversing time finds the next value instead of the last one
        last = _at(values[..., ::-1], -since[::-1], -ends, oldest)
    else:
        last = _at(values, since, ends, oldest)
    return factor * (last / np.where(first > 0.0, first, np.nan) - 1.0)


def _at(values: Floats, since: Floats, timestamps: Floats, oldest: float) -> Floats:
    """Return the newest value at or before each time; NaN if the value is older than `oldest`."""
    rows = np.searchsorted(since, timestamps + _ROUNDING, side="right") - 1
    newest = last_valid(np.isfinite(values))[..., np.maximum(rows, 0)]
    age = timestamps - since[np.maximum(newest, 0)]
    recent = (rows >= 0) & (newest >= 0) & (age <= oldest + _ROUNDING)
    return np.where(recent, np.take_along_axis(values, np.maximum(newest, 0), axis=-1), np.nan)


def _paid(funding: Panel, spans: dict[str, Any]) -> xr.Dataset:
    """Return the funding [bps] that a long pays over each closure."""
    rates = require_rate(funding, "time", name="funding")
    panels = due_settlements(rates) if kind_of(rates) == "settled" else (rates,)
    since = hours(panels[0], name="funding")
    origin = panels[0]["time"].to_numpy()[0]
    return figures_of(
        _payments if len(panels) == 2 else _integrals, *panels, units={"funding_bps": "bps"},
        into={"closure": spans["begins"].size}, since=since, begins=hours_at(spans["begins"], origin),
        ends=hours_at(spans["ends"], origin),
    )  # fmt: skip


def _payments(rates: Floats, interval: Floats, *, since: Floats, begins: Floats, ends: Floats) -> Floats:
    """Return the sum of payments after each close until the open; NaN if one is missing.

    Payments are complete if they cover the time from the close to the last of them, and the next payment is
    due after the open. They are also complete if the next payment covers all hours since the last one,
    because the interval has become longer.
    """
    is_paid = np.isfinite(rates) & (interval > 0.0)
    zero = np.zeros((*rates.shape[:-1], 1))
    sums = np.concatenate([zero, np.cumsum(np.where(is_paid, rates * interval / 8.0, 0.0), axis=-1)], axis=-1)
    covered = np.concatenate([zero, np.cumsum(np.where(is_paid, interval, 0.0), axis=-1)], axis=-1)
    first = np.searchsorted(since, begins + _ROUNDING, side="right")
    stop = np.searchsorted(since, ends + _ROUNDING, side="right")
    newest = last_valid(is_paid)[..., np.maximum(stop - 1, 0)]
    newest_row = np.maximum(newest, 0)
    last = since[newest_row]
    next_due = last + np.take_along_axis(np.where(is_paid, interval, 0.0), newest_row, axis=-1)
    is_due_later = (next_due > ends + _ROUNDING) | _covers(is_paid, interval, since, stop, last)
    unpaid = np.maximum(last - begins, 0.0) - (covered[..., stop] - covered[..., first])
    is_covered = (stop > 0) & (newest >= 0) & (unpaid <= _ROUNDING) & is_due_later
    return np.where(is_covered, sums[..., stop] - sums[..., first], np.nan)


def _covers(finite: Bools, interval: Floats, since: Floats, rows: Indices, last: Floats) -> Bools:
    """Return whether the first payment from each row on covers the time since the previous payment."""
    size = since.size
    reverse = np.clip(size - 1 - rows, 0, None)
    following = size - 1 - last_valid(finite[..., ::-1])[..., reverse]
    has_one = (rows < size) & (following < size)
    at = np.minimum(following, size - 1)
    starts = since[at] - np.take_along_axis(interval, at, axis=-1)
    return np.asarray(has_one & (starts <= last + _ROUNDING))


def _integrals(rates: Floats, *, since: Floats, begins: Floats, ends: Floats) -> Floats:
    """Return the integral of sampled rates over each closure; NaN if some hours have no rate."""
    until = _held(since)
    finite = np.isfinite(rates)
    results = []
    for begin, end in zip(begins, ends, strict=True):
        rows = slice(np.searchsorted(until, begin, side="right"), np.searchsorted(since, end, side="left"))
        spent = np.minimum(until[rows], end) - np.maximum(since[rows], begin)
        covered = np.where(finite[..., rows], spent, 0.0).sum(axis=-1)
        accrued = np.where(finite[..., rows], rates[..., rows] * spent / 8.0, 0.0).sum(axis=-1)
        results.append(np.where(covered >= end - begin - _ROUNDING, accrued, np.nan))
    return np.stack(results, axis=-1) if results else np.zeros((*rates.shape[:-1], 0))


SESSIONS = ("regular", "extended", "break", "overnight", "weekend", "holiday")

_MARGIN = pd.Timedelta(20, "D")  # longer than any closure of a market
_FIRST_YEAR, _LAST_YEAR = 1678, 2261  # exchange_calendars (4.13) has times in nanoseconds
_US_STOCKS = ("04:00", "20:00")
"""Extended trading hours of US stocks in local time, as the websites of NYSE Arca and Nasdaq stated in
2026."""
_WEEKEND = "1111100"


class _Trading(NamedTuple):
    """A span of trading with its local day."""

    start: pd.Timestamp
    end: pd.Timestamp
    session: str
    day: pd.Timestamp


def exchange_spans(
    market: str, first: pd.Timestamp, last: pd.Timestamp, extended: tuple[str, str] | None
) -> pd.DataFrame:
    """Return the spans of an exchange_calendars market around a window."""
    package = import_extra("exchange_calendars", "sessions", "a calendar of sessions without hours=")
    names = package.get_calendar_names(include_aliases=True)
    if market not in names:
        raise ValueError(
            f"exchange_calendars has no market {market!r}{did_you_mean(market, names)}: pass its hours, "
            "hours=dd.rwa.market_hours(market)"
        )
    name = package.resolve_alias(market)
    _require_year(first, "start")
    _require_year(last, "end")
    start = naive_utc(first - _MARGIN).normalize()
    end = naive_utc(last + _MARGIN).normalize()
    with warnings.catch_warnings():
        # exchange_calendars 4.13 reads `Series.values` of zoned times, which pandas 3.1 deprecates.
        warnings.simplefilter("ignore", DeprecationWarning)
        book = package.get_calendar(name, start=start, end=end)
        schedule = book.schedule
        early = set(book.early_closes)
    if extended is None and name == "XNYS":
        extended = _US_STOCKS

    # Add the regular halves of each day, and extended trading around them.
    trading = []
    for day, row in schedule.iterrows():
        opens = row["open"]
        closes = row["close"]
        halves = [(opens, closes)]
        if not pd.isna(row["break_start"]):
            halves = [(opens, row["break_start"]), (row["break_end"], closes)]
        if extended is not None:
            begin, stop = (_local(day, text, book.tz) for text in extended)
            if day in early:
                stop -= _usual_close(book, day) - closes
            if not begin <= opens <= closes <= stop:
                raise ValueError(
                    f"extended must include the regular hours of {name} on {day.date()}, got {extended}"
                )
            trading.append(_Trading(begin, opens, "extended", day))
            trading.append(_Trading(closes, stop, "extended", day))
        trading.extend(_Trading(*half, "regular", day) for half in halves)
    return _with_closures(trading, str(book.weekmask), market, None)


def _require_year(stamp: pd.Timestamp, name: str) -> None:
    """Raise `ValueError` for a time that exchange_calendars cannot represent."""
    if not _FIRST_YEAR <= stamp.year <= _LAST_YEAR:
        raise ValueError(
            f"{name} must be within the years {_FIRST_YEAR} to {_LAST_YEAR} for a market of "
            f"exchange_calendars, got the year {stamp.year}"
        )


def _usual_close(book: Any, day: pd.Timestamp) -> pd.Timestamp:
    """Return the usual closing time of a market, without early closes."""
    times = [time for since, time in book.close_times if since is None or since <= day]
    return _local(day, times[-1].strftime("%H:%M"), book.tz)


def _local(day: pd.Timestamp, text: str, zone: Any) -> pd.Timestamp:
    """Return the timestamp of a local time of day."""
    hour, _, minute = text.partition(":")
    if not (hour.isdigit() and minute.isdigit() and int(hour) < 24 and int(minute) < 60):
        raise ValueError(f"extended must have local times such as '04:00', got {text!r}")
    wall = day.replace(hour=int(hour), minute=int(minute))
    return wall.tz_localize(zone).tz_convert("UTC")


def table_spans(hours: pd.DataFrame, market: str, first: pd.Timestamp, last: pd.Timestamp) -> pd.DataFrame:
    """Return the spans of a market from the table ``rwa_market_hours`` around a covered window."""
    # 1. Select the newest rows of the market.
    named = [name for name in ("exchange_id", "short_name", "mic") if name in hours.columns]
    texts = hours[named].astype("str").apply(lambda column: column.str.lower())
    rows = hours[(texts == market.lower()).any(axis=1)]
    if not len(rows):
        raise ValueError(f"hours does not have the market {market!r}; available: {_listed(hours)}")
    if "timezone" not in rows.columns or rows["timezone"].isna().any():
        raise ValueError(f"hours must have a timezone for {market!r}, which the closures need")
    if "time" in rows.columns:
        rows = rows.sort_values("time")
    rows = rows.drop_duplicates(["exchange_id", "start", "session"], keep="last")
    if rows["exchange_id"].nunique() > 1:
        raise ValueError(f"{market!r} matches several markets of hours: pass the exchange_id")

    # 2. Read its trading spans and holidays by local day.
    zone = str(rows["timezone"].iloc[-1])
    tradable = rows["is_tradable"].astype("bool")
    trading = []
    for row in rows[tradable].itertuples():
        start = utc(pd.Timestamp(row.start))
        end = utc(pd.Timestamp(row.end))
        day = _day(end - pd.Timedelta(1, "us"), zone)
        session = "regular" if row.session == "regular" else "extended"
        trading.append(_Trading(start, end, session, day))
    holidays: set[pd.Timestamp] = set()
    for row in rows[rows["session"] == "holiday"].itertuples():
        begin = _day(utc(pd.Timestamp(row.start)), zone)
        stop = _day(utc(pd.Timestamp(row.end)) - pd.Timedelta(1, "us"), zone)
        holidays.update(pd.date_range(begin, stop))
    spans = _with_closures(trading, _WEEKEND, market, holidays)
    if spans["start"].min() > first or spans["end"].max() < last:
        raise ValueError(
            f"hours has sessions of {market!r} from {spans['start'].min()} to {spans['end'].max()}, but the "
            f"window is from {first} to {last}: join tables of other times with pd.concat"
        )
    return spans


def _listed(hours: pd.DataFrame) -> str:
    return ", ".join(sorted(set(hours["exchange_id"].astype("str")))) or "no rows"


def _day(at: pd.Timestamp, zone: str) -> pd.Timestamp:
    return pd.Timestamp(at.tz_convert(zone).date())


def _with_closures(
    trading: list[_Trading], weekmask: str, market: str, holidays: set[pd.Timestamp] | None
) -> pd.DataFrame:
    """Return the trading spans and the closures between them.

    `holidays` are the listed holidays, if known.
    """
    ordered = sorted(span for span in trading if span.start < span.end)
    if not ordered:
        raise ValueError(f"{market!r} does not trade in or near the window")
    rows = []
    before = None
    for span in ordered:
        if before is not None and span.start < before.end:
            raise ValueError(f"sessions of {market!r} must not overlap, got an overlap at {span.start}")
        if before is not None and span.start > before.end:
            rows.append((_closure(before, span, weekmask, market, holidays), before.end, span.start))
        rows.append((span.session, span.start, span.end))
        before = span
    frame = pd.DataFrame(rows, columns=["session", "start", "end"])
    for name in ("start", "end"):
        frame[name] = pd.to_datetime(frame[name], utc=True).dt.as_unit("us")
    return frame


def _closure(
    before: _Trading, after: _Trading, weekmask: str, market: str, holidays: set[pd.Timestamp] | None
) -> str:
    """Return the session of the time between two spans of trading, from the days in between."""
    if before.day == after.day:
        return "break"
    skipped = pd.date_range(before.day, after.day)[1:-1]
    weekdays = [day for day in skipped if weekmask[day.day_of_week] == "1"]
    unlisted = [day for day in weekdays if holidays is not None and day not in holidays]
    if unlisted:
        raise ValueError(
            f"hours lacks a session or holiday of {market!r} on {unlisted[0].date()}: join the table of an "
            "earlier time with pd.concat"
        )
    if weekdays:
        return "holiday"
    return "weekend" if len(skipped) else "overnight"
