"""Figures of volatility over time and by maturity: implied, realised, skew, cones, term structure, basis."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pandas as pd
import xarray as xr

from derivdata.analysis import surface
from derivdata.analysis.panels import decimal_volatility, require_variables
from derivdata.analysis.volatility import by_window_end
from derivdata.plot import frames, style
from derivdata.plot.fits import (
    EXPIRY,
    apart,
    at_the_money,
    days,
    expiry_axis,
    expiry_ticks,
    fit_of,
    fitted,
    is_fit,
    name_of,
    remaining,
    single,
    timestamp_of,
)
from derivdata.plot.frames import Chain, Engine, Size, Source, figure_function, finish, only_for
from derivdata.plot.style import GREY, PALETTE
from derivdata.support.arrays import Array
from derivdata.support.times import naive_utc
from derivdata.tables.frames import require_columns, require_timestamps

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_SHOWN = ("strip_index", "atm", "rr25")
_FEW = 40
"""Lines with at most this many points have markers."""
_PUBLISHED = ("published index", "index from chains")
_TEXT_WIDTH = 0.12
"""Width of the label of a value, as a fraction of the width of the axes."""
_MIN_POINTS = 4.0
"""Minimum range of the axis of volatility [points], so that noise does not look like a move."""
_MIN_SKEW = 1.0
"""Minimum range of the axis of the skew [points]."""


@figure_function
def volatility(
    data: xr.Dataset | xr.DataArray,
    kind: Literal["history", "realised", "published", "cone"] = "history",
    *,
    realised: xr.DataArray | None = None,
    ahead: bool = False,
    computed: xr.DataArray | None = None,
    implied: Mapping[float, float] | None = None,
    symbol: str = "",
    source: Source | None = None,
    ax: Axes | None = None,
    figsize: Size | None = None,
) -> Axes:
    """Draw volatility over time: an index with skew, implied and realised volatility, or a cone.

    Parameters
    ----------
    data
        For ``"history"``: result of ``dd.analysis.surface.history`` for one symbol and venue, with the points
        ``atm`` and ``rr25``. For ``"realised"``: implied volatility [1/√year or %]
        with the dim ``time`` only; a scalar coordinate ``tenor`` [days] appears in the labels. For
        ``"published"``: a venue's published index, in the same form. For ``"cone"``: result of
        ``dd.analysis.volatility.cone`` for one symbol and venue.
    kind
        ``"history"``: a volatility index, or volatility at the forward of the middle time to expiry without
        one; below it call minus put volatility at 25 delta, in points, one line per time to expiry. A time
        without a fit is a gap. ``dd.plot.data(ax)`` has volatility at the forward at all times to expiry.
        ``"realised"``: implied and realised volatility, shaded by which is higher.
        ``"published"``: a published index and an index computed from chains, in the same way.
        ``"cone"``: distribution of volatility by length of window, shaded between the outermost quantiles
        and, darker, between the next ones if there are four or more; a line for the median; dots for the
        latest window, diamonds for implied volatility.
    realised
        For ``"realised"``: realised volatility in the same form, labelled with the end of its window. The
        length of the windows appears in the labels for results of ``dd.analysis.volatility``.
    ahead
        For ``"realised"``: draw the realised volatility of the following window, as `ahead` of
        ``dd.analysis.volatility.implied_minus_realised``: at the start of its window and not at the end. It
        is missing where the window is not over. `realised` must be a result of ``dd.analysis.volatility``.
    computed
        For ``"published"``: the index computed from chains, in the same form.
    implied
        For ``"cone"``: implied volatility [1/√year] by days to expiry.
    symbol
        Symbol for the title; not used for cones.
    source, ax, figsize
        As in every figure: see `derivdata.plot`.

    Returns
    -------
    Axes
        The axes of volatility; the upper ones of several strips.

    Raises
    ------
    ValueError
        `data` or `realised` does not fit the `kind`, has several symbols or venues, another unit, or only
        missing values; or an option belongs to another `kind`.
    """
    only_for(kind, ("realised",), realised=realised, ahead=ahead or None)
    only_for(kind, ("published",), computed=computed)
    only_for(kind, ("cone",), implied=implied)
    if kind == "realised":
        names = ("implied", "realised")
        return _two_lines(data, realised, names, names, symbol, source, ax, ahead=ahead)
    if kind == "published":
        return _two_lines(data, computed, ("published", "computed"), _PUBLISHED, symbol, source, ax)
    if not isinstance(data, xr.Dataset):
        raise ValueError(f"kind={kind!r} needs a Dataset, got a DataArray")
    if kind == "cone":
        return _cone(data, implied or {}, source, ax)
    return _over_time(data, symbol, source, ax)


def _two_lines(
    data: Any,
    other: Any,
    names: tuple[str, str],
    words: tuple[str, str],
    symbol: str,
    source: Source | None,
    ax: Axes | None,
    *,
    ahead: bool = False,
) -> Axes:
    """Draw two volatilities over time, shaded by which is higher, with their mean difference as the title.

    `names` are columns of the table behind the figure, `words` the start of the labels. With `ahead`, the
    second one is drawn at the start of its windows.
    """
    first = _over_time_in_decimal(data, "data")
    second = _over_time_in_decimal(other, names[1])
    first_label = words[0]
    if "tenor" in first.coords:
        first_label += _length(float(first["tenor"]))
    step_days = float(second["time"].diff("time").median() / np.timedelta64(1, "D"))
    window_days = step_days * second.attrs.get("steps", np.nan)
    second_label = words[1] + _length(window_days)
    if ahead:
        if not np.isfinite(window_days):
            raise ValueError(
                f"ahead=True needs the length of the windows in {names[1]}.attrs['steps']: pass the result "
                "of dd.analysis.volatility.realised, without arithmetic"
            )
        second = second.assign_coords(time=second["time"] - pd.Timedelta(window_days, "D").to_numpy())
        second_label = f"{words[1]} over the next {style.day_words(window_days)}"
    table = pd.DataFrame({names[0]: first.to_series(), names[1]: second.to_series()})
    ax = style.axes(ax)
    _shade_between(ax, table[names[0]], table[names[1]])
    _draw_line(ax, first, first_label, PALETTE[0])
    _draw_line(ax, second, second_label, PALETTE[1])
    title = f"{symbol or 'Volatility'}: {_mean_difference(first, second, first_label, second_label)}"
    style.dress(ax, title=title, y="volatility [% annualised]", form="percent")
    style.legend(ax, "above")
    style.utc_axis(ax)
    return finish(ax, table.rename_axis("time").reset_index(), first, second, source=source)


def _over_time_in_decimal(data: Any, name: str) -> xr.DataArray:
    """Return a volatility [1/√year] after checks of its dim, values and unit, realised ones by window end."""
    dims = getattr(data, "dims", ())
    if dims != ("time",) or not data.notnull().any():
        others = [f"{dim}=..." for dim in dims if dim != "time"]
        remedy = ""
        if others:
            remedy = f": select with {name}.sel({', '.join(others)})"
        raise ValueError(f"{name} must be an array with one dim, time, and a value{remedy}")
    return by_window_end(decimal_volatility(data, name))


def _shade_between(ax: Axes, first: pd.Series, second: pd.Series) -> None:
    """Shade the area between two lines in the colour of the higher one."""
    # The lines may have different times: interpolate, so that the shading follows both drawn lines.
    lines = pd.DataFrame({"first": first, "second": second})
    lines = lines.interpolate("time", limit_area="inside").dropna()
    look: dict[str, Any] = {"alpha": 0.18, "lw": 0}
    first_is_higher = lines["first"] > lines["second"]
    second_is_higher = lines["first"] < lines["second"]
    for where, color in ((first_is_higher, PALETTE[0]), (second_is_higher, PALETTE[1])):
        ax.fill_between(lines.index, lines["first"], lines["second"], where=where, color=color, **look)


def _draw_line(ax: Axes, line: xr.DataArray, label: str, color: str) -> None:
    """Draw a volatility over time, with its last value in the legend and markers if it is short."""
    present = line.dropna("time")
    marker = None
    if present.sizes["time"] <= _FEW:
        marker = "o"
    look: dict[str, Any] = {"color": color, "lw": 1.5, "marker": marker, "ms": 3.5}
    ax.plot(line["time"].values, line.values, label=f"{label}: {100 * float(present[-1]):.1f} %", **look)


def _mean_difference(first: xr.DataArray, second: xr.DataArray, first_label: str, second_label: str) -> str:
    """Return a description of the mean difference at common times, or only the labels without one."""
    points = 100 * float((first - second).mean())  # xarray subtracts at common times only
    if not np.isfinite(points):
        return f"{first_label} and {second_label}"
    if f"{abs(points):.1f}" == "0.0":
        return f"{first_label} and {second_label} are equal on average"
    side = "below"
    if points > 0:
        side = "above"
    return f"{first_label} {abs(points):.1f} points {side} {second_label} on average"


def _length(days: float) -> str:
    return f" ({style.day_words(days)})" if np.isfinite(days) else ""


def _cone(cone: xr.Dataset, implied: Mapping[float, float], source: Source | None, ax: Axes | None) -> Axes:
    require_variables(cone, "data", ("volatility", "latest", "window"), dims=("window", "quantile"))
    volatility = cone["volatility"].squeeze(drop=True)
    if "window" not in volatility.dims:
        volatility = volatility.expand_dims("window")
    if set(volatility.dims) - {"window", "quantile"}:
        raise ValueError(f"data has dims {cone['volatility'].dims}: select one symbol and venue")
    values = volatility.transpose("quantile", "window").to_numpy()
    quantiles = cone["quantile"].to_numpy()
    days = cone["window"].to_numpy()
    ax = style.axes(ax)
    ends = []
    key = _draw_bands(ax, days, values, quantiles)
    if len(quantiles) % 2:
        median = values[len(quantiles) // 2]
        ax.plot(days, median, color=GREY, lw=1.6, label="median")
        ends.append((float(median[-1]), f"median {median[-1]:.1%}".replace("%", " %"), GREY))
    latest = np.atleast_1d(cone["latest"].squeeze(drop=True).to_numpy())
    ax.plot(days, latest, "o", color=style.ink(), mec=style.paper(), ms=6, label="latest window")
    ends.append((float(latest[-1]), f"realised {latest[-1]:.1%}".replace("%", " %"), style.ink()))
    if implied:
        volatilities = list(implied.values())
        ax.plot(list(implied), volatilities, "D", color=PALETTE[1], mec=style.paper(), ms=7, label="implied")
        last = implied[max(implied)]
        ends.append((last, f"implied {last:.1%}".replace("%", " %"), PALETTE[1]))
    place = _named_window(days, implied)
    named = f"{days[place]:g}-day"
    level = implied.get(float(days[place]))
    title = f"{named} realised volatility is {_rank(latest[place], values[:, place], quantiles)} windows"
    if level is not None:
        title = f"{named} implied volatility is {_rank(level, values[:, place], quantiles)} realised windows"
    title = f"{_of_what(cone)}{title}"
    y = "volatility [% annualised]"
    x = "window, time to expiry [days], log scale"
    if implied and max(implied) > np.max(days):
        x += f"; no windows beyond {style.day_words(np.max(days))}"
    style.dress(ax, title=title, x=x, y=y, form="percent")
    ax.set_xscale("log")
    ticks = sorted({float(day) for day in (*days, *implied)})
    ticks = [ticks[place] for place in apart(np.log(ticks), 0.1 * np.log(ticks[-1] / ticks[0]))]
    ax.set_xticks(ticks, [f"{day:g}" for day in ticks])
    ax.minorticks_off()
    style.note(ax, f"{key}; dots: latest windows".removeprefix("; "))
    style.label_ends(ax, [end for end in ends if np.isfinite(end[0])])
    table = pd.DataFrame(values.T, columns=[f"quantile_{100 * q:g}" for q in quantiles])
    table = pd.concat([pd.DataFrame({"days": days}), table.assign(latest=latest)], axis=1)
    return finish(ax, table, cone, source=source)


def _draw_bands(ax: Axes, days: Array, values: Array, quantiles: Array) -> str:
    """Draw bands between the outermost quantiles and, darker, between the next ones; return their key."""
    ranges = []
    for inner in range(min(2, len(quantiles) // 2)):
        ranges.append(f"{100 * quantiles[inner]:g} to {100 * quantiles[-1 - inner]:g} %")
        look: dict[str, Any] = {"color": PALETTE[5], "alpha": 0.3, "lw": 0, "label": ranges[-1]}
        ax.fill_between(days, values[inner], values[-1 - inner], **look)
    if len(ranges) == 2:
        return f"pale band: {ranges[0]} of past windows; dark: {ranges[1]}"
    return f"band: {ranges[0]} of past windows" if ranges else ""


def _of_what(cone: xr.Dataset) -> str:
    """Return symbol and venue of a cone for the title, if it has them."""
    names = [
        str(cone[name].item()) for name in ("symbol", "exchange") if name in cone and cone[name].size == 1
    ]
    return f"{' on '.join(names)}: " if names else ""


def _named_window(days: Array, implied: Mapping[float, float]) -> int:
    """Return the place of the longest window, which has labels, or of the longest with implied volatility."""
    with_implied = [place for place, day in enumerate(days) if float(day) in implied]
    if not with_implied:
        return len(days) - 1
    return with_implied[-1]


def _rank(value: float, levels: Array, quantiles: Array) -> str:
    """Return a description of the rank of a value among quantiles of past windows."""
    if value < levels[0]:
        return f"below {100 * (1.0 - quantiles[0]):.0f} % of past"
    rank = np.interp(value, levels, quantiles)
    return f"above {100 * rank:.0f} % of past" if np.isfinite(rank) else "not known for"


def _over_time(history: xr.Dataset, symbol: str, source: Source | None, ax: Axes | None) -> Axes:
    require_variables(history, "data", _SHOWN, dims=("time", "tenor"))
    seen = history[list(_SHOWN)].squeeze(
        [dim for dim in history.dims if dim not in ("time", "tenor") and history.sizes[dim] == 1], drop=True
    )
    if set(seen.dims) - {"time", "tenor"}:
        raise ValueError(f"data has dims {tuple(map(str, seen.dims))}: select one symbol and one venue")
    tenors = seen["tenor"].to_numpy()
    lines = {f"{name}_{tenor:g}d": seen[name].sel(tenor=tenor) for name in _SHOWN[1:] for tenor in tenors}
    table = pd.DataFrame({"time": seen["time"], "strip_index": seen["strip_index"], **lines})
    if not table.drop(columns="time").notna().to_numpy().any():
        raise ValueError("data has only missing values; its variable 'status' has the reason")
    upper, lower = style.strips(ax, 2.2, 1.3, size=(8.0, 5.0), gap=0.06)
    middle = tenors[len(tenors) // 2]
    # 1. The index, or volatility at the money without one.
    name = f"{history.attrs.get('index_days', 30.0):g}-day strip index"
    level = 100.0 * table["strip_index"]
    if level.isna().all():
        name = f"{middle:g}-day ATM volatility"
        level = 100.0 * table[f"atm_{middle:g}d"]
    upper.plot(table["time"], level, color=PALETTE[0], lw=1.8, label=name)
    upper.margins(y=0.2)  # space for the values beside the line
    _set_range(upper, _MIN_POINTS)
    title = f"{symbol + ': ' if symbol else ''}{_finding(table['time'], level, name)}"
    style.dress(upper, title=f"{title}{_skew(table, middle)}", y=f"{name}\n[% annualised]")
    upper.locator_params(axis="y", nbins=5, steps=[1, 2, 2.5, 5, 10], min_n_ticks=3)
    _mark_values(upper, table["time"], level)
    # 2. Calls minus puts, in a range of their own: from zero, a change of the skew would be invisible.
    ends = []
    for place, tenor in enumerate(tenors):
        skew = 100.0 * table[f"rr25_{tenor:g}d"]
        color = PALETTE[(1 + place) % 8]
        lower.plot(table["time"], skew, lw=1.5, color=color)
        if skew.notna().any():
            ends.append((skew.dropna().iloc[-1], f"{tenor:g} d {skew.dropna().iloc[-1]:+.2f}", color))
    _set_range(lower, _MIN_SKEW)
    style.dress(lower, y="25Δ calls − puts\n[points]")
    lower.locator_params(axis="y", nbins=4, steps=[1, 2, 5, 10])
    style.label_ends(lower, ends)
    style.utc_axis(lower, has_labels=True)
    return finish(upper, table, history, source=source, lowest=lower)


def _set_range(ax: Axes, least: float) -> None:
    """Extend the y axis around its middle to at least `least`."""
    low, high = ax.get_ylim()
    missing = max(least - (high - low), 0.0)
    ax.set_ylim(low - missing / 2.0, high + missing / 2.0)


def _mark_values(ax: Axes, time: pd.Series, level: pd.Series) -> None:
    """Write the first, the lowest, the highest and the last value [%] next to the line.

    An extreme near one of the ends, which have labels, is omitted.
    """
    values = level.dropna()
    if values.empty:
        return
    style.label_ends(ax, [(values.iloc[-1], f"{values.iloc[-1]:.1f} %", PALETTE[0])])
    if not np.ptp(values):
        return
    elapsed = (time[values.index] - time[values.index[0]]) / np.ptp(time[values.index])
    marked = [values.index[0]]
    for row in (values.idxmin(), values.idxmax()):
        gaps = [abs(values[row] - values[end]) / np.ptp(values) for end in (marked[0], values.index[-1])]
        if min(gaps) > 0.1:
            marked.append(row)
    for row in marked:
        beside = values[(elapsed - elapsed[row]).abs() <= _TEXT_WIDTH]
        is_low = values[row] < beside.mean()
        look: dict[str, Any] = {"fontsize": 8, "textcoords": "offset points", "ha": "center"}
        if elapsed[row] < _TEXT_WIDTH:
            look["ha"] = "left"
        elif elapsed[row] > 1.0 - _TEXT_WIDTH:
            look["ha"] = "right"
        look["va"] = "top" if is_low else "bottom"
        ax.plot(time[row], values[row], "o", ms=4, color=PALETTE[0])
        shift = -5.0 if is_low else 5.0
        style.lift(ax.annotate(f"{values[row]:.1f}", (time[row], values[row]), (0.0, shift), **look))


def _finding(time: pd.Series, level: pd.Series, name: str) -> str:
    """Return a description of the last value of a volatility [%] and its change."""
    values = level.dropna()
    if values.empty:
        return f"no {name}"
    now = values.iloc[-1]
    if len(values) == 1:
        return f"{name} is {now:.1f} %"
    change = f"{now - values.iloc[0]:+.1f}"
    move = f"rose {change[1:]} points to"
    if float(change) == 0.0:
        move = "is unchanged at"
    elif change[0] == "-":
        move = f"fell {change[1:]} points to"
    span = style.span_words(style.days_between(time[values.index]))
    return f"{name} {move} {now:.1f} % in {span}{_turn(values)}"


def _turn(values: pd.Series) -> str:
    """Return the peak or low between the ends if it is far beyond both; empty otherwise."""
    first, last = values.iloc[0], values.iloc[-1]
    change = abs(last - first)
    above = values.max() - max(first, last)
    below = min(first, last) - values.min()
    if max(above, below) < _FAR * change or max(above, below) < 1.0:
        return ""
    if above >= below:
        return f", after a peak of {values.max():.1f} %"
    return f", after a low of {values.min():.1f} %"


def _skew(table: pd.DataFrame, tenor: float) -> str:
    """Return a description of the last skew at a time to expiry [days]; empty without one."""
    skew = table[f"rr25_{tenor:g}d"].dropna()
    if skew.empty:
        return ""
    side = "puts" if skew.iloc[-1] < 0 else "calls"
    other = "calls" if side == "puts" else "puts"
    return f"; {tenor:g}-day 25Δ {side} cost {100 * abs(skew.iloc[-1]):.1f} points more than {other}"


if TYPE_CHECKING:
    from matplotlib.axes import Axes

_NARROW = 300.0
_FORWARD = "forward volatility"
_AT_FORWARD = "at the money"
_WIDE_SPREAD = 2.0
"""Multiple of the range of volatilities beyond which quoted bounds are omitted."""
_FLAT = 0.005
"""Range of volatility below which a term structure is described as nearly flat [1/√year]."""
_FAR = 2.0
"""Multiple of the change between the ends beyond which a title also states the peak or low."""
_UNCHANGED = 0.05
"""Median change below which volatility is described as unchanged [volatility points]."""
_MIN_RANGE = 0.02
"""Minimum range of the axis, so that a flat line does not look steep [1/√year]."""
_PERCENT: dict[str, Any] = {"tickformat": ".3~%"}


@figure_function
def term_structure(
    data: Chain,
    kind: Literal["volatility", "basis"] = "volatility",
    *,
    before: Chain | None = None,
    source: Source | None = None,
    ax: Axes | None = None,
    figsize: Size | None = None,
    engine: Engine = "matplotlib",
) -> Axes | Any:
    """Draw the term structure of volatility, or of the basis implied by options.

    Parameters
    ----------
    data
        For ``"volatility"``: a fit of ``dd.analysis.surface``, or the table ``options_snapshot`` or a surface
        of ``dd.options.surface``, to which a surface is fitted first. For ``"basis"``: result of
        ``dd.analysis.chain.basis`` for one chain, with its spot.
    kind
        ``"volatility"``: volatility at the forward, with bid and ask if the fit has them. A second line shows
        the volatility of an earlier time (`before`), or else the forward volatility between expiries, which
        is missing where total variance falls. Very wide bounds, which would flatten the line, are omitted.
        ``"basis"``: forward over spot as simple annual rate.
    before
        At-the-money volatility of an earlier time, drawn at the same expiries: a fit, or rows of one time of
        the table ``options_atm_history``.
    source, ax, figsize, engine
        As in every figure: see `derivdata.plot`.

    Returns
    -------
    Axes, or a plotly Figure
        The title states the change since `before`, and the shape of the term structure.

    Raises
    ------
    ValueError
        There are several surfaces or chains, no expiry has a fit or a basis, or `before` has several times.
    """
    only_for(kind, ("volatility",), before=before)
    if kind == "basis":
        return _basis(data, source, ax, engine)
    return _at_the_money(data, before, source, ax, engine)


def _at_the_money(
    data: Chain, before: Chain | None, source: Source | None, ax: Axes | None, engine: Engine
) -> Axes | Any:
    """Draw volatility at the forward with its quoted bounds, and one comparison."""
    fit = fitted(single(fit_of(data), "a term structure"))
    term = surface.term_structure(fit)
    tenors = days(fit)
    dates = pd.DatetimeIndex(fit["expiry"].to_numpy())
    atm = np.asarray(term["atm"])
    vol = np.asarray(term["forward_vol"])
    table = pd.DataFrame({"expiry": dates, "days": tenors, "atm": atm, "forward_vol": vol})
    other = f"grey: {_FORWARD} between expiries"
    compared = ["atm", "forward_vol"]
    if before is not None:
        past, when = _before(before, fit)
        earlier = f"{when.day} {when:%b %H:%M}"
        table["atm_before"] = table["expiry"].map(past.set_index("expiry")["iv"])
        other = f"dashed: {earlier}"
        compared = ["atm", "atm_before"]
    levels = table[compared].to_numpy()
    low = float(np.nanmin(levels))
    high = float(np.nanmax(levels))
    bounds = _bounds(fit, max(high - low, _MIN_RANGE))
    if bounds is not None:
        table["atm_half_spread"] = bounds
    name = name_of(fit)
    title = f"{name}: {_shape(table)}"
    if before is not None:
        title = f"{name}: {_change(table, earlier)}{_shape(table)}"
    y = "implied volatility [% a year]"
    half = np.zeros(len(atm)) if bounds is None else np.nan_to_num(bounds)
    low = min(low, float(np.nanmin(atm - half)))
    high = max(high, float(np.nanmax(atm + half)))
    middle = (low + high) / 2.0
    reach = max(1.1 * (high - low), _MIN_RANGE) / 2.0
    limits = (middle - reach, middle + reach)
    if engine == "plotly":
        lines = [_line_of(table, "atm", _AT_FORWARD, error_y={"array": bounds})]
        if before is None:
            lines.append(_steps_of(tenors, vol))
        else:
            lines.append(_line_of(table.dropna(subset="atm_before"), "atm_before", earlier, 4))
        axis = _PERCENT | {"range": limits}
        return _interactive([frames.Strip(lines, y, axis=axis)], title, table, data, source=source)
    ax = style.axes(ax, size=(8.0, 4.6))
    key = "dots: at the money"
    if bounds is not None:
        quoted = np.isfinite(bounds)
        ends = (atm - bounds)[quoted], (atm + bounds)[quoted]
        ax.vlines(tenors[quoted], *ends, color=PALETTE[5], lw=3.5, label="bid to ask")
        key += ", bars: bid to ask"
    if before is None:
        ax.hlines(vol, _starts(tenors), tenors, color=GREY, lw=1.8, label=_FORWARD)
    else:
        ax.plot(past["days"], past["iv"], "o--", ms=3.5, lw=1.3, color=style.muted(), label=earlier)
    ax.plot(tenors, atm, "o-", ms=5, lw=2.0, color=PALETTE[0], label=_AT_FORWARD, zorder=3)
    ax.set_ylim(*limits)
    style.dress(ax, title=title, y=y, form="percent")
    style.note(ax, f"{key}; {other}")
    expiry_axis(ax, tenors, dates)
    return finish(ax, table, data, source=source)


def _bounds(fit: xr.Dataset, span: float) -> Array | None:
    """Return half the quoted spread at the money by expiry; NaN if unknown or far wider than `span`."""
    if "atm_half_spread_vol" not in fit:
        return None
    half = np.asarray(fit["atm_half_spread_vol"], dtype=np.float64)
    half = np.where(half <= _WIDE_SPREAD * span, half, np.nan)
    if not np.isfinite(half).any():
        return None
    return half


def _change(table: pd.DataFrame, earlier: str) -> str:
    """Return a description of the median change since an earlier time."""
    moved = 100.0 * float((table["atm"] - table["atm_before"]).median())
    if not np.isfinite(moved):
        return ""
    if abs(moved) < _UNCHANGED:
        return f"volatility is unchanged since {earlier}; it "
    side = "above" if moved >= 0.0 else "below"
    return f"volatility is {abs(moved):.1f} points {side} {earlier}; it "


def _shape(table: pd.DataFrame) -> str:
    """Return a sentence about the shape of the term structure at the money."""
    rows = table[np.isfinite(table["atm"])].sort_values("days")
    atm = rows["atm"].to_numpy()
    spans = list(map(remaining, rows["days"]))
    subject = ""  # after `_change`, which ends with "; it"
    if "atm_before" not in table or not np.isfinite((table["atm"] - table["atm_before"]).median()):
        subject = "at-the-money volatility "
    if len(atm) == 1:
        return f"{subject}is {atm[0]:.1%} in {spans[0]}".replace("%", " %")
    if np.ptp(atm) < _FLAT:
        return f"{subject}is nearly flat at {np.mean(atm):.1%}".replace("%", " %")
    ends = atm[[0, -1]]
    top = int(np.argmax(atm))
    bottom = int(np.argmin(atm))
    hump = atm[top] - np.max(ends)
    trough = np.min(ends) - atm[bottom]
    first = f"{atm[0]:.1%} in {spans[0]}"
    last = f"{atm[-1]:.1%} in {spans[-1]}"
    if max(hump, trough) > _FLAT / 2.0 and hump >= trough:
        words = f"peaks at {atm[top]:.1%} in {spans[top]} and falls to {last}"
    elif max(hump, trough) > _FLAT / 2.0:
        words = f"dips to {atm[bottom]:.1%} in {spans[bottom]} and rises to {last}"
    elif atm[-1] > atm[0]:
        words = f"rises from {first} to {last}"
    else:
        words = f"falls from {first} to {last}"
    return f"{subject}{words}".replace("%", " %")


def _starts(tenors: Any) -> Any:
    """Return the start of the step up to each expiry."""
    return np.r_[tenors[0] / 1.3, tenors[:-1]]


def _steps_of(tenors: Any, levels: Any) -> Any:
    """Return the steps up to each expiry as a plotly line with a gap after each step."""
    x = np.column_stack([_starts(tenors), tenors, np.full(len(tenors), np.nan)]).ravel()
    stroke = {"color": GREY, "width": 2}
    return frames.plotly_line(x, np.repeat(levels, 3), _FORWARD, "%{y:.2%} a year", line=stroke)


def _line_of(table: pd.DataFrame, column: str, name: str, place: int = 0, **options: Any) -> Any:
    """Return a column of the table over days to expiry as a plotly line, with expiries in the hover text."""
    hover = "%{customdata|%Y-%m-%d %H:%M} UTC, %{x:.1f} days<br>%{y:.2%} a year"
    dated = {"mode": "lines+markers", "customdata": table["expiry"]} | options
    return frames.plotly_line(table["days"], table[column], name, hover, place, **dated)


def _interactive(strips: list[frames.Strip], title: str, table: Any, *data: Any, **more: Any) -> Any:
    """Return a plotly figure over listed expiries, with labels that fit on a narrow screen."""
    limits, ticks = expiry_ticks(table["days"], table["expiry"], _NARROW)
    axis: Any = {"type": "log", "range": np.log10(limits), "tickvals": list(ticks), "label": EXPIRY}
    axis["ticktext"] = [frames.plotly_text(label) for label in ticks.values()]
    return frames.plotly_figure(strips, title, table, *data, **axis, **more)


def _basis(data: Chain, source: Source | None, ax: Axes | None, engine: Engine) -> Axes | Any:
    """Draw the simple annual rate of each forward over spot, and the growth between expiries."""
    if not isinstance(data, xr.Dataset):
        raise TypeError("data must be the result of dd.analysis.chain.basis, got a table")
    require_variables(data, "data", ("basis_apr", "forward_carry"), dims=("expiry",))
    curve = single(data, "a basis curve").dropna("expiry", subset=["basis_apr"])
    if not curve.sizes["expiry"]:
        raise ValueError("no expiry has a basis: pass spot= to dd.analysis.chain.basis")
    tenors = days(curve)
    apr = np.asarray(curve["basis_apr"])
    dates = pd.DatetimeIndex(curve["expiry"].to_numpy())
    title = f"{name_of(curve)}: {_carry_of(apr, tenors)}"
    y = "basis [% per year, simple]"
    name = "forward over spot"
    table = pd.DataFrame(
        {
            "expiry": dates,
            "days": tenors,
            "basis_apr": apr,
            "forward_carry": np.asarray(curve["forward_carry"]),
        }
    )
    if engine == "plotly":
        strip = frames.Strip([_line_of(table, "basis_apr", name)], y, axis=_PERCENT | {"rangemode": "tozero"})
        return _interactive([strip], title, table, data, source=source)
    ax = style.axes(ax)
    ax.plot(tenors, apr, "o-", ms=5, lw=2.0, color=PALETTE[0], label=name)
    ax.axhline(0, color=GREY, lw=0.8)  # the axis includes 0, so that noise does not look like a move
    style.dress(ax, title=title, y=y, form="percent")
    expiry_axis(ax, tenors, dates)
    return finish(ax, table, data, source=source)


def _carry_of(apr: Array, tenors: Array) -> str:
    """Return a sentence about the rates of forwards over spot."""
    ends = sorted(100.0 * np.abs([np.min(apr), np.max(apr)]))
    rates = " to ".join(dict.fromkeys(f"{end:.1f}" for end in ends))  # Equal rounded rates are shown once.
    if np.min(apr) > 0.0:
        return f"all forwards are above spot, by {rates} % a year (contango)"
    if np.max(apr) < 0.0:
        return f"all forwards are below spot, by {rates} % a year (backwardation)"
    first = f"{100.0 * apr[0]:+.1f} % a year in {remaining(tenors[0])}"
    return f"forwards over spot are {first} and {100.0 * apr[-1]:+.1f} % in {remaining(tenors[-1])}"


def _before(before: Chain, fit: xr.Dataset) -> tuple[pd.DataFrame, pd.Timestamp]:
    """Return earlier volatilities of expiries in the fit, by current days to expiry, and their time."""
    if isinstance(before, xr.Dataset) and is_fit(before):
        past = fitted(single(before, "before, a term structure,"))
        frame = pd.DataFrame({"expiry": past["expiry"].to_numpy(), "iv": np.asarray(at_the_money(past))})
        time = timestamp_of(past)
    else:
        if not isinstance(before, pd.DataFrame):
            kind = type(before).__name__
            raise TypeError(f"before must be a fit or rows of the table options_atm_history, got {kind}")
        require_columns(before, "before", ("iv",), others=("time", "expiry"))
        require_timestamps(before, "before", ["time", "expiry"])
        if before["time"].nunique() != 1:
            raise ValueError(f"before must have one time, got {before['time'].nunique()}: select one")
        if before["expiry"].duplicated().any():
            raise ValueError("before must have each expiry once: select one symbol and one venue")
        frame = before[["expiry", "iv"]].assign(expiry=naive_utc(before["expiry"]))
        time = before["time"].iloc[0].round("min")
    left = pd.Series(days(fit), fit["expiry"].to_numpy())
    frame["days"] = frame["expiry"].map(left)
    return frame.dropna(subset="days").sort_values("days", ignore_index=True), time
