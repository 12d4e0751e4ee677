"""Volatility over the window: the index and skew, and implied against realised volatility."""

from __future__ import annotations

import numpy as np
import pandas as pd

from derivdata import plot
from derivdata.analysis import surface, volatility
from derivdata.matrix import at_maturity
from derivdata.plot.style import median_price
from derivdata.reports.data import Data
from derivdata.reports.html_page import WIDE, Section
from derivdata.support.times import naive_utc

_TENORS = ("7d", "30d", "90d")
_LEAST = pd.Timedelta(3, "D")
"""Shorter windows have no history of the index."""
_IMPLIED_DAYS = 30.0
_REALISED_DAYS = 7
_LEAST_RETURNS = 24


def add_volatility_history(section: Section, data: Data, symbol: str, venue: str) -> None:
    """Add the figure of the index and of skew over time, and sentences on their change."""
    window = data.report_options.window
    if section.drawings is None or window.end - window.start < _LEAST:
        return
    chains = data.surfaces(symbol, venue)
    if chains is None:
        section.add_missing_note(
            f"Without option surfaces over time of {symbol} there is no history of the index and of skew."
        )
        return
    history = surface.history(chains, tenors=_TENORS, method="essvi", weights="price")
    if not history["strip_index"].notnull().any():
        section.add_missing_note(f"No expiries of {symbol} lie around 30 days over the window.")
        return
    last = pd.Timestamp(history["time"].values[-1])
    section.figure(
        plot.volatility,
        history,
        symbol=symbol,
        source=chains,
        title=f"{symbol} volatility index and skew over time on {venue}",
        reading="The index is that of the strip of quotes 30 days ahead, without wings; volatility at the "
        "money (ATM) is that at the forward. Below, 25-delta calls less puts: below zero, protection against "
        "a fall costs more. "
        f"eSSVI fits of {history.sizes['time']} instants, the last of {last:%Y-%m-%d %H:%M} UTC.",
        size=(WIDE, 4.6),
    )
    index = 100.0 * history["strip_index"].dropna("time")
    days = (index["time"].values[-1] - index["time"].values[0]) / np.timedelta64(1, "D")
    if days >= 1:
        change = float(index[-1] - index[0])
        section.finding(
            "changed",
            f"{symbol} 30-day volatility index on {venue}: {change:+.1f} points over {days:.3g} days, "
            f"between {float(index.min()):.1f} and {float(index.max()):.1f} %.",
        )


def add_realised_volatility(section: Section, data: Data, symbol: str) -> None:
    """Add the figure and sentence on 30-day implied and 7-day realised volatility."""
    frame = data.atm(symbol)
    marks = data.prices(symbol)
    if frame is None or marks is None or marks["time"].nunique() < 2:
        section.add_missing_note(
            f"Without {'prices' if frame is not None else 'a history of options'} of {symbol}, realised and "
            "implied volatility are not compared."
        )
        return
    price = median_price(marks).assign_attrs(units="USD")
    step = pd.Timedelta(price["time"].diff("time").median().values)
    returns = min(round(pd.Timedelta(_REALISED_DAYS, "D") / step), price.sizes["time"] - 1)
    if returns < _LEAST_RETURNS:
        section.add_missing_note(f"Under {_LEAST_RETURNS} returns of {symbol}: too few to be a volatility.")
        return
    days = returns * step / pd.Timedelta(1, "D")
    regular = price.reindex(time=pd.date_range(price["time"].values[0], price["time"].values[-1], freq=step))
    realised = volatility.bipower(regular, returns * step)["volatility"]
    implied = at_maturity(frame, pd.Timedelta(_IMPLIED_DAYS, "D")).assign_coords(tenor=_IMPLIED_DAYS)
    realised = realised.sel(time=slice(naive_utc(data.report_options.window.start), None))
    if not (implied.notnull().any() and realised.notnull().any()):
        section.add_missing_note(
            f"No expiries of {symbol} lie around {_IMPLIED_DAYS:.0f} days over the window."
        )
        return
    section.figure(
        plot.volatility,
        implied,
        "realised",
        realised=realised,
        symbol=symbol,
        source=frame,
        title=f"{symbol} implied and realised volatility",
        reading=f"One line is what options of {_IMPLIED_DAYS:.0f} days cost, the other how much the price "
        f"moved over the {days:.3g} days before. Where implied lies above, sellers were paid more than the "
        "market moved; what it moves next is not known.",
    )
    now, before = (float(line.dropna("time")[-1]) for line in (implied, realised))
    section.headline(
        symbol,
        f"30-day implied volatility {100 * now:.1f} % against {100 * before:.1f} % realised over "
        f"{days:.3g} days",
    )
    section.metric(f"{symbol} realised volatility, {days:.3g} days", 100 * before, "%")
