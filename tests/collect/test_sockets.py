"""Liquidations over WebSockets: subscribed, read, kept once, and listened to again after a break."""

from __future__ import annotations

import gzip
import json
import socket as plain
import threading
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import pandas as pd
import pytest
from websockets.server import ServerProtocol
from websockets.sync.server import ServerConnection, serve

from derivdata.sources.archive.ledger import LedgerEntry
from derivdata.sources.collect import venue_feeds
from derivdata.sources.collect.session import Clock, MachineClock
from derivdata.sources.collect.venue_feeds import VenueStream
from derivdata.sources.venues.record_types import Instrument
from derivdata.sources.venues.registry import STATE_STREAMS, VENUES
from tests.collect.fakes import SimulatedClock

MS = 1_772_438_400_000
PUSH = {"topic": "allLiquidation.BTCUSDT", "type": "snapshot", "ts": MS, "data": [
    {"T": MS, "s": "BTCUSDT", "S": "Buy", "v": "2", "p": "50000"}
]}  # fmt: skip


class Pushing:
    """A venue's socket: received messages, and pushes to each connection in turn."""

    def __init__(self, pushes: list[list[Any]], wants: int) -> None:
        self.received: list[Any] = []
        self._pushes, self._wants = pushes, wants
        self._server = serve(self._handle, "127.0.0.1", 0)
        self.address = f"ws://127.0.0.1:{self._server.socket.getsockname()[1]}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def _handle(self, socket: ServerConnection) -> None:
        for _ in range(self._wants):
            self.received.append(json.loads(socket.recv()))
            socket.send('{"success":true,"op":"subscribe"}')
        pushed = self._pushes.pop(0) if self._pushes else None
        for message in pushed or []:
            socket.send(message if isinstance(message, bytes) else json.dumps(message))
        if pushed is None or self._pushes == []:
            for message in socket:
                self.received.append(json.loads(message))
        # else the connection ends here: a drop

    def close(self) -> None:
        self._server.shutdown()


BTC = Instrument("BTCUSDT", "BTC", "USDT", 1.0)
ETH = Instrument("ETHUSDT", "ETH", "USDT", 1.0)


def _bybit(clock: Clock, address: str | None, listed: Any = lambda: [BTC]) -> VenueStream:
    venue = VENUES["bybit"]
    assert venue.stream is not None
    return VenueStream(venue, venue.stream, lambda: (listed(), {}), clock, address=address)


def _until(holds: Callable[[], Any]) -> None:
    """Wait for something; only a hang takes the whole minute."""
    deadline = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_channel_without_contracts_states_the_reason() -> None:
    stream = _bybit(MachineClock(), None, list)
    stream.start()
    why = "DerivdataError: bybit does not list any of the requested contracts"
    _until(lambda: stream.drain()[1:] == ([], why))
    stream.stop()


@pytest.fixture
def streams() -> Iterator[Callable[..., tuple[VenueStream, Pushing]]]:
    opened: list[tuple[VenueStream, Pushing]] = []

    def made(exchange: str, pushes: list[list[Any]], wants: int) -> tuple[VenueStream, Pushing]:
        server = Pushing(pushes, wants)
        stream = VenueStream(
            VENUES[exchange],
            VENUES[exchange].stream,
            lambda: ([BTC, ETH], {}),
            MachineClock(),
            address=server.address,
        )
        opened.append((stream, server))
        stream.start()
        return stream, server

    yield made
    for stream, server in opened:
        stream.stop()
        server.close()


HUOBI = {"op": "notify", "topic": "public.*.liquidation_orders", "data": [
    {"contract_code": "BTC-USDT", "direction": "sell", "created_at": MS, "price": 50000.0, "volume": 500,
     "amount": 0.5, "trade_turnover": 25000.0}
]}  # fmt: skip
HUOBI_FRAME = json.dumps(HUOBI, separators=(",", ":")).encode()


def _rows(stream: VenueStream, count: int) -> tuple[pd.DataFrame, list[Any], list[str]]:
    """Drain until so many rows came; return them, the windows and the errors."""
    frames, windows, errors = list[pd.DataFrame](), list[Any](), list[str]()

    def is_there() -> bool:
        rows, covered, error = stream.drain()
        frames.append(rows["liquidations_fills"])
        windows.extend(covered)
        errors.extend([error] * bool(error))
        return sum(map(len, frames)) >= count

    _until(is_there)
    return pd.concat(frames, ignore_index=True), windows, errors


