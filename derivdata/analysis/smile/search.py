"""Levenberg-Marquardt within bounds, for many small least-squares problems at once.

`minimise` is the only solver. Each problem has its own damping, active bounds and end, and leaves the batch
when it is done: its result does not depend on the other problems in the call, and the cost of a batch is that
of its slowest members. Arrays have the problems on the last axis: variables ``(P, N)``.

The step solves ``(G + λ D) d = g`` with the Gauss-Newton matrix G, the downhill gradient g, the damping λ and
the problem's own scale D (its diagonal, so that the damping does not depend on units). Bounds: a variable
that leaves its bounds is fixed there, and the rest is solved again (`_box_step`), so every step lowers the
model and a solution on a bound needs no special case.

G is `Dense`, or `Banded` if each variable interacts only with its neighbours: then all problems are one band
matrix, which LAPACK factorises in one call.

Reference: Madsen, Nielsen and Tingleff, Methods for non-linear least squares problems (2004). The readable
version, one problem at a time, is ``tests/analysis/smile_reference.py``.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol, Self

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.blas import dsbmv
from scipy.linalg.lapack import dpbsv

from derivdata.support.arrays import Bools, Floats, Ints

Index = NDArray[np.int64] | Bools

_TOLERANCE = 1e-9  # predicted relative decrease of the loss that ends the search
_UNCHANGED = 1e-10  # relative change of the loss, of either sign, that counts as none
_ZERO_STEP = 1e-7  # step that counts as none under heavy damping
_SINGULAR = 1e-14  # pivot relative to its diagonal below which a variable counts as undetermined
_NEGLIGIBLE = 1e-290  # predicted decrease that counts as 0
_MAX_DAMPING = 1e10  # damping at which a search is abandoned
_MAX_ELIMINATED = 8  # maximum number of variables for which explicit elimination is faster than LAPACK


class Gram(Protocol):
    """Symmetric positive matrices of many problems."""

    def rows(self, index: Index) -> Self:
        """Return the matrices of the selected problems."""

    def replaced(self, other: Any, chosen: Bools) -> Self:
        """Return a copy with the selected problems replaced by those of another instance."""

    def damped(self, more: Floats) -> Self:
        """Return the matrices with ``(P, N)`` added to their diagonals."""

    def times(self, step: Floats) -> Floats:
        """Return each matrix times its vector, ``(P, N)``."""

    def solve(self, right: Floats, free: Bools) -> Floats:
        """Solve for the free variables; rows and columns of the others are those of the identity."""


class Dense(NamedTuple):
    """Matrices as one array ``(P, P, N)``.

    Up to eight variables are eliminated with one numpy call per pivot for all problems, which gives the same
    order of additions on every machine. For more variables LAPACK is faster.
    """

    matrix: Floats

    def rows(self, index: Index) -> Self:
        """Return the matrices of the selected problems."""
        return self._replace(matrix=self.matrix[..., index])

    def replaced(self, other: Self, chosen: Bools) -> Self:
        """Return a copy with the selected problems replaced by those of another instance."""
        return self._replace(matrix=np.where(chosen, other.matrix, self.matrix))

    def damped(self, more: Floats) -> Self:
        """Return the matrices with an addition to their diagonals."""
        matrix = self.matrix.copy()
        diagonal(matrix)[:] += more
        return self._replace(matrix=matrix)

    def times(self, step: Floats) -> Floats:
        """Return each matrix times its vector."""
        return times(self.matrix, step)

    def solve(self, right: Floats, free: Bools) -> Floats:
        """Solve for the free variables; a variable that a singular matrix leaves undetermined gets 0."""
        if free.all():
            matrix = self.matrix.copy()
        else:
            matrix = self.matrix * (free[:, None] & free[None])
            diagonal(matrix)[:] += ~free
        if len(right) > _MAX_ELIMINATED:
            solved = np.linalg.solve(np.moveaxis(matrix, -1, 0), right.T[..., None])
            return np.asarray(solved[..., 0].T)
        right = right.copy()
        # A pivot that is 0 up to rounding is set to infinity, so that its variable is fixed and does not
        # affect the others.
        minimum = _SINGULAR * diagonal(matrix)
        for j in range(len(right)):
            matrix[j, j, matrix[j, j] <= minimum[j]] = np.inf
            factor = matrix[j + 1 :, j] / matrix[j, j]
            matrix[j + 1 :, j + 1 :] -= factor[:, None] * matrix[j, None, j + 1 :]
            right[j + 1 :] -= factor * right[j]
        for j in range(len(right) - 1, -1, -1):
            right[j] = (right[j] - (matrix[j, j + 1 :] * right[j + 1 :]).sum(axis=0)) / matrix[j, j]
        return right


class Banded(NamedTuple):
    """Matrices as diagonals ``(N, P, B)``: place d of row j is the element of row j + d and column j."""

    bands: Floats

    def rows(self, index: Index) -> Self:
        """Return the matrices of the selected problems."""
        return self._replace(bands=self.bands[index])

    def replaced(self, other: Self, chosen: Bools) -> Self:
        """Return a copy with the selected problems replaced by those of another instance."""
        return self._replace(bands=np.where(chosen[:, None, None], other.bands, self.bands))

    def damped(self, more: Floats) -> Self:
        """Return the matrices with an addition to their diagonals."""
        bands = self.bands.copy()
        bands[:, :, 0] += more.T
        return self._replace(bands=bands)

    def times(self, step: Floats) -> Floats:
        """Return each matrix times its vector."""
        count, size, width = self.bands.shape
        matrix = self.bands.reshape(count * size, width).T
        product = dsbmv(width - 1, 1.0, matrix, step.T.ravel(), lower=1)
        return np.asarray(product).reshape(count, size).T

    def solve(self, right: Floats, free: Bools) -> Floats:
        """Solve for the free variables."""
        count, size, width = self.bands.shape
        bands = self.bands.copy()
        if not free.all():
            # Keep entry d of row j if the variables j and j + d are both free.
            is_free = np.zeros((count, size + width - 1), dtype=bool)
            is_free[:, :size] = free.T
            bands *= is_free[:, :size, None]
            bands *= is_free[:, np.arange(size)[:, None] + np.arange(width)]
            bands[:, :, 0] += ~is_free[:, :size]
        # Elements beyond the last row of each problem are 0, so one band matrix contains all problems.
        matrix = bands.reshape(count * size, width).T
        _, solved, failed = dpbsv(matrix, right.T.ravel(), lower=1, overwrite_ab=1)
        if failed:
            return Dense(self._whole()).solve(right, free)
        return np.asarray(solved).reshape(count, size).T

    def _whole(self) -> Floats:
        """Return the matrices as one array ``(P, P, N)``."""
        count, size, width = self.bands.shape
        whole = np.zeros((size, size, count))
        for d in range(width):
            row = np.arange(d, size)
            whole[row, row - d] = self.bands[:, : size - d, d].T
            whole[row - d, row] = whole[row, row - d]
        return whole


class Linearised(NamedTuple):
    """All problems at one point each: loss and its linearisation."""

    x: Floats
    """Variables ``(P, N)``; a problem may return better ones than it was given."""
    loss: Floats
    """Sum of squared residuals."""
    rounding: Floats
    """Loss at or below which only rounding is left."""
    gram: Gram
    """Jacobian times itself."""
    grad: Floats
    """Jacobian times residual: half of the downhill gradient."""
    scale: Floats
    """Diagonal that the damping multiplies."""

    def rows(self, index: Index) -> Linearised:
        """Return the selected problems."""
        return Linearised(
            self.x[:, index],
            self.loss[index],
            self.rounding[index],
            self.gram.rows(index),
            self.grad[:, index],
            self.scale[:, index],
        )

    def improved(self, new: Linearised, better: Bools) -> Linearised:
        """Return the new point for the problems that it improves, otherwise the old one."""
        return Linearised(
            np.where(better, new.x, self.x),
            np.where(better, new.loss, self.loss),
            np.where(better, new.rounding, self.rounding),
            self.gram.replaced(new.gram, better),
            np.where(better, new.grad, self.grad),
            np.where(better, new.scale, self.scale),
        )


class Problem(Protocol):
    """Many least-squares problems of one kind, with bounds ``(P, N)`` and longest steps ``(P, 1)``."""

    @property
    def low(self) -> Floats:
        """Lower bounds."""

    @property
    def high(self) -> Floats:
        """Upper bounds."""

    @property
    def reach(self) -> Floats:
        """The longest step of each variable."""

    def rows(self, index: Index) -> Self:
        """Return the selected problems."""

    def evaluate(self, x: Floats) -> Linearised:
        """Evaluate the problems at `x`."""


class Minimum(NamedTuple):
    """Result of a search: variables, loss, convergence, and number of evaluations."""

    x: Floats
    loss: Floats
    converged: Bools
    nfev: Ints


def minimise(
    problem: Problem, start: Floats, *, steps: int = 60, damping: float = 1e-3, tolerance: float = _TOLERANCE
) -> Minimum:
    """Find the minimum of each problem nearest to `start` ``(P, N)``, with at most `steps` evaluations.

    A search converges where the next step is predicted to lower the loss by less than `tolerance` of it, and
    where a step has changed it by at most 1e-10 of it. The sign of that change does not matter, because at a
    minimum it is determined by rounding.
    """
    count = start.shape[1]
    converged = np.zeros(count, dtype=bool)
    nfev = np.ones(count, dtype=np.int64)
    result = Minimum(start.copy(), np.empty(count), converged, nfev)

    # The batch: its problems, their numbers among all problems, their points, and which are finished.
    number = np.arange(count)
    point = problem.evaluate(start)
    damping_rule = _Damping(count, damping)
    finished = np.zeros(count, dtype=bool)
    for step in range(steps + 1):
        # 1. Compute the step. Its bounds contain 0 even if rounding put x outside its bounds.
        low = np.minimum(problem.low - point.x, 0.0)
        high = np.maximum(problem.high - point.x, 0.0)
        damped = point.gram.damped(damping_rule.factor * point.scale)
        move = _box_step(damped, point.grad, low, high)

        # 2. Find the problems that end.
        has_small_gain = _predicted_decrease(point, move) <= tolerance * point.loss
        has_zero_step = np.abs(move).max(axis=0) <= _ZERO_STEP
        # Under heavy damping every predicted decrease is small, so only a zero step ends the search.
        ends = np.where(damping_rule.factor < 1.0, has_small_gain, has_zero_step)
        ends |= point.loss <= point.rounding
        converged[number[ends & ~finished]] = True
        finished |= ends | (damping_rule.factor > _MAX_DAMPING) | (step == steps)

        # 3. Remove finished problems only once there are enough of them, because this copies all others.
        if finished.sum() > 0.15 * finished.size or (finished.size < 64 and finished.any()):
            result.x[:, number[finished]] = point.x[:, finished]
            result.loss[number[finished]] = point.loss[finished]
            stays = ~finished
            problem = problem.rows(stays)
            number = number[stays]
            move = move[:, stays]
            point = point.rows(stays)
            damping_rule.keep(stays)
            finished = finished[stays]
        if not number.size:
            break

        # 4. Take the step if it lowers the loss.
        nfev[number[~finished]] += 1
        point, unchanged = _advance(problem, point, move, damping_rule, ~finished)
        converged[number[unchanged]] = True
        finished |= unchanged
    return result


def _predicted_decrease(point: Linearised, step: Floats) -> Floats:
    """Return the decrease of the loss by `step` in the quadratic model: ``dᵀ (2 g − G d)``."""
    return np.asarray((step * (2.0 * point.grad - point.gram.times(step))).sum(axis=0))


def gain(gram: Floats, grad: Floats, step: Floats) -> Floats:
    """Return the same decrease as `_predicted_decrease`, from a matrix given as an array ``(P, P, N)``."""
    return np.asarray((step * (2.0 * grad - times(gram, step))).sum(axis=0))


def times(gram: Floats, step: Floats) -> Floats:
    """Return each matrix times its vector, added up in the same order for any number of problems."""
    return np.asarray((gram * step).sum(axis=1))


def diagonal(gram: Floats) -> Floats:
    """Return the diagonal of each matrix, ``(P, N)``."""
    view: Floats = np.einsum("ppn->pn", gram)
    return view


class _Damping:
    """H. B. Nielsen's rule ("Damping parameter in Marquardt's method", IMM-REP-1999-05), per problem.

    After a good step with the ratio ρ of actual to predicted decrease the damping is multiplied by ``max(1/9,
    1 − (2ρ − 1)³)`` (1/3 in the report): it decreases if the model was accurate, and at most doubles
    otherwise. After a bad step it is multiplied by 2, 4, 8, … until one is good.
    """

    def __init__(self, problems: int, factor: float) -> None:
        self.factor = np.full(problems, factor)
        self.growth = np.full(problems, 2.0)

    def keep(self, rows: Bools) -> None:
        """Keep the damping of the selected problems only."""
        self.factor = self.factor[rows]
        self.growth = self.growth[rows]

    def update(self, ratio: Floats, is_active: Bools) -> None:
        """Apply the rule to the active problems; `ratio` is ρ, positive for a good step."""
        is_good = ratio > 0.0
        # ρ is limited to 2, so that its cube does not overflow; from 0.99 on the factor is 1/9 anyway.
        shrink = np.maximum(1.0 / 9.0, 1.0 - (2.0 * np.minimum(ratio, 2.0) - 1.0) ** 3)
        factor = np.maximum(self.factor * np.where(is_good, shrink, self.growth), 1e-14)
        growth = np.where(is_good, 2.0, 2.0 * self.growth)
        self.factor = np.where(is_active, factor, self.factor)
        self.growth = np.where(is_active, growth, self.growth)


def _advance(
    problem: Problem, point: Linearised, move: Floats, damping_rule: _Damping, is_active: Bools
) -> tuple[Linearised, Bools]:
    """Take the step of each active problem whose loss it lowers, and adapt the damping.

    Returns the new points, and a mask of active problems whose loss did not change under light damping.
    """
    # 1. Shorten steps that are longer than allowed, and evaluate the new points.
    length = (np.abs(move) / problem.reach).max(axis=0)
    move = move / np.maximum(length, 1.0)
    new = problem.evaluate(np.clip(point.x + move, problem.low, problem.high))

    # 2. Compare the actual decrease of the loss with the predicted one.
    predicted = _predicted_decrease(point, move)
    actual = point.loss - new.loss
    ratio = np.divide(actual, predicted, out=np.sign(actual), where=predicted > _NEGLIGIBLE)
    unchanged = is_active & (damping_rule.factor < 1.0) & (np.abs(actual) <= _UNCHANGED * point.loss)
    damping_rule.update(ratio, is_active)
    return point.improved(new, is_active & (ratio > 0.0)), np.asarray(unchanged)


def _box_step(gram: Gram, grad: Floats, low: Floats, high: Floats) -> Floats:
    """Return a step with ``low <= d <= high`` that lowers ``½ dᵀ gram d − gradᵀ d``; 0 is within the bounds.

    It goes to the free minimum. If that is outside, the path towards it is followed to the first bound, that
    variable is fixed there, and the search continues in the others: every leg lowers the value.
    """
    # A variable on a bound is fixed if its gradient points out of the bounds.
    is_held_below = (low >= 0.0) & (grad <= 0.0)
    is_held_above = (high <= 0.0) & (grad >= 0.0)
    free = ~(is_held_below | is_held_above)
    target = _solve(gram, grad, free, np.zeros_like(grad))
    outside = np.flatnonzero(((target < low) | (target > high)).any(axis=0))
    if outside.size:
        target[:, outside] = _follow_bounds(
            gram.rows(outside),
            grad[:, outside],
            low[:, outside],
            high[:, outside],
            free[:, outside],
            target[:, outside],
        )
    return target


def _follow_bounds(
    gram: Gram, grad: Floats, low: Floats, high: Floats, free: Bools, target: Floats
) -> Floats:
    """Return the end of the path from 0 towards `target`, with variables fixed where they meet a bound."""
    # At most one leg per variable, because a leg that does not reach the target fixes at least one variable.
    position = np.zeros_like(grad)
    for _ in range(len(grad)):
        # 1. Compute the fraction of the path at which each variable reaches its bound.
        move = np.where(free, target - position, 0.0)
        distance = np.where(move > 0.0, high - position, position - low)
        never = np.full_like(move, np.inf)
        fraction_to_bound = np.divide(distance, np.abs(move), out=never, where=move != 0.0)

        # 2. Move to the first bound, or to the target.
        fraction = np.minimum(fraction_to_bound.min(axis=0), 1.0)
        position = np.clip(position + fraction * move, low, high)
        is_stopped = fraction < 1.0
        if not is_stopped.any():
            break

        # 3. Fix the variables at their bounds, and solve again for the others.
        free = free & ~((fraction_to_bound <= fraction) & is_stopped)
        target = np.where(is_stopped, _solve(gram, grad, free, position), position)
    return position


def _solve(gram: Gram, grad: Floats, free: Bools, fixed_move: Floats) -> Floats:
    """Solve for the free variables with the others at `fixed_move`; no move if `gram` is singular."""
    if free.all():
        return gram.solve(grad, free)
    right = np.where(free, grad - gram.times(np.where(free, 0.0, fixed_move)), fixed_move)
    return gram.solve(right, free)
