"""Convert rows of a file to rows of a table; rows that do not fit are rejected with a reason.

A row without an ID gets a hash of the row, so that it has the same ID in every import.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from derivdata import units
from derivdata.errors import ArchiveError
from derivdata.sources.archive.audit import future_limit, speller
from derivdata.sources.archive.importing import instruments
from derivdata.sources.archive.importing.adjustments import REASON
from derivdata.sources.archive.importing.cells import (
    Rejections,
    Words,
    encoded,
    interval_hours,
    numbers,
    repeated_word,
    shown,
)
from derivdata.sources.archive.importing.instruments import convert_units
from derivdata.sources.archive.importing.market_names import KNOWN_VENUES, market_of, venue_of_word
from derivdata.sources.archive.importing.plan import IN_COINS, ImportPlan, takes_contract_size
from derivdata.sources.archive.importing.readers import Chunk
from derivdata.sources.archive.importing.timestamps import to_timestamps
from derivdata.support import times
from derivdata.support.arrays import Array
from derivdata.tables.definitions import MAX_PAID
from derivdata.tables.schema import Column, Kind

RANK = "quote_rank"
CONTRACT = "contract_name"
ORIGIN = "origin"
_WORDS = (Kind.TEXT, Kind.LABEL)
_FLAGS = {"true": True, "1": True, "false": False, "0": False}
_NUMBERS = (Kind.NUMBER, Kind.COUNT, Kind.RANK)


class Rows(NamedTuple):
    """Rows that fit, with each contract's name and its quote's rank; the places and reasons of the others."""

    frame: pd.DataFrame
    rejections: Rejections


def rows(chunk: Chunk, plan: ImportPlan) -> Rows:
    """Return the rows of a chunk that fit the table, in the table's names and units."""
    rejections = Rejections(len(chunk))
    if chunk.cut:
        rejections.reject_one(len(chunk) - 1, chunk.cut)
    columns = _words(chunk, plan, rejections)
    columns |= _numbers(chunk, plan, rejections)
    columns |= _times(chunk, plan, rejections, columns)
    instruments.complete(columns, plan, rejections)
    convert_units(columns, plan, rejections)
    _hold_to_range(columns, plan, rejections)
    _require(chunk, columns, plan, rejections)
    names = [*plan.table.columns, "interval_hours", "price_usd", "contract_size", RANK, CONTRACT, *plan.extra]
    present = [name for name in dict.fromkeys(names) if name in columns]
    frame = pd.DataFrame({name: _series(columns[name]) for name in present}, copy=False)
    frame[ORIGIN] = np.arange(len(chunk))
    if rejections.bad.any():
        frame = frame[~rejections.bad]
    if plan.adjust is not None and len(frame):
        frame = _adjusted(frame, plan, rejections)
    return Rows(frame.drop(columns=[*plan.extra], errors="ignore"), rejections)


def _adjusted(frame: pd.DataFrame, plan: ImportPlan, rejections: Rejections) -> pd.DataFrame:
    """Apply the layout's function to rows; rows that get a reason are rejected."""
    if CONTRACT in frame:
        frame = frame.astype({CONTRACT: object})
    frame = plan.adjust(frame)  # type: ignore[misc]
    if REASON not in frame:
        return frame
    wrong = frame[REASON].notna().to_numpy()
    for origin, why in zip(frame[ORIGIN][wrong].tolist(), frame[REASON][wrong].tolist(), strict=True):
        rejections.reject_one(origin, why)
    return frame[~wrong].drop(columns=REASON)


def _series(values: Any) -> Any:
    """Return a column as that of a frame."""
    if isinstance(values, Words):
        return values.category()
    return values


