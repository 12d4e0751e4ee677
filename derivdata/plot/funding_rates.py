"""Figures of funding rates over time and venues."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import xarray as xr

from derivdata import tables
from derivdata.plot import frames, style
from derivdata.plot.frames import (
    Engine,
    Rates,
    Size,
    Source,
    draw_lanes,
    figure_function,
    finish,
    lane_height,
    lane_limits,
    lane_marks,
    long_table,
)
from derivdata.plot.style import DIVERGING, NO_DATA
from derivdata.support import times
from derivdata.support.text import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes

STEPS = {"1h": 1, "2h": 2, "4h": 4, "8h": 8, "1D": 24}
"""Lengths of steps [hours] by name."""
_RATE = "funding rate [bps per 8 h]"
_POINTS = 120
_COLUMNS = 400
USUAL_BPS = 1.0
"""The fixed part of most venues' rate: 0.01 % per 8 hours."""
_LINE = 8.0
_SMALL_LINE = 6.2
"""Height of the name of a row [points], and in letters of 6 points."""
_NEAR = 0.05
_KINDS = {"CEX": "Centralised venues", "DEX": "Decentralised venues", "OTHER": "Other venues"}


@figure_function
def funding_history(
    data: Rates,
    *,
    symbol: str | None = None,
    venues: list[str] | None = None,
    highlight: int = 4,
    step: str | pd.Timedelta | None = None,
    limits: tuple[float, float] | None = None,
    source: Source | None = None,
    ax: Axes | None = None,
    figsize: Size | None = None,
    engine: Engine = "matplotlib",
) -> Axes | Any:
    """Draw the funding rates over time of the venues with the highest and lowest mean, a lane for each.

    Parameters
    ----------
    data
        Table ``funding_history`` or ``funding_settlements``, or a panel of ``rate_bps_8h`` [bps/8h].
    symbol
        The symbol, if there are several.
    venues
        Venues to draw; None selects the first and last `highlight` by mean rate.
    highlight
        Number of venues drawn from each end of the ranking.
    step
        Length of time over which rates are averaged. None selects the shortest step that is not shorter than
        the interval of any venue and gives at most 120 points.
    limits
        Lowest and highest rate of a lane [bps/8h], to compare two figures; None uses those of the data.
    source, ax, figsize, engine
        As in every figure: see `derivdata.plot`.

    Returns
    -------
    Axes, or a plotly Figure
        A lane per venue, all at one scale, labelled with the mean of the window; the dotted line is the
        median of all venues. A step without a rate is a gap. Arrowheads mark outliers outside a lane. Plotly
        draws lines over a band between the 10th and the 90th percentile.

    Raises
    ------
    ValueError
        The symbol or a venue is not in the data, no venue has a rate, `step` is 0, or 0 is not within
        `limits`.
    """
    rates, symbol = style.one_symbol(style.panel_of(data, "rate_bps_8h"), symbol)
    cells, hours = _averaged(rates, step, _POINTS)
    means = rates.mean("time").to_series().dropna().sort_values(ascending=False)
    drawn_venues = _drawn_venues(means, venues, highlight)
    has_others = len(means) > len(drawn_venues)
    ends = cells.quantile([0.1, 0.9] if has_others else [], axis=1)
    others = f"80 % of {len(means)} venues"
    names = {venue: f"{venue} ({means[venue]:+.2f})" for venue in drawn_venues}
    lines = cells[drawn_venues]
    if limits is None:
        limits = lane_limits(lines.to_numpy(dtype=np.float64), min_range=0.5, base=0.0)
    elif not limits[0] <= 0.0 <= limits[1] or limits[0] == limits[1]:
        raise ValueError(f"limits must be rates below and above 0 [bps/8h], got {limits}")
    title = f"{symbol} funding: {_ends(means)}"
    unit = f"venue (mean) [bps per 8 h], means over {_written(hours)}"
    frame: pd.DataFrame = rates.transpose("time", "exchange").to_pandas()
    table = long_table(frame[list(means.index)], "time", "exchange", "rate_bps_8h")
    if engine == "plotly":
        hover = f"{frames.AT_TIME}<br>%{{y:.2f}} bps per 8 h"
        area: Any = {"line_width": 0, "fillcolor": "rgba(138, 138, 138, 0.3)", "name": others}
        traces = [
            frames.plotly_line(cells.index, edge, hover=hover, fill=fill, showlegend=fill != "none", **area)
            for fill, edge in zip(("none", "tonexty"), ends.to_numpy(), strict=False)
        ]
        for place, (venue, name) in enumerate(names.items()):
            traces.append(frames.plotly_line(cells.index, cells[venue], name, hover, place))
        strip = frames.Strip(traces, _RATE, axis={"range": limits})
        return frames.plotly_figure([strip], title, table, data, source=source, legend=unit)
    ax = style.axes(ax, size=(8.0, lane_height(len(drawn_venues))))
    usual = cells.median(axis=1) if has_others else None
    separator = " " if style.is_narrow(ax) else "\n"  # lanes of narrow figures are one line high
    labels = [f"{venue}{separator}{means[venue]:+.2f}" for venue in drawn_venues]
    marks = lane_marks(limits, 0.0)
    outside = draw_lanes(ax, lines, labels, limits, base=0.0, marks=marks, usual=usual)
    style.dress(ax, title=title, y="mean rate [bps per 8 h]", grid="x")
    key = [f"means over {_written(hours)}"]
    if usual is not None:
        key.append(f"dotted: median of {len(means)} venues")
    if outside:
        key.append(f"▲▼: {outside:,} means beyond the lane")
    style.note(ax, "; ".join(key))
    style.utc_axis(ax)
    return finish(ax, table, data, source=source)


