"""Rules that compare a response with its request and with itself: the table `RULES`, and its checker.

``docs/methods/checked-responses.md`` describes each rule. A rule reads a `CheckedResponse`, named `e` here:
the request, the fields of the response and the columns of its table. It yields a sentence for each breach,
with both sides of the comparison. Some rules also remove or correct rows. Relations between figures of one
response are in `derivdata.client.relations`.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from derivdata.client.market_sizes import LARGEST_PRICES, beyond_markets
from derivdata.client.reading import HOUR_US, CheckedResponse, figure, related
from derivdata.client.relations import (
    LIKELY,
    PROMISED,
    names_against_expiries,
    names_against_options,
    options_twice,
    unread_names,
)
from derivdata.client.series_rules import (
    SeriesRows,
    described,
    impossible_patterns,
    other_sizes,
    series_rows,
    unlikely_values,
)
from derivdata.client.snapshot_rules import (
    unlike_black,
    unlikely_chains,
    unlikely_columns,
    unlikely_snapshots,
)
from derivdata.errors import SchemaError
from derivdata.support import times
from derivdata.support.arrays import Array
from derivdata.tables import COLUMNS, endpoints
from derivdata.tables.contracts import venue_slug
from derivdata.tables.history_rows import PAYMENTS, level_changes, rate_changes, series_order, shown_time
from derivdata.tables.payments import contradicted
from derivdata.tables.schema import Column
from derivdata.tables.series_faults import (
    apart_from_peers,
    copied_series,
    exchanged_levels,
    frozen_runs,
    lone_rates,
    lone_spikes,
    mirrored_rates,
    peer_changes,
    repeated_pair,
    scaled_series,
    scattered_levels,
    still_levels,
    unchanged_series,
)


class Rule(NamedTuple):
    """A rule. A breach is a `SchemaError` or a `DataNotice`, by its `outcome`."""

    name: str
    outcome: Literal["error", "notice"]
    breaches: Callable[[CheckedResponse], Iterator[str]]
    columns: str = ""  # columns that the rule needs; it is skipped if one is missing


def check(response: CheckedResponse, rules: Collection[str] | None = None) -> list[str]:
    """Check a response against all rules, or only `rules`; return its notices and raise on errors.

    The rules that gave a notice or changed rows are added to ``response.effective``. Only they can do so when
    the same response is read again.
    """
    notices: list[str] = []
    path = response.response.request.path
    for rule in RULES:
        if rules is not None and rule.name not in rules:
            continue
        if not {*rule.columns.split()} <= response.columns.keys():
            continue
        before = dict(response.columns)
        count = len(notices) + len(response.facts)
        for breach in rule.breaches(response):
            if rule.outcome == "error":
                raise SchemaError(f"{path}: {breach}; see the response with dd.raw({path!r}, ...)")
            notices.append(breach)
        is_changed = any(response.columns[name] is not values for name, values in before.items())
        if is_changed or len(notices) + len(response.facts) > count:
            response.effective.append(rule.name)
    return notices


_MAX_MEANING = {
    "index_pct": ": four times the highest value of any volatility index",
    "interval_hours": ": a week",
    **dict.fromkeys(("long_share", "market_share", "short_share"), ": shares are fractions from 0 to 1"),
}
"""Explanations of the maximum of a column, added to messages."""

_COUNTED = re.compile(
    r"(?!(.*_)?(net|delta|change|diff|pnl|imbalance|skew|flow)(_|$))"
    r"(.*_)?(volume|oi|contracts|count|trades|open|high|low|close|users|traders|traded|liquidation_value)(_usd)?"
)
"""Names of fields in open tables that are counts or amounts, without fields that may be negative."""


def _others(breaches: Sequence[Any], noun: str) -> str:
    """Return the end of a sentence about the first breach: the number of further ones."""
    return f"; {len(breaches) - 1} more {noun}" if len(breaches) > 1 else ""


def _wide(e: CheckedResponse) -> Collection[str]:
    """Return the names of columns that are symbols."""
    symbols = e.stated.get("symbols")
    return symbols if isinstance(symbols, list) else ()


def _column(e: CheckedResponse, name: str) -> Column | None:
    """Return the definition of a column; in open tables only a few columns have one."""
    if e.table is not None:
        return e.table.columns.get(name, COLUMNS.get(name))
    return COLUMNS[name] if name in _MAX_MEANING else None


class _Bounds(NamedTuple):
    """The smallest and the largest possible figure, and whether 0 is impossible."""

    minimum: float = -np.inf
    most: float = np.inf
    positive: bool = False


def _bounds(e: CheckedResponse, name: str) -> _Bounds:
    """Return the bounds of a column or of a figure next to the rows."""
    column = _column(e, name)
    is_count = e.table is None and (_COUNTED.fullmatch(name) or name in _wide(e))
    if column is None:
        return _Bounds(0.0) if is_count else _Bounds()
    bounds = _Bounds(positive=column.positive)
    if column.minimum is not None or column.positive or is_count:
        bounds = bounds._replace(minimum=column.minimum or 0.0)
    if column.maximum is not None:
        bounds = bounds._replace(most=column.maximum)
    return bounds


def _impossible(e: CheckedResponse) -> Iterator[str]:
    """Compare every column with its minimum and maximum; in open tables also the figures next to the rows."""
    stated_names = e.stated if e.table is None else ()
    for name in (*e.columns, *stated_names):
        bounds = _bounds(e, name)
        if bounds == _Bounds():
            continue
        stated = e.stated.get(name)
        if isinstance(stated, int | float) and name not in e.columns:
            numbers: Array | None = np.array([stated])
        else:
            numbers = figure(e, name)
        if numbers is None:
            continue
        if (numbers < bounds.minimum).any():
            yield f"{name} must be at least {bounds.minimum:g}, got {np.nanmin(numbers):g}"
        elif bounds.positive and (numbers == 0.0).any():
            yield f"{name} must be above 0, got 0"
        elif (numbers > bounds.most).any():
            meaning = _MAX_MEANING.get(name, "")
            yield f"{name} must be at most {bounds.most:g}{meaning}, got {np.nanmax(numbers):g}"


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
    "quote": ("quote",),
    "window_days": ("window_days",),
}
"""Fields in which a response repeats a parameter, next to its rows or, for subjects, in them."""


def _other_subject(e: CheckedResponse) -> Iterator[str]:
    """Compare the subject of the response, next to its rows and in them, with the request."""
    params = () if e.endpoint is None else e.endpoint.params
    lists = {p.name for p in params if p.kind is endpoints.ParamKind.LIST}
    for name, fields in _NAMED.items():
        if name not in e.requested:
            continue
        requested = e.requested[name]
        for echo in map(e.stated.get, fields):
            if isinstance(echo, list | tuple) and set(map(str, echo)) != set(requested.split(",")):
                yield (
                    f"requested {name} {requested!r}, but the response is about {','.join(map(str, echo))!r}"
                )
            elif isinstance(echo, str | int) and name not in lists and str(echo) != requested:
                yield f"requested {name} {requested!r}, but the response is about {echo!r}"
        in_rows = {word for field in fields for word in e.words.get(field, ())}
        if others := sorted(in_rows - e.requested_names.get(name, in_rows)):
            yield f"requested {name} {requested!r}, but the response has rows of {', '.join(others[:5])}"
    excluded = e.requested_names.get("exclude_symbol", frozenset())
    if present := sorted(excluded & {*e.words.get("symbol", ())}):
        yield (
            f"requested exclude_symbol {e.requested['exclude_symbol']!r}, but the response has rows of "
            f"{', '.join(present)}"
        )


def _other_exchange(e: CheckedResponse) -> Iterator[str]:
    """Compare the exchanges behind assets, which responses name in three columns."""
    requested = {name.casefold() for name in e.requested_names.get("exchange", ())}
    others = set()
    for names in zip(*(e.columns[name] for name in ("exchange_id", "short_name", "mic")), strict=True):
        if requested.isdisjoint([str(name).casefold() for name in names]):
            others.add(str(names[0]))
    if requested and others:
        listed = ", ".join(sorted(others)[:5])
        yield f"requested exchange {e.requested['exchange']!r}, but the response has rows of {listed}"


_SUMS = frozenset("all total sum overall aggregate".split())
_SLUG = re.compile(r"[a-z0-9][a-z0-9_.-]*")


def _spelled_twice(e: CheckedResponse) -> Iterator[str]:
    """Find venues with two spellings, and totals among venues: their rows would count twice in sums."""
    spellings: dict[str, str] = {}
    for venue in e.words.get("exchange", ()):
        composed = unicodedata.normalize("NFKC", venue)
        slug = venue_slug("".join(c for c in composed if unicodedata.category(c) != "Cf"))
        other = spellings.setdefault(slug, venue)
        if other != venue:
            yield f"one venue has two names, {other!r} and {venue!r}"
        if slug in _SUMS:
            yield f"{venue!r} is listed as a venue, so its rows would be counted twice"


def _odd_venue(e: CheckedResponse) -> Iterator[str]:
    """Find names that are not slugs of venues."""
    if odd := sorted(name for name in e.words.get("exchange", ()) if not _SLUG.fullmatch(name)):
        yield f"the venue {odd[0]!a} is not a valid slug: expected lowercase letters and digits"


_CLAMP = re.compile(r"clamp|limit|cap|cut|rais|reduc|short|trunc|restrict|cover|floor|adjust", re.IGNORECASE)
"""Words in notices about a shortened range. The API document does not define their text."""


def _other_range(e: CheckedResponse) -> Iterator[str]:
    """Compare the range of the response with the request; a notice may explain a shorter one."""
    requested = e.requested.get("range")
    if requested is None:
        return
    stated = [e.stated.get("range"), e.stated.get("period")]
    if isinstance(e.stated.get("days"), int):
        stated.append(f"{e.stated['days']}d")
    requested_length = _length(str(requested))
    for used in stated:
        if not isinstance(used, str) or used == requested:
            continue
        used_length = _length(used)
        is_shorter = False
        if requested_length is not None and used_length is not None:
            if used_length == requested_length:
                continue
            is_shorter = used_length < requested_length
        explained = any(used in notice or _CLAMP.search(notice) for notice in e.response.notices)
        if not (is_shorter and explained):
            yield f"requested range {requested!r}, but the response is about range {used!r}"


def _length(text: str) -> pd.Timedelta | None:
    """Return the length of a range, the maximum for ``all``; None for other text."""
    try:
        return pd.Timedelta.max if text == "all" else times.lookback(text)
    except ValueError:  # too many days for a Timedelta
        return None


_UNITS = frozenset(
    "usd bps_8h bps bps_1h percent pct % fraction decimal ratio coin coins base contracts native".split()
)
"""Unit names that are understood. A response in another of these units contradicts the document."""


def _other_unit(e: CheckedResponse, *, is_understood: bool) -> Iterator[str]:
    """Compare the unit of the response with the document: a unit in `_UNITS`, or an unknown one."""
    unit = e.stated.get("unit")
    if e.endpoint is None or not e.endpoint.unit or not isinstance(unit, str):
        return
    expected = e.endpoint.unit
    if unit.lower() == expected or (unit.lower() in _UNITS) is not is_understood:
        return
    contradiction = f"the API document states the unit {expected!r}, but the response has {unit!r}"
    if is_understood:
        yield contradiction
    else:
        yield f"{contradiction}, which is unknown; {expected!r} is assumed"


def _other_resolution(e: CheckedResponse, *, coarser: bool) -> Iterator[str]:
    """Compare the resolution of the response with the request: a `coarser` one, or a finer or missing one."""
    if e.coarseness and (e.coarseness > 0) is coarser:
        yield (
            f"requested resolution {e.requested['resolution']!r}, but the response has "
            f"{e.stated['resolution']!r}"
        )
    unstated = e.stated.get("resolution") in (None, "unstated", "")
    if unstated and not coarser and e.endpoint and e.endpoint.states_resolution:
        yield "the resolution is missing, although the API document requires it in the response"


def _raw_rates(e: CheckedResponse) -> Iterator[str]:
    """Check the venues' own rates against both readings of the document, and convert them to one.

    Rule 4 of the document can be read in two ways: the raw rate is bps / 10,000, which is per 8 hours, or it
    is the venue's rate per interval, times 8 / interval for comparison. Both agree at 8 hours.
    """
    rates, native, hours = (e.numbers(n) for n in ("rate_bps_8h", "rate_native", "interval_hours"))
    if rates is None or native is None or hours is None or np.isnan(native).all():
        return
    # 1. Rows that agree with each reading.
    both_present = ~np.isnan(rates) & ~np.isnan(native)
    slack = 0.1 + 0.01 * np.abs(rates)  # figures on the wire are rounded: 0.1 bps, or 1 % of a large rate
    per_8h = both_present & (np.abs(native * 1e4 - rates) <= slack)
    per_interval = both_present & (np.abs(native * 1e4 * 8 / hours - rates) <= slack)
    checked = both_present & ~np.isnan(hours)
    # 2. A row that agrees with neither is an error.
    neither = np.flatnonzero(checked & ~per_8h & ~per_interval)
    if neither.size:
        n = neither[0]
        yield (
            f"{e.columns['symbol'][n]} on {e.columns['exchange'][n]} has {rates[n]:g} bps per 8 hours and "
            f"the raw rate {native[n]:g} at {hours[n]:g} hours, which do not agree in any reading of the "
            "document"
        )
        return
    # 3. The reading of most rows that agree with only one.
    by_8h = int((per_8h & ~per_interval & checked).sum())
    by_interval = int((per_interval & ~per_8h).sum())
    reading = "per interval" if by_interval >= by_8h else "per 8 hours"
    e.facts["funding_rates_raw"] = (
        f"{reading} ({by_interval} rates fit only per interval, {by_8h} only per 8 hours)"
    )
    # 4. The column is per interval, for all units of the wire.
    if by_8h:
        wire_is_8h = per_8h & ~per_interval
        if reading == "per 8 hours":
            wire_is_8h = ~(per_interval & ~per_8h)
        e.columns["rate_native"] = np.where(checked & wire_is_8h, native * hours / 8, native)


def _other_window(e: CheckedResponse) -> Iterator[str]:
    """Find rows more than a step outside of the requested window, and responses without a row in it."""
    stamps = e.time_us
    if stamps is None or not stamps.size or e.window_us is None:
        return
    start, end = e.window_us
    far = (stamps < start - e.step_us) | (stamps > end)
    # A service that includes `end` in the window may have only the row at `end`.
    none_inside = ((stamps < start) | (stamps >= end)).all() and not (stamps == end).all()
    if far.any() or none_inside:
        yield (
            f"requested {_iso(start)} to {_iso(end)}, but the response has rows from "
            f"{_iso(np.min(stamps))} to {_iso(np.max(stamps))}"
        )


def _iso(micros: int) -> str:
    """Return a time [µs] as ISO text."""
    return times.iso(pd.Timestamp(int(micros), unit="us", tz="UTC"))


def _edge(e: CheckedResponse) -> Iterator[str]:
    """Drop rows outside of the half-open window."""
    stamps = getattr(e.columns.get("time"), "asi8", None)
    if stamps is None or e.window_us is None:
        return
    inside = (stamps >= e.window_us[0]) & (stamps < e.window_us[1])
    if not inside.all():
        e.keep(inside)
        yield (
            f"{int((~inside).sum())} rows at the edges of the window were dropped, because the window "
            "is half-open"
        )


_DATE_LETTERS = len("2026-07-03")


def _dated_expiry(e: CheckedResponse) -> Iterator[str]:
    """Move expiries that are dates without a time to 08:00 UTC, when options expire."""
    texts = e.raw.get("expiry")
    if texts is None or "expiry" not in e.columns:
        return
    if isinstance(getattr(texts, "dtype", None), pd.StringDtype):
        texts = pa.array(texts)
    if isinstance(texts, pa.Array | pa.ChunkedArray):
        dates = np.asarray(pc.equal(pc.utf8_length(texts), _DATE_LETTERS).fill_null(False))
    else:
        dates = np.array([isinstance(text, str) and len(text) == _DATE_LETTERS for text in list(texts)])
    if dates.any():
        hours = np.where(dates, 8 * HOUR_US, 0).astype("timedelta64[us]")
        e.columns["expiry"] = e.columns["expiry"] + hours
        e.figures.clear()
        yield f"{int(dates.sum())} expiries are dates without a time of day; 08:00 UTC is used"


def _beyond_limit(e: CheckedResponse) -> Iterator[str]:
    """Drop levels, ranks and symbols beyond the requested limit; report surplus orders, which are kept."""
    if "limit" not in e.requested or e.table is None:
        return
    limit = int(e.requested["limit"])
    for column, words in (("level", "levels"), ("rank", "entries")):
        places = e.numbers(column)
        if places is not None and places.size and np.nanmax(places) > limit:
            yield (
                f"requested {limit} {words}, but the response has {np.nanmax(places):g}; the rest was dropped"
            )
            e.keep(~(places > limit))
    symbols = e.stated.get("symbols")
    if isinstance(symbols, list) and len(symbols) > limit:
        yield f"requested {limit} symbols, but the response has {len(symbols)}; the rest was dropped"
        e.keep(np.asarray(pd.Series(e.columns["symbol"]).isin(symbols[:limit])))
    if "order_id" in e.columns and e.size > limit:
        yield f"requested at most {limit} orders, but the response has {e.size}; all are returned"


def _contradicted_interval(e: CheckedResponse) -> Iterator[str]:
    """Compare the interval of each payment with the previous and the next payment."""
    stated = e.numbers("interval_hours")
    counts = e.numbers("payment_count")
    if stated is None or counts is None or e.time_us is None or "settled" not in e.words.get("kind", ()):
        return
    hours = np.where(counts > 1, np.nan, stated)  # a row that sums payments is longer than its interval
    groups = e.series("time")
    order = series_order(groups, e.time_us)
    spacing = contradicted(groups[order], e.time_us[order], hours[order])
    rows = order[spacing.rows]
    if not rows.size:
        return
    first = rows[np.argmin(e.time_us[rows])]
    gap = spacing.gaps[np.flatnonzero(order == first)[0]]
    where = f"{e.columns['symbol'][first]} {e.columns['exchange'][first]}"
    yield (
        f"{where}: interval_hours is {hours[first]:g} h at "
        f"{shown_time(e.time_us[first])}, {gap:g} h after the previous payment ({rows.size} of {e.size} "
        "payments contradict their interval)"
    )


def _unit_change(e: CheckedResponse) -> Iterator[str]:
    """Find series that change their unit at some row."""
    if e.table is None or e.time_us is None or "time" not in e.table.key:
        return
    for name in ("rate_bps_8h", "oi_usd", "total_oi_usd", "price_usd"):
        values = e.numbers(name)
        if values is None or name not in e.table.columns:
            continue
        rows = series_rows(e, name, values)
        if name == "rate_bps_8h":
            changes = rate_changes(rows.series, rows.values, rows.by_size)
        else:
            changes = level_changes(rows.series, rows.values)
        for change in changes[:1]:
            row = rows.order[change.row]
            where = " ".join(str(e.columns[key][row]) for key in e.table.key if key in e.words)
            others = _others(changes, "series change")
            yield (
                f"{name} of {where} is {change.factor:.3g} times as large from "
                f"{shown_time(e.time_us[row])} on ({change.rows} rows): probably another unit{others}"
            )


_COMPARED = tuple(
    "rate_bps_8h oi_usd total_oi_usd volume_usd total_volume_usd price_usd price buy_usd sell_usd "
    "long_short_ratio".split()
)
"""Columns in which the venues of a symbol are compared."""
_EXCHANGED = ("oi_usd", "total_oi_usd")
_PRICES = ("price_usd", "price")
_VOLUMES = ("volume_usd", "total_volume_usd", "buy_usd", "sell_usd")


def _unlike_peers(e: CheckedResponse) -> Iterator[str]:
    """Compare each venue with the others: changes of unit, swapped venues, and runs of one value."""
    if e.table is None or e.time_us is None or not {"exchange", "time"} <= {*e.table.key}:
        return
    columns = e.table.columns
    for name in _COMPARED:
        values = e.numbers(name)
        if name not in columns or values is None or not values.size:
            continue
        rows = series_rows(e, name, values)
        yield from _odd_series(e, name, rows)
        if (rows.values == rows.values[0]).all():  # a constant cannot contradict anything
            continue
        sorted_rows = rows.series, rows.market, rows.times, rows.values
        is_rate = name == "rate_bps_8h"
        # 1. A change of unit that the other venues do not have.
        by_size = rows.by_size if is_rate else None
        changes = peer_changes(*sorted_rows, is_rate=is_rate, by_size=by_size)
        for change in changes[:1]:
            first = rows.order[change.row]
            others = _others(changes, "series differ")
            yield (
                f"{name} of {described(e, first)} is {change.factor:.3g} times as large relative to "
                f"other venues from about {shown_time(rows.times[change.row])} on ({change.rows} rows): "
                f"probably another unit{others}"
            )
        # 2. Two venues whose rows are swapped from some time on.
        exchanges = exchanged_levels(*sorted_rows) if name in _EXCHANGED else []
        for first_row, second_row in exchanges[:1]:
            venues = [described(e, rows.order[row]) for row in (first_row, second_row)]
            when = shown_time(rows.times[first_row])
            yield f"{name} of {venues[0]} and {venues[1]} is swapped from {when} on"
        # 3. A run of one value in a series that otherwise moves.
        runs = frozen_runs(*sorted_rows, is_rate=is_rate)
        for run in runs[:1]:
            first = rows.order[run.row]
            others = _others(runs, "runs")
            yield (
                f"{name} of {described(e, first)} is constant at {rows.values[run.row]:g} from "
                f"{shown_time(rows.times[run.row])} on in {run.rows} rows, but changes in other rows: "
                f"rows may be stale{others}"
            )


_MAX_OF_A_VENUE_USD = 1e11


def _odd_series(e: CheckedResponse, name: str, rows: SeriesRows) -> Iterator[str]:
    """Find series with one value, copied ones, and whole series in another unit."""
    is_rate = name == "rate_bps_8h"
    faults = unchanged_series(rows.series, rows.times, rows.values, is_rate=is_rate)
    for fault in faults[:1]:
        first = rows.order[fault.row]
        others = _others(faults, "series")
        yield (
            f"{name} of {described(e, first)} is {rows.values[fault.row]:g} in all {fault.rows} rows: "
            f"rows may be stale or missing{others}"
        )
    for pair in copied_series(rows.series, rows.market, rows.times, rows.values)[:1]:
        venues = [described(e, rows.order[row]) for row in pair]
        yield f"{name} of {venues[0]} and {venues[1]} is the same in all rows: one of them may be copied"
    if is_rate or name in _PRICES:
        kind = "rate" if is_rate else "price"
        faults = scaled_series(
            rows.series, rows.market, rows.values, kind=kind, times=rows.times, by_size=rows.by_size
        )
        for fault in faults[:1]:
            others = _others(faults, "series differ")
            yield (
                f"{name} of {described(e, rows.order[fault.row])} is {fault.factor:.3g} times that of "
                f"the other venues (median of {fault.rows} rows): probably another unit{others}"
            )
    if name in _VOLUMES:
        for fault in lone_spikes(rows.series, rows.values)[:1]:
            yield (
                f"{name} of {described(e, rows.order[fault.row])} is {fault.factor:.3g} times the rows "
                f"before and after it on {shown_time(rows.times[fault.row])}; "
                f"{fault.rows - 1} other rows are similar"
            )
    yield from _odd_movements(e, name, rows)
    yield from _still_markets(e, name, rows)
    yield from _beyond_markets(e, name, rows)


def _odd_movements(e: CheckedResponse, name: str, rows: SeriesRows) -> Iterator[str]:
    """Find prices that move apart from the other venues, levels in random order, and mirrored rates."""
    if name in _PRICES:
        for fault in apart_from_peers(rows.series, rows.market, rows.times, rows.values)[:1]:
            yield (
                f"{name} of {described(e, rows.order[fault.row])} deviates from its usual distance to "
                f"the other venues by {100 * fault.factor:.2g} % (median): rows may be late, out of order "
                "or drifting"
            )
    if name in (*_PRICES, *_EXCHANGED):
        for fault in scattered_levels(rows.series, rows.values)[:1]:
            yield (
                f"{name} of {described(e, rows.order[fault.row])} jumps from row to row in {fault.rows} "
                "rows: the rows may be out of order"
            )
    if name == "rate_bps_8h":
        for fault in lone_rates(rows.series, rows.values, rows.by_size)[:1]:
            yield (
                f"{name} of {described(e, rows.order[fault.row])} is {rows.values[fault.row]:g} between "
                f"small rates on {shown_time(rows.times[fault.row])}; {fault.rows - 1} other rows are similar"
            )
        for fault in mirrored_rates(rows.series, rows.values)[:1]:
            yield (
                f"{name} of {described(e, rows.order[fault.row])} repeats -1 bps, but the interest in "
                "the venues' formula is +1 bps: the sign may be inverted"
            )


def _still_markets(e: CheckedResponse, name: str, rows: SeriesRows) -> Iterator[str]:
    """Find runs of one value of BTC, ETH or a venue's total, which always change."""
    if name not in (*_PRICES, *_EXCHANGED, *_VOLUMES):
        return
    faults = still_levels(rows.series, rows.times, rows.values)
    if "symbol" in e.columns:  # without it the rows are sums of all markets
        faults = [fault for fault in faults if e.columns["symbol"][rows.order[fault.row]] in LARGEST_PRICES]
    for fault in faults[:1]:
        others = _others(faults, "runs")
        yield (
            f"{name} of {described(e, rows.order[fault.row])} is {rows.values[fault.row]:g} from "
            f"{shown_time(rows.times[fault.row])} on in {fault.rows} rows: rows may be stale or "
            f"missing{others}"
        )


