"""Rows of a file as rows of a table; each one that does not fit is rejected with its reason."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from derivdata import units
from derivdata.errors import ArchiveError
from derivdata.sources.archive.archive import Archive
from derivdata.sources.archive.audit import future_limit, speller
from derivdata.sources.archive.importing import instruments
from derivdata.sources.archive.importing.finishing import REASON
from derivdata.sources.archive.importing.intervals import interval_hours
from derivdata.sources.archive.importing.plan import IN_COINS, RATE_UNITS, ImportPlan, takes_contract_size
from derivdata.sources.archive.importing.readers import Chunk
from derivdata.sources.archive.importing.values import (
    Rejections,
    Words,
    encoded,
    instants,
    is_nested,
    numbers,
    repeated_word,
    shown,
)
from derivdata.support import times
from derivdata.support.arrays import Array
from derivdata.tables.contracts import venue_slug
from derivdata.tables.required import require_decimal_volatility
from derivdata.tables.schema import Column, Kind

RANK, CONTRACT, ORIGIN = "quote_rank", "contract_name", "origin"
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
    columns = _words(chunk, plan, rejections)
    columns |= _numbers(chunk, plan, rejections)
    columns |= _times(chunk, plan, rejections, columns)
    instruments.complete(columns, plan, rejections)
    _convert(columns, plan, rejections)
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
    return Rows(frame.drop(columns=[name for name in plan.extra if name in frame]), rejections)


def _adjusted(frame: pd.DataFrame, plan: ImportPlan, rejections: Rejections) -> pd.DataFrame:
    """Return rows after what their layout does to them; those to which it gives a reason are rejected."""
    frame = plan.adjust(frame)  # type: ignore[misc]
    if REASON not in frame:
        return frame
    wrong = frame[REASON].notna().to_numpy()
    for origin, why in zip(frame[ORIGIN][wrong].tolist(), frame[REASON][wrong].tolist(), strict=True):
        rejections.reject_one(origin, why)
    return frame[~wrong].drop(columns=REASON)


def _series(values: Any) -> Any:
    return values.category() if isinstance(values, Words) else values


def _words(chunk: Chunk, plan: ImportPlan, rejections: Rejections) -> dict[str, Any]:
    columns: dict[str, Any] = {}
    wanted = [name for name, kind in plan.kinds.items() if kind in (*_WORDS, Kind.FLAG)]
    for name in wanted:
        raw = plan.raw(name, chunk)
        if raw is not None:
            texts = _texts(raw, name, len(chunk), rejections)
            is_flag = plan.kinds[name] is Kind.FLAG
            columns[name] = _flags(texts, name, rejections) if is_flag else texts
    for name in {*plan.values} & {*columns}:
        columns[name] = columns[name].replaced(partial(_replaced, plan.values[name]))
    if "exchange" in columns:
        columns["exchange"] = columns["exchange"].replaced(venue_slug)
    instruments.read_names(columns, plan, rejections)
    for name, column in plan.table.columns.items():
        if column.allowed and name in columns:
            _hold_to(columns, name, column, rejections, plan)
    return columns


def _replaced(words: Mapping[str, str], text: str) -> str:
    return words.get(text.lower(), text)


def _texts(raw: pa.ChunkedArray | str, name: str, size: int, rejections: Rejections) -> Words:
    """Return a column of text; values that are lists or objects are rejected."""
    if isinstance(raw, str):
        return repeated_word(raw, size)
    if is_nested(raw):
        rejections.reject(np.asarray(raw.is_valid()), lambda row: f"{name}={shown(raw, row)} is not text")
        return Words(np.full(size, -1, dtype=np.int32), [])
    return encoded(raw)


def _flags(words: Words, name: str, rejections: Rejections) -> Array:
    known = words.mapped(lambda text: _FLAGS.get(text.lower()))
    wrong = ~words.is_missing & pd.isna(known)
    texts = words.strings() if wrong.any() else known
    rejections.reject(wrong, lambda row: f"{name}={texts[row]!r} is not true or false")
    return known


_SIDES = {
    "options": {"c": "call", "calls": "call", "p": "put", "puts": "put"},
    "liquidations": {"longs": "long", "shorts": "short"},
    "orderbook": {"bids": "bid", "b": "bid", "asks": "ask", "a": "ask"},
}
"""Words of a side that have one meaning anywhere in a table of a family."""


def _hold_to(
    columns: dict[str, Any], name: str, column: Column, rejections: Rejections, plan: ImportPlan
) -> None:
    family = plan.table.name.partition("_")[0]
    other = _SIDES.get(family, {}) if name == "side" else {}
    spell = speller(column)
    original = columns[name]
    words = original.replaced(lambda text: other.get(text.strip().lower(), spell(text)))
    wrong = ~words.is_missing & ~words.is_in(column.allowed)
    if wrong.any():
        texts = original.strings()
        rejections.reject(wrong, lambda row: f"{name}={texts[row]!r} {_choice(name, column, texts[row])}")
    columns[name] = words


def _choice(name: str, column: Column, text: str) -> str:
    allowed = " or ".join(column.allowed)
    pairs = " or ".join(f"--map-value {name}:{text}={word}" for word in column.allowed[:2])
    return f"is not {allowed}: say what the word means with {pairs}"


def _numbers(chunk: Chunk, plan: ImportPlan, rejections: Rejections) -> dict[str, Any]:
    kinds = plan.kinds
    wanted = [name for name, kind in kinds.items() if kind in _NUMBERS]
    if "rate_bps_8h" in wanted and "interval_hours" not in wanted:
        wanted.append("interval_hours")
    wanted += ["price_usd"] if plan.unit in IN_COINS else []
    if takes_contract_size(plan.table):
        wanted.append("contract_size")
    columns: dict[str, Any] = {}
    for name in dict.fromkeys(wanted):
        raw = plan.raw(name, chunk)
        if raw is None:
            continue
        column = pa.chunked_array([pa.repeat(raw, len(chunk))]) if isinstance(raw, str) else raw
        if name == "interval_hours":
            columns[name] = interval_hours(column, rejections)
            continue
        columns[name] = values = numbers(column, name, rejections, suffix=_suffix(name, column, plan))
        if kinds.get(name) in (Kind.COUNT, Kind.RANK):
            broken = np.isfinite(values) & (values != np.round(values))
            rejections.reject(broken, partial(_shown_with, name, values, "is not a whole number"))
    return columns


def _shown_with(name: str, values: Array, why: str, row: int) -> str:
    return f"{name}={values[row]:g} {why}"


def _suffix(name: str, column: pa.ChunkedArray, plan: ImportPlan) -> str:
    """Return ``%`` where cells of rates or volatilities end in it; the unit must then be in percent."""
    if name not in ("rate_bps_8h", "iv") or not pa.types.is_string(column.type):
        return ""
    if not pc.any(pc.ends_with(pc.utf8_trim_whitespace(column), "%")).as_py():
        return ""
    if plan.unit is None or not plan.unit.startswith("percent"):
        raise ArchiveError(f"cells of {name} end in %: say --unit percent")
    return "%"


def _times(chunk: Chunk, plan: ImportPlan, rejections: Rejections, columns: dict[str, Any]) -> dict[str, Any]:
    groups = [columns[name] for name in ("symbol", *plan.table.key) if name in columns]
    result: dict[str, Any] = {}
    kinds = plan.kinds
    for name, kind in kinds.items():
        if kind is not Kind.TIME:
            continue
        raw = plan.raw(name, chunk)
        if raw is None:
            continue
        values = pa.chunked_array([pa.repeat(raw, len(chunk))]) if isinstance(raw, str) else raw
        codes = [group.codes if isinstance(group, Words) else group for group in groups]
        stamps = instants(values, name, rejections, tz=plan.tz, groups=codes if name == "time" else None)
        result[name] = stamps
    return result


def _hold_to_range(columns: dict[str, Any], plan: ImportPlan, rejections: Rejections) -> None:
    """Reject what cannot be: figures outside the range of their column, a stamp of the future."""
    for name, column in plan.table.columns.items():
        values = columns.get(name)
        # What a layout converts at last is held to its range before it is written.
        if values is None or column.kind not in _NUMBERS or plan.adjust is not None:
            continue
        for wrong, why in column.outside(values):
            rejections.reject(wrong, partial(_shown_with, name, values, why))
    if "rate_bps_8h" in columns and "interval_hours" in columns:
        paid = np.abs(columns["rate_bps_8h"]) / 8 * columns["interval_hours"]
        rejections.reject(
            paid > MOST_PAID_BPS,
            lambda row: (
                f"rate_bps_8h is a payment of {paid[row] / 100:g} % of the position: at most "
                f"{MOST_PAID_BPS / 100:g} % are possible"
            ),
        )
    if "time" in columns and "future" not in plan.accept:
        stamps = columns["time"]
        ahead = np.asarray(stamps > future_limit())
        rejections.reject(
            ahead, lambda row: f"time={times.iso(stamps[row])} lies in the future (or --accept future)"
        )


SPACED_HOURS = 8.0
MOST_PAID_BPS = 3_000.0
"""The largest payment [bps of the position]: 30 %."""


def _require(chunk: Chunk, columns: dict[str, Any], plan: ImportPlan, rejections: Rejections) -> None:
    """Reject rows without a value that each row needs; a file without the column is refused."""
    for name in plan.table.columns:
        if not plan.required(name):
            continue
        if name not in columns:
            plan.refuse_missing(name, chunk)
        values = columns[name]
        missing = values.is_missing if isinstance(values, Words) else pd.isna(values)
        rejections.reject(missing, f"{name} is missing")


def _convert(columns: dict[str, Any], plan: ImportPlan, rejections: Rejections) -> None:
    """Convert rates, amounts, volatilities and shares to the table's units."""
    if "rate_bps_8h" in columns:
        _convert_rate(columns, plan, rejections)
    if takes_contract_size(plan.table):
        _convert_amounts(columns, plan, rejections)
    if "iv" in columns:
        _convert_volatility(columns, plan)
    if "long_short_ratio" in plan.table.columns:
        _convert_ratio(columns, rejections)


