"""Commands ``import``, ``fetch``, ``info``, ``audit``, ``serve`` and ``export``."""

from __future__ import annotations

import argparse
import inspect
import re
import sys
import warnings
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from derivdata.support.text import HiddenKeys, notify, say, shown_tier

if TYPE_CHECKING:
    import pandas as pd

_MAX_CHOICES = 12
_FORMATS = (".parquet", ".csv")
_OPTIONS = {
    "SYMBOL": ("symbols", "symbol"),
    "--since": ("start", "since", "window"),
    "--until": ("end",),
    "--venues": ("venues", "venue"),
}
"""Arguments of fetchers that an option sets: the first that the fetcher has."""
_OPTION_OF = {name: option for option, names in _OPTIONS.items() for name in names}


class PairsAction(argparse.Action):
    """Collect ``NAME=VALUE`` options into a dict; a repeated name is an error."""

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any, *_: Any
    ) -> None:
        """Add one pair."""
        name, value = values
        pairs: dict[str, str] = getattr(namespace, self.dest)
        if name in pairs:
            parser.error(f"{self.option_strings[0]} must have {name} once")
        setattr(namespace, self.dest, type(pairs)(pairs | {name: value}))


def pair(text: str) -> tuple[str, str]:
    """Parse ``NAME=VALUE``."""
    name, sign, value = text.partition("=")
    if not (sign and name and value):
        raise argparse.ArgumentTypeError(
            "expected NAME=VALUE (the value is not shown, because it may be a key)"
        )
    return name, value


def value_pair(text: str) -> tuple[str, str, str]:
    """Parse ``COLUMN:WORD=WORD``."""
    column, colon, words = text.partition(":")
    old, equals, new = words.rpartition("=")
    if not (colon and equals and column and old and new):
        raise argparse.ArgumentTypeError(f"expected COLUMN:WORD=WORD, got {text!r}")
    return column, old, new


