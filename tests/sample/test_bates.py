"""Prices of the Bates model against QuantLib."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import QuantLib as ql
from numpy.typing import NDArray
from scipy.integrate import quad
from scipy.stats import norm

from derivdata.sources.sample import option_model
from derivdata.sources.sample.option_model import (
    PUBLISHED,
    Bates,
    expected_variance,
    out_of_the_money,
)

Floats = NDArray[np.float64]


def log_mgf(model: Bates, z: Any, years: Any) -> Any:
    """``ln E[e^(zx)]`` at complex z, jumps included."""
    jump = np.exp(model.jump_mean * z + 0.5 * model.jump_deviation**2 * z * z)
    jumps = model.jumps_per_year * years * (jump - 1.0 - model.compensator * z)
    return option_model._log_mgf_heston(model, z, years) + jumps


SCALES = (1.0, 2.14, 5.22)
"""The parameters as published, and as coins of 45 % and of 110 % volatility have them."""


def scaled(s: float, variance: float = 1.0) -> Bates:
    """The published model with log returns s times as large, and the variance off its mean by a factor."""
    p = PUBLISHED
    moved = {"variance": s * s * p.variance * variance, "long_variance": s * s * p.long_variance}
    jumps = {"jump_mean": s * p.jump_mean, "jump_deviation": s * p.jump_deviation}
    return p._replace(vol_of_variance=s * p.vol_of_variance, **moved, **jumps)


def prices(model: Bates, years: float, k: Floats) -> Floats:
    place = np.zeros(len(k), dtype=np.int64)
    return out_of_the_money(model, np.array([[years]]), k[:, None], place)[:, 0]


def around(model: Bates, years: float) -> Floats:
    """Log-moneyness up to four expected deviations from the forward, which is itself not among them."""
    deviation = math.sqrt(float(expected_variance(model, np.array(years))))
    return deviation * np.array([-4.0, -2.5, -1.5, -0.7, -0.1, 0.05, 0.6, 1.2, 2.0, 3.0])


@pytest.mark.parametrize("model", [scaled(s) for s in SCALES])
@pytest.mark.parametrize("days", [1, 7, 91, 328])
def test_prices_equal_quantlib(model: Bates, days: int) -> None:
    """Its BatesEngine with Gauss-Lobatto quadrature; r = 0, so that the forward is the spot."""
    today = ql.Date(30, 6, 2026)
    ql.Settings.instance().evaluationDate = today
    flat = ql.YieldTermStructureHandle(ql.FlatForward(today, 0.0, ql.Actual365Fixed()))
    spot = ql.QuoteHandle(ql.SimpleQuote(1.0))
    process = ql.BatesProcess(
        *(flat, flat, spot, model.variance, model.reversion, model.long_variance, model.vol_of_variance),
        *(model.correlation, model.jumps_per_year, model.jump_mean, model.jump_deviation),
    )
    engine = ql.BatesEngine(ql.BatesModel(process), 1e-12, 100_000)
    k = around(model, days / 365)
    for item, price in zip(k, prices(model, days / 365, k), strict=True):
        payoff = ql.PlainVanillaPayoff(ql.Option.Call if item > 0 else ql.Option.Put, math.exp(item))
        option = ql.VanillaOption(payoff, ql.EuropeanExercise(today + days))
        option.setPricingEngine(engine)
        assert price == pytest.approx(option.NPV(), abs=1e-8)


def test_variance_is_that_of_the_moments() -> None:
    """``E[−2x]`` is the value of the log contract; without jumps it is the expected quadratic variation."""
    model, h = scaled(2.14, 1.5)._replace(jumps_per_year=0.0), 1e-5
    slope = (log_mgf(model, complex(h, 0.0), 0.7) - log_mgf(model, complex(-h, 0.0), 0.7)).real / (2 * h)
    assert -2 * slope == pytest.approx(float(expected_variance(model, np.array(0.7))), rel=1e-8)


def test_far_from_the_money_only_jumps_count() -> None:
    """Half an hour before expiry, 60 deviations away, the diffusion's sum must not come back periodically.

    A call at k = 0.3 needs one jump: ``λT E[(e^J − e^k)⁺]``, by quadrature over the normal J. The diffusion's
    w = 1e-5 adds w/2 × (k − μ)²/δ⁴, 0.2 %.
    """
    model, years, k = scaled(2.14), 0.5 / 8760, 0.3
    mean, deviation = model.jump_mean, model.jump_deviation
    one, _ = quad(lambda j: (math.exp(j) - math.exp(k)) * norm.pdf(j, mean, deviation), k, 2.0, epsabs=1e-15)
    expected = model.jumps_per_year * years * one
    assert prices(model, years, np.array([k]))[0] == pytest.approx(expected, rel=5e-3)
