"""Outcomes of pairs at some periods of a history: mean, interval, parts and status, on arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from derivdata.analysis.funding.caps import pair_bounds, widened
from derivdata.analysis.funding.forecast_errors import Walk, outcome_figures, pair_distribution, walk_of
from derivdata.analysis.funding.pooled_regression import Plan, expect_funding, expect_prices, relative_levels
from derivdata.analysis.funding.status import FundingStatus
from derivdata.support.arrays import Floats, Indices

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
PARTS = tuple(f"{part}{end}_bps" for part in ("funding", "price") for end in ("", "_low", "_high"))


def walks_of(amounts: Floats, levels: Floats | None, plan: Plan, wanted: Indices) -> list[Walk]:
    """Return the walk of what pairs earn, and where prices are known those of funding and of prices alone."""
    funding = expect_funding(amounts, plan, wanted)
    if levels is None:
        return [walk_of((funding,), amounts, plan)]
    price = expect_prices(levels, plan, wanted)
    moves = np.diff(relative_levels(levels), axis=1, prepend=np.nan)
    both = walk_of((funding, price), amounts + moves, plan)
    return [both, walk_of((funding,), amounts, plan), walk_of((price,), moves, plan)]


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
) -> tuple[Any, ...]:
    """Return `NET`, with levels `PARTS`, and the status, over (series, pair, at).

    `amounts`, `floor` and `cap` (series, venue, period) are what a long pays and the least and most of it
    that venues publish [bps].
    """
    number = len(NET) + (0 if levels is None else len(PARTS)) + 1
    results = np.empty((number, *amounts.shape[:-2], long.size, at.size))
    for series in np.ndindex(amounts.shape[:-2]):
        walks = walks_of(amounts[series], None if levels is None else levels[series], plan, at)
        known = np.cumsum(np.isfinite(amounts[series]), axis=-1)
        bounds = widened(amounts[series], floor[series], cap[series])
        for column, period in enumerate(map(int, at)):
            ends = pair_bounds(*bounds, period, plan.hold, long, short)
            found = _of_pairs(walks, period, known[:, period], long, short, cost, level, ends)
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
    few, unknown = found[0][-1] < DECISIONS, np.isnan(found[0][0][long, short])
    means = [np.where(each[-1] < DECISIONS, np.nan, each[0][long, short]) for each in found]
    alone = min(1, len(walks) - 1)  # the walk of funding alone, of which the bounds are
    moved = np.clip(means[alone], *bounds) - means[alone]
    parts = []
    for place, (_, scale, errors, weight, _) in enumerate(found):
        mean, paid = means[place] + (moved if place <= alone else 0.0), 0.0 if place else cost
        ends = outcome_figures(mean, scale[long, short], errors, weight, paid, level)
        parts.append((mean, *(_within(bounds, paid, *ends) if place == alone else ends)))
    mean, low, middle, high, above = parts[0]
    realised = walks[0].outcomes[short, at] - walks[0].outcomes[long, at] - cost
    worth = np.full(mean.shape, walks[0].worth[at])
    short_history = np.minimum(known[long], known[short]) < walks[0].plan.least
    unsure = FundingStatus.FEW_DECISIONS if worth.size and worth[0] < _WORTH else 0
    status = np.where(few | short_history, FundingStatus.TOO_FEW, unsure)
    status = status | np.where(unknown & ~short_history, FundingStatus.GAP, 0)
    figures = [mean - cost, middle, low, high, mean, above, realised, worth]
    for part in parts[1:]:
        figures += [part[0], part[1], part[3]]
    return np.stack([np.asarray(figure, dtype=np.float64) for figure in (*figures, status)])


def _within(bounds: tuple[Floats, Floats], paid: Any, *figures: Floats) -> tuple[Floats, ...]:
    """Bound low end, median and high end of outcomes after cost, and the probability to be above 0."""
    least, most = (bound - paid for bound in bounds)
    *ends, above = figures
    above = np.where(most <= 0.0, 0.0 * above, np.where(least > 0.0, 1.0 + 0.0 * above, above))
    return *(np.clip(end, least, most) for end in ends), above