def _beyond_markets(e: CheckedResponse, name: str, rows: SeriesRows) -> Iterator[str]:
    """Find prices and open interest that no market has had, and two units of a payment that repeats."""
    if name in _EXCHANGED and (rows.values > _MAX_OF_A_VENUE_USD).any():
        place = int(np.nanargmax(rows.values))
        yield (
            f"{name} of {described(e, rows.order[place])} is {rows.values[place]:.4g} on "
            f"{shown_time(rows.times[place])}: no venue has ever had as much"
        )
    if name in _PRICES and "symbol" in e.columns:
        symbols = np.asarray(e.columns["symbol"])[rows.order]
        for symbol, most in LARGEST_PRICES.items():
            is_above = (symbols == symbol) & (rows.values > most)
            if is_above.any():
                place = int(np.argmax(is_above))
                yield (
                    f"{name} of {described(e, rows.order[place])} is {rows.values[place]:.4g} on "
                    f"{shown_time(rows.times[place])}: no market has ever had such a price"
                )
    if name == "rate_bps_8h" and e.table is not None and e.table.name == PAYMENTS:
        yield from _two_units(e, rows)


def _two_units(e: CheckedResponse, rows: SeriesRows) -> Iterator[str]:
    """Find payments of one interval that repeat two values, which differ by a unit or the sign."""
    hours = e.numbers("interval_hours")
    if hours is None:
        return
    intervals = hours[rows.order]
    starts = np.flatnonzero(np.append(True, rows.series[1:] != rows.series[:-1]))
    for first, end in zip(starts.tolist(), [*starts[1:].tolist(), rows.values.size], strict=True):
        if not (intervals[first:end] == intervals[first]).all():
            continue  # the interest of an interval is proportional to its length
        pair = repeated_pair(rows.values[first:end])
        if pair is not None:
            yield (
                f"rate_bps_8h of {described(e, rows.order[first])} repeats two values, {pair[0]:g} and "
                f"{pair[1]:g}: expected one unit and sign"
            )
            return


