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
        prices=panel(prices, unit="USD"),
        leverage=1.0,
        maintenance=0.0,
        capital=10e6,
    )
    times = list(pd.DatetimeIndex(result["time"].values, tz="UTC"))
    table = backtest.trades(result)
    # A column for each leg of each trade: vectorbt would net a venue's exit with its entry at the same row.
    size = np.full((len(times), 2 * len(table)), np.nan)
    close, charged = np.empty(size.shape), np.empty(size.shape)
    for place, trade in enumerate(table.itertuples()):
        symbol, entry, exit_row = (
            SYMBOLS.index(trade.symbol),
            times.index(trade.entry),
            times.index(trade.exit),
        )
        legs = [prices[symbol, VENUES.index(venue)] for venue in (trade.long, trade.short)]
        coins = trade.entry_usd / (legs[0][entry] + legs[1][entry])
        for leg, (sign, venue) in enumerate(((1.0, trade.long), (-1.0, trade.short))):
            column = 2 * place + leg
            close[:, column], charged[:, column] = legs[leg], fees[venue] / 1e4
            size[entry, column], size[exit_row, column] = sign * coins, -sign * coins
    theirs = vectorbt.Portfolio.from_orders(
        pd.DataFrame(close, index=times),
        pd.DataFrame(size, index=times),
        fees=charged,
        init_cash=10e6,
        cash_sharing=True,
        group_by=np.zeros(size.shape[1], dtype=int),
        freq="8h",
    )
    ours = result["equity_usd"] - result["funding_usd"].sum("symbol").cumsum("time")
    assert result.sizes["trade"] > 5
    np.testing.assert_allclose(theirs.value().to_numpy().ravel(), ours.values, atol=0.005, rtol=0)
