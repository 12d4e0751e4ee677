"""Rows of a file as rows of a table; each one that does not fit is rejected with its reason."""

from __future__ import annotations

import hashlib
from collections import Counter
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from derivdata import units
from derivdata.errors import ArchiveError
from derivdata.sources.archive.archive import Archive
from derivdata.sources.archive.audit import future_limit, speller
from derivdata.sources.archive.importing.plan import ImportPlan
from derivdata.sources.archive.importing.readers import Chunk
from derivdata.sources.archive.importing.values import Rejections, instants, numbers, shown, words
from derivdata.support import times
from derivdata.tables.contracts import contract, hip3_contract, venue_slug
from derivdata.tables.required import require_decimal_volatility
from derivdata.tables.schema import Column, Kind

RANK, CONTRACT = "quote_rank", "contract_name"
_WORDS = (Kind.TEXT, Kind.LABEL)
_FLAGS = {"true": True, "1": True, "false": False, "0": False}


class Rows(NamedTuple):
    """Rows that fit, with each contract's name and its quote's rank; how many do not, the first reason."""

    frame: pd.DataFrame
    rejected: int
    first: str | None


def rows(chunk: Chunk, plan: ImportPlan) -> Rows:
    """Return the rows of a chunk that fit the table, in the table's names and units."""
    rejections = Rejections(len(chunk.lines))
    ragged = np.isin(np.arange(len(chunk.lines)), list(chunk.ragged))
    rejections.reject(ragged, lambda i: chunk.ragged[i])
    columns = _words(chunk, plan, rejections) | _numbers(chunk, plan, rejections)
    columns |= _times(chunk, plan, rejections, columns)
    _hold_to_range(columns, plan, rejections)
    _convert(columns, plan, rejections)
    for name in plan.table.columns:
        if name in columns and plan.required(name):
            rejections.reject(pd.isna(columns[name]), f"{name} is missing")
    names = [name for name in (*plan.table.columns, "price_usd", RANK, CONTRACT) if name in columns]
    frame = pd.DataFrame({name: columns[name] for name in names})[~rejections.bad]
    if plan.adjust is not None and len(frame):
        frame = plan.adjust(frame)
    if rejections.first is None:
        return Rows(frame, 0, None)
    where, why = rejections.first
    return Rows(frame.reset_index(drop=True), int(rejections.bad.sum()), f"line {chunk.lines[where]}: {why}")


def quotes(chunk: Chunk, plan: ImportPlan) -> set[tuple[str, str, int]]:
    """Venue, base symbol and quote's rank of every contract in a chunk."""
    columns = _words(chunk, plan, Rejections(len(chunk.lines)))
    return set(zip(columns["exchange"], columns["symbol"], columns[RANK].tolist(), strict=True))


def _words(chunk: Chunk, plan: ImportPlan, rejections: Rejections) -> dict[str, Any]:
    columns: dict[str, Any] = {}
    for name, column in plan.table.columns.items():
        if column.kind in _WORDS and (raw := plan.raw(name, chunk)) is not None:
            columns[name] = np.array(words(raw, name, rejections), dtype=object)
            replaced = plan.values.get(name, {})
            if replaced:
                given = columns[name]
                columns[name] = _mapped(given, {w: replaced.get(w.lower(), w) for w in given if w}.get)
            _hold_to(columns, name, column, raw, rejections)
        elif column.kind is Kind.FLAG and (raw := plan.raw(name, chunk)) is not None:
            columns[name] = _flags(raw, name, rejections)
    if "exchange" in columns:
        columns["exchange"] = _mapped(columns["exchange"], venue_slug)
    if "symbol" in columns:
        columns[CONTRACT] = columns["symbol"]
        contracts = _mapped(columns["symbol"], contract)
        columns["symbol"] = np.array([c and c.symbol for c in contracts], dtype=object)
        columns[RANK] = np.array([0 if c is None else c.rank for c in contracts])
        if "exchange" in columns:
            _name_hip3_contracts(columns, rejections)
    return columns


