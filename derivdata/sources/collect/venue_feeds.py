"""Venues polled in parallel, and their channels, which push rows over WebSockets.

A channel is connected again after it breaks. Pushed states of contracts are completed, thinned to one per
second, and compared with earlier ones.
"""

from __future__ import annotations

import contextlib
import gzip
import threading
import zlib
from collections.abc import Callable, Collection, Mapping, Sequence
from importlib.metadata import version
from importlib.util import find_spec
from typing import TYPE_CHECKING, TypeAlias

import msgspec
import pandas as pd

from derivdata import tables
from derivdata.errors import ArchiveError, DerivdataError, SchemaError, VenueError
from derivdata.sources import venues
from derivdata.sources.collect.histories import chosen_venues
from derivdata.sources.collect.history_rows import LIQUIDATIONS, join_frames
from derivdata.sources.collect.plausibility import LastPolls
from derivdata.sources.collect.session import (
    Clock,
    Contracts,
    Quarantine,
    Stopped,
    VenueSession,
    shared_by_host,
)
from derivdata.sources.collect.state import BOOKS, Poll, VenueState
from derivdata.sources.venues.endpoint import STATE_TABLES, Stream, Venue
from derivdata.sources.venues.reading import Context
from derivdata.sources.venues.record_types import Instrument, Records, State, filled, omitted
from derivdata.sources.venues.registry import STATE_STREAMS, VENUES
from derivdata.sources.venues.tabulation import frames
from derivdata.support import times
from derivdata.support.text import did_you_mean, import_extra
from derivdata.support.times import Window
from derivdata.tables.venue_facts import fact_value

if TYPE_CHECKING:
    from websockets.sync.client import ClientConnection


_SECOND_US = 1_000_000


