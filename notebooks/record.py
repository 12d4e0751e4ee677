"""Record the requests of the notebooks, and store their outputs: ``python notebooks/record.py [NAME ...]``.

Each notebook's cells run against the sample, or against an archive of recorded data, while a bundle of its
name is recorded next to it. Then they run from the bundle, and their outputs are written into the notebook.
With ``--outputs`` only the second step is done. It also writes the card of a notebook's result (`CARDS`).
"""

from __future__ import annotations

import ast
import base64
import contextlib
import io
import json
import os
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt
import pandas as pd

import derivdata as dd

__all__ = ["CARDS", "NOTEBOOKS", "card_of", "code_cells", "main", "record", "run", "store"]

FOLDER = Path(__file__).resolve().parent
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
_CLOCKS = {"anatomy_of_a_liquidation_cascade": "2026-06-24T13:30"}
RECORDED = (
    "a_funding_spread_through_a_regime_change",
    "longs_in_the_week_of_ftx",
    "open_interest_around_a_cascade",
    "open_interest_on_october_10",
    "what_a_venue_outage_does_to_a_carry_book",
)
"""Notebooks on recorded market data; ``DERIVDATA_RECORDED`` names the archive with the data."""

CARDS = {
    "a_funding_spread_through_a_regime_change": "paid",
    "open_interest_around_a_cascade": "oi",
    "what_a_venue_outage_does_to_a_carry_book": "paid",
    "a_btc_surface_you_can_defend": "fixed",
    "anatomy_of_a_liquidation_cascade": "found",
    "eight_hours_four_hours_one_hour": "paid",
    "is_volatility_rich": "cone",
    "longs_in_the_week_of_ftx": "paid",
    "open_interest_on_october_10": "table",
    "reproducible_report": "rates",
    "spot_perpetual_or_future": "trade",
    "thirty_day_volatility_from_one_snapshot": "index",
    "what_did_the_surface_move_cost_me": "fitted",
    "what_was_traded_at_which_volatility": "flow",
    "which_spreads_survive_fees": "forecasts[0]",
    "who_holds_the_open_interest": "trend",
    "who_is_positioned_how": "accounts",
}
"""The result of each notebook that has a card; `derivdata rerun` computes it again from the bundle."""

_SWITCH = re.compile(r"^LIVE = False.*\n.*LIVE else.*$", flags=re.M)


def code_cells(notebook: Path) -> list[str]:
    """The code of a notebook, cell by cell."""
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    return ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]


def run(
    cells: Sequence[str],
    label: str = "notebook",
    names: dict[str, Any] | None = None,
    picture: Callable[[Any], dict[str, Any]] | None = None,
) -> list[list[dict[str, Any]]]:
    """Run cells in one namespace, as a kernel does, and return the outputs of each in the notebook's format.

    A figure is the output of the cell that drew it; a last expression that ends with ``;`` is not shown.
    `names` is the namespace, for callers that need the cells' variables. `picture` returns the output of a
    figure; None stores it as PNG.
    """
    picture = picture or _picture
    names = {} if names is None else names
    names["__name__"] = "__main__"
    outputs = []
    for place, code in enumerate(cells):
        body = ast.parse(code).body
        last = body.pop() if body and isinstance(body[-1], ast.Expr) else None
        where = f"{label}, code cell {place}"
        printed = io.StringIO()
        value = None
        with contextlib.redirect_stdout(printed):
            exec(compile(ast.Module(body, []), where, "exec"), names)  # noqa: S102 - as a kernel
            if last is not None:
                value = eval(compile(ast.Expression(last.value), where, "eval"), names)  # noqa: S307 - as a kernel
        shown = [_stream(printed.getvalue())] if printed.getvalue() else []
        shown += [picture(plt.figure(number)) for number in plt.get_fignums()]
        plt.close("all")
        if value is not None and not code.rstrip().endswith(";"):
            shown.append(_result(value, place + 1))
        outputs.append(shown)
    return outputs


def _stream(text: str) -> dict[str, Any]:
    return {"output_type": "stream", "name": "stdout", "text": text.splitlines(keepends=True)}


def _result(value: Any, count: int) -> dict[str, Any]:
    with pd.option_context("display.width", 200, "display.max_columns", 30, "display.max_rows", 30):
        data = {"text/plain": repr(value).splitlines(keepends=True)}
    if isinstance(value, pd.DataFrame):
        data["text/html"] = value.to_html(max_rows=20, border=0).splitlines(keepends=True)
    return {"output_type": "execute_result", "execution_count": count, "metadata": {}, "data": data}


def _picture(figure: Any) -> dict[str, Any]:
    image = io.BytesIO()
    figure.savefig(image, format="png", dpi=90, bbox_inches="tight", metadata={"Software": None})
    data = {"image/png": base64.b64encode(image.getvalue()).decode()}
    return {"output_type": "display_data", "metadata": {}, "data": data}


_TOLERANCES = {
    # The covariance of a fit is an inverse, whose last digits differ by the kernel of BLAS
    "what_did_the_surface_move_cost_me": dict.fromkeys(
        ("covariance.max", "covariance.mean", "covariance.min"), 1e-6
    ),
}
"""Tolerances of figures, by notebook; all others are 1e-9."""


def card_of(notebook: Path) -> Path:
    """Return the card of a notebook's result."""
    return FOLDER / "cards" / f"{notebook.stem}.json"


def store(notebook: Path) -> None:
    """Run a notebook from its bundle, and write its outputs into it."""
    content = json.loads(notebook.read_text(encoding="utf-8"))
    names: dict[str, Any] = {}
    outputs = iter(run(code_cells(notebook), notebook.name, names))
    dd.disconnect()
    if notebook.stem in CARDS:
        result = eval(CARDS[notebook.stem], names)  # noqa: S307 - a name, or a place of a list
        dd.card(result, card_of(notebook), tolerances=_TOLERANCES.get(notebook.stem))
    for count, cell in enumerate((c for c in content["cells"] if c["cell_type"] == "code"), 1):
        cell["outputs"], cell["execution_count"] = next(outputs), count
    notebook.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def record(notebook: Path) -> Path:
    """Record the bundle of one notebook and return its path."""
    bundle = notebook.with_suffix(".ddz")
    cells = [_SWITCH.sub("LIVE = True", code) for code in code_cells(notebook)]
    source = os.environ["DERIVDATA_RECORDED"] if notebook.stem in RECORDED else "sample"
    dd.connect(source, now=_CLOCKS.get(notebook.stem), cache="off")
    with dd.record(bundle):
        run(cells, notebook.name)
    dd.disconnect()
    return bundle


def main(names: Sequence[str]) -> None:
    """Record the notebooks named, or all, and store their outputs."""
    mpl.use("Agg")
    os.chdir(FOLDER)
    chosen = [name for name in names if name != "--outputs"]
    for notebook in NOTEBOOKS:
        if chosen and notebook.stem not in chosen:
            continue
        asks = not notebook.with_suffix(".csv").exists()  # the others read files next to them
        if asks and "--outputs" not in names:
            record(notebook)
        store(notebook)
        print(notebook.name)


if __name__ == "__main__":
    main(sys.argv[1:])
