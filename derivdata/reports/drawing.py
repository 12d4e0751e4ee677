"""Draw the figures of a report as SVG, and forecast, in a second process while this one goes on.

The worker is a Python of its own that is given pickled tasks through a pipe and returns what they make. It
never imports the caller's ``__main__``, so that a script needs no guard, and ends when its pipe closes, so
that it outlives neither the report nor a killed process.

The worker is an optimisation alone: whatever it has not made, for any reason, is made here, where an error
or a warning appears as if there were no worker.
"""

from __future__ import annotations

import gc
import io
import os
import pickle  # noqa: TID251 - figures go to a process of ours and back by its pipes
import re
import signal
import subprocess
import sys
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from html import escape
from pathlib import Path
from types import TracebackType
from typing import IO, Any

_IMAGE_DPI = 170
"""Dots an inch of embedded images."""

_RULES: dict[Any, Any] = {
    "svg.hashsalt": "derivdata",
    "svg.fonttype": "none",
    "timezone": "UTC",
    "text.parse_math": False,  # a symbol or venue may hold "$"
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],  # a long list is looked up, and written, for every word
    "font.size": 9,
    "axes.titley": 1.0,  # no search for room above the ticks of a top axis, which no figure has
    "figure.dpi": 72,
    "path.simplify_threshold": 0.3,
    "figure.facecolor": "none",
    "axes.facecolor": "none",
    "savefig.facecolor": "none",
}

_READY = b"derivdata draws\n"
_PATIENCE_SECONDS = 10.0


@dataclass(eq=False)
class Task:
    """Something to be made, a figure's SVG for one, and what was made once it is."""

    make: Callable[[], Any]
    made: Any = None
    asked: Future[None] | None = None


def processors() -> int:
    """Return how many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Drawings:
    """Figures of one report: a context manager, after which the worker is gone.

    With `several` figures a worker is worth its start; it starts on entry, where there is a second processor.
    """

    def __init__(self, *, several: bool, source_text: str | None = None) -> None:
        self.source_text = source_text  # who made the data, for the footers of figures
        self._tasks: list[Task] = []
        self._worker: subprocess.Popen[bytes] | None = None
        self._wants_worker = several and processors() > 1
        self._feeder = ThreadPoolExecutor(1, thread_name_prefix="derivdata drawings")
        self._ready = False

    def __enter__(self) -> Drawings:
        self._worker = _start_worker() if self._wants_worker else None
        if self._worker is not None:
            self._feeder.submit(self._greet)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._worker is None:
            return
        tasks, answers = self._pipes()
        with suppress(OSError):  # what is still in the pipe has no reader
            tasks.close()
        try:
            self._worker.wait(_PATIENCE_SECONDS if self._ready else 0.0)
        except subprocess.TimeoutExpired:
            self._worker.kill()
            self._worker.wait()
        self._feeder.shutdown(cancel_futures=True)
        answers.close()

    def add(self, make: Callable[[], Any]) -> Task:
        """Have something made that is not None; it is there after `finish`."""
        task = Task(make)
        task.asked = None if self._worker is None else self._feeder.submit(self._ask, task)
        self._tasks.append(task)
        return task

    def finish(self, tasks: Sequence[Task] | None = None) -> None:
        """Make what the worker has not started, wait for what it has, and make what it could not."""
        chosen = [task for task in (self._tasks if tasks is None else tasks) if task.made is None]
        for task in chosen:
            if task.asked is None or task.asked.cancel():
                task.made = task.make()
        for task in chosen:
            if task.made is None and task.asked is not None:
                task.asked.result()
            task.made = task.make() if task.made is None else task.made

    def _pipes(self) -> tuple[IO[bytes], IO[bytes]]:
        assert self._worker is not None
        assert self._worker.stdin is not None
        assert self._worker.stdout is not None
        return self._worker.stdin, self._worker.stdout

    def _greet(self) -> None:
        """Wait until the worker has imported what it draws with; it is asked after that."""
        self._ready = self._pipes()[1].read(len(_READY)) == _READY

    def _ask(self, task: Task) -> None:
        """Have the worker do one task; without it, or where it cannot, `finish` does it."""
        if not self._ready:
            return
        tasks, answers = self._pipes()
        with suppress(OSError, EOFError, ValueError, TypeError, AttributeError, pickle.PickleError):
            tasks.write(pickle.dumps(task.make, pickle.HIGHEST_PROTOCOL))
            tasks.flush()
            task.made = pickle.load(answers)


def _start_worker() -> subprocess.Popen[bytes] | None:
    """Return a Python that runs `serve` with this one's modules, None where there is no Python to start."""
    if not Path(sys.executable or "").stem.lower().startswith(("python", "pypy")):
        return None  # a frozen application or an embedding one: it would start itself again
    places = list(map(str, sys.path))
    code = f"import sys; sys.path[:] = {places!r}; from derivdata.reports.drawing import serve; serve()"
    try:
        return subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    except OSError:
        return None


