"""A million implied volatilities, beside vollib's core one by one and fast-vollib in arrays."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from fast_vollib.jackel import jackel_iv_black
from numpy.typing import NDArray

from benchmarks import rational
from benchmarks.row import OURS, Made, Row, faster, stated, within
from derivdata.analysis import black76

__all__ = ["ROWS", "options"]

Floats = NDArray[np.float64]
_SCALAR = 100_000
_LOOP = "vollib's core one by one (Let's Be Rational, compiled by numba), 1/10 of the options"
_FAST = "fast-vollib, its fastest way (jackel_iv_black)"
_PRICE = "derivdata, one price evaluation"
_EXP = "limit: one numpy exp per element"


def options(count: int, *, seed: int = 9) -> tuple[Floats, Floats, Floats, Floats, NDArray[np.str_]]:
    """Forward, strike, years, volatility, side: a day to a year, within five deviations, out of the money."""
    rng = np.random.default_rng(seed)
    years = np.exp(rng.uniform(np.log(1 / 365), 0.0, count))
    iv = rng.uniform(0.2, 1.5, count)
    forward = np.full(count, 65_000.0)
    distance = rng.uniform(-5, 5, count)
    strike = forward * np.exp(distance * iv * np.sqrt(years))
    return forward, strike, years, iv, np.where(distance > 0, "call", "put")


def _implied_vol(_: Path) -> Made:
    forward, strike, years, iv, side = options(1_000_000)
    price = black76.price(forward, strike, years, iv, side)
    some = list(zip(*(v[:_SCALAR].tolist() for v in (price, forward, strike, years)), strict=True))
    signs = np.where(side[:_SCALAR] == "call", 1.0, -1.0).tolist()
    calls = side == "call"

    def ours() -> Any:
        return black76.implied_vol(price, forward, strike, years, side)

    def loop() -> list[float]:
        return [rational.implied_vol(p, f, k, t, q) for (p, f, k, t), q in zip(some, signs, strict=True)]

    def fast() -> Any:
        return jackel_iv_black(price, forward, strike, years, calls)

    def facts() -> list[str]:
        theirs = np.asarray(fast())
        errors = [_worst(found / iv - 1) for found in (ours().iv, theirs)]
        scalar = _worst(np.array(loop()) / iv[:_SCALAR] - 1)
        missing = int(np.isnan(theirs).sum())
        return [
            f"largest relative error: ours {errors[0]:.0e}, the loop {scalar:.0e}, "
            f"fast-vollib {errors[1]:.0e} ({missing:,} of its values are NaN)"
        ]

    return Made(
        {
            OURS: ours,
            _LOOP: loop,
            _FAST: fast,
            _PRICE: lambda: black76.price(forward, strike, years, iv, side),
            _EXP: lambda: np.exp(iv),
        },
        parts={_LOOP: _SCALAR / 1_000_000},
        facts=facts,
    )


def _worst(errors: Floats) -> float:
    return float(np.nanmax(np.abs(errors)))


ROWS = [
    Row(
        "implied-vol",
        what="Black-76 implied volatility",
        given="1,000,000 options, 1 day to 1 year, ±5 sd, out of the money",
        make=_implied_vol,
        goals={_LOOP: faster(25), _FAST: faster(2), _PRICE: within(6), _EXP: stated()},
    )
]
