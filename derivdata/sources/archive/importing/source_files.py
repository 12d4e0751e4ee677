"""Find the files of an import, and open each by its first bytes: compression, then format."""

from __future__ import annotations

import bz2
import codecs
import glob
import gzip
import io
import itertools
import lzma
import os
import re
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import IO, Any, Literal, NamedTuple

import msgspec
import pyarrow as pa

from derivdata.errors import ArchiveError
from derivdata.sources.archive.importing.json_bodies import is_reply
from derivdata.sources.archive.importing.market_names import meaning_of

Kind = Literal["csv", "json", "parquet", "feather"]

_HEAD = 4096
_DEPTH = 4
"""Maximum number of nested compressions: a gzip in a zip is two."""
_CODECS = {
    b"\x1f\x8b": "gz",
    b"BZh": "bz2",
    b"\xfd7zXZ\0": "xz",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"\x04\x22\x4d\x18": "lz4",
}
_TAR_MARK = slice(257, 262)
"""Bytes of a tar file that are ``ustar``, in the first header."""
_BINARY: dict[bytes, Kind] = {
    b"PAR1": "parquet",
    b"ARROW1": "feather",
    b"FEA1": "feather",
    b"\xff\xff\xff\xff": "feather",
}
_JSON = re.compile(rb"\{|\[\s*([\[{\"\]\-\d]|null|true|false|$)")
"""Beginnings of JSON; names of columns may be in brackets, ``[STRIKE],[C_IV]``."""
_MARKUP = re.compile(rb"<(?![A-Z]+>[,;\t])")
"""Beginnings of HTML and XML; MetaTrader's names of columns are ``<DATE>``."""
_ENDINGS = frozenset(
    ".csv .tsv .txt .json .jsonl .ndjson .parquet .pq .feather .arrow .ipc .gz .gzip .bz2 .xz .zst .zstd "
    ".lz4 .zip .tar .tgz .data".split()
)
"""File extensions that are read in a folder. A file passed by its own path may have any extension."""
_ASIDE = ("__MACOSX/", ".DS_Store", "Thumbs.db")
_ENCRYPTED = 1
"""Bit of a member's flags, by PKWARE's APPNOTE 4.4.4."""


@dataclass(frozen=True)
class Source:
    """One file, or one member of a zip or tar; with a channel, only the messages of this channel in it."""

    path: Path
    member: str = ""
    channel: str = ""

    @property
    def name(self) -> str:
        """Return the path, with that of the member."""
        if self.member:
            return f"{self.path.as_posix()}/{self.member}"
        return self.path.as_posix()

    @property
    def file_name(self) -> str:
        """Return the last part of the path."""
        return self.name.rsplit("/", 1)[-1]

    def __str__(self) -> str:
        words = [self.member] if self.member else []
        if self.channel:
            words.append(f"channel {self.channel}")
        return f"{self.path} ({', '.join(words)})" if words else str(self.path)


def find_sources(files: Sequence[str | os.PathLike[str]]) -> list[Source]:
    """Return the files of paths, folders and patterns such as ``data/*.csv``, in the order of their names."""
    sources: list[Source] = []
    for file in files:
        path = Path(file).expanduser()
        if path.is_dir():
            listed = _in_folder(path)
        elif not path.exists() and glob.has_magic(str(path)):
            listed = list(map(Path, sorted(glob.glob(str(path), recursive=True))))
            if not listed:
                raise ArchiveError(f"{path}: no file matches this name")
        else:
            listed = [path]
        for listed_path in listed:
            sources += _members(listed_path)
    return sources


