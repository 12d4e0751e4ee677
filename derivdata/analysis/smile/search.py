"""The search for smiles and surfaces: Levenberg-Marquardt inside bounds, and SVI in variables that suit it.

`minimise` is the one solver, for many small least-squares problems at once. Each has its own damping, its
own active bounds and its own end, and leaves the batch when it is done: its result does not depend on what
else was in the call, and a batch costs what its slowest members cost. Arrays keep the problems on the last
axis: variables ``(P, N)``, Gram matrices ``(P, P, N)``. With up to eight variables the equations are
eliminated here, one numpy call for all problems per pivot, which adds up in one order on every machine;
beyond that LAPACK is faster.

The step solves ``(G + λ D) d = g`` with the Gauss-Newton matrix G, the downhill gradient g, the damping λ
and the problem's own scale D (its diagonal, so that the damping does not depend on units). Bounds: a
variable that leaves its bounds is held there and the rest is solved again (`_box_step`), so every step
lowers the model and a solution on a bound is nothing special.

`JointProblem` is all slices of a surface under the conditions that `derivdata.analysis.smile.joint_svi`
describes; it stands beside the solver because each step calls it. Total variance stays positive:
``w = f + p² P + q² Q − σ p q`` with ``P, Q = (√(x² + σ²) ± x)/2`` and ``x = k − m``: f is the least total
variance, p² and q² are the slopes of the right and left wing. Variables are ``(f, p, q, m, ln σ)``.

Reference: Madsen, Nielsen and Tingleff, Methods for non-linear least squares problems (2004). The readable
version, one problem at a time, is ``tests/analysis/smile_reference.py``.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from derivdata.analysis.smile.quotes import SurfaceQuotes
from derivdata.analysis.smile.svi import Raw, total_variance
from derivdata.support.arrays import Bools, Floats, Ints

Index = NDArray[np.int64] | Bools

_TOLERANCE = 1e-9  # predicted decrease, relative to the loss, that is not worth an evaluation
_UNCHANGED = 1e-10  # change of the loss, of either sign, that counts as none
_STILL = 1e-7  # step that counts as none where the damping is heavy
_SINGULAR = 1e-14  # pivot, relative to its diagonal, below which a variable is not determined
_NEGLIGIBLE = 1e-290  # predicted decrease that is 0 but for rounding
_STUCK = 1e10  # damping at which a search is given up
_ELIMINATED = 8  # most variables for which elimination by hand beats LAPACK

_INSIDE = 1e-3  # share of a residual between bid and ask that counts: a millionth of the squared loss
_SIZE = 5
_BUTTERFLY = np.sinh(np.linspace(-1.0, 1.0, 61) * np.arcsinh(30.0))  # places, in deviations
_CALENDAR = np.sinh(np.linspace(-1.0, 1.0, 77) * np.arcsinh(100.0))
_MARGINS = (1e-3, 1e-4, 1e-5)  # of g; of volatility; of √slope
_FORCE = 1e-2
_FORCE_GROWTH = 3.0
_STEEPEST = np.sqrt(2.0 * (1.0 - 1e-6))


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
    met = np.zeros(count, dtype=bool)
    nfev = np.ones(count, dtype=np.int64)
    result = Minimum(start.copy(), np.empty(count), met, nfev)
    here = problem.evaluate(start)
    live = np.arange(count)
    rule = _Damping(count, damping)
    over = np.zeros(count, dtype=bool)
    for step in range(steps + 1):
        # Bounds of the step, not of the variables; 0 lies between them also where rounding put x outside.
        low = np.minimum(problem.low - here.x, 0.0)
        high = np.maximum(problem.high - here.x, 0.0)
        damped = here.gram.copy()
        diagonal(damped)[:] += rule.factor * here.scale
        move = _box_step(damped, here.grad, low, high)
        small = gain(here.gram, here.grad, move) <= tolerance * here.loss
        still = np.abs(move).max(axis=0) <= _STILL
        # Under heavy damping every step promises little, so there only a step that is none is an end.
        done = ~over & (np.where(rule.factor < 1.0, small, still) | (here.loss <= here.nothing))
        met[live[done]] = True
        over |= done | (rule.factor > _STUCK) | (step == steps)
        # Problems that are over are carried along until they are worth a copy of all the others.
        if over.sum() > 0.15 * over.size or (over.size < 64 and over.any()):
            gone = live[over]
            stay = ~over
            result.x[:, gone] = here.x[:, over]
            result.loss[gone] = here.loss[over]
            problem = problem.rows(stay)
            live = live[stay]
            over = over[stay]
            move = move[:, stay]
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
        self.factor = self.factor[rows]
        self.growth = self.growth[rows]

    def update(self, ratio: Floats, going: Bools) -> Bools:
        """Adapt those that go on to actual over predicted decrease; True where the step was good."""
        better = ratio > 0.0
        shrink = np.maximum(1.0 / 9.0, 1.0 - (2.0 * np.minimum(ratio, 2.0) - 1.0) ** 3)
        factor = np.maximum(self.factor * np.where(better, shrink, self.growth), 1e-14)
        self.factor = np.where(going, factor, self.factor)
        self.growth = np.where(going, np.where(better, 2.0, 2.0 * self.growth), self.growth)
        return np.asarray(better & going)


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
        matrix = gram.copy()
        right = grad.copy()
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


def floor_from_raw(raw: Raw) -> Floats:
    """Return the variables ``(5, N)`` of raw parameters."""
    right, left = (np.sqrt(np.maximum(raw.b * (1.0 + side * raw.rho), 0.0)) for side in (1.0, -1.0))
    return np.stack([raw.a + raw.sigma * right * left, right, left, raw.m, np.log(raw.sigma)])


def floor_to_raw(x: Floats) -> Raw:
    """Return the raw parameters of these variables."""
    floor, right, left, m, log_sigma = x
    total = right**2 + left**2
    rho = np.divide(right**2 - left**2, total, out=np.zeros_like(total), where=total > 0.0)
    sigma = np.exp(log_sigma)
    return Raw(floor - sigma * right * left, total / 2.0, rho, m, sigma)


def jet(x: Floats, k: Floats) -> tuple[tuple[Floats, ...], tuple[Floats, ...]]:
    """``w`` and its first two derivatives in k, and the derivatives of each of them in the variables."""
    floor, p, q, m, log_sigma = x
    sigma = np.exp(log_sigma)
    distance = k - m
    inverse = 1.0 / np.sqrt(distance * distance + sigma * sigma)
    lean = distance * inverse
    bend = (p * p + q * q) / 2.0
    up = (1.0 + lean) / 2.0
    down = (1.0 - lean) / 2.0
    narrow = np.square(sigma * inverse)
    valley = sigma * p * q
    curve = narrow * inverse
    zero = np.zeros_like(distance)
    w = floor + (p * p * up + q * q * down) / inverse - valley
    rise = p * p * up - q * q * down
    by_w = (
        zero + 1.0,
        2.0 * p * up / inverse - sigma * q,
        2.0 * q * down / inverse - sigma * p,
        -rise,
        bend * narrow / inverse - valley,
    )
    by_dw = (zero, 2.0 * p * up, -2.0 * q * down, -bend * curve, -bend * lean * narrow)
    bent = (3.0 * bend * curve * lean * inverse, bend * curve * (2.0 - 3.0 * narrow))
    by_d2w = (zero, p * curve, q * curve, *bent)
    return (w, rise, bend * curve), (np.stack(by_w), np.stack(by_dw), np.stack(by_d2w))


def variance_jet(x: Floats, k: Floats) -> tuple[Floats, Floats]:
    """Return ``w`` and its derivatives in the variables, as `jet` does, without those of its slopes."""
    _, p, q, _, log_sigma = x
    sigma = np.exp(log_sigma)
    distance = k - x[3]
    inverse = 1.0 / np.sqrt(distance * distance + sigma * sigma)
    lean = distance * inverse
    bend = (p * p + q * q) / 2.0
    up = (1.0 + lean) / 2.0
    down = (1.0 - lean) / 2.0
    narrow = np.square(sigma * inverse)
    valley = sigma * p * q
    by_w = np.empty((_SIZE, *distance.shape))
    by_w[0] = 1.0
    by_w[1] = 2.0 * p * up / inverse - sigma * q
    by_w[2] = 2.0 * q * down / inverse - sigma * p
    by_w[3] = q * q * down - p * p * up
    by_w[4] = bend * narrow / inverse - valley
    return _variance(x, up, down, inverse, valley), by_w


def variance(x: Floats, k: Floats) -> Floats:
    """Return ``w`` as `jet` does."""
    _, p, q, m, log_sigma = x
    sigma = np.exp(log_sigma)
    distance = k - m
    inverse = 1.0 / np.sqrt(distance * distance + sigma * sigma)
    lean = distance * inverse
    return _variance(x, (1.0 + lean) / 2.0, (1.0 - lean) / 2.0, inverse, sigma * p * q)


def _variance(x: Floats, up: Floats, down: Floats, inverse: Floats, valley: Floats) -> Floats:
    floor, p, q = x[:3]
    return np.asarray(floor + (p * p * up + q * q * down) / inverse - valley)


def density(x: Floats, k: Floats) -> Floats:
    """Durrleman's g, as `density_jet` gives it."""
    floor, p, q, m, log_sigma = x
    sigma = np.exp(log_sigma)
    distance = k - m
    inverse = 1.0 / np.sqrt(distance * distance + sigma * sigma)
    lean = distance * inverse
    bend = (p * p + q * q) / 2.0
    up = (1.0 + lean) / 2.0
    down = (1.0 - lean) / 2.0
    narrow = np.square(sigma * inverse)
    valley = sigma * p * q
    w = floor + (p * p * up + q * q * down) / inverse - valley
    dw = p * p * up - q * q * down
    d2w = bend * (narrow * inverse)
    tangent = 1.0 - k * dw / (2.0 * w)
    return np.asarray(tangent**2 - dw**2 / 4.0 * (1.0 / w + 0.25) + d2w / 2.0)


