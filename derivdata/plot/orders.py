"""Figures of liquidations, with the coverage of their feed, and of order book depth."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from derivdata.analysis.depth import market_order_cost
from derivdata.analysis.liquidations import observed
from derivdata.plot import frames, style
from derivdata.plot.frames import Engine, Rates, Size, Source, figure_function, finish
from derivdata.plot.style import GREY, LONG, NO_DATA, PALETTE, SHORT
from derivdata.support import times
from derivdata.support.arrays import Array
from derivdata.tables.frames import require_columns, require_timestamps
from derivdata.units import BPS

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_SIDES = (("long", LONG), ("short", SHORT))
_LARGEST = 230.0
_SMALLEST = 8.0
"""Areas of the largest and of the smallest dot [square points]."""
MANY = 500
"""Number of orders from which on a dot is the sum of a step, because dots of orders would overlap."""
_DOTS = 24
"""Approximate number of such steps in the window."""
_DOT_MINUTES = (1, 2, 5, 10, 15, 30, 60, 120, 180, 240, 360, 480, 720)
_ROW = 14.0
"""Height of the row of a venue [points]."""
_DATES = 46.0
"""Height for the labels of the time axis and of the venues' panel [points]."""
_MAX_DISTANCES = 5
_MIN_LEAN = 0.1
"""Minimum range of the axis of the difference of bids and asks, as a fraction of both."""
_TALL = 3.0
"""Ratio of the highest bar to the next above which its value is written next to it."""
_STEPS = (
    (1, 1, "minute"),
    (3, 5, "5 minutes"),
    (72, 60, "hour"),
    (144, 120, "2 hours"),
    (288, 240, "4 hours"),
    (576, 480, "8 hours"),
    (864, 720, "12 hours"),
    (np.inf, 1440, "24 hours"),
)
"""Maximum length of the window [h] and step of the bars [minutes], for about 72 bars or less."""


