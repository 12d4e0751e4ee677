"""Command line: report, serve, import, info, bundle, collect, backfill, status, venues.

Exit codes: 0; 1 for a job that failed, with one clear line on stderr; 2 for wrong usage; 130 if interrupted.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from derivdata import __version__
from derivdata.text import escape_controls

__all__ = ["main"]

_REPORT = ("symbols", "window", "venues", "fees", "expiries", "sections")
"""Options of the command that are the report's own, kept with a recording."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    from derivdata.errors import DerivdataError

    arguments = _parser().parse_args(argv)
    try:
        arguments.run(arguments)
    except (DerivdataError, OSError, ValueError) as problem:
        if arguments.debug:
            raise
        print(f"derivdata {arguments.command}: {escape_controls(str(problem))}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(f"derivdata {arguments.command}: interrupted", file=sys.stderr)
        return 130
    return 0


def _say(result: Any) -> None:
    """Print a result with the letters that the terminal has; others as escapes."""
    text = escape_controls(str(result), keep="\n")
    encoding = sys.stdout.encoding or "utf-8"
    print(text.encode(encoding, "backslashreplace").decode(encoding))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="derivdata", description="Crypto derivatives data: report on it, serve it, bring it in."
    )
    parser.add_argument("--version", action="version", version=f"derivdata {__version__}")
    debug = "show the traceback of a failed job"
    parser.add_argument("--debug", action="store_true", help=debug)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    _add_report(commands.add_parser("report", help="figures and tables of a source in one HTML file"))
    _add_serve(commands.add_parser("serve", help="the documented API over an archive or the sample"))
    _add_import(commands.add_parser("import", help="bring CSV, JSON or Parquet files into an archive"))
    _add_info(commands.add_parser("info", help="tables, rows and span of an archive"))
    _add_bundle(commands.add_parser("bundle", help="look into a recording, or check it"))
    _add_collect(commands.add_parser("collect", help="ask the venues, without a key, for as long as it runs"))
    _add_backfill(commands.add_parser("backfill", help="fetch histories of the venues, without a key"))
    _add_status(commands.add_parser("status", help="what was collected of each venue"))
    _add_venues(commands.add_parser("venues", help="what each venue can be asked, and whether it answers"))
    for command in commands.choices.values():  # also after the command: SUPPRESS keeps what stood before it
        command.add_argument("--debug", action="store_true", default=argparse.SUPPRESS, help=debug)
    return parser


def _add_report(parser: argparse.ArgumentParser) -> None:
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
    parser.add_argument("--now", metavar="ISO", help="freeze the clock of an archive or the sample")
    parser.set_defaults(run=_report)


