"""Figures of profit and loss: of backtests, and of a position between two surfaces."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pandas as pd
import xarray as xr

from derivdata.analysis.backtest import trades
from derivdata.analysis.panels import require_variables
from derivdata.plot import style
from derivdata.plot.fits import apart
from derivdata.plot.frames import Size, Source, figure_function, finish
from derivdata.plot.style import GREY, LONG, PALETTE, SHORT
from derivdata.support.arrays import Array
from derivdata.support.times import naive_utc
from derivdata.tables.frames import require_columns

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_GAIN = PALETTE[0]
_LOSS = PALETTE[1]
_TERMS = ("funding_usd", "price_usd", "fees_usd", "slippage_usd")
_REASONS = {
    "rule": (PALETTE[0], "closed by the rule"),
    "liquidation": (PALETTE[1], "liquidated"),
    "end": (GREY, "open at the end of the data"),
}
_MARKS = {"liquidation": " **", "end": " *"}
"""Marks at bars by reason of exit."""
_FEW_TRADES = 20
"""Positions up to this number are bars."""
_MAX_ROWS = 40
_LINE = 9.5
"""Height of a line in a bar [points]."""
_LETTER = 5.0
"""Width of a letter [points]."""
_BAR_LABEL = 36.0
"""Width of the label of a bar [points]."""
_FEW_BARS = 12
"""Bars of turnover up to this number have their costs."""
_STEP_LABEL = 38.0
"""Width of the label of a step [points]."""
_SMALL_TERM = 0.01
"""Terms of a P&L below this fraction of the largest are one bar."""
_NAMED = 2
"""Positions that are named at either end."""


_LOG_RATIO = 20.0
"""Ratio of the largest to the smallest size of a leg above which the axis is logarithmic."""


@figure_function
def backtest(
    result: xr.Dataset | pd.DataFrame,
    kind: Literal["equity", "attribution", "positions", "trades", "turnover", "capacity", "sweep"] = "equity",
    *,
    source: Source | None = None,
    ax: Axes | None = None,
    figsize: Size | None = None,
) -> Axes:
    """Draw the result of a backtest: equity, attribution, positions, trades, turnover, capacity or a sweep.

    Parameters
    ----------
    result
        Result of ``dd.analysis.backtest.carry``; for ``"capacity"`` and ``"sweep"`` of the functions of these
        names.
    kind
        ``"equity"``: gain on the capital [USD], and below it the drawdown [% of the peak].
        ``"attribution"``: funding and price P&L next to fees and slippage, cumulative [USD], costs downwards.
        ``"positions"``: when each position was held, with its P&L after costs [USD]; a row for each of up to
        20 positions or, if there are more, for each symbol, at most the 40 that were held longest.
        ``"trades"``: P&L of each position after costs [bps]: up to 20 positions as bars; more by days held,
        coloured by reason of exit, with the names of the two best and the two worst, in a narrow figure with
        their symbols.
        ``"turnover"``: notional traded [USD] by day, week or month, so that there are at most 40 bars; up to
        12 bars are labelled with their fees and slippage [USD].
        ``"capacity"``: P&L [USD] by size of a leg, before and after slippage, with the most profitable size;
        below it the net P&L per leg's notional [bps]. Sizes at which the books fill only part of the trades
        are marked; sizes without fills are omitted.
        ``"sweep"``: Sharpe ratio of each rule, best first, at most 40, and the deflated Sharpe ratio of the
        best rule.
    source, ax, figsize
        As in every figure: see `derivdata.plot`.

    Returns
    -------
    Axes
        For ``"equity"`` and ``"capacity"`` the upper axes.

    Raises
    ------
    ValueError
        `result` does not fit `kind`, the backtest has no position, no trade is filled at any size, or no rule
        traded.
    """
    if isinstance(result, pd.DataFrame) != (kind == "sweep"):
        if kind == "sweep":
            raise ValueError("kind='sweep' draws the table of backtest.sweep, got another result")
        raise ValueError(f"kind={kind!r} does not draw a table; for backtest.sweep pass kind='sweep'")
    return _DRAW[kind](result, source, ax)


def _equity(result: xr.Dataset, source: Any, ax: Axes | None) -> Axes:
    _require(result)
    upper, lower = style.strips(ax, 3.0, 1.2)
    capital = float(result.attrs["capital_usd"])
    times = result["time"].to_numpy()
    drawdown = result["drawdown"].to_numpy()
    gain = result["equity_usd"].to_numpy() - capital
    upper.plot(times, gain, color=PALETTE[0], lw=1.6)
    upper.axhline(0, color=GREY, lw=0.8)
    apr = float(result["apr"])
    deepest = float(result["max_drawdown"])
    made = f"{gain[-1]:+,.0f} USD after costs, {apr:+.2%} a year"
    title = f"The rule made {made}; deepest drawdown {_percent(deepest)}"
    style.dress(upper, title=title, y=f"gain on {style.number(capital)} [USD]", form="number")
    lower.fill_between(times, -drawdown, 0.0, color=_LOSS, alpha=0.8, lw=0)
    style.dress(lower, y="drawdown\n[% of peak]", form="percent")
    lower.locator_params(axis="y", nbins=4)
    style.utc_axis(lower)
    table = {"time": times, "gain_usd": gain, "drawdown": drawdown}
    return finish(upper, table, result, source=source, lowest=lower)


def _percent(fraction: float) -> str:
    """Format a fraction as percent: ``0.025 %``, ``2.5 %``, ``12 %``, ``112 %``."""
    percent = 100.0 * fraction
    if percent >= 9.5:
        return f"{percent:.0f} %"
    return f"{percent:.2g} %"


def _positions(result: xr.Dataset, source: Any, ax: Axes | None) -> Axes:
    table = _held(result)
    held = table["days"].groupby(table["symbol"]).sum().sort_values(ascending=False)
    net = table.groupby("symbol")["net_usd"].sum()
    # 1. A row for each position or, if they are many, for each symbol.
    if len(table) <= _FEW_TRADES:
        order = pd.Series(held.index.get_indexer(table["symbol"]), table.index)
        table = table.iloc[np.lexsort((table["entry"], order))]
        names = [f"{row.symbol} {row.long} / {row.short}" for row in table.itertuples()]
        rows = pd.Series(range(len(table)), table.index)
        ax, _ = style.rows(ax, names, 0.3)
    else:
        symbols = list(held.index[:_MAX_ROWS])
        names = [f"{symbol}\n{net[symbol]:+,.0f} USD" for symbol in symbols]
        rows = table["symbol"].map({symbol: row for row, symbol in enumerate(symbols)})
        ax, _ = style.rows(ax, names, 0.7)
    times = result["time"].to_numpy()
    ax.set_xlim(times[0], times[-1])
    # 2. Bars with their P&L.
    for sign, color, words in ((1, _GAIN, "earned its costs"), (-1, _LOSS, "did not")):
        shown = (np.sign(table["net_usd"]) == sign) & rows.notna()
        if shown.any():
            start = naive_utc(table.loc[shown, "entry"]).to_numpy()
            width = (table.loc[shown, "exit"] - table.loc[shown, "entry"]).to_numpy()
            look: dict[str, Any] = {"color": color, "edgecolor": style.paper(), "label": words}
            ax.barh(rows[shown], width, left=start, height=0.7, **look)
    span = (times[-1] - times[0]) / np.timedelta64(1, "D")
    _write_nets(ax, table, rows, span)
    made = "earned" if net.sum() >= 0.0 else "lost"
    title = f"{_count(len(table), 'position')} in {_count(len(held), 'symbol')} {made} "
    title += f"{abs(net.sum()):,.0f} USD after costs"
    if len(table) > 1:
        best = table.loc[table["net_usd"].idxmax()]
        worst = table.loc[table["net_usd"].idxmin()]
        title += f": best {best['symbol']} {best['net_usd']:+,.0f}, "
        title += f"worst {worst['symbol']} {worst['net_usd']:+,.0f}"
    if rows.isna().any():
        title += f"; the {len(names)} longest held are drawn"
    style.dress(ax, title=title, grid="x")
    style.utc_axis(ax)
    style.legend(ax, "above", title="numbers: P&L after costs [USD]")
    return finish(ax, table.drop(columns="days"), result, source=source)


def _count(number: int, noun: str) -> str:
    """Format a number and its noun: ``1 position``, ``8 positions``."""
    return f"{number:,} {noun}{'s' * (number != 1)}"


def _write_nets(ax: Axes, table: pd.DataFrame, rows: pd.Series, span: float) -> None:
    """Write the P&L into bars that are long enough; `span` is the axis' length [days].

    The P&L of a shorter bar is next to it if no other position has the same row.
    """
    shared = rows.duplicated(keep=False)
    first, last = ax.get_xlim()
    for row, place, is_shared in zip(table.itertuples(), rows, shared, strict=True):
        if not np.isfinite(place):
            continue
        words = f"{row.net_usd:+,.0f}"
        width = 0.6 * style.cell_width(ax) * row.days / span
        entry = naive_utc(row.entry)
        end = naive_utc(row.exit)
        look: dict[str, Any] = {"va": "center", "fontsize": 8}
        if _LETTER * len(words) < width:
            ax.text(entry + (end - entry) / 2, place, words, ha="center", color="#fcfcfc", **look)
        elif not is_shared and ax.convert_xunits(end) > (first + last) / 2.0:
            ax.annotate(words, (entry, place), (-3, 0), textcoords="offset points", ha="right", **look)
        elif not is_shared:
            ax.annotate(words, (end, place), (3, 0), textcoords="offset points", ha="left", **look)


def _trades(result: xr.Dataset, source: Any, ax: Axes | None) -> Axes:
    table = _held(result)
    if table["net_usd"].isna().any():
        raise ValueError("result has a trade without trade_net_usd: pass the result of backtest.carry")
    days = table["days"]
    net = 1e4 * table["net_usd"] / float(result.attrs["leg_usd"])
    title = f"{int((net > 0).sum())} of {_count(len(table), 'position')} earned more than their costs"
    title += f"; the median made {net.median():+.1f} bps, the best {net.max():+.1f}"
    if len(table) <= _FEW_TRADES:
        ax = _trade_bars(table.assign(net_bps=net), title, ax)
        return finish(ax, table.assign(net_bps=net), result, source=source)
    ax = style.axes(ax)
    for reason, (color, words) in _REASONS.items():
        of_reason = table["reason"] == reason
        if of_reason.any():
            look: dict[str, Any] = {"ms": 7, "color": color, "mec": style.paper(), "label": words}
            ax.plot(days[of_reason], net[of_reason], "o", **look)
    ax.axhline(0, color=GREY, lw=1.0)
    ax.margins(y=0.1)  # space for a name below the lowest position
    _name_extremes(ax, table, days, net)
    style.dress(ax, title=title, x="time held [days]", y="net of costs [bps of one leg]")
    ax.set_xlim(left=0)
    style.legend(ax, "above")
    return finish(ax, table.assign(net_bps=net), result, source=source)


def _trade_bars(table: pd.DataFrame, title: str, ax: Axes | None) -> Axes:
    """Draw a bar for each position, the most profitable first, with its time held and reason of exit."""
    rows = table.sort_values("net_bps", ascending=False, kind="stable")
    names = [f"{row.symbol} {row.long} / {row.short}, {row.days:.3g} d" for row in rows.itertuples()]
    ax, place = style.rows(ax, names, 0.3)
    value = rows["net_bps"].to_numpy()
    color = np.where(value > 0.0, _GAIN, _LOSS)
    style.bars(ax, place, value, 0.62, horizontal=True, color=color)
    look: dict[str, Any] = {"textcoords": "offset points", "va": "center", "fontsize": 8}
    for row, (net, reason) in enumerate(zip(value, rows["reason"], strict=True)):
        words = f"{net:+.1f}{_MARKS.get(reason, '')}"
        if net >= 0.0:
            ax.annotate(words, (net, row), (3, 0), ha="left", **look)
        else:
            ax.annotate(words, (net, row), (-3, 0), ha="right", **look)
    ax.axvline(0, color=GREY, lw=1.0)
    ax.set_xlim(*_limits_with_labels(ax, names, value))
    style.dress(ax, title=title, x="net of costs [bps of one leg]", grid="x")
    key = "long / short venue, time held"
    for reason, mark in _MARKS.items():
        if (rows["reason"] == reason).any():
            key += f"; {mark.strip()}: {_REASONS[reason][1]}"
    style.note(ax, key)
    return ax


def _limits_with_labels(ax: Axes, names: list[str], value: Array) -> tuple[float, float]:
    """Return limits of bars [bps] with space for the label at the end of each bar."""
    low = min(0.0, float(value.min()))
    high = max(0.0, float(value.max()))
    width = max(style.cell_width(ax) - _LETTER * max(map(len, names)), 2.5 * _BAR_LABEL)
    # The labels have a fixed width [points], so the bars share the rest of the axes.
    share = min(_BAR_LABEL / width, 0.3)
    margin = share / (1.0 - 2.0 * share) * ((high - low) or 1.0)
    return low - margin, high + margin


def _name_extremes(ax: Axes, table: pd.DataFrame, days: pd.Series, net: pd.Series) -> None:
    """Write symbol and venues at the most and the least profitable positions, at least a line apart."""
    highest = net.nlargest(_NAMED).index
    named = highest.union(net.nsmallest(_NAMED).index)
    low, high = ax.get_ylim()
    height = style.height_of(ax)
    points = height * (net - low) / (high - low)
    below = -np.inf
    for place in net[named].sort_values(kind="stable").index:
        row = table.loc[place]
        name = f"{row['symbol']} {row['long']} / {row['short']}"
        if style.is_narrow(ax):
            name = str(row["symbol"])
        # 1. Left of late positions, and of those with another position where the name would be.
        length = 4.4 * len(name) / (0.8 * style.cell_width(ax)) * days.max()
        is_covered = days.between(days[place], days[place] + length, inclusive="right")
        is_covered &= (points - points[place]).abs() < _LINE
        is_late = days[place] > 0.55 * days.max() or (is_covered.any() and days[place] > length)
        # 2. Above the name below it; below a position with others on both sides.
        lowest = points[place]
        if is_covered.any() and not is_late:
            lowest -= 1.2 * _LINE
        below = max(lowest, below + _LINE)
        away, side = (-6, "right") if is_late else (6, "left")
        look: dict[str, Any] = {"fontsize": 7.5, "textcoords": "offset points", "va": "center", "ha": side}
        ax.annotate(name, (days[place], net[place]), (away, below - points[place]), **look)


def _attribution(result: xr.Dataset, source: Any, ax: Axes | None) -> Axes:
    _require(result)
    ax = style.axes(ax)
    times = result["time"].to_numpy()
    total = {name: result[name].sum("symbol").cumsum("time").to_numpy() for name in _TERMS}
    costs = total["fees_usd"] + total["slippage_usd"]
    net = total["funding_usd"] + total["price_usd"] - costs
    lines = (
        ("funding", total["funding_usd"], PALETTE[2], "-"),
        ("price", total["price_usd"], PALETTE[3], "-"),
        ("fees", -total["fees_usd"], PALETTE[1], "-"),
        ("slippage", -total["slippage_usd"], PALETTE[4], "--"),
        ("net", net, PALETTE[0], "-"),
    )
    for words, line, color, stroke in lines:
        ax.plot(times, line, color=color, ls=stroke, lw=2.2 if words == "net" else 1.3, label=words)
    ax.axhline(0, color=GREY, lw=0.8)
    funding = float(total["funding_usd"][-1])
    price = float(total["price_usd"][-1])
    title = f"Net {net[-1]:+,.0f} USD: funding {funding:+,.0f}, price {price:+,.0f}, costs {-costs[-1]:+,.0f}"
    style.dress(ax, title=title, y="cumulative [USD]", form="number")
    ends = [(float(line[-1]), f"{words} {line[-1]:+,.0f}", color) for words, line, color, _ in lines]
    style.label_ends(ax, ends)
    style.utc_axis(ax)
    return finish(ax, {"time": times, **total, "net_usd": net}, result, source=source)


def _turnover(result: xr.Dataset, source: Any, ax: Axes | None) -> Axes:
    _require(result)
    ax = style.axes(ax)
    traded = result["traded_usd"].sum("symbol").to_series()
    spent = (result["fees_usd"] + result["slippage_usd"]).sum("symbol").to_series()
    days = (traded.index[-1] - traded.index[0]) / pd.Timedelta(1, "D")
    # Length of the data [days], step of pandas, its name, and its least length [days].
    steps = ((40.0, "D", "day", 1), (280.0, "W-MON", "week", 7), (np.inf, "MS", "month", 28))
    _, step, words, step_days = next(row for row in steps if days <= row[0])
    # By default pandas labels weeks with their last day.
    sums = traded.resample(step, label="left", closed="left").sum()
    costs_by_step = spent.resample(step, label="left", closed="left").sum()
    width = pd.Timedelta(step_days * 0.85, "D")
    style.bars(ax, sums.index, sums, width, centred=False, color=PALETTE[0])
    ax.axhline(0, color=GREY, lw=0.8)
    ax.set_xlim(sums.index[0] - 0.3 * width, sums.index[-1] + 1.3 * width)
    if len(sums) <= _FEW_BARS:
        for start, value in sums[sums > 0.0].items():
            look: dict[str, Any] = {"ha": "center", "fontsize": 8, "textcoords": "offset points"}
            label = f"{costs_by_step[start]:,.0f}"
            ax.annotate(label, (start + width / 2, value), (0, 3), **look)
        ax.margins(y=0.1)
    total = float(traded.sum())
    title = f"Traded {style.number(total / 1e6)} million USD"
    title += f" ({float(result['turnover']):.3g} times the capital a year)"
    if total > 0.0:
        cost = float(spent.sum())
        title += f" at costs of {cost:,.0f} USD, {1e4 * cost / total:.2g} bps of the traded value"
    style.dress(ax, title=title, y=f"traded a {words} [thousand USD]", grid="y")
    ax.yaxis.set_major_formatter(lambda value, _: style.number(value / 1e3))
    if len(sums) <= _FEW_BARS:
        style.note(ax, f"number at a bar: costs of the {words} [USD]")
    style.utc_axis(ax)
    if len(sums) <= _FEW_BARS:
        _step_ticks(ax, sums.index, width, words)
    table = {"time": sums.index, "traded_usd": sums.to_numpy(), "costs_usd": costs_by_step.to_numpy()}
    return finish(ax, table, result, source=source)


def _step_ticks(ax: Axes, starts: pd.DatetimeIndex, width: pd.Timedelta, words: str) -> None:
    """Put a tick below the middle of each bar, with the day on which its step begins."""
    every = 1 + int(len(starts) * _STEP_LABEL // (0.8 * style.cell_width(ax)))
    shown = starts[::every]
    ax.set_xticks(shown + width / 2, [f"{start.day} {start:%b}" for start in shown])
    label = "day" if words == "day" else f"first day of the {words}"
    years = "–".join(dict.fromkeys(f"{start:%Y}" for start in starts[[0, -1]]))
    ax.set_xlabel(f"{label}, {years} [UTC]", loc="center")


def _capacity(result: xr.Dataset, source: Any, ax: Axes | None) -> Axes:
    require_variables(result, "result", ("net_usd", "filled", "capacity_usd"), dims=("size_usd",))
    sizes = result["size_usd"].to_numpy()
    filled = result["filled"].to_numpy()
    net = np.where(filled > 0.0, result["net_usd"].to_numpy(), np.nan)
    if not np.isfinite(net).any():
        raise ValueError("the result has no trades that the books can fill at any size")
    ax = style.axes(ax)
    gross = net + result["slippage_usd"].to_numpy()
    net_bps = 1e4 * net / sizes
    ax.plot(sizes, gross, "--", color=GREY, lw=1.6, label="before slippage")
    ax.plot(sizes, net, "o-", color=PALETTE[0], lw=2.0, ms=5, label="net of costs")
    partly = (filled > 0.0) & (filled < 1.0)
    if partly.any():
        words = "books fill a part of the trades"
        ax.plot(sizes[partly], net[partly], "o", color=PALETTE[1], ms=6, label=words)
    ax.axhline(0, color=GREY, lw=1.0)
    # Of the drawn sizes, which may be a selection.
    best = float(sizes[np.nanargmax(net)]) if np.nanmax(net) > 0.0 else np.nan
    title = "The trades lose at every size of a leg"
    if np.isfinite(best):
        ax.axvline(best, color=PALETTE[2], lw=1.4, ls=":", label="earns most")
        title = f"Legs of {style.number(best)} USD earn most: {style.number(float(np.nanmax(net)))} USD net"
        if best == sizes[np.isfinite(net)].max():
            title += "; larger ones are not filled or not tried"
    x = "notional of a leg [USD]"
    if sizes.max() > _LOG_RATIO * sizes.min():
        x += ", log scale"
        ax.set_xscale("log")
    style.dress(ax, title=title, x=x, y="P&L of the trades [USD]", form="number")
    style.write(ax.xaxis, "number")
    if ax.get_xscale() == "log":
        width = 60.0 / (0.8 * style.cell_width(ax))
        places = apart(np.log(sizes), np.log(sizes.max() / sizes.min()) * width)
        ax.set_xticks(sizes[places], [f"{sizes[place]:,.0f}" for place in places])
        ax.minorticks_off()
    style.legend(ax, "above")
    table = {"size_usd": sizes, "net_usd": net, "gross_usd": gross, "net_bps": net_bps, "filled": filled}
    return finish(ax, table, result, source=source)


def _sweep(result: pd.DataFrame, source: Any, ax: Axes | None) -> Axes:
    require_columns(result, "result", ("sharpe", "deflated_sharpe"), others=("rule",))
    rows = result[result["sharpe"].notna()].sort_values("sharpe", ascending=False, kind="stable")
    if rows.empty:
        raise ValueError("result: no rule traded, so Sharpe ratios cannot be compared")
    best = rows.iloc[0]
    shown = rows.iloc[:_MAX_ROWS]
    ax, place = style.rows(ax, list(shown["rule"]), 0.26)
    if style.is_narrow(ax):
        ax.set_yticks(place, [textwrap.fill(rule, 20) for rule in shown["rule"]])
    ax.barh(place, shown["sharpe"], height=0.62, color=[PALETTE[0], *[GREY] * (len(shown) - 1)])
    ax.axvline(0, color=GREY, lw=1.0)
    reach = float(shown["sharpe"].abs().max()) or 1.0
    chance = style.share(best["deflated_sharpe"])
    for row, value in enumerate(shown["sharpe"]):
        words = f"{value:.2f}" + f" ({chance})" * (row == 0)
        side = "left" if value >= 0.0 else "right"
        ax.text(value + np.copysign(0.015 * reach, value), row, words, va="center", ha=side, fontsize=8)
    low, high = min(float(shown["sharpe"].min()), 0.0), max(float(shown["sharpe"].max()), 0.0)
    space = {False: 0.15, True: 0.45}[style.is_narrow(ax)] * reach
    ax.set_xlim(low - 0.6 * space * (low < 0.0), high + space)
    title = f"The best of {len(rows)} rules has a Sharpe ratio of {best['sharpe']:.2f}"
    style.dress(
        ax,
        title=f"{title}, {chance} likely to be more than chance",
        x="Sharpe ratio of daily returns [annualised]",
        grid="x",
    )
    style.note(ax, f"{chance}: deflated Sharpe ratio, corrected for the {len(rows)} rules tried")
    return finish(ax, rows, result, source=source)


def _require(result: xr.Dataset) -> None:
    require_variables(result, "result", ("equity_usd", *_TERMS, "traded_usd"), dims=("time", "trade"))


def _held(result: xr.Dataset) -> pd.DataFrame:
    table = trades(result)
    if table.empty:
        raise ValueError("the backtest has no position to draw")
    return table.assign(days=(table["exit"] - table["entry"]) / pd.Timedelta(1, "D"))


_DRAW: dict[str, Callable[[Any, Any, Axes | None], Axes]] = {
    "equity": _equity,
    "attribution": _attribution,
    "positions": _positions,
    "trades": _trades,
    "turnover": _turnover,
    "capacity": _capacity,
    "sweep": _sweep,
}


def _large_terms(names: list[str], steps: Array) -> tuple[list[str], Array]:
    """Replace terms too small to be seen by their sum, before the residual, which stays."""
    is_small = np.abs(steps) < _SMALL_TERM * np.abs(steps).max()
    is_small[-1] = False
    if is_small.sum() < 2:
        return names, steps
    kept = [name for name, small in zip(names, is_small, strict=True) if not small]
    others = f"{int(is_small.sum())} others"
    return [*kept[:-1], others, kept[-1]], np.r_[steps[~is_small][:-1], steps[is_small].sum(), steps[-1]]


@figure_function
def pnl_attribution(
    attribution: xr.Dataset,
    *,
    currency: Literal["usd", "coin"] = "usd",
    source: Source | None = None,
    ax: Axes | None = None,
    figsize: Size | None = None,
) -> Axes:
    """Draw the contribution of each term to the P&L of a position as a waterfall.

    Parameters
    ----------
    attribution
        Result of ``dd.analysis.position.attribution`` for one pair of surfaces.
    currency
        Currency of the P&L.
    source, ax, figsize
        As in every figure: see `derivdata.plot`.

    Returns
    -------
    Axes
        A bar per term that starts at the end of the previous one; then the residual and the P&L, grey. Two or
        more terms below 1 % of the largest are one bar.

    Raises
    ------
    ValueError
        There are several pairs of surfaces, or the P&L is NaN.
    """
    require_variables(
        attribution, "attribution", ("contribution", "residual", "pnl"), dims=("term", "currency")
    )
    if currency not in attribution["currency"].to_numpy():
        raise ValueError(
            f"attribution must have the currency {currency!r}: see dd.analysis.position.attribution"
        )
    terms = attribution.sel(currency=currency)
    if terms["contribution"].ndim != 1:
        raise ValueError(f"attribution has dims {terms['contribution'].dims}: select one pair of surfaces")
    names = [*map(str, terms["term"].to_numpy()), "residual"]
    steps = np.r_[terms["contribution"].to_numpy(), float(terms["residual"])]
    total = float(terms["pnl"])
    if not np.isfinite([*steps, total]).all():
        raise ValueError("attribution has a leg without a value at one of its ends: its P&L is NaN")
    names, steps = _large_terms(names, steps)
    ax, place = style.rows(ax, [*names, "P&L"], 0.3)
    starts = np.r_[0.0, np.cumsum(steps)[:-1], 0.0]
    widths = np.r_[steps, total]
    colours = np.where(widths >= 0.0, LONG, SHORT)
    colours[-2:] = GREY  # the residual and the total
    ax.barh(place, widths, left=starts, color=colours, height=0.62)
    ends = starts + widths
    ax.vlines(ends[:-2], place[:-2] - 0.31, place[1:-1] + 0.31, color=GREY, lw=0.7)
    span = float(np.ptp(np.r_[starts, ends])) or 1.0
    if span >= 1000.0:
        written = list(map("{:+,.0f}".format, widths.round() + 0.0))  # + 0.0 removes -0
    else:
        written = [f"{'+' * (width > 0.0)}{style.number(width)}" for width in widths.tolist()]
    for at, edge in enumerate(np.maximum(starts, ends)):
        ax.text(edge + 0.012 * span, at, written[at], va="center", fontsize=8)
    ax.set_xlim(min(0.0, *starts, *ends) - 0.04 * span, max(0.0, *starts, *ends) + 0.14 * span)
    ax.axvline(0.0, color=GREY, lw=0.8)
    most = int(np.argmax(np.abs(steps)))
    unit = {"usd": "USD", "coin": "coins"}[currency]
    of = "P&L"
    if "leg" in attribution.dims and "days" in attribution:
        count = attribution.sizes["leg"]
        of += f" of {count} leg{'s' * (count != 1)}"
        of += f" in {style.span_words(float(attribution['days'].max()))}:"
    title = f"{of} {written[-1]} {unit}; the largest term is {names[most]} ({written[most]})"
    style.dress(ax, title=title, x={"usd": "P&L [USD]", "coin": "P&L [coin]"}[currency], grid="x")
    style.write(ax.xaxis, "number")
    style.note(ax, "blue: gain; orange: loss; grey: residual and total")
    table = {"term": [*names, "P&L"], "start": starts, f"amount_{currency}": widths}
    return finish(ax, table, attribution, source=source)
