"""Columns of options, trades, futures and books, kinds of prices and ratios, and markets in paths."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Collection, Mapping

import numpy as np
import pandas as pd
import pyarrow as pa

from derivdata.errors import ArchiveError
from derivdata.sources.archive.importing.adjustments import ADJUST
from derivdata.sources.archive.importing.cells import Rejections, encoded
from derivdata.sources.archive.importing.column_meanings import (
    CLOSES,
    OF_ENDS,
    OPENS,
    column_of_words,
    columns_named,
    figures_of,
    first_of,
    kind_of_ratio,
    plain_columns,
    quantity_of_ticker,
    texts_of,
)
from derivdata.sources.archive.importing.guessed_tables import (
    PRICES_OF_FUTURES,
    are_trades,
    kinds_of_markets,
)
from derivdata.sources.archive.importing.guessed_units import unit_of_volatility
from derivdata.sources.archive.importing.market_names import (
    CURRENCIES,
    FRIDAY,
    market_of,
    names_in_path,
    pair_of_coins,
    plain_name,
)
from derivdata.sources.archive.importing.plan import Given, ImportPlan, Unclear, make_plan
from derivdata.sources.archive.importing.readers import Chunk
from derivdata.sources.archive.importing.source_files import Source
from derivdata.sources.archive.importing.timestamps import to_timestamps
from derivdata.sources.archive.schemas import archive_table
from derivdata.tables.schema import Kind

_AMOUNTS_OF_FILLS = ("quantity", "filled_quantity", "value_usd")


def columns_of_table(table: str, head: Chunk, by_meaning: Mapping[str, str], given: Given) -> dict[str, str]:
    """Return the file's column for each of the table's names that the caller does not map.

    A column of amounts that the caller maps is not used for a second name.
    """
    columns = {*archive_table(table).columns}
    if "rate_bps_8h" in columns:
        columns.add("interval_hours")
    stated = {*given.set, *given.map, *head.columns}
    mapped: dict[str, str] = {}
    for name, column in by_meaning.items():
        is_mapped = name in _AMOUNTS_OF_FILLS and column in given.map.values()
        if name in columns and name not in stated and not is_mapped:
            mapped[name] = column
    if table == "delivery_prices" and "delivery_price" in by_meaning and "price_usd" not in stated:
        mapped["price_usd"] = by_meaning["delivery_price"]
    spot = by_meaning.get("last") or by_meaning.get("price_usd")
    if table == "prices_spot" and spot is not None and "price" not in stated:
        mapped["price"] = spot
    return mapped


def _take_columns(mapped: dict[str, str], columns: Mapping[str, str | None], has: Collection[str]) -> None:
    """Add the matching columns of the file for names that the caller does not map."""
    for name, column in columns.items():
        if column is None or name in has:
            continue
        mapped[name] = column


_TAKERS = frozenset({"buy", "sell"})
_PRICES_OF_TRADES = ("price", "px", "optionprice", "tradeprice", "premium")
_IDS_OF_TRADES = ("tradeid", "execid", "id", "tradeseq")
_PRICES_IN_COINS = ("pricebtc", "priceeth")
_BLOCKS = {
    "block_id": re.compile(r"(is|has)?block(trade)?(ids?)?"),
    "combo_id": re.compile(r"(is|has)?combo(trade)?(ids?)?"),
}
"""Names of columns with a value in trades that were not made in the order book.

