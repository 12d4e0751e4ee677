"""The rules that an answer must keep: impossible figures, contradictions, and what is unlikely.

``docs/checked-answers.md`` is their table. A rule looks at a `CheckedAnswer`: the request, what the answer
says of itself, and the columns of its table. It yields a sentence for each breach, which names both sides. A
breach of a rule whose `outcome` is ``"error"`` is a `SchemaError`; any other is a `DataNotice`, and the table
comes, without the rows that the rule removed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from derivdata.client.instrument_names import read_names
from derivdata.client.reading import DAY_US, HOUR_US, CheckedAnswer
from derivdata.support import times
from derivdata.support.arrays import Array
from derivdata.tables import COLUMNS, endpoints
from derivdata.tables.contracts import contract

__all__ = ["RULES", "Rule"]


@dataclass(frozen=True)
class Rule:
    """One rule.

    Attributes
    ----------
    compares
        What is compared with what, for the docs.
    outcome
        ``"error"``: a breach is a `SchemaError`. ``"notice"``: the table comes with a `DataNotice`.
    check
        Yields a sentence for each breach, which names both sides.
    columns
        The columns that the rule looks at: a table without any of them cannot break it. Empty where it looks
        at other things. A table without fixed columns is always checked.
    """

    name: str
    compares: str
    outcome: Literal["error", "notice"]
    check: Callable[[CheckedAnswer], Iterator[str]]
    columns: frozenset[str] = frozenset()


def rule(
    name: str, compares: str, outcome: Literal["error", "notice"], *, columns: str = ""
) -> Callable[[Callable[[CheckedAnswer], Iterator[str]]], Rule]:
    """Return a decorator that makes a `Rule` of its check; `columns` are spaced names."""
    return lambda check: Rule(name, compares, outcome, check, frozenset(columns.split()))


_LONGEST_INTERVAL_HOURS = 168.0
SHARES_TOLERANCE = 0.02
"""How far rounded market shares may be beyond 1, alone or added up."""

_COUNTED = re.compile(r"(.*_)?(volume|oi|contracts|count|trades|open|high|low|close|users|traders)(_usd)?")
"""Names of fields that count something, in payloads that no document describes."""


@rule(
    "impossible figure",
    "open interest, volume, size, price, strike, volatility or count below zero; a price over time of 0",
    "error",
    columns=" ".join(name for name, column in COLUMNS.items() if column.least is not None),
)
def below_least(e: CheckedAnswer) -> Iterator[str]:
    """Compare each figure with the smallest that is possible."""
    for name in e.columns:
        column = None if e.table is None else e.table.columns.get(name, COLUMNS.get(name))
        least = _open_least(name, e.columns) if column is None else column.least
        numbers = None if least is None else e.numbers(name)
        if numbers is None:
            continue
        if (numbers < least).any():
            yield f"{name} is {np.nanmin(numbers):g}; it cannot be below {least:g}"
        elif column is not None and column.positive and (numbers == 0.0).any():
            yield f"{name} is 0; it must be above 0"


def _open_least(name: str, columns: Mapping[str, Any]) -> float | None:
    """Return the smallest number of a field that no document fixes, by its name."""
    numeric = getattr(columns[name], "dtype", None) == np.float64
    return 0.0 if numeric and _COUNTED.fullmatch(name) else None


@rule(
    "impossible interval",
    "an interval that is not above 0 or is above a week",
    "error",
    columns="interval_hours",
)
def intervals(e: CheckedAnswer) -> Iterator[str]:
    """Refuse an interval between payments that no venue has."""
    hours = e.numbers("interval_hours")
    if hours is None or not hours.size:
        return
    wrong = hours[(hours <= 0) | (hours > _LONGEST_INTERVAL_HOURS)]
    if wrong.size:
        yield f"an interval is {wrong[0]:g} hours; it must be above 0 and at most {_LONGEST_INTERVAL_HOURS:g}"


@rule("shares in percent", "market shares above 1", "error", columns="market_share")
def percent_shares(e: CheckedAnswer) -> Iterator[str]:
    """Refuse market shares in percent."""
    shares = e.numbers("market_share")
    if shares is not None and (shares > 1 + SHARES_TOLERANCE).any():
        yield f"a market share is {np.nanmax(shares):g}; the document's are fractions from 0 to 1"


@rule("unsorted book", "prices of a side, from the best", "error", columns="level")
def book_order(e: CheckedAnswer) -> Iterator[str]:
    """Refuse a side of a book whose levels are not in the order of their prices."""
    for side, sign in (("bid", -1.0), ("ask", 1.0)):
        prices = book_prices(e, side)
        if prices is not None and (np.diff(sign * prices) < 0).any():
            yield f"the {side}s are not sorted from the best price"


def book_prices(e: CheckedAnswer, side: str) -> Array | None:
    """Return the prices of a book's side as the answer lists them; None where it is no book."""
    if "level" not in e.columns:
        return None
    prices = np.asarray(e.columns["price_usd"], dtype=np.float64)
    return np.asarray(prices[np.asarray(e.columns["side"] == side)])


