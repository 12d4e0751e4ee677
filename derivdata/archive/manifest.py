"""Which files count, as one small JSON file that is replaced atomically."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable
from pathlib import Path

import msgspec

from derivdata.errors import ArchiveError

__all__ = ["NAME", "DataFile", "Manifest", "TableEntry", "chained", "load", "save", "sync"]

NAME = "archive.json"
_FORMAT = "derivdata-archive"
_VERSION = 1
_PLACE = re.compile(r"\w+/-?\d{4,}-\d\d(-\d\d)?/[0-9a-f]{32}\.parquet")


class DataFile(msgspec.Struct, frozen=True):
    """One immutable Parquet file: its rows, first and last instant [µs], and how often it was merged.

    `path` is relative to the archive, `digest` is of the whole file, `tail` of the footer at its end.
    """

    path: str = msgspec.field(name="file")
    rows: int
    size: int
    first: int
    last: int
    digest: str
    tail: str
    level: int = 0

    @property
    def partition(self) -> str:
        """Folder of the file: table and month or day."""
        return self.path.rpartition("/")[0]


class TableEntry(msgspec.Struct):
    """One table of the archive: its files, and the values of each text column."""

    files: list[DataFile] = msgspec.field(default_factory=list, name="parts")
    values: dict[str, list[str]] = {}


class Manifest(msgspec.Struct):
    """What an archive holds."""

    identity: str = ""
    synthetic: bool = False
    tables: dict[str, TableEntry] = {}
    format: str = _FORMAT
    version: int = _VERSION


class _Head(msgspec.Struct):
    format: str
    version: int


def load(folder: Path) -> Manifest | None:
    """The manifest of a folder; None where the folder is absent or empty.

    Raises
    ------
    ArchiveError
        The folder holds something else, a damaged manifest, or one of a newer format.
    """
    try:
        text = (folder / NAME).read_bytes()
    except FileNotFoundError:
        _refuse_foreign(folder)
        return None
    except OSError as problem:
        raise ArchiveError(f"{folder}: cannot be read as an archive: {problem.strerror}") from None
    return _decoded(folder, text)


def save(folder: Path, manifest: Manifest) -> None:
    """Write the manifest and swing it into place; it is on disk when this returns."""
    draft = folder / f".{NAME}.new"
    try:
        draft.unlink(missing_ok=True)
        with draft.open("xb") as file:
            file.write(msgspec.json.encode(manifest))
        sync(draft)
        os.replace(draft, folder / NAME)
    except OSError:
        draft.unlink(missing_ok=True)
        raise
    sync(folder)


def sync(path: Path) -> None:
    """Wait until a file's or a folder's content is on disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def chained(identity: str, digests: Iterable[str]) -> str:
    """Identity after an append, from the one before and the digests of what was added."""
    text = "\n".join([identity, *sorted(digests)])
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def _decoded(folder: Path, text: bytes) -> Manifest:
    try:
        head = msgspec.json.decode(text, type=_Head)
        if head.format == _FORMAT and head.version > _VERSION:
            raise ArchiveError(
                f"{folder}: the archive has format {head.version}, this version reads up to {_VERSION}: "
                "update derivdata"
            )
        if head.format == _FORMAT:
            return _inside(folder, msgspec.json.decode(text, type=Manifest))
    except (msgspec.DecodeError, UnicodeDecodeError) as problem:
        raise ArchiveError(f"{folder}: {NAME} is damaged ({problem}): restore it from a copy") from None
    raise ArchiveError(f"{folder}: {NAME} is not that of a derivdata archive")


def _inside(folder: Path, manifest: Manifest) -> Manifest:
    """The manifest, if every file that it names lies where an archive puts its files."""
    for entry in manifest.tables.values():
        for file in entry.files:
            if not _PLACE.fullmatch(file.path):
                why = f"{file.path!r} is no place of a file of an archive"
                raise ArchiveError(f"{folder}: {NAME} is damaged ({why}): restore it from a copy")
    return manifest


def _refuse_foreign(folder: Path) -> None:
    if folder.is_dir():
        found = next((p.name for p in sorted(folder.iterdir()) if not p.name.startswith(".")), None)
        if found is not None:
            raise ArchiveError(f"{folder}: not an archive: it has no {NAME}, but holds {found!r}")
    elif folder.exists():
        raise ArchiveError(f"{folder}: an archive is a folder, this is a file")
