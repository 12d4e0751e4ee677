"""Figure of liquidations: where, when, how much, and the coverage of the feed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from derivdata import times
from derivdata.analysis.liquidations import observed
from derivdata.plot._decorator import figure_function
from derivdata.plot.style import GREY, LONG, NO_DATA, PALETTE, SHORT, dress, footer, legend, strips, utc_axis

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["liquidations"]

_SIDES = (("long", LONG), ("short", SHORT))
_LARGEST = 160.0
_SIZES = (1e4, 1e5, 1e6, 1e7)


@figure_function
def liquidations(
    events: pd.DataFrame,
    *,
    coverage: pd.DataFrame | None = None,
    start: Any = None,
    end: Any = None,
    venues: int = 12,
    source: Any = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw liquidations by venue and time, their sums by side, and the coverage of the feed.

    Parameters
    ----------
    events
        Table ``liquidations_events``.
    coverage
        Spans that were watched, columns ``start`` and ``end`` (UTC). None takes those that a frame of
        ``dd.liquidations.poll`` brings along, and else says that nobody knows.
    start, end
        The span that is drawn; the events' own without them.
    venues
        How many venues have a row of their own, those with the most value; the others share one.
    source, ax
        As in every figure: see `derivdata.plot`.

    Returns
    -------
    Axes
        That of the raster, where the area of a dot grows as the square root of the order's value. Below it
        stand the cumulative value by side, and the coverage: blank where nobody watched. Feeds are throttled
        on some venues, so that levels do not compare across venues.

    Raises
    ------
    ValueError
        There are no events and no span.
    """
    first, last = _span(events, start, end)
    raster, sums, seen = strips(ax, 4.2, 1.8, 0.35, size=(8.0, 6.0))
    names = _raster(raster, events, venues)
    assets = ", ".join(sorted(set(events["symbol"].astype(str)))) or "no order"
    value = float(events["value_usd"].sum())
    longs = float(events.loc[events["side"] == "long", "value_usd"].sum()) / value if value else 0.0
    words = f"{value / 1e6:,.1f} M USD liquidated, {100 * longs:.0f} % longs" if value else "no liquidation"
    dress(raster, title=f"{assets if len(assets) < 40 else 'Many symbols'}: {words}")
    raster.set_yticks(range(len(names)), names)
    margin = max((last - first) * 0.01, pd.Timedelta(1, "min"))
    raster.set(ylim=(len(names) - 0.4, -0.6), ylabel="venue", xlim=(first - margin, last + margin))
    _sums(sums, events, last)
    dress(sums)
    sums.set_ylabel("cumulative\n[million USD]")
    legend(sums)
    if coverage is None and "coverage" in events.attrs.get("provenance", {}):
        coverage = observed(events)
    _coverage(seen, coverage)
    utc_axis(seen)
    footer(seen, events, source=source)
    return raster


def _span(events: pd.DataFrame, start: Any, end: Any) -> tuple[pd.Timestamp, pd.Timestamp]:
    if events.empty and (start is None or end is None):
        raise ValueError("no events: give start and end of the span")
    first = events["time"].min() if start is None else times.instant(start, "start")
    last = events["time"].max() if end is None else times.instant(end, "end")
    if last < first:
        raise ValueError(f"start {first} is after end {last}")
    return _naive(first), _naive(last)


def _naive(when: Any) -> pd.Timestamp:
    stamp = pd.Timestamp(when)
    return stamp if stamp.tzinfo is None else stamp.tz_convert("UTC").tz_localize(None)


def _raster(ax: Axes, events: pd.DataFrame, venues: int) -> list[str]:
    """Draw one row of dots per venue, the largest orders first so that small ones stay on top."""
    total = events.groupby("exchange", observed=True)["value_usd"].sum().sort_values(ascending=False)
    names = [str(name) for name in total.index[:venues]]
    if len(total) > venues:
        names.append(f"{len(total) - venues} others")
    row = {name: place for place, name in enumerate(names)}
    largest = float(events["value_usd"].max()) if len(events) else 1.0
    ordered = events.sort_values("value_usd", ascending=False)
    place = ordered["exchange"].astype(str).map(row).fillna(len(names) - 1).to_numpy(dtype=np.float64)
    for side, color in _SIDES:
        mine = (ordered["side"] == side).to_numpy()
        shift = -0.16 if side == "long" else 0.16
        ax.scatter(
            _times(ordered)[mine],
            place[mine] + shift,
            s=_LARGEST * np.sqrt(ordered["value_usd"][mine] / largest),
            color=color,
            alpha=0.55,
            lw=0,
            rasterized=True,
        )
    _size_legend(ax, largest)
    return names


def _size_legend(ax: Axes, largest: float) -> None:
    shown = [value for value in _SIZES if value <= largest][-3:]
    for value in shown:
        label = f"{value / 1e6:g} M USD" if value >= 1e6 else f"{value / 1e3:g} k USD"
        ax.scatter([], [], s=_LARGEST * np.sqrt(value / largest), color=GREY, alpha=0.6, lw=0, label=label)
    if shown:
        legend(ax, "top", ncols=3, handletextpad=0.2, columnspacing=1.0)


def _sums(ax: Axes, events: pd.DataFrame, last: pd.Timestamp) -> None:
    for side, color in _SIDES:
        mine = events[events["side"] == side].sort_values("time")
        total = mine["value_usd"].cumsum().to_numpy() / 1e6
        times = np.append(_times(mine), np.datetime64(last))
        sums = np.append(total, total[-1:] if total.size else 0.0)
        ax.step(times, sums, where="post", color=color, lw=1.5, label=f"{side}s: {sums[-1]:,.1f} M USD")
    ax.set_ylim(0, None)


def _coverage(ax: Axes, coverage: pd.DataFrame | None) -> None:
    ax.set(ylim=(0, 1), yticks=[])
    ax.spines[["top", "right", "left"]].set_visible(False)
    ax.tick_params(labelsize=8.5)
    ax.set_ylabel("watched", fontsize=8, rotation=0, ha="right", va="center")
    if coverage is None:
        ax.axhspan(0, 1, color=NO_DATA, alpha=0.4, lw=0)
        ax.text(
            0.5, 0.5, "not stated", transform=ax.transAxes, ha="center", va="center", fontsize=8, color=GREY
        )
        return
    for span in coverage.itertuples():
        ax.axvspan(_naive(span.start), _naive(span.end), color=PALETTE[2], alpha=0.7, lw=0)


def _times(events: pd.DataFrame) -> np.ndarray[Any, Any]:
    naive = events["time"].dt.tz_convert("UTC").dt.tz_localize(None)
    return np.asarray(naive.to_numpy())
