"""Figure of volatility along expiries: at the money, model-free, and forward."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from derivdata.analysis import surface, variance
from derivdata.plot._decorator import figure_function
from derivdata.plot.fits import days, fit_of, fitted, name_of, single
from derivdata.plot.style import GREY, PALETTE, axes, day_axis, dress, footer, legend, mark_clipped, percent

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["term_structure"]

_INDEX_DAYS = 30.0


@figure_function
def term_structure(data: Any, *, source: Any = None, ax: Axes | None = None) -> Axes:
    """Draw volatility by expiry: at the forward, model-free with its bounds, and between expiries.

    Parameters
    ----------
    data
        A fit of ``dd.analysis.surface``, or the table ``options_snapshot`` or a surface of
        ``dd.options.surface``, to which a surface is fitted first.
    source, ax
        As in every figure: see `derivdata.plot`.

    Returns
    -------
    Axes
        The bars of the model-free volatility reach from what the quotes alone price to the most that
        prices beyond the last quotes can hold; an arrowhead marks those that end above the axes.
        Steps are the volatility between two expiries, missing where total variance falls. A diamond is
        the 30-day index, where two expiries lie around it.

    Raises
    ------
    ValueError
        Several surfaces, or no expiry with a fit.
    """
    fit = fitted(single(fit_of(data), "a term structure"))
    term = surface.term_structure(fit)
    free = variance.model_free(fit, method="smile")
    ax = axes(ax)
    tenors = days(fit)
    middle = np.asarray(term["atmf"])
    starts = np.r_[tenors[0] / 1.3, tenors[:-1]]
    vol = np.asarray(term["forward_vol"])
    ax.hlines(vol, starts, tenors, color=GREY, lw=1.6, label="forward, from one\nexpiry to the next")
    _free(ax, free, tenors)
    ax.plot(tenors, middle, "o-", ms=4.5, lw=1.5, color=PALETTE[0], label="at the forward")
    _index(ax, free)
    shown = np.concatenate([middle, np.asarray(free["vol"]), np.asarray(term["forward_vol"])])
    low, high = np.nanmin(shown), np.nanmax(shown)
    margin = max(0.25 * (high - low), 0.01)
    ax.set_ylim(low - margin, high + 1.5 * margin)
    upper = np.sqrt(np.asarray(free["upper"]) / np.asarray(free["year_fraction"]))
    mark_clipped(ax, tenors * 1.02, upper, color=PALETTE[1])
    known = np.flatnonzero(np.isfinite(middle))
    ends = [f"{100 * middle[place]:.1f} % in {tenors[place]:.1f} days" for place in known[[0, -1]]]
    dress(ax, title=f"{name_of(fit)}: ATM volatility {' and '.join(dict.fromkeys(ends))}")
    day_axis(ax, tenors)
    percent(ax)
    ax.set_ylabel("volatility [% per √year]")
    legend(ax, "right")
    footer(ax, data, source=source)
    return ax


def _free(ax: Axes, free: xr.Dataset, tenors: Any) -> None:
    t = np.asarray(free["year_fraction"])
    vol = np.asarray(free["vol"])
    low, high = (np.sqrt(np.asarray(free[end]) / t) for end in ("lower", "upper"))
    reach = np.abs(np.vstack([vol - low, high - vol]))
    look: dict[str, Any] = {"fmt": "s", "ms": 4, "lw": 1.0, "capsize": 2.5, "color": PALETTE[1]}
    ax.errorbar(tenors * 1.02, vol, yerr=reach, label="model-free,\nwith bounds", **look)


def _index(ax: Axes, free: xr.Dataset) -> None:
    if free.sizes["expiry"] < 2:
        return
    level = float(variance.volatility_index(free, days=_INDEX_DAYS)["index_pct"]) / 100
    if np.isfinite(level):
        label = f"30-day index:\n{100 * level:.2f} %"
        ax.plot(_INDEX_DAYS, level, "D", ms=7, mfc="none", mec=PALETTE[2], mew=1.6, label=label)