def _words(chunk: Chunk, plan: ImportPlan, rejections: Rejections) -> dict[str, Any]:
    """Return the columns of words and flags, with the words of the table."""
    columns: dict[str, Any] = {}
    kinds = {name: kind for name, kind in plan.kinds.items() if kind in (*_WORDS, Kind.FLAG)}
    for name, kind in kinds.items():
        raw = plan.raw(name, chunk)
        if raw is None:
            continue
        texts = _texts(raw, name, len(chunk), rejections)
        if kind is Kind.FLAG:
            columns[name] = _flags(texts, name, rejections)
        else:
            columns[name] = texts
    for name in plan.values.keys() & columns.keys():
        columns[name] = columns[name].replaced(partial(_replaced, plan.values[name]))
    if "exchange" in columns:
        columns["exchange"] = columns["exchange"].replaced(_venue)
        # Vendors list totals over venues among the venues.
        is_total = columns["exchange"].is_in(_TOTALS)
        rejections.reject(is_total, "exchange is a total of several venues: omit it")
    instruments.read_names(columns, plan, rejections)
    for name, column in plan.table.columns.items():
        if column.allowed and name in columns:
            _hold_to(columns, name, column, rejections, plan)
    instruments.reject_dated_contracts(chunk, columns, plan, rejections)
    return columns


def _venue(text: str) -> str:
    """Return the venue from its own column or from a market name such as ``binance-BTCUSDT-future``."""
    slug = venue_of_word(text)
    if slug in KNOWN_VENUES:
        return slug
    return market_of(text).venue or slug


_TOTALS = ("all", "total", "aggregated", "aggregate")


def _replaced(words: Mapping[str, str], text: str) -> str:
    return words.get(text.lower(), text)


def _texts(raw: pa.ChunkedArray | str, name: str, size: int, rejections: Rejections) -> Words:
    """Return a column of text; values that are lists or objects are rejected."""
    if isinstance(raw, str):
        return repeated_word(raw, size)
    if pa.types.is_nested(raw.type):
        rejections.reject(np.asarray(raw.is_valid()), lambda row: f"{name}={shown(raw, row)} is not text")
        return Words(np.full(size, -1, dtype=np.int32), [])
    return encoded(raw)


def _flags(words: Words, name: str, rejections: Rejections) -> Array:
    """Return a column of true and false; other words are rejected."""
    flags = words.mapped(lambda text: _FLAGS.get(text.lower()))
    wrong = ~words.is_missing & pd.isna(flags)
    if wrong.any():
        texts = words.strings()
        rejections.reject(wrong, lambda row: f"{name}={texts[row]!r} is not true or false")
    return flags


_SIDES = {
    "options": {"c": "call", "calls": "call", "ce": "call", "p": "put", "puts": "put", "pe": "put"},
    "liquidations": {
        **dict.fromkeys(("longs", "l liq", "long liq", "long liquidation"), "long"),
        **dict.fromkeys(("shorts", "s liq", "short liq", "short liquidation"), "short"),
    },
    "orderbook": {"bids": "bid", "b": "bid", "asks": "ask", "a": "ask"},
}
"""Words of a side with the same meaning in all tables of a family."""


def _hold_to(
    columns: dict[str, Any], name: str, column: Column, rejections: Rejections, plan: ImportPlan
) -> None:
    """Spell the words of a column as its table does; rows with other words are rejected."""
    original = columns[name]
    words = original.replaced(_spelling(name, column, plan))
    wrong = ~words.is_missing & ~words.is_in(column.allowed)
    if wrong.any():
        texts = original.strings()
        rejections.reject(wrong, lambda row: f"{name}={texts[row]!r} {_choice(name, column, texts[row])}")
    columns[name] = words


def _spelling(name: str, column: Column, plan: ImportPlan) -> Callable[[str], str]:
    """Return the function that spells a word as the table does."""
    if name == "resolution":
        return _resolution
    spell = speller(column)
    if name != "side":
        return spell
    family = plan.table.name.partition("_")[0]
    sides = _SIDES.get(family, {})
    return lambda text: sides.get(text.strip().lower(), spell(text))


_STEP = re.compile(r"(\d+) ?(?:(?P<m>m|min|mins|minute|minutes)|(?P<h>h|hour|hours)|(?P<d>d|day|days))")
"""The group that matches has the name of the unit in the library's format."""
_MINUTES_OF_HOUR = 60


def _resolution(text: str) -> str:
    """Return a step in the library's format: ``1h`` for ``1HOUR``, ``60min`` and ``1 hour``."""
    word = text.strip()
    if not word.endswith("M"):  # 1M is a month, and 1m a minute
        word = word.lower()
    match = _STEP.fullmatch(word)
    if match is None:
        return word
    number = int(match[1])
    unit = match.lastgroup
    if unit == "m" and number % _MINUTES_OF_HOUR == 0:
        return f"{number // _MINUTES_OF_HOUR}h"
    return f"{number}{unit}"


