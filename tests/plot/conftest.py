"""Figures of hand-made data without provenance."""

from __future__ import annotations

import pytest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Ignore the notice that a figure has no source; one test expects it."""
    ignored = pytest.mark.filterwarnings("ignore:the figure cannot state its source")
    for item in items:
        if "tests/plot/" in item.path.as_posix():
            item.add_marker(ignored, append=False)