def history_limits(panels: Sequence[xr.DataArray], highlight: int) -> tuple[float, float]:
    """Return limits of lanes [bps/8h] for figures of several symbols at one scale."""
    values = []
    for rates in panels:
        cells, _ = _averaged(rates, None, _POINTS)
        means = rates.mean("time").to_series().dropna().sort_values(ascending=False)
        values.append(cells[_drawn_venues(means, None, highlight)].to_numpy(dtype=np.float64).ravel())
    return lane_limits(np.concatenate(values), min_range=0.5, base=0.0)


@figure_function
def funding_heatmap(
    data: Rates,
    *,
    symbol: str | None = None,
    step: str | pd.Timedelta | None = None,
    reach: float | None = None,
    centre: float | None = None,
    by_kind: bool = False,
    source: Source | None = None,
    ax: Axes | None = None,
    figsize: Size | None = None,
    engine: Engine = "matplotlib",
) -> Axes | Any:
    """Draw funding rates by venue and time as a heat map.

    Parameters
    ----------
    data
        Table ``funding_history`` or ``funding_settlements``, or a panel of ``rate_bps_8h`` [bps/8h].
    symbol
        The symbol, if there are several.
    step
        Width of a column, over which rates are averaged. None selects the shortest step that is not shorter
        than the interval of any venue and gives at most 400 columns.
    reach
        Distance from `centre` to both ends of the colour scale [bps/8h]; None uses the 98th percentile.
    centre
        Rate between the two colours [bps/8h]. None uses 1, the usual 0.01 % per 8 hours, if the median rate
        is within 0.05 of it, else 0.
    by_kind
        Group venues under headings: centralised and decentralised.
    source, ax, figsize, engine
        As in every figure: see `derivdata.plot`.

    Returns
    -------
    Axes, or a plotly Figure
        Venues in order of their mean rate, the highest at the top. A column without a rate is grey; arrows
        of the colour scale mark rates beyond it.

    Raises
    ------
    ValueError
        The symbol is not in the data, no venue has a rate, or `step`, `reach` or `centre` is not valid.
    """
    rates, symbol = style.one_symbol(style.panel_of(data, "rate_bps_8h"), symbol)
    if reach is not None and not 0 < reach < np.inf:
        raise ValueError(f"reach must be a positive finite rate [bps/8h], got {reach}")
    if centre is not None and not np.isfinite(centre):
        raise ValueError(f"centre must be a finite rate [bps/8h], got {centre}")
    cells, hours = _averaged(rates, step, _COLUMNS)
    means = rates.mean("time").to_series().dropna().sort_values()
    rows = _rows(list(means.index), by_kind=by_kind)
    shown = cells.reindex(columns=rows).to_numpy().T
    finite = shown[~np.isnan(shown)]
    if centre is None:
        centre = USUAL_BPS if abs(float(np.median(finite)) - USUAL_BPS) < _NEAR else 0.0
    reach = reach or max(float(np.nanpercentile(np.abs(shown - centre), 98)), 0.01)
    paid = style.share(float(np.mean(finite > 0.0)))
    received = style.share(float(np.mean(finite < 0.0)))
    title = f"{symbol} funding: longs paid in {paid} and shorts in {received} of cells"
    if centre:
        more = style.share(float(np.mean(finite > centre + _NEAR)))
        less = style.share(float(np.mean(finite < centre - _NEAR)))
        title = f"{symbol} funding: above the usual {centre:g} bp in {more} of cells, below it in {less}"
    title += f" (venue × {_written(hours)})"
    table = long_table(cells[list(means.index)], "time", "exchange", "rate_bps_8h")
    width, height = style.row_size(len(rows), 0.16)
    if engine == "plotly":
        hover = f"%{{y}}<br>{frames.AT_TIME}, {_written(hours)}<br>%{{z:.2f}} bps per 8 h"
        bare = np.where(np.isnan(shown) & np.isin(rows, means.index)[:, None], 0.0, np.nan)
        where: Any = {"x": cells.index, "y": [frames.plotly_text(row) for row in rows]}
        where |= {"xperiod": 3.6e6 * hours, "xperiod0": cells.index[0], "xperiodalignment": "middle"}
        colours: Any = {"colorscale": DIVERGING, "zmin": centre - reach, "zmax": centre + reach}
        grey: Any = {"colorscale": [[0, NO_DATA], [1, NO_DATA]], "showscale": False}
        traces = [
            frames.plotly_trace("Heatmap", "", "%{y}<br>no rate", z=bare, **where, **grey),
            frames.plotly_heat_map(shown, _RATE, hover, **where, **colours),
        ]
        strip = frames.Strip(traces, "venue", axis={"dtick": 1})
        return frames.plotly_figure([strip], title, table, data, source=source, height=height)
    ax = style.axes(ax, size=(width, height))
    edges = cells.index.append(cells.index[-1:] + pd.Timedelta(hours, "h"))
    cmap = style.colours_with_gaps(DIVERGING)
    colours = {"cmap": cmap, "vmin": centre - reach, "vmax": centre + reach}
    drawn = ax.pcolormesh(edges.to_numpy(), np.arange(len(rows) + 1), shown, rasterized=True, **colours)
    is_venue = np.isin(rows, means.index)
    for place in map(int, np.flatnonzero(~is_venue)):  # headings
        ax.axhspan(place, place + 1, color=style.paper(), lw=0)
        count = sum(_kind(name) == rows[place] for name in means.index)
        heading = f"{_KINDS.get(rows[place], rows[place])} ({count})"
        ax.text(edges[0], place + 0.42, heading, fontsize=8, fontweight="bold", va="center")
    ax.set_yticks(
        np.flatnonzero(is_venue) + 0.5, [row for row, venue in zip(rows, is_venue, strict=True) if venue]
    )
    style.dress(ax, title=title, y="venue", grid="")
    ax.tick_params(axis="y", labelsize=8 if len(rows) > 20 else 8.5, length=0)
    _thin_names(ax)
    style.note(ax, _colour_key(centre, has_gaps=finite.size < cells[list(means.index)].size))
    ends = ("neither", "min", "max", "both")
    beyond = ends[bool(np.min(finite) < centre - reach) + 2 * bool(np.max(finite) > centre + reach)]
    scale = style.colorbar(ax, drawn, _RATE, extend=beyond)
    if abs(centre) < reach:
        scale.axhline(0.0, color="#222222", lw=1.2)  # longs pay above it, shorts below
    style.utc_axis(ax)
    return finish(ax, table, data, source=source)


