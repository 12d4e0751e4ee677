"""Figures of what a pair of venues earns: gross and net, by holding time, and accrued."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import xarray as xr

from derivdata.analysis import funding
from derivdata.analysis.inputs import require_variables
from derivdata.plot.frames import Source, figure_function, keep_frame
from derivdata.plot.style import (
    GREY,
    NO_DATA,
    PALETTE,
    SEQUENTIAL,
    axes,
    colorbar,
    dress,
    footer,
    legend,
    one_symbol,
    percent,
    row_size,
    utc_axis,
)
from derivdata.tables.panels import panel
from derivdata.tables.required import require_columns
from derivdata.units import apr_from_bps

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["cumulative_funding", "funding_spreads", "net_carry"]

_NUMBERS = (
    "horizon_hours",
    "gross_bps",
    "net_bps",
    "net_low_bps",
    "net_high_bps",
    "gross_apr",
    "net_apr",
    "half_life_hours",
    "breakeven_hours",
)


@figure_function
def funding_spreads(
    carry: xr.Dataset | Sequence[xr.Dataset], *, source: Source | None = None, ax: Axes | None = None
) -> Axes:
    """Draw gross and net APR of each pair, coloured by its half-life: which spreads survive their costs.

    Parameters
    ----------
    carry
        What ``dd.analysis.funding.net_carry`` gave, for one pair or for several.
    source, ax
        As in every figure: see `derivdata.plot`.

    Returns
    -------
    Axes
        One row per pair, the highest net expectation at the top: a ring for the gross expectation, a dot for
        the net one with its interval, both as simple APR of one leg's notional over the holding time. A
        half-life that is unknown or infinite is grey. Pairs whose carry is unknown (NaN) are left out.

    Raises
    ------
    ValueError
        No pair has a figure.
    """
    rows = _pairs(carry).sort_values("net_apr", ascending=False, kind="stable", ignore_index=True)
    ax = axes(ax, size=row_size(len(rows), 0.36))
    place = np.arange(len(rows))
    ax.hlines(place, rows["net_apr"], rows["gross_apr"], color=GREY, lw=0.8, alpha=0.5)
    ax.hlines(place, rows["low_apr"], rows["high_apr"], color=GREY, lw=2.2)
    ax.plot(rows["gross_apr"], place, "o", mfc="none", mec=PALETTE[0], ms=6, label="gross")
    ax.scatter(rows["net_apr"], place, s=42, color=NO_DATA, edgecolor=GREY, lw=0.5, zorder=3)
    _net(ax, rows, place)
    ax.axvline(0, color=GREY, lw=1.0)
    ax.set_yticks(place, rows["name"].str.replace(", ", ",\n"))
    ax.set_ylim(len(rows) - 0.4, -0.6)
    horizons = rows["horizon_hours"].unique()
    subject = f"pairs held {horizons[0] / 24:.3g} days" if len(horizons) == 1 else "pairs"
    clear = int((rows["low_apr"] > 0).sum())
    dress(ax, title=f"{clear} of {len(rows)} {subject} clear their costs", grid="x")
    percent(ax, "x")
    ax.set_xlabel("simple APR of one leg's notional [% per year]; bar: interval of the expectation")
    legend(ax, "top", ncols=2)
    footer(ax, *_each(carry), source=source)
    return keep_frame(ax, rows.drop(columns="name"))


def _net(ax: Axes, rows: pd.DataFrame, place: Any) -> None:
    """Colour the dots of the net figures by half-life; unknown half-lives stay grey."""
    from matplotlib.colors import LogNorm

    lasting = rows["half_life_hours"].to_numpy(dtype=np.float64)
    lasting = np.where(np.isfinite(lasting) & (lasting > 0), lasting, np.nan)
    ends = _ends(lasting)
    look: dict[str, Any] = {
        "s": 42,
        "cmap": SEQUENTIAL,
        "norm": LogNorm(*ends),
        "zorder": 4,
        "ec": GREY,
        "lw": 0.6,
    }
    dots = ax.scatter(rows["net_apr"], place, c=lasting, label="net of costs", **look)
    lack = "\ngrey: none found" if np.isnan(lasting).any() else ""
    round_numbers = [d * 10.0**p for p in range(-2, 6) for d in (1, 1.5, 2, 3, 5, 7)]
    ticks = [hours for hours in round_numbers if ends[0] <= hours <= ends[1]]
    scale = colorbar(ax, dots, f"half-life of the spread [h]{lack}", ticks=ticks)
    scale.minorticks_off()
    scale.yaxis.set_major_formatter("{x:g}")


@figure_function
def net_carry(
    carry: xr.Dataset | Sequence[xr.Dataset], *, source: Source | None = None, ax: Axes | None = None
) -> Axes:
    """Draw the expected carry of a pair by holding time, and when its costs are paid.

    Parameters
    ----------
    carry
        Results of ``dd.analysis.funding.net_carry`` for one pair at several horizons: a sequence, or one
        Dataset with dim ``horizon_hours``.
    source, ax
        As in every figure: see `derivdata.plot`.

    Returns
    -------
    Axes
        The expectation of net carry with its interval, that of gross carry above it, and the break-even
        where there is one. Outcomes scatter more than the interval of their expectation says: see
        `derivdata.analysis.funding.forecast_carry`.

    Raises
    ------
    ValueError
        The results are of several pairs, or all of one horizon.
    """
    rows = _pairs(carry).sort_values("horizon_hours")
    if rows["name"].nunique() != 1 or rows["horizon_hours"].nunique() < 2:
        raise ValueError("give one pair at two horizons or more: net_carry(..., horizon_hours=h) for each h")
    ax = axes(ax)
    days = rows["horizon_hours"].to_numpy() / 24.0
    ax.fill_between(days, rows["net_low_bps"], rows["net_high_bps"], color=PALETTE[0], alpha=0.2, lw=0)
    ax.plot(days, rows["net_bps"], color=PALETTE[0], lw=1.8, label=_net_label(carry, rows))
    ax.plot(days, rows["gross_bps"], color=PALETTE[1], lw=1.2, ls="--", label="gross")
    ax.axhline(0, color=GREY, lw=1.0)
    even = float(rows["breakeven_hours"].iloc[-1]) / 24.0
    paid = f"paid after {even:.3g} days" if np.isfinite(even) else "never paid"
    if np.isfinite(even) and even <= days.max():
        ax.axvline(even, color=PALETTE[2], lw=1.2, ls=":", label=f"costs are paid after {even:.3g} days")
    cost = float(rows["gross_bps"].iloc[-1] - rows["net_bps"].iloc[-1])
    dress(ax, title=f"{rows['name'].iloc[0]}: costs of {cost:.3g} bps are {paid}")
    ax.set(xlabel="holding time [days]", ylabel="carry [bps of one leg's notional]")
    ax.set_xlim(0, days.max())
    legend(ax)
    footer(ax, *_each(carry), source=source)
    return keep_frame(ax, rows.drop(columns="name"))


def _net_label(carry: xr.Dataset | Sequence[xr.Dataset], rows: pd.DataFrame) -> str:
    levels = {one.attrs.get("level") for one in _each(carry)}
    level = levels.pop() if len(levels) == 1 else None
    interval = f"{level:.0%} interval".replace("%", " %") if level is not None else "its interval"
    size = f"\n({int(rows['periods'].max())} periods)" if "periods" in rows else ""
    return f"net expectation, {interval}{size}"


@figure_function
def cumulative_funding(
    sampled: pd.DataFrame | xr.DataArray,
    settled: pd.DataFrame | None = None,
    *,
    venue: str,
    symbol: str | None = None,
    naive: bool = False,
    source: Source | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw the funding that a long has paid: the integral of samples and the sum of settlements.

    Parameters
    ----------
    sampled
        Table ``funding_history`` or its panel of ``rate_bps_8h`` [bps/8h].
    settled
        Table ``funding_settlements`` of the same window, or None.
    venue, symbol
        Which venue; which symbol, where there are several.
    naive
        Also draw the samples added up as if each were a payment, which counts an hourly sample eight times:
        to show the mistake.
    source, ax
        As in every figure: see `derivdata.plot`.

    Returns
    -------
    Axes
        Holes are left out of all lines.

    Raises
    ------
    ValueError
        The venue or the symbol is not in a table.
    """
    given = sampled if isinstance(sampled, xr.DataArray) else panel(sampled, "rate_bps_8h")
    rates, symbol = one_symbol(given, symbol)
    rates = _venue(rates, venue)
    accrued = funding.cumulative(rates, gaps="skip")["funding_bps"]
    ax = axes(ax)
    times = rates["time"].values
    lines = {"integral_bps": accrued.to_series()}
    ax.plot(
        times, accrued, color=PALETTE[0], lw=1.8, label=f"integral of the samples: {_last(accrued):+.1f} bps"
    )
    if settled is not None:
        paid = _payments(settled, symbol, venue)
        label = f"sum of the payments: {_last(paid):+.1f} bps"
        ax.step(paid["time"].values, paid, where="post", color=PALETTE[1], lw=1.2, label=label)
        lines["payments_bps"] = paid.to_series()
    if naive:
        added = rates.cumsum("time").where(rates.notnull())
        ratio = float(added.max() / accrued.max()) if float(accrued.max()) > 0 else np.nan
        excess = f", {ratio:.2g} × as much" if np.isfinite(ratio) else ""
        label = f"naive sum of the samples, not money: {_last(added):+.1f}{excess}"
        ax.plot(times, added, color=GREY, lw=1.0, ls="--", label=label)
        lines["naive_sum_bps"] = added.to_series()
    ax.axhline(0, color=GREY, lw=0.8)
    total, days = _last(accrued), (times[-1] - times[0]) / np.timedelta64(1, "D")
    did = "paid" if total >= 0 else "received"
    dress(ax, title=f"{symbol} on {venue}: a long {did} {abs(total):.1f} bps in {days:.3g} days")
    ax.set_ylabel("cumulative funding [bps of notional]")
    legend(ax)
    utc_axis(ax)
    footer(ax, sampled, *([] if settled is None else [settled]), source=source)
    return keep_frame(ax, pd.DataFrame(lines).rename_axis("time").reset_index())


