"""Cached responses: which, for how long, where, and after failures of the disk."""

from __future__ import annotations

import errno
import hashlib
import os
import random
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

from derivdata import errors
from derivdata.client import transport
from derivdata.client.transport import cache
from derivdata.tables.endpoints import FUNDING, FUNDING_HISTORICAL, Request
from tests.support.kept_answers import head
from tests.transport.conftest import Open, checked
from tests.transport.server import NOON, ReceivedRequest, Reply, Server, serving

HISTORY = Request("/funding/historical", (("symbol", "BTC"),))
HOUR = pd.Timedelta("1h")
BRIEF = replace(FUNDING, fresh_seconds=1.0)


def counting(**extra: Any) -> Callable[[ReceivedRequest], Reply]:
    """Return a server function that numbers its responses."""
    count = iter(range(1_000_000))
    return lambda _: Reply.json({"n": next(count), **extra})


def files(folder: Path) -> list[Path]:
    return sorted(p for p in folder.rglob("*.answer"))


def expire(folder: Path, since: str = "365D") -> None:
    """Rewrite every record as if it had been received a year ago, or another time before now."""
    for path in files(folder):
        record = cache.ResponseFiles(path.parents[1], path.parent.name).record(path.stem)
        assert record is not None
        if record.head.expires is not None:
            past = pd.Timedelta(since).to_pytimedelta()
            record.head.created -= past
            record.head.expires -= past
            path.write_bytes(cache.dump(record.head, record.body))


@pytest.mark.parametrize(
    ("until", "notices", "closed"),
    [
        (NOON - HOUR, [], True),
        (NOON - HOUR, None, True),
        (NOON - HOUR + pd.Timedelta("1s"), [], False),
        (NOON, [], False),
        (NOON + HOUR, [], False),
        (None, [], False),
        (NOON - 24 * HOUR, ["clamped to 30 days"], False),
        (NOON - 24 * HOUR, "clamped", False),
    ],
)
def test_only_closed_windows_without_notices_never_expire(
    until: pd.Timestamp | None, notices: Any, closed: bool, open_connection: Open, tmp_path: Path
) -> None:
    with serving(counting(notices=notices)) as server:
        connection = open_connection(server.url)
        first = connection._serve(HISTORY, FUNDING_HISTORICAL, until)
        assert connection._serve(HISTORY, FUNDING_HISTORICAL, until) == first, "fresh in any case"
        expire(tmp_path)
        again = connection._serve(HISTORY, FUNDING_HISTORICAL, until)
    assert (again == first) is closed
    assert len(server.received) == (1 if closed else 2)


def test_record_with_a_date_in_the_future_is_requested_again(open_connection: Open, tmp_path: Path) -> None:
    with serving(counting()) as server:
        connection = open_connection(server.url)
        first = connection._serve(HISTORY, FUNDING_HISTORICAL)
        expire(tmp_path, "-1D")
        assert open_connection(server.url, offline=True)._serve(HISTORY, FUNDING_HISTORICAL) == first
        second = connection._serve(HISTORY, FUNDING_HISTORICAL)
        assert second.body != first.body
        assert connection._serve(HISTORY, FUNDING_HISTORICAL) == second
        assert len(server.received) == 2


