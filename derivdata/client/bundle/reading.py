"""A bundle read with distrust: sizes bounded, hashes compared, nothing unpacked to disk; its contents."""

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

from derivdata.client.bundle.layout import (
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
"""What is unpacked in bounded steps; the standard library unpacks the others whole."""

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
"""What the standard library raises for files that are broken on purpose or by accident."""


class Bundle:
    """A whole bundle, open for reading."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        with suppress(OSError):  # of a path that no file system takes, which opening it says below
            if self.path.exists() and not self.path.is_file():  # a pipe would be waited for
                raise BundleError(f"{path}: not a bundle: not a file; pass a recording's path, FILE.ddz")
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
                    raise unusable(self.path, f"{name} belongs to no answer")
            self._check_bodies()
        except BaseException:
            self._zip.close()
            raise

    def body(self, entry: Entry) -> bytes:
        """Return an answer's raw body."""
        name = body_name(entry.sha256)
        what = f"{name} ({request_of(entry)})"
        journal = self._journal
        body = self._read(name, BODY_BYTES, what) if journal is None else journal.body(name)
        if hashlib.sha256(body).hexdigest() != entry.sha256 or len(body) != entry.bytes:
            raise unusable(self.path, f"{what} is damaged: its hash or size is another")
        return body

    def _open_journal(self, journal: RecordingJournal) -> None:
        """Take a recording that is under way, or was killed, for the bundle of what had come."""
        if journal.manifest is None:
            raise unusable(self.path, "not a bundle, or cut off: its manifest is missing")
        self.entries = journal.entries
        self.manifest = described(journal.manifest, journal.entries, "")
        self._check_manifest(self.manifest)
        self._dated(ANSWERS, (date for e in self.entries for date in (e.date, e.received)))
        self._check_bodies()

    def reopen(self) -> None:
        """Read from a file handle of its own: a forked child shares its parent's, and the place in it."""
        if self._journal is None:
            self._zip = zipfile.ZipFile(self.path)

    def close(self) -> None:
        """Close the file."""
        if self._journal is None:
            self._zip.close()

    def _check_manifest(self, manifest: BundleManifest) -> None:
        if manifest.format != FORMAT or manifest.version != 1:
            raise BundleError(
                f"{self.path}: {MANIFEST} says format {manifest.format!r}, version {manifest.version}: this "
                "library reads version 1; update derivdata, or record it again"
            )
        self._dated(MANIFEST, [manifest.asof])

    def _entries(self) -> list[Entry]:
        text = self._read(ANSWERS, LIST_BYTES)
        if hashlib.sha256(text).hexdigest() != self.manifest.answers_sha256:
            raise unusable(self.path, f"{ANSWERS} is damaged: its hash is not the manifest's")
        entries = decoded(text, list[Entry], f"{self.path}: {ANSWERS}")
        if len(entries) != self.manifest.answers:
            raise unusable(self.path, f"{ANSWERS} is damaged: {MANIFEST} states another number of responses")
        self._dated(ANSWERS, (date for entry in entries for date in (entry.date, entry.received)))
        return entries

    def _dated(self, name: str, dates: Iterable[str | None]) -> None:
        """Refuse dates that are not written as a recording writes them."""
        for date in set(dates) - {None}:
            with suppress(ValueError):
                if times.iso(times.instant(str(date))) == date:
                    continue
            raise unusable(self.path, f"{name} cannot be read: {str(date)[:40]!r} is not a time")

    def _check_bodies(self) -> None:
        """Refuse bodies of another hash, and answers that a service's would be refused for."""
        for entry in {(entry.sha256, entry.status == 200): entry for entry in self.entries}.values():
            body = self.body(entry)
            try:
                if entry.status == 200:
                    check_json(body, {})
            except NotJson as error:
                what = f"{body_name(entry.sha256)} ({request_of(entry)})"
                raise unusable(self.path, f"{what} cannot be read: {error}") from None

    def _read(self, name: str, limit: int, what: str = "") -> bytes:
        info = self._members.get(name)
        if info is None:
            raise unusable(self.path, f"{what or name} is missing")
        if info.file_size > limit:
            raise unusable(self.path, f"{what or name} is absurdly large: {info.file_size} bytes")
        try:
            with self._zip.open(info) as file:
                data = file.read(info.file_size + 1)
        except _DAMAGE as error:
            raise unusable(self.path, f"{what or name} is damaged: {_words(error)}") from None
        if len(data) != info.file_size:
            raise unusable(self.path, f"{what or name} is damaged: its size differs from the stated one")
        return data


def _surveyed(path: Path, infos: list[zipfile.ZipInfo]) -> dict[str, zipfile.ZipInfo]:
    """Members by name, after a look at the directory alone."""
    if len(infos) > MEMBERS or sum(info.file_size for info in infos) > TOTAL_BYTES:
        raise unusable(path, "refused: absurdly large when unpacked")
    if infos and min(info.header_offset for info in infos) > 0:  # readers of zips skip what is before
        raise unusable(path, "refused: data before the first member")
    members: dict[str, Any] = {}
    for info in infos:
        name = info.orig_filename
        if name not in (MANIFEST, ANSWERS) and not BODY.fullmatch(name):
            raise unusable(path, f"refused: {name!r} is not the name of anything in a bundle")
        if info.compress_type not in _METHODS or info.flag_bits & _ENCRYPTED:
            raise unusable(path, f"refused: {name} is packed in a way that no bundle is")
        if name in members:
            raise unusable(path, f"refused: {name} is there twice")
        members[name] = info
    return members


def _words(error: BaseException) -> str:
    return str(error) or type(error).__name__


_UNITS = ("B", "kB", "MB", "GB")


@dataclass(frozen=True)
class Contents:
    """Summary of a whole bundle.

    Attributes
    ----------
    path, bytes
        The file and its size.
    manifest
        Source, clock, versions.
    requests
        One row per answer: ``path``, ``query``, ``status``, ``date`` and ``received`` (UTC), ``bytes``,
        ``sha256``, ``source``.
    """

    path: Path
    bytes: int
    manifest: BundleManifest
    requests: pd.DataFrame

    def __str__(self) -> str:
        m = self.manifest
        lines = [
            f"{self.path}: {m.answers} answers, {_size(self.bytes)}",
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
    """Return what a bundle holds, after every hash was checked.

    Raises
    ------
    BundleError
        It is not a bundle, damaged, or built to do harm.
    """
    bundle = Bundle(path)
    try:
        return Contents(bundle.path, bundle.path.stat().st_size, bundle.manifest, _requests(bundle.entries))
    finally:
        bundle.close()


def verify(path: str | Path) -> int:
    """Check every hash of a bundle; return how many answers it holds.

    Raises
    ------
    BundleError
        It is not a bundle, damaged, or built to do harm; the message names the entry.
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
