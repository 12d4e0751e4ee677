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
"""Size of a block with its own checksum. Smaller blocks need more checksums, larger ones read more bytes."""

_FORMAT = "derivdata-archive"
_VERSION = 4
_SEAL_FIELD = re.compile(rb',"seal":"([0-9a-f]{32})"\}')
_SEAL_FIELD_BYTES = len(b',"seal":""}') + 32
_SEAL_KEY = b"derivdata-archive manifest"
_DATA_PATH = re.compile(r"\w+/-?\d{4,}-\d\d(-\d\d)?/[0-9a-f]{32}\.parquet")


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
        """Return the paths of the files that `files` yields."""
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
        if not _was_just_created(storage):
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
    """Return the manifest of a text. Raise for a damaged text, another format, or another version."""
    try:
        head = _HEADS.decode(text)
        if (head.format, head.version) == (_FORMAT, _VERSION):
            manifest = _unsealed(text)
            _check_paths(storage, manifest)
            return manifest
    except (msgspec.DecodeError, UnicodeDecodeError) as problem:
        raise ArchiveError(f"{storage}: {MANIFEST} is damaged ({problem}): restore it from a copy") from None
    if head.format != _FORMAT:
        raise ArchiveError(f"{storage}: {MANIFEST} does not belong to a derivdata archive")
    advice = f"this version reads up to {_VERSION}: update derivdata"
    if head.version < _VERSION:
        advice = (
            "which was never released: import the files under tables in archive.json into a new archive "
            "(derivdata import), or fetch its rows again (derivdata backfill)"
        )
    raise ArchiveError(f"{storage}: the archive has format {head.version}, {advice}")


def sealed(text: bytes) -> bytes:
    """Return the JSON of a manifest with its seal as the last field."""
    return text[:-1] + b',"seal":"%s"}' % _seal(text[:-1]).encode()


def _seal(text: bytes) -> str:
    return hashlib.blake2b(text, digest_size=16, key=_SEAL_KEY).hexdigest()


def _unsealed(text: bytes) -> Manifest:
    """Return the manifest of a text without its seal. Raise `DecodeError` if the seal does not match."""
    unsealed = text[:-_SEAL_FIELD_BYTES]
    seal = _SEAL_FIELD.fullmatch(text[-_SEAL_FIELD_BYTES:])
    if seal is None or seal[1].decode() != _seal(unsealed):
        raise msgspec.DecodeError("the seal does not match the text")
    manifest: Manifest = _MANIFESTS.decode(unsealed + b"}")
    return manifest


def _check_paths(storage: Storage, manifest: Manifest) -> None:
    """Raise if a path of the manifest is not one of an archive, such as one outside of its folder."""
    invalid = [file.path for file in manifest.files() if not _DATA_PATH.fullmatch(file.path)]
    if manifest.ledger and not LEDGER_FILE.fullmatch(manifest.ledger):
        invalid.append(manifest.ledger)
    if invalid:
        why = f"{invalid[0]!r} is not a valid path of an archive file"
        raise ArchiveError(f"{storage}: {MANIFEST} is damaged ({why}): restore it from a copy")


def _was_just_created(storage: Storage) -> bool:
    """Return whether a manifest exists after it could not be found. Raise for a folder with other files."""
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


_CLOSED_AFTER_US = 3_600_000_000
"""Time from the end of a window until clients treat its rows as final and cache the response."""
_MAX_RETRY_SECONDS = 0.2
"""Maximum of the random pause between two attempts to commit."""

T = TypeVar("T")


