"""Where the files of an archive are stored: what an archive needs of a folder, or of a store of objects.

Data files are written once and never change. Only the manifest is replaced, and only while it is still the
one that the writer has read. In a folder a lock and an atomic rename see to that
(`derivdata.sources.archive.local_folder`), in a store of objects a conditional put
(`derivdata.sources.archive.object_store`).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Hashable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Protocol

MANIFEST = "archive.json"

LEDGER_FILE = re.compile(r"ledger-[0-9a-f]{32}\.json")
"""What the file is called that holds the ledger of requests."""

OWN_FILE = re.compile(
    r"\w+/-?\d{4,}-\d\d(-\d\d)?/(\.[0-9a-f]{32}\.new|[0-9a-f]{32}\.(parquet|newest|sums))|"
    + LEDGER_FILE.pattern
)
"""The archive's own files beside the manifest: drafts, rows, what format 2 kept beside them, ledgers."""


class ManifestChanged(Exception):
    """Another writer has replaced the manifest since it was read: read it again, and repeat the change."""


class Storage(Protocol):
    """Files of an archive by their path within it, ``table/month/digest.parquet``; pickles, for workers.

    An absent file is a FileNotFoundError, whatever else fails another OSError. ``str()`` is the address.
    """

    def __hash__(self) -> int:
        """Return a hash of the address: what was checked is kept by storage and file."""

    @property
    def label(self) -> str:
        """Last part of the address: what people call the archive."""

    @property
    def remote(self) -> bool:
        """Return whether every read is a request: what was read is then kept while a query needs it."""

    @property
    def folder(self) -> Path:
        """The folder on this machine; an ArchiveError where there is none."""

    def place(self, path: str) -> str:
        """Return the full address of a file, for messages."""

    def names(self) -> list[str]:
        """Return the names at the top of the archive, files and folders."""

    def manifest_mark(self, *, fresh: bool = False) -> Hashable:
        """Return what a new manifest changes, None without one; unless `fresh`, as a moment ago."""

    def read_manifest(self) -> tuple[bytes, Any]:
        """Return the manifest, and the version of it that `replace_manifest` takes."""

    def replace_manifest(self, data: bytes, version: Any) -> None:
        """Replace the manifest of this version (None: there is none), or raise `ManifestChanged`."""

    def read(self, path: str) -> bytes:
        """Return the content of a small file."""

    def write(self, path: str, data: bytes) -> None:
        """Write a small file; it is stored for good when this returns."""

    def read_range(self, path: str, start: int, end: int) -> bytes:
        """Return some bytes of a file."""

    def state(self, path: str) -> Hashable:
        """Return what would change if a file were replaced by another."""

    def unique(self, digest: str) -> str:
        """Return 32 hexadecimal digits for the name of a file of this digest."""

    def draft(self, partition: str) -> Path:
        """Return the path of a file on this machine to write a file of a partition to."""

    def publish(self, draft: Path, path: str) -> None:
        """Move a draft to its place."""

    def settle(self, new: Collection[str], gone: Collection[str]) -> None:
        """Wait until new files are stored for good; `gone` will be removed after the next manifest."""

    def remove(self, path: str) -> None:
        """Remove a file that no manifest names; one that cannot be removed does no harm."""

    def writing(self, timeout: float) -> AbstractContextManager[bool]:
        """Write, while others wait if the storage has locks; yield whether a writer before was cut off."""

    def merging(self) -> AbstractContextManager[Storage | None]:
        """Merge months, and yield where to write them; None while another does, where that can be told."""

    def sweep(self, named: Collection[str]) -> None:
        """Remove what a writer that failed or was cut off noted, and the manifest does not name."""
