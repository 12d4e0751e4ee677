"""Locks, sockets and files that a forked child renews, and decoders that one thread makes at a time.

A fork copies the memory of one thread. A lock that another thread holds stays locked in the child, and a
socket or a file is the same one in both. Objects that have such things register here: their lock is held
while the process forks, so that none of them is half-way through a change, and in the child each replaces
its own.

msgspec describes a struct in steps when it first meets it. A second thread that decodes the same struct
before the last step reads incomplete data, and the process dies. So no function calls ``msgspec.json.decode``
with a struct, and no fork happens while a decoder is being built.
"""

from __future__ import annotations

import importlib
import os
import threading
import weakref
from types import ModuleType
from typing import Any, Protocol

import msgspec

_PATIENCE_SECONDS = 5.0
_objects: list[weakref.ref[Forkable]] = []  # weak: what is registered here must not live longer for it
_acquired: list[threading.Lock | threading.RLock] = []


class Forkable(Protocol):
    """An object that holds a lock while it changes, and can start over in a child."""

    @property
    def _fork_lock(self) -> threading.Lock | threading.RLock:
        """The lock under which the object changes."""

    def _after_fork(self) -> None:
        """Replace lock, sockets and files by new ones; called in the child only."""


def renew_in_child(one: Forkable) -> None:
    """Hold the object's lock across every fork, and have a child call its `_after_fork`."""
    _objects.append(weakref.ref(one, _objects.remove))


class _Imports:
    """Modules that are being imported: in a child, one that another thread was importing stays locked."""

    def __init__(self) -> None:
        self._after_fork()

    def _after_fork(self) -> None:
        self._fork_lock = threading.RLock()  # a module that is imported imports others


_IMPORTS = _Imports()
renew_in_child(_IMPORTS)


def import_unforked(name: str) -> ModuleType:
    """Return a module, imported while no thread forks."""
    # Not for good: a thread that holds the lock may wait for a module which this one imports by its own name.
    lock = _IMPORTS._fork_lock
    acquired = lock.acquire(timeout=_PATIENCE_SECONDS)
    try:
        return importlib.import_module(name)
    finally:
        if acquired:
            lock.release()


def _alive() -> list[Forkable]:
    """Return the registered objects, the newest first: a recording takes its connection's lock in its own."""
    return [one for reference in reversed(_objects) if (one := reference()) is not None]


def _before() -> None:
    # A forking thread takes many locks. Every other thread that takes two of them takes them in the same
    # order, newest object first, so that no two threads wait for each other.
    for one in _alive():
        lock = one._fork_lock
        if lock.acquire(timeout=_PATIENCE_SECONDS):  # never for good: the forking thread may hold it itself
            _acquired.append(lock)


def _in_parent() -> None:
    while _acquired:
        _acquired.pop().release()


def _in_child() -> None:
    # The copied locks are locked, some by threads that the child does not have: objects get new ones.
    _acquired.clear()
    for one in _alive():
        one._after_fork()


# What registers last is called first, and this module and logging, which it imports, hold their locks while
# the process forks. A thread that imports needs those: taken before `_before` waits for it, both would wait.
importlib.import_module("concurrent.futures.thread")
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before, after_in_parent=_in_parent, after_in_child=_in_child)


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
