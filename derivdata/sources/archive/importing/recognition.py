"""Recognise a file: a declared layout, the response of a venue, or the names of its columns."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np
import pandas as pd

from derivdata.errors import ArchiveError
from derivdata.sources.archive.importing.cells import Rejections, encoded, numbers
from derivdata.sources.archive.importing.column_meanings import (
    CLOSES,
    OPENS,
    PRICES,
    QUANTITIES,
    columns_by_meaning,
    columns_named,
    quantity_of,
    texts_of,
)
from derivdata.sources.archive.importing.conversion import names_of_numbers
from derivdata.sources.archive.importing.declared_layouts import (
    BY_SIZE,
    Layout,
    Reads,
    is_headless,
    layouts,
    plan_of,
    sources,
)
from derivdata.sources.archive.importing.guessed_tables import unclear_volumes
from derivdata.sources.archive.importing.guessed_units import (
    interest_by_size,
    unit_of_interest,
    unit_of_rates,
)
from derivdata.sources.archive.importing.guessing import guessed_plans
from derivdata.sources.archive.importing.instruments import DATED_TYPES
from derivdata.sources.archive.importing.market_names import (
    KNOWN_VENUES,
    market_of,
    meaning_of,
    names_in_path,
    plain_name,
    venues_of,
)
from derivdata.sources.archive.importing.plan import Given, ImportPlan, Unclear, make_plan
from derivdata.sources.archive.importing.readers import Chunk, Header, head_of
from derivdata.sources.archive.importing.source_files import Source
from derivdata.sources.archive.importing.timestamps import (
    has_floating_times,
    to_timestamps,
    zone,
    zone_in_name,
)
from derivdata.sources.archive.importing.venue_responses import (
    VenueResponse,
    read_response,
    refuse_size_of_several,
)
from derivdata.sources.archive.schemas import archive_table
from derivdata.sources.venues.registry import VENUES as ADAPTERS
from derivdata.support.text import did_you_mean
from derivdata.tables.contracts import VENUES, venue_slug


class Task(NamedTuple):
    """One table of one file: the recognised layout and the import plan."""

    source: Source
    plan: ImportPlan
    layout: str
    frame: pd.DataFrame | None = None  # rows that are read already, by an adapter
    notices: tuple[str, ...] = ()
    unread: tuple[str, ...] = ()  # columns with numbers that no table of the file stores


def recognise(source: Source, table: str | None, writer: str | None, given: Given) -> list[Task]:
    """Return the tables of a file with their import plans.

    `table` and `writer` (who wrote the file) come from the caller; without them the file must identify them.
    """
    tasks = _recognised(source, table, writer, given)
    if not tasks:
        raise ArchiveError(f"{source}: columns of {table} are missing: name them with --map NAME=COLUMN")
    heads: dict[Header | None, Chunk] = {}
    for task in tasks:
        if task.frame is None and task.plan.header not in heads:
            heads[task.plan.header] = head_of(source, task.plan.header)
    first, *others = [_with_step(with_zone(task, heads), heads) for task in tasks]
    is_of_response = any(task.frame is not None for task in tasks)
    unread = [unread_columns(head, [task.plan for task in tasks]) for head in heads.values()]
    if not unread or is_of_response:  # an adapter does not say which fields it reads
        return [first, *others]
    return [first._replace(unread=unread[0]), *others]


def with_zone(task: Task, heads: Mapping[Header | None, Chunk]) -> Task:
    """Return a task with UTC times if neither the file nor the caller has a zone.

    Tools that write times without a zone write UTC: pandas (`to_datetime` with a `unit`, 3.0), freqtrade's
    and QuantConnect's data files, CryptoDataDownload, and the bulk files of Binance, all seen in 2026.
    `row_checks.refuse_local_times` raises an error if the times contradict it.
    """
    plan = task.plan
    if task.frame is not None or plan.tz is not None:
        return task
    head = heads[plan.header]
    time = plan.raw("time", head) if "time" in plan.table.columns and len(head) else None
    if time is None or isinstance(time, str) or not has_floating_times(time):
        return task
    stated = _stated_zone(task.source, plan.source_of("time", head.columns) or "") or _zone_of_rows(
        task.source, head
    )
    if stated is not None:
        return task._replace(plan=plan._replace(tz=zone(stated)))
    _refuse_clock_of_broker(task.source, head)
    return task._replace(plan=plan._replace(tz=dt.UTC, is_zone_assumed=True))


_OF_SUMS = ("liquidations_history", "volume_history", "volume_taker")
"""Tables whose rows are sums over a step, which equals the spacing of rows."""


def _with_step(task: Task, heads: Mapping[Header | None, Chunk]) -> Task:
    """Return a task of sums or candles with the step between all of its first rows, if nothing states it."""
    plan = task.plan
    if task.frame is not None:
        return task
    head = heads[plan.header]
    if plan.table.name not in _OF_SUMS and not _is_of_candles(plan, head):
        return task
    is_stated = "resolution" in plan.constants or plan.source_of("resolution", head.columns) is not None
    time = plan.raw("time", head) if len(head) else None
    if is_stated or time is None or isinstance(time, str):
        return task
    rows = pd.DataFrame({"time": to_timestamps(time, "time", Rejections(len(head)), tz=plan.tz or dt.UTC)})
    for name in ("symbol", "exchange"):
        words = plan.raw(name, head)
        rows[name] = "" if words is None or isinstance(words, str) else encoded(words).codes
    rows = rows.dropna().drop_duplicates().sort_values(["symbol", "exchange", "time"])
    apart = {*rows.groupby(["symbol", "exchange"])["time"].diff().dropna()}
    for step in plan.table.columns["resolution"].allowed:
        if step[0].isdigit() and apart == {pd.Timedelta(step.replace("d", "D"))}:
            return task._replace(plan=plan._replace(constants={**plan.constants, "resolution": step}))
    return task


def _is_of_candles(plan: ImportPlan, head: Chunk) -> bool:
    """Return whether prices are those of candles, whose step equals the spacing of rows."""
    column = plan.source_of("price_usd", head.columns) if plan.table.name == "prices_history" else None
    return column is not None and plain_name(column) in (*OPENS, *CLOSES)


_OF_METATRADER = re.compile(r"<[A-Z]+>|tick_?vol(ume)?|real_volume", re.IGNORECASE)
"""Names of columns of MetaTrader: ``<TICKVOL>`` of its exports, ``tick_volume`` of its Python package."""


def _refuse_clock_of_broker(source: Source, head: Chunk) -> None:
    """Raise `Unclear` for bars of MetaTrader without a zone: their times are those of the broker's server.

    Each broker has its own zone and summer time (mql5.com/en/articles/9929, 2021).
    """
    if any(map(_OF_METATRADER.fullmatch, head.columns)):
        raise Unclear(
            f"{source}: bars of MetaTrader have the clock of the broker's server: state its zone with --tz, "
            "such as --tz Europe/Athens (UTC+2, and UTC+3 in summer), or --tz UTC",
            "--tz",
            ["Europe/Athens", "UTC", "UTC+2", "UTC+3"],
        )


_ZONES = "such as --tz UTC+8 or --tz America/New_York (or --tz UTC if they are UTC)"
_SOME_ZONES = ["UTC", "UTC+8", "America/New_York", "Europe/London"]


_NAMES_OF_ZONES = frozenset({"tz", "timezone", "timezonename", "tzname", "zone"})


def _zone_of_rows(source: Source, head: Chunk) -> str | None:
    """Return the zone that a column states for all rows; raise for several zones or an unknown one."""
    for column, values in head.columns.items():
        if plain_name(column) not in _NAMES_OF_ZONES:
            continue
        words = encoded(values).texts
        if not words:
            return None
        try:
            zones = {str(zone(word)) for word in words}
        except ValueError:
            zones = set()
        if len(zones) != 1:
            raise Unclear(
                f"{source}: column {column} has time zones ({', '.join(words[:3])}), but only one zone "
                f"for all rows can be read: pass it with --tz, {_ZONES}, or write the times in UTC",
                "--tz",
                _SOME_ZONES,
            )
        return words[0]
    return None


def _stated_zone(source: Source, column: str) -> str | None:
    """Return the zone in the name of the time column; raise `Unclear` for an unspecified local time."""
    try:
        return zone_in_name(column)
    except ValueError as word:
        raise Unclear(
            f"{source}: column {column!r} has local times ({word}) in an unknown time zone: pass it with "
            f"--tz, {_ZONES}",
            "--tz",
            _SOME_ZONES,
        ) from None


def _recognised(source: Source, table: str | None, writer: str | None, given: Given) -> list[Task]:
    if writer is not None and writer not in sources() and writer not in VENUES and writer not in ADAPTERS:
        names = sources()
        raise ValueError(f"from={writer!r} is not one of {', '.join(names)}{did_you_mean(writer, names)}")
    head = head_of(source)
    _refuse_dated_contracts(source, head, table)
    if table is not None and writer is None and given.map:
        return _guessed(source, head, table, given, "columns as named")
    fitting = _fitting(source, head, table, writer)
    if fitting:
        return _tasks_of_layout(source, head, fitting, table, writer, given)
    if not given.map and (table is None or writer is not None or not _has_own_names(head, table)):
        tasks = _of_response(source, head, table, writer, given)
        if tasks:
            return tasks
    if writer is not None and writer in sources():
        raise _no_layout(source, head, table, writer)
    if writer in VENUES and "exchange" not in {*given.set, *given.map}:
        given = given._replace(set={**given.set, "exchange": writer})
    return _guessed(source, head, table, given, "names of the columns")


def _are_prices_of_futures(head: Chunk) -> bool:
    """Return whether all rows name dated futures and have no quantity but prices."""
    by_meaning = columns_by_meaning(head)
    quantities = QUANTITIES & by_meaning.keys()
    names = texts_of(head, by_meaning.get("symbol"))
    is_of_futures = bool(names) and all(market_of(name).kind == "future" for name in names)
    return is_of_futures and bool(quantities) and quantities <= {*PRICES}


def _refuse_dated_contracts(source: Source, head: Chunk, table: str | None) -> None:
    """Raise for rows of a pair whose type is a dated contract, or all contracts."""
    if table == "futures_history" or _are_prices_of_futures(head):
        return
    for column in columns_named(head, ("contracttype",)):
        words = {text.upper() for text in encoded(head.columns[column]).texts}
        if words and words <= DATED_TYPES:
            raise ArchiveError(
                f"{source}: column {column} has {', '.join(sorted(words))}, but the tables are for perpetual "
                "contracts: request the data of the perpetual, or omit the file"
            )


def _tasks_of_layout(
    source: Source,
    head: Chunk,
    fitting: list[tuple[Layout, dict[str, str]]],
    table: str | None,
    writer: str | None,
    given: Given,
) -> list[Task]:
    """Return the tables of a file by the layout that fits it best."""
    layout, constants = _one_of(source, fitting, table)
    _refuse_unknown_zone(source, layout, given)
    _refuse_other_venue(source, head, layout, given)
    given = _with_own_venue(head, layout, constants, given)
    constants = {**_from_path(source, layout, constants, writer, given), **constants}
    tables = [table] if table is not None else _tables_with_kind(layout, given)
    tasks = []
    for reads in layout.tables(head.columns):
        if reads.table in tables:
            names = {**layout.set, **reads.set, **constants, **given.set}
            plan = plan_of(layout, reads, constants, _with_unit(source, head, reads, given, names))
            tasks.append(Task(source, plan, layout.label))
    return tasks


def _tables_with_kind(layout: Layout, given: Given) -> list[str]:
    """Return the tables of a layout; if the caller states a kind, such as mark, those with kinds."""
    tables = layout.table_names
    with_kind = [name for name in tables if "kind" in archive_table(name).columns]
    return with_kind if "kind" in given.set and with_kind else tables


def _guessed(source: Source, head: Chunk, table: str | None, given: Given, label: str) -> list[Task]:
    """Return the tables of a file without a declared layout; the first has the notices."""
    plans, notices = guessed_plans(source, head, table, given)
    first, *others = [Task(source, plan, label) for plan in plans]
    return [first._replace(notices=notices), *others]


def _refuse_unknown_zone(source: Source, layout: Layout, given: Given) -> None:
    """Raise `Unclear` for a layout with local times if the caller does not state their zone."""
    if layout.is_local and given.tz is None:
        raise Unclear(
            f"{source}: a {layout.label} has the local times of the computer that saved it: pass their "
            f"time zone with --tz, {_ZONES}",
            "--tz",
            _SOME_ZONES,
        )


def _with_unit(source: Source, head: Chunk, reads: Reads, given: Given, names: Mapping[str, str]) -> Given:
    """Set the unit of rates and open interest by their size or the file name, or raise `Unclear`.

    `names` are the venue and the symbol of the file.
    """
    if reads.unit != BY_SIZE or given.unit is not None:
        return given
    if reads.table == "volume_taker":
        raise unclear_volumes(source, reads.map["buy_usd"], reads.map["sell_usd"])
    if reads.table == "oi_history":
        column = reads.map["oi_usd"]
        unit = interest_by_size(source, head, {"oi_coins": column}, given._replace(set=names))
        return given._replace(unit=unit or unit_of_interest(source, column))
    return given._replace(unit=unit_of_rates(source, head, reads.map["rate_bps_8h"]))


def _has_own_names(head: Chunk, table: str) -> bool:
    """Return whether a file has the column names of a table and is therefore not a venue's response."""
    return len({*archive_table(table).columns} & {*head.columns}) > 2


