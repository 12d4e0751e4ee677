"""Figures of options in a report: smiles, volatility by delta and time to expiry, term structure, levels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd
import xarray as xr
from scipy.special import ndtr

from derivdata.analysis import smile
from derivdata.analysis.surface.points import points_at_expiries
from derivdata.plot import style
from derivdata.plot.fits import chosen_expiries, days, expiry_axis, fitted, remaining
from derivdata.support.arrays import Array
from derivdata.support.times import naive_utc

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_COLUMNS = 3
"""Smiles in one figure."""
_DELTAS = {0.25: "25P", 0.5: "50", 0.75: "25C"}
_SHOWN_DELTA = 0.05
"""Distance from delta 0 and 1 within which quotes are not drawn: high volatilities would flatten the rest."""
_CURVE_POINTS = 101
_FLAT_POINTS = 0.5
"""Range below which a term structure is described as flat [volatility points]."""
_LIGHT = 0.6
"""Part of the colour map that is used: dark numbers are legible only on light cells."""


class Level(NamedTuple):
    """Volatility of one symbol over time: 30 days ahead at the money, and realised over some days."""

    symbol: str
    implied: xr.DataArray
    realised: xr.DataArray
    table: pd.DataFrame
    days: float
    change: float
    span: float


def _write_head(ax: Axes, title: str, key: str, height: float) -> None:
    """Write a title and a key above labels of columns that are `height` points high."""
    style.dress(ax, title=title, grid="")
    pad = height
    if key:
        look: dict[str, Any] = {"xycoords": "axes fraction", "textcoords": "offset points", "fontsize": 8}
        look |= {"va": "bottom", "color": style.muted(), "annotation_clip": False}
        ax.annotate(key, (0.0, 1.0), (-style.indent(ax), height), **look)
        pad += 12.0
    style.set_title(ax, ax.get_title(loc="left"), pad=pad + 4.0)


def draw_smiles(
    quotes: xr.Dataset,
    fit: xr.Dataset,
    name: str,
    expiries: list[pd.Timestamp] | None,
    *,
    ax: Axes,
    source: Any,
) -> Axes:
    """Draw the smiles of up to three expiries next to each other, over delta, with strikes on top."""
    curves = fitted(fit)
    listed = pd.DatetimeIndex(curves["expiry"].to_numpy())
    if expiries is not None:
        listed = listed[listed.isin(expiries)]
    listed = listed[chosen_expiries(listed, None, _COLUMNS)]
    reversals = 100.0 * points_at_expiries(curves.sel(expiry=listed), ("rr25",))["rr25"].to_numpy()
    tenors = days(curves.sel(expiry=listed))
    cells = style.columns(ax, len(listed), gap=0.06)
    levels: list[Array] = []
    for cell, expiry, tenor, reversal in zip(cells, listed, tenors, reversals, strict=True):
        levels += _draw_smile(cell, quotes.sel(expiry=expiry), curves.sel(expiry=expiry))
        richer = "puts" if reversal < 0.0 else "calls"
        heading = f"{expiry.day} {expiry:%b %Y}, {remaining(tenor)}"
        if np.isfinite(reversal):
            heading += f"\n25Δ {richer} {abs(reversal):+.1f}"
        look: dict[str, Any] = {"xycoords": "axes fraction", "textcoords": "offset points", "fontsize": 8}
        cell.annotate(heading, (0.0, 1.0), (0, 17), va="bottom", annotation_clip=False, **look)
    low = float(np.nanmin(np.concatenate(levels)))
    high = float(np.nanmax(np.concatenate(levels)))
    margin = max(0.06 * (high - low), 0.005)
    cells[0].set_ylim(low - margin, high + margin)
    for cell in cells:
        style.dress(cell)
    style.dress(cells[0], y="implied volatility [% a year]", form="percent")
    middle = cells[len(cells) // 2]
    middle.set_xlabel("delta [%]: puts (P), calls (C)", fontsize=8.5)
    key = "dots: quotes; line: fit; grey: strikes at 25 delta [USD]"
    if {"iv_bid", "iv_ask"} <= set(quotes):
        key = key.replace("dots: quotes", "bars: bid to ask")
    _write_head(ax, f"{name}: {skew_words(reversals, tenors)}", key, 41.0)
    style.footer(middle, quotes, source=source)
    return ax


def _draw_smile(ax: Axes, quotes: xr.Dataset, curve: xr.Dataset) -> list[Array]:
    """Draw one smile; return its volatilities."""
    years = float(curve["year_fraction"])
    # 1. Quotes from bid to ask, or dots.
    k = quotes["log_moneyness"].to_numpy()
    iv = quotes["iv"].to_numpy()
    delta = _call_delta(k, iv, years)
    inside = (delta > _SHOWN_DELTA) & (delta < 1.0 - _SHOWN_DELTA)
    levels = [iv[inside]]
    if {"iv_bid", "iv_ask"} <= set(quotes):
        bid = quotes["iv_bid"].to_numpy()[inside]
        ask = quotes["iv_ask"].to_numpy()[inside]
        ax.vlines(delta[inside], bid, ask, color=style.PALETTE[1], lw=3.5, alpha=0.6)
        levels += [bid, ask]
    ax.plot(delta[inside], iv[inside], "o", color=style.PALETTE[1], ms=2.0)
    # 2. The fit within the quotes.
    across = np.linspace(float(curve["k_min"]), float(curve["k_max"]), _CURVE_POINTS)
    line = np.asarray(smile.iv(curve, across)).ravel()
    places = _call_delta(across, line, years)
    is_shown = (places > _SHOWN_DELTA) & (places < 1.0 - _SHOWN_DELTA)
    ax.plot(places[is_shown], line[is_shown], color=style.PALETTE[0], lw=1.2)
    # 3. Strikes at 25 delta.
    ax.set_xlim(_SHOWN_DELTA - 0.02, 1.02 - _SHOWN_DELTA)
    ax.set_xticks(list(_DELTAS), list(_DELTAS.values()))
    look: dict[str, Any] = {"xycoords": ax.get_xaxis_transform(), "textcoords": "offset points"}
    for place in (0.25, 0.75):
        if places[0] <= place <= places[-1]:
            strike = float(curve["forward"]) * np.exp(np.interp(place, places, across))
            digits = 10.0 ** (np.floor(np.log10(strike)) - 2)
            words = style.number(float(np.round(strike / digits) * digits))
            ax.annotate(words, (place, 1.0), (0, 4), ha="center", fontsize=8, color=style.muted(), **look)
    return [*levels, line[is_shown]]


def _call_delta(k: Array, iv: Array, years: float) -> Array:
    """Return one minus the call's forward delta: 0.25 is the 25-delta put, 0.75 the 25-delta call."""
    deviation = iv * np.sqrt(years)
    delta: Array = ndtr(k / deviation - deviation / 2.0)
    return delta


