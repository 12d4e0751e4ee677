"""Figures of who is positioned how, and of what takers do."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from derivdata.analysis import taker
from derivdata.analysis.ranking import percentile
from derivdata.plot import style
from derivdata.plot.frames import Rates, Size, Source, figure_function, finish, long_table
from derivdata.plot.lanes import draw_lanes, lane_height, lane_limits
from derivdata.plot.style import GREY, PALETTE
from derivdata.support import times
from derivdata.support.arrays import Array
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
