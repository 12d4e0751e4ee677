"""Carry: the widest spreads between venues, which of them survive their costs, and what past picks earned."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd
import xarray as xr

from derivdata import plot, units
from derivdata.analysis import funding
from derivdata.analysis.funding.carry_forecast import of_what
from derivdata.analysis.status import FundingStatus
from derivdata.plot import style
from derivdata.plot.carry_bars import breakeven_days
from derivdata.reports.data import Data, Rates
from derivdata.reports.drawing import Panel
from derivdata.reports.html_page import FLAT, Section, count, pct, rate
from derivdata.reports.report_options import FEE_BPS, OTHERS, ReportOptions
from derivdata.tables.panels import panel

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_PAIRS = 6
_DAYS = 7
_HOLD = f"{_DAYS}d"
_PERIOD = pd.Timedelta(8, "h")
_HOLDS = ("3d", "7d", "14d")
_LEAST_DAYS = 26.0
"""Fewest days of rates for a forecast."""
_SHOWN = 5
"""Pairs on the first screen."""
_QUESTION = "Which spreads survive costs?"
_RECORD_DAYS = (7, 3)
_LEAST_PICKS = 5
_WARNING = (
    "The API's own warning: the data is informational and not intended for P&L, backtesting or production "
    "trading."
)
_FORMATS = {
    "mean spread [bps/8h]": ".3f",
    "hours in favour [%]": ".0f",
} | dict.fromkeys(("gross APR [%]", "net APR [%]", "costs [bps]"), ".1f")


class Pair(NamedTuple):
    """A pair with a wide spread: its mean over the window, and its forecasts by holding time."""

    symbol: str
    long: str
    short: str
    spread: float
    favour: float
    forecast: xr.Dataset
    curve: list[xr.Dataset]

    @property
    def name(self) -> str:
        """Symbol and legs."""
        return f"{self.symbol}, long {self.long}, short {self.short}"

    @property
    def paid_after(self) -> float:
        """Holding time [days] from which the mean forecast pays the costs, by the curve that is drawn."""
        net = np.array([float(one["net_bps"]) for one in self.curve])
        days = np.array([float(one["hold_hours"]) / 24.0 for one in self.curve])
        return breakeven_days(days, net)

    @property
    def paid_words(self) -> str:
        """The same in words, empty without a forecast."""
        days = [float(one["hold_hours"]) / 24.0 for one in self.curve]
        if not days:
            return ""
        if np.isnan(self.paid_after):
            return f"not within {days[-1]:.3g} days"
        within = "within " if self.paid_after <= days[0] else ""
        return f"{within}{self.paid_after:.3g} days"


def carry_section(data: Data) -> Section:
    """Build the section on the widest spreads, gross and net, and on carry by holding time."""
    section = data.section("Carry")
    rates = data.rates
    if data.from_the_api:
        section.text(_WARNING, "warn")
    section.text(_costs(data.report_options))
    if rates is None:
        section.add_missing_note(data.missing["funding rates"])
        return section
    widest = _widest(rates.panel)
    if widest.empty:
        section.add_missing_note("A spread needs two venues with rates over the same half of the window.")
        return section
    if not _holds_a_period(rates):
        section.add_missing_note(
            "The rates span no whole period of 8 hours (from 00:00, 08:00 or 16:00 UTC), in which carry is "
            "counted."
        )
        return section
    fees = {str(venue): data.report_options.fee(str(venue)) for venue in rates.panel["exchange"].values}
    past = data.past_rates or rates
    pairs, doubt = _forecast(data, past, fees, widest)
    known = [pair for pair in pairs if np.isfinite(float(pair.forecast["net_bps"]))]
    _forecast_note(section, past, [pair.forecast for pair in pairs], doubt=doubt)
    _figures(section, past, known)
    section.table(pd.DataFrame([_row(pair) for pair in pairs]), "Widest spreads", formats=_FORMATS)
    _unknown(section, pairs)
    section.text(_record(past, fees))
    _findings(section, rates, pairs, known)
    return section


def _costs(options: ReportOptions) -> str:
    others = options.fee_bps[OTHERS]
    named = ", ".join(f"{venue} {fee:g}" for venue, fee in sorted(options.fee_bps.items()) if venue != OTHERS)
    costs = f"{named}; {others:g} bps on every other venue" if named else f"{others:g} bps on every venue"
    whose = "as given" if options.given else f"assumed: {FEE_BPS:g} bps is a usual taker fee"
    return (
        "A spread is the short venue's rate minus the long venue's. A pair trades four times: in and out on "
        f"both venues. Cost of one trade: {costs} ({whose}). Figures are per year of one leg's notional for "
        f"a pair held {_DAYS} days; slippage, margin, borrow, transfers and the risk of either "
        "venue are not in them. Costs are paid after the holding time at which the mean forecast after costs "
        "rises to zero."
    )


def _forecast(
    data: Data, past: Rates, fees: Mapping[str, float], widest: pd.DataFrame
) -> tuple[list[Pair], str]:
    """Return the widest pairs with their forecasts by holding time, and what is wrong with their marks.

    Where a pair lacks marks, or a mark is another coin's, all forecasts are of funding only.
    """
    rows = list(widest.itertuples(index=False, name=None))
    legs = sorted({(long, short) for _, long, short, *_ in rows})
    symbols = sorted({symbol for symbol, *_ in rows})
    rates = past.panel.sel(symbol=symbols)
    options: dict[str, Any] = {"fee_bps": fees, "parts": False}
    venues = sorted({venue for pair in legs for venue in pair})
    table = data.past_marks(symbols, venues) if _days(past) >= _LEAST_DAYS else None
    at_first = None
    doubt = ""
    if table is not None:
        marks = panel(table)
        try:
            at_first = funding.forecast_carry(rates, legs, hold=_HOLD, prices=marks, **options)
        except ValueError as problem:  # another coin under the same ticker
            doubt = str(problem)
    known = [at_first is not None and _is_known(at_first, row) for row in rows]
    if at_first is None or not all(known):
        of_funding = funding.forecast_carry(rates, legs, hold=_HOLD, **options)
        if at_first is None or known != [_is_known(of_funding, row) for row in rows]:
            at_first = of_funding
            known = [_is_known(of_funding, row) for row in rows]
            table = None
    if table is not None and not doubt:
        options |= {"prices": marks}
    others = []
    if any(known):
        others = [
            funding.forecast_carry(rates, legs, hold=hold, **options) for hold in _HOLDS if hold != _HOLD
        ]
    pairs = []
    for row in rows:
        found = [_of(one, *row[:3]) for one in (at_first, *others)]
        curve = [one for one in found if np.isfinite(float(one["net_bps"]))]
        curve.sort(key=lambda one: float(one["hold_hours"]))
        symbol, long, short, spread, favour = row
        pairs.append(Pair(symbol, long, short, spread, favour, found[0], curve))
    return pairs, doubt


def _is_known(forecasts: xr.Dataset, row: tuple[Any, ...]) -> bool:
    return bool(_of(forecasts, *row[:3])["net_bps"].notnull())


def _of(forecasts: xr.Dataset, symbol: str, long: str, short: str) -> xr.Dataset:
    of_symbol = forecasts.sel(symbol=symbol)
    place = np.flatnonzero((of_symbol["long"] == long) & (of_symbol["short"] == short))[0]
    return of_symbol.isel(pair=int(place))


def _forecast_note(section: Section, past: Rates, forecasts: list[xr.Dataset], *, doubt: str) -> None:
    """Say what the forecasts rest on."""
    known = [one for one in forecasts if np.isfinite(float(one["net_bps"]))]
    if not known:
        section.add_missing_note(
            "No forecast: it needs ten past decisions with a known outcome, which takes 26 days of rates; "
            f"the source has {_days(past):.0f}."
        )
        return
    section.text(
        "The forecast is a regression over all venues on what each paid in the last 8 hours, day, three "
        f"days, week and sixty days, fitted to {_days(past):.0f} days of rates. Its 90 % interval comes from "
        "the errors of its own past forecasts. "
        f"{said_of(known[0])}"
    )
    if doubt:
        section.add_missing_note(f"The widest pairs are forecast by funding only: {doubt}")
    if any(int(one["status"]) & FundingStatus.FEW_DECISIONS for one in known):
        worth = min(float(one["decisions"]) for one in known)
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


def _holds_a_period(rates: Rates) -> bool:
    """Return whether samples span a whole period; payments summed over periods are periods already."""
    times = pd.DatetimeIndex(rates.panel["time"].values)
    if rates.settled:
        return True
    end = times[-1] + pd.Timedelta(np.median(np.diff(times)))  # the last sample holds for a step
    return bool(times[0].ceil(_PERIOD) + _PERIOD <= end)


def _figures(section: Section, past: Rates, known: list[Pair]) -> None:
    """Add the best forecast by holding time."""
    curves = [pair for pair in known if len(pair.curve) > 1]
    if not curves:
        return
    best = max(curves, key=_forecast_net)
    panel = section.panel(
        plot.carry,
        best.curve,
        kind="hold",
        source=past.table,
        title=f"{best.symbol} forecast carry by holding time, {of_what(best.forecast)}",
    )
    section.figure(
        [panel],
        "The line is the mean forecast of the best pair after costs if it is closed after so many days, the "
        "grey bar its 90 % interval. Where the line is below zero the costs are not paid.",
    )


def _forecast_net(pair: Pair) -> float:
    return float(pair.forecast["net_bps"])


def _pairs_panel(section: Section, rates: Rates, known: list[Pair]) -> Panel:
    """Return the panel of the widest pairs of all symbols, gross and net."""
    shown = sorted(known, key=_forecast_net, reverse=True)[:_SHOWN]
    title = f"Carry of the widest spreads, gross and net, {of_what(shown[0].forecast)}"
    look: dict[str, Any] = {"title": title, "size": FLAT}
    forecasts = [pair.forecast for pair in shown]
    return section.panel(_draw_pairs, forecasts, source=rates.table, **look)


def _draw_pairs(forecasts: list[xr.Dataset], *, ax: Axes, source: Any) -> Axes:
    """Draw what pairs are forecast to earn a year, before and after costs, with the 90 % interval."""
    names = [f"{one['symbol'].item()} {one['long'].item()} / {one['short'].item()}" for one in forecasts]
    _, place = style.rows(ax, names, 0.28)
    net, low, high, gross = (
        [_apr(one, name) for one in forecasts] for name in ("net", "net_low", "net_high", "gross")
    )
    ax.hlines(place, low, high, color=style.GREY, lw=2.2, alpha=0.6)
    ax.plot(gross, place, "o", mfc="none", mec=style.PALETTE[0], ms=6, label="before costs")
    ax.plot(net, place, "o", color=style.PALETTE[1], ms=6, label="after costs; bar: 90 % of outcomes")
    ax.axvline(0, color=style.GREY, lw=1.0)
    title = f"Best forecasts of the widest pairs (long / short), {_DAYS} days"
    style.dress(ax, title=title, x="simple APR of one leg [% per year]", grid="x")
    style.write(ax.xaxis, "percent")
    style.legend(ax, "above")
    style.footer(ax, source=source)
    return ax


def _apr(forecast: xr.Dataset, name: str) -> float:
    return float(units.convert(float(forecast[f"{name}_bps"]), "bps", "apr", hours=24.0 * _DAYS))


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
        100.0 * _apr(pair.forecast, name) for name in ("gross", "net", "net_low", "net_high")
    )
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
        "costs paid after": pair.paid_words,
    }


def _record(past: Rates, fees: Mapping[str, float]) -> str:
    """Say what past picks were forecast to earn and earned, over the longest holding time first."""
    blind = "These pairs were picked as the widest in this same window (in sample), so expect less of them. "
    for days in _RECORD_DAYS:
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


def _findings(section: Section, rates: Rates, pairs: list[Pair], known: list[Pair]) -> None:
    widest = max(pairs, key=lambda p: p.spread)
    section.finding(
        "wide",
        f"Widest spread: {widest.name}, {rate(widest.spread)} on average, in favour "
        f"{pct(widest.favour, 0)} of the time.",
    )
    if not known:
        section.finding("left", "Unknown: no pair's carry can be forecast from this window.")
        section.answer(_QUESTION, f"Unknown: no carry can be forecast. The widest spread is {widest.name}.")
        return
    sure = [p for p in known if float(p.forecast["net_low_bps"]) > 0]
    above = [p for p in known if float(p.forecast["net_bps"]) > 0]
    by = of_what(known[0].forecast)
    value = f"{len(above)} above costs in the mean, {len(sure)} in 19 of 20 outcomes"
    name = f"widest {count(len(pairs), 'pair')} (in sample), by {by}"
    section.number("", name, value, window=f"held {_DAYS} days")
    for pair in sorted(sure, key=_forecast_net, reverse=True)[:4]:
        section.finding("left", _earning(pair))
    if not sure:
        none = "The widest pair is not sure to clear its costs"
        if len(known) > 1:
            none = f"None of the {len(known)} widest pairs is sure to clear its costs"
        section.finding("left", f"{none} (the 90 % interval includes zero).")
    best = max(known, key=_forecast_net)
    words = (
        f"{len(above)} of the {count(len(known), 'widest pair')} are forecast above costs over {_DAYS} days, "
        f"{len(sure) or 'none'} with 95 % confidence. Best: {best.name}, "
        f"{_net(best, '')} a year net ({_net(best, 'low_')} to {_net(best, 'high_')})."
    )
    section.answer(_QUESTION, words, _pairs_panel(section, rates, known))


def _earning(pair: Pair) -> str:
    net, low, high = (_net(pair, end) for end in ("", "low_", "high_"))
    return (
        f"{pair.name}: {net} a year net ({low} to {high}) if held {_DAYS} days, by {of_what(pair.forecast)}; "
        f"costs are paid after {pair.paid_words}."
    )


def _net(pair: Pair, end: str) -> str:
    """Write what a pair is forecast to earn after costs a year, or an end of its interval."""
    return pct(_apr(pair.forecast, f"net_{end}".rstrip("_")))
