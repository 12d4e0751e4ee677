"""Commands ``report`` and ``bundle``."""

from __future__ import annotations

import argparse
import warnings
from contextlib import ExitStack
from pathlib import Path
from typing import Any

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
