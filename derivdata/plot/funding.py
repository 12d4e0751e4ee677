"""Figures of funding: rates over time and venues, forecast carry of pairs, and accrued funding."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pandas as pd
import xarray as xr

from derivdata import tables
from derivdata.analysis import funding
from derivdata.analysis.funding.carry_forecast import of_what
from derivdata.analysis.panels import require_variables
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
    long_table,
)
from derivdata.plot.style import DIVERGING, GREY, NO_DATA, PALETTE
from derivdata.support import times
from derivdata.support.arrays import Bools, Floats
from derivdata.support.text import did_you_mean
from derivdata.tables.frames import require_columns
from derivdata.tables.panels import panel
from derivdata.units import convert

if TYPE_CHECKING:
    from matplotlib.axes import Axes

STEPS = {"1h": 1, "2h": 2, "4h": 4, "8h": 8, "1D": 24}
"""Lengths of steps [hours] by name."""
_RATE = "funding rate [bps per 8 h]"
_MAX_ROWS = 12
"""Maximum number of venues in a heat map, which fit on a phone."""
_POINTS = 120
_COLUMNS = 400
USUAL_BPS = 1.0
"""The fixed part of most venues' rate: 0.01 % per 8 hours."""
_LINE = 8.0
_SMALL_LINE = 6.2
"""Height of the name of a row [points], and in letters of 6 points."""
_FAR = 3.0
"""Lanes show all rates if they are together at most this many times as tall as with 98 % of the rates."""
_MIN_RANGE = 0.1
"""Minimum range of a lane [bps/8h]."""
_NEAR = 0.05
_NEARLY_ALWAYS = 0.8
"""Minimum fraction of cells with usual rates for which a heat map omits a venue."""
_STOPS = 65
"""Number of colours of plotly's scale."""
_KINDS = {"CEX": "Centralised venues", "DEX": "Decentralised venues", "OTHER": "Other venues"}
_CURVE_POINTS = 200
_NUMBERS = ("hold_hours", "gross_bps", "net_bps", "net_low_bps", "net_high_bps", "probability_net_positive")


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
        A lane per venue, all at one scale, which is at the right of lanes; names have the mean of the
        window, and numbers at the lines are the rates furthest from 0. A step without a rate is a gap. If
        few rates are very far from the others, lanes are cut, which arrowheads mark.
        Plotly draws lines over a band between the 10th and the 90th percentile.

    Raises
    ------
    ValueError
        The symbol or a venue is not in the data, no venue has a rate, `step` is 0, or 0 is not within
        `limits`.
    """
    rates, symbol = style.one_symbol(style.panel_of(data, "rate_bps_8h"), symbol)
    cells, hours = _averaged(rates, step, _POINTS)
    means = rates.mean("time").to_series().dropna().sort_values(ascending=False)
    if highlight < 1:
        raise ValueError(f"highlight must be at least 1 venue, got {highlight}")
    drawn_venues = _drawn_venues(means, venues, highlight)
    lines = cells[drawn_venues]
    lanes = _lane_limits(lines.to_numpy(dtype=np.float64))
    if limits is not None:
        if not limits[0] <= 0.0 <= limits[1] or limits[0] == limits[1]:
            raise ValueError(f"limits must be rates below and above 0 [bps/8h], got {limits}")
        lanes = [limits] * len(drawn_venues)
    title = f"{symbol} funding: {_ends(means)}"
    unit = f"venue (mean) [bps per 8 h], means over {_written(hours)}"
    frame: pd.DataFrame = rates.transpose("time", "exchange").to_pandas()
    table = long_table(frame[list(means.index)], "time", "exchange", "rate_bps_8h")
    if engine == "plotly":
        extent = (min(low for low, _ in lanes), max(high for _, high in lanes))
        strip = frames.Strip(_history_traces(cells, means, drawn_venues), _RATE, axis={"range": extent})
        return frames.plotly_figure([strip], title, table, data, source=source, legend=unit)
    ax = style.axes(ax, size=(8.0, lane_height(len(drawn_venues))))
    labels = [f"{venue} {means[venue]:+.2f}" for venue in drawn_venues]
    outside = draw_lanes(ax, lines, labels, lanes, base=0.0, marks={}, with_peaks=True)
    style.dress(ax, title=title, y="mean rate [bps per 8 h]", grid="x")
    key = f"orange: longs pay, purple: shorts pay; means over {_written(hours)}"
    if outside:
        key += "; ▲▼:\N{NO-BREAK SPACE}cut"
    style.note(ax, key)
    style.utc_axis(ax)
    return finish(ax, table, data, source=source)


def _history_traces(cells: pd.DataFrame, means: pd.Series, drawn_venues: list[str]) -> list[Any]:
    """Return plotly lines of venues over a band of all venues, if there are more."""
    hover = f"{frames.AT_TIME}<br>%{{y:.2f}} bps per 8 h"
    traces = []
    if len(means) > len(drawn_venues):
        area: Any = {"line_width": 0, "fillcolor": "rgba(138, 138, 138, 0.3)", "hover": hover}
        area["name"] = f"80 % of {len(means)} venues"
        low, high = cells.quantile([0.1, 0.9], axis=1).to_numpy()
        # Plotly fills between a trace and the one before it.
        traces.append(frames.plotly_line(cells.index, low, fill="none", showlegend=False, **area))
        traces.append(frames.plotly_line(cells.index, high, fill="tonexty", showlegend=True, **area))
    for place, venue in enumerate(drawn_venues):
        name = f"{venue} ({means[venue]:+.2f})"
        traces.append(frames.plotly_line(cells.index, cells[venue], name, hover, place))
    return traces


def _lane_limits(rates: Floats) -> list[tuple[float, float]]:
    """Return limits of the lanes of venues [bps/8h]: 0 and all rates, unless a few flatten the rest.

    Lanes are cut at the limits of 98 % of the rates if they would else be several times as tall. A lane that
    is still several times as tall as the next is cut at the furthest rate of the next.
    """
    lows = np.nanmin(rates, axis=0, initial=0.0)
    highs = np.nanmax(rates, axis=0, initial=0.0)
    usual_low, usual_high = np.nanpercentile(rates, [1.0, 99.0])
    cut_lows = np.maximum(lows, min(usual_low, 0.0))
    cut_highs = np.minimum(highs, max(usual_high, 0.0))
    if np.sum(highs - lows) > _FAR * max(float(np.sum(cut_highs - cut_lows)), _MIN_RANGE):
        lows = cut_lows
        highs = cut_highs
    furthest = np.sort(np.maximum(highs, -lows))
    if len(furthest) > 1 and furthest[-1] > _FAR * max(float(furthest[-2]), _MIN_RANGE):
        limit = max(float(furthest[-2]), _MIN_RANGE)
        lows = np.maximum(lows, -limit)
        highs = np.minimum(highs, limit)
    highs = np.maximum(highs, lows + _MIN_RANGE)
    return list(zip(lows.tolist(), highs.tolist(), strict=True))


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
        Distance from `centre` to both ends of the colour scale [bps/8h]. None uses the 98th percentile,
        rounded up.
    centre
        Rate between the two colours [bps/8h]. None uses 0. If the median rate is then within 0.05 of the
        usual 1, which is 0.01 % per 8 hours, venues with rates from 0 to 1 in at least 80 % of cells are
        omitted, except if all venues have them.
    by_kind
        Group venues under headings: centralised and decentralised.
    source, ax, figsize, engine
        As in every figure: see `derivdata.plot`.

    Returns
    -------
    Axes, or a plotly Figure
        Venues in order of their mean rate, the highest at the top, with the mean in the name; of more than
        12, the six highest and the six lowest. Each colour has four levels. Missing rates are grey; arrows
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
    everything = cells[list(means.index)].to_numpy()
    finite = everything[~np.isnan(everything)]
    level = _usual(finite) if centre is None else 0.0
    usual = _usual_venues(cells[list(means.index)], level)
    drawn_venues = [venue for venue in means.index if venue not in usual] or list(means.index)
    if len(drawn_venues) > _MAX_ROWS:
        drawn_venues = drawn_venues[: _MAX_ROWS // 2] + drawn_venues[-_MAX_ROWS // 2 :]
    rows = _rows(drawn_venues, by_kind=by_kind)
    shown = cells.reindex(columns=rows).to_numpy().T
    middle = centre or 0.0
    if reach is None:
        most = max(float(np.nanpercentile(np.abs(shown - middle), 98)), 0.01)
        reach = float(_distances(most)[-1])
    finding = _heat_finding(finite, means, drawn_venues if usual else [], middle, level)
    title = f"{symbol} funding: {finding}"
    table = long_table(cells[list(means.index)], "time", "exchange", "rate_bps_8h")
    is_venue = np.isin(rows, means.index)
    names = [f"{venue} {means[venue]:+.2f}" for venue in np.array(rows)[is_venue]]
    label = "venue, mean [bps per 8 h]"
    if len(drawn_venues) < len(means):
        label = f"{len(drawn_venues)} of {len(means)} venues, mean [bps per 8 h]"
    width, height = style.row_size(len(rows), 0.16)
    if engine == "plotly":
        hover = f"%{{y}}<br>{frames.AT_TIME}, {_written(hours)}<br>%{{z:.2f}} bps per 8 h"
        # Plotly leaves missing cells blank: a second heat map below draws them in grey.
        bare = np.where(np.isnan(shown) & is_venue[:, None], 0.0, np.nan)
        where: Any = {"x": cells.index, "y": list(map(frames.plotly_text, rows))}
        where |= {"xperiod": 3.6e6 * hours, "xperiod0": cells.index[0], "xperiodalignment": "middle"}
        colours: Any = {"colorscale": _colour_scale()}
        colours |= {"zmin": middle - reach, "zmax": middle + reach}
        grey: Any = {"colorscale": [[0, NO_DATA], [1, NO_DATA]], "showscale": False}
        traces = [
            frames.plotly_trace("Heatmap", "", "%{y}<br>no rate", z=bare, **where, **grey),
            frames.plotly_heat_map(shown, _RATE, hover, **where, **colours),
        ]
        row_names = np.array(rows, dtype=object)
        row_names[is_venue] = names
        ticks: Any = {"tickvals": where["y"], "ticktext": list(map(frames.plotly_text, row_names))}
        strip = frames.Strip(traces, label, axis=ticks)
        return frames.plotly_figure([strip], title, table, data, source=source, height=height)
    ax = style.axes(ax, size=(width, height))
    edges = cells.index.append(cells.index[-1:] + pd.Timedelta(hours, "h"))
    colours = {"cmap": style.page_colours(), "vmin": middle - reach, "vmax": middle + reach}
    drawn = ax.pcolormesh(edges.to_numpy(), np.arange(len(rows) + 1), shown, rasterized=True, **colours)
    _write_headings(ax, rows, is_venue, edges[0])
    ax.set_yticks(np.flatnonzero(is_venue) + 0.5, names)
    style.dress(ax, title=title, y=label, grid="")
    ax.tick_params(axis="y", labelsize=8 if len(rows) > 20 else 8.5, length=0)
    _thin_names(ax)
    is_missing = np.isnan(shown) & is_venue[:, None]
    _mark_gaps(ax, is_missing, edges)
    key = _colour_key(middle, has_gaps=bool(is_missing.any()))
    if usual and len(usual) < len(means):
        key += f"; without {len(usual)} venues mostly at 0 to {level:g} bps"
    style.note(ax, key)
    ends = ("neither", "min", "max", "both")
    beyond = ends[bool(np.nanmin(shown) < middle - reach) + 2 * bool(np.nanmax(shown) > middle + reach)]
    scale = style.colorbar(ax, drawn, f"{_written(hours)} mean rate [bps per 8 h]", extend=beyond)
    shown_ticks = [middle + float(distance) for distance in _distances(reach) if abs(distance) <= reach]
    scale.set_yticks(shown_ticks, [style.number(tick) for tick in shown_ticks])
    style.utc_axis(ax)
    return finish(ax, table, data, source=source)


def _heat_finding(rates: Floats, means: pd.Series, unusual: list[str], centre: float, level: float) -> str:
    """Return a sentence about the rates; `unusual` are the drawn venues if the usual ones are omitted."""
    if centre:
        return f"above {centre:g} bps in {style.share(float(np.mean(rates > centre)))} of cells"
    if unusual:
        drawn = means[unusual]
        shorts_paid_more = drawn.max() <= level or -drawn.min() > drawn.max()
        if drawn.min() < 0.0 and shorts_paid_more:
            return f"shorts on {drawn.idxmin()} paid most, {-drawn.min():.2g} bps per 8 h on average"
        return f"longs on {drawn.idxmax()} paid most, {drawn.max():.2g} bps per 8 h on average"
    paid = f"longs paid in {style.share(float(np.mean(rates > 0.0)))} of cells"
    return f"{paid}, shorts paid in {style.share(float(np.mean(rates < 0.0)))}"


def _distances(reach: float) -> Floats:
    """Return round tick values from −`reach` to `reach`, or just beyond [bps/8h]."""
    from matplotlib.ticker import MaxNLocator

    return np.asarray(MaxNLocator(6, steps=[1, 2, 5, 10]).tick_values(-reach, reach))


def _usual(rates: Floats) -> float:
    """Return the usual rate of most venues if the median is at it, else 0 [bps/8h]."""
    if abs(float(np.median(rates)) - USUAL_BPS) < _NEAR:
        return USUAL_BPS
    return 0.0


def _usual_venues(cells: pd.DataFrame, level: float) -> list[str]:
    """Return the venues whose rates are nearly always between 0 and the usual `level`."""
    if not level:
        return []
    is_usual = cells.isna() | ((cells > -_NEAR) & (cells < level + _NEAR))
    share = is_usual.mean()
    return list(map(str, share.index[share >= _NEARLY_ALWAYS]))


def _colour_scale() -> list[list[Any]]:
    """Return the colours of plotly's scale."""
    from matplotlib import colormaps
    from matplotlib.colors import to_hex

    places = np.linspace(0.0, 1.0, _STOPS)
    colours = colormaps[DIVERGING](places)
    return [[float(place), to_hex(colour)] for place, colour in zip(places, colours, strict=True)]