def _of_response(
    source: Source, head: Chunk, table: str | None, writer: str | None, given: Given
) -> list[Task]:
    """Return the tables of a venue's response."""
    response = read_response(source, writer, given)
    if response is None:
        return []
    refuse_size_of_several(source, response, given)
    label = f"response of {response.venue} {response.path}"
    if not response.tables:
        raise ArchiveError(
            f"{source}: the file is a {label} without rows to import: {'; '.join(response.notices)}"
        )
    tasks = [
        Task(source, make_plan(name, Given(accept=given.accept)), label, frame, response.notices)
        for name, frame in response.tables.items()
        if table in (None, name)
    ]
    if tasks:
        unread = [*_unread_rates(head, response, given), *_unread_interest(head, response, given)]
        unread += _unread_contracts(head, response)
        tasks[0] = tasks[0]._replace(notices=(*response.notices, *unread))
    if tasks and table is None:
        tasks += _tables_by_name(source, head, label, given, response)
    return tasks


def _unread_rates(head: Chunk, response: VenueResponse, given: Given) -> list[str]:
    """Return the notice that the rates of a response are not stored, such as those of Bitget's tickers."""
    column = columns_by_meaning(head).get("rate")
    if column is None or "interval_hours" in given.set or _has_rates(response):
        return []
    return [
        f"{column} is not stored, because the response does not state the interval of its rates: pass --set "
        "interval_hours=8 if it is 8 hours"
    ]


