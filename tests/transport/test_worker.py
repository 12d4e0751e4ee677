"""Threads, processes, interrupts and kills: no error, no lost entry, no wrong answer, no call that hangs."""

from __future__ import annotations

import threading

import pytest

from derivdata import errors
from derivdata.client.transport.worker import started
from derivdata.tables.endpoints import FUNDING, Request
from tests.support.threads import in_threads
from tests.transport.conftest import Joiners, Open
from tests.transport.server import Asked, Reply, serving


def test_an_error_reaches_all_who_wait_for_it_and_is_not_kept(opened: Open, joiners: Joiners) -> None:
    replies = iter([Reply(b"<html>")])

    def slow(_: Asked) -> Reply:
        joiners.wait_for(3)
        return next(replies, Reply.json({}))

    raised: list[str] = []

    def ask(_: int) -> None:
        with pytest.raises(errors.SchemaError) as error:
            connection._serve(Request("/x", ()), FUNDING)
        raised.append(str(error.value))

    with serving(slow) as server:
        connection = opened(server.url)
        in_threads(4, ask)
        assert connection._serve(Request("/x", ()), FUNDING).body == b"{}"
        assert len(server.asked) == 2
    assert len(raised) == 4


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