def _name_hip3_contracts(columns: dict[str, Any], rejections: Rejections) -> None:
    """Give contracts of Hyperliquid's dexes the venue and symbol that the adapters give them."""
    pairs = list(zip(columns["exchange"], columns["symbol"], strict=True))
    renamed: dict[tuple[str, str], tuple[str, str]] = {}
    refused: dict[tuple[str, str], str] = {}
    for pair in set(pairs):
        if None in pair or ":" not in pair[1]:
            continue
        try:
            renamed[pair] = hip3_contract(*pair)
        except ValueError as problem:
            refused[pair] = str(problem)
    if renamed:
        columns["exchange"] = np.array([renamed.get(pair, pair)[0] for pair in pairs], dtype=object)
        columns["symbol"] = np.array([renamed.get(pair, pair)[1] for pair in pairs], dtype=object)
    if refused:
        rejections.reject(np.array([pair in refused for pair in pairs]), lambda i: refused[pairs[i]])


def _flags(raw: Any, name: str, rejections: Rejections) -> Any:
    texts = _mapped(words(raw, name, rejections), str.lower)
    wrong = np.array([word is not None and word not in _FLAGS for word in texts])
    rejections.reject(wrong, lambda i: f"{name}={shown(raw, i)} is not true or false")
    return _mapped(texts, _FLAGS.get)


def _hold_to(columns: dict[str, Any], name: str, column: Column, raw: Any, rejections: Rejections) -> None:
    if allowed := column.allowed:
        columns[name] = _mapped(columns[name], speller(column))
        wrong = np.array([word is not None and word not in allowed for word in columns[name]])
        choice = " or ".join(f"--set {name}={word}" for word in allowed[:2])
        why = f"is not {' or '.join(allowed)}: if all rows are one of them, say {choice}"
        rejections.reject(wrong, lambda i: f"{name}={shown(raw, i)} {why}")


def _mapped(values: Any, change: Any) -> Any:
    changed = {value: None if value is None else change(value) for value in set(values)}
    result = np.empty(len(values), dtype=object)
    result[:] = [changed[value] for value in values]
    return result


def _numbers(chunk: Chunk, plan: ImportPlan, rejections: Rejections) -> dict[str, Any]:
    kinds = {name: column.kind for name, column in plan.table.columns.items()}
    wanted = [name for name, kind in kinds.items() if kind in (Kind.NUMBER, Kind.COUNT, Kind.RANK)]
    if "rate_bps_8h" in wanted and "interval_hours" not in wanted:
        wanted.append("interval_hours")
    if plan.unit == "coins":
        wanted.append("price_usd")
    columns = {}
    for name in wanted:
        raw = plan.raw(name, chunk)
        if raw is not None:
            columns[name] = values = numbers(raw, name, rejections, suffix=_suffix(name, raw, plan))
            if kinds.get(name) in (Kind.COUNT, Kind.RANK):
                broken = np.isfinite(values) & (values != np.round(values))
                for first in values[broken][:1]:
                    rejections.reject(broken, f"{name}={first:g} is not a whole number")
    return columns


def _suffix(name: str, raw: Any, plan: ImportPlan) -> str:
    """Return the unit that cells of a column may state: ``h`` of hours, ``%`` where the unit is percent."""
    if name == "interval_hours":
        return "h"
    if name not in ("rate_bps_8h", "iv") or not any(
        isinstance(v, str) and v.strip().endswith("%") for v in raw
    ):
        return ""
    if plan.unit != "percent":
        raise ArchiveError(f"cells of {name} end in %: say --unit percent")
    return "%"


