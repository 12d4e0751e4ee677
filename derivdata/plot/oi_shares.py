"""Figure of open interest: how much, who holds it, and whose share grows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pandas as pd
import xarray as xr

from derivdata.analysis import oi as analysis
from derivdata.plot import style
from derivdata.plot.frames import Rates, Size, Source, figure_function, finish, long_table, only_for
from derivdata.plot.funding_rates import STEPS
from derivdata.plot.style import GREY, LONG, PALETTE, SHORT
from derivdata.support import times
from derivdata.support.arrays import Array

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_LEAST_POINTS = 24
_BILLION = 1e9


@figure_function
def open_interest(
    data: Rates | xr.Dataset,
    kind: Literal["level", "share", "trend"] = "level",
    *,
    symbol: str | None = None,
    price: Rates | None = None,
    top: int | None = None,
    window: str | pd.Timedelta | None = None,
    source: Source | None = None,
    ax: Axes | None = None,
    figsize: Size | None = None,
) -> Axes:
    """Draw how much open interest there is, who holds it, or whose share grows.

    Parameters
    ----------
    data
        Table ``oi_history`` or its panel of ``oi_usd`` [USD]; for ``"trend"`` also what
        ``dd.analysis.oi.share_trend`` gave.
    kind
        ``"level"``: of all venues together in USD; with prices, the changes of USD, coins and price since
        the first value. ``"share"``: of each venue, stacked; the title has their concentration. ``"trend"``:
        share that each venue gained or lost, as bars, solid where its trend is significant.
    symbol
        Which symbol, where there are several.
    price
        Of the level: prices [USD] with a dim ``time``, or the table ``prices_history``, whose venues' median
        is taken. None draws USD alone.
    top
        Of shares: how many venues are named, 7 if None; the others are one band. Of trends: how many are
        drawn, the steepest, 15 if None.
    window
        Of trends: length of time that the changes are of. None takes the window of a table or panel, and a
        day for trends, which do not say from which window they are.
    source, ax, figsize
        As in every figure: see `derivdata.plot`.

    Returns
    -------
    Axes
        Levels and shares are of the venues that are present in 95 % of the window (see
        ``dd.analysis.oi.market_share``); a time at which one of them is missing for long is a gap. Open
        interest in USD moves with the price though no one trades; in coins it does not. Concentration is the
        Herfindahl–Hirschman index. A change of share is the mean of the last day less that of the first, of a
        table or panel, or the slope times `window`, of trends. A bar is solid where the interval of the trend
        excludes zero. Trends of a table are of means over 1 to 24 hours.

    Raises
    ------
    ValueError
        The symbol is not in the data, no venue is present for long enough or has a trend, or an option is of
        another `kind`.
    """
    only_for(kind, ("level",), price=price)
    only_for(kind, ("share", "trend"), top=top)
    only_for(kind, ("trend",), window=window)
    if kind == "trend":
        lowest, main, table = _trends(data, symbol, 15 if top is None else top, window, ax)
    elif isinstance(data, xr.Dataset):
        raise ValueError(f"data holds trends; kind={kind!r} needs the table oi_history or its panel")
    elif kind == "share":
        lowest, main, table = _bands(data, symbol, 7 if top is None else top, ax)
    else:
        lowest, main, table = _levels(data, price, symbol, ax)
    return finish(main, table, data, price, source=source, lowest=lowest)


def _bands(data: Rates, symbol: str | None, top: int, ax: Axes | None) -> tuple[Axes, Axes, pd.DataFrame]:
    """Draw the venues' shares, stacked, and their concentration below."""
    share, symbol = _shares(data, symbol)
    ax = style.axes(ax)
    frame: pd.DataFrame = share.transpose("time", "exchange").to_pandas()
    order = frame.ffill().iloc[-1].sort_values(ascending=False).index
    bands = frame[order[:top]].copy()
    if len(order) > top:
        bands["others"] = frame[order[top:]].sum(axis=1, min_count=1)
    colors = [*PALETTE[: min(top, len(order))], GREY][: bands.shape[1]]
    ax.stackplot(bands.index, bands.to_numpy().T, colors=colors, lw=0, alpha=0.85)
    last = bands.ffill().iloc[-1]
    _label_bands(ax, last, colors)
    hhi = analysis.hhi(share)["hhi_10000"].to_series()
    known = hhi.dropna()
    concentration = ""
    if len(known):
        concentration = f"; concentration (HHI) {known.iloc[-1]:,.0f}, {known.iloc[0]:,.0f} at the start"
    title = f"{symbol}: {last.index[0]} holds {style.share(last.iloc[0])} of the open interest{concentration}"
    style.dress(ax, title=title, y="share of open interest [%]", form="percent", grid="")
    ax.set(ylim=(0, 1), xlim=(bands.index[0], bands.index[-1]))
    style.utc_axis(ax)
    table = long_table(frame[list(order)], "time", "exchange", "share")
    return ax, ax, table.assign(hhi_10000=table["time"].map(hhi))


