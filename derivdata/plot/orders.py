"""Figures of liquidations, with the coverage of their feed, and of order book depth."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from derivdata.analysis.liquidations import observed
from derivdata.plot import frames, style
from derivdata.plot.frames import Engine, Rates, Size, Source, figure_function, finish
from derivdata.plot.style import GREY, LONG, NO_DATA, PALETTE, SHORT
from derivdata.support import times
from derivdata.support.arrays import Array
from derivdata.tables.frames import require_columns, require_instants
from derivdata.units import BPS

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_SIDES = (("long", LONG), ("short", SHORT))
_SHIFTS = dict(zip(_SIDES, (0.16, -0.16), strict=True))  # longs below shorts, as in the bars
_LARGEST = 200.0
_SMALLEST = 14.0
"""Areas of the largest and of the smallest dot [square points]."""
_MANY = 500
"""Number of orders from which on a dot is the sum of a step, because dots of orders would overlap."""
_DOTS = 24
"""Approximate number of such steps in the window."""
_DOT_MINUTES = (1, 2, 5, 10, 15, 30, *(60 * hours for hours in (1, 2, 3, 4, 6, 8, 12)))
_SIZES = (1e4, 1e5, 1e6, 1e7)
_FLATTENS = 3.0
"""A bar that is this many times as high as the next gives the bars a square-root scale."""
_STEPS = ((1.0, 1), (3.0, 5), *((72.0 * hours, 60 * hours) for hours in (1, 2, 4, 8, 12)))
"""Maximum length of the window [h] and step of the bars [minutes], for at most 72 bars."""


@figure_function
def liquidations(
    events: pd.DataFrame,
    *,
    coverage: pd.DataFrame | None = None,
    price: Rates | None = None,
    start: times.Instant | None = None,
    end: times.Instant | None = None,
    top: int = 12,
    source: Source | None = None,
    ax: Axes | None = None,
    figsize: Size | None = None,
    engine: Engine = "matplotlib",
) -> Axes | Any:
    """Draw liquidations by venue and time under the price, their value per hour, and the feed's coverage.

    Parameters
    ----------
    events
        Table ``liquidations_events``, or ``liquidations_history``, whose sums by venue, side and step are
        drawn as one dot each.
    coverage
        Observed spans, columns ``start`` and ``end`` (UTC). None uses the spans in a frame of
        ``dd.liquidations.poll``; without them the coverage is drawn as not stated.
    price
        Prices [USD] of one symbol with a dim ``time``, or the table ``prices_history``, whose median over
        venues is used. None omits the price.
    start, end
        Span to draw; None uses the first and the last event.
    top
        Number of venues with a separate row, by value; all others share one row.
    source, ax, figsize, engine
        As in every figure: see `derivdata.plot`.

    Returns
    -------
    Axes, or a plotly Figure
        The axes of the dots, shorts above longs, whose area grows as the square root of the order's value;
        from 500 orders on a dot is the sum of a side over about a 24th of the window. Above them is the
        price; below them the value of longs (down) and shorts (up) per hour, or per longer step so that there
        are at most 72 bars (1 minute in windows under an hour, 5 under three hours), and the coverage, blank
        for unobserved times. With matplotlib, the bars have a square-root scale if one is over three times
        as high as the next. Some venues throttle their feeds, so levels cannot be compared across venues.

    Raises
    ------
    ValueError
        `events` is neither table, or it is empty and `start` or `end` is missing.
    """
    events = _orders(events)
    first, last = _span(events, start, end)
    heights = (3.6, 2.4, 0.3) if price is None else (1.3, 3.2, 2.2, 0.3)
    height = 6.0 if price is None else 7.2
    assets = ", ".join(sorted(set(events["symbol"].astype(str)))) or "no order"
    value = float(events["value_usd"].sum())
    longs = float(events.loc[events["side"] == "long", "value_usd"].sum()) / value if value else 0.0
    words = f"{value / 1e6:,.1f} M USD liquidated, {100 * longs:.0f} % longs" if value else "no liquidation"
    title = f"{assets if len(assets) < 40 else 'Many symbols'}: {words}"
    names, dots, dot_step = _dots(events, top, last - first)
    sums = _sums(events, (last - first) / pd.Timedelta(1, "h"))
    margin = max((last - first) * 0.03, pd.Timedelta(1, "min"))
    limits = first - margin, last + margin
    if coverage is None and "coverage" in events.attrs.get("provenance", {}):
        coverage = observed(events)
    lines = [] if price is None else [style.median_price(price).sel(time=slice(first, last))]
    price_label = _price_label(price)
    table = events[["time", "symbol", "exchange", "side", "value_usd"]]
    if engine == "plotly":
        hover = f"{frames.AT_TIME}<br>%{{y:,.2f}} USD"
        strips = []
        for line in lines:
            trace = frames.plotly_line(line["time"], line, "price", hover, 4, showlegend=False)
            strips.append(frames.Strip([trace], price_label))
        strips += [_raster_of(names, dots, dot_step), _sums_of(*sums), _coverage_of(coverage, limits)]
        strips = [strip._replace(height=share) for strip, share in zip(strips, heights, strict=True)]
        size: Any = {"height": 1.2 * height, "range": limits}
        return frames.plotly_figure(strips, title, table, events, price, source=source, **size)
    gap = 0.12 if _is_low(ax) else 0.08  # a legend needs a line between two axes
    *upper, raster, bars, seen = style.strips(ax, *heights, size=(8.0, height), gap=gap)
    _raster(raster, dots)
    for (_, color), name in zip(_SIDES, sums[0], strict=True):
        raster.scatter([], [], s=40.0, color=color, alpha=0.8, lw=0, label=name)
    label = f"venue\n[sums of {dot_step}]" if dot_step else "venue"
    style.dress(raster, title="" if upper else title, y=label)
    style.legend(raster, "above", handletextpad=0.2)
    raster.set_yticks(range(len(names)), names)
    raster.set(ylim=(len(names) - 0.4, -0.9), xlim=limits)
    for highest, line in zip(upper, lines, strict=True):
        highest.plot(line["time"], line, color=PALETTE[4], lw=1.3)
        style.dress(highest, title=title, y=price_label, form="number")
    for (_, color), value in zip(_SIDES, sums[0].values(), strict=True):
        style.bars(bars, value.index, value, sums[1], centred=False, color=color)
    bars.axhline(0, color=GREY, lw=0.8)
    is_root = _is_flattened(sums[0])
    style.dress(bars, y=sums[2] + "\n√ scale" * is_root, form="size")
    if is_root:
        _root_scale(bars, sums[0])
    _size_key(bars, dots)
    _coverage(seen, coverage)
    style.utc_axis(seen)
    return finish(raster, table, events, price, source=source, lowest=seen)


def _price_label(price: Rates | None) -> str:
    """Return the label of the price's axis, with the symbol if the data states it."""
    if price is None:
        return ""
    level = style.panel_of(price, "price_usd")
    symbols = np.atleast_1d(level["symbol"].values) if "symbol" in level.coords else []
    return f"{symbols[0]} price\n[USD]" if len(symbols) == 1 else "price\n[USD]"


