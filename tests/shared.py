"""Where the optional recorded data and published numbers lie: beside the project, or nowhere."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pytest

_ROOT = Path(__file__).resolve().parents[2] / "shared"
_KNOWN = "known_answers/{}.csv"


def shared_path(relative: str) -> Path:
    """The path of a recorded file, or a skip that says what is absent."""
    path = _ROOT / relative
    if not path.exists():
        pytest.skip(_absent(relative))
    return path


def known(name: str) -> list[dict[str, str]]:
    """Rows of published numbers, or a skip that says what is absent."""
    with shared_path(_KNOWN.format(name)).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def known_cases(name: str, column: str) -> list[Any]:
    """A case for each row that has something in a column, which names it; one skipped if all are absent."""
    relative = _KNOWN.format(name)
    if not (_ROOT / relative).exists():
        return [pytest.param({}, id="absent", marks=pytest.mark.skip(reason=_absent(relative)))]
    return [pytest.param(row, id=row[column]) for row in known(name) if row[column]]


def _absent(relative: str) -> str:
    return f"recorded data is absent: shared/{relative}"
