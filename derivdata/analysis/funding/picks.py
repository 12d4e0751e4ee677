"""Past picks: the pair that looked best at each decision, what was forecast of it, and what it earned."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
import pandas as pd
import xarray as xr

from derivdata.analysis.funding.carry_forecast import (
    DECISIONS,
    origin_attrs,
    summed_history,
    walks_of,
)
from derivdata.analysis.funding.forecast_errors import Walk, outcome_figures, pair_distribution
from derivdata.analysis.funding.pairs import pair_costs
from derivdata.analysis.funding.pooled_regression import Plan, trailing_mean
from derivdata.analysis.funding.status import FundingStatus
from derivdata.analysis.inputs import require_draws, require_variables, seed_of
from derivdata.analysis.panels import Panel, hours_of, labels_of, like, require_level, require_rate
from derivdata.analysis.status import flag_attrs
from derivdata.support.arguments import typed
from derivdata.support.arrays import Floats, Indices
from derivdata.units import BPS_UNIT

_LEAST_DECISIONS = 10  # below, so few blocks are drawn that the interval is far too narrow
_FIGURES = {
    "predicted_net_bps": "mean outcome after cost, as forecast at the decision",
    "predicted_low_bps": "low end of the outcome after cost, as forecast",
    "predicted_high_bps": "high end of the outcome after cost, as forecast",
    "realised_net_bps": "outcome after cost",
    "cost_bps": "cost of the four trades",
}


@typed
def pick_record(
    panel: Panel,
    *,
    hold: str | pd.Timedelta,
    fee_bps: float | Mapping[str, float],
    prices: Panel | None = None,
    rule: Literal["forecast", "last", "mean_7d"] = "forecast",
    period: str | pd.Timedelta = "8h",
    level: float = 0.9,
    overlap: Literal["raise", "nan"] = "raise",
) -> xr.Dataset:
    """Return the record of past picks: the best pair at each decision, its forecast and its outcome.

    Parameters
    ----------
    panel, hold, fee_bps, prices, period, level, overlap
        As in `forecast_carry`; without `prices` forecasts and outcomes are of funding only. Decisions are a
        holding time apart, at whole multiples of it since 1970-01-01 00:00 UTC (with seven days: Thursdays),
        so that no hour is counted twice and a longer panel adds decisions without moving those before.
    rule
        What a pair is picked by: ``"forecast"``, the largest mean of `forecast_carry` after cost; ``"last"``
        and ``"mean_7d"``, the largest spread of the last period or mean of seven days, taken to last for the
        holding time, after cost. All rules choose from the pairs that have a forecast.

    Returns
    -------
    Dataset, the panel's dims without ``exchange``, ``time`` the decisions
        ``long`` and ``short`` (empty text where there is no pick), ``predicted_net_bps`` with
        ``predicted_low_bps`` and ``predicted_high_bps`` (the latter two of the forecast only),
        ``realised_net_bps``, ``cost_bps``, ``status``: ``too_few`` before there are 10 past decisions to
        learn from, ``gap`` where no pair has a forecast or less than nine tenths of the outcome is known,
        ``open`` where the holding time is not over. What is missing of an outcome counts as the mean of what
        is there.

    Raises
    ------
    TypeError, ValueError
        As `forecast_carry`.

    Notes
    -----
    Each pick is made of what was known at its decision: values after it change neither pick nor forecast.
    """
    require_level(level)
    panel = require_rate(panel, "exchange", "time")
    history = summed_history(panel, hold, period, overlap=overlap, prices=prices)
    names, plan = labels_of(history.amounts, "exchange"), history.plan
    decisions = np.arange(-history.first % plan.hold, history.amounts.sizes["time"], plan.hold)
    parts = [history.amounts] if history.levels is None else [history.amounts, history.levels]
    figures = xr.apply_ufunc(
        _record,
        *(part.drop_vars("time") for part in parts),
        input_core_dims=[["exchange", "time"]] * len(parts),
        output_core_dims=[["decision"]] * (len(_FIGURES) + 3),
        kwargs={
            "plan": plan,
            "cost": pair_costs(fee_bps, names.tolist()),
            "decisions": decisions,
            "rule": rule,
            "level": level,
            "names": np.append(names, ""),
        },
        dask="parallelized",
        keep_attrs=False,
        output_dtypes=[names.dtype, names.dtype] + [np.float64] * len(_FIGURES) + [np.int32],
        dask_gufunc_kwargs={"output_sizes": {"decision": decisions.size}},
    )
    times = history.amounts["time"].values[decisions]
    long, short, *amounts, status = (
        like(figure.rename(decision="time").assign_coords(time=times), panel) for figure in figures
    )
    result = xr.Dataset({"long": long, "short": short, **dict(zip(_FIGURES, amounts, strict=True))})
    for name, words in _FIGURES.items():
        result[name].attrs = {"units": BPS_UNIT, "long_name": words}
    result["status"] = status.assign_attrs(flag_attrs(FundingStatus))
    about = {"rule": rule, "level": level, "hold_hours": hours_of(hold, "hold")}
    return result.assign_attrs(origin_attrs(panel) | about)


@typed
def pick_summary(
    record: xr.Dataset,
    *,
    least_predicted_bps: float | None = 0.0,
    level: float = 0.95,
    resamples: int = 1999,
    rng: int | np.random.Generator | None = 0,
) -> xr.Dataset:
    """Compare what past picks were forecast to earn with what they earned.

    Parameters
    ----------
    record
        What `pick_record` gave; all its symbols together.
    least_predicted_bps
        Counts only picks that were forecast to earn more than this after cost; None counts all, also those
        that nobody would have traded.
    level, resamples, rng
        Of the block bootstrap: runs of n^(1/3) decisions, all symbols of a decision together.

    Returns
    -------
    Dataset of single figures
        ``picks`` (with a known outcome) and the ``decisions`` at which they were made,
        ``predicted_net_bps`` and ``realised_net_bps`` (means), ``difference_bps`` (predicted less realised)
        with ``difference_low_bps`` and ``difference_high_bps``,
        ``realised_low_bps`` and ``realised_high_bps``; ``coverage``, the share of outcomes within their
        forecast interval, with ``coverage_low`` and ``coverage_high``; ``share_positive``, the share that
        earned more than it cost. NaN where there is no pick, or no interval; ends are NaN below ten
        decisions, of which a bootstrap tells nothing.

    Raises
    ------
    ValueError
        `record` is not such a Dataset, or the bootstrap's numbers make no sense.
    """
    names = ["predicted_net_bps", "predicted_low_bps", "predicted_high_bps", "realised_net_bps"]
    require_variables(record, "record", names, dims=["time"])
    require_level(level)
    require_draws(resamples)
    tables = [record[name].transpose("time", ...).to_numpy() for name in names]
    # No "-1" for the number of columns: a record without decisions has none to divide by.
    predicted, low, high, realised = (one.reshape(len(one), math.prod(one.shape[1:])) for one in tables)
    counted = np.isfinite(predicted) & np.isfinite(realised)
    if least_predicted_bps is not None:
        counted &= predicted > least_predicted_bps
    inside = np.where(np.isfinite(low), (low <= realised) & (realised <= high), np.nan)
    parts = np.stack([predicted, realised, predicted - realised, inside, realised > 0.0])
    sums = np.where(counted, parts, 0.0).sum(axis=-1)[:, counted.any(axis=-1)]
    number = counted.sum(axis=-1)[counted.any(axis=-1)]
    summary = xr.Dataset({"picks": int(number.sum()), "decisions": int(number.size)})
    with np.errstate(invalid="ignore"):
        means = sums.sum(axis=-1) / number.sum()
    ends = _bootstrap(sums, number, level, resamples, seed_of(rng))
    for at, name in enumerate(("predicted_net", "realised_net", "difference", "coverage", "share_positive")):
        unit = "_bps" if at < 3 else ""
        summary[name + unit] = float(means[at])
        if name in ("realised_net", "difference", "coverage"):
            stem = name.removesuffix("_net")
            summary[f"{stem}_low{unit}"], summary[f"{stem}_high{unit}"] = map(float, ends[:, at])
    for label in summary.data_vars:
        summary[label].attrs = {"units": BPS_UNIT if str(label).endswith("_bps") else "1"}
    attributes = ("kind", "provenance", "rule", "level", "hold_hours")
    return summary.assign_attrs({name: record.attrs[name] for name in attributes if name in record.attrs})


def _bootstrap(sums: Floats, number: Any, level: float, resamples: int, seed: int) -> Floats:
    """Return the ends (2, figure) of the means' intervals; NaN of too few decisions."""
    size = number.size
    if size < _LEAST_DECISIONS:
        return np.full((2, len(sums)), np.nan)
    block = int(np.ceil(size ** (1.0 / 3.0)))
    begins = np.random.default_rng(seed).integers(0, size, (resamples, -(-size // block), 1))
    drawn = ((begins + np.arange(block)) % size).reshape(resamples, -1)[:, :size]
    means = sums[:, drawn].sum(axis=-1) / number[drawn].sum(axis=-1)
    tail = 50.0 * (1.0 - level)
    return np.asarray(np.percentile(means, [tail, 100.0 - tail], axis=-1))


def _record(
    amounts: Floats,
    levels: Floats | None = None,
    *,
    plan: Plan,
    cost: Floats,
    decisions: Indices,
    rule: str,
    level: float,
    names: Any,
) -> tuple[Any, ...]:
    shape = (*amounts.shape[:-2], decisions.size)
    places = np.full((2, *shape), -1, dtype=np.intp)
    figures, status = np.full((len(_FIGURES), *shape), np.nan), np.zeros(shape, dtype=np.int32)
    for series in np.ndindex(amounts.shape[:-2]):
        walk = walks_of(amounts[series], None if levels is None else levels[series], plan, decisions)[0]
        spans = {"last": 1, "mean_7d": plan.spans[3]}
        trailing = None
        if rule in spans:
            trailing = plan.hold * trailing_mean(amounts[series], spans[rule], 1.0)
        for number, at in enumerate(decisions):
            place = (slice(None), *series, number)
            pick = _pick(walk, int(at), cost, trailing, level)
            if isinstance(pick, FundingStatus):
                status[place[1:]] = pick
                continue
            places[place], figures[place] = pick
            if np.isnan(figures[place][3]):
                over = at + plan.hold < amounts.shape[-1]
                status[place[1:]] = FundingStatus.GAP if over else FundingStatus.OPEN
    return names[places[0]], names[places[1]], *figures, status


def _pick(
    walk: Walk, at: int, cost: Floats, trailing: Floats | None, level: float
) -> FundingStatus | tuple[tuple[int, int], Floats]:
    """Return the places of the picked pair's legs and its figures, or why there is none."""
    expected, scale, errors, weight, decisions = pair_distribution(walk, at)
    if decisions < DECISIONS:
        return FundingStatus.TOO_FEW
    net = expected - cost
    if trailing is not None:
        score = trailing[:, at]
        net = np.where(np.isfinite(net), score[None, :] - score[:, None] - cost, np.nan)
    np.fill_diagonal(net, np.nan)
    if not np.isfinite(net).any():
        return FundingStatus.GAP
    long, short = np.unravel_index(int(np.nanargmax(net)), net.shape)
    legs = (int(long), int(short))
    low, high = np.full(2, np.nan)
    if trailing is None:
        low, _, high, _ = outcome_figures(
            expected[legs], scale[legs], errors, weight, cost[legs], level, few=False
        )
    realised = walk.outcomes[legs[1], at] - walk.outcomes[legs[0], at] - cost[legs]
    return legs, np.array([net[legs], low, high, realised, cost[legs]])
