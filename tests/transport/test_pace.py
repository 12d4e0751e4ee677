"""Turns: spaced below the limit, shared by all clients of one key, skipped by hits and by local sources."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from filelock import FileLock

from derivdata.client.transport.settings import Pace
from derivdata.tables.endpoints import FUNDING, FUNDING_HISTORICAL, Request
from tests.transport.conftest import HANGS_SECONDS, FakeTime, Open
from tests.transport.server import Reply, serving

SPACING = 1 / 1.8


def history(n: int) -> Request:
    return Request("/funding/historical", (("symbol", f"S{n}"),))


def test_historical_requests_are_limited_to_1_8_per_second(open_connection: Open, fake: FakeTime) -> None:
    with serving(lambda _: Reply.json({})) as server:
        connection = open_connection(server.url)
        for n in range(4):
            connection._serve(history(n), FUNDING_HISTORICAL)
            connection._serve(Request("/funding", (("n", str(n)),)), FUNDING)
    assert fake.slept == pytest.approx([SPACING] * 3)


def test_missed_turn_is_taken_again_after_sleep(fake: FakeTime, tmp_path: Path) -> None:
    """The machine wakes the second request 0.2 s late: it has the third turn, and the next one the fourth."""
    late = iter([0.2])

    def sleep(seconds: float) -> None:
        fake.sleep(seconds)
        fake.now += next(late, 0.0)

    pace = Pace(tmp_path, "scope", replace(fake.timing, sleep=sleep))
    sent = []
    for _ in range(3):
        pace.wait(FUNDING_HISTORICAL)
        sent.append(fake.now - 1000.0)
    assert sent == pytest.approx([0.0, 2 * SPACING, 3 * SPACING])
    assert fake.slept == pytest.approx([SPACING, SPACING - 0.2, SPACING])


def test_every_retry_takes_a_turn(open_connection: Open, fake: FakeTime) -> None:
    replies = iter([Reply.json({}, status=500), Reply.json({}, status=500)])
    with serving(lambda _: next(replies, Reply.json({}))) as server:
        open_connection(server.url)._serve(history(0), FUNDING_HISTORICAL)
    pauses, turns = [0.25, 0.5], [SPACING - 0.25, SPACING - 0.5]
    assert fake.slept == pytest.approx([pauses[0], turns[0], pauses[1], turns[1]])


def test_in_process_source_has_no_rate_limit(open_connection: Open, fake: FakeTime, tmp_path: Path) -> None:
    with serving(lambda _: Reply.json({})) as server:
        connection = open_connection(server.url, paced=False)
        for n in range(5):
            connection._serve(history(n), FUNDING_HISTORICAL)
    assert fake.slept == []
    assert not (tmp_path / "cache" / "turns").exists()


def test_rate_limit_is_shared_by_connections_of_one_key(open_connection: Open, fake: FakeTime) -> None:
    with serving(lambda _: Reply.json({})) as server:
        open_connection(server.url)._serve(history(0), FUNDING_HISTORICAL)
        open_connection(server.url)._serve(history(1), FUNDING_HISTORICAL)
        assert fake.slept == pytest.approx([SPACING])
        open_connection(server.url, key="another-key")._serve(history(2), FUNDING_HISTORICAL)
    assert len(fake.slept) == 1


@pytest.mark.parametrize("slot", [b"", b"junk", b"nan", b"inf", b"999999", b"\xff\xfe"])
def test_damaged_slot_file_allows_a_request(slot: bytes, fake: FakeTime, tmp_path: Path) -> None:
    pace = Pace(tmp_path, "scope", fake.timing)
    pace.wait(FUNDING_HISTORICAL)
    [file] = (path for path in tmp_path.iterdir() if path.suffix != ".lock")
    file.write_bytes(slot)
    pace.wait(FUNDING_HISTORICAL)
    assert fake.slept == []
    pace.wait(FUNDING_HISTORICAL)
    assert fake.slept == pytest.approx([SPACING])


def test_rate_limit_holds_within_the_process_without_a_file(fake: FakeTime, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    pace = Pace(tmp_path / "file" / "turns", "scope", fake.timing)
    for _ in range(3):
        pace.wait(FUNDING_HISTORICAL)
    assert fake.slept == pytest.approx([SPACING] * 2)


def test_stopped_process_with_the_file_lock_does_not_block_others(fake: FakeTime, tmp_path: Path) -> None:
    """After half a second the process takes its turn without the file."""
    pace = Pace(tmp_path, "scope", fake.timing)
    pace.wait(FUNDING_HISTORICAL)
    [file] = (path for path in tmp_path.iterdir() if path.suffix != ".lock")
    with FileLock(f"{file}.lock"), ThreadPoolExecutor(1) as other:
        started = time.perf_counter()
        other.submit(pace.wait, FUNDING_HISTORICAL).result()
        assert 0.5 <= time.perf_counter() - started < HANGS_SECONDS
    assert fake.slept == []
