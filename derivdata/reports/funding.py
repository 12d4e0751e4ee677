"""Funding: rates of each venue, and recent changes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from derivdata import plot, tables, units
from derivdata.analysis import funding
from derivdata.plot.funding import history_limits
from derivdata.reports.data import Data, Rates
from derivdata.reports.page import WIDE, Panel, Section, pct, rate, venue_words
from derivdata.support.times import naive_utc
from derivdata.tables.panels import panel

_DAY = pd.Timedelta(1, "D")
_SMALLEST_MOVE = 0.005  # bps/8h: rounds to the same two digits
_SAMPLED = (
    "Rates are sampled and stated in basis points per 8 hours, also for venues with another interval. Longs "
    "pay shorts if a rate is positive."
)
_SETTLED = (
    "The source has no sampled rates for this window. These are payments, summed over every 8 hours and "
    "labelled with the end of the period, in basis points of notional; longs paid shorts where they are "
    "positive."
)
_SHOWN = 12
_HIGHLIGHT = 2
"""Number of venues with a lane, from each end of the ranking."""
_SHORT = ["venue", "now [bps/8h]", "last 24 h", "mean [bps/8h]"]
_FORMATS = (
    {"share [%]": ".1f", "points": ",d"}
    | dict.fromkeys(
        ("now [bps/8h]", "mean [bps/8h]", "last 24 h", "lowest", "highest", "rate [bps/8h]"), ".3f"
    )
    | {"mean as APR [%]": ".1f", "as APR [%]": ".1f", "interval [h]": "g"}
)


def funding_section(data: Data) -> Section:
    """Build the section on funding per venue over the window; without a history, current rates."""
    section = data.section("Funding")
    history = data.rates
    if history is None:
        section.add_missing_note(data.missing["funding rates"])
        _rates_now(section, data)
        return section
    section.text(_SETTLED if history.settled else _SAMPLED)
    rates = history.panel
    symbols = rates["symbol"].values.tolist()
    by_symbol = {symbol: rates.sel(symbol=symbol).dropna("exchange", how="all") for symbol in symbols}
    section.figure(
        _history_panels(section, history, by_symbol),
        "A lane for each of the venues with the highest and the lowest mean rate, all at one scale. Orange: "
        "longs pay; purple: shorts pay; the dotted line is the median of all venues. A pair that is long on "
        "a low lane and short on a high lane earns the difference.",
        f"{venue_words(rates['exchange'].values)}, {data.report_options.period}",
    )
    now = data.funding_now()
    end = data.report_options.window.end
    tables_by_symbol = {symbol: _venues(rates, end, now, symbol) for symbol, rates in by_symbol.items()}
    for symbol, by_venue in tables_by_symbol.items():
        if len(by_venue) > _SHOWN:
            section.table(by_venue[_SHORT], f"{symbol} funding", formats=_FORMATS, narrow=True)
        _findings(section, data, by_symbol[symbol], by_venue, symbol)
    for symbol, by_venue in tables_by_symbol.items():
        is_long = len(by_venue) > _SHOWN
        name = f"{symbol} funding"
        if is_long:
            name = f"{name}: extremes and points of every venue"
        section.table(by_venue, name, formats=_FORMATS, fold=is_long)
    for symbol in data.report_options.symbols:
        if symbol not in by_symbol:
            section.add_missing_note(f"The source has no funding rates of {symbol} for this window.")
    return section


def _history_panels(section: Section, history: Rates, by_symbol: dict[str, xr.DataArray]) -> list[Panel]:
    """Return a panel of rates over time for each symbol, all at one scale."""
    limits = history_limits(list(by_symbol.values()), _HIGHLIGHT)
    panels = []
    for symbol, rates in by_symbol.items():
        look: dict[str, Any] = {"title": f"{symbol} funding rate by venue over time", "size": (WIDE, 3.3)}
        look |= {"highlight": _HIGHLIGHT, "limits": limits, "source": history.table}
        panels.append(section.panel(plot.funding_history, rates, **look))
    return panels


def _rates_now(section: Section, data: Data) -> None:
    """Add current rates, which every key may read, if the key or the source has no history."""
    table = data.funding_now()
    if table is None:
        section.add_missing_note(data.missing.get("funding rates now", "No funding rates now either."))
        return
    section.text(
        f"Rates now, as of {table['time'].max():%Y-%m-%d %H:%M} UTC, in basis points per 8 hours; longs pay "
        "shorts where they are positive. Without a history there are no means, no spreads over time and no "
        "carry."
    )
    for symbol in data.report_options.symbols:
        rows = table[table["symbol"] == symbol].sort_values("rate_bps_8h", ascending=False, ignore_index=True)
        if rows.empty:
            section.add_missing_note(f"The source has no funding rates of {symbol}.")
            continue
        section.table(_now(rows), f"{symbol} funding now", formats=_FORMATS)
        top = rows.iloc[0]
        bottom = rows.iloc[-1]
        median = float(rows["rate_bps_8h"].median())
        apr = pct(units.convert(median, "bps_8h", "apr"), signed=True)
        name = f"funding, median of {len(rows)} venues"
        section.number(symbol, name, f"{rate(median)} ({apr} a year)", window="now")
        section.finding(
            "wide",
            f"{symbol} funding now: from {rate(bottom['rate_bps_8h'])} on {bottom['exchange']} to "
            f"{rate(top['rate_bps_8h'])} on {top['exchange']}.",
        )


def _now(rows: pd.DataFrame) -> pd.DataFrame:
    venues = rows["exchange"].astype(str)
    return pd.DataFrame(
        {
            "venue": venues,
            "kind": venues.map(_kind),
            "rate [bps/8h]": rows["rate_bps_8h"],
            "as APR [%]": 100 * units.convert(rows["rate_bps_8h"], "bps_8h", "apr"),
            "interval [h]": rows["interval_hours"],
        }
    )


def _kind(venue: str) -> str:
    return tables.VENUES[venue].kind if venue in tables.VENUES else "unknown"


def _venues(rates: xr.DataArray, end: pd.Timestamp, now: pd.DataFrame | None, symbol: str) -> pd.DataFrame:
    """Return one row per venue: the current rate, means over the last day and the window, and extremes."""
    last_day = rates.sel(time=slice(naive_utc(end - _DAY), None))
    venues = pd.Series(rates["exchange"].values).astype(str)
    means = rates.mean("time").values
    latest = pd.Series(dtype=np.float64)
    if now is not None:
        rows = now[now["symbol"] == symbol]
        latest = pd.Series(rows["rate_bps_8h"].to_numpy(), index=rows["exchange"].astype(str))
    frame = pd.DataFrame(
        {
            "venue": venues,
            "kind": venues.map(_kind),
            "now [bps/8h]": latest.reindex(venues).to_numpy(),
            "mean [bps/8h]": means,
            "mean as APR [%]": 100 * units.convert(means, "bps_8h", "apr"),
            "last 24 h": last_day.mean("time").values if last_day.sizes["time"] else np.nan,
            "lowest": rates.min("time").values,
            "highest": rates.max("time").values,
            "points": rates.notnull().sum("time").values,
        }
    )
    return frame.sort_values("mean [bps/8h]", ascending=False, ignore_index=True)


def _findings(section: Section, data: Data, rates: xr.DataArray, by_venue: pd.DataFrame, symbol: str) -> None:
    """Add the range of rates over venues, and the change over the last day."""
    venues = by_venue["venue"]
    means = by_venue["mean [bps/8h]"]
    low, high = np.percentile(means, [25, 75])
    words = (
        f"mean rates range from {rate(means.iloc[-1])} on {venues.iloc[-1]} to {rate(means.iloc[0])} on "
        f"{venues.iloc[0]}; the interquartile range of {len(by_venue)} venues is {low:+.2f} to {high:+.2f}"
    )
    if len(by_venue) == 1:
        words = f"mean rate {rate(means.iloc[0])} on {by_venue['venue'].iloc[0]}, the only venue"
    section.finding("wide", f"{symbol} funding: {words}.")
    window = data.report_options.window
    if window.end - window.start <= _DAY:
        return
    weighted, what = _weighted(data, rates, symbol)
    last_day = float(weighted.sel(time=slice(naive_utc(window.end - _DAY), None)).mean())
    mean = float(weighted.mean())
    if np.isfinite(last_day):
        apr = pct(units.convert(last_day, "bps_8h", "apr"), signed=True)
        section.number(
            symbol, f"funding, {what}", f"{rate(last_day)} ({apr} a year)", window="mean of the last 24 h"
        )
        section.metric(f"{symbol} funding, {what}, last 24 h", last_day, "bps/8h")
        section.finding(
            "changed",
            f"{symbol} funding, {what}: {rate(last_day)} over the last 24 hours against {rate(mean)} over "
            f"the window{_mover(by_venue)}.",
        )


def _weighted(data: Data, rates: xr.DataArray, symbol: str) -> tuple[Any, str]:
    """Return the mean over venues at each time, weighted by open interest, else the median, and its name."""
    open_interest = data.oi(symbol)
    if open_interest is not None:
        oi = panel(open_interest, "oi_usd").isel(symbol=0).reindex(time=rates["time"])
        mean = funding.oi_weighted(rates, oi)["rate_bps_8h"]
        if mean.notnull().any():
            return mean, "weighted by open interest"
    return rates.median("exchange"), "median of venues"


def _mover(by_venue: pd.DataFrame) -> str:
    """Return a sentence about the largest change of a venue over the last day; empty for small changes."""
    change = (by_venue["last 24 h"] - by_venue["mean [bps/8h]"]).dropna()
    if change.empty or change.abs().max() < _SMALLEST_MOVE:
        return ""
    row = by_venue.loc[change.abs().idxmax()]
    return (
        f"; {row['venue']} moved most, from a mean of {row['mean [bps/8h]']:+.2f} to {row['last 24 h']:+.2f}"
    )
