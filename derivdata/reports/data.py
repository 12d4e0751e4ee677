"""The options of a report and its data: each table is fetched once, missing ones have the reason."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import xarray as xr

from derivdata import funding, liquidations, markets, oi, options, prices
from derivdata.analysis import chain
from derivdata.analysis.funding import period_sums
from derivdata.errors import BadRequest, DataNotice, NotFound, NotRecorded, SchemaError, TierError
from derivdata.reports.page import Section
from derivdata.support import times
from derivdata.support.text import did_you_mean
from derivdata.tables import endpoints
from derivdata.tables.frames import concat
from derivdata.tables.panels import panel, provenance
from derivdata.units import RATE_UNIT

SECTIONS = ("funding", "carry", "oi", "options", "liquidations", "quality")
"""Sections that can be selected. Summary and provenance are always included."""

FEE_BPS = 5.0
"""Default cost of one trade [bps]: a usual taker fee of the first tier."""

OTHERS = "others"
_STEPS: tuple[tuple[int, times.Resolution], ...] = ((45, "1h"), (180, "4h"), (400, "8h"))
"""Resolution by the maximum length of the window [days]: at most 1,200 rows per series."""

Fees = float | Mapping[str, float]


@dataclass(frozen=True)
class ReportOptions:
    """Symbols, window, venues, costs and sections of one report.

    Attributes
    ----------
    fee_bps
        Cost of one trade [bps] by venue, and of all ``others``.
    given
        Whether the costs are the caller's, not the default.
    expiries
        Days of expiry of the options to report on; empty is all.
    source_text
        Source of the data in the caller's words; None is the source's own name.
    """

    symbols: tuple[str, ...]
    window: times.Window
    venues: tuple[str, ...] | None
    fee_bps: Mapping[str, float]
    given: bool
    expiries: tuple[pd.Timestamp, ...]
    sections: tuple[str, ...]
    source_text: str | None

    def fee(self, venue: str) -> float:
        """Return the cost of one trade on a venue [bps]."""
        return self.fee_bps.get(venue, self.fee_bps[OTHERS])

    @property
    def period(self) -> str:
        """First and last day of the window, for captions."""
        return f"{self.window.start:%Y-%m-%d} to {self.window.end:%Y-%m-%d}"

    @property
    def resolution(self) -> times.Resolution:
        """Step of the histories, finer for shorter windows."""
        days = (self.window.end - self.window.start) / pd.Timedelta(1, "D")
        for longest, step in _STEPS:
            if days <= longest:
                return step
        return "1d"


def parse_options(
    symbols: str | Sequence[str],
    *,
    window: str,
    venues: str | Sequence[str] | None,
    fee_bps: Fees | None,
    expiries: Sequence[times.TimeLike] | None,
    sections: Sequence[str] | None,
    source_text: str | None = None,
) -> ReportOptions:
    """Check the arguments of a report and resolve their defaults.

    Raises
    ------
    ValueError, TypeError
        `symbols` is empty, the window is not a lookback, a section is unknown, or a fee is not a cost in bps.
    """
    if isinstance(symbols, str):
        symbols = [symbols]
    if not len(symbols):
        raise ValueError("symbols must be at least one symbol, got none")
    if times.lookback(window) is None:
        raise ValueError(f"window must be a lookback such as '30d', got {window!r}")
    selected = _selected_sections(sections)
    if isinstance(venues, str):
        venues = [venues]
    return ReportOptions(
        symbols=tuple(symbols),
        window=times.window(window),
        venues=None if venues is None else tuple(venues),
        fee_bps=_fees(fee_bps),
        given=fee_bps is not None,
        expiries=tuple(times.timestamp(expiry, "expiries").normalize() for expiry in expiries or ()),
        sections=selected,
        source_text=source_text,
    )


def _selected_sections(requested: Sequence[str] | None) -> tuple[str, ...]:
    """Return the requested sections in the order of the page; None requests all."""
    if requested is None:
        return SECTIONS
    must_be = f"sections must be among {', '.join(SECTIONS)}"
    if not len(requested):
        raise ValueError(f"{must_be}, got none")
    for name in requested:
        if name not in SECTIONS:
            raise ValueError(f"{must_be}, got {name!r}{did_you_mean(name, SECTIONS)}")
    return tuple(name for name in SECTIONS if name in requested)


def _fees(fee_bps: Fees | None) -> Mapping[str, float]:
    """Return the costs by venue, with the cost of all others."""
    by_venue = {OTHERS: FEE_BPS}
    if isinstance(fee_bps, Mapping):
        by_venue |= fee_bps
    elif fee_bps is not None:
        by_venue[OTHERS] = float(fee_bps)
    for venue, fee in by_venue.items():
        if not 0.0 <= fee <= 1000.0:
            raise ValueError(f"fee_bps for {venue} must be from 0 to 1000 bps of one trade, got {fee!r}")
    return by_venue


EVENTS = 20_000
"""Maximum number of liquidation orders that are requested."""

_LACKS = (BadRequest, NotFound, TierError)
"""Errors for data that a source does not have. Every other error ends the report."""

_LIQUIDATION_DAYS = 7
_PRICE_TOLERANCE = pd.Timedelta(2, "h")
"""Maximum distance of an option's underlying price from the time of a requested price."""
_BEFORE = pd.Timedelta(7, "D")
_PAST = pd.Timedelta(365, "D")
"""Length of the history of rates and marks from which carry is forecast."""
_SURFACE_DAYS = pd.Timedelta(30, "D")
_SURFACES = 31
"""Maximum number of surfaces that are fitted for the histories of the index and of skew."""
_PRICED = 5
"""Number of venues whose marks are requested. The price of the report is their median."""