def test_window_begins_when_all_subscriptions_are_acknowledged() -> None:
    stream = _bybit(MachineClock(), None)
    first = pd.Timestamp("2026-01-20T10:00", tz="UTC")
    stream._unacknowledged, stream._last_response = [1, 2], [first, first]
    for seconds, place in ((1, 1), (2, 0), (3, 1)):
        at = first + pd.Timedelta(seconds, "s")
        stream._acknowledge(place, at)
        stream._record_response(0, at)
        stream._record_response(1, at)
    last = first + pd.Timedelta(9, "s")
    stream._record_response(0, last)
    stream._record_response(1, last)
    assert stream.drain()[1] == [(first + pd.Timedelta(3, "s"), last)]


def test_frames_sent_twice_are_one_row_and_frames_lost_in_a_drop_are_a_gap(streams, archive) -> None:
    """Thirty liquidations; some of the first connection are duplicated, three are lost, two repeat."""
    truth = [(MS + 500 * number, "Buy" if number % 3 else "Sell", number + 1) for number in range(30)]

    def frame(number: int) -> dict[str, Any]:
        ms, side, coins = truth[number]
        return {**PUSH, "ts": ms + 7, "data": [
            {"T": ms, "s": "BTCUSDT", "S": side, "v": str(coins), "p": "50000"}
        ]}  # fmt: skip

    first = [frame(number) for number in range(12) for _ in range(1 + (number % 3 == 0))]
    second = [frame(number) for number in [11, 10, *range(29, 14, -1)]]
    stream, _ = streams("bybit", [first, second], 1)
    windows = []
    span = [pd.Timestamp(MS + ms, unit="ms", tz="UTC") for ms in (0, 60_000)]
    result = archive.read("liquidations_fills", *span)
    deadline = time.monotonic() + 60
    while len(result) < 27 and time.monotonic() < deadline:
        rows, covered, _ = stream.drain()
        windows += covered
        requests = [LedgerEntry("bybit", None, *window) for window in covered]
        archive.merge("liquidations_fills", rows["liquidations_fills"], requests=requests)
        result = archive.read("liquidations_fills", *span)
        time.sleep(0.05)
    told = [truth[number] for number in range(30) if not 12 <= number < 15]
    stamps = [pd.Timestamp(ms, unit="ms", tz="UTC") for ms, _, _ in told]
    assert result["time"].tolist() == stamps
    assert result["side"].tolist() == ["long" if side == "Buy" else "short" for _, side, _ in told]
    assert result["value_usd"].tolist() == [50_000.0 * coins for *_, coins in told]
    assert any(late.start > early.end for early, late in pairwise(windows)), (
        "it was not listened to all the time"
    )


def test_compressed_frame_is_read_and_ping_is_answered_with_its_number(streams) -> None:
    ping = gzip.compress(b'{"op":"ping","ts":"1492420473058"}')
    stream, server = streams("huobi", [[ping, gzip.compress(HUOBI_FRAME)]], 1)
    rows, *_ = _rows(stream, 1)
    assert rows[["side", "filled_quantity", "value_usd"]].to_numpy().tolist() == [["long", 0.5, 25_000.0]]
    _until(lambda: len(server.received) == 2)
    assert server.received[-1] == {"op": "pong", "ts": "1492420473058"}


def test_rejected_subscription_raises(streams: Any) -> None:
    refused = {"success": False, "ret_msg": "Invalid topic", "op": "subscribe"}
    stream, _ = streams("bybit", [[refused], []], 1)
    _until(lambda: "Invalid topic" in stream.drain()[2])


def test_text_that_is_not_json_does_not_end_the_connection(streams: Any) -> None:
    stream, server = streams("huobi", [[b"hello", HUOBI_FRAME]], 1)
    rows, *_ = _rows(stream, 1)
    assert rows["value_usd"].tolist() == [25_000.0]
    assert stream.drain()[2] == ""
    assert len(server.received) == 1


def test_silent_connection_that_answers_pings_stays_open() -> None:
    clock, server = SimulatedClock("2026-03-02T08:00:00"), Pushing([], 1)
    stream = _bybit(clock, server.address)
    stream.start()
    _until(lambda: server.received)
    windows: list[Any] = []

    def covered() -> bool:
        clock.wait(60)
        windows.extend(stream.drain()[1])
        return bool(windows) and windows[-1].end >= pd.Timestamp("2026-03-02T08:02", tz="UTC")

    _until(covered)
    stream.stop()
    server.close()


