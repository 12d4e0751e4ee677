"""Every public function has a benchmark row, a measured question under 50 ms, or a reason for neither."""

from __future__ import annotations

import ast
from pathlib import Path

from benchmarks import functions

ROWS = Path(functions.__file__).parents[1] / "rows"


def measured() -> dict[str, tuple[str, float]]:
    """The question to each function and its milliseconds, as `python -m benchmarks.functions` wrote them."""
    found = functions.LINE.finditer(functions.FILE.read_text())
    return {each["name"]: (each["question"], float(each["ms"])) for each in found}


def names_of_rows() -> set[str]:
    """What the modules of rows write in quotes, names of rows among it; importing them needs their peers."""
    trees = (ast.parse(path.read_text()) for path in ROWS.glob("*.py"))
    nodes = (node for tree in trees for node in ast.walk(tree))
    return {node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)}


def test_every_public_function_is_timed_or_exempt_with_a_reason() -> None:
    named = functions.QUESTIONS.keys() | functions.ROWS_OF.keys() | functions.UNTIMED.keys()
    assert functions.public_names() - named == set(), "give each a question, a row, or a reason"
    assert named - functions.public_names() == set(), "these are public no more"
    assert not functions.UNTIMED.keys() & (functions.QUESTIONS.keys() | functions.ROWS_OF.keys())
    assert all(functions.UNTIMED.values())


def test_the_rows_that_are_named_exist() -> None:
    assert set(functions.ROWS_OF.values()) - names_of_rows() == set()


def test_what_takes_over_50_ms_has_a_row() -> None:
    slow = {name for name, (_, ms) in measured().items() if ms > functions.LIMIT_SECONDS * 1e3}
    assert slow - functions.ROWS_OF.keys() == set()


def test_every_question_was_measured_as_it_is_worded_now() -> None:
    asked = {name: question.words for name, question in functions.QUESTIONS.items()}
    assert {name: question for name, (question, _) in measured().items()} == asked