def _choice(name: str, column: Column, text: str) -> str:
    """Return the allowed words of a column, and the options that define other words."""
    allowed = " or ".join(column.allowed)
    pairs = " or ".join(f"--map-value {name}:{text}={word}" for word in column.allowed[:2])
    message = f"is not {allowed}: pass its meaning with {pairs}"
    if name == "side":
        message += ", and its opposite follows"
    return message


def _cells(raw: pa.ChunkedArray | str, size: int) -> pa.ChunkedArray:
    """Return a column of the file, or of one text that is repeated in every row."""
    if isinstance(raw, str):
        return pa.chunked_array([pa.repeat(raw, size)])
    return raw


def names_of_numbers(plan: ImportPlan) -> list[str]:
    """Return the columns with numbers of a table, and those that only a conversion of units needs."""
    names = [name for name, kind in plan.kinds.items() if kind in _NUMBERS]
    if "rate_bps_8h" in names:
        names.append("interval_hours")
    if plan.unit in IN_COINS:
        names.append("price_usd")
    if takes_contract_size(plan.table):
        names.append("contract_size")
    return list(dict.fromkeys(names))  # a table may have some of them itself


def _numbers(chunk: Chunk, plan: ImportPlan, rejections: Rejections) -> dict[str, Any]:
    """Return the columns of numbers in the table's scale."""
    kinds = plan.kinds
    columns: dict[str, Any] = {}
    for name in names_of_numbers(plan):
        raw = plan.raw(name, chunk)
        if raw is None:
            continue
        column = _cells(raw, len(chunk))
        if name == "interval_hours":
            columns[name] = interval_hours(column, rejections)
            continue
        if chunk.marks is not None:
            column = chunk.marks.plain(plan.source_of(name, chunk.columns) or "", column)
        values = _numbers_of(name, column, plan, rejections)
        columns[name] = values
        if kinds.get(name) in (Kind.COUNT, Kind.RANK):
            broken = np.isfinite(values) & (values != np.round(values))
            rejections.reject(broken, partial(_shown_with, name, values, "is not a whole number"))
    return columns


def _numbers_of(name: str, column: pa.ChunkedArray, plan: ImportPlan, rejections: Rejections) -> Array:
    """Return the numbers of a column in its unit; cells without the suffix of the others are rejected."""
    suffix = _suffix(name, column, plan)
    values = numbers(column, name, rejections, suffix=suffix)
    if suffix:
        _refuse_without_suffix(name, column, values, suffix, rejections)
    if name not in plan.scales:
        return values
    # 8.2 * 1e6 is 8,199,999.999999999 in floats; rounding restores the amount of the file.
    return np.round(values * plan.scales[name], 9)


def _shown_with(name: str, values: Array, why: str, row: int) -> str:
    return f"{name}={values[row]:g} {why}"


_IN_PERCENT = ("rate_bps_8h", "iv", "long_share", "short_share")
"""Columns whose cells may end in ``%``."""


def _suffix(name: str, column: pa.ChunkedArray, plan: ImportPlan) -> str:
    """Return ``%`` if cells of rates or volatilities end in it; the unit must then be in percent."""
    if name not in _IN_PERCENT or not pa.types.is_string(column.type):
        return ""
    if not pc.any(pc.ends_with(pc.utf8_trim_whitespace(column), "%")).as_py():
        return ""
    if name in ("long_share", "short_share"):  # percent if they add up to 100
        return "%"
    if plan.unit is None or not plan.unit.startswith("percent"):
        raise ArchiveError(f"cells of {name} end in %: pass --unit percent")
    return "%"


def _refuse_without_suffix(
    name: str, column: pa.ChunkedArray, values: Array, suffix: str, rejections: Rejections
) -> None:
    """Reject numbers without a unit if other cells of the column have one, because their unit may differ."""
    has_suffix = np.asarray(pc.ends_with(pc.utf8_trim_whitespace(column), suffix).fill_null(False))
    is_bare = ~has_suffix & np.isfinite(values) & (values != 0)
    rejections.reject(
        is_bare,
        lambda row: f"{name}={shown(column, row)} has no {suffix}, unlike other rows of the column",
    )


