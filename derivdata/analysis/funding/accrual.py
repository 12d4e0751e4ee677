"""Funding accrual of a position: by row, over spans of time, and over the periods of a history."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

from derivdata.analysis.align import align
from derivdata.analysis.funding.ledger import Ledger, earned_between, of_sampled, of_settled
from derivdata.analysis.funding.pooled_regression import Plan
from derivdata.analysis.panels import (
    Panel,
    broadcast_companion,
    figures_of,
    hours,
    hours_at,
    hours_of,
    kind_of,
    labels_of,
    like,
    require,
    require_labels,
    require_rate,
    usual_step,
    whole,
)
from derivdata.analysis.settlements import Apart, due_settlements, newest_due, of_one_coin
from derivdata.support.arguments import typed
from derivdata.support.arrays import Floats
from derivdata.units import BPS, BPS_UNIT, HOUR_UNIT, USD_UNIT

_MICROSECONDS = 3_600_000_000
_MAX_PERIODS = 10_000_000


class PreparedPanel(NamedTuple):
    """A funding panel prepared for a kernel: its arrays, and the conversion of their rows to a `Ledger`."""

    arrays: tuple[xr.DataArray, ...]
    """The rates, and for settlements their intervals; time in one chunk."""
    since: Floats
    origin: np.datetime64
    """The start of `since`: for settlements the due time of the first timestamp."""
    settled: bool
    step: float
    limit: float

    def ledger(self, *arrays: Floats) -> Ledger:
        """Return the ledger of the arrays' values, time last."""
        if self.settled:
            rates, interval = arrays
            return of_settled(rates, interval, self.since)
        return of_sampled(arrays[0], self.since, step=self.step, limit=self.limit)


def prepare(
    panel: Panel,
    *,
    max_gap: str | pd.Timedelta | None = None,
    step: str | pd.Timedelta | None = None,
    overlap: Literal["raise", "nan"] = "raise",
) -> PreparedPanel:
    """Check a funding panel and the options of its kind; see `cumulative` for the arguments."""
    panel = require_rate(panel, "time")
    since = hours(panel)
    if kind_of(panel) == "settled":
        if max_gap is not None or step is not None:
            raise ValueError(
                "max_gap= and step= apply only to sampled rates, and this panel is settled: omit them"
            )
        rates, interval = due_settlements(panel, overlap=overlap)
        return PreparedPanel(
            arrays=(rates, interval), since=hours(rates), origin=rates["time"].to_numpy()[0], settled=True,
            step=np.nan, limit=np.nan,
        )  # fmt: skip
    panel = panel.drop_vars("interval_hours", errors="ignore")
    if step is None and since.size < 2:
        raise ValueError("the step of a panel with one row is unknown: pass step=")
    held = usual_step(since) if step is None else hours_of(step, "step")
    limit = 2.0 * held if max_gap is None else hours_of(max_gap, "max_gap")
    return PreparedPanel(
        arrays=(panel,), since=since, origin=panel["time"].to_numpy()[0], settled=False, step=held,
        limit=limit,
    )  # fmt: skip


