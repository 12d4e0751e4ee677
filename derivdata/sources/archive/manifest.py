"""The manifest of an archive: the list of live files, and the transactions that replace it.

Every change of an archive (an append, a correction, an entry in the ledger) writes new files and then
replaces the manifest, the only file that ever changes. One replacement is one commit, so a storage only needs
to read the manifest, write files, and replace the manifest if it is still the one that was read.

Its last field is a seal, a keyed hash of all the text before it. If a byte changes on disk, reading the
manifest raises an error; it never loses a table, a name or a file.
"""

from __future__ import annotations

import hashlib
import random
import re
import time
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import suppress
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec

from derivdata.errors import ArchiveError
from derivdata.sources.archive.storage import LEDGER_FILE, MANIFEST, ManifestChanged, Storage
from derivdata.support.text import warn_caller

BLOCK_BYTES = 1 << 18
"""Bytes of a block with its own checksum: few compared with a file, many compared with a checksum."""

_FORMAT = "derivdata-archive"
_VERSION = 4
_SEAL = re.compile(rb',"seal":"([0-9a-f]{32})"\}')
_SEAL_BYTES = len(b',"seal":""}') + 32
_SEAL_KEY = b"derivdata-archive manifest"
_PLACE = re.compile(r"\w+/-?\d{4,}-\d\d(-\d\d)?/[0-9a-f]{32}\.parquet")


class DataFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One immutable Parquet file: its rows, first and last time [µs], and number of merges.

    `digest` is of the whole file, `blocks` are the checksums (CRC-32, eight digits each) of its pieces of
    `BLOCK_BYTES`, `schema` is the digest of its columns.
    """

    path: str = msgspec.field(name="file")
    rows: int
    size: int
    first: int
    last: int
    digest: str
    blocks: str
    schema: str
    level: int = 0

    @property
    def partition(self) -> str:
        """Folder of the file: table and month or day."""
        return self.path.rpartition("/")[0]

    @property
    def by_day(self) -> bool:
        """Return whether the folder is a day."""
        return self.partition.rpartition("/")[2].lstrip("-").count("-") == 2

    @property
    def month(self) -> str:
        """The month of the folder, ``"2026-01"``."""
        name = self.partition.rpartition("/")[2]
        if self.by_day:
            name = name[:-3]
        return name


def row_count(files: Iterable[DataFile]) -> int:
    """Return the number of rows of some files."""
    return sum(file.rows for file in files)


class TableEntry(msgspec.Struct, forbid_unknown_fields=True):
    """One table: its files, values of text columns, and venues' names of contracts by venue and symbol."""

    files: list[DataFile] = msgspec.field(default_factory=list, name="parts")
    values: dict[str, list[str]] = {}
    contracts: dict[str, str] = {}


