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
_FIRST = 8  # every eighth point has conditions from the start
_ROUNDS = 5
# Maximum height of a bump relative to total variance at the money; higher ones would fit stale quotes.
_HIGHEST = 0.3
_MARGIN_G, _MARGIN_GAP = 1e-3, 1e-5  # margins of g and of volatility
_LOOSE_G, _LOOSE_GAP = 0.6, 0.05  # values above which a condition is added only if a solution violates it
_EDGE = 0.02  # fraction of a half spread that stays unused at each end
_NARROWEST = 1e-3  # minimum half spread in volatility
_TO_QUOTES = 0.05
_TO_NOTHING = 0.1
_STEPS = (1.0, 0.7, 0.4, 0.2, 0.1, 0.05)
_SETTLED = 1e-4

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
    """SVI and shapes on the dense grid.

    `smooth` and `bumps` have the value and both derivatives in k, of each expiry at its own places; the rest
    is of each pair of expiries at the places of both: how much SVI rises, and the shapes of both.
    """

    k: Floats
    smooth: list[Floats]
    bumps: list[Floats]
    rise: Floats
    early: Floats
    late: Floats
    in_volatility: Floats

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
    unit = np.sqrt(total_variance(0.0, raw))
    grid = _grid(raw, unit, years)
    heights = np.zeros((unit.size, len(CENTRES)))
    objective, rows, limits = _programme(raw, unit, quotes)
    rises = _lower(grid.gaps(heights) * grid.in_volatility, _MARGIN_GAP)
    floor_g = _lower(density_factor(grid.k, *grid.smooth), _MARGIN_G)
    places_g = _started(density_factor(grid.k, *grid.smooth) < _LOOSE_G)
    places_gap = _started(grid.gaps(heights) * grid.in_volatility < _LOOSE_GAP)
    calendar = _calendar_rows(grid, unit)
    for turn in range(_ROUNDS):
        conditions, at_least = _butterfly_rows(grid, unit, heights, floor_g)
        chosen_g = np.flatnonzero(places_g)
        chosen_gap = np.flatnonzero(places_gap)
        wide = rows.shape[1] - heights.size
        more = sparse.vstack([conditions[chosen_g], calendar[chosen_gap]])
        start = (grid.rise * grid.in_volatility).ravel()[chosen_gap] - rises.ravel()[chosen_gap]
        bounds = np.concatenate([limits, -at_least[chosen_g], start])
        padded = sparse.hstack([-more, sparse.csr_matrix((more.shape[0], wide))])
        solved = linprog(
            objective, A_ub=sparse.vstack([rows, padded]).tocsr(), b_ub=bounds,
            bounds=[(-_HIGHEST, _HIGHEST)] * heights.size + [(0.0, None)] * wide, method="highs-ds",
        )  # fmt: skip
        if solved.x is None:
            break
        target = solved.x[: heights.size].reshape(heights.shape) * unit[:, None] ** 2
        new, broken_g, broken_gap = _accepted(grid, heights, target, rises)
        places_g |= broken_g
        places_gap |= broken_gap
        moved = np.abs(new - heights).max(initial=0.0) / (unit**2).max(initial=1.0)
        heights = new
        if turn and moved < _SETTLED:
            break
    return Bumped(*raw, unit, *heights.T)


def _lower(values: Floats, margin: float) -> Floats:
    """Return the lower limit of each condition: a margin, or half of the SVI value if that is lower."""
    return np.minimum(margin, np.where(values > 0.0, 0.5 * values, values))


def _started(tight: Bools) -> Bools:
    """Return the indices of points with a condition from the start, in flat order."""
    every = np.zeros(tight.shape, dtype=bool)
    every[..., ::_FIRST] = True
    return np.asarray((every & tight).ravel())


def _grid(raw: Raw, unit: Floats, years: Floats) -> Grid:
    k = unit[:, None] * _GRID
    column = at_index(raw, np.s_[:, None])
    smooth = [total_variance(k, column, derivative=d) for d in (0, 1, 2)]
    bumps = [_shapes(k, unit, derivative=d) / (unit[:, None, None] ** d) for d in (0, 1, 2)]
    both = np.concatenate([k[:-1, ::2], k[1:, ::2]], axis=1)
    first, second = (at_index(raw, (rows, None)) for rows in (slice(None, -1), slice(1, None)))
    later = total_variance(both, second)
    rise = later - total_variance(both, first)
    in_volatility = 0.5 / np.sqrt(np.maximum(later * years[1:, None], 1e-300))
    return Grid(k, smooth, bumps, rise, _shapes(both, unit[:-1]), _shapes(both, unit[1:]), in_volatility)


def _shapes(k: Floats, unit: Floats, *, derivative: int = 0) -> Floats:
    """Return the bumps of height 1 of each expiry at its places, derivatives in units: bumps last."""
    z = k / unit[:, None]
    return np.stack([bump_shape(z - centre, derivative=derivative) for centre in CENTRES], axis=-1)


