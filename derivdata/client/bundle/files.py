"""Files of bundles: the journal of a recording, the zip that replaces it, and reading of both.

::

    derivdata-recording 1
    manifest <bytes> <sha256>     the manifest; the last one counts
    body <bytes> <sha256>         a compressed body (deflate), with the hash of the decompressed body
    answer <bytes> <sha256>       an entry, in order of arrival

Each frame of a journal is a line as above, followed by its content on the next line. When the recording ends,
the zip replaces the journal at the same path. Both can be read at any time, as untrusted input: sizes are
bounded, hashes compared, and nothing is unpacked to disk.
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
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import msgspec
import pandas as pd

from derivdata.client.bundle import (
    ANSWERS,
    BODY,
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
    differences,
    request_of,
    system,
    unusable,
    versions,
)
from derivdata.client.transport.body import NotJson, check_json
from derivdata.errors import BundleError
from derivdata.support import times
from derivdata.tables.endpoints import Request

MAGIC = b"derivdata-recording 1\n"
_HEAD = re.compile(rb"(manifest|body|answer) (\d{1,10}) ([0-9a-f]{64})\n")
_NEXT = re.compile(rb"\n" + _HEAD.pattern)
_HEAD_BYTES = 96


def frame(kind: str, content: bytes, sha256: str = "") -> tuple[bytes, int]:
    """Return a frame and the offset of its content. `sha256` replaces the hash of the content."""
    head = f"{kind} {len(content)} {sha256 or hashlib.sha256(content).hexdigest()}\n".encode()
    return head + content + b"\n", len(head)


def is_journal(path: Path) -> bool:
    """Return whether a file is an active or interrupted recording."""
    try:
        with path.open("rb") as file:
            return file.read(len(MAGIC)) == MAGIC
    except (OSError, ValueError):  # ValueError is raised for an invalid file name
        return False


class RecordingJournal:
    """A journal, read like the bundle that it would become."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.manifest: BundleManifest | None = None
        self.entries: list[Entry] = []
        self._bodies: dict[str, tuple[int, int]] = {}
        try:
            self._read()
        except OSError as error:
            reason = error.strerror or error
            raise BundleError(
                f"{path}: cannot be read ({reason}); check your permission to read it"
            ) from None
        self.entries.sort(key=request_of)

    @property
    def names(self) -> set[str]:
        """Names of the bodies."""
        return set(self._bodies)

    def body(self, name: str) -> bytes:
        """Return a decompressed body, not yet compared with its hash."""
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
            raise unusable(self.path, f"{name} is damaged or larger than {BODY_BYTES} bytes")
        return data

    def _read(self) -> None:
        """Read all complete frames. An incomplete last frame is ignored; damage before it raises."""
        with self.path.open("rb") as file:
            size = file.seek(0, 2)
            if size > TOTAL_BYTES:
                raise unusable(self.path, f"too large: {size} bytes, the limit is {TOTAL_BYTES}")
            place = len(MAGIC)
            while place < size:
                place = self._read_frame(file, place, size)

    def _read_frame(self, file: BinaryIO, place: int, size: int) -> int:
        """Read the frame at a place. Return the place of the next one; after an incomplete frame, `size`."""
        damage = unusable(self.path, f"damaged at byte {place}: expected the start of a frame")
        file.seek(place)
        line = file.read(_HEAD_BYTES)
        head = _HEAD.match(line)
        if head is None:
            # The file ends within a head, because the writer was terminated before the fetch returned.
            if b"\n" not in line and len(line) < _HEAD_BYTES:
                return size
            raise damage
        kind, size_text, sha256 = head.groups()
        length = int(size_text)
        start = place + head.end()
        end = start + length + 1
        if length > LIST_BYTES:
            raise damage
        if end > size:
            # The writer was terminated within the content, or the length in the head is damaged: then a later
            # frame follows.
            file.seek(place)
            if _NEXT.search(file.read()):
                raise damage
            return size
        if kind == b"body":
            self._bodies[body_name(sha256.decode())] = (start, length)
        else:
            file.seek(start)
            self._add_frame(kind, sha256.decode(), file.read(length), place)
        return end

    def _add_frame(self, kind: bytes, sha256: str, content: bytes, place: int) -> None:
        """Check and store the manifest or an entry."""
        if hashlib.sha256(content).hexdigest() != sha256:
            raise unusable(self.path, f"the {kind.decode()} at byte {place} is damaged")
        if kind == b"manifest":
            self.manifest = decoded(content, BundleManifest, f"{self.path}: the manifest at byte {place}")
        else:
            self.entries.append(decoded(content, Entry, f"{self.path}: the entry at byte {place}"))