def _unread_interest(head: Chunk, response: VenueResponse, given: Given) -> list[str]:
    """Return the notice that an adapter does not store the open interest of a response.

    It is in contracts in Gate's tickers, and in coins without a mark price in Bitget's of 2023.
    """
    if _WITH_INTEREST & response.tables.keys() or not len(head):
        return []
    columns = columns_by_meaning(head)
    column = columns.get("oi_usd", columns.get("oi_coins"))
    for name in head.columns:
        if column is None and plain_name(name) in _NAMES_OF_INTEREST:
            column = name
    if column is None:
        return []
    advice = "convert it with a price"
    if "contract_size" not in given.set:
        advice = f"pass --set contract_size=COINS if it is in contracts of one market, or {advice}"
    return [f"{column} is not stored, because the response does not state its value in USD: {advice}"]


_WITH_INTEREST = frozenset({"oi_history", "futures_history", "options_snapshot", "markets_options"})
_NAMES_OF_INTEREST = frozenset({"totalsize", "holdingamount", "holdvol"})
"""Plain names of open interest in the tickers of Gate, Bitget and MEXC (2026).

Elsewhere they may be amounts of other things, so that only responses of venues are searched for them.
"""


def _unread_contracts(head: Chunk, response: VenueResponse) -> list[str]:
    """Return the notice that the rows of dated futures of a response are not stored.

    The list of HTX's `swap_open_interest` has perpetuals and dated futures (2021).
    """
    if "futures_history" in response.tables or "instruments" in response.tables:
        return []
    names: dict[str, None] = {}  # without duplicates
    for column, values in head.columns.items():
        if meaning_of(column) in ("symbol", "instrument_name"):
            texts = encoded(values).texts
            names.update(dict.fromkeys(text for text in texts if market_of(text).kind == "future"))
    if not names:
        return []
    shown = ", ".join([*names][:_SHOWN])
    rest = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return [f"{len(names)} dated contracts ({shown}{rest}) are not stored: no table holds these rows"]


