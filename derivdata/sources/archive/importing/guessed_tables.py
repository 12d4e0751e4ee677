"""Determine the table of a file without a declared layout from its columns and name, or raise `Unclear`."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Mapping

import numpy as np
import pandas as pd
import pyarrow as pa

from derivdata.errors import ArchiveError
from derivdata.sources.archive.importing.cells import Rejections, encoded, interval_hours
from derivdata.sources.archive.importing.column_meanings import (
    OF_RECEIPT,
    column_of_words,
    columns_like,
    columns_named,
    figures_of,
    first_of,
    texts_of,
)
from derivdata.sources.archive.importing.market_names import (
    ALWAYS_HOURLY,
    known_interval,
    market_of,
    meaning_of,
    names_in_path,
    pays_hourly,
    plain_name,
    venue_of_word,
)
from derivdata.sources.archive.importing.plan import Given, Unclear, make_plan
from derivdata.sources.archive.importing.readers import Chunk, rows_with
from derivdata.sources.archive.importing.source_files import Source
from derivdata.sources.archive.importing.timestamps import to_timestamps, zone
from derivdata.sources.archive.schemas import archive_table, archive_tables
from derivdata.support.arrays import Array
from derivdata.tables.payments import HOUR_US, MINUTE_US, VALID_HOURS

_SETTLED = re.compile(r"settle|paid|payment|realized|applied|fundingratehistory|funding_rate_history", re.I)
_FORCED = re.compile(r"liq(?!uid(?!at))|forceorder|force_order", re.I)
"""Words of liquidations; not those of Hyperliquid and of liquidity."""


def own_table(source: Source, head: Chunk, table: str | None, given: Given) -> str | None:
    """Return the table from which a file was exported: the file has all columns that the table needs."""
    if table is not None:
        return table if _needed_of_stated(table, given) <= {*head.columns} else None
    complete = [name for name in _tables_with_names(head) if _needed(name, given) <= {*head.columns}]
    fitting = [name for name in complete if _has_values(source, head, name)]
    if not fitting:
        return None
    named = [name for name in fitting if name in source.name]
    if named:
        return max(named, key=len)
    counts = {name: len({*archive_table(name).columns} & {*head.columns}) for name in fitting}
    best = [name for name in fitting if counts[name] == max(counts.values())]
    best = [name for name in best if not _has_other_words(name, head)] or best
    best = [name for name in best if not _COMPUTED.search(name)] or best
    if len(best) > 1:
        raise Unclear(
            f"{source}: the columns match several tables, {' and '.join(best)}: select one with "
            f"{' or '.join(f'--table {name}' for name in best)}",
            "--table",
            best,
        )
    return best[0]


def _needed(table: str, given: Given) -> set[str]:
    """Return the columns that an export of a table has, except those that the caller states."""
    columns = {*archive_table(table).columns}
    if "rate_bps_8h" not in columns:
        columns.discard("resolution")
    return columns - archive_table(table).optional - {*given.set, *given.map}


def _needed_of_stated(table: str, given: Given) -> set[str]:
    """Return the columns that a file needs for the table that the caller states."""
    plan = make_plan(table, given)
    columns = {*archive_table(table).columns} - archive_table(table).optional
    columns -= {*given.set, *given.map, *plan.defaults}
    return {column for column in columns if plan.required(column)}


def _has_values(source: Source, head: Chunk, table: str) -> bool:
    """Return whether a file has a value column of a table; ``markets_exchanges`` needs all of them."""
    values = {*archive_table(table).columns} - {*archive_table(table).key}
    if table == "markets_exchanges" and table not in source.name:
        return values <= {*head.columns}
    return bool(values & {*head.columns})


def _tables_with_names(head: Chunk) -> list[str]:
    """Return the tables that have all market columns of a file."""
    names = _NAMES & {*head.columns}
    if any(meaning_of(name) == "symbol" for name in head.columns):
        names |= {"symbol"}
    return [name for name in archive_tables() if names <= {*archive_table(name).columns}]


_NAMES = frozenset({"symbol", "exchange", "instrument_name", "strike", "side", "kind"})
_COMPUTED = re.compile("^markets_|_top_symbols$|_totals$")
"""Tables that services compute from other tables with the same columns."""


def _has_other_words(table: str, head: Chunk) -> bool:
    """Return whether a column ``kind`` or ``side`` has words that a table does not allow."""
    for name in ("kind", "side"):
        column = archive_table(table).columns.get(name)
        if column is None or not column.allowed or name not in head.columns:
            continue
        words = {text.lower() for text in texts_of(head, name)}
        if not words <= {*column.allowed}:
            return True
    return False


def guessed_tables(source: Source, head: Chunk, by_meaning: Mapping[str, str], given: Given) -> list[str]:
    """Return the tables that a file fills, by its columns; raise `Unclear` if there are none."""
    tables = _tables_of_rows(source, head, by_meaning)
    if not tables:
        if "rate" in by_meaning:
            tables.append(_kind_of_rates(source, head, by_meaning, given))
        tables += _tables_of_series(by_meaning)
    if not tables and {"mark", "index", "last", "price_usd"} & by_meaning.keys() and "side" not in by_meaning:
        _refuse_other_candles(source, by_meaning)
        _refuse_liquidations(source, head, by_meaning)
        _refuse_front_months(source, head, by_meaning, given)
        _refuse_trades(source, head, by_meaning)
        tables = ["prices_history"]
    if not tables and "volume_usd" in by_meaning:
        tables = ["volume_history"]
    tables = _of_venues(source, head, by_meaning, given, tables)
    _refuse_options(source, tables)
    if tables:
        if "time" not in {*by_meaning, *given.map, *given.set}:
            _refuse_prose(source, head)
            raise _no_time(source, head, tables[0])
        return tables
    if {"price_usd", "side"} <= by_meaning.keys():
        _refuse_trades(source, head, by_meaning)
    _refuse_bare_volumes(source, head)
    _refuse_bands_in_coins(source, head)
    _refuse_closes(source, head)
    _refuse_prose(source, head)
    raise Unclear(
        f"{source}: the columns are not recognised: pass the table with --table NAME, and its columns "
        f"with --map NAME=COLUMN; the file has {', '.join(head.columns)[:300]}",
        "--table",
        archive_tables(),
    )


_OF_OPTIONS = re.compile(r"(?<![a-z])options?(?![a-z])", re.I)


def _refuse_options(source: Source, tables: list[str]) -> None:
    """Raise `Unclear` if the file name indicates options but the table is for perpetual contracts."""
    other = [table for table in tables if table in ("oi_history", "orderbook_book")]
    if other and _OF_OPTIONS.search(source.file_name):
        raise Unclear(
            f"{source}: the file name indicates options, but {other[0]} is for perpetual contracts: omit "
            f"the file, or pass --table {other[0]} if the rows belong to perpetual contracts",
            "--table",
            other,
        )


_VOLUMES_OF_BUYERS = ("buyvol", "buyvolume", "takerbuyvol", "takerbuyvolume")
_VOLUMES_OF_SELLERS = ("sellvol", "sellvolume", "takersellvol", "takersellvolume")


def bare_volumes(head: Chunk) -> dict[str, str]:
    """Return the columns of volumes of buyers and sellers without a unit; empty without both."""
    buy = columns_named(head, _VOLUMES_OF_BUYERS)
    sell = columns_named(head, _VOLUMES_OF_SELLERS)
    if len(buy) != 1 or len(sell) != 1:
        return {}
    return {"buy_usd": buy[0], "sell_usd": sell[0]}


def unclear_volumes(source: Source, buy: str, sell: str) -> Unclear:
    """Return the `Unclear` error for volumes of buyers and sellers without a unit.

    They are coins on Binance, and contracts, coins or USD on OKX, by the parameter ``unit`` of the request.
    """
    return Unclear(
        f"{source}: {buy} and {sell} may be in USD, coins or contracts: pass --unit usd if they are in "
        "USD, or multiply them by the price first",
        "--unit",
        ["usd"],
    )


def _refuse_bare_volumes(source: Source, head: Chunk) -> None:
    """Raise for volumes of buyers and sellers without a unit."""
    volumes = bare_volumes(head)
    if volumes:
        raise unclear_volumes(source, volumes["buy_usd"], volumes["sell_usd"])


_BANDS_IN_COINS = re.compile(r"(bid|ask)_volume\d+(_\d+)?")
"""Kaiko's ``bid_volume0_1``: coins of bids within 0.1 % of the best one (order book snapshots, 2026)."""