class PushedStates:
    """The newest state of each contract and second; frames may have only changed figures."""

    def __init__(self, exchange: str, quarantine: Quarantine) -> None:
        self._exchange = exchange
        self._quarantine = quarantine
        self._last: dict[str, State] = {}  # complete state of each contract in this connection
        self._new: dict[tuple[str, int], State] = {}  # by contract and second
        self._omitted: list[str] = []  # rows that contradict themselves
        self._last_figures = LastPolls(exchange)

    def forget(self) -> None:
        """Forget the states, because a new connection sends complete states first."""
        self._last = {}

    def add(self, records: Records, names: Collection[str], at: pd.Timestamp) -> None:
        """Add the states of some contracts in a frame, completed; `at` is the time of rows without one."""
        self._omitted += records.omitted
        for row in records.states:
            name = row.instrument.name
            if name not in names:
                continue
            time = row.time
            if time is None:
                time = times.us(at)
            state = State(*filled(row, self._last.get(name, row)))._replace(time=time)
            price = state.mark or state.price
            is_valued = row.oi_usd is not None or row.instrument.inverse
            if not is_valued and state.oi_coins is not None and price:
                state = state._replace(oi_usd=state.oi_coins * price)
            self._last[name] = self._new[name, time // _SECOND_US] = state

    def take(self, names: Sequence[str], now: pd.Timestamp) -> tuple[dict[str, pd.DataFrame], str, str]:
        """Return the rows since the last call, errors of tables, and texts about omitted figures."""
        new_states = list(self._new.values())
        self._new = {}
        omissions = self._omitted
        self._omitted = []
        states, failed, notes = self._last_figures.hold(new_states, now)
        self._quarantine.keep_records(self._exchange, names, self._last_figures.withheld, now)
        rows = dict[str, pd.DataFrame]()
        for name in names:
            try:
                if name not in failed:
                    rows |= frames(self._exchange, Records(states=states), [name], at=times.us(now))
            except SchemaError as problem:
                failed[name] = str(problem)
        errors = "; ".join(dict.fromkeys(failed.values()))
        return rows, errors, "; ".join([*omissions[:1], *notes])


_CONNECT_SECONDS = 10.0
_FIRST_WAIT_SECONDS = 1.0
_MAX_WAIT_SECONDS = 60.0
_CONNECTION_WINDOW = pd.Timedelta(5, "min")
_STABLE_AFTER = pd.Timedelta(1, "min")  # duration of a connection after which the count of failures restarts
_PING_EVERY = pd.Timedelta(10, "s")
_MAX_UNREADABLE = pd.Timedelta(20, "s")
"""Maximum time without a readable frame, from the start of a channel or after a bad frame."""
_MAX_SILENCE = pd.Timedelta(2, "min")
"""Maximum silence of a channel of states; OKX sends a rate every 30 to 90 s (its page, 2026-07)."""
LOOK_SECONDS = 5.0  # interval of checks of the list of contracts
_MAX_FRAME_BYTES = 8 * 2**20
_AGENT = f"derivdata/{version('derivdata')}"
_GZIP = b"\x1f\x8b"


Listed: TypeAlias = Callable[[], tuple[Sequence[Instrument], dict[str, pd.DataFrame]]]
"""Function that returns contracts and the context for reading their sizes."""


class VenueStream:
    """Rows that one channel of a venue pushes about some contracts.

    A window begins when all subscriptions are acknowledged, and ends with the last response of all
    connections: a frame, or an answered ping. Needs the package websockets.
    """

    def __init__(
        self,
        venue: Venue,
        stream: Stream,
        contracts: Listed,
        clock: Clock,
        *,
        address: str | None = None,
        quarantine: Quarantine | None = None,
    ) -> None:
        use = f"reading the WebSocket channels of {venue.exchange}"
        self._client = import_extra("websockets.sync.client", "stream", use)
        broken = import_extra("websockets.exceptions", "stream", use).WebSocketException
        self._errors = (broken, OSError, EOFError, zlib.error, DerivdataError)
        self.tables = next(e.tables for e in venue.endpoints if e.path == stream.channel)
        self.venue = venue
        self._stream = stream
        self._clock = clock
        self.channel = stream.channel
        self._contracts = contracts
        self._address = address
        self._quarantine = quarantine or Quarantine()
        self._lock = threading.Lock()
        self._frames: list[Mapping[str, pd.DataFrame]] = []
        self._states: PushedStates | None = None
        if {*self.tables} & {*STATE_TABLES}:
            self._states = PushedStates(venue.exchange, self._quarantine)
        self.omitted = ""  # doubtful figures of the last drain
        self._covered: list[Window] = []
        self._since: pd.Timestamp | None = None
        self._opened: list[pd.Timestamp] = []  # openings of connections in the last minutes
        self._last_response: list[pd.Timestamp] = []  # last response of each connection: a frame or a pong
        self._unacknowledged: list[int] = []  # subscriptions of each connection
        self._names: set[str] = set()  # names of subscribed contracts
        self._error = ""
        self._started = self._read_at = clock.utc()  # time of the last readable frame with rows
        self._unreadable_at: pd.Timestamp | None = None  # time of the last unreadable frame
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"derivdata-{venue.exchange}-ws", daemon=True)

    def start(self) -> None:
        """Connect, in a thread."""
        self._thread.start()

    def stop(self) -> None:
        """End the connection; received rows can still be drained."""
        self._stopping.set()
        self._thread.join(_CONNECT_SECONDS + 5)

    def is_broken(self, now: pd.Timestamp) -> bool:
        """Return whether the channel has been unreadable for so long that requests should replace it.

        Before its first readable frame, a channel is broken at the first unreadable frame.
        """
        with self._lock:
            if self._unreadable_at is not None and self._unreadable_at > self._read_at:
                is_first = self._read_at == self._started
                return bool(is_first or now - self._unreadable_at > _MAX_UNREADABLE)
            if self._since is None:
                return bool(now - max([self._read_at, *self._last_response]) > _MAX_UNREADABLE)
            return self._states is not None and bool(now - max(self._read_at, self._since) > _MAX_SILENCE)

    def drain(self) -> tuple[dict[str, pd.DataFrame], list[Window], str]:
        """Return the rows since the last call, their windows (none if rows failed), and the last error."""
        with self._lock:
            self._close_window()
            received = self._frames
            self._frames = []
            covered = self._covered
            self._covered = []
            error = self._error
            self._error = ""
            if self._states is not None:
                rows, why, self.omitted = self._states.take(self.tables, self._clock.utc())
                received.append(rows)
                if why:
                    covered = []
                    error = why
        rows = {}
        for name in self.tables:
            table = tables.TABLES[name]
            joined = join_frames(name, [frames[name] for frames in received if name in frames])
            rows[name] = table.conform(joined.drop_duplicates([*table.key]))
        return rows, covered, error

    def _run(self) -> None:
        """Connect until the channel is stopped; the pause grows with each failed connection."""
        wait = _FIRST_WAIT_SECONDS
        while not self._stopping.is_set():
            try:
                if self._listen_once() >= _STABLE_AFTER:
                    wait = _FIRST_WAIT_SECONDS
            except self._errors as problem:
                self._set_error(problem)
            if self._stopping.wait(wait):
                return
            wait = min(2 * wait, _MAX_WAIT_SECONDS)

    def _listen_once(self) -> pd.Timedelta:
        """Connect and listen until a connection ends; return how long the connections lasted."""
        items, context = self._contracts()
        now = int(self._clock.utc().timestamp())
        connections = self._stream.connections([item.name for item in items], now)
        self._names = {item.name for item in items}
        if not connections:
            raise DerivdataError(f"{self.venue.exchange} does not list any of the requested contracts")
        with contextlib.ExitStack() as opened:
            options = {
                "open_timeout": _CONNECT_SECONDS,
                "max_size": _MAX_FRAME_BYTES,
                "user_agent_header": _AGENT,
            }
            options["additional_headers"] = dict(self.venue.headers)
            sockets: list[ClientConnection] = []
            for address, messages in connections:
                self._wait_for_connection()
                socket = opened.enter_context(self._client.connect(self._address or address, **options))
                for place, message in enumerate(messages):
                    if place:
                        self._wait_for("stream_messages_per_second")
                    socket.send(message)
                sockets.append(socket)
            now = self._clock.utc()
            with self._lock:
                self._unacknowledged = [len(messages) for _, messages in connections]
                self._since = None
                if not any(self._unacknowledged):
                    self._since = now
                self._last_response = [now] * len(sockets)
                if self._states is not None:
                    self._states.forget()
            self._listen_together(sockets, Context(context, self.venue.exchange))
            return self._clock.utc() - now

    def _wait_for_connection(self) -> None:
        """Wait until the venue's limits allow another connection."""
        now = self._clock.utc()
        recent = [at for at in self._opened if now - at < _CONNECTION_WINDOW]
        if recent and now - recent[-1] < pd.Timedelta(1, "s"):
            self._wait_for("stream_connections_per_second")
        allowed = fact_value(self.venue.exchange, "stream_connections_per_5_minutes")
        if allowed and len(recent) >= allowed:
            self._stopping.wait((recent[-int(allowed)] + _CONNECTION_WINDOW - now).total_seconds())
        self._opened = [*recent, self._clock.utc()]

    def _wait_for(self, limit: str) -> None:
        """Wait for the interval of messages or connections at a limit of the venue."""
        allowed = fact_value(self.venue.exchange, limit)
        if allowed:
            self._stopping.wait(1 / allowed)

    def _listen_together(self, sockets: list[ClientConnection], context: Context) -> None:
        """Listen until a connection ends, or the venue's list of contracts changes."""
        ended = threading.Event()
        listeners = [
            threading.Thread(target=self._listen, args=(place, socket, context, ended), daemon=True)
            for place, socket in enumerate(sockets)
        ]
        for listener in listeners:
            listener.start()
        try:
            while sockets and not ended.wait(LOOK_SECONDS):
                if {item.name for item in self._contracts()[0]} != self._names:
                    break
        finally:
            ended.set()
            for listener in listeners:
                listener.join()
            with self._lock:
                self._close_window()
                self._since = None

    def _listen(self, place: int, socket: ClientConnection, context: Context, ended: threading.Event) -> None:
        """Read the frames of one connection until it or another ends."""
        ping_text, ping_seconds = self.venue.ping  # a venue's own ping, as a message
        text_sent_at = pinged = self._clock.utc()
        try:
            pong = None
            while not (self._stopping.is_set() or ended.is_set()):
                try:
                    message = socket.recv(timeout=0.5)
                except TimeoutError:
                    # All earlier frames were read, so the pong confirms the time of the ping.
                    now = self._clock.utc()
                    if pong is not None and pong.is_set():
                        self._record_response(place, pinged)
                    if pong is None or (pong.is_set() and now - pinged >= _PING_EVERY):
                        pong = socket.ping()
                        pinged = now
                    if ping_text and (now - text_sent_at).total_seconds() >= ping_seconds:
                        socket.send(ping_text)
                        text_sent_at = now
                    continue
                if isinstance(message, str):
                    message = message.encode()
                self._take(place, socket, message, context)
        except self._errors as problem:
            self._set_error(problem)
        finally:
            ended.set()

    def _take(self, place: int, socket: ClientConnection, body: bytes, context: Context) -> None:
        """Read one frame; an unreadable frame is a gap in the window, but the connection continues."""
        now = self._clock.utc()
        try:
            if self._read(socket, body, context, now):
                self._acknowledge(place, now)
        except SchemaError as problem:
            self._set_error(problem)
            with self._lock:
                self._unreadable_at = now
            self._break_window(now)
        self._record_response(place, now)

    def _break_window(self, now: pd.Timestamp) -> None:
        """End the window before an incomplete frame, and begin the next window after it."""
        with self._lock:
            if self._since is not None:
                self._close_window()
                self._since = now

    def _read(self, socket: ClientConnection, body: bytes, context: Context, now: pd.Timestamp) -> bool:
        """Store the rows of a frame, or reply to it; return whether it confirms a subscription."""
        try:
            if body.startswith(_GZIP):
                body = gzip.decompress(body)
            if not _is_text(body):
                start = body[:4].hex(" ")
                why = f"expected JSON or gzip-compressed JSON, got {len(body)} bytes that begin with {start}"
                raise SchemaError(f"{self.venue.exchange} {self.channel}: {why}")
            if self._stream.marker in body:
                self._keep(body, context, now)
                with self._lock:
                    self._read_at = now
                return True
        except (SchemaError, EOFError, zlib.error, gzip.BadGzipFile) as problem:
            exchange = self.venue.exchange
            channel = self.channel
            raise SchemaError(self._quarantine.keep(exchange, channel, body, str(problem), now)) from None
        if body != b"pong":
            with contextlib.suppress(ValueError, msgspec.DecodeError):  # text other than JSON is ignored
                reply = self._stream.reply(body)
                if reply is not None:
                    socket.send(reply)
                    return False
                self._refuse(body)
                return True
        return False

    def _refuse(self, body: bytes) -> None:
        """Raise the error of a rejected subscription, with the channel."""
        try:
            venues.read(self.venue.exchange, "any", body)
        except VenueError as problem:
            why = f"a subscription was rejected: {body[:200].decode(errors='replace')}"
            where = f"{self.venue.exchange} {self.channel}"
            raise VenueError(where, why, code=problem.code, reason=problem.reason) from None

    def _keep(self, body: bytes, context: Context, now: pd.Timestamp) -> None:
        """Store the rows of a frame."""
        exchange = self.venue.exchange
        records = venues.records(exchange, self._stream.channel, body, at=now, context=context)
        self._quarantine.keep_records(exchange, self.tables, records.withheld, now)
        if self._states is None:
            rows = frames(exchange, records, self.tables, at=times.us(now))
            with self._lock:
                self._frames.append(rows)
            if records.omitted:
                self._set_error(SchemaError(omitted(records.omitted)))
                self._break_window(now)
        else:
            with self._lock:
                self._states.add(records, self._names, now)

    def _acknowledge(self, place: int, at: pd.Timestamp) -> None:
        """Begin the window when all subscriptions are acknowledged; earlier rows may be missing."""
        with self._lock:
            self._unacknowledged[place] = max(self._unacknowledged[place] - 1, 0)
            if self._since is None and not any(self._unacknowledged):
                self._since = at

    def _record_response(self, place: int, at: pd.Timestamp) -> None:
        """Record the last response of a connection; for a ping, the time at which it was sent."""
        with self._lock:
            self._last_response[place] = max(self._last_response[place], at)

    def _set_error(self, problem: BaseException) -> None:
        with self._lock:
            self._error = f"{type(problem).__name__}: {problem}"[:300]

    def _close_window(self) -> None:
        """Store the window up to the last response of all connections, and begin the next one."""
        if self._since is not None and self._last_response:
            until = min(self._last_response)
            if until > self._since:
                self._covered.append(Window(self._since, until))
                self._since = until