_ROOM = 2**28
"""Bytes reserved for the lists and the directory in the largest bundle."""
_CHILD = ".child.tmp"


class Writer:
    """Writer of a recording.

    Each response is appended to a journal in one unbuffered write. The cost does not grow with the number of
    responses, and a terminated process loses at most the response of an unfinished fetch. At the end the
    recording becomes a zip with sorted members, so two recordings of the same responses are equal to the
    byte, regardless of their order.
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
        self._failure: OSError | None = None  # error of the last response that could not be written

    def __len__(self) -> int:
        return sum(map(len, self._answers.values()))

    def begin(self) -> None:
        """Replace the file by an empty recording, and remove temporary files of terminated recordings."""
        for stray in self.path.parent.glob(f".{glob.escape(self.path.name)}.*.tmp"):
            with suppress(OSError):
                stray.unlink()
        temporary = self._temporary()
        first = MAGIC + frame("manifest", msgspec.json.encode(self._manifest()))[0]
        try:
            temporary.write_bytes(first)
            temporary.replace(self.path)
            self._file = os.open(self.path, os.O_RDWR | getattr(os, "O_BINARY", 0))
            self._end = len(first)
        except OSError as error:
            raise self._unwritable(error) from None
        finally:
            with suppress(OSError):
                temporary.unlink(missing_ok=True)

    def note(self) -> None:
        """Append the manifest with the current clock."""
        self._append([frame("manifest", msgspec.json.encode(self._manifest()))[0]])

    def add(self, entry: Entry, body: bytes) -> None:
        """Append a response. If it repeats the last response to its request, it is only counted."""
        request = request_of(entry)
        before = self._answers.get(request, [])
        if before and before[-1] == entry:
            self._repeats[request] = self._repeats.get(request, 0) + 1
            return
        # Repetitions are written only if another response follows: a replay repeats the last response anyway.
        new = [*before[-1:] * self._repeats.get(request, 0), entry]
        frames = [frame("answer", msgspec.json.encode(new_entry))[0] for new_entry in new]
        name = body_name(entry.sha256)
        new_bodies = {}
        if name not in self._bodies:
            packer = zlib.compressobj(6, zlib.DEFLATED, -15)  # a negative value omits the zlib header
            packed = packer.compress(body) + packer.flush()
            content, start = frame("body", packed, entry.sha256)
            new_bodies[name] = self._end + start, len(packed)
            frames.insert(0, content)
        size = self._end + sum(map(len, frames))
        if len(self._bodies) + len(new_bodies) > MEMBERS or size > TOTAL_BYTES - _ROOM:
            raise BundleError(
                f"{self.path}: the recording is full ({len(self._bodies)} of {MEMBERS} bodies, {size:,} of "
                f"{TOTAL_BYTES - _ROOM:,} bytes); start another one"
            )
        self._append(frames)
        self._bodies |= new_bodies
        self._answers[request] = [*before, *new]
        self._repeats[request] = 0

    def finish(self) -> None:
        """Replace the journal by the bundle.

        Raises `BundleError` if the file cannot be written. A file without any response is then removed.
        """
        if self._file is None:
            return
        if self._failure is not None and not self._answers:
            self._remove()
            raise self._unwritable(self._failure)
        temporary = self._temporary()
        try:
            self._check_place()
            self._merge_children()
            with zipfile.ZipFile(temporary, "w") as target, self.path.open("rb") as journal:
                listed = [entry for request in sorted(self._answers) for entry in self._answers[request]]
                text = msgspec.json.format(msgspec.json.encode(listed), indent=1)
                manifest = described(self._manifest(), listed, hashlib.sha256(text).hexdigest())
                _add(target, MANIFEST, msgspec.json.format(msgspec.json.encode(manifest), indent=1))
                _add(target, ANSWERS, text)
                for name, (start, size) in sorted(self._bodies.items()):
                    journal.seek(start)
                    _add(target, name, zlib.decompress(journal.read(size), -15))
            self.abandon()  # close first, because Windows cannot replace an open file
            temporary.replace(self.path)
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
                temporary.unlink(missing_ok=True)

    def _remove(self) -> None:
        """Remove a file without responses, which would look like a recording."""
        with suppress(OSError, BundleError):
            self._check_place()
            self.abandon()
            self.path.unlink()
        self.abandon()

    def abandon(self) -> None:
        """Close the journal without converting it."""
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

    def _merge_children(self) -> None:
        """Add the responses that forked children recorded, and remove their journals."""
        for path in sorted(self.path.parent.glob(f".{glob.escape(self.path.name)}.*{_CHILD}")):
            journal = RecordingJournal(path)
            if self.asof is None and journal.manifest is not None:
                self.asof = journal.manifest.asof
            for entry in journal.entries:
                self.add(entry, journal.body(body_name(entry.sha256)))
            path.unlink()

    def _append(self, frames: list[bytes]) -> None:
        """Append frames to the journal; after an error remove the partial write."""
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
            with suppress(OSError):  # a partial frame would look like an interrupted recording
                os.ftruncate(self._file, self._end)
            raise self._unwritable(error) from None
        self._end += len(data)

    def _check_place(self) -> None:
        """Raise if the file at the path is no longer this journal: later responses would be lost."""
        assert self._file is not None
        opened = os.fstat(self._file)
        try:
            at_path = self.path.stat()
        except FileNotFoundError:
            at_path = None
        if at_path is None or (at_path.st_dev, at_path.st_ino) != (opened.st_dev, opened.st_ino):
            raise BundleError(f"{self.path}: the recording's file was removed or replaced; start another one")

    def _temporary(self) -> Path:
        return self.path.with_name(f".{self.path.name}.{os.getpid()}.tmp")

    def _unwritable(self, error: OSError) -> BundleError:
        why = f"cannot be written: {error.strerror or error}"
        return BundleError(f"{self.path}: {why}; free space there, or record elsewhere")

    def _manifest(self) -> BundleManifest:
        return BundleManifest(
            format=FORMAT, version=1, asof=self.asof, source="", synthetic=False, attribution="",
            about=self._about, answers=0, answers_sha256="", python=platform.python_version(),
            platform=system(), versions=self._versions,
        )  # fmt: skip


class ChildWriter(Writer):
    """The journal of a forked child of the recording process. The parent merges it when it finishes."""

    _parent: Writer

    def __init__(self, parent: Writer) -> None:
        if isinstance(parent, ChildWriter):  # forked in a child: the open journal belongs to that child
            Writer.abandon(parent)
            parent = parent._parent
        # Named like a temporary file, so that the next recording at this path removes a leftover.
        name = f".{parent.path.name}.{os.getpid()}-{secrets.token_hex(4)}{_CHILD}"
        super().__init__(parent.path.with_name(name), {})
        self.asof = parent.asof
        self._parent = parent

    def begin(self) -> None:
        """Do nothing: the journal is created with the first response."""

    def note(self) -> None:
        """Append the manifest, if the journal exists."""
        if self._file is not None:
            super().note()

    def add(self, entry: Entry, body: bytes) -> None:
        """Append a response."""
        if self._file is None:
            super().begin()
        super().add(entry, body)

    def is_in_place(self) -> bool:
        """Return whether the parent is still recording."""
        return self._parent.is_in_place()

    def finish(self) -> None:
        """Close the journal; the parent merges it."""
        self.abandon()

    def abandon(self) -> None:
        """Close the journal, and this process's handle of the parent's journal."""
        super().abandon()
        self._parent.abandon()


def _add(target: zipfile.ZipFile, name: str, data: bytes) -> None:
    """Write a zip member whose bytes depend only on name and data: dated 1980, mode 0644, made by Unix."""
    member = zipfile.ZipInfo(name)
    member.compress_type = zipfile.ZIP_DEFLATED
    member.create_system = 3
    member.external_attr = 0o100644 << 16
    target.writestr(member, data, compresslevel=6)


_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
"""Compression methods that the standard library unpacks in bounded steps. It unpacks others at once."""

_ENCRYPTED = 1
_DAMAGE = (
    zipfile.BadZipFile,
    zlib.error,
    OSError,
    EOFError,
    NotImplementedError,
    RuntimeError,
    ValueError,
    OverflowError,
)
"""Exceptions of the standard library for damaged or malicious files."""


class Bundle:
    """A verified bundle, open for reading."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        with suppress(OSError):  # for an invalid path, opening it below raises a clearer error
            if self.path.exists() and not self.path.is_file():  # opening a pipe would block
                raise BundleError(f"{path}: must be a bundle file; pass the path of a recording, FILE.ddz")
        self._journal = RecordingJournal(self.path) if is_journal(self.path) else None
        if self._journal is not None:
            self._open_journal(self._journal)
            return
        try:
            self._zip = zipfile.ZipFile(self.path)
        except FileNotFoundError:
            raise BundleError(f"{path}: file not found; pass the path of a recording, FILE.ddz") from None
        except _DAMAGE as error:
            raise unusable(path, f"not a bundle, or truncated: {_words(error)}") from None
        try:
            self._members = _surveyed(self.path, self._zip.infolist())
            self.manifest = decoded(
                self._read(MANIFEST, LIST_BYTES), BundleManifest, f"{self.path}: {MANIFEST}"
            )
            self._check_manifest(self.manifest)
            self.entries = self._entries()
            bodies = {body_name(entry.sha256) for entry in self.entries}
            for name in self._members:
                if BODY.fullmatch(name) and name not in bodies:
                    raise unusable(self.path, f"{name} does not belong to a response")
            self._check_bodies()
        except BaseException:
            self._zip.close()
            raise

    def body(self, entry: Entry) -> bytes:
        """Return the raw body of a response."""
        name = body_name(entry.sha256)
        what = f"{name} ({request_of(entry)})"
        journal = self._journal
        body = self._read(name, BODY_BYTES, what) if journal is None else journal.body(name)
        if hashlib.sha256(body).hexdigest() != entry.sha256 or len(body) != entry.bytes:
            raise unusable(self.path, f"{what} is damaged: its hash or size does not match")
        return body

    def _open_journal(self, journal: RecordingJournal) -> None:
        """Read an active or interrupted recording as a bundle of the responses so far."""
        if journal.manifest is None:
            raise unusable(self.path, "not a bundle, or truncated: its manifest is missing")
        self.entries = journal.entries
        self.manifest = described(journal.manifest, journal.entries, "")
        self._check_manifest(self.manifest)
        self._dated(ANSWERS, (date for e in self.entries for date in (e.date, e.received)))
        self._check_bodies()

    def reopen(self) -> None:
        """Open a new file handle: a forked child shares its parent's handle and its position."""
        if self._journal is None:
            self._zip = zipfile.ZipFile(self.path)

    def close(self) -> None:
        """Close the file."""
        if self._journal is None:
            self._zip.close()

    def _check_manifest(self, manifest: BundleManifest) -> None:
        if manifest.format != FORMAT or manifest.version != 1:
            raise BundleError(
                f"{self.path}: {MANIFEST} must have format {FORMAT!r}, version 1, got {manifest.format!r}, "
                f"version {manifest.version}; update derivdata, or record it again"
            )
        self._dated(MANIFEST, [manifest.asof])

    def _entries(self) -> list[Entry]:
        """Read the list of responses and compare it with the manifest."""
        text = self._read(ANSWERS, LIST_BYTES)
        if hashlib.sha256(text).hexdigest() != self.manifest.answers_sha256:
            raise unusable(self.path, f"{ANSWERS} is damaged: its hash differs from the manifest's")
        entries = decoded(text, list[Entry], f"{self.path}: {ANSWERS}")
        if len(entries) != self.manifest.answers:
            raise unusable(self.path, f"{ANSWERS} is damaged: {MANIFEST} states another number of responses")
        self._dated(ANSWERS, (date for entry in entries for date in (entry.date, entry.received)))
        return entries

    def _dated(self, name: str, dates: Iterable[str | None]) -> None:
        """Raise on dates that are not in a recording's format."""
        for date in set(dates) - {None}:
            with suppress(ValueError):
                if times.iso(times.timestamp(str(date))) == date:
                    continue
            raise unusable(self.path, f"{name} cannot be read: {str(date)[:40]!r} is not a time")

    def _check_bodies(self) -> None:
        """Raise for bodies with a different hash, and for bodies that are also rejected from a service."""
        distinct = {(entry.sha256, entry.status == 200): entry for entry in self.entries}
        for entry in distinct.values():
            body = self.body(entry)
            try:
                if entry.status == 200:
                    check_json(body, {})
            except NotJson as error:
                what = f"{body_name(entry.sha256)} ({request_of(entry)})"
                raise unusable(self.path, f"{what} cannot be read: {error}") from None

    def _read(self, name: str, limit: int, what: str = "") -> bytes:
        """Return a member of the zip of at most `limit` bytes; errors name it `what`."""
        info = self._members.get(name)
        if info is None:
            raise unusable(self.path, f"{what or name} is missing")
        if info.file_size > limit:
            raise unusable(
                self.path, f"{what or name} is too large: {info.file_size} bytes, the limit is {limit}"
            )
        try:
            with self._zip.open(info) as file:
                data = file.read(info.file_size + 1)
        except _DAMAGE as error:
            raise unusable(self.path, f"{what or name} is damaged: {_words(error)}") from None
        if len(data) != info.file_size:
            raise unusable(
                self.path, f"{what or name} is damaged: its size differs from the size in the zip directory"
            )
        return data


