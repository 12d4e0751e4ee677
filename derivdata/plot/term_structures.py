"""Figure of volatility along expiries: at the money, a day before, forward, and model-free."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import xarray as xr

from derivdata.analysis import surface, variance
from derivdata.plot.fits import (
    at_the_money,
    days,
    expiry_axis,
    fit_of,
    fitted,
    is_fit,
    name_of,
    single,
)
from derivdata.plot.frames import Chain, Source, figure_function, keep_frame
from derivdata.plot.style import GREY, PALETTE, dress, footer, legend, mark_clipped, percent, strips
from derivdata.tables.required import require_columns, require_instants

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_INDEX_DAYS = 30.0


@figure_function
def term_structure(
    data: Chain, *, before: Chain | None = None, source: Source | None = None, ax: Axes | None = None
) -> Axes:
    """Draw volatility by expiry: at the forward now and before, between expiries, and model-free.

    Parameters
    ----------
    data
        A fit of ``dd.analysis.surface``, or the table ``options_snapshot`` or a surface of
        ``dd.options.surface``, to which a surface is fitted first.
    before
        At-the-money volatility of an earlier instant, drawn at the same expiries: a fit, or rows of one
        instant of the table ``options_atm_history``.
    source, ax
        As in every figure: see `derivdata.plot`.

    Returns
    -------
    Axes
        That of volatility at the forward, with steps for the volatility between two expiries, missing where
        total variance falls. Below it stands model-free volatility, of the strip of quotes where the fit
        carries one: its bars reach from what the quotes alone price to the most that prices beyond the last
        quotes can hold; an arrowhead marks those that
        end above the axes. A diamond is the 30-day index, where two expiries lie around it.

    Raises
    ------
    ValueError
        Several surfaces, or no expiry with a fit; `before` is of several instants.
    """
    fit = fitted(single(fit_of(data), "a term structure"))
    term = surface.term_structure(fit)
    free = variance.model_free(fit)
    upper, lower = strips(ax, 2.0, 1.3, size=(8.0, 5.5), gap=0.13)  # a legend stands between
    tenors = days(fit)
    middle, vol = np.asarray(term["atm"]), np.asarray(term["forward_vol"])
    starts = np.r_[tenors[0] / 1.3, tenors[:-1]]
    upper.hlines(vol, starts, tenors, color=GREY, lw=1.6, label="forward, from expiry to expiry")
    earlier = None if before is None else _before(before, fit)
    if earlier is not None:
        label = f"at the forward, {earlier.attrs['time']:%Y-%m-%d %H:%M}"
        upper.plot(earlier["days"], earlier["iv"], "o--", ms=3.5, lw=1.1, color=PALETTE[4], label=label)
    upper.plot(tenors, middle, "o-", ms=4.5, lw=1.5, color=PALETTE[0], label="at the forward")
    known = np.flatnonzero(np.isfinite(middle))
    dates = pd.DatetimeIndex(fit["expiry"].to_numpy())
    ends = [f"{100 * middle[place]:.1f} % on {dates[place]:%Y-%m-%d}" for place in known[[0, -1]]]
    bottom, top = upper.get_ylim()
    if top - bottom < 0.02:  # two points of volatility at least: no line is steep by rounding alone
        upper.set_ylim((bottom + top) / 2 - 0.01, (bottom + top) / 2 + 0.01)
    dress(upper, title=f"{name_of(fit)}: ATM volatility {' and '.join(dict.fromkeys(ends))}")
    percent(upper)
    upper.set_ylabel("volatility\n[% per √year]")
    legend(upper, "above")
    _free(lower, free, tenors)
    dress(lower)
    percent(lower)
    lower.set_ylabel("model-free\n[% per √year]")
    expiry_axis(lower, tenors, fit["expiry"])
    footer(lower, data, source=source)
    table = pd.DataFrame(
        {"expiry": fit["expiry"].to_numpy(), "days": tenors, "atm": middle, "forward_vol": vol}
    )
    if earlier is not None:
        table["atm_before"] = table["expiry"].map(earlier.set_index("expiry")["iv"])
    low, high = (np.sqrt(np.asarray(free[end]) / tenors * 365.0) for end in ("lower", "upper"))
    free_vol = np.asarray(free["vol"])
    return keep_frame(upper, table.assign(model_free=free_vol, model_free_low=low, model_free_high=high))


def _before(before: Chain, fit: xr.Dataset) -> pd.DataFrame:
    """Return earlier volatilities by expiry, at the days that are left now; what has expired is left out."""
    if isinstance(before, xr.Dataset) and is_fit(before):
        past = fitted(single(before, "before, a term structure,"))
        frame = pd.DataFrame({"expiry": past["expiry"].to_numpy(), "iv": np.asarray(at_the_money(past))})
        time = past["expiry"].to_numpy()[0] - pd.Timedelta(float(days(past)[0]), "D")
    else:
        if not isinstance(before, pd.DataFrame):
            kind = type(before).__name__
            raise TypeError(f"before must be a fit or rows of the table options_atm_history, not {kind}")
        require_columns(before, "before", ("iv",), others=("time", "expiry"))
        require_instants(before, "before", ["time", "expiry"])
        if before["time"].nunique() != 1:
            raise ValueError(f"before holds {before['time'].nunique()} instants: choose one")
        frame = before[["expiry", "iv"]].assign(expiry=before["expiry"].dt.tz_localize(None))
        time = before["time"].iloc[0]
    now = fit["expiry"].to_numpy()[0] - pd.Timedelta(float(days(fit)[0]), "D")
    frame["days"] = (frame["expiry"] - now) / pd.Timedelta(1, "D")
    frame = frame[frame["expiry"].isin(fit["expiry"].to_numpy())].sort_values("days", ignore_index=True)
    frame.attrs = {"time": pd.Timestamp(time).round("min")}
    return frame


def _free(ax: Axes, free: xr.Dataset, tenors: Any) -> None:
    """Draw model-free volatility with its bounds, and the index."""
    t = np.asarray(free["year_fraction"])
    vol = np.asarray(free["vol"])
    low, high = (np.sqrt(np.asarray(free[end]) / t) for end in ("lower", "upper"))
    reach = np.abs(np.vstack([vol - low, high - vol]))
    look: dict[str, Any] = {"fmt": "s", "ms": 4, "lw": 1.0, "capsize": 2.5, "color": PALETTE[1]}
    ax.errorbar(tenors, vol, yerr=reach, label="model-free, with its bounds", **look)
    if np.isfinite(vol).any():
        least, most = np.nanmin(vol), np.nanmax(vol)
        margin = max(0.4 * (most - least), 0.01)
        ax.set_ylim(least - margin, most + 1.5 * margin)
    mark_clipped(ax, tenors, high, color=PALETTE[1])
    mark_clipped(ax, tenors, low, color=PALETTE[1])
    if free.sizes["expiry"] >= 2:
        level = float(variance.volatility_index(free, horizon=f"{_INDEX_DAYS:g}d")["index"])
        if np.isfinite(level):
            kind = "strip index" if free.attrs["method"] == "strip" else "index"
            label = f"{_INDEX_DAYS:g}-day {kind}: {100 * level:.2f} %"
            ax.plot(_INDEX_DAYS, level, "D", ms=7, mfc="none", mec=PALETTE[2], mew=1.6, label=label)
    legend(ax, "above")
