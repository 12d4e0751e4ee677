"""Figures of a whole volatility surface, flat or in three dimensions."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pandas as pd
import xarray as xr

from derivdata.analysis import surface as analysis
from derivdata.plot._decorator import figure_function
from derivdata.plot.expiry_axes import expiry_axis
from derivdata.plot.fits import days, fit_of, fitted, name_of, single
from derivdata.plot.frames import keep_frame
from derivdata.plot.style import GREY, SEQUENTIAL, axes, colorbar, dress, footer

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["surface"]

Floats = np.ndarray[Any, Any]
_ACROSS, _ALONG = 121, 120
_FARTHEST = 20.0


@figure_function
def surface(
    data: Any,
    *,
    kind: Literal["heat", "3d"] = "heat",
    reach: float = 2.0,
    source: Any = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw implied volatility over moneyness and time to expiry, as a heat map or in three dimensions.

    Parameters
    ----------
    data
        A fit of ``dd.analysis.surface``, or the table ``options_snapshot`` or a surface of
        ``dd.options.surface``, to which a surface is fitted first.
    kind
        ``"heat"``, or ``"3d"``, which needs axes with ``projection="3d"``.
    reach
        How far from the forward, in at-the-money standard deviations.
    source, ax
        As in every figure: see `derivdata.plot`.

    Returns
    -------
    Axes
        Moneyness is ln(K/F) over the at-the-money standard deviation, which puts short and long expiries
        side by side. Blank outside the quotes: nothing is extrapolated. Ticks along time are the listed
        expiries, with a date where there is room.

    Raises
    ------
    ValueError
        An unknown `kind`, flat axes for ``"3d"``, several surfaces, or no expiry with a fit.
    """
    if not 0 < reach <= _FARTHEST:
        raise ValueError(f"{reach=} is not a number of standard deviations up to {_FARTHEST:g}")
    fit = fitted(single(fit_of(data), "a figure of a surface"))
    if fit.sizes["expiry"] < 2:
        raise ValueError("a surface needs two expiries with a fit; for one there is dd.plot.smile")
    tenors, spread, iv = _grid(fit, reach)
    title = f"{name_of(fit)}: {_highest(tenors, spread, iv)}"
    across, along = np.meshgrid(spread, tenors, indexing="ij")
    table = pd.DataFrame({"days": along.ravel(), "deviations": across.ravel(), "iv": iv.ravel()}).dropna()
    if kind == "3d":
        return keep_frame(_sheet(ax, tenors, spread, iv, title, (data, source)), table)
    ax = axes(ax)
    drawn = ax.pcolormesh(tenors, spread, 100 * iv, cmap=SEQUENTIAL, shading="gouraud", rasterized=True)
    if np.isfinite(iv).sum() > 1:
        lines = ax.contour(tenors, spread, 100 * iv, colors="#fdfdfd", linewidths=0.7, alpha=0.8)
        ax.clabel(lines, fontsize=8, fmt="%g %%")
    ax.axhline(0, color=GREY, lw=0.8, ls=":")
    dress(ax, title=title, grid="")
    expiry_axis(ax, days(fit), fit["expiry"])
    ax.set_xlim(tenors[0], tenors[-1])
    ax.set_ylabel("moneyness ln(K/F) / (σ√T)\n[standard deviations]")
    colorbar(ax, drawn, "implied volatility [% per √year]")
    footer(ax, data, source=source)
    return keep_frame(ax, table)


def _highest(tenors: Floats, spread: Floats, iv: Floats) -> str:
    """Describe where volatility is highest and lowest."""
    if not np.isfinite(iv).any():
        return "no volatility within the quotes"
    words = []
    for value, find in (("highest", np.nanargmax), ("lowest", np.nanargmin)):
        row, column = np.unravel_index(find(iv), iv.shape)
        place = f"{spread[row]:+.1f} deviations" if abs(spread[row]) >= 0.05 else "the forward"
        words.append(f"{value} {100 * iv[row, column]:.1f} % in {tenors[column]:.3g} days at {place}")
    return "volatility " + ", ".join(words)


def _grid(fit: xr.Dataset, reach: float) -> tuple[Floats, Floats, Floats]:
    """Return days to expiry, deviations, and volatility over (deviation, day)."""
    t = np.asarray(fit["year_fraction"])
    maturity = xr.DataArray(np.geomspace(t[0], t[-1], _ALONG), dims="maturity")
    maturity[[0, -1]] = t[[0, -1]]
    spread = xr.DataArray(np.linspace(-reach, reach, _ACROSS), dims="deviation")
    middle = np.sqrt(analysis.total_variance(fit, 0.0, maturity, wings=True))
    iv = analysis.iv(fit, middle * spread, maturity).transpose("deviation", "maturity")
    return 365.0 * maturity.values, spread.values, np.asarray(iv)


def _sheet(
    ax: Axes | None, tenors: Floats, spread: Floats, iv: Floats, title: str, data: tuple[Any, Any]
) -> Axes:
    from matplotlib import colormaps

    ax = axes(ax, size=(8.0, 6.0), projection="3d")
    if ax.name != "3d":
        raise ValueError('kind="3d" needs axes made with projection="3d"')
    scale: Any = ax
    across, along = np.meshgrid(spread, np.log10(tenors), indexing="ij")
    drawn = scale.plot_surface(
        across, along, 100 * iv, cmap=colormaps[SEQUENTIAL], rcount=60, ccount=60, lw=0, rasterized=True
    )
    figure = ax.get_figure(root=True)
    assert figure is not None
    figure.colorbar(drawn, ax=ax, shrink=0.55, pad=0.12, label="implied volatility [% per √year]")
    ticks = [d for d in (1, 7, 30, 90, 365) if tenors[0] <= d <= tenors[-1]]
    scale.set_yticks(np.log10(ticks), [f"{d}" for d in ticks])
    scale.set(
        xlabel="moneyness [standard deviations]",
        ylabel="time to expiry [days]",
        zlabel="implied volatility [%]",
    )
    scale.set_title(textwrap.fill(title, 58), loc="left", fontsize=11)
    scale.view_init(elev=26, azim=-50)
    footer(scale, data[0], source=data[1])
    return ax
