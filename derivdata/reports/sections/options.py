"""Options: smiles, surface, term structure, differences between venues, open interest."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pandas as pd
import xarray as xr

from derivdata import plot
from derivdata.analysis import surface
from derivdata.plot.style import row_size
from derivdata.reports.data import Data
from derivdata.reports.html_page import WIDE, Section, listing, pct
from derivdata.reports.sections import option_tables as of
from derivdata.reports.sections.volatility import add_realised_volatility, add_volatility_history
from derivdata.support.times import naive_utc


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
    section = Section("Options", drawings=data.drawings)
    section.text(
        "The source gives implied volatilities; prices are computed from them. SVI smiles are fitted to the "
        "options out of the money of each venue, without butterfly or calendar arbitrage; nothing is "
        "extrapolated beyond the quotes."
    )
    for symbol in data.report_options.symbols:
        book = _book(section, data, symbol)
        if book is not None:
            section.heading(
                f"{symbol} on {book.venue}, chain of {book.chain['time'].max():%Y-%m-%d %H:%M} UTC"
            )
            by_venue = of.venues(book.chains, book.fits)
            _smiles(section, data, book)
            _surface(section, book)
            _term(section, data, book)
            _density(section, book)
            add_volatility_history(section, data, symbol, book.venue)
            add_realised_volatility(section, data, symbol)
            _venues(section, data, book, by_venue)
            _open(section, book)
            section.table(of.tenors(book.fit), formats=of.FORMATS)
            section.table(by_venue, formats=of.FORMATS)
            every = of.expiries(book.chain, book.fit)
            section.table(every, formats=of.FORMATS, fold=f"{symbol}: every expiry")
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


def _smiles(section: Section, data: Data, book: SymbolOptions) -> None:
    shown = [naive_utc(e) for e in pd.DatetimeIndex(book.chain["expiry"].unique()).sort_values()]
    section.figure(
        plot.smile,
        data.quotes(book.symbol, book.venue),
        book.fit,
        source=book.chain,
        expiries=shown[:8] if data.report_options.expiries else None,
        title=f"{book.symbol} smiles on {book.venue}",
        reading="Dots are quotes, faded where nobody bids; lines are the fits; left of zero puts, right of "
        "it calls. Steeper on the left: protection against a fall costs more volatility. Below, g(k) must "
        "not fall under zero: there a butterfly could be bought for less than nothing.",
        size=(WIDE, 4.4),
    )


def _surface(section: Section, book: SymbolOptions) -> None:
    if int(np.isfinite(book.fit["a"]).sum()) < 2:
        section.add_missing_note("One expiry makes no surface.")
        return
    section.figure(
        plot.surface,
        book.fit,
        source=book.chain,
        title=f"{book.symbol} volatility surface on {book.venue}",
        reading="Brighter means higher implied volatility; a column is a listed expiry. Moneyness is in "
        "standard deviations, so that one height is about equally likely at every expiry.",
        size=(WIDE, 4.4),
    )


def _term(section: Section, data: Data, book: SymbolOptions) -> None:
    section.figure(
        plot.term_structure,
        book.fit,
        before=_day_before(data, book),
        source=book.chain,
        title=f"{book.symbol} term structure on {book.venue}",
        reading="Rising: calm now, more expected later; falling: stress now. The steps are what the expiries "
        "imply for the time between them; dashed is a day earlier. Below, squares price the whole smile; "
        "their bars reach to what strikes that are not listed leave open.",
        size=(WIDE, 4.4),
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


def _density(section: Section, book: SymbolOptions) -> None:
    section.figure(
        plot.implied_density,
        book.fit,
        source=book.chain,
        title=f"{book.symbol} density that options imply on {book.venue}",
        reading="How likely the options hold each price at expiry to be. Dashed parts lie beyond the quotes "
        "and depend on the fitted wings. It prices options and is no forecast: what people pay for "
        "protection is in it.",
    )


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
    section.figure(
        plot.venue_difference,
        book.fits.sel(exchange=alive).assign_coords(symbol=book.symbol),
        reference=book.venue,
        source=book.chain,
        title=f"{book.symbol} implied volatility of venues against {book.venue}",
        reading=f"Volatility points above (orange) or below (purple) {book.venue} at the same strike and "
        "time. A row of one sign is a level, a row that changes sign a difference in skew; neither is earned "
        "before spreads and fees.",
        size=row_size(4 * (len(alive) - 1), 0.2, wide=WIDE),
    )
    gaps = of.gaps(by_venue, book.venue)
    if gaps:
        words = f"at-the-money volatility at 30 days against {book.venue}, in points: {listing(gaps)}"
        section.finding("wide", f"{book.symbol} options: {words}.")


def _level(section: Section, row: pd.Series, book: SymbolOptions) -> None:
    index, middle, skew = (
        float(row[name]) for name in ("30-day strip index [%]", "30-day ATM [%]", "RR 25Δ")
    )
    if np.isfinite(index):
        as_of = book.chain["time"].max()
        section.number(
            f"{index:.1f} %",
            f"{book.symbol} 30-day volatility index, {book.venue}",
            window=f"at {as_of:%Y-%m-%d %H:%M} UTC",
        )
    section.metric(f"{book.symbol} 30-day volatility index, {book.venue}", index, "%")
    section.metric(f"{book.symbol} 30-day ATM volatility, {book.venue}", middle, "%")
    section.metric(f"{book.symbol} 25-delta risk reversal, {book.venue}", skew, "%")
    if np.isfinite(middle):
        section.finding(
            "wide",
            f"{book.symbol} options on {book.venue}: 30-day ATM volatility {middle:.1f} %, 25-delta risk "
            f"reversal {skew:+.1f} volatility points ({'puts' if skew < 0 else 'calls'} richer).",
        )


def _open(section: Section, book: SymbolOptions) -> None:
    if not book.chain["open_interest"].fillna(0).sum() > 0:
        section.add_missing_note(f"No open interest is known of options on {book.symbol} at {book.venue}.")
        return
    section.figure(
        plot.strikes,
        book.chain,
        title=f"{book.symbol} open options by strike on {book.venue}",
        reading="Calls upwards, puts downwards, in contracts of one coin each, the largest expiries apart. "
        "Tall bars are strikes at which many positions end or begin to hurt; who holds which side is not "
        "known. Max pain is where the options that expire then are worth least in sum.",
    )
    section.figure(
        plot.strikes,
        book.chain,
        kind="gamma",
        title=f"{book.symbol} gamma by strike on {book.venue}",
        reading="What all who hedge these options trade per move of 1 %, whichever side they are on: near "
        "the tall bars their trades matter most. Who is long and who is short is not known, so that no sign "
        "is drawn.",
    )
