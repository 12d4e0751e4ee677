"""Many rules on the same data, and what the best of them is worth after so many trials."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from derivdata.analysis.backtest.costs import Costs
from derivdata.analysis.backtest.deflated_sharpe import deflated_sharpe_ratio
from derivdata.analysis.backtest.results import DAYS_PER_YEAR, daily_returns
from derivdata.analysis.backtest.simulation import carry
from derivdata.support.arguments import typed

__all__ = ["sweep"]

_FIGURES = ("net_usd", "apr", "sharpe", "max_drawdown", "turnover", "liquidations")


@typed
def sweep(panel: xr.DataArray, rules: Mapping[str, Any], costs: Costs, **options: Any) -> pd.DataFrame:
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
        One row per rule, in the order given: ``rule``, ``net_usd``, ``apr``, ``sharpe`` (annualised, of daily
        returns), ``max_drawdown``, ``turnover``, ``liquidations``, ``trades``, ``days`` (whole UTC ones), and
        ``deflated_sharpe``: the probability that the rule has any skill, given that it may be the best of
        all these, see `deflated_sharpe_ratio`. It is meant for the line with the highest Sharpe ratio, and is
        a lower bound for the others' chance of having been found by luck alone. ``attrs["best"]`` names that
        line, ``attrs["trials"]`` counts the rules that traded.

    Raises
    ------
    TypeError, ValueError
        As `carry`; there are no rules.

    Examples
    --------
    >>> backtest = dd.analysis.backtest
    >>> rates = dd.panel(dd.funding.history("BTC", "10d", venues=["binance", "hyperliquid", "okx"]))
    >>> rules = {f"from {level} bps": backtest.SpreadThreshold(level) for level in (0.5, 1.0, 2.0)}
    >>> table = backtest.sweep(rates, rules, backtest.Costs(fees_bps=1.0))
    >>> table["rule"].tolist()
    ['from 0.5 bps', 'from 1.0 bps', 'from 2.0 bps']
    """
    if not rules:
        raise ValueError("rules has none to compare")
    rows, returns = [], []
    for name, rule in rules.items():
        result = carry(panel, rule, costs, **options)
        returns.append(daily_returns(result))
        figures = {figure: result[figure].item() for figure in _FIGURES}
        rows.append({"rule": name} | figures | {"trades": result.sizes["trade"], "days": returns[-1].size})
    table = pd.DataFrame(rows)
    daily = table["sharpe"].to_numpy() / np.sqrt(DAYS_PER_YEAR)
    tried = np.isfinite(daily)
    variance = float(np.var(daily[tried], ddof=1)) if tried.sum() > 1 else 0.0
    table["deflated_sharpe"] = [
        _deflated(sharpe, days, int(tried.sum()), variance)
        for sharpe, days in zip(daily, returns, strict=True)
    ]
    best = str(table.loc[table["sharpe"].idxmax(), "rule"]) if tried.any() else ""
    table.attrs = {"best": best, "trials": int(tried.sum())}
    if "provenance" in result.attrs:
        table.attrs["provenance"] = result.attrs["provenance"]
    return table


def _deflated(sharpe: float, returns: Any, trials: int, variance: float) -> float:
    from scipy import stats  # takes long to import, and sweeps alone need it

    if not np.isfinite(sharpe):
        return float("nan")
    return deflated_sharpe_ratio(
        float(sharpe),
        trials=trials,
        variance=variance,
        observations=int(returns.size),
        skewness=float(stats.skew(returns)),
        kurtosis=float(stats.kurtosis(returns, fisher=False)),
    )