_SHOWN = 3


def _has_rates(response: VenueResponse) -> bool:
    return any(name.startswith("funding") for name in response.tables)


_LIQUIDATIONS = "liquidations_history"


def _tables_by_name(
    source: Source, head: Chunk, label: str, given: Given, response: VenueResponse
) -> list[Task]:
    """Return the tables that an adapter does not read, by the names of their columns.

    Gate's ``contract_stats`` has ``long_liq_usd`` and ``short_liq_usd``, and its tickers have
    ``funding_rate`` without the interval (API v4, 2026).
    """
    columns = columns_by_meaning(head)
    names: list[str] = []
    if {"long_usd", "short_usd"} <= columns.keys() and _LIQUIDATIONS not in response.tables:
        names.append(_LIQUIDATIONS)
    if "rate" in columns and "interval_hours" in given.set and not _has_rates(response):
        names.append("funding_history")
    stated = {name: word for name, word in given.set.items() if name != "contract_size"}
    own = given._replace(set={"exchange": response.venue, **stated})
    tasks: list[Task] = []
    for name in names:
        [plan], notices = guessed_plans(source, head, name, own)
        if plan.raw("symbol", head) is not None:
            tasks.append(Task(source, plan, label, notices=notices))
    return tasks


def _fitting(
    source: Source, head: Chunk, table: str | None, writer: str | None
) -> list[tuple[Layout, dict[str, str]]]:
    """Return the layouts that may match a file, with the constants of its name, the most specific first."""
    fitting = []
    for layout in layouts():
        if writer not in (None, layout.source):
            continue
        if table is not None and table not in layout.table_names:
            continue
        if layout.named_only and writer is None:
            continue
        is_shared = layout.shared or is_headless(head.columns)
        if is_shared and writer is None and _is_of_other_venue(source, layout):
            continue
        if not layout.may_be_at(source.name, is_stated=table is not None):
            continue
        said = layout.fits(head, source)
        if said is not None:
            fitting.append((layout, said))
    return sorted(fitting, key=lambda pair: -pair[0].weight)


