"""Plan the import of a file without a declared layout from its names and values, or raise `Unclear`."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np
import pyarrow as pa

from derivdata.errors import ArchiveError
from derivdata.sources.archive.importing.adjustments import (
    ADJUST,
    at_delivery,
    book_amount,
    one_side,
)
from derivdata.sources.archive.importing.cells import Rejections, encoded, interval_hours
from derivdata.sources.archive.importing.column_meanings import (
    CLOSES,
    OF_ENDS,
    OPENS,
    PRICES,
    QUANTITIES,
    WORDS,
    columns_by_meaning,
    columns_like,
    columns_named,
    figures_of,
    has_times,
    quantity_in_rows,
    quantity_of,
    quantity_of_ticker,
    texts_of,
)
from derivdata.sources.archive.importing.guessed_contracts import (
    DVOL,
    MIN_DISTINCT,
    columns_of_table,
    distinct_rows,
    path_words,
    plan_of_book,
    plan_of_futures,
    plan_of_trades,
    refuse_quotes_in_rows,
    take_kind_of_price,
    take_kind_of_ratio,
    take_options,
    take_quotes,
    take_sides,
)
from derivdata.sources.archive.importing.guessed_tables import (
    bare_volumes,
    figures_of_all,
    guessed_tables,
    intervals_of_next_payments,
    kinds_of_markets,
    own_table,
    refuse_remaining_orders,
    total_columns,
    unclear_volumes,
    value_columns,
    words_in,
)
from derivdata.sources.archive.importing.guessed_units import (
    FIELDS_OF_BOTH_SIDES,
    MAX_AT_FLOOR,
    AmountPlan,
    amount_plan,
    both_sides,
    interest_of_inverse,
    refuse_large_contracts,
    refuse_other_sizes,
    refuse_small_interest,
    scales_of,
    take_interest,
    unit_in_rows,
    unit_of_mapped,
    unit_of_rates,
    unit_of_volatility,
    words_of,
    words_of_sides,
)
from derivdata.sources.archive.importing.market_names import (
    ALWAYS_HOURLY,
    is_of_markets,
    known_intervals,
    market_of,
    may_name_dated_contracts,
    meaning_of,
    names_in_path,
    pays_hourly,
    plain_name,
    symbols_of,
    venue_of_word,
    venues_of,
)
from derivdata.sources.archive.importing.plan import (
    IN_COINS,
    RATE_UNITS,
    Adjust,
    Given,
    ImportPlan,
    Unclear,
    make_plan,
    units_of,
)
from derivdata.sources.archive.importing.readers import Chunk, Sparse, is_sparse, rows_with
from derivdata.sources.archive.importing.source_files import Source
from derivdata.sources.archive.schemas import archive_table
from derivdata.tables.schema import Kind


def guessed_plans(
    source: Source, head: Chunk, table: str | None, given: Given
) -> tuple[list[ImportPlan], tuple[str, ...]]:
    """Return the plans for a file with the library's column names, or unambiguous names, and notices.

    If a file fills several tables, those with unambiguous units and words are read, and a notice states what
    is unclear about each of the others.
    """
    exact = own_table(source, head, table, given)
    if exact is not None and table is None and _has_rows_of_others(head, exact):
        exact = None
    if exact is not None and not (given.unit and "filled_quantity" in archive_table(exact).columns):
        return [make_plan(exact, given._replace(unit=unit_of_mapped(source, head, given)))], ()
    by_meaning = columns_by_meaning(head)
    _take_stated(given, head, by_meaning)
    _take_dated_contracts(head, by_meaning)
    _drop_other_steps(source, head, by_meaning, given)
    _take_value(source, head, table, by_meaning)
    _take_candles(source, head, table, by_meaning)
    _take_curve(head, by_meaning)
    # Without the table, the unit is that of another quantity of the file, such as open interest.
    is_of_volumes = table == "volume_taker" or not QUANTITIES & by_meaning.keys()
    if given.unit == "usd" and is_of_volumes and "buy_usd" not in by_meaning:
        by_meaning |= bare_volumes(head)
    if table is None:
        refuse_remaining_orders(source, head)
    if "rate" in by_meaning and table != "borrow_rates":
        _refuse_loans(source, head, by_meaning["rate"])
    try:
        return _plans_of(source, head, table, by_meaning, given)
    except Unclear:
        # The venue and the symbol decide many questions of tables and units.
        if {"rate", "oi_usd", "oi_coins"} & by_meaning.keys():
            _refuse_no_market(source, head, by_meaning, given)
        raise


def _take_dated_contracts(head: Chunk, by_meaning: dict[str, str]) -> None:
    """Use the column with names of dated futures as the instrument of the rows.

    A column whose own name does not indicate markets, such as ``id``, must have such names in all rows.
    """
    if "future" in kinds_of_markets(head, by_meaning.get("instrument_name")):
        return
    for column, values in head.columns.items():
        if not may_name_dated_contracts(column, values):
            continue
        kinds = kinds_of_markets(head, column)
        if kinds == {"future"} or ("future" in kinds and is_of_markets(column)):
            by_meaning["instrument_name"] = column
            return


def _plans_of(
    source: Source, head: Chunk, table: str | None, by_meaning: Mapping[str, str], given: Given
) -> tuple[list[ImportPlan], tuple[str, ...]]:
    """Return the plans for one table or for all tables that the columns match, and notices."""
    tables = guessed_tables(source, head, by_meaning, given) if table is None else [table]
    has_prices = table is None and tables[0] in _WITH_PRICES and {"mark", "index"} & by_meaning.keys()
    if len(tables) == 1 and not has_prices and not _has_several_prices(tables[0], by_meaning, given):
        rows, sparse = _rows_of_figures(head, value_columns(tables[0], by_meaning), set())
        plan = _plan(source, rows, tables[0], by_meaning, given)._replace(sparse=sparse)
        return [plan], (*_notices_of(plan, head, given), *_notice_of_volumes(source, head, by_meaning))
    return _plans_of_several(source, head, tables, by_meaning, given)


def _rows_of_figures(head: Chunk, own: set[str], others: set[str]) -> tuple[Chunk, Sparse | None]:
    """Return the rows with values of a table, and its columns if other rows have other values."""
    sparse = Sparse(frozenset(own), (head.quantities | others) - own)
    if not is_sparse(head, sparse):
        return head, None
    return rows_with(head, own), sparse


def _has_rows_of_others(head: Chunk, table: str) -> bool:
    """Return whether some rows have no value of a table but a value of another table."""
    by_meaning = columns_by_meaning(head)
    own = value_columns(table, by_meaning)
    others = figures_of_all(by_meaning) - own
    return _rows_of_figures(head, own, others)[1] is not None


_OF_STEPS = frozenset({"interval", "intervall", "intervalo", "intervalle", "intervallo"})
"""Column names that may mean the spacing of rows or the interval of payments."""


def _drop_other_steps(source: Source, head: Chunk, by_meaning: dict[str, str], given: Given) -> None:
    """Drop a column ``interval`` that contradicts the contracts, because it is a vendor's row spacing."""
    column = by_meaning.get("interval_hours", "")
    if plain_name(column) not in _OF_STEPS or "interval_hours" in given.map:
        return
    venues = venues_of(words_in(source, "exchange", head, by_meaning, given))
    symbols = symbols_of(words_in(source, "symbol", head, by_meaning, given))
    known = known_intervals(venues, symbols)
    stated = interval_hours(head.columns[column], Rejections(len(head)))
    stated = np.unique(stated[np.isfinite(stated)])
    if len(known) == 1 and None not in known and stated.size == 1 and stated[0] not in known:
        del by_meaning["interval_hours"]


