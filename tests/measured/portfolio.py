"""``python -m tests.measured.portfolio``: portfolios on recorded settlements and marks, walked forward.

Prints the figures of docs/methods/carry.md: how likely an account is liquidated and how often it was, and
what portfolios were expected to earn and earned.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from derivdata.analysis import backtest, funding
from derivdata.analysis.funding.portfolios import moves_of
from derivdata.support.arrays import Floats
from tests.support.recorded_funding import recorded_funding, recorded_marks

_STEP, _WEEK = 8.0, 21  # hours of the marks; marks of a week


def liquidations(
    leverage: float, transfer_hours: float, maintenance: float = 0.01
) -> tuple[float, float, int]:
    """Return the probability claimed for a week and how often a leg was lost, and of how many weeks.

    A leg that is rebalanced every so many hours is liquidated if the price moves by more than its margin
    minus the maintenance in between; the legs are long and short BTC and ETH.
    """
    levels = np.log(recorded_marks().median("exchange").transpose("symbol", "time").to_numpy())
    at = np.arange(100 * 3, levels.shape[1] - _WEEK, _WEEK)
    moves = moves_of(levels, _STEP, transfer_hours, at)
    bears = 1.0 / leverage - maintenance
    claimed, came = [], []
    for place, row in enumerate(map(int, at)):
        for symbol in range(len(levels)):
            deviation = np.sqrt(moves.covariance[place, symbol, symbol])
            claimed += [float(moves.weekly(place, bears / deviation))] * 2
            week = levels[symbol, row : row + _WEEK + 1]
            came += [_lost(sign * week, round(transfer_hours / _STEP), bears) for sign in (1.0, -1.0)]
    return float(np.mean(claimed)), float(np.mean(came)), len(came)


def _lost(levels: Floats, rows: int, bears: float) -> bool:
    spans = range(0, levels.size - 1, rows)
    return any(levels[first : first + rows + 1].max() - levels[first] > bears for first in spans)


def walked(fee_bps: float, **limits: Any) -> tuple[xr.Dataset, xr.Dataset]:
    """Return the sizes of every week and their backtest, on a million USD."""
    marks = recorded_marks()
    paid = recorded_funding().sel(exchange=marks["exchange"].to_numpy(), time=slice("2023", None))
    result = funding.forecast_history(paid, hold="7d", fee_bps=fee_bps, prices=marks, every="7d")
    sizes = funding.portfolio(result, marks, capital=1e6, start="2023-07-01", **limits)
    since = paid.sel(time=slice(sizes["time"].to_numpy()[0], None))
    costs = backtest.Costs(fee_bps=fee_bps)
    return sizes, backtest.carry(since, backtest.Portfolio(sizes), costs, prices=marks, transfer_every="1d")


def by_week(sizes: xr.Dataset, result: xr.Dataset) -> dict[str, float]:
    """Return the expected and the earned amount of a portfolio per week [USD], and their deviations."""
    equity = result["equity_usd"].sel(time=sizes["time"].to_numpy(), method="nearest").to_numpy()
    earned = np.diff(equity)
    return {
        "expected": float(sizes["net_usd"][:-1].mean()),
        "earned": float(earned.mean()),
        "deviation expected": float(np.sqrt((sizes["risk_usd"][:-1] ** 2).mean())),
        "deviation": float(np.std(earned, ddof=1)),
        "liquidations": float(result["liquidations"]),
        "APR": float(result["apr"]),
    }


if __name__ == "__main__":
    lost = {
        (leverage, hours): liquidations(leverage, hours)
        for leverage in (3.0, 5.0, 10.0)
        for hours in (24.0, 72.0)
    }
    print(pd.DataFrame(lost, ["claimed", "observed", "weeks of a leg"]).T.to_string())
    earned = {
        (fee, share): by_week(*walked(fee, max_venue_share=share))
        for fee in (0.0, 0.5, 2.0)
        for share in (1.0, 0.3)
    }
    print(pd.DataFrame(earned).T.round(3).to_string())
