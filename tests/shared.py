"""Where the optional recorded data and published numbers lie: beside the project, or nowhere."""

from __future__ import annotations

from pathlib import Path

import pytest

_ROOT = Path(__file__).resolve().parents[2] / "shared"


def shared_path(relative: str) -> Path:
    """The path of a recorded file, or a skip that says what is absent."""
    path = _ROOT / relative
    if not path.exists():
        pytest.skip(f"recorded data is absent: shared/{relative}")
    return path
