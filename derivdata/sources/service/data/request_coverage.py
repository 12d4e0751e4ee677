"""Times for which each venue's liquidations were requested or streamed.

They distinguish an empty result from missing requests. A collected store has a ledger of requests
(`LedgerStore`); other stores give no notice.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import pandas as pd

from derivdata.sources.service.data.store import LedgerStore
from derivdata.sources.service.data.view import View
from derivdata.support import times


class RequestCoverage(NamedTuple):
    """Windows in which each venue was requested for all wanted symbols."""

    spans: Mapping[str, list[times.Window]]
    some: Mapping[str, list[str]]  # of venues without such a window: the symbols that were requested


_TABLE = "liquidations_fills"
_LATE = pd.Timedelta(8, "min")  # the ledger is up to 7 minutes late for polled lists, 3 for streams
_MOST_NAMES = 8
_EMPTY = "(an empty result does not mean that there were none)"


def requested_spans(
    view: View,
    start: pd.Timestamp,
    end: pd.Timestamp,
    *,
    symbols: Sequence[str] | None = None,
    venues: Sequence[str] | None = None,
) -> RequestCoverage | None:
    """Return the windows with successful requests for all symbols of each venue; None without a ledger."""
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
        spans[name] = _common_spans(rows, own, symbols, start, end)
        if own and not spans[name]:
            some[name] = own
    return RequestCoverage(spans, some)


def notices_of(coverage: RequestCoverage | None, start: pd.Timestamp, end: pd.Timestamp) -> list[str]:
    """Return a notice if some venues were not requested for the whole window."""
    if coverage is None:
        return []
    length = end - start
    zero = pd.Timedelta(0)
    covered = {name: sum((w.end - w.start for w in spans), zero) for name, spans in coverage.spans.items()}
    partly = [f"{name} {time / length:.0%}" for name, time in covered.items() if zero < time < length - _LATE]
    never = [name for name, time in covered.items() if time == zero and name not in coverage.some]
    gaps = []
    if partly:
        gaps.append("for a part only: " + _listed(partly))
    if coverage.some:
        of_symbols = [f"{name} ({_listed(symbols)})" for name, symbols in coverage.some.items()]
        gaps.append("for some symbols only: " + _listed(of_symbols))
    if never:
        gaps.append("not at all: " + _listed(never))
    if not gaps:
        return []
    return [f"liquidations were requested or streamed {'; '.join(gaps)} {_EMPTY}"]


def never_requested(
    view: View,
    table: str,
    symbol: str,
    start: pd.Timestamp,
    end: pd.Timestamp,
    *,
    venues: Sequence[str] | None = None,
) -> list[str]:
    """Return a notice if no venue responded for any time in a window; empty without a ledger."""
    ledger = _ledger(view)
    if ledger.empty:
        return []
    about = (ledger["symbol"].isna() | (ledger["symbol"] == symbol)) & (ledger["table"] == table)
    inside = (ledger["end"] > start) & (ledger["start"] < end)
    named = True if venues is None else ledger["exchange"].isin(venues)
    requested = ledger[about & inside & named]
    if requested["answered"].any():
        return []
    rows = f"{table} of {symbol} in this range was"
    failed = sorted(set(requested["exchange"]))
    if failed:
        return [f"{rows} requested from {_listed(failed)} without a response {_EMPTY}"]
    sources = "any venue" if venues is None else _listed(sorted(venues))
    return [f"{rows} never requested from {sources} {_EMPTY}"]


def on_wire(coverage: RequestCoverage) -> dict[str, list[list[str]]]:
    """Return the spans as lists of ISO times for a response."""
    return {
        name: [[times.iso(w.start), times.iso(w.end)] for w in windows]
        for name, windows in coverage.spans.items()
    }


def _listed(names: list[str]) -> str:
    """Join names, with the number of names beyond the first eight."""
    more = len(names) - _MOST_NAMES
    return ", ".join(names[:_MOST_NAMES]) + (f" and {more} others" if more > 0 else "")


def _ledger(view: View) -> pd.DataFrame:
    """Return the store's ledger, cached until the store changes; empty if the store keeps no ledger."""
    store = view.store
    return view.once("ledger", store.requests) if isinstance(store, LedgerStore) else pd.DataFrame()


def _common_spans(
    rows: pd.DataFrame,
    own: Sequence[str],
    symbols: Sequence[str] | None,
    start: pd.Timestamp,
    end: pd.Timestamp,
) -> list[times.Window]:
    """Return the windows in which a venue was requested for every symbol.

    The symbols in `own` have ledger entries of their own, in addition to entries for all symbols.
    """
    # A symbol without own entries has only the entries for all symbols. Every symbol's windows include those,
    # so they are the common windows.
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
    """Return the union of windows, sorted and cut to ``[start, end)``."""
    result: list[times.Window] = []
    for row in rows.sort_values("start").itertuples():
        first = max(row.start, start)
        last = min(row.end, end)
        if result and first <= result[-1].end:
            result[-1] = times.Window(result[-1].start, max(last, result[-1].end))
        else:
            result.append(times.Window(first, last))
    return result
