"""Import time of the library, and time to its first table, in separate processes."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import derivdata as dd
from benchmarks import wire
from benchmarks.answering import history_table, serve
from benchmarks.row import OURS, Made, Row, stated, within

__all__ = ["ROWS"]

_BARE = "bare interpreter"
_PANDAS = "import pandas"


def _import(_: Path) -> Made:
    return Made({OURS: _run("import derivdata"), _BARE: _run("pass"), _PANDAS: _run("import pandas")})


def _first_table(_: Path) -> Made:
    server = serve(wire.history(3, 44))
    url = f"http://127.0.0.1:{server.server_port}"
    dd.connect(url)
    history_table()
    server.shutdown()
    ask = f"""import derivdata as dd
dd.connect({url!r}, offline=True)
assert len(dd.funding.history("BTC", "2026-01-01", "2026-06-01", resolution=None)) == 132"""
    return Made({OURS: _run(ask), _PANDAS: _run("import pandas"), _BARE: _run("pass")})


def _run(code: str) -> Callable[[], Any]:
    return lambda: subprocess.run([sys.executable, "-c", code], check=True)


ROWS = [
    Row(
        "import",
        what="import derivdata",
        given="a new process",
        make=_import,
        goals={_BARE: within(1.5), _PANDAS: stated()},
        clock="children",
        rounds=15,
    ),
    Row(
        "first-table",
        what="import derivdata, first table",
        given="a new process, 10 kB from the cache",
        make=_first_table,
        goals={_PANDAS: within(1.25), _BARE: stated()},
        clock="children",
        rounds=9,
    ),
]
