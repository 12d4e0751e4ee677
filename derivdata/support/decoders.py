"""Decoders of JSON by type, each built once and by one thread at a time.

msgspec describes a struct in steps when it first meets it. A second thread that decodes the same struct
before the last step reads what is not there yet, and the process dies; so no function calls
``msgspec.json.decode`` with a struct, and no fork happens while a decoder is being built.
"""

from __future__ import annotations

import threading
from typing import Any, TypeVar, overload

import msgspec

from derivdata.support.forking import renew_in_child

__all__ = ["decoder"]

T = TypeVar("T")


class _Decoders:
    def __init__(self) -> None:
        self._fork_lock = threading.Lock()
        self._built: dict[Any, msgspec.json.Decoder[Any]] = {}
        renew_in_child(self)

    def _after_fork(self) -> None:
        self._fork_lock = threading.Lock()

    def of(self, kind: Any) -> msgspec.json.Decoder[Any]:
        if kind not in self._built:
            with self._fork_lock:
                if kind not in self._built:
                    self._built[kind] = msgspec.json.Decoder(kind)
        return self._built[kind]


_DECODERS = _Decoders()


@overload
def decoder(kind: type[T]) -> msgspec.json.Decoder[T]: ...
@overload
def decoder(kind: Any) -> msgspec.json.Decoder[Any]: ...
def decoder(kind: Any) -> msgspec.json.Decoder[Any]:
    """Return the decoder of a type: a struct, a union, a list of structs."""
    return _DECODERS.of(kind)
