"""Which venues were asked for liquidations, or listened to, and when: no rows differ from not asked.

A store that was collected has a ledger of requests (`LedgerStore`); of others nothing is known or said.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pandas as pd

from derivdata import times
from derivdata.service.store import LedgerStore
from derivdata.service.view import View

__all__ = ["Spans", "asked_spans", "notices_of", "on_wire"]

Spans = Mapping[str, list[times.Window]]
"""By venue, when it was asked or listened to; no window: never."""

_TABLE = "liquidations_fills"
_LATE = pd.Timedelta(8, "min")  # not entered yet: the last seven minutes of lists, three of streams
_MOST_NAMES = 8


def asked_spans(
    view: View,
    start: pd.Timestamp,
    end: pd.Timestamp,
    *,
    symbols: Sequence[str] | None = None,
    exchanges: Sequence[str] | None = None,
) -> Spans | None:
    """Return the parts of a window for which each venue's liquidations were asked and answered.

    Those of some symbols count where no symbols are named. The venues are those named, or all that were asked
    for anything. None: the store has no ledger.
    """
    ledger = _ledger(view)
    if ledger.empty:
        return None
    answered = ledger[(ledger["table"] == _TABLE) & ledger["answered"]]
    if symbols is not None:
        answered = answered[answered["symbol"].isna() | answered["symbol"].isin(symbols)]
    answered = answered[(answered["end"] > start) & (answered["start"] < end)]
    names = sorted(set(ledger["exchange"])) if exchanges is None else sorted(exchanges)
    return {name: _union(answered[answered["exchange"] == name], start, end) for name in names}


def notices_of(spans: Spans | None, start: pd.Timestamp, end: pd.Timestamp) -> list[str]:
    """Return a notice where some venues were not asked for all of a window."""
    if spans is None:
        return []
    length = end - start
    told = {name: sum((w.end - w.start for w in windows), pd.Timedelta(0)) for name, windows in spans.items()}
    never = [name for name, time in told.items() if time == pd.Timedelta(0)]
    partly = {
        name: time / length for name, time in told.items() if name not in never and length - time > _LATE
    }
    parts = []
    if partly:
        parts.append("for a part only: " + _listed([f"{name} {part:.0%}" for name, part in partly.items()]))
    if never:
        parts.append("not at all: " + _listed(never))
    if not parts:
        return []
    return [f"liquidations were asked or listened to {'; '.join(parts)} (no rows is then not none)"]


def on_wire(spans: Spans) -> dict[str, list[list[str]]]:
    """Return the spans as they stand in an answer."""
    return {
        name: [[times.iso(w.start), times.iso(w.end)] for w in windows] for name, windows in spans.items()
    }


def _listed(names: list[str]) -> str:
    more = len(names) - _MOST_NAMES
    return ", ".join(names[:_MOST_NAMES]) + (f" and {more} others" if more > 0 else "")


def _ledger(view: View) -> pd.DataFrame:
    """Return the store's ledger, read again only when the store has changed; empty where it has none."""
    if not isinstance(view.store, LedgerStore):
        return pd.DataFrame()
    key = ("ledger", view.store.version)
    kept = view.recall(key)
    if kept is None:
        kept = view.store.requests()
        view.remember(key, kept, 100 * len(kept) + 1024)
    return kept


def _union(rows: pd.DataFrame, start: pd.Timestamp, end: pd.Timestamp) -> list[times.Window]:
    """Return windows in order, cut to one, those that touch or overlap as one."""
    result: list[times.Window] = []
    for row in rows.sort_values("start").itertuples():
        first, last = max(row.start, start), min(row.end, end)
        if result and first <= result[-1].end:
            result[-1] = times.Window(result[-1].start, max(last, result[-1].end))
        else:
            result.append(times.Window(first, last))
    return result
