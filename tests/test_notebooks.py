"""Every notebook runs from its bundle alone: no socket, no key, no cache; one question, one figure."""

from __future__ import annotations

import importlib
import json
import socket
from pathlib import Path
from types import ModuleType
from typing import NoReturn

import matplotlib as mpl
import matplotlib.pyplot as plt
import pytest

import derivdata as dd
from derivdata import bundle

FOLDER = Path(__file__).resolve().parents[1] / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
LARGEST_KB = 400
STORED = {"did_the_picks_pay"}
"""Notebooks on figures that were made from recorded data and lie beside them, without a bundle."""
RECORDED = [path for path in NOTEBOOKS if path.stem not in STORED]
each_notebook = pytest.mark.parametrize("notebook", NOTEBOOKS, ids=[path.stem for path in NOTEBOOKS])


@pytest.fixture
def recorder(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """notebooks/record.py, with the notebooks' folder as the current one."""
    monkeypatch.syspath_prepend(str(FOLDER))
    monkeypatch.chdir(FOLDER)
    mpl.use("Agg")
    return importlib.import_module("record")


@pytest.fixture
def _no_sockets(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> NoReturn:
        raise AssertionError("a replay opened a socket")

    for name in ("__init__", "bind", "connect", "connect_ex", "sendto"):
        monkeypatch.setattr(socket.socket, name, refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)


@each_notebook
@pytest.mark.usefixtures("_no_sockets")
def test_notebook_runs_from_its_bundle(notebook: Path, recorder: ModuleType) -> None:
    plt.close("all")
    recorder.run(recorder.code_cells(notebook), notebook.name)
    dd.disconnect()
    figures = plt.get_fignums()
    plt.close("all")
    assert len(figures) == 1


@each_notebook
def test_notebook_is_short_and_stripped(notebook: Path) -> None:
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    assert len(cells) < 15
    assert "".join(cells[0]["source"]).startswith("# ")
    assert not [c for c in cells if c.get("outputs") or c.get("execution_count")]


@pytest.mark.parametrize("notebook", RECORDED, ids=[path.stem for path in RECORDED])
def test_bundle_is_small_and_of_the_sample(notebook: Path) -> None:
    path = notebook.with_suffix(".ddz")
    contents = bundle.info(path)
    assert contents.bytes < LARGEST_KB * 1000
    assert contents.manifest.synthetic
    assert contents.manifest.source == "sample"


def test_every_bundle_has_its_notebook() -> None:
    assert [path.stem for path in sorted(FOLDER.glob("*.ddz"))] == [path.stem for path in RECORDED]
    assert len(RECORDED) == 9
    assert {path.stem for path in FOLDER.glob("*.csv")} == STORED


def test_the_switch_asks_a_live_source(recorder: ModuleType, tmp_path: Path) -> None:
    """Recording is what a notebook does live; here it asks the sample again and gets the same answers."""
    notebook = FOLDER / "a_btc_surface_you_can_defend.ipynb"
    copy = tmp_path / notebook.name
    copy.write_bytes(notebook.read_bytes())
    again = recorder.record(copy)
    plt.close("all")
    assert dd.bundle_diff(notebook.with_suffix(".ddz"), again).answers.empty
