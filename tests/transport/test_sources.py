"""Source, data and clock of a response decide whether the cache may use it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pandas as pd
import pytest

from derivdata import errors
from derivdata.client import transport
from derivdata.client.transport import cache
from derivdata.client.transport.response import plain_text
from derivdata.tables.endpoints import FUNDING, FUNDING_HISTORICAL, Request
from tests.transport.conftest import FakeTime, Open
from tests.transport.server import NOON, ReceivedRequest, Reply, serving

HISTORY = Request("/funding/historical", (("symbol", "BTC"),))
HOUR = pd.Timedelta("1h")


@dataclass
class Source:
    """A served archive that a test changes while it runs."""

    id: str | None = "archive-1"
    version: str | None = "1"
    rows: int = 12
    label: str = "mine"
    down: bool = False

    def __call__(self, request: ReceivedRequest) -> Reply:
        headers = {"X-Derivdata-Source": quote(self.label)}
        if self.id is not None:
            headers["X-Derivdata-Source-Id"] = self.id
        if self.version is not None:
            headers["X-Derivdata-Data-Version"] = self.version
        if self.down:
            return Reply(raw=lambda _: None)
        return Reply.json({"rows": self.rows}, headers=headers)


def rows(connection: transport.Connection) -> int:
    """Rows of a window that closed long ago."""
    body = connection._serve(HISTORY, FUNDING_HISTORICAL, NOON - 24 * HOUR).body
    return int(json.loads(body)["rows"])


def gets(requests: list[ReceivedRequest]) -> int:
    return sum(a.method == "GET" for a in requests)


def test_closed_window_stays_cached_when_rows_are_appended(open_connection: Open) -> None:
    source = Source()
    with serving(source) as server:
        assert rows(open_connection(server.url)) == 12
        source.rows = 99  # what it would answer now; the version says that the past has not changed
        assert [rows(open_connection(server.url)) for _ in range(3)] == [12, 12, 12]
        assert gets(server.received) == 1


def test_rows_added_to_the_past_are_fetched(open_connection: Open, fake: FakeTime) -> None:
    source = Source()
    with serving(source) as server:
        connection = open_connection(server.url)
        assert rows(connection) == 12
        source.rows, source.version = 24, "2"
        assert rows(open_connection(server.url)) == 24, "by the next connection at once"
        fake.now += 3
        assert rows(connection) == 24, "by this one when it has looked again"
        assert gets(server.received) == 2


@pytest.mark.parametrize("other", ["archive-2", None])
def test_sources_at_the_same_address_do_not_share_records(other: str | None, open_connection: Open) -> None:
    source = Source()
    with serving(source) as server:
        assert rows(open_connection(server.url)) == 12
        source.id, source.rows = other, 7
        assert rows(open_connection(server.url)) == 7
        source.id, source.rows = "archive-1", 12
        assert rows(open_connection(server.url)) == 12


@pytest.mark.parametrize(
    ("source", "requests"), [(lambda _: Reply.json({"rows": 12}), 1), (Source(id=None, version=None), 2)]
)
def test_service_without_a_data_identity_is_identified_by_its_address(
    source: Any, requests: int, open_connection: Open
) -> None:
    """The hosted service, which is not requested to use the cache; and a served archive of 0.1."""
    with serving(source) as server:
        assert [rows(open_connection(server.url)) for _ in range(2)] == [12, 12]
        assert (gets(server.received), len(server.received)) == (1, requests)


def test_unreachable_source_uses_the_cache_only_offline(open_connection: Open) -> None:
    source = Source()
    with serving(source) as server:
        assert rows(open_connection(server.url)) == 12
        source.down = True
        with pytest.raises(errors.NetworkError):
            rows(open_connection(server.url))
        assert rows(open_connection(server.url, offline=True)) == 12


def test_data_identity_is_read_at_most_every_two_seconds(open_connection: Open, fake: FakeTime) -> None:
    with serving(Source()) as server:
        rows(open_connection(server.url))
        connection = open_connection(server.url)
        assert [rows(connection) for _ in range(20)] == [12] * 20
        assert [a.method for a in server.received] == ["GET", "HEAD"]
        fake.now += 2.5
        rows(connection)
        assert [a.method for a in server.received] == ["GET", "HEAD", "HEAD"]


def machine(at: pd.Timestamp, fake: FakeTime) -> object:
    """Timing of a machine whose clock is at a time."""
    stands: datetime = at.to_pydatetime()
    return replace(fake.timing, machine=lambda: stands)


@pytest.mark.parametrize(("ahead", "kept"), [("5min", True), ("5min1s", False), ("2h", False)])
def test_server_clock_ahead_of_this_machine_closes_no_window(
    ahead: str, kept: bool, open_connection: Open, fake: FakeTime, tmp_path: Path
) -> None:
    """Its `Date` shows that the last rows are present; one in the future shows nothing."""
    timing = machine(NOON - pd.Timedelta(ahead), fake)
    with serving(lambda _: Reply.json({"rows": 8})) as server:
        rows(open_connection(server.url, timing=timing))
    [path] = tmp_path.rglob("*.answer")
    record = cache.read(path.read_bytes(), path.stem)
    assert record is not None
    assert (record.head.expires is None) is kept


def dated(folder: Path, open_connection: Open, dates: list[pd.Timestamp]) -> str:
    """Cache one response for each date; return the server's address."""
    given = iter(dates)
    with serving(lambda _: Reply.json({}, date=next(given))) as server:
        connection = open_connection(server.url)
        for n, _ in enumerate(dates):
            connection._serve(Request(f"/x/{n}", ()), FUNDING)
        return server.url


