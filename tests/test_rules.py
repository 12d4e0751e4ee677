"""The list of rules and the page that shows it."""

from __future__ import annotations

import csv
from pathlib import Path

from derivdata.client.rules import RULES

PAGE = Path(__file__).resolve().parents[1] / "docs" / "methods" / "checked_responses.csv"


def test_the_page_has_a_row_for_every_rule() -> None:
    with PAGE.open(encoding="utf-8", newline="") as file:
        _, *rows = csv.reader(file)
    assert [(name, outcome) for name, _, outcome in rows] == [(rule.name, rule.outcome) for rule in RULES]
    assert all(compares for _, compares, _ in rows), "the page alone says what is compared with what"
    assert len({rule.name for rule in RULES}) == len(RULES)
