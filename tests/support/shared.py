"""Published numbers in `tests/data`, and recorded market data next to the project, if present."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pytest

_RECORDED = Path(__file__).resolve().parents[3] / "shared"
_PUBLISHED = Path(__file__).resolve().parents[1] / "data" / "known_answers"


def shared_path(relative: str) -> Path:
    """Return the path of a recorded file, or skip the test and name the missing file."""
    path = _RECORDED / relative
    if not path.exists():
        pytest.skip(f"recorded data is absent: shared/{relative}")
    return path


def known_path(name: str) -> Path:
    """Return the path of a table of published numbers."""
    return _PUBLISHED / f"{name}.csv"


def known(name: str) -> list[dict[str, str]]:
    """Return the rows of a table of published numbers."""
    with known_path(name).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def known_cases(name: str, column: str) -> list[Any]:
    """Return a case for each published row that has a value in a column, which names the case."""
    return [pytest.param(row, id=row[column]) for row in known(name) if row[column]]
