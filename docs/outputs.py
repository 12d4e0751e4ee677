"""Outputs below the code of a page: every block that the tests run is run here, and shown with its result.

A block whose lines begin with ``>>>`` shows its output itself. Figures have a light and a dark version.
"""

from __future__ import annotations

import ast
import contextlib
import io
import os
import re
import tempfile
import warnings
from html import escape
from pathlib import Path
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import xarray as xr

import derivdata as dd

__all__ = ["setup"]

FOLDER = Path(__file__).parent / "outputs"
_FENCE = re.compile(r"^(?P<before>[^\n]*)\n+```python\n(?P<code>.*?)^```$", flags=re.M | re.S)
_NOT_RUN = "<!-- not run: "
_HOSTED = re.compile(r'dd\.connect\("https://…"[^)]*\)')
_ELSEWHERE = ("real-data", "changelog")
_ROWS, _LINES = 10, 24
_DARK = {"#000000": "#e6eaf0", "#262626": "#e6eaf0", "#ffffff": "#12161c"}


def setup(app: Any) -> None:
    """Have Sphinx pass the text of every page through `with_outputs`."""
    FOLDER.mkdir(exist_ok=True)
    mpl.use("Agg")
    app.connect("source-read", with_outputs)


def with_outputs(app: Any, page: str, source: list[str]) -> None:
    """Run the blocks of a page, and write what each gives below it."""
    if "/" in page or page in _ELSEWHERE or "```python" not in source[0]:
        return
    names: dict[str, Any] = {"dd": dd, "np": np, "pd": pd, "xr": xr}
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        os.chdir(folder)
        try:
            for day, name in (("2026-06-29", "monday.ddz"), ("2026-06-30", "tuesday.ddz")):
                dd.connect("sample", now=day)
                with dd.record(name):
                    dd.funding.history("BTC", "1d", exchanges=["binance"])
            dd.connect("sample")
            numbers = iter(range(1, 1000))
            source[0] = _FENCE.sub(lambda found: _block(found, names, page, numbers), source[0])
        finally:
            os.chdir(before)
            plt.close("all")


def _block(found: re.Match[str], names: dict[str, Any], page: str, numbers: Any) -> str:
    if found["before"].startswith(_NOT_RUN):
        return found[0]
    code = _HOSTED.sub('dd.connect("sample")', found["code"])
    if code.startswith(">>>"):
        if "Traceback" not in code:
            lines = [line[4:] for line in code.splitlines() if line.startswith((">>> ", "... "))]
            exec("\n".join(lines), names)
        return found[0]
    plt.close("all")
    body = ast.parse(code).body
    last = body.pop() if isinstance(body[-1], ast.Expr) else None
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(io.StringIO()):
        exec(compile(ast.Module(body, []), page, "exec"), names)
        value = None if last is None else eval(compile(ast.Expression(last.value), page, "eval"), names)
    shown = [found[0], ""]
    if printed.getvalue():
        shown.append(_pre(printed.getvalue()))
    figures = [plt.figure(number) for number in plt.get_fignums()]
    if figures:
        shown += [_figure(figure, f"{page}-{next(numbers)}") for figure in figures]
    elif value is not None:
        shown.append(_shown(value))
    return "\n".join(shown)


def _shown(value: Any) -> str:
    """Return a value as HTML: tables as tables, the rest as text."""
    if isinstance(value, pd.Series):
        value = value.to_frame()
    if isinstance(value, pd.DataFrame):
        table = value.to_html(max_rows=_ROWS, border=0, show_dimensions=len(value) > _ROWS, justify="left")
        return f'\n<div class="output">\n{table}\n</div>\n'
    return _pre(value if isinstance(value, str) else repr(value))


def _pre(text: str) -> str:
    lines = text.rstrip().splitlines()
    kept = [*lines[:_LINES], "…"] if len(lines) > _LINES else lines
    text = "\n".join(escape(line) or "&#8203;" for line in kept)  # an empty line would end the HTML block
    return f'\n<div class="output"><pre>{text}</pre></div>\n'


def _figure(figure: Any, name: str) -> str:
    """Write a figure for light and for dark pages."""
    text = io.StringIO()
    figure.savefig(text, format="svg", transparent=True, bbox_inches="tight")
    svg = text.getvalue()
    (FOLDER / f"{name}.svg").write_text(svg, encoding="utf-8")
    for light, dark in _DARK.items():
        svg = svg.replace(light, dark)
    # Words of matplotlib have no colour of their own: black is the default of SVG.
    svg = svg.replace("<svg ", '<svg fill="#e6eaf0" ', 1)
    (FOLDER / f"{name}-dark.svg").write_text(svg, encoding="utf-8")
    title = next((ax.get_title(loc="left") for ax in figure.axes if ax.get_title(loc="left")), "")
    for ax in figure.axes:
        title = title or next((one.get_title(loc="left") for one in ax.child_axes), "")
    alt = " ".join(title.split()) or "figure"
    return "\n".join(
        f"\n:::{{image}} outputs/{name}{suffix}.svg\n:class: only-{mode}\n:alt: {alt}\n:::\n"
        for suffix, mode in (("", "light"), ("-dark", "dark"))
    )
