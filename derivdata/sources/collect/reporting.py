"""What collecting tells: a line in a terminal, what one minute brought, and the status of an archive."""

from __future__ import annotations

import json
import shutil
import sys
import threading
from dataclasses import asdict, dataclass, field
from typing import TextIO

import pandas as pd

from derivdata.sources.archive import Archive
from derivdata.sources.query import Query
from derivdata.sources.venues.registry import VENUES
from derivdata.support.text import escape_controls

_HOUR = pd.Timedelta(1, "h")
_FIRST = pd.Timestamp("2009-01-03", tz="UTC")
_GAUGES = {
    "rows_last_hour": "Rows of the last hour.",
    "lag_minutes": "Minutes since the end of the last answered window.",
    "holes": "Holes between answered windows, longer than from one poll to the next.",
    "failed": "Windows that were not answered.",
}
_STATUS = "exchange table last_row rows_last_hour lag_minutes holes failed last_error".split()
_REFILLED_WITHIN = pd.Timedelta(75, "min")
"""How old the last answer of an hourly refill gets: an hour, and the minutes that it may take."""
_WINDOW_SECONDS = 60.0  # of a poll, however seldom, in ledgers of before windows lasted until the next one


class StatusLine:
    """A line at the bottom of a terminal, or under a notebook's cell, that each text replaces."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream
        self._width = 0
        self._lock = threading.Lock()

    def show(self, text: str) -> None:
        """Replace the line; may be called by any thread."""
        stream = self._stream or sys.stderr
        # What goes to a file, a pipe or a journal is not seen at once.
        if stream is None or not (stream.isatty() or type(stream).__module__.startswith("ipykernel")):
            return
        words = escape_controls(text)[: max(shutil.get_terminal_size().columns - 1, 20)]
        encoding = stream.encoding or "utf-8"
        words = words.encode(encoding, "backslashreplace").decode(encoding)
        with self._lock:
            stream.write(f"\r{words.ljust(self._width)}")
            stream.flush()
            self._width = len(words)

    def end(self, *, keep: bool = False) -> None:
        """Leave the line: empty it, or `keep` what it says and go to the next."""
        stream = self._stream or sys.stderr
        with self._lock:
            if self._width:
                stream.write("\n" if keep else f"\r{' ' * self._width}\r")
                stream.flush()
                self._width = 0


@dataclass
class Minute:
    """What was written at an instant, and what failed."""

    time: pd.Timestamp
    rows: dict[str, int] = field(default_factory=dict)  # rows written, by table
    # Why some tables of some venues were not answered, by ``"venue table"``
    failed: dict[str, str] = field(default_factory=dict)
    gone: dict[str, str] = field(default_factory=dict)  # venues that refuse this address, and why
    changed: dict[str, str] = field(default_factory=dict)  # what is new in a venue's list, by request
    dropped: int = 0  # rows that were older than is to be kept

    def json(self) -> str:
        """Return it as one line of JSON."""
        return json.dumps({**asdict(self), "time": str(self.time)})

    def line(self) -> str:
        """Return it as one line of text."""
        rows = ", ".join(f"{count:,} {table}" for table, count in sorted(self.rows.items()) if count)
        parts = [f"{self.time:%Y-%m-%d %H:%M:%S}", rows or "no rows"]
        told = {"failed": self.failed, "unavailable": self.gone, "lists changed": self.changed}
        parts += [f"{what}: {', '.join(sorted(names))}" for what, names in told.items() if names]
        if self.dropped:
            parts.append(f"{self.dropped:,} old rows dropped")
        return "; ".join(parts)


def status(archive: Archive, now: pd.Timestamp) -> pd.DataFrame:
    """Return per venue and table what was collected, holes between answered windows, and what failed."""
    rows = []
    ledger = archive.requests()
    for (exchange, table), requests in ledger.groupby(["exchange", "table"], sort=True):
        answered = requests[requests["answered"]]
        failed = requests[~requests["answered"]]
        recent = archive.rows(Query(table, now - _HOUR, now + _HOUR, None, [exchange], ["time"]))
        newest = archive.newest(Query(table, _FIRST, now + _HOUR, None, [exchange]))
        last = answered["end"].max() if len(answered) else None
        lag = None if last is None else max(round((now - last).total_seconds() / 60, 1), 0.0)
        rows.append(
            {
                "exchange": exchange,
                "table": table,
                "last_row": newest["time"].max() if len(newest) else pd.NaT,
                "rows_last_hour": len(recent),
                "lag_minutes": lag,
                "holes": _holes(answered, _between_polls(exchange, table)),
                "failed": len(failed),
                "last_error": failed["error"].iloc[-1] if len(failed) else "",
            }
        )
    return pd.DataFrame(rows, columns=_STATUS)


def late(archive: Archive, now: pd.Timestamp, limit: pd.Timedelta) -> list[str]:
    """Return the venues and tables that are collected and whose last answer is older than a limit.

    What is asked symbol by symbol is refilled once an hour, and has 75 minutes more. What is no longer asked,
    since that much longer than the archive's newest request, was dropped on purpose or backfilled once.
    """
    found = []
    ledger = archive.requests()
    for (exchange, table), requests in ledger.groupby(["exchange", "table"], sort=True):
        allowed = limit if requests["symbol"].isna().any() else limit + _REFILLED_WITHIN
        answered = requests.loc[requests["answered"], "end"].max()
        is_asked = requests["end"].max() >= min(ledger["end"].max(), now) - limit - _REFILLED_WITHIN
        if is_asked and not (answered >= now - allowed):
            found.append(f"{exchange} {table}")
    return found


def prometheus(rows: pd.DataFrame) -> str:
    """Return what `status` found in Prometheus' text format, a gauge for each figure."""
    lines = []
    for name, words in _GAUGES.items():
        lines += [f"# HELP derivdata_{name} {words}", f"# TYPE derivdata_{name} gauge"]
        for exchange, table, value in rows[["exchange", "table", name]].itertuples(index=False):
            if pd.notna(value):
                lines.append(f'derivdata_{name}{{exchange="{exchange}",table="{table}"}} {value}')
    return "\n".join(lines)


def _between_polls(exchange: str, table: str) -> pd.Timedelta:
    """Return what lies between the windows of two polls of the slowest endpoint of a table."""
    endpoints = VENUES[exchange].endpoints if exchange in VENUES else ()
    cadences = [one.every for one in endpoints if table in one.tables and one.every is not None]
    return pd.Timedelta(max([0.0, *(every - _WINDOW_SECONDS for every in cadences)]), "s")


def _holes(answered: pd.DataFrame, usual: pd.Timedelta) -> int:
    """Count what lies between answered windows of one symbol, or of all, and is longer than usual."""
    return sum(
        int((one["start"] - one["end"].cummax().shift() > usual).sum())
        for _, one in answered.sort_values("start").groupby("symbol", dropna=False)
    )
