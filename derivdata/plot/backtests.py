"""Figures of profit and loss: of the rules of backtests, and of a position between two surfaces."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pandas as pd
import xarray as xr

from derivdata.analysis.backtest import trades
from derivdata.analysis.inputs import require_variables
from derivdata.plot.frames import Source, figure_function, keep_frame
from derivdata.plot.style import (
    GREY,
    LONG,
    PALETTE,
    SHORT,
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

_GAIN, _LOSS = PALETTE[0], PALETTE[1]
_PARTS = ("funding_usd", "price_usd", "fees_usd", "slippage_usd")
_MOST_ROWS = 40


@figure_function
def backtest(
    result: xr.Dataset | pd.DataFrame,
    kind: Literal["equity", "attribution", "positions", "trades", "turnover", "capacity", "sweep"] = "equity",
    *,
    source: Source | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw what a rule would have earned, of what that is made, or how much of it there could be.

    Parameters
    ----------
    result
        What ``dd.analysis.backtest.carry`` returned; for ``"capacity"`` and ``"sweep"`` what the functions of
        these names returned.
    kind
        ``"equity"``: what the rule added to its capital [USD], and below it the drawdown [% of the peak].
        ``"attribution"``: funding and price P&L beside fees and slippage, cumulative [USD], costs downwards.
        ``"positions"``: when each symbol was held, and whether that earned more than it cost; a row per
        symbol, of more than 40 those that were held longest.
        ``"trades"``: what each position earned after costs [bps] by the days it was held, coloured by why it
        was closed.
        ``"turnover"``: notional traded [USD] a day, week or month, whichever leaves 40 bars or fewer.
        ``"capacity"``: net P&L [USD] by size of a leg, with the size that earns most; sizes at which the
        books fill a part of the trades are marked, those at which they fill none are left out.
        ``"sweep"``: the Sharpe ratio of each rule, the best at the top, of more than 40 the best 40, and what
        the best is worth after so many trials.
    source, ax
        As in every figure: see `derivdata.plot`.

    Returns
    -------
    Axes
        Of ``"equity"`` the upper ones.

    Raises
    ------
    ValueError
        `result` is not that of the `kind`, there was no position, no trade is filled at any size, or no rule
        traded.
    """
    maker = kind if kind in ("capacity", "sweep") else "carry"
    if isinstance(result, pd.DataFrame) != (kind == "sweep"):
        raise ValueError(f"result is not what backtest.{maker} returned, which kind={kind!r} draws")
    return _DRAW[kind](result, source, ax)


def _equity(result: xr.Dataset, source: Any, ax: Axes | None) -> Axes:
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


def _positions(result: xr.Dataset, source: Any, ax: Axes | None) -> Axes:
    table = _held(result)
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


def _trades(result: xr.Dataset, source: Any, ax: Axes | None) -> Axes:
    table = _held(result)
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


def _attribution(result: xr.Dataset, source: Any, ax: Axes | None) -> Axes:
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


def _turnover(result: xr.Dataset, source: Any, ax: Axes | None) -> Axes:
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


def _capacity(result: xr.Dataset, source: Any, ax: Axes | None) -> Axes:
    require_variables(result, "result", ("net_usd", "filled", "capacity_usd"), dims=("size_usd",))
    ax = axes(ax)
    sizes, filled = result["size_usd"].to_numpy(), result["filled"].to_numpy()
    net = np.where(filled > 0.0, result["net_usd"].to_numpy(), np.nan)
    if not np.isfinite(net).any():
        raise ValueError("there is no trade, or no size at which the books fill one")
    ax.plot(sizes, net, "o-", color=PALETTE[0], lw=1.6, ms=4, label="net of costs")
    partly = (filled > 0.0) & (filled < 1.0)
    if partly.any():
        words = "books fill a part of the trades"
        ax.plot(sizes[partly], net[partly], "o", color=PALETTE[1], ms=6, label=words)
    ax.axhline(0, color=GREY, lw=1.0)
    best = float(result["capacity_usd"])
    title = "At no size do the trades earn more than they cost"
    if np.isfinite(best):
        ax.axvline(best, color=PALETTE[2], lw=1.2, ls=":", label="earns most")
        most = float(result["net_usd"].max())
        title = f"Legs of {number(best)} USD earn most: {number(most)} USD"
    dress(ax, title=title)
    ax.set_xscale("log")
    ax.set(xlabel="notional of a leg [USD]", ylabel="net of costs, whole backtest [USD]")
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_major_formatter(lambda value, _: number(value))
    legend(ax)
    footer(ax, result, source=source)
    return keep_frame(ax, {"size_usd": sizes, "net_usd": net, "filled": filled})


