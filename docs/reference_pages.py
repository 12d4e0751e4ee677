"""The reference: one page per public module, with everything in its ``__all__``, from the docstrings."""

from __future__ import annotations

import importlib
import inspect
import re
from enum import Enum
from pathlib import Path
from typing import Any

from generate import FAMILIES, grid

import derivdata

__all__ = ["modules", "write"]

_TOP = "Connection, cache, recordings, report"
_OTHERS = {
    "archive": "Archives",
    "datasets": "Recorded data sets",
    "tables": "Tables, panels, surfaces",
    "units": "Units",
    "errors": "Errors and notices",
    "plot": "Figures",
    "sample": "The sample",
    "sources.service": "The local service",
}


def modules() -> dict[str, str]:
    """Every documented module and its title, in the order of the index."""
    names = [n for n in derivdata.analysis.__all__ if inspect.ismodule(getattr(derivdata.analysis, n))]
    analysis = {"analysis": "Analysis: any panel"} | {f"analysis.{n}": f"Analysis: {n}" for n in names}
    families = {name: title for name, title in FAMILIES.items() if name in derivdata._FAMILIES}
    return {"": _TOP} | families | analysis | _OTHERS


def write(folder: Path) -> None:
    """Write the index and a page for each module into `folder`."""
    folder.mkdir(exist_ok=True)
    for name, title in modules().items():
        (folder / f"{_file(name)}.md").write_text(_page(name, title), encoding="utf-8")
    rows = ((f"[{title}]({_file(name)}.md)", _first_line(_object(name))) for name, title in modules().items())
    toc = "\n".join(["../tables", "../endpoints", *(_file(name) for name in modules())])
    head = "# Reference\n\n[Tables](../tables.md), [endpoints](../endpoints.md), and the functions by module:"
    text = f"{head}\n\n{grid(('module', ''), rows)}\n```{{toctree}}\n:hidden:\n\n{toc}\n```\n"
    (folder / "index.md").write_text(text, encoding="utf-8")


def _page(name: str, title: str) -> str:
    module = _object(name)
    dotted = f"derivdata.{name}" if name else "derivdata"
    names = [n for n in module.__all__ if _is_shown(getattr(module, n))]
    rows = ((f"[`{n}`](#{dotted}.{n})", _first_line(getattr(module, n))) for n in names)
    # Headings of a docstring are not sections of the page, because two pages would have the same label.
    intro = re.sub(r"^(\w+)\n-{4,}$", r".. rubric:: \1\n", inspect.cleandoc(module.__doc__ or ""), flags=re.M)
    entries = "\n".join(_entry(dotted, n, getattr(module, n)) for n in names)
    return (
        f"# {title}\n\n```{{eval-rst}}\n{intro}\n```\n\n{grid(('name', ''), rows)}\n"
        f"```{{eval-rst}}\n.. py:module:: {dotted}\n\n{entries}\n```\n"
    )


def _entry(dotted: str, name: str, value: Any) -> str:
    if inspect.isclass(value):
        members = "" if issubclass(value, tuple) else "\n   :members:"
        if members and any(base.__module__.startswith("derivdata") for base in value.__bases__):
            members += "" if issubclass(value, Exception) else "\n   :inherited-members:"
        every = "\n   :undoc-members:" if issubclass(value, Enum) else ""
        return f".. autoclass:: {dotted}.{name}{members}{every}\n"
    return f".. autofunction:: {dotted}.{name}\n"


def _is_shown(value: Any) -> bool:
    return inspect.isfunction(value) or inspect.isclass(value)


def _object(name: str) -> Any:
    if not name or name in derivdata.__all__:
        return getattr(derivdata, name) if name else derivdata
    return importlib.import_module(f"derivdata.{name}")


def _first_line(value: Any) -> str:
    doc = inspect.getdoc(value) or ""
    return doc.split("\n", 1)[0].replace("|", "\\|").replace("``", "`")


def _file(name: str) -> str:
    return name.replace(".", "-") or "top"
