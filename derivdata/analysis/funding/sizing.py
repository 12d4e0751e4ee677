"""Sizes of pairs: a convex problem at each time, and the margin that an account needs on its own."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pandas as pd

from derivdata.analysis.funding.rolling import sliding
from derivdata.support.arrays import Floats, Indices

_TINY = 1e-12
_ROUNDS = 300
_LEAST = 1e-4  # fraction of the capital below which a size is rounding error


class Limits(NamedTuple):
    """Limits of a portfolio; amounts are parts of the capital, those by venue are arrays."""

    most: float
    """Largest size of a pair."""
    share: float
    """Largest collateral on one venue."""
    liquidation: float
    """Largest probability within a week that one account is liquidated."""
    maintenance: Floats
    """Fraction of the legs' notional at which a venue liquidates."""
    counted: Floats
    """Fraction of the collateral that a venue counts."""
    initial: Floats | float
    """Minimum collateral as a fraction of the legs' notional."""
    aversion: float
    """Variance of the outcome."""
    bears: Floats | float = 1.0
    """1 if the account covers the gains and losses of its legs, 0 for owned coins."""


class Problem(NamedTuple):
    """Data known at one time; sizes and collateral are fractions of the capital."""

    gross: Floats
    """(pair) mean outcome of a leg's notional before cost."""
    cost: Floats
    """(pair) cost of the four trades, paid on additions to a pair."""
    covariance: Floats
    """(pair, pair) of outcomes."""
    held: Floats
    """(pair) previous size."""
    signed: Floats
    """(venue, symbol, pair): 1 where a pair is long there, −1 where it is short."""
    moves: Floats
    """(symbol, symbol) covariance of prices while no collateral can be moved."""
    deviations: float
    """Number of standard deviations that an account covers."""
    limits: Limits

    def exposures(self, sizes: Floats) -> tuple[Floats, Floats]:
        """Return the notional of the legs on each venue, and the standard deviation of their joint gain."""
        gross = np.abs(self.signed).sum(axis=1) @ sizes
        held = self.signed @ sizes
        variance = np.maximum(np.einsum("vs,st,vt->v", held, self.moves, held), 0.0)
        return gross, self.limits.bears * np.sqrt(variance)

    def collateral(self, sizes: Floats) -> Floats:
        """Return the collateral that each venue's account needs."""
        gross, deviation = self.exposures(sizes)
        bears = self.limits.maintenance * gross + self.deviations * deviation
        return np.asarray(np.maximum(bears, self.limits.initial * gross) / self.limits.counted)


