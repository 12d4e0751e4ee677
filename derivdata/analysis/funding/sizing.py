"""Sizes of pairs that earn most for their risk within limits: one convex problem at each instant."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from derivdata.support.arrays import Floats, Indices

_TINY = 1e-12
_ROUNDS = 300
_LEAST = 1e-4  # of the capital: what is smaller is what rounding leaves of none


class Limits(NamedTuple):
    """Limits of a portfolio; amounts are parts of the capital, those by venue are arrays."""

    most: float
    """Largest size of a pair."""
    share: float
    """Largest collateral on one venue."""
    liquidation: float
    """Largest probability within a week that one account is liquidated."""
    maintenance: Floats
    """Part of the legs' notional at which a venue liquidates."""
    counted: Floats
    """Part of the collateral that a venue counts."""
    initial: Floats | float
    """Least collateral of the legs' notional."""
    aversion: float
    """Of the variance of the outcome."""
    bears: Floats | float = 1.0
    """1 where an account bears what its legs gain and lose, 0 of coins that are owned."""


class Problem(NamedTuple):
    """What is known at an instant; sizes and collateral are parts of the capital."""

    gross: Floats
    """(pair) mean outcome of a leg's notional before cost."""
    cost: Floats
    """(pair) of the four trades, paid on what is added to a pair."""
    covariance: Floats
    """(pair, pair) of outcomes."""
    held: Floats
    """(pair) size of before."""
    signed: Floats
    """(venue, symbol, pair): 1 where a pair is long there, −1 where it is short."""
    moves: Floats
    """(symbol, symbol) covariance of prices while no collateral can be moved."""
    deviations: float
    """Standard deviations of that which an account bears."""
    limits: Limits

    def exposures(self, sizes: Floats) -> tuple[Floats, Floats]:
        """Return the notional of the legs on each venue, and the deviation of what they gain together."""
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

    A pair is held as it was at no cost, more of it costs. Mean and limits fall together with the sizes, so
    that a solution that rounding puts beyond a limit is made that much smaller.
    """
    from scipy.optimize import Bounds, NonlinearConstraint, minimize  # takes long to import

    limits, pairs, venues = problem.limits, problem.gross.size, len(problem.signed)
    # Variables: what is kept of each pair, what is added to it, and the collateral on each venue.
    both = np.hstack([np.eye(pairs), np.eye(pairs)])
    scale = max(float(np.abs(problem.gross).max(initial=0.0)), _TINY)
    per_venue = np.abs(problem.signed).sum(axis=1)
    bears, initial = (np.reshape(part, (-1, 1)) for part in (limits.bears, limits.initial))
    joint = np.einsum("vsk,st,vtl->vkl", problem.signed, problem.moves, problem.signed) * bears[..., None]

    def loss(x: Floats) -> tuple[float, Floats]:
        sizes = both @ x[: 2 * pairs]
        risk = limits.aversion * problem.covariance @ sizes
        value = problem.gross @ sizes - problem.cost @ x[pairs : 2 * pairs] - 0.5 * sizes @ risk
        slope = (problem.gross - risk) @ both - np.append(np.zeros(pairs), problem.cost)
        return float(-value / scale), np.append(-slope / scale, np.zeros(venues))

    def spare(x: Floats) -> Floats:
        sizes, collateral = both @ x[: 2 * pairs], x[2 * pairs :] * limits.counted
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

    more = np.maximum(limits.most - problem.held, 0.0)  # added where all that was held is kept
    upper = np.concatenate([problem.held, more, np.full(venues, limits.share)])
    keeps = np.concatenate(
        [problem.held, np.zeros(pairs), np.minimum(limits.share, problem.collateral(problem.held))]
    )
    found = minimize(
        loss,
        keeps,
        jac=True,
        method="SLSQP",
        bounds=Bounds(np.zeros(upper.size), upper),
        constraints=NonlinearConstraint(spare, 0.0, np.inf, jac=slopes),
        options={"maxiter": _ROUNDS, "ftol": 1e-10},
    )
    sizes: Floats = both @ found.x[: 2 * pairs]
    sizes[sizes < _LEAST] = 0.0
    needs = problem.collateral(sizes)
    needed, largest = (float(np.max(each, initial=0.0)) for each in (needs, sizes))
    over = max(needed / limits.share, float(needs.sum()), largest / limits.most, 1.0)
    return np.asarray(sizes / over)


def correlation(errors: Floats, decisions: float) -> Floats:
    """Return the correlation of errors (decision, pair), NaN where none is known, drawn to independence.

    By the intensity of Schäfer and Strimmer (2005, Statistical Applications in Genetics and Molecular Biology
    4(1)): the variance of the correlations, from as many independent decisions as there are, over the sum of
    their squares.
    """
    known = np.nan_to_num(errors)
    products = known.T @ known
    own = np.sqrt(np.maximum(np.diag(products), _TINY))
    found = products / own[:, None] / own[None, :]
    apart = found[~np.eye(len(found), dtype=bool)]
    variance = ((1.0 - apart**2) ** 2).sum() / max(decisions, 1.0)
    drawn = min(1.0, float(variance) / max(float((apart**2).sum()), _TINY)) if apart.size else 0.0
    return np.asarray((1.0 - drawn) * found + drawn * np.eye(len(found)))


def best_for_risk(net: Floats, deviation: Floats, held: Floats, number: int) -> Indices:
    """Return the places of so many pairs at most: those that are held, then the most net per deviation."""
    some = (net > 0.0) | (held > 0.0)
    rank = np.where(held > 0.0, np.inf, net / np.maximum(deviation, _TINY))
    order = np.argsort(np.where(some, -rank, np.inf), kind="stable")[: min(number, int(some.sum()))]
    return np.sort(order)
