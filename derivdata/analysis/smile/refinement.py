"""Bumps that move an SVI surface between bid and ask, without butterfly or calendar arbitrage.

The SVI surface is fitted first and is not changed. Total variance is linear in the heights of the bumps of
all expiries, so a linear programme determines them, which HiGHS solves. It minimises the sum of

* the distance of the surface outside bid and ask, in half spreads,
* a twentieth of its distance to the quoted volatilities, in volatility points times the weight of the quote,
* a tenth of the heights, so that bumps which bring nothing stay 0,

under the conditions that total variance rises from expiry to expiry (linear) and that Durrleman's g is
positive (linearised at the last solution). Conditions are added at some places of a dense grid of 0.01 units,
and where the solution breaks them on it. Each accepted solution satisfies all of them on the whole grid: a
step that does not is shortened, and without any step the surface remains SVI. Beyond the bumps it is SVI.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

import numpy as np
from scipy import sparse
from scipy.optimize import linprog

from derivdata.analysis.smile.svi import (
    CENTRES,
    REACH,
    Bumped,
    Raw,
    at_index,
    bump_shape,
    density_factor,
    total_variance,
)
from derivdata.support.arrays import Bools, Floats, Indices

_GRID = np.linspace(-REACH, REACH, 1361)  # in units of the bumps, 0.01 apart
_FIRST_STRIDE = 8  # every eighth point has conditions from the start
_ROUNDS = 5
# Maximum height of a bump relative to total variance at the money; higher ones would fit stale quotes.
_MAX_HEIGHT = 0.3
_MARGIN_G = 1e-3
_MARGIN_GAP = 1e-5  # in volatility
# Values of g and of gaps above which a condition is added only if a solution violates it.
_LOOSE_G = 0.6
_LOOSE_GAP = 0.05
_EDGE = 0.02  # fraction of a half spread that stays unused at each end
_MIN_HALF_SPREAD = 1e-3  # in volatility
_QUOTE_COST = 0.05  # of a volatility point of distance to a quote, in half spreads
_HEIGHT_COST = 0.1  # of a height, in half spreads
_STEPS = (1.0, 0.7, 0.4, 0.2, 0.1, 0.05)  # fractions of the step to a solution that are tried
# The rounds end at a change of the heights below this, in total variance, or relative to the largest total
# variance at the money if that exceeds 1. The limit is absolute: with one relative to each expiry, the fits
# of the sample's chains differ by less than 1e-10.
_UNCHANGED = 1e-4

Matrix: TypeAlias = Any
"""A sparse matrix. Annotations of scipy's class would need a type for every element."""


class Quotes(NamedTuple):
    """Quotes of one surface as flat arrays: expiry, log-moneyness, volatilities, weight and time."""

    expiry: Indices
    k: Floats
    iv: Floats
    bid: Floats
    ask: Floats
    weight: Floats
    t: Floats


class Grid(NamedTuple):
    """SVI and bumps of height 1 on the dense grid.

    `k`, `smooth` and `bumps` are of each expiry at its own places, the rest of each pair of neighbouring
    expiries at the places of both. Bumps are the last axis.
    """

    k: Floats
    smooth: list[Floats]
    """SVI total variance and its first two derivatives in k."""
    bumps: list[Floats]
    """Bumps and their first two derivatives in k."""
    rise: Floats
    """SVI total variance of the later minus the earlier expiry."""
    early: Floats
    """Bumps of the earlier expiry."""
    late: Floats
    """Bumps of the later expiry."""
    in_volatility: Floats
    """Volatility per total variance, which is the unit of the calendar conditions."""

    def jet(self, heights: Floats) -> list[Floats]:
        """Return total variance and its derivatives with bumps of these heights ``(expiries, bumps)``."""
        return [
            smooth + np.einsum("egb,eb->eg", bumps, heights)
            for smooth, bumps in zip(self.smooth, self.bumps, strict=True)
        ]

    def gaps(self, heights: Floats) -> Floats:
        """Return the increase of total variance from each expiry to the next."""
        late = np.einsum("egb,eb->eg", self.late, heights[1:])
        early = np.einsum("egb,eb->eg", self.early, heights[:-1])
        return np.asarray(self.rise + late - early)


