"""Levenberg-Marquardt inside bounds for many small least-squares problems at once.

Arrays keep the problems on the last axis: variables ``(P, N)``, Gram matrices ``(P, P, N)``. Problems leave
as they converge.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from derivdata.analysis.smile.parameters import Floats

__all__ = ["Index", "Local", "Minimum", "Problem", "diagonal", "gain", "minimise", "times"]

_TOLERANCE = 1e-9
_STILL = 1e-7
_SINGULAR = 1e-14
_NEGLIGIBLE = 1e-290

Index = NDArray[np.int64] | NDArray[np.bool_]


class Local(NamedTuple):
    """What is known of the problems where they stand.

    `x` are the variables, which an evaluation may improve on; `loss` the sum of squares, with ``nothing``
    as the value below which it is rounding; `gram` and `grad` the Jacobian's products with itself and with
    the residual (pointing downhill); `scale` what the damping factor multiplies on the diagonal.
    """

    x: Floats
    loss: Floats
    nothing: Floats
    gram: Floats
    grad: Floats
    scale: Floats


class Problem(Protocol):
    """Many least-squares problems of one kind, with bounds ``low <= x <= high`` of shape ``(P, N)``."""

    @property
    def low(self) -> Floats: ...
    @property
    def high(self) -> Floats: ...
    @property
    def reach(self) -> Floats:
        """The longest step of each variable, ``(P, 1)``."""

    def rows(self, index: Index) -> Self:
        """These problems only."""

    def evaluate(self, x: Floats) -> Local:
        """The problems at `x`."""


class Minimum(NamedTuple):
    """Where the search ended: variables, loss, whether its tolerance was met, evaluations spent."""

    x: Floats
    loss: Floats
    converged: NDArray[np.bool_]
    nfev: NDArray[np.int64]


def minimise(problem: Problem, start: Floats, *, steps: int = 60) -> Minimum:
    """The nearest minimum of each problem from `start`; no problem's result depends on the others."""
    count = start.shape[1]
    met, nfev = np.zeros(count, dtype=bool), np.ones(count, dtype=np.int64)
    found = Minimum(start.copy(), np.empty(count), met, nfev)
    here, live, damping = problem.evaluate(start), np.arange(count), _Damping(count)
    over = np.zeros(count, dtype=bool)
    for step in range(steps + 1):
        move, lowers = _move(problem, here, damping.factor)
        done = ~over & _arrived(here, move, lowers, damping.factor)
        met[live[done]] = True
        over |= done | (damping.factor > 1e10) | (step == steps)
        if over.sum() > 0.15 * over.size or (over.size < 64 and over.any()):
            gone, stay = live[over], ~over
            found.x[:, gone], found.loss[gone] = here.x[:, over], here.loss[over]
            problem, live, over, move = problem.rows(stay), live[stay], over[stay], move[:, stay]
            here = Local(*(part[..., stay] for part in here))
            damping.keep(stay)
        if not live.size:
            break
        here = _advance(problem, here, move, damping, ~over)
        nfev[live[~over]] += 1
    return found


def gain(gram: Floats, grad: Floats, step: Floats) -> Floats:
    """By how much `step` lowers the loss in the quadratic model."""
    return np.asarray((step * (2.0 * grad - times(gram, step))).sum(axis=0))


def times(gram: Floats, step: Floats) -> Floats:
    """Each matrix times its vector, added up in one order whatever the number of problems."""
    return np.asarray((gram * step).sum(axis=1))


def diagonal(gram: Floats) -> Floats:
    """Each matrix's diagonal, ``(P, N)``."""
    return np.asarray(gram[np.arange(len(gram)), np.arange(len(gram))])


