"""Outputs below the code of a page: every block that the tests run is run here, and shown with its result.

A block shows the value of each expression in it; a block that only assigns shows its last assignment. A block
whose lines begin with ``>>>`` has its output. Commands show their output (command_outputs), drawings of
diagrams.py become a part of the page, and figures have a light and a dark version. Folders and ports of the
build machine are replaced.

A comment before a block sets how it is run: ``<!-- not run: why -->``, or ``<!-- site only: why -->`` if the
tests omit it. The blocks after ``site only: simulated venues`` or ``simulated bucket`` use these.
"""

from __future__ import annotations

import ast
import contextlib
import getpass
import io
import itertools
import os
import re
import shutil
import tempfile
import tomllib
import warnings
from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import xarray as xr
from command_outputs import run, write_files
from diagrams import inlined
from simulated import bucket, venues

import derivdata as dd

__all__ = [
    "captions",
    "hide_machine",
    "is_drawing",
    "last_assigned",
    "setup",
    "themed",
    "values_of",
    "with_outputs",
]

FOLDER = Path(__file__).parent / "outputs"
RECORDINGS = (Path(__file__).parents[1] / "notebooks" / "longs_in_the_week_of_ftx.ddz",)
"""Next to the notebook of a reader who follows the tutorial."""
README = Path(__file__).parents[1] / "README.md"
_PLACE_OF_README = "<!-- docs/outputs.py puts the README here. -->\n"
_LIGHT_AND_DARK = re.compile(r"^!\[([^\]]*)\]\(images/report\.png\)$", flags=re.M)
_PROJECT = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8"))[
    "project"
]
_REPOSITORY = _PROJECT["urls"]["Repository"]
_FENCE = re.compile(
    r"^(?P<before>[^\n]*)\n+```(?P<language>python|sh)\n(?P<code>.*?)^```$", flags=re.M | re.S
)
_IMAGE = re.compile(r"^!\[[^\]]*\]\(images/(\w+)\.png\)\n", flags=re.M)
_DRAWING = re.compile(r"^!\[[^\]]*\]\((?:\.\./)?images/(\w+)\.svg\)$", flags=re.M)
_NOT_RUN = "<!-- not run: "
_SIMULATED = {"<!-- site only: simulated venues -->": venues, "<!-- site only: simulated bucket -->": bucket}
_HOSTED = re.compile(r'dd\.connect\("https://…"[^)]*\)')
_ELSEWHERE = ("real-data", "gallery/", "reference/", "development/")
_ROWS, _LINES, _COLUMNS, _WIDTH = 10, 24, 10, 600
_DARK = {
    "#000000": "#e6eaf0",
    "#262626": "#e6eaf0",
    "#ffffff": "#12161c",
    "#0072b2": "#2a8ccf",
    "#7f3c8d": "#b57bc6",
    "#542788": "#b39ddb",
    "#b35806": "#e8a04c",
    "#5f6670": "#a9b3bf",
}
"""Colours of figures on a dark page, by those on a light page; as in style.css of the report."""


def setup(app: Any) -> None:
    """Have Sphinx pass the text of every page through `with_outputs`."""
    FOLDER.mkdir(exist_ok=True)
    mpl.use("Agg")
    app.connect("source-read", with_outputs)


def with_outputs(app: Any, page: str, source: list[str]) -> None:
    """Run the blocks of a page, and write the output of each below it."""
    if page == "index":
        source[0] = source[0].replace(_PLACE_OF_README, _readme())
    source[0] = _DRAWING.sub(lambda match: inlined(match[1]), source[0])
    if page.startswith(_ELSEWHERE) or not _FENCE.search(source[0]):
        return
    names: dict[str, Any] = {"dd": dd, "np": np, "pd": pd, "xr": xr}
    before = Path.cwd()
    with (
        tempfile.TemporaryDirectory() as folder,
        warnings.catch_warnings(),
        contextlib.ExitStack() as simulations,
    ):
        warnings.simplefilter("ignore")
        os.chdir(folder)
        try:
            for day, name in (("2026-06-29", "monday.ddz"), ("2026-06-30", "tuesday.ddz")):
                dd.connect("sample", now=day)
                with dd.record(name):
                    dd.funding.history("BTC", "1d", venues=["binance"])
            for recording in RECORDINGS:
                shutil.copy(recording, folder)
            dd.connect("sample")
            write_files(source[0])
            shared = _Run(page, names, itertools.count(1), simulations)
            # A picture that is in the page for readers elsewhere is drawn by a block here.
            drawn = tuple(dd.plot.__all__)
            text = _IMAGE.sub(lambda found: "" if found[1].startswith(drawn) else found[0], source[0])
            source[0] = _FENCE.sub(lambda found: _block(found, shared), text)
        finally:
            dd.disconnect()  # a page may end in a replay
            os.chdir(before)
            plt.close("all")


