"""Carry: the widest spreads between venues, and which of them survive their costs."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pandas as pd
import xarray as xr

from derivdata import plot, units
from derivdata.analysis import funding
from derivdata.analysis.funding import FundingStatus
from derivdata.plot.style import row_size
from derivdata.reports.data import Data
from derivdata.reports.funding_rates import Rates, rates_of
from derivdata.reports.html_page import WIDE, Section, count, lasting, pct, rate
from derivdata.reports.report_options import FEE_BPS, OTHERS, ReportOptions
from derivdata.reports.sections.carry_forecast import add_forecast

__all__ = ["carry_section"]

_PAIRS = 6
_HOLD_HOURS = 7 * 24.0
_HORIZONS = (24.0, 48.0, 96.0, 168.0, 336.0, 504.0, 720.0)
_WARNING = (
    "The API's own warning: the data is informational and not intended for P&L, backtesting or production "
    "trading. What follows is an estimate from it, before funding caps, margin, borrow, transfer and the "
    "risk of either venue."
)
_FORMATS = {
    "mean spread [bps/8h]": ".3f",
    "hours in favour [%]": ".0f",
    "half-life [h]": ".0f",
} | dict.fromkeys(("gross APR [%]", "net APR [%]", "costs [bps]"), ".1f")


class Pair(NamedTuple):
    """A pair with a wide spread: its mean over the window, and what the pair is expected to earn."""

    spread: float
    favour: float
    carry: xr.Dataset
    life: xr.Dataset


def carry_section(data: Data) -> Section:
    """Build the section on the widest spreads, gross and net, and on carry by holding time."""
    section = Section("Carry", drawings=data.drawings)
    section.text(_WARNING, "warn")
    section.text(_costs(data.report_options))
    rates = rates_of(data)
    if rates is None:
        section.add_missing_note(data.missing["funding rates"])
        return section
    pairs = [_pair(data, rates, *row) for row in _widest(rates.panel).itertuples(index=False)]
    if not pairs:
        section.add_missing_note(
            "No two venues have rates over the same half of the window: there is no spread."
        )
        return section
    add_forecast(section, rates, data.report_options)
    section.heading("What the widest pairs of this window are expected to earn")
    estimated = [p for p in pairs if np.isfinite(float(p.carry["net_bps"]))]
    _spreads(section, rates, estimated)
    section.table(pd.DataFrame([_row(pair) for pair in pairs]), formats=_FORMATS)
    _unknown(section, pairs)
    _blind(section, rates)
    for symbol in dict.fromkeys(str(p.carry["symbol"].item()) for p in estimated):
        _holding(section, data, rates, next(p for p in estimated if p.carry["symbol"] == symbol))
    _findings(section, pairs, estimated)
    return section


def _costs(options: ReportOptions) -> str:
    others = options.fees[OTHERS]
    named = ", ".join(f"{venue} {fee:g}" for venue, fee in sorted(options.fees.items()) if venue != OTHERS)
    costs = f"{named}; {others:g} bps on every other venue" if named else f"{others:g} bps on every venue"
    whose = "as given" if options.given else f"assumed: {FEE_BPS:g} bps is a usual taker fee"
    return (
        f"A spread is the short venue's rate less the long venue's. A pair trades four times: in and out on "
        f"both venues. Cost of one trade: {costs} ({whose}); slippage is not in it. Figures are per year of "
        f"one leg's notional for a pair held {_HOLD_HOURS / 24:g} days; the spread is expected to revert to "
        "its mean. Half-lives are those of the part of a spread that stays, beside noise that is gone "
        "after a step; “cannot tell” stands where the window allows everything from one step to for ever."
    )


def _widest(rates: xr.DataArray) -> pd.DataFrame:
    """Return the pairs with the widest mean spread of each symbol, in the direction that earns."""
    widest = []
    for symbol in rates["symbol"].values:
        spreads = funding.pair_spreads(rates.sel(symbol=symbol, drop=True))
        observed = spreads.notnull().sum("time")
        frame = xr.Dataset(
            {
                "spread": spreads.mean("time"),
                "favour": (spreads > 0).sum("time") / observed,
                "known": observed,
            }
        ).to_dataframe()
        candidates = frame[(frame["known"] >= 0.5 * rates.sizes["time"]) & (frame["spread"] > 0)]
        top = candidates.sort_values("spread", ascending=False).head(_PAIRS).reset_index()
        widest.append(top.assign(symbol=str(symbol)))
    return pd.concat(widest)[["symbol", "long", "short", "spread", "favour"]]


def _pair(data: Data, rates: Rates, symbol: str, long: str, short: str, spread: float, favour: float) -> Pair:
    hours = max(_interval(data, symbol, venue) for venue in (long, short))
    apart = funding.spread(rates.panel.sel(symbol=symbol), long, short)
    # An autoregression would take noise for a fast return to the mean: this is the part that stays.
    life = funding.half_life(apart, interval_hours=None if rates.settled else hours, method="components")
    carry = _carry(data, rates, symbol, long, short, _HOLD_HOURS)
    told = life["half_life_hours"].where((life["status"] & FundingStatus.CANNOT_TELL) == 0)
    return Pair(spread, favour, carry.assign(half_life_hours=told), life)


def _carry(data: Data, rates: Rates, symbol: str, long: str, short: str, hold: float) -> xr.Dataset:
    fees = {"long": data.report_options.fee(long), "short": data.report_options.fee(short)}
    costs = {leg: fees[leg.split("_")[0]] for leg in funding.LEGS}
    panel = _until_known(rates.panel.sel(symbol=symbol), long, short)
    return funding.net_carry(panel, long, short, hold, cost_bps=costs, interval_hours=rates.interval_hours)


def _until_known(panel: xr.DataArray, long: str, short: str) -> xr.DataArray:
    """Cut the panel after the last instant at which both venues have a rate, if within the last day."""
    both = np.flatnonzero(panel.sel(exchange=[long, short]).notnull().all("exchange"))
    times = panel["time"].values
    fresh = both.size and times[-1] - times[both[-1]] <= np.timedelta64(1, "D")
    return panel.isel(time=slice(None, both[-1] + 1)) if fresh else panel


def _interval(data: Data, symbol: str, venue: str) -> float:
    """Return the venue's usual settlement interval [h]; 8 where the source has no settlements."""
    paid = data.settlements()
    if paid is None:
        return 8.0
    mine = paid[(paid["symbol"] == symbol) & (paid["exchange"] == venue)]["interval_hours"]
    return float(mine.median()) if mine.notna().any() else 8.0


