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
