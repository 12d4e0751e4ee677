"""Funding and carry: rates of venues and their changes, the widest spreads, forecasts, past selections."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd
import xarray as xr

from derivdata import plot, tables, units
from derivdata.analysis import funding
from derivdata.analysis.funding.carry_forecast import of_what
from derivdata.analysis.status import FundingStatus
from derivdata.plot import style
from derivdata.plot.funding import breakeven_days
from derivdata.reports.data import FEE_BPS, OTHERS, Data, Rates, ReportOptions
from derivdata.reports.page import WIDE, Panel, Section, count, pct, rate, venue_words
from derivdata.support.times import naive_utc
from derivdata.tables.panels import panel

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_PAIRS = 6
_DAYS = 7
_HOLD = f"{_DAYS}d"
_PERIOD = pd.Timedelta(8, "h")
_HOLDS = ("3d", _HOLD, "14d")
"""Holding times of the forecasts, shortest first."""
_MIN_DAYS = 26.0
"""Minimum length of the history of rates for a forecast [days]."""
_SHOWN = 5
"""Pairs on the first screen."""
_QUESTION = "Which spreads survive costs?"
_RECORD_DAYS = (7, 3)
"""Holding times of past selections, tried in this order: a short window has too few long ones."""
_MIN_PICKS = 5
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
    def net_bps(self) -> float:
        """Mean forecast after costs [bps]; NaN without a forecast."""
        return float(self.forecast["net_bps"])

    @property
    def paid_words(self) -> str:
        """Holding time from which the mean forecast covers the costs, by the drawn curve, in words.

        Empty without a forecast.
        """
        if not self.curve:
            return ""
        net = np.array([float(forecast["net_bps"]) for forecast in self.curve])
        days = np.array([float(forecast["hold_hours"]) / 24.0 for forecast in self.curve])
        paid_after = breakeven_days(days, net)
        if np.isnan(paid_after):
            return f"not within {style.day_words(days[-1])}"
        if paid_after <= days[0]:
            return f"within {style.day_words(paid_after)}"
        return f"{style.day_words(paid_after)}"


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
            "The rates do not span a complete period of 8 hours (from 00:00, 08:00 or 16:00 UTC), in which "
            "carry is counted."
        )
        return section
    venues = rates.panel["exchange"].values.tolist()
    fees = {venue: data.report_options.fee(venue) for venue in venues}
    past = data.past_rates or rates
    pairs, doubt = _forecast(data, past, fees, widest)
    forecast_pairs = [pair for pair in pairs if np.isfinite(pair.net_bps)]
    _forecast_note(section, past, [pair.forecast for pair in forecast_pairs], doubt=doubt)
    _figures(section, past, forecast_pairs)
    section.table(pd.DataFrame([_row(pair) for pair in pairs]), "Widest spreads", formats=_FORMATS)
    _unknown(section, pairs)
    section.text(_record(past, fees))
    _findings(section, rates, past, pairs, forecast_pairs)
    return section


def _costs(options: ReportOptions) -> str:
    """Return a description of the costs and of the definition of carry."""
    by_venue = dict(sorted(options.fee_bps.items()))
    others = by_venue.pop(OTHERS)
    costs = f"{others:g} bps on every venue"
    if by_venue:
        named = ", ".join(f"{venue} {fee:g}" for venue, fee in by_venue.items())
        costs = f"{named}; {others:g} bps on every other venue"
    whose = "as given" if options.given else f"assumed: {FEE_BPS:g} bps is a usual taker fee"
    return (
        "A spread is the short venue's rate minus the long venue's. A pair trades four times: in and out on "
        f"both venues. Cost of one trade: {costs} ({whose}). Figures are per year of one leg's notional for "
        f"a pair held {_DAYS} days; slippage, margin, borrow, transfers and the risk of either "
        "venue are not included. Costs are covered after the holding time at which the mean forecast after "
        "costs reaches zero."
    )


def _forecast(
    data: Data, past: Rates, fees: Mapping[str, float], widest: pd.DataFrame
) -> tuple[list[Pair], str]:
    """Return the widest pairs with their forecasts by holding time, and any problem of their marks.

    If a pair does not have marks, or a mark is of another coin, all forecasts are of funding only.
    """
    # 1. Fetch marks of the legs, if the history is long enough for a forecast.
    rows = list(widest.itertuples(index=False, name=None))
    legs = sorted(set(zip(widest["long"], widest["short"], strict=True)))
    symbols = sorted(set(widest["symbol"]))
    marks = None
    if _days(past) >= _MIN_DAYS:
        marks = data.past_marks(symbols, sorted({*widest["long"], *widest["short"]}))
    rates = past.panel.sel(symbol=symbols)
    forecast = partial(funding.forecast_carry, rates, legs, fee_bps=fees, component_intervals=False)
    # 2. Forecast the main holding time with prices; if pairs have no forecast, compare with funding only.
    prices = None
    main = None
    doubt = ""
    if marks is not None:
        prices = panel(marks)
        try:
            main = forecast(hold=_HOLD, prices=prices)
        except ValueError as problem:  # another coin under the same ticker
            doubt = str(problem)
    if main is None or not all(_have_forecasts(main, rows)):
        funding_only = forecast(hold=_HOLD)
        if main is None or _have_forecasts(main, rows) != _have_forecasts(funding_only, rows):
            main = funding_only
            prices = None
    # 3. Forecast the other holding times.
    by_hold = {_HOLD: main}
    if any(_have_forecasts(main, rows)):
        shorter, _, longer = _HOLDS
        by_hold = {
            shorter: forecast(hold=shorter, prices=prices),
            _HOLD: main,
            longer: forecast(hold=longer, prices=prices),
        }
    return _pairs(by_hold, rows), doubt


def _pairs(by_hold: Mapping[str, xr.Dataset], rows: list[tuple[Any, ...]]) -> list[Pair]:
    """Return the pair of each row with its forecasts, in order of the holding time."""
    pairs = []
    for (symbol, long, short, spread, favour), place in zip(rows, _places(by_hold[_HOLD], rows), strict=True):
        forecasts = [by_hold[hold].isel(place) for hold in by_hold]
        curve = [forecast for forecast in forecasts if np.isfinite(float(forecast["net_bps"]))]
        pairs.append(Pair(symbol, long, short, spread, favour, by_hold[_HOLD].isel(place), curve))
    return pairs


def _have_forecasts(forecasts: xr.Dataset, rows: list[tuple[Any, ...]]) -> list[bool]:
    """Return whether the pair of each row has a forecast after costs."""
    net = forecasts["net_bps"]
    return [bool(np.isfinite(float(net.isel(place)))) for place in _places(forecasts, rows)]


def _places(forecasts: xr.Dataset, rows: list[tuple[Any, ...]]) -> list[dict[str, int]]:
    """Return the positions of the pair of each row."""
    symbols = forecasts["symbol"].to_numpy().tolist()
    longs = forecasts["long"].to_numpy().tolist()
    shorts = forecasts["short"].to_numpy().tolist()
    pairs = list(zip(longs, shorts, strict=True))
    places = []
    for symbol, long, short, *_ in rows:
        places.append({"symbol": symbols.index(symbol), "pair": pairs.index((long, short))})
    return places


def _forecast_note(section: Section, past: Rates, forecasts: list[xr.Dataset], *, doubt: str) -> None:
    """Add a note about the method of the forecasts of pairs and their limits."""
    if not forecasts:
        section.add_missing_note(
            "No forecast: it needs ten past decisions with a known outcome, which takes 26 days of rates; "
            f"the source has {_days(past):.0f}."
        )
        return
    section.text(
        "The forecast is a regression over all venues on the rates of each in the last 8 hours, day, three "
        f"days, week and sixty days, fitted to {_days(past):.0f} days of rates. Its 90 % interval comes from "
        "the errors of earlier forecasts. "
        f"{said_of(forecasts[0])}"
    )
    if doubt:
        section.add_missing_note(f"The widest pairs are forecast by funding only: {doubt}")
    if any(int(forecast["status"]) & FundingStatus.FEW_DECISIONS for forecast in forecasts):
        decisions = min(float(forecast["decisions"]) for forecast in forecasts)
        section.add_missing_note(
            f"The source has only {_days(past):.0f} days of rates, which is short for a forecast of {_DAYS} "
            f"days: its past decisions are worth {decisions:.2g} independent ones. With fewer than eight, "
            "the forecast is hardly better than zero; use at least 90 days."
        )


def said_of(forecast: xr.Dataset) -> str:
    """Describe whether a forecast includes the prices of the legs."""
    outcome = of_what(forecast)
    included = "is" if outcome == "funding and prices" else "is not"
    return f"It is of {outcome}: the change of the price difference between the legs {included} included."


def _widest(rates: xr.DataArray) -> pd.DataFrame:
    """Return the pairs with the widest positive mean spread, by symbol."""
    widest = []
    for symbol in rates["symbol"].values:
        spreads = funding.spread(rates.sel(symbol=symbol, drop=True))
        observed = spreads.notnull().sum("time")
        columns = {"spread": spreads.mean("time"), "favour": (spreads > 0).sum("time") / observed}
        frame = xr.Dataset(columns | {"observed": observed}).to_dataframe()
        candidates = frame[(frame["observed"] >= 0.5 * rates.sizes["time"]) & (frame["spread"] > 0)]
        top = candidates.sort_values("spread", ascending=False).head(_PAIRS).reset_index()
        widest.append(top.assign(symbol=str(symbol)))
    return pd.concat(widest)[["symbol", "long", "short", "spread", "favour"]]


def _holds_a_period(rates: Rates) -> bool:
    """Return whether the rates span a complete period. Payments are summed over periods already."""
    times = pd.DatetimeIndex(rates.panel["time"].values)
    if rates.settled:
        return True
    end = times[-1] + pd.Timedelta(np.median(np.diff(times)))  # the last sample is valid for one step
    return bool(times[0].ceil(_PERIOD) + _PERIOD <= end)


def _figures(section: Section, past: Rates, pairs: list[Pair]) -> None:
    """Add the figure of the best forecast by holding time."""
    curves = [pair for pair in pairs if len(pair.curve) > 1]
    if not curves:
        return
    best = max(curves, key=_net_bps)
    panel = section.panel(
        plot.carry,
        best.curve,
        kind="hold",
        source=past.table,
        title=f"{best.symbol} forecast carry by holding time, {of_what(best.forecast)}",
    )
    section.figure(
        [panel],
        "The solid line is the mean forecast of the best pair after costs, by days until it is closed; a "
        "grey bar is the 90 % interval of outcomes. Below zero the costs are not covered; the dotted line "
        "marks when the mean covers them. Bars that begin below zero mean that the pair may still lose.",
        _scope(past),
    )


def _scope(rates: Rates) -> str:
    """Return the venues and the period of the rates from which carry is forecast."""
    times = pd.DatetimeIndex(rates.panel["time"].values)
    venues = venue_words(rates.panel["exchange"].values)
    return f"forecast from {venues}, {times[0]:%Y-%m-%d} to {times[-1]:%Y-%m-%d}"


def _net_bps(pair: Pair) -> float:
    return pair.net_bps


def _pairs_panel(section: Section, rates: Rates, pairs: list[Pair]) -> Panel:
    """Return the panel of the pairs with the best forecasts of all symbols, gross and net."""
    shown = sorted(pairs, key=_net_bps, reverse=True)[:_SHOWN]
    title = f"Carry of the widest spreads, gross and net, {of_what(shown[0].forecast)}"
    gaining = sum(_net_bps(pair) > 0.0 for pair in pairs)
    number = gaining or "None"
    head = f"{number} of the {len(pairs)} widest pairs are forecast to earn their costs in {_DAYS} days"
    if gaining and all(_carry(pair)["net_low"] < 0.0 for pair in shown):
        head += ", but each may lose"
    look: dict[str, Any] = {"title": title, "size": (WIDE, 2.4), "head": head}
    return section.panel(_draw_pairs, shown, source=rates.table, **look)


def _draw_pairs(pairs: list[Pair], *, head: str, ax: Axes, source: Any) -> Axes:
    """Draw the forecast carry of pairs per year, before and after costs, with the 90 % interval."""
    names = [f"{pair.symbol} {pair.long} / {pair.short}" for pair in pairs]
    _, place = style.rows(ax, names, 0.28)
    carry = pd.DataFrame([_carry(pair) for pair in pairs])
    gross = carry["gross"].to_list()
    net = carry["net"].to_list()
    low = carry["net_low"].to_list()
    high = carry["net_high"].to_list()
    ax.plot(gross, place, "o", mfc="none", mec=style.PALETTE[0], mew=1.5, ms=6, label="before costs")
    ax.plot(net, place, "o", color=style.PALETTE[1], ms=6, label="after costs, at right")
    ax.hlines(place, low, high, color=style.GREY, lw=2.2, alpha=0.6, zorder=1, label="90 % interval")
    ax.axvline(0, color=style.GREY, lw=1.0)
    for row, value in enumerate(net):
        words = f"{100.0 * value:+.1f} %"
        where: dict[str, Any] = {"xycoords": ax.get_yaxis_transform(), "textcoords": "offset points"}
        ax.annotate(words, (1.0, row), (4, 0), va="center", fontsize=8, annotation_clip=False, **where)
    label = f"APR of one leg [%]; best {len(pairs)} pairs, long / short"
    style.dress(ax, title=head, x=label, grid="x")
    style.write(ax.xaxis, "percent")
    style.legend(ax, "above")
    style.footer(ax, source=source)
    return ax


def _carry(pair: Pair) -> dict[str, float]:
    """Return the forecast carry of a pair per year: before and after costs, and its 90 % interval."""
    carry = {}
    for name in ("gross", "net", "net_low", "net_high"):
        bps = float(pair.forecast[f"{name}_bps"])
        carry[name] = float(units.convert(bps, "bps", "apr", hours=24.0 * _DAYS))
    return carry


def _unknown(section: Section, pairs: list[Pair]) -> None:
    """Add a note about pairs without a forecast."""
    reasons = {
        FundingStatus.TOO_FEW: "have under ten past decisions with a known outcome, which takes 26 days of "
        "rates",
        FundingStatus.GAP: "have no rate over 8 hours of the last day, from which a forecast starts",
    }
    for reason, words in reasons.items():
        without = sum(bool(int(pair.forecast["status"]) & reason) for pair in pairs)
        if without:
            section.add_missing_note(
                f"{without} of these {count(len(pairs), 'pair')} {words}: their net carry is blank."
            )


def _row(pair: Pair) -> dict[str, object]:
    carry = _carry(pair)
    outcomes = ""
    if np.isfinite(carry["net_low"]):
        outcomes = f"{100.0 * carry['net_low']:.1f} to {100.0 * carry['net_high']:.1f}"
    return {
        "symbol": pair.symbol,
        "long": pair.long,
        "short": pair.short,
        "mean spread [bps/8h]": pair.spread,
        "hours in favour [%]": 100 * pair.favour,
        "gross APR [%]": 100.0 * carry["gross"],
        "costs [bps]": float(pair.forecast["cost_bps"]),
        "net APR [%]": 100.0 * carry["net"],
        "90 % interval [%]": outcomes,
        "costs paid after": pair.paid_words,
    }


def _record(past: Rates, fees: Mapping[str, float]) -> str:
    """Return a sentence about past selections, for the longest holding time with enough of them."""
    caution = "These pairs were selected as the widest in this same window (in sample), so expect less. "
    for days in _RECORD_DAYS:
        record = funding.pick_record(past.panel, hold=f"{days}d", fee_bps=fees)
        summary = funding.pick_summary(record)
        if int(summary["picks"]) >= _MIN_PICKS:
            return caution + _record_words(summary, days, _days(past))
    return caution + "Too few past selections were forecast above their costs for a record."


def _record_words(summary: xr.Dataset, days: int, history: float) -> str:
    """Return a sentence about the record of past selections."""
    figures = {str(name): float(figure) for name, figure in summary.items()}
    low = figures["difference_low_bps"]
    high = figures["difference_high_bps"]
    agree = "which agrees" if low <= 0.0 <= high else "which does not agree"
    comparison = ""
    if not np.isnan(low):
        comparison = (
            f" ({agree}: forecast minus result is between {low:+.1f} and {high:+.1f} with 95 % confidence)"
        )
    inside = np.rint(figures["coverage"] * figures["picks"])
    return (
        "Past selections: the position with the largest forecast after costs, if above zero, decided every "
        f"{days} days of the last {history:.0f} days with the data of that time, and held for {days} days. "
        f"{count(int(figures['picks']), 'selection')}: forecast {figures['predicted_net_bps']:+.1f} bps each "
        f"after costs, earned {figures['realised_net_bps']:+.1f}{comparison}, from funding alone; "
        f"{inside:.0f} of the outcomes were within the forecast's 90 % interval."
    )


def _days(rates: Rates) -> float:
    times = rates.panel["time"].values
    return float((times[-1] - times[0]) / np.timedelta64(1, "D"))


def _findings(
    section: Section, rates: Rates, past: Rates, pairs: list[Pair], forecast_pairs: list[Pair]
) -> None:
    """Add findings, the key number and the answer of the first screen."""
    widest = max(pairs, key=lambda p: p.spread)
    section.finding(
        "wide",
        f"Widest spread: {widest.name}, {rate(widest.spread)} on average, in favour "
        f"{pct(widest.favour, 0)} of the time.",
    )
    if not forecast_pairs:
        section.finding("left", "Unknown: carry cannot be forecast from this window.")
        section.answer(_QUESTION, f"Unknown: carry cannot be forecast. The widest spread is {widest.name}.")
        return
    sure = [pair for pair in forecast_pairs if float(pair.forecast["net_low_bps"]) > 0]
    above = [pair for pair in forecast_pairs if pair.net_bps > 0]
    by = of_what(forecast_pairs[0].forecast)
    value = f"{len(above)} above costs in the mean, {len(sure)} with the whole 90 % interval above costs"
    name = f"widest {count(len(pairs), 'pair')} (in sample), by {by}"
    section.number("", name, value, window=f"held {_DAYS} days")
    for pair in sorted(sure, key=_net_bps, reverse=True)[:4]:
        section.finding("left", _earning(pair))
    if not sure:
        words = "The widest pair may not cover its costs"
        if len(forecast_pairs) > 1:
            words = f"Each of the {len(forecast_pairs)} widest pairs may not cover its costs"
        section.finding("left", f"{words} (the 90 % interval includes zero).")
    best = max(forecast_pairs, key=_net_bps)
    number = count(len(forecast_pairs), "widest pair")
    words = (
        f"{len(above)} of the {number} are forecast above costs over {_DAYS} days, "
        f"{len(sure) or 'none'} with all of the 90 % interval above zero. Best: {best.name}, "
        f"{_net_words(best)}."
    )
    section.answer(_QUESTION, words, _pairs_panel(section, rates, forecast_pairs), _scope(past))


def _earning(pair: Pair) -> str:
    words = f"{pair.name}: {_net_words(pair)} if held {_DAYS} days, by {of_what(pair.forecast)}"
    return f"{words}; costs are covered after {pair.paid_words}."


def _net_words(pair: Pair) -> str:
    """Format the forecast carry of a pair per year after costs, with its interval."""
    carry = _carry(pair)
    return f"{pct(carry['net'])} a year net ({pct(carry['net_low'])} to {pct(carry['net_high'])})"


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
_SHOWN_VENUES = 12
_HIGHLIGHT = 2
"""Number of venues with a lane, from each end of the ranking."""
_SHORT = ["venue", "now [bps/8h]", "last 24 h", "mean [bps/8h]"]
_FORMATS_OF_RATES = (
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
        "A lane for each of the venues with the highest and the lowest mean rate; a symbol has one scale. "
        "Orange: longs pay; purple: shorts pay; a number is the rate furthest from 0. A pair that is long on "
        "a low lane and short on a high lane earns the difference.",
        f"{venue_words(rates['exchange'].values)}, {data.report_options.period}",
    )
    now = data.funding_now()
    end = data.report_options.window.end
    tables_by_symbol = {symbol: _venues(rates, end, now, symbol) for symbol, rates in by_symbol.items()}
    for symbol, by_venue in tables_by_symbol.items():
        if len(by_venue) > _SHOWN_VENUES:
            section.table(by_venue[_SHORT], f"{symbol} funding", formats=_FORMATS_OF_RATES, narrow=True)
        _funding_findings(section, data, by_symbol[symbol], by_venue, symbol)
    for symbol, by_venue in tables_by_symbol.items():
        is_long = len(by_venue) > _SHOWN_VENUES
        name = f"{symbol} funding"
        if is_long:
            name = f"{name}: extremes and points of every venue"
        section.table(by_venue, name, formats=_FORMATS_OF_RATES, fold=is_long)
    for symbol in data.report_options.symbols:
        if symbol not in by_symbol:
            section.add_missing_note(f"The source has no funding rates of {symbol} for this window.")
    return section


def _history_panels(section: Section, history: Rates, by_symbol: dict[str, xr.DataArray]) -> list[Panel]:
    """Return a panel of rates over time for each symbol."""
    panels = []
    for symbol, rates in by_symbol.items():
        look: dict[str, Any] = {"title": f"{symbol} funding rate by venue over time", "size": (WIDE, 3.6)}
        look |= {"highlight": _HIGHLIGHT, "source": history.table}
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
        "shorts where they are positive. Means, spreads over time and carry need a "
        "history."
    )
    for symbol in data.report_options.symbols:
        rows = table[table["symbol"] == symbol].sort_values("rate_bps_8h", ascending=False, ignore_index=True)
        if rows.empty:
            section.add_missing_note(f"The source has no funding rates of {symbol}.")
            continue
        section.table(_now(rows), f"{symbol} funding now", formats=_FORMATS_OF_RATES)
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


def _funding_findings(
    section: Section, data: Data, rates: xr.DataArray, by_venue: pd.DataFrame, symbol: str
) -> None:
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
    if len(by_venue) < 2 or change.empty or change.abs().max() < _SMALLEST_MOVE:
        return ""
    row = by_venue.loc[change.abs().idxmax()]
    return (
        f"; {row['venue']} moved most, from a mean of {row['mean [bps/8h]']:+.2f} to {row['last 24 h']:+.2f}"
    )
