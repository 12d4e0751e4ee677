"""Forecast of what pairs earn: the distribution of the outcome, for all pairs of a symbol at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd
import xarray as xr

from derivdata.analysis.funding.accrual import prepare, sums_of
from derivdata.analysis.funding.pairs import pair_costs
from derivdata.analysis.funding.pooled_regression import (
    Plan,
    Walk,
    direction_of,
    pair_places,
    walk_forward,
)
from derivdata.analysis.funding.status import FundingStatus
from derivdata.analysis.panels import (
    Panel,
    hours_at,
    hours_of,
    labels_of,
    like,
    require_level,
    require_rate,
    require_venues,
    whole,
)
from derivdata.analysis.status import flag_attrs
from derivdata.support.arguments import typed
from derivdata.support.arrays import Floats, Indices
from derivdata.units import BPS_UNIT

__all__ = [
    "DECISIONS",
    "History",
    "forecast_carry",
    "origin_attrs",
    "outcome_figures",
    "pair_distribution",
    "summed_history",
]

_SPANS_HOURS = (24.0, 72.0, 168.0, 1440.0)
_MEMORY_HOURS = 365.0 * 24.0
OWN_HOURS = 14.0 * 24.0
"""Half-life of the weight of a pair's own errors in the size of its next one."""
_LEAST = 30  # periods of history
DECISIONS = 10
"""Past decisions with a known outcome that a distribution needs."""
_WIDEST = 20.0  # standard deviations of past outcomes that an interval of nearly all outcomes may be wide
_RARE = 0.005
_SMALLEST = 1e-9  # bps
_WORTH = 8.0
"""Independent decisions from which a forecast has no status: with fewer it is hardly better than none."""


class History(NamedTuple):
    """A panel summed over periods, and how the regression divides them."""

    amounts: xr.DataArray
    """[bps] that a long pays over each period; ``time`` is the ends of periods."""
    first: int
    """Number of the first period's end, counted from 1970-01-01 00:00 UTC."""
    plan: Plan


@typed
def forecast_carry(
    panel: Panel,
    pairs: Sequence[tuple[str, str]] | None = None,
    *,
    hold: str | pd.Timedelta,
    fee_bps: float | Mapping[str, float],
    period: str | pd.Timedelta = "8h",
    level: float = 0.9,
    overlap: Literal["raise", "nan"] = "raise",
) -> xr.Dataset:
    """Forecast what funding each pair of venues earns from the panel's end on: the outcome's distribution.

    It is funding only: the prices of the two legs move against each other as well, most where they are quoted
    in different currencies, so that less than `level` of what a pair earns in all lies within.

    Parameters
    ----------
    panel
        History of funding rates [bps/8h] whose ``kind`` is stated, dims ``exchange`` and ``time``, in memory
        or lazy (both are put into one chunk). All of its venues take part in the regression.
    pairs
        ``(long, short)`` venues of the pairs to forecast; all ordered pairs by default.
    hold
        How long a pair is held, such as ``"7d"``: a whole number of periods.
    fee_bps
        Fee of one trade [bps of the notional traded], one number or a mapping by venue. A pair makes four
        trades and costs twice the sum of its venues' fees.
    period
        Length of the periods over which history is summed; at least every venue's interval, at most 24.
    level
        Share of outcomes that the interval is to contain.
    overlap
        As in `cumulative`.

    Returns
    -------
    Dataset, the panel's dims without ``exchange`` and ``time``, with ``pair``
        ``net_bps`` (mean), ``net_median_bps``, ``net_low_bps`` and ``net_high_bps`` (between which the
        outcome lies with probability `level`), ``probability_net_positive``, ``gross_bps`` (mean before
        cost), ``cost_bps``, ``decisions`` (what the past ones are worth: the time that their outcomes span
        over the hold), ``status``; coordinates ``long`` and ``short`` along ``pair``, ``hold_hours``, and
        ``time``, the end of the last whole period, from which the pair is held. NaN with status ``gap`` where
        a leg is not known within the last day or in more than a third of the last day, three days or week,
        with ``too_few`` below 30
        periods of history or 10 past decisions. ``few_decisions``: they are worth fewer than eight.

    Raises
    ------
    TypeError, ValueError
        As `cumulative`; fewer than two venues, or one that is not in the panel; a venue has no fee; the
        holding time is no whole number of periods.

    Notes
    -----
    A regression pooled over all pairs, of the next outcome on the last period and the trailing means over a
    day, three, seven and sixty days (heterogeneous autoregression: Corsi 2009, Journal of Financial
    Econometrics 7(2)). It is refitted at each period of the past on what was known there and shrunk by how
    much of past expectations came true (empirical Bayes over pairs). Its past errors, each in units of the
    size to be expected of it, make the distribution (split conformal). Coverage and errors on recorded data
    are in docs/methods/carry.md, also those of the pair that is picked because it looks best.

    Examples
    --------
    >>> history = dd.panel(dd.funding.history("BTC", "60d"))
    >>> found = dd.analysis.funding.forecast_carry(history, hold="7d", fee_bps=2.0).isel(symbol=0)
    >>> found.sizes["pair"] == history.sizes["exchange"] * (history.sizes["exchange"] - 1)
    True
    """
    require_level(level)
    panel = require_rate(panel, "exchange", "time")
    history = summed_history(panel, hold, period, overlap=overlap)
    names = labels_of(history.amounts, "exchange")
    long, short = _places(panel, names, pairs)
    cost = pair_costs(fee_bps, names.tolist())[long, short]
    figures = xr.apply_ufunc(
        _forecast,
        history.amounts,
        input_core_dims=[["exchange", "time"]],
        output_core_dims=[["pair"]] * 8,
        kwargs={"plan": history.plan, "long": long, "short": short, "cost": cost, "level": level},
        dask="parallelized",
        keep_attrs=False,
        output_dtypes=[np.float64] * 7 + [np.int32],
        dask_gufunc_kwargs={"output_sizes": {"pair": long.size}},
    )
    *amounts, decisions, status = (like(figure, panel) for figure in figures)
    result = xr.Dataset(dict(zip(_FIGURES, amounts, strict=True)))
    result["cost_bps"] = ("pair", cost)
    for name, words in _LONG_NAMES.items():
        result[name].attrs = {
            "units": "1" if name.startswith("probability") else BPS_UNIT,
            "long_name": words,
        }
    result["decisions"] = decisions.assign_attrs(units="1")
    result["status"] = status.assign_attrs(flag_attrs(FundingStatus))
    labels = {"long": ("pair", names[long]), "short": ("pair", names[short])}
    result = result.assign_coords(labels)
    result = result.assign_coords(
        time=history.amounts["time"].to_numpy()[-1], hold_hours=hours_of(hold, "hold")
    )
    return result.assign_attrs(origin_attrs(panel), level=level)