_ECHOES = {
    "symbol": ("symbol",),
    "exchange": ("exchange",),
    "exchanges": ("exchanges_filter",),
    "dex": ("dex", "dex_name"),
    "coin": ("coin",),
    "outcome_id": ("outcome_id",),
    "venue": ("venue",),
    "interval": ("interval",),
    "group_by": ("group_by",),
    "kind": ("kind",),
    "window_days": ("window_days",),
}
"""Fields in which an answer repeats a parameter."""

UNITS = frozenset(
    "usd bps_8h bps bps_1h percent pct % fraction decimal ratio coin coins base contracts native".split()
)
"""Words for units that are understood, so that one of them in place of another is a contradiction."""

_CLAMP = re.compile(r"clamp|limit|cap|cut|rais|reduc|short|trunc|restrict|cover|floor|adjust", re.IGNORECASE)
"""Words of notices about a shortened range; the document does not give their text."""

_SPACING_MISFIT = 20.0
"""How many times an interval may differ from the time between payments; minutes taken for hours are 60."""


@rule(
    "another subject",
    "symbol, venue, dex, coin, outcome, filter, grouping, kind of price and window length that the "
    "answer repeats, with the request's, letter by letter",
    "error",
)
def subject(e: CheckedAnswer) -> Iterator[str]:
    """Compare every parameter that the answer repeats."""
    lists = {p.name for p in e.endpoint.params if p.kind is endpoints.ParamKind.LIST} if e.endpoint else set()
    for name, fields in _ECHOES.items():
        for echo in (e.stated.get(f) for f in fields if name in e.requested):
            requested = e.requested[name]
            if isinstance(echo, list | tuple) and set(map(str, echo)) != set(requested.split(",")):
                yield f"asked for {name} {requested!r}, the answer is about {','.join(map(str, echo))!r}"
            elif isinstance(echo, str | int) and name not in lists and str(echo) != requested:
                yield f"asked for {name} {requested!r}, the answer is about {echo!r}"


@rule(
    "another range",
    "the rolling window that the answer names, with the request's; a shorter one needs a notice about it",
    "error",
)
def rolling_range(e: CheckedAnswer) -> Iterator[str]:
    """Compare the range; a shorter one may stand where a notice of the answer explains it."""
    requested = e.requested.get("range")
    used = e.stated.get("range") or e.stated.get("period")
    if used is None and isinstance(e.stated.get("days"), int):
        used = f"{e.stated['days']}d"
    if requested is None or not isinstance(used, str) or used == requested:
        return
    wanted_length, used_length = _length(requested), _length(used)
    explained = any(used in notice or _CLAMP.search(notice) for notice in e.answer.notices)
    shorter = wanted_length is not None and used_length is not None and used_length < wanted_length
    if (wanted_length is None or wanted_length != used_length) and not (shorter and explained):
        yield f"asked for range {requested!r}, the answer is about range {used!r}"


def _length(text: str) -> pd.Timedelta | None:
    """Return the length of a range, the longest there is for ``all``; None for text that is none."""
    try:
        return pd.Timedelta.max if text == "all" else times.lookback(text)
    except ValueError:  # an answer may name any number of days
        return None


@rule(
    "venues not asked for", "venues of the rows, with those that were asked for", "error", columns="exchange"
)
def venues(e: CheckedAnswer) -> Iterator[str]:
    """Compare the venues of the rows with the request's."""
    requested = e.requested_names.get("exchanges", e.requested_names.get("exchange"))
    others = sorted(set(e.words.get("exchange", ())) - requested) if requested is not None else []
    if others:
        yield f"asked for venues {', '.join(sorted(requested or ()))}, rows are of {', '.join(others[:5])}"


