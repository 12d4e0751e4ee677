"""What the pages show runs as shown, on the sample, and prints what they say.

A block that cannot run stands after a comment ``<!-- not run: why -->``; one after
``<!-- site only: why -->`` runs when the site is built.
"""

from __future__ import annotations

import doctest
import re
import shutil
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
import xarray as xr

import derivdata as dd

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
_FENCE = re.compile(r"^(?P<before>[^\n]*)\n+```python\n(?P<code>.*?)^```$", flags=re.M | re.S)
_NOT_RUN = ("<!-- not run: ", "<!-- site only: ")
_HOSTED = re.compile(r'dd\.connect\("https://…"[^)]*\)')


class Block(NamedTuple):
    """One piece of code of a page."""

    code: str
    line: int


def blocks(page: Path) -> list[Block]:
    """The blocks of a page that are to be run."""
    text = page.read_text(encoding="utf-8")
    return [
        Block(found["code"], text.count("\n", 0, found.start("code")) + 1)
        for found in _FENCE.finditer(text)
        if not found["before"].startswith(_NOT_RUN)
    ]


ELSEWHERE = {"real-data": "tests/test_real_data.py"}
RUN = [page for page in PAGES if blocks(page) and page.stem not in ELSEWHERE]


@pytest.fixture(scope="module")
def recordings(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with two recordings."""
    folder = tmp_path_factory.mktemp("recordings")
    for day, name in (("2026-06-29", "monday.ddz"), ("2026-06-30", "tuesday.ddz")):
        dd.connect("sample", now=day, cache="off")
        with dd.record(folder / name):
            dd.funding.history("BTC", "1d", venues=["binance"])
    return folder


@pytest.fixture
def names(recordings: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What a reader has at hand: the usual names, two recordings, the sample connected."""
    shutil.copytree(recordings, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    mpl.use("Agg")
    dd.connect("sample")
    return {"dd": dd, "np": np, "pd": pd, "xr": xr}


@pytest.mark.parametrize("page", RUN, ids=[page.stem for page in RUN])
def test_code_of_a_page_runs(page: Path, names: dict[str, Any]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dd.errors.DataNotice)
        for block in blocks(page):
            code = _HOSTED.sub('dd.connect("sample")', block.code)
            if code.startswith(">>>"):
                _check_session(code, block, page, names)
            else:
                exec(compile("\n" * (block.line - 1) + code, str(page), "exec"), names)


def test_every_page_is_found_and_listed_and_its_links_lead_somewhere() -> None:
    assert {"README", "index", "conventions", "traps"} <= {page.stem for page in RUN}
    for page in PAGES:
        assert page.read_text(encoding="utf-8").count("\n```") % 2 == 0, page
    listed = {"index", "README"}
    for page in PAGES:
        for found in re.finditer(r"```\{toctree\}\n(.*?)```", page.read_text(encoding="utf-8"), flags=re.S):
            listed |= {line.strip() for line in found[1].splitlines()}
    assert {page.stem for page in PAGES} <= listed
    for page in PAGES:
        for link in re.findall(r"\]\(([\w./-]+\.(?:md|ipynb))", page.read_text(encoding="utf-8")):
            place = page.parent / link.replace("gallery/", "../notebooks/")
            is_made = link.startswith("reference/") or link == "gallery/index.md"
            assert is_made or place.exists(), f"{page.name}: {link}"


def test_a_wrong_output_is_noticed(names: dict[str, Any]) -> None:
    with pytest.raises(AssertionError, match="Expected"):
        _check_session(">>> 1 + 1\n3\n", Block("", 1), ROOT / "README.md", names)


def _check_session(code: str, block: Block, page: Path, names: dict[str, Any]) -> None:
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    session = doctest.DocTestParser().get_doctest(code, names, page.stem, str(page), block.line - 1)
    said: list[str] = []
    with pd.option_context("display.width", 120, "display.max_columns", 20):
        doctest.DocTestRunner(optionflags=flags).run(session, out=said.append, clear_globs=False)
    names |= session.globs
    assert not said, "".join(said)
