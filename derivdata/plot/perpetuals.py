"""Figures of funding, open interest and liquidations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from derivdata.plot.style import GREY, LONG, PALETTE, SHORT, axes, footer, one_symbol, panel_of, utc_axis

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["funding_history", "funding_spreads", "liquidations", "oi_share"]


def funding_history(
    data: Any, *, symbol: str | None = None, highlight: int = 3, ax: Axes | None = None
) -> Axes:
    """Funding rate of every venue over time; the venues that pay most and least stand out.

    Parameters
    ----------
    data
        Table ``funding_history`` or its panel of ``rate_bps_8h`` [bps/8h].
    symbol
        Which symbol, where there are several.
    highlight
        How many venues from either end of the ranking by mean rate are coloured.
    ax
        Axes to draw on; None makes a figure.

    Returns
    -------
    Axes
        Missing rates leave gaps in the lines.
    """
    rates, symbol = one_symbol(panel_of(data, "rate_bps_8h"), symbol)
    ax = axes(ax)
    means = rates.mean("time").to_series().dropna().sort_values(ascending=False)
    chosen = list(dict.fromkeys([*means.index[:highlight], *means.index[-highlight:]]))
    for venue in means.index.difference(chosen):
        ax.plot(rates["time"], rates.sel(exchange=venue), color=GREY, lw=0.5, alpha=0.35)
    for color, venue in zip(PALETTE, chosen, strict=False):
        label = f"{venue} ({means[venue]:+.2f})"
        ax.plot(rates["time"], rates.sel(exchange=venue), color=color, lw=1.2, label=label)
    low, high = np.nanpercentile(rates, [0.5, 99.5])
    margin = 0.15 * (high - low) + 0.1
    ax.set_ylim(low - margin, high + margin)
    ax.axhline(0, color=GREY, lw=0.8)
    ax.set(title=f"{symbol}: funding rate by venue", ylabel="funding rate [bps per 8 h]")
    ax.legend(title="venue (mean)", fontsize=8, title_fontsize=8, ncols=2, framealpha=0.6)
    utc_axis(ax)
    footer(ax, data)
    return ax


def funding_spreads(spreads: pd.DataFrame, *, ax: Axes | None = None) -> Axes:
    """Widest cross-venue spreads as bars, gross of every cost.

    Parameters
    ----------
    spreads
        Rows with ``symbol``, ``long``, ``short`` and ``spread_bps_8h`` [bps/8h], widest first.
    ax
        Axes to draw on; None makes a figure.
    """
    ax = axes(ax)
    labels = [f"{r.symbol}: long {r.long}, short {r.short}" for r in spreads.itertuples()]
    ax.barh(range(len(labels)), spreads["spread_bps_8h"], color=PALETTE[0])
    ax.set_yticks(range(len(labels)), labels, fontsize=8)
    ax.invert_yaxis()
    ax.set(title="Widest mean spreads, gross of costs", xlabel="mean spread [bps per 8 h of one leg]")
    footer(ax, spreads)
    return ax


def oi_share(data: Any, *, symbol: str | None = None, venues: int = 7, ax: Axes | None = None) -> Axes:
    """Venues' parts of the open interest of one symbol over time, stacked.

    Parameters
    ----------
    data
        Table ``oi_history`` or its panel of ``oi_usd`` [USD].
    symbol
        Which symbol, where there are several.
    venues
        How many venues are named; the others are one band.
    ax
        Axes to draw on; None makes a figure.

    Returns
    -------
    Axes
        An instant at which a venue has no figure takes its last one; before its first it has no part.
    """
    oi, symbol = one_symbol(panel_of(data, "oi_usd"), symbol)
    ax = axes(ax)
    frame = oi.transpose("time", "exchange").to_pandas().ffill()
    share = frame.div(frame.sum(axis=1), axis=0).fillna(0.0)
    order = share.iloc[-1].sort_values(ascending=False).index
    bands = share[order[:venues]].copy()
    if len(order) > venues:
        bands["others"] = share[order[venues:]].sum(axis=1)
    colors = [*PALETTE[: min(venues, len(order))], GREY]
    labels = [f"{name} {bands[name].iloc[-1]:.0%}" for name in bands]
    ax.stackplot(bands.index, bands.to_numpy().T, labels=labels, colors=colors, lw=0)
    ax.set(title=f"{symbol}: open interest by venue", ylabel="share of open interest", ylim=(0, 1))
    ax.set_xlim(bands.index[0], bands.index[-1])
    ax.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
    ax.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize=8, reverse=True, frameon=False)
    utc_axis(ax)
    footer(ax, data)
    return ax


def liquidations(events: pd.DataFrame, *, freq: str = "1h", ax: Axes | None = None) -> Axes:
    """Liquidated value by side over time: longs above the line, shorts below.

    Parameters
    ----------
    events
        Table ``liquidations_events``.
    freq
        Width of a bar.
    ax
        Axes to draw on; None makes a figure.
    """
    ax = axes(ax)
    times = events["time"].dt.tz_convert("UTC").dt.tz_localize(None).dt.floor(freq)
    sums = events.groupby([times, events["side"].astype("str")])["value_usd"].sum().unstack(fill_value=0.0)
    width = pd.Timedelta(freq) * 0.9
    for side, color, sign in (("long", LONG, 1), ("short", SHORT, -1)):
        if side in sums:
            label = f"{side}s liquidated: {sums[side].sum() / 1e6:,.1f} M USD"
            ax.bar(sums.index, sign * sums[side] / 1e6, width=width, align="edge", color=color, label=label)
    ax.axhline(0, color=GREY, lw=0.8)
    ax.set(title=f"Liquidations per {freq}", ylabel="value [million USD]")
    ax.yaxis.set_major_formatter(lambda value, _: f"{abs(value):,.3g}")
    ax.legend(fontsize=8, framealpha=0.6)
    utc_axis(ax)
    footer(ax, events)
    return ax
