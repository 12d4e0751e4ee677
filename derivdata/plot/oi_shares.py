"""Figures of who holds the open interest, and whose share grows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import xarray as xr

from derivdata.analysis import oi as analysis
from derivdata.plot._decorator import figure_function
from derivdata.plot.frames import keep_frame, long_table
from derivdata.plot.style import (
    GREY,
    PALETTE,
    axes,
    dress,
    footer,
    legend,
    number,
    one_symbol,
    panel_of,
    percent,
    row_size,
    strips,
    utc_axis,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["oi_share", "share_trend", "trend_of"]

_STEPS = {"1h": 1, "2h": 2, "4h": 4, "8h": 8, "1D": 24}
_LEAST_POINTS = 24


@figure_function
def oi_share(
    data: Any, *, symbol: str | None = None, top: int = 7, source: Any = None, ax: Axes | None = None
) -> Axes:
    """Draw the venues' shares of a symbol's open interest over time, stacked, and their concentration.

    Parameters
    ----------
    data
        Table ``oi_history`` or its panel of ``oi_usd`` [USD].
    symbol
        Which symbol, where there are several.
    top
        How many venues are named; the others are one band.
    source, ax
        As in every figure: see `derivdata.plot`.

    Returns
    -------
    Axes
        That of the shares; below it stands the Herfindahl–Hirschman index. Shares are of the venues that
        are present in 95 % of the window (see ``dd.analysis.oi.market_share``); an instant at which one of
        them is missing for long is a gap.

    Raises
    ------
    ValueError
        The symbol is not in the data, or no venue is present for long enough.
    """
    share, symbol = _shares(data, symbol)
    upper, lower = strips(ax, 4.0, 1.2)
    frame: pd.DataFrame = share.transpose("time", "exchange").to_pandas()
    order = frame.ffill().iloc[-1].sort_values(ascending=False).index
    bands = frame[order[:top]].copy()
    if len(order) > top:
        bands["others"] = frame[order[top:]].sum(axis=1, min_count=1)
    colors = [*PALETTE[: min(top, len(order))], GREY][: bands.shape[1]]
    upper.stackplot(bands.index, bands.to_numpy().T, colors=colors, lw=0)
    _label_bands(upper, bands.ffill().iloc[-1], colors)
    lead = bands.columns[0]
    title = f"{symbol}: {lead} holds {bands[lead].ffill().iloc[-1]:.0%} of the open interest".replace(
        "%", " %"
    )
    dress(upper, title=title, grid="")
    upper.set(ylabel="share of open interest [%]", ylim=(0, 1), xlim=(bands.index[0], bands.index[-1]))
    percent(upper)
    concentration = analysis.hhi(share)["hhi_10000"]
    lower.plot(frame.index, concentration, color=PALETTE[0], lw=1.4)
    dress(lower)
    lower.set_ylabel("HHI\n[0 to 10,000]")
    lower.yaxis.set_major_formatter(lambda value, _: number(value))
    utc_axis(lower)
    footer(lower, data, source=source)
    table = long_table(frame[list(order)], "time", "exchange", "share")
    hhi = pd.Series(concentration.to_numpy(), index=frame.index)
    return keep_frame(upper, table.assign(hhi_10000=table["time"].map(hhi)))


def _label_bands(ax: Axes, last: pd.Series, colors: list[str]) -> None:
    """Write each venue and its latest share beside its band, at least a line apart."""
    middle = (last.cumsum() - last / 2.0).to_numpy()
    least = 0.075
    places = middle.copy()
    for i in range(1, len(places)):
        places[i] = max(places[i], places[i - 1] + least)
    places -= max(places[-1] - (1.0 - least / 2), 0.0)
    for i in range(len(places) - 2, -1, -1):  # what was moved down may now be too close to its neighbour
        places[i] = min(places[i], places[i + 1] - least)
    for name, share, place, color in zip(last.index, last, places, colors, strict=True):
        words = f"{name} {share:.0%}".replace("%", " %")
        ax.text(1.01, place, "■", transform=ax.transAxes, va="center", fontsize=8, color=color)
        ax.text(1.05, place, words, transform=ax.transAxes, va="center", fontsize=8)


@figure_function
def share_trend(
    data: Any,
    *,
    symbol: str | None = None,
    top: int = 15,
    days: float | None = None,
    source: Any = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw how much share of open interest each venue gained or lost by its trend, with an interval.

    Parameters
    ----------
    data
        Table ``oi_history``, its panel of ``oi_usd`` [USD], or what ``dd.analysis.oi.share_trend`` gave.
    symbol
        Which symbol, where there are several.
    top
        How many venues are drawn, those with the steepest trends.
    days
        Length of time that the changes are of [days]; None takes the window of a table or panel, and 1 for
        trends, which do not say from which window they are.
    source, ax
        As in every figure: see `derivdata.plot`.

    Returns
    -------
    Axes
        One row per venue, the greatest gain at the top, in percentage points over the window; filled dots
        where the interval excludes zero and the status does not say that the data cannot tell. The axis ends
        at four times the greatest change and arrowheads mark intervals that go on. The trends of a table are
        those of `trend_of`.

    Raises
    ------
    ValueError
        The symbol is not in the data, or no venue has a trend.
    """
    if days is not None and not 0 < days < np.inf:
        raise ValueError(f"{days=} is not a length of time")
    trend, symbol, window = _trend(data, symbol)
    trend = trend if "status" in trend else trend.assign(status=xr.zeros_like(trend["slope"], dtype=np.int32))
    columns = ["slope", "low", "high", "status"]
    frame = trend[columns].to_dataframe()[columns].dropna()
    if frame.empty:
        raise ValueError("no venue has a trend: shares need three points or more")
    steepest = frame.loc[frame["slope"].abs().sort_values(ascending=False).index[:top]]
    steepest = steepest.sort_values("slope", ascending=False)
    sure = ((steepest["low"] > 0) | (steepest["high"] < 0)) & (steepest["status"] == 0)
    length = days or window or 1.0
    steepest = 100.0 * length * steepest[["slope", "low", "high"]]
    ax = axes(ax, size=row_size(len(steepest), 0.26))
    place = np.arange(len(steepest))
    ax.hlines(place, steepest["low"], steepest["high"], color=PALETTE[0], lw=1.6, alpha=0.6)
    for chosen, fill, words in ((sure, PALETTE[0], "trend"), (~sure, "none", "holds zero, or cannot tell")):
        ax.plot(steepest["slope"][chosen], place[chosen], "o", color=PALETTE[0], mfc=fill, ms=6, label=words)
    ax.axvline(0, color=GREY, lw=1.0)
    ax.set_yticks(place, list(steepest.index))
    ax.set_ylim(len(steepest) - 0.4, -0.6)
    level = f"{trend.attrs['confidence']:.0%} interval" if "confidence" in trend.attrs else "interval"
    shown = (
        f"{len(steepest)} of {len(frame)} venues" if len(steepest) < len(frame) else f"{len(steepest)} venues"
    )
    moving = steepest.loc[sure, "slope"]
    lead = "no share of open interest has a clear trend"
    if len(moving):
        most = moving.abs().idxmax()
        did = "gained" if moving[most] > 0 else "lost"
        lead = f"{most} {did} most, {abs(moving[most]):.2g} points; clear trends: {len(moving)}"
    _mark_long_intervals(ax, steepest)
    dress(ax, title=f"{symbol}: {lead}; {shown}", grid="x")
    span = "a day" if length == 1.0 else f"in {length:.3g} days"
    ax.set_xlabel(f"change of share by its trend [percentage points {span}], with {level}")
    legend(ax, "top", ncols=2)
    footer(ax, data, source=source)
    table = steepest.rename(columns={"slope": "change_pp", "low": "low_pp", "high": "high_pp"})
    return keep_frame(ax, table.rename_axis("exchange").reset_index().assign(days=length))


