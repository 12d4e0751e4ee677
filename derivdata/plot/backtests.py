"""Figures of backtests: equity, positions, trades, what the result is made of, turnover, capacity, sweeps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import xarray as xr

from derivdata.analysis.backtest import trades
from derivdata.analysis.inputs import require_variables
from derivdata.plot._decorator import figure_function
from derivdata.plot.frames import keep_frame
from derivdata.plot.style import (
    GREY,
    PALETTE,
    axes,
    dress,
    footer,
    legend,
    number,
    percent,
    row_size,
    strips,
    utc_axis,
)
from derivdata.tables.required import require_columns

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = [
    "backtest_attribution",
    "backtest_capacity",
    "backtest_equity",
    "backtest_positions",
    "backtest_sweep",
    "backtest_trades",
    "backtest_turnover",
]

_GAIN, _LOSS = PALETTE[0], PALETTE[1]
_PARTS = ("funding_usd", "price_usd", "fees_usd", "slippage_usd")
_MOST_ROWS = 40


@figure_function
def backtest_equity(result: xr.Dataset, *, source: Any = None, ax: Axes | None = None) -> Axes:
    """Draw what a rule added to its capital over time, and its drawdown.

    Parameters
    ----------
    result
        What ``dd.analysis.backtest.carry`` returned.
    source, ax
        As in every figure: see `derivdata.plot`.

    Returns
    -------
    Axes
        That of the equity less the capital [USD]; below it stands the drawdown [% of the peak].

    Raises
    ------
    ValueError
        `result` is not that of a backtest.
    """
    _require(result)
    upper, lower = strips(ax, 3.0, 1.2)
    capital = float(result.attrs["capital_usd"])
    times = result["time"].to_numpy()
    upper.plot(times, result["equity_usd"] - capital, color=PALETTE[0], lw=1.6)
    upper.axhline(0, color=GREY, lw=0.8)
    apr, deepest = float(result["apr"]), float(result["max_drawdown"])
    dress(upper, title=f"The rule made {apr:+.2%} a year after costs; deepest drawdown {deepest:.2%}")
    upper.set_ylabel(f"gain on {number(capital)} [USD]")
    upper.yaxis.set_major_formatter(lambda value, _: number(value))
    lower.fill_between(times, -result["drawdown"], 0.0, color=_LOSS, alpha=0.5, lw=0)
    dress(lower)
    lower.set_ylabel("drawdown\n[% of peak]")
    percent(lower)
    utc_axis(lower)
    footer(lower, result, source=source)
    gain = result["equity_usd"].to_numpy() - capital
    return keep_frame(upper, {"time": times, "gain_usd": gain, "drawdown": result["drawdown"].to_numpy()})


@figure_function
def backtest_positions(result: xr.Dataset, *, source: Any = None, ax: Axes | None = None) -> Axes:
    """Draw when each symbol was held, and whether the position earned more than it cost.

    Parameters
    ----------
    result
        What ``dd.analysis.backtest.carry`` returned.
    source, ax
        As in every figure: see `derivdata.plot`.

    Returns
    -------
    Axes
        A row per symbol and a bar per position; of more than 40 symbols those that were held longest.

    Raises
    ------
    ValueError
        `result` is not that of a backtest, or there was no position.
    """
    table = _positions(result)
    days = (table["exit"] - table["entry"]) / pd.Timedelta(1, "D")
    held = days.groupby(table["symbol"]).sum().sort_values(ascending=False)
    symbols = list(held.index[:_MOST_ROWS])
    ax = axes(ax, size=row_size(len(symbols), 0.28))
    for sign, color, words in (
        (1, _GAIN, "earned more than it cost"),
        (-1, _LOSS, "cost more than it earned"),
    ):
        chosen = table[(np.sign(table["net_usd"]) == sign) & table["symbol"].isin(symbols)]
        if chosen.empty:
            continue
        start = chosen["entry"].dt.tz_localize(None).to_numpy()
        width = (chosen["exit"] - chosen["entry"]).to_numpy()
        place = [symbols.index(symbol) for symbol in chosen["symbol"]]
        ax.barh(place, width, left=start, height=0.62, color=color, label=words)
    ax.set_yticks(range(len(symbols)), symbols)
    ax.set_ylim(len(symbols) - 0.4, -0.6)
    times = result["time"].to_numpy()
    ax.set_xlim(times[0], times[-1])
    span = (times[-1] - times[0]) / np.timedelta64(1, "D")
    share = float(held.sum() / span / result.sizes["symbol"])
    more = f", the {len(symbols)} longest held shown" if len(held) > len(symbols) else ""
    title = f"{len(table)} positions in {len(held)} symbols, held {share:.0%} of the time{more}"
    dress(ax, title=title, grid="x")
    utc_axis(ax)
    legend(ax, "right")
    footer(ax, result, source=source)
    return keep_frame(ax, table)


@figure_function
def backtest_trades(result: xr.Dataset, *, source: Any = None, ax: Axes | None = None) -> Axes:
    """Draw what each position earned after costs, by how long it was held.

    Parameters
    ----------
    result
        What ``dd.analysis.backtest.carry`` returned.
    source, ax
        As in every figure: see `derivdata.plot`.

    Returns
    -------
    Axes
        A dot per position, coloured by why it was closed.

    Raises
    ------
    ValueError
        `result` is not that of a backtest, or there was no position.
    """
    table = _positions(result)
    ax = axes(ax)
    days = (table["exit"] - table["entry"]) / pd.Timedelta(1, "D")
    net = 1e4 * table["net_usd"] / float(result.attrs["leg_usd"])
    looks = {"rule": PALETTE[0], "liquidation": PALETTE[1], "end": GREY}
    words = {"rule": "left by the rule", "liquidation": "liquidated", "end": "end of the data"}
    for reason, color in looks.items():
        chosen = table["reason"] == reason
        if chosen.any():
            ax.plot(
                days[chosen], net[chosen], "o", ms=5, color=color, alpha=0.9, mec="none", label=words[reason]
            )
    ax.axhline(0, color=GREY, lw=1.0)
    paid = int((net > 0).sum())
    dress(
        ax,
        title=f"{paid} of {len(table)} positions earned more than they cost; median {net.median():+.1f} bps",
    )
    ax.set(xlabel="time held [days]", ylabel="net of costs [bps of one leg's notional]")
    ax.set_xlim(left=0)
    legend(ax)
    footer(ax, result, source=source)
    return keep_frame(ax, table.assign(days=days, net_bps=net))


@figure_function
def backtest_attribution(result: xr.Dataset, *, source: Any = None, ax: Axes | None = None) -> Axes:
    """Draw what a result is made of: funding and price P&L beside fees and slippage.

    Parameters
    ----------
    result
        What ``dd.analysis.backtest.carry`` returned.
    source, ax
        As in every figure: see `derivdata.plot`.

    Returns
    -------
    Axes
        Cumulative [USD]; costs downwards.

    Raises
    ------
    ValueError
        `result` is not that of a backtest.
    """
    _require(result)
    ax = axes(ax)
    times = result["time"].to_numpy()
    total = {name: result[name].sum("symbol").cumsum("time").to_numpy() for name in _PARTS}
    costs = total["fees_usd"] + total["slippage_usd"]
    net = total["funding_usd"] + total["price_usd"] - costs
    lines = (
        ("funding", total["funding_usd"], PALETTE[2], "-"),
        ("price of the legs", total["price_usd"], PALETTE[3], "-"),
        ("fees", -total["fees_usd"], PALETTE[1], "-"),
        ("slippage", -total["slippage_usd"], PALETTE[4], "--"),
        ("net", net, PALETTE[0], "-"),
    )
    for words, line, color, stroke in lines:
        label = f"{words} {line[-1]:+,.0f}"
        ax.plot(times, line, color=color, ls=stroke, lw=2.2 if words == "net" else 1.3, label=label)
    ax.axhline(0, color=GREY, lw=0.8)
    funding, price = float(total["funding_usd"][-1]), float(total["price_usd"][-1])
    title = f"Funding {funding:+,.0f} and price {price:+,.0f} USD, for costs of {costs[-1]:,.0f} USD"
    dress(ax, title=title)
    ax.set_ylabel("cumulative [USD]")
    ax.yaxis.set_major_formatter(lambda value, _: number(value))
    legend(ax, "right")
    utc_axis(ax)
    footer(ax, result, source=source)
    return keep_frame(ax, {"time": times, **total, "net_usd": net})


@figure_function
def backtest_turnover(result: xr.Dataset, *, source: Any = None, ax: Axes | None = None) -> Axes:
    """Draw how much a rule traded, and what its trades cost.

    Parameters
    ----------
    result
        What ``dd.analysis.backtest.carry`` returned.
    source, ax
        As in every figure: see `derivdata.plot`.

    Returns
    -------
    Axes
        Notional traded [USD] a day, week or month, whichever leaves 40 bars or fewer.

    Raises
    ------
    ValueError
        `result` is not that of a backtest.
    """
    _require(result)
    ax = axes(ax)
    traded = result["traded_usd"].sum("symbol").to_series()
    days = (traded.index[-1] - traded.index[0]) / pd.Timedelta(1, "D")
    step, words = ("D", "day") if days <= 40 else ("W-MON", "week") if days <= 280 else ("MS", "month")
    options = {} if step == "D" else {"label": "left", "closed": "left"}
    sums = traded.resample(step, **options).sum()
    width = pd.Timedelta({"D": 1, "W-MON": 7, "MS": 28}[step] * 0.85, "D")
    ax.bar(sums.index, sums, width=width, align="edge", color=PALETTE[0])
    total = float(traded.sum())
    cost = float(result["fees_usd"].sum() + result["slippage_usd"].sum())
    each = f"; {1e4 * cost / total:.2g} bps of it are costs" if total > 0.0 else ""
    dress(ax, title=f"Traded {float(result['turnover']):.3g} times the capital a year{each}", grid="y")
    ax.set_ylabel(f"notional traded a {words} [USD]")
    ax.yaxis.set_major_formatter(lambda value, _: number(value))
    utc_axis(ax)
    footer(ax, result, source=source)
    return keep_frame(ax, {"time": sums.index, "traded_usd": sums.to_numpy()})


@figure_function
def backtest_capacity(curve: xr.Dataset, *, source: Any = None, ax: Axes | None = None) -> Axes:
    """Draw what the trades of a backtest would have earned at other sizes.

    Parameters
    ----------
    curve
        What ``dd.analysis.backtest.capacity`` returned.
    source, ax
        As in every figure: see `derivdata.plot`.

    Returns
    -------
    Axes
        Net P&L [USD] by size of a leg, on a logarithmic axis, with the size that earns most; sizes at which
        the books fill a part of the trades are marked, those at which they fill none are left out.

    Raises
    ------
    ValueError
        `curve` is not that of `capacity`, or no trade is filled at any size.
    """
    require_variables(curve, "curve", ("net_usd", "filled", "capacity_usd"), dims=("size_usd",))
    ax = axes(ax)
    sizes, filled = curve["size_usd"].to_numpy(), curve["filled"].to_numpy()
    net = np.where(filled > 0.0, curve["net_usd"].to_numpy(), np.nan)
    if not np.isfinite(net).any():
        raise ValueError("there is no trade, or no size at which the books fill one")
    ax.plot(sizes, net, "o-", color=PALETTE[0], lw=1.6, ms=4, label="net of costs")
    partly = (filled > 0.0) & (filled < 1.0)
    if partly.any():
        words = "books fill a part of the trades"
        ax.plot(sizes[partly], net[partly], "o", color=PALETTE[1], ms=6, label=words)
    ax.axhline(0, color=GREY, lw=1.0)
    best = float(curve["capacity_usd"])
    title = "At no size do the trades earn more than they cost"
    if np.isfinite(best):
        ax.axvline(best, color=PALETTE[2], lw=1.2, ls=":", label="earns most")
        most = float(curve["net_usd"].max())
        title = f"Legs of {number(best)} USD earn most: {number(most)} USD"
    dress(ax, title=title)
    ax.set_xscale("log")
    ax.set(xlabel="notional of a leg [USD]", ylabel="net of costs, whole backtest [USD]")
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_major_formatter(lambda value, _: number(value))
    legend(ax)
    footer(ax, curve, source=source)
    return keep_frame(ax, {"size_usd": sizes, "net_usd": net, "filled": filled})


@figure_function
def backtest_sweep(table: pd.DataFrame, *, source: Any = None, ax: Axes | None = None) -> Axes:
    """Draw the Sharpe ratios of many rules, and what the best is worth after so many trials.

    Parameters
    ----------
    table
        What ``dd.analysis.backtest.sweep`` returned.
    source, ax
        As in every figure: see `derivdata.plot`.

    Returns
    -------
    Axes
        A row per rule, the best at the top, of more than 40 the best 40.

    Raises
    ------
    ValueError
        `table` is not that of `sweep`, or no rule traded.
    """
    require_columns(table, "table", ("sharpe", "deflated_sharpe"), others=("rule",))
    rows = table[table["sharpe"].notna()].sort_values("sharpe", ascending=False, kind="stable")
    if rows.empty:
        raise ValueError("no rule traded: there is nothing to compare")
    best, shown = rows.iloc[0], rows.iloc[:_MOST_ROWS]
    ax = axes(ax, size=row_size(len(shown), 0.26))
    place = np.arange(len(shown))
    colors = [PALETTE[0] if rank == 0 else GREY for rank in place]
    ax.barh(place, shown["sharpe"], height=0.62, color=colors)
    ax.axvline(0, color=GREY, lw=1.0)
    ax.set_yticks(place, shown["rule"])
    ax.set_ylim(len(shown) - 0.4, -0.6)
    chance = f"deflated for {len(rows)} trials: {best['deflated_sharpe']:.0%} likely above 0"
    dress(ax, title=f"Best Sharpe ratio {best['sharpe']:.2f}, {chance}", grid="x")
    ax.set_xlabel("Sharpe ratio of daily returns [annualised]")
    footer(ax, table, source=source)
    return keep_frame(ax, rows)


def _require(result: xr.Dataset) -> None:
    require_variables(result, "result", ("equity_usd", *_PARTS, "traded_usd"), dims=("time", "trade"))


def _positions(result: xr.Dataset) -> pd.DataFrame:
    table = trades(result)
    if table.empty:
        raise ValueError("the backtest never held a position")
    return table
