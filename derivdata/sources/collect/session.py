"""Requests to one venue, paced by its budget and repeated after errors; files and clock of the collector."""

from __future__ import annotations

import _thread
import copy
import hashlib
import math
import os
import queue
import signal
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeVar

import msgspec
import pandas as pd
from platformdirs import user_data_path

from derivdata.client.transport.adapter import (
    LONGEST_BAN,
    LONGEST_WAIT,
    KeylessReply,
    KeylessSession,
    Turns,
    Unreachable,
    persist,
    refusal,
    stated_wait,
)
from derivdata.client.transport.response import http_date
from derivdata.errors import ArchiveError, DerivdataError, NetworkError, SchemaError, VenueError
from derivdata.sources import venues
from derivdata.sources.venues.endpoint import Venue, VenueEndpoint
from derivdata.sources.venues.reading import Context, Reading
from derivdata.sources.venues.record_types import Instrument, Records
from derivdata.sources.venues.tabulation import frames
from derivdata.support import times
from derivdata.support.files import TEMPORARY, csv_text, private_folder, replace_file
from derivdata.support.forking import DECODERS

QUARANTINE = "quarantine"
"""The folder's name within an archive."""
_MAX_BODIES = 100
_MAX_BODY_BYTES = 256 * 2**10  # a longer body is truncated, and its file says so
_CHECKS = "venues-checked.json"


def data_folder() -> Path:
    """Return ``DERIVDATA_DATA_DIR``, or the library's folder for data of this user."""
    configured = os.environ.get("DERIVDATA_DATA_DIR")
    try:
        if configured:
            return Path(configured).expanduser()
        return user_data_path("derivdata").expanduser()
    except RuntimeError:
        raise ArchiveError(
            "this user has no home folder in which to store responses of the venues: pass a folder, "
            'dd.connect("venues", archive=...), or set DERIVDATA_DATA_DIR'
        ) from None


def checked_on() -> dict[str, str]:
    """Return the day on which each endpoint was last confirmed, by "exchange path"."""
    try:
        days: dict[str, str] = DECODERS[dict[str, str]].decode((data_folder() / _CHECKS).read_bytes())
    except (OSError, ArchiveError, msgspec.DecodeError):
        return {}  # the file is missing or damaged, or the user has no home folder
    return days


def is_collected(endpoint: VenueEndpoint, *, unconfirmed: bool) -> bool:
    """Return whether to use an endpoint: confirmed by the specification or a check, or any if allowed."""
    return endpoint.confirmed or unconfirmed or f"{endpoint.exchange} {endpoint.path}" in checked_on()


def keep_checks(confirmed: Mapping[str, str], contradicted: list[str]) -> None:
    """Store confirmed endpoints, and remove contradicted ones."""
    days = {**checked_on(), **confirmed}
    for name in contradicted:
        days.pop(name, None)
    path = data_folder() / _CHECKS
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_file(path, msgspec.json.encode(days, order="sorted"))


def write_checks(path: Path, checks: pd.DataFrame, day: str) -> None:
    """Write the results of a check, one line of JSON per request, without addresses and keys."""
    rows = checks[["exchange", "path_or_channel", "mark", "verdict", "rows"]].assign(verified_on=day)
    replace_file(path, rows.to_json(orient="records", lines=True).encode())


