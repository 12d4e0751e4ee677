"""Figure of how venues' volatilities differ from those of a reference venue."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import xarray as xr

from derivdata.analysis import surface
from derivdata.plot._decorator import figure_function
from derivdata.plot.fits import fit_of
from derivdata.plot.frames import keep_frame, long_table
from derivdata.plot.style import DIVERGING, NO_DATA, axes, colorbar, dress, footer, row_size

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["venue_difference"]

_DEVIATIONS = (-1.5, -1.0, -0.5, 0.0, 0.5, 1.0, 1.5)


@figure_function
def venue_difference(
    data: Any,
    *,
    reference: str = "deribit",
    days: Sequence[float] = (7, 30, 90, 180),
    source: Any = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw the implied volatility of each venue less that of a reference, by moneyness and tenor.

    Parameters
    ----------
    data
        A fit of ``dd.analysis.surface`` with dim ``exchange``, or the tables ``options_snapshot`` of one
        symbol on several venues in one frame, to which surfaces are fitted first.
    reference
        The venue that the others are compared with.
    days
        Times to expiry [days].
    source, ax
        As in every figure: see `derivdata.plot`.

    Returns
    -------
    Axes
        One row per venue and tenor, one column per moneyness in at-the-money standard deviations of the
        reference; the number in a cell is the difference in volatility points. Grey where either venue
        has no quotes there.

    Raises
    ------
    ValueError
        There is one venue only, or not the reference; several symbols or instants.
    """
    if not len(days) or not all(0 < day < np.inf for day in days):
        raise ValueError(f"days={list(days)!r} must be times to expiry, one at least")
    fit = fit_of(data)
    gap = _differences(fit, reference, days)
    rows = [(str(v), float(d)) for v in gap["exchange"].values for d in gap["days"].values]
    cells = 100 * gap.transpose("exchange", "days", "deviation").values.reshape(len(rows), -1)
    ax = axes(ax, size=row_size(len(rows), 0.26))
    limit = max(float(np.nanmax(np.abs(cells), initial=0.0)), 0.1) if np.isfinite(cells).any() else 1.0
    ax.set_facecolor(NO_DATA)
    drawn = ax.pcolormesh(cells, cmap=DIVERGING, vmin=-limit, vmax=limit, edgecolor="#fdfdfd", lw=0.5)
    for (i, j), value in np.ndenumerate(cells):
        if np.isfinite(value):
            ink = "#fcfcfc" if abs(value) > 0.65 * limit else "#222222"
            ax.text(j + 0.5, i + 0.5, f"{value:+.2f}", ha="center", va="center", fontsize=8, color=ink)
    ax.set_yticks(np.arange(len(rows)) + 0.5, [f"{venue}, {tenor:g} d" for venue, tenor in rows])
    ax.set_xticks(np.arange(len(_DEVIATIONS)) + 0.5, [f"{d:+.1f}" if d else "at F" for d in _DEVIATIONS])
    ax.invert_yaxis()
    for place in range(gap.sizes["days"], len(rows), gap.sizes["days"]):  # a gap between venues
        ax.axhline(place, color="white", lw=4)
    symbol = str(fit["symbol"].item()) if "symbol" in fit.coords and fit["symbol"].ndim == 0 else "options"
    dress(ax, title=f"{symbol}: {_largest(cells, rows, reference)}", grid="")
    ax.set(xlabel="moneyness ln(K/F) / (σ√T) [standard deviations]", ylabel="venue and tenor")
    colorbar(ax, drawn, "difference [volatility points]")
    footer(ax, data, source=source)
    table = long_table(pd.DataFrame(cells, columns=_DEVIATIONS), "row", "deviations", "difference_points")
    named = pd.DataFrame(rows, columns=["exchange", "days"]).iloc[table["row"]].reset_index(drop=True)
    return keep_frame(ax, pd.concat([named, table.drop(columns="row").astype(float)], axis=1))


def _largest(cells: np.ndarray[Any, Any], rows: list[tuple[str, float]], reference: str) -> str:
    """Describe the largest difference."""
    if not np.isfinite(cells).any():
        return f"no quotes to compare with those of {reference}"
    row, column = np.unravel_index(np.nanargmax(np.abs(cells)), cells.shape)
    venue, days = rows[row]
    away = f"{_DEVIATIONS[column]:+.1f} deviations" if _DEVIATIONS[column] else "the forward"
    return (
        f"{venue} differs most from {reference}, {cells[row, column]:+.2f} points in {days:g} days at {away}"
    )


def _differences(fit: xr.Dataset, reference: str, days: Sequence[float]) -> xr.DataArray:
    venues = [str(v) for v in fit["exchange"].values] if "exchange" in fit.dims else []
    if len(venues) < 2 or reference not in venues:
        raise ValueError(
            f"reference={reference!r} and one more venue are needed; the data has {venues or 'one'}"
        )
    crowd = [str(d) for d in fit.dims if d not in ("exchange", "expiry")]
    if crowd:
        raise ValueError(f"one symbol and one instant are compared; the data has a dim {crowd[0]!r}")
    maturity = xr.DataArray(
        np.asarray(days, dtype=np.float64) / 365.0, dims="days", coords={"days": list(days)}
    )
    spread = xr.DataArray(np.array(_DEVIATIONS), dims="deviation")
    basis = fit.sel(exchange=reference, drop=True).dropna("expiry", subset=["year_fraction"])
    k = np.sqrt(surface.total_variance(basis, 0.0, maturity, wings=True)) * spread
    iv = surface.iv(fit, k, maturity)
    return (iv - iv.sel(exchange=reference, drop=True)).drop_sel(exchange=reference)