def _accepted(grid: Grid, heights: Floats, target: Floats, rises: Floats) -> tuple[Floats, Bools, Bools]:
    """Return the longest admissible step to `target`, and where the full step violates conditions."""
    lowest = np.minimum(grid.rise, 0.0)
    broken_g = np.zeros(grid.k.size, dtype=bool)
    broken_gap = np.zeros(rises.size, dtype=bool)
    for share in _STEPS:
        new = heights + share * (target - heights)
        w, slope, bend = grid.jet(new)
        g = density_factor(grid.k, w, slope, bend)
        bad_g = ~(g > 0.0)
        bad_gap = grid.gaps(new) < lowest
        if share == 1.0:
            broken_g = bad_g.ravel()
            broken_gap = bad_gap.ravel()
        if not bad_g.any() and not bad_gap.any():
            return new, broken_g, broken_gap
    return heights, broken_g, broken_gap


def _programme(raw: Raw, unit: Floats, quotes: Quotes) -> tuple[Floats, Matrix, Floats]:
    """Return costs, rows and their upper limits, without the arbitrage conditions.

    Variables are the heights in units of total variance at the money, then for each quote with two sides its
    distance outside them, for each quote its distance to the quoted volatility, and the size of each height.
    """
    count = quotes.k.size
    size = unit.size * len(CENTRES)
    own = at_index(raw, quotes.expiry)
    w = total_variance(quotes.k, own)
    by_volatility = 0.5 / np.sqrt(w * quotes.t)
    values = _shapes(quotes.k[:, None], unit[quotes.expiry])[:, 0] * (unit[quotes.expiry] ** 2)[:, None]
    columns = quotes.expiry[:, None] * len(CENTRES) + np.arange(len(CENTRES))
    rows = np.repeat(np.arange(count), len(CENTRES))
    moves = sparse.csr_matrix((values.ravel(), (rows, columns.ravel())), shape=(count, size))
    sided = np.flatnonzero(np.isfinite(quotes.ask) & ~(quotes.bid > quotes.ask))
    ask = quotes.ask[sided]
    bid = np.where(np.isfinite(quotes.bid[sided]), quotes.bid[sided], 0.0)
    half = np.maximum((ask - bid) / 2.0, _NARROWEST)
    room = _EDGE * np.minimum(half, (ask - bid) / 2.0)
    t = quotes.t[sided]
    scale = by_volatility[sided] / half
    highest = (ask - room) ** 2 * t - w[sided]
    lowest = (bid + room) ** 2 * t - w[sided]
    to_spread = sparse.diags(scale) @ moves[sided]
    to_quote = sparse.diags(by_volatility / 0.01) @ moves
    apart = (quotes.iv**2 * quotes.t - w) * by_volatility / 0.01
    outside = sparse.identity(sided.size)
    off = sparse.identity(count)
    height = sparse.identity(size)
    bmat: Any = sparse.bmat
    blocks = bmat(
        [
            [to_spread, -outside, None, None],
            [-to_spread, -outside, None, None],
            [to_quote, None, -off, None],
            [-to_quote, None, -off, None],
            [height, None, None, -height],
            [-height, None, None, -height],
        ]
    ).tocsr()
    limits = np.concatenate([highest * scale, -lowest * scale, apart, -apart, np.zeros(2 * size)])
    weight = quotes.weight / max(float(np.max(quotes.weight, initial=0.0)), 1e-300)
    costs = [np.zeros(size), np.ones(sided.size), _TO_QUOTES * weight, np.full(size, _TO_NOTHING)]
    return np.concatenate(costs), blocks, limits


def _calendar_rows(grid: Grid, unit: Floats) -> Matrix:
    """Return the effect of heights on each gap, in volatility."""
    pairs, places, bumps = grid.early.shape
    early = -grid.early * (grid.in_volatility * unit[:-1, None] ** 2)[..., None]
    late = grid.late * (grid.in_volatility * unit[1:, None] ** 2)[..., None]
    row = np.arange(pairs * places).reshape(pairs, places, 1)
    column = np.arange(pairs)[:, None, None] * bumps + np.arange(bumps)
    index = [np.broadcast_to(indices, early.shape).ravel() for indices in (row, column, column + bumps)]
    values = np.concatenate([early.ravel(), late.ravel()])
    where = (np.concatenate([index[0], index[0]]), np.concatenate([index[1], index[2]]))
    return sparse.csr_matrix((values, where), shape=(pairs * places, (pairs + 1) * bumps))


def _butterfly_rows(grid: Grid, unit: Floats, heights: Floats, floor: Floats) -> tuple[Matrix, Floats]:
    """Return the effect of heights on the current g, and the required remainder."""
    w, slope, bend = grid.jet(heights)
    tangent = 1.0 - grid.k * slope / (2.0 * w)
    by_w = tangent * grid.k * slope / w**2 + (slope / (2.0 * w)) ** 2
    by_slope = -tangent * grid.k / w - slope / 2.0 * (1.0 / w + 0.25)
    first, second, third = grid.bumps
    values = by_w[..., None] * first + by_slope[..., None] * second + 0.5 * third
    now = density_factor(grid.k, w, slope, bend) - np.einsum("egb,eb->eg", values, heights)
    values = values * (unit**2)[:, None, None]
    expiries, places, bumps = values.shape
    row = np.arange(expiries * places).reshape(expiries, places, 1)
    column = np.arange(expiries)[:, None, None] * bumps + np.arange(bumps)
    where = [np.broadcast_to(index, values.shape).ravel() for index in (row, column)]
    rows = sparse.csr_matrix(
        (values.ravel(), (where[0], where[1])), shape=(expiries * places, expiries * bumps)
    )
    return rows, np.asarray((floor - now).ravel())
