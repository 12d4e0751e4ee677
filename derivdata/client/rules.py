"""The relations that an answer must keep with its request and within itself: one table, and its checker.

``docs/checked-answers.md`` says what each of the `RULES` compares. A rule looks at a `CheckedAnswer`: the
request, what the answer says of itself, and the columns of its table. It yields a sentence for each breach,
which names both sides; a rule about rows that do no harm removes them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Literal

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from derivdata.client.instrument_names import read_names
from derivdata.client.reading import DAY_US, HOUR_US, CheckedAnswer
from derivdata.errors import SchemaError
from derivdata.support import times
from derivdata.support.arrays import Array
from derivdata.tables import COLUMNS, endpoints
from derivdata.tables.contracts import contract

__all__ = ["RULES", "Rule", "check"]


@dataclass(frozen=True)
class Rule:
    """One rule.

    Attributes
    ----------
    outcome
        ``"error"``: a breach is a `SchemaError`. ``"notice"``: the table comes with a `DataNotice`.
    breaches
        Yields a sentence for each breach, which names both sides.
    column
        A typed table without this column cannot break the rule; empty where it looks at other things.
    """

    name: str
    outcome: Literal["error", "notice"]
    breaches: Callable[[CheckedAnswer], Iterator[str]]
    column: str = ""


def check(answer: CheckedAnswer) -> list[str]:
    """Check an answer against every rule, and return what is unlikely about it.

    Raises
    ------
    SchemaError
        The answer breaks a rule whose outcome is an error; the message shows both sides.
    """
    notices: list[str] = []
    path = answer.answer.request.path
    for rule in RULES:
        if answer.table is not None and rule.column and rule.column not in answer.columns:
            continue
        for breach in rule.breaches(answer):
            if rule.outcome == "error":
                raise SchemaError(f"{path}: {breach}; see the answer with dd.raw({path!r}, ...)")
            notices.append(breach)
    return notices


_SHARES_TOLERANCE = 0.02
"""How far rounded market shares may be beyond 1, alone or added up."""

_MOST = {
    "interval_hours": (168.0, "a week"),
    "market_share": (1 + _SHARES_TOLERANCE, "shares are fractions from 0 to 1"),
}
"""The largest figure that is possible, and what it is."""

_COUNTED = re.compile(r"(.*_)?(volume|oi|contracts|count|trades|open|high|low|close|users|traders)(_usd)?")
"""Names of fields that count something, in payloads that no document describes."""


def _impossible(e: CheckedAnswer) -> Iterator[str]:
    for name, values in e.columns.items():
        column = None if e.table is None else e.table.columns.get(name, COLUMNS.get(name))
        positive = name == "interval_hours" or (column is not None and column.positive)
        least = None if column is None else column.least
        if positive or (
            column is None and _COUNTED.fullmatch(name) and getattr(values, "dtype", None) == np.float64
        ):
            least = least or 0.0
        most, is_most = _MOST.get(name, (np.inf, ""))
        numbers = None if least is None and not is_most else e.numbers(name)
        if numbers is None:
            continue
        if least is not None and (numbers < least).any():
            yield f"{name} is {np.nanmin(numbers):g}; it cannot be below {least:g}"
        elif positive and (numbers == 0.0).any():
            yield f"{name} is 0; it must be above 0"
        elif (numbers > most).any():
            yield f"{name} is {np.nanmax(numbers):g}; it cannot be above {most:g}: {is_most}"


def _book_prices(e: CheckedAnswer, side: str) -> Array:
    """Return the prices of a book's side as the answer lists them; none where it is no book."""
    if "level" not in e.columns:
        return np.empty(0)
    prices = np.asarray(e.columns["price_usd"], dtype=np.float64)
    return np.asarray(prices[np.asarray(e.columns["side"] == side)])


def _unsorted(e: CheckedAnswer) -> Iterator[str]:
    for side, sign in (("bid", -1.0), ("ask", 1.0)):
        if (np.diff(sign * _book_prices(e, side)) < 0).any():
            yield f"the {side}s are not sorted from the best price"


def _crossed(e: CheckedAnswer) -> Iterator[str]:
    bids, asks = _book_prices(e, "bid"), _book_prices(e, "ask")
    if bids.size and asks.size and bids[0] >= asks[0]:
        yield f"the book is crossed: the best bid is {bids[0]:g}, the best ask {asks[0]:g}"