def _hold_to_range(columns: dict[str, Any], plan: ImportPlan, rejections: Rejections) -> None:
    """Reject what cannot be: less than the least of a column, no interval, a stamp of the future."""
    for name, column in plan.table.columns.items():
        values = columns.get(name)
        if values is not None and column.least is not None:
            impossible = values <= column.least if column.positive else values < column.least
            why = "is not above 0" if column.positive else "is negative"
            for first in values[impossible][:1]:
                rejections.reject(impossible, f"{name}={first:g} {why}")
    if "interval_hours" in columns:
        hours = columns["interval_hours"]
        rejections.reject(hours <= 0, lambda i: f"interval_hours={hours[i]:g} is no interval")
    if "time" in columns and "future" not in plan.accept:
        stamps = columns["time"]
        ahead = np.asarray(stamps > future_limit())
        rejections.reject(
            ahead, lambda i: f"time={times.iso(stamps[i])} lies in the future (or --accept future)"
        )


def _times(chunk: Chunk, plan: ImportPlan, rejections: Rejections, columns: dict[str, Any]) -> dict[str, Any]:
    groups = [columns[name] for name in ("symbol", *plan.table.key) if name in columns]
    return {
        name: instants(raw, name, rejections, tz=plan.tz, groups=groups if name == "time" else None)
        for name, column in plan.table.columns.items()
        if column.kind is Kind.TIME and (raw := plan.raw(name, chunk)) is not None
    }


def _convert(columns: dict[str, Any], plan: ImportPlan, rejections: Rejections) -> None:
    if "rate_bps_8h" in columns:
        _convert_rate(columns, plan, rejections)
    if plan.unit == "coins" and (price := columns.get("price_usd")) is not None:
        rejections.reject(price <= 0, lambda i: f"price_usd={price[i]:g} is no price")
    if "iv" in columns:
        if plan.unit is None:
            try:
                require_decimal_volatility(
                    columns["iv"], "say --unit percent, or --unit decimal if it is not"
                )
            except ValueError as fault:
                raise ArchiveError(str(fault)) from None
        if plan.unit == "percent":
            columns["iv"] = columns["iv"] / 100
    if "long_short_ratio" in plan.table.columns:
        _convert_ratio(columns, rejections)


def _convert_ratio(columns: dict[str, Any], rejections: Rejections) -> None:
    """Take the ratio from the shares where both are there, and else the shares from the ratio."""
    nothing = np.full(len(rejections.bad), np.nan)
    long, short = (columns.get(name, nothing) for name in ("long_share", "short_share"))
    stated = columns.get("long_short_ratio", nothing)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(np.isnan(long) | np.isnan(short), stated, long / short)
        share = ratio / (1 + ratio)
    rejections.reject(~np.isfinite(ratio), "long_short_ratio is missing, and no shares tell it")
    columns["long_short_ratio"] = ratio
    columns["long_share"] = np.where(np.isnan(long), share, long)
    columns["short_share"] = np.where(np.isnan(short), 1 - share, short)


def _convert_rate(columns: dict[str, Any], plan: ImportPlan, rejections: Rejections) -> None:
    rate = columns["rate_bps_8h"]
    if plan.unit in (None, "bps_8h"):
        return
    if "interval_hours" not in columns:
        raise ArchiveError(
            f"--unit {plan.unit} is per the venue's own interval: say which with "
            "--set interval_hours=8 or --map interval_hours=COLUMN"
        )
    hours = columns["interval_hours"]
    rejections.reject(np.isnan(hours), "interval_hours is missing")
    scale = {"native": 1.0, "percent": 100.0, "bps": units.BPS}[plan.unit]
    with np.errstate(divide="ignore", invalid="ignore"):
        columns["rate_bps_8h"] = units.convert(rate / scale, "native", "bps_8h", hours=hours)


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
    """Return the frame with the columns of `made` filled; `seen` counts equal rows of one file."""
    if not made or frame.empty:
        return frame
    telling = [frame[name].tolist() for name in _TELLING if name in frame.columns and name not in made]
    ids = []
    for row in zip(*telling, strict=True):
        text = "\x1f".join(one.isoformat() if isinstance(one, pd.Timestamp) else repr(one) for one in row)
        seen[text] += 1
        number = f"\x1f{seen[text]}" if seen[text] > 1 else ""
        ids.append("row-" + hashlib.blake2b((text + number).encode(), digest_size=12).hexdigest())
    return frame.assign(**dict.fromkeys(made, ids))
