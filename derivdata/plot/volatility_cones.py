"""Figure of realised volatility by length of window, with what options imply beside it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import xarray as xr

from derivdata.analysis.inputs import require_variables
from derivdata.plot._decorator import figure_function
from derivdata.plot.frames import keep_frame
from derivdata.plot.style import GREY, PALETTE, axes, dress, footer, legend, percent

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["volatility_cone"]


@figure_function
def volatility_cone(
    cone: xr.Dataset,
    *,
    bar_days: float = 1.0,
    implied: Mapping[float, float] | None = None,
    source: Any = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw how volatility over each length of window was distributed, where it is, and what is implied.

    Parameters
    ----------
    cone
        What ``dd.analysis.volatility.cone`` gave, of one symbol and venue.
    bar_days
        Length of its bars [days].
    implied
        Implied volatility [1/√year] by days to expiry.
    source, ax
        As in every figure: see `derivdata.plot`.

    Returns
    -------
    Axes
        Shaded between the outermost quantiles and, darker, between the next ones where there are four or
        more; a line for the middle one; dots for the latest window, diamonds for implied volatility.

    Raises
    ------
    ValueError
        Several symbols or venues.
    """
    require_variables(cone, "cone", ("volatility", "latest", "window"), dims=("window", "quantile"))
    volatility = cone["volatility"].squeeze(drop=True)
    if "window" not in volatility.dims:
        volatility = volatility.expand_dims("window")
    if set(volatility.dims) - {"window", "quantile"}:
        raise ValueError(f"cone has dims {cone['volatility'].dims}: select one symbol and venue")
    values = volatility.transpose("quantile", "window").to_numpy()
    quantiles = cone["quantile"].to_numpy()
    days = cone["window"].to_numpy() * bar_days
    ax = axes(ax)
    for inner in range(min(2, len(quantiles) // 2)):
        low, high = quantiles[inner], quantiles[-1 - inner]
        label = f"{100 * low:g} to {100 * high:g} % of windows"
        ax.fill_between(
            days,
            values[inner],
            values[-1 - inner],
            color=PALETTE[5],
            alpha=0.25 + 0.2 * inner,
            lw=0,
            label=label,
        )
    if len(quantiles) % 2:
        ax.plot(days, values[len(quantiles) // 2], color=GREY, lw=1.6, label="median")
    latest = np.atleast_1d(cone["latest"].squeeze(drop=True).to_numpy())
    ax.plot(days, latest, "o", color=PALETTE[0], mec="white", ms=6, label="latest window")
    if implied:
        ax.plot(
            list(implied), list(implied.values()), "D", color=PALETTE[1], mec="white", ms=7, label="implied"
        )
    middle = len(days) // 2
    words = _rank(latest[middle], values[:, middle], quantiles)
    dress(ax, title=f"{days[middle]:g}-day realised volatility {100 * latest[middle]:.1f} %, {words}")
    ax.set_xlabel("window, time to expiry [days]")
    ax.set_ylabel("volatility [% per √year]")
    percent(ax)
    legend(ax, "right")
    footer(ax, cone, source=source)
    table = pd.DataFrame(values.T, columns=[f"quantile_{100 * q:g}" for q in quantiles])
    return keep_frame(ax, pd.concat([pd.DataFrame({"days": days}), table.assign(latest=latest)], axis=1))


def _rank(value: float, levels: np.ndarray[Any, Any], quantiles: np.ndarray[Any, Any]) -> str:
    """Describe where a value lies among quantiles; below the lowest it lies below the rest."""
    if value < levels[0]:
        return f"below {100 * (1.0 - quantiles[0]):.0f} % of its past"
    rank = np.interp(value, levels, quantiles)
    return f"above {100 * rank:.0f} % of its past" if np.isfinite(rank) else "not known"
