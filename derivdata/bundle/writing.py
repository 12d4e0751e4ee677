"""A bundle on disk that grows answer by answer and is whole at every moment."""

from __future__ import annotations

import glob
import hashlib
import os
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

import msgspec

from derivdata.api import Request
from derivdata.bundle.environment import python, system, versions
from derivdata.bundle.layout import (
    ANSWERS,
    FORMAT,
    MANIFEST,
    MEMBERS,
    TOTAL_BYTES,
    Entry,
    Manifest,
    body_name,
    request_of,
)
from derivdata.bundle.zip_writer import Member, Packed, Zip, pack
from derivdata.errors import BundleError

__all__ = ["Writer"]


class Writer:
    """The file of a recording.

    Every change writes the file anew beside it and then takes its place, so that a reader, or who comes
    after a crash, sees all of it or the state before. Members are sorted: two recordings of the same
    answers are the same bytes, in whatever order they came.
    """

    def __init__(self, path: Path, about: dict[str, Any]) -> None:
        self.path = path
        self._about = about
        self.asof: str | None = None
        self._answers: dict[Request, list[Entry]] = {}
        self._repeats: dict[Request, int] = {}
        self._members: dict[str, Member] = {}
        self._versions = versions()

    def sweep(self) -> None:
        """Remove what a killed recording of this path left beside it."""
        for stray in self.path.parent.glob(f".{glob.escape(self.path.name)}.*.tmp"):
            with suppress(OSError):
                stray.unlink()

    def __len__(self) -> int:
        return sum(map(len, self._answers.values()))

    def add(self, entry: Entry, body: bytes) -> None:
        """Take an answer in, and publish; the last one of its request again is only counted.

        Raises
        ------
        BundleError
            The file cannot be written, or would be too large; it is then as it was.
        """
        request = request_of(entry)
        before = self._answers.get(request, [])
        if before and before[-1] == entry:
            self._repeats[request] = self._repeats.get(request, 0) + 1
            return
        again = before[-1:] * self._repeats.get(request, 0)
        answers = {**self._answers, request: [*before, *again, entry]}
        name = body_name(entry.sha256)
        new = {} if name in self._members else {name: pack(body)}
        self._publish(answers, new)
        self._repeats[request] = 0

    def publish(self) -> None:
        """Write the file as it is now.

        Raises
        ------
        BundleError
            It cannot be written.
        """
        self._publish(self._answers, {})

    def _publish(self, answers: dict[Request, list[Entry]], new: dict[str, Packed]) -> None:
        listed = [entry for request in sorted(answers) for entry in answers[request]]
        size = sum(m.packed_size for m in self._members.values()) + sum(len(p.data) for p in new.values())
        if len(self._members) + len(new) > MEMBERS or size > TOTAL_BYTES - 2**28:
            raise BundleError(f"{self.path}: the recording is full: begin another one")
        beside = self.path.with_name(f".{self.path.name}.{os.getpid()}.tmp")
        try:
            with beside.open("wb") as out:
                members = self._write(Zip(out), listed, new)
            beside.replace(self.path)
        except OSError as error:
            raise BundleError(f"{self.path}: cannot be written: {error.strerror or error}") from None
        finally:
            with suppress(OSError):
                beside.unlink(missing_ok=True)
        self._answers, self._members = answers, members

    def _write(self, out: Zip, listed: list[Entry], new: dict[str, Packed]) -> dict[str, Member]:
        text = msgspec.json.format(msgspec.json.encode(listed), indent=1)
        out.add(MANIFEST, pack(_pretty(self._manifest(listed, text))))
        out.add(ANSWERS, pack(text))
        if self._members:
            with self.path.open("rb") as old:
                self._bodies(out, new, old)
        else:
            self._bodies(out, new, None)
        out.finish()
        return {name: m for name, m in out.members.items() if name not in (MANIFEST, ANSWERS)}

    def _bodies(self, out: Zip, new: dict[str, Packed], old: IO[bytes] | None) -> None:
        for name in sorted({*self._members, *new}):
            if name in new:
                out.add(name, new[name])
            elif old is not None:
                out.copy(self._members[name], old)

    def _manifest(self, listed: list[Entry], text: bytes) -> Manifest:
        return Manifest(
            format=FORMAT,
            version=1,
            asof=self.asof,
            source=", ".join(sorted({e.source for e in listed})),
            synthetic=any(e.synthetic for e in listed),
            attribution="; ".join(sorted({e.attribution for e in listed if e.attribution})),
            about=self._about,
            answers=len(listed),
            answers_sha256=hashlib.sha256(text).hexdigest(),
            python=python(),
            platform=system(),
            versions=self._versions,
        )


def _pretty(value: Any) -> bytes:
    return msgspec.json.format(msgspec.json.encode(value), indent=1)