def add_import(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``derivdata import``."""
    files = "files, folders or patterns; a table's name may come first, as with --table"
    parser.add_argument("files", nargs="*", metavar="FILE", help=files)
    parser.add_argument("--to", metavar="ARCHIVE", help="a folder, or s3://bucket/path")
    table = "name of the table, such as funding_settlements (default: recognised from the files)"
    parser.add_argument("--table", metavar="TABLE", help=table)
    dry = "print how the files are read without writing them"
    parser.add_argument("--dry-run", action="store_true", help=dry)
    listed_layouts = "print the layouts that are recognised"
    parser.add_argument("--list", action="store_true", help=listed_layouts)
    market = "venue and symbol of all rows, for files that name neither, such as binance:BTC"
    parser.add_argument("--market", metavar="VENUE:SYMBOL", help=market)
    pairs: dict[str, Any] = {"type": pair, "action": PairsAction, "default": {}}
    columns = "take the table's column NAME from the file's COLUMN"
    values = "set COLUMN to VALUE in all rows"
    parser.add_argument("--map", **pairs, metavar="NAME=COLUMN", help=columns)
    parser.add_argument("--set", **pairs, metavar="COLUMN=VALUE", help=values)
    parser.add_argument("--tz", metavar="ZONE", help="time zone of times without a zone")
    unit = "unit of the file's rates, volatilities or open interest (coins)"
    parser.add_argument("--unit", metavar="UNIT", help=unit)
    word = "replace the file's word by the table's, such as side:sell=long"
    listed: dict[str, Any] = {"action": "append", "default": []}
    parser.add_argument("--map-value", type=value_pair, **listed, metavar="COLUMN:WORD=WORD", help=word)
    question = "accept what the import would ask about: unit, interval, schedule, venues, future"
    listed["action"] = "extend"
    parser.add_argument("--accept", nargs="+", **listed, metavar="QUESTION", help=question)
    source = "source of the files, if their columns do not show it: binance, ccxt, tardis, ... (--list)"
    parser.add_argument("--from", dest="source", metavar="SOURCE", help=source)
    parser.set_defaults(run=_import, usage_error=parser.error)


def _import(arguments: argparse.Namespace) -> None:
    from derivdata.sources.archive.importing import listing

    if arguments.list:
        for row in listing().itertuples(index=False):
            say(f"{row.source}: {row.layout}\n    fills {row.tables}\n    by {row.signature}")
            if row.seen:
                say(f"    seen {row.seen}")
        return
    table, files = _table_and_files(arguments)
    words: dict[str, dict[str, str]] = {}
    for column, old, new in arguments.map_value:
        words.setdefault(column, {})[old] = new
    options: dict[str, Any] = {
        "table": table,
        "map": arguments.map,
        "set": arguments.set,
        "market": arguments.market,
        "tz": arguments.tz,
        "unit": arguments.unit,
        "map_values": words,
        "accept": arguments.accept,
        "source": arguments.source,
        "dry_run": arguments.dry_run,
    }
    result = _imported(files, arguments.to, options)
    for line in result.rejections[1:]:
        say(f"rejected: {line}")
    for notice in result.notices:
        say(f"notice: {notice}")
    if arguments.dry_run:
        say(f"{result} (dry run: nothing is written)")
    else:
        say(result)


def _table_and_files(arguments: argparse.Namespace) -> tuple[str | None, list[str]]:
    """Return the table, which may precede the files, and the files. End with a usage error without files."""
    if not arguments.files:
        arguments.usage_error("FILE is missing: pass files, folders or patterns to import")
    if arguments.to is None:
        arguments.usage_error("--to is missing: pass the archive's folder, or s3://bucket/path")
    from derivdata.tables import TABLES

    first, *rest = arguments.files
    # A table is also written as the function that fetches it: funding.settlements.
    name = first.replace(".", "_") if first.replace(".", "_") in TABLES else first
    is_name = re.fullmatch(r"[a-z][a-z0-9_]*", name) is not None and not Path(first).exists()
    if arguments.table is None and rest and is_name:
        return name, rest
    return arguments.table, arguments.files


def _imported(files: list[str], to: str, options: dict[str, Any]) -> Any:
    """Import the files. On a terminal, ask for missing options; otherwise raise an error that names them."""
    from derivdata.sources import archive
    from derivdata.sources.archive.importing import Unclear

    while True:
        try:
            return archive.import_files(files=files, to=to, show=say, **options)
        except Unclear as question:
            # Scripts get the error, which names the option to pass.
            is_interactive = sys.stdin.isatty() and sys.stdout.isatty()
            if not is_interactive or len(question.choices) > _MAX_CHOICES:
                raise
            say(question)
            for number, choice in enumerate(question.choices, 1):
                say(f"  {number}  {choice}")
            reply = input(f"{question.option}: number of the right choice (Enter stops): ").strip()
            if not reply.isdecimal() or not 1 <= int(reply) <= len(question.choices):
                raise
            _choose(options, question.option, question.choices[int(reply) - 1])


_ARGUMENTS = {"--table": "table", "--from": "source", "--unit": "unit", "--tz": "tz"}
"""Arguments of `import_files` for options with one value."""


def _choose(options: dict[str, Any], option: str, choice: str) -> None:
    """Add the chosen value of an option to the arguments of an import."""
    if option in _ARGUMENTS:
        options[_ARGUMENTS[option]] = choice
        return
    name, _, value = choice.partition("=")
    argument = option.removeprefix("--")  # map or set
    options[argument] = {**options[argument], name: value}


def add_info(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``derivdata info``."""
    parser.add_argument("archive", metavar="ARCHIVE", help="an archive's folder, or s3://bucket/path")
    parser.set_defaults(run=_info)


def _info(arguments: argparse.Namespace) -> None:
    from derivdata.sources import archive

    tables = archive.open_archive(arguments.archive, create=False).info()
    if tables.empty:
        say(f"{arguments.archive}: the archive is empty")
    else:
        say(tables.to_string())


def add_audit(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``derivdata audit``."""
    parser.add_argument("archive", metavar="ARCHIVE", help="an archive's folder, or s3://bucket/path")
    repair = "correct faults with a unique correct value; each correction can be undone"
    parser.add_argument("--repair", action="store_true", help=repair)
    parser.set_defaults(run=_audit)


def _audit(arguments: argparse.Namespace) -> None:
    from derivdata.sources import archive
    from derivdata.sources.archive.archive import stored_faults

    opened = archive.open_archive(arguments.archive, create=False)
    faults = stored_faults(opened, repair=arguments.repair)
    for row in faults.itertuples():
        state = " (repaired)" if row.repaired else ""
        say(f"{row.table} {row.exchange} {row.symbol} {row.start:%Y-%m-%d}: {row.finding}{state}")
    if faults.empty:
        say(f"{arguments.archive}: no faults found")
    elif not arguments.repair:
        findings = "1 finding" if len(faults) == 1 else f"{len(faults):,} findings"
        say(f"{findings}; derivdata audit --repair corrects faults with a unique correct value")


def add_serve(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``derivdata serve``."""
    parser.add_argument("source", help="'sample', 'venues' or an archive's folder")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8080)
    parser.add_argument("--now", metavar="ISO", help="freeze the service's clock")
    live = "follow the machine's clock, for an archive that a collector is writing"
    parser.add_argument("--live", action="store_true", help=live)
    keys = "free, dev, pro or team; one key for each"
    parser.add_argument(
        "--key", type=pair, action=PairsAction, default=HiddenKeys(), metavar="TIER=KEY", help=keys
    )
    key_file = "a file with a line 'TIER: KEY' for each key (arguments are visible in process lists)"
    parser.add_argument("--key-file", metavar="FILE", help=key_file)
    parser.add_argument("--keyless", action="store_true", help="treat requests without a key as Team")
    name = "a host name that requests may use, in addition to localhost and addresses"
    parser.add_argument("--allow-host", action="append", default=[], metavar="NAME", help=name)
    workers = "number of worker processes (default 1)"
    parser.add_argument("--workers", type=int, default=1, metavar="N", help=workers)
    page = "show freshness, gaps, spreads and liquidations at /status, to all clients, without a key"
    parser.add_argument("--page", action="store_true", help=page)
    tools = (
        "serve the parent process over standard input and output: endpoints and analyses as tools (Model "
        "Context Protocol, extra mcp); only --now and --live can be combined with it"
    )
    parser.add_argument("--mcp", action="store_true", help=tools)
    parser.set_defaults(run=_serve, default_of=parser.get_default)


def _serve(arguments: argparse.Namespace) -> None:
    from derivdata.sources import service
    from derivdata.support import times

    now = None
    if arguments.now is not None:
        now = times.timestamp(arguments.now, "--now")
    if arguments.mcp:
        from derivdata.sources.service import mcp

        for name in ("host", "port", "key", "key_file", "keyless", "allow_host", "workers", "page"):
            if getattr(arguments, name) != arguments.default_of(name):
                option = f"--{name.replace('_', '-')}"
                raise ValueError(f"{option} needs a port, but --mcp does not open one: omit one of them")
        mcp.serve_mcp(arguments.source, now=now, live=arguments.live)
        return
    keys = arguments.key
    if arguments.key_file is not None:
        keys = _keys_in(arguments.key_file, keys)
    service.serve(
        arguments.source,
        host=arguments.host,
        port=arguments.port,
        now=now,
        live=arguments.live,
        keys=keys,
        keyless=arguments.keyless,
        allow_hosts=arguments.allow_host,
        workers=arguments.workers,
        page=arguments.page,
    )


def _keys_in(path: str, option_keys: HiddenKeys) -> HiddenKeys:
    """Return the keys of the options and of a file. Messages and traceback frames never contain a line."""
    keys = HiddenKeys(option_keys)
    problem = _add_lines(keys, Path(path).read_bytes())
    if problem or not keys:
        raise ValueError(f"--key-file {path}: {problem or 'no key found'}")
    return keys


def _add_lines(keys: HiddenKeys, content: bytes) -> str:
    """Add the keys of a file; return the problem of its first wrong line, without the line itself."""
    for number, line in enumerate(content.decode(errors="replace").splitlines(), 1):
        tier, colon, key = (text.strip() for text in line.partition(":"))
        if line.strip() and not (tier and colon and key):
            return f"line {number} must be 'TIER: KEY'"
        if tier in keys:
            return f"line {number} has a second key of {shown_tier(tier)}"
        if tier:
            keys[tier] = key
    return ""


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
    # A path with another suffix is a file of an unsupported format, not an archive's folder.
    if to_archive and Path(arguments.to).suffix:
        raise ValueError(f"--to {arguments.to}: files must end in {' or '.join(_FORMATS)}")
    connect(arguments.source, now=arguments.now)
    # Warnings are printed as one line each, without the place in the source code.
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        frame = fetcher(**fetcher_arguments)
        new_rows = 0
        if to_archive:
            new_rows = archive.open_archive(arguments.to).append(table, frame)
    for message in dict.fromkeys(str(warning.message) for warning in caught):
        notify(message)
    if provenance(frame)["synthetic"]:
        notify("the data is synthetic")
    if to_archive:
        say(f"{len(frame)} rows of {table}, {new_rows} new in {arguments.to}")
    elif arguments.to == "-":
        say(csv_text(frame, formulas=arguments.keep_formulas).removesuffix("\n"))
    else:
        _write(frame, Path(arguments.to), formulas=arguments.keep_formulas)
        say(f"{len(frame)} rows of {table} in {arguments.to}")


def _fetcher(name: str) -> Callable[..., pd.DataFrame]:
    """Return a fetcher by its name, such as ``funding.history``."""
    from derivdata.matrix import FAMILIES, FETCHERS

    if name in ("catalog", "instruments") or (name.count(".") == 1 and name.replace(".", "_") in FETCHERS):
        return FETCHERS[name.replace(".", "_")]
    family = name.partition(".")[0]
    names = [table.removeprefix(f"{family}_") for table in FETCHERS if table.startswith(f"{family}_")]
    if names:
        raise ValueError(f"FETCHER must be a table of {family}: {', '.join(names)}; got {name!r}")
    near = [family for family in FAMILIES if name in FETCHERS and name.startswith(f"{family}_")]
    advice = f"families: {', '.join(FAMILIES)}"
    if near:
        advice = f"did you mean {name.replace('_', '.', 1)!r}?"
    raise ValueError(f"FETCHER must be catalog, instruments or FAMILY.FUNCTION, got {name!r}; {advice}")


def _arguments(fetcher: Callable[..., Any], command: argparse.Namespace) -> dict[str, Any]:
    """Return the fetcher's arguments from the command's options; raise on unknown and missing ones."""
    parameters = inspect.signature(fetcher).parameters
    arguments: dict[str, Any] = {name: _value(text) for name, text in command.set.items()}
    given = {
        "SYMBOL": command.symbols,
        "--since": command.since,
        "--until": command.until,
        "--venues": command.venues,
    }
    for option, values in given.items():
        if not values:
            continue
        name = next(filter(parameters.__contains__, _OPTIONS[option]), None)
        if name is None:
            raise ValueError(f"{command.name} does not have the option {option}: omit it")
        if isinstance(values, list) and len(values) == 1:
            arguments[name] = values[0]
        else:
            arguments[name] = values
    _require_complete(command.name, parameters, arguments)
    return arguments


def _require_complete(
    fetcher: str, parameters: Mapping[str, inspect.Parameter], arguments: Mapping[str, Any]
) -> None:
    """Raise on arguments that a fetcher does not have, and on required ones that are missing."""
    for name in arguments:
        if name not in parameters:
            available = ", ".join(parameters) or "nothing"
            raise ValueError(f"{fetcher} does not have the argument {name}; available: {available}")
    missing = []
    for name, parameter in parameters.items():
        if parameter.default is inspect.Parameter.empty and name not in arguments:
            missing.append(_OPTION_OF.get(name, f"--set {name}=…"))
    if missing:
        raise ValueError(f"{fetcher} needs {', '.join(missing)}")


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
    replace_file(path, content, mode=0o666)  # reduced by the umask, like a file that a shell creates


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