def _readme() -> str:
    """Return the README below its title, with links and pictures as they are from docs/."""
    text = README.read_text(encoding="utf-8").partition("\n")[2]
    text = text.replace("](docs/", "](").replace("](notebooks)", "](gallery/index.md)")
    text = _LIGHT_AND_DARK.sub(_two_pictures, text)
    return re.sub(r"\]\(([A-Z]+\.md)\)", rf"]({_REPOSITORY}/blob/main/\1)", text)


def _two_pictures(found: re.Match[str]) -> str:
    return "".join(
        f"\n:::{{image}} images/report{suffix}.png\n:class: only-{mode}\n:alt: {found[1]}\n:::\n"
        for suffix, mode in (("", "light"), ("-dark", "dark"))
    )


class _Run(NamedTuple):
    """Shared state of the blocks of one page."""

    page: str
    names: dict[str, Any]
    numbers: Iterator[int]
    simulations: contextlib.ExitStack


def _block(found: re.Match[str], shared: _Run) -> str:
    """Return a block with its output, as the comment before it sets."""
    if found["before"].startswith(_NOT_RUN):
        return found[0]
    if found["before"] in _SIMULATED:
        shared.simulations.enter_context(_SIMULATED[found["before"]]())
    if found["language"] == "sh":
        return "\n".join([found[0], "", *_commands(found["code"])])
    return _python(found, shared)


def _python(found: re.Match[str], shared: _Run) -> str:
    names, page = shared.names, shared.page
    code = _HOSTED.sub('dd.connect("sample")', found["code"])
    if code.startswith(">>>"):
        if "Traceback" not in code:
            lines = [line[4:] for line in code.splitlines() if line.startswith((">>> ", "... "))]
            exec("\n".join(lines), names)  # noqa: S102 - our pages
        return found[0]
    plt.close("all")
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(io.StringIO()):
        values = values_of(code, names, page)
    shown = [found[0], ""]
    if printed.getvalue():
        shown.append(_pre(printed.getvalue(), _LINES))
    values = [(label, value) for label, value in values if not is_drawing(value)]
    others = [pair for pair in values if not pair[0].startswith("dd.connect(")]
    figures = plt.get_fignums()
    if not (others or figures or printed.getvalue()):
        # A connection is shown where it is all that there is to see.
        others = last_assigned(code, names) or values
    for label, value in others:
        if len(others) > 1:
            shown.append(f'\n<div class="output-of"><code>{escape(label)}</code></div>\n')
        shown.append(_shown(value, 5 if len(others) > 1 else _ROWS))
    for number, caption in itertools.zip_longest(figures, captions(code)[: len(figures)], fillvalue=""):
        shown.append(_figure(plt.figure(number), f"{page}-{next(shared.numbers)}", caption))
    return "\n".join(shown)


def _commands(code: str) -> list[str]:
    """Return the output of each command of a block, under its line if there are several."""
    done = run(code)
    shown = []
    for line, text in done:
        if len(done) > 1:
            shown.append(f'\n<div class="output-of"><code>{escape(line)}</code></div>\n')
        pre = _pre(text or "(writes nothing)", _LINES)
        table = "   " in text  # aligned by blanks: not to be wrapped
        shown.append(pre.replace('class="output"', 'class="output aligned"', 1) if table else pre)
    return shown


def values_of(code: str, names: dict[str, Any], page: str) -> list[tuple[str, Any]]:
    """Run the code, and return each expression in it that has a value, with that value."""
    values = []
    for statement in ast.parse(code).body:
        if not isinstance(statement, ast.Expr):
            exec(compile(ast.Module([statement], []), page, "exec"), names)  # noqa: S102 - our pages
            continue
        value = eval(compile(ast.Expression(statement.value), page, "eval"), names)  # noqa: S307 - our pages
        if value is not None:
            values.append((" ".join(ast.unparse(statement).split()), value))
    return values


def last_assigned(code: str, names: dict[str, Any]) -> list[tuple[str, Any]]:
    """Return the names and values of the last assignment, if they are data."""
    found = [
        target.id
        for statement in ast.walk(ast.parse(code))
        if isinstance(statement, ast.Assign)
        for target in statement.targets
        if isinstance(target, ast.Name)
    ]
    values = [(name, names[name]) for name in found if name in names and not is_drawing(names[name])]
    return values[-1:]