def density_jet(x: Floats, k: Floats) -> tuple[Floats, Floats]:
    """Durrleman's g and its derivatives in the variables."""
    (w, dw, d2w), (by_w, by_dw, by_d2w) = jet(x, k)
    tangent = 1.0 - k * dw / (2.0 * w)
    g = tangent**2 - dw**2 / 4.0 * (1.0 / w + 0.25) + d2w / 2.0
    g_w = tangent * k * dw / w**2 + (dw / (2.0 * w)) ** 2
    g_dw = -tangent * k / w - dw / 2.0 * (1.0 / w + 0.25)
    return g, g_w * by_w + g_dw * by_dw + 0.5 * by_d2w


def errors(quotes: SurfaceQuotes, w: Floats) -> tuple[Floats, Floats]:
    """Return scaled residuals of model variances `w`, and the factor of their derivative by `w`.

    What lies outside bid and ask counts in full; the thousandth of the way to the middle that is left
    inside makes the minimum unique.
    """
    outside = w - np.clip(w, quotes.low, quotes.high)
    inside = (quotes.low < w) & (w < quotes.high)
    residual = outside + _INSIDE * (w - quotes.w - outside)
    return residual * quotes.scale, np.where(inside, _INSIDE, 1.0) * quotes.scale


class Constraints(NamedTuple):
    """Values, each to be at least its margin: of g, of rises in volatility, of rises of wings in √slope."""

    g: Floats
    gap: Floats
    wings: Floats