def _refuse_bands_in_coins(source: Source, head: Chunk) -> None:
    """Raise for depths of a book in coins, which a table has in USD."""
    bands = [name for name in head.columns if _BANDS_IN_COINS.fullmatch(name)]
    if bands:
        raise ArchiveError(
            f"{source}: {bands[0]} and others are coins of orders near the best price, and "
            "orderbook_depth_history has USD: multiply them by the price, and name the columns "
            "bid_depth_10bps_usd and ask_depth_10bps_usd for the orders within 0.1 %"
        )


def refuse_remaining_orders(source: Source, head: Chunk) -> None:
    """Raise for rows of BitMEX's feed of liquidations: remaining sizes of orders, without a time."""
    columns = columns_named(head, ("leavesqty",))
    if columns:
        raise ArchiveError(
            f"{source}: column {columns[-1]} is the remaining size of an order in BitMEX's liquidation "
            "feed, whose messages have no time: write the first message of each order as a row with its "
            "arrival time, symbol, side and value_usd (a contract of XBTUSD is 1 USD)"
        )


_TOTALS = {
    "oi_exchange_totals": ("totaloiusd", "totalopeninterestusd", "openinterestusd", "oiusd"),
    "volume_exchange_totals": ("totalvolumeusd", "volumeusd"),
}
"""Plain names of venue totals, for rows that do not name a contract."""


def total_columns(head: Chunk) -> dict[str, str]:
    """Return the column for each table of venue totals."""
    columns: dict[str, str] = {}
    plain = {plain_name(column): column for column in head.columns}
    for table, names in _TOTALS.items():
        column = first_of(plain, names)
        if column is not None:
            columns[table] = column
    return columns


def _of_venues(
    source: Source, head: Chunk, by_meaning: Mapping[str, str], given: Given, tables: list[str]
) -> list[str]:
    """Return the tables of totals if rows have a venue but no contract, otherwise `tables`."""
    named = {*by_meaning, *given.set, *given.map, *names_in_path(source.name)}
    is_of_totals = {*tables} <= {"oi_history", "volume_history"} and "exchange" in by_meaning
    if not is_of_totals or {"symbol", "instrument_name"} & named:
        return tables
    totals = total_columns(head)
    words = f"{source.file_name} {' '.join(totals.values())}"
    if totals and not re.search(r"total|all(?![a-z])", words, re.IGNORECASE):
        raise Unclear(
            f"{source}: the rows have a venue but no contract: pass --set symbol=BTC if they belong to "
            f"one coin, or {' or '.join(f'--table {name}' for name in totals)} if they are totals over "
            "all coins",
            "--table",
            [*totals],
        )
    return [*totals] or tables


_CLOSE = re.compile(r"(dvol|vol(atility)?_?index).*close|close.*dvol", re.I)


def _refuse_closes(source: Source, head: Chunk) -> None:
    """Raise `Unclear` for a volatility index with closes but no opens, whose times may be starts or ends."""
    closes = columns_like(head, _CLOSE)
    if len(closes) == 1:
        raise Unclear(
            f"{source}: column {closes[0]} is the close of a bar, which is known only when the bar ends: "
            f"pass --map index_pct={closes[0]} if the times are bar ends, or shift them to the bar ends "
            "first",
            "--map",
            [f"index_pct={closes[0]}"],
        )


_WORDS_OF_A_NAME = 8
"""Maximum number of words in the name of a column; a longer one is a sentence."""


