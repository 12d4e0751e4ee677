"""Bundles of recorded responses: a manifest, a list of responses, and each distinct body once, by hash.

::

    manifest.json      versions, platform, source and clock of the recording
    answers.json       one entry per response, sorted by request; a request's responses in order of arrival
    bodies/<sha256>    the raw bodies

During the recording the file is a journal (see `files`), which can be read like a bundle.
"""

from __future__ import annotations

import ctypes
import importlib.util
import platform
import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import unquote

import msgspec
import pandas as pd

from derivdata.client.transport import Response
from derivdata.errors import BundleError
from derivdata.support import times
from derivdata.support.forking import DECODERS
from derivdata.tables.endpoints import Request

T = TypeVar("T")

FORMAT = "derivdata-bundle"
MANIFEST = "manifest.json"
ANSWERS = "answers.json"
BODY = re.compile(r"bodies/([0-9a-f]{64})")

BODY_BYTES = 64 * 2**20
LIST_BYTES = 256 * 2**20
TOTAL_BYTES = 4 * 2**30 - 1
MEMBERS = 65_000


class BundleManifest(msgspec.Struct, kw_only=True):
    """The manifest: source, clock and versions of a recording.

    The versions, including the BLAS kernel, affect only the last bits of a result.
    """

    format: str
    version: int  # version of the file layout
    asof: str | None  # the recording's clock, ISO text; None if the time was never read
    source: str
    synthetic: bool
    attribution: str  # required by the API's terms
    about: dict[str, Any] = {}  # notes of the user who recorded, such as the arguments of a report
    answers: int
    answers_sha256: str  # SHA-256 of the list of entries
    python: str
    platform: str
    versions: dict[str, str]


class Entry(msgspec.Struct, kw_only=True, frozen=True):
    """A response without its body."""

    method: str
    path: str
    query: list[tuple[str, str]]
    status: int
    headers: dict[str, str]
    date: str | None  # the server's ``Date``, ISO text; None for an error without one
    received: str | None  # when the body arrived, by the server's clock: ``Date`` plus ``Age``
    sha256: str
    bytes: int
    source: str
    synthetic: bool
    attribution: str


def described(manifest: BundleManifest, entries: Sequence[Entry], answers_sha256: str) -> BundleManifest:
    """Return the manifest with source, attribution, number and hash of the responses."""
    return msgspec.structs.replace(
        manifest,
        source=", ".join(sorted({e.source for e in entries})),
        synthetic=any(e.synthetic for e in entries),
        attribution="; ".join(sorted({e.attribution for e in entries if e.attribution})),
        answers=len(entries),
        answers_sha256=answers_sha256,
    )


def decoded(text: bytes, into: type[T], what: str) -> T:
    """Decode JSON of a bundle as `into`. `what` names its place in the bundle, for errors."""
    try:
        value: T = DECODERS[into].decode(text)
        return value
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise unusable(f"{what} cannot be read", str(error)) from None


def unusable(what: object, why: str) -> BundleError:
    """Return the error of a damaged or malicious bundle; `what` begins with its path."""
    return BundleError(f"{what}: {why}; use another copy of the file, or record it again")


def body_name(sha256: str) -> str:
    """Return a body's name in the file."""
    return f"bodies/{sha256}"


def request_of(entry: Entry) -> Request:
    """Return the request of an entry."""
    return Request(entry.path, tuple(entry.query))


def entry_of(response: Response) -> Entry:
    """Return the entry of a response."""
    dated = response.as_of is not pd.NaT
    header = response.headers.get("Age", "0")
    age = pd.Timedelta(int(header) if header.isdecimal() and len(header) < 9 else 0, "s")
    return Entry(
        method="GET",
        path=response.request.path,
        query=list(response.request.query),
        status=response.status,
        headers=dict(sorted(response.headers.items())),
        date=times.iso(response.as_of) if dated else None,
        received=times.iso(response.as_of + age) if dated else None,
        sha256=response.sha256,
        bytes=len(response.body),
        source=response.source,
        synthetic=response.synthetic,
        attribution=response.attribution,
    )


def response_of(entry: Entry, body: bytes) -> Response:
    """Return the response of an entry."""
    return Response(
        request=request_of(entry),
        status=entry.status,
        headers=dict(entry.headers),
        body=body,
        as_of=pd.NaT if entry.date is None else times.timestamp(entry.date, "date"),
        source=entry.source,
        synthetic=entry.synthetic,
        attribution=entry.attribution,
        sha256=entry.sha256,
    )


def entry_text(entry: Entry) -> bytes:
    """Return the text of an entry, with and without decoded escapes, to search it for an API key."""
    request = str(request_of(entry))
    return msgspec.json.encode(entry) + f"\n{request}\n{unquote(request)}".encode()


_NUMERIC = ("derivdata", "matplotlib", "msgspec", "numpy", "pandas", "pyarrow", "requests", "scipy", "xarray")


def versions() -> dict[str, str]:
    """Return the versions of this library and of its numeric dependencies, and the BLAS kernel."""
    by_name: dict[str, str] = {}
    for name in _NUMERIC:
        try:
            by_name[name] = version(name)
        except PackageNotFoundError:
            by_name[name] = "absent"
    by_name["BLAS kernel"] = blas()
    return by_name


@lru_cache(maxsize=1)
def blas() -> str:
    """Return the BLAS kernel in use, on which the last bits of a fit depend, such as ``"OpenBLAS Haswell"``.

    OpenBLAS selects a kernel for the processor when it is loaded, so that results of the same versions on the
    same platform may differ. Other libraries give ``"unknown"``.
    """
    for library in _openblas_libraries():
        if name := _core_name(library):
            return f"OpenBLAS {name}"
    return "unknown"


def _openblas_libraries() -> Iterator[Path]:
    """Yield the OpenBLAS libraries in the wheels of numpy and scipy."""
    for package in ("numpy", "scipy"):
        spec = importlib.util.find_spec(package)
        if spec is None:
            continue
        for root in spec.submodule_search_locations or ():
            for folder in (Path(root).parent / f"{package}.libs", Path(root) / ".dylibs"):
                yield from sorted(folder.glob("*openblas*"))


def _core_name(library: Path) -> str | None:
    """Return the kernel name that an OpenBLAS library reports; None if it has no such function."""
    try:
        loaded = ctypes.CDLL(str(library))
    except OSError:
        return None
    for prefix in ("scipy_", ""):
        for suffix in ("64_", ""):
            function = getattr(loaded, f"{prefix}openblas_get_corename{suffix}", None)
            if function is not None:
                function.restype = ctypes.c_char_p
                return str(function().decode("ascii", "replace"))
    return None


def system() -> str:
    """Return operating system and processor."""
    return f"{platform.system()} {platform.machine()}"


def differences(manifest: BundleManifest) -> tuple[str, ...]:
    """Return the versions that differ from the recording's, such as ``"numpy 2.4.1 then, 2.5.0 now"``."""
    then = {"platform": manifest.platform, "python": manifest.python, **manifest.versions}
    now = {"platform": system(), "python": platform.python_version(), **versions()}
    names = sorted({*then, *now})
    return tuple(
        f"{name} {then.get(name, 'absent')} then, {now.get(name, 'absent')} now"
        for name in names
        if then.get(name) != now.get(name)
    )
