"""Figures that documentation pages state and long tests measure."""

import csv
from pathlib import Path

METHODS = Path(__file__).parents[2] / "docs" / "methods"


def coverage_on_page(table: str, label: str) -> list[float]:
    """Return the percentages of the row of a table of docs/methods that has a label, as fractions."""
    with (METHODS / f"{table}.csv").open(encoding="utf-8", newline="") as file:
        [row] = [row for row in csv.reader(file) if row[0] == label]
    return [float(cell.strip(" %")) / 100 for cell in row[1:]]
