"""Record what the notebooks ask for, from the sample: ``python notebooks/record.py [NAME ...]``.

Each notebook's cells run against the sample while a bundle of its name is recorded beside it.
"""

from __future__ import annotations

import ast
import json
import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl

import derivdata as dd

__all__ = ["NOTEBOOKS", "code_cells", "main", "record", "run"]

FOLDER = Path(__file__).resolve().parent
NOTEBOOKS = sorted(path for path in FOLDER.glob("*.ipynb") if not path.with_suffix(".csv").exists())
"""Those that ask for something; the others read figures that are stored beside them."""
_CLOCKS = {"anatomy_of_a_liquidation_cascade": "2026-06-24T13:30"}
_SWITCH = re.compile(r"^LIVE = False.*\n.*LIVE else.*$", flags=re.M)


def code_cells(notebook: Path) -> list[str]:
    """The code of a notebook, cell by cell."""
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    return ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]


def run(cells: Sequence[str], label: str = "notebook") -> dict[str, Any]:
    """Run cells in one namespace, as a kernel does: what a cell ends with is shown, here to nobody."""
    names: dict[str, Any] = {"__name__": "__main__"}
    for place, code in enumerate(cells):
        body = ast.parse(code).body
        last = body.pop() if body and isinstance(body[-1], ast.Expr) else None
        where = f"{label}, code cell {place}"
        exec(compile(ast.Module(body, []), where, "exec"), names)
        if last is not None:
            repr(eval(compile(ast.Expression(last.value), where, "eval"), names))
    return names


def record(notebook: Path) -> Path:
    """Record the bundle of one notebook and return its path."""
    bundle = notebook.with_suffix(".ddz")
    cells = [_SWITCH.sub("LIVE = True", code) for code in code_cells(notebook)]
    dd.connect("sample", now=_CLOCKS.get(notebook.stem), cache="off")
    with dd.record(bundle):
        run(cells, notebook.name)
    dd.disconnect()
    return bundle


def main(names: Sequence[str]) -> None:
    """Record the notebooks named, or all."""
    mpl.use("Agg")
    os.chdir(FOLDER)
    for notebook in NOTEBOOKS:
        if not names or notebook.stem in names:
            bundle = record(notebook)
            print(f"{bundle.name}: {bundle.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main(sys.argv[1:])
