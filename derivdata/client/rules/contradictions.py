"""Rules about contradictions: the answer against the request, against the document, and against itself."""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np
import pandas as pd

from derivdata.client.reading import DAY_US, HOUR_US, Evidence
from derivdata.client.rules.definition import rule
from derivdata.client.rules.instrument_names import read_names
from derivdata.support import times
from derivdata.tables import endpoints
from derivdata.tables.contracts import contract

__all__ = ["UNITS", "payment_spacings"]

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
def subject(e: Evidence) -> Iterator[str]:
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
def rolling_range(e: Evidence) -> Iterator[str]:
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
def venues(e: Evidence) -> Iterator[str]:
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
def symbols(e: Evidence) -> Iterator[str]:
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
def dexes(e: Evidence) -> Iterator[str]:
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
def exchanges_behind_assets(e: Evidence) -> Iterator[str]:
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
def spelling(e: Evidence) -> Iterator[str]:
    """Refuse two spellings of one venue, whose rows would count twice in totals."""
    spellings: dict[str, str] = {}
    for venue in e.words.get("exchange", ()):
        other = spellings.setdefault(venue.strip().casefold(), venue)
        if other != venue:
            yield f"one venue stands twice, as {other!r} and as {venue!r}"


@rule("another unit", "a known word for the unit, with the document's", "error")
def other_unit(e: Evidence) -> Iterator[str]:
    """Compare the unit with the document's."""
    unit, expected = e.stated.get("unit"), e.endpoint.unit if e.endpoint else ""
    if expected and isinstance(unit, str) and unit.lower() != expected and unit.lower() in UNITS:
        yield f"figures are in {expected!r} by the document, the answer says {unit!r}"


@rule("no resolution", "an answer without the resolution that the document promises", "error")
def no_resolution(e: Evidence) -> Iterator[str]:
    """Refuse an answer that does not name its resolution."""
    if e.endpoint and e.endpoint.states_resolution and e.stated.get("resolution") in (None, "unstated", ""):
        yield "the document promises the resolution that was used, the answer names none"


@rule("finer resolution", "the resolution that was used, with the request's", "error")
def finer(e: Evidence) -> Iterator[str]:
    """Refuse a finer resolution: its rows are about other instants."""
    if e.coarseness < 0:
        yield f"asked for resolution {e.requested['resolution']!r}, the answer has {e.stated['resolution']!r}"


@rule(
    "name against option",
    "an option's name, with its symbol, strike, side and expiry",
    "error",
    columns="instrument_name",
)
def option_names(e: Evidence) -> Iterator[str]:
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
def interval_spacing(e: Evidence) -> Iterator[str]:
    """Refuse intervals in another unit, such as minutes taken for hours."""
    for ratio, words in payment_spacings(e):
        if not 1 / _SPACING_MISFIT < ratio < _SPACING_MISFIT:
            yield words


def payment_spacings(e: Evidence) -> Iterator[tuple[float, str]]:
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
def native_rates(e: Evidence) -> Iterator[str]:
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
def outside_window(e: Evidence) -> Iterator[str]:
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