def _refuse_no_market(source: Source, head: Chunk, by_meaning: Mapping[str, str], given: Given) -> None:
    """Raise `ArchiveError` if the venue is missing; the message requests the symbol too if it is missing."""
    stated = {*by_meaning, *given.set, *given.map, *names_in_path(source.name)}
    if "exchange" in stated:
        return
    column = by_meaning.get("symbol") or by_meaning.get("instrument_name")
    if column is None and "symbol" not in stated:
        raise ArchiveError(
            f"{source}: symbol and exchange are not in the file: pass both with --market VENUE:SYMBOL, "
            "such as --market binance:BTC, or name their columns with --map symbol=COLUMN and --map "
            f"exchange=COLUMN; the file has {', '.join(head.columns)[:300]}"
        )
    if not any(market_of(name).venue for name in texts_of(head, column)):
        raise ArchiveError(
            f"{source}: exchange is not in the file: name the column with --map exchange=COLUMN, or pass "
            "one value for all rows with --set exchange=VALUE; the file has "
            f"{', '.join(head.columns)[:300]}"
        )


def _notices_of(plan: ImportPlan, head: Chunk, given: Given) -> tuple[str, ...]:
    """Return the notice that open interest of a venue is halved, or that sizes of a book are converted."""
    own = given._replace(map=plan.sources, set=plan.constants)
    if plan.table.name == "orderbook_book":
        return _notice_of_contracts(head, own)
    if plan.table.name == "oi_history":
        return _notice_of_sides(head, own)
    return ()


