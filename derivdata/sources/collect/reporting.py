"""Reports of the collector: a line in a terminal, the status of an archive, and alerts posted to a URL."""

from __future__ import annotations

import hashlib
import hmac
import json
import queue
import re
import shutil
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple, TextIO
from urllib.parse import urlsplit

import pandas as pd

from derivdata import tables
from derivdata.client.transport.adapter import KeylessSession, persist, refusal
from derivdata.errors import NetworkError, VenueError
from derivdata.sources import Query
from derivdata.sources.archive import Archive
from derivdata.sources.collect.session import Clock
from derivdata.sources.venues.registry import VENUES
from derivdata.support import times
from derivdata.support.text import did_you_mean, escape_controls

_HOUR = pd.Timedelta(1, "h")
_FIRST = pd.Timestamp("2009-01-03", tz="UTC")  # before any row of a market
_GAUGES = {
    "rows_last_hour": "Rows of the last hour.",
    "lag_minutes": "Minutes since the end of the last answered window.",
    "holes": "Gaps between answered windows that are longer than the time between two polls.",
    "failed": "Windows whose requests failed.",
}
_STATUS = "exchange table last_row rows_last_hour lag_minutes holes failed last_error".split()
_REFILLED_WITHIN = pd.Timedelta(75, "min")
"""Maximum age of the last response of an hourly refill: an hour, and the minutes that it may take."""
_WINDOW_SECONDS = 60.0  # window of each poll in older ledgers; now windows last until the next poll


class StatusLine:
    """A line at the bottom of a terminal or under a notebook's cell that is replaced by each text."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream
        self._width = 0
        self._lock = threading.Lock()

    def show(self, text: str) -> None:
        """Replace the line; may be called by any thread."""
        stream = self._stream or sys.stderr
        # Files, pipes and journals cannot replace a line.
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
        """End the line: clear it, or with `keep` leave its text and go to the next line."""
        stream = self._stream or sys.stderr
        with self._lock:
            if not self._width:
                return
            if keep:
                stream.write("\n")
            else:
                stream.write(f"\r{' ' * self._width}\r")
            stream.flush()
            self._width = 0


@dataclass
class Minute:
    """Rows written in a minute, and errors."""

    time: pd.Timestamp
    rows: dict[str, int] = field(default_factory=dict)  # rows written, by table
    # Errors of tables or requests of venues, by ``"venue table"``
    failed: dict[str, str] = field(default_factory=dict)
    gone: dict[str, str] = field(default_factory=dict)  # venues that block this address, with the error
    changed: dict[str, str] = field(default_factory=dict)  # changes of a venue's list, by request
    dropped: int = 0  # removed old rows

    def json(self) -> str:
        """Return the minute as one line of JSON."""
        return json.dumps({**asdict(self), "time": str(self.time)})

    def line(self) -> str:
        """Return the minute as one line of text."""
        rows = ", ".join(f"{count:,} {table}" for table, count in sorted(self.rows.items()) if count)
        texts = [f"{self.time:%Y-%m-%d %H:%M:%S}", rows or "no rows"]
        groups = {"failed": self.failed, "unavailable": self.gone, "lists changed": self.changed}
        texts += [f"{title}: {', '.join(sorted(names))}" for title, names in groups.items() if names]
        if self.dropped:
            texts.append(f"{self.dropped:,} old rows dropped")
        return "; ".join(texts)


def status(archive: Archive, now: pd.Timestamp) -> pd.DataFrame:
    """Return collected rows, holes between successful windows, and failed windows by venue and table."""
    rows = []
    ledger = archive.requests()
    for (exchange, table), requests in ledger.groupby(["exchange", "table"], sort=True):
        answered = requests[requests["answered"]]
        failed = requests[~requests["answered"]]
        recent = archive.rows(Query(table, now - _HOUR, now + _HOUR, None, [exchange], ["time"]))
        newest = archive.newest(Query(table, _FIRST, now + _HOUR, None, [exchange]))
        lag = None
        if len(answered):
            lag = max(round((now - answered["end"].max()).total_seconds() / 60, 1), 0.0)
        last_error = ""
        if len(failed):
            last_error = failed["error"].iloc[-1]
        rows.append(
            {
                "exchange": exchange,
                "table": table,
                "last_row": newest["time"].max(),  # NaT without rows
                "rows_last_hour": len(recent),
                "lag_minutes": lag,
                "holes": _holes(answered, _between_polls(exchange, table)),
                "failed": len(failed),
                "last_error": last_error,
            }
        )
    return pd.DataFrame(rows, columns=_STATUS)


def late(archive: Archive, now: pd.Timestamp, limit: pd.Timedelta) -> list[str]:
    """Return the collected venues and tables whose last response is older than a limit.

    Tables requested by symbol are refilled once an hour, and have 75 more minutes. If the last request is
    that much older than the archive's newest request, the table was dropped on purpose or backfilled once.
    """
    overdue = []
    ledger = archive.requests()
    newest_request = min(ledger["end"].max(), now)
    for (exchange, table), requests in ledger.groupby(["exchange", "table"], sort=True):
        allowed = limit
        if requests["symbol"].notna().all():
            allowed += _REFILLED_WITHIN
        answered = requests.loc[requests["answered"], "end"].max()
        is_collected = requests["end"].max() >= newest_request - limit - _REFILLED_WITHIN
        if is_collected and not (answered >= now - allowed):  # NaT is overdue, too
            overdue.append(f"{exchange} {table}")
    return overdue


def prometheus(rows: pd.DataFrame) -> str:
    """Return the rows of `status` in Prometheus' text format, with a gauge for each figure."""
    lines = []
    for name, words in _GAUGES.items():
        lines += [f"# HELP derivdata_{name} {words}", f"# TYPE derivdata_{name} gauge"]
        for exchange, table, value in rows[["exchange", "table", name]].itertuples(index=False):
            if pd.notna(value):
                lines.append(f'derivdata_{name}{{exchange="{exchange}",table="{table}"}} {value}')
    return "\n".join(lines)