@rule(
    "symbols not asked for",
    "symbols of the rows, with those that were asked for or left out",
    "error",
    columns="symbol",
)
def symbols(e: CheckedAnswer) -> Iterator[str]:
    """Compare the symbols of the rows with the request's."""
    if e.table is None:
        return
    requested, excluded = (
        e.requested_names.get("symbol"),
        e.requested_names.get("exclude_symbol", frozenset()),
    )
    rows = set(e.words.get("symbol", ()))
    others = sorted(rows - requested) if requested is not None else []
    if others:
        yield f"asked for symbols {', '.join(sorted(requested or ()))}, rows are of {', '.join(others[:5])}"
    if rows & excluded:
        both = ", ".join(sorted(rows & excluded))
        yield f"asked to leave out {', '.join(sorted(excluded))}, rows are of {both}"


@rule("dexes not asked for", "dex, venue and coin of the rows, with those asked for", "error")
def dexes(e: CheckedAnswer) -> Iterator[str]:
    """Compare the subjects of rows of payloads that no document describes with the request's."""
    if e.table is not None:
        return
    for name, columns in {"dex": ("dex", "dex_name"), "venue": ("venue",), "coin": ("coin",)}.items():
        for words in (set(e.words.get(column, ())) for column in columns if name in e.requested):
            if words - {e.requested[name]}:
                yield f"asked for {name} {e.requested[name]!r}, rows are of {', '.join(sorted(words))}"


@rule(
    "exchanges not asked for",
    "id, short name and code of the exchanges behind assets, with those asked for",
    "error",
    columns="exchange_id",
)
def exchanges_behind_assets(e: CheckedAnswer) -> Iterator[str]:
    """Compare the exchanges of assets, which answers name in three ways, with the request's."""
    requested = e.requested_names.get("exchange") if "exchange_id" in e.columns else None
    if requested is None:
        return
    folded = {name.casefold() for name in requested}
    columns = [e.columns[name] for name in ("exchange_id", "short_name", "mic")]
    others = {
        str(names[0])
        for names in zip(*columns, strict=True)
        if not any(isinstance(name, str) and name.casefold() in folded for name in names)
    }
    if others:
        listed = ", ".join(sorted(others)[:5])
        yield f"asked for exchange {', '.join(sorted(requested))}, rows are of {listed}"


@rule("one venue twice", "names of venues that differ in case or blanks only", "error", columns="exchange")
def spelling(e: CheckedAnswer) -> Iterator[str]:
    """Refuse two spellings of one venue, whose rows would count twice in totals."""
    spellings: dict[str, str] = {}
    for venue in e.words.get("exchange", ()):
        other = spellings.setdefault(venue.strip().casefold(), venue)
        if other != venue:
            yield f"one venue stands twice, as {other!r} and as {venue!r}"


@rule("another unit", "a known word for the unit, with the document's", "error")
def other_unit(e: CheckedAnswer) -> Iterator[str]:
    """Compare the unit with the document's."""
    unit, expected = e.stated.get("unit"), e.endpoint.unit if e.endpoint else ""
    if expected and isinstance(unit, str) and unit.lower() != expected and unit.lower() in UNITS:
        yield f"figures are in {expected!r} by the document, the answer says {unit!r}"


@rule("no resolution", "an answer without the resolution that the document promises", "error")
def no_resolution(e: CheckedAnswer) -> Iterator[str]:
    """Refuse an answer that does not name its resolution."""
    if e.endpoint and e.endpoint.states_resolution and e.stated.get("resolution") in (None, "unstated", ""):
        yield "the document promises the resolution that was used, the answer names none"


@rule("finer resolution", "the resolution that was used, with the request's", "error")
def finer(e: CheckedAnswer) -> Iterator[str]:
    """Refuse a finer resolution: its rows are about other instants."""
    if e.coarseness < 0:
        yield f"asked for resolution {e.requested['resolution']!r}, the answer has {e.stated['resolution']!r}"


@rule(
    "name against option",
    "an option's name, with its symbol, strike, side and expiry",
    "error",
    columns="instrument_name",
)
def option_names(e: CheckedAnswer) -> Iterator[str]:
    """Compare the first option whose name and columns differ."""
    if "instrument_name" not in e.columns:
        return
    symbol = e.requested.get("symbol")
    names = np.asarray(e.columns["instrument_name"], dtype=object).tolist()
    named = read_names(tuple(names))
    days = np.asarray(e.micros("expiry"))[named.places] // DAY_US
    strikes = np.asarray(e.columns["strike"])[named.places]
    puts = np.asarray(e.columns["side"] == "put")[named.places]
    tolerances = 1e-9 * np.maximum(np.abs(strikes), 1.0)
    differing = (
        (np.zeros(days.size, dtype=bool) if symbol is None else named.bases != contract(symbol).symbol),
        (named.sides == "put") != puts,
        np.abs(named.strikes - strikes) > tolerances,
        named.days != days,
    )
    for first in np.flatnonzero(np.any(differing, axis=0))[:1]:
        name = names[named.places[first]]
        yield (
            f"asked for symbol {symbol!r}, an instrument is {name!r}",
            f"the instrument {name!r} has the side {'put' if puts[first] else 'call'!r}",
            f"the instrument {name!r} has the strike {strikes[first]:g}",
            f"the instrument {name!r} expires on {np.datetime64(int(days[first]), 'D')}",
        )[next(n for n, differs in enumerate(differing) if differs[first])]


