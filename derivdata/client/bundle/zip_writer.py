"""Zip files written member by member, the same bytes for the same members whenever and wherever.

The standard library's writer cannot copy a member that is already compressed, which is what makes it cheap
to publish a recording again with every answer. Dates are the format's zero (1980), modes 0644.
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass
from typing import IO, NamedTuple

__all__ = ["Member", "Packed", "Zip", "pack"]

# Fields of APPNOTE.TXT 4.4. There is no Zip64 here: struct.pack fails beyond 4 GiB or 65,535 members.
_VERSION = 20  # 2.0, needed for deflate
_UNIX = 3 << 8  # made by: the high byte is the system whose modes `_MODE` has
_UTF8 = 1 << 11  # flag: names are UTF-8
_DEFLATED = 8
_TIME, _DATE = 0, 0x21  # 1980-01-01: (year − 1980) << 9 | month << 5 | day
_MODE = 0o100644 << 16  # the high half of the external attributes is a regular file's st_mode
_CHUNK = 1 << 20


class Packed(NamedTuple):
    """A body ready to be written."""

    data: bytes
    crc: int
    size: int


@dataclass(frozen=True)
class Member:
    """A member: the place of its compressed bytes in the file, and its entry in the directory."""

    name: str
    start: int
    packed_size: int
    crc: int
    size: int
    offset: int


def pack(data: bytes) -> Packed:
    """Return a body, deflated."""
    squeezer = zlib.compressobj(6, zlib.DEFLATED, -15)  # negative: zip has no zlib header around the data
    return Packed(squeezer.compress(data) + squeezer.flush(), zlib.crc32(data), len(data))


class Zip:
    """A zip file that is being written to a stream."""

    def __init__(self, out: IO[bytes]) -> None:
        self._out = out
        self.members: dict[str, Member] = {}

    def add(self, name: str, body: Packed) -> None:
        """Write a new member."""
        self._head(name, body.crc, len(body.data), body.size)
        self._out.write(body.data)

    def copy(self, member: Member, source: IO[bytes]) -> None:
        """Write a member of another file as it is there."""
        self._head(member.name, member.crc, member.packed_size, member.size)
        source.seek(member.start)
        for left in range(member.packed_size, 0, -_CHUNK):
            self._out.write(source.read(min(left, _CHUNK)))

    def finish(self) -> None:
        """Write the directory, by which readers find the members.

        Counts have 16 bits and places 32: a bundle stays below both (`layout.MEMBERS`, `layout.TOTAL_BYTES`),
        so that there is no need for Zip64 records.
        """
        start = self._out.tell()
        for member in self.members.values():
            self._out.write(_central(member))
        count, size = len(self.members), self._out.tell() - start
        # This disk, the directory's disk, members here and in all, its size and place, no comment.
        self._out.write(struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, count, count, size, start, 0))

    def _head(self, name: str, crc: int, packed_size: int, size: int) -> None:
        offset, text = self._out.tell(), name.encode()
        shared = (_VERSION, _UTF8, _DEFLATED, _TIME, _DATE, crc, packed_size, size, len(text))
        # Sizes and checksum stand before the data, and in no descriptor after it: they are known by now.
        self._out.write(struct.pack("<4s5H3L2H", b"PK\3\4", *shared, 0) + text)
        self.members[name] = Member(name, self._out.tell(), packed_size, crc, size, offset)


def _central(member: Member) -> bytes:
    text = member.name.encode()
    shared = (
        _VERSION,
        _UTF8,
        _DEFLATED,
        _TIME,
        _DATE,
        member.crc,
        member.packed_size,
        member.size,
        len(text),
    )
    # No extra field, no comment, disk 0, internal attributes 0, then mode and place of the member's head.
    return (
        struct.pack("<4s6H3L5H2L", b"PK\1\2", _UNIX | _VERSION, *shared, 0, 0, 0, 0, _MODE, member.offset)
        + text
    )
