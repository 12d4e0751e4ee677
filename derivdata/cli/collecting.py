"""Commands ``collect``, ``backfill``, ``status`` and ``venues``."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from derivdata.cli.options import say
from derivdata.errors import DerivdataError

if TYPE_CHECKING:
    from derivdata.sources.collect.file_histories import FileBackfill
    from derivdata.sources.collect.histories import Backfilled
    from derivdata.sources.collect.reporting import Alerts
    from derivdata.sources.collect.session import Clock


def add_collect(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``derivdata collect``."""
    _add_collected(parser, "of histories (default: BTC ETH); the state is kept of all")
    parser.add_argument(
        "--depth", nargs="+", default=[], metavar="SYMBOL", help="keep order books of these, each minute"
    )
    parser.add_argument(
        "--streams",
        nargs="+",
        default=[],
        metavar="VENUE",
        help="listen to liquidations of these venues, where the default is to ask for them (gateio)",
    )
    parser.add_argument(
        "--push", action="store_true", help="keep what venues push of SYMBOLS too, of each second"
    )
    parser.add_argument("--once", action="store_true", help="ask once and end")
    parser.add_argument("--log", choices=("json",), help="print a line of JSON each minute")
    parser.add_argument(
        "--keep", metavar="TIME", help="remove whole months or days that are older (400d; default: keep all)"
    )
    parser.add_argument(
        "--fail-after", metavar="TIME", help="end with status 1 when no venue answered for so long (1h)"
    )
    parser.add_argument(
        "--all-contracts",
        action="store_true",
        help="request open interest of every contract of a symbol where each takes a request (binance)",
    )
    parser.add_argument(
        "--alert",
        action="append",
        default=[],
        metavar="RULE",
        help="post when a rule begins or ceases to hold: 'funding_history.rate_bps_8h > 20 symbol=BTC', "
        "'gap oi_history 30m', 'silent 15m exchange=okx'; may be repeated",
    )
    parser.add_argument(
        "--alert-url",
        metavar="URL",
        help="where alerts are posted (default: DERIVDATA_ALERT_URL); DERIVDATA_ALERT_SECRET signs them",
    )
    parser.set_defaults(run=_collect)


def _collect(arguments: argparse.Namespace) -> None:
    import signal

    from derivdata.sources import archive, collect
    from derivdata.sources.collect.reporting import Minute, StatusLine
    from derivdata.sources.collect.session import MachineClock
    from derivdata.support import times

    clock = MachineClock()
    status = StatusLine()
    whole = {"share_seconds": None} if arguments.once else {}
    show = status.show if arguments.log is None else lambda _: None

    def tell(minute: Minute) -> None:
        is_silent = not any(minute.rows.values()) and (minute.failed or minute.gone)  # of all that was due
        (say if arguments.log or is_silent else show)(minute.json() if arguments.log else minute.line())

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
        keep=None if arguments.keep is None else times.length(arguments.keep, "keep"),
        fail_after=None if arguments.fail_after is None else times.length(arguments.fail_after, "fail-after"),
        clock=clock,
        **whole,
        log=tell,
        alerts=_alerts(arguments, clock),
        progress=show,
    )
    for terms in collector.terms:
        say(terms)
    if arguments.once:
        rows = collector.once()
        status.end()
        say("\n".join(f"{table}: {count} rows" for table, count in rows.items()))
        say("\n".join(f"{venue}: unavailable: {why}" for venue, why in collector.gone.items()))
        lost = {part: why for part, why in collector.failed.items() if part.split()[0] not in collector.gone}
        say("\n".join(f"{part}: failed: {why}" for part, why in lost.items()))
        if not any(rows.values()) and (lost or collector.gone):
            collector.close()
            raise DerivdataError("nothing was collected: no venue answered as it should")
    else:
        clock.stop_on([signal.SIGINT, signal.SIGTERM])
        try:
            collector.run()
        finally:
            status.end(keep=True)
    collector.close()


def _alerts(arguments: argparse.Namespace, clock: Clock) -> Alerts | None:
    """Return the alerts of the options, or None without a rule."""
    import os

    from derivdata.sources.collect.reporting import Alerts, parse_rule

    if not arguments.alert:
        return None
    url = arguments.alert_url or os.environ.get("DERIVDATA_ALERT_URL", "")
    if not url:
        raise ValueError("--alert needs the address to post to: pass --alert-url or set DERIVDATA_ALERT_URL")
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
        "--dry-run", action="store_true", help="of files: only list them, and say how many rows they have"
    )
    parser.add_argument(
        "--folder", type=Path, metavar="FOLDER", help="where the files stay (default: none is kept)"
    )
    parser.set_defaults(run=_backfill)


