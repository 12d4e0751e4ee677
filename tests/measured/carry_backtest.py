"""``python -m tests.measured.carry_backtest``: a rule of carry, chosen on two years, judged on the next two.

Prints the table of docs/backtest.md: of twelve rules the one with the best Sharpe ratio over 2020 and 2021,
on recorded settlements, and what it earned in each of the years after; below them the best of each year.
"""

from __future__ import annotations

import sys

import pandas as pd

from derivdata.analysis import backtest
from tests.support.recorded_funding import recorded_funding

__all__ = ["COSTS", "PERIODS", "RULES", "VENUES", "main", "sweeps"]

VENUES = ["binance", "bybit", "gate", "htx", "kucoin", "mexc"]
PERIODS = {
    "2020–2021, where it was chosen": slice("2020", "2021"),
    "2022": slice("2022", "2022"),
    "2023": slice("2023", "2023"),
}
RULES = {
    f"from {level:g} bps on the mean of {days} days, hold {least} days": backtest.HoldingTime(
        backtest.SpreadThreshold(level, window=f"{days}d"), least=f"{least}d"
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


def main() -> int:
    """Print the table, the rule that was chosen, and the best rule of each year after."""
    tables = sweeps()
    chosen = next(iter(tables.values())).attrs["best"]
    print("| period | APR on the capital | Sharpe | deepest drawdown | positions |")
    print("|---|---|---|---|---|")
    for period, table in tables.items():
        row = table.set_index("rule").loc[chosen]
        apr, drawdown = (f"{100 * row[name]:.1f} %" for name in ("apr", "max_drawdown"))
        print(f"| {period} | {apr} | {row['sharpe']:.1f} | {drawdown} | {row['trades']:.0f} |")
    print(f"\nchosen: {chosen}")
    for period, table in tables.items():
        best = table.set_index("rule").loc[table.attrs["best"]]
        print(
            f"{period}: best {table.attrs['best']} ({100 * best['apr']:.1f} %, Sharpe {best['sharpe']:.1f}, "
            f"deflated {best['deflated_sharpe']:.2f})"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
