"""Command line, one module per group of commands.

Exit codes: 0; 1 for a failed job, with one line on stderr; 2 for wrong usage; 130 if interrupted. Commands
import their modules when they run, so that ``derivdata --help`` starts immediately.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from derivdata import __version__
from derivdata.cli.archives import add_audit, add_export, add_fetch, add_import, add_info, add_serve
from derivdata.cli.collecting import add_backfill, add_collect, add_status, add_venues
from derivdata.cli.options import notify, say
from derivdata.cli.reports import add_bundle, add_notebook, add_report, add_rerun
from derivdata.support.text import import_extra

__all__ = ["main"]


_FILES = ("source", "to", "key_file", "files")
"""Options that name a file or a folder without being declared as a path."""


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
    add_report(commands.add_parser("report", help="figures and tables of a source in one HTML file"))
    add_serve(commands.add_parser("serve", help="the documented API over an archive or the sample"))
    add_import(
        commands.add_parser("import", help="import CSV, JSON, Parquet or Feather files into an archive")
    )
    add_info(commands.add_parser("info", help="tables, rows and span of an archive"))
    add_audit(commands.add_parser("audit", help="find faults in stored rows, and repair them"))
    add_fetch(commands.add_parser("fetch", help="one table into an archive, a file or the terminal"))
    add_bundle(commands.add_parser("bundle", help="show or verify a recording"))
    add_rerun(commands.add_parser("rerun", help="compute the result of a card again and compare its figures"))
    add_export(commands.add_parser("export", help="the tables of a recording as Parquet or CSV files"))
    add_notebook(commands.add_parser("notebook", help="check a notebook before it is published"))
    add_collect(commands.add_parser("collect", help="collect data of the venues continuously, without a key"))
    add_backfill(commands.add_parser("backfill", help="fetch histories of the venues, without a key"))
    add_status(commands.add_parser("status", help="rows, lag, gaps and errors of each venue"))
    add_venues(commands.add_parser("venues", help="tables and endpoints of each venue, and a check of them"))
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