def _refuse_prose(source: Source, head: Chunk) -> None:
    """Raise for a file that starts with a sentence instead of column names."""
    for name in head.columns:
        if len(name.split()) > _WORDS_OF_A_NAME:
            raise ArchiveError(
                f"{source}: expected column names in the first line, got a text ({name[:60]!r}): remove "
                "the lines above the column names, or add column names if the file has none"
            )


def _no_time(source: Source, head: Chunk, table: str) -> ArchiveError:
    """Return the error for a table without a time column."""
    return ArchiveError(
        f"{source}: the columns resemble those of {table}, but no column is recognised as the time: name "
        "it with --map time=COLUMN, or pass one time for all rows with --set time=2026-03-27T08:00:00Z; "
        f"the file has {', '.join(head.columns)[:300]}"
    )


_FIGURES = frozenset(
    "iv oi_coins oi_usd bid_usd ask_usd mark_usd bid_coin ask_coin mark_coin raw_bid raw_ask raw_mark".split()
)
"""Meanings of columns, at least one of which an option chain has."""


def _tables_of_rows(source: Source, head: Chunk, by_meaning: Mapping[str, str]) -> list[str]:
    """Return the table of rows of options, books or liquidations; empty for other rows."""
    if "strike" in by_meaning and by_meaning["strike"] == by_meaning.get("underlying_price"):
        return ["options_atm_history"]
    if "delivery_price" in by_meaning and not {"strike", "iv", "rate", "mark", "last"} & by_meaning.keys():
        return ["delivery_prices"]
    if ("strike" in by_meaning and _FIGURES & by_meaning.keys()) or (
        "iv" in by_meaning and "instrument_name" in by_meaning
    ):
        return ["options_trades" if _are_option_trades(head, by_meaning) else "options_snapshot"]
    words = f"{_near_path(source)} {' '.join(head.columns)}"
    has_levels = {"side", "quantity", "price_usd"} <= by_meaning.keys() and _is_book(head, by_meaning)
    if has_levels and columns_named(head, _OF_ACCOUNTS):
        _refuse_fills(source)
    if has_levels and ("level" in head.columns or not are_trades(head)):
        _refuse_changes(source, head, by_meaning)
        return ["orderbook_book"]
    _refuse_no_sizes(source, head, by_meaning)
    table = _table_of_instruments(source, head, by_meaning)
    if table:
        return [table]
    has_sizes = bool({"quantity", "filled_quantity"} & by_meaning.keys()) or (
        {"value_usd", "price_usd"} <= by_meaning.keys()
    )
    if "side" in by_meaning and has_sizes and _FORCED.search(words):
        return ["liquidations_fills"]
    return []


_IDS_OF_TRADES = ("tradeid", "tradeseq", "execid")


def _are_option_trades(head: Chunk, by_meaning: Mapping[str, str]) -> bool:
    """Return whether rows of options are trades: they have ids, or buys and sells with their quantities."""
    if columns_named(head, _IDS_OF_TRADES):
        return True
    has_sides = bool(column_of_words(head, frozenset({"buy", "sell"})))
    return has_sides and bool({"quantity", "filled_quantity"} & by_meaning.keys())


_FIGURES_OF_TABLES = {
    "funding_settlements": ("rate",),
    "funding_history": ("rate",),
    "oi_history": ("oi_usd", "oi_coins"),
    "liquidations_history": ("long_usd", "short_usd"),
    "positioning_history": ("long_short_ratio", "long_share", "short_share"),
    "volume_taker": ("buy_usd", "sell_usd"),
    "volatility_index_published": ("index_pct",),
    "prices_history": ("mark", "index", "last", "price_usd"),
}
"""Meanings of the figures of tables that one file may fill."""


def value_columns(table: str, by_meaning: Mapping[str, str]) -> set[str]:
    """Return the columns with the figures of a table."""
    return {by_meaning[name] for name in _FIGURES_OF_TABLES.get(table, ()) if name in by_meaning}


def figures_of_all(by_meaning: Mapping[str, str]) -> set[str]:
    """Return the columns with the figures of any table."""
    columns: set[str] = set()
    for table in _FIGURES_OF_TABLES:
        columns |= value_columns(table, by_meaning)
    return columns


def _tables_of_series(by_meaning: Mapping[str, str]) -> list[str]:
    """Return the tables of open interest, positions, liquidations and published indices."""
    tables = []
    if "oi_usd" in by_meaning or ("oi_coins" in by_meaning and "iv" not in by_meaning):
        tables.append("oi_history")
    if "long_short_ratio" in by_meaning or {"long_share", "short_share"} <= by_meaning.keys():
        tables.append("positioning_history")
    if {"long_usd", "short_usd"} <= by_meaning.keys():
        tables.append("liquidations_history")
    if {"buy_usd", "sell_usd"} <= by_meaning.keys():
        tables.append("volume_taker")
    if "index_pct" in by_meaning:
        tables.append("volatility_index_published")
    return tables


_OF_ACCOUNTS = frozenset("user users dir hash liquidateduser closedpnl startposition crossed".split())
"""Column names of Hyperliquid's fills, whose sides are A and B, as in order books."""


def _refuse_fills(source: Source) -> None:
    """Raise for fills of accounts: each trade has a row for its buyer and one for its seller."""
    raise ArchiveError(
        f"{source}: the rows are fills of accounts, one for each side of a trade, which no table stores: "
        "pass --table prices_history --set kind=last to import their prices. To import liquidations, write "
        "the rows of the liquidated accounts with the side of the closed position, long or short"
    )


def _table_of_instruments(source: Source, head: Chunk, by_meaning: Mapping[str, str]) -> str:
    """Return the table of depths, trades of options or prices of futures; empty for other rows."""
    depths = {"bid_depth_usd", "ask_depth_usd"}
    if depths <= {*head.columns} or depths <= by_meaning.keys():
        return "orderbook_depth_history"  # the caller states a distance that the file lacks
    if {"side", "quantity"} <= by_meaning.keys() and kinds_of_markets(
        head, by_meaning.get("instrument_name")
    ) == {"option"}:
        return "options_trades"
    if not _is_of_futures(head, by_meaning):
        return ""
    _refuse_perpetuals(source, head, by_meaning)
    return "futures_history"