def bumps_of(raw: Raw, quotes: Quotes, years: Floats) -> Bumped:
    """Return the slices of one surface with bumps, expiries in order of time; `raw` is free of arbitrage."""
    # 1. Set up the programme without conditions, and choose the places of the first conditions.
    unit = np.sqrt(total_variance(0.0, raw))
    grid = _grid(raw, unit, years)
    heights = np.zeros((unit.size, len(CENTRES)))
    costs, quote_rows, quote_limits = _programme(raw, unit, quotes)
    svi_rise = grid.rise * grid.in_volatility
    svi_g = density_factor(grid.k, *grid.smooth)
    min_rise = _lower_limit(svi_rise, _MARGIN_GAP)
    min_g = _lower_limit(svi_g, _MARGIN_G)
    has_condition_g = _first_places(svi_g < _LOOSE_G)
    has_condition_gap = _first_places(svi_rise < _LOOSE_GAP)
    calendar = _calendar_rows(grid, unit)
    other_variables = quote_rows.shape[1] - heights.size
    bounds = [(-_MAX_HEIGHT, _MAX_HEIGHT)] * heights.size + [(0.0, None)] * other_variables
    for turn in range(_ROUNDS):
        # 2. Solve it with the conditions at these places; g is linearised at the present heights. A condition
        # ``effect × heights >= limit`` is passed as ``−effect × heights <= −limit``.
        butterfly, butterfly_limits = _butterfly_rows(grid, unit, heights, min_g)
        places_g = np.flatnonzero(has_condition_g)
        places_gap = np.flatnonzero(has_condition_gap)
        effects = sparse.vstack([butterfly[places_g], calendar[places_gap]])
        calendar_slack = svi_rise.ravel()[places_gap] - min_rise.ravel()[places_gap]
        padding = sparse.csr_matrix((effects.shape[0], other_variables))
        solved = linprog(
            costs,
            A_ub=sparse.vstack([quote_rows, sparse.hstack([-effects, padding])]).tocsr(),
            b_ub=np.concatenate([quote_limits, -butterfly_limits[places_g], calendar_slack]),
            bounds=bounds,
            method="highs-ds",
        )
        if solved.x is None:
            break

        # 3. Go towards the solution, and add conditions where it violates them.
        target = solved.x[: heights.size].reshape(heights.shape) * unit[:, None] ** 2
        new, violated_g, violated_gap = _longest_step(grid, heights, target)
        has_condition_g |= violated_g
        has_condition_gap |= violated_gap
        change = np.abs(new - heights).max(initial=0.0) / (unit**2).max(initial=1.0)
        heights = new
        # The first round lacks the conditions that its solution violates, so a second one always follows.
        if turn > 0 and change < _UNCHANGED:
            break
    return Bumped(*raw, unit, *heights.T)


def _lower_limit(svi_value: Floats, margin: float) -> Floats:
    """Return the lower limit of each condition: a margin, or half of the SVI value if that is lower."""
    return np.minimum(margin, np.where(svi_value > 0.0, 0.5 * svi_value, svi_value))


def _first_places(is_near_limit: Bools) -> Bools:
    """Return a flat mask of places with conditions in the first round: every eighth, if near its limit."""
    is_first = np.zeros(is_near_limit.shape, dtype=bool)
    is_first[..., ::_FIRST_STRIDE] = True
    return np.asarray((is_first & is_near_limit).ravel())