_OFF_HOUR_US = 120_000_000  # distance from a whole hour up to which a payment counts as at it
_MIN_PAYMENTS = 12
_HALF_INTERVAL_HOURS = 4.0
"""Venues that pay each 8 h count from 00:00 UTC, KuCoin from 04:00."""


def _off_hour(e: CheckedResponse) -> Iterator[str]:
    """Find payments that are not at a whole hour, and payments each 8 h at hours that no venue pays at."""
    if e.time_us is None or "settled" not in e.words.get("kind", ()) or e.table is None:
        return
    if e.table.name != PAYMENTS:
        return
    hours = e.numbers("interval_hours")
    if hours is not None and hours.size:
        hour = (e.time_us + _OFF_HOUR_US) // HOUR_US  # a payment may be slightly early
        is_wrong_hour = hour % _HALF_INTERVAL_HOURS != 0.0
        wrong = np.flatnonzero((hours == 8.0) & is_wrong_hour)
        if wrong.size >= _MIN_PAYMENTS:
            yield (
                f"payments of {described(e, wrong[0])} every 8 h are at "
                f"{shown_time(e.time_us[wrong[0]])} ({wrong.size} of {e.size} rows): expected 00:00, "
                "08:00 and 16:00 UTC, or 4 h later"
            )
    past_hour = e.time_us % HOUR_US
    rows = np.flatnonzero((past_hour > _OFF_HOUR_US) & (past_hour < HOUR_US - _OFF_HOUR_US))
    if rows.size:
        first = rows[np.argmin(e.time_us[rows])]
        yield (
            f"payments of {described(e, first)} are not at a whole hour "
            f"from {shown_time(e.time_us[first])} on ({rows.size} of {e.size} rows)"
        )


