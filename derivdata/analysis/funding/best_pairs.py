"""Select the pair of venues with the highest carry at each time, and report outcomes of past selections."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

from derivdata.analysis.funding.accrual import summed_history
from derivdata.analysis.funding.carry_forecast import forecasts_at, origin_attrs
from derivdata.analysis.funding.pairs import pair_costs
from derivdata.analysis.funding.pooled_regression import trailing_mean
from derivdata.analysis.panels import (
    Panel,
    broadcast_companion,
    by_chunk,
    figures_of,
    hours_of,
    kind_attr,
    labels_of,
    require,
    require_draws,
    require_level,
    require_rate,
    require_variables,
    require_venues,
    row_by_row,
    seed_of,
    whole,
)
from derivdata.analysis.settlements import Apart, apart_by_5_percent, held_settlements, newest_at
from derivdata.analysis.status import FundingStatus
from derivdata.support.arguments import typed
from derivdata.support.arrays import Floats
from derivdata.units import BPS_UNIT, HOUR_UNIT, RATE_UNIT, USD_UNIT

_BLOCK = 16_384  # elements of one block, whose running values fit into the second-level cache


class Extremes(NamedTuple):
    """Spread between the highest and the lowest rate, and their positions."""

    spread: Floats
    lowest: NDArray[np.int16]
    highest: NDArray[np.int16]
    venues: NDArray[np.int16]


@typed
def best_pair(
    panel: Panel,
    *,
    oi_usd: Panel | None = None,
    min_oi_usd: float | None = None,
    age_hours: xr.DataArray | None = None,
    max_age: str | pd.Timedelta | None = None,
    tradable: xr.DataArray | Sequence[str] | None = None,
    prices: Panel | None = None,
    fee_bps: float | Mapping[str, float] | None = None,
    hold: str | pd.Timedelta = "7d",
) -> xr.Dataset:
    """Find the pair with the largest spread: long where the rate is lowest, short where it is highest.

    Parameters
    ----------
    panel
        Funding rates [bps/8h] with dim ``exchange``, in memory or lazy (venues are put into one chunk). A
        settlement with ``interval_hours`` in the panel is valid until the next one of its series is due, so
        that hourly and eight-hourly venues can be compared; the filters apply at each of these times, not
        only at the payment.
    oi_usd, min_oi_usd
        Open interest [USD] over the panel's labels as it was known at each time, and its minimum. A venue
        below the minimum or without open interest is excluded.
    age_hours, max_age
        Age of each rate [h], as returned by `derivdata.analysis.align`, and the maximum age.
    tradable
        Venues on which a position can be opened, or a boolean mask over dims of the panel.
    prices
        Mark prices [USD] over the panel's labels. A venue whose price differs from the median of its symbol
        by a factor over 1.05 is excluded at that time: another coin under the same ticker, or a squeeze in
        which the spread is unreliable. With two venues, both are excluded.
    fee_bps, hold
        Fee of one trade [bps of the notional traded], one number or a mapping by venue, and the holding time
        over which the four trades of a pair are spread. With a fee the pair is the one with the largest
        spread after fees. `hold` is used only with `fee_bps`.

    Returns
    -------
    Dataset, the panel's dims without ``exchange``
        Settlements up to a minute after a whole hour count at that hour. ``long`` and ``short`` (venue, empty
        text without a pair), ``spread_bps_8h``, ``venues`` (number of venues with a rate that pass the
        filters). With `fee_bps` also ``net_bps_8h``, the spread minus the fees per 8 hours of the holding
        time, negative if the spread does not cover them. With fewer than two venues the pair is empty and the
        spread NaN; if all rates are equal the pair is empty, the spread 0 and the net NaN. Ties are broken
        alphabetically.

    Raises
    ------
    TypeError, ValueError
        `panel` is not a funding panel in bps/8h; a filter lacks its limit or its labels differ; a venue has
        no fee.

    Notes
    -----
    The pair at each time is selected by the rates of that time. Do not sum these spreads, which belong to
    changing pairs: `realised_carry` and `pick_record` compute the later earnings of a pair.

    Examples
    --------
    >>> rates = xr.DataArray(
    ...     [[1.0, -0.5, 2.0]], {"exchange": ["a", "b", "c"]}, ("time", "exchange"), attrs={"units": "bps/8h"}
    ... )
    >>> best = dd.analysis.funding.best_pair(rates).isel(time=0)
    >>> best["long"].item(), best["short"].item(), best["spread_bps_8h"].item()
    ('b', 'c', 2.5)
    >>> dd.analysis.funding.best_pair(rates, fee_bps=5, hold="16d")["net_bps_8h"].round(3).item()
    2.083
    """
    panel = require_rate(panel, "exchange")
    fees_8h = None if fee_bps is None else _fees_8h(panel, fee_bps, hold)
    if (oi_usd is None) != (min_oi_usd is None):
        raise ValueError("oi_usd and min_oi_usd must be passed together: pass both or neither")
    if (age_hours is None) != (max_age is None):
        raise ValueError("age_hours and max_age must be passed together: pass both or neither")
    rates = held_settlements(panel)

    def at_rates(other: Any, units: str | None, name: str) -> xr.DataArray:
        """Return the newest values of another array at the times of the rates."""
        return newest_at(broadcast_companion(panel, other, units=units, name=name), rates)

    if oi_usd is not None and min_oi_usd is not None:
        amounts = require(oi_usd, units=USD_UNIT, name="oi_usd")
        rates = rates.where(at_rates(amounts, USD_UNIT, "oi_usd") >= min_oi_usd)
    if age_hours is not None and max_age is not None:
        age = at_rates(age_hours, HOUR_UNIT, "age_hours")
        rates = rates.where(age <= hours_of(max_age, "max_age", minimum=0.0))
    if tradable is not None:
        rates = rates.where(at_rates(_mask(panel, tradable).astype(np.float64), None, "tradable") > 0.0)
    if prices is not None:
        marks = require(prices, "exchange", units=USD_UNIT, name="prices")
        rates = rates.where(~apart_by_5_percent(at_rates(marks, USD_UNIT, "prices")))
    return by_chunk(partial(_best_pairs, fees_8h=fees_8h), whole(rates, "exchange"))


def _best_pairs(panel: xr.DataArray, fees_8h: Floats | None) -> xr.Dataset:
    """Return the best pair at each time, after fees if there are any; see `best_pair`."""
    names = labels_of(panel, "exchange")
    text = names.dtype
    units = {"long": text, "short": text, "spread_bps_8h": RATE_UNIT, "venues": np.int16}
    if fees_8h is None:
        result = figures_of(_best, panel, units=units, over=["exchange"], names=names)
    else:
        units["net_bps_8h"] = RATE_UNIT
        best_net = partial(_best_net, fees_8h=fees_8h)
        result = figures_of(best_net, panel, units=units, over=["exchange"], names=names)
    for name in ("spread_bps_8h", "net_bps_8h"):
        if name in result:
            result[name].attrs |= kind_attr(panel)
    return result


def _fees_8h(panel: xr.DataArray, fee_bps: float | Mapping[str, float], hold: str | pd.Timedelta) -> Floats:
    """Return the fees of each venue's two trades per 8 hours of the holding time [bps/8h]."""
    pairs = pair_costs(fee_bps, labels_of(panel, "exchange").tolist())
    return np.diag(pairs) / 2.0 / (hours_of(hold, "hold") / 8.0)