def skew_words(reversals: Array, tenors: Array) -> str:
    """Describe 25-delta risk reversals [points] by days to expiry."""
    finite = np.isfinite(reversals)
    if not finite.any():
        return "25 delta is beyond the quotes"
    values = reversals[finite]
    steepest = int(np.argmax(np.abs(values)))
    most = f"at {remaining(float(tenors[finite][steepest]))}"
    sizes = np.sort(np.abs(values))
    if values.min() < 0.0 < values.max():
        side = "puts" if values[steepest] < 0.0 else "calls"
        return f"the 25-delta skew changes sign with expiry; {side} are {sizes[-1]:.1f} points richer {most}"
    richer, other = ("puts", "calls") if values[steepest] < 0.0 else ("calls", "puts")
    span = f"{sizes[-1]:.1f}"
    if len(sizes) > 1:
        span = f"{sizes[0]:.1f} to {sizes[-1]:.1f}"
    words = f"25-delta {richer} cost {span} volatility points more than {other}"
    if len(sizes) > 1:
        words += f", most {most}"
    return words


_ROWS = {
    "10Δ call": ("BF 10Δ", "RR 10Δ", 0.5),
    "25Δ call": ("BF 25Δ", "RR 25Δ", 0.5),
    "ATM": ("", "", 0.0),
    "25Δ put": ("BF 25Δ", "RR 25Δ", -0.5),
    "10Δ put": ("BF 10Δ", "RR 10Δ", -0.5),
}
"""Columns of the table of points for each row of the surface, and the sign of the risk reversal."""