def _venue(panel: xr.DataArray, exchange: str) -> xr.DataArray:
    if "exchange" not in panel.dims:
        raise ValueError(f"sampled has no dim 'exchange'; its dims are {tuple(map(str, panel.dims))}")
    venues = [str(name) for name in panel["exchange"].values]
    if exchange not in venues:
        raise ValueError(f"exchange={exchange!r}: the data has {', '.join(venues)}")
    return panel.sel(exchange=exchange)


def _payments(settled: pd.DataFrame, symbol: str, exchange: str) -> xr.DataArray:
    numbers = ("rate_bps_8h", "interval_hours")
    require_columns(settled, "settled", numbers, others=("symbol", "exchange", "time"))
    rows = settled[(settled["symbol"] == symbol) & (settled["exchange"] == exchange)]
    if rows.empty:
        raise ValueError(f"settled has no payments of {symbol} on {exchange}")
    rates, hours = (
        panel(rows, name).isel(symbol=0, exchange=0) for name in ("rate_bps_8h", "interval_hours")
    )
    return funding.cumulative(rates, interval_hours=hours, gaps="skip")["funding_bps"]


def _last(line: xr.DataArray) -> float:
    finite = line.dropna("time")
    return float(finite.isel(time=-1)) if finite.size else float("nan")