def offline(url: str, open_connection: Open, fake: FakeTime) -> pd.Timestamp:
    return open_connection(url, offline=True, timing=machine(NOON + 24 * HOUR, fake)).clock()


def test_the_offline_clock_ignores_dates_of_the_future(
    open_connection: Open, fake: FakeTime, tmp_path: Path
) -> None:
    url = dated(tmp_path, open_connection, [NOON, pd.Timestamp("2099-01-01T00:00Z"), NOON - HOUR])
    assert offline(url, open_connection, fake) == NOON.floor("min")
    assert (
        open_connection(url, offline=True, timing=machine(pd.Timestamp("2099-01-02T00:00Z"), fake))
        .clock()
        .year
        == 2099
    )


def test_the_offline_clock_reads_sealed_records_only(
    open_connection: Open, fake: FakeTime, tmp_path: Path
) -> None:
    """A head points to the record, and the sealed record is authoritative."""
    newest = NOON + 2 * HOUR
    url = dated(tmp_path, open_connection, [NOON, newest, NOON + HOUR])
    connection = open_connection(url, offline=True, timing=machine(NOON + 24 * HOUR, fake))
    assert connection.clock() == newest.floor("min")
    [path] = [p for p in tmp_path.rglob("*.answer") if b"14:00:30" in p.read_bytes()]
    path.write_bytes(path.read_bytes().replace(b"14:00:30", b"15:00:30"))
    assert offline(url, open_connection, fake) == (NOON + HOUR).floor("min"), "the seal is broken"
    [path] = [p for p in tmp_path.rglob("*.answer") if b"13:00:30" in p.read_bytes()]
    path.unlink()
    assert connection.clock() == NOON.floor("min"), "another process may add and remove answers"


WITHOUT_HOME = """
import pwd, os, sys, warnings

def unknown(uid):
    raise KeyError(uid)

pwd.getpwuid = unknown
for name in ("HOME", "XDG_CACHE_HOME", "DERIVDATA_CACHE_DIR"):
    os.environ.pop(name, None)
import numpy  # its own warnings, such as that of switched-off kernels, come at its import
import derivdata as dd
from derivdata import errors
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    dd.connect(sys.argv[1])
    dd.connect(sys.argv[1])
    print(dd.raw("/x"), dd.raw("/x"))
print([w.category is errors.CacheNotice for w in caught])
print(dd.cache_info().folder)
print(dd.cache_info().answers, flush=True)  # a child would print again what waits to be written
if os.fork() == 0:
    sys.exit()
os.wait()
print(dd.cache_info().answers)
os.environ["DERIVDATA_CACHE_DIR"] = "~/here"
try:
    dd.connect(sys.argv[1])
except ValueError as error:
    print(error)
"""


@pytest.mark.skipif(os.name != "posix", reason="needs users without an entry")
def test_user_without_a_home_has_a_temporary_cache(tmp_path: Path) -> None:
    count = iter(range(100))
    with serving(lambda _: Reply.json({"n": next(count)})) as server:
        run = subprocess.run(
            [sys.executable, "-c", WITHOUT_HOME, server.url], capture_output=True, text=True, check=False
        )
    assert run.returncode == 0, run.stderr
    answers, notices, folder, cached, after_fork, refused = run.stdout.splitlines()
    assert answers == "{'n': 0} {'n': 0}"
    assert notices == "[True]"
    assert (cached, after_fork) == ("1", "1"), "a child that ends does not take the cache away"
    assert not Path(folder).exists()
    assert "no home folder" in refused


def test_server_text_is_shown_as_one_line_without_control_characters() -> None:
    assert plain_text("two\n  lines\tand \x1b]0;title\x07", 100) == r"two lines and \x1b]0;title\x07"
    assert plain_text("\u202egnp.exe", 100) == r"\u202egnp.exe"
    assert plain_text("Märkte 日本 😀", 100) == "Märkte 日本 😀"
    assert plain_text("x" * 301, 300) == "x" * 299 + "…"
    assert len(plain_text("\x1b" * 10_000, 300)) == 300


def test_notices_are_limited_in_number_and_length_and_escaped(recwarn: pytest.WarningsRecorder) -> None:
    notices = ["\x1b[2J" + "long " * 200, *(f"notice {n}" for n in range(50_000))]
    with serving(lambda _: Reply.json({"notices": notices})) as server:
        transport.connect(server.url)
        answer = transport.get(FUNDING, {}, into=dict[str, object])
    assert len(answer.notices) == len(recwarn) == 20
    assert max(map(len, answer.notices)) == 300
    assert answer.notices[0].startswith(r"\x1b[2Jlong long")
    assert answer.notices[18:] == ("notice 17", "and 49,982 more notices")


def test_errors_sources_and_deprecations_are_escaped_too(recwarn: pytest.WarningsRecorder) -> None:
    def answer(request: ReceivedRequest) -> Reply:
        if request.path == "/bad":
            return Reply.json({"error": "no\x1b[2J such\nthing"}, status=400)
        headers = {"X-Derivdata-Source": quote("mine\n\x1b]0;x"), "Deprecation": "true", "Link": "a\x7fb"}
        return Reply.json({"unit": "\x1b[31mred"}, headers=headers)

    with serving(answer) as server:
        transport.connect(server.url)
        with pytest.raises(errors.BadRequest, match=r"no\\x1b\[2J such thing"):
            transport.raw("/bad")
        actual = transport.get(FUNDING, {}, into=dict[str, str])
    assert actual.source == r"mine \x1b]0;x"
    assert [str(w.message) for w in recwarn] == [r"/funding: Deprecation: true; Link: a\x7fb"]
