"""Code of the pages runs as shown, on the sample, and prints the shown output.

A block that cannot run is after a comment ``<!-- not run: why -->``; one after
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
DOCS = ROOT / "docs"
PAGES = [
    ROOT / "README.md",
    *sorted(
        page for folder in (DOCS, DOCS / "methods", DOCS / "development") for page in folder.glob("*.md")
    ),
]
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
        Block(result["code"], text.count("\n", 0, result.start("code")) + 1)
        for result in _FENCE.finditer(text)
        if not result["before"].startswith(_NOT_RUN)
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
    shutil.copy(ROOT / "notebooks" / "longs_in_the_week_of_ftx.ddz", folder)
    return folder


@pytest.fixture
def names(recordings: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Names and files of a reader: the usual names, two recordings, the sample connected."""
    shutil.copytree(recordings, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    mpl.use("Agg")
    dd.connect("sample")
    return {"dd": dd, "np": np, "pd": pd, "xr": xr}


def run(block: Block, page: Path, names: dict[str, Any]) -> None:
    """Run a block, and compare the output of a session with the page."""
    code = _HOSTED.sub('dd.connect("sample")', block.code)
    with warnings.catch_warnings(), pd.option_context("display.width", 120, "display.max_columns", 20):
        warnings.simplefilter("ignore", dd.errors.DataNotice)
        if not code.startswith(">>>"):
            exec(compile("\n" * (block.line - 1) + code, str(page), "exec"), names)  # noqa: S102 - our pages
            return
        flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
        session = doctest.DocTestParser().get_doctest(code, names, page.stem, str(page), block.line - 1)
        messages: list[str] = []
        doctest.DocTestRunner(optionflags=flags).run(session, out=messages.append, clear_globs=False)
    names |= session.globs
    assert not messages, "".join(messages)


@pytest.mark.parametrize("page", RUN, ids=[page.stem for page in RUN])
def test_code_of_a_page_runs(page: Path, names: dict[str, Any]) -> None:
    for block in blocks(page):
        run(block, page, names)


@pytest.mark.parametrize("page", RUN, ids=[page.stem for page in RUN])
def test_the_first_block_of_a_page_runs_in_an_empty_notebook(page: Path, names: dict[str, Any]) -> None:
    """As a reader copies it: nothing is imported, nothing is connected."""
    if page.parent != DOCS and page.stem != "README":
        pytest.skip("a page on how the library is made")
    dd.disconnect()
    names.clear()
    run(blocks(page)[0], page, names)
    assert names["dd"] is dd


def listed_in(page: Path) -> list[Path]:
    """The pages in the tables of contents of a page; the reference lists tables and endpoints itself."""
    tables = re.findall(r"```\{toctree\}\n(.*?)```", page.read_text(encoding="utf-8"), flags=re.S)
    lines = [line for table in tables for line in table.split() if not line.startswith(":")]
    paths = [page.parent / f"{line}.md" for line in lines]
    return [path for path in paths if path.parent.name not in ("gallery", "reference") and path.exists()]


def test_every_page_is_listed_and_its_links_resolve() -> None:
    assert {"README", "conventions", "tutorial"} <= {page.stem for page in RUN}
    for page in PAGES:
        assert page.read_text(encoding="utf-8").count("\n```") % 2 == 0, page
    assert 20 < len(listed_in(DOCS / "guides.md")) <= 27, "the guide is short"
    listed = [DOCS / "index.md", ROOT / "README.md", DOCS / "tables.md", DOCS / "endpoints.md"]
    for page in PAGES:
        listed += listed_in(page)
    assert sorted(listed) == sorted(PAGES)
    for page in PAGES:
        for link in re.findall(r"\]\(([\w./-]+\.(?:md|ipynb))", page.read_text(encoding="utf-8")):
            place = page.parent / link.replace("gallery/", "../notebooks/")
            is_made = "reference/" in link or link == "gallery/index.md"
            assert is_made or place.exists(), f"{page.name}: {link}"
