"""Figure of open interest: how much, who holds it, and whose share grows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np
import pandas as pd
import xarray as xr

from derivdata.analysis import oi as analysis
from derivdata.plot import style
from derivdata.plot.frames import Rates, Source, figure_function, finish, long_table, only_for
from derivdata.plot.funding_rates import STEPS
from derivdata.plot.style import GREY, PALETTE
from derivdata.support import times

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
) -> Axes:
    """Draw how much open interest there is, who holds it, or whose share grows.

    Parameters
    ----------
    data
        Table ``oi_history`` or its panel of ``oi_usd`` [USD]; for ``"trend"`` also what
        ``dd.analysis.oi.share_trend`` gave.
    kind
        ``"level"``: of all venues together, in USD and, with prices, in coins. ``"share"``: of each venue,
        stacked, and below it their concentration. ``"trend"``: share that each venue gained or lost by its
        trend, with an interval.
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
    source, ax
        As in every figure: see `derivdata.plot`.

    Returns
    -------
    Axes
        The upper ones of a figure of several strips. Levels and shares are of the venues that are present in
        95 % of the window (see ``dd.analysis.oi.market_share``); an instant at which one of them is missing
        for long is a gap. Open interest in USD moves with the price though nobody trades; in coins it does
        not. Concentration is the Herfindahl–Hirschman index. Trends stand in percentage points over the
        window, the greatest gain at the top, with filled dots where the interval excludes zero, and without
        an interval where the status says that the data cannot tell. Those of a table are of means over 1 to
        24 hours.

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
    upper, lower = style.strips(ax, 4.0, 1.2)
    frame: pd.DataFrame = share.transpose("time", "exchange").to_pandas()
    order = frame.ffill().iloc[-1].sort_values(ascending=False).index
    bands = frame[order[:top]].copy()
    if len(order) > top:
        bands["others"] = frame[order[top:]].sum(axis=1, min_count=1)
    colors = [*PALETTE[: min(top, len(order))], GREY][: bands.shape[1]]
    upper.stackplot(bands.index, bands.to_numpy().T, colors=colors, lw=0)
    last = bands.ffill().iloc[-1]
    _label_bands(upper, last, colors)
    title = f"{symbol}: {last.index[0]} holds {style.share(last.iloc[0])} of the open interest"
    style.dress(upper, title=title, y="share of open interest [%]", form="percent", grid="")
    upper.set(ylim=(0, 1), xlim=(bands.index[0], bands.index[-1]))
    hhi = analysis.hhi(share)["hhi_10000"].to_series()
    lower.plot(frame.index, hhi, color=PALETTE[0], lw=1.4)
    style.dress(lower, y="HHI\n[0 to 10,000]", form="number")
    style.utc_axis(lower)
    table = long_table(frame[list(order)], "time", "exchange", "share")
    return lower, upper, table.assign(hhi_10000=table["time"].map(hhi))


def _label_bands(ax: Axes, last: pd.Series, colors: list[str]) -> None:
    """Write each venue and its latest share beside its band, at least a line apart."""
    middle = (last.cumsum() - last / 2.0).to_numpy()
    least = 0.075
    places = middle.copy()
    for i in range(1, len(places)):
        places[i] = max(places[i], places[i - 1] + least)
    places -= max(places[-1] - (1.0 - least / 2), 0.0)
    for i in range(len(places) - 2, -1, -1):  # what was moved down may now be too close to its neighbour
        places[i] = min(places[i], places[i + 1] - least)
    for name, share, place, color in zip(last.index, last, places, colors, strict=True):
        for x, words, ink in ((1.01, "■", color), (1.05, f"{name} {style.share(share)}", "black")):
            ax.text(x, place, words, transform=ax.transAxes, va="center", fontsize=8, color=ink)