class JointProblem(NamedTuple):
    """Quotes and conditions of surfaces; variables of slice i are rows ``5 i`` to ``5 i + 4`` of x."""

    quotes: SurfaceQuotes
    live: Bools
    places_g: Floats
    places_gap: Floats
    gap_unit: Floats
    force: Floats
    margin: Floats
    multiplier: Constraints
    low: Floats
    high: Floats
    reach: Floats

    def rows(self, index: Index) -> Self:
        """Return these surfaces only."""
        first = {
            name: getattr(self, name)[index]
            for name in ("live", "places_g", "places_gap", "gap_unit", "force", "margin")
        }
        last = {name: getattr(self, name)[:, index] for name in ("low", "high", "reach")}
        multiplier = Constraints(*(part[index] for part in self.multiplier))
        return self._replace(quotes=self.quotes.rows(index), multiplier=multiplier, **first, **last)

    def slices(self, x: Floats) -> Floats:
        """Variables as ``(5, surfaces, expiries)``."""
        return x.reshape(-1, _SIZE, x.shape[1]).transpose(1, 2, 0)

    def constraints(self, x: Floats) -> Constraints:
        """Values of all conditions."""
        each = self.slices(x)
        g = density(each[..., None], self.places_g)
        early = variance(each[:, :, :-1, None], self.places_gap)
        late = variance(each[:, :, 1:, None], self.places_gap)
        wings = np.moveaxis(each[1:3, :, 1:] - each[1:3, :, :-1], 0, -1)
        return Constraints(g, (late - early) * self.gap_unit, wings)

    def lacks(self, values: Constraints) -> Constraints:
        """Measure how far each condition is from its margin, moved by its multiplier, 0 where it holds."""
        force = self.force[:, None, None]
        margin = self.margin[:, None, None]
        parts = zip(_MARGINS, values, self.multiplier, self.masks, strict=True)
        found = (
            np.maximum(least * margin - value + multiplier / force, 0.0) * mask
            for least, value, multiplier, mask in parts
        )
        return Constraints(*found)

    @property
    def masks(self) -> tuple[Bools, Bools, Bools]:
        """Return which slices and pairs each kind of condition is about."""
        pairs = self.live[:, 1:, None]
        return self.live[..., None], pairs, pairs

    def holds(self, values: Constraints) -> Bools:
        """Tell whether every condition holds at its places, margins left aside."""
        each = [
            ((value >= 0.0) | ~mask).all(axis=(1, 2)) for value, mask in zip(values, self.masks, strict=True)
        ]
        return np.asarray(np.all(each, axis=0))

    def evaluate(self, x: Floats) -> Linearised:
        """Products of all residuals, those of the quotes and those of the conditions."""
        lacks = self.lacks(self.constraints(x))
        own = self._own_products(x, lacks.g)
        shared = self._pair_products(x, lacks)
        count, expiries = self.live.shape
        gram = np.zeros((count, expiries, _SIZE, expiries, _SIZE))
        grad = np.zeros((count, expiries, _SIZE))
        for i in range(expiries):
            gram[:, i, :, i] += own[:, i, :_SIZE, :_SIZE]
            grad[:, i] -= own[:, i, :_SIZE, -1]
        for i in range(expiries - 1):
            block = shared[:, i]
            gram[:, i, :, i] += block[:, :_SIZE, :_SIZE]
            gram[:, i + 1, :, i + 1] += block[:, _SIZE:-1, _SIZE:-1]
            gram[:, i, :, i + 1] += block[:, :_SIZE, _SIZE:-1]
            gram[:, i + 1, :, i] += block[:, _SIZE:-1, :_SIZE]
            grad[:, i] -= block[:, :_SIZE, -1]
            grad[:, i + 1] -= block[:, _SIZE:-1, -1]
        loss = own[:, :, -1, -1].sum(axis=1) + shared[:, :, -1, -1].sum(axis=1)
        matrix = np.ascontiguousarray(np.moveaxis(gram.reshape(count, len(x), len(x)), 0, -1))
        own_squares = diagonal(matrix)
        # Places without an expiry move nothing: a trace of damping keeps them where they are.
        scale = np.maximum(own_squares, 1e-12 * own_squares.max(axis=0) + 1e-300)
        return Linearised(x, loss, np.full(count, 1e-20), matrix, grad.reshape(count, -1).T, scale)

    def _own_products(self, x: Floats, lack: Floats) -> Floats:
        """Products of the derivatives and the residual of each slice, ``(surfaces, expiries, 6, 6)``."""
        quotes = self.quotes
        root = np.sqrt(self.force)
        each = self.slices(x)
        w, by_w = variance_jet(each[..., None], quotes.k)
        error, factor = errors(quotes, w)
        rows = np.empty((*self.live.shape, _SIZE + 1, quotes.k.shape[-1]))
        rows[..., :_SIZE, :] = np.moveaxis(by_w * factor, 0, 2)
        rows[..., -1, :] = error
        products = np.asarray(rows @ rows.swapaxes(-1, -2))
        # Most slices are nowhere near a butterfly: only the others need derivatives of g.
        surface, expiry = np.nonzero((lack > 0.0).any(axis=-1))
        if surface.size:
            short = lack[surface, expiry]
            force = root[surface, None]
            _, slope = density_jet(each[:, surface, expiry, None], self.places_g[surface, expiry])
            rows = np.empty((surface.size, _SIZE + 1, short.shape[-1]))
            rows[:, :_SIZE] = np.moveaxis(slope * (force * (short > 0.0)), 0, 1)
            rows[:, -1] = -force * short
            products[surface, expiry] += rows @ rows.swapaxes(-1, -2)
        return products

    def _pair_products(self, x: Floats, lacks: Constraints) -> Floats:
        """Return the same of each pair, the earlier slice first: ``(surfaces, pairs, 11, 11)``."""
        count = lacks.gap.shape[-1]
        each = self.slices(x)
        products = np.zeros((*self.live[:, 1:].shape, 2 * _SIZE + 1, 2 * _SIZE + 1))
        surface, pair = np.nonzero((lacks.gap > 0.0).any(axis=-1) | (lacks.wings > 0.0).any(axis=-1))
        if not surface.size:
            return products
        gap = lacks.gap[surface, pair]
        wings = lacks.wings[surface, pair]
        places = self.places_gap[surface, pair]
        unit = self.gap_unit[surface, pair]
        root = np.sqrt(self.force)[surface, None]
        _, earlier = variance_jet(each[:, surface, pair, None], places)
        _, later = variance_jet(each[:, surface, pair + 1, None], places)
        rows = np.zeros((surface.size, 2 * _SIZE + 1, count + 2))
        active = root * (gap > 0.0) * unit
        rows[:, :_SIZE, :count] = -np.moveaxis(earlier * active, 0, 1)
        rows[:, _SIZE:-1, :count] = np.moveaxis(later * active, 0, 1)
        rows[:, -1, :count] = -root * gap
        for side in (0, 1):  # variables 1 and 2 are the roots of the wings' slopes
            active = root[:, 0] * (wings[:, side] > 0.0)
            rows[:, 1 + side, count + side] = -active
            rows[:, _SIZE + 1 + side, count + side] = active
        rows[:, -1, count:] = -root * wings
        products[surface, pair] = rows @ rows.swapaxes(-1, -2)
        return products


