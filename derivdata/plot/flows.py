"""Figures of positioning, taker volume and option trades, and of deliveries against implied densities."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import xarray as xr

from derivdata.analysis import delivery, option_trades, taker
from derivdata.analysis.align import percentile
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
from derivdata.support.times import TimeLike
from derivdata.tables.frames import require_columns
from derivdata.tables.panels import panel

if TYPE_CHECKING:
    from matplotlib.axes import Axes


_MAX_VENUES = 8
_MILLION = 1e6
_POINTS = 180
"""Maximum number of points of a line: more look like a band on a narrow screen."""
_LINE = 12.0
"""Height of a line of a lane's label [points]."""


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
        rate. Labels have the newest ratio and, if the lanes are high enough, its percentile among earlier
        ratios. The title states the rank correlation of the median ratio and the funding rate.

    Raises
    ------
    ValueError
        The symbol is not in the data, there are more than eight venues, no ratio is above 0, or `change` is
        shorter than a step.
    """
    ratios, symbol = style.one_symbol(style.panel_of(data, "long_short_ratio"), symbol)
    ratios = ratios.where(ratios > 0.0).dropna("exchange", how="all").dropna("time", how="all")
    venues = [str(name) for name in ratios["exchange"].values]
    if not 0 < len(venues) <= _MAX_VENUES:
        fix = f"select 1 to {_MAX_VENUES} with venues= of the fetcher or data[data['exchange'].isin([...])]"
        raise ValueError(f"data has {len(venues)} venues with a ratio: {fix}")
    length, _ = _length(change, ratios["time"].values, "change")
    ratio: pd.DataFrame = ratios.transpose("time", "exchange").to_pandas()
    moved = ratio / ratio.reindex(ratio.index - length).to_numpy() - 1.0
    rate = None if funding is None else style.one_symbol(style.panel_of(funding, "rate_bps_8h"), symbol)[0]
    places = percentile(ratios, rows=max(ratios.sizes["time"] - 1, 2), min_rows=2)
    count = len(venues)
    size = (8.0, lane_height(count) + (1.0 if rate is not None else 0.0))
    heights = [0.7 * max(count, 2), 1.0] if rate is not None else [1.0]
    upper, *others = (
        style.strips(ax, *heights, size=size, gap=0.06) if rate is not None else [style.axes(ax, size=size)]
    )
    lines = int(style.height_of(upper) / count / _LINE)  # that fit into a lane
    labels = []
    for venue in venues:
        history = ratios.sel(exchange=venue).dropna("time")
        rank = float(places.sel(exchange=venue, time=history["time"][-1]))
        words = [f"{venue} {float(history[-1]):.2f}"]
        if not np.isnan(rank):
            words.append(f"percentile {100 * rank:.0f}")
        labels.append("\n".join(words[: 1 + (lines > 1)]))
    logs, averaged = _thinned(np.log(ratio))
    limits = lane_limits(logs.to_numpy(dtype=np.float64), min_range=0.1, base=0.0)
    marks = {0.0: "1", **_ratio_marks(limits)}
    draw_lanes(upper, logs, labels, limits, base=0.0, marks=marks, signed=False)
    newest = ratio.ffill().iloc[-1]
    most = str(np.log(newest).abs().idxmax())
    title = f"{symbol}: furthest from balance on {most}, {newest[most]:.2f} longs per short"
    key = [averaged] if averaged else []
    if lines > 1:
        key.append("percentile: of the newest ratio among earlier ones")
    strip = [upper, *others]
    table = long_table(ratio, "time", "exchange", "long_short_ratio")
    table["change"] = table.set_index(["time", "exchange"]).index.map(moved.stack())
    if rate is not None:
        median = rate.median("exchange") if "exchange" in rate.dims else rate
        median = median.sel(time=slice(ratios["time"][0], ratios["time"][-1]))
        drawn, _ = _thinned(median.to_series().rename("rate").to_frame())
        strip[1].plot(drawn.index, drawn["rate"], color=style.ink(), lw=1.2)
        strip[1].axhline(0.0, color=GREY, lw=0.8)
        both = pd.concat([ratio.median(axis=1), median.to_series().reindex(ratio.index)], axis=1).dropna()
        if (both.nunique() > 1).all():
            joint = both.corr(method="spearman").iloc[0, 1]
            more = "more" if joint >= 0.0 else "fewer"
            title = (
                f"{symbol}: {more} accounts are long while funding is high (rank correlation {joint:+.2f})"
            )
            key.append("correlation: of the venues' medians")
        style.dress(strip[1], y="funding\n[bps / 8 h]", form="number")
        table["rate_bps_8h"] = table["time"].map(median.to_series())
    style.dress(upper, title=title, y="longs per short [log scale]", grid="x")
    style.note(upper, "; ".join(key))
    style.utc_axis(strip[-1])
    return finish(strip[0], table, data, funding, source=source, lowest=strip[-1])


def _thinned(lines: pd.DataFrame) -> tuple[pd.DataFrame, str]:
    """Return at most `_POINTS` means over equal numbers of steps, and a text with their length."""
    count = int(np.ceil(len(lines) / _POINTS))
    if count < 2:
        return lines, ""
    groups = np.arange(len(lines)) // count
    means = lines.groupby(groups).mean().set_axis(lines.index[::count])
    return means, f"means over {_written(means.index[1] - means.index[0])}"


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


def _written_span(time: pd.Series) -> str:
    """Format the length of the data: ``24 hours``, ``30 days``."""
    hours = (time.max() - time.min()) / pd.Timedelta(1, "h")
    if hours < 48.0:
        return f"{hours:.0f} hours"
    return f"{hours / 24.0:.0f} days"


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
    shown = delta.iloc[:: -int(np.ceil(len(delta) / _POINTS))].iloc[::-1]  # the last step is drawn
    for place, venue in enumerate(delta):
        look = style.look(place)
        strip[0].plot(shown.index, shown[venue] / _MILLION, lw=1.2, label=str(venue), **look)
        last = float(delta[venue].ffill().iloc[-1]) / _MILLION
        ends.append((last, f"{venue} {last:+.0f}", str(look["color"])))
    net = float(delta.ffill().iloc[-1].sum())
    if delta.shape[1] > 1:
        total = delta.ffill().sum(axis=1)[shown.index] / _MILLION
        strip[0].plot(total.index, total, lw=1.8, color=style.ink(), label="all venues")
        ends.append((net / _MILLION, f"all {net / _MILLION:+.0f}", style.ink()))
    strip[0].axhline(0.0, color=GREY, lw=0.8)
    did, less = ("bought", "sold") if net >= 0 else ("sold", "bought")
    title = f"{symbol}: takers {did} {style.number(abs(net) / _MILLION)} million USD more than they {less}"
    title += f" in {_written_span(delta.index.to_series())}"
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
        strip[2].plot(level["time"], level, color=style.ink(), lw=1.2)
        style.dress(strip[2], y="price\n[USD]", form="number")
        table["price_usd"] = table["time"].map(level.to_series())
    style.utc_axis(strip[-1])
    return finish(strip[0], table, data, price, source=source, lowest=strip[-1])


@figure_function
def option_flow(
    trades: pd.DataFrame,
    *,
    expiry: TimeLike | None = None,
    source: Source | None = None,
    ax: Axes | None = None,
    figsize: Size | None = None,
) -> Axes:
    """Draw options that takers bought minus those that they sold, by strike.

    Parameters
    ----------
    trades
        The table ``options_trades`` of one symbol; venues are summed.
    expiry
        The expiry; None sums all expiries.
    source, ax, figsize
        As in every figure: see `derivdata.plot`.

    Returns
    -------
    Axes
        Bought minus sold of calls and, below, of puts [coins], at one scale: upwards takers bought more,
        downwards they sold more.
        Blocks and legs of packages are not in the bars. ``dd.plot.data(ax)`` has both sides. The strikes with
        99.5 % of the total are shown, in bins if there are more than 45.

    Raises
    ------
    ValueError
        There are several symbols, the expiry has no trades, or no option was traded in the book.
    """
    require_columns(trades, "trades", others=("symbol", "exchange", "expiry"))
    if trades["symbol"].nunique() != 1:
        raise ValueError(f"trades must be of one symbol, got {trades['symbol'].nunique()}: select one")
    symbol = str(trades["symbol"].iloc[0])
    if expiry is not None:
        trades = trades[trades["expiry"] == listed_expiry(trades["expiry"].unique(), expiry)]
    rows = trades.drop(columns="exchange")
    sums = option_trades.flow(rows, by=("strike", "side"))
    flows = sums.reset_coords(drop=True).to_dataframe().reset_index().fillna({"bought": 0.0, "sold": 0.0})
    totals = (flows["bought"] + flows["sold"]).groupby(flows["strike"]).sum()
    if not totals.sum() > 0:
        raise ValueError("trades: no option was traded in the book")
    middles, binned = strike_bins(totals)
    flows["strike"] = flows["strike"].map(middles)
    table = flows.groupby(["strike", "side"], as_index=False)[["bought", "sold", "net"]].sum()
    wide = table.pivot(index="strike", columns="side", values="net").fillna(0.0)
    # A strip for calls and one for puts: a stack of purchases and sales would have no meaning.
    upper, lower = style.strips(ax, 1.0, 1.0, size=(8.0, 5.0), gap=0.07)
    width = bar_width(wide.index.to_numpy())
    nets = {}
    for strip, side, color in ((upper, "call", LONG), (lower, "put", SHORT)):
        coins = wide.get(side, pd.Series(0.0, wide.index)).to_numpy()
        nets[side] = float(coins.sum())
        style.bars(strip, wide.index, coins, width, color=color)
        strike_axis(strip, totals, float(trades["index_price_usd"].median()))
        strip.axhline(0, color=GREY, lw=0.8)
        style.dress(strip, y=f"{side}s\n[{symbol}]", form="number")
    low, high = lower.get_xlim()
    lower.set_xlim(min(low, wide.index[0] - width), max(high, wide.index[-1] + width))
    minimum = min(float(wide.to_numpy().min()), 0.0)
    most = max(float(wide.to_numpy().max()), 0.0)
    margin = 0.06 * (most - minimum)
    for strip in (upper, lower):
        strip.set_ylim(minimum - margin, most + margin)  # A common scale makes calls and puts comparable.
    name = symbol
    if trades["exchange"].nunique() == 1:
        name += f" on {trades['exchange'].iloc[0]}"
    title = f"{name}: takers {_net_words(nets, symbol)} in {_written_span(trades['time'])}"
    style.dress(upper, title=title)
    style.legend(upper, "above")
    lower.set_xlabel(f"strike [USD{binned}], 99.5 % shown")
    return finish(upper, table, trades, source=source, lowest=lower)


def _net_words(nets: dict[str, float], symbol: str) -> str:
    """Describe the net flow of calls and puts: ``bought 4 BTC of calls more than they sold, …``."""
    words = {side: f"{abs(net):,.0f} {symbol} of {side}s" for side, net in nets.items()}
    if nets["call"] * nets["put"] >= 0.0:
        did, less = ("bought", "sold") if sum(nets.values()) >= 0.0 else ("sold", "bought")
        return f"{did} {words['call']} and {words['put']} more than they {less}"
    up, down = ("call", "put") if nets["call"] > 0.0 else ("put", "call")
    return f"bought {words[up]} more than they sold, and sold {words[down]} more than they bought,"


@figure_function
def calibration(
    probability: xr.DataArray,
    *,
    source: Source | None = None,
    ax: Axes | None = None,
    figsize: Size | None = None,
) -> Axes:
    """Draw the number of deliveries in each decile of the densities that options implied before.

    Parameters
    ----------
    probability
        Result of ``dd.analysis.delivery.probabilities``, of any dims.
    source, ax, figsize
        As in every figure: see `derivdata.plot`.

    Returns
    -------
    Axes
        A bar for each decile. The line is a tenth of the deliveries, the expected number if the densities are
        right; the band is its 90 % interval for independent deliveries.

    Raises
    ------
    ValueError
        There is no probability.
    """
    from scipy.stats import binom  # slow to import, and needed only here

    result = delivery.calibration(probability)
    count = int(result["count"])
    if not count:
        raise ValueError("probability has no finite value: no delivery has an earlier density")
    values = probability.to_numpy()
    counts, edges = np.histogram(values[np.isfinite(values)], np.linspace(0.0, 1.0, 11))
    ax = style.axes(ax)
    ax.bar(10 * edges[:-1] + 0.5, counts, 0.9, color=PALETTE[0])
    low, high = (float(binom.ppf(quantile, count, 0.1)) for quantile in (0.05, 0.95))
    ax.axhspan(low, high, color=GREY, alpha=0.2, lw=0, label="90 % interval if calibrated")
    ax.axhline(count / 10, color=GREY, lw=1.0, ls="--", label="expected")
    ax.set_xlim(0, 10)
    ax.locator_params(axis="y", integer=True)
    inside = 100 * float(result["inside"].sel(interval=0.8))
    chance = f"test of uniformity p = {float(result['p_value']):.2g}"
    title = f"{inside:.0f} % of {count} deliveries in the central 80 %; {chance}"
    place = "place in the distribution [tenths, from the lowest prices]"
    style.dress(ax, title=title, x=place, y="deliveries [1]", form="number")
    style.legend(ax, "above")
    table = pd.DataFrame({"probability": edges[:-1], "deliveries": counts})
    return finish(ax, table, probability, source=source)