def _backfill(arguments: argparse.Namespace) -> None:
    import signal

    from derivdata.sources import archive, collect
    from derivdata.sources.collect.file_histories import backfill_files
    from derivdata.sources.collect.session import MachineClock
    from derivdata.support import times

    if not arguments.files and (arguments.dry_run or arguments.folder):
        raise ValueError("--dry-run and --folder are of --files")
    clock = MachineClock()
    clock.stop_on([signal.SIGINT, signal.SIGTERM])
    now = clock.utc()
    window = times.window(arguments.since, now if arguments.until is None else arguments.until)
    place = archive.open_archive(arguments.to)
    symbols = arguments.symbols
    options: dict[str, Any] = {"venues": arguments.venues, "clock": clock, "progress": say}
    options |= {"names": arguments.tables} if arguments.tables else {}
    if arguments.files:
        options |= {"dry_run": arguments.dry_run, "folder": arguments.folder}
        done: Backfilled = _of_files(
            backfill_files(place, symbols, *window, **options), dry_run=arguments.dry_run
        )
    else:
        done = collect.backfill(place, symbols, *window, unconfirmed=arguments.unconfirmed, **options)
    for notice in dict.fromkeys(done.notices):
        say(notice)
    rows = sum(done.written.values())
    parts = "files" if arguments.files else "windows"
    say(f"{rows} rows, {len(done.failed)} {parts} failed, {done.requests} requests")
    if done.failed and not rows:
        raise DerivdataError("nothing was written: see above what failed")


def _of_files(done: FileBackfill, *, dry_run: bool) -> FileBackfill:
    """Print terms, plan and failures of files, which progress does not show."""
    for exchange, terms in done.terms.items():
        say(f"terms of the files of {exchange}: {terms}")
    if dry_run:
        say(done.plan.to_string(index=False) if len(done.plan) else "no such files")
    done.notices += done.failed
    return done


def _add_collected(parser: argparse.ArgumentParser, symbols: str) -> None:
    """Add the options of commands that ask venues."""
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
        help="end with status 1 where a collected table's last answer is older (10m)",
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
        silent = late(opened, now, times.length(arguments.fail_after, "fail-after"))
        if silent or rows.empty:
            named = ", ".join(silent) or "the archive has no requests"
            raise DerivdataError(f"no answer for {arguments.fail_after}: {named}")


def add_venues(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``derivdata venues``."""
    parser.add_argument(
        "action",
        nargs="?",
        choices=("check", "endpoints"),
        help="ask each endpoint once; list every endpoint",
    )
    parser.add_argument("--venues", nargs="+", metavar="VENUE", help="(default: all but derive)")
    parser.add_argument("--out", type=Path, metavar="FILE", help="of check: also write the verdicts as JSON")
    parser.add_argument(
        "--bodies",
        type=Path,
        metavar="FOLDER",
        help="of check: also write each answer, without addresses and accounts, for a report of an error",
    )
    parser.set_defaults(run=_venues)


def _venues(arguments: argparse.Namespace) -> None:
    from derivdata.sources import venues
    from derivdata.sources.collect.files import checked_on
    from derivdata.sources.collect.histories import chosen_venues
    from derivdata.sources.venues.coverage import coverage_of
    from derivdata.sources.venues.registry import VENUES

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
    from derivdata.sources.collect.files import keep_checks, write_checks
    from derivdata.sources.collect.session import MachineClock, VenueSession, shared_by_host
    from derivdata.sources.venues.registry import VENUES

    clock = MachineClock()
    shared = shared_by_host(VENUES[name] for name in names)
    sessions = [VenueSession(VENUES[name], clock, shared=shared[name]) for name in names]
    checks = check_venues(sessions, progress=say, bodies=bodies)
    day = f"{clock.utc():%Y-%m-%d}"
    endpoint_names = checks["exchange"] + " " + checks["path_or_channel"]
    confirmed = endpoint_names[checks["verdict"] == "confirms"]
    contradicted = endpoint_names[checks["verdict"] == "contradicts"]
    keep_checks(dict.fromkeys(confirmed, day), contradicted.tolist())
    found = (checks, verdicts_of_tables(checks))
    say("\n".join(rows.to_string(index=False) for rows in found if len(rows)))
    if out is not None:
        write_checks(out, checks, day)
    if len(contradicted):
        raise DerivdataError(f"not as expected: {', '.join(contradicted)}")
    if confirmed.empty:
        raise DerivdataError("no venue confirmed anything: see the responses above")
