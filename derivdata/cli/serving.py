"""Command ``serve``."""

from __future__ import annotations

import argparse
from pathlib import Path

from derivdata.cli.options import Pairs, pair

__all__ = ["add_serve"]


def add_serve(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``derivdata serve``."""
    parser.add_argument("source", help="'sample', 'venues' or an archive's folder")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8080)
    parser.add_argument("--now", metavar="ISO", help="freeze the service's clock")
    live = "follow the machine's clock: for an archive that a collector is filling"
    parser.add_argument("--live", action="store_true", help=live)
    parser.add_argument(
        "--key",
        type=pair,
        action=Pairs,
        default={},
        metavar="TIER=KEY",
        help="free, dev, pro or team; one key for each",
    )
    key_file = "a file with a line 'TIER: KEY' for each key: arguments are seen in lists of processes"
    parser.add_argument("--key-file", metavar="FILE", help=key_file)
    parser.add_argument("--keyless", action="store_true", help="answer requests without a key as Team")
    parser.add_argument(
        "--allow-host",
        action="append",
        default=[],
        metavar="NAME",
        help="a name under which it may be called, besides localhost and addresses",
    )
    parser.add_argument(
        "--workers", type=int, default=1, metavar="N", help="processes that answer (default 1)"
    )
    page = "show freshness, gaps, spreads and liquidations at /status, to all who can reach it, without a key"
    parser.add_argument("--page", action="store_true", help=page)
    parser.set_defaults(run=_serve)


def _serve(arguments: argparse.Namespace) -> None:
    from derivdata.sources import service
    from derivdata.support import times

    service.serve(
        arguments.source,
        host=arguments.host,
        port=arguments.port,
        now=None if arguments.now is None else times.instant(arguments.now, "--now"),
        live=arguments.live,
        keys=arguments.key if arguments.key_file is None else _keys_in(arguments.key_file, arguments.key),
        keyless=arguments.keyless,
        allow_hosts=arguments.allow_host,
        workers=arguments.workers,
        page=arguments.page,
    )


def _keys_in(path: str, keys: dict[str, str]) -> dict[str, str]:
    """Return the given keys and those of a file; messages show no line of it."""
    keys = dict(keys)
    for number, line in enumerate(Path(path).read_text(encoding="utf-8").splitlines(), 1):
        tier, colon, key = (part.strip() for part in line.partition(":"))
        if line.strip() and not (tier and colon and key):
            raise ValueError(f"--key-file {path}: line {number} is not 'TIER: KEY'")
        if tier in keys:
            raise ValueError(f"--key-file {path}: line {number} gives a second key to {tier}")
        if tier:
            keys[tier] = key
    if not keys:
        raise ValueError(f"--key-file {path} holds no key")
    return keys
