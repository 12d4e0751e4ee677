"""Threads, processes, interrupts and kills: no error, no lost entry, no wrong answer, no call that hangs."""

from __future__ import annotations

import threading

import pytest

from derivdata import errors
from derivdata.client.transport.settings import Timing
from derivdata.client.transport.worker import started
from derivdata.tables.endpoints import FUNDING, Request
from tests.support.threads import in_threads
from tests.transport.conftest import Joiners, Open
from tests.transport.server import Asked, Reply, serving


@pytest.mark.parametrize("cache", ["on", "off", "refresh"])
def test_an_answer_and_an_error_reach_all_who_wait_and_the_error_is_not_kept(
    cache: str, opened: Open, joiners: Joiners
) -> None:
    """Sixteen threads at a time: each answer comes once the fifteen others wait for it."""
    replies = iter([Reply(b"<html>")])

    def slow(_: Asked) -> Reply:
        joiners.wait_for(15 * len(server.asked))
        return next(replies, Reply.json({}))

    told: list[object] = []

    def ask(_: int) -> None:
        try:
            told.append(connection._serve(Request("/x", ()), FUNDING).body)
        except errors.SchemaError as error:
            told.append(type(error))

    with serving(slow) as server:
        connection = opened(server.url, cache=cache, timing=Timing())
        in_threads(16, ask)
        in_threads(16, ask)
        assert len(server.asked) == 2
    assert told == [errors.SchemaError] * 16 + [b"{}"] * 16


def test_a_fault_of_ours_comes_out_where_it_was_called_and_without_its_frames() -> None:
    def broken() -> None:
        raise ZeroDivisionError("ours")

    with pytest.raises(ZeroDivisionError, match="ours") as raised:
        started(broken)(60.0)
    assert "broken" not in [entry.name for entry in raised.traceback]


def test_a_thread_that_is_interrupted_or_cannot_start_raises_what_it_met(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As `Thread.start` fails where it is interrupted between the two releases of its condition's lock."""

    def struck(_: threading.Thread) -> None:
        condition = threading.Condition(threading.Lock())
        with condition:
            condition.release()
            raise KeyboardInterrupt

    monkeypatch.setattr(threading.Thread, "start", struck)
    with pytest.raises(KeyboardInterrupt):
        started(lambda: 1)

    def refused(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refused)
    with pytest.raises(RuntimeError, match="can't start new thread"):
        started(lambda: 1)
