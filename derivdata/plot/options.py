"""Figures of options."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from derivdata.plot.style import GREY, PALETTE, axes, footer

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.axes import Axes

__all__ = ["at_the_money", "smile", "term_structure"]

_DAYS = 365.0


def smile(surface: xr.Dataset, *, reach: float = 2.5, ax: Axes | None = None) -> Axes:
    """Implied volatility of out-of-the-money quotes by log-moneyness, a line for each expiry.

    Parameters
    ----------
    surface
        What ``dd.options.surface`` returns.
    reach
        How many at-the-money standard deviations from the forward are drawn.
    ax
        Axes to draw on; None makes a figure.

    Returns
    -------
    Axes
        Quotes as the venue gives them, nothing fitted; expiries without three quotes are left out.
    """
    from matplotlib import colormaps

    ax = axes(ax)
    slices = [(t, k, iv) for t, k, iv in _slices(surface) if k.size >= 3]
    for place, (t, k, iv) in enumerate(slices):
        width = reach * float(np.interp(0.0, k, iv)) * np.sqrt(t)
        near = np.abs(k) <= width
        color = colormaps["viridis"](0.05 + 0.85 * place / max(len(slices) - 1, 1))
        ax.plot(k[near], 100 * iv[near], ".-", ms=3, lw=1.0, color=color, label=f"{_DAYS * t:.3g} d")
    ax.axvline(0, color=GREY, lw=0.8)
    ax.set(
        title=f"{surface['symbol'].item()} on {surface['exchange'].item()}: implied volatility by expiry",
        xlabel="log-moneyness ln(K/F)",
        ylabel="implied volatility [%]",
    )
    ax.legend(
        title="to expiry",
        fontsize=8,
        title_fontsize=8,
        loc="center left",
        bbox_to_anchor=(1, 0.5),
        frameon=False,
    )
    footer(ax, surface)
    return ax


def term_structure(surfaces: Any, *, ax: Axes | None = None) -> Axes:
    """At-the-money-forward implied volatility by time to expiry, a line for each venue.

    Parameters
    ----------
    surfaces
        One surface, or several of one symbol.
    ax
        Axes to draw on; None makes a figure.
    """
    many = [surfaces] if hasattr(surfaces, "data_vars") else list(surfaces)
    ax = axes(ax)
    for color, surface in zip(PALETTE, many, strict=False):
        points = at_the_money(surface)
        ax.plot(
            points["days"],
            100 * points["iv"],
            "o-",
            ms=4,
            lw=1.2,
            color=color,
            label=surface["exchange"].item(),
        )
    ax.set_xscale("log")
    ax.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    ax.set(
        title=f"{many[0]['symbol'].item()}: at-the-money volatility by expiry",
        xlabel="days to expiry",
        ylabel="implied volatility at the forward [%]",
    )
    ax.legend(fontsize=8, framealpha=0.6)
    footer(ax, *many)
    return ax


def at_the_money(surface: xr.Dataset) -> pd.DataFrame:
    """Implied volatility at the forward per expiry, linear in log-moneyness between the nearest quotes.

    Parameters
    ----------
    surface
        What ``dd.options.surface`` returns.

    Returns
    -------
    DataFrame
        ``expiry``, ``days`` to it, ``forward`` [USD], ``iv`` [1/√year] and the number of ``quotes``; ``iv``
        is NaN where the quotes do not lie on both sides of the forward.
    """
    rows = []
    expiries = pd.DatetimeIndex(surface["expiry"].values).tz_localize("UTC")
    forwards = surface["underlying_price"].values
    for expiry, forward, (t, k, iv) in zip(expiries, forwards, _slices(surface), strict=True):
        inside = k.size > 1 and k[0] <= 0.0 <= k[-1]
        level = float(np.interp(0.0, k, iv)) if inside else np.nan
        rows.append({"expiry": expiry, "days": _DAYS * t, "forward": forward, "iv": level, "quotes": k.size})
    return pd.DataFrame(rows, columns=["expiry", "days", "forward", "iv", "quotes"])


def _slices(surface: xr.Dataset) -> list[tuple[float, np.ndarray[Any, Any], np.ndarray[Any, Any]]]:
    """Year fraction, log-moneyness and implied volatility of the quotes out of the money, per expiry."""
    found = []
    strikes = surface["strike"].values
    for i, t in enumerate(surface["year_fraction"].values):
        k = np.log(strikes / surface["underlying_price"].values[i])
        quotes = surface["iv"].isel(expiry=i)
        iv = np.where(k >= 0, quotes.sel(side="call"), quotes.sel(side="put"))
        kept = np.isfinite(iv) & (iv > 0)
        found.append((float(t), k[kept], iv[kept]))
    return found
