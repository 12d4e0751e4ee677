"""Processes that share one key ask for no more than the strictest limit allows."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from starlette.middleware import Middleware

from derivdata.sources import service
from tests.reliability.conftest import Measured
from tests.reliability.processes import output, started
from tests.reliability.promises import SOAK, count
from tests.transport.conftest import KEY

PROCESSES = count(2, 4)

ASKING = """
    import sys
    import derivdata as dd

    dd.connect(sys.argv[1], api_key=sys.argv[2], cache="off")
    print("ready", flush=True)
    sys.stdin.readline()
    for n in range(int(sys.argv[4])):
        end = f"2026-06-{int(sys.argv[3]) + 1:02d}T{n + 1:02d}:00:00Z"
        assert len(dd.funding.history("BTC", "1h", end, venues="binance")) == 1
"""


class Refusals:
    """What the service answers, and whether it was a refusal."""

    def __init__(self, app: object, told: list[bool]) -> None:
        self.app, self.told = app, told

    async def __call__(self, scope: dict, receive: object, send: Callable) -> None:  # type: ignore[type-arg]
        async def watch(message: dict) -> None:  # type: ignore[type-arg]
            self.told.append(message.get("status", 0) == 429)
            await send(message)

        await self.app(scope, receive, watch)  # type: ignore[operator]


@contextmanager
def stalls() -> Iterator[list[float]]:
    """How long the machine kept a thread waiting that slept for 5 ms, each time."""
    late, over = [0.0], threading.Event()

    def watch() -> None:
        while not over.is_set():
            began = time.monotonic()
            time.sleep(0.005)
            late.append(time.monotonic() - began - 0.005)

    thread = threading.Thread(target=watch)
    thread.start()
    yield late
    over.set()
    thread.join()


def asked_together(asks: int) -> tuple[int, float]:
    """Refusals, and seconds that the processes took together."""
    told: list[bool] = []
    watched = [Middleware(Refusals, told=told)]
    local = service.start("sample", keys={KEY: "team"}, limits=True, middleware=watched)
    try:
        running = [started(ASKING, local.url, KEY, process, asks) for process in range(PROCESSES)]
        for process in running:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
        began = time.monotonic()
        for process in running:
            assert process.stdin is not None
            process.stdin.write("go\n")
            process.stdin.flush()
        for process in running:
            output(process)
        return sum(told), time.monotonic() - began
    finally:
        local.close()


def test_processes_share_a_strict_limit(measured: Measured) -> None:
    """The service refuses a third request within any second; three turns take 1.11.

    A machine that stalls for longer than the difference brings them too close, whatever waits for them: then
    it is tried again. One that stalls at every try says nothing in the gate; a soak fails.
    """
    asks = count(3, 6)
    for _ in range(5):
        with stalls() as late:
            refused, took = asked_together(asks)
        assert took > (PROCESSES * asks - 2) / 2, "the limit was felt"
        if not refused or max(late) < 0.1:
            break
    assert refused == 0 or (max(late) >= 0.1 and not SOAK)
    measured("rate limit", f"{PROCESSES * asks} requests of {PROCESSES} processes at 2 a second: 0 × 429")
