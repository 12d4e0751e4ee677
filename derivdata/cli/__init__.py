"""Command line: the parser, exit codes, and completion.

Exit codes: 0; 1 for a failed job, with one line on stderr; 2 for wrong usage; 130 if interrupted. Commands
import their modules when they run, so that ``derivdata --help`` starts immediately.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from derivdata import __version__
from derivdata.cli import archives, collecting, reports
from derivdata.support.text import import_extra, notify, say

__all__ = ["main"]

_FILES = ("source", "to", "key_file", "files")
"""Options that name a file or a folder without being declared as a path."""


_COMMANDS = (
    ("report", reports.add_report, "figures and tables of a source in one HTML file"),
    ("serve", archives.add_serve, "the documented API over an archive or the sample"),
    ("import", archives.add_import, "import CSV, JSON, Parquet or Feather files into an archive"),
    ("info", archives.add_info, "tables, rows and span of an archive"),
    ("audit", archives.add_audit, "find faults in stored rows, and repair them"),
    ("fetch", archives.add_fetch, "one table into an archive, a file or the terminal"),
    ("bundle", reports.add_bundle, "show or verify a recording"),
    ("rerun", reports.add_rerun, "compute the result of a card again and compare its figures"),
    ("export", archives.add_export, "the tables of a recording as Parquet or CSV files"),
    ("notebook", reports.add_notebook, "check a notebook before it is published"),
    ("collect", collecting.add_collect, "collect data of the venues continuously, without a key"),
    ("backfill", collecting.add_backfill, "fetch histories of the venues, without a key"),
    ("status", collecting.add_status, "rows, lag, gaps and errors of each venue"),
    ("venues", collecting.add_venues, "tables and endpoints of each venue, and a check of them"),
)
"""Commands in the order of ``derivdata --help``: name, function that adds the options, and help."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    from derivdata.errors import DerivdataError

    arguments = _parser().parse_args(argv)
    try:
        code: int | None = arguments.run(arguments)
    except (DerivdataError, ImportError, OSError, ValueError) as problem:
        if arguments.debug:
            raise
        notify(str(problem), f"derivdata {arguments.command}")
        return 1
    except KeyboardInterrupt:
        notify("interrupted", f"derivdata {arguments.command}")
        return 130
    return code or 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="derivdata", description="Crypto derivatives data: reports, a local service, imports."
    )
    parser.add_argument("--version", action="version", version=f"derivdata {__version__}")
    debug = "show the traceback of a failed job"
    parser.add_argument("--debug", action="store_true", help=debug)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, add_options, summary in _COMMANDS:
        add_options(commands.add_parser(name, help=summary))
    completion = commands.add_parser("completion", help="the script that completes these commands")
    completion.add_argument("shell", choices=("bash", "zsh", "tcsh"))
    completion.set_defaults(run=lambda arguments: _completion(parser, arguments.shell))
    # --debug also works after the command; SUPPRESS keeps the value given before it.
    for command in commands.choices.values():
        command.add_argument("--debug", action="store_true", default=argparse.SUPPRESS, help=debug)
    return parser


def _completion(program: argparse.ArgumentParser, shell: str) -> None:
    shtab = import_extra("shtab", "completion", "derivdata completion")
    _complete_files(program, shtab.FILE)
    say(shtab.complete(program, shell))


def _complete_files(parser: argparse.ArgumentParser, files: Any) -> None:
    """Mark the arguments of a parser and of its commands that take file names."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for command in action.choices.values():
                _complete_files(command, files)
        elif action.type is Path or action.dest in _FILES:
            action.complete = files  # type: ignore[attr-defined]
