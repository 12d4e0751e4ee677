"""Outcomes of pairs at some periods of a history, within the caps and floors that venues publish."""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr

from derivdata.analysis.funding.forecast_errors import Walk, outcome_figures, pair_distribution, walk_of
from derivdata.analysis.funding.pooled_regression import Plan, expect_funding, expect_prices, relative_levels
from derivdata.analysis.panels import labels_of, with_symbol
from derivdata.analysis.status import FundingStatus
from derivdata.support.arrays import Floats, Indices
from derivdata.tables.venue_facts import FACTS, fact_value

_BOUNDS = {"funding_floor_bps": -np.inf, "funding_cap_bps": np.inf}
_VENUES = {row.exchange for row in FACTS if row.fact in _BOUNDS}
_DAYS = sorted({row.as_of for row in FACTS if row.fact in {*_BOUNDS, "interval_hours"}})


def published_bounds(panel: xr.DataArray, amounts: xr.DataArray, length: float) -> list[xr.DataArray]:
    """Return the least and the most [bps] that a long pays in each period of so many hours, by venues' facts.

    Of each period the newest facts that were true at its end; infinite where a venue publishes none, or its
    interval is not known.
    """
    times = amounts["time"].to_numpy()
    place = np.searchsorted(
        np.array(_DAYS, dtype="datetime64[D]"), times.astype("datetime64[D]"), side="right"
    )
    symbols = labels_of(with_symbol(amounts), "symbol")
    venues = labels_of(amounts, "exchange")
    stated = _shortest_intervals(panel)
    bounds = np.stack([np.full((len(symbols), venues.size, times.size), none) for none in _BOUNDS.values()])
    for column, venue in enumerate(venues.tolist()):
        for day in np.unique(place[place > 0]) if venue in _VENUES else ():
            for row, symbol in enumerate(symbols):
                hours = stated.get(venue) or fact_value(venue, "interval_hours", symbol, _DAYS[day - 1])
                found = [fact_value(venue, name, symbol, _DAYS[day - 1]) for name in _BOUNDS]
                for side, value in enumerate(found):
                    if hours and value is not None:
                        bounds[side, row, column, place == day] = value * length / hours
    dims = ("symbol", "exchange", "time")
    labels = {dim: amounts[dim].to_numpy() for dim in dims if dim in amounts.dims}
    return [
        xr.DataArray(part if "symbol" in labels else part[0], labels, [dim for dim in dims if dim in labels])
        for part in bounds
    ]


def _shortest_intervals(panel: xr.DataArray) -> dict[str, float]:
    """Return the shortest interval that settlements of each venue pay for: the widest bound of a period."""
    if panel.attrs.get("kind") != "settled" or "interval_hours" not in panel.coords:
        return {}
    stated = panel["interval_hours"]
    if stated.chunks is not None:
        return {}
    least = stated.min([dim for dim in stated.dims if dim != "exchange"])
    names = labels_of(panel, "exchange").tolist()
    return dict(zip(names, np.broadcast_to(least.to_numpy(), len(names)).tolist(), strict=True))


def widened(amounts: Floats, floor: Floats, cap: Floats) -> tuple[Floats, Floats]:
    """Return bounds (venue, period) that contain all that was paid so far: facts may be behind."""
    known = np.isfinite(amounts)
    least, most = (
        ends.accumulate(np.where(known, amounts, none), axis=-1)
        for ends, none in ((np.minimum, np.inf), (np.maximum, -np.inf))
    )
    return np.minimum(floor, least), np.maximum(cap, most)


def pair_bounds(
    floor: Floats, cap: Floats, at: int, hold: int, long: Indices, short: Indices
) -> tuple[Floats, Floats]:
    """Return the least and the most [bps] that pairs can earn by funding over the holding time."""
    return hold * (floor[short, at] - cap[long, at]), hold * (cap[short, at] - floor[long, at])


