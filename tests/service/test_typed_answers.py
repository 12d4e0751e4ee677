"""Responses of the hand-written market, against values computed by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.service.conftest import Caller

CASES: list[dict[str, Any]] = json.loads(
    Path(__file__).with_name("typed_answers.json").read_text(encoding="utf-8")
)
"""Requests, and the expected values by place; ``why`` gives the calculation."""


def at(body: Any, place: str) -> Any:
    """The value at ``a.0.b``; ``a.*.b,c`` are both fields of each row of a, and ``a.#`` is its length."""
    name, _, rest = place.partition(".")
    if not name:
        return body
    if name == "#":
        return len(body)
    if name == "*":
        return [at(row, rest) for row in body]
    if "," in name:
        return [body[item] for item in name.split(",")]
    return at(body[int(name) if isinstance(body, list) else name], rest)


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case['path']} {case['params']}")
def test_response_equals_hand_calculation(ask: Caller, case: dict[str, Any]) -> None:
    body = ask.body(case["path"], tier=case["tier"], **case["params"])
    assert {place: at(body, place) for place in case["expected"]} == case["expected"], case["why"]
