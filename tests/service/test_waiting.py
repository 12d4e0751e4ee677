"""Concurrent requests: shared work, turns of keys, disconnected clients."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from urllib.parse import urlsplit

import pandas as pd

from derivdata.sources import Query, service
from derivdata.sources.service.data.store import Cancelled, check
from tests.service import market
from tests.service.conftest import KEYS, PATIENCE, Caller
from tests.service.memory_store import MemoryStore

DAY = {"start": "2026-06-30T00:00Z", "end": "2026-06-30T06:00Z"}
WINDOWS = [{"start": f"2026-06-{day}T00:00Z", "end": f"2026-06-{day}T01:00Z"} for day in range(22, 30)]


class SlowStore(MemoryStore):
    """Volume is read only once allowed; a waiting request notices when no client needs it."""

    def __init__(self) -> None:
        frames = {"volume_history": market.volume(), "oi_history": market.open_interest()}
        super().__init__(frames, now=market.NOW, label="slow")
        self.change, self.may = threading.Condition(), threading.Event()
        self.reads = self.cancelled = 0

    def rows(self, query: Query) -> pd.DataFrame:
        if query.table == "volume_history":
            self.wait()
        return super().rows(query)

    def wait(self) -> None:
        self.count("reads")
        try:
            while not self.may.wait(0.01):
                check()
        except Cancelled:
            self.count("cancelled")
            raise

    def count(self, name: str) -> None:
        with self.change:
            setattr(self, name, getattr(self, name) + 1)
            self.change.notify_all()

    def await_count(self, name: str, number: int) -> None:
        with self.change:
            assert self.change.wait_for(lambda: getattr(self, name) >= number, PATIENCE)


@contextmanager
def callers(store: SlowStore, number: int) -> Iterator[list[Caller]]:
    local = service.start(store, keys=KEYS)
    clients = [Caller(local) for _ in range(number)]
    try:
        yield clients
    finally:
        store.may.set()
        for client in clients:
            client.session.close()
        local.close()


def send(stack: ExitStack, client: Caller, path: str) -> socket.socket:
    url = urlsplit(client.local.url)
    line = stack.enter_context(socket.create_connection((url.hostname, url.port), timeout=PATIENCE))
    line.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nX-Api-Key: key-pro\r\n\r\n".encode())
    return line


def totals(window: dict[str, str]) -> str:
    return f"/volume/exchange-totals?start={window['start']}&end={window['end']}"


def test_equal_requests_share_one_job() -> None:
    alone, together = SlowStore(), SlowStore()
    alone.may.set()
    for store, number in ((alone, 1), (together, 8)):
        with callers(store, number) as clients, ThreadPoolExecutor(number) as pool:
            waiting = [pool.submit(item.body, "/volume/exchange-totals", **DAY) for item in clients]
            try:
                store.await_count("reads", 1)
                assert clients[0]("/").status_code == 200
            finally:
                store.may.set()
            assert len({str(answer.result(PATIENCE)) for answer in waiting}) == 1
    assert together.reads == alone.reads


def test_job_ends_when_no_client_waits() -> None:
    """Eight clients disconnect: the three running jobs are cancelled, the five waiting ones never start."""
    store = SlowStore()
    with callers(store, 1) as (client,), ExitStack() as open_sockets:
        with ExitStack() as closed_sockets:
            for window in WINDOWS:
                send(closed_sockets, client, totals(window))
            store.await_count("reads", 3)
        store.await_count("cancelled", 3)
        assert store.reads == 3
        send(open_sockets, client, totals(DAY))
        store.await_count("reads", 4)
        assert client.body("/oi/exchanges-summary")["total"] == 2
        assert (store.reads, store.cancelled) == (4, 3)
