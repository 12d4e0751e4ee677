"""Ctrl-C in calls of an archive: it stays KeyboardInterrupt, and the next call finds no lock."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import duckdb
import pandas as pd
import pytest

from derivdata.errors import ArchiveError, DataNotice
from derivdata.sources.archive import archive as archives
from derivdata.sources.archive import manifest, queries, reading, storage
from derivdata.sources.archive.archive import Archive, open_archive
from tests.reliability.promises import SOAK

ACCEPTED = ["unit", "venues", "future", "interval", "schedule"]


def _rows(day: int, hours: int = 3) -> pd.DataFrame:
    times = pd.date_range("2026-01-01", periods=hours, freq="1h", tz="UTC") + pd.Timedelta(day, "D")
    return pd.DataFrame(
        {"symbol": "BTC", "exchange": "okx", "time": times, "oi_usd": 1e9 + day, "resolution": "raw"}
    )


def _append(archive: Archive, day: int) -> int:
    return archive.append("oi_history", _rows(day), accept=ACCEPTED)


class _Strike:
    """Raises KeyboardInterrupt at one bytecode of some modules, as a signal does."""

    def __init__(self, modules: list[Any], at: int) -> None:
        self._files = {module.__file__ for module in modules}
        self.at, self.passed = at, 0

    def __call__(self, frame: FrameType, event: str, _: Any) -> Any:
        if frame.f_code.co_filename not in self._files:
            return None
        frame.f_trace_opcodes = True
        if event == "opcode":
            self.passed += 1
            if self.passed == self.at:
                sys.settrace(None)
                raise KeyboardInterrupt
        return self


def _interrupted(call: Callable[[], Any], modules: list[Any], at: int) -> tuple[BaseException | None, int]:
    strike = _Strike(modules, at)
    before = sys.gettrace()
    sys.settrace(strike)
    try:
        call()
    except BaseException as problem:
        return problem, strike.passed
    finally:
        sys.settrace(before)
    return None, strike.passed


_LOCKING = [manifest, storage]


def test_append_interrupted_at_any_bytecode_leaves_no_lock(tmp_path: Path) -> None:
    archive = open_archive(tmp_path / "a", lock_timeout=0.5)
    _append(archive, 0)
    _, steps = _interrupted(lambda: _append(archive, 1), _LOCKING, at=-1)
    assert steps > 500
    held = []
    for number, at in enumerate(range(1, steps, 1 if SOAK else 97)):
        problem, _ = _interrupted(lambda day=number + 2: _append(archive, day), _LOCKING, at)  # type: ignore[misc]
        assert problem is None or isinstance(problem, KeyboardInterrupt), at
        lock = storage.FolderLock(tmp_path / "a" / ".lock", timeout=0.0)
        try:
            lock.acquire()
        except OSError:
            held.append(at)
        finally:
            lock.release()
            del problem  # held until here, as a notebook holds the last error
    assert held == []
    assert _append(archive, 900) == 3
    stored = {path.name for path in (tmp_path / "a").rglob("*.parquet")}
    named = {Path(path).name for path in (manifest.load(archive._storage) or manifest.Manifest()).paths()}
    assert stored == named


def test_a_read_that_is_interrupted_raises_keyboard_interrupt(tmp_path: Path) -> None:
    archive = open_archive(tmp_path / "a")
    _append(archive, 0)
    calls: list[Callable[[], Any]] = [
        lambda: archive.read("oi_history"),
        lambda: archive.sql("SELECT count(*) AS n FROM oi_history"),
    ]
    for call in calls:
        call()
        _, steps = _interrupted(call, [queries, reading], at=-1)
        assert steps > 100
        for at in range(1, steps, 1 if SOAK else 61):
            problem, _ = _interrupted(call, [queries, reading], at)
            assert problem is None or type(problem) is KeyboardInterrupt, f"{at}: {problem!r}"
        assert len(call())


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="there are no timers of signals")
def test_a_signal_in_a_query_is_keyboard_interrupt(tmp_path: Path) -> None:
    archive = open_archive(tmp_path / "a")
    archive.append("oi_history", _rows(0, 5000), accept=ACCEPTED)
    slow = "SELECT sum(a.oi_usd + b.oi_usd + c.oi_usd) AS s FROM oi_history a, oi_history b, oi_history c"
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    try:
        for seconds in (0.05, 0.3):
            signal.setitimer(signal.ITIMER_REAL, seconds)
            with pytest.raises(KeyboardInterrupt):
                archive.sql(slow)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_query_error_that_mentions_interrupt_is_a_value_error(tmp_path: Path) -> None:
    archive = open_archive(tmp_path / "a")
    _append(archive, 0)
    for name in (
        "KeyboardInterrupt",
        "Query interrupted",
        "Traceback (most recent call last)\nKeyboardInterrupt",
    ):
        with pytest.raises(ValueError, match="query"):
            archive.sql(f'SELECT "{name}" FROM oi_history')
    assert issubclass(duckdb.Error, Exception)


def test_a_query_next_to_a_fast_writer_reads_the_new_state(tmp_path: Path) -> None:
    """The writer merges and removes small files with each append, while joins read them."""
    archive = open_archive(tmp_path / "a")
    for day in range(8):
        _append(archive, 3 * day)
    end, problems = time.monotonic() + (20.0 if SOAK else 2.0), []

    def write() -> None:
        writer, day = open_archive(tmp_path / "a"), 40
        while time.monotonic() < end:
            day += 1
            try:
                _append(writer, day % 25)
                _append(writer, day)
            except Exception as problem:
                problems.append(problem)

    thread = threading.Thread(target=write)
    thread.start()
    counts = []
    while time.monotonic() < end:
        joined = archive.sql("SELECT count(*) AS n FROM oi_history a JOIN oi_history b USING (symbol, time)")
        counts.append(int(joined["n"].iloc[0]))
    thread.join()
    assert problems == []
    assert counts == sorted(counts)


def test_old_files_that_cannot_be_removed_are_named_and_removed_by_the_next_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = open_archive(tmp_path / "a")
    _append(archive, 0)
    old = next((tmp_path / "a").rglob("*.parquet"))
    real = os.unlink

    def unlink(path: Any, *rest: Any, **more: Any) -> None:
        if str(path).endswith(".parquet"):
            raise PermissionError(13, "Permission denied")
        real(path, *rest, **more)

    monkeypatch.setattr(os, "unlink", unlink)
    with pytest.warns(
        DataNotice, match="the rows are stored, but 2 old files could not be removed: the next open"
    ):
        assert _append(archive, 1) == 3  # merged with the first file, which goes
    monkeypatch.undo()
    assert old.exists()
    assert len(archive.read("oi_history")) == 6
    again = archives.open_archive(tmp_path / "a", create=False)
    assert not old.exists()
    assert len(again.read("oi_history")) == 6
    assert not (tmp_path / "a" / ".writing").exists()


def test_an_interrupt_after_the_commit_says_that_the_rows_are_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = open_archive(tmp_path / "a")
    _append(archive, 0)

    def remove(*_: Any) -> bool:
        raise KeyboardInterrupt

    monkeypatch.setattr(storage.LocalFolder, "remove", remove)
    with pytest.raises(KeyboardInterrupt) as interrupt:
        _append(archive, 1)
    monkeypatch.undo()
    assert "the rows are stored" in interrupt.value.__notes__[0]
    assert len(open_archive(tmp_path / "a").read("oi_history")) == 6
    assert len([*(tmp_path / "a").rglob("*.parquet")]) == 1


def test_drafts_of_a_full_disk_are_removed_by_the_next_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = open_archive(tmp_path / "a")
    _append(archive, 0)
    full = OSError(28, "No space left on device")

    def refuse(*_: Any, **__: Any) -> None:
        raise full

    for draft in (".archive.json.new", ".writing.new"):
        with monkeypatch.context() as patch:
            real = os.replace

            def replace(
                source: Any, target: Any, real: Callable[..., None] = real, draft: str = draft
            ) -> None:
                if Path(source).name == draft:
                    patch.setattr(os, "unlink", refuse)  # from here on nothing can be changed
                    raise full
                real(source, target)

            patch.setattr(os, "replace", replace)
            with pytest.raises(ArchiveError, match="No space left on device"):
                _append(archive, 1)
        assert (tmp_path / "a" / draft).exists()
        assert len(open_archive(tmp_path / "a").read("oi_history")) == 3
        left = {path.name for path in (tmp_path / "a").iterdir()}
        assert left <= {".lock", ".merging", "archive.json", "oi_history"}
    assert _append(archive, 1) == 3


def test_an_interrupted_wait_for_a_writing_thread_is_keyboard_interrupt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As `threading.Condition.wait` ends if it is interrupted after it released its lock."""
    archive = open_archive(tmp_path / "a")

    def interrupted_wait(*_: Any) -> None:
        lock = threading.Lock()
        with lock:
            lock.release()
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("concurrent.futures.Future.result", interrupted_wait)
        with pytest.raises(KeyboardInterrupt):
            _append(archive, 0)
    assert _append(archive, 0) == 3