def _orders(events: pd.DataFrame) -> pd.DataFrame:
    """Return orders unchanged, or the table ``liquidations_history`` with one row per side."""
    if "long_usd" not in events.columns:
        others = ("time", "symbol", "exchange", "side")
        if "value_usd" not in events.columns or not set(others) <= set(events.columns):
            lacking = ", ".join(name for name in (*others, "value_usd") if name not in events.columns)
            raise ValueError(
                "events in plot.liquidations: expected the table liquidations_events or "
                f"liquidations_history, got a table without {lacking}; "
                "request dd.liquidations.events or dd.liquidations.history"
            )
        require_columns(events, "events", ("value_usd",), others=others)
        return events
    require_columns(events, "events", ("long_usd", "short_usd"), others=("time", "symbol", "exchange"))
    sides = []
    for side, _ in _SIDES:
        rows = events[["time", "symbol", "exchange"]].assign(side=side, value_usd=events[f"{side}_usd"])
        sides.append(rows[rows["value_usd"] > 0.0])
    sums = pd.concat(sides, ignore_index=True).sort_values("time", kind="stable", ignore_index=True)
    sums.attrs = events.attrs
    return sums


def _span(
    events: pd.DataFrame, start: times.Instant | None, end: times.Instant | None
) -> tuple[pd.Timestamp, pd.Timestamp]:
    if events.empty and (start is None or end is None):
        raise ValueError("events is empty: pass start and end of the span to draw")
    first = events["time"].min() if start is None else times.instant(start, "start")
    last = events["time"].max() if end is None else times.instant(end, "end")
    if last < first:
        raise ValueError(f"start {first} is after end {last}")
    return _naive(first), _naive(last)


