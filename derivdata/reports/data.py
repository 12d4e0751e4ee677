"""The report's data: each table asked for once, and why there is none where there is none."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import pandas as pd

from derivdata import api, tables
from derivdata.analysis import chain
from derivdata.errors import BadRequest, NotFound, TierError
from derivdata.fetch import funding, liquidations, oi, options
from derivdata.reports.report_options import ReportOptions

__all__ = ["EVENTS", "Data", "Seen"]

EVENTS = 20_000
"""Most liquidation orders that are asked for."""

_LACKS = (BadRequest, NotFound, TierError)
"""What says that a source has not got something; every other error ends the report."""

_LIQUIDATION_DAYS = 7


class Seen(NamedTuple):
    """What an answered request left behind."""

    what: str
    said: dict[str, Any]


class Data:
    """Tables of one report, fetched when first asked for.

    Attributes
    ----------
    seen
        Provenance of all that was fetched, in order.
    lacks
        What the source has not got, and why.
    """

    def __init__(self, report_options: ReportOptions) -> None:
        self.report_options = report_options
        self.seen: list[Seen] = []
        self.lacks: dict[str, str] = {}
        self._held: dict[str, pd.DataFrame | None] = {}
        self._used: dict[str, pd.DataFrame | None] = {}

    def funding(self) -> pd.DataFrame | None:
        """Table ``funding_history`` of all symbols."""
        return self._history("funding rates", funding.history, self.report_options.symbols)

    def settlements(self) -> pd.DataFrame | None:
        """Table ``funding_settlements`` of all symbols."""
        a = self.report_options
        fetch = partial(funding.settlements, a.symbols, *a.window, exchanges=a.venues)
        return self._got("funding settlements", fetch)

    def oi(self, symbol: str) -> pd.DataFrame | None:
        """Table ``oi_history`` of one symbol."""
        return self._history(f"open interest of {symbol}", oi.history, symbol)

    def oi_exchanges(self) -> pd.DataFrame | None:
        """Table ``oi_exchanges``."""
        return self._got("open interest by venue", oi.exchanges)

    def liquidations(self) -> pd.DataFrame | None:
        """Table ``liquidations_events`` of the last week at most."""
        a = self.report_options
        fetch = partial(
            liquidations.events,
            since=self.liquidated_since,
            limit=EVENTS,
            symbols=a.symbols,
            exchanges=a.venues,
        )
        return self._got("liquidations", fetch)

    @property
    def liquidated_since(self) -> pd.Timestamp:
        """From when on liquidations are asked for."""
        window = self.report_options.window
        return max(window.start, window.end - pd.Timedelta(_LIQUIDATION_DAYS, "D"))

    def option_venues(self, symbol: str) -> list[str]:
        """Venues that may list options on a symbol."""
        listed = api.OPTIONS_MATRIX.get(symbol, ())
        return [v for v in listed if self.report_options.venues is None or v in self.report_options.venues]

    def options(self, symbol: str, venue: str) -> pd.DataFrame | None:
        """What can be used of ``options_snapshot``, of the expiries asked for (`chain.clean`)."""
        what = f"options on {symbol}, {venue}"
        if what not in self._used:
            whole = self._got(what, partial(options.snapshot, symbol, venue))
            self._used[what] = None if whole is None else self._cleaned(what, whole)
        return self._used[what]

    def _cleaned(self, what: str, whole: pd.DataFrame) -> pd.DataFrame | None:
        days = self.report_options.expiries
        kept = whole[whole["expiry"].dt.normalize().isin(days)] if days else whole
        if kept.empty:
            self.lacks[what] = f"No {what}, expire on the days asked for."
            return None
        try:
            return chain.clean(kept.reset_index(drop=True))
        except ValueError as problem:
            self.lacks[what] = f"The {what}, cannot be used: {problem}."
            return None

    def metrics(self, symbol: str, venue: str) -> pd.DataFrame | None:
        """Table ``options_metrics``."""
        return self._got(f"options a day ago on {symbol}, {venue}", partial(options.metrics, symbol, venue))

    def _history(self, what: str, fetch: Callable[..., pd.DataFrame], symbols: Any) -> pd.DataFrame | None:
        a = self.report_options
        return self._got(
            what, partial(fetch, symbols, *a.window, exchanges=a.venues, resolution=a.resolution)
        )

    def _got(self, what: str, fetch: Callable[[], pd.DataFrame]) -> pd.DataFrame | None:
        if what not in self._held:
            self._held[what] = self._asked_for(what, fetch)
        return self._held[what]

    def _asked_for(self, what: str, fetch: Callable[[], pd.DataFrame]) -> pd.DataFrame | None:
        try:
            frame = fetch()
        except _LACKS as problem:
            self.lacks[what] = f"No {what}: {problem}."
            return None
        self.seen.append(Seen(what, tables.provenance(frame)))
        if frame.empty:
            self.lacks[what] = f"The source has no {what} for this window."
            return None
        return frame