def _surveyed(path: Path, infos: list[zipfile.ZipInfo]) -> dict[str, zipfile.ZipInfo]:
    """Check the zip directory before unpacking, and return its members by name."""
    unpacked_bytes = sum(info.file_size for info in infos)
    if len(infos) > MEMBERS or unpacked_bytes > TOTAL_BYTES:
        raise unusable(
            path,
            f"too large: {len(infos)} members, {unpacked_bytes} bytes when unpacked; the limits are "
            f"{MEMBERS} and {TOTAL_BYTES}",
        )
    if infos and min(info.header_offset for info in infos) > 0:  # zip readers skip data before the members
        raise unusable(path, "not a bundle: it has data before the first member")
    members: dict[str, Any] = {}
    for info in infos:
        name = info.orig_filename
        if name not in (MANIFEST, ANSWERS) and not BODY.fullmatch(name):
            raise unusable(path, f"not a bundle: unexpected member {name!r}")
        if info.compress_type not in _METHODS or info.flag_bits & _ENCRYPTED:
            raise unusable(path, f"not a bundle: {name} is encrypted or not compressed with deflate")
        if name in members:
            raise unusable(path, f"not a bundle: duplicate member {name}")
        members[name] = info
    return members


def _words(error: BaseException) -> str:
    return str(error) or type(error).__name__