PRICES_OF_FUTURES = (
    "futuresprice futureprice markprice mark settlementprice settle lastprice last open price".split()
)
"""Plain names of the price of a dated future, the first of which is used."""
_FIRST_NAMES = 20


def _is_of_futures(head: Chunk, by_meaning: Mapping[str, str]) -> bool:
    """Return whether rows are prices of dated futures, by the names of their instruments."""
    if not columns_named(head, PRICES_OF_FUTURES) or {"strike", "side"} & by_meaning.keys():
        return False
    kinds = kinds_of_markets(head, by_meaning.get("instrument_name"))
    return "future" in kinds and kinds <= {"future", "perpetual", "symbol"}


def _refuse_perpetuals(source: Source, head: Chunk, by_meaning: Mapping[str, str]) -> None:
    """Raise `Unclear` for dated futures with perpetuals, unless most markets are dated, as in a curve."""
    column = by_meaning["instrument_name"]
    kinds = [market_of(text).kind for text in texts_of(head, column)]
    if kinds.count("future") <= len(kinds) / 2:
        raise Unclear(
            f"{source}: column {column} has dated futures and other contracts: import the file twice, with "
            "--table futures_history for the dated futures and with --table prices_history for the perpetual "
            "contracts; the other rows are rejected",
            "--table",
            ["prices_history", "futures_history"],
        )


def kinds_of_markets(head: Chunk, column: str | None) -> set[str]:
    """Return the kinds of the first markets of a column, by their names."""
    return {market_of(text).kind for text in texts_of(head, column)[:_FIRST_NAMES]}


_BOOK_WORDS = frozenset({"bid", "bids", "ask", "asks", "b", "a"})


def _is_book(head: Chunk, by_meaning: Mapping[str, str]) -> bool:
    """Return whether the sides of rows belong to an order book."""
    words = {text.lower() for text in texts_of(head, by_meaning["side"])}
    return bool(words) and words <= _BOOK_WORDS


def _refuse_no_sizes(source: Source, head: Chunk, by_meaning: Mapping[str, str]) -> None:
    """Raise for order book levels that have prices but no sizes."""
    is_of_levels = {"side", "price_usd"} <= by_meaning.keys() and _is_book(head, by_meaning)
    if is_of_levels and not {"quantity", "filled_quantity", "value_usd"} & by_meaning.keys():
        raise ArchiveError(
            f"{source}: the rows are order book levels (column {by_meaning['side']}), but no column is "
            "recognised as the size, which orderbook_book requires: name the column of sizes in coins with "
            f"--table orderbook_book --map size=COLUMN; the file has {', '.join(head.columns)[:300]}"
        )


_OF_CHANGES = frozenset("issnapshot isbuy updateid firstupdateid lastupdateid action event eventtype".split())
"""Column names of order book updates."""


def _refuse_changes(source: Source, head: Chunk, by_meaning: Mapping[str, str]) -> None:
    """Raise for order book updates: levels that were added, changed or removed."""
    sizes = figures_of(head, by_meaning["quantity"])
    prices = figures_of(head, by_meaning["price_usd"])
    # A removed level has a price. Binance's bookTicker has zeros for price and size of expired contracts.
    is_removed = (sizes == 0) & (prices != 0)
    if columns_named(head, _OF_CHANGES) or is_removed.any():
        raise ArchiveError(
            f"{source}: expected order book snapshots, got book updates: build snapshots from them first"
        )


_FRONT_MONTHS = re.compile(r"(?<![a-z])cme(?![a-z])|front.?month|continuous|(btc|eth|mbt|met)(=f|1!)", re.I)


def _refuse_front_months(source: Source, head: Chunk, by_meaning: Mapping[str, str], given: Given) -> None:
    """Raise `Unclear` for prices of CME futures, which do not belong to a perpetual contract."""
    is_of_cme = "cme" in _venues(source, head, by_meaning, given)
    if is_of_cme or _FRONT_MONTHS.search(source.file_name):
        raise Unclear(
            f"{source}: the prices may belong to dated futures of CME, but prices_history is for "
            "perpetual contracts and indices: omit the file, pass --table futures_history if each row "
            "names its contract, or pass --table prices_history to import them as prices of one contract",
            "--table",
            ["futures_history", "prices_history"],
        )


def _refuse_liquidations(source: Source, head: Chunk, by_meaning: Mapping[str, str]) -> None:
    """Raise `Unclear` for liquidations without a side, whose prices look like a price series."""
    words = f"{source.file_name} {' '.join(head.columns)}"
    if by_meaning.get("last", "").lower() in ("open", "o") or not _FORCED.search(words):
        return
    sides = [name for name in head.columns if plain_name(name).endswith("side")]
    if "quantity" in by_meaning and len(sides) == 1:
        raise Unclear(
            f"{source}: the rows may be liquidations: pass --map side={sides[0]} if that column is the "
            "side of the closed position or of its order, or --table prices_history to import only the "
            "prices",
            "--map",
            [f"side={sides[0]}"],
        )
    raise Unclear(
        f"{source}: the rows may be liquidations, but no column is recognised as the side: name the side "
        "of the closed position or of its order with --map side=COLUMN, or pass --table prices_history "
        f"to import only the prices; the file has {', '.join(head.columns)[:300]}",
        "--table",
        ["prices_history"],
    )


_OF_TRADES = frozenset(
    "id tradeid aggtradeid lasttradeid firsttradeid tid trdmatchid tradeseq isbuyermaker buyermaker "
    "takerside tickdirection".split()
)
"""Column names of trade files."""


def are_trades(head: Chunk) -> bool:
    """Return whether the column names are typical of trade files."""
    return bool(columns_named(head, _OF_TRADES))


def _refuse_trades(source: Source, head: Chunk, by_meaning: Mapping[str, str]) -> None:
    """Raise `Unclear` for trades, whose prices look like a price series."""
    has_other_prices = {"mark", "index", "last"} & by_meaning.keys() and "side" not in by_meaning
    if has_other_prices or not are_trades(head):
        return
    raise Unclear(
        f"{source}: the rows are trades, which no table stores: pass --table prices_history to import "
        "each price as a last price",
        "--table",
        ["prices_history"],
    )


