"""The options of a report: symbols, window, venues, costs, expiries and sections."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pandas as pd

from derivdata.support import times
from derivdata.support.text import did_you_mean

SECTIONS = ("funding", "carry", "oi", "options", "liquidations", "quality")
"""Sections to choose from; summary and provenance are always there."""

FEE_BPS = 5.0
"""Assumed cost of one trade where none is given [bps]: a usual taker fee of the first tier."""

OTHERS = "others"
_STEPS: tuple[tuple[int, times.Resolution], ...] = ((45, "1h"), (180, "4h"), (400, "8h"))

Fees = float | Mapping[str, float]


@dataclass(frozen=True)
class ReportOptions:
    """Symbols, window, venues, costs and sections of one report.

    Attributes
    ----------
    fee_bps
        Cost of one trade [bps] by venue, that of all ``others`` included.
    given
        Whether the caller gave the costs.
    expiries
        Days of expiry of the options to report on; empty is all.
    source_text
        Who made the data, in the caller's words; None is what the source calls itself.
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
    def resolution(self) -> times.Resolution:
        """Step of the histories: finer for shorter windows."""
        days = (self.window.end - self.window.start) / pd.Timedelta(1, "D")
        return next((step for longest, step in _STEPS if days <= longest), "1d")


def parse_options(
    symbols: str | Sequence[str],
    *,
    window: str,
    venues: str | Sequence[str] | None,
    fee_bps: Fees | None,
    expiries: Sequence[times.Instant] | None,
    sections: Sequence[str] | None,
    source_text: str | None = None,
) -> ReportOptions:
    """Check the arguments of a report and resolve their defaults.

    Raises
    ------
    ValueError, TypeError
        No symbol, a window that is not a lookback, an unknown section, a fee that is not a cost in bps.
    """
    names = (symbols,) if isinstance(symbols, str) else tuple(symbols)
    if not names:
        raise ValueError("symbols must name at least one")
    if times.lookback(window) is None:
        raise ValueError(f"window={window!r} is not a lookback such as '30d'")
    chosen = SECTIONS if sections is None else tuple(sections)
    unknown = [s for s in chosen if s not in SECTIONS]
    if unknown or not chosen:
        near = did_you_mean(unknown[0], SECTIONS) if unknown else ""
        raise ValueError(f"sections: {unknown[:1] or 'none'} is not of {', '.join(SECTIONS)}{near}")
    chosen_venues = (venues,) if isinstance(venues, str) else venues
    return ReportOptions(
        symbols=names,
        window=times.window(window),
        venues=None if chosen_venues is None else tuple(chosen_venues),
        fee_bps=_fees(fee_bps),
        given=fee_bps is not None,
        expiries=tuple(times.instant(e, "expiries").normalize() for e in expiries or ()),
        sections=tuple(s for s in SECTIONS if s in chosen),
        source_text=source_text,
    )


def _fees(fee_bps: Fees | None) -> Mapping[str, float]:
    by_venue = (
        dict(fee_bps)
        if isinstance(fee_bps, Mapping)
        else {OTHERS: FEE_BPS if fee_bps is None else float(fee_bps)}
    )
    by_venue.setdefault(OTHERS, FEE_BPS)
    for venue, fee in by_venue.items():
        if not 0.0 <= fee <= 1000.0:
            raise ValueError(f"fee_bps: {fee!r} for {venue} is not a cost of one trade in bps")
    return by_venue
