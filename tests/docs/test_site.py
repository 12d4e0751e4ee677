"""Drawings, commands, lengths of lines and the search of the site."""

from __future__ import annotations

import importlib
import re
from pathlib import Path
from types import ModuleType

import pytest

from derivdata.cli import _parser
from tests.docs.test_pages import PAGES

_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", flags=re.M | re.S)


def blocks(docs: Path, *languages: str) -> list[tuple[str, str]]:
    """Page and code of each block in one of the languages."""
    pages = [(path.stem, path.read_text(encoding="utf-8")) for path in PAGES if path.is_relative_to(docs)]
    return [
        (name, code)
        for name, text in pages
        for language, code in _BLOCK.findall(text)
        if language in languages
    ]


@pytest.fixture(autouse=True)
def modules(docs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have modules of docs/ importable."""
    monkeypatch.syspath_prepend(str(docs))


@pytest.fixture
def diagrams(modules: None) -> ModuleType:
    """docs/diagrams.py."""
    return importlib.import_module("diagrams")


def test_drawings_are_current_and_each_is_on_a_page(docs: Path, diagrams: ModuleType) -> None:
    """`faults` follows the table that the soak writes, and is drawn when the site is built."""
    text = "\n".join(page.read_text(encoding="utf-8") for page in PAGES)
    for name, drawing in diagrams.DRAWINGS.items():
        assert f"images/{name}.svg)" in text
        if name != "faults":
            stored = (docs / "images" / f"{name}.svg").read_text(encoding="utf-8")
            assert stored == drawing(), "run python docs/diagrams.py"


def test_a_drawing_in_a_page_takes_the_colours_of_the_page(diagrams: ModuleType) -> None:
    part = diagrams.inlined("commands")
    assert part.startswith('<div class="diagram">\n<svg ')
    assert "<style>" not in part
    assert not re.search(r'(fill|stroke)="', part)
    assert "\n\n" not in part, "an empty line ends the HTML block"


def test_the_figure_of_faults_counts_what_the_table_says(diagrams: ModuleType, docs: Path) -> None:
    count = "1,500 calls: 1,246 right, 253 typed errors, 1 wrong, 0 untyped"
    row = f"| faults at 70 % | most fail | 40 calls | 9 calls | {count} |"
    assert diagrams.fault_counts(f"| promise | what |\n{row}\n| one | two |") == [
        ("faults at 70 %", 1246, 253, 1)
    ]
    page = (docs / "methods" / "reliability.md").read_text(encoding="utf-8")
    assert [row[0] for row in diagrams.fault_counts(page)] == [
        "faults at 30 %",
        "faults at 70 %",
        "every fetcher",
    ]


def test_code_is_not_cut_or_wrapped_at_1200_pixels(docs: Path) -> None:
    """A line of 116 characters fits, in the site's font for code."""
    languages = ("python", "py", "sh", "ini", "dockerfile", "text")
    long = [
        (page, line)
        for page, code in blocks(docs, *languages)
        for line in code.splitlines()
        if len(line) > 110
    ]
    assert long == []


def test_commands_of_pages_are_understood(docs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    outputs = importlib.import_module("command_outputs")
    count = 0
    for page, code in blocks(docs, "sh"):
        for words in outputs.commands(code):
            words = words[: words.index(">")] if ">" in words else words
            if "--version" not in words:
                try:
                    _parser().parse_args(words)
                except SystemExit:
                    pytest.fail(f"{page}: {words}: {capsys.readouterr().err}")
            count += 1
    assert count > 40


def test_commands_of_a_block_are_found() -> None:
    outputs = importlib.import_module("command_outputs")
    code = 'pip install x\nderivdata info a   # what is in it\nderivdata fetch f.h \\\n    --to "b c"\n'
    assert outputs.commands(code) == [["info", "a"], ["fetch", "f.h", "--to", "b c"]]


def test_a_command_shows_what_it_writes_and_how_it_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outputs = importlib.import_module("command_outputs")
    monkeypatch.chdir(tmp_path)
    [(line, text)] = outputs.run("derivdata info nowhere\n")
    assert line == "derivdata info nowhere"
    assert text.startswith("derivdata info: ")
    assert text.endswith("(exit code 1)\n")


def test_the_search_needs_every_word_on_one_page() -> None:
    search = importlib.import_module("search_check")
    index = {
        "docnames": ["a", "b", "c"],
        "terms": {"max": [0, 2], "pain": 2, "skew": []},
        "titleterms": {"skew": [1]},
    }
    assert search.pages_with(index, ["max", "pain"]) == {"c"}
    assert search.pages_with(index, ["skew"]) == {"b"}
    assert search.pages_with(index, ["nowhere"]) == set()


def test_words_that_readers_look_for_are_on_their_pages(docs: Path) -> None:
    """The build compares the index itself."""
    for words, page in importlib.import_module("search_check").EXPECTED.items():
        text = (docs / f"{page}.md").read_text(encoding="utf-8").lower()
        assert [word for word in words.split() if word[:5] not in text] == [], page