def _naive(when: pd.Timestamp) -> pd.Timestamp:
    return times.naive_utc(times.instant(when))


def _dots(events: pd.DataFrame, top: int, window: pd.Timedelta) -> tuple[list[str], pd.DataFrame, str]:
    """Return the rows of venues, the dots, and the step that a dot sums, empty for a dot per order.

    The largest dots are first, so that small ones are on top.
    """
    total = events.groupby("exchange", observed=True)["value_usd"].sum().sort_values(ascending=False)
    names = [str(name) for name in total.index[:top]]
    if len(total) > top:
        names.append(f"{len(total) - top} others")
    place = {name: row for row, name in enumerate(names)}
    # 1. A dot per order, or per step of a row and side, in the middle of the step.
    dots = events[["side", "value_usd"]].assign(time=_times(events), venue=events["exchange"].astype(str))
    dots["row"] = dots["venue"].map(place).fillna(len(names) - 1).astype(np.float64)
    step = ""
    if len(events) >= _MANY:
        fitting = [minutes for minutes in _DOT_MINUTES if _DOTS * pd.Timedelta(minutes, "min") <= window]
        minutes = fitting[-1] if fitting else _DOT_MINUTES[0]
        step = f"{minutes} min" if minutes < 60 else f"{minutes // 60} h"
        length = pd.Timedelta(minutes, "min")
        dots["venue"] = dots["row"].map(dict(enumerate(names)))
        dots["time"] = dots["time"].dt.floor(length) + length / 2
        keys = ["row", "venue", "side", "time"]
        dots = dots.groupby(keys, as_index=False, observed=True)["value_usd"].sum()
    # 2. Areas.
    largest = float(dots["value_usd"].max()) if len(dots) else 1.0
    dots = dots.sort_values("value_usd", ascending=False)
    dots["area"] = np.maximum(_LARGEST * np.sqrt(dots["value_usd"] / largest), _SMALLEST)
    return names, dots, step


def _raster(ax: Axes, dots: pd.DataFrame) -> None:
    """Draw one row of dots per venue."""
    for (side, color), shift in _SHIFTS.items():
        of_side = dots[dots["side"] == side]
        where = of_side["time"].to_numpy(), of_side["row"] + shift, of_side["area"]
        ax.scatter(*where, color=color, alpha=0.9, lw=0, rasterized=True)


def _size_key(ax: Axes, dots: pd.DataFrame) -> None:
    """Write a key of the sizes of the dots above the axes below them."""
    largest = float(dots["value_usd"].max()) if len(dots) else 1.0
    limits = ax.get_ylim()
    for place, value in enumerate([size for size in _SIZES if size <= largest][-3:]):
        label = f"{value / 1e6:g} M USD" if value >= 1e6 else f"{value / 1e3:g} k USD"
        size = _LARGEST * np.sqrt(value / largest)
        ax.scatter([], [], s=size, color=GREY, alpha=0.6, lw=0, label=label if place else f"dot: {label}")
    ax.set_ylim(limits)
    if ax.get_legend_handles_labels()[0]:
        style.legend(ax, "above", handletextpad=0.2)


