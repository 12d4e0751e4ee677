"""Help pages: quoted messages and lists equal the code's, and machine paths are hidden."""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import derivdata as dd
from derivdata.support import times
from tests.docs.test_pages import DOCS

PACKAGE = Path(dd.__file__).parent


def literals(node: ast.AST) -> Iterator[str]:
    """Yield the texts of a module, with ``…`` for placeholders and concatenations."""
    for part in ast.walk(node):
        if isinstance(part, ast.Constant) and isinstance(part.value, str):
            yield part.value
        elif isinstance(part, ast.JoinedStr):
            yield "".join(str(p.value) if isinstance(p, ast.Constant) else "…" for p in part.values)


def quoted(page: str) -> list[str]:
    """Quotes in the first column of the tables, except names of errors and statuses."""
    cells = re.findall(r"^\| (`.+?) \|", page, flags=re.M)
    results = [text for cell in cells for text in re.findall(r"`([^`]+)`", cell)]
    return [text for text in results if not re.fullmatch(r"HTTP \d+|\w+(Error|Recorded)", text)]


def test_every_message_and_error_of_the_troubleshooting_page_is_in_the_sources() -> None:
    page = (DOCS / "troubleshooting.md").read_text(encoding="utf-8")
    texts = {text for path in PACKAGE.rglob("*.py") for text in literals(ast.parse(path.read_bytes()))}
    messages = quoted(page)
    assert len(messages) > 20
    assert [m for m in messages if not any(m.strip("… ?") in text for text in texts)] == []
    named = set(re.findall(r"`((?:[A-Z][a-z]+)+(?:Error|Notice|Recorded|Cached|Found))`", page))
    assert {"SchemaError", "VenueError", "NotRecorded"} <= named
    assert named <= set(dd.errors.__all__)


def test_the_page_of_symbols_lists_the_resolutions_and_units_of_windows() -> None:
    page = (DOCS / "connect.md").read_text(encoding="utf-8")
    sentence = page.partition("`resolution=`")[2].partition("The default")[0]
    assert set(re.findall(r"`(\w+)`", sentence)) == {*times.RESOLUTIONS, "raw"}
    units = re.findall(r"`(\w)`", page.partition("A lookback")[2].partition(":")[0])
    assert times.length("1.5d") == times.length("36h")
    assert [times.length(f"2{unit}", "w") > times.length(f"1{unit}", "w") for unit in units] == [True] * 5


def test_shown_output_has_no_local_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    outputs = importlib.import_module("outputs")
    monkeypatch.chdir(tmp_path)
    folder = dd.cache_info().folder
    text = f"{tmp_path}/rates.parquet, {folder}, {Path.home()}/x, 127.0.0.1:43817, <Past at 0x7f12ab34cd56>"
    shown = "rates.parquet, ~/.cache/derivdata, ~/x, 127.0.0.1:8080, <Past>"
    assert outputs.hide_machine(text) == shown
    with pytest.raises(ValueError, match="of this machine"):
        outputs.hide_machine(f"{tmp_path.parent}/another")
