"""Write a bundle: a journal while the recording runs, a zip when it ends, readable at every moment.

::

    derivdata-recording 1
    manifest <bytes> <sha256>     what records; the last one counts
    body <bytes> <sha256>         a body deflated, under the hash of what it unpacks to
    answer <bytes> <sha256>       an entry, in the order in which they came

One frame a line, its content on the next. When the recording ends, the bundle takes the file's place.
"""

from __future__ import annotations

import glob
import hashlib
import os
import platform
import re
import secrets
import zipfile
import zlib
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from derivdata.client.bundle.layout import (
    ANSWERS,
    BODY_BYTES,
    FORMAT,
    LIST_BYTES,
    MANIFEST,
    MEMBERS,
    TOTAL_BYTES,
    BundleManifest,
    Entry,
    body_name,
    decoded,
    described,
    request_of,
    system,
    unusable,
    versions,
)
from derivdata.errors import BundleError
from derivdata.tables.endpoints import Request

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


_ROOM = 2**28
"""Bytes that are left for lists and directory in the largest bundle."""
_CHILD = ".child.tmp"


class Writer:
    """The file of a recording.

    Every answer is appended to a journal in one unbuffered write: it costs what that answer costs, however
    many came before, and a process that is killed loses at most the one that no one has acknowledged. At its
    end the recording becomes a zip whose members are sorted: two recordings of the same answers are the same
    bytes, in whatever order they came.
    """

    def __init__(self, path: Path, about: dict[str, Any]) -> None:
        self.path = path
        self._about = about
        self.asof: str | None = None
        self._answers: dict[Request, list[Entry]] = {}
        self._repeats: dict[Request, int] = {}
        self._bodies: dict[str, tuple[int, int]] = {}  # name to the place of the packed body in the journal
        self._versions = versions()
        self._file: int | None = None
        self._end = 0
        self._failure: OSError | None = None  # of the last response that could not be written

    def __len__(self) -> int:
        return sum(map(len, self._answers.values()))

    def begin(self) -> None:
        """Put an empty recording in the place of what was there; remove what a killed one left next to it."""
        for stray in self.path.parent.glob(f".{glob.escape(self.path.name)}.*.tmp"):
            with suppress(OSError):
                stray.unlink()
        beside = self._beside()
        first = MAGIC + frame("manifest", msgspec.json.encode(self._manifest()))[0]
        try:
            beside.write_bytes(first)
            beside.replace(self.path)
            self._file = os.open(self.path, os.O_RDWR | getattr(os, "O_BINARY", 0))
            self._end = len(first)
        except OSError as error:
            raise self._unwritable(error) from None
        finally:
            with suppress(OSError):
                beside.unlink(missing_ok=True)

    def note(self) -> None:
        """Append what the recording says of itself, its clock among it."""
        self._append([frame("manifest", msgspec.json.encode(self._manifest()))[0]])

    def add(self, entry: Entry, body: bytes) -> None:
        """Take an answer in; the last one of its request again is only counted."""
        request = request_of(entry)
        before = self._answers.get(request, [])
        if before and before[-1] == entry:
            self._repeats[request] = self._repeats.get(request, 0) + 1
            return
        new = [*before[-1:] * self._repeats.get(request, 0), entry]
        frames = [frame("answer", msgspec.json.encode(one))[0] for one in new]
        name = body_name(entry.sha256)
        new_bodies = {}
        if name not in self._bodies:
            packer = zlib.compressobj(6, zlib.DEFLATED, -15)  # negative: no zlib header around the data
            packed = packer.compress(body) + packer.flush()
            content, start = frame("body", packed, entry.sha256)
            new_bodies[name] = self._end + start, len(packed)
            frames.insert(0, content)
        size = self._end + sum(map(len, frames))
        if len(self._bodies) + len(new_bodies) > MEMBERS or size > TOTAL_BYTES - _ROOM:
            raise BundleError(f"{self.path}: the recording is full: begin another one")
        self._append(frames)
        self._bodies |= new_bodies
        self._answers[request] = [*before, *new]
        self._repeats[request] = 0

    def finish(self) -> None:
        """Put the bundle in the place of the journal.

        Raises `BundleError`: the disk refused it. If no response could be written, the file is removed.
        """
        if self._file is None:
            return
        if self._failure is not None and not self._answers:
            self._remove()
            raise self._unwritable(self._failure)
        beside = self._beside()
        try:
            self._check_place()
            self._take_from_children()
            with zipfile.ZipFile(beside, "w") as target, self.path.open("rb") as journal:
                listed = [entry for request in sorted(self._answers) for entry in self._answers[request]]
                text = msgspec.json.format(msgspec.json.encode(listed), indent=1)
                manifest = described(self._manifest(), listed, hashlib.sha256(text).hexdigest())
                _add(target, MANIFEST, msgspec.json.format(msgspec.json.encode(manifest), indent=1))
                _add(target, ANSWERS, text)
                for name, (start, size) in sorted(self._bodies.items()):
                    journal.seek(start)
                    _add(target, name, zlib.decompress(journal.read(size), -15))
            self.abandon()  # before: Windows replaces no file that is open
            beside.replace(self.path)
        except OSError as error:
            if not self._answers:
                self._remove()
            self.abandon()
            raise self._unwritable(error) from None
        except Exception:
            self.abandon()
            raise
        finally:  # after an interrupt the journal stays open, so that this can be called again
            with suppress(OSError):
                beside.unlink(missing_ok=True)

    def _remove(self) -> None:
        """Remove the file: without a response it would pass for a recording."""
        with suppress(OSError, BundleError):
            self._check_place()
            self.abandon()
            self.path.unlink()
        self.abandon()

    def abandon(self) -> None:
        """Close the file as it is."""
        if self._file is not None:
            file = self._file
            self._file = None
            os.close(file)

    def is_in_place(self) -> bool:
        """Return whether the file at the path is still the journal that this writer opened."""
        try:
            self._check_place()
        except (BundleError, OSError):
            return False
        return True

    def _take_from_children(self) -> None:
        """Add what forked children recorded, and remove their journals."""
        for path in sorted(self.path.parent.glob(f".{glob.escape(self.path.name)}.*{_CHILD}")):
            journal = RecordingJournal(path)
            if self.asof is None and journal.manifest is not None:
                self.asof = journal.manifest.asof
            for entry in journal.entries:
                self.add(entry, journal.body(body_name(entry.sha256)))
            path.unlink()

    def _append(self, frames: list[bytes]) -> None:
        assert self._file is not None
        data = b"".join(frames)
        try:
            self._check_place()
            os.lseek(self._file, self._end, os.SEEK_SET)
            view = memoryview(data)
            while view:
                view = view[os.write(self._file, view) :]
        except OSError as error:
            self._failure = error
            with suppress(OSError):  # half a frame would be read as one of a writer that was killed
                os.ftruncate(self._file, self._end)
            raise self._unwritable(error) from None
        self._end += len(data)

    def _check_place(self) -> None:
        """Refuse to go on where the file at the path is another one: no one would find what is written."""
        assert self._file is not None
        ours = os.fstat(self._file)
        try:
            there = self.path.stat()
        except FileNotFoundError:
            there = None
        if there is None or (there.st_dev, there.st_ino) != (ours.st_dev, ours.st_ino):
            raise BundleError(f"{self.path}: the recording's file was removed or replaced: begin another one")

    def _beside(self) -> Path:
        return self.path.with_name(f".{self.path.name}.{os.getpid()}.tmp")

    def _unwritable(self, error: OSError) -> BundleError:
        why = f"cannot be written: {error.strerror or error}"
        return BundleError(f"{self.path}: {why}; free space there, or record elsewhere")

    def _manifest(self) -> BundleManifest:
        return BundleManifest(
            format=FORMAT,
            version=1,
            asof=self.asof,
            source="",
            synthetic=False,
            attribution="",
            about=self._about,
            answers=0,
            answers_sha256="",
            python=platform.python_version(),
            platform=system(),
            versions=self._versions,
        )


