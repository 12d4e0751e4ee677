"""The pages on the architecture and on releases say what the configuration says."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import derivdata as dd

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def test_the_picture_has_every_layer_in_its_order() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    picture = page[page.index("```\n") : page.index("```\n", page.index("```\n") + 4)]
    layers = PROJECT["tool"]["importlinter"]["contracts"][0]["layers"]
    places = []
    for layer in layers[1:]:  # __main__ is the command line
        names = [name.strip() for name in layer.split("|")]
        column = r"(?:^ |  |· ){}(?=  | ·|$)"  # a word of its own, not one in a description
        found = [re.search(column.format(name), picture, flags=re.M) for name in names]
        assert all(found), layer
        places.append(min(match.start() for match in found if match))
    assert places == sorted(places)


def test_every_place_has_the_same_version_and_contributing_leads_to_the_pages() -> None:
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"\nversion: {dd.__version__}\n" in citation
    assert PROJECT["project"]["version"] == dd.__version__
    contributing = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    for page in ("docs/architecture.md", "docs/glossary.md", "docs/releases.md"):
        assert f"({page})" in contributing
        assert (ROOT / page).exists()