def solve(problem: Problem) -> Floats:
    """Return the sizes that have the highest mean outcome less half the aversion times its variance.

    Keeping a pair has no cost, adding to it has. Mean and limits scale with the sizes, so a solution that
    exceeds a limit by rounding is scaled down.
    """
    from scipy.optimize import Bounds, NonlinearConstraint, minimize  # takes long to import

    limits = problem.limits
    pairs = problem.gross.size
    venues = len(problem.signed)
    # Variables: the kept part of each pair, the added part, and the collateral on each venue.
    both = np.hstack([np.eye(pairs), np.eye(pairs)])
    scale = max(float(np.abs(problem.gross).max(initial=0.0)), _TINY)
    per_venue = np.abs(problem.signed).sum(axis=1)
    bears, initial = (np.reshape(values, (-1, 1)) for values in (limits.bears, limits.initial))
    joint = np.einsum("vsk,st,vtl->vkl", problem.signed, problem.moves, problem.signed) * bears[..., None]

    def loss(x: Floats) -> tuple[float, Floats]:
        sizes = both @ x[: 2 * pairs]
        risk = limits.aversion * problem.covariance @ sizes
        value = problem.gross @ sizes - problem.cost @ x[pairs : 2 * pairs] - 0.5 * sizes @ risk
        slope = (problem.gross - risk) @ both - np.append(np.zeros(pairs), problem.cost)
        return float(-value / scale), np.append(-slope / scale, np.zeros(venues))

    def spare(x: Floats) -> Floats:
        sizes = both @ x[: 2 * pairs]
        collateral = x[2 * pairs :] * limits.counted
        gross = per_venue @ sizes
        deviation = np.sqrt(np.maximum(joint @ sizes @ sizes, 0.0) + _TINY) - np.sqrt(_TINY)
        margin = limits.maintenance * gross + problem.deviations * deviation
        total = 1.0 - x[2 * pairs :].sum()
        return np.concatenate([collateral - margin, collateral - limits.initial * gross, [total]])

    def slopes(x: Floats) -> Floats:
        sizes = both @ x[: 2 * pairs]
        moved = joint @ sizes
        deviation = np.sqrt(np.maximum(moved @ sizes, 0.0) + _TINY)
        margin = limits.maintenance[:, None] * per_venue + problem.deviations * moved / deviation[:, None]
        of_sizes = np.vstack([margin, initial * per_venue, np.zeros((1, pairs))]) @ both
        own = np.diag(limits.counted)
        return np.hstack([-of_sizes, np.vstack([own, own, -np.ones((1, venues))])])

    more = np.maximum(limits.most - problem.held, 0.0)  # added if all of the current size is kept
    upper = np.concatenate([problem.held, more, np.full(venues, limits.share)])
    keeps = np.concatenate(
        [problem.held, np.zeros(pairs), np.minimum(limits.share, problem.collateral(problem.held))]
    )
    solution = minimize(
        loss,
        keeps,
        jac=True,
        method="SLSQP",
        bounds=Bounds(np.zeros(upper.size), upper),
        constraints=NonlinearConstraint(spare, 0.0, np.inf, jac=slopes),
        options={"maxiter": _ROUNDS, "ftol": 1e-10},
    )
    sizes: Floats = both @ solution.x[: 2 * pairs]
    sizes[sizes < _LEAST] = 0.0
    needs = problem.collateral(sizes)
    needed, largest = (float(np.max(amounts, initial=0.0)) for amounts in (needs, sizes))
    over = max(needed / limits.share, float(needs.sum()), largest / limits.most, 1.0)
    return np.asarray(sizes / over)


def correlation(errors: Floats, decisions: float) -> Floats:
    """Return the correlation of errors (decision, pair), NaN if unknown, shrunk to independence.

    By the intensity of Schäfer and Strimmer (2005, Statistical Applications in Genetics and Molecular Biology
    4(1)): the variance of the correlations, from as many independent decisions as there are, over the sum of
    their squares.
    """
    errors_or_zero = np.nan_to_num(errors)
    products = errors_or_zero.T @ errors_or_zero
    own = np.sqrt(np.maximum(np.diag(products), _TINY))
    correlations = products / own[:, None] / own[None, :]
    apart = correlations[~np.eye(len(correlations), dtype=bool)]
    variance = ((1.0 - apart**2) ** 2).sum() / max(decisions, 1.0)
    drawn = min(1.0, float(variance) / max(float((apart**2).sum()), _TINY)) if apart.size else 0.0
    return np.asarray((1.0 - drawn) * correlations + drawn * np.eye(len(correlations)))


def best_for_risk(net: Floats, deviation: Floats, held: Floats, number: int) -> Indices:
    """Return the places of at most `number` pairs: current ones, then the highest net per deviation."""
    some = (net > 0.0) | (held > 0.0)
    rank = np.where(held > 0.0, np.inf, net / np.maximum(deviation, _TINY))
    order = np.argsort(np.where(some, -rank, np.inf), kind="stable")[: min(number, int(some.sum()))]
    return np.sort(order)


_HALF_LIFE_HOURS = 14.0 * 24.0  # of the weight of a past move in volatility and correlation
_LEAST_SPANS = 30.0  # spans of history before a result is reported
_TAIL = 0.1  # part of the largest moves that the tail is fitted to
_INDEX = 3.0
_INDEX_WEIGHT = 10.0
"""Tail index that is expected beforehand, of as many moves (the inverse cubic law of returns)."""
_WEEK = 168.0


