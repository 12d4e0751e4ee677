"""``python -m tests.measured.carry_backtest``: a rule of carry, chosen on two years, judged on the next two.

Prints the results of docs/backtest.md: of twelve rules the one with the best Sharpe ratio over 2020 and 2021,
on recorded settlements, and its earnings in each later year; next to it the best rule of each year.
"""

from __future__ import annotations

import pandas as pd

from derivdata.analysis import backtest
from tests.support.recorded_funding import recorded_funding

VENUES = ["binance", "bybit", "gate", "htx", "kucoin", "mexc"]
PERIODS = {
    "2020–2021, where it was chosen": slice("2020", "2021"),
    "2022": slice("2022", "2022"),
    "2023": slice("2023", "2023"),
}
RULES = {
    f"from {level:g} bps on the mean of {days} days, hold {least} days": backtest.HoldingTime(
        backtest.SpreadThreshold(level, window=f"{days}d"), min_hold=f"{least}d"
    )
    for level in (0.5, 1.0, 2.0)
    for days in (3, 7)
    for least in (3, 14)
}
COSTS = backtest.Costs(fee_bps=2.0, slippage_bps=0.5)


def sweeps() -> dict[str, pd.DataFrame]:
    """Return what all rules earned by period; ``attrs["best"]`` of the first names the rule to judge."""
    panel = recorded_funding().sel(exchange=VENUES).dropna("time", how="all")
    return {
        period: backtest.sweep(
            panel.sel(time=years),
            RULES,
            COSTS,
            capital=100_000.0,
            leg_usd=100_000.0,
            leverage=5.0,
        )
        for period, years in PERIODS.items()
    }


if __name__ == "__main__":
    tables = sweeps()
    chosen = next(iter(tables.values())).attrs["best"]
    for period, table in tables.items():
        rules = table.set_index("rule")[["apr", "sharpe", "max_drawdown", "trades", "deflated_sharpe"]]
        print(period, rules.loc[[chosen, table.attrs["best"]]].to_string(), sep="\n")
