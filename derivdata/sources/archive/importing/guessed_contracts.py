"""Columns of options, trades, futures and books, kinds of prices and ratios, and markets in paths."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from derivdata.errors import ArchiveError
from derivdata.sources.archive.importing.adjustments import (
    ADJUST,
)
from derivdata.sources.archive.importing.cells import Rejections, encoded
from derivdata.sources.archive.importing.column_meanings import (
    CLOSES,
    OF_ENDS,
    OPENS,
    column_of_words,
    first_of,
    plain_columns,
)
from derivdata.sources.archive.importing.guessed_tables import (
    PRICES_OF_FUTURES,
    are_trades,
)
from derivdata.sources.archive.importing.guessed_units import unit_of_volatility
from derivdata.sources.archive.importing.market_names import (
    CURRENCIES,
    market_of,
    names_in_path,
    pair_of_coins,
    plain_name,
)
from derivdata.sources.archive.importing.plan import (
    Given,
    ImportPlan,
    Unclear,
    make_plan,
)
from derivdata.sources.archive.importing.readers import Chunk
from derivdata.sources.archive.importing.source_files import Source
from derivdata.sources.archive.importing.timestamps import instants
from derivdata.sources.archive.schemas import archive_table
from derivdata.tables.schema import Kind

LEAST_DISTINCT = 0.8
_WORDS_OF_QUOTES = frozenset("bid ask mark last mid trade index best_bid best_ask bids asks".split())
_KEYS_OF_QUOTES = ("time", "symbol", "exchange", "instrument_name", "expiry", "strike", "side")


def refuse_quotes_in_rows(source: Source, head: Chunk, given: Given) -> None:
    """Raise for options whose bid, ask and mark have a row each, of which one would be stored."""
    column = column_of_words(head, _WORDS_OF_QUOTES)
    words = encoded(head.columns[column]).texts if column else []
    if len(words) < 2 or column in given.map.values():
        return
    columns = {given.map.get(name, name) for name in _KEYS_OF_QUOTES}
    keys = [encoded(head.columns[name]).codes for name in sorted(columns & {*head.columns})]
    distinct_keys = len(np.unique(np.column_stack(keys), axis=0)) if keys else 0
    if distinct_keys < LEAST_DISTINCT * len(head):
        raise ArchiveError(
            f"{source}: its {len(head):,} first rows have only {distinct_keys:,} different options and "
            f"times, and its column {column} distinguishes rows ({', '.join(words[:5])}): write a file of "
            "rows with one of these words, or one row for each option and time with a column for each word"
        )


_AMOUNTS_OF_FILLS = ("quantity", "filled_quantity", "value_usd")


def columns_of_table(table: str, head: Chunk, by_meaning: Mapping[str, str], given: Given) -> dict[str, str]:
    """Return the file's column for each of the table's names that the caller does not map.

    An amount that the caller maps to one column is not that of another.
    """
    columns = archive_table(table).columns
    allowed = {*columns, "interval_hours"} if "rate_bps_8h" in columns else {*columns}
    stated = {*given.set, *given.map, *head.columns}
    mapped = {name: column for name, column in by_meaning.items() if name in allowed and name not in stated}
    if table == "delivery_prices" and "delivery_price" in by_meaning and "price_usd" not in stated:
        mapped["price_usd"] = by_meaning["delivery_price"]
    spot = by_meaning.get("last") or by_meaning.get("price_usd")
    if table == "prices_spot" and spot is not None and "price" not in stated:
        mapped["price"] = spot
    taken = given.map.values()
    return {n: c for n, c in mapped.items() if n not in _AMOUNTS_OF_FILLS or c not in taken}


def take_quotes(by_meaning: Mapping[str, str], mapped: dict[str, str], has: set[str]) -> dict[str, Kind]:
    """Add quotes whose currency, coin or USD, is not in the file; return their kinds."""
    taken = {*mapped, *has}
    for name in _QUOTES:
        quote = name.removeprefix("raw_")
        if name in by_meaning and not {f"{quote}_usd", f"{quote}_coin"} & taken:
            mapped[name] = by_meaning[name]
    return {name: Kind.NUMBER for name in _QUOTES if name in mapped}


_TAKERS = frozenset({"buy", "sell"})
_PRICES_OF_TRADES = ("price", "px", "optionprice", "tradeprice", "premium")
_IDS_OF_TRADES = ("tradeid", "execid", "id", "tradeseq")
_BLOCKS = {
    "blocktradeid": "block_id", "isblocktrade": "block_id",
    "combotradeid": "combo_id", "comboid": "combo_id",
}  # fmt: skip
"""Columns with a value in trades that were not made in the order book (Deribit API v2, 2026)."""


def plan_of_trades(source: Source, head: Chunk, by_meaning: Mapping[str, str], given: Given) -> ImportPlan:
    """Return the plan of trades of options, whose prices are in coins or USD."""
    plain = plain_columns(head)
    has = {*given.set, *given.map, *head.columns}
    mapped = columns_of_table("options_trades", head, by_meaning, given)
    take_options(head, by_meaning, mapped)
    taker = column_of_words(head, _TAKERS)
    if taker and mapped.get("side") == taker:
        del mapped["side"]
    take_sides(head, "options_trades", mapped)
    names = {
        "taker_side": taker or None,
        "size": by_meaning.get("quantity"),
        "trade_id": first_of(plain, _IDS_OF_TRADES),
    }
    mapped |= {name: column for name, column in names.items() if column is not None and name not in has}
    extra = {column: Kind.TEXT for name, column in _BLOCKS.items() if name in plain}
    mapped |= {column: plain[name] for name, column in _BLOCKS.items() if name in plain}
    price = first_of(plain, _PRICES_OF_TRADES)
    if price is not None and not {"price_usd", "price_coin"} & has:
        mapped.pop("price_usd", None)
        mapped["raw_price"] = price
        extra["raw_price"] = Kind.NUMBER
    columns = archive_table("options_trades").columns
    whole = given._replace(
        map={**mapped, **given.map},
        set={**path_words(source, head, mapped, columns, {*given.set, *given.map}), **given.set},
        unit=given.unit or unit_of_volatility(source, head, by_meaning),
        extra=extra,
    )
    plan = make_plan("options_trades", whole, adjust=ADJUST["trades"])
    ignored = {"side"} if taker == "side" else set()
    return plan._replace(makes=frozenset({"execution"} - has), ignored=frozenset(ignored))


def plan_of_futures(source: Source, head: Chunk, by_meaning: Mapping[str, str], given: Given) -> ImportPlan:
    """Return the plan of prices of dated futures, whose names have the symbol and the expiry."""
    has = {*given.set, *given.map, *head.columns}
    mapped = columns_of_table("futures_history", head, by_meaning, given)
    names = {
        "price_usd": first_of(plain_columns(head), PRICES_OF_FUTURES),
        "index_price_usd": mapped.get("index_price_usd", by_meaning.get("underlying_price")),
        "instrument_name": by_meaning.get("instrument_name"),
    }
    mapped |= {name: column for name, column in names.items() if column is not None and name not in has}
    if mapped.get("symbol") == mapped.get("instrument_name"):
        mapped.pop("symbol", None)
    columns = archive_table("futures_history").columns
    constants = path_words(source, head, mapped, columns, {*given.set, *given.map})
    mapped.pop("expiry", None)  # names of instruments have it, with the time of day
    whole = given._replace(map={**mapped, **given.map}, set={**constants, **given.set})
    plan = make_plan("futures_history", whole)
    return plan._replace(ignored=frozenset({"expiry"} - {*given.map}))


def take_kind_of_price(
    source: Source,
    head: Chunk,
    by_meaning: Mapping[str, str],
    mapped: dict[str, str],
    given: Given,
) -> dict[str, str]:
    """Add the mark, index or last price; return the kind if a column or the path has it."""
    has = {*given.set, *given.map, *head.columns}
    stated_kind = given.set.get("kind")
    if "price_usd" in {*mapped, *has}:
        if "kind" in has:
            return {}
        if plain_name(given.map.get("price_usd", "")) in (*OPENS, *CLOSES):
            return {"kind": _kind_in_path(source)}
        return {"kind": "last"} if are_trades(head) else {}
    if stated_kind in ("mark", "index", "last"):
        column = _price_of_kind(source, by_meaning, stated_kind)
    else:
        column = next((by_meaning[name] for name in ("mark", "index", "last") if name in by_meaning), None)
    if column is None:
        return {}
    if plain_name(column) in CLOSES and not OF_ENDS.search(plain_name(by_meaning.get("time", ""))):
        _refuse_close(source, column)
    mapped["price_usd"] = column
    kinds = [name for name in ("mark", "index") if by_meaning.get(name) == column]
    return {} if "kind" in has else {"kind": kinds[0] if kinds else _kind_in_path(source)}


def _refuse_close(source: Source, close: str) -> None:
    """Ask for the time of closes without their opens: venues label bars by their starts."""
    raise Unclear(
        f"{source}: its column {close} is a close, which is known at the end of its bar: pass --map "
        f"price_usd={close} if its times are those ends, or move the times first",
        "--map",
        [f"price_usd={close}"],
    )


def _price_of_kind(source: Source, by_meaning: Mapping[str, str], kind: str) -> str | None:
    """Return the column of the kind of price that the caller states; raise if columns are of other kinds.

    A candle may be of any kind, so that its open has that of the caller.
    """
    is_candle = plain_name(by_meaning.get("last", "")) in (*OPENS, *CLOSES)
    if kind in by_meaning or is_candle:
        return by_meaning.get(kind) or by_meaning["last"]
    others = [by_meaning[name] for name in ("mark", "index", "last") if name in by_meaning]
    if not others:
        return None
    raise Unclear(
        f"{source}: no column is that of {kind} prices, and {' and '.join(others)} may be of another kind: "
        f"pass --map price_usd={others[0]} if it is",
        "--map",
        [f"price_usd={name}" for name in others],
    )


def _kind_of_ratio(words: str) -> str | None:
    """Return whose ratio some words name, such as ``topLongShortPositionRatio``; None for other words."""
    plain = plain_name(words)
    named = [kind for word, kind in _KINDS_OF_RATIOS.items() if word in plain]
    if "top" in plain or "elite" in plain:
        return f"top_{named[0]}" if len(named) == 1 else None
    if "global" in plain and not named:
        return "accounts"
    return named[0] if len(named) == 1 and "taker" not in plain else None


_KINDS_OF_RATIOS = {"account": "accounts", "position": "positions"}


def take_kind_of_ratio(
    source: Source,
    head: Chunk,
    by_meaning: Mapping[str, str],
    mapped: dict[str, str],
    words: dict[str, Mapping[str, str]],
) -> dict[str, str]:
    """Return the kind that the ratio's column or the file names, or add the column of kinds and its words."""
    for column, values in head.columns.items():
        if not pa.types.is_string(values.type) or column in mapped.values():
            continue
        texts = encoded(values).texts
        kinds = {text: _kind_of_ratio(text) for text in texts}
        if kinds and None not in kinds.values():
            mapped["kind"] = column
            words["kind"] = {text: kind for text, kind in kinds.items() if kind is not None}
            return {}
    if {"buyratio", "sellratio"} <= {plain_name(name) for name in head.columns}:
        return {"kind": "accounts"}  # Bybit's account-ratio alone has these fields
    path = "/".join(source.name.split("/")[-_FOLDERS_OF_RATIOS:])
    columns = [by_meaning[name] for name in ("long_short_ratio", "long_share") if name in by_meaning]
    # Binance's ratio of positions has the column longAccount as well.
    columns = [name for name in columns if plain_name(name) not in ("longaccount", "longshortratio")]
    named = {_kind_of_ratio(name) for name in (path, *columns)} - {None}
    is_of_top = "top" in plain_name(path)
    if len(named) != 1 or (is_of_top and not named <= {"top_accounts", "top_positions"}):
        return {}
    return {"kind": str(named.pop())}