Deribit has ``block_trade_id`` and ``combo_id`` (API v2, 2026), and its site has ``BlockTrade IDs``.
"""


def _are_block_numbers(head: Chunk, column: str) -> bool:
    """Return whether a column has the numbers of blocks of a chain, which each trade has.

    Opyn's ``buyOTokensActions`` (The Graph, 2020) have such numbers as ``block``.
    """
    return plain_name(column) == "block" and bool((figures_of(head, column) > 1).all())


def plan_of_trades(source: Source, head: Chunk, by_meaning: Mapping[str, str], given: Given) -> ImportPlan:
    """Return the plan for option trades, whose prices are in coins or USD."""
    plain = plain_columns(head)
    has = {*given.set, *given.map, *head.columns}
    mapped = columns_of_table("options_trades", head, by_meaning, given)
    take_options(head, by_meaning, mapped)
    taker = column_of_words(head, _TAKERS)
    if taker and mapped.get("side") == taker:
        del mapped["side"]
    take_sides(head, "options_trades", mapped)
    columns = {
        "taker_side": taker or None,
        "size": by_meaning.get("quantity"),
        "trade_id": first_of(plain, _IDS_OF_TRADES),
    }
    _take_columns(mapped, columns, has)
    extra: dict[str, Kind] = {}
    for column, pattern in _BLOCKS.items():
        name = next(filter(pattern.fullmatch, plain), None)
        if name is not None and not _are_block_numbers(head, plain[name]):
            mapped[column] = plain[name]
            extra[column] = Kind.TEXT
    price_coin = first_of(plain, _PRICES_IN_COINS)
    if price_coin is not None and "price_coin" not in has:
        mapped["price_coin"] = price_coin
    price = first_of(plain, _PRICES_OF_TRADES)
    if price is not None and not {"price_usd", "price_coin"} & has:
        mapped.pop("price_usd", None)
        mapped["raw_price"] = price
        extra["raw_price"] = Kind.NUMBER
    constants = path_words(source, head, mapped, "options_trades", {*given.set, *given.map})
    whole = given._replace(
        map={**mapped, **given.map},
        set={**constants, **given.set},
        unit=given.unit or unit_of_volatility(source, head, by_meaning),
        extra=extra,
    )
    plan = make_plan("options_trades", whole, adjust=ADJUST["trades"])
    # A column ``side`` of buys and sells is that of the taker, and not the type of the option.
    ignored = frozenset({"side"} if taker and taker.lower() == "side" else ())
    return plan._replace(makes=frozenset({"execution"} - has), ignored=ignored)


def plan_of_futures(source: Source, head: Chunk, by_meaning: Mapping[str, str], given: Given) -> ImportPlan:
    """Return the plan for prices of dated futures, whose names contain symbol and expiry."""
    mapped = columns_of_table("futures_history", head, by_meaning, given)
    columns = {
        "price_usd": first_of(plain_columns(head), PRICES_OF_FUTURES),
        "index_price_usd": mapped.get("index_price_usd", by_meaning.get("underlying_price")),
        "instrument_name": by_meaning.get("instrument_name"),
    }
    _take_columns(mapped, columns, {*given.set, *given.map, *head.columns})
    if mapped.get("symbol") == mapped.get("instrument_name"):
        mapped.pop("symbol", None)
    constants = path_words(source, head, mapped, "futures_history", {*given.set, *given.map})
    # Names of instruments have the expiry with its time of day.
    mapped.pop("expiry", None)
    whole = given._replace(map={**mapped, **given.map}, set={**constants, **given.set})
    plan = make_plan("futures_history", whole)
    return plan._replace(ignored=frozenset({"expiry"} - {*given.map}))


def plan_of_book(by_meaning: Mapping[str, str], given: Given, head: Chunk) -> ImportPlan:
    """Return the plan for an order book; levels without a number are numbered from the best price."""
    columns = {
        "price_usd": by_meaning.get("price_usd"),
        "size": by_meaning.get("quantity"),
        "side": by_meaning.get("side"),
    }
    mapped = {**given.map}
    _take_columns(mapped, columns, given.set)
    whole = given._replace(map=mapped)
    if "level" in {*head.columns, *whole.map, *whole.set}:
        return make_plan("orderbook_book", whole, adjust=ADJUST["book_sizes"])
    plan = make_plan("orderbook_book", whole, adjust=ADJUST["levels"])
    return plan._replace(makes=frozenset({"level"}))


_INTEREST_OF_OPTIONS = ("oicontracts", "oicoins", "oicoin")
_GREEKS = ("delta", "gamma", "vega", "theta", "rho")


def take_options(head: Chunk, by_meaning: Mapping[str, str], mapped: dict[str, str]) -> None:
    """Add the columns with open interest, greeks and names of options."""
    plain = plain_columns(head)
    interest = by_meaning.get("oi_coins") or mapped.get("open_interest")
    interest = interest or first_of(plain, _INTEREST_OF_OPTIONS)
    columns = {"open_interest": interest, "volume": plain.get("statsvolume")}
    _take_columns(mapped, columns, head.columns)
    for name in _GREEKS:
        # Deribit's greeks are in an object of their own, ``greeks.delta``.
        if name in plain and name not in head.columns:
            mapped[name] = plain[name]
        # pandas.json_normalize with another separator writes ``greeks_delta``.
        if f"greeks{name}" in plain and name not in head.columns:
            mapped[name] = plain[f"greeks{name}"]
        # OKX has greeks in coins next to those of Black and Scholes, which the table holds.
        if f"{name}bs" in plain:
            mapped[name] = plain[f"{name}bs"]
    _take_names_of_options(head, by_meaning, mapped)


def _take_names_of_options(head: Chunk, by_meaning: Mapping[str, str], mapped: dict[str, str]) -> None:
    """Add the column of instruments if its values are names of options."""
    for meaning in ("instrument_name", "symbol"):
        column = by_meaning.get(meaning)
        if column is not None and kinds_of_markets(head, column) == {"option"}:
            mapped["instrument_name"] = column
            if mapped.get("symbol") == column:
                del mapped["symbol"]
            return
    mapped.pop("instrument_name", None)


_QUOTES = ("raw_bid", "raw_ask", "raw_mark")
"""Option quotes for which the file does not state coins or USD."""


def take_quotes(by_meaning: Mapping[str, str], mapped: dict[str, str], has: set[str]) -> dict[str, Kind]:
    """Add quotes for which the file does not state coin or USD; return their kinds."""
    stated = {*mapped, *has}
    for name in _QUOTES:
        quote = name.removeprefix("raw_")
        if name in by_meaning and not {f"{quote}_usd", f"{quote}_coin"} & stated:
            mapped[name] = by_meaning[name]
    return {name: Kind.NUMBER for name in _QUOTES if name in mapped}


MIN_DISTINCT = 0.8
"""Minimum share of rows with distinct keys. Below it, a column that distinguishes rows is missing."""


def distinct_rows(head: Chunk, columns: Collection[str]) -> int:
    """Return the number of distinct rows of some columns; 0 without columns."""
    if not columns:
        return 0
    codes = [encoded(head.columns[column]).codes for column in columns]
    return len(np.unique(np.column_stack(codes), axis=0))


_WORDS_OF_QUOTES = frozenset("bid ask mark last mid trade index best_bid best_ask bids asks".split())
_KEYS_OF_QUOTES = ("time", "symbol", "exchange", "instrument_name", "expiry", "strike", "side")


def refuse_quotes_in_rows(source: Source, head: Chunk, given: Given) -> None:
    """Raise for options with separate rows for bid, ask and mark, because only one row would be stored."""
    column = column_of_words(head, _WORDS_OF_QUOTES)
    words = texts_of(head, column or None)
    if len(words) < 2 or column in given.map.values():
        return
    keys = {given.map.get(name, name) for name in _KEYS_OF_QUOTES}
    distinct_keys = distinct_rows(head, keys & {*head.columns})
    if distinct_keys < MIN_DISTINCT * len(head):
        raise ArchiveError(
            f"{source}: expected one row per option and time, got {distinct_keys:,} options and times in "
            f"the first {len(head):,} rows; the column {column} distinguishes rows ({', '.join(words[:5])}): "
            f"pivot the file so that each value of {column} is a column, or keep the rows of one value"
        )


_OPTION_TYPES = frozenset({"c", "p", "ce", "pe", "call", "put", "calls", "puts"})
_POSITIONS = frozenset({"long", "short", "longs", "shorts"})


def take_sides(head: Chunk, table: str, mapped: dict[str, str]) -> dict[str, Mapping[str, str]]:
    """Add the column with option types or closed positions; return the words of flags."""
    columns = archive_table(table).columns
    is_of_options = "strike" in columns
    column = ""
    if is_of_options:
        column = column_of_words(head, _OPTION_TYPES)
    elif "order_id" in columns:
        column = column_of_words(head, _POSITIONS)
    if column:
        mapped["side"] = column
    if not is_of_options or "side" in mapped or "side" in head.columns:
        return {}
    return _take_flags_of_sides(head, mapped)


_FLAGS_OF_SIDES = {"iscall": ("call", "put"), "isput": ("put", "call")}


def _take_flags_of_sides(head: Chunk, mapped: dict[str, str]) -> dict[str, Mapping[str, str]]:
    """Add a boolean column for calls or for puts; return its words."""
    for name, (yes, no) in _FLAGS_OF_SIDES.items():
        columns = columns_named(head, (name,))
        if columns:
            mapped["side"] = columns[-1]
            return {"side": {"true": yes, "1": yes, "false": no, "0": no}}
    return {}


_KINDS_OF_PRICES = ("mark", "index", "last")


def take_kind_of_price(
    source: Source,
    head: Chunk,
    by_meaning: Mapping[str, str],
    mapped: dict[str, str],
    given: Given,
) -> dict[str, str]:
    """Add the mark, index or last price; return its kind if a column or the path states it."""
    has = {*given.set, *given.map, *head.columns}
    if "price_usd" in {*mapped, *has}:
        if "kind" in has:
            return {}
        return _kind_of_stated_prices(source, head, given)
    column = _column_of_prices(source, by_meaning, given.set.get("kind"))
    if column is None:
        return {}
    mapped["price_usd"] = column
    if "kind" in has:
        return {}
    for kind in ("mark", "index"):
        if by_meaning.get(kind) == column:
            return {"kind": kind}
    return {"kind": _kind_in_path(source)}


def _kind_of_stated_prices(source: Source, head: Chunk, given: Given) -> dict[str, str]:
    """Return the kind of prices mapped to ``price_usd`` by the caller or the file; empty if unknown."""
    if plain_name(given.map.get("price_usd", "")) in (*OPENS, *CLOSES):
        return {"kind": _kind_in_path(source)}
    if are_trades(head):
        return {"kind": "last"}
    return {}


def _column_of_prices(source: Source, by_meaning: Mapping[str, str], kind: str | None) -> str | None:
    """Return the price column of the kind that the caller states, otherwise of the first kind in the file.

    Raise `Unclear` for closes without opens, because venues label bars by their starts.
    """
    if kind in _KINDS_OF_PRICES:
        column = _price_of_kind(source, by_meaning, kind)
    else:
        column = first_of(by_meaning, _KINDS_OF_PRICES)
    is_close = column is not None and plain_name(column) in CLOSES
    if is_close and not OF_ENDS.search(plain_name(by_meaning.get("time", ""))):
        raise Unclear(
            f"{source}: column {column} is the close of a bar, which is known only when the bar ends: "
            f"pass --map price_usd={column} if the times are bar ends, or shift them to the bar ends first",
            "--map",
            [f"price_usd={column}"],
        )
    return column


def _price_of_kind(source: Source, by_meaning: Mapping[str, str], kind: str) -> str | None:
    """Return the column of the kind of price that the caller states; raise if columns are of other kinds.

    The open of a candle may be of any kind, so it has the kind that the caller states.
    """
    if kind in by_meaning:
        return by_meaning[kind]
    if plain_name(by_meaning.get("last", "")) in (*OPENS, *CLOSES):
        return by_meaning["last"]
    others = [by_meaning[name] for name in _KINDS_OF_PRICES if name in by_meaning]
    if not others:
        return None
    raise Unclear(
        f"{source}: expected a column of {kind} prices, got {' and '.join(others)}, which may be another "
        f"kind of price: pass --map price_usd={others[0]} if it has {kind} prices",
        "--map",
        [f"price_usd={name}" for name in others],
    )


def _kind_in_path(source: Source) -> str:
    """Return the kind of candles in a file: mark or index if the file name contains it."""
    name = source.file_name.lower()
    is_of_marks = re.search("(?<![a-z])mark(?!et)", name) is not None
    is_of_indices = re.search("(?<![a-z])index(?!et)", name) is not None
    if is_of_marks == is_of_indices:
        return "last"
    return "mark" if is_of_marks else "index"


_FOLDERS_OF_RATIOS = 2


def take_kind_of_ratio(
    source: Source,
    head: Chunk,
    by_meaning: Mapping[str, str],
    mapped: dict[str, str],
    words: dict[str, Mapping[str, str]],
) -> dict[str, str]:
    """Return the kind of ratio from the column or file name, or add the column of kinds and its words."""
    for column, values in head.columns.items():
        if pa.types.is_string(values.type) and column not in mapped.values():
            kinds = _kinds_of_ratios(texts_of(head, column))
            if kinds:
                mapped["kind"] = column
                words["kind"] = kinds
                return {}
    # Bybit's account-ratio alone has these fields; charts of TradingView are of accounts (its blog, 2025).
    is_of_bybit = {"buyratio", "sellratio"} <= set(map(plain_name, head.columns))
    if is_of_bybit or quantity_of_ticker(source, head, by_meaning.get("symbol")) == "long_short_ratio":
        return {"kind": "accounts"}
    path = "/".join(source.name.split("/")[-_FOLDERS_OF_RATIOS:])
    named = {kind_of_ratio(path)}
    for meaning in ("long_short_ratio", "long_share"):
        column = by_meaning.get(meaning, "")
        # Binance's ratio of positions has the column longAccount as well.
        if plain_name(column) not in ("longaccount", "longshortratio"):
            named.add(kind_of_ratio(column))
    named.discard(None)
    is_of_top = "top" in plain_name(path)
    if len(named) != 1 or (is_of_top and not named <= {"top_accounts", "top_positions"}):
        return {}
    return {"kind": str(named.pop())}


def _kinds_of_ratios(texts: Collection[str]) -> dict[str, str]:
    """Return the kind of a ratio of each text of a column; empty if a text is not one."""
    kinds: dict[str, str] = {}
    for text in texts:
        kind = kind_of_ratio(text)
        if kind is None:
            return {}
        kinds[text] = kind
    return kinds


DVOL = re.compile(r"dvol", re.IGNORECASE)
"""The name of Deribit's index, which no other venue has."""


