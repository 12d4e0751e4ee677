"""Surfaces of ten expiries fitted all at once, next to scipy one by one over the same free parameters."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import least_squares
from scipy.special import expit

from benchmarks.memory import peak_bytes_of
from benchmarks.row import OURS, Check, Made, Row, faster, stated
from derivdata.analysis import chain, surface
from tests.analysis.made_chains import daily_chains, hourly_chains
from tests.analysis.mingone import mingone, quotes, ssvi

__all__ = ["ROWS", "YEARS", "boards"]

Floats = NDArray[np.float64]

_SURFACES = 1_000
_SOME = 10
YEARS = np.array([1, 3, 7, 14, 30, 60, 90, 120, 180, 360]) / 365
_TRF = "scipy least_squares (trf, numeric Jacobian), surface by surface, 1/100 of them"
_ONCE = "limit: all slices evaluated once"


def boards(count: int, *, noise: float = 0.005, seed: int = 1) -> tuple[Floats, Floats]:
    """Log-moneyness and noisy volatility ``(surface, expiry, strike)`` of surfaces free of arbitrage."""
    rng = np.random.default_rng(seed)
    made = []
    for _ in range(count):
        flat = rng.normal(0.5, 0.08) ** 2 * YEARS
        rho = np.clip(rng.normal(-0.2, 0.1) + rng.normal(0, 0.03, YEARS.size), -0.9, 0.9)
        steps = np.log(np.diff(flat) * rng.uniform(0.7, 1.3, YEARS.size - 1))
        slices = mingone(rho, np.log(flat[0]), steps, expit(rng.normal(size=YEARS.size)))
        made.append(quotes(*slices, YEARS, strikes=40, spread=2.0))
    k, iv = (np.array(each) for each in zip(*made, strict=True))
    return k, iv + noise * rng.standard_normal(iv.shape)


def _fits(_: Path) -> Made:
    k, iv = boards(_SURFACES)

    def ours() -> Any:
        return surface.fit(k, iv, YEARS, method="essvi", weights="equal")

    return Made(
        {
            OURS: ours,
            _TRF: lambda: [trf(k[i], iv[i]) for i in range(_SOME)],
            _ONCE: lambda: ssvi(k, 0.1, -0.3, 0.5),
        },
        parts={_TRF: _SOME / _SURFACES},
        checks=lambda: [_beside(ours(), k, iv)],
    )


def _beside(fit: Any, k: Floats, iv: Floats) -> Check:
    parameters = (fit[name].values[:_SOME, :, None] for name in ("theta", "rho", "psi"))
    ours = np.sum(_residuals(k[:_SOME], iv[:_SOME], *parameters) ** 2, axis=(1, 2))
    theirs = np.array([trf(k[i], iv[i]) for i in range(_SOME)])
    worst = float(np.max(ours / theirs - 1))
    return Check(
        f"largest excess of our error over its, of {_SOME} surfaces", f"{worst:.0e}", "≤ 1e-06", worst <= 1e-6
    )


def trf(k: Floats, iv: Floats) -> float:
    """Return the sum of squares at the end of a search from ρ = 0 and half of each bound."""
    count = len(YEARS)
    w = iv**2 * YEARS[:, None]
    money = np.array([np.interp(0.0, k[i], w[i]) for i in range(count)])
    steps = np.log(np.maximum(np.diff(money), 1e-3 * money[1:]))
    start = np.concatenate([np.zeros(count), [np.log(money[0])], steps, np.zeros(count)])

    def residuals(x: Floats) -> Floats:
        slices = _slices(np.tanh(x[:count]), np.exp(x[count : 2 * count]), expit(x[2 * count :]))
        return _residuals(k, iv, *(np.array(each)[:, None] for each in slices)).ravel()

    return float(2 * least_squares(residuals, start, x_scale="jac").cost)


def _residuals(k: Floats, iv: Floats, theta: Floats, rho: Floats, psi: Floats) -> Floats:
    w = iv**2 * YEARS[:, None]
    found: Floats = (ssvi(k, theta, rho, psi) - w) / (2 * np.sqrt(w * YEARS[:, None]))
    return found


def _slices(rhos: Floats, steps: Floats, shares: Floats) -> tuple[list[float], list[float], list[float]]:
    """Mingone's map in plain numbers, which is faster than small arrays: θ, ρ, ψ."""
    rho, step, share = rhos.tolist(), steps.tolist(), shares.tolist()
    theta, least = [step[0]], [1.0]
    for a, b, more in zip(rho, rho[1:], step[1:], strict=False):
        least.append((1 + a) / (1 + b) if a >= b else (1 - a) / (1 - b))
        theta.append(theta[-1] * least[-1] + more)
    most = [min(4 / (1 + abs(r)), (4 * t / (1 + abs(r))) ** 0.5) for r, t in zip(rho, theta, strict=True)]
    for i in reversed(range(len(most) - 1)):
        most[i] = min(most[i], most[i + 1] / least[i + 1])
    psi = [share[0] * most[0]]
    for i in range(1, len(most)):
        low, high = psi[-1] * least[i], min(most[i], psi[-1] * theta[i] / theta[i - 1])
        psi.append(low + share[i] * (high - low))
    return theta, rho, psi


_DAYS = 200
_PIVOT = "pandas pivot of one column: a row per chain and expiry, a column per strike"


def _history(_: Path) -> Made:
    options = chain.clean(daily_chains(_DAYS))
    calls = options[options["side"] == "call"]

    return Made(
        {
            OURS: lambda: chain.smiles(options),
            _PIVOT: lambda: calls.pivot(index=["time", "expiry"], columns="strike", values="iv"),
        },
        checks=_peaks,
    )


def _peaks() -> list[Check]:
    """Most memory next to the rows of a history in one call, and of a fourth of it."""
    checks = []
    for what in ("smiles", "surface.from_chain"):
        few, all_ = (peak_bytes_of("chains", str(days), what) / 1e6 for days in (_DAYS // 4, _DAYS))
        value = f"{all_:.0f} MB; {few:.0f} MB for a fourth of the days"
        checks.append(Check(f"peak memory of {what}, {_DAYS} days", value, "≤ 1,000 MB", all_ <= 1_000))
    return checks


_HOURS = 48
_ESSVI = 'method="essvi", weights="price"'
_MILLISECONDS = 10.0


def _hourly(_: Path) -> Made:
    chains = hourly_chains(_HOURS)

    def ours() -> Any:
        return surface.history(chains)

    def each() -> list[Check]:
        begin = time.process_time()
        ours()
        spent = 1e3 * (time.process_time() - begin) / _HOURS
        return [Check("processor time a chain", f"{spent:.1f} ms", "≤ 10 ms", spent <= _MILLISECONDS)]

    return Made(
        {OURS: ours, _ESSVI: lambda: surface.history(chains, method="essvi", weights="price")}, checks=each
    )


ROWS = [
    Row(
        "hourly-surfaces",
        what="surfaces, points and index of hourly chains",
        given=f"{_HOURS} chains of 11 expiries, some 800 options each",
        make=_hourly,
        goals={_ESSVI: stated()},
        rounds=3,
    ),
    Row(
        "chain-history",
        what="smiles of a history of option chains, one call",
        given=f"{_DAYS} daily chains of 11 expiries, some 800 options each",
        make=_history,
        goals={_PIVOT: stated()},
        rounds=3,
    ),
    Row(
        "essvi",
        what="eSSVI surfaces",
        given="1,000 surfaces of 10 expiries × 40 strikes, noise of 0.5 volatility points",
        make=_fits,
        goals={_TRF: faster(10), _ONCE: stated()},
        rounds=3,
    ),
]
