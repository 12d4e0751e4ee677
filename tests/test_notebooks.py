"""Every notebook runs from its bundle: no socket, no key, no cache; one question, one figure.

The output equals the stored output, up to the last digit of another BLAS kernel.
"""

from __future__ import annotations

import base64
import importlib
import io
import json
import re
import socket
from itertools import chain
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.image import imread

import derivdata as dd
from derivdata import bundle
from derivdata.cli.reports import check_notebook
from tests.support.notebook_verdicts import unsupported_claims

FOLDER = Path(__file__).resolve().parents[1] / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
LARGEST_KB = 400
STORED = {"did_the_picks_pay"}
"""Notebooks without a bundle, on results of recorded data stored next to them."""
BUNDLED = [path for path in NOTEBOOKS if path.stem not in STORED]
each_bundled = pytest.mark.parametrize("notebook", BUNDLED, ids=[path.stem for path in BUNDLED])
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


# Paradex has no contract of one coin, and some venues are younger than the window.
@pytest.mark.filterwarnings("ignore:.*paradex. no rows in the window .1 of 6 requested venues")
@pytest.mark.filterwarnings("ignore:.*the contract may be listed later")
@each_notebook
@pytest.mark.usefixtures("_no_sockets")
def test_notebook_shows_what_is_stored_in_it(notebook: Path, recorder: ModuleType) -> None:
    outputs = recorder.run(recorder.code_cells(notebook), notebook.name)
    dd.disconnect()
    stored = [cell["outputs"] for cell in cells_of(notebook) if cell["cell_type"] == "code"]
    assert [len(shown) for shown in outputs] == [len(shown) for shown in stored]
    for shown, before in zip(chain(*outputs), chain(*stored), strict=True):
        assert shown["output_type"] == before["output_type"]
        if "image/png" not in shown.get("data", {}):
            compare("".join(text_of(shown)), "".join(text_of(before)))
    drawn, images = (
        [item["data"]["image/png"] for item in chain(*outputs_) if "image/png" in item.get("data", {})]
        for outputs_ in (outputs, stored)
    )
    assert len(images) == 1
    assert apart(drawn[0], images[0]) < MAX_APART, "stored before the figure changed: record.py --outputs"


@pytest.mark.parametrize(
    ("verdict", "problems"),
    [
        ("Longs paid 31.5 bps, 12 % of it on okx. On every venue they paid.", 0),
        ("Longs paid 31.6 bps.", 1),
        ("On every venue longs paid; zo paid most.", 1),
        ("None paid.", 1),
        ("A half, of 1,234.5, is 1,235 or 1,234.", 0),
    ],
)
def test_verdict_follows_from_shown_numbers_and_assertions(
    verdict: str, problems: int, tmp_path: Path
) -> None:
    """31.47 rounds to 31.5, 0.123 is 12 %; an assertion supports a sentence that contains its message."""
    source = "paid = [1.0]\nassert all(p > 0 for p in paid), 'on every venue'\nassert paid, ''\n31.47, 0.123"
    output = {"output_type": "stream", "name": "stdout", "text": ["31.47 0.123 1234.5"]}
    code = {"cell_type": "code", "source": source, "outputs": [output]}
    last = {"cell_type": "markdown", "source": f"## Verdict\n\n{verdict}"}
    path = tmp_path / "n.ipynb"
    path.write_text(json.dumps({"cells": [code, last]}), encoding="utf-8")
    assert len(list(unsupported_claims(path))) == problems


@each_bundled
@pytest.mark.filterwarnings("ignore:.*paradex. no rows in the window .1 of 6 requested venues")
@pytest.mark.filterwarnings("ignore:.*the contract may be listed later")
@pytest.mark.usefixtures("_no_sockets")
def test_the_card_of_a_notebook_is_run_again_from_its_bundle(notebook: Path, recorder: ModuleType) -> None:
    again = dd.rerun(recorder.card_of(notebook), notebook.with_suffix(".ddz"))
    assert again["equal"].all(), again[~again["equal"]]
    assert again["recorded"].notna().any()


MAX_APART = 0.04
"""Root of the mean squared difference of two pictures, of 1 for black against white."""