def is_drawing(value: Any) -> bool:
    if isinstance(value, np.ndarray) and value.dtype == object:
        value = value.ravel().tolist()
    several = value if isinstance(value, list | tuple) else [value]
    return any(type(one).__module__.startswith(("matplotlib", "mpl_toolkits")) for one in several)


def _shown(value: Any, rows: int) -> str:
    """Return a value as HTML: tables as tables, the rest as text."""
    if isinstance(value, pd.Series):
        value = value.to_frame()
    if isinstance(value, pd.DataFrame):
        large = len(value) > rows
        table = value.to_html(
            max_rows=rows, max_cols=_COLUMNS, border=0, show_dimensions=large, justify="left"
        )
        table = re.sub(r"<td>([^<]{40,})</td>", r'<td class="long">\1</td>', hide_machine(table))
        return f'\n<div class="output">\n{table}\n</div>\n'
    with xr.set_options(display_width=100, display_expand_attrs=False, display_expand_indexes=False):
        if isinstance(value, xr.Dataset | xr.DataArray):
            html = hide_machine(" ".join(value._repr_html_().split()))
            return f'\n<div class="output xarray">\n{html}\n</div>\n'
        return _pre(value if isinstance(value, str) else repr(value), _LINES if rows == _ROWS else 12)


def _pre(text: str, most: int) -> str:
    lines = [
        line if len(line) <= _WIDTH else f"{line[:_WIDTH]} …"
        for line in hide_machine(text).rstrip().splitlines()
    ]
    kept = [*lines[:most], "…"] if len(lines) > most else lines
    text = "\n".join(escape(line) or "&#8203;" for line in kept)  # an empty line would end the HTML block
    return f'\n<div class="output"><pre>{text}</pre></div>\n'


def hide_machine(text: str) -> str:
    """Return the text as every machine would show it: no folders, ports or addresses of this one."""
    here = str(Path.cwd())
    text = (
        text.replace(f"{here}/", "")
        .replace(here, ".")
        .replace(str(dd.cache_info().folder), "~/.cache/derivdata")
    )
    text = text.replace(str(Path.home()), "~")
    text = re.sub(r"127\.0\.0\.1:\d+", "127.0.0.1:8080", text)
    text = re.sub(r" at 0x[0-9a-f]{6,}", "", text)
    for word in (tempfile.gettempdir(), f"/{getpass.getuser()}/"):
        if word in text:
            raise ValueError(f"a page would show {word!r} of this machine: {text[:200]}")
    return text


def captions(code: str) -> list[str]:
    """Return how to read the figure of each call of ``dd.plot`` in a block; empty without a caption."""
    known = pd.read_csv(Path(__file__).parent / "figure_captions.csv")
    found = []
    for call in re.findall(r"\bplot\.(\w+\(.*)", code):
        if not call.startswith(("data(", "card(")):
            fitting = known[[re.match(pattern, call) is not None for pattern in known["call"]]]
            found.append(str(fitting["caption"].iloc[0]) if len(fitting) else "")
    return found


def themed(figure: Any) -> dict[str, str]:
    """Return a figure as SVG for light and for dark pages, by the end of the file's name."""
    text = io.StringIO()
    figure.savefig(text, format="svg", transparent=True, bbox_inches="tight")
    light = text.getvalue()
    dark = light
    for color, other in _DARK.items():
        dark = dark.replace(color, other)
    # Text of matplotlib has no colour attribute: black is the default of SVG.
    dark = dark.replace("<svg ", '<svg fill="#e6eaf0" ', 1)
    return {"": light, "-dark": dark}


def _figure(figure: Any, name: str, caption: str) -> str:
    """Write a figure for light and for dark pages, and return the lines of the page with its caption."""
    for suffix, svg in themed(figure).items():
        (FOLDER / f"{name}{suffix}.svg").write_text(svg, encoding="utf-8")
    title = next((ax.get_title(loc="left") for ax in figure.axes if ax.get_title(loc="left")), "")
    for ax in figure.axes:
        title = title or next((one.get_title(loc="left") for one in ax.child_axes), "")
    alt = " ".join(title.split()) or "figure"
    pictures = "\n".join(
        f"\n:::{{image}} outputs/{name}{suffix}.svg\n:class: only-{mode}\n:alt: {alt}\n:::\n"
        for suffix, mode in (("", "light"), ("-dark", "dark"))
    )
    chart = f"\n::::{{container}} chart\n{pictures}\n::::\n"
    if caption:
        chart += f"\n:::{{container}} reading\n**How to read it.** {caption}\n:::\n"
    return chart
