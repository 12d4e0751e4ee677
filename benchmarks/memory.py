"""Peak memory of work in a process of its own: ``python -m benchmarks.memory history FILE``."""

from __future__ import annotations

import gc
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

__all__ = ["history_peak"]


def history_peak(body: bytes, folder: Path) -> float:
    """Most memory that holding a body and making its table takes, in times the body."""
    file = folder / "body.json"
    file.write_bytes(body)
    command = [sys.executable, "-m", "benchmarks.memory", "history", str(file)]
    return float(subprocess.run(command, capture_output=True, check=True).stdout) / len(body)


def _history(file: str) -> int:
    from benchmarks.answering import answer_with, history_table

    answer_with(b'{"symbol":"BTC","unit":"bps_8h","resolution":"1m","series":{},"notices":[]}')
    history_table()

    def whole() -> None:
        answer_with(Path(file).read_bytes())
        history_table()

    return _peak_bytes(whole)


def _peak_bytes(run: Callable[[], Any]) -> int:
    """Most memory during a run above what the process had before."""
    gc.collect()
    before = _resident("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")
    run()
    return _resident("VmHWM") - before


def _resident(name: str) -> int:
    """Memory of this process [bytes]: ``VmRSS``, now, or ``VmHWM``, the most since it was last reset."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(name))


if __name__ == "__main__":
    print({"history": _history}[sys.argv[1]](*sys.argv[2:]))
