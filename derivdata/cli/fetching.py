"""Commands ``fetch`` and ``export``: tables of a source or of a recording, as archives or files."""

from __future__ import annotations

import argparse
import inspect
import warnings
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from derivdata.cli.options import PairsAction, notify, pair, say

if TYPE_CHECKING:
    import pandas as pd

_FORMATS = (".parquet", ".csv")
_START = ("start", "since", "window")
_END = ("end",)
"""Arguments of fetchers that ``--since`` and ``--until`` set."""


def add_fetch(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``derivdata fetch``."""
    fetcher = "family and function, such as funding.history; or catalog, or instruments"
    parser.add_argument("name", metavar="FETCHER", help=fetcher)
    parser.add_argument("symbols", nargs="*", metavar="SYMBOL", help="assets, such as BTC ETH")
    parser.add_argument(
        "--source", help="'sample', 'venues', an archive's folder or a URL (default: DERIVDATA_BASE_URL)"
    )
    parser.add_argument("--since", metavar="WHEN", help="start: a time or a lookback such as 30d")
    parser.add_argument("--until", metavar="WHEN", help="end: a time (default: the source's clock)")
    parser.add_argument("--venues", nargs="+", metavar="VENUE", help="only these venues")
    parser.add_argument(
        "--set",
        type=pair,
        action=PairsAction,
        default={},
        metavar="NAME=VALUE",
        help="any other argument of the function, such as resolution=4h or limit=100",
    )
    parser.add_argument("--now", metavar="ISO", help="freeze the clock of an archive or the sample")
    parser.add_argument(
        "--to",
        required=True,
        metavar="PLACE",
        help="an archive's folder, a file that ends in .parquet or .csv, or - for CSV on the terminal",
    )
    _add_formulas(parser)
    parser.set_defaults(run=_fetch)


def _add_formulas(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--keep-formulas",
        action="store_true",
        help="do not add a ' in CSV before texts that begin with =, +, - or @",
    )


def _fetch(arguments: argparse.Namespace) -> None:
    from derivdata import connect
    from derivdata.sources import archive
    from derivdata.support.files import csv_text
    from derivdata.tables.panels import provenance

    fetcher = _fetcher(arguments.name)
    table = arguments.name.replace(".", "_")
    fetcher_arguments = _arguments(fetcher, arguments)
    to_archive = arguments.to != "-" and Path(arguments.to).suffix not in _FORMATS
    if to_archive and Path(arguments.to).suffix:
        raise ValueError(f"--to {arguments.to}: files must end in {' or '.join(_FORMATS)}")
    connect(arguments.source, now=arguments.now)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        frame = fetcher(**fetcher_arguments)
        rows = archive.open_archive(arguments.to).append(table, frame) if to_archive else len(frame)
    for message in dict.fromkeys(str(warning.message) for warning in caught):
        notify(message)
    if provenance(frame)["synthetic"]:
        notify("the data is synthetic")
    if to_archive:
        say(f"{len(frame)} rows of {table}, {rows} new in {arguments.to}")
    elif arguments.to == "-":
        say(csv_text(frame, formulas=arguments.keep_formulas).removesuffix("\n"))
    else:
        _write(frame, Path(arguments.to), formulas=arguments.keep_formulas)
        say(f"{rows} rows of {table} in {arguments.to}")


def _fetcher(name: str) -> Callable[..., pd.DataFrame]:
    """Return a fetcher by its name, such as ``funding.history``."""
    from derivdata.matrix import FAMILIES, FETCHERS

    if name in ("catalog", "instruments") or (name.count(".") == 1 and name.replace(".", "_") in FETCHERS):
        return FETCHERS[name.replace(".", "_")]
    family = name.partition(".")[0]
    names = [table.removeprefix(f"{family}_") for table in FETCHERS if table.startswith(f"{family}_")]
    if names:
        raise ValueError(f"{name!r} is not a table: {family} has {', '.join(names)}")
    listed = f"catalog, instruments, or FAMILY.FUNCTION of {', '.join(FAMILIES)}"
    raise ValueError(f"{name!r} is not a table: write {listed}")


def _arguments(fetcher: Callable[..., Any], command: argparse.Namespace) -> dict[str, Any]:
    """Return the fetcher's arguments from the command's options; raise on unknown and missing ones."""
    parameters = inspect.signature(fetcher).parameters
    arguments: dict[str, Any] = {name: _value(text) for name, text in command.set.items()}
    options = (
        ("SYMBOL", command.symbols, ("symbols", "symbol")),
        ("--since", command.since, _START),
        ("--until", command.until, _END),
        ("--venues", command.venues, ("venues", "venue")),
    )
    for option, values, names in options:
        if not values:
            continue
        name = next((n for n in names if n in parameters), None)
        if name is None:
            raise ValueError(f"{command.name} takes no {option}; omit it")
        is_single = not isinstance(values, str) and len(values) == 1
        arguments[name] = values[0] if is_single else values
    unknown = [name for name in arguments if name not in parameters]
    if unknown:
        raise ValueError(
            f"{command.name} takes no {unknown[0]}; it takes {', '.join(parameters) or 'nothing'}"
        )
    required = [name for name, p in parameters.items() if p.default is inspect.Parameter.empty]
    missing = [name for name in required if name not in arguments]
    if missing:
        option_of = {name: option for option, _, names in options for name in names}
        listed = ", ".join(option_of.get(name, f"--set {name}=…") for name in missing)
        raise ValueError(f"{command.name} needs {listed}")
    return arguments


def _value(text: str) -> int | float | str:
    """Return a number if the text is one. Fetchers do not accept digits as text."""
    for kind in (int, float):
        with suppress(ValueError):
            return kind(text)
    return text


def _write(frame: pd.DataFrame, path: Path, *, formulas: bool) -> None:
    """Write a table atomically, as CSV or Parquet by the file's suffix. Parquet keeps the provenance."""
    import io

    from derivdata.support.files import csv_text, replace_file

    if path.suffix == ".csv":
        content = csv_text(frame, formulas=formulas).encode()
    else:
        buffer = io.BytesIO()
        frame.to_parquet(buffer, index=False)
        content = buffer.getvalue()
    replace_file(path, content, mode=0o666)


def add_export(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``derivdata export``."""
    parser.add_argument("bundle", type=Path, metavar="BUNDLE", help="a recording, FILE.ddz")
    parser.add_argument(
        "--to", type=Path, required=True, metavar="FOLDER", help="a folder, created if missing"
    )
    parser.add_argument("--format", choices=("parquet", "csv"), default="parquet", help="(default: parquet)")
    _add_formulas(parser)
    parser.set_defaults(run=_export)


def _export(arguments: argparse.Namespace) -> None:
    from derivdata.bundle import tables_of

    exported = tables_of(arguments.bundle)
    arguments.to.mkdir(parents=True, exist_ok=True)
    for name, frame in exported.tables.items():
        _write(frame, arguments.to / f"{name}.{arguments.format}", formulas=arguments.keep_formulas)
        say(f"{name}.{arguments.format}: {len(frame)} rows")
    _write(exported.answers, arguments.to / "answers.csv", formulas=arguments.keep_formulas)
    if exported.synthetic:
        notify("the data is synthetic")
    unread = int(exported.answers["table"].isna().sum())
    say(f"answers.csv: {len(exported.answers)} responses with their hashes, {unread} of them without a table")