def _between_polls(exchange: str, table: str) -> pd.Timedelta:
    """Return the gap between the windows of two polls of a table's slowest endpoint."""
    gap = 0.0
    if exchange in VENUES:
        for endpoint in VENUES[exchange].endpoints:
            if table in endpoint.tables and endpoint.every is not None:
                gap = max(gap, endpoint.every - _WINDOW_SECONDS)
    return pd.Timedelta(gap, "s")


def _holes(answered: pd.DataFrame, usual: pd.Timedelta) -> int:
    """Count the gaps between successful windows of each symbol that are longer than usual."""
    count = 0
    for _, windows in answered.sort_values("start").groupby("symbol", dropna=False):
        gaps = windows["start"] - windows["end"].cummax().shift()
        count += int((gaps > usual).sum())
    return count


SIGNATURE = "X-Derivdata-Signature"
"""Header with ``sha256=`` and the HMAC of timestamp, a dot and the body, under the user's secret."""
TIMESTAMP = "X-Derivdata-Timestamp"
"""Header with the Unix time in seconds, which is part of the signed text."""

_TRIES = 6
_RECENT = pd.Timedelta(1, "h")
_INSTANT = pd.Timedelta(1, "us")
_COMPARISONS: dict[str, Callable[[pd.Series, float], pd.Series]] = {
    ">=": lambda values, limit: values >= limit,
    "<=": lambda values, limit: values <= limit,
    ">": lambda values, limit: values > limit,
    "<": lambda values, limit: values < limit,
}
_NUMBER = r"[-+]?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?"
_THRESHOLD = re.compile(rf"(abs )?(\w+)\.(\w+) *(>=|<=|>|<) *({_NUMBER})", re.ASCII)
_GAP = re.compile(r"gap (\w+) (\w+)", re.ASCII)
_FILTER = re.compile(r"\b(symbol|exchange)=([^\s,]+(?:,[^\s,]+)*)")
_SILENT = re.compile(r"silent (\w+)", re.ASCII)
_FORMS = (
    "'funding_history.rate_bps_8h > 20', 'abs funding_history.rate_bps_8h > 20', "
    "'gap oi_history 30m' or 'silent 15m', each with symbol=… or exchange=… after it"
)


class Breach(NamedTuple):
    """A series or venue that breaks a rule: name, value, and time of its last row."""

    series: str
    value: float | None
    time: pd.Timestamp | None