class FetchedTable(NamedTuple):
    """A fetched table with its label and provenance."""

    what: str
    provenance: dict[str, Any]


class Rates(NamedTuple):
    """Rates as a panel [bps/8h], their table, and whether they are settlements."""

    panel: xr.DataArray
    table: pd.DataFrame
    settled: bool


class Data:
    """Tables of one report, fetched on first use. `missing` has the reason by missing table."""

    def __init__(self, report_options: ReportOptions, *, draws: bool = True) -> None:
        self.report_options = report_options
        self.draws = draws
        self.fetched: list[FetchedTable] = []
        self.missing: dict[str, str] = {}
        self._tables: dict[str, pd.DataFrame | None] = {}
        self._chains: dict[str, pd.DataFrame | None] = {}
        self._symbols: set[str] = set()
        self._quotes: dict[tuple[str, str], xr.Dataset] = {}

    def section(self, title: str) -> Section:
        """Return an empty section. It draws no figures in an earlier report, which is only compared."""
        return Section(title, self.draws, self.report_options.source_text)

    @property
    def synthetic(self) -> bool:
        """Return whether any of the data is synthetic."""
        return any(table.provenance.get("synthetic") for table in self.fetched)

    @property
    def from_the_api(self) -> bool:
        """Return whether any of the data is the API's own, which requires an attribution."""
        for table in self.fetched:
            if table.provenance["attribution"] and not table.provenance["synthetic"]:
                return True
        return False

    def require_symbols(self) -> None:
        """Raise for a symbol without data that is not in the source's list."""
        absent = [symbol for symbol in self.report_options.symbols if symbol not in self._symbols]
        if not absent:
            return
        listed_symbols: set[str] = set()
        listed = self._fetch_once("list of symbols", markets.symbols, optional=True)
        if listed is not None:
            listed_symbols = set(listed["symbol"].astype(str))
        for symbol in absent:
            if symbol not in listed_symbols:
                near = did_you_mean(symbol, listed_symbols | set(self._symbols))
                available = ""
                if self._symbols:
                    available = f"; it has {', '.join(sorted(self._symbols))}"
                raise ValueError(f"symbols: the source has no data for {symbol!r}{available}{near}")

    def funding(self) -> pd.DataFrame | None:
        """Return table ``funding_history`` of all symbols."""
        wanted = self.report_options
        fetch = partial(funding.history, venues=wanted.venues, resolution=wanted.resolution)
        return self._fetch_once("funding rates", lambda: self._of_known_symbols(fetch))

    @cached_property
    def rates(self) -> Rates | None:
        """Sampled rates of at least two times, else settlements summed over 8 hours, else None."""
        sampled = self.funding()
        if sampled is not None and sampled["time"].nunique() > 1:  # a single time is not a history
            return Rates(panel(sampled), sampled, settled=False)
        paid = self.settlements()
        if paid is None:
            return None
        return self._settled(paid, "funding rates")

    def _settled(self, paid: pd.DataFrame, what: str) -> Rates | None:
        """Return payments summed over 8 hours; None, with a note in `missing`, if that is not possible."""
        try:
            return Rates(_summed(paid), paid, settled=True)
        except ValueError as problem:
            self.missing[what] = f"The payments behind the {what} have no sums over 8 hours: {problem}."
            return None

    @cached_property
    def past_rates(self) -> Rates | None:
        """Rates of the last year, to fit forecasts; the rates of the window if the source has no more."""
        rates = self.rates
        wanted = self.report_options
        end = self.report_options.window.end
        start = end - _PAST
        if rates is None or start >= wanted.window.start:
            return rates
        fetch = partial(funding.history, venues=wanted.venues, resolution="8h")
        if rates.settled:
            fetch = partial(funding.settlements, venues=wanted.venues)
        symbols = [str(symbol) for symbol in rates.panel["symbol"].values]
        what = "funding rates of the last year"
        table = self._fetch_once(what, lambda: fetch(symbols, start, end), optional=True)
        if table is None:
            return rates
        longer = None
        if rates.settled:
            longer = self._settled(table, what)
        else:  # without the bucket that is still open, whose mean is over less than 8 hours
            table = table[table["time"] + pd.Timedelta(8, "h") <= end]
            if table["time"].nunique() > 1:
                longer = Rates(panel(table), table, settled=False)
        if longer is None:
            return rates
        labels = {dim: rates.panel[dim].values for dim in ("symbol", "exchange")}
        return longer._replace(panel=longer.panel.reindex(labels))

    def settlements(self) -> pd.DataFrame | None:
        """Return table ``funding_settlements`` of all symbols."""
        wanted = self.report_options
        fetch = partial(funding.settlements, venues=wanted.venues)
        return self._fetch_once("funding settlements", lambda: self._of_known_symbols(fetch))

    def funding_now(self) -> pd.DataFrame | None:
        """Return table ``funding_snapshot`` for the report's symbols and venues; every key may read it."""
        frame = self._fetch_once("funding rates now", funding.snapshot, optional=True)
        if frame is None:
            return None
        rows = frame[frame["symbol"].isin(self.report_options.symbols)]
        if self.report_options.venues is not None:
            rows = rows[rows["exchange"].isin(self.report_options.venues)]
        if rows.empty:
            return None
        return rows

    def oi(self, symbol: str) -> pd.DataFrame | None:
        """Return table ``oi_history`` of one symbol."""
        wanted = self.report_options
        fetch = partial(
            oi.history, symbol, *wanted.window, venues=wanted.venues, resolution=wanted.resolution
        )
        return self._fetch_once(f"open interest of {symbol}", fetch)

    def oi_exchanges(self) -> pd.DataFrame | None:
        """Return table ``oi_exchanges``."""
        return self._fetch_once("open interest by venue", oi.exchanges)

    def price(self, symbol: str, at: np.datetime64) -> float:
        """Return the symbol's price at a time [USD]; NaN if the source has no price within two hours.

        The API does not have a history of prices. The underlying price next to at-the-money volatility is
        used instead: of the nearest expiry, on the first venue with options.
        """
        time = pd.Timestamp(at, tz="UTC")
        frame = self.atm(symbol)
        if frame is None:
            return float("nan")
        priced = frame.dropna(subset="underlying_price").sort_values(["time", "expiry"])
        distance = (priced["time"] - time).abs().reset_index(drop=True)
        if not len(distance) or distance.min() > _PRICE_TOLERANCE:
            return float("nan")
        return float(priced["underlying_price"].iloc[distance.idxmin()])

    def atm(self, symbol: str) -> pd.DataFrame | None:
        """Return table ``options_atm_history`` of the first venue that has it."""
        for venue in self.option_venues(symbol):
            fetch = partial(options.atm_history, symbol, venue, *self.report_options.window)
            frame = self._fetch_once(f"prices of {symbol}, {venue}", fetch, optional=True)
            if frame is not None:
                return frame
        return None

    def prices(self, symbol: str) -> pd.DataFrame | None:
        """Return table ``prices_history`` of marks of the largest venues, from a week before the window on.

        The extra week gives weekly volatility values from the window's start on.
        """
        wanted = self.report_options
        venues = wanted.venues
        open_interest = self.oi(symbol)
        if open_interest is not None:
            last = open_interest.sort_values("time").groupby("exchange", observed=True)["oi_usd"].last()
            venues = tuple(map(str, last.nlargest(_PRICED).index))
        fetch = partial(
            prices.history,
            symbol,
            wanted.window.start - _BEFORE,
            wanted.window.end,
            venues=venues,
            resolution=wanted.resolution,
        )
        return self._fetch_once(f"prices of {symbol}", fetch, optional=True)

    def past_marks(self, symbols: list[str], venues: list[str]) -> pd.DataFrame | None:
        """Return table ``prices_history`` of the last year, or of the window if that is longer."""
        window = self.report_options.window
        start = min(window.start, window.end - _PAST)
        fetch = partial(prices.history, symbols, start, window.end, venues=venues, resolution="8h")
        return self._fetch_once("marks of the widest pairs", fetch, optional=True)

    def liquidations(self) -> pd.DataFrame | None:
        """Return table ``liquidations_events`` of the window, but at most of the last week."""
        wanted = self.report_options
        fetch = partial(
            liquidations.events,
            since=self.liquidations_start,
            limit=EVENTS,
            symbols=wanted.symbols,
            venues=wanted.venues,
        )
        return self._fetch_once("liquidations", fetch)

    @property
    def liquidations_start(self) -> pd.Timestamp:
        """Start of the window of liquidations."""
        window = self.report_options.window
        return max(window.start, window.end - pd.Timedelta(_LIQUIDATION_DAYS, "D"))

    def option_venues(self, symbol: str) -> list[str]:
        """Return the venues that may list options on a symbol."""
        listed = list(endpoints.OPTIONS_MATRIX.get(symbol, ()))
        venues = self.report_options.venues
        if venues is None:
            return listed
        return [venue for venue in listed if venue in venues]

    def options(self, symbol: str, venue: str) -> pd.DataFrame | None:
        """Return the usable rows of ``options_snapshot`` (`chain.clean`), of the report's expiries."""
        what = f"options on {symbol}, {venue}"
        if what in self._chains:
            return self._chains[what]
        self._chains[what] = None
        try:
            snapshot = self._fetch_once(what, partial(options.snapshot, symbol, venue))
        except SchemaError as problem:  # an unreadable chain of one venue does not end the report
            self.missing[what] = f"The {what}, cannot be used: {problem}."
            self._symbols.add(symbol)
            return None
        if snapshot is not None:
            self._chains[what] = self._cleaned(what, snapshot)
        return self._chains[what]

    def _cleaned(self, what: str, snapshot: pd.DataFrame) -> pd.DataFrame | None:
        """Return the usable rows of a chain; None, with a note in `missing`, if there are none."""
        days = self.report_options.expiries
        if days:
            snapshot = snapshot[snapshot["expiry"].dt.normalize().isin(days)]
        if snapshot.empty:
            self.missing[what] = f"No {what}, expire on the selected days."
            return None
        try:
            return chain.clean(snapshot.reset_index(drop=True))
        except ValueError as problem:
            self.missing[what] = f"The {what}, cannot be used: {problem}."
            return None

    def quotes(self, symbol: str, venue: str) -> xr.Dataset:
        """Return the out-of-the-money options of a venue over log-moneyness; it must have `options`."""
        if (symbol, venue) not in self._quotes:
            self._quotes[symbol, venue] = chain.smiles(self.options(symbol, venue))
        return self._quotes[symbol, venue]

    def has_quotes(self, symbol: str, venue: str) -> bool:
        """Return whether `quotes` of a venue were computed."""
        return (symbol, venue) in self._quotes

    def missing_words(self) -> str:
        """Return a short sentence about missing tables."""
        names = list(self.missing)
        words = f"Missing: {', '.join(names[:2])}"
        if len(names) > 2:
            words += f" and {len(names) - 2} more"
        return words

    def surfaces(self, symbol: str, venue: str) -> xr.Dataset | None:
        """Return up to `_SURFACES` surfaces over at most the last month of the window."""
        window = self.report_options.window
        what = f"option surfaces over time on {symbol}, {venue}"
        start = max(window.start, window.end - _SURFACE_DAYS)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DataNotice)  # the section on provenance lists it
                history = options.surface_history(symbol, venue, start, window.end)
        except (*_LACKS, NotRecorded) as problem:
            self.missing[what] = f"No {what}: {problem}."
            return None
        self.fetched.append(FetchedTable(what, provenance(history)))
        if history.sizes["time"] < 2:
            self.missing[what] = f"The source has no {what} for this window."
            return None
        step = -(-history.sizes["time"] // _SURFACES)
        return history.isel(time=slice((history.sizes["time"] - 1) % step, None, step))

    def metrics(self, symbol: str, venue: str) -> pd.DataFrame | None:
        """Return table ``options_metrics``."""
        fetch = partial(options.metrics, symbol, venue)
        return self._fetch_once(f"options a day ago on {symbol}, {venue}", fetch)

    def _of_known_symbols(self, fetch: Callable[..., pd.DataFrame]) -> pd.DataFrame:
        """Return the rows of the symbols that the source has; raise `NotFound` if it has none of them."""
        wanted = self.report_options
        try:
            return fetch(wanted.symbols, *wanted.window)
        except NotFound:
            frames = []
            for symbol in wanted.symbols:
                with suppress(NotFound):
                    frames.append(fetch(symbol, *wanted.window))
            if not frames:
                raise
            return concat(frames)

    def _fetch_once(
        self, what: str, fetch: Callable[[], pd.DataFrame], *, optional: bool = False
    ) -> pd.DataFrame | None:
        """Return a table, fetched on first use; None if the source does not have it.

        An `optional` table may also be missing in a recording, such as in recordings of earlier versions. Its
        notices are only in the section on provenance.
        """
        if what in self._tables:
            return self._tables[what]
        self._tables[what] = None
        lacks: tuple[type[Exception], ...] = _LACKS
        if optional:
            lacks = (*_LACKS, NotRecorded)
        try:
            with warnings.catch_warnings():
                if optional:
                    warnings.simplefilter("ignore", DataNotice)
                frame = fetch()
        except lacks as problem:
            self.missing[what] = f"No {what}: {problem}."
            return None
        self.fetched.append(FetchedTable(what, provenance(frame)))
        if frame.empty:
            self.missing[what] = f"The source has no {what} for this window."
            return None
        if "symbol" in frame.columns and what != "list of symbols":
            self._symbols |= set(map(str, frame["symbol"].unique())) & set(self.report_options.symbols)
        self._tables[what] = frame
        return frame


def _summed(paid: pd.DataFrame) -> xr.DataArray:
    """Sum settlements over 8 hours, with timestamps rounded to the minute unless this makes duplicates."""
    rounded = paid.assign(time=paid["time"].dt.round("min"))
    if rounded.duplicated(["symbol", "exchange", "time"]).any():
        rounded = paid
    sums = period_sums(rounded, overlap="nan")["funding_bps"].dropna("time", how="all")
    rates: xr.DataArray = sums.rename("rate_bps_8h").assign_coords(interval_hours=8.0)
    return rates.assign_attrs(units=RATE_UNIT, kind="settled")