def _each(carry: xr.Dataset | Sequence[xr.Dataset]) -> list[xr.Dataset]:
    """Return the results one by one, checked to be those of `net_carry`."""
    each = [carry] if isinstance(carry, xr.Dataset) else list(carry)
    for one in each:
        require_variables(one, "carry", _NUMBERS)
        lost = [name for name in ("long", "short") if name not in one.coords]
        if lost:
            raise ValueError(f"carry has no coordinate {lost[0]!r}: give what net_carry returned")
    return each


def _pairs(carry: xr.Dataset | Sequence[xr.Dataset]) -> pd.DataFrame:
    """Return one row per pair and horizon that has a net figure."""
    # Numbers one by one: a frame of xarray's takes a hundred times as long for one row.
    frames = [
        one.drop_attrs().to_dataframe().reset_index()
        if one.dims
        else pd.DataFrame({name: [variable.values[()]] for name, variable in one.variables.items()})
        for one in _each(carry)
    ]
    rows = pd.concat(frames, ignore_index=True) if frames else pd.DataFrame(columns=["net_bps"])
    rows = rows[rows["net_bps"].notna()].reset_index(drop=True)
    if rows.empty:
        raise ValueError(
            "no pair has a net carry; its status says why (1: too few periods, about eleven days of 8 hours)"
        )
    for end in ("low", "high"):
        rows[f"{end}_apr"] = apr_from_bps(rows[f"net_{end}_bps"], rows["horizon_hours"])
    legs = "long " + rows["long"].astype(str) + ", short " + rows["short"].astype(str)
    rows["name"] = (rows["symbol"].astype(str) + ": " if "symbol" in rows else "") + legs
    return rows


def _ends(values: Any) -> tuple[float, float]:
    finite = values[np.isfinite(values)]
    if not finite.size:
        return 1.0, 100.0
    low, high = float(finite.min()), float(finite.max())
    wider = max(4.0 * low / high, 1.0) ** 0.5
    return low / wider, high * wider
