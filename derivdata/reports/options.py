"""Options and volatility: smiles, surfaces, term structures, venues, indices, skew, realised volatility."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import xarray as xr

from derivdata import plot
from derivdata.analysis import exposure, smile, surface, variance, volatility
from derivdata.analysis.surface.points import points_at_expiries
from derivdata.matrix import at_maturity
from derivdata.plot.fits import verdicts
from derivdata.plot.style import day_words, median_price
from derivdata.reports import charts
from derivdata.reports.data import Data
from derivdata.reports.page import WIDE, Panel, Section, listing, pct, venue_words
from derivdata.support.times import naive_utc

_REALISED_TENORS = ("7d", "30d", "90d")
_MIN_WINDOW = pd.Timedelta(3, "D")
"""Minimum window for a history of the index."""
_IMPLIED_DAYS = 30.0
_REALISED_DAYS = 7
_MIN_RETURNS = 24
_LONGEST = np.timedelta64(200, "D")
"""Maximum time to expiry of the options from which the history is computed."""
_LEVELS = (WIDE, 2.75)
"""Size of the figure of ATM minus realised volatility."""
FIRST_SCREEN = 3
"""Symbols in the figure of the first screen."""
_HISTORY: dict[str, Any] = {"tenors": _REALISED_TENORS, "method": "essvi", "weights": "price"}


def history_panel(section: Section, data: Data, symbol: str, venue: str, now: Any) -> Panel | None:
    """Return the panel of the index and of skew over time, up to `now`, and add their change."""
    window = data.report_options.window
    if not section.draws or window.end - window.start < _MIN_WINDOW:
        return None
    chains = data.surfaces(symbol, venue)
    if chains is None:
        section.add_missing_note(
            f"The histories of the index and of skew need option surfaces over time, which the source does "
            f"not have for {symbol}."
        )
        return None
    near = chains["expiry"] <= chains["time"][-1] + _LONGEST  # later expiries are beyond all tenors
    history = _with_now(surface.history(chains.isel(expiry=np.flatnonzero(near)), **_HISTORY), *now)
    index = 100.0 * history["strip_index"].dropna("time")
    if not index.size:
        section.add_missing_note(f"{symbol} has no expiries on both sides of 30 days over the window.")
        return None
    days = (index["time"].values[-1] - index["time"].values[0]) / np.timedelta64(1, "D")
    if days >= 1:
        change = float(index[-1] - index[0])
        section.finding(
            "changed",
            f"{symbol} 30-day strip index on {venue}: {change:+.1f} points over {day_words(days)}, "
            f"between {float(index.min()):.1f} and {float(index.max()):.1f} %.",
        )
    title = f"{symbol} volatility index and skew over time on {venue}"
    look: dict[str, Any] = {"title": title, "size": (WIDE, 4.0)}
    # Only one tenor, because skews differ more between tenors than over time.
    levels = history[["strip_index", "atm", "rr25"]].sel(tenor=[_IMPLIED_DAYS]).assign_attrs(history.attrs)
    return section.panel(plot.volatility, levels, symbol=f"{symbol} on {venue}", source=chains, **look)


def _with_now(history: xr.Dataset, now: pd.DataFrame, index: float, when: pd.Timestamp) -> xr.Dataset:
    """Append the numbers of the current chain, as in the tables, to a history.

    `now` has the points by time to expiry; `index` is the strip index [%].
    """
    earlier = history.sel(time=slice(None, when - pd.Timedelta(1, "s")))
    points = now.set_index("tenor [days]").reindex(earlier["tenor"].to_numpy())
    last = xr.Dataset(
        {
            "atm": ("tenor", points["ATM [%]"].to_numpy() / 100.0),
            "rr25": ("tenor", points["RR 25Δ"].to_numpy() / 100.0),
            "bf25": ("tenor", points["BF 25Δ"].to_numpy() / 100.0),
            "strip_index": ((), index / 100.0),
        },
        {"tenor": earlier["tenor"]},
    ).expand_dims(time=[when.to_datetime64()])
    single = [dim for dim in earlier.dims if dim not in ("time", "tenor")]
    earlier = earlier[list(last.data_vars)].squeeze(single, drop=True)
    return xr.concat([earlier, last], "time").assign_attrs(history.attrs)


def compared(
    section: Section, data: Data, symbol: str, at_the_money: float, when: pd.Timestamp
) -> charts.Level | None:
    """Return 30-day ATM and 7-day realised volatility over time; None, with a note, if one is missing.

    The last implied volatility is the value in the tables, `at_the_money` [%].
    """
    # 1. Realised volatility.
    frame = data.atm(symbol)
    marks = data.prices(symbol)
    if frame is None or marks is None or marks["time"].nunique() < 2:
        lacking = "a history of options" if frame is None else "prices"
        section.add_missing_note(
            f"Realised and implied volatility of {symbol} cannot be compared without {lacking}."
        )
        return None
    price = median_price(marks).assign_attrs(units="USD")
    step = pd.Timedelta(price["time"].diff("time").median().values)
    returns = min(round(pd.Timedelta(_REALISED_DAYS, "D") / step), price.sizes["time"] - 1)
    if returns < _MIN_RETURNS:
        section.add_missing_note(
            f"Realised volatility of {symbol} needs {_MIN_RETURNS} returns; the source has {returns}."
        )
        return None
    days = returns * step / pd.Timedelta(1, "D")
    regular = price.reindex(time=pd.date_range(price["time"].values[0], price["time"].values[-1], freq=step))
    realised = volatility.bipower(regular, returns * step)["volatility"]
    # 2. Implied volatility, which ends in the value of the current chain.
    implied = at_maturity(frame, pd.Timedelta(_IMPLIED_DAYS, "D"))
    if np.isfinite(at_the_money):
        earlier = implied.sel(time=slice(None, when - pd.Timedelta(1, "s")))
        now = xr.DataArray([at_the_money / 100.0], {"time": [when.to_datetime64()]}, ["time"])
        implied = xr.concat([earlier.drop_vars(set(earlier.coords) - {"time"}), now], "time")
    implied = implied.assign_coords(tenor=_IMPLIED_DAYS)
    realised = realised.sel(time=slice(naive_utc(data.report_options.window.start), None))
    if not (implied.notnull().any() and realised.notnull().any()):
        section.add_missing_note(
            f"{symbol} has no expiries on both sides of {_IMPLIED_DAYS:.0f} days over the window."
        )
        return None
    # 3. Last values and change.
    implied_line = implied.dropna("time")
    last_realised = 100.0 * float(realised.dropna("time")[-1])
    change = 100.0 * float(implied_line[-1]) - 100.0 * float(implied_line[0])
    span = float((implied_line["time"][-1] - implied_line["time"][0]) / np.timedelta64(1, "D"))
    section.number(
        symbol,
        f"realised volatility, {day_words(days)}",
        f"{last_realised:.1f} %",
        window="to the last price",
    )
    section.metric(f"{symbol} realised volatility, {day_words(days)}", last_realised, "%")
    return charts.Level(symbol, implied, realised, frame, days, change, span)


def answer_volatility(section: Section, levels: list[charts.Level], scope: str) -> None:
    """State volatility and its change on the first screen, for the first symbols."""
    levels = levels[:FIRST_SCREEN]
    if not levels:
        return
    words = []
    for level in levels:
        implied = 100.0 * float(level.implied.dropna("time")[-1])
        realised = 100.0 * float(level.realised.dropna("time")[-1])
        change = f"{level.change:+.1f} points in {day_words(level.span)}"
        implied_text = f"30-day ATM {implied:.1f} % ({change})"
        realised_text = f"{level.days:.3g}-day realised {realised:.1f} %"
        words.append(f"{level.symbol}: {implied_text}, {realised_text}")
    panel = section.panel(charts.draw_levels, levels, title="ATM and realised volatility", size=_LEVELS)
    section.answer("How does volatility change?", f"{'; '.join(words)}.", panel, scope)


def realised_panel(section: Section, level: charts.Level) -> Panel:
    """Return the panel of 30-day ATM and realised volatility of one symbol, with its number of days."""
    title = f"{level.symbol} 30-day ATM and {level.days:.3g}-day realised volatility"
    look: dict[str, Any] = {"title": title, "size": (WIDE, 3.0), "source": level.table}
    options: dict[str, Any] = {"realised": level.realised, "symbol": level.symbol}
    return section.panel(plot.volatility, level.implied, "realised", **options, **look)


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
    """Return one row per expiry: forward, volatility, skew, fit, arbitrage and positions."""
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
            "fit − quote ATM": (100 * fit["atm_error_vol"].values).round(2) + 0.0,  # + 0.0 removes -0.00
            "least g(k)": smile.butterfly_check(fit)["min_g"].values,
            "remarks": verdicts(fit),
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
    names = {"atm": "ATM [%]", "rr25": "RR 25Δ", "bf25": "BF 25Δ", "rr10": "RR 10Δ", "bf10": "BF 10Δ"}
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
    """Return each venue's 30-day ATM volatility minus the reference's, largest difference first."""
    level = by_venue.set_index("venue")["30-day ATM [%]"]
    differences = (level - level[reference]).drop(reference).dropna()
    ordered = differences.loc[differences.abs().sort_values(ascending=False).index]
    return [f"{venue} {gap:+.2f}" for venue, gap in ordered.items()]


_READINGS = {
    "term": (
        "ATM volatility by expiry, with the bid and ask at the money as bars; the thin grey line is the day "
        "before. A rising line means that options price larger moves later, a falling line larger moves now."
    ),
    "smile": (
        "Implied volatility over delta for a near, a middle and a far expiry, at one scale. Left of 50 are "
        "puts, right of it calls. The left side is higher if protection against falling prices costs more."
    ),
    "surface": (
        "Implied volatility by delta and time to expiry, interpolated between expiries. Compare a row to see "
        "the term structure at one delta, and a column to see the skew."
    ),
    "history": (
        "Above, the 30-day strip index. Below, the 30-day 25-delta risk reversal: call minus put volatility. "
        "It is below zero if protection against falling prices costs more. Fits are eSSVI, of up to 32 "
        "chains of the window."
    ),
    "strikes": (
        "Calls upwards, puts downwards, in coins, over all expiries. Many positions gain or lose value at "
        "the strikes with tall bars. Open interest does not show which side is long."
    ),
}
"""Figures of the section in order, and how to read each."""


class SymbolOptions(NamedTuple):
    """Options on one symbol: usable chains by venue, the fits, and the venue that is shown."""

    symbol: str
    venue: str
    chains: dict[str, pd.DataFrame]
    fits: xr.Dataset

    @property
    def name(self) -> str:
        """Symbol and venue."""
        return f"{self.symbol} on {self.venue}"

    @property
    def chain(self) -> pd.DataFrame:
        """Chain of the venue that is shown."""
        return self.chains[self.venue]

    @property
    def fit(self) -> xr.Dataset:
        """Fit of the venue that is shown, over its own expiries."""
        return self.fits.sel(exchange=self.venue).dropna("expiry", subset=["year_fraction"])


def options_section(data: Data) -> Section:
    """Build the section on options: by symbol the first venue with options, and other venues against it."""
    section = data.section("Options")
    section.text(
        "The source has implied volatilities; prices are computed from them. SVI smiles are fitted to the "
        "out-of-the-money options of each venue, without butterfly or calendar arbitrage, and without "
        "extrapolation beyond the quotes. ATM is volatility at the forward; the strip index prices the "
        "quotes of all strikes, without wings."
    )
    fitted = [_book(section, data, symbol) for symbol in data.report_options.symbols]
    books = [book for book in fitted if book is not None]
    by_venue = {book.symbol: _venue_table(book.chains, book.fits) for book in books}
    tenors = {book.symbol: _tenor_table(book.fit) for book in books}
    figures: dict[str, list[Panel]] = {name: [] for name in _READINGS}
    realised = []
    for book in books:
        section.text(
            f"{book.symbol}: {book.venue}, chain of {book.chain['time'].max():%Y-%m-%d %H:%M} UTC.", "soft"
        )
        venues = by_venue[book.symbol]
        _venues(section, data, book, venues)
        row = venues[venues["venue"] == book.venue].iloc[0]
        when = naive_utc(book.chain["time"].max())
        now = (tenors[book.symbol], float(row["30-day strip index [%]"]), when)
        panels = {
            "term": _term_panel(section, data, book),
            "smile": _smile_panel(section, data, book),
            "surface": _surface_panel(section, book, tenors[book.symbol]),
            "history": history_panel(section, data, book.symbol, book.venue, now),
            "strikes": _strikes_panel(section, book),
        }
        for name, panel in panels.items():
            if panel is not None:
                figures[name].append(panel)
        realised.append(compared(section, data, book.symbol, float(row["30-day ATM [%]"]), when))
    venues = venue_words(book.venue for book in books)
    for name, reading in _READINGS.items():
        scope = venues
        if name == "history":
            scope = f"{venues}, {data.report_options.period}"
        section.figure(figures[name], reading, scope)
    levels = [level for level in realised if level is not None]
    answer_volatility(section, levels, f"{venues}, {data.report_options.period}")
    others = [realised_panel(section, level) for level in levels[FIRST_SCREEN:]]
    section.figure(
        others,
        "Implied volatility looks 30 days ahead. Realised volatility looks back over the days in the title, "
        "so the lines cover different periods. Sellers earn if the price later moves less than was implied.",
        f"{venues}, {data.report_options.period}",
    )
    for book in books:
        section.table(tenors[book.symbol], f"{book.symbol} by time to expiry, {book.venue}", formats=_FORMATS)
        section.table(by_venue[book.symbol], f"{book.symbol} by venue", formats=_FORMATS)
    for book in books:
        expiries = _expiry_table(book.chain, book.fit)
        section.table(expiries, f"{book.symbol}: every expiry", formats=_FORMATS, fold=True)
    return section


def _book(section: Section, data: Data, symbol: str) -> SymbolOptions | None:
    """Return the options on a symbol; None, with a note, if they are missing or cannot be fitted."""
    chains = {}
    for venue in data.option_venues(symbol):
        chain = data.options(symbol, venue)
        if chain is not None:
            chains[venue] = chain
    if chains:
        fits = surface.from_chain(pd.concat(list(chains.values()), ignore_index=True))
        if "exchange" not in fits.dims:
            fits = fits.expand_dims("exchange")
        if "time" in fits.dims:  # chains of several venues have different times: take each at its own
            venues = fits["exchange"]
            stamps = [chains[venue]["time"].iloc[0] for venue in venues.values]
            times = naive_utc(pd.DatetimeIndex(stamps)).to_numpy()
            fits = fits.sel(time=xr.DataArray(times, {"exchange": venues}, "exchange"))
        for venue in chains:
            if np.isfinite(fits["a"].sel(exchange=venue)).any():
                return SymbolOptions(symbol, venue, chains, fits)
    section.add_missing_note(_missing_reason(data, symbol))
    return None


def _missing_reason(data: Data, symbol: str) -> str:
    """Return a sentence on why the options of a symbol are missing."""
    problems = set()
    for what, words in data.missing.items():
        if what.startswith(f"options on {symbol},") and "cannot be used" in words:
            problems.add(words)
    venues = data.option_venues(symbol)
    if problems:
        reason = " ".join(sorted(problems))
    elif not venues:
        reason = "no venue lists them."
    elif len(venues) == 1:
        reason = f"{venues[0]} does not list them."
    else:
        reason = f"{listing(venues)} do not list them."
    return f"No options on {symbol}: {reason}"


def _smile_panel(section: Section, data: Data, book: SymbolOptions) -> Panel:
    expiries = None
    if data.report_options.expiries:
        expiries = list(naive_utc(pd.DatetimeIndex(book.chain["expiry"].unique()).sort_values())[:8])
    return section.panel(
        charts.draw_smiles,
        data.quotes(book.symbol, book.venue),
        book.fit,
        book.name,
        expiries,
        source=book.chain,
        title=f"{book.symbol} smiles on {book.venue}",
        size=(WIDE, 3.6),
    )


def _surface_panel(section: Section, book: SymbolOptions, points: pd.DataFrame) -> Panel | None:
    if int(np.isfinite(book.fit["a"]).sum()) < 2:
        section.add_missing_note(f"A surface needs two expiries; {book.venue} has one.")
        return None
    if len(points) < 2:
        section.add_missing_note(f"A surface of {book.symbol} needs expiries on both sides of two tenors.")
        return None
    title = f"{book.symbol} volatility surface on {book.venue}"
    return section.panel(
        charts.draw_surface, points, book.name, source=book.chain, title=title, size=(WIDE, 2.9)
    )


def _term_panel(section: Section, data: Data, book: SymbolOptions) -> Panel:
    return section.panel(
        charts.draw_term,
        book.fit,
        _day_before(data, book),
        book.name,
        source=book.chain,
        title=f"{book.symbol} term structure on {book.venue}",
        size=(WIDE, 3.2),
    )


def _day_before(data: Data, book: SymbolOptions) -> pd.DataFrame | None:
    """Return at-the-money volatility of the venue a day before the chain, within three hours."""
    rows = data.atm(book.symbol)
    if rows is None or not (rows["exchange"] == book.venue).all():
        return None
    day_before = book.chain["time"].max() - pd.Timedelta(1, "D")
    distance = (rows["time"] - day_before).abs()
    nearest = rows[(distance == distance.min()) & (distance <= pd.Timedelta(3, "h"))]
    rows_of_time = nearest[nearest["time"] == nearest["time"].min()]
    if rows_of_time["iv"].isna().all():
        return None
    return rows_of_time


def _change(section: Section, data: Data, book: SymbolOptions) -> None:
    """Add the change of volatility over a day at the expiry nearest to 30 days."""
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
    """Add the level, its change, and the differences between venues."""
    _level(section, by_venue[by_venue["venue"] == book.venue].iloc[0], book)
    _change(section, data, book)
    comparable = list(by_venue.loc[by_venue["expiries"] > 1, "venue"])
    if len(comparable) < 2 or book.venue not in comparable:
        section.add_missing_note(f"Only one venue has options on {book.symbol}: venues cannot be compared.")
        return
    gaps = _venue_gaps(by_venue, book.venue)
    if gaps:
        words = f"at-the-money volatility at 30 days against {book.venue}, in points: {listing(gaps)}"
        section.finding("wide", f"{book.symbol} options: {words}.")


def _level(section: Section, row: pd.Series, book: SymbolOptions) -> None:
    """Add numbers and findings of volatility and skew at 30 days."""
    index = float(row["30-day strip index [%]"])
    atm = float(row["30-day ATM [%]"])
    skew = float(row["RR 25Δ"])
    if np.isfinite(index):
        as_of = book.chain["time"].max()
        window = f"at {as_of:%Y-%m-%d %H:%M} UTC"
        section.number(book.symbol, f"30-day ATM volatility, {book.venue}", f"{atm:.1f} %", window=window)
        section.number(book.symbol, f"30-day strip index, {book.venue}", f"{index:.1f} %", window=window)
    section.metric(f"{book.symbol} 30-day strip index, {book.venue}", index, "%")
    section.metric(f"{book.symbol} 30-day ATM volatility, {book.venue}", atm, "%")
    section.metric(f"{book.symbol} 25-delta risk reversal, {book.venue}", skew, "%")
    if np.isfinite(atm):
        richer = "puts" if skew < 0 else "calls"
        section.finding(
            "wide",
            f"{book.symbol} options on {book.venue}: 30-day ATM volatility {atm:.1f} %, 25-delta risk "
            f"reversal {skew:+.1f} volatility points ({richer} richer).",
        )


def _strikes_panel(section: Section, book: SymbolOptions) -> Panel | None:
    if not book.chain["open_interest"].fillna(0).sum() > 0:
        section.add_missing_note(f"Open interest of options on {book.symbol} at {book.venue} is unknown.")
        return None
    title = f"{book.symbol} open options by strike on {book.venue}"
    return section.panel(plot.strikes, book.chain, title=title, size=(WIDE, 3.8))