def path_words(
    source: Source, head: Chunk, mapped: Mapping[str, str], table: str, stated: set[str]
) -> dict[str, str]:
    """Return venue and symbol from the names of the file and its folders, if nothing else has them."""
    columns = archive_table(table).columns
    have = {*mapped, *stated, *head.columns}
    named = names_in_path(source.name)
    if "instrument_name" in have and "instrument_name" in columns:
        named.pop("symbol", None)  # names of instruments have it
    words = {name: word for name, word in named.items() if name in columns and name not in have}
    if DVOL.search(f"{mapped.get('index_pct', '')} {source.file_name}"):
        return {"exchange": "deribit", **words}
    if "price_usd" in columns and "symbol" not in stated:
        _refuse_other_currency(source, has_symbols="symbol" in have)
    if "symbol" in columns and not {"symbol", "instrument_name"} & have and "instrument_name" not in columns:
        _refuse_dated_name(source, head, mapped)
    return words


def _refuse_other_currency(source: Source, *, has_symbols: bool) -> None:
    """Raise `Unclear` if the file name contains a currency other than USD, or a pair of coins."""
    name = source.file_name
    words = re.split(r"[^A-Z]+", name.upper())
    other = min(CURRENCIES & {*words}, default="")
    if not other and not has_symbols:
        other = pair_of_coins(name.split(".")[0])
    if other:
        base = _base_of(name, other)
        raise Unclear(
            f"{source}: the file name contains {other}, so the prices may not be in USD: omit the file, "
            f"or pass the symbol (--set symbol={base or 'BTC'}) if they are in USD",
            "--set",
            [f"symbol={base or 'BTC'}"],
        )