@figure_function
def liquidations(
    events: pd.DataFrame,
    *,
    coverage: pd.DataFrame | None = None,
    price: Rates | None = None,
    start: times.TimeLike | None = None,
    end: times.TimeLike | None = None,
    top: int = 8,
    source: Source | None = None,
    ax: Axes | None = None,
    figsize: Size | None = None,
    engine: Engine = "matplotlib",
) -> Axes | Any:
    """Draw the value of liquidations over time, the feed's coverage, and the price or the value by venue.

    Parameters
    ----------
    events
        Table ``liquidations_events``, or ``liquidations_history`` with sums by venue, side and
        step.
    coverage
        Observed spans, columns ``start`` and ``end`` (UTC). None uses the spans in a frame of
        ``dd.liquidations.poll``; without them the title states that the coverage is unknown.
    price
        Prices [USD] of one symbol with a dim ``time``, or the table ``prices_history``, whose median over
        venues is used. None omits the price.
    start, end
        Span to draw: events with ``start <= time < end``. None uses the first and the last event, inclusive.
    top
        Number of venues with a separate row, by value; all others share one row.
    source, ax, figsize, engine
        As in every figure: see `derivdata.plot`.

    Returns
    -------
    Axes, or a plotly Figure
        The axes of the values over time: shorts (up) and longs (down) per step. The step is 1 minute in
        windows under an hour, 5 minutes under three hours, and else an hour or more, so that there are at
        most 72 bars. A bar over three times as high as the next has its value next to it. Below are the
        price with the highest step shaded, or without a price the values of each venue with its share of the
        total; and the coverage if it is partial (blank for unobserved times). Plotly draws a dot for each
        order instead of the venues' values; from 500 orders on it draws a dot for each step of about a 24th
        of the window. Areas are in proportion to the value.

        Some venues throttle their feeds, so levels cannot be compared across venues.

    Raises
    ------
    ValueError
        `events` is neither table, or it has no event in the span and `start` or `end` is missing.
    """
    events = _orders(events)
    first, last = _span(events, start, end)
    events = _select(events, start, end)
    sums = _sums(events, (last - first) / pd.Timedelta(1, "h"))
    margin = max((last - first) * 0.03, pd.Timedelta(1, "min"))
    limits = first - margin, last + margin
    if coverage is None and "coverage" in events.attrs.get("provenance", {}):
        coverage = observed(events)
    title = _liquidations_title(events, last - first)
    level = None
    if price is None:
        title += _largest_venue(events)
    else:
        level = _around(style.median_price(price), first, last)
        title += _peak(sums[0])
    title += "; coverage not stated" * (coverage is None)
    price_label = _price_label(price)
    table = events[["time", "symbol", "exchange", "side", "value_usd"]]
    if engine == "plotly":
        names, dots, dot_step = _dots(events, top, last - first)
        strips = [_sums_of(*sums)._replace(height=0.6)]
        if level is not None:
            hover = f"{frames.AT_TIME}<br>%{{y:,.2f}} USD"
            trace = frames.plotly_line(level["time"], level, "price", hover, 4, showlegend=False)
            strips.append(frames.Strip([trace], price_label, 0.4))
        strips += [_raster_of(names, dots, dot_step), _coverage_of(coverage, limits)._replace(height=0.1)]
        size: Any = {"height": 7.2 + 1.4 * (level is not None), "range": limits}
        return frames.plotly_figure(strips, title, table, events, price, source=source, **size)
    if coverage is not None and _covers(coverage, first, last):
        coverage = None  # a bar over the whole window shows nothing
    if level is None:
        bars, *others, lowest = _time_and_venues(ax, _by_venue(events, top), coverage)
    else:
        bars, *others = style.strips(ax, 2.0, 1.3, *[0.2] * (coverage is not None), gap=0.08)
        others[0].plot(level["time"], level, color=style.ink(), lw=1.6)
        others[0].locator_params(axis="y", nbins=4)
        style.dress(others[0], y=price_label, form="number")
        _shade_peak(others[0], *sums[:2])
        lowest = others[-1]
    if coverage is not None:
        _coverage(others[-1], coverage)
    bars.set_xlim(limits)
    _label_sides(bars, list(sums[0]))
    _bars(bars, *sums, title)
    style.legend(bars, "above", handletextpad=0.2)
    style.utc_axis([bars, *others][-1])
    return finish(bars, table, events, price, source=source, lowest=lowest)


def _time_and_venues(ax: Axes | None, by_venue: pd.DataFrame, coverage: pd.DataFrame | None) -> list[Axes]:
    """Return the axes of the values over time, with the coverage below if given, and of the venues."""
    heights = [2.4]
    if coverage is not None:
        heights.append(0.3)
    rows = _ROW * (len(by_venue) + 1)
    host = style.axes(ax, size=(8.0, 1.2 * sum(heights) + (rows + _DATES) / 72.0 + 1.0))
    host.set_axis_off()
    below = min(rows / style.height_of(host), 0.45)
    gap = min(_DATES / style.height_of(host), 0.2)
    strips = style.strips(host.inset_axes((0.0, below + gap, 1.0, 1.0 - below - gap)), *heights, gap=0.1)
    venues = host.inset_axes((0.0, 0.0, 1.0, below))
    _draw_venues(venues, by_venue)
    return [*strips, venues]


def _shade_peak(ax: Axes, sums: dict[str, pd.Series], step: np.timedelta64) -> None:
    """Shade the time of the highest bar."""
    values = pd.concat(list(sums.values())).abs()
    if values.any():
        start = values.idxmax().to_datetime64()
        ax.axvspan(start, start + step, color=GREY, alpha=0.2, lw=0)


def _peak(sums: dict[str, pd.Series]) -> str:
    """Return a description of the highest bar; empty without one."""
    values = pd.concat(dict(zip(("longs", "shorts"), sums.values(), strict=True))).abs()
    if not values.any():
        return ""
    side, start = values.idxmax()
    return f"; peak from {start:%H:%M} UTC: {_million(values.max() * 1e6)} of {side}"


