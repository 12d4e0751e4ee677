"""Ctrl-C at drawn bytecodes of public calls: it stays KeyboardInterrupt, and leaves no file and no lock."""

from __future__ import annotations

import contextlib
import os
import random
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import derivdata as dd
from derivdata.client.bundle import files as bundle_files
from derivdata.client.bundle import recording
from derivdata.client.transport import SESSION, session
from derivdata.sources.archive import Archive
from derivdata.sources.archive.storage import FolderLock
from derivdata.sources.collect.collector import Collector
from derivdata.support import files
from tests.collect.conftest import archive, clock, fakes, make_collector
from tests.collect.fakes import SimulatedClock
from tests.reliability.conftest import Measured, Use
from tests.reliability.promises import count
from tests.support.interrupts import interrupted, places
from tests.transport.conftest import HANGS_SECONDS

__all__ = ["archive", "clock", "fakes", "make_collector"]  # fixtures of the collector's tests

FILES = (str(Path(dd.__file__).parent), threading.__file__, contextlib.__file__)

# What a `finally` would leave in place where the interrupt is raised between a resource and its handler.
pytestmark = pytest.mark.filterwarnings(
    "ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"
)


def _is_handed_over(place: str) -> bool:
    """Return whether no handler is active: as `typed` returns a result to a ``with``, or as it ends."""
    return place.endswith(" __exit__") or "arguments.py:" in place


START, END = "2026-06-29T00:00", "2026-06-29T03:00"


def _fetch(_: Path) -> Any:
    return dd.oi.history("BTC", START, END, venues="binance")


def _record(folder: Path) -> Any:
    with dd.record(folder / "recorded.ddz"):
        return dd.funding.snapshot()


def _replay(folder: Path) -> Any:
    with dd.replay(folder / "given.ddz"):
        return dd.funding.snapshot()


def _card(folder: Path) -> Any:
    return dd.card(dd.funding.snapshot(), folder / "card.json")["figures"]


def _rerun(folder: Path) -> Any:
    return dd.rerun(folder / "given.json", folder / "given.ddz")


def _report(folder: Path) -> Any:
    path = dd.report("BTC", out=folder / "report.html", window="2d", sections=["oi"], venues=["binance"])
    return path.read_text(encoding="utf-8").splitlines()[:-1]


CALLS: dict[str, Callable[[Path], Any]] = {
    "fetch": _fetch,
    "record": _record,
    "replay": _replay,
    "card": _card,
    "rerun": _rerun,
    "report": _report,
}


def _same(value: Any, expected: Any) -> bool:
    return bool(value.equals(expected)) if isinstance(expected, pd.DataFrame) else bool(value == expected)


def _files(folder: Path) -> set[str]:
    """Return the files below a folder, and the cache files being written."""
    cache = Path(os.environ["DERIVDATA_CACHE_DIR"])
    return {path.name for path in folder.rglob("*")} | {path.name for path in cache.rglob(".tmp-*")}


@pytest.mark.parametrize("name", CALLS)
def test_interrupted_call_raises_keyboard_interrupt_and_next_call_works(
    name: str, use: Use, tmp_path: Path, measured: Measured
) -> None:
    use("ok", cache="on")
    with dd.record(tmp_path / "given.ddz"):
        dd.card(dd.funding.snapshot(), tmp_path / "given.json")

    def call() -> Any:
        return CALLS[name](tmp_path)

    expected = call()
    bytecodes = places(call, FILES)
    assert len(bytecodes) > 300
    # A traced report takes 30 times as long as a fetch, whose bytecodes are interrupted above.
    number = count(3, 60) if name == "report" else count(8, 300)
    drawn = random.Random(4).sample(bytecodes, number)
    files_before = _files(tmp_path)
    session_before = (SESSION.responder, SESSION.observer, [])
    interruptions = 0
    for bytecode in drawn:
        result = interrupted(call, FILES, bytecode)
        interruptions += result.place != ""
        assert not result.place or type(result.problem) is KeyboardInterrupt, result
        assert _files(tmp_path) == files_before, result
        if _is_handed_over(result.place):
            SESSION.end_active()  # as the next `record`, `replay` or `disconnect` does
        assert (SESSION.responder, SESSION.observer, SESSION.closers) == session_before, result
        if interruptions % 4 == 0:  # while the traceback is held, as a notebook holds the last one
            assert _same(call(), expected), result
    assert interruptions > len(drawn) / 2
    results: list[Any] = []
    thread = threading.Thread(target=lambda: results.append(call()), daemon=True)
    thread.start()  # of another thread: a lock that this one holds would stop it
    thread.join(HANGS_SECONDS)
    assert len(results) == 1
    assert _same(results[0], expected)
    measured("interrupts", f"{name}: {interruptions} interrupted: 0 other errors, 0 files, 0 locks")