_UNITS = ("B", "kB", "MB", "GB")


@dataclass(frozen=True)
class Contents:
    """Summary of a bundle.

    Attributes
    ----------
    path, bytes
        The file and its size.
    manifest
        Source, clock, versions.
    requests
        One row per response: ``path``, ``query``, ``status``, ``date`` and ``received`` (UTC), ``bytes``,
        ``sha256``, ``source``.
    """

    path: Path
    bytes: int
    manifest: BundleManifest
    requests: pd.DataFrame

    def __str__(self) -> str:
        m = self.manifest
        source = m.source or "none"
        if m.synthetic:
            source += " (synthetic)"
        lines = [
            f"{self.path}: {m.answers} responses, {_size(self.bytes)}",
            f"source: {source}",
            f"clock: {m.asof or 'none'}",
            f"made by: derivdata {m.versions.get('derivdata', 'unknown')}, Python {m.python}, {m.platform}",
        ]
        if m.attribution:
            lines.append(f"attribution: {m.attribution}")
        lines.append(f"differs here: {'; '.join(differences(m)) or 'nothing'}")
        for row in self.requests.itertuples():
            query = f"?{row.query}" if row.query else ""
            date = "no date" if row.date is pd.NaT else times.iso(row.date)
            lines.append(f"  {row.status} {_size(row.bytes):>9} {date:20} {row.path}{query}")
        return "\n".join(lines)


