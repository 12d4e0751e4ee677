"""The list of rules and the page that shows it."""

from __future__ import annotations

from pathlib import Path

from derivdata.client.rules import RULES

PAGE = Path(__file__).resolve().parents[1] / "docs" / "methods" / "checked-answers.md"


def test_the_page_has_a_row_for_every_rule() -> None:
    lines = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| ")]
    rows = [tuple(cell.strip() for cell in line.strip("|").split("|")) for line in lines]
    assert [(name, outcome) for name, _, outcome in rows[1:]] == [(rule.name, rule.outcome) for rule in RULES]
    assert all(compares for _, compares, _ in rows), "the page alone says what is compared with what"
    assert len({rule.name for rule in RULES}) == len(RULES)