def _add_choices(parser: argparse.ArgumentParser) -> None:
    """Add the options that narrow the report."""
    parser.add_argument("--venues", nargs="+", metavar="VENUE", help="only these venues (default: all)")
    parser.add_argument(
        "--fees",
        nargs="+",
        action=_Fees,
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


def _add_serve(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("source", help="'sample', 'venues' or an archive's folder")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8080)
    parser.add_argument("--now", metavar="ISO", help="freeze the service's clock")
    live = "follow the machine's clock: for an archive that a collector fills meanwhile"
    parser.add_argument("--live", action="store_true", help=live)
    parser.add_argument(
        "--key",
        type=_pair,
        action=_Pairs,
        default={},
        metavar="TIER=KEY",
        help="free, dev, pro or team; one key for each",
    )
    parser.add_argument("--keyless", action="store_true", help="answer requests without a key as Team")
    parser.add_argument(
        "--allow-host",
        action="append",
        default=[],
        metavar="NAME",
        help="a name under which it may be called, besides localhost and addresses",
    )
    parser.set_defaults(run=_serve)


def _add_import(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("table", help="name of the table, such as funding_settlements")
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE")
    parser.add_argument("--to", type=Path, required=True, metavar="ARCHIVE")
    parser.add_argument(
        "--map",
        type=_pair,
        action=_Pairs,
        default={},
        metavar="NAME=COLUMN",
        help="the table's column from the file's",
    )
    parser.add_argument(
        "--set",
        type=_pair,
        action=_Pairs,
        default={},
        metavar="COLUMN=VALUE",
        help="one value in every row",
    )
    parser.add_argument("--tz", metavar="ZONE", help="zone of instants that state none")
    parser.add_argument("--unit", metavar="UNIT", help="unit of the file's rates or volatilities")
    parser.add_argument(
        "--map-value",
        type=_value_pair,
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


def _add_collect(parser: argparse.ArgumentParser) -> None:
    _add_collected(parser, "of histories (default: BTC ETH); the state is kept of all")
    parser.add_argument("--once", action="store_true", help="ask once and end")
    parser.add_argument("--log", choices=("json",), help="print a line of JSON each minute")
    parser.set_defaults(run=_collect)


def _add_backfill(parser: argparse.ArgumentParser) -> None:
    _add_collected(parser, "(default: BTC ETH)")
    parser.add_argument(
        "--since", default="30d", metavar="WHEN", help="an instant or a lookback (default: 30d)"
    )
    parser.add_argument("--until", metavar="ISO", help="an instant (default: now)")
    parser.set_defaults(run=_backfill)


def _add_collected(parser: argparse.ArgumentParser, symbols: str) -> None:
    """Add the options of commands that ask venues."""
    parser.add_argument("--to", type=Path, required=True, metavar="ARCHIVE")
    parser.add_argument("--venues", nargs="+", metavar="VENUE", help="(default: all but derive)")
    parser.add_argument(
        "--symbols", nargs="+", default=["BTC", "ETH"], metavar="SYMBOL", help=f"assets {symbols}"
    )
    parser.add_argument("--tables", nargs="+", metavar="TABLE", help="only these tables")
    parser.add_argument(
        "--unconfirmed", action="store_true", help="also what the specification could not confirm"
    )


def _add_status(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("archive", type=Path)
    parser.set_defaults(run=_status)


def _add_venues(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("action", nargs="?", choices=("check",), help="ask each endpoint once")
    parser.add_argument("--venues", nargs="+", metavar="VENUE", help="(default: all but derive)")
    parser.set_defaults(run=_venues)


def _add_info(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("archive", type=Path, metavar="ARCHIVE", help="an archive's folder")
    parser.set_defaults(run=_info)


def _add_bundle(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("action", choices=("info", "verify"))
    parser.add_argument("file", type=Path, metavar="FILE")
    parser.set_defaults(run=_bundle)


class _Fees(argparse.Action):
    """Costs by venue from words such as ``4 binance=2.5``; the bare number is that of all other venues."""

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any, *_: Any
    ) -> None:
        try:
            pairs = [(name, float(fee)) for name, _, fee in (word.rpartition("=") for word in values)]
        except ValueError:
            parser.error(f"--fees takes numbers or VENUE=BPS, not {' '.join(values)!r}")
        setattr(namespace, self.dest, {name or "others": fee for name, fee in pairs})


class _Pairs(argparse.Action):
    """NAME=VALUE, any number of times, each name once."""

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any, *_: Any
    ) -> None:
        name, value = values
        before: dict[str, str] = getattr(namespace, self.dest)
        if name in before:
            parser.error(f"{self.option_strings[0]} gives {name} twice: {before[name]!r} and {value!r}")
        setattr(namespace, self.dest, before | {name: value})


def _report(arguments: argparse.Namespace) -> None:
    from derivdata import errors, report

    given = {name: getattr(arguments, name) for name in _REPORT if getattr(arguments, name) is not None}
    with ExitStack() as stack, warnings.catch_warnings():
        warnings.simplefilter("ignore", errors.DataNotice)  # the report itself states every notice
        chosen = _source(arguments, given, stack)
        replayed = arguments.source if str(arguments.source or "").endswith(".ddz") else None
        kept = arguments.bundle or replayed
        _say(report(chosen.pop("symbols"), out=arguments.out, bundle=kept, **chosen))


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


def _bundle(arguments: argparse.Namespace) -> None:
    from derivdata import bundle

    if arguments.action == "info":
        _say(bundle.info(arguments.file))
    else:
        _say(f"{arguments.file}: {bundle.verify(arguments.file)} answers, every hash right")


def _info(arguments: argparse.Namespace) -> None:
    from derivdata import archive

    tables = archive.open_archive(arguments.archive, create=False).info()
    _say(tables.to_string() if len(tables) else f"{arguments.archive}: an archive without tables")


def _serve(arguments: argparse.Namespace) -> None:
    from derivdata import service, times

    service.serve(
        arguments.source,
        host=arguments.host,
        port=arguments.port,
        now=None if arguments.now is None else times.instant(arguments.now, "--now"),
        live=arguments.live,
        keys=arguments.key,
        keyless=arguments.keyless,
        allow_hosts=arguments.allow_host,
    )


def _import(arguments: argparse.Namespace) -> None:
    from derivdata import archive

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
    _say(result)


def _collect(arguments: argparse.Namespace) -> None:
    import signal

    from derivdata import archive, collect

    clock = collect.MachineClock()
    collector = collect.Collector(
        archive.open_archive(arguments.to),
        venues=arguments.venues,
        symbols=arguments.symbols,
        names=arguments.tables,
        unconfirmed=arguments.unconfirmed,
        clock=clock,
        log=_say if arguments.log else None,
    )
    for terms in collector.terms:
        _say(terms)
    if arguments.once:
        _say("\n".join(f"{table}: {rows} rows" for table, rows in collector.once().items()))
        _say("\n".join(f"{venue}: not to be had: {why}" for venue, why in collector.gone.items()))
    else:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: clock.stop())
        collector.run()
    collector.close()


def _backfill(arguments: argparse.Namespace) -> None:
    from derivdata import archive, collect, times

    now = collect.MachineClock().utc()
    window = times.window(arguments.since, now if arguments.until is None else arguments.until)
    done = collect.backfill(
        archive.open_archive(arguments.to),
        arguments.symbols,
        window.start,
        window.end,
        venues=arguments.venues,
        names=arguments.tables or ("funding_settlements", "oi_history"),
        unconfirmed=arguments.unconfirmed,
        progress=_say,
    )
    _say(f"{sum(done.written.values())} rows, {len(done.failed)} windows failed, {done.requests} requests")


def _status(arguments: argparse.Namespace) -> None:
    from derivdata import archive, collect
    from derivdata.collect.status import status

    opened = archive.open_archive(arguments.archive, create=False)
    _say(status(opened, collect.MachineClock().utc()).to_string(index=False))


def _venues(arguments: argparse.Namespace) -> None:
    import pandas as pd

    from derivdata import collect, venues
    from derivdata.collect.checked import checked_on, keep_checks
    from derivdata.collect.histories import chosen_venues
    from derivdata.collect.session import VenueSession
    from derivdata.collect.status import check
    from derivdata.venues.registry import VENUES

    names = chosen_venues(arguments.venues)
    if arguments.action is None:
        rows, days = venues.endpoints(), checked_on()
        named = rows["exchange"] + " " + rows["path_or_channel"]
        rows["verified_on"] = [days.get(name, "") for name in named]
        _say(rows[rows["exchange"].isin(names)].to_string(index=False))
        _say("\n".join(f"{name}: {VENUES[name].terms}" for name in names))
        return
    clock = collect.MachineClock()
    parts = [check(VenueSession(VENUES[name], clock)) for name in names]
    found = pd.concat(parts, ignore_index=True)
    named = found["exchange"] + " " + found["path_or_channel"]
    confirmed = dict.fromkeys(named[found["verdict"] == "confirms"], f"{clock.utc():%Y-%m-%d}")
    keep_checks(confirmed, named[found["verdict"] == "contradicts"].tolist())
    _say(found.to_string(index=False))


def _value_pair(text: str) -> tuple[str, str, str]:
    column, colon, words = text.partition(":")
    old, equals, new = words.rpartition("=")
    if not (colon and equals and column and old and new):
        raise argparse.ArgumentTypeError(f"{text!r} is not COLUMN:WORD=WORD")
    return column, old, new


def _pair(text: str) -> tuple[str, str]:
    name, sign, value = text.partition("=")
    if not (sign and name and value):
        raise argparse.ArgumentTypeError(f"expected NAME=VALUE, not {text!r}")
    return name, value
