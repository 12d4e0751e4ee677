"""`replay`: answers come from a bundle and from nowhere else."""

from __future__ import annotations

import difflib
import threading
from html import escape
from pathlib import Path
from typing import Self

import pandas as pd

from derivdata.client.bundle.layout import Entry, differences, request_of, response_of
from derivdata.client.bundle.reading import Bundle
from derivdata.client.transport import SESSION, Response
from derivdata.client.transport.session import Parts
from derivdata.errors import NotRecorded
from derivdata.support import times
from derivdata.support.arguments import typed
from derivdata.support.forking import renew_in_child
from derivdata.tables.endpoints import Request


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