def _by_venue(events: pd.DataFrame, top: int) -> pd.DataFrame:
    """Return the values of longs and shorts [million USD] of the `top` venues and of all others together."""
    keys = [events["exchange"].astype(str), events["side"].astype(str)]
    sums = events["value_usd"].astype(float).groupby(keys).sum()
    sides = sums.unstack(fill_value=0.0).reindex(columns=["long", "short"], fill_value=0.0) / 1e6
    sides = sides.loc[sides.sum(axis=1).sort_values(ascending=False, kind="stable").index]
    if len(sides) > top:
        rest = sides.iloc[top:]
        sides = pd.concat([sides.iloc[:top], rest.sum().to_frame(_others(len(rest))).T])
    return sides


def _others(count: int) -> str:
    return f"{count} other{'s' * (count != 1)}"


def _draw_venues(ax: Axes, sides: pd.DataFrame) -> None:
    """Draw the value of longs (left) and shorts (right) of each venue, with its share of the total."""
    ax, place = style.rows(ax, list(sides.index), 0.24)
    for (side, color), sign in zip(_SIDES, (-1.0, 1.0), strict=True):
        style.bars(ax, place, sign * sides[side].to_numpy(), 0.66, horizontal=True, color=color)
    total = float(sides.to_numpy().sum())
    look: dict[str, Any] = {"fontsize": 8, "va": "center", "textcoords": "offset points"}
    for row, (value, of_venue) in enumerate(zip(sides["short"], sides.sum(axis=1), strict=True)):
        if total > 0.0:
            ax.annotate(style.share(of_venue / total), (value, row), (4, 0), **look)
    ax.axvline(0.0, color=GREY, lw=0.8)
    style.dress(ax, x="longs (left), shorts (right) [million USD]; numbers: share of the total", grid="x")
    style.write(ax.xaxis, "size")
    ax.tick_params(axis="y", length=0)
    ax.margins(x=0.08)


def _covers(coverage: pd.DataFrame, first: pd.Timestamp, last: pd.Timestamp) -> bool:
    """Return whether spans cover the time from `first` to `last` without a gap."""
    until: pd.Timestamp = first
    for span in coverage.sort_values("start").itertuples():
        if _naive(span.start) > until:
            return False
        until = max(until, _naive(span.end))
    return bool(until >= last)


def _around(level: Any, first: pd.Timestamp, last: pd.Timestamp) -> Any:
    """Return prices from the last before the window to the first after it, so that the line spans it."""
    stamps = pd.DatetimeIndex(level["time"].to_numpy())
    start = max(int(stamps.searchsorted(first, side="right")) - 1, 0)
    end = int(stamps.searchsorted(last, side="left")) + 1
    return level.isel(time=slice(start, end))


def _price_label(price: Rates | None) -> str:
    """Return the label of the price's axis, with the symbol if the data states it."""
    if price is None:
        return ""
    level = style.panel_of(price, "price_usd")
    symbols: Any = np.atleast_1d(level["symbol"].values) if "symbol" in level.coords else []
    return f"{symbols[0]} price\n[USD]" if len(symbols) == 1 else "price\n[USD]"


def _liquidations_title(events: pd.DataFrame, span: pd.Timedelta) -> str:
    assets = ", ".join(sorted(set(events["symbol"].astype(str))))
    if len(assets) >= 40:
        assets = f"{events['symbol'].nunique()} symbols"
    length = f"in {style.span_words(max(span / pd.Timedelta(1, 'D'), 1.0 / 24.0))}"
    value = float(events["value_usd"].sum())
    if not value:
        return f"{assets}: no liquidations {length}".removeprefix(": ")
    longs = float(events.loc[events["side"] == "long", "value_usd"].sum()) / value
    side, share = ("longs", longs) if longs >= 0.5 else ("shorts", 1.0 - longs)
    return f"{assets}: {side} were {style.share(share)} of the {_million(value)} liquidated {length}"