def _times(chunk: Chunk, plan: ImportPlan, rejections: Rejections, columns: dict[str, Any]) -> dict[str, Any]:
    """Return the columns of times; rows of one series are compared where a time is ambiguous."""
    groups: list[Array] = []
    for name in ("symbol", *plan.table.key):
        if name in columns:
            values = columns[name]
            groups.append(values.codes if isinstance(values, Words) else values)
    result: dict[str, Any] = {}
    for name, kind in plan.kinds.items():
        if kind is not Kind.TIME:
            continue
        raw = plan.raw(name, chunk)
        if raw is None:
            continue
        cells = _cells(raw, len(chunk))
        if name == "time":
            result[name] = to_timestamps(cells, name, rejections, tz=plan.tz, groups=groups)
        else:
            result[name] = to_timestamps(cells, name, rejections, tz=plan.tz)
    return result


def _hold_to_range(columns: dict[str, Any], plan: ImportPlan, rejections: Rejections) -> None:
    """Reject impossible values: values outside the range of their column, and future times."""
    for name, column in plan.table.columns.items():
        values = columns.get(name)
        # The result of a layout's last conversion is checked before it is written.
        if values is None or column.kind not in _NUMBERS or plan.adjust is not None:
            continue
        for wrong, why in column.outside(values):
            rejections.reject(wrong, partial(_shown_with, name, values, why))
    if "rate_bps_8h" in columns and "interval_hours" in columns:
        paid = np.abs(columns["rate_bps_8h"]) / 8 * columns["interval_hours"]
        rejections.reject(
            paid > MAX_PAID_BPS,
            lambda row: (
                f"rate_bps_8h is a payment of {paid[row] / 100:g} % of the position: at most "
                f"{MAX_PAID_BPS / 100:g} % is possible"
            ),
        )
    if "time" in columns and "future" not in plan.accept:
        stamps = columns["time"]
        ahead = np.asarray(stamps > future_limit())
        rejections.reject(
            ahead,
            lambda row: (
                f"time={times.iso(stamps[row])} is in the future: correct it, or pass --accept future"
            ),
        )


MAX_PAID_BPS = MAX_PAID * units.BPS
"""The largest payment [bps of the position]."""


def _require(chunk: Chunk, columns: dict[str, Any], plan: ImportPlan, rejections: Rejections) -> None:
    """Reject rows without a required value; raise for a file without the column."""
    required = [name for name in plan.table.columns if plan.required(name)]
    lacking = [name for name in required if name not in columns]
    if lacking:
        plan.refuse_missing(lacking, chunk)
    for name in required:
        values = columns[name]
        missing = values.is_missing if isinstance(values, Words) else pd.isna(values)
        reason = f"{name} is missing"
        if name == "time" and missing.all():
            reason += ": pass it with --set time=2026-03-27T08:00:00Z"
        rejections.reject(missing, reason)


_FIELDS = (
    "exchange symbol time side order_price_usd fill_price_usd quantity filled_quantity value_usd order_id"
).split()


def with_ids(frame: pd.DataFrame, made: tuple[str, ...], seen: Counter[str]) -> pd.DataFrame:
    """Return the frame with IDs for rows that lack one; `seen` counts equal rows of a file."""
    lacking = [name for name in made if name not in frame or frame[name].isna().any()]
    if not lacking or frame.empty:
        return frame
    fields = [frame[name].tolist() for name in _FIELDS if name in frame.columns and name not in made]
    ids: list[str] = []
    for row in zip(*fields, strict=True):
        text = "\x1f".join(map(_field_text, row))  # the unit separator of ASCII is in no field
        seen[text] += 1
        if seen[text] > 1:  # equal rows are separate orders
            text += f"\x1f{seen[text]}"
        ids.append("row-" + hashlib.blake2b(text.encode(), digest_size=12).hexdigest())
    made_ids = pd.Series(ids, frame.index, dtype="str")
    columns: dict[str, pd.Series] = {}
    for name in lacking:
        columns[name] = made_ids
        if name in frame:
            columns[name] = frame[name].astype("str").fillna(made_ids)
    return frame.assign(**columns)


def _field_text(value: Any) -> str:
    """Return a field as text for the hash of a row."""
    if isinstance(value, pd.Timestamp):
        return str(value.isoformat())
    return repr(value)