_OTHER_CANDLES = (
    (re.compile(r"funding", re.I), "funding_history"),
    (re.compile(r"open.?interest|(?<![a-z])oi(?![a-z])", re.I), "oi_history"),
    (re.compile(r"dvol|volatility|volmex|[be]viv|(?<![a-z])iv(?![a-z])", re.I), "volatility_index_published"),
    (re.compile(r"premium", re.I), "premiums of a perpetual"),
    (re.compile(r"(?<![a-z])spot(?![a-z])", re.I), "prices_spot"),
)
"""Words in file names of candles of other quantities than prices, and their possible table."""


_FOLDERS = 3
"""Folders whose names state the content of a file's rows."""


def _near_path(source: Source) -> str:
    """Return the name of a file and of the folders next to it."""
    return "/".join(source.name.split("/")[-_FOLDERS:])


def _refuse_other_candles(source: Source, by_meaning: Mapping[str, str]) -> None:
    """Raise `Unclear` for candles if the file name suggests another quantity than prices."""
    if by_meaning.get("last", "").lower() not in ("open", "close", "o", "c"):
        return
    name = source.name if "premiumIndex" in source.name else source.file_name
    folders = source.name.lower().split("/")[:-1][-_FOLDERS:]
    if any("spot" in re.split("[^a-z]+", folder) for folder in folders):
        name = f"spot {name}"
    tables = [table for pattern, table in _OTHER_CANDLES if pattern.search(name)]
    if not tables:
        return
    table = tables[0]
    if table not in archive_tables():
        raise Unclear(
            f"{source}: the columns are price candles, but the file name indicates {table}, which no "
            "table stores: omit the file, or pass --table prices_history if the candles are prices",
            "--table",
            ["prices_history"],
        )
    quote = " and --set quote=USDT" if table == "prices_spot" else ""
    raise Unclear(
        f"{source}: the columns are price candles, but the file name indicates {table}: pass --table "
        f"{table}{quote} to import column {by_meaning['last']}, or --table prices_history to import "
        "prices",
        "--table",
        [table, "prices_history"],
    )


def _kind_of_rates(source: Source, head: Chunk, by_meaning: Mapping[str, str], given: Given) -> str:
    """Return whether rates are payments or samples; raise `Unclear` for averages that may be either."""
    kind = _kind_by_times(source, head, by_meaning, given)
    if kind == "funding_settlements":
        _refuse_averages(source, by_meaning)
    return kind


_OF_AVERAGES = re.compile(r"avg|average|mean|median|weighted|twap", re.I)
_OF_BUCKETS = re.compile(r"bucket", re.I)


def _refuse_averages(source: Source, by_meaning: Mapping[str, str]) -> None:
    """Raise `Unclear` for rates named as averages over a period, which may be the funding interval.

    The words may be in the name of the rate column, of the time column, or of the file.
    """
    rate = by_meaning["rate"]
    time = by_meaning.get("time", "")
    named = [rate] if _OF_AVERAGES.search(rate) else []
    named += [time] if _OF_BUCKETS.search(time) else []
    named += _OF_AVERAGES.findall(source.file_name)
    if named:
        raise Unclear(
            f"{source}: {rate} may be the average rate of each period (see {named[0]!r}) or a payment: pass "
            "--table funding_history to store averages as samples, or --table funding_settlements if each "
            "row is a payment",
            "--table",
            ["funding_history", "funding_settlements"],
        )


def _kind_by_times(source: Source, head: Chunk, by_meaning: Mapping[str, str], given: Given) -> str:
    """Return whether rates are payments or samples, by the time between rows of a series."""
    if "time" not in by_meaning:
        # A state with the time of the next payment, as in Binance's ``premiumIndex``, has a running rate.
        return "funding_history" if _columns_of_next_payments(head) else "funding_settlements"
    head = rows_with(head, {by_meaning["rate"]})
    is_observed = plain_name(by_meaning["time"]) in _OBSERVED or OF_RECEIPT.search(by_meaning["time"])
    has_insertions = any(_INSERTED.search(name) for name in head.columns if name != by_meaning["time"])
    # Next to the time of an insertion, that of a row may be the venue's, whatever it is called.
    may_be_paid = has_insertions or not is_observed
    if may_be_paid and _are_at_payments(source, head, by_meaning, given):
        return "funding_settlements"
    rate = plain_name(by_meaning["rate"])
    if is_observed or _is_of_last_hours(rate, _venues(source, head, by_meaning, given)):
        return "funding_history"
    _require_times(source, head, by_meaning, given)
    kind = _kind_of_times(source, head, by_meaning, given)
    if kind:
        return kind
    advice = "choose one"
    has_interval = _stated_hours(head, by_meaning, given) is not None
    if not has_interval and hours_apart(head, by_meaning, given) is not None:
        advice += (
            ", or state the venue's interval with --set interval_hours=8 if it is longer than the time "
            "between rows"
        )
    raise Unclear(
        f"{source}: the rates may be payments (--table funding_settlements) or samples (--table "
        f"funding_history): {advice}",
        "--table",
        ["funding_settlements", "funding_history"],
    )


def _is_of_last_hours(rate: str, venues: list[str]) -> bool:
    """Return whether rates are those of the last 8 hours at any time, by the name of the rate and the venue.

    Deribit pays continuously, so its ``interest_8h`` and ``funding_8h`` are samples (API v2, 2026).
    """
    if venues in ([], ["deribit"]):
        return rate in ("interest8h", "funding8h") or (bool(venues) and rate.endswith("8h"))
    return rate == "interest8h"


_SHORTER = 0.9
_REALISED = re.compile(r"reali[sz]ed|settled|paid", re.I)


def _repeated_payments(source: Source, column: str, apart: float) -> Unclear:
    """Return the `Unclear` error for rates of the last payment, which do not apply at the row's time."""
    return Unclear(
        f"{source}: column {column} has the rate of a payment, but the rows are {apart:.3g} hours apart: "
        "pass --table funding_history to import it as the rate at the time of each row, or the table of "
        "the other columns",
        "--table",
        ["funding_history", "prices_history", "oi_history"],
    )


