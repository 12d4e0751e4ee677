"""The gallery: every notebook with its stored outputs, and figures of the cookbook, as a grid."""

from __future__ import annotations

import os
import re
import sys
import warnings
from html import escape
from importlib import import_module
from pathlib import Path
from typing import Any

import matplotlib as mpl
import nbformat
from outputs import themed

import derivdata as dd

__all__ = ["write"]

NOTEBOOKS = Path(__file__).parent.parent / "notebooks"
sys.path.append(str(NOTEBOOKS))
record = import_module("record")
mpl.use("Agg")
RECORDED = (
    "did_the_picks_pay",
    "a_funding_spread_through_a_regime_change",
    "what_a_venue_outage_does_to_a_carry_book",
    "longs_in_the_week_of_ftx",
    "open_interest_around_a_cascade",
    "open_interest_on_october_10",
)
"""Notebooks on recorded data of a market, which come first."""
SYNTHETIC = (
    "which_spreads_survive_fees",
    "eight_hours_four_hours_one_hour",
    "a_btc_surface_you_can_defend",
    "thirty_day_volatility_from_one_snapshot",
    "what_did_the_surface_move_cost_me",
    "who_holds_the_open_interest",
    "spot_perpetual_or_future",
    "who_is_positioned_how",
    "is_volatility_rich",
    "what_was_traded_at_which_volatility",
    "anatomy_of_a_liquidation_cascade",
    "reproducible_report",
)
"""Notebooks on the synthetic sample, which show a method."""
ORDER = (*RECORDED, *SYNTHETIC)
FIGURES = (
    ("how-do-the-venues-of-one-symbol-compare", "cookbook-1", "Funding by venue and time"),
    ("what-would-a-rule-have-earned", "cookbook-2", "Gain and drawdown of a rule"),
    ("how-much-is-a-pair-forecast-to-earn-and-when-are-its-costs-paid", "cookbook-3", "When costs are paid"),
    ("which-venues-have-it-and-which-gain-share", "cookbook-4", "Shares of open interest"),
    ("whose-share-rises-or-falls", "cookbook-5", "Trends of shares"),
    ("how-much-of-a-rise-is-due-to-the-price", "cookbook-6", "Open interest in USD and in coins"),
    ("the-same-on-several-venues", "cookbook-7", "Volatility of five venues"),
    ("smiles-with-their-fit", "cookbook-8", "Smiles with their fit"),
    ("the-term-structure", "cookbook-9", "Term structure"),
    ("max-pain-and-gamma", "cookbook-10", "Gamma by strike"),
    ("where-is-open-interest-by-strike", "cookbook-11", "Open options by strike"),
    ("is-implied-volatility-above-realised", "cookbook-12", "Implied and realised volatility"),
    ("who-was-liquidated-where-and-when", "cookbook-13", "Liquidations"),
    ("how-much-does-a-market-order-cost", "cookbook-14", "Depth of a book"),
)
"""Figures of the cookbook: the heading above each, the picture's name, and its title."""

_HEAD = """\
# Gallery

Each notebook has one question and one figure. Notebooks on recorded markets come first. Notebooks on
synthetic data show a method and support no claim about a market. The figures of the
[cookbook](../cookbook.md) follow. Every notebook runs from a recording next to it. Set `LIVE = True` in the
first cell to request a live source instead.
"""


def write(folder: Path) -> None:
    """Write every notebook, its figure and the index into `folder`."""
    folder.mkdir(exist_ok=True)
    parts, images = [_HEAD], []
    for heading, names in (("Recorded markets", RECORDED), ("Methods on synthetic data", SYNTHETIC)):
        parts.append(f'\n## {heading}\n\n<div class="gallery">')
        for name in names:
            notebook = _stored(NOTEBOOKS / f"{name}.ipynb")
            _draw(name, folder)
            _show_both(notebook, name)
            nbformat.write(notebook, folder / f"{name}.ipynb")
            title, question = _headline(notebook)
            parts.append(_card(f"{name}.html", f"../_images/{name}.svg", title, question))
            images += [f"{name}.svg", f"{name}-dark.svg"]
        parts.append("</div>\n")
    parts.append('\n## Figures\n\n<div class="gallery">')
    for heading, name, title in FIGURES:
        parts.append(_card(f"../cookbook.html#{heading}", f"../_images/{name}.svg", title, ""))
        images += [f"../outputs/{name}.svg", f"../outputs/{name}-dark.svg"]
    parts.append("</div>\n")
    # Sphinx copies the pictures that a directive names; the cards show them.
    parts += [f':::{{image}} {image}\n:class: hidden\n:alt: ""\n:::\n' for image in images]
    toc = "\n".join(ORDER)
    parts.append(f"```{{toctree}}\n:hidden:\n\n{toc}\n```\n")
    (folder / "index.md").write_text("\n".join(parts), encoding="utf-8")


def _card(link: str, image: str, title: str, words: str) -> str:
    """A picture that leads to a page; a link in the words would end the card's own."""
    plain = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", " ".join(words.split()))
    picture = f'<img src="{image}" alt="" loading="lazy">'
    if image.endswith(".svg"):
        dark = picture.replace(".svg", "-dark.svg")
        picture = picture.replace("<img", '<img class="only-light"') + dark.replace(
            "<img", '<img class="only-dark"'
        )
    words = f"<br><strong>{escape(title)}</strong><br><small>{escape(plain)}</small>"
    return f'<a href="{link}">{picture}{words}</a>'


def _stored(path: Path) -> Any:
    """Return the notebook with its stored outputs, which a test compares with a run."""
    notebook = nbformat.read(path, as_version=4)
    for cell in notebook.cells:
        cell.source = cell.source.replace("](../docs/", "](../")
    return notebook


def _draw(name: str, folder: Path) -> None:
    """Run a notebook from its recording, and write its figure for light and for dark pages."""
    figures: list[dict[str, str]] = []

    def picture(figure: Any) -> dict[str, Any]:
        figures.append(themed(figure))
        return {}

    before = Path.cwd()
    os.chdir(NOTEBOOKS)  # the recordings are next to the notebooks
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            record.run(record.code_cells(NOTEBOOKS / f"{name}.ipynb"), name, picture=picture)
    finally:
        dd.disconnect()
        os.chdir(before)
    [figure] = figures
    for suffix, svg in figure.items():
        (folder / f"{name}{suffix}.svg").write_text(svg, encoding="utf-8")


def _show_both(notebook: Any, name: str) -> None:
    """Replace the stored picture by those for light and for dark pages."""
    pictures = [
        f'<img class="only-{mode}" src="../_images/{name}{suffix}.svg" alt="The figure of the notebook">'
        for suffix, mode in (("", "light"), ("-dark", "dark"))
    ]
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            if "image/png" in output.get("data", {}):
                output["data"] = {"text/html": "".join(pictures)}


def _headline(notebook: Any) -> tuple[str, str]:
    """Title and first paragraph."""
    title, _, rest = notebook.cells[0].source.partition("\n")
    return title.removeprefix("# "), rest.strip().split("\n\n", 1)[0]
