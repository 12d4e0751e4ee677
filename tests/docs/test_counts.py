"""Numbers of venues on pages agree with the code."""

from __future__ import annotations

from pathlib import Path

import pytest

import derivdata as dd
from derivdata.sources.venues.registry import VENUES
from tests.docs.test_pages import DOCS, ROOT


@pytest.mark.parametrize("page", [ROOT / "README.md", DOCS / "connect.md"], ids=["README", "connect"])
def test_pages_state_current_counts_of_adapters_and_venues(page: Path) -> None:
    text = " ".join(page.read_text(encoding="utf-8").split())
    assert f"public APIs of {len(VENUES)} [venues]" in text
    assert f"{len(dd.tables.VENUES)} venues" in text


def test_the_readme_names_the_adapters_of_venues_that_the_api_lacks() -> None:
    text = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
    other = set(VENUES) - set(dd.tables.VENUES)
    assert f"| of the hosted API and the sample | {len(dd.tables.VENUES)} |" in text
    assert f"| with a keyless adapter | {len(VENUES)} |" in text
    assert f"| with both | {len(set(VENUES) & set(dd.tables.VENUES))} |" in text
    names, _, count = text.partition("with a keyless adapter only: ")[2].partition(" | ")
    names = names.replace(" and ", ", ")
    assert count.startswith(f"{len(other)} |")
    assert {name.lower() for name in names.split(", ")} == other