def _largest_venue(events: pd.DataFrame) -> str:
    """Return a description of the share of the largest venue; empty for one venue or without a value."""
    by_venue = events.groupby("exchange", observed=True)["value_usd"].sum()
    if len(by_venue) < 2 or not by_venue.any():
        return ""
    return f"; {style.share(by_venue.max() / by_venue.sum())} of the total was on {by_venue.idxmax()}"


def _million(value: float, million: str = "million") -> str:
    """Format dollars in millions, small amounts in dollars: ``25.5 million USD``, ``2,000 USD``."""
    if abs(value) < 1e5:
        return f"{value:,.0f} USD"
    return f"{value / 1e6:,.1f} {million} USD"


def _orders(events: pd.DataFrame) -> pd.DataFrame:
    """Return orders unchanged, or the table ``liquidations_history`` with one row per side."""
    if "long_usd" not in events.columns:
        others = ("time", "symbol", "exchange", "side")
        lacking = [name for name in (*others, "value_usd") if name not in events.columns]
        if lacking:
            raise ValueError(
                "events in plot.liquidations: expected the table liquidations_events or "
                f"liquidations_history, got a table without {', '.join(lacking)}; "
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
    events: pd.DataFrame, start: times.TimeLike | None, end: times.TimeLike | None
) -> tuple[pd.Timestamp, pd.Timestamp]:
    if events.empty and (start is None or end is None):
        raise ValueError("events is empty: pass start and end of the span to draw")
    first = events["time"].min() if start is None else times.timestamp(start, "start")
    last = events["time"].max() if end is None else times.timestamp(end, "end")
    if last < first and (start is None or end is None):
        limit = f"after start {first}"
        if start is None:
            limit = f"before end {last}"
        raise ValueError(f"events has no event {limit}: pass start and end of the span to draw")
    if last < first:
        raise ValueError(f"start must not be after end, got start {first} and end {last}")
    return _naive(first), _naive(last)


def _select(events: pd.DataFrame, start: times.TimeLike | None, end: times.TimeLike | None) -> pd.DataFrame:
    """Return the events at `start` or later and before `end`, each if given."""
    if start is not None:
        events = events[_times(events) >= _naive(times.timestamp(start, "start")).to_datetime64()]
    if end is not None:
        events = events[_times(events) < _naive(times.timestamp(end, "end")).to_datetime64()]
    return events


def _naive(when: pd.Timestamp) -> pd.Timestamp:
    return times.naive_utc(times.timestamp(when))


def _dots(events: pd.DataFrame, top: int, window: pd.Timedelta) -> tuple[list[str], pd.DataFrame, str]:
    """Return the rows of venues, the dots, and the step that a dot sums, empty for a dot per order.

    The largest dots are first, so that small ones are on top.
    """
    total = events.groupby("exchange", observed=True)["value_usd"].sum().sort_values(ascending=False)
    names = list(map(str, total.index[:top]))
    if len(total) > top:
        names.append(_others(len(total) - top))
    place = pd.Series(range(len(names)), index=names)
    # 1. A dot per order, or per step of a row and side, in the middle of the step.
    valued = events[events["value_usd"] > 0.0]  # a missing value has no area
    dots = valued[["side", "value_usd"]].assign(time=_times(valued), venue=valued["exchange"].astype(str))
    dots["row"] = dots["venue"].map(place).fillna(len(names) - 1).astype(np.float64)
    step = ""
    if len(events) >= MANY:
        longest = window / _DOTS / pd.Timedelta(1, "min")
        minutes = max((n for n in _DOT_MINUTES if n <= longest), default=_DOT_MINUTES[0])
        step = f"{minutes // 60} h"
        if minutes < 60:
            step = f"{minutes} min"
        length = pd.Timedelta(minutes, "min")
        dots["venue"] = dots["row"].map(dict(enumerate(names)))
        dots["time"] = dots["time"].dt.floor(length) + length / 2
        keys = ["row", "venue", "side", "time"]
        dots = dots.groupby(keys, as_index=False, observed=True)["value_usd"].sum()
    # 2. Areas in proportion to the value; the smallest dots are enlarged to be visible.
    dots = dots.sort_values("value_usd", ascending=False)
    dots["area"] = np.maximum(_LARGEST * dots["value_usd"] / _largest(dots), _SMALLEST)
    return names, dots, step