_FOLDERS_OF_RATIOS = 2


def take_sides(head: Chunk, table: str, mapped: dict[str, str]) -> dict[str, Mapping[str, str]]:
    """Add the column of types of options, or of closed positions; return the words of flags."""
    columns = archive_table(table).columns
    column = ""
    if "strike" in columns:
        column = column_of_words(head, _OPTION_TYPES)
    elif "order_id" in columns:
        column = column_of_words(head, _POSITIONS)
    if column:
        mapped["side"] = column
    return _take_flags_of_sides(head, mapped) if "strike" in columns else {}


_FLAGS_OF_SIDES = {"iscall": ("call", "put"), "isput": ("put", "call")}


def _take_flags_of_sides(head: Chunk, mapped: dict[str, str]) -> dict[str, Mapping[str, str]]:
    """Add a column that says whether an option is a call, if no other has its side; return its words."""
    if "side" in mapped or "side" in head.columns:
        return {}
    plain = {plain_name(name): name for name in head.columns}
    for name, (yes, no) in _FLAGS_OF_SIDES.items():
        if name in plain:
            mapped["side"] = plain[name]
            return {"side": {"true": yes, "1": yes, "false": no, "0": no}}
    return {}


def plan_of_book(by_meaning: Mapping[str, str], given: Given, head: Chunk) -> ImportPlan:
    """Return the plan of an order book; levels without a number are numbered from the best price."""
    levels = {"price_usd": "price_usd", "size": "quantity", "side": "side"}
    mapped = {name: by_meaning[meaning] for name, meaning in levels.items() if meaning in by_meaning}
    whole = given._replace(map={**given.map, **{n: c for n, c in mapped.items() if n not in given.set}})
    if "level" in {*head.columns, *whole.map, *whole.set}:
        return make_plan("orderbook_book", whole, adjust=ADJUST["book_sizes"])
    plan = make_plan("orderbook_book", whole, adjust=ADJUST["levels"])
    return plan._replace(makes=frozenset({"level"}))