def _notice_of_volumes(source: Source, head: Chunk, by_meaning: Mapping[str, str]) -> list[str]:
    """Return a notice that volumes of buyers and sellers next to other tables have no unit."""
    volumes = bare_volumes(head)
    if not volumes or "buy_usd" in by_meaning:
        return []
    question = unclear_volumes(source, volumes["buy_usd"], volumes["sell_usd"])
    why = str(question).removeprefix(f"{source}: ")
    return [f"not imported as volume_taker (--table volume_taker): {why}"]


def _notice_of_contracts(head: Chunk, own: Given) -> tuple[str, ...]:
    """Return the notice that sizes of a book are read as contracts of a known size."""
    for word, name in itertools.product(words_of("exchange", head, own), words_of("symbol", head, own)):
        amount = book_amount(venue_of_word(word), name)
        if amount is not None and (amount.is_usd or amount.size != 1.0):
            unit = "USD" if amount.is_usd else "coins"
            return (
                f"sizes of {name} on {word} are contracts of {amount.size:g} {unit}, and are stored in coins",
            )
    return ()


def _notice_of_sides(head: Chunk, own: Given) -> tuple[str, ...]:
    """Return the notice that open interest counts both sides, and is halved or may need to be."""
    column = own.map.get("oi_usd", "oi_usd")
    venues = both_sides(own, head)
    if venues:
        return (
            f"{column} of {', '.join(venues)} counts both sides of each contract and is halved: "
            "name the column oi_usd if it counts one side already",
        )
    named = sorted(venues_of(words_of("exchange", head, own)) & {*FIELDS_OF_BOTH_SIDES})
    # Bybit's singleOpenInterest counts one side (v5, 2026).
    if not named or column == "oi_usd" or plain_name(column).startswith("single"):
        return ()
    return (
        f"{', '.join(named)} publishes the open interest of both sides of each contract, but {column} is "
        "stored unchanged: halve it first if it is the venue's own value",
    )


def _take_value(source: Source, head: Chunk, table: str | None, by_meaning: dict[str, str]) -> None:
    """Use a column named ``value`` as the quantity given by the rows, the table or the file name."""
    if by_meaning.get("value") == by_meaning.get("time"):
        by_meaning.pop("value", None)  # data is Italian for date
    if "value" in by_meaning and not QUANTITIES & by_meaning.keys():
        quantity = quantity_in_rows(source, head) or quantity_of(source, table)
        if quantity is not None:
            by_meaning[quantity] = by_meaning["value"]


_QUANTITY_OF_CANDLES = {
    "funding_history": "rate",
    "oi_history": "oi_coins",
    "positioning_history": "long_short_ratio",
    "volatility_index_published": "index_pct",
}
"""Column that the open of a candle fills, by the table that the caller names."""


def _take_candles(source: Source, head: Chunk, table: str | None, by_meaning: dict[str, str]) -> None:
    """Take the open of candles as the quantity of the table, of the tickers, or of Deribit's index."""
    is_candle = plain_name(by_meaning.get("last", "")) in (*OPENS, *CLOSES)
    quantity = _QUANTITY_OF_CANDLES.get(table or "")
    if table is None and is_candle:
        quantity = quantity_of_ticker(source, head, by_meaning.get("symbol"))
    # Exports of Deribit's index have the names of prices.
    if table is None and DVOL.search(source.file_name):
        quantity = "index_pct"
    has_own = quantity in by_meaning or (quantity == "oi_coins" and "oi_usd" in by_meaning)
    if quantity is not None and is_candle and not has_own:
        _refuse_close(source, by_meaning)
        by_meaning[quantity] = by_meaning.pop("last")


def _refuse_close(source: Source, by_meaning: Mapping[str, str]) -> None:
    """Raise `ArchiveError` for closes without opens, because venues label bars by their starts."""
    close = by_meaning["last"]
    if plain_name(close) in CLOSES and not OF_ENDS.search(plain_name(by_meaning.get("time", ""))):
        raise ArchiveError(
            f"{source}: column {close} is the close of a bar, which is known only when the bar ends: "
            "rename the time column to close_time if the times are bar ends, otherwise shift them to the bar "
            "ends first"
        )


_AT_THE_MONEY = frozenset("atmiv atmvol atmvolatility ivatm atmimpliedvolatility atmimpliedvol".split())


def _take_curve(head: Chunk, by_meaning: dict[str, str]) -> None:
    """Use the at-the-money volatility of each expiry, with the forward next to it as the strike."""
    columns = columns_named(head, _AT_THE_MONEY)
    has_forward = {"expiry", "underlying_price"} <= by_meaning.keys()
    if len(columns) == 1 and has_forward and not {"iv", "strike"} & by_meaning.keys():
        by_meaning["iv"] = columns[0]
        by_meaning["strike"] = by_meaning["underlying_price"]


