"""Columns of a file without a declared layout: what each is, by its name and its values."""

from __future__ import annotations

import datetime as dt
import re

import numpy as np
import pyarrow as pa

from derivdata.sources.archive.importing.market_names import names_by_meaning, plain_name
from derivdata.sources.archive.importing.opening import Source
from derivdata.sources.archive.importing.readers import Chunk
from derivdata.sources.archive.importing.values import Rejections, encoded, instants, numbers


def columns_by_meaning(head: Chunk) -> dict[str, str]:
    """Return the file's column of each meaning of ``names.toml`` that it has."""
    plain: dict[str, str] = {}
    for column in head.columns:
        plain.setdefault(plain_name(column), column)
    for column in head.columns:  # a field of an object in a record, ``delta.coin``
        plain.setdefault(plain_name(column.rsplit(".", 1)[-1]), column)
    found: dict[str, str] = {}
    for meaning, names in names_by_meaning().items():
        known = [plain[name] for name in names if name in plain]
        known = [column for column in known if _can_be(meaning, head.columns[column])]
        if known:
            found[meaning] = known[0]
    for meaning, near in (("rate", _near_rate(head)), ("time", _near_time(head))):
        if meaning not in found and near is not None:
            found[meaning] = near
    if found.get("last", "").lower() in _OPENS:
        found.pop("price_usd", None)  # the close of a candle, which is known at its end
    return found


_OPENS = ("open", "openprice", "open_price")


def _near_rate(head: Chunk) -> str | None:
    """Return the one column whose name has the words of a funding rate."""
    near = [name for name in head.columns if _NEAR_RATE.search(name) and not _NOT_A_RATE.search(name)]
    return near[0] if len(near) == 1 else None


def _near_time(head: Chunk) -> str | None:
    """Return the one column of timestamps, or else of a name with the word time and of times."""
    near = [name for name, values in head.columns.items() if pa.types.is_timestamp(values.type)]
    if not near:
        named = [name for name in head.columns if _NEAR_TIME.search(name)]
        near = [name for name in named if _has_times(head.columns[name])]
    return near[0] if len(near) == 1 else None


def _has_times(values: pa.ChunkedArray) -> bool:
    """Return whether all values of a column are times."""
    rejections = Rejections(len(values))
    stamps = instants(values, "time", rejections, tz=dt.UTC)
    return not rejections.bad.any() and bool((~stamps.isna()).any())


_NEAR_RATE = re.compile(r"funding.*(rate|bps|pct|percent|apr|apy|annual|8h|1h)|(rate|bps|apr).*funding", re.I)
_NEAR_TIME = re.compile(r"time|date", re.I)
_NOT_A_RATE = re.compile(r"total|count|updates|time|interval|sum|cumul", re.I)
_WORDS = ("symbol", "instrument_name", "exchange")
_AMOUNTS = ("oi_usd", "oi_coins", "underlying_price", "price_usd", "mark", "index", "last")


def _can_be(meaning: str, values: pa.ChunkedArray) -> bool:
    """Return whether values may be of a meaning: names are text, and amounts are numbers that are not all 0.

    Feeds of backtrader fill a column of open interest with zeros.
    """
    if meaning not in (*_WORDS, *_AMOUNTS):
        return True
    rejections = Rejections(len(values))
    sizes = numbers(values, meaning, rejections, suffix="%")
    is_text = bool(rejections.bad.any())
    if meaning in _WORDS:
        return is_text or meaning != "symbol" or not np.isfinite(sizes).any()
    return not is_text and (
        meaning not in ("oi_usd", "oi_coins") or bool((sizes[np.isfinite(sizes)] != 0).any())
    )


QUANTITIES = frozenset({"rate", "oi_usd", "oi_coins", "price_usd", "mark", "index", "last", "iv"})
_QUANTITY_OF_TABLE = {
    "oi_exchange_totals": "total_oi_usd",
    "volume_exchange_totals": "total_volume_usd",
    "volume_history": "volume_usd",
    "funding_settlements": "rate",
    "funding_history": "rate",
    "oi_history": "oi_coins",
    "prices_history": "price_usd",
    "volatility_index_published": "index_pct",
}
_QUANTITY_OF_NAME = (
    (re.compile(r"funding", re.I), "rate"),
    (
        re.compile(r"(open.?interest|(?<![a-z])oi(?![a-z])).*(usd(?![tc])|dollar|notional|value)", re.I),
        "oi_usd",
    ),
    (re.compile(r"open.?interest|(?<![a-z])oi(?![a-z])", re.I), "oi_coins"),
    (re.compile(r"dvol|volatility.?index", re.I), "index_pct"),
    (re.compile(r"mark.?price|(?<![a-z])mark(?![a-z])", re.I), "mark"),
    (re.compile(r"index.?price", re.I), "index"),
    (re.compile(r"price|(?<![a-z])close", re.I), "last"),
)
"""Words of the name of a file that say what the one column of numbers is."""


def quantity_of(source: Source, table: str | None) -> str | None:
    """Return what a column of the name ``value`` is, by the table or the name of the file."""
    if table is not None:
        return _QUANTITY_OF_TABLE.get(table)
    name = source.name.rsplit("/", 1)[-1]
    return next((quantity for pattern, quantity in _QUANTITY_OF_NAME if pattern.search(name)), None)


def column_of_words(head: Chunk, words: frozenset[str]) -> str:
    """Return the column that has some words only; empty without one."""
    for column, values in head.columns.items():
        if pa.types.is_string(values.type) or pa.types.is_large_string(values.type):
            texts = {text.lower() for text in encoded(values).texts}
            if texts and texts <= words:
                return column
    return ""