def gain_look(change: Array, is_sure: bool) -> dict[str, Any]:
    """Return the colours of bars of changes: full if a trend is significant, else pale with an edge."""
    from matplotlib.colors import to_rgba

    colors = [LONG if value >= 0 else SHORT for value in change]
    if is_sure:
        return {"color": colors}
    return {"color": [to_rgba(color, 0.3) for color in colors], "edgecolors": colors, "lw": 1.0}


def _label_bands(ax: Axes, last: pd.Series, colors: list[str]) -> None:
    """Write each venue and its latest share next to its band, at least a line apart."""
    middle = (last.cumsum() - last / 2.0).to_numpy()
    least = 0.075
    places = middle.copy()
    for i in range(1, len(places)):
        places[i] = max(places[i], places[i - 1] + least)
    places -= max(places[-1] - (1.0 - least / 2), 0.0)
    for i in range(len(places) - 2, -1, -1):  # what was moved down may now be too close to its neighbour
        places[i] = min(places[i], places[i + 1] - least)
    for name, share, place, color in zip(last.index, last, places, colors, strict=True):
        for x, words, ink in ((1.01, "■", color), (1.05, f"{name} {style.share(share)}", style.ink())):
            ax.text(x, place, words, transform=ax.transAxes, va="center", fontsize=8, color=ink)


def _trends(
    data: Rates | xr.Dataset, symbol: str | None, top: int, window: str | pd.Timedelta | None, ax: Axes | None
) -> tuple[Axes, Axes, pd.DataFrame]:
    """Draw how much share each venue gained or lost, a bar per venue."""
    days = None if window is None else times.length(window, "window") / pd.Timedelta(1, "D")
    if days == 0.0:
        raise ValueError(f"{window=} has no length")
    if isinstance(data, xr.Dataset):
        (trend, symbol), whole = style.one_symbol(data, symbol), None
    else:
        share, symbol = _shares(data, symbol)
        stamps = share["time"].values
        trend = trend_of(share)
        whole = float((stamps[-1] - stamps[0]) / np.timedelta64(1, "D"))
        trend = trend if days else trend.assign(change=share_change(share))
    trend = trend if "status" in trend else trend.assign(status=xr.zeros_like(trend["slope"], dtype=np.int32))
    length = days or whole or 1.0
    changes = trend["change"] if "change" in trend else length * trend["slope"]
    columns = ["slope", "low", "high", "status"]
    frame = (
        trend[columns]
        .to_dataframe()[columns]
        .assign(change=changes.to_series())
        .dropna(subset=["slope", "change"])
    )
    if frame.empty:
        raise ValueError("no venue has a trend: shares need three points or more")
    frame[["slope", "low", "high", "change"]] *= 100.0
    frame[["slope", "low", "high"]] *= length
    largest = frame.loc[frame["change"].abs().sort_values(ascending=False, kind="stable").index[:top]]
    shown = largest.sort_values("change", ascending=False, kind="stable")
    sure = ((shown["low"] > 0) | (shown["high"] < 0)) & (shown["status"] == 0)
    ax, place = style.rows(ax, list(shown.index), 0.26)
    for chosen, is_sure, words in (
        (sure.to_numpy(), True, "significant trend (95 %)"),
        (~sure.to_numpy(), False, "no significant trend"),
    ):
        change = shown["change"].to_numpy()[chosen]
        if change.size:
            style.bars(
                ax, place[chosen], change, 0.66, horizontal=True, label=words, **gain_look(change, is_sure)
            )
    reach = float(shown["change"].abs().max()) or 1.0
    for row, (change, is_sure) in enumerate(zip(shown["change"], sure, strict=True)):
        text = f"{change:+.2f}{' *' if is_sure else ''}"
        look: dict[str, Any] = {"va": "center", "ha": "left" if change >= 0 else "right", "fontsize": 8}
        ax.text(change + np.copysign(0.02 * reach, change), row, text, **look)
    ax.axvline(0, color=GREY, lw=1.0)
    low = min(float(shown["change"].min()), 0.0)
    high = max(float(shown["change"].max()), 0.0)
    room = 0.22 * (high - low)  # for the numbers at the ends of bars
    ax.set_xlim(low - room, high + room)
    gain = shown["change"].iloc[0]
    loss = shown["change"].iloc[-1]
    moved = [f"{shown.index[0]} gained {gain:.2g} points of share"] if gain > 0 else []
    moved += [f"{shown.index[-1]} lost {-loss:.2g}"] if loss < 0 else []
    span = "a day" if length == 1.0 else f"in {length:.3g} days"
    title = f"{symbol}: {', '.join(moved) or 'no share changed'} {span}"
    few = f"; {len(shown)} of {len(frame)} venues" if len(shown) < len(frame) else ""
    style.dress(ax, title=title, x=f"change of share [percentage points {span}]{few}", grid="x")
    ax.spines["left"].set_visible(False)
    ax.tick_params(axis="y", length=0)
    style.note(ax, "* solid: the trend is significant at 95 %; pale: it is not, or there is too little data")
    table = shown.rename(
        columns={"slope": "trend_pp", "low": "low_pp", "high": "high_pp", "change": "change_pp"}
    )
    return ax, ax, table.rename_axis("exchange").reset_index().assign(days=length)


