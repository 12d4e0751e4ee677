"""An archive that most tests read."""

from __future__ import annotations

from pathlib import Path

import pytest

from derivdata.sources.archive import Archive, open_archive
from tests.archive.rates import rates


@pytest.fixture
def archive(tmp_path: Path) -> Archive:
    """One of 96 hours of two symbols on two venues, in two months."""
    filled = open_archive(tmp_path / "mine")
    filled.append("funding_history", rates())
    return filled
