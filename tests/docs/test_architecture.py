"""The pages on the architecture and on releases agree with the configuration."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def test_diagram_has_every_layer_in_order() -> None:
    page = (ROOT / "docs" / "development" / "architecture.md").read_text(encoding="utf-8")
    picture = page[page.index("```\n") : page.index("```\n", page.index("```\n") + 4)]
    layers = PROJECT["tool"]["importlinter"]["contracts"][0]["layers"]
    places = []
    for layer in layers[1:]:  # __main__ is the command line
        names = [name.strip() for name in layer.split("|")]
        column = r"(?:^ |  |· ){}(?=  | ·|$)"  # a word of its own, not one in a description
        results = [re.search(column.format(name), picture, flags=re.M) for name in names]
        assert all(results), layer
        places.append(min(match.start() for match in results if match))
    assert places == sorted(places)
