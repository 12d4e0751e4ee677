"""Archives on systems without ``fcntl``, and without what else only POSIX has."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

_ROOT = Path(__file__).resolve().parents[2]

_AS_ON_WINDOWS = """
    import errno, os, sys, types
    import pandas, pyarrow.parquet, subprocess  # which look at the system themselves
    lock, modes = os.lockf, {2: os.F_TLOCK, 0: os.F_ULOCK}
    msvcrt = types.ModuleType("msvcrt")
    msvcrt.LK_NBLCK, msvcrt.LK_UNLCK = 2, 0
    msvcrt.locking = lambda handle, mode, size: lock(handle, modes[mode], size)
    sys.modules["fcntl"] = None
    sys.modules["msvcrt"] = msvcrt
    for name in ("O_NOFOLLOW", "O_CLOEXEC", "pread", "pwrite", "lockf"):
        delattr(os, name)
    import derivdata as dd
    from derivdata.sources.archive import systems
    assert systems._fcntl is None and systems._msvcrt is msvcrt
    from derivdata.errors import ArchiveError
    from tests.archive.rates import EVER, rates
"""


def run(code: str, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(_AS_ON_WINDOWS) + textwrap.dedent(code), *arguments],
        capture_output=True,
        text=True,
        cwd=_ROOT,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_an_archive_is_written_read_and_locked_without_fcntl(tmp_path: Path) -> None:
    """A second writer, another process, is refused while the lock is held, and let in afterwards."""
    code = """
        from pathlib import Path
        from derivdata.sources.archive.locking import writing
        folder = sys.argv[1]
        if len(sys.argv) > 2:
            try:
                print(dd.open_archive(folder, lock_timeout=0.1).append("funding_history", rates(["ETH"])))
            except ArchiveError as problem:
                print(problem)
            raise SystemExit
        archive = dd.open_archive(folder)
        print(archive.append("funding_history", rates(["BTC"])), len(archive.read("funding_history", *EVER)))
        again = [sys.executable, "-c", CODE, folder, "second"]
        with writing(Path(folder), 1.0):
            print(subprocess.run(again, stdout=-1, text=True, check=True).stdout.strip())
        print(subprocess.run(again, stdout=-1, text=True, check=True).stdout.strip())
    """
    whole = textwrap.dedent(_AS_ON_WINDOWS) + textwrap.dedent(code)
    lines = run(f"CODE = {whole!r}\n" + textwrap.dedent(code), str(tmp_path))
    first, refused, after = lines.strip().splitlines()
    assert first == "192 192"
    assert "has held the writer's lock for over 0.1 s; nothing was written" in refused
    assert after == "192"


def test_a_lock_is_released_without_fcntl_while_its_file_is_open(tmp_path: Path) -> None:
    code = """
        from pathlib import Path
        handle = systems.open_lock_file(Path(sys.argv[1]))
        if len(sys.argv) > 2:
            print(systems.try_lock(handle))
            raise SystemExit
        other = [sys.executable, "-c", CODE, sys.argv[1], "second"]
        assert systems.try_lock(handle)
        print(subprocess.run(other, stdout=-1, text=True, check=True).stdout.strip())
        systems.unlock(handle)
        print(subprocess.run(other, stdout=-1, text=True, check=True).stdout.strip())
    """
    whole = textwrap.dedent(_AS_ON_WINDOWS) + textwrap.dedent(code)
    lines = run(f"CODE = {whole!r}\n" + textwrap.dedent(code), str(tmp_path / ".lock"))
    assert lines.split() == ["False", "True"]


def test_a_link_in_place_of_the_lock_is_refused_without_o_nofollow(tmp_path: Path) -> None:
    target = tmp_path / "precious"
    target.write_text("figures")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / ".lock").symlink_to(target)
    code = """
        try:
            dd.open_archive(sys.argv[1]).append("funding_history", rates(["BTC"]))
        except ArchiveError as problem:
            print(problem)
    """
    assert "cannot be written" in run(code, str(tmp_path / "mine"))
    assert target.read_text() == "figures"


def test_a_system_without_any_lock_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from derivdata.errors import ArchiveError
    from derivdata.sources.archive import open_archive, systems
    from tests.archive.rates import rates

    monkeypatch.setattr(systems, "_fcntl", None)
    monkeypatch.setattr(systems, "_msvcrt", None)
    with pytest.raises(ArchiveError, match="cannot be locked: this system has no file locks"):
        open_archive(tmp_path).append("funding_history", rates(["BTC"]))