def _largest(dots: pd.DataFrame) -> float:
    """Return the value of the largest dot [USD]; 1 without dots."""
    return float(dots["value_usd"].max()) if len(dots) else 1.0


def _label_sides(ax: Axes, labels: list[str]) -> None:
    """Add squares for the sides to the legend."""
    for (_, color), label in zip(_SIDES, labels, strict=True):
        ax.scatter([], [], s=40.0, marker="s", color=color, lw=0, label=label)


def _sums(events: pd.DataFrame, hours: float) -> tuple[dict[str, pd.Series], np.timedelta64, str]:
    """Sum the value per step of the window: sums by label, longs below 0; the step; the axis label."""
    minutes, per = next((minutes, words) for longest, minutes, words in _STEPS if hours <= longest)
    step = np.timedelta64(minutes, "m")
    place = pd.DatetimeIndex(_times(events)).floor(pd.Timedelta(step))
    sums = {}
    for (side, _), sign in zip(_SIDES, (-1.0, 1.0), strict=True):
        of_side = (events["side"] == side).to_numpy()
        value = events.loc[of_side, "value_usd"].groupby(place[of_side]).sum() / 1e6
        sums[f"{side}s: {_million(value.sum() * 1e6, 'M')}"] = sign * value
    return sums, step, f"per {per}\n[million USD]"


def _bars(ax: Axes, sums: dict[str, pd.Series], step: np.timedelta64, label: str, title: str) -> None:
    """Draw the value of longs and shorts per step."""
    for (_, color), value in zip(_SIDES, sums.values(), strict=True):
        style.bars(ax, value.index, value, step, centred=False, color=color)
    ax.axhline(0, color=GREY, lw=0.8)
    style.dress(ax, title=title, y=label, form="size")
    values = pd.concat(list(sums.values()))
    order = values.abs().to_numpy().argsort()[::-1]
    if len(order) < 2 or not values.any():
        return
    if abs(values.iloc[order[0]]) >= _TALL * abs(values.iloc[order[1]]):
        tallest = int(order[0])
        height = float(values.iloc[tallest])
        # The label is on the side of the bar with more space.
        middle = (values.index.min() + (values.index.max() - values.index.min()) / 2).to_datetime64()
        start = values.index[tallest].to_datetime64()
        end, shift, side = (start + step, 4, "left") if start < middle else (start, -4, "right")
        look: dict[str, Any] = {"fontsize": 8, "ha": side, "va": "top" if height > 0.0 else "bottom"}
        written = _million(abs(height) * 1e6, "M")
        ax.annotate(written, (end, height), (shift, 0), textcoords="offset points", **look)


