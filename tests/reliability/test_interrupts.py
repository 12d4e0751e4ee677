"""Ctrl-C at random times of a fetch: nothing hangs, and nothing is wrong afterwards."""

from __future__ import annotations

import random
import signal
import sys
import threading
import timeit
from collections.abc import Iterator
from types import FrameType

import pandas as pd
import pytest

import derivdata as dd
from tests.reliability.conftest import Measured, Use
from tests.reliability.promises import count
from tests.transport.conftest import HANGS_SECONDS

END = pd.Timestamp("2026-06-30", tz="UTC")


class Alarm:
    """Interrupts once while `armed`; a timer signal may arrive long after its code has ended."""

    armed = False

    def strike(self, _: int, __: FrameType | None) -> None:
        if self.armed:
            self.armed = False
            raise KeyboardInterrupt


@pytest.fixture
def alarm(monkeypatch: pytest.MonkeyPatch) -> Iterator[Alarm]:
    alarm = Alarm()
    before, tracer = signal.signal(signal.SIGALRM, alarm.strike), sys.gettrace()
    sys.settrace(None)  # a coverage tool that is struck would leave its own lock locked
    monkeypatch.setattr(sys, "unraisablehook", lambda _: None)  # struck in a destructor, and in the hook
    yield alarm
    alarm.armed = False
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)
    sys.settrace(tracer)


def fetched(n: int) -> pd.DataFrame:
    start = END - pd.Timedelta(n + 1, "h")
    return dd.oi.history("BTC", start, start + pd.Timedelta(1, "h"), venues="binance")


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs setitimer")
@pytest.mark.parametrize("cache", ["on", "off"])
def test_interrupts_at_random_instants_leave_nothing_locked_or_wrong(
    cache: str, use: Use, measured: Measured, alarm: Alarm
) -> None:
    """Each fetch is struck within twice the time that the quickest takes here: early, late, or over."""
    calls = count(75, 750)
    use("ok", cache="off")
    right = [fetched(n) for n in range(20)]
    use("ok", cache=cache)
    longest = 2 * min(timeit.repeat(lambda: fetched(0), number=1, repeat=10))
    chance, interrupted = random.Random(9), 0
    for n in range(calls):
        try:
            alarm.armed = True
            signal.setitimer(signal.ITIMER_REAL, chance.uniform(0.0001, longest))
            result = fetched(n % 20)
            alarm.armed = False
        except KeyboardInterrupt:
            interrupted += 1
        else:
            pd.testing.assert_frame_equal(result, right[n % 20])
    assert interrupted > calls / 10
    after: list[pd.DataFrame] = []
    last = threading.Thread(target=lambda: after.extend(fetched(n) for n in range(20)), daemon=True)
    last.start()
    last.join(timeout=HANGS_SECONDS)
    assert not last.is_alive(), "a fetch hangs"
    for result, expected in zip(after, right, strict=True):
        pd.testing.assert_frame_equal(result, expected)
    measured(
        "interrupts", f"cache {cache}: {calls} fetches, {interrupted} interrupted: 0 hang, 0 wrong afterwards"
    )