def _write_headings(ax: Axes, rows: list[str], is_venue: Bools, left: pd.Timestamp) -> None:
    """Write the kind and the number of venues into the rows of headings, from `left` on."""
    counts = pd.Series(rows)[is_venue].map(_kind).value_counts()
    for place in map(int, np.flatnonzero(~is_venue)):
        ax.axhspan(place, place + 1, color=style.paper(), lw=0)  # the row's cells are grey, as without a rate
        kind = rows[place]
        heading = f"{_KINDS.get(kind, kind)} ({counts[kind]})"
        ax.text(left, place + 0.42, heading, fontsize=8, fontweight="bold", va="center")


def _colour_key(centre: float, *, has_gaps: bool) -> str:
    """Describe the colours of the heat map."""
    key = "orange: longs pay, purple: shorts pay"
    if centre:
        key = f"orange: above {centre:+g} bps; purple: below it"
    return key + "; grey: no rate" * has_gaps


def _mark_gaps(ax: Axes, is_missing: Bools, edges: pd.DatetimeIndex) -> None:
    """Draw a grey box over each run of missing cells, with a frame that makes a narrow cell visible."""
    for row, missing in enumerate(is_missing):
        changes = np.flatnonzero(np.diff(np.r_[False, missing, False].astype(int)))
        boxes = edges[changes].to_numpy()
        if not len(boxes):
            continue
        starts = boxes[::2]
        runs = list(zip(starts, boxes[1::2] - starts, strict=True))
        ax.broken_barh(runs, (row + 0.04, 0.92), facecolor=GREY, edgecolor=GREY, lw=1.2)


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
        # From the top, so that the venue with the highest rate keeps its name.
        names = [label.get_text() for label in ax.get_yticklabels()]
        ax.set_yticks(places[::-1][::step], names[::-1][::step])