def _is_text(body: bytes) -> bool:
    """Return whether a frame is text: JSON, or a word such as pong."""
    return body.lstrip()[:1] in (b"{", b"[", b"") or body.isalpha()


_MINUTE = pd.Timedelta(1, "min")
_POLL_SECOND = pd.Timedelta(5, "s")  # polls begin at this second of each minute
_MAX_SHOWN = 3


def _streams_of_liquidations(venues: Sequence[str], named: Sequence[str]) -> dict[str, Stream]:
    """Return the streams of liquidations that are a venue's default, or whose venue is in `named`."""
    for name in named:
        if name not in VENUES or VENUES[name].stream is None:
            raise ValueError(f"streams: {name!r} does not have a liquidation stream")
    streams = {}
    for name in venues:
        stream = VENUES[name].stream
        if stream is not None and (stream.is_default or name in named):
            streams[name] = stream
    return streams


def until_next_minute(now: pd.Timestamp) -> float:
    """Return the seconds until the next poll, which is at second 5 of a minute."""
    last_poll = (now - _POLL_SECOND).floor("min") + _POLL_SECOND
    return float((last_poll + _MINUTE - now).total_seconds())


def chosen_contracts(
    items: list[Instrument], symbols: Sequence[str] | None, *, is_state: bool = True
) -> list[Instrument]:
    """Return the contracts of some symbols or all; with `is_state` only the preferred one of each symbol."""
    if is_state:
        items = list(Contracts(items).by_symbol.values())
    if symbols is None:
        return items
    return [item for item in items if item.symbol in symbols]