def _is_of_other_venue(source: Source, layout: Layout) -> bool:
    """Return whether the path names one venue that is not the layout's."""
    named = names_in_path(source.name).get("exchange")
    return named is not None and layout.set.get("exchange", named) != named


_SHOWN_VENUES = 3


def _refuse_other_venue(source: Source, head: Chunk, layout: Layout, given: Given) -> None:
    """Raise `Unclear` if rows have another venue than the layout."""
    own = layout.set.get("exchange")
    if own is None or "exchange" in {*given.set, *given.map}:
        return
    column = _venue_column(head, layout)
    if column is None:
        return
    stated = venues_of(encoded(head.columns[column]).texts)
    other = sorted(stated - {own})[:_SHOWN_VENUES]
    if other:
        raise Unclear(
            f"{source}: the columns match {layout.label}, but column {column} has {', '.join(other)}: "
            f"pass the venue with --set exchange={other[0]} or --set exchange={own}",
            "--set",
            [f"exchange={venue}" for venue in (*other, own)],
        )


def _venue_column(head: Chunk, layout: Layout) -> str | None:
    """Return the column of venues of a file that the layout does not use.

    A column ``source`` has venues only if one of its words is known.
    """
    used: set[str] = set()
    for reads in layout.reads:
        used |= {column.lower() for column in reads.map.values()}
    for column, values in head.columns.items():
        if meaning_of(column) != "exchange" or column.lower() in used:
            continue
        venues = venues_of(encoded(values).texts)
        if venues and (plain_name(column) != "source" or venues & KNOWN_VENUES):
            return column
    return None


def _with_own_venue(head: Chunk, layout: Layout, said: Mapping[str, str], given: Given) -> Given:
    """Map the column of venues if the layout has none; it takes precedence over names of folders."""
    if "exchange" in {*layout.set, *said, *layout.mapped_names, *given.set, *given.map}:
        return given
    column = _venue_column(head, layout)
    if column is None:
        return given
    return given._replace(map={**given.map, "exchange": column})


