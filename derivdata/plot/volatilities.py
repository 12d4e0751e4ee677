"""Figures of volatility over time: implied, realised, an index, skew, and cones."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pandas as pd
import xarray as xr

from derivdata.analysis.inputs import require_variables
from derivdata.plot import style
from derivdata.plot.frames import Size, Source, figure_function, finish, only_for
from derivdata.plot.style import GREY, PALETTE
from derivdata.support.arrays import Array

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_SHOWN = ("strip_index", "atm", "rr25")
_SKEWS = {"rr25": "risk reversal", "bf25": "butterfly"}


@figure_function
def volatility(
    data: xr.Dataset | xr.DataArray,
    kind: Literal["history", "realised", "published", "cone"] = "history",
    *,
    realised: xr.DataArray | None = None,
    own: xr.DataArray | None = None,
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
        ``atm`` and ``rr25``, and optionally ``bf25``. For ``"realised"``: implied volatility [1/√year] with
        the dim ``time`` only; a scalar coordinate ``tenor`` [days] appears in the labels. For
        ``"published"``: a venue's published index [1/√year], in the same form. For ``"cone"``: result of
        ``dd.analysis.volatility.cone`` for one symbol and venue.
    kind
        ``"history"``: a volatility index and volatility at the forward; below them call minus put volatility
        at 25 delta and, dotted, the butterfly, in points, one line per time to expiry. A time without a fit
        is a gap.
        ``"realised"``: implied and realised volatility, shaded by which is higher.
        ``"published"``: a published index and an index computed from chains, in the same way.
        ``"cone"``: distribution of volatility by length of window, shaded between the outermost quantiles
        and, darker, between the next ones if there are four or more; a line for the median; dots for the
        latest window, diamonds for implied volatility.
    realised
        For ``"realised"``: realised volatility in the same form, labelled with the end of its window. The
        length of the windows appears in the labels for results of ``dd.analysis.volatility``.
    own
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
        `data` or `realised` does not fit the `kind`, has several symbols or venues, or only missing values;
        or an option belongs to another `kind`.
    """
    only_for(kind, ("realised",), realised=realised)
    only_for(kind, ("published",), own=own)
    only_for(kind, ("cone",), implied=implied)
    if kind == "realised":
        return _two_lines(data, realised, symbol, source, ax)
    if kind == "published":
        return _two_lines(data, own, symbol, source, ax, names=("published", "own"))
    if not isinstance(data, xr.Dataset):
        raise ValueError(f"kind={kind!r} needs a Dataset, got a DataArray")
    if kind == "cone":
        return _cone(data, implied or {}, source, ax)
    return _over_time(data, symbol, source, ax)


def _two_lines(
    implied: Any,
    realised: Any,
    symbol: str,
    source: Source | None,
    ax: Axes | None,
    names: tuple[str, str] = ("implied", "realised"),
) -> Axes:
    for name, line in (("data", implied), (names[1], realised)):
        if getattr(line, "dims", ()) != ("time",) or not line.notnull().any():
            others = [f"{dim}=..." for dim in getattr(line, "dims", ()) if dim != "time"]
            fix = f": select with {name}.sel({', '.join(others)})" if others else ""
            raise ValueError(f"{name} must be an array with one dim, time, and a value{fix}")
    ax = style.axes(ax)
    above, below = xr.align(implied, realised, join="inner")
    # The lines may have different times: interpolate, so that the shading follows both drawn lines.
    drawn = pd.DataFrame({"upper": implied.to_series(), "lower": realised.to_series()})
    drawn = drawn.interpolate("time", limit_area="inside").dropna()
    for sign, color in ((1.0, PALETTE[0]), (-1.0, PALETTE[1])):
        where = sign * (drawn["upper"] - drawn["lower"]) > 0
        ax.fill_between(
            drawn.index, drawn["upper"], drawn["lower"], where=where, color=color, alpha=0.18, lw=0
        )
    of = _length(float(implied["tenor"]) if "tenor" in implied.coords else np.nan)
    step = realised["time"].diff("time").median() / np.timedelta64(1, "D")
    over = _length(float(step * realised.attrs.get("steps", np.nan)))
    first = names[0] + of
    second = names[1] + over
    for name, line, color in ((first, implied, PALETTE[0]), (second, realised, PALETTE[1])):
        last = float(line.dropna("time")[-1])
        ax.plot(line["time"].values, line.values, color=color, lw=1.5, label=f"{name}: {100 * last:.1f} %")
    difference = 100 * (above - below).mean().item() if above.size else np.nan
    words = f"{first} and {second}"
    if np.isfinite(difference):
        side = "above" if difference > 0 else "below"
        words = f"{first} {abs(difference):.1f} points {side} {second} on average"
    title = f"{symbol or 'Volatility'}: {words}"
    style.dress(ax, title=title, y="volatility [% annualised]", form="percent")
    style.legend(ax, "above")
    style.utc_axis(ax)
    table = pd.DataFrame({names[0]: implied.to_series(), names[1]: realised.to_series()})
    return finish(ax, table.rename_axis("time").reset_index(), implied, realised, source=source)