def draw_surface(points: pd.DataFrame, name: str, *, ax: Axes, source: Any) -> Axes:
    """Draw volatility by delta and time to expiry as numbered cells; `points` is the table by tenor."""
    tenors = points["tenor [days]"].to_numpy(dtype=np.float64)
    rows = []
    for butterfly, reversal, sign in _ROWS.values():
        level = points["ATM [%]"].to_numpy(dtype=np.float64)
        if butterfly:
            level = level + points[butterfly].to_numpy() + sign * points[reversal].to_numpy()
        rows.append(level)
    iv = np.array(rows)
    logs = np.log(tenors)
    middle = (logs[1:] + logs[:-1]) / 2.0
    edges = np.exp(np.r_[2.0 * logs[0] - middle[0], middle, 2.0 * logs[-1] - middle[-1]])
    centres = np.sqrt(edges[:-1] * edges[1:])  # of the columns, near the tenors
    low = float(np.nanmin(iv))
    span = max(float(np.nanmax(iv)) - low, 1.0)
    colours = style.colours_with_gaps("YlOrBr")
    # Cells without a value are grey: masked values have the colour of missing ones.
    ax.pcolormesh(
        edges,
        np.arange(len(rows) + 1),
        np.ma.masked_invalid(iv),
        cmap=colours,
        vmin=low,
        vmax=low + span / _LIGHT,
    )
    for row, column in np.ndindex(iv.shape):
        if np.isfinite(iv[row, column]):
            look: dict[str, Any] = {"ha": "center", "va": "center", "fontsize": 8.5, "color": "#101010"}
            ax.text(centres[column], row + 0.5, f"{iv[row, column]:.1f}", **look)
    ax.set_xscale("log")
    ax.set_xlim(edges[0], edges[-1])
    ax.set_xticks(centres, [f"{tenor:.0f}" for tenor in tenors])
    ax.minorticks_off()
    ax.set_yticks(np.arange(len(rows)) + 0.5, list(_ROWS))
    ax.set_ylim(len(rows), 0.0)
    ax.tick_params(axis="y", length=0)
    style.dress(ax, title=f"{name}: {_skew(iv, tenors)}", x="time to expiry [days], log scale", grid="")
    key = "implied volatility [% a year], darker is higher"
    if not np.isfinite(iv).all():
        key += "; grey: beyond the quotes"
    style.note(ax, key)
    style.footer(ax, source=source)
    return ax


def _skew(iv: Array, tenors: Array) -> str:
    """Describe 10-delta puts against 10-delta calls at the first and the last tenor with both."""
    gap = iv[-1] - iv[0]
    columns = np.flatnonzero(np.isfinite(gap))
    if not columns.size:
        return f"at-the-money volatility is {np.nanmin(iv[2]):.1f} to {np.nanmax(iv[2]):.1f} %"
    first, last = int(columns[0]), int(columns[-1])
    sides = ["above" if value >= 0.0 else "below" for value in gap]
    sizes = [f"{abs(value):.1f}" for value in gap]
    words = f"10Δ puts are {sizes[first]} points {sides[first]} 10Δ calls in {tenors[first]:.0f} days"
    if last == first:
        return words
    if sides[first] == sides[last]:
        return f"{words}, {sizes[last]} in {tenors[last]:.0f} days"
    return f"{words}, {sizes[last]} points {sides[last]} in {tenors[last]:.0f} days"


def draw_term(fit: xr.Dataset, before: pd.DataFrame | None, name: str, *, ax: Axes, source: Any) -> Axes:
    """Draw ATM volatility by expiry with bid and ask, and the day before as a thin line."""
    curve = fitted(fit)
    tenors = days(curve)
    atm = np.asarray(smile.iv(curve, 0.0, extrapolate=True)).ravel()
    half = np.full(len(atm), np.nan)
    if "atm_half_spread_vol" in curve:  # Some chains have quotes without bid and ask.
        half = np.asarray(curve["atm_half_spread_vol"]).ravel()
    now = pd.Series(atm, pd.DatetimeIndex(curve["expiry"].to_numpy()))
    ax.vlines(tenors, atm - half, atm + half, color=style.PALETTE[0], lw=3.0, alpha=0.4)
    ax.plot(tenors, atm, "o-", ms=4.5, lw=1.8, color=style.PALETTE[0])
    ends = [(float(atm[-1]), f"now {100.0 * atm[-1]:.1f} %", style.PALETTE[0])]
    words = term_words(tenors, 100.0 * atm)
    if before is not None:
        words = words.split(" and ")[0]  # the change is in the title too
    if before is not None:
        past = pd.Series(before["iv"].to_numpy(), naive_utc(pd.DatetimeIndex(before["expiry"])))
        past = past.reindex(now.index)
        ax.plot(tenors, past, lw=1.0, color=style.GREY)
        words += change_words(100.0 * now.to_numpy(), 100.0 * past.to_numpy())
        if np.isfinite(past.iloc[-1]):
            ends.append((float(past.iloc[-1]), f"day before {100.0 * past.iloc[-1]:.1f} %", style.GREY))
    # At least two points of volatility, so that a flat line does not look steep.
    low, high = ax.get_ylim()
    missing = max(0.02 - (high - low), 0.0) / 2.0
    ax.set_ylim(low - missing, high + missing)
    style.dress(ax, title=f"{name}: {words}", y="ATM volatility [% a year]", form="percent")
    if np.isfinite(half).any():
        style.note(ax, "bars: bid to ask at the money")
    style.label_ends(ax, ends)
    expiry_axis(ax, tenors, curve["expiry"].to_numpy())
    style.footer(ax, source=source)
    return ax