@rule(
    "interval against spacing",
    "intervals of payments, with the time between them: 20 times apart",
    "error",
    columns="interval_hours",
)
def interval_spacing(e: CheckedAnswer) -> Iterator[str]:
    """Refuse intervals in another unit, such as minutes taken for hours."""
    for ratio, words in payment_spacings(e):
        if not 1 / _SPACING_MISFIT < ratio < _SPACING_MISFIT:
            yield words


def payment_spacings(e: CheckedAnswer) -> Iterator[tuple[float, str]]:
    """Yield the time between payments over the stated interval of each venue, and both in words."""
    hours, stamps = e.numbers("interval_hours"), e.micros("time")
    if hours is None or stamps is None or "settled" not in e.words.get("kind", ()) or stamps.size < 3:
        return
    frame = pd.DataFrame({"venue": e.columns["exchange"], "at": stamps, "hours": hours})
    frame = frame.sort_values(["venue", "at"])
    apart = frame.groupby("venue", observed=True)["at"].diff() / HOUR_US
    both = pd.DataFrame({"venue": frame["venue"], "apart": apart, "hours": frame["hours"]}).dropna()
    for venue, row in both.groupby("venue", observed=True)[["apart", "hours"]].median().iterrows():
        words = (
            f"payments of {venue} are {row['apart']:g} hours apart, the answer says that each is for "
            f"{row['hours']:g} hours"
        )
        yield row["apart"] / row["hours"], words


@rule(
    "raw rate against rate",
    "a venue's own rate, with the rate per 8 hours, by both readings of the document; provenance says "
    "which one fitted",
    "error",
    columns="rate_native",
)
def native_rates(e: CheckedAnswer) -> Iterator[str]:
    """Check the venues' own rates against both readings of the document, and convert them to one.

    Rule 4 of the document can be read as "the raw rate is bps / 10,000", which is per 8 hours, or as the
    venue's rate per interval, times 8 / interval for comparison. Both agree at 8 hours.
    """
    rates, native, hours = (e.numbers(n) for n in ("rate_bps_8h", "rate_native", "interval_hours"))
    if rates is None or native is None or hours is None or np.isnan(native).all():
        return
    both_given = ~np.isnan(rates) & ~np.isnan(native)
    slack = 0.1 + 0.01 * np.abs(rates)  # figures on the wire are rounded: 0.1 bps, or 1 % of a large rate
    per_8h = both_given & (np.abs(native * 1e4 - rates) <= slack)
    per_interval = both_given & (np.abs(native * 1e4 * 8 / hours - rates) <= slack)
    checked = both_given & ~np.isnan(hours)
    neither = np.flatnonzero(checked & ~per_8h & ~per_interval)
    if neither.size:
        n = neither[0]
        yield (
            f"{e.columns['symbol'][n]} on {e.columns['exchange'][n]} has {rates[n]:g} bps per 8 hours and "
            f"the raw rate {native[n]:g} at {hours[n]:g} hours, which agree by no reading of the document"
        )
        return
    by_8h, by_interval = int((per_8h & ~per_interval & checked).sum()), int((per_interval & ~per_8h).sum())
    reading = "per interval" if by_interval >= by_8h else "per 8 hours"
    e.facts["funding_rates_raw"] = (
        f"{reading} ({by_interval} rates fit only per interval, {by_8h} only per 8 hours)"
    )
    if by_8h:  # the column is per interval, whatever the wire is
        wire_is_8h = per_8h & ~per_interval if reading == "per interval" else ~(per_interval & ~per_8h)
        e.columns["rate_native"] = np.where(checked & wire_is_8h, native * hours / 8, native)


@rule(
    "another window",
    "times of the rows, with the window: all outside, or any by more than one bucket",
    "error",
)
def outside_window(e: CheckedAnswer) -> Iterator[str]:
    """Compare the times of the rows with the window."""
    stamps = e.micros("time")
    if stamps is None or not stamps.size or e.window_us is None:
        return
    start, end = e.window_us
    far = (stamps < start - e.step_us) | (stamps > end)
    # A service that takes `end` into the window may have nothing but the row there.
    none_inside = ((stamps < start) | (stamps >= end)).all() and not (stamps == end).all()
    if far.any() or none_inside:
        bounds = (start, end, stamps.min(), stamps.max())
        shown = [times.iso(pd.Timestamp(int(micros), unit="us", tz="UTC")) for micros in bounds]
        yield f"asked for {shown[0]} to {shown[1]}, rows are of {shown[2]} to {shown[3]}"