def _spreads(section: Section, rates: Rates, estimated: list[Pair]) -> None:
    if not estimated:
        return
    section.figure(
        plot.funding_spreads,
        [p.carry for p in estimated],
        source=rates.table,
        title="Carry of the widest spreads, gross and net",
        reading="The ring is what the pair is expected to earn before costs, the dot after them, and the bar "
        "the 90 % interval of that expectation: a single outcome may lie far outside it. Lighter dots: the "
        "spread lasts longer; grey: no reversion was found.",
        size=row_size(len(estimated), 0.36, wide=WIDE),
    )


def _unknown(section: Section, pairs: list[Pair]) -> None:
    """Say why pairs have no net figure."""
    reasons = {
        FundingStatus.TOO_FEW: "have under 30 periods of 8 hours in a row, about eleven days, which an "
        "estimate of how long a spread lasts needs",
        FundingStatus.GAP: "have no rate over 8 hours of the last day, from which an estimate starts",
    }
    for reason, words in reasons.items():
        without = sum(bool(int(p.carry["status"]) & reason) for p in pairs)
        if without:
            section.add_missing_note(
                f"{without} of these {count(len(pairs), 'pair')} {words}: their net carry is blank."
            )


def _row(pair: Pair) -> dict[str, object]:
    carry = {str(name): float(value) for name, value in pair.carry.data_vars.items()}
    net = [units.apr_from_bps(carry[f"net_{end}bps"], _HOLD_HOURS) for end in ("", "low_", "high_")]
    low, high = (float(pair.life[f"half_life_{end}_hours"]) for end in ("low", "high"))
    lasts = f"{low:.0f} to {high:.0f}".replace("inf", "∞") if np.isfinite(low) else ""
    even = carry["breakeven_hours"]
    return {
        "symbol": str(pair.carry["symbol"].item()),
        "long": str(pair.carry["long"].item()),
        "short": str(pair.carry["short"].item()),
        "mean spread [bps/8h]": pair.spread,
        "hours in favour [%]": 100 * pair.favour,
        "gross APR [%]": 100 * carry["gross_apr"],
        "costs [bps]": carry["cost_bps"],
        "net APR [%]": 100 * net[0],
        "90 % interval of the expectation": f"{100 * net[1]:.1f} to {100 * net[2]:.1f}"
        if np.isfinite(net[1])
        else "",
        "half-life [h]": carry["half_life_hours"],
        "its interval": "cannot tell" if int(pair.life["status"]) & FundingStatus.CANNOT_TELL else lasts,
        "break-even": "" if np.isnan(carry["net_bps"]) else lasting(even),
    }


