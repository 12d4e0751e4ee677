"""Which storage a path or an address names."""

from __future__ import annotations

import importlib
import os
import re
from pathlib import Path
from typing import Any

from derivdata.errors import ArchiveError
from derivdata.sources.archive.local_folder import LocalFolder
from derivdata.sources.archive.storage import Storage

__all__ = ["open_storage"]

_ADDRESS = re.compile(r"([a-z][a-z0-9+.-]+)://", re.IGNORECASE)


def open_storage(path: str | os.PathLike[str]) -> Storage:
    """Return the storage at a path or address.

    Raises
    ------
    ValueError
        It cannot name a folder.
    ArchiveError
        The address is of a kind that archives cannot be on.
    ImportError
        An extra is not installed.
    """
    text = os.fspath(path)
    address = _ADDRESS.match(text)
    if address is None:
        try:
            return LocalFolder(Path(path).expanduser().resolve())
        except (ValueError, RuntimeError) as fault:
            raise ValueError(f"path={text!r} cannot name a folder: {fault}") from None
    if address[1].lower() != "s3":
        raise ArchiveError(
            f"{text}: archives on {address[1]} cannot be opened, only folders and s3://bucket/path: "
            "copy it to one of these first"
        )
    # Only when it is used: most installations lack s3fs.
    objects: Any = importlib.import_module("derivdata.sources.archive.object_store")
    storage: Storage = objects.ObjectStore(text)
    return storage