class ChildWriter(Writer):
    """The journal of a forked child of the process that records; the parent takes it in when it finishes."""

    _parent: Writer

    def __init__(self, parent: Writer) -> None:
        if isinstance(parent, ChildWriter):  # forked in a child: its journal is that process's
            Writer.abandon(parent)
            parent = parent._parent
        # The name ends like one of a killed recording: the next one at this path removes it.
        name = f".{parent.path.name}.{os.getpid()}-{secrets.token_hex(4)}{_CHILD}"
        super().__init__(parent.path.with_name(name), {})
        self.asof = parent.asof
        self._parent = parent

    def begin(self) -> None:
        """Do nothing: the journal begins with the first answer."""

    def note(self) -> None:
        """Append the manifest, once there is a journal."""
        if self._file is not None:
            super().note()

    def add(self, entry: Entry, body: bytes) -> None:
        """Take an answer in."""
        if self._file is None:
            super().begin()
        super().add(entry, body)

    def is_in_place(self) -> bool:
        """Return whether the parent still records."""
        return self._parent.is_in_place()

    def finish(self) -> None:
        """Close the journal, which the parent reads."""
        self.abandon()

    def abandon(self) -> None:
        """Close the journal, and the parent's as far as this process has it open."""
        super().abandon()
        self._parent.abandon()


def _add(target: zipfile.ZipFile, name: str, data: bytes) -> None:
    """Write a member whose bytes depend on its name and data only: dated 1980, mode 0644, made by Unix."""
    member = zipfile.ZipInfo(name)
    member.compress_type = zipfile.ZIP_DEFLATED
    member.create_system = 3
    member.external_attr = 0o100644 << 16
    target.writestr(member, data, compresslevel=6)
