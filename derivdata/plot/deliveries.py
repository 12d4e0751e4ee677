"""Figures of what was traded in options, and of where deliveries fell in the densities before them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import xarray as xr

from derivdata.analysis import delivery, option_trades
from derivdata.plot import style
from derivdata.plot.fits import listed_expiry
from derivdata.plot.frames import Size, Source, figure_function, finish
from derivdata.plot.strike_bars import bar_width, strike_axis, strike_bins
from derivdata.plot.style import GREY, LONG, PALETTE, SHORT
from derivdata.support.times import Instant

if TYPE_CHECKING:
    from matplotlib.axes import Axes


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
