"""Commands ``import``, ``info``, ``audit`` and ``serve``: archives and the service over them."""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path
from typing import Any

from derivdata.cli.options import PairsAction, pair, say, value_pair
from derivdata.support.text import HiddenKeys, shown_tier


def add_import(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``derivdata import``."""
    files = "files, folders or patterns; a table's name may come first, as with --table"
    parser.add_argument("files", nargs="*", metavar="FILE", help=files)
    parser.add_argument("--to", metavar="ARCHIVE", help="a folder, or s3://bucket/path")
    table = "name of the table, such as funding_settlements (default: recognised from the files)"
    parser.add_argument("--table", metavar="TABLE", help=table)
    dry = "print how the files are read, and write nothing"
    parser.add_argument("--dry-run", action="store_true", help=dry)
    listed_layouts = "print the layouts that are recognised"
    parser.add_argument("--list", action="store_true", help=listed_layouts)
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
            about = f"\n    seen {row.seen}" if row.seen else ""
            say(f"{row.source}: {row.layout}\n    fills {row.tables}\n    by {row.signature}{about}")
        return
    table, files = _table_and_files(arguments)
    if not files or arguments.to is None:
        missing = [name for name, value in (("FILE", files), ("--to", arguments.to)) if not value]
        arguments.usage_error(f"the following arguments are required: {', '.join(missing)}")
    words: dict[str, dict[str, str]] = {}
    for column, old, new in arguments.map_value:
        words.setdefault(column, {})[old] = new
    options: dict[str, Any] = {
        "table": table,
        "map": arguments.map,
        "set": arguments.set,
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
    say(f"{result}{' (dry run: nothing is written)' if arguments.dry_run else ''}")


def _table_and_files(arguments: argparse.Namespace) -> tuple[str | None, list[str]]:
    """Return the table, which may precede the files, and the files."""
    first, *rest = arguments.files or [""]
    is_name = re.fullmatch(r"[a-z][a-z0-9_]*", first) is not None and not Path(first).exists()
    if arguments.table is None and rest and is_name:
        return first, rest
    return arguments.table, arguments.files


def _imported(files: list[str], to: str, options: dict[str, Any]) -> Any:
    """Import the files. On a terminal, ask for missing options; otherwise raise an error that names them."""
    from derivdata.sources import archive
    from derivdata.sources.archive.importing import Unclear

    names = {"--table": "table", "--from": "source", "--unit": "unit"}
    while True:
        try:
            return archive.import_files(files=files, to=to, show=say, **options)
        except Unclear as question:
            is_interactive = sys.stdin.isatty() and sys.stdout.isatty()
            if not is_interactive or len(question.choices) > _MAX_CHOICES:
                raise
            say(question)
            for number, choice in enumerate(question.choices, 1):
                say(f"  {number}  {choice}")
            reply = input(f"{question.option}: number of the right choice (Enter stops): ").strip()
            if not reply.isdecimal() or not 1 <= int(reply) <= len(question.choices):
                raise
            options[names[question.option]] = question.choices[int(reply) - 1]


_MAX_CHOICES = 12


def add_info(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``derivdata info``."""
    parser.add_argument("archive", metavar="ARCHIVE", help="an archive's folder, or s3://bucket/path")
    parser.set_defaults(run=_info)


def _info(arguments: argparse.Namespace) -> None:
    from derivdata.sources import archive

    tables = archive.open_archive(arguments.archive, create=False).info()
    say(tables.to_string() if len(tables) else f"{arguments.archive}: the archive is empty")


def add_audit(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``derivdata audit``."""
    parser.add_argument("archive", metavar="ARCHIVE", help="an archive's folder, or s3://bucket/path")
    repair = "correct faults with a unique correct value; each correction can be undone"
    parser.add_argument("--repair", action="store_true", help=repair)
    parser.set_defaults(run=_audit)


def _audit(arguments: argparse.Namespace) -> None:
    from derivdata.sources import archive
    from derivdata.sources.archive.stored_faults import stored_faults

    opened = archive.open_archive(arguments.archive, create=False)
    faults = stored_faults(opened, repair=arguments.repair)
    for row in faults.itertuples():
        days = f"{row.start:%Y-%m-%d}"
        state = " (repaired)" if row.repaired else ""
        say(f"{row.table} {row.exchange} {row.symbol} {days}: {row.finding}{state}")
    if faults.empty:
        say(f"{arguments.archive}: no faults found")
    elif not arguments.repair:
        say(f"{len(faults):,} findings; derivdata audit --repair corrects faults with a unique correct value")


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
    name = "a host name that requests may use, besides localhost and addresses"
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

    now = None if arguments.now is None else times.instant(arguments.now, "--now")
    if arguments.mcp:
        from derivdata.sources.service import mcp

        for name in ("host", "port", "key", "key_file", "keyless", "allow_host", "workers", "page"):
            if getattr(arguments, name) != arguments.default_of(name):
                option = f"--{name.replace('_', '-')}"
                raise ValueError(f"{option} needs a port, which --mcp does not open; omit one of them")
        mcp.serve_mcp(arguments.source, now=now, live=arguments.live)
        return
    service.serve(
        arguments.source,
        host=arguments.host,
        port=arguments.port,
        now=now,
        live=arguments.live,
        keys=arguments.key if arguments.key_file is None else _keys_in(arguments.key_file, arguments.key),
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
            return f"line {number} is not 'TIER: KEY'"
        if tier in keys:
            return f"line {number} gives a second key to {shown_tier(tier)}"
        if tier:
            keys[tier] = key
    return ""
