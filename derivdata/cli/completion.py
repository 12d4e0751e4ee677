"""Command ``completion``: the script with which a shell completes commands, options and file names."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from derivdata.cli.terminal import say
from derivdata.support.extras import import_extra

__all__ = ["add_completion"]

_SHELLS = ("bash", "zsh", "tcsh")
_FILES = ("source", "to", "key_file")
"""Options that name a file or a folder without being declared as a path."""


def add_completion(parser: argparse.ArgumentParser, program: argparse.ArgumentParser) -> None:
    """Add the options of ``derivdata completion``."""
    parser.add_argument("shell", choices=_SHELLS)
    parser.set_defaults(run=lambda arguments: _completion(program, arguments.shell))


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
