"""An answer as bytes, whoever gave it, and the two seams that recording and replay hang on."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

import pandas as pd

from derivdata.api import Request

__all__ = [
    "DIGEST_HEADER",
    "Observer",
    "Reply",
    "Responder",
    "Served",
    "observed",
    "replaying",
    "responder",
    "set_observer",
    "set_responder",
]


DIGEST_HEADER = "X-Body-Sha256"
"""Under which a whole body's hash comes up with it and goes into the cache, so that it is taken once."""


class Reply(NamedTuple):
    """What came for a request, from the cache or the network."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    from_cache: bool


@dataclass(frozen=True)
class Served:
    """One HTTP answer, of any status.

    Attributes
    ----------
    headers
        Those that matter, by their usual spelling; never one of the request.
    as_of
        The server's ``Date``; NaT where an error came without.
    source, synthetic
        Who answered, and whether the data was made up.
    attribution
        The text that the API's terms ask for where the data is shown, or empty.
    digest
        The body's hash where it is known already.
    """

    request: Request
    status: int
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(repr=False)
    as_of: pd.Timestamp
    source: str
    synthetic: bool
    attribution: str = ""
    digest: str = field(default="", compare=False, repr=False)

    @property
    def sha256(self) -> str:
        """Hash of the body, in hexadecimal."""
        return self.digest or hashlib.sha256(self.body).hexdigest()


Observer: TypeAlias = Callable[[Served], None]
Responder: TypeAlias = Callable[[Request], Served]

_observer: Observer | None = None
_responder: Responder | None = None


def set_observer(observer: Observer | None) -> Observer | None:
    """Set who is shown every answer, those from the cache too; return who was before."""
    global _observer
    before, _observer = _observer, observer
    return before


def set_responder(new: Responder | None) -> Responder | None:
    """Set who answers instead of connection, cache and network; return who did before."""
    global _responder
    before, _responder = _responder, new
    return before


def replaying() -> bool:
    """Whether somebody answers instead of the connection."""
    return _responder is not None


def responder() -> Responder | None:
    """Who answers instead of the connection, if anybody."""
    return _responder


def observed(served: Served) -> Served:
    """The answer, after the observer has seen it."""
    if _observer is not None:
        _observer(served)
    return served
