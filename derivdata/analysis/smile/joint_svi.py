"""SVI slices of all expiries fitted together, free of butterflies and of calendar arbitrage.

Five parameters a slice, those of `derivdata.analysis.smile.search`, so that total variance is
positive by construction. The conditions are inequalities:

* butterfly: Durrleman's ``g(k) >= 0`` at 61 places of every slice, out to 30 deviations, and wing slopes
  below 2, which is the limit of g at infinity;
* calendar: ``w`` of the next expiry is not less at 77 places, out to 100 deviations, and neither of its wings
  is flatter, which decides beyond any grid.

They enter the least squares as an augmented Lagrangian (Hestenes, Powell; Nocedal and Wright, Numerical
Optimization, chapter 17): a condition ``c >= margin`` adds the residual ``√ρ max(0, margin − c + λ/ρ)``, and
after each search its multiplier becomes ``λ = max(0, λ + ρ (margin − c))``. Multipliers find the force that a
condition needs; penalties alone would have to be infinite, and the search would crawl.

The grids guide the search; they prove nothing. What comes out is checked without them: slices by
`derivdata.analysis.smile.butterfly` (a polynomial of degree 10) or by a search of the whole line,
neighbours by the roots of a quartic (`never_below`). Surfaces that fail are searched on with more force and a
wider margin. What fails after the last round is given up, and the caller keeps the eSSVI surface.

For both conditions on SVI no free coordinates are known (Martini and Mingone, arXiv:2005.03340, describe the
butterfly-free slices), hence the inequalities. Corbetta et al. (arXiv:1804.04924) fit expiry after expiry.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from derivdata.analysis.smile.butterfly import certified, check_slices, product
from derivdata.analysis.smile.quotes import SurfaceQuotes
from derivdata.analysis.smile.search import JointProblem, floor_to_raw, joint_problem, minimise, pressed
from derivdata.analysis.smile.svi import Raw, total_variance
from derivdata.support.arrays import Bools, Floats, Indices, Ints

_ROUNDS = 14
_FIRST_STEPS = 25
_STEPS = 12
_TOLERANCE = 1e-6
_FIRMNESS = (1.0, 30.0)  # factors of force and margins; what the first leaves unproved begins again


class JointFit(NamedTuple):
    """Raw parameters ``(surfaces, expiries)``, which surfaces are proved free, and evaluations spent."""

    raw: Raw
    free: Bools
    nfev: Ints


def fit_joint(quotes: SurfaceQuotes, t: Floats, live: Bools, start: Raw) -> JointFit:
    """Fit the slices of every surface together, from `start`, which is free of arbitrage.

    `t` rises along the places in use, which `live` tells and which come first.
    """
    filled = Raw(
        *(np.where(live, part, idle) for part, idle in zip(start, (1.0, 0.1, 0.0, 0.0, 1.0), strict=True))
    )
    result = JointFit(
        Raw(*(part.copy() for part in filled)), np.zeros(len(t), dtype=bool), np.zeros(len(t), dtype=np.int64)
    )
    for firmness in _FIRMNESS:
        left = np.flatnonzero(~result.free)
        if not left.size:
            break
        begin = Raw(*(part[left] for part in filled))
        problem, x = joint_problem(quotes.rows(left), np.where(live, t, 1.0)[left], live[left], begin)
        firm = problem._replace(force=firmness * problem.force, margin=firmness * problem.margin)
        _search(firm, x, left, result)
    return result


def _search(problem: JointProblem, x: Floats, going: Indices, result: JointFit) -> None:
    """Search the surfaces `going`, and put those that are proved free into `result`."""
    for turn in range(_ROUNDS):
        x = np.clip(x, problem.low, problem.high)
        ended = minimise(problem, x, steps=_STEPS if turn else _FIRST_STEPS, tolerance=_TOLERANCE)
        x = ended.x
        result.nfev[going] = result.nfev[going] + ended.nfev
        values = problem.constraints(x)
        flat = floor_to_raw(problem.slices(x).reshape(5, -1))
        raw = Raw(*(part.reshape(problem.live.shape) for part in flat))
        done = problem.holds(values)
        if done.any():
            done[done] = _proved(Raw(*(part[done] for part in raw)), problem.live[done])
        for part, value in zip(result.raw, raw, strict=True):
            part[going[done]] = value[done]
        result.free[going[done]] = True
        problem = pressed(problem, values).rows(~done)
        x = x[:, ~done]
        going = going[~done]
        if not going.size:
            break


def never_below(earlier: Raw, later: Raw) -> Bools:
    """Tell whether each of the later slices lies nowhere below its earlier one, on the whole line.

    With ``w = A + √B``, A linear and B quadratic in k, two slices meet where ``A₂ − A₁ = √B₁ − √B₂``.
    Squared twice that is a quartic: ``(B₁ − B₂ − (A₂ − A₁)²)² = 4 (A₂ − A₁)² B₂``. Between its roots the sign
    of the difference cannot change, so one look between each two, and one beyond either end, decides.
    """
    (a1, b1), (a2, b2) = (_linear_and_square(raw) for raw in (earlier, later))
    gap = a2 - a1
    squared = product(gap, gap)
    rest = b1 - b2 - squared
    quartic = product(rest, rest) - 4.0 * product(squared, b2)
    roots = _roots(quartic)
    # Of the complex ones the real parts stay: a double root comes as a pair of them, and looking in a place
    # too many does no harm.
    real_roots = np.sort(roots.real, axis=-1)
    ends = real_roots.min(axis=-1), real_roots.max(axis=-1)
    middle = (real_roots[..., 1:] + real_roots[..., :-1]) / 2.0
    width = 1.0 + ends[1] - ends[0]
    looks = np.concatenate([middle, (ends[0] - width)[..., None], (ends[1] + width)[..., None]], axis=-1)
    difference = [total_variance(looks, Raw(*(part[..., None] for part in raw))) for raw in (later, earlier)]
    slack = 1e-13 * np.abs(difference[0])
    return np.asarray((difference[0] - difference[1] >= -slack).all(axis=-1))


def _linear_and_square(raw: Raw) -> tuple[Floats, Floats]:
    """Return the coefficients in rising powers of k of A and B in ``w = A + √B``."""
    a, b, rho, m, sigma = raw
    return np.stack([a - b * rho * m, b * rho]), np.stack(
        [b * b * (m * m + sigma * sigma), -2.0 * b * b * m, b * b]
    )


def _roots(coefficients: Floats) -> NDArray[np.complex128]:
    """Return roots of polynomials given in rising powers on the first axis, by their companion matrices."""
    degree = len(coefficients) - 1
    lead = np.where(coefficients[-1] == 0.0, 1e-300, coefficients[-1])
    companion = np.zeros((*lead.shape, degree, degree))
    companion[..., 1:, :-1] = np.eye(degree - 1)
    with np.errstate(over="ignore"):
        last = np.clip(-coefficients[:-1] / lead, -1e200, 1e200)
    companion[..., :, -1] = np.moveaxis(last, 0, -1)
    return np.asarray(np.linalg.eigvals(companion), dtype=np.complex128)


def _proved(raw: Raw, live: Bools) -> Bools:
    """Tell whether surfaces have no butterfly and no crossing anywhere."""
    flat = Raw(*(part[live] for part in raw))
    safe = certified(flat)
    doubtful = np.flatnonzero(~safe)
    if doubtful.size:
        rest = Raw(*(part[doubtful] for part in flat))
        reach = 10.0 * np.sqrt(total_variance(0.0, rest)) + np.abs(rest.m)
        safe[doubtful] = check_slices(rest, -reach, reach).ok
    butterfly = np.ones(live.shape, dtype=bool)
    butterfly[live] = safe
    calendar = never_below(Raw(*(part[:, :-1] for part in raw)), Raw(*(part[:, 1:] for part in raw)))
    return np.asarray(butterfly.all(axis=1) & (calendar | ~live[:, 1:]).all(axis=1))
