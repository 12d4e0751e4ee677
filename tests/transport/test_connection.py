"""Connections: their source, representation and clock."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest
import requests

from derivdata import errors
from derivdata.client import transport
from derivdata.client.transport.settings import Timing
from derivdata.sources import service
from derivdata.support import times
from derivdata.tables.endpoints import FUNDING, Request
from tests.transport.conftest import KEY, FakeTime, Open
from tests.transport.server import NOON, ReceivedRequest, Reply, Server, serving
from tests.transport.test_cache import expire


@dataclass
class FakeLocal:
    """A local service as the package's own starter gives it."""

    url: str
    api_key: str | None = "local-key"
    store: Any = field(default_factory=lambda: SimpleNamespace(identity="1", label="sample", synthetic=True))
    now: pd.Timestamp = NOON
    code: str = "code 1"
    closed: int = 0

    def clock(self) -> pd.Timestamp:
        return self.now

    def take_notices(self) -> list[str]:
        return []

    def close(self) -> None:
        self.closed += 1


@dataclass
class Starts:
    """A starter that records its requests."""

    url: str
    asked: list[tuple[str, pd.Timestamp | None]] = field(default_factory=list)
    made: list[FakeLocal] = field(default_factory=list)

    def __call__(self, source: str, *, now: pd.Timestamp | None) -> FakeLocal:
        self.asked.append((source, now))
        key = f"local-key {len(self.made)}"  # another in each session
        self.made.append(FakeLocal(self.url, key, now=now or NOON))
        return self.made[-1]


@pytest.fixture
def server() -> Iterator[Server]:
    with serving(lambda _: Reply.json({"ok": True})) as running:
        yield running


