"""What pairs are forecast to earn, ranked, and what past picks of the same forecast earned."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd
import xarray as xr

from derivdata.analysis import funding
from derivdata.analysis.funding.carry_forecast import of_what
from derivdata.analysis.funding.status import FundingStatus
from derivdata.reports.data import Rates
from derivdata.reports.html_page import Section, count
from derivdata.reports.report_options import ReportOptions

_SHOWN = 6
_DAYS = 7
_RECORD_DAYS = (7, 3)
_LEAST_PICKS = 5
_FORMATS = {"forecast net [bps]": "+.1f", "costs [bps]": ".1f", "chance above costs [%]": ".0f"}


def forecasts_of(rates: Rates, fee_bps: Mapping[str, float], hold: str = f"{_DAYS}d") -> xr.Dataset:
    """Return the forecast of every pair of every symbol."""
    return funding.forecast_carry(rates.panel, hold=hold, fee_bps=fee_bps)


def said_of(forecast: xr.Dataset) -> str:
    """Say whether the outcomes of a forecast contain what the prices of the legs do."""
    outcome = of_what(forecast)
    included = "is" if outcome == "funding and prices" else "is not"
    return f"It is of {outcome}: what the prices of the two legs do against each other {included} in it."


def fees_of(rates: Rates, options: ReportOptions) -> dict[str, float]:
    """Return the fee of one trade on every venue [bps]."""
    return {str(venue): options.fee(str(venue)) for venue in rates.panel["exchange"].values}


def add_forecast(section: Section, rates: Rates, options: ReportOptions, forecasts: xr.Dataset) -> None:
    """Add the pairs with the largest forecast after costs, and the record of past picks."""
    section.heading(f"What pairs are forecast to earn in {_DAYS} days")
    ranked = _ranked(forecasts)
    if ranked.empty:
        section.add_missing_note(
            "No forecast: it needs ten past decisions with a known outcome, which takes 26 days of rates; "
            f"the source has {_days(rates):.0f}."
        )
        return
    section.text(
        "Ranked by the mean outcome after costs, in bps of one leg's notional. The forecast is a regression "
        f"over all pairs on what each paid in the last 8 hours, day, three days, week and sixty days, learnt "
        f"from {_days(rates):.0f} days of rates; its "
        "interval comes from the errors of its own past forecasts, and is to contain nine in ten outcomes. "
        f"{said_of(forecasts)}"
    )
    worth = forecasts["decisions"].where(forecasts["net_bps"].notnull())
    if bool((forecasts["status"] & FundingStatus.FEW_DECISIONS).any()):
        section.add_missing_note(
            f"{_days(rates):.0f} days of rates, all that the source has, are short for a forecast of {_DAYS} "
            f"days: its past decisions are worth {float(worth.min()):.2g} independent ones, and with fewer "
            "than eight it is hardly better than to expect nothing. 90 days have enough."
        )
    shown = ranked.groupby("symbol", sort=False, observed=True).head(_SHOWN)
    section.table(shown.drop(columns="net"), formats=_FORMATS)
    best = ranked.loc[ranked["net"].idxmax()]
    named = f"{best['symbol']}, long {best['long']}, short {best['short']}"
    clear = int((ranked["net"] > 0.0).sum())
    section.number(
        f"{clear} of {len(ranked)}",
        "positions are forecast to earn more than they cost; the best of so many is partly luck",
        window=f"held {_DAYS} days",
    )
    if clear:
        section.finding(
            "forecast",
            f"Largest forecast: {named}, {best['net']:+.1f} bps after costs in {_DAYS} days "
            f"(90 % of outcomes: {best['90 % of outcomes']}).",
        )
    else:
        section.finding(
            "forecast",
            f"Nothing clears its costs: the largest forecast is {best['net']:+.1f} bps after them ({named}).",
        )
    section.text(_record(rates, fees_of(rates, options)))


def _ranked(forecasts: xr.Dataset) -> pd.DataFrame:
    """Return every position that has a forecast, the largest of each symbol first."""
    found = []
    for symbol in forecasts["symbol"].values:
        forecast = forecasts.sel(symbol=symbol, drop=True)
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
    """Say what past picks were forecast to earn and earned, over the longest holding time."""
    for days in _RECORD_DAYS:
        record = funding.pick_record(rates.panel, hold=f"{days}d", fee_bps=fees)
        summary = funding.pick_summary(record)
        if int(summary["picks"]) >= _LEAST_PICKS:
            return _said(summary, days, _days(rates))
    return "Too few past picks were forecast to clear their costs for a record of them."


def _days(rates: Rates) -> float:
    times = rates.panel["time"].values
    return float((times[-1] - times[0]) / np.timedelta64(1, "D"))


def _said(summary: xr.Dataset, days: int, history: float) -> str:
    figures = {str(name): float(figure) for name, figure in summary.items()}
    time = "day" if days == 1 else f"{days} days"
    low, high = (figures[f"difference_{end}_bps"] for end in ("low", "high"))
    agree = "which agrees" if low <= 0.0 <= high else "which does not agree"
    compared = (
        ""
        if np.isnan(low)
        else f" ({agree}: forecast less earned lies between {low:+.1f} and {high:+.1f} with 95 % confidence)"
    )
    inside = np.rint(figures["coverage"] * figures["picks"])
    return (
        "Past picks: the position with the largest forecast after costs, where that was above zero, decided "
        f"every {time} of the last {history:.0f} days on what was known then and held as long. "
        f"{count(int(figures['picks']), 'pick')}: forecast {figures['predicted_net_bps']:+.1f} bps each "
        f"after costs, earned {figures['realised_net_bps']:+.1f}{compared}; "
        f"{inside:.0f} of the outcomes lay within the forecast's 90 % interval."
    )