def _plans_of_several(
    source: Source, head: Chunk, tables: list[str], by_meaning: Mapping[str, str], given: Given
) -> tuple[list[ImportPlan], tuple[str, ...]]:
    """Return the plans for the tables that are unambiguous, and the questions about the others."""
    readings = [(name, by_meaning) for name in tables if name != "prices_history"]
    readings += _prices_by_kind(by_meaning)
    figures: set[str] = set()
    for name, meanings in readings:
        figures |= value_columns(name, meanings)
    plans: list[ImportPlan] = []
    notices: list[str] = []
    for name, meanings in readings:
        rows, sparse = _rows_of_figures(head, value_columns(name, meanings), figures)
        try:
            plan = _plan(source, rows, name, meanings, _given_of(name, tables, given))
            _refuse_lacking(plan, rows)
            _refuse_no_price(plan, rows)
        except ArchiveError as question:
            if [name] == tables:
                raise
            why = str(question).removeprefix(f"{source}: ")
            notices.append(f"not imported as {name} (--table {name}): {why}")
            continue
        plans.append(plan._replace(sparse=sparse))
        notices += _notices_of(plan, head, given)
    notices += _notice_of_volumes(source, head, by_meaning)
    if any(plan.table.name in tables for plan in plans):
        return plans, tuple(notices)
    raise Unclear(
        f"{source}: the columns match several tables, {' and '.join(tables)}: select one with "
        f"{' or '.join(f'--table {name}' for name in tables)}",
        "--table",
        tables,
    )


def _prices_by_kind(by_meaning: Mapping[str, str]) -> list[tuple[str, Mapping[str, str]]]:
    """Return the table of prices with the columns of each kind of price next to other tables."""
    readings: list[tuple[str, Mapping[str, str]]] = []
    for kind in ("mark", "index", "last"):
        column = by_meaning.get(kind)
        # A close is known at the end of its bar.
        if column is None or plain_name(column) in CLOSES:
            continue
        meanings = {**by_meaning}
        for other in {*PRICES} - {kind}:
            meanings.pop(other, None)
        readings.append(("prices_history", meanings))
    return readings


_WITH_PRICES = ("funding_settlements", "funding_history")
"""Tables whose rows include the price at the same time."""


def _has_several_prices(table: str, by_meaning: Mapping[str, str], given: Given) -> bool:
    """Return whether a file of prices has several kinds of them, of which the caller selects none."""
    is_selected = bool({"kind", "price_usd"} & {*given.set, *given.map})
    return table == "prices_history" and not is_selected and len(_prices_by_kind(by_meaning)) > 1


def _given_of(table: str, tables: list[str], given: Given) -> Given:
    """Return the options that apply to one table of a file: its columns and units."""
    own = archive_table(table)
    foreign = {"interval_hours", "contract_size", "price_usd"}
    for other in tables:
        foreign |= {*archive_table(other).columns}
    foreign -= {*own.columns}
    if "rate_bps_8h" in own.columns:
        foreign.discard("interval_hours")
    if table == "oi_history":
        foreign -= {"contract_size", "price_usd"}
    mapped = {**given.map}
    constants = {**given.set}
    words = {**given.values}
    for name in foreign:
        mapped.pop(name, None)
        constants.pop(name, None)
        words.pop(name, None)
    unit = given.unit if given.unit in units_of(own) else None
    return given._replace(map=mapped, set=constants, values=words, unit=unit)


def _refuse_no_price(plan: ImportPlan, head: Chunk) -> None:
    """Raise for amounts in coins without a price, so that the other tables of the file are imported."""
    if plan.unit in IN_COINS and plan.raw("price_usd", head) is None:
        raise ArchiveError(
            f"{plan.sources['oi_usd']} is in {plan.unit}, but the file has no price column: import "
            "prices_history first, then this table"
        )


def _refuse_lacking(plan: ImportPlan, head: Chunk) -> None:
    """Raise for a table with a column that the file lacks, other than market names."""
    for name in plan.table.columns:
        if name not in ("symbol", "exchange") and plan.required(name) and plan.raw(name, head) is None:
            plan.refuse_missing([name], head)


_QUANTITY_OF_COLUMN = {"rate_bps_8h": "rate", "price_usd": "last"} | {
    name: name
    for name in (
        "oi_usd long_share short_share long_short_ratio buy_usd sell_usd long_usd short_usd index_pct "
        "volume_usd iv"
    ).split()
}
"""Meanings of the table columns that identify their table."""


