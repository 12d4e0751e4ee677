"""Figures drawn in a second process: the same bytes, errors and warnings, and no process is left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import matplotlib
import pytest

from derivdata.reports import drawing
from derivdata.reports.drawing import Drawings, Task, draw_svg
from tests.reliability.promises import SOAK
from tests.support import drawn_by_worker as draw

HANGS_SECONDS = 60.0
"""Only a worker that hangs takes so long."""


def figure(function: Callable[..., Any], number: int = 0) -> Callable[[], str]:
    return partial(draw_svg, function, "A line", name=f"figure-{number}", size=(3.0, 2.0))


def wait_for(condition: Callable[[], Any], otherwise: str) -> None:
    deadline = time.monotonic() + HANGS_SECONDS
    while not condition():
        assert time.monotonic() < deadline, otherwise
        time.sleep(0.01)


def drawn_by_the_worker(one: Task) -> str:
    """The text of a figure that nothing but the worker can have drawn, for `finish` was not called."""
    wait_for(lambda: one.made is not None, "the worker does not draw")
    return str(one.made)


def test_the_users_style_does_not_reach_a_report() -> None:
    """The worker has the defaults, so that figures would differ with the number of processors."""
    plain, styled = figure(partial(draw.line, 3.0)), figure(partial(draw.line, 3.0))
    text = plain()
    with matplotlib.rc_context({"lines.linewidth": 7.5, "axes.grid": True, "timezone": "Asia/Tokyo"}):
        assert styled() == text


@pytest.mark.parametrize(("processors", "executable"), [(1, sys.executable), (2, "/opt/desk/trader")])
def test_one_processor_draws_here_and_an_application_that_is_no_python_is_not_started_again(
    processors: int, executable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drawing, "processors", lambda: processors)
    monkeypatch.setattr(drawing.sys, "executable", executable)
    monkeypatch.setattr(drawing.subprocess, "Popen", lambda *_, **__: pytest.fail("a worker was started"))
    with Drawings(several=True) as drawings:
        one = drawings.add(figure(partial(draw.line, 5.0)))
        drawings.finish()
    assert "up to 5" in (one.made or "")


def test_a_worker_draws_the_same_and_repeats_errors_and_warnings_here(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(drawing, "processors", lambda: 2)
    with Drawings(several=True) as drawings:
        lines = [drawings.add(figure(partial(draw.line, float(n)), n)) for n in range(3)]
        whose = drawings.add(figure(draw.process))
        thin, failing, local = (
            drawings.add(figure(f)) for f in (draw.warn, draw.fail, lambda ax: ax.plot([1.0]))
        )
        worker = drawings._worker
        assert worker is not None
        texts = [drawn_by_the_worker(one) for one in lines]
        assert f"process {worker.pid}" in drawn_by_the_worker(whose)
        assert local.asked is not None
        local.asked.result(HANGS_SECONDS)  # it cannot be pickled
        assert [one.made for one in (thin, failing, local)] == [None] * 3
        with (
            pytest.warns(UserWarning, match="the line is thin"),
            pytest.raises(ZeroDivisionError, match="no line has this height"),
        ):
            drawings.finish()
    assert worker.returncode == 0
    for one, text in zip(lines, texts, strict=True):
        assert one.make() == text


@pytest.mark.parametrize("start", ["exit(3)", "print('hello')", "import time; time.sleep(1000)"])
def test_a_worker_that_is_no_use_is_done_without(start: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It dies at its start, writes other words, or says nothing."""
    popen = drawing.subprocess.Popen
    monkeypatch.setattr(drawing, "processors", lambda: 2)
    monkeypatch.setattr(
        drawing.subprocess, "Popen", lambda call, **pipes: popen([call[0], "-c", start], **pipes)
    )
    with Drawings(several=True) as drawings:
        one = drawings.add(figure(partial(draw.line, 7.0)))
        drawings.finish()
        worker = drawings._worker
    assert worker is not None
    assert worker.returncode is not None, "it is gone"
    assert "up to 7" in (one.made or "")


SCRIPT = """
import derivdata as dd
from derivdata.reports import drawing

print("started", flush=True)
drawing.processors = lambda: 2
dd.connect("sample")
dd.report("BTC", out="r.html", window="7d")
print("done", flush=True)
"""


def started(folder: Path) -> tuple[subprocess.Popen[str], int]:
    """A script without a guard of ``__main__`` that makes a report, and its worker's number."""
    (folder / "script.py").write_text(SCRIPT)
    script = subprocess.Popen(
        [sys.executable, "script.py"],
        cwd=folder,
        env=os.environ | {"DERIVDATA_CACHE_DIR": str(folder / "cache")},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    children = Path(f"/proc/{script.pid}/task/{script.pid}/children")
    wait_for(lambda: children.read_text().split(), "no worker was started")
    return script, int(children.read_text().split()[0])


def ended(process: int) -> bool:
    """Whether a process has ended; one that nobody has waited for yet counts as ended."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


@pytest.mark.skipif(not SOAK, reason="full loads only: DERIVDATA_SOAK=1")
@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="looks for processes in /proc")
class TestWholeReports:
    def test_a_script_without_a_guard_runs_once(self, tmp_path: Path) -> None:
        script, worker = started(tmp_path)
        assert script.communicate(timeout=10 * HANGS_SECONDS) == ("started\ndone\n", "")
        assert script.returncode == 0
        wait_for(lambda: ended(worker), "the worker goes on")
        assert (tmp_path / "r.html").stat().st_size > 100_000

    @pytest.mark.parametrize("seconds", [0.0, 3.0])
    @pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGKILL])
    def test_ctrl_c_and_a_kill_leave_no_process(self, sent: int, seconds: float, tmp_path: Path) -> None:
        script, worker = started(tmp_path)
        time.sleep(seconds)
        if sent == signal.SIGINT:
            os.killpg(script.pid, sent)
        else:
            script.kill()
        _, errors = script.communicate(timeout=HANGS_SECONDS)
        assert errors.rstrip().endswith("KeyboardInterrupt") is (sent == signal.SIGINT)
        wait_for(lambda: ended(worker), "the worker goes on")
        assert not (tmp_path / "r.html").exists()
