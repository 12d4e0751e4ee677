"""Modules of docs/ that make pages can be imported."""

from __future__ import annotations

import pytest

from tests.docs.test_pages import DOCS


@pytest.fixture(autouse=True)
def _docs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(DOCS))
