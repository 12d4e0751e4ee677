"""Files that the library writes: whole or not at all, for this user alone, never through a link."""

from __future__ import annotations

import hashlib
import os
import tempfile
from pathlib import Path

TEMPORARY = ".tmp-"
"""How the names of files that are being written begin."""


def private_folder(folder: Path) -> None:
    """Make a folder, and what is missing above it, for this user alone."""
    for path in (*reversed(folder.parents), folder):
        if not path.is_dir():
            path.mkdir(mode=0o700, exist_ok=True)


def replace_file(path: Path, data: bytes, *, mode: int = 0o600) -> None:
    """Replace a file atomically: readers see the old content or the new, also after a crash.

    `mode` are its permissions, less those that the process's umask removes. The bytes go unbuffered into a
    temporary file beside it: a process forked in between inherits no buffer that it could write out a second
    time.
    """
    handle, name = tempfile.mkstemp(prefix=TEMPORARY, dir=path.parent)
    try:
        try:
            view = memoryview(data)
            while view:
                view = view[os.write(handle, view) :]
            if mode != 0o600 and hasattr(os, "fchmod"):
                mask = os.umask(0o077)  # which can only be read by setting it
                os.umask(mask)
                os.fchmod(handle, mode & ~mask)
        finally:
            os.close(handle)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def file_system_time(folder: Path) -> float:
    """Return the file system's own time, so that ages never depend on the machine's clock."""
    handle, name = tempfile.mkstemp(prefix=TEMPORARY, dir=folder)
    os.close(handle)
    try:
        return Path(name).stat().st_mtime
    finally:
        Path(name).unlink()


def package_digest(*places: str) -> str:
    """Return a hash of modules and folders of this package: what another version made is not this one's."""
    package, digest = Path(__file__).parents[1], hashlib.blake2b(digest_size=16)
    for place in places:
        module = package / f"{place}.py"
        for path in [module] if module.is_file() else sorted((package / place).rglob("*.*")):
            if path.suffix != ".pyc":
                digest.update(str(path.relative_to(package)).encode() + path.read_bytes())
    return digest.hexdigest()
