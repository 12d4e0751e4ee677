"""Liquidations as venues push them: one WebSocket a venue, connected again when it breaks off."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Sequence

import pandas as pd
from websockets.exceptions import WebSocketException
from websockets.sync.client import ClientConnection, connect

from derivdata import tables, venues
from derivdata.collect.clock import Clock
from derivdata.errors import DerivdataError
from derivdata.times import Window
from derivdata.venues.endpoint import Venue
from derivdata.venues.record_types import Instrument

__all__ = ["LiquidationStream"]

_TABLE = "liquidations_fills"
_OPEN_SECONDS = 10.0
_FIRST_WAIT, _LONGEST_WAIT = 1.0, 60.0
_LARGEST = 8 * 2**20


class LiquidationStream:
    """The liquidations of one venue, from its channel.

    Parameters
    ----------
    venue
        A venue with `Venue.stream`.
    contracts
        Called before each connection for the contracts to subscribe to, and the context of their sizes.
    clock
        What time it is.
    address
        Where the venue's socket is instead of its own address.
    """

    def __init__(
        self,
        venue: Venue,
        contracts: Callable[[], tuple[Sequence[Instrument], dict[str, pd.DataFrame]]],
        clock: Clock,
        *,
        address: str | None = None,
    ) -> None:
        if venue.stream is None:
            raise ValueError(f"{venue.exchange} has no channel of liquidations")
        self.venue, self._stream, self._clock = venue, venue.stream, clock
        self._contracts, self._address = contracts, address or venue.socket
        self._lock = threading.Lock()
        self._frames: list[pd.DataFrame] = []
        self._covered: list[Window] = []
        self._since: pd.Timestamp | None = None
        self._error = ""
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"derivdata-{venue.exchange}-ws", daemon=True)

    def start(self) -> None:
        """Connect, in a thread."""
        self._thread.start()

    def stop(self) -> None:
        """End the connection; what came is still to be drained."""
        self._stopping.set()
        self._thread.join(_OPEN_SECONDS + 5)

    def drain(self) -> tuple[pd.DataFrame, list[Window], str]:
        """Return the rows since the last time, the windows that were listened to, and the last error."""
        with self._lock:
            self._close_window(again=self._since is not None)
            frames, self._frames = self._frames, []
            covered, self._covered = self._covered, []
            error, self._error = self._error, ""
        table = tables.TABLES[_TABLE]
        if not frames:
            return table.empty(), covered, error
        rows = pd.concat(frames, ignore_index=True).drop_duplicates(["exchange", "order_id", "fill_id"])
        return table.conform(rows), covered, error

    def _run(self) -> None:
        wait = _FIRST_WAIT
        while not self._stopping.is_set():
            try:
                items, context = self._contracts()
                with connect(self._address, open_timeout=_OPEN_SECONDS, max_size=_LARGEST) as socket:
                    for message in self._stream.subscribe([item.name for item in items]):
                        socket.send(message)
                    with self._lock:
                        self._since = self._clock.utc()
                    wait = _FIRST_WAIT
                    self._listen(socket, context)
            except (WebSocketException, OSError, DerivdataError) as problem:
                with self._lock:
                    self._error = f"{type(problem).__name__}: {problem}"[:300]
            finally:
                with self._lock:
                    self._close_window(again=False)
            if self._stopping.wait(wait):
                return
            wait = min(2 * wait, _LONGEST_WAIT)

    def _listen(self, socket: ClientConnection, context: dict[str, pd.DataFrame]) -> None:
        ping, every = self.venue.ping
        idle = 0.0
        while not self._stopping.is_set():
            try:
                message = socket.recv(timeout=0.5)
            except TimeoutError:
                idle += 0.5
                if ping and idle >= every:
                    socket.send(ping)
                    idle = 0.0
                continue
            body = message.encode() if isinstance(message, str) else message
            if self._stream.marker in body:
                frame = venues.read(
                    self.venue.exchange, self._stream.channel, body, at=self._clock.utc(), context=context
                )
                with self._lock:
                    self._frames.append(frame[_TABLE])
            else:
                with contextlib.suppress(ValueError):
                    if body != b"pong":
                        venues.read(self.venue.exchange, "any", body)  # a refused subscription

    def _close_window(self, *, again: bool) -> None:
        """Note the window up to now as listened to; `again` starts the next."""
        now = self._clock.utc()
        if self._since is not None and now > self._since:
            self._covered.append(Window(self._since, now))
        self._since = now if again else None