def _mark_long_intervals(ax: Axes, rows: pd.DataFrame) -> None:
    """End the axis at four times the greatest change; arrowheads mark intervals that go on."""
    limit = 4.0 * max(float(rows["slope"].abs().max()), 1e-6)
    ends = rows[["low", "high"]].abs().to_numpy().max()
    if ends <= limit:
        return
    ax.set_xlim(-limit, limit)
    for beyond, edge, marker in ((rows["high"] > limit, limit, ">"), (rows["low"] < -limit, -limit, "<")):
        place = np.flatnonzero(beyond)
        ax.plot(np.full(place.size, 0.985 * edge), place, marker, ms=5, color=PALETTE[0], label="_clipped")


def trend_of(share: xr.DataArray) -> xr.Dataset:
    """Return the trend of each share, from daily means or, over few days, from means over shorter steps.

    Hourly shares are so autocorrelated that the interval of their trend is either too narrow or unbounded;
    means over longer steps are not.

    Parameters
    ----------
    share
        What ``dd.analysis.oi.market_share`` gave, dims ``exchange`` and ``time``.

    Returns
    -------
    Dataset
        What ``dd.analysis.oi.share_trend`` gives of the longest of 1, 2, 4, 8 and 24 hours that leaves 24
        points or more.
    """
    times = share["time"].values
    hours = (times[-1] - times[0]) / np.timedelta64(1, "h")
    fitting = [name for name, width in _STEPS.items() if hours / width >= _LEAST_POINTS]
    return analysis.share_trend(share.resample(time=fitting[-1] if fitting else "1h").mean())


def _shares(data: Any, symbol: str | None) -> tuple[xr.DataArray, str]:
    panel, symbol = one_symbol(panel_of(data, "oi_usd"), symbol)
    share = analysis.market_share(panel)
    traded = share.where(share.notnull().any("time"), drop=True)
    if not traded.sizes["exchange"]:
        raise ValueError(f"no venue has open interest of {symbol} over most of the window")
    return traded, symbol


def _trend(data: Any, symbol: str | None) -> tuple[xr.Dataset, str, float | None]:
    """Return trends [1/day], the symbol, and the length of the window [days] where it is known."""
    if isinstance(data, xr.Dataset):
        return *one_symbol(data, symbol), None
    share, symbol = _shares(data, symbol)
    times = share["time"].values
    return trend_of(share), symbol, float((times[-1] - times[0]) / np.timedelta64(1, "D"))