def _kind_in_path(source: Source) -> str:
    """Return the kind of the candles of a file: mark price or index if its name says so."""
    name = source.name.rsplit("/", 1)[-1].lower()
    kinds = [kind for kind in ("mark", "index") if re.search(rf"(?<![a-z]){kind}(?!et)", name)]
    return kinds[0] if len(kinds) == 1 else "last"


def path_words(
    source: Source, head: Chunk, mapped: Mapping[str, str], columns: Any, stated: set[str]
) -> dict[str, str]:
    """Return venue and symbol from the names of the file and its folders, if nothing else has them."""
    have = {*mapped, *stated, *head.columns}
    if DVOL.search(f"{mapped.get('index_pct', '')} {source.name.rsplit('/', 1)[-1]}"):
        return {"exchange": "deribit"} | _path_words_of(source, columns, have)
    if "price_usd" in columns and "symbol" not in stated:
        _refuse_other_currency(source, has_symbols="symbol" in have)
    if "symbol" in columns and not {"symbol", "instrument_name"} & have and "instrument_name" not in columns:
        _refuse_dated_name(source, head, mapped)
    return _path_words_of(source, columns, have)


DVOL = re.compile(r"dvol", re.IGNORECASE)
"""The name of Deribit's index, which no other venue has."""


def _path_words_of(source: Source, columns: Any, have: set[str]) -> dict[str, str]:
    """Return the table's columns that are in the path only."""
    named = names_in_path(source.name)
    if "instrument_name" in have and "instrument_name" in columns:
        named.pop("symbol", None)  # names of instruments have it
    return {name: word for name, word in named.items() if name in columns and name not in have}


