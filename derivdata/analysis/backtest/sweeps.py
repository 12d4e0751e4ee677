"""Simulate many rules on the same data, and adjust the best of them for the number of trials."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import ndtr, ndtri, stdtr

from derivdata.analysis.backtest.book import Portfolio
from derivdata.analysis.backtest.costs import Costs
from derivdata.analysis.backtest.engine import Journal, setting, simulate
from derivdata.analysis.backtest.results import (
    DAYS_PER_YEAR,
    Reason,
    equity_of,
    long_run_ratio,
    returns_by_day,
    totals_of,
)
from derivdata.analysis.panels import Panel
from derivdata.support.arguments import typed
from derivdata.support.arrays import Floats, Indices

_MOST_RULES = 128
"""Rules that are simulated in one loop: their positions are in the processor's cache."""


@typed
def sweep(panel: Panel, rules: Mapping[str, Any], costs: Costs, **options: Any) -> pd.DataFrame:
    """Backtest several rules on the same data and deflate the Sharpe ratio of the best.

    Parameters
    ----------
    panel, costs
        As in `carry`.
    rules
        The rules by name: a line of the result each.
    **options
        Further arguments of `carry`, the same for all.

    Returns
    -------
    DataFrame
        One row per rule, in the given order: ``rule``, ``net_usd``, ``apr``, ``sharpe`` (annualised, from
        daily returns assuming independence) and ``sharpe_adjusted`` (for dependence, as in `carry`),
        ``max_drawdown``, ``turnover``, ``liquidations``, ``trades``, ``days`` (whole UTC days), and
        ``deflated_sharpe``: the probability that the rule has skill, given that it may be the best of all
        these and that daily carry is autocorrelated; ``deflated_if_independent`` is the same for independent
        days, and too high otherwise. It applies to the row with the highest Sharpe ratio, and is a lower
        bound for the other rows. ``attrs["best"]`` names that row, ``attrs["trials"]`` counts the rules that
        traded.

    Raises
    ------
    TypeError, ValueError
        As `carry`; there are no rules.

    Examples
    --------
    >>> backtest = dd.analysis.backtest
    >>> rates = dd.funding.history("BTC", "10d", venues=["binance", "hyperliquid", "okx"])
    >>> rules = {f"from {level} bps": backtest.SpreadThreshold(level) for level in (0.5, 1.0, 2.0)}
    >>> table = backtest.sweep(rates, rules, backtest.Costs(fee_bps=1.0))
    >>> table["rule"].tolist()
    ['from 0.5 bps', 'from 1.0 bps', 'from 2.0 bps']
    """
    if not rules:
        raise ValueError("rules must have at least one rule to compare")
    for name, rule in rules.items():
        if not callable(rule) and not isinstance(rule, Portfolio):
            raise TypeError(f"rules[{name!r}] must be a rule, a function or a Portfolio, got {rule!r}")
    given = setting(panel, costs, **options)
    lines: dict[str, dict[str, Any]] = {}
    returns: dict[str, Floats] = {}
    for names in _together(rules):
        journal = simulate(given, [rules[name] for name in names])
        trades, liquidations = _trades_of(journal, len(names))
        for place, name in enumerate(names):
            equity, drawdown = equity_of(journal.earned[:, place], given.account.capital)
            traded = float(journal.total_traded[place])
            lost = int(liquidations[place])
            totals = totals_of(given.market, equity, drawdown, given.account.capital, traded, lost)
            returns[name] = returns_by_day(given.market.times, equity, given.account.capital)
            counts = {"trades": int(trades[place]), "days": returns[name].size}
            lines[name] = {"rule": name} | totals._asdict() | counts
    table = pd.DataFrame([lines[name] for name in rules])
    daily = table["sharpe"].to_numpy() / np.sqrt(DAYS_PER_YEAR)
    tried = np.isfinite(daily)
    variance = float(np.var(daily[tried], ddof=1)) if tried.sum() > 1 else 0.0
    for name, dependent in (("deflated_sharpe", True), ("deflated_if_independent", False)):
        table[name] = [
            _deflated(sharpe, days, int(tried.sum()), variance, dependent=dependent)
            for sharpe, days in zip(daily, [returns[name] for name in rules], strict=True)
        ]
    best = str(table.loc[table["sharpe"].idxmax(), "rule"]) if tried.any() else ""
    table.attrs = {"best": best, "trials": int(tried.sum())}
    table.attrs |= given.attrs
    return table


def _together(rules: Mapping[str, Any]) -> list[list[str]]:
    """Return the names of the rules that are simulated in one loop; a `Portfolio` has separate accounts."""
    alone = [name for name, rule in rules.items() if isinstance(rule, Portfolio)]
    together = [name for name in rules if name not in alone]
    blocks = [together[start : start + _MOST_RULES] for start in range(0, len(together), _MOST_RULES)]
    return blocks + [[name] for name in alone]