def _kind_of_times(source: Source, head: Chunk, by_meaning: Mapping[str, str], given: Given) -> str:
    """Return the table of rates by the time between rows and the intervals of venues; empty if unclear."""
    if _are_before_payments(head, by_meaning, given):
        return "funding_history"
    # Other columns, such as the settlement currency or the next settlement, say nothing about the rate.
    words = " ".join([_near_path(source), by_meaning["rate"], by_meaning["time"]])
    is_paid = _SETTLED.search(words) is not None
    apart = hours_apart(head, by_meaning, given)
    if apart is None:
        if is_paid:
            return "funding_settlements"
        if _is_poll_of_venues(source, head, by_meaning, given):
            return "funding_history"
        is_off_hours = _share_on_hours(_stamps(head, by_meaning, given)) == 0
        return "funding_history" if is_off_hours else ""
    if apart < _SHORTER and _REALISED.search(by_meaning["rate"]):
        raise _repeated_payments(source, by_meaning["rate"], apart)
    venues = _venues(source, head, by_meaning, given)
    if not is_paid and _are_samples_by_facts(source, head, by_meaning, given, apart):
        return "funding_history"
    _refuse_sampled_hours(source, by_meaning, apart)
    is_of_hourly = bool(venues) and all(map(pays_hourly, venues))
    if is_of_hourly and apart > _MIN_APART and not is_paid:
        raise _some_of_payments(source, venues, apart)
    is_paid = is_paid or is_of_hourly or _are_intervals_apart(source, head, by_meaning, given)
    kind = _kind_by_interval(head, by_meaning, given, apart)
    return kind or _kind_by_spacing(source, apart, is_paid=is_paid)


def _is_poll_of_venues(source: Source, head: Chunk, by_meaning: Mapping[str, str], given: Given) -> bool:
    """Return whether rows are states of several venues at one time, with the open interest next to the rate.

    Screeners export such rows. Payments of several venues at one time have no open interest.
    """
    has_interest = bool({"oi_usd", "oi_coins"} & by_meaning.keys())
    return has_interest and len(set(_venues(source, head, by_meaning, given))) > 1


def _are_samples_by_facts(
    source: Source, head: Chunk, by_meaning: Mapping[str, str], given: Given, apart: float
) -> bool:
    """Return whether rows are samples by the venues' facts; raise if they may be sums of payments."""
    venues = _venues(source, head, by_meaning, given)
    if apart <= _MIN_APART or not venues or not {*venues} <= ALWAYS_HOURLY:
        return _has_longer_intervals(source, head, by_meaning, given)
    if _may_be_sums(source, head, by_meaning["rate"], apart):
        raise _some_of_payments(source, venues, apart)
    return True


_OF_SUMS = re.compile(r"sum|total|cumul|(?<!\d)8h", re.I)
_FLOOR_OF_HOUR = 0.0000125
_MAX_AT_FLOOR = 0.2


def _may_be_sums(source: Source, head: Chunk, rate: str, apart: float) -> bool:
    """Return whether rates of a venue that pays each hour may be sums of the hours between rows.

    They may be if their name says so, or if many are at the floor of that many hours, 0.00125 % per hour.
    """
    if _OF_SUMS.search(f"{source.file_name} {rate}") is not None:
        return True
    sizes = np.abs(figures_of(head, rate, suffix="%"))
    sizes = sizes[np.isfinite(sizes)]
    if not sizes.size:
        return False
    floor = _FLOOR_OF_HOUR * apart
    floors = np.round([floor, 100 * floor], 9)  # as fractions, and in percent
    return float(np.mean(np.isin(np.round(sizes, 9), floors))) > _MAX_AT_FLOOR


_OF_AN_HOUR = re.compile(r"(1h|hourly|perhour)(pct|percent|bps)?$")
_MIN_APART = 1.9


def _refuse_sampled_hours(source: Source, by_meaning: Mapping[str, str], apart: float) -> None:
    """Raise `Unclear` for hourly rates that are several hours apart.

    They may be payments of several hours, stated per hour, or samples of a venue that pays hourly, such as
    Deribit's ``interest_1h``.
    """
    if apart > _MIN_APART and _OF_AN_HOUR.search(plain_name(by_meaning["rate"])):
        raise Unclear(
            f"{source}: column {by_meaning['rate']} has hourly rates, but the rows are {apart:g} hours "
            "apart: pass --table funding_settlements if each row is the payment for all of these hours, "
            "or --table funding_history if the venue pays more often",
            "--table",
            ["funding_settlements", "funding_history"],
        )


def _require_times(source: Source, head: Chunk, by_meaning: Mapping[str, str], given: Given) -> None:
    """Raise if no value of the time column can be read as a time."""
    stamps = _stamps(head, by_meaning, given)
    values = head.columns[by_meaning["time"]].drop_null()
    if len(values) and (stamps == np.iinfo(np.int64).min).all():
        rejections = Rejections(len(values))
        to_timestamps(values, by_meaning["time"], rejections, tz=dt.UTC)
        raise ArchiveError(f"{source}: {rejections.reasons[0]}")


def _kind_by_interval(head: Chunk, by_meaning: Mapping[str, str], given: Given, apart: float) -> str:
    """Return whether rates are samples or payments by the stated interval; empty if none is stated."""
    stated = _stated_hours(head, by_meaning, given)
    if stated is None:
        return ""
    is_stated_by_rows = "interval_hours" in by_meaning and "interval_hours" not in given.set
    if is_stated_by_rows and _is_each_paid(head, by_meaning, given):
        return "funding_settlements"
    if apart < 0.9 * stated:
        return "funding_history"
    return "funding_settlements" if is_stated_by_rows and apart < 1.1 * stated else ""


