"""Carry: the widest spreads between venues, which of them survive their costs, and what past picks earned."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import xarray as xr

from derivdata import plot, units
from derivdata.analysis import funding
from derivdata.analysis.funding.carry_forecast import of_what
from derivdata.analysis.funding.status import FundingStatus
from derivdata.plot.style import row_size
from derivdata.reports.data import Data, Rates
from derivdata.reports.drawing import Drawings, Task
from derivdata.reports.html_page import WIDE, Section, count, lasting, pct, rate
from derivdata.reports.report_options import FEE_BPS, OTHERS, ReportOptions
from derivdata.tables.panels import panel

_PAIRS = 6
_DAYS = 7
_HOLD = f"{_DAYS}d"
_PERIOD = pd.Timedelta(8, "h")
_HOLDS = ("1d", "3d", "7d", "14d", "30d")
_RECORD_DAYS = (7, 3)
_LEAST_PICKS = 5
_WARNING = (
    "The API's own warning: the data is informational and not intended for P&L, backtesting or production "
    "trading."
)
_FORMATS = {
    "mean spread [bps/8h]": ".3f",
    "hours in favour [%]": ".0f",
    "half-life [h]": ".0f",
} | dict.fromkeys(("gross APR [%]", "net APR [%]", "costs [bps]"), ".1f")


class Pair(NamedTuple):
    """A pair with a wide spread: its mean over the window, its forecast, and when its costs are paid."""

    symbol: str
    long: str
    short: str
    spread: float
    favour: float
    forecast: xr.Dataset
    even: xr.Dataset

    @property
    def name(self) -> str:
        """Symbol and legs."""
        return f"{self.symbol}, long {self.long}, short {self.short}"


def carry_section(data: Data) -> Section:
    """Build the section on the widest spreads, gross and net, and on carry by holding time."""
    section = Section("Carry", drawings=data.drawings)
    rates = data.rates
    if data.from_the_api:
        section.text(_WARNING, "warn")
    section.text(_costs(data.report_options))
    if rates is None:
        section.add_missing_note(data.missing["funding rates"])
        return section
    widest = _widest(rates.panel)
    if widest.empty:
        section.add_missing_note(
            "No two venues have rates over the same half of the window: there is no spread."
        )
        return section
    if not _holds_a_period(rates):
        section.add_missing_note(
            "The rates span no whole period of 8 hours (from 00:00, 08:00 or 16:00 UTC), in which carry is "
            "counted."
        )
        return section
    fees = {str(venue): data.report_options.fee(str(venue)) for venue in rates.panel["exchange"].values}
    past = data.past_rates or rates
    forecasts = funding.forecast_carry(past.panel, hold=_HOLD, fee_bps=fees)
    shown, marks, doubt = _priced(data, past, fees, forecasts, widest)
    pairs = [_pair(rates, fees, shown, row) for row in widest.itertuples(index=False)]
    _forecast_note(section, past, forecasts, priced=marks is not None, doubt=doubt)
    forecast = [pair for pair in pairs if np.isfinite(float(pair.forecast["net_bps"]))]
    if forecast:
        _spreads(section, rates, forecast)
    drawings = data.drawings or Drawings(several=False)
    record = drawings.add(partial(funding.pick_record, past.panel, hold=f"{_RECORD_DAYS[0]}d", fee_bps=fees))
    firsts = {pair.symbol: pair for pair in reversed(forecast)}
    curves = [(pair, _by_holding(drawings, past, fees, pair, marks)) for pair in reversed(firsts.values())]

    def rest() -> None:
        drawings.finish([record, *(task for _, tasks in curves for task in tasks)])
        for pair, tasks in curves:
            _holding(section, past, pair, tasks)
        section.table(pd.DataFrame([_row(pair) for pair in pairs]), formats=_FORMATS)
        _unknown(section, pairs)
        section.text(_record(past, fees, record.made))
        _findings(section, pairs, forecast)

    section.rest = rest
    return section


def _costs(options: ReportOptions) -> str:
    others = options.fee_bps[OTHERS]
    named = ", ".join(f"{venue} {fee:g}" for venue, fee in sorted(options.fee_bps.items()) if venue != OTHERS)
    costs = f"{named}; {others:g} bps on every other venue" if named else f"{others:g} bps on every venue"
    whose = "as given" if options.given else f"assumed: {FEE_BPS:g} bps is a usual taker fee"
    return (
        "A spread is the short venue's rate less the long venue's. A pair trades four times: in and out on "
        f"both venues. Cost of one trade: {costs} ({whose}). Figures are per year of one leg's notional for "
        f"a pair held {_DAYS} days; slippage, margin, borrow, transfers and the risk of either "
        "venue are not in them. The break-even lets what stays of the spread revert to its mean of the "
        "window with the half-life beside it; “cannot tell” stands where the window allows everything from "
        "one step to for ever, a blank where nothing of the spread lasts a step."
    )


def _priced(
    data: Data, past: Rates, fees: Mapping[str, float], forecasts: xr.Dataset, widest: pd.DataFrame
) -> tuple[xr.Dataset, xr.DataArray | None, str]:
    """Return forecasts of the widest pairs, their marks, and what is wrong with these.

    Where a pair lacks marks, or a mark is another coin's, forecasts are of funding only, without marks.
    """
    rows = list(widest[["symbol", "long", "short"]].itertuples(index=False, name=None))
    legs = sorted({(long, short) for _, long, short in rows})
    known = [bool(_of(forecasts, *row)["net_bps"].notnull()) for row in rows]
    symbols, venues = (
        sorted({symbol for symbol, *_ in rows}),
        sorted({venue for pair in legs for venue in pair}),
    )
    table = data.past_marks(symbols, venues) if any(known) else None
    if table is None:
        return forecasts, None, ""
    marks = panel(table)
    try:
        priced = funding.forecast_carry(past.panel, legs, hold=_HOLD, fee_bps=fees, prices=marks, parts=False)
    except ValueError as problem:  # another coin under the same ticker
        return forecasts, None, str(problem)
    whole = known == [bool(_of(priced, *row)["net_bps"].notnull()) for row in rows]
    return (priced, marks, "") if whole else (forecasts, None, "")


def _of(forecasts: xr.Dataset, symbol: str, long: str, short: str) -> xr.Dataset:
    of_symbol = forecasts.sel(symbol=symbol)
    place = np.flatnonzero((of_symbol["long"] == long) & (of_symbol["short"] == short))[0]
    return of_symbol.isel(pair=int(place))


def _forecast_note(section: Section, past: Rates, forecasts: xr.Dataset, *, priced: bool, doubt: str) -> None:
    """Say what the forecast rests on, and how many positions it finds above their costs."""
    net = forecasts["net_bps"]
    if not net.notnull().any():
        section.add_missing_note(
            "No forecast: it needs ten past decisions with a known outcome, which takes 26 days of rates; "
            f"the source has {_days(past):.0f}."
        )
        return
    clear, of = int((net > 0.0).sum()), int(net.notnull().sum())
    section.text(
        "The forecast is a regression over all pairs on what each paid in the last 8 hours, day, three days, "
        f"week and sixty days, learnt from {_days(past):.0f} days of rates; its interval comes from the "
        f"errors of its own past forecasts, and is to contain nine in ten outcomes. {said_of(forecasts)} "
        f"{'For the widest pairs, below, it is. ' if priced else ''}Of {of:,} positions {clear:,} have a "
        "forecast above their costs. The largest of so many is large by luck too: what past picks earned "
        "stands below."
    )
    if doubt:
        section.add_missing_note(f"The widest pairs are forecast by funding only: {doubt}")
    if bool((forecasts["status"] & FundingStatus.FEW_DECISIONS).any()):
        worth = float(forecasts["decisions"].where(net.notnull()).min())
        section.add_missing_note(
            f"{_days(past):.0f} days of rates, all that the source has, are short for a forecast of {_DAYS} "
            f"days: its past decisions are worth {worth:.2g} independent ones, and with fewer than eight it "
            "is hardly better than to expect nothing. 90 days have enough."
        )


def said_of(forecast: xr.Dataset) -> str:
    """Say whether the outcomes of a forecast contain what the prices of the legs do."""
    outcome = of_what(forecast)
    included = "is" if outcome == "funding and prices" else "is not"
    return f"It is of {outcome}: what the prices of the two legs do against each other {included} in it."


def _widest(rates: xr.DataArray) -> pd.DataFrame:
    """Return the pairs with the widest mean spread of each symbol, in the direction that earns."""
    widest = []
    for symbol in rates["symbol"].values:
        spreads = funding.spread(rates.sel(symbol=symbol, drop=True))
        observed = spreads.notnull().sum("time")
        columns = {"spread": spreads.mean("time"), "favour": (spreads > 0).sum("time") / observed}
        frame = xr.Dataset(columns | {"known": observed}).to_dataframe()
        candidates = frame[(frame["known"] >= 0.5 * rates.sizes["time"]) & (frame["spread"] > 0)]
        top = candidates.sort_values("spread", ascending=False).head(_PAIRS).reset_index()
        widest.append(top.assign(symbol=str(symbol)))
    return pd.concat(widest)[["symbol", "long", "short", "spread", "favour"]]


def _pair(rates: Rates, fees: Mapping[str, float], forecasts: xr.Dataset, row: tuple[Any, ...]) -> Pair:
    symbol, long, short, *_ = row
    panel = rates.panel.sel(symbol=symbol)
    # Until the last instant at which both venues have a rate, if within the last day.
    both = np.flatnonzero(panel.sel(exchange=[long, short]).notnull().all("exchange"))
    times = panel["time"].values
    if both.size and times[-1] - times[both[-1]] <= np.timedelta64(1, "D"):
        panel = panel.isel(time=slice(None, both[-1] + 1))
    even = funding.breakeven(panel, long, short, fee_bps=fees)
    return Pair._make((*row, _of(forecasts, symbol, long, short), even))


def _holds_a_period(rates: Rates) -> bool:
    """Return whether samples span a whole period; payments summed over periods are periods already."""
    times = pd.DatetimeIndex(rates.panel["time"].values)
    if rates.settled:
        return True
    end = times[-1] + pd.Timedelta(np.median(np.diff(times)))  # the last sample holds for a step
    return bool(times[0].ceil(_PERIOD) + _PERIOD <= end)


def _spreads(section: Section, rates: Rates, forecast: list[Pair]) -> None:
    section.figure(
        plot.carry,
        [pair.forecast for pair in forecast],
        source=rates.table,
        title=f"Carry of the widest spreads, gross and net, {of_what(forecast[0].forecast)}",
        reading="The ring is the forecast before costs, the dot after them, and the bar holds nine in ten "
        "outcomes. The brighter a dot, the likelier it earns more than it costs. "
        + said_of(forecast[0].forecast),
        size=row_size(len(forecast), 0.3, wide=WIDE),
    )


def _unknown(section: Section, pairs: list[Pair]) -> None:
    reasons = {
        FundingStatus.TOO_FEW: "have under ten past decisions with a known outcome, which takes 26 days of "
        "rates",
        FundingStatus.GAP: "have no rate over 8 hours of the last day, from which a forecast starts",
    }
    for reason, words in reasons.items():
        without = sum(bool(int(p.forecast["status"]) & reason) for p in pairs)
        if without:
            section.add_missing_note(
                f"{without} of these {count(len(pairs), 'pair')} {words}: their net carry is blank."
            )


def _row(pair: Pair) -> dict[str, object]:
    gross, net, low, high = (
        100.0 * units.convert(float(pair.forecast[f"{name}_bps"]), "bps", "apr", hours=24.0 * _DAYS)
        for name in ("gross", "net", "net_low", "net_high")
    )
    blind = int(pair.even["status"]) & FundingStatus.CANNOT_TELL
    shortest, longest, lasts, even = (
        float(pair.even[f"{name}_hours"])
        for name in ("half_life_low", "half_life_high", "half_life", "breakeven")
    )
    interval = f"{shortest:.0f} to {longest:.0f}".replace("inf", "∞") if np.isfinite(shortest) else ""
    return {
        "symbol": pair.symbol,
        "long": pair.long,
        "short": pair.short,
        "mean spread [bps/8h]": pair.spread,
        "hours in favour [%]": 100 * pair.favour,
        "gross APR [%]": gross,
        "costs [bps]": float(pair.forecast["cost_bps"]),
        "net APR [%]": net,
        "90 % of outcomes": f"{low:.1f} to {high:.1f}" if np.isfinite(low) else "",
        "break-even": "" if blind or np.isnan(even) else lasting(even),
        "half-life [h]": np.nan if blind else lasts,
        "its interval": "cannot tell" if blind else interval,
    }


def _by_holding(
    drawings: Drawings, past: Rates, fees: Mapping[str, float], pair: Pair, marks: xr.DataArray | None
) -> list[Task]:
    """Have a pair forecast over the holding times beside the one that it has a forecast of."""
    rates, legs = past.panel.sel(symbol=pair.symbol), [(pair.long, pair.short)]
    prices = None if marks is None else marks.sel(symbol=pair.symbol)
    forecast = partial(funding.forecast_carry, rates, legs, fee_bps=fees, prices=prices, parts=False)
    return [drawings.add(partial(forecast, hold=hold)) for hold in _HOLDS if hold != _HOLD]


def _holding(section: Section, past: Rates, pair: Pair, tasks: list[Task]) -> None:
    curve = [task.made.isel(pair=0) for task in tasks if np.isfinite(task.made["net_bps"]).all()]
    curve = sorted([pair.forecast, *curve], key=lambda each: float(each["hold_hours"]))
    if len(curve) > 1:
        section.figure(
            plot.carry,
            curve,
            kind="hold",
            source=past.table,
            title=f"{pair.symbol} forecast carry by holding time, {of_what(pair.forecast)}",
            reading="The line is what the widest pair is forecast to have earned after costs when it is "
            "closed after so many days, the band nine in ten outcomes; below zero the costs are not paid.",
        )


def _record(past: Rates, fees: Mapping[str, float], record: xr.Dataset) -> str:
    """Say what past picks were forecast to earn and earned, over the longest holding time first: `record`."""
    blind = "These pairs were picked as the widest in this same window (in sample), so expect less of them. "
    for days in _RECORD_DAYS:
        if days < _RECORD_DAYS[0]:
            record = funding.pick_record(past.panel, hold=f"{days}d", fee_bps=fees)
        summary = funding.pick_summary(record)
        if int(summary["picks"]) >= _LEAST_PICKS:
            return blind + _said(summary, days, _days(past))
    return blind + "Too few past picks were forecast to clear their costs for a record of them."


def _said(summary: xr.Dataset, days: int, history: float) -> str:
    figures = {str(name): float(figure) for name, figure in summary.items()}
    low, high = (figures[f"difference_{end}_bps"] for end in ("low", "high"))
    agree = "which agrees" if low <= 0.0 <= high else "which does not agree"
    compared = (
        f" ({agree}: forecast less earned lies between {low:+.1f} and {high:+.1f} with 95 % confidence)"
    )
    inside = np.rint(figures["coverage"] * figures["picks"])
    return (
        "Past picks: the position with the largest forecast after costs, where that was above zero, decided "
        f"every {days} days of the last {history:.0f} days on what was known then and held as long. "
        f"{count(int(figures['picks']), 'pick')}: forecast {figures['predicted_net_bps']:+.1f} bps each "
        f"after costs, earned {figures['realised_net_bps']:+.1f}{'' if np.isnan(low) else compared}, by "
        f"funding alone; {inside:.0f} of the outcomes lay within the forecast's 90 % interval."
    )


def _days(rates: Rates) -> float:
    times = rates.panel["time"].values
    return float((times[-1] - times[0]) / np.timedelta64(1, "D"))


def _findings(section: Section, pairs: list[Pair], forecast: list[Pair]) -> None:
    widest = max(pairs, key=lambda p: p.spread)
    section.finding(
        "wide",
        f"Widest spread: {widest.name}, {rate(widest.spread)} on average, in favour "
        f"{pct(widest.favour, 0)} of the time.",
    )
    if not forecast:
        section.finding("left", "Unknown: no pair's carry can be forecast from this window.")
        return
    sure = [p for p in forecast if float(p.forecast["net_low_bps"]) > 0]
    by = of_what(forecast[0].forecast)
    label = f"of the widest pairs clear their costs by {by} in 19 of 20 outcomes (in sample)"
    section.number(f"{len(sure)} of {len(pairs)}", label, window=f"held {_DAYS} days")
    for pair in sorted(sure, key=lambda p: -float(p.forecast["net_bps"]))[:4]:
        section.finding("left", _earning(pair))
    if not sure:
        none = "The widest pair is not sure to clear its costs"
        if len(forecast) > 1:
            none = f"None of the {len(forecast)} widest pairs is sure to clear its costs"
        section.finding("left", f"{none} (the interval of nine in ten outcomes includes zero).")


def _earning(pair: Pair) -> str:
    net, low, high = (
        pct(units.convert(float(pair.forecast[f"net_{end}bps"]), "bps", "apr", hours=24.0 * _DAYS))
        for end in ("", "low_", "high_")
    )
    row = _row(pair)
    half_life = lasting(float(str(row["half-life [h]"])))
    return (
        f"{pair.name}: {net} a year net ({low} to {high}) if held {_DAYS} days, by {of_what(pair.forecast)}; "
        f"costs paid after {row['break-even'] or 'unknown'} at a half-life of {half_life}."
    )
