"""The relations that an answer must keep with its request and within itself: one table, and its checker.

``docs/methods/checked-answers.md`` says what each of the `RULES` compares. A rule looks at a `CheckedAnswer`:
the request, what the answer says of itself, and the columns of its table. It yields a sentence for each
breach, which names both sides; a rule about rows that do no harm removes them. What figures of one answer say
of each other is a `_Relation`; unless the document promises it, a breach is a notice, since by its rule 7
figures of one answer may be of different minutes.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import takewhile
from typing import Any, Literal

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
from derivdata.tables.contracts import contract, venue_slug

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
        if rule.column and rule.column not in answer.columns:
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

_COUNTED = re.compile(
    r"(.*_)?(volume|oi|contracts|count|trades|open|high|low|close|users|traders|traded|value|rank)(_usd)?"
)
"""Names of fields that count something, in payloads that no document describes."""


def _wide(e: CheckedAnswer) -> Collection[str]:
    """Return the names of columns that are one symbol's each."""
    return symbols if isinstance(symbols := e.stated.get("symbols"), list) else ()


def _impossible(e: CheckedAnswer) -> Iterator[str]:
    for name, values in e.columns.items():
        column = None if e.table is None else e.table.columns.get(name, COLUMNS.get(name))
        positive = name == "interval_hours" or (column is not None and column.positive)
        least = None if column is None else column.least
        if positive or (
            column is None
            and (_COUNTED.fullmatch(name) or name in _wide(e))
            and getattr(values, "dtype", None) == np.float64
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


def _impossible_total(e: CheckedAnswer) -> Iterator[str]:
    """Look at the figures beside the rows of answers that no document describes."""
    for name, value in e.stated.items() if e.table is None else ():
        if _COUNTED.fullmatch(name) and isinstance(value, int | float) and value < 0:
            yield f"{name} is {value:g}; it cannot be below 0"


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


def _unlikely_book(e: CheckedAnswer) -> Iterator[str]:
    bids, asks = _book_prices(e, "bid"), _book_prices(e, "ask")
    if bids.size and asks.size and bids[0] >= asks[0]:
        yield f"the book is crossed: the best bid is {bids[0]:g}, the best ask {asks[0]:g}"
    elif bids.size and asks.size and asks[0] > 1.5 * bids[0]:
        yield f"the sides are far apart: the best bid is {bids[0]:g}, the best ask {asks[0]:g}"
    if (np.diff(bids) == 0).any() or (np.diff(asks) == 0).any():
        yield "the book has a price twice on one side"


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


_SUMS = frozenset("all total sum overall aggregate".split())
_SLUG = re.compile(r"[a-z0-9][a-z0-9_.-]*")


def _spelled_twice(e: CheckedAnswer) -> Iterator[str]:
    """Refuse two spellings of one venue, and a sum among venues, whose rows would count twice in totals."""
    spellings: dict[str, str] = {}
    for venue in e.words.get("exchange", ()):
        composed = unicodedata.normalize("NFKC", venue)
        slug = venue_slug("".join(c for c in composed if unicodedata.category(c) != "Cf"))
        other = spellings.setdefault(slug, venue)
        if other != venue:
            yield f"one venue stands twice, as {other!r} and as {venue!r}"
        if slug in _SUMS:
            yield f"{venue!r} stands among the venues: its rows would count twice"


def _odd_venue(e: CheckedAnswer) -> Iterator[str]:
    if odd := sorted(name for name in e.words.get("exchange", ()) if not _SLUG.fullmatch(name)):
        yield f"{odd[0]!a} is no slug of a venue: lowercase letters and digits"


_CLAMP = re.compile(r"clamp|limit|cap|cut|rais|reduc|short|trunc|restrict|cover|floor|adjust", re.IGNORECASE)
"""Words of notices about a shortened range; the document does not give their text."""


def _other_range(e: CheckedAnswer) -> Iterator[str]:
    requested, days = e.requested.get("range"), e.stated.get("days")
    named = (e.stated.get("range"), e.stated.get("period"), f"{days}d" if isinstance(days, int) else None)
    for used in {word for word in named if isinstance(word, str)} if requested is not None else ():
        wanted_length, used_length = _length(str(requested)), _length(used)
        explained = any(used in notice or _CLAMP.search(notice) for notice in e.answer.notices)
        shorter = wanted_length is not None and used_length is not None and used_length < wanted_length
        is_other = used != requested and (wanted_length is None or wanted_length != used_length)
        if is_other and not (shorter and explained):
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


def _other_resolution(e: CheckedAnswer, *, coarser: bool) -> Iterator[str]:
    if e.coarseness and (e.coarseness > 0) is coarser:
        yield f"asked for resolution {e.requested['resolution']!r}, the answer has {e.stated['resolution']!r}"
    unstated = e.stated.get("resolution") in (None, "unstated", "")
    if unstated and not coarser and e.endpoint and e.endpoint.states_resolution:
        yield "the document promises the resolution that was used, the answer names none"


def _off_grid(e: CheckedAnswer, *, closer: bool) -> Iterator[str]:
    """Compare the time between the rows of each series with the resolution."""
    words = (e.stated.get("resolution"), e.requested.get("resolution"))
    step, stamps = e.step_us, e.time_us
    if not any(word in times.RESOLUTIONS for word in words) or stamps is None or e.table is None:
        return
    apart = e.apart_us
    if closer and (apart <= step / 2).any():
        yield f"rows are {apart.min() / HOUR_US:g} hours apart, the resolution is {step / HOUR_US:g} hours"
    # What an archive or the sample holds of prices may be sparser than any step: that is no other resolution.
    sparse = apart.size > 3 and np.median(apart) > 1.5 * step
    if not closer and ((stamps % step).any() or (sparse and e.endpoint and not e.endpoint.local)):
        usual = np.median(apart) / HOUR_US if apart.size else np.nan
        first = np.datetime64(int(stamps.min()), "us")
        yield (
            f"rows from {first} on are {usual:g} hours apart, which are no steps of {step / HOUR_US:g} hours"
        )


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


def _unread_names(e: CheckedAnswer) -> Iterator[str]:
    """Find options whose names say nothing, on venues whose names are known."""
    names = np.asarray(e.columns["instrument_name"], dtype=object).tolist()
    unread = sorted({*range(len(names))}.difference(read_names(tuple(names)).places.tolist()))
    if unread and e.requested.get("exchange") in endpoints.OPTIONS_MATRIX.get("BTC", ()):
        yield f"{len(unread)} of {len(names)} names of options cannot be read, first {names[unread[0]]!r}"


def _spacing(e: CheckedAnswer, *, apart: float) -> Iterator[str]:
    """Compare each venue's interval with the time between its payments: their ratio may be below a number.

    Minutes taken for hours are 60 times apart.
    """
    hours, stamps = e.numbers("interval_hours"), e.time_us
    if hours is None or stamps is None or "settled" not in e.words.get("kind", ()) or stamps.size < 3:
        return
    frame = pd.DataFrame({"venue": e.columns["exchange"], "at": stamps, "hours": hours})
    frame = frame.sort_values(["venue", "at"])
    frame["apart"] = frame.groupby("venue", observed=True)["at"].diff() / HOUR_US
    venues = frame.dropna().groupby("venue", observed=True)[["apart", "hours"]]
    usual, least = venues.median(), venues.min()  # a payment that stands again hides behind a median
    for venue in usual.index:
        for row in (usual.loc[venue], least.loc[venue]):
            if (
                row["apart"] / row["hours"] < 1 / apart
                or usual["apart"][venue] / usual["hours"][venue] > apart
            ):
                yield (
                    f"payments of {venue} are {row['apart']:g} hours apart, the answer says that each is for "
                    f"{row['hours']:g} hours"
                )
                break


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
    stamps = e.time_us
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
    now, stated, stamps = e.answer.as_of, e.stated.get("timestamp"), e.time_us
    if now is pd.NaT:
        return
    late = times.us(now) - int(times.micros([stated])[0]) if isinstance(stated, str) else 0
    if abs(late) > _LATE_US:
        apart = f"{abs(late) / HOUR_US:.1f} hours {'before' if late > 0 else 'after'} its Date"
        yield f"the answer's own time is {stated}, {apart}"
    elif stamps is not None and (stamps > times.us(now) + e.step_us + _LATE_US).any():
        yield f"{int((stamps > times.us(now)).sum())} rows are of instants after the answer's Date"
    fresh = 0.0 if e.endpoint is None else e.endpoint.fresh_seconds
    is_past = e.window_us is not None and e.window_us[1] < times.us(now) - e.answer.age * 1e6
    if e.answer.age > fresh + _LATE_US / 1e6 and not is_past:
        yield f"a cache on the way has kept the answer for {e.answer.age / 3600:.1f} hours"


def _misranked(e: CheckedAnswer, *, name: str) -> Iterator[str]:
    """Compare ranks with 1, 2, 3 and with the figure that they rank; of losers the lowest comes first."""
    ranks, figures = e.numbers("rank"), e.numbers(name)
    if ranks is None or figures is None:
        return
    losers = np.asarray(e.columns.get("direction", np.full(ranks.size, "")) == "loser")
    for sign, side in ((-1, ~losers), (1, losers)):
        order = np.argsort(ranks[side], kind="stable")
        if (np.diff(sign * figures[side][order]) < 0).any() or (np.diff(ranks[side][order]) != 1).any():
            yield f"{name} is not in the order of its ranks, which are {ranks[side].tolist()[:5]}"


def _unsorted_rows(e: CheckedAnswer) -> Iterator[str]:
    """Look at rows that no document describes: one that stands twice, instants in disorder."""
    if e.table is not None or not e.size:
        return
    rows = pd.DataFrame({name: values for name, values in e.columns.items() if name != "place"})
    if twice := int(rows.astype(str).duplicated().sum()):
        yield f"{twice} rows stand twice"
    listed = [word for word in _wide(e) if isinstance(word, str)]
    found = {*rows.columns, *rows.get("key", ()), *rows.get("symbol", ())}
    if len(listed) > len({*listed} & found):
        yield f"of the {len(listed)} symbols that it lists, the answer has {len({*listed} & found)}"
    names = [name for name in ("part", "key", *_SERIES) if name in rows]
    for name in ("timestamp", "t", "date", "day"):
        stamps = rows[name] if name in rows else pd.Series(dtype=object)
        for series, times_of in stamps.dropna().astype(str).groupby([rows[n].astype(str) for n in names]):
            if not times_of.is_monotonic_increasing and not times_of.is_monotonic_decreasing:
                yield f"instants of {' '.join(series)} are not in order"
                break


_SERIES = ("symbol", "dex", "dex_name", "coin", "outcome_id", "venue", "builder", "address")


def _twins(e: CheckedAnswer) -> Iterator[str]:
    places = np.unique([e.micros("expiry"), e.numbers("strike"), e.columns["side"] == "call"], axis=1)
    if twins := e.size - places.shape[1]:
        yield f"{twins} options have expiry, strike and side of another one"


def _figure(e: CheckedAnswer, name: str) -> Array | None:
    """Return figures by name as `_RELATIONS` has them, None where the answer has none.

    A column; ``column=word``: where it holds the word; ``$field`` beside the rows; ``#``: how many rows;
    ``limit``: that of the request; ``@table``: nothing unless the answer is of that table; ``sum`` and
    ``middle`` of a column; its ``usual`` figure in the row's series, and that of the ``wider`` distance; how
    many words it ``lists``.
    """
    how, _, column = name.rpartition(" ")
    if column in e.columns:
        return _of_column(e, how, column)
    column, is_word, word = column.partition("=")
    if is_word:
        return np.asarray(e.columns[column] == word) if column in e.columns else None
    given = _beside_rows(e, column)
    return np.array([float(given)]) if isinstance(given, int | float) else None


def _beside_rows(e: CheckedAnswer, name: str) -> Any:
    """Return what a name of `_figure` that is no column's stands for, None for nothing."""
    if name == "#":
        return e.size
    if name == "limit":
        return float(e.requested.get("limit", np.inf))
    if e.table is None or name[0] not in "@$":
        return None
    if name[0] == "@":
        return 1.0 if e.table.name == name[1:] else None
    field, _, inner = name[1:].partition(".")
    stated = e.stated.get(field)
    return stated.get(inner) if inner and isinstance(stated, dict) else stated


def _of_column(e: CheckedAnswer, how: str, column: str) -> Array | None:
    if how == "lists":
        return np.array([word.count(",") + bool(word) for word in e.columns[column]], dtype=np.float64)
    values = e.columns[column]
    if getattr(values, "dtype", None) != np.float64:
        if e.table is None and not hasattr(values, "asi8"):  # words of a payload that no document describes
            return None
        values = e.numbers(column)
    if values is None or not how or not values.size or e.table is None:
        return None if how and e.table is None else values
    if how == "usual":
        alone = ("time", "days_ago", "expiry", *(("exchange",) if column == "price_usd" else ()))
        grouped = pd.Series(values).groupby(e.series(*alone))
        return np.asarray(grouped.transform("median").where(grouped.transform("count") > 3))
    if how == "wider":
        distance = np.asarray(e.columns["depth_bps"], dtype=np.float64)
        stamps = np.zeros(values.size) if e.time_us is None else e.time_us
        order = np.lexsort((distance, stamps, e.series("time", "depth_bps")))
        wider = np.append(values[order][1:], np.nan)
        wider[np.append(np.diff(distance[order]) <= 0, True)] = np.nan
        return wider[np.argsort(order)]
    if how == "sum":
        return np.array([values.sum()])
    known = values[~np.isnan(values)]
    return np.array([np.median(known)]) if known.size else None


def _far(factor: float) -> Callable[[Array, Array], Array]:
    """Return what finds figures that are `factor` times another figure, or that part of it."""
    return lambda a, b: (b > 0) & ((a > factor * b) | (a * factor < b))


def _above(a: Array, b: Array) -> Array:
    return np.asarray(a > b)


_ERRORS = ("stated count", "volatility in percent", "interval that ends first")
"""Relations that the document promises; all others are likely."""

_USUALLY = {
    **dict.fromkeys(("price_usd", "underlying_price", "index_price_usd", "atm_strike"), 4.0),
    **dict.fromkeys(("oi_usd", "total_oi_usd", "notional_oi_usd"), 8.0),
}
"""By how many times a figure may differ from the median of its series."""

_HIGH_RATE_BPS = 400.0

_RELATIONS: dict[str, dict[str, Callable[..., Any]]] = {
    "stated count": {
        "$count,#,limit": lambda n, rows, most: (n < rows) | ((n > rows) & (rows < most)),
        "$total,#,total_oi_usd": lambda n, rows, _: n != rows,
    },
    "volatility in percent": dict.fromkeys(("middle iv", "middle atm_iv"), lambda iv: iv > 10),
    "interval that ends first": {"start,end": lambda a, b: a >= b},
    "stated total": {
        "$total_market_oi,sum total_oi_usd": _far(1.05),
        "$totals.total_usd,sum total_usd": _far(1.05),
        "$totals.total_count,sum total_count": _far(1.001),
        "sum market_share": lambda s: abs(s - 1) > _SHARES_TOLERANCE,
    },
    "figure against its parts": {
        "market_share,total_oi_usd,sum total_oi_usd": lambda s, a, b: abs(s - a / b) > 0.001 + 0.1 * s,
        "total_usd,long_usd,short_usd": lambda t, a, b: abs(t - a - b) > 1 + 0.01 * t,
        "total_count,long_count,short_count": lambda t, a, b: t != a + b,
        "symbol_count,lists symbols": lambda n, listed: n != listed,
        "volume_oi_ratio,volume_usd,oi_usd": lambda r, v, oi: abs(r - v / oi) > 0.001 + 0.02 * r,
        "value_usd,fill_price_usd,filled_quantity,order_price_usd,quantity": lambda v, fp, f, op, q: (
            _far(2)(v, fp * f) & _far(2)(v, op * q)
        ),
        "filled_quantity,quantity": lambda f, q: f > 1.001 * q,
        "order_price_usd,fill_price_usd": _far(2),
        "atm_iv,atm_iv_24h_ago,atm_iv_change_24h": lambda a, b, c: abs(a - b - c) > 0.005,
        "atm_strike,underlying_price": _far(1.5),
        "strike,underlying_price,@options_atm_history": lambda k, s, _: _far(1.5)(k, s),
        **dict.fromkeys(
            ("symbol_count,total_oi_usd", "symbol_count,total_volume_usd", "symbol_count,oi_usd"),
            lambda n, usd: (n == 0) & (usd > 0),
        ),
        "lower_pct,upper_pct": lambda a, b: a > b,
        "low,open,close,high": lambda l, o, c, h: (l > np.fmin(o, c)) | (h < np.fmax(o, c)),  # noqa: E741
        "depth_bps,wider bid_depth_usd,bid_depth_usd": lambda _, a, b: a < b,
        "depth_bps,wider ask_depth_usd,ask_depth_usd": lambda _, a, b: a < b,
        "bid_coin,ask_coin": lambda b, a: (b > a) & (a > 0),
        "bid_usd,ask_usd": lambda b, a: (b > a) & (a > 0),
        "mark_coin,mark_usd,underlying_price": lambda c, m, s: (m > 5) & _far(1.2)(c * s, m),
        "index_price_usd,underlying_price": _far(1.5),
    },
    "unlikely volatility": dict.fromkeys(("iv", "atm_iv", "atm_iv_24h_ago"), lambda iv: iv > 10),
    "unlikely greek": {
        "delta,side=call": lambda d, call: np.where(call, d, -d) < 0,
        "delta,strike,underlying_price": lambda d, k, s: abs(d) > 1.05 * np.fmax(1, k / s),
        "gamma": lambda g: g < 0,
        "vega": lambda v: v < 0,
    },
    "unlikely price of an option": dict.fromkeys(
        ("mark_coin,strike,underlying_price", "bid_coin,strike,underlying_price"),
        lambda p, k, s: p > 1.05 * np.fmax(1, k / s),
    ),
    "unlikely hour of expiry": {"expiry,instrument_name=": lambda t, _: t % DAY_US != 8 * HOUR_US},
    "payment without an interval": {"interval_hours,kind=settled": lambda h, paid: np.isnan(h) & paid},
    "far from the usual": {f"{name},usual {name}": _far(factor) for name, factor in _USUALLY.items()},
    "high rate": {
        "rate_bps_8h,interval_hours": lambda r, h: abs(r) * np.where(np.isnan(h), 8, h) > 8 * _HIGH_RATE_BPS,
        **dict.fromkeys(
            ("rate_bps_8h", "funding_current_bps_8h", "top_funding_bps_8h"),
            lambda r: abs(r) > 8 * _HIGH_RATE_BPS,
        ),
    },
    "expired option": {"expiry,time,instrument_name=": lambda x, now, _: x < now - DAY_US},
}
"""What figures of one answer say of each other, by rule: figures by name, and what finds the breach."""


def _text_of(name: str, figure: float) -> str:
    """Return a figure as text; instants, which are microseconds, as such."""
    is_instant = name in ("expiry", "time", "start", "end")
    return f"{np.datetime64(int(figure), 'us').astype('datetime64[m]')}Z" if is_instant else f"{figure:g}"


def _related(e: CheckedAnswer, *, name: str) -> Iterator[str]:
    """Show the first row in which figures break a relation."""
    for figures, broken in _RELATIONS[name].items():
        names = figures.split(",")
        values = [*takewhile(lambda one: one is not None, map(partial(_figure, e), names))]
        if len(values) < len(names):
            continue
        with np.errstate(invalid="ignore", divide="ignore"):
            rows = np.flatnonzero(broken(*values))
        if rows.size:
            shown = ", ".join(
                f"{n} {_text_of(n, v[min(rows[0], v.size - 1)])}"
                for n, v in zip(names, values, strict=True)
                if v is not None and not n.endswith("=")
            )
            keys = (
                [k for k in e.table.key if k in e.words] if e.table is not None and e.size > rows[0] else ()
            )
            where = " ".join(str(e.columns[key][rows[0]]) for key in keys)
            yield f"{name}: {shown} ({where}; {rows.size} of {e.size} rows)"


RULES = (
    Rule("impossible figure", "error", _impossible),
    Rule("impossible total", "error", _impossible_total),
    Rule("unsorted book", "error", _unsorted, "level"),
    Rule("another subject", "error", _other_subject),
    Rule("another exchange", "error", _other_exchange, "exchange_id"),
    Rule("another range", "error", _other_range),
    Rule("one venue twice", "error", _spelled_twice, "exchange"),
    Rule("another unit", "error", partial(_other_unit, known=True)),
    Rule("another resolution", "error", partial(_other_resolution, coarser=False)),
    Rule("closer than the resolution", "error", partial(_off_grid, closer=True), "time"),
    Rule("name against option", "error", _option_names, "instrument_name"),
    Rule("interval against spacing", "error", partial(_spacing, apart=20.0), "interval_hours"),
    Rule("raw rate against rate", "error", _raw_rates, "rate_native"),
    Rule("another window", "error", _other_window),
    *(Rule(name, "error", partial(_related, name=name)) for name in _ERRORS),
    Rule("mover against rank", "error", partial(_misranked, name="price_24h_change_pct"), "direction"),
    Rule("leader against rank", "error", partial(_misranked, name="funding_current_bps_8h"), "rank"),
    Rule("date as expiry", "notice", _dated_expiry, "expiry"),
    Rule("unlikely spacing", "notice", partial(_spacing, apart=1.9), "interval_hours"),
    Rule("edge of the window", "notice", _edge),
    Rule("coarser resolution", "notice", partial(_other_resolution, coarser=True)),
    Rule("off the resolution", "notice", partial(_off_grid, closer=False), "time"),
    Rule("unknown unit", "notice", partial(_other_unit, known=False)),
    Rule("more than the limit", "notice", _beyond_limit),
    Rule("unlikely book", "notice", _unlikely_book, "level"),
    Rule("old snapshot", "notice", _old),
    Rule("odd venue", "notice", _odd_venue, "exchange"),
    Rule("unread name", "notice", _unread_names, "instrument_name"),
    Rule("option twice", "notice", _twins, "instrument_name"),
    Rule("rows in disorder", "notice", _unsorted_rows),
    Rule("symbol against rank", "notice", partial(_misranked, name="oi_usd"), "rank"),
    *(Rule(name, "notice", partial(_related, name=name)) for name in _RELATIONS if name not in _ERRORS),
)
"""Every rule about one answer, in the order in which they are applied.

Impossible figures come first: a negative interval is not worth a comparison with the time between payments.
"""
