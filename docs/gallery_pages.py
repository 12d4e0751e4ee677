"""The gallery: every notebook, run from its bundle, with its figure on the index."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

__all__ = ["write"]

NOTEBOOKS = Path(__file__).parent.parent / "notebooks"
_SECONDS = 120
_HEAD = """\
# Gallery

One question and one figure each. All run from a recording of the synthetic market that lies beside them, so
they give the same numbers without a network; `LIVE = True` in the first cell asks a live source instead.
"""


def write(folder: Path) -> None:
    """Run every notebook and write it, its figure and the index into `folder`."""
    folder.mkdir(exist_ok=True)
    cards, names = [], []
    for path in sorted(NOTEBOOKS.glob("*.ipynb")):
        notebook = nbformat.read(path, as_version=4)
        NotebookClient(notebook, timeout=_SECONDS, resources={"metadata": {"path": str(NOTEBOOKS)}}).execute()
        nbformat.write(notebook, folder / path.name)
        (folder / f"{path.stem}.png").write_bytes(_figure(notebook))
        title, question = _headline(notebook)
        picture = f"[![{title}]({path.stem}.png)]({path.name})"
        cards.append(f"## [{title}]({path.name})\n\n{question}\n\n{picture}\n")
        names.append(path.stem)
    toc = "\n".join(names)
    (folder / "index.md").write_text(
        f"{_HEAD}\n{''.join(cards)}\n```{{toctree}}\n:hidden:\n\n{toc}\n```\n", encoding="utf-8"
    )


def _figure(notebook: Any) -> bytes:
    """The notebook's figure; it has one."""
    outputs = [o for cell in notebook.cells for o in cell.get("outputs", [])]
    (image,) = [o["data"]["image/png"] for o in outputs if "image/png" in o.get("data", {})]
    return base64.b64decode(image)


def _headline(notebook: Any) -> tuple[str, str]:
    """Title and first paragraph."""
    title, _, rest = notebook.cells[0].source.partition("\n")
    return title.removeprefix("# "), rest.strip().split("\n\n", 1)[0]