def _take_stated(given: Given, head: Chunk, by_meaning: dict[str, str]) -> None:
    """Use the columns that the caller names; a named quantity replaces the other quantities of a file."""
    quantities: dict[str, str] = {}
    names: dict[str, str] = {}
    for name, column in given.map.items():
        if column not in head.columns:
            continue
        if name in _QUANTITY_OF_COLUMN:
            quantities[_QUANTITY_OF_COLUMN[name]] = column
        if name in (*WORDS, "time", "interval_hours"):
            names[name] = column
    if quantities:
        for meaning in {*_QUANTITY_OF_COLUMN.values(), *QUANTITIES} - {*quantities}:
            by_meaning.pop(meaning, None)
    by_meaning |= quantities | names


def _plan(source: Source, head: Chunk, table: str, by_meaning: Mapping[str, str], given: Given) -> ImportPlan:
    """Return the plan of a table."""
    if table == "options_trades":
        return plan_of_trades(source, head, by_meaning, given)
    if table == "futures_history":
        return plan_of_futures(source, head, by_meaning, given)
    if table in _TOTALS_OF and _TOTALS_OF[table] not in {*given.map, *given.set, *head.columns}:
        given = given._replace(map={**_total_of(table, head), **given.map})
    return _plan_by_names(source, head, table, by_meaning, given)


def _plan_by_names(
    source: Source, head: Chunk, table: str, by_meaning: Mapping[str, str], given: Given
) -> ImportPlan:
    """Return a plan with each column by its name, and units from names or sizes."""
    whole = _named_columns(source, head, table, by_meaning, given)
    if table == "orderbook_book":
        return plan_of_book(by_meaning, whole, head)
    amounts = AmountPlan(whole)
    if "filled_quantity" in archive_table(table).columns:
        amounts = amount_plan(source, head, _with_words_of_sides(source, head, whole), given)
        whole = amounts.given
    if table == "oi_history":
        refuse_other_sizes(source, head, whole)
        refuse_large_contracts(source, head, whole)
        amounts = interest_of_inverse(source, head, by_meaning, whole, given)
        whole = amounts.given
    whole = _with_interval(source, head, whole, table)
    _refuse_time_of_payments(source, table, whole)
    _refuse_repeated_times(source, head, table, whole)
    if "strike" in archive_table(table).columns:
        refuse_quotes_in_rows(source, head, whole)
    has_interval = "interval_hours" in {*whole.map, *whole.set, *head.columns}
    is_spaced = table == "funding_settlements" and not has_interval
    adjust = amounts.adjust or _adjustment(table, whole, head)
    plan = make_plan(table, whole, adjust=adjust, is_spaced=is_spaced)
    plan = plan._replace(
        makes=amounts.makes,
        ignored=_of_other_words(table, head, {*given.set, *given.map}) | amounts.ignored,
        scales={**scales_of(source, whole.map), **plan.scales},
    )
    if table == "oi_history" and amounts.adjust is None:
        refuse_small_interest(source, head, plan)
    return plan


def _named_columns(
    source: Source, head: Chunk, table: str, by_meaning: Mapping[str, str], given: Given
) -> Given:
    """Return the options with the columns, constants, words and unit of a file by their names and sizes."""
    columns = archive_table(table).columns
    given = _with_unit_of_rows(source, head, table, by_meaning, given)
    stated = {*given.set, *given.map}
    mapped = columns_of_table(table, head, by_meaning, given)
    has = {*stated, *head.columns}
    unit = _take_figures(source, head, table, by_meaning, mapped, given)
    fixed: dict[str, str] = {}
    words: dict[str, Mapping[str, str]] = {}
    if table == "prices_history":
        fixed = take_kind_of_price(source, head, by_meaning, mapped, given)
    elif table == "positioning_history" and "kind" not in has:
        fixed = take_kind_of_ratio(source, head, by_meaning, mapped, words)
    if "fill_price_usd" in columns and "price_usd" in by_meaning:
        # Where fills have a price of their own, a price without more words is that of orders.
        name = "order_price_usd" if "fill_price_usd" in mapped else "fill_price_usd"
        if name not in has:
            mapped[name] = by_meaning["price_usd"]
    extra: dict[str, Kind] = {}
    if "strike" in columns:
        take_options(head, by_meaning, mapped)
        extra = take_quotes(by_meaning, mapped, has)
    if "side" in columns and "side" not in stated:
        words |= take_sides(head, table, mapped)
    constants = path_words(source, head, mapped, table, stated)
    return given._replace(
        map={**mapped, **given.map},
        extra=extra,
        set={**constants, **fixed, **given.set},
        values={**words, **given.values},
        unit=unit,
    )