def apart(one: str, other: str) -> float:
    """How different two pictures are: 1 where their sizes differ by more than two pixels."""
    first, second = (imread(io.BytesIO(base64.b64decode(picture)))[..., :3] for picture in (one, other))
    if np.abs(np.subtract(first.shape, second.shape)).max() > 2:
        return 1.0
    height, width = np.minimum(first.shape, second.shape)[:2]
    return float(np.sqrt(np.mean((first[:height, :width] - second[:height, :width]) ** 2)))


def test_changed_figure_differs_from_the_stored_one(recorder: ModuleType) -> None:
    draw = "import matplotlib.pyplot as plt; plt.plot([0, 1], {levels}, lw=5);"
    plain, other = (recorder.run([draw.format(levels=levels)])[0][0] for levels in ("[0, 1]", "[1, 0]"))
    pictures = [shown["data"]["image/png"] for shown in (plain, other)]
    assert apart(pictures[0], pictures[0]) == 0.0
    assert apart(*pictures) > MAX_APART


def test_last_cell_states_synthetic_data(recorder: ModuleType) -> None:
    for notebook in NOTEBOOKS:
        conclusion = "".join(cells_of(notebook)[-1]["source"])
        has_real_data = notebook.stem in recorder.RECORDED or notebook.stem in STORED
        assert ("synthetic" in conclusion) is not has_real_data, notebook.stem


NUMBER = re.compile(r"-?\d+\.\d+(?:e[+-]?\d+)?")


def compare(shown: str, stored: str) -> None:
    """Compare words exactly, and numbers to one of their last digit: fits differ from 1e-9 on by kernel."""
    assert NUMBER.sub("#", shown).split() == NUMBER.sub("#", stored).split()
    for result, before in zip(NUMBER.findall(shown), NUMBER.findall(stored), strict=True):
        digits, _, exponent = before.partition("e")
        last = 10.0 ** (int(exponent or 0) - len(digits.partition(".")[2]))
        assert float(result) == pytest.approx(float(before), rel=0, abs=1.01 * last)


def cells_of(notebook: Path) -> list[dict[str, Any]]:
    cells: list[dict[str, Any]] = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    return cells


def text_of(output: dict[str, Any]) -> list[str]:
    text: list[str] = output["text"] if output["output_type"] == "stream" else output["data"]["text/plain"]
    return text


@each_notebook
def test_notebook_is_short_ends_in_a_verdict_and_could_be_published(notebook: Path) -> None:
    cells = cells_of(notebook)
    assert len(cells) < 15
    assert "".join(cells[0]["source"]).startswith("# ")
    assert cells[-1]["cell_type"] == "markdown"
    verdict = r"(## Verdict\n\n|\*\*Verdict\.\*\* )\w.{80,}"
    assert re.match(verdict, "".join(cells[-1]["source"]), flags=re.DOTALL)
    assert check_notebook(notebook) == []
    assert list(unsupported_claims(notebook)) == []


@each_bundled
def test_bundle_is_small_and_states_its_kind(notebook: Path, recorder: ModuleType) -> None:
    contents = bundle.info(notebook.with_suffix(".ddz"))
    assert contents.bytes < LARGEST_KB * 1000
    recorded = notebook.stem in recorder.RECORDED
    assert contents.manifest.synthetic is not recorded
    licences = (FOLDER / "LICENSES.md").read_text(encoding="utf-8")
    assert (f"`{notebook.stem}.ddz`" in licences) is recorded


def test_every_bundle_has_its_notebook() -> None:
    assert [path.stem for path in sorted(FOLDER.glob("*.ddz"))] == [path.stem for path in BUNDLED]
    assert len(BUNDLED) == 17
    assert {path.stem for path in FOLDER.glob("*.csv")} == STORED


def test_the_switch_asks_a_live_source(recorder: ModuleType, tmp_path: Path) -> None:
    """A live notebook records; here it requests the sample again and gets the same responses."""
    notebook = FOLDER / "a_btc_surface_you_can_defend.ipynb"
    copy = tmp_path / notebook.name
    copy.write_bytes(notebook.read_bytes())
    again = recorder.record(copy)
    assert dd.bundle_diff(notebook.with_suffix(".ddz"), again).answers.empty