def _sums(events: pd.DataFrame, hours: float) -> tuple[dict[str, pd.Series], np.timedelta64, str]:
    """Sum the value per step of the window: sums by label, longs below 0; the step; the axis label."""
    minutes = next((step for max_hours, step in _STEPS if hours <= max_hours), 24 * 60)
    count, unit = (minutes, "minute") if minutes < 60 else (minutes // 60, "hour")
    step = np.timedelta64(minutes, "m")
    place = pd.DatetimeIndex(_times(events)).floor(pd.Timedelta(step))
    sums = {}
    for (side, _), sign in zip(_SIDES, (-1.0, 1.0), strict=True):
        of_side = (events["side"] == side).to_numpy()
        value = events.loc[of_side, "value_usd"].groupby(place[of_side]).sum() / 1e6
        sums[f"{side}s: {value.sum():,.1f} M USD"] = sign * value
    per = unit if count == 1 else f"{count} {unit}s"
    return sums, step, f"per {per}\n[million USD]"


def _is_low(ax: Axes | None) -> bool:
    """Return whether the figure of given axes is under 5 inches high."""
    figure = None if ax is None else ax.get_figure(root=True)
    return figure is not None and figure.get_figheight() < 5.0


def _is_flattened(sums: dict[str, pd.Series]) -> bool:
    """Return whether one bar is so high that others would not be seen on a linear axis."""
    values = pd.concat(list(sums.values())).abs().nlargest(2)
    return len(values) == 2 and float(values.iloc[0]) >= _FLATTENS * float(values.iloc[1])


def _root_scale(ax: Axes, sums: dict[str, pd.Series]) -> None:
    """Draw values over their signed square root, with round values at the ticks of both sides."""
    values = pd.concat(list(sums.values()))
    ax.set_yscale("function", functions=(_root, _square))
    ticks = [0.0]
    for sign in (-1.0, 1.0):
        largest = float((sign * values).max())
        power = 10.0 ** np.floor(np.log10(largest)) if largest > 0.0 else 0.0
        fitting = [step * power for step in (0.1, 0.5, 1.0, 2.0, 5.0) if step * power <= largest]
        # At least a seventh of the axis apart.
        apart = float(np.sqrt(values.abs().max())) / 3.5
        for value in fitting[::-1]:
            if all(abs(_root(np.array(sign * value)) - _root(np.array(tick))) > apart for tick in ticks):
                ticks.append(sign * value)
    ax.set_yticks(sorted(ticks))
    ax.minorticks_off()


def _root(values: Array) -> Array:
    return np.asarray(np.sign(values) * np.sqrt(np.abs(values)))


def _square(roots: Array) -> Array:
    return np.asarray(np.sign(roots) * np.square(roots))


def _raster_of(names: list[str], dots: pd.DataFrame, step: str) -> frames.Strip:
    """Return the dots as a plotly strip, with venue and value in the hover texts."""
    traces = []
    for (side, color), shift in _SHIFTS.items():
        rows = dots[dots["side"] == side]
        # Plotly needs a diameter in pixels, matplotlib an area in square points.
        marker = {"color": color, "opacity": 0.55, "size": 4 / 3 * np.sqrt(rows["area"]), "line_width": 0}
        value = "%{customdata[1]:,.0f} USD" + (f" in the {step} around" if step else "")
        hover = f"%{{customdata[0]}}<br>{frames.AT_TIME}<br>{value}"
        where: Any = {"x": rows["time"], "y": rows["row"] + shift, "customdata": rows[["venue", "value_usd"]]}
        look = {"mode": "markers", "marker": marker, "showlegend": False}
        traces.append(frames.plotly_trace("Scatter", side, hover, **where, **look))
    axis: Any = {"tickvals": list(range(len(names))), "range": (len(names) - 0.4, -0.6)}
    axis["ticktext"] = [frames.plotly_text(name) for name in names]
    return frames.Strip(traces, "venue", axis=axis)


def _sums_of(sums: dict[str, pd.Series], step: np.timedelta64, label: str) -> frames.Strip:
    """Return the bars as a plotly strip."""
    traces = []
    for (_, color), (name, value) in zip(_SIDES, sums.items(), strict=True):
        hover = f"from {frames.AT_TIME}<br>%{{customdata:.3~f}} million USD"
        where: Any = {"x": value.index, "y": value, "customdata": value.abs(), "offset": 0}
        look: Any = {"width": step / np.timedelta64(1, "ms"), "marker": {"color": color, "line_width": 0}}
        traces.append(frames.plotly_trace("Bar", name, hover, **where, **look))
    return frames.Strip(traces, label)


def _coverage_of(coverage: pd.DataFrame | None, limits: tuple[pd.Timestamp, ...]) -> frames.Strip:
    """Return the coverage as a plotly strip; a grey bar if it is not stated."""
    spans = [limits] if coverage is None else [*zip(*map(coverage.get, ("start", "end")), strict=True)]
    name, color = ("not stated", NO_DATA) if coverage is None else ("watched", PALETTE[2])
    x = [when for start, end in spans for when in (_naive(start), _naive(end), None)]
    look: Any = {"line": {"color": color, "width": 12}, "showlegend": False}
    drawn = frames.plotly_line(x, [0.0] * len(x), name, frames.AT_TIME, **look)
    return frames.Strip([drawn], "watched", axis={"showticklabels": False, "showgrid": False})


def _coverage(ax: Axes, coverage: pd.DataFrame | None) -> None:
    ax.set(ylim=(0, 1), yticks=[])
    ax.spines[["top", "right", "left"]].set_visible(False)
    ax.tick_params(labelsize=8.5)
    ax.set_ylabel("watched", fontsize=8, rotation=0, ha="right", va="center")
    if coverage is None:
        ax.axhspan(0, 1, color=NO_DATA, alpha=0.4, lw=0)
        ax.text(0.5, 0.5, "not stated", transform=ax.transAxes, ha="center", va="center", fontsize=8)
        return
    for span in coverage.itertuples():
        ax.axvspan(_naive(span.start), _naive(span.end), color=PALETTE[2], alpha=0.7, lw=0)


def _times(events: pd.DataFrame) -> Array:
    return np.asarray(times.naive_utc(events["time"]))


@figure_function
def orderbook_depth(
    data: pd.DataFrame, *, source: Source | None = None, ax: Axes | None = None, figsize: Size | None = None
) -> Axes:
    """Draw bid and ask depth by distance from the mid price, of one book or over time.

    Parameters
    ----------
    data
        Table ``orderbook_book`` or ``orderbook_depth_history`` of one symbol on one venue.
    source, ax, figsize
        As in every figure: see `derivdata.plot`.

    Returns
    -------
    Axes
        For a book: cumulative value [USD] by distance from mid [bps], bids to the left. For a history: depth
        within each distance over time, asks upwards and bids downwards.

    Raises
    ------
    ValueError
        `data` is neither table, is empty, has several books, or a book with one side only.
    """
    if data.empty:
        raise ValueError("the table of the book is empty; pass a table with rows")
    require_columns(data, "data", others=("symbol", "exchange", "time"))
    require_instants(data, "data", ["time"])
    if data.groupby(["symbol", "exchange"], observed=True).ngroups != 1:
        raise ValueError("data has several books: select one symbol and one venue")
    ax = style.axes(ax)
    name = f"{data['symbol'].iloc[0]} on {data['exchange'].iloc[0]}"
    if "depth_bps" in data:
        table = _history(ax, data, name)
    elif "level" in data:
        table = _book(ax, data, name)
    else:
        raise ValueError("pass the table of dd.orderbook.book or dd.orderbook.depth_history")
    return finish(ax, table, data, source=source)


def _book(ax: Axes, data: pd.DataFrame, name: str) -> pd.DataFrame:
    if data["time"].nunique() > 1:
        raise ValueError("data has several books: select one time")
    sides = {str(side): rows.sort_values("level") for side, rows in data.groupby("side", observed=True)}
    if set(sides) != {"bid", "ask"}:
        raise ValueError(f"data must have bids and asks, got only {', '.join(sides)}")
    best = {side: float(rows["price_usd"].iloc[0]) for side, rows in sides.items()}
    mid = (best["bid"] + best["ask"]) / 2
    tables = []
    for side, color in (("bid", LONG), ("ask", SHORT)):
        rows = sides[side]
        distance = BPS * (rows["price_usd"] / mid - 1.0)
        depth = (rows["price_usd"] * rows["size"]).cumsum() / 1e6
        label = f"{side}s\n{style.number(depth.iloc[-1])} M USD"
        tables.append(pd.DataFrame({"side": side, "distance_bps": distance, "cumulative_usd": 1e6 * depth}))
        # From 0 at the best price.
        x = np.r_[distance.iloc[0], distance]
        ax.step(x, np.r_[0.0, depth], where="post", color=color, lw=1.5, label=f"{side}s")
        away = 14 if side == "bid" else -14
        near: dict[str, Any] = {"ha": "left" if side == "bid" else "right", "va": "top", "fontsize": 8.5}
        ax.annotate(
            label, (x[-1], depth.iloc[-1]), (away, 0), textcoords="offset points", color=color, **near
        )
    ax.axvline(0, color=GREY, lw=0.8)
    spread = BPS * (best["ask"] - best["bid"]) / mid
    table = pd.concat(tables, ignore_index=True)
    # The cost of an order of the largest power of ten that both sides fill.
    largest = table.groupby("side")["cumulative_usd"].max().min()
    size = 10.0 ** np.floor(np.log10(largest))
    cost = {side: _cost(rows, size) for side, rows in table.groupby("side")}
    orders = (
        f"{style.number(size / 1e6)} M USD cost {cost['ask']:.2g} bps to buy and {cost['bid']:.2g} to sell"
    )
    ax.axhline(size / 1e6, color=GREY, lw=1.0, ls="--")
    for side, sign, color in (("bid", -1.0, LONG), ("ask", 1.0, SHORT)):
        ax.plot(sign * cost[side], size / 1e6, "D", color=color, ms=6, label="_cost")
        near = {"textcoords": "offset points", "fontsize": 8.5, "va": "bottom", "ha": "center"}
        words = f"mean {cost[side]:.2g} bps"
        style.lift(ax.annotate(words, (sign * cost[side], size / 1e6), (0, 6), color=color, **near))
    title = f"{name}: {orders}; spread {spread:.2g} bps"
    style.dress(ax, title=title, x="distance from the mid price [bps]", y="cumulative value [million USD]")
    order = f"an order of {style.number(size / 1e6)} M USD"
    style.note(ax, f"dashed: {order}; diamonds: its mean price; crossings: its last price")
    ax.set_ylim(0, None)
    return table


def _cost(side: pd.DataFrame, size: float) -> float:
    """Return the mean distance from the mid price at which an order of a size [USD] is filled [bps]."""
    filled = side["cumulative_usd"].clip(upper=size).diff().fillna(side["cumulative_usd"].clip(upper=size))
    return float((filled * side["distance_bps"].abs()).sum() / size)


def _history(ax: Axes, data: pd.DataFrame, name: str) -> pd.DataFrame:
    for column in ("depth_bps", "bid_depth_usd", "ask_depth_usd"):
        if data[column].dtype.kind not in "fiu":
            raise TypeError(f"data must have numbers in {column}, got {data[column].dtype}")
    distances = sorted(data["depth_bps"].unique())
    ends = []
    for number, distance in enumerate(distances):
        rows = data[data["depth_bps"] == distance].sort_values("time")
        x = _times(rows)
        look = style.look(number)
        ax.plot(x, rows["ask_depth_usd"] / 1e6, label=f"{distance:g} bps", lw=2.4, **look)
        # In the colour of text, because both sides of a book are nearly equal.
        ax.plot(x, rows["bid_depth_usd"] / 1e6, lw=0.9, color=style.ink(), ls="--")
        last = float(rows[["ask_depth_usd", "bid_depth_usd"]].iloc[-1].mean()) / 1e6
        ends.append((last, f"{distance:g} bps {style.number(round(last, 2))} M", str(look["color"])))
    ax.set_yscale("log")
    wide = data[data["depth_bps"] == distances[-1]].sort_values("time")
    bids = wide["bid_depth_usd"] / 1e6
    asks = wide["ask_depth_usd"] / 1e6
    words = (
        f"{bids.iloc[-1]:,.1f} M USD of bids and {asks.iloc[-1]:,.1f} of asks within {distances[-1]:g} bps"
    )
    style.dress(ax, title=f"{name}: {words}", y="depth of a side [million USD], log scale", form="number")
    style.note(ax, "within a distance of the mid price; wide: asks, dashed: bids; labels: mean of both now")
    ax.yaxis.set_minor_formatter("")
    logs = [(float(np.log(value)), label, color) for value, label, color in ends]
    style.label_ends(ax, logs, limits=np.log(ax.get_ylim()))
    style.utc_axis(ax)
    return data[["time", "depth_bps", "bid_depth_usd", "ask_depth_usd"]]
