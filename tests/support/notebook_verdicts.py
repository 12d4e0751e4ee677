"""Check that the verdict of a notebook rests on figures and assertions in its cells."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

VERDICT = re.compile(r"(?:## Verdict|\*\*Verdict\.\*\*)\s+")
NUMBER = re.compile(r"(?<![\w.])\d[\d,]*(?:\.\d+)?")
ORDER = re.compile(
    r"\b(?:first|most|least|largest|smallest|widest|furthest|highest|lowest|harder|every|none)\b",
    re.IGNORECASE,
)


def unsupported_claims(notebook: Path) -> Iterator[str]:
    """Yield numbers of the verdict that no cell shows, and superlatives that no assertion supports.

    An assertion supports a sentence that contains its message. ``assert all(paid < 0), "on every venue"``
    fails in every run of the notebook in which the data says otherwise.
    """
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    text = "".join(cells[-1]["source"])
    start = VERDICT.match(text)
    if cells[-1]["cell_type"] != "markdown" or start is None:
        return
    shown = " ".join("".join(cell["source"]) + " " + output_text(cell) for cell in cells[:-1])
    numbers = {float(number.replace(",", "")) for number in NUMBER.findall(shown)}
    messages = [message for cell in cells if cell["cell_type"] == "code" for message in assertions(cell)]
    for sentence in re.split(r"(?<=[.:;])\s+", " ".join(text[start.end() :].split())):
        for number in NUMBER.findall(sentence):
            if not is_shown(number, numbers):
                yield f"{number} is in no cell and no output above"
        order = ORDER.search(sentence)
        if order and not any(message and message in sentence.lower() for message in messages):
            yield f"“{order[0]}” needs an assert whose message is a part of “{sentence}”"


def output_text(cell: dict[str, Any]) -> str:
    """Return the text that the outputs of a cell show."""
    texts: list[str] = []
    for output in cell.get("outputs", []):
        texts.append("".join(output.get("text", "")))
        texts += ["".join(text) for kind, text in output.get("data", {}).items() if kind.startswith("text/")]
    return "\n".join(texts)


def assertions(cell: dict[str, Any]) -> Iterator[str]:
    """Yield the messages of the assertions of a code cell in lower case; magics are omitted."""
    source = re.sub(r"^\s*[%!].*$", "", "".join(cell["source"]), flags=re.MULTILINE)
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Assert) and isinstance(node.msg, ast.Constant):
            yield str(node.msg.value).lower()


def is_shown(number: str, numbers: set[float]) -> bool:
    """Return whether a number of a sentence is a rounded one of the numbers, as it is or in percent."""
    digits = len(number.partition(".")[2])
    value = float(number.replace(",", ""))
    half = 0.5000001 * 10.0**-digits  # a half may be rounded up or to even
    return any(abs(scale * shown - value) <= half for shown in numbers for scale in (1, 100))