def _sweep(result: pd.DataFrame, source: Any, ax: Axes | None) -> Axes:
    require_columns(result, "result", ("sharpe", "deflated_sharpe"), others=("rule",))
    rows = result[result["sharpe"].notna()].sort_values("sharpe", ascending=False, kind="stable")
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
    footer(ax, result, source=source)
    return keep_frame(ax, rows)


def _require(result: xr.Dataset) -> None:
    require_variables(result, "result", ("equity_usd", *_PARTS, "traded_usd"), dims=("time", "trade"))


def _held(result: xr.Dataset) -> pd.DataFrame:
    table = trades(result)
    if table.empty:
        raise ValueError("the backtest never held a position")
    return table


_DRAW: dict[str, Callable[[Any, Any, Axes | None], Axes]] = {
    "equity": _equity,
    "attribution": _attribution,
    "positions": _positions,
    "trades": _trades,
    "turnover": _turnover,
    "capacity": _capacity,
    "sweep": _sweep,
}


@figure_function
def pnl_attribution(
    attribution: xr.Dataset,
    *,
    currency: Literal["usd", "coin"] = "usd",
    source: Source | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw what each term gave or took, one bar after another, up to the P&L of the position.

    Parameters
    ----------
    attribution
        What ``dd.analysis.position.attribution`` gave, of one pair of surfaces.
    currency
        Which of its two.
    source, ax
        As in every figure: see `derivdata.plot`.

    Returns
    -------
    Axes
        A bar per term, from where the terms before it ended; then the residual, grey, and the P&L.

    Raises
    ------
    ValueError
        Several pairs of surfaces, or a P&L that is NaN.
    """
    require_variables(
        attribution, "attribution", ("contribution", "residual", "pnl"), dims=("term", "currency")
    )
    part = attribution.sel(currency=currency)
    if part["contribution"].ndim != 1:
        raise ValueError(f"attribution has dims {part['contribution'].dims}: select one pair of surfaces")
    names = [*map(str, part["term"].to_numpy()), "residual"]
    steps = np.r_[part["contribution"].to_numpy(), float(part["residual"])]
    if not np.isfinite(steps).all():
        raise ValueError("attribution has a leg without a value at one of its ends: its P&L is NaN")
    ax = axes(ax, size=row_size(len(names) + 1, 0.3))
    place = np.arange(len(names) + 1)
    starts = np.r_[0.0, np.cumsum(steps)[:-1], 0.0]
    widths = np.r_[steps, float(part["pnl"])]
    colours = [LONG if width >= 0.0 else SHORT for width in widths]
    colours[-2] = GREY
    ax.barh(place, widths, left=starts, color=colours, height=0.62)
    ends = starts + widths
    ax.vlines(ends[:-2], place[:-2] - 0.31, place[1:-1] + 0.31, color=GREY, lw=0.7)
    span = float(np.ptp(np.r_[starts, ends])) or 1.0
    written = "{:,.0f}".format if span >= 1000.0 else number
    for at, (start, width) in enumerate(zip(starts, widths, strict=True)):
        edge = max(start, start + width)
        ax.text(edge + 0.012 * span, at, written(float(width)), va="center", fontsize=8)
    ax.set_yticks(place, [*names, "P&L"])
    ax.set_ylim(len(names) + 0.6, -0.6)
    ax.set_xlim(min(0.0, *starts, *ends) - 0.04 * span, max(0.0, *starts, *ends) + 0.14 * span)
    ax.axvline(0.0, color=GREY, lw=0.8)
    most = int(np.argmax(np.abs(steps)))
    total = f"{written(widths[-1])} {'USD' if currency == 'usd' else 'coins'}"
    dress(ax, title=f"P&L {total}; the largest term is {names[most]} ({written(steps[most])})", grid="x")
    ax.set_xlabel({"usd": "P&L [USD]", "coin": "P&L [coin]"}[currency])
    footer(ax, attribution, source=source)
    return keep_frame(ax, {"term": [*names, "P&L"], "start": starts, f"amount_{currency}": widths})