class Overtaken(ArchiveError):
    """Other writers committed first at every attempt, and nothing was written."""


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
    `change` is called again with the new manifest whenever another writer was faster. A writer that stops
    early leaves the old state, and files that no manifest names. When this returns, the data is durable.
    """
    load(storage)  # raises for a damaged archive before a lock file is created
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
                            f"{storage}: other writers committed first at every attempt within {timeout:g} "
                            "s. Nothing was written; append again, in smaller pieces or with a longer "
                            "lock_timeout"
                        ) from None
                time.sleep(random.uniform(0.0, _MAX_RETRY_SECONDS))
    finally:
        writing.release()


def _attempt(storage: Storage, change: Callable[[Manifest], Change[T]], writing: Any, *, cut_off: bool) -> T:
    """Apply a change once. `cut_off` is true if the last writer was interrupted; its files are removed.

    Raises `ManifestChanged`, and removes the new files, if another writer was faster.
    """
    before, version = load_with_version(storage)
    submitted: Manifest | None = None
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
            paths_before = manifest.paths()
            paths_after = after.paths()
            obsolete = (paths_before | written) - paths_after
            obsolete |= {manifest.ledger} - {"", after.ledger}
            storage.settle(paths_after - paths_before, obsolete)
            submitted = after
            save(storage, after, version)
            saved = True
            _remove(storage, obsolete, writing)
        return result
    except BaseException as problem:
        if saved:  # only an interrupt, or a notice that a filter turns into an error
            problem.add_note(f"{storage}: the rows are stored; the next open removes the remaining old files")
            raise
        with suppress(ArchiveError):  # a manifest that cannot be read must not hide the first problem
            _sweep(storage)
        if isinstance(problem, OSError):
            raise _commit_error(storage, before or Manifest(), submitted, problem) from None
        # A wait of Python's threading that is interrupted releases its lock twice, which is a RuntimeError.
        if isinstance(problem, RuntimeError) and isinstance(problem.__context__, KeyboardInterrupt):
            raise KeyboardInterrupt from None
        raise


def _remove(storage: Storage, obsolete: Collection[str], writing: Any) -> None:
    """Remove obsolete files after a commit, with a notice about those that could not be removed."""
    remaining = sorted(path for path in obsolete if not storage.remove(path))
    if not remaining:
        return
    writing.keep_notes()
    shown = ", ".join(remaining[:3])
    if len(remaining) > 3:
        shown += " and more"
    todo = "the next open removes them"
    if storage.remote:
        todo = "remove them manually"
    warn_caller(
        f"{storage}: the rows are stored, but {len(remaining)} old files could not be removed: {todo} "
        f"({shown})"
    )


def clean(storage: Storage) -> None:
    """Remove the files of an interrupted writer, unless another one is writing."""
    storage.clean(lambda: _live_paths(storage))


def _live_paths(storage: Storage) -> set[str]:
    """Return the paths that the manifest names: data files and the ledger."""
    manifest = load(storage) or Manifest()
    return {*manifest.paths(), manifest.ledger}


def _changed(
    storage: Storage, change: Callable[[Manifest], Change[T]], manifest: Manifest, version: Any
) -> Change[T]:
    """Call `change`. If it fails and the manifest is new, raise `ManifestChanged` instead of the error.

    Another writer may have removed the files that `change` was reading.
    """
    try:
        return change(manifest)
    except (OSError, ArchiveError):
        _, current_version = load_with_version(storage)
        if current_version != version:
            raise ManifestChanged from None
        raise


def past_after(manifest: Manifest, identity: str, changed: Collection[int]) -> str:
    """Return the value of `Manifest.past` after a change.

    `changed` are the first times [µs] of the changed rows, `identity` is the archive's identity after the
    change. It becomes the identity of the past if a changed row is more than an hour before the last stored
    row. Clients cache the response of a window that ended an hour ago while this value is the same.
    """
    last_times = [file.last for entry in manifest.tables.values() for file in entry.files]
    if last_times and changed and min(changed) < max(last_times) - _CLOSED_AFTER_US:
        return identity
    return manifest.past


def _sweep(storage: Storage) -> None:
    """Remove the files of a failed attempt, or of an interrupted writer."""
    storage.sweep(_live_paths(storage))


def _commit_error(
    storage: Storage, before: Manifest, submitted: Manifest | None, problem: OSError
) -> ArchiveError:
    """Return the error of a failed commit, which states whether the rows are stored.

    `submitted` is the manifest that was to be saved, None if the commit failed earlier. The current manifest
    is compared with it and with the one `before`.
    """
    why = problem.strerror or problem
    unchanged = ArchiveError(f"{storage}: nothing was appended, and the archive is unchanged: {why}")
    if submitted is None:
        return unchanged
    doubt = f"it is unknown whether these rows were appended ({why}): append again, stored rows are skipped"
    try:
        current = load(storage) or Manifest()
    except ArchiveError:
        return ArchiveError(f"{storage}: {doubt}")
    if current.commits == before.commits:
        return unchanged
    if msgspec.json.encode(current) != msgspec.json.encode(submitted):
        return ArchiveError(f"{storage}: another writer has committed, and {doubt}")
    return ArchiveError(
        f"{storage}: the rows were written, but may be lost in a power failure, because the disk did not "
        f"confirm the write: {why}"
    )
