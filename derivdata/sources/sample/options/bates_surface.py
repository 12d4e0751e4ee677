"""The surface of the sample: prices of the model of Bates (1996) with published parameters.

The parameters are those of Bakshi, Cao and Chen (1997, table III, "SVJ", all options) for the S&P 500, with
log returns s times as large: if x follows the model with ``(v, θ, κ, σ, ρ, λ, μ, δ)``, then sx follows it
with ``(s²v, s²θ, κ, sσ, ρ, λ, sμ, sδ)``, but for the drift, which the forward fixes. The scale s makes the
long-run variance ``θ + λ(μ² + δ²)`` that of the symbol's price path. The variance v moves, as in the model,
and slowly also θ and λ, as daily recalibrations move them; κ, ρ and, on each venue, σ, μ and δ stay.

One number has another meaning here. Their mean jump of −5 % is μ_J, that of the relative jump J, with
``ln(1 + J) ~ N(ln(1 + μ_J) − δ²/2, δ²)``. Here −0.05 is μ, the mean of the log jump, and before scaling the
mean relative jump is ``e^(μ + δ²/2) − 1 = −4.64 %``.

No form that the library fits contains these smiles: shortly before expiry the jumps lift the far wings while
the middle stays nearly Gaussian.

References
----------
Bakshi, Cao and Chen (1997), "Empirical performance of alternative option pricing models", Journal of Finance
52(5), 2003-2049.
"""

from __future__ import annotations

import numpy as np

from derivdata.analysis.black76.inversion import deviation
from derivdata.sources.sample.grid import Ints
from derivdata.sources.sample.noise import Floats
from derivdata.sources.sample.options.bates import Bates, expected_variance, out_of_the_money
from derivdata.sources.sample.options.forward_curves import bounded_paths, venue_offsets
from derivdata.sources.sample.universe import symbols

__all__ = ["LEAST_PRICE", "PUBLISHED", "BatesSurface", "model"]

PUBLISHED = Bates(
    variance=0.04,
    long_variance=0.04,
    reversion=2.03,
    vol_of_variance=0.38,
    correlation=-0.57,
    jumps_per_year=0.59,
    jump_mean=-0.05,
    jump_deviation=0.07,
)
"""Bakshi, Cao and Chen's estimate, with their mean relative jump as mean of the log jump.

v is a state and here at its mean.
"""

LEAST_PRICE = 1e-9
"""Least price out of the money, in units of the forward: what is cheaper has the volatility of this price.

Farther out a price would have fewer digits than its volatility needs. Marks are rounded to a thousand times
as much.
"""


class BatesSurface:
    """Volatilities that the model's prices imply; no fit of the library contains them."""

    quoted = True

    def parameters(self, symbol: str, exchange: str, years: Floats, time: Ints) -> dict[str, Floats]:
        """Return the model's parameters, and the volatility at the money, of every expiry and instant."""
        now = model(symbol, exchange, time)
        middle = np.arange(len(years))
        w = self.total_variance(
            symbol,
            exchange,
            years,
            time,
            np.zeros(years.shape),
            middle,
        )
        shared = {name: np.broadcast_to(value, years.shape) for name, value in now._asdict().items()}
        return shared | {
            "expected_variance": expected_variance(now, years),
            "atm_iv": np.sqrt(w / years),
        }

    def total_variance(
        self, symbol: str, exchange: str, years: Floats, time: Ints, k: Floats, place: Ints
    ) -> Floats:
        """Return total implied variance at log-moneyness `k`, ``(options, instants)``."""
        price = out_of_the_money(model(symbol, exchange, time), years, k, place)
        x = np.abs(k).ravel()
        value = np.maximum(price, LEAST_PRICE).ravel() * np.exp(-0.5 * k.ravel())
        return np.asarray(deviation(x, value).s.reshape(k.shape) ** 2)

    def typical_variance(self, symbol: str, exchange: str, years: Floats, time: Ints) -> Floats:
        """Return the expected quadratic variation."""
        return expected_variance(model(symbol, exchange, time), years)


def model(symbol: str, exchange: str, time: Ints) -> Bates:
    """Return the model of a symbol on a venue; what moves has the shape of `time`."""
    bounded, offsets = bounded_paths(symbol, time), venue_offsets(symbol, exchange)
    published = PUBLISHED
    jumps = published.jumps_per_year * (published.jump_mean**2 + published.jump_deviation**2)
    level = symbols().volatility[symbols().name.index(symbol)] ** 2 * (1.0 + 0.06 * offsets[0])
    scale = float(np.sqrt(level / (published.long_variance + jumps)))
    return Bates(
        variance=scale**2 * published.variance * np.exp(0.35 * bounded[0]),
        long_variance=scale**2 * published.long_variance * np.exp(0.12 * bounded[1]),
        reversion=published.reversion,
        vol_of_variance=scale * published.vol_of_variance,
        correlation=published.correlation,
        jumps_per_year=published.jumps_per_year * np.exp(0.15 * bounded[2]),
        jump_mean=scale * published.jump_mean,
        jump_deviation=scale * published.jump_deviation,
    )