def _raster_of(names: list[str], dots: pd.DataFrame, step: str) -> frames.Strip:
    """Return the dots as a plotly strip, with venue and value in the hover texts."""
    traces = []
    value = "%{customdata[1]:,.0f} USD"
    if step:
        value += f" in the {step} around"
    for side, color in _SIDES:
        rows = dots[dots["side"] == side]
        # Plotly needs a diameter in pixels, matplotlib an area in square points.
        marker = {"color": color, "opacity": 0.55, "size": 4 / 3 * np.sqrt(rows["area"]), "line_width": 0}
        hover = f"%{{customdata[0]}}<br>{frames.AT_TIME}<br>{value}"
        where: Any = {"x": rows["time"], "y": rows["row"], "customdata": rows[["venue", "value_usd"]]}
        look = {"mode": "markers", "marker": marker, "showlegend": False}
        traces.append(frames.plotly_trace("Scatter", side, hover, **where, **look))
    axis: Any = {"tickvals": list(range(len(names))), "range": (len(names) - 0.4, -0.6)}
    axis["ticktext"] = list(map(frames.plotly_text, names))
    return frames.Strip(traces, "", axis=axis)


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
    name = "not stated"
    color = NO_DATA
    x: list[pd.Timestamp | None] = [*limits, None]
    if coverage is not None:
        name = "watched"
        color = PALETTE[2]
        x = []
        for span in coverage.itertuples():
            x += [_naive(span.start), _naive(span.end), None]  # None ends a line
    look: Any = {"line": {"color": color, "width": 12}, "showlegend": False}
    drawn = frames.plotly_line(x, [0.0] * len(x), name, frames.AT_TIME, **look)
    return frames.Strip([drawn], "watched", axis={"showticklabels": False, "showgrid": False})