def _refuse_other_currency(source: Source, *, has_symbols: bool) -> None:
    """Ask whether prices are in USD where the name of their file has another currency, or a pair of coins."""
    name = source.name.rsplit("/", 1)[-1]
    words = re.split(r"[^A-Z]+", name.upper())
    other = sorted(CURRENCIES & {*words})
    pair = "" if has_symbols else pair_of_coins(name.split(".")[0])
    if pair:
        other.append(pair)
    if other:
        raise Unclear(
            f"{source}: its name has {other[0]}, so that its prices may not be in USD: omit it, or state the "
            "symbol with --set symbol=BTC if they are",
            "--set",
            ["symbol=BTC"],
        )


_DATED_NAME = re.compile(
    r"(?<![A-Z0-9])[A-Z0-9]{2,}?(?:USD[TC]?)?[-_](?:\d{6}|\d{1,2}[A-Z]{3}\d{2})(?![A-Z0-9])"
)
_FRIDAY = 4


def _refuse_dated_name(source: Source, head: Chunk, mapped: Mapping[str, str]) -> None:
    """Ask for the symbol where the name of a file is that of a dated future: it has a Friday after its rows.

    Other dates in names are those of the rows.
    """
    column = mapped.get("time", "time")
    if column not in head.columns or not len(head):
        return
    last = instants(head.columns[column], "time", Rejections(len(head)), tz=dt.UTC).max()
    for name in _DATED_NAME.findall(source.name.rsplit("/", 1)[-1]):
        expiry = market_of(name).expiry
        if expiry is None or pd.isna(last):
            continue
        stamp = pd.Timestamp(expiry, unit="us", tz="UTC")
        if stamp > last and stamp.weekday() == _FRIDAY:
            raise Unclear(
                f"{source}: its name may be that of a dated future, {name}, which no table of perpetual "
                f"contracts holds: omit it, or pass --set symbol={market_of(name).symbol} if it is not",
                "--set",
                [f"symbol={market_of(name).symbol}"],
            )


