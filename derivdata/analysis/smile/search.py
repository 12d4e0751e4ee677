"""Levenberg-Marquardt inside bounds, for many small least-squares problems at once.

`minimise` is the one solver of smiles and surfaces. Each problem has its own damping, its own active bounds
and its own end, and leaves the batch when it is done: its result does not depend on what else was in the
call, and a batch costs what its slowest members cost. Arrays keep the problems on the last axis: variables
``(P, N)``, Gram matrices ``(P, P, N)``. With up to eight variables the equations are eliminated here, one
numpy call for all problems per pivot, which adds up in one order on every machine; beyond that LAPACK is
faster.

The step solves ``(G + λ D) d = g`` with the Gauss-Newton matrix G, the downhill gradient g, the damping λ
and the problem's own scale D (its diagonal, so that the damping does not depend on units). Bounds: a
variable that leaves its bounds is held there and the rest is solved again (`_box_step`), so every step
lowers the model and a solution on a bound is nothing special.

Reference: Madsen, Nielsen and Tingleff, Methods for non-linear least squares problems (2004). The readable
version, one problem at a time, is ``tests/analysis/smile_reference.py``.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from derivdata.support.arrays import Bools, Floats, Ints

Index = NDArray[np.int64] | Bools

_TOLERANCE = 1e-9  # predicted decrease, relative to the loss, that is not worth an evaluation
_UNCHANGED = 1e-10  # change of the loss, of either sign, that counts as none
_STILL = 1e-7  # step that counts as none where the damping is heavy
_SINGULAR = 1e-14  # pivot, relative to its diagonal, below which a variable is not determined
_NEGLIGIBLE = 1e-290  # predicted decrease that is 0 but for rounding
_STUCK = 1e10  # damping at which a search is given up
_ELIMINATED = 8  # most variables for which elimination by hand beats LAPACK


class Linearised(NamedTuple):
    """The problems at a point: variables (maybe improved on), loss, what of it is rounding, and products.

    `gram` and `grad` are those of the Jacobian with itself and the residual; damping multiplies `scale`.
    """

    x: Floats
    loss: Floats
    nothing: Floats
    gram: Floats
    grad: Floats
    scale: Floats


class Problem(Protocol):
    """Many least-squares problems of one kind, with bounds ``(P, N)`` and longest steps ``(P, 1)``."""

    @property
    def low(self) -> Floats:
        """Least values."""

    @property
    def high(self) -> Floats:
        """Greatest values."""

    @property
    def reach(self) -> Floats:
        """The longest step of each variable."""

    def rows(self, index: Index) -> Self:
        """Return these problems only."""

    def evaluate(self, x: Floats) -> Linearised:
        """Evaluate the problems at `x`."""


class Minimum(NamedTuple):
    """End of a search: variables, loss, whether it converged, number of evaluations."""

    x: Floats
    loss: Floats
    converged: Bools
    nfev: Ints


def minimise(
    problem: Problem, start: Floats, *, steps: int = 60, damping: float = 1e-3, tolerance: float = _TOLERANCE
) -> Minimum:
    """Find the minimum of each problem nearest to `start` ``(P, N)``, with at most `steps` evaluations.

    A search ends where the next step is predicted to lower the loss by less than `tolerance` of it, and where
    a step has changed it by at most 1e-10 of it. The sign of that change does not matter: at a minimum
    rounding decides it, and waiting for a decrease would be waiting for luck.
    """
    count = start.shape[1]
    met, nfev = np.zeros(count, dtype=bool), np.ones(count, dtype=np.int64)
    result = Minimum(start.copy(), np.empty(count), met, nfev)
    here, live, rule = problem.evaluate(start), np.arange(count), _Damping(count, damping)
    over = np.zeros(count, dtype=bool)
    for step in range(steps + 1):
        move, lowers = _move(problem, here, rule.factor)
        small = lowers <= tolerance * here.loss
        still = np.abs(move).max(axis=0) <= _STILL
        # Under heavy damping every step promises little, so there only a step that is none is an end.
        done = ~over & (np.where(rule.factor < 1.0, small, still) | (here.loss <= here.nothing))
        met[live[done]] = True
        over |= done | (rule.factor > _STUCK) | (step == steps)
        # Problems that are over are carried along until they are worth a copy of all the others.
        if over.sum() > 0.15 * over.size or (over.size < 64 and over.any()):
            gone, stay = live[over], ~over
            result.x[:, gone], result.loss[gone] = here.x[:, over], here.loss[over]
            problem, live, over, move = problem.rows(stay), live[stay], over[stay], move[:, stay]
            here = Linearised(*(part[..., stay] for part in here))
            rule.keep(stay)
        if not live.size:
            break
        here, unchanged = _advance(problem, here, move, rule, ~over)
        nfev[live[~over]] += 1
        met[live[unchanged]] = True
        over |= unchanged
    return result


def gain(gram: Floats, grad: Floats, step: Floats) -> Floats:
    """Return by how much `step` lowers the loss in the quadratic model."""
    return np.asarray((step * (2.0 * grad - times(gram, step))).sum(axis=0))


def times(gram: Floats, step: Floats) -> Floats:
    """Each matrix times its vector, added up in one order whatever the number of problems."""
    return np.asarray((gram * step).sum(axis=1))


def diagonal(gram: Floats) -> Floats:
    """Each matrix's diagonal, ``(P, N)``."""
    found: Floats = np.einsum("ppn->pn", gram)
    return found