class Quarantine:
    """A folder of unreadable bodies, the newest for each error of each request, and of doubtful rows.

    At most 100 bodies are stored. Doubtful rows are not limited, since they may be right. Their files have
    complete rows of a table, which ``derivdata import`` can read. Requests have no key, so the files have
    none. Without a folder nothing is stored.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder

    def keep(self, exchange: str, request: str, body: bytes, error: str, at: pd.Timestamp) -> str:
        """Store a body; return its error with the file's name, or with the reason it could not be stored."""
        if self.folder is None:
            return error
        endpoint = request.partition("?")[0]
        kind = hashlib.blake2b(f"{exchange} {endpoint} {error}".encode(), digest_size=6).hexdigest()
        description = {
            "exchange": exchange,
            "request": request,
            "at": at.isoformat(),
            "error": error,
            "bytes": len(body),
            "is_cut": len(body) > _MAX_BODY_BYTES,
            "body": body[:_MAX_BODY_BYTES].decode(errors="backslashreplace"),
        }
        path = self.folder / f"{exchange}-{kind}.json"
        try:
            private_folder(self.folder)
            replace_file(path, msgspec.json.format(msgspec.json.encode(description)))
            files = [p for p in self.folder.glob("*.json") if not p.name.startswith(TEMPORARY)]
            for old in sorted(files, key=lambda p: (p == path, _modified(p)))[:-_MAX_BODIES]:
                old.unlink(missing_ok=True)
        except OSError as problem:  # a full disk must not end the collector
            return f"{error} (body not stored: {problem})"
        return f"{error} (body stored as {path.name})"

    def keep_records(
        self, exchange: str, names: Iterable[str], records: Records | None, at: pd.Timestamp
    ) -> None:
        """Add doubtful records to the files of the day, as rows of the given tables."""
        if records is None or self.folder is None:
            return
        for table in names:
            try:
                rows = frames(exchange, records, [table], at=times.us(at))[table]
            except SchemaError as problem:  # the records do not fit the table at all
                self.keep(exchange, table, msgspec.json.encode(records), str(problem), at)
                continue
            self.keep_rows(exchange, table, rows, f"{at:%Y-%m-%d}")

    def keep_rows(self, exchange: str, table: str, rows: pd.DataFrame, group: str) -> str:
        """Add new rows of a table to the file of a `group`; return a text with its name, or the failure."""
        if self.folder is None or rows.empty:
            return "rows not stored"
        path = self.folder / f"{exchange}-{table}-{group}.csv"
        try:
            private_folder(self.folder)
            lines = csv_text(rows).encode().splitlines(keepends=True)
            if path.exists():
                stored = {*path.read_bytes().splitlines(keepends=True)}
                with path.open("ab") as file:
                    file.writelines(line for line in lines if line not in stored)
            else:
                replace_file(path, b"".join(lines))
        except OSError as problem:
            return f"rows not stored: {problem}"
        return f"rows stored as {path.name}"


