"""Backtests against vectorbt on what it can express: prices and fees of positions; it knows no funding.

Not part of the gate: vectorbt brings forty packages and compiles for a minute. Install it to run this.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from derivdata.analysis import backtest
from tests.analysis.test_backtest import SYMBOLS, VENUES, drawn, panel

pytest.importorskip("vectorbt", reason="vectorbt is not installed: pip install vectorbt")


@pytest.mark.slow
@pytest.mark.filterwarnings("default")  # vectorbt's own, on newer pandas and numpy
@pytest.mark.parametrize("seed", [1, 4])
def test_vectorbt_gives_the_same_equity_without_funding(seed: int) -> None:
    import vectorbt

    rates, prices = drawn(seed)
    prices = pd.DataFrame(prices.reshape(12, -1)).T.ffill().bfill().to_numpy().T.reshape(prices.shape)
    fees = dict(zip(VENUES, (1.0, 2.0, 3.0, 4.0), strict=True))
    result = backtest.carry(
        panel(rates),
        backtest.SpreadThreshold(2.0, 0.5, 1.5),
        backtest.Costs(fees),
        interval_hours=8.0,
        prices=panel(prices, unit="USD"),
        leverage=1.0,
        maintenance=0.0,
        capital=10e6,
    )
    times = list(pd.DatetimeIndex(result["time"].values, tz="UTC"))
    size = np.zeros((len(times), 3, 4))
    for trade in backtest.trades(result).itertuples():
        symbol, entry, exit_row = (
            SYMBOLS.index(trade.symbol),
            times.index(trade.entry),
            times.index(trade.exit),
        )
        long, short = VENUES.index(trade.long), VENUES.index(trade.short)
        coins = trade.entry_usd / (prices[symbol, long, entry] + prices[symbol, short, entry])
        size[entry, symbol, [long, short]] += [coins, -coins]
        size[exit_row, symbol, [long, short]] -= [coins, -coins]
    columns = pd.MultiIndex.from_product([SYMBOLS, VENUES])
    close = pd.DataFrame(prices.reshape(12, -1).T, index=times, columns=columns)
    orders = pd.DataFrame(size.reshape(len(times), 12), index=times, columns=columns)
    theirs = vectorbt.Portfolio.from_orders(
        close,
        orders.where(orders != 0.0),
        fees=np.tile([fee / 1e4 for fee in fees.values()], (len(times), 3)),
        init_cash=10e6,
        cash_sharing=True,
        group_by=np.zeros(12, dtype=int),
        freq="8h",
    )
    ours = result["equity_usd"] - result["funding_usd"].sum("symbol").cumsum("time")
    assert result.sizes["trade"] > 5
    np.testing.assert_allclose(theirs.value().to_numpy().ravel(), ours.values, atol=0.005, rtol=0)