def _rows(venues: list[str], *, by_kind: bool) -> list[str]:
    """Return the rows from the bottom up, with a heading above the venues of each kind if several."""
    of_kind: dict[str, list[str]] = {}
    for venue in venues:
        of_kind.setdefault(_kind(venue), []).append(venue)
    if not by_kind or len(of_kind) < 2:
        return venues
    rows: list[str] = []
    for kind in sorted(of_kind, reverse=True):
        rows += [*of_kind[kind], kind]
    return rows


def _kind(venue: str) -> str:
    """Return the kind of a venue in capitals, so that it cannot equal the name of a venue."""
    if venue not in tables.VENUES:
        return "OTHER"
    return tables.VENUES[venue].kind.upper()


def _ends(means: pd.Series) -> str:
    """Return a description of the venues with the highest and the lowest mean rate."""
    unit = "bps per 8 h"
    top = f"(mean {means.iloc[0]:+.2f} {unit})"
    bottom = f"({means.iloc[-1]:+.2f})"
    if len(means) == 1:
        return f"{means.index[0]} paid {top}"
    if f"({means.iloc[0]:+.2f})" == bottom:
        return f"longs on all {len(means)} venues paid the same {top}"
    if means.iloc[0] < 0.0:
        least = f"{means.index[0]} (mean {-means.iloc[0]:.2f} {unit})"
        return f"longs received least on {least}, most on {means.index[-1]} ({-means.iloc[-1]:.2f})"
    if means.iloc[-1] < 0.0:
        return (
            f"longs on {means.index[0]} paid most {top}, on {means.index[-1]} received {-means.iloc[-1]:.2f}"
        )
    return f"longs on {means.index[0]} paid most {top}, on {means.index[-1]} least {bottom}"


