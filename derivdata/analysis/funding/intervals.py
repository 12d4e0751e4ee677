"""Settlement intervals: what they were, read from the settlements, and when each venue pays next."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

from derivdata.analysis.funding.ledger import LATE
from derivdata.analysis.panels import Panel, figures_of, hours, hours_of, kind_of, require_rate
from derivdata.analysis.settlements import scheduled
from derivdata.support.arguments import typed
from derivdata.support.arrays import Bools, Floats
from derivdata.support.times import Instant, instant, naive_utc
from derivdata.tables.frames import require_columns
from derivdata.tables.payments import intervals_of_gaps, missing_before
from derivdata.tables.venue_facts import fact_value
from derivdata.units import HOUR_UNIT

_TOLERANCE = 0.05  # of an interval: stamps are late by milliseconds to minutes
_ROUNDING = 1e-6  # of an interval
_GRACE = 1 / 60  # hours after the due instant until which a payment may not be in the table yet


@typed
def infer_interval(
    panel: Panel,
    *,
    candidates: Sequence[str | pd.Timedelta] = ("1h", "2h", "3h", "4h", "6h", "8h", "12h", "24h"),
    confirm: int = 3,
    backdate: bool = True,
) -> xr.Dataset:
    """Infer each venue's settlement interval over time, with its changes, from the gaps between settlements.

    Parameters
    ----------
    panel
        Settled funding rates [bps/8h], dim ``time``, in memory or lazy (time is put into one chunk).
    candidates
        Intervals that venues use: 1, 2, 3, 4, 6, 8, 12 and 24 hours by default. A gap within 5 % of one
        counts as it.
    confirm
        Equal gaps in a row that confirm an interval; a single gap of twice the interval is a
        missing settlement, not a change, and any other that is over half an interval ends with a late or
        early one.
    backdate
        Date a confirmed interval back to the first of its gaps (and the first one to the start of the
        series). False dates it to the gap that confirmed it: all that was known at the time.

    Returns
    -------
    Dataset, the panel's dims
        ``interval_hours`` [h] at each settlement, as an archive assigns it, NaN where there is none and where
        gaps do not determine it; ``changed``, true at the first settlement of another interval than before;
        ``missing``, settlements that are absent right before this one.

    Raises
    ------
    TypeError, ValueError
        The panel is no settled funding panel in bps/8h; `candidates` or `confirm` make no sense.

    Notes
    -----
    Where the service reports intervals, take those. Venues move symbols between intervals: today's is not
    that of history.
    """
    panel = require_rate(panel, "time").drop_vars("interval_hours", errors="ignore")
    if kind_of(panel) != "settled":
        raise ValueError("samples are taken at any time and do not determine the interval: pass settlements")
    ascending = np.sort([hours_of(candidate, "candidates") for candidate in candidates])
    if confirm < 1 or not ascending.size:
        raise ValueError(f"{candidates=}, {confirm=}: need an interval and confirm >= 1")
    return figures_of(
        _infer,
        panel,
        units={"interval_hours": HOUR_UNIT, "changed": np.bool_, "missing": np.int32},
        into={"time": None},
        since=hours(panel),
        candidates=ascending,
        confirm=confirm,
        backdate=backdate,
    )


def _infer(
    rates: Floats, *, since: Floats, candidates: Floats, confirm: int, backdate: bool
) -> tuple[Floats, Bools, NDArray[np.int32]]:
    interval = np.full(rates.shape, np.nan)
    changed = np.zeros(rates.shape, dtype=np.bool_)
    missing = np.zeros(rates.shape, dtype=np.int32)
    for series in np.ndindex(rates.shape[:-1]):
        rows = np.flatnonzero(np.isfinite(rates[series]))
        if rows.size <= confirm:
            continue
        gaps = np.diff(since[rows])
        if not backdate:
            current, first = _believed(gaps, candidates, confirm)
            multiples = _multiples(gaps, current)
            interval[series][rows[1:]] = np.where(multiples > 0, current, np.nan)
            interval[series][rows[0]] = current[0]
            changed[series][rows[1:]] = first
            missing[series][rows[1:]] = np.maximum(multiples - 1, 0)
            continue
        assigned = intervals_of_gaps(
            np.append(np.nan, _snapped(gaps, candidates)), candidates=candidates.tolist(), confirm=confirm
        )
        interval[series][rows] = assigned
        known = np.flatnonzero(np.isfinite(assigned))
        first = known[1:][assigned[known[1:]] != assigned[known[:-1]]]
        changed[series][rows[first]] = True
        missing[series][rows[1:]] = np.maximum(_multiples(gaps, assigned[1:]) - 1, 0)
        for place in first[first > 0].tolist():
            before = assigned[place - 1]
            gap = float(gaps[place - 1])
            missing[series][rows[place]] = missing_before(gap, before, assigned[place]) if before > 0 else 0
    return interval, changed, missing


def _snapped(gaps: Floats, candidates: Floats) -> Floats:
    """Return gaps within 5 % of an interval of venues as that interval, and the others unchanged."""
    nearest = candidates[np.argmin(np.abs(gaps[:, None] - candidates), axis=1)]
    return np.where(np.abs(gaps - nearest) <= _TOLERANCE * nearest, nearest, gaps)


def _believed(gaps: Floats, candidates: Floats, confirm: int) -> tuple[Floats, Bools]:
    """Return the interval known at each gap from those so far, and whether it differs from the one before."""
    snapped = _snapped(gaps, candidates)
    starts = np.flatnonzero(np.append(True, snapped[1:] != snapped[:-1]))
    lengths = np.diff(np.append(starts, gaps.size))
    taken = (lengths >= confirm) & np.isin(snapped[starts], candidates)
    at = starts[taken] + confirm - 1
    value = snapped[starts[taken]]
    run = np.searchsorted(at, np.arange(gaps.size), side="right") - 1
    if not value.size:
        return np.full(gaps.size, np.nan), np.zeros(gaps.size, dtype=np.bool_)
    current = value[np.maximum(run, 0)]
    first = np.zeros(gaps.size, dtype=np.bool_)
    first[at[1:]] = value[1:] != value[:-1]
    return np.where(run >= 0, current, np.nan), first


def _multiples(gaps: Floats, interval: Floats) -> NDArray[np.int64]:
    """Count the intervals in each gap, 0 where it is no whole number of them.

    A settlement that is late by less than half an interval ends one interval, and so does the next if its
    gap is shorter by as much.
    """
    ratio = np.where(np.isfinite(interval), gaps / interval, 0.0)
    count = np.rint(ratio)
    whole = np.where(np.abs(ratio - count) <= _TOLERANCE, count, 0.0)
    late = (whole == 0.0) & (ratio > 1.0) & (ratio < LATE)
    catches_up = (whole == 0.0) & np.append(False, late[:-1])
    catches_up[1:] &= np.abs(ratio[1:] + ratio[:-1] - 2.0) <= _TOLERANCE
    return np.where(late | catches_up, 1.0, whole).astype(np.int64)


@typed
def next_settlements(
    settlements: pd.DataFrame,
    at: Instant,
    *,
    symbols: Sequence[str] | None = None,
    venues: Sequence[str] | None = None,
) -> pd.DataFrame:
    """Return when each venue pays funding of each symbol next, and what that rests on.

    Parameters
    ----------
    settlements
        Table ``funding_settlements``. Payments after `at` are not looked at.
    at
        The instant in question: a payment at it has been made.
    symbols, venues
        Also pairs of these without payments in the table; by default those of the table only.

    Returns
    -------
    DataFrame
        One row per symbol and venue, the next payment first: ``symbol``, ``exchange``, ``time`` (UTC),
        ``hours_until``, ``interval_hours``, ``last_time``, ``missed`` and ``basis``:

        - ``payments``: counted on from the last payment by its interval;
        - ``overdue``: so too, but ``missed`` payments that were due by `at`, the first of them more than a
          minute before, are not in the table: it may be incomplete, the interval another one or the contract
          delisted;
        - ``facts``: no payment is in the table; the interval is that of ``dd.venues.facts()``, counted from
          00:00 UTC, which is assumed;
        - ``unknown``: neither; ``time`` is missing.

        That the interval stays as it was is assumed in every row: venues shorten it under stress.

    Raises
    ------
    ValueError
        A column is absent, or `at` is no instant.

    Examples
    --------
    >>> paid = dd.funding.settlements("BTC", "2d", venues=["binance", "hyperliquid"])
    >>> due = dd.analysis.funding.next_settlements(paid, dd.asof())
    >>> due[["exchange", "hours_until", "basis"]].to_numpy().tolist()
    [['hyperliquid', 1.0, 'payments'], ['binance', 4.0, 'payments']]
    """
    require_columns(settlements, "settlements", ("interval_hours",), others=("symbol", "exchange", "time"))
    now = instant(at, "at")
    due = pd.DatetimeIndex(scheduled(naive_utc(settlements["time"]).to_numpy())).tz_localize("UTC")
    rows = settlements.assign(time=due.as_unit("us"), row=np.arange(len(settlements)))
    rows = rows[rows["time"] <= now].sort_values("time", kind="stable")
    last = rows.drop_duplicates(["symbol", "exchange"], keep="last")
    by_pair = {
        (str(row.symbol), str(row.exchange)): _after(row.time, float(row.interval_hours), now)
        for row in last.itertuples()
    }
    listed = [
        list(names) if names is not None else sorted({pair[place] for pair in by_pair})
        for place, names in enumerate((symbols, venues))
    ]
    if symbols is not None or venues is not None:
        for symbol in listed[0]:
            for exchange in listed[1]:
                by_pair.setdefault((symbol, exchange), _assumed(symbol, exchange, now))
    table = pd.DataFrame(
        [{"symbol": symbol, "exchange": exchange, **row} for (symbol, exchange), row in by_pair.items()],
        columns=[
            "symbol", "exchange", "time", "hours_until", "interval_hours", "last_time", "missed", "basis",
        ],
    )  # fmt: skip
    for name in ("time", "last_time"):
        table[name] = pd.to_datetime(table[name], utc=True).dt.as_unit("us")
    table["hours_until"] = (table["time"] - now) / pd.Timedelta(1, "h")
    table = table.astype({"interval_hours": "float64", "missed": "Int64"})
    table = table.sort_values(["time", "symbol", "exchange"], ignore_index=True)
    table.attrs = dict(settlements.attrs)
    return table


def _after(last: Any, interval: float, now: Any) -> dict[str, Any]:
    """Return the first payment after `now` that the last one and its interval lead to."""
    if not 0.0 < interval < np.inf:
        return {"last_time": last, "basis": "unknown"}
    passed = (now - last) / pd.Timedelta(1, "h")
    steps = np.floor(passed / interval + _ROUNDING)
    basis = "overdue" if passed > interval + _GRACE else "payments"
    due = last + pd.Timedelta((steps + 1) * interval, "h")
    missed = int(steps) if basis == "overdue" else 0
    return {"time": due, "interval_hours": interval, "last_time": last, "missed": missed, "basis": basis}


def _assumed(symbol: str, exchange: str, now: Any) -> dict[str, Any]:
    interval = fact_value(exchange, "interval_hours", symbol, f"{now:%Y-%m-%d}")
    if interval is None:
        return {"basis": "unknown"}
    midnight = now.normalize()
    passed = (now - midnight) / pd.Timedelta(1, "h")
    steps = np.floor(passed / interval + _ROUNDING) + 1
    due = midnight + pd.Timedelta(steps * interval, "h")
    return {"time": due, "interval_hours": interval, "basis": "facts"}