def info(path: str | Path) -> Contents:
    """Check all hashes of a bundle and return its contents.

    Returns
    -------
    Contents
        Manifest, and one row per response.

    Raises
    ------
    BundleError
        The file is not a bundle, or it is damaged or malicious.
    """
    bundle = Bundle(path)
    try:
        return Contents(bundle.path, bundle.path.stat().st_size, bundle.manifest, _requests(bundle.entries))
    finally:
        bundle.close()


def verify(path: str | Path) -> int:
    """Check all hashes of a bundle; return its number of responses.

    Raises
    ------
    BundleError
        The file is not a bundle, or it is damaged or malicious; the message names the entry.
    """
    return int(info(path).manifest.answers)


def _requests(entries: list[Entry]) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "path": [e.path for e in entries],
            "query": [str(request_of(e)).partition("?")[2] for e in entries],
            "status": [e.status for e in entries],
            "date": times.parse([e.date for e in entries]),
            "received": times.parse([e.received for e in entries]),
            "bytes": [e.bytes for e in entries],
            "sha256": [e.sha256 for e in entries],
            "source": [e.source for e in entries],
        }
    )


def _size(size: int) -> str:
    value = float(size)
    for unit in _UNITS:
        if value < 1000 or unit == _UNITS[-1]:
            break
        value /= 1000
    return f"{size} B" if unit == "B" else f"{value:.1f} {unit}"
