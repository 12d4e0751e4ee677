"""Backtest of carry over a year of hours: 43 venues and 200 symbols, settled rates and marks."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pandas as pd
import xarray as xr
from scipy.signal import lfilter

from benchmarks.row import OURS, Check, Made, Row, stated, within
from derivdata.analysis import backtest

__all__ = ["ROWS", "market"]

_COPY = "limit: one copy of the rates and the prices"
_ONE_RULE = "backtest.carry of one rule"
_MAX_SECONDS = 10.0


def market(symbols: int, hours: int) -> tuple[xr.DataArray, xr.DataArray]:
    """Rates around levels that stay for days, a fiftieth missing, and prices that a venue follows closely.

    The figures of every twentieth symbol are the same.
    """
    rng = np.random.default_rng(11)
    noise = rng.standard_normal((min(symbols, 20), 43, hours))
    drawn = lfilter([0.1], [1.0, -0.99], noise, axis=-1)
    drawn[rng.random(drawn.shape) < 0.02] = np.nan
    walk = np.exp(np.cumsum(0.005 * rng.standard_normal((len(drawn), 1, hours)), axis=-1))
    marks = 100.0 * walk * np.exp(0.0003 * rng.standard_normal(drawn.shape))
    repeated = np.arange(symbols) % len(drawn)
    labels = {
        "symbol": [f"SYM{i:04d}" for i in range(symbols)],
        "exchange": [f"venue{i:02d}" for i in range(43)],
        "time": pd.date_range("2025-01-01", periods=hours, freq="h").as_unit("us").to_numpy(),
    }
    rates = xr.DataArray(drawn[repeated], labels, tuple(labels), name="rate_bps_8h")
    prices = xr.DataArray(marks[repeated], labels, tuple(labels), name="price_usd")
    rates = rates.assign_coords(interval_hours=1.0)
    rates.attrs, prices.attrs = {"units": "bps/8h", "kind": "settled"}, {"units": "USD"}
    return rates, prices


def _carry(_: Path) -> Made:
    rates, prices = market(200, 8760)
    rule = backtest.HoldingTime(
        backtest.SpreadThreshold(2.0, 0.5, switch_bps_8h=2.0, window="24h"), min_hold="24h"
    )

    def ours() -> xr.Dataset:
        return backtest.carry(
            rates,
            rule,
            backtest.Costs(2.0, slippage_bps=0.5),
            prices=prices,
            capital=1e8,
            transfer_every="24h",
        )

    def seconds() -> list[Check]:
        start = time.process_time()
        result = ours()
        spent = time.process_time() - start
        assert result.sizes["trade"] > 1000
        return [Check("processor seconds", f"{spent:.1f}", f"≤ {_MAX_SECONDS:g}", spent <= _MAX_SECONDS)]

    return Made(
        {OURS: ours, _COPY: lambda: (rates.values.copy(), prices.values.copy())},
        checks=seconds,
        facts=lambda: ["equal to the cent to a loop over symbols and legs on small markets, in the tests"],
    )


def _sweep(_: Path) -> Made:
    rates, prices = market(50, 4380)
    options = {"prices": prices, "capital": 1e8, "transfer_every": "24h"}
    costs = backtest.Costs(2.0, slippage_bps=0.5)
    rules = {
        f"{level:g}": backtest.SpreadThreshold(level, 0.5, switch_bps_8h=2.0)
        for level in np.linspace(1.0, 20.0, 100)
    }
    middle = list(rules)[50]
    alone = backtest.carry(rates, rules[middle], costs, **options)
    table = backtest.sweep(rates, rules, costs, **options).set_index("rule")
    assert table["net_usd"][middle] == alone["net_usd"].item()

    return Made(
        {
            OURS: lambda: backtest.sweep(rates, rules, costs, **options),
            _ONE_RULE: lambda: backtest.carry(rates, rules[middle], costs, **options),
        },
        facts=lambda: ["net_usd equal, to the last bit, to that of the rule alone"],
    )


ROWS = [
    Row(
        "backtest-sweep",
        "backtest.sweep, 100 rules, price P&L, margin",
        "43 venues × 50 symbols × 4,380 hours, rates and prices, 0.15 GB",
        _sweep,
        {_ONE_RULE: within(10)},
        rounds=1,
    ),
    Row(
        "backtest-carry",
        "backtest.carry, thresholds on the mean of 24 hours, price P&L, margin",
        "43 venues × 200 symbols × 8,760 hours, rates and prices, 1.2 GB",
        _carry,
        {_COPY: stated()},
        rounds=1,
    ),
]
