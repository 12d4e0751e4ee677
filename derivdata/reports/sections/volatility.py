"""Volatility over the window: the index and skew, and implied against realised volatility."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd
import xarray as xr

from derivdata import plot
from derivdata.analysis import surface, volatility
from derivdata.matrix import at_maturity
from derivdata.plot import style
from derivdata.plot.style import median_price
from derivdata.reports.data import Data
from derivdata.reports.page import FLAT, WIDE, Panel, Section
from derivdata.support.times import naive_utc

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_TENORS = ("7d", "30d", "90d")
_MIN_WINDOW = pd.Timedelta(3, "D")
"""Minimum window for a history of the index."""
_IMPLIED_DAYS = 30.0
_REALISED_DAYS = 7
_MIN_RETURNS = 24
_LONGEST = np.timedelta64(200, "D")
"""Maximum time to expiry of the options from which the history is computed."""
FIRST_SCREEN = 3
"""Symbols in the figure of the first screen."""
_HISTORY: dict[str, Any] = {"tenors": _TENORS, "method": "essvi", "weights": "price"}


class Level(NamedTuple):
    """Volatility of one symbol over time: 30 days ahead at the money, and realised over some days."""

    symbol: str
    implied: xr.DataArray
    realised: xr.DataArray
    table: pd.DataFrame
    days: float
    change: float
    span: float


def history_panel(section: Section, data: Data, symbol: str, venue: str, now: Any) -> Panel | None:
    """Return the panel of the index and of skew over time, up to `now`, and add their change."""
    window = data.report_options.window
    if not section.draws or window.end - window.start < _MIN_WINDOW:
        return None
    chains = data.surfaces(symbol, venue)
    if chains is None:
        section.add_missing_note(
            f"The histories of the index and of skew need option surfaces over time, which the source does "
            f"not have for {symbol}."
        )
        return None
    near = chains["expiry"] <= chains["time"][-1] + _LONGEST  # later expiries are beyond all tenors
    history = _with_now(surface.history(chains.isel(expiry=np.flatnonzero(near)), **_HISTORY), *now)
    index = 100.0 * history["strip_index"].dropna("time")
    if not index.size:
        section.add_missing_note(f"{symbol} has no expiries on both sides of 30 days over the window.")
        return None
    days = (index["time"].values[-1] - index["time"].values[0]) / np.timedelta64(1, "D")
    if days >= 1:
        change = float(index[-1] - index[0])
        section.finding(
            "changed",
            f"{symbol} 30-day strip index on {venue}: {change:+.1f} points over {days:.3g} days, "
            f"between {float(index.min()):.1f} and {float(index.max()):.1f} %.",
        )
    title = f"{symbol} volatility index and skew over time on {venue}"
    look: dict[str, Any] = {"title": title, "size": (WIDE, 4.0)}
    return section.panel(plot.volatility, history, symbol=symbol, source=chains, **look)


def _with_now(history: xr.Dataset, now: pd.DataFrame, index: float, when: pd.Timestamp) -> xr.Dataset:
    """Append the numbers of the current chain, as in the tables, to a history.

    `now` has the points by time to expiry; `index` is the strip index [%].
    """
    earlier = history.sel(time=slice(None, when - pd.Timedelta(1, "s")))
    points = now.set_index("tenor [days]").reindex(earlier["tenor"].to_numpy())
    names = {"atm": "ATM [%]", "rr25": "RR 25Δ", "bf25": "BF 25Δ"}
    last = xr.Dataset(
        {name: ("tenor", points[column].to_numpy() / 100.0) for name, column in names.items()}
        | {"strip_index": ((), index / 100.0)},
        {"tenor": earlier["tenor"]},
    ).expand_dims(time=[when.to_datetime64()])
    single = [dim for dim in earlier.dims if dim not in ("time", "tenor")]
    earlier = earlier[list(last.data_vars)].squeeze(single, drop=True)
    return xr.concat([earlier, last], "time").assign_attrs(history.attrs)


def compared(
    section: Section, data: Data, symbol: str, at_the_money: float, when: pd.Timestamp
) -> Level | None:
    """Return 30-day ATM and 7-day realised volatility over time; None, with a note, if one is missing.

    The last implied volatility is the value in the tables, `at_the_money` [%].
    """
    # 1. Realised volatility.
    frame = data.atm(symbol)
    marks = data.prices(symbol)
    if frame is None or marks is None or marks["time"].nunique() < 2:
        lacking = "prices" if frame is not None else "a history of options"
        section.add_missing_note(
            f"Realised and implied volatility of {symbol} cannot be compared without {lacking}."
        )
        return None
    price = median_price(marks).assign_attrs(units="USD")
    step = pd.Timedelta(price["time"].diff("time").median().values)
    returns = min(round(pd.Timedelta(_REALISED_DAYS, "D") / step), price.sizes["time"] - 1)
    if returns < _MIN_RETURNS:
        section.add_missing_note(
            f"Realised volatility of {symbol} needs {_MIN_RETURNS} returns; the source has {returns}."
        )
        return None
    days = returns * step / pd.Timedelta(1, "D")
    regular = price.reindex(time=pd.date_range(price["time"].values[0], price["time"].values[-1], freq=step))
    realised = volatility.bipower(regular, returns * step)["volatility"]
    # 2. Implied volatility, which ends in the value of the current chain.
    implied = at_maturity(frame, pd.Timedelta(_IMPLIED_DAYS, "D"))
    if np.isfinite(at_the_money):
        earlier = implied.sel(time=slice(None, when - pd.Timedelta(1, "s")))
        now = xr.DataArray([at_the_money / 100.0], {"time": [when.to_datetime64()]}, ["time"])
        implied = xr.concat([earlier.drop_vars(set(earlier.coords) - {"time"}), now], "time")
    implied = implied.assign_coords(tenor=_IMPLIED_DAYS)
    realised = realised.sel(time=slice(naive_utc(data.report_options.window.start), None))
    if not (implied.notnull().any() and realised.notnull().any()):
        section.add_missing_note(
            f"{symbol} has no expiries on both sides of {_IMPLIED_DAYS:.0f} days over the window."
        )
        return None
    # 3. Last values and change.
    implied_line = implied.dropna("time")
    last_realised = 100.0 * float(realised.dropna("time")[-1])
    change = 100.0 * float(implied_line[-1]) - 100.0 * float(implied_line[0])
    span = float((implied_line["time"][-1] - implied_line["time"][0]) / np.timedelta64(1, "D"))
    section.number(
        symbol, f"realised volatility, {days:.3g} days", f"{last_realised:.1f} %", window="to the last price"
    )
    section.metric(f"{symbol} realised volatility, {days:.3g} days", last_realised, "%")
    return Level(symbol, implied, realised, frame, days, change, span)


def answer_volatility(section: Section, levels: list[Level]) -> None:
    """State volatility and its change on the first screen, for the first symbols."""
    words = []
    for level in levels[:FIRST_SCREEN]:
        implied = 100.0 * float(level.implied.dropna("time")[-1])
        realised = 100.0 * float(level.realised.dropna("time")[-1])
        change = f"{level.change:+.1f} points in {level.span:.3g} days"
        words.append(f"{level.symbol}: 30-day ATM {implied:.1f} % ({change}), realised {realised:.1f} %")
    if words:
        panel = section.panel(
            _draw_levels, levels[:FIRST_SCREEN], title="ATM and realised volatility", size=FLAT
        )
        section.answer("How does volatility change?", f"{'; '.join(words)}.", panel)


def realised_panel(section: Section, level: Level) -> Panel:
    """Return the panel of 30-day ATM and realised volatility of one symbol."""
    title = f"{level.symbol} 30-day ATM and realised volatility"
    look: dict[str, Any] = {"title": title, "size": (WIDE, 3.0), "source": level.table}
    options: dict[str, Any] = {"realised": level.realised, "symbol": level.symbol}
    return section.panel(plot.volatility, level.implied, "realised", **options, **look)


def _draw_levels(levels: list[Level], *, ax: Axes, source: Any = None) -> Axes:
    """Draw ATM volatility of each symbol and, dashed, realised volatility."""
    for place, level in enumerate(levels):
        color = style.PALETTE[place]
        for name, line, stroke in (("30-day ATM", level.implied, "-"), ("realised", level.realised, "--")):
            last = 100.0 * float(line.dropna("time")[-1])
            label = f"{level.symbol} {name} {last:.1f} %"
            ax.plot(line["time"].values, line.values, color=color, ls=stroke, lw=1.3, label=label)
    title = f"30-day ATM and {levels[0].days:.3g}-day realised volatility"
    style.dress(ax, title=title, y="volatility\n[% annualised]", form="percent")
    style.legend(ax, "above")
    style.utc_axis(ax)
    style.footer(ax, *(level.table for level in levels), source=source)
    return ax
