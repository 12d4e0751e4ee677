"""Rules about what is unlikely: the table comes with a notice, some of its rows corrected or removed."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from derivdata.client.reading import DAY_US, HOUR_US, Evidence
from derivdata.client.rules.contradictions import UNITS, payment_spacings
from derivdata.client.rules.definition import rule
from derivdata.client.rules.impossible import SHARES_TOLERANCE, book_prices
from derivdata.support import times

_LATE_US = 600_000_000
_HIGH_RATE_BPS = 400.0
_SPACING_DOUBTFUL = 1.9
"""How many times an interval may differ from the time between payments before it is worth a word."""

_DATE_LETTERS = len("2026-07-03")


@rule("date as expiry", "an expiry without a time of day; it is 08:00 UTC", "notice", columns="expiry")
def dated_expiry(e: Evidence) -> Iterator[str]:
    """Move expiries that are dates to the hour at which options expire."""
    texts = e.raw.get("expiry")
    if texts is None or "expiry" not in e.columns:
        return
    if isinstance(texts, pa.ChunkedArray):
        dates = np.asarray(pc.equal(pc.utf8_length(texts), _DATE_LETTERS).fill_null(False))
    else:
        dates = np.array([isinstance(text, str) and len(text) == _DATE_LETTERS for text in list(texts)])
    if dates.any():
        eight = np.where(dates, 8 * HOUR_US, 0).astype("timedelta64[us]")
        e.columns["expiry"] = e.columns["expiry"] + eight
        yield f"{int(dates.sum())} expiries are dates without a time of day; taken as 08:00 UTC"


@rule(
    "unlikely spacing",
    "intervals of payments, with the time between them: twice apart or more",
    "notice",
    columns="interval_hours",
)
def unlikely_spacing(e: Evidence) -> Iterator[str]:
    """Tell of intervals that the time between payments does not bear out."""
    for ratio, words in payment_spacings(e):
        if not 1 / _SPACING_DOUBTFUL < ratio < _SPACING_DOUBTFUL:
            yield words


@rule(
    "edge of the window", "rows up to a bucket before the window, or at its end; they are dropped", "notice"
)
def edge(e: Evidence) -> Iterator[str]:
    """Remove rows outside of the window, which is half-open."""
    stamps = getattr(e.columns.get("time"), "asi8", None)
    if stamps is None or e.window_us is None:
        return
    inside = (stamps >= e.window_us[0]) & (stamps < e.window_us[1])
    if not inside.all():
        count = int((~inside).sum())
        e.keep(inside)
        yield f"{count} rows at the edges of the window were dropped: it is half-open"


@rule("coarser resolution", "the resolution that was used, with the request's", "notice")
def coarser(e: Evidence) -> Iterator[str]:
    """Tell of a coarser resolution than requested."""
    if e.coarseness > 0:
        yield f"asked for resolution {e.requested['resolution']!r}, the answer has {e.stated['resolution']!r}"


@rule("unknown unit", "a word for the unit that the library does not know", "notice")
def unknown_unit(e: Evidence) -> Iterator[str]:
    """Tell of a unit that is none of the known ones."""
    unit, expected = e.stated.get("unit"), e.endpoint.unit if e.endpoint else ""
    if expected and isinstance(unit, str) and unit.lower() != expected and unit.lower() not in UNITS:
        yield f"the answer names the unit {unit!r}, which is not known; taken as {expected!r}"


@rule("more than the limit", "levels, entries and symbols, with the limit; the rest is cut", "notice")
def limit(e: Evidence) -> Iterator[str]:
    """Cut what is beyond the requested limit."""
    if "limit" not in e.requested or e.table is None:
        return
    most = int(e.requested["limit"])
    for column, words in (("level", "levels"), ("rank", "entries")):
        places = e.numbers(column)
        if places is not None and places.size and np.nanmax(places) > most:
            yield f"asked for {most} {words}, the answer holds {np.nanmax(places):g}; the others were cut"
            e.keep(~(places > most))
    symbols = e.stated.get("symbols")
    if isinstance(symbols, list) and len(symbols) > most:
        yield f"asked for {most} symbols, the answer holds {len(symbols)}; the others were cut"
        e.keep(np.asarray(pd.Series(e.columns["symbol"]).isin(symbols[:most])))
    if "order_id" in e.columns and e.size > most:
        yield f"asked for {most} orders at most, the answer holds {e.size}; all were kept"


@rule("crossed book", "the best bid, with the best ask", "notice", columns="level")
def crossed(e: Evidence) -> Iterator[str]:
    """Tell of a book whose sides overlap."""
    bids, asks = book_prices(e, "bid"), book_prices(e, "ask")
    if bids is not None and asks is not None and bids.size and asks.size and bids[0] >= asks[0]:
        yield f"the book is crossed: the best bid is {bids[0]:g}, the best ask {asks[0]:g}"


@rule("old snapshot", "the answer's own time, with its Date: more than 10 minutes apart", "notice")
def stale(e: Evidence) -> Iterator[str]:
    """Tell of a snapshot that is not of now."""
    stated = e.stated.get("timestamp")
    if not isinstance(stated, str) or e.answer.as_of is pd.NaT:
        return
    date = int(e.answer.as_of.as_unit("us").asm8.view(np.int64))
    late = date - int(times.micros([stated])[0])
    if abs(late) > _LATE_US:
        apart = f"{abs(late) / HOUR_US:.1f} hours {'before' if late > 0 else 'after'} its Date"
        yield f"the answer's own time is {stated}, {apart}"


@rule("high rate", "a funding rate beyond 4 % per interval", "notice", columns="rate_bps_8h")
def high_rates(e: Evidence) -> Iterator[str]:
    """Tell of rates that are rarely paid."""
    rates, hours = e.numbers("rate_bps_8h"), e.numbers("interval_hours")
    if rates is None or not rates.size:
        return
    paid = np.abs(rates) * (1.0 if hours is None else np.where(np.isnan(hours), 8.0, hours) / 8)
    count = int((paid > _HIGH_RATE_BPS).sum())
    if count:
        worst = int(np.nanargmax(paid))
        where = f"{e.columns['symbol'][worst]} on {e.columns['exchange'][worst]}"
        rate = f"{rates[worst]:g} bps per 8 hours, {where}"
        yield f"{count} rates are beyond 4 % per interval, the largest is {rate}"


@rule("shares that do not add up", "the sum of the market shares, with 1", "notice", columns="market_share")
def shares(e: Evidence) -> Iterator[str]:
    """Tell of market shares that do not add up."""
    fractions = e.numbers("market_share")
    if fractions is None or not fractions.size or np.isnan(fractions).any():
        return
    if abs(fractions.sum() - 1) > SHARES_TOLERANCE:
        yield f"market shares add up to {fractions.sum():.3f}, not to 1"


@rule("expired option", "an option's expiry, with the answer's time", "notice", columns="instrument_name")
def expired(e: Evidence) -> Iterator[str]:
    """Tell of instruments that had expired when the answer was made."""
    expiries, stamps = e.micros("expiry"), e.micros("time")
    if expiries is None or stamps is None or "instrument_name" not in e.columns:
        return
    count = int((expiries < stamps - DAY_US).sum())
    if count:
        yield f"{count} instruments expired more than a day before the answer"
