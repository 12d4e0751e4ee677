"""Writers that are killed, stopped, concurrent or out of disk: the old state or the new, nothing lost."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from derivdata.errors import ArchiveError
from derivdata.sources.archive import manifest, open_archive, schemas, storage
from derivdata.sources.archive.storage import LocalFolder
from tests.archive.rates import EVER, START, rates
from tests.reliability.processes import started
from tests.transport.conftest import HANGS_SECONDS


def named_files(folder: Path) -> list[str]:
    held = json.loads((folder / "archive.json").read_bytes())["tables"].values()
    return [part["file"] for holding in held for part in holding["parts"]]


@pytest.mark.parametrize(
    ("module", "name", "at"),
    [(schemas, "write", n) for n in (1, 2, 3)]
    + [(storage, "sync", n) for n in (1, 3, 5)]
    + [(manifest, "save", 1)]
    + [(os, "replace", n) for n in (1, 3, 5)],
)
def test_writer_interrupted_anywhere_leaves_the_old_state(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: Any, name: str, at: int
) -> None:
    archive = open_archive(tmp_path)
    archive.append("funding_history", rates())
    before, state = archive.read("funding_history", *EVER), archive.identity
    with monkeypatch.context() as patch:
        patch.setattr(module, name, failing_at(at, getattr(module, name), KeyboardInterrupt()))
        with pytest.raises(KeyboardInterrupt):
            archive.append("funding_history", rates(["SOL"]))
    assert archive.identity == state
    pd.testing.assert_frame_equal(archive.read("funding_history", *EVER), before)
    assert {str(p.relative_to(tmp_path)) for p in tmp_path.glob("*/*/*")} == set(named_files(tmp_path))
    assert archive.append("funding_history", rates(["SOL"])) == 192


def failing_at(call: int, real: Callable[..., Any], problem: BaseException) -> Callable[..., Any]:
    calls = []

    def wrapped(*arguments: Any, **options: Any) -> Any:
        calls.append(1)
        if len(calls) == call:
            raise problem
        return real(*arguments, **options)

    return wrapped


@pytest.mark.parametrize(("module", "name"), [(Path, "open"), (os, "replace")])
def test_files_of_two_successively_killed_writers_are_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: Any, name: str
) -> None:
    """The second writer is killed while it writes its journal, which includes the entries of the first."""
    archive = open_archive(tmp_path)
    archive.append("funding_history", rates())
    left = f"funding_history/2026-01/{'0' * 32}.parquet"
    (tmp_path / left).parent.mkdir(exist_ok=True)
    (tmp_path / left).write_bytes(b"half")
    (tmp_path / ".writing").write_text(f"1\n{left}\n")
    with monkeypatch.context() as patch:
        patch.setattr(module, name, failing_at(1, getattr(module, name), KeyboardInterrupt()))
        with pytest.raises(KeyboardInterrupt):
            archive.append("funding_history", rates(["SOL"]))
    assert (tmp_path / left).exists()
    assert archive.append("funding_history", rates(["SOL"])) == 192
    assert not (tmp_path / left).exists()
    assert not list(tmp_path.glob(".writing*"))


@pytest.mark.parametrize(("module", "name"), [(schemas.pq.ParquetWriter, "write_table"), (storage, "sync")])
def test_full_disk_raises_one_clear_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: Any, name: str
) -> None:
    archive = open_archive(tmp_path)
    archive.append("funding_history", rates())
    full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    with monkeypatch.context() as patch:
        patch.setattr(module, name, failing_at(2, getattr(module, name), full))
        with pytest.raises(
            ArchiveError, match="nothing was appended, and the archive is unchanged: No space left"
        ):
            archive.append("funding_history", rates(["SOL"]))
    assert archive.symbols("funding_history") == ("BTC", "ETH")
    assert {str(p.relative_to(tmp_path)) for p in tmp_path.glob("*/*/*")} == set(named_files(tmp_path))


_FORKED = """
    import os, sys
    from pathlib import Path
    from derivdata.sources.archive import open_archive
    from derivdata.sources.archive.storage import LocalFolder
    from derivdata.errors import ArchiveError
    from tests.archive.rates import rates

    def append():
        try:
            print(open_archive(sys.argv[1], lock_timeout=0.1).append("funding_history", rates()), flush=True)
        except ArchiveError as problem:
            print(problem, flush=True)

    leave = os.pipe()
    try:
        with LocalFolder(Path(sys.argv[1])).writing(1.0):
            child = os.fork()
            if child == 0 and sys.argv[2] == "leaves":
                raise SystemExit
            if child == 0:
                os.close(leave[1])
                os.read(leave[0], 1)  # until the parent closes its end, or exits
                os._exit(0)
            if sys.argv[2] == "leaves":
                os.waitpid(child, 0)
                append()
    finally:
        if child == 0:
            os._exit(0)
    append()
    print(os.waitpid(child, os.WNOHANG)[0] == 0 if sys.argv[2] == "stays" else "", flush=True)
    os.close(leave[1])
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_forked_process_neither_keeps_nor_releases_the_lock(tmp_path: Path) -> None:
    out, errors = started(_FORKED, tmp_path, "stays").communicate(timeout=HANGS_SECONDS)
    assert out.split() == ["384", "True"], errors
    # It leaves the block by an exception, while the parent still writes.
    out, errors = started(_FORKED, tmp_path / "leaves", "leaves").communicate(timeout=HANGS_SECONDS)
    refused, written = out.split("\n")[:2]
    assert "has held the writer's lock for over 0.1 s" in refused, errors
    assert written == "384"


def test_folder_below_a_file_raises_one_clear_error(tmp_path: Path) -> None:
    archive = open_archive(tmp_path / "file" / "below")
    (tmp_path / "file").write_text("")
    with pytest.raises(ArchiveError, match="Not a directory"):
        archive.append("funding_history", rates(start=START))


def test_manifest_created_during_open_is_read(tmp_path, monkeypatch):
    """Another thread ends its first append after this one has found no manifest."""
    read, looks = Path.read_bytes, []

    def first_look_finds_nothing(path):
        if path.name == manifest.MANIFEST and not looks:
            looks.append(path)
            manifest.save(LocalFolder(tmp_path), manifest.empty_manifest())
            (tmp_path / "funding_history").mkdir()
            raise FileNotFoundError
        return read(path)

    monkeypatch.setattr(Path, "read_bytes", first_look_finds_nothing)
    assert manifest.load(LocalFolder(tmp_path)) is not None
