"""Requests that come while another is being answered."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pandas as pd

from derivdata import service
from tests.service import market
from tests.service.conftest import KEYS, Caller
from tests.service.memory_store import MemoryStore


class SlowStore(MemoryStore):
    """Volume is read only once it may be."""

    def __init__(self) -> None:
        frames = {"volume_history": market.volume(), "oi_history": market.open_interest()}
        super().__init__(frames, now=market.NOW, label="slow")
        self.asked, self.may = threading.Event(), threading.Event()
        self.reads = 0

    def read(self, table: str, *args: Any, **kwargs: Any) -> pd.DataFrame:
        if table == "volume_history":
            self.reads += 1
            self.asked.set()
            assert self.may.wait(10)
        return super().read(table, *args, **kwargs)


def test_a_slow_answer_holds_up_no_other() -> None:
    store = SlowStore()
    local = service.start(store, keys=KEYS)
    slow, quick = Caller(local), Caller(local)
    window = {"start": "2026-06-30T00:00Z", "end": "2026-06-30T06:00Z"}
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(slow.body, "/volume/exchange-totals", **window)
        assert store.asked.wait(10)
        try:
            assert quick.body("/oi/exchanges-summary")["total"] == 2
            assert not waiting.done()
        finally:
            store.may.set()
        assert len(waiting.result(10)["data"]) > 0
    for caller in (slow, quick):
        caller.session.close()
    local.close()


def test_those_who_ask_for_the_same_share_the_work() -> None:
    alone, store = SlowStore(), SlowStore()
    window = {"start": "2026-06-30T00:00Z", "end": "2026-06-30T06:00Z"}
    alone.may.set()
    for asked, callers in ((alone, 1), (store, 8)):
        local = service.start(asked, keys=KEYS)
        askers = [Caller(local) for _ in range(callers)]
        with ThreadPoolExecutor(callers) as pool:
            waiting = [pool.submit(one.body, "/volume/exchange-totals", **window) for one in askers]
            assert asked.asked.wait(10)
            assert askers[0]("/").status_code == 200
            asked.may.set()
            assert len({str(answer.result(10)) for answer in waiting}) == 1
        for one in askers:
            one.session.close()
        local.close()
    assert store.reads == alone.reads


def test_only_so_many_answers_are_made_at_once() -> None:
    """Eight that differ: four are being read, the others wait, and what is at hand is given meanwhile."""
    store = SlowStore()
    local = service.start(store, keys=KEYS)
    askers = [Caller(local) for _ in range(9)]
    assert askers[8].body("/oi/exchanges-summary")["total"] == 2
    windows = [{"start": "2026-06-30T00:00Z", "end": f"2026-06-30T{hour:02d}:00Z"} for hour in range(6, 14)]
    with ThreadPoolExecutor(8) as pool:
        waiting = [
            pool.submit(asker.body, "/volume/exchange-totals", **window)
            for asker, window in zip(askers[:8], windows, strict=True)
        ]
        try:
            while store.reads < 4:
                assert store.asked.wait(10)
            for _ in range(20):
                assert askers[8].body("/oi/exchanges-summary")["total"] == 2
            assert store.reads == 4
        finally:
            store.may.set()
        assert len({len(answer.result(10)["data"]) for answer in waiting}) > 1
    for asker in askers:
        asker.session.close()
    local.close()
