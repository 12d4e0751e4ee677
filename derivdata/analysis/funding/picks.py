"""Past picks: the pair that looked best at each decision, what was forecast of it, and what it earned."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
import pandas as pd
import xarray as xr

from derivdata.analysis.funding.accrual import summed_history
from derivdata.analysis.funding.carry_forecast import forecasts_at, origin_attrs
from derivdata.analysis.funding.pooled_regression import trailing_mean
from derivdata.analysis.panels import (
    Panel,
    figures_of,
    hours_of,
    labels_of,
    require_draws,
    require_level,
    require_rate,
    require_variables,
    seed_of,
)
from derivdata.analysis.price_agreement import Apart
from derivdata.analysis.status import FundingStatus
from derivdata.support.arguments import typed
from derivdata.support.arrays import Floats
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
    apart: Apart = "raise",
) -> xr.Dataset:
    """Return the record of past picks: the best pair at each decision, its forecast and its outcome.

    Parameters
    ----------
    panel, hold, fee_bps, prices, period, level, overlap, apart
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
    panel = require_rate(panel, "exchange", "time")
    history = summed_history(panel, hold, period, overlap=overlap, prices=prices, apart=apart)
    plan = history.plan
    last = history.amounts.sizes["time"]
    decisions = np.arange(-history.first % plan.hold, last, plan.hold)
    forecasts = forecasts_at(panel, history, None, decisions, hold, fee_bps, level, ends=False)
    net = forecasts["net_bps"]
    ends = [net, forecasts["net_low_bps"], forecasts["net_high_bps"]]
    if rule != "forecast":
        span = 1 if rule == "last" else plan.spans[3]
        means = figures_of(
            trailing_mean, history.amounts, units={"bps": BPS_UNIT}, into={"time": None}, span=span, least=1.0
        )
        of = means["bps"].isel(time=decisions)
        long, short = (of.sel(exchange=forecasts[leg]).drop_vars("exchange") for leg in ("long", "short"))
        expected = plan.hold * (short - long) - forecasts["cost_bps"]
        ends = [expected.where(net.notnull()), xr.full_like(net, np.nan), xr.full_like(net, np.nan)]
    text = labels_of(panel, "exchange").dtype
    units = {"long": text, "short": text, **dict.fromkeys(_FIGURES, BPS_UNIT), "status": FundingStatus}
    record = figures_of(
        _picked,
        *ends,
        *(forecasts[name] for name in ("realised_net_bps", "cost_bps", "status")),
        xr.DataArray(decisions + plan.hold < last, dims="time"),
        units=units,
        over=["pair"],
        names=[forecasts[leg].to_numpy() for leg in ("long", "short")],
    )
    for name, words in _FIGURES.items():
        record[name].attrs["long_name"] = words
    about = {"rule": rule, "level": level, "hold_hours": hours_of(hold, "hold")}
    return record.drop_vars("hold_hours").assign_attrs(origin_attrs(panel) | about)


def _picked(*figures: Any, names: Any) -> tuple[Any, ...]:
    """Return the venues and the figures of the pair with the highest first figure, and why there is none."""
    net, low, high, realised, cost, status, over = figures
    some = np.isfinite(net)
    at = np.argmax(np.where(some, net, -np.inf), axis=-1)[..., None]
    there = some.any(axis=-1)
    taken = [
        np.where(there, np.take_along_axis(np.broadcast_to(one, net.shape), at, axis=-1)[..., 0], np.nan)
        for one in (net, low, high, realised, cost)
    ]
    long, short = (np.where(there, venues[at[..., 0]], "") for venues in names)
    few = (status & FundingStatus.TOO_FEW).all(axis=-1)
    none = np.where(few, FundingStatus.TOO_FEW, FundingStatus.GAP)
    unknown = np.where(over, FundingStatus.GAP, FundingStatus.OPEN)
    why = np.where(there, np.where(np.isnan(taken[3]), unknown, 0), none)
    return long, short, *taken, why.astype(np.int32)


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
        that no one would have traded.
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
    made = counted.any(axis=-1)
    has_figure = counted & np.isfinite(parts)  # a pick may have no interval
    sums = np.where(has_figure, parts, 0.0).sum(axis=-1)[:, made]
    number = has_figure.sum(axis=-1)[:, made]
    summary = xr.Dataset({"picks": int(counted.sum()), "decisions": int(made.sum())})
    with np.errstate(invalid="ignore"):
        means = sums.sum(axis=-1) / number.sum(axis=-1)
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
    """Return the ends (2, figure) of the means' intervals; NaN of too few decisions.

    `sums` and `number` are of each figure and decision.
    """
    size = number.shape[1]
    if size < _LEAST_DECISIONS:
        return np.full((2, len(sums)), np.nan)
    block = int(np.ceil(size ** (1.0 / 3.0)))
    begins = np.random.default_rng(seed).integers(0, size, (resamples, -(-size // block), 1))
    drawn = ((begins + np.arange(block)) % size).reshape(resamples, -1)[:, :size]
    with np.errstate(invalid="ignore"):
        means = sums[:, drawn].sum(axis=-1) / number[:, drawn].sum(axis=-1)
    tail = 50.0 * (1.0 - level)
    return np.asarray(np.percentile(means, [tail, 100.0 - tail], axis=-1))