@pytest.fixture
def starts(server: Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[Starts]:
    starter = Starts(server.url)
    monkeypatch.setattr(service, "start", starter)
    yield starter
    transport.disconnect()


def test_fetch_without_a_connection_names_the_ways_to_connect() -> None:
    for call in (
        transport.SESSION.current,
        transport.connect,
        transport.asof,
        lambda: transport.raw("/funding"),
    ):
        with pytest.raises(errors.NotConnected, match=r"dd\.connect\(url, api_key=\.\.\.\).*archive.*sample"):
            call()


def test_environment_variables_connect(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DERIVDATA_BASE_URL", server.url)
    monkeypatch.setenv("DERIVDATA_API_KEY", KEY)
    assert transport.raw("/funding") == {"ok": True}
    assert server.received[0].headers["X-Api-Key"] == KEY
    assert transport.SESSION.current() is transport.SESSION.current()


def test_failed_connect_keeps_the_connection(starts: Starts) -> None:
    first = transport.connect("sample")
    with pytest.raises(ValueError, match=r"cache must be one of .*'maybe'"):
        transport.connect("sample", cache="maybe")
    assert transport.SESSION.current() is first
    assert starts.made[0].closed == 0


def test_successful_connect_closes_the_connection_before(starts: Starts, server: Server) -> None:
    transport.connect("sample")
    transport.connect(server.url)
    assert starts.made[0].closed == 1


def test_disconnect_may_be_repeated(server: Server) -> None:
    transport.connect(server.url)
    transport.disconnect()
    transport.disconnect()
    with pytest.raises(errors.NotConnected):
        transport.SESSION.current()


def test_local_source_supplies_key_label_and_clock(starts: Starts, server: Server) -> None:
    connection = transport.connect("path/to/archive", now="2026-06-30T14:00:59")
    assert starts.asked == [("path/to/archive", pd.Timestamp("2026-06-30T14:00:59Z"))]
    assert times.asof() == transport.asof() == pd.Timestamp("2026-06-30T14:00:00Z")
    answer = transport.get(FUNDING, {}, into=dict[str, bool])
    assert (answer.source, answer.synthetic) == ("sample", True)
    assert answer.attribution == ""
    assert server.received[0].headers["X-Api-Key"] == "local-key 0"
    assert [a.method for a in server.received] == ["GET"], "its clock needs no request"
    assert "sample (synthetic)" in repr(connection)


@pytest.mark.parametrize("synthetic", [True, False])
def test_local_source_is_cached_by_identity_and_the_sample_never_expires(
    synthetic: bool, starts: Starts, server: Server
) -> None:
    for aged in (False, False, True):
        if aged:
            expire(transport.cache_info().folder)
        transport.connect("sample").synthetic = synthetic
        transport.raw("/funding")
    assert len(server.received) == (1 if synthetic else 2)


def test_arguments_of_another_kind_of_source_are_rejected(starts: Starts) -> None:
    with pytest.raises(ValueError, match="takes no api_key"):
        transport.connect("sample", api_key=KEY)
    with pytest.raises(ValueError, match="its own clock"):
        transport.connect("https://api.example.com", now="2026-01-01")
    with pytest.raises(ValueError, match="now must be a time such as '2026-01-31T08:00', got 'soon'"):
        transport.connect("sample", now="soon")
    assert starts.asked == []


def test_connection_repr_and_attributes(server: Server) -> None:
    connection = transport.connect(server.url, api_key=KEY, cache="refresh")
    folder = transport.cache_info().folder
    host = f"127.0.0.1:{server.port}"
    assert (
        repr(connection) == f"Connection(source: {host}, key: given, tier unknown, cache: refresh, {folder})"
    )
    assert f"<td>{host}</td>" in connection._repr_html_()
    assert "key: none" in repr(transport.connect(server.url, offline=True))
    assert "source: sample (synthetic), key: not needed" in repr(transport.connect("sample"))
    assert "cache: offline" in repr(transport.connect(server.url, offline=True))


def test_source_and_attribution_come_from_arguments_or_the_service(server: Server) -> None:
    transport.connect(server.url)
    text = transport.get(FUNDING, {}, into=dict[str, bool]).attribution
    assert text == f"Funding rate data provided by {server.url}"
    transport.connect(server.url, attribution_url="https://operator.example")
    text = transport.get(FUNDING, {}, into=dict[str, bool]).attribution
    assert text == "Funding rate data provided by https://operator.example"
    with serving(lambda _: Reply.json({}, headers={"X-Derivdata-Source": "M%C3%A4rkte"})) as own:
        transport.connect(own.url)
        assert transport.get(FUNDING, {}, into=dict[str, bool]).source == "Märkte"
    with serving(lambda _: Reply.json({}, headers={"X-Derivdata-Source": "tape"})) as own:
        transport.connect(own.url)
        assert transport.get(FUNDING, {}, into=dict[str, bool]).attribution == ""


def ticking(step: pd.Timedelta):  # type: ignore[no-untyped-def]
    dates = iter(NOON + n * step for n in range(100))

    def answer(request: ReceivedRequest) -> Reply:
        return Reply.json({}, status=404 if request.method == "HEAD" else 200, date=next(dates))

    return answer


def test_clock_is_the_server_date_floored_to_minutes_for_15_seconds(
    open_connection: Open, fake: FakeTime
) -> None:
    with serving(ticking(pd.Timedelta("40s"))) as server:
        connection = open_connection(server.url)
        assert connection.clock() == pd.Timestamp("2026-06-30T12:00Z")
        fake.now += 15
        assert connection.clock() == pd.Timestamp("2026-06-30T12:00Z")
        fake.now += 1
        assert connection.clock() == pd.Timestamp("2026-06-30T12:01Z")
        assert [(a.method, a.path) for a in server.received] == [("HEAD", "/")] * 2


def test_new_response_sets_the_clock_and_a_cached_one_does_not(open_connection: Open, fake: FakeTime) -> None:
    with serving(ticking(pd.Timedelta("60s"))) as server:
        connection = open_connection(server.url)
        connection._serve(Request("/funding", ()), FUNDING)
        assert connection.clock() == NOON.floor("min")
        assert [a.method for a in server.received] == ["GET"]
        fake.now += 16
        connection._serve(Request("/funding", ()), FUNDING)
        assert connection.clock() == NOON.floor("min") + pd.Timedelta("1min")
        assert [a.method for a in server.received] == ["GET", "HEAD"]


def test_error_responses_set_the_clock_and_missing_dates_do_not(open_connection: Open) -> None:
    with serving(lambda _: Reply(date=None)) as server:
        with pytest.raises(errors.NetworkError, match="Date"):
            open_connection(server.url).clock()
        assert len(server.received) == 1
    with serving(lambda _: Reply(b"", status=503)) as server:
        assert open_connection(server.url, timing=Timing()).clock() == NOON.floor("min")
        assert len(server.received) == 1, "any status will do: it is not asked again"


def test_in_process_service_has_a_long_timeout(
    server: Server, starts: Starts, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Timeout of requests for the next byte: minutes here, seconds over a network."""
    waits: list[float] = []
    sent = requests.adapters.HTTPAdapter.send

    def send(adapter: Any, request: Any, **options: Any) -> Any:
        waits.append(options["timeout"][1])
        return sent(adapter, request, **options)

    monkeypatch.setattr(requests.adapters.HTTPAdapter, "send", send)
    transport.connect("sample", cache="off")
    transport.raw("/funding")
    transport.connect(server.url, api_key=KEY, cache="off")
    transport.raw("/funding")
    assert waits[0] >= 180.0
    assert waits[-1] <= 20.0