@dataclass(frozen=True)
class AlertRule:
    """A rule on one table, or on the requests of venues.

    Attributes
    ----------
    text
        The rule as written by the user.
    kind
        ``threshold``: the newest value of a series satisfies a comparison. ``gap``: the last row of a series
        is older than a length. ``silent``: the last answered request of a venue is older than a length.
    table, column, comparison, limit, absolute
        Fields of a threshold; a gap has `table`, too.
    length
        Length of a gap or of silence.
    symbols, venues
        Symbols and venues of the rule; None is all.
    """

    text: str
    kind: Literal["threshold", "gap", "silent"]
    table: str = ""
    column: str = ""
    comparison: str = ""
    limit: float = 0.0
    absolute: bool = False
    length: pd.Timedelta | None = None
    symbols: tuple[str, ...] | None = None
    venues: tuple[str, ...] | None = None

    def breaches(self, archive: Archive, now: pd.Timestamp) -> list[Breach]:
        """Return the series or venues that break the rule."""
        if self.kind == "silent":
            return list(self._silent(archive, now))
        if self.kind == "gap":
            return self._gaps(archive, now)
        rows = archive.newest(Query(self.table, now - _RECENT, now + _INSTANT, self.symbols, self.venues))
        values = rows[self.column]
        if self.absolute:
            values = values.abs()
        broken = _COMPARISONS[self.comparison](values, self.limit).fillna(False).astype(bool)
        values = values[broken].astype(float)  # without missing values: they satisfy no comparison
        return list(map(Breach, _series_of(rows[broken]), values, rows.loc[broken, "time"]))

    def _gaps(self, archive: Archive, now: pd.Timestamp) -> list[Breach]:
        """Return the series of a ``gap`` rule whose last row is too old."""
        rows = archive.newest(Query(self.table, _FIRST, now + _INSTANT, self.symbols, self.venues))
        late_rows = rows[rows["time"] < now - self.length]
        names = _series_of(late_rows)
        return [Breach(name, None, time) for name, time in zip(names, late_rows["time"], strict=True)]

    def _silent(self, archive: Archive, now: pd.Timestamp) -> Iterator[Breach]:
        """Yield the venues of a ``silent`` rule whose last response is too old or missing."""
        ledger = archive.requests()
        for exchange, requests in ledger.groupby("exchange", sort=True):
            if self.venues is not None and str(exchange) not in self.venues:
                continue
            last = requests.loc[requests["answered"], "end"].max()
            if pd.isna(last):
                yield Breach(str(exchange), None, None)
            elif last < now - self.length:
                yield Breach(str(exchange), None, last)


def _series_of(rows: pd.DataFrame) -> pd.Series:
    return rows["exchange"].astype(str) + " " + rows["symbol"].astype(str)


def parse_rule(text: str) -> AlertRule:
    """Return the rule of a text.

    Raises
    ------
    ValueError
        The text has another form, or names a table, column or filter that does not exist.
    """
    filters = {name: tuple(values.split(",")) for name, values in _FILTER.findall(text)}
    body = " ".join(_FILTER.sub(" ", text).split())
    common: dict[str, Any] = {
        "text": text,
        "symbols": filters.get("symbol"),
        "venues": filters.get("exchange"),
    }
    if match := _SILENT.fullmatch(body):
        return AlertRule(kind="silent", length=times.length(match[1], "silent"), **common)
    if match := _GAP.fullmatch(body):
        table = _table(match[1])
        return AlertRule(kind="gap", table=table, length=times.length(match[2], "gap"), **common)
    match = _THRESHOLD.fullmatch(body)
    if match is None:
        raise ValueError(f"alert rule {text!r}: expected {_FORMS}")
    absolute, name, column, comparison, limit = match.groups()
    table = _table(name)
    columns = list(tables.TABLES[table].columns)
    if column not in columns:
        raise ValueError(
            f"alert rule {text!r}: {table} has no column {column!r}{did_you_mean(column, columns)}"
        )
    return AlertRule(
        kind="threshold",
        table=table,
        column=column,
        comparison=comparison,
        limit=float(limit),
        absolute=absolute is not None,
        **common,
    )


def _table(name: str) -> str:
    """Return the name of a table that rules may use; raise `ValueError` for another one."""
    rows = [n for n, table in tables.TABLES.items() if {"symbol", "exchange", "time"} <= set(table.key)]
    if name not in rows:
        raise ValueError(
            f"table must have the columns symbol, exchange and time, got {name!r}{did_you_mean(name, rows)}"
        )
    return name


def signed_headers(secret: str, body: bytes, now: pd.Timestamp) -> dict[str, str]:
    """Return the headers with which a receiver verifies a body and its age."""
    stamp = str(int(now.timestamp()))
    digest = hmac.new(secret.encode(), stamp.encode() + b"." + body, hashlib.sha256).hexdigest()
    return {TIMESTAMP: stamp, SIGNATURE: f"sha256={digest}", "Content-Type": "application/json"}