def _take_figures(
    source: Source,
    head: Chunk,
    table: str,
    by_meaning: Mapping[str, str],
    mapped: dict[str, str],
    given: Given,
) -> str | None:
    """Add the column of rates or of open interest, and return the unit of a table's figures."""
    columns = archive_table(table).columns
    has = {*given.set, *given.map, *head.columns}
    unit = given.unit
    if "rate_bps_8h" in columns and "rate" in by_meaning and "rate_bps_8h" not in has:
        if given.unit is None and "kraken" in [
            venue_of_word(word) for word in words_in(source, "exchange", head, by_meaning, given)
        ]:
            _refuse_rate_in_usd(source, by_meaning["rate"])
        unit = _take_rate(source, head, by_meaning["rate"], mapped, given)
    unit = unit or unit_of_mapped(source, head, given)
    if table == "oi_history":
        unit = take_interest(source, head, by_meaning, mapped, given) or unit
    if "strike" in columns:
        unit = unit or unit_of_volatility(source, head, by_meaning)
    return unit


def _with_unit_of_rows(
    source: Source, head: Chunk, table: str, by_meaning: Mapping[str, str], given: Given
) -> Given:
    """Add the unit that a column states; raise if the caller states another one."""
    if table != "oi_history" and "rate_bps_8h" not in archive_table(table).columns:
        return given
    unit = unit_in_rows(source, head, table, by_meaning)
    if unit is None or given.unit == unit:
        return given
    if given.unit is not None:
        raise ArchiveError(
            f"{source}: --unit {given.unit} contradicts the unit column of the file, which has {unit}: "
            "omit --unit, or correct the column"
        )
    return given._replace(unit=unit)


def _with_words_of_sides(source: Source, head: Chunk, given: Given) -> Given:
    """Add the meaning of the words of orders on venues that state it."""
    sides = words_of_sides(source, head, given) or _both_words(head, given)
    return given._replace(values={**given.values, "side": sides}) if sides else given


def _both_words(head: Chunk, given: Given) -> dict[str, str]:
    """Return both words of a side column if the caller maps one."""
    stated = given.values.get("side", {})
    column = given.map.get("side", "side")
    if len(stated) != 1 or column not in head.columns:
        return {}
    [(word, side)] = stated.items()
    others = {text.lower() for text in texts_of(head, column)} - {word.lower()}
    if len(others) != 1:
        return {}
    opposite = "short" if side == "long" else "long"
    return {word: side, others.pop(): opposite}


def _adjustment(table: str, given: Given, head: Chunk) -> Adjust | None:
    """Return the function for rows whose quotes or open interest are in a venue's own unit."""
    if table == "delivery_prices":
        return at_delivery
    if table == "oi_history" and (venues := both_sides(given, head)):
        return partial(one_side, venues=venues)
    return ADJUST["quotes_by_size"] if given.extra else None


def _of_other_words(table: str, head: Chunk, stated: set[str]) -> frozenset[str]:
    """Return the optional columns of the table for which the file has words that the table does not allow.

    The column of the file has the same name by chance, so it is ignored.
    """
    columns = archive_table(table).columns
    other = set()
    for name in archive_table(table).optional & {*head.columns} - stated:
        allowed = columns[name].allowed
        if allowed and not {*texts_of(head, name)} <= {*allowed}:
            other.add(name)
    return frozenset(other)


_TIME_OF_PAYMENT = re.compile(
    r"(latest|last|next|prev(ious)?)(funding|settle(ment)?)(rate)?(time(stamp)?|ts|at|date)"
)


def _refuse_time_of_payments(source: Source, table: str, given: Given) -> None:
    """Raise for prices and open interest whose only time is that of the last or next payment.

    CoinEx's ``funding-rate`` has ``mark_price`` of now next to ``latest_funding_time`` (API v2, 2026).
    """
    column = given.map.get("time", "")
    if table in ("prices_history", "oi_history") and _TIME_OF_PAYMENT.fullmatch(plain_name(column)):
        raise ArchiveError(
            f"{source}: {column} is the time of a payment, and not of the figures next to it: pass their "
            "time with --set time=2026-03-27T08:00:00Z or --map time=COLUMN"
        )


_LOANS = frozenset("borrow borrowing lend lending supply deposit loan".split())


def _refuse_loans(source: Source, head: Chunk, column: str) -> None:
    """Raise for rates of loans, which a word in the rows indicates.

    The name of a coin does not count: Binance had the contract LENDUSDT in 2020.
    """
    for name, values in head.columns.items():
        if meaning_of(name) == "symbol":
            continue
        words = {text.lower() for text in encoded(values).texts} if pa.types.is_string(values.type) else set()
        if words and words <= _LOANS:
            raise ArchiveError(
                f"{source}: {column} is a rate of loans, because column {name} has "
                f"{', '.join(sorted(words))}: omit the file, or pass --table borrow_rates and --map "
                f"borrow_apr={column} if it is a fraction per year"
            )


_KEYS_OF_SERIES = ("time", "symbol", "exchange", "kind", "resolution")
_SERIES = frozenset(
    "funding_settlements funding_history oi_history prices_history positioning_history liquidations_history "
    "volume_history volume_taker volatility_index_published".split()
)