_NAMED = {
    "symbol": ("symbol",),
    "exchange": ("exchange",),
    "exchanges": ("exchanges_filter", "exchange"),
    "dex": ("dex", "dex_name"),
    "coin": ("coin",),
    "outcome_id": ("outcome_id",),
    "venue": ("venue",),
    "interval": ("interval",),
    "group_by": ("group_by",),
    "kind": ("kind",),
    "window_days": ("window_days",),
}
"""Fields in which an answer repeats a parameter, beside its rows and, where it names a subject, in them."""


def _other_subject(e: CheckedAnswer) -> Iterator[str]:
    lists = {p.name for p in e.endpoint.params if p.kind is endpoints.ParamKind.LIST} if e.endpoint else set()
    for name in (one for one in _NAMED if one in e.requested):
        requested = e.requested[name]
        for echo in map(e.stated.get, _NAMED[name]):
            if isinstance(echo, list | tuple) and set(map(str, echo)) != set(requested.split(",")):
                yield f"asked for {name} {requested!r}, the answer is about {','.join(map(str, echo))!r}"
            elif isinstance(echo, str | int) and name not in lists and str(echo) != requested:
                yield f"asked for {name} {requested!r}, the answer is about {echo!r}"
        rows = {word for field in _NAMED[name] for word in e.words.get(field, ())}
        if others := sorted(rows - e.requested_names.get(name, rows)):
            yield f"asked for {name} {requested!r}, rows are of {', '.join(others[:5])}"
    if excluded := sorted(
        e.requested_names.get("exclude_symbol", frozenset()) & {*e.words.get("symbol", ())}
    ):
        yield f"asked to leave out {e.requested['exclude_symbol']}, rows are of {', '.join(excluded)}"


def _other_exchange(e: CheckedAnswer) -> Iterator[str]:
    """Compare the exchanges behind assets, which answers name in three ways."""
    requested = {name.casefold() for name in e.requested_names.get("exchange", ())}
    if not requested or "exchange_id" not in e.columns:
        return
    columns = [e.columns[name] for name in ("exchange_id", "short_name", "mic")]
    others = {
        str(names[0])
        for names in zip(*columns, strict=True)
        if not any(isinstance(name, str) and name.casefold() in requested for name in names)
    }
    if others:
        listed = ", ".join(sorted(others)[:5])
        yield f"asked for exchange {e.requested['exchange']}, rows are of {listed}"


def _spelled_twice(e: CheckedAnswer) -> Iterator[str]:
    """Refuse two spellings of one venue, whose rows would count twice in totals."""
    spellings: dict[str, str] = {}
    for venue in e.words.get("exchange", ()):
        other = spellings.setdefault(venue.strip().casefold(), venue)
        if other != venue:
            yield f"one venue stands twice, as {other!r} and as {venue!r}"


_CLAMP = re.compile(r"clamp|limit|cap|cut|rais|reduc|short|trunc|restrict|cover|floor|adjust", re.IGNORECASE)
"""Words of notices about a shortened range; the document does not give their text."""


def _other_range(e: CheckedAnswer) -> Iterator[str]:
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


_UNITS = frozenset(
    "usd bps_8h bps bps_1h percent pct % fraction decimal ratio coin coins base contracts native".split()
)
"""Words for units that are understood, so that one of them in place of another is a contradiction."""


def _other_unit(e: CheckedAnswer, *, known: bool) -> Iterator[str]:
    unit, expected = e.stated.get("unit"), e.endpoint.unit if e.endpoint else ""
    if not expected or not isinstance(unit, str) or unit.lower() == expected:
        return
    if (unit.lower() in _UNITS) is known:
        taken = "" if known else f", which is not known: taken as {expected!r}"
        yield f"figures are in {expected!r} by the document, the answer says {unit!r}{taken}"


def _other_resolution(e: CheckedAnswer) -> Iterator[str]:
    if e.endpoint and e.endpoint.states_resolution and e.stated.get("resolution") in (None, "unstated", ""):
        yield "the document promises the resolution that was used, the answer names none"
    elif e.coarseness < 0:
        yield f"asked for resolution {e.requested['resolution']!r}, the answer has {e.stated['resolution']!r}"


def _coarser(e: CheckedAnswer) -> Iterator[str]:
    if e.coarseness > 0:
        yield f"asked for resolution {e.requested['resolution']!r}, the answer has {e.stated['resolution']!r}"


def _option_names(e: CheckedAnswer) -> Iterator[str]:
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


