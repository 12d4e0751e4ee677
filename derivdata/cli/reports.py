"""Commands ``report``, ``bundle``, ``rerun`` and ``notebook``."""

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
from derivdata.support.text import say

_REPORT = ("symbols", "window", "venues", "fee_bps", "expiries", "sections", "source_text")
"""Options of the command that are arguments of the report. They are stored in a recording."""


class _FeesAction(argparse.Action):
    """Parse costs by venue, such as ``4 binance=2.5``; the bare number applies to all other venues."""

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any, *_: Any
    ) -> None:
        """Store the costs."""
        fees: dict[str, float] = {}
        try:
            for word in values:
                venue, _, fee = word.rpartition("=")
                fees[venue or "others"] = float(fee)
        except ValueError:
            parser.error(f"--fee-bps must be numbers [bps] or VENUE=BPS, got {' '.join(values)!r}")
        setattr(namespace, self.dest, fees)


def add_report(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``derivdata report``."""
    parser.add_argument(
        "source",
        nargs="?",
        help="'sample', an archive's folder, a URL, or a bundle (FILE.ddz) that is replayed; "
        "default: DERIVDATA_BASE_URL",
    )
    parser.add_argument("--symbols", nargs="+", metavar="SYMBOL", help="assets (default: BTC ETH)")
    parser.add_argument("--out", type=Path, default=Path("report.html"), metavar="FILE")
    parser.add_argument("--window", help="lookback of the histories (default: 30d)")
    _add_choices(parser)
    parser.add_argument("--bundle", type=Path, metavar="FILE", help="record all responses into a bundle")
    changed = "compare with the bundle of an earlier report and list the changes"
    parser.add_argument("--previous", type=Path, metavar="BUNDLE", help=changed)
    parser.add_argument("--now", metavar="ISO", help="freeze the clock of an archive or the sample")
    parser.set_defaults(run=_report)


def _add_choices(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--venues", nargs="+", metavar="VENUE", help="only these venues (default: all)")
    parser.add_argument(
        "--fee-bps",
        nargs="+",
        action=_FeesAction,
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
        "--source-text", metavar="TEXT", help="source and licence of the data, for the page and figures"
    )


def _report(arguments: argparse.Namespace) -> None:
    from derivdata import errors, report

    passed = {name: getattr(arguments, name) for name in _REPORT if getattr(arguments, name) is not None}
    with ExitStack() as stack, warnings.catch_warnings():
        warnings.simplefilter("ignore", errors.DataNotice)  # the report itself states every notice
        options = _source(arguments, passed, stack)
        bundle = arguments.bundle
        if bundle is None and _is_bundle(arguments.source):
            bundle = arguments.source
        out = arguments.out
        previous = arguments.previous
        say(report(options.pop("symbols"), out=out, bundle=bundle, previous=previous, **options))


def _is_bundle(source: str | None) -> bool:
    return source is not None and source.endswith(".ddz")


def _source(arguments: argparse.Namespace, passed: dict[str, Any], stack: ExitStack) -> dict[str, Any]:
    """Connect or replay. Return the report's options: passed ones, else recorded ones, else defaults."""
    from derivdata import connect, record, replay

    options = {"symbols": ["BTC", "ETH"]} | passed
    if _is_bundle(arguments.source):
        recorded: dict[str, Any] = stack.enter_context(replay(arguments.source)).about.get("report", {})
        return options | recorded | passed
    connect(arguments.source, now=arguments.now)
    if arguments.bundle is not None:
        stack.enter_context(record(arguments.bundle, about={"report": options}))
    return options


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
        say(f"{arguments.file}: {bundle.verify(arguments.file)} responses, all hashes match")


def add_rerun(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``derivdata rerun``."""
    parser.add_argument("card", type=Path, metavar="CARD", help="a file that dd.card wrote, or a report")
    parser.add_argument(
        "data", type=Path, nargs="?", metavar="RECORDING", help="the recorded responses, from dd.record"
    )
    parser.add_argument("--archive", type=Path, metavar="FOLDER", help="archive with the rows of the result")
    parser.set_defaults(run=_rerun)


def _rerun(arguments: argparse.Namespace) -> int:
    from derivdata import errors, rerun

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", errors.DataNotice)  # they were shown in the first run
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
"""Position of `start` in the arguments of fetchers with a window."""


class NotebookProblem(NamedTuple):
    """A problem in a notebook: the cell, counted from 1 (0: the whole notebook), its kind, and a sentence."""

    cell: int
    kind: str
    words: str

    def __str__(self) -> str:
        place = f"cell {self.cell}" if self.cell else "notebook"
        return f"{place}: {self.kind}: {self.words}"


def add_notebook(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``derivdata notebook``."""
    parser.add_argument("action", choices=("check",))
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE", help="notebooks, FILE.ipynb")
    parser.set_defaults(run=_notebook)


def _notebook(arguments: argparse.Namespace) -> int:
    code = 0
    for path in arguments.files:
        problems = check_notebook(path)
        for problem in problems:
            say(f"{path}: {problem}")
            code = 1
        if not problems:
            say(f"{path}: nothing to fix")
    return code


def check_notebook(path: Path) -> list[NotebookProblem]:
    """Return the problems of a notebook: keys, paths, clocks, provenance, label and windows.

    Raises `ValueError` if the file is not a notebook of format 4.
    """
    try:
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        sources = [(cell["cell_type"], "".join(cell["source"]), _shown(cell)) for cell in cells]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise ValueError(f"{path} must be a notebook of format 4 (.ipynb)") from None
    code = "\n".join(source for kind, source, _ in sources if kind == "code")
    has_live_clock = not re.search(r"\breplay\(|\bnow\s*=\s*[\"']", code)
    problems: list[NotebookProblem] = []
    for number, (kind, source, shown) in enumerate(sources, 1):
        problems += _text_findings(number, source, shown)
        if kind == "code":
            problems += _clock_findings(number, source)
        if kind == "code" and has_live_clock:
            problems += _open_windows(number, source)
    problems += _output_findings(cells)
    problems += _notebook_findings(path, sources, code)
    return sorted(problems)


def _shown(cell: dict[str, Any]) -> str:
    """Return the text that the outputs of a cell show."""
    texts: list[Any] = []
    for output in cell.get("outputs", []):
        texts += [output.get("text", ""), output.get("evalue", ""), output.get("traceback", "")]
        texts += [text for kind, text in output.get("data", {}).items() if kind.startswith("text/")]
    return "\n".join(map("".join, texts))  # a text, or a list of lines


def _text_findings(number: int, source: str, shown: str) -> Iterator[NotebookProblem]:
    """Yield API keys and local paths in a cell and its outputs."""
    text = f"{source}\n{shown}"
    own_key = os.environ.get("DERIVDATA_API_KEY", "")
    if _KEYS.search(text) or (len(own_key) > 5 and own_key in text):
        words = "an API key: use DERIVDATA_API_KEY instead, and request a new key if this was shared"
        yield NotebookProblem(number, "key", words)
    local = _PATHS.search(text)
    if local:
        words = f"a path that exists only on one machine ({local[0].strip()}…)"
        yield NotebookProblem(number, "path", f"{words}: pass a path relative to the notebook")


def _clock_findings(number: int, source: str) -> Iterator[NotebookProblem]:
    """Yield the first use of the machine's clock in a cell of code."""
    clock = _CLOCK.search(source)
    if clock:
        words = f"{clock[0].rstrip('(')} differs on every run: use dd.asof(), or write the date"
        yield NotebookProblem(number, "clock", words)


def _tree(source: str) -> ast.AST:
    """Parse a cell without its magics; a cell that is not valid Python gives an empty module."""
    try:
        return ast.parse(re.sub(r"^\s*[%!].*$", "", source, flags=re.MULTILINE))
    except SyntaxError:
        return ast.Module([], [])


def _open_windows(number: int, source: str) -> Iterator[NotebookProblem]:
    """Yield calls of fetchers without an end, whose window depends on the time of the run."""
    for call in ast.walk(_tree(source)):
        match call:
            case ast.Call(
                func=ast.Attribute(value=ast.Attribute(attr=family) | ast.Name(id=family), attr=name)
            ):
                place = _START_AT.get(name)
            case _:
                continue
        if family not in derivdata._FAMILIES or place is None:
            continue
        if len(call.args) < place + 2 and "end" not in {keyword.arg for keyword in call.keywords}:
            words = f"{family}.{name}(…) has no end: pass one, or replay a recording (dd.replay)"
            yield NotebookProblem(number, "window", words)


def _output_findings(cells: list[dict[str, Any]]) -> Iterator[NotebookProblem]:
    """Yield cells that failed, wrote to stderr, or were run in another order."""
    code = {n: cell for n, cell in enumerate(cells, 1) if cell["cell_type"] == "code" and cell["source"]}
    if code and not any(cell.get("outputs") for cell in code.values()):
        words = "stored without outputs: readers see results only if they run it"
        yield NotebookProblem(0, "outputs", words)
        return
    last = 0
    for number, cell in code.items():
        outputs = cell.get("outputs", [])
        if any(output.get("output_type") == "error" for output in outputs):
            yield NotebookProblem(number, "outputs", "the cell raised an error")
        if any(output.get("name") == "stderr" for output in outputs):
            words = "the cell wrote to stderr (warnings, progress bars)"
            yield NotebookProblem(number, "outputs", words)
        count = cell.get("execution_count") or 0
        if count <= last:
            words = "run out of order, or not at all: restart the kernel and run all cells"
            yield NotebookProblem(number, "outputs", words)
        last = max(last, count)


def _notebook_findings(
    path: Path, sources: list[tuple[str, str, str]], code: str
) -> Iterator[NotebookProblem]:
    """Yield missing provenance and a missing synthetic label."""
    if "derivdata" not in code:
        return
    if not _PROVENANCE.search(code):
        words = "no recording, dd.provenance or SHA-256 of a file: the data cannot be identified"
        yield NotebookProblem(0, "provenance", words)
    visible = ""
    for kind, source, shown in sources:
        if kind != "code":  # readers see code, but a name in it is not a label
            visible += f"{source}\n"
        visible += f"{shown}\n"
    if _synthetic(path, code) and "synthetic" not in visible.lower():
        yield NotebookProblem(0, "synthetic", "the data is synthetic: state it in the text")


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