def _trades_of(journal: Journal, rules: int) -> tuple[Indices, Indices]:
    """Return the number of trades and of liquidations of each rule."""
    none = np.empty(0, dtype=np.intp)
    places = np.concatenate([none, *(closed["place"] for closed in journal.closed)])
    reasons = np.concatenate([none, *(closed["reason"] for closed in journal.closed)])
    rule = journal.rule_of(places)
    lost = rule[reasons == Reason.LIQUIDATION]
    return np.bincount(rule, minlength=rules), np.bincount(lost, minlength=rules)


def _deflated(sharpe: float, returns: Any, trials: int, variance: float, *, dependent: bool) -> float:
    from scipy import stats  # slow import that only sweeps need

    if not np.isfinite(sharpe):
        return float("nan")
    ratio, degrees = long_run_ratio(returns) if dependent else (1.0, 0)
    return deflated_sharpe_ratio(
        float(sharpe),
        trials=trials,
        variance=variance,
        observations=int(returns.size),
        skewness=float(stats.skew(returns)),
        kurtosis=float(stats.kurtosis(returns, fisher=False)),
        long_run_ratio=ratio,
        degrees=degrees or np.inf,
    )


@typed
def deflated_sharpe_ratio(
    sharpe: float,
    *,
    trials: int,
    variance: float,
    observations: int,
    skewness: float = 0.0,
    kurtosis: float = 3.0,
    long_run_ratio: float = 1.0,
    degrees: float = np.inf,
) -> float:
    """Compute the probability that the best of several trials has a true Sharpe ratio above zero.

    Parameters
    ----------
    sharpe
        Sharpe ratio of the best trial, per observation: an annual one over √365 for daily returns.
    trials
        Number of independent trials from which it is selected. Trials of a grid are correlated, so counting
        all of them is conservative.
    variance
        Variance of the trials' Sharpe ratios, per observation.
    observations
        Number of returns of the best trial.
    skewness, kurtosis
        Moments of its returns; the kurtosis of a normal distribution is 3.
    long_run_ratio, degrees
        Long-run variance of its returns over their variance, 1 of independent ones, and the degrees of
        freedom of that estimate.

    Returns
    -------
    float
        From 0 to 1; 0.95 is a usual threshold. NaN where an argument is NaN.

    Raises
    ------
    ValueError
        Fewer than one trial or two observations, or a negative variance.

    Notes
    -----
    Bailey and López de Prado, *The deflated Sharpe ratio*, Journal of Portfolio Management 40 (5), 2014. The
    probabilistic Sharpe ratio ``Φ((SR − SR₀) √(T − 1) / √(1 − γ₃ SR + (γ₄ − 1) SR² / 4))`` against the
    expected maximum of N trials without skill, ``SR₀ = √V ((1 − γ) Φ⁻¹(1 − 1/N) + γ Φ⁻¹(1 − 1/(N e)))``,
    where γ is Euler's constant. One trial is not deflated: SR₀ = 0. For dependent returns T − 1 is divided by
    the ratio of the variances, and Φ is the distribution function of Student's t: without skill about 5 % of
    single trials then pass 0.95 (measured in docs/backtest.md).

    Examples
    --------
    Their example: 2.5 a year over five years of 250 days, the best of 100 trials.

    >>> year = 250
    >>> from derivdata.analysis.backtest.sweeps import deflated_sharpe_ratio
    >>> chance = deflated_sharpe_ratio(
    ...     2.5 / year**0.5, trials=100, variance=0.5 / year, observations=1250, skewness=-3.0, kurtosis=10.0
    ... )
    >>> round(chance, 4)
    0.9004
    """
    if trials < 1 or observations < 2 or variance < 0.0:
        raise ValueError(
            f"trials, observations and variance must be at least 1, 2 and 0, got {trials!r}, "
            f"{observations!r} and {variance!r}"
        )
    highest = 0.0
    if trials > 1:
        normal = ndtri
        highest = np.sqrt(variance) * (
            (1.0 - np.euler_gamma) * normal(1.0 - 1.0 / trials)
            + np.euler_gamma * normal(1.0 - 1.0 / (trials * math.e))
        )
    spread = 1.0 - skewness * sharpe + (kurtosis - 1.0) / 4.0 * sharpe**2
    score = (sharpe - highest) * np.sqrt((observations - 1.0) / long_run_ratio) / np.sqrt(spread)
    return float(ndtr(score) if np.isinf(degrees) else stdtr(degrees, score))
