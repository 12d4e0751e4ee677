"""Forks and threads: locks, sockets and files that a child renews, decoders, and work in a daemon thread.

A fork copies the memory, but only one thread. A lock that another thread has acquired remains locked in the
child, and parent and child share sockets and files. Objects with locks, sockets or files register here. Their
lock is acquired while the process forks, so that they are not in the middle of a change, and in the child
each object replaces its own.

msgspec describes a struct in steps when it first decodes it. If a second thread decodes the same struct
before the last step, it reads incomplete data, and the process crashes. So functions do not call
``msgspec.json.decode`` with a struct, and the process does not fork while a decoder is being built.

Requests run in a worker thread. An interrupt in a notebook then reaches the thread that waits here on a
queue, and never a thread that has locked a connection pool. The request continues, and its response is in the
cache when the cell runs again.
"""

from __future__ import annotations

import importlib
import os
import queue
import threading
import weakref
from collections.abc import Callable
from types import ModuleType
from typing import Any, Protocol, TypeVar

import msgspec

_PATIENCE_SECONDS = 5.0
_objects: list[weakref.ref[Forkable]] = []  # weak, so that registration does not keep objects alive
_acquired: list[threading.Lock | threading.RLock] = []


class Forkable(Protocol):
    """An object that changes under a lock, and can be renewed in a forked child."""

    @property
    def _fork_lock(self) -> threading.Lock | threading.RLock:
        """Return the lock under which the object changes."""

    def _after_fork(self) -> None:
        """Replace lock, sockets and files by new ones; called in the child only."""


def renew_in_child(forkable: Forkable) -> None:
    """Acquire the object's lock during every fork, and call its `_after_fork` in the child."""
    _objects.append(weakref.ref(forkable, _objects.remove))


class _Imports:
    """Lock for imports: a module that another thread imports during a fork stays locked in the child."""

    def __init__(self) -> None:
        self._after_fork()

    def _after_fork(self) -> None:
        self._fork_lock = threading.RLock()  # reentrant, because a module imports others


_IMPORTS = _Imports()
renew_in_child(_IMPORTS)


def import_unforked(name: str) -> ModuleType:
    """Return a module, imported while no thread forks."""
    # With a timeout: the thread with the lock may wait for a module that this thread is importing itself.
    lock = _IMPORTS._fork_lock
    acquired = lock.acquire(timeout=_PATIENCE_SECONDS)
    try:
        return importlib.import_module(name)
    finally:
        if acquired:
            lock.release()


def _alive() -> list[Forkable]:
    """Return the registered objects, newest first: a recording acquires its connection's lock in its own."""
    objects = [reference() for reference in reversed(_objects)]
    return [forkable for forkable in objects if forkable is not None]


def _before() -> None:
    # A forking thread acquires many locks. Other threads acquire any two of them in the same order, newest
    # object first, so that two threads do not wait for each other.
    for forkable in _alive():
        lock = forkable._fork_lock
        if lock.acquire(timeout=_PATIENCE_SECONDS):  # the forking thread may have acquired it itself
            _acquired.append(lock)


def _in_parent() -> None:
    while _acquired:
        _acquired.pop().release()


def _in_child() -> None:
    # The copied locks are locked, some by threads that the child does not have, so objects get new ones.
    _acquired.clear()
    for forkable in _alive():
        forkable._after_fork()


# The function registered last is called first. concurrent.futures and logging, which it imports, acquire
# their locks when the process forks. An importing thread needs these locks. If they were acquired before
# `_before` waits for that thread, both would wait for each other, so they must be registered first.
importlib.import_module("concurrent.futures.thread")
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before, after_in_parent=_in_parent, after_in_child=_in_child)


class _Decoders(dict[Any, msgspec.json.Decoder[Any]]):
    """Decoders by type, made when first used, under a lock."""

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


T = TypeVar("T")


class TookTooLong(Exception):
    """The work was not done in time. It continues in its thread."""


def started(work: Callable[[], T]) -> Callable[[float], T]:
    """Start `work` in a daemon thread. Return a function that waits at most so many seconds for its result.

    That function raises `TookTooLong` at the timeout, and any exception of `work`.
    """
    outcomes: queue.SimpleQueue[tuple[T, None] | tuple[None, BaseException]] = queue.SimpleQueue()

    def run() -> None:
        try:
            outcomes.put((work(), None))
        except BaseException as error:  # pass on any error: else the caller would wait until its timeout
            # Drop context and traceback: their frames contain the request with the key.
            error.__context__ = error.__cause__ = None
            outcomes.put((None, error.with_traceback(None)))

    def result(seconds: float) -> T:
        try:
            result, error = outcomes.get(timeout=seconds)
        except queue.Empty:
            raise TookTooLong from None
        if error is not None:
            raise error from None
        return result  # type: ignore[return-value]

    thread = threading.Thread(target=run, name="derivdata-request", daemon=True)
    try:
        thread.start()
    except RuntimeError as error:
        # start() waits on a Condition. An interrupt that arrives just after the Condition released its lock
        # makes CPython release the lock twice and raise this error instead of the interrupt.
        if isinstance(error.__context__, KeyboardInterrupt):
            raise error.__context__ from None
        raise
    return result