def _listed_without_rows(e: CheckedResponse) -> Iterator[str]:
    """Name the venues and symbols that a response lists without rows."""
    for column, field in (("exchange", "exchanges"), ("symbol", "symbols")):
        listed = e.stated.get(field)
        if isinstance(listed, Mapping):
            listed = listed.get(field)
        if e.table is None or not e.words.get(column) or not isinstance(listed, list | tuple):
            continue
        names = dict.fromkeys(name for name in listed if isinstance(name, str))
        missing = sorted(names.keys() - {*e.words[column]})
        count = len(missing)
        if missing:
            if len(missing) > 5:
                missing[5:] = ["..."]
            yield f"{count} of {len(names)} listed {field} have no rows: {', '.join(missing)}"


_LATE_US = 600_000_000
_BOOK = "/orderbook/book"
"""Path whose response is of the requested end time, not of now."""


def _old(e: CheckedResponse) -> Iterator[str]:
    """Compare the times of the response with its ``Date``, and its time in caches with its freshness."""
    now_us = e.as_of_us
    stated = e.stated.get("timestamp")
    stamps = e.time_us
    if now_us is None:
        return
    has_own_time = "end" in e.requested and e.endpoint is not None and e.endpoint.path == _BOOK
    late = 0
    if isinstance(stated, str) and not has_own_time:
        late = now_us - int(times.micros([stated])[0])
    if abs(late) > _LATE_US:
        side = "before" if late > 0 else "after"
        yield (
            f"the timestamp of the response is {stated}, {abs(late) / HOUR_US:.1f} hours {side} its "
            "Date header"
        )
    elif stamps is not None and (stamps > now_us + e.step_us + _LATE_US).any():
        yield f"{int((stamps > now_us).sum())} rows are later than the Date header of the response"
    fresh_seconds = _LATE_US / 1e6
    if e.endpoint is not None:
        fresh_seconds += e.endpoint.fresh_seconds
    is_past = e.window_us is not None and e.window_us[1] < now_us - e.response.age * 1e6
    if e.response.age > fresh_seconds and not is_past:
        hours = e.response.age / 3600
        yield (
            f"the response is {hours:.1f} hours old and comes from a cache between the source and this "
            "machine"
        )


