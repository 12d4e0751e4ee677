"""The deflated Sharpe ratio: how likely it is that the best of many trials has any skill."""

from __future__ import annotations

import math

import numpy as np
from scipy.special import ndtr, ndtri

from derivdata.support.arguments import typed

__all__ = ["deflated_sharpe_ratio"]


@typed
def deflated_sharpe_ratio(
    sharpe: float,
    *,
    trials: int,
    variance: float,
    observations: int,
    skewness: float = 0.0,
    kurtosis: float = 3.0,
) -> float:
    """Compute the probability that the best of several trials has a true Sharpe ratio above zero.

    Parameters
    ----------
    sharpe
        Sharpe ratio of the best trial, per observation: an annual one over √365 for daily returns.
    trials
        How many independent trials it is the best of. Trials of a grid are correlated: counting all of them
        errs towards caution.
    variance
        Variance of the trials' Sharpe ratios, per observation.
    observations
        Number of returns of the best trial.
    skewness, kurtosis
        Of its returns; the kurtosis of a normal distribution is 3.

    Returns
    -------
    float
        From 0 to 1; 0.95 and more is usually asked for. NaN where an argument is.

    Raises
    ------
    ValueError
        Fewer than one trial or two observations, or a negative variance.

    Notes
    -----
    Bailey and López de Prado, *The deflated Sharpe ratio*, Journal of Portfolio Management 40 (5), 2014. The
    probabilistic Sharpe ratio ``Φ((SR − SR₀) √(T − 1) / √(1 − γ₃ SR + (γ₄ − 1) SR² / 4))`` against the
    highest one expected of N trials without skill,
    ``SR₀ = √V ((1 − γ) Φ⁻¹(1 − 1/N) + γ Φ⁻¹(1 − 1/(N e)))``, where γ is Euler's constant. One trial has
    nothing to deflate: SR₀ = 0.

    Examples
    --------
    Their example: 2.5 a year over five years of 250 days, the best of 100 trials.

    >>> year = 250
    >>> chance = dd.analysis.backtest.deflated_sharpe_ratio(
    ...     2.5 / year**0.5, trials=100, variance=0.5 / year, observations=1250, skewness=-3.0, kurtosis=10.0
    ... )
    >>> round(chance, 4)
    0.9004
    """
    if trials < 1 or observations < 2 or variance < 0.0:
        raise ValueError(f"{trials=}, {observations=}, {variance=}: need at least 1, 2 and 0")
    highest = 0.0
    if trials > 1:
        normal = ndtri
        highest = np.sqrt(variance) * (
            (1.0 - np.euler_gamma) * normal(1.0 - 1.0 / trials)
            + np.euler_gamma * normal(1.0 - 1.0 / (trials * math.e))
        )
    spread = 1.0 - skewness * sharpe + (kurtosis - 1.0) / 4.0 * sharpe**2
    return float(ndtr((sharpe - highest) * np.sqrt(observations - 1.0) / np.sqrt(spread)))