def _in_folder(folder: Path) -> list[Path]:
    """Return the files of data in a folder and those below it."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    data: list[Path] = []
    for path in files:
        is_hidden = path.name.startswith(".")
        if path.suffix.lower() in _ENDINGS and not is_hidden:
            data.append(path)
    if not data:
        raise ArchiveError(f"{folder}: the folder has no CSV, JSON, Parquet or Feather file")
    return data


def _members(path: Path) -> list[Source]:
    """Return the members of a zip or tar, or the file itself."""
    if not path.is_file():
        return [Source(path)]
    if zipfile.is_zipfile(path):
        return _members_of_zip(path)
    if _is_tar(path):
        return _members_of_tar(path)
    if path.suffix.lower() == ".zip":
        raise ArchiveError(f"{path}: cannot be read as zip: the file is damaged or incomplete")
    return [Source(path)]


def _members_of_zip(path: Path) -> list[Source]:
    """Return the members of a zip in the order of their names."""
    with zipfile.ZipFile(path) as archive:
        items = [item for item in archive.infolist() if not item.is_dir() and not _is_aside(item.filename)]
    names = sorted(item.filename for item in items)
    if "[Content_Types].xml" in names:
        raise ArchiveError(
            f"{path}: the file is an office document, such as an Excel workbook: save it as CSV first, "
            "or convert it: python -c \"import pandas; [sheet.to_csv(f'FILE_{name}.csv', index=False) "
            "for name, sheet in pandas.read_excel('FILE.xlsx', sheet_name=None).items()]\", which writes "
            "a file for each sheet"
        )
    if any(item.flag_bits & _ENCRYPTED for item in items):
        raise ArchiveError(f"{path}: the zip is encrypted: unpack it first")
    if not names:
        raise ArchiveError(f"{path}: the zip does not contain a file")
    return [Source(path, name) for name in names]


def _is_aside(name: str) -> bool:
    """Return whether a member is a metadata file that a desktop adds to archives."""
    return any(word in name for word in _ASIDE)


def _is_tar(path: Path) -> bool:
    """Return whether a file is a tar, compressed or not."""
    with path.open("rb") as file:
        try:
            stream = _unpacked(file)
            return stream.peek(_HEAD)[_TAR_MARK] == b"ustar"
        except (OSError, EOFError, zlib.error, lzma.LZMAError, pa.ArrowException):
            return False  # a damaged file; the reader of its format explains it


def _members_of_tar(path: Path) -> list[Source]:
    """Return the members of a tar in the order of their names."""
    try:
        with path.open("rb") as file, _tar(file) as archive:
            names = sorted(item.name for item in archive if item.isfile() and not _is_aside(item.name))
    except (tarfile.TarError, EOFError, lzma.LZMAError) as problem:
        raise ArchiveError(f"{path}: cannot be read as tar: {problem}") from None
    # The tar of macOS adds a file "._name" with attributes to each file.
    names = [name for name in names if not Path(name).name.startswith("._")]
    if not names:
        raise ArchiveError(f"{path}: the tar does not contain a file")
    return [Source(path, name) for name in names]


def _tar(file: io.BufferedReader) -> tarfile.TarFile:
    """Open a tar as a stream, which is read forward only."""
    return tarfile.open(fileobj=_unpacked(file), mode="r|")


@contextmanager
def opened(source: Source) -> Iterator[tuple[Kind, IO[bytes]]]:
    """Open a file without its compression; its first bytes show its format."""
    with stored(source) as packed:
        stream = _in_utf8(_unpacked(packed))
        head = stream.peek(_HEAD)[:_HEAD]
        if _AFTER_TIME.match(head) is not None:
            kind: Kind = "json"
            stream = io.BufferedReader(_Lines(stream, _without_time), 1 << 20)
        else:
            kind = _kind(source, head)
        if source.channel:
            own = partial(_of_channel, channel=source.channel)
            stream = io.BufferedReader(_Lines(stream, own), 1 << 20)
        yield kind, stream


_AFTER_TIME = re.compile(rb"([-+\d:.TZ]{10,40}[ \t]\{|wss://\S+ <)")
"""``1772323200123456789 {"stream": ...``: a message after the time at which a collector received it.

Files of cryptofeed (2.4, sample_data) begin with the address of the connection, ``wss://... <-> TIME``, and
have the requests of the client, ``wss://... <- TIME: {...}``.
"""


def _without_time(line: bytes) -> bytes:
    """Return a message without the time before it; an empty line in place of a line of the connection."""
    if line.startswith(b"wss://"):
        return b"\n"
    if _AFTER_TIME.match(line):
        return re.split(rb"[ \t]", line, maxsplit=1)[-1]
    return line


class _Lines(io.RawIOBase):
    """A stream of messages, one per line, with each line changed by a function."""

    def __init__(self, stream: IO[bytes], change: Callable[[bytes], bytes]) -> None:
        self._stream = stream
        self._change = change
        self._left = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if not self._left:
            line = self._stream.readline()
            self._left = self._change(line) if line else b""
        size = min(len(buffer), len(self._left))
        buffer[:size] = self._left[:size]
        self._left = self._left[size:]
        return size


class Channels(NamedTuple):
    """The channels of a file, and a notice about its lines without a channel; empty without such lines."""

    sources: list[Source]
    notice: str = ""


def by_channel(source: Source) -> Channels:
    """Return a source for each channel of a file of messages, one per line; else the file itself.

    Messages of different channels have different fields, and a field may have another meaning in each.
    """
    whole = Channels([source])
    if source.path.suffix.lower() in _NOT_OF_MESSAGES or not source.path.is_file():
        return whole
    channels: dict[str, None] = {}  # without duplicates
    others: list[int] = []
    try:
        with opened(source) as (kind, stream):
            first = stream.readline(_MAX_MESSAGE) if kind == "json" else b""
            # Other files are left at their first line, so that they are not read twice.
            if len(first) == _MAX_MESSAGE or not _is_message(first):
                return whole
            for number, line in enumerate(itertools.chain([first], stream), 1):
                message = _decoded(line)
                channel = _channel_in(message)
                if channel:
                    channels[channel] = None
                elif line.strip() and not (isinstance(message, dict) and is_reply(message)):
                    others.append(number)
    except (ArchiveError, OSError, EOFError, zlib.error, lzma.LZMAError, pa.ArrowException, ValueError):
        return whole  # the reader of the format explains it
    if len(channels) < 2:
        return whole
    notice = f"{len(others)} lines without a channel are not stored, first line {others[0]}" if others else ""
    return Channels([replace(source, channel=channel) for channel in channels], notice)


_MAX_MESSAGE = 1 << 20
_NOT_OF_MESSAGES = frozenset({".csv", ".tsv", ".parquet", ".pq", ".feather", ".arrow", ".ipc"})
_CONTENTS = ("message", "msg", "raw", "payload", "data")
"""Fields under which collectors and combined streams have a message."""
_OF_CHANNELS = ("topic", "channel", "stream", "e", "ch", "feed")
"""Fields with the channel: of Bybit, Gate, combined streams and messages of Binance, HTX, and Kraken (2026).

OKX and Bitget have it in ``arg.channel``, and Deribit and Paradex in ``params.channel``.
"""
_PART_OF_NAME = re.compile(r"[A-Za-z!_-]*[a-z][A-Za-z_-]*\d*")


def _is_message(line: bytes) -> bool:
    """Return whether a line is an object or list of a stream, with its channel or the reply to a request."""
    if not line.strip():
        return True  # a line without a message, such as those of the connection
    message = _decoded(line)
    if isinstance(message, dict) and (
        {"jsonrpc", "event", "op", "success"} & message.keys() or is_reply(message)
    ):
        return True
    return bool(_channel_in(message))


def channel_of(line: bytes) -> str:
    """Return the channel of a message without the names of markets; empty for other lines and replies.

    ``tickers.BTCUSDT`` is ``tickers``, and ``btcusdt@markPrice@1s`` is ``markPrice``.
    """
    return _channel_in(_decoded(line))


def _decoded(line: bytes) -> Any:
    """Return the JSON of a line; None for other text."""
    try:
        return msgspec.json.decode(line)
    except (msgspec.DecodeError, RecursionError):
        return None


def _channel_in(message: Any) -> str:
    if isinstance(message, list):
        return _channel_in(message[0]) if message else ""
    if isinstance(message, str) and message[:1] in ("{", "["):
        return channel_of(message.encode())
    if not isinstance(message, dict):
        return ""
    # A reply to a subscription has its channel too, but no content.
    has_content = "e" in message or any(
        isinstance(value, list | dict) and value for value in message.values()
    )
    if not has_content:
        return _channel_of_content(message)
    name = _stated_channel(message.get("arg")) or _stated_channel(message.get("params"))
    return name or _stated_channel(message) or _channel_of_content(message)


def _channel_of_content(message: dict[str, Any]) -> str:
    """Return the channel of the message in the envelope of a collector; empty without one."""
    name = next((name for name in _CONTENTS if name in message), "")
    return _channel_in(message[name]) if name else ""


def _stated_channel(fields: Any) -> str:
    """Return the channel that is a field of an object; empty for another value."""
    if not isinstance(fields, dict):
        return ""
    for name in _OF_CHANNELS:
        word = fields.get(name)
        if isinstance(word, str) and word:
            return _plain_channel(word)
    return ""


def _plain_channel(name: str) -> str:
    """Return the words of a channel that are not names of markets or steps."""
    _, at, words = name.partition("@")
    parts = re.split(r"[.:/@]", words if at and not name.startswith("!") else name)
    plain = [part for part in parts if _PART_OF_NAME.fullmatch(part)]
    return ".".join(plain) or name


def _of_channel(line: bytes, channel: str) -> bytes:
    """Return the line if its message is of the channel, else an empty line, which keeps line numbers."""
    return line if channel_of(line) == channel else b"\n"


def _unpacked(stream: io.BufferedReader) -> io.BufferedReader:
    """Return a decompressed stream, by its first bytes."""
    for _ in range(_DEPTH):
        codec = _codec(stream.peek(_HEAD))
        if codec is None:
            break
        stream = _decompressed(stream, codec)
    return stream


def _codec(head: bytes) -> str | None:
    """Return the compression of a file by its first bytes; None for a file without one."""
    for magic, codec in _CODECS.items():
        if head.startswith(magic):
            return codec
    return None


def _in_utf8(stream: io.BufferedReader) -> io.BufferedReader:
    """Return a stream of text in UTF-8; other data as it is."""
    head = stream.peek(_HEAD)[:_HEAD]
    if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        encoding: str | None = "utf-16"
    else:
        encoding = _encoding(head)
    if encoding is None:
        return stream
    return io.BufferedReader(_Utf8(stream, encoding), 1 << 20)


_ENCODINGS = ("cp1252", "cp1250", "cp1251", "gb18030", "cp932", "cp949", "cp1254")
"""Encodings in which Excel saves CSV: of Western and Central Europe, Russia, China, Japan, Korea, Turkey."""


def _encoding(head: bytes) -> str | None:
    """Return the encoding in which most header names are recognised; None for UTF-8 or others."""
    header, is_whole, _ = head.partition(b"\n")
    if not is_whole or b"\0" in head or header.isascii() or _is_utf8(header):
        return None
    best = max(_ENCODINGS, key=lambda encoding: _meaningful_names(header, encoding))
    if _meaningful_names(header, best) < _MIN_NAMES:
        return None
    return best


_MIN_NAMES = 2


def _is_utf8(text: bytes) -> bool:
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True


def _meaningful_names(header: bytes, encoding: str) -> int:
    """Return the number of header names that are recognised in an encoding."""
    try:
        text = header.decode(encoding)
    except UnicodeDecodeError:
        return 0
    names = [name.strip('" \r') for name in re.split(r"[,;\t|]", text)]
    return sum(meaning_of(name) is not None for name in names)


class _Utf8(io.RawIOBase):
    """A stream of text in another encoding, such as UTF-16 ("Unicode text" of Excel), in UTF-8."""

    def __init__(self, stream: IO[bytes], encoding: str) -> None:
        self._stream = stream
        self._decoder = codecs.getincrementaldecoder(encoding)()
        self._left = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._left:
            block = self._stream.read(1 << 16)
            if not block:
                break
            self._left = self._decoder.decode(block).encode()
        size = min(len(buffer), len(self._left))
        buffer[:size] = self._left[:size]
        self._left = self._left[size:]
        return size


@contextmanager
def stored(source: Source) -> Iterator[io.BufferedReader]:
    """Open the bytes of a file as they are stored."""
    if not source.member:
        with source.path.open("rb") as file:
            yield file
        return
    if not zipfile.is_zipfile(source.path):
        with source.path.open("rb") as file, _tar(file) as tar:
            item = next(item for item in tar if item.name == source.member)
            content = tar.extractfile(item)
            if content is None:
                raise ArchiveError(f"{source}: expected a file")
            yield io.BufferedReader(content, 1 << 20)  # type: ignore[arg-type]
        return
    with zipfile.ZipFile(source.path) as archive, archive.open(source.member) as member:
        yield io.BufferedReader(member, 1 << 20)  # type: ignore[arg-type]


def _decompressed(stream: io.BufferedReader, codec: str) -> io.BufferedReader:
    """Return a stream without its outer compression."""
    packed: Any
    if codec == "gz":
        packed = gzip.GzipFile(fileobj=stream)
    elif codec == "bz2":
        packed = bz2.BZ2File(stream)
    elif codec == "xz":
        packed = lzma.LZMAFile(stream)  # noqa: SIM115
    else:
        packed = pa.CompressedInputStream(pa.PythonFile(stream, mode="r"), codec)
    return io.BufferedReader(packed, 1 << 20)


def _kind(source: Source, head: bytes) -> Kind:
    """Return the format of a file by its first bytes; raise for one that is not read."""
    for magic, kind in _BINARY.items():
        if head.startswith(magic):
            return kind
    text = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    if _JSON.match(text) is not None:
        return "json"
    if head.startswith(b"SQLite format 3"):
        raise ArchiveError(
            f'{source}: is a SQLite database: write each table into a file: python -c "import pandas, '
            "sqlite3; pandas.read_sql('SELECT * FROM TABLE', sqlite3.connect('FILE.db')).to_csv('TABLE.csv', "
            'index=False)"'
        )
    if b"\0" in head:
        raise ArchiveError(
            f"{source}: the file is not CSV, JSON, Parquet or Feather: export it to one of these "
            "formats, for example with pandas"
        )
    if not text:
        raise ArchiveError(f"{source}: the file is empty")
    if _MARKUP.match(text) is not None:
        raise ArchiveError(
            f"{source}: the file is HTML or XML, such as an error page of a server: download it again, "
            "or save it as CSV"
        )
    return "csv"