def _coverage(ax: Axes, coverage: pd.DataFrame) -> None:
    ax.set(ylim=(0, 1), yticks=[])
    ax.spines[["top", "right", "left"]].set_visible(False)
    ax.tick_params(labelsize=8.5)
    ax.set_ylabel("watched", fontsize=8, rotation=0, ha="right", va="center")
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
        For a book: cumulative value [USD] by distance from mid [bps], bids to the left. For a history: the
        mean depth of both sides over time within up to five distances, on a logarithmic axis; below it the
        difference of bids and asks within the largest distance, as a fraction of both.

    Raises
    ------
    ValueError
        `data` is neither table, is empty, has several books, or a book that is crossed or has one side only.
    """
    if data.empty:
        raise ValueError("data is empty: pass a table with rows")
    require_columns(data, "data", others=("symbol", "exchange", "time"))
    require_timestamps(data, "data", ["time"])
    if data.groupby(["symbol", "exchange"], observed=True).ngroups != 1:
        raise ValueError("data has several books: select one symbol and one venue")
    name = f"{data['symbol'].iloc[0]} on {data['exchange'].iloc[0]}"
    if "depth_bps" in data:
        strips, table = _history(ax, data, name)
        return finish(strips[0], table, data, source=source, lowest=strips[-1])
    if "level" not in data:
        raise ValueError("data must be the table of dd.orderbook.book or dd.orderbook.depth_history")
    ax = style.axes(ax)
    table = _book(ax, data, name)
    return finish(ax, table, data, source=source)


def _book(ax: Axes, data: pd.DataFrame, name: str) -> pd.DataFrame:
    if data["time"].nunique() > 1:
        raise ValueError("data has several books: select one time")
    sides = data.sort_values("level").groupby("side", observed=True)
    if set(sides.groups) != {"bid", "ask"}:
        raise ValueError(f"data must have bids and asks, got only {', '.join(sides.groups)}")
    best = sides["price_usd"].first()
    mid = (best["bid"] + best["ask"]) / 2
    tables = []
    # Labels are above the ends of the curves, towards the middle of the axes.
    for side, color, align, away in (("bid", LONG, "left", -4), ("ask", SHORT, "right", 4)):
        rows = sides.get_group(side)
        distance = BPS * (rows["price_usd"] / mid - 1.0)
        depth = (rows["price_usd"] * rows["size"]).cumsum() / 1e6
        label = f"{side}s {depth.iloc[-1]:,.3g} M USD"
        tables.append(pd.DataFrame({"side": side, "distance_bps": distance, "cumulative_usd": 1e6 * depth}))
        # From 0 at the best price.
        x = np.r_[distance.iloc[0], distance]
        ax.step(x, np.r_[0.0, depth], where="post", color=color, lw=1.5, label=f"{side}s")
        ax.fill_between(x, np.r_[0.0, depth], step="post", color=color, alpha=0.2, lw=0)
        near: dict[str, Any] = {"xytext": (away, 5), "textcoords": "offset points", "ha": align}
        ax.annotate(label, (x[-1], depth.iloc[-1]), fontsize=8.5, color=style.ink(), **near)
    ax.axvline(0, color=GREY, lw=0.8)
    spread = BPS * (best["ask"] - best["bid"]) / mid
    table = pd.concat(tables, ignore_index=True)
    # The cost of an order of the largest power of ten that both sides fill.
    largest = table.groupby("side")["cumulative_usd"].max().min()
    size = 10.0 ** np.floor(np.log10(largest))
    cost_bps = market_order_cost(data, size).set_index("side")["cost_bps"]
    buy, sell = cost_bps["buy"], cost_bps["sell"]
    order = f"{style.number(size / 1e6)} million USD"
    if size < 1e5:
        order = f"{size:,.0f} USD"
    ax.axhline(size / 1e6, color=GREY, lw=1.0, ls="--")
    for cost, distance, color in ((sell, -sell, LONG), (buy, buy, SHORT)):
        ax.plot(distance, size / 1e6, "D", color=color, ms=7, label="_cost")
        near = {"textcoords": "offset points", "fontsize": 8.5, "va": "bottom", "ha": "center"}
        style.lift(
            ax.annotate(f"{_two_digits(cost)} bps", (distance, size / 1e6), (0, 7), color=style.ink(), **near)
        )
    costs = f"{_two_digits(buy)} bps to buy and {_two_digits(sell)} to sell"
    title = f"{name}: an order of {order} costs {costs}"
    style.dress(ax, title=title, x="distance from the mid price [bps]", y="cumulative value [million USD]")
    spread_words = f"spread of the book {_two_digits(spread)} bps"
    style.note(ax, f"dashed: {order}; diamonds: mean cost of that order; {spread_words}")
    ax.set_ylim(0, 1.12 * table["cumulative_usd"].max() / 1e6)
    return table


def _two_digits(value: float) -> str:
    """Format a number with two digits or more, without an exponent: ``0.12``, ``250``."""
    if abs(value) < 10.0:
        return f"{value:.2g}"
    return f"{value:,.0f}"


def _history(ax: Axes | None, data: pd.DataFrame, name: str) -> tuple[list[Axes], pd.DataFrame]:
    columns = ["depth_bps", "bid_depth_usd", "ask_depth_usd"]
    require_columns(data, "data", columns)
    for column in columns:
        if np.isinf(data[column].to_numpy(dtype=np.float64, na_value=np.nan)).any():
            raise ValueError(f"data has infinite values in {column}: drop these rows")
    if data["depth_bps"].isna().any():
        raise ValueError("data has missing values in depth_bps: drop these rows")
    from matplotlib.ticker import LogLocator, NullLocator

    distances = sorted(data["depth_bps"].unique(), reverse=True)[:_MAX_DISTANCES]
    upper, lower = style.strips(ax, 3.0, 1.0, size=(8.0, 5.6), gap=0.08)
    # 1. Mean of both sides. Equal heights are equal ratios, so that lines of all distances are comparable.
    upper.set_yscale("log")
    ends = []
    for place, distance in enumerate(distances):
        rows = data[data["depth_bps"] == distance].sort_values("time")
        depth = _mean_depth(rows)
        if not np.isfinite(depth).any():
            raise ValueError(f"data has only missing depths within {distance:g} bps: drop these rows")
        color = PALETTE[place + 2]  # the first two colours are those of bids and asks
        drawn = depth.where(depth > 0.0) / 1e6
        upper.plot(_times(rows), drawn, color=color, lw=1.6, label=f"{distance:g} bps")
        last = float(depth.iloc[-1]) / 1e6
        if last > 0.0:
            written = f"{last:,.1f}"
            if last < 0.1:
                written = _two_digits(last)
            ends.append((np.log10(last), f"{distance:g} bps: {written} M USD", color))
    wide = data[data["depth_bps"] == distances[0]].sort_values("time")
    # Labels at 1, 2 and 5: other labels of a logarithmic axis would be formulas.
    upper.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    upper.yaxis.set_minor_locator(NullLocator())
    style.dress(upper, y="depth of a side\n[million USD, log scale]", form="number")
    bottom, top = upper.get_ylim()
    upper.set_ylim(bottom / 1.2, top * 1.4)
    _mark_ends_of_range(upper, wide)
    # 2. Which side is deeper, at the widest distance.
    _draw_difference(lower, wide, distances[0])
    style.dress(upper, title=f"{name}: {_range_of_depth(wide, distances[0])}")
    style.note(upper, "mean of bids and asks within a distance; below: difference as % of both")
    low, high = np.log10(upper.get_ylim())
    style.label_ends(upper, ends, limits=(low, high))
    style.utc_axis(lower, has_labels=True)
    return [upper, lower], data[["time", "depth_bps", "bid_depth_usd", "ask_depth_usd"]]


def _draw_difference(lower: Axes, wide: pd.DataFrame, distance: float) -> None:
    """Draw bids minus asks within a distance as a fraction of both."""
    both = wide["bid_depth_usd"] + wide["ask_depth_usd"]
    lean = (wide["bid_depth_usd"] - wide["ask_depth_usd"]) / both.where(both > 0.0)
    for color, is_side in ((LONG, lean >= 0.0), (SHORT, lean <= 0.0)):
        look: dict[str, Any] = {"color": color, "lw": 0, "interpolate": True}
        lower.fill_between(_times(wide), lean, 0.0, where=is_side, **look)
    lower.axhline(0.0, color=GREY, lw=0.8)
    most = max(_MIN_LEAN, float(lean.abs().max()))  # without a value the first
    lower.set_ylim(-1.15 * most, 1.15 * most)
    style.dress(lower, y=f"bids − asks,\n{distance:g} bps [%]", form="percent")
    lower.locator_params(axis="y", nbins=4)


def _mark_ends_of_range(ax: Axes, rows: pd.DataFrame) -> None:
    """Write the lowest and the highest mean depth of both sides [million USD] at their points."""
    mean = ((rows["bid_depth_usd"] + rows["ask_depth_usd"]) / 2e6).to_numpy()
    if np.isfinite(mean).sum() < 2 or np.nanmin(mean) == np.nanmax(mean):
        return
    if not np.nanmin(mean) > 0.0:
        return  # zero has no place on a logarithmic axis
    times_of_rows = _times(rows)
    for place, shift, side in ((np.nanargmin(mean), -5, "top"), (np.nanargmax(mean), 5, "bottom")):
        at = times_of_rows[place], mean[place]
        look: dict[str, Any] = {"fontsize": 8, "ha": "center", "va": side, "textcoords": "offset points"}
        words = f"{mean[place]:,.1f}"
        if mean[place] < 0.1:
            words = _two_digits(mean[place])
        style.lift(ax.annotate(words, at, (0, shift), color=style.ink(), **look))


def _mean_depth(rows: pd.DataFrame) -> pd.Series:
    """Return the mean depth of bids and asks [USD], or of the side that has a value."""
    return rows[["bid_depth_usd", "ask_depth_usd"]].mean(axis=1)


def _range_of_depth(rows: pd.DataFrame, distance: float) -> str:
    """Return a sentence about the depth within a distance: range over time of the mean of both sides."""
    mean = ((rows["bid_depth_usd"] + rows["ask_depth_usd"]) / 2.0).dropna()
    if mean.empty:
        return f"depth within {distance:g} bps of one side only"
    written = [f"{depth / 1e6:,.1f}" for depth in (mean.min(), mean.max())]
    unit = "million USD"
    if mean.max() < 1e5:
        written = [f"{depth:,.0f}" for depth in (mean.min(), mean.max())]
        unit = "USD"
    if written[0] == written[1]:
        return f"depth within {distance:g} bps was {written[0]} {unit} a side"
    return f"depth within {distance:g} bps was between {written[0]} and {written[1]} {unit} a side"
