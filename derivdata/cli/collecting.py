"""Commands of data from the venues: ``collect``, ``backfill``, ``status`` and ``venues``."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from derivdata.errors import DerivdataError
from derivdata.support.text import say

if TYPE_CHECKING:
    from derivdata.sources.collect import Collector
    from derivdata.sources.collect.file_histories import FileBackfill
    from derivdata.sources.collect.histories import Backfilled
    from derivdata.sources.collect.reporting import Alerts, StatusLine
    from derivdata.sources.collect.session import Clock


def add_collect(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``derivdata collect``."""
    _add_collected(parser, "of histories (default: BTC ETH); current figures are stored of all symbols")
    parser.add_argument(
        "--depth", nargs="+", default=[], metavar="SYMBOL", help="store order books of these, each minute"
    )
    parser.add_argument(
        "--streams",
        nargs="+",
        default=[],
        metavar="VENUE",
        help="stream liquidations of these venues, which are requested by default (gateio)",
    )
    parser.add_argument(
        "--push", action="store_true", help="also store the pushed data of SYMBOLS, second by second"
    )
    parser.add_argument("--once", action="store_true", help="request each table once and end")
    parser.add_argument("--log", choices=("json",), help="print a line of JSON each minute")
    parser.add_argument(
        "--keep", metavar="TIME", help="remove months or days that are older (400d; default: keep all)"
    )
    parser.add_argument(
        "--fail-after", metavar="TIME", help="end with status 1 if no venue has responded for this long (1h)"
    )
    parser.add_argument(
        "--all-contracts",
        action="store_true",
        help="request open interest of every contract of a symbol, even with one request each (binance)",
    )
    parser.add_argument(
        "--alert",
        action="append",
        default=[],
        metavar="RULE",
        help="post when a rule becomes true or false: 'funding_history.rate_bps_8h > 20 symbol=BTC', "
        "'gap oi_history 30m', 'silent 15m exchange=okx'; may be repeated",
    )
    parser.add_argument(
        "--alert-url",
        metavar="URL",
        help="address for alerts (default: DERIVDATA_ALERT_URL); DERIVDATA_ALERT_SECRET signs them",
    )
    parser.set_defaults(run=_collect)


def _collect(arguments: argparse.Namespace) -> None:
    import signal

    from derivdata.sources import archive, collect
    from derivdata.sources.collect.reporting import Minute, StatusLine
    from derivdata.sources.collect.session import MachineClock

    clock = MachineClock()
    status = StatusLine()

    def show(text: str) -> None:
        if not arguments.log:  # lines of JSON are not mixed with others
            status.show(text)

    def log_minute(minute: Minute) -> None:
        if arguments.log:
            say(minute.json())
        elif not any(minute.rows.values()) and (minute.failed or minute.gone):  # all due requests failed
            say(minute.line())
        else:
            status.show(minute.line())

    collector = collect.Collector(
        archive.open_archive(arguments.to),
        venues=arguments.venues,
        symbols=arguments.symbols,
        names=arguments.tables,
        depth=arguments.depth,
        streams=arguments.streams,
        push=arguments.push,
        unconfirmed=arguments.unconfirmed,
        all_contracts=arguments.all_contracts,
        clock=clock,
        log=log_minute,
        alerts=_alerts(arguments, clock),
        progress=show,
        **_collector_options(arguments),
    )
    for terms in collector.terms:
        say(terms)
    if arguments.once:
        _collect_once(collector, status)
        return
    clock.stop_on([signal.SIGINT, signal.SIGTERM])
    try:
        collector.run()
    finally:
        status.end(keep=True)
    collector.close()


def _collect_once(collector: Collector, status: StatusLine) -> None:
    """Request each table once, and print the number of rows and the failures."""
    rows = collector.once()
    status.end()
    say("\n".join(f"{table}: {count} rows" for table, count in rows.items()))
    say("\n".join(f"{venue}: unavailable: {reason}" for venue, reason in collector.gone.items()))
    failures = []
    for request, reason in collector.failed.items():
        venue = request.partition(" ")[0]
        if venue not in collector.gone:
            failures.append(f"{request}: failed: {reason}")
    say("\n".join(failures))
    collector.close()
    if not any(rows.values()) and (failures or collector.gone):
        raise DerivdataError("nothing was collected: no venue returned valid data; see the reasons above")


