"""A million implied volatilities, next to vollib's core one by one and fast-vollib in arrays."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from fast_vollib.jackel import jackel_iv_black
from numpy.typing import NDArray

from benchmarks import rational
from benchmarks.row import OURS, Check, Made, Row, faster, stated, within
from derivdata.analysis import black76

__all__ = ["ROWS", "Options", "implied", "options"]

Floats = NDArray[np.float64]
_COUNT = 1_000_000
_SCALAR = 100_000
_LOOP = "vollib's core one by one (Let's Be Rational, compiled by numba), 1/10 of the options"
_FAST = "fast-vollib, its fastest way (jackel_iv_black)"
_PRICE = "derivdata, one price evaluation"
_EXP = "limit: one numpy exp per element"


class Options(NamedTuple):
    """Arrays, one element an option; `price` is undiscounted."""

    forward: Floats
    strike: Floats
    years: Floats
    iv: Floats
    side: NDArray[np.str_]
    price: Floats


def options(count: int, *, seed: int = 9) -> Options:
    """A day to a year, within five deviations, out of the money."""
    rng = np.random.default_rng(seed)
    years = np.exp(rng.uniform(np.log(1 / 365), 0.0, count))
    iv = rng.uniform(0.2, 1.5, count)
    forward = np.full(count, 65_000.0)
    distance = rng.uniform(-5, 5, count)
    strike = forward * np.exp(distance * iv * np.sqrt(years))
    side = np.where(distance > 0, "call", "put")
    return Options(forward, strike, years, iv, side, black76.price(forward, strike, years, iv, side))


def implied(of: Options) -> Any:
    """Results of the library."""
    return black76.implied_vol(of.price, of.forward, of.strike, of.years, of.side)


def _implied_vol(_: Path) -> Made:
    of = options(_COUNT)
    some = _one_by_one(of)
    return Made(
        {
            OURS: lambda: implied(of),
            _LOOP: lambda: _loop(some),
            _FAST: lambda: _fast(of),
            _PRICE: lambda: black76.price(of.forward, of.strike, of.years, of.iv, of.side),
            _EXP: lambda: np.exp(of.iv),
        },
        parts={_LOOP: _SCALAR / _COUNT},
        checks=lambda: _errors(of),
    )


def _one_by_one(of: Options) -> list[tuple[float, ...]]:
    """Price, forward, strike, years and sign of the first options."""
    sign = np.where(of.side == "call", 1.0, -1.0)
    columns = (of.price, of.forward, of.strike, of.years, sign)
    return list(zip(*(column[:_SCALAR].tolist() for column in columns), strict=True))


def _loop(some: list[tuple[float, ...]]) -> list[float]:
    return [rational.implied_vol(*each) for each in some]


def _fast(of: Options) -> Any:
    return jackel_iv_black(of.price, of.forward, of.strike, of.years, of.side == "call")


def _errors(of: Options) -> list[Check]:
    loop = _worst(np.array(_loop(_one_by_one(of))) / of.iv[:_SCALAR] - 1)
    ours, fast = (_worst(np.asarray(found) / of.iv - 1) for found in (implied(of).iv, _fast(of)))
    value = f"{ours:.0e}; the loop's {loop:.0e}, fast-vollib's {fast:.0e}"
    return [Check("largest relative error of a volatility", value, "≤ 1e-12", ours <= 1e-12)]


def _worst(errors: Floats) -> float:
    return float(np.max(np.abs(errors)))


ROWS = [
    Row(
        "implied-vol",
        what="Black-76 implied volatility",
        given="1,000,000 options, 1 day to 1 year, ±5 sd, out of the money",
        make=_implied_vol,
        goals={_LOOP: faster(25), _FAST: faster(2), _PRICE: within(6), _EXP: stated()},
        rounds=5,
    )
]
