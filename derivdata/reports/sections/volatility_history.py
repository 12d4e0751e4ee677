"""The volatility index and skew over the window."""

from __future__ import annotations

import numpy as np
import pandas as pd

from derivdata import plot
from derivdata.analysis import surface
from derivdata.reports.data import Data
from derivdata.reports.html_page import WIDE, Section

__all__ = ["add_volatility_history"]

_TENORS = (7.0, 30.0, 90.0)
_LEAST = pd.Timedelta(3, "D")
"""Shorter windows have no history of the index."""


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
    history = surface.history(chains, days=_TENORS, method="essvi", weights="price")
    if not history["index_pct"].notnull().any():
        section.add_missing_note(f"No expiries of {symbol} lie around 30 days over the window.")
        return
    last = pd.Timestamp(history["time"].values[-1])
    section.figure(
        plot.volatility_history,
        history,
        symbol=symbol,
        source=chains,
        title=f"{symbol} volatility index and skew over time on {venue}",
        reading="The index prices all strikes 30 days ahead; volatility at the money (ATM) is that at the "
        "forward. Below, 25-delta calls less puts: below zero, protection against a fall costs more. "
        f"eSSVI fits of {history.sizes['time']} instants, the last of {last:%Y-%m-%d %H:%M} UTC.",
        size=(WIDE, 4.6),
    )
    index = history["index_pct"].dropna("time")
    days = (index["time"].values[-1] - index["time"].values[0]) / np.timedelta64(1, "D")
    if days >= 1:
        change = float(index[-1] - index[0])
        section.finding(
            "changed",
            f"{symbol} 30-day volatility index on {venue}: {change:+.1f} points over {days:.3g} days, "
            f"between {float(index.min()):.1f} and {float(index.max()):.1f} %.",
        )
