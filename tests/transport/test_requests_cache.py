"""Decisions of requests-cache: expiry, conditional requests, stale responses; a user's own sessions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import requests
from requests.adapters import HTTPAdapter
from requests_cache import CachedSession

import derivdata as dd
from derivdata import errors
from derivdata.client import transport
from derivdata.client.transport import cache
from derivdata.client.transport.adapter import Adapter
from derivdata.client.transport.network import Network
from derivdata.tables.endpoints import FUNDING, FUNDING_HISTORICAL, Request
from tests.transport.conftest import KEY, Open
from tests.transport.server import NOON, ReceivedRequest, Reply, Server, serving
from tests.transport.test_cache import counting, expire, files

HISTORY = Request("/funding/historical", (("symbol", "BTC"),))
OTHER = Request("/funding/historical", (("symbol", "ETH"),))
HOUR = pd.Timedelta("1h")


def tagged(bodies: dict[str, Any] | None = None) -> Callable[[ReceivedRequest], Reply]:
    """Give each body a tag; a current one returns 304, dated a minute after the previous one."""
    state = bodies if bodies is not None else {}
    state.setdefault("n", 0)
    minutes = iter(range(1_000))

    def answer(request: ReceivedRequest) -> Reply:
        tag, date = f'"{state["n"]}"', NOON + pd.Timedelta(next(minutes), "min")
        headers = {"ETag": tag, "Last-Modified": "Tue, 30 Jun 2026 00:00:00 GMT", **state.get("headers", {})}
        if request.headers.get("If-None-Match") == tag:
            return Reply(b"", status=304, headers=headers, date=date, length=None)
        return Reply.json({"n": state["n"], **state.get("extra", {})}, headers=headers, date=date)

    return answer


def conditions(server: Server) -> list[str | None]:
    return [request.headers.get("If-None-Match") for request in server.received]


# Conditional requests


def test_expired_record_is_revalidated_without_its_body(open_connection: Open, tmp_path: Path) -> None:
    with serving(tagged()) as server:
        connection = open_connection(server.url)
        first = connection._serve(HISTORY, FUNDING)
        expire(tmp_path)
        again = connection._serve(HISTORY, FUNDING)
        assert connection._serve(HISTORY, FUNDING) == again, "fresh again"
        assert conditions(server) == [None, '"0"']
    assert (again.status, again.body, again.sha256) == (200, first.body, first.sha256)
    assert (first.as_of, again.as_of) == (NOON, NOON + pd.Timedelta("1min"))
    assert not {"ETag", "Last-Modified", "Cache-Control"} & {*first.headers, *again.headers}
    assert server.received[1].headers["If-Modified-Since"] == "Tue, 30 Jun 2026 00:00:00 GMT"


def test_changed_record_is_replaced(open_connection: Open, tmp_path: Path) -> None:
    state: dict[str, Any] = {}
    with serving(tagged(state)) as server:
        connection = open_connection(server.url)
        connection._serve(HISTORY, FUNDING)
        expire(tmp_path)
        state["n"] = 1
        assert connection._serve(HISTORY, FUNDING).body == b'{"n": 1}'
        assert connection._serve(HISTORY, FUNDING).body == b'{"n": 1}'
        assert len(server.received) == 2


def test_window_closed_since_never_expires_once_revalidated(open_connection: Open, tmp_path: Path) -> None:
    until = NOON - HOUR + pd.Timedelta("30s")
    with serving(tagged()) as server:
        connection = open_connection(server.url)
        for _ in range(3):
            connection._serve(HISTORY, FUNDING_HISTORICAL, until)
            expire(tmp_path)
        assert conditions(server) == [None, '"0"'], "the second response is an hour after the window"


def test_response_with_notices_is_requested_without_a_condition(
    open_connection: Open, tmp_path: Path
) -> None:
    state: dict[str, Any] = {"extra": {"notices": ["clamped to 30 days"]}}
    with serving(tagged(state)) as server:
        connection = open_connection(server.url)
        for _ in range(2):
            connection._serve(HISTORY, FUNDING_HISTORICAL, NOON - 24 * HOUR)
            expire(tmp_path)
        assert conditions(server) == [None, None]


def test_change_of_past_rows_revalidates_records(open_connection: Open) -> None:
    """A served archive returns the version of its past: most records remain valid."""
    state: dict[str, Any] = {"headers": {"X-Derivdata-Source-Id": "a", "X-Derivdata-Data-Version": "1"}}
    with serving(tagged(state)) as server:
        open_connection(server.url)._serve(HISTORY, FUNDING_HISTORICAL, NOON - 24 * HOUR)
        state["headers"] = {"X-Derivdata-Source-Id": "a", "X-Derivdata-Data-Version": "2"}
        again = open_connection(server.url)._serve(HISTORY, FUNDING_HISTORICAL, NOON - 24 * HOUR)
        gets = [
            request.headers.get("If-None-Match") for request in server.received if request.method == "GET"
        ]
        assert gets == [None, '"0"']
        assert again.headers["X-Derivdata-Data-Version"] == "2"
        asked = len(server.received)
        connection = open_connection(server.url)
        connection._serve(HISTORY, FUNDING_HISTORICAL, NOON - 24 * HOUR)
        assert [request.method for request in server.received[asked:]] == ["HEAD"], (
            "the record has the new version"
        )


def test_not_modified_response_without_a_date_is_rejected(open_connection: Open, tmp_path: Path) -> None:
    def answer(request: ReceivedRequest) -> Reply:
        if "If-None-Match" in request.headers:
            return Reply(b"", status=304, headers={"ETag": '"0"'}, date=None)
        return Reply(headers={"ETag": '"0"'})

    with serving(answer) as server:
        connection = open_connection(server.url)
        connection._serve(HISTORY, FUNDING)
        expire(tmp_path)
        with pytest.raises(errors.SchemaError, match="does not have a valid Date"):
            connection._serve(HISTORY, FUNDING)


# Settings


def failing(status: int) -> Callable[[ReceivedRequest], Reply]:
    """The first response is right, every later one fails."""
    count = iter(range(1_000))
    return lambda _: Reply() if next(count) == 0 else Reply(b'{"error": "no"}', status=status)


@pytest.mark.parametrize(
    ("status", "error"),
    [(500, errors.ServerError), (503, errors.ServerError), (429, errors.RateLimited)],
)
def test_expired_record_is_used_with_stale_if_error(
    status: int, error: type[Exception], open_connection: Open, tmp_path: Path
) -> None:
    with serving(failing(status)) as server:
        first = open_connection(server.url)._serve(HISTORY, FUNDING)
        expire(tmp_path)
        tolerant = open_connection(server.url, rules={"stale_if_error": True})
        with pytest.warns(errors.CacheNotice, match="an expired response of Tue, 30 Jun 2026 12:00:30 GMT"):
            stale = tolerant._serve(HISTORY, FUNDING)
        assert stale == first
        plain = open_connection(server.url)._serve(HISTORY, FUNDING)
        assert (plain.status, type(transport.response.error_of(plain))) == (status, error)


def test_expired_record_is_used_if_the_server_is_unreachable(open_connection: Open, tmp_path: Path) -> None:
    with serving(counting()) as server:
        first = open_connection(server.url)._serve(HISTORY, FUNDING)
    expire(tmp_path)
    with pytest.warns(errors.CacheNotice, match="did not respond"):
        assert open_connection(server.url, rules={"stale_if_error": True})._serve(HISTORY, FUNDING) == first
    with pytest.raises(errors.NetworkError):
        open_connection(server.url, rules={"stale_if_error": timedelta(days=1)})._serve(HISTORY, FUNDING)
    with pytest.raises(errors.NetworkError):
        open_connection(server.url)._serve(HISTORY, FUNDING)


@pytest.mark.parametrize("status", [400, 401, 403, 404, 410])
def test_error_4xx_is_not_hidden_by_an_expired_record(
    status: int, open_connection: Open, tmp_path: Path
) -> None:
    with serving(failing(status)) as server:
        open_connection(server.url)._serve(HISTORY, FUNDING)
        expire(tmp_path)
        answer = open_connection(server.url, rules={"stale_if_error": True})._serve(HISTORY, FUNDING)
        assert answer.status == status
        assert len(files(tmp_path)) == 1, "and the record stays"


def test_invalidated_record_is_not_used_without_revalidation(open_connection: Open) -> None:
    """The version may have changed: without `stale_if_error` an error is better than other data."""
    state: dict[str, Any] = {"headers": {"X-Derivdata-Source-Id": "a", "X-Derivdata-Data-Version": "1"}}
    with serving(tagged(state)) as server:
        open_connection(server.url)._serve(HISTORY, FUNDING_HISTORICAL, NOON - 24 * HOUR)
    with pytest.raises(errors.NetworkError):
        open_connection(server.url)._serve(HISTORY, FUNDING_HISTORICAL, NOON - 24 * HOUR)


@pytest.mark.parametrize(
    ("rules", "seconds"),
    [
        ({}, 60),
        ({"expire_after": 7}, 7),
        ({"expire_after": timedelta(hours=2)}, 7200),
        ({"expire_after": -1}, None),
        ({"urls_expire_after": {"*/funding/historical": 30}}, 30),
        ({"urls_expire_after": {"*/oi": 30}}, 60),
        ({"urls_expire_after": {"*/oi": 30}, "expire_after": 9}, 9),
    ],
)
def test_user_settings_override_endpoint_settings(
    rules: dict[str, Any], seconds: float | None, open_connection: Open, tmp_path: Path
) -> None:
    with serving(counting()) as server:
        open_connection(server.url, rules=rules)._serve(HISTORY, replace(FUNDING, fresh_seconds=60.0))
    [path] = files(tmp_path)
    record = cache.ResponseFiles(path.parents[1], path.parent.name).record(path.stem)
    assert record is not None
    if seconds is None:
        assert record.head.expires is None
    else:
        assert record.head.expires is not None
        assert (record.head.expires - record.head.created).total_seconds() == pytest.approx(seconds, abs=0.5)


def test_closed_window_never_expires_with_any_settings(open_connection: Open, tmp_path: Path) -> None:
    with serving(counting()) as server:
        connection = open_connection(server.url, rules={"expire_after": 1})
        first = connection._serve(HISTORY, FUNDING_HISTORICAL, NOON - 24 * HOUR)
        expire(tmp_path)
        assert connection._serve(HISTORY, FUNDING_HISTORICAL, NOON - 24 * HOUR) == first


def test_always_revalidate_and_read_only(open_connection: Open, tmp_path: Path) -> None:
    with serving(tagged()) as server:
        open_connection(server.url, rules={"read_only": True})._serve(HISTORY, FUNDING)
        assert files(tmp_path) == []
        connection = open_connection(server.url, rules={"always_revalidate": True})
        connection._serve(HISTORY, FUNDING)
        connection._serve(HISTORY, FUNDING)
        assert conditions(server) == [None, None, '"0"']


@pytest.mark.parametrize(
    ("settings", "kind", "says"),
    [
        ("maybe", ValueError, "cache must be one of 'on', 'refresh', 'off' or a dict.*got 'maybe'"),
        (5, ValueError, "cache must be one of.*got 5"),
        (
            {"expires": 5},
            ValueError,
            "cache={'expires': ...} cannot be set here; expected one of expire_after, urls_",
        ),
        ({"backend": "sqlite"}, ValueError, "a requests_cache.CachedSession as session="),
        ({"expire_after": "1h"}, TypeError, "must be int or float or timedelta or datetime, got str"),
        ({"always_revalidate": 1}, TypeError, "must be bool, got int"),
    ],
)
def test_unknown_settings_are_rejected(settings: Any, kind: type[Exception], says: str) -> None:
    with pytest.raises(kind, match=says):
        transport.connect("https://api.example.com", cache=settings)


def test_settings_reach_the_session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DERIVDATA_CACHE_DIR", str(tmp_path))
    with serving(tagged()) as server:
        connection = transport.connect(server.url, cache={"expire_after": 0, "stale_if_error": True})
        assert dd.raw("/x") == dd.raw("/x") == {"n": 0}
        assert conditions(server) == [None, '"0"']
        assert "cache: on, expire_after, stale_if_error, " in repr(connection)


# Sessions of the user's own


@pytest.fixture
def own() -> Iterator[requests.Session]:
    with requests.Session() as session:
        session.headers["X-Mine"] = "yes"
        yield session


def test_plain_session_is_used_with_the_librarys_cache(
    own: requests.Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DERIVDATA_CACHE_DIR", str(tmp_path))
    seen: list[str] = []
    own.hooks["response"].append(lambda response, **_: seen.append(response.url))
    own.auth = ("me", "secret")
    with serving(counting()) as server:
        transport.connect(server.url, api_key=KEY, session=own)
        assert dd.raw("/x") == dd.raw("/x") == {"n": 0}
        [asked] = server.received
        transport.disconnect()
        assert own.get(f"{server.url}/y").json() == {"n": 1}, "the session stays open"
    assert asked.headers["X-Mine"] == "yes"
    assert asked.headers["Authorization"].startswith("Basic ")
    assert asked.headers["X-Api-Key"] == KEY
    assert asked.headers["Accept-Encoding"] == "gzip"
    assert "X-Api-Key" not in server.received[1].headers, "without the adapter again"
    assert seen[0] == f"{server.url}/x"
    assert len(files(tmp_path)) == 1
    assert not any(isinstance(adapter, Adapter) for adapter in own.adapters.values())


def test_adapter_is_mounted_for_the_origin_of_the_api_only(own: requests.Session) -> None:
    with serving(counting()) as server, serving(counting()) as elsewhere:
        transport.connect(server.url, api_key=KEY, session=own, cache="off")
        dd.raw("/x")
        own.get(f"{elsewhere.url}/x")
        assert "X-Api-Key" not in elsewhere.received[0].headers
        moved = serving(lambda _: Reply(b"", status=302, headers={"Location": f"{elsewhere.url}/there"}))
        with moved as mover:
            transport.connect(mover.url, api_key=KEY, session=own, cache="off")
            dd.raw("/x")
            assert mover.received[0].headers["X-Api-Key"] == KEY
            assert "X-Api-Key" not in elsewhere.received[1].headers


def test_adapter_of_the_users_session_still_sends(own: requests.Session) -> None:
    sent: list[Any] = []

    class Counting(HTTPAdapter):
        def send(self, request: Any, *args: Any, **options: Any) -> Any:
            sent.append((request.url, options["timeout"]))
            return super().send(request, *args, **options)

    with serving(counting()) as server:
        mine = Counting()
        own.mount(server.url, mine)
        for _ in range(2):
            transport.connect(server.url, api_key=KEY, session=own, cache="off")
            dd.raw("/x")
        transport.disconnect()
        assert own.get_adapter(f"{server.url}/x") is mine
    assert sent == [(f"{server.url}/x", (5.0, 20.0))] * 2, "once each, with the limits of the library"


def test_a_proxy_of_the_session_is_used_and_not_with_a_key_in_clear(own: requests.Session) -> None:
    with serving(counting()) as proxy, serving(counting()) as server:
        own.proxies = {"http": proxy.url}
        transport.connect(server.url, api_key=KEY, session=own, cache="off")
        dd.raw("/x")
        assert (len(proxy.received), len(server.received)) == (1, 0)
        own.proxies = {"http": "http://proxy.example:3128"}
        with pytest.raises(ValueError, match="plain http through the session's proxy") as raised:
            transport.connect(server.url, api_key=KEY, session=own)
        assert KEY not in str(raised.value)


BACKENDS = ["sqlite", "filesystem"]


def stored_bytes(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("serializer", ["pickle", "json"])
def test_key_is_not_stored_in_a_users_backend(backend: str, serializer: str, tmp_path: Path) -> None:
    """Also where the API redirects within its origin, and repeats the key's name."""

    def answer(request: ReceivedRequest) -> Reply:
        if request.path == "/moved":
            return Reply(b"", status=302, headers={"Location": "/there"})
        return Reply.json({"path": request.path, "header": "X-Api-Key"})

    place = tmp_path / "mine"
    with serving(answer) as server, CachedSession(place, backend=backend, serializer=serializer) as session:
        transport.connect(server.url, api_key=KEY, session=session)
        assert dd.raw("/x")["path"] == "/x"
        assert dd.raw("/moved")["path"] == "/there"
        asked = len(server.received)
        assert dd.raw("/x")["path"] == "/x"
        assert len(server.received) == asked == 3, "from the session's cache"
        assert all(item.headers["X-Api-Key"] == KEY for item in server.received)
        transport.disconnect()
    stored = stored_bytes(tmp_path)
    assert b"/there" in stored
    start_of_key = KEY[:10].encode()
    for spelling in (start_of_key, KEY.encode().hex().encode()):
        assert spelling not in stored
    assert transport.cache_info().answers == 0, "nothing is in the cache of the library"


