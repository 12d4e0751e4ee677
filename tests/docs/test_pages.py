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
DOCS = ROOT / "docs"
PAGES = [
    ROOT / "README.md",
    *sorted(
        page for folder in (DOCS, DOCS / "methods", DOCS / "development") for page in folder.glob("*.md")
    ),
]
MOST_USER_PAGES = 25
MOST_WORDS = 20.0
"""In the mean sentence of a page."""
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
    shutil.copy(ROOT / "notebooks" / "longs_in_the_week_of_ftx.ddz", folder)
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
                exec(compile("\n" * (block.line - 1) + code, str(page), "exec"), names)  # noqa: S102 - our pages


def listed_in(page: Path) -> list[Path]:
    """The pages in the tables of contents of a page; the reference lists tables and endpoints itself."""
    tables = re.findall(r"```\{toctree\}\n(.*?)```", page.read_text(encoding="utf-8"), flags=re.S)
    lines = [line for table in tables for line in table.split() if not line.startswith(":")]
    paths = [page.parent / f"{line}.md" for line in lines]
    return [path for path in paths if path.parent.name not in ("gallery", "reference") and path.exists()]


def test_the_guide_is_short_and_its_titles_are_nouns() -> None:
    pages = listed_in(DOCS / "guides.md")
    assert 20 < len(pages) <= MOST_USER_PAGES
    for page in pages:
        [title, *_] = re.findall(r"^# (.*)", page.read_text(encoding="utf-8"), flags=re.M)
        assert not title.endswith("?"), title
        assert not re.match(r"(How|What|Which|Who|Where|When|Is)\b", title), title


def sentences(text: str) -> list[str]:
    """The sentences of a page, without code, tables, headings and pictures; code in a sentence is a word."""
    text = re.sub(r"^```.*?^```", "", text, flags=re.M | re.S)
    text = re.sub(r"^( *\||#|<!--|!\[|:::|    ).*$", "", text, flags=re.M)
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", re.sub(r"`[^`]*`", "x", text))
    text = re.sub(r"^\s*([-*]|\d+\.) ", "\n\n", text, flags=re.M)
    parts = [" ".join(part.split()) for part in re.split(r"\n\s*\n", text)]
    found = [one for part in parts for one in re.split(r"(?<=[.!?:])\s+(?=[A-Zx\"(*])", part)]
    return [one for one in found if len(one.split()) > 2]


@pytest.mark.parametrize("page", sorted([ROOT / "README.md", *DOCS.glob("*.md")]), ids=lambda page: page.stem)
def test_sentences_of_a_page_are_short(page: Path) -> None:
    found = sentences(page.read_text(encoding="utf-8")) or [""]
    assert sum(len(one.split()) for one in found) / len(found) <= MOST_WORDS


@pytest.mark.parametrize("page", RUN, ids=[page.stem for page in RUN])
def test_the_first_block_of_a_page_runs_in_an_empty_notebook(
    page: Path, recordings: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a reader copies it: nothing is imported, nothing is connected."""
    if page.parent != DOCS and page.stem != "README":
        pytest.skip("a page on how the library is made")
    shutil.copytree(recordings, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    dd.disconnect()
    names: dict[str, Any] = {}
    first = blocks(page)[0]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dd.errors.DataNotice)
        if first.code.startswith(">>>"):
            _check_session(first.code, first, page, names)
        else:
            exec(compile(_HOSTED.sub('dd.connect("sample")', first.code), str(page), "exec"), names)  # noqa: S102 - our pages
    assert names["dd"] is dd


def test_every_page_is_found_and_listed_and_its_links_lead_somewhere() -> None:
    assert {"README", "conventions", "tutorial"} <= {page.stem for page in RUN}
    for page in PAGES:
        assert page.read_text(encoding="utf-8").count("\n```") % 2 == 0, page
    listed = [DOCS / "index.md", ROOT / "README.md", DOCS / "tables.md", DOCS / "endpoints.md"]
    for page in PAGES:
        listed += listed_in(page)
    assert sorted(listed) == sorted(PAGES)
    for page in PAGES:
        for link in re.findall(r"\]\(([\w./-]+\.(?:md|ipynb))", page.read_text(encoding="utf-8")):
            place = page.parent / link.replace("gallery/", "../notebooks/")
            is_made = "reference/" in link or link == "gallery/index.md"
            assert is_made or place.exists(), f"{page.name}: {link}"


def _check_session(code: str, block: Block, page: Path, names: dict[str, Any]) -> None:
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    session = doctest.DocTestParser().get_doctest(code, names, page.stem, str(page), block.line - 1)
    said: list[str] = []
    with pd.option_context("display.width", 120, "display.max_columns", 20):
        doctest.DocTestRunner(optionflags=flags).run(session, out=said.append, clear_globs=False)
    names |= session.globs
    assert not said, "".join(said)
