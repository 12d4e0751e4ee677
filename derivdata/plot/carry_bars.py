"""Figures of the carry of venue pairs: forecasts, forecasts by holding time, and accrued funding."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pandas as pd
import xarray as xr

from derivdata.analysis import funding
from derivdata.analysis.funding.carry_forecast import of_what
from derivdata.analysis.panels import require_variables
from derivdata.plot import style
from derivdata.plot.frames import Rates, Size, Source, figure_function, finish
from derivdata.plot.style import GREY, PALETTE
from derivdata.support.arrays import Floats
from derivdata.support.text import did_you_mean
from derivdata.tables.frames import require_columns
from derivdata.tables.panels import panel
from derivdata.units import convert

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_CURVE_POINTS = 200
_NUMBERS = ("hold_hours", "gross_bps", "net_bps", "net_low_bps", "net_high_bps", "probability_net_positive")


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
        time. The percentage at the right is the probability that the outcome exceeds the costs.
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
    levels = {result.attrs.get("level") for result in results}
    level = levels.pop() if len(levels) == 1 else None
    share = style.share(level) if level is not None else "interval"
    if kind == "hold":
        rows = rows.sort_values("hold_hours", ignore_index=True)
        ax = _by_hold(rows, of, share, ax)
    else:
        rows = rows.sort_values("net_apr", ascending=False, kind="stable", ignore_index=True)
        ax = _by_pair(rows, of, share, ax)
    return finish(ax, rows.drop(columns="name"), *results, source=source)


def _by_pair(rows: pd.DataFrame, of: str, share: str, ax: Axes | None) -> Axes:
    symbols = list(rows["symbol"].unique()) if "symbol" in rows else []
    of_one = f" {symbols[0]}" if len(symbols) == 1 else ""
    names = rows["name"].str.removeprefix(f"{of_one.strip()} ") if of_one else rows["name"]
    ax, place = style.rows(ax, list(names), 0.3)
    ax.hlines(place, rows["low_apr"], rows["high_apr"], color=GREY, lw=2.6, label=f"{share} of outcomes")
    ax.plot(rows["gross_apr"], place, "o", mfc="none", mec=PALETTE[0], mew=1.5, ms=6.5, label="before costs")
    ax.plot(rows["net_apr"], place, "o", color=PALETTE[1], ms=6.5, label="after costs")
    at_right: dict[str, Any] = {"xycoords": ax.get_yaxis_transform(), "textcoords": "offset points"}
    look: dict[str, Any] = {"fontsize": 8, "va": "center", "annotation_clip": False}
    for row, chance in zip(place, rows["probability_net_positive"], strict=True):
        words = style.share(chance) if np.isfinite(chance) else "no interval"
        ax.annotate(words, (1.0, row), (4, 0), **at_right, **look)
    ax.axvline(0, color=GREY, lw=1.0)
    holds = rows["hold_hours"].unique()
    held = f" held {holds[0] / 24:.3g} days" if len(holds) == 1 else ""
    clear = int((rows["net_bps"] > 0).sum()) or "None"
    title = f"{clear} of {len(rows)}{of_one} pairs{held} are forecast to clear their costs, {of}"
    ax.annotate("P(> 0)", (1.0, -0.6), (4, 3), **at_right, **(look | {"va": "bottom"}))
    style.dress(
        ax,
        title=title,
        x=f"simple APR of one leg [% per year], {of}",
        y="long / short venue",
        grid="x",
    )
    style.write(ax.xaxis, "percent")
    style.legend(ax, "above")
    return ax


def _by_hold(rows: pd.DataFrame, of: str, share: str, ax: Axes | None) -> Axes:
    if rows["name"].nunique() != 1 or rows["hold_hours"].nunique() < 2:
        raise ValueError("pass one pair at two or more holding times: forecast_carry(..., hold=h) for each")
    ax = style.axes(ax)
    days = rows["hold_hours"].to_numpy() / 24.0
    net = rows["net_bps"].to_numpy()
    low, high = rows["net_low_bps"].to_numpy(), rows["net_high_bps"].to_numpy()
    ax.vlines(days, low, high, color=GREY, lw=3.0, label=f"{share} of outcomes")
    # Means between two holding times are linear in days. On the log axis they are curves, drawn as such, so
    # that the line crosses zero where `breakeven_days` says.
    between = np.union1d(days, np.geomspace(days[0], days[-1], _CURVE_POINTS))
    gross = np.interp(between, days, rows["gross_bps"])
    ax.plot(between, gross, color=PALETTE[1], lw=1.2, ls="--", label="before costs")
    ax.plot(between, np.interp(between, days, net), color=PALETTE[0], lw=1.8)
    ax.plot(days, net, "o", color=PALETTE[0], ms=6, label="after costs")
    ax.axhline(0, color=GREY, lw=1.0)
    _limit_to_means(ax, days, low, high, np.r_[0.0, gross, net])
    for day, value in zip(days, net, strict=True):
        look: dict[str, Any] = {"textcoords": "offset points", "fontsize": 8, "va": "center"}
        ax.annotate(f"{value:+.1f}", (day, value), (7, -8), color=style.ink(), **look)
    cost = float(rows["gross_bps"].iloc[-1] - net[-1])
    even = breakeven_days(days, net)
    paid = f"does not pay the costs of {cost:.3g} bps within {days[-1]:.3g} days"
    if np.isfinite(even):
        time = f"{'after' if even > days[0] else 'within'} {even:.3g} days"
        paid = f"pays the costs of {cost:.3g} bps {time}"
        ax.axvline(even, color=PALETTE[2], lw=1.4, ls=":", label=time)
    title = f"{rows['name'].iloc[0]} (long / short): the mean forecast {paid}"
    style.dress(ax, title=title, x="holding time [days], log scale", y=f"carry, {of}\n[bps of one leg]")
    ax.set_xscale("log")
    ax.set_xlim(days[0] / 1.35, days[-1] * 1.5)
    ax.set_xticks(days, [f"{day:.3g}" for day in days])
    ax.minorticks_off()
    style.note(ax, f"bars: {share} of outcomes" + "; dotted: costs are paid" * bool(np.isfinite(even)))
    style.label_ends(ax, [(gross[-1], "before costs", PALETTE[1]), (net[-1], "after costs", PALETTE[0])])
    return ax


def _limit_to_means(ax: Axes, days: Floats, low: Floats, high: Floats, means: Floats) -> None:
    """Limit the axes to the means and as much again on both sides; write the ends of longer bars there."""
    span = float(np.ptp(means))
    # A forecast may have a mean and no interval
    bottom = max(float(np.nanmin(np.append(low, means))), float(np.min(means)) - span)
    top = min(float(np.nanmax(np.append(high, means))), float(np.max(means)) + span)
    margin = 0.08 * (top - bottom)
    ax.set_ylim(bottom - margin, top + margin)
    for end, edge, shift in ((high, 1.0, -9), (low, 0.0, 9)):
        style.mark_clipped(ax, days, end)
        outside = end > top + margin if edge else end < bottom - margin
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
        The upper axes; with payments, the lower axes show integral minus payments, and the title and the
        labels give the sums at the last payment that has a sample. Gaps are skipped in all lines.

    Raises
    ------
    ValueError
        The venue or the symbol is not in a table.
    """
    rates, symbol = style.one_symbol(style.panel_of(sampled, "rate_bps_8h"), symbol)
    rates = _venue(rates, venue)
    accrued = funding.cumulative(rates, gaps="skip")["funding_bps"]
    times = rates["time"].values
    lines = {"integral_bps": accrued.to_series()}
    paid = None if settled is None else _payments(settled, symbol, venue)
    # All sums are at one time, so that they differ by the last value of the lower axes.
    end = _last_of_both(accrued, paid)
    total = _last(accrued.sel(time=slice(None, end)))
    upper, lower = (style.axes(ax), None) if paid is None else style.strips(ax, 3.0, 1.2)
    upper.plot(times, accrued, color=PALETTE[0], lw=2.2, label="samples × time")
    ends = [(total, f"samples × time {total:+.1f}", PALETTE[0])]
    if paid is not None and lower is not None:
        payments = _last(paid.sel(time=slice(None, end)))
        ends.append((payments, f"payments {payments:+.1f}", PALETTE[1]))
        look: dict[str, Any] = {"where": "post", "color": PALETTE[1], "lw": 1.1, "label": "payments"}
        upper.step(paid["time"].values, paid, **look)
        lines["payments_bps"] = paid.to_series()
        _difference(lower, lines)
    if naive:
        added = rates.cumsum("time").where(rates.notnull())
        most = float(accrued.max())
        excess = f"\n({float(added.max()) / most:.2g} × too much)" if most > 0 else ""
        wrong = _last(added.sel(time=slice(None, end)))
        upper.plot(times, added, color=GREY, lw=1.4, ls="--", label="naive sum")
        ends.append((wrong, f"naive sum {wrong:+,.1f}{excess}", GREY))
        lines["naive_sum_bps"] = added.to_series()
    upper.axhline(0, color=GREY, lw=0.8)
    days = (end - times[0]) / np.timedelta64(1, "D")
    did = "paid" if total >= 0 else "received"
    title = f"{symbol} on {venue}: a long {did} {abs(total):.1f} bps in {days:.3g} days"
    style.dress(upper, title=title, y="paid by a long\n[bps]", form="number")
    style.label_ends(upper, ends)
    lowest = upper if lower is None else lower
    style.utc_axis(lowest)
    table = pd.DataFrame(lines).rename_axis("time").reset_index()
    return finish(
        upper, table, sampled, *([] if settled is None else [settled]), source=source, lowest=lowest
    )