class Moves(NamedTuple):
    """Moves of prices within a span, as known at some times; NaN if history is too short."""

    covariance: Floats
    """(time, symbol, symbol): of the logarithms of prices over the span."""
    threshold: Floats
    """(time) standard deviations that a tenth of the largest moves within a span exceed."""
    tail: Floats
    """(time) tail index: beyond the threshold the probability is ``0.1 (x / threshold) ** −index``."""
    spans: float
    """Number of spans in a week."""

    def deviations(self, at: int, weekly: float) -> float:
        """Return how many standard deviations a span's largest move exceeds with this probability a week."""
        probability = -np.expm1(np.log1p(-weekly) / self.spans)
        # A move with a probability above one in ten is not rare: the smallest threshold is used.
        return float(self.threshold[at] * max(_TAIL / probability, 1.0) ** (1.0 / self.tail[at]))

    def weekly(self, at: int, deviations: Floats) -> Floats:
        """Return the probability that a span's largest move exceeds some deviations within a week."""
        beyond = np.maximum(deviations / self.threshold[at], 1e-12)
        probability = np.minimum(_TAIL * beyond ** -self.tail[at], 1.0)
        return np.asarray(1.0 - (1.0 - probability) ** self.spans)


def moves_of(levels: Floats, step: float, span: float, at: Indices) -> Moves:
    """Return the moves of levels (symbol, row) within a span of hours, known at some rows.

    Rows are `step` hours apart. Volatility comes from recent moves, the newest with most weight. The largest
    rise and the largest fall within each past span, in units of the volatility known at its start, give the
    distribution (filtered historical simulation: Barone-Adesi, Giannopoulos and Vosper 1999), and their
    largest tenth its tail (Hill 1975).
    """
    rows = max(1, round(span / step))
    deviation, correlation = _recent(np.diff(levels, axis=1, prepend=np.nan), _HALF_LIFE_HOURS / step, at)
    deviation *= np.sqrt(rows)
    upward, downward = (_largest(sign * levels, rows) for sign in (1.0, -1.0))
    with np.errstate(divide="ignore", invalid="ignore"):
        standard = np.stack([upward, downward]) / deviation
    threshold, index = np.full((2, at.size), np.nan)
    for place, row in enumerate(map(int, at)):
        past = standard[..., : max(row - rows + 1, 0)]  # spans that are over
        past = past[np.isfinite(past)]
        if row + 1 < _LEAST_SPANS * rows or not past.size:
            continue
        threshold[place] = np.quantile(past, 1.0 - _TAIL)
        tail = past[past > threshold[place]]
        number = max(tail.size / rows, 1.0)  # overlapping spans share information
        excess = float(np.log(tail / threshold[place]).mean()) if tail.size else 0.0
        index[place] = (number + _INDEX_WEIGHT) / (number * excess + _INDEX_WEIGHT / _INDEX)
    own = deviation[:, at].T
    return Moves(own[:, :, None] * correlation * own[:, None, :], threshold, index, _WEEK / span)


def _recent(moves: Floats, half_life: float, at: Indices) -> tuple[Floats, Floats]:
    """Return deviations (symbol, row) of recent moves, and their correlations (at, symbol, symbol)."""

    def mean(values: Floats) -> Floats:
        smoothed: Floats = pd.DataFrame(values.T).ewm(halflife=half_life, ignore_na=True).mean().to_numpy().T
        return smoothed

    deviation = np.sqrt(mean(moves**2))
    with np.errstate(divide="ignore", invalid="ignore"):
        standard = moves / deviation
    number = len(moves)
    count = at.size
    products = mean((standard[:, None] * standard[None]).reshape(number**2, -1))[:, at]
    products = np.moveaxis(products.reshape(number, number, count), -1, 0)
    own = np.sqrt(np.maximum(np.einsum("tii->ti", products), 1e-300))
    return deviation, np.clip(products / own[:, :, None] / own[:, None, :], -1.0, 1.0)


def _largest(levels: Floats, rows: int) -> Floats:
    """Return the largest rise of levels within `rows` rows after each; NaN near the end."""
    highest = np.full(levels.shape, np.nan)
    if levels.shape[1] > rows:
        highest[:, :-rows] = sliding(np.fmax, levels[:, 1:], rows)
    return highest - levels
