"""Record responses into a bundle, and replay a bundle in place of its source."""

from __future__ import annotations

import atexit
import difflib
import json
import threading
from collections.abc import Mapping
from contextlib import suppress
from html import escape
from pathlib import Path
from typing import Any, Self

import pandas as pd

from derivdata.client.bundle import Entry, differences, entry_of, entry_text, request_of, response_of
from derivdata.client.bundle.files import Bundle, ChildWriter, Writer
from derivdata.client.transport import SESSION, Response
from derivdata.client.transport.session import Replacements
from derivdata.errors import BundleError, NotConnected, NotRecorded
from derivdata.support import times
from derivdata.support.arguments import typed
from derivdata.support.forking import renew_in_child
from derivdata.support.text import warn_caller
from derivdata.tables.endpoints import Request

_current: Recording | None = None


class Recording:
    """An active recording. `close`, its ``with`` block or ``dd.disconnect()`` ends it.

    Attributes
    ----------
    path
        The bundle. It can be read at any time, also after the process was terminated.
    """

    def __init__(self, path: Path, about: dict[str, Any]) -> None:
        self.path = path
        self._writer = Writer(path, about)
        self._is_child = False
        self._fork_lock = threading.Lock()
        self._asof: pd.Timestamp | None = None
        self._open = True
        self._clock_before = SESSION.clock
        self._before: Replacements = {}
        renew_in_child(self)

    def close(self) -> None:
        """End the recording. A second call does nothing."""
        try:
            self._end()
        except BaseException:
            self._end()  # an interrupt may have stopped the first call halfway
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
        """Unregister the recording."""
        global _current
        _current = None
        atexit.unregister(self.close)
        if self.close in SESSION.closers:
            SESSION.closers.remove(self.close)
        self._open = False

    def _after_fork(self) -> None:
        """Continue in a forked child with a separate journal, because two writers would corrupt one file."""
        self._fork_lock = threading.Lock()
        if self._open:
            self._writer = ChildWriter(self._writer)
            self._is_child = True

    def _start(self) -> None:
        with suppress(NotConnected):  # without a connection, the clock is read with the first response
            self._asof = self._clock_before()
            self._writer.asof = times.iso(self._asof)
        SESSION.closers.append(self.close)
        atexit.register(self.close)
        self._writer.begin()
        self._before = {"observer": SESSION.observer, "clock": SESSION.clock}
        SESSION.install(observer=self._observe, clock=self._clock)

    def _clock(self) -> pd.Timestamp:
        """Return the source's time at the first call; later calls return the same."""
        if self._asof is None:
            self._asof = self._clock_before()
            self._writer.asof = times.iso(self._asof)
            self._writer.note()
        return self._asof

    def _observe(self, response: Response) -> None:
        """Add a response to the recording, unless it contains the API key."""
        if SESSION.holds_key(entry_text(entry_of(response))) or SESSION.holds_key(response.body):
            raise BundleError(
                f"{self.path}: the response to {response.request.path} contains the API key and is not "
                "recorded; end the recording with dd.disconnect() to continue without it"
            )
        if self._is_child and not self._writer.is_in_place():
            self.close()
            warn_caller(
                f"{self.path}: the recording ended in the process that this one was forked from. The "
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
        return f"Recording({str(self.path)!r}, {state}: {len(self._writer)} responses, clock {asof})"


@typed
def record(path: str | Path, *, about: Mapping[str, Any] | None = None) -> Recording:
    """Record all further responses into a bundle, until `Recording.close` or ``dd.disconnect()``.

    ::

        with dd.record("carry.ddz"):
            rates = dd.funding.history("BTC", "30d")

    or, in a separate cell, ``recording = dd.record("carry.ddz")``. `derivdata.asof` is read once and does not
    advance. Responses from the cache and errors of the service are recorded too.

    Parameters
    ----------
    path
        The bundle, usually with the suffix ``.ddz``. An existing bundle is replaced.
    about
        Notes in JSON types. They are stored in the manifest and returned as `Replay.about`.

    Returns
    -------
    Recording
        The active recording.

    Raises
    ------
    ValueError, TypeError
        The path is an existing file that is not a bundle, or `about` contains the API key or a value that
        JSON cannot store.
    BundleError
        The file cannot be written. Later fetches raise it too, or if their response contains the API key.
    NotCached, NetworkError
        The source's clock cannot be read.

    Notes
    -----
    Forked children (``multiprocessing`` with ``fork``, `os.fork`) record too; their responses are in the
    bundle when the recording ends in the process that started it. New processes (``spawn``, ``forkserver``,
    joblib's loky) have neither the connection nor the recording.
    An active replay or another recording ends first, so that a cell can be run again. The responses of the
    other recording are in its file.
    """
    global _current
    target = Path(path)
    description = _plain(about or {})
    is_own = _current is not None and target.absolute() == _current.path.absolute()
    if not is_own:
        _check_is_bundle(target)
    SESSION.end_active()
    recording = _current = Recording(target, description)
    try:
        recording._start()
    except BaseException:
        recording.close()
        raise
    return recording


def _plain(about: Mapping[str, Any]) -> dict[str, Any]:
    """Return `about` as JSON would store and return it."""
    try:
        text = json.dumps(dict(about), sort_keys=True, allow_nan=False)
    except (TypeError, ValueError) as fault:
        raise type(fault)(f"about= contains values that JSON cannot store: {fault}") from None
    if SESSION.holds_key(text.encode()):
        raise ValueError("about= contains the API key; omit it")
    return dict(json.loads(text))


def _check_is_bundle(path: Path) -> None:
    """Raise on an existing file that is not an intact bundle, so that it is not overwritten."""
    try:
        path.stat()
    except FileNotFoundError:
        return
    except (OSError, ValueError) as fault:
        raise ValueError(f"path={str(path)!r} is not a valid file name: {fault}") from None
    try:
        Bundle(path).close()
    except BundleError:
        raise ValueError(
            f"path={str(path)!r} exists and is not an intact bundle; pass another path"
        ) from None


class Replay:
    """An active replay. `close`, its ``with`` block or ``dd.disconnect()`` ends it.

    Attributes
    ----------
    path
        The bundle.
    asof
        The recorded clock; None if the recording never read it.
    source, synthetic
        The recorded source, and whether its data is synthetic.
    about
        The notes passed to `record`.
    differences
        Versions, platform and BLAS kernel that differ from the recording. Without differences, results are
        bit-equal. Tables need only the same versions; fits also need the same kernel, and agree to 1e-9 on
        another.
    """

    def __init__(self, bundle: Bundle) -> None:
        manifest = bundle.manifest
        self.path = bundle.path
        self.asof = None if manifest.asof is None else times.timestamp(manifest.asof, "asof")
        self.source = manifest.source
        self.synthetic = manifest.synthetic
        self.about = manifest.about
        self.differences = differences(manifest)
        self._bundle = bundle
        self._recorded: dict[Request, list[Entry]] = {}
        for entry in bundle.entries:
            self._recorded.setdefault(request_of(entry), []).append(entry)
        self._served: dict[Request, int] = {}
        self._fork_lock = threading.Lock()
        self._open = True
        self._before: Replacements = {}
        renew_in_child(self)

    def start(self) -> None:
        """Serve all further requests from the bundle."""
        SESSION.closers.append(self.close)
        self._before = {"responder": SESSION.responder, "clock": SESSION.clock}
        SESSION.install(responder=self._respond, clock=self._clock)

    def close(self) -> None:
        """End the replay. A second call does nothing."""
        try:
            self._end()
        except BaseException:
            self._end()  # an interrupt may have stopped the first call halfway
            raise

    def _end(self) -> None:
        if not self._open:
            return
        SESSION.install(**self._before)
        self._bundle.close()
        if self.close in SESSION.closers:
            SESSION.closers.remove(self.close)
        self._open = False

    def _after_fork(self) -> None:
        """Open the file again in a forked child: the parent's handle shares one file position."""
        self._fork_lock = threading.Lock()
        if self._open:
            self._bundle.reopen()

    def _clock(self) -> pd.Timestamp:
        if self.asof is None:
            raise NotRecorded(
                "the clock", (f"{self.path} does not have a clock: the recording never read the time")
            )
        return self.asof

    def _respond(self, request: Request) -> Response:
        """Return the next response to the request; after the last one, repeat it."""
        entries = self._recorded.get(request)
        if entries is None:
            raise NotRecorded(str(request), f"not in {self.path}; {_nearest(request, list(self._recorded))}")
        with self._fork_lock:
            turn = self._served.get(request, 0)
            self._served[request] = turn + 1
        entry = entries[min(turn, len(entries) - 1)]
        return response_of(entry, self._bundle.body(entry))

    def __enter__(self) -> Self:
        try:
            if not self._before:
                self.start()
            return self
        except BaseException:
            self.close()
            raise

    def __exit__(self, *_: object) -> None:
        self.close()

    def _facts(self) -> dict[str, str]:
        same = "same versions, platform and BLAS kernel: results are bit-equal"
        other = f"fits agree to 1e-9: {'; '.join(self.differences)}"
        return {
            "bundle": str(self.path),
            "responses": str(len(self._bundle.entries)),
            "source": f"{self.source} (synthetic)" if self.synthetic else self.source,
            "clock": "none" if self.asof is None else times.iso(self.asof),
            "precision": other if self.differences else same,
        }

    def __repr__(self) -> str:
        state = "" if self._open else "ended; "
        return f"Replay({state}{', '.join(f'{n}: {v}' for n, v in self._facts().items())})"

    def _repr_html_(self) -> str:
        rows = (f"<tr><th>{n}</th><td>{escape(v)}</td></tr>" for n, v in self._facts().items())
        return f"<table><caption>derivdata replay</caption>{''.join(rows)}</table>"


@typed
def replay(path: str | Path) -> Replay:
    """Serve all further requests from a bundle, until `Replay.close` or ``dd.disconnect()``.

    ::

        with dd.replay("carry.ddz"):
            rates = dd.funding.history("BTC", "30d")

    A replay needs no network and no key, and does not use the cache. `derivdata.asof` is the recorded time.

    Parameters
    ----------
    path
        The bundle.

    Returns
    -------
    Replay
        The active replay.

    Raises
    ------
    BundleError
        The file is not a bundle, or it is damaged or malicious.

    Notes
    -----
    An active recording or another replay ends first, so that a cell can be run again.
    A request that is not in the bundle raises `NotRecorded`. A request that was recorded several times gets
    its responses in order, then the last one again.

    Examples
    --------
    >>> with dd.record("one.ddz"):
    ...     live = dd.oi.exchanges()
    >>> with dd.replay("one.ddz"):
    ...     again = dd.oi.exchanges()
    >>> again.equals(live)
    True
    """
    Bundle(path)  # raises before the active replay ends, so that an unreadable file does not change the state
    SESSION.end_active()
    replay = Replay(Bundle(path))  # read again, because the end of a recording rewrites its file
    try:
        replay.start()
        return replay
    except BaseException:
        replay.close()
        raise


def _nearest(request: Request, recorded: list[Request]) -> str:
    """Return a sentence with the recorded request that is most similar to this one."""
    if not recorded:
        return "the bundle has no responses"
    requested = str(request)

    def similarity(other: Request) -> tuple[bool, float]:
        matcher = difflib.SequenceMatcher(None, requested, str(other))
        return other.path == request.path, matcher.ratio()

    return f"the nearest recorded request: {max(recorded, key=similarity)}"