def _unsorted_rows(e: CheckedResponse) -> Iterator[str]:
    """Check rows of open tables: duplicates, listed symbols without rows, and unsorted times."""
    if e.table is not None or not e.size:
        return
    rows = pd.DataFrame({name: values for name, values in e.columns.items() if name != "place"})
    if duplicates := int(rows.astype(str).duplicated().sum()):
        yield f"{duplicates} rows are duplicates"
    listed = [word for word in _wide(e) if isinstance(word, str)]
    names_in_rows = {*rows.columns, *rows.get("key", ()), *rows.get("symbol", ())}
    present = {*listed} & names_in_rows
    if len(listed) > len(present):
        yield f"the response has rows for only {len(present)} of the {len(listed)} symbols that it lists"
    keys = [rows[name].astype(str) for name in ("part", "key", *_SERIES) if name in rows]
    for name in ("timestamp", "t", "date", "day"):
        if name not in rows:
            continue
        for series, series_times in rows[name].dropna().astype(str).groupby(keys):
            if not series_times.is_monotonic_increasing and not series_times.is_monotonic_decreasing:
                yield f"times of {' '.join(series)} are not sorted"
                break


_SERIES = ("symbol", "dex", "dex_name", "coin", "outcome_id", "venue", "builder", "address")


RULES = (
    Rule("impossible figure", "error", _impossible),
    Rule("another subject", "error", _other_subject),
    Rule("another exchange", "error", _other_exchange, "exchange_id"),
    Rule("another range", "error", _other_range),
    Rule("one venue twice", "error", _spelled_twice, "exchange"),
    Rule("another unit", "error", partial(_other_unit, is_understood=True)),
    Rule("another resolution", "error", partial(_other_resolution, coarser=False)),
    Rule("name against option", "error", names_against_options, "instrument_name strike side"),
    Rule("name against expiry", "error", names_against_expiries, "instrument_name expiry"),
    Rule("raw rate against rate", "error", _raw_rates, "rate_native"),
    Rule("another window", "error", _other_window),
    Rule("old snapshot", "notice", _old),
    *(Rule(name, "error", partial(related, name=name, relations=r)) for name, r in PROMISED.items()),
    Rule("date as expiry", "notice", _dated_expiry, "expiry"),
    Rule("edge of the window", "notice", _edge),
    Rule("coarser resolution", "notice", partial(_other_resolution, coarser=True)),
    Rule("unknown unit", "notice", partial(_other_unit, is_understood=False)),
    Rule("more than the limit", "notice", _beyond_limit),
    Rule("odd venue", "notice", _odd_venue, "exchange"),
    Rule("unread name", "notice", unread_names, "instrument_name strike side"),
    Rule("option twice", "notice", options_twice, "instrument_name strike side"),
    Rule("rows in disorder", "notice", _unsorted_rows),
    Rule("listed without rows", "notice", _listed_without_rows),
    Rule("interval against payments", "notice", _contradicted_interval, "interval_hours payment_count kind"),
    Rule("unit change", "notice", _unit_change, "time"),
    Rule("unlike peers", "notice", _unlike_peers, "time exchange"),
    Rule("beyond all markets", "notice", beyond_markets),
    Rule("unlike Black 1976", "notice", unlike_black, "expiry iv strike underlying_price side"),
    Rule("unlikely snapshot", "notice", unlikely_snapshots, "exchange"),
    Rule("unlikely column", "notice", unlikely_columns),
    Rule("unlikely chain", "notice", unlikely_chains, "expiry"),
    Rule("unlikely value", "notice", unlikely_values),
    Rule("other size", "notice", other_sizes),
    Rule("impossible pattern", "notice", impossible_patterns, "time exchange"),
    Rule("payments off the hour", "notice", _off_hour, "time kind interval_hours"),
    *(Rule(name, "notice", partial(related, name=name, relations=r)) for name, r in LIKELY.items()),
)
"""All rules about one response, in the order in which they run.

Impossible figures come first: a negative interval cannot be compared with the time between payments.
"""