def test_two_keys_do_not_share_records_of_a_users_cache(tmp_path: Path) -> None:
    with serving(counting()) as server, CachedSession(tmp_path / "mine") as session:
        for key, expected in (("k-free-tier", 0), ("k-pro-tier", 1), ("k-free-tier", 0), ("k-pro-tier", 1)):
            transport.connect(server.url, api_key=key, session=session)
            assert dd.raw("/x") == {"n": expected}
        assert len(server.received) == 2


def test_users_session_without_expiry_uses_endpoint_expiry(tmp_path: Path) -> None:
    with serving(counting()) as server, CachedSession(tmp_path / "a") as plain:
        transport.connect(server.url, session=plain)
        dd.raw("/funding")
        [response] = plain.cache.filter()
        assert 0 < response.expires_delta <= FUNDING.fresh_seconds
    with serving(counting()) as server, CachedSession(tmp_path / "b", expire_after=3600) as chosen:
        transport.connect(server.url, session=chosen)
        dd.raw("/funding")
        [response] = chosen.cache.filter()
        assert response.expires_delta == pytest.approx(3600, abs=5)


def test_cache_modes_apply_to_a_users_cache(tmp_path: Path) -> None:
    """The server counts its requests: a new number is a new response."""
    with serving(counting()) as server, CachedSession(tmp_path / "mine") as session:

        def fetch(**how: Any) -> Any:
            transport.connect(server.url, session=session, **how)
            return dd.raw("/x")["n"]

        assert [fetch(cache="off"), fetch(cache="off")] == [0, 1]
        assert list(session.cache.filter()) == []
        assert [fetch(), fetch(), fetch(cache="refresh"), fetch()] == [2, 2, 3, 3]
        assert len(server.received) == 4