def share_change(share: xr.DataArray) -> xr.DataArray:
    """Return the mean share of the last day less that of the first; of thirds in windows under three days."""
    stamps = share["time"].values
    part = min(np.timedelta64(1, "D"), (stamps[-1] - stamps[0]) / 3)
    first = share.sel(time=slice(None, stamps[0] + part)).mean("time")
    last = share.sel(time=slice(stamps[-1] - part, None)).mean("time")
    return last - first


def _levels(
    data: Rates, price: Rates | None, symbol: str | None, ax: Axes | None
) -> tuple[Axes, Axes, pd.DataFrame]:
    """Draw the open interest of all venues in USD and, with prices, in coins."""
    share, symbol = _shares(data, symbol)
    present = share["exchange"].values
    panel, _ = style.one_symbol(style.panel_of(data, "oi_usd"), symbol)
    total = panel.sel(exchange=present).sum("exchange", min_count=len(present))
    lines = {"oi_usd": total}
    if price is not None:
        level = style.median_price(price, symbol).reindex(time=panel["time"].values)
        lines |= {"oi_coins": total / level, "price_usd": level}
    ax = style.axes(ax, size=(8.0, 4.0))
    names = ("in USD", "in coins", "price")
    changes = [_change(line) for line in lines.values()]
    of = f"{len(present)} venue{'s' if len(present) != 1 else ''}"
    known = ", ".join(f"{name} {change}" for name, change in zip(names, changes, strict=False) if change)
    title = f"{symbol}: open interest of {of}" + (f": {known}" if known else "")
    if price is None:
        ax.plot(total["time"], total / _BILLION, color=PALETTE[0], lw=1.4)
        style.dress(ax, title=title, y="open interest [billion USD]", form="number")
    else:
        _draw_changes(ax, lines, symbol)
        style.dress(ax, title=title, y="change since the first value [%]", form="percent")
        style.legend(ax, "above")
    style.utc_axis(ax)
    table = pd.DataFrame({name: line.to_series() for name, line in lines.items()})
    return ax, ax, table.rename_axis("time").reset_index()


def _draw_changes(ax: Axes, lines: dict[str, xr.DataArray], symbol: str) -> None:
    """Draw each line as its change since its first value, named with its latest level."""
    words = ("open interest: {} B USD", f"open interest: {{}} {symbol}", "price: {} USD")
    looks: tuple[dict[str, Any], ...] = (
        {"color": PALETTE[0], "lw": 1.3},
        {"color": PALETTE[1], "lw": 2.0},
        {"color": GREY, "lw": 1.2, "ls": "--"},
    )
    for (name, line), text, look in zip(lines.items(), words, looks, strict=True):
        known = line.dropna("time")
        if not known.sizes["time"] or not float(known[0]) > 0:
            continue
        last = float(known[-1]) / (_BILLION if name == "oi_usd" else 1.0)
        ax.plot(line["time"], line / float(known[0]) - 1.0, label=text.format(style.number(last)), **look)
    ax.axhline(0, color=GREY, lw=0.8)


def _change(line: xr.DataArray) -> str:
    known = line.dropna("time")
    if known.sizes["time"] < 2 or not float(known[0]) > 0:
        return ""
    return f"{float(known[-1] / known[0] - 1.0):+.1%}".replace("%", " %")


def trend_of(share: xr.DataArray) -> xr.Dataset:
    """Return the trend of each share, from daily means or, over few days, from means over shorter steps.

    Hourly shares are so autocorrelated that the interval of their trend is either too narrow or unbounded;
    means over longer steps are not.

    Parameters
    ----------
    share
        What ``dd.analysis.oi.market_share`` gave, dims ``exchange`` and ``time``.

    Returns
    -------
    Dataset
        What ``dd.analysis.oi.share_trend`` gives of the longest of 1, 2, 4, 8 and 24 hours that leaves 24
        points or more.
    """
    stamps = share["time"].values
    hours = (stamps[-1] - stamps[0]) / np.timedelta64(1, "h")
    fitting = [name for name, width in STEPS.items() if hours / width >= _LEAST_POINTS]
    return analysis.share_trend(share.resample(time=fitting[-1] if fitting else "1h").mean())


def _shares(data: Rates, symbol: str | None) -> tuple[xr.DataArray, str]:
    panel, symbol = style.one_symbol(style.panel_of(data, "oi_usd"), symbol)
    share = analysis.market_share(panel)
    traded = share.where(share.notnull().any("time"), drop=True)
    if not traded.sizes["exchange"]:
        raise ValueError(f"no venue has open interest of {symbol} over most of the window")
    return traded, symbol