def _modified(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:  # another collector has removed it
        return 0.0


_LOOK_SECONDS = 0.2  # delay until a wait for another thread notices that collecting was stopped

T = TypeVar("T")


class Clock(Protocol):
    """Interface of the clock that collecting uses."""

    def utc(self) -> pd.Timestamp:
        """Return the current time in UTC."""
        ...

    def wait(self, seconds: float) -> bool:
        """Wait; return whether collecting should stop instead."""
        ...

    def receive(self, source: queue.SimpleQueue[T], seconds: float | None) -> T | None:
        """Wait for an item of another thread; None after `seconds`, or if collecting should stop."""
        ...

    def stop(self) -> None:
        """End every wait, now and from now on."""
        ...


class MachineClock:
    """The machine's clock; `stop` ends every wait at once."""

    def __init__(self) -> None:
        self._stopped = threading.Event()

    def utc(self) -> pd.Timestamp:
        """Return the current time in UTC."""
        return pd.Timestamp(times.machine_now()).as_unit("us")

    def wait(self, seconds: float) -> bool:
        """Wait; return whether collecting should stop instead."""
        return self._stopped.wait(max(seconds, 0.0))

    def receive(self, source: queue.SimpleQueue[T], seconds: float | None) -> T | None:
        """Wait for an item of another thread; None after `seconds`, or if collecting should stop."""
        ends = math.inf
        if seconds is not None:
            ends = time.monotonic() + seconds
        while not self._stopped.is_set():
            left = min(_LOOK_SECONDS, ends - time.monotonic())
            try:
                return source.get(timeout=max(left, 0.0))
            except queue.Empty:
                if time.monotonic() >= ends:
                    return None
        return None

    def stop(self) -> None:
        """End every wait, now and from now on."""
        self._stopped.set()

    def stop_on(self, signals: Sequence[signal.Signals]) -> None:
        """Stop when the process receives one of `signals`; must be called in the main thread."""
        for number in signals:
            # A handler runs between two steps of the main thread, which may have acquired the lock that
            # `stop` needs. So another thread calls `stop`; `_thread` starts it without a lock of `threading`.
            signal.signal(number, lambda *_: _thread.start_new_thread(self.stop, ()))


_TRIES = 7
_NOTICE_SKEW_SECONDS = 5.0
_MAX_SKEW_SECONDS = 60.0
_TEMPORARY_REASONS = ("limit", "busy")


class Stopped(DerivdataError):
    """Collecting was stopped."""


class Contracts:
    """Traded contracts of a venue: the preferred perpetual of each symbol, and dated futures."""

    def __init__(self, items: list[Instrument]) -> None:
        self.items = items
        self.by_symbol: dict[str, Instrument] = {}
        self.ended: dict[str, Instrument] = {}  # delisted contracts, which have histories
        for item in sorted(items, key=lambda i: (i.rank, i.name)):
            if item.perpetual and item.active:
                self.by_symbol.setdefault(item.symbol, item)
            elif item.perpetual:
                self.ended.setdefault(item.symbol, item)
        preferred = {item.name for item in self.by_symbol.values()}
        # Perpetuals of a symbol in other currencies count only in the symbol's total open interest.
        self.others = [i for i in items if i.perpetual and i.active and i.name not in preferred]
        self.other_names = {item.name for item in self.others}
        self.dated = [i for i in items if i.is_dated]
        self.collected = [*self.by_symbol.values(), *(i for i in self.dated if i.active)]


class ContractList(NamedTuple):
    """Contracts of a venue and their intervals; `frames` are the context for reading its responses."""

    contracts: Contracts
    frames: dict[str, Any]


def shared_by_host(venues: Iterable[Venue], quarantine: Quarantine | None = None) -> dict[str, Shared]:
    """Return the shared state of the sessions with each venue; venues on one host share its turns."""
    turns: dict[str, Turns] = {}
    return {v.exchange: Shared(quarantine, turns.setdefault(v.host, Turns())) for v in venues}


class Shared:
    """State shared by all sessions with one venue, whose limits count polls and histories together."""

    def __init__(self, quarantine: Quarantine | None = None, turns: Turns | None = None) -> None:
        # One thread at a time requests histories, so that a window is not requested twice.
        self.history_lock = threading.Lock()
        self.turn = (turns or Turns()).take  # next turn of the venue's host
        self.listing: ContractList | None = None  # contracts and intervals of the last lists
        # Last records of each list with their time, and errors of later requests by label.
        self.lists: dict[VenueEndpoint, tuple[pd.Timestamp, Records]] = {}
        self.list_errors: dict[str, str] = {}
        # Time of the last list of dexes, their names, and the contracts of other dexes.
        self.dexes: tuple[pd.Timestamp, Records] | None = None
        self.doubted: dict[str, Instrument] = {}  # contracts that changed in the last list, not yet accepted
        self._list_news: dict[str, str] = {}
        self.refused: dict[str, str] = {}  # hosts and requests that block this address, with the error
        self.answered = False  # whether the venue has sent any response
        self.quarantine = quarantine or Quarantine()  # for unreadable bodies and doubtful rows
        self._closed_until: pd.Timestamp | None = None
        self._lock = threading.Lock()

    def add_list_news(self, label: str, news: list[str]) -> None:
        """Add the changes of a list, which are reported once."""
        if news:
            self._list_news[label] = f"{len(news)} changes: {news[0]}"

    def take_list_news(self) -> dict[str, str]:
        """Return the changes of lists since the last call."""
        news = self._list_news
        self._list_news = {}
        return news

    def close_for(self, now: pd.Timestamp, seconds: float) -> None:
        """Send no requests for some time; a limit in one session applies to all."""
        with self._lock:
            until = now + pd.Timedelta(seconds, "s")
            self._closed_until = max(until, self._closed_until or until)

    def closed_for(self, now: pd.Timestamp) -> float:
        """Return for how long no requests are sent [s]; 0 if they may be sent."""
        with self._lock:
            until = self._closed_until
        if until is None:
            return 0.0
        return max(float((until - now).total_seconds()), 0.0)


class VenueSession:
    """A connection to one venue, at its own address or at `address`, for mirrors and tests."""

    def __init__(
        self, venue: Venue, clock: Clock, *, address: str | None = None, shared: Shared | None = None
    ) -> None:
        self.venue = venue
        self.clock = clock
        self.shared = shared or Shared()
        self.requests = self.expected = 0  # requests of a poll, made and expected
        self.waited = 0.0  # time that the poll has waited for responses [s]
        self._sent_at: pd.Timestamp | None = None  # time of the current request
        self.patience = math.inf  # remaining time for retries, limits and timeouts [s]
        self.progress: Callable[[str], None] | None = None  # called with the progress of a long walk
        self.context: dict[str, Any] = {}
        self._read_context: tuple[dict[str, Any], Context] | None = None
        self._waited_for_ban = False
        self._address = address
        self.last_body = b""  # body of the last response, also if it cannot be read
        self._http = KeylessSession(venue.headers)
        self.notices: list[str] = []

    def response_seconds(self) -> float:
        """Return the mean response time in a poll [s], including the current request."""
        since = self._sent_at
        now = self.clock.utc()
        return (self.waited + float((now - (since or now)).total_seconds())) / max(self.requests, 1)

    def request(
        self,
        endpoint: VenueEndpoint,
        params: Mapping[str, str] | None = None,
        *,
        context: Mapping[str, Any] | None = None,
    ) -> tuple[Records, str, bytes]:
        """Send a request; return the records of its body, the request as text, and the body.

        Raises `VenueError` or `NetworkError` after all tries, `SchemaError`, or `Stopped` with the clock.
        """
        given = {**endpoint.fixed, **endpoint.params, **(params or {})}
        target = endpoint.host or endpoint.path
        if target in self.shared.refused:
            raise VenueError(endpoint.where, self.shared.refused[target], reason="region")

        def once() -> tuple[Records, str, bytes]:
            self._pace(endpoint)
            self._sent_at = sent = self.clock.utc()
            try:
                return self._once(endpoint, given, context)
            except (VenueError, NetworkError):
                self.patience -= (self.clock.utc() - sent).total_seconds()
                raise
            finally:
                self.waited = self.waited + (self.clock.utc() - sent).total_seconds()
                self._sent_at = None

        self._waited_for_ban = False  # at most one wait per request, since a ban may be permanent
        try:
            return persist(once, partial(self._pause, target), self._be_patient, tries=_TRIES)
        except VenueError as problem:
            if problem.reason in _TEMPORARY_REASONS:
                raise self._advised(endpoint, problem) from None
            if problem.reason == "region":
                text = self.shared.refused[target]
                blocked = VenueError(endpoint.where, text, reason="region", status=problem.status)
                blocked.code = problem.code
                raise blocked from None
            raise

    def _advised(self, endpoint: VenueEndpoint, problem: VenueError) -> VenueError:
        """Return the error of a limit or a busy venue with advice."""
        text = str(problem).removeprefix(f"{problem.path}: ")
        if problem.reason == "busy":
            advice = "the venue is busy: the next poll requests it again"
        else:
            limit = f"derivdata uses {1 / self.venue.seconds(endpoint):.3g} requests per second of its limit"
            until = "for a while"
            if problem.retry_after is not None:
                until = f"for {problem.retry_after:.0f} s"
            advice = (
                f"{limit} and now pauses {until}; stop other programs that send requests to "
                f"{endpoint.exchange}"
            )
        advised = VenueError(
            endpoint.where,
            f"{text}; {advice}",
            reason=problem.reason,
            status=problem.status,
            retry_after=problem.retry_after,
        )
        advised.code = problem.code
        return advised

    def _pause(self, target: str, problem: VenueError | NetworkError, delay: float) -> float | None:
        """Return the seconds until the next try, or None to give up; limits are shared with all sessions."""
        wait = problem.retry_after
        if wait is None:
            wait = delay
        is_limit = False
        if isinstance(problem, VenueError):
            is_temporary = problem.reason in _TEMPORARY_REASONS
            is_limit = problem.reason == "limit"
            if is_limit:
                self.shared.close_for(self.clock.utc(), wait)
            elif problem.reason == "region":
                why = str(problem).partition(": ")[2]
                advice = "omit it (venues=), or use another network"
                self.shared.refused[target] = f"blocks this address: {why}; {advice}"
        else:  # a poll does not retry a venue that never responded
            never_responded = isinstance(problem, Unreachable) and not self.shared.answered
            is_temporary = not never_responded or math.isinf(self.patience)
        max_wait = self._max_wait(is_limit=is_limit and not self._waited_for_ban)
        self._waited_for_ban |= wait > LONGEST_WAIT
        if not is_temporary or wait > max_wait:
            return None
        return wait

    def _max_wait(self, *, is_limit: bool) -> float:
        """Return the maximum wait [s]: a history waits for the end of a ban, a poll does not."""
        if is_limit and math.isinf(self.patience):
            return LONGEST_BAN
        return min(LONGEST_WAIT, self.patience)

    def _wait(self, seconds: float) -> None:
        """Wait; raise `Stopped` if collecting should stop."""
        if self.clock.wait(seconds):
            raise Stopped("collecting was stopped")

    def _be_patient(self, seconds: float) -> None:
        """Wait, and subtract the time from the remaining time limit of the request."""
        self.patience -= seconds
        self._wait(seconds)

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def _once(
        self, endpoint: VenueEndpoint, given: Mapping[str, str], context: Mapping[str, Any] | None
    ) -> tuple[Records, str, bytes]:
        """Send a request once, check the response, and read its body."""
        place = endpoint.place
        query = dict(given)
        for name in endpoint.pattern.groupindex:
            place = place.replace(f"{{{name}}}", query.pop(name))
        base = self._address or endpoint.host or self.venue.host
        if not place.startswith("/"):
            base += "/"
        self.requests += 1
        self.last_body = b""
        sent = self.clock.utc()
        if endpoint.method == "POST":
            path, _, kind = place.partition(" ")
            post = _typed(query)
            if kind:
                post = {"type": kind, **post}
            reply = self._http.send("POST", base + path, {}, post=post)
        else:
            sent_params: dict[str, str | list[str]] = {k: v for k, v in query.items() if v != ""}
            if endpoint.repeats and endpoint.symbol in query:
                sent_params[endpoint.symbol] = query[endpoint.symbol].split(",")
            reply = self._http.send("GET", base + place, sent_params)
        self.shared.answered = True
        self.last_body = reply.body
        text = place
        if given:
            text += "?" + "&".join(f"{k}={v}" for k, v in given.items())
        at = self.clock.utc()
        self._refuse(place, reply)
        self._check(f"{self.venue.exchange} {place}", reply, sent)
        read_context = self._context(context or {})
        try:
            records = venues.records(self.venue.exchange, text, reply.body, at=at, context=read_context)
        except SchemaError as problem:
            why = self.shared.quarantine.keep(self.venue.exchange, text, reply.body, str(problem), at)
            raise SchemaError(why) from None
        self.shared.quarantine.keep_records(self.venue.exchange, endpoint.tables, records.withheld, at)
        return records, text, reply.body

    def _refuse(self, place: str, reply: KeylessReply) -> None:
        """Raise the error of a response by the venue's own code, which is more precise than the status."""
        if reply.status in (403, 418, 429, 451):
            return
        name = self.venue.exchange
        try:
            self.venue.refuse(Reading(name, place, {}, reply.body, at=None, context=Context(None, name)))
        except SchemaError:
            pass
        except VenueError as problem:
            problem.status = problem.status or reply.status
            if problem.reason == "limit" and problem.retry_after is None:
                problem.retry_after = stated_wait(reply)
            raise

    def _context(self, more: Mapping[str, Any]) -> Context:
        """Return the context for reading bodies, which is made once per list of contracts."""
        if more.keys() - {"instrument"}:
            return Context({**self.context, **more}, self.venue.exchange)
        if self._read_context is None or not _has_same_objects(self._read_context[0], self.context):
            self._read_context = dict(self.context), Context(self.context, self.venue.exchange)
        _, shared_context = self._read_context
        context = copy.copy(shared_context)
        context.named = more.get("instrument")
        return context

    def _pace(self, endpoint: VenueEndpoint) -> None:
        """Wait until the budget allows the next request; stopping the clock ends even a short wait."""
        while True:
            self._wait(self.shared.turn(self.clock.utc(), self.venue.seconds(endpoint), endpoint.pool))
            closed = self.shared.closed_for(self.clock.utc())
            if closed <= 0:
                return
            if closed > self._max_wait(is_limit=True):
                raise VenueError(
                    endpoint.where,
                    f"not requested, because the rate limit allows the next request in {closed:.0f} s",
                    reason="limit",
                    retry_after=closed,
                )
            self._be_patient(closed)
            # Take another turn, so that sessions that waited together do not send together.

    def _check(self, where: str, reply: KeylessReply, sent: pd.Timestamp) -> None:
        """Raise the error of a response, or of a venue's clock that differs from this machine's."""
        theirs = http_date(reply.headers.get("Date"))
        if theirs is not None:
            apart = max((sent - theirs).total_seconds(), (theirs - self.clock.utc()).total_seconds())
            skew = f"the clocks of the venue and of this machine are {apart:.0f} s apart"
            if apart > _MAX_SKEW_SECONDS:
                raise VenueError(where, f"{skew}: set the clock of this machine", code="clock")
            if apart > _NOTICE_SKEW_SECONDS and not self.notices:
                self.notices.append(f"{where}: {skew}")
        if reply.status != 200:
            raise refusal(where, reply)


def _has_same_objects(first: Mapping[str, Any], second: Mapping[str, Any]) -> bool:
    """Return whether two mappings have the same objects; comparing their rows would be too slow."""
    return first.keys() == second.keys() and all(first[name] is second[name] for name in first)


_MAX_DIGITS = 19


def _typed(params: Mapping[str, str]) -> dict[str, Any]:
    """Convert parameters to JSON values: text of numbers and flags becomes numbers and flags.

    A name such as ``interval.count`` is a parameter within another; a name that ends with ``[]`` is a list.
    Nanoseconds remain text, because some readers of JSON do not keep 19 digits.
    """
    words: dict[str, Any] = {"true": True, "false": False}

    def typed(text: str) -> Any:
        if text.isdecimal() and len(text) < _MAX_DIGITS:
            return int(text)
        return words.get(text, text)

    post: dict[str, Any] = {}
    for name, text in params.items():
        *outer, last = name.removesuffix("[]").split(".")
        target = post
        for key in outer:
            target = target.setdefault(key, {})
        if name.endswith("[]"):
            target[last] = [typed(item) for item in text.split(",")]
        else:
            target[last] = typed(text)
    return post