def _convert_amounts(columns: dict[str, Any], plan: ImportPlan, rejections: Rejections) -> None:
    if plan.unit in IN_COINS and (price := columns.get("price_usd")) is not None:
        rejections.reject(price <= 0, lambda row: f"price_usd={price[row]:g} is no price")
    if "contract_size" in columns:
        _of_contracts(columns, plan)
    elif plan.unit == "contracts":
        raise ArchiveError(
            "--unit contracts needs the coins of a contract: say --set contract_size=0.01, or its column "
            "with --map contract_size=COLUMN"
        )
    if "filled_quantity" in plan.table.columns:
        _convert_value(columns)


def _convert_volatility(columns: dict[str, Any], plan: ImportPlan) -> None:
    if plan.unit is None:
        try:
            require_decimal_volatility(columns["iv"], "say --unit percent, or --unit decimal if it is not")
        except ValueError as fault:
            raise ArchiveError(str(fault)) from None
    if plan.unit == "percent":
        columns["iv"] = columns["iv"] / 100


def _of_contracts(columns: dict[str, Any], plan: ImportPlan) -> None:
    """Multiply amounts in contracts by the size of one."""
    names = ("oi_usd",) if plan.table.name == "oi_history" else ("quantity", "filled_quantity")
    for name in names:
        if name in columns:
            columns[name] = columns[name] * columns["contract_size"]