def test_connection_without_pongs_is_closed() -> None:
    """It accepts the connection and takes what comes, without a frame and without a pong."""
    clock, listening = SimulatedClock("2026-03-02T08:00:00"), plain.create_server(("127.0.0.1", 0))
    taken: list[bytes] = []
    peers: list[plain.socket] = []

    def mute() -> None:
        peer, _ = listening.accept()
        peers.append(peer)
        protocol = ServerProtocol()
        with peer:
            while data := peer.recv(65536):
                protocol.receive_data(data)
                for request in protocol.events_received():
                    if not taken:
                        protocol.send_response(protocol.accept(request))  # type: ignore[arg-type]
                        peer.sendall(b"".join(protocol.data_to_send()))
                    taken.append(data)

    thread = threading.Thread(target=mute, daemon=True)
    thread.start()
    address = f"ws://127.0.0.1:{listening.getsockname()[1]}"
    stream = _bybit(clock, address)
    stream.start()
    _until(lambda: len(taken) >= 3)  # the handshake, the subscription and a ping
    clock.wait(120)
    _until(lambda: len(taken) >= 4)  # the venue's own ping: it has listened after the two minutes
    assert stream.drain()[1] == []
    stream._stopping.set()
    listening.close()
    peers[0].shutdown(plain.SHUT_RDWR)
    thread.join(120)
    stream.stop()


class Waits(threading.Event):
    """Instead of waiting it notes for how long, and ends after so many."""

    def __init__(self, clock: SimulatedClock, most: int) -> None:
        super().__init__()
        self.seconds: list[float] = []
        self._clock, self._most = clock, most

    def wait(self, timeout: float | None = None) -> bool:
        assert timeout is not None
        self.seconds.append(timeout)
        self._clock.wait(timeout)
        if len(self.seconds) == self._most:
            self.set()
        return self.is_set()


@pytest.mark.parametrize(("held", "waits"), [
    (None, [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0]),
    (3, [1.0, 2.0, 4.0, 1.0, 2.0, 4.0, 8.0, 16.0]),
])  # fmt: skip
def test_only_a_lasting_connection_resets_the_backoff(held: int | None, waits: list[float]) -> None:
    """The server accepts and closes; the connection numbered `held`, if any, lasts a minute."""
    clock, count = SimulatedClock("2026-03-02T08:00:00"), 0

    def accept(socket: ServerConnection) -> None:
        nonlocal count
        count += 1
        socket.recv()  # the subscription
        if count - 1 == held:
            while True:  # the venue's own ping tells that the client listens
                clock.wait(10)
                try:
                    socket.recv(timeout=1.0)
                    break
                except TimeoutError:
                    continue
            clock.wait(60)

    server = serve(accept, "127.0.0.1", 0)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    address = f"ws://127.0.0.1:{server.socket.getsockname()[1]}"
    stream = _bybit(clock, address)
    noted = stream._stopping = Waits(clock, 8)
    stream.start()
    _until(noted.is_set)
    server.shutdown()
    assert noted.seconds == waits


