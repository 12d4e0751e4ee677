"""Commands ``report``, ``bundle``, ``rerun`` and those of notebooks."""

from __future__ import annotations

import argparse
import ast
import json
import os
import re
import warnings
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import derivdata
from derivdata.cli.options import FeesAction, say

_REPORT = ("symbols", "window", "venues", "fee_bps", "expiries", "sections", "source_text")
"""Options of the command that are the report's own, kept with a recording."""


def add_report(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``derivdata report``."""
    parser.add_argument(
        "source",
        nargs="?",
        help="'sample', an archive's folder, a URL, or a bundle (FILE.ddz) that is replayed; "
        "without it DERIVDATA_BASE_URL is asked",
    )
    parser.add_argument("--symbols", nargs="+", metavar="SYMBOL", help="assets (default: BTC ETH)")
    parser.add_argument("--out", type=Path, default=Path("report.html"), metavar="FILE")
    parser.add_argument("--window", help="lookback of the histories (default: 30d)")
    _add_choices(parser)
    parser.add_argument("--bundle", type=Path, metavar="FILE", help="record every answer into a bundle")
    changed = "compare with the bundle of an earlier report: what changed"
    parser.add_argument("--previous", type=Path, metavar="BUNDLE", help=changed)
    parser.add_argument("--now", metavar="ISO", help="freeze the clock of an archive or the sample")
    parser.set_defaults(run=_report)


def _add_choices(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--venues", nargs="+", metavar="VENUE", help="only these venues (default: all)")
    parser.add_argument(
        "--fee-bps",
        nargs="+",
        action=FeesAction,
        metavar="BPS",
        help="cost of one trade in bps: a number for all venues, VENUE=BPS for one (default: 5)",
    )
    parser.add_argument(
        "--expiries", nargs="+", metavar="DATE", help="only options of these days (default: all)"
    )
    parser.add_argument(
        "--sections",
        nargs="+",
        metavar="SECTION",
        help="of funding carry oi options liquidations quality (default: all)",
    )
    parser.add_argument(
        "--source-text", metavar="TEXT", help="who made the data and its licence, for the page and figures"
    )


def _report(arguments: argparse.Namespace) -> None:
    from derivdata import errors, report

    given = {name: getattr(arguments, name) for name in _REPORT if getattr(arguments, name) is not None}
    with ExitStack() as stack, warnings.catch_warnings():
        warnings.simplefilter("ignore", errors.DataNotice)  # the report itself states every notice
        chosen = _source(arguments, given, stack)
        replayed = arguments.source if str(arguments.source or "").endswith(".ddz") else None
        bundle = arguments.bundle or replayed
        out = arguments.out
        previous = arguments.previous
        say(report(chosen.pop("symbols"), out=out, bundle=bundle, previous=previous, **chosen))


def _source(arguments: argparse.Namespace, given: dict[str, Any], stack: ExitStack) -> dict[str, Any]:
    """Connect or replay; return the report's options: those given, else those recorded, else defaults."""
    from derivdata import connect, record, replay

    chosen = {"symbols": ["BTC", "ETH"]} | given
    if str(arguments.source or "").endswith(".ddz"):
        recorded: dict[str, Any] = stack.enter_context(replay(arguments.source)).about.get("report", {})
        return chosen | recorded | given
    connect(arguments.source, now=arguments.now)
    if arguments.bundle is not None:
        stack.enter_context(record(arguments.bundle, about={"report": chosen}))
    return chosen


def add_bundle(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``derivdata bundle``."""
    parser.add_argument("action", choices=("info", "verify"))
    parser.add_argument("file", type=Path, metavar="FILE")
    parser.set_defaults(run=_bundle)


def _bundle(arguments: argparse.Namespace) -> None:
    from derivdata import bundle

    if arguments.action == "info":
        say(bundle.info(arguments.file))
    else:
        say(f"{arguments.file}: {bundle.verify(arguments.file)} responses, every hash right")


def add_rerun(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``derivdata rerun``."""
    parser.add_argument("card", type=Path, metavar="CARD", help="a file that dd.card wrote, or a report")
    parser.add_argument(
        "data", type=Path, nargs="?", metavar="RECORDING", help="the responses behind it, from dd.record"
    )
    parser.add_argument(
        "--archive", type=Path, metavar="FOLDER", help="the archive whose rows the result was made of"
    )
    parser.set_defaults(run=_rerun)


def _rerun(arguments: argparse.Namespace) -> int:
    from derivdata import errors, rerun

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", errors.DataNotice)  # the first run showed them
        table = rerun(arguments.card, arguments.data, archive=arguments.archive)
    say(table.to_string(index=False))
    differing = int((~table["equal"]).sum())
    bits = "bit-equal" if table.attrs["identical"] else "not bit-equal"
    say(f"{len(table)} figures, {differing} beyond their tolerance; the result is {bits}")
    return 1 if differing else 0


_KEYS = re.compile(
    r"""api_key\s*=\s*["'][^"'\s]+["']"""
    r"""|DERIVDATA_API_KEY["']?\]?\s*=\s*["'][^"'\s]+["']"""
    r"""|X-Api-Key["']?\s*[:=]\s*["']?[\w.-]{6,}""",
    re.IGNORECASE,
)
_PATHS = re.compile(r"(?<![\w/.:])(?:file:///|/(?:home|Users|root|mnt|media)/\S|[A-Za-z]:\\{1,2}\w)")
_CLOCK = re.compile(
    r"\b(?:datetime|Timestamp|date|pd)\.(?:now|utcnow|today)\(|\btime\.time\("
    r"""|Timestamp\(\s*["'](?:now|today)["']"""
)
_PROVENANCE = re.compile(r"\bdd\.(?:replay|record|provenance)\(|\breplay\(|\.provenance\(|\bsha256\(")
_START_AT = {
    "history": 1,
    "settlements": 1,
    "taker": 1,
    "trades": 1,
    "prices": 1,
    "index_published": 1,
    "atm_history": 2,
    "surface_history": 2,
    "depth_history": 2,
}
"""Place of `start` among the arguments of fetchers of a window."""


class NotebookProblem(NamedTuple):
    """Something to fix: the cell, counted from 1 (0: the whole notebook), its kind, and the fault."""

    cell: int
    kind: str
    words: str

    def __str__(self) -> str:
        return f"{f'cell {self.cell}' if self.cell else 'notebook'}: {self.kind}: {self.words}"


def add_notebook(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``derivdata notebook``."""
    parser.add_argument("action", choices=("check",))
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE", help="notebooks, FILE.ipynb")
    parser.set_defaults(run=_notebook)


def _notebook(arguments: argparse.Namespace) -> int:
    total = 0
    for path in arguments.files:
        problems = check_notebook(path)
        total += len(problems)
        for problem in problems:
            say(f"{path}: {problem}")
        if not problems:
            say(f"{path}: nothing to fix")
    return 1 if total else 0


def check_notebook(path: Path) -> list[NotebookProblem]:
    """Return what to fix in a notebook: keys, paths, clocks, provenance, label and windows.

    Raises `ValueError`: the file is not a notebook of format 4.
    """
    try:
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        sources = [(cell["cell_type"], "".join(cell["source"]), _shown(cell)) for cell in cells]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise ValueError(f"{path} is not a notebook of format 4 (.ipynb)") from None
    code = "\n".join(source for kind, source, _ in sources if kind == "code")
    clocked = not re.search(r"\breplay\(|\bnow\s*=\s*[\"']", code)  # nothing fixes the source's clock
    problems = []
    for number, (kind, source, shown) in enumerate(sources, 1):
        problems += [
            NotebookProblem(number, *finding) for finding in _of_text(source, shown, is_code=kind == "code")
        ]
        if kind == "code" and clocked:
            problems += [NotebookProblem(number, "window", words) for words in _open_windows(source)]
    problems += [NotebookProblem(number, *finding) for number, *finding in _of_outputs(cells)]
    problems += [NotebookProblem(0, *finding) for finding in _of_whole(path, sources, code)]
    return sorted(problems)


def _shown(cell: dict[str, Any]) -> str:
    """Return the text that the outputs of a cell show."""
    texts: list[Any] = []
    for output in cell.get("outputs", []):
        texts += [output.get("text", ""), output.get("evalue", ""), output.get("traceback", "")]
        texts += [text for kind, text in output.get("data", {}).items() if kind.startswith("text/")]
    return "\n".join(text if isinstance(text, str) else "".join(text) for text in texts)


def _of_text(source: str, shown: str, *, is_code: bool) -> Iterator[tuple[str, str]]:
    """Yield keys, local paths and readings of the machine's clock in a cell and its outputs."""
    whole = f"{source}\n{shown}"
    own = os.environ.get("DERIVDATA_API_KEY", "")
    if _KEYS.search(whole) or (len(own) > 5 and own in whole):
        yield "key", "an API key: leave it to DERIVDATA_API_KEY, and ask for a new one if this was shared"
    local = _PATHS.search(whole)
    if local:
        yield "path", f"a path of one machine ({local[0].strip()}…): write it relative to the notebook"
    clock = _CLOCK.search(source) if is_code else None
    if clock:
        yield "clock", f"{clock[0].rstrip('(')} differs on every run: take dd.asof(), or write the date"


def _tree(source: str) -> ast.AST:
    """Parse a cell without its magics; one that is no Python is empty."""
    try:
        return ast.parse(re.sub(r"^\s*[%!].*$", "", source, flags=re.MULTILINE))
    except SyntaxError:
        return ast.Module([], [])


def _open_windows(source: str) -> Iterator[str]:
    """Yield calls of fetchers whose window ends now, whenever that is."""
    for call in (node for node in ast.walk(_tree(source)) if isinstance(node, ast.Call)):
        match call.func:
            case ast.Attribute(value=ast.Attribute(attr=family) | ast.Name(id=family), attr=name):
                place = _START_AT.get(name)
            case _:
                continue
        if family not in derivdata._FAMILIES or place is None:
            continue
        if len(call.args) < place + 2 and "end" not in {keyword.arg for keyword in call.keywords}:
            yield f"{family}.{name}(…) has no end: give one, or replay a recording (dd.replay)"


def _of_outputs(cells: list[dict[str, Any]]) -> Iterator[tuple[int, str, str]]:
    """Yield cells that failed, wrote to stderr, or were run in another order."""
    last = 0
    code = [(n, cell) for n, cell in enumerate(cells, 1) if cell["cell_type"] == "code" and cell["source"]]
    if code and not any(cell.get("outputs") for _, cell in code):
        yield 0, "outputs", "stored without outputs: a reader who does not run it sees no result"
        return
    for number, cell in code:
        outputs = cell.get("outputs", [])
        if any(output.get("output_type") == "error" for output in outputs):
            yield number, "outputs", "the cell ended in an error"
        if any(output.get("name") == "stderr" for output in outputs):
            yield number, "outputs", "the cell wrote to stderr (warnings, progress bars)"
        count = cell.get("execution_count") or 0
        if count <= last:
            yield number, "outputs", "run out of order, or not at all: restart the kernel and run all cells"
        last = max(last, count)


def _of_whole(path: Path, sources: list[tuple[str, str, str]], code: str) -> Iterator[tuple[str, str]]:
    """Yield missing provenance and a missing synthetic label."""
    if "derivdata" not in code:
        return
    if not _PROVENANCE.search(code):
        yield (
            "provenance",
            "no recording, dd.provenance or SHA-256 of a file: the data cannot be identified",
        )
    read = "\n".join(shown if kind == "code" else f"{source}\n{shown}" for kind, source, shown in sources)
    if _synthetic(path, code) and "synthetic" not in read.lower():
        yield "synthetic", "synthetic data without the word: say it in the text"


def _synthetic(path: Path, code: str) -> bool:
    """Return whether the notebook reads the sample, or a recording of synthetic data."""
    if re.search(r"""connect\(\s*["']sample""", code):
        return True
    from derivdata import bundle, errors

    for name in re.findall(r"""replay\(\s*["']([^"']+)["']""", code):
        try:
            if bundle.info(path.parent / name).manifest.synthetic:
                return True
        except (errors.BundleError, OSError):
            continue
    return False