class Correction(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Manually removed and added rows, stored in separate files so that the correction can be undone.

    `where` and the half-open window [µs] select the corrected rows; `undoes` is the number of the correction
    that this one undoes; `contracts` are the changed contracts before the correction, empty for a series
    without one.
    """

    number: int
    table: str
    action: str
    where: dict[str, list[str]]
    first: int
    end: int
    reason: str = ""
    removed: list[DataFile] = []
    added: list[DataFile] = []
    undoes: int | None = None
    contracts: dict[str, str] = {}


class Manifest(msgspec.Struct, forbid_unknown_fields=True):
    """State of an archive: its tables and their files, corrections, versions.

    `id` is created once. `identity` is a hash of all appends, corrections and requests in order, and `past`
    its value after the last change of the past (`past_after`). `commits` counts replacements.
    `ledger` names the file of requests. `beside` is always empty: it is a field of format 4.
    """

    identity: str = ""
    synthetic: bool = False
    tables: dict[str, TableEntry] = {}
    id: str = ""
    past: str = ""
    commits: int = 0
    corrections: list[Correction] = []
    ledger: str = ""
    beside: list[str] = []
    format: str = _FORMAT
    version: int = _VERSION

    def files(self) -> Iterator[DataFile]:
        """Yield every live Parquet file: files of tables, and files for undoing corrections."""
        for entry in self.tables.values():
            yield from entry.files
        for correction in self.corrections:
            yield from correction.removed
            yield from correction.added

    def paths(self) -> set[str]:
        """Return the paths of those files."""
        return {file.path for file in self.files()}


class _Head(msgspec.Struct):
    format: str
    version: int


_HEADS = msgspec.json.Decoder(_Head)
_MANIFESTS = msgspec.json.Decoder(Manifest)


def empty_manifest() -> Manifest:
    """Return the manifest of an empty archive."""
    return Manifest(id=uuid.uuid4().hex)


def load(storage: Storage) -> Manifest | None:
    """Return the manifest of an archive; None if the place does not exist or is empty."""
    return load_with_version(storage)[0]


def load_with_version(storage: Storage) -> tuple[Manifest | None, Any]:
    """Return the manifest as `load` does, and its version for `save`."""
    try:
        text, version = storage.read_manifest()
    except FileNotFoundError:
        if not _has_appeared(storage):
            return None, None
        return load_with_version(storage)
    except OSError as problem:
        raise _unreadable(storage, problem) from None
    return _decoded(storage, text), version


def save(storage: Storage, manifest: Manifest, version: Any = None) -> None:
    """Replace the manifest; it is durable when this returns."""
    storage.replace_manifest(sealed(msgspec.json.encode(manifest)), version)


def chained(identity: str, digests: Iterable[str]) -> str:
    """Return the identity after an append, from the previous one and the digests of the added files."""
    text = "\n".join([identity, *sorted(digests)])
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def _decoded(storage: Storage, text: bytes) -> Manifest:
    try:
        head = _HEADS.decode(text)
        if (head.format, head.version) == (_FORMAT, _VERSION):
            return _inside(storage, _unsealed(text))
    except (msgspec.DecodeError, UnicodeDecodeError) as problem:
        raise ArchiveError(f"{storage}: {MANIFEST} is damaged ({problem}): restore it from a copy") from None
    if head.format != _FORMAT:
        raise ArchiveError(f"{storage}: {MANIFEST} does not belong to a derivdata archive")
    why = f"this version reads up to {_VERSION}: update derivdata"
    if head.version < _VERSION:
        why = (
            "which was never released: import the files under tables in archive.json into a new archive "
            "(derivdata import), or fetch its rows again (derivdata backfill)"
        )
    raise ArchiveError(f"{storage}: the archive has format {head.version}, {why}")


def sealed(text: bytes) -> bytes:
    """Return the JSON of a manifest with its seal as the last field."""
    return text[:-1] + b',"seal":"%s"}' % _seal(text[:-1]).encode()


def _seal(text: bytes) -> str:
    return hashlib.blake2b(text, digest_size=16, key=_SEAL_KEY).hexdigest()


def _unsealed(text: bytes) -> Manifest:
    """Return a manifest with a valid seal."""
    said = text[:-_SEAL_BYTES]
    seal = _SEAL.fullmatch(text[-_SEAL_BYTES:])
    if seal is None or seal[1].decode() != _seal(said):
        raise msgspec.DecodeError("its seal does not match its text")
    manifest: Manifest = _MANIFESTS.decode(said + b"}")
    return manifest


def _inside(storage: Storage, manifest: Manifest) -> Manifest:
    """Return the manifest if all of its files are at valid places."""
    places = [file.path for file in manifest.files() if not _PLACE.fullmatch(file.path)]
    if manifest.ledger and not LEDGER_FILE.fullmatch(manifest.ledger):
        places.append(manifest.ledger)
    if places:
        why = f"{places[0]!r} is not a valid path of an archive file"
        raise ArchiveError(f"{storage}: {MANIFEST} is damaged ({why}): restore it from a copy")
    return manifest


def _has_appeared(storage: Storage) -> bool:
    """Return whether another writer has just created a manifest; raise for a folder with other contents."""
    try:  # list once: between two listings another thread may create the folder
        names = storage.names()
    except FileNotFoundError:
        return False
    except NotADirectoryError:
        raise ArchiveError(f"{storage}: must be a folder, got a file") from None
    except OSError as problem:
        raise _unreadable(storage, problem) from None
    # A collector may store an unreadable body before the archive has its first row.
    foreign = next((name for name in names if not name.startswith(".") and name != "quarantine"), None)
    if foreign is not None and MANIFEST not in names:
        raise ArchiveError(
            f"{storage}: not an archive: {MANIFEST} is missing, and the folder contains {foreign!r}"
        )
    return MANIFEST in names


def _unreadable(storage: Storage, problem: OSError) -> ArchiveError:
    return ArchiveError(f"{storage}: cannot be read as an archive: {problem.strerror or problem}")


_CLOSED_MICROS = 3_600_000_000
_WAIT_SECONDS = 0.2

T = TypeVar("T")


class Overtaken(ArchiveError):
    """Other writers were faster at every attempt; nothing was written."""


class Change(NamedTuple, Generic[T]):
    """Outcome of a change: the manifest (the same object where nothing changes), and a result.

    Of the `written` files, those that the manifest does not name are removed, because they were merged
    immediately.
    """

    manifest: Manifest
    result: T
    written: set[str]


def commit(storage: Storage, timeout: float, change: Callable[[Manifest], Change[T]]) -> T:
    """Apply a change atomically, after the changes of other writers.

    `change` gets the manifest and writes new files. A store without locks cannot prevent other writes, so
    `change` is called again with the new manifest whenever another writer was faster. A writer that dies
    leaves the old state, and files that no manifest names. When this returns, the data is durable.
    """
    load(storage)
    until = time.monotonic() + timeout
    writing = storage.writing(timeout)
    try:
        with writing as cut_off:
            while True:
                try:
                    return _attempt(storage, change, writing, cut_off=cut_off)
                except ManifestChanged:
                    if time.monotonic() >= until:
                        raise Overtaken(
                            f"{storage}: other writers committed first for over {timeout:g} s. Nothing was "
                            "written; append again, in smaller pieces or with a longer lock_timeout"
                        ) from None
                time.sleep(random.uniform(0.0, _WAIT_SECONDS))
    finally:
        writing.release()


def _attempt(storage: Storage, change: Callable[[Manifest], Change[T]], writing: Any, *, cut_off: bool) -> T:
    """Apply a change to the current manifest; a ManifestChanged leaves everything unchanged."""
    before, version = load_with_version(storage)
    tried: Manifest | None = None
    saved = False
    try:
        if before is None:
            save(storage, empty_manifest(), version)
            before, version = load_with_version(storage)
        manifest = before or empty_manifest()
        if cut_off:
            _sweep(storage)
        after, result, written = _changed(storage, change, manifest, version)
        if after is not manifest:
            after = msgspec.structs.replace(after, commits=manifest.commits + 1)
            old = manifest.paths()
            present = after.paths()
            gone = ((old | written) - present) | ({manifest.ledger} - {"", after.ledger})
            storage.settle(present - old, gone)
            tried = after
            save(storage, after, version)
            saved = True
            _remove(storage, gone, writing)
        return result
    except BaseException as problem:
        if saved:  # only an interrupt, or a notice that a filter turns into an error
            problem.add_note(f"{storage}: the rows are stored; the next open removes the remaining old files")
            raise
        with suppress(ArchiveError):  # a manifest that cannot be read must not hide the first problem
            _sweep(storage)
        if isinstance(problem, OSError):
            raise _refused(storage, before or Manifest(), tried, problem) from None
        # A wait of Python's threading that is interrupted releases its lock twice, which is a RuntimeError.
        if isinstance(problem, RuntimeError) and isinstance(problem.__context__, KeyboardInterrupt):
            raise KeyboardInterrupt from None
        raise


def _remove(storage: Storage, gone: Collection[str], writing: Any) -> None:
    """Remove old files after a commit, with a notice about the remaining ones."""
    left = sorted(path for path in gone if not storage.remove(path))
    if not left:
        return
    writing.keep_notes()
    shown = ", ".join(left[:3])
    if len(left) > 3:
        shown += " and more"
    todo = "the next open removes them"
    if storage.remote:
        todo = "remove them manually"
    warn_caller(
        f"{storage}: the rows are stored, but {len(left)} old files could not be removed: {todo} ({shown})"
    )


def clean(storage: Storage) -> None:
    """Remove the files of an interrupted writer, unless another one is writing."""
    storage.clean(lambda: _named(storage))


def _named(storage: Storage) -> set[str]:
    """Return the files that the manifest names."""
    manifest = load(storage) or Manifest()
    return {*manifest.paths(), manifest.ledger}


def _changed(
    storage: Storage, change: Callable[[Manifest], Change[T]], manifest: Manifest, version: Any
) -> Change[T]:
    """Apply a change; its failure is a ManifestChanged if another writer may have removed its input."""
    try:
        return change(manifest)
    except (OSError, ArchiveError):
        if load_with_version(storage)[1] != version:
            raise ManifestChanged from None
        raise


def past_after(manifest: Manifest, identity: str, changed: Collection[int]) -> str:
    """Return the identity of the past after a change from some times [µs] on gave `identity`.

    A client closes a window an hour after its end, and caches its response while the past is unchanged.
    """
    lasts = [file.last for entry in manifest.tables.values() for file in entry.files]
    if lasts and changed and min(changed) < max(lasts) - _CLOSED_MICROS:
        return identity
    return manifest.past


def _sweep(storage: Storage) -> None:
    """Remove the files of a failed attempt, or of an interrupted writer."""
    storage.sweep(_named(storage))


def _refused(storage: Storage, before: Manifest, tried: Manifest | None, problem: OSError) -> ArchiveError:
    """Return an error that states whether the rows are stored, according to the current manifest."""
    why = problem.strerror or problem
    nothing = ArchiveError(f"{storage}: nothing was appended, and the archive is unchanged: {why}")
    if tried is None:  # it failed before the manifest was to be replaced
        return nothing
    again = f"append again, rows that are stored are skipped: {why}"
    try:
        now = load(storage) or Manifest()
    except ArchiveError:
        return ArchiveError(f"{storage}: it is unknown whether these rows were appended: {again}")
    if now.commits == before.commits:
        return nothing
    if msgspec.json.encode(now) != msgspec.json.encode(tried):
        return ArchiveError(
            f"{storage}: another writer has committed, and it is unknown whether these rows were appended: "
            f"{again}"
        )
    return ArchiveError(
        f"{storage}: the rows were written, but the disk did not confirm that they survive a power cut: {why}"
    )
