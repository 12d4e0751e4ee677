"""SSVI slices whose parameters change from expiry to expiry, and coordinates that keep them free.

A slice is ``w(k) = θ/2 [1 + ρφk + √((φk + ρ)² + 1 − ρ²)]`` with ``ψ = θφ``. With its half wing slopes
``R = ψ(1 + ρ)/2`` (right) and ``L = ψ(1 − ρ)/2`` (left) and ``τ = θ/ψ = 1/φ`` the sufficient conditions are
all of one kind:

* no butterfly (Gatheral and Jacquier 2014, theorem 4.2): ``ψ(1 + |ρ|) < 4`` is ``R, L < 2``, and
  ``ψφ(1 + |ρ|) <= 4`` is ``τ >= max(R, L)/2``;
* no calendar arbitrage to the next expiry, also not in between when (θ, ψ, ρψ) are interpolated linearly
  (conditions N and S1 of Hendriks and Martini, as corrected by Pasquazzi, arXiv:2304.02106): R, L and τ do
  not fall.

So with c just below 2 the increments of ``−log(1 − R/c)``, of ``−log(1 − L/c)`` and of τ above its bound are
free positive numbers, and every surface that keeps the conditions has them. This is the set that Mingone's
map (arXiv:2204.00312) covers; here its walls are bounds of single parameters, and nothing has to run off
to infinity to reach them.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from derivdata.analysis.surface.solver import Box, Floats, Solution, SurfaceQuotes, minimise

__all__ = ["SsviSlices", "fit_global", "fit_sequential", "linear_start", "natural", "slopes"]

LEAST = 1e-9
"""Smallest increment: keeps every inequality strict."""

_STEEPEST = 2.0 * (1.0 - 1e-9)
_ROOM = 1e-2
_ANCHOR = 1e3


class SsviSlices(NamedTuple):
    """Natural parameters of SSVI slices, arrays of one shape."""

    theta: Floats
    rho: Floats
    psi: Floats


def slopes(slices: SsviSlices) -> Floats:
    """``(theta, right, left)`` along a new last axis."""
    tilt = slices.rho * slices.psi
    return np.stack([slices.theta, (slices.psi + tilt) / 2.0, (slices.psi - tilt) / 2.0], axis=-1)


def natural(parts: Floats) -> SsviSlices:
    """Natural parameters of ``(theta, right, left)``; a flat slice has correlation 0."""
    theta, right, left = np.moveaxis(parts, -1, 0)
    psi = right + left
    rho = np.divide(right - left, psi, out=np.zeros_like(psi), where=psi != 0.0)
    return SsviSlices(theta, rho, psi)


def linear_start(quotes: SurfaceQuotes) -> Floats:
    """Slice parameters by one linear least squares each, exact for exact data: ``(..., 3)``.

    An SSVI slice satisfies ``w = θ + ρψ k + ψ²(1 − ρ²)/4 k²/w``, which is linear in its parameters.
    """
    k, w, scale = quotes
    columns = np.stack([np.ones_like(k), k, k * k / w, w], axis=-2) * scale[..., None, :]
    normal = columns @ columns.swapaxes(-1, -2)
    square = normal[..., :3, :3]
    ridge = 1e-12 * np.einsum("...ii->...", square)[..., None, None] * np.eye(3)
    theta, tilt, bend = np.moveaxis(np.linalg.solve(square + ridge, normal[..., :3, 3:])[..., 0], -1, 0)
    lowest = np.where(scale > 0.0, w, np.inf).min(axis=-1)
    theta = np.clip(theta, 0.2 * lowest, np.where(scale > 0.0, w, 0.0).max(axis=-1))
    psi = np.sqrt(np.maximum(4.0 * bend, 1e-3 * theta) + tilt * tilt)
    return np.stack([theta, (psi + tilt) / 2.0, (psi - tilt) / 2.0], axis=-1)


def fit_global(quotes: SurfaceQuotes, guess: Floats) -> tuple[Floats, Solution]:
    """All expiries of every surface at once: slices ``(surfaces, expiries, 3)`` and how the search ended."""
    return _fit(quotes, guess, np.zeros((len(guess), 3)), damping=1e-3)


def fit_sequential(quotes: SurfaceQuotes, guess: Floats) -> tuple[Floats, Solution]:
    """One expiry after the other, each through its quote nearest the money (Corbetta et al., 2019).

    The earlier expiries stay as they are, so a bad late one cannot move them. The anchor is missed only
    where the conditions forbid it.
    """
    nearest = np.argmin(np.where(quotes.scale > 0.0, np.abs(quotes.k), np.inf), axis=-1)[..., None]
    scale = quotes.scale.copy()
    np.put_along_axis(scale, nearest, _ANCHOR * np.take_along_axis(scale, nearest, -1), -1)
    base, parts, ends = np.zeros((len(guess), 3)), [], []
    for i in range(guess.shape[1]):
        one = np.s_[:, i : i + 1]
        slices, found = _fit(
            SurfaceQuotes(quotes.k[one], quotes.w[one], scale[one]), guess[one], base, damping=1e-9
        )
        base = np.column_stack([base[:, :2] + found.x[:, :2], _coordinates(slices)[:, 0, 2]])
        parts.append(slices)
        ends.append(found)
    x, cost, nfev, converged = (list(part) for part in zip(*ends, strict=True))
    joined = Solution(np.hstack(x), np.sum(cost, axis=0), np.sum(nfev, axis=0), np.all(converged, axis=0))
    return np.concatenate(parts, axis=1), joined


def _fit(quotes: SurfaceQuotes, guess: Floats, base: Floats, *, damping: float) -> tuple[Floats, Solution]:
    """Fit the increments from `base`, the coordinates of the expiry before the first, 0 if there is none."""
    box = Box(np.array(LEAST), np.array(np.inf))
    found = minimise(
        lambda x, rows: _model(x, base[rows]), _increments(guess, base), box, quotes, damping=damping
    )
    return _model(found.x, base)[0], found


def _coordinates(slices: Floats) -> Floats:
    """``−log(1 − R/c)``, ``−log(1 − L/c)``, both at most 5, and τ along the last axis."""
    theta, right, left = np.moveaxis(slices, -1, 0)
    share = np.minimum(np.stack([right, left], axis=-1) / _STEEPEST, -np.expm1(-5.0))
    return np.concatenate([-np.log1p(-share), (theta / (right + left))[..., None]], axis=-1)


def _increments(guess: Floats, base: Floats) -> Floats:
    """Parameters of a surface that keeps the conditions, near slices that may break them."""
    rough = _coordinates(guess)
    rising = np.maximum.accumulate(rough, axis=1)
    smooth = (rising + np.minimum.accumulate(rough[:, ::-1], axis=1)[:, ::-1]) / 2.0
    before = base[:, :2].copy()
    tau = base[:, 2].copy()
    out = np.empty_like(guess)
    for i in range(guess.shape[1]):
        wings = smooth[:, i, :2]
        out[:, i, :2] = np.maximum(wings - before, _ROOM * wings)
        before += out[:, i, :2]
        tau = np.maximum(tau, -_STEEPEST / 2.0 * np.expm1(-before.max(axis=1)))
        out[:, i, 2] = np.maximum(smooth[:, i, 2] - tau, _ROOM * smooth[:, i, 2])
        tau = tau + out[:, i, 2]
    return out.swapaxes(1, 2).reshape(len(out), -1)


def _model(x: Floats, base: Floats) -> tuple[Floats, Floats]:
    """Slices and their Jacobian in the increments; see `derivdata.analysis.surface.solver.Model`."""
    count, expiries = len(x), x.shape[1] // 3
    steps = x.reshape(count, 3, expiries)
    wings = -_STEEPEST * np.expm1(-base[:, :2, None] - np.cumsum(steps[:, :2], axis=-1))
    d_wings = np.zeros((count, 2, expiries, 3, expiries))
    for side in (0, 1):
        d_wings[:, side, :, side] = (_STEEPEST - wings[:, side, :, None]) * np.tri(expiries)
    d_wings = d_wings.reshape(count, 2, expiries, -1)
    tau, d_tau = _tau(steps[:, 2], base[:, 2], wings, d_wings)
    psi = wings.sum(axis=1)
    slices = np.stack([tau * psi, wings[:, 0], wings[:, 1]], axis=-1)
    d_theta = psi[..., None] * d_tau + tau[..., None] * d_wings.sum(axis=1)
    return slices, np.stack([d_theta, d_wings[:, 0], d_wings[:, 1]], axis=2)


def _tau(steps: Floats, base: Floats, wings: Floats, d_wings: Floats) -> tuple[Floats, Floats]:
    """τ of each expiry: above the one before and above ``max(R, L)/2``."""
    expiries = steps.shape[1]
    steeper = wings[:, 0] >= wings[:, 1]
    bound = np.where(steeper, wings[:, 0], wings[:, 1]) / 2.0
    d_bound = np.where(steeper[..., None], d_wings[:, 0], d_wings[:, 1]) / 2.0
    tau, d_tau = np.empty_like(steps), np.empty_like(d_bound)
    before, d_before = base, np.zeros_like(d_bound[:, 0])
    for i in range(expiries):
        binds = bound[:, i] > before
        tau[:, i] = np.where(binds, bound[:, i], before) + steps[:, i]
        d_tau[:, i] = np.where(binds[:, None], d_bound[:, i], d_before)
        d_tau[:, i, 2 * expiries + i] += 1.0
        before, d_before = tau[:, i], d_tau[:, i]
    return tau, d_tau