def test_a_contract_listed_later_is_subscribed_to(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(venue_feeds, "LOOK_SECONDS", 0.05)
    listed, server = [BTC], Pushing([], 1)
    stream = _bybit(MachineClock(), server.address, lambda: listed)
    stream.start()
    _until(lambda: server.received)
    listed = [BTC, ETH]
    _until(lambda: len(server.received) == 2)
    stream.stop()
    server.close()
    assert [message["args"] for message in server.received] == [
        ["allLiquidation.BTCUSDT"], ["allLiquidation.BTCUSDT", "allLiquidation.ETHUSDT"]
    ]  # fmt: skip


def test_invalid_row_is_omitted_and_breaks_the_window(streams: Any) -> None:
    odd = {**PUSH, "data": [{**PUSH["data"][0], "S": "Both"}, *PUSH["data"], {**PUSH["data"][0], "v": "3"}]}
    stream, _ = streams("bybit", [[odd, PUSH]], 2)
    rows, _, errors = _rows(stream, 2)
    assert sorted(rows["quantity"]) == [2.0, 3.0]
    assert errors == [
        "SchemaError: 1 row omitted: bybit allLiquidation.{symbol}: expected one of 'Buy', 'Sell', got 'Both'"
    ]


def test_the_headers_of_a_venue_are_sent_with_the_handshake() -> None:
    """Gate cuts sizes to whole contracts without it (gate-api 7.2.161)."""
    messages: list[str | None] = []

    def handle(socket: ServerConnection) -> None:
        assert socket.request is not None
        messages.append(socket.request.headers.get("X-Gate-Size-Decimal"))

    server = serve(handle, "127.0.0.1", 0)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    venue = VENUES["gateio"]
    assert venue.stream is not None
    address = f"ws://127.0.0.1:{server.socket.getsockname()[1]}"
    stream = VenueStream(venue, venue.stream, lambda: ([BTC], {}), MachineClock(), address=address)
    stream.start()
    _until(lambda: messages)
    stream.stop()
    server.shutdown()
    assert messages[0] == "1"


@pytest.mark.parametrize(
    ("venue", "connections", "waits"),
    [
        ("okx", 3, [1 / 3, 1 / 3]),  # 3 a second
        ("bitget", 302, [300.0]),  # 300 in 5 minutes: the 301st waits until the first is as old
        ("derive", 20, []),  # no limit is known
    ],
)
def test_connections_are_opened_within_the_limits_of_the_venue(
    venue: str, connections: int, waits: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = SimulatedClock("2026-01-20T10:00")
    stream = VenueStream(VENUES[venue], STATE_STREAMS[venue][0], lambda: ([BTC], {}), clock)
    waited: list[float] = []

    def wait(seconds: float) -> bool:
        waited.append(seconds)
        return bool(clock.wait(seconds))

    monkeypatch.setattr(stream._stopping, "wait", wait)
    for _ in range(connections):
        stream._wait_for_connection()
    assert waited == pytest.approx(waits)


def test_messages_are_sent_at_the_rate_limit_of_the_venue(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bitget accepts 10 a second."""
    stream = VenueStream(
        VENUES["bitget"], STATE_STREAMS["bitget"][0], lambda: ([BTC], {}), SimulatedClock("2026-01-20T10:00")
    )
    waited: list[float] = []
    monkeypatch.setattr(stream._stopping, "wait", waited.append)
    stream._wait_for("stream_messages_per_second")
    assert waited == [0.1]


@pytest.fixture
def minutes_of_silence() -> tuple[VenueStream, Callable[[float], bool]]:
    """A channel of liquidations, and a function that waits and returns whether the channel is broken."""
    clock = SimulatedClock("2026-01-20T10:00")
    stream = _bybit(clock, None)

    def is_broken_after(seconds: float) -> bool:
        clock.wait(seconds)
        return stream.is_broken(clock.utc())

    return stream, is_broken_after


@pytest.fixture
def connected_minutes(
    minutes_of_silence: tuple[VenueStream, Callable[[float], bool]],
) -> tuple[VenueStream, Callable[[float], bool]]:
    """The same, a second after the channel was connected."""
    stream, is_broken_after = minutes_of_silence
    now = stream._clock.utc()
    stream._since, stream._last_response = now, [now]
    assert not is_broken_after(1)
    return stream, is_broken_after


def test_channel_that_never_connects_is_broken_after_20_seconds(minutes_of_silence) -> None:
    _, is_broken_after = minutes_of_silence
    assert [is_broken_after(20), is_broken_after(1)] == [False, True]


def test_connected_channel_may_be_silent_for_an_hour(connected_minutes) -> None:
    """Liquidations may pause for hours while pings get responses."""
    _, is_broken_after = connected_minutes
    assert not is_broken_after(3600)


def test_unreadable_channel_is_complete_again_after_a_valid_frame(connected_minutes) -> None:
    stream, is_broken_after = connected_minutes
    stream._unreadable_at = stream._clock.utc()
    assert is_broken_after(0), "the first frame cannot be read"
    assert is_broken_after(1)
    stream._read_at = stream._clock.utc()
    assert not is_broken_after(60)


def test_channel_without_a_valid_frame_for_20_seconds_is_broken(connected_minutes) -> None:
    stream, is_broken_after = connected_minutes
    stream._read_at = stream._clock.utc()
    assert not is_broken_after(60)
    stream._unreadable_at = stream._clock.utc()
    assert [is_broken_after(20), is_broken_after(1)] == [False, True]