def _grid(raw: Raw, unit: Floats, years: Floats) -> Grid:
    """Evaluate SVI and the bumps on the grid; `unit` is the deviation at the money of each expiry."""
    # 1. Evaluate each expiry at its own places.
    k = unit[:, None] * _GRID
    slices = at_index(raw, np.s_[:, None])
    smooth = [total_variance(k, slices, derivative=d) for d in (0, 1, 2)]
    bumps = [_shapes(k, unit, derivative=d) / (unit[:, None, None] ** d) for d in (0, 1, 2)]

    # 2. Evaluate each pair of expiries at every second place of both.
    k_of_pair = np.concatenate([k[:-1, ::2], k[1:, ::2]], axis=1)
    w_early = total_variance(k_of_pair, at_index(raw, np.s_[:-1, None]))
    w_late = total_variance(k_of_pair, at_index(raw, np.s_[1:, None]))
    return Grid(
        k,
        smooth,
        bumps,
        rise=w_late - w_early,
        early=_shapes(k_of_pair, unit[:-1]),
        late=_shapes(k_of_pair, unit[1:]),
        in_volatility=0.5 / np.sqrt(np.maximum(w_late * years[1:, None], 1e-300)),
    )


def _shapes(k: Floats, unit: Floats, *, derivative: int = 0) -> Floats:
    """Return bumps of height 1 at k ``(expiries, places)``: ``(expiries, places, bumps)``.

    A derivative is in ``k/unit``.
    """
    z = k / unit[:, None]
    return np.stack([bump_shape(z - centre, derivative=derivative) for centre in CENTRES], axis=-1)


def _longest_step(grid: Grid, heights: Floats, target: Floats) -> tuple[Floats, Bools, Bools]:
    """Return the heights after the longest step of `_STEPS` towards `target` that has no arbitrage.

    Also returns flat masks of the places where `target` itself violates the conditions of g and of rises.
    """
    min_gap = np.minimum(grid.rise, 0.0)
    target_violates_g = np.zeros(grid.k.size, dtype=bool)
    target_violates_gap = np.zeros(grid.rise.size, dtype=bool)
    for fraction in _STEPS:
        new = heights + fraction * (target - heights)
        violates_g = ~(density_factor(grid.k, *grid.jet(new)) > 0.0)
        violates_gap = grid.gaps(new) < min_gap
        if fraction == 1.0:
            target_violates_g = violates_g.ravel()
            target_violates_gap = violates_gap.ravel()
        if not violates_g.any() and not violates_gap.any():
            return new, target_violates_g, target_violates_gap
    return heights, target_violates_g, target_violates_gap


def _programme(raw: Raw, unit: Floats, quotes: Quotes) -> tuple[Floats, Matrix, Floats]:
    """Return costs of variables, rows of inequalities and their upper limits, without arbitrage conditions.

    Variables are the heights in units of total variance at the money, then for each quote with an ask its
    distance outside bid and ask, for each quote its distance to the quoted volatility, and the size of each
    height. A distance d to an interval [low, high] has the rows ``x − d <= high`` and ``−x − d <= −low``.
    """
    # 1. Compute the effect of each height on total variance at each quote.
    count = quotes.k.size
    height_count = unit.size * len(CENTRES)
    w = total_variance(quotes.k, at_index(raw, quotes.expiry))
    in_volatility = 0.5 / np.sqrt(w * quotes.t)
    quote_unit = unit[quotes.expiry]
    effects = _shapes(quotes.k[:, None], quote_unit)[:, 0] * (quote_unit**2)[:, None]
    rows = np.repeat(np.arange(count), len(CENTRES))
    columns = quotes.expiry[:, None] * len(CENTRES) + np.arange(len(CENTRES))
    effect = sparse.csr_matrix((effects.ravel(), (rows, columns.ravel())), shape=(count, height_count))

    # 2. Measure the distance outside bid and ask in half spreads; a missing bid is 0.
    has_ask = np.flatnonzero(np.isfinite(quotes.ask) & ~(quotes.bid > quotes.ask))
    ask = quotes.ask[has_ask]
    bid = np.where(np.isfinite(quotes.bid[has_ask]), quotes.bid[has_ask], 0.0)
    half_spread = np.maximum((ask - bid) / 2.0, _MIN_HALF_SPREAD)
    edge = _EDGE * np.minimum(half_spread, (ask - bid) / 2.0)
    in_half_spreads = in_volatility[has_ask] / half_spread
    t = quotes.t[has_ask]
    highest = (ask - edge) ** 2 * t - w[has_ask]
    lowest = (bid + edge) ** 2 * t - w[has_ask]
    spread_effect = sparse.diags(in_half_spreads) @ effect[has_ask]

    # 3. Measure the distance to the quoted volatility in volatility points.
    quote_effect = sparse.diags(in_volatility / 0.01) @ effect
    to_quote = (quotes.iv**2 * quotes.t - w) * in_volatility / 0.01

    # 4. Combine them.
    outside = sparse.identity(has_ask.size)
    off_quote = sparse.identity(count)
    height = sparse.identity(height_count)
    bmat: Any = sparse.bmat
    blocks = bmat(
        [
            [spread_effect, -outside, None, None],
            [-spread_effect, -outside, None, None],
            [quote_effect, None, -off_quote, None],
            [-quote_effect, None, -off_quote, None],
            [height, None, None, -height],
            [-height, None, None, -height],
        ]
    ).tocsr()
    spread_limits = [highest * in_half_spreads, -lowest * in_half_spreads]
    limits = np.concatenate([*spread_limits, to_quote, -to_quote, np.zeros(2 * height_count)])
    weight = quotes.weight / max(float(np.max(quotes.weight, initial=0.0)), 1e-300)
    costs = [
        np.zeros(height_count),
        np.ones(has_ask.size),
        _QUOTE_COST * weight,
        np.full(height_count, _HEIGHT_COST),
    ]
    return np.concatenate(costs), blocks, limits