def _one_of(
    source: Source, fitting: list[tuple[Layout, dict[str, str]]], table: str | None
) -> tuple[Layout, dict[str, str]]:
    """Return the most specific layout; raise `Unclear` if several are equally specific."""
    best = [pair for pair in fitting if pair[0].weight == fitting[0][0].weight]
    writers = list(dict.fromkeys(layout.source for layout, _ in best))
    labels = " and of ".join(layout.label for layout, _ in best)
    if len(writers) > 1:
        raise Unclear(
            f"{source}: the columns match {labels}: select one with "
            f"{' or '.join(f'--from {name}' for name in writers)}",
            "--from",
            writers,
        )
    if table is None and best[0][0].named_only:
        best = _of_quantity(source, best)
        labels = " and of ".join(layout.label for layout, _ in best)
    tables = list(dict.fromkeys(" and ".join(layout.table_names) for layout, _ in best))
    if table is None and len(tables) > 1:
        raise Unclear(
            f"{source}: the columns match {labels}: select one with "
            f"{' or '.join(f'--table {name}' for name in tables)}",
            "--table",
            tables,
        )
    return best[0]


_TABLES_OF = {"rate": "funding", "oi_usd": "oi", "oi_coins": "oi", "last": "prices"}


def _of_quantity(
    source: Source, fitting: list[tuple[Layout, dict[str, str]]]
) -> list[tuple[Layout, dict[str, str]]]:
    """Return the layouts that match the quantity in the file name, otherwise all."""
    family = _TABLES_OF.get(quantity_of(source, None) or "")
    if family is None:
        return fitting
    own = [pair for pair in fitting if pair[0].reads[0].table.startswith(family)]
    return own or fitting


def _no_layout(source: Source, head: Chunk, table: str | None, writer: str) -> Exception:
    """Return the error that no layout of a source matches a file, with the most similar one."""
    own = [layout for layout in layouts() if layout.source == writer]
    telling = [layout for layout in own if table is None or table in layout.table_names]
    if not telling:
        tables = sorted(set().union(*(layout.table_names for layout in own)))
        return ValueError(
            f"files of {writer} cannot be read as {table}, only as {', '.join(tables)}: omit --from to "
            "read the columns by their names"
        )
    named = [layout for layout in telling if layout.file and layout.constants(source) is not None]
    if named and is_headless(head.columns):
        columns = named[0].columns
        return ArchiveError(
            f"{source}: expected {len(columns)} columns ({', '.join(columns)}), got {len(head.columns)}"
        )
    has = {column.lower() for column in head.columns}
    nearest = max(telling, key=lambda layout: len(has & {column.lower() for column in layout.columns}))
    file = " or its name" if any(layout.file for layout in telling) else ""
    return ArchiveError(
        f"{source}: no layout of {writer}{f' for {table}' if table else ''} has this header{file}: got "
        f"the columns {', '.join(head.columns)[:200]}, but the most similar layout has "
        f"{', '.join(nearest.columns)}; omit --from to read the columns by their names"
    )


def _from_path(
    source: Source, layout: Layout, said: Mapping[str, str], writer: str | None, given: Given
) -> dict[str, str]:
    """Return venue and symbol from the path or the given writer, if nothing else has them."""
    words = names_in_path(source.name)
    if writer is not None and venue_slug(writer) in VENUES:
        words["exchange"] = venue_slug(writer)
    stated = {*layout.set, *said, *given.set, *given.map, *layout.mapped_names}
    return {name: word for name, word in words.items() if name not in stated}


_OF_TIMES = re.compile(r"(time(stamp)?|date|(?<![a-z])ts)(?![a-z])|^(index|unnamed.*|\d+)$", re.IGNORECASE)
"""Names of columns of times, and those of row numbers."""


def unread_columns(head: Chunk, plans: Iterable[ImportPlan]) -> tuple[str, ...]:
    """Return the columns with numbers other than 0 that no plan uses, in the order of the file."""
    used: set[str] = set()
    for plan in plans:
        used.update(plan.sources.values())
        names = [*plan.table.columns, *plan.extra, *names_of_numbers(plan)]
        used.update(filter(None, (plan.source_of(name, head.columns) for name in names)))
    lower = {name.lower() for name in used}
    return tuple(
        name
        for name in head.columns
        if name.lower() not in lower and not _OF_TIMES.search(name) and _has_numbers(head, name)
    )


def _has_numbers(head: Chunk, name: str) -> bool:
    """Return whether all cells of a column are numbers, and some of them not 0."""
    rejections = Rejections(len(head))
    values = numbers(head.columns[name], name, rejections, suffix="%")
    finite = values[np.isfinite(values)]
    return not rejections.bad.any() and bool((finite != 0).any())
