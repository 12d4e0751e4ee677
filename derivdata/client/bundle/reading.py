"""Read a bundle as untrusted input: sizes are bounded, hashes compared, and nothing is unpacked to disk."""

from __future__ import annotations

import hashlib
import zipfile
import zlib
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

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
    unusable,
)
from derivdata.client.bundle.writing import RecordingJournal, is_journal
from derivdata.client.transport.body import NotJson, check_json
from derivdata.errors import BundleError
from derivdata.support import times

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
        with suppress(OSError):  # an invalid path: opening it below raises a clearer error
            if self.path.exists() and not self.path.is_file():  # opening a pipe would block
                raise BundleError(f"{path}: must be a bundle file; pass the path of a recording, FILE.ddz")
        self._journal = RecordingJournal(self.path) if is_journal(self.path) else None
        if self._journal is not None:
            self._open_journal(self._journal)
            return
        try:
            self._zip = zipfile.ZipFile(self.path)
        except _DAMAGE as error:
            raise unusable(path, f"not a bundle, or cut off: {_words(error)}") from None
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
            raise unusable(self.path, "not a bundle, or cut off: its manifest is missing")
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
                if times.iso(times.instant(str(date))) == date:
                    continue
            raise unusable(self.path, f"{name} cannot be read: {str(date)[:40]!r} is not a time")

    def _check_bodies(self) -> None:
        """Raise on bodies with another hash, and on bodies that would be rejected from a service too."""
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
    """Check the zip directory before anything is unpacked; return its members by name."""
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
        lines = [
            f"{self.path}: {m.answers} responses, {_size(self.bytes)}",
            f"source: {m.source or 'none'}{' (synthetic)' if m.synthetic else ''}",
            f"clock: {m.asof or 'none'}",
            f"made by: derivdata {m.versions.get('derivdata', 'unknown')}, Python {m.python}, {m.platform}",
        ]
        if m.attribution:
            lines.append(f"attribution: {m.attribution}")
        different = differences(m)
        lines.append("differs here: " + ("; ".join(different) if different else "nothing"))
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
