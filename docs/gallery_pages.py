"""The gallery: every notebook, run from its bundle, with its figure on the index."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

__all__ = ["write"]

NOTEBOOKS = Path(__file__).parent.parent / "notebooks"
ORDER = (
    "which_spreads_survive_fees",
    "did_the_picks_pay",
    "eight_hours_four_hours_one_hour",
    "who_holds_the_open_interest",
    "a_btc_surface_you_can_defend",
    "thirty_day_volatility_from_one_snapshot",
    "is_volatility_rich",
    "what_did_the_surface_move_cost_me",
    "anatomy_of_a_liquidation_cascade",
    "reproducible_report",
)
_SECONDS = 120
_HEAD = """\
# Gallery

One question and one figure each. They run from a recording of the synthetic sample that lies beside them, so
they give the same numbers without a network; `LIVE = True` in the first cell asks a live source instead. One
on past picks shows figures made from recorded data of 2020 to mid-2024.
"""


def write(folder: Path) -> None:
    """Run every notebook and write it, its figure and the index into `folder`."""
    folder.mkdir(exist_ok=True)
    parts = [_HEAD]
    for name in ORDER:
        notebook = _executed(NOTEBOOKS / f"{name}.ipynb")
        nbformat.write(notebook, folder / f"{name}.ipynb")
        (folder / f"{name}.png").write_bytes(_figure(notebook))
        title, question = _headline(notebook)
        parts.append(f"## [{title}]({name}.ipynb)\n\n{question}\n\n[![{title}]({name}.png)]({name}.ipynb)\n")
    toc = "\n".join(ORDER)
    parts.append(f"```{{toctree}}\n:hidden:\n\n{toc}\n```\n")
    (folder / "index.md").write_text("\n".join(parts), encoding="utf-8")


def _executed(path: Path) -> Any:
    notebook = nbformat.read(path, as_version=4)
    quiet = ["--log-level=ERROR"]
    where = {"metadata": {"path": str(path.parent)}}
    for cell in notebook.cells:
        cell.source = cell.source.replace("](../docs/", "](../")
    NotebookClient(notebook, extra_arguments=quiet, timeout=_SECONDS, resources=where).execute()
    return notebook


def _figure(notebook: Any) -> bytes:
    """The notebook's figure; it has one."""
    outputs = [o for cell in notebook.cells for o in cell.get("outputs", [])]
    (image,) = [o["data"]["image/png"] for o in outputs if "image/png" in o.get("data", {})]
    return base64.b64decode(image)


def _headline(notebook: Any) -> tuple[str, str]:
    """Title and first paragraph."""
    title, _, rest = notebook.cells[0].source.partition("\n")
    return title.removeprefix("# "), rest.strip().split("\n\n", 1)[0]