def _trends(
    data: Rates | xr.Dataset, symbol: str | None, top: int, window: str | pd.Timedelta | None, ax: Axes | None
) -> tuple[Axes, Axes, pd.DataFrame]:
    """Draw the change of each share by its trend, a row per venue."""
    days = None if window is None else times.length(window, "window") / pd.Timedelta(1, "D")
    if days == 0.0:
        raise ValueError(f"{window=} has no length")
    if isinstance(data, xr.Dataset):
        (trend, symbol), whole = style.one_symbol(data, symbol), None
    else:
        share, symbol = _shares(data, symbol)
        stamps = share["time"].values
        trend, whole = trend_of(share), float((stamps[-1] - stamps[0]) / np.timedelta64(1, "D"))
    trend = trend if "status" in trend else trend.assign(status=xr.zeros_like(trend["slope"], dtype=np.int32))
    columns = ["slope", "low", "high", "status"]
    frame = trend[columns].to_dataframe()[columns].dropna()
    if frame.empty:
        raise ValueError("no venue has a trend: shares need three points or more")
    steepest = frame.loc[frame["slope"].abs().sort_values(ascending=False).index[:top]]
    steepest = steepest.sort_values("slope", ascending=False)
    told = steepest["status"] == 0
    sure = ((steepest["low"] > 0) | (steepest["high"] < 0)) & told
    length = days or whole or 1.0
    steepest = 100.0 * length * steepest[["slope", "low", "high"]]
    ax, place = style.rows(ax, list(steepest.index), 0.26)
    ax.hlines(place[told], steepest["low"][told], steepest["high"][told], color=PALETTE[0], lw=1.6, alpha=0.6)
    for chosen, color, fill, words in (
        (sure, PALETTE[0], PALETTE[0], "trend"),
        (told & ~sure, PALETTE[0], "none", "interval includes zero"),
        (~told, GREY, "none", "no interval: too little data"),
    ):
        if chosen.any():
            change = steepest["slope"][chosen]
            ax.plot(change, place[chosen], "o", color=color, mfc=fill, ms=6, label=words)
    ax.axvline(0, color=GREY, lw=1.0)
    level = f"{style.share(trend.attrs['level'])} interval" if "level" in trend.attrs else "interval"
    shown = f"{len(steepest)} of {len(frame)}" if len(steepest) < len(frame) else len(steepest)
    moving = steepest.loc[sure, "slope"]
    lead = "no share of open interest has a clear trend"
    if len(moving):
        most = moving.abs().idxmax()
        lead = f"clear trends: {len(moving)}, the largest {most} ({moving[most]:+.2g} points)"
    span = "a day" if length == 1.0 else f"in {length:.3g} days"
    words = f"change of share by its trend [percentage points {span}], with {level}"
    style.dress(ax, title=f"{symbol}: {lead}; {shown} venues", x=words, grid="x")
    style.legend(ax, "above")
    table = steepest.rename(columns={"slope": "change_pp", "low": "low_pp", "high": "high_pp"})
    return ax, ax, table.rename_axis("exchange").reset_index().assign(days=length)


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
    strip = style.strips(ax, *[2.0, 1.4, 1.4][: len(lines)], size=(8.0, 2.0 + 1.6 * len(lines)))
    labels = ("open interest\n[billion USD]", f"open interest\n[{symbol}]", "price\n[USD]")
    for place, (one, line) in enumerate(zip(strip, lines.values(), strict=True)):
        one.plot(line["time"], line / (1.0 if place else _BILLION), color=PALETTE[place], lw=1.4)
        style.dress(one, y=labels[place], form="number")
    names = ("in USD", "in coins", "price")
    changes = [f"{name} {_change(line)}" for name, line in zip(names, lines.values(), strict=False)]
    known = ", ".join(change for change in changes if not change.endswith(" "))
    of = f"{len(present)} venue{'s' if len(present) != 1 else ''}"
    style.dress(strip[0], title=f"{symbol}: open interest of {of}" + (f": {known}" if known else ""))
    style.utc_axis(strip[-1])
    table = pd.DataFrame({name: line.to_series() for name, line in lines.items()})
    return strip[-1], strip[0], table.rename_axis("time").reset_index()


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