_FIGURES = (
    "net_bps",
    "net_median_bps",
    "net_low_bps",
    "net_high_bps",
    "gross_bps",
    "probability_net_positive",
)
_LONG_NAMES = {
    "net_bps": "mean outcome after cost, funding only",
    "net_median_bps": "median outcome after cost, funding only",
    "net_low_bps": "low end of the outcome after cost, funding only",
    "net_high_bps": "high end of the outcome after cost, funding only",
    "gross_bps": "mean outcome before cost, funding only",
    "probability_net_positive": "probability that funding exceeds the cost",
    "cost_bps": "cost of the four trades",
}


def origin_attrs(panel: xr.DataArray) -> dict[str, Any]:
    """Return the kind of a panel, and where it comes from if it says so."""
    return {name: panel.attrs[name] for name in ("kind", "provenance") if name in panel.attrs}


def summed_history(
    panel: xr.DataArray,
    hold: str | pd.Timedelta,
    period: str | pd.Timedelta,
    *,
    overlap: Literal["raise", "nan"] = "raise",
) -> History:
    """Sum a panel over periods and lay out the regression.

    Raises
    ------
    TypeError, ValueError
        As `forecast_carry`.
    """
    names = labels_of(panel, "exchange")
    if names.size < 2:
        raise ValueError("panel needs two venues at least: a pair is long on one and short on another")
    if np.unique(names).size < names.size:
        raise ValueError("panel has a venue more than once")
    length, held = hours_of(period, "period"), hours_of(hold, "hold")
    if length > 24.0:
        raise ValueError(f"{period=}: a day at most, since the forecast looks at the last day")
    count = round(held / length)
    if abs(count * length - held) > 1e-6 or not count:
        raise ValueError(f"{hold=} is no whole number of periods of {length:g} h")
    amounts = whole(sums_of(prepare(panel, overlap=overlap), length)["amount"], "exchange", "time")
    first = round(float(hours_at(amounts["time"].values[:1], np.datetime64(0, "us"))[0]) / length)
    spans = (1, *(max(round(span / length), 1) for span in _SPANS_HOURS))
    stride = max(1, count // 7)
    memory, recent = _MEMORY_HOURS / length, OWN_HOURS / length
    plan = Plan(count, spans, stride, -first % stride, memory, _LEAST, recent)
    return History(amounts, first, plan)


def pair_distribution(walk: Walk, at: int) -> tuple[Floats, Floats, Floats, Floats, int]:
    """Return the ingredients of the outcomes' distributions at a period.

    Returns
    -------
    expected, scale
        (long, short) bps: the mean outcome of each ordered pair before cost, and the size of its error.
    errors, weight
        Past errors in order, and the weight up to each; of a pair expected to lose they count reversed, of
        one expected to do neither half in each direction.
    decisions
        How many past decisions the errors are of.
    """
    venues = walk.expected.shape[0]
    scale = np.full((venues, venues), np.nan)
    long, short = pair_places(venues)
    scale[long, short] = scale[short, long] = walk.scale[:, int(np.searchsorted(walk.columns, at))]
    errors, weight, decisions = walk.past_errors(at)
    if decisions:  # no interval is wider than what outcomes ever were bears out, whatever made its size
        low, high = np.interp([_RARE, 1.0 - _RARE], weight, errors)
        scale = np.minimum(scale, _WIDEST * walk.usual[at] / max(float(high - low), 1.0))
        scale = np.maximum(scale, _SMALLEST)
    return walk.pair_expectations(at), scale, errors, weight, decisions


def _places(
    panel: xr.DataArray, names: Any, pairs: Sequence[tuple[str, str]] | None
) -> tuple[Indices, Indices]:
    if pairs is None:
        long, short = np.nonzero(~np.eye(names.size, dtype=bool))
        return long, short
    for long_venue, short_venue in pairs:
        require_venues(panel, pairs=[long_venue, short_venue])
        if long_venue == short_venue:
            raise ValueError(f"pairs: {long_venue!r} against itself earns nothing")
    where = {name: place for place, name in enumerate(names.tolist())}
    places = np.array([[where[venue] for venue in pair] for pair in pairs], dtype=np.intp).reshape(-1, 2)
    return places[:, 0], places[:, 1]


def _forecast(
    amounts: Floats, *, plan: Plan, long: Indices, short: Indices, cost: Floats, level: float
) -> tuple[Any, ...]:
    results = np.empty((8, *amounts.shape[:-2], long.size))
    last = amounts.shape[-1] - 1
    for series in np.ndindex(amounts.shape[:-2]):
        walk = walk_forward(amounts[series], plan, np.array([last]))
        known = np.isfinite(amounts[series]).sum(axis=-1)
        results[(slice(None), *series)] = _of_pairs(walk, last, known, long, short, cost, level)
    return *results[:-1], results[-1].astype(np.int32)


def _of_pairs(
    walk: Walk, at: int, known: Any, long: Indices, short: Indices, cost: Floats, level: float
) -> Floats:
    expected, scale, errors, weight, decisions = pair_distribution(walk, at)
    mean, size = expected[long, short], scale[long, short]
    few, worth = decisions < DECISIONS, float(walk.worth[at])
    low, middle, high, above = outcome_figures(mean, size, errors, weight, cost, level, few=few)
    mean = np.where(few, np.nan, mean)
    short_history = np.minimum(known[long], known[short]) < walk.plan.least
    unsure = FundingStatus.FEW_DECISIONS if worth < _WORTH else 0
    status = np.where(few | short_history, FundingStatus.TOO_FEW, unsure)
    status = status | np.where(np.isnan(expected[long, short]) & ~short_history, FundingStatus.GAP, 0)
    figures = (mean - cost, middle, low, high, mean, above, np.full(mean.shape, worth), status)
    return np.stack([np.asarray(figure, dtype=np.float64) for figure in figures])


def outcome_figures(
    mean: Floats, size: Floats, errors: Floats, weight: Floats, cost: Any, level: float, *, few: bool
) -> tuple[Floats, Floats, Floats, Floats]:
    """Return low end, median and high end of outcomes after cost [bps], and the probability to be above 0."""
    if few:
        unknown = np.full(mean.shape, np.nan)
        return unknown, unknown, unknown, unknown
    tails = [0.5 * (1.0 - level), 0.5, 0.5 * (1.0 + level)]
    toward, net = direction_of(mean), mean - cost
    bottom, centre, top, above = (np.full(mean.shape, np.nan) for _ in range(4))
    for sign in (1.0, -1.0, 0.0):
        ordered, up_to = _seen_from(sign, errors, weight)
        low, middle, high = np.interp(tails, up_to, ordered)
        # The outcome is above 0 where the error is above −net in units of its size.
        chance = 1.0 - np.interp(-net / size, ordered, up_to, left=0.0, right=1.0)
        found = (net + size * low, net + size * middle, net + size * high, chance)
        for figure, of_sign in zip((bottom, centre, top, above), found, strict=True):
            np.copyto(figure, of_sign, where=(toward == sign) & np.isfinite(size))
    return bottom, centre, top, above


def _seen_from(sign: float, errors: Floats, weight: Floats) -> tuple[Floats, Floats]:
    """Return errors in order and the weight up to each: as they are, reversed, or at 0 half of either."""
    if sign:
        return (errors, weight) if sign > 0.0 else (-errors[::-1], 1.0 - weight[::-1])
    grid = np.sort(np.concatenate([errors, -errors]))
    here, behind = (np.interp(sign * grid, errors, weight, left=0.0, right=1.0) for sign in (1.0, -1.0))
    return grid, 0.5 * (here + 1.0 - behind)