class _Damping:
    """H. B. Nielsen's rule ("Damping parameter in Marquardt's method", IMM-REP-1999-05), per problem."""

    def __init__(self, problems: int) -> None:
        self.factor = np.full(problems, 1e-3)
        self.growth = np.full(problems, 2.0)

    def keep(self, rows: NDArray[np.bool_]) -> None:
        self.factor, self.growth = self.factor[rows], self.growth[rows]

    def update(self, ratio: Floats, going: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Adapt those that go on to actual over predicted decrease; True where the step was good."""
        better = ratio > 0.0
        shrink = np.maximum(1.0 / 9.0, 1.0 - (2.0 * np.minimum(ratio, 2.0) - 1.0) ** 3)
        factor = np.maximum(self.factor * np.where(better, shrink, self.growth), 1e-14)
        self.factor = np.where(going, factor, self.factor)
        self.growth = np.where(going, np.where(better, 2.0, 2.0 * self.growth), self.growth)
        return np.asarray(better & going)


def _arrived(here: Local, move: Floats, lowers: Floats, factor: Floats) -> NDArray[np.bool_]:
    """Nothing is left to gain; under heavy damping, nothing has moved any more."""
    small = lowers <= _TOLERANCE * here.loss
    still = np.abs(move).max(axis=0) <= _STILL
    return np.asarray(np.where(factor < 1.0, small, still) | (here.loss <= here.nothing))


def _move(problem: Problem, here: Local, factor: Floats) -> tuple[Floats, Floats]:
    low, high = np.minimum(problem.low - here.x, 0.0), np.maximum(problem.high - here.x, 0.0)
    damped = here.gram.copy()
    diagonal = np.arange(len(here.x))
    damped[diagonal, diagonal] += factor * here.scale
    move = _box_step(damped, here.grad, low, high)
    return move, gain(here.gram, here.grad, move)


def _advance(
    problem: Problem, here: Local, move: Floats, damping: _Damping, going: NDArray[np.bool_]
) -> Local:
    move = move / np.maximum((np.abs(move) / problem.reach).max(axis=0), 1.0)
    new = problem.evaluate(np.clip(here.x + move, problem.low, problem.high))
    predicted = gain(here.gram, here.grad, move)
    actual = here.loss - new.loss
    ratio = np.divide(actual, predicted, out=np.sign(actual), where=predicted > _NEGLIGIBLE)
    better = damping.update(ratio, going)
    return Local(*(np.where(better, after, before) for after, before in zip(new, here, strict=True)))


def _box_step(gram: Floats, grad: Floats, low: Floats, high: Floats) -> Floats:
    """A step with ``low <= d <= high`` (which contain 0) that lowers ``½ dᵀ gram d − gradᵀ d``.

    It goes to the free minimum. Where that lies outside, the path towards it is followed to the first
    bound, that variable is held there, and the search goes on in the others: every leg lowers the value.
    """
    free = ~(((low >= 0.0) & (grad <= 0.0)) | ((high <= 0.0) & (grad >= 0.0)))
    target = _solve(gram, grad, free, np.zeros_like(grad))
    out = np.flatnonzero(((target < low) | (target > high)).any(axis=0))
    if out.size:
        parts: list[Any] = [part[..., out] for part in (gram, grad, low, high, free, target)]
        target[:, out] = _walk(*parts)
    return target


def _walk(
    gram: Floats, grad: Floats, low: Floats, high: Floats, free: NDArray[np.bool_], target: Floats
) -> Floats:
    at = np.zeros_like(grad)
    for _ in range(len(grad)):
        move = np.where(free, target - at, 0.0)
        room = np.where(move > 0.0, high - at, at - low)
        legs = np.divide(room, np.abs(move), out=np.full_like(move, np.inf), where=move != 0.0)
        share = np.minimum(legs.min(axis=0), 1.0)
        at = np.clip(at + share * move, low, high)
        stopped = share < 1.0
        if not stopped.any():
            break
        free = free & ~((legs <= share) & stopped)
        target = np.where(stopped, _solve(gram, grad, free, at), at)
    return at


def _solve(gram: Floats, grad: Floats, free: NDArray[np.bool_], held: Floats) -> Floats:
    """The minimum in the free variables, the others staying at `held`; no move where `gram` is singular."""
    if free.all():
        matrix, right = gram.copy(), grad.copy()
    else:
        right = np.where(free, grad - times(gram, np.where(free, 0.0, held)), held)
        matrix = gram * (free[:, None] & free[None])
        matrix[np.arange(len(grad)), np.arange(len(grad))] += ~free
    least = _SINGULAR * diagonal(gram)
    for j in range(len(grad)):
        matrix[j, j, matrix[j, j] <= least[j]] = np.inf
        factor = matrix[j + 1 :, j] / matrix[j, j]
        matrix[j + 1 :, j + 1 :] -= factor[:, None] * matrix[j, None, j + 1 :]
        right[j + 1 :] -= factor * right[j]
    for j in range(len(grad) - 1, -1, -1):
        right[j] = (right[j] - (matrix[j, j + 1 :] * right[j + 1 :]).sum(axis=0)) / matrix[j, j]
    return right