class VenuePolls:
    """State of each venue, and the venues that block this address; options as in `Collector`.

    Tables in `pushed`, by venue, are not polled. `open_interest` is from before the first poll, by venue and
    symbol in USD.
    """

    def __init__(
        self,
        venues: Sequence[str] | None,
        clock: Clock,
        *,
        symbols: Sequence[str],
        names: Sequence[str] | None,
        depth: Sequence[str] = (),
        streams: Sequence[str] = (),
        share_seconds: float | None = None,
        all_contracts: bool = False,
        addresses: Mapping[str, str] | None = None,
        sockets: Mapping[str, str] | None = None,
        unconfirmed: bool = False,
        quarantine: Quarantine | None = None,
        pushed: Mapping[str, Collection[str]] | None = None,
        open_interest: Mapping[str, Mapping[str, float]] | None = None,
    ) -> None:
        for name in names or ():
            if name not in tables.TABLES:
                raise ValueError(f"tables: unknown table {name!r}{did_you_mean(name, tables.TABLES)}")
        self.names = names
        self.gone = dict[str, str]()
        self._symbols = symbols
        self.clock = clock
        self.addresses = addresses or {}
        self.unconfirmed = unconfirmed
        self._sockets = sockets or {}
        self.pushed = pushed or {}
        exchanges = chosen_venues(venues, unconfirmed=unconfirmed)
        self.listened: dict[str, Stream] = {}
        liquidation_symbols: Sequence[str] | None = None
        if self.collects(LIQUIDATIONS):
            self.listened = _streams_of_liquidations(exchanges, streams)
            liquidation_symbols = symbols
        if not any(map(self.collects, BOOKS)):
            depth = ()
        self.shared = shared_by_host((VENUES[name] for name in exchanges), quarantine)
        self.states: dict[str, VenueState] = {}
        for name, shared in self.shared.items():
            self.states[name] = VenueState(
                VenueSession(VENUES[name], clock, address=self.addresses.get(name), shared=shared),
                unconfirmed=unconfirmed,
                symbols=liquidation_symbols,
                is_listened=name in self.listened,
                depth=depth,
                first=symbols,
                seconds=share_seconds,
                all_contracts=all_contracts,
                names=self._polled_tables(name),
                open_interest=(open_interest or {}).get(name),
            )

    def _polled_tables(self, exchange: str) -> list[str] | None:
        """Return the tables to poll of a venue; None is all."""
        if self.names is None:
            return None
        needed = set(self.names).difference(self.pushed.get(exchange, ()))
        has_liquidations = any(LIQUIDATIONS in endpoint.tables for endpoint in VENUES[exchange].endpoints)
        if self.collects(LIQUIDATIONS) and has_liquidations:
            needed.add("prices_history")  # liquidations are compared with prices
        return list(needed)

    def collects(self, table: str) -> bool:
        """Return whether a table is collected."""
        return self.names is None or table in self.names

    def reachable(self) -> list[str]:
        """Return the venues that do not block this address."""
        return [name for name in self.states if name not in self.gone]

    def retry_blocked(self) -> None:
        """Forget the venues and requests that blocked this address, so that they are tried again."""
        self.gone.clear()
        for shared in self.shared.values():
            shared.refused.clear()

    def replacement_state(self, name: str, names: Sequence[str]) -> VenueState:
        """Return a state that polls some tables of a venue while its channels cannot be read."""
        session = VenueSession(
            VENUES[name], self.clock, address=self.addresses.get(name), shared=self.shared[name]
        )
        symbols = self._symbols if LIQUIDATIONS in names else None
        return VenueState(
            session, unconfirmed=self.unconfirmed, symbols=symbols, first=self._symbols, names=[*names]
        )

    def poll(self, name: str, state: VenueState | None = None) -> Poll:
        """Poll a venue; an error of its adapter affects only this poll.

        Raises `Stopped` or `ArchiveError`, which end all polls.
        """
        state = state or self.states[name]
        try:
            poll = state.poll()
        except (Stopped, ArchiveError):
            raise
        except Exception as problem:  # an adapter's error is stored in the poll and in the ledger
            poll = state.lost(problem)
        state.session.expected = 0  # only the requests made count from now on
        if poll.gone:
            self.gone[name] = next(iter(poll.failed.values()), "the venue blocks this address")
        return poll

    def line(self, running: Collection[str]) -> str:
        """Return a line with finished and expected venues and requests, and the slowest venues."""
        done = 0
        expected = 0
        for state in self.states.values():
            done += state.session.requests
            expected += max(state.session.requests, state.session.expected)
        finished = len(self.states) - len(running)
        line = f"{finished} of {len(self.states)} venues, {done} of {expected} requests"
        slowest = sorted(running, key=lambda name: -self.states[name].session.response_seconds())[:_MAX_SHOWN]
        if slowest:
            line += f"; waiting for {', '.join(slowest)}"
        return line

    def stream(self, name: str, stream: Stream, contracts: Listed | None = None) -> VenueStream:
        """Return a channel of a venue for some or all contracts, not yet started."""
        state = self.states[name]
        return VenueStream(
            state.session.venue,
            stream,
            contracts or state.listed,
            self.clock,
            address=self._sockets.get(name),
            quarantine=self.shared[name].quarantine,
        )

    def state_streams(self, symbols: Sequence[str]) -> list[VenueStream]:
        """Return the channels of collected tables about some symbols; they are not started."""
        if not find_spec("websockets"):
            return []
        collected = []
        for name, state in self.states.items():

            def contracts(state: VenueState = state) -> tuple[list[Instrument], dict[str, pd.DataFrame]]:
                items, context = state.listed()
                return chosen_contracts(items, symbols), context

            streams = [self.stream(name, stream, contracts) for stream in STATE_STREAMS.get(name, ())]
            collected += [stream for stream in streams if any(map(self.collects, stream.tables))]
        return collected

    def close(self) -> None:
        """Close every connection."""
        for state in self.states.values():
            state.session.close()