def _mask(panel: xr.DataArray, tradable: xr.DataArray | Sequence[str]) -> xr.DataArray:
    """Return a mask of positions that can be opened, over the panel's dims."""
    if isinstance(tradable, xr.DataArray):
        if tradable.dtype != bool:
            raise TypeError(f"tradable must be boolean, got {tradable.dtype}")
        return broadcast_companion(panel, tradable, units=None, name="tradable")
    require_venues(panel, tradable=tradable)
    return panel["exchange"].isin(list(tradable)).broadcast_like(panel).transpose(*panel.dims)


def extremes(rates: Floats, order: Sequence[int] | NDArray[Any]) -> Extremes:
    """Return the largest difference along the last axis and the positions of both rates, ignoring NaN.

    `order` lists the venues by preference among equal rates. Positions are indices into the last axis. They
    are −1 if there is no pair, because there are fewer than two rates (the spread is NaN) or all rates are
    equal.
    """
    # Put the venue axis first, in blocks that fit into the processor's cache.
    shape = (math.prod(rates.shape[:-2]), math.prod(rates.shape[-2:-1]))
    grid = np.moveaxis(rates, -1, 0).reshape(rates.shape[-1], *shape)
    result = Extremes(np.empty(shape), *np.empty((3, *shape), np.int16))
    for block in _blocks(*shape):
        _scan(row_by_row(grid[:, *block]), order, Extremes._make(values[block] for values in result))
    return Extremes._make(values.reshape(rates.shape[:-1]) for values in result)