DECISIONS = 10
"""Past decisions with a known outcome that a distribution needs."""
_WORTH = 8.0
"""Independent decisions from which a forecast has no status: with fewer it is hardly better than none."""
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
    """Return the walk of what pairs earn, and with `ends` those of funding and of prices alone."""
    funding = expect_funding(amounts, plan, wanted)
    if levels is None:
        return [walk_of((funding,), amounts, plan)]
    price = expect_prices(levels, plan, wanted)
    moves = np.diff(relative_levels(levels), axis=1, prepend=np.nan)
    both = walk_of((funding, price), amounts + moves, plan)
    alone = ((funding, amounts), (price, moves)) if ends else ()
    return [both, *(walk_of((part,), paid, plan) for part, paid in alone)]


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
    """Return the figures of these names, of `NET`, `PARTS` and `ENDS`, and the status: (series, pair, at).

    `amounts`, `floor` and `cap` (series, venue, period) are what a long pays and the least and most of it
    that venues publish [bps].
    """
    results = np.empty((len(names) + 1, *amounts.shape[:-2], long.size, at.size))
    for series in np.ndindex(amounts.shape[:-2]):
        walks = walks_of(
            amounts[series], None if levels is None else levels[series], plan, at, ends=ENDS[0] in names
        )
        known = np.cumsum(np.isfinite(amounts[series]), axis=-1)
        bounds = widened(amounts[series], floor[series], cap[series])
        for column, period in enumerate(map(int, at)):
            within = pair_bounds(*bounds, period, plan.hold, long, short)
            found = _of_pairs(walks, period, known[:, period], long, short, cost, level, within)
            results[(slice(None), *series, slice(None), column)] = found
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
    found = [pair_distribution(walk, at) for walk in walks]
    lacking = [each[-1] < DECISIONS for each in found]
    unknown = np.isnan(found[0][0][long, short])
    parts = walks[0].parts if len(walks[0].parts) > 1 else ()
    expected = found[0][0], *(part.pair_expectations(at) for part in parts)
    few = (lacking * len(expected))[: len(expected)]
    means = [np.where(one, np.nan, each[long, short]) for one, each in zip(few, expected, strict=True)]
    alone = min(1, len(parts))  # the place of funding alone, of which the bounds are
    moved = np.clip(means[alone], *bounds) - means[alone]
    means[: alone + 1] = [mean + moved for mean in means[: alone + 1]]
    ends = []
    for place, (_, scale, errors, weight, _) in enumerate(found):
        paid = 0.0 if place else cost
        of_part = outcome_figures(means[place], scale[long, short], errors, weight, paid, level)
        ends.append(_within(bounds, paid, *of_part) if place == alone else of_part)
    low, middle, high, above = ends[0]
    realised = walks[0].outcomes[short, at] - walks[0].outcomes[long, at] - cost
    worth = np.full(realised.shape, walks[0].worth[at])
    short_history = np.minimum(known[long], known[short]) < walks[0].plan.least
    unsure = FundingStatus.FEW_DECISIONS if worth.size and worth[0] < _WORTH else 0
    status = np.where(few[0] | short_history, FundingStatus.TOO_FEW, unsure)
    status = status | np.where(unknown & ~short_history, FundingStatus.GAP, 0)
    has_no_interval = np.isfinite(means[0]) & np.isnan(low)
    status = status | np.where(has_no_interval, FundingStatus.CANNOT_TELL, 0)
    figures = [means[0] - cost, middle, low, high, means[0], above, realised, worth, *means[1:]]
    for bottom, _, top, _ in ends[1:]:
        figures += [bottom, top]
    return np.stack([np.asarray(figure, dtype=np.float64) for figure in (*figures, status)])


def _within(bounds: tuple[Floats, Floats], paid: Any, *figures: Floats) -> tuple[Floats, ...]:
    """Bound low end, median and high end of outcomes after cost, and the probability to be above 0."""
    least, most = (bound - paid for bound in bounds)
    *ends, above = figures
    above = np.where(most <= 0.0, 0.0 * above, np.where(least > 0.0, 1.0 + 0.0 * above, above))
    return *(np.clip(end, least, most) for end in ends), above
