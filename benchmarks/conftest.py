"""Each row's input is made once, for all its sides, and freed before the next row."""

from __future__ import annotations

import gc
import json
import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import derivdata as dd
from benchmarks.row import Made, Row
from benchmarks.rows import ROWS
from derivdata.client import transport


def pytest_configure() -> None:
    """Raise if a library may use more than one thread."""
    if os.environ.get("OMP_NUM_THREADS") != "1":
        pytest.exit("run this as `python -m benchmarks`, which gives every library one thread", returncode=4)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--figures", help="where the figures go, as JSON")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """One case for each row."""
    metafunc.parametrize("row", [pytest.param(row, id=row.name) for row in ROWS])


@pytest.fixture(scope="session")
def figures(request: pytest.FixtureRequest) -> Iterator[list[Any]]:
    """Figures of all sides, written at the end."""
    found: list[Any] = []
    yield found
    Path(request.config.getoption("--figures")).write_text(json.dumps({"benchmarks": found}))


@pytest.fixture(scope="session")
def make() -> Iterator[Callable[[Row], Made]]:
    """Makes a row, or gives it again if it is the latest; the one before is let go."""
    stage = _Stage()
    yield stage.make
    stage.clear()


class _Stage:
    """Where one row is at a time."""

    def __init__(self) -> None:
        self._row: Row | None = None
        self._made: Any = None
        self._folder: Any = None

    def make(self, row: Row) -> Made:
        if row is not self._row:
            self.clear()
            self._folder = tempfile.TemporaryDirectory(prefix="derivdata-bench-")
            os.environ["DERIVDATA_CACHE_DIR"] = str(Path(self._folder.name, "cache"))
            self._row, self._made = row, row.make(Path(self._folder.name))
            gc.collect()
            gc.freeze()  # existing objects are not traversed while a side runs
        made: Made = self._made
        return made

    def clear(self) -> None:
        if self._made is not None:
            self._made.close()
            self._folder.cleanup()
        self._row = self._made = None
        gc.unfreeze()
        transport.SESSION.responder = None
        dd.disconnect()
        gc.collect()