def _refuse_repeated_times(source: Source, head: Chunk, table: str, given: Given) -> None:
    """Raise `Unclear` if most rows share time, symbol and venue with another row.

    Their time of day, or their contract, is in a column that was not recognised.
    """
    names = [given.map.get(name, name) for name in _KEYS_OF_SERIES if name not in given.set]
    keys = {*names} & {*head.columns}
    figures: set[str] = set()
    for name in {*archive_table(table).columns} - {*_KEYS_OF_SERIES}:
        column = given.map.get(name, name)
        if column in head.columns:
            figures.add(column)
    if table not in _SERIES or not keys or not figures or not len(head):
        return
    distinct_keys = distinct_rows(head, keys)
    distinct = distinct_rows(head, keys | figures)
    if distinct_keys < MIN_DISTINCT * distinct:
        raise Unclear(
            f"{source}: {distinct:,} different rows have only {distinct_keys:,} different combinations "
            f"of {', '.join(names)}: name the column that distinguishes them with --map time=COLUMN or "
            "--map symbol=COLUMN, or write one file for each series; the file has "
            f"{', '.join(head.columns)[:300]}",
            "--map",
            [f"time={names[0]}"],
        )


_OF_STARTS = re.compile(r"start|begin|from")
_OF_ENDS = re.compile(r"end(?!ing)|until|(?<![a-z])to(?![a-z])", re.IGNORECASE)


def _refuse_two_ends(source: Source, head: Chunk, mapped: Mapping[str, str]) -> None:
    """Raise `Unclear` for rates with both the start and the end of a period, of which one is the payment."""
    start = mapped.get("time", "")
    ends = [name for name in columns_like(head, _OF_ENDS) if has_times(head.columns[name])]
    if _OF_STARTS.search(plain_name(start)) and len(ends) == 1:
        raise Unclear(
            f"{source}: the file has the start and the end of each period: pass --map time={ends[0]} if "
            f"rates are paid at the end, or --map time={start} if they are paid at the start",
            "--map",
            [f"time={ends[0]}", f"time={start}"],
        )


_PAYERS = re.compile(r"(longs?|shorts?)( ?pays?( ?(longs?|shorts?))?)?", re.I)
_NOT_OF_PAYERS = re.compile(r"position|pos|strateg|trade|my", re.I)
"""Words of columns with the side of the user."""


def _refuse_unsigned_rates(source: Source, head: Chunk, column: str) -> None:
    """Raise for unsigned rates next to a column that states who pays, as in Lighter's responses."""
    if (figures_of(head, column, suffix="%") < 0).any():
        return
    for name, values in head.columns.items():
        if not pa.types.is_string(values.type) or _NOT_OF_PAYERS.search(name):
            continue
        words = texts_of(head, name)
        if _are_payers(words):
            raise ArchiveError(
                f"{source}: column {column} has no negative value, but column {name} states who pays "
                f"({', '.join(words[:3])}): make the rate negative where shorts pay longs, or pass --map "
                f"rate_bps_8h={column} and its --unit if the other column has another meaning"
            )


def _are_payers(words: Sequence[str]) -> bool:
    """Return whether some words state who pays a rate, with shorts among the payers."""
    for word in words:
        if not _PAYERS.fullmatch(word.replace("_", " ")):
            return False
    return any("short" in word.lower() for word in words)


_FLAGS_OF_PREDICTIONS = ("ispredicted", "isprediction", "ispredictive", "isestimated")
_OF_PREDICTIONS = frozenset("predicted prediction estimated estimate next indicative forecast".split())


def _refuse_predicted_rates(source: Source, head: Chunk) -> None:
    """Raise for rates if a column marks some of them as predictions."""
    for column in columns_named(head, _FLAGS_OF_PREDICTIONS):
        if "true" in {text.lower() for text in texts_of(head, column)}:
            raise ArchiveError(
                f"{source}: column {column} marks some rates as predictions: write a file with only "
                "the settled rates"
            )
    for column, values in head.columns.items():
        if not pa.types.is_string(values.type):
            continue
        texts = texts_of(head, column)
        if len(texts) <= _MAX_KINDS and _OF_PREDICTIONS & {text.lower() for text in texts}:
            raise ArchiveError(
                f"{source}: column {column} has the kind of each rate ({', '.join(texts[:5])}): write a "
                "file with only the settled rates and without this column"
            )


_MAX_KINDS = 8


