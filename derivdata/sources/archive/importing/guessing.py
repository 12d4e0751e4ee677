"""Recognise a file without a declared layout, by the names and sizes of its columns, or ask."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from derivdata.sources.archive.importing.finishing import ADJUST
from derivdata.sources.archive.importing.guessed_columns import (
    QUANTITIES,
    column_of_words,
    columns_by_meaning,
    quantity_of,
    unit_of_interest,
    unit_of_rates,
    unit_of_volatility,
)
from derivdata.sources.archive.importing.guessed_tables import guessed_table, own_table
from derivdata.sources.archive.importing.market_names import market_of, names_in_path
from derivdata.sources.archive.importing.opening import Source
from derivdata.sources.archive.importing.plan import IN_COINS, Given, ImportPlan, make_plan
from derivdata.sources.archive.importing.readers import Chunk
from derivdata.sources.archive.importing.values import encoded
from derivdata.sources.archive.schemas import archive_table


def guessed_plan(source: Source, head: Chunk, table: str | None, given: Given) -> ImportPlan:
    """Return how a file is read whose columns have the library's names, or names that mean one thing."""
    exact = own_table(source, head, table, given)
    if exact is not None:
        return make_plan(exact, given)
    found = columns_by_meaning(head)
    if "value" in found and not QUANTITIES & found.keys():
        quantity = quantity_of(source, table)
        if quantity is not None:
            found[quantity] = found["value"]
    if table is None:
        return _plan(source, head, guessed_table(source, head, found, given), found, given)
    return _plan(source, head, table, found, given)


def _plan(source: Source, head: Chunk, table: str, found: Mapping[str, str], given: Given) -> ImportPlan:
    """Return a plan that takes each column by its name, and says units that names or sizes state."""
    columns = archive_table(table).columns
    stated = {*given.set, *given.map}
    mapped = {
        name: column
        for name, column in found.items()
        if (name in columns or name == "interval_hours") and name not in stated and name not in head.columns
    }
    has = {*stated, *head.columns}
    unit = given.unit
    if "rate_bps_8h" in columns and "rate" in found and "rate_bps_8h" not in has:
        mapped["rate_bps_8h"] = found["rate"]
        unit = unit or unit_of_rates(source, head, found["rate"])
    if table == "oi_history" and "oi_usd" not in {*mapped, *has} and "oi_coins" in found:
        mapped["oi_usd"] = found["oi_coins"]
        unit = unit or unit_of_interest(source, found["oi_coins"])
        _take_price(found, mapped, stated, unit)
    fixed = _take_kind_of_price(source, found, mapped, has) if table == "prices_history" else {}
    if "fill_price_usd" in columns and "price_usd" in found:
        name = "order_price_usd" if "fill_price_usd" in mapped else "fill_price_usd"
        if name not in has:
            mapped[name] = found["price_usd"]
    if "strike" in columns:
        _options(head, found, mapped)
        unit = unit or unit_of_volatility(source, head, found)
    if "side" in columns and "side" not in stated:
        _take_sides(head, table, mapped)
    time_column = mapped.get("time", "time")
    tz = given.tz or ("UTC" if re.search(r"utc", time_column, re.IGNORECASE) else None)
    whole = given._replace(
        tz=tz,
        map={**mapped, **given.map},
        set={**_path_words(source, head, mapped, columns, stated), **fixed, **given.set},
        unit=unit,
    )
    if table == "orderbook_book":
        return _plan_of_book(found, whole, head)
    has_interval = "interval_hours" in {*whole.map, *whole.set, *head.columns}
    return make_plan(table, whole, is_spaced=table == "funding_settlements" and not has_interval)


def _take_price(found: Mapping[str, str], mapped: dict[str, str], stated: set[str], unit: str) -> None:
    """Take the price by which open interest in coins or contracts becomes USD."""
    price = found.get("mark") or found.get("index") or found.get("price_usd") or found.get("last")
    if unit in IN_COINS and price is not None and "price_usd" not in stated:
        mapped["price_usd"] = price


def _take_kind_of_price(
    source: Source, found: Mapping[str, str], mapped: dict[str, str], has: set[str]
) -> dict[str, str]:
    """Take the mark, the index or the last price; return the kind where a column or the path says it."""
    if "price_usd" in {*mapped, *has}:
        return {}
    column = next((found[name] for name in ("mark", "index", "last") if name in found), None)
    if column is None:
        return {}
    mapped["price_usd"] = column
    kinds = [name for name in ("mark", "index") if found.get(name) == column]
    return {} if "kind" in has else {"kind": kinds[0] if kinds else _kind_in_path(source)}


def _take_sides(head: Chunk, table: str, mapped: dict[str, str]) -> None:
    """Take the column whose words are types of options, or positions that were closed."""
    columns = archive_table(table).columns
    column = ""
    if "strike" in columns:
        column = column_of_words(head, _OPTION_TYPES)
    elif "order_id" in columns:
        column = column_of_words(head, _POSITIONS)
    if column:
        mapped["side"] = column


def _plan_of_book(found: Mapping[str, str], given: Given, head: Chunk) -> ImportPlan:
    """Return the plan of an order book; levels that it does not number are numbered from the best price."""
    levels = {"price_usd": "price_usd", "size": "quantity", "side": "side"}
    mapped = {name: found[meaning] for name, meaning in levels.items() if meaning in found}
    whole = given._replace(map={**given.map, **{n: c for n, c in mapped.items() if n not in given.set}})
    if "level" in {*head.columns, *whole.map, *whole.set}:
        return make_plan("orderbook_book", whole)
    plan = make_plan("orderbook_book", whole, adjust=ADJUST["levels"])
    return plan._replace(makes=frozenset({"level"}))


def _kind_in_path(source: Source) -> str:
    """Return the kind of the candles of a file: that of the mark price or the index if its name says so."""
    name = source.name.rsplit("/", 1)[-1].lower()
    kinds = [kind for kind in ("mark", "index") if re.search(rf"(?<![a-z]){kind}(?!et)", name)]
    return kinds[0] if len(kinds) == 1 else "last"


def _path_words(
    source: Source, head: Chunk, mapped: Mapping[str, str], columns: Any, stated: set[str]
) -> dict[str, str]:
    """Return venue and symbol as names of the file and its folders state them, where nothing else does."""
    have = {*mapped, *stated, *head.columns}
    return {
        name: word for name, word in names_in_path(source).items() if name in columns and name not in have
    }


def _options(head: Chunk, found: Mapping[str, str], mapped: dict[str, str]) -> None:
    """Take the column of instruments as such, where its values are names of options."""
    for meaning in ("instrument_name", "symbol"):
        column = found.get(meaning)
        if column is None:
            continue
        texts = encoded(head.columns[column]).texts[:20]
        if texts and all(market_of(text).kind == "option" for text in texts):
            mapped["instrument_name"] = column
            if mapped.get("symbol") == column:
                del mapped["symbol"]
            return
    mapped.pop("instrument_name", None)


_OPTION_TYPES = frozenset({"c", "p", "call", "put", "calls", "puts"})
_POSITIONS = frozenset({"long", "short", "longs", "shorts"})
