"""Rules of every response: headers, methods, compression, errors, the root."""

from __future__ import annotations

import errno
import gzip
import os
import socket
from unittest.mock import Mock

import pandas as pd
import pytest
import requests

from derivdata.errors import ArchiveError
from derivdata.sources import service
from tests.service import market
from tests.service.conftest import PATIENCE, Caller, serving
from tests.service.memory_store import MemoryStore


def test_every_response_states_clock_and_source(ask: Caller) -> None:
    for path, tier in [("/", None), ("/funding", "free"), ("/funding", None), ("/nowhere", "pro")]:
        headers = ask(path, tier=tier).headers
        assert headers["Date"] == "Tue, 30 Jun 2026 12:00:00 GMT"
        assert headers["X-Derivdata-Source"] == "memory"
        assert headers["X-Derivdata-Synthetic"] == "1"
        assert headers["X-Derivdata-Source-Id"] == "memory-memory"
        assert headers["X-Derivdata-Data-Version"] == "1"
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["Cache-Control"] == "private"
        assert "X-Api-Key" in headers["Vary"]
        assert "Server" not in headers
    store = MemoryStore({"oi_history": market.open_interest()}, now=market.NOW, label="Büro", synthetic=False)
    local = service.start(store, now="2026-06-29 06:00:30")
    try:
        answer = requests.head(local.url, timeout=PATIENCE)
    finally:
        local.close()
    assert answer.headers["Date"] == "Mon, 29 Jun 2026 06:00:30 GMT"
    assert answer.headers["X-Derivdata-Source"] == "B%C3%BCro"
    assert "X-Derivdata-Synthetic" not in answer.headers
    assert (local.store.label, local.store.synthetic) == ("Büro", False)
    assert local.clock() == pd.Timestamp("2026-06-29 06:00:30Z")


@pytest.mark.parametrize("path", ["/", "/funding", "/nowhere", "/markets/symbols"])
def test_head_returns_the_headers_of_get_without_a_body(ask: Caller, path: str) -> None:
    actual, head = ask(path), ask(path, method="HEAD")
    assert head.status_code == actual.status_code
    assert head.headers == actual.headers
    assert head.content == b""


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"])
def test_other_methods_return_405_with_allow(ask: Caller, method: str) -> None:
    answer = ask("/funding", method=method)
    assert answer.status_code == 405
    assert {m.strip() for m in answer.headers["Allow"].split(",")} == {"GET", "HEAD"}
    assert "error" in answer.json()


def test_large_responses_are_compressed_if_the_client_accepts_gzip(ask: Caller) -> None:
    url = f"{ask.local.url}/funding/historical?symbol=BTC"
    key = {"X-Api-Key": "key-pro"}
    with requests.get(
        url, headers=key | {"Accept-Encoding": "gzip"}, stream=True, timeout=PATIENCE
    ) as answer:
        assert answer.headers["Content-Encoding"] == "gzip"
        packed = answer.raw.read(decode_content=False)
    for refused in ["identity", "gzip;q=0", "br"]:
        plain = requests.get(url, headers=key | {"Accept-Encoding": refused}, timeout=PATIENCE)
        assert "Content-Encoding" not in plain.headers
        assert plain.headers["Vary"] == "Accept-Encoding, X-Api-Key"
        assert gzip.decompress(packed) == plain.content


@pytest.mark.parametrize(
    ("problem", "status"),
    [(ArchiveError("gone"), 503), (OSError(5, "secret path"), 503), (ZeroDivisionError("secret"), 500)],
)
def test_failures_are_json_without_details(
    problem: Exception, status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(MemoryStore, "newest", Mock(side_effect=problem))
    with serving({"funding_history": market.funding()}) as ask:
        body = ask.error("/funding", status)
    assert set(body) == {"error"}
    assert type(problem).__name__ in body["error"]
    assert "secret" not in body["error"]


def test_responses_are_cached_until_the_store_changes(ask: Caller) -> None:
    first = [ask("/markets/symbols", tier=tier).content for tier in ("dev", "pro")]
    assert [ask("/markets/symbols", tier=tier).content for tier in ("dev", "pro")] == first
    store = MemoryStore({"oi_history": market.open_interest()}, now=market.NOW)
    with serving(store) as ask:
        before = ask.body("/oi/exchanges-summary")
        store.frames["oi_history"] = store.frames["oi_history"].assign(oi_usd=1.0)
        assert ask.body("/oi/exchanges-summary") == before
        store.identity = "another"
        assert ask.body("/oi/exchanges-summary")["total_market_oi"] == 4.0


def test_closed_service_refuses_connections_and_repr_hides_its_key() -> None:
    local = service.start(MemoryStore({"oi_history": market.open_interest()}, now=market.NOW))
    assert requests.get(local.url, timeout=PATIENCE).json()["source"] == "memory"
    assert local.api_key not in repr(local)
    local.close()
    local.close()
    with pytest.raises(requests.ConnectionError):
        requests.get(local.url, timeout=PATIENCE)


def test_occupied_port_raises_one_clear_error() -> None:
    store = MemoryStore({"oi_history": market.open_interest()}, now=market.NOW)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(
            OSError, match=rf"cannot listen on 127\.0\.0\.1 port {port}: {os.strerror(errno.EADDRINUSE)}"
        ):
            service.start(store, port=port)
    with pytest.raises(OSError, match=r"cannot listen on nowhere\.invalid port 0"):
        service.start(store, host="nowhere.invalid")
    with pytest.raises(OSError, match=r"cannot listen on 127\.0\.0\.1 port 99999: a port must be from"):
        service.start(store, port=99999)


@pytest.mark.parametrize(("lag", "version"), [("0h", "3"), ("1s", "3.7"), ("61min", "3.7")])
def test_every_change_alters_the_version_if_the_clock_is_ahead_of_the_data(lag: str, version: str) -> None:
    """A window may be closed by the clock while its rows are still to come: they change no epoch."""
    store = MemoryStore({"oi_history": market.open_interest()}, now=market.NOW)
    store.version = "3.7"
    with serving(store, now=store.now + pd.Timedelta(lag)) as ask:
        assert ask("/oi/exchanges-summary").headers["X-Derivdata-Data-Version"] == version
