"""Every public function and class is shown on a page or in a notebook."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Iterator
from types import ModuleType

import derivdata as dd
from tests.docs.test_pages import DOCS, PAGES, ROOT


def public_names(module: ModuleType, prefix: str = "dd") -> Iterator[str]:
    """Names as users write them, of functions and classes that are not errors."""
    for name in module.__all__:
        value = getattr(module, name)
        if inspect.ismodule(value):
            if hasattr(value, "__all__"):
                yield from public_names(value, f"{prefix}.{name}")
        elif inspect.isclass(value):
            if not issubclass(value, Exception):
                yield f"{prefix}.{name}"
        elif callable(value):
            yield f"{prefix}.{name}"


def shown_text() -> str:
    """Pages with their tables, and the cells of notebooks; without the list of old names."""
    tables = [path for path in DOCS.rglob("*.csv") if path.stem != "renamed"]
    texts = [path.read_text(encoding="utf-8") for path in [*PAGES, *tables]]
    for path in (ROOT / "notebooks").glob("*.ipynb"):
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        texts += ["".join(cell["source"]) for cell in cells]
    return "\n".join(texts)


def test_every_public_function_is_on_a_page_or_in_a_notebook() -> None:
    words = set(re.findall(r"\w+", shown_text()))
    names = set(public_names(dd))
    assert len(names) > 230
    assert sorted(name for name in names if name.rpartition(".")[2] not in words) == []
