"""Find the files of an import, and open each by what its first bytes say: compression, then format."""

from __future__ import annotations

import bz2
import glob
import gzip
import io
import os
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Literal

import pyarrow as pa

from derivdata.errors import ArchiveError

Kind = Literal["csv", "json", "parquet", "feather"]

_HEAD = 4096
_DEPTH = 4
"""How often a file may be compressed: a gzip in a zip is twice."""
_CODECS = {b"\x1f\x8b": "gz", b"BZh": "bz2", b"\x28\xb5\x2f\xfd": "zstd", b"\x04\x22\x4d\x18": "lz4"}
_BINARY: dict[bytes, Kind] = {
    b"PAR1": "parquet",
    b"ARROW1": "feather",
    b"FEA1": "feather",
    b"\xff\xff\xff\xff": "feather",
}
_ENDINGS = frozenset(
    ".csv .tsv .txt .json .jsonl .ndjson .parquet .pq .feather .arrow .ipc .gz .gzip .bz2 .zst .zstd .lz4 "
    ".zip .data".split()
)
"""Endings that a file in a folder needs to be read; a file that is named itself may have any."""
_ASIDE = ("__MACOSX/", ".DS_Store", "Thumbs.db")


@dataclass(frozen=True)
class Source:
    """One file, or one member of a zip."""

    path: Path
    member: str = ""

    @property
    def name(self) -> str:
        """The path, with that of the member in the zip."""
        return f"{self.path.as_posix()}/{self.member}" if self.member else self.path.as_posix()

    def __str__(self) -> str:
        return f"{self.path} ({self.member})" if self.member else str(self.path)


def find_sources(files: Sequence[str | os.PathLike[str]]) -> list[Source]:
    """Return the files of paths, folders and patterns such as ``data/*.csv``, in the order of their names."""
    sources: list[Source] = []
    for file in files:
        path = Path(file).expanduser()
        if path.is_dir():
            listed = _in_folder(path)
        elif not path.exists() and glob.has_magic(str(path)):
            listed = [Path(name) for name in sorted(glob.glob(str(path), recursive=True))]
            if not listed:
                raise ArchiveError(f"{path}: no file has such a name")
        else:
            listed = [path]
        for one in listed:
            sources += _members(one)
    return sources


def _in_folder(folder: Path) -> list[Path]:
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    data = [path for path in files if path.suffix.lower() in _ENDINGS and not path.name.startswith(".")]
    if not data:
        raise ArchiveError(f"{folder}: the folder has no CSV, JSON, Parquet or Feather file")
    return data


def _members(path: Path) -> list[Source]:
    """Return the members of a zip, or the file itself."""
    if not path.is_file() or not zipfile.is_zipfile(path):
        if path.suffix.lower() == ".zip" and path.is_file():
            raise ArchiveError(f"{path}: cannot be read as zip: the file is damaged or not complete")
        return [Source(path)]
    with zipfile.ZipFile(path) as archive:
        items = [item for item in archive.infolist() if not item.is_dir()]
    items = [item for item in items if not any(word in item.filename for word in _ASIDE)]
    if any(item.filename == "[Content_Types].xml" for item in items):
        raise ArchiveError(f"{path}: is an office document such as an Excel workbook: save it as CSV first")
    if any(item.flag_bits & 1 for item in items):
        raise ArchiveError(f"{path}: the zip is encrypted: unpack it first")
    if not items:
        raise ArchiveError(f"{path}: the zip holds no file")
    return [Source(path, item.filename) for item in sorted(items, key=lambda item: item.filename)]


@contextmanager
def opened(source: Source) -> Iterator[tuple[Kind, IO[bytes]]]:
    """Open a file without its compression; its first bytes show its format."""
    with stored(source) as stream:
        for _ in range(_DEPTH):
            head = stream.peek(_HEAD)[:_HEAD]
            codec = next((name for magic, name in _CODECS.items() if head.startswith(magic)), None)
            if codec is None:
                break
            stream = _decompressed(stream, codec)
        yield _kind(source, head), stream


@contextmanager
def stored(source: Source) -> Iterator[io.BufferedReader]:
    """Open the bytes of a file as they are stored."""
    if not source.member:
        with source.path.open("rb") as file:
            yield file
        return
    with zipfile.ZipFile(source.path) as archive, archive.open(source.member) as member:
        yield io.BufferedReader(member, 1 << 20)  # type: ignore[arg-type]


def _decompressed(stream: io.BufferedReader, codec: str) -> io.BufferedReader:
    packed: Any
    if codec == "gz":
        packed = gzip.GzipFile(fileobj=stream)
    elif codec == "bz2":
        packed = bz2.BZ2File(stream)
    else:
        packed = pa.CompressedInputStream(pa.PythonFile(stream, mode="r"), codec)
    return io.BufferedReader(packed, 1 << 20)


def _kind(source: Source, head: bytes) -> Kind:
    for magic, kind in _BINARY.items():
        if head.startswith(magic):
            return kind
    text = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    if text[:1] in (b"{", b"["):
        return "json"
    if b"\0" in head:
        raise ArchiveError(f"{source}: is not CSV, JSON, Parquet or Feather: convert it first")
    if not text:
        raise ArchiveError(f"{source}: the file is empty")
    if text[:1] == b"<":
        raise ArchiveError(f"{source}: is a page in HTML or XML, such as an error that a server sent")
    return "csv"
