"""Options: smiles, surface, term structure, differences between venues, open interest, and their tables."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pandas as pd
import xarray as xr

from derivdata import plot
from derivdata.analysis import exposure, smile, surface, variance
from derivdata.analysis.surface.points import points_at_expiries
from derivdata.plot.fits import verdicts
from derivdata.reports.data import Data
from derivdata.reports.drawing import Panel
from derivdata.reports.html_page import WIDE, Section, listing, pct
from derivdata.reports.sections.volatility import (
    FIRST_SCREEN,
    answer_volatility,
    compared,
    history_panel,
    realised_panel,
)
from derivdata.support.times import naive_utc

_DAYS = 365.0
_TENORS = ("7d", "14d", "30d", "60d", "90d", "180d")
_POINTS = ("atm", "rr25", "bf25", "rr10", "bf10")

_FORMATS = (
    {
        "days": ".2f",
        "tenor [days]": ".0f",
        "error [points]": ".3f",
        "least g(k)": ".3f",
        "puts / calls": ".2f",
    }
    | dict.fromkeys(("quotes", "expiries"), "d")
    | dict.fromkeys(("options", "used"), ",d")
    | dict.fromkeys(("calls", "puts"), ",.1f")
    | dict.fromkeys(("forward [USD]", "max pain [USD]"), ",.2f")
    | dict.fromkeys(("ATM [%]", "strip [%]", "with wings at most [%]", "forward vol [%]"), ".2f")
    | dict.fromkeys(("30-day ATM [%]", "30-day strip index [%]"), ".2f")
    | dict.fromkeys(("RR 25Δ", "BF 25Δ", "RR 10Δ", "BF 10Δ", "fit − quote ATM"), "+.2f")
)


def _expiry_table(table: pd.DataFrame, fit: xr.Dataset) -> pd.DataFrame:
    """Return one row per expiry: volatility, skew, fit, arbitrage, forward and model-free, positions."""
    points = points_at_expiries(fit, ("atm", "rr25", "bf25")).where(fit["method"] > 0)
    line = surface.term_structure(fit)
    free = variance.model_free(fit, method="strip")
    dates = pd.DatetimeIndex(fit["expiry"].values)
    t = fit["year_fraction"]
    listed = table.groupby("expiry", observed=True).size()
    frame = pd.DataFrame(
        {
            "expiry": dates,
            "days": _DAYS * t.values,
            "forward [USD]": fit["forward"].values,
            "options": listed.reindex(dates.tz_localize("UTC")).to_numpy(),
            "quotes": fit["n"].values,
            "ATM [%]": 100 * points["atm"].values,
            "RR 25Δ": 100 * points["rr25"].values,
            "BF 25Δ": 100 * points["bf25"].values,
            "error [points]": 100 * fit["rmse_vol"].values,
            "fit − quote ATM": (100 * fit["atm_error_vol"].values).round(2) + 0.0,  # no −0.00
            "least g(k)": smile.butterfly_check(fit)["min_g"].values,
            "what to know": verdicts(fit),
            "strip [%]": 100 * free["vol"].values,
            "with wings at most [%]": 100 * np.sqrt((free["upper"] / t).values),
            "forward vol [%]": 100 * line["forward_vol"].values,
        }
    )
    return frame.merge(_positions(table), on="expiry", how="left")


def _positions(table: pd.DataFrame) -> pd.DataFrame:
    """Return open calls and puts, their ratio and max pain, by expiry."""
    oi = exposure.open_interest(table, by=("expiry", "side"))["open_interest"]
    ratio = exposure.put_call_ratio(table, by=("expiry",))["put_call_ratio"]
    return pd.DataFrame(
        {
            "expiry": pd.DatetimeIndex(oi["expiry"].values),
            "calls": oi.sel(side="call").values,
            "puts": oi.sel(side="put").values,
            "puts / calls": ratio.values,
            "max pain [USD]": exposure.max_pain(table)["max_pain"].values,
        }
    )


def _tenor_table(fit: xr.Dataset) -> pd.DataFrame:
    """Return volatility and skew at fixed times to expiry."""
    points = surface.constant_maturity(fit, tenors=_TENORS, points=_POINTS)
    names = {"atm": "ATM [%]"} | {
        f"{kind.lower()}{d}": f"{kind} {d}Δ" for d in (25, 10) for kind in ("RR", "BF")
    }
    columns = {label: 100 * points[name].values for name, label in names.items()}
    return pd.DataFrame({"tenor [days]": points["tenor"].values} | columns).dropna(subset="ATM [%]")


def _venue_table(tables: dict[str, pd.DataFrame], fits: xr.Dataset) -> pd.DataFrame:
    """Return one row per venue: options listed and used, and its volatility at 30 days."""
    order = list(tables)
    fits = fits.sel(exchange=order)
    month = surface.constant_maturity(fits, tenors=("30d",), points=("atm", "rr25")).isel(tenor=0)
    free = variance.model_free(fits, method="strip")
    return pd.DataFrame(
        {
            "venue": order,
            "options": [len(tables[venue]) for venue in order],
            "used": fits["n"].sum("expiry").values,
            "expiries": fits["a"].notnull().sum("expiry").values,
            "30-day ATM [%]": 100 * month["atm"].values,
            "RR 25Δ": 100 * month["rr25"].values,
            "30-day strip index [%]": 100 * variance.volatility_index(free)["index"].values,
            "error [points]": 100 * fits["rmse_vol"].median("expiry").values,
        }
    )


def _venue_gaps(by_venue: pd.DataFrame, reference: str) -> list[str]:
    """Describe each venue's 30-day ATM volatility minus the reference's, largest difference first."""
    level = by_venue.set_index("venue")["30-day ATM [%]"]
    away = (level - level[reference]).drop(reference).dropna()
    ordered = away.loc[away.abs().sort_values(ascending=False).index]
    return [f"{venue} {gap:+.2f}" for venue, gap in ordered.items()]


_READINGS = {
    "smile": (
        "Dots are quotes, lines the fits, over delta: puts at the left, the forward in the middle, "
        "calls at the right; on top the strikes of one expiry. Higher at the left: protection against "
        "a fall costs more."
    ),
    "surface": (
        "Brighter means higher implied volatility; a column is a listed expiry, on a logarithmic "
        "scale of time. Moneyness is in standard deviations, so that one height is about equally "
        "likely at every expiry."
    ),
    "term": (
        "Rising: calm now, more expected later; falling: stress now. The steps are what the expiries "
        "imply for the time between them; dashed is a day earlier. Below, squares price the whole "
        "smile; their bars reach to what strikes that are not listed leave open."
    ),
    "history": (
        "The strip index, ATM volatility by time to expiry and, below, 25-delta calls less puts: "
        "below zero, protection against a fall costs more. eSSVI fits of up to 32 chains of the "
        "window."
    ),
    "strikes": (
        "Calls upwards, puts downwards, in coins, the largest expiries apart. Tall bars are strikes "
        "at which many positions end or begin to hurt; who holds which side is not known. Max pain is "
        "where the options that expire then are worth least in sum."
    ),
}
"""Figures of the section in their order, and how to read each."""


class SymbolOptions(NamedTuple):
    """Options on one symbol: usable chains by venue, the fit to all, and the venue that is shown."""

    symbol: str
    venue: str
    chains: dict[str, pd.DataFrame]
    fits: xr.Dataset

    @property
    def chain(self) -> pd.DataFrame:
        """Chain of the venue that is shown."""
        return self.chains[self.venue]

    @property
    def fit(self) -> xr.Dataset:
        """Fit of the venue that is shown, over its own expiries."""
        return self.fits.sel(exchange=self.venue).dropna("expiry", subset=["year_fraction"])


def options_section(data: Data) -> Section:
    """Build the section on options: per symbol the first venue that has them, and the others against it."""
    section = data.section("Options")
    section.text(
        "The source gives implied volatilities; prices are computed from them. SVI smiles are fitted to the "
        "options out of the money of each venue, without butterfly or calendar arbitrage; nothing is "
        "extrapolated beyond the quotes. ATM is volatility at the forward; the strip index prices the quotes "
        "of all strikes, without wings."
    )
    books = [
        book for symbol in data.report_options.symbols if (book := _book(section, data, symbol)) is not None
    ]
    by_venue = {book.symbol: _venue_table(book.chains, book.fits) for book in books}
    tenors = {book.symbol: _tenor_table(book.fit) for book in books}
    chosen: dict[str, list[Panel]] = {name: [] for name in _READINGS}
    realised = []
    for book in books:
        section.text(
            f"{book.symbol}: {book.venue}, chain of {book.chain['time'].max():%Y-%m-%d %H:%M} UTC.", "soft"
        )
        venues = by_venue[book.symbol]
        _venues(section, data, book, venues)
        own = venues[venues["venue"] == book.venue].iloc[0]
        when = naive_utc(book.chain["time"].max())
        now = (tenors[book.symbol], float(own["30-day strip index [%]"]), when)
        panels = {
            "smile": _smile_panel(section, data, book),
            "surface": _surface_panel(section, book),
            "term": _term_panel(section, data, book),
            "history": history_panel(section, data, book.symbol, book.venue, now),
            "strikes": _strikes_panel(section, book),
        }
        for name, panel in panels.items():
            if panel is not None:
                chosen[name].append(panel)
        found = compared(section, data, book.symbol, float(own["30-day ATM [%]"]), when)
        realised += [] if found is None else [found]
    for name, reading in _READINGS.items():
        section.figure(chosen[name], reading)
    answer_volatility(section, realised)
    others = [realised_panel(section, level) for level in realised[FIRST_SCREEN:]]
    section.figure(
        others,
        "One line is what options of 30 days cost, the other how much the price moved over the days before. "
        "Where implied lies above, sellers were paid more than the market moved; what it moves next is not "
        "known.",
    )
    for book in books:
        section.table(tenors[book.symbol], f"{book.symbol} by time to expiry, {book.venue}", formats=_FORMATS)
        section.table(by_venue[book.symbol], f"{book.symbol} by venue", formats=_FORMATS)
    for book in books:
        every = _expiry_table(book.chain, book.fit)
        section.table(every, f"{book.symbol}: every expiry", formats=_FORMATS, fold=True)
    return section


def _book(section: Section, data: Data, symbol: str) -> SymbolOptions | None:
    chains = {v: c for v in data.option_venues(symbol) if (c := data.options(symbol, v)) is not None}
    if chains:
        fits = surface.from_chain(pd.concat(list(chains.values()), ignore_index=True))
        fits = fits if "exchange" in fits.dims else fits.expand_dims("exchange")
        if "time" in fits.dims:  # venues do not answer at one instant: each at the time of its own chain
            venues = fits["exchange"]
            stamps = [chains[venue]["time"].iloc[0] for venue in venues.values]
            times = naive_utc(pd.DatetimeIndex(stamps)).to_numpy()
            fits = fits.sel(time=xr.DataArray(times, {"exchange": venues}, "exchange"))
        alive = [v for v in chains if np.isfinite(fits["a"].sel(exchange=v)).any()]
        if alive:
            return SymbolOptions(symbol, alive[0], chains, fits)
    section.add_missing_note(_why(data, symbol))
    return None


def _why(data: Data, symbol: str) -> str:
    reasons = {words for what, words in data.missing.items() if what.startswith(f"options on {symbol},")}
    problems = sorted(words for words in reasons if "cannot be used" in words)
    venues = data.option_venues(symbol)
    where = (
        f"{listing(venues)} {'has' if len(venues) == 1 else 'have'} none" if venues else "no venue lists them"
    )
    return f"No options on {symbol}: {' '.join(problems) or where + '.'}"


def _smile_panel(section: Section, data: Data, book: SymbolOptions) -> Panel:
    shown = [naive_utc(e) for e in pd.DatetimeIndex(book.chain["expiry"].unique()).sort_values()]
    return section.panel(
        plot.smile,
        data.quotes(book.symbol, book.venue),
        book.fit,
        source=book.chain,
        expiries=shown[:8] if data.report_options.expiries else None,
        limit=5,
        title=f"{book.symbol} smiles on {book.venue}",
        size=(WIDE, 4.0),
    )


def _surface_panel(section: Section, book: SymbolOptions) -> Panel | None:
    if int(np.isfinite(book.fit["a"]).sum()) < 2:
        section.add_missing_note("One expiry makes no surface.")
        return None
    title = f"{book.symbol} volatility surface on {book.venue}"
    return section.panel(plot.surface, book.fit, source=book.chain, title=title, size=(WIDE, 3.6))


def _term_panel(section: Section, data: Data, book: SymbolOptions) -> Panel:
    return section.panel(
        plot.term_structure,
        book.fit,
        before=_day_before(data, book),
        source=book.chain,
        title=f"{book.symbol} term structure on {book.venue}",
        size=(WIDE, 4.0),
    )


def _day_before(data: Data, book: SymbolOptions) -> pd.DataFrame | None:
    """Return at-the-money volatility of the venue a day before the chain, within three hours."""
    rows = data.atm(book.symbol)
    if rows is None or not (rows["exchange"] == book.venue).all():
        return None
    away = (rows["time"] - (book.chain["time"].max() - pd.Timedelta(1, "D"))).abs()
    nearest = rows[(away == away.min()) & (away <= pd.Timedelta(3, "h"))]
    at_one = nearest[nearest["time"] == nearest["time"].min()]
    return None if at_one["iv"].isna().all() else at_one


def _change(section: Section, data: Data, book: SymbolOptions) -> None:
    metrics = data.metrics(book.symbol, book.venue)
    if metrics is None:
        return
    days = (metrics["expiry"] - metrics["time"]) / pd.Timedelta(1, "D")
    changes = metrics[metrics["atm_iv_change_24h"].notna()]
    if changes.empty:
        return
    row = changes.loc[(days[changes.index] - 30.0).abs().idxmin()]
    section.finding(
        "changed",
        f"{book.symbol} at-the-money volatility, expiry {row['expiry']:%Y-%m-%d} on {book.venue}: "
        f"{pct(row['atm_iv'])}, {100 * row['atm_iv_change_24h']:+.1f} points over 24 hours.",
    )


def _venues(section: Section, data: Data, book: SymbolOptions, by_venue: pd.DataFrame) -> None:
    _level(section, by_venue[by_venue["venue"] == book.venue].iloc[0], book)
    _change(section, data, book)
    alive = list(by_venue.loc[by_venue["expiries"] > 1, "venue"])
    if len(alive) < 2 or book.venue not in alive:
        section.add_missing_note(f"One venue has options on {book.symbol}: there is nothing to compare.")
        return
    gaps = _venue_gaps(by_venue, book.venue)
    if gaps:
        words = f"at-the-money volatility at 30 days against {book.venue}, in points: {listing(gaps)}"
        section.finding("wide", f"{book.symbol} options: {words}.")


def _level(section: Section, row: pd.Series, book: SymbolOptions) -> None:
    index, middle, skew = (
        float(row[name]) for name in ("30-day strip index [%]", "30-day ATM [%]", "RR 25Δ")
    )
    if np.isfinite(index):
        as_of = book.chain["time"].max()
        window = f"at {as_of:%Y-%m-%d %H:%M} UTC"
        section.number(book.symbol, f"30-day ATM volatility, {book.venue}", f"{middle:.1f} %", window=window)
        section.number(book.symbol, f"30-day strip index, {book.venue}", f"{index:.1f} %", window=window)
    section.metric(f"{book.symbol} 30-day strip index, {book.venue}", index, "%")
    section.metric(f"{book.symbol} 30-day ATM volatility, {book.venue}", middle, "%")
    section.metric(f"{book.symbol} 25-delta risk reversal, {book.venue}", skew, "%")
    if np.isfinite(middle):
        section.finding(
            "wide",
            f"{book.symbol} options on {book.venue}: 30-day ATM volatility {middle:.1f} %, 25-delta risk "
            f"reversal {skew:+.1f} volatility points ({'puts' if skew < 0 else 'calls'} richer).",
        )


def _strikes_panel(section: Section, book: SymbolOptions) -> Panel | None:
    if not book.chain["open_interest"].fillna(0).sum() > 0:
        section.add_missing_note(f"No open interest is known of options on {book.symbol} at {book.venue}.")
        return None
    title = f"{book.symbol} open options by strike on {book.venue}"
    return section.panel(plot.strikes, book.chain, title=title, size=(WIDE, 3.8))
