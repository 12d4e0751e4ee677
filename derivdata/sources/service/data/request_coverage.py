"""Which venues were asked, or listened to, and when: no rows differ from not asked.

A store that was collected has a ledger of requests (`LedgerStore`); of others nothing is known or said.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import pandas as pd

from derivdata.sources.service.data.store import LedgerStore
from derivdata.sources.service.data.view import View
from derivdata.support import times


class RequestCoverage(NamedTuple):
    """By venue, when it was asked for all that a question wants, and otherwise for which symbols."""

    spans: Mapping[str, list[times.Window]]
    some: Mapping[str, list[str]]  # of venues without a window, and asked for some of the symbols


_TABLE = "liquidations_fills"
_LATE = pd.Timedelta(8, "min")  # not entered yet: the last seven minutes of lists, three of streams
_MOST_NAMES = 8


def requested_spans(
    view: View,
    start: pd.Timestamp,
    end: pd.Timestamp,
    *,
    symbols: Sequence[str] | None = None,
    venues: Sequence[str] | None = None,
) -> RequestCoverage | None:
    """Return when each venue was asked for all that is named, and answered; None without a ledger."""
    ledger = _ledger(view)
    if ledger.empty:
        return None
    answered = ledger[(ledger["table"] == _TABLE) & ledger["answered"]]
    answered = answered[(answered["end"] > start) & (answered["start"] < end)]
    if symbols is not None:
        answered = answered[answered["symbol"].isna() | answered["symbol"].isin(symbols)]
    names = sorted(set(ledger["exchange"])) if venues is None else sorted(venues)
    spans: dict[str, list[times.Window]] = {}
    some: dict[str, list[str]] = {}
    for name in names:
        rows = answered[answered["exchange"] == name]
        own = sorted(set(rows["symbol"].dropna()))
        spans[name] = _of_each(rows, own, symbols, start, end)
        if own and not spans[name]:
            some[name] = own
    return RequestCoverage(spans, some)


def notices_of(coverage: RequestCoverage | None, start: pd.Timestamp, end: pd.Timestamp) -> list[str]:
    """Return a notice where some venues were not asked for all of a window."""
    if coverage is None:
        return []
    length = end - start
    zero = pd.Timedelta(0)
    told = {name: sum((w.end - w.start for w in spans), zero) for name, spans in coverage.spans.items()}
    partly = [f"{name} {time / length:.0%}" for name, time in told.items() if zero < time < length - _LATE]
    never = [name for name, time in told.items() if time == zero and name not in coverage.some]
    parts = []
    if partly:
        parts.append("for a part only: " + _listed(partly))
    if coverage.some:
        of = [f"{name} ({_listed(symbols)})" for name, symbols in coverage.some.items()]
        parts.append("for some symbols only: " + _listed(of))
    if never:
        parts.append("not at all: " + _listed(never))
    if not parts:
        return []
    return [f"liquidations were asked or listened to {'; '.join(parts)} (no rows is then not none)"]


def never_requested(
    view: View,
    table: str,
    symbol: str,
    start: pd.Timestamp,
    end: pd.Timestamp,
    *,
    venues: Sequence[str] | None = None,
) -> list[str]:
    """Return a notice where no venue has answered for any part of a window; none without a ledger."""
    ledger = _ledger(view)
    if ledger.empty:
        return []
    about = (ledger["symbol"].isna() | (ledger["symbol"] == symbol)) & (ledger["table"] == table)
    inside = (ledger["end"] > start) & (ledger["start"] < end)
    named = True if venues is None else ledger["exchange"].isin(venues)
    requested = ledger[about & inside & named]
    if requested["answered"].any():
        return []
    what = f"{table} of {symbol} in this range was"
    failed = sorted(set(requested["exchange"]))
    if failed:
        return [f"{what} requested of {_listed(failed)} without an answer (no rows is then not none)"]
    whom = "any venue" if venues is None else _listed(sorted(venues))
    return [f"{what} never requested of {whom} (no rows is then not none)"]


def on_wire(coverage: RequestCoverage) -> dict[str, list[list[str]]]:
    """Return the spans as a response shows them."""
    return {
        name: [[times.iso(w.start), times.iso(w.end)] for w in windows]
        for name, windows in coverage.spans.items()
    }


def _listed(names: list[str]) -> str:
    more = len(names) - _MOST_NAMES
    return ", ".join(names[:_MOST_NAMES]) + (f" and {more} others" if more > 0 else "")


def _ledger(view: View) -> pd.DataFrame:
    """Return the store's ledger, read again only when the store has changed; empty where it has none."""
    store = view.store
    return view.once("ledger", store.requests) if isinstance(store, LedgerStore) else pd.DataFrame()


def _of_each(
    rows: pd.DataFrame,
    own: Sequence[str],
    symbols: Sequence[str] | None,
    start: pd.Timestamp,
    end: pd.Timestamp,
) -> list[times.Window]:
    """Return when a venue was asked for every symbol; symbols in `own` also have their own entries."""
    # Symbols without entries of their own have the windows of all, which those of the others include.
    if symbols is None or not set(symbols) <= set(own):
        return _union(rows[rows["symbol"].isna()], start, end)
    common: list[times.Window] | None = None
    for symbol in own:
        spans = _union(rows[rows["symbol"].isna() | (rows["symbol"] == symbol)], start, end)
        if common is not None:
            pairs = ((max(a.start, b.start), min(a.end, b.end)) for a in common for b in spans)
            spans = [times.Window(first, last) for first, last in pairs if first < last]
        common = spans
    return common or []


def _union(rows: pd.DataFrame, start: pd.Timestamp, end: pd.Timestamp) -> list[times.Window]:
    """Return windows in order, cut to one, those that touch or overlap as one."""
    result: list[times.Window] = []
    for row in rows.sort_values("start").itertuples():
        first = max(row.start, start)
        last = min(row.end, end)
        if result and first <= result[-1].end:
            result[-1] = times.Window(result[-1].start, max(last, result[-1].end))
        else:
            result.append(times.Window(first, last))
    return result
