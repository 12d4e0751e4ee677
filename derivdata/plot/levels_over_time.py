"""Figures of levels over time: open interest in USD and in coins, implied and realised volatility."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import xarray as xr

from derivdata.analysis import oi as analysis
from derivdata.plot._decorator import figure_function
from derivdata.plot.frames import keep_frame
from derivdata.plot.style import (
    PALETTE,
    axes,
    dress,
    footer,
    legend,
    number,
    one_symbol,
    panel_of,
    percent,
    strips,
    utc_axis,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["implied_and_realised", "oi_level"]

_BILLION = 1e9


@figure_function
def oi_level(
    data: Any, price: Any = None, *, symbol: str | None = None, source: Any = None, ax: Axes | None = None
) -> Axes:
    """Draw the open interest of all venues together, in USD and, with prices, in coins.

    Parameters
    ----------
    data
        Table ``oi_history`` or its panel of ``oi_usd`` [USD].
    price
        Prices [USD] with a dim ``time``, or the table ``prices_history``, whose venues' median is taken. None
        draws USD alone.
    symbol
        Which symbol, where there are several.
    source, ax
        As in every figure: see `derivdata.plot`.

    Returns
    -------
    Axes
        That of the open interest in USD; below it coins and the price. The sum is of venues that are present
        in 95 % of the window, and a gap where one of them is missing. Open interest in USD moves with the
        price though nobody trades; in coins it does not.

    Raises
    ------
    ValueError
        The symbol is not in the data, or no venue is present for long enough.
    """
    panel, symbol = one_symbol(panel_of(data, "oi_usd"), symbol)
    share = analysis.market_share(panel)
    present = share["exchange"].values[share.notnull().any("time").values]
    if not len(present):
        raise ValueError(f"no venue has open interest of {symbol} over most of the window")
    total = panel.sel(exchange=present).sum("exchange", min_count=len(present))
    lines = {"open interest\n[billion USD]": total / _BILLION}
    if price is not None:
        level = _level(price, symbol).reindex(time=panel["time"].values)
        lines |= {f"open interest\n[{symbol}]": total / level, "price\n[USD]": level}
    strip = strips(ax, *[2.0, 1.4, 1.4][: len(lines)], size=(8.0, 2.0 + 1.6 * len(lines)))
    for place, (one, (label, line)) in enumerate(zip(strip, lines.items(), strict=True)):
        one.plot(line["time"], line, color=PALETTE[place], lw=1.4)
        dress(one)
        one.set_ylabel(label)
        one.yaxis.set_major_formatter(lambda value, _: number(value))
    changes = [words for words in (_change(line) for line in lines.values()) if words]
    names = ("in USD", "in coins", "price")
    words = ", ".join(f"{name} {change}" for name, change in zip(names, changes, strict=False))
    of = f"{len(present)} venue{'s' if len(present) != 1 else ''}"
    dress(strip[0], title=f"{symbol}: open interest of {of}" + (f": {words}" if words else ""))
    utc_axis(strip[-1])
    footer(strip[-1], data, price, source=source)
    columns = dict(zip(("oi_usd", "oi_coins", "price_usd"), lines.values(), strict=False))
    table = pd.DataFrame({name: line.to_series() for name, line in columns.items()})
    table["oi_usd"] *= _BILLION
    return keep_frame(strip[0], table.rename_axis("time").reset_index())


@figure_function
def implied_and_realised(
    implied: xr.DataArray,
    realised: xr.DataArray,
    *,
    symbol: str = "",
    source: Any = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw implied and realised volatility over time, and what lies between them.

    Parameters
    ----------
    implied, realised
        Volatilities [1/√year] with a dim ``time`` alone; the realised one is labelled by its window's end.
    symbol
        Whose, for the title.
    source, ax
        As in every figure: see `derivdata.plot`.

    Returns
    -------
    Axes
        Both lines; shaded where implied lies above (options were expensive against the past) and below.

    Raises
    ------
    ValueError
        A line has another dim than ``time``, or no value.
    """
    for name, line in (("implied", implied), ("realised", realised)):
        if line.dims != ("time",) or not line.notnull().any():
            raise ValueError(f"{name} must have one dim, time, and a value")
    ax = axes(ax)
    above, below = xr.align(implied, realised, join="inner")
    times = above["time"].values
    for sign, color in ((1.0, PALETTE[0]), (-1.0, PALETTE[1])):
        where = (sign * (above - below)).values > 0
        ax.fill_between(times, above.values, below.values, where=where, color=color, alpha=0.18, lw=0)
    for name, line, color in (("implied", implied, PALETTE[0]), ("realised", realised, PALETTE[1])):
        last = float(line.dropna("time")[-1])
        ax.plot(line["time"].values, line.values, color=color, lw=1.5, label=f"{name}: {100 * last:.1f} %")
    apart = 100 * (above - below).mean().item() if times.size else np.nan
    words = f": implied {abs(apart):.1f} points {'above' if apart > 0 else 'below'} realised on average"
    dress(ax, title=f"{symbol or 'Volatility'}{words if np.isfinite(apart) else ': implied and realised'}")
    percent(ax)
    ax.set_ylabel("volatility [% per √year]")
    legend(ax)
    utc_axis(ax)
    footer(ax, implied, realised, source=source)
    table = pd.DataFrame({"implied": implied.to_series(), "realised": realised.to_series()})
    return keep_frame(ax, table.rename_axis("time").reset_index())


def _level(price: Any, symbol: str) -> xr.DataArray:
    """Return one price over time: the median of the venues."""
    level, _ = one_symbol(panel_of(price, "price_usd", name="price"), symbol)
    others = [dim for dim in level.dims if dim != "time"]
    middle: xr.DataArray = level.median(others) if others else level
    return middle


def _change(line: xr.DataArray) -> str:
    known = line.dropna("time")
    if known.sizes["time"] < 2 or not float(known[0]) > 0:
        return ""
    return f"{float(known[-1] / known[0] - 1.0):+.1%}".replace("%", " %")
