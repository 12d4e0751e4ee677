"""Figures of funding rates over time and venues."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import xarray as xr

from derivdata import tables
from derivdata.plot.frames import Rates, Source, figure_function, keep_frame, long_table
from derivdata.plot.style import (
    DIVERGING,
    GREY,
    NO_DATA,
    axes,
    colorbar,
    dress,
    footer,
    legend,
    look,
    mark_clipped,
    one_symbol,
    panel_of,
    row_size,
    utc_axis,
)
from derivdata.support import times
from derivdata.support.text import did_you_mean

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_STEPS = {"1h": 1, "2h": 2, "4h": 4, "8h": 8, "1D": 24}
_COLUMNS = 400


@figure_function
def funding_history(
    data: Rates,
    *,
    symbol: str | None = None,
    venues: list[str] | None = None,
    highlight: int = 3,
    source: Source | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw the funding rate of every venue over time; those that pay most and least are coloured.

    Parameters
    ----------
    data
        Table ``funding_history`` or ``funding_settlements``, or a panel of ``rate_bps_8h`` [bps/8h].
    symbol
        Which symbol, where there are several.
    venues
        The venues that are coloured; None takes the first and last `highlight` by mean rate.
    highlight
        How many venues from either end of the ranking are coloured.
    source, ax
        As in every figure: see `derivdata.plot`.

    Returns
    -------
    Axes
        Missing rates and payments leave gaps in the lines. The scale holds 99 % of all rates and every rate
        of the coloured venues between the 0.5 and 99.5 percentile; an arrowhead marks each rate outside.

    Raises
    ------
    ValueError
        The symbol or a venue is not in the data.
    """
    rates, symbol = one_symbol(panel_of(data, "rate_bps_8h"), symbol)
    ax = axes(ax)
    means = rates.mean("time").to_series().dropna().sort_values(ascending=False)
    chosen = _chosen(means, venues, highlight)
    stamps = rates["time"].values
    for venue in means.index.difference(chosen):
        ax.plot(*_line(rates.sel(exchange=venue)), color=GREY, lw=0.5, alpha=0.35, rasterized=True)
    for place, venue in enumerate(chosen):
        label = f"{venue} ({means[venue]:+.2f})"
        ax.plot(*_line(rates.sel(exchange=venue)), lw=1.2, label=label, **look(place))
    low, high = np.nanpercentile(rates, [0.5, 99.5])
    margin = 0.15 * (high - low) + 0.1
    ax.set_ylim(low - margin, high + margin)
    ax.axhline(0, color=GREY, lw=0.8)
    colors = {venue: look(place)["color"] for place, venue in enumerate(chosen)}
    outside = ((rates < low - margin) | (rates > high + margin)).any("time")
    clipped = sum(
        mark_clipped(ax, stamps, rates.sel(exchange=venue), color=colors.get(venue, GREY))
        for venue in means.index
        if outside.sel(exchange=venue)
    )
    cut = f"; ▲▼: {clipped:,} outside the axis" if clipped else ""
    dress(ax, title=f"{symbol} funding: {_ends(means)}")
    ax.set_ylabel("funding rate [bps per 8 h]")
    legend(ax, "right", title=f"venue (mean){cut}")
    utc_axis(ax)
    footer(ax, data, source=source)
    frame: pd.DataFrame = rates.transpose("time", "exchange").to_pandas()
    return keep_frame(ax, long_table(frame[list(means.index)], "time", "exchange", "rate_bps_8h"))


def _line(rates: xr.DataArray) -> tuple[Any, Any]:
    """Return times and rates of one venue's line.

    Venues pay at different hours, so that in a panel of payments most instants are those of other venues:
    only these are left out, and a payment that is missing stays a gap.
    """
    if rates.attrs.get("kind") != "settled":
        return rates["time"].values, rates.values
    paid = rates.dropna("time")
    stamps = paid["time"].values
    steps = np.diff(stamps) / np.timedelta64(1, "h")
    if len(steps) > 1:
        # A venue's interval may change for good: a payment lacks only where both steps beside are shorter.
        beside = np.maximum(np.append(steps[1:], 0.0), np.insert(steps[:-1], 0, 0.0))
        gaps = stamps[:-1][steps > 1.6 * np.maximum(beside, np.median(steps))]
        paid = paid.reindex(time=np.sort(np.append(stamps, gaps + np.timedelta64(1, "m"))))
    return paid["time"].values, paid.values