@typed
def cumulative(
    panel: Panel,
    *,
    compound: bool = False,
    gaps: Literal["nan", "skip"] = "nan",
    max_gap: str | pd.Timedelta | None = None,
    step: str | pd.Timedelta | None = None,
    overlap: Literal["raise", "nan"] = "raise",
) -> xr.Dataset:
    """Accrue funding since the start of each series: the integral of samples, the sum of settlements.

    Parameters
    ----------
    panel
        Funding rates [bps/8h] with a ``kind``, dim ``time``, in memory or lazy (time is put into one chunk).
        A settlement adds ``rate × interval_hours / 8``, where ``interval_hours`` is the panel's coordinate,
        which may change in time.
    compound
        Settlements only: every payment is added to the position.
    gaps
        ``"nan"``: results are NaN from the first gap on. ``"skip"``: gaps are omitted, and ``missing_hours``
        is their length.
    max_gap
        Samples only: maximum validity of a rate if samples are missing; by default two steps.
    step
        Samples only: validity of the last row; by default the median step.
    overlap
        Settlements only: how to treat settlements that cover more hours than have passed. ``"raise"`` names
        the series; ``"nan"`` omits the later payment.

    Returns
    -------
    Dataset, the panel's dims
        ``funding_bps`` [bps of notional, longs pay when positive], ``covered_hours``, ``missing_hours``,
        since the series' first value; NaN before it. Settlements stamped up to a minute past a whole hour
        count at that hour. A sampled row includes the hours for which its rate is valid (its timestamp is the
        start of its bucket), and a settled row its own payment. A constant 1 bps/8h over 30 days ends at 90
        bps for every step and interval.

    Raises
    ------
    TypeError, ValueError
        The unit or the kind is missing; an argument is for the other kind; settlements cover more hours than
        have passed.

    Notes
    -----
    A settlement without an interval counts with its payment (coordinate ``payment_bps`` of
    `derivdata.panel`), for the hours since the previous settlement; without that value it is missing. The
    accrual of a sampled rate estimates the payments of venues that settle at fixed times; for venues that
    accrue by the second it is the payment.

    Examples
    --------
    >>> hours = pd.date_range("2026-01-01", periods=720, freq="h")
    >>> rates = xr.DataArray(np.ones(720), {"time": hours}, attrs={"units": "bps/8h", "kind": "sampled"})
    >>> dd.analysis.funding.cumulative(rates)["funding_bps"].values[-1].item()
    90.0
    """
    prepared = prepare(panel, max_gap=max_gap, step=step, overlap=overlap)
    kind = "settled" if prepared.settled else "sampled"
    if compound and not prepared.settled:
        raise ValueError(
            "compound=True needs payments, got sampled rates: pass settlements (dd.funding.settlements)"
        )
    result = figures_of(
        _cumulative,
        *prepared.arrays,
        units={"funding_bps": BPS_UNIT, "covered_hours": HOUR_UNIT, "missing_hours": HOUR_UNIT},
        into={"time": None},
        prepared=prepared._replace(arrays=()),
        compound=compound,
        strict=gaps == "nan",
    )
    for name in result:
        result[name].attrs["kind"] = kind
    return result


def _cumulative(
    *arrays: Floats, prepared: PreparedPanel, compound: bool, strict: bool
) -> tuple[Floats, Floats, Floats]:
    """Return accrued funding [bps], covered and missing hours; `strict` gives NaN after a gap."""
    ledger = prepared.ledger(*arrays)
    amount = ledger.amount
    if compound:
        amount = np.log1p(np.where(amount > -BPS, amount / BPS, np.nan))
    total, covered, missing = (
        np.cumsum(values, axis=-1) for values in (amount, ledger.covered, ledger.missing)
    )
    if compound:
        total = BPS * np.expm1(total)
    unknown = ~ledger.started
    if strict:
        unknown = unknown | (missing > 0.0)
    hidden = np.where(unknown, np.nan, total)
    return hidden, np.where(ledger.started, covered, np.nan), np.where(ledger.started, missing, np.nan)


def earned(prepared: PreparedPanel, starts: Floats, ends: Floats, *, min_cover: float = 1.0) -> xr.Dataset:
    """Return the earnings of each series [bps] over spans ``(start, end]``, given in hours since `origin`.

    ``amount`` [bps of notional, paid by a long] of known rows, NaN if they cover less than `min_cover` of the
    span; ``filled``, the hours in it whose rate was carried over missing samples; ``coverage``, the paid
    fraction of the hours.
    """
    bare = prepared._replace(arrays=())
    result = figures_of(
        lambda *arrays: earned_between(bare.ledger(*arrays), bare.since, starts, ends, settled=bare.settled),
        *prepared.arrays,
        units={"amount": BPS_UNIT, "filled": HOUR_UNIT, "coverage": "1"},
        into={"span": ends.size},
    )
    return result.assign(amount=result["amount"].where(result["coverage"] >= min_cover))