def _length(days: float) -> str:
    return f" ({days:.3g} days)" if np.isfinite(days) else ""


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
    for inner in range(min(2, len(quantiles) // 2)):
        label = f"{100 * quantiles[inner]:g} to {100 * quantiles[-1 - inner]:g} % of windows"
        look: dict[str, Any] = {"color": PALETTE[5], "alpha": 0.25 + 0.2 * inner, "lw": 0, "label": label}
        ax.fill_between(days, values[inner], values[-1 - inner], **look)
    if len(quantiles) % 2:
        ax.plot(days, values[len(quantiles) // 2], color=GREY, lw=1.6, label="median")
    latest = np.atleast_1d(cone["latest"].squeeze(drop=True).to_numpy())
    ax.plot(days, latest, "o", color=PALETTE[0], mec=style.paper(), ms=6, label="latest window")
    if implied:
        look = {"color": PALETTE[1], "mec": style.paper(), "ms": 7, "label": "implied"}
        ax.plot(list(implied), list(implied.values()), "D", **look)
    middle = len(days) // 2
    words = _rank(latest[middle], values[:, middle], quantiles)
    title = f"{days[middle]:g}-day realised volatility {100 * latest[middle]:.1f} %, {words}"
    y = "volatility [% annualised]"
    style.dress(ax, title=title, x="window, time to expiry [days]", y=y, form="percent")
    style.legend(ax, "right")
    table = pd.DataFrame(values.T, columns=[f"quantile_{100 * q:g}" for q in quantiles])
    table = pd.concat([pd.DataFrame({"days": days}), table.assign(latest=latest)], axis=1)
    return finish(ax, table, cone, source=source)


def _rank(value: float, levels: Array, quantiles: Array) -> str:
    """Describe the rank of a value among quantiles."""
    if value < levels[0]:
        return f"below {100 * (1.0 - quantiles[0]):.0f} % of its past"
    rank = np.interp(value, levels, quantiles)
    return f"above {100 * rank:.0f} % of its past" if np.isfinite(rank) else "not known"


def _over_time(history: xr.Dataset, symbol: str, source: Source | None, ax: Axes | None) -> Axes:
    require_variables(history, "data", _SHOWN, dims=("time", "tenor"))
    points = [name for name in ("atm", *_SKEWS) if name in history]
    seen = history[["strip_index", *points]].squeeze(
        [dim for dim in history.dims if dim not in ("time", "tenor") and history.sizes[dim] == 1], drop=True
    )
    if set(seen.dims) - {"time", "tenor"}:
        raise ValueError(f"data has dims {tuple(map(str, seen.dims))}: select one symbol and one venue")
    tenors = seen["tenor"].to_numpy()
    lines = {f"{name}_{days:g}d": seen[name].sel(tenor=days) for name in points for days in tenors}
    table = pd.DataFrame({"time": seen["time"], "strip_index": seen["strip_index"], **lines})
    if not table.drop(columns="time").notna().to_numpy().any():
        raise ValueError("data has only missing values; its variable 'status' has the reason")
    upper, lower = style.strips(ax, 2.0, 1.4, size=(8.0, 5.0))
    index = f"{history.attrs.get('index_days', 30.0):g}-day strip index"
    upper.plot(table["time"], table["strip_index"], color=style.ink(), lw=1.8, label=index)
    for place, days in enumerate(tenors):
        look: dict[str, Any] = {"color": PALETTE[place % 8], "lw": 1.2}
        upper.plot(table["time"], table[f"atm_{days:g}d"], label=f"ATM, {days:g} days", **look)
        for name, stroke in zip(points[1:], ("-", ":"), strict=False):
            lower.plot(table["time"], 100 * table[f"{name}_{days:g}d"], ls=stroke, **look)
    title = f"{symbol + ': ' if symbol else ''}{_finding(table, index)}"
    style.dress(upper, title=title, y="volatility\n[% annualised]", form="percent")
    style.legend(upper, "above")
    lower.axhline(0, color=GREY, lw=0.8)
    strokes = " (dotted)" if len(points) > 2 else ""
    named = [_SKEWS[name] for name in points[1:]]
    words = named[0] if len(named) == 1 else f"{named[0]},\n{named[1]}{strokes}"
    style.dress(lower, y=f"{words}\n25Δ [points]", form="number")
    style.utc_axis(lower)
    return finish(upper, table, history, source=source, lowest=lower)


def _finding(table: pd.DataFrame, index: str) -> str:
    """Describe the last index, its change over the window, and the sign of the skew."""
    rows = table[["time", "strip_index"]].dropna()
    words = "no index: no two expiries lie around it"
    if len(rows):
        now = 100 * rows["strip_index"].iloc[-1]
        first = 100 * rows["strip_index"].iloc[0]
        span = (rows["time"].iloc[-1] - rows["time"].iloc[0]) / pd.Timedelta(1, "D")
        length = f"{span:.3g} days" if span >= 1.0 else f"{24.0 * span:.0f} hours"
        words = f"{index} {now:.1f} %, {now - first:+.1f} points in {length}"
    skews = [name for name in table if str(name).startswith("rr25")]
    middle = skews[len(skews) // 2]
    last = table[middle].dropna()
    if len(last) and np.isfinite(last.iloc[-1]):
        side = "puts" if last.iloc[-1] < 0 else "calls"
        tenor = middle.removeprefix("rr25_").removesuffix("d")
        words += f"; {tenor}-day {side} {100 * abs(last.iloc[-1]):.1f} points richer"
    return words