def _with_interval(source: Source, head: Chunk, given: Given, table: str) -> Given:
    """Add the interval of samples whose rates are per the venue's own interval.

    It comes from the venue's facts, or from the time between the next payments that rows state. Raise
    `Unclear` if neither is known.
    """
    if "rate_bps_8h" not in archive_table(table).columns or given.unit not in _OF_INTERVALS:
        return given
    venues = venues_of(words_of("exchange", head, given))
    stated = given.set.get("interval_hours")
    hourly = sorted(venues & ALWAYS_HOURLY)
    if stated is not None and hourly and stated.strip().lower() not in ("1", "1.0", "1h", "01:00:00"):
        raise ArchiveError(
            f"{source}: interval_hours={stated} contradicts {', '.join(hourly)}, which pays every hour: "
            "omit it, or import the rows of other venues separately"
        )
    between = sorted(intervals_of_next_payments(head, given)) if table == "funding_history" else []
    if stated is not None:
        _refuse_other_interval(source, stated, between)
    has_interval = "interval_hours" in {*given.map, *given.set, *head.columns}
    if table != "funding_history" or has_interval or not venues:
        return given
    known = known_intervals(venues, symbols_of(words_of("symbol", head, given)))
    if None not in known and (known == {1.0} or not _has_floor_of_hours(head, given)):
        return given
    if len(between) == 1:
        return given._replace(set={**given.set, "interval_hours": f"{between[0]:g}"})
    if between:
        raise ArchiveError(
            f"{source}: rates in {given.unit} are per the venue's own interval, but consecutive payments "
            f"are {' or '.join(f'{hours:g}' for hours in between)} hours apart: add a column "
            "interval_hours, or write one file for each interval"
        )
    raise Unclear(
        f"{source}: rates in {given.unit} are per the venue's own interval, which the file does not state: "
        "pass --set interval_hours=8 or --map interval_hours=COLUMN",
        "--set",
        ["interval_hours=8", "interval_hours=4", "interval_hours=1"],
    )


def _refuse_other_interval(source: Source, stated: str, between: Sequence[float]) -> None:
    """Raise for an interval of all rows that is longer than the time between their next payments."""
    hours = interval_hours(pa.chunked_array([[stated]]), Rejections(1))[0]
    shorter = [f"{apart:g}" for apart in between if apart < hours]
    if shorter:
        raise ArchiveError(
            f"{source}: interval_hours={stated} does not fit all rows: some consecutive payments are "
            f"{' or '.join(shorter)} hours apart. Add a column interval_hours, or write one file for "
            "each interval"
        )


_FLOOR_OF_HOUR = 0.0000125


def _has_floor_of_hours(head: Chunk, given: Given) -> bool:
    """Return whether rates of venues that pay less often are at the floor of an hour, 0.00125 %."""
    column = given.map.get("rate_bps_8h", "rate_bps_8h")
    if column not in head.columns:
        return False
    scale, _ = RATE_UNITS[given.unit or "bps_8h"]
    rates = np.abs(figures_of(head, column, suffix="%"))
    name = given.map.get("exchange", "exchange")
    if name in head.columns:
        words = encoded(head.columns[name])
        hourly = [word for word in words.texts if pays_hourly(venue_of_word(word))]
        rates = rates[~words.is_in(hourly)]
    rates = rates[np.isfinite(rates) & (rates > 0)]
    at_floor = np.round(rates / scale, 9) == _FLOOR_OF_HOUR
    return bool(rates.size) and float(np.mean(at_floor)) > MAX_AT_FLOOR


_OF_INTERVALS = [unit for unit, (_, hours) in RATE_UNITS.items() if hours is None]
_TOTALS_OF = {"oi_exchange_totals": "total_oi_usd", "volume_exchange_totals": "total_volume_usd"}


def _total_of(table: str, head: Chunk) -> dict[str, str]:
    """Return the file's column of the totals of venues, if it has one."""
    column = total_columns(head).get(table)
    return {} if column is None else {_TOTALS_OF[table]: column}


def _refuse_rate_in_usd(source: Source, column: str) -> None:
    """Raise `Unclear` for Kraken's ``fundingRate``: in ``historicalfundingrates`` it is in USD per contract.

    The fraction next to it is ``relativeFundingRate`` (Futures API v4, 2026).
    """
    if column == "fundingRate":
        raise Unclear(
            f"{source}: column {column} of kraken may be in USD per contract and hour, because the venue "
            "publishes it next to relativeFundingRate: pass --unit native if it is a fraction, or divide "
            "it by the price first",
            "--unit",
            ["native"],
        )


def _take_rate(source: Source, head: Chunk, column: str, mapped: dict[str, str], given: Given) -> str:
    """Add the column of rates, and return its unit."""
    _refuse_two_ends(source, head, mapped)
    _refuse_unsigned_rates(source, head, column)
    _refuse_predicted_rates(source, head)
    mapped["rate_bps_8h"] = column
    return given.unit or unit_of_rates(source, head, column)
