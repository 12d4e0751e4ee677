"""Figures that documentation pages state and long tests measure."""

from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"


def coverage_on_page(page: str, label: str) -> list[float]:
    """Return the percentages of the one table row that starts with a label, as fractions."""
    lines = (DOCS / page).read_text(encoding="utf-8").splitlines()
    [row] = [line for line in lines if line.startswith(f"| {label} |")]
    return [float(cell.strip(" %")) / 100 for cell in row.split("|") if cell.rstrip().endswith("%")]