def _difference(ax: Axes, lines: dict[str, pd.Series]) -> None:
    """Draw the integral of samples minus the sum of payments, at the times of payments."""
    both = pd.concat(lines, axis=1, sort=True).dropna()
    difference = both["integral_bps"] - both["payments_bps"]
    ax.plot(difference.index, difference, color=PALETTE[2], lw=1.2)
    ax.axhline(0, color=GREY, lw=0.8)
    style.dress(ax, y="samples −\npayments\n[bps]", form="number")


def _venue(rates: xr.DataArray, venue: str) -> xr.DataArray:
    if "exchange" not in rates.dims:
        raise ValueError(f"sampled has no dim 'exchange'; its dims are {tuple(map(str, rates.dims))}")
    venues = [str(name) for name in rates["exchange"].values]
    if venue not in venues:
        raise ValueError(f"{venue=}: the data has {', '.join(venues)}{did_you_mean(venue, venues)}")
    return rates.sel(exchange=venue)


def _payments(settled: pd.DataFrame, symbol: str, exchange: str) -> xr.DataArray:
    numbers = ("rate_bps_8h", "interval_hours")
    require_columns(settled, "settled", numbers, others=("symbol", "exchange", "time"))
    rows = settled[(settled["symbol"] == symbol) & (settled["exchange"] == exchange)]
    if rows.empty:
        raise ValueError(f"settled has no payments of {symbol} on {exchange}")
    paid = panel(rows, "rate_bps_8h").isel(symbol=0, exchange=0)
    return funding.cumulative(paid, gaps="skip")["funding_bps"]


