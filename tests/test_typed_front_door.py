"""``import derivdata as dd`` for type checkers and completion, with lazily resolved names."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType

import jedi
import pytest

import derivdata as dd

SCRIPT = """\
import derivdata as dd
reveal_type(dd.connect("sample"))
reveal_type(dd.funding.history)
reveal_type(dd.analysis.surface.fit)
reveal_type(dd.tables.TABLES["funding_history"])
reveal_type(dd.plot.smile)
dd.nope
dd.funding.histroy("BTC", "30d")
dd.funding.history("BTC", "30d", nonsense=1)
dd.funding.history(5, "30d")
dd.analysis.surfaces
import derivdata.hip3 as hip3
from derivdata.options import surface
reveal_type(hip3.candles)
reveal_type(surface)
hip3.typed
dd.plot.smile(5)
dd.plot.funding_heatmap([1.0])
dd.plot.smile(dd.options.surface("BTC", "deribit"))
dd.funding.history("BTC", "30d", resolution="7h")
from derivdata import accessors
panel = dd.panel(dd.oi.history("BTC", "30d"))
reveal_type(accessors.of(panel).spread)
reveal_type(accessors.of(panel).plot.heatmap)
reveal_type(accessors.of(dd.options.surface("BTC", "deribit")).surface.from_chain)
accessors.of(panel).spred
accessors.of(panel).market_share(5, 6)
"""
REVEALED = {
    2: ("Connection",),
    3: ("symbols: str | ", "Sequence[str], start: ", "venues: ", "resolution: "),
    4: ("log_moneyness: ", "method: Literal[", "Dataset"),
    5: ("Table",),
    6: ("fit: ", "ax: ", "Axes"),
    14: ("coin: str", "interval: str"),
    15: ("symbol: str, venue: str", "Dataset"),
    23: ("long: ", "short: ", "DataArray"),
    24: ("symbol: ", "Axes"),
    25: ("method: ", "Dataset"),
}
"""Line, and the type that each checker infers on it."""

REFUSED = {7, 8, 9, 10, 11, 16, 20, 26, 27}
"""Lines that every checker rejects."""

REFUSED_KINDS_OF_DATA = {17, 18}
"""Lines that only pyright rejects: mypy has no types of pandas."""


ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "script.py"
    path.write_text(SCRIPT)
    return path


@pytest.mark.parametrize("module", [dd, dd.analysis], ids=lambda m: m.__name__)
def test_the_stub_has_the_names_of_the_module(module: ModuleType) -> None:
    names: dict[str, object] = {}
    stub = Path(str(module.__file__)).with_suffix(".pyi").read_text(encoding="utf-8")
    exec(compile(stub, "stub", "exec"), names)  # a stub is Python; this one only imports  # noqa: S102 - ours
    assert {name for name in names if not name.startswith("_")} == {*module.__all__}
    for name in module.__all__:
        assert names[name] is getattr(module, name), name


def compare(revealed: dict[int, str], refused: set[int], more: set[int]) -> None:
    for line, words in REVEALED.items():
        assert all(word in revealed[line] for word in words), revealed[line]
    assert refused == REFUSED | more


def test_pyright_sees_signatures_and_refuses_mistakes(script: Path) -> None:
    offline = {"HTTPS_PROXY": "http://127.0.0.1:9", "HTTP_PROXY": "http://127.0.0.1:9"}
    bundled = {"PYRIGHT_PYTHON_GLOBAL_NODE": "0", "PYRIGHT_PYTHON_IGNORE_WARNINGS": "1"}
    command = ["pyright", "--outputjson", "--pythonpath", sys.executable, str(script)]
    said = run(command, script.parent, os.environ | offline | bundled)
    results = [
        (d["range"]["start"]["line"] + 1, d["severity"], d["message"])
        for d in json.loads(said)["generalDiagnostics"]
    ]
    messages = {line: text for line, kind, text in results if kind == "information"}
    assert messages[3].endswith('-> DataFrame"')
    compare(messages, {line for line, kind, _ in results if kind == "error"}, REFUSED_KINDS_OF_DATA)


def test_mypy_sees_signatures_and_refuses_mistakes(script: Path) -> None:
    """With the package's options, so that mypy's cache of the package is reused."""
    said = run(["mypy", "--no-pretty", str(script)], ROOT, os.environ)
    # Mypy caches a script with the same text, with the path of the earlier run.
    lines = re.findall(r"script\.py:(\d+): (\w+): (.*)", said)
    revealed = {int(number): text for number, _, text in lines if "Revealed type" in text}
    compare(revealed, {int(number) for number, kind, _ in lines if kind == "error"}, set())


def run(command: list[str], folder: Path, variables: Mapping[str, str]) -> str:
    command = [sys.executable, "-m", *command]
    done = subprocess.run(command, cwd=folder, env=variables, capture_output=True, text=True, check=False)
    return done.stdout


def test_jedi_completes_without_running_the_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jedi.settings, "cache_directory", str(tmp_path))  # its own is in HOME
    names = {c.name for c in jedi.Script("import derivdata as dd\ndd.").complete(2, 3)}
    # jedi lists every folder and module
    rooms = set("accessors cards cli client matrix reports sources support".split())
    assert {name for name in names if not name.startswith("_")} == {*dd.__all__, *rooms}
    families = {c.name for c in jedi.Script("import derivdata as dd\ndd.funding.").complete(2, 11)}
    assert {"history", "snapshot", "settlements"} <= families
    [signature] = jedi.Script("import derivdata as dd\ndd.funding.history(").get_signatures(2, 19)
    assert [p.name for p in signature.params] == ["symbols", "start", "end", "venues", "resolution", "by"]
