"""Figure of the probabilities of the price at expiry that options imply."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import xarray as xr

from derivdata.analysis import risk_neutral
from derivdata.plot._decorator import figure_function
from derivdata.plot.fits import at_the_money, fit_of, fitted, listed_expiry, name_of, single
from derivdata.plot.frames import keep_frame
from derivdata.plot.style import PALETTE, axes, dress, footer, legend, number

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["implied_density"]

_POINTS = 241
_REACH = 3.5  # standard deviations


@figure_function
def implied_density(
    data: Any, *, expiries: Any = None, most: int = 3, source: Any = None, ax: Axes | None = None
) -> Axes:
    """Draw how likely options hold each price at expiry to be, under the risk-neutral measure.

    Parameters
    ----------
    data
        A fit of ``dd.analysis.surface`` with its forwards, or the table ``options_snapshot`` or a surface of
        ``dd.options.surface``, to which a surface is fitted first.
    expiries
        Which expiries; None takes up to `most`, spread over those that there are.
    most
        How many are drawn at most.
    source, ax
        As in every figure: see `derivdata.plot`.

    Returns
    -------
    Axes
        Probability per 1 % of the price; dashed beyond the quotes, where it depends on the fitted wings. It
        prices options and is no forecast: the price of risk is in it.

    Raises
    ------
    ValueError
        Several surfaces, no expiry with a fit, an expiry that is not listed, or a fit without forwards.
    """
    fit = fitted(single(fit_of(data), "a density"))
    if "forward" not in fit.variables:
        raise ValueError("data has no forward: give a fit of surface.from_chain, or a chain")
    if isinstance(expiries, xr.Dataset):
        raise TypeError("expiries must be instants, not a Dataset")
    if most < 1:
        raise ValueError(f"{most=} is no number of expiries")
    listed = pd.DatetimeIndex(fit["expiry"].to_numpy())
    if not listed.is_unique:
        raise ValueError("data has an expiry twice")
    if expiries is None:
        places = np.unique(np.linspace(0, len(listed) - 1, min(most, len(listed))).round().astype(int))
    else:
        many = [expiries] if isinstance(expiries, str) or np.ndim(expiries) == 0 else list(expiries)
        if not many:
            raise ValueError("expiries must name at least one, or be None")
        places = np.array([listed.get_loc(listed_expiry(listed, one, "expiries")) for one in many])
    forwards = np.broadcast_to(fit["forward"].to_numpy(), len(listed))
    ax = axes(ax)
    tables = []
    for number_of, place in enumerate(places):
        table, inside = _curve(fit.isel(expiry=[int(place)]), float(forwards[place]))
        color, density = PALETTE[number_of % len(PALETTE)], 100 * table["density_per_pct"]
        ax.plot(
            table["price_usd"],
            density.where(inside),
            color=color,
            lw=1.6,
            label=f"{listed[place]:%Y-%m-%d}: {number(float(forwards[place]))}",
        )
        ax.axvline(float(forwards[place]), color=color, lw=0.9, ls=":")
        ax.plot(table["price_usd"], density.where(~inside), color=color, lw=1.0, ls="--")
        tables.append(table)
    whole = pd.concat(tables, ignore_index=True)
    shown = whole[whole["density_per_pct"] > 0.01 * whole["density_per_pct"].max()]["price_usd"]
    ax.set_xlim(shown.min(), shown.max())
    ax.set_ylim(min(0.0, 100 * float(whole["density_per_pct"].min())), None)
    middle = tables[len(tables) // 2]
    low, high = np.interp([0.05, 0.95], middle["distribution"], middle["price_usd"])
    when = f"{middle['expiry'].iloc[0]:%Y-%m-%d}"
    dress(ax, title=f"{name_of(fit)}: 90 % between {number(low)} and {number(high)} USD on {when}")
    ax.set(xlabel="price at expiry [USD]", ylabel="probability per 1 % of the price [%]")
    ax.xaxis.set_major_formatter(lambda value, _: number(value))
    legend(ax, title="expiry: forward, dotted [USD]")
    footer(ax, data, source=source)
    return keep_frame(ax, whole)


def _curve(fit: xr.Dataset, forward: float) -> tuple[pd.DataFrame, pd.Series]:
    """Return the density and distribution of one expiry by price, and which prices the quotes cover."""
    deviation = float(at_the_money(fit).item() * np.sqrt(fit["year_fraction"].item()))
    k = np.linspace(-_REACH, _REACH, _POINTS) * deviation
    found = risk_neutral.density(fit, k).isel(expiry=0)
    table = pd.DataFrame(
        {
            "expiry": pd.Timestamp(fit["expiry"].item()),
            "price_usd": forward * np.exp(k),
            "density_per_pct": 0.01 * found["density"].to_numpy(),
            "distribution": found["distribution"].to_numpy(),
        }
    )
    inside = (k >= float(fit["k_min"].item())) & (k <= float(fit["k_max"].item()))
    return table, pd.Series(inside)
