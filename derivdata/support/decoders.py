"""Decoders of JSON by type, each built once and by one thread at a time.

msgspec describes a struct in steps when it first meets it. A second thread that decodes the same struct
before the last step reads what is not there yet, and the process dies; so no function calls
``msgspec.json.decode`` with a struct, and no fork happens while a decoder is being built.
"""

from __future__ import annotations

import threading
from typing import Any

import msgspec

from derivdata.support.forking import renew_in_child


class _Decoders(dict[Any, msgspec.json.Decoder[Any]]):
    def __init__(self) -> None:
        self._fork_lock = threading.Lock()
        renew_in_child(self)

    def _after_fork(self) -> None:
        self._fork_lock = threading.Lock()

    def __missing__(self, kind: Any) -> msgspec.json.Decoder[Any]:
        with self._fork_lock:
            if kind not in self:
                self[kind] = msgspec.json.Decoder(kind)
            return self[kind]


DECODERS = _Decoders()
"""The decoder of a type: a struct, a union, a list of structs."""