def _spacing(e: CheckedAnswer, *, apart: float) -> Iterator[str]:
    """Compare each venue's interval with the time between its payments: their ratio may be below a number.

    Minutes taken for hours are 60 times apart.
    """
    hours, stamps = e.numbers("interval_hours"), e.micros("time")
    if hours is None or stamps is None or "settled" not in e.words.get("kind", ()) or stamps.size < 3:
        return
    frame = pd.DataFrame({"venue": e.columns["exchange"], "at": stamps, "hours": hours})
    frame = frame.sort_values(["venue", "at"])
    frame["apart"] = frame.groupby("venue", observed=True)["at"].diff() / HOUR_US
    medians = frame.dropna().groupby("venue", observed=True)[["apart", "hours"]].median()
    for venue, row in medians.iterrows():
        if not 1 / apart < row["apart"] / row["hours"] < apart:
            yield (
                f"payments of {venue} are {row['apart']:g} hours apart, the answer says that each is for "
                f"{row['hours']:g} hours"
            )


def _raw_rates(e: CheckedAnswer) -> Iterator[str]:
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


def _other_window(e: CheckedAnswer) -> Iterator[str]:
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


def _edge(e: CheckedAnswer) -> Iterator[str]:
    stamps = getattr(e.columns.get("time"), "asi8", None)
    if stamps is None or e.window_us is None:
        return
    inside = (stamps >= e.window_us[0]) & (stamps < e.window_us[1])
    if not inside.all():
        e.keep(inside)
        yield f"{int((~inside).sum())} rows at the edges of the window were dropped: it is half-open"


_DATE_LETTERS = len("2026-07-03")


def _dated_expiry(e: CheckedAnswer) -> Iterator[str]:
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


def _beyond_limit(e: CheckedAnswer) -> Iterator[str]:
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


_LATE_US = 600_000_000


def _old(e: CheckedAnswer) -> Iterator[str]:
    stated = e.stated.get("timestamp")
    if not isinstance(stated, str) or e.answer.as_of is pd.NaT:
        return
    late = times.us(e.answer.as_of) - int(times.micros([stated])[0])
    if abs(late) > _LATE_US:
        apart = f"{abs(late) / HOUR_US:.1f} hours {'before' if late > 0 else 'after'} its Date"
        yield f"the answer's own time is {stated}, {apart}"


_HIGH_RATE_BPS = 400.0


def _high_rates(e: CheckedAnswer) -> Iterator[str]:
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


def _sum_of_shares(e: CheckedAnswer) -> Iterator[str]:
    fractions = e.numbers("market_share")
    if fractions is None or not fractions.size or np.isnan(fractions).any():
        return
    if abs(fractions.sum() - 1) > _SHARES_TOLERANCE:
        yield f"market shares add up to {fractions.sum():.3f}, not to 1"


def _expired(e: CheckedAnswer) -> Iterator[str]:
    expiries, stamps = e.micros("expiry"), e.micros("time")
    if expiries is None or stamps is None or "instrument_name" not in e.columns:
        return
    count = int((expiries < stamps - DAY_US).sum())
    if count:
        yield f"{count} instruments expired more than a day before the answer"


RULES = (
    Rule("impossible figure", "error", _impossible),
    Rule("unsorted book", "error", _unsorted, "level"),
    Rule("another subject", "error", _other_subject),
    Rule("another exchange", "error", _other_exchange, "exchange_id"),
    Rule("another range", "error", _other_range),
    Rule("one venue twice", "error", _spelled_twice, "exchange"),
    Rule("another unit", "error", partial(_other_unit, known=True)),
    Rule("another resolution", "error", _other_resolution),
    Rule("name against option", "error", _option_names, "instrument_name"),
    Rule("interval against spacing", "error", partial(_spacing, apart=20.0), "interval_hours"),
    Rule("raw rate against rate", "error", _raw_rates, "rate_native"),
    Rule("another window", "error", _other_window),
    Rule("date as expiry", "notice", _dated_expiry, "expiry"),
    Rule("unlikely spacing", "notice", partial(_spacing, apart=1.9), "interval_hours"),
    Rule("edge of the window", "notice", _edge),
    Rule("coarser resolution", "notice", _coarser),
    Rule("unknown unit", "notice", partial(_other_unit, known=False)),
    Rule("more than the limit", "notice", _beyond_limit),
    Rule("crossed book", "notice", _crossed, "level"),
    Rule("old snapshot", "notice", _old),
    Rule("high rate", "notice", _high_rates, "rate_bps_8h"),
    Rule("shares that do not add up", "notice", _sum_of_shares, "market_share"),
    Rule("expired option", "notice", _expired, "instrument_name"),
)
"""Every rule about one answer, in the order in which they are applied.

Impossible figures come first: a negative interval is not worth a comparison with the time between payments.
"""