@figure_function
def funding_heatmap(
    data: Rates,
    *,
    symbol: str | None = None,
    step: str | pd.Timedelta | None = None,
    reach: float | None = None,
    centre: float = 0.0,
    by_kind: bool = False,
    source: Source | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw the funding rate by venue and time as colours: who pays, who is paid, and when that changed.

    Parameters
    ----------
    data
        Table ``funding_history`` or ``funding_settlements``, or a panel of ``rate_bps_8h`` [bps/8h].
    symbol
        Which symbol, where there are several.
    step
        Width of a column, over which rates are averaged; None takes the finest that is no finer than the
        rates and leaves at most 400 columns.
    reach
        Distance from `centre` [bps/8h] at which the colours end on both sides; None takes the 98th
        percentile.
    centre
        Rate [bps/8h] between the two colours: 0, or 1 to see who leaves the usual 0.01 % per 8 hours.
    by_kind
        Put centralised and decentralised venues under a heading of their own.
    source, ax
        As in every figure: see `derivdata.plot`.

    Returns
    -------
    Axes
        Venues in order of their mean rate, the highest at the top. A column without a rate is grey; arrows
        of the colour scale mark rates beyond it.

    Raises
    ------
    ValueError
        The symbol is not in the data.
    """
    rates, symbol = one_symbol(panel_of(data, "rate_bps_8h"), symbol)
    if reach is not None and not 0 < reach < np.inf:
        raise ValueError(f"{reach=} is not a rate at which colours could end")
    if not np.isfinite(centre):
        raise ValueError(f"{centre=} is not a rate at which colours could meet")
    cells = _columns(rates, step)
    means = rates.mean("time").to_series().dropna().sort_values()
    rows = _rows(list(means.index), by_kind=by_kind)
    ax = axes(ax, size=row_size(len(rows), 0.16))
    shown = cells.reindex(columns=rows).to_numpy().T
    reach = reach or max(float(np.nanpercentile(np.abs(shown - centre), 98)), 0.01)
    width = cells.index[1] - cells.index[0] if len(cells) > 1 else np.timedelta64(1, "h")
    edges = np.append(cells.index.to_numpy(), cells.index.to_numpy()[-1:] + width)
    ax.set_facecolor(NO_DATA)
    drawn = ax.pcolormesh(
        edges,
        np.arange(len(rows) + 1),
        shown,
        cmap=DIVERGING,
        vmin=centre - reach,
        vmax=centre + reach,
        rasterized=True,
    )
    for place in map(int, np.flatnonzero(~np.isin(rows, means.index))):  # headings
        ax.axhspan(place, place + 1, color="white", lw=0)
    ax.set_yticks(np.arange(len(rows)) + 0.5, rows)
    known = shown[~np.isnan(shown)]
    share = f"{np.mean(known > centre):.0%}".replace("%", " %")
    above = "longs paid" if centre == 0 else f"above {centre:g} bps"
    hours = pd.Timedelta(width) / pd.Timedelta(1, "h")
    cell = f"{hours:g} h" if hours < 24 else f"{hours / 24:g} d"
    dress(ax, title=f"{symbol} funding: {above} in {share} of cells (venue × {cell})", grid="")
    ax.tick_params(axis="y", labelsize=8 if len(rows) > 20 else 8.5, length=0)
    ax.set_ylabel("venue")
    lack = "\ngrey: no rate" if known.size < cells[list(means.index)].size else ""
    ends = ("neither", "min", "max", "both")
    beyond = ends[bool(known.min() < centre - reach) + 2 * bool(known.max() > centre + reach)]
    colorbar(ax, drawn, f"funding rate [bps per 8 h]{lack}", extend=beyond)
    utc_axis(ax)
    footer(ax, data, source=source)
    return keep_frame(ax, long_table(cells[list(means.index)], "time", "exchange", "rate_bps_8h"))


def _rows(venues: list[str], *, by_kind: bool) -> list[str]:
    """Return the rows from below, with a heading above the venues of each kind."""
    if not by_kind:
        return venues
    kinds = [tables.VENUES[name].kind if name in tables.VENUES else "other" for name in venues]
    return [
        row
        for kind in sorted(set(kinds), reverse=True)
        for row in [*(name for name, of in zip(venues, kinds, strict=True) if of == kind), kind.upper()]
    ]


def _ends(means: pd.Series) -> str:
    """Describe who pays most and least: ``alpha pays most (+2.00), gamma least (-1.00)``."""
    top, bottom = (f"({means.iloc[place]:+.2f})" for place in (0, -1))
    if len(means) == 1:
        return f"{means.index[0]} pays {top}"
    return f"longs on {means.index[0]} pay most {top}, on {means.index[-1]} least {bottom}"


def _chosen(means: pd.Series, venues: list[str] | None, highlight: int) -> list[str]:
    if venues is None:
        return list(dict.fromkeys([*means.index[:highlight], *means.index[len(means) - highlight :]]))
    if not len(venues):
        raise ValueError("venues must name at least one, or be None")
    absent = [v for v in venues if v not in means.index]
    if absent:
        raise ValueError(
            f"venues: {absent[0]!r} has no rate here; there are {', '.join(means.index)} in data"
            f"{did_you_mean(absent[0], means.index)}"
        )
    return venues


def _columns(rates: xr.DataArray, step: str | pd.Timedelta | None) -> pd.DataFrame:
    """Return rates by time and venue, averaged over equal steps."""
    frame: pd.DataFrame = rates.transpose("time", "exchange").to_pandas()
    if step is None:
        hours = (frame.index[-1] - frame.index[0]) / np.timedelta64(1, "h")
        usual = hours / max(len(frame) - 1, 1)
        fitting = [n for n, width in _STEPS.items() if hours <= _COLUMNS * width and width >= 0.99 * usual]
        step = fitting[0] if fitting else "1D"
    width = times.length(step, "step")
    if not width:
        raise ValueError(f"{step=} has no length")
    return frame.resample(width).mean()
