"""What pairs are forecast to earn, ranked, and what past picks of the same forecast earned."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd
import xarray as xr

from derivdata.analysis import funding
from derivdata.reports.funding_rates import Rates
from derivdata.reports.html_page import Section, count
from derivdata.reports.report_options import ReportOptions

__all__ = ["add_forecast"]

_SHOWN = 6
_HOLD_HOURS = 7 * 24.0
_RECORD_HOURS = (7 * 24.0, 3 * 24.0, 24.0)
_LEAST_PICKS = 5
_FORMATS = {"forecast net [bps]": "+.1f", "costs [bps]": ".1f", "chance above costs [%]": ".0f"}


def add_forecast(section: Section, rates: Rates, options: ReportOptions) -> None:
    """Add the pairs with the largest forecast after costs, and the record of past picks."""
    section.heading(f"What pairs are forecast to earn in {_HOLD_HOURS / 24:g} days")
    fees = {str(venue): options.fee(str(venue)) for venue in rates.panel["exchange"].values}
    ranked = _ranked(rates, fees)
    if ranked.empty:
        section.add_missing_note(
            "No forecast: it needs ten past decisions with a known outcome, which takes a window of 26 days."
        )
        return
    section.text(
        "Ranked by the mean outcome after costs, in bps of one leg's notional. The forecast is a regression "
        "over all pairs on what each paid in the last 8 hours, day, three days, week and on the whole; its "
        "interval comes from the errors of its own past forecasts, and is to contain nine in ten outcomes."
    )
    shown = ranked.groupby("symbol", sort=False, observed=True).head(_SHOWN)
    section.table(shown.drop(columns="net"), formats=_FORMATS)
    best = ranked.loc[ranked["net"].idxmax()]
    named = f"{best['symbol']}, long {best['long']}, short {best['short']}"
    clear = int((ranked["net"] > 0.0).sum())
    section.number(
        f"{clear} of {len(ranked)}",
        "positions are forecast to earn more than they cost",
        window=f"held {_HOLD_HOURS / 24:g} days",
    )
    if clear:
        section.finding(
            "forecast",
            f"Largest forecast: {named}, {best['net']:+.1f} bps after costs in {_HOLD_HOURS / 24:g} days "
            f"(90 % of outcomes: {best['90 % of outcomes']}).",
        )
    else:
        section.finding(
            "forecast",
            f"Nothing clears its costs: the largest forecast is {best['net']:+.1f} bps after them ({named}).",
        )
    section.text(_record(rates, fees))


def _ranked(rates: Rates, fees: Mapping[str, float]) -> pd.DataFrame:
    """Return every position that has a forecast, the largest of each symbol first."""
    found = []
    for symbol in rates.panel["symbol"].values:
        forecast = funding.forecast_carry(
            rates.panel.sel(symbol=symbol, drop=True),
            hold_hours=_HOLD_HOURS,
            cost_bps=fees,
            interval_hours=rates.interval_hours,
        )
        rows = forecast.to_dataframe().dropna(subset="net_bps").sort_values("net_bps", ascending=False)
        ends = zip(rows["net_low_bps"], rows["net_high_bps"], strict=True)
        found.append(
            pd.DataFrame(
                {
                    "symbol": str(symbol),
                    "long": rows["long"].astype(str),
                    "short": rows["short"].astype(str),
                    "forecast net [bps]": rows["net_bps"],
                    "90 % of outcomes": [f"{low:+.1f} to {high:+.1f}" for low, high in ends],
                    "chance above costs [%]": 100.0 * rows["probability_net_positive"],
                    "costs [bps]": rows["cost_bps"],
                    "net": rows["net_bps"],
                }
            )
        )
    return pd.concat(found, ignore_index=True)


def _record(rates: Rates, fees: Mapping[str, float]) -> str:
    """Say what the picks of the window were forecast to earn and earned, over the longest holding time."""
    for hold in _RECORD_HOURS:
        record = funding.pick_record(
            rates.panel, hold_hours=hold, cost_bps=fees, interval_hours=rates.interval_hours
        )
        summary = funding.pick_summary(record)
        if int(summary["picks"]) >= _LEAST_PICKS:
            return _said(summary, hold)
    return "The window is too short for a record of past picks."


def _said(summary: xr.Dataset, hold: float) -> str:
    figures = {str(name): float(figure) for name, figure in summary.items()}
    time = "day" if hold == 24.0 else f"{hold / 24:g} days"
    low, high = (figures[f"difference_{end}_bps"] for end in ("low", "high"))
    agree = "which agrees" if low <= 0.0 <= high else "which does not agree"
    compared = (
        ""
        if np.isnan(low)
        else f" ({agree}: forecast less earned lies between {low:+.1f} and {high:+.1f} with 95 % confidence)"
    )
    inside = np.rint(figures["coverage"] * figures["picks"])
    return (
        f"Past picks: the position with the largest forecast after costs, decided every {time} of the window "
        f"on what was known then and held as long. {count(int(figures['picks']), 'pick')}: forecast "
        f"{figures['predicted_net_bps']:+.1f} bps each after costs, earned "
        f"{figures['realised_net_bps']:+.1f}{compared}; "
        f"{inside:.0f} of the outcomes lay within the forecast's 90 % interval."
    )