@typed
def period_sums(
    panel: Panel,
    period: str | pd.Timedelta = "8h",
    *,
    min_cover: float = 1.0,
    overlap: Literal["raise", "nan"] = "raise",
) -> xr.Dataset:
    """Compute the accrual of a position over periods that all venues share.

    Parameters
    ----------
    panel
        As in `cumulative`. Payments are those in ``(start, end]``; one stamped up to a minute past a whole
        hour counts at that hour.
    period
        Length of the periods, counted from 00:00 UTC (1970-01-01).
    min_cover
        Minimum fraction of a period that must be paid for, above 0 and at most 1.
    overlap
        As in `cumulative`.

    Returns
    -------
    Dataset, the panel's dims with ``time`` the ends of whole periods
        ``funding_bps`` [bps of notional, longs pay if positive] of known rows, NaN if they cover less than
        `min_cover` of the period or a settlement covers more than it; ``filled_hours`` [h], hours in it whose
        rate was carried over missing samples; ``coverage``, the paid fraction of its hours.

    Raises
    ------
    TypeError, ValueError
        As `cumulative`; the panel is shorter than a period.
    """
    require_cover(min_cover)
    prepared = prepare(panel, overlap=overlap)
    sums = sums_of(prepared, hours_of(period, "period"), min_cover=min_cover)
    kind = "settled" if prepared.settled else "sampled"
    sums["amount"].attrs["kind"] = kind
    return sums.rename(amount="funding_bps", filled="filled_hours")


def require_cover(min_cover: float) -> None:
    """Raise for a minimum coverage that is not a fraction."""
    if not 0.0 < min_cover <= 1.0:
        raise ValueError(
            f"min_cover must be a share of the expected hours, above 0 and at most 1, got {min_cover!r}"
        )


def sums_of(prepared: PreparedPanel, period_hours: float, *, min_cover: float = 1.0) -> xr.Dataset:
    """Return `earned` over each whole period from 00:00 UTC on.

    NaN if a payment covers more than the period.
    """
    ends = _period_ends(prepared, period_hours)
    closes = hours_at(ends, prepared.origin)
    if prepared.settled:
        rates, interval = prepared.arrays
        prepared = prepared._replace(arrays=(rates, interval.where(interval <= 1.05 * period_hours)))
    sums = earned(prepared, closes - period_hours, closes, min_cover=min_cover)
    sums = sums.rename(span="time").assign_coords(time=ends)
    return sums.map(lambda figure: like(figure, prepared.arrays[0]), keep_attrs=True)


def _period_ends(prepared: PreparedPanel, period_hours: float) -> NDArray[np.datetime64]:
    """Return the ends of the whole periods covered by the panel's rows."""
    # A settlement covers the hours before its row, a sample those after it.
    start = float(hours_at(prepared.origin, np.datetime64(0, "us")))
    stop = start + float(prepared.since[-1])
    if prepared.settled:
        start -= period_hours
    else:
        stop += prepared.step
    lowest = np.ceil(start / period_hours) + 1
    highest = np.floor(stop / period_hours)
    if highest < lowest:
        raise ValueError(f"panel must cover at least one period of {period_hours:g} h")
    if not highest - lowest < _MAX_PERIODS:
        raise ValueError(
            f"period={period_hours:g} h is too short: it splits this panel into more than {_MAX_PERIODS:,} "
            "periods"
        )
    ends: Any = np.rint(np.arange(lowest, highest + 1) * (period_hours * _MICROSECONDS))
    return np.asarray(ends.astype(np.int64).astype("datetime64[us]"))


_SPANS_HOURS = (24.0, 72.0, 168.0, 1440.0)
_MEMORY_HOURS = 365.0 * 24.0
OWN_HOURS = 14.0 * 24.0
"""Half-life of the weight of a pair's own errors in the size of its next error."""
_MIN_PERIODS = 30  # minimum number of periods of history


class History(NamedTuple):
    """A panel summed over periods, with the lengths that the regression uses."""

    amounts: xr.DataArray
    """[bps] that a long pays over each period; ``time`` is the ends of periods."""
    first: int
    """Number of the first period's end, counted from 1970-01-01 00:00 UTC."""
    plan: Plan
    length: float
    """Hours of a period."""
    levels: xr.DataArray | None = None
    """Logarithms of marks at the ends of periods [−bps], if prices are known."""