def serve() -> None:
    """Do the tasks that come through standard input until it closes: the worker's whole work."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the report, which closes the pipe
    tasks, answers = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a library prints must not get between the answers
    gc.disable()  # cycles of a few figures are not worth looking for in a process that ends with them
    try:
        # The slow imports, while the report fetches its first table.
        import matplotlib.backends.backend_svg  # noqa: F401

        import derivdata.plot  # noqa: F401

        answers.write(_READY)
        while True:
            answers.flush()
            pickle.dump(_made(pickle.load(tasks)), answers, pickle.HIGHEST_PROTOCOL)
    except (EOFError, OSError):
        os._exit(0)  # the report is done or gone; nothing here is to be cleaned up


def _made(make: Callable[[], Any]) -> Any:
    """Return what a task makes; None after an error or a warning, which the report's process repeats."""
    with warnings.catch_warnings(record=True) as noticed, suppress(Exception):
        made = make()
        return None if noticed else made
    return None


def draw_svg(draw: Callable[..., Any], title: str, *, name: str, size: tuple[float, float]) -> str:
    """Draw on new axes, by what takes ``ax=``, and return the figure as an SVG element of a `size` [inches].

    Its `title` is the accessible label; ids inside begin with `name`, which no other figure of the page has.
    Black takes the page's text colour and white its background, so that the figure is readable in light
    and dark mode; dense parts are embedded images. The same data gives the same text, whatever style the user
    has chosen for figures.
    """
    import matplotlib.style
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    with matplotlib.style.context("default"), matplotlib.rc_context(_RULES):
        figure = Figure(figsize=size)
        canvas = FigureCanvasSVG(figure)
        draw(ax=figure.subplots())
        # `savefig` would draw the figure twice to lay it out once. An SVG is laid out in points, 72 an inch.
        ConstrainedLayoutEngine().execute(figure)
        figure.dpi = _IMAGE_DPI
        out = io.StringIO()
        canvas.print_svg(out, metadata={"Date": None, "Creator": None})
    text = out.getvalue()
    text = re.sub(r"<metadata>.*?</metadata>", "", text[text.index("<svg") :], flags=re.S)
    text = re.sub(r"(fill|stroke): ?#(000000|262626)", r"\1: currentColor", text)
    for color, variable in (("ffffff", "paper"), ("7f3c8d", "violet")):
        text = re.sub(rf"(fill|stroke): ?#{color}", rf"\1: var(--{variable})", text)
    # Coordinates to a hundredth of a point make the page smaller by a third.
    shorten = partial(re.sub, r"(\d+\.\d\d)\d+", r"\1")
    text = re.sub(r'\b(d|x|y|transform|points)="[^"]*"', lambda match: shorten(match[0]), text)
    # Ids get the figure's name in front: two figures of a page would share them.
    text = re.sub(r'(id="|xlink:href="#|url\(#)', rf"\g<1>{name}-", text)
    return text.replace("<svg", f'<svg role="img" aria-label="{escape(title)}" fill="currentColor"', 1)