def _colour_key(centre: float, *, has_gaps: bool) -> str:
    """Describe the colours of the heat map."""
    level = f"the usual {centre:+g} bp" if centre else "0"
    key = f"orange: above {level}; white: {level}; purple: below it"
    return f"{key}; grey: no rate" if has_gaps else key


def _thin_names(ax: Axes) -> None:
    """Remove names of rows evenly from the top if rows are lower than a line of text."""
    figure = ax.get_figure(root=True)
    assert figure is not None
    height = 72.0 * ax.get_position().height * figure.get_figheight()
    places = ax.get_yticks()
    line = _LINE
    if len(places) * line > height:
        line = _SMALL_LINE
        ax.tick_params(axis="y", labelsize=6)
    step = 1 + int(len(places) * line // height)
    if step > 1:
        names = [label.get_text() for label in ax.get_yticklabels()]
        ax.set_yticks(places[::-1][::step], names[::-1][::step])


def _rows(venues: list[str], *, by_kind: bool) -> list[str]:
    """Return the rows from the bottom up, with a heading above the venues of each kind if several."""
    kinds = [_kind(name) for name in venues]
    if not by_kind or len(set(kinds)) < 2:
        return venues
    rows: list[str] = []
    for kind in sorted(set(kinds), reverse=True):
        rows += [venue for venue, venue_kind in zip(venues, kinds, strict=True) if venue_kind == kind]
        rows.append(kind)
    return rows


def _kind(venue: str) -> str:
    """Return the kind of a venue in capitals, so that it cannot equal the name of a venue."""
    return (tables.VENUES[venue].kind if venue in tables.VENUES else "other").upper()


def _ends(means: pd.Series) -> str:
    """Return a description of the venues with the highest and the lowest mean rate."""
    top, bottom = (f"({means.iloc[place]:+.2f})" for place in (0, -1))
    if len(means) == 1:
        return f"{means.index[0]} pays {top}"
    return f"longs on {means.index[0]} pay most {top}, on {means.index[-1]} least {bottom}"


def _drawn_venues(means: pd.Series, venues: list[str] | None, highlight: int) -> list[str]:
    """Return the requested venues, or those at both ends of the ranking by mean rate."""
    if venues is None:
        return list(dict.fromkeys([*means.index[:highlight], *means.index[len(means) - highlight :]]))
    if not len(venues):
        raise ValueError("venues must be at least one venue or None, got an empty list")
    absent = [venue for venue in venues if venue not in means.index]
    if absent:
        raise ValueError(
            f"venues: {absent[0]!r} has no rate here; there are {', '.join(means.index)} in data"
            f"{did_you_mean(absent[0], means.index)}"
        )
    return venues


def _averaged(
    rates: xr.DataArray, step: str | pd.Timedelta | None, max_steps: int
) -> tuple[pd.DataFrame, float]:
    """Return rates by time and venue, averaged over equal steps, and the length of a step [hours].

    A step is at least as long as the longest usual interval of a venue, so that an empty cell means a missing
    rate.
    """
    frame: pd.DataFrame = rates.transpose("time", "exchange").to_pandas()
    if not frame.notna().any(axis=None):
        raise ValueError("no venue has a rate")
    if step is None:
        hours = (frame.index[-1] - frame.index[0]) / np.timedelta64(1, "h")
        intervals = [frame.index[frame[venue].notna()].to_series().diff().median() for venue in frame]
        longest = pd.Series(intervals, dtype="timedelta64[ns]").max() / pd.Timedelta(1, "h")
        fitting = [n for n, width in STEPS.items() if hours <= max_steps * width and width >= 0.99 * longest]
        step = fitting[0] if fitting else "1D"
    width = times.length(step, "step")
    if not width:
        raise ValueError(f"step must be longer than 0, got {step!r}")
    return frame.resample(width).mean(), width / pd.Timedelta(1, "h")


def _written(hours: float) -> str:
    return f"{hours:g} h" if hours < 24 else f"{hours / 24:g} d"