def joint_problem(quotes: SurfaceQuotes, t: Floats, live: Bools, start: Raw) -> tuple[JointProblem, Floats]:
    """Return the problem with units of each slice's own deviation, and where its search begins."""
    count, expiries = live.shape
    middle = np.where(live, total_variance(0.0, start), 1.0)
    width = np.sqrt(middle)
    # Weights of mean 1: the force of a condition must not depend on the unit of the weights.
    weight = 4.0 * quotes.w * t[..., None] * np.square(quotes.scale)
    quoted = np.maximum((quotes.scale > 0.0).sum(axis=(1, 2)), 1)
    mean = weight.sum(axis=(1, 2)) / quoted
    scale = quotes.scale / np.sqrt(np.where(mean > 0.0, mean, 1.0))[:, None, None]
    places_gap = width[:, 1:, None] * _CALENDAR
    later = total_variance(places_gap, Raw(*(part[:, 1:, None] for part in start)))
    one = np.ones_like(width)
    low = np.stack([1e-6 * middle, 0.0 * one, 0.0 * one, -20.0 * width, np.log(0.02 * width)])
    high = np.stack([np.inf * one, _STEEPEST * one, _STEEPEST * one, 20.0 * width, np.log(100.0 * width)])
    reach = np.stack([np.inf * one, 0.3 * one, 0.3 * one, width, 0.7 * one])

    def stacked(part: Floats) -> Floats:
        return part.transpose(2, 0, 1).reshape(_SIZE * expiries, count)

    variables = floor_from_raw(Raw(*(part.reshape(-1) for part in start))).reshape(_SIZE, count, expiries)
    problem = JointProblem(
        quotes._replace(scale=scale),
        live,
        width[..., None] * _BUTTERFLY,
        places_gap,
        0.5 / np.sqrt(later * t[:, 1:, None]),
        np.full(count, _FORCE),
        np.ones(count),
        Constraints(
            np.zeros((count, expiries, _BUTTERFLY.size)),
            np.zeros((count, expiries - 1, _CALENDAR.size)),
            np.zeros((count, expiries - 1, 2)),
        ),
        *map(stacked, (low, high, reach)),
    )
    return problem, stacked(variables)


def pressed(problem: JointProblem, values: Constraints) -> JointProblem:
    """Return the problem with the multipliers that `values` call for, more force, and a wider margin."""
    force = problem.force[:, None, None]
    multiplier = Constraints(*(force * lack for lack in problem.lacks(values)))
    return problem._replace(
        multiplier=multiplier,
        force=problem.force * _FORCE_GROWTH,
        margin=problem.margin * np.where(problem.holds(values), 2.0, 1.0),
    )
