"""Figures of positions over time: open interest of venues, long/short ratios, and taker volume."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pandas as pd
import xarray as xr

from derivdata.analysis import oi as analysis
from derivdata.analysis import taker
from derivdata.analysis.panels import require_times, require_unit_if_stated
from derivdata.plot import style
from derivdata.plot.frames import (
    Rates,
    Size,
    Source,
    draw_lanes,
    figure_function,
    finish,
    lane_height,
    lane_limits,
    long_table,
    only_for,
)
from derivdata.plot.funding import STEPS
from derivdata.plot.style import GREY, LONG, PALETTE, SHORT
from derivdata.support import times
from derivdata.support.arrays import Array
from derivdata.tables.frames import require_columns
from derivdata.tables.panels import panel
from derivdata.units import USD_UNIT

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MIN_POINTS = 24
_BILLION = 1e9
_MAX_VENUES = 8
_MILLION = 1e6
_TOP = {"share": 7, "trend": 15}
"""Number of venues drawn unless `top` is given."""
_SMALLEST_CHANGE = 0.05
"""Minimum change of share that the title names [percentage points]."""
_BAR_MARGIN = {False: 0.22, True: 0.36}
"""Space for the numbers at the ends of bars, as a fraction of their range, in wide and in narrow figures."""


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
    """Draw open interest: its level, the shares of venues, or the changes of their shares.

    Parameters
    ----------
    data
        Table ``oi_history`` or its panel of ``oi_usd`` [USD]; for ``"trend"`` also the result of
        ``dd.analysis.oi.share_trend``.
    kind
        ``"level"``: total of all venues in USD; with prices, the changes of USD, coins and price since the
        first value. ``"share"``: shares of venues, with their changes from the first to the last value.
        ``"trend"``: change of share of each venue as bars, solid if the trend is significant.
    symbol
        The symbol, if there are several.
    price
        For levels: prices [USD] with a dim ``time``, or the table ``prices_history``, whose median over
        venues is used. None draws only USD.
    top
        For shares: number of drawn venues, 7 if None. For trends: number of venues
        drawn, with the largest changes, 15 if None.
    window
        For trends: length of time of the changes. None uses the window of a table or panel, and a day for
        trends, which do not state their window.
    source, ax, figsize
        As in every figure: see `derivdata.plot`.

    Returns
    -------
    Axes
        Levels and shares are of the venues with data in 95 % of the window (see
        ``dd.analysis.oi.market_share``); a time at which one of them is missing for long is a gap. Open
        interest in USD moves with the price even without trades; in coins it does not. Concentration, a
        column of the data of ``"share"``, is the Herfindahl–Hirschman index. In ``"trend"`` a change is the
        mean of the last day minus the mean of the first day for a table or panel, or the slope times `window`
        for trends. A bar is solid if the interval of the trend excludes zero. Trends of a table are of means
        over 1 to 24 hours.

    Raises
    ------
    ValueError
        The symbol is not in the data, no venue has enough data or a trend, or an option belongs to another
        `kind`.
    """
    if isinstance(data, xr.DataArray):
        require_unit_if_stated(data, "data", USD_UNIT)
    only_for(kind, ("level",), price=price)
    only_for(kind, ("share", "trend"), top=top)
    only_for(kind, ("trend",), window=window)
    if top is None:
        top = _TOP.get(kind, 0)
    elif top < 1:
        raise ValueError(f"top must be at least 1 venue, got {top}")
    if kind == "trend":
        main, table = _trends(data, symbol, top, window, ax)
    elif isinstance(data, xr.Dataset):
        raise ValueError(f"kind={kind!r} needs the table oi_history or its panel, got a Dataset of trends")
    elif kind == "share":
        main, table = _share_lines(data, symbol, top, ax)
    else:
        main, table = _levels(data, price, symbol, ax)
    return finish(main, table, data, price, source=source)


def _share_lines(data: Rates, symbol: str | None, top: int, ax: Axes | None) -> tuple[Axes, pd.DataFrame]:
    """Draw the shares of the largest venues as lines, with last minus first value."""
    share, symbol = _shares(data, symbol)
    ax = style.axes(ax)
    frame: pd.DataFrame = share.transpose("time", "exchange").to_pandas()
    last = frame.ffill().iloc[-1].sort_values(ascending=False)
    change = 100.0 * (last - frame.bfill().iloc[0])
    drawn = frame.iloc[style.places(ax, len(frame))]
    ends = []
    for place, name in enumerate(last.index[:top]):
        look = style.look(place)
        ax.plot(drawn.index, drawn[name], lw=1.6, **look)
        ends.append((last[name], f"{name} {100 * last[name]:.1f} ({change[name]:+.1f})", str(look["color"])))
    shown = last.index[:top]
    style.dress(ax, title=f"{symbol}: {_share_words(last, change[shown])}", y="share of open interest [%]")
    style.write(ax.yaxis, "percent")
    ax.set(ylim=(0, 1.06 * float(frame[shown].max(axis=None))), xlim=(frame.index[0], frame.index[-1]))
    style.note(ax, _key_of_shares(last, len(shown)))
    style.label_ends(ax, ends)
    style.utc_axis(ax, has_labels=True)
    table = long_table(frame[list(last.index)], "time", "exchange", "share")
    hhi = analysis.hhi(share)["hhi_10000"].to_series()
    return ax, table.assign(hhi_10000=table["time"].map(hhi))


def _share_words(last: pd.Series, change: pd.Series) -> str:
    """Describe the largest share and the largest gain and loss [percentage points] of the drawn venues."""
    largest = f"{100 * last.iloc[0]:.1f} %"
    level = [str(venue) for venue, value in last.items() if f"{100 * value:.1f} %" == largest]
    words = f"{level[0]} has the largest share of open interest, {largest}"
    if len(level) > 1:  # equal as written: the labels show no difference
        words = f"{', '.join(level[:-1])} and {level[-1]} have the largest shares of open interest, {largest}"
    moves = []
    if change.max() >= _SMALLEST_CHANGE:
        moves.append(f"{change.idxmax()} gained {change.max():.1f} points")
    if change.min() <= -_SMALLEST_CHANGE:
        moves.append(f"{change.idxmin()} lost {-change.min():.1f}")
    if moves and len(last) > 1:
        words += f"; {', '.join(moves)}"
    return words


def _key_of_shares(last: pd.Series, shown: int) -> str:
    """Describe the labels and the share of venues that are not drawn."""
    words = "right: last share [%] (last minus first [points])"
    others = len(last) - shown
    if others:
        words += f"; {others} other{'s' * (others != 1)}: {style.share(float(last.iloc[shown:].sum()))}"
    return words


def gain_look(change: Array, is_sure: bool) -> dict[str, Any]:
    """Return the colours of bars: full if the trend is significant, else pale with an edge."""
    from matplotlib.colors import to_rgba_array

    colors = np.where(change >= 0, LONG, SHORT)
    if is_sure:
        return {"color": colors}
    return {"color": to_rgba_array(colors, 0.45), "edgecolors": colors, "lw": 1.0}


def _share_trends(
    data: Rates | xr.Dataset, symbol: str | None, window: str | pd.Timedelta | None
) -> tuple[xr.Dataset, str, float]:
    """Return the trends of shares with their status, the symbol, and the length of the changes [days]."""
    days = 0.0
    if window is not None:
        days = times.length(window, "window") / pd.Timedelta(1, "D")
        if not days:
            raise ValueError(f"window must be longer than 0, got {window!r}")
    if isinstance(data, xr.Dataset):
        trend, symbol = style.one_symbol(data, symbol)
        data_days = 1.0  # the window of a result is not known: slopes are per day
    else:
        share, symbol = _shares(data, symbol)
        stamps = share["time"].values
        trend = trend_of(share)
        data_days = float((stamps[-1] - stamps[0]) / np.timedelta64(1, "D"))
        if not days:
            trend = trend.assign(change=share_change(share))
    if "status" not in trend:
        trend = trend.assign(status=xr.zeros_like(trend["slope"], dtype=np.int32))
    return trend, symbol, days or data_days


def _trends(
    data: Rates | xr.Dataset,
    symbol: str | None,
    top: int,
    window: str | pd.Timedelta | None,
    ax: Axes | None,
) -> tuple[Axes, pd.DataFrame]:
    """Draw the change of share of each venue as bars."""
    # 1. The largest changes, in percentage points.
    trend, symbol, length = _share_trends(data, symbol, window)
    if "change" not in trend:
        trend = trend.assign(change=length * trend["slope"])
    columns = ["slope", "low", "high", "status", "change"]
    frame = trend[columns].to_dataframe()[columns].dropna(subset=["slope", "change"])
    if frame.empty:
        raise ValueError("no venue has a trend: shares need three points or more")
    frame[["slope", "low", "high", "change"]] *= 100.0
    frame[["slope", "low", "high"]] *= length
    largest = frame.loc[frame["change"].abs().sort_values(ascending=False, kind="stable").index[:top]]
    shown = largest.sort_values("change", ascending=False, kind="stable")
    sure = ((shown["low"] > 0) | (shown["high"] < 0)) & (shown["status"] == 0)
    ax, place = style.rows(ax, list(shown.index), 0.26)
    # 2. Bars with their numbers.
    for rows, is_sure, words in (
        (sure.to_numpy(), True, "significant trend (95 %)"),
        (~sure.to_numpy(), False, "no significant trend"),
    ):
        change = shown["change"].to_numpy()[rows]
        if change.size:
            colours = gain_look(change, is_sure)
            style.bars(ax, place[rows], change, 0.66, horizontal=True, label=words, **colours)
    reach = float(shown["change"].abs().max()) or 1.0
    for row, (change, is_sure) in enumerate(zip(shown["change"], sure, strict=True)):
        text = f"{change:+.2f}{' *' * is_sure}"
        side = "left" if change >= 0 else "right"
        ax.text(change + np.copysign(0.02 * reach, change), row, text, va="center", ha=side, fontsize=8)
    ax.axvline(0, color=GREY, lw=1.0)
    low = min(float(shown["change"].min()), 0.0)
    high = max(float(shown["change"].max()), 0.0)
    margin = _BAR_MARGIN[style.is_narrow(ax)] * (high - low)
    ax.set_xlim(low - margin, high + margin)
    # 3. Title and labels.
    span = f"in {style.day_words(length)}"
    if length == 1.0:
        span = "a day"
    title = f"{symbol}: {_largest_moves(shown['change'], sure, span)}"
    label = f"change of share [percentage points {span}]"
    if len(shown) < len(frame):
        label += f"; {len(shown)} of {len(frame)} venues"
    style.dress(ax, title=title, x=label, grid="x")
    ax.spines["left"].set_visible(False)
    ax.tick_params(axis="y", length=0)
    pale = "pale: trend not significant (95 %), or too little data"
    solid = "* solid: trend significant (95 %)"
    style.note(ax, "; ".join([solid] * bool(sure.any()) + [pale] * bool((~sure).any())))
    table = shown.rename(
        columns={"slope": "trend_pp", "low": "low_pp", "high": "high_pp", "change": "change_pp"}
    )
    return ax, table.rename_axis("exchange").reset_index().assign(days=length)


def _largest_moves(change: pd.Series, sure: pd.Series, span: str) -> str:
    """Describe the largest gain and loss [percentage points] of changes in falling order."""
    gain = change.iloc[0]
    loss = change.iloc[-1]
    moves = []
    if gain > 0:
        moves.append(f"{change.index[0]} gained {gain:.2g} points of share")
    if loss < 0:
        moves.append(f"{change.index[-1]} lost {-loss:.2g}")
    if not moves:
        return f"no share changed {span}"
    words = f"{', '.join(moves)} {span}"
    if not sure.any():
        return f"{words}, but no trend is significant"
    return f"{words}; {int(sure.sum())} of {len(change)} trends are significant"


def share_change(share: xr.DataArray) -> xr.DataArray:
    """Return the mean share of the last day minus the first day; thirds in windows under three days."""
    stamps = share["time"].values
    span = min(np.timedelta64(1, "D"), (stamps[-1] - stamps[0]) / 3)
    first = share.sel(time=slice(None, stamps[0] + span)).mean("time")
    last = share.sel(time=slice(stamps[-1] - span, None)).mean("time")
    return last - first


def _levels(
    data: Rates, price: Rates | None, symbol: str | None, ax: Axes | None
) -> tuple[Axes, pd.DataFrame]:
    """Draw the open interest of all venues in USD and, with prices, in coins."""
    share, symbol = _shares(data, symbol)
    present = share["exchange"].values
    oi, _ = style.one_symbol(style.panel_of(data, "oi_usd"), symbol)
    total = oi.sel(exchange=present).sum("exchange", min_count=len(present))
    lines = {"oi_usd": total}
    if price is not None:
        level = style.median_price(price, symbol).reindex(time=oi["time"].values)
        lines |= {"oi_coins": total / level, "price_usd": level}
    ax = style.axes(ax, size=(8.0, 4.0))
    venues = f"{len(present)} venue{'s' * (len(present) != 1)}"
    if price is None:
        ax.plot(total["time"], total / _BILLION, color=PALETTE[0], lw=1.4)
        title = f"{symbol} open interest {_moved(total) or 'of one time'} in USD"
        style.dress(ax, title=title, y="open interest [billion USD]", form="number")
        style.note(ax, venues)
    else:
        changes, latest = _draw_changes(ax, lines, symbol)
        title = f"{symbol} open interest and price"
        if len(changes) == len(lines):
            title = f"{symbol} open interest {changes[1]} in coins; in USD it {changes[0]}, while the price "
            title += changes[2]
        style.dress(ax, title=title, y="change since the first value [%]", form="percent")
        style.note(ax, f"{venues}; now {', '.join(latest)}")
    style.utc_axis(ax, has_labels=price is not None)
    table = pd.DataFrame({name: line.to_series() for name, line in lines.items()})
    return ax, table.rename_axis("time").reset_index()


def _draw_changes(ax: Axes, lines: dict[str, xr.DataArray], symbol: str) -> tuple[list[str], list[str]]:
    """Draw the change of each line since its first value; return changes and latest levels as text."""
    kinds: dict[str, tuple[str, str, float, dict[str, Any]]] = {
        "oi_usd": ("in USD", "{} B USD", _BILLION, {"color": PALETTE[0], "lw": 1.3}),
        "oi_coins": ("in coins", f"{{}} {symbol}", 1.0, {"color": PALETTE[1], "lw": 2.0}),
        "price_usd": ("price", "at {} USD", 1.0, {"color": GREY, "lw": 1.2}),
    }
    changes = []
    latest = []
    ends = []
    for name, (label, text, unit, look) in kinds.items():
        line = lines[name]
        change = _change(line)
        if not change:
            continue  # no change without a positive first value
        finite = line.dropna("time")
        latest.append(text.format(style.number(float(finite[-1]) / unit)))
        changes.append(_moved(line))
        relative = line / float(finite[0]) - 1.0
        shown = relative.isel(time=style.places(ax, relative.sizes["time"]))
        ax.plot(shown["time"], shown, label=label, **look)
        ends.append((float(finite[-1] / finite[0]) - 1.0, f"{label} {change}", look["color"]))
    ax.axhline(0, color=GREY, lw=0.8)
    style.label_ends(ax, ends)
    return changes, latest


def _moved(line: xr.DataArray) -> str:
    """Describe the change of a line: ``rises 1.5 %``, ``is unchanged``; empty text without two values."""
    change = _change(line)
    if not change:
        return ""
    if not change.strip("+-.0 %"):
        return "is unchanged"
    if change.startswith("-"):
        return f"falls {change[1:]}"
    return f"rises {change[1:]}"


def _change(line: xr.DataArray) -> str:
    """Format the change from the first to the last value; empty text without two values."""
    finite = line.dropna("time")
    if finite.sizes["time"] < 2 or not float(finite[0]) > 0:
        return ""
    return f"{float(finite[-1] / finite[0] - 1.0):+.1%}".replace("%", " %")


def trend_of(share: xr.DataArray) -> xr.Dataset:
    """Return the trend of each share, from daily means or, over few days, from means over shorter steps.

    Hourly shares are so autocorrelated that the interval of their trend is either too narrow or unbounded;
    means over longer steps are not.

    Parameters
    ----------
    share
        Result of ``dd.analysis.oi.market_share``, dims ``exchange`` and ``time``.

    Returns
    -------
    Dataset
        Result of ``dd.analysis.oi.share_trend``, with the longest step of 1, 2, 4, 8 and 24 hours that gives
        at least 24 points.
    """
    stamps = share["time"].values
    hours = (stamps[-1] - stamps[0]) / np.timedelta64(1, "h")
    step = "1h"
    for name, width in STEPS.items():
        if hours / width >= _MIN_POINTS:
            step = name
    return analysis.share_trend(share.resample(time=step).mean())


def _shares(data: Rates, symbol: str | None) -> tuple[xr.DataArray, str]:
    oi, symbol = style.one_symbol(style.panel_of(data, "oi_usd"), symbol)
    share = analysis.market_share(oi)
    traded = share.where(share.notnull().any("time"), drop=True)
    if not traded.sizes["exchange"]:
        raise ValueError(f"no venue has open interest of {symbol} over most of the window")
    return traded, symbol


@figure_function
def positioning(
    data: Rates,
    *,
    symbol: str | None = None,
    funding: Rates | None = None,
    change: str | pd.Timedelta = "1d",
    source: Source | None = None,
    ax: Axes | None = None,
    figsize: Size | None = None,
) -> Axes:
    """Draw long/short ratios of venues, their changes and, optionally, the funding rate.

    Parameters
    ----------
    data
        Table ``positioning_history`` of one kind, or its panel of ``long_short_ratio`` [1]; at most eight
        venues.
    symbol
        The symbol, if there are several.
    funding
        Table ``funding_history`` or its panel [bps/8h], whose median over venues is drawn. None omits it.
    change
        Length of time for the ratio's change in the data of the figure.
    source, ax, figsize
        As in every figure: see `derivdata.plot`.

    Returns
    -------
    Axes
        A lane per venue, with a logarithmic scale on which 2 is as far from 1 as ½; below them, the funding
        rate. Labels and title have the latest ratio.

    Raises
    ------
    ValueError
        The symbol is not in the data, there are more than eight venues, no ratio is above 0, or `change` is
        shorter than a step.
    """
    ratios, symbol = style.one_symbol(style.panel_of(data, "long_short_ratio"), symbol)
    ratios = ratios.where((ratios > 0.0) & np.isfinite(ratios))
    ratios = ratios.dropna("exchange", how="all").dropna("time", how="all")
    venues = [str(name) for name in ratios["exchange"].values]
    if not 0 < len(venues) <= _MAX_VENUES:
        fix = f"select 1 to {_MAX_VENUES} with venues= of the fetcher or data[data['exchange'].isin([...])]"
        raise ValueError(f"data has {len(venues)} venues with a ratio: {fix}")
    length, _ = _length(change, ratios["time"].values, "change")
    ratio: pd.DataFrame = ratios.transpose("time", "exchange").to_pandas()
    moved = ratio / ratio.reindex(ratio.index - length).to_numpy() - 1.0
    rate = None if funding is None else _rates_of(funding, symbol)
    count = len(venues)
    size = (8.0, lane_height(count) + (1.0 if rate is not None else 0.0))
    heights = [0.7 * max(count, 2), 1.0] if rate is not None else [1.0]
    upper, *others = (
        style.strips(ax, *heights, size=size, gap=0.06) if rate is not None else [style.axes(ax, size=size)]
    )
    latest = ratio.ffill().iloc[-1]
    labels = [f"{venue} {latest[venue]:.2f}" for venue in venues]
    logs, averaged = _thinned(np.log(ratio), upper)
    limits = lane_limits(logs.to_numpy(dtype=np.float64), min_range=0.1, base=0.0)
    marks = {0.0: "1", **_ratio_marks(limits)}
    draw_lanes(upper, logs, labels, [limits] * count, base=0.0, marks=marks, signed=False)
    title = f"{symbol}: {_balance(latest, _is_of_positions(data))} (latest)"
    key = "labels: latest ratio"
    if averaged:
        key += f"; {averaged}"
    strip = [upper, *others]
    table = long_table(ratio, "time", "exchange", "long_short_ratio")
    table["change"] = table.set_index(["time", "exchange"]).index.map(moved.stack())
    if rate is not None:
        median = rate.median("exchange") if "exchange" in rate.dims else rate
        median = median.sel(time=slice(ratios["time"][0], ratios["time"][-1]))
        drawn, _ = _thinned(median.to_series().rename("rate").to_frame(), upper)
        strip[1].plot(drawn.index, drawn["rate"], color=style.ink(), lw=1.2)
        strip[1].axhline(0.0, color=GREY, lw=0.8)
        style.dress(strip[1], y="median\nfunding\n[bps / 8 h]", form="number")
        if "exchange" in rate.dims:
            key += f"; funding: median of {rate.sizes['exchange']} venues"
        strip[1].locator_params(axis="y", nbins=4)
        table["rate_bps_8h"] = table["time"].map(median.to_series())
    style.dress(upper, title=title, y="longs per short [log scale]", grid="x")
    style.note(upper, key)
    style.utc_axis(strip[-1])
    return finish(strip[0], table, data, funding, source=source, lowest=strip[-1])


def _rates_of(funding: Rates, symbol: str) -> xr.DataArray:
    """Return the funding rates of a symbol, from a table or a panel."""
    if isinstance(funding, pd.DataFrame):
        require_columns(funding, "funding", ("rate_bps_8h",), others=("symbol", "exchange", "time"))
    else:
        require_times(funding, "funding")
    rates: xr.DataArray
    rates, _ = style.one_symbol(style.panel_of(funding, "rate_bps_8h"), symbol)
    return rates


def _is_of_positions(data: Rates) -> bool:
    """Return whether ratios are of the sizes of positions; False for a panel, which does not state it."""
    if not isinstance(data, pd.DataFrame) or "kind" not in data:
        return False
    return bool(data["kind"].astype(str).str.endswith("positions").any())


def _balance(latest: pd.Series, of_positions: bool = False) -> str:
    """Describe on how many venues accounts, or positions, are net long, and the furthest from balance."""
    count = len(latest)
    longer = int((latest > 1.0).sum())
    most = str(np.log(latest).abs().idxmax())
    if count == 1:
        longs = "accounts are long"
        if of_positions:
            longs = "longs"
        return f"{latest.iloc[0]:.2f} {longs} per short on {most}"
    where = f"{longer} of {count} venues"
    if longer == count:
        where = f"all {count} venues"
    if longer == 0:
        where = "no venue"
    longs = "more accounts are long than short"
    if of_positions:
        longs = "long positions are larger than short ones"
    return f"{longs} on {where}; {most} has {latest[most]:.2f} longs per short"


def _thinned(lines: pd.DataFrame, ax: Axes) -> tuple[pd.DataFrame, str]:
    """Return means over equal numbers of steps that fit the width of `ax`, and a text with their length."""
    count = style.every(ax, len(lines))
    if count < 2:
        return lines, ""
    groups = np.arange(len(lines)) // count
    means = lines.groupby(groups).mean().set_axis(lines.index[::count])
    return means, f"lines: means over {_written(means.index[1] - means.index[0])}"


def _ratio_marks(limits: tuple[float, float]) -> dict[float, str]:
    """Return a ratio to label, on the side of 1 with more space in the lanes, by its logarithm."""
    low, high = limits
    candidates = (1.2, 1.5, 2.0, 3.0, 5.0, 10.0, 20.0, 50.0)
    fitting = [value for value in candidates if np.log(value) <= 0.85 * max(high, -low)]
    if not fitting:
        return {}
    value = fitting[-1]
    if -low > high:
        value = 1.0 / value
    return {float(np.log(value)): style.number(value)}


def _length(text: str | pd.Timedelta, stamps: Array, name: str) -> tuple[pd.Timedelta, pd.Timedelta]:
    """Return a length of time and the step of the data; raise if the step is longer."""
    length = times.length(text, name)
    step = pd.Timedelta(0)
    if stamps.size > 1:
        step = pd.Timedelta(np.median(np.diff(stamps)))
    if not step:
        raise ValueError("data has one time: pass two or more")
    if length < step:
        raise ValueError(f"{name}={text!r} is shorter than the step of the data, {step}")
    return length, step


def _written(length: str | pd.Timedelta) -> str:
    hours = times.length(length, "change") / pd.Timedelta(1, "h")
    return f"{hours:g} h" if hours < 48 else f"{hours / 24:g} d"


@figure_function
def taker_volume(
    data: pd.DataFrame,
    *,
    symbol: str | None = None,
    window: str | pd.Timedelta = "1d",
    price: Rates | None = None,
    source: Source | None = None,
    ax: Axes | None = None,
    figsize: Size | None = None,
) -> Axes:
    """Draw the cumulative volume delta of takers by venue, and their imbalance.

    Parameters
    ----------
    data
        Table ``volume_taker``; at most eight venues.
    symbol
        The symbol, if there are several.
    window
        Length of time for the imbalance.
    price
        Prices [USD] with a dim ``time``, or the table ``prices_history``, whose median over venues is drawn.
        None omits it.
    source, ax, figsize
        As in every figure: see `derivdata.plot`.

    Returns
    -------
    Axes
        The upper axes of two or three strips: the cumulative volume delta of each venue from the first step
        on, and the imbalance of all venues together, over the `window` before the end of each step. A missing
        step of a venue is a gap.

    Raises
    ------
    ValueError
        The symbol is not in the data, there are more than eight venues, or `window` is shorter than a step.
    """
    buy, symbol = style.one_symbol(panel(data, "buy_usd"), symbol)
    sell, _ = style.one_symbol(panel(data, "sell_usd"), symbol)
    if buy.sizes["exchange"] > _MAX_VENUES:
        raise ValueError(f"data has {buy.sizes['exchange']} venues: select 1 to {_MAX_VENUES}")
    stamps = buy["time"].values
    length, step = _length(window, stamps, "window")
    delta: pd.DataFrame = taker.cumulative_delta(buy, sell).transpose("time", "exchange").to_pandas()
    if not np.isfinite(delta).to_numpy().any():
        raise ValueError(f"data must have buy_usd and sell_usd of {symbol}, got only missing values")
    steps = int(length / step)
    sums = []
    for side in (buy, sell):
        # All venues: a step without one of them is a gap, since the sum would drop.
        total = side.sum("exchange", skipna=False).rolling(time=steps).sum()
        sums.append(total.assign_attrs(units="USD"))
    recent = taker.imbalance(*sums).to_series()
    strip = style.strips(ax, *[2.2, 1.2, 1.2][: 2 + (price is not None)], size=(8.0, 6.0))
    ends = []
    every = style.every(strip[0], len(delta))
    for place, venue in enumerate(delta):
        look = style.look(place + 2)  # the first two colours are those of bought and sold
        line = _with_extremes(delta[venue] / _MILLION, every)
        strip[0].plot(line.index, line, lw=1.1, label=str(venue), **look)
        last = float(delta[venue].ffill().iloc[-1]) / _MILLION
        ends.append((last, f"{venue} {_signed(last)}", str(look["color"])))
    net = float(delta.ffill().iloc[-1].sum())
    if delta.shape[1] > 1:
        line = _with_extremes(delta.ffill().sum(axis=1) / _MILLION, every)
        strip[0].plot(line.index, line, lw=2.4, color=style.ink(), label="all venues")
        ends.append((net / _MILLION, f"all {_signed(net / _MILLION)}", style.ink()))
    strip[0].axhline(0.0, color=GREY, lw=0.8)
    title = f"{symbol}: {_balance_of_takers(delta, net)}{_main_venue(delta)}"
    style.dress(strip[0], title=title, y="bought − sold,\ncumulative\n[million USD]", form="number")
    style.label_ends(strip[0], ends)
    for color, is_side in ((LONG, recent >= 0.0), (SHORT, recent <= 0.0)):
        strip[1].fill_between(recent.index, recent, where=is_side, color=color, lw=0, interpolate=True)
    strip[1].axhline(0.0, color=GREY, lw=0.8)
    style.dress(strip[1], y=f"imbalance\nof {_written(window)} [%]", form="percent")
    table = long_table(delta, "time", "exchange", "delta_usd")
    table["imbalance"] = table["time"].map(recent)
    if price is not None:
        level = style.median_price(price, symbol).reindex(time=stamps)
        line = _with_extremes(level.to_series(), every)
        strip[2].plot(line.index, line, color=style.ink(), lw=1.2)
        style.dress(strip[2], y="price\n[USD]", form="number")
        table["price_usd"] = table["time"].map(level.to_series())
        strip[2].locator_params(axis="y", nbins=4)
    style.utc_axis(strip[-1], has_labels=True)
    return finish(strip[0], table, data, price, source=source, lowest=strip[-1])


def _with_extremes(line: pd.Series, every: int) -> pd.Series:
    """Return one of `every` points of a line: the lowest and highest of each bin, the last, and all gaps."""
    if every < 2:
        return line
    present = line.reset_index(drop=True).dropna()
    bins = present.groupby(present.index // (2 * every))
    places = {*bins.idxmin(), *bins.idxmax(), *np.flatnonzero(line.isna()), len(line) - 1}
    return line.iloc[sorted(places)]


def _balance_of_takers(delta: pd.DataFrame, net: float) -> str:
    """Describe the sum of all venues [USD] over the time of the cumulative volumes."""
    span = f"in {style.span_words(style.days_between(delta.index))}"
    if not net:
        return f"takers bought as much as they sold {span}"
    did, less = ("bought", "sold") if net > 0 else ("sold", "bought")
    return f"takers {did} {style.number(abs(net) / _MILLION)} million USD more than they {less} {span}"


def _signed(value: float) -> str:
    if abs(value) < 10.0:
        return f"{value:+.2g}"
    return f"{value:+,.0f}"


def _main_venue(delta: pd.DataFrame) -> str:
    """Return the share of the venue with the largest sum, if all venues have sums of one sign, not all 0."""
    sums = delta.ffill().iloc[-1]
    if len(sums) < 2 or not sums.any() or abs(sums.sum()) < sums.abs().sum():
        return ""
    share = sums / sums.sum()
    return f", {style.share(float(share.max()))} of it on {share.idxmax()}"
