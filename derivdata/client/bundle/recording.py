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

from derivdata.client.bundle.layout import Entry, differences, entry_of, request_of, response_of, spoken
from derivdata.client.bundle.reading import Bundle
from derivdata.client.bundle.writing import ChildWriter, Writer
from derivdata.client.transport import SESSION, Response
from derivdata.client.transport.session import Parts
from derivdata.errors import BundleError, NotConnected, NotRecorded
from derivdata.support import times
from derivdata.support.arguments import typed
from derivdata.support.forking import renew_in_child
from derivdata.support.text import warn_caller
from derivdata.tables.endpoints import Request

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


class Replay:
    """A replay under way; ends with `close`, with its ``with`` block, or with ``dd.disconnect()``.

    Attributes
    ----------
    path
        The bundle.
    asof
        The recorded clock; None if the recording never asked for it.
    source, synthetic
        The recorded source, and whether its data is synthetic.
    about
        What who recorded wanted to say.
    differences
        Versions, platform and BLAS kernel that are not those of the recording. Without any, results are
        the same to the bit. Tables need the same versions only; fits also the same kernel, and agree to
        1e-9 on another.
    """

    def __init__(self, bundle: Bundle) -> None:
        manifest = bundle.manifest
        self.path = bundle.path
        self.asof = None if manifest.asof is None else times.instant(manifest.asof, "asof")
        self.source = manifest.source
        self.synthetic = manifest.synthetic
        self.about = manifest.about
        self.differences = differences(manifest)
        self._bundle = bundle
        self._answers: dict[Request, list[Entry]] = {}
        for entry in bundle.entries:
            self._answers.setdefault(request_of(entry), []).append(entry)
        self._served: dict[Request, int] = {}
        self._fork_lock = threading.Lock()
        self._open = True
        self._before: Parts = {}
        renew_in_child(self)

    def start(self) -> None:
        """Answer from here on."""
        SESSION.closers.append(self.close)
        self._before = {"responder": SESSION.responder, "clock": SESSION.clock}
        SESSION.install(responder=self._respond, clock=self._clock)

    def close(self) -> None:
        """End the replay; a second time does nothing."""
        try:
            self._end()
        except BaseException:
            self._end()  # the rest, where an interrupt came in between
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
        """Open the file again in a forked child: parent and child would move one place in it to and fro."""
        self._fork_lock = threading.Lock()
        if self._open:
            self._bundle.reopen()

    def _clock(self) -> pd.Timestamp:
        if self.asof is None:
            raise NotRecorded("the clock", f"{self.path} holds no time: the recording did not request it")
        return self.asof

    def _respond(self, request: Request) -> Response:
        """Return the request's next answer; its last one again when there are no more."""
        answers = self._answers.get(request)
        if answers is None:
            raise NotRecorded(str(request), f"not in {self.path}; {_nearest(request, list(self._answers))}")
        with self._fork_lock:
            turn = self._served.get(request, 0)
            self._served[request] = turn + 1
        entry = answers[min(turn, len(answers) - 1)]
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
        same = "same versions, platform and BLAS kernel: results repeat to the bit"
        other = f"fits repeat to 1e-9: {'; '.join(self.differences)}"
        return {
            "bundle": str(self.path),
            "answers": str(len(self._bundle.entries)),
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
    """Answer every request from a bundle, until `Replay.close` or ``dd.disconnect()``.

    ::

        with dd.replay("carry.ddz"):
            rates = dd.funding.history("BTC", "30d")

    No socket is opened, no key is needed, the cache is not looked at; `derivdata.asof` is the recorded one.

    Raises
    ------
    BundleError
        The file is not a bundle, damaged, or built to do harm.

    Notes
    -----
    A recording or another replay that is active ends first, so that a cell can be run again.
    A request that is not in the bundle raises `NotRecorded`. A request that was recorded several times gets
    its answers in their order, then the last one again.

    Examples
    --------
    >>> with dd.record("one.ddz"):
    ...     live = dd.oi.exchanges()
    >>> with dd.replay("one.ddz"):
    ...     again = dd.oi.exchanges()
    >>> again.equals(live)
    True
    """
    opened = Bundle(path)  # before the active one ends: a file that cannot be read changes nothing
    SESSION.end_active()
    replay = Replay(opened)
    try:
        replay.start()
        return replay
    except BaseException:
        replay.close()
        raise


def _nearest(request: Request, recorded: list[Request]) -> str:
    """Return the recorded request that is most like this one, and in what it differs."""
    if not recorded:
        return "the bundle holds no answers at all"
    wanted = str(request)
    near = max(
        recorded,
        key=lambda r: (r.path == request.path, difflib.SequenceMatcher(None, wanted, str(r)).ratio()),
    )
    return f"the nearest that is: {near}"