def term_words(tenors: Array, atm: Array) -> str:
    """Describe the shape of a term structure: levels [%] by days to expiry."""
    if len(atm) == 1:
        return f"ATM volatility is {atm[0]:.1f} % at the only expiry"
    ends = [f"{level:.1f} % in {remaining(float(tenor))}" for level, tenor in zip(atm, tenors, strict=True)]
    first, last = ends[0], ends[-1]
    if np.ptp(atm) < _FLAT_POINTS:
        return f"ATM volatility is flat at {np.mean(atm):.1f} %"
    top = int(np.argmax(atm))
    bottom = int(np.argmin(atm))
    hump = atm[top] - max(atm[0], atm[-1])
    trough = min(atm[0], atm[-1]) - atm[bottom]
    # A bend of a tenth of the drawn range is visible.
    visible = min(_FLAT_POINTS / 2.0, 0.1 * np.ptp(atm))
    if hump >= visible and hump >= trough:
        return f"ATM volatility peaks at {ends[top]} and falls to {last}"
    if trough >= visible:
        return f"ATM volatility falls to {ends[bottom]} and rises to {last}"
    moves = "rises" if atm[-1] > atm[0] else "falls"
    return f"ATM volatility {moves} from {first} to {last}"


def change_words(now: Array, past: Array) -> str:
    """Describe the mean change of all expiries since the day before, from levels [%]."""
    change = round(float(np.nanmean(now - past)), 1) if np.isfinite(now - past).any() else np.nan
    if np.isnan(change):
        return ""
    if not change:
        return ", on average unchanged from the day before"
    side = "above" if change > 0.0 else "below"
    return f", on average {abs(change):.1f} points {side} the day before"


def draw_levels(levels: list[Level], *, ax: Axes, source: Any = None) -> Axes:
    """Draw ATM minus realised volatility of each symbol over time."""
    ends: list[tuple[float, str, str]] = []
    parts: list[str] = []
    latest: list[str] = []
    for place, level in enumerate(levels):
        implied = 100.0 * level.implied.dropna("time")
        # The window of realised volatility ends with the last price, before the current chain.
        realised = 100.0 * level.realised.dropna("time")
        realised = realised.interp(time=implied["time"], kwargs={"fill_value": (np.nan, float(realised[-1]))})
        gap = implied - realised
        ax.plot(gap["time"].values, gap.values, lw=1.6, **style.look(place))
        # Rounded like the levels, so that the title states their difference.
        last = gap.dropna("time")["time"][-1]
        levels_of_last = [round(float(line.sel(time=last)), 1) for line in (implied, realised)]
        size = levels_of_last[0] - levels_of_last[1]
        side = "above" if size >= 0.0 else "below"
        parts.append(f"{abs(size):.1f}{' points' * (not parts)} {side}")
        latest.append(f"{level.symbol} {levels_of_last[0]:.1f} − {levels_of_last[1]:.1f} %")
        ends.append((float(gap.sel(time=last)), f"{level.symbol} {size:+.1f}", style.PALETTE[place % 8]))
    ax.axhline(0.0, color=style.GREY, lw=1.0)
    days = ""
    if len({level.days for level in levels}) == 1:
        days = f"{levels[0].days:.3g}-day "
    title = f"Latest 30-day ATM is {parts[0]} {days}realised for {levels[0].symbol}"
    for words, level in zip(parts[1:], levels[1:], strict=True):
        title += f", {words} for {level.symbol}"
    style.dress(ax, title=title, y="ATM − realised\n[points]")
    style.note(ax, f"latest: {', '.join(latest)}")
    ax.locator_params(axis="y", nbins=5, steps=[1, 2, 5, 10])
    style.label_ends(ax, ends)
    style.utc_axis(ax, has_labels=True)
    style.footer(ax, *(level.table for level in levels), source=source)
    return ax