def _is_each_paid(head: Chunk, by_meaning: Mapping[str, str], given: Given) -> bool:
    """Return whether the spacing of rows in every series equals the stated interval."""
    hours = interval_hours(head.columns[by_meaning["interval_hours"]], Rejections(len(head)))
    rows = pd.DataFrame(
        {"stamp": _stamps(head, by_meaning, given), "series": _series(head, by_meaning), "hours": hours}
    ).sort_values(["series", "stamp"])
    apart = rows.groupby("series")["stamp"].diff() / HOUR_US
    ratios = (apart[apart > 0] / rows["hours"]).groupby(rows["series"]).median().dropna()
    return bool(len(ratios)) and bool(ratios.between(0.9, 1.1).all())


def _kind_by_spacing(source: Source, apart: float, *, is_paid: bool) -> str:
    """Return whether rates are samples or payments by their spacing; empty if unclear."""
    if apart > _MAX_HOURS:
        raise Unclear(
            f"{source}: the rates are {apart:g} hours apart and may be sums or averages of payments: "
            "pass --table funding_settlements if each rate is one payment, or --table funding_history if "
            "not (with --unit per_day if each is the sum of a day)",
            "--table",
            ["funding_settlements", "funding_history"],
        )
    if apart < 0.9:
        return "funding_history"
    return "funding_settlements" if apart >= 1.9 or is_paid else ""


_OBSERVED = frozenset(
    "fetchedat collectedat retrievedat scrapedat capturedat loggedat sampledat asofutc asof snapshottime "
    "observedat recordedat origintime receivedtime receivedat".split()
)
"""Names of observation times, whose rates are samples."""


def hours_apart(head: Chunk, by_meaning: Mapping[str, str], given: Given) -> float | None:
    """Return the typical time between rows of a series; None if unknown."""
    return _typical_hours(_stamps(head, by_meaning, given), _series(head, by_meaning))


def _series(head: Chunk, by_meaning: Mapping[str, str]) -> Array:
    """Return the number of each row's series, by its symbol and venue."""
    series = np.zeros(len(head), dtype=np.int64)
    for name in ("symbol", "exchange"):
        if name in by_meaning:
            codes = encoded(head.columns[by_meaning[name]]).codes.astype(np.int64)
            series = series * (int(np.max(codes, initial=0)) + 2) + codes + 1
    return series


_MAX_HOURS = 12.5
"""Spacing of rates [hours] from which rates are rarely single payments."""


def _stated_hours(head: Chunk, by_meaning: Mapping[str, str], given: Given) -> float | None:
    """Return the interval from the caller or the typical row; None without a valid one."""
    hours = _hours_of_rows(head, by_meaning, given)
    hours = hours[np.isfinite(hours)]
    if not hours.size:
        return None
    return float(np.median(hours))


def words_in(
    source: Source, name: str, head: Chunk, by_meaning: Mapping[str, str], given: Given
) -> list[str]:
    """Return the words of a column in the first rows, or the one of the options or the path."""
    if name in by_meaning and name not in given.set:
        return texts_of(head, by_meaning[name])
    word = given.set.get(name) or names_in_path(source.name).get(name)
    return [word] if word else []


def _venues(source: Source, head: Chunk, by_meaning: Mapping[str, str], given: Given) -> list[str]:
    """Return the venues stated by the options, else by the first rows, else by the path; may be empty."""
    return [venue_of_word(word) for word in words_in(source, "exchange", head, by_meaning, given)]


def _has_longer_intervals(source: Source, head: Chunk, by_meaning: Mapping[str, str], given: Given) -> bool:
    """Return whether a contract pays less often than it has rows, if facts of all contracts are known."""
    if "interval_hours" in by_meaning or "interval_hours" in given.set:
        return False
    return max(_rows_in_intervals(source, head, by_meaning, given), default=0.0) > _MAX_ROWS_IN_INTERVAL


_MAX_ROWS_IN_INTERVAL = 1.5


def _are_intervals_apart(source: Source, head: Chunk, by_meaning: Mapping[str, str], given: Given) -> bool:
    """Return whether the rows of each contract are one funding interval apart, by the facts of venues."""
    intervals = _rows_in_intervals(source, head, by_meaning, given)
    return bool(intervals) and min(intervals) > 0.9 and max(intervals) < 1.1


def _rows_in_intervals(
    source: Source, head: Chunk, by_meaning: Mapping[str, str], given: Given
) -> list[float]:
    """Return the rows in an interval of each contract, by the facts of venues; empty if one is unknown.

    Contracts of one file may pay each hour on some venues and every 8 hours on others.
    """
    rows = _rows_of_contracts(source, head, by_meaning, given)
    counts: list[float] = []
    for (venue, symbol), stamps in rows.groupby(["exchange", "symbol"], sort=False)["stamp"]:
        hours = known_interval(venue_of_word(venue), market_of(symbol).symbol)
        if hours is None:
            return []
        apart = _typical_hours(stamps.to_numpy(), np.zeros(len(stamps), dtype=np.int64))
        if apart is not None:
            counts.append(hours / apart)
    return counts


def _rows_of_contracts(
    source: Source, head: Chunk, by_meaning: Mapping[str, str], given: Given
) -> pd.DataFrame:
    """Return the venue, symbol and time of each row with a time; no rows if a name is not stated."""
    columns: dict[str, object] = {"stamp": _stamps(head, by_meaning, given)}
    for name in ("exchange", "symbol"):
        words = words_in(source, name, head, by_meaning, given)
        if name in by_meaning and name not in given.set:
            columns[name] = encoded(head.columns[by_meaning[name]]).strings()
        else:
            columns[name] = np.full(len(head), words[0] if words else None, dtype=object)
    rows = pd.DataFrame(columns).dropna().drop_duplicates()
    return rows[rows["stamp"] != np.iinfo(np.int64).min]


_NEXT_PAYMENT = re.compile(r"next(funding|settle|payment)[a-z]*")
_SECONDS_OF_LABELS = 60


def _are_before_payments(head: Chunk, by_meaning: Mapping[str, str], given: Given) -> bool:
    """Return whether rows are running rates, by the next payments that they state."""
    for column in _columns_of_next_payments(head):
        if _is_next_payment_of_samples(head, column, by_meaning, given):
            return True
    return False


