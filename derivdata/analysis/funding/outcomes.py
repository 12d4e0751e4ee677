"""Realised payments of a pair, and how often the pair that looked best was profitable."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from derivdata.analysis.funding.accrual import PreparedPanel, prepare
from derivdata.analysis.funding.best_pairs import extremes, tradable_mask
from derivdata.analysis.funding.costs import legs_cost
from derivdata.analysis.funding.ledger import LATE, earned_between
from derivdata.analysis.funding.periods import earned
from derivdata.analysis.funding.status import FundingStatus
from derivdata.analysis.last_value import last_valid
from derivdata.analysis.panels import (
    hours_at,
    kind_of,
    labels_of,
    like,
    positive,
    require_rate,
    require_venues,
    whole,
)
from derivdata.analysis.settlements import at_common_stamps
from derivdata.analysis.status import flag_attrs
from derivdata.support.arguments import Numbers, typed
from derivdata.support.arrays import Floats, Indices
from derivdata.support.times import Instant, instant
from derivdata.units import BPS_UNIT

__all__ = ["hit_rate", "realised_carry"]

_MOST = 10_000_000


@typed
def realised_carry(
    panel: xr.DataArray,
    long: str,
    short: str,
    entry: Instant,
    exit: Instant,  # noqa: A002 - the word for it
    *,
    interval_hours: Numbers,
    fees_bps: Mapping[str, Any],
    min_cover: float = 0.9,
) -> xr.Dataset:
    """Add up what a pair held from entry to exit was paid: the settlements in ``(entry, exit]``.

    Parameters
    ----------
    panel
        Settled funding rates [bps/8h], dims ``exchange`` and ``time``, in memory or lazy.
    long, short
        Venues of the two legs, of equal notional.
    entry, exit
        Instants. A settlement at the entry itself is not earned, one at the exit is. A settlement stamped
        up to a minute past a whole hour stands at that hour.
    interval_hours
        Hours that each settlement pays for: a number or a DataArray over dims of the panel.
    fees_bps
        Cost of each trade [bps of one leg's notional]: ``long_entry``, ``long_exit``, ``short_entry``,
        ``short_exit``.
    min_cover
        Least part of the hours due that a leg's settlements must pay for, above 0 and up to 1.

    Returns
    -------
    Dataset, the panel's dims without ``exchange`` and ``time``
        ``net_bps`` = ``gross_bps`` − ``fees_bps``; ``gross_bps`` = ``long_bps`` + ``short_bps``, what each
        leg received; ``long_settlements``, ``short_settlements``; ``long_coverage``, ``short_coverage``, the
        part of the hours due that is paid for; ``status``. Where a settlement is missing or the panel ends
        before the exit the status is ``gap`` and the sums are of what is there; NaN below `min_cover`.

    Raises
    ------
    TypeError, ValueError
        The panel is not settled funding in bps/8h; a venue is not in it; entry is not before exit; fees are
        not the four legs; settlements pay for more hours than have passed.
    """
    require_rate(panel, "exchange", "time")
    if kind_of(panel) != "settled":
        raise ValueError("sampled rates were not paid: give settlements (dd.funding.settlements)")
    opened, closed = (instant(stamp, name) for stamp, name in ((entry, "entry"), (exit, "exit")))
    if opened >= closed:
        raise ValueError(f"entry {opened} is not before exit {closed}")
    require_venues(panel, long=long, short=short)
    fees = legs_cost(fees_bps, "fees_bps")
    _require_cover(min_cover)
    prepared = prepare(panel, interval_hours=interval_hours)
    stamps = [stamp.tz_localize(None).to_datetime64() for stamp in (opened, closed)]
    span = hours_at(np.array(stamps), prepared.origin)
    carry = earned(prepared, span[:1], span[1:], min_cover=min_cover).isel(span=0)
    rates = prepared.arrays[0]
    inside = rates.where((rates["time"] > stamps[0]) & (rates["time"] <= stamps[1])).count("time")
    return _pair(carry, inside.drop_attrs(), long, short, fees)


@typed
def hit_rate(
    panel: xr.DataArray,
    horizon_hours: float,
    *,
    interval_hours: Numbers | None = None,
    cost_bps: float = 0.0,
    latency_hours: float | None = None,
    tradable: xr.DataArray | Sequence[str] | None = None,
    min_cover: float = 0.9,
) -> xr.Dataset:
    """Count how often the best pair, chosen with what was known, earned more than its cost afterwards.

    Parameters
    ----------
    panel
        Funding rates [bps/8h] whose ``kind`` is stated, dims ``exchange`` and ``time``, in memory or lazy
        (both are put into one chunk).
    horizon_hours
        How long each pair is held. Decisions are a horizon apart, so that no hour is counted twice.
    interval_hours
        Settlements only, and needed there: hours that each pays for.
    cost_bps
        Cost of the pair, all four trades [bps of one leg's notional]; 0 counts gross hits.
    latency_hours
        Age of the newest rate that a decision may use. By default 0 for settlements, and one step for
        samples, whose stamp is the start of their bucket.
    tradable
        As in `best_pair`, as it was known at each time.
    min_cover
        Least part of the horizon that both legs' data must cover for a decision to be counted, above 0 and
        up to 1.

    Returns
    -------
    Dataset, the panel's dims without ``exchange`` and ``time``
        ``hit_rate`` (fraction), ``stderr`` (binomial), ``mean_carry_bps`` (before cost), ``decisions``
        (counted), ``partial`` (of these, over a horizon in which something is missing: their carry is that
        of what is there), ``dropped`` (a pair was chosen, but less than `min_cover` is there). NaN where
        nothing was decided, as in a panel shorter than latency and horizon. Samples give estimated carry,
        settlements what was paid.

    Raises
    ------
    TypeError, ValueError
        As `cumulative`; the horizon or the latency make no sense.
    """
    require_rate(panel, "exchange", "time")
    _require_cover(min_cover)
    plan = _decisions(panel, horizon_hours, interval_hours, latency_hours)
    choice = at_common_stamps(panel.where(tradable_mask(panel, tradable)))
    arrays = [whole(part, "exchange", "time") for part in (choice, *plan.prepared.arrays)]
    figures = xr.apply_ufunc(
        _hits,
        *arrays,
        input_core_dims=[["exchange", "time"]] * len(arrays),
        output_core_dims=[[]] * 6,
        kwargs={
            "plan": plan._replace(prepared=plan.prepared._replace(arrays=())),
            "cost": cost_bps,
            "least": min_cover,
            "order": np.argsort(labels_of(panel, "exchange"), kind="stable"),
        },
        dask="parallelized",
        keep_attrs=False,
        output_dtypes=[np.float64] * 3 + [np.int64] * 3,
    )
    names = ("hit_rate", "stderr", "mean_carry_bps", "decisions", "partial", "dropped")
    variables = {name: like(part, panel) for name, part in zip(names, figures, strict=True)}
    result = xr.Dataset(variables).drop_attrs()
    result["mean_carry_bps"].attrs = {"units": BPS_UNIT}
    result.attrs = {"kind": panel.attrs["kind"], "horizon_hours": plan.hold, "latency_hours": plan.late}
    return result


class _Decisions(NamedTuple):
    prepared: PreparedPanel
    starts: Floats
    hold: float
    late: float


def _decisions(panel: xr.DataArray, horizon: float, interval: Any, latency: float | None) -> _Decisions:
    if not panel.sizes["exchange"]:
        raise ValueError("panel has no venues: there is nothing to choose from")
    hold, prepared = positive(horizon, "horizon_hours"), prepare(panel, interval_hours=interval)
    last_row = 0.0 if prepared.settled else prepared.step
    late = last_row if latency is None else float(latency)
    if not 0.0 <= late < np.inf:
        raise ValueError(f"latency_hours={latency}: a decision cannot use rates of the future")
    last = float(prepared.since[-1]) + last_row - hold + 1e-9
    if last > late + _MOST * hold:
        raise ValueError(f"horizon_hours={horizon} makes more than {_MOST:,} decisions of this panel")
    starts = np.arange(late, last, hold) if late < last else np.empty(0)
    return _Decisions(prepared, starts, hold, late)


def _require_cover(min_cover: float) -> None:
    if not 0.0 < min_cover <= 1.0:
        raise ValueError(f"{min_cover=} is a share of the hours due: above 0 and up to 1")


def _pair(carry: xr.Dataset, inside: xr.DataArray, long: str, short: str, fees: Any) -> xr.Dataset:
    amount = carry["amount"]
    received = {
        "long_bps": -amount.sel(exchange=long, drop=True),
        "short_bps": amount.sel(exchange=short, drop=True),
    }
    gross = received["long_bps"] + received["short_bps"]
    figures = {"net_bps": gross - fees, "gross_bps": gross, **received, "fees_bps": xr.DataArray(fees)}
    result = xr.Dataset({name: figure.drop_attrs() for name, figure in figures.items()})
    for name in result:
        result[name].attrs = {"units": BPS_UNIT}
    result["long_settlements"] = inside.sel(exchange=long, drop=True)
    result["short_settlements"] = inside.sel(exchange=short, drop=True)
    result["long_coverage"] = carry["coverage"].sel(exchange=long, drop=True)
    result["short_coverage"] = carry["coverage"].sel(exchange=short, drop=True)
    gap = (result["long_coverage"] < 1.0) | (result["short_coverage"] < 1.0)
    result["status"] = (gap * np.int32(FundingStatus.GAP)).astype(np.int32)
    result["status"].attrs = flag_attrs(FundingStatus)
    return result.assign_coords(long=long, short=short)


def _hits(
    choice: Floats,
    rates: Floats,
    *interval: Floats,
    plan: _Decisions,
    cost: float,
    least: float,
    order: Indices,
) -> tuple[Any, ...]:
    prepared, starts = plan.prepared, plan.starts
    visible = _as_of(choice, *interval, prepared=prepared, instants=starts - plan.late)
    pair = extremes(np.swapaxes(visible, -1, -2), order)
    ledger = prepared.ledger(rates, *interval)
    carried, _, cover = earned_between(
        ledger, prepared.since, starts, starts + plan.hold, settled=prepared.settled
    )
    chosen = pair.lowest >= 0
    legs = [np.maximum(leg, 0)[..., None, :].astype(np.intp) for leg in (pair.lowest, pair.highest)]
    paid, received = (np.take_along_axis(carried, leg, axis=-2)[..., 0, :] for leg in legs)
    covered = np.minimum(*(np.take_along_axis(cover, leg, axis=-2)[..., 0, :] for leg in legs))
    carry = np.where(chosen & (covered >= least), received - paid, np.nan)
    counted = np.isfinite(carry)
    decisions = counted.sum(axis=-1)
    number = np.where(decisions > 0, decisions, np.nan)
    share = (carry > cost).sum(axis=-1) / number
    mean = np.where(counted, carry, 0.0).sum(axis=-1) / number
    stderr = np.sqrt(share * (1.0 - share) / number)
    partial = (counted & (covered < 1.0)).sum(axis=-1)
    return share, stderr, mean, decisions, partial, (chosen & ~counted).sum(axis=-1)


def _as_of(rates: Floats, *interval: Floats, prepared: PreparedPanel, instants: Floats) -> Floats:
    """Return the rate that each series shows at some instants: its last one, if that is not too old."""
    last = last_valid(np.isfinite(rates))
    row = np.searchsorted(prepared.since, instants + 1e-9, side="right") - 1
    at = np.where(row >= 0, last[..., np.maximum(row, 0)], -1)
    place = np.maximum(at, 0)
    limit = LATE * np.take_along_axis(interval[0], place, axis=-1) if prepared.settled else prepared.limit
    fresh = (at >= 0) & (instants - prepared.since[place] < limit)
    return np.where(fresh, np.take_along_axis(rates, place, axis=-1), np.nan)