def test_an_interrupted_collector_releases_its_archive(
    make_collector: Callable[..., Collector], archive: Archive, clock: SimulatedClock
) -> None:
    collector = make_collector("kucoin", "okx")

    def minute() -> dict[str, int]:
        clock.wait(60)
        return collector.once()

    numbers, struck = places(minute, FILES), 0
    for at in random.Random(4).sample(numbers, count(12, 200)):
        result = interrupted(minute, FILES, at)
        struck += result.place != ""
        assert not result.place or type(result.problem) is KeyboardInterrupt, result
        lock = FolderLock(archive.path / ".lock", timeout=0.0)
        lock.acquire()
        lock.release()
    assert struck > 0
    minute()  # writes the polls that were under way
    now = clock.utc() + pd.Timedelta(60, "s")
    assert minute()["funding_history"] > 0
    rows = archive.read("funding_history", start=now)
    assert set(rows["exchange"]) == {"kucoin", "okx"}


def test_poll_interrupted_at_thread_start_is_started_again(
    make_collector: Callable[..., Collector], clock: SimulatedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    collector = make_collector("kucoin")

    def start(_: threading.Thread) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(threading.Thread, "start", start)
    with pytest.raises(KeyboardInterrupt):
        collector.once()
    monkeypatch.undo()
    clock.wait(60)
    assert collector.once()["funding_history"] > 0


def test_refill_interrupted_at_thread_start_is_started_again(
    make_collector: Callable[..., Collector], clock: SimulatedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    collector = make_collector("okx", symbols=["BTC"])
    start = threading.Thread.start

    def interrupt_refills(thread: threading.Thread) -> None:
        if thread.name.startswith("derivdata-refill"):
            raise KeyboardInterrupt
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", interrupt_refills)
    with pytest.raises(KeyboardInterrupt):
        collector.once()
    assert collector.refills._running == set(), "otherwise the next call waits for a thread that never ran"
    monkeypatch.undo()
    clock.wait(60)
    collector.once()
    assert collector.refills.workers["okx"].ident is not None, "the refill ran"


def test_file_is_unchanged_if_writing_is_interrupted_at_any_bytecode(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")

    def call() -> None:
        files.replace_file(path, b"new", mode=0o644)

    numbers = places(call, [files.__file__])
    for at in numbers:
        path.write_bytes(b"old")
        result = interrupted(call, [files.__file__], at)
        assert type(result.problem) is KeyboardInterrupt
        assert path.read_bytes() in (b"old", b"new"), result
        assert [path.name for path in tmp_path.iterdir()] == ["file"], result
    assert len(numbers) > 10


@pytest.mark.parametrize("name", ["record", "replay"])
def test_interrupted_recording_restores_the_session(name: str, use: Use, tmp_path: Path) -> None:
    use("ok", cache="on")
    with dd.record(tmp_path / "given.ddz"):
        dd.funding.snapshot()

    def call() -> Any:
        return CALLS[name](tmp_path)

    expected = call()
    modules = [module.__file__ for module in (recording, bundle_files, session)]
    names, parts = _files(tmp_path), (SESSION.responder, SESSION.observer, [])
    numbers = places(call, modules)
    assert len(numbers) > 40
    for at in random.Random(4).sample(numbers, count(15, len(numbers))):
        result = interrupted(call, modules, at)
        assert not result.place or type(result.problem) is KeyboardInterrupt, result
        if _is_handed_over(result.place):
            SESSION.end_active()
        assert (SESSION.responder, SESSION.observer, SESSION.closers) == parts, result
        assert _files(tmp_path) == names, result
    assert _same(call(), expected)
