"""Figure along expiries: volatility at the money, before, forward and model-free; or the basis."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pandas as pd
import xarray as xr

from derivdata.analysis import surface, variance
from derivdata.analysis.inputs import require_variables
from derivdata.plot import style
from derivdata.plot.fits import (
    at_the_money,
    days,
    expiry_axis,
    fit_of,
    fitted,
    instant_of,
    is_fit,
    name_of,
    single,
)
from derivdata.plot.frames import Chain, Source, figure_function, finish, only_for
from derivdata.plot.style import GREY, PALETTE
from derivdata.tables.required import require_columns, require_instants

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_INDEX_DAYS = 30.0


@figure_function
def term_structure(
    data: Chain,
    kind: Literal["volatility", "basis"] = "volatility",
    *,
    before: Chain | None = None,
    source: Source | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw volatility by expiry, now and before, forward and model-free; or the basis that options imply.

    Parameters
    ----------
    data
        For ``"volatility"``: a fit of ``dd.analysis.surface``, or the table ``options_snapshot`` or a surface
        of ``dd.options.surface``, to which a surface is fitted first. For ``"basis"``: what
        ``dd.analysis.chain.basis`` gave, of one chain and with its spot.
    kind
        ``"volatility"``: at the forward, with steps for the volatility between two expiries, missing where
        total variance falls; below it model-free volatility, of the strip of quotes where the fit carries
        one, with bars from what the quotes alone price to the most that prices beyond the last quotes can
        hold. A diamond is the 30-day index, where two expiries lie around it.
        ``"basis"``: forward over spot as simple rate a year, with steps for the growth of the forward from
        one expiry to the next.
    before
        At-the-money volatility of an earlier instant, drawn at the same expiries: a fit, or rows of one
        instant of the table ``options_atm_history``.
    source, ax
        As in every figure: see `derivdata.plot`.

    Returns
    -------
    Axes
        Of volatility the upper ones. An arrowhead marks bars that end outside.

    Raises
    ------
    ValueError
        Several surfaces or chains, no expiry with a fit or a basis, or `before` of several instants.
    """
    only_for(kind, ("volatility",), before=before)
    if kind == "basis":
        return _basis(data, source, ax)
    fit = fitted(single(fit_of(data), "a term structure"))
    term, free = surface.term_structure(fit), variance.model_free(fit)
    upper, lower = style.strips(ax, 2.0, 1.3, size=(8.0, 5.5), gap=0.13)  # a legend stands between
    tenors, dates = days(fit), pd.DatetimeIndex(fit["expiry"].to_numpy())
    middle, vol = np.asarray(term["atm"]), np.asarray(term["forward_vol"])
    _steps(upper, tenors, vol)
    table = pd.DataFrame({"expiry": dates, "days": tenors, "atm": middle, "forward_vol": vol})
    if before is not None:
        past, when = _before(before, fit)
        label = f"at the forward, {when:%Y-%m-%d %H:%M}"
        upper.plot(past["days"], past["iv"], "o--", ms=3.5, lw=1.1, color=PALETTE[4], label=label)
        table["atm_before"] = table["expiry"].map(past.set_index("expiry")["iv"])
    upper.plot(tenors, middle, "o-", ms=4.5, lw=1.5, color=PALETTE[0], label="at the forward")
    known = np.flatnonzero(np.isfinite(middle))
    ends = [f"{100 * middle[place]:.1f} % on {dates[place]:%Y-%m-%d}" for place in known[[0, -1]]]
    bottom, top = upper.get_ylim()
    if top - bottom < 0.02:  # two points of volatility at least: no line is steep by rounding alone
        upper.set_ylim((bottom + top) / 2 - 0.01, (bottom + top) / 2 + 0.01)
    title = f"{name_of(fit)}: ATM volatility {' and '.join(dict.fromkeys(ends))}"
    style.dress(upper, title=title, y="volatility\n[% annualised]", form="percent")
    style.legend(upper, "above")
    low, high = (np.sqrt(np.asarray(free[end] / free["year_fraction"])) for end in ("lower", "upper"))
    _free(lower, free, tenors, low, high)
    style.dress(lower, y="model-free\n[% annualised]", form="percent")
    expiry_axis(lower, tenors, dates)
    table = table.assign(model_free=np.asarray(free["vol"]), model_free_low=low, model_free_high=high)
    return finish(upper, table, data, source=source, lowest=lower)