def _calendar_rows(grid: Grid, unit: Floats) -> Matrix:
    """Return the effect of all heights on each gap, in volatility: rows (pair, place), columns of heights."""
    pairs, places, bumps = grid.early.shape
    early = -grid.early * (grid.in_volatility * unit[:-1, None] ** 2)[..., None]
    late = grid.late * (grid.in_volatility * unit[1:, None] ** 2)[..., None]
    row = np.arange(pairs * places).reshape(pairs, places, 1)
    column = np.arange(pairs)[:, None, None] * bumps + np.arange(bumps)
    flat_row = np.broadcast_to(row, early.shape).ravel()
    early_column = np.broadcast_to(column, early.shape).ravel()
    late_column = early_column + bumps
    values = np.concatenate([early.ravel(), late.ravel()])
    index = (np.concatenate([flat_row, flat_row]), np.concatenate([early_column, late_column]))
    return sparse.csr_matrix((values, index), shape=(pairs * places, (pairs + 1) * bumps))


def _butterfly_rows(grid: Grid, unit: Floats, heights: Floats, min_g: Floats) -> tuple[Matrix, Floats]:
    """Return the effect of heights on g, linearised at the present `heights`, and its lower limits.

    Rows are (expiry, place). The condition is ``effect × new heights >= limit``.
    """
    # 1. Differentiate Durrleman's g by w, w' and w'' (see `density_factor`), and these by the heights.
    w, dw, d2w = grid.jet(heights)
    tangent = 1.0 - grid.k * dw / (2.0 * w)
    g_w = tangent * grid.k * dw / w**2 + (dw / (2.0 * w)) ** 2
    g_dw = -tangent * grid.k / w - dw / 2.0 * (1.0 / w + 0.25)
    bump, d_bump, d2_bump = grid.bumps
    effect = g_w[..., None] * bump + g_dw[..., None] * d_bump + 0.5 * d2_bump
    g_without_heights = density_factor(grid.k, w, dw, d2w) - np.einsum("egb,eb->eg", effect, heights)

    # 2. Arrange the effect as a sparse matrix, in units of total variance at the money.
    effect = effect * (unit**2)[:, None, None]
    expiries, places, bumps = effect.shape
    row = np.arange(expiries * places).reshape(expiries, places, 1)
    column = np.arange(expiries)[:, None, None] * bumps + np.arange(bumps)
    index = (np.broadcast_to(row, effect.shape).ravel(), np.broadcast_to(column, effect.shape).ravel())
    matrix = sparse.csr_matrix((effect.ravel(), index), shape=(expiries * places, expiries * bumps))
    return matrix, np.asarray((min_g - g_without_heights).ravel())