def _columns_of_next_payments(head: Chunk) -> list[str]:
    """Return the columns with the times of next payments."""
    return [column for column in head.columns if _NEXT_PAYMENT.fullmatch(plain_name(column))]


def _is_next_payment_of_samples(
    head: Chunk, column: str, by_meaning: Mapping[str, str], given: Given
) -> bool:
    """Return whether rows with a column of next payments are samples, not payments.

    They are payments if each row is a whole valid interval before its next payment, and its series has no row
    in between. The interval may differ between contracts and change over time.
    """
    stamps = _stamps(head, by_meaning, given)
    following = _stamps(head, {"time": column}, given)
    missing = np.iinfo(np.int64).min
    has_both = (stamps != missing) & (following != missing)
    seconds = (following[has_both] - stamps[has_both]) / 1e6
    if not seconds.size or (seconds < 0).any():
        return False
    # A payment is a whole interval of contracts before the next, and the interval that rows state.
    hours = np.round(seconds / 3600)
    is_whole = (np.abs(seconds - 3600 * hours) <= _SECONDS_OF_LABELS) & np.isin(hours, VALID_HOURS)
    stated = _hours_of_rows(head, by_meaning, given)[has_both]
    is_stated = np.isnan(stated) | (hours == stated)
    if not (is_whole & is_stated).all():
        return True
    # A series of payments has no row between a payment and the next.
    rows = pd.DataFrame({"series": _series(head, by_meaning), "stamp": stamps, "due": following}, copy=False)
    rows = rows[has_both].drop_duplicates().sort_values(["series", "stamp"], kind="stable")
    later = rows.groupby("series")["stamp"].shift(-1)
    return bool((later < rows["due"] - 1e6 * _SECONDS_OF_LABELS).any())


def _hours_of_rows(head: Chunk, by_meaning: Mapping[str, str], given: Given) -> Array:
    """Return the interval that each row or the caller states; NaN without a valid one."""
    word = given.set.get("interval_hours")
    if word is not None:
        stated = pa.chunked_array([pa.array([word] * len(head))])
    elif "interval_hours" in by_meaning:
        stated = head.columns[by_meaning["interval_hours"]]
    else:
        return np.full(len(head), np.nan)
    return interval_hours(stated, Rejections(len(stated)))


def intervals_of_next_payments(head: Chunk, given: Given) -> set[float]:
    """Return the shortest time [h] between the next payments that the rows of each series state.

    OKX's ``nextFundingTime`` moves with the payments as well. A series with a single next payment has no such
    time.
    """
    columns = _columns_of_next_payments(head)
    if len(columns) != 1:
        return set()
    names: dict[str, str] = {}
    for name in ("symbol", "exchange"):
        column = given.map.get(name, name)
        if column in head.columns:
            names |= {name: column}
    series = _series(head, names)
    following = _stamps(head, {"time": columns[0]}, given)
    rows = pd.DataFrame({"series": series, "stamp": following})
    rows = rows[rows["stamp"] != np.iinfo(np.int64).min].drop_duplicates().sort_values(["series", "stamp"])
    apart = rows.groupby("series")["stamp"].diff() / HOUR_US
    shortest = apart.groupby(rows["series"]).min().dropna().round(3)
    return {*shortest.tolist()} & {*VALID_HOURS}


_INSERTED = re.compile(r"^(created|inserted|createdat|insertedat|created_at|inserted_at)$", re.I)
_AT_ONCE_US = 200_000
"""Maximum delay after the hour [µs] of payment times. Programs that sample rates are later."""


def _are_at_payments(source: Source, head: Chunk, by_meaning: Mapping[str, str], given: Given) -> bool:
    """Return whether all rows are at the payments of their contracts, by the facts of venues.

    Each series has a row for each interval, at the whole hour.
    """
    rows = _rows_of_contracts(source, head, by_meaning, given)
    if len(rows) < _MIN_SERIES or (rows["stamp"] % HOUR_US > _AT_ONCE_US).any():
        return False
    for (venue, symbol), series in rows.groupby(["exchange", "symbol"], sort=False)["stamp"]:
        hours = known_interval(venue_of_word(venue), market_of(symbol).symbol)
        apart = np.diff(np.sort(series.to_numpy())) / HOUR_US
        if hours is None or apart.size < _MIN_SERIES or abs(float(np.median(apart)) - hours) > 0.01:
            return False
    return True


_MIN_SERIES = 3


def _some_of_payments(source: Source, venues: list[str], apart: float) -> Unclear:
    """Return the `Unclear` error for rows that are further apart than the payments of the venue."""
    return Unclear(
        f"{source}: the rows are {apart:g} hours apart, but {', '.join(venues)} pays every hour: pass "
        "--table funding_history if they are samples, or --table funding_settlements if each row is the "
        "payment for all of these hours",
        "--table",
        ["funding_history", "funding_settlements"],
    )


def _stamps(head: Chunk, by_meaning: Mapping[str, str], given: Given) -> Array:
    """Return the times of rows [µs]; the smallest integer where missing."""
    tz = dt.UTC if given.tz is None else zone(given.tz)
    stamps = to_timestamps(head.columns[by_meaning["time"]], "time", Rejections(len(head)), tz=tz)
    return np.where(stamps.isna(), np.iinfo(np.int64).min, stamps.asi8)


def _typical_hours(stamps: Array, series: Array) -> float | None:
    """Return the median time between rows of a series that are on whole hours; None if unknown."""
    order = np.lexsort((stamps, series))
    stamps = stamps[order]
    series = series[order]
    apart = np.diff(stamps)[np.diff(series) == 0] / HOUR_US
    apart = apart[apart > 0]
    if not apart.size:
        return None
    median = float(np.median(apart))
    # Rows off the whole hours are samples, whatever the time between them.
    return median if _share_on_hours(stamps) > 0.8 else min(median, 0.5)


def _share_on_hours(stamps: Array) -> float:
    """Return the share of times [µs] that are within a minute of a whole hour; 1 without times."""
    if not len(stamps):
        return 1.0
    return float(np.mean((stamps + MINUTE_US) % HOUR_US <= 2 * MINUTE_US))