def _steps(ax: Axes, tenors: Any, levels: Any) -> None:
    starts = np.r_[tenors[0] / 1.3, tenors[:-1]]
    ax.hlines(levels, starts, tenors, color=GREY, lw=1.6, label="forward, from expiry to expiry")


def _basis(data: Chain, source: Source | None, ax: Axes | None) -> Axes:
    """Draw the simple rate a year of each forward over spot, and the growth between expiries."""
    if not isinstance(data, xr.Dataset):
        raise TypeError("data must be what dd.analysis.chain.basis gave, not a table")
    require_variables(data, "data", ("basis_apr", "forward_carry"), dims=("expiry",))
    curve = single(data, "a basis curve").dropna("expiry", subset=["basis_apr"])
    if not curve.sizes["expiry"]:
        raise ValueError("no expiry has a basis: give spot= to dd.analysis.chain.basis")
    tenors, apr = days(curve), np.asarray(curve["basis_apr"])
    growth, dates = np.asarray(curve["forward_carry"]), pd.DatetimeIndex(curve["expiry"].to_numpy())
    ax = style.axes(ax)
    _steps(ax, tenors, growth)
    ax.plot(tenors, apr, "o-", ms=4.5, lw=1.5, color=PALETTE[0], label="forward over spot")
    ax.axhline(0, color=GREY, lw=0.8)
    shape = "contango" if apr[-1] > 0 else "backwardation"
    title = f"{name_of(curve)}: {100 * apr[-1]:+.2f} % a year to {dates[-1]:%Y-%m-%d}, {shape}"
    style.dress(ax, title=title, y="basis [% per year, simple]", form="percent")
    style.legend(ax, "above")
    expiry_axis(ax, tenors, dates)
    table = {"expiry": dates, "days": tenors, "basis_apr": apr, "forward_carry": growth}
    return finish(ax, table, data, source=source)


def _before(before: Chain, fit: xr.Dataset) -> tuple[pd.DataFrame, pd.Timestamp]:
    """Return earlier volatilities of expiries that still run, at the days that are left, and their time."""
    if isinstance(before, xr.Dataset) and is_fit(before):
        past = fitted(single(before, "before, a term structure,"))
        frame = pd.DataFrame({"expiry": past["expiry"].to_numpy(), "iv": np.asarray(at_the_money(past))})
        time = instant_of(past)
    else:
        if not isinstance(before, pd.DataFrame):
            kind = type(before).__name__
            raise TypeError(f"before must be a fit or rows of the table options_atm_history, not {kind}")
        require_columns(before, "before", ("iv",), others=("time", "expiry"))
        require_instants(before, "before", ["time", "expiry"])
        if before["time"].nunique() != 1:
            raise ValueError(f"before holds {before['time'].nunique()} instants: choose one")
        frame = before[["expiry", "iv"]].assign(expiry=before["expiry"].dt.tz_localize(None))
        time = before["time"].iloc[0].round("min")
    left = pd.Series(days(fit), fit["expiry"].to_numpy())
    frame["days"] = frame["expiry"].map(left)
    return frame.dropna(subset="days").sort_values("days", ignore_index=True), time


def _free(ax: Axes, free: xr.Dataset, tenors: Any, low: Any, high: Any) -> None:
    """Draw model-free volatility with its bounds, and the index."""
    vol = np.asarray(free["vol"])
    reach = np.abs(np.vstack([vol - low, high - vol]))
    look: dict[str, Any] = {"fmt": "s", "ms": 4, "lw": 1.0, "capsize": 2.5, "color": PALETTE[1]}
    ax.errorbar(tenors, vol, yerr=reach, label="model-free, bounds", **look)
    if np.isfinite(vol).any():
        least, most = np.nanmin(vol), np.nanmax(vol)
        margin = max(0.4 * (most - least), 0.01)
        ax.set_ylim(least - margin, most + 1.5 * margin)
    for end in (high, low):
        style.mark_clipped(ax, tenors, end, color=PALETTE[1])
    if free.sizes["expiry"] >= 2:
        level = float(variance.volatility_index(free, horizon=f"{_INDEX_DAYS:g}d")["index"])
        if np.isfinite(level):
            kind = "strip index" if free.attrs["method"] == "strip" else "index"
            label = f"{_INDEX_DAYS:g}-day {kind}: {100 * level:.2f} %"
            ax.plot(_INDEX_DAYS, level, "D", ms=7, mfc="none", mec=PALETTE[2], mew=1.6, label=label)
    style.legend(ax, "above")
