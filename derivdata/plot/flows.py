"""Figures of flows: positioning, taker volume, option trades; and deliveries against implied densities."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import xarray as xr

from derivdata.analysis import delivery, option_trades, taker
from derivdata.analysis.ranking import percentile
from derivdata.plot import style
from derivdata.plot.fits import listed_expiry
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
)
from derivdata.plot.strike_bars import bar_width, strike_axis, strike_bins
from derivdata.plot.style import GREY, LONG, PALETTE, SHORT
from derivdata.support import times
from derivdata.support.arrays import Array
from derivdata.support.times import Instant
from derivdata.tables.panels import panel

if TYPE_CHECKING:
    from matplotlib.axes import Axes


_MOST = 8
_MILLION = 1e6


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
    """Draw longs against shorts of each venue: level, change and, next to them, the funding rate.

    Parameters
    ----------
    data
        Table ``positioning_history`` of one kind, or its panel of ``long_short_ratio`` [1]; eight venues at
        most.
    symbol
        Which symbol, where there are several.
    funding
        Table ``funding_history`` or its panel [bps/8h], whose venues' median is drawn. None leaves it out.
    change
        Length of time over which the ratio's change is taken.
    source, ax, figsize
        As in every figure: see `derivdata.plot`.

    Returns
    -------
    Axes
        A lane per venue, with a logarithmic scale on which 2 is as far from 1 as ½; below them, the funding
        rate if it is given. Labels have the newest ratio, its percentile among those before it in the data,
        and its change.

    Raises
    ------
    ValueError
        The symbol is not in the data, there are over eight venues, no ratio is above 0, or `change` is
        shorter than a step.
    """
    ratios, symbol = style.one_symbol(style.panel_of(data, "long_short_ratio"), symbol)
    ratios = ratios.where(ratios > 0.0).dropna("exchange", how="all").dropna("time", how="all")
    venues = [str(name) for name in ratios["exchange"].values]
    if not 0 < len(venues) <= _MOST:
        fix = f"choose one to {_MOST}, by venues= of the fetcher or data[data['exchange'].isin([...])]"
        raise ValueError(f"data has {len(venues)} venues with a ratio: {fix}")
    length, _ = _length(change, ratios["time"].values, "change")
    ratio: pd.DataFrame = ratios.transpose("time", "exchange").to_pandas()
    moved = ratio / ratio.reindex(ratio.index - length).to_numpy() - 1.0
    rate = None if funding is None else style.one_symbol(style.panel_of(funding, "rate_bps_8h"), symbol)[0]
    places = percentile(ratios, rows=max(ratios.sizes["time"] - 1, 2), min_rows=2)
    count = len(venues)
    size = (8.0, lane_height(count) + (1.0 if rate is not None else 0.0))
    heights = [0.52 * max(count, 2), 1.0] if rate is not None else [1.0]
    upper, *others = (
        style.strips(ax, *heights, size=size, gap=0.06) if rate is not None else [style.axes(ax, size=size)]
    )
    labels = []
    for venue in venues:
        known = ratios.sel(exchange=venue).dropna("time")
        above = float(places.sel(exchange=venue, time=known["time"][-1]))
        change_of = moved[venue].loc[known["time"].values[-1]]
        words = [f"{venue} {style.number(float(known[-1]))}"]
        words += [] if np.isnan(above) else [f"percentile {100 * above:.0f}"]
        words += [] if np.isnan(change_of) else [f"{100 * change_of:+.0f} % in {_written(change)}"]
        labels.append("\n".join(words))
    logs = np.log(ratio)
    limits = lane_limits(logs.to_numpy(dtype=np.float64), least=0.1, base=0.0)
    marks = {0.0: "1", **_ratio_mark(limits)}
    draw_lanes(upper, logs, labels, limits, base=0.0, marks=marks, signed=False)
    newest = ratio.ffill().iloc[-1]
    most = str(np.log(newest).abs().idxmax())
    title = f"{symbol}: on {most} {style.number(newest[most])} longs stand against one short"
    style.dress(upper, title=title, y="venue, latest long / short [1]", grid="x")
    strip = [upper, *others]
    table = long_table(ratio, "time", "exchange", "long_short_ratio")
    table["change"] = table.set_index(["time", "exchange"]).index.map(moved.stack())
    if rate is not None:
        middle = rate.median("exchange") if "exchange" in rate.dims else rate
        middle = middle.sel(time=slice(ratios["time"][0], ratios["time"][-1]))
        strip[1].plot(middle["time"], middle, color=PALETTE[0], lw=1.2)
        strip[1].axhline(0.0, color=GREY, lw=0.8)
        style.dress(strip[1], y="funding\n[bps per 8 h]", form="number")
        table["rate_bps_8h"] = table["time"].map(middle.to_series())
    style.utc_axis(strip[-1])
    return finish(strip[0], table, data, funding, source=source, lowest=strip[-1])


def _ratio_mark(limits: tuple[float, float]) -> dict[float, str]:
    """Return a ratio to label at the side of 1 that lanes reach further to, by its logarithm."""
    low, high = limits
    further = (1.2, 1.5, 2.0, 3.0, 5.0, 10.0, 20.0, 50.0)
    reach = high if high >= -low else -low
    fitting = [value for value in further if np.log(value) <= 0.98 * reach]
    if not fitting:
        return {}
    value = fitting[-1] if high >= -low else 1.0 / fitting[-1]
    return {float(np.log(value)): style.number(value)}


def _length(text: str | pd.Timedelta, stamps: Array, name: str) -> tuple[pd.Timedelta, pd.Timedelta]:
    """Return a length of time and the step of the data, which is at most as long."""
    length = times.length(text, name)
    step = pd.Timedelta(np.median(np.diff(stamps))) if stamps.size > 1 else pd.Timedelta(0)
    if not step or length < step:
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
    """Draw what takers bought less what they sold: added up, and next to all that they traded.

    Parameters
    ----------
    data
        Table ``volume_taker``; eight venues at most.
    symbol
        Which symbol, where there are several.
    window
        Length of time that the imbalance is of.
    price
        Prices [USD] with a dim ``time``, or the table ``prices_history``, whose venues' median is drawn. None
        leaves it out.
    source, ax, figsize
        As in every figure: see `derivdata.plot`.

    Returns
    -------
    Axes
        The upper ones of two or three strips: the cumulative volume delta of each venue from the first step
        on, and the imbalance of all of them together, over the `window` before each step's end. A step that a
        venue lacks is a gap.

    Raises
    ------
    ValueError
        The symbol is not in the data, there are over eight venues, or `window` is shorter than a step.
    """
    both = {side: style.one_symbol(panel(data, f"{side}_usd"), symbol) for side in ("buy", "sell")}
    (buy, symbol), (sell, _) = both["buy"], both["sell"]
    if buy.sizes["exchange"] > _MOST:
        raise ValueError(f"data has {buy.sizes['exchange']} venues: choose one to {_MOST}")
    stamps = buy["time"].values
    length, step = _length(window, stamps, "window")
    delta: pd.DataFrame = taker.cumulative_delta(buy, sell).transpose("time", "exchange").to_pandas()
    steps = int(length / step)
    sums = [side.sum("exchange", skipna=False).rolling(time=steps).sum() for side in (buy, sell)]
    recent = taker.imbalance(*(one.assign_attrs(units="USD") for one in sums)).to_series()
    strip = style.strips(ax, *[2.2, 1.2, 1.2][: 2 + (price is not None)], size=(8.0, 6.0))
    for place, venue in enumerate(delta):
        strip[0].plot(delta.index, delta[venue] / _MILLION, lw=1.3, label=str(venue), **style.look(place))
    strip[0].axhline(0.0, color=GREY, lw=0.8)
    net = delta.ffill().iloc[-1].sum()
    did = "bought" if net >= 0 else "sold"
    title = f"{symbol}: takers {did} {style.number(abs(net) / _MILLION)} million USD more than they "
    title += "sold" if net >= 0 else "bought"
    style.dress(strip[0], title=title, y="cumulative volume delta\n[million USD]", form="number")
    style.legend(strip[0], "above")
    strip[1].fill_between(recent.index, recent, color=PALETTE[0], alpha=0.5, lw=0)
    strip[1].axhline(0.0, color=GREY, lw=0.8)
    style.dress(strip[1], y=f"imbalance\nof {_written(window)} [%]", form="percent")
    table = long_table(delta, "time", "exchange", "delta_usd")
    table["imbalance"] = table["time"].map(recent)
    if price is not None:
        level = style.median_price(price, symbol).reindex(time=stamps)
        strip[2].plot(level["time"], level, color=PALETTE[2], lw=1.2)
        style.dress(strip[2], y="price\n[USD]", form="number")
        table["price_usd"] = table["time"].map(level.to_series())
    style.utc_axis(strip[-1])
    return finish(strip[0], table, data, price, source=source, lowest=strip[-1])


@figure_function
def option_flow(
    trades: pd.DataFrame,
    *,
    expiry: Instant | None = None,
    source: Source | None = None,
    ax: Axes | None = None,
    figsize: Size | None = None,
) -> Axes:
    """Draw what takers bought and sold of options, by strike.

    Parameters
    ----------
    trades
        The table ``options_trades`` of one symbol; venues are added up.
    expiry
        Which expiry; None adds all up.
    source, ax, figsize
        As in every figure: see `derivdata.plot`.

    Returns
    -------
    Axes
        Bought upwards, sold downwards [coins], calls and puts stacked; diamonds are what was bought less what
        was sold. Blocks and legs of packages are counted in the title alone. Strikes that hold 99.5 % of all,
        more than 45 of them added up in bins.

    Raises
    ------
    ValueError
        Several symbols, an expiry without a trade, or nothing was traded in the book.
    """
    if trades["symbol"].nunique() != 1:
        raise ValueError(f"trades has {trades['symbol'].nunique()} symbols: choose one")
    symbol = str(trades["symbol"].iloc[0])
    if expiry is not None:
        trades = trades[trades["expiry"] == listed_expiry(trades["expiry"].unique(), expiry)]
    rows = trades.drop(columns="exchange")
    sums = option_trades.flow(rows, by=("strike", "side"))
    found = sums.reset_coords(drop=True).to_dataframe().reset_index().fillna({"bought": 0.0, "sold": 0.0})
    totals = (found["bought"] + found["sold"]).groupby(found["strike"]).sum()
    if not totals.sum() > 0:
        raise ValueError("no option was traded in the book")
    middles, binned = strike_bins(totals)
    found["strike"] = found["strike"].map(middles)
    table = found.groupby(["strike", "side"], as_index=False)[["bought", "sold", "net"]].sum()
    wide = table.pivot(index="strike", columns="side", values=["bought", "sold"]).fillna(0.0)
    ax = style.axes(ax)
    ax.use_sticky_edges = False
    look = bar_width(wide.index[wide.sum(axis=1) > 0].to_numpy())
    for name, sign in (("bought", 1.0), ("sold", -1.0)):
        below = np.zeros(len(wide))
        for side, color in (("call", LONG), ("put", SHORT)):
            coins = wide[name].get(side, pd.Series(0.0, wide.index)).to_numpy()
            label = f"{side}s {name}: {style.number(float(coins.sum()))} {symbol}"
            shade = 0.9 if sign > 0 else 0.5
            ax.bar(wide.index, sign * coins, look, sign * below, color=color, alpha=shade, label=label)
            below += coins
    net = table.groupby("strike")["net"].sum()
    ax.plot(net.index, net, "D", ms=3.5, color=style.ink(), mec=style.paper(), mew=0.6, label="net")
    strike_axis(ax, totals, float(trades["index_price_usd"].median()))
    premium = float(sums["premium_usd"].sum()) / 1e6
    block = float(sums["block"].sum())
    spent = f"paid {style.number(premium)}" if premium > 0 else f"received {style.number(-premium)}"
    title = f"{symbol} options: takers {spent} million USD of premium"
    title += f"; {style.number(block)} {symbol} in blocks" if block > 0 else ""
    x = f"strike [USD{binned}], 99.5 % shown"
    y = f"sold (down), bought (up) [{symbol}]"
    style.dress(ax, title=title, x=x, y=y, form="size")
    ax.axhline(0, color=GREY, lw=0.8)
    style.legend(ax, "above")
    return finish(ax, table, trades, source=source)


@figure_function
def calibration(
    probability: xr.DataArray,
    *,
    source: Source | None = None,
    ax: Axes | None = None,
    figsize: Size | None = None,
) -> Axes:
    """Draw how often deliveries fell in each tenth of the densities that options implied before them.

    Parameters
    ----------
    probability
        Of ``dd.analysis.delivery.probabilities``, any dims.
    source, ax, figsize
        As in every figure: see `derivdata.plot`.

    Returns
    -------
    Axes
        A bar for each tenth; the line is a tenth of them, which each bar would hold if the densities were
        right, and the band 90 % of what chance then leaves, for independent deliveries.

    Raises
    ------
    ValueError
        There is no probability.
    """
    from scipy.stats import binom  # takes long to import, and this figure alone needs it

    held = delivery.calibration(probability)
    count = int(held["count"])
    if not count:
        raise ValueError("probability has no value: no delivery has a density before it")
    values = probability.to_numpy()
    counts, edges = np.histogram(values[np.isfinite(values)], np.linspace(0.0, 1.0, 11))
    ax = style.axes(ax)
    ax.bar(10 * edges[:-1] + 0.5, counts, 0.9, color=PALETTE[0])
    low, high = (float(binom.ppf(each, count, 0.1)) for each in (0.05, 0.95))
    ax.axhspan(low, high, color=GREY, alpha=0.2, lw=0, label="90 % of what chance gives")
    ax.axhline(count / 10, color=GREY, lw=1.0, ls="--", label="expected")
    ax.set_xlim(0, 10)
    ax.locator_params(axis="y", integer=True)
    inside = 100 * float(held["inside"].sel(interval=0.8))
    chance = f"test of uniformity p = {float(held['p_value']):.2g}"
    title = f"{inside:.0f} % of {count} deliveries in the central 80 %; {chance}"
    place = "place in the distribution [tenths, from the lowest prices]"
    style.dress(ax, title=title, x=place, y="deliveries [1]", form="number")
    style.legend(ax, "above")
    table = pd.DataFrame({"probability": edges[:-1], "deliveries": counts})
    return finish(ax, table, probability, source=source)