class _Damping:
    """H. B. Nielsen's rule ("Damping parameter in Marquardt's method", IMM-REP-1999-05), per problem.

    After a good step with the ratio ρ of actual to predicted decrease the damping is multiplied by
    ``max(1/9, 1 − (2ρ − 1)³)`` (1/3 in the report): less where the model was right, up to twice where it was
    not. After a bad step it is multiplied by 2, 4, 8, … until one is good.
    """

    def __init__(self, problems: int, factor: float) -> None:
        self.factor = np.full(problems, factor)
        self.growth = np.full(problems, 2.0)

    def keep(self, rows: Bools) -> None:
        self.factor, self.growth = self.factor[rows], self.growth[rows]

    def update(self, ratio: Floats, going: Bools) -> Bools:
        """Adapt those that go on to actual over predicted decrease; True where the step was good."""
        better = ratio > 0.0
        shrink = np.maximum(1.0 / 9.0, 1.0 - (2.0 * np.minimum(ratio, 2.0) - 1.0) ** 3)
        factor = np.maximum(self.factor * np.where(better, shrink, self.growth), 1e-14)
        self.factor = np.where(going, factor, self.factor)
        self.growth = np.where(going, np.where(better, 2.0, 2.0 * self.growth), self.growth)
        return np.asarray(better & going)


def _move(problem: Problem, here: Linearised, factor: Floats) -> tuple[Floats, Floats]:
    # Bounds of the step, not of the variables; 0 lies between them also where rounding put x outside.
    low, high = np.minimum(problem.low - here.x, 0.0), np.maximum(problem.high - here.x, 0.0)
    damped = here.gram.copy()
    diagonal(damped)[:] += factor * here.scale
    move = _box_step(damped, here.grad, low, high)
    return move, gain(here.gram, here.grad, move)


def _advance(
    problem: Problem, here: Linearised, move: Floats, rule: _Damping, going: Bools
) -> tuple[Linearised, Bools]:
    """Follow the step where it leads to a lower loss; and tell where it changed nothing."""
    move = move / np.maximum((np.abs(move) / problem.reach).max(axis=0), 1.0)
    new = problem.evaluate(np.clip(here.x + move, problem.low, problem.high))
    predicted = gain(here.gram, here.grad, move)
    actual = here.loss - new.loss
    ratio = np.divide(actual, predicted, out=np.sign(actual), where=predicted > _NEGLIGIBLE)
    light = rule.factor < 1.0
    better = rule.update(ratio, going)
    unchanged = going & light & (np.abs(actual) <= _UNCHANGED * here.loss)
    at = Linearised(*(np.where(better, after, before) for after, before in zip(new, here, strict=True)))
    return at, np.asarray(unchanged)


def _box_step(gram: Floats, grad: Floats, low: Floats, high: Floats) -> Floats:
    """Return a step with ``low <= d <= high`` that lowers ``½ dᵀ gram d − gradᵀ d``; 0 lies within.

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


def _walk(gram: Floats, grad: Floats, low: Floats, high: Floats, free: Bools, target: Floats) -> Floats:
    # One leg per variable at most: each leg that does not arrive fixes at least one at its bound. `legs` is
    # the share of the way at which each variable meets its bound.
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


def _solve(gram: Floats, grad: Floats, free: Bools, fixed_move: Floats) -> Floats:
    """Solve for the free variables, the others staying at `fixed_move`; no move where `gram` is singular."""
    if free.all():
        matrix, right = gram.copy(), grad.copy()
    else:
        right = np.where(free, grad - times(gram, np.where(free, 0.0, fixed_move)), fixed_move)
        matrix = gram * (free[:, None] & free[None])
        diagonal(matrix)[:] += ~free
    # Rows and columns of fixed variables are those of the identity: every problem keeps its size in the
    # batch.
    if len(grad) > _ELIMINATED:
        solved = np.linalg.solve(np.moveaxis(matrix, -1, 0), np.moveaxis(right, -1, 0)[..., None])
        return np.asarray(solved[..., 0].T)
    # A pivot that is 0 but for rounding becomes infinite: its variable then does not move, nor does it act on
    # the others.
    least = _SINGULAR * diagonal(gram)
    for j in range(len(grad)):
        matrix[j, j, matrix[j, j] <= least[j]] = np.inf
        factor = matrix[j + 1 :, j] / matrix[j, j]
        matrix[j + 1 :, j + 1 :] -= factor[:, None] * matrix[j, None, j + 1 :]
        right[j + 1 :] -= factor * right[j]
    for j in range(len(grad) - 1, -1, -1):
        right[j] = (right[j] - (matrix[j, j + 1 :] * right[j + 1 :]).sum(axis=0)) / matrix[j, j]
    return right
