"""Every public function has a benchmark row, a measured question under 50 ms, or a reason for neither."""

from __future__ import annotations

import ast
from pathlib import Path

from benchmarks import functions

ROWS = Path(functions.__file__).parents[1] / "rows"


def names_of_rows() -> set[str]:
    """Quoted texts in the modules of rows, including names of rows; importing them needs their peers."""
    trees = (ast.parse(path.read_text()) for path in ROWS.glob("*.py"))
    nodes = (node for tree in trees for node in ast.walk(tree))
    return {node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)}


def test_every_public_function_is_timed_or_exempt_with_a_reason() -> None:
    named = functions.QUESTIONS.keys() | functions.ROWS_OF.keys() | functions.UNTIMED.keys()
    assert functions.public_names() == named, "give each a question, a row, or a reason"
    assert not functions.UNTIMED.keys() & (functions.QUESTIONS.keys() | functions.ROWS_OF.keys())
    assert all(functions.UNTIMED.values())
    assert set(functions.ROWS_OF.values()) <= names_of_rows()


def test_benchmark_page_is_current_and_slow_calls_have_a_row() -> None:
    results = [*functions.LINE.finditer(functions.FILE.read_text())]
    asked = {name: question.words for name, question in functions.QUESTIONS.items()}
    assert {item["name"]: item["question"] for item in results} == asked
    slow = {item["name"] for item in results if float(item["ms"]) > functions.LIMIT_SECONDS * 1e3}
    assert slow <= functions.ROWS_OF.keys()