def _base_of(name: str, other: str) -> str:
    """Return the coin in a file name with a currency or a pair of coins; empty if it is not clear."""
    match = re.search(rf"(?<![A-Z0-9])([A-Z0-9]{{2,10}}?)[-_]?{other}(?![A-Z0-9])", name.upper())
    if other not in CURRENCIES:
        match = re.fullmatch(r"([A-Z0-9]{2,10}?)[-_]?(?:BTC|ETH|BNB)", other.upper())
    return "" if match is None or match[1] in CURRENCIES else match[1]


_DATED_NAME = re.compile(
    r"(?<![A-Z0-9])[A-Z0-9]{2,}?(?:USD[TC]?)?[-_](?:\d{6}|\d{1,2}[A-Z]{3}\d{2})(?![A-Z0-9])"
)


def _refuse_dated_name(source: Source, head: Chunk, mapped: Mapping[str, str]) -> None:
    """Raise `Unclear` if the file name may be a dated future, that is, contains a Friday after the rows.

    Other dates in file names are those of the rows.
    """
    column = mapped.get("time", "time")
    if column not in head.columns or not len(head):
        return
    last = to_timestamps(head.columns[column], "time", Rejections(len(head)), tz=dt.UTC).max()
    for name in _DATED_NAME.findall(source.file_name):
        market = market_of(name)
        if market.expiry is None or pd.isna(last):
            continue
        expiry = pd.Timestamp(market.expiry, unit="us", tz="UTC")
        if expiry > last and expiry.weekday() == FRIDAY:
            raise Unclear(
                f"{source}: the file name may belong to a dated future, {name}, but the table is for "
                f"perpetual contracts: omit the file, or pass --set symbol={market.symbol} if it is a "
                "perpetual contract",
                "--set",
                [f"symbol={market.symbol}"],
            )