def _convert_value(columns: dict[str, Any]) -> None:
    """Value liquidations by price × quantity where the file has no value."""
    sizes = [columns[name] for name in ("filled_quantity", "quantity") if name in columns]
    prices = [columns[name] for name in ("fill_price_usd", "order_price_usd") if name in columns]
    if not sizes or not prices:
        return
    size, price = _first_known(sizes), _first_known(prices)
    stated = columns.get("value_usd")
    columns["value_usd"] = (
        price * size if stated is None else np.where(np.isnan(stated), price * size, stated)
    )


def _first_known(columns: list[Array]) -> Array:
    result = columns[0]
    for other in columns[1:]:
        result = np.where(np.isnan(result), other, result)
    return result


def _convert_ratio(columns: dict[str, Any], rejections: Rejections) -> None:
    """Take the ratio from the shares where both are there, and else the shares from the ratio."""
    nothing = np.full(len(rejections.bad), np.nan)
    long, short = (columns.get(name, nothing) for name in ("long_share", "short_share"))
    stated = columns.get("long_short_ratio", nothing)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(np.isnan(stated) & ~np.isnan(long) & ~np.isnan(short), long / short, stated)
        share = ratio / (1 + ratio)
    rejections.reject(~np.isfinite(ratio), "long_short_ratio is missing, and no shares give it")
    columns["long_short_ratio"] = ratio
    if "long_share" not in columns:  # an export with empty shares comes back as it was
        columns["long_share"] = share
    if "short_share" not in columns:
        columns["short_share"] = 1 - columns["long_share"]


