"""Carry forecasts of pairs with intervals, bounded by the caps and floors of venues, also as tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
import pandas as pd
import xarray as xr

from derivdata.analysis import labelling
from derivdata.analysis.funding.accrual import History, summed_history, whole_periods
from derivdata.analysis.funding.forecast_errors import Walk, outcome_figures, pair_distribution, walk_of
from derivdata.analysis.funding.pairs import pair_coordinates, pair_costs
from derivdata.analysis.funding.pooled_regression import Plan, expect_funding, expect_prices, relative_levels
from derivdata.analysis.panels import (
    Panel,
    figures_of,
    hours_of,
    labels_of,
    like,
    require_columns,
    require_level,
    require_rate,
    require_variables,
    require_venues,
    with_symbol,
)
from derivdata.analysis.settlements import Apart
from derivdata.analysis.status import FundingStatus
from derivdata.support.arguments import typed
from derivdata.support.arrays import Floats, Indices
from derivdata.tables.venue_facts import FACTS, fact_value
from derivdata.units import BPS, BPS_UNIT, HOURS_PER_YEAR

_BOUNDS = {"funding_floor_bps": -np.inf, "funding_cap_bps": np.inf}
_VENUES = {row.exchange for row in FACTS if row.fact in _BOUNDS}
_DAYS = sorted({row.as_of for row in FACTS if row.fact in {*_BOUNDS, "interval_hours"}})


def published_bounds(panel: xr.DataArray, amounts: xr.DataArray, length: float) -> list[xr.DataArray]:
    """Return the minimum and maximum [bps] that a long pays in each period of `length` hours.

    Each period uses the newest facts that were valid at its end. Bounds are infinite if a venue does not
    publish a cap or its interval is unknown.
    """
    # 1. Count the days with new facts up to each period; 0 before the first.
    times = amounts["time"].to_numpy()
    fact_days = np.array(_DAYS, dtype="datetime64[D]")
    days_so_far = np.searchsorted(fact_days, times.astype("datetime64[D]"), side="right")
    symbols = labels_of(with_symbol(amounts), "symbol")
    venues = labels_of(amounts, "exchange")
    intervals = _shortest_intervals(panel)

    # 2. Fill in the bounds of each symbol and venue for the periods of each day's facts.
    shape = (len(symbols), venues.size, times.size)
    bounds = np.stack([np.full(shape, unbounded) for unbounded in _BOUNDS.values()])
    for column, venue in enumerate(venues.tolist()):
        if venue not in _VENUES:
            continue
        for count in np.unique(days_so_far[days_so_far > 0]):
            day = _DAYS[count - 1]
            for row, symbol in enumerate(symbols):
                hours = intervals.get(venue) or fact_value(venue, "interval_hours", symbol, day)
                for side, name in enumerate(_BOUNDS):
                    value = fact_value(venue, name, symbol, day)
                    if hours and value is not None:
                        bounds[side, row, column, days_so_far == count] = value * length / hours
    dims = ("symbol", "exchange", "time")
    labels = {dim: amounts[dim].to_numpy() for dim in dims if dim in amounts.dims}
    if "symbol" not in labels:
        bounds = bounds[:, 0]
    return [xr.DataArray(bound, labels, list(labels)) for bound in bounds]


def _shortest_intervals(panel: xr.DataArray) -> dict[str, float]:
    """Return the shortest settlement interval of each venue, which gives the widest bound of a period."""
    if panel.attrs.get("kind") != "settled" or "interval_hours" not in panel.coords:
        return {}
    intervals = panel["interval_hours"]
    if intervals.chunks is not None:
        return {}
    minimum = intervals.min([dim for dim in intervals.dims if dim != "exchange"])
    venues = labels_of(panel, "exchange").tolist()
    return dict(zip(venues, np.broadcast_to(minimum.to_numpy(), len(venues)).tolist(), strict=True))


def widened(amounts: Floats, floor: Floats, cap: Floats) -> tuple[Floats, Floats]:
    """Return bounds (venue, period) that contain all past payments, because the facts may be outdated."""
    finite = np.isfinite(amounts)
    past_minimum = np.minimum.accumulate(np.where(finite, amounts, np.inf), axis=-1)
    past_maximum = np.maximum.accumulate(np.where(finite, amounts, -np.inf), axis=-1)
    return np.minimum(floor, past_minimum), np.maximum(cap, past_maximum)


def pair_bounds(
    floor: Floats, cap: Floats, at: int, hold: int, long: Indices, short: Indices
) -> tuple[Floats, Floats]:
    """Return the minimum and maximum [bps] that pairs can earn by funding over the holding time."""
    return hold * (floor[short, at] - cap[long, at]), hold * (cap[short, at] - floor[long, at])


DECISIONS = 10
"""Minimum number of past decisions with a known outcome for a distribution."""
_MIN_DECISION_COUNT = 8.0
"""Minimum number of independent decisions for a forecast without a status; with fewer it has little skill."""
NET = (
    "net_bps",
    "net_median_bps",
    "net_low_bps",
    "net_high_bps",
    "gross_bps",
    "probability_net_positive",
    "realised_net_bps",
    "decisions",
)
PARTS = ("funding_bps", "price_bps")
ENDS = tuple(f"{part}_{end}_bps" for part in ("funding", "price") for end in ("low", "high"))


def walks_of(
    amounts: Floats, levels: Floats | None, plan: Plan, wanted: Indices, *, ends: bool = False
) -> list[Walk]:
    """Return the walk of the total earnings of pairs; with `ends` also those of funding and of prices only.

    `amounts` are the payments of a long and `levels` negative log prices (venue, period) [bps]. Without
    `levels` funding is the total. `wanted` are the periods at which a forecast is needed.
    """
    funding = expect_funding(amounts, plan, wanted)
    if levels is None:
        return [walk_of((funding,), amounts, plan)]
    price = expect_prices(levels, plan, wanted)
    moves = np.diff(relative_levels(levels), axis=1, prepend=np.nan)
    walks = [walk_of((funding, price), amounts + moves, plan)]
    if ends:
        walks += [walk_of((funding,), amounts, plan), walk_of((price,), moves, plan)]
    return walks


def forecast_pairs(
    amounts: Floats,
    floor: Floats,
    cap: Floats,
    levels: Floats | None = None,
    *,
    plan: Plan,
    long: Indices,
    short: Indices,
    cost: Floats,
    level: float,
    at: Indices,
    names: tuple[str, ...],
) -> tuple[Any, ...]:
    """Return one array (series, pair, at) for each variable in `names`, and last the status.

    `names` are those of `NET`, then `PARTS` with `levels`, then `ENDS` if intervals of the parts are wanted.
    `amounts`, `floor` and `cap` (series, venue, period) are the payments of a long and the published minimum
    and maximum [bps]. `long` and `short` are the venues of each pair, `at` the periods of the decisions.
    """
    leading = amounts.shape[:-2]
    results = np.empty((len(names) + 1, *leading, long.size, at.size))
    for series in np.ndindex(leading):
        # The regressions of a symbol pass through time once, for all periods.
        own_levels = None if levels is None else levels[series]
        walks = walks_of(amounts[series], own_levels, plan, at, ends=ENDS[0] in names)
        counts = np.cumsum(np.isfinite(amounts[series]), axis=-1)
        bounds = widened(amounts[series], floor[series], cap[series])
        for column, period in enumerate(map(int, at)):
            within = pair_bounds(*bounds, period, plan.hold, long, short)
            figures = _of_pairs(walks, period, counts[:, period], long, short, cost, level, within)
            results[(slice(None), *series, slice(None), column)] = figures
    return *results[:-1], results[-1].astype(np.int32)


def _of_pairs(
    walks: list[Walk],
    at: int,
    known: Any,
    long: Indices,
    short: Indices,
    cost: Floats,
    level: float,
    bounds: tuple[Floats, Floats],
) -> Floats:
    """Return the values of each pair and its status (variable, pair) at one period.

    `walks` are of the total earnings of pairs, and with intervals also of funding and of prices separately.
    `known` counts the known periods of each venue, and `bounds` are of funding.
    """
    # 1. Compute the mean of each pair, in total and by component; NaN after too few decisions.
    distributions = [pair_distribution(walk, at) for walk in walks]
    total_walk = walks[0]
    total = distributions[0]
    components = total_walk.components if len(total_walk.components) > 1 else ()
    expected = [total.expected, *(component.pair_expectations(at) for component in components)]
    # A component without a walk has the decisions of the total.
    has_few = [distribution.decisions < DECISIONS for distribution in distributions]
    has_few += has_few * (len(expected) - len(has_few))
    means = []
    for mean, is_unknown in zip(expected, has_few, strict=True):
        means.append(np.where(is_unknown, np.nan, mean[long, short]))

    # 2. Apply the published caps to funding and so to the total. Without components funding is the total.
    funding = 1 if components else 0
    correction = np.clip(means[funding], *bounds) - means[funding]
    means[funding] = means[funding] + correction
    if components:
        means[0] = means[0] + correction

    # 3. Compute the intervals. Only the total is after cost.
    outcomes = []
    for place, distribution in enumerate(distributions):
        paid = 0.0 if place else cost
        scale = distribution.scale[long, short]
        outcome = outcome_figures(means[place], scale, distribution.errors, distribution.weight, paid, level)
        outcomes.append(_within(bounds, paid, *outcome) if place == funding else outcome)

    # 4. Compute the outcome and the status flags.
    low, median, high, above_zero = outcomes[0]
    realised = total_walk.outcomes[short, at] - total_walk.outcomes[long, at] - cost
    decision_count = total_walk.decision_count[at]
    has_short_history = np.minimum(known[long], known[short]) < total_walk.plan.minimum
    few_decisions = FundingStatus.FEW_DECISIONS if decision_count < _MIN_DECISION_COUNT else 0
    status = np.where(has_few[0] | has_short_history, FundingStatus.TOO_FEW, few_decisions)
    is_gap = np.isnan(total.expected[long, short]) & ~has_short_history
    status = status | np.where(is_gap, FundingStatus.GAP, 0)
    has_no_interval = np.isfinite(means[0]) & np.isnan(low)
    status = status | np.where(has_no_interval, FundingStatus.CANNOT_TELL, 0)

    # 5. Collect the figures in the order of `NET`, `PARTS` and `ENDS`.
    decisions = np.full(realised.shape, decision_count)
    figures = [means[0] - cost, median, low, high, means[0], above_zero, realised, decisions, *means[1:]]
    for component_low, _, component_high, _ in outcomes[1:]:
        figures += [component_low, component_high]
    return np.stack([np.asarray(figure, dtype=np.float64) for figure in (*figures, status)])


def _within(bounds: tuple[Floats, Floats], paid: Any, *figures: Floats) -> tuple[Floats, ...]:
    """Clip low end, median and high end of outcomes after cost, and the probability to be above 0."""
    minimum = bounds[0] - paid
    maximum = bounds[1] - paid
    *outcomes, above_zero = figures
    is_known = ~np.isnan(above_zero)
    above_zero = np.where(is_known & (minimum > 0.0), 1.0, above_zero)
    above_zero = np.where(is_known & (maximum <= 0.0), 0.0, above_zero)
    return *(np.clip(outcome, minimum, maximum) for outcome in outcomes), above_zero


@typed
def forecast_carry(
    panel: Panel,
    pairs: Sequence[tuple[str, str]] | None = None,
    *,
    hold: str | pd.Timedelta,
    fee_bps: float | Mapping[str, float],
    prices: Panel | None = None,
    component_intervals: bool = True,
    period: str | pd.Timedelta = "8h",
    level: float = 0.9,
    overlap: Literal["raise", "nan"] = "raise",
    apart: Apart = "raise",
) -> xr.Dataset:
    """Forecast the distribution of the outcome of each pair of venues after the panel's end.

    Without `prices` it covers funding only: the prices of the two legs also move against each other, most if
    they are quoted in different currencies, so the interval then contains less than `level` of a pair's total
    outcomes.

    Parameters
    ----------
    panel
        History of funding rates [bps/8h] with a ``kind``, dims ``exchange`` and ``time``, in memory or lazy
        (both are put into one chunk). All of its venues are used in the regression.
    pairs
        ``(long, short)`` venues of the pairs to forecast; all ordered pairs by default.
    hold
        Holding time of a pair, such as ``"7d"``: a whole number of periods.
    fee_bps
        Fee of one trade [bps of the notional traded], one number or a mapping by venue. A pair makes four
        trades and costs twice the sum of its venues' fees.
    prices
        Marks [USD] over the same symbols, at least one row at the end of each period. The outcome then
        includes funding and the legs' prices, both for the same number of coins.
    component_intervals
        With `prices`: whether funding and prices have intervals too, which takes more than twice as long.
    period
        Length of the periods over which history is summed; at least every venue's interval, at most 24.
    level
        Share of outcomes in the interval, its nominal coverage.
    overlap
        As in `cumulative`.
    apart
        How to handle a series that appears to be another coin with the same ticker, because it differs from
        the other venues by a factor above 1.25 in the median, or above 2 at a tenth of the timestamps.
        ``"raise"`` raises if every symbol has such a series, and otherwise omits these series with a notice.
        ``"keep"`` uses them. Other prices more than 5 % apart, as in a squeeze, before a listing or of a
        dated future, are used with a `DataNotice`.

    Returns
    -------
    Dataset, the panel's dims without ``exchange`` and ``time``, with ``pair``
        - ``net_bps`` (mean), ``net_median_bps``, and ``net_low_bps`` and ``net_high_bps``, the interval with
          probability `level` [bps, after cost].
        - ``probability_net_positive`` [1], ``gross_bps`` (mean before cost) and ``cost_bps`` [bps].
        - With `prices` also ``funding_bps`` and ``price_bps``, the components of ``gross_bps``; with
          `component_intervals` also their ``_low_bps`` and ``_high_bps``.
        - ``decisions``: effective number of past decisions, that is the time spanned by their outcomes over
          the holding time.
        - ``status``: ``gap`` if a leg is unknown within the last day or in more than a third of the last day,
          three days or week; ``too_few`` below 30 periods of history or 10 past decisions; both with NaN.
          ``few_decisions``: fewer than eight effective decisions. ``cannot_tell``: the pair's own past
          outcomes span less than a holding time, so there is a mean but no interval.

        The coordinates are ``pair`` (``"okx/bybit"``), ``long`` and ``short``, by which ``sel(long="okx",
        short="bybit")`` selects, ``hold_hours`` [h], and ``time``, the end of the last whole period, from
        which the pair is held.

    Raises
    ------
    TypeError, ValueError
        As `cumulative`; fewer than two venues, or one that is not in the panel; a venue has no fee; the
        holding time is not a whole number of periods; `prices` are not in USD, or a venue's are of another
        coin.

    Notes
    -----
    Funding is bounded by the caps and floors of ``dd.venues.facts()``, or wider if more was paid before. The
    forecast is a regression pooled over all pairs, of the next outcome on the last period and the trailing
    means over a day, three, seven and sixty days (heterogeneous autoregression: Corsi 2009, Journal of
    Financial Econometrics 7(2)). It is refitted at each past period on the data known there and shrunk by the
    realised share of past forecasts (empirical Bayes over pairs). Prices have a separate regression, on the
    distance of each from its means over the same spans. Past errors, each scaled by its expected size, give
    the distribution (split conformal). Coverage and errors on recorded data are in docs/methods/carry.md,
    also for the pair with the best forecast.

    Examples
    --------
    >>> history = dd.panel(dd.funding.history("BTC", "60d"))
    >>> forecasts = dd.analysis.funding.forecast_carry(history, hold="7d", fee_bps=2.0).isel(symbol=0)
    >>> forecasts.sizes["pair"] == history.sizes["exchange"] * (history.sizes["exchange"] - 1)
    True
    """
    panel = require_rate(panel, "exchange", "time")
    history = summed_history(panel, hold, period, overlap=overlap, prices=prices, apart=apart)
    last = np.array([history.amounts.sizes["time"] - 1])
    result = forecasts_at(panel, history, pairs, last, hold, fee_bps, level, ends=component_intervals)
    return result.isel(time=0).drop_vars("realised_net_bps")


@typed
def forecast_history(
    panel: Panel,
    pairs: Sequence[tuple[str, str]] | None = None,
    *,
    hold: str | pd.Timedelta,
    fee_bps: float | Mapping[str, float],
    prices: Panel | None = None,
    component_intervals: bool = True,
    every: str | pd.Timedelta = "1d",
    period: str | pd.Timedelta = "8h",
    level: float = 0.9,
    overlap: Literal["raise", "nan"] = "raise",
    apart: Apart = "raise",
) -> xr.Dataset:
    """Forecast the earnings of each pair at many past times, from the data known at each.

    Parameters
    ----------
    panel, pairs, hold, fee_bps, prices, component_intervals, period, level, overlap, apart
        As in `forecast_carry`.
    every
        Time between forecasts, a whole number of periods, counted from 1970-01-01 00:00 UTC.

    Returns
    -------
    Dataset, the variables of `forecast_carry` with dim ``time``
        In one pass over the panel. A value equals the result of `forecast_carry` on the rows up to its time,
        so ``forecasts["net_bps"]`` is a forecast for `derivdata.analysis.backtest.ForecastThreshold`. Also
        ``realised_net_bps``, the outcome after cost, NaN if unknown.

    Raises
    ------
    TypeError, ValueError
        As `forecast_carry`; `every` is not a whole number of periods.

    Examples
    --------
    >>> rates = dd.funding.history("BTC", "60d")
    >>> forecasts = dd.analysis.funding.forecast_history(rates, hold="1d", fee_bps=0.25)
    >>> rule = dd.analysis.backtest.ForecastThreshold(forecasts["net_bps"], enter=1.0, exit=-1.0)
    >>> dd.analysis.backtest.carry(rates, rule, dd.analysis.backtest.Costs(fee_bps=0.25)).sizes["time"]
    1440
    """
    panel = require_rate(panel, "exchange", "time")
    history = summed_history(panel, hold, period, overlap=overlap, prices=prices, apart=apart)
    stride = whole_periods(every, "every", hours_of(period, "period"))
    at = np.arange(-history.first % stride, history.amounts.sizes["time"], stride)
    return forecasts_at(panel, history, pairs, at, hold, fee_bps, level, ends=component_intervals)


def forecasts_at(
    panel: xr.DataArray,
    history: History,
    pairs: Sequence[tuple[str, str]] | None,
    at: Indices,
    hold: str | pd.Timedelta,
    fee_bps: float | Mapping[str, float],
    level: float,
    *,
    ends: bool,
) -> xr.Dataset:
    """Return the forecasts at some periods of a history, with `ends` also the intervals of their parts."""
    # 1. Prepare the pairs for the kernel.
    require_level(level)
    names = labels_of(history.amounts, "exchange")
    long, short = _places(panel, names, pairs)
    cost = pair_costs(fee_bps, names.tolist())[long, short]
    arrays = [history.amounts, *published_bounds(panel, history.amounts, history.length)]
    figures: tuple[str, ...] = NET
    if history.levels is not None:
        arrays.append(history.levels)
        figures += PARTS + (ENDS if ends else ())
    units: dict[str, Any] = dict.fromkeys(figures, BPS_UNIT)
    units |= {"probability_net_positive": "1", "decisions": "1", "status": FundingStatus}

    # 2. Forecast, and add labels and descriptions.
    result = figures_of(
        forecast_pairs, *(array.drop_vars("time") for array in arrays), units=units,
        over=["exchange", "time"], into={"pair": long.size, "at": at.size}, plan=history.plan, long=long,
        short=short, cost=cost, level=level, at=at, names=figures,
    )  # fmt: skip
    result = result.rename(at="time").assign_coords(
        time=history.amounts["time"].to_numpy()[at], hold_hours=hours_of(hold, "hold")
    )
    result = result.assign_coords(pair_coordinates(names[long], names[short]))
    result["cost_bps"] = ("pair", cost, {"units": BPS_UNIT})
    of = of_what(result)
    for name, words in _LONG_NAMES.items():
        if name in result:
            result[name].attrs["long_name"] = words.format(of=of)
    forecasts: xr.Dataset = like(result, panel)
    return forecasts.assign_attrs(origin_attrs(panel), level=level)


_LONG_NAMES = {
    "net_bps": "mean outcome after cost, {of}",
    "net_median_bps": "median outcome after cost, {of}",
    "net_low_bps": "low end of the outcome after cost, {of}",
    "net_high_bps": "high end of the outcome after cost, {of}",
    "gross_bps": "mean outcome before cost, {of}",
    "probability_net_positive": "probability that the outcome exceeds the cost, {of}",
    "realised_net_bps": "outcome after cost, {of}",
    "cost_bps": "cost of the four trades",
    "funding_bps": "mean funding received",
    "funding_low_bps": "low end of funding received",
    "funding_high_bps": "high end of funding received",
    "price_bps": "mean of the legs' price gains",
    "price_low_bps": "low end of the legs' price gains",
    "price_high_bps": "high end of the legs' price gains",
}


def of_what(forecast: xr.Dataset) -> str:
    """Return a description of the forecast outcomes for labels."""
    return "funding and prices" if "price_bps" in forecast else "funding only"


def origin_attrs(panel: xr.DataArray) -> dict[str, Any]:
    """Return the kind of a panel, and its source if known."""
    return {name: panel.attrs[name] for name in ("kind", "provenance") if name in panel.attrs}


def _places(
    panel: xr.DataArray, names: Any, pairs: Sequence[tuple[str, str]] | None
) -> tuple[Indices, Indices]:
    """Return the positions in `names` of the long and the short venue of each pair; all pairs for None."""
    if pairs is None:
        long, short = np.nonzero(~np.eye(names.size, dtype=bool))
        return long, short
    for long_venue, short_venue in pairs:
        require_venues(panel, pairs=[long_venue, short_venue])
        if long_venue == short_venue:
            raise ValueError(f"pairs must have two different venues, got {long_venue!r}/{long_venue!r}")
    position = {name: place for place, name in enumerate(names.tolist())}
    long = np.array([position[venue] for venue, _ in pairs], dtype=np.intp)
    short = np.array([position[venue] for _, venue in pairs], dtype=np.intp)
    return long, short


def _reasons(status: int) -> str:
    """Return the names of the bits of a status, separated by spaces."""
    return " ".join(str(bit.name).lower() for bit in FundingStatus if status & bit)


_APR = {"net_apr": "net_bps", "net_low_apr": "net_low_bps", "net_high_apr": "net_high_bps"}


@typed
def carry_table(forecast: xr.Dataset) -> pd.DataFrame:
    """Return a carry forecast as a table: pairs, net APR with its interval, and the probability of a profit.

    Parameters
    ----------
    forecast
        Result of `forecast_carry`, for all pairs, some or one.

    Returns
    -------
    DataFrame
        One row per symbol and pair, the highest ``net_apr`` first: ``symbol`` (where there is one), ``long``,
        ``short``, ``net_apr``, ``net_low_apr`` and ``net_high_apr`` (a year's fractions of one leg's
        notional, simple, of the outcome after cost over the holding time), ``chance`` (that it is above 0),
        ``net_bps`` and ``cost_bps`` [bps] over ``hold_hours`` [h], and ``status``, its reasons by name. A
        pair without a forecast is last, with NaN and its reason.

    Raises
    ------
    ValueError
        `forecast` does not come from `forecast_carry`, or has a dim ``time``: select a time.

    Notes
    -----
    The best of many forecasts is partly lucky: `pick_record` returns the earnings of such selections.

    Examples
    --------
    >>> history = dd.funding.settlements("BTC", "60d", venues=["binance", "hyperliquid", "okx"])
    >>> table = dd.analysis.carry_table(dd.analysis.funding.forecast_carry(history, hold="3d", fee_bps=1.0))
    >>> table.columns[:3].tolist(), len(table)
    (['symbol', 'long', 'short'], 6)
    """
    # 1. Make one row per pair.
    numbers = [*_APR.values(), "probability_net_positive", "cost_bps", "hold_hours", "status"]
    require_variables(forecast, "forecast", numbers)
    if "time" in forecast.dims:
        raise ValueError(
            "forecast must have one timestamp: select it, for example with forecast.isel(time=-1)"
        )
    if "pair" not in forecast.dims:
        forecast = forecast.expand_dims("pair")
    figures = forecast[numbers].drop_indexes([leg for leg in ("long", "short") if leg in forecast.xindexes])
    frame = figures.reset_coords(drop=False).drop_vars("time", errors="ignore").to_dataframe()
    require_columns(frame, "forecast", others=("long", "short"))
    frame = frame.reset_index().rename(columns={"probability_net_positive": "chance"})

    # 2. Convert to annual rates, and decode the status.
    years = frame["hold_hours"] / HOURS_PER_YEAR
    for name, source in _APR.items():
        frame[name] = frame[source] / BPS / years
    frame["status"] = [_reasons(bits) for bits in frame["status"]]
    last = ["long", "short", *_APR, "chance", "net_bps", "cost_bps", "hold_hours", "status"]
    columns = [name for name in frame if name not in {*last, *_APR.values(), "pair"}] + last

    # 3. Sort by descending rate, NaN last.
    order = np.lexsort((frame["short"], frame["long"], -frame["net_apr"]))
    table = frame.iloc[order][columns].reset_index(drop=True)
    table.attrs = labelling.origin_attrs(forecast)
    return table
