"""The options of a report: symbols, window, venues, costs, expiries and sections."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pandas as pd

from derivdata.support import times
from derivdata.support.text import did_you_mean

SECTIONS = ("funding", "carry", "oi", "options", "liquidations", "quality")
"""Sections that can be selected. Summary and provenance are always included."""

FEE_BPS = 5.0
"""Default cost of one trade [bps]: a usual taker fee of the first tier."""

OTHERS = "others"
_STEPS: tuple[tuple[int, times.Resolution], ...] = ((45, "1h"), (180, "4h"), (400, "8h"))

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
    def resolution(self) -> times.Resolution:
        """Step of the histories, finer for shorter windows."""
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
        `symbols` is empty, the window is not a lookback, a section is unknown, or a fee is not a cost in bps.
    """
    names = (symbols,) if isinstance(symbols, str) else tuple(symbols)
    if not names:
        raise ValueError("symbols must be at least one symbol, got none")
    if times.lookback(window) is None:
        raise ValueError(f"window must be a lookback such as '30d', got {window!r}")
    requested = SECTIONS if sections is None else tuple(sections)
    unknown = [name for name in requested if name not in SECTIONS]
    if unknown or not requested:
        near = did_you_mean(unknown[0], SECTIONS) if unknown else ""
        got = repr(unknown[0]) if unknown else "none"
        raise ValueError(f"sections must be among {', '.join(SECTIONS)}, got {got}{near}")
    venue_list = (venues,) if isinstance(venues, str) else venues
    return ReportOptions(
        symbols=names,
        window=times.window(window),
        venues=None if venue_list is None else tuple(venue_list),
        fee_bps=_fees(fee_bps),
        given=fee_bps is not None,
        expiries=tuple(times.instant(expiry, "expiries").normalize() for expiry in expiries or ()),
        sections=tuple(name for name in SECTIONS if name in requested),
        source_text=source_text,
    )


def _fees(fee_bps: Fees | None) -> Mapping[str, float]:
    """Return the costs by venue, with the cost of all others."""
    if isinstance(fee_bps, Mapping):
        by_venue = {OTHERS: FEE_BPS} | dict(fee_bps)
    else:
        by_venue = {OTHERS: FEE_BPS if fee_bps is None else float(fee_bps)}
    for venue, fee in by_venue.items():
        if not 0.0 <= fee <= 1000.0:
            raise ValueError(f"fee_bps for {venue} must be from 0 to 1000 bps of one trade, got {fee!r}")
    return by_venue