def _convert_rate(columns: dict[str, Any], plan: ImportPlan, rejections: Rejections) -> None:
    rate = columns["rate_bps_8h"]
    if plan.unit in (None, "bps_8h"):
        return
    scale, hours = RATE_UNITS[plan.unit]
    own: Any = hours
    if hours is None and plan.is_spaced:
        own = SPACED_HOURS  # until the interval is known from the spacing of all rows
    elif hours is None:
        if "interval_hours" not in columns:
            raise ArchiveError(
                f"--unit {plan.unit} is per the venue's own interval: say which with "
                "--set interval_hours=8 or --map interval_hours=COLUMN"
            )
        own = columns["interval_hours"]
        rejections.reject(np.isnan(own), "interval_hours is missing")
    with np.errstate(divide="ignore", invalid="ignore"):
        columns["rate_bps_8h"] = units.convert(rate / scale, "native", "bps_8h", hours=own)


_PRICES = ("prices_history", "markets_symbol_exchanges")
_OLDEST = pd.Timedelta(1, "h")
_KINDS = ("last", "index", "mark")  # of prices at one instant the last of these is taken


def usd_from_coins(rows: pd.DataFrame, archive: Archive) -> pd.DataFrame:
    """Return rows of ``oi_history`` whose ``oi_usd`` [coins] was multiplied by the price of its time.

    That is the row's ``price_usd``, or else the venue's newest of the hour before in the archive (mark, or
    else index, or else last), or else another venue's.
    """
    price = rows["price_usd"] if "price_usd" in rows else pd.Series(np.nan, index=rows.index)
    if price.isna().any():
        price = price.fillna(_price_in_archive(rows, archive))
    missing = np.flatnonzero(price.isna())
    if missing.size:
        first = rows.iloc[missing[0]]
        raise ArchiveError(
            f"oi_usd: {missing.size:,} of {len(rows):,} rows are in coins, and the archive has no price of "
            f"{first['symbol']} within the hour before {times.iso(first['time'])}: name the file's column of "
            "prices [USD] with --map price_usd=COLUMN, or import prices_history first"
        )
    return rows.assign(oi_usd=rows["oi_usd"] * price).drop(columns="price_usd", errors="ignore")


def _price_in_archive(rows: pd.DataFrame, archive: Archive) -> pd.Series:
    prices = _prices(rows, archive)
    wanted = rows[["symbol", "exchange", "time"]].astype({"symbol": object, "exchange": object})
    wanted = wanted.assign(row=rows.index).sort_values("time", kind="stable")
    own, other = (
        pd.merge_asof(wanted, prices[[*by, "time", "price_usd"]], on="time", by=by, tolerance=_OLDEST)
        for by in (["symbol", "exchange"], ["symbol"])
    )
    return own["price_usd"].fillna(other["price_usd"]).set_axis(own["row"])


def _prices(rows: pd.DataFrame, archive: Archive) -> pd.DataFrame:
    """Return the archive's prices of these symbols and times, in the order in which the last one counts."""
    first, last = rows["time"].min() - _OLDEST, rows["time"].max() + pd.Timedelta(1, "us")
    symbols = sorted(set(rows["symbol"].astype(object)))
    parts = [archive.read(name, first, last, symbols=symbols) for name in _PRICES]
    columns = ["symbol", "exchange", "time", "price_usd", "kind"]
    parts = [part.reindex(columns=columns).astype(dict.fromkeys(columns[:2], object)) for part in parts]
    prices = pd.concat([part.assign(kind=part["kind"].astype(object)) for part in parts], ignore_index=True)
    prices = prices[prices["price_usd"] > 0].assign(rank=lambda p: p["kind"].map(_KINDS.index, "ignore"))
    return prices.sort_values(["time", "rank", "exchange"], na_position="first", kind="stable")


_TELLING = (
    "exchange symbol time side order_price_usd fill_price_usd quantity filled_quantity value_usd order_id"
).split()


def with_ids(frame: pd.DataFrame, made: tuple[str, ...], seen: Counter[str]) -> pd.DataFrame:
    """Return the frame with ids made of the rows that lack one; `seen` counts equal rows of one file."""
    lacking = [name for name in made if name not in frame or frame[name].isna().any()]
    if not lacking or frame.empty:
        return frame
    telling = [frame[name].tolist() for name in _TELLING if name in frame.columns and name not in made]
    ids = []
    for row in zip(*telling, strict=True):
        text = "\x1f".join(one.isoformat() if isinstance(one, pd.Timestamp) else repr(one) for one in row)
        seen[text] += 1
        number = f"\x1f{seen[text]}" if seen[text] > 1 else ""
        ids.append("row-" + hashlib.blake2b((text + number).encode(), digest_size=12).hexdigest())
    new = pd.Series(ids, frame.index, dtype="str")
    filled = {name: frame[name].astype("str").fillna(new) if name in frame else new for name in lacking}
    return frame.assign(**filled)