def _collector_options(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the arguments of a collector whose options are lengths of time."""
    from derivdata.support import times

    options: dict[str, Any] = {}
    # A single poll has no later turn for the requests that a limit of time would postpone.
    if arguments.once:
        options["share_seconds"] = None
    for name in ("keep", "fail_after"):
        length = getattr(arguments, name)
        if length is not None:
            options[name] = times.length(length, f"--{name.replace('_', '-')}")
    return options


def _alerts(arguments: argparse.Namespace, clock: Clock) -> Alerts | None:
    """Return the alerts of the options, or None without a rule."""
    import os

    from derivdata.sources.collect.reporting import Alerts, parse_rule

    if not arguments.alert:
        return None
    url = arguments.alert_url or os.environ.get("DERIVDATA_ALERT_URL", "")
    if not url:
        raise ValueError("--alert needs an address for alerts: pass --alert-url or set DERIVDATA_ALERT_URL")
    failed = arguments.to.with_name(f"{arguments.to.name}.failed-alerts.jsonl")
    rules = [parse_rule(text) for text in arguments.alert]
    return Alerts(rules, url, os.environ.get("DERIVDATA_ALERT_SECRET", ""), failed, clock, log=say)


def add_backfill(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``derivdata backfill``."""
    _add_collected(parser, "(default: BTC ETH)")
    parser.add_argument("--since", default="30d", metavar="WHEN", help="a time or a lookback (default: 30d)")
    parser.add_argument("--until", metavar="ISO", help="a time (default: now)")
    parser.add_argument(
        "--files", action="store_true", help="read the venues' bulk files, which reach back for years"
    )
    parser.add_argument(
        "--dry-run", action="store_true", help="with --files: only list the files and their number of rows"
    )
    parser.add_argument(
        "--folder", type=Path, metavar="FOLDER", help="folder to keep the files in (default: not kept)"
    )
    parser.set_defaults(run=_backfill)


def _backfill(arguments: argparse.Namespace) -> None:
    import signal

    from derivdata.sources import archive, collect
    from derivdata.sources.collect.file_histories import backfill_files
    from derivdata.sources.collect.session import MachineClock
    from derivdata.support import times

    if not arguments.files and (arguments.dry_run or arguments.folder):
        raise ValueError("--dry-run and --folder need --files; add --files or omit them")
    clock = MachineClock()
    clock.stop_on([signal.SIGINT, signal.SIGTERM])
    window = times.window(arguments.since, arguments.until or clock.utc())
    target = archive.open_archive(arguments.to)
    symbols = arguments.symbols
    options: dict[str, Any] = {"venues": arguments.venues, "clock": clock, "progress": say}
    if arguments.tables:
        options["names"] = arguments.tables
    if arguments.files:
        options |= {"dry_run": arguments.dry_run, "folder": arguments.folder}
        result: Backfilled = _printed(
            backfill_files(target, symbols, *window, **options), dry_run=arguments.dry_run
        )
    else:
        result = collect.backfill(target, symbols, *window, unconfirmed=arguments.unconfirmed, **options)
    for notice in dict.fromkeys(result.notices):
        say(notice)
    rows = sum(result.written.values())
    units = "files" if arguments.files else "windows"
    say(f"{rows} rows, {len(result.failed)} {units} failed, {result.requests} requests")
    if result.failed and not rows:
        raise DerivdataError("nothing was written: see the failures above")


def _printed(result: FileBackfill, *, dry_run: bool) -> FileBackfill:
    """Print terms and plan of files; add the failures to the notices."""
    for exchange, terms in result.terms.items():
        say(f"terms of the files of {exchange}: {terms}")
    if dry_run and len(result.plan):
        say(result.plan.to_string(index=False))
    elif dry_run:
        say("the venues have no such files")
    result.notices += result.failed
    return result


def _add_collected(parser: argparse.ArgumentParser, symbols: str) -> None:
    """Add the options of commands that send requests to venues."""
    parser.add_argument("--to", type=Path, required=True, metavar="ARCHIVE")
    parser.add_argument("--venues", nargs="+", metavar="VENUE", help="(default: all but derive)")
    parser.add_argument(
        "--symbols", nargs="+", default=["BTC", "ETH"], metavar="SYMBOL", help=f"assets {symbols}"
    )
    parser.add_argument("--tables", nargs="+", metavar="TABLE", help="only these tables")
    parser.add_argument(
        "--unconfirmed", action="store_true", help="also requests that the specification could not confirm"
    )


def add_status(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``derivdata status``."""
    parser.add_argument("archive", type=Path)
    parser.add_argument(
        "--fail-after",
        metavar="TIME",
        help="end with status 1 if the last response of a collected table is older (10m)",
    )
    parser.add_argument(
        "--format",
        choices=("text", "json", "prometheus"),
        default="text",
        help="a table, a line of JSON for each row, or Prometheus' text format",
    )
    parser.set_defaults(run=_status)


def _status(arguments: argparse.Namespace) -> None:
    from derivdata.sources import archive
    from derivdata.sources.collect.reporting import late, prometheus, status
    from derivdata.sources.collect.session import MachineClock
    from derivdata.support import times

    opened = archive.open_archive(arguments.archive, create=False)
    now = MachineClock().utc()
    rows = status(opened, now)
    if arguments.format == "text":
        say(rows.to_string(index=False))
    elif arguments.format == "json":
        say(rows.to_json(orient="records", lines=True, date_format="iso").rstrip())
    else:
        say(prometheus(rows))
    if arguments.fail_after is not None:
        late_tables = late(opened, now, times.length(arguments.fail_after, "--fail-after"))
        if late_tables or rows.empty:
            listed = ", ".join(late_tables) or "nothing was collected yet"
            raise DerivdataError(f"no response for {arguments.fail_after}: {listed}")


def add_venues(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``derivdata venues``."""
    parser.add_argument(
        "action",
        nargs="?",
        choices=("check", "endpoints"),
        help="check: send one request to each endpoint; endpoints: list them",
    )
    parser.add_argument("--venues", nargs="+", metavar="VENUE", help="(default: all but derive)")
    parser.add_argument("--out", type=Path, metavar="FILE", help="of check: also write the verdicts as JSON")
    parser.add_argument(
        "--bodies",
        type=Path,
        metavar="FOLDER",
        help="of check: also write each response, without addresses and accounts, for an error report",
    )
    parser.set_defaults(run=_venues)


def _venues(arguments: argparse.Namespace) -> None:
    from derivdata.sources import venues
    from derivdata.sources.collect.histories import chosen_venues
    from derivdata.sources.collect.session import checked_on
    from derivdata.sources.venues.registry import VENUES, coverage_of

    names = chosen_venues(arguments.venues, unconfirmed=True)
    if arguments.action == "check":
        _check(names, arguments.out, arguments.bodies)
    elif arguments.action == "endpoints":
        rows = venues.endpoints()
        say(rows[rows["exchange"].isin(names)].drop(columns="verified_on").to_string(index=False))
    else:
        say(coverage_of(names, checked_on(), unconfirmed=False).to_string(index=False))
        say("\n".join(f"{name}: {VENUES[name].terms}" for name in names))


def _check(names: Sequence[str], out: Path | None, bodies: Path | None) -> None:
    from derivdata.sources.collect.checking import check_venues, verdicts_of_tables
    from derivdata.sources.collect.session import (
        MachineClock,
        VenueSession,
        keep_checks,
        shared_by_host,
        write_checks,
    )
    from derivdata.sources.venues.registry import VENUES

    clock = MachineClock()
    shared = shared_by_host(VENUES[name] for name in names)
    sessions = [VenueSession(VENUES[name], clock, shared=shared[name]) for name in names]
    checks = check_venues(sessions, progress=say, bodies=bodies)
    day = f"{clock.utc():%Y-%m-%d}"
    endpoint_names = checks["exchange"] + " " + checks["path_or_channel"]
    confirmed = endpoint_names[checks["verdict"] == "confirms"]
    contradicted = endpoint_names[checks["verdict"] == "contradicts"]
    # Collectors use endpoints that this machine has confirmed, even if the specification could not.
    keep_checks(dict.fromkeys(confirmed, day), contradicted.tolist())
    tables = (checks, verdicts_of_tables(checks))
    say("\n".join(rows.to_string(index=False) for rows in tables if len(rows)))
    if out is not None:
        write_checks(out, checks, day)
    if len(contradicted):
        raise DerivdataError(f"these endpoints are not as expected: {', '.join(contradicted)}")
    if confirmed.empty:
        raise DerivdataError("no endpoint was confirmed: see the responses above")
