"""Drawings, commands, lengths of lines and the search of the site."""

from __future__ import annotations

import importlib
import re

import pytest

from derivdata.cli import _parser
from tests.docs.test_pages import DOCS, PAGES


def blocks(*languages: str) -> list[tuple[str, str]]:
    """Page and code of each block in one of the languages."""
    block = re.compile(r"^```(\w+)\n(.*?)^```$", flags=re.M | re.S)
    return [
        (page.stem, code)
        for page in PAGES
        if page.is_relative_to(DOCS)
        for language, code in block.findall(page.read_text(encoding="utf-8"))
        if language in languages
    ]


def test_drawings_are_current_and_used() -> None:
    """`faults` follows the table that the soak writes, and is drawn when the site is built."""
    diagrams = importlib.import_module("diagrams")
    text = "\n".join(page.read_text(encoding="utf-8") for page in PAGES)
    for name, drawing in diagrams.DRAWINGS.items():
        assert f"images/{name}.svg)" in text
        if name != "faults":
            stored = (DOCS / "images" / f"{name}.svg").read_text(encoding="utf-8")
            assert stored == drawing(), "run python docs/diagrams.py"
    part = diagrams.inlined("commands")
    assert part.startswith('<div class="diagram">\n<svg ')
    assert not re.search(r'(fill|stroke)="|<style>', part), "it takes the colours of the page"
    assert "\n\n" not in part, "an empty line ends the HTML block"
    row = 'faults at 70 %,a,b,"1,500 calls: 1,246 right, 253 typed errors, 1 wrong, 0 untyped"'
    assert diagrams.fault_counts(f"a,b\n{row}\n1,2\n") == [("faults at 70 %", 1246, 253, 1)]


def test_code_fits_into_1200_pixels() -> None:
    """A line of 116 characters fits, in the site's font for code."""
    code = blocks("python", "py", "sh", "ini", "dockerfile", "text")
    assert [(page, line) for page, text in code for line in text.splitlines() if len(line) > 110] == []


def test_documented_commands_parse(capsys: pytest.CaptureFixture[str]) -> None:
    outputs = importlib.import_module("command_outputs")
    commands = [(page, words) for page, code in blocks("sh") for words in outputs.commands(code)]
    assert len(commands) > 40
    for page, words in commands:
        words = words[: words.index(">")] if ">" in words else words
        if "--version" not in words:
            try:
                _parser().parse_args(words)
            except SystemExit:
                pytest.fail(f"{page}: {words}: {capsys.readouterr().err}")


def test_search_terms_are_on_their_pages() -> None:
    """The build compares the index itself."""
    for words, page in importlib.import_module("search_check").EXPECTED.items():
        text = (DOCS / f"{page}.md").read_text(encoding="utf-8").lower()
        assert [word for word in words.split() if word[:5] not in text] == [], page
