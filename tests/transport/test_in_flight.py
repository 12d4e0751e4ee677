"""Concurrent requests: their number, the order of their responses, and shared requests."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from derivdata import errors
from derivdata.client import transport
from derivdata.client.retrieval import get_windows
from derivdata.client.transport import SESSION
from derivdata.client.transport.settings import Timing
from derivdata.support import times
from derivdata.support.forking import started
from derivdata.tables.endpoints import FUNDING, FUNDING_HISTORICAL, OI_TIMESERIES, Request
from tests.support.threads import in_threads
from tests.transport.conftest import HANGS_SECONDS, Joiners, Open
from tests.transport.server import ReceivedRequest, Reply, serving


class Crowd:
    """A server that counts concurrent requests, and responds after the first only to eight at once."""

    def __init__(self, at_once: int, fails: str = "") -> None:
        self.most = self.now = 0
        self._fails = fails
        self._lock = threading.Lock()
        self._gate = threading.Barrier(at_once)

    def __call__(self, request: ReceivedRequest) -> Reply:
        with self._lock:
            self.now += 1
            self.most = max(self.most, self.now)
        try:
            if "symbol=S000" not in request.path and "/S000/" not in request.path:
                self._gate.wait(HANGS_SECONDS)
        finally:
            with self._lock:
                self.now -= 1
        if self._fails and self._fails in request.path:
            return Reply.json({"error": "not this one"}, status=400)
        return Reply.json({"path": request.path})


def paths(params: list[dict[str, Any]], **options: Any) -> list[str]:
    answers = transport.get_each(OI_TIMESERIES, params, into=dict[str, str], **options)
    return [answer.body["path"] for answer in answers]


def symbols(count: int) -> list[dict[str, Any]]:
    return [{"symbol": f"S{n:03}", "range": "7d"} for n in range(count)]


@pytest.mark.parametrize("cache", ["on", "off", "refresh"])
def test_eight_requests_run_in_parallel_and_responses_keep_their_order(cache: str) -> None:
    crowd = Crowd(8)
    with serving(crowd) as server:
        transport.connect(server.url, cache=cache)
        result = paths(symbols(41))
        assert [path.split("/")[2] for path in result] == [f"S{n:03}" for n in range(41)]
        assert crowd.most == 8
        assert len(server.received) == 41


def test_histories_of_many_symbols_are_requested_in_parallel() -> None:
    """A window that is not cut is one request a symbol, and those go out together too."""
    crowd = Crowd(8)
    window = times.window("2026-06-01T00:00Z", "2026-06-02T00:00Z")
    with serving(crowd) as server:
        transport.connect(server.url)
        each = [{"symbol": f"S{n:03}"} for n in range(25)]
        answers = list(get_windows(OI_TIMESERIES, each, [window], dict[str, str]))
    assert [answer.request.path.split("/")[2] for answer in answers] == [f"S{n:03}" for n in range(25)]
    assert crowd.most == 8


def test_rate_limited_requests_run_one_after_another(
    open_connection: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    crowd = Crowd(1)
    with serving(crowd) as server:
        monkeypatch.setattr(SESSION, "connection", open_connection(server.url))
        params = [{"symbol": f"S{n:03}", "start": "2026-06-01T00:00:00Z"} for n in range(6)]
        answers = transport.get_each(FUNDING_HISTORICAL, params, into=dict[str, str])
        for number, _ in enumerate(answers, start=1):
            assert len(server.received) == number, "each is requested when it is wanted"
    assert crowd.most == 1


def test_error_is_raised_in_order_and_earlier_responses_are_cached() -> None:
    """Seven more were in progress: a second run requests only the missing ones."""
    crowd = Crowd(8, fails="S003")
    with serving(crowd) as server:
        transport.connect(server.url)
        answers = transport.get_each(OI_TIMESERIES, symbols(9), into=dict[str, str])
        actual = [next(answers).body["path"].split("/")[2] for _ in range(3)]
        with pytest.raises(errors.BadRequest, match="not this one"):
            next(answers)
        assert actual == ["S000", "S001", "S002"]
        assert len(server.received) == 9
        for thread in threading.enumerate():
            if thread.name == "derivdata-request":
                thread.join(HANGS_SECONDS)
        crowd._fails, crowd._gate = "", threading.Barrier(1)
        assert len(paths(symbols(9))) == 9
        assert [path.split("/")[2] for path in server.paths[9:]] == ["S003"]


def test_first_error_stops_further_requests() -> None:
    crowd = Crowd(1, fails="S000")
    with serving(crowd) as server:
        transport.connect(server.url)
        with pytest.raises(errors.BadRequest):
            paths(symbols(20))
        assert len(server.received) == 1


@pytest.mark.parametrize("cache", ["on", "off", "refresh"])
def test_waiting_callers_share_response_or_error_and_errors_are_not_cached(
    cache: str, open_connection: Open, joiners: Joiners
) -> None:
    """Sixteen threads at a time: each response comes once the fifteen others wait for it."""
    replies = iter([Reply(b"<html>")])

    def slow(_: ReceivedRequest) -> Reply:
        joiners.wait_for(15 * len(server.received))
        return next(replies, Reply.json({}))

    messages: list[object] = []

    def ask(_: int) -> None:
        try:
            messages.append(connection._serve(Request("/x", ()), FUNDING).body)
        except errors.SchemaError as error:
            messages.append(type(error))

    with serving(slow) as server:
        connection = open_connection(server.url, cache=cache, timing=Timing())
        in_threads(16, ask)
        in_threads(16, ask)
        assert len(server.received) == 2
    assert messages == [errors.SchemaError] * 16 + [b"{}"] * 16


def test_internal_error_is_raised_at_the_caller_without_thread_frames() -> None:
    def broken() -> None:
        raise ZeroDivisionError("ours")

    with pytest.raises(ZeroDivisionError, match="ours") as raised:
        started(broken)(60.0)
    assert "broken" not in [entry.name for entry in raised.traceback]


def test_interrupted_or_unstartable_thread_raises_its_error(
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