def take_options(head: Chunk, by_meaning: Mapping[str, str], mapped: dict[str, str]) -> None:
    """Add the column of instruments if its values are names of options."""
    if "oi_coins" in by_meaning and "open_interest" not in head.columns:
        mapped["open_interest"] = by_meaning["oi_coins"]
    plain = plain_columns(head)
    in_contracts = first_of(plain, _INTEREST_OF_OPTIONS)
    if in_contracts is not None and not {"open_interest"} & {*mapped, *head.columns}:
        mapped["open_interest"] = in_contracts
    # Deribit's greeks are in an object of their own, ``greeks.delta``.
    mapped |= {name: plain[name] for name in _GREEKS if name in plain and name not in head.columns}
    # OKX has greeks in coins next to those of Black and Scholes, which the table holds.
    mapped |= {name: plain[f"{name}bs"] for name in _GREEKS if f"{name}bs" in plain}
    for meaning in ("instrument_name", "symbol"):
        column = by_meaning.get(meaning)
        if column is None:
            continue
        texts = encoded(head.columns[column]).texts[:20]
        if texts and all(market_of(text).kind == "option" for text in texts):
            mapped["instrument_name"] = column
            if mapped.get("symbol") == column:
                del mapped["symbol"]
            return
    mapped.pop("instrument_name", None)


_INTEREST_OF_OPTIONS = ("oicontracts", "oicoins", "oicoin")
_GREEKS = ("delta", "gamma", "vega", "theta", "rho")
_QUOTES = ("raw_bid", "raw_ask", "raw_mark")
"""Quotes of options of which the file does not say whether they are in coins or USD."""
_OPTION_TYPES = frozenset({"c", "p", "ce", "pe", "call", "put", "calls", "puts"})
_POSITIONS = frozenset({"long", "short", "longs", "shorts"})
