"""The table of guarantees, their names and their tests agree, and a soak writes its figures there."""

from __future__ import annotations

import csv
import io
from pathlib import Path

from tests.reliability.promises import PAGE, PROMISES, rows, written

FOLDER = Path(__file__).parent


def page() -> str:
    return PAGE.read_text(encoding="utf-8")


def test_every_guarantee_has_a_row_with_result_and_counterexample() -> None:
    assert tuple(rows(page())) == PROMISES
    assert all(all(cells) for cells in rows(page()).values())
    assert {len(line) for line in csv.reader(io.StringIO(page()))} == {5}
    said = "".join(path.read_text(encoding="utf-8") for path in FOLDER.rglob("test_*.py"))
    assert [name for name in PROMISES if f'"{name}"' not in said] == []
    with (PAGE.parent / "guards.csv").open(encoding="utf-8", newline="") as file:
        guards = list(csv.DictReader(file))
    assert {row["guarantee"] for row in guards} == set(PROMISES)
    assert all(row["change"] and row["failure"] for row in guards)


def test_soak_writes_only_its_results() -> None:
    before = page()
    after = written(before, {"the key": ["none", "some", "none"], "arguments": ["1 request"]}, "a machine")
    assert rows(after)["the key"] == [*rows(before)["the key"][:-1], "2 × none; some"]
    assert rows(after)["arguments"][-1] == "1 request"
    assert after.splitlines()[0].endswith(",last soak (a machine)")
    changed = [a for a, b in zip(before.splitlines(), after.splitlines(), strict=True) if a != b]
    assert len(changed) == 3
    assert written(after, {}, "a machine") == after