def test_cached_response_needs_neither_a_thread_nor_the_session(
    open_connection: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving(counting()) as server:
        connection = open_connection(server.url)
        first = connection._serve(HISTORY, FUNDING)

        def refuse(*_: Any, **__: Any) -> None:
            raise AssertionError("asked for")

        monkeypatch.setattr("derivdata.client.transport.connection.started", refuse)
        again = connection._serve(HISTORY, FUNDING)
        assert again == first
        assert again.sha256 == hashlib.sha256(again.body).hexdigest() == first.sha256
        with pytest.raises(AssertionError, match="asked for"):
            open_connection(server.url, cache="refresh")._serve(HISTORY, FUNDING)


def test_record_stored_by_another_thread_meanwhile_is_used(
    open_connection: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving(counting()) as server:
        connection = open_connection(server.url)
        first = connection._serve(HISTORY, FUNDING)
        cached, looks = connection._cached, iter([None])
        monkeypatch.setattr(connection, "_cached", lambda url: next(looks, cached(url)))
        assert connection._serve(HISTORY, FUNDING) == first
        assert len(server.received) == 1


def test_cached_response_imports_no_network_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DERIVDATA_CACHE_DIR", str(tmp_path))
    with serving(counting()) as server:
        transport.connect(server.url)
        transport.raw("/x")
        transport.disconnect()
    code = (
        "import sys, derivdata as dd\n"
        f"dd.connect({server.url!r}, offline=True)\n"
        "network = ('requests', 'urllib3', 'tqdm')\n"
        "print(dd.raw('/x'), [m for m in network if m in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "{'n': 0} []"


def test_cache_entries_depend_on_key_and_source_but_not_on_the_port(open_connection: Open) -> None:
    with serving(counting()) as server, serving(counting(other=True)) as other:
        open_connection(server.url, key="k-free-tier")._serve(HISTORY, FUNDING)
        open_connection(server.url, key="k-pro-tier")._serve(HISTORY, FUNDING)
        assert len(server.received) == 2
        open_connection(other.url, key="k-pro-tier")._serve(HISTORY, FUNDING)
        assert len(other.received) == 1
        open_connection(server.url, key=None, scope="local sample 1")._serve(HISTORY, FUNDING)
        open_connection(other.url, key=None, scope="local sample 1")._serve(HISTORY, FUNDING)
        assert (len(server.received), len(other.received)) == (3, 1)


def test_cache_off_reads_and_writes_nothing_and_refresh_replaces_records(
    open_connection: Open, tmp_path: Path
) -> None:
    with serving(counting()) as server:
        connection = open_connection(server.url, cache="off")
        connection._serve(HISTORY, FUNDING)
        connection._serve(HISTORY, FUNDING)
        assert len(server.received) == 2
    assert files(tmp_path) == []
    with serving(counting()) as server:
        open_connection(server.url)._serve(HISTORY, FUNDING)
        fresh = open_connection(server.url, cache="refresh")._serve(HISTORY, FUNDING)
        kept = open_connection(server.url)._serve(HISTORY, FUNDING)
        assert len(server.received) == 2
    assert fresh.body == kept.body == b'{"n": 1}'


def test_offline_mode_uses_records_of_any_age_and_opens_no_socket(
    open_connection: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving(counting()) as server:
        first = open_connection(server.url)._serve(HISTORY, FUNDING)
        expire(tmp_path)

    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("a socket was asked for")

    monkeypatch.setattr("socket.socket.connect", refuse)
    monkeypatch.setattr("socket.getaddrinfo", refuse)
    offline = open_connection(server.url, offline=True)
    assert offline._serve(HISTORY, FUNDING) == first
    assert offline.clock() == NOON.floor("min")
    with pytest.raises(errors.NotCached, match="/funding/historical\\?symbol=ETH: not in the cache"):
        offline._serve(Request("/funding/historical", (("symbol", "ETH"),)), FUNDING)
    with pytest.raises(errors.NotCached, match="read the time from"):
        open_connection("https://nowhere.example", offline=True).clock()


def test_cached_response_equals_the_response(open_connection: Open) -> None:
    """Body to the byte, date, headers that matter; 1.2 MB, not ASCII. Those on caching do not."""
    body = ('{"text": "' + "é€😀\\u0000 " * 100_000 + '"}').encode()
    caching = {"Cache-Control": "no-store", "Vary": "X-Api-Key, Accept", "ETag": '"1"', "Set-Cookie": "a=b"}
    headers = {"Deprecation": "true", "X-Derivdata-Source": "tape", "X-Derivdata-Synthetic": "1"} | caching
    with serving(lambda _: Reply(body, headers=headers)) as server:
        connection = open_connection(server.url)
        first = connection._serve(HISTORY, FUNDING)
        second = connection._serve(HISTORY, FUNDING)
        assert len(server.received) == 1
    assert first == second
    assert second.body == body
    assert (second.source, second.synthetic, second.as_of) == ("tape", True, NOON)
    assert set(second.headers) & {"Deprecation", *caching} == {"Deprecation"}


def test_record_that_decompresses_too_large_is_a_miss() -> None:
    """A right seal does not make 1 GiB of zeros a response of 10 bytes."""
    swollen = cache.dump(head("k", b"0" * 10), b"0" * 10)
    result = cache.read(swollen, "k")
    assert result is not None
    assert result.body == b"0" * 10
    small, large = (pa.compress(b"0" * n, codec="zstd", asbytes=True) for n in (10, 2**24))
    assert small in swollen
    rest = swollen.replace(small, large).partition(b"\n")[2]
    seal = b"derivdata-answer-2 " + hashlib.sha256(rest).hexdigest().encode()
    assert cache.read(seal + b"\n" + rest, "k") is None


def test_record_states_its_request_and_expiry(open_connection: Open, tmp_path: Path) -> None:
    """Damage of it: tests/reliability/test_damage.py."""
    with serving(counting()) as server:
        open_connection(server.url)._serve(HISTORY, BRIEF)
    [path] = files(tmp_path)
    record = cache.ResponseFiles(path.parents[1], path.parent.name).record(path.stem)
    assert record is not None
    assert record.head.url == "/funding/historical?symbol=BTC"
    assert record.head.expires is not None
    fresh = record.head.expires - record.head.created
    assert timedelta(seconds=0.9) < fresh <= timedelta(seconds=1), "requests-cache reads the clock twice"


def test_full_disk_gives_one_warning_and_all_responses(
    open_connection: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any, **__: Any) -> Any:
        raise OSError(errno.ENOSPC, "No space left on device")

    with serving(counting()) as server:
        connection = open_connection(server.url)
        with monkeypatch.context() as patch:
            patch.setattr(Path, "replace", full)
            with pytest.warns(errors.CacheNotice, match="No space left"):
                connection._serve(HISTORY, FUNDING)
            assert connection._serve(HISTORY, FUNDING).body == b'{"n": 1}'
        assert [p for p in tmp_path.rglob("*") if p.name.startswith(".tmp-")] == []
        connection._serve(HISTORY, FUNDING)
        assert connection._serve(HISTORY, FUNDING).body == b'{"n": 2}'


def test_cache_path_that_is_a_file_gives_one_warning_and_all_responses(
    open_connection: Open, tmp_path: Path
) -> None:
    (tmp_path / "cache").write_text("in the way")
    with serving(counting()) as server:
        connection = open_connection(server.url)
        with pytest.warns(errors.CacheNotice, match="not stored"):
            assert checked(connection._serve(HISTORY, FUNDING_HISTORICAL)).body == b'{"n": 0}'
        assert connection._serve(HISTORY, FUNDING_HISTORICAL).body == b'{"n": 1}'


def test_cache_files_are_readable_by_their_owner_only(open_connection: Open, tmp_path: Path) -> None:
    with serving(counting()) as server:
        open_connection(server.url)._serve(HISTORY, FUNDING_HISTORICAL)
    made = [tmp_path / "cache", *(tmp_path / "cache").rglob("*")]
    assert {oct(p.stat().st_mode & 0o777) for p in made if p.is_dir()} == {"0o700"}
    assert {oct(p.stat().st_mode & 0o777) for p in made if p.is_file()} == {"0o600"}


def test_cache_folder_is_that_of_the_variable_or_of_the_platform(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("DERIVDATA_CACHE_DIR", "~/mine")
    assert transport.cache_info().folder == Path.home() / "mine"
    monkeypatch.delenv("DERIVDATA_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert transport.cache_info().folder.name == "derivdata"


def fill(server: Server, count: int) -> None:
    transport.connect(server.url)
    for n in range(count):
        transport.raw(f"/x/{n}")


def test_cache_info_counts_and_clear_removes_records(tmp_path: Path) -> None:
    assert transport.cache_clear() == 0
    with serving(counting()) as server:
        fill(server, 3)
        info = transport.cache_info()
        assert (info.answers, info.limit_bytes) == (3, 2**30)
        assert info.bytes == sum(p.stat().st_size for p in files(info.folder))
        assert repr(info).startswith("CacheInfo(3 responses, 0.0 of 1024 MiB, ")
        assert transport.cache_clear() == 3
        assert transport.cache_info().answers == 0
        fill(server, 1)
        assert len(server.received) == 4


@pytest.mark.parametrize("older_than", ["2h", pd.Timedelta("2h")])
def test_clear_can_preserve_recent_records(older_than: Any) -> None:
    with serving(counting()) as server:
        fill(server, 3)
    old = files(transport.cache_info().folder)[0]
    os.utime(old, (old.stat().st_atime, old.stat().st_mtime - 7300))
    assert transport.cache_clear(older_than=older_than) == 1
    assert not old.exists()
    assert transport.cache_info().answers == 2


@pytest.mark.parametrize("older_than", ["soon", 5, pd.Timedelta("-1h"), pd.NaT])
def test_clear_requires_a_duration(older_than: Any) -> None:
    with serving(counting()) as server:
        fill(server, 1)
    with pytest.raises(ValueError, match="older_than"):
        transport.cache_clear(older_than=older_than)
    assert transport.cache_info().answers == 1


def test_oldest_records_are_evicted_at_the_limit_and_stray_files_removed(
    open_connection: Open, tmp_path: Path
) -> None:
    with serving(counting(pad="x" * 100)) as server:
        connection = open_connection(server.url)
        for n in range(10):
            connection._serve(Request(f"/x/{n}", ()), FUNDING)
    root = tmp_path / "cache" / "answers"
    by_age = files(root)
    for age, path in enumerate(reversed(by_age)):
        os.utime(path, (1e9, 1e9 - age))
    stray, young = root / ".tmp-old", root / ".tmp-young"
    for path in (stray, young):
        path.write_text("")
    os.utime(stray, (1e9, 1e9))
    limit = sum(p.stat().st_size for p in by_age[6:])
    cache.evict(root, limit)
    assert files(root) == by_age[6:]
    assert young.exists()
    assert not stray.exists()


def test_long_session_evicts_records_while_it_writes(
    open_connection: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache, "LIMIT_BYTES", 30_000)
    monkeypatch.setattr(cache, "EVICT_EVERY_BYTES", 10_000)
    chance = random.Random(1)
    with serving(lambda _: Reply.json({"noise": chance.randbytes(2000).hex()})) as server:
        connection = open_connection(server.url)
        for n in range(40):
            connection._serve(Request(f"/x/{n}", ()), FUNDING)
    kept = sum(p.stat().st_size for p in files(tmp_path))
    assert 15_000 < kept < 45_000
