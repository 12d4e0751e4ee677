"""Where an archive is: in a folder of this machine, or in a store of objects. Both have the same methods.

Files are named by their path within the archive, are written once and never change. Only the manifest is
replaced, and only while it is still the one that the writer has read: in a folder a lock and an atomic rename
see to that, in a store of objects a conditional put. An absent file is a FileNotFoundError, whatever else
fails another OSError. Both pickle, for workers; ``str()`` is the address.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TypeAlias

from derivdata.errors import ArchiveError
from derivdata.sources.archive.local_folder import LocalFolder
from derivdata.sources.archive.object_store import ObjectStore
from derivdata.support.text import credentials_in

Storage: TypeAlias = LocalFolder | ObjectStore

_ADDRESS = re.compile(r"([a-z][a-z0-9+.-]+)://", re.IGNORECASE)


def open_storage(path: str | os.PathLike[str]) -> Storage:
    """Return the storage at a path or address."""
    text = os.fspath(path)
    if isinstance(text, str) and credentials_in(text) is not None:
        raise ArchiveError(
            "the address of the archive holds a user, a password or a query (it is not shown): write "
            "s3://bucket/path; the environment gives credentials, AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
        )
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
    return ObjectStore(text)
