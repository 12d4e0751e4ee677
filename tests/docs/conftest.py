"""Modules of docs/ that make pages, imported from where they lie."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType

import pytest

DOCS = Path(__file__).resolve().parents[2] / "docs"


@pytest.fixture
def docs() -> Path:
    """The folder of the pages."""
    return DOCS


@pytest.fixture
def generate(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """docs/generate.py."""
    monkeypatch.syspath_prepend(str(DOCS))
    return importlib.import_module("generate")


@pytest.fixture
def reference_pages(generate: ModuleType) -> ModuleType:
    """docs/reference_pages.py."""
    return importlib.import_module("reference_pages")
