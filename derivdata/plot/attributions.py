"""Figure of where the P&L of a position came from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import xarray as xr

from derivdata.analysis.inputs import require_variables
from derivdata.plot._decorator import figure_function
from derivdata.plot.frames import keep_frame
from derivdata.plot.style import GREY, LONG, SHORT, axes, dress, footer, number, row_size

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["pnl_attribution"]


@figure_function
def pnl_attribution(
    attribution: xr.Dataset,
    *,
    currency: Literal["usd", "coin"] = "usd",
    source: Any = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw what each term gave or took, one bar after another, up to the P&L of the position.

    Parameters
    ----------
    attribution
        What ``dd.analysis.position.attribution`` gave, of one pair of surfaces.
    currency
        Which of its two.
    source, ax
        As in every figure: see `derivdata.plot`.

    Returns
    -------
    Axes
        A bar per term, from where the terms before it ended; then the residual, grey, and the P&L.

    Raises
    ------
    ValueError
        Several pairs of surfaces, or a P&L that is NaN.
    """
    require_variables(
        attribution, "attribution", ("contribution", "residual", "pnl"), dims=("term", "currency")
    )
    part = attribution.sel(currency=currency)
    if part["contribution"].ndim != 1:
        raise ValueError(f"attribution has dims {part['contribution'].dims}: select one pair of surfaces")
    names = [*map(str, part["term"].to_numpy()), "residual"]
    steps = np.r_[part["contribution"].to_numpy(), float(part["residual"])]
    if not np.isfinite(steps).all():
        raise ValueError("attribution has a leg without a value at one of its ends: its P&L is NaN")
    ax = axes(ax, size=row_size(len(names) + 1, 0.3))
    place = np.arange(len(names) + 1)
    starts = np.r_[0.0, np.cumsum(steps)[:-1], 0.0]
    widths = np.r_[steps, float(part["pnl"])]
    colours = [LONG if width >= 0.0 else SHORT for width in widths]
    colours[-2] = GREY
    ax.barh(place, widths, left=starts, color=colours, height=0.62)
    ends = starts + widths
    ax.vlines(ends[:-2], place[:-2] - 0.31, place[1:-1] + 0.31, color=GREY, lw=0.7)
    span = float(np.ptp(np.r_[starts, ends])) or 1.0
    written = "{:,.0f}".format if span >= 1000.0 else number
    for at, (start, width) in enumerate(zip(starts, widths, strict=True)):
        edge = max(start, start + width)
        ax.text(edge + 0.012 * span, at, written(float(width)), va="center", fontsize=8)
    ax.set_yticks(place, [*names, "P&L"])
    ax.set_ylim(len(names) + 0.6, -0.6)
    ax.set_xlim(min(0.0, *starts, *ends) - 0.04 * span, max(0.0, *starts, *ends) + 0.14 * span)
    ax.axvline(0.0, color=GREY, lw=0.8)
    most = int(np.argmax(np.abs(steps)))
    total = f"{written(widths[-1])} {'USD' if currency == 'usd' else 'coins'}"
    dress(ax, title=f"P&L {total}; the largest term is {names[most]} ({written(steps[most])})", grid="x")
    ax.set_xlabel({"usd": "P&L [USD]", "coin": "P&L [coin]"}[currency])
    footer(ax, attribution, source=source)
    return keep_frame(ax, {"term": [*names, "P&L"], "start": starts, f"amount_{currency}": widths})
