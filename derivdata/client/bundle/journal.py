"""The file of a recording that is under way: each answer is appended, and what a crash cut off is left out.

::

    derivdata-recording 1
    manifest <bytes> <sha256>     what records; the last one counts
    body <bytes> <sha256>         a body deflated, under the hash of what it unpacks to
    answer <bytes> <sha256>       an entry, in the order in which they came

One frame a line, its content on the next. When the recording ends, the bundle takes the file's place.
"""

from __future__ import annotations

import hashlib
import re
import zlib
from pathlib import Path

from derivdata.client.bundle.layout import (
    BODY_BYTES,
    LIST_BYTES,
    TOTAL_BYTES,
    BundleManifest,
    Entry,
    body_name,
    decoded,
    request_of,
    unusable,
)
from derivdata.errors import BundleError

MAGIC = b"derivdata-recording 1\n"
_HEAD = re.compile(rb"(manifest|body|answer) (\d{1,10}) ([0-9a-f]{64})\n")
_NEXT = re.compile(rb"\n" + _HEAD.pattern)
_HEAD_BYTES = 96


def frame(kind: str, content: bytes, sha256: str = "") -> tuple[bytes, int]:
    """Return a frame, and where in it the content starts; `sha256` only where it is not the content's."""
    head = f"{kind} {len(content)} {sha256 or hashlib.sha256(content).hexdigest()}\n".encode()
    return head + content + b"\n", len(head)


def is_journal(path: Path) -> bool:
    """Return whether a file is a recording that is under way, or was killed."""
    try:
        with path.open("rb") as file:
            return file.read(len(MAGIC)) == MAGIC
    except (OSError, ValueError):  # ValueError: a name that no file system takes
        return False


class RecordingJournal:
    """The journal at a path, read as the bundle that it would have become."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.manifest: BundleManifest | None = None
        self.entries: list[Entry] = []
        self._bodies: dict[str, tuple[int, int]] = {}
        try:
            self._read()
        except OSError as error:
            why = f"cannot be read: {error.strerror or error}"
            raise BundleError(f"{path}: {why}; check that you may read it") from None
        self.entries.sort(key=request_of)

    @property
    def names(self) -> set[str]:
        """Names of the bodies that answers refer to."""
        return set(self._bodies)

    def body(self, name: str) -> bytes:
        """Return a body, unpacked but not yet compared with its hash."""
        if name not in self._bodies:
            raise unusable(self.path, f"{name} is missing")
        start, size = self._bodies[name]
        with self.path.open("rb") as file:
            file.seek(start)
            packed = file.read(size)
        unpacker = zlib.decompressobj(-15)
        try:
            data = unpacker.decompress(packed, BODY_BYTES)
        except zlib.error as error:
            raise unusable(self.path, f"{name} is damaged: {error}") from None
        if unpacker.unconsumed_tail or not unpacker.eof:
            raise unusable(self.path, f"{name} is damaged or absurdly large")
        return data

    def _read(self) -> None:
        with self.path.open("rb") as file:
            size = file.seek(0, 2)
            if size > TOTAL_BYTES:
                raise unusable(self.path, "refused: absurdly large")
            place = len(MAGIC)
            while place < size:
                file.seek(place)
                line = file.read(_HEAD_BYTES)
                head = _HEAD.match(line)
                length = int(head[2]) if head is not None else 0
                end = place + (head.end() if head is not None else 0) + length + 1
                is_cut = (head is None and b"\n" not in line and len(line) < _HEAD_BYTES) or end > size
                file.seek(place)
                if length > LIST_BYTES or (_NEXT.search(file.read()) if is_cut else head is None):
                    raise unusable(self.path, f"damaged at byte {place}: no frame begins there")
                if head is None or is_cut:
                    return  # the writer was killed within its last frame, which no one has acknowledged
                start = place + head.end()
                if head[1] == b"body":
                    self._bodies[body_name(head[3].decode())] = (start, length)
                else:
                    file.seek(start)
                    self._take(head[1], head[3].decode(), file.read(length), place)
                place = end

    def _take(self, kind: bytes, sha256: str, content: bytes, place: int) -> None:
        if hashlib.sha256(content).hexdigest() != sha256:
            raise unusable(self.path, f"the {kind.decode()} at byte {place} is damaged")
        if kind == b"manifest":
            self.manifest = decoded(content, BundleManifest, f"{self.path}: what is at byte {place}")
        else:
            self.entries.append(decoded(content, Entry, f"{self.path}: what is at byte {place}"))
