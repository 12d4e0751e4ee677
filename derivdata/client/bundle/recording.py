"""`record`: every answer that is served, from the network or the cache, goes into a bundle too."""

from __future__ import annotations

import atexit
import json
import threading
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

import pandas as pd

from derivdata.client.bundle.layout import entry_of, spoken
from derivdata.client.bundle.reading import Bundle
from derivdata.client.bundle.writing import ChildWriter, Writer
from derivdata.client.transport import SESSION, Response
from derivdata.client.transport.session import Parts
from derivdata.errors import BundleError, NotConnected
from derivdata.support import times
from derivdata.support.arguments import typed
from derivdata.support.forking import renew_in_child
from derivdata.support.text import warn_caller

_current: Recording | None = None


class Recording:
    """A recording under way; ends with `close`, with its ``with`` block, or with ``dd.disconnect()``.

    Attributes
    ----------
    path
        The bundle; it can be read at every moment, also after the process was killed.
    """

    def __init__(self, path: Path, about: dict[str, Any]) -> None:
        self.path = path
        self._writer = Writer(path, about)
        self._is_child = False
        self._fork_lock = threading.Lock()
        self._asof: pd.Timestamp | None = None
        self._open = True
        self._clock_before = SESSION.clock
        self._before: Parts = {}
        renew_in_child(self)

    def close(self) -> None:
        """End the recording; a second time does nothing."""
        try:
            self._end()
        except BaseException:
            self._end()  # the rest, where an interrupt came in between
            raise

    def _end(self) -> None:
        if not self._open:
            return
        SESSION.install(**self._before)
        try:
            self._writer.finish()
        except Exception:
            self._leave()
            raise
        self._leave()

    def _leave(self) -> None:
        global _current
        _current = None
        atexit.unregister(self.close)
        if self.close in SESSION.closers:
            SESSION.closers.remove(self.close)
        self._open = False

    def _after_fork(self) -> None:
        """Go on in a forked child with a journal of its own: one file would mix two writers' answers."""
        self._fork_lock = threading.Lock()
        if self._open:
            self._writer = ChildWriter(self._writer)
            self._is_child = True

    def _start(self) -> None:
        with suppress(NotConnected):  # connected later: the clock is then read with the first answer
            self._asof = self._clock_before()
            self._writer.asof = times.iso(self._asof)
        SESSION.closers.append(self.close)
        atexit.register(self.close)
        self._writer.begin()
        self._before = {"observer": SESSION.observer, "clock": SESSION.clock}
        SESSION.install(observer=self._observe, clock=self._clock)

    def _clock(self) -> pd.Timestamp:
        """Return the time when this was first asked for; it stands still from then on."""
        if self._asof is None:
            self._asof = self._clock_before()
            self._writer.asof = times.iso(self._asof)
            self._writer.note()
        return self._asof

    def _observe(self, response: Response) -> None:
        if SESSION.holds_key(spoken(entry_of(response))) or SESSION.holds_key(response.body):
            raise BundleError(
                f"{self.path}: the response to {response.request.path} has the API key and is not recorded; "
                "end the recording with dd.disconnect() to go on without it"
            )
        if self._is_child and not self._writer.is_in_place():
            self.close()
            warn_caller(
                f"{self.path}: the recording ended in the process that this one was forked from: the "
                f"response to {response.request.path} and later ones are not recorded; end the pool before "
                "the recording"
            )
            return
        with self._fork_lock:
            self._clock()
            self._writer.add(entry_of(response), response.body)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        state = "under way" if self._open else "ended"
        asof = "not read yet" if self._asof is None else times.iso(self._asof)
        return f"Recording({str(self.path)!r}, {state}: {len(self._writer)} answers, clock {asof})"


@typed
def record(path: str | Path, *, about: Mapping[str, Any] | None = None) -> Recording:
    """Record every answer from here on into a bundle, until `Recording.close` or ``dd.disconnect()``.

    ::

        with dd.record("carry.ddz"):
            rates = dd.funding.history("BTC", "30d")

    or, in a cell of its own, ``recording = dd.record("carry.ddz")``. `derivdata.asof` is read once and stands
    still. Answers that come from the cache are recorded like others, errors of the service too.

    Parameters
    ----------
    path
        The bundle, by custom ``.ddz``. A bundle that is there is replaced.
    about
        Anything that JSON can say, kept in the manifest and given back as `Replay.about`.

    Raises
    ------
    ValueError, TypeError
        The path is an existing file that is not a bundle, or `about` holds the API key or a value that
        JSON does not have.
    BundleError
        The file cannot be written; later, from a fetch: the same, or its answer holds the API key.
    NotCached, NetworkError
        The connection cannot tell the time.

    Notes
    -----
    Forked children (``multiprocessing`` with ``fork``, `os.fork`) record too; their responses are in the
    bundle when the recording ends in the process that began it. Processes that are started again (``spawn``,
    ``forkserver``, joblib's loky) have neither the connection nor the recording.
    A replay or another recording that is active ends first, so that a cell can be run again; what the other
    recording had is in its file.
    """
    global _current
    target = Path(path)
    description = _plain(about or {})
    is_own = _current is not None and target.absolute() == _current.path.absolute()
    if not is_own:
        _refuse_other_files(target)
    SESSION.end_active()
    recording = _current = Recording(target, description)
    try:
        recording._start()
    except BaseException:
        recording.close()
        raise
    return recording


def _plain(about: Mapping[str, Any]) -> dict[str, Any]:
    """`about` as it will be read back."""
    try:
        text = json.dumps(dict(about), sort_keys=True, allow_nan=False)
    except (TypeError, ValueError) as fault:
        raise type(fault)(f"about= holds values that JSON cannot store: {fault}") from None
    if SESSION.holds_key(text.encode()):
        raise ValueError("about= holds the API key: omit it")
    return dict(json.loads(text))


def _refuse_other_files(path: Path) -> None:
    """Never overwrite what is not a bundle, nor one that is too damaged to tell."""
    try:
        path.stat()
    except FileNotFoundError:
        return
    except (OSError, ValueError) as fault:
        raise ValueError(f"path={str(path)!r} cannot name a file: {fault}") from None
    try:
        Bundle(path).close()
    except BundleError:
        raise ValueError(f"path={str(path)!r} exists and is not a whole bundle: name another file") from None