def test_offline_reads_responses_of_any_age_from_a_users_cache(tmp_path: Path) -> None:
    with serving(counting()) as server, CachedSession(tmp_path / "mine") as session:
        transport.connect(server.url, session=session)
        assert dd.raw("/x") == {"n": 0}
        session.cache.reset_expiration(timedelta(seconds=-60))
        transport.connect(server.url, session=session, offline=True)
        assert dd.raw("/x") == {"n": 0}
        assert transport.asof() == NOON.floor("min")
        with pytest.raises(errors.NotCached, match="/y: not in the cache"):
            dd.raw("/y")
        assert len(server.received) == 1


def test_expiry_of_a_users_cache_is_not_an_argument(tmp_path: Path) -> None:
    with (
        CachedSession(tmp_path / "mine") as session,
        pytest.raises(ValueError, match="set them on the CachedSession"),
    ):
        transport.connect("https://api.example.com", session=session, cache={"expire_after": 5})


def test_unreadable_record_is_removed_from_a_users_cache(tmp_path: Path) -> None:
    with serving(counting()) as server, CachedSession(tmp_path / "mine") as session:
        transport.connect(server.url, session=session)
        with pytest.raises(errors.SchemaError):
            dd.funding.snapshot()
        assert list(session.cache.filter()) == []


def test_object_that_is_not_a_session_is_rejected() -> None:
    with pytest.raises(TypeError, match=r"session must be a requests.Session, got str"):
        transport.connect("https://api.example.com", session="mine")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="'sample', which runs in this process"):
        transport.connect("sample", session=requests.Session())


def test_cache_implements_the_storage_interface_of_requests_cache(open_connection: Open) -> None:
    """The methods that requests-cache offers for its caches work on ours: count, delete, expire."""
    with serving(counting()) as server:
        connection = open_connection(server.url)
        for request in (HISTORY, OTHER):
            connection._serve(request, FUNDING)
        network: Network = connection._opened()
        stored = network._session.cache
        assert len(stored.responses) == 2
        assert stored.urls() == sorted(f"{server.url}/funding/historical?symbol={s}" for s in ("BTC", "ETH"))
        stored.delete(urls=[f"{server.url}/funding/historical?symbol=BTC"])
        assert stored.urls() == [f"{server.url}/funding/historical?symbol=ETH"]
        stored.clear()
        assert len(stored.responses) == 0