@dataclass
class Alerts:
    """Check rules once a minute, and post each change of a series' state.

    Parameters
    ----------
    rules
        Rules to check.
    url, secret
        Address for alerts, and the key of their signature.
    failed
        File for undelivered alerts, one JSON object per line.
    clock
        Clock for the signed time and for waiting between tries.
    tries
        Maximum number of tries per alert, after 1, 2, 4 … seconds, at most a minute.
    log
        Called with a line about each alert that could not be delivered.
    """

    rules: Sequence[AlertRule]
    url: str
    secret: str
    failed: Path
    clock: Clock
    tries: int = _TRIES
    log: Callable[[str], None] = print
    _firing: dict[tuple[str, str], Breach] = field(default_factory=dict, init=False)
    _queue: queue.Queue[dict[str, Any] | None] = field(default_factory=queue.Queue, init=False)
    _thread: threading.Thread | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        if urlsplit(self.url).scheme not in ("http", "https") or not urlsplit(self.url).hostname:
            raise ValueError("the alert URL must begin with https:// or http:// and have a host")
        if not self.secret:
            raise ValueError(
                "alerts are signed: set DERIVDATA_ALERT_SECRET to a secret that the receiver also has"
            )

    def check(self, archive: Archive, now: pd.Timestamp) -> None:
        """Check the archive against the rules, and post each series that begins or ceases to break a rule."""
        current: dict[tuple[str, str], Breach] = {}
        for checked_rule in self.rules:
            for breach in checked_rule.breaches(archive, now):
                current[checked_rule.text, breach.series] = breach
        for (rule, series), breach in current.items():
            if (rule, series) not in self._firing:
                self._send("firing", rule, breach, now)
        for (rule, series), breach in self._firing.items():
            if (rule, series) not in current:
                self._send("resolved", rule, breach, now)
        self._firing = current

    def close(self) -> None:
        """Deliver the queued alerts, or write them to the file of failed deliveries, and end."""
        if self._thread is not None:
            self._queue.put(None)
            self._thread.join()
            self._thread = None

    def _send(self, state: str, rule: str, breach: Breach, now: pd.Timestamp) -> None:
        """Queue an alert with the state ``firing`` or ``resolved``."""
        last_row = None
        if breach.time is not None:
            last_row = times.iso(breach.time)
        self._queue.put(
            {
                "rule": rule,
                "state": state,
                "series": breach.series,
                "value": breach.value,
                "last_row": last_row,
                "time": times.iso(now),
            }
        )
        if self._thread is None:
            self._thread = threading.Thread(target=self._deliver, name="derivdata-alerts", daemon=True)
            self._thread.start()

    def _deliver(self) -> None:
        """Post queued alerts in a thread until the queue ends."""
        session = KeylessSession()
        while (alert := self._queue.get()) is not None:
            try:
                persist(partial(self._post, session, alert), _pause, self._wait, tries=self.tries)
            except (NetworkError, VenueError) as problem:
                self._keep(alert, str(problem))
        session.close()

    def _wait(self, seconds: float) -> None:
        self.clock.wait(seconds)

    def _post(self, session: KeylessSession, alert: Mapping[str, Any]) -> None:
        body = json.dumps(alert, ensure_ascii=False).encode()
        reply = session.post(self.url, body, signed_headers(self.secret, body, self.clock.utc()))
        if not 200 <= reply.status < 300:
            raise refusal("alerts", reply)

    def _keep(self, alert: Mapping[str, Any], why: str) -> None:
        """Append an undelivered alert to the file, without the URL, which may be secret."""
        line = json.dumps({**alert, "error": why}, ensure_ascii=False)
        with self.failed.open("a", encoding="utf-8") as file:
            file.write(f"{line}\n")
        host = urlsplit(self.url).hostname
        self.log(
            f"alert not delivered to {host} after {self.tries} tries, but stored in {self.failed}: {why}"
        )


def _pause(problem: VenueError | NetworkError, usual: float) -> float | None:
    """Return the seconds to the next try, or None if another try would fail in the same way."""
    if isinstance(problem, NetworkError):
        return usual
    if problem.reason == "refused":
        return None
    return max(usual, problem.retry_after or 0.0)
