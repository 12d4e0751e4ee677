"""Figures of order books: what can be traded within a distance of the mid price."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from derivdata.plot._decorator import figure_function
from derivdata.plot.frames import keep_frame
from derivdata.plot.style import GREY, LONG, SEQUENTIAL, SHORT, axes, dress, footer, legend, number, utc_axis
from derivdata.tables.required import require_columns, require_instants
from derivdata.units import BPS

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["orderbook_depth"]


@figure_function
def orderbook_depth(data: pd.DataFrame, *, source: Any = None, ax: Axes | None = None) -> Axes:
    """Draw the value bid and offered by distance from the mid price, of one book or over time.

    Parameters
    ----------
    data
        Table ``orderbook_book`` or ``orderbook_depth_history`` of one symbol on one venue.
    source, ax
        As in every figure: see `derivdata.plot`.

    Returns
    -------
    Axes
        Of a book: cumulative value [USD] by distance from mid [bps], bids to the left. Of a history: depth
        within each distance over time, asks above the line and bids below it.

    Raises
    ------
    ValueError
        `data` is neither table, is empty, is of several books, or a book lacks one of its sides.
    """
    if data.empty:
        raise ValueError("the table is empty: there is no book to draw")
    require_columns(data, "data", others=("symbol", "exchange", "time"))
    require_instants(data, "data", ["time"])
    of_one = data.groupby(["symbol", "exchange"], observed=True).ngroups == 1
    if not of_one:
        raise ValueError("the table holds several books: choose one symbol and one venue")
    ax = axes(ax)
    name = f"{data['symbol'].iloc[0]} on {data['exchange'].iloc[0]}"
    if "depth_bps" in data:
        table = _history(ax, data, name)
    elif "level" in data:
        table = _book(ax, data, name)
    else:
        raise ValueError("give the table of dd.orderbook.book or dd.orderbook.depth_history")
    footer(ax, data, source=source)
    return keep_frame(ax, table)


def _book(ax: Axes, data: pd.DataFrame, name: str) -> pd.DataFrame:
    if data["time"].nunique() > 1:
        raise ValueError("the table holds several books: choose one instant")
    sides = {str(side): rows.sort_values("level") for side, rows in data.groupby("side", observed=True)}
    if set(sides) != {"bid", "ask"}:
        raise ValueError(f"a book has bids and asks; this one has {', '.join(sides)}")
    best = {side: float(rows["price_usd"].iloc[0]) for side, rows in sides.items()}
    mid = (best["bid"] + best["ask"]) / 2
    tables = []
    for side, color in (("bid", LONG), ("ask", SHORT)):
        rows = sides[side]
        away = BPS * (rows["price_usd"] / mid - 1.0)
        depth = (rows["price_usd"] * rows["size"]).cumsum() / 1e6
        label = f"{side}s: {number(depth.iloc[-1])} M USD"
        tables.append(pd.DataFrame({"side": side, "distance_bps": away, "cumulative_usd": 1e6 * depth}))
        ax.step(np.r_[away.iloc[0], away], np.r_[0.0, depth], where="post", color=color, lw=1.5, label=label)
    ax.axvline(0, color=GREY, lw=0.8)
    spread = BPS * (best["ask"] - best["bid"]) / mid
    dress(ax, title=f"{name}: mid price {number(mid)} USD, spread {spread:.2g} bps")
    ax.set(
        xlabel="distance from the mid price [bps]", ylabel="cumulative value [million USD]", ylim=(0, None)
    )
    legend(ax)
    return pd.concat(tables, ignore_index=True)


def _history(ax: Axes, data: pd.DataFrame, name: str) -> pd.DataFrame:
    from matplotlib import colormaps

    distances = sorted(data["depth_bps"].unique())
    for place, distance in enumerate(distances):
        rows = data[data["depth_bps"] == distance].sort_values("time")
        times = rows["time"].dt.tz_convert("UTC").dt.tz_localize(None)
        color = colormaps[SEQUENTIAL](0.25 + 0.62 * place / max(len(distances) - 1, 1))
        ax.plot(times, rows["ask_depth_usd"] / 1e6, color=color, lw=1.2, label=f"{distance:g} bps")
        ax.plot(times, -rows["bid_depth_usd"] / 1e6, color=color, lw=1.2)
    ax.axhline(0, color=GREY, lw=0.8)
    ax.yaxis.set_major_formatter(lambda value, _: number(abs(value)))
    near = data[data["depth_bps"] == distances[0]].sort_values("time")
    both = (near["bid_depth_usd"] + near["ask_depth_usd"]) / 1e6
    now, low, high = (number(float(value)) for value in (both.iloc[-1], both.min(), both.max()))
    words = f"{now} M USD within {distances[0]:g} bps, {low} to {high} over the window"
    dress(ax, title=f"{name}: {words}")
    ax.set_ylabel("bids (down) and asks (up) [million USD]")
    legend(ax, "right", title="within", reverse=True)
    utc_axis(ax)
    return data[["time", "depth_bps", "bid_depth_usd", "ask_depth_usd"]]