def _blind(section: Section, rates: Rates) -> None:
    """Add what the widest pair earned when it was picked beforehand, out of sample."""
    words = []
    for symbol in rates.panel["symbol"].values:
        panel = rates.panel.sel(symbol=symbol)
        if panel.sizes["time"] < 2 or panel["time"][-1] - panel["time"][0] < np.timedelta64(6, "D"):
            continue
        hit = funding.hit_rate(panel, 24.0, interval_hours=rates.interval_hours)
        decisions = int(hit["decisions"])
        if decisions >= 5:
            words.append(
                f"{symbol}: {pct(float(hit['hit_rate']), 0)} of {decisions} days in favour, "
                f"{float(hit['mean_carry_bps']):+.1f} bps a day before costs"
            )
    section.text(
        "These pairs were picked as the widest in this same window (in sample), so expect less of them. "
        "Picked out of sample, each day the pair that was widest just before, they earned: "
        + ("; ".join(words) if words else "too few days to say")
        + "."
    )


def _holding(section: Section, data: Data, rates: Rates, pair: Pair) -> None:
    symbol, long, short = (str(pair.carry[c].item()) for c in ("symbol", "long", "short"))
    section.heading(f"{symbol}: long {long}, short {short}")
    curve = [_carry(data, rates, symbol, long, short, hold) for hold in _HORIZONS]
    section.figure(
        plot.net_carry,
        curve,
        source=rates.table,
        title=f"{symbol} expected carry by holding time",
        reading="The line is what the widest pair is expected to have earned after costs when it is closed "
        "after so many days; left of its zero the costs are not yet paid.",
    )
    if rates.settled:
        return
    section.figure(
        plot.cumulative_funding,
        rates.table,
        data.settlements(),
        venue=short,
        symbol=symbol,
        title=f"{symbol} cumulative funding on {short}",
        reading=f"What longs on {short} paid, and a short there received, over the window. The integral of "
        "the samples and the sum of the payments should agree.",
    )


def _findings(section: Section, pairs: list[Pair], estimated: list[Pair]) -> None:
    widest = max(pairs, key=lambda p: p.spread)
    section.finding(
        "wide",
        f"Widest spread: {_named(widest)}, {rate(widest.spread)} on average, in favour "
        f"{pct(widest.favour, 0)} of the time.",
    )
    sure = [p for p in estimated if float(p.carry["net_low_bps"]) > 0]
    if estimated:
        label = (
            "of the widest pairs have net carry above zero with 90 % confidence. Picked in this same window "
            "(in sample): expect less"
        )
        section.number(f"{len(sure)} of {len(pairs)}", label, window=f"held {_HOLD_HOURS / 24:g} days")
    for pair in sorted(sure, key=lambda p: -float(p.carry["net_apr"]))[:4]:
        section.finding("left", _earning(pair))
    if estimated and not sure:
        none = "The widest pair does not clear its costs"
        if len(estimated) > 1:
            none = f"None of the {len(estimated)} widest pairs clears its costs"
        words = f"{none} (the 90 % interval includes zero)."
        section.finding("left", words)
    if not estimated:
        section.finding("left", "Unknown: no pair's carry can be estimated from this window.")


def _earning(pair: Pair) -> str:
    net, low, high = (
        pct(units.apr_from_bps(float(pair.carry[f"net_{end}bps"]), _HOLD_HOURS))
        for end in ("", "low_", "high_")
    )
    half_life, even = (lasting(float(pair.carry[n])) for n in ("half_life_hours", "breakeven_hours"))
    return (
        f"{_named(pair)}: {net} a year net ({low} to {high}) if held {_HOLD_HOURS / 24:g} days, half-life "
        f"{half_life}, costs paid after {even}."
    )


def _named(pair: Pair) -> str:
    symbol, long, short = (str(pair.carry[c].item()) for c in ("symbol", "long", "short"))
    return f"{symbol}, long {long}, short {short}"