_LATE_US = 600_000_000
_HIGH_RATE_BPS = 400.0
_SPACING_DOUBTFUL = 1.9
"""How many times an interval may differ from the time between payments before it is worth a word."""

_DATE_LETTERS = len("2026-07-03")


@rule("date as expiry", "an expiry without a time of day; it is 08:00 UTC", "notice", columns="expiry")
def dated_expiry(e: CheckedAnswer) -> Iterator[str]:
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
def unlikely_spacing(e: CheckedAnswer) -> Iterator[str]:
    """Tell of intervals that the time between payments does not bear out."""
    for ratio, words in payment_spacings(e):
        if not 1 / _SPACING_DOUBTFUL < ratio < _SPACING_DOUBTFUL:
            yield words


@rule(
    "edge of the window", "rows up to a bucket before the window, or at its end; they are dropped", "notice"
)
def edge(e: CheckedAnswer) -> Iterator[str]:
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
def coarser(e: CheckedAnswer) -> Iterator[str]:
    """Tell of a coarser resolution than requested."""
    if e.coarseness > 0:
        yield f"asked for resolution {e.requested['resolution']!r}, the answer has {e.stated['resolution']!r}"


@rule("unknown unit", "a word for the unit that the library does not know", "notice")
def unknown_unit(e: CheckedAnswer) -> Iterator[str]:
    """Tell of a unit that is none of the known ones."""
    unit, expected = e.stated.get("unit"), e.endpoint.unit if e.endpoint else ""
    if expected and isinstance(unit, str) and unit.lower() != expected and unit.lower() not in UNITS:
        yield f"the answer names the unit {unit!r}, which is not known; taken as {expected!r}"


@rule("more than the limit", "levels, entries and symbols, with the limit; the rest is cut", "notice")
def limit(e: CheckedAnswer) -> Iterator[str]:
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
def crossed(e: CheckedAnswer) -> Iterator[str]:
    """Tell of a book whose sides overlap."""
    bids, asks = book_prices(e, "bid"), book_prices(e, "ask")
    if bids is not None and asks is not None and bids.size and asks.size and bids[0] >= asks[0]:
        yield f"the book is crossed: the best bid is {bids[0]:g}, the best ask {asks[0]:g}"


@rule("old snapshot", "the answer's own time, with its Date: more than 10 minutes apart", "notice")
def stale(e: CheckedAnswer) -> Iterator[str]:
    """Tell of a snapshot that is not of now."""
    stated = e.stated.get("timestamp")
    if not isinstance(stated, str) or e.answer.as_of is pd.NaT:
        return
    date = times.us(e.answer.as_of)
    late = date - int(times.micros([stated])[0])
    if abs(late) > _LATE_US:
        apart = f"{abs(late) / HOUR_US:.1f} hours {'before' if late > 0 else 'after'} its Date"
        yield f"the answer's own time is {stated}, {apart}"


@rule("high rate", "a funding rate beyond 4 % per interval", "notice", columns="rate_bps_8h")
def high_rates(e: CheckedAnswer) -> Iterator[str]:
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
def shares(e: CheckedAnswer) -> Iterator[str]:
    """Tell of market shares that do not add up."""
    fractions = e.numbers("market_share")
    if fractions is None or not fractions.size or np.isnan(fractions).any():
        return
    if abs(fractions.sum() - 1) > SHARES_TOLERANCE:
        yield f"market shares add up to {fractions.sum():.3f}, not to 1"


@rule("expired option", "an option's expiry, with the answer's time", "notice", columns="instrument_name")
def expired(e: CheckedAnswer) -> Iterator[str]:
    """Tell of instruments that had expired when the answer was made."""
    expiries, stamps = e.micros("expiry"), e.micros("time")
    if expiries is None or stamps is None or "instrument_name" not in e.columns:
        return
    count = int((expiries < stamps - DAY_US).sum())
    if count:
        yield f"{count} instruments expired more than a day before the answer"


RULES: tuple[Rule, ...] = tuple(value for value in globals().values() if isinstance(value, Rule))
"""Every rule about one answer, in the order in which they are applied: that in which they stand here.

Impossible figures come first: a negative interval is not worth a comparison with the time between payments.
"""