def _last_of_both(accrued: xr.DataArray, paid: xr.DataArray | None) -> np.datetime64:
    """Return the last time with a sample and, if there are payments, with a payment too."""
    end: np.datetime64 = accrued["time"].values[-1]
    if paid is not None:
        both, _ = xr.align(accrued.dropna("time"), paid.dropna("time"), join="inner")
        end = both["time"].values[-1] if both.sizes["time"] else end
    return end


def _last(line: xr.DataArray) -> float:
    finite = line.dropna("time")
    return float(finite.isel(time=-1)) if finite.size else float("nan")


def _results(forecast: xr.Dataset | Sequence[xr.Dataset]) -> list[xr.Dataset]:
    """Return the forecasts as a list, checked to be results of `forecast_carry`."""
    results = [forecast] if isinstance(forecast, xr.Dataset) else list(forecast)
    for result in results:
        require_variables(result, "forecast", _NUMBERS)
        missing = [name for name in ("long", "short") if name not in result.coords]
        if missing:
            raise ValueError(f"forecast has no coordinate {missing[0]!r}: pass the result of forecast_carry")
    return results


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
    rows = pd.concat(frames, ignore_index=True) if frames else pd.DataFrame(columns=["net_bps"])
    rows = rows[rows["net_bps"].notna()].reset_index(drop=True)
    if rows.empty:
        raise ValueError("no pair has a forecast; its status has the reason (1: too few past decisions)")
    for name, of in {"net": "net", "gross": "gross", "low": "net_low", "high": "net_high"}.items():
        rows[f"{name}_apr"] = convert(rows[f"{of}_bps"], "bps", "apr", hours=rows["hold_hours"])
    legs = rows["long"].astype(str) + " / " + rows["short"].astype(str)
    rows["name"] = (rows["symbol"].astype(str) + " " if "symbol" in rows else "") + legs
    return rows