def _drawn_venues(means: pd.Series, venues: list[str] | None, highlight: int) -> list[str]:
    """Return the requested venues, or those at both ends of the ranking by mean rate."""
    if venues is None:
        return list(dict.fromkeys([*means.index[:highlight], *means.index[len(means) - highlight :]]))
    if not len(venues):
        raise ValueError("venues must be at least one venue or None, got an empty list")
    absent = [venue for venue in venues if venue not in means.index]
    if absent:
        raise ValueError(
            f"venues: data has no rate of {absent[0]!r}; it has {', '.join(means.index)}"
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
        # 1 % less than the interval, which varies by seconds. NaN if no venue has two rates: a step of a day.
        min_width = np.maximum(hours / max_steps, 0.99 * longest)
        step = next((name for name, width in STEPS.items() if width >= min_width), "1D")
    width = times.length(step, "step")
    if not width:
        raise ValueError(f"step must be longer than 0, got {step!r}")
    return frame.resample(width).mean(), width / pd.Timedelta(1, "h")


def _written(hours: float) -> str:
    if hours < 24:
        return f"{hours:g} h"
    return f"{hours / 24:g} d"


@figure_function
def carry(
    forecast: xr.Dataset | Sequence[xr.Dataset],
    kind: Literal["pairs", "hold"] = "pairs",
    *,
    source: Source | None = None,
    ax: Axes | None = None,
    figsize: Size | None = None,
) -> Axes:
    """Draw forecast carry of pairs before and after costs, or of one pair by holding time.

    Parameters
    ----------
    forecast
        Result of ``dd.analysis.funding.forecast_carry``, or several results.
    kind
        ``"pairs"``: one row per pair, highest net mean first. A ring is the mean before costs, a dot the mean
        after costs with the interval of outcomes, all as simple APR of one leg's notional over the holding
        time. At the right are the mean after costs and the probability that the outcome exceeds the costs.
        ``"hold"``: one pair at several holding times: the mean after costs with the interval of outcomes, the
        mean before costs, and the holding time at which the mean after costs rises above zero.
    source, ax, figsize
        As in every figure: see `derivdata.plot`.

    Returns
    -------
    Axes
        Title and label state the outcomes: funding only, or funding and prices for forecasts with `prices`.
        By holding time, intervals far beyond the means end in arrowheads with their values. Pairs without a
        forecast (NaN) are omitted.

    Raises
    ------
    ValueError
        No pair has a forecast; some forecasts are of funding only and others of prices too; or, by holding
        time, there are several pairs or only one time.
    """
    rows = _forecasts(forecast)
    results = _results(forecast)
    outcomes = {of_what(result) for result in results}
    if len(outcomes) > 1:
        raise ValueError(
            "some forecasts are of funding only, others of funding and prices: pass prices= to all of them, "
            "or to none"
        )
    [of] = outcomes
    levels: set[Any] = {result.attrs.get("level") for result in results}
    share = "interval"
    if len(levels) == 1 and None not in levels:
        share = f"{style.share(levels.pop())} interval"
    if kind == "hold":
        rows = rows.sort_values("hold_hours", ignore_index=True)
        ax = _by_hold(rows, of, share, ax)
    else:
        rows = rows.sort_values("net_apr", ascending=False, kind="stable", ignore_index=True)
        ax = _by_pair(rows, of, share, ax)
    return finish(ax, rows.drop(columns="name"), *results, source=source)


def _by_pair(rows: pd.DataFrame, of: str, share: str, ax: Axes | None) -> Axes:
    names = rows["name"]
    of_one = ""
    if "symbol" in rows and rows["symbol"].nunique() == 1:
        symbol = rows["symbol"].iloc[0]
        of_one = f" {symbol}"
        names = names.str.removeprefix(f"{symbol} ")  # the title has the symbol
    ax, place = style.rows(ax, list(names), 0.3)
    bar = f"{share} after costs"
    ax.hlines(place, rows["low_apr"], rows["high_apr"], color=GREY, lw=2.6, label=bar)
    ax.plot(rows["gross_apr"], place, "o", mfc="none", mec=PALETTE[0], mew=1.5, ms=6.5, label="before costs")
    ax.plot(rows["net_apr"], place, "o", color=PALETTE[1], ms=6.5, label="after costs")
    at_right: dict[str, Any] = {"xycoords": ax.get_yaxis_transform(), "textcoords": "offset points"}
    look: dict[str, Any] = {"fontsize": 8, "va": "center", "annotation_clip": False}
    forecasts = zip(place, rows["net_apr"], rows["probability_net_positive"], strict=True)
    for row, net, chance in forecasts:
        words = f"{100 * net:+.1f} %"
        if np.isfinite(chance):
            words += f", {style.share(chance)}"
        else:
            words += ", no interval"
        ax.annotate(words, (1.0, row), (4, 0), **at_right, **look)
    ax.axvline(0, color=GREY, lw=1.0)
    held = ""
    if rows["hold_hours"].nunique() == 1:
        held = f" held {style.day_words(rows['hold_hours'].iloc[0] / 24)}"
    clear = int((rows["net_bps"] > 0).sum()) or "None"
    title = f"{clear} of {len(rows)}{of_one} pairs{held} are forecast to clear their costs, {of}"
    ax.annotate("net, P(> 0)", (1.0, -0.6), (4, 3), **at_right, **(look | {"va": "bottom"}))
    style.dress(
        ax,
        title=title,
        x="simple APR of one leg [% per year]",
        y="long / short venue",
        grid="x",
    )
    style.write(ax.xaxis, "percent")
    if style.is_narrow(ax):
        style.legend(ax, "above", ncols=2)  # next to it would be the header of the percentages
    else:
        style.legend(ax, "above")
    return ax


def _by_hold(rows: pd.DataFrame, of: str, share: str, ax: Axes | None) -> Axes:
    if rows["name"].nunique() != 1 or rows["hold_hours"].nunique() < 2:
        raise ValueError("pass one pair at two or more holding times: forecast_carry(..., hold=h) for each")
    ax = style.axes(ax)
    days = rows["hold_hours"].to_numpy() / 24.0
    net = rows["net_bps"].to_numpy()
    low = rows["net_low_bps"].to_numpy()
    high = rows["net_high_bps"].to_numpy()
    ax.vlines(days, low, high, color=GREY, lw=3.0, label=f"{share} of outcomes")
    # Means between two holding times are linear in days. On the log axis they are curves, drawn as such, so
    # that the line crosses zero where `breakeven_days` says.
    between = np.union1d(days, np.geomspace(days[0], days[-1], _CURVE_POINTS))
    gross = np.interp(between, days, rows["gross_bps"])
    ax.plot(between, gross, color=PALETTE[1], lw=1.2, label="before costs")
    ax.plot(between, np.interp(between, days, net), color=PALETTE[0], lw=1.8)
    ax.plot(days, net, "o", color=PALETTE[0], ms=6, label="after costs")
    ax.axhline(0, color=GREY, lw=1.0)
    _limit_to_means(ax, days, low, high, np.r_[0.0, gross, net])
    cost = float(rows["gross_bps"].iloc[-1] - net[-1])
    even = breakeven_days(days, net)
    risk = ""
    paid = f"does not pay the costs of {cost:.3g} bps within {style.day_words(days[-1])}"
    if np.isfinite(even) and np.nanmin(low[days >= even], initial=0.0) < 0.0:
        risk = f"; its {share} includes a loss"
    key = f"{of}; grey: {share} after costs"
    if np.isfinite(even):
        length = style.day_words(round(even, 1))
        time = f"within {length}"
        if even > days[0]:
            time = f"after {length}"
        where: dict[str, Any] = {"xycoords": ax.get_xaxis_transform(), "textcoords": "offset points"}
        words = f"costs paid:\n{length}"
        ax.annotate(words, (even, 0.98), (-4, 0), ha="right", va="top", fontsize=8, **where)
        paid = f"pays the costs of {cost:.3g} bps {time}"
        ax.axvline(even, color=PALETTE[2], lw=1.4, ls=":", label=time)
    pair = rows["name"].iloc[0].replace(" / ", ", short ")
    title = f"Long {pair}: the forecast {paid}{risk}"
    style.dress(
        ax,
        title=title,
        x="holding time [days], log; below: net [bps]",
        y="mean forecast of carry\n[bps of one leg]",
    )
    ax.set_xscale("log")
    ax.set_xlim(days[0] / 1.25, days[-1] * 1.25)
    # Values are below the axis, where they cover no bar.
    ax.set_xticks(days, [f"{day:.3g}\n{value:+.1f}" for day, value in zip(days, net, strict=True)])
    ax.minorticks_off()
    style.note(ax, key)
    ends = [(gross[-1], f"before costs {gross[-1]:+.1f}", PALETTE[1])]
    ends.append((net[-1], f"after costs {net[-1]:+.1f}", PALETTE[0]))
    style.label_ends(ax, ends)
    return ax


def _limit_to_means(ax: Axes, days: Floats, low: Floats, high: Floats, means: Floats) -> None:
    """Limit the axes to the means and three times their range around them; write ends beyond."""
    span = 3.0 * float(np.ptp(means))
    # A forecast may have a mean and no interval
    bottom = max(float(np.nanmin(np.append(low, means))), float(np.min(means)) - span)
    top = min(float(np.nanmax(np.append(high, means))), float(np.max(means)) + span)
    margin = 0.08 * (top - bottom)
    ax.set_ylim(bottom - margin, top + margin)
    for end, outside, edge, shift in (
        (high, high > top + margin, 1.0, -9),
        (low, low < bottom - margin, 0.0, 9),
    ):
        style.mark_clipped(ax, days, end)
        for day, value in zip(days[outside], end[outside], strict=True):
            look: dict[str, Any] = {"fontsize": 8, "color": style.ink(), "ha": "left", "va": "center"}
            where: dict[str, Any] = {"xycoords": ax.get_xaxis_transform(), "textcoords": "offset points"}
            ax.annotate(f"{value:+.0f}", (day, edge), (5, shift), **where, **look)


def breakeven_days(days: Floats, net: Floats) -> float:
    """Return the holding time at which the mean after costs first rises to zero [days]; NaN without one.

    It is interpolated between two holding times; if the shortest is above zero already, it is the shortest.
    """
    above = np.flatnonzero(net >= 0.0)
    if not above.size:
        return float("nan")
    first = int(above[0])
    before = slice(max(first - 1, 0), first + 1)
    return float(np.interp(0.0, net[before], days[before]))


@figure_function
def cumulative_funding(
    sampled: Rates,
    settled: pd.DataFrame | None = None,
    *,
    venue: str,
    symbol: str | None = None,
    naive: bool = False,
    source: Source | None = None,
    ax: Axes | None = None,
    figsize: Size | None = None,
) -> Axes:
    """Draw the funding paid by a long: the integral of samples and the sum of settlements.

    Parameters
    ----------
    sampled
        Table ``funding_history`` or its panel of ``rate_bps_8h`` [bps/8h].
    settled
        Table ``funding_settlements`` of the same window, or None.
    venue, symbol
        The venue; the symbol, if there are several.
    naive
        Also draw the sum of the samples as if each were a payment, which counts an hourly sample eight times,
        to show this mistake.
    source, ax, figsize
        As in every figure: see `derivdata.plot`.

    Returns
    -------
    Axes
        The upper axes. With payments, they show the payments and the lower axes integral minus payments;
        title and labels give the sums at the last payment with a sample. All sums begin at the first hour
        with both samples and payments. Gaps are skipped in all lines.

    Raises
    ------
    ValueError
        The venue or the symbol is not in a table.
    """
    rates, symbol = style.one_symbol(style.panel_of(sampled, "rate_bps_8h"), symbol)
    rates = _venue(rates, venue)
    paid = None
    sources: list[Any] = [sampled]
    if settled is not None:
        rates, paid = _same_window(rates, _payments(settled, symbol, venue))
        sources.append(settled)
    accrued = funding.cumulative(rates, gaps="skip")["funding_bps"]
    times = rates["time"].values
    lines = {"integral_bps": accrued.to_series()}
    # All sums are at one time, so that they differ by the last value of the lower axes.
    end = _last_of_both(accrued, paid)
    total = _last(accrued.sel(time=slice(None, end)))
    if paid is None:
        upper = lowest = style.axes(ax)
    else:
        upper, lowest = style.strips(ax, 3.0, 1.2)
    amount = total
    if paid is None:
        upper.plot(times, accrued, color=PALETTE[0], lw=2.0)
        _label_end(upper, accrued.to_series(), f"samples × time {total:+,.1f} bps", PALETTE[0])
    else:
        # Only the payments, as both lines nearly coincide: the difference has axes of its own.
        amount = _last(paid.sel(time=slice(None, end)))
        upper.step(paid["time"].values, paid, where="post", color=PALETTE[0], lw=2.0)
        _label_end(upper, paid.to_series(), f"payments {amount:+,.1f} bps", PALETTE[0])
        lines["payments_bps"] = paid.to_series()
        _difference(lowest, lines)
    if naive:
        added = rates.cumsum("time").where(rates.notnull())
        label = f"naive sum {_last(added.sel(time=slice(None, end))):+,.1f} bps"
        most = float(accrued.max())
        if most > 0:
            label += f"\n({float(added.max()) / most:.2g} × too much)"
        # The axes show the correct sums; the wrong one leaves them at the top or the bottom.
        low, high = upper.get_ylim()
        upper.plot(times, added, color=GREY, lw=1.4, ls=":")
        upper.set_ylim(low, high + 0.4 * (high - low) * (most > 0))
        _label_end(upper, added.to_series(), label, GREY)
        lines["naive_sum_bps"] = added.to_series()
    upper.axhline(0, color=GREY, lw=0.8)
    if not np.isfinite([amount, total]).all():
        raise ValueError(
            f"sampled and settled must have values of {symbol} on {venue}, got only missing ones"
        )
    days = (end - times[0]) / np.timedelta64(1, "D")
    did = "paid" if amount >= 0 else "received"
    title = f"{symbol} on {venue}: a long {did} {abs(amount):.1f} bps in {style.day_words(days)}"
    if paid is not None:
        more = "more" if total >= amount else "less"
        title += f"; samples give {abs(total - amount):.1f} bps {more}"
    style.dress(upper, title=title, y="paid by a long\n[bps]", form="number")
    style.utc_axis(lowest)
    table = pd.DataFrame(lines).rename_axis("time").reset_index()
    return finish(upper, table, *sources, source=source, lowest=lowest)


def _label_end(ax: Axes, line: pd.Series, words: str, color: str) -> None:
    """Write words at the end of a line, or at an arrowhead where it leaves the axes."""
    low, high = ax.get_ylim()
    line = line.dropna()
    outside = line[(line < low) | (line > high)]
    if line.empty:
        return
    look: dict[str, Any] = {"fontsize": 8, "color": style.ink(), "textcoords": "offset points"}
    if outside.empty:
        # Left of the end, on the side of the line that a rising or a falling line leaves free.
        rises = line.iloc[-1] >= line.iloc[0]
        look |= {"ha": "right", "va": "bottom" if rises else "top"}
        style.lift(ax.annotate(words, (line.index[-1], line.iloc[-1]), (-12, 6 if rises else -6), **look))
        return
    is_above = bool(outside.iloc[0] > high)
    at = (outside.index[0], high if is_above else low)
    ax.plot(*at, "^" if is_above else "v", color=color, ms=6, clip_on=False)
    ax.annotate(words, at, (8, 0), va="top" if is_above else "bottom", **look)


def _difference(ax: Axes, lines: dict[str, pd.Series]) -> None:
    """Draw the integral of samples minus the sum of payments, at the times of payments."""
    both = pd.concat(lines, axis=1, sort=True).dropna()
    difference = both["integral_bps"] - both["payments_bps"]
    ax.plot(difference.index, difference, color=PALETTE[1], lw=1.6)
    ax.axhline(0, color=GREY, lw=0.8)
    style.dress(ax, y="samples −\npayments\n[bps]", form="number")


def _venue(rates: xr.DataArray, venue: str) -> xr.DataArray:
    if "exchange" not in rates.dims:
        raise ValueError(f"sampled has no dim 'exchange'; its dims are {tuple(map(str, rates.dims))}")
    venues = list(map(str, rates["exchange"].values))
    if venue not in venues:
        raise ValueError(
            f"{venue=} is not in the data, which has {', '.join(venues)}{did_you_mean(venue, venues)}"
        )
    return rates.sel(exchange=venue)


def _payments(settled: pd.DataFrame, symbol: str, exchange: str) -> xr.DataArray:
    numbers = ("rate_bps_8h", "interval_hours")
    require_columns(settled, "settled", numbers, others=("symbol", "exchange", "time"))
    rows = settled[(settled["symbol"] == symbol) & (settled["exchange"] == exchange)]
    if rows.empty:
        raise ValueError(f"settled has no payments of {symbol} on {exchange}")
    return panel(rows, "rate_bps_8h").isel(symbol=0, exchange=0)


def _same_window(rates: xr.DataArray, paid: xr.DataArray) -> tuple[xr.DataArray, xr.DataArray]:
    """Return samples and cumulative payments from the first hour that has both.

    A payment covers the interval before it, so a payment whose interval begins before the first sample is
    omitted. Samples before the first covered hour are omitted too.
    """
    paid = paid.dropna("time")
    covered = paid["interval_hours"].to_numpy() * np.timedelta64(3600, "s")
    begins = paid["time"].to_numpy() - covered
    paid = paid.isel(time=begins >= rates["time"].to_numpy()[0])
    if not paid.sizes["time"]:
        raise ValueError(
            "settled: expected a payment whose interval is within the window of sampled, got none; use a "
            "common window"
        )
    rates = rates.sel(time=slice(np.min(begins[begins >= rates["time"].to_numpy()[0]]), None))
    return rates, funding.cumulative(paid, gaps="skip")["funding_bps"]


def _last_of_both(accrued: xr.DataArray, paid: xr.DataArray | None) -> np.datetime64:
    """Return the last time with a sample and, if there are payments, with a payment too."""
    stamps = accrued["time"].values
    if paid is not None:
        both, _ = xr.align(accrued.dropna("time"), paid.dropna("time"), join="inner")
        if both.sizes["time"]:
            stamps = both["time"].values
    end: np.datetime64 = stamps[-1]
    return end


def _last(line: xr.DataArray) -> float:
    finite = line.dropna("time")
    if not finite.size:
        return float("nan")
    return float(finite.isel(time=-1))


def _results(forecast: xr.Dataset | Sequence[xr.Dataset]) -> list[xr.Dataset]:
    """Return the forecasts as a list, checked to be results of `forecast_carry`."""
    if isinstance(forecast, xr.Dataset):
        forecast = [forecast]
    for result in forecast:
        require_variables(result, "forecast", _NUMBERS)
        for name in ("long", "short"):
            if name not in result.coords:
                raise ValueError(f"forecast has no coordinate {name!r}: pass the result of forecast_carry")
    return list(forecast)


def _forecasts(forecast: xr.Dataset | Sequence[xr.Dataset]) -> pd.DataFrame:
    """Return one row per pair and holding time with a net forecast."""
    frames = []
    for result in _results(forecast):
        if result.dims:
            frames.append(result.drop_attrs().to_dataframe().reset_index())
        else:
            # `to_dataframe` takes a hundred times as long for a single row.
            row = {name: [variable.values[()]] for name, variable in result.variables.items()}
            frames.append(pd.DataFrame(row))
    no_pair = pd.DataFrame(columns=["net_bps"])
    rows = pd.concat(frames or [no_pair], ignore_index=True)
    rows = rows[rows["net_bps"].notna()].reset_index(drop=True)
    if rows.empty:
        raise ValueError("no pair has a forecast; its status has the reason (1: too few past decisions)")
    for name, of in {"net": "net", "gross": "gross", "low": "net_low", "high": "net_high"}.items():
        rows[f"{name}_apr"] = convert(rows[f"{of}_bps"], "bps", "apr", hours=rows["hold_hours"])
    rows["name"] = rows["long"].astype(str) + " / " + rows["short"].astype(str)
    if "symbol" in rows:
        rows["name"] = rows["symbol"].astype(str) + " " + rows["name"]
    return rows