def summed_history(
    panel: xr.DataArray,
    hold: str | pd.Timedelta,
    period: str | pd.Timedelta,
    *,
    overlap: Literal["raise", "nan"] = "raise",
    prices: Panel | None = None,
    apart: Apart = "raise",
) -> History:
    """Add up a panel over periods and prepare the regression; raise as `forecast_carry` does."""
    names = labels_of(panel, "exchange")
    if names.size < 2:
        raise ValueError("panel must have at least two venues: a pair is long on one and short on another")
    if np.unique(names).size < names.size:
        raise ValueError("panel must have each venue once: remove duplicates")

    # 1. Sum the amounts of each period.
    length = hours_of(period, "period")
    if length > 24.0:
        raise ValueError(
            f"period must be at most 1 day, because the forecast uses the last day, got {period!r}"
        )
    count = whole_periods(hold, "hold", length)
    amounts = whole(sums_of(prepare(panel, overlap=overlap), length)["amount"], "exchange", "time")
    first = round(float(hours_at(amounts["time"].values[:1], np.datetime64(0, "us"))[0]) / length)

    # 2. Convert the lengths of the regression to periods; decisions are at whole strides since 1970.
    spans = (1, *(max(round(span / length), 1) for span in _SPANS_HOURS))
    stride = max(1, count // 7)
    memory = _MEMORY_HOURS / length
    recent = OWN_HOURS / length
    plan = Plan(
        hold=count, spans=spans, stride=stride, phase=-first % stride, memory=memory, minimum=_MIN_PERIODS,
        recent=recent,
    )  # fmt: skip
    history = History(amounts, first, plan, length)
    if prices is None:
        return history
    return history._replace(levels=_levels(prices, amounts, apart))


def whole_periods(value: str | pd.Timedelta, name: str, length: float) -> int:
    """Return the number of periods of `length` hours in a length of time; raise if it is not whole."""
    hours = hours_of(value, name)
    count = round(hours / length)
    if abs(count * length - hours) > 1e-6 or not count:
        raise ValueError(f"{name} must be a whole number of periods of {length:g} h, got {value!r}")
    return count


def _levels(prices: Panel, amounts: xr.DataArray, apart: Apart) -> xr.DataArray:
    """Return minus the logarithms of marks at the ends of periods [bps].

    The sign is that of payments: a rise of the mark is a negative payment of the long leg. Each series uses
    its newest mark that is no older than the usual step of the prices. A mark up to a minute after a whole
    hour counts at that hour, like a settlement.
    """
    # 1. Select the marks of the panel's symbol.
    marks = require(prices, "exchange", "time", units=USD_UNIT, name="prices")
    marks = of_one_coin(marks, "prices", apart)
    if "symbol" in marks.dims and "symbol" not in amounts.dims:
        if "symbol" not in amounts.coords and marks.sizes["symbol"] != 1:
            raise ValueError(
                "prices has several symbols and panel does not state its symbol: select one symbol of "
                "prices, or pass panel.assign_coords(symbol='BTC')"
            )
        symbol = str((amounts if "symbol" in amounts.coords else marks)["symbol"].item())
        require_labels(marks, "prices", "symbol", [symbol])
        marks = marks.sel(symbol=symbol, drop=True)

    # 2. Find the newest mark of each series at the ends of periods.
    hours(marks, name="prices")
    marks = newest_due(marks.where(marks > 0.0))
    step = pd.Timedelta(usual_step(hours(marks, name="prices")), "h")
    marks = align(marks, amounts.indexes["time"], tolerance=step)["value"]
    labels = {dim: amounts[dim] for dim in amounts.dims if dim in marks.dims and dim != "time"}
    marks = broadcast_companion(amounts, marks.reindex(labels), units=USD_UNIT, name="prices")
    levels: xr.DataArray = -BPS * xr.apply_ufunc(np.log, marks, dask="allowed")
    return whole(levels, "exchange", "time")
