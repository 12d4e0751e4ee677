"""Commands ``import`` and ``info``."""

from __future__ import annotations

import argparse
from pathlib import Path

from derivdata.cli.options import Pairs, pair, value_pair
from derivdata.cli.terminal import say

__all__ = ["add_import", "add_info"]


def add_import(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``derivdata import``."""
    parser.add_argument("table", help="name of the table, such as funding_settlements")
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE")
    parser.add_argument("--to", required=True, metavar="ARCHIVE", help="a folder, or s3://bucket/path")
    parser.add_argument(
        "--map",
        type=pair,
        action=Pairs,
        default={},
        metavar="NAME=COLUMN",
        help="the table's column from the file's",
    )
    parser.add_argument(
        "--set",
        type=pair,
        action=Pairs,
        default={},
        metavar="COLUMN=VALUE",
        help="one value in every row",
    )
    parser.add_argument("--tz", metavar="ZONE", help="zone of instants that state none")
    parser.add_argument(
        "--unit", metavar="UNIT", help="unit of the file's rates, volatilities or open interest (coins)"
    )
    parser.add_argument(
        "--map-value",
        type=value_pair,
        action="append",
        default=[],
        metavar="COLUMN:WORD=WORD",
        help="a word of the file's and the table's, such as side:sell=long",
    )
    parser.add_argument(
        "--accept",
        nargs="+",
        action="extend",
        default=[],
        metavar="QUESTION",
        help="questions of the import that were answered: unit, interval, venues, future",
    )
    parser.set_defaults(run=_import)


def _import(arguments: argparse.Namespace) -> None:
    from derivdata.sources import archive

    words: dict[str, dict[str, str]] = {}
    for column, old, new in arguments.map_value:
        words.setdefault(column, {})[old] = new
    result = archive.import_files(
        arguments.table,
        arguments.files,
        arguments.to,
        map=arguments.map,
        set=arguments.set,
        tz=arguments.tz,
        unit=arguments.unit,
        map_values=words,
        accept=arguments.accept,
    )
    say(result)


def add_info(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``derivdata info``."""
    parser.add_argument("archive", metavar="ARCHIVE", help="an archive's folder, or s3://bucket/path")
    parser.set_defaults(run=_info)


def _info(arguments: argparse.Namespace) -> None:
    from derivdata.sources import archive

    tables = archive.open_archive(arguments.archive, create=False).info()
    say(tables.to_string() if len(tables) else f"{arguments.archive}: an archive without tables")
