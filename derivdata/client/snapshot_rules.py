"""Rules about snapshots of rates: all symbols of a venue, or all venues of a symbol."""

from __future__ import annotations

import warnings
from collections.abc import Iterator

import numpy as np

from derivdata.client.reading import CheckedAnswer
from derivdata.support.arrays import Array
from derivdata.tables.series_faults import mirrored_rates
from derivdata.tables.series_patterns import (
    OF_EIGHT_HOURS,
    UNITS,
    other_interest,
    rank_correlation,
    tiny_rates,
)
from derivdata.tables.venue_facts import fact_value

_FEW_VENUES = 3
_SNAPSHOT_RATES = ("rate_bps_8h", "funding_current_bps_8h")
_LEAST_OF_VENUE = 30
_LEAST_OF_SHIFT = 50
_SHIFTED = 0.35
_NOT_SHIFTED = 0.4
"""Share of the correlation with the shifted rows that the rows as they are have."""


def unlikely_snapshots(e: CheckedAnswer) -> Iterator[str]:
    """Find snapshots of rates in another unit, mirrored, constant, or of other symbols."""
    if e.table is None or not e.size:
        return
    is_history = e.window_us is not None
    for name in _SNAPSHOT_RATES:
        rates = e.numbers(name) if name in e.columns and not is_history else None
        if rates is None:
            continue
        values = rates[has_interest(e)]
        size = tiny_rates(values)
        if size is not None:
            yield tiny_text(name, size, values.size)
            return
        group = "exchange" if len(e.words.get("exchange", ())) > 1 or "symbol" in e.words else ""
        if len(e.words.get("symbol", ())) <= 1:
            group = ""  # one symbol on several venues
        codes = np.zeros(e.size, dtype=np.int64)
        if group:
            codes = np.unique(np.asarray(e.columns[group]), return_inverse=True)[1]
        yield from _rates_of_groups(e, name, rates, codes, group)
    if "interval_hours" in e.columns and not is_history:
        yield from _known_intervals(e)


def _rates_of_groups(e: CheckedAnswer, name: str, rates: Array, codes: Array, group: str) -> Iterator[str]:
    """Find the faults of all rates of one venue, or of one symbol on all venues."""
    order = np.argsort(codes, kind="stable")
    hours = e.numbers("interval_hours") if "interval_hours" in e.columns else None
    for code in np.unique(codes).tolist():
        rows = order[codes[order] == code]
        own = rates[rows]
        where = str(e.columns[group][rows[0]]) if group else "all venues"
        own = own[np.isfinite(own)]
        if own.size < _LEAST_OF_VENUE:
            continue
        if np.unique(own).size == 1 and own[0] != 0.0:
            yield f"{name} of {where} is {own[0]:g} bps for all {own.size} symbols: rows may be missing"
            return
        factor = other_interest(own, UNITS)
        if factor is None and hours is not None:
            factor = other_interest(rates[rows[hours[rows] == 8.0]], OF_EIGHT_HOURS)
        if factor is not None:
            yield interest_text(name, where, factor)
            return
        if mirrored_rates(np.zeros(own.size, dtype=np.int64), own):
            yield (
                f"{name} of {where} repeats -1 bps: the interest of the venues' formula is +1, so the sign "
                "may be mirrored"
            )
            return
    if group:
        yield from _shifted_symbols(e, name, rates, codes)


def _shifted_symbols(e: CheckedAnswer, name: str, rates: Array, codes: Array) -> Iterator[str]:
    """Find a venue whose rates are those of the next symbol, by the median of the other venues."""
    symbols, column = np.unique(np.asarray(e.columns["symbol"]), return_inverse=True)
    count = int(codes.max()) + 1
    if count <= _FEW_VENUES or symbols.size < _LEAST_OF_SHIFT:
        return
    table = np.full((count, symbols.size), np.nan)
    table[codes, column] = rates
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # symbols of one venue
        middle = np.nanmedian(table, axis=0)
    for code, own in enumerate(table):
        listed = np.flatnonzero(np.isfinite(own) & np.isfinite(middle))
        if listed.size < _LEAST_OF_SHIFT:
            continue
        values, others = own[listed], middle[listed]
        shifts = [rank_correlation(values[:-1], others[1:]), rank_correlation(values[1:], others[:-1])]
        if max(shifts) > _SHIFTED and rank_correlation(values, others) < _NOT_SHIFTED * max(shifts):
            first = np.flatnonzero(codes == code)[0]
            yield (
                f"{name} of {e.columns['exchange'][first]} has the rates of the next symbols of the list, by "
                f"the other venues (correlation {max(shifts):.2f}): rows may be shifted"
            )
            return


def _known_intervals(e: CheckedAnswer) -> Iterator[str]:
    """Compare the intervals of venues that pay each hour with the response."""
    hours = e.numbers("interval_hours")
    venues = np.asarray(e.columns["exchange"])
    for venue in e.words.get("exchange", ()):
        if hours is None or fact_value(venue, "interval_hours", "") != 1.0:
            continue
        own = hours[venues == venue]
        own = own[np.isfinite(own)]
        if own.size and float(np.median(own)) != 1.0:
            yield (
                f"interval_hours of {venue} is {np.median(own):g} for the median of {own.size} symbols, and "
                "the venue pays each hour: rows may be of another venue"
            )
            return


def has_interest(e: CheckedAnswer) -> Array:
    """Return a mask of the rows of venues whose formula has an interest.

    Deribit's has none, so all its rates of quiet days may be small. ``funding_8h`` of 2.55e-06 and 2.14e-06
    are in bodies of 2022-06-02 and 2024-07-13 (tests of crypto-msg-parser), and 2.6e-06 in ccxt 4.5.90.
    """
    if "exchange" not in e.columns:
        return np.ones(e.size, dtype=bool)
    is_other: Array = np.asarray(e.columns["exchange"]) != "deribit"
    return is_other


def tiny_text(name: str, size: float, count: int) -> str:
    """Return the sentence about rates that are too small."""
    return f"{name} is at most {size:.2g} bps in 95 % of {count} rows: the rates may be fractions or percent"


def interest_text(name: str, where: str, factor: float) -> str:
    """Return the sentence about a repeated rate that is the interest in another unit."""
    return (
        f"{name} of {where} repeats {factor:g} bps: the interest of the venues' formula is 1 bps per 8 "
        "hours, so the rates may be in another unit"
    )