def _blocks(rows: int, columns: int) -> Iterator[tuple[slice, slice]]:
    """Yield the slices of rows and columns of blocks of at most `_BLOCK` elements."""
    block_columns = min(columns, _BLOCK)
    block_rows = max(1, _BLOCK // max(block_columns, 1))
    for row in range(0, rows, block_rows):
        for column in range(0, columns, _BLOCK):
            yield slice(row, row + block_rows), slice(column, column + _BLOCK)


def _scan(block: Floats, order: Any, into: Extremes) -> None:
    """Find the extremes over the first axis (venues) for all columns of a block.

    One pass over the venues by preference stores the highest and lowest rate so far and the rank of its
    venue. Only a strictly larger or smaller rate replaces it, so that the preferred venue wins ties; a
    comparison with NaN is false, and fmax and fmin ignore it.
    """
    shape = block.shape[1:]
    # 1. Allocate the running values. Booleans are viewed as bytes 0 and 1, so that a product with a rank is
    # one pass without a branch.
    high = np.full(shape, -np.inf)
    low = np.full(shape, np.inf)
    rank_dtype = np.dtype(np.uint8 if len(order) <= 255 else np.uint16)
    lowest = np.zeros(shape, rank_dtype)
    highest = np.zeros(shape, rank_dtype)
    count = np.zeros(shape, rank_dtype)
    scratch = np.empty(shape, rank_dtype)
    is_true = np.empty(shape, dtype=bool)
    zero_or_one = is_true.view(np.uint8)

    # 2. Pass over the venues. Ranks only grow, so the maximum of rank × mask is the last venue that beat the
    # ones before it. The first known rate beats −inf; if it is of rank 0, 0 stays, which is right as well.
    for number, venue in enumerate(order):
        rate = block[venue]
        rank = rank_dtype.type(number)
        np.greater(rate, high, out=is_true)
        np.maximum(highest, np.multiply(zero_or_one, rank, out=scratch), out=highest)
        np.fmax(high, rate, out=high)
        np.less(rate, low, out=is_true)
        np.maximum(lowest, np.multiply(zero_or_one, rank, out=scratch), out=lowest)
        np.fmin(low, rate, out=low)
        np.equal(rate, rate, out=is_true)  # false for NaN
        np.add(count, zero_or_one, out=count)

    # 3. Convert ranks to positions, −1 without a pair.
    positions = np.append(np.asarray(order, dtype=np.int16), np.int16(-1))
    has_no_pair = count < 2
    into.spread[...] = np.where(has_no_pair, np.nan, high - low)
    has_no_pair |= high == low
    into.lowest[...] = positions[np.where(has_no_pair, len(order), lowest)]
    into.highest[...] = positions[np.where(has_no_pair, len(order), highest)]
    into.venues[...] = count


def _best(rates: Floats, names: NDArray[Any]) -> tuple[Any, ...]:
    """Return long and short venue, spread and number of venues of the pair with the largest spread."""
    pair = extremes(rates, np.argsort(names, kind="stable"))
    labels = np.append(names, "")
    return labels[pair.lowest], labels[pair.highest], pair.spread, pair.venues


def _best_net(rates: Floats, names: NDArray[Any], fees_8h: Floats) -> tuple[Any, ...]:
    """Return the pair with the largest spread after the fees of its two venues.

    The short leg earns its rate minus its fee, and the long leg pays its rate plus its fee. The best short
    and the best long are found separately. If one venue is both, one leg uses its second best.
    """
    # 1. Find the best and the second-best venue of each leg after its fee.
    order = np.argsort(names, kind="stable")
    ranked = rates[..., order]
    fees = fees_8h[order]
    labels = np.append(names[order], "")
    finite = np.isfinite(ranked)
    earned = np.where(finite, ranked - fees, -np.inf)
    paid = np.where(finite, ranked + fees, np.inf)
    short = earned.argmax(axis=-1)
    long = paid.argmin(axis=-1)
    second_short = _without(earned, short, -np.inf).argmax(-1)
    second_long = _without(paid, long, np.inf).argmin(-1)

    # 2. If one venue is best for both legs, use the second-best venue for the leg that loses less by it.
    clash = short == long
    change_long = _at(earned, short) - _at(paid, second_long) >= _at(earned, second_short) - _at(paid, long)
    long = np.where(clash & change_long, second_long, long)
    short = np.where(clash & ~change_long, second_short, short)

    # 3. There is no pair with fewer than two rates, or if all rates are equal.
    count = finite.sum(axis=-1)
    spread = _at(ranked, short) - _at(ranked, long)
    no_pair = (count < 2) | ~(spread > 0.0)
    net = np.where(no_pair, np.nan, _at(earned, short) - _at(paid, long))
    spread = np.where(count < 2, np.nan, np.maximum(spread, 0.0))
    empty_label = len(names)
    long_venue = labels[np.where(no_pair, empty_label, long)]
    short_venue = labels[np.where(no_pair, empty_label, short)]
    return long_venue, short_venue, spread, count.astype(np.int16), net


def _at(values: Floats, place: NDArray[Any]) -> Floats:
    """Return the value at a position of the last axis."""
    return np.take_along_axis(values, place[..., None], axis=-1)[..., 0]


def _without(values: Floats, place: NDArray[Any], filler: float) -> Floats:
    """Return a copy with another value at a position of the last axis."""
    others = values.copy()
    np.put_along_axis(others, place[..., None], filler, axis=-1)
    return others


_MIN_DECISIONS = 10  # with fewer decisions, too few blocks are drawn and the interval is far too narrow
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
    """Return the record of past selections: the best pair at each decision, its forecast and its outcome.

    Parameters
    ----------
    panel, hold, fee_bps, prices, period, level, overlap, apart
        As in `forecast_carry`; without `prices` forecasts and outcomes are of funding only. Decisions are a
        holding time apart, at whole multiples of it since 1970-01-01 00:00 UTC (with seven days: Thursdays),
        so no hour is counted twice. A longer panel adds decisions without moving the earlier ones.
    rule
        Selection rule: ``"forecast"``, the largest mean of `forecast_carry` after cost; ``"last"`` and
        ``"mean_7d"``, the largest spread of the last period or mean of seven days, extrapolated over the
        holding time, after cost. All rules choose from the pairs with a forecast.

    Returns
    -------
    Dataset, the panel's dims without ``exchange``, ``time`` the decisions
        ``long`` and ``short`` (empty text without a selection), ``predicted_net_bps`` with
        ``predicted_low_bps`` and ``predicted_high_bps`` (these two only for the forecast),
        ``realised_net_bps``, ``cost_bps``, ``status``: ``too_few`` with fewer than 10 past decisions, ``gap``
        if no pair has a forecast or less than nine tenths of the outcome is known, ``open`` before the end of
        the holding time. Missing parts of an outcome count as the mean of the known ones.

    Raises
    ------
    TypeError, ValueError
        As `forecast_carry`.

    Notes
    -----
    Each selection uses only data known at its decision: later values change neither selection nor forecast.
    """
    panel = require_rate(panel, "exchange", "time")
    history = summed_history(panel, hold, period, overlap=overlap, prices=prices, apart=apart)

    # 1. Forecast all pairs at the decisions.
    plan = history.plan
    last = history.amounts.sizes["time"]
    decisions = np.arange(-history.first % plan.hold, last, plan.hold)
    forecasts = forecasts_at(panel, history, None, decisions, hold, fee_bps, level, ends=False)
    net = forecasts["net_bps"]
    ends = [net, forecasts["net_low_bps"], forecasts["net_high_bps"]]

    # 2. For other rules, replace the forecast by the spread of the rule's means.
    if rule != "forecast":
        span = 1 if rule == "last" else plan.spans[3]
        means = figures_of(
            trailing_mean,
            history.amounts,
            units={"bps": BPS_UNIT},
            into={"time": None},
            span=span,
            minimum=1.0,
        )
        mean = means["bps"].isel(time=decisions)
        long = mean.sel(exchange=forecasts["long"]).drop_vars("exchange")
        short = mean.sel(exchange=forecasts["short"]).drop_vars("exchange")
        expected = plan.hold * (short - long) - forecasts["cost_bps"]
        ends = [expected.where(net.notnull()), xr.full_like(net, np.nan), xr.full_like(net, np.nan)]

    # 3. Select the pair with the highest value at each decision, and its outcome.
    text = labels_of(panel, "exchange").dtype
    units = {"long": text, "short": text, **dict.fromkeys(_FIGURES, BPS_UNIT), "status": FundingStatus}
    record = figures_of(
        _best_forecast,
        *ends,
        *(forecasts[name] for name in ("realised_net_bps", "cost_bps", "status")),
        xr.DataArray(decisions + plan.hold < last, dims="time"),
        units=units,
        over=["pair"],
        names=[forecasts["long"].to_numpy(), forecasts["short"].to_numpy()],
    )
    for name, words in _FIGURES.items():
        record[name].attrs["long_name"] = words
    about = {"rule": rule, "level": level, "hold_hours": hours_of(hold, "hold")}
    return record.drop_vars("hold_hours").assign_attrs(origin_attrs(panel) | about)


def _best_forecast(*figures: Any, names: Any) -> tuple[Any, ...]:
    """Return venues, figures and status of the pair with the highest net outcome, over the last axis (pair).

    `figures` are net with its low and high end, realised, cost and status of each pair, and whether the
    holding time has ended. `names` are the long and the short venue of each pair.
    """
    # 1. Select the pair.
    net, low, high, realised, cost, status, has_ended = figures
    has_forecast = np.isfinite(net)
    best = np.argmax(np.where(has_forecast, net, -np.inf), axis=-1)
    has_pair = has_forecast.any(axis=-1)
    long_names, short_names = names
    long = np.where(has_pair, long_names[best], "")
    short = np.where(has_pair, short_names[best], "")

    # 2. Select its values.
    selected = []
    for figure in (net, low, high, realised, cost):
        of_best = np.take_along_axis(np.broadcast_to(figure, net.shape), best[..., None], axis=-1)[..., 0]
        selected.append(np.where(has_pair, of_best, np.nan))

    # 3. Set the status where a pair or its outcome is missing.
    has_few = (status & FundingStatus.TOO_FEW).all(axis=-1)
    without_pair = np.where(has_few, FundingStatus.TOO_FEW, FundingStatus.GAP)
    without_outcome = np.where(has_ended, FundingStatus.GAP, FundingStatus.OPEN)
    _, _, _, realised_of_best, _ = selected
    is_unknown = np.isnan(realised_of_best)
    status_of_pair = np.where(is_unknown, without_outcome, 0)
    reason = np.where(has_pair, status_of_pair, without_pair)
    return long, short, *selected, reason.astype(np.int32)


@typed
def pick_summary(
    record: xr.Dataset,
    *,
    min_predicted_bps: float | None = 0.0,
    level: float = 0.95,
    resamples: int = 1999,
    rng: int | np.random.Generator | None = 0,
) -> xr.Dataset:
    """Compare the forecast of past selections with their earnings.

    Parameters
    ----------
    record
        Result of `pick_record`; all its symbols together.
    min_predicted_bps
        Counts only selections with a forecast above this after cost; None counts all, including those
        with a forecast below zero.
    level, resamples, rng
        Parameters of the block bootstrap: runs of n^(1/3) decisions, all symbols of a decision together.

    Returns
    -------
    Dataset of scalars
        ``picks`` (with a known outcome) and the number of ``decisions``, ``predicted_net_bps`` and
        ``realised_net_bps`` (means), ``difference_bps`` (predicted minus realised) with
        ``difference_low_bps`` and ``difference_high_bps``, ``realised_low_bps`` and ``realised_high_bps``;
        ``coverage``, the share of outcomes within their forecast interval, with ``coverage_low`` and
        ``coverage_high``; ``share_positive``, the share that earned more than its cost. NaN without a
        selection or an interval; ends are NaN below ten decisions, which are too few for a bootstrap.

    Raises
    ------
    ValueError
        `record` is not such a Dataset, or a number of the bootstrap is out of range.
    """
    names = ["predicted_net_bps", "predicted_low_bps", "predicted_high_bps", "realised_net_bps"]
    require_variables(record, "record", names, dims=["time"])
    require_level(level)
    require_draws(resamples)

    # 1. Select the counted selections, with decisions as first axis.
    tables = [record[name].transpose("time", ...).to_numpy() for name in names]
    # The number of columns is explicit, because reshape cannot infer it for a record without decisions.
    predicted, low, high, realised = (
        table.reshape(len(table), math.prod(table.shape[1:])) for table in tables
    )
    is_counted = np.isfinite(predicted) & np.isfinite(realised)
    if min_predicted_bps is not None:
        is_counted &= predicted > min_predicted_bps

    # 2. Sum each value by decision, because selections of one decision are drawn together.
    inside = np.where(np.isfinite(low), (low <= realised) & (realised <= high), np.nan)
    figures = np.stack([predicted, realised, predicted - realised, inside, realised > 0.0])
    is_decision = is_counted.any(axis=-1)
    has_figure = is_counted & np.isfinite(figures)  # a selection may have no interval
    sums = np.where(has_figure, figures, 0.0).sum(axis=-1)[:, is_decision]
    number = has_figure.sum(axis=-1)[:, is_decision]

    # 3. Compute means and their intervals.
    summary = xr.Dataset({"picks": int(is_counted.sum()), "decisions": int(is_decision.sum())})
    with np.errstate(invalid="ignore"):
        means = sums.sum(axis=-1) / number.sum(axis=-1)
    ends = _bootstrap(sums, number, level, resamples, seed_of(rng))
    names = ["predicted_net_bps", "realised_net_bps", "difference_bps", "coverage", "share_positive"]
    for place, name in enumerate(names):
        summary[name] = float(means[place])
        if name in ("realised_net_bps", "difference_bps", "coverage"):
            stem = name.removesuffix("_bps").removesuffix("_net")
            unit = "_bps" if name.endswith("_bps") else ""
            summary[f"{stem}_low{unit}"] = float(ends[0, place])
            summary[f"{stem}_high{unit}"] = float(ends[1, place])
    for label in summary.data_vars:
        summary[label].attrs = {"units": BPS_UNIT if str(label).endswith("_bps") else "1"}
    attributes = ("kind", "provenance", "rule", "level", "hold_hours")
    return summary.assign_attrs({name: record.attrs[name] for name in attributes if name in record.attrs})


def _bootstrap(sums: Floats, number: Any, level: float, resamples: int, seed: int) -> Floats:
    """Return the ends (2, quantity) of the means' intervals by a block bootstrap; NaN for too few decisions.

    `sums` (quantity, decision) are divided by `number` for the means. Blocks continue at the start after the
    last decision, so that all decisions are drawn with equal probability.
    """
    size = number.shape[1]
    if size < _MIN_DECISIONS:
        return np.full((2, len(sums)), np.nan)
    block = int(np.ceil(size ** (1.0 / 3.0)))
    block_count = math.ceil(size / block)
    starts = np.random.default_rng(seed).integers(0, size, (resamples, block_count, 1))
    drawn = ((starts + np.arange(block)) % size).reshape(resamples, -1)[:, :size]
    with np.errstate(invalid="ignore"):
        means = sums[:, drawn].sum(axis=-1) / number[:, drawn].sum(axis=-1)
    tail = 50.0 * (1.0 - level)
    return np.asarray(np.percentile(means, [tail, 100.0 - tail], axis=-1))
